"""A piece that holds the call of an operator which gbfix made before: what that computes, instead.

A derivative cannot go through the call of an operator inside of another one (`torch.func.vjp` takes
no `register_autograd`), and two operators where one does it all are two calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.names import names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Edit, Site

from ..wrap.operator_text import spellings

_PARTS = ("", "_backward", "_keep", "_pull")


def own_operators(site: Site) -> dict[str, str]:
    """By name: operators that gbfix made of a function beside them, and that function's name.

    They change nothing, are no effects, and give what the function gives.
    """
    functions = {
        item.name.value: item for item in site.module.body if isinstance(item, cst.FunctionDef)
    }
    effects = {
        code(item.body[0].value.func).removesuffix(".register_effect")
        for item in site.module.body
        if isinstance(item, cst.SimpleStatementLine)
        and isinstance(item.body[0], cst.Expr)
        and isinstance(item.body[0].value, cst.Call)
    }
    return {
        name: f"{name}_plain"
        for name, function in functions.items()
        if f"{name}_plain" in functions and name not in effects and _is_made(site, function)
    }


def _is_made(site: Site, function: cst.FunctionDef) -> bool:
    """Whether a function is nothing but a pure operator around the function beside it."""
    name = function.name.value
    given = ", ".join(item.name.value for item in function.params.params)
    own = tuple(f".library.custom_op({it}, mutates_args=())" for it in spellings(site, name))
    return any(code(it.decorator).endswith(own) for it in function.decorators) and (
        code(function.body).strip() == f"return {name}_plain({given})"
    )


class Plainly(cst.CSTTransformer):
    """Calls of operators as calls of the functions beside them."""

    def __init__(self, operators: dict[str, str]) -> None:
        super().__init__()
        self.operators = operators

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        plain = self.operators.get(code(original_node.func))
        return updated_node if plain is None else updated_node.with_changes(func=cst.Name(plain))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        """``f_plain(x) if <autocast> else f(x)``: both are one call then."""
        one, other = updated_node.body, updated_node.orelse
        if original_node.deep_equals(updated_node) or not isinstance(one, cst.Call):
            return updated_node
        made = code(one.func) in self.operators.values() and one.deep_equals(other)
        return one if made else updated_node


def plainly(site: Site, lines: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    operators = own_operators(site)
    if not operators:
        return list(lines)
    block = cst.IndentedBlock(list(lines)).visit(Plainly(operators))
    return list(cst.ensure_type(block, cst.IndentedBlock).body)


def remove_unused(site: Site, edit: Edit, nodes: Sequence[cst.CSTNode]) -> None:
    """Take out the operators that nothing but the piece called; their code stays."""
    called = {
        code(node.func) for piece in nodes for node in walk(piece) if isinstance(node, cst.Call)
    }
    inside = {node for piece in nodes for node in walk(piece)}
    for name in own_operators(site).keys() & called:
        parts = {name + part for part in _PARTS}
        belongs = [item for item in site.module.body if _belongs(item, name, parts)]
        others = [
            node
            for item in site.module.body
            if item not in belongs
            for node in walk(item)
            if isinstance(node, cst.Name) and node.value in parts and node not in inside
        ]
        elsewhere = (text for path, text in site.sources.items() if path != site.path)
        if others or any(re.search(rf"\b{name}\b", text) for text in elsewhere):
            continue
        for item in belongs:
            edit.moved(item)  # with what is said of it above


def _belongs(item: cst.CSTNode, name: str, parts: set[str]) -> bool:
    match item:
        case cst.FunctionDef(name=cst.Name(own), decorators=decorators):
            registers = any(parts & names_in(it.decorator) for it in decorators)
            return own in parts or (own == "_" and registers)
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=func))]):
            return code(func).startswith(f"{name}.register_")
    return False
