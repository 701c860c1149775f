import io

import torch
from torch.profiler import record_function

sink = io.BytesIO()


@torch.compile
def attention(x):
    with record_function("scores"):
        scores = x @ x.T
        torch.save(scores.detach(), sink)
        scores = scores.softmax(-1)
    return scores @ x


print(attention(torch.ones(2, 3)))
print(attention(torch.eye(3)))
