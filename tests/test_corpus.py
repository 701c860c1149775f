"""Every corpus case: the program breaks with its code, and comes out as its metadata says.

gbfix itself runs on a sample of each kind and on some cases of every codemod.  A third of the
others is traced here, by one process (`trace_driver.py`), for their code.  The rest is for
``-m slow``.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest

from gbfix import engine, registry
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target

CORPUS = Path(__file__).parent.parent / "corpus"
CASES = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
ABOUT = {case: tomllib.loads((case / "case.toml").read_text()) for case in CASES}
UNREACHED = {
    code: about
    for path in sorted(CORPUS.glob("unreached*.toml"))
    for code, about in tomllib.loads(path.read_text()).items()
}
#: One of so many light cases is run through gbfix, and one of so many is traced.
_EVERY, _TRACED = 30, 3
#: Of spared cases that need arguments or inputs of their own, and cannot be traced here.
_STARTED = 4
#: Of the cases of one codemod, these many run in any case, and of the others one of so many.
_FIRST, _OTHERS = 1, 20


def _name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


#: Programs of which tracing under ``fullgraph=True`` alone does not tell what gbfix sees: other
#: codes, names of `grad_fn` in what they print, operators that only a real backend takes.
_UNTOLD = {
    "GB0007/stochastic-depth",
    "GB0007/tags-under-a-mask",
    "GB0124/penalty-for-each-time",
    "GB0170/centres-until-they-stay",
    "GB0170/return-through-finally",
    "GB0170/returns-in-a-round-else-computes",
    "GB0170/while-up-to-a-limit",
    "GB7324/gradient-penalty",
    "internal-error/log-of-a-framework",
}


def _spared() -> set[Path]:
    """Fixed cases of codemods that have many: they run under ``-m slow``, and are traced here."""
    found: set[Path] = set()
    counts: dict[str, int] = {}
    for case in CASES:
        about = ABOUT[case]
        if about["outcome"] != "fixed" or about.get("slow", False):
            continue
        count = counts[about["codemod"]] = counts.get(about["codemod"], 0) + 1
        spared = count > _FIRST and count % _OTHERS != 0
        if spared and _name(case) not in _UNTOLD:
            found.add(case)
    return found


SPARED = _spared()


def _is_light(case: Path) -> bool:
    """Whether a program stands alone, so that tracing it says what is to be known of it."""
    about = ABOUT[case]
    slow = about["outcome"] != "fixed" or about.get("slow", False) or case in SPARED
    return slow and "target" not in about


LIGHT = [case for case in CASES if _is_light(case)]
#: By name, so that a new case moves none of the others in or out.
SAMPLE = {case for case in LIGHT if zlib.crc32(_name(case).encode()) % _EVERY == 0}


def _traced(case: Path) -> Any:
    """A third by name; where gbfix runs on a case, tracing says nothing more."""
    chosen = zlib.crc32(_name(case).encode()) % _TRACED == 1 and case not in SAMPLE
    return pytest.param(case, id=_name(case), marks=[] if chosen else [pytest.mark.slow])


def _marked(case: Path) -> Any:
    light = case in LIGHT and case not in SAMPLE
    started = "target" in ABOUT[case] and case in SPARED
    later = light or (started and zlib.crc32(_name(case).encode()) % _STARTED != 0)
    return pytest.param(case, id=_name(case), marks=[pytest.mark.slow] if later else [])


def skip_if_python_is_newer(case: Path) -> None:
    """A later Python's library may do without what breaks."""
    last = ABOUT[case].get("until_python")
    if last is not None and sys.version_info[:2] > tuple(map(int, last.split("."))):
        pytest.skip(f"breaks up to Python {last}")


def run_case(case: Path, folder: Path, runner: Runner) -> Report:
    """Run the engine on a copy of the case, as `gbfix --diff` would."""
    about = ABOUT[case]
    skip_if_python_is_newer(case)
    for path in case.iterdir():
        if path.name not in ("case.toml",) and not path.name.startswith("after"):
            shutil.copy(path, folder / path.name)
    options = Options(use_cache=False, timeout=120.0, unsafe_fixes=about.get("unsafe", False))
    script, *arguments = about.get("target", ["before.py"])
    kind = "callable" if "::" in script else "script"
    target = Target(kind, script, tuple(arguments), about.get("inputs"), cwd=str(folder))
    return engine.run(target, options, runner=runner)


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_corpus_case_comes_out_as_its_metadata_says(
    case: Path, tmp_path: Path, runner: Runner
) -> None:
    about = ABOUT[case]
    report = run_case(case, tmp_path, runner)
    fatal = [error for error in report.errors if error.fatal]
    if about["outcome"] == "eager-error":
        assert any(error.kind == "eager-error" for error in report.errors), report.errors
        return
    assert not fatal, fatal
    codes = {item.graph_break.code for item in report.breaks}
    assert about.get("reported", about["code"]) in codes, f"the program broke with {codes}"
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
    assert (
        all(region.status in ("fixed", "split", "clean") for region in report.regions) == whole
    ), [(region.name, region.status, region.note) for region in report.regions]


# -- the same, traced only -------------------------------------------------------------------


#: Programs that one process traces: its start costs as much as some of them.
_AT_ONCE = 24


class _Traced:
    """What tracing found in programs, by path; those that come next are traced along.

    Workers of pytest-xdist hold all tests and run a part: none traces what another runs.
    """

    def __init__(self, wanted: list[Path], folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder / "corpus"
        self._found: dict[str, dict[str, Any]] = {}
        shutil.copytree(CORPUS, self._folder)

    def of(self, case: Path, program: str) -> dict[str, Any]:
        name = f"{_name(case)}/{program}"
        if name not in self._found:
            at = self._wanted.index(case)
            self._trace(self._wanted[at : at + _AT_ONCE])
        return self._found[name]

    def _trace(self, cases: list[Path]) -> None:
        programs = [
            path
            for case in cases
            for path in sorted((self._folder / _name(case)).glob("[ba]*e*.py"))
        ]
        driver = Path(__file__).with_name("trace_driver.py")
        done = subprocess.run(
            [sys.executable, str(driver), *(str(path) for path in programs)],
            capture_output=True,
            text=True,
            timeout=1200,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        for item in map(json.loads, done.stdout.splitlines()):
            self._found[str(Path(item["path"]).relative_to(self._folder))] = item


@pytest.fixture(scope="module")
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Traced:
    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "traced" in item.fixturenames
    ]
    return _Traced(wanted, tmp_path_factory.mktemp("traced"))


@pytest.mark.parametrize("case", [_traced(case) for case in LIGHT])
def test_corpus_program_breaks_with_its_code(case: Path, traced: _Traced) -> None:
    skip_if_python_is_newer(case)
    about, found = ABOUT[case], traced.of(case, "before.py")
    assert about["code"] in found["codes"], found
    assert bool(found["eager"]) == (about["outcome"] == "eager-error"), found
    if about["outcome"] == "fixed" and about.get("whole", True):
        patched = traced.of(case, "after.py")
        assert (patched["eager"], patched["whole"]) == ("", ""), patched
        assert patched["printed"] == found["printed"]


@pytest.mark.parametrize("case", [c for c in LIGHT if ABOUT[c]["outcome"] == "advice"], ids=_name)
def test_there_is_advice_where_there_is_no_fix(case: Path) -> None:
    about = ABOUT[case]
    assert registry.advice(about.get("reported", about["code"])) is not None


# -- the corpus as a whole -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_metadata_is_complete(case: Path) -> None:
    about = ABOUT[case]
    assert about["outcome"] in ("fixed", "advice", "eager-error")
    assert ("codemod" in about) == (about["outcome"] == "fixed")
    assert (case / "after.py").exists() == (about["outcome"] == "fixed") or len(
        list(case.glob("*.py"))
    ) > 2
    assert set(about) <= {
        "code", "outcome", "codemod", "target", "inputs", "unsafe", "whole", "note", "slow",
        "reported", "until_python",
    }  # fmt: skip
    # The folder is the code as registered, or as gbfix reports it.
    known = registry.Registry.load()
    assert known.resolve(case.parent.name) == case.parent.name


def test_the_sample_holds_both_kinds() -> None:
    assert {ABOUT[case]["outcome"] for case in SAMPLE} >= {"advice", "eager-error"}


def test_every_seed_code_is_reproduced_or_explained() -> None:
    seed = {f"GB{number:04d}" for number in range(286)}
    reproduced = {about["code"] for about in ABOUT.values()} & seed
    explained = set(UNREACHED) & seed
    assert reproduced | explained == seed, sorted(seed - reproduced - explained)
    assert not reproduced & explained


def test_every_registered_code_is_reproduced_or_explained() -> None:
    if not registry.torch_version().startswith("2.13."):
        pytest.skip("rows are kept for the registry of the torch that is supported")
    known = registry.Registry.load()
    registered = {code for code in known.codes() if known.entry(code).installed}
    reproduced = {about["code"] for about in ABOUT.values()} & registered
    explained = set(UNREACHED) & registered
    assert reproduced | explained == registered, sorted(registered - reproduced - explained)
    assert not reproduced & explained, sorted(reproduced & explained)


@pytest.mark.parametrize("code", UNREACHED)
def test_an_unreached_code_has_evidence(code: str) -> None:
    """Its title is in no file of the installed torch, or where it is raised is named."""
    about = UNREACHED[code]
    folder = registry.torch_folder()
    assert folder is not None
    assert about["why"]
    if about["kind"] == "gone":
        assert not _raised(folder, registry.Registry.load().entry(code))
        return
    assert about["kind"] in ("internal", "hardware", "build", "shadowed", "opcode", "open")
    path, _, function = about["where"].partition("::")
    text = (folder / path).read_text(encoding="utf-8")
    assert f"def {function}(" in text, f"{path} has no {function} any more"
    titles = {entry.gb_type for entry in registry.Registry.load().entry(code).entries}
    assert any(title in text for title in titles), f"{code} is not raised in {path} any more"


def _raised(folder: Path, code: registry.Code) -> bool:
    source = _source_of_dynamo(folder)
    return any(f'"{entry.gb_type}"' in source for entry in code.entries)


@functools.cache
def _source_of_dynamo(folder: Path) -> str:
    files = sorted((folder / "_dynamo").rglob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
