import torch
from torch import nn

torch.manual_seed(0)
lstm = nn.LSTM(4, 5, batch_first=True)


@torch._dynamo.config.patch(allow_rnn=True)
@torch.no_grad()
@torch.compile
def encode(x):
    return lstm(x)[0].mean(dim=1)


print(encode(torch.randn(2, 3, 4)))
