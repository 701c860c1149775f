"""What a piece of Python may give and raise as an operator: other calls than the recorded one."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Advice, Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety

_FACTS = {
    "x": tensor(5),
    "top": scalar(1.0),
    "key": scalar(0),
    "x.max().item()": scalar(1.0),
    "zlib.crc32": Fact("function", "function", qualname="zlib.crc32"),
    "x.tolist()": Fact("list", "list", items=(scalar(1.0),)),
}
_CALL = "zlib.crc32(repr(x.tolist()).encode())"


def _proposed(body: str, rest: str = "") -> list[Rewrite | Advice]:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    source = f"import zlib\n\nimport torch\n\n\ndef f(x, n):\n{lines}\n{textwrap.dedent(rest)}"
    case = Example(source, "", at=_CALL, facts=_FACTS | {_CALL: scalar(3)}, title="")
    return list(WrapPiece().propose(example_site(case, "GB0007")))


def _rewrites(body: str, rest: str = "") -> list[Rewrite]:
    return [item for item in _proposed(body, rest) if isinstance(item, Rewrite)]


_NUMBER = f"""
if n:
    key = {{}}
else:
    key = {_CALL}
return x * key
"""


def test_a_number_may_be_a_number_in_each_branch() -> None:
    assert _rewrites(_NUMBER.format("7"))


@pytest.mark.parametrize("other", ['"none"', "None", 'f"{n}"', "[]"])
def test_a_number_that_is_none_in_other_calls_is_not_carried(other: str) -> None:
    found = _rewrites(_NUMBER.format(other))
    assert not any(
        "key" in text.partition("def f(")[0] for it in found for text in it.edits.values()
    )


_CHECK = f"""
if {_CALL} == 7:
    raise ValueError(x.shape)
return x
"""
_ELSEWHERE = """

@torch.compile
def careful(x):
    try:
        return f(x, 1)
    except {}:
        return x * 0
"""


def test_a_check_raises_in_an_operator() -> None:
    assert [it.safety for it in _rewrites(_CHECK)][:1] == [Safety.SAFE]


@pytest.mark.parametrize("handled", ["ValueError", "Exception"])
def test_a_check_that_other_compiled_code_waits_for_is_unsafe(handled: str) -> None:
    found = _rewrites(_CHECK, _ELSEWHERE.format(handled))
    assert found and all(it.safety is Safety.UNSAFE for it in found)
    assert any("`careful` handles such errors" in note for it in found for note in it.notes)


def test_a_handler_of_other_errors_is_no_matter() -> None:
    found = _rewrites(_CHECK, _ELSEWHERE.format("KeyError"))
    assert found and found[0].safety is Safety.SAFE


def test_a_check_whose_error_is_handled_around_it_stays() -> None:
    inside = textwrap.indent(_CHECK.strip(), "    ")
    found = _rewrites(f"try:\n{inside}\nexcept ValueError:\n    return x * 0")
    assert not any(
        "raise" in text.partition("def f(")[0] and "try" not in text.partition("def f(")[0]
        for it in found
        for text in it.edits.values()
    )


_ORDERED = """

def lift(rows, floor):
    {}


def order(scores, floor):
    row = scores[0]
    {}
    return zlib.crc32(repr(scores.tolist()).encode())
"""


@pytest.mark.parametrize(
    ("inner", "outer", "changes"),
    [
        ("rows[0] = floor", "lift(row, floor)", True),
        ("rows[0] = floor", "lift(floor=1, rows=row)", True),
        ("pass", "row += floor", True),
        ("rows = rows.clone(); rows[0] = floor", "lift(row, floor)", False),
        ("return rows[0] + floor", "lift(row, floor)", False),
    ],
)
def test_memory_that_helpers_write_to_is_declared(inner: str, outer: str, changes: bool) -> None:
    source = "import zlib\n\nimport torch\n" + _ORDERED.format(inner, outer)
    source += "\n\ndef f(x, n):\n    return x * order(x, n)\n"
    facts = _FACTS | {"n": scalar(2), "order(x, n)": scalar(3)}
    case = Example(source, "", at="order(x, n)", facts=facts, title="")
    found = list(WrapPiece().propose(example_site(case, "GB0007")))
    texts = [it.edits["example.py"] for it in found if isinstance(it, Rewrite)]
    assert texts
    assert all(('mutates_args=("x",)' in text) == changes for text in texts), texts[0]
