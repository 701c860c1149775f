"""Selections that go back to where they were selected: ``x.masked_scatter(m, y[m])``."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Rewrite, Site

from ..api.splice import Splice
from .flow import torch_name
from .selections import elementwise, is_plain_mask, mask_of, tensor_fact, whole


def scattered(site: Site) -> Rewrite | None:
    """``x.masked_scatter(m, f(y[m]))`` is ``torch.where(m, f(y), x)``.

    Where shapes are not alike, the original has too few elements for what the mask hits, or it
    cannot select at all: then it raises an error. Both need the dtype of x for what they write.
    """
    splice = Splice(site)
    changed = False
    for node in walk(site.statement):
        text = _chosen(site, node)
        if text:
            splice.replace(node, text)
            changed = True
    if not changed:
        return None
    return splice.rewrite("choose by the mask instead of scattering a selection", rank=12)


def _chosen(site: Site, node: cst.CSTNode) -> str:
    """The choice in place of a scatter; empty where the node is none."""
    match node:
        case cst.Call(
            func=cst.Attribute(
                value=held, attr=cst.Name("masked_scatter" | "masked_scatter_" as kind)
            ),
            args=[
                cst.Arg(value=mask, keyword=None, star=""),
                cst.Arg(value=value, keyword=None, star=""),
            ],
        ) if resolve(site.module, node.func) != "torch.masked_scatter":
            pass
        case cst.Call(
            args=[
                cst.Arg(value=held, keyword=None, star=""),
                cst.Arg(value=mask, keyword=None, star=""),
                cst.Arg(value=value, keyword=None, star=""),
            ]
        ) if resolve(site.module, node.func) == "torch.masked_scatter":
            kind = "masked_scatter"
        case _:
            return ""
    copied = _copied(held) if kind == "masked_scatter_" else None
    held = copied or held
    if not isinstance(held, cst.Name | cst.Attribute) or not is_plain_mask(mask):
        return ""
    text = _whole(site, held, mask, value)
    if not text:
        return ""
    text = f"{torch_name(site)}.where({code(mask)}, {text}, {code(held)})"
    return text if kind == "masked_scatter" or copied else f"{code(held)}.copy_({text})"


def _copied(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What ``x.clone()`` is a copy of, which nothing else sees."""
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("clone")), args=[]):
            return value
    return None


def _whole(
    site: Site, held: cst.BaseExpression, mask: cst.BaseExpression, value: cst.BaseExpression
) -> str:
    """What is scattered, with whole tensors instead of selections."""
    what = elementwise(site, value, mask)
    into, chosen = tensor_fact(site, held), tensor_fact(site, mask)
    if what is None or not what.selections or what.unknown or what.of_rows:
        return ""
    if into is None or chosen is None or into.shape is None or chosen.dtype != "torch.bool":
        return ""
    facts = [tensor_fact(site, one.value) for one in what.selections]
    if any(fact is None or fact.shape != chosen.shape for fact in facts):
        return ""
    if into.shape != chosen.shape or any(mask_of(site, one) is None for one in what.selections):
        return ""
    return whole(site, value, what, mask)
