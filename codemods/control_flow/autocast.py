"""Whether a program may run under autocast, where it was seen without: products get narrower."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions

from ..operator.inputs import PRODUCTS

_NARROW = ("torch.bfloat16", "torch.float16")


def may_be_cast(site: Site, scope: cst.CSTNode) -> bool:
    """Whether the project asks for autocast somewhere, and the run of the code was not under it."""
    if not mentions(site, r"\bautocast\b"):
        return False
    facts = (site.fact(it) for it in walk(scope) if isinstance(it, cst.Name | cst.Call))
    return not any(fact is not None and fact.dtype in _NARROW for fact in facts)


def has_products(site: Site, *nodes: cst.CSTNode | None, deep: bool = False) -> bool:
    """Whether code multiplies matrices or calls a layer (``deep``: a function of the project)."""
    for part in (part for node in nodes if node is not None for part in walk(node)):
        match part:
            case (
                cst.BinaryOperation(operator=cst.MatrixMultiply())
                | cst.AugAssign(operator=cst.MatrixMultiplyAssign())
            ):
                return True
            case cst.Call(func=func):
                fact = site.fact(func)
                known = fact is not None and (fact.kind == "module" or (deep and fact.in_project))
                if known or code(func).rpartition(".")[2] in PRODUCTS:
                    return True
    return False


__all__ = ["has_products", "may_be_cast"]
