"""``if len(rows) == 0: return torch.tensor(0.0)``: what a loss of nothing is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from .selections import FLOATS, missed, tensor_fact


@dataclasses.dataclass(frozen=True)
class EmptyExit:
    """The test that leaves, the number that it leaves with, and what is returned otherwise."""

    test: cst.If
    number: str
    returns: tuple[cst.Return, ...]


def empty_exit(
    site: Site,
    function: cst.FunctionDef,
    *,
    counted: Callable[[cst.CSTNode], object],
    is_mask: Callable[[cst.BaseExpression], bool],
    known: Collection[cst.CSTNode],
    reduced: Collection[str],
) -> EmptyExit | None:
    """The early return of a function where nothing was selected, if all below it may run then.

    ``counted`` tells a count of what was selected, ``known`` are targets and reductions of rows,
    ``reduced`` are names that some ways leave as they are.
    """
    body = list(function.body.body)
    for place, line in enumerate(body):
        if not isinstance(line, cst.If) or line.orelse is not None:
            continue
        number = "" if comments_in(line.body) else _number_left_with(site, line.body)
        tested = missed(line.test)
        nothing = tested is not None and is_mask(tested)
        if not number or not (nothing or _asks_for_none(line.test, counted)):
            continue
        returns = _returns(site, body[place + 1 :], known, reduced)
        return EmptyExit(line, number, tuple(returns)) if returns is not None else None
    return None


def _asks_for_none(test: cst.BaseExpression, counted: Callable[[cst.CSTNode], object]) -> bool:
    """``len(rows) == 0``, ``rows.numel() < 1``, ``not len(rows)``."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=cst.Integer(least))],
        ):
            told = {"0": cst.Equal | cst.LessThanEqual, "1": cst.LessThan}.get(least)
            return told is not None and isinstance(operator, told) and bool(counted(left))
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return bool(counted(inner))
    return False


def _number_left_with(site: Site, body: cst.BaseSuite) -> str:
    """The number of ``return torch.tensor(0.0)``, where that is all; "" for anything else."""
    match body:
        case cst.IndentedBlock(
            body=[cst.SimpleStatementLine(body=[cst.Return(value=cst.Call() as made)])]
        ):
            pass
        case _:
            return ""
    told = [arg.keyword.value for arg in made.args if arg.keyword is not None]
    plain = [code(arg.value) for arg in made.args if arg.keyword is None and not arg.star]
    if set(told) - {"device", "requires_grad"} or len(plain) + len(told) != len(made.args):
        return ""
    if any(code(arg.value) == "True" for arg in made.args):
        return ""
    name = resolve(site.module, made.func) or ""
    last = made.func.attr.value if isinstance(made.func, cst.Attribute) else ""
    match made.args:
        case [cst.Arg(value=cst.Float(value=number), keyword=None), *_] if (
            name == "torch.tensor" or (last == "new_tensor" and not name)
        ):
            return number
    empty = plain in (["()"], ["[]"])
    return "0.0" if empty and (name == "torch.zeros" or (last == "new_zeros" and not name)) else ""


def _returns(
    site: Site,
    lines: Sequence[cst.CSTNode],
    known: Collection[cst.CSTNode],
    reduced: Collection[str],
) -> list[cst.Return] | None:
    """The returns below, but for those of names that are reduced.

    None where something there may do more than compute.
    """
    found: list[cst.Return] = []
    for small in _small(lines):
        match small:
            case cst.Return(value=cst.Name(name)) if name in reduced:
                continue
            case cst.Return(value=cst.BaseExpression() as value):
                fact = tensor_fact(site, value)
                single = fact is not None and fact.shape == () and fact.dtype in FLOATS
                if not single:
                    return None
                found.append(small)
            case cst.Assign(targets=[cst.AssignTarget(target=target)]) if target in known:
                pass
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())]):
                if not effects_of(small, site.fact).pure:
                    return None
            case _:
                return None
    match list(lines):
        case [*_, cst.SimpleStatementLine(body=[*_, cst.Return()])]:
            return found
    return None


def _small(lines: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The simple statements below; what is no plain line or ``if`` comes as it is."""
    for line in lines:
        match line:
            case cst.SimpleStatementLine(body=body):
                yield from body
            case cst.If(body=body, orelse=orelse):
                if any(isinstance(it, cst.NamedExpr | cst.Await) for it in walk(line.test)):
                    yield line
                yield from _small(body.body)
                if orelse is not None:
                    yield from _small([orelse] if isinstance(orelse, cst.If) else orelse.body.body)
            case _:
                yield line
