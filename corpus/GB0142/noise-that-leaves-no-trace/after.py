"""Noise without a seed shows where the stream stands: another operator might have drawn first."""

import torch


@torch.library.custom_op("before::blur_op", mutates_args=())
def blur_op(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        noise = torch.rand_like(x)
    return noise.clone(memory_format=torch.contiguous_format)


blur_op.register_fake(lambda x: x.new_empty(x.shape))


blur_op.register_effect(torch.library.EffectType.ORDERED)


@torch.compile(backend="aot_eager")
def blur(x):
    y = x * 2
    noise = blur_op(x)
    return y + noise


torch.manual_seed(0)
for _ in range(2):
    print("%.3f" % blur(torch.ones(2, 3)).sum().item())
