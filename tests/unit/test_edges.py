"""Inputs close to where a program goes another way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from gbfix.worker import edges
from gbfix.worker.effects import EffectRecorder
from gbfix.worker.perturb import Inputs, Variation, toward
from gbfix.worker.shots import Call, Camera
from gbfix.worker.values import Project

BY_A_TERNARY = """
def f(x):
    return x + 1 if x.sum() > 0.3 else x - 1
"""
BY_ORDER = """
def f(x):
    return sorted([x[0], x[1], x[2]])[1]
"""
NO_DECISION = """
def f(x):
    return x + 1
"""


def found(
    text: str, folder: Path, x: torch.Tensor, seconds: float = 60.0
) -> tuple[list[Variation], Camera, Call]:
    path = folder / "program.py"
    names: dict[str, object] = {}
    exec(compile(text, str(path), "exec"), names)
    project = Project(str(folder))
    call = Call(names["f"], (x,), {}, project)
    camera = Camera(call, EffectRecorder((str(folder / "jobs"),)))
    return edges.find(camera, call.target, project, seconds), camera, call


def test_both_sides_of_a_threshold_are_found(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3).abs()
    variations, _, call = found(BY_A_TERNARY, tmp_path, x)
    sums = []
    for variation in variations:
        given = Inputs(call.target, (x,), {}).vary(variation)
        assert given is not None
        sums.append(float(given[0][0].sum()))
    assert len(sums) == 2
    assert max(sums) > 0.3 >= min(sums)
    assert max(sums) - min(sums) < 0.1


def test_what_is_sorted_is_decided_too(tmp_path: Path) -> None:
    variations, _, _ = found(BY_ORDER, tmp_path, torch.tensor([1.0, 2.0, 3.0]))
    assert variations


@pytest.mark.parametrize("text", [NO_DECISION, "def f(x):\n    return 1 if x else 2\n"])
def test_nothing_is_found_where_nothing_is_decided_or_it_always_fails(
    text: str, tmp_path: Path
) -> None:
    assert not found(text, tmp_path, torch.randn(3))[0]


def test_the_search_leaves_the_program_as_it_was(tmp_path: Path) -> None:
    text = "calls = []\ndef f(x):\n    calls.append(1)\n    return x if x.sum() > 0 else -x\n"
    _, _, call = found(text, tmp_path, torch.ones(3))
    assert call.target.__globals__["calls"] == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ndef f(x):\n    time.sleep(60)\n    return x\n",
        # A process that lives on holds the pipe open.
        "import subprocess\ndef f(x):\n"
        "    subprocess.Popen(['sleep', '30'], close_fds=False)\n    return x\n",
        "import signal, time\ndef f(x):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "    time.sleep(60)\n",
    ],
)
def test_the_search_is_given_up_in_time(text: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    assert found(text, tmp_path, torch.ones(3), 0.5)[0] == []
    assert time.monotonic() - begun < 20


def test_integers_become_another_call_s_one_by_one() -> None:
    x = torch.tensor([5, 0, 3, 1])

    def inputs(share: float) -> torch.Tensor:
        given = Inputs(len, (x,), {}).vary(toward(f"edge negated {share}"))
        assert given is not None
        return given[0][0]

    assert inputs(0.0).tolist() == [5, 0, 3, 1]
    assert inputs(0.5).tolist() == [1, 3, 3, 1]
    assert inputs(1.0).tolist() == [1, 3, 0, 5]
