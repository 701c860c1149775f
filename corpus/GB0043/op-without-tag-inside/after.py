import torch

lib = torch.library.Library("shop", "FRAGMENT")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
torch._dynamo.config.only_allow_pt2_compliant_ops = True


def f(x):
    x_sin = f_before(x)
    twice_x_sin = torch.ops.shop.twice(x_sin)
    return f_after(twice_x_sin)


@torch.compile
def f_before(x):
    x_sin = x.sin()
    return x_sin


@torch.compile
def f_after(twice_x_sin):
    return twice_x_sin + 1


print(f(torch.ones(2)))
