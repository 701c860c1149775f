import torch


def attention(q, k):
    scores = q @ k.transpose(-1, -2)
    scores.retain_grad()
    return scores.softmax(-1), scores


attention = torch.compile(attention)

torch.manual_seed(0)
q = torch.randn(2, 3, 4, requires_grad=True)
weights, scores = attention(q, torch.randn(2, 3, 4))
weights.square().sum().backward()
print(scores.grad.shape)
