"""``for i in range(int(t))`` where the text says how large ``t`` is at most."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import BOOL_REDUCTIONS, PREDICATES
from gbfix.analysis.tree import code, words
from gbfix.codemod import Site

from ..control_flow.membership import WHOLE
from ..control_flow.range_to_loop import MANY
from ..control_flow.texts import number_of, primary
from ..control_flow.values import Values

#: Methods whose result is at most what bounds their tensor from above (by at least 1; NaN is 0).
_BELOW_ITS_BOUND = words(
    """max min amax amin mean median floor trunc round ceil item long int detach cpu clone
    contiguous nan_to_num"""
)
_TRUTHS = PREDICATES | BOOL_REDUCTIONS
_LIMITS = frozenset({"clamp", "clip", "clamp_max"})


@dataclasses.dataclass(frozen=True)
class Rounds:
    """A ``for`` over ``range(start, number)``: ``most`` rounds, of which ``tensor`` says how many.

    ``finite`` says that the number cannot be NaN, which Python refuses to count to.
    """

    tensor: str
    start: str
    most: int
    asked: cst.BaseExpression
    finite: bool


def rounds_of(loop: cst.For, site: Site, values: Values) -> Rounds | None:
    """How many rounds data say, where the text bounds it; None for all other loops."""
    call = loop.iter
    if not isinstance(call, cst.Call) or resolve(site.module, call.func) != "builtins.range":
        return None
    if any(arg.star or arg.keyword for arg in call.args) or loop.asynchronous is not None:
        return None
    match [arg.value for arg in call.args]:
        case [number]:
            start = "0"
        case [first, number] if isinstance(number_of(first), int):
            start = code(first)
        case _:
            return None
    whole = _read(number)
    fact = values.fact(whole)
    if fact is None or not fact.is_tensor or fact.shape not in ((), None):
        return None
    most = _most(whole, values)
    if most is None or not 0 < most <= MANY:
        return None
    exact = fact.dtype in WHOLE
    # `int` cuts fractions off, whatever comes one day; `range` takes whole numbers alone.
    cuts = isinstance(number, cst.Call) and code(number.func) == "int"
    as_it_is = exact and not cuts and fact.dtype != "torch.bool"
    text = code(whole) if as_it_is else f"{primary(whole)}.long()"
    return Rounds(text, start, most, whole, exact or _never_nan(whole))


def _read(node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor in ``int(t)``, ``t.item()`` and ``int(t.item())``."""
    match node:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=inner, keyword=None, star="")]):
            return _read(inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
            return inner
    return node


def _most(node: cst.BaseExpression, values: Values) -> int | None:
    """A number that the expression never exceeds, however it is rounded."""
    match node:
        case cst.Comparison():
            return 1
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            if not values.is_tensor(inner):
                return None
            if name in _TRUTHS:
                return 1
            if name in _LIMITS:
                found = _limit(args, 0 if name == "clamp_max" else 1)
                return found if found is not None else _most(inner, values)
            if name in _BELOW_ITS_BOUND and not args:
                return _most(inner, values)
    return None


def _limit(args: Sequence[cst.Arg], position: int) -> int | None:
    """The upper bound of a ``clamp``, where it is written out."""
    plain = [arg.value for arg in args if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
    node = named.get("max", plain[position] if len(plain) > position else None)
    number = None if node is None else number_of(node)
    return math.ceil(number) if isinstance(number, int | float) else None


def _never_nan(node: cst.BaseExpression) -> bool:
    """Whether the text rules NaN out: behind what takes it away comes nothing that makes it."""
    match node:
        case cst.Comparison():
            return True
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name))):
            if name in _TRUTHS or name == "nan_to_num":
                return True
            return name in _BELOW_ITS_BOUND | _LIMITS and _never_nan(inner)
    return False
