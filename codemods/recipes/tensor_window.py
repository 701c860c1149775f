"""A window of known size at a place that a tensor tells: ``cache[:, start:start + n] = rows``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.kinds import infer
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.names import only_line
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..choice.context import read_of
from ..data_dependent.flow import torch_name

_SOURCE = """
import torch


def f(cache, other, rows, place, n: int):
{}
    return cache
"""
_FACTS = {
    "cache": tensor(2, 8, 4),
    "other": tensor(2, 8, 4),
    "other[0]": tensor(dtype="torch.int64"),
    "out": tensor(2, 9, 9),
    "rows": tensor(2, 3, 4),
    "place": tensor(dtype="torch.int64"),
    "place.item()": scalar(2),
    "n": scalar(3, constant=False),
    "start": scalar(2, constant=False),
}
_INDICES = ("torch.int32", "torch.int64")
_OUTSIDE = "A window that does not lie within its tensor raises an error, where the original {}."
_WRITES = _OUTSIDE.format("may do so, or write nothing")
_READS = _OUTSIDE.format("takes less")
_STORES = _OUTSIDE.format("does so, but for a single row, which it repeats")


def _body(*lines: str) -> str:
    return _SOURCE.format("\n".join(f"    {line}" for line in lines))


def _example(
    title: str,
    before: Sequence[str],
    after: Sequence[str],
    at: str = "place:end",
) -> Example:
    return Example(_body(*before), _body(*after), at=at, facts=_FACTS, title=title)


def _near_miss(why: str, *lines: str, at: str) -> NearMiss:
    return NearMiss(_body(*lines), at=at, why=why, facts=_FACTS)


_CHECK = 'torch._assert_async(place >= 0, "`place` is below zero")'
_ROWS = "positions = place + torch.arange(n, device=place.device)"


class TensorWindow(Codemod):
    """*What it does.*  Reads or writes a window of a tensor by the numbers of its rows, where a
    tensor tells where the window begins:

    ```python
    end = start + rows.shape[1]
    cache[:, start:end] = rows
    ```
    becomes
    ```python
    torch._assert_async(start >= 0, "`start` is below zero")
    positions = start + torch.arange(rows.shape[1], device=start.device)
    cache[:, positions] = rows
    ```

    *When it applies.*  ``start`` is a tensor of whole numbers with one element, or is read from
    one (``start = place.item()``) and used for windows only; the window ends at ``start`` plus
    something that Python knows.

    *Fix safety.*  The rows are the same ones.  A window that begins below zero or ends outside of
    its tensor raises an error.  A slice that is written to mostly does so, too: that is said.  A
    slice that is read gives less: unsafe, unless the place is drawn by ``torch.randint``, from zero
    on.  What is read is a copy and no view.

    *Refuses.*  Windows that something is changed through, windows of a tensor that is changed while
    they are in use, windows whose size the data decides.
    """

    name = "tensor-window"
    codes = (
        "GB0124",
        "GB0033",
        "GB0170",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
        "internal-error",
    )
    examples = (
        _example(
            "a cache that is written to",
            ["end = place + n", "cache[:, place:end] = rows", "other[:, place:end] = rows * 2"],
            [_CHECK, _ROWS, "cache[:, positions] = rows", "other[:, positions] = rows * 2"],
        ),
        _example(
            "a window that is added to",
            ["cache[:, place : place + n] += rows"],
            [_CHECK, _ROWS, "cache[:, positions] += rows"],
            at="place : place + n",
        ),
        _example(
            "a place that moves",
            [
                "cache[:, place : place + n] = rows",
                "place = place + n",
                "cache[:, place : place + n] = rows",
            ],
            [
                _CHECK,
                _ROWS,
                "cache[:, positions] = rows",
                "place = place + n",
                _CHECK,
                _ROWS.replace("positions", "positions_1"),
                "cache[:, positions_1] = rows",
            ],
            at="place : place + n",
        ),
        _example(
            "two windows in one",
            [
                "out = torch.zeros(2, 9, 9)",
                "out[:, place : place + 3, other[0] : other[0] + n] = rows",
            ],
            [
                "out = torch.zeros(2, 9, 9)",
                _CHECK,
                "positions = place + torch.arange(3, device=place.device)",
                'torch._assert_async(other[0] >= 0, "`other[0]` is below zero")',
                "positions_1 = other[0] + torch.arange(n, device=other[0].device)",
                "out[:, positions[:, None], positions_1] = rows.to(out.dtype)",
            ],
            at="place : place + 3",
        ),
        _example(
            "a window that is written to another tensor",
            ["out = cache.new_zeros(2, 3, 4)", "out[0] = cache[0, place : place + 3]"],
            [
                "out = cache.new_zeros(2, 3, 4)",
                _CHECK,
                _ROWS.replace("(n,", "(3,"),
                "out[0] = cache[0, positions]",
            ],
            at="place : place + 3",
        ),
        _example(
            "a window that is read, at a number",
            ["start = place.item()", "other = cache[:, start:start + n] * 2"],
            [
                "start = place",
                'torch._assert_async(start >= 0, "`start` is below zero")',
                "positions = start + torch.arange(n, device=start.device)",
                "other = cache[:, positions] * 2",
            ],
            at="place.item()",
        ),
    )
    near_misses = (
        _near_miss(
            "the data decide how many rows it has", "cache[:, place:] = 0", at="cache[:, place:]"
        ),
        _near_miss(
            "the data decide how many rows it has",
            "cache[:, place : place + place] = 0",
            at="place : place + place",
        ),
        _near_miss(
            "the start is another one by then",
            "end = place + n",
            "place = place + 1",
            "cache[:, place:end] = rows",
            at="place:end",
        ),
        _near_miss(
            "what the start was taken of is changed in between",
            "start = other[0]",
            "end = start + n",
            "other.add_(1)",
            "cache[:, start:end] = rows",
            at="start:end",
        ),
        _near_miss(
            "the end is another one by then",
            "end = place + n",
            "end = end + 1",
            "cache[:, place:end] = rows",
            at="place:end",
        ),
        _near_miss(
            "something is changed through it",
            "cache[:, place : place + n].zero_()",
            at="place : place + n",
        ),
        _near_miss(
            "what it is taken of is changed while it is in use",
            "other = cache[:, place : place + n]",
            "cache.mul_(2)",
            "cache = cache + other.sum()",
            at="place : place + n",
        ),
        _near_miss(
            "it is copied onto itself",
            "cache[:, place : place + n] = cache[:, 1 : n + 1]",
            at="place : place + n",
        ),
        _near_miss(
            "the number has another use",
            "start = place.item()",
            "cache[:, start : start + n] = rows * start",
            at="place.item()",
        ),
        _near_miss(
            "the tensor of the number is changed afterwards",
            "start = place.item()",
            "place.add_(1)",
            "cache[:, start : start + n] = rows",
            at="place.item()",
        ),
        _near_miss(
            "another index stands beside it",
            "cache[place : place + n, other > 0] = 1",
            at="place : place + n",
        ),
        _near_miss(
            "a slice stands between two windows",
            "cache[place : place + n, :, place : place + 1] = 1",
            at="place : place + n",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        windows = list(_windows(site))
        for first in dict.fromkeys(window.start for window in windows if _is_here(site, window)):
            mine = _together(windows, first)
            if all(_fits(site, window, mine) for window in mine):
                rewrite = _rewritten(site, mine)
                if rewrite is not None:
                    yield rewrite
                    return


@dataclasses.dataclass(frozen=True)
class _Window:
    """One subscript with such a slice; ``end`` is the statement that names its end."""

    node: cst.Subscript
    part: cst.Slice
    start: str
    size: str
    end: cst.SimpleStatementLine | None
    #: ``start = t.item()``: the statement, and the tensor.
    read: tuple[cst.SimpleStatementLine, cst.BaseExpression] | None


def _windows(site: Site) -> Iterator[_Window]:
    assert site.function is not None
    for node in walk(site.function.body):
        if not isinstance(node, cst.Subscript) or site.function_of(node) is not site.function:
            continue
        for element in node.slice:
            if isinstance(element.slice, cst.Slice):
                window = _window(site, node, element.slice)
                if window is not None:
                    yield window


def _together(windows: Sequence[_Window], first: str) -> list[_Window]:
    """The windows that begin at one place, and at those which stand in one subscript with it."""
    starts = {first}
    while True:
        nodes = {window.node for window in windows if window.start in starts}
        more = {window.start for window in windows if window.node in nodes}
        if more == starts:
            return [window for window in windows if window.start in starts]
        starts = more


def _window(site: Site, node: cst.Subscript, part: cst.Slice) -> _Window | None:
    lower, upper, end = part.lower, part.upper, None
    if lower is None or upper is None or part.step is not None:
        return None
    read = _read(site, lower)
    fact = _fact(site, read[1] if read is not None else lower)
    if fact is None or not fact.is_tensor or fact.dtype not in _INDICES:
        return None
    if fact.shape != () and (fact.shape != (1,) or read is None):
        return None
    if isinstance(upper, cst.Name):
        end = _binding(site, upper.value)
        if end is None or not _is_kept(site, lower, end) or not _is_before(site, end, node):
            return None
        upper = cst.ensure_type(end.body[0], cst.Assign).value
    match upper:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            for one, other in ((left, right), (right, left)):
                known = _fact(site, other)
                whole = isinstance(other, cst.Integer) or (
                    known is not None and known.kind == "int"
                )
                if (
                    code(one) == code(lower)
                    and whole
                    and (end is None or _is_kept(site, other, end))
                ):
                    return _Window(node, part, code(lower), code(other), end, read)
    return None


def _fact(site: Site, node: cst.BaseExpression) -> Fact | None:
    return infer(node, site.fact)


def _read(
    site: Site, lower: cst.BaseExpression
) -> tuple[cst.SimpleStatementLine, cst.BaseExpression] | None:
    """The statement ``start = t.item()`` or ``int(t)``, and the tensor."""
    if not isinstance(lower, cst.Name):
        return None
    line = _binding(site, lower.value)
    if line is None:
        return None
    match cst.ensure_type(line.body[0], cst.Assign).value:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=value, keyword=None, star="")]):
            return line, read_of(value) or value
        case value:
            held = read_of(value)
            return (line, held) if held is not None else None


def _binding(site: Site, name: str) -> cst.SimpleStatementLine | None:
    """The one statement that binds the name, where it does nothing else."""
    line = only_line(site, name)
    match line.body if line is not None else ():
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(target))])] if target == name:
            return line
    return None


def _is_before(site: Site, line: cst.CSTNode, node: cst.CSTNode) -> bool:
    return site.span(line).line < site.span(node).line


def _is_kept(site: Site, node: cst.BaseExpression, end: cst.SimpleStatementLine) -> bool:
    """Whether the names of an expression are bound once, and before the end is computed."""
    return _is_bound_once(site, node) and all(
        line is None or _is_before(site, line, end)
        for line in (only_line(site, it.value) for it in walk(node) if isinstance(it, cst.Name))
    )


def _is_bound_once(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the expression has one value in a call, or in a round of the loop that binds it."""
    assert site.function is not None
    given = parameters_of(site.function.params)
    for part in walk(node):
        if not isinstance(part, cst.Name):
            continue
        bound = part.value in activity(site.function.body).bound
        if bound and (part.value in given or only_line(site, part.value) is None):
            return False
        if _is_changed(site, part.value):
            return False
    if isinstance(node, cst.Name | cst.BaseNumber):
        return True
    # An attribute may be bound anew between the end and the window.
    stored = activity(site.function.body).attribute_writes
    return not any(
        isinstance(it, cst.Attribute) and it.attr.value in _last(stored) for it in walk(node)
    )


def _last(texts: frozenset[str]) -> set[str]:
    return {text.rpartition(".")[2] for text in texts}


def _is_changed(site: Site, name: str) -> bool:
    """Whether what a name holds, or what it was taken of, is changed in place."""
    assert site.function is not None
    line = only_line(site, name)
    parts = [] if line is None else list(walk(line))
    texts = {name} | {code(it) for it in parts if isinstance(it, cst.Name | cst.Attribute)}
    return any(code(held) in texts for held in _changed(site.function.body))


def _changed(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What ``x += ...``, ``x[...] = ...`` and ``x.add_(...)`` change in place."""
    for node in walk(body):
        match node:
            case cst.AugAssign(target=cst.Subscript(value=held) | (cst.Name() as held)):
                yield held
            case cst.AugAssign(target=cst.Attribute() as held):
                yield held
            case cst.AssignTarget(target=cst.Subscript(value=held)):
                yield held
            case cst.Call(func=cst.Attribute(value=held, attr=cst.Name(method))):
                if method.endswith("_") and not method.endswith("__"):
                    yield held


def _is_here(site: Site, window: _Window) -> bool:
    lines = [site.statement_of(window.node), window.end]
    if window.read is not None:
        lines.append(window.read[0])
    return site.statement in lines


# -- what a window is used for -----------------------------------------------------------------


def _fits(site: Site, window: _Window, others: Sequence[_Window]) -> bool:
    """Whether rows by their numbers do the same there."""
    node = window.node
    mine = [it.part for it in others if it.node is node]
    places = [at for at, element in enumerate(node.slice) if element.slice in mine]
    if places[-1] - places[0] != len(places) - 1:
        return False  # indices on both sides of a slice move to the front
    held = _fact(site, node.value)
    if held is None or not held.is_tensor or dotted(node.value) is None:
        return False
    for element in node.slice:
        match element.slice:
            case cst.Index(value=value):
                if isinstance(value, cst.Ellipsis | cst.Integer) or code(value) == "None":
                    continue
                fact = _fact(site, value)
                if fact is None or fact.kind != "int":
                    return False
    owner = code(node.value)
    parent = site.parent(node)
    if isinstance(parent, cst.AssignTarget):
        assign = site.parent(parent)
        return isinstance(assign, cst.Assign) and _may_be_given(site, assign, owner)
    if isinstance(parent, cst.AugAssign) and parent.target is node:
        return owner not in _texts(parent.value)
    return not isinstance(parent, cst.Del) and _only_read(site, node, owner)


def _may_be_given(site: Site, assign: cst.Assign, owner: str) -> bool:
    return len(assign.targets) == 1 and owner not in _texts(assign.value)


def _texts(node: cst.CSTNode) -> set[str]:
    return {code(it) for it in walk(node) if isinstance(it, cst.Name | cst.Attribute)}


def _only_read(site: Site, node: cst.Subscript, owner: str) -> bool:
    """Whether neither the window nor what it is taken of is changed in place."""
    assert site.function is not None
    parent = site.parent(node)
    if isinstance(parent, cst.Attribute) and parent.attr.value.endswith("_"):
        return False
    does = activity(site.function.body)
    changed = {*does.mutates, *does.attribute_writes}
    names = {owner, owner.partition(".")[0]}
    if isinstance(parent, cst.Assign):
        names |= {code(target.target) for target in parent.targets}
    return not names & changed and not does.mutates_unknown


# -- text --------------------------------------------------------------------------------------


def _rewritten(site: Site, windows: Sequence[_Window]) -> Rewrite | None:
    splice = Splice(site)
    torch = torch_name(site)
    taken = names_in(site.module)
    made: dict[tuple[object, ...], str] = {}
    checked: set[tuple[int, str]] = set()
    for start in dict.fromkeys(window.start for window in windows):
        mine = [window for window in windows if window.start == start]
        read = mine[0].read
        if read is not None:
            if not _only_for_windows(site, mine) or _is_changed(site, start):
                return None
            value = cst.ensure_type(read[0].body[0], cst.Assign).value
            splice.replace(value, splice.source_of(read[1]))
    for window in windows:
        start = window.start
        home: cst.CSTNode = window.end or site.statement_of(window.node)
        block = id(site.block_of(home)[0])
        parts = (window.part.lower, cst.parse_expression(window.size))
        shared = all(part is not None and _is_bound_once(site, part) for part in parts)
        name = made.get((block, start, window.size)) if shared else None
        if name is None:
            name = made[block, start, window.size] = fresh("positions", taken)
            taken.add(name)
            lines = [] if shared and (block, start) in checked else [_check(torch, start)]
            checked.add((block, start))
            lines.append(f"{name} = {start} + {torch}.arange({window.size}, device={start}.device)")
            _put(site, splice, window, home, lines)
        later = [it for it in windows if it.node is window.node].index(window) + 1
        behind = sum(it.node is window.node for it in windows) - later
        dims = ", ".join([":"] + ["None"] * behind)
        splice.replace(window.part, f"{name}[{dims}]" if behind else name)
        if not behind:
            _cast(site, splice, window)
    looks = [window for window in windows if not _is_written(site, window)]
    stored = [window for window in looks if _is_stored(site, window)]
    doubtful = any(not _is_drawn(site, window) for window in looks if window not in stored)
    notes = [_READS] if len(looks) > len(stored) else []
    notes += [_STORES] if stored else []
    return splice.rewrite(
        "take a window by the numbers of its rows",
        notes=notes if len(looks) == len(windows) else [*notes, _WRITES],
        safety=Safety.UNSAFE if doubtful else Safety.SAFE,
        rank=16,
    )


def _is_written(site: Site, window: _Window) -> bool:
    parent = site.parent(window.node)
    augmented = isinstance(parent, cst.AugAssign) and parent.target is window.node
    return augmented or isinstance(parent, cst.AssignTarget)


def _is_stored(site: Site, window: _Window) -> bool:
    """Whether what is read is written to an element of another tensor, which has as many rows."""
    match site.parent(window.node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript())], value=value):
            return value is window.node
    return False


def _is_drawn(site: Site, window: _Window) -> bool:
    """Whether the place is drawn from 0 on (``torch.randint``): the program sees to its end."""
    part: cst.BaseExpression | None = window.part.lower
    while part is not None:
        match part:
            case cst.Call(func=func, args=args) if resolve(site.module, func) == "torch.randint":
                given = [arg.value for arg in args if arg.keyword is None]
                return len(given) == 2 or (len(given) == 3 and code(given[0]) == "0")
            case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=inner)]):
                part = inner
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
                part = inner
            case cst.Subscript(value=inner):
                part = inner
            case cst.Name(name):
                line = _binding(site, name)
                value = line.body[0] if line is not None else None
                part = value.value if isinstance(value, cst.Assign) else None
            case _:
                return False
    return False


def _check(torch: str, start: str) -> str:
    return f'{torch}._assert_async({start} >= 0, "`{start}` is below zero")'


def _put(
    site: Site, splice: Splice, window: _Window, home: cst.CSTNode, lines: Sequence[str]
) -> None:
    """The lines before the window, or in the place of its end where that has no other use."""
    for line in lines[:-1]:
        splice.insert_line_before(home, line)
    if window.end is not None and _is_idle(site, window.end):
        splice.replace_span(site.span(window.end.body[0]), lines[-1])
    else:
        splice.insert_line_before(home, lines[-1])


def _is_idle(site: Site, end: cst.SimpleStatementLine) -> bool:
    """Whether a name for an end is used for windows only."""
    assert site.function is not None
    name = code(cst.ensure_type(end.body[0], cst.Assign).targets[0].target)
    return all(
        isinstance(site.parent(place), cst.AssignTarget | cst.Slice)
        for place in site.places_of(name, site.function.body)
    )


def _only_for_windows(site: Site, windows: Sequence[_Window]) -> bool:
    """Whether the number that was read goes into these windows, and nowhere else."""
    assert site.function is not None
    allowed: set[cst.CSTNode] = set()
    for window in windows:
        allowed |= {*walk(window.part)} | {*(walk(window.end) if window.end is not None else ())}
    for place in site.places_of(windows[0].start, site.function.body):
        if place not in allowed and not isinstance(site.parent(place), cst.AssignTarget):
            return False
    return all(window.end is None or _is_idle(site, window.end) for window in windows)


def _cast(site: Site, splice: Splice, window: _Window) -> None:
    """A slice converts what is written to it; rows by their numbers do not."""
    target = site.parent(window.node)
    assign = site.parent(target) if isinstance(target, cst.AssignTarget) else None
    if not isinstance(assign, cst.Assign):
        return
    given, held = _fact(site, assign.value), _fact(site, window.node.value)
    if given is None or not given.is_tensor or held is None:
        return
    owner = window.node.value
    made_here = isinstance(owner, cst.Name) and only_line(site, owner.value) is not None
    if given.dtype == held.dtype and not made_here:
        return
    text = splice.source_of(assign.value)
    plain = isinstance(assign.value, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    splice.replace(
        assign.value,
        f"{text if plain else f'({text})'}.to({code(window.node.value)}.dtype)",
    )
