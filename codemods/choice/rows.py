"""Rows cut at a length that a tensor holds (``x[i, :n]``) become masked rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import cast

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from ..control_flow.values import Values
from ..data_dependent.nested import Parts
from ..data_dependent.selections import (
    MEAN_OF_KEPT,
    STD_OF_KEPT,
    averaged,
    deviated,
    mean_function,
    varied,
)

_SOURCE = """
import torch


def f(x, lens):
    {}
"""
_AVERAGED = _SOURCE.replace("def f", f"{MEAN_OF_KEPT}\n\ndef f")
_FACTS = {
    "x": tensor(3, 5, 2),
    "lens": tensor(3, dtype="torch.int64"),
    "x[i, :n]": tensor(None, 2),
    "out": tensor(3, 5, 2),
    "mode": Fact("str", "str"),
    "x[b, lens[b]:]": tensor(None, 2),
}
_LOOP = """rows = []
    for i in range(x.shape[0]):
        n = lens[i].item()  # valid
        rows.append(x[i, :n].sum(0))
    return torch.stack(rows)"""
_FIRST = """steps = torch.arange(x.shape[1], device=x.device)
    stops = torch.where(lens < 0, lens.long() + x.shape[1], lens)
"""
_LOOP_AFTER = f"""rows = []
    {_FIRST}    for i in range(x.shape[0]):
        n = stops[i]  # valid
        rows.append(torch.where((steps < n)[:, None], x[i], 0).sum(0))
    return torch.stack(rows)"""
_STORE = """x = x.clone()
    for b in range(len(lens)):
        x[b, lens[b]:] = 0
    return x"""
_STORE_AFTER = f"""x = x.clone()
    {_FIRST.replace("stops", "starts")}    for b in range(len(lens)):
        x[b].masked_fill_((steps >= starts[b])[:, None], 0)
    return x"""
_EACH = """lens = (x != 0).sum(1)
    return torch.stack([x[i, :n].mean(dim=0) for i, n in enumerate(lens.tolist())])"""
_EACH_AFTER = """lens = (x != 0).sum(1)
    steps = torch.arange(x.shape[1], device=x.device)
    return torch.stack([mean_of_kept(torch.where((steps < n)[:, None], x[i], 0), \
(steps < n).sum(), 0) for i, n in enumerate(lens)])"""

_LIST = """lens = (x != 0).sum(1)
    rows = []
    for i, n in enumerate(lens.tolist()):
        rows.append(x[i, :n].sum(0))
    return torch.stack(rows)"""
_LIST_AFTER = """lens = (x != 0).sum(1)
    rows = []
    steps = torch.arange(x.shape[1], device=x.device)
    for i, n in enumerate(lens):
        rows.append(torch.where((steps < n)[:, None], x[i], 0).sum(0))
    return torch.stack(rows)"""
_COPY = """out = torch.zeros_like(x)
    for i, n in enumerate(lens):
        out[i, :n] = x[i, :n]
    return out"""
_COPY_AFTER = f"""out = torch.zeros_like(x)
    {_FIRST.replace("x.shape", "out.shape").replace("x.device", "out.device")}\
    for i, n in enumerate(stops):
        out[i] = torch.where((steps < n)[:, None], x[i], out[i])
    return out"""
_NAMED = """rows = []
    for i in range(x.shape[0]):
        n = lens[i].item()
        row = x[i, :n]
        if mode == "mean":
            rows.append(row.mean(0))
        else:
            rows.append(row[-1] * row.sum(0))
    return torch.stack(rows)"""
_NAMED_AFTER = f"""rows = []
    {_FIRST}    for i in range(x.shape[0]):
        n = stops[i]
        row = torch.where((steps < n)[:, None], x[i], 0)
        if mode == "mean":
            rows.append(mean_of_kept(row, (steps < n).sum(), 0))
        else:
            rows.append(x[i, :int(lens[i])][-1] * row.sum(0))
    return torch.stack(rows)"""
_SPREAD = """rows = []
    for i in range(x.shape[0]):
        n = lens[i].item()
        row = x[i, :n]
        rows.append(torch.cat([row.mean(dim=0), row.std(dim=0, unbiased=False)]))
    return torch.stack(rows)"""
_SPREAD_AFTER = f"""rows = []
    {_FIRST}    for i in range(x.shape[0]):
        n = stops[i]
        row = torch.where((steps < n)[:, None], x[i], 0)
        rows.append(torch.cat([mean_of_kept(row, (steps < n).sum(), 0), \
std_of_kept(row, (steps < n)[:, None], 0, 0)]))
    return torch.stack(rows)"""
_COUNTED = """if lens is None:
        lens = (x != 0).sum(1)
    return torch.stack([x[i, :n].mean(dim=0) for i, n in enumerate(lens.tolist())])"""
_COUNTED_AFTER = """if lens is None:
        lens = (x != 0).sum(1)
    steps = torch.arange(x.shape[1], device=x.device)
    stops = torch.where(lens < 0, lens.long() + x.shape[1], lens)
    return torch.stack([mean_of_kept(torch.where((steps < n)[:, None], x[i], 0), \
(steps < n).sum(), 0) for i, n in enumerate(stops)])"""


class RowsToMask(Codemod):
    """*What it does.*  Keeps the length at which a row is cut a tensor, and masks the whole row:

    ```python
    for i in range(x.shape[0]):
        n = lens[i].item()
        rows.append(x[i, :n].sum(0))
    ```
    becomes ``n = lens[i]`` and ``torch.where((steps < n)[:, None], x[i], 0).sum(0)``, with
    ``steps = torch.arange(...)`` before the loop.  A row that is written (``x[i, n:] = 0``) becomes
    ``x[i].masked_fill_(...)``.

    *When it applies.*  In a loop or comprehension over rows, every use of the number is the bound
    of such a slice, of which there is a sum, mean, product, standard deviation, variance, ``any``
    or ``all`` over the cut dimension, or into which a number is written, or another row that is cut
    alike (``out[i, :n] = x[i, :n] * 2``).  The slice may have a name; where a branch that the
    program did not take uses it in other ways, it is cut there, as before.

    *Fix safety.*  Safe: the same elements, in the same order, and zeros between them.  Negative
    lengths count from the end, as Python counts them; that part is left out where the length
    surely counts something.  Whatever their type, lengths are counted from the end as int64.  A
    mean adds up in float32 or better, as ``mean`` does, in a function of the patch's own.

    *Refuses.*  Maxima (they fail for an empty row), slices that are kept as they are, steps in
    slices, other uses of the number; numbers, rows and places that are bound a second time;
    statements that may change the lengths (or a tensor of the same type, which may be a view of
    them); generators that are not used up on the spot.
    """

    name = "rows-to-mask"
    codes = (
        "GB0124",
        "GB0033",
        "GB0036",
        "GB0088",
        "GB7000",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        Example(
            _SOURCE.format(_LOOP),
            _SOURCE.format(_LOOP_AFTER),
            at="lens[i].item()",
            facts=_FACTS,
            title="a sum of each row's beginning",
        ),
        Example(
            _SOURCE.format(_STORE),
            _SOURCE.format(_STORE_AFTER),
            at="lens[b]",
            facts=_FACTS,
            title="rows cleared from there on",
        ),
        Example(
            _SOURCE.format(_COPY),
            _SOURCE.format(_COPY_AFTER),
            at="x[i, :n]",
            facts=_FACTS,
            title="rows that are copied up to there",
        ),
        Example(
            _SOURCE.format(_EACH),
            _AVERAGED.format(_EACH_AFTER),
            at="lens.tolist()",
            facts={**_FACTS, "x != 0": tensor(3, 5, 2, dtype="torch.bool")},
            title="means in a comprehension",
        ),
        Example(
            _SOURCE.format(_LIST),
            _SOURCE.format(_LIST_AFTER),
            at="lens.tolist()",
            facts={**_FACTS, "x != 0": tensor(3, 5, 2, dtype="torch.bool")},
            title="what counts, in a loop",
        ),
        Example(
            _SOURCE.format(_NAMED),
            _AVERAGED.format(_NAMED_AFTER),
            at="lens[i].item()",
            facts=_FACTS,
            title="a row with a name, and a branch that did not run",
        ),
        Example(
            _SOURCE.format(_SPREAD),
            _SOURCE.replace("def f", f"{MEAN_OF_KEPT}\n\n{STD_OF_KEPT}\n\ndef f").format(
                _SPREAD_AFTER
            ),
            at="lens[i].item()",
            facts=_FACTS,
            title="mean and standard deviation",
        ),
        Example(
            _SOURCE.format(_COUNTED),
            _AVERAGED.format(_COUNTED_AFTER),
            at="lens.tolist()",
            facts={
                **_FACTS,
                "lens": tensor(3, dtype="torch.int16"),
                "x != 0": tensor(3, 5, 2, dtype="torch.bool"),
            },
            title="lengths that are given or counted, of a narrow type",
        ),
    )
    near_misses = tuple(
        NearMiss(_SOURCE.format(_LOOP.replace("x[i, :n].sum(0)", other)), at=at, why=why,
                 facts=_FACTS)
        for other, why, at in (
            ("x[i, :n]", "the slice itself is used", "lens[i].item()"),
            ("x[i, :n].max(0).values", "fails for an empty row", "lens[i].item()"),
            ("x[i, :n:2].sum(0)", "a step", "lens[i].item()"),
            ("x[i, :n].sum(0) * list(range(n))[0]", "another use", "lens[i].item()"),
            ("x[i, :n].sum(0, keepdim=True)", "another argument", "lens[i].item()"),
            ("x[i, :n].std(0, unbiased=late)", "not known how it counts", "lens[i].item()"),
            ("x[i, :n].std(1)", "of each row alone", "lens[i].item()"),
            ("x[i, :n].std(0, keepdim=True)", "another argument of a spread", "lens[i].item()"),
            ("x[i, :n].sum(0))\n        n = -1\n        rows.append(x[i, :n].sum(0)",
             "a number of Python's too", "lens[i].item()"),
            ("x[i, :n].sum(0) if i < 8 else x[(i := 0), :n].sum(0) / n",
             "another place by then", "lens[i].item()"),
            ("x[i, :n].sum(0))\n        view.clamp_(max=9", "a view of the lengths is changed",
             "lens[i].item()"),
            ("x[i, :n].sum(0))\n        capped(lens", "unknown code may change the lengths",
             "lens[i].item()"),
            ("x[i, :n].sum(0) + lens[0] * n", "whole numbers of another type",
             "lens[i].item()"),
        )
    ) + tuple(
        NearMiss(_SOURCE.format(_COPY.replace(old, new)), at="x[i, :n]", why=why,
                 facts={**_FACTS, **facts})
        for old, new, why, facts in (
            ("= x[i, :n]", "= x[i, :n][:, [1, 0]]", "a part of the row in another order", {}),
            ("out[i, :n]", "out[i, :3]", "it goes where a number says", {}),
            ("out[i, :n]", "out[i, -n:]", "it is cut elsewhere", {}),
            ("= x[i, :n]", "= x[i, :n] / x[i, :n]", "an infinite derivative at zero", {}),
            ("= x[i, :n]", "= x[i, :n] + x[i, :n].sum(0)", "all rows that are cut together", {}),
            ("= x[i, :n]", "= x[i, :n]", "another type",
             {"out": tensor(3, 5, 2, dtype="torch.int64")}),
            ("= x[i, :n]", "= x[i, :n]", "longer rows", {"out": tensor(3, 9, 2)}),
        )
    ) + tuple(
        NearMiss(_SOURCE.format(text), at=at, why=why, facts={**_FACTS, **facts})
        for text, why, at, facts in (
            (_LOOP.replace("rows = []", "rows, n = [], -1").replace(
                "n = lens[i].item()  # valid", "if i < 8: n = lens[i].item()"),
             "the number is one of Python's in the first rows", "lens[i].item()", {}),
            (_NAMED, "the last of the row is used where the program came by", "lens[i].item()",
             {"row[-1]": tensor(2)}),
            (_NAMED.replace("n = lens", "i, n = 0, lens"), "another row by then",
             "lens[i].item()", {}),
            (_NAMED.replace("return torch.stack(rows)", "return row"), "the row is a result",
             "lens[i].item()", {}),
            (_NAMED.replace("row.mean(0)", "row.prod(0)"), "zeros for one, ones for the other",
             "lens[i].item()", {}),
            (_NAMED.replace("        if mode", "        row += 1\n        if mode"),
             "changed in place", "lens[i].item()", {}),
            (_NAMED.replace("row[-1] *", "row.clamp_(0)[-1] *"),
             "changed in place on another way", "lens[i].item()", {}),
            (_NAMED.replace("        if mode", "        x[i] = 0\n        if mode"),
             "what it is a part of is changed", "lens[i].item()", {}),
            (_NAMED.replace("        if mode", "        row.clamp_(0)\n        if mode"),
             "changed in place by a method", "lens[i].item()", {"row.clamp_(0)": tensor(None, 2)}),
            (_STORE, "the lengths may be a view of what is written", "lens[b]",
             {"x": tensor(3, 5, 2, dtype="torch.int64"), "x.clone()": tensor(
                 3, 5, 2, dtype="torch.int64")}),
            (_EACH.replace("torch.stack([", "(").replace("])", ")"), "used up later",
             "lens.tolist()", {}),
            (_EACH.replace("return ", "return change(lens), "), "something else comes first",
             "lens.tolist()", {}),
            ("for row, n in zip(x, lens.tolist()):\n        row = row[1:]\n"
             "        x = row[:n].sum(0)", "a part of the row", "lens.tolist()",
             {"row[:n]": tensor(None, 2)}),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None or "torch" not in code(site.module):
            return
        for parent in (site.node, *site.ancestors(site.node)):
            if isinstance(parent, cst.FunctionDef | cst.Lambda):
                return
            if isinstance(parent, cst.For | cst.ListComp | cst.GeneratorExp):
                made = _Rows(site, parent).rewrite()
                if made is not None:
                    yield made
                    return


_NEUTRAL = {"sum": "0", "prod": "1", "any": "False", "all": "True", "mean": "0"}
_NEUTRAL |= {"std": "0", "var": "0"}
_COUNTS = words("count_nonzero argmax argmin bincount")
_INTEGERS = words("torch.int64 torch.int32 torch.int16 torch.uint8 torch.int8")
#: Calls that use up a generator before anything else happens.
_CONSUMERS = words("list tuple set sum")


class _NotSo(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class _Cut:
    """A row that is cut: its text, what it is a row of, and the bounds as written."""

    row: str
    base: str
    lower: cst.BaseExpression | None
    upper: cst.BaseExpression | None
    dims: int
    #: How many dimensions of the base stand before the row's.
    depth: int


class _Rows:
    def __init__(self, site: Site, loop: cst.For | cst.ListComp | cst.GeneratorExp) -> None:
        self.site = site
        self.loop = loop
        self.values = Values(site)
        self.torch = self.values.torch
        #: Names of numbers that a tensor holds, and where they are bound.
        self.numbers: dict[str, str] = {}
        self.replaced: dict[cst.CSTNode, cst.BaseExpression] = {}
        self.handled: set[cst.CSTNode] = set()
        self.sized: set[str] = set()
        #: The names that were so bound, one for each time, and the lines that bind nothing else.
        self.bound: list[str] = []
        self.understood: set[cst.CSTNode] = set()
        #: What is known of the lengths, by their texts.
        self.facts: dict[str, Fact | None] = {}
        #: Names of rows, and what the loop takes them from; the text of each number's place.
        self.rows: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.taken = names_in(site.module)
        self.steps = self._fresh("steps")
        #: Lengths that may be negative, and the name of what they are from the front.
        self.counted: dict[str, str] = {}
        #: The means that became sums.
        self.averages: list[Parts] = []

    def _fresh(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name

    def _lengths(self, node: cst.BaseExpression, *, upper: bool = True) -> str:
        """The text of the lengths, counted from the front."""
        text = code(node)
        self.facts[text] = self.values.fact(node)
        if self._counts(text):
            return text
        if text not in self.counted:
            self.counted[text] = self._fresh("stops" if upper else "starts")
        return self.counted[text]

    def rewrite(self) -> Rewrite | None:
        body = self.loop.body if isinstance(self.loop, cst.For) else self.loop.elt
        try:
            self._bindings(body)
            self._cuts(body)
        except _NotSo:
            return None
        if not self.sized or len(self.sized) > 1:
            return None
        function = self.site.function
        assert function is not None
        statement = self.site.statement_of(self.loop)
        if not self._is_left_alone(statement) or not self._is_used_up():
            return None
        if isinstance(self.loop, cst.For) and set(self.numbers) & live_after(function, self.loop):
            return None
        (base,) = self.sized
        edit = self.site.edit()
        device = f"{_root(base)}.device"
        edit.insert_before(
            statement,
            cst.parse_statement(f"{self.steps} = {self.torch}.arange({base}, device={device})"),
            *(
                cst.parse_statement(
                    f"{name} = {self.torch}.where({lens} < 0, {lens}.long() + {base}, {lens})"
                )
                for lens, name in self.counted.items()
            ),
        )
        for old, new in self.replaced.items():
            edit.replace(old, new)
        added = mean_function(self.site, self.averages)
        if added:
            blank = cst.EmptyLine(indent=False)
            edit.insert_before(
                self.site.top_level_statement(statement),
                *(
                    line.with_changes(leading_lines=[blank, blank])
                    for line in cst.parse_module(added).body
                ),
            )
        if self.values.torch_missing:
            edit.add_import("torch")
        notes = ["Whole rows are computed with, whatever their lengths."]
        return edit.rewrite("mask the rows, and keep their lengths tensors", notes=notes, rank=18)

    # -- what the statement changes ------------------------------------------------------------

    def _is_left_alone(self, statement: cst.CSTNode) -> bool:
        """Whether the statement, which now reads all lengths at its start, leaves them alone."""
        effects, does = self.values.effects(statement), activity(statement)
        over = self.loop.iter if isinstance(self.loop, cst.For) else self.loop.for_in.iter
        # `enumerate` and `zip` run nothing; what stands in them counts by itself.
        harmless = isinstance(over, cst.Call) and code(over.func) in ("enumerate", "zip")
        unknown = set(effects.unknown) - ({code(over)} if harmless else set())
        if effects.mutates_unknown or unknown or does.attribute_writes:
            return False
        names = {name for text in self.facts for name in _names(cst.parse_expression(text))}
        if names & (effects.mutates | does.writes):
            return False
        return not any(self._may_share(name, statement) for name in effects.mutates)

    def _may_share(self, name: str, where: cst.CSTNode) -> bool:
        """Whether to change what a name holds may change lengths, under another name for them.

        A tensor of another type shares no memory with them, and a list that is only added to
        leaves alone what it holds.
        """
        types = {fact.dtype for fact in self.facts.values() if fact is not None}
        places = [n for n in walk(where) if isinstance(n, cst.Name) and n.value == name]
        known = [self.values.fact(place) for place in places]
        if known and all(fact is not None and fact.is_tensor for fact in known):
            return any(fact is None or fact.dtype is None or fact.dtype in types for fact in known)
        held = self.values.is_tensor_name(name)
        return held or not all(map(self._is_container_change, places))

    def _is_container_change(self, place: cst.Name) -> bool:
        holder = self.site.parent(place)
        outer = self.site.parent(holder) if holder is not None else None
        if isinstance(holder, cst.Attribute):
            called = isinstance(outer, cst.Call) and outer.func is holder
            return called and holder.attr.value in MUTATING_METHODS
        if isinstance(holder, cst.Subscript) and holder.value is place:
            return isinstance(outer, cst.AssignTarget)
        return True

    def _is_used_up(self) -> bool:
        """Whether all rows are computed where they are written: a generator may wait."""
        if not isinstance(self.loop, cst.GeneratorExp):
            return True
        holder = self.site.parent(self.loop)
        call = self.site.parent(holder) if isinstance(holder, cst.Arg) else None
        return isinstance(call, cst.Call) and code(call.func) in _CONSUMERS

    # -- numbers -----------------------------------------------------------------------------

    def _bindings(self, body: cst.CSTNode) -> None:
        if isinstance(self.loop, cst.For):
            self._iterated(self.loop.target, self.loop.iter)
        else:
            if self.loop.for_in.inner_for_in is not None or self.loop.for_in.ifs:
                raise _NotSo
            self._iterated(self.loop.for_in.target, self.loop.for_in.iter)
        for node in walk(body):
            if isinstance(node, cst.Assign) and len(node.targets) == 1:
                before = len(self.bound)
                self._assigned(node.targets[0].target, node.value)
                if activity(node).bound <= set(self.bound[before:]):
                    self.understood.add(node)
        # A number that is bound in another way too is not always an element of the lengths.
        others = _without(body, self.understood)
        if set(self.numbers) & others or len(set(self.bound)) < len(self.bound):
            raise _NotSo
        function = self.site.function
        assert function is not None
        if isinstance(self.loop, cst.For) and set(self.numbers) & live_before(function, self.loop):
            raise _NotSo  # the first rows may be cut at what it was before

    def _iterated(self, target: cst.BaseAssignTargetExpression, value: cst.BaseExpression) -> None:
        match target, value:
            case (
                cst.Tuple(elements=[_, cst.Element(value=cst.Name(value=name))]),
                cst.Call(func=cst.Name(value="enumerate"), args=[cst.Arg(value=over)]),
            ):
                self._over(name, over)
            case cst.Tuple(elements=elements), cst.Call(func=cst.Name(value="zip"), args=args):
                for element, arg in zip(elements, args, strict=False):
                    if isinstance(element.value, cst.Name):
                        self._over(element.value.value, arg.value)
                        if isinstance(arg.value, cst.Name):
                            self.rows[element.value.value] = arg.value.value

    def _over(self, name: str, over: cst.BaseExpression) -> None:
        """A name that runs over the numbers of a tensor."""
        match over:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="tolist")), args=[]):
                if self._is_lengths(inner):
                    self.replaced[over] = cst.parse_expression(self._lengths(inner))
                    self.numbers[name] = code(inner)
                    self.bound.append(name)
            case cst.Name() if self._is_lengths(over):
                self.replaced[over] = cst.parse_expression(self._lengths(over))
                self.numbers[name] = code(over)
                self.bound.append(name)

    def _is_lengths(self, node: cst.BaseExpression) -> bool:
        fact = self.values.fact(node)
        return (
            fact is not None
            and fact.is_tensor
            and len(fact.shape or ()) == 1
            and fact.dtype in _INTEGERS
        )

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        match target, value:
            case cst.Name(value=name), _:
                found = self._read(value)
                if found is not None:
                    self.numbers[name] = code(found.value)
                    self.bound.append(name)
                    self.places[name] = code(found)
                    base = cst.parse_expression(self._lengths(found.value))
                    self.replaced[value] = found.with_changes(value=base)
            case cst.Tuple(elements=names), cst.Tuple(elements=parts) if len(names) == len(parts):
                for each, part in zip(names, parts, strict=True):
                    self._assigned(each.value, part.value)

    def _read(self, node: cst.BaseExpression) -> cst.Subscript | None:
        """``lens[i]`` of ``lens[i].item()``, ``int(lens[i])`` and the like."""
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="item")), args=[]):
                return self._read(inner)
            case cst.Call(func=cst.Name(value="int"), args=[cst.Arg(value=inner)]):
                return self._read(inner)
            case cst.Subscript(value=cst.Name() as base, slice=[cst.SubscriptElement(
                slice=cst.Index(value=cst.Name() | cst.Integer())
            )]) if self._is_lengths(base):  # fmt: skip
                return node
        return None

    # -- slices ------------------------------------------------------------------------------

    def _cuts(self, body: cst.CSTNode) -> None:
        copied: set[cst.CSTNode] = set()
        for node in walk(body):
            if isinstance(node, cst.Assign | cst.AugAssign):
                copied |= self._copied(node)
        for node in walk(body):
            if isinstance(node, cst.Subscript) and node not in copied:
                cut = self._cut(node)
                if cut is not None:
                    self._convert(node, cut)
        for node in walk(body):
            if not isinstance(node, cst.Name) or node.value not in self.numbers:
                continue
            if node in self.handled or isinstance(self.site.parent(node), cst.AssignTarget):
                continue
            holder = self.site.parent(node)
            if isinstance(holder, cst.Element) and isinstance(
                self.site.parent(self.site.parent(holder) or holder), cst.AssignTarget
            ):
                continue
            if not self._divides(node):
                raise _NotSo  # another use of the number

    def _divides(self, node: cst.Name) -> bool:
        """``... / n`` takes the length as it was given."""
        holder = self.site.parent(node)
        place = self.places.get(node.value)
        lens = self.numbers[node.value]
        if not isinstance(holder, cst.BinaryOperation) or holder.right is not node:
            return False
        if not isinstance(holder.operator, cst.Divide | cst.Multiply) or place is None:
            return False
        if holder.left not in self.replaced and not self.values.is_tensor(holder.left):
            return False
        if isinstance(holder.operator, cst.Multiply) and not self._keeps_type(holder.left, lens):
            return False
        if (
            _names(cst.parse_expression(place))
            & activity(self.loop.body if isinstance(self.loop, cst.For) else self.loop.elt).bound
        ):
            return False  # by then, the index may be another one
        if lens in self.counted:
            self.replaced[node] = cst.parse_expression(place)
        return True

    def _keeps_type(self, left: cst.BaseExpression, lengths: str) -> bool:
        """Whether the product with a length as a tensor has the type of that with a number.

        A number of Python's never changes the type of a tensor of numbers.  A tensor without
        dimensions changes that of other whole numbers without dimensions.
        """
        fact, known = self.values.fact(left), self.facts[lengths]
        if fact is not None and fact.dtype in FLOAT_DTYPES:
            return True
        if left in self.replaced:  # sums of whole numbers are int64
            return known is not None and known.dtype == "torch.int64"
        return fact is not None and fact.dtype in _INTEGERS and bool(fact.shape)

    def _cut(self, node: cst.Subscript) -> _Cut | None:
        *first, last = node.slice
        if not isinstance(last.slice, cst.Slice):
            return None
        bounds = [last.slice.lower, last.slice.upper]
        if not any(bound is not None and self._is_data(bound) for bound in bounds):
            return None
        if last.slice.step is not None or not all(isinstance(e.slice, cst.Index) for e in first):
            raise _NotSo
        fact = self.values.fact(node)
        dims = len(fact.shape) if fact is not None and fact.shape is not None else 0
        base = self.values.fact(node.value)
        if not dims and base is not None and base.shape is not None:
            dims = len(base.shape) - len(first)
        if not dims and code(node.value) in self.rows:
            local = self.site.locals_before(self.site.statement_of(self.loop))
            whole = local.get(self.rows[code(node.value)])
            dims = len(whole.shape or ()) - 1 - len(first) if whole is not None else 0
        if dims < 1 or not isinstance(node.value, cst.Name):
            raise _NotSo
        kept = [e.with_changes(comma=cst.MaybeSentinel.DEFAULT) for e in first]
        row = code(node.with_changes(slice=kept)) if first else code(node.value)
        return _Cut(row, code(node.value), last.slice.lower, last.slice.upper, dims, len(first))

    def _is_data(self, node: cst.BaseExpression) -> bool:
        for part in walk(node):
            if isinstance(part, cst.Name) and part.value in self.numbers:
                return True
        return self._read(node) is not None

    def _bound(self, node: cst.BaseExpression, *, upper: bool) -> str:
        """The bound as a tensor (or a number), counted from the front."""
        self.handled |= {part for part in walk(node) if isinstance(part, cst.Name)}
        found = self._read(node)
        if found is not None:
            return code(
                found.with_changes(
                    value=cst.parse_expression(self._lengths(found.value, upper=upper))
                )
            )
        if isinstance(node, cst.Name) and node.value in self.numbers:
            return node.value
        if not isinstance(node, cst.Integer):
            raise _NotSo
        return code(node)

    def _counts(self, lengths: str) -> bool:
        """Whether the function binds the lengths to what counts only, and is never negative."""
        function = self.site.function
        if function is None or lengths in live_before(function, function.body):
            return False  # what a caller gave may be read
        found: list[cst.Assign] = []
        for node in walk(function.body):
            match node:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]) if (
                    name == lengths
                ):
                    found.append(node)
        effects = self.values.effects(function.body)
        mutated = effects.mutates
        for node in walk(function.body):
            if isinstance(node, cst.Call) and code(node) in effects.unknown:
                given = {arg.value.value for arg in node.args if isinstance(arg.value, cst.Name)}
                if lengths in given:
                    return False  # unknown code may take something off
        if lengths in _without(function.body, set(found)) or any(
            self._may_share(name, function.body) for name in mutated
        ):
            return False
        match [line.value for line in found]:
            case [cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method)))]:
                fact = self.values.fact(inner)
                return method in _COUNTS or (
                    method == "sum" and fact is not None and fact.dtype == "torch.bool"
                )
        return False

    def _mask(self, cut: _Cut) -> tuple[str, str]:
        """The mask of a cut row, with as many dimensions as the row, and with one."""
        parts = []
        if cut.lower is not None:
            parts.append(f"{self.steps} >= {self._bound(cut.lower, upper=False)}")
        if cut.upper is not None:
            parts.append(f"{self.steps} < {self._bound(cut.upper, upper=True)}")
        flat = parts[0] if len(parts) == 1 else f"({parts[0]}) & ({parts[1]})"
        if cut.dims == 1:
            return flat, f"({flat})"
        return f"({flat})[:{', None' * (cut.dims - 1)}]", f"({flat})"

    def _convert(self, node: cst.Subscript, cut: _Cut) -> None:
        size = f"{cut.base}.shape[{cut.depth}]"
        if cut.base in self.rows:
            body = self.loop.body if isinstance(self.loop, cst.For) else self.loop.elt
            if cut.base in activity(body).bound:
                raise _NotSo  # a part of the row by then
            size = f"{self.rows[cut.base]}.shape[{cut.depth + 1}]"
        elif cut.base in activity(self.loop).bound:
            raise _NotSo
        parent = self.site.parent(node)
        outer = self.site.parent(parent) if parent is not None else None
        if isinstance(parent, cst.AssignTarget) and isinstance(outer, cst.Assign):
            self._store(outer, cut)
        elif isinstance(parent, cst.Attribute) and isinstance(outer, cst.Call):
            if outer.func is not parent:
                raise _NotSo
            self._reduce(outer, parent.attr.value, outer.args, cut, node)
        elif isinstance(parent, cst.Arg) and isinstance(outer, cst.Call):
            called = resolve(self.site.module, outer.func) or ""
            if not called.startswith("torch.") or outer.args[0] is not parent:
                raise _NotSo
            self._reduce(outer, called.rpartition(".")[2], outer.args[1:], cut, node)
        elif isinstance(parent, cst.Assign) and isinstance(self.loop, cst.For):
            self._named(parent, cut, node, self.loop)
        else:
            raise _NotSo
        self.sized.add(size)

    def _named(self, line: cst.Assign, cut: _Cut, node: cst.Subscript, loop: cst.For) -> None:
        """``row = x[i, :n]`` of which only sums and the like follow, where the program came by.

        In other ways than that of the program the row is cut as before.
        """
        function, target = self.site.function, line.targets[0].target
        assert function is not None
        if len(line.targets) != 1 or not isinstance(target, cst.Name) or line.value is not node:
            raise _NotSo
        name = target.value
        around = live_after(function, loop) | live_before(function, loop)
        if name in around | activity(loop.body).captures | _without(loop.body, {line}):
            raise _NotSo
        if not any(self.site.statement_of(line) is own for own in loop.body.body):
            raise _NotSo
        # What is cut is a view: what changes the tensor would show in it.
        for changed in self.values.effects(loop).mutates:
            places = self.site.places_of(changed, loop)
            if changed == cut.base or not all(map(self._is_container_change, places)):
                raise _NotSo
        neutrals: set[str] = set()
        for use in self.site.places_of(name, loop.body):
            if use is target:
                continue
            found = self._reduction_of(use, cut, node)
            if found is None:
                self._cut_as_before(use, cut, node)
                continue
            call, method, given = found
            neutrals.add(_NEUTRAL[method])
            if method in _SPREADS:
                self.replaced[call] = cst.parse_expression(self._spread(method, name, given, cut))
            if method == "mean":
                self.replaced[call] = cst.parse_expression(self._mean(name, given, cut))
        if len(neutrals) != 1:
            raise _NotSo
        mask, _ = self._mask(cut)
        text = f"{self.torch}.where({mask}, {cut.row}, {neutrals.pop()})"
        self.replaced[node] = cst.parse_expression(text)

    def _reduction_of(
        self, use: cst.Name, cut: _Cut, node: cst.Subscript
    ) -> tuple[cst.Call, str, list[str]] | None:
        """The call that reduces what the name holds, how, and the arguments given."""
        parent = self.site.parent(use)
        call = self.site.parent(parent) if parent is not None else None
        if not isinstance(call, cst.Call):
            return None
        if isinstance(parent, cst.Attribute) and call.func is parent:
            method, args = parent.attr.value, call.args
        elif call.args and call.args[0] is parent:
            called = resolve(self.site.module, call.func) or ""
            if not called.startswith("torch."):
                return None
            method, args = called.rpartition(".")[2], call.args[1:]
        else:
            return None
        try:
            self._check_reduction(method, args, cut, node)
        except _NotSo:
            return None
        return call, method, _texts(args)

    def _cut_as_before(self, use: cst.Name, cut: _Cut, node: cst.Subscript) -> None:
        """Cuts the row where it is used, on a way that the program did not take."""
        upper = node.slice[-1].slice
        assert isinstance(upper, cst.Slice)
        holder = self.site.parent(use)
        ran = [self.site.fact(use)]
        while isinstance(holder, cst.BaseExpression):
            ran.append(self.site.fact(holder))
            holder = self.site.parent(holder)
        end, place = upper.upper, None
        if end is not None:
            found = self._read(end)
            place = self.places.get(code(end)) if found is None else code(found)
        if any(fact is not None for fact in ran) or place is None or cut.lower is not None:
            raise _NotSo
        if (_names(cst.parse_expression(place)) | _names(node)) & activity(
            self.loop.body if isinstance(self.loop, cst.For) else self.loop.elt
        ).bound - set(self.numbers):
            raise _NotSo  # by then, it may be another row
        cut_at = upper.with_changes(upper=cst.parse_expression(f"int({place})"))
        last = node.slice[-1].with_changes(slice=cut_at)
        self.replaced[use] = node.with_changes(slice=[*node.slice[:-1], last])

    def _copied(self, line: cst.Assign | cst.AugAssign) -> set[cst.CSTNode]:
        """``out[i, :n] = x[i, :n] * 2``: whole rows are computed, and chosen where they are cut.

        Gives the cuts that are dealt with, which are none where the line is something else.
        """
        target = line.targets[0].target if isinstance(line, cst.Assign) else line.target
        cut = self._cut(target) if isinstance(target, cst.Subscript) else None
        inside = [
            (node, found)
            for node in walk(line.value)
            if isinstance(node, cst.Subscript) and (found := self._cut(node)) is not None
        ]
        if cut is None or not inside or comments_in(line):
            return set()
        sign = "" if isinstance(line, cst.Assign) else _SIGNS.get(type(line.operator), "")
        if (isinstance(line, cst.AugAssign) and not sign) or len(
            getattr(line, "targets", "1")
        ) != 1:
            raise _NotSo
        assert isinstance(target, cst.Subscript)
        for node, found in inside:
            if not self._is_cut_alike(target, cut, node, found):
                raise _NotSo
        mask, _ = self._mask(cut)
        rows: dict[cst.CSTNode, str] = {node: found.row for node, found in inside}
        if line.value not in rows:
            rows = {node: f"{self.torch}.where({mask}, {row}, 0)" for node, row in rows.items()}
            if not _only_adds(line.value, set(rows), self.values):
                raise _NotSo
        value = rows.get(line.value) or code(_put(line.value, rows))
        if sign:
            value = f"{cut.row} {sign} ({value})"
        text = f"{cut.row} = {self.torch}.where({mask}, {value}, {cut.row})"
        new = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine).body[0]
        self.replaced[line] = new  # type: ignore[assignment]
        for cut_node in (target, *rows):
            self.handled |= {part for part in walk(cut_node) if isinstance(part, cst.Name)}
        self.sized.add(self._size_of(cut))
        return {target, *rows}

    def _is_cut_alike(
        self, target: cst.Subscript, cut: _Cut, node: cst.Subscript, other: _Cut
    ) -> bool:
        """Whether a row is cut at the same bounds as the one it goes to, and is one of its kind."""
        bounds = [
            [code(bound) if bound is not None else "" for bound in (it.lower, it.upper)]
            for it in (cut, other)
        ]
        one, two = self.values.fact(target.value), self.values.fact(node.value)
        if bounds[0] != bounds[1] or one is None or two is None or one.dtype != two.dtype:
            return False
        if one.shape is None or two.shape is None or one.dtype is None:
            return False
        return one.shape[cut.depth :] == two.shape[other.depth :]

    def _size_of(self, cut: _Cut) -> str:
        """The text of the size of the dimension that is cut."""
        if cut.base in self.rows or cut.base in activity(self.loop).bound:
            raise _NotSo
        return f"{cut.base}.shape[{cut.depth}]"

    def _store(self, line: cst.Assign, cut: _Cut) -> None:
        fact = self.values.fact(line.value)
        number = isinstance(line.value, cst.BaseNumber) or (
            fact is not None and (fact.kind in ("int", "float", "bool"))
        )
        if code(line.value) in ("True", "False"):
            number = True
        if len(line.targets) != 1 or comments_in(line) or not number:
            raise _NotSo
        if activity(line.value).reads & set(self.numbers):
            raise _NotSo
        mask, _ = self._mask(cut)
        text = f"{cut.row}.masked_fill_({mask}, {code(line.value)})"
        self.replaced[line] = cst.Expr(cst.parse_expression(text))  # type: ignore[assignment]

    def _reduce(
        self,
        call: cst.Call,
        method: str,
        args: Sequence[cst.Arg],
        cut: _Cut,
        node: cst.Subscript,
    ) -> None:
        self._check_reduction(method, args, cut, node)
        neutral, given = _NEUTRAL[method], _texts(args)
        mask, _ = self._mask(cut)
        kept = f"{self.torch}.where({mask}, {cut.row}, {neutral})"
        text = f"{kept}.{method}({', '.join(given)})"
        if method == "mean":
            text = self._mean(kept, given, cut)
        elif method in _SPREADS:
            text = self._spread(method, cut.row, given, cut)
        self.replaced[call] = cst.parse_expression(text)

    def _mean(self, kept: str, given: Sequence[str], cut: _Cut) -> str:
        over = given[0].partition("=")[2] or given[0] if given else ""
        _, flat = self._mask(cut)
        parts = averaged(self.site, (kept,), f"{flat}.sum()", over)
        self.averages.append(parts)
        return "".join(map(str, parts))

    def _spread(self, method: str, row: str, given: Sequence[str], cut: _Cut) -> str:
        correction = _correction(given)
        assert correction is not None
        mask, _ = self._mask(cut)
        made = deviated if method == "std" else varied
        parts = made(self.site, row, mask, "0", correction)
        self.averages.append(parts)
        return "".join(map(str, parts))

    def _check_reduction(
        self, method: str, args: Sequence[cst.Arg], cut: _Cut, node: cst.Subscript
    ) -> None:
        """Refuse what is no sum (or the like) over the dimension that is cut."""
        given = _texts(args)
        if method in _SPREADS:
            if _correction(given) is None or not (_is_over_rows(given) or cut.dims == 1):
                raise _NotSo
            given = [text for text in given if not text.startswith(("unbiased", "correction"))]
        over_rows = given in (["0"], ["dim=0"])
        if method not in _NEUTRAL or not (over_rows or (not given and cut.dims == 1) or (
            not given and method in ("sum", "any", "all")
        )):  # fmt: skip
            raise _NotSo


#: Of which the text says by how much the count of elements is corrected.
_SPREADS = words("std var")


def _texts(args: Sequence[cst.Arg]) -> list[str]:
    return [code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip() for arg in args]


def _is_over_rows(given: Sequence[str]) -> bool:
    return bool(given) and given[0] in ("0", "dim=0")


def _correction(given: Sequence[str]) -> str | None:
    """What is taken from the count: 1 unless the arguments say something else."""
    more = [text for text in given if text not in ("0", "dim=0")]
    if not more:
        return "1"
    name, _, value = more[0].replace(" ", "").partition("=")
    if len(more) > 1 or (name, value) not in (
        ("unbiased", "True"), ("unbiased", "False"), ("correction", "0"), ("correction", "1")
    ):  # fmt: skip
        return None
    return {"True": "1", "False": "0"}.get(value, value)


_SIGNS: dict[type[cst.BaseAugOp], str] = {cst.AddAssign: "+", cst.SubtractAssign: "-"}


class _Put(cst.CSTTransformer):
    """Puts other texts in the place of nodes."""

    def __init__(self, texts: Mapping[cst.CSTNode, str]) -> None:
        super().__init__()
        self.texts = texts

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        text = self.texts.get(original_node)
        return updated_node if text is None else cst.parse_expression(text)


def _put(node: cst.BaseExpression, texts: Mapping[cst.CSTNode, str]) -> cst.BaseExpression:
    return cast(cst.BaseExpression, node.visit(_Put(texts)))


def _only_adds(node: cst.BaseExpression, rows: Set[cst.CSTNode], values: Values) -> bool:
    """Whether rows are only added and multiplied, with each other and with Python's numbers."""
    if node in rows or isinstance(node, cst.Integer | cst.Float):
        return True
    match node:
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _only_adds(inner, rows, values)
        case cst.BinaryOperation(
            left=left, operator=cst.Add() | cst.Subtract() | cst.Multiply(), right=right
        ):
            return _only_adds(left, rows, values) and _only_adds(right, rows, values)
        case cst.Name() | cst.Attribute():
            fact = values.fact(node)
            return fact is not None and fact.kind in ("int", "float")
    return False


def _names(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


class _Without(cst.CSTTransformer):
    def __init__(self, lines: set[cst.CSTNode]) -> None:
        super().__init__()
        self.lines = lines

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        return cst.Pass() if original_node in self.lines else updated_node


def _without(block: cst.CSTNode, lines: set[cst.CSTNode]) -> frozenset[str]:
    """The names that a block binds, but for some of its small statements."""
    rest = block.visit(_Without(lines))
    return activity(rest).bound if isinstance(rest, cst.CSTNode) else frozenset()


def _root(text: str) -> str:
    return text.partition(".")[0].partition("[")[0]
