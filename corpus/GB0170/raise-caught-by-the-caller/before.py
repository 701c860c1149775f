import torch


class Overflow(ArithmeticError):
    pass


def check(x, limit: float):
    largest = x.abs().max()
    if torch.isnan(x).any():
        raise ValueError("nan")
    elif largest > limit:
        factor = (largest / limit).item()
        raise Overflow("%.1f times too large" % factor)


def scaled(x, limit: float = 4.0):
    check(x, limit)
    return x / limit


fast = torch.compile(scaled)


def scaled_or_clamped(x):
    try:
        return fast(x)
    except Overflow as error:
        print(error)
        return x.clamp(-1, 1)


print(scaled_or_clamped(torch.ones(3)))
print(scaled_or_clamped(torch.full((3,), 8.0)))
