"""From the place of a break to the piece of control flow that has to change."""

from __future__ import annotations

import re

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site


def if_at(site: Site) -> cst.If | None:
    """The ``if`` statement whose test broke: of an ``elif`` chain, its head."""
    found: cst.If | None = None
    child: cst.CSTNode = site.node
    if isinstance(child, cst.If):
        found = child
    else:
        for parent in site.ancestors(child):
            if isinstance(parent, cst.If) and child is parent.test:
                found = parent
                break
            if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
                return None
            if isinstance(parent, cst.IfExp | cst.Lambda | cst.BaseComp):
                return None
            child = parent
    while found is not None:
        above = site.parent(found)
        if not isinstance(above, cst.If):
            return found
        found = above
    return None


def rest_of(site: Site, node: cst.CSTNode) -> list[cst.BaseStatement]:
    """The statements that follow in the same block."""
    block = list(site.block_of(node))
    return [s for s in block[block.index(node) + 1 :] if isinstance(s, cst.BaseStatement)]


def depth_of(site: Site, node: cst.CSTNode) -> int:
    """In how many blocks the statement stands."""
    return site.span(node).column // max(1, len(site.module.default_indent))


def without_gradients(site: Site, node: cst.CSTNode) -> bool:
    """Whether a ``with`` of the function turns gradients off for the node (and not for the rest).

    A copy made there has no gradient, where the tensor itself may have one.
    """
    for parent in site.ancestors(node):
        if parent is site.function:
            return False
        if isinstance(parent, cst.With) and any(
            re.search(r"no_grad|inference_mode|grad_enabled", site.text(item.item))
            for item in parent.items
        ):
            return True
    return False


def surely_without_gradients(site: Site, node: cst.CSTNode) -> bool:
    """Whether no gradient can come to what the node computes.

    The function turns them off, or all of the project that calls it does.
    """
    if re.search(r"enable_grad|grad_enabled|inference_mode", site.text(node)):
        return False  # it may turn them on again
    return _is_off(site, node, _CALLS)


#: How many calls are followed outward to a place where gradients are turned off.
_CALLS = 3


def _is_off(site: Site, node: cst.CSTNode, calls: int) -> bool:
    for parent in site.ancestors(node):
        if isinstance(parent, cst.With):
            found = [_turns_off(site, item.item) for item in parent.items]
            if any(off is not None for off in found):
                return all(off for off in found if off is not None)
        if isinstance(parent, cst.FunctionDef):
            decorators = [_turns_off(site, d.decorator) for d in parent.decorators]
            if any(decorators):
                return all(off is not False for off in decorators)
            return not parent.decorators and calls > 0 and _is_called_so(site, parent, calls - 1)
        if isinstance(parent, cst.Lambda | cst.ClassDef):
            return False
    return False


def _is_called_so(site: Site, function: cst.FunctionDef, calls: int) -> bool:
    """Whether gradients are off wherever the project calls a function, which it only calls."""
    name = function.name.value
    word = re.compile(rf"\b{re.escape(name)}\b")
    if any(word.search(text) for path, text in site.sources.items() if path != site.path):
        return False
    places: list[cst.CSTNode] = []
    for node in walk(site.module):
        if isinstance(node, cst.SimpleString) and word.search(node.value):
            return False  # somebody may look it up
        if isinstance(node, cst.Name) and node.value == name and node is not function.name:
            places.append(node)
    for place in places:
        around = site.parent(place)
        named = around if isinstance(around, cst.Attribute) and around.attr is place else place
        call = site.parent(named)
        if not isinstance(call, cst.Call) or call.func is not named:
            return False
        if not _is_off(site, call, calls):
            return False
    return bool(places)


def _turns_off(site: Site, node: cst.BaseExpression) -> bool | None:
    """Whether a context manager of torch turns gradients off; None where it is another."""
    match node:
        case cst.Call(func=func, args=[]):
            called = resolve(site.module, func) or ""
            if called in ("torch.no_grad", "torch.inference_mode"):
                return True
    return False if re.search(r"grad|inference_mode", site.text(node)) else None


def ternary_at(site: Site) -> cst.IfExp | None:
    """The conditional expression whose test broke."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.IfExp):
        return child
    for parent in site.ancestors(child):
        if isinstance(parent, cst.IfExp) and child is parent.test:
            return parent
        if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
            return None
        if isinstance(parent, cst.IfExp | cst.Lambda | cst.BaseComp):
            return None
        child = parent
    return None
