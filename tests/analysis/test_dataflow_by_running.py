"""Liveness and binding against reality: random functions, instrumented and run."""

from __future__ import annotations

from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbfix.analysis.exits import ways_out
from gbfix.analysis.liveness import (
    definitely_bound_before,
    live_after,
    live_before,
    live_on_error,
    maybe_bound_before,
)
from gbfix.analysis.scopes import function_scope
from gbfix.analysis.tree import children, walk

from .programs import NAMES, Poison, Program, SwallowRaised, compiled, run

INPUTS = [(0, 1, 1), (1, 0, 2), (2, 2, 3), (1, 1, 4), (0, 0, 5)]


def parsed(seed: int) -> tuple[cst.Module, cst.FunctionDef] | None:
    """A random program, or None where Python itself refuses it."""
    source = Program(seed).source()
    try:
        compiled(source)
    except SyntaxError:
        return None
    module = cst.parse_module(source)
    function = module.body[0]
    assert isinstance(function, cst.FunctionDef)
    return module, function


def own_statements(node: cst.CSTNode) -> list[cst.BaseStatement]:
    """Statements at any depth that are not in a nested function."""
    found: list[cst.BaseStatement] = []
    for child in children(node):
        if isinstance(child, cst.BaseStatement):
            found.append(child)
        if not isinstance(child, cst.FunctionDef | cst.Lambda):
            found += own_statements(child)
    return found


class _Around(cst.CSTTransformer):
    """Puts statements before and after one statement (an ``elif`` cannot take them)."""

    def __init__(self, at: cst.CSTNode, before: str, after: str, on_error: str) -> None:
        super().__init__()
        self.at, self.before, self.after, self.on_error = at, before, after, on_error

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> Any:  # type: ignore[override]
        if original is not self.at:
            return updated
        before = [cst.parse_statement(self.before)] if self.before else []
        after = [cst.parse_statement(self.after)] if self.after else []
        if self.on_error:
            body = cst.IndentedBlock([updated])  # type: ignore[list-item]
            guarded = cst.parse_statement(f"try: pass\nexcept: {self.on_error}; raise")
            updated = guarded.with_changes(body=body)
        return cst.FlattenSentinel([*before, updated, *after])


def around(
    module: cst.Module,
    at: cst.CSTNode,
    *,
    before: str = "",
    after: str = "",
    on_error: str = "",
) -> str | None:
    changed = module.visit(_Around(at, before, after, on_error))
    try:
        compiled(changed.code)
    except SyntaxError:
        return None
    return changed.code


def is_elif(function: cst.FunctionDef, statement: cst.CSTNode) -> bool:
    return any(isinstance(node, cst.If) and node.orelse is statement for node in walk(function))


def assert_dead_names_do_not_matter(seed: int) -> None:
    program = parsed(seed)
    if program is None:
        return
    module, function = program
    own = function_scope(function).locals & set(NAMES)
    reference = {inputs: run(module.code, *inputs) for inputs in INPUTS}
    for statement in own_statements(function.body):
        if is_elif(function, statement):
            continue
        places = (
            ("before", live_before(function, statement)),
            ("after", live_after(function, statement)),
            ("on_error", live_on_error(function, statement)),
        )
        for place, live in places:
            dead = sorted(own - live)
            source = dead and around(
                module, statement, **{place: "; ".join(f"{name} = POISON" for name in dead)}
            )
            if not source:
                continue
            for inputs, expected in reference.items():
                alarm: list[str] = []
                result = run(source, *inputs, POISON=Poison(alarm))
                assert (result, alarm) == (expected, []), f"seed {seed}, {inputs}\n{source}"


def assert_bound_names_are_bounded(seed: int) -> None:
    program = parsed(seed)
    if program is None:
        return
    module, function = program
    for statement in own_statements(function.body):
        if is_elif(function, statement):
            continue
        source = around(module, statement, before="PROBE(locals())")
        assert source is not None
        seen: list[set[str]] = []
        for inputs in INPUTS:
            run(source, *inputs, PROBE=lambda names, seen=seen: seen.append(set(names)))
        definite = definitely_bound_before(function, statement)
        maybe = maybe_bound_before(function, statement)
        for names in seen:
            assert definite <= names, f"seed {seed}: {definite - names} unbound\n{source}"
            assert names <= maybe, f"seed {seed}: {names - maybe} bound\n{source}"


def assert_ways_out_cover_what_happens(seed: int) -> None:
    program = parsed(seed)
    if program is None:
        return
    module, function = program
    for statement in own_statements(function.body):
        if "fall" in ways_out(statement) or is_elif(function, statement):
            continue
        source = around(module, statement, after="PROBE()")
        assert source is not None
        for inputs in INPUTS:
            reached: list[int] = []
            probe = lambda reached=reached: reached.append(1)  # noqa: E731
            run(source, *inputs, PROBE=probe, swallow=SwallowRaised)
            assert not reached, f"seed {seed}: the end is reached\n{source}"


CHECKS = (
    assert_dead_names_do_not_matter,
    assert_bound_names_are_bounded,
    assert_ways_out_cover_what_happens,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_programs(check: Any, seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_many_random_programs(check: Any, seed: int) -> None:
    check(seed)
