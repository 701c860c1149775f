import torch


@torch.compile
def with_margin(cosine, labels):
    chosen = torch.zeros_like(cosine)
    chosen.scatter_(1, labels.view(-1, 1), 1)
    chosen = chosen.byte().bool()
    shifted = cosine - 0.3
    output = cosine * 1.0
    output = torch.where(chosen, shifted, output)
    return output * 30


cosine = torch.rand(3, 5, requires_grad=True)
with_margin(cosine, torch.tensor([1, 4, 0])).sum().backward()
print(cosine.grad)
