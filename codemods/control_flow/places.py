"""Attributes and items that a branch sets or changes: ``self.mean``, ``out["h"]``.

A branch of ``torch.cond`` may do neither.  Such a place becomes a local name of the branches: they
give its new tensor as a result, and the place gets it after the cond.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site
from gbfix.schema import Fact

from .refusal import Refusal
from .texts import NamesOnly
from .values import Values


@dataclasses.dataclass(frozen=True)
class Place:
    """A place as its source text, the name that stands for it, and the tensor that it holds.

    ``fact`` is what the place held before (None where nothing says so).
    """

    text: str
    name: str
    fact: Fact | None


def places_of(
    site: Site, branches: Sequence[Sequence[cst.CSTNode]], values: Values, taken: set[str]
) -> list[Place]:
    """The places that the branches set or change, or `Refusal` where that cannot be followed."""
    nodes = [node for branch in branches for node in branch]
    texts: dict[str, cst.BaseExpression] = {}
    for node in nodes:
        texts |= {code(path): path for path in _changed_paths(node)}
    if not texts:
        return []
    _check_others(site, nodes, texts, values)
    found = []
    for text, place in texts.items():
        fact = _fact(site, text, values)
        if fact is not None and not fact.is_tensor:
            raise Refusal(f"a branch sets `{text}`, which holds no tensor ({fact.kind})")
        name = fresh(_name(place), taken)
        taken.add(name)
        found.append(Place(text, name, fact))
    return found


def _changed_paths(node: cst.CSTNode) -> Iterable[cst.Attribute | cst.Subscript]:
    """Paths that the node assigns to, or whose tensor it changes in place."""
    for inner in walk(node):
        match inner:
            case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
                yield from _of_target(target)
            case cst.AugAssign(target=target):
                yield from _of_target(target)
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=receiver, attr=attr))):
                in_place = attr.value.endswith("_") and not attr.value.endswith("__")
                if in_place and is_path(receiver):
                    yield receiver  # type: ignore[misc]


def _of_target(target: cst.CSTNode) -> Iterable[cst.Attribute | cst.Subscript]:
    match target:
        case cst.Tuple() | cst.List():
            for element in target.elements:
                yield from _of_target(element.value)
        case cst.Attribute() if is_path(target):
            yield target
        case cst.Subscript() if is_path(target):
            yield target
        case cst.Subscript(value=cst.Attribute() as base) if is_path(base):
            yield base  # `self.cache[mask] = x` changes the tensor


def is_path(node: cst.CSTNode) -> bool:
    """Whether the expression is a place of its own: ``a.b.c`` or ``a.b["key"]``."""
    match node:
        case cst.Attribute(value=cst.Name()):
            return True
        case cst.Attribute(value=inner):
            return is_path(inner)
        case cst.Subscript(
            value=value,
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString(), star=None))],
        ):
            return isinstance(value, cst.Name) or is_path(value)
    return False


def _fact(site: Site, text: str, values: Values) -> Fact | None:
    """What the place held wherever the function reads it."""
    assert site.function is not None
    for node in walk(site.function.body):
        if isinstance(node, cst.Attribute | cst.Subscript) and code(node) == text:
            fact = values.fact(node)
            if fact is not None:
                return fact
    return None


def _check_others(
    site: Site,
    nodes: Sequence[cst.CSTNode],
    texts: Mapping[str, cst.BaseExpression],
    values: Values,
) -> None:
    """Refuse where the branches may reach a place in another way than by its text."""
    does = activity(nodes)
    roots = {_root(path) for path in texts.values()}
    if roots & does.bound:
        raise Refusal(f"`{min(roots & does.bound)}` is bound anew in a branch")
    unknown = values.effects(*nodes).unknown
    if unknown:
        raise Refusal(
            f"a branch sets `{next(iter(texts))}`, and what `{unknown[0]}` does is not known"
        )
    for node in nodes:
        for inner in walk(node):
            nested = isinstance(inner, cst.If | cst.FunctionDef | cst.Lambda | cst.BaseComp)
            if nested and any(_holds(inner, text) for text in texts):
                raise Refusal(f"`{next(iter(texts))}` is set beside a nested `if` or function")
    for one in texts:
        if any(other != one and other.startswith((f"{one}.", f"{one}[")) for other in texts):
            raise Refusal(f"a part of `{one}` is set, too")
    whole = set(texts)
    for node in nodes:
        _check_roots(node, roots, whole)


def _holds(node: cst.CSTNode, text: str) -> bool:
    return any(
        isinstance(inner, cst.Attribute | cst.Subscript) and code(inner) == text
        for inner in walk(node)
    )


def _check_roots(node: cst.CSTNode, roots: set[str], whole: set[str]) -> None:
    """Refuse a bare use of a root (``helper(self)``), or of an item by another key."""
    if isinstance(node, cst.Attribute | cst.Subscript) and code(node) in whole:
        return
    if isinstance(node, cst.Attribute):
        items = any(text.startswith(f"{code(node.value)}[") for text in whole)
        if isinstance(node.value, cst.Name) and not items:
            return  # another attribute of the object
        _check_roots(node.value, roots, whole)
        return
    if isinstance(node, cst.Subscript) and is_path(node):
        return  # another item
    if isinstance(node, cst.Name) and node.value in roots:
        raise Refusal(f"a branch uses `{node.value}` as a whole, and sets a part of it")
    if isinstance(node, cst.Arg):
        _check_roots(node.value, roots, whole)
        return
    for child in node.children:
        _check_roots(child, roots, whole)


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    assert isinstance(node, cst.Name)
    return node.value


def _name(path: cst.BaseExpression) -> str:
    """The last word of the path, as a name."""
    if isinstance(path, cst.Attribute):
        return path.attr.value.lstrip("_") or "value"
    assert isinstance(path, cst.Subscript)
    index = path.slice[0].slice
    assert isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    word = str(index.value.raw_value)
    return word if word.isidentifier() else "item"


class ToNames(cst.CSTTransformer):
    """Writes the names of places for their texts."""

    def __init__(self, places: Iterable[Place]) -> None:
        super().__init__()
        self._by_text = {place.text: place.name for place in places}

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        name = self._by_text.get(code(original_node))
        return updated_node if name is None else cst.Name(name)

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        name = self._by_text.get(code(original_node))
        return updated_node if name is None else cst.Name(name)


def with_names(
    statements: Sequence[cst.BaseStatement], places: Sequence[Place]
) -> list[cst.BaseStatement]:
    """The statements with names in place of the places' texts; others keep their identity."""
    done = []
    for statement in statements:
        new = statement
        if any(_holds(statement, place.text) for place in places):
            visited = statement.visit(ToNames(places))
            assert isinstance(visited, cst.BaseStatement)
            new = visited
        done.append(new)
    return done


def with_texts(node: cst.BaseStatement, places: Sequence[Place]) -> cst.BaseStatement:
    """The statement with the places' texts where it reads their names."""
    by_name = {place.name: cst.parse_expression(place.text) for place in places}
    new = node.visit(_ToTexts(by_name))
    assert isinstance(new, cst.BaseStatement)
    return new


class _ToTexts(NamesOnly):
    def __init__(self, by_name: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self._by_name = by_name

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self._by_name.get(original_node.value)
        return updated_node if new is None else new.deep_clone()
