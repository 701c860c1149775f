import functools
import sys

import torch


@torch.library.custom_op("before::write_wrapper", mutates_args=())
def write_wrapper(anchor: torch.Tensor, qualname: str) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    sys.stdout.write(f"into {qualname}\n")


write_wrapper.register_fake(lambda anchor, qualname: None)
write_wrapper.register_effect(torch.library.EffectType.ORDERED)


def spanned(fn):
    qualname = fn.__qualname__
    @functools.wraps(fn)
    def wrapper(x):
        write_wrapper(torch.empty(0), qualname)
        return fn(x)

    return wrapper


@spanned
def step(x):
    return x.relu() + 1


print(torch.compile(step)(torch.tensor([-1.0, 2.0])))
