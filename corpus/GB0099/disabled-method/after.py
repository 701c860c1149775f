import torch


class Net(torch.nn.Module):
    @torch.compiler.disable
    def helper(self, x):
        return x * 2
    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        helper_x = self.helper(x)
        return self.forward_after(helper_x)

    def forward_after(self, helper_x):
        return helper_x + 1
print(torch.compile(Net())(torch.ones(2)))
