"""Under which names a program holds one object, and where it is handed to what nobody knows."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.side_effects.readers import Shared

_START = """
class Table:
    def __init__(self, columns, *more):
        self.columns = columns

    def show(self):
        for column in self.columns:
            self.last = column
            print(column)

class Plain:
    def __init__(self, columns):
        self.kept = columns

class Lesson:
    def __init__(self):
        self.hits = Mean()
        {}
"""


def _shared(line: str) -> Shared:
    return Shared([textwrap.dedent(_START).format(line)])


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("self.table = Plain([self.hits])", {".kept"}),
        ("self.table = Plain((1, [self.hits]))", {".kept"}),
        ("self.all = [self.hits]", {".all"}),
        ("columns = self.hits; self.table = Plain(columns)", {".kept"}),
        ("self.columns = [self.hits]", {".columns", ".last"}),
        ("self.columns = list([self.hits])", {".columns", ".last"}),
        ("for _, it in enumerate([self.hits]): self.best = it", {".best"}),
        ("self.kept = [self.hits]; self.first = self.kept[0]", {".kept", ".first"}),
        ("self.kept = {}; self.kept['hits'] = self.hits", {".kept"}),
        ("print(self.hits, str(self.hits))", set()),
        ("self.hits.add(1)", set()),
    ],
)
def test_an_object_is_followed_to_its_other_names(line: str, others: set[str]) -> None:
    shared = _shared(line)
    assert not shared.escapes(".hits")
    assert shared.names(frozenset({".hits"})) >= {".hits"} | others


@pytest.mark.parametrize(
    "line",
    [
        "self.table = Table(1, self.hits)",
        "self.table = elsewhere(self.hits)",
        "self.table = {'hits': self.hits}",
        "self.table = Plain(*[self.hits])",
        "self.get = lambda: self.hits",
        "self.kept = [self.hits]; self.some = self.kept[:1]",
        "self.table = Plain([self.hits]); table.append(self.hits)",
    ],
)
def test_what_has_no_name_is_said_to_be_handed_on(line: str) -> None:
    assert _shared(line).escapes(".hits")


def test_a_second_name_may_be_handed_on_as_well() -> None:
    text = textwrap.dedent(_START).format("self.kept = Plain(self.hits)")
    assert not Shared([text]).escapes(".hits")
    assert Shared([f"{text}\n    def columns_of(self):\n        return self.kept\n"]).escapes(
        ".hits"
    )
