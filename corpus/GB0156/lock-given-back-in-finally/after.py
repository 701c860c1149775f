import threading

import torch

lock = threading.Lock()
peaks = []


def f(x):
    lock.acquire()
    try:
        y = f_part_1(x)
        if peaks[-1] > 100:
            raise ValueError("too large")
    finally:
        lock.release()
    return f_part_2(y)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_f_part_1", mutates_args=())
def keep_f_part_1(y: torch.Tensor) -> None:
    peaks.append(y.max().item())


keep_f_part_1.register_fake(lambda y: None)
keep_f_part_1.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def f_part_1(x):
    y = x.sin()
    keep_f_part_1(y)
    return y


@torch.compile
def f_part_2(y):
    return y * 2


print(f(torch.ones(3)), peaks, lock.locked())
