import torch

torch._dynamo.config.only_allow_pt2_compliant_ops = True
lib = torch.library.Library("shop", "FRAGMENT")
lib.define("twice.Tensor(Tensor x) -> Tensor")
lib.define("twice.Scalar(float x) -> float")
lib.impl("twice.Tensor", lambda x: x * 2, "CompositeExplicitAutograd")


@torch.compile
def f(x):
    return torch.ops.shop.twice([x])


print(f(torch.ones(2)))
