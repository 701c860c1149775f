"""Checks that two selections by one mask are of one length: they are, whatever the mask holds."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from .selections import is_plain_mask, mask_of, same_mask


def holds_anyway(
    site: Site, use: cst.CSTNode, name: str, mask: cst.BaseExpression
) -> cst.Assert | cst.If | None:
    """The check around a use of a name, if it cannot fail where the name is ``x[mask]``.

    ``assert len(name) == len(other)``, or ``if len(name) != len(other): raise ...``, where the
    other is a selection by the same mask, and nothing changes the mask.
    """
    statement: cst.Assert | cst.If
    for parent in site.ancestors(use):
        match parent:
            case cst.Assert(test=test):
                statement, unequal = parent, False
                break
            case cst.If(test=test, orelse=None, body=body) if _only_raises(body):
                statement, unequal = parent, True
                break
    else:
        return None
    match test:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
        ) if isinstance(operator, cst.NotEqual if unequal else cst.Equal):
            names = {_has_length(left), _has_length(right)}
        case _:
            return None
    (other,) = names - {name} if len(names) == 2 and name in names else (None,)
    if other is None or not _is_kept(site, mask) or not _selects(site, other, mask):
        return None
    return statement


def _only_raises(body: cst.BaseSuite) -> bool:
    match body:
        case cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Raise()])]):
            return True
        case cst.SimpleStatementSuite(body=[cst.Raise()]):
            return True
    return False


def _has_length(node: cst.BaseExpression) -> str | None:
    """The name of whose length an expression speaks."""
    match node:
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name(value=name))]):
            return name
        case cst.Call(
            func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name("size")),
            args=[cst.Arg(value=cst.Integer("0"))],
        ):
            return name
        case cst.Subscript(
            value=cst.Attribute(value=cst.Name(value=name), attr=cst.Name("shape")),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
        ):
            return name
    return None


def _is_kept(site: Site, mask: cst.BaseExpression) -> bool:
    """Whether a mask is a name of the function that is bound once and never changed."""
    if site.function is None or not is_plain_mask(mask):
        return False
    names = {node.value for node in walk(mask) if isinstance(node, cst.Name)}
    what = activity(site.function.body)
    bound = [_binds(site, place) for name in names for place in site.places_of(name, site.function)]
    return not names & what.mutates and not what.mutates_unknown and bound.count(True) == 1


def _binds(site: Site, place: cst.CSTNode) -> bool:
    holder = site.parent(place)
    if isinstance(holder, cst.Param):
        return True
    writes = cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For
    target = getattr(holder, "target", None)
    if isinstance(holder, writes):
        return target is place
    return isinstance(holder, cst.Element | cst.AsName)  # bound with others: not told apart


def _selects(site: Site, name: str, mask: cst.BaseExpression) -> bool:
    """Whether a name is only ever ``x[mask]``."""
    values: list[cst.BaseExpression] = []
    for place in site.places_of(name, site.function) if site.function is not None else ():
        holder = site.parent(place)
        assign = site.parent(holder) if isinstance(holder, cst.AssignTarget) else None
        if isinstance(assign, cst.Assign):
            values.append(assign.value)
        elif _binds(site, place):
            return False
    found = mask_of(site, values[0]) if len(values) == 1 else None
    return found is not None and same_mask(site, found, mask) and code(mask) != name
