import torch
from torch import nn

torch.manual_seed(0)
lstm = nn.LSTM(4, 5, batch_first=True)


def encode(x):
    lstm_x = lstm(x)
    return encode_after(lstm_x)


@torch.compile
def encode_after(lstm_x):
    return lstm_x[0].mean(dim=1)


loss = encode(torch.randn(2, 3, 4)).sum()
loss.backward()
print(loss.item())
