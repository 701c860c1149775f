"""The kernels of operators that a project registers: which one a break is about, and where."""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

_NAMED = re.compile(r"(?:unsupported operator: ([\w.]+)|CustomOpDef\(([\w:.]+)\))")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """``after`` is the statement below which the fake goes, ``target`` what it is registered on,
    ``registration`` the call that registers it.
    """

    function: cst.FunctionDef | cst.Lambda
    after: cst.BaseStatement
    target: str
    operator: str
    registration: cst.Call


def operator_called(site: Site) -> str:
    """``shop::twice``, from the error or from the call."""
    found = site.graph_break
    named = _NAMED.search(f"{found.context} {found.message} {found.explanation}")
    if named is not None and named[2]:
        return named[2]
    if named is not None:
        parts = named[1].split(".")
        return f"{parts[0]}::{parts[1]}" if len(parts) > 1 else ""
    if not isinstance(site.node, cst.Call):
        return ""
    parts = re.sub(r"\.default$", "", code(site.node.func)).split(".")
    return f"{parts[-2]}::{parts[-1]}" if parts[-4:-2] == ["torch", "ops"] else ""


def kernel_of(site: Site, name: str) -> Kernel | None:
    space, _, last = name.partition("::")
    quoted = {f'"{name}"', f"'{name}'"}
    short = {f'"{last}"', f"'{last}'"}
    spaces = {f'"{space}"', f"'{space}'"}
    for statement in site.module.body:
        if isinstance(statement, cst.FunctionDef):
            for decorator in statement.decorators:
                match decorator.decorator:
                    case cst.Call(func=func, args=[first, *_]) as call if (
                        code(first.value) in quoted
                    ):
                        if code(func).endswith("custom_op"):
                            target = f"{statement.name.value}.register_fake"
                            return Kernel(statement, statement, target, name, call)
                        if code(func).endswith("impl"):
                            return Kernel(statement, statement, "", name, call)
                    case cst.Call(func=func, args=[_, second, *_]) as call if (
                        code(func).endswith("impl") and code(second.value) in short
                    ):
                        return Kernel(statement, statement, "", name, call)
        elif isinstance(statement, cst.SimpleStatementLine):
            for node in walk(statement):
                if not isinstance(node, cst.Call) or not code(node.func).endswith(".impl"):
                    continue
                texts = [code(argument.value) for argument in node.args]
                named = texts[:1] and (texts[0] in quoted or texts[0] in short)
                if not named or not any(text in site.source for text in spaces | quoted):
                    continue
                for argument in node.args[1:]:
                    function = _function(site, argument.value)
                    if function is not None:
                        return Kernel(function, statement, "", name, node)
    return None


def _function(site: Site, node: cst.BaseExpression) -> cst.FunctionDef | cst.Lambda | None:
    if isinstance(node, cst.Lambda):
        return node
    if isinstance(node, cst.Name):
        bound = module_bindings(site.module).get(node.value, ())
        if len(bound) == 1 and isinstance(bound[0], cst.FunctionDef):
            return bound[0]
    return None
