"""``for`` over as many rounds as a tensor says, or to many, becomes ``torch.while_loop``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from .branches import branch_of
from .looping import rewrite_loop
from .membership import WHOLE
from .predicates import scalar_read
from .refusal import Refusal
from .scalars import scalars
from .sites import if_at, surely_without_gradients
from .texts import number_of
from .values import Values
from .while_body import round_of

_IDS = tensor(4, dtype="torch.int64")
_N = tensor(dtype="torch.int64")

#: Up to so many rounds that data may end, a graph of them all is quick to compile.
MANY = 64
#: Statements in all rounds together that a graph may hold, before it is too long to compile.
TOO_MANY = 2000


class RangeToLoop(Codemod):
    """Turns ``for i in range(int(t))`` into ``torch.while_loop``.

    **What it does**

    The body becomes a function of what goes from one iteration to the next, and of the counter,
    which is a tensor; the loop goes on while that is below the bound.  The bound is the tensor, not
    the number that was read from it.

    **When it applies**

    The bound is an integer tensor without dimensions, read by ``int``, ``.item()`` or ``range``;
    the body is tensor code without effects, and uses the counter for arithmetic with tensors.
    Also a ``for`` of more than 64 iterations that Python counts and a ``break`` on data ends
    (Newton's method, say), where the text turns gradients off: a graph of all iterations would take
    long to compile.  With gradients, `loop-to-bound` is tried first for loops of up to 2,000
    statements in all iterations together.

    **Fix safety**

    As ``while-to-loop``: where no iteration runs, the results are copies, and gradients of floating
    tensors are made safe by ``torch.where``, or the patch is unsafe.

    **Refuses**

    What ``while-to-loop`` refuses; a counter that is an index, or is used after the loop; steps
    other than one; bounds that are computed from the number, or are used in the body.
    """

    name = "range-to-loop"
    codes = ("GB0124", "GB0059", "GB0170", "data-dependent-guard", "data-dependent-specialization")
    examples = (
        Example(
            """
            import torch

            def f(ids, n):
                # As often as it says.
                for _ in range(int(n)):
                    ids = ids * 2 + 1
                return ids - 1
            """,
            """
            import torch

            def f(ids, n):
                rounds = torch.as_tensor(n, dtype=torch.int64)

                # As often as it says.
                def step(i, ids):
                    ids = ids * 2 + 1
                    return i + 1, ids

                _, ids = torch.while_loop(
                    lambda i, ids: i < rounds,
                    step,
                    (torch.tensor(0, device=ids.device), ids),
                )
                return ids - 1
            """,
            at="int(n)",
            facts={"ids": _IDS, "n": _N},
        ),
        Example(
            """
            import torch

            def f(x, lengths):
                for i in range(1, lengths.max().item()):
                    x = x + i
                return x * 2
            """,
            """
            import torch

            def f(x, lengths):
                rounds = lengths.max()

                def step(i, x):
                    x = x + i
                    return i + 1, x

                runs = 1 < rounds
                first_x = x
                _, x = torch.while_loop(
                    lambda i, x: i < rounds,
                    step,
                    (torch.tensor(1, device=x.device), x),
                )
                x = torch.where(runs, x, first_x)
                return x * 2
            """,
            at="lengths.max().item()",
            facts={"x": tensor(3), "lengths": _IDS, "i": scalar(1, constant=False)},
        ),
        Example(
            """
            import torch

            def f(ids):
                n = (ids > 2).sum().item()
                for _ in range(n):
                    ids = ids - 1
                return ids * 2
            """,
            """
            import torch

            def f(ids):
                n = (ids > 2).sum()

                def step(i, ids):
                    ids = ids - 1
                    return i + 1, ids

                _, ids = torch.while_loop(
                    lambda i, ids: i < n,
                    step,
                    (torch.tensor(0, device=ids.device), ids),
                )
                return ids * 2
            """,
            at="range(n)",
            facts={"ids": _IDS, "n": scalar(2), "(ids > 2).sum()": _N},
        ),
        Example(
            """
            import torch

            @torch.no_grad()
            def f(matrix, limit, steps=100):
                y = matrix / 2
                gap = torch.ones(())
                for _ in range(steps):
                    new = y * (2 - matrix @ y)
                    gap = (new - y).norm()
                    y = new * 1.0
                    if gap < limit:
                        break
                return y, gap
            """,
            """
            import torch

            @torch.no_grad()
            def f(matrix, limit, steps=100):
                y = matrix / 2
                gap = torch.ones(())

                def step(i, gap, y, done):
                    new = y * (2 - matrix @ y)
                    gap = (new - y).norm()
                    y = new * 1.0
                    done = gap < limit
                    return i + 1, gap, y, done

                _, gap, y, _ = torch.while_loop(
                    lambda i, gap, y, done: torch.logical_not(done) & (i < steps),
                    step,
                    (
                        torch.tensor(0, device=gap.device),
                        gap,
                        y,
                        torch.tensor(False, device=gap.device),
                    ),
                )
                return y, gap
            """,
            at="gap < limit",
            facts={
                "matrix": tensor(3, 3),
                "y": tensor(3, 3),
                "new": tensor(3, 3),
                "gap": tensor(),
                "limit": scalar(1e-4),
                "steps": scalar(100),
            },
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(ids, x, n, t, b, g):
                out = []
                for i in {over}:
                    {body}
                {rest}
            """,
            at=over,
            why=why,
            facts={
                "ids": _IDS,
                "x": tensor(3),
                "n": _N,
                "t": tensor(),
                "b": tensor(1, dtype="torch.int64"),
                "i": scalar(1, constant=False),
                "out": scalar(None),
            },
        )
        for over, body, rest, why in (
            ("range(int(t))", "ids = ids * 2", "return ids", "int cuts a float off, and NaN fails"),
            ("range(int(n) // 2)", "ids = ids * 2", "return ids", "arithmetic of Python"),
            ("range(0, int(n), 2)", "ids = ids * 2", "return ids", "steps of two"),
            ("range(int(b))", "ids = ids * 2", "return ids", "a bound with a dimension"),
            ("g(int(n))", "ids = ids * 2", "return ids", "not known to be range"),
            ("range(int(n))", "ids = ids * 2", "return ids * i", "the counter is used afterwards"),
            ("range(int(n))", "i = i + 1; ids = ids * i", "return ids", "the counter is bound"),
            ("range(int(n))", "x = x + ids[i]", "return x", "the counter is an index"),
            ("range(int(n))", "x = x * (i * 0.1)", "return x", "Python multiplies in double"),
            ("range(int(n))", "x = x ** i", "return x", "a power of a number is not a tensor's"),
            ("range(int(n))", "out.append(ids * 2)", "return out", "a list grows"),
            ("range(int(n))", "ids.add_(1)", "return ids", "the caller's tensor is changed"),
            ("range(int(n))", "ids = g(ids)", "return ids", "it is not known what the body does"),
            ("range(int(n))", "x = x + torch.rand(3)", "return x", "the body draws random numbers"),
            ("range(int(n))", "return ids", "return x", "the body leaves the function"),
            ("range(int(n))", "y = ids * 2", "return y", "bound only where the loop runs"),
        )
    ) + tuple(
        NearMiss(
            f"""
            import torch

            {decorator}
            def f(x, limit, steps, out):
                last = torch.ones(())
                for i in range(steps):
                    {line}
                    if x.max() < limit:
                        break
                return x, last
            """,
            at="x.max() < limit",
            why=why,
            facts={
                "x": tensor(3),
                "last": tensor(),
                "limit": scalar(0.1),
                "steps": scalar(steps),
                "out": scalar(None),
            },
        )
        for decorator, steps, line, why in (
            ("@torch.no_grad()", 64, "x = x * 0.5", "few rounds are quick to compile as they are"),
            ("@torch.jit.ignore", 900, "x = x * 0.5", "gradients: the rounds are unrolled"),
            ("@torch.no_grad()", 900, "x = x * 0.5; steps = steps - 1", "the bound is bound anew"),
            ("@torch.no_grad()", 900, "x = x * 0.5; out.append(x)", "a list grows"),
            ("@torch.no_grad()", 900, "x = x * 0.5 ** i", "a power of a number is no tensor's"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = _for_at(site)
        if node is None or site.function is None:
            return
        try:
            rewrite = _rewrite(site, node, site.function)
            if rewrite is not None:
                yield rewrite
        except Refusal as refusal:
            line = site.span(node).line
            yield Advice(f"torch.while_loop does not fit the `for` on line {line}: {refusal}.")


def _for_at(site: Site) -> cst.For | None:
    """The ``for`` over a ``range`` whose bound broke, or a test before its ``break``."""
    stop = if_at(site)
    if stop is not None:
        block = site.parent(stop)
        loop = None if block is None else site.parent(block)
        if not isinstance(loop, cst.For) or loop.body is not block or not exits([stop]).breaks:
            return None
        return loop if _goes_over_range(site, loop.iter) else None
    child: cst.CSTNode = site.node
    if isinstance(child, cst.For):
        child = child.iter
    while isinstance(child, cst.BaseExpression | cst.Arg):
        parent = site.parent(child)
        if isinstance(parent, cst.For) and child is parent.iter:
            return parent if _goes_over_range(site, child) else None
        if not isinstance(parent, cst.CSTNode):
            return None
        child = parent
    return None


def _goes_over_range(site: Site, over: cst.CSTNode) -> bool:
    return isinstance(over, cst.Call) and resolve(site.module, over.func) == "builtins.range"


def _rewrite(site: Site, node: cst.For, function: cst.FunctionDef) -> Rewrite | None:
    """The rewrite; None where few rounds are left to other codemods."""
    values = Values(site)
    start, bound = _arguments(node)
    inside = activity(node.body)
    reads = scalars(site, node, values, {})
    counted = not reads and if_at(site) is not None
    number = _number(bound, inside, values) if counted else None
    if number is not None:
        rounds_ = number - int(start)
        size = rounds_ * len(branch_of(node.body).statements)
        graded = not surely_without_gradients(site, node)
        if rounds_ <= MANY or (graded and size <= TOO_MANY):
            return None
    for read in reads:
        if read.number in inside.reads:
            raise Refusal(f"`{read.number}` is used as a number in the body")
    text = code(bound) if number is not None else _bound(bound, values)
    round_ = round_of(node)
    taken = names_in(site.module)
    if not isinstance(node.target, cst.Name):
        raise Refusal("its target is no name")
    counter = node.target.value if node.target.value != "_" else fresh("i", taken)
    kept = number is not None or (text.isidentifier() and text not in inside.bound)
    rounds = text if kept else fresh("rounds", taken)
    if not kept:
        first = cst.parse_statement(f"{rounds} = {text}")
    numbered = number is not None
    round_ = dataclasses.replace(
        round_, counter=counter, start=start, stop=rounds, numbered=numbered
    )
    return rewrite_loop(site, node, function, round_, values, [] if kept else [first], reads)


def _number(bound: cst.BaseExpression, inside: Activity, values: Values) -> int | None:
    """How many rounds a loop had that Python counts; many, where calls differ in it."""
    match bound:
        case cst.Integer():
            return int(bound.evaluated_value)
        case cst.Name(value=name) if name not in inside.bound:
            fact = values.outside(name)
        case cst.Attribute(value=cst.Name()):
            fact = values.fact(bound)
        case _:
            return None
    if fact is None or fact.kind != "int":
        return None
    return fact.value if isinstance(fact.value, int) else MANY + 1


def _arguments(node: cst.For) -> tuple[str, cst.BaseExpression]:
    """The text of the number to start at, and the bound."""
    assert isinstance(node.iter, cst.Call)
    arguments = node.iter.args
    if node.asynchronous is not None or any(arg.star or arg.keyword for arg in arguments):
        raise Refusal("it is not known what the loop iterates over")
    match [arg.value for arg in arguments]:
        case [bound]:
            return "0", bound
        case [start, bound] if isinstance(number_of(start), int):
            return code(start), bound
    raise Refusal("its `range` does not start at a fixed number and go up by one")


def _bound(node: cst.BaseExpression, values: Values) -> str:
    """The text of the tensor that is read for the bound, or `Refusal`."""
    read = scalar_read(node, values)
    if read is None and not values.is_tensor(node):
        raise Refusal(f"it is not known which tensor `{code(node)}` is read from")
    whole = node if read is None else read.tensor
    fact = values.fact(whole)
    if fact is None or fact.shape != () or fact.dtype not in WHOLE - {"torch.bool"}:
        raise Refusal(f"`{code(whole)}` is not known to be one whole number")
    if any(isinstance(inner, cst.NamedExpr) for inner in walk(node)):
        raise Refusal("its bound binds a name")
    return code(node) if read is None else read.text
