import torch


@torch.compile
def rescale(logits):
    temperature = 0.5 if logits.abs().max() > 4 else 1.0
    return torch.softmax(logits / temperature, dim=-1)


torch.manual_seed(0)
print(rescale(torch.randn(2, 4)))
print(rescale(torch.randn(2, 4) * 9))
