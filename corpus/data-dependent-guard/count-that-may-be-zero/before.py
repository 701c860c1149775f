import torch


@torch.compile
def masked_error(prediction, target, weight):
    count = (weight > 0).sum().item()
    error = (prediction - target).abs() * weight
    if count == 0:
        count = 1.0
    return error.sum() / count


prediction, target = torch.randn(4, 6), torch.randn(4, 6)
print(masked_error(prediction, target, torch.rand(4, 6)))
print(masked_error(prediction, target, torch.zeros(4, 6)))
