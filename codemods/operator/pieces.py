"""Which piece of the code becomes an operator: an expression, a run of statements, a helper.

From the break outward: expressions around it, the statement, its neighbours, the whole function,
then the same around the call of that function, up to the region.  A piece that begins with values
read from tensors grows to where they are read; one that ends with lists grows to where they become
tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.activity import Activity, activity, params_of
from gbfix.analysis.binding import states
from gbfix.analysis.kinds import infer
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site
from gbfix.schema import Fact, Frame

from ..control_flow.values import Share, Values
from .data import data_names, is_data, sized_names
from .inputs import Collector, Inputs, NeedsAfter, NeedsBefore, Refused
from .memory import augmented_tensors
from .results import (
    Carries,
    Result,
    carried,
    is_part_of_rounded,
    returned_results,
    single_result,
    written_results,
)


@dataclasses.dataclass(frozen=True)
class Level:
    """One function of the call chain, and the place in it that leads to the break."""

    site: Site
    function: cst.FunctionDef
    data: frozenset[str]
    #: Tensors whose sizes the data decides: a graph has no place for them by default.
    sized: frozenset[str] = frozenset()
    #: The break lies in what the site's call calls: its arguments are computed without one.
    outer: bool = False

    @property
    def broken(self) -> cst.CSTNode:
        """What cannot stay in the graph."""
        node = self.site.node
        return node.func if self.outer and isinstance(node, cst.Call) else node


@dataclasses.dataclass
class Piece:
    """What moves: one expression, or whole statements of one block."""

    level: Level
    nodes: tuple[cst.CSTNode, ...]
    inputs: Inputs
    results: tuple[Result, ...]
    #: The piece ends its function: what it returns is returned.
    returns: bool = False
    #: An expression of a later statement that the piece computes, too: its result.
    tail: cst.BaseExpression | None = None

    @property
    def is_expression(self) -> bool:
        return isinstance(self.nodes[0], cst.BaseExpression)


def levels(site: Site) -> list[Level]:
    """The functions from the break outward, each with the names that hold data there."""
    found: list[tuple[Site, cst.FunctionDef]] = []
    for view in _views(site):
        function = view.function
        if function is None or any(f.deep_equals(function) for _, f in found):
            continue
        found.append((view, function))
    # Data flows inward: from the region's own arguments, which hold none.
    given: frozenset[str] = frozenset()
    made: list[Level] = []
    for number in range(len(found) - 1, -1, -1):
        view, function = found[number]
        data = data_names(view, function, given)
        made.append(Level(view, function, data, sized_names(view, function), outer=number > 0))
        if number:
            given = _handed_data(view, data, found[number - 1][1])
    return made[::-1]


def _views(site: Site) -> Iterator[Site]:
    yield site
    frames = list(site.graph_break.frames)
    place = _index(frames, site.frame)
    for frame in reversed(frames[:place]):
        if frame.in_project:
            view = site.at(frame)
            if view is None:
                return
            yield view


def _index(frames: Sequence[Frame], wanted: Frame) -> int:
    for number in range(len(frames) - 1, -1, -1):
        if (frames[number].path, frames[number].line) == (wanted.path, wanted.line):
            return number
    return 0


def _handed_data(view: Site, data: frozenset[str], inner: cst.FunctionDef) -> frozenset[str]:
    """Parameters of the inner function that get data from the call at this level."""
    call = view.node
    if not isinstance(call, cst.Call):
        return frozenset()
    parameters = [param.name.value for param in params_of(inner.params)]
    if isinstance(call.func, cst.Attribute) and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    found = set()
    plain = [argument for argument in call.args if argument.keyword is None]
    for name, argument in zip(parameters, plain, strict=False):
        if is_data(view, argument.value, data):
            found.add(name)
    for argument in call.args:
        if argument.keyword is not None and is_data(view, argument.value, data):
            found.add(argument.keyword.value)
    return frozenset(found)


def pieces(site: Site, carries: Carries) -> Iterator[Piece | Refused]:
    """Pieces that can become an operator, the smallest of each level first.

    ``carries`` says what the results may be besides tensors without a gradient.
    """
    for level in levels(site):
        # What begins where such a tensor is made needs none of them to be passed.
        views = [dataclasses.replace(level, sized=frozenset())] if level.sized else []
        for view in (level, *views):
            for found in (_expressions, _runs):
                for piece in found(view, carries):
                    if isinstance(piece, Piece):
                        yield from _with_its_block(piece, carries)
                    yield piece


def _with_its_block(piece: Piece, carries: Carries) -> Iterator[Piece]:
    """The piece with a ``with torch.no_grad():`` of which it is all that there is.

    A graph that an exception leaves keeps the mode in which it was: nothing in it switches back.
    """
    level = piece.level
    site, function = level.site, level.function
    statements = [site.statement_of(piece.nodes[0])] if piece.is_expression else [*piece.nodes]
    holder = site.parent(site.parent(statements[0]) or statements[0])
    if piece.tail is not None or not isinstance(holder, cst.With):
        return
    if list(holder.body.body) != statements or not switches_gradients_off(holder):
        return
    block = site.parent(holder)
    body = list(getattr(block, "body", ()))
    if not isinstance(block, cst.IndentedBlock) or holder not in body:
        return
    place = body.index(holder)
    with contextlib.suppress(Refused):
        whole = _run(level, body, place, place, carries, whole=block is function.body)
        if _takes_no_gradients(whole):
            yield whole


def _takes_no_gradients(piece: Piece) -> bool:
    """Whether all tensors that go in can be detached: none in a list, none that is written to."""
    changed = activity(*piece.nodes).mutates
    return all(
        p.name not in changed and ("Tensor" not in p.annotation or p.annotation == "torch.Tensor")
        for p in piece.inputs.parameters
    )


def switches_gradients_off(node: cst.With) -> bool:
    """Whether the statement does nothing else: ``with torch.no_grad():``."""
    return node.asynchronous is None and all(
        item.asname is None and code(item.item) == "torch.no_grad()" for item in node.items
    )


# -- expressions -----------------------------------------------------------------------------------


def _expressions(level: Level, carries: Carries) -> Iterator[Piece | Refused]:
    site = level.site
    node: cst.CSTNode = site.node
    statement = site.statement_of(node)
    if not isinstance(statement, cst.SimpleStatementLine):
        return
    reason: Refused | None = None
    for candidate in (node, *site.ancestors(node)):
        if candidate is statement:
            break
        if isinstance(candidate, cst.Lambda):
            return
        if not isinstance(candidate, cst.Call | cst.ListComp | cst.Subscript | cst.BinaryOperation):
            continue
        if _in_comprehension(site, candidate, statement):
            continue
        if isinstance(site.parent(candidate), cst.Expr) and _works_in_place(candidate):
            return  # the statement moves: nobody takes what it gives
        try:
            yield _expression(level, candidate, carries)
            return
        except Refused as why:
            reason = why
    if reason is not None:
        yield reason


def _works_in_place(node: cst.BaseExpression) -> bool:
    """``scale.fill_(1)``: a method that changes its tensor."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            return name.endswith("_") and not name.endswith("__")
    return False


def _in_comprehension(site: Site, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether names that a comprehension binds may stand in the node."""
    for outer in site.ancestors(node):
        if outer is statement:
            return False
        if isinstance(outer, cst.BaseComp | cst.Lambda):
            return True
    return True


def _expression(level: Level, node: cst.BaseExpression, carries: Carries) -> Piece:
    site = level.site
    if any(isinstance(inner, cst.NamedExpr) for inner in walk(node)):
        raise Refused("it binds a name within an expression")
    if _is_traced(site, node):
        raise Refused("the compiler follows it")
    result = single_result(site, node, carries)
    facts = site.locals_before(site.statement_of(node))
    needed = _needed(level, node)
    collector = Collector(
        site, [node], needed=needed, data=level.data, facts=facts, cut=True, broken=level.broken,
        gradients=bool(carries & Carries.GRADIENTS), sized=level.sized,
    )  # fmt: skip
    inputs = collector.collect()
    return Piece(level, (node,), inputs, (result,))


def _is_traced(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is made of tensors' own methods alone, or gives an address."""
    calls = [inner for inner in walk(node) if isinstance(inner, cst.Call)]
    if any(code(call.func).endswith((".data_ptr", "id")) for call in calls[:1]):
        return True
    if not calls:
        return True
    for call in calls:
        fact = site.fact(call)
        if fact is None or not fact.is_tensor:
            return False
        if not isinstance(call.func, cst.Attribute):
            return False
        receiver = site.fact(call.func.value)
        if receiver is None or not receiver.is_tensor:
            return False
    return True


def _needed(level: Level, node: cst.CSTNode) -> frozenset[str]:
    return activity(node).reads & frozenset(_locals(level))


def _locals(level: Level) -> set[str]:
    from .inputs import local_names

    return set(local_names(level.site, level.function.body))


# -- statements ------------------------------------------------------------------------------------


def _runs(level: Level, carries: Carries) -> Iterator[Piece | Refused]:
    site, function = level.site, level.function
    statement: cst.CSTNode = site.statement_of(site.node)
    reason: Refused | None = None
    found = False
    while True:
        block = site.parent(statement)
        if block is None or isinstance(block, cst.Module):
            break
        body = getattr(block, "body", ())
        if isinstance(block, cst.IndentedBlock) and statement in body:
            whole, place = block is function.body, list(body).index(statement)
            try:
                piece = _grown(level, list(body), place, place, carries, whole=whole)
            except Refused as why:
                reason = why
            else:
                reason, found = None, True
                yield piece
                yield from _with_its_uses(piece, list(body), carries, whole=whole)
        if block is function.body:
            break
        owner = block
        while not isinstance(owner, cst.BaseCompoundStatement):
            up = site.parent(owner)
            if up is None:
                break
            owner = up
        if owner is function:
            break
        if found and isinstance(owner, cst.Try | cst.TryStar | cst.With):
            # What an operator does not take, its call refuses outside of the handlers; what a
            # context manager switches on or off stays in sight.
            break
        statement = owner
    if reason is not None:
        yield reason


def _with_its_uses(
    piece: Piece, body: list[cst.CSTNode], carries: Carries, *, whole: bool
) -> Iterator[Piece]:
    """The run with all that uses its whole numbers: sizes that nobody knows stay inside."""
    if piece.returns or piece.tail is not None:
        return
    names = {it.name for it in piece.results if it.is_number or it.dtype in _WHOLE}
    start, end = body.index(piece.nodes[0]), body.index(piece.nodes[-1])
    uses = [at for at in range(end + 1, len(body)) if activity(body[at]).reads & names]
    if uses:
        with contextlib.suppress(Refused):
            yield _grown(piece.level, body, start, uses[-1], carries, whole=whole)


_WHOLE = torch_names.INT_DTYPES | {"torch.bool"}


def _grown(
    level: Level, body: list[cst.CSTNode], start: int, end: int, carries: Carries, *, whole: bool
) -> Piece:
    """The smallest run around statements that can move; raises `Refused` where there is none."""
    for _ in range(2 * len(body) + 2):
        try:
            return _run(level, body, start, end, carries, whole=whole)
        except NeedsBefore as why:
            start = _earlier(body, start, why)
        except NeedsAfter as why:
            with contextlib.suppress(Refused):
                return _with_tail(level, body, start, end, why, carries)
            end = _later(body, end, why)
    raise Refused("no consecutive statements can move together")


def _with_tail(
    level: Level, body: list[cst.CSTNode], start: int, end: int, why: NeedsAfter, carries: Carries
) -> Piece:
    """The run, and of the next statement only the expression that makes a tensor of its lists, or
    reads a number out of its table.
    """
    site, function = level.site, level.function
    place = _later(body, end, why)
    user = body[place]
    if place != end + 1 or not isinstance(user, cst.SimpleStatementLine):
        raise Refused("a later statement uses it")
    run = tuple(body[start : end + 1])
    does = activity(*run)
    out = does.bound & live_after(function, run[-1])
    if out & live_after(function, user) or isinstance(why, NeedsAfterAll):
        raise Refused("other statements use it")
    if not any(isinstance(small, cst.Return | cst.Assign | cst.Expr) for small in user.body):
        raise Refused("it is used in place")
    places = [n for name in out for n in site.places_of(name, user)]
    chains = [[node, *site.ancestors(node)] for node in places]
    for candidate in chains[0] if chains else ():
        if candidate is user:
            break
        fact = _fact(site, candidate) if isinstance(candidate, cst.BaseExpression) else None
        if not isinstance(candidate, cst.BaseExpression) or not _ends_there(fact, carries):
            continue
        if fact is not None and fact.kind == "float" and is_part_of_rounded(site, candidate):
            continue
        if not all(candidate in chain for chain in chains) or _is_guarded(site, candidate, user):
            continue
        if isinstance(site.parent(candidate), cst.Assign | cst.Return):
            break  # the whole statement moves
        name = next(iter(sorted(out)))
        result = carried(name, fact, carries & Carries.NUMBERS, candidate)
        if result is None:
            break
        _check_jumps(run)
        nodes = (*run, candidate)
        needed = _live_in(level, run, site.locals_before(run[0])) | (
            _needed(level, candidate) - does.bound
        )
        collector = Collector(
            site, nodes, needed=needed, data=level.data, facts=site.locals_before(run[0]),
            cut=False, broken=level.broken, gradients=bool(carries & Carries.GRADIENTS),
            sized=level.sized,
        )  # fmt: skip
        _check_own(site, run)
        return Piece(level, run, collector.collect(), (result,), tail=candidate)
    raise Refused("nothing makes a tensor of it")


def _fact(site: Site, node: cst.BaseExpression) -> Fact | None:
    """What an expression was; of a tuple that is written out, what its items were."""
    fact = site.fact(node)
    if fact is None and isinstance(node, cst.Tuple):
        items = [site.fact(element.value) for element in node.elements]
        known = tuple(item for item in items if item is not None)
        if len(known) == len(items):
            return Fact("tuple", "tuple", items=known)
    return fact


def _ends_there(fact: Fact | None, carries: Carries) -> bool:
    """Whether a table or a list ends in a value: a tensor, or one of its numbers.

    Of a whole number it is not known whether another call would find a fraction there.
    """
    if fact is None:
        return False
    if fact.kind == "tuple":
        items = fact.items or ()
        return bool(items) and all(item.is_tensor for item in items)
    number = bool(carries & Carries.NUMBERS) and fact.kind in ("float", "bool")
    return fact.is_tensor or (number and fact.type == fact.kind)


def _is_guarded(site: Site, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    for outer in site.ancestors(node):
        if outer is statement:
            return False
        if isinstance(outer, cst.BaseComp | cst.Lambda | cst.IfExp | cst.BooleanOperation):
            return True
    return True


def _earlier(body: list[cst.CSTNode], start: int, why: NeedsBefore) -> int:
    for index in range(start - 1, -1, -1):
        does = activity(body[index])
        if why.names & (does.bound | does.mutates):
            return index
    raise why


def _later(body: list[cst.CSTNode], end: int, why: NeedsAfter) -> int:
    for index in range(end + 1, len(body)):
        if why.names & activity(body[index]).reads:
            return index
    raise why


def _run(
    level: Level, body: list[cst.CSTNode], start: int, end: int, carries: Carries, *, whole: bool
) -> Piece:
    site, function = level.site, level.function
    run = tuple(body[start : end + 1])
    _check_jumps(run)
    does = _check_own(site, run)
    returns = [node for node in walk(cst.IndentedBlock(list(run))) if isinstance(node, cst.Return)]  # type: ignore[arg-type]
    ends = bool(returns)
    last = run[-1]
    bare = all(node.value is None for node in returns)
    at_end = whole and end == len(body) - 1
    if ends and not (at_end and (bare or _always_returns(last))):
        raise Refused("it may return early") if not whole else NeedsAfterAll(body, end)
    facts: Mapping[str, Fact] = site.locals_before(run[0])
    live_in = _live_in(level, run, facts)
    kept: frozenset[str] = frozenset()
    if ends:
        # The declaration stands before the run, and its names are no results of it.
        if does.bound & states(function).declared_outside:
            raise Refused("it binds names of an outer function")
        results = () if bare else returned_results(site, returns, carries)
    else:
        out = frozenset(does.bound & live_after(function, last))
        results = written_results(site, run, out, carries)
        # What the run may leave as it was.
        kept = out - _surely_bound(run)
        unsure = (kept & facts.keys()) - definitely_bound_before(function, run[0])
        if unsure:
            raise NeedsBefore(unsure)  # in other calls, there may be nothing to pass
        kept &= definitely_bound_before(function, run[0])
    collector = Collector(
        site, run, needed=frozenset(live_in), data=level.data, facts=facts,
        cut=False, broken=level.broken, gradients=bool(carries & Carries.GRADIENTS),
            sized=level.sized,
    )  # fmt: skip
    piece = Piece(level, run, collector.collect(kept), results, ends)
    lists = any(leaf.kind == "list" for result in results for leaf in result.leaves())
    if lists or carries & Carries.GRADIENTS:
        changed = _changed_own(piece, does, body[:start])
        if changed:
            raise NeedsBefore(changed)
    for result in piece.results:
        if is_filled(piece, result) and not _is_only_added(level, result, last):
            raise Refused(f"`{result.name}` is a number in other calls")
    return piece


def _changed_own(piece: Piece, does: Activity, before: Sequence[cst.CSTNode]) -> frozenset[str]:
    """Tensors that the piece changes and that the function has made shortly before: with the line
    that makes them in it as well, they are results, and nothing is changed.

    Torch functionalizes nothing that changes tensors and gives lists, and no gradient goes through
    what an operator writes into a tensor that it was given.
    """
    own = {
        p.name
        for p in piece.inputs.parameters
        if p.given == p.name and p.annotation == "torch.Tensor"
    }
    values = Values(piece.level.site)
    return frozenset(name for name in own & does.mutates if _is_made_new(name, before, values))


def _is_made_new(name: str, before: Sequence[cst.CSTNode], values: Values) -> bool:
    """Whether the last line of the block that binds the name makes a tensor: ``x = y.clone()``.

    Lines between may change it; they come along.
    """
    for line in reversed(before):
        if name not in activity(line).bound:
            continue
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(bound))], value=value)]
            ):
                return bound == name and values.share(value, frozenset()) is Share.FRESH
        return False
    return False


def is_filled(piece: Piece, result: Result) -> bool:
    """Whether a tensor that a piece gives may be the number that the name had before."""
    kinds = {it.given: it.fact.kind for it in piece.inputs.parameters}
    return result.kind == "tensor" and kinds.get(result.name) in ("int", "float")


def _is_only_added(level: Level, result: Result, last: cst.CSTNode) -> bool:
    """Whether all that becomes of a result is that it is added to tensors as large as it is.

    Then a number does the same as a tensor that is filled with it.
    """
    site = level.site
    end = site.span(last).end_line
    if result.fact.dtype not in torch_names.FLOAT_DTYPES:
        return False  # another number may be a fraction
    for place in site.places_of(result.name, level.function.body):
        if site.span(place).line <= end:
            continue
        match site.parent(place):
            case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
                other = right if left is place else left
            case cst.AugAssign(
                target=target, operator=cst.AddAssign() | cst.SubtractAssign(), value=value
            ) if value is place:
                other = target
            case _:
                return False
        fact = infer(other, site.fact)
        if fact is None or not fact.is_tensor or fact.dtype != result.fact.dtype:
            return False
        if fact.shape is None or fact.shape != result.fact.shape:
            return False
    return True


def _surely_bound(run: Sequence[cst.CSTNode]) -> frozenset[str]:
    """The names that a run binds whichever way it takes."""
    end = cst.SimpleStatementLine([cst.Pass()])
    body = cst.IndentedBlock([*run, end])  # type: ignore[list-item]
    scope = cst.FunctionDef(cst.Name("_"), cst.Parameters(), body)
    return frozenset(definitely_bound_before(scope, end))


def _live_in(level: Level, run: Sequence[cst.CSTNode], facts: Mapping[str, Fact]) -> frozenset[str]:
    """Local names whose value the run takes from before it."""
    scope = cst.FunctionDef(cst.Name("_"), cst.Parameters(), cst.IndentedBlock(list(run)))  # type: ignore[arg-type]
    found = live_before(scope, run[0]) & frozenset(_locals(level))
    certain = definitely_bound_before(level.function, run[0])
    return frozenset(name for name in found if name in certain or name in facts)


def _check_own(site: Site, run: Sequence[cst.CSTNode]) -> Activity:
    does = activity(*run)
    if does.dynamic or does.global_writes or does.globals or does.nonlocals or does.closure_writes:
        raise Refused("it binds names of an outer function, or looks at its own frame")
    for text in sorted(does.attribute_writes - augmented_tensors(site, run)):
        raise Refused(f"it sets `{text}`")
    return does


class NeedsAfterAll(NeedsAfter):
    """A run that returns somewhere inside must go on to the end of its function."""

    def __init__(self, body: list[cst.CSTNode], end: int) -> None:
        if end == len(body) - 1:
            raise Refused("it may return early")
        names = activity(body[end + 1]).reads or frozenset({code(body[end + 1])})
        super().__init__(frozenset(names))
        self.args = ("it may return early",)


def _always_returns(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.SimpleStatementLine):
        return isinstance(node.body[-1], cst.Return | cst.Raise)
    if isinstance(node, cst.If):
        orelse = node.orelse
        inner = orelse.body if isinstance(orelse, cst.Else) else orelse
        return orelse is not None and _ends(node.body) and inner is not None and _ends(inner)
    if isinstance(node, cst.With):
        return _ends(node.body)
    return False


def _ends(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.IndentedBlock):
        return _always_returns(node.body[-1])
    return _always_returns(node)


def _check_jumps(run: Sequence[cst.CSTNode]) -> None:
    for statement in run:
        stack: list[tuple[cst.CSTNode, bool]] = [(statement, False)]
        while stack:
            node, inside = stack.pop()
            if isinstance(node, cst.Break | cst.Continue) and not inside:
                raise Refused("it leaves an outer loop")
            if isinstance(node, cst.Yield | cst.Await | cst.Del):
                raise Refused("it yields or awaits, or deletes names")
            if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.NamedExpr):
                raise Refused("it defines a function, or binds a name within an expression")
            if isinstance(node, cst.Import | cst.ImportFrom):
                raise Refused("it imports")
            loop = inside or isinstance(node, cst.For | cst.While)
            stack += [(child, loop) for child in node.children]
