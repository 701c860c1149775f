"""Lines that fit: calls that are too long get an argument a line, as deep as it takes."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.build import line_length
from gbfix.analysis.tree import code


def laid_out(
    statements: Sequence[cst.BaseStatement],
    module: cst.Module,
    depth: int,
    old: set[cst.CSTNode],
) -> list[cst.BaseStatement]:
    """The statements with every new line broken that is too long for the file."""
    return [_statement(it, module, depth, old) for it in statements]


def _statement(
    node: cst.BaseStatement, module: cst.Module, depth: int, old: set[cst.CSTNode]
) -> cst.BaseStatement:
    if node in old:
        return node
    match node:
        case cst.SimpleStatementLine(body=[small]):
            return node.with_changes(body=[_small(small, module, depth)])
        case (
            cst.If(body=cst.IndentedBlock())
            | cst.For(body=cst.IndentedBlock())
            | cst.With(body=cst.IndentedBlock())
            | cst.Try(body=cst.IndentedBlock())
        ):
            block = cst.ensure_type(node.body, cst.IndentedBlock)
            body = laid_out(block.body, module, depth + 1, old)
            node = node.with_changes(body=block.with_changes(body=body))
            orelse = getattr(node, "orelse", None)
            if isinstance(orelse, cst.Else) and isinstance(orelse.body, cst.IndentedBlock):
                body = laid_out(orelse.body.body, module, depth + 1, old)
                block = orelse.body.with_changes(body=body)
                node = node.with_changes(orelse=orelse.with_changes(body=block))
        case cst.Match():
            cases = []
            for case in node.cases:
                if isinstance(case.body, cst.IndentedBlock):
                    body = laid_out(case.body.body, module, depth + 2, old)
                    case = case.with_changes(body=case.body.with_changes(body=body))
                cases.append(case)
            return node.with_changes(cases=cases)
    return node


def _small(node: cst.BaseSmallStatement, module: cst.Module, depth: int) -> cst.BaseSmallStatement:
    indent = module.default_indent
    width = line_length(module) - depth * len(indent.expandtabs(4))
    text = code(node)
    if len(text) <= width or "\n" in text:
        return node
    value = getattr(node, "value", None)
    if not isinstance(value, cst.BaseExpression):
        return node
    head = len(text) - len(code(value))
    new = cst.parse_expression(fitted(value, width, head, "", indent))
    return node.with_changes(value=new)


def fitted(node: cst.BaseExpression, width: int, head: int, current: str, indent: str) -> str:
    """The text of an expression that starts behind ``head`` columns of a line."""
    text = code(node)
    if head + len(text) <= width or "\n" in text:
        return text
    deeper = current + indent
    room = len(deeper.expandtabs(4))
    match node:
        case cst.Call(args=[_, *_]):
            parts = []
            for arg in node.args:
                label = arg.star + (f"{arg.keyword.value}=" if arg.keyword is not None else "")
                fit = fitted(arg.value, width - 1, room + len(label), deeper, indent)
                parts.append(label + fit)
            return _broken(f"{code(node.func)}(", parts, ")", current, deeper)
        case cst.Tuple(elements=[_, _, *_]) | cst.List(elements=[_, *_]):
            parts = [fitted(e.value, width - 1, room, deeper, indent) for e in node.elements]
            opening, closing = ("(", ")") if isinstance(node, cst.Tuple) else ("[", "]")
            return _broken(opening, parts, closing, current, deeper)
        case cst.Dict(elements=[_, *_]) if all(
            isinstance(e, cst.DictElement) for e in node.elements
        ):
            parts = []
            for element in node.elements:
                assert isinstance(element, cst.DictElement)
                key = f"{code(element.key)}: "
                parts.append(
                    key + fitted(element.value, width - 1, room + len(key), deeper, indent)
                )
            return _broken("{", parts, "}", current, deeper)
        case cst.ListComp(for_in=each) if code(each).strip():
            inner = fitted(node.elt, width, room, deeper, indent)
            return f"[\n{deeper}{inner}\n{deeper}{code(each).strip()}\n{current}]"
        case cst.BinaryOperation() if node.lpar == ():
            return f"(\n{deeper}{text}\n{current})" if room + len(text) <= width else text
    return text


def _broken(opening: str, parts: Sequence[str], closing: str, current: str, deeper: str) -> str:
    inner = "".join(f"{deeper}{part},\n" for part in parts)
    return f"{opening}\n{inner}{current}{closing}"
