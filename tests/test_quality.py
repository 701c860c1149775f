"""The house is in order: lint, format and types, as CONTRIBUTING.md asks for."""

from __future__ import annotations

import re
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


def test_no_function_is_too_complex() -> None:
    """Complexity is at most 15, whatever the configuration or a comment says."""
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--ignore-noqa", "--select", "C901",
         "--config", "lint.mccabe.max-complexity=15", "--output-format", "concise",
         "gbfix", "codemods"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, f"split these functions up:\n{result.stdout}"


def test_no_test_imports_from_a_conftest() -> None:
    """Several folders have one: which of them `conftest` names depends on what was read before."""
    bad = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"^(from|import) conftest\b", path.read_text(), re.MULTILINE)
    ]
    assert not bad
