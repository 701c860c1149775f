"""``match`` as a chain of ``if``, which a choice by data can be made of."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.build import grouped
from gbfix.analysis.tree import dotted

from .context import Context
from .tests import decided_by_tensor

_LITERAL = cst.BaseNumber | cst.SimpleString | cst.ConcatenatedString | cst.UnaryOperation


def decides_by_tensor(node: cst.Match, ctx: Context) -> bool:
    """Whether a tensor decides in a ``match``: it is what is matched, or a guard asks for it."""
    chain = as_ifs(node)
    while isinstance(chain, cst.If):
        if decided_by_tensor(chain.test, ctx):
            return True
        chain = chain.orelse if isinstance(chain.orelse, cst.If) else None
    return False


def as_ifs(node: cst.Match) -> cst.If | None:
    """The same in ``if`` and ``elif``; None where a pattern binds names or looks into objects.

    Python compares with each case in turn, and asks a guard where its pattern fits.
    """
    if not _is_plain(node.subject):
        return None
    chain: cst.If | cst.Else | None = None
    for number, case in reversed(list(enumerate(node.cases))):
        fits = _fits(case.pattern, node.subject)
        if fits is False:
            return None
        test = fits if isinstance(fits, cst.BaseExpression) else None
        if case.guard is not None:
            guard = case.guard
            test = guard if test is None else _both(test, guard)
        above = [] if number == 0 else case.leading_lines
        if test is None:
            if number == 0:
                return None
            chain = cst.Else(case.body, leading_lines=above)
            continue
        chain = cst.If(test, case.body, chain, leading_lines=above)
    if not isinstance(chain, cst.If):
        return None
    return chain.with_changes(leading_lines=[*node.leading_lines, *node.cases[0].leading_lines])


def _is_plain(subject: cst.BaseExpression) -> bool:
    """Whether what is matched may stand in each test."""
    if dotted(subject) is not None:
        return True
    match subject:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("item")), args=[]):
            return _is_plain(owner)
        case cst.Call(func=cst.Name("int" | "bool" | "float"), args=[cst.Arg(value=owner)]):
            return _is_plain(owner)
    return False


def _fits(pattern: cst.MatchPattern, subject: cst.BaseExpression) -> cst.BaseExpression | bool:
    """The test of a pattern; True for the wildcard, False for what is no plain value."""
    match pattern:
        case cst.MatchAs(pattern=None, name=None):
            return True
        case cst.MatchSingleton(value=value):
            return _compared(subject, cst.Is(), value)
        case cst.MatchValue(value=value) if isinstance(value, _LITERAL) or dotted(value):
            return _compared(subject, cst.Equal(), value)
        case cst.MatchOr(patterns=elements):
            tests = [_fits(element.pattern, subject) for element in elements]
            if not all(isinstance(test, cst.BaseExpression) for test in tests):
                return False
            whole, *others = tests
            for other in others:
                assert isinstance(whole, cst.BaseExpression)
                assert isinstance(other, cst.BaseExpression)
                whole = cst.BooleanOperation(whole, cst.Or(), other)
            return whole
    return False


def _compared(
    subject: cst.BaseExpression, operator: cst.BaseCompOp, value: cst.BaseExpression
) -> cst.Comparison:
    return cst.Comparison(subject, [cst.ComparisonTarget(operator, value)])


def _both(fits: cst.BaseExpression, guard: cst.BaseExpression) -> cst.BooleanOperation:
    parts = [
        grouped(part)
        if isinstance(part, cst.BooleanOperation | cst.IfExp | cst.NamedExpr | cst.Lambda)
        else part
        for part in (fits, guard)
    ]
    return cst.BooleanOperation(parts[0], cst.And(), parts[1])
