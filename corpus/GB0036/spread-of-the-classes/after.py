"""How far the means of classes lie apart: which classes there are, the labels say."""

import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


def spread_op_plain(
    points: torch.Tensor, labels: torch.Tensor, classes: torch.Tensor,
) -> torch.Tensor:
    return torch.stack([points[labels == c].mean(0) for c in classes]).contiguous()


def spread_op_1_plain(labels: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    classes = torch.unique(labels)
    means = spread_op_plain(points, labels, classes)
    return means.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::spread_op_1", mutates_args=())
def spread_op_1(labels: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    return spread_op_1_plain(labels, points)


@spread_op_1.register_fake
def _(labels, points):
    size = torch.library.get_ctx().new_dynamic_size()
    return points.new_empty((size, points.shape[1]))


# The backward runs `spread_op_1_plain` once more, and follows it.
@torch.library.custom_op("before::spread_op_1_backward", mutates_args=())
def spread_op_1_backward(
    grad: torch.Tensor,
    labels: torch.Tensor,
    points: torch.Tensor,
) -> torch.Tensor:
    _, pull = torch.func.vjp(lambda points: spread_op_1_plain(labels, points), points)
    return pull(grad)[0].clone(memory_format=torch.contiguous_format)


@spread_op_1_backward.register_fake
def _(grad, labels, points):
    return torch.empty_like(points, memory_format=torch.contiguous_format)


def spread_op_1_keep(ctx, inputs, output):
    labels, points = inputs
    ctx.save_for_backward(labels, points)


def spread_op_1_pull(ctx, grad):
    labels, points = ctx.saved_tensors
    if ctx.needs_input_grad[0]:
        raise NotImplementedError("no gradient for labels")
    return None, spread_op_1_backward(grad, labels, points)


spread_op_1.register_autograd(spread_op_1_pull, setup_context=spread_op_1_keep)


@torch.compile
def spread(points, labels):
    means = (spread_op_1_plain(labels, points) if torch.is_autocast_enabled(labels.device.type) else spread_op_1(labels, points))
    return (means - points.mean(0)).square().sum()


torch.manual_seed(0)
for labels in ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 0], [2, 0, 1, 2, 2, 0]):
    points = torch.randn(6, 3, requires_grad=True)
    found = spread(points, torch.tensor(labels))
    found.backward()
    print(f"{found.item():.4f} {points.grad.square().sum().item():.4f}")
