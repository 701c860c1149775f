import io

import torch
from torch.profiler import record_function

sink = io.BytesIO()


def attention(x):
    with record_function("scores"):
        scores = attention_part_1(x)
        torch.save(scores.detach(), sink)
        scores = attention_part_2(scores)
    return attention_part_3(x, scores)


@torch.compile
def attention_part_1(x):
    scores = x @ x.T
    return scores


@torch.compile
def attention_part_2(scores):
    scores = scores.softmax(-1)
    return scores


@torch.compile
def attention_part_3(x, scores):
    return scores @ x


print(attention(torch.ones(2, 3)))
print(attention(torch.eye(3)))
