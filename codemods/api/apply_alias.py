"""One tensor given twice to an ``autograd.Function``, which Dynamo does not trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import dotted
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .splice import Splice


def _source(call: str) -> str:
    return f"import torch\n\n\ndef f(self, x, y, Mul):\n    return {call}\n"


_SAME = dataclasses.replace(tensor(3), storage=7)
_FACTS = {"x": tensor(3), "y": tensor(3), "self.weight": tensor(3)}


class ApplyAlias(Codemod):
    """*What it does.*  Gives an ``autograd.Function`` another view of a tensor that it gets twice:
    ``Mul.apply(x, x)`` becomes ``Mul.apply(x, x.view_as(x))``.

    *When it applies.*  Two arguments of ``apply`` are one tensor, by their texts or as recorded
    (``q = k = x``).

    *Fix safety.*  Safe: the view has the same values and the same memory, and the gradients of both
    places are added up at the tensor, as before.

    *Refuses.*  Arguments that are no names or attributes; sparse tensors, which have no views.
    """

    name = "apply-alias"
    codes = ("GB6297",)
    examples = (
        Example(
            _source("Mul.apply(x, x)"),
            _source("Mul.apply(x, x.view_as(x))"),
            at="Mul.apply(x, x)",
            facts=_FACTS,
            title="one name twice",
        ),
        Example(
            _source("Mul.apply(x, 2, y, self.weight, y, y)"),
            _source("Mul.apply(x, 2, y, self.weight, y.view_as(y), y.view_as(y))"),
            at="Mul.apply(x, 2, y, self.weight, y, y)",
            facts=_FACTS,
            title="one name three times",
        ),
        Example(
            _source("Mul.apply(x, self.weight)"),
            _source("Mul.apply(x, self.weight.view_as(self.weight))"),
            at="Mul.apply(x, self.weight)",
            facts={"x": _SAME, "self.weight": _SAME},
            title="two names of one tensor",
        ),
    )
    near_misses = (
        NearMiss(_source("Mul.apply(x, y)"), at="Mul.apply(x, y)", why="two tensors", facts=_FACTS),
        NearMiss(
            _source("Mul.apply(x + 0, x + 0)"),
            at="Mul.apply(x + 0, x + 0)",
            why="no names; what is given twice is not seen",
            facts=_FACTS,
        ),
        NearMiss(
            _source("Mul.apply(x, x)"),
            at="Mul.apply(x, x)",
            why="a number",
            facts={"x": Fact("float", "builtins.float")},
        ),
        NearMiss(
            _source("Mul.apply(x, *x)"),
            at="Mul.apply(x, *x)",
            why="rows are no names of their own",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for node in (site.node, *site.ancestors(site.node)):
            if isinstance(node, cst.BaseStatement):
                return
            if isinstance(node, cst.Call):
                again = _given_again(site, node)
                if again and not comments_in(node):
                    splice = Splice(site)
                    for value in again:
                        text = splice.source_of(value)
                        splice.replace(value, f"{text}.view_as({text})")
                    yield splice.rewrite("give the function a view of a tensor it has", rank=10)
                return


def _given_again(site: Site, call: cst.Call) -> list[cst.BaseExpression]:
    """The arguments that are a tensor which stands further left, too."""
    seen: list[tuple[str, Fact]] = []
    again: list[cst.BaseExpression] = []
    for arg in call.args:
        name = dotted(arg.value)
        fact = site.fact(arg.value)
        if name is None or arg.star or fact is None or not fact.is_tensor:
            continue
        if any(name == text or _is_same(fact, other) for text, other in seen):
            again.append(arg.value)
        seen.append((name, fact))
    return again


def _is_same(one: Fact, other: Fact) -> bool:
    return bool(one.storage) and one.storage == other.storage and one.shape == other.shape
