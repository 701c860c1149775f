import torch


def attention(q, k):
    scores = attention_before(q, k)
    scores.retain_grad()
    return attention_after(scores)


@torch.compile
def attention_before(q, k):
    scores = q @ k.transpose(-1, -2)
    return scores


@torch.compile
def attention_after(scores):
    return scores.softmax(-1), scores

torch.manual_seed(0)
q = torch.randn(2, 3, 4, requires_grad=True)
weights, scores = attention(q, torch.randn(2, 3, 4))
weights.square().sum().backward()
print(scores.grad.shape)
