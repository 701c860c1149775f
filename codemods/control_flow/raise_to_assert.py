"""``if bad.any(): raise ValueError("...")`` becomes a check that runs inside the graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import code
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from .branches import leading
from .layout import first_of_block, statement_line, wrap_in_if
from .predicates import split
from .refusal import Refusal
from .sites import depth_of, if_at
from .values import Values


class RaiseToAssert(Codemod):
    """Turns an ``if`` on tensor data that only raises into ``torch._assert_async``.

    **What it does**

    ``if bad.any(): raise ValueError("bad")`` becomes
    ``torch._assert_async(torch.logical_not(bad.any()), "bad")``.  Python parts of the test stay a
    Python ``if``.

    **When it applies**

    The body is one ``raise`` of an exception with at most one argument, a plain string; there is no
    ``else``; the test is a tensor of one element.

    **Fix safety**

    Always unsafe: a violation raises RuntimeError, whatever was raised before, and on a GPU later
    than before, through a device-side assertion.  A message is always given: torch 2.13 drops an
    assertion without one under aot_eager and inductor.

    **Refuses**

    Messages that are computed (they would have to be computed on every call); ``raise ... from``;
    a ``raise`` inside ``try``, whose handler may wait for it.
    """

    name = "raise-to-assert"
    codes = ("GB0170", "GB0088", "GB0033", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(x):
                # Reject NaN.
                if torch.isnan(x).any():
                    raise ValueError("x has NaN")
                return x + 1
            """,
            """
            import torch

            def f(x):
                # Reject NaN.
                torch._assert_async(torch.logical_not(torch.isnan(x).any()), "x has NaN")
                return x + 1
            """,
            at="torch.isnan(x).any()",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x, check):
                if check and not (x > 0).all():
                    raise RuntimeError('only positive inputs are supported by this function so far')
                return x + 1
            """,
            """
            import torch

            def f(x, check):
                if check:
                    torch._assert_async(
                        (x > 0).all(),
                        'only positive inputs are supported by this function so far',
                    )
                return x + 1
            """,
            at="(x > 0).all()",
            facts={"x": tensor(3), "check": scalar(True)},
        ),
        Example(
            """
            import torch

            def f(x):
                if x.sum() > 0: raise StopIteration
                return x + 1
            """,
            """
            import torch

            def f(x):
                torch._assert_async(torch.logical_not(x.sum() > 0), "StopIteration")
                return x + 1
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
    )
    near_misses = (
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    raise ValueError(f"sum is {x.sum()}")
                return x
            """,
            at="x.sum() > 0",
            why="the message is computed",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    raise ValueError("positive")
                else:
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="there is another branch",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x.zero_()
                    raise ValueError("positive")
                return x
            """,
            at="x.sum() > 0",
            why="the branch does more than raise",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                try:
                    if x.sum() > 0:
                        raise ValueError("positive")
                except ValueError:
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a handler waits for it",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, error):
                if x.sum() > 0:
                    raise ValueError("positive") from error
                return x
            """,
            at="x.sum() > 0",
            why="the cause would be lost",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, n):
                if n > 0:
                    raise ValueError("positive")
                return x
            """,
            at="n > 0",
            why="a Python value: this compiles as it is",
            facts={"x": tensor(3), "n": scalar(1)},
        ),
        NearMiss(
            """
            def f(x):
                if x > 0:
                    raise ValueError("positive")
                return x
            """,
            at="x > 0",
            why="the test has many elements",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    raise ValueError("positive", x)
                return x
            """,
            at="x.sum() > 0",
            why="the exception carries more than a message",
            facts={"x": tensor(3)},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None or node.orelse is not None:
            return
        if comments_in(node.test):
            return
        raised = _raised(node)
        if raised is None or _in_try(site, node):
            return
        try:
            yield _rewrite(site, node, *raised)
        except Refusal:
            return


def _rewrite(site: Site, node: cst.If, exception: str, message: str) -> Rewrite:
    values = Values(site)
    condition = split(node.test, values)
    if condition.joint == "or":
        raise Refusal("")
    depth = depth_of(site, node) + (1 if condition.python else 0)
    arguments = [_negated(condition.tensor, values.torch), message]
    line: cst.BaseStatement = statement_line(
        site, f"{values.torch}._assert_async", arguments, depth
    )
    if condition.python:
        line = wrap_in_if(condition.python, [line])
    above = [*leading(node), *(line for line in _comments_above_raise(node))]
    edit = site.edit()
    edit.replace(node, line.with_changes(leading_lines=above))
    if values.torch_missing:
        edit.add_import("torch")
    return edit.rewrite(
        "check inside the graph with torch._assert_async",
        safety=Safety.UNSAFE,
        notes=[
            f"A violation raises RuntimeError instead of {exception}, on a GPU later than before."
        ],
        rank=90,
        assumes=["exception-type-changes"],
    )


def _raised(node: cst.If) -> tuple[str, str] | None:
    """The exception's name and its message as source text, for a body that only raises."""
    match node.body:
        case cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Raise() as small]) as line]):
            if line.trailing_whitespace.comment or node.body.header.comment:
                return None
            if any(empty.comment for empty in node.body.footer):
                return None
        case cst.SimpleStatementSuite(body=[cst.Raise() as small]):
            if node.body.trailing_whitespace.comment:
                return None
        case _:
            return None
    if small.cause is not None or small.exc is None:
        return None
    exc = small.exc
    if isinstance(exc, cst.Name | cst.Attribute):
        return code(exc), f'"{code(exc)}"'
    match exc:
        case cst.Call(func=cst.Name() | cst.Attribute() as func, args=[]):
            return code(func), f'"{code(func)}"'
        case cst.Call(func=cst.Name() | cst.Attribute() as func, args=[arg]):
            plain = arg.keyword is None and not arg.star
            if plain and isinstance(arg.value, cst.SimpleString) and "b" not in arg.value.prefix:
                return code(func), code(arg.value)
    return None


def _comments_above_raise(node: cst.If) -> list[cst.EmptyLine]:
    if not isinstance(node.body, cst.IndentedBlock):
        return []
    return [line for line in leading(first_of_block(list(node.body.body))[0]) if line.comment]


def _negated(test: str, torch: str) -> str:
    """The text of ``not test``, without a double negation."""
    node = cst.parse_expression(test)
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="logical_not")), args=[arg]):
            if code(node.func) == f"{torch}.logical_not":
                return code(arg.value)
    return f"{torch}.logical_not({test})"


def _in_try(site: Site, node: cst.If) -> bool:
    return any(isinstance(outer, cst.Try | cst.TryStar) for outer in site.ancestors(node))
