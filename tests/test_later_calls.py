"""What a program does after its first calls: calls of new kinds are looked at, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from planted import Planted

from gbfix import loop
from gbfix.report.json import as_dict
from gbfix.report.summary import Mode, next_steps
from gbfix.schema import Report

Gbfix = Callable[..., Report]

PROGRAM = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.limit = 2.0

        def forward(self, x, log=False):
            x = x * 2
            if log:
                print("logged")
            if not self.training:
                print("evaluated")
            return x + 1

    net = Net()
    run = torch.compile(net, backend="eager")
    for step in range(6):
        run(torch.ones(3), log=step == 4)
    net.eval()
    for _ in range(3):
        run(torch.ones(3))
"""


def test_breaks_of_later_kinds_of_calls_are_found_and_fixed(gbfix_run: Gbfix) -> None:
    report = gbfix_run(PROGRAM)
    (region,) = report.regions
    lines = [item.graph_break.site.line for item in report.breaks if item.graph_break.site]
    assert lines == [11, 13]
    assert (region.status, region.breaks_after) == ("fixed", 0)
    assert (region.calls, region.calls_made) == (4, 9)
    (one,) = as_dict(report)["regions"]
    assert (one["calls"], one["calls_made"]) == (4, 9)
    assert any("4 of 9 were recorded" in what for _, what in next_steps(report, Mode.DIFF))


def test_a_break_that_comes_with_other_sizes_is_found(gbfix_run: Gbfix) -> None:
    head = "import logging\nimport torch\n\nlog = logging.getLogger('sizes')\n\n"
    head += "@torch.compile(backend='eager')\ndef f(x):\n"
    body = "    if x.shape[0] % 4:\n        log.info('odd')\n    return x * 2\n\n"
    report = gbfix_run(head + body + "for size in (4, 4, 4, 4, 5, 6):\n    f(torch.ones(size))\n")
    (region,) = report.regions
    assert (region.status, region.calls, region.calls_made) == ("fixed", 3, 6)
    assert [it.graph_break.site.line for it in report.breaks if it.graph_break.site] == [9]


def test_calls_of_one_kind_are_not_recorded_again(gbfix_run: Gbfix) -> None:
    calls = "for step in range(9):\n    f(torch.ones(step + 2), step + 1, 0.5 * step + 1)\n"
    head = "import torch\n\n@torch.compile(backend='eager')\ndef f(x, step, rate):\n"
    report = gbfix_run(head + "    return x * rate\n\n" + calls)
    assert [(it.calls, it.calls_made) for it in report.regions] == [(2, 9)]
    report = gbfix_run(head + "    return x * rate\n\nf(torch.ones(2), 1, 2.0)\n")
    assert [(it.calls, it.calls_made) for it in report.regions] == [(1, 1)]
    assert not any("recorded" in what for _, what in next_steps(report, Mode.DIFF))


def test_a_patch_that_is_wrong_in_a_later_kind_of_call_alone_is_rejected(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (
        "@torch.compile(backend='eager')\ndef f(x, how):\n    torch._dynamo.graph_break()\n"
        "    return -x if how == 'turned' else x"
    )
    new = "@torch.compile(backend='eager')\ndef f(x, how):\n    return x"
    monkeypatch.setattr(loop, "discover", lambda: [Planted(old, new)])
    ways = "for how in ('kept', 'kept', 'kept', 'turned'):\n    f(torch.ones(3), how)\n"
    report = gbfix_run("import torch\n\n" + old + "\n\n\n" + ways)
    assert not report.patches
    (attempt,) = (attempt for item in report.breaks for attempt in item.attempts)
    assert "differ" in attempt.reason
    report = gbfix_run("import torch\n\n" + old + "\n\n\n" + ways.replace("'turned'", "'kept'"))
    assert report.patches
