import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.out = nn.Linear(8, 4)

    def padding(self, lengths, width=None):
        longest = int(lengths.max()) if width is None else width
        places = torch.arange(longest, device=lengths.device).expand(lengths.size(0), longest)
        return places >= lengths.unsqueeze(1)

    def forward(self, tokens, lengths):
        torch._assert_async(lengths.max() == tokens.shape[1], "sizes do not fit: the longest of `lengths` is not `tokens.shape[1]`")
        mask = self.padding(lengths, width=tokens.shape[1])
        hidden = self.out(self.embed(tokens))
        return hidden.masked_fill(mask.unsqueeze(-1), 0).mean(1)


torch.manual_seed(0)
encode = torch.compile(Encoder())
print(encode(torch.arange(12).view(2, 6) % 10, torch.tensor([6, 4])).shape)
