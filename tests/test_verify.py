"""`gbfix verify`: right, unsafe, wrong and unfinished changes by hand, and what it says of them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from gbfix import changes, cli, counterexample, matching, verification, verify
from gbfix.patch import unified_diff
from gbfix.report import plain, verdicts
from gbfix.runner import Runner
from gbfix.schema import Asked, Options, Target
from gbfix.source import ABSENT

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.lin(x)
        if h.sum() > 0:
            h = h * 2
        else:
            h = h - 1
        return h
"""
TRAIN = """
import torch
from model import Net

torch.manual_seed(0)
net = torch.compile(Net())


@torch.compile
def norm(x):
    return x / (x.norm() + 1)


for _ in range(2):
    x = torch.randn(3, 4)
    print(net(x).shape, norm(x).shape)
"""
BRANCH = (
    "if h.sum() > 0:\n            h = h * 2\n        else:\n            h = h - 1\n        return h"
)
RIGHT = "return torch.where(h.sum() > 0, h * 2, h - 1)"

Project = Callable[..., verify.Verification]


def _write(folder: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))


def _commit(folder: Path) -> None:
    words = ["git", "-C", str(folder), "-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run([*words, "init", "-q"], check=True)
    subprocess.run([*words, "add", "-A"], check=True)
    subprocess.run([*words, "commit", "-qm", "one"], check=True)


@pytest.fixture
def judged(tmp_path: Path, runner: Runner) -> Project:
    """Commit one version of a project, write another, and judge the difference."""

    def run(
        before: dict[str, str],
        after: dict[str, str | None],
        *,
        target: str = "train.py",
        save: bool = False,
    ) -> verify.Verification:
        if before:
            _write(tmp_path, before)
            _commit(tmp_path)
        _write(tmp_path, after)
        wanted = Target("script", target, (), cwd=str(tmp_path))
        change = changes.against_revision("HEAD", tmp_path)
        options = Options(use_cache=False, timeout=120.0)
        found = verify.verify(wanted, options, change, runner=runner)
        if save:
            folder = tmp_path / "shown"
            counterexample.write(folder, found, change, wanted, str(tmp_path), 120.0)
        return found

    return run


def _status(found: verify.Verification) -> dict[str, str]:
    return {part.name: part.status for part in found.parts}


def test_a_right_change_is_safe_and_the_break_is_gone(judged: Project) -> None:
    found = judged({"model.py": NET, "train.py": TRAIN}, {"model.py": NET.replace(BRANCH, RIGHT)})
    assert found.errors == []
    assert _status(found) == {"Net": "safe", "norm": "safe"}
    (net, _) = found.regions
    assert (net.breaks_before, net.breaks_after, net.graphs_after) == (1, 0, 1)
    assert net.verdict.branches == (2, 2)
    assert found.exit_status() == 0
    assert found.files == (("model.py", "changed"),)


def test_a_wrong_change_comes_with_the_inputs_that_show_it(judged: Project, tmp_path: Path) -> None:
    wrong = NET.replace(BRANCH, RIGHT.replace("h - 1", "h + 1"))
    found = judged({"model.py": NET, "train.py": TRAIN}, {"model.py": wrong}, save=True)
    assert _status(found) == {"Net": "wrong", "norm": "safe"}
    assert found.exit_status() == 1
    assert found.witness is not None
    assert found.reproduced is True
    script = tmp_path / "shown" / "show.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "output\n  old: tensor(" in done.stdout
    assert (tmp_path / "shown" / "input.pt").exists()
    # The project itself is as it was.
    assert (tmp_path / "model.py").read_text() == wrong.lstrip("\n")


def test_breaks_that_are_left_are_said_and_may_be_allowed(judged: Project) -> None:
    after = NET.replace("h * 2", "2 * h")
    found = judged({"model.py": NET, "train.py": TRAIN}, {"model.py": after})
    assert _status(found) == {"Net": "still breaks", "norm": "safe"}
    assert found.regions[0].breaks[0].code == "GB0170"
    assert found.exit_status() == 1
    assert found.exit_status(allow_breaks=True) == 0


def test_new_deleted_and_moved_files_are_seen_by_the_right_side(judged: Project) -> None:
    before = {
        "model.py": NET.replace(
            "import torch\n", "import torch\nfrom scale import SCALE\n"
        ).replace("h - 1", "h - SCALE"),
        "scale.py": "SCALE = 1\n",
        "train.py": TRAIN,
    }
    after = {
        "model.py": None,
        "scale.py": None,
        "lib/__init__.py": "",
        "lib/model.py": before["model.py"]
        .replace("from scale", "from lib.constants")
        .replace(BRANCH.replace("h - 1", "h - SCALE"), RIGHT.replace("h - 1", "h - SCALE")),
        "lib/constants.py": "SCALE = 1\n",
        "train.py": TRAIN.replace("from model", "from lib.model"),
    }
    found = judged(before, after)
    assert _status(found) == {"Net": "safe", "norm": "safe"}, [p.reasons for p in found.parts]
    assert found.regions[0].was.endswith("model.py::Net")
    assert found.regions[0].path.endswith("lib/model.py")


def test_a_renamed_region_is_found_again_and_judged(judged: Project) -> None:
    after = TRAIN.replace("def norm", "def normalised").replace(
        "norm(x).shape", "normalised(x).shape"
    )
    found = judged(
        {"model.py": NET, "train.py": TRAIN}, {"train.py": after.replace("+ 1)", "+ 2)")}
    )
    assert _status(found)["normalised"] == "wrong", found
    assert found.regions[1].was.endswith("::norm")


def test_a_region_that_is_gone_is_said_to_be_gone(judged: Project) -> None:
    start, end = TRAIN.index("@torch.compile"), TRAIN.index("for _")
    after = (TRAIN[:start] + TRAIN[end:]).replace("norm(x).shape", "x.shape")
    found = judged({"model.py": NET, "train.py": TRAIN}, {"train.py": after})
    assert _status(found)["norm"] == "unmatched"
    assert found.exit_status() == 1
    assert "no region of the changed program" in found.regions[1].reasons[0]


def test_a_function_cut_in_two_is_compared_where_it_was(judged: Project) -> None:
    before = """
    import torch

    @torch.compile
    def f(x):
        y = x * 2
        print("middle")
        return y + 1

    print(f(torch.ones(3)))
    """
    after = """
    import torch

    @torch.compile
    def f_first(x):
        return x * 2

    @torch.compile
    def f_second(y):
        return y + 1

    def f(x):
        y = f_first(x)
        print("middle")
        return f_second(y)

    print(f(torch.ones(3)))
    """
    found = judged({"train.py": before}, {"train.py": after})
    assert _status(found) == {"f": "safe"}, [p.reasons for p in found.parts]
    assert "f_first, f_second compiled instead" in found.regions[0].note


def test_what_did_not_run_is_a_limit(judged: Project) -> None:
    extra = "\n\ndef unused(x):\n    return x + {}\n"
    found = judged(
        {
            "model.py": NET + extra.format(1),
            "train.py": TRAIN,
            "other.py": "A = 1\n",
            "c.yaml": "a",
        },
        {"model.py": NET + extra.format(2), "other.py": "A = 2\n", "c.yaml": "b"},
    )
    text = " ".join(found.limits)
    assert "other.py is not loaded by this program" in text
    assert "unused (model.py:" in text and "never ran" in text
    assert "c.yaml changed too" in text


def test_a_crash_and_a_text_that_is_no_python_are_wrong(judged: Project) -> None:
    crash = TRAIN.replace("import torch\n", "import torch\nimport nowhere_to_be_found\n", 1)
    found = judged({"model.py": NET, "train.py": TRAIN}, {"train.py": crash})
    assert found.status == "wrong"
    assert "nowhere_to_be_found" in verdicts.headline(found)


def test_a_text_that_is_no_python_is_wrong(judged: Project) -> None:
    found = judged({"model.py": NET, "train.py": TRAIN}, {"model.py": NET + "def (:\n"})
    assert found.status == "wrong"
    assert "does not parse" in found.parts[0].reasons[0]


def test_other_output_of_the_program_is_wrong(judged: Project) -> None:
    found = judged(
        {"model.py": NET, "train.py": TRAIN},
        {"train.py": TRAIN.replace("print(net", "print(1, net")},
    )
    assert found.status == "wrong"
    assert found.program is not None
    assert "prints something else" in found.program.reasons[0]


def test_a_print_that_moved_to_the_caller_is_no_wrong_value(judged: Project) -> None:
    before = """
    import torch

    @torch.compile
    def f(x):
        y = x.relu()
        print("mean", float(y.mean()))
        return y

    out = f(torch.arange(5.0) - 2)
    """
    after = before.replace('        print("mean", float(y.mean()))\n', "").replace(
        "- 2)\n", '- 2)\n    print("mean", float(out.mean()))\n'
    )
    found = judged({"train.py": before}, {"train.py": after})
    assert _status(found) == {"f": "unsafe"}
    assert "the program prints the same" in found.regions[0].reasons[0]
    lost = before.replace('        print("mean", float(y.mean()))\n', "")
    assert judged({}, {"train.py": lost}).status == "wrong"


def test_nothing_changed_needs_no_run(judged: Project) -> None:
    found = judged({"model.py": NET, "train.py": TRAIN}, {})
    assert (found.status, found.exit_status()) == ("same", 0)
    assert "Nothing that is Python changed" in verdicts.headline(found)


def test_how_far_values_are_apart_is_said_in_few_words() -> None:
    text = (
        "output: values differ (Mismatched elements: 2 / 3 (66.7%); Greatest absolute difference: "
        "1.5 at index (1,) (up to 1e-05 allowed); Greatest relative difference: 21.18 at index "
        "(1,) (up to 1.3e-06 allowed)) (inputs: negated)"
    )
    assert plain.difference(text) == (
        "output: values differ (2 of 3, by up to 1.5) (on the program's inputs, negated)"
    )
    text = (
        "self.n afterwards: values differ (Scalars are not close! Expected 1.0 but got 0.0. "
        "Absolute difference: 1.0 (up to 1e-05 allowed) R...) (inputs: base)"
    )
    assert plain.difference(text) == (
        "self.n afterwards: values differ (1.0 became 0.0) (on the program's own inputs)"
    )


def test_code_outside_functions_is_told_from_definitions_and_imports() -> None:
    before = {
        "a.py": "import os\n\n\ndef f():\n    return 1\n\n\nLIMIT = 3\n",
        "b.py": "def g():\n    pass\n",
    }
    after = {
        "a.py": before["a.py"].replace("3", "4"),
        "b.py": "import os\n" + before["b.py"].replace("pass", "return 2"),
    }
    assert matching.changed_outside(before, after) == ("a.py",)


# -- changes -------------------------------------------------------------------------------------


def test_a_revision_a_folder_and_a_patch_name_the_same_change(tmp_path: Path) -> None:
    one, old = tmp_path / "one", tmp_path / "old"
    _write(one, {"a.py": "A = 1\n", "b.py": "B = 1\n", "data.txt": "x"})
    _commit(one)
    shutil.copytree(one, old)
    _write(one, {"a.py": "A = 2\n", "b.py": None, "c.py": "C = 1\n", "data.txt": "y"})
    expected = {
        "a.py": (b"A = 1\n", b"A = 2\n"),
        "b.py": (b"B = 1\n", None),
        "c.py": (None, b"C = 1\n"),
    }

    def seen(change: changes.Change) -> dict[str, tuple[bytes | None, bytes | None]]:
        return {Path(item.path).name: (item.before, item.after) for item in change.files}

    assert seen(changes.against_revision("HEAD", one)) == expected
    assert seen(changes.against_folder(old, one)) == expected
    subprocess.run(["git", "-C", str(one), "add", "-A"], check=True)
    diff = subprocess.run(
        ["git", "-C", str(one), "diff", "--cached", "HEAD"], capture_output=True, check=True
    ).stdout
    found = changes.with_patch(diff, old, "x.diff")
    assert seen(found) == expected
    assert found.others == (str(old / "data.txt"),)
    assert (old / "a.py").read_text() == "A = 1\n"
    assert found.edits[str(old / "b.py")] == ABSENT


def test_a_patch_that_does_not_apply_says_so(tmp_path: Path) -> None:
    _write(tmp_path, {"a.py": "A = 3\n"})
    diff = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-A = 1\n+A = 2\n"
    with pytest.raises(changes.ChangeError, match="does not apply"):
        changes.with_patch(diff, tmp_path, "x.diff")
    with pytest.raises(changes.ChangeError, match="no unified diff"):
        changes.with_patch(b"hello", tmp_path, "x.diff")


def test_an_unknown_revision_and_a_folder_outside_git_say_so(tmp_path: Path) -> None:
    with pytest.raises(changes.ChangeError, match="in no git repository"):
        changes.against_revision("HEAD", tmp_path)
    _write(tmp_path, {"a.py": "A = 3\n"})
    _commit(tmp_path)
    with pytest.raises(changes.ChangeError, match="neither a folder nor a revision"):
        changes.against_revision("nowhere", tmp_path)


# -- the command ---------------------------------------------------------------------------------

SCHEMA = json.loads(
    (Path(verdicts.__file__).parent / "verify.schema.json").read_text(encoding="utf-8")
)


def test_the_command_judges_a_patch_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (
        "import torch\n\n@torch.compile\ndef f(x):\n    return x + 1\n\nprint(f(torch.ones(3)))\n"
    )
    _write(tmp_path, {"f.py": source})
    after = source.replace("x + 1", "x.abs() + 1")
    (tmp_path / "by-hand.diff").write_text(unified_diff(source, after, "f.py"))
    monkeypatch.chdir(tmp_path)
    status = cli.main(
        ["verify", "--patch", "by-hand.diff", "--format", "json", "--save-counterexample", "shown",
         "--also", "sarif=v.sarif", "--also", "markdown=v.md", "--also", "github=v.txt", "f.py"]
    )  # fmt: skip
    shown = capsys.readouterr()
    assert shown.out, shown.err
    data = json.loads(shown.out)
    jsonschema.validate(data, SCHEMA)
    assert (status, data["status"], data["exit_status"]) == (1, "wrong", 1)
    assert data["counterexample"]["reproduced"] is True
    assert data["regions"][0]["verdict"]["outputs"]["passed"] is False
    run = json.loads((tmp_path / "v.sarif").read_text())["runs"][0]
    assert run["results"][0]["ruleId"] == "verify-wrong"
    assert (tmp_path / "v.md").read_text().startswith("### ❌ gbfix verify: The change is wrong: f")
    assert "::error file=f.py,line=3," in (tmp_path / "v.txt").read_text()
    assert (tmp_path / "f.py").read_text() == source


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["f.py", "--against", "HEAD"], "stands after the target"),
        (["--also", "x", "f.py"], "is not FORMAT=FILE"),
        (["--against", "HEAD", "--patch", "-", "f.py"], "exclude each other"),
        (["--patch", "nothing.diff", "f.py"], "cannot be read"),
        ([], "no target"),
        (["f.py"], "in no git repository"),
        (["--against", ".", "n.ipynb"], "n.ipynb: verify does not read notebooks; write both"),
        (["n.ipynb"], "and compare these with --against DIR"),
        (["--patch", "-", "f.py"], "--patch: the patch from standard input holds no unified diff"),
    ],
)
def test_mistakes_are_one_clear_line(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "f.py").write_text("import torch\n")
    (tmp_path / "n.ipynb").write_text('{"cells": [], "nbformat": 4}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no diff")))
    assert cli.main(["verify", *words]) == 2
    shown = capsys.readouterr()
    assert says in shown.err and shown.err.count("\n") == 1, shown.err
    assert shown.out == ""


def test_an_older_copy_inside_the_project_and_environments_are_no_changes(tmp_path: Path) -> None:
    _write(
        tmp_path, {"a.py": "A = 2\n", "old/a.py": "A = 1\n", "venv/pyvenv.cfg": "", "venv/x.py": ""}
    )
    change = changes.against_folder(tmp_path / "old", tmp_path)
    assert [Path(item.path).name for item in change.files] == ["a.py"]


# -- texts that are served -------------------------------------------------------------------------


def test_files_that_one_version_lacks_are_found_and_hidden(tmp_path: Path) -> None:
    from gbfix.worker.overlay import Overlay, OverlayFinder

    _write(
        tmp_path,
        {"package/__init__.py": "A = 1\n", "package/part.py": "B = 1\n", "gone.py": "C = 1\n"},
    )
    root = tmp_path.resolve()
    absent = ABSENT.encode()
    served = Overlay(
        {
            str(root / "package" / "__init__.py"): absent,
            str(root / "gone.py"): absent,
            str(root / "added.py"): b"D = 1\n",
            str(root / "fresh" / "__init__.py"): b"",
            str(root / "fresh" / "inner.py"): b"E = 1\n",
        },
        (),
        lambda tree, instruments: tree,
    )
    code = textwrap.dedent(
        f"""
        import importlib, sys
        sys.path.insert(0, {str(root)!r})
        import package.part, added, fresh.inner
        print(package.part.B, added.D, fresh.inner.E, hasattr(package, "A"))
        try:
            import gone
        except ModuleNotFoundError as error:
            print(error.name)
        """
    )
    before = list(sys.path), dict(sys.modules)

    finder = OverlayFinder(served)
    sys.meta_path.insert(0, finder)
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            exec(code, {})
    finally:
        sys.meta_path.remove(finder)
        sys.path[:] = before[0]
        for name in set(sys.modules) - set(before[1]):
            del sys.modules[name]
    assert shown.getvalue() == "1 1 1 False\ngone\n"


def test_the_way_to_fixes_keeps_the_launcher() -> None:
    part = verification.RegionVerdict("k", "f", "f.py", 1, "still breaks")
    found = verification.Verification("f.py", "HEAD", regions=[part])
    assert verdicts.next_steps(found)[-1] == "Fixes for them: gbfix f.py"
    found.asked = Asked("torchrun --nproc-per-node 2 f.py")
    assert verdicts.next_steps(found)[-1].endswith(": gbfix torchrun --nproc-per-node 2 f.py")
