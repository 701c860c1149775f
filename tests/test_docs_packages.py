"""Every command of docs/packages.md runs, in its order, and ends as it should."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

LAYER = """import torch


class Layer(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1
"""
PAGE = (Path(__file__).parent.parent / "docs" / "packages.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
FILES = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

#: The exit status of each command that does not end with 0, and what it must say.
ENDS = {
    "gbfix --check main.py": (1, "--include toys"),
    "gbfix --include toys main.py": (1, "+++ b/toys/layer.py"),
    "gbfix --include toys --format markdown main.py": (1, "## Fix a graph break"),
    "gbfix --include toys --save overlay main.py": (1, "+++ b/toys/layer.py"),
    "gbfix run --overlay overlay main.py": (0, "tensor([2., 2., 2.])"),
    "python patched.py": (0, "tensor([2., 2., 2.])"),
    "gbfix overlay check overlay": (0, "passed outputs"),
    "gbfix overlay check --quick overlay": (0, "toys/layer.py: fits"),
    "gbfix overlay show overlay": (0, "--- a/toys/layer.py"),
    "gbfix scan .": (0, "0 likely graph breaks in"),
    'gbfix scan --select GB0170 --exclude lib "**/*.py"': (0, "0 likely graph breaks"),
    "gbfix scan --format json main.py": (0, '"guesses": true'),
    "gbfix --check torchrun --nproc-per-node 2 main.py": (1, "--include toys"),
    "gbfix --check -m torch.distributed.run --standalone --nproc-per-node=2 main.py": (
        1,
        "--include toys",
    ),
    "gbfix --check --repro left main.py": (1, "--include toys"),
    "python left/gb0170_layer.py": (1, ""),
}


def test_each_command_is_known() -> None:
    assert list(ENDS) == COMMANDS


def test_the_commands_run_in_their_order(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "site-packages" / "toys"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "layer.py").write_text(LAYER)
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "COLUMNS": "300",
        "GBFIX_CACHE_DIR": str(tmp_path / "cache"),
    }
    for command in COMMANDS:
        words = shlex.split(command)
        head = [sys.executable, "-m", "gbfix"] if words[0] == "gbfix" else [sys.executable]
        done = subprocess.run(
            [*head, *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        status, says = ENDS[command]
        assert done.returncode == status, (command, done.stdout, done.stderr)
        assert says in " ".join(done.stdout.split()), (command, done.stdout, done.stderr)


def test_the_page_is_linked() -> None:
    assert "docs/packages.md" in (Path(__file__).parent.parent / "README.md").read_text()
