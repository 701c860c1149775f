"""The script that runs the corpus on several versions: what it chooses, builds and writes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "versions" / "run.py"


@pytest.fixture
def versions() -> Any:
    spec = importlib.util.spec_from_file_location("versions_run", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sample_is_the_same_for_the_same_seed(versions: Any) -> None:
    whole = versions.chosen(0, 0)
    assert "GB0170/docs-cond" in whole and len(whole) == len(set(whole)) > 100
    sample = versions.chosen(5, 1)
    assert sample == versions.chosen(5, 1) != versions.chosen(5, 2)
    assert len(sample) == 5 and set(sample) <= set(whole)


def test_an_interpreter_is_found_by_its_version(versions: Any) -> None:
    assert versions.interpreter(sys.executable) == sys.executable
    assert versions.interpreter("3.99") is None
    assert versions.interpreter("/nowhere/python") is None


def test_what_cannot_be_built_is_one_line(versions: Any, tmp_path: Path) -> None:
    _, problem = versions.build(sys.executable, "0.0.0.none", tmp_path / "work", None)
    assert problem and "\n" not in problem
    assert not list((tmp_path / "work").glob("*/ready"))


def test_rows_of_other_pairs_stay(
    versions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "PAGE", tmp_path / "versions.md")
    rows = [f"| 3.1{n}.1 | 2.1{n}.0 | 9 | 9 |  | 5 |" for n in (3, 1, 2)]
    for row in rows:
        text = versions.page([*versions.known(row), row])
        versions.PAGE.write_text(text, encoding="utf-8")
    better = rows[1].replace("| 9 | 9 |", "| 9 | 8 |")
    text = versions.page([*versions.known(better), better])
    assert [line for line in text.splitlines() if line.startswith("| 3.")] == [
        better, rows[2], rows[0],
    ]  # fmt: skip
