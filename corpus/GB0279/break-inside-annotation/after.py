import torch


@torch.compile
def staged(x):
    with torch.fx.traceback.annotate({"stage": 1}):
        x = x.sin()
        torch._higher_order_ops.print("first stage done")
        x = x + 1
    return x


print(staged(torch.ones(3)))
