"""``if i == n - 1: save(x)``: what a loop does in its first or last round alone."""

from __future__ import annotations

import ast
import re
from typing import Any

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.attributes import bound_once
from gbfix.analysis.exits import exits
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Site

from ..control_flow.texts import NamesOnly
from .halves import CannotSplit
from .rounds import Moved, loop_around, own_containers, rebuilt

_GROWS = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "register_module"})


def edge_round(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> Moved:
    """The text in which the first or last round's statements stand before or behind the loop.

    Raises `CannotSplit` where that is not right.
    """
    chain = [node, *site.ancestors(node)]
    branch = next((part for part in chain if isinstance(part, cst.If)), None)
    if (
        branch is None
        or branch.orelse is not None
        or not isinstance(branch.body, cst.IndentedBlock)
    ):
        raise CannotSplit("it does not stand in a round of its own")
    loop = loop_around(site, function, branch)
    counter, bound, others = _header(site, loop)
    _check(site, function, loop, counter, bound, others)
    of_items = isinstance(loop.target, cst.Tuple)
    body = list(loop.body.body)
    test = _plain(branch.test)
    rounds = bound
    last = {f"{counter}=={rounds}-1", f"{rounds}-1=={counter}", f"{counter}+1=={rounds}"}
    always = rounds.isdigit() and int(rounds) > 0
    if always:
        last.add(f"{counter}=={int(rounds) - 1}")
    first = {f"{counter}==0", f"0=={counter}", f"not{counter}", f"{counter}<1"}
    if len(body) > 1 and branch is body[-1] and test in last:
        value, at_end = (str(int(rounds) - 1) if always else f"{rounds} - 1"), True
    elif len(body) > 1 and branch is body[0] and test in first:
        value, at_end = "0", False
        # The original never asks a bare name for its length: next time it may be a generator.
        if of_items and "." not in rounds:
            raise CannotSplit("what it goes through may have no length")
    else:
        raise CannotSplit("neither the first round nor the last")
    inside = activity(branch.body)
    if inside.reads & others:
        raise CannotSplit("it needs what the loop binds")
    if counter in inside.writes | inside.mutates | inside.captures:
        raise CannotSplit("the counter changes")

    moved = branch.body.visit(_Counter(counter, value))
    assert isinstance(moved, cst.IndentedBlock)
    once: list[Any] = (
        list(moved.body) if always else [branch.with_changes(test=_guard(rounds), body=moved)]
    )
    once[0] = once[0].with_changes(leading_lines=(*branch.leading_lines, *_lines(once[0], always)))
    rest = body[:-1] if at_end else body[1:]
    kept = loop.with_changes(body=loop.body.with_changes(body=rest))
    edit = site.edit()
    if at_end:
        edit.replace(loop, kept, *once)
    else:
        once[0] = once[0].with_changes(leading_lines=(*loop.leading_lines, *once[0].leading_lines))
        edit.replace(loop, *once, kept.with_changes(leading_lines=()))
    new, new_function, found = rebuilt(site, function, edit, loop)
    wanted = code(_written_out(node, counter, value)).strip()
    loops = [part for part in found if isinstance(part, cst.For)]
    within = {part for item in loops for part in walk(item) if at_end is (item is loops[0])}
    places = [part for part in found if part not in within and code(part).strip() == wanted]
    if not places:
        raise CannotSplit("the new text was not found again")
    title = f"move what the {'last' if at_end else 'first'} round does out of the loop"
    return Moved(new, new_function, title, node=places[0])


def _header(site: Site, loop: cst.For) -> tuple[str, str, frozenset[str]]:
    """The counter, the text of how many rounds there are, and the other names that it binds."""
    match loop.iter:
        case cst.Call(args=[cst.Arg(keyword=None, star="", value=value)]):
            name = resolve(site.module, loop.iter.func, at=loop)
        case _:
            raise CannotSplit("no counted loop")
    match loop.target:
        case cst.Name(counter) if name == "builtins.range":
            return counter, _plain(value), frozenset()
        case cst.Tuple(elements=[cst.Element(cst.Name(counter)), element]) if (
            name == "builtins.enumerate" and dotted(value) is not None
        ):
            bound = activity(element.value).reads | {
                part.value for part in walk(element) if isinstance(part, cst.Name)
            }
            return counter, f"len({code(value)})", frozenset(bound)
    raise CannotSplit("no counted loop")


def _check(
    site: Site,
    function: cst.FunctionDef,
    loop: cst.For,
    counter: str,
    bound: str,
    others: frozenset[str],
) -> None:
    if loop.orelse is not None:
        raise CannotSplit("something comes between")
    ways = exits(loop.body)
    if ways.jumps or ways.yields or ways.awaits or _continues(loop):
        raise CannotSplit("the loop may be left early")
    inside = activity(loop.body)
    if ({counter} | others) & (inside.writes | inside.deletes) or counter in others:
        raise CannotSplit("the counter changes")
    inner = re.fullmatch(r"len\(([\w.]+)\)|([\w.]+)", bound)
    if inner is None:
        raise CannotSplit("the number of rounds may change")
    name = inner.group(1) or inner.group(2)
    if name.isdigit():
        return
    root, _, attribute = name.rpartition(".")
    used = inside.writes | inside.deletes | inside.mutates
    if not root:
        sized = inner.group(1) is not None
        passed = [part for part in walk(loop.body) if _is_handed_on(site, part, name)]
        if name not in function_scope(function).locals or name in used:
            raise CannotSplit("the number of rounds may change")
        if sized and (passed or _changes_list(function, loop, name)):
            raise CannotSplit("the number of rounds may change")
        return
    if root in inside.writes | inside.deletes:
        raise CannotSplit("the number of rounds may change")
    texts = [site.source, *site.sources.values()]
    if "." in root or not bound_once(texts, attribute) or _grows(texts, attribute):
        raise CannotSplit("the number of rounds may change")


def _continues(loop: cst.For) -> bool:
    return any(isinstance(part, cst.Break | cst.Continue) for part in walk(loop.body))


def _is_handed_on(site: Site, part: cst.CSTNode, name: str) -> bool:
    """Whether a list is read for anything but its length."""
    if not isinstance(part, cst.Name) or part.value != name:
        return False
    holder = site.parent(site.parent(part) or part)
    return not (isinstance(holder, cst.Call) and code(holder) == f"len({name})")


def _changes_list(function: cst.FunctionDef, loop: cst.For, name: str) -> bool:
    """Whether the loop changes what may be the list ``name``, under another name."""
    inside = activity(loop.body)
    if inside.mutates_unknown:
        return True
    alone = own_containers(function)
    return name in activity(function.body).writes or bool(inside.mutates - alone)


def _grows(texts: list[str], attribute: str) -> bool:
    """Whether a method of the list is called, other than where the object is made."""
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef) or node.name == "__init__":
                continue
            for part in ast.walk(node):
                match part:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Attribute(attr=name), attr=method)
                    ) if name == attribute and method in _GROWS:
                        return True
                    case ast.Subscript(
                        value=ast.Attribute(attr=name), ctx=ast.Store() | ast.Del()
                    ) if name == attribute:
                        return True
    return False


def _guard(rounds: str) -> cst.BaseExpression:
    return cst.parse_expression(f"{rounds} > 0")


def _lines(first: cst.BaseStatement, always: bool) -> tuple[cst.EmptyLine, ...]:
    """The comment lines of what was the block's first statement, where the block is gone."""
    return tuple(first.leading_lines) if always else ()  # type: ignore[attr-defined]


def _written_out(node: cst.CSTNode, name: str, value: str) -> cst.CSTNode:
    new = node.visit(_Counter(name, value))
    assert isinstance(new, cst.CSTNode)
    return new


def _plain(node: cst.BaseExpression) -> str:
    return re.sub(r"\s+", "", code(node))


class _Counter(NamesOnly):
    """Writes the counter's value out."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__()
        self._name = name
        self._value = value

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if updated_node.value != self._name:
            return updated_node
        value = cst.parse_expression(self._value)
        if isinstance(value, cst.Integer):
            return value
        return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
