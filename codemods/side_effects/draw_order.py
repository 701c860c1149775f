"""``random.shuffle`` of the places of rows: the order as a tensor that an operator draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.operator_text import torch_alias
from .draw_to_op import drawing_operator
from .draws import Given
from .effect_operator import operator_notes

_FACTS = {
    "x": tensor(4, 3),
    "x[order]": tensor(4, 3),
    "x.shape[0]": Fact("int", "int"),
    "n": scalar(4),
    "order": Fact("list", "list", items=(scalar(0), scalar(1))),
    "names": Fact("list", "list", items=(Fact("str", "str"),)),
}


def _source(
    made: str = "list(range(x.shape[0]))",
    use: str = "x[order]",
    shuffle: str = "random.shuffle",
    more: str = "",
) -> str:
    return f"""import random

import torch


def f(x, n, names):
    order = {made}
    {shuffle}(order)
{more}    return {use}
"""


def _after(given: str, use: str, name: str = "count", more: str = "") -> str:
    return f"""import random

import torch


@torch.library.custom_op("example::draw_f", mutates_args=())
def draw_f(anchor: torch.Tensor, {name}: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    drawn = list(range({name}))
    random.shuffle(drawn)
    return torch.tensor(drawn, dtype=torch.int64, device="cpu")


draw_f.register_fake(lambda anchor, {name}: torch.empty({name}, dtype=torch.int64, device="cpu"))
draw_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n, names):
    order = draw_f(torch.empty(0), {given})
{more}    return {use}
"""


_KEEPS = "    kept = order[: n // 2]\n"


def _near_miss(why: str, **parts: str) -> NearMiss:
    at = f"{parts.get('shuffle', 'random.shuffle')}(order)"
    return NearMiss(_source(**parts), at=at, why=why, facts=_FACTS)


class DrawOrder(Codemod):
    """*What it does.*  Draws the order of rows in an operator.

    ```python
    order = list(range(x.shape[0]))
    random.shuffle(order)
    return x[order]
    ```
    becomes ``order = draw_f(torch.empty(0), x.shape[0])``: the operator shuffles the places and
    gives them as a tensor, which picks the rows that the list picked.

    *When it applies.*  ``random.shuffle`` stands directly below a list of the places (``list(range(
    n))``), and the list is used as an index of tensors, made a tensor, cut by slices, or asked for
    its length.

    *Fix safety.*  Safe: the same generator is drawn from as often, and in the same order.

    *Refuses.*  Lists of anything else, lists that are used otherwise (a loop over them, one of
    their numbers), and generators of one's own.
    """

    name = "draw-order"
    codes = ("GB0007", "GB0008", "GB0059")
    examples = (
        Example(
            _source(),
            _after("x.shape[0]", "x[order]"),
            at="random.shuffle(order)",
            facts=_FACTS,
            title="rows in another order",
        ),
        Example(
            _source("list(range(n))", "x[:, order[:2]], x[torch.tensor(order, device=x.device)]"),
            _after("n", "x[:, order[:2]], x[torch.as_tensor(order, device=x.device)]", "n"),
            at="random.shuffle(order)",
            facts=_FACTS,
            title="some of them, and all as a tensor",
        ),
        Example(
            _source("[*range(n)]", "x[torch.LongTensor(order)], len(order)"),
            _after("n", "x[order], len(order)", "n"),
            at="random.shuffle(order)",
            facts=_FACTS,
            title="made a tensor of integers",
        ),
        Example(
            _source("list(range(n))", "x[kept]", more=_KEEPS),
            _after("n", "x[kept]", "n", _KEEPS),
            at="random.shuffle(order)",
            facts=_FACTS,
            title="a part that has a name",
        ),
        Example(
            _source("list(range(n))", "x[order], torch.tensor(order)"),
            _after("n", "x[order], torch.as_tensor(order).clone()", "n"),
            at="random.shuffle(order)",
            facts=_FACTS,
            title="a tensor of its own",
        ),
    )
    near_misses = (
        _near_miss("names", made="list(names)"),
        _near_miss("from another number on", made="list(range(1, n))"),
        _near_miss("the numbers themselves are given back", use="order"),
        _near_miss("one number", use="x[order[0]]"),
        _near_miss("a loop over the numbers", use="[x[i] for i in order]"),
        _near_miss("every second one", use="x[order[::2]]"),
        _near_miss("a list is indexed", use="names[order]"),
        _near_miss("another dtype", use="torch.tensor(order, dtype=torch.float32)"),
        _near_miss("a generator of its own", shuffle="names.shuffle"),
        _near_miss("read by a function inside", use="lambda: x[order]"),
        _near_miss("a part that is used otherwise", use="x[kept], kept", more=_KEEPS),
        _near_miss("a part that is bound twice", use="x[kept]", more=_KEEPS + _KEEPS),
        _near_miss("another name for it", use="x[kept]", more="    kept = order\n"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        shuffled = _shuffled(site)
        if shuffled is None:
            return
        uses = list(_uses(site, shuffled.name, shuffled.line))
        if not uses or not all(uses):
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        given = Given(site, {"int": "int"})
        count = code(given.passed(shuffled.count))
        if given.refused:
            return
        drawn = drawing_operator(
            site,
            edit,
            shuffled.call,
            cst.parse_expression(f"list(range({count}))"),
            given.parameters,
            f"drawn = BODY0\n    {code(shuffled.call.func)}(drawn)\n"
            f'    return {torch}.tensor(drawn, dtype={torch}.int64, device="cpu")',
            f'{torch}.empty({count}, dtype={torch}.int64, device="cpu")',
        )
        edit.replace(shuffled.made, cst.parse_expression(drawn))
        edit.remove(shuffled.line)
        for use in uses:
            if use is not None and use.old is not use.new:
                edit.replace(use.old, use.new)
        yield edit.rewrite(
            f"draw `{shuffled.name}` in a custom operator",
            rank=40,
            notes=("CUDA graphs skip a graph that holds a CPU tensor", *operator_notes(site)[1:]),
        )


@dataclasses.dataclass(frozen=True)
class _Shuffled:
    """A list of places that the line below it shuffles: how many, and where all that stands."""

    name: str
    made: cst.BaseExpression
    count: cst.BaseExpression
    line: cst.SimpleStatementLine
    call: cst.Call


@dataclasses.dataclass(frozen=True)
class _Use:
    old: cst.BaseExpression
    new: cst.BaseExpression


def _shuffled(site: Site) -> _Shuffled | None:
    match site.statement:
        case (
            cst.SimpleStatementLine(
                body=[
                    cst.Expr(cst.Call(args=[cst.Arg(value=cst.Name(name), keyword=None)]) as call)
                ]
            ) as line
        ) if resolve(site.module, call.func) == "random.shuffle":
            assert isinstance(line, cst.SimpleStatementLine)
        case _:
            return None
    root: cst.BaseExpression = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    if site.function is None or code(root) in function_scope(site.function).locals:
        return None  # imported here: the operator would not see it
    block = list(site.block_of(line))
    place = next(number for number, item in enumerate(block) if item is line)
    match block[place - 1] if place else None:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(target))], value=made)]
        ) if target == name and not comments_in(line):
            count = _count(made)
            return _Shuffled(name, made, count, line, call) if count is not None else None
    return None


def _count(made: cst.BaseExpression) -> cst.BaseExpression | None:
    """How many places ``list(range(n))`` or ``[*range(n)]`` lists."""
    match made:
        case cst.Call(func=cst.Name("list"), args=[cst.Arg(value=numbers, star="", keyword=None)]):
            pass
        case cst.List(elements=[cst.StarredElement(value=numbers)]):
            pass
        case _:
            return None
    match numbers:
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=end, star="", keyword=None)]):
            return end
    return None


def _uses(site: Site, name: str, first: cst.CSTNode) -> Iterator[_Use | None]:
    """Where a list is read but in its ``first`` line, and what the tensor is there; None where it
    cannot stand for the list.
    """
    assert site.function is not None
    if name in activity(site.function.body).captures:
        yield None
    stores = 0
    for node in site.places_of(name, site.function):
        if isinstance(site.parent(node), cst.AssignTarget):
            stores += 1
        elif not any(it is first for it in site.ancestors(node)):
            yield from _use(site, node)
    if stores != 1:
        yield None


def _use(site: Site, node: cst.BaseExpression) -> Iterator[_Use | None]:
    parent = site.parent(node)
    match parent:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(cst.Slice(step=None))]) if (
            value is node
        ):
            yield from _use(site, parent)
        case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]) if not isinstance(
            node, cst.Name
        ):
            yield from _uses(site, name, parent)
        case cst.Arg(keyword=None, star=""):
            call = site.parent(parent)
            yield _as_tensor(site, call, node) if isinstance(call, cst.Call) else None
        case _:
            yield _Use(node, node) if _picks(site, node) else None


def _picks(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is an index of a tensor."""
    index = site.parent(node)
    element = site.parent(index) if isinstance(index, cst.Index) else None
    holder = site.parent(element) if element is not None else None
    fact = site.fact(holder.value) if isinstance(holder, cst.Subscript) else None
    return fact is not None and fact.is_tensor


_SAME = {"torch.tensor": "as_tensor", "torch.as_tensor": "as_tensor", "torch.LongTensor": ""}


def _as_tensor(site: Site, call: cst.Call, node: cst.BaseExpression) -> _Use | None:
    """``len(order)``, or what makes the list a tensor, of the same integers."""
    first, *others = call.args
    if first.value is not node:
        return None
    if code(call.func) == "len" and not others:
        return _Use(node, node)
    home = resolve(site.module, call.func) or ""
    told = {it.keyword.value: code(it.value) for it in others if it.keyword is not None}
    known = len(told) == len(others) and told.keys() <= {"device", "dtype"}
    integers = {"torch.long", "torch.int64"}
    if home not in _SAME or not known or told.get("dtype", "torch.int64") not in integers:
        return None
    # What is made of a list is a tensor of its own, which may be changed.
    own = "" if _picks(site, call) else ".clone()"
    if not _SAME[home]:
        return _Use(call, cst.parse_expression(f"{code(node)}{own}")) if not others else None
    if not isinstance(call.func, cst.Attribute):
        return None
    func = call.func.with_changes(attr=cst.Name(_SAME[home]))
    made = call.with_changes(func=func)
    return _Use(call, cst.parse_expression(f"{code(made)}{own}") if own else made)


__all__ = ["DrawOrder"]
