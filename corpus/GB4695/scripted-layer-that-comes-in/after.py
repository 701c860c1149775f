import torch


class Net(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        layer_x = self.layer(x)
        return self.forward_after(layer_x)

    def forward_after(self, layer_x):
        return layer_x * 2


layer = torch.jit.script(torch.nn.Linear(2, 2))
print(torch.compile(Net(layer))(torch.ones(2)).shape)
