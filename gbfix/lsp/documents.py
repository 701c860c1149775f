"""Open documents: the client's texts, edited as the client edits them.

pygls keeps such a store, too, but splits lines as ``str.splitlines`` does; a form feed in a file
would then put every later edit in the wrong place.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp

from gbfix.lsp.positions import Encoding, Text


@dataclasses.dataclass(frozen=True)
class Document:
    """One text of the client; ``path`` is None where it is no file (``untitled:``, ``git:``)."""

    uri: str
    version: int
    text: Text
    path: str | None


class Documents:
    """The texts that a client has open, by URI."""

    def __init__(self, encoding: Encoding = Encoding.UTF16) -> None:
        self.encoding = encoding
        self._open: dict[str, Document] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

    def open(self, item: lsp.TextDocumentItem) -> Document:
        text = Text(item.text, self.encoding)
        document = Document(item.uri, item.version, text, path_of(item.uri))
        self._open[item.uri] = document
        return document

    def change(
        self, uri: str, version: int, changes: Sequence[lsp.TextDocumentContentChangeEvent]
    ) -> Document | None:
        """Apply a client's edits one after the other; None for a document that is not open."""
        document = self._open.get(uri)
        if document is None:
            return None
        text = document.text
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangePartial):
                start, end = text.offset(change.range.start), text.offset(change.range.end)
                new = text.text[:start] + change.text + text.text[max(start, end) :]
            else:
                new = change.text
            text = Text(new, self.encoding)
        document = dataclasses.replace(document, version=version, text=text)
        self._open[uri] = document
        return document

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri)

    def by_path(self, path: str) -> Document | None:
        """The open document of a file, however its URI spells the path."""
        for item in self._open.values():
            if item.path == path:
                return item
        real = os.path.realpath(path)
        return next((item for item in self._open.values() if item.path == real), None)


def path_of(uri: str) -> str | None:
    """The file that a URI names; None for any scheme but ``file`` and for other hosts.

    Symbolic links are resolved, as they are in the working folder of a command line: editors,
    reports and the cache then mean the same file by the same path.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return os.path.realpath(unquote(parts.path)) if parts.path else None


def uri_of(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()
