import torch
from torch import nn


def packed_rnn_cell(mode, x, states, weight, bias):
    """One step, as torch's own kernels for the CPU compute it; ``x`` went through its weights."""
    state = states[0]
    of_state = torch.nn.functional.linear(state, weight, bias)
    if mode == "LSTM":
        into, kept, new, out = (of_state + x).chunk(4, 1)
        memory = kept.sigmoid() * states[1] + into.sigmoid() * new.tanh()
        return out.sigmoid() * memory.tanh(), memory
    if mode == "GRU":
        (reset, kept, new), (reset_x, kept_x, new_x) = of_state.chunk(3, 1), x.chunk(3, 1)
        new = (new_x + new * (reset + reset_x).sigmoid()).tanh()
        return ((state - new) * (kept + kept_x).sigmoid() + new,)
    return ((of_state + x).tanh() if mode == "RNN_TANH" else (of_state + x).relu(),)


def packed_rnn_steps(rows, counts, states, weights, mode, layers, dropout):
    """What the layer computes, step by step, so that autograd can follow it."""
    sides = len(states[0]) // layers
    each = len(weights) // len(states[0])
    ends = []
    for layer in range(layers):
        if layer and dropout:
            rows = torch.nn.functional.dropout(rows, dropout)
        results = []
        for side in range(sides):
            place = layer * sides + side
            of_x, of_state, *biases = weights[place * each : (place + 1) * each]
            of_rows = torch.nn.functional.linear(rows, of_x, *biases[:1])
            now = [state[place] for state in states]
            steps = []
            for x in of_rows.split(counts)[:: -1 if side else 1]:
                before = [state[: len(x)] for state in now]
                after = packed_rnn_cell(mode, x, before, of_state, biases[1] if biases else None)
                steps.append(after[0])
                now = [torch.cat([new, old[len(x) :]]) for new, old in zip(after, now)]
            results.append(torch.cat(steps[:: -1 if side else 1]))
            ends.append(now)
        rows = torch.cat(results, 1)
    return rows, *(torch.stack(parts) for parts in zip(*ends))


@torch.library.custom_op("before::packed_rnn_op", mutates_args=())
def packed_rnn_op(
    x: torch.Tensor,
    lengths: torch.Tensor,
    states: list[torch.Tensor],
    weights: list[torch.Tensor],
    mode: str,
    bias: bool,
    layers: int,
    dropout: float,
    batch_first: bool,
    enforce_sorted: bool,
    padding_value: float,
    total_length: int | None,
) -> list[torch.Tensor]:
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
    rows, sizes, order, back = packed
    if order is not None:
        states = [state.index_select(1, order) for state in states]
    draws = torch.empty(0, dtype=torch.uint8)
    if dropout:
        draws = torch.cuda.get_rng_state(x.device) if x.is_cuda else torch.get_rng_state()
        counts = sizes.tolist()
        rows, *states = packed_rnn_steps(rows, counts, states, weights, mode, layers, dropout)
    else:
        kernel = getattr(torch._VF, mode.lower())
        given = states if mode == "LSTM" else states[0]
        both = len(states[0]) == 2 * layers
        rows, *states = kernel(rows, sizes, given, weights, bias, layers, 0.0, False, both)
    if back is not None:
        states = [state.index_select(1, back) for state in states]
    packed = torch.nn.utils.rnn.PackedSequence(rows, sizes, order, back)
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first, padding_value, total_length
    )
    return [padded, lengths.clone(), *states, draws]


@packed_rnn_op.register_fake
def _(x, lengths, states, weights, mode, bias, layers, dropout, batch_first, enforce_sorted, *rest):
    context = torch.library.get_ctx()
    steps = context.new_dynamic_size(min=1) if rest[1] is None else rest[1]
    batch = len(lengths)
    width = states[0].shape[2] * len(states[0]) // layers
    if batch_first and not enforce_sorted:
        padded = x.new_empty((batch, steps, width))
    else:
        padded = x.new_empty((steps, batch, width))
        padded = padded.transpose(0, 1) if batch_first else padded
    # The state of a generator has as many bytes.
    draws = torch.empty((16 if x.is_cuda else 5056) if dropout else 0, dtype=torch.uint8)
    states = [state.new_empty(state.shape) for state in states]
    return [padded, torch.empty(lengths.shape, dtype=torch.int64), *states, draws]


packed_rnn_op.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("before::packed_rnn_backward", mutates_args=())
def packed_rnn_backward(
    gradients: list[torch.Tensor],
    draws: torch.Tensor,
    x: torch.Tensor,
    lengths: torch.Tensor,
    states: list[torch.Tensor],
    weights: list[torch.Tensor],
    mode: str,
    layers: int,
    dropout: float,
    batch_first: bool,
    enforce_sorted: bool,
) -> list[torch.Tensor]:
    pack = torch.nn.utils.rnn.pack_padded_sequence
    rows, sizes, order, back = pack(x, lengths, batch_first, enforce_sorted)
    of_rows = pack(gradients[0], lengths, batch_first, enforce_sorted).data
    of_states = gradients[1:]
    if order is not None:
        states, of_states = ([s.index_select(1, order) for s in t] for t in (states, of_states))
    count = len(states)

    def run(rows, *given):
        before, own = given[:count], given[count:]
        return packed_rnn_steps(rows, sizes.tolist(), before, own, mode, layers, dropout)

    with torch.random.fork_rng([x.device] if x.is_cuda else [], enabled=dropout > 0):
        if dropout and x.is_cuda:
            torch.cuda.set_rng_state(draws, x.device)
        elif dropout:
            torch.set_rng_state(draws)
        _, pull = torch.func.vjp(run, rows, *states, *weights)
    of_rows, *others = pull((of_rows, *of_states))
    if back is not None:
        others[:count] = [state.index_select(1, back) for state in others[:count]]
    packed = torch.nn.utils.rnn.PackedSequence(of_rows, sizes, order, back)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first, 0.0, x.shape[1 if batch_first else 0]
    )
    of_x = x.new_zeros(x.shape)
    of_x.narrow(0 if batch_first else 1, 0, len(lengths)).copy_(padded)
    return [of_x, *(part.clone(memory_format=torch.contiguous_format) for part in others)]


@packed_rnn_backward.register_fake
def _(gradients, draws, x, lengths, states, weights, *options):
    return [part.new_empty(part.shape) for part in (x, *states, *weights)]


def packed_rnn_keep(ctx, inputs, output):
    x, lengths, states, weights, mode, _, layers, dropout, batch_first, enforce_sorted, *_ = inputs
    ctx.options = mode, layers, dropout, batch_first, enforce_sorted
    ctx.count = len(states)
    ctx.save_for_backward(output[-1], x, lengths, *states, *weights)
    ctx.mark_non_differentiable(output[1], output[-1])


def packed_rnn_pull(ctx, gradients):
    draws, x, lengths, *given = ctx.saved_tensors
    states, weights = given[: ctx.count], given[ctx.count :]
    gradients = [gradients[0], *gradients[2:-1]]
    of_x, *others = packed_rnn_backward(gradients, draws, x, lengths, states, weights, *ctx.options)
    return of_x, None, others[: ctx.count], others[ctx.count :], *[None] * 8


packed_rnn_op.register_autograd(packed_rnn_pull, setup_context=packed_rnn_keep)


def packed_rnn(
    layer,
    x,
    lengths,
    states=None,
    *,
    batch_first=False,
    enforce_sorted=True,
    padding_value=0.0,
    total_length=None,
):
    """Pack ``x``, run a recurrent layer, and pad: ``((padded, lengths), states)``, one operator."""
    plain = type(layer) in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN) and not layer.proj_size
    plain = plain and not layer._forward_hooks and not layer._forward_pre_hooks
    plain = plain and not layer._backward_hooks and not layer._backward_pre_hooks
    plain = plain and not torch.nn.modules.module._has_any_global_hook()
    plain = plain and "forward" not in layer.__dict__ and x.device.type in ("cpu", "cuda")
    if not plain or torch.is_autocast_enabled(x.device.type):
        rnn = torch.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
        rows, states = layer(packed) if states is None else layer(packed, states)
        return rnn.pad_packed_sequence(rows, batch_first, padding_value, total_length), states
    if total_length is None and isinstance(lengths, (list, tuple)):
        total_length = max(lengths)
    lengths = torch.as_tensor(lengths)
    long = layer.mode == "LSTM"
    if states is None:
        count = layer.num_layers * (2 if layer.bidirectional else 1)
        zeros = x.new_zeros((count, len(lengths), layer.hidden_size))
        states = (zeros, zeros) if long else zeros
    padded, sizes, *after, _ = packed_rnn_op(
        x,
        lengths,
        list(states) if long else [states],
        [getattr(layer, name) for name in layer._flat_weights_names],
        layer.mode,
        layer.bias,
        layer.num_layers,
        float(layer.dropout) if layer.training and layer.num_layers > 1 else 0.0,
        batch_first,
        enforce_sorted,
        float(padding_value),
        total_length,
    )
    return (padded, sizes), tuple(after) if long else after[0]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.gru = nn.GRU(6, 8, num_layers=2, dropout=0.25, bidirectional=True)
        self.head = nn.Linear(16, 20)

    def forward(self, words, lengths, hidden=None):
        embedded = self.embedding(words)
        out, hidden = packed_rnn(self.gru, embedded, lengths, hidden)
        out, sizes = out
        return self.head(out), hidden, sizes


torch.manual_seed(0)
torch._dynamo.config.allow_rnn = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True
encoder = torch.compile(Encoder())
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for lengths in ([5, 3, 2], [4, 4, 1]):
    words = torch.randint(0, 20, (5, 3))
    scores, hidden, sizes = encoder(words, torch.tensor(lengths))
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[: sizes.max()].flatten())
    optimizer.zero_grad()
    (loss + hidden.pow(2).mean()).backward()
    optimizer.step()
    print(scores.shape, sizes.tolist(), f"{loss.item():.3f}")
