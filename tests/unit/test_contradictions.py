"""A forced condition that an object was not made for says nothing of a patch."""

from __future__ import annotations

import textwrap

import pytest

from gbfix.unrun import contradicts, is_made_otherwise

_MADE = """
class Loss:
    def __init__(self, momentum):
        self.momentum = momentum
        if momentum > 0:
            self.kept = 0
"""
_ALWAYS = """
class Loss:
    def __init__(self, momentum):
        self.kept = 0

    def forward(self, x):
        if x:
            self.kept = 1
"""
_REGISTERED = _MADE.replace("self.kept = 0", 'self.register_buffer("kept", None)')
_SET = _MADE.replace("self.kept = 0", 'setattr(self, "kept", 0)')
_SAID = "forced True: outputs: raises AttributeError('Loss' object has no attribute 'kept')"


@pytest.mark.parametrize(
    ("source", "problem", "expected"),
    [
        (_MADE, _SAID, True),
        (_MADE, _SAID.replace("('Loss'", ": 'Loss'").replace("')", "'"), True),
        (_REGISTERED, _SAID, True),
        (_SET, _SAID, True),
        (_ALWAYS, _SAID, False),
        (_MADE, _SAID.replace("kept", "other"), False),
        (_MADE, "forced True: output: values differ", False),
        (_MADE.replace("Loss", "Other"), _SAID, False),
        ("class Loss:\n    kept = (\n", _SAID, False),
    ],
    ids=[
        "some cases",
        "as a program ends",
        "registered",
        "by its name",
        "all cases",
        "another attribute",
        "values",
        "another class",
        "no text",
    ],
)
def test_only_what_init_binds_in_some_cases_counts(
    source: str, problem: str, expected: bool
) -> None:
    assert contradicts(problem, {"a.py": textwrap.dedent(source)}) is expected


_FAILS = "forced True: outputs: does not raise RuntimeError('sizes') as the original does"


@pytest.mark.parametrize(
    ("question", "problem", "expected"),
    [
        ("self.width is not None", _FAILS, True),
        ("self.kept and self.width > 2", _FAILS + " (inputs: base)", True),
        ("self.training", _FAILS, False),
        ("self.width is not None", "forced True: outputs: values differ", False),
        ("width is not None", _FAILS, False),
        ("self.is_ready()", _FAILS, False),
        ("True", _FAILS, False),
        ("self.width is", _FAILS, False),
    ],
)
def test_an_object_answers_for_itself(question: str, problem: str, expected: bool) -> None:
    assert is_made_otherwise(question, problem) is expected
