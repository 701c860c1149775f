"""Which arms, that no call ran, are forced: those that a patch changes, or gives other names."""

from __future__ import annotations

import textwrap

import pytest

from gbfix import ladder, unrun

OLD = """
def f(x, n, debug):
    k = len(x)
    if debug:
        print(k)
    if n > 3:
        return x * 2
    y = x + 1 if n else x
    return y * k
"""


def _forced(old: str, new: str, ran: dict[str, tuple[int, int]]) -> list[str]:
    """The conditions that are forced, with ``ran`` by their text: how often false, and true."""
    old, new = (textwrap.dedent(text).lstrip("\n") for text in (old, new))
    lines = old.split("\n")
    outcomes = {
        (row, line.index(text)): counts
        for text, counts in ran.items()
        for row, line in enumerate(lines, 1)
        if text in line and ("if " + text) in line
    }
    plan = unrun.to_force(old, new, 2, ladder.removed_lines(old, new), outcomes, [])
    return [f"{text} {forced.value}" for text, forced in plan]


NEVER = {"debug": (3, 0), "n > 3": (3, 0), "n else": (0, 3)}


@pytest.mark.parametrize(
    ("change", "forced"),
    [
        (("print(k)", "print(k + 0)"), ["debug True"]),
        (("k = len(x)", "k = x.shape[0]"), ["debug True"]),
        (("return x * 2", "return x + x"), ["n > 3 True"]),
        (("else x\n", "else x + 0\n"), ["n False"]),
        (("return y * k", "return k * y"), []),
        # What is gone, or asked otherwise, has no place in the new text.
        (("if debug:\n        print(k)", "if debug is True:\n        print(k + 0)"), []),
    ],
)
def test_arms_that_a_patch_reaches(change: tuple[str, str], forced: list[str]) -> None:
    assert _forced(OLD, OLD.replace(*change), NEVER) == forced


def test_arms_that_ran_are_left() -> None:
    ran = {"debug": (1, 1), "n > 3": (1, 1), "n else": (1, 1)}
    assert _forced(OLD, OLD.replace("k = len(x)", "k = x.shape[0]"), ran) == []


def test_what_follows_a_return_is_the_other_arm() -> None:
    always = {"n > 3": (0, 3)}
    assert _forced(OLD, OLD.replace("y * k", "k * y"), always) == ["n > 3 False"]


def test_an_operator_that_asks_the_same_is_forced_with_it() -> None:
    old = """
    def forward(self, x):
        text = f"{x}"
        if self.name is not None:
            text = self.name + text
        print(text)
        return x
    """
    new = """
    def show(owner, x):
        text = f"{x}"
        if owner.name is not None:
            text = owner.name + text
        print(text)


    def forward(self, x):
        if x.requires_grad:
            text = f"{x}"
            if self.name is not None:
                text = self.name + text
            print(text)
        else:
            show(self, x)
        return x
    """
    old, new = (textwrap.dedent(text).lstrip("\n") for text in (old, new))
    outcomes = {(3, 7): (2, 0)}
    (one,) = unrun.to_force(old, new, 2, ladder.removed_lines(old, new), outcomes, [])
    text, forced = one
    assert (text, forced.value, forced.call.line) == ("self.name is not None", True, 11)
    assert [span.line for span in forced.again] == [3]
