"""Rewrites a program's syntax tree in memory to look inside it, or to steer one condition.

The instrumented program computes what the original computes: every expression is evaluated once,
in the same order, and handed to a recorder on its way.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from gbfix.forced_sizes import deciding_part
from gbfix.worker.protocol import Instrument

#: Names under which the hooks are reachable from any module (put into builtins by the job).
SEE = "__gbfix_see__"
LOCALS = "__gbfix_locals__"
TEST = "__gbfix_test__"
FORCE = "__gbfix_force__"
SIZE = "__gbfix_size__"
OBSERVE = "__gbfix_observe__"
HELD = "__gbfix_held__"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def transform(tree: ast.Module, instruments: Sequence[Instrument]) -> ast.Module:
    """Apply the instruments of one file; the tree is changed in place and returned."""
    seen: list[ast.AST] = []
    for item in instruments:
        if item.action == "facts":
            scope = _function_at(tree, item.line)
            if scope is not None and not any(_overlap(scope, other) for other in seen):
                seen.append(scope)
                _FactsVisitor(item.path, item.line).instrument(scope)
        elif item.action in ("force", "force-call"):
            _Force(item).visit(tree)
        elif item.action == "size":
            _Size(item).visit(tree)
        elif item.action == "observe":
            _observe(tree, item.qualname, item.value)
    return tree


def _function_at(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost ``def`` that covers the line."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _overlap(one: ast.AST, other: ast.AST) -> bool:
    """Whether one function stands in the other (or is it): what is instrumented is done once."""
    return any(node is other for node in ast.walk(one)) or any(
        node is one for node in ast.walk(other)
    )


def _call(name: str, *args: ast.expr, at: ast.AST) -> ast.Call:
    call = ast.Call(ast.Name(name, ast.Load()), list(args), [])
    for node in (call, call.func):
        ast.copy_location(node, at)
    return call


def _key(path: str, node: ast.AST) -> ast.Constant:
    """The place of a node, as a constant that the recorder splits again."""
    place = (
        path,
        getattr(node, "lineno", 0),
        getattr(node, "col_offset", 0),
        getattr(node, "end_lineno", 0),
        getattr(node, "end_col_offset", 0),
    )
    constant: Any = place  # the compiler takes tuples of constants, the stubs do not say so
    return ast.copy_location(ast.Constant(constant), node)


class _FactsVisitor(ast.NodeTransformer):
    """Hands each expression of one function to the recorder, and locals before each statement.

    Nested functions and lambdas may be traced (`torch.cond` compiles its branches even in eager):
    there, expressions alone are handed on, through a hook that Dynamo can trace.
    """

    def __init__(self, path: str, line: int) -> None:
        self._path = path
        self._line = line
        self._nested = 0

    def instrument(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        held = self._held(function)
        function.body = self._block(function.body)
        function.body[1 if ast.get_docstring(function) is not None else 0 : 0] = held

    def _held(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
        """Shows the recorder what ``self.a`` and ``self.a.b`` hold, read or not."""
        given = [*function.args.posonlyargs, *function.args.args]
        if not given or given[0].arg != "self":
            return []
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
        set_here = {ast.unparse(it) for it in nodes if not isinstance(it.ctx, ast.Load)}
        places: Any = tuple(
            (names, _key(self._path, node).value)
            for node in nodes
            if (names := _names_of(node))
            and not any(".".join(["self", *names[: n + 1]]) in set_here for n in range(len(names)))
        )
        if not places:
            return []
        at = function.body[0]
        probe = _call(
            HELD,
            ast.copy_location(ast.Constant(places), at),
            ast.copy_location(ast.Name("self", ast.Load()), at),
            at=at,
        )
        return [ast.copy_location(ast.Expr(probe), at)]

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for index, statement in enumerate(body):
            is_docstring = (
                index == 0
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
            )
            plain = not isinstance(statement, ast.Global | ast.Nonlocal)
            if plain and not is_docstring and not self._nested:
                probe = _call(
                    LOCALS,
                    _key(self._path, statement),
                    _call("locals", at=statement),
                    at=statement,
                )
                result.append(ast.copy_location(ast.Expr(probe), statement))
            result.append(statement if is_docstring else self._statement(statement))
        return result

    def _statement(self, statement: ast.stmt) -> ast.stmt:
        if isinstance(statement, ast.ClassDef):
            return statement
        inner = isinstance(statement, _FUNCTIONS)
        self._nested += inner
        try:
            return self._parts(statement)
        finally:
            self._nested -= inner

    def _parts(self, statement: ast.stmt) -> ast.stmt:
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, field, self._block(value))
            elif isinstance(value, list):
                setattr(statement, field, [self._any(item) for item in value])
            elif isinstance(value, ast.AST):
                if field in ("annotation", "returns"):
                    continue
                setattr(statement, field, self._any(value))
        if isinstance(statement, ast.If | ast.While):
            statement.test = self._test(statement.test)
        return statement

    def _any(self, node: object) -> object:
        if isinstance(node, ast.expr):
            return self._expression(node)
        if isinstance(node, ast.ExceptHandler):
            if node.type is not None:
                node.type = self._expression(node.type)
            node.body = self._block(node.body)
        elif isinstance(node, ast.match_case):
            node.body = self._block(node.body)
            if node.guard is not None:
                node.guard = self._expression(node.guard)
        elif isinstance(node, ast.withitem):
            node.context_expr = self._expression(node.context_expr)
        elif isinstance(node, ast.keyword):
            node.value = self._expression(node.value)
        elif isinstance(node, ast.comprehension):
            node.iter = self._expression(node.iter)
            node.ifs = [self._expression(test) for test in node.ifs]
        elif isinstance(node, ast.arguments):
            node.defaults = [self._expression(item) for item in node.defaults]
            node.kw_defaults = [item and self._expression(item) for item in node.kw_defaults]
        return node

    def _expression(self, node: ast.expr) -> ast.expr:
        original = ast.copy_location(ast.Constant(None), node)
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.FormattedValue):
            return self._inside(node) if not isinstance(node, ast.Constant) else node
        node = self._inside(node)
        context = getattr(node, "ctx", None)
        if isinstance(context, ast.Store | ast.Del):
            return node
        if isinstance(node, ast.Starred | ast.Slice | ast.Lambda | ast.Await):
            return node
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.GeneratorExp):
            return node
        if _is_bare_super(node):
            return node
        return _call(SEE, _key(self._path, original), node, at=original)

    def _inside(self, node: ast.expr) -> ast.expr:
        """Instrument the parts of an expression; the expression itself stays."""
        inner = isinstance(node, ast.Lambda)
        self._nested += inner
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, field, [self._any(item) for item in value])
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                setattr(node, field, self._any(value))
        self._nested -= inner
        if isinstance(node, ast.IfExp):
            node.test = self._test(node.test)
        return node

    def _test(self, test: ast.expr) -> ast.expr:
        if self._nested:
            return test
        place = test
        inner = test
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == SEE:
            place, inner = test.args[0], test.args[-1]
        if isinstance(inner, ast.BoolOp):
            inner.values = [
                _call(TEST, _end_key(self._path, part), part, at=part) for part in inner.values
            ]
        return _call(TEST, _key(self._path, place), test, at=place)


def _names_of(node: ast.Attribute) -> tuple[str, ...]:
    """``("config", "size")`` of ``self.config.size``."""
    match node:
        case ast.Attribute(value=ast.Name("self"), attr=name):
            return (name,)
        case ast.Attribute(value=ast.Attribute(value=ast.Name("self"), attr=first), attr=second):
            return (first, second)
    return ()


def _end_key(path: str, node: ast.AST) -> ast.Constant:
    """The end of a part of a test, as a place: the first part begins where the test does."""
    end = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
    place: Any = (path, *end, *end)
    return ast.copy_location(ast.Constant(place), node)


def _is_bare_super(node: ast.expr) -> bool:
    # Zero-argument super() looks at its caller's frame: handing on the *result* is fine, but the
    # name itself must stay a plain name.
    return isinstance(node, ast.Name) and node.id in ("super", "locals", "vars", "dir", "eval")


class _AtPlace(ast.NodeTransformer):
    """Changes the expression at one position."""

    def __init__(self, item: Instrument) -> None:
        self._item = item

    def _here(self, node: ast.AST) -> bool:
        item = self._item
        start = (getattr(node, "lineno", -1), getattr(node, "col_offset", -1))
        end = (getattr(node, "end_lineno", -1), getattr(node, "end_col_offset", -1))
        return start == (item.line, item.column) and end == (item.end_line, item.end_column)


class _Force(_AtPlace):
    """Replaces the truth of the expression at one position, after evaluating it."""

    def visit(self, node: ast.AST) -> ast.AST:
        if not self._here(node) or not isinstance(node, ast.expr):
            return super().visit(node)  # type: ignore[no-any-return]
        value = ast.copy_location(ast.Constant(self._item.value), node)
        if self._item.action == "force":
            return _call(FORCE, node, value, at=node)
        if isinstance(node, ast.Call) and node.args:
            node.args[0] = _call(FORCE, node.args[0], value, at=node.args[0])
            return node
        return super().visit(node)  # type: ignore[no-any-return]


class _Size(_AtPlace):
    """Lets the number, or the selection, at one position come out as 0 or as 1."""

    def visit(self, node: ast.AST) -> ast.AST:
        if not self._here(node) or not isinstance(node, ast.expr):
            return super().visit(node)  # type: ignore[no-any-return]
        found = deciding_part(node)
        if found is None:
            return super().visit(node)  # type: ignore[no-any-return]
        holder, field, part, kind = found
        given = [ast.copy_location(ast.Constant(each), part) for each in (kind, self._item.value)]
        call = _call(SIZE, part, *given, at=part)
        if field == "args":
            holder.args[holder.args.index(part)] = call  # type: ignore[attr-defined]
        else:
            setattr(holder, field, call)
        return node


def _observe(tree: ast.Module, qualname: str, bound: bool) -> None:
    """Decorate a function (outermost) so that its calls are recorded like a region's."""
    body: Sequence[ast.stmt] = tree.body
    *classes, name = qualname.split(".")
    for part in classes:
        found = [n for n in body if isinstance(n, ast.ClassDef) and n.name == part]
        if not found:
            return
        body = found[-1].body
    for node in body:
        if isinstance(node, _FUNCTIONS) and node.name == name:
            given = [ast.copy_location(ast.Constant(item), node) for item in (qualname, bound)]
            node.decorator_list.insert(0, _call(OBSERVE, *given, at=node))
