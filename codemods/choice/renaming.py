"""Names of an arm that must not meet the names outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import libcst as cst

NodeT = TypeVar("NodeT", bound=cst.CSTNode)


class _Rename(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.names = dict(names)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.names.get(original_node.value, updated_node)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)


def renamed(node: NodeT, names: Mapping[str, str]) -> NodeT:
    """The node with variables under other names; attributes and keywords stay."""
    if not names:
        return node
    new = node.visit(_Rename({old: cst.Name(new) for old, new in names.items()}))
    assert isinstance(new, cst.CSTNode)
    return new


def replaced(node: NodeT, names: Mapping[str, cst.BaseExpression]) -> NodeT:
    """The node with expressions in the places of variables."""
    new = node.visit(_Rename(names))
    assert isinstance(new, cst.CSTNode)
    return new
