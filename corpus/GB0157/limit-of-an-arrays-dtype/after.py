import numpy as np
import torch


@torch.compile
def attend(scores, mask):
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1)


print(attend(torch.ones(2, 2), torch.tensor([[False, True], [False, False]])))
