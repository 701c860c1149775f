import torch


class Watched(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        torch.nn.init.ones_(self.layer.weight)
        self.gradient = None

    def keep(self, gradient):
        self.gradient = gradient

    def forward(self, x):
        hidden = self.layer(x)
        hidden.register_hook(self.keep)
        return hidden.square().sum()


watched = Watched()
torch.compile(watched)(torch.ones(3)).backward()
print(watched.gradient.shape)
