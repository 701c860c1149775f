"""The codemod contract's own pieces: finding nodes, facts by position, edits."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from gbfix.codemod import Example, Site, example_site, scalar, tensor


def site(source: str, at: str, **facts: object) -> Site:
    return example_site(Example(source, "", at, facts), "GB0170")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "at", "kind"),
    [
        ("if x.sum() > 0:\n    y = 1\n", "x.sum() > 0", cst.Comparison),
        ("y = (a +\n     b)\n", "a +\n     b", cst.BinaryOperation),
        ("f(x)\n", "f(x)", cst.Call),
        ("f(x).g()\n", "f(x).g()", cst.Call),
        ("with open(p) as f:\n    pass\n", "open(p)", cst.Call),
        ("y = '\U0001f525' + f(x)\n", "f(x)", cst.Call),
    ],
)
def test_the_break_is_found_by_line_and_columns(
    source: str, at: str, kind: type[cst.CSTNode]
) -> None:
    found = site(source, at)
    assert isinstance(found.node, kind)
    assert found.text(found.node).strip("()") == at.strip("()")


def test_functions_statements_and_classes_around_a_node() -> None:
    source = textwrap.dedent(
        """
        class C:
            def f(self, x):
                g = lambda y: bad(y)
                if x:
                    return bad(x)
        """
    ).lstrip()
    inner = example_site(Example(source, "", "bad(x)"), "GB0007")
    assert inner.function is not None and inner.function.name.value == "f"
    holder = inner.class_of(inner.node)
    assert holder is not None and holder.name.value == "C"
    assert isinstance(inner.statement, cst.SimpleStatementLine)
    assert isinstance(inner.top_level_statement(inner.node), cst.ClassDef)
    assert example_site(Example(source, "", "bad(y)"), "GB0007").function is None


def test_facts_of_odd_expressions() -> None:
    found = site("y = torch.zeros(()) + (x)\n", "torch.zeros(()) + (x)", x=tensor(3), n=scalar(2))
    empty = cst.ensure_type(cst.ensure_type(found.node, cst.BinaryOperation).left, cst.Call).args[0]
    assert found.fact(empty.value) is None
    right = cst.ensure_type(found.node, cst.BinaryOperation).right
    assert found.fact(right) == tensor(3)


def test_edits_replace_insert_remove_and_import_once() -> None:
    found = site(
        "import os\n\n\ndef f(x):\n    # keep me\n    a = 1\n    bad(x)\n    return a\n", "bad(x)"
    )
    edit = found.edit()
    edit.insert_before(found.statement, cst.parse_statement("b = 2"))
    edit.replace(found.statement, cst.parse_statement("good(x)"), cst.parse_statement("c = 3"))
    edit.add_import("torch")
    edit.add_import("torch")
    rewrite = edit.rewrite("title", notes=["note"], rank=7)
    (text,) = rewrite.edits.values()
    assert text == (
        "import os\nimport torch\n\n\ndef f(x):\n    # keep me\n    a = 1\n    b = 2\n"
        "    good(x)\n    c = 3\n    return a\n"
    )
    assert (rewrite.rank, rewrite.notes) == (7, ("note",))


def test_removing_the_only_statement_of_a_block_leaves_pass() -> None:
    found = site("def f(x):\n    bad(x)\n", "bad(x)")
    edit = found.edit()
    edit.remove(found.statement)
    assert edit.apply().code == "def f(x):\n    pass\n"
