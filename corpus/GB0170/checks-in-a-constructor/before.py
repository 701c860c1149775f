import torch


class Normal:
    def __init__(self, mean, scale):
        self.mean = mean
        self.scale = scale
        if (self.scale <= 0).any():
            raise ValueError("a scale is not positive")

    def log_prob(self, x):
        z = (x - self.mean) / self.scale
        return -0.5 * z * z - self.scale.log()


@torch.compile
def likelihood(mean, scale, x):
    return Normal(mean, scale).log_prob(x).sum()


torch.manual_seed(0)
print(likelihood(torch.zeros(4), torch.full((4,), 2.0), torch.randn(4)))
try:
    likelihood(torch.zeros(4), torch.full((4,), -2.0), torch.randn(4))
except ValueError as error:
    print(error)
