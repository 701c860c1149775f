"""The command line: its words, its exit statuses, its errors.  The engine is a stand-in here."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import reports

import gbfix
from gbfix import arguments, config, engine, journal, session
from gbfix.cli import main
from gbfix.schema import ErrorReport, Options, Report, Target

SCHEMA = json.loads((Path(gbfix.__file__).parent / "report" / "report.schema.json").read_text())


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder that is the working folder, with ``model.py`` in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (folder / "model.py").write_text(reports.BEFORE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GBFIX_STATE_DIR", str(tmp_path / "state"))
    return folder


class Engine:
    """Stands in for `gbfix.engine.run`: remembers what it was asked, answers as told."""

    def __init__(self) -> None:
        self.asked: list[tuple[Target, Options]] = []
        self.make: Callable[[Path], Report] = reports.clean
        self.path = Path("model.py")

    def run(
        self,
        target: Target,
        options: Options,
        progress: Callable[[str], None] = lambda text: None,
        runner: object = None,
    ) -> Report:
        self.asked.append((target, options))
        progress("working")
        return self.make(Path(target.cwd, self.path))

    @property
    def target(self) -> Target:
        return self.asked[-1][0]

    @property
    def options(self) -> Options:
        return self.asked[-1][1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine()
    monkeypatch.setattr(engine, "run", stand_in.run)
    return stand_in


def errors_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a command line that must fail with one clear line and status 2."""
    status = main(words)
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith("error: ") and "Traceback" not in err
    return err.removeprefix("error: ").rstrip("\n")


# -- targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind", "value", "args"),
    [
        (["model.py"], "script", "model.py", ()),
        (["model.py", "--epochs", "3", "-v"], "script", "model.py", ("--epochs", "3", "-v")),
        (["-v", "model.py", "--help"], "script", "model.py", ("--help",)),
        (["--", "model.py", "--", "x"], "script", "model.py", ("--", "x")),
        (["--calls", "3", "model.py"], "script", "model.py", ()),
        (["--calls=3", "model.py", "-m"], "script", "model.py", ("-m",)),
        (["-m", "pkg.mod", "--x", "y"], "module", "pkg.mod", ("--x", "y")),
        (["-mpkg"], "module", "pkg", ()),
        (["-vm", "pkg", "-q"], "module", "pkg", ("-q",)),
        (["--diff", "-qmpkg", "a"], "module", "pkg", ("a",)),
        (["model.py", "explain"], "script", "model.py", ("explain",)),
        (["./explain"], "script", "./explain", ()),
        (["--diff", "./codes", "1"], "script", "./codes", ("1",)),
    ],
)
def test_options_stop_where_the_target_begins(
    fake: Engine, project: Path, words: list[str], kind: str, value: str, args: tuple[str, ...]
) -> None:
    for name in ("explain", "codes"):
        (project / name).write_text("x = 1\n")
    assert main(words) == 0
    assert fake.target == Target(kind, value, args, cwd=str(project))


def test_a_callable_target_has_inputs(fake: Engine, project: Path) -> None:
    assert main(["--inputs", " (torch.ones(3),)", "model.py::Net.forward"]) == 0
    assert fake.target == Target(
        "callable", "model.py::Net.forward", (), " (torch.ones(3),)", str(project)
    )


def test_one_cluster_of_letters_before_m_is_kept(fake: Engine) -> None:
    assert main(["-vvm", "pkg"]) == 0
    assert fake.options.verbose == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no target: name a script"),
        (["none.py"], "none.py: no such file"),
        (["pkgname"], "for a module write `gbfix -m pkgname`"),
        (["none.ipynb"], "none.ipynb: no such file"),
        (["--repro", "pyproject.toml", "model.py"], "pyproject.toml: is a file; name a folder"),
        (["--save", "pyproject.toml", "model.py"], "pyproject.toml: is a file; name a folder"),
        (["-v", "explain"], "for the command write `gbfix explain ...`"),
        (["."], ".: is a directory"),
        (["-"], "standard input"),
        (["-m"], "-m needs the name of a module"),
        (["-m", "model.py.x-y"], "not the name of a module"),
        (["model.py::f"], "needs --inputs"),
        (["--inputs", "(1", "model.py::f"], "is not a Python expression"),
        (["--inputs", "x = 1", "model.py::f"], "is not a Python expression"),
        (["--inputs", "1", "model.py"], "--inputs goes with"),
        (["--inputs", "1", "-m", "model"], "--inputs goes with"),
        (["--inputs", "1", "model.py::f", "x"], "takes no arguments ('x')"),
        (["--inputs", "1", "model.py::f()"], "not a qualified name"),
        (["--inputs", "1", "model.py::"], "not a qualified name"),
        (["--inputs", "1", "none.py::f"], "none.py: no such file"),
        (["--wrong", "model.py"], "--wrong"),
        (["--calls", "0", "model.py"], "--calls"),
        (["--calls", "x", "model.py"], "--calls"),
        (["--calls"], "--calls"),
        (["--timeout", "0", "model.py"], "--timeout"),
        (["--memory-limit", "lots", "model.py"], "'lots' is not a size"),
        (["--backend", "cuda", "model.py"], "'cuda' is not one of"),
        (["--format", "xml", "model.py"], "--format"),
        (["--select", "GB01700", "model.py"], "close matches: GB0170"),
        (["--ignore", "data-dep", "model.py"], "data-dependent-guard"),
        (["--interactive", "model.py"], "needs a terminal"),
        (["explain"], "CODE"),
        (["explain", "nonsense"], "unknown graph break code or family 'nonsense'"),
        (["codes", "--format", "xml"], "--format"),
        (["undo"], "nothing to undo"),
        (["undo", "x"], "x"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    fake: Engine, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = errors_of(words, capsys)
    assert message in error
    assert "\n" not in error
    assert not fake.asked


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\nif x:\n\ty = = 2\n", "model.py:3: syntax error: invalid syntax"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"x = '\xe9'\n", "save the file as UTF-8"),
        (b"\0", "null bytes"),
    ],
)
def test_a_target_that_python_cannot_read_is_a_clear_error(
    fake: Engine, project: Path, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "model.py").write_bytes(data)
    error = errors_of(["model.py"], capsys)
    assert message in error
    if "syntax" in message:
        assert error.endswith("    \ty = = 2\n    \t    ^")


def test_a_missing_notebook_is_no_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-m" not in errors_of(["none.ipynb"], capsys)


def test_a_notebook_is_refused_with_a_way_out(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "n.ipynb").write_text("{}")
    assert "is no notebook" in errors_of(["n.ipynb"], capsys)


# -- options -------------------------------------------------------------------------------------


def test_a_budget_of_nothing_has_no_end(fake: Engine) -> None:
    assert main(["--budget", "0", "model.py"]) == 0
    assert fake.options is not None and fake.options.budget == 0.0


def test_options_reach_the_engine(fake: Engine) -> None:
    words = "--calls 3 --backend inductor --jobs 4 --timeout 9.5 --memory-limit 1.5GiB --no-cache"
    words += " --unsafe-fixes --select gb170,25 --select internal-error --ignore GB0007 --check -vv"
    words += " --inductor-timeout 7 --budget 50"
    assert main([*words.split(), "model.py"]) == 0
    assert fake.options == Options(
        calls=3,
        backends=("eager", "aot_eager", "inductor"),
        jobs=4,
        timeout=9.5,
        inductor_timeout=7.0,
        budget=50.0,
        memory_limit=3 << 29,
        select=("GB0170", "GB0025", "internal-error"),
        ignore=("GB0007",),
        unsafe_fixes=True,
        check_only=True,
        use_cache=False,
        verbose=2,
    )


def test_without_options_the_defaults_hold(fake: Engine) -> None:
    assert main(["model.py"]) == 0
    assert fake.options == Options(inductor=True)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("2k", 2048),
        ("8G", 8 << 30),
        ("512 MB", 512 << 20),
        ("1t", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert arguments.size(text) == size


def test_codemods_can_be_selected_by_name(fake: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from gbfix import catalog

    info = catalog.CodemodInfo("if-to-cond", ("GB0170",), "x.py")
    monkeypatch.setattr(catalog, "codemods", lambda: (info,))
    assert main(["--select", "if-to-cond", "model.py"]) == 0
    assert fake.options.select == ("if-to-cond",)


def test_a_codemods_name_that_is_nearly_right_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gbfix import catalog

    info = catalog.CodemodInfo("if-to-cond", ("GB0170",), "x.py")
    monkeypatch.setattr(catalog, "codemods", lambda: (info,))
    assert "if-to-cond" in errors_of(["--select", "if-to-con", "model.py"], capsys)


# -- configuration -------------------------------------------------------------------------------


def configure(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.gbfix]\n{text}\n")


def test_the_configuration_fills_in_what_the_command_line_leaves_open(
    fake: Engine, project: Path
) -> None:
    configure(
        project,
        'targets = ["model.py --n 1"]\nselect = ["170"]\ncalls = 5\ntimeout = 3\ncache = false\n'
        'memory-limit = "1G"\nunsafe-fixes = true\nexclude = ["vendor/**"]\nbackend = ["inductor"]',
    )
    assert main(["--calls", "4"]) == 0
    assert fake.target == Target("script", "model.py", ("--n", "1"), cwd=str(project))
    options = fake.options
    assert (options.calls, options.timeout, options.memory_limit) == (4, 3.0, 1 << 30)
    assert (options.select, options.exclude) == (("GB0170",), ("vendor/**",))
    assert options.unsafe_fixes and not options.use_cache
    assert options.backends == ("eager", "aot_eager", "inductor")


def test_configured_targets_run_in_the_configurations_folder(
    fake: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(
        project,
        'targets = ["-m pkg.train -x", {target = "model.py::f", inputs = "(1,)"}]',
    )
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    assert main([]) == 0
    assert [target for target, _ in fake.asked] == [
        Target("module", "pkg.train", ("-x",), cwd=str(project)),
        Target("callable", "model.py::f", (), "(1,)", cwd=str(project)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unsafe_fixes = true", "unknown key 'unsafe_fixes'; did you mean 'unsafe-fixes'?"),
        ("zzz = 1", "unknown key 'zzz'; known keys: targets"),
        ("calls = '3'", "calls must be a number"),
        ("calls = -1", "calls must be a number"),
        ("calls = true", "calls must be a number"),
        ("cache = 1", "cache must be true or false"),
        ("select = 'GB0170'", "select must be a list of strings"),
        ("targets = 'x.py'", "targets must be a list"),
        ("targets = ['']", "not empty strings"),
        ('targets = ["it\'s"]', "No closing quotation"),
        ("targets = [{inputs = '1'}]", "targets must be"),
        ("memory-limit = 1.5", "memory-limit must be"),
        ("x = [", "not valid TOML"),
        ("select = ['nope']", "unknown graph break code"),
        ("backend = ['cuda']", "'cuda' is not one of"),
    ],
)
def test_mistakes_in_the_configuration_are_named(
    project: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(project, text)
    assert message in errors_of(["model.py"], capsys)


def test_the_nearest_configuration_counts(project: Path) -> None:
    configure(project, "calls = 7")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert config.load(inner) == config.Config(project, (), {"calls": 7})
    assert config.load(project.parent).options == {}


# -- modes ---------------------------------------------------------------------------------------


def test_diff_shows_and_writes_nothing(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = reports.fixed
    assert main(["model.py"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("--- a/model.py\n+++ b/model.py\n@@")
    assert "GB0170" in err
    assert (project / "model.py").read_text() == reports.BEFORE


def test_apply_writes_and_undo_takes_back(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = reports.fixed
    assert main(["--apply", "model.py"]) == 0
    out, err = capsys.readouterr()
    assert "wrote model.py" in out and "1 fixed, 0 left" in out and err == ""
    # The source line shown is the one that broke, not what stands there now.
    assert "5 |         if x.sum() > 0:" in out
    assert (project / "model.py").read_text() == reports.AFTER
    assert main(["undo"]) == 0
    assert capsys.readouterr().out == f"restored {project / 'model.py'}\n"
    assert (project / "model.py").read_text() == reports.BEFORE


def test_undo_of_an_edited_file_needs_force(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = reports.fixed
    main(["--apply", "model.py"])
    (project / "model.py").write_text("mine\n")
    capsys.readouterr()
    assert "was edited since gbfix wrote it" in errors_of(["undo"], capsys)
    assert main(["undo", "--force"]) == 0
    assert (project / "model.py").read_text() == reports.BEFORE


def test_apply_that_cannot_write_is_an_error_and_fixes_nothing(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = reports.fixed
    (project / "model.py").chmod(0o444)
    assert main(["--apply", "model.py"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"error: {project / 'model.py'}: is a read-only file; nothing was writ")
    assert "0 fixed, 1 left" in out and "wrote" not in out
    assert (project / "model.py").read_text() == reports.BEFORE


def test_apply_to_a_file_changed_meanwhile_is_refused(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(path: Path) -> Report:
        report = reports.fixed(path)
        path.write_text("changed\n")
        return report

    fake.make = make
    assert main(["--apply", "--format", "json", "model.py"]) == 2
    out, err = capsys.readouterr()
    assert "changed since gbfix read it" in err
    data = json.loads(out)
    jsonschema.validate(data, SCHEMA)
    assert data["errors"][0]["kind"] == "not-written"
    assert data["breaks"][0]["status"] == "unfixed"
    assert (project / "model.py").read_text() == "changed\n"


def test_apply_refuses_files_of_another_project(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "lib.py").write_text(reports.BEFORE)
    fake.make = reports.fixed
    fake.path = other / "lib.py"
    assert main(["--apply", "model.py"]) == 2
    assert "is outside the project" in capsys.readouterr().err
    assert (other / "lib.py").read_text() == reports.BEFORE


def test_a_script_of_another_project_may_be_patched_when_named(fake: Engine, project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "lib.py").write_text(reports.BEFORE)
    fake.make = reports.fixed
    fake.path = other / "lib.py"
    assert main(["--apply", "../other/lib.py"]) == 0
    assert (other / "lib.py").read_text() == reports.AFTER
    assert main(["undo"]) == 0
    assert (other / "lib.py").read_text() == reports.BEFORE


def test_check_reports_without_patches(fake: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def make(path: Path) -> Report:
        return dataclasses.replace(reports.unfixed(path), unsafe_patches=[])

    fake.make = make
    assert main(["--check", "model.py"]) == 1
    out, err = capsys.readouterr()
    assert "model.py:5:5 GB0170" in out and err == ""
    assert out.rstrip().endswith(
        "Found 1 graph break in 1 region.\nNext: gbfix model.py  looks for fixes and shows them"
    )


NEXT = {
    "model.py --steps '2 3'": "gbfix --apply model.py --steps '2 3'",
    "-m pack.model -x": "gbfix --apply -m pack.model -x",
    "torchrun --nproc-per-node 2 model.py": "gbfix --apply torchrun --nproc-per-node 2 model.py",
    "-v --diff --select GB0170 --select GB0007 --timeout 9.5 --only-if-faster model.py": (
        "gbfix --apply --select GB0170 --select GB0007 --only-if-faster --timeout 9.5 model.py"
    ),
    "--unsafe-fixes --no-cache model.py": "gbfix --apply --unsafe-fixes --no-cache model.py",
    "--inputs '(1, 2)' model.py::f": "gbfix --apply --inputs '(1, 2)' model.py::f",
    "--target-file some.txt": "gbfix --apply --target-file some.txt",
}


@pytest.mark.parametrize("line", NEXT, ids=str)
def test_the_next_command_is_for_the_same_target(
    line: str, fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "some.txt").write_text("model.py\n")
    fake.make = lambda _: reports.fixed(project / "model.py")
    assert main(shlex.split(line)) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert f"Next: {NEXT[line]} writes the fix;" in shown


def test_what_is_not_written_is_fixed_nowhere(
    fake: Engine, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table and the closing line agree, for a patch of a package as for one said no to."""
    site = project / "site-packages" / "toys"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("")
    (site / "layer.py").write_text(reports.BEFORE)
    monkeypatch.syspath_prepend(str(site.parent))
    fake.make, fake.path = reports.fixed, site / "layer.py"
    assert main(["--include", "toys", "--apply", "model.py"]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"^f +\S+ +unfixed +1 +2$", out, re.MULTILINE)
    assert "0 fixed, 1 left" in out and "belongs to an installed package" in err
    assert "Next: gbfix --save overlay --include toys model.py" in out
    assert main(["--include", "toys", "--apply", "--save", "over", "model.py"]) == 0
    out, _ = capsys.readouterr()
    assert re.search(r"^f +\S+ +fixed +1 -> 0 +2 -> 1$", out, re.MULTILINE)
    assert "1 fixed, 0 left" in out and "Next: gbfix run --overlay over model.py" in out
    assert (site / "layer.py").read_text() == reports.BEFORE


def test_of_some_patches_not_written_a_region_is_fixed_in_part(project: Path) -> None:
    report = reports.fixed(project / "model.py")
    (region,) = report.regions
    region.breaks_before = 2
    report.breaks += reports.fixed(project / "other.py").breaks
    for found in report.breaks:
        found.graph_break = dataclasses.replace(found.graph_break, region=f"{region.path}::f")
    session._drop(report, report.patches[0])
    assert [found.status for found in report.breaks] == ["unfixed", "fixed"]
    assert (region.status, region.breaks_after, region.graphs_after) == ("partial", 1, None)


@pytest.mark.parametrize(
    ("make", "status"),
    [(reports.clean, 0), (reports.fixed, 1), (reports.unfixed, 1), (reports.failed, 2)],
)
def test_json_is_one_object_on_stdout(
    fake: Engine, make: Callable[[Path], Report], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = make
    assert main(["--format", "json", "model.py"]) == status
    out, err = capsys.readouterr()
    jsonschema.validate(json.loads(out), SCHEMA)
    assert ("error: " in err) == (status == 2)


@pytest.mark.parametrize(
    ("style", "start"), [("sarif", "{"), ("github", "::warning file=model.py")]
)
def test_other_formats_go_to_stdout(
    fake: Engine, style: str, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.make = reports.fixed
    assert main(["--format", style, "model.py"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(start) and err == ""


def test_several_targets_make_one_report(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(project, 'targets = ["model.py a", "model.py b"]')
    fake.make = reports.fixed
    assert main(["--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert len(data["patches"]) == 1 and len(data["regions"]) == 2


@pytest.mark.parametrize(
    ("answers", "written"),
    [("yy", "AB"), ("nn", ""), ("ny", "B"), ("a", "AB"), ("ya", "AB"), ("na", "B"), ("q", ""),
     ("yq", "A"), ("", "")],
)  # fmt: skip
def test_interactive_asks_for_each_patch(
    fake: Engine,
    project: Path,
    answers: str,
    written: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in "AB":
        (project / name).write_text(f"old {name}\n")

    def make(path: Path) -> Report:
        report = reports.clean(path)
        report.patches = [
            reports.patch(project / name, f"old {name}\n", f"new {name}\n") for name in "AB"
        ]
        report.breaks = [
            dataclasses.replace(found, graph_break=reports.graph_break(project / name, line=1))
            for name, found in zip("AB", reports.fixed(path).breaks * 2, strict=True)
        ]
        return report

    class Answers:
        lines = iter([f" {answer.upper()}\n" for answer in answers])

        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return next(self.lines, "")

    fake.make = make
    monkeypatch.setattr(sys, "stdin", Answers())
    assert main(["--interactive", "model.py"]) == (0 if written == "AB" else 1)
    out, err = capsys.readouterr()
    new = [name for name in "AB" if (project / name).read_text() == f"new {name}\n"]
    assert "".join(new) == written
    assert f"{len(written)} fixed, {2 - len(written)} left" in out
    assert "write this patch (1 of 2)? [y/n/a/q]" in err
    assert ("validated together" in err) == (len(written) == 1)


# -- trouble -------------------------------------------------------------------------------------


def test_an_interrupted_apply_is_rolled_back_by_the_next_run(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_an_apply(project)
    assert (project / "model.py").read_text() == reports.AFTER
    assert main(["model.py"]) == 0
    assert "note: an interrupted --apply was rolled back" in capsys.readouterr().err
    assert (project / "model.py").read_text() == reports.BEFORE


def test_undo_after_an_interrupted_apply_undoes_that_one_only(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "first.py").write_text("1\n")
    folder = journal.state_folder(project)
    journal.apply([reports.patch(project / "first.py", "1\n", "2\n")], folder)
    interrupt_an_apply(project)
    assert main(["undo"]) == 0
    assert "rolled back" in capsys.readouterr().err
    assert (project / "model.py").read_text() == reports.BEFORE
    assert (project / "first.py").read_text() == "2\n"


def interrupt_an_apply(project: Path) -> None:
    (project / "other.py").write_text("1\n")
    patches = [
        reports.patch(project / "model.py"),
        reports.patch(project / "other.py", "1\n", "2\n"),
    ]
    process = os.fork()
    if process == 0:
        folder = journal.state_folder(project)
        journal.apply(patches, folder, step=lambda name: os._exit(9) if name == "rename" else None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


def test_a_bug_of_ours_is_one_line_and_verbose_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> Report:
        raise RuntimeError("oh\nno")

    monkeypatch.setattr(engine, "run", run)
    error = errors_of(["model.py"], capsys)
    assert (
        error
        == "internal error: RuntimeError: oh no; this is a bug in gbfix (-v shows the traceback)"
    )
    assert main(["-v", "model.py"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_ends_with_130_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", run)
    assert main(["model.py"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def gbfix_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gbfix", *words]


def test_a_reader_that_leaves_early_causes_no_complaint() -> None:
    command = f"{sys.executable} -m gbfix codes | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("code")
    assert done.returncode in (0, 141)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["explain", "--help"], ["codes", "-h"]])
def test_help_is_a_result(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: gbfix") and err == ""


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gbfix {gbfix.__version__}\n"


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run(gbfix_command("explain", "25"), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("GB0025: ")
    done = subprocess.run(gbfix_command("none.py"), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: none.py: no such file; check the path\n"


def test_a_terminal_without_the_characters_gets_escapes() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(gbfix_command("\xe9.py"), capture_output=True, env=environment)
    assert done.stderr == b"error: \\xe9.py: no such file; check the path\n"


def test_the_progress_line_lives_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leader, follower = pty.openpty()
    monkeypatch.setenv("COLUMNS", "20")
    with os.fdopen(follower, "w") as stream, session.Progress(stream) as progress:
        progress.show("tracing\n" + "x" * 50)
    shown = ""
    while shown.count("\x1b[K") < 2:
        shown += os.read(leader, 1000).decode()
    os.close(leader)
    assert shown == "\r\x1b[K" + "0 s  tracing " + "x" * 6 + "\r\x1b[K"
    with session.Progress(sys.stderr) as progress:
        progress.show("tracing")
    assert capsys.readouterr().err == ""


def test_the_engines_errors_are_shown_with_their_place(
    fake: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(path: Path) -> Report:
        return Report("x", errors=[ErrorReport("no-region", "nothing is compiled", "model.py", 3)])

    fake.make = make
    assert "model.py:3: nothing is compiled" in errors_of(["model.py"], capsys)
