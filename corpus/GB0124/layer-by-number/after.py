import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(3))

    @torch.compiler.disable(recursive=False)
    def forward(self, x, number):
        int_number = int(number)
        return self.forward_after(x, int_number)

    def forward_after(self, x, int_number):
        return self.layers[int_number](x)


torch.manual_seed(0)
experts = torch.compile(Experts())
print(experts(torch.ones(2, 3), torch.tensor(1)))
print(experts(torch.ones(2, 3), torch.tensor(2)))
