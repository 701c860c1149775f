"""``k = scale.item()`` in a loop: what is the same in all rounds."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.attributes import bound_once
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_after, live_before
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Site

from .halves import CannotSplit
from .rounds import Moved, loop_around, own_containers, rebuilt

_SIZED = frozenset({"list", "tuple", "module"})


def shared_value(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> Moved:
    """The text in which what all rounds compute alike is computed once, before the loop.

    Raises `CannotSplit` where that is not right.
    """
    line = site.statement_of(node)
    loop = loop_around(site, function, line)
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
        ):
            pass
        case _:
            raise CannotSplit("it does more than to bind a name")
    body = list(cst.ensure_type(loop.body, cst.IndentedBlock).body)
    before = cst.IndentedBlock(body[: body.index(line)])
    rest = cst.IndentedBlock([part for part in body if part is not line])
    _check_value(site, function, loop, value, rest)
    _check_name(function, loop, name, before, rest)

    guard = _guard(site, function, loop)
    moved = value if guard is None else _or_none(value, guard)
    assert isinstance(line, cst.SimpleStatementLine)
    assign = cst.ensure_type(line.body[0], cst.Assign).with_changes(value=moved)
    comments = [part for part in line.leading_lines if part.comment is not None]
    above = line.with_changes(leading_lines=[*loop.leading_lines, *comments], body=[assign])
    kept = loop.with_changes(leading_lines=(), body=loop.body.with_changes(body=rest.body))
    edit = site.edit()
    edit.replace(loop, above, kept)
    new, new_function, found = rebuilt(site, function, edit, loop)
    loops = [part for part in found if isinstance(part, cst.For)]
    within = set(walk(loops[0])) if loops else set()
    wanted = code(node).strip()
    places = [part for part in found if part not in within and code(part).strip() == wanted]
    if not places:
        raise CannotSplit("the new text was not found again")
    return Moved(
        new, new_function, "compute before the loop what all iterations share", node=places[0]
    )


def _check_value(
    site: Site,
    function: cst.FunctionDef,
    loop: cst.For,
    value: cst.BaseExpression,
    rest: cst.IndentedBlock,
) -> None:
    """Whether it is the same value in every round, and nothing else than a value."""
    if not rest.body:
        raise CannotSplit("nothing else is done in the loop")
    what, others = activity(value), activity(rest)
    if not effects_of(value, site.fact).pure or what.writes or what.dynamic:
        raise CannotSplit("it does more than to compute a value")
    changed = others.writes | others.deletes | activity(loop.target, loop.iter).writes
    if what.reads & changed:
        raise CannotSplit("it is another value in each round")
    if _changes_objects(others, own_containers(function)) or effects_of(rest, site.fact).unknown:
        raise CannotSplit("the loop may change what it is made of")


def _changes_objects(what: Activity, own: frozenset[str]) -> bool:
    elsewhere = what.attribute_writes or what.global_writes or what.closure_writes or what.dynamic
    return bool(what.mutates - own or what.mutates_unknown or elsewhere)


def _check_name(
    function: cst.FunctionDef,
    loop: cst.For,
    name: str,
    before: cst.IndentedBlock,
    rest: cst.IndentedBlock,
) -> None:
    """Whether nobody sees that the name is bound earlier, or without any round."""
    first = cst.ensure_type(loop.body, cst.IndentedBlock).body[0]
    if name not in function_scope(function).locals or name in activity(function.body).captures:
        raise CannotSplit("others may read the name")
    if name in live_before(function, first) | live_after(function, loop):
        raise CannotSplit("an earlier value of the name is read")
    header = activity(loop.target, loop.iter)
    others = activity(rest)
    if name in others.writes | others.deletes | header.writes | header.reads:
        raise CannotSplit("the name is bound elsewhere")
    ways = exits(before)
    if ways.any or activity(before).mutates:
        raise CannotSplit("something comes before it")


def _guard(site: Site, function: cst.FunctionDef, loop: cst.For) -> str | None:
    """The text that tells whether there is a round; None where there always is one."""
    name, value = "", loop.iter
    match loop.iter:
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=value)]):
            name = resolve(site.module, func, at=loop) or "unknown"
    if name == "builtins.range":
        if isinstance(value, cst.Integer) and value.evaluated_value > 0:
            return None
        if dotted(_measured(site, value) or value) is None:
            raise CannotSplit("whether there is a round is not plain to see")
        return f"{code(value)} > 0"
    fact = site.fact(value)
    text = dotted(value) if name in ("", "builtins.enumerate") else None
    if text is None or fact is None or fact.kind not in _SIZED:
        raise CannotSplit("whether there is a round is not plain to see")
    texts = [site.source, *site.sources.values()]
    # A parameter may be a generator the next time, which has no length.
    if text.count(".") != 1 or not bound_once(texts, text.partition(".")[2]):
        raise CannotSplit("whether there is a round is not plain to see")
    return f"len({text}) > 0"


def _measured(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``x`` of ``len(x)``."""
    match node:
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=value)]):
            return value if resolve(site.module, func, at=site.node) == "builtins.len" else None
    return None


def _or_none(value: cst.BaseExpression, guard: str) -> cst.BaseExpression:
    if isinstance(value, cst.IfExp | cst.Lambda | cst.NamedExpr) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.IfExp(test=cst.parse_expression(guard), body=value, orelse=cst.Name("None"))
