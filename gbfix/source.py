"""Source files as Python sees them: bytes, encoding, byte order mark, newlines.

`SourceFile.text` holds exactly the characters of the file (newlines, tabs and form feeds
untouched) without the byte order mark, and `SourceFile.encode` gives back the file's own bytes.
Everything that can be wrong with a file is a `SourceError`: path, line, cause and what to do.
"""

from __future__ import annotations

import codecs
import dataclasses
import io
import os
import tokenize
import warnings
from pathlib import Path

from gbfix import GbfixError

#: Stands for a file that one of two versions of a project does not have.
ABSENT = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)  # gbfix\n"

_ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")


class SourceError(GbfixError):
    """A source file that cannot be used: ``path:line: cause; next step`` and, for syntax errors,
    the line with a caret.
    """

    def __init__(
        self, path: str | Path, cause: str, next_step: str = "", *, line: int = 0, excerpt: str = ""
    ) -> None:
        self.path = str(path)
        self.line = line
        self.cause = cause
        self.next_step = next_step
        self.excerpt = excerpt
        where = f"{self.path}:{line}" if line else self.path
        message = f"{where}: {cause}" + (f"; {next_step}" if next_step else "")
        super().__init__(message + (f"\n{excerpt}" if excerpt else ""))


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """One source file, decoded.  ``encode()`` of an unchanged file is ``data``, byte for byte."""

    path: str
    data: bytes
    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @classmethod
    def read(cls, path: str | Path) -> SourceFile:
        """Read and decode a file as Python would (PEP 263 cookie, else UTF-8, with or without BOM).

        Raises `SourceError` when it is missing, not a regular file, or not decodable.
        """
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            raise SourceError(path, "no such file", "check the path") from None
        except IsADirectoryError:
            raise SourceError(path, "is a directory", "name a Python file, or use -m") from None
        except OSError as error:
            raise SourceError(path, f"cannot be read: {error.strerror}") from None
        return cls.from_bytes(path, data)

    @classmethod
    def from_bytes(cls, path: str | Path, data: bytes) -> SourceFile:
        """Decode bytes that were read from ``path``; raises `SourceError` as `read` does."""
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            raise SourceError(
                path, "contains null bytes", "this is no Python source text", line=line
            )
        bom = data.startswith(codecs.BOM_UTF8)
        body = data[len(codecs.BOM_UTF8) :] if bom else data
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError as error:
            cause = str(error.msg).partition(" for '")[0]
            if bom:
                cause = "the byte order mark says UTF-8, the `coding:` comment something else"
            step = "correct the `coding:` comment or save the file as UTF-8"
            raise SourceError(path, cause, step, line=1) from None
        encoding = "utf-8" if bom else encoding
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            line = body.count(b"\n", 0, error.start) + 1
            cause = f"not valid {encoding} (byte {body[error.start]:#04x}: {error.reason})"
            step = "save the file as UTF-8 or declare its encoding in the first line"
            raise SourceError(path, cause, step, line=line) from None
        except LookupError:
            cause = f"declares {encoding}, which is no encoding for text"
            raise SourceError(path, cause, "save the file as UTF-8", line=1) from None
        if text.encode(encoding) != body:
            cause = f"text in {encoding} does not encode back to the same bytes"
            raise SourceError(path, cause, "save the file as UTF-8")
        return cls(str(path), data, text, encoding, bom)

    @property
    def newline(self) -> str:
        """The newline that most lines end with (``\\n`` when there is none)."""
        crlf = self.text.count("\r\n")
        cr = self.text.count("\r") - crlf
        lf = self.text.count("\n") - crlf
        most = max(lf, crlf, cr)
        return "\n" if most == lf else "\r\n" if most == crlf else "\r"

    @property
    def mixed_newlines(self) -> bool:
        """Whether the file ends its lines in more than one way."""
        crlf = self.text.count("\r\n")
        cr = self.text.count("\r") - crlf
        lf = self.text.count("\n") - crlf
        return sum(count > 0 for count in (lf, crlf, cr)) > 1

    def encode(self, text: str) -> bytes:
        """``text`` as bytes of this file: same encoding, same byte order mark, newlines as given.

        Raises `SourceError` where the encoding has no byte for a character, and where the new text
        would be read in another encoding than this one (its ``coding:`` comment changed).
        """
        try:
            body = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            cause = f"{text[error.start]!r} cannot be written in {self.encoding}"
            raise SourceError(self.path, cause, "save the file as UTF-8", line=line) from None
        data = (codecs.BOM_UTF8 if self.bom else b"") + body
        try:
            declared = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except SyntaxError:
            declared = "no valid encoding"
        if declared != ("utf-8-sig" if self.bom else self.encoding):
            cause = f"the new text declares {declared}, the file is {self.encoding}"
            raise SourceError(self.path, cause, "keep the `coding:` comment as it is")
        return data


def check_syntax(text: str, path: str | Path) -> None:
    """Raise `SourceError` with line, cause and a caret unless ``text`` is a valid Python module."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        excerpt = _caret(error, text)
        raise SourceError(
            path,
            f"syntax error: {error.msg}",
            "python cannot run this file either",
            line=error.lineno or 0,
            excerpt=excerpt,
        ) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, "too deeply nested for Python's parser") from None
    except ValueError as error:
        raise SourceError(path, str(error)) from None


def project_root(start: str | Path) -> Path:
    """The project that a file or folder belongs to: the nearest folder above it that holds
    ``pyproject.toml``, ``setup.py``, ``setup.cfg``, ``.git`` or ``.hg``, else its own folder.
    """
    path = Path(os.path.abspath(start))
    folder = path if path.is_dir() else path.parent
    for candidate in (folder, *folder.parents):
        if any((candidate / marker).exists() for marker in _ROOT_MARKERS):
            return candidate
    return folder


def _caret(error: SyntaxError, text: str) -> str:
    """The offending line and a caret under it, tabs kept so that the caret stays in its column."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    if not line.strip() or not error.offset:
        return ""
    start = max(error.offset - 1, 0)
    end = start + 1
    if error.end_offset and error.end_lineno == error.lineno:
        end = max(error.end_offset - 1, end)
    end = min(end, max(len(line), start + 1))
    padding = "".join("\t" if c == "\t" else " " for c in line[:start]).ljust(start)
    return f"    {line}\n    {padding}{'^' * (end - start)}"
