import torch


def attention(q, k):
    scores = q @ k.transpose(-1, -2)
    scores.retain_grad()
    return scores.softmax(-1), scores


def main():
    torch.manual_seed(0)
    compiled = torch.compile(attention, dynamic=False)
    q = torch.randn(2, 3, 4, requires_grad=True)
    weights, scores = compiled(q, torch.randn(2, 3, 4))
    weights.square().sum().backward()
    return scores.grad


if __name__ == "__main__":
    print(main().shape)
