import torch


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        weight = torch.nn.Parameter(self.table.data)
        return self.forward_after(x, weight)

    def forward_after(self, x, weight):
        return x @ weight


print(torch.compile(Tied())(torch.ones(2)))
