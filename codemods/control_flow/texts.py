"""Small questions about expressions, and their texts."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.tree import code


def number_of(node: cst.BaseExpression) -> int | float | None:
    """The value of a literal number; None for anything else."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = number_of(node.expression)
        return -inner if inner is not None else None
    if isinstance(node, cst.Integer | cst.Float):
        value: int | float = node.evaluated_value
        return value if abs(value) < float("inf") else None
    return None


def operand(text: str) -> str:
    """The text of an expression, fit to stand beside any operator."""
    return text if _is_primary(cst.parse_expression(text)) else f"({text})"


def primary(node: cst.BaseExpression) -> str:
    """The text of the node, fit to be asked for an attribute, or to stand beside any operator."""
    return code(node) if _is_primary(node) else f"({code(node)})"


def as_whole(node: cst.BaseExpression, torch: str) -> str:
    """The text of a tensor that ``int`` reads.

    What a name stands for may be a float or a Python number another time; ``int`` takes both, and
    cuts off what ``<`` does not.
    """
    named = isinstance(node, cst.Name | cst.Attribute | cst.Subscript)
    return f"{torch}.as_tensor({code(node)}, dtype={torch}.int64)" if named else primary(node)


def elements(node: cst.Tuple | cst.List) -> list[cst.BaseExpression] | None:
    """The elements of a display; None where it is empty, or one is starred."""
    plain = all(isinstance(element, cst.Element) for element in node.elements)
    return [element.value for element in node.elements] if node.elements and plain else None


def with_name(node: cst.BaseExpression, name: str, new: str) -> cst.BaseExpression:
    """The expression with one name in place of another."""
    renamed = node.visit(_Rename(name, new))
    assert isinstance(renamed, cst.BaseExpression)
    return renamed


class NamesOnly(cst.CSTTransformer):
    """Leaves alone what looks like a name and is none: attributes and keywords of calls."""

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


class _Rename(NamesOnly):
    def __init__(self, name: str, new: str) -> None:
        super().__init__()
        self._name = name
        self._new = new

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        mine = original_node.value == self._name
        return updated_node.with_changes(value=self._new) if mine else updated_node


def _is_primary(node: cst.BaseExpression) -> bool:
    """Whether the expression can be an operand of any operator as it stands."""
    return bool(node.lpar) or isinstance(
        node, cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.BaseNumber
    )
