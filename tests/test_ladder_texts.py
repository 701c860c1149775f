"""What a rewrite may drop that keeps texts for eager alone: the texts, under the compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from planted import HEAD, Gbfix, Planted

from gbfix import loop
from gbfix.codemod import Advice, Rewrite, Site
from gbfix.schema import Safety

PROGRAM = """
seen = []


@torch.compile
def f(x):
    torch._dynamo.graph_break()
    print("mean", x.mean().item())
    seen.append(len(seen))
    return x * 2


f(torch.ones(3))
"""
BREAK = '    torch._dynamo.graph_break()\n    print("mean", x.mean().item())\n'
GUARD = "    if not torch.compiler.is_compiling():\n"
PRINT = '        print("mean", x.mean().item())\n'


class Assuming(Planted):
    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for made in super().propose(site):
            assert isinstance(made, Rewrite)
            yield dataclasses.replace(made, assumes=("texts-only-in-eager",), safety=Safety.UNSAFE)


def _attempts(run: Gbfix, patch: pytest.MonkeyPatch, old: str, new: str) -> list[object]:
    patch.setattr(loop, "discover", lambda: [Assuming(old, new)])
    report = run(HEAD + PROGRAM.lstrip("\n"))
    assert not report.patches
    return [attempt for item in report.breaks for attempt in item.attempts]


def test_a_text_that_only_eager_shows(gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> None:
    (attempt, *_) = _attempts(gbfix_run, monkeypatch, BREAK, GUARD + PRINT)
    assert attempt.passed and attempt.safety is Safety.UNSAFE  # type: ignore[attr-defined]
    assert "stdout differ" in attempt.reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (GUARD + PRINT + "        seen.append(0)\n", "seen"),
        ("", "effects: stdout differ"),
        (GUARD + PRINT.replace("mean", "other", 1), "effects: stdout differ"),
    ],
    ids=["a list is changed in eager alone", "no text in eager either", "another text in eager"],
)
def test_nothing_else_may_differ(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch, new: str, says: str
) -> None:
    (attempt, *_) = _attempts(gbfix_run, monkeypatch, BREAK, new)
    assert not attempt.passed  # type: ignore[attr-defined]
    assert says in attempt.reason  # type: ignore[attr-defined]


def test_what_compiled_code_does_beside_texts_is_held_to_the_original(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "    seen.append(len(seen))\n"
    new = GUARD + PRINT + "        seen.append(len(seen))\n"
    (attempt, *_) = _attempts(gbfix_run, monkeypatch, BREAK + line, new)
    assert not attempt.passed  # type: ignore[attr-defined]
    assert "seen" in attempt.reason  # type: ignore[attr-defined]
