"""Launchers of several processes: their script is recorded as a world of one rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gbfix import arguments, engine, launchers
from gbfix.schema import Options
from gbfix.words import ArgumentError, split

LINES = {
    "torchrun train.py": ("script", "train.py", ()),
    "torchrun --standalone --nproc-per-node=2 train.py --epochs 1": (
        "script", "train.py", ("--epochs", "1"),
    ),
    "torchrun --nproc_per_node 2 --nnodes 1 -- train.py -x": ("script", "train.py", ("-x",)),
    "-m torch.distributed.run --nproc-per-node 2 -m pack.train a": ("module", "pack.train", ("a",)),
    "-m torch.distributed.launch --use-env train.py": None,
    "accelerate launch --cpu --num_processes 2 train.py b": ("script", "train.py", ("b",)),
    "-m accelerate.commands.launch --mixed_precision bf16 train.py": ("script", "train.py", ()),
    "/usr/bin/torchrun train.py": ("script", "train.py", ()),
}  # fmt: skip


@pytest.mark.parametrize("line", [line for line, found in LINES.items() if found])
def test_the_script_behind_a_launcher_is_the_target(line: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    target = arguments.target(split(line.split(), {}), None, str(tmp_path))
    assert (target.kind, target.value, target.args) == LINES[line]
    settings = dict(target.environment)
    assert settings["WORLD_SIZE"] == "1" and settings["RANK"] == "0"


def test_what_accelerate_would_set_is_set(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    line = "accelerate launch --mixed_precision bf16 --dynamo_backend=inductor --cpu train.py"
    settings = dict(arguments.target(split(line.split(), {}), None, str(tmp_path)).environment)
    assert settings["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert settings["ACCELERATE_DYNAMO_BACKEND"] == "INDUCTOR"
    assert settings["ACCELERATE_USE_CPU"] == "true"


def test_a_script_named_like_a_launcher_is_a_script(tmp_path: Path) -> None:
    (tmp_path / "torchrun").write_text("")
    assert launchers.behind(split(["torchrun", "x"], {}), str(tmp_path)) is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("torchrun --standalone", "torchrun: names no script to run"),
        ("torchrun --no-python ./a.out", "gbfix records Python programs only"),
        ("accelerate launch", "accelerate launch: names no script"),
    ],
)
def test_a_launcher_without_a_script_is_one_clear_line(line: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        arguments.target(split(line.split(), {}), None, ".")


RANKS = """
import os

import torch
import torch.distributed as dist


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


dist.init_process_group("gloo")
x = torch.ones(3) * (dist.get_rank() + dist.get_world_size())
dist.all_reduce(x)
print(os.environ["LOCAL_RANK"], f(x), f(-x))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_program_with_a_process_group_is_fixed(tmp_path: Path, runner: Any) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    words = split(["torchrun", "--nproc-per-node", "2", "train.py"], {})
    target = arguments.target(words, None, str(tmp_path))
    report = engine.run(target, Options(use_cache=False, timeout=120.0), runner=runner)
    assert [found.status for found in report.breaks] == ["fixed"], report


STEPS = """
import torch


class Framework(torch.nn.Module):
    \"\"\"As Lightning does it: torch.compile gives a module, of which the steps are called.\"\"\"

    def forward(self, x):
        raise NotImplementedError

    def training_step(self, x):
        raise NotImplementedError

    def validation_step(self, x):
        raise NotImplementedError


class Net(Framework):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def training_step(self, x):
        out = self.layer(x)
        if out.sum() > 0:
            return out * 2
        return out


compiled = torch.compile(Net())
net = compiled._orig_mod
for name in ("forward", "training_step", "validation_step"):
    setattr(net, name, compiled.dynamo_ctx(getattr(net, name)))
for _ in range(2):
    net.training_step(torch.ones(2, 3)).sum().backward()
"""


def test_the_steps_of_a_framework_are_regions(gbfix_run: Any) -> None:
    report = gbfix_run("import torch\n\ntorch.manual_seed(0)\n" + STEPS)
    assert not report.errors, report.errors
    assert [region.name for region in report.regions] == ["Net.training_step"]
    assert [found.status for found in report.breaks] == ["fixed"], report


def test_a_module_that_a_library_compiles_is_a_region(tmp_path: Path, gbfix_run: Any) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "trainer.py").write_text(
        "import torch\n\n\ndef fit(model, x):\n    return torch.compile(model)(x)\n"
        "\n\n@torch.compile\ndef own(x):\n    return x\n"
    )
    (site / "nets.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + 1\n"
    )
    report = gbfix_run(
        "import sys, torch\nsys.path.insert(0, 'site-packages')\nimport nets, trainer\n\n"
        "trainer.fit(nets.Net(), torch.ones(2))\ntrainer.own(torch.ones(2))\n"
    )
    assert [(region.name, region.status) for region in report.regions] == [("Net", "clean")]
