import dataclasses

import torch


@torch.compile
def f(x):
    @dataclasses.dataclass
    class Output:
        logits: torch.Tensor

    return Output(x + 1)


print(f(torch.ones(2)).logits)
