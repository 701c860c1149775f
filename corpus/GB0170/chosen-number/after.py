import torch


@torch.compile
def rescale(logits):
    logits_abs_max_above_4 = logits.abs().max() > 4
    return torch.softmax(
        torch.where(logits_abs_max_above_4, logits / 0.5, logits / 1.0),
        dim=-1,
    )


torch.manual_seed(0)
print(rescale(torch.randn(2, 4)))
print(rescale(torch.randn(2, 4) * 9))
