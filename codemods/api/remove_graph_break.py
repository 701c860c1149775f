"""Calls that break the graph on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Span

from .splice import Splice

_BREAKERS = frozenset(
    f"torch._dynamo.{home}{name}"
    for home in ("", "decorators.")
    for name in ("graph_break", "skip_frame", "step_unsupported")
) | {"torch._dynamo.comptime.comptime.graph_break"}
_X = tensor(3)


class RemoveGraphBreak(Codemod):
    """*What it does.*  Removes ``torch._dynamo.graph_break()``, ``skip_frame()``,
    ``step_unsupported()`` and ``comptime.graph_break()``.

    These functions have an empty body: outside of a trace they do nothing and give None.  A
    statement that is such a call goes; an ``if`` that held nothing else goes with it where its test
    has no effect and cannot fail; so does a nested function that held nothing else, with its calls.
    Any other block left empty gets ``pass``.  Where the value is used, it becomes ``None``.

    *When it applies.*  The call resolves to one of these functions through the file's imports,
    wherever it stands: in a loop, a ``with``, a ``try``, a nested function.

    *Fix safety.*  Safe: the eager program does exactly the same.  Whatever the break was meant to
    keep out of one graph is now traced, which validation measures.

    *Refuses.*  Names that the file binds to something else, and calls whose arguments have effects.
    """

    name = "remove-graph-break"
    codes = ("GB0025", "GB4297", "GB0284", "GB4636", "GB0066", "GB0142", "GB0030")

    examples = (
        Example(
            title="a break while compiling",
            before="""
            from torch._dynamo.comptime import comptime


            def f(x):
                comptime.graph_break()
                return x + 1
            """,
            after="""
            from torch._dynamo.comptime import comptime


            def f(x):
                return x + 1
            """,
            at="comptime.graph_break()",
            code="GB0030",
        ),
        Example(
            title="a loop",
            before="""
            import torch

            @torch.compile
            def fn(x):
                for i in range(5):
                    x = x + 1
                    if i == 3:
                        torch._dynamo.graph_break()
                return x
            """,
            after="""
            import torch

            @torch.compile
            def fn(x):
                for i in range(5):
                    x = x + 1
                return x
            """,
            at="torch._dynamo.graph_break()",
            facts={"x": _X, "i": scalar(3)},
        ),
        Example(
            title="the unrolled loop",
            before="""
            import torch

            @torch.compile
            def fn(x):
                def inner(i):
                    nonlocal x
                    x = x + 1
                    if i == 3:
                        torch._dynamo.graph_break()
                inner(0)
                inner(1)
                return x
            """,
            after="""
            import torch

            @torch.compile
            def fn(x):
                def inner(i):
                    nonlocal x
                    x = x + 1
                inner(0)
                inner(1)
                return x
            """,
            at="torch._dynamo.graph_break()",
            facts={"i": scalar(3)},
        ),
        Example(
            title="a context manager; comments stay",
            before="""
            import torch

            def fn(x):
                with CustomCtxManager():
                    x = x + 1  # one
                    # two
                    torch._dynamo.graph_break()  # gone
                    # three
                    return x + 1
            """,
            after="""
            import torch

            def fn(x):
                with CustomCtxManager():
                    x = x + 1  # one
                    # two
                    # three
                    return x + 1
            """,
            at="torch._dynamo.graph_break()",
        ),
        Example(
            title="nested context managers",
            before="""
            import contextlib
            import torch

            @torch.compile
            def fn(x):
                with contextlib.nullcontext():
                    with torch.no_grad():
                        x = x + 1
                        torch._dynamo.graph_break()
                        return x + 1
            """,
            after="""
            import contextlib
            import torch

            @torch.compile
            def fn(x):
                with contextlib.nullcontext():
                    with torch.no_grad():
                        x = x + 1
                        return x + 1
            """,
            at="torch._dynamo.graph_break()",
        ),
        Example(
            title="a try",
            before="""
            import torch

            def fn(x):
                try:
                    x = x + 1
                    torch._dynamo.graph_break()
                    return x + 1
                except Exception as e:
                    pass
            """,
            after="""
            import torch

            def fn(x):
                try:
                    x = x + 1
                    return x + 1
                except Exception as e:
                    pass
            """,
            at="torch._dynamo.graph_break()",
        ),
        Example(
            title="skip_frame",
            before="""
            import torch

            def fn(x):
                x = inner1(x)
                torch._dynamo.skip_frame()
                x = inner2(x)
            """,
            after="""
            import torch

            def fn(x):
                x = inner1(x)
                x = inner2(x)
            """,
            at="torch._dynamo.skip_frame()",
            code="GB4297",
        ),
        Example(
            title="a nested function that holds nothing else",
            before="""
            import torch

            def fn(x):
                x = inner1(x)
                def problematic_code():
                    torch._dynamo.skip_frame()
                problematic_code()
                x = inner2(x)
                if x is None:
                    problematic_code()
            """,
            after="""
            import torch

            def fn(x):
                x = inner1(x)
                x = inner2(x)
            """,
            at="torch._dynamo.skip_frame()",
            code="GB4297",
        ),
        Example(
            title="an import under another name",
            before="""
            from torch._dynamo import graph_break as stop, config

            def fn(x): x = x + 1; stop("why"); return x
            """,
            after="""
            from torch._dynamo import graph_break as stop, config

            def fn(x): x = x + 1; return x
            """,
            at='stop("why")',
        ),
        Example(
            title="the last of a line",
            before="""
            import torch._dynamo as dynamo

            def fn(x):
                y = x + 1; dynamo.graph_break()
                return y
            """,
            after="""
            import torch._dynamo as dynamo

            def fn(x):
                y = x + 1
                return y
            """,
            at="dynamo.graph_break()",
        ),
        Example(
            title="a test that may fail or has an effect stays",
            before="""
            import torch

            def fn(x, xs):
                if xs.pop():
                    torch._dynamo.graph_break()
                return x
            """,
            after="""
            import torch

            def fn(x, xs):
                if xs.pop():
                    pass
                return x
            """,
            at="torch._dynamo.graph_break()",
        ),
        Example(
            title="branches",
            before="""
            import torch

            def fn(x, n):
                if n == 1:
                    x = x + 1
                elif n == 2:
                    torch._dynamo.graph_break()
                else:
                    x = x - 1
                return x
            """,
            after="""
            import torch

            def fn(x, n):
                if n == 1:
                    x = x + 1
                elif n == 2:
                    pass
                else:
                    x = x - 1
                return x
            """,
            at="torch._dynamo.graph_break()",
            facts={"n": scalar(2)},
        ),
        Example(
            title="a function of its own",
            before="""
            import torch

            def stop():
                torch._dynamo.graph_break(msg="here")

            @torch.compile
            def fn(x):
                stop()
                return x
            """,
            after="""
            import torch

            def stop():
                pass

            @torch.compile
            def fn(x):
                stop()
                return x
            """,
            at='torch._dynamo.graph_break(msg="here")',
        ),
        Example(
            title="a value that is used",
            before="""
            import torch

            def fn(x):
                y = (torch._dynamo.graph_break())
                return x, y
            """,
            after="""
            import torch

            def fn(x):
                y = None
                return x, y
            """,
            at="torch._dynamo.graph_break()",
        ),
    )
    near_misses = (
        NearMiss(
            """
            import mytools as torch

            def fn(x):
                torch._dynamo.graph_break()
                return x
            """,
            at="torch._dynamo.graph_break()",
            why="another module's function",
        ),
        NearMiss(
            """
            import torch

            def fn(x, torch):
                torch._dynamo.graph_break()
                return x
            """,
            at="torch._dynamo.graph_break()",
            why="a parameter hides the module",
        ),
        NearMiss(
            """
            import torch

            def fn(x, log):
                torch._dynamo.graph_break(log.pop())
                return x
            """,
            at="torch._dynamo.graph_break(log.pop())",
            why="the argument has an effect",
        ),
        NearMiss(
            """
            from torch._dynamo import graph_break

            def fn(x):
                return graph_break
            """,
            at="graph_break",
            nth=1,
            why="not called here",
        ),
        NearMiss(
            """
            from torch._dynamo import graph_break

            def graph_break(x):
                return x

            def fn(x):
                return graph_break(x)
            """,
            at="graph_break(x)",
            nth=1,
            why="defined anew",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        call = _breaking_call(site)
        if call is None:
            return
        splice = Splice(site)
        expr = site.parent(call)
        if isinstance(expr, cst.Expr):
            _remove(site, splice, expr)
        else:
            splice.replace(call, "None")
        what = site.text(call.func).rpartition(".")[2]
        yield splice.rewrite(
            f"remove the call of `{what}`, which does nothing in eager",
            notes=("someone put this break here on purpose; what it kept apart is traced now",),
            rank=10,
        )


def _breaking_call(site: Site) -> cst.Call | None:
    """The call at the site, or the only such call in the statement at the site."""
    calls = [node for node in walk(site.node) if isinstance(node, cst.Call) and _breaks(site, node)]
    if isinstance(site.node, cst.BaseCompoundStatement) or len(calls) != 1:
        return None
    return calls[0]


def _breaks(site: Site, call: cst.Call) -> bool:
    if resolve(site.module, call.func) not in _BREAKERS:
        return False
    return all(effects_of(arg.value, site.fact).pure and not arg.star for arg in call.args)


def _remove(site: Site, splice: Splice, expr: cst.Expr) -> None:
    """Remove the statement and what only served it."""
    removed = _with_what_becomes_empty(site, expr)
    outermost = [node for node in removed if not any(p in removed for p in site.ancestors(node))]
    for node in outermost:
        block = site.block_of(node)
        remaining = [other for other in block if other not in removed]
        if remaining:
            _drop(site, splice, node, block)
        elif node is block[0]:
            splice.replace_span(_end_of_text(site, node), "pass")
        else:
            _drop(site, splice, node, block)


def _with_what_becomes_empty(site: Site, expr: cst.Expr) -> set[cst.CSTNode]:
    removed: set[cst.CSTNode] = {expr}
    pending: list[cst.CSTNode] = [expr]
    while pending:
        node = pending.pop()
        if any(other not in removed for other in site.block_of(node)):
            continue
        owner = site.parent(node)
        if isinstance(owner, cst.SimpleStatementLine):
            more: list[cst.CSTNode] = [owner]
        elif owner is None:
            continue
        else:
            more = _goes_with_its_body(site, owner)
        for other in more:
            if other not in removed:
                removed.add(other)
                pending.append(other)
    return removed


def _goes_with_its_body(site: Site, block: cst.CSTNode) -> list[cst.CSTNode]:
    """What may go when everything in the block goes: the statement around it, calls of it."""
    owner = site.parent(block)
    if owner is None or comments_in(block):
        return []
    if isinstance(owner, cst.If):
        is_elif = isinstance(site.parent(owner), cst.If)
        alone = owner.orelse is None and not is_elif
        return [owner] if alone and effects_of(owner.test, site.fact).total else []
    if isinstance(owner, cst.FunctionDef):
        return _nested_function_and_calls(site, owner)
    return []


def _nested_function_and_calls(site: Site, function: cst.FunctionDef) -> list[cst.CSTNode]:
    around = site.function_of(function)
    plain = not (function.decorators or function.asynchronous or function.type_parameters)
    if around is None or not plain or site.text(function.params).strip():
        return []
    calls: list[cst.CSTNode] = []
    for node in walk(around):
        if not isinstance(node, cst.Name) or node.value != function.name.value:
            continue
        if node is function.name:
            continue
        call = site.parent(node)
        statement = site.parent(call) if isinstance(call, cst.Call) and not call.args else None
        if not isinstance(statement, cst.Expr) or site.function_of(statement) is not around:
            return []
        calls.append(statement)
    return [function, *calls]


def _drop(site: Site, splice: Splice, node: cst.CSTNode, block: Sequence[cst.CSTNode]) -> None:
    """Take a statement out of a block in which others stay."""
    if isinstance(node, cst.BaseStatement):
        splice.delete_lines(node)
        return
    index = list(block).index(node)
    own = site.span(node)
    if index + 1 < len(block):
        following = site.span(block[index + 1])
        span = Span(own.line, own.column, following.line, following.column)
    else:
        previous = site.span(block[index - 1])
        span = Span(previous.end_line, previous.end_column, own.end_line, own.end_column)
    splice.replace_span(span, "")


def _end_of_text(site: Site, node: cst.CSTNode) -> Span:
    """The statement's span; of a line, the small statements without the comment behind them."""
    statements = statements_of(node) if isinstance(node, cst.SimpleStatementLine) else (node,)
    first, last = site.span(statements[0]), site.span(statements[-1])
    return Span(first.line, first.column, last.end_line, last.end_column)
