import torch
from torch.nn.functional import linear

torch._dynamo.config.capture_dynamic_output_shape_ops = True


def compute_q_plain(
    all_same_size: bool, all_same: torch.Tensor, query: torch.Tensor, weight: torch.Tensor, bias_1: torch.Tensor, kv_same_size: bool, kv_same: torch.Tensor, width_1: int, key: torch.Tensor, value: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if all_same_size and all_same:
        q, k, v = linear(query, weight, bias_1).chunk(3, dim=-1)
    elif kv_same_size and kv_same:
        bias = bias_1
        if bias is not None:
            bias = bias[: width_1]
        q = linear(query, weight[: width_1], bias)
        if key is None:
            assert value is None
            k = v = None
        else:
            bias = bias_1
            if bias is not None:
                bias = bias[width_1 :]
            k, v = linear(key, weight[width_1 :], bias).chunk(2, dim=-1)
    else:
        width = width_1
        q = linear(query, weight[:width], bias_1[:width])
        k = linear(key, weight[width : 2 * width], bias_1[width : 2 * width])
        v = linear(value, weight[2 * width :], bias_1[2 * width :])
    return q.clone(memory_format=torch.contiguous_format), k.clone(memory_format=torch.contiguous_format), v.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::compute_q", mutates_args=())
def compute_q(
    all_same_size: bool, all_same: torch.Tensor, query: torch.Tensor, weight: torch.Tensor, bias_1: torch.Tensor, kv_same_size: bool, kv_same: torch.Tensor, width_1: int, key: torch.Tensor, value: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return compute_q_plain(all_same_size, all_same, query, weight, bias_1, kv_same_size, kv_same, width_1, key, value)


@compute_q.register_fake
def _(all_same_size, all_same, query, weight, bias_1, kv_same_size, kv_same, width_1, key, value):
    size = torch.library.get_ctx().new_dynamic_size()
    size_1 = torch.library.get_ctx().new_dynamic_size()
    size_2 = torch.library.get_ctx().new_dynamic_size()
    return (query.new_empty((query.shape[0], query.shape[1], size)), query.new_empty((query.shape[0], query.shape[1], size_1)), query.new_empty((query.shape[0], query.shape[1], size_2)))


# The backward runs `compute_q_plain` once more, and follows it.
@torch.library.custom_op("before::compute_q_backward", mutates_args=())
def compute_q_backward(
    grad_0: torch.Tensor,
    grad_1: torch.Tensor,
    grad_2: torch.Tensor,
    all_same_size: bool,
    all_same: torch.Tensor,
    query: torch.Tensor,
    weight: torch.Tensor,
    bias_1: torch.Tensor,
    kv_same_size: bool,
    kv_same: torch.Tensor,
    width_1: int,
    key: torch.Tensor,
    value: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    _, pull = torch.func.vjp(lambda query, weight, bias_1, key, value: compute_q_plain(all_same_size, all_same, query, weight, bias_1, kv_same_size, kv_same, width_1, key, value), query, weight, bias_1, key, value)
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in pull((grad_0, grad_1, grad_2)))


@compute_q_backward.register_fake
def _(grad_0, grad_1, grad_2, all_same_size, all_same, query, weight, bias_1, kv_same_size, kv_same, width_1, key, value):
    return (
        torch.empty_like(query, memory_format=torch.contiguous_format),
        torch.empty_like(weight, memory_format=torch.contiguous_format),
        torch.empty_like(bias_1, memory_format=torch.contiguous_format),
        torch.empty_like(key, memory_format=torch.contiguous_format),
        torch.empty_like(value, memory_format=torch.contiguous_format),
    )


def compute_q_keep(ctx, inputs, output):
    all_same_size, all_same, query, weight, bias_1, kv_same_size, kv_same, width_1, key, value = inputs
    ctx.save_for_backward(all_same, query, weight, bias_1, kv_same, key, value)
    ctx.all_same_size = all_same_size
    ctx.kv_same_size = kv_same_size
    ctx.width_1 = width_1


def compute_q_pull(ctx, grad_0, grad_1, grad_2):
    all_same, query, weight, bias_1, kv_same, key, value = ctx.saved_tensors
    if ctx.needs_input_grad[1] or ctx.needs_input_grad[6]:
        raise NotImplementedError("no gradient for all_same or kv_same")
    of_query, of_weight, of_bias_1, of_key, of_value = compute_q_backward(grad_0, grad_1, grad_2, ctx.all_same_size, all_same, query, weight, bias_1, ctx.kv_same_size, kv_same, ctx.width_1, key, value)
    return None, None, of_query, of_weight, of_bias_1, None, None, None, of_key, of_value


compute_q.register_autograd(compute_q_pull, setup_context=compute_q_keep)


class Attention(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.weight = torch.nn.Parameter(torch.randn(3 * width, width) * 0.3)
        self.bias = torch.nn.Parameter(torch.zeros(3 * width))

    def forward(self, query, key, value):
        all_same_size = query.shape == key.shape and key.shape == value.shape
        all_same = (query == key).all() & (key == value).all() if all_same_size else torch.zeros((), dtype=torch.bool, device=query.device)
        kv_same_size = key.shape == value.shape
        kv_same = (key == value).all() if kv_same_size else torch.zeros((), dtype=torch.bool, device=key.device)
        assert key.size() == value.size()
        q, k, v = (compute_q_plain(all_same_size, all_same, query, self.weight, self.bias, kv_same_size, kv_same, self.width, key, value) if torch.is_autocast_enabled(all_same.device.type) else compute_q(all_same_size, all_same, query, self.weight, self.bias, kv_same_size, kv_same, self.width, key, value))
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v


torch.manual_seed(0)
model = Attention()
attention = torch.compile(model)
for same in (2, 1, 0):
    inputs = [torch.rand(2, 3, 4, requires_grad=True) for _ in range(3)]
    query, key, value = inputs
    key = query if same == 2 else key
    value = key if same else value
    out = attention(query, key, value).square().sum()
    out.backward()
    print(f"{out.item():.4f} {query.grad.abs().sum().item():.4f}")
