"""Who binds an attribute, over the texts of a whole program."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterable, Iterator

_MANY = 9


def bound_once(texts: Iterable[str], name: str) -> bool:
    """Whether one statement of a program binds an attribute of that name, and no class has one.

    Objects are not told apart: a store to the attribute of any object counts. So do class
    variables and methods (an object without the attribute shows those), and whatever may bind any
    name at all (``setattr`` with a name that is computed, ``vars``, ``__dict__``).
    """
    return sum(_bindings(text, name) for text in set(texts)) == 1


def bound_by_init(texts: Iterable[str], holder: str, name: str) -> bool:
    """Whether objects of a class get an attribute from one statement of its ``__init__`` alone.

    Other classes may bind their own in theirs, if neither derives from the other.
    """
    trees = []
    for text in set(texts):
        try:
            trees.append(ast.parse(text))
        except SyntaxError:
            return False
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    above = {base for one in classes if one.name == holder for base in _ancestors(one, classes)}
    own = 0
    explained: set[ast.AST] = set()
    for one in classes:
        inits = [f for f in one.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
        stores = [node for init in inits for node in ast.walk(init) if _sets_own(init, node, name)]
        explained.update(stores)
        own += len(stores) if one.name == holder else 0
        if one.name == holder or one.name in above or holder in _ancestors(one, classes):
            bound = any(_is_bound(item, name) for item in _class_scope(one))
            if bound or any(_may_store(node, name) for node in ast.walk(one)):
                return False
            if stores and one.name != holder:
                return False
    return own == 1 and all(node in explained for node in nodes if _stores(node, name))


def _sets_own(init: ast.FunctionDef, node: ast.AST, name: str) -> bool:
    first = init.args.args[0].arg if init.args.args else ""
    match node:
        case ast.Attribute(value=ast.Name(id=it), attr=attr, ctx=ast.Store()):
            return it == first and attr == name
    return False


def _ancestors(one: ast.ClassDef, classes: list[ast.ClassDef]) -> set[str]:
    """The names of what a class derives from, as far as the texts tell."""
    found: set[str] = set()
    waiting = [one]
    while waiting:
        for base in waiting.pop().bases:
            name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            if name not in found:
                found.add(name)
                waiting += [other for other in classes if other.name == name]
    return found


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


def reads(texts: Iterable[str], holder: str, name: str) -> Iterator[tuple[ast.AST, ...]]:
    """Where an attribute of objects of a class is read, each with what stands around it, inner
    first; what classes read of their own objects counts where one derives from the other.

    A text that cannot be parsed, or that asks for the name as a text, gives an empty tuple.
    """
    trees = []
    for text in set(texts):
        try:
            trees.append(ast.parse(text))
        except SyntaxError:
            yield ()
    classes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    above = {base for one in classes if one.name == holder for base in _ancestors(one, classes)}
    kin = {one.name for one in classes if holder in _ancestors(one, classes)} | above | {holder}
    for tree in trees:
        yield from _reads_below(tree, (), name, kin)


def _reads_below(
    node: ast.AST, around: tuple[ast.AST, ...], name: str, kin: set[str]
) -> Iterator[tuple[ast.AST, ...]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Attribute(attr=attr, ctx=ast.Load()) if attr == name:
                if not _is_of_another(child, (node, *around), kin):
                    yield (child, node, *around)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=it), *_]):
                if it == name:
                    yield ()
        yield from _reads_below(child, (node, *around), name, kin)


def _is_of_another(read: ast.Attribute, around: tuple[ast.AST, ...], kin: set[str]) -> bool:
    """Whether it is ``self.name`` in a method of a class that has nothing to do with those."""
    for inner, outer in itertools.pairwise(around):
        if isinstance(outer, ast.ClassDef):
            if not isinstance(inner, ast.FunctionDef) or outer.name in kin:
                return False
            first = inner.args.args[0].arg if inner.args.args else ""
            return isinstance(read.value, ast.Name) and read.value.id == first
    return False
