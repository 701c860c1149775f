import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(3))

    def forward(self, x, number):
        return self.layers[int(number)](x)


torch.manual_seed(0)
torch._dynamo.config.capture_scalar_outputs = True
experts = torch.compile(Experts())
print(experts(torch.ones(2, 3), torch.tensor(1)))
print(experts(torch.ones(2, 3), torch.tensor(2)))
