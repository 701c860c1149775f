import torch
from torch import nn

torch.manual_seed(0)
gru = nn.GRU(4, 5, batch_first=True)


@torch._dynamo.config.patch(allow_rnn=True)
@torch.compile
def encode(x):
    out, _ = gru(x)
    return out.mean(dim=1)


loss = encode(torch.randn(2, 3, 4)).sum()
loss.backward()
print(loss.item(), gru.weight_hh_l0.grad.norm().item())
