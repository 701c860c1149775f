"""A loss over the errors of each class in their order; classes that nothing belongs to are left out."""

from itertools import filterfalse

import torch


def is_nan(x):
    return x != x


def mean(values, leave_out=False):
    values = iter(values)
    if leave_out:
        values = filterfalse(is_nan, values)
    total, n = next(values), 1
    for n, value in enumerate(values, 2):
        total = total + value
    return total / n


def steps(truth):
    """How much each further error counts."""
    rest = truth.sum() - truth.cumsum(0)
    share = 1 - rest / (truth.sum() + (1 - truth).cumsum(0))
    share[1:] = share[1:] - share[:-1].clone()
    return share


def ordered_errors_op_plain(c_1: int, labels: torch.Tensor, chances: torch.Tensor) -> torch.Tensor:
    losses = []
    for c in range(c_1):
        truth = (labels == c).float()
        if truth.sum() == 0:
            continue
        given = chances[:, 0] if c_1 == 1 else chances[:, c]
        errors, places = torch.sort((truth - given).abs(), 0, descending=True)
        losses.append(torch.dot(errors, steps(truth[places.data])))
    return mean(losses).clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::ordered_errors_op", mutates_args=())
def ordered_errors_op(c_1: int, labels: torch.Tensor, chances: torch.Tensor) -> torch.Tensor:
    return ordered_errors_op_plain(c_1, labels, chances)


@ordered_errors_op.register_fake
def _(c_1, labels, chances):
    return chances.new_empty((), dtype=torch.promote_types(chances.dtype, torch.float32))


# The backward runs `ordered_errors_op_plain` once more, and follows it.
@torch.library.custom_op("before::ordered_errors_op_backward", mutates_args=())
def ordered_errors_op_backward(
    grad: torch.Tensor,
    c_1: int,
    labels: torch.Tensor,
    chances: torch.Tensor,
) -> torch.Tensor:
    _, pull = torch.func.vjp(lambda chances: ordered_errors_op_plain(c_1, labels, chances), chances)
    return pull(grad)[0].clone(memory_format=torch.contiguous_format)


@ordered_errors_op_backward.register_fake
def _(grad, c_1, labels, chances):
    return torch.empty_like(chances, memory_format=torch.contiguous_format)


def ordered_errors_op_keep(ctx, inputs, output):
    c_1, labels, chances = inputs
    ctx.save_for_backward(labels, chances)
    ctx.c_1 = c_1


def ordered_errors_op_pull(ctx, grad):
    labels, chances = ctx.saved_tensors
    if ctx.needs_input_grad[1]:
        raise NotImplementedError("no gradient for labels")
    return None, None, ordered_errors_op_backward(grad, ctx.c_1, labels, chances)


ordered_errors_op.register_autograd(ordered_errors_op_pull, setup_context=ordered_errors_op_keep)


def ordered_errors(chances, labels):
    C = chances.size(1)
    return (ordered_errors_op_plain(C, labels, chances) if torch.is_autocast_enabled(labels.device.type) else ordered_errors_op(C, labels, chances))


class Loss(torch.nn.Module):
    def forward(self, scores, labels):
        return ordered_errors(scores.softmax(1), labels)


if __name__ == "__main__":
    torch.manual_seed(0)
    loss = torch.compile(Loss())
    for top in (3, 2, 1):
        scores = torch.randn(12, 3, requires_grad=True)
        value = loss(scores, torch.randint(0, top, (12,)))
        value.backward()
        print(f"{value.item():.4f} {scores.grad.norm().item():.4f}")
