"""The functions of the file that code calls, also through others."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from .sizes import methods_named


def called(site: Site, nodes: Sequence[cst.CSTNode], depth: int = 3) -> list[cst.FunctionDef]:
    """The functions and methods of the file that nodes call (or hand on), also through others.

    Getters and setters of properties are among them.
    """
    found: list[cst.FunctionDef] = []
    for node in nodes:
        for inner in walk(node):
            targets: list[cst.CSTNode] = []
            match inner:
                case cst.AssignTarget(target=cst.Attribute(attr=cst.Name(name))):
                    targets += _accessors(site, name, f"{name}.setter")
                case cst.AugAssign(target=cst.Attribute(attr=cst.Name(name))):
                    targets += _accessors(site, name, f"{name}.setter")
                case cst.Attribute(attr=cst.Name(name)):
                    targets += _accessors(site, name, "property")
            if isinstance(inner, cst.Call):
                targets += _targets(site, inner)
            for target in targets:
                if isinstance(target, cst.FunctionDef) and target not in found:
                    found.append(target)
    if depth and found:
        for more in called(site, [f.body for f in found], depth - 1):
            if more not in found:
                found.append(more)
    return found


def _accessors(site: Site, name: str, decorator: str) -> list[cst.FunctionDef]:
    return [
        method
        for method in methods_named(site, name)
        if [code(it.decorator) for it in method.decorators] == [decorator]
    ]


def _targets(site: Site, call: cst.Call) -> list[cst.CSTNode]:
    """What a call calls, as far as a name tells it."""
    targets: list[cst.CSTNode] = []
    # A function that is handed on (``filter(isnan, values)``) is called, too.
    for named in (call.func, *(arg.value for arg in call.args)):
        if isinstance(named, cst.Name):
            bound = module_bindings(site.module).get(named.value, ())
            targets += bound if len(bound) == 1 else ()
    if isinstance(call.func, cst.Attribute):
        methods = methods_named(site, call.func.attr.value)
        targets += methods if len(methods) == 1 else ()
    return targets


def is_accessor(method: cst.FunctionDef) -> bool:
    """Whether it is the getter or the setter of a property, and nothing else."""
    name = method.name.value
    return [code(it.decorator) for it in method.decorators] in (["property"], [f"{name}.setter"])
