"""One break that several runs report: the report that knows who called it counts."""

from __future__ import annotations

from gbfix import recording
from gbfix.schema import Frame, GraphBreak, each_once

HELPER = Frame("/p/main.py", 3, "helper", 4)
CALLER = Frame("/p/main.py", 9, "forward", 8)


def report(*frames: Frame) -> GraphBreak:
    return GraphBreak("GB0033", "", "", "", (), frames, "/p/main.py::forward", HELPER)


def test_the_break_with_the_most_callers_stays() -> None:
    alone, called = report(HELPER), report(CALLER, HELPER)
    for reports in ([alone, called], [called, alone], [called, alone, called]):
        assert list(each_once(reports).values()) == [called]


def test_the_run_that_knows_the_caller_counts_in_whatever_order() -> None:
    alone, called = report(HELPER), report(CALLER, HELPER)
    assert recording.merged([alone], [called]) == (called,)
    assert recording.merged([called], [alone]) == (called,)
