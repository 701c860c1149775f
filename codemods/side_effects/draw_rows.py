"""Rows of a list that are chosen by lot: the lot in an operator, the list as a tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import Parameter
from ..wrap.operator_text import torch_alias
from .draw_to_op import drawing_operator

_CHOICE = "np.random.choice(len(self.pairs), self.count, replace=False)"
_PAIRS = Fact("tuple", "tuple", items=(scalar(0), scalar(1)))
_FACTS = {
    "self.pairs": Fact("list", "list", items=(_PAIRS, _PAIRS, _PAIRS)),
    "self.pairs[i]": _PAIRS,
    "len(self.pairs)": scalar(3),
    "self.count": scalar(2),
    "count": scalar(2),
    _CHOICE: Fact("ndarray", "numpy.ndarray", shape=(2,), dtype="int64"),
    "x": tensor(2, 4, 4),
    "total": tensor(2, 2, 4),
}


def _source(
    draw: str = _CHOICE,
    use: str = "x[:, self.pairs[i], :]",
    more: str = "return total",
    before: str = "",
) -> str:
    return f"""import random

import numpy as np
import torch


def f(self, x, count, total):
    chosen = {draw}
{before}    for i in chosen:
        total = total + {use}
    {more}
"""


def _after(draw: str, body: str, given: str = "self.count") -> str:
    operator = f"""@torch.library.custom_op("example::draw_f", mutates_args=())
def draw_f(anchor: torch.Tensor, pairs: int, count: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    drawn = {body}
    return torch.as_tensor(drawn, dtype=torch.int64, device="cpu")


draw_f.register_fake(
    lambda anchor, pairs, count: torch.empty(count, dtype=torch.int64, device="cpu")
)
draw_f.register_effect(torch.library.EffectType.ORDERED)


def f("""
    rows = "    chosen = torch.tensor(self.pairs, device=x.device)[chosen]"
    drawn = f"draw_f(torch.empty(0), len(self.pairs), {given})"
    return _source(draw, "x[:, i, :]").replace(draw, f"{drawn}\n{rows}").replace("def f(", operator)


def _near_miss(why: str, at: str = _CHOICE, **parts: str) -> NearMiss:
    return NearMiss(_source(**parts), at=at, why=why, facts=_FACTS)


class DrawRows(Codemod):
    """*What it does.*  Keeps rows that are chosen by lot in a tensor.

    ```python
    chosen = np.random.choice(len(self.pairs), self.count, replace=False)
    for i in chosen:
        total += self.head(x[:, self.pairs[i], :])
    ```
    becomes ``chosen = draw_forward(...)``, ``chosen = torch.tensor(self.pairs,
    device=x.device)[chosen]`` and ``x[:, i, :]``: an operator draws the numbers, and the rows of
    the list are looked up as tensors.

    *When it applies.*  As many numbers as Python knows are drawn by ``np.random.choice``,
    ``np.random.randint`` or ``random.sample``; a loop goes over them; and each is only asked for
    the row of one list, which is an index of a tensor.  The rows are equally long and hold whole
    numbers.

    *Fix safety.*  Safe: the same generator draws the same numbers in the same order, and an index
    that is a tensor picks what an index that is a list picks.

    *Refuses.*  Numbers that are used otherwise, lists that the loop changes, rows of several
    lengths, and a tuple that is the only index (it means one element).
    """

    name = "draw-rows"
    codes = ("data-dependent-guard", "data-dependent-specialization", "GB0033", "GB0124", "GB0007")

    examples = (
        Example(
            _source(),
            _after(_CHOICE, "np.random.choice(pairs, count, replace=False)"),
            at=_CHOICE,
            facts=_FACTS,
            title="some of many pairs",
        ),
        Example(
            _source("random.sample(range(len(self.pairs)), count)"),
            _after(
                "random.sample(range(len(self.pairs)), count)",
                "random.sample(range(pairs), count)",
                given="count",
            ),
            at="random.sample(range(len(self.pairs)), count)",
            code="GB0007",
            facts=_FACTS,
            title="a sample of Python's",
        ),
    )
    near_misses = (
        _near_miss("the number is used", more="return total + chosen[0]"),
        _near_miss("another list", use="x[:, self.pairs[i], :] + x[:, other[i], :]"),
        _near_miss("a number that scales", use="x[:, self.pairs[i], :] * i"),
        _near_miss("a tuple that names one element", use="x[self.pairs[i]]"),
        _near_miss("no tensor is indexed", use="self.table[:, self.pairs[i], :]"),
        _near_miss(
            "a list that changes before the loop", before="    self.pairs = self.pairs[1:]\n"
        ),
        _near_miss("a list that a call may change", before="    self.shuffle()\n"),
        _near_miss("a list that the loop changes", use="x[:, self.pairs[i], self.pairs.pop()]"),
        _near_miss(
            "weights, which the operator would have to be given",
            "np.random.choice(len(self.pairs), self.count, p=w)",
            draw="np.random.choice(len(self.pairs), self.count, p=w)",
        ),
        _near_miss(
            "values, not places",
            "np.random.choice(self.values, self.count)",
            draw="np.random.choice(self.values, self.count)",
        ),
        _near_miss(
            "one number",
            "np.random.choice(len(self.pairs))",
            draw="np.random.choice(len(self.pairs))",
        ),
        NearMiss(
            _source(),
            at=_CHOICE,
            why="rows of several lengths",
            facts={
                **_FACTS,
                "self.pairs": Fact(
                    "list", "list", items=(_PAIRS, Fact("tuple", "tuple", items=(scalar(0),)))
                ),
            },
        ),
        NearMiss(
            _source(),
            at=_CHOICE,
            why="rows of fractions",
            facts={
                **_FACTS,
                "self.pairs[i]": Fact("tuple", "tuple", items=(scalar(0.5), scalar(1.5))),
            },
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        for call in walk(function.body):
            if not isinstance(call, cst.Call) or site.function_of(call) is not function:
                continue
            lot = _lot(site, call)
            rows = _rows(site, function, lot) if lot is not None else None
            if lot is not None and rows is not None and _concerns(site, lot, rows):
                yield _rewrite(site, lot, rows)
                return


@dataclasses.dataclass(frozen=True)
class _Lot:
    """A draw of several whole numbers: its call, the name that holds them, and the operator's."""

    call: cst.Call
    name: str
    body: cst.BaseExpression
    parameters: tuple[Parameter, ...]
    count: str


@dataclasses.dataclass(frozen=True)
class _Rows:
    """``table[i]`` in a loop over what was drawn, and the tensor that it indexes."""

    loop: cst.For
    table: cst.BaseExpression
    lookups: tuple[cst.Subscript, ...]
    indexed: cst.BaseExpression


# -- the draw --------------------------------------------------------------------------------------


def _lot(site: Site, call: cst.Call) -> _Lot | None:
    match site.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]):
            pass
        case _:
            return None
    found = _counts(site, call)
    if found is None or comments_in(call) or not _of_the_process(site, call):
        return None
    taken = {"anchor"}
    parameters: list[Parameter] = []
    renamed: dict[cst.CSTNode, cst.BaseExpression] = {}
    texts = []
    for node in found:
        if isinstance(node, cst.Integer):
            texts.append(code(node))
            continue
        fact = site.fact(node) or site.locals_before(site.statement_of(call)).get(code(node))
        if fact is None or (fact.kind, fact.type) != ("int", "int"):
            return None
        known = next((item for item in parameters if code(item.argument) == code(node)), None)
        if known is None:
            base = fresh(_short(node), taken)
            taken.add(base)
            known = Parameter(base, "int", node.deep_clone(), fact)
            parameters.append(known)
        renamed[node] = cst.Name(known.name)
        texts.append(known.name)
    body = cst.ensure_type(call.visit(_Renamed(renamed)), cst.Call)
    return _Lot(call, name, body.with_changes(lpar=(), rpar=()), tuple(parameters), texts[-1])


def _counts(site: Site, call: cst.Call) -> list[cst.BaseExpression] | None:
    """What the draw asks for: bounds, and how many (the last one)."""
    home = resolve(site.module, call.func) or ""
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if len(plain) + len(named) != len(call.args):
        return None
    replace = named.pop("replace", None)
    if "size" in named and home != "random.sample":
        plain.append(named.pop("size"))
    if named or (replace is not None and code(replace) not in ("True", "False")):
        return None
    match home, plain:
        case "numpy.random.choice", [bound, count]:
            return [bound, count]
        case "numpy.random.randint", [low, high, count] if replace is None:
            return [low, high, count]
        case (
            "random.sample",
            [cst.Call(func=cst.Name("range"), args=[cst.Arg(value=bound, star="")]), count],
        ) if replace is None:
            return [bound, count]
    return None


def _of_the_process(site: Site, call: cst.Call) -> bool:
    """Whether the module is a global one: what is imported in the function no operator sees."""
    root: cst.BaseExpression = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    assert site.function is not None
    return isinstance(root, cst.Name) and root.value not in function_scope(site.function).locals


def _short(node: cst.BaseExpression) -> str:
    """A name for a number: that of the list whose length it is, or the last of its own."""
    match node:
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=inner)]):
            return _short(inner)
        case cst.Subscript(value=inner):
            return _short(inner)
    last = (dotted(node) or "").rpartition(".")[2]
    return last if last.isidentifier() else "count"


class _Renamed(cst.CSTTransformer):
    def __init__(self, new: dict[cst.CSTNode, cst.BaseExpression]) -> None:
        super().__init__()
        self._new = new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self._new.get(original_node, updated_node)


# -- what is done with the numbers -----------------------------------------------------------------


def _rows(site: Site, function: cst.FunctionDef, lot: _Lot) -> _Rows | None:
    """The one loop over the numbers, if each only picks a row that indexes a tensor."""
    if lot.name in activity(function.body).captures:
        return None
    places = list(site.places_of(lot.name, function))
    reads = [it for it in places if not isinstance(site.parent(it), cst.AssignTarget)]
    if len(places) - len(reads) != 1 or len(reads) != 1:
        return None
    loop = site.parent(reads[0])
    match loop:
        case cst.For(target=cst.Name(number), iter=over) if over is reads[0]:
            pass
        case _:
            return None
    assert isinstance(loop, cst.For)
    uses = [it for it in site.places_of(number, function) if it is not loop.target]
    if not uses or not all(any(loop is up for up in site.ancestors(it)) for it in uses):
        return None
    lookups = [_lookup(site, use) for use in uses]
    if any(found is None for found in lookups):
        return None
    nodes = [node for node in lookups if node is not None]
    holders = [_indexed(site, node) for node in nodes]
    table, indexed = nodes[0].value, holders[0]
    if indexed is None or any(it is None for it in holders):
        return None
    if len({code(node.value) for node in nodes}) != 1 or not _is_regular(site, table, nodes):
        return None
    names = {part.value for part in walk(table) if isinstance(part, cst.Name)}
    does = activity(loop.body)
    changed = does.bound | does.mutates | {it.partition("[")[0] for it in does.subscript_writes}
    if names & (changed - {"self"}) or any(
        text.startswith(dotted(table) or code(table)) or (dotted(table) or "").startswith(text)
        for text in does.attribute_writes
    ):
        return None
    if any(call.startswith(f"{code(table)}.") for call in does.calls):
        return None
    if indexed.value == number or not _meets(site, lot, loop, names):
        return None
    return _Rows(loop, table, tuple(nodes), indexed)


def _meets(site: Site, lot: _Lot, loop: cst.For, names: set[str]) -> bool:
    """Whether the list is the same at the draw, where it is looked up now, and at the loop."""
    block = list(site.block_of(loop))
    line = site.statement_of(lot.call)
    if line not in block or block.index(line) > block.index(loop):
        return False
    for between in block[block.index(line) + 1 : block.index(loop)]:
        does = activity(between)
        if does.calls or does.attribute_writes or (does.bound | does.mutates) & names:
            return False
    return True


def _lookup(site: Site, use: cst.Name) -> cst.Subscript | None:
    """``table[i]`` around the name."""
    index = site.parent(use)
    element = site.parent(index) if isinstance(index, cst.Index) else None
    holder = site.parent(element) if element is not None else None
    if isinstance(holder, cst.Subscript) and len(holder.slice) == 1:
        root: cst.BaseExpression = holder.value
        while isinstance(root, cst.Attribute | cst.Subscript):
            root = root.value
        return holder if isinstance(root, cst.Name) and not comments_in(holder) else None
    return None


def _indexed(site: Site, node: cst.Subscript) -> cst.Name | None:
    """The tensor of which the row is one index among several (or a list, which may be alone)."""
    index = site.parent(node)
    element = site.parent(index) if isinstance(index, cst.Index) else None
    holder = site.parent(element) if element is not None else None
    if not isinstance(holder, cst.Subscript) or isinstance(site.parent(holder), cst.AssignTarget):
        return None
    row, whole = site.fact(node), site.fact(holder.value)
    if row is None or whole is None or not whole.is_tensor:
        return None
    if len(holder.slice) == 1 and row.kind != "list":
        return None
    return holder.value if isinstance(holder.value, cst.Name) else None


def _is_regular(site: Site, table: cst.BaseExpression, lookups: list[cst.Subscript]) -> bool:
    """Whether the table is a list of equally long rows of whole numbers."""
    fact = site.fact(table)
    if fact is not None and fact.kind not in ("list", "tuple"):
        return False
    rows = [*(fact.items or () if fact is not None else ()), *map(site.fact, lookups)]
    lengths = set()
    for row in rows:
        if row is None or row.kind not in ("list", "tuple") or row.type not in ("list", "tuple"):
            return False
        if row.items is None:
            continue
        if not all(it.kind == "int" for it in row.items):
            return False
        lengths.add(len(row.items))
    return len(lengths) <= 1


def _concerns(site: Site, lot: _Lot, rows: _Rows) -> bool:
    """Whether the break is the draw, the loop, or one of the lookups."""
    mine = [site.statement_of(lot.call), rows.loop, *map(site.statement_of, rows.lookups)]
    return any(site.statement is it for it in mine)


def _rewrite(site: Site, lot: _Lot, rows: _Rows) -> Rewrite:
    edit = site.edit()
    torch = torch_alias(site, edit)
    drawn = drawing_operator(
        site,
        edit,
        lot.call,
        lot.body,
        lot.parameters,
        f'drawn = BODY0\n    return {torch}.as_tensor(drawn, dtype={torch}.int64, device="cpu")',
        f'{torch}.empty({lot.count}, dtype={torch}.int64, device="cpu")',
    )
    table = f"{torch}.tensor({code(rows.table)}, device={code(rows.indexed)}.device)"
    edit.replace(lot.call, cst.parse_expression(drawn))
    line = cst.parse_statement(f"{lot.name} = {table}[{lot.name}]", site.module.config_for_parsing)
    edit.insert_after(site.statement_of(lot.call), line)
    assert isinstance(rows.loop.target, cst.Name)
    for node in rows.lookups:
        edit.replace(node, rows.loop.target.deep_clone())
    return edit.rewrite(
        f"draw `{lot.name}` in a custom operator, and look rows up as tensors",
        rank=40,
        notes=("CUDA graphs do without a graph that holds a tensor of the CPU",),
    )


__all__ = ["DrawRows"]
