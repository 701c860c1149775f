"""Images in one row of patches: each one attends to its own patches, and there are as many of
these as a patch has channels.
"""

import torch
from torch import nn


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(scores, dim=-1) @ v


def compute_attended_plain(
    lengths: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
) -> torch.Tensor:
    rows = [torch.split(each, lengths.tolist(), dim=1) for each in (query, key, value)]
    attended = torch.cat([attend(q, k, v) for q, k, v in zip(*rows)], dim=1)
    return attended.contiguous()


@torch.library.custom_op("before::compute_attended", mutates_args=())
def compute_attended(
    lengths: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
) -> torch.Tensor:
    return compute_attended_plain(lengths, query, key, value)


@compute_attended.register_fake
def _(lengths, query, key, value):
    return query.new_empty((torch.broadcast_shapes(query.shape[:1], key.shape[:1], value.shape[:1])[0], query.shape[1], value.shape[2]))


# The backward runs `compute_attended_plain` once more, and follows it.
@torch.library.custom_op("before::compute_attended_backward", mutates_args=())
def compute_attended_backward(
    grad: torch.Tensor,
    lengths: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _, pull = torch.func.vjp(lambda query, key, value: compute_attended_plain(lengths, query, key, value), query, key, value)
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in pull(grad))


@compute_attended_backward.register_fake
def _(grad, lengths, query, key, value):
    return (
        torch.empty_like(query, memory_format=torch.contiguous_format),
        torch.empty_like(key, memory_format=torch.contiguous_format),
        torch.empty_like(value, memory_format=torch.contiguous_format),
    )


def compute_attended_keep(ctx, inputs, output):
    lengths, query, key, value = inputs
    ctx.save_for_backward(lengths, query, key, value)


def compute_attended_pull(ctx, grad):
    lengths, query, key, value = ctx.saved_tensors
    if ctx.needs_input_grad[0]:
        raise NotImplementedError("no gradient for lengths")
    of_query, of_key, of_value = compute_attended_backward(grad, lengths, query, key, value)
    return None, of_query, of_key, of_value


compute_attended.register_autograd(compute_attended_pull, setup_context=compute_attended_keep)


class PackedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, patches, starts):
        count = patches.shape[0]
        qkv = self.qkv(patches).reshape(count, 3, self.heads, -1).permute(1, 2, 0, 3)
        query, key, value = qkv.unbind(0)
        lengths = starts[1:] - starts[:-1]
        attended = (compute_attended_plain(lengths, query, key, value) if torch.is_autocast_enabled(lengths.device.type) else compute_attended(lengths, query, key, value))
        return self.proj(attended.transpose(0, 1).reshape(count, -1))


torch.manual_seed(0)
layer = torch.compile(PackedAttention(24, 2))
patches = torch.randn(12, 24)
print(layer(patches, torch.tensor([0, 5, 12])).sum())
print(layer(patches, torch.tensor([0, 2, 12])).sum())
