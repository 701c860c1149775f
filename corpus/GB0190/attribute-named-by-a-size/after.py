import torch


class Scales(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale_3 = 2.0
        self.scale_4 = 3.0

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        getattr_1 = getattr(self, "scale_{}".format(x.shape[0]))
        return self.forward_after(x, getattr_1)

    def forward_after(self, x, getattr_1):
        return x * getattr_1


model = torch.compile(Scales(), dynamic=True)
print(model(torch.ones(3)), model(torch.ones(4)))
