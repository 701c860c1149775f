"""What stands around a data-dependent statement, and forbids or colours its lowering."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.aliasing import (
    changed_in_place,
    handed_to_modules,
    holders_of,
    sharing,
)
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from .handed import hands_to_changer
from .refusal import Refusal
from .sites import surely_without_gradients
from .uses import is_private
from .values import Share, Values


def is_one_of_several(site: Site, node: cst.CSTNode) -> bool:
    """Whether the function will run more than one ``torch.cond`` (or loop), if it gets one here.

    Measured on torch 2.13: with inductor and donated buffers (both are defaults), the backward of
    a graph with two or more conds or while_loops can be silently wrong, where their gradients are
    added up.
    """
    if surely_without_gradients(site, node):
        return False
    if any(isinstance(parent, cst.For | cst.While) for parent in site.ancestors(node)):
        return True
    assert site.function is not None
    return any(
        isinstance(inner, cst.Call)
        and isinstance(inner.func, cst.Attribute)
        and inner.func.attr.value in ("cond", "while_loop")
        for inner in walk(site.function.body)
    )


SEVERAL = (
    "With gradients, several torch.cond in one graph can get wrong ones from inductor in torch"
    " 2.13, unless torch._functorch.config.donated_buffer is False."
)


def check_later_changes(site: Site, node: cst.CSTNode, values: Values, names: set[str]) -> None:
    """Refuse where a later change in place would have reached a tensor that is now a copy."""
    nodes = _after(site, node)
    later = activity(nodes)
    held = names | {name for name in later.mutates if _may_share(name, names, values)}
    held |= sharing(site.locals_before(site.statement_of(node)), names)

    def makes_new(it: cst.BaseExpression) -> bool:
        return values.share(it, frozenset()) in (Share.FRESH, Share.PYTHON)

    changed = changed_in_place(nodes, held, makes_new, site.function)
    holders = holders_of(nodes, held, makes_new, site.function)
    changed |= _changed_by_helpers(site, nodes, holders, makes_new)
    if "inplace=True" in site.source:
        changed |= held & handed_to_modules(nodes)
    for name in sorted(changed):
        if is_private(site, name, node, values):
            continue  # nobody else holds it: the name just goes on with the copy
        if name in later.augments and values.is_rebound_by_augmenting(name):
            continue
        fact = values.outside(name)
        if name in names or fact is None or fact.is_tensor:
            raise Refusal(f"`{name}` is changed in place afterwards, when it would be a copy")


def _changed_by_helpers(
    site: Site,
    nodes: list[cst.CSTNode],
    held: set[str],
    makes_new: Callable[[cst.BaseExpression], bool],
) -> frozenset[str]:
    """Names that go, or views of which go, into functions of the file that change what they get."""
    found: set[str] = set()
    for part in (part for node in nodes for part in walk(node)):
        for arg in part.args if isinstance(part, cst.Call) else ():
            names = held & {it.value for it in walk(arg.value) if isinstance(it, cst.Name)}
            may = bool(names) and not makes_new(arg.value)
            if may and hands_to_changer(site, arg.value, unknown=False):
                found |= names
    return frozenset(found)


def _may_share(name: str, names: set[str], values: Values) -> bool:
    """Whether what the name holds now may be what one of the others holds, or a view of it."""
    fact = values.outside(name)
    if fact is None or not fact.is_tensor:
        return False
    others = [values.outside(other) for other in names]
    known = fact.storage and all(it is None or it.storage or not it.is_tensor for it in others)
    return not known or any(it is not None and it.storage == fact.storage for it in others)


def _after(site: Site, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """What may run once the statement has run."""
    later: list[cst.CSTNode] = []
    child = statement
    for parent in site.ancestors(statement):
        if isinstance(parent, cst.For | cst.While):
            later.append(parent)
        if parent is site.function:
            break
        block = getattr(parent, "body", ())
        if isinstance(block, list | tuple) and child in block:
            later.extend(block[list(block).index(child) + 1 :])
        child = parent
    return later
