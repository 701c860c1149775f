"""Collects facts from an instrumented program (see `gbfix.worker.instrument`)."""

from __future__ import annotations

import dataclasses
import inspect
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gbfix.schema import Fact, FrameFacts, Span
from gbfix.worker.protocol import FactsSeen
from gbfix.worker.tracing import characters
from gbfix.worker.values import FactMaker, Project

Place = tuple[str, int, int, int, int]
#: A place in a hot loop tells nothing new after this many looks.
_ENOUGH = 24
_MISSING = object()


class FactLog:
    """The hooks that instrumented code calls, and what they saw.

    Facts are taken only while ``recording`` (the base call): varied inputs count for the truth of
    conditions, but what codemods decide on is what the user's program did.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._maker = FactMaker(project)
        self._expressions: dict[Place, Fact] = {}
        self._held: dict[Place, Fact] = {}
        self._locals: dict[tuple[str, int], dict[str, Fact]] = {}
        self._executed: dict[tuple[str, int], int] = {}
        self._looks: dict[Place, int] = {}
        self.outcomes: dict[tuple[str, int, int], list[int]] = {}
        self.recording = True

    def see(self, place: Place, value: Any) -> Any:
        if torch.compiler.is_compiling():
            return value
        if self.recording and self._looks.get(place, 0) < _ENOUGH:
            self._looks[place] = self._looks.get(place, 0) + 1
            fact = self._maker.fact(value)
            old = self._expressions.get(place)
            self._expressions[place] = fact if old is None else old.merged(fact)
        return value

    def held(self, places: Sequence[tuple[tuple[str, ...], Place]], owner: Any) -> None:
        """Note what attributes hold when a function begins, for those that no call comes to read.

        Their values may be others where the code would read them: the kind is kept, no value.
        """
        if not self.recording or torch.compiler.is_compiling():
            return
        for names, place in places:
            if place in self._expressions or self._looks.get(place, 0) >= _ENOUGH:
                continue
            value = owner
            for name in names:
                value = _stored(value, name)
            if value is not _MISSING:
                fact = _without_values(self._maker.fact(value))
                old = self._held.get(place)
                self._held[place] = fact if old is None else old.merged(fact)

    def locals(self, place: Place, names: Mapping[str, Any]) -> None:
        if not self.recording:
            return
        key = (place[0], place[1])
        count = self._executed.get(key, 0)
        self._executed[key] = count + 1
        if count >= _ENOUGH:
            return
        facts = {name: self._maker.fact(value) for name, value in names.items()}
        old = self._locals.get(key)
        if old is None:
            self._locals[key] = facts
            return
        for name, fact in facts.items():
            old[name] = old[name].merged(fact) if name in old else fact

    def test(self, place: Place, value: Any) -> Any:
        """Note the truth of a condition; the value goes on unchanged."""
        seen = self.outcomes.setdefault((place[0], place[1], place[2]), [0, 0])
        try:
            seen[1 if bool(value) else 0] += 1
        except Exception:
            # The program's own evaluation raises the same, where it belongs.
            return value
        return value

    def seen(self, path: str, line: int) -> FactsSeen:
        """All facts about one file, with columns in characters."""
        expressions: dict[Span, Fact] = {}
        for (name, row, column, end_row, end_column), fact in {
            **self._held,
            **self._expressions,
        }.items():
            if name == path:
                expressions[_span(path, row, column, end_row, end_column)] = fact
        return FactsSeen(
            path,
            line,
            FrameFacts(
                expressions,
                {row: facts for (name, row), facts in self._locals.items() if name == path},
                {row: count for (name, row), count in self._executed.items() if name == path},
            ),
            {
                (row, characters(linecache.getline(path, row), column) or 0): (no, yes)
                for (name, row, column), (no, yes) in self.outcomes.items()
                if name == path
            },
        )


def _without_values(fact: Fact) -> Fact:
    """A fact of which the kind is known alone, and so of what it holds."""
    items = None if fact.items is None else tuple(map(_without_values, fact.items))
    each = None if fact.each is None else _without_values(fact.each)
    return dataclasses.replace(fact, value=None, constant=False, items=items, each=each)


def _stored(owner: Any, name: str) -> Any:
    """What an object stores under a name, without running any code of its class."""
    if owner is _MISSING:
        return owner
    kept = getattr(owner, "__dict__", {})
    if name in kept:
        return kept[name]
    if isinstance(owner, torch.nn.Module):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in kept.get(table, ()):
                return kept[table][name]
    value = inspect.getattr_static(owner, name, _MISSING)
    return value if isinstance(value, bool | int | float | str | tuple) else _MISSING


def _span(path: str, row: int, column: int, end_row: int, end_column: int) -> Span:
    first = characters(linecache.getline(path, row), column) or 0
    last = characters(linecache.getline(path, end_row), end_column) or 0
    return Span(row, first, end_row, last)


def force(value: Any, wanted: bool) -> Any:
    """A value of the same shape whose truth is ``wanted``; traced by Dynamo like user code."""
    if isinstance(value, torch.Tensor):
        if wanted:
            return torch.logical_or(value, torch.ones_like(value))
        return torch.logical_and(value, torch.zeros_like(value))
    return wanted


def size(value: Any, kind: str, one: bool) -> Any:
    """A value of the same shape and dtype of which the data makes 1, or 0; traced like user code.

    Of a ``number`` that is the value itself, of several ``numbers`` the first, and the last makes
    up for it: they may be the sizes of parts.  Of a ``mask`` (or what is asked where it is not
    zero) it is how many it picks.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if kind == "numbers":
        if value.numel() < 2:
            return torch.full_like(value, 1 if one else 0)
        numbers = value.reshape(-1)
        first = torch.full_like(numbers[:1], 1 if one else 0)
        last = numbers[-1:] + numbers[:1] - first
        return torch.cat([first, numbers[1:-1], last]).reshape(value.shape)
    if kind == "number":
        return torch.full_like(value, 1 if one else 0)
    if not one:
        return torch.zeros_like(value)
    first = torch.arange(value.numel(), device=value.device).reshape(value.shape) == 0
    return first.to(value.dtype)
