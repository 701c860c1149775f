import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::apart_op", mutates_args=())
def apart_op(
    points: torch.Tensor, left: torch.Tensor, first: torch.Tensor, distance: torch.types.Number,
) -> torch.Tensor:
    return ((points[left] - points[first]).abs() > distance).clone(memory_format=torch.contiguous_format)


@apart_op.register_fake
def _(points, left, first, distance):
    return points.new_empty(left.shape, dtype=torch.bool)


@torch.library.custom_op("before::apart_op_1", mutates_args=())
def apart_op_1(
    left: torch.Tensor, points: torch.Tensor, distance: torch.types.Number,
) -> torch.Tensor:
    kept = []
    while left.numel() > 0:
        first = left[0]
        kept.append(first.item())
        far = apart_op(points, left, first, distance)
        left = left[far]
    return torch.tensor(kept)


@apart_op_1.register_fake
def _(left, points, distance):
    size = torch.library.get_ctx().new_dynamic_size()
    return torch.empty((size,), dtype=torch.int64 if left.numel() else torch.get_default_dtype())


@torch.compile
def apart(points, scores, distance: float):
    left = scores.argsort(descending=True)
    return apart_op_1(left, points, distance)


print(apart(torch.tensor([0.0, 0.1, 1.0, 1.05]), torch.tensor([0.5, 0.9, 0.2, 0.8]), 0.3))
