"""Positions in every encoding, and documents edited as clients edit them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import reports
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from gbfix.lsp.documents import Documents, path_of, uri_of
from gbfix.lsp.measured import Measured, State
from gbfix.lsp.positions import Encoding, Text, width
from gbfix.lsp.texts import measured_message
from gbfix.schema import Span, Target

LINE = 'x = "🔥é" + y'


@pytest.mark.parametrize(
    ("encoding", "column_of_plus"),
    [(Encoding.UTF8, 13), (Encoding.UTF16, 10), (Encoding.UTF32, 9)],
)
def test_columns_count_the_units_of_the_encoding(encoding: Encoding, column_of_plus: int) -> None:
    text = Text(f"\n{LINE}\n", encoding)
    assert text.position(2, LINE.index("+")) == lsp.Position(1, column_of_plus)
    assert text.place(lsp.Position(1, column_of_plus)) == (2, LINE.index("+"))


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_position_inside_a_character_counts_as_its_start(encoding: Encoding) -> None:
    text = Text("🔥", encoding)
    for units in range(width("🔥", encoding)):
        assert text.offset(lsp.Position(0, units)) == 0
    assert text.offset(lsp.Position(0, width("🔥", encoding))) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_python_ends_them(end: str) -> None:
    text = Text(f"a{end}b\fc\u2028d{end}e", Encoding.UTF16)
    assert [text.line(number) for number in range(text.line_count)] == ["a", "b\fc\u2028d", "e"]


def test_what_lies_beyond_the_text_is_its_end() -> None:
    text = Text("ab\ncd", Encoding.UTF16)
    assert text.offset(lsp.Position(0, 99)) == 2
    assert text.offset(lsp.Position(9, 0)) == 5
    assert text.range(Span(9, 0, 9, 4)).start == lsp.Position(8, 0)


_TEXT = st.text(st.sampled_from("ab\n\r\f\u2028é🔥"), max_size=12)


@given(_TEXT, st.sampled_from(list(Encoding)), st.data())
def test_positions_and_offsets_are_each_others_inverse(
    text: str, encoding: Encoding, data: st.DataObject
) -> None:
    whole = Text(text, encoding)
    offset = data.draw(st.integers(0, len(text)))
    inside_crlf = text[offset - 1 : offset + 1] == "\r\n" and offset > 0
    if not inside_crlf:
        assert whole.offset(whole.at(offset)) == offset


@given(_TEXT, _TEXT, st.sampled_from(list(Encoding)), st.data())
def test_an_edit_replaces_what_stands_between_its_positions(
    text: str, new: str, encoding: Encoding, data: st.DataObject
) -> None:
    places = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    if any(text[place - 1 : place + 1] == "\r\n" and place for place in places):
        return
    documents = Documents(encoding)
    document = documents.open(lsp.TextDocumentItem("file:///a.py", "python", 1, text))
    where = lsp.Range(document.text.at(places[0]), document.text.at(places[1]))
    changed = documents.change(
        "file:///a.py", 2, [lsp.TextDocumentContentChangePartial(text=new, range=where)]
    )
    assert changed is not None and changed.version == 2
    assert changed.text.text == text[: places[0]] + new + text[places[1] :]


def test_only_files_have_paths() -> None:
    assert path_of("file:///tmp/a%20b.py") == "/tmp/a b.py"
    assert path_of("untitled:Untitled-1") is None
    assert path_of("file://server/share/a.py") is None
    assert path_of(uri_of("/tmp/ä b#c.py")) == "/tmp/ä b#c.py"


def test_a_message_ends_where_its_sentence_does(tmp_path: Path) -> None:
    report = reports.fixed(tmp_path / "m.py")
    why = "Detected data-dependent branching (e.g. `if x.sum() > 0:`). Dynamo does not support it."
    found = report.breaks[0]
    found.graph_break = dataclasses.replace(found.graph_break, explanation=why)
    text = measured_message(found, Measured(Target("script", "m.py"), report, {}), State.EXACT)
    assert ": Detected data-dependent branching (e.g. `if x.sum() > 0:`). In compiled" in text
