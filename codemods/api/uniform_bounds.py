"""``uniform_`` with the bound that no keyword can name."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor

from .splice import Splice

_FACTS = {"x": tensor(3), "torch.empty_like(x)": tensor(3)}


def _source(body: str) -> str:
    return f"import torch\n\n\ndef f(x, options):\n    {body}\n"


class UniformBounds(Codemod):
    """*What it does.*  Passes the bounds of ``uniform_`` by position:
    ``x.uniform_(**{"from": -1, "to": 1})`` becomes ``x.uniform_(-1, 1)``.

    *When it applies.*  ``from`` is a word of Python's own, so that it can only be passed by ``**``;
    here as a dictionary that is written out.

    *Fix safety.*  Safe: the same call.

    *Refuses.*  Dictionaries that are made elsewhere, other keys, the keys in another order, and
    receivers that are no tensors.
    """

    name = "uniform-bounds"
    codes = ("GB0110",)

    examples = tuple(
        Example(_source(before), _source(after), at=at, facts=_FACTS, title=title)
        for title, before, after, at in (
            (
                "both bounds",
                'return torch.empty_like(x).uniform_(**{"from": -1.0, "to": 1.0})',
                "return torch.empty_like(x).uniform_(-1.0, 1.0)",
                'torch.empty_like(x).uniform_(**{"from": -1.0, "to": 1.0})',
            ),
            (
                "the lower bound",
                "x.uniform_(**{'from': -1.0})",
                "x.uniform_(-1.0)",
                "x.uniform_(**{'from': -1.0})",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(call), at=call, why=why, facts=_FACTS)
        for call, why in (
            ("x.uniform_(**options)", "made elsewhere"),
            ('x.uniform_(**{"to": 1.0})', "no lower bound"),
            ('x.uniform_(**{"to": 1.0, "from": x.min()})', "evaluated in another order"),
            ('x.uniform_(**{"from": 0.0, "generator": options})', "another key"),
            ('x.uniform_(**{"from": 0.0, **options})', "more than can be seen"),
            ('x.uniform_(2.0, **{"from": 0.0})', "given twice"),
            ('options.uniform_(**{"from": 0.0})', "not known to be a tensor"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star != "**":
                continue
            bounds = _bounds(call.args[0].value)
            if bounds and _is_uniform(site, call.func) and not comments_in(call):
                splice = Splice(site)
                given = ", ".join(map(splice.source_of, bounds))
                splice.replace_span(site.span(call), f"{splice.source_of(call.func)}({given})")
                yield splice.rewrite("pass the bounds by position", rank=10)
                return


def _bounds(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values of a dictionary display of ``"from"`` and perhaps ``"to"``, in that order."""
    if not isinstance(node, cst.Dict):
        return []
    keys = []
    for element in node.elements:
        if not isinstance(element, cst.DictElement) or not isinstance(
            element.key, cst.SimpleString
        ):
            return []
        keys.append(element.key.evaluated_value)
    if keys not in (["from"], ["from", "to"]):
        return []
    return [element.value for element in node.elements]


def _is_uniform(site: Site, func: cst.BaseExpression) -> bool:
    if not isinstance(func, cst.Attribute) or func.attr.value != "uniform_":
        return False
    fact = site.fact(func.value)
    return fact is not None and fact.is_tensor and fact.type == "torch.Tensor"
