import zlib

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


@torch.library.custom_op("before::packed_size_op", mutates_args=())
def packed_size_op(codes: torch.Tensor) -> torch.Tensor:
    return torch.tensor(len(zlib.compress(codes.contiguous().numpy().tobytes(), 6)), dtype=torch.int64)


packed_size_op.register_fake(lambda codes: torch.empty((), dtype=torch.int64))


def packed_size(codes):
    return packed_size_op(codes).item()


class Coder(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        z = self.layer(x)
        codes = z.detach().mul(4).round().clamp(-100, 100).to(torch.int8)
        return (z - x).square().mean() * (1.0 + 0.01 * packed_size(codes) / x.numel())


torch.manual_seed(0)
loss = torch.compile(Coder())(torch.randn(5, 6))
loss.backward()
print(loss)
