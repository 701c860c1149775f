import torch


def pool_in_python(x, lengths):
    """Means over rows, as many as each length says."""
    rows = []
    start = 0
    for n in lengths.tolist():
        rows.append(x[start : start + n].mean(0))
        start += n
    return torch.stack(rows)


@torch.library.custom_op("before::pool", mutates_args=())
def pool(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return pool_in_python(x, lengths)


pool.register_fake(lambda x, lengths: x.new_empty((lengths.shape[0], x.shape[1])))


@torch.library.custom_op("before::pool_backward", mutates_args=())
def pool_backward(x: torch.Tensor, lengths: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = torch.func.vjp(lambda x: pool_in_python(x, lengths), x)
    (x_grad,) = pull(gradient)
    return x_grad.clone(memory_format=torch.contiguous_format)


pool_backward.register_fake(
    lambda x, lengths, gradient: torch.empty_like(x, memory_format=torch.contiguous_format)
)


def pool_setup(ctx, inputs, output):
    x, lengths = inputs
    ctx.save_for_backward(x, lengths)


def pool_gradient(ctx, gradient):
    x, lengths = ctx.saved_tensors
    found = pool_backward(x, lengths, gradient)
    return found, None


pool.register_autograd(pool_gradient, setup_context=pool_setup)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(3, 3)

    def forward(self, x, lengths):
        return pool(self.a(x), lengths).relu()


net = torch.compile(Net())
net(torch.ones(6, 3), torch.tensor([2, 3, 1])).sum().backward()
net(torch.ones(7, 3), torch.tensor([2, 3, 2])).sum().backward()
