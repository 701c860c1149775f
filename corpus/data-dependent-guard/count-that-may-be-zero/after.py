import torch


@torch.compile
def masked_error(prediction, target, weight):
    count = (weight > 0).sum()
    error = (prediction - target).abs() * weight
    count = torch.where(count == 0, 1, count)
    return error.sum() / count


prediction, target = torch.randn(4, 6), torch.randn(4, 6)
print(masked_error(prediction, target, torch.rand(4, 6)))
print(masked_error(prediction, target, torch.zeros(4, 6)))
