"""Wrong patches on purpose: a program, and a rewrite of it by a codemod made up for the test."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator

import pytest

from gbfix import loop
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Report, Safety, Span


@dataclasses.dataclass(frozen=True)
class Wrong:
    """``old`` is replaced by ``new`` in ``source``; ``rung`` must fail (or carry the caveat)."""

    name: str
    source: str
    old: str
    new: str
    rung: str
    says: str = ""
    caveat: bool = False
    #: The patch stays safe, with a limit.
    limit: bool = False


class Planted(Codemod):
    """Replaces one text by another, wherever the break is."""

    name = "planted"
    codes = ("GB0025", "GB0124", "GB0170", "data-dependent-guard")

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if self._old not in site.source:
            return
        text = site.source.replace(self._old, self._new)
        whole = Span(1, 0, site.source.count("\n") + 1, 0)
        yield Rewrite("planted", {site.path: text}, {site.path: (whole,)})


HEAD = """
import torch


"""

Gbfix = Callable[..., Report]


def run_planted(case: Wrong, run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> Report:
    source = HEAD + textwrap.dedent(case.source).strip("\n") + "\n"
    codemod = Planted(case.old, case.new)
    monkeypatch.setattr(loop, "discover", lambda: [codemod])
    return run(source)


def assert_caught(case: Wrong, report: Report) -> None:
    """The first attempt failed on the rung that the case names, or has its caveat or limit."""
    if case.limit:
        (patch,) = report.patches
        rung = patch.verdict.rung(case.rung)
        assert rung is not None
        assert any(case.says in text for text in rung.limits), rung
        return
    assert not report.patches, report.patches[0].diff
    attempts = [attempt for item in report.breaks for attempt in item.attempts]
    assert attempts, report.errors
    if case.caveat:
        assert attempts[0].passed, attempts[0].reason
        assert attempts[0].safety is Safety.UNSAFE
        (patch, *_) = report.unsafe_patches
        rung = patch.verdict.rung(case.rung)
        assert rung is not None
        assert any(case.says in text for text in rung.caveats), rung
        return
    assert not attempts[0].passed
    assert attempts[0].reason.startswith(f"{case.rung}:"), attempts[0].reason
    assert case.says in attempts[0].reason, attempts[0].reason
