"""Building new syntax that looks as if the file's author had written it.

Templates are parsed, never glued as text.  New blocks carry no indentation of their own: LibCST
renders them in the indentation and with the newlines of the module that they are put into.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import libcst as cst
from libcst.helpers import parse_template_expression, parse_template_module

from gbfix.analysis.scopes import path_to
from gbfix.analysis.tree import code, walk

Part = cst.BaseExpression | cst.BaseStatement | str
Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
_LineT = TypeVar("_LineT", cst.SimpleStatementLine, cst.FunctionDef, cst.If, cst.With, cst.For)

_WIDTHS = (79, 88, 100, 120)


# -- parts -----------------------------------------------------------------------------------


def name(dotted_name: str) -> cst.Name | cst.Attribute:
    """``torch.cond`` as nodes."""
    first, *rest = dotted_name.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for part in rest:
        node = cst.Attribute(node, cst.Name(part))
    return node


def expression(template: str, **parts: Part) -> cst.BaseExpression:
    """An expression from a template: ``expression("torch.where({c}, {a}, {b})", c=...)``.

    Parts are nodes or source texts.  A part that stands beside an operator in the template has to
    be `grouped` first where it could bind more loosely.
    """
    return parse_template_expression(template, **_parts(parts))


def statements(template: str, **parts: Part) -> list[cst.BaseStatement]:
    """Statements from a (dedented) template; ``{placeholders}`` as in `expression`."""
    template = textwrap.dedent(template).strip("\n") + "\n"
    module = parse_template_module(template, **_parts(parts))
    body = [cast(cst.BaseStatement, node) for node in module.body]
    if body and module.header:
        first = body[0]
        body[0] = first.with_changes(
            leading_lines=(*module.header, *cast(Line, first).leading_lines)
        )
    return body


def statement(template: str, **parts: Part) -> cst.BaseStatement:
    """The one statement of a template."""
    (only,) = statements(template, **parts)
    return only


def call(func: str | cst.BaseExpression, *args: Part, **keywords: Part) -> cst.Call:
    """``func(*args, **keywords)``; texts are parsed."""
    arguments = [cst.Arg(_expression(arg)) for arg in args]
    arguments += [
        cst.Arg(
            _expression(value),
            keyword=cst.Name(keyword),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )
        for keyword, value in keywords.items()
    ]
    return cst.Call(_expression(func), arguments)


def as_tuple(names: Sequence[str | cst.BaseExpression]) -> cst.Tuple:
    """``(a, b)``; one element is ``(a,)``, none is ``()``."""
    elements = [cst.Element(_expression(item)) for item in names]
    if len(elements) == 1:
        elements = [elements[0].with_changes(comma=cst.Comma())]
    return cst.Tuple(elements)


def assign(
    target: str | cst.BaseExpression | Sequence[str], value: cst.BaseExpression | str
) -> cst.SimpleStatementLine:
    """``target = value``; several names are ``a, b = value``, a list of one is ``(a,) = value``."""
    if isinstance(target, str | cst.BaseExpression):
        left = _expression(target)
    else:
        left = as_tuple(target)
        if len(target) > 1:
            left = left.with_changes(lpar=(), rpar=())
    node = cst.Assign(
        [cst.AssignTarget(cast(cst.BaseAssignTargetExpression, left))], _expression(value)
    )
    return cst.SimpleStatementLine([node])


def returns(value: cst.BaseExpression | str | None = None) -> cst.SimpleStatementLine:
    """``return value``."""
    return cst.SimpleStatementLine([cst.Return(None if value is None else _expression(value))])


def function(
    called: str,
    parameters: Sequence[str],
    body: Sequence[cst.BaseStatement],
    *,
    comment: str = "",
) -> cst.FunctionDef:
    """``def called(parameters): body``; a ``comment`` (with its ``#``) goes above it."""
    lines = [cst.EmptyLine(comment=cst.Comment(comment))] if comment else []
    return cst.FunctionDef(
        name=cst.Name(called),
        params=cst.Parameters([cst.Param(cst.Name(parameter)) for parameter in parameters]),
        body=cst.IndentedBlock(tuple(body)),
        leading_lines=lines,
    )


def grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression in parentheses, unless it binds as tightly as a name does."""
    tight = (
        cst.Name
        | cst.Attribute
        | cst.Subscript
        | cst.Call
        | cst.BaseNumber
        | cst.SimpleString
        | cst.FormattedString
        | cst.List
        | cst.Dict
        | cst.Set
        | cst.ListComp
        | cst.SetComp
        | cst.DictComp
    )
    if node.lpar or isinstance(node, tight):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def ungrouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression without its own parentheses, where nothing in it needs them to span lines."""
    if not node.lpar or isinstance(node, cst.GeneratorExp | cst.Yield | cst.NamedExpr):
        return node
    if "\n" in code(node) or (isinstance(node, cst.Tuple) and not node.elements):
        return node
    return node.with_changes(lpar=(), rpar=())


# -- format ----------------------------------------------------------------------------------


def with_leading_lines(new: _LineT, *, like: cst.CSTNode) -> _LineT:
    """The new statement with the comments and blank lines that stand above the old one."""
    above: tuple[cst.EmptyLine, ...] = tuple(getattr(like, "leading_lines", ()))
    return new.with_changes(leading_lines=(*above, *_comments(new)))


def carry_leading_lines(
    new: Sequence[cst.BaseStatement], *, like: cst.CSTNode
) -> list[cst.BaseStatement]:
    """Statements of which the first takes over what stands above the old statement."""
    if not new:
        return []
    first = cast(cst.SimpleStatementLine, new[0])
    return [with_leading_lines(first, like=like), *new[1:]]


def comments_in(node: cst.CSTNode) -> tuple[str, ...]:
    """Every comment below the node, in source order, with its ``#``.

    What a rewrite does not carry over, it has to put elsewhere: a comment must not vanish.
    """
    found: list[str] = []

    class _Comments(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            found.append(node.value)

    node.visit(_Comments())
    return tuple(found)


def indent_of(module: cst.Module, node: cst.CSTNode) -> str:
    """The indentation of the block in which the node stands, as text; KeyError if it is foreign."""
    path = path_to(module, node)
    if not path:
        raise KeyError("the node is not part of the module")
    blocks = [outer for outer in path[1:] if isinstance(outer, cst.IndentedBlock)]
    return "".join(
        module.default_indent if block.indent is None else block.indent
        for block in reversed(blocks)
    )


@functools.lru_cache(maxsize=8)
def line_length(module: cst.Module) -> int:
    """The line length that the file keeps to: 79, 88, 100 or 120; 88 where nothing tells.

    Lines that no formatter would break (long strings, comments with addresses) do not count.
    """
    longest = 0
    for line in module.code.splitlines():
        text = line.expandtabs(len(module.default_indent) or 4)
        if "://" in text or _is_one_word(text) or len(text) > _WIDTHS[-1]:
            continue
        longest = max(longest, len(text))
    if longest <= 72:
        return 88
    return next((width for width in _WIDTHS if longest <= width), _WIDTHS[-1])


def wrap(
    new: cst.SimpleStatementLine, module: cst.Module, indent: str, *, width: int | None = None
) -> cst.SimpleStatementLine:
    """The statement as it is where it fits, else with one argument a line in its outermost call.

    ``indent`` is that of the place where it will stand (`indent_of`); ``width`` defaults to the
    file's `line_length`.
    """
    width = line_length(module) if width is None else width
    text = code(new.with_changes(leading_lines=())).rstrip("\n")
    columns = len(indent.expandtabs(4)) + max(map(len, text.split("\n")))
    outermost = _outermost_call(new)
    if columns <= width or outermost is None or "\n" in text:
        return new
    changed = new.deep_replace(outermost, exploded(outermost, module))
    return cast(cst.SimpleStatementLine, changed)


def exploded(node: cst.Call, module: cst.Module) -> cst.Call:
    """The call with one argument a line, in the file's indentation, with a trailing comma."""
    if not node.args or (len(node.args) == 1 and isinstance(node.args[0].value, cst.GeneratorExp)):
        return node
    inner, outer = _newline(module.default_indent), _newline("")
    last = len(node.args) - 1
    args = [
        arg.with_changes(
            comma=cst.Comma(whitespace_after=outer if i == last else inner),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        for i, arg in enumerate(node.args)
    ]
    return node.with_changes(args=args, whitespace_before_args=inner)


# -- details ---------------------------------------------------------------------------------


def _parts(parts: Mapping[str, Part]) -> dict[str, Any]:
    return {
        key: cst.parse_expression(part) if isinstance(part, str) else part
        for key, part in parts.items()
    }


def _expression(part: Part) -> cst.BaseExpression:
    if isinstance(part, str):
        return cst.parse_expression(part)
    return cast(cst.BaseExpression, part)


def _comments(node: cst.CSTNode) -> tuple[cst.EmptyLine, ...]:
    return tuple(line for line in getattr(node, "leading_lines", ()) if line.comment is not None)


def _is_one_word(text: str) -> bool:
    stripped = text.strip().strip(",")
    return stripped.startswith(("#", '"', "'", 'f"', "f'", 'r"', "r'")) or " " not in stripped


def _newline(last_line: str) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(
        first_line=cst.TrailingWhitespace(newline=cst.Newline()),
        indent=True,
        last_line=cst.SimpleWhitespace(last_line),
    )


def _outermost_call(node: cst.SimpleStatementLine) -> cst.Call | None:
    return next((child for child in walk(node) if isinstance(child, cst.Call)), None)
