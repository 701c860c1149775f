"""Which texts in the body of an operator may show how autograd came to a tensor.

``f"{loss.detach()}"`` and ``f"{loss:.3f}"`` do not, ``f"{[loss]}"`` does.  The body is read as
text; what its names hold is followed through assignments, loops and comprehensions, whatever their
order.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from gbfix.analysis.tree import words

from .libraries import NO_GRADIENT, SCALARS, SHOWS

_PLAIN_FUNCTIONS = words(
    "len int float bool str repr format ascii range isinstance any all hash ord chr type"
)
_PLAIN_METHODS = SCALARS | words(
    """format join keys upper lower strip split startswith endswith title count index equal
    allclose is_floating_point is_complex"""
)
_PLAIN_ATTRIBUTES = words("shape dtype device ndim itemsize nbytes __name__ __qualname__")
_TEXT_FUNCTIONS = words("str repr ascii format print")
_TEXT_METHODS = words("format join")
#: Methods that give one number where they are given nothing.
_POINTS = words("sum mean max min norm std var median prod any all")


class Tensors:
    """What the names of an operator's body hold, from its parameters that hold tensors.

    ``autograd``: only tensors count that may record how autograd came to them.  ``points`` are
    parameters with tensors of no dimensions.
    """

    def __init__(
        self,
        body: ast.FunctionDef,
        tensors: Collection[str],
        points: Collection[str] = (),
        *,
        autograd: bool,
    ) -> None:
        self.body = body
        self.autograd = autograd
        self.names = set(tensors)
        self.points = frozenset(points)
        before = -1
        while before < len(self.names):
            before = len(self.names)
            for node in ast.walk(body):
                self._follow(node)

    def shown(self) -> Iterator[ast.AST]:
        """Expressions whose text is shown and that may be tensors, or hold them."""
        for node in ast.walk(self.body):
            yield from (one for one in self._texts(node) if self.holds(one))

    def carried(self) -> Iterator[ast.AST]:
        """Arguments of the errors that are raised that may be tensors, or hold them."""
        for node in ast.walk(self.body):
            match node:
                case ast.Raise(exc=ast.Call(args=args, keywords=keywords)):
                    given = [*args, *(keyword.value for keyword in keywords)]
                    yield from (one for one in given if self.holds(one))
                case ast.Assert(msg=ast.expr() as message) if self.holds(message):
                    yield message

    # -- names -------------------------------------------------------------------------------

    def _follow(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=target, value=value):
                self._assign(target, value)
            case (
                ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source)
            ):
                self._bind(target, source)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=args):
                # `bad.append(x)`, which changes what the name holds
                if name not in self.names and any(map(self.holds, args)) and self._is_bound(name):
                    self.names.add(name)

    def _is_bound(self, name: str) -> bool:
        return any(
            isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)
            for part in ast.walk(self.body)
        )

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case (ast.Tuple(elts=names), ast.Tuple(elts=values)) if len(names) == len(values):
                for one, other in zip(names, values, strict=True):
                    self._assign(one, other)
            case _:
                if self.holds(value):
                    self._mark(target)

    def _mark(self, target: ast.expr) -> None:
        while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
            target = target.value
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                self.names.add(part.id)

    def _bind(self, target: ast.expr, source: ast.expr) -> None:
        """The targets of a loop over ``source``."""
        match source:
            case ast.Call(func=ast.Name(id="range")):
                return
            case ast.Call(func=ast.Name(id="zip"), args=sources):
                self._bind_each(target, sources)
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
                self._bind_each(target, [ast.Constant(""), inner])
            case ast.Call(func=ast.Attribute(value=inner, attr="items"), args=[]):
                self._bind_each(target, [ast.Constant(""), inner])
            case ast.Tuple(elts=rows) | ast.List(elts=rows) if are_rows(source, target):
                for row in rows:
                    self._assign(target, row)
            case _:
                if self.holds(source):
                    self._mark(target)

    def _bind_each(self, target: ast.expr, sources: Sequence[ast.expr]) -> None:
        match target:
            case ast.Tuple(elts=targets) if len(targets) == len(sources):
                for one, source in zip(targets, sources, strict=True):
                    self._bind(one, source)
            case _:
                if any(map(self.holds, sources)):
                    self._mark(target)

    # -- values ------------------------------------------------------------------------------

    def holds(self, node: ast.AST | None) -> bool:
        """Whether a value may be a tensor (that counts), or hold one."""
        match node:
            case None | ast.Constant() | ast.JoinedStr() | ast.Lambda():
                return False
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(value=value, attr=attr):
                return attr not in _PLAIN_ATTRIBUTES and self.holds(value)
            case ast.Subscript(value=value) | ast.Starred(value=value):
                return self.holds(value)
            case ast.UnaryOp(op=op, operand=operand):
                return not isinstance(op, ast.Not) and self.holds(operand)
            case ast.BinOp(left=left, op=ast.Mod()) if _is_text(left):
                return False
            case ast.Compare(ops=ops, left=left, comparators=others):
                plain = all(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in ops)
                return not self.autograd and not plain and any(map(self.holds, (left, *others)))
            case ast.IfExp(body=one, orelse=other):
                return self.holds(one) or self.holds(other)
            case ast.ListComp(elt=value) | ast.SetComp(elt=value) | ast.GeneratorExp(elt=value):
                return self.holds(value)
            case ast.DictComp(value=value):
                return self.holds(value)
            case ast.Call():
                return self._returns(node)
        return node is not None and any(
            self.holds(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
        )

    def _returns(self, node: ast.Call) -> bool:
        given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg != "key")]
        match node.func:
            case ast.Name(id=name) if name in _PLAIN_FUNCTIONS:
                return False
            case ast.Attribute(value=receiver, attr=attr):
                if attr in _PLAIN_METHODS or (self.autograd and attr in NO_GRADIENT):
                    return False
                return any(map(self.holds, (receiver, *given)))
        return any(map(self.holds, given))

    # -- texts -------------------------------------------------------------------------------

    def _texts(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node shows the texts of."""
        match node:
            case ast.FormattedValue(value=value, conversion=conversion):
                if conversion != -1 or not self._is_point(value):
                    yield value
            case ast.BinOp(left=left, op=ast.Mod(), right=right) if _is_text(left):
                template = left.value if isinstance(left, ast.Constant) else "%s"
                if SHOWS.search(str(template)):
                    yield right
            case ast.Call(func=ast.Name(id=name), args=args) if name in _TEXT_FUNCTIONS:
                yield from args
            case ast.Call(func=ast.Attribute(value=text, attr=attr), args=args) if (
                attr in _TEXT_METHODS
            ):
                # `format` makes a number of a tensor of no dimensions, as an f-string does.
                numbers = attr == "format" and _converts_nothing(text)
                given = [*args, *(keyword.value for keyword in node.keywords)]
                yield from (it for it in given if not (numbers and self._is_point(it)))
            case ast.Expr(value=ast.Call(args=args, keywords=keywords)):
                # An effect: a record of a log, a warning.
                yield from args
                yield from (keyword.value for keyword in keywords)

    def _is_point(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a tensor has no dimensions: ``format`` makes a number of it."""
        match node:
            case ast.Name(id=name):
                return name in self.points or (depth < 4 and self._is_bound_point(name, depth))
            case ast.Call(func=ast.Attribute(attr=attr), args=[], keywords=[]):
                return attr in _POINTS
            case ast.UnaryOp(operand=operand):
                return self._is_point(operand, depth)
            case ast.BinOp(left=left, right=right):
                parts = (left, right)
                return all(
                    isinstance(it, ast.Constant) or self._is_point(it, depth) for it in parts
                )
        return False

    def _is_bound_point(self, name: str, depth: int) -> bool:
        stores = [
            part
            for part in ast.walk(self.body)
            if isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)
        ]
        values = [
            line.value
            for line in ast.walk(self.body)
            if isinstance(line, ast.Assign) and line.targets[0] in stores
        ]
        return len(values) == len(stores) == 1 and self._is_point(values[0], depth + 1)


def are_rows(source: ast.expr, target: ast.expr) -> bool:
    """Whether each row has a value for each target: ``for name, x in (("a", x), ("b", y))``."""
    names = target.elts if isinstance(target, ast.Tuple) else []
    rows = source.elts if isinstance(source, ast.Tuple | ast.List) else []
    return bool(rows) and all(
        isinstance(row, ast.Tuple) and len(row.elts) == len(names) for row in rows
    )


def _converts_nothing(template: ast.expr) -> bool:
    """Whether a template shows what it is given as it is: neither ``{!r}`` nor ``{!s}``."""
    return isinstance(template, ast.Constant) and "!" not in str(template.value)


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left):
            return _is_text(left)
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
    return False
