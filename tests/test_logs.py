"""Breaks of jobs that ran elsewhere, out of what torch 2.13 wrote about them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from gbfix import logs
from gbfix.cli import main

PROGRAM = 'import torch\n\n\ndef f(x):\n    print("é", x.sum().item())\n    return x\n\n\nf(1)\n'

ITEM = """\
Graph break in user code at {path}:5
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()`
    with a flag.
  Hint: Set the flag.
  Hint: Set the variable.

  Developer debug context: call_method TensorVariable() item () {{}}

 For more details about this graph break, please visit: https://example.org/gb/gb0124.html

Stack variable source attribution:
  NullVariable originated from:
  File "{path}", line 5
        print("é", x.sum().item())
        ^^^^^

User code traceback:
  File "{path}", line 9, in <module>
    f(1)
  File "{path}", line 5, in f
    print("é", x.sum().item())
               ^^^^^^^^^^^^^^
"""  # noqa: E501
AGAIN = """\
Graph break (user stack suppressed due to duplicate graph break) in user code at {path}:5
Graph Break Reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: The same.

 For more details about this graph break, please visit: https://example.org/gb/gb0124.html
"""
OUTSIDE = """\
Graph break in user code at /venv/lib/python3.11/site-packages/a/b.py:3
Graph Break Reason: Something that no registry has
  Explanation: None.

User code traceback:
  File "/venv/lib/python3.11/site-packages/a/b.py", line 3, in g
    h()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def logged(text: str, rank: int = 0, pid: int = 7) -> list[str]:
    head = f"[rank{rank}]:V1121 11:46:43.6 {pid} torch/_dynamo/x.py:9] [0/0] [__graph_breaks]"
    return [f"{head} {line}" for line in text.split("\n")]


def test_a_log_gives_code_place_reason_and_stack(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("noise\n" + "\n".join(logged(ITEM.format(path=program))) + "\n3.0\n")
    (shown,) = logs.from_log(log).breaks
    found = shown.graph_break
    assert (found.code, found.gb_type) == (
        "GB0124",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    )
    assert found.explanation == "Dynamo does not support tracing `Tensor.item()` with a flag."
    assert found.hints == ("Set the flag.", "Set the variable.")
    assert found.context == "call_method TensorVariable() item () {}"
    assert [(frame.line, frame.function) for frame in found.frames] == [(9, "<module>"), (5, "f")]
    assert found.site is not None and found.site.column is not None
    line = PROGRAM.split("\n")[4]
    assert line[found.site.column : found.site.end_column] == "x.sum().item()"


def test_processes_that_write_at_once_are_told_apart(program: Path, tmp_path: Path) -> None:
    one, other = logged(ITEM.format(path=program)), logged(OUTSIDE, rank=1, pid=8)
    mixed = [line for pair in zip(one, other, strict=False) for line in pair]
    mixed += one[len(other) :]
    log = tmp_path / "job.log"
    log.write_text("\n".join(mixed))
    statuses = {
        item.graph_break.code: (item.status, len(item.graph_break.frames))
        for item in logs.from_log(log).breaks
    }
    assert statuses == {"GB0124": ("unfixed", 2), "unknown": ("outside", 1)}


def test_a_break_that_is_logged_again_without_its_stack_counts_once(
    program: Path, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(logged((ITEM + AGAIN).format(path=program))))
    assert len(logs.from_log(log).breaks) == 1
    log.write_text("\n".join(logged(AGAIN.format(path=program))))
    (alone,) = logs.from_log(log).breaks
    assert alone.graph_break.site is not None and alone.graph_break.site.line == 5


def test_lines_that_are_not_here_have_no_columns(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(logged(ITEM.format(path="/elsewhere/program.py"))))
    (shown,) = logs.from_log(log).breaks
    assert shown.graph_break.site is not None
    assert (shown.graph_break.site.line, shown.graph_break.site.column) == (5, None)


def test_a_trace_folder_gives_the_same(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    head = 'V1121 11:46:43.6 7 torch/_dynamo/x.py:9] {"artifact": {"name": "NAME", "encoding": 1}}'
    payload = textwrap.indent(ITEM.format(path=program), "\t", lambda line: True)
    (folder / "dedicated_log_torch_trace_x.log").write_text(
        head.replace("NAME", "other") + "\n\tGraph break in user code at x.py:1\n"
        + head.replace("NAME", "dynamo_graph_break_reason") + "\n" + payload
        + head.replace("NAME", "more") + "\n"
    )  # fmt: skip
    (shown,) = logs.from_trace(folder).breaks
    assert (shown.graph_break.code, len(shown.graph_break.frames)) == ("GB0124", 2)


def test_the_command_line_reports_as_check_does(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(logged(ITEM.format(path=program))))
    assert main(["--from-log", str(log), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["breaks"][0]["code"] == "GB0124"
    assert main(["--from-log", str(log)]) == 1
    out = capsys.readouterr().out
    assert "GB0124 Unsupported Tensor.item()" in out and "Found 1 graph break" in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from-log", "missing.log"], "cannot be read"),
        (["--from-log", "empty.log"], "TORCH_LOGS=graph_breaks"),
        (["--from-trace", "."], "no files of TORCH_TRACE"),
        (["--from-trace", "../other"], "nothing of what TORCH_TRACE writes"),
        (["--from-trace", "missing"], "cannot be read"),
        (["--from-log", "a", "--from-trace", "b"], "go alone"),
        (["--from-log", "a", "script.py"], "go alone"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "script.py").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "server.log").write_text("GET /\n")
    if "empty.log" in words:
        (folder / "empty.log").touch()
    assert main(words) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


def test_ranks_that_logged_a_break_are_counted(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    ranks = [logged(ITEM.format(path=program), rank, 10 + rank) for rank in (0, 2)]
    ranks.append(logged(OUTSIDE, 1, 11))
    log.write_text("\n".join(line for lines in ranks for line in lines))
    said = {item.graph_break.code: item.facts for item in logs.from_log(log).breaks}
    assert said["GB0124"] == ("Logged by 2 of 3 ranks that broke (0, 2).",)


TRACED = (
    "V1124 23:01:09.299000 2436 torch/_dynamo/symbolic_convert.py:5098] "
    '{"artifact": {"name": "NAME", "encoding": "string"}RANK, "frame_id": 2}\n'
)


def traced(*texts: str, rank: int | None = None) -> str:
    """A file of TORCH_TRACE with these breaks; a rank knows its number only after the first."""
    lines = [TRACED.replace("NAME", "dynamo_cpp_guards_str").replace("RANK", "")]
    for text in texts:
        number = "" if rank is None else f', "rank": {rank}'
        head = TRACED.replace("NAME", "dynamo_graph_break_reason").replace("RANK", number)
        lines.append(head + textwrap.indent(text, "\t", lambda line: True))
    return "".join(lines)


def test_a_trace_of_many_ranks_is_counted_by_rank(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    (folder / "host_b").mkdir(parents=True)
    item = ITEM.format(path=program)
    (folder / "dedicated_log_torch_trace_a.log").write_text(traced(item, OUTSIDE, rank=0))
    (folder / "dedicated_log_torch_trace_rank_1_b.log").write_text(traced())
    (folder / "host_b" / "dedicated_log_torch_trace_c.log").write_text(traced(item, rank=2))
    report = logs.from_trace(folder)
    found = {shown.graph_break.code: shown for shown in report.breaks}
    assert found["GB0124"].ranks == (0, 2)
    assert found["GB0124"].facts == ("Logged by 2 of 3 ranks (0, 2).",)
    site = found["GB0124"].graph_break.site
    assert site is not None and (site.path, site.function) == (str(program), "f")
    (other,) = (shown for code, shown in found.items() if code != "GB0124")
    assert (other.status, other.ranks) == ("outside", (0,))


def test_processes_that_know_no_rank_are_counted(program: Path, tmp_path: Path) -> None:
    item = ITEM.format(path=program)
    for name, texts in {"a": (item,), "b": (item, OUTSIDE), "c": ()}.items():
        (tmp_path / f"dedicated_log_torch_trace_{name}.log").write_text(traced(*texts))
    said = {shown.graph_break.code: shown.facts for shown in logs.from_trace(tmp_path).breaks}
    assert said["GB0124"] == ("Logged by 2 of 3 processes.",)


def test_who_logged_a_break_stands_on_each(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no advice, which the console gives once."""
    for name in ("a", "b"):
        text = traced(ITEM.format(path=program), OUTSIDE)
        (tmp_path / f"dedicated_log_torch_trace_{name}.log").write_text(text)
    assert main(["--from-trace", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("note: Logged by 2 of 2 processes.") == 2
    assert main(["--from-trace", str(tmp_path), "--format", "json"]) == 1
    for item in json.loads(capsys.readouterr().out)["breaks"]:
        assert item["facts"] == ["Logged by 2 of 2 processes."]
        # Who looked for it among the advice finds it there still.
        assert item["advice"][0] == item["facts"][0]


def test_ranks_stand_in_the_json_report(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_text(traced(ITEM.format(path=program), rank=3))
    assert main(["--from-trace", str(tmp_path), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["breaks"][0]["ranks"] == [3]
