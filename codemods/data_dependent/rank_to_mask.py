"""Tensors that are cut to as many columns as data count, and multiplied out: a mask of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.codemod import Advice, Codemod, Rewrite, Site

from ..api.splice import Splice
from ..control_flow.refusal import Refusal
from ..control_flow.sites import if_at
from ..control_flow.surroundings import check_later_changes
from ..control_flow.values import Values
from .cut_columns import Columns, Cut, cut_of
from .flow import torch_name
from .rank_cases import EXAMPLES, NEAR_MISSES


class RankToMask(Codemod):
    """*What it does.*  Keeps all columns of tensors that were cut to as many as data count, and
    puts zeros into those that were cut off:

    ```python
    rank = (s > tolerance).sum()
    return (u[:, :rank] * s[:rank]) @ vh[:rank]
    ```
    becomes ``beyond = torch.arange(s.size(-1), device=s.device) >= rank``, and a
    ``masked_fill(beyond, 0)`` of each.

    *When it applies.*  The number is a count of a condition, in a tensor or read from it; what is
    cut is multiplied out afterwards (``@``, ``sum``), so that no result has the cut dimension.  An
    ``if`` that asks whether there is anything to cut goes.

    *Fix safety.*  Safe: zeros add nothing, and get no gradient.  What goes through a function whose
    derivative has no end at zero (``sqrt``) gets ones there, where something else has the zeros.
    Sums are the same up to their order.

    *Refuses.*  Numbers that may be negative; results that keep the dimension; other functions.
    """

    name = "rank-to-mask"
    codes = (
        "GB0170",
        "GB0124",
        "GB0059",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None or not isinstance(site.function.body, cst.IndentedBlock):
            return
        found = _found(site, list(site.function.body.body))
        if found is None:
            return
        try:
            yield _rewrite(site, *found)
        except Refusal as reason:
            line = site.span(site.statement).line
            yield Advice(f"the columns that line {line} cuts off cannot be zeros: {reason}.")


@dataclasses.dataclass(frozen=True)
class _Group:
    """Cuts by one number: those of an ``if`` (``choice``), or all that a function makes."""

    number: str
    cuts: tuple[Cut, ...]
    choice: cst.If | None = None


def _found(
    site: Site, block: list[cst.BaseStatement]
) -> tuple[_Group, list[cst.BaseStatement]] | None:
    """The cuts that belong to the break, and the statements from there on."""
    choice = if_at(site)
    if choice is not None:
        if not any(choice is line for line in block):
            return None
        cuts = _cuts_of_if(site, choice)
        if not cuts or not _asks_for_less(choice.test, cuts):
            return None
        after = block[next(i for i, line in enumerate(block) if line is choice) + 1 :]
        return _Group(cuts[0].number, tuple(cuts), choice), after
    number = _number(site)
    if not number or not any(site.statement is line for line in block):
        return None
    places = [line for line in block if any(_cuts_by(site, line, number))]
    if not places:
        return None
    first = next(i for i, line in enumerate(block) if line is places[0])
    group = _Group(number, tuple(cut for line in places for cut in _cuts_by(site, line, number)))
    return group, block[first:]


def _number(site: Site) -> str:
    """The name of the number by which the broken statement cuts, or which it reads."""
    match site.statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
        ) if _read(value) is not None:
            return name
    here = [node for node in walk(site.statement) if isinstance(node, cst.Subscript)]
    numbers = {cut.number for node in here if (cut := cut_of(site, node)) is not None}
    return numbers.pop() if len(numbers) == 1 else ""


def _cuts_by(site: Site, line: cst.CSTNode, number: str) -> Iterator[Cut]:
    for node in walk(line):
        cut = cut_of(site, node) if isinstance(node, cst.Subscript) else None
        if cut is not None and cut.number == number:
            yield cut


def _cuts_of_if(site: Site, choice: cst.If) -> list[Cut]:
    """The cuts of an ``if`` that does nothing else, those below another ``if`` included."""
    if choice.orelse is not None:
        return []
    cuts: list[Cut] = []
    for line in statements_of(choice.body):
        match line:
            case cst.If():
                inner = _cuts_of_if(site, line)
                if not inner or not all(cut.is_bool for cut in inner):
                    return []  # of a mask alone, it does not matter whether it is cut
                cuts += inner
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(cst.Name(name))], value=cst.Subscript() as value
                    )
                ]
            ):
                cut = cut_of(site, value)
                if cut is None or cut.name != name:
                    return []
                cuts.append(cut)
            case _:
                return []
    return cuts if len({cut.number for cut in cuts}) == 1 else []


def _asks_for_less(test: cst.BaseExpression, cuts: Sequence[Cut]) -> bool:
    """Whether a test only asks if there is anything to cut: ``rank < s.size(-1)``."""
    match test:
        case cst.Comparison(
            left=cst.Name(name),
            comparisons=[
                cst.ComparisonTarget(operator=cst.LessThan() | cst.NotEqual(), comparator=size)
            ],
        ):
            sizes = {
                text
                for cut in cuts
                for axis in (cut.axis, cut.axis + cut.dims)
                for text in (f"{cut.name}.size({axis})", f"{cut.name}.shape[{axis}]")
            }
            return name == cuts[0].number and code(size) in sizes
    return False


def _rewrite(site: Site, group: _Group, after: list[cst.BaseStatement]) -> Rewrite:
    function = site.function
    assert function is not None
    names = {cut.name for cut in group.cuts}
    nested = activity(function.body).captures & (names | {group.number})
    if nested:
        raise Refusal(f"`{min(nested)}` is used by a nested function")
    if group.choice is not None and comments_in(group.choice):
        raise Refusal("a comment stands there")
    check_later_changes(site, group.choice or after[0], Values(site), names)
    reads = _count(site, group, function)
    columns = Columns(site, group.cuts, started=group.choice is not None)
    fills = columns.fills(after)
    splice = Splice(site)
    beyond = fresh("beyond", names_in(site.module))
    torch = torch_name(site)
    one = next(cut for cut in group.cuts if cut.number == group.number)
    size = f"{one.name}.size({one.axis})"
    mask = f"{beyond} = {torch}.arange({size}, device={one.name}.device) >= {group.number}"
    newline = site.module.default_newline
    if group.choice is not None:
        lines = [mask]
        for cut in group.cuts:
            if fills[cut.name] is not None:
                lines.append(f"{cut.name} = {cut.masked(beyond, fills[cut.name])}")
        ends = newline + _indent(site, group.choice)
        splice.replace(group.choice, ends.join(dict.fromkeys(lines)))
    else:
        first = next(line for line in after if any(_cuts_by(site, line, group.number)))
        start = site.span(first)
        start = dataclasses.replace(start, end_line=start.line, end_column=start.column)
        splice.replace_span(start, mask + newline + _indent(site, first))
        for cut in group.cuts:
            splice.replace(cut.node, cut.masked(beyond, fills[cut.name]))
    for read, text in reads:
        splice.replace(read, text)
    title = "put zeros where columns were cut off"
    return splice.rewrite(title, rank=17, assumes=("inner-tests-idle",))


def _indent(site: Site, node: cst.CSTNode) -> str:
    span = site.span(node)
    return site.source.split("\n")[span.line - 1][: span.column]


def _count(
    site: Site, group: _Group, function: cst.FunctionDef
) -> list[tuple[cst.BaseExpression, str]]:
    """What has to be written for the reads of the number, or `Refusal` where it is no count."""
    bound = _bindings(function, group.number)
    if len(bound) != 1:
        raise Refusal(f"`{group.number}` is not bound once")
    if not _is_count(site, bound[0], function):
        raise Refusal(f"`{group.number}` is not known to be a count")
    whole = bound[0]
    while (inner := _read(whole)) is not None:
        whole = inner
    if whole is bound[0]:
        return []
    others = [
        place
        for place in site.places_of(group.number, function)
        if not any(place in set(walk(cut.node)) for cut in group.cuts)
        and (group.choice is None or place not in set(walk(group.choice)))
    ]
    if len(others) > 1:  # the binding itself
        raise Refusal(f"`{group.number}` is used as a number, too")
    return [(bound[0], code(whole))]


def _read(node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=inner)]):
            return inner
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
            return inner
    return None


def _bindings(function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(cst.Name(bound))], value=value) if (
                bound == name
            ):
                found.append(value)
            case cst.AssignTarget() | cst.AugAssign() | cst.NamedExpr() | cst.For():
                if name in activity(node).bound and not isinstance(node.target, cst.Name):
                    return []
                if isinstance(node, cst.AugAssign | cst.NamedExpr | cst.For) and (
                    name == code(node.target)
                ):
                    return []
    return found


def _is_count(site: Site, node: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    """Whether a number is at least 0, as it counts where a condition holds."""
    inner = _read(node)
    if inner is not None:
        return _is_count(site, inner, function)
    torch = torch_name(site)
    match node:
        case cst.Name(name):
            bound = _bindings(function, name)
            return len(bound) == 1 and _is_count(site, bound[0], function)
        case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(method)), args=args):
            if code(receiver) == torch and args:
                receiver = args[0].value
            if method in ("sum", "count_nonzero"):
                return method == "count_nonzero" or _is_mask(site, receiver, function)
            if method in ("max", "min", "long", "int", "amax", "amin"):
                return _is_count(site, receiver, function)
    return False


def _is_mask(site: Site, node: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    fact = site.fact(node)
    if fact is not None and fact.is_tensor and fact.dtype == "torch.bool":
        return True
    bound = _bindings(function, node.value) if isinstance(node, cst.Name) else [node]
    return bool(bound) and all(isinstance(value, cst.Comparison) for value in bound)
