"""An id that came twice is made less likely twice: a mask would do it once."""

import torch


@torch.compile(backend="aot_eager")
def discourage(scores, chosen, factor):
    scores = scores.clone()
    for i in chosen.clone().long().unbind():
        scores[i[None]] = (scores[i[None]].squeeze(0) * factor).to(scores.dtype)
    return scores.softmax(-1)


torch.manual_seed(0)
for _ in range(2):
    result = discourage(torch.randn(6), torch.randint(0, 6, (4,)), 0.5)
    print("%.3f" % result.max().item())
