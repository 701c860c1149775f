"""Source files round-trip byte for byte, and every way to be broken is one clear error."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbfix.source import SourceError, SourceFile, check_syntax, project_root

BOM = codecs.BOM_UTF8

GOOD = {
    "plain": (b"x = 1\n", "utf-8", "\n"),
    "empty": (b"", "utf-8", "\n"),
    "no final newline": (b"x = 1", "utf-8", "\n"),
    "crlf": (b"x = 1\r\ny = 2\r\n", "utf-8", "\r\n"),
    "cr": (b"x = 1\ry = 2\r", "utf-8", "\r"),
    "mixed newlines": (b"a\r\nb\r\nc\nd\r", "utf-8", "\r\n"),
    "form feed and tabs": (b"def f():\n\treturn 1\n\x0c\nx = 2\x0b\n", "utf-8", "\n"),
    "utf-8": ("x = 'é→😀'\n".encode(), "utf-8", "\n"),
    "byte order mark": (BOM + "x = 'é'\n".encode(), "utf-8", "\n"),
    "byte order mark alone": (BOM, "utf-8", "\n"),
    "byte order mark and cookie": (BOM + b"# coding: utf-8\n", "utf-8", "\n"),
    "latin-1": ("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), "iso-8859-1", "\n"),
    "cookie on line two": ("#!x\n# coding: cp1252\ny='€'\n".encode("cp1252"), "cp1252", "\n"),
    "shift_jis": ("# coding: shift_jis\nx = 'あ'\r\n".encode("shift_jis"), "shift_jis", "\n"),
    "cookie on line three counts not": (b"\n\n# coding: latin-1\n", "utf-8", "\n"),
    "unicode line separators": ("x = '\u2028\x85\x1c'\n".encode(), "utf-8", "\n"),
}

BAD = {
    "not utf-8": (b"x = 1\ny = '\xe9'\nz = 3\n", 2, "not valid utf-8"),
    "not utf-8 at once": (b"'\xe9'", 1, "invalid or missing encoding"),
    "not utf-8 further down": (b"x\n" * 9 + b"'\xe9'\n", 10, "not valid utf-8"),
    "unknown encoding": (b"# coding: klingon\n", 1, "unknown encoding: klingon"),
    "cookie is wrong": (b"# coding: ascii\n\n\nx = '\xe9'\n", 4, "not valid ascii"),
    "cookie against the mark": (BOM + b"# coding: latin-1\n", 1, "byte order mark"),
    "no encoding for text": (b"# coding: rot13\n", 1, "no encoding for text"),
    "null bytes": (b"x = 1\ny = '\0'\n", 2, "null bytes"),
    "several spellings": (b"# coding: utf-7\nx = '+AOk-'\n", 0, "does not encode back"),
    "utf-16": ("x = 1\n".encode("utf-16"), 1, ""),
}


@pytest.mark.parametrize(("data", "encoding", "newline"), GOOD.values(), ids=GOOD)
def test_a_file_comes_back_byte_for_byte(
    tmp_path: Path, data: bytes, encoding: str, newline: str
) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(data)
    source = SourceFile.read(path)
    assert source.encode(source.text) == data
    assert (source.encoding, source.newline) == (encoding, newline)
    assert source.bom == data.startswith(BOM)
    assert not source.text.startswith("\ufeff")


def test_mixed_newlines_are_noticed() -> None:
    assert SourceFile.from_bytes("x", b"a\r\nb\n").mixed_newlines
    assert not SourceFile.from_bytes("x", b"a\r\nb\r\n").mixed_newlines


@given(st.binary(max_size=60))
def test_any_bytes_round_trip_or_are_refused(data: bytes) -> None:
    try:
        source = SourceFile.from_bytes("x.py", data)
    except SourceError:
        return
    assert source.encode(source.text) == data


@pytest.mark.parametrize(("data", "line", "cause"), BAD.values(), ids=BAD)
def test_a_broken_file_is_one_clear_error(
    tmp_path: Path, data: bytes, line: int, cause: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        SourceFile.read(path)
    assert cause in caught.value.cause
    assert caught.value.line == line
    assert caught.value.next_step
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        SourceFile.read(tmp_path / "none.py")
    with pytest.raises(SourceError, match="is a directory"):
        SourceFile.read(tmp_path)
    (tmp_path / "loop.py").symlink_to("loop.py")
    with pytest.raises(SourceError, match="cannot be read"):
        SourceFile.read(tmp_path / "loop.py")
    (tmp_path / "f.py").write_text("")
    with pytest.raises(SourceError, match="cannot be read"):
        SourceFile.read(tmp_path / "f.py" / "g.py")


def test_text_that_the_encoding_lacks_is_refused() -> None:
    source = SourceFile.from_bytes("x.py", b"# coding: latin-1\nx = 1\n")
    assert source.encode("# coding: latin-1\nx = '\xe9'\n").endswith(b"'\xe9'\n")
    with pytest.raises(SourceError, match=r"x\.py:2: '→' cannot be written in iso-8859-1"):
        source.encode("# coding: latin-1\nx = '→'\n")


@pytest.mark.parametrize(
    "text",
    ["x = 1\n", "# coding: cp1252\nx = 1\n", "# coding: nonsense\n"],
)
def test_new_text_must_keep_the_declared_encoding(text: str) -> None:
    source = SourceFile.from_bytes("x.py", b"# coding: latin-1\nx = 1\n")
    with pytest.raises(SourceError, match="keep the `coding:` comment"):
        source.encode(text)


@pytest.mark.parametrize(
    ("text", "line", "excerpt"),
    [
        ("def f(:\n    pass\n", 1, "    def f(:\n          ^"),
        ("if x:\n\ty = = 2\n", 2, "    \ty = = 2\n    \t    ^"),
        ("x = (1,\n\ny = 2\n", 1, "    x = (1,\n        ^"),
        ("é = 'abc\n", 1, "    é = 'abc\n        ^"),
        ("return 1\n", 1, "    return 1\n    ^^^^^^^^"),
        ("x = 1\r\ny = = 2\r\n", 2, "    y = = 2\n        ^"),
        ("nonlocal x\n", 1, "    nonlocal x\n    ^^^^^^^^^^"),
    ],
)
def test_syntax_errors_name_the_line_and_show_a_caret(text: str, line: int, excerpt: str) -> None:
    with pytest.raises(SourceError) as caught:
        check_syntax(text, "x.py")
    assert caught.value.line == line
    assert caught.value.excerpt == excerpt
    assert str(caught.value).startswith(f"x.py:{line}: syntax error: ")


@pytest.mark.parametrize(
    "text",
    ["", "x = '\\d'\n", "\x0cx = 1\n", "async def f():\n    await g()\n"],
)
def test_valid_modules_pass_without_warnings(text: str, recwarn: pytest.WarningsRecorder) -> None:
    check_syntax(text, "x.py")
    assert not recwarn.list


def test_text_too_deep_for_the_parser_is_an_error_and_no_crash() -> None:
    with pytest.raises(SourceError):
        check_syntax("(" * 5000 + ")" * 5000, "x.py")
    with pytest.raises(SourceError):
        check_syntax("x\0", "x.py")


def test_the_project_is_the_nearest_marked_folder(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "pkg" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / "repo" / "pyproject.toml").touch()
    (inner / "x.py").touch()
    assert project_root(inner / "x.py") == tmp_path / "repo"
    assert project_root(inner) == tmp_path / "repo"
    (tmp_path / "repo" / "pkg" / ".git").mkdir()
    assert project_root(inner) == tmp_path / "repo" / "pkg"
    (tmp_path / "repo" / "pyproject.toml").unlink()
    (tmp_path / "repo" / "pkg" / ".git").rmdir()
    assert project_root(inner / "x.py") == inner
