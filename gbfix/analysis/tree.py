"""Fast walks over LibCST nodes, without a metadata wrapper and without whitespace."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import libcst as cst


def words(text: str) -> frozenset[str]:
    """The words of a text as a set: how this package writes its tables of names."""
    return frozenset(text.split())


_SKIPPED_FIELDS = words(
    """lpar rpar lbracket rbracket lbrace rbrace comma semicolon leading_lines
    lines_after_decorators
    lines_after_module_imports leading_comments trailing_whitespace header footer dot equal colon
    first_colon second_colon separator asynchronous operator bar star posonly_ind"""
)


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in _SKIPPED_FIELDS and not field.name.startswith("whitespace")
    )


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The child nodes in field order, without whitespace, punctuation and operators."""
    for field in _fields(type(node)):
        value = getattr(node, field)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, cst.CSTNode):
                    yield item


@functools.cache
def _all_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def parents_in(module: cst.Module) -> dict[cst.CSTNode, cst.CSTNode]:
    """The parent of every node, punctuation included: LibCST's provider takes ten times as long."""
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        for field in _all_fields(type(node)):
            value = getattr(node, field)
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, cst.CSTNode):
                    parents[item] = node
                    stack.append(item)
    return parents


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, parents first."""
    # Nodes do not change, and the same file and functions are gone through for each question.
    if isinstance(node, cst.Module):
        return iter(_all_of(node))
    return iter(_below(node)) if isinstance(node, _LARGE) else _walk(node)


_LARGE = (cst.ClassDef, cst.FunctionDef, cst.IndentedBlock)


@functools.lru_cache(maxsize=4)
def _all_of(module: cst.Module) -> tuple[cst.CSTNode, ...]:
    return tuple(_walk(module))


@functools.lru_cache(maxsize=256)
def _below(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(_walk(node))


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))


def statements_of(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The statements directly in a block, module, line or suite; any other node is itself one."""
    if isinstance(node, cst.IndentedBlock | cst.Module | cst.SimpleStatementSuite):
        return tuple(node.body)
    if isinstance(node, cst.SimpleStatementLine):
        return tuple(node.body)
    if isinstance(node, cst.Else | cst.Finally):
        return statements_of(node.body)
    return (node,)


def flatten(nodes: tuple[object, ...]) -> Iterator[cst.CSTNode]:
    """Nodes given singly or in sequences, as one stream."""
    for item in nodes:
        if isinstance(item, cst.CSTNode):
            yield item
        elif isinstance(item, list | tuple):
            yield from flatten(tuple(item))
        else:
            raise TypeError(f"expected LibCST nodes, got {type(item).__name__}")


def dotted(node: cst.CSTNode) -> str | None:
    """The text of a chain of names (``torch.nn.functional``), or None for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


_EMPTY_MODULE = cst.Module(body=())


def code(node: cst.CSTNode) -> str:
    """The node's source text."""
    return _EMPTY_MODULE.code_for_node(node)


def is_docstring(node: cst.CSTNode) -> bool:
    """Whether a statement is a text alone."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.BaseString())]):
            return True
    return False
