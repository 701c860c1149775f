"""Notebooks: the cells as one script, patches back into the cells and nowhere else."""

from __future__ import annotations

import difflib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gbfix import cli, notebooks
from gbfix.source import SourceError

CELLS: list[tuple[str, str | list[str]]] = [
    ("markdown", "# A model"),
    ("code", ["%matplotlib inline\n", "import torch"]),
    ("code", ["@torch.compile\n", "def f(x):\n", "    if x.sum() > 0:\n", "        return x + 1\n",
              "    return x - 1"]),
    ("raw", "raw"),
    ("code", "data = torch.ones(3)\nfiles = !ls\n%time f(data)"),
    ("code", "%%bash\necho hello"),
    ("code", "display(f(-data))"),
]  # fmt: skip


def written(path: Path, cells: list[tuple[str, Any]] = CELLS, **layout: Any) -> str:
    data = {
        "cells": [
            {"cell_type": kind, "id": f"c{number}", "metadata": {}, "source": source}
            | ({"execution_count": 7, "outputs": [{"text": "ä"}]} if kind == "code" else {})
            for number, (kind, source) in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    text = json.dumps(data, **{"indent": 1, "ensure_ascii": False, **layout}) + "\n"
    path.write_text(text, encoding="utf-8")
    return text


def test_the_script_is_python_and_goes_back_to_the_same_cells(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    written(path)
    notebook = notebooks.read(str(path))
    compile(notebook.script, "n", "exec")
    assert "\nf(data)  # gbfix times not: %time |\n" in notebook.script
    assert notebook.left_out == ["%matplotlib inline", "files = !ls", "%%bash", "echo hello"]
    texts = notebooks.split(notebook, notebook.script)
    assert texts == {cell.number: cell.text for cell in notebook.cells}
    assert [cell.number for cell in notebook.cells] == [2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    "layout", [{}, {"indent": 4}, {"indent": None}, {"ensure_ascii": True}], ids=str
)
def test_a_patch_changes_its_cell_and_nothing_else(layout: Any, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    before = written(path, **layout)
    notebook = notebooks.read(str(path))
    patched = notebook.script.replace("x + 1", "x + 100")
    after = notebooks.with_cells(notebook, "import math\n" + patched)
    assert after is not None
    assert json.loads(after)["cells"][2]["source"][3] == "        return x + 100\n"
    # What was added above all goes to the first cell of code.
    assert json.loads(after)["cells"][1]["source"][0] == "import math\n"
    changed = [
        line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"
    ]
    if layout.get("indent", 1) is not None:
        assert len(changed) == 3, changed


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is no valid notebook"),
    "no notebook": ("{}", "is no notebook; convert it"),
    "an old one": ('{"nbformat": 3}', "is a notebook of format 3; convert it with"),
    "no code": ([("markdown", "x")], "has no code cell"),
    "a syntax error": ([("code", "x = (")], "cell 1"),
    "another language": ('{"nbformat": 4, "metadata": {"kernelspec": {"language": "R"}}}', "in R"),
}


@pytest.mark.parametrize("what", BAD, ids=str)
def test_bad_notebooks_are_one_clear_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, says = BAD[what]
    path = tmp_path / "n.ipynb"
    if isinstance(content, str):
        path.write_text(content)
    else:
        written(path, content)
    with pytest.raises(SourceError):
        notebooks.read(str(path))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["n.ipynb"]) == 2
    err = capsys.readouterr().err
    assert says in err and err.startswith("error: n.ipynb")


def test_a_notebook_is_fixed_cell_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "n.ipynb"
    before = written(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GBFIX_STATE_DIR", str(tmp_path / "state"))
    assert cli.main(["--no-cache", "n.ipynb"]) == 1
    shown = capsys.readouterr()
    assert "n.ipynb (cell 3):3:8 GB0170" in shown.err
    assert "--- a/n.ipynb (cell 3)" in shown.out
    assert "left out what only IPython understands: `%matplotlib inline`" in shown.err
    assert path.read_text(encoding="utf-8") == before
    assert cli.main(["--no-cache", "--apply", "n.ipynb"]) == 0
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert "torch.where" in "".join(cells[2]["source"])
    assert [cell["source"] for i, cell in enumerate(cells) if i != 2] == [
        source for i, (_, source) in enumerate(CELLS) if i != 2
    ]
    assert not list(tmp_path.glob("*.gbfix.py")) and not list(tmp_path.glob(".n-*"))
    assert cli.main(["undo"]) == 0
    assert path.read_text(encoding="utf-8") == before


def test_the_cell_magic_shows_the_report_and_runs_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from types import SimpleNamespace

    from gbfix import magic

    ran: list[str] = []
    found: dict[str, Any] = {}
    cells = ["", "import torch", "%load_ext gbfix.magic", "".join(CELLS[2][1]), "%%gbfix\nf(0)"]
    shell = SimpleNamespace(
        history_manager=SimpleNamespace(input_hist_raw=cells),
        register_magic_function=lambda function, kind, name: found.update({name: function}),
        run_cell=ran.append,
    )
    magic.load_ipython_extension(shell)
    monkeypatch.chdir(tmp_path)
    found["gbfix"]("--no-cache --check", "f(torch.ones(3))")
    shown = capsys.readouterr().out
    assert "(cell 2):3:8 GB0170" in shown and "Found 1 graph break in 1 region." in shown
    assert ran == ["f(torch.ones(3))"]
    assert not list(tmp_path.iterdir())


ROUND = [
    "x = 1\n",
    "\n\nx = 1\n\n",
    "x = 1\n!ls\nif x:\n    %pwd\n",
    'text = """\n%not magic\n!nor this\n"""',
    "y = x != 2\nz = x % 2",
    "%timeit -n 3 f(x)\n%time y = 1\n",
    "torch.nn?\nhelp??",
    "%%time\nx = 1",
    "%%html\n<b>\n",
    "from __future__ import annotations\ndisplay(1)",
    "files = [\n    1,\n]\nnames = !ls -l",
]


@pytest.mark.parametrize("text", ROUND)
@pytest.mark.parametrize("at", [0, 1])
def test_cells_come_back_as_they_were(text: str, at: int, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    cells = [("code", "a = 0"), ("code", "b = 0")]
    cells.insert(at, ("code", text))
    if "__future__" in text and at:
        cells = [("code", text)]
    written(path, cells)
    notebook = notebooks.read(str(path))
    compile(notebook.script, "n", "exec")
    assert notebooks.split(notebook, notebook.script) == {
        cell.number: cell.text for cell in notebook.cells
    }
    assert notebooks.with_cells(notebook, notebook.script) == notebook.text


# -- with the real things, where they are installed ------------------------------------------------


def test_the_cells_that_ran_before_are_part_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gbfix import magic

    given: list[Any] = []

    def run(command: list[str], **options: Any) -> Any:
        given.append(json.loads((tmp_path / command[-1]).read_text()))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(magic.subprocess, "run", run)
    cells = ["%load_ext gbfix.magic\nimport torch", "%%gbfix --check\ny = 1", "%%gbfix\n", "y + 1"]
    magic.report(cells, [], str(tmp_path))
    assert [cell["source"] for cell in given[0]["cells"]] == ["import torch", "y = 1", "y + 1"]


def test_the_magic_in_ipython(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    from gbfix import magic

    asked: list[Any] = []

    def report(*given: Any) -> str:
        asked.append(given)
        return "the report"

    monkeypatch.setattr(magic, "report", report)
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    for cell in ("%load_ext gbfix.magic", "x = 20", "%%gbfix --check\ny = x + 1\nprint(y)"):
        result = shell.run_cell(cell, store_history=True)
        assert result.success, result
    assert asked == [
        (["%load_ext gbfix.magic", "x = 20", "y = x + 1\nprint(y)\n"], ["--check"], str(tmp_path))
    ]
    assert shell.user_ns["y"] == 21 and capsys.readouterr().out == "the report\n21\n"
    shell.run_cell("%%gbfix --inputs 'x\ny = 3", store_history=True)
    assert "error: %%gbfix --inputs 'x: No closing quotation" in capsys.readouterr().out
    assert shell.user_ns["y"] == 3


def test_what_is_written_back_is_valid_for_nbformat(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    form = nbformat.v4
    made = form.new_notebook(
        cells=[
            form.new_markdown_cell("# Title"),
            form.new_code_cell("%matplotlib inline\nimport torch"),
            form.new_code_cell(
                "x = 1\ny = x",
                execution_count=3,
                outputs=[form.new_output("stream", name="stdout", text="1\n")],
                metadata={"tags": ["keep"]},
            ),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}},
    )
    path = tmp_path / "n.ipynb"
    nbformat.write(made, path)
    notebook = notebooks.read(str(path))
    whole = notebooks.with_cells(notebook, notebook.script.replace("y = x", "y = x + 1"))
    assert whole is not None
    back = nbformat.reads(whole, as_version=4)
    nbformat.validate(back)
    assert back.cells[2].source == "x = 1\ny = x + 1"
    made.cells[2].source = back.cells[2].source
    assert back == made
    assert notebooks.with_cells(notebook, notebook.script) == path.read_text(encoding="utf-8")
