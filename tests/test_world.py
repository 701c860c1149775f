"""The whole set under the real launcher: what each rank prints, how it ends, what it breaks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gbfix import arguments, engine, world
from gbfix.schema import Options, Rung, Target
from gbfix.words import split
from gbfix.world import Rank, World

COMMANDS = {
    "torchrun --nproc-per-node 8 --nnodes 4 --rdzv-backend c10d train.py -x": (
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m",
    ),
    "-m torch.distributed.launch --use-env train.py": (
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m",
    ),
    "-m torch.distributed.launch train.py": (
        "-m", "torch.distributed.launch", "--standalone", "--nproc-per-node=2", "-m",
    ),
    "accelerate launch --num_processes 8 --cpu --mixed_precision bf16 --main_process_port 1 -m a": (
        "-m", "accelerate.commands.launch", "--mixed_precision", "bf16", "--multi_gpu",
        "--num_processes=2", "--num_machines=1", "--main_process_port=0", "-m",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_the_real_launcher_starts_two_ranks_here(line: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    target = arguments.target(split(line.split(), {}), None, str(tmp_path))
    assert target.launcher == COMMANDS[line]


def test_the_old_launcher_tells_the_rank_by_an_argument(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    line = "-m torch.distributed.launch --nproc-per-node 2 train.py -x"
    target = arguments.target(split(line.split(), {}), None, str(tmp_path))
    assert target.args == ("--local-rank=0", "-x")


def test_a_plain_script_has_no_launcher(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert arguments.target(split(["train.py"], {}), None, str(tmp_path)).launcher == ()


# -- comparing -------------------------------------------------------------------------------------


def ranks(*lines: str, status: int | None = 0, error: str = "", breaks: int = 1) -> World:
    """A world whose rank 1 is as said; rank 0 never changes."""
    first = Rank(0, 0, ("same",), "", 1)
    return World((first, Rank(1, status, lines, error, breaks)))


SAME = {
    "equal": (ranks("loss 0.25", "done"), ranks("loss 0.25", "done")),
    "the last digit": (ranks("loss 0.2500"), ranks("loss 0.2501")),
    "a large number": (ranks("loss 123456.789"), ranks("loss 123456.790")),
    "fewer breaks": (ranks("a", breaks=2), ranks("a", breaks=0)),
    "stopped before its end": (ranks("a", "b", status=None), ranks("a", status=None)),
    "stopped before a break": (ranks("a", status=None), ranks("a", "b", breaks=2)),
}
OTHER = {
    "another word": (ranks("yes"), ranks("no"), "rank 1 prints `no` where it was `yes`"),
    "another integer": (ranks("epoch 1"), ranks("epoch 2"), "rank 1 prints `epoch 2`"),
    "another number": (ranks("loss 0.2500"), ranks("loss 0.2503"), "rank 1 prints `loss 0.2503`"),
    "nan": (ranks("loss 0.25"), ranks("loss nan"), "rank 1 prints `loss nan`"),
    "a line less": (ranks("a", "b"), ranks("a"), "rank 1 prints 1 lines where it was 2"),
    "a line more": (ranks("a"), ranks("a", "b"), "rank 1 prints 2 lines where it was 1"),
    "an error": (ranks("a"), ranks("a", status=1, error="ValueError: x"),
                 "rank 1 ends with exit status 1 where it was 0 (ValueError: x)"),
    "a hang": (ranks("a"), ranks("a", status=None), "rank 1 does not end any more"),
    "another break": (ranks("a"), ranks("a", breaks=2), "rank 1 has 2 graph breaks where it had 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_worlds_that_agree(what: str) -> None:
    assert world.difference(*SAME[what]) == ""


@pytest.mark.parametrize("what", OTHER)
def test_worlds_that_differ(what: str) -> None:
    before, after, says = OTHER[what]
    assert world.difference(before, after).startswith(says)


def test_what_differs_by_itself_says_nothing() -> None:
    before, after = ranks("took 1.52 s", "loss 0.5"), ranks("took 9.71 s", "loss 0.5")
    assert world.difference(before, after)
    assert not world.difference(before, after, again=ranks("took 2.22 s", "loss 0.5"))
    wrong = ranks("took 9.71 s", "loss 0.7")
    assert "loss 0.7" in world.difference(before, wrong, again=ranks("took 2.22 s", "loss 0.5"))


def test_numbers_are_compared_by_how_far_compiling_moves_them() -> None:
    before, after = ranks("loss 0.50000"), ranks("loss 0.50040")
    assert world.difference(before, after, before, before)
    assert not world.difference(before, after, before, plain=ranks("loss 0.50010"))
    assert world.difference(before, ranks("loss 0.60000"), before, plain=ranks("loss 0.50010"))


# -- running ---------------------------------------------------------------------------------------

#: A launcher of our own making: ranks without a process group, quick to start.
LAUNCHER = """
import os, subprocess, sys

words = sys.argv[1:]
if "none" in sys.argv[0]:
    sys.exit("launcher: no port is free")
running = [
    subprocess.Popen(
        [sys.executable, *words], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"}
    )
    for rank in range(2)
]
sys.exit(max(process.wait() for process in running))
"""
PROGRAM = """
import os, sys

with open("log.txt", "a") as file:
    file.write("ran\\n")
rank = int(os.environ["RANK"])
print("rank", rank, sys.argv[1:])
"""
PATCHED = {
    "same": PROGRAM.replace('print("rank"', 'where = "rank"\nprint(where'),
    "other": PROGRAM + 'print("more") if rank else None\n',
    "error": PROGRAM + 'if rank: raise ValueError("patched")\n',
}


def target(folder: Path, text: str, launcher: str = "launcher.py") -> Target:
    (folder / launcher).write_text(LAUNCHER)
    (folder / "main.py").write_text(text)
    (folder / "log.txt").write_text("mine\n")
    command = (str(folder / launcher), "-m")
    return Target("script", "main.py", ("--x",), cwd=str(folder), launcher=command)


@pytest.mark.parametrize(
    ("what", "passed", "says"),
    [
        ("same", True, "same exit status and 2 printed lines; breaks: rank 0 0 -> 0, rank 1 0"),
        pytest.param(
            "other", False, "rank 1 prints 2 lines where it was 1", marks=pytest.mark.slow
        ),
        ("error", False, "rank 1 ends with exit status 1 where it was 0 (ValueError: patched)"),
    ],
)
def test_patches_are_confirmed_by_two_ranks(
    what: str, passed: bool, says: str, tmp_path: Path
) -> None:
    wanted = target(tmp_path, PROGRAM)
    texts = {str(tmp_path / "main.py"): PATCHED[what].encode()}
    rung = world.confirm(wanted, texts, 100.0)
    assert (rung.passed, says in rung.detail) == (passed, True), rung
    assert (tmp_path / "log.txt").read_text() == "mine\n"  # what ranks write is taken back


@pytest.mark.parametrize(
    ("text", "launcher", "says"),
    [
        ('raise RuntimeError("needs a GPU")\n', "launcher.py",
         "ends with exit status 1 without a patch, too (RuntimeError: needs a GPU)"),
        (PROGRAM, "none.py", "launcher: no port is free"),
    ],
)  # fmt: skip
def test_what_cannot_be_confirmed_is_said(
    text: str, launcher: str, says: str, tmp_path: Path
) -> None:
    rung = world.confirm(target(tmp_path, text, launcher), {}, 100.0)
    assert rung.passed is None and says in rung.detail and "one rank only" in rung.detail, rung


BREAKS = """
import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


print(f(torch.ones(3)), f(-torch.ones(3)))
"""


def test_patches_that_differ_under_the_launcher_are_left_out(
    tmp_path: Path, runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def confirm(wanted: Target, texts: Any, timeout: float) -> Rung:
        asked.append(texts)
        return Rung("launcher", False, "torchrun with 2 processes: rank 1 prints `no`")

    monkeypatch.setattr(world, "confirm", confirm)
    wanted = dataclasses.replace(target(tmp_path, BREAKS), args=())
    report = engine.run(wanted, Options(use_cache=False, timeout=120.0), runner=runner)
    assert [b"torch.where" in text for text in asked[0].values()] == [True]
    assert not report.patches and [found.status for found in report.breaks] == ["unfixed"]
    assert any("rank 1 prints `no`" in text for text in report.breaks[0].advice), report.breaks
    assert [region.status for region in report.regions] == ["unfixed"]


@pytest.mark.slow
def test_the_real_torchrun_confirms_a_fix(tmp_path: Path, runner: Any) -> None:
    (tmp_path / "train.py").write_text(
        'import torch.distributed as dist\n\ndist.init_process_group("gloo")\n' + BREAKS
        + "dist.destroy_process_group()\n"
    )  # fmt: skip
    wanted = arguments.target(split(["torchrun", "train.py"], {}), None, str(tmp_path))
    report = engine.run(wanted, Options(use_cache=False, timeout=200.0), runner=runner)
    rung = report.patches[0].verdict.rung("launcher")
    assert rung is not None and rung.passed, rung
    assert rung.detail.endswith("breaks: rank 0 1 -> 0, rank 1 1 -> 0")
