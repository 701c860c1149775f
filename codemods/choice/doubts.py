"""Why a choice may be called by callers that could tell the patch from the original."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from .context import Context, Declined
from .convert import Converter


def doubts_of(site: Site, node: cst.CSTNode) -> tuple[str, ...]:
    """What nobody promises about the values that meet in a choice; empty where all is known."""
    ctx = Context(site)
    if ctx.function is None or not isinstance(ctx.function.body, cst.IndentedBlock):
        return ()
    inside = set(walk(node))
    try:
        Converter(ctx, lambda it: it is node or (it in inside and it is site.node)).block(
            list(ctx.function.body.body)
        )
    except (Declined, KeyError):
        return ()
    return tuple(dict.fromkeys(ctx.doubts))


def own_methods(node: cst.CSTNode, site: Site) -> list[str]:
    """The methods of its own class that a branch calls: a subclass may override them."""
    owner = site.class_of(node)
    defined = {
        it.name.value
        for it in (owner.body.body if owner is not None else ())
        if isinstance(it, cst.FunctionDef)
    }
    return sorted(
        {
            it.func.attr.value
            for it in walk(node)
            if isinstance(it, cst.Call)
            and isinstance(it.func, cst.Attribute)
            and isinstance(it.func.value, cst.Name)
            and it.func.value.value == "self"
            and it.func.attr.value in defined
        }
    )
