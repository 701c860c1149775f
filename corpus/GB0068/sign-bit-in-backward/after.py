import torch


def backward_op_plain(grad: torch.Tensor) -> torch.Tensor:
    if torch.Tensor.is_neg(grad):
        grad = grad.resolve_neg()
    return grad.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::backward_op", mutates_args=())
def backward_op(grad: torch.Tensor) -> torch.Tensor:
    return backward_op_plain(grad)


backward_op.register_fake(lambda grad: grad.new_empty(grad.shape))


# The backward runs `backward_op_plain` once more, and follows it.
@torch.library.custom_op("before::backward_op_backward", mutates_args=())
def backward_op_backward(grad_out: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    _, pull = torch.func.vjp(backward_op_plain, grad)
    return pull(grad_out)[0].clone(memory_format=torch.contiguous_format)


@backward_op_backward.register_fake
def _(grad_out, grad):
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def backward_op_keep(ctx, inputs, output):
    (grad,) = inputs
    ctx.save_for_backward(grad)


def backward_op_pull(ctx, grad_out):
    (grad,) = ctx.saved_tensors
    return backward_op_backward(grad_out, grad)


backward_op.register_autograd(backward_op_pull, setup_context=backward_op_keep)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        grad = backward_op(grad)
        return grad * 2


@torch.compile
def loss(x):
    return Double.apply(x).sum()


x = torch.ones(3, requires_grad=True)
loss(x).backward()
print(x.grad)
