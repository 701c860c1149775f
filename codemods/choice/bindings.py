"""The kind of a name that no run has seen, by what the text binds to it.

A round of rewriting makes names, and lines that did not run have no record: what is bound to such
a name in every place tells what it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.kinds import infer, merge
from gbfix.analysis.tree import walk
from gbfix.codemod import Site
from gbfix.schema import Fact

KindOf = Callable[[cst.BaseExpression], Fact | None]


class Bindings:
    """What is bound to the names of a function, or of the statement that holds a lambda.

    ``kind_of`` tells the kind of an expression; it is not asked for a name while that name's own
    kind is being looked for.
    """

    def __init__(self, site: Site, scope: cst.CSTNode, kind_of: KindOf) -> None:
        self._site = site
        self._scope = scope
        self._kind_of = kind_of
        self._busy: set[str] = set()
        self._parameters: set[str] = set()
        self._values: dict[str, list[Callable[[], Fact | None]]] = {}
        self._collect()

    def kind(self, node: cst.Name) -> Fact | None:
        """The kind of the name where it stands; None where a binding of it is not understood."""
        if node.value in self._busy:
            return None
        self._busy.add(node.value)
        try:
            row = self._of_comprehension(node)
            if row is not None:
                return row()
            made = self._values.get(node.value)
            if not made or node.value in self._parameters:
                return None
            facts = [value() for value in made]
        finally:
            self._busy.discard(node.value)
        found = facts[0]
        for fact in facts[1:]:
            found = merge(found, fact)
        if found is None or not found.is_tensor:
            return None
        # Which of them is bound here is not known: no more than what is true of all of them.
        return dataclasses.replace(found, requires_grad=None, is_leaf=None, identity=0, storage=0)

    def _row(self, over: cst.BaseExpression) -> Callable[[], Fact | None]:
        def row() -> Fact | None:
            fact = infer(over, self._kind_of)
            if fact is None or not fact.is_tensor:
                return None
            return Fact(
                "tensor",
                fact.type,
                shape=fact.shape[1:] if fact.shape else None,
                dtype=fact.dtype,
                device=fact.device,
            )

        return row

    def _of_comprehension(self, node: cst.Name) -> Callable[[], Fact | None] | None:
        """The row that a comprehension around the name gives it."""
        try:
            around = list(self._site.ancestors(node))
        except KeyError:
            return None  # a node that the conversion made
        for parent in around:
            if isinstance(parent, cst.Lambda | cst.FunctionDef):
                return None
            if not isinstance(parent, cst.BaseComp):
                continue
            for clause in _clauses(parent):
                names = {n.value for n in walk(clause.target) if isinstance(n, cst.Name)}
                if node.value in names:
                    plain = isinstance(clause.target, cst.Name)
                    return self._row(clause.iter) if plain else _unknown
        return None

    def _collect(self) -> None:
        if not isinstance(self._scope, cst.FunctionDef):
            return
        params = self._scope.params
        every = (*params.posonly_params, *params.params, *params.kwonly_params)
        self._parameters = {param.name.value for param in every}
        self._parameters |= {
            star.name.value
            for star in (params.star_arg, params.star_kwarg)
            if isinstance(star, cst.Param)
        }
        for node in self._own(self._scope.body):
            match node:
                case cst.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target.target, value)
                case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                    self._bind(target, value)
                case cst.NamedExpr(target=target, value=value):
                    self._bind(target, value)
                case cst.For(target=cst.Name(name), iter=over):
                    self._put(name, self._row(over))
                case _:
                    self._bind_unknown(node)

    def _bind_unknown(self, node: cst.CSTNode) -> None:
        """Bindings whose value no text gives; with ``+=``, a number may become a tensor."""
        match node:
            case (
                cst.AugAssign(target=target)
                | cst.For(target=target)
                | cst.Del(target=target)
                | cst.AsName(name=target)
            ):
                self._all_unknown(target)
            case cst.Global(names=items) | cst.Nonlocal(names=items):
                for item in items:
                    self._put(item.name.value, _unknown)
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
                self._put(name.value, _unknown)
                for inner in walk(node):
                    if isinstance(inner, cst.Nonlocal):
                        self._bind_unknown(inner)
            case cst.MatchAs(name=cst.Name(text)) | cst.MatchStar(name=cst.Name(text)):
                self._put(text, _unknown)

    def _own(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes of the function, without those inside of what it defines."""
        for child in node.children:
            yield child
            if not isinstance(child, cst.FunctionDef | cst.ClassDef | cst.Lambda):
                yield from self._own(child)

    def _bind(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        match target, value:
            case cst.Name(name), _:
                self._put(name, lambda: infer(value, self._kind_of))
            case (cst.Tuple(elements=left), cst.Tuple(elements=right)) if len(left) == len(
                right
            ) and all(isinstance(it, cst.Element) for it in (*left, *right)):
                for one, other in zip(left, right, strict=True):
                    self._bind(one.value, other.value)
            case (cst.Tuple() | cst.List() | cst.StarredElement(), _):
                self._all_unknown(target)

    def _all_unknown(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Attribute | cst.Subscript):
            return
        for node in walk(target):
            if isinstance(node, cst.Name):
                self._put(node.value, _unknown)

    def _put(self, name: str, value: Callable[[], Fact | None]) -> None:
        self._values.setdefault(name, []).append(value)


def _unknown() -> Fact | None:
    return None


def _clauses(node: cst.BaseComp) -> Iterator[cst.CompFor]:
    clause: cst.CompFor | None = node.for_in
    while clause is not None:
        yield clause
        clause = clause.inner_for_in
