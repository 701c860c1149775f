import warnings
from numbers import Number

import torch


def has_nan(value):
    if isinstance(value, Number):
        return value != value
    return torch.isnan(value).any()


def warn_if_nan(value, message=""):
    if has_nan(value):
        warnings.warn(f"found NaN{': ' if message else '.'}{message}", stacklevel=2)
    return value


@torch.library.custom_op("before::warn_if_nan_log_density", mutates_args=())
def warn_if_nan_log_density(terms: torch.Tensor) -> None:
    warn_if_nan(terms.sum(), "in the sum")


warn_if_nan_log_density.register_fake(lambda terms: None)
warn_if_nan_log_density.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def log_density(x, mean):
    terms = -((x - mean) ** 2)
    warn_if_nan_log_density(terms)
    return terms.sum()


torch.manual_seed(0)
for rows in (3, 4):
    print(f"{log_density(torch.rand(rows), torch.rand(rows)).item():.4f}")
