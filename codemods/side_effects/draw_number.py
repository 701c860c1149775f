"""Whole numbers that Python or numpy draw, which stay tensors wherever they go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..data_dependent.flow import Flow, Stopped, Widen, torch_name
from ..data_dependent.flow_numbers import Number
from ..data_dependent.flow_uses import Uses
from ..data_dependent.nested import Nested
from ..wrap.operator_text import annotation, namespace, operator_name
from .draws import Draw, anchor_for, draw_of

_ANCHOR = "# inductor may misplace an operator that takes no tensor: hence the anchor."


def _source(body: str, before: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""import random

import numpy as np
import torch


{before}def crop(x, size, self):
{lines}
"""


def _operator(draw: str, more: str = "", names: str = "") -> str:
    return f"""@torch.library.custom_op("example::draw_crop", mutates_args=())
def draw_crop(anchor: torch.Tensor{more}) -> torch.Tensor:
    {_ANCHOR}
    return torch.tensor({draw}, dtype=torch.int64, device="cpu")


draw_crop.register_fake(lambda anchor{names}: torch.empty((), dtype=torch.int64, device="cpu"))
draw_crop.register_effect(torch.library.EffectType.ORDERED)


"""


_CROP = "top = {}\nreturn x[:, top : top + size]"
_DRAW = "random.randint(0, x.shape[1] - size)"
_TWO = "top = {}\nleft = {}\nreturn x * top + left * 2"
_WINDOW = "top = {}\nreturn x.index_select(1, top + torch.arange(size, device=x.device))"
_FACTS = {
    "x": tensor(4, 8),
    "size": scalar(4),
    "x.shape[1] - size": scalar(4),
    "top": scalar(2),
    "x.mean()": tensor(),
}


def _near_miss(why: str, body: str, at: str = "top = ", **facts: Fact) -> NearMiss:
    return NearMiss(_source(body), at=at, why=why, facts=_FACTS | facts, code="GB0007")


class DrawNumber(Codemod):
    """*What it does.*  Lets an operator draw a whole number, which stays a tensor then.

    ```python
    top = random.randint(0, x.shape[1] - size)
    return x[:, top : top + size]
    ```
    becomes
    ```python
    top = draw_crop(torch.empty(0), x.shape[1] - size)
    return x.index_select(1, top + torch.arange(size, device=x.device))
    ```

    *When it applies.*  ``random.randint``, ``random.randrange``, ``random.choice`` of written
    numbers and ``np.random.randint`` draw one number, and every use of the number can take a
    tensor: the start of a window whose size is known, an index, arithmetic with tensors.

    *Fix safety.*  Safe: the same stream draws the same numbers in the same order.  What is unsafe
    for a number that is read out of a tensor (`follow-number`) is unsafe here.

    *Refuses.*  Numbers that are returned, printed, kept, sizes of tensors, rounds of loops, or
    asked about by Python.
    """

    name = "draw-number"
    codes = (
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
        "user-error", "internal-error", "GB0007", "GB0033", "GB0036", "GB0055", "GB0124", "GB0156",
        "GB0213", "GB0219", "GB0294", "GB4841",
    )  # fmt: skip
    examples = (
        Example(
            _source(_CROP.format(_DRAW)),
            _source(
                _WINDOW.format("draw_crop(torch.empty(0), x.shape[1] - size)"),
                _operator("random.randint(0, count)", ", count: int", ", count"),
            ),
            at="x[:, top : top + size]",
            code="GB0007",
            facts=_FACTS,
            title="a window at a place that is drawn",
        ),
        Example(
            _source("top = np.random.randint(3)\nreturn x * top"),
            _source(
                "top = draw_crop(torch.empty(0))\nreturn x * top",
                _operator("np.random.randint(3)"),
            ),
            at="np.random.randint(3)",
            code="GB0007",
            facts=_FACTS,
            title="a factor",
        ),
        Example(
            _source(_TWO.format("random.randrange(3)", "random.randrange(3)")),
            _source(
                _TWO.format("draw_crop(torch.empty(0))", "draw_crop(top)"),
                _operator("random.randrange(3)"),
            ),
            at="random.randrange(3)",
            code="GB0007",
            facts=_FACTS,
            title="two draws of one stream, in their order",
        ),
    )
    near_misses = (
        _near_miss("the number is returned", f"top = {_DRAW}\nreturn x, top"),
        _near_miss("the number is shown", f"top = {_DRAW}\nprint(top)\nreturn x * top"),
        _near_miss("a size", f"top = {_DRAW}\nreturn x[:, :top]"),
        _near_miss("rounds", f"top = {_DRAW}\nfor _ in range(top):\n    x = x + 1\nreturn x"),
        _near_miss("Python asks", f"top = {_DRAW}\nif top > 2:\n    x = x + 1\nreturn x"),
        _near_miss("several numbers", "top = np.random.randint(0, 3, 2)\nreturn x * top[0]"),
        _near_miss(
            "two draws of which one has no name",
            "top = x * random.randrange(3)\nleft = random.randrange(4)\nreturn top * left",
        ),
        _near_miss("kept", f"top = {_DRAW}\nself.top = top\nreturn x * top"),
        _near_miss(
            "bound twice", f"top = 0\nif size > 3:\n    top = {_DRAW}\n    top = str(top)\nreturn x"
        ),
        _near_miss("a choice of what is no number", "top = random.choice([x, x])\nreturn top"),
        _near_miss(
            "a stream of the function's own",
            "random = np.random\ntop = random.randint(0, 3)\nreturn x * top",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        draws = [
            draw
            for node in walk(site.function.body)
            if isinstance(node, cst.Call) and site.function_of(node) is site.function
            for draw in [draw_of(site, node, whole=True)]
            if draw is not None
        ]
        if not draws:
            return
        try:
            yield from _rewrite(site, draws)
        except Stopped as stopped:
            yield Advice(f"A number that is drawn cannot stay in a tensor: {stopped}.")


def _rewrite(site: Site, draws: list[Draw]) -> Iterator[Rewrite]:
    torch = torch_name(site)
    texts = _operators(site, draws, torch)
    numbers: dict[cst.CSTNode, Number] = {}
    for draw in draws:
        anchor = anchor_for(site, draw.call, draws, torch)
        if not anchor:
            raise Stopped("nothing would keep the order of the draws")
        numbers[draw.call] = _number(draw, texts[draw.call][0], anchor)
    uses = _followed(site, numbers)
    if not uses.flow.is_kept(site.statement) or uses.decisions:
        return
    nested = Nested(site, uses.edits)
    splice = Splice(site)
    function = site.function or site.module
    for node in nested.outermost(function):
        splice.replace(node, nested.render(node))
    top = site.top_level_statement(site.node)
    for definition in dict.fromkeys(text for _, text in texts.values()):
        splice.insert_line_before(top, _as_written(site, definition))
    doubts = tuple(dict.fromkeys(uses.doubts))
    yield splice.rewrite(
        "draw whole numbers in a custom operator",
        rank=42,
        safety=Safety.UNSAFE if doubts else Safety.SAFE,
        notes=(*doubts, *dict.fromkeys(uses.limits)),
    )


def _as_written(site: Site, text: str) -> str:
    """The text with the file's own indentation and ends of lines."""
    text = re.sub(r"^    ", site.module.default_indent, text, flags=re.MULTILINE)
    return text.replace("\n", site.module.default_newline)


def _followed(site: Site, drawn: Mapping[cst.CSTNode, Number]) -> Uses:
    for wide in (False, True):
        try:
            uses = Uses(Flow(site, list(drawn), wide=wide, drawn=drawn))
            uses.run()
            return uses
        except Widen:
            continue
    raise Stopped("it meets floats of another width")


def _number(draw: Draw, name: str, anchor: str) -> Number:
    arguments = ", ".join([anchor, *(code(item.argument) for item in draw.parameters)])
    number = Number("int", kept=True, low=draw.low, exact=True, wide=True, device="cpu")
    return number.edited(draw.call, f"{name}({arguments})")


def _operators(site: Site, draws: list[Draw], torch: str) -> dict[cst.CSTNode, tuple[str, str]]:
    """The operator of each draw, and its definition; draws that are alike have one."""
    assert site.function is not None
    base = operator_name(site, f"draw_{site.function.name.value}")
    taken: set[str] = set()
    known: dict[str, tuple[str, str]] = {}
    found: dict[cst.CSTNode, tuple[str, str]] = {}
    for draw in draws:
        body = code(draw.body)
        if body not in known:
            name = fresh(base, taken)
            taken.add(name)
            known[body] = (name, _definition(site, draw, name, torch))
        found[draw.call] = known[body]
    return found


def _definition(site: Site, draw: Draw, name: str, torch: str) -> str:
    given = "".join(
        f", {item.name}: {annotation(item.annotation, torch)}" for item in draw.parameters
    )
    names = "".join(f", {item.name}" for item in draw.parameters)
    kind = f'dtype={torch}.int64, device="cpu"'
    return f'''@{torch}.library.custom_op("{namespace(site)}::{name}", mutates_args=())
def {name}(anchor: {torch}.Tensor{given}) -> {torch}.Tensor:
    {_ANCHOR}
    return {torch}.tensor({code(draw.body)}, {kind})


{name}.register_fake(lambda anchor{names}: {torch}.empty((), {kind}))
{name}.register_effect({torch}.library.EffectType.ORDERED)

'''


__all__ = ["DrawNumber"]
