import torch


lib = torch.library.Library("shop", "FRAGMENT")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
torch._dynamo.config.only_allow_pt2_compliant_ops = True


@torch.library.custom_op("before::f_op", mutates_args=())
def f_op(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.shop.twice(x).clone(memory_format=torch.contiguous_format)


f_op.register_fake(lambda x: x.new_empty(x.shape))


@torch.compile
def f(x):
    return f_op(x)


print(f(torch.ones(2)))
