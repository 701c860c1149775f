"""What people and tools are shown."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import reports

import gbfix.report
from gbfix.patch import diff_bytes
from gbfix.report import explain, github, html, markdown, plain, sarif
from gbfix.report import json as report_json
from gbfix.report.console import ConsoleReport
from gbfix.report.summary import Mode, closing_line, exit_status, next_steps
from gbfix.schema import (
    Asked,
    BreakReport,
    ErrorReport,
    Frame,
    GraphBreak,
    Patch,
    Region,
    Report,
    Rung,
    Target,
)

SCHEMA = json.loads(Path(gbfix.report.__file__).with_name("report.schema.json").read_text())
MAKERS = [reports.fixed, reports.unfixed, reports.clean, reports.failed]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(reports.BEFORE)
    return path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    report: Report,
    mode: Mode,
    cwd: Path,
    *,
    terminal: bool = False,
    verbose: int = 0,
    quiet: bool = False,
) -> tuple[str, str]:
    """What lands on stdout and stderr."""
    out = Terminal() if terminal else io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    err = Terminal() if terminal else io.StringIO()

    def raw(patch: Patch) -> bytes:
        return diff_bytes(patch, cwd)

    console = ConsoleReport(
        mode, out=out, err=err, raw_diff=raw, cwd=cwd, verbose=verbose, quiet=quiet
    )
    console.show(report)
    console.finish(report)
    if isinstance(out, io.TextIOWrapper):
        out.flush()
        return out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("make", MAKERS)
def test_json_is_what_the_schema_says(make: Callable[[Path], Report], script: Path) -> None:
    text = report_json.render(make(script))
    assert text.isascii() and text.endswith("}\n")
    jsonschema.validate(json.loads(text), SCHEMA)


def test_json_holds_the_contracts_keys(script: Path) -> None:
    data = report_json.as_dict(reports.fixed(script))
    assert {"version", "gbfix", "torch", "target", "regions", "breaks", "patches", "errors"} <= (
        data.keys()
    )
    found = data["breaks"][0]
    assert (found["code"], found["line"], found["column"], found["end_column"]) == (
        "GB0170", 5, 4, 15,
    )  # fmt: skip
    assert (found["function"], found["region"], found["status"]) == ("f", "f", "fixed")
    verdict = data["patches"][0]["verdict"]
    assert verdict["eager"] == {
        "passed": True, "detail": "2 calls", "caveats": [], "limits": []
    }  # fmt: skip
    assert verdict["inductor"] is None and verdict["outputs"] is None
    assert verdict["gradients"]["passed"] is None
    assert (verdict["branches"], verdict["perturbed"]) == ("2/2", 12)
    unsafe = report_json.as_dict(reports.unfixed(script))
    assert unsafe["patches"] == []
    assert unsafe["unsafe_patches"][0]["safety"] == "unsafe"
    assert unsafe["unsafe_patches"][0]["verdict"]["caveats"] == ["one branch was never run"]


def test_a_break_without_any_frame_can_be_shown_and_sent() -> None:
    cause = GraphBreak("unknown", "", "", "", (), (), "f", None, "ValueError", "it\nbroke")
    report = Report("x", regions=[Region("f", "", 0)], breaks=[BreakReport(cause, "outside")])
    jsonschema.validate(report_json.as_dict(report), SCHEMA)
    out, _ = shown(report, Mode.CHECK, Path("/"))
    assert "(no source position) unknown" in out and "it broke" in out


def test_the_text_names_place_code_cause_attempts_and_result(script: Path) -> None:
    out, err = shown(reports.unfixed(script), Mode.APPLY, script.parent)
    assert "model.py:5:5 GB0170 Data-dependent branching [unfixed]" in out
    assert "why: Detected data-dependent branching.\n" in out
    assert "tried: if-to-where (use torch.where): rejected: outputs: differ" in out
    assert "advice: Use torch.cond by hand." in out
    assert "gbfix explain GB0170" in out
    assert "[unsafe, not shown]\n  because: one branch was never run\n" in out
    assert out.rstrip().endswith(
        "Found 1 graph break in 1 region: 0 fixed, 1 left "
        "(1 unsafe fix available with --unsafe-fixes).\n"
        "Next: gbfix --unsafe-fixes model.py  shows the unsafe fix, too\n"
        "      gbfix explain GB0170           what to do by hand"
    )
    assert err == ""


def test_carets_stand_under_the_expression(script: Path) -> None:
    out, _ = shown(reports.fixed(script), Mode.APPLY, script.parent)
    lines = out.split("\n")
    at = next(i for i, line in enumerate(lines) if "if x.sum() > 0:" in line and "|" in line)
    source, carets = lines[at], lines[at + 1]
    start, end = carets.index("^"), carets.rindex("^") + 1
    assert source[start:end] == "x.sum() > 0"


@pytest.mark.parametrize(
    ("line", "column", "end", "marked"),
    [
        ("x = ('日本', y.item())", 11, 19, "y.item()"),
        ("\t\tx = y.item()", 6, 14, "y.item()"),
        ("if x:", 3, 4, "x"),
    ],
)
def test_carets_are_right_after_wide_characters_and_tabs(
    tmp_path: Path, line: str, column: int, end: int, marked: str
) -> None:
    from rich.cells import cell_len

    path = tmp_path / "w.py"
    path.write_text(line + "\n")
    frame = Frame(str(path), 1, "f", column, 1, end)
    cause = GraphBreak("GB0124", "t", "", "", (), (frame,), "f", frame)
    out, _ = shown(Report("w", breaks=[BreakReport(cause)]), Mode.CHECK, tmp_path)
    source, carets = (row.split("| ", 1)[1] for row in out.split("\n") if "| " in row)
    assert cell_len(source[: source.index(marked)]) == carets.index("^")
    assert carets.count("^") == cell_len(marked)


def test_a_break_over_several_lines_is_marked_to_the_end_of_its_first(tmp_path: Path) -> None:
    path = tmp_path / "w.py"
    path.write_text("y = f(\n    x,\n)\n")
    frame = Frame(str(path), 1, "f", 4, 3, 1)
    cause = GraphBreak("GB0124", "t", "", "", (), (frame,), "f", frame)
    out, _ = shown(Report("w", breaks=[BreakReport(cause)]), Mode.CHECK, tmp_path)
    assert "1 | y = f(\n    |     ^^\n" in out


def test_in_diff_mode_stdout_holds_diffs_and_nothing_else(script: Path) -> None:
    report = reports.fixed(script)
    out, err = shown(report, Mode.DIFF, script.parent)
    assert out == report.patches[0].diff
    assert "GB0170 Data-dependent branching [fixable]" in err
    assert "1 would be fixed, 0 left" in err
    assert "passed   eager  2 calls" in err and "not run  gradients" in err
    assert "2 of 2 branches run, 12 further inputs compared" in err
    assert "note: outside a compiled region" in err


def test_stdout_of_diff_mode_can_be_piped_into_git_apply(script: Path) -> None:
    out, _ = shown(reports.fixed(script), Mode.DIFF, script.parent)
    subprocess.run(["git", "apply"], cwd=script.parent, input=out.encode(), check=True)
    assert script.read_text() == reports.AFTER


def test_quiet_shows_diffs_and_errors_only(script: Path) -> None:
    report = reports.fixed(script)
    report.errors.append(ErrorReport("timeout", "region g took too long", fatal=False))
    out, err = shown(report, Mode.DIFF, script.parent, quiet=True)
    assert out == report.patches[0].diff
    assert err == "warning: region g took too long\n"
    assert shown(report, Mode.CHECK, script.parent, quiet=True)[0] == ""


def test_errors_go_to_stderr_after_the_users_own_traceback(script: Path) -> None:
    out, err = shown(reports.failed(script), Mode.CHECK, script.parent)
    assert out == ""
    assert err == (
        "Traceback (most recent call last):\n  ...\nValueError: bad\n"
        "error: model.py:7: fails without torch.compile too: ValueError: bad\n"
    )


def test_colours_only_on_a_terminal_that_wants_them(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    report = reports.fixed(script)
    plain = shown(report, Mode.DIFF, script.parent)
    coloured = shown(report, Mode.DIFF, script.parent, terminal=True)
    assert "\x1b" not in "".join(plain)
    assert "\x1b[" in coloured[0] and "\x1b[" in coloured[1]
    monkeypatch.setenv("NO_COLOR", "1")
    sober = "".join(shown(report, Mode.DIFF, script.parent, terminal=True))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", sober)


def test_long_lines_are_neither_cut_nor_wrapped(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    report = reports.fixed(script)
    long = "x" * 300
    report.breaks[0].status = "unfixed"
    report.breaks[0].advice = (long,)
    for terminal in (False, True):
        out, _ = shown(report, Mode.CHECK, script.parent, terminal=terminal)
        assert long in out


def test_text_from_the_program_cannot_control_the_terminal(script: Path) -> None:
    report = reports.failed(script)
    report.errors[0] = ErrorReport("x", "bad \x1b[2J\x07 \u202e [bold]not markup[/]")
    _, err = shown(report, Mode.CHECK, script.parent)
    assert err == "error: bad \\x1b[2J\\x07 \\u202e [bold]not markup[/]\n"


def test_prose_is_wrapped_under_its_name_and_advice_is_given_once(script: Path) -> None:
    report = reports.unfixed(script)
    report.breaks *= 2
    report.breaks[0].advice = ("word " * 40, "one")
    out, _ = shown(report, Mode.CHECK, script.parent)
    lines = [line for line in out.split("\n") if "word" in line]
    assert len(lines) == 3 and all(len(line) <= 100 for line in lines)
    assert lines[0].startswith("  advice: word") and lines[1].startswith(" " * 10 + "word")
    assert out.count("advice: one") == 1


def test_many_reasons_are_cut_short_unless_verbose(script: Path) -> None:
    report = reports.unfixed(script)
    patch = report.unsafe_patches[0]
    rung = Rung("outputs", True, "", ("a", "b", "c", "d", "e"))
    patch.verdict = dataclasses.replace(patch.verdict, rungs=(rung,))
    patch.notes = ("by the way",)
    out, _ = shown(report, Mode.APPLY, script.parent)
    assert "because: a (and 4 more reasons)\n" in out
    assert "by the way" not in out
    out, _ = shown(report, Mode.APPLY, script.parent, verbose=1)
    assert "because: e\n" in out and "note: by the way\n" in out


def test_where_nothing_measured_speaks_against_a_patch_its_notes_say_why_it_is_unsafe(
    script: Path,
) -> None:
    report = reports.unfixed(script)
    patch = report.unsafe_patches[0]
    patch.verdict = dataclasses.replace(patch.verdict, rungs=())
    patch.notes = ("loses the message",)
    assert "because: loses the message\n" in shown(report, Mode.APPLY, script.parent)[0]


def test_verbose_shows_what_else_was_tried_for_a_fixed_break(script: Path) -> None:
    report = reports.fixed(script)
    assert "if-to-where" not in shown(report, Mode.APPLY, script.parent)[0]
    assert "tried: if-to-where" in shown(report, Mode.APPLY, script.parent, verbose=1)[0]


def test_the_table_shows_breaks_and_graphs_before_and_after(script: Path) -> None:
    out, _ = shown(reports.fixed(script), Mode.APPLY, script.parent)
    assert re.search(r"f +model\.py:4 +fixed +1 -> 0 +2 -> 1", out)
    out, _ = shown(reports.clean(script), Mode.CHECK, script.parent)
    assert re.search(r"f +model\.py:4 +clean +0 +1", out)
    assert "No graph breaks in 1 region." in out


@pytest.mark.parametrize(
    ("make", "mode", "status"),
    [
        (reports.clean, "diff", 0),
        (reports.clean, "check", 0),
        (reports.fixed, "diff", 1),
        (reports.fixed, "apply", 0),
        (reports.fixed, "check", 1),
        (reports.unfixed, "diff", 1),
        (reports.unfixed, "apply", 1),
        (reports.failed, "diff", 2),
        (reports.failed, "check", 2),
        (lambda path: Report("x", errors=[ErrorReport("k", "m", fatal=False)]), "diff", 0),
    ],
)
def test_exit_status(make: Callable[[Path], Report], mode: str, status: int, script: Path) -> None:
    assert exit_status(make(script), Mode(mode)) == status


def test_the_closing_line_counts(script: Path) -> None:
    report = reports.fixed(script)
    report.breaks += reports.unfixed(script).breaks
    report.regions += report.regions
    assert closing_line(report, Mode.CHECK) == "Found 2 graph breaks in 2 regions."
    report.unsafe_patches = reports.unfixed(script).unsafe_patches * 2
    report.cached = True
    assert closing_line(report, Mode.APPLY) == (
        "Found 2 graph breaks in 2 regions: 1 fixed, 1 left "
        "(2 unsafe fixes available with --unsafe-fixes). (from the cache; --no-cache runs again)"
    )
    assert closing_line(Report("x"), Mode.DIFF) == ""


def in_a_package(report: Report, folder: Path) -> Report:
    """The same, where the file lies in an installed package."""
    path = folder / "site-packages" / "toys" / "layer.py"
    for one in report.patches:
        one.path = str(path)
    for found in report.breaks:
        frame = Frame(str(path), 5, "f", in_project=False)
        site = None if found.status == "outside" else frame
        found.graph_break = dataclasses.replace(found.graph_break, frames=(frame,), site=site)
    return report


def commands(report: Report, mode: Mode) -> list[str]:
    return [command for command, _ in next_steps(report, mode)]


TORCHRUN = Asked("torchrun --nproc-per-node 2 ranks.py", (("--calls", "3"),), runs=False)
TOYS = Asked("main.py --steps 2", (("--include", "toys"), ("--callers", "any")))


def test_what_is_proposed_next_keeps_the_launcher_and_the_options(script: Path) -> None:
    report = dataclasses.replace(reports.fixed(script), asked=TORCHRUN)
    assert commands(report, Mode.DIFF) == [
        "gbfix --apply --calls 3 torchrun --nproc-per-node 2 ranks.py"
    ]
    report = dataclasses.replace(reports.unfixed(script), asked=TORCHRUN)
    report.regions[0].calls_made = 5
    assert commands(report, Mode.CHECK) == [
        "gbfix --calls 3 torchrun --nproc-per-node 2 ranks.py",
        "gbfix --unsafe-fixes --calls 3 torchrun --nproc-per-node 2 ranks.py",
        "gbfix --calls 5 torchrun --nproc-per-node 2 ranks.py",
    ]


def test_the_page_proposes_what_the_terminal_does(script: Path) -> None:
    report = dataclasses.replace(reports.fixed(script), asked=TORCHRUN)
    text = html.render(report, script.parent)
    footer = text[text.index("<footer>") :]
    assert (
        "<code>gbfix --apply --calls 3 torchrun --nproc-per-node 2 ranks.py</code>: "
        "writes the fix; <code>gbfix undo</code> takes it back" in footer
    )
    assert "gbfix --apply" not in html.render(reports.clean(script), script.parent)


def test_a_patch_of_a_package_is_saved_and_not_written(script: Path) -> None:
    report = in_a_package(reports.fixed(script), script.parent)
    report.asked = TOYS
    again = "--include toys --callers any main.py --steps 2"
    assert commands(report, Mode.DIFF) == [f"gbfix --save overlay {again}"]
    report.asked = dataclasses.replace(TOYS, saved="my overlay")
    for mode in (Mode.DIFF, Mode.APPLY):
        assert commands(report, mode) == ["gbfix run --overlay 'my overlay' main.py --steps 2"]
    report.asked = dataclasses.replace(TOYS, saved="over", runs=False)
    assert commands(report, Mode.DIFF) == ["gbfix overlay check over"]
    report.asked = TOYS
    report.patches += reports.fixed(script).patches
    assert commands(report, Mode.DIFF) == [f"gbfix --apply --save overlay {again}"]


def test_a_break_in_a_package_asks_for_the_package(script: Path) -> None:
    report = reports.unfixed(script)
    report.breaks[0].status, report.unsafe_patches = "outside", []
    in_a_package(report, script.parent)
    report.asked = Asked("main.py")
    assert commands(report, Mode.CHECK) == ["gbfix --include toys main.py"]
    report.include = ("other",)
    report.asked = Asked("main.py", (("--include", "other"), ("--calls", "3")))
    assert commands(report, Mode.CHECK) == ["gbfix --include other,toys --calls 3 main.py"]
    report.include, report.asked = (), Asked("main.py")
    assert commands(report, Mode.DIFF) == [
        "gbfix --include toys main.py", "gbfix explain GB0170"
    ]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_sarif_has_a_result_for_each_break(make: Callable[[Path], Report], script: Path) -> None:
    report = make(script)
    log = json.loads(sarif.render(report, script.parent))
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) == len(report.breaks)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "ROOT"}
        assert place["region"] == {"startLine": 5, "startColumn": 5, "endLine": 5, "endColumn": 16}
    succeeded = run["invocations"][0]["executionSuccessful"]
    assert succeeded == (exit_status(report, Mode.CHECK) != 2)


def test_sarif_fixes_give_the_patched_text(script: Path) -> None:
    log = sarif.as_dict(reports.fixed(script), script.parent)
    (change,) = log["runs"][0]["results"][0]["fixes"][0]["artifactChanges"]
    lines = reports.BEFORE.splitlines(keepends=True)
    for part in reversed(change["replacements"]):
        region = part["deletedRegion"]
        assert (region["startColumn"], region["endColumn"]) == (1, 1)
        first, last = region["startLine"] - 1, region["endLine"] - 1
        lines[first:last] = [part["insertedContent"]["text"]]
    assert "".join(lines) == reports.AFTER


def test_annotations_name_file_line_and_column(script: Path) -> None:
    report = reports.fixed(script)
    report.errors.append(ErrorReport("timeout", "100% of\nregion, too: slow", fatal=False))
    assert github.render(report, script.parent).split("\n") == [
        "::warning title=timeout::100%25 of region, too: slow",
        "::warning file=model.py,line=5,col=5,endColumn=15,title=GB0170 Data-dependent branching"
        "::Detected data-dependent branching. (gbfix has a fix: if-to-cond)",
        "",
    ]
    assert github.render(reports.failed(script), script.parent).startswith(
        "::error file=model.py,line=7,title=eager-error::fails without"
    )


def test_annotations_escape_what_commands_are_made_of(tmp_path: Path) -> None:
    report = Report("x", errors=[ErrorReport("a:b,c%\n", "m", str(tmp_path / "a,b:c.py"), 1)])
    line = github.render(report, tmp_path)
    assert line == "::error file=a%2Cb%3Ac.py,line=1,title=a%3Ab%2Cc%25%0A::m\n"


def test_explain_says_what_why_and_what_to_do() -> None:
    text = explain.explain_text("170")
    assert text.startswith("GB0170: Data-dependent branching\n")
    for part in (
        "Explanation:",
        "Torch's hints:",
        "What to do:",
        "Before:",
        "After:",
        "torch.cond",
    ):
        assert part in text
    assert text.endswith(
        "See https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html\n"
    )
    assert all(len(line) <= 100 for line in text.split("\n"))
    assert "Also known as:\n  Dynamo cache limit exceeded" in explain.explain_text("39")
    assert "a family of errors" in explain.explain_text("internal-error")


def test_every_code_and_family_can_be_explained_in_text_and_json() -> None:
    for row in explain.code_rows():
        assert explain.explain_text(row["code"]).startswith(f"{row['code']}: {row['title']}\n")
        data = json.loads(explain.explain_json([row["code"]]))
        assert data["code"] == row["code"] and data["codemods"] == row["codemods"]
    assert len(json.loads(explain.explain_json(["170", "unknown"]))) == 2


def test_the_table_of_codes_has_every_code_once_in_all_formats() -> None:
    rows = list(explain.code_rows())
    assert len({row["code"] for row in rows}) == len(rows) > 500
    assert json.loads(explain.codes("json")) == rows
    assert explain.codes("text").count("\n") == len(rows) + 1
    markdown = explain.codes("markdown").split("\n")
    table = markdown[markdown.index("| --- | --- | --- | --- | --- |") - 1 : -1]
    assert len(table) == len(rows) + 2
    assert all(re.fullmatch(r"\|( .* \|){4}.*\|", line) for line in table)


def test_a_reason_goes_without_the_listing_that_torch_puts_behind_it() -> None:
    text = (
        "Detected branching (e.g. `if x.sum() > 0:`). Not supported. The condition involves a "
        'tensor computed as follows: # File "/a/b.py", line 6 in fn: y = x.sum()'
    )
    assert plain.why(text) == "Detected branching (e.g. `if x.sum() > 0:`). Not supported."
    assert plain.why('# File "/a/b.py"') == '# File "/a/b.py"'


@pytest.mark.parametrize("render", [github.render, sarif.render, markdown.render])
def test_what_goes_to_others_names_no_folder_of_this_machine(
    render: Callable[[Report, Path], str], script: Path
) -> None:
    report = reports.fixed(script)
    why = 'Detected branching. A tensor of: # File "/home/me/site-packages/toys/x.py", line 6 in f'
    found = report.breaks[0]
    found.graph_break = dataclasses.replace(found.graph_break, explanation=why)
    text = render(report, script.parent)
    assert "Detected branching." in text and "/home/me" not in text


SENTENCES = {
    "an abbreviation": ("A branch (e.g. If x). It is not so.", "A branch (e.g. If x)"),
    "no end": ("fails: 1.5 times", "fails: 1.5 times"),
    "a name with dots": ("torch.nn.Module is no. Then more.", "torch.nn.Module is no"),
    "one": ("One sentence.", "One sentence"),
}


@pytest.mark.parametrize("what", SENTENCES, ids=str)
def test_the_first_sentence_of_a_reason(what: str) -> None:
    text, first = SENTENCES[what]
    assert plain.first_sentence(text) == first


def test_a_target_is_named_as_on_a_command_line() -> None:
    """What a report proposes next can be copied."""
    inputs = "{'args': (torch.randn(2),)}"
    words = shlex.split(Target("callable", "model.py::Net", inputs=inputs).display)
    assert words == ["--inputs", inputs, "model.py::Net"]
    assert Target("module", "a.b", ("-x",)).display == "-m a.b -x"


def test_what_a_patch_does_several_times_is_said_once() -> None:
    (patch, *_) = reports.fixed(Path()).patches
    patch = dataclasses.replace(patch, titles=("move", "hoist", "move"))
    assert patch.change == "move (2 times); hoist"
    assert dataclasses.replace(patch, titles=("move",)).change == "move"
    assert dataclasses.replace(patch, titles=(), codemods=("a", "b")).change == "a, b"
