"""``# gbfix: ignore[...]`` comments: which lines and codes they speak of, and which hid nothing."""

from __future__ import annotations

import pytest
from planted import Gbfix

from gbfix.ignores import ignored, unused

MANY = """\
if x.any():  # gbfix: ignore[GB0170]
    pass
f(  # GBFIX:ignore[170, data-dependent-guard]
    x,
)
g("# gbfix: ignore")
# gbfix: ignore[GB0007]
h(x)  # gbfix: ignore
k(x)  # why  # gbfix: ignore[GB0007]
"""


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        (1, "GB0170", True),
        (1, "GB0007", False),
        (2, "GB0170", False),
        (3, "GB0170", True),
        (4, "GB0170", True),
        (5, "data-dependent-guard", True),
        (6, "GB0170", False),
        (8, "GB0007", True),
        (8, "unknown", True),
        (99, "GB0170", False),
    ],
)
def test_a_comment_speaks_of_its_logical_line_and_its_codes(
    line: int, code: str, expected: bool
) -> None:
    assert ignored(MANY, line, code) is expected


def test_comments_that_hid_nothing_are_known() -> None:
    left = unused(MANY, [(1, "GB0170"), (5, "GB0007")])
    assert [item.line for item in left] == [3, 8]


def test_a_word_that_is_no_code_hides_nothing() -> None:
    text = "f(x)  # gbfix: ignore[GB017O]\n"
    assert not ignored(text, 1, "GB0170")
    assert unused(text, [(1, "GB0170")])[0].unknown == ("GB017O",)


@pytest.mark.parametrize("text", ["f(  # gbfix: ignore", "'''\n# gbfix: ignore", "\tx\n  # gbfix:"])
def test_text_that_is_no_program_ignores_nothing(text: str) -> None:
    assert not ignored(text, 1, "GB0170")


def test_an_ignored_break_is_neither_reported_nor_fixed(gbfix_run: Gbfix) -> None:
    report = gbfix_run("""
        import torch


        @torch.compile
        def f(x):
            print("kept")  # gbfix: ignore[GB0059]
            y = x + 1  # gbfix: ignore[GB0170]
            torch._dynamo.graph_break()
            return y


        f(torch.ones(3))
        """)
    assert [item.graph_break.code for item in report.breaks] == ["GB0025"]
    assert all("print" in patch.after for patch in report.patches)
    (warning,) = [error for error in report.errors if error.kind == "unused-ignore"]
    assert (warning.line, warning.fatal) == (7, False)
