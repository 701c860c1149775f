import torch


@torch.library.custom_op("before::check_init", mutates_args=())
def check_init(scale_1: torch.Tensor) -> None:
    if (scale_1 <= 0).any():
        raise ValueError("a scale is not positive")


check_init.register_fake(lambda scale_1: None)
check_init.register_effect(torch.library.EffectType.ORDERED)


class Normal:
    def __init__(self, mean, scale):
        self.mean = mean
        self.scale = scale
        check_init(self.scale)

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
