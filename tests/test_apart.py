"""Programs that cannot be forked (an accelerator or a process group is in use)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch.distributed as dist

from gbfix.schema import Report

Gbfix = Callable[..., Report]

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="no process groups here"
)

#: The threads of a process group are not in a fork: a collective would wait for ever there.
HEAD = """
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""

REGION = """
@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
"""


def test_a_program_with_a_process_group_is_fixed(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        f"{HEAD}{REGION}\nx = torch.ones(3)\ndist.all_reduce(x)\nprint(f(x), f(-x))\n"
    )
    assert [item.status for item in report.breaks] == ["fixed"], report
    (patch,) = report.patches
    assert patch.verdict.passed
    assert {rung.name for rung in patch.verdict.rungs} >= {"outputs", "aot_eager", "branches"}
    assert patch.verdict.perturbed > 10


def test_each_piece_of_work_finds_the_files_of_the_first_run(gbfix_run: Gbfix) -> None:
    call = 'if not os.path.exists("done"):\n    print(f(torch.ones(3)))\n'
    report = gbfix_run(f'{HEAD}{REGION}\n{call}    open("done", "w").close()\n')
    assert [item.status for item in report.breaks] == ["fixed"], report


def test_a_program_that_does_something_else_next_time_is_told_so(gbfix_run: Gbfix) -> None:
    # What a child process writes is not taken back.
    call = 'if os.system("mkdir done 2> /dev/null") == 0:\n    print(f(torch.ones(3)))\n'
    report = gbfix_run(f"{HEAD}{REGION}\n{call}")
    assert not report.patches
    said = " ".join(error.message for error in report.errors)
    # Two runs start together: where the second one is the first to look, the first calls nothing.
    says = ("did not come to this call", "but never called", "called nothing of what it compiled")
    assert any(text in said for text in says), report.errors
