"""`gbfix scan`: guesses from the text of whole trees, in all formats."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from gbfix import cli

MODEL = """
    import torch


    def helper(x):
        if x.sum() > 0:
            print("positive")
        return x


    class Net(torch.nn.Module):
        def forward(self, x):
            return helper(x)
    """
TRAIN = """
    import torch
    from pack.model import Net

    step = torch.compile(Net())
    """


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "pack").mkdir()
    for name, text in (("pack/__init__.py", ""), ("pack/model.py", MODEL), ("train.py", TRAIN)):
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


Shown = pytest.CaptureFixture[str]


def test_a_tree_is_scanned_across_its_files(tree: Path, capsys: Shown) -> None:
    assert cli.main(["scan", "."]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["pack/model.py:5:8:", "GB0170"],
        ["pack/model.py:6:9:", "GB0059"],
    ]
    assert "in region train.py::Net.forward" in lines[0] or "in region Net.forward" in lines[0]
    assert lines[-1].startswith("2 likely graph breaks in 3 files, 1 compiled region.")
    assert "guesses" in lines[-1]


@pytest.mark.parametrize(
    "words", [["pack"], ["pack/model.py"], ["pack/*.py"], ["**/model.py"]], ids=str
)
def test_files_folders_and_globs(words: list[str], tree: Path, capsys: Shown) -> None:
    # The region is compiled in a file of the project that was not asked about.
    assert cli.main(["scan", *words]) == 1
    assert "GB0170" in capsys.readouterr().out


def test_codes_and_places_are_left_out(tree: Path, capsys: Shown) -> None:
    assert cli.main(["scan", "--ignore", "GB0170", "."]) == 1
    assert "GB0170" not in capsys.readouterr().out
    assert cli.main(["scan", "--select", "GB0007", "."]) == 0
    assert cli.main(["scan", "--exclude", "pack", "."]) == 0
    assert capsys.readouterr().out.count("0 likely graph breaks") == 2


def test_comments_hide_guesses(tree: Path, capsys: Shown) -> None:
    path = tree / "pack" / "model.py"
    text = path.read_text().replace("> 0:", "> 0:  # gbfix: ignore[GB0170]")
    path.write_text(text.replace('print("positive")', 'print("positive")  # gbfix: ignore'))
    assert cli.main(["scan", "."]) == 0
    assert "0 likely graph breaks in 3 files" in capsys.readouterr().out


def test_json(tree: Path, capsys: Shown) -> None:
    assert cli.main(["scan", "--format", "json", "."]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["guesses"] is True and data["files"] == 3 and data["regions"] == 1
    first = data["hints"][0]
    assert (first["code"], first["line"], first["column"]) == ("GB0170", 5, 7)
    assert first["path"] == str(tree / "pack" / "model.py")


def test_sarif_and_annotations(tree: Path, capsys: Shown) -> None:
    assert cli.main(["scan", "--format", "sarif", "."]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [item["ruleId"] for item in run["results"]] == ["GB0170", "GB0059"]
    assert all("guess" in item["message"]["text"] for item in run["results"])
    assert cli.main(["scan", "--format", "github", "."]) == 1
    assert capsys.readouterr().out.startswith("::warning file=pack/model.py,line=5")


BAD = {
    "nothing there": (["nowhere"], "scan nowhere: no such file or folder"),
    "no match": (["*.pyx"], "scan *.pyx: no such file or folder"),
    "no Python": (["notes.txt"], "scan notes.txt: holds no Python file"),
    "unknown code": (["--select", "GB99999", "."], "--select"),
}


@pytest.mark.parametrize("what", BAD, ids=str)
def test_bad_input_is_one_clear_line(what: str, tree: Path, capsys: Shown) -> None:
    (tree / "notes.txt").write_text("x")
    words, says = BAD[what]
    assert cli.main(["scan", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and says in line


def test_a_file_outside_of_the_folder_is_named_in_full(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    (tree / "work").mkdir()
    monkeypatch.chdir(tree / "work")
    assert cli.main(["scan", "../pack"]) == 1
    assert capsys.readouterr().out.startswith(f"{tree}/pack/model.py:5:8: GB0170 ")


def test_where_nothing_could_be_read_it_is_a_failure(tree: Path, capsys: Shown) -> None:
    (tree / "broken").mkdir()
    (tree / "broken" / "one.py").write_text("def (:\n")
    assert cli.main(["scan", "broken"]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert "one.py:1: syntax error" in warning
    assert error == "error: scan: none of the files could be read; nothing was looked at"


def test_a_file_that_does_not_parse_is_named(tree: Path, capsys: Shown) -> None:
    (tree / "broken.py").write_text("def (:\n")
    assert cli.main(["scan", "."]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and "broken.py:1: syntax error" in line
