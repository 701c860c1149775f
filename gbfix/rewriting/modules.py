"""What the text says of a module that an object holds: what it is in every instance.

A recorded fact is one instance's.  Another one may be given a module that keeps statistics of a
batch, or draws random numbers, where this one has a plain layer.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator

import libcst as cst

from gbfix.codemod import Site
from gbfix.rewriting.project import mentions


def is_always(site: Site, func: cst.BaseExpression, kinds: Collection[str]) -> bool:
    """Whether ``self.layer`` is made by one of these classes of ``torch.nn``, whoever makes it.

    False where a hook may see its calls, too.
    """
    match func:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(attribute)):
            inside = site.class_of(func)
        case _:
            return False
    if inside is None or mentions(site, r"\bregister_\w*hook\b"):
        return False
    found = stores(site, inside.name.value, attribute)
    return bool(found) and all(value is not None and _makes(value, kinds) for _, value in found)


def stores(site: Site, owner: str, attribute: str) -> list[tuple[str, ast.expr | None]]:
    """What is stored to an attribute of objects of a class, by all that names tell.

    Each comes with the class whose ``self`` it is stored to: the class, one above or below it, or
    "" for any other object.  None stands for what is no plain assignment.
    """
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    bases: dict[str, set[str]] = {}
    found: list[tuple[str, ast.expr | None]] = []
    for text in texts:
        known, stored = _classes_and_stores(text)
        for name, more in known:
            bases.setdefault(name, set()).update(more)
        found += [(holder, value) for holder, name, value in stored if name == attribute]
    kin = {owner} | _above(owner, bases)
    kin |= {name for name in bases if owner in _above(name, bases)}
    return [(holder, value) for holder, value in found if holder in kin or not holder]


def _makes(value: ast.expr, kinds: Collection[str]) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in kinds


def _above(name: str, bases: dict[str, set[str]]) -> set[str]:
    """The names of all classes that a class is made of."""
    found: set[str] = set()
    waiting = set(bases.get(name, ()))
    while waiting:
        base = waiting.pop()
        if base not in found:
            found.add(base)
            waiting |= bases.get(base, set())
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[int, ast.expr]]:
    """Each target of an assignment, by its identity, with what it gets."""
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            if not any(isinstance(it, ast.Starred) for it in (*targets, *values)):
                for one, other in zip(targets, values, strict=True):
                    yield from _pairs(one, other)
        case _:
            yield id(target), value


@functools.lru_cache(maxsize=256)
def _classes_and_stores(
    text: str,
) -> tuple[tuple[tuple[str, frozenset[str]], ...], tuple[tuple[str, str, ast.expr | None], ...]]:
    """The classes of a text with their bases, and its stores to attributes, with what is stored."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return (), ()
    classes: list[tuple[str, frozenset[str]]] = []
    found: list[tuple[str, str, ast.expr | None]] = []

    def visit(node: ast.AST, holder: str, stored: dict[int, ast.expr]) -> None:
        match node:
            case ast.ClassDef(name=name):
                bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
                classes.append((name, frozenset(bases)))
                holder = name
            case ast.Assign(targets=targets, value=value):
                stored = dict(pair for target in targets for pair in _pairs(target, value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                stored = {id(target): value}
            case ast.Attribute(value=value, attr=attribute, ctx=ast.Store() | ast.Del()):
                own = isinstance(value, ast.Name) and value.id == "self"
                found.append((holder if own else "", attribute, stored.get(id(node))))
        for child in ast.iter_child_nodes(node):
            visit(child, holder, stored)

    visit(tree, "", {})
    return tuple(classes), tuple(found)
