import sys

import torch


class Settings:
    scale = 2.0


sys.modules["settings"] = Settings()


def f(x):
    import settings
    return f_after(x, settings)


@torch.compile
def f_after(x, settings):
    return x * settings.scale


print(f(torch.ones(2)))
