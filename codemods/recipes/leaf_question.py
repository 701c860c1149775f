"""Whether a tensor has a gradient function, asked in a way that Dynamo answers."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice

_FACTS = {"x": tensor(3), "y": tensor(3), "y.grad_fn": tensor(3)}


def _source(test: str) -> str:
    return f"import torch\n\n\ndef f(x, k):\n    y = x * 2\n    if {test}:\n        return y + 1\n"


class LeafQuestion(Codemod):
    """*What it does.*  Asks a tensor whether it is a leaf, instead of whether it has a gradient
    function: ``y.grad_fn is not None`` becomes ``not y.is_leaf``, and ``y.grad_fn is None``
    becomes ``y.is_leaf``.

    *When it applies.*  Dynamo refuses ``grad_fn`` of a tensor that the region has computed, and the
    function compares it with None or asks for its truth alone.

    *Fix safety.*  Safe: torch defines a leaf as a tensor without a gradient function, and Dynamo
    guards on what decides it.

    *Refuses.*  A gradient function that is used in another way: its name, what comes next.
    """

    name = "leaf-question"
    codes = ("GB0104",)
    examples = tuple(
        Example(_source(before), _source(after), at="y.grad_fn", facts=_FACTS, title=title)
        for title, before, after in (
            ("whether there is one", "y.grad_fn is not None", "not y.is_leaf"),
            ("whether there is none", "y.grad_fn is None", "y.is_leaf"),
            ("its truth", "y.grad_fn", "not y.is_leaf"),
            ("no truth", "not y.grad_fn", "y.is_leaf"),
            ("among others", "k and y.grad_fn is not None", "k and not y.is_leaf"),
            ("compared", "(y.grad_fn is None) == k", "y.is_leaf == k"),
        )
    )
    near_misses = tuple(
        NearMiss(_source(text), at="y.grad_fn", why=why, facts=_FACTS)
        for text, why in (
            ("y.grad_fn.name() == k", "its name"),
            ("y.grad_fn is k", "another one"),
            ("y.grad_fn is None is k", "a chain"),
            ("k or (k, y.grad_fn)", "it is kept"),
            ("(y.grad_fn or k) is k", "what is chosen is read"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        splice = Splice(site)
        block = site.function or site.statement
        found = [(node, *form) for node in walk(block) for form in _forms(site, node)]
        near = {site.node, *site.ancestors(site.node), *walk(site.statement)}
        if not any(node in near for node, *_ in found):
            return
        for _, outer, text in found:
            if comments_in(outer):
                return
            splice.replace(outer, text)
        yield splice.rewrite("ask whether the tensor is a leaf", rank=10)


def _forms(site: Site, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The question around ``t.grad_fn``, and how it is asked of a leaf."""
    match node:
        case cst.Attribute(value=owner, attr=cst.Name("grad_fn")) if _is_tensor(site, owner):
            text = f"{site.text(owner)}.is_leaf"
        case _:
            return
    holder = site.parent(node)
    match holder:
        case cst.ComparisonTarget(operator=operator):
            return
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=cst.Name("None"))],
        ) if left is node:
            if isinstance(operator, cst.Is | cst.Equal):
                yield holder, text
            elif isinstance(operator, cst.IsNot | cst.NotEqual):
                yield holder, f"not {text}" if _is_test(site, holder) else f"(not {text})"
        case cst.UnaryOperation(operator=cst.Not()):
            yield holder, text
        case cst.If() | cst.While() | cst.IfExp() if holder.test is node:
            assert isinstance(node, cst.BaseExpression)
            yield node, f"not {text}"


def _is_test(site: Site, node: cst.CSTNode) -> bool:
    """Whether ``not`` binds as it should there: a test, a part of ``and`` and ``or``, a value."""
    return not isinstance(
        site.parent(node),
        cst.Comparison | cst.ComparisonTarget | cst.BinaryOperation | cst.UnaryOperation
        | cst.Attribute | cst.Call,
    )  # fmt: skip


def _is_tensor(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    return fact is not None and fact.is_tensor
