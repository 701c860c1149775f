import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.out = nn.Linear(8, 4)

    def padding(self, lengths):
        longest = int(lengths.max())
        places = torch.arange(longest, device=lengths.device).expand(lengths.size(0), longest)
        return places >= lengths.unsqueeze(1)

    def forward(self, tokens, lengths):
        mask = self.padding(lengths)
        hidden = self.out(self.embed(tokens))
        return hidden.masked_fill(mask.unsqueeze(-1), 0).mean(1)


torch.manual_seed(0)
encode = torch.compile(Encoder())
print(encode(torch.arange(12).view(2, 6) % 10, torch.tensor([6, 4])).shape)
