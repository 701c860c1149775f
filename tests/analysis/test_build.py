"""Building syntax in the file's own format."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from gbfix.analysis import build


def module(source: str) -> cst.Module:
    return cst.parse_module(textwrap.dedent(source).lstrip("\n"))


def text(node: cst.CSTNode) -> str:
    return cst.Module(()).code_for_node(node).strip("\n")


def test_parts() -> None:
    assert text(build.name("torch.nn.Linear")) == "torch.nn.Linear"
    assert (
        text(build.call("torch.cond", "p", build.as_tuple(["a"]), k="1"))
        == "torch.cond(p, (a,), k=1)"
    )
    assert text(build.as_tuple([])) == "()"
    assert text(build.as_tuple(["a", "b"])) == "(a, b)"
    assert text(build.assign("x", "y + 1")) == "x = y + 1"
    assert text(build.assign(["a", "b"], "f()")) == "a, b = f()"
    assert text(build.assign(["a"], "f()")) == "(a,) = f()"
    assert text(build.assign("self.x[0]", "y")) == "self.x[0] = y"
    assert text(build.returns("x")) == "return x"
    assert text(build.returns()) == "return"
    made = build.function("f", ["a", "b"], [build.returns("a")], comment="# why")
    assert text(made) == "# why\ndef f(a, b):\n    return a"


def test_templates() -> None:
    found = build.expression("torch.where({c}, {a}, {b})", c="x > 0", a=cst.Name("x"), b="-x")
    assert text(found) == "torch.where(x > 0, x, -x)"
    lines = build.statements(
        """
        # first
        def {f}(a):
            return {{"k": a}}

        y = {f}({x})
        """.replace("{{", "{").replace("}}", "}"),
        f="helper",
        x="z",
    )
    assert text(cst.Module(lines)) == (
        '# first\ndef helper(a):\n    return {"k": a}\n\ny = helper(z)'
    )
    with pytest.raises(ValueError):
        build.statement("a = 1\nb = 2")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a or b", "(a or b)"),
        ("(a or b)", "(a or b)"),
        ("a", "a"),
        ("f(x)", "f(x)"),
        ("-a", "(-a)"),
        ("a, b", "(a, b)"),
        ("x if y else z", "(x if y else z)"),
        ("lambda: 0", "(lambda: 0)"),
        ("'a' 'b'", "('a' 'b')"),
    ],
)
def test_grouped(source: str, expected: str) -> None:
    assert text(build.grouped(cst.parse_expression(source))) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [("(a)", "a"), ("((a))", "a"), ("(a,\n b)", "(a,\n b)"), ("(i for i in x)", "(i for i in x)"),
     ("()", "()"), ("(x := 1)", "(x := 1)")],
)  # fmt: skip
def test_ungrouped(source: str, expected: str) -> None:
    assert text(build.ungrouped(cst.parse_expression(source))) == expected


def test_comments_and_blank_lines_are_carried() -> None:
    source = module(
        """
        def f(x):
            a = 1

            # why
            b = x  # inline
            return b
        """
    )
    (function,) = source.body
    assert isinstance(function, cst.FunctionDef)
    old = function.body.body[1]
    new = build.carry_leading_lines(build.statements("c = 1\nb = c"), like=old)
    body = function.body.with_changes(body=[function.body.body[0], *new])
    changed = source.deep_replace(function, function.with_changes(body=body))
    assert isinstance(changed, cst.Module)
    assert changed.code == "def f(x):\n    a = 1\n\n    # why\n    c = 1\n    b = c\n"
    assert build.comments_in(old) == ("# why", "# inline")
    assert build.carry_leading_lines([], like=old) == []


@pytest.mark.parametrize(
    ("source", "indent"),
    [
        ("def f():\n    x = 1\n", "    "),
        ("def f():\n\tx = 1\n", "\t"),
        ("class A:\n  def f():\n    x = 1\n", "    "),
        ("def f():\n  if a:\n        x = 1\n", "        "),
        ("if a: x = 1\n", ""),
    ],
)
def test_indentation(source: str, indent: str) -> None:
    from gbfix.analysis.tree import walk

    tree = cst.parse_module(source)
    assignment = next(node for node in walk(tree) if isinstance(node, cst.Assign))
    assert build.indent_of(tree, assignment) == indent


def test_the_indentation_of_a_foreign_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        build.indent_of(module("x = 1"), cst.Name("x"))


@pytest.mark.parametrize(
    ("longest", "width"), [(20, 88), (75, 79), (85, 88), (95, 100), (118, 120), (150, 88)]
)
def test_line_length(longest: int, width: int) -> None:
    line = "x = " + "a + " * ((longest - 5) // 4)
    assert build.line_length(cst.parse_module(line + "b" * (longest - len(line)) + "\n")) == width


def test_long_strings_and_addresses_do_not_widen_the_file() -> None:
    long = "# see https://example.org/" + "a/" * 40 + "\nx = (\n    '" + "a" * 90 + "'\n)\n"
    assert build.line_length(cst.parse_module(long)) == 88


@pytest.mark.parametrize("unit", ["    ", "  ", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_long_call_is_wrapped_in_the_files_own_format(unit: str, newline: str) -> None:
    source = cst.parse_module(f"def f(x):{newline}{unit}y = x{newline}{unit}return y{newline}")
    (function,) = source.body
    assert isinstance(function, cst.FunctionDef)
    old = function.body.body[0]
    call = build.call("torch.cond", "predicate", "true_branch", "false_branch", "(first, second)")
    new = build.assign(["first_result", "second_result"], call)
    wrapped = build.wrap(new, source, build.indent_of(source, old), width=60)
    changed = source.deep_replace(old, wrapped)
    assert isinstance(changed, cst.Module)
    lines = [
        "def f(x):",
        f"{unit}first_result, second_result = torch.cond(",
        f"{unit * 2}predicate,",
        f"{unit * 2}true_branch,",
        f"{unit * 2}false_branch,",
        f"{unit * 2}(first, second),",
        f"{unit})",
        f"{unit}return y",
    ]
    assert changed.code == newline.join(lines) + newline
    assert build.wrap(new, source, unit, width=200) is new


def test_a_lone_generator_is_not_wrapped() -> None:
    source = module("x = 1")
    call = cst.parse_expression("sum(i for i in range(10))")
    assert isinstance(call, cst.Call)
    assert build.exploded(call, source) is call
