"""Numbers that a loop collects, read from the tensors of all its rounds behind the loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import statement
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Edit, Site
from gbfix.schema import Fact

from .halves import CannotSplit
from .lifting import MovedFacts, on_new_text

_ARITHMETIC = cst.BinaryOperation | cst.UnaryOperation | cst.BaseNumber | cst.BaseBinaryOp
_FUNCTIONS = frozenset({"builtins.abs", "builtins.float", "builtins.int", "builtins.round"})


@dataclasses.dataclass(frozen=True)
class Moved:
    """A site of the new text and its function.

    ``node`` is the expression that must run in Python there, or ``eager`` holds all such nodes.
    """

    site: Site
    function: cst.FunctionDef
    title: str
    node: cst.CSTNode | None = None
    eager: frozenset[cst.CSTNode] = frozenset()


def kept_numbers(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> Moved:
    """The text in which the numbers around ``node`` are read in a second loop.

    Raises `CannotSplit` where that is not right.
    """
    line = site.statement_of(node)
    loop = loop_around(site, function, line)
    body = list(cst.ensure_type(loop.body, cst.IndentedBlock).body)
    reader = _Reader(site, function, loop)
    late = _run_of(body, line, reader)
    rest = [part for part in body if part not in late]
    collected = [reader.collects(part) for part in late]
    _check(site, function, loop, rest, {name for name, _ in collected})
    starts = [_start(site, loop, name) for name in dict.fromkeys(name for name, _ in collected)]

    taken = names_in(site.module)
    lists: dict[str, tuple[str, str]] = {}
    for _, value in collected:
        for read in reader.numbers(value):
            read_from = _tensor_of(read)
            text = code(read_from)
            _check_read(site, read_from, {name for name, _ in collected}, again=text in lists)
            if text not in lists:
                kept = fresh(f"{telling_name(read_from)}_rounds", taken)
                one = fresh(kept.removesuffix("s"), taken | {kept})
                taken |= {kept, one}
                lists[text] = (kept, one)
    edit = site.edit()
    keep = [
        statement(f"{kept}.append({text}.detach().clone())") for text, (kept, _) in lists.items()
    ]
    place = body.index(late[0])
    inner = [*body[:place], *keep, *(part for part in body[place:] if part not in late)]
    first, *others = [statement(f"{kept} = []") for kept, _ in lists.values()]
    assert isinstance(first, cst.SimpleStatementLine)
    new = loop.with_changes(leading_lines=(), body=loop.body.with_changes(body=inner))
    again = [_reading(part, reader, lists) for part in late]
    ones = [one for _, one in lists.values()]
    source = ", ".join(kept for kept, _ in lists.values())
    iterated = source if len(ones) == 1 else f"zip({source})"
    second = statement(f"for {', '.join(ones)} in {iterated}:\n    pass")
    assert isinstance(second, cst.For)
    second = second.with_changes(body=cst.IndentedBlock(again))
    for start in starts:
        edit.remove(start)
    edit.replace(
        loop,
        first.with_changes(leading_lines=loop.leading_lines),
        *others,
        new,
        *(start.deep_clone() for start in starts),
        second,
    )
    built, new_function, found = rebuilt(site, function, edit, loop, starts)
    target = code(second.target)
    loops = [part for part in found if isinstance(part, cst.For) and code(part.target) == target]
    if len(loops) != 1:
        raise CannotSplit("the new text was not found again")
    title = "read numbers of a loop behind it"
    return Moved(built, new_function, title, eager=frozenset(walk(loops[0])))


def loop_around(site: Site, function: cst.FunctionDef, line: cst.CSTNode) -> cst.For:
    """The ``for`` loop in whose body the statement stands."""
    block = site.parent(line)
    loop = site.parent(block) if isinstance(block, cst.IndentedBlock) else None
    if not isinstance(loop, cst.For) or loop.asynchronous is not None:
        raise CannotSplit("it does not stand in a loop")
    if site.function_of(loop) is not function:
        raise CannotSplit("it stands in another function")
    for part in site.ancestors(loop):
        if part is function:
            break
        if isinstance(part, cst.Try | cst.TryStar | cst.With):
            raise CannotSplit("somebody may go on after an error")
    if not isinstance(site.parent(loop), cst.IndentedBlock):
        raise CannotSplit("there is no place beside the loop")
    return loop


def rebuilt(
    site: Site,
    function: cst.FunctionDef,
    edit: Edit,
    loop: cst.For,
    removed: Sequence[cst.CSTNode] = (),
) -> tuple[Site, cst.FunctionDef, list[cst.CSTNode]]:
    """The site of the new text, its function, and the nodes that stand where the loop stood."""
    text = edit.apply().code
    by = text.count("\n") - site.source.count("\n")
    first = min([site.span(loop).line, *(site.span(node).line for node in removed)])
    moved = MovedFacts(site.facts, first, site.span(loop).end_line + by, by)
    new, new_function = on_new_text(site, function, text, moved)
    found = [part for part in walk(new_function.body) if first <= new.span(part).line <= moved.last]
    return new, new_function, found


def own_containers(function: cst.FunctionDef) -> frozenset[str]:
    """Names that are only ever bound to lists and dictionaries which the function makes, empty."""
    own = _Own()
    body = function.body.visit(own)
    assert isinstance(body, cst.BaseSuite)
    elsewhere = activity(body).writes | set(parameters_of(function.params))
    return own.names & function_scope(function).locals - elsewhere


class _Own(cst.CSTTransformer):
    """Takes out what binds a name to a new, empty container: nobody else has that one."""

    def __init__(self) -> None:
        super().__init__()
        self.names: frozenset[str] = frozenset()

    def leave_Assign(
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.BaseSmallStatement:
        match original_node:
            case cst.Assign(
                targets=[cst.AssignTarget(cst.Name(name))],
                value=cst.List(elements=[]) | cst.Dict(elements=[]),
            ):
                self.names |= {name}
                return cst.Pass()
        return updated_node


class _Reader:
    """What the statements do that read numbers of tensors."""

    def __init__(self, site: Site, function: cst.FunctionDef, loop: cst.For) -> None:
        self.site = site
        self.locals = function_scope(function).locals
        self.bound = activity(loop).writes

    def collects(self, line: cst.CSTNode) -> tuple[str, cst.BaseExpression]:
        """The name that a statement adds to, and what it adds."""
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        cst.Call(
                            func=cst.Attribute(value=cst.Name(name), attr=cst.Name("append")),
                            args=[cst.Arg(keyword=None, star="", value=value)],
                        )
                    )
                ]
            ):
                return name, value
            case cst.SimpleStatementLine(body=[cst.AugAssign(target=cst.Name(name), value=value)]):
                return name, value
        raise CannotSplit("it does more than to collect a number")

    def is_late(self, line: cst.CSTNode) -> bool:
        try:
            name, value = self.collects(line)
        except CannotSplit:
            return False
        reads = list(self.numbers(value))
        inside = {part for read in reads for part in walk(read)}
        return (
            bool(reads)
            and name in self.locals
            and all(part in inside or self.is_plain(part) for part in walk(value))
        )

    def numbers(self, value: cst.BaseExpression) -> Iterator[cst.Call]:
        """The calls ``tensor.item()`` of one number."""
        for part in walk(value):
            if isinstance(part, cst.Call) and self.is_number(part):
                yield part

    def is_number(self, node: cst.Call) -> bool:
        match node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("item")), args=[]):
                fact = self.site.fact(value)
                return _is_one_number(fact)
        return False

    def is_plain(self, part: cst.CSTNode) -> bool:
        """Whether it is arithmetic with numbers that stay the same in all rounds."""
        if isinstance(part, cst.Name):
            if resolve(self.site.module, part, at=self.site.node) in _FUNCTIONS:
                return True
            fact = self.site.fact(part)
            known = fact is not None and fact.kind in ("int", "float")
            return known and part.value in self.locals and part.value not in self.bound
        if isinstance(part, cst.Call):
            return resolve(self.site.module, part.func) in _FUNCTIONS and not any(
                arg.star for arg in part.args
            )
        return not isinstance(part, cst.BaseExpression) or isinstance(part, _ARITHMETIC)


def _is_one_number(fact: Fact | None) -> bool:
    return (
        fact is not None
        and fact.is_tensor
        and fact.type == "torch.Tensor"
        and fact.shape is not None
        and None not in fact.shape
        and math.prod(size or 0 for size in fact.shape) == 1
    )


def _tensor_of(read: cst.Call) -> cst.BaseExpression:
    assert isinstance(read.func, cst.Attribute)
    return read.func.value


def _run_of(
    body: Sequence[cst.BaseStatement], line: cst.CSTNode, reader: _Reader
) -> list[cst.BaseStatement]:
    """The statements side by side that collect numbers, this one among them."""
    places = [number for number, part in enumerate(body) if part is line]
    if not places or not reader.is_late(line):
        raise CannotSplit("it does more than to collect a number")
    start = end = places[0]
    while start > 0 and reader.is_late(body[start - 1]):
        start -= 1
    while end + 1 < len(body) and reader.is_late(body[end + 1]):
        end += 1
    return list(body[start : end + 1])


def _check(
    site: Site,
    function: cst.FunctionDef,
    loop: cst.For,
    rest: Sequence[cst.BaseStatement],
    names: set[str],
) -> None:
    header = activity(loop.target, loop.iter)
    others = activity(rest)
    after = [] if loop.orelse is None else [loop.orelse]
    used = others.reads | others.writes | header.reads | header.writes | activity(after).reads
    if names & used:
        raise CannotSplit("the loop reads what it collects")
    if others.mutates or others.mutates_unknown or others.attribute_writes or others.dynamic:
        raise CannotSplit("an error in a number would come too late")
    if others.subscript_writes or others.captures or others.global_writes:
        raise CannotSplit("an error in a number would come too late")
    ways = exits(rest)
    if ways.returns or ways.raises or ways.yields or ways.awaits or loop.orelse is not None:
        raise CannotSplit("the loop may be left early")
    if names & activity(function.body).captures:
        raise CannotSplit("an inner function may read what the loop collects")


def _check_read(site: Site, node: cst.BaseExpression, names: set[str], *, again: bool) -> None:
    what = activity(node)
    if names & what.reads or what.writes or what.mutates or what.mutates_unknown or what.dynamic:
        raise CannotSplit("the number depends on what the loop collects")
    if again and not effects_of(node, site.fact).pure:
        raise CannotSplit("it would be computed once, not twice")


def _start(site: Site, loop: cst.For, name: str) -> cst.SimpleStatementLine:
    """``losses = []`` before the loop, in whose sight nothing else reads or binds the name."""
    block = list(site.block_of(loop))
    before = block[: block.index(loop)]
    for number in range(len(before) - 1, -1, -1):
        line = before[number]
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(target))], value=value)]
            ) if target == name:
                empty = isinstance(value, cst.List) and not value.elements
                if empty or isinstance(value, cst.Integer | cst.Float):
                    return line
        what = activity(line)
        if name in what.reads | what.writes | what.deletes:
            break
    raise CannotSplit("it is not plain to see what the loop adds to")


def _reading(
    part: cst.BaseStatement, reader: _Reader, lists: dict[str, tuple[str, str]]
) -> cst.BaseStatement:
    new = part.visit(_Read(reader, lists))
    assert isinstance(new, cst.BaseStatement)
    return new


class _Read(cst.CSTTransformer):
    """Reads a number from what was kept."""

    def __init__(self, reader: _Reader, lists: dict[str, tuple[str, str]]) -> None:
        super().__init__()
        self._reader = reader
        self._lists = lists

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not self._reader.is_number(original_node):
            return updated_node
        _, one = self._lists[code(_tensor_of(original_node))]
        func = cst.ensure_type(updated_node.func, cst.Attribute)
        return updated_node.with_changes(func=func.with_changes(value=cst.Name(one)))
