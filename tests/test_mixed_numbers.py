"""Which kinds of numbers a name may hold, from the text of a piece."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.operator.mixed_numbers import _Reader

from gbfix.codemod import Example, example_site


def kinds_of(body: str, functions: str = "") -> frozenset[str]:
    """Of the name ``found`` in a function of that body."""
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    text = f"{textwrap.dedent(functions)}\n\ndef f(v):\n{inside}\n    return found\n"
    site = example_site(Example(text, text, at="return found", title="numbers"), "GB0170")
    assert site.function is not None
    return _Reader(site, [site.function.body]).name("found")


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("found = [1, 2]", {"int"}),
        ("found = []\nfor i in range(3):\n    found.append(i / 2)", {"float"}),
        ("found: list = [1]\nfound.append(0.5)", {"int", "float"}),
        ("w: object = 0.5\nfound = [w, 1]", {"int", "float"}),
        ("table = {}\ntable.setdefault('a', 1)\ntable.update({'b': 0.5})\n"
         "found = [table['a'], table['b']]", {"int", "float"}),
        ("table = {'a': 1}\ntable.update(b=0.5)\nfound = list(table.values())", {"int", "float"}),
        ("one = 1\ntwo = one\nthree = two\none = three + 0.5\nfound = two", {"int", "float"}),
        ("found = [0]\nfound.insert(0, 3)", {"int"}),
    ],
)  # fmt: skip
def test_all_that_a_name_is_given_is_told(body: str, kinds: set[str]) -> None:
    assert kinds_of(body) == kinds


def test_a_helper_gives_what_its_calls_hand_to_it() -> None:
    helper = "def clip(value, low, high):\n    return min(max(value, low), high)\n"
    assert kinds_of("found = [clip(2, 0, 5)]", helper) == {"int"}
    body = "found = [clip(2, 0, 5)]\nif found:\n    found = [clip(2, 0, 5.5)]"
    assert kinds_of(body, helper) == {"int", "float"}


def test_many_names_of_one_loop_are_told_in_a_moment() -> None:
    """Each of them by the others: paths through them are as many as 12 factorial."""
    names = [f"n{i}" for i in range(12)]
    lines = [f"{name} = 0" for name in names]
    lines += ["for _ in range(3):"]
    lines += [f"    {name} = max({', '.join(names)})" for name in names]
    assert kinds_of("\n".join([*lines, "found = n3"])) == {"int"}
