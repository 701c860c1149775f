import torch
from torch import nn


class Adapters(nn.Module):
    """Each language has an adapter; a batch holds words of some of them."""

    def __init__(self, languages=4, width=8):
        super().__init__()
        self.languages = languages
        self.adapters = nn.ModuleList(nn.Linear(width, width) for _ in range(languages))

    def forward(self, hidden, language):
        adapted = hidden.clone()
        counts = torch.zeros(self.languages, dtype=torch.int64)
        counts = counts.scatter_add(0, language.flatten(), torch.ones_like(language).flatten())
        for number in torch.nonzero(counts).squeeze(-1).tolist():
            mine = language == number
            adapted[mine] = torch.tanh(self.adapters[number](hidden[mine]))
        return hidden + adapted


torch.manual_seed(0)
model = torch.compile(Adapters(), backend="eager")
for highest in (2, 4):
    out = model(torch.randn(3, 5, 8), torch.randint(0, highest, (3, 5)))
    out.square().mean().backward()
    print(f"{out.sum().item():.4f}")
