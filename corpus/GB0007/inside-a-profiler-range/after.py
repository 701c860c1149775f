import io

import torch
from torch.profiler import record_function

sink = io.BytesIO()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::save_attention", mutates_args=())
def save_attention(scores: torch.Tensor) -> None:
    torch.save(scores.detach(), sink)


save_attention.register_fake(lambda scores: None)
save_attention.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def attention(x):
    with record_function("scores"):
        scores = x @ x.T
        save_attention(scores)
        scores = scores.softmax(-1)
    return scores @ x


print(attention(torch.ones(2, 3)))
print(attention(torch.eye(3)))
