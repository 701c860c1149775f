"""Who binds an attribute, over the texts of a whole program."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

_MANY = 9


def bound_once(texts: Iterable[str], name: str) -> bool:
    """Whether one statement of a program binds an attribute of that name, and no class has one.

    Objects are not told apart: a store to the attribute of any object counts. So do class
    variables and methods (an object without the attribute shows those), and whatever may bind any
    name at all (``setattr`` with a name that is computed, ``vars``, ``__dict__``).
    """
    return sum(_bindings(text, name) for text in set(texts)) == 1


def binds(text: str, name: str) -> bool:
    """Whether a text stores to an attribute of that name, or may."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return True
    return any(_stores(node, name) or _may_store(node, name) for node in nodes)


@functools.lru_cache(maxsize=256)
def _bindings(text: str, name: str) -> int:
    found = 0
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return _MANY
    for node in ast.walk(tree):
        if _stores(node, name):
            found += 1
        if _may_store(node, name):
            found += _MANY
        if isinstance(node, ast.ClassDef):
            found += _MANY * sum(_is_bound(item, name) for item in _class_scope(node))
    return found


def _stores(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()):
            return attr == name
    return False


def _may_store(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr"), args=[_, ast.Constant(value=it), *_]
        ):
            return bool(it == name)
        case ast.Call(func=ast.Name(id="setattr" | "delattr" | "vars" | "globals" | "exec")):
            return True
        case ast.Attribute(attr="__dict__" | "__setattr__"):
            return True
    return False


def _class_scope(holder: ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a class body, those of its functions' and inner classes' bodies left out."""
    waiting: list[ast.AST] = list(holder.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _is_bound(node: ast.AST, name: str) -> bool:
    match node:
        case ast.FunctionDef(name=it) | ast.AsyncFunctionDef(name=it) | ast.ClassDef(name=it):
            return it == name
        case ast.Name(id=it, ctx=ast.Store() | ast.Del()):
            return it == name
        case ast.alias(name=it, asname=other):
            return (other or it) == name
    return False
