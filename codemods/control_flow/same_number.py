"""``a if test else b`` with two equal numbers: Python decides, and the test is not read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, indent_of, line_length
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from ..api.splice import Splice
from ..wrap.loose import are_numbers
from .if_to_where import is_point
from .predicates import split
from .refusal import Refusal
from .sites import ternary_at
from .values import Values

_CHURN = "min(churn / (len(sigmas) - 1), 0.4)"
_FACTS = {
    "x": tensor(3),
    "sigma": tensor(),
    "sigmas": tensor(11),
    "low": scalar(0.0),
    "high": scalar(9.0),
    "churn": scalar(0.0),
    "churn / 10.0": scalar(0.0),
    "churn * 0.5": scalar(0.0),
    "len(sigmas) - 1": scalar(10),
    _CHURN: scalar(0.0),
}


def _case(line: str) -> str:
    return (
        "import torch\n\ndef f(x, sigma, sigmas, low, high, churn, g):\n"
        f"    {line}\n    return x * (gamma + 1)\n"
    )


class SameNumber(Codemod):
    """Asks for a tensor's truth only where that makes a difference.

    **What it does**

    ``gamma = churn / 10.0 if low <= sigma else 0.0`` becomes ``gamma = churn / 10.0 if churn / 10.0
    != 0.0 and low <= sigma else 0.0``: with a churn of zero both numbers are 0.0, and the tensor
    ``sigma`` is not read.  Samplers of diffusion models have such a line.

    **When it applies**

    Both are Python floats, the second written out, and they were equal in all recorded calls.

    **Fix safety**

    Safe where the names in the first number are parameters that are said to be numbers: where it
    differs, or cannot be computed as a divisor is zero, the test decides as before (and the graph
    breaks there).  Unsafe for others: None, say, could not be computed with before the test.

    **Refuses**

    Numbers that may be no float, divisors that cannot be asked for first, calls of anything but
    ``min``, ``max``, ``abs`` and ``len``, and tests that do anything or have dimensions.
    """

    name = "same-number"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            _case("gamma = churn / 10.0 if low <= sigma else 0.0  # as Karras"),
            _case(
                "gamma = churn / 10.0 if churn / 10.0 != 0.0 and low <= sigma else 0.0  # as Karras"
            ),
            at="low <= sigma",
            facts=_FACTS,
        ),
        Example(
            _case(f"gamma = {_CHURN} if low <= sigma <= high else 0."),
            _case(
                "gamma = (\n"
                f"        {_CHURN}\n"
                f"        if (len(sigmas) - 1 == 0 or {_CHURN} != 0.)\n"
                "        and low <= sigma <= high\n"
                "        else 0.\n"
                "    )"
            ),
            at="low <= sigma <= high",
            facts=_FACTS,
        ),
    )
    near_misses = tuple(
        NearMiss(_case(f"gamma = {line}"), at="low <= sigma", why=why, facts=_FACTS | facts)
        for line, why, facts in (
            ("churn if low <= sigma else 0.0", "may be a whole number in another call", {}),
            ("churn * 0.5 if low <= sigma else 0", "a whole number is no float", {}),
            ("churn * 0.5 if low <= sigma else 1.0", "they differ", {}),
            ("churn * 0.5 if low <= sigma else 0.0", "not always equal",
             {"churn * 0.5": scalar(0.0, constant=False)}),
            ("churn * 0.5 if low <= sigma else 0.0", "a tensor", {"churn * 0.5": tensor()}),
            ("churn * 0.5 if low <= sigma else 0.0", "a test of many",
             {"sigma": tensor(3)}),
            ("g() * 0.5 if low <= sigma else 0.0", "unknown code",
             {"g() * 0.5": scalar(0.0)}),
            ("churn // 10.0 / 3.0 if low <= sigma else 0.0", "an operator that is not known",
             {"churn // 10.0 / 3.0": scalar(0.0)}),
            ("churn / low / g if low <= sigma else 0.0", "two divisors",
             {"churn / low / g": scalar(0.0)}),
            ("churn / g.pop() if low <= sigma else 0.0", "a divisor that changes something",
             {"churn / g.pop()": scalar(0.0)}),
            ("churn ** -0.5 * 0.5 if low <= sigma else 0.0", "a power may fail",
             {"churn ** -0.5 * 0.5": scalar(0.0)}),
            ("churn * 0.5 if low <= sigma and g() else 0.0", "the test does something", {}),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        node = ternary_at(site)
        if node is None or site.function is None or comments_in(node) or node.lpar:
            return
        if not isinstance(node.orelse, cst.Float) or not _is_tensor_test(site, node.test):
            return
        fact = site.fact(node.body)
        if fact is None or fact.kind != "float" or not fact.constant:
            return
        if fact.value != node.orelse.evaluated_value or not _is_float(site, node.body):
            return
        divisors = _divisors(site, node.body)
        if divisors is None:
            return
        splice = Splice(site)
        splice.replace(node, _text(site, node, divisors))
        sure = are_numbers(site, [node.body])
        notes = [f"Where `{code(node.body)}` differs, the graph still breaks here."]
        if not sure:
            notes.append(
                f"`{code(node.body)}` is now computed first, and only the recorded run shows that"
                " it is a number."
            )
        yield splice.rewrite(
            "ask for the test only where the two numbers differ",
            notes=notes,
            safety=Safety.SAFE if sure else Safety.UNSAFE,
            rank=10,
            assumes=["one-sided"],
        )


def _is_tensor_test(site: Site, test: cst.BaseExpression) -> bool:
    """Whether the test reads one number of a tensor, and does nothing else."""
    values = Values(site)
    try:
        condition = split(test, values)
    except Refusal:
        return False
    if condition.python or condition.node is None or not is_point(condition.node, values):
        return False
    return values.effects(test).pure


def _is_float(site: Site, node: cst.BaseExpression) -> bool:
    """Whether numbers of any kind give a float here."""
    match node:
        case cst.Float():
            return True
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_float(site, inner)
        case cst.BinaryOperation(operator=cst.Divide()):
            return True
        case cst.BinaryOperation(
            operator=cst.Add() | cst.Subtract() | cst.Multiply(), left=left, right=right
        ):
            return _is_float(site, left) or _is_float(site, right)
        case cst.BinaryOperation(operator=cst.Power(), left=left, right=cst.Float()):
            return isinstance(left, cst.Integer | cst.Float)
        case cst.Call(func=func, args=args) if resolve(site.module, func) in _OF_NUMBERS:
            plain = all(not arg.star and arg.keyword is None for arg in args)
            return plain and len(args) > 1 and all(_is_float(site, arg.value) for arg in args)
    return False


_OF_NUMBERS = ("builtins.min", "builtins.max")
_HARMLESS = (*_OF_NUMBERS, "builtins.len", "builtins.abs")
_SIMPLE = (
    cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.BinaryOperation, cst.UnaryOperation,
    cst.Call,
)  # fmt: skip
_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power, cst.Minus)


def _divisors(site: Site, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """What the number is divided by, if it is not written out; None if more than that may fail."""
    result = []
    for part in walk(node):
        if isinstance(part, cst.BaseExpression) and not isinstance(part, _SIMPLE):
            return None
        if isinstance(part, cst.BinaryOperation | cst.UnaryOperation) and not isinstance(
            part.operator, _OPERATORS
        ):
            return None
        if isinstance(part, cst.Call) and resolve(site.module, part.func) not in _HARMLESS:
            return None
        if not isinstance(part, cst.BinaryOperation):
            continue
        if isinstance(part.operator, cst.Power):
            base, exponent = part.left, part.right
            written = isinstance(base, cst.Integer | cst.Float) and base.evaluated_value > 0
            if not written or not isinstance(exponent, cst.Integer | cst.Float):
                return None
        if isinstance(part.operator, cst.Divide):
            by = part.right
            if isinstance(by, cst.Integer | cst.Float):
                if not by.evaluated_value:
                    return None
            else:
                result.append(by)
    does = activity(node)
    if does.mutates or does.mutates_unknown or does.writes or len(result) > 1:
        return None
    # A divisor that itself divides could fail before it is asked for.
    inner = [part for by in result for part in walk(by) if isinstance(part, cst.BinaryOperation)]
    if any(isinstance(part.operator, cst.Divide) for part in inner):
        return None
    assert site.function is not None
    bound = definitely_bound_before(site.function, site.statement)
    local = function_scope(site.function).locals
    return result if not (does.reads & local) - bound else None


def _text(site: Site, node: cst.IfExp, divisors: list[cst.BaseExpression]) -> str:
    splice = Splice(site)
    body, test, other = (splice.source_of(part) for part in (node.body, node.test, node.orelse))
    differs = f"{body} != {other}"
    if divisors:
        by = code(divisors[0].with_changes(lpar=(), rpar=()))
        differs = f"({by} == 0 or {differs})"
    if isinstance(node.test, cst.BooleanOperation | cst.IfExp | cst.Lambda) and not node.test.lpar:
        test = f"({test})"
    parts = [body, f"if {differs}", f"and {test}", f"else {other}"]
    if site.span(node).column + len(" ".join(parts)) <= line_length(site.module):
        return " ".join(parts)
    depth = indent_of(site.module, site.statement)
    step, newline = site.module.default_indent, site.module.default_newline
    inner = "".join(f"{newline}{depth}{step}{part}" for part in parts)
    return f"({inner}{newline}{depth})"
