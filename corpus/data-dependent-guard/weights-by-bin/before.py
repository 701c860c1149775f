import torch


@torch.compile
def balanced(score, valid):
    weights = torch.zeros_like(score)
    total = max(valid.sum().item(), 1)
    used = 0
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (score >= low) & (score < low + 0.25) & valid
        count = inside.sum().item()
        if count > 0:
            weights[inside] = total / count
            used += 1
    if used > 0:
        weights = weights / used
    return (score * weights).sum() / total


score = torch.rand(5, 8)
print(balanced(score, score > 0.1))
print(balanced(score, score > 0.6))
