"""The functions of the file that code calls, also through others."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from .sizes import methods_named


def called(site: Site, nodes: Sequence[cst.CSTNode], depth: int = 3) -> list[cst.FunctionDef]:
    """The functions and methods of the file that nodes call (or hand on), also through others."""
    found: list[cst.FunctionDef] = []
    for node in nodes:
        for inner in walk(node):
            if not isinstance(inner, cst.Call):
                continue
            targets: list[cst.CSTNode] = []
            # A function that is handed on (``filter(isnan, values)``) is called, too.
            for named in (inner.func, *(arg.value for arg in inner.args)):
                if isinstance(named, cst.Name):
                    bound = module_bindings(site.module).get(named.value, ())
                    targets += bound if len(bound) == 1 else ()
            if isinstance(inner.func, cst.Attribute):
                methods = methods_named(site, inner.func.attr.value)
                targets += methods if len(methods) == 1 else ()
            for target in targets:
                if isinstance(target, cst.FunctionDef) and target not in found:
                    found.append(target)
    if depth and found:
        for more in called(site, [f.body for f in found], depth - 1):
            if more not in found:
                found.append(more)
    return found
