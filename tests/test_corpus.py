"""Every corpus case: the program breaks with its code, and comes out as its metadata says."""

from __future__ import annotations

import difflib
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target

CORPUS = Path(__file__).parent.parent / "corpus"
CASES = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))


def _name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def load(case: Path) -> dict[str, Any]:
    return tomllib.loads((case / "case.toml").read_text())


def run_case(case: Path, folder: Path, runner: Runner) -> Report:
    """Run the engine on a copy of the case, as `gbfix --diff` would."""
    about = load(case)
    for path in case.iterdir():
        if path.name not in ("case.toml",) and not path.name.startswith("after"):
            shutil.copy(path, folder / path.name)
    options = Options(use_cache=False, timeout=120.0, unsafe_fixes=about.get("unsafe", False))
    script, *arguments = about.get("target", ["before.py"])
    kind = "callable" if "::" in script else "script"
    target = Target(kind, script, tuple(arguments), about.get("inputs"), cwd=str(folder))
    return engine.run(target, options, runner=runner)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_corpus_case_comes_out_as_its_metadata_says(
    case: Path, tmp_path: Path, runner: Runner
) -> None:
    about = load(case)
    report = run_case(case, tmp_path, runner)
    fatal = [error for error in report.errors if error.fatal]
    if about["outcome"] == "eager-error":
        assert any(error.kind == "eager-error" for error in report.errors), report.errors
        return
    assert not fatal, fatal
    codes = {item.graph_break.code for item in report.breaks}
    assert about["code"] in codes, f"the program broke with {codes}"
    if about["outcome"] == "advice":
        assert not report.patches, report.patches[0].diff
        assert all(item.advice for item in report.breaks if item.status == "unfixed")
        return
    tried = [
        f"{attempt.codemod}: {attempt.title}: {attempt.reason}"
        for item in report.breaks
        for attempt in item.attempts
    ]
    assert report.patches, f"nothing validated; tried {tried}"
    assert about["codemod"] in {name for patch in report.patches for name in patch.codemods}
    for patch in report.patches:
        expected = (case / Path(patch.path).name.replace("before", "after")).read_text()
        assert patch.after == expected, "".join(
            difflib.unified_diff(expected.splitlines(True), patch.after.splitlines(True))
        )
        wanted = "unsafe" if about.get("unsafe") else "safe"
        assert str(patch.safety) == wanted, patch.verdict.caveats
    whole = about.get("whole", True)
    assert all(region.status in ("fixed", "clean") for region in report.regions) == whole, [
        (region.name, region.status, region.note) for region in report.regions
    ]


def test_the_corpus_is_not_empty() -> None:
    assert len(CASES) > 20
