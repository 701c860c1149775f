"""What control-flow codemods say where they do not apply, and a test that they have split."""

from __future__ import annotations

import dataclasses

import libcst as cst


class Refusal(Exception):
    """Why a codemod does not apply, in words for the user (or empty: nothing worth saying)."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A test, split: ``if python: <test tensor> else: <as if tensor were python's value>``.

    ``joint`` is ``and`` or ``or`` where there is a Python part: with ``and`` the branch is decided
    by ``tensor`` when ``python`` is true (else it is the false one), with ``or`` when it is false.
    ``node`` is the tensor part as it was written, where that is one expression.
    """

    tensor: str
    python: str = ""
    joint: str = ""
    node: cst.BaseExpression | None = None
