"""Whether a program may use a number that it reads from a tensor as a size or an index."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from gbfix.analysis.tree import words

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: What makes a number, or a text, of numbers.
_COUNTS = words(
    """print round str float abs repr sum len max min sorted list isinstance enumerate zip reversed
    tuple set iter next"""
)
_FILLS = words("append extend update insert add setdefault appendleft")
_Uses = Iterable[ast.AST]
#: A text, a line in it from 1 and a column from 0.
Place = tuple[str, int, int]


class NumbersUsed:
    """The texts of a program, in which numbers are followed by the names that they get.

    Only functions that a region may reach count: what Dynamo does not trace reads its numbers as
    before.  ``compiled`` names the functions that are known to run inside one.
    """

    def __init__(self, texts: Iterable[str], compiled: Iterable[str]) -> None:
        self._trees = {text: ast.parse(text) for text in texts}
        self._holders = {
            child: node
            for tree in self._trees.values()
            for node in ast.walk(tree)
            for child in ast.iter_child_nodes(node)
        }
        self._traced = self._reach(set(compiled))
        self._done: set[tuple[object, str, str]] = set()

    def sizes(self, known: Place | None = None, *, leaves: bool = False) -> bool:
        """Whether a read of the program may become a size or an index.

        The one at ``known`` is none itself; or, with ``leaves``, it may be returned, as the region
        ends there.
        """
        for text, tree in self._trees.items():
            for node in ast.walk(tree):
                if node not in self._traced or not _is_read(node):
                    continue
                here = known == (text, getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
                if here and not leaves:
                    continue
                self._done.clear()
                if self._may(node, leaves=here):
                    return True
        return False

    def _reach(self, names: set[str]) -> dict[ast.AST, None]:
        """The nodes of functions that a compiled one may call, by any mention of their names."""
        nodes = [node for tree in self._trees.values() for node in ast.walk(tree)]
        functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
        for node in nodes:
            match node:
                case ast.Call(func=func) if "compile" in ast.unparse(func):
                    names |= _mentioned(node)
                case ast.FunctionDef(name=name, decorator_list=marks) if any(
                    "compile" in ast.unparse(mark) for mark in marks
                ):
                    names.add(name)
        todo = list(functions)
        found = [part for node in nodes if isinstance(node, ast.Lambda) for part in ast.walk(node)]
        while todo:
            reached = [f for f in todo if f.name in names or f.name.startswith("__")]
            reached += [f for f in todo if f.name == "forward" and f not in reached]
            if not reached:
                break
            todo = [function for function in todo if function not in reached]
            for function in reached:
                found += [node for line in function.body for node in ast.walk(line)]
                names |= _mentioned(function)
        return dict.fromkeys(found)

    def _may(self, node: ast.AST, *, leaves: bool = False, key: str = "") -> bool:
        """Whether a value, or what holds it (under a key), goes where a size is taken."""
        child = node
        for holder in self._around(node):
            match holder:
                case ast.Call(func=ast.Name(id=name)) if name in _COUNTS:
                    pass
                case ast.Call(func=ast.Attribute(attr="format")) | ast.JoinedStr() | ast.Compare():
                    return False
                case ast.Call(func=ast.Attribute(attr=name, value=kept)) if name in _FILLS:
                    return child is not holder.func and self._bound(kept, leaves, key)
                case ast.Call(func=func) if func is not child:
                    return True
                case ast.Subscript(slice=inside) if inside is child:
                    return True
                case ast.Subscript(value=inside, slice=ast.Constant(value=str(asked))):
                    if key and asked != key:
                        return False
                    key = ""
                case ast.For(iter=inside, target=target) if inside is child:
                    return self._bound(target, leaves)
                case ast.comprehension(iter=inside, target=target) if inside is child:
                    return self._bound(target, leaves)
                case ast.Dict(keys=keys, values=values) if child in values:
                    at = keys[values.index(child)] if isinstance(child, ast.expr) else None
                    key = str(at.value) if isinstance(at, ast.Constant) else ""
                case _ if isinstance(holder, ast.stmt | ast.NamedExpr | ast.Yield | ast.Lambda):
                    return self._ends(holder, leaves, key)
            child = holder
        return False

    def _ends(self, holder: ast.AST, leaves: bool, key: str) -> bool:
        """What a statement does with the value that it got."""
        match holder:
            case ast.Assign(targets=targets):
                return any(self._bound(target, leaves, key) for target in targets)
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                return self._bound(target, leaves, key)
            case ast.NamedExpr(target=target):
                return self._bound(target, leaves) or self._may(holder, leaves=leaves)
            case ast.Return() if leaves:
                return False
            case ast.Return() if key:
                return any(self._may(use) for use in self._under(key))
            case ast.Return() | ast.Yield() | ast.Lambda():
                return True  # the caller has the number itself
        return False

    def _bound(self, target: ast.AST, leaves: bool, key: str = "") -> bool:
        """Whether any use of a name, attribute or entry that has the value may take a size."""
        match target:
            case ast.Name(id=name):
                uses, mark = self._of_name(target, name), (self._function(target), name, key)
            case ast.Attribute(attr=name):
                uses, mark = self._of_attribute(name), (None, name, key)
            case ast.Subscript(value=value, slice=index):
                known = str(index.value) if isinstance(index, ast.Constant) else ""
                return self._bound(value, leaves, known)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return any(self._bound(part, leaves, key) for part in parts)
            case ast.Starred(value=value):
                return self._bound(value, leaves, key)
            case _:
                return True
        if mark in self._done:
            return False
        self._done.add(mark)
        return any(self._may(use, leaves=leaves, key=key) for use in uses)

    def _of_name(self, place: ast.AST, name: str) -> _Uses:
        function = self._function(place)
        scope = [function] if function is not None else self._trees.values()
        nodes = [node for one in scope for node in ast.walk(one)]
        if any(isinstance(node, ast.Global) and name in node.names for node in nodes):
            nodes = [node for tree in self._trees.values() for node in ast.walk(tree)]
        return [
            node
            for node in nodes
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]

    def _of_attribute(self, name: str) -> _Uses:
        return [
            node
            for node in self._traced
            if isinstance(node, ast.Attribute)
            and node.attr == name
            and isinstance(node.ctx, ast.Load)
        ]

    def _under(self, key: str) -> Iterator[ast.AST]:
        for node in self._traced:
            match node:
                case ast.Subscript(slice=ast.Constant(value=it), ctx=ast.Load()) if it == key:
                    yield node
                case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(it), *_]):
                    if it == key:
                        yield node

    def _function(self, node: ast.AST) -> ast.AST | None:
        outer = None
        for holder in self._around(node):
            if isinstance(holder, _FUNCTIONS):
                outer = holder
        return outer

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._holders:
            node = self._holders[node]
            yield node


def _mentioned(node: ast.AST) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(node)))


def _is_read(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="item" | "tolist")):
            return True
        case ast.Call(func=ast.Name(id="int"), args=[ast.Subscript(value=value)]):
            return "shape" not in ast.unparse(value) and "size" not in ast.unparse(value)
        case ast.Call(func=ast.Name(id="int"), args=[given]):
            return any(isinstance(part, ast.Call) for part in ast.walk(given))
    return False
