"""Rows that are sorted by what works on them: each part by a mask instead of a slice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..control_flow.values import Values
from ..data_dependent.python_metadata import is_bound_once
from .loops_experts import changes_in_place, experts_told

_SOURCE = """
import torch


def f(self, x, ids):
    counts = ids.new_zeros((x.shape[0], 4))
    counts.scatter_(1, ids, 1)
    counts = counts.sum(dim=0)
    order = ids.view(-1).argsort()
    rows = x[order // ids.shape[1]]
{}    new = torch.empty_like(done)
    new[order] = done
    return new
"""
_LOOP = """    counts = counts.cpu().numpy()
    outputs = []
    start = 0
    for i, count in enumerate(counts):
        end = start + count
        if count == 0:
            continue
        expert = self.experts[i]
        # What is its own.
        own = rows[start:end]
        outputs.append(expert(own))
        start = end
    done = torch.cat(outputs, dim=0) if len(outputs) else rows.new_empty(0)
"""
_AFTER = """    ends = counts.cumsum(0)
    places = torch.arange(rows.shape[0], device=rows.device)
    done = 0
    for i in range(counts.shape[0]):
        own_rows = ((places >= ends[i] - counts[i]) & (places < ends[i]))[:, None]
        expert = self.experts[i]
        # What is its own.
        own = torch.where(own_rows, rows, 0)
        done = done + torch.where(own_rows, expert(own), 0)
"""
_LIST = _LOOP.replace("counts = counts.cpu().numpy()\n    ", "").replace(
    "enumerate(counts)", "enumerate(counts.tolist())"
)
_FACTS = {
    "x": tensor(5, 3),
    "ids": tensor(5, 2, dtype="torch.int64"),
    "counts.sum(dim=0)": tensor(4, dtype="torch.int64"),
    "counts.cpu()": tensor(4, dtype="torch.int64"),
    "counts": tensor(4, dtype="torch.int64"),
    "rows": tensor(10, 3),
    "rows[start:end]": tensor(3, 3),
    "own": tensor(3, 3),
    "expert(own)": tensor(3, 3),
    "expert": Fact("module", "torch.nn.modules.linear.Linear"),
}


def _near_miss(why: str, old: str, new: str) -> NearMiss:
    return NearMiss(_SOURCE.format(_LOOP.replace(old, new)), at="count == 0", why=why, facts=_FACTS)


class PartsToMasks(Codemod):
    """*What it does.*  Lets each expert see all rows where they are sorted, and cut into parts:

    ```python
    for i, count in enumerate(counts.cpu().numpy()):
        end = start + count
        if count == 0:
            continue
        outputs.append(self.experts[i](rows[start:end]))
        start = end
    done = torch.cat(outputs, dim=0)
    ```
    becomes a loop that counts, with ``own = (places >= ends[i] - counts[i]) & (places < ends[i])``
    and ``done = done + torch.where(own[:, None], self.experts[i](...), 0)``.  The expert sees zeros
    in place of the rows of others.

    *When it applies.*  The parts follow one another, begin at 0, and their results are joined in
    that order; a part without rows is left out.

    *Fix safety.*  Safe, if the counts are those of the rows by the text (the rows are sorted by
    ``argsort`` of what ``bincount`` counts, or what is joined is put back by the same index, which
    raises where there are more), and the text of the experts'
    class shows that they treat each row alone and compute only.  Else unsafe.  All experts compute
    all rows: with many experts that is more work.

    *Refuses.*  Other uses of the bounds and of the list, parts that do not follow one another.
    """

    name = "parts-to-masks"
    codes = (
        "GB0170", "GB0124", "GB0033", "GB0036", "GB0007", "GB0059", "GB0088",
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
    )  # fmt: skip
    examples = tuple(
        Example(_SOURCE.format(loop), _SOURCE.format(_AFTER), at="count == 0", facts=_FACTS,
                title=title)
        for title, loop in (("counts as an array", _LOOP), ("counts as a list", _LIST))
    )  # fmt: skip
    near_misses = (
        _near_miss("it begins elsewhere", "start = 0", "start = 1"),
        _near_miss("parts overlap", "start = end\n", "start = end - 1\n"),
        _near_miss("another order", "outputs.append(", "outputs.insert(0, "),
        _near_miss("joined in columns", "dim=0)", "dim=1)"),
        _near_miss("the list is given away", "    done =", "    self.log(outputs)\n    done ="),
        _near_miss("how many rows there are", "expert(own)", "expert(own) / count"),
        _near_miss("the bound is used again", "    done =", "    self.last = end\n    done ="),
        _near_miss("it draws", "expert(own)", "expert(own) + torch.rand(3)"),
        _near_miss("rows that change", "rows[start:end]\n", "rows[start:end].mul_(2)\n"),
        _near_miss("it notes who came", "expert = self", "self.last = i\n        expert = self"),
        _near_miss("what is cut has a step", "rows[start:end]", "rows[start:end:2]"),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        for parent in (site.node, *site.ancestors(site.node)):
            if isinstance(parent, cst.For) and site.function_of(parent) is function:
                try:
                    yield _Parts(site, function, parent).rewrite()
                except _NotSo:
                    continue
                return
        # The counts may be read before the loop.
        for loop in walk(function.body):
            if isinstance(loop, cst.For) and site.function_of(loop) is function:
                try:
                    found = _Parts(site, function, loop)
                    if any(part is site.statement for part in found.replaced):
                        yield found.rewrite()
                        return
                except _NotSo:
                    continue


class _NotSo(Exception):
    pass


@dataclasses.dataclass
class _Body:
    """The lines of the loop that are kept."""

    lines: list[cst.BaseStatement]
    result: cst.BaseExpression


class _Parts:
    def __init__(self, site: Site, function: cst.FunctionDef, loop: cst.For) -> None:
        self.site, self.function, self.loop = site, function, loop
        self.values = Values(site)
        self.torch = self.values.torch
        self.taken = names_in(function)
        block = site.parent(loop)
        if not isinstance(block, cst.IndentedBlock) or loop.orelse is not None:
            raise _NotSo
        self.block = list(block.body)
        self.at = self.block.index(loop)
        self.replaced: list[cst.CSTNode] = []
        self.index, self.count, counted = self._target()
        self.counts, self.counted = self._tensor(counted)
        self.body = self._body()
        self._starts()
        self.done = self._joined()
        self._nothing_else()

    # -- what there is -----------------------------------------------------------------------

    def _target(self) -> tuple[str, str, cst.BaseExpression]:
        match self.loop.target, self.loop.iter:
            case (
                cst.Tuple(elements=[cst.Element(cst.Name(index)), cst.Element(cst.Name(count))]),
                cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=counted, keyword=None)]),
            ):
                return index, count, counted
        raise _NotSo

    def _tensor(self, node: cst.BaseExpression) -> tuple[str, cst.BaseExpression]:
        """The text of the tensor of the counts, and its node."""
        found = _on_device(node)
        if found is None and isinstance(node, cst.Name):
            # ``counts = counts.cpu().numpy()`` on a line above.
            for line in reversed(self.block[: self.at]):
                match line:
                    case cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name(name))], value=value
                            )
                        ]
                    ) if name == node.value:
                        found = _on_device(value)
                        if found is not None:
                            self.replaced.append(line)
                        break
        found = found or node
        fact = self.values.fact(found)
        if not isinstance(found, cst.Name) or fact is None or not fact.is_tensor:
            raise _NotSo
        if len(fact.shape or ()) != 1 or fact.dtype not in ("torch.int64", "torch.int32"):
            raise _NotSo
        if self.replaced and self._is_read_as_array(found.value, node):
            raise _NotSo
        return found.value, found

    def _is_read_as_array(self, name: str, node: cst.BaseExpression) -> bool:
        """Whether the array by that name is used in other places than the loop."""
        if not isinstance(node, cst.Name):
            return False
        line = self.site.span(self.replaced[0]).line
        return any(
            self.site.span(place).line > line and place is not node
            for place in self.site.places_of(node.value, self.function.body)
        )

    def _body(self) -> _Body:
        """Takes the loop's lines apart."""
        if not isinstance(self.loop.body, cst.IndentedBlock):
            raise _NotSo
        self.start = self.end = self.outputs = ""
        kept: list[cst.BaseStatement] = []
        result: cst.BaseExpression | None = None
        moved = False
        for line in self.loop.body.body:
            match line:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(
                            targets=[cst.AssignTarget(target=cst.Name(end))],
                            value=cst.BinaryOperation(
                                left=cst.Name(start), operator=cst.Add(), right=cst.Name(count)
                            ),
                        )
                    ]
                ) if count == self.count and not self.end:
                    self.start, self.end = start, end
                case cst.If(orelse=None) if self._leaves_out(line):
                    pass
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(
                            targets=[cst.AssignTarget(target=cst.Name(start))],
                            value=cst.Name(end),
                        )
                    ]
                ) if result is not None and (start, end) == (self.start, self.end):
                    moved = True
                case cst.SimpleStatementLine(
                    body=[
                        cst.Expr(
                            value=cst.Call(
                                func=cst.Attribute(
                                    value=cst.Name(outputs), attr=cst.Name("append")
                                ),
                                args=[cst.Arg(value=value)],
                            )
                        )
                    ]
                ) if result is None and self._computes(value):
                    self.outputs, result = outputs, value
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]
                ) if result is None and self._computes(value):
                    kept.append(line)
                case _:
                    raise _NotSo
        if not moved or result is None:
            raise _NotSo
        return _Body(kept, result)

    def _computes(self, value: cst.BaseExpression) -> bool:
        """Whether a value may be computed of no rows, too, and of rows of others: nothing else
        happens, and it is known by then where the part ends.
        """
        effects = self.values.effects(value)
        cuts = any(isinstance(node, cst.Slice) for node in walk(value))
        return (
            not (effects.rng or effects.io or effects.mutates)
            and not any(changes_in_place(node) for node in walk(value))
            and (bool(self.end) or not cuts)
        )

    def _leaves_out(self, line: cst.If) -> bool:
        """``if count == 0: continue``"""
        tests = [f"{self.count} {test}" for test in ("== 0", "<= 0", "< 1")]
        tests += [f"not {self.count}", f"{self.start} == {self.end}", f"{self.end} == {self.start}"]
        return code(line.test) in tests and code(line.body).strip() == "continue"

    def _starts(self) -> None:
        """``start = 0`` and ``outputs = []`` stand above, and nothing else of them."""
        wanted = {self.start: "0", self.outputs: "[]"}
        for line in self.block[: self.at]:
            match line:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)
                    ]
                ) if wanted.get(name) == code(value):
                    del wanted[name]
                    self.replaced.append(line)
        if wanted:
            raise _NotSo

    def _joined(self) -> str:
        """The name of what is joined, on the next line."""
        line = self.block[self.at + 1] if self.at + 1 < len(self.block) else None
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]
            ):
                pass
            case _:
                raise _NotSo
        match value:
            case cst.IfExp(test=test, body=body) if code(test) in (
                f"len({self.outputs})", self.outputs, f"len({self.outputs}) > 0",
            ):  # fmt: skip
                value = body
        forms = (f"cat({self.outputs}, dim=0)", f"cat({self.outputs})", f"cat({self.outputs}, 0)")
        if code(value) not in [f"{self.torch}.{form}" for form in forms]:
            raise _NotSo
        self.replaced.append(line)
        return name

    def _nothing_else(self) -> None:
        """The bounds and the list are used nowhere else; rows are cut by the bounds alone."""
        inside = {*walk(self.loop)}
        for line in self.replaced:
            inside |= {*walk(line)}
        for name in (self.start, self.end, self.outputs, self.count, self.index):
            if any(n not in inside for n in self.site.places_of(name, self.function.body)):
                raise _NotSo
        bound = activity(self.loop.body).binds
        if (bound - {self.start, self.end}) & live_after(self.function, self.loop):
            raise _NotSo
        self.rows = ""
        bounds = {self.start, self.end, self.count}
        for top in (*self.body.lines, self.body.result):
            parts = [node for node in walk(top) if self._is_part(node)]
            held = {inner for part in parts for inner in walk(part)}
            for part in parts:
                assert isinstance(part, cst.Subscript)
                if self.rows not in ("", code(part.value)):
                    raise _NotSo
                self.rows, self.whole = code(part.value), part.value
            for node in walk(top):
                if isinstance(node, cst.Name) and node.value in bounds and node not in held:
                    raise _NotSo
        if not self.rows:
            raise _NotSo

    def _is_part(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Subscript(
                value=cst.Name(),
                slice=[
                    cst.SubscriptElement(
                        slice=cst.Slice(lower=cst.Name(lower), upper=cst.Name(upper), step=None)
                    )
                ],
            ):
                return (lower, upper) == (self.start, self.end)
        return False

    # -- the new loop ------------------------------------------------------------------------

    def rewrite(self) -> Rewrite:
        known = self.values.fact(self.whole)
        known = known or self.site.locals_before(self.loop).get(self.rows)
        dims = len(known.shape or ()) if known is not None else 0
        if not 1 <= dims <= 3:
            raise _NotSo
        ends, places = self._fresh("ends"), self._fresh("places")
        own = self._fresh(f"own_{self.rows}" if self.rows.isidentifier() else "own")
        counts, i, torch = self.counts, self.index, self.torch
        read = activity(*self.body.lines, cst.Expr(self.body.result)).reads | {counts, self.rows}
        # What is joined may get the name of what was cut.
        total = self._fresh("done") if self.done in read else self.done
        wide = f"[:{', None' * (dims - 1)}]" if dims > 1 else ""
        head = [
            f"{ends} = {counts}.cumsum(0)",
            f"{places} = {torch}.arange({self.rows}.shape[0], device={self.rows}.device)",
            f"{total} = 0",
        ]
        inside = f"({places} >= {ends}[{i}] - {counts}[{i}]) & ({places} < {ends}[{i}])"
        mask = f"{own} = ({inside}){wide}" if wide else f"{own} = {inside}"
        cut = _Cut(self, own)
        result = cast(cst.BaseExpression, self.body.result.visit(cut))
        lines = [
            cst.parse_statement(mask),
            *(cast(cst.BaseStatement, line.visit(cut)) for line in self.body.lines),
            cst.parse_statement(f"{total} = {total} + {torch}.where({own}, {code(result)}, 0)"),
        ]
        loop = self.loop.with_changes(
            target=cst.Name(i),
            iter=cst.parse_expression(f"range({counts}.shape[0])"),
            body=self.loop.body.with_changes(body=lines),
        )
        edit = self.site.edit()
        for line in self.replaced:
            edit.remove(line)
        new = [cst.parse_statement(text) for text in head]
        new[0] = new[0].with_changes(leading_lines=self.loop.leading_lines)
        last = [cst.parse_statement(f"{self.done} = {total}")] if total != self.done else []
        edit.replace(self.loop, *new, loop.with_changes(leading_lines=[]), *last)
        if self.values.torch_missing:
            edit.add_import("torch")
        notes = ["Each expert computes all rows, also those of others."]
        doubts = [self._counts_told(), experts_told(self.site, self.function, self.loop)]
        told = [text for text in doubts if text]
        return edit.rewrite(
            "let each expert see all rows, masked",
            notes=[*notes, *told],
            rank=27,
            safety=Safety.UNSAFE if told else Safety.SAFE,
        )

    def _counts_told(self) -> str:
        """Why there may be more rows than are counted; else ""."""
        order = self._order()
        if order is None:
            return _UNCOUNTED
        index, ids = order
        return "" if self._put_back(index) or self._counts_all(ids) else _UNCOUNTED

    def _bound(self, name: str) -> cst.BaseExpression | None:
        """What a name is bound to before the loop, once, and never changed."""
        if name in activity(self.function.body).mutates:
            return None
        start = self.site.span(self.loop).line
        found: list[cst.BaseExpression] = []
        for place in self.site.places_of(name, self.function.body):
            target = self.site.parent(place)
            if self.site.span(place).line >= start or not isinstance(target, cst.AssignTarget):
                continue
            assign = self.site.parent(target)
            if isinstance(assign, cst.Assign):
                found.append(assign.value)
        params = {param.name.value for param in params_of(self.function.params)}
        return found[0] if len(found) == 1 and name not in params else None

    def _order(self) -> tuple[str, str] | None:
        """The index that sorts the rows, and the name of what they are sorted by."""
        match self._bound(self.rows):
            case cst.Subscript(
                slice=[
                    cst.SubscriptElement(
                        slice=cst.Index(
                            value=cst.Name(index)
                            | cst.BinaryOperation(left=cst.Name(index), operator=cst.FloorDivide())
                        )
                    )
                ]
            ):
                pass
            case _:
                return None
        match self._bound(index):
            case cst.Call(func=cst.Attribute(value=sorted_by, attr=cst.Name("argsort"))):
                ids = _flat(sorted_by)
                return (index, ids) if ids else None
        return None

    def _put_back(self, index: str) -> bool:
        """``new[index] = done`` raises in the original where there are other rows than counted."""
        for node in walk(self.function.body):
            match node:
                case cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            target=cst.Subscript(
                                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name(by)))]
                            )
                        )
                    ],
                    value=cst.Name(done),
                ) if (by, done) == (index, self.done):
                    return any(self.site.statement_of(node) is line for line in self.block)
        return False

    def _counts_all(self, ids: str) -> bool:
        """Whether the counts are ``bincount`` of what the rows are sorted by, and no others."""
        if ids in activity(self.function.body).mutates:
            return False
        if not is_bound_once(self.site, self.function, ids):
            return False
        match self._bound(self.counts):
            case cst.Call(
                func=cst.Attribute(value=of, attr=cst.Name("bincount")), args=[*args]
            ) if all(arg.keyword is not None for arg in args):
                pass
            case cst.Call(func=func, args=[cst.Arg(value=of, keyword=None), *args]) if (
                code(func) == f"{self.torch}.bincount"
            ):
                pass
            case _:
                return False
        named = {arg.keyword.value if arg.keyword is not None else "" for arg in args}
        return _flat(of) == ids and named <= {"minlength"}

    def _fresh(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name


_UNCOUNTED = (
    "The original drops rows beyond the sum of the counts; the patch gives zeros in their place."
)


def _flat(node: cst.BaseExpression) -> str:
    """The name of which an expression is all the elements; else ""."""
    match node:
        case cst.Name(name):
            return name
        case cst.Call(
            func=cst.Attribute(value=cst.Name(name), attr=cst.Name("flatten" | "ravel")), args=[]
        ):
            return name
        case cst.Call(
            func=cst.Attribute(value=cst.Name(name), attr=cst.Name("view" | "reshape")),
            args=[cst.Arg(value=size)],
        ) if code(size) == "-1":
            return name
    return ""


class _Cut(cst.CSTTransformer):
    """Puts whole rows, masked, in the place of a part."""

    def __init__(self, parts: _Parts, own: str) -> None:
        super().__init__()
        self.parts = parts
        self.own = own

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if not self.parts._is_part(original_node):
            return updated_node
        text = f"{self.parts.torch}.where({self.own}, {code(original_node.value)}, 0)"
        return cst.parse_expression(text)


def _on_device(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor of ``t.cpu().numpy()`` and ``t.tolist()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("tolist")), args=[]):
            return _on_device(inner) or inner
        case cst.Call(
            func=cst.Attribute(value=inner, attr=cst.Name("numpy" | "cpu" | "detach")), args=[]
        ):
            return _on_device(inner) or inner
    return None
