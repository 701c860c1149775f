"""The text of an operator that keeps its gradient: its backward runs it again under autograd."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .capture import Parameter, Refused
from .operator_text import signature


@dataclasses.dataclass(frozen=True)
class Learning:
    """An operator by its name in Python and in torch.

    ``learns`` are the parameters that gradients are asked of, ``results`` how many tensors it
    gives.  Where it ``copies``, others may be changed in place before the backward pass.
    """

    name: str
    operator: str
    parameters: Sequence[Parameter]
    learns: Sequence[str]
    results: int = 1
    copies: bool = False


def differentiable(given_as: str, learning: Learning, returns: str, fake: str, torch: str) -> str:
    """The operator, its backward and the formula, around the function ``NAME_in_python``.

    ``given_as`` are the operator's parameters with types and defaults, ``returns`` its result's
    annotation, ``fake`` the lines that register its fake.  Raises `Refused` where that function
    takes what has no gradient, or a name is taken.
    """
    name, operator, parameters = learning.name, learning.operator, learning.parameters
    plain = ", ".join(p.name for p in parameters)
    tensors = [p.name for p in parameters if "Tensor" in p.annotation]
    others = [p.name for p in parameters if "Tensor" not in p.annotation]
    if any(p.annotation not in ("torch.Tensor",) for p in parameters if "Tensor" in p.annotation):
        raise Refused("a differentiable helper takes lists, or tensors that may be None")
    several = learning.results > 1
    learned = ", ".join(learning.learns)
    grads = [f"gradient_{n}" if several else "gradient" for n in range(learning.results)]
    if len({*grads, *plain.split(", "), "ctx", "pull"}) != len(grads) + len(parameters) + 2:
        raise Refused("a parameter has a name that is needed")
    back = ", ".join([signature(parameters, torch),
                      *(f"{grad}: {torch}.Tensor" for grad in grads)])  # fmt: skip
    pulled = f"({', '.join(grads)})" if several else grads[0]
    one = len(learning.learns) == 1
    kind = f"{torch}.Tensor" if one else "tuple[" + ", ".join(
        f"{torch}.Tensor" for _ in learning.learns) + "]"  # fmt: skip
    like = [f"{torch}.empty_like({p}, memory_format={torch}.contiguous_format)"
            for p in learning.learns]  # fmt: skip
    given = ", ".join([*(p.name for p in parameters), *grads])
    if one:
        unpack, give = (
            f"({learned}_grad,) = pull({pulled})",
            f"{learned}_grad.clone(memory_format={torch}.contiguous_format)",
        )
        fakes = like[0]
    else:
        unpack = f"found = pull({pulled})"
        give = f"tuple(each.clone(memory_format={torch}.contiguous_format) for each in found)"
        fakes = f"({', '.join(like)})"
    saved = ", ".join(tensors) + ("," if len(tensors) == 1 else "")
    load = (
        f"{saved.rstrip(',')} = ctx.saved_tensors"
        if len(tensors) > 1
        else f"({saved}) = ctx.saved_tensors"
    )
    kept = ", ".join(
        f"{p}.clone()" if learning.copies and p not in learning.learns else p for p in tensors
    )
    keep = "".join(f"\n    ctx.{other} = {other}" for other in others)
    restore = ", ".join(
        [*(p.name if p.name in tensors else f"ctx.{p.name}" for p in parameters), *grads]
    )
    result = {p: (f"found[{n}]" if not one else "found") for n, p in enumerate(learning.learns)}
    gradients = ", ".join(result.get(p.name, "None") for p in parameters)
    inputs = f"{plain}{',' if len(parameters) == 1 else ''}"
    return f'''@{torch}.library.custom_op("{operator}", mutates_args=())
def {name}({given_as}) -> {returns}:
    return {name}_in_python({plain})


{fake.rstrip()}


@{torch}.library.custom_op("{operator}_backward", mutates_args=())
def {name}_backward({back}) -> {kind}:
    # An operator's own code runs below autograd: this runs it again, for its gradient.
    _, pull = {torch}.func.vjp(lambda {learned}: {name}_in_python({plain}), {learned})
    {unpack}
    return {give}


{name}_backward.register_fake(
    lambda {given}: {fakes}
)


def {name}_setup(ctx, inputs, output):
    {inputs} = inputs
    ctx.save_for_backward({kept}){keep}


def {name}_gradient(ctx, {", ".join(grads)}):
    {load}
    found = {name}_backward({restore})
    return {gradients}


{name}.register_autograd({name}_gradient, setup_context={name}_setup)
'''
