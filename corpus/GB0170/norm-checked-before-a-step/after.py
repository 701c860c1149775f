"""A step by hand: gradients of a function of the weights, clipped to a norm, and written back."""

import torch


@torch.library.custom_op("before::check_clipped", mutates_args=())
def check_clipped(norm: torch.Tensor) -> None:
    if not torch.isfinite(norm):
        raise FloatingPointError(f"the norm is {norm}")


check_clipped.register_fake(lambda norm: None)
check_clipped.register_effect(torch.library.EffectType.ORDERED)


def clipped(grads, limit):
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    check_clipped(norm)
    grads = torch.cond(
        norm > limit,
        lambda: [grad * (limit / (norm + 1e-6)) for grad in grads],
        lambda: [tensor.clone() for tensor in grads],
    )
    return grads


model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}


def loss_of(weights, x, y):
    return (torch.func.functional_call(model, weights, (x,)).squeeze(1) - y).square().mean()


@torch.compile
def step(x, y):
    grads, loss = torch.func.grad_and_value(loss_of)(weights, x, y)
    for weight, grad in zip(weights.values(), clipped(list(grads.values()), 0.5)):
        weight.sub_(grad, alpha=0.1)
    return loss


torch.manual_seed(0)
print(step(torch.randn(8, 4), torch.randn(8)))
