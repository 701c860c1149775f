import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=8, layerdrop=0.1):
        super().__init__()
        self.layerdrop = layerdrop
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, hidden):
        for layer in self.layers:
            # Layer drop: https://arxiv.org/abs/1909.11556
            to_drop = False
            if self.training:
                dropout_probability = torch.rand([])
                if dropout_probability < self.layerdrop:  # skip the layer
                    to_drop = True
            if not to_drop:
                hidden = nn.functional.dropout(layer(hidden), 0.1, self.training)
        return hidden


torch.manual_seed(0)
encoder = torch.compile(Encoder().train())
encoder(torch.randn(2, 8)).sum().backward()
print(sum(parameter.grad is not None for parameter in encoder.parameters()))
