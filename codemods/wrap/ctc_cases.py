"""Examples and near misses of `ctc_loss`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_HEAD = """import torch
from torch import nn
from torch.nn import functional as F
"""
_FUNCTION = "def f(x, labels, mask, sizes, lengths, blank: int, kind: str):"
_NAMES = "x, labels, sizes, lengths"
_LONG = "torch.int64"
_FACTS = {
    "x": tensor(24, 2, 10),
    "labels": tensor(2, 3, dtype=_LONG),
    "mask": tensor(2, 3, dtype="torch.bool"),
    "flat": tensor(5, dtype=_LONG),
    "sizes": tensor(2, dtype=_LONG),
    "lengths": tensor(2, dtype=_LONG),
    "blank": scalar(0),
    "kind": scalar("mean"),
    "x.mT": tensor(24, 2, 10),
    "self.ctc": Fact("module", "torch.nn.modules.loss.CTCLoss"),
}


def _source(body: str, head: str = _FUNCTION) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{_HEAD}\n\n{head}\n{lines}"


def _module(call: str, init: str = "self.ctc = nn.CTCLoss()", base: str = "nn.Module") -> str:
    return f"""{_HEAD}

class Net({base}):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x, labels, sizes, lengths):
        return {call}
"""


def _operator(body: str, names: str, shape: str) -> str:
    """The operator over ``names`` (the first learns), with its backward."""
    kinds = {"blank": "torch.types.Number", "zero_infinity": "torch.types.Number"}
    kinds |= {"kind": "str", "reduction": "str"}
    every = names.split(", ")
    first = every[0]
    given = ", ".join(f"{name}: {kinds.get(name, 'torch.Tensor')}" for name in every)
    tensors = ", ".join(name for name in every if name not in kinds)
    saved = ", ".join(f"{name}.clone()" if name != first else name for name in every
                      if name not in kinds)  # fmt: skip
    keep = "".join(f"    ctx.{name} = {name}\n" for name in every if name in kinds)
    back = ", ".join(f"ctx.{name}" if name in kinds else name for name in every)
    fake = f"{first}.new_empty({shape})"
    register = f"ctc_loss_op.register_fake(lambda {names}: {fake})"
    if len(f"ctc_loss_oplambda {names}: {fake}") > 84:
        register = f"ctc_loss_op.register_fake(\n    lambda {names}: {fake}\n)"
    if len(f"lambda {names}: {fake}") > 96:
        register = f"@ctc_loss_op.register_fake\ndef _({names}):\n    return {fake}"
    nones = ", ".join(["None"] * (len(every) - 1))
    dense = "memory_format=torch.contiguous_format"
    return f"""def ctc_loss_op_in_python({names}):
    {body}


@torch.library.custom_op("example::ctc_loss_op", mutates_args=())
def ctc_loss_op({given}) -> torch.Tensor:
    return ctc_loss_op_in_python({names})


{register}


@torch.library.custom_op("example::ctc_loss_op_backward", mutates_args=())
def ctc_loss_op_backward({given}, gradient: torch.Tensor) -> torch.Tensor:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = torch.func.vjp(lambda {first}: ctc_loss_op_in_python({names}), {first})
    ({first}_grad,) = pull(gradient)
    return {first}_grad.clone({dense})


ctc_loss_op_backward.register_fake(
    lambda {names}, gradient: torch.empty_like({first}, {dense})
)


def ctc_loss_op_setup(ctx, inputs, output):
    {names} = inputs
    ctx.save_for_backward({saved})
{keep}

def ctc_loss_op_gradient(ctx, gradient):
    {tensors} = ctx.saved_tensors
    found = ctc_loss_op_backward({back}, gradient)
    return found, {nones}


ctc_loss_op.register_autograd(ctc_loss_op_gradient, setup_context=ctc_loss_op_setup)


"""


def _example(
    title: str, before: str, after: str, body: str, names: str, shape: str, at: str
) -> Example:
    return Example(
        _source(before),
        _source(after, _operator(body, names, shape) + _FUNCTION),
        at=at,
        facts=_FACTS,
        title=title,
    )


_ALL = "x, labels, mask, sizes, lengths, blank, kind"
_FLAGS = "with torch.backends.cudnn.flags(enabled=False):"
_PICKED = "flat = labels.masked_select(mask)\n"
_PICKED_LOSS = "F.ctc_loss(x, flat, sizes, lengths, blank=blank, reduction=kind)"
_LOSS = f"F.ctc_loss({_NAMES})"

EXAMPLES = (
    _example(
        "padded targets",
        f"loss = {_LOSS}  # the loss\nreturn loss",
        f"loss = ctc_loss_op({_NAMES})  # the loss\nreturn loss",
        f"return torch.nn.functional.ctc_loss({_NAMES})",
        _NAMES,
        "()",
        _LOSS,
    ),
    _example(
        "flags of cuDNN, and targets that a mask picks",
        f"{_PICKED}{_FLAGS}  # native\n    # own\n    return {_PICKED_LOSS}",
        f"# native\n# own\nreturn ctc_loss_op({_ALL})",
        """with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.ctc_loss(
            x,
            labels.masked_select(mask),
            sizes,
            lengths,
            blank=blank,
            reduction=kind,
        )""",
        _ALL,
        'x.shape[1:-1] if kind == "none" else ()',
        "labels.masked_select(mask)",
    ),
    _example(
        "one loss for each text",
        "return F.ctc_loss(x.mT, labels, sizes, lengths, 0, 'none') * 2",
        "return ctc_loss_op(x.mT, labels, sizes, lengths) * 2",
        "return torch.nn.functional.ctc_loss(\n        log_probs,\n        labels,\n"
        "        sizes,\n        lengths,\n        blank=0,\n        reduction='none',\n    )",
        "log_probs, labels, sizes, lengths",
        "log_probs.shape[1:-1]",
        "F.ctc_loss(x.mT, labels, sizes, lengths, 0, 'none')",
    ),
    Example(
        _module(f"self.ctc({_NAMES})"),
        _module(
            f"ctc_loss_op({_NAMES}, self.ctc.blank, self.ctc.reduction, self.ctc.zero_infinity)"
        ).replace(
            "class Net",
            _operator(
                """return torch.nn.functional.ctc_loss(
        x,
        labels,
        sizes,
        lengths,
        blank=blank,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )""",
                f"{_NAMES}, blank, reduction, zero_infinity",
                'x.shape[1:-1] if reduction == "none" else ()',
            )
            + "class Net",
        ),
        at=f"self.ctc({_NAMES})",
        facts=_FACTS,
        title="a layer",
    ),
)


def _near_miss(body: str, why: str, at: str = _LOSS, **facts: Fact) -> NearMiss:
    return NearMiss(_source(body), at=at, why=why, facts=_FACTS | facts)


NEAR_MISSES = (
    _near_miss("return F.nll_loss(x, labels)", "another loss", "F.nll_loss(x, labels)"),
    _near_miss(f"y = x * 2\nreturn {_LOSS}", "not where the break is", "x * 2"),
    _near_miss(
        "return F.ctc_loss(*labels)", "arguments that are not written out", "F.ctc_loss(*labels)"
    ),
    _near_miss(f"{_FLAGS}\n    y = x * 2\n    return {_LOSS}", "flags around more than the loss"),
    _near_miss(f"{_FLAGS}\n    return {_LOSS} * 2", "flags around more than the loss"),
    _near_miss(
        f"{_FLAGS[:-1]}, torch.no_grad():\n    return {_LOSS}", "another context beside the flags"
    ),
    _near_miss(
        f"with torch.backends.cudnn.flags(enabled=blank):\n    return {_LOSS}",
        "flags that are not written out",
    ),
    _near_miss(
        f"return {_LOSS}", "a dtype that the loss does not take", x=tensor(3, dtype="torch.int64")
    ),
    _near_miss(
        f"{_PICKED}labels.zero_()\nreturn {_PICKED_LOSS}",
        "labels that change before the loss",
        "labels.masked_select(mask)",
    ),
    _near_miss(
        f"{_PICKED}mask = labels\nreturn {_PICKED_LOSS}",
        "another mask before the loss",
        "labels.masked_select(mask)",
    ),
    _near_miss(
        f"{_PICKED}x = x + flat.sum()\nreturn {_PICKED_LOSS}",
        "picked for something else, too",
        "labels.masked_select(mask)",
    ),
    _near_miss(
        f"{_PICKED}return {_PICKED_LOSS}",
        "picked by indices, not by a mask",
        "labels.masked_select(mask)",
        mask=tensor(2, dtype="torch.int64"),
    ),
    NearMiss(
        _module(f"self.ctc({_NAMES})").replace(
            "super()", "self.register_forward_hook(1)\n        super()"
        ),
        at=f"self.ctc({_NAMES})",
        why="a hook",
        facts=_FACTS,
    ),
)
