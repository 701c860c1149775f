"""The functions that `packed_rnn` adds to a file: a recurrent layer over packed rows, one operator.

``pack_padded_sequence`` asks the lengths how many rows each step has, so that no graph holds it.
The operator runs it, the layer's kernel and ``pad_packed_sequence`` as the file did.  A kernel
inside an operator records nothing for autograd; the backward runs the same arithmetic step by step
in Python under ``torch.func.vjp``.  Where the layer drops values, the forward does so, too, and
both draw from one state of the generator.
"""

from __future__ import annotations

#: Two equal calls of what draws are two draws, and not one.
EFFECT = """NAME_op.register_effect(TORCH.library.EffectType.ORDERED)


"""
#: ``NAME`` is the function that the file calls, ``SPACE`` the namespace of its operators.
TEXT = '''
def NAME_cell(mode, x, states, weight, bias):
    """One step, as torch's own kernels for the CPU compute it; ``x`` went through its weights."""
    state = states[0]
    of_state = TORCH.nn.functional.linear(state, weight, bias)
    if mode == "LSTM":
        into, kept, new, out = (of_state + x).chunk(4, 1)
        memory = kept.sigmoid() * states[1] + into.sigmoid() * new.tanh()
        return out.sigmoid() * memory.tanh(), memory
    if mode == "GRU":
        (reset, kept, new), (reset_x, kept_x, new_x) = of_state.chunk(3, 1), x.chunk(3, 1)
        new = (new_x + new * (reset + reset_x).sigmoid()).tanh()
        return ((state - new) * (kept + kept_x).sigmoid() + new,)
    return ((of_state + x).tanh() if mode == "RNN_TANH" else (of_state + x).relu(),)


def NAME_steps(rows, counts, states, weights, mode, layers, dropout):
    """What the layer computes, step by step, so that autograd can follow it."""
    sides = len(states[0]) // layers
    each = len(weights) // len(states[0])
    ends = []
    for layer in range(layers):
        if layer and dropout:
            rows = TORCH.nn.functional.dropout(rows, dropout)
        results = []
        for side in range(sides):
            place = layer * sides + side
            of_x, of_state, *biases = weights[place * each : (place + 1) * each]
            of_rows = TORCH.nn.functional.linear(rows, of_x, *biases[:1])
            now = [state[place] for state in states]
            steps = []
            for x in of_rows.split(counts)[:: -1 if side else 1]:
                before = [state[: len(x)] for state in now]
                after = NAME_cell(mode, x, before, of_state, biases[1] if biases else None)
                steps.append(after[0])
                now = [TORCH.cat([new, old[len(x) :]]) for new, old in zip(after, now)]
            results.append(TORCH.cat(steps[:: -1 if side else 1]))
            ends.append(now)
        rows = TORCH.cat(results, 1)
    return rows, *(TORCH.stack(parts) for parts in zip(*ends))


@TORCH.library.custom_op("SPACE::NAME_op", mutates_args=())
def NAME_op(
    x: TORCH.Tensor,
    lengths: TORCH.Tensor,
    states: list[TORCH.Tensor],
    weights: list[TORCH.Tensor],
    mode: str,
    bias: bool,
    layers: int,
    dropout: float,
    batch_first: bool,
    enforce_sorted: bool,
    padding_value: float,
    total_length: int | None,
) -> list[TORCH.Tensor]:
    packed = TORCH.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
    rows, sizes, order, back = packed
    if order is not None:
        states = [state.index_select(1, order) for state in states]
    draws = TORCH.empty(0, dtype=TORCH.uint8)
    if dropout:
        draws = TORCH.cuda.get_rng_state(x.device) if x.is_cuda else TORCH.get_rng_state()
        counts = sizes.tolist()
        rows, *states = NAME_steps(rows, counts, states, weights, mode, layers, dropout)
    else:
        kernel = getattr(TORCH._VF, mode.lower())
        given = states if mode == "LSTM" else states[0]
        both = len(states[0]) == 2 * layers
        rows, *states = kernel(rows, sizes, given, weights, bias, layers, 0.0, False, both)
    if back is not None:
        states = [state.index_select(1, back) for state in states]
    packed = TORCH.nn.utils.rnn.PackedSequence(rows, sizes, order, back)
    padded, lengths = TORCH.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first, padding_value, total_length
    )
    return [padded, lengths.clone(), *states, draws]


@NAME_op.register_fake
def _(x, lengths, states, weights, mode, bias, layers, dropout, batch_first, enforce_sorted, *rest):
    context = TORCH.library.get_ctx()
    steps = context.new_dynamic_size(min=1) if rest[1] is None else rest[1]
    batch = len(lengths)
    width = states[0].shape[2] * len(states[0]) // layers
    if batch_first and not enforce_sorted:
        padded = x.new_empty((batch, steps, width))
    else:
        padded = x.new_empty((steps, batch, width))
        padded = padded.transpose(0, 1) if batch_first else padded
    # The state of a generator has as many bytes.
    draws = TORCH.empty((16 if x.is_cuda else 5056) if dropout else 0, dtype=TORCH.uint8)
    states = [state.new_empty(state.shape) for state in states]
    return [padded, TORCH.empty(lengths.shape, dtype=TORCH.int64), *states, draws]


NAME_op.register_effect(TORCH.library.EffectType.ORDERED)


@TORCH.library.custom_op("SPACE::NAME_backward", mutates_args=())
def NAME_backward(
    gradients: list[TORCH.Tensor],
    draws: TORCH.Tensor,
    x: TORCH.Tensor,
    lengths: TORCH.Tensor,
    states: list[TORCH.Tensor],
    weights: list[TORCH.Tensor],
    mode: str,
    layers: int,
    dropout: float,
    batch_first: bool,
    enforce_sorted: bool,
) -> list[TORCH.Tensor]:
    pack = TORCH.nn.utils.rnn.pack_padded_sequence
    rows, sizes, order, back = pack(x, lengths, batch_first, enforce_sorted)
    of_rows = pack(gradients[0], lengths, batch_first, enforce_sorted).data
    of_states = gradients[1:]
    if order is not None:
        states, of_states = ([s.index_select(1, order) for s in t] for t in (states, of_states))
    count = len(states)

    def run(rows, *given):
        before, own = given[:count], given[count:]
        return NAME_steps(rows, sizes.tolist(), before, own, mode, layers, dropout)

    with TORCH.random.fork_rng([x.device] if x.is_cuda else [], enabled=dropout > 0):
        if dropout and x.is_cuda:
            TORCH.cuda.set_rng_state(draws, x.device)
        elif dropout:
            TORCH.set_rng_state(draws)
        _, pull = TORCH.func.vjp(run, rows, *states, *weights)
    of_rows, *others = pull((of_rows, *of_states))
    if back is not None:
        others[:count] = [state.index_select(1, back) for state in others[:count]]
    packed = TORCH.nn.utils.rnn.PackedSequence(of_rows, sizes, order, back)
    padded, _ = TORCH.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first, 0.0, x.shape[1 if batch_first else 0]
    )
    of_x = x.new_zeros(x.shape)
    of_x.narrow(0 if batch_first else 1, 0, len(lengths)).copy_(padded)
    return [of_x, *(part.clone(memory_format=TORCH.contiguous_format) for part in others)]


@NAME_backward.register_fake
def _(gradients, draws, x, lengths, states, weights, *options):
    return [part.new_empty(part.shape) for part in (x, *states, *weights)]


def NAME_keep(ctx, inputs, output):
    x, lengths, states, weights, mode, _, layers, dropout, batch_first, enforce_sorted, *_ = inputs
    ctx.options = mode, layers, dropout, batch_first, enforce_sorted
    ctx.count = len(states)
    ctx.save_for_backward(output[-1], x, lengths, *states, *weights)
    ctx.mark_non_differentiable(output[1], output[-1])


def NAME_pull(ctx, gradients):
    draws, x, lengths, *given = ctx.saved_tensors
    states, weights = given[: ctx.count], given[ctx.count :]
    gradients = [gradients[0], *gradients[2:-1]]
    of_x, *others = NAME_backward(gradients, draws, x, lengths, states, weights, *ctx.options)
    return of_x, None, others[: ctx.count], others[ctx.count :], *[None] * 8


NAME_op.register_autograd(NAME_pull, setup_context=NAME_keep)


def NAME(
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
    plain = type(layer) in (TORCH.nn.LSTM, TORCH.nn.GRU, TORCH.nn.RNN) and not layer.proj_size
    plain = plain and not layer._forward_hooks and not layer._forward_pre_hooks
    plain = plain and not layer._backward_hooks and not layer._backward_pre_hooks
    plain = plain and not TORCH.nn.modules.module._has_any_global_hook()
    plain = plain and "forward" not in layer.__dict__ and x.device.type in ("cpu", "cuda")
    if not plain or TORCH.is_autocast_enabled(x.device.type):
        rnn = TORCH.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted)
        rows, states = layer(packed) if states is None else layer(packed, states)
        return rnn.pad_packed_sequence(rows, batch_first, padding_value, total_length), states
    if total_length is None and isinstance(lengths, (list, tuple)):
        total_length = max(lengths)
    lengths = TORCH.as_tensor(lengths)
    long = layer.mode == "LSTM"
    if states is None:
        count = layer.num_layers * (2 if layer.bidirectional else 1)
        zeros = x.new_zeros((count, len(lengths), layer.hidden_size))
        states = (zeros, zeros) if long else zeros
    padded, sizes, *after, _ = NAME_op(
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
'''
