"""Every codemod's own examples and near misses, and what the contract asks of every codemod.

The cases stand beside the code (`Codemod.examples`, `Codemod.near_misses`); no torch runs here.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, StatedFacts, discover, example_site
from gbfix.schema import Safety, Span

CODEMODS = sorted(discover(), key=lambda codemod: codemod.name)
HEADS = ("What it does", "When it applies", "Fix safety", "Refuses")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_CODE = re.compile(r"(GB\d{4}|[a-z][a-z0-9]*(-[a-z0-9]+)*)\Z")


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(codemod, case, id=f"{codemod.name}-{number}-{_label(case)}")
        for codemod in CODEMODS
        for number, case in enumerate(getattr(codemod, kind))
    ]


def _label(case: Example | NearMiss) -> str:
    words = case.title if isinstance(case, Example) else case.why
    return re.sub(r"\W+", "_", words).strip("_")[:50]


def _code(codemod: Codemod, case: Example | NearMiss) -> str:
    return case.code or codemod.codes[0]


def _source(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


#: What a codemod proposes for a case of its own: three tests ask for the same, and it stays so.
_PROPOSED: dict[int, list[Rewrite]] = {}


def _rewrites(codemod: Codemod, case: Example | NearMiss) -> list[Rewrite]:
    site = example_site(case, _code(codemod, case))
    return [made for made in codemod.propose(site) if isinstance(made, Rewrite)]


def _of_case(codemod: Codemod, case: Example) -> list[Rewrite]:
    """The proposals for an example as it stands in the codemod, which lives as long as that."""
    if id(case) not in _PROPOSED:
        _PROPOSED[id(case)] = _rewrites(codemod, case)
    return _PROPOSED[id(case)]


def _first(codemod: Codemod, case: Example) -> Rewrite:
    rewrites = _of_case(codemod, case)
    assert rewrites, "the codemod proposed no rewrite"
    return rewrites[0]


# -- the cases -------------------------------------------------------------------------------


@pytest.mark.parametrize(("codemod", "case"), _cases("examples"))
def test_the_first_proposal_is_the_expected_text(codemod: Codemod, case: Example) -> None:
    rewrite = _first(codemod, case)
    assert rewrite.edits["example.py"] == _source(case.after)


@pytest.mark.parametrize(("codemod", "case"), _cases("examples"))
def test_what_a_title_calls_unsafe_is_proposed_as_unsafe(codemod: Codemod, case: Example) -> None:
    if "(unsafe" in case.title:
        assert _first(codemod, case).safety is Safety.UNSAFE


@pytest.mark.parametrize(("codemod", "case"), _cases("examples"))
def test_every_proposal_parses_and_changes_something(codemod: Codemod, case: Example) -> None:
    before = _source(case.before)
    for rewrite in _of_case(codemod, case):
        assert rewrite.title
        after = rewrite.edits["example.py"]
        ast.parse(after)
        assert after != before


@pytest.mark.parametrize(("codemod", "case"), _cases("examples"))
def test_nothing_changes_outside_what_is_touched(codemod: Codemod, case: Example) -> None:
    before = _source(case.before)
    for rewrite in _of_case(codemod, case):
        spans = rewrite.touched["example.py"]
        for line, text in _changed_lines(before, rewrite.edits["example.py"]):
            assert _allowed(line, text, spans), f"line {line} is not touched: {text!r}"


@pytest.mark.parametrize(("codemod", "case"), _cases("examples"))
def test_a_second_proposal_changes_nothing_more(codemod: Codemod, case: Example) -> None:
    before, after = _source(case.before), _source(case.after)
    places = _functions_with(case.at, before)
    for number, place in enumerate(_functions_with(case.at, after)):
        if after.count(case.at) < before.count(case.at) or place != places[case.nth]:
            continue  # gone, or moved into a function of its own (an operator, a branch)
        again = dataclasses.replace(case, before=after, nth=number)
        for rewrite in _rewrites(codemod, again):
            assert rewrite.edits["example.py"] == after


@pytest.mark.parametrize(("codemod", "case"), _cases("near_misses"))
def test_a_near_miss_is_left_alone(codemod: Codemod, case: NearMiss) -> None:
    assert [made.title for made in _rewrites(codemod, case)] == []


def _functions_with(text: str, source: str) -> list[str]:
    """The name of the innermost function around each occurrence of the text."""
    defs = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = []
    for match in re.finditer(re.escape(text), source):
        line = source.count("\n", 0, match.start()) + 1
        around = [node for node in defs if node.lineno <= line <= (node.end_lineno or 0)]
        found.append(max(around, key=lambda node: node.lineno).name if around else "")
    return found


def _changed_lines(before: str, after: str) -> Iterator[tuple[int, str]]:
    """Lines (from 1) of the original that a diff removes, and where it inserts lines."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for number in range(start, end):
            if old[number].strip():
                yield number + 1, old[number]
        inserted = "".join(new[new_start:new_end])
        if tag == "insert" and inserted.strip() and not _is_import(inserted):
            yield start + 1, inserted


def _is_import(text: str) -> bool:
    return all(
        not line.strip() or line.startswith(("import ", "from ")) for line in text.splitlines()
    )


def _allowed(line: int, text: str, spans: tuple[Span, ...]) -> bool:
    """Whether a changed line lies in a touched span, or next to one.

    A diff is free to choose among equal lines, and the comments above a statement count as its own.
    """
    if text.lstrip().startswith("#"):
        return True
    last = line + len(text) - len(text.lstrip("\n"))
    return any(span.line - 1 <= last and line <= span.end_line + 1 for span in spans)


# -- how files are written -------------------------------------------------------------------


def _as_crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def _without_final_newline(text: str) -> str:
    return text[:-1] if text.endswith("\n") else text


def _with_tabs(text: str) -> str:
    return re.sub(r"^( {4})+", lambda match: "\t" * (len(match[0]) // 4), text, flags=re.M)


def _with_form_feed(text: str) -> str:
    return text + "\n\x0c\ndef last_of_all():\n    return None\n"


_WRITTEN = {
    "crlf": _as_crlf,
    "no-final-newline": _without_final_newline,
    "tabs": _with_tabs,
    "form-feed": _with_form_feed,
}


@pytest.mark.parametrize("way", _WRITTEN)
@pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.name)
def test_the_way_a_file_is_written_survives(codemod: Codemod, way: str) -> None:
    for case in codemod.examples:
        before, after = _source(case.before), _source(case.after)
        if "\n" in case.at or (way == "tabs" and not _indents_by_four(before, after)):
            continue
        changed = _WRITTEN[way](before)
        site = _site_of(codemod, case, changed, case.at)
        rewrites = [made for made in codemod.propose(site) if isinstance(made, Rewrite)]
        assert rewrites, f"no rewrite of {case.title!r} when written with {way}"
        assert rewrites[0].edits["example.py"] == _WRITTEN[way](after), case.title


def _indents_by_four(*texts: str) -> bool:
    """Whether every indentation is a whole number of steps, so that tabs can stand for them."""
    indents = [len(match[0]) for text in texts for match in re.finditer(r"^ +", text, flags=re.M)]
    return all(indent % 4 == 0 for indent in indents)


def _site_of(codemod: Codemod, case: Example, source: str, at: str) -> Any:
    site = example_site(case, _code(codemod, case))
    offset = -1
    for _ in range(case.nth + 1):
        offset = source.index(at, offset + 1)
    lines = re.split(r"\r\n|\n|\r", source[:offset])
    line, column = len(lines), len(lines[-1])
    frame = dataclasses.replace(
        site.frame, line=line, column=column, end_line=line, end_column=column + len(at)
    )
    graph_break = dataclasses.replace(site.graph_break, frames=(frame,), site=frame)
    return type(site)(
        "example.py", source, graph_break, StatedFacts(case.facts), entry="example.py"
    )


# -- the contract ----------------------------------------------------------------------------


def test_codemods_are_found() -> None:
    assert CODEMODS


def test_names_are_unique() -> None:
    names = [codemod.name for codemod in CODEMODS]
    assert sorted(set(names)) == names


@pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.name)
def test_the_contract_is_kept(codemod: Codemod) -> None:
    assert _NAME.match(codemod.name)
    assert codemod.codes
    assert all(_CODE.match(code) for code in codemod.codes), codemod.codes
    assert len(set(codemod.codes)) == len(codemod.codes)
    assert codemod.examples, "a codemod shows at least one example"
    assert len(codemod.near_misses) >= 2, "a codemod shows at least two near misses"
    doc = inspect.getdoc(type(codemod)) or ""
    positions = [doc.find(head) for head in HEADS]
    assert -1 not in positions, [h for h, p in zip(HEADS, positions, strict=True) if p == -1]
    assert positions == sorted(positions), "the docstring's heads stand in another order"
    assert all(case.why for case in codemod.near_misses)


@pytest.mark.parametrize("codemod", CODEMODS, ids=lambda codemod: codemod.name)
def test_codes_can_be_read_without_importing(codemod: Codemod) -> None:
    tree = ast.parse(inspect.getsource(inspect.getmodule(type(codemod))))  # type: ignore[arg-type]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == type(codemod).__name__:
            values = {
                target.id: statement.value
                for statement in node.body
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name)
            }
            assert ast.literal_eval(values["codes"]) == codemod.codes
            assert ast.literal_eval(values["name"]) == codemod.name
            return
    pytest.fail("the class was not found in its module")
