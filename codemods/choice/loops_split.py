"""Rows that are split by counts, a part for each expert: all rows, by masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.assertions import size_assertion
from gbfix.schema import Safety

from ..control_flow.values import Values
from ..data_dependent.chosen import PartRows
from .loops_experts import changes_in_place, experts_told
from .loops_sorted_bounds import simple_assign

_SIZES = words("shape size numel nelement nbytes")
_SOURCE = """
import torch


def f(w, x, counts):
{}"""
_LOOP = """    counts = counts.tolist()
    parts = torch.split(x, counts, dim=0)
    outputs = []
    for i, part in enumerate(parts):
        # Its own weight.
        h = torch.matmul(part, w[i])
        outputs.append(torch.relu(h))
    out = torch.cat(outputs, dim=0)
    return out
"""
_AFTER = """    ends = counts.cumsum(0)
    torch._assert_async((counts >= 0).all() & (ends[-1] == x.shape[0]), "sizes do not fit: the counts are not those of the rows")
    places = torch.arange(x.shape[0], device=x.device)
    out = 0
    for i in range(counts.shape[0]):
        own = ((places >= ends[i] - counts[i]) & (places < ends[i]))[:, None]
        part = torch.where(own, x, 0)
        # Its own weight.
        h = torch.matmul(part, w[i])
        out = out + torch.where(own, torch.relu(h), 0)
    return out
"""  # noqa: E501
_PADDED = """    sizes = counts.tolist()
    padding = x.shape[0] - sum(sizes)
    outputs = []
    for weight, part in zip(w, x[: sum(sizes)].split(sizes)):
        outputs.append(part @ weight)
    out = torch.cat(outputs)
    return torch.vstack((out, out.new_zeros((padding, out.shape[-1]))))
"""
_AFTER_PADDED = """    ends = counts.cumsum(0)
    torch._assert_async((counts >= 0).all() & (ends[: len(w)][-1] <= x.shape[0]), "sizes do not fit: the counts are not those of the rows")
    places = torch.arange(x.shape[0], device=x.device)
    out = 0
    for number, weight in zip(range(counts.shape[0]), w):
        own = ((places >= ends[number] - counts[number]) & (places < ends[number]))[:, None]
        part = torch.where(own, x, 0)
        out = out + torch.where(own, part @ weight, 0)
    return out
"""  # noqa: E501
_FACTS = {
    "w": tensor(4, 3, 3),
    "x": tensor(10, 3),
    "counts": tensor(4, dtype="torch.int64"),
    "counts.tolist()": tensor(4, dtype="torch.int64"),
    "part": tensor(2, 3),
    "torch.relu(h)": tensor(2, 3),
    "part @ weight": tensor(2, 3),
    "weight": tensor(3, 3),
    "w[i]": tensor(3, 3),
    "h": tensor(2, 3),
    "torch.matmul(part, w[i])": tensor(2, 3),
}


def _near_miss(why: str, old: str, new: str, source: str = _LOOP) -> NearMiss:
    return NearMiss(
        _SOURCE.format(source.replace(old, new)), at="counts.tolist()", why=why, facts=_FACTS
    )


class SplitToMasks(Codemod):
    """*What it does.*  Lets each expert see all rows where they are split by counts that data
    decide:

    ```python
    parts = torch.split(x, counts.tolist(), dim=0)
    for i, part in enumerate(parts):
        outputs.append(torch.matmul(part, w[i]))
    out = torch.cat(outputs, dim=0)
    ```
    becomes a loop that counts, with ``own = (places >= ends[i] - counts[i]) & (places < ends[i])``
    and ``out = out + torch.where(own[:, None], torch.matmul(part, w[i]), 0)``.  The expert sees
    zeros in place of the rows of others.

    *When it applies.*  The results of the parts are joined in their order.  Where only the first
    ``sum(counts)`` rows are split, zeros have to follow for the others.

    *Fix safety.*  Safe, if the text of the experts' class shows that they treat each row alone and
    compute only; else unsafe.  Counts that do not make up the rows are an error in both: the patch
    asserts it.  Where there are fewer experts than parts with rows, and the original leaves these
    out, the assertion raises an error.  All experts compute all rows: with many experts that is
    more work.

    *Refuses.*  Other uses of the counts as numbers, of the parts and of the list; code that asks
    how many rows a part has, that draws or that changes something in place.
    """

    name = "split-to-masks"
    codes = (
        "GB0033", "GB0124", "GB0036", "GB0170", "GB0059", "GB0088",
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
    )  # fmt: skip
    examples = (
        Example(
            _SOURCE.format(_LOOP), _SOURCE.format(_AFTER), at="counts.tolist()", facts=_FACTS,
            title="all rows are split",
        ),
        Example(
            _SOURCE.format(_PADDED), _SOURCE.format(_AFTER_PADDED), at="counts.tolist()",
            facts=_FACTS, title="rows that follow are zeros",
        ),
    )  # fmt: skip
    near_misses = (
        _near_miss("other rows are left out", "torch.split(x,", "torch.split(x[: sum(counts)],"),
        _near_miss("another order", "outputs.append(", "outputs.insert(0, "),
        _near_miss("joined in columns", "outputs, dim=0", "outputs, dim=1"),
        _near_miss("split in columns", "counts, dim=0", "counts, dim=1"),
        _near_miss(
            "how many rows there are", "matmul(part, w[i])", "matmul(part, w[i]) / len(part)"
        ),
        _near_miss("it draws", "matmul(part, w[i])", "matmul(part, w[i]) + torch.rand(3)"),
        _near_miss("the list is given away", "    out =", "    w.log(outputs)\n    out ="),
        _near_miss("the counts are numbers elsewhere", "return out", "return out / counts[0]"),
        _near_miss("the parts are used again", "return out", "return out + parts[0].sum()"),
        _near_miss("it changes the rows", "matmul(part, w[i])", "matmul(part.mul_(2), w[i])"),
        _near_miss("a part by its number", "matmul(part, w[i])", "matmul(part, w[counts[i]])"),
        _near_miss("what follows is no zeros", "new_zeros(", "new_ones(", _PADDED),
        _near_miss("as many as something else", "x.shape[0] - sum", "w.shape[0] - sum", _PADDED),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        for loop in walk(function.body):
            if isinstance(loop, cst.For) and site.function_of(loop) is function:
                try:
                    found = _Split(site, function, loop)
                    if found.is_about(site):
                        yield found.rewrite()
                        return
                except _NotSo:
                    continue


class _NotSo(Exception):
    pass


class _Split:
    """A loop over parts of rows; raises `_NotSo` where it is none, or does something else."""

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
        self.removed: list[cst.BaseStatement] = []
        #: Nodes that go, or whose text is made anew.
        self.gone: set[cst.CSTNode] = set(walk(loop))
        self.index, self.part, split = self._header()
        self.rows, self.counts, self.sizes, self.cut = self._split(split)
        self._body()
        self.result = self._joined()
        self.padded = self._padded() if self.cut else None
        self._nothing_else()

    def is_about(self, site: Site) -> bool:
        """Whether the break is what the rewrite removes."""
        return site.node in self.gone or any(site.statement is line for line in self.removed)

    # -- what there is -----------------------------------------------------------------------

    def _bound(self, name: str) -> tuple[cst.BaseStatement, cst.BaseExpression]:
        """The line of the block, before the loop, that binds a name, and the value."""
        found = []
        for line in self.block[: self.at]:
            pair = simple_assign(line)
            if pair is not None and code(pair[0]) == name:
                found.append((line, pair[1]))
            elif name in activity(line).binds | activity(line).mutates:
                raise _NotSo
        if len(found) != 1:
            raise _NotSo
        return found[0]

    def _remove(self, line: cst.BaseStatement) -> None:
        if line not in self.removed:
            self.removed.append(line)
            self.gone |= set(walk(line))

    def _header(self) -> tuple[str, str, cst.BaseExpression]:
        """The names of the number and of the part, and what gives the parts.

        Sets ``over``: what else the loop runs over, and the targets of that.
        """
        self.over: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        target: cst.BaseExpression = self.loop.target
        index = ""
        each = self.loop.iter
        match target, each:
            case (
                cst.Tuple(elements=[cst.Element(cst.Name(index)), cst.Element(inner)]),
                cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=counted, keyword=None)]),
            ):
                target, each = inner, counted
        match target, each:
            case cst.Name(part), _ if not _is_zip(each):
                return index, part, each
            case cst.Tuple(elements=elements), cst.Call(args=args) if _is_zip(each):
                if len(elements) != len(args) or any(arg.keyword or arg.star for arg in args):
                    raise _NotSo
                parts = [
                    (element.value, arg.value)
                    for element, arg in zip(elements, args, strict=True)
                    if self._gives_parts(arg.value)
                ]
                if len(parts) != 1 or not isinstance(parts[0][0], cst.Name):
                    raise _NotSo
                self.over = [
                    (element.value, arg.value)
                    for element, arg in zip(elements, args, strict=True)
                    if arg.value is not parts[0][1]
                ]
                if not all(isinstance(it, cst.Name | cst.Attribute) for _, it in self.over):
                    raise _NotSo
                return index, parts[0][0].value, parts[0][1]
        raise _NotSo

    def _gives_parts(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            try:
                return _is_split(self._bound(node.value)[1])
            except _NotSo:
                return False
        return _is_split(node)

    def _split(self, node: cst.BaseExpression) -> tuple[str, str, str, bool]:
        """The names of the rows and of the counts, the text of the sizes, and whether it cuts."""
        if isinstance(node, cst.Name):
            self.parts = node.value
            line, node = self._bound(node.value)
            self._remove(line)
        else:
            self.parts = ""
        if not isinstance(node, cst.Call) or not _is_split(node):
            raise _NotSo
        args = {
            arg.keyword.value if arg.keyword is not None else str(place): arg.value
            for place, arg in enumerate(node.args)
        }
        assert isinstance(node.func, cst.Attribute)
        if code(node.func.value) == self.torch:
            rows = args.pop("0", None) or args.pop("tensor", None)
            sizes = args.pop("1", None) or args.pop("split_size_or_sections", None)
            dim = args.pop("2", None) or args.pop("dim", None)
        else:
            rows = node.func.value
            sizes = args.pop("0", None) or args.pop("split_size", None)
            dim = args.pop("1", None) or args.pop("dim", None)
        if args or rows is None or sizes is None or (dim is not None and code(dim) != "0"):
            raise _NotSo
        counts, text = self._counts(sizes)
        cut = False
        match rows:
            case cst.Subscript(
                value=cst.Name() as whole,
                slice=[cst.SubscriptElement(cst.Slice(lower=None, upper=upper, step=None))],
            ) if upper is not None and self._is_sum(upper, text):
                rows, cut = whole, True
        fact = self.values.fact(rows) or self.site.locals_before(self.loop).get(code(rows))
        if not isinstance(rows, cst.Name) or fact is None or not fact.is_tensor:
            raise _NotSo
        self.dims = len(fact.shape or ())
        if not 1 <= self.dims <= 3:
            raise _NotSo
        return rows.value, counts, text, cut

    def _counts(self, sizes: cst.BaseExpression) -> tuple[str, str]:
        """The name of the tensor of the counts, and the text by which its list is known."""
        text = code(sizes)
        if isinstance(sizes, cst.Name):
            line, sizes = self._bound(sizes.value)
            self._remove(line)
        found = _listed(sizes)
        if not isinstance(found, cst.Name):
            raise _NotSo
        name = found.value
        fact = self.values.fact(found)
        fact = fact or self.site.locals_before(self.loop).get(name)
        if fact is None or len(fact.shape or ()) != 1:
            raise _NotSo
        if fact.is_tensor and fact.dtype not in ("torch.int64", "torch.int32"):
            raise _NotSo
        if name != text and name in activity(*self.block[: self.at + 1]).mutates:
            raise _NotSo
        return name, text

    def _is_sum(self, node: cst.BaseExpression, sizes: str) -> bool:
        """``sum(sizes)``, directly or by a name."""
        if isinstance(node, cst.Name):
            line, value = self._bound(node.value)
            if code(value) != f"sum({sizes})":
                return False
            self._remove(line)
            return True
        return code(node) == f"sum({sizes})"

    def _body(self) -> None:
        """Takes the loop's lines apart."""
        if not isinstance(self.loop.body, cst.IndentedBlock):
            raise _NotSo
        self.lines: list[cst.BaseStatement] = []
        self.value: cst.BaseExpression | None = None
        self.outputs = ""
        guarded = False
        for line in self.loop.body.body:
            match line:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Expr(
                            value=cst.Call(
                                func=cst.Attribute(
                                    value=cst.Name(outputs), attr=cst.Name("append")
                                ),
                                args=[cst.Arg(value=value, keyword=None, star="")],
                            )
                        )
                    ]
                ) if self.value is None and self._computes(value):
                    self.outputs, self.value, self.last = outputs, value, line
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]
                ) if self.value is None and self._computes(value):
                    self.lines.append(line)
                case cst.If(orelse=None) if (
                    not self.lines and self._leaves_out(line) and not comments_in(line)
                ):
                    guarded = True
                case _:
                    raise _NotSo
        # Without rows, it may be the number of no expert.
        numbers = activity(*self.lines, self.last).reads if self.value is not None else {self.index}
        if self.value is None or (guarded and self.index in numbers):
            raise _NotSo
        fact = self.values.fact(self.value)
        if fact is None or not fact.is_tensor or not 1 <= len(fact.shape or ()) <= 3:
            raise _NotSo
        self.wide = len(fact.shape or ())

    def _leaves_out(self, line: cst.If) -> bool:
        """``if part.numel() == 0: continue``"""
        part = self.part
        asked = (f"{part}.numel()", f"{part}.shape[0]", f"{part}.size(0)", f"len({part})")
        tests = [f"{text} == 0" for text in asked]
        return code(line.test) in tests and code(line.body).strip() == "continue"

    def _computes(self, value: cst.BaseExpression) -> bool:
        """Whether a value is the same for each row, whatever rows there are beside it."""
        effects = self.values.effects(value)
        odd = (cst.IfExp, cst.NamedExpr, cst.Await, cst.Lambda, cst.BaseComp)
        return not (
            effects.rng
            or effects.io
            or effects.mutates
            or any(changes_in_place(node) for node in walk(value))
            or any(isinstance(node, odd) for node in walk(value))
            or any(self._asks_sizes(node) for node in walk(value))
        )

    def _asks_sizes(self, node: cst.CSTNode) -> bool:
        """Whether a node asks how large something is that the loop has bound."""
        match node:
            case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=of)]):
                pass
            case cst.Attribute(value=of, attr=cst.Name(name)) if name in _SIZES:
                pass
            case _:
                return False
        return bool(names_in(of) & (activity(self.loop.body).binds | {self.part}))

    def _joined(self) -> str:
        """The name of what is joined, on the next line; ``outputs = []`` stands above."""
        line, value = self._bound(self.outputs)
        if code(value) != "[]":
            raise _NotSo
        self._remove(line)
        after = self.block[self.at + 1] if self.at + 1 < len(self.block) else None
        pair = simple_assign(after) if after is not None else None
        if after is None or pair is None or not isinstance(pair[0], cst.Name):
            raise _NotSo
        forms = (f"cat({self.outputs}{end})" for end in ("", ", dim=0", ", 0"))
        if code(pair[1]) not in [f"{self.torch}.{form}" for form in forms]:
            raise _NotSo
        self._remove(after)
        return pair[0].value

    def _padded(self) -> cst.BaseExpression:
        """The expression below that puts zeros behind the rows, for those that were not split."""
        out = self.result
        after = self.block[self.at + 2 : self.at + 3]
        for node in (part for line in after for part in walk(line)):
            match node:
                case cst.Call(func=func, args=[cst.Arg(value=joined), *more]) if (
                    code(func) in (f"{self.torch}.vstack", f"{self.torch}.cat")
                    and isinstance(joined, cst.Tuple | cst.List)
                    and [code(arg).replace(" ", "") for arg in more] in ([], ["dim=0"], ["0"])
                ):
                    parts = [element.value for element in joined.elements]
                    if len(parts) != 2 or code(parts[0]) != out:
                        continue
                    number = _zeros(parts[1], out)
                    if number is not None and self._is_rest(number):
                        self.gone |= set(walk(node))
                        return node
        raise _NotSo

    def _is_rest(self, node: cst.BaseExpression) -> bool:
        """``x.shape[0] - sum(sizes)``, by its name."""
        if isinstance(node, cst.Name):
            line, node = self._bound(node.value)
            self._remove(line)
        match node:
            case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
                every = (f"{self.rows}.shape[0]", f"{self.rows}.size(0)", f"len({self.rows})")
                return code(left) in every and self._is_sum(right, self.sizes)
        return False

    def _nothing_else(self) -> None:
        """What goes is named nowhere else, and what the loop binds is not used behind it."""
        names = {self.index, self.part, self.parts, self.outputs}
        if self.sizes.isidentifier():
            names.add(self.sizes)
        for line in self.removed:
            pair = simple_assign(line)
            assert pair is not None
            if code(pair[0]) != self.result:
                names.add(code(pair[0]))
        places = {name: list(self.site.places_of(name, self.function.body)) for name in names}
        for name in names - {""}:
            for place in places[name]:
                if place in self.gone:
                    continue
                # Until it became a list, the name was that of the tensor.
                if name == self.counts and self._is_before(place):
                    continue
                raise _NotSo
        bound = activity(self.loop.body).binds
        if bound & live_after(self.function, self.loop):
            raise _NotSo
        header = {self.index, self.part, *(n for target, _ in self.over for n in names_in(target))}
        if bound & header or self.sizes in activity(self.loop.body).reads:
            raise _NotSo
        if {self.rows, self.counts} & bound:
            raise _NotSo
        for name in {self.rows, self.counts} - {self.sizes}:
            first = min(self.block.index(line) for line in self.removed)
            if name in activity(*self.block[first : self.at]).writes:
                raise _NotSo
        # No round reads what an earlier one has bound.
        known: set[str] = set()
        for line in (*self.lines, self.last):
            does = activity(line)
            if (does.reads & bound) - known:
                raise _NotSo
            known |= does.binds

    def _is_before(self, place: cst.CSTNode) -> bool:
        line = next(it for it in self.removed if self.counts in activity(it).reads)
        return self.site.span(place).line < self.site.span(line).line

    # -- the new loop ------------------------------------------------------------------------

    def rewrite(self) -> Rewrite:
        torch, counts, rows = self.torch, self.counts, self.rows
        ends, places, own = self._fresh("ends"), self._fresh("places"), self._fresh("own")
        assert self.value is not None
        read = activity(*self.lines, cst.Expr(self.value)).reads
        # What is joined may have the name of what was split.
        is_free = self.result not in read | {self.rows, self.counts}
        done = self.result if is_free else self._fresh("done")
        i = self.index or self._fresh("number")
        fits = "<=" if self.cut else "=="
        last_end = f"{ends}{self._as_many()}[-1]"
        head = [
            f"{ends} = {counts}.cumsum(0)",
            size_assertion(
                torch,
                f"({counts} >= 0).all() & ({last_end} {fits} {rows}.shape[0])",
                "the counts are not those of the rows",
            ),
            f"{places} = {torch}.arange({rows}.shape[0], device={rows}.device)",
            f"{done} = 0",
        ]
        inside = f"({places} >= {ends}[{i}] - {counts}[{i}]) & ({places} < {ends}[{i}])"
        same = self.wide == self.dims
        wide = f"[:{', None' * (self.dims - 1)}]" if same and self.dims > 1 else ""
        mask = f"{own} = ({inside}){wide}" if wide else f"{own} = {inside}"
        lines: list[cst.BaseStatement] = [
            cst.parse_statement(mask),
            cst.parse_statement(
                f"{self.part} = {torch}.where({self._mask(own, self.dims, same)}, {rows}, 0)"
            ),
            *self.lines,
            cst.parse_statement(
                f"{done} = {done} + {torch}.where({self._mask(own, self.wide, same)},"
                f" {code(self.value)}, 0)"
            ).with_changes(
                leading_lines=self.last.leading_lines,
                trailing_whitespace=self.last.trailing_whitespace,
            ),
        ]
        count = f"range({counts}.shape[0])"
        target: cst.BaseExpression = cst.Name(i)
        if self.over:
            text = ", ".join([i, *(code(each) for each, _ in self.over)])
            line = cast(cst.SimpleStatementLine, cst.parse_statement(f"{text} = 0"))
            target = cast(cst.Assign, line.body[0]).targets[0].target
            count = f"zip({count}, {', '.join(code(each) for _, each in self.over)})"
        loop = self.loop.with_changes(
            target=target,
            iter=cst.parse_expression(count),
            body=self.loop.body.with_changes(body=lines),
            leading_lines=[],
        )
        edit = self.site.edit()
        above: list[cst.EmptyLine] = []
        for gone in sorted(self.removed, key=self.block.index):
            edit.moved(gone)
            above += _comments(gone)
        new: list[cst.BaseStatement] = [cst.parse_statement(text) for text in head]
        new[0] = new[0].with_changes(leading_lines=[*above, *self.loop.leading_lines])
        new.append(loop)
        if done != self.result:
            new.append(cst.parse_statement(f"{self.result} = {done}"))
        edit.replace(self.loop, *new)
        if self.padded is not None:
            edit.replace(self.padded, cst.Name(self.result))
        if self.values.torch_missing:
            edit.add_import("torch")
        told = experts_told(self.site, self.function, self.loop) or self._rows_told()
        notes = ["Each expert computes all rows, also those of others."]
        if self.over:
            notes.append(
                "If parts beyond the last expert have rows, the original ignores them; the patch's"
                " assertion fails."
            )
        return edit.rewrite(
            "let each expert see all rows, masked",
            notes=[*notes, *([told] if told else [])],
            rank=26,
            safety=Safety.UNSAFE if told else Safety.SAFE,
        )

    def _rows_told(self) -> str:
        """Why the lines of the loop may look at several rows, or spoil a gradient; else ""."""
        part = next(
            node
            for node in walk(self.loop.target)
            if isinstance(node, cst.Name) and node.value == self.part
        )
        rows = PartRows(self.site, part, self.dims)
        assert self.value is not None
        for line in (*self.lines, None):
            pair = simple_assign(line) if line is not None else None
            value = self.value if pair is None else pair[1]
            if pair is not None and not names_in(value) & rows.names.keys():
                continue  # `expert = self.experts[i]`
            if not rows.uses_of(value) or not rows.rank(value):
                return f"`{self.site.text(value).strip()}` may look at several rows together."
            if pair is not None:
                rows.bind(code(pair[0]), value)
        if rows.given:
            return (
                f"Another object may hold a different layer in `{min(rows.given)}`, or one with a"
                " hook, and it would see rows that are not its own."
            )
        return ""

    def _as_many(self) -> str:
        """What leaves those ends over that the loop comes to: ``zip`` stops with the shortest."""
        if not self.over:
            return ""
        lengths = [f"len({code(each)})" for _, each in self.over]
        shortest = lengths[0] if len(lengths) == 1 else f"min({', '.join(lengths)})"
        return f"[: {shortest}]"

    def _mask(self, own: str, dims: int, same: bool) -> str:
        return own if same or dims == 1 else f"{own}[:{', None' * (dims - 1)}]"

    def _fresh(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name


def _comments(line: cst.BaseStatement) -> list[cst.EmptyLine]:
    """The comments above and behind a line."""
    found = [it for it in getattr(line, "leading_lines", ()) if it.comment is not None]
    behind = getattr(line, "trailing_whitespace", None)
    if isinstance(behind, cst.TrailingWhitespace) and behind.comment is not None:
        found.append(cst.EmptyLine(comment=behind.comment))
    return found


def _is_zip(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and code(node.func) == "zip"


def _is_split(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("split" | "split_with_sizes"))):
            return not any(arg.star for arg in node.args)
    return False


def _listed(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor of ``counts.tolist()`` and ``counts.cpu().tolist()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("tolist")), args=[]):
            pass
        case _:
            return None
    while True:
        match inner:
            case cst.Call(func=cst.Attribute(value=more, attr=cst.Name("cpu" | "detach")), args=[]):
                inner = more
            case _:
                return inner


def _zeros(node: cst.BaseExpression, out: str) -> cst.BaseExpression | None:
    """How many rows of zeros like those of ``out``: ``out.new_zeros((n, out.shape[-1]))``."""
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.Name(of), attr=cst.Name("new_zeros")), args=args
        ) if of == out and not any(arg.keyword or arg.star for arg in args):
            pass
        case _:
            return None
    sizes = [arg.value for arg in args]
    if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple | cst.List):
        sizes = [element.value for element in sizes[0].elements]
    rest = [code(size) for size in sizes[1:]]
    if rest in ([f"{out}.shape[-1]"], [f"{out}.shape[1]"], [f"{out}.size(-1)"], [f"{out}.size(1)"]):
        return sizes[0]
    return None
