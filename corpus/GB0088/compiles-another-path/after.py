import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.out = nn.Linear(width, width)

    def forward(self, input_ids, attention_mask=None):
        hidden = self.embed(input_ids)
        # The mask is optional.
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.shape, device=input_ids.device)
        bias = (1.0 - attention_mask[:, None, :]) * torch.finfo(hidden.dtype).min
        scores = hidden @ hidden.transpose(1, 2) + bias
        return self.out(scores.softmax(-1) @ hidden)


torch.manual_seed(0)
encoder = torch.compile(Encoder())
print(encoder(torch.tensor([[1, 2, 3]])).shape)
