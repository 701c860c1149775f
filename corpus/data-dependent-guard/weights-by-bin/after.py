import torch


@torch.compile
def balanced(score, valid):
    weights = torch.zeros_like(score)
    total = valid.sum().clamp(min=1)
    used = 0
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (score >= low) & (score < low + 0.25) & valid
        count = inside.sum().double()
        count_above_0 = count > 0
        weights[inside & count_above_0] = total / count
        used = torch.where(count_above_0, used + 1, used)
    weights = torch.where(used > 0, weights / used, weights)
    return (score * weights).sum() / total


score = torch.rand(5, 8)
print(balanced(score, score > 0.1))
print(balanced(score, score > 0.6))
