import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    @torch.compiler.disable
    def helper(self, x):
        return x * 2

    def forward(self, x):
        fc_x = self.forward_before(x)
        helper_fc_x = self.helper(fc_x)
        return self.forward_after(helper_fc_x)

    @torch.compile
    def forward_before(self, x):
        fc_x = self.fc(x)
        return fc_x

    @torch.compile
    def forward_after(self, helper_fc_x):
        return helper_fc_x.relu() + 1


torch.manual_seed(0)
print(Net()(torch.ones(2)))
