import torch


def compute_signal_plain(p: torch.types.Number, signal: torch.Tensor) -> torch.Tensor:
    if torch.rand(()) < p:
        gain = torch.empty(signal.shape[0], 1).uniform_(0.5, 1.5)
        signal = signal * gain
    return signal.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("before::compute_signal", mutates_args=())
def compute_signal(
    p: torch.types.Number, signal: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.get_rng_state()
    if signal.is_cuda:
        draws = torch.cat([draws, torch.cuda.get_rng_state(signal.device)])
    return compute_signal_plain(p, signal), draws


@compute_signal.register_fake
def _(p, signal):
    # The last holds as many bytes as the state of a generator.
    return (
        signal.new_empty(signal.shape),
        torch.empty(5056 + 16 * signal.is_cuda, dtype=torch.uint8),
    )


compute_signal.register_effect(torch.library.EffectType.ORDERED)


# The backward runs `compute_signal_plain` once more, and follows it.
@torch.library.custom_op("before::compute_signal_backward", mutates_args=())
def compute_signal_backward(
    grad: torch.Tensor,
    draws: torch.Tensor,
    p: torch.types.Number,
    signal: torch.Tensor,
) -> torch.Tensor:
    with torch.random.fork_rng([signal.device] if signal.is_cuda else []):
        torch.set_rng_state(draws[:5056])
        if signal.is_cuda:
            torch.cuda.set_rng_state(draws[5056:], signal.device)
        _, pull = torch.func.vjp(lambda signal: compute_signal_plain(p, signal), signal)
    return pull(grad)[0].clone(memory_format=torch.contiguous_format)


@compute_signal_backward.register_fake
def _(grad, draws, p, signal):
    return torch.empty_like(signal, memory_format=torch.contiguous_format)


def compute_signal_keep(ctx, inputs, output):
    p, signal = inputs
    ctx.save_for_backward(signal, output[-1])
    ctx.mark_non_differentiable(output[-1])
    ctx.p = p


def compute_signal_pull(ctx, grad, _):
    signal, draws = ctx.saved_tensors
    return None, compute_signal_backward(grad, draws, ctx.p, signal)


compute_signal.register_autograd(compute_signal_pull, setup_context=compute_signal_keep)


class Gain(torch.nn.Module):
    """Makes a signal louder or softer, in half of the calls."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p
        self.head = torch.nn.Linear(8, 1)

    def forward(self, signal):
        signal = (compute_signal_plain(self.p, signal) if signal.dtype != torch.float32 else compute_signal(self.p, signal)[0])
        return self.head(signal).square().mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Gain()
    step = torch.compile(model, backend="aot_eager")
    for _ in range(3):
        signal = torch.randn(4, 8, requires_grad=True)
        loss = step(signal)
        loss.backward()
    print(loss.item(), signal.grad.norm().item())
