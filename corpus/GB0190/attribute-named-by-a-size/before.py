import torch


class Scales(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale_3 = 2.0
        self.scale_4 = 3.0

    def forward(self, x):
        return x * getattr(self, "scale_{}".format(x.shape[0]))


model = torch.compile(Scales(), dynamic=True)
print(model(torch.ones(3)), model(torch.ones(4)))
