import torch


@torch.compile
def fn(x):
    scores = torch.softmax(x, dim=-1)

    # Confident rows are done.
    if scores.max() > 0.9:
        return scores.log()
    for _ in range(2):
        scores = scores @ scores.t() @ scores  # smoothing
        scores = torch.softmax(scores, dim=-1)

    return scores


torch.manual_seed(0)
x = torch.randn(4, 3)
for scale in (10, 0.1):
    print(fn(scale * x))
