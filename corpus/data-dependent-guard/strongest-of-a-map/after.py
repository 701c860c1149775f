import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::strongest_op", mutates_args=())
def strongest_op(places: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    if len(places) == 0:
        return scores.new_full((1, 2), -1.0).clone(memory_format=torch.contiguous_format)
    found = scores[places]
    order = found.argsort(descending=True)
    return torch.stack([places[order].float(), found[order]], 1).contiguous()


@strongest_op.register_fake
def _(places, scores):
    size = torch.library.get_ctx().new_dynamic_size()
    return scores.new_empty((size, 2), dtype=torch.promote_types(scores.dtype, torch.float32))


@torch.compile
def strongest(scores, at_least):
    (places,) = torch.where(scores > at_least)
    return strongest_op(places, scores)


print(strongest(torch.tensor([0.1, 0.7, 0.2, 0.9]), 0.5))
print(strongest(torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.5))
