"""A loss that pulls what has one label together, and pushes labels apart: a few lines for each."""

import torch
import torch.nn.functional as F
from torch import nn

NEAR, FAR = 0.5, 3.0


def losses_op_plain(
    found: torch.Tensor, labels: torch.Tensor, width: int, pull: torch.Tensor, push: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    for row, wanted in zip(found, labels):
        kinds = torch.unique(wanted)
        kinds = kinds[kinds != 0]
        if len(kinds) == 0:
            continue
        means = []
        for kind in kinds:
            part = row[:, wanted == kind]
            mean = part.mean(1)
            means.append(mean)
            apart = (part - mean.reshape(width, 1)).norm(dim=0)
            pull = pull + (F.relu(apart - NEAR) ** 2).mean() / len(kinds)
        if len(kinds) > 1:
            push = push + F.relu(FAR - torch.pdist(torch.stack(means))).mean()
    return pull.clone(memory_format=torch.contiguous_format), push.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::losses_op", mutates_args=())
def losses_op(
    found: torch.Tensor, labels: torch.Tensor, width: int, pull: torch.Tensor, push: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    return losses_op_plain(found, labels, width, pull, push)


@losses_op.register_fake
def _(found, labels, width, pull, push):
    return (pull.new_empty(pull.shape, dtype=torch.promote_types(torch.promote_types(pull.dtype, found.dtype), push.dtype)), push.new_empty(push.shape, dtype=torch.promote_types(torch.promote_types(push.dtype, found.dtype), pull.dtype)))


# The backward runs `losses_op_plain` once more, and follows it.
@torch.library.custom_op("before::losses_op_backward", mutates_args=())
def losses_op_backward(
    grad_0: torch.Tensor,
    grad_1: torch.Tensor,
    found: torch.Tensor,
    labels: torch.Tensor,
    width: int,
    pull: torch.Tensor,
    push: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _, pull_1 = torch.func.vjp(lambda found, pull, push: losses_op_plain(found, labels, width, pull, push), found, pull, push)
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in pull_1((grad_0, grad_1)))


@losses_op_backward.register_fake
def _(grad_0, grad_1, found, labels, width, pull, push):
    return (
        torch.empty_like(found, memory_format=torch.contiguous_format),
        torch.empty_like(pull, memory_format=torch.contiguous_format),
        torch.empty_like(push, memory_format=torch.contiguous_format),
    )


def losses_op_keep(ctx, inputs, output):
    found, labels, width, pull, push = inputs
    ctx.save_for_backward(found, labels, pull, push)
    ctx.width = width


def losses_op_pull(ctx, grad_0, grad_1):
    found, labels, pull, push = ctx.saved_tensors
    if ctx.needs_input_grad[1]:
        raise NotImplementedError("no gradient for labels")
    of_found, of_pull, of_push = losses_op_backward(grad_0, grad_1, found, labels, ctx.width, pull, push)
    return of_found, None, None, of_pull, of_push


losses_op.register_autograd(losses_op_pull, setup_context=losses_op_keep)


class Embedding(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.layer = nn.Conv2d(3, width, 1)

    def losses(self, found, labels):
        pull = torch.zeros((), dtype=found.dtype)
        push = torch.zeros((), dtype=found.dtype)
        pull, push = (losses_op_plain(found, labels, self.width, pull, push) if torch.is_autocast_enabled(found.device.type) else losses_op(found, labels, self.width, pull, push))
        return pull, push

    def forward(self, image, labels):
        pull, push = self.losses(self.layer(image), labels)
        return pull + 0.1 * push


torch.manual_seed(0)
model = Embedding()
compiled = torch.compile(model)
for kinds in (1, 3):
    loss = compiled(torch.randn(2, 3, 4, 4), torch.randint(0, kinds + 1, (2, 4, 4)))
    loss.backward()
    print(f"{loss.item():.4f} {model.layer.weight.grad.abs().sum().item():.4f}")
