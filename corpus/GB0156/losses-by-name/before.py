import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        logits = self.layer(x)
        losses = {"classes": F.cross_entropy(logits, y), "size": logits.pow(2).mean()}
        text = ", ".join(f"{name} {value.item():.4f}" for name, value in losses.items())
        print(text)
        return sum(losses.values())


torch.manual_seed(0)
loss = torch.compile(Model())(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
loss.backward()
