"""What moves: reads of a tensor's value, statements around a break, what may change a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site, Statement

from ..wrap.pure import is_pure_method

#: Calls that bring a tensor's value to Python, which breaks where scalars are not captured.
_HOST_METHODS = words("item tolist numpy cpu")
_HOST_FUNCTIONS = words("float int bool")


def is_host_read(node: cst.CSTNode) -> bool:
    """Whether an expression brings a tensor's value to Python."""
    for part in walk(node):
        match part:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=method))):
                if method in _HOST_METHODS:
                    return True
            case cst.Call(func=cst.Name(value=name), args=[_]):
                if name in _HOST_FUNCTIONS:
                    return True
    return False


def is_text_of_tensor(site: Site, node: cst.CSTNode) -> bool:
    """Whether an expression makes a text that shows a tensor, which no graph can hand over."""
    for part in walk(node):
        match part:
            case cst.FormattedStringExpression(expression=value):
                shown: list[cst.BaseExpression] = [value]
            case cst.Call(func=cst.Attribute(attr=cst.Name("format")), args=args):
                shown = [argument.value for argument in args]
            case cst.Call(func=cst.Name("str" | "repr" | "format"), args=args):
                shown = [argument.value for argument in args]
            case cst.BinaryOperation(operator=cst.Modulo(), left=left, right=right) if isinstance(
                left, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString
            ):
                shown = [right]
                if isinstance(right, cst.Tuple):
                    shown = [element.value for element in right.elements]
            case _:
                continue
        if any((fact := site.fact(value)) is not None and fact.is_tensor for value in shown):
            return True
    return False


def texts_of_tensors(site: Site) -> frozenset[str]:
    """Names of the site's function that hold such texts, or what is made of them."""
    if site.function is None:
        return frozenset()
    made: list[tuple[frozenset[str], cst.BaseExpression]] = []
    for node in walk(site.function.body):
        match node:
            case cst.Assign(value=value) | cst.AugAssign(value=value):
                made.append((activity(node).writes, value))
            case cst.Call(
                func=cst.Attribute(value=cst.Name(name), attr=cst.Name("append" | "extend")),
                args=[cst.Arg(value=value)],
            ):
                made.append((frozenset({name}), value))
    found: frozenset[str] = frozenset()
    while True:
        more = {
            name
            for names, value in made
            if activity(value).reads & found or is_text_of_tensor(site, value)
            for name in names
        }
        if more <= found:
            return found
        found |= more


def runs_at(site: Site) -> Iterator[tuple[cst.BaseStatement, ...]]:
    """The statements around the break, innermost first: each as it stands among its neighbours."""
    function = site.function
    statement: cst.CSTNode = site.statement
    while isinstance(statement, Statement) and function is not None:
        yield (statement,)
        parent = next(
            (item for item in site.ancestors(statement) if isinstance(item, Statement)), None
        )
        if parent is None or parent is function:
            return
        # An `elif` is part of the `if` above it.
        while isinstance(parent, cst.If) and isinstance(above := site.parent(parent), cst.If):
            parent = above
        statement = parent


def may_change(node: cst.CSTNode, names: frozenset[str]) -> bool:
    """Whether a call gets one of the names and may change it: a layer that works in place."""
    if not isinstance(node, cst.Call) or not activity(node).reads & names:
        return False
    func = node.func
    last = func.attr.value if isinstance(func, cst.Attribute) else code(func)
    head = code(func).partition(".")[0]
    if head in ("torch", "F", "math", "np") or is_pure_method(last):
        return last.endswith("_") or "inplace" in code(node)
    return last not in ("print", "len", "float", "int", "str", "range", "max", "min")


class Replace(cst.CSTTransformer):
    def __init__(self, new: dict[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self.new = new

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        new = self.new.get(original_node)
        if new is None:
            return updated_node
        if isinstance(original_node, cst.BaseExpression) and original_node.lpar:
            new = new.with_changes(lpar=original_node.lpar, rpar=original_node.rpar)
        return new
