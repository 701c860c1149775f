"""Diffs apply with `git apply` and `patch -p1`; merging never guesses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbfix.patch import (
    ConflictError,
    conflicting,
    diff_bytes,
    display_path,
    header_path,
    merge,
    unified_diff,
)
from gbfix.schema import Patch, Safety, Verdict

LONG = "".join(f"line {i}\n" for i in range(40))

PAIRS = {
    "one line": ("a\nb\nc\n", "a\nB\nc\n"),
    "first line": ("a\nb\n", "A\nb\n"),
    "only line": ("a\n", "b\n"),
    "insert at the top": ("a\n", "new\na\n"),
    "insert at the end": ("a\n", "a\nnew\n"),
    "delete at the end": ("a\nb\n", "a\n"),
    "no newline at the end of both": ("a\nb", "A\nb"),
    "last line changed without newline": ("a\nb", "a\nc"),
    "newline gained": ("a\nb", "a\nb\n"),
    "newline lost": ("a\nb\n", "a\nb"),
    "two hunks": (LONG, LONG.replace("line 3\n", "x\n").replace("line 30\n", "")),
    "crlf": ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
    "mixed newlines": ("a\r\nb\nc\r\n", "a\r\nb\nnew\r\nc\n"),
    "form feeds": ("a\x0cb\n\x0c\nc\u2028d\ne\x85\n", "a\x0cb\n\x0c\nC\u2028d\n\x85\n"),
    "carriage returns alone": ("a\rb\rc", "a\rB\rc"),
    "lines like a diff's": ("--- a\n+++ b\n@@ -1 +1 @@\n-x\n", "--- a\n+++ b\n@@ -1 +1 @@\n+x\n"),
    "repeated lines": ("\n\nx\n\n\nx\n\n", "\n\nx\n\n\n\nx\n\n"),
    "trailing blanks": ("a  \n\t\nb\n", "a \n\t\nb\n"),
    "unicode": ("x = 'é→😀'\ny\n", "x = 'é→😀'\nz\n"),
}  # fmt: skip


def apply_with(tool: str, folder: Path, diff: bytes, *extra: str) -> None:
    commands = {
        "git": ["git", "apply", "--whitespace=nowarn", *extra],
        "patch": ["patch", "-p1", "--binary", "--no-backup-if-mismatch", "-s"],
    }
    if shutil.which(commands[tool][0]) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(commands[tool], cwd=folder, input=diff, capture_output=True)
    assert done.returncode == 0, done.stderr.decode() + diff.decode(errors="replace")


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(("before", "after"), PAIRS.values(), ids=PAIRS)
def test_diffs_apply(tmp_path: Path, tool: str, before: str, after: str) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(before.encode())
    apply_with(tool, tmp_path, unified_diff(before, after, "x.py").encode())
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(("before", "after"), PAIRS.values(), ids=PAIRS)
def test_diffs_without_context_apply(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(before.encode())
    diff = unified_diff(before, after, "x.py", context=0).encode()
    apply_with("git", tmp_path, diff, "--unidiff-zero")
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(
    "name", ["my file.py", "dir with space/x y.py", "é.py", 'quo"te.py', "tab\tname.py", "-x.py"]
)
def test_odd_file_names_apply(tmp_path: Path, tool: str, name: str) -> None:
    if tool == "patch" and name == "tab\tname.py":
        pytest.skip("GNU patch refuses such names")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("a\nb\n")
    apply_with(tool, tmp_path, unified_diff("a\nb\n", "a\nc\n", name).encode())
    assert path.read_text() == "a\nc\n"


def test_diffs_apply_in_a_subfolder_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "sub" / "deep"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (folder / "x.py").write_text("a\nb\n")
    diff = unified_diff("a\nb\n", "a\nc\n", display_path(folder / "x.py", folder))
    apply_with("git", folder, diff.encode())
    assert (folder / "x.py").read_text() == "a\nc\n"


def test_equal_texts_have_an_empty_diff() -> None:
    assert unified_diff("a\n", "a\n", "x.py") == ""


def test_headers_name_the_file_under_a_and_b() -> None:
    diff = unified_diff("a\n", "b\n", "pkg/x.py")
    assert diff == "--- a/pkg/x.py\n+++ b/pkg/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def test_paths_are_shown_relative_to_the_folder_where_that_is_possible(tmp_path: Path) -> None:
    assert display_path(tmp_path / "a" / "x.py", tmp_path) == "a/x.py"
    assert display_path("a/x.py", tmp_path) == "a/x.py"
    assert display_path("/else/where.py", tmp_path) == "/else/where.py"
    # Behind `a/` in the head of a diff, it counts from the root.
    assert header_path("/else/where.py", tmp_path) == "else/where.py"
    assert header_path(tmp_path / "a" / "x.py", tmp_path) == "a/x.py"


lines = st.lists(st.sampled_from(["a\n", "b\n", "\n", "a\r\n", "c"]), max_size=12).map("".join)


@settings(max_examples=60, deadline=None)
@given(lines.filter(bool), lines.filter(bool), st.integers(0, 4))
def test_any_two_texts_have_a_diff_that_applies(before: str, after: str, context: int) -> None:
    # A small applier of our own: starting git for each example would be slow.
    diff = unified_diff(before, after, "x", context=context)
    assert applied(before, diff) == after


def applied(before: str, diff: str) -> str:
    old = before.split("\n")
    last = old.pop()
    source = [line + "\n" for line in old] + ([last] if last else [])
    result: list[str] = []
    position = 0
    body = diff.split("\n")[2:-1] if diff else []
    for at, line in enumerate(body):
        if line.startswith("\\"):
            continue
        text = line[1:] + ("" if at + 1 < len(body) and body[at + 1].startswith("\\") else "\n")
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (0 if count == "0" else 1)
            result += source[position:begin]
            position = begin
        elif line[0] == "+":
            result.append(text)
        else:
            assert source[position] == text
            position += 1
            if line[0] == " ":
                result.append(text)
    return "".join(result + source[position:])


def patch_of(path: str, before: str, after: str) -> Patch:
    diff = unified_diff(before, after, path)
    return Patch(path, diff, before, after, ("c",), ("GB0170",), Safety.SAFE, Verdict())


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(
    ("prefix", "encoding"),
    [(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"", "latin-1"), (b"", "cp1252")],
)
def test_diffs_as_bytes_apply_to_any_encoding(
    tmp_path: Path, tool: str, prefix: bytes, encoding: str
) -> None:
    before = f"# coding: {encoding}\nx = 'é'\n"
    after = before.replace("x =", "y =")
    (tmp_path / "ü.py").write_bytes(prefix + before.encode(encoding))
    apply_with(tool, tmp_path, diff_bytes(patch_of("ü.py", before, after), tmp_path))
    assert (tmp_path / "ü.py").read_bytes() == prefix + after.encode(encoding)


def test_diffs_of_files_with_undecodable_names_apply(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.py")
    (tmp_path / name).write_text("a\n")
    apply_with("git", tmp_path, diff_bytes(patch_of(name, "a\n", "b\n"), tmp_path))
    assert (tmp_path / name).read_text() == "b\n"


BASE = "a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("versions", "merged"),
    [
        (["A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n"], "A\nb\nc\nd\nE\n"),
        (["a\nb\nX\nc\nd\ne\n", "a\nb\nX\nc\nd\ne\n"], "a\nb\nX\nc\nd\ne\n"),
        (["import t\na\nb\nc\nd\ne\n", "import t\na\nb\nc\nd\nE\n"], "import t\na\nb\nc\nd\nE\n"),
        (["a\nb\nc\ne\n", "A\nb\nc\nd\ne\n"], "A\nb\nc\ne\n"),
        ([BASE], BASE),
        ([], BASE),
        (["a\nb\nc\nd\ne", "A\nb\nc\nd\ne\n"], "A\nb\nc\nd\ne"),
    ],
)
def test_changes_apart_are_merged(versions: list[str], merged: str) -> None:
    assert merge(BASE, *versions) == merged
    assert merge(BASE, *reversed(versions)) == merged


@pytest.mark.parametrize(
    "versions",
    [
        ["A\nb\nc\nd\ne\n", "X\nb\nc\nd\ne\n"],
        ["a\nX\nb\nc\nd\ne\n", "a\nY\nb\nc\nd\ne\n"],
        ["a\nB\nC\nd\ne\n", "a\nb\nX\nD\ne\n"],
        ["a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n"],
        ["a\nc\nd\ne\n", "a\nb\nnew\nc\nd\ne\n"],
    ],
)
def test_changes_that_meet_are_a_conflict(versions: list[str]) -> None:
    with pytest.raises(ConflictError):
        merge(BASE, *versions)
    with pytest.raises(ConflictError):
        merge(BASE, *reversed(versions))


def test_conflicting_patches_are_named() -> None:
    patches = [
        patch_of("a.py", BASE, BASE.replace("a", "A")),
        patch_of("a.py", BASE, BASE.replace("e", "E")),
        patch_of("b.py", BASE, BASE.replace("a", "A")),
        patch_of("b.py", BASE, BASE.replace("a", "X")),
        patch_of("c.py", BASE, BASE.replace("a", "A")),
        patch_of("c.py", BASE + "more\n", BASE),
    ]
    assert conflicting(patches) == ["b.py", "c.py"]


def test_a_large_file_of_like_lines_is_compared_fast() -> None:
    text = "x = 1\n\n" * 20_000
    changed = text[:70_000] + "y = 2\n" + text[70_000:]
    assert unified_diff(text, changed, "x.py").count("\n+") == 2
    real = "".join(f"def f{i}():\n    return {i}\n\n\n" for i in range(2000))
    both = "import torch\n" + real.replace("return 1990\n", "return 0\n")
    assert unified_diff(real, both, "x.py").count("\n+") == 3
    assert merge(real, both, real) == both
