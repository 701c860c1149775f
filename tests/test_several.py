"""Several targets: their patches merged, checked on each of them, wherever they run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from gbfix import executors, several
from gbfix.arguments import listed_targets
from gbfix.cli import main
from gbfix.schema import Options, Patch, Report, Rung, Target, Verdict
from gbfix.words import ArgumentError
from tests import reports

GOOD = Verdict((Rung("outputs", True),))
BAD = Verdict((Rung("outputs", False, "values differ"),))
DOUBTFUL = Verdict((Rung("outputs", True, "", ("a copy",)),))

BASE = "".join(f"line {number}\n" for number in range(20))


def changed(*numbers: int, text: str = "new") -> str:
    lines = BASE.splitlines(keepends=True)
    for number in numbers:
        lines[number] = f"{text} {number}\n"
    return "".join(lines)


def report(path: Path, after: str, *, name: str = "a.py", files: Sequence[str] = ()) -> Report:
    found = reports.fixed(path)
    found.target = name
    found.patches = []
    if after != BASE:
        found.patches = [dataclasses.replace(reports.patch(path, after=after), before=BASE)]
    else:
        found.breaks = []
    found.files = tuple(files) or (str(path),)
    return found


class Judge:
    """Stands in for the runs that verify: says what it is told to, and keeps what was asked."""

    def __init__(self, verdicts: Mapping[tuple[int, str], Verdict] | None = None) -> None:
        self.asked: list[tuple[int, dict[str, str]]] = []
        self._verdicts = verdicts or {}

    def __call__(self, wanted: Sequence[tuple[int, Mapping[str, str]]]) -> list[Verdict]:
        self.asked += [(number, dict(texts)) for number, texts in wanted]
        return [
            next(
                (
                    verdict
                    for (who, word), verdict in self._verdicts.items()
                    if who == number and any(word in text for text in texts.values())
                ),
                GOOD,
            )
            for number, texts in wanted
        ]


def together(found: Sequence[Report], judge: Judge, **options: object) -> Report:
    settings = Options(**options)  # type: ignore[arg-type]
    return several.together(found, judge, settings, Path("/"))


def texts(result: Report) -> dict[str, str]:
    return {Path(one.path).name: one.after for one in result.patches}


def waits(result: Report) -> list[str]:
    return [error.message for error in result.errors if error.kind == "patch-waits"]


def test_the_same_patch_of_a_helper_is_shown_once_and_not_checked_again(tmp_path: Path) -> None:
    path, judge = tmp_path / "helper.py", Judge()
    result = together([report(path, changed(3)), report(path, changed(3), name="b.py")], judge)
    assert texts(result) == {"helper.py": changed(3)}
    assert judge.asked == []
    assert [(item.target, item.fixed) for item in result.targets] == [("a.py", 1), ("b.py", 1)]


def test_patches_of_different_places_are_merged_and_checked_on_all(tmp_path: Path) -> None:
    path, judge = tmp_path / "helper.py", Judge()
    found = [report(path, changed(3)), report(path, changed(9), name="b.py")]
    result = together(found, judge)
    assert texts(result) == {"helper.py": changed(3, 9)}
    assert judge.asked == [(0, {str(path): changed(3, 9)}), (1, {str(path): changed(3, 9)})]
    (patch,) = result.patches
    assert patch.verdict.rung("targets") is not None
    assert "-line 3\n+new 3" in patch.diff and "-line 9\n+new 9" in patch.diff
    assert not waits(result)


def test_a_target_without_breaks_has_its_say_on_files_that_it_loads(tmp_path: Path) -> None:
    path, judge = tmp_path / "helper.py", Judge({(1, "new 3"): BAD})
    found = [report(path, changed(3)), report(path, BASE, name="b.py")]
    result = together(found, judge)
    assert result.patches == []
    assert [item.status for item in result.breaks] == ["unfixed"]
    (why,) = waits(result)
    assert "b.py does something else (outputs: values differ)" in why


def test_a_target_that_does_not_load_a_file_is_not_asked(tmp_path: Path) -> None:
    path, judge = tmp_path / "helper.py", Judge()
    other = report(path, BASE, name="b.py", files=["/elsewhere.py"])
    assert texts(together([report(path, changed(3)), other], judge))
    assert judge.asked == []


def test_what_does_not_go_together_leaves_the_first(tmp_path: Path) -> None:
    path = tmp_path / "helper.py"
    judge = Judge({(0, "new 9"): BAD})
    found = [report(path, changed(3)), report(path, changed(9), name="b.py"),
             report(path, changed(15), name="c.py")]  # fmt: skip
    result = together(found, judge)
    assert texts(result) == {"helper.py": changed(3, 15)}
    (why,) = waits(result)
    assert why.startswith("a patch for b.py is left out: with it, a.py does something else")
    assert [item.status for item in result.breaks] == ["fixed", "unfixed", "fixed"]


def test_patches_of_the_same_lines_wait(tmp_path: Path) -> None:
    path = tmp_path / "helper.py"
    found = [report(path, changed(3)), report(path, changed(3, text="other"), name="b.py")]
    result = together(found, Judge())
    assert texts(result) == {"helper.py": changed(3)}
    (why,) = waits(result)
    assert "b.py waits" in why and "line 4" in why


def test_a_doubt_counts_unless_unsafe_fixes_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "helper.py"
    for unsafe, wanted in ((False, changed(9)), (True, changed(3, 9))):
        found = [report(path, changed(3)), report(path, changed(9), name="b.py")]
        judge = Judge({(1, "new 3"): DOUBTFUL})
        result = together(found, judge, unsafe_fixes=unsafe)
        assert texts(result) == {"helper.py": wanted}


def test_a_file_that_changed_between_two_runs_is_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "helper.py"
    second = report(path, changed(9), name="b.py")
    old: Patch = second.patches[0]
    second.patches = [dataclasses.replace(old, before=BASE + "more\n", after=old.after + "more\n")]
    result = together([report(path, changed(3)), second], Judge())
    assert texts(result) == {"helper.py": changed(3)}
    assert "changed while gbfix ran" in waits(result)[0]


# -- where they are listed, and where they run ----------------------------------------------------


def test_a_file_of_targets(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    listed = tmp_path / "targets.txt"
    listed.write_text(
        "# what we train\na.py --epochs '1 2'  # small\n\n-m package.train\n"
        "--inputs '(1,)' b.py::f\n"
    )
    assert listed_targets(listed) == [
        Target("script", "a.py", ("--epochs", "1 2"), cwd=str(tmp_path)),
        Target("module", "package.train", (), cwd=str(tmp_path)),
        Target("callable", "b.py::f", (), "(1,)", str(tmp_path)),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no targets"),
        ("a.py\nmissing.py\n", "targets.txt:2: missing.py"),
        ("a.py 'x\n", "targets.txt:1: No closing quotation"),
        ("a.py::f\n", "needs --inputs"),
        ("--check a.py\n", "is not SCRIPT"),
    ],
)
def test_a_file_of_targets_with_a_mistake(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    listed = tmp_path / "targets.txt"
    listed.write_text(text)
    with pytest.raises(ArgumentError, match=says):
        listed_targets(listed)


@pytest.mark.parametrize(
    "address", ["here", "dask://", "dask://host", "http://host:1", "dask://h:x"]
)
def test_an_executor_that_is_none(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--executor", address, "--target-file", __file__]) == 2
    assert "error: " in capsys.readouterr().err


def test_an_executor_that_does_not_answer() -> None:
    with pytest.raises(ArgumentError, match="nobody answers"):
        executors.connect("dask://127.0.0.1:9", 0)


PROGRAM = """
import os
import time

import torch
from helper import {name}

time.sleep({wait})


@torch.compile
def f(x):
    return {name}(x) + 1


f(torch.ones(3))
f(-torch.ones(3))
"""

HELPER = """
import torch


def grown(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def shifted(x):
    if x.mean() > 0:
        x = x + 1
    else:
        x = x - 1
    return x * 3
"""


def project(folder: Path, names: Sequence[str], wait: float = 0.0) -> Path:
    (folder / "pyproject.toml").touch()
    (folder / "helper.py").write_text(HELPER)
    for number, name in enumerate(names):
        text = textwrap.dedent(PROGRAM).lstrip("\n").format(name=name, wait=wait)
        (folder / f"train_{number}.py").write_text(text)
    listed = folder / "targets.txt"
    listed.write_text("".join(f"train_{number}.py\n" for number in range(len(names))))
    return listed


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_three_programs_with_one_helper(
    jobs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = project(tmp_path, ["grown", "shifted", "grown"])
    monkeypatch.chdir(tmp_path)
    words = ["--jobs", jobs, "--format", "json", "--apply", "--target-file", str(listed)]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(item["breaks"], item["fixed"]) for item in data["targets"]] == [(1, 1)] * 3
    (patch,) = data["patches"]
    assert patch["path"] == str(tmp_path / "helper.py")
    after = (tmp_path / "helper.py").read_text()
    assert after.count("torch.where") == 2 and "if " not in after
    assert main(["--check", "--target-file", str(listed)]) == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real Dask cluster: a scheduler and two workers, each a process of its own."""
    address = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard",
               "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(address)]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    started = [subprocess.Popen(command, cwd=tmp_path, **quiet)]  # type: ignore[call-overload]
    for _ in range(600):
        if address.exists() and address.read_text().strip().endswith("}"):
            break
        time.sleep(0.1)
    where = json.loads(address.read_text())["address"]
    for _ in range(2):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", where, "--nthreads", "1",
                   "--nworkers", "1", "--no-nanny", "--no-dashboard"]  # fmt: skip
        started.append(subprocess.Popen(command, cwd=tmp_path, **quiet))  # type: ignore[call-overload]
    try:
        yield where.replace("tcp://", "dask://"), started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_dask_worker_that_dies_loses_nothing(
    cluster: tuple[str, list[subprocess.Popen[bytes]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, workers = cluster
    folder = tmp_path / "project"
    folder.mkdir()
    listed = project(folder, ["grown", "shifted", "grown", "shifted"], wait=1.0)
    monkeypatch.chdir(folder)
    command = [sys.executable, "-m", "gbfix", "--no-cache", "--format", "json",
               "--executor", address, "--target-file", str(listed)]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    time.sleep(8)
    assert run.poll() is None, "the run ended before a worker could be killed"
    os.kill(workers[0].pid, signal.SIGKILL)
    out, err = run.communicate(timeout=400)
    assert run.returncode == 1, err.decode()
    data = json.loads(out)
    assert [item["target"] for item in data["targets"]] == [f"train_{n}.py" for n in range(4)]
    assert [(item["breaks"], item["fixed"]) for item in data["targets"]] == [(1, 1)] * 4
    assert len(data["patches"]) == 1 and len(data["regions"]) == 4
    assert not data["errors"]
