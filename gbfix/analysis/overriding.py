"""Where a call of a method may find another function than the one that its class has."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from gbfix.analysis.trees import tree_of


def overriding(owner: str, name: str, project: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Subclasses of a class, in any file of the project, that bring a method of that name."""
    classes = [
        (path, node)
        for path, tree in _trees((owner, name), project)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    known = _subclasses(owner, classes)
    for path, node in classes:
        if node.name == owner or node.name not in known:
            continue
        if _brings(node, name):
            yield path, node.name
            continue
        # A mixin before the class is asked first: ``class Loud(Mixin, Owner)``.
        others = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        mixed = _with_bases({base for base in others if base not in known}, classes)
        if any(_brings(other, name) for _, other in classes if other.name in mixed):
            yield path, node.name


def _trees(names: tuple[str, ...], project: Mapping[str, str]) -> Iterator[tuple[str, ast.Module]]:
    """The files that speak of one of the names."""
    for path, text in project.items():
        if any(name in text for name in names):
            try:
                yield path, tree_of(text)
            except (SyntaxError, ValueError):
                continue


def _subclasses(owner: str, classes: list[tuple[str, ast.ClassDef]]) -> set[str]:
    """The class and all that come of it."""
    known = {owner}
    grown = True
    while grown:
        grown = False
        for _, node in classes:
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if node.name not in known and bases & known:
                known.add(node.name)
                grown = True
    return known


def _brings(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has a method, or a value, of that name."""
    for item in node.body:
        match item:
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) if own == name:
                return True
            case ast.Assign(targets=targets):
                if any(isinstance(it, ast.Name) and it.id == name for it in targets):
                    return True
            case ast.AnnAssign(target=ast.Name(id=own)) if own == name:
                return True
    return False


def _with_bases(names: set[str], classes: list[tuple[str, ast.ClassDef]]) -> set[str]:
    """Classes and all that they come of, as far as the project has them."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for _, node in classes:
            if node.name == name:
                left += [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return found


def bound_on_objects(owner: str, name: str, project: Mapping[str, str]) -> Iterator[str]:
    """Files that bind a method's name on objects of its class, or on a class from outside.

    ``self.name = ...`` in another family of classes does not count.  A name that a class body binds
    in more ways than by one ``def`` does: ``name = checked(name)`` is a decorator, written below.
    """
    trees = dict(_trees((owner, name), project))
    classes = [node for tree in trees.values() for node in ast.walk(tree)
               if isinstance(node, ast.ClassDef)]  # fmt: skip
    pairs = [("", node) for node in classes]
    family = _with_bases(_subclasses(owner, pairs), pairs)
    for path, tree in trees.items():
        others = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and node.name not in family
            for part in ast.walk(node)
            if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self"
        }
        if any(_binds(node, name) for node in ast.walk(tree) if id(node) not in others):
            yield path


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()):
            return attr == name
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr") | ast.Attribute(attr="object" | "setattr"),
            args=[_, ast.Constant(value=given), *_],
        ):
            return given == name
        case ast.ClassDef(body=body):
            plain = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            lines = [line for line in body if not isinstance(line, plain)]
            below = [part for line in lines for part in ast.walk(line)]
            return any(
                part.name == name
                if isinstance(part, ast.FunctionDef)
                else isinstance(part, ast.Name)
                and part.id == name
                and isinstance(part.ctx, ast.Store | ast.Del)
                for part in below
            )
    return False
