"""What stands around a data-dependent statement, and forbids or colours its lowering."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from .refusal import Refusal
from .sites import surely_without_gradients
from .uses import is_private
from .values import Values


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
    later = activity_after(site, node)
    for name in sorted(later.mutates):
        if is_private(site, name, node, values):
            continue  # nobody else holds it: the name just goes on with the copy
        if name in later.augments and values.is_rebound_by_augmenting(name):
            continue
        fact = values.outside(name)
        if name in names or fact is None or fact.is_tensor:
            raise Refusal(f"`{name}` is changed in place afterwards, and would be a copy by then")


def activity_after(site: Site, statement: cst.CSTNode) -> Activity:
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
    return activity(later)
