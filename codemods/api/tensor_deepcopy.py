"""``copy.deepcopy`` of a tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in, grouped
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .splice import Splice

_ADVICE = (
    "Dynamo does not copy tensors with `copy.deepcopy`, nor what holds tensors. Clone the tensors"
    " one by one (`x.detach().clone()`), or make the copy before the compiled call and pass it."
)
_NOTE = (
    "a caller's tensor that requires gradients, or a view with gaps, is cloned differently than"
    " `deepcopy` copies it"
)
_X = dataclasses.replace(tensor(2, 3), strides=(3, 1))


def _source(body: str) -> str:
    return f"from copy import deepcopy\nimport copy\n\n\ndef f(x, memo):\n    {body}\n"


class CloneTensor(Codemod):
    """*What it does.*  Replaces ``copy.deepcopy(x)`` of a tensor by ``x.detach().clone()``.

    *When it applies.*  The argument was recorded as a plain tensor that requires no gradient and
    fills its memory in order.

    *Fix safety.*  Safe for tensors of the object itself (``self.state``): both make a new tensor
    of the same values, dtype, device and strides, without history.  Unsafe for what a caller
    passes in: a tensor that requires gradients, or a view with gaps, is copied differently.

    *Refuses.*  Tensors that require a gradient (the copy of a leaf is a new leaf, and others cannot
    be copied), parameters and subclasses, views with gaps, whose strides a clone does not keep,
    lists and modules, and copies that share a ``memo``.
    """

    name = "clone-tensor"
    codes = ("GB4198", "GB0179")

    examples = tuple(
        Example(_source(before), _source(after), at=at, facts=facts, title=title)
        for title, before, after, at, facts in (
            (
                "a tensor",
                "return copy.deepcopy(x) + 1",
                "return x.detach().clone() + 1",
                "copy.deepcopy(x)",
                {"x": _X},
            ),
            (
                "an expression",
                "y = deepcopy(x * 2)",
                "y = (x * 2).detach().clone()",
                "deepcopy(x * 2)",
                {"x * 2": _X},
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(source), at=at, why=why, facts=facts)
        for source, at, why, facts in (
            (
                "return deepcopy(x)",
                "deepcopy(x)",
                "the copy of a leaf is a leaf",
                {"x": dataclasses.replace(_X, requires_grad=True)},
            ),
            (
                "return deepcopy(x)",
                "deepcopy(x)",
                "a clone closes the gaps of a view",
                {"x": dataclasses.replace(_X, strides=(6, 2))},
            ),
            ("return deepcopy(x)", "deepcopy(x)", "strides were not seen", {"x": tensor(2, 3)}),
            (
                "return deepcopy(x)",
                "deepcopy(x)",
                "a subclass",
                {"x": dataclasses.replace(_X, type="mine.Masked")},
            ),
            ("return deepcopy(x, memo)", "deepcopy(x, memo)", "a memo", {"x": _X}),
            ("return deepcopy(x)", "deepcopy(x)", "no tensor", {"x": scalar(1)}),
            ("return copy.copy(x)", "copy.copy(x)", "shares the memory", {"x": _X}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star:
                continue
            if resolve(site.module, call.func) != "copy.deepcopy":
                continue
            value = call.args[0].value
            fact = infer(value, site.fact)
            if fact is None or not _is_plain(fact) or comments_in(call):
                continue
            splice = Splice(site)
            text = splice.source_of(value)
            if grouped(value) is not value or "\n" in text:
                text = f"({text})"
            splice.replace_span(site.span(call), f"{text}.detach().clone()")
            own = text.startswith("self.")
            yield splice.rewrite(
                "clone the tensor instead of `deepcopy`",
                safety=Safety.SAFE if own else Safety.UNSAFE,
                notes=() if own else (_NOTE,),
                rank=10,
            )
            return


def _is_plain(fact: Fact) -> bool:
    if not fact.is_tensor or fact.type.rpartition(".")[2] != "Tensor":
        return False
    return fact.requires_grad is False and _is_contiguous(fact)


def _is_contiguous(fact: Fact) -> bool:
    """Whether the strides are those of a tensor that fills its memory in order."""
    if fact.shape is None or fact.strides is None:
        return False
    expected = 1
    for size, stride in zip(reversed(fact.shape), reversed(fact.strides), strict=True):
        if size is None or stride is None or stride != expected:
            return False
        expected *= size
    return True
