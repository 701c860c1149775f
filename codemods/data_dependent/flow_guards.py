"""What an ``if`` says of a number: that it is not zero inside, and what it is after ``n = 1``."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

#: Comparisons with zero that no zero passes.
_APART = cst.GreaterThan | cst.LessThan | cst.NotEqual


def is_zero_elsewhere(site: Site, number: cst.Name) -> bool:
    """Whether a name is no zero where it stands: in an arm of ``if n > 0``, say."""
    child: cst.CSTNode = number
    for parent in site.ancestors(number):
        if isinstance(parent, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return False
        match parent:
            case cst.If(test=test, body=body) | cst.IfExp(test=test, body=body) if (
                child is body and _excludes_zero(test, number.value)
            ):
                return number.value not in activity(body).bound
        child = parent
    return False


def _excludes_zero(test: cst.BaseExpression, name: str) -> bool:
    match test:
        case cst.Name(value=value):
            return value == name
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return _excludes_zero(left, name) or _excludes_zero(right, name)
        case cst.Comparison(
            left=cst.Name(value=value),
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=bound)],
        ) if value == name and isinstance(bound, cst.Integer | cst.Float):
            if isinstance(operator, cst.GreaterThanEqual):
                return bound.evaluated_value > 0
            if isinstance(operator, cst.GreaterThan):
                return bound.evaluated_value >= 0
            return isinstance(operator, _APART) and bound.evaluated_value == 0
    return False


def replaced(node: cst.If) -> tuple[cst.Name, cst.BaseExpression] | None:
    """The name and the value of ``if n == 0: n = 1``: an ``if`` that does nothing else."""
    body = node.body.body
    if node.orelse is not None or len(body) != 1:
        return None
    if any(isinstance(it, cst.Comment) for it in walk(node)):
        return None
    line = body[0]
    small = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    match small:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value)]:
            plain = isinstance(value, cst.Integer | cst.Float)
            return (name, value) if plain else None
    return None


def negated(test: cst.BaseExpression) -> cst.Name | None:
    """The number of ``if not n``."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name() as name):
            return name
    return None


__all__ = ["is_zero_elsewhere", "negated", "replaced"]
