import sys

import torch


class Settings:
    scale = 2.0


sys.modules["settings"] = Settings()


@torch.compile
def f(x):
    import settings

    return x * settings.scale


print(f(torch.ones(2)))
