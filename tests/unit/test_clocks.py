"""Which attributes hold nothing but times."""

from __future__ import annotations

import textwrap

import pytest

from gbfix.analysis.clocks import time_attributes


def times(body: str, first: str = "pass") -> frozenset[str]:
    methods = f"def __init__(self):\n    {first}\ndef step(self, x):\n" + textwrap.indent(
        body, "    "
    )
    return time_attributes(["class Meter:\n" + textwrap.indent(methods, "    ")])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("self.last = time.perf_counter()", {"last"}),
        ("start = time.time()\nself.last = time.time() - start", {"last"}),
        ("self.start = time.time()\nself.spent += time.time() - self.start", {"start", "spent"}),
        ("self.times.append(perf_counter())", {"times"}),
        ("self.log['step'] = datetime.datetime.now()", {"log"}),
        ("now = time.time()\nspent, self.last = now - self.last, now", {"last"}),
        ("self.last, self.count = time.time(), 1", {"last"}),
        ("began.record()\nself.spent = began.elapsed_time(ended)", {"spent"}),
    ],
)
def test_times(body: str, names: set[str]) -> None:
    assert times(body, "self.last = self.spent = 0") == names


@pytest.mark.parametrize(
    "body",
    [
        "self.count += 1",
        "self.last = self.clock.time(x)",
        "self.last = time.time()\nself.last = x.sum()",
        "self.losses.append(x.mean())",
        "self.last, self.loss = x.sum(), time.time()\nself.loss = x",
        "self.last = time(x)",
        "self.log.append((time.time(), x.item()))",
        "self.rate = x.shape[0] / (time.time() - 1.0)",
    ],
)
def test_other_things_are_none(body: str) -> None:
    assert times(body) == frozenset()
