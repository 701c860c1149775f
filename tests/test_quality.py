"""The house is in order: lint, format and types, as CONTRIBUTING.md asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
    ],
    ids=" ".join,
)
def test_static_checks_pass(command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_file_is_too_long_to_read_in_one_sitting() -> None:
    large = [
        str(path.relative_to(ROOT))
        for folder in ("gbfix", "codemods")
        for path in (ROOT / folder).rglob("*.py")
        if path.stat().st_size > 28 * 1024
    ]
    assert not large
