import torch


def refine(x, rounds: int):
    for i in range(rounds):
        x = x - x.mean()
        torch._higher_order_ops.print("round {}: largest {:.3f} of {!s}", i, x.abs().max(), x.detach()[0])
        x.mul_(0.5)
    return x


compiled = torch.compile(refine)
print(compiled(torch.arange(6.0).reshape(2, 3), 3))
print(compiled(torch.ones(2, 3), 3))
