"""Rows sorted by what works on them, cut by bounds that data give: all rows, by masks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from ..control_flow.values import Values
from .loops_experts import changes_in_place, experts_told
from .loops_sorted_bounds import Bounds, NotSo, Sorted, bounds_of, simple_assign
from .loops_sorted_cases import EXAMPLES, NEAR_MISSES

_FLOATS = ("torch.float", "torch.bfloat", "torch.complex")
_WHOLE = ("torch.int", "torch.uint")
_SIZES = words("shape size numel nelement nbytes")


class SortedToMasks(Codemod):
    """*What it does.*  Lets each expert see all rows where they are sorted by expert, and cut by
    bounds that data give:

    ```python
    order = ids.argsort()
    ends = ids.bincount().cpu().numpy().cumsum(0)
    tokens = order // k
    for i, end in enumerate(ends):
        start = 0 if i == 0 else ends[i - 1]
        if start == end:
            continue
        at = tokens[start:end]
        made = self.experts[i](x[at]) * weights[order[start:end]]
        out.index_add_(0, at, made)
    ```
    becomes a loop over all experts with ``own = ids[order] == i``.  The expert sees zeros in place
    of the rows of others, and what it makes of these is not added.

    *When it applies.*  The bounds are counts, or their running sum (with or without a zero at the
    front), as a list, an array or a tensor; the loop carries its start or reads it.  What is made
    of a part is added to a result at the rows of an index that is cut alike, written to the same
    part of a tensor, or joined with the other parts.

    *Fix safety.*  Safe, if the text of the experts' class shows that they treat each row alone and
    compute only; else unsafe, and where a row that one expert gets twice would have counted once.
    An id without an expert is an error in both.  All experts compute all rows: with many experts
    that is more work.

    *Refuses.*  Other uses of the bounds, parts that do not follow one another, counts of something
    else than the rows are sorted by.
    """

    name = "sorted-to-masks"
    codes = (
        "GB0170", "GB0124", "GB0033", "GB0036", "GB0007", "GB0059", "GB0088", "GB7000",
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
    )  # fmt: skip
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        for loop in walk(function.body):
            if not isinstance(loop, cst.For) or site.function_of(loop) is not function:
                continue
            with contextlib.suppress(NotSo):
                found = _Loop(site, function, loop)
                if found.answers(site.node):
                    yield found.rewrite()
                    return


class _Loop:
    """A loop over parts of sorted rows, taken apart."""

    def __init__(self, site: Site, function: cst.FunctionDef, loop: cst.For) -> None:
        self.site, self.function, self.loop = site, function, loop
        self.values = Values(site)
        self.torch = self.values.torch
        self.taken = names_in(function)
        block = site.parent(loop)
        if not isinstance(block, cst.IndentedBlock) or loop.orelse is not None:
            raise NotSo
        self.block = list(block.body)
        self.at = self.block.index(loop)
        self.sorted = Sorted(self.values, self.block, self.at)
        self.index = self.count = self.end = self.start = ""
        self.experts = ""
        #: Names that the loop's header binds to what it reads of the bounds.
        self.bounds: Bounds | None = None
        self.carried = self.moved = False
        self.names_of_bounds: set[str] = set()
        self.cuts: list[str] = []
        self.replaced: list[cst.CSTNode] = []
        self._header()
        self.lines = self._lines(cast(cst.IndentedBlock, loop.body).body)
        self._complete()

    def answers(self, node: cst.CSTNode) -> bool:
        """Whether the break is in the loop, or in a line that finds its bounds."""
        parents = {node, *self.site.ancestors(node)}
        return any(place in parents for place in (self.loop, *self.replaced))

    # -- the header --------------------------------------------------------------------------

    def _header(self) -> None:
        match self.loop.target, self.loop.iter:
            case (
                cst.Tuple(elements=[cst.Element(cst.Name(index)), cst.Element(cst.Name(held))]),
                cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=over, keyword=None)]),
            ):
                self.index = index
                fact = self.site.fact(over)
                if fact is not None and fact.kind == "module":
                    self.experts = code(over)
                    return
                self._reads_bound(over, held)
            case cst.Name(index), cst.Call(func=cst.Name("range"), args=[cst.Arg()]):
                self.index = index
            case (
                cst.Tuple(elements=[cst.Element(cst.Name()), cst.Element(cst.Name(held))]),
                cst.Call(
                    func=cst.Name("zip"),
                    args=[cst.Arg(value=experts, keyword=None), cst.Arg(value=over, keyword=None)],
                ),
            ):
                fact = self.site.fact(experts)
                if fact is None or fact.kind != "module":
                    raise NotSo
                self.experts = code(experts)
                self._reads_bound(over, held)
            case _:
                raise NotSo

    def _reads_bound(self, over: cst.BaseExpression, held: str) -> None:
        self._bounds(over)
        assert self.bounds is not None
        if self.bounds.kind == "counts":
            self.count = held
        elif self.bounds.kind == "ends":
            self.end = held
        else:
            raise NotSo

    def _bounds(self, node: cst.BaseExpression) -> Bounds:
        found = bounds_of(self.sorted, node)
        if self.bounds is not None and found.source != self.bounds.source:
            raise NotSo
        self.bounds = self.bounds or found
        for line in found.lines:
            if line not in self.replaced:
                self.replaced.append(line)
        if isinstance(node, cst.Name):
            self.names_of_bounds.add(node.value)
        return found

    # -- the body ----------------------------------------------------------------------------

    def _lines(self, statements: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """The lines that compute, without those that tell where a part is."""
        kept: list[cst.BaseStatement] = []
        for line in statements:
            if self._tells_bounds(line) or self._leaves_out(line):
                continue
            inner = self._only_with_rows(line)
            kept += self._lines(inner) if inner is not None else [line]
        return kept

    def _tells_bounds(self, line: cst.BaseStatement) -> bool:
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Name(start), operator=cst.AddAssign(), value=cst.Name(count)
                    )
                ]
            ) if self.count and count == self.count and start == self.start and self.carried:
                self.moved = True
                return True
        found = simple_assign(line)
        if found is None:
            return False
        pairs = _pairs(*found)
        done = [self._tells(name, value) for name, value in pairs]
        if any(done) and not all(done):
            raise NotSo
        return bool(done) and all(done)

    def _tells(self, name: str, value: cst.BaseExpression) -> bool:
        if self.moved:
            raise NotSo
        match value:
            case cst.BinaryOperation(
                left=cst.Name(start), operator=cst.Add(), right=cst.Name(count)
            ) if self.count and count == self.count and not self.end and name != start:
                self._carries(start)
                self.end = name
                return True
            case cst.Name(end) if name == self.start and end == self.end and self.carried:
                self.moved = True
                return True
            case cst.Name(end) if self.end and end == self.end and not self.start:
                # ``start = end`` at the bottom, where the header tells the ends.
                self._carries(name)
                self.moved = True
                return True
            case cst.IfExp() if not self.start and self._is_start(value):
                self.start = name
                return True
            case cst.Subscript(
                value=cst.Name() as held, slice=[cst.SubscriptElement(cst.Index(at))]
            ):
                return self._reads(name, held, code(at).replace(" ", ""))
        return False

    def _reads(self, name: str, held: cst.Name, at: str) -> bool:
        """``end = ends[i]``, ``start = offsets[i]`` and such."""
        if not self.index or at not in (self.index, f"{self.index}+1"):
            return False
        try:
            bounds = self._bounds(held)
        except NotSo:
            return False
        follows = at != self.index
        if bounds.kind == "offsets" and follows and not self.end:
            self.end = name
        elif bounds.kind == "offsets" and not follows and not self.start:
            self.start = name
        elif bounds.kind == "ends" and not follows and not self.end:
            self.end = name
        elif bounds.kind == "counts" and not follows and not self.count:
            self.count = name
        else:
            raise NotSo
        return True

    def _is_start(self, value: cst.IfExp) -> bool:
        """``0 if i == 0 else ends[i - 1]``"""
        i = self.index
        test = code(value.test)
        if test in (f"{i} == 0", f"not {i}"):
            zero, before = value.body, value.orelse
        elif test in (f"{i} > 0", f"{i} != 0", i):
            zero, before = value.orelse, value.body
        else:
            return False
        match before:
            case cst.Subscript(value=cst.Name() as held) if (
                code(zero) == "0" and code(before).replace(" ", "") == f"{held.value}[{i}-1]"
            ):
                return self._bounds(held).kind == "ends"
        return False

    def _carries(self, start: str) -> None:
        """``start = 0`` stands above."""
        if self.carried and self.start == start:
            return
        if self.start:
            raise NotSo
        found = self.sorted.binding(start)
        if found is None or code(found.value) != "0":
            raise NotSo
        self.replaced.append(found.line)
        self.start, self.carried = start, True

    def _empty(self) -> list[str]:
        s, e, c = self.start, self.end, self.count
        found = [f"{s} == {e}", f"{e} == {s}", f"{e} - {s} == 0", f"{s} >= {e}", f"{e} <= {s}"]
        if c:
            found += [f"{c} == 0", f"{c} <= 0", f"{c} < 1", f"not {c}"]
        return found

    def _leaves_out(self, line: cst.BaseStatement) -> bool:
        """``if start == end: continue``"""
        if not isinstance(line, cst.If) or line.orelse is not None or self.moved:
            return False
        test = code(line.test)
        counted = [
            text
            for name in self.cuts
            for text in (f"{name}.numel() == 0", f"{name}.shape[0] == 0", f"len({name}) == 0")
        ]
        return test in self._empty() + counted and code(line.body).strip() == "continue"

    def _only_with_rows(self, line: cst.BaseStatement) -> Sequence[cst.BaseStatement] | None:
        """The lines below ``if count > 0:``."""
        if not isinstance(line, cst.If) or line.orelse is not None or self.moved:
            return None
        s, e, c = self.start, self.end, self.count
        tests = [f"{s} < {e}", f"{e} > {s}", f"{s} != {e}", f"{e} != {s}"]
        tests += [f"{c} > 0", f"{c} != 0", c, f"{c} >= 1"] if c else []
        if code(line.test) in tests and isinstance(line.body, cst.IndentedBlock):
            return line.body.body
        return None

    def is_part(self, node: cst.CSTNode) -> str:
        """The name that ``rows[start:end]`` cuts; else ""."""
        match node:
            case cst.Subscript(
                value=cst.Name(name),
                slice=[
                    cst.SubscriptElement(
                        slice=cst.Slice(
                            lower=cst.BaseExpression() as low,
                            upper=cst.BaseExpression() as high,
                            step=None,
                        )
                    )
                ],
            ):
                ends = {self.end}
                if self.count and self.carried:
                    ends.add(f"{self.start} + {self.count}")
                if self.start and code(low) == self.start and code(high) in ends - {""}:
                    return name
        return ""

    # -- what has to hold --------------------------------------------------------------------

    def _complete(self) -> None:
        if self.bounds is None or not self.lines:
            raise NotSo
        if not self.start and self.count:
            self._carried_by_adding()
        if not self.start or not (self.end or (self.carried and self.count)):
            raise NotSo
        if self.carried and not self.moved:
            raise NotSo
        body = cst.IndentedBlock(body=self.lines)
        bounds = {self.start, self.end, self.count} - {""}
        held: set[cst.CSTNode] = set()
        for node in walk(body):
            name = self.is_part(node)
            if name:
                held |= {*walk(node)}
                if name not in self.cuts:
                    self.cuts.append(name)
        reads = [n for n in walk(body) if isinstance(n, cst.Name) and n.value in bounds]
        if not self.cuts or any(n not in held for n in reads):
            raise NotSo
        self._nothing_else(bounds)
        if any(not self.sorted.is_along(name) for name in self.cuts):
            raise NotSo

    def _carried_by_adding(self) -> None:
        """``rows[start:start + count]``, and ``start += count`` at the end."""
        last = self.lines[-1]
        match last:
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Name(start), operator=cst.AddAssign(), value=cst.Name(count)
                    )
                ]
            ) if count == self.count:
                self._carries(start)
                self.moved = True
                self.lines = self.lines[:-1]

    def _nothing_else(self, bounds: set[str]) -> None:
        """Nothing reads the bounds but the loop, and what it binds is not used behind it."""
        inside = {*walk(self.loop)}
        for line in self.replaced:
            inside |= {*walk(line)}
        header = {n.value for n in walk(self.loop.target) if isinstance(n, cst.Name)}
        for name in bounds | header:
            if any(n not in inside for n in self.site.places_of(name, self.function.body)):
                raise NotSo
        for found in (self.sorted.binding(name) for name in sorted(self.names_of_bounds)):
            if found is not None and found.line in self.replaced:
                continue
            if found is not None and not self.bounds_are_tensor(found.value):
                raise NotSo

    def bounds_are_tensor(self, value: cst.BaseExpression) -> bool:
        fact = self.site.fact(value)
        return fact is not None and fact.is_tensor

    # -- the new loop ------------------------------------------------------------------------

    def rewrite(self) -> Rewrite:
        bounds = self.bounds
        assert bounds is not None
        new = _New(self)
        lines = [inner for line in self.lines for inner in new.line(line)]
        if not new.adds or new.cast - new.added:
            raise NotSo
        self._nothing_carried(new)
        self._bound_behind(new)
        if not self.index:
            self.index = self.fresh("number")
        head, mask, count = self._mask(bounds, new)
        edit = self.site.edit()
        for line in self._removed():
            edit.remove(line)
        body = self.loop.body.with_changes(body=[cst.parse_statement(mask), *lines])
        loop = self.loop.with_changes(
            target=self._target(), iter=cst.parse_expression(count), body=body, leading_lines=[]
        )
        first = [cst.parse_statement(text) for text in (*head, *new.head)]
        first[0] = first[0].with_changes(leading_lines=self.loop.leading_lines)
        edit.replace(self.loop, *first, loop, *map(cst.parse_statement, new.tail))
        for line in new.removed:
            edit.remove(line)
        if self.values.torch_missing:
            edit.add_import("torch")
        told = [experts_told(self.site, self.function, self.loop), *new.doubts]
        told = [text for text in told if text]
        return edit.rewrite(
            "let each expert see all sorted rows, masked",
            notes=[
                "Each expert computes all rows, also those of others; one that gets no row has zero"
                " gradients in place of none.",
                *told,
            ],
            rank=28,
            safety=Safety.UNSAFE if told else Safety.SAFE,
        )

    def _target(self) -> cst.BaseAssignTargetExpression:
        match self.loop.iter:
            case cst.Call(func=cst.Name("enumerate")) if self.experts:
                return self.loop.target
            case cst.Call(func=cst.Name("zip")):
                expert = cast(cst.Tuple, self.loop.target).elements[0].value
                text = f"{self.index}, {code(expert)} = 0"
                line = cast(cst.SimpleStatementLine, cst.parse_statement(text))
                return cast(cst.Assign, line.body[0]).targets[0].target
        return cst.Name(self.index)

    def _mask(self, bounds: Bounds, new: _New) -> tuple[list[str], str, str]:
        """The lines above the loop, the line of the mask, and what the loop runs over."""
        i, torch = self.index, self.torch
        if not bounds.ids:
            rows = self.cuts[0]
            counts, ends, places = bounds.tensor, self.fresh("ends"), self.fresh("places")
            head = [
                f"{ends} = {counts}.cumsum(0)",
                f"{places} = {torch}.arange({rows}.shape[0], device={rows}.device)",
            ]
            inside = f"({places} >= {ends}[{i}] - {counts}[{i}]) & ({places} < {ends}[{i}])"
            if code(self.loop.iter).startswith("zip("):
                raise NotSo  # it may end before the experts do
            count = self._rounds() or f"range({counts}.shape[0])"
            return head, f"{new.own} = {inside}", count
        order = self.sorted.order_of(bounds.ids)
        if order is None:
            raise NotSo
        name = self.fresh("sorted_ids")
        text = bounds.ids_text
        head = [f"{name} = {text}[{order}]"]
        mask = f"{new.own} = {name} == {i}"
        checked, count = f"{name} >= 0", self._rounds()
        if count and self.index and count not in (f"range({bounds.least})", self._all(bounds)):
            raise NotSo  # without rows for the last ones, the counts are too few: an IndexError
        if not count:
            # The original asks for the expert of each number that comes.
            number = self._how_many()
            checked, count = f"({checked}) & ({name} < {number})", f"range({number})"
        said = '"a number is not that of an expert"'
        head.append(f"{torch}._assert_async(({checked}).all(), {said})")
        return head, mask, count

    def _rounds(self) -> str:
        """What the loop runs over, where that is not the bounds."""
        if self.experts:
            return f"enumerate({self.experts})"
        asked = isinstance(self.loop.iter, cst.Call) and code(self.loop.iter.func) == "range"
        return code(self.loop.iter) if asked else ""

    def _all(self, bounds: Bounds) -> str:
        """What the loop runs over, where each expert has a count."""
        zipped = code(cast(cst.Call, self.loop.iter).func) == "zip"
        each = zipped or bounds.least == f"len({self.experts})"
        return f"enumerate({self.experts})" if self.experts and each else ""

    def _how_many(self) -> str:
        """How many experts there are, of what is indexed by the loop's number."""
        found: set[str] = set()
        for node in walk(cst.IndentedBlock(body=self.lines)):
            match node:
                case cst.Subscript(
                    value=cst.Name() | cst.Attribute() as held,
                    slice=[cst.SubscriptElement(cst.Index(cst.Name(at)))],
                ) if at == self.index:
                    fact = self.site.fact(held)
                    if fact is not None and (fact.kind == "module" or fact.is_tensor):
                        found.add(f"len({code(held)})")
        if not found:
            raise NotSo
        return min(found)

    def _nothing_carried(self, new: _New) -> None:
        """No round reads what an earlier one bound, but for the results: some would not have been.

        The results are added to, and brought to a dtype, and nothing else.
        """
        bound = activity(cst.IndentedBlock(body=self.lines)).binds
        header = {n.value for n in walk(self.loop.target) if isinstance(n, cst.Name)}
        if bound & (header | self.names_of_bounds):
            raise NotSo
        known: set[str] = set()
        for line in self.lines:
            does = activity(line)
            if (does.reads & bound) - known - new.results:
                raise NotSo
            found = simple_assign(line)
            name = code(found[0]) if found is not None else ""
            if name in new.results and not _goes_on(name, found[1] if found else None):
                raise NotSo
            known |= does.binds

    def _bound_behind(self, new: _New) -> None:
        bound = activity(self.loop.body).binds - new.results
        if bound & live_after(self.function, self.loop):
            raise NotSo

    def _removed(self) -> list[cst.CSTNode]:
        """Lines that told the bounds; one that something else reads stays, if it is a tensor."""
        gone: set[cst.CSTNode] = {*walk(self.loop)}
        removed: list[cst.CSTNode] = []
        for line in sorted(self.replaced, key=lambda it: -self.site.span(it).line):
            found = simple_assign(cast(cst.BaseStatement, line))
            assert found is not None
            name = code(found[0])
            after = self.block[self.block.index(cast(cst.BaseStatement, line)) + 1 :]
            read = any(
                isinstance(node, cst.Name) and node.value == name and node not in gone
                for statement in after
                if statement not in removed
                for node in walk(statement)
            )
            if not read:
                removed.append(line)
            elif not self.bounds_are_tensor(found[1]) or self._hides_counts(name, line):
                raise NotSo
        return removed

    def _hides_counts(self, name: str, line: cst.CSTNode) -> bool:
        """Whether a line gives the name of the counts to something else."""
        assert self.bounds is not None
        return name == self.bounds.tensor

    def fresh(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name


def _pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[str, cst.BaseExpression]]:
    """``a, b = x, y`` as two."""
    match target, value:
        case cst.Name(name), _:
            return [(name, value)]
        case cst.Tuple(elements=names), cst.Tuple(elements=parts) if len(names) == len(parts):
            return [(code(name.value), part.value) for name, part in zip(names, parts, strict=True)]
    return []


def _goes_on(name: str, value: cst.BaseExpression | None) -> bool:
    """``out = out.index_add(...)`` and ``out = out.to(dtype)``"""
    match value:
        case cst.Call(
            func=cst.Attribute(
                value=cst.Name(of), attr=cst.Name("index_add" | "scatter_add" | "to")
            )
        ):
            return of == name
    return False


class _New:
    """The lines of the loop, with whole tensors instead of parts."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.own = loop.fresh("own")
        self.head: list[str] = []
        self.tail: list[str] = []
        self.removed: list[cst.CSTNode] = []
        self.doubts: list[str] = []
        self.results: set[str] = set()
        self.added: set[str] = set()
        self.adds = 0
        #: Names of the body that hold an index that was cut.
        self.indexes: set[str] = set()
        #: Results that the loop brings to another dtype.
        self.cast: set[str] = set()
        #: Names of the body that hold what a call made of copies.
        self.made: set[str] = set()

    def line(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise NotSo
        small = line.body[0]
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                return [self._assigned(line, small, name, value)]
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                return [self._stored(line, target, value)]
            case cst.AugAssign(
                target=cst.Subscript(value=cst.Name(out), slice=[cst.SubscriptElement(at)]),
                operator=cst.AddAssign(),
                value=value,
            ) if isinstance(at, cst.Index) and self._is_index(at.value):
                self.doubts.append("A row that one expert gets twice would count once.")
                added = self._masked(value)
                text = f"{out}.index_add_(0, {code(self.value(at.value))}, {added})"
                return [self._adds(line, out, text)]
            case cst.Expr(value=cst.Call() as call):
                return self._called(line, call)
        raise NotSo

    def _assigned(
        self, line: cst.SimpleStatementLine, small: cst.Assign, name: str, value: cst.BaseExpression
    ) -> cst.BaseStatement:
        match value:
            case cst.Call(
                func=cst.Attribute(value=cst.Name(out), attr=cst.Name("index_add" | "scatter_add")),
            ) if out == name:
                return self._adds(line, out, f"{out} = {self._added(value)}")
            case cst.Call(func=cst.Attribute(value=cst.Name(out), attr=cst.Name("to"))) if (
                out == name
            ):
                self.results.add(name)
                self.cast.add(name)
        if self.loop.is_part(value) and self._is_whole(value):
            self.indexes.add(name)
        elif isinstance(value, cst.Call):
            fact = self.loop.site.fact(value.func)
            if fact is not None and fact.kind == "module":
                self.made.add(name)
        new = small.with_changes(value=self.value(value))
        return line.with_changes(body=[new])

    def _stored(
        self, line: cst.SimpleStatementLine, target: cst.BaseExpression, value: cst.BaseExpression
    ) -> cst.BaseStatement:
        """``out[start:end] = made``"""
        out = self.loop.is_part(target)
        if not out or not self.loop.sorted.is_own(out):
            raise NotSo
        dims = self._dims(target)
        text = f"{self.loop.torch}.where({self._wide(dims)}, {code(self.value(value))}, {out})"
        return self._adds(line, out, f"{out}.copy_({text})")

    def _called(self, line: cst.SimpleStatementLine, call: cst.Call) -> list[cst.BaseStatement]:
        match call:
            case cst.Call(
                func=cst.Attribute(value=cst.Name(out), attr=cst.Name("append")),
                args=[cst.Arg(value=value, keyword=None)],
            ):
                return [self._appended(line, out, value)]
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Name(out),
                    attr=cst.Name("index_add_" | "scatter_add_" | "scatter_reduce_"),
                )
            ):
                return [self._adds(line, out, self._added(call))]
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Name(name), attr=cst.Name("mul_" | "add_" | "div_" | "sub_")
                ),
                args=[cst.Arg(value=value, keyword=None)],
            ) if name in self.made and not self._cuts_floats():
                # What a module made of a copy: rows that others see are no part of it.
                new = call.with_changes(args=[call.args[0].with_changes(value=self.value(value))])
                return [line.with_changes(body=[cst.Expr(new)])]
        raise NotSo

    def _cuts_floats(self) -> bool:
        """Whether an expert may be given a part that is no copy."""
        facts = [self.loop.sorted.fact(name) for name in self.loop.cuts]
        return any(not (fact and (fact.dtype or "").startswith(_WHOLE)) for fact in facts)

    def _added(self, call: cst.Call) -> str:
        """``out.index_add_(0, at, made)`` with what is masked."""
        args = {
            arg.keyword.value if arg.keyword else str(n): arg for n, arg in enumerate(call.args)
        }
        name = cast(cst.Attribute, call.func).attr.value
        last = args.pop("reduce", None)
        if name.startswith("scatter_reduce"):
            last = last or args.pop("3", None)
            if last is None or code(last.value) not in ('"sum"', "'sum'"):
                raise NotSo
        dim = args.pop("0", None) or args.pop("dim", None)
        at = args.pop("1", None) or args.pop("index", None)
        value = args.pop("2", None) or args.pop("src", None) or args.pop("source", None)
        if args or dim is None or at is None or value is None or code(dim.value) != "0":
            raise NotSo
        if not self._reads_index(at.value):
            raise NotSo
        new = [code(dim.value), code(self.value(at.value)), self._masked(value.value)]
        if name.startswith("scatter_reduce"):
            new.append('reduce="sum"')
        return f"{code(call.func)}({', '.join(new)})"

    def _adds(self, line: cst.SimpleStatementLine, out: str, text: str) -> cst.BaseStatement:
        if out in self.loop.cuts and "copy_" not in text:
            raise NotSo
        self.adds += 1
        self.results.add(out)
        self.added.add(out)
        new = cst.parse_statement(text)
        return new.with_changes(
            leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
        )

    def _appended(
        self, line: cst.SimpleStatementLine, outputs: str, value: cst.BaseExpression
    ) -> cst.BaseStatement:
        """The parts are joined on the next line."""
        loop = self.loop
        found = loop.sorted.binding(outputs)
        after = loop.block[loop.at + 1] if loop.at + 1 < len(loop.block) else None
        joined = simple_assign(after) if after is not None else None
        if found is None or code(found.value) != "[]" or joined is None or self.adds:
            raise NotSo
        if loop.bounds is None or not loop.bounds.ids:
            raise NotSo  # `parts-to-masks` asks whether all rows are counted
        name, text = joined
        match text:
            case cst.IfExp(test=test, body=body) if code(test) in (
                f"len({outputs})", outputs, f"len({outputs}) > 0",
            ):  # fmt: skip
                text = body
        forms = [f"{loop.torch}.cat({outputs}{end})" for end in ("", ", dim=0", ", 0")]
        places = [found.line, after, loop.loop]
        inside = {node for place in places for node in walk(cast(cst.CSTNode, place))}
        if code(text) not in forms or any(
            n not in inside for n in loop.site.places_of(outputs, loop.function.body)
        ):
            raise NotSo
        self.removed += [found.line, cast(cst.CSTNode, after)]
        total = loop.fresh("done")
        self.head.append(f"{total} = 0")
        self.tail.append(f"{code(name)} = {total}")
        return self._adds(line, total, f"{total} = {total} + {self._masked(value)}")

    # -- values ------------------------------------------------------------------------------

    def _masked(self, value: cst.BaseExpression) -> str:
        dims = self._dims(value)
        return f"{self.loop.torch}.where({self._wide(dims)}, {code(self.value(value))}, 0)"

    def _dims(self, value: cst.BaseExpression) -> int:
        fact = self._fact(value)
        if fact is None or fact.shape is None or not 1 <= len(fact.shape) <= 4:
            raise NotSo
        return len(fact.shape)

    def _wide(self, dims: int) -> str:
        return f"{self.own}[:{', None' * (dims - 1)}]" if dims > 1 else self.own

    def _fact(self, node: cst.BaseExpression) -> Fact | None:
        fact = self.loop.values.fact(node)
        if fact is not None and fact.is_tensor:
            return fact
        name = self.loop.is_part(node)
        return self.loop.sorted.fact(name) if name else None

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        fact = self._fact(node)
        return fact is not None and (fact.dtype or "").startswith(_WHOLE)

    def _is_index(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return node.value in self.indexes
        return bool(self.loop.is_part(node)) and self._is_whole(node)

    def _reads_index(self, node: cst.CSTNode) -> bool:
        return any(
            self._is_index(inner)
            for inner in walk(node)
            if isinstance(inner, cst.Name | cst.Subscript)
        )

    def _counts_rows(self, node: cst.CSTNode) -> bool:
        """Whether a node asks how large something of the loop is: a part has fewer rows."""
        match node:
            case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=of)]):
                pass
            case cst.Attribute(value=of, attr=cst.Name(name)) if name in _SIZES:
                pass
            case _:
                return False
        bound = activity(cst.IndentedBlock(body=self.loop.lines)).binds
        return bool(names_in(of) & bound) or any(self.loop.is_part(inner) for inner in walk(of))

    def value(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """What computes the same of all rows: nothing else happens in it."""
        effects = self.loop.values.effects(node)
        odd = any(isinstance(inner, cst.IfExp | cst.NamedExpr | cst.Await) for inner in walk(node))
        if effects.rng or effects.io or effects.mutates or odd:
            raise NotSo
        if any(self._counts_rows(inner) for inner in walk(node)):
            raise NotSo
        if any(changes_in_place(inner) for inner in walk(node)):
            raise NotSo
        return cast(cst.BaseExpression, node.visit(_Wholes(self)))


class _Wholes(cst.CSTTransformer):
    """Puts whole tensors, masked, in the place of parts and of rows picked by them."""

    def __init__(self, new: _New) -> None:
        super().__init__()
        self.new = new

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        new = self.new
        if new.loop.is_part(original_node):
            return self._where(original_node, updated_node.value)
        if any(new._reads_index(element) for element in original_node.slice):
            return self._where(original_node, updated_node)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        match original_node.func:
            case cst.Attribute(attr=cst.Name("index_select" | "gather" | "take_along_dim")):
                if any(self.new._reads_index(arg) for arg in original_node.args):
                    return self._where(original_node, updated_node)
        return updated_node

    def _where(self, node: cst.BaseExpression, whole: cst.BaseExpression) -> cst.BaseExpression:
        fact = self.new._fact(node)
        if fact is None or fact.dtype is None:
            raise NotSo
        if not fact.dtype.startswith(_FLOATS):
            return whole
        wide = self.new._wide(self.new._dims(node))
        text = f"{self.new.loop.torch}.where({wide}, {code(whole)}, 0)"
        return cst.parse_expression(text)
