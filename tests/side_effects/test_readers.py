"""Who reads what an operator changes: names in texts count as well."""

from __future__ import annotations

import pytest
from gbfix_codemods.side_effects.readers import (
    Shared,
    changed_in_place,
    holds_numbers,
    others_change,
    others_mention,
)

_CLASS = """
class Net:
    def __init__(self):
        self.every, self.calls = 3, 0

    def forward(self, x):
        self.calls += 1
        return x * self.scale()

    def scale(self):
        {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "return self.calls",
        "return getattr(self, 'calls', 0)",
        "return hasattr(self, 'calls')",
        "return attrgetter('net.calls')(self)",
        "return getattr(self, 'cal' + 'ls')",
        "return vars(self)['calls']",
    ],
)
def test_a_count_is_read_under_any_name(line: str) -> None:
    text = _CLASS.format(line).replace("        self.calls += 1\n", "")
    assert others_mention([text], frozenset({".calls"}), frozenset({"forward"}))


def test_what_nobody_reads_is_not_mentioned() -> None:
    text = _CLASS.format("return 2").replace("        self.calls += 1\n", "")
    assert not others_mention([text], frozenset({".calls"}), frozenset({"forward"}))


def test_a_change_by_name_is_one() -> None:
    text = _CLASS.format("setattr(self, 'limit', 4)\n        return 1")
    assert others_change([text], frozenset({".limit"}), frozenset({"forward"})) == ".limit"


def test_a_count_holds_numbers() -> None:
    assert holds_numbers([_CLASS.format("return 1")], ".calls")


@pytest.mark.parametrize(
    "line",
    [
        "self.calls = []",
        "self.calls = self.other",
        "setattr(self, 'calls', [])",
        "setattr(self, name, [])",
        "self.calls, x = pair",
        "for self.calls in range(3): pass",
        "with open(x) as self.calls: pass",
    ],
)
def test_what_may_be_no_number_does_not(line: str) -> None:
    assert not holds_numbers([_CLASS.format(line)], ".calls")


_WINDOW = """
class Window:
    def __init__(self, marks, size=3):
        self.kept = marks{}

    def weight(self, value):
        self.kept.append(value)


class Step:
    def __init__(self):
        self.alarms, self.others = [], []
        self.window = {}

    def forward(self, x):
        return x * len(self.alarms)
"""


@pytest.mark.parametrize(
    ("kept", "made", "shared"),
    [
        ("", "Window(self.alarms)", True),
        (" or []", "Window(size=2, marks=self.alarms)", True),
        ("", "Window(self.others)", False),
        ("", "Window([])", False),
        ("[:]", "Window(self.alarms)", False),  # a copy
    ],
)
def test_an_object_that_is_handed_on_has_two_names(kept: str, made: str, shared: bool) -> None:
    sources = [_WINDOW.format(kept, made)]
    held = changed_in_place(sources, frozenset({".kept", ".window"}))
    assert held == {".kept"}
    others = Shared(sources).names(held) - held
    assert (others_mention(sources, others, frozenset({"forward"})) == ".alarms") is shared


@pytest.mark.parametrize(
    ("body", "mentioned"),
    [
        ("weight = 2\n    return x * weight", False),
        ("return x * len(weight)", True),
        # The inner name is another one, and the outer one is read.
        ("def last(items):\n        weight = list(items)\n    return x * len(weight)", True),
        ("class Local:\n        weight = 3\n    return x * len(weight)", True),
        ("n = [weight for weight in (1, 2)]\n    return x * len(weight)", True),
        ("global weight\n    weight = 3\n    return x", True),
    ],
)
def test_a_local_name_is_no_mention_of_a_global_one(body: str, mentioned: bool) -> None:
    text = f"weight = []\n\n\ndef step(x):\n    {body}\n"
    found = others_mention([text], frozenset({"weight"}), frozenset({"step"}))
    assert bool(found) is mentioned


_BEST = """
import math


class Keeps:
    def __init__(self):
        self.best = {first}

    def step(self, loss, other):
        {line}
        if value < self.best:
            self.best = value
"""


def test_an_argument_that_is_bound_to_a_number_at_times_may_be_anything() -> None:
    text = _BEST.format(first="0", line="value = loss.item()").replace("other", "value=None")
    assert not holds_numbers([text], ".best")
    caught = "try: value = loss.item()\n        except ValueError as value: pass"
    assert not holds_numbers([_BEST.format(first="0", line=caught)], ".best")


@pytest.mark.parametrize("first", ["float('inf')", "math.inf", "-1.0", "0"])
@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("value = loss.item()", True),
        ("value = float(loss)", True),
        ("value = loss", False),  # a tensor, which may be changed in place
        ("value = loss.item(); value = loss", False),
        ("value, other = loss.item(), 1", False),  # which of them is not asked
        ("for value in [loss.item()]: pass", False),
        ("other = loss.item(); value = other", False),
    ],
)
def test_what_is_bound_to_numbers_holds_numbers(first: str, line: str, numbers: bool) -> None:
    assert holds_numbers([_BEST.format(first=first, line=line)], ".best") is numbers
