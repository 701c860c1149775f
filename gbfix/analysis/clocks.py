"""Attributes that hold times: what a program keeps of its clocks is another number in every run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gbfix.analysis.tree import words

_CLOCKS = words(
    """time perf_counter monotonic process_time thread_time time_ns perf_counter_ns monotonic_ns
    process_time_ns default_timer now utcnow elapsed_time"""
)
_MODULES = frozenset({"time", "timeit", "datetime", "dt"})
_NUMBERS = frozenset({"round", "float", "int", "max", "min", "abs"})
_ADDING = frozenset({"append", "add", "update", "extend", "insert"})


def time_attributes(texts: Iterable[str]) -> frozenset[str]:
    """Names of attributes that get nothing but times outside of ``__init__``, in all the texts.

    A time is what a clock gives, and what is computed from times and written numbers alone.
    """
    times: set[str] = set()
    others: set[str] = set()
    for text in texts:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for name, is_time in _attributes(node):
                    if is_time:
                        times.add(name)
                    elif node.name != "__init__":
                        others.add(name)
    return frozenset(times - others)


def asks_clock(text: str) -> bool:
    """Whether code reads a clock."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Call) and _is_clock(node) for node in ast.walk(tree))


def _attributes(function: ast.AST) -> Iterator[tuple[str, bool]]:
    """Attributes that a function sets or adds to, and whether what they get is a time."""
    held: set[str] = set()
    while True:
        more = {
            name
            for targets, value in _bindings(function)
            if _is_time(value, held)
            for target in targets
            for name in _names(target)
        } - held
        if not more:
            break
        held |= more
    for targets, value in _bindings(function):
        for target in targets:
            attribute = _attribute(target)
            if attribute:
                yield attribute, _is_time(value, held) and _holds_nothing_else(value, held)


def _bindings(function: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _in_pairs(target, value)
            case ast.AugAssign(target=target, value=value):
                yield [target], value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield [target], value
            case ast.Call(func=ast.Attribute(value=receiver, attr=attr), args=[*_, value]):
                if attr in _ADDING:
                    yield [receiver], value


def _in_pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """``a, b = x, y`` as what each of them gets."""
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            if not any(isinstance(part, ast.Starred) for part in (*targets, *values)):
                for one, its in zip(targets, values, strict=True):
                    yield from _in_pairs(one, its)
                return
    yield [target], value


def _is_time(node: ast.expr, held: set[str]) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.Call() if _is_clock(part):
                return True
            case ast.Name(id=name) if name in held:
                return True
            case ast.Attribute(attr=attr) if "." + attr in held:
                return True
    return False


def _is_clock(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=owner, attr=attr) if attr in _CLOCKS:
            return attr == "elapsed_time" or bool(_MODULES & {*ast.unparse(owner).split(".")})
        case ast.Name(id=name):
            return name in _CLOCKS - {"time", "now"}
    return False


def _holds_nothing_else(node: ast.expr, held: set[str]) -> bool:
    """Whether only times and numbers that are written out go into a value."""
    clocks: set[ast.AST] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and _is_clock(part):
            clocks |= set(ast.walk(part))
    for part in ast.walk(node):
        if part in clocks:
            continue
        if isinstance(part, ast.Name) and part.id not in held | {"self"} | _NUMBERS:
            return False
        if isinstance(part, ast.Attribute) and "." + part.attr not in held:
            return False
    return True


def _names(target: ast.expr) -> Iterator[str]:
    """Names that a target binds, attributes with a point."""
    if isinstance(target, ast.Name):
        yield target.id
    elif attribute := _attribute(target):
        yield "." + attribute


def _attribute(target: ast.expr) -> str:
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.attr if isinstance(target, ast.Attribute) else ""
