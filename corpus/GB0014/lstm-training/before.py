import torch
from torch import nn

torch.manual_seed(0)
lstm = nn.LSTM(4, 5, batch_first=True)


@torch.compile
def encode(x):
    return lstm(x)[0].mean(dim=1)


loss = encode(torch.randn(2, 3, 4)).sum()
loss.backward()
print(round(loss.item(), 4))
