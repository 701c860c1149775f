"""Whether code that nobody here knows gets a tensor, and may change it in place."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from ..control_flow.plain import only_computes
from .selections import tensor_fact


def is_handed_on(
    site: Site, function: cst.FunctionDef, names: Collection[str], line: int, *, masks: bool
) -> bool:
    """Whether a call from that line on may change a tensor of one of the names.

    What was selected is a copy; what is computed of all of it later would see the change.  Where
    ``masks``, every tensor of bools counts: it may be the same one by another name.
    """
    for node in walk(function.body):
        if not isinstance(node, cst.Call) or site.span(node).line < line:
            continue
        for arg in node.args:
            if not isinstance(arg.value, cst.Name):
                continue
            fact = tensor_fact(site, arg.value) if masks else None
            named = arg.value.value in names or (fact is not None and fact.dtype == "torch.bool")
            if named and not _only_looks(site, node.func):
                return True
    return False


def _only_looks(site: Site, func: cst.BaseExpression) -> bool:
    """Whether a call changes none of its arguments in place."""
    name = resolve(site.module, func) or ""
    if name.startswith(("torch.", "math.", "builtins.")):
        return not name.endswith("_")
    fact = site.fact(func)
    if fact is not None and fact.kind == "module":
        return fact.type.startswith("torch.nn.")
    if isinstance(func, cst.Attribute) and tensor_fact(site, func.value) is not None:
        return True
    return only_computes(site, func)
