"""Sizes that count: how many elements of a mask are true, asked as the size of what it selects."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site


def mask_counted(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor whose elements other than zero a size counts: ``len(m.nonzero())``.

    Also ``torch.nonzero(m).size(0)``, ``.size()[0]``, ``.shape[0]``, and the same of ``x[m]`` for a
    mask of bools, or of a name that is bound to such a selection once.
    """
    rows = _rows(node)
    if rows is None:
        return None
    selected = _bound_once(site, rows)
    match selected:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("nonzero")), args=args):
            if resolve(site.module, selected.func) == "torch.nonzero":
                plain = len(args) == 1 and args[0].keyword is None and not args[0].star
                mask = args[0].value if plain else None
            else:
                mask = value if not args else None
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            held, chosen = infer(value, site.fact), infer(index, site.fact)
            bools = chosen is not None and chosen.is_tensor and chosen.dtype == "torch.bool"
            tensor = held is not None and held.is_tensor
            mask = index if bools and tensor and chosen is not None and chosen.shape else None
        case _:
            return None
    fact = infer(mask, site.fact) if mask is not None else None
    if mask is None or fact is None or not fact.is_tensor:
        return None
    return mask if selected is rows or _stays(site, mask) else None


def _rows(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What is asked for its number of rows."""
    match node:
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=value, keyword=None, star="")]):
            return value
        case cst.Call(
            func=cst.Attribute(value=value, attr=cst.Name("size")),
            args=[cst.Arg(value=cst.Integer(value="0"), keyword=None)],
        ):
            return value
        case cst.Subscript(
            value=cst.Attribute(value=value, attr=cst.Name("shape"))
            | cst.Call(func=cst.Attribute(value=value, attr=cst.Name("size")), args=[]),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="0")))],
        ):
            return value
    return None


def _bound_once(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a name is bound to, where it is bound in one place of the function."""
    if not isinstance(node, cst.Name) or site.function is None:
        return node
    values = list(_bindings(site.function, node.value))
    single = values[0] if len(values) == 1 else None
    return single if single is not None else node


def _bindings(function: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression | None]:
    for parameter in walk(function.params):
        if isinstance(parameter, cst.Param) and parameter.name.value == name:
            yield None
    for node in walk(function.body):
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value
            ) if bound == name:
                yield value
            case cst.BaseSmallStatement() | cst.NamedExpr() | cst.For() | cst.AsName():
                if name in activity(node).bound:
                    yield None


def _stays(site: Site, mask: cst.BaseExpression) -> bool:
    """Whether a mask is still the same after the line that selects by it."""
    assert site.function is not None
    names = {node.value for node in walk(mask) if isinstance(node, cst.Name)}
    for node in walk(site.function.body):
        match node:
            case (
                cst.AssignTarget(target=cst.Subscript(value=cst.Name(value=name)))
                | cst.AugAssign(target=cst.Name(value=name))
                | cst.AugAssign(target=cst.Subscript(value=cst.Name(value=name)))
            ) if name in names:
                return False
            case cst.Call(func=cst.Attribute(value=base, attr=attr)):
                changes = attr.value.endswith("_") and not attr.value.endswith("__")
                if changes and any(
                    isinstance(it, cst.Name) and it.value in names for it in walk(base)
                ):
                    return False
    return all(len(list(_bindings(site.function, name))) <= 1 for name in names)


__all__ = ["mask_counted"]
