"""Messages of each relation are added up; a relation without an edge adds nothing."""

import torch
from torch import nn


def edges_of(edges: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return edges[:, chosen]


def edges_of_op_plain(
    count: int, edges: torch.Tensor, kinds: torch.Tensor, x: torch.Tensor, out: torch.Tensor, weight: torch.Tensor,
) -> torch.Tensor:
    for number in range(count):
        own = edges_of(edges, kinds == number)
        if own.size(1) == 0:
            continue
        got = torch.zeros_like(x).index_add(0, own[1], x[own[0]])
        out = out + got @ weight[number]
    return out.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::edges_of_op", mutates_args=())
def edges_of_op(
    count: int, edges: torch.Tensor, kinds: torch.Tensor, x: torch.Tensor, out: torch.Tensor, weight: torch.Tensor,
) -> torch.Tensor:
    return edges_of_op_plain(count, edges, kinds, x, out, weight)


@edges_of_op.register_fake
def _(count, edges, kinds, x, out, weight):
    return out.new_empty(out.shape, dtype=torch.promote_types(torch.promote_types(out.dtype, x.dtype), weight.dtype))


# The backward runs `edges_of_op_plain` once more, and follows it.
@torch.library.custom_op("before::edges_of_op_backward", mutates_args=())
def edges_of_op_backward(
    grad: torch.Tensor,
    count: int,
    edges: torch.Tensor,
    kinds: torch.Tensor,
    x: torch.Tensor,
    out: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _, pull = torch.func.vjp(lambda x, out, weight: edges_of_op_plain(count, edges, kinds, x, out, weight), x, out, weight)
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in pull(grad))


@edges_of_op_backward.register_fake
def _(grad, count, edges, kinds, x, out, weight):
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        torch.empty_like(out, memory_format=torch.contiguous_format),
        torch.empty_like(weight, memory_format=torch.contiguous_format),
    )


def edges_of_op_keep(ctx, inputs, output):
    count, edges, kinds, x, out, weight = inputs
    ctx.save_for_backward(edges, kinds, x, out, weight)
    ctx.count = count


def edges_of_op_pull(ctx, grad):
    edges, kinds, x, out, weight = ctx.saved_tensors
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
        raise NotImplementedError("no gradient for edges or kinds")
    of_x, of_out, of_weight = edges_of_op_backward(grad, ctx.count, edges, kinds, x, out, weight)
    return None, None, None, of_x, of_out, of_weight


edges_of_op.register_autograd(edges_of_op_pull, setup_context=edges_of_op_keep)


class Relations(nn.Module):
    def __init__(self, count: int, into: int, out: int) -> None:
        super().__init__()
        self.count = count
        self.weight = nn.Parameter(torch.randn(count, into, out))
        self.root = nn.Parameter(torch.randn(into, out))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(x.shape[0], self.weight.shape[-1])
        out = (edges_of_op_plain(self.count, edges, kinds, x, out, self.weight) if torch.is_autocast_enabled(edges.device.type) else edges_of_op(self.count, edges, kinds, x, out, self.weight))
        return out + x @ self.root


torch.manual_seed(0)
model = nn.ModuleList([Relations(3, 4, 4), Relations(3, 4, 2)])


@torch.compile(backend="aot_eager")
def run(x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    return model[1](model[0](x, edges, kinds).relu(), edges, kinds)


for most in (3, 2):
    x = torch.randn(6, 4, requires_grad=True)
    edges, kinds = torch.randint(0, 6, (2, 9)), torch.randint(0, most, (9,))
    out = run(x, edges, kinds)
    out.square().mean().backward()
    print(f"{out.sum().item():.3f} {x.grad.norm().item():.3f}")
