"""``while`` on tensor data becomes ``torch.while_loop``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from .branches import branch_of, check_movable, finish, holds_comment, leading, names_bound
from .closures import captured_for_later
from .counters import as_tensors, check_counter, tensor_of
from .layout import spaced, statement_line
from .masked import Line
from .predicates import Refusal, is_data_dependent, operand, split
from .sites import depth_of, if_at, without_gradients
from .surroundings import SEVERAL, check_later_changes, is_one_of_several
from .uses import is_private
from .vain import each_on_its_own, zero_stays_zero
from .values import Values
from .while_body import Round, round_of

#: Dtypes of tensors that have no gradients.
EXACT_DTYPES = ("torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64")


_OUT = 16 * " "
_IN = 20 * " "


class WhileToLoop(Codemod):
    """Turns a ``while`` that repeats until tensor data says otherwise into ``torch.while_loop``.

    **What it does**

    The test and the body become functions of what goes from one round to the next; other names are
    closed over.  A ``break`` or ``continue`` behind a test becomes a flag, and what follows it in
    the round keeps its old value with ``torch.where``; so does what stands in an ``if``.  A Python
    counter, or a float that literals change, becomes a tensor.

    **When it applies**

    The test is a tensor of one element, or the loop is ``while True`` with one ``if test: break``
    in its own block; the body is tensor code without effects, and rebinds tensors and numbers.

    **Fix safety**

    Where the loop ends at once, the results are copies of what they were; the backward of torch
    2.13 would run the body once even then, so ``torch.where`` takes what stood before the loop.
    Unsafe where a derivative of the body may not be finite (a zero gradient becomes NaN then), and
    beside another ``torch.cond`` or ``torch.while_loop`` where gradients are needed.

    **Refuses**

    ``return``, jumps deeper in the body, ``else`` beside ``break``; numbers that are used for more
    than counting, in the loop or after it; operations behind a test that may fail; changes in
    place, random numbers, prints, and calls whose body is not seen.
    """

    name = "while-to-loop"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(x, limit):
                steps = torch.zeros(())
                # Halve until it fits.
                while x.abs().max() > limit:
                    half = x * 0.5  # exact
                    x = half - 0.0
                    steps = steps + 1
                return x, steps
            """,
            """
            import torch

            def f(x, limit):
                steps = torch.zeros(())

                # Halve until it fits.
                def step(x, steps):
                    half = x * 0.5  # exact
                    x = half - 0.0
                    steps = steps + 1
                    return x, steps

                runs = x.abs().max() > limit
                first_x = x
                first_steps = steps
                x, steps = torch.while_loop(
                    lambda x, steps: x.abs().max() > limit,
                    step,
                    (x, steps),
                )
                x = torch.where(runs, x, first_x)
                steps = torch.where(runs, steps, first_steps)
                return x, steps
            """,
            at="x.abs().max() > limit",
            facts={"x": tensor(3), "steps": tensor(), "limit": scalar(1.0)},
        ),
        Example(
            """
            import torch

            def f(x):
                while (x > 1).any():
                    x = x - 1
                return x
            """,
            """
            import torch

            def f(x):

                def step(x):
                    x = x - 1
                    return (x,)

                runs = (x > 1).any()
                first_x = x
                (x,) = torch.while_loop(lambda x: (x > 1).any(), step, (x,))
                x = torch.where(runs, x, first_x)
                return x
            """,
            at="(x > 1).any()",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                y = x
                while True:
                    new = y.clamp(max=4) * 0.5
                    # Close enough.
                    if (new - y).abs().max() < 1e-3:
                        break
                    y = new
                return y
            """,
            """
            import torch

            def f(x):
                y = x

                def step(y, done):
                    new = y.clamp(max=4) * 0.5
                    # Close enough.
                    done = (new - y).abs().max() < 1e-3
                    y = torch.where(done, y, new)
                    return y, done

                y, _ = torch.while_loop(
                    lambda y, done: torch.logical_not(done),
                    step,
                    (y, torch.tensor(False, device=y.device)),
                )
                return y
            """,
            at="(new - y).abs().max() < 1e-3",
            facts={"x": tensor(3), "y": tensor(3), "new": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(ids, n):
                i = 0
                while i < 10 and ids.sum() < n:
                    ids = ids + i
                    i += 2
                else:
                    # All there.
                    ids = -ids
                return ids
            """,
            """
            import torch

            def f(ids, n):
                i = 0

                def step(ids, i):
                    ids = ids + i
                    i = i + 2
                    return ids, i

                runs = (i < 10) & (ids.sum() < n)
                first_ids = ids
                ids, _ = torch.while_loop(
                    lambda ids, i: (i < 10) & (ids.sum() < n),
                    step,
                    (ids, torch.tensor(i, device=ids.device)),
                )
                ids = torch.where(runs, ids, first_ids)
                # All there.
                ids = -ids
                return ids
            """,
            at="ids.sum() < n",
            facts={"ids": tensor(3), "i": scalar(0, constant=False), "n": tensor()},
        ),
        Example(
            """
            import torch

            def f(ids, k):
                n = 0
                while (ids > 1).any():
                    n += 1
                    ids = ids // 2
                    # Not yet.
                    if ids.sum() > 9:
                        continue  # later
                    ids = ids - 1
                return k / n
            """,
            """
            import torch

            def f(ids, k):
                n = 0

                def step(n, ids):
                    n = n + 1
                    ids = ids // 2
                    # Not yet.
                    # later
                    skips = ids.sum() > 9
                    ids = torch.where(skips, ids, ids - 1)
                    return n, ids

                n, _ = torch.while_loop(
                    lambda n, ids: (ids > 1).any(),
                    step,
                    (torch.tensor(n, device=ids.device), ids),
                )
                return k / n
            """,
            at="(ids > 1).any()",
            facts={
                "ids": tensor(3, dtype="torch.int64"),
                "ids // 2": tensor(3, dtype="torch.int64"),
                "k": tensor(3),
                "n": scalar(0, constant=False),
            },
        ),
        Example(
            """
            import torch

            def f(ids, k):
                while (ids > 1).any():
                    ids = ids - 1
                    # Both at once.
                    if ids.sum() > k:
                        ids = ids - 2
                        k = k - 1
                return k
            """,
            """
            import torch

            def f(ids, k):

                def step(ids, k):
                    ids = ids - 1
                    # Both at once.
                    ids_sum_above_k = ids.sum() > k
                    ids = torch.where(ids_sum_above_k, ids - 2, ids)
                    k = torch.where(ids_sum_above_k, k - 1, k)
                    return ids, k

                _, k = torch.while_loop(lambda ids, k: (ids > 1).any(), step, (ids, k))
                return k
            """,
            at="(ids > 1).any()",
            facts={
                "ids": tensor(3, dtype="torch.int64"),
                "ids - 2": tensor(3, dtype="torch.int64"),
                "k": tensor(dtype="torch.int64"),
            },
        ),
        Example(
            """
            import torch

            def f(x, g):
                rate = 1.0
                while (x - rate * g).sum() < 0 and rate > 0.001:
                    rate *= 0.5
                return x - rate * g
            """,
            """
            import torch

            def f(x, g):
                rate = 1.0

                def step(rate):
                    rate = rate * 0.5
                    return (rate,)

                (rate,) = torch.while_loop(
                    lambda rate: ((x - rate * g).sum() < 0) & (rate > 0.001),
                    step,
                    (torch.tensor(rate, device=g.device),),
                )
                return x - rate * g
            """,
            at="(x - rate * g).sum() < 0",
            facts={"x": tensor(3), "g": tensor(3), "rate": scalar(1.0, constant=False)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, n, r, g):
                while x.sum() > 1:
                    {body}
                {rest}
            """,
            at="x.sum() > 1",
            why=why,
            facts={
                "x": tensor(3),
                "n": scalar(0, constant=False),
                "r": scalar(0.5, constant=False),
                "w": tensor(2, 3),
            },
        )
        for body, rest, why in (
            ("x = x - 1; n = n + 1", "return x, n", "the counter itself is a result"),
            ("x = x[n:]; n = n + 1", "return x", "the counter is an index"),
            ("x = x ** n; n = n + 1", "return x", "a power of a number is not one of a tensor"),
            ("x = x - 1; n = n / 2", "return x", "a float is carried"),
            ("x = x - n; n = len(x)", "return x", "more than counting"),
            ("x = x * (1 / (n + 1)); n += 1", "return x", "Python divides in double precision"),
            ("x = x - 1; n += 1", "return x[n]", "the counter is an index afterwards"),
            ("x = x - 1; n += 1", "return x * 2**n", "a power of the counter afterwards"),
            ("x = x - r; r = r / 3 ** n", "return x", "a float that Python computes"),
            ("x = x - r * x.sum(); r *= 0.9", "return x", "without dimensions, float64 counts"),
            ("x = x - 1 / r; r *= 0.5", "return x", "Python fails to divide by zero"),
            ("x = x - r; r *= 0.5", "return x, r", "the float itself is a result"),
            ("x = x - r; r = min(r, 0.5)", "return x", "a function of the float"),
            ("x.sub_(1)", "return x", "the caller's tensor is changed"),
            ("x -= 1", "return x", "the caller's tensor is changed by an operator"),
            ("x = x - 1; print(x)", "return x", "the body prints"),
            ("x = g(x)", "return x", "it is not known what the body does"),
            ("x = x - torch.rand(3)", "return x", "the body draws random numbers"),
            ("x = x - 1; y = x", "return y", "a name is bound only where the loop runs"),
            ("x = x - 1; break", "return x", "the body leaves the loop"),
            (
                "x = x - 1\n" + _IN + "if x.max() > 1: continue\n" + _IN + "x = x[:2]",
                "return x",
                "what follows an early next round has another shape",
            ),
            (
                "if x.max() > 1: continue\n" + _IN + "x = torch.linalg.inv(x)",
                "return x",
                "what follows an early next round may fail where it is skipped",
            ),
            (
                "if n: continue\n" + _IN + "x = x - 1",
                "return x",
                "Python decides about the next round",
            ),
            (
                "if x.max() > 1: y = x * 2\n" + _IN + "x = x - y",
                "return x",
                "bound behind a test, and read after it",
            ),
            (
                "if x.max() > 1:\n" + _IN + "    if n: break\n" + _IN + "x = x - 1",
                "return x",
                "deep",
            ),
            ("if (x > 1).any(): break\n" + _IN + "x = w", "return x", "where would broadcast"),
            ("if (x > 1).any(): break\n" + _IN + "x, n = -x, n", "return x", "a tuple is bound"),
            ("if x.max() > 1: break\n" + _IN + "print(x); x = -x", "return x", "a print"),
            (
                "if x.max() > 1: break\n" + _IN + "x = x - 1\n" + _OUT + "else: x = x + 1",
                "return x",
                "else",
            ),
            ("with torch.no_grad(): x = x.log_()", "return x", "in place, inside a with"),
            ("return x", "return x", "the body leaves the function"),
            ("x = x - 1", "x.add_(1); return 0", "the tensor is changed afterwards"),
            ("x = x - 1", "return lambda: x", "a closure reads the name later"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = _while_at(site)
        if node is None or site.function is None:
            return
        try:
            yield _rewrite(site, node, site.function)
        except Refusal as refusal:
            line = site.span(node).line
            yield Advice(f"torch.while_loop does not fit the `while` on line {line}: {refusal}.")


def _while_at(site: Site) -> cst.While | None:
    """The ``while`` whose test broke, or the test before its ``break``."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.While):
        return child
    stop = if_at(site)
    if stop is not None:
        block = site.parent(stop)
        loop = None if block is None else site.parent(block)
        if not isinstance(loop, cst.While) or loop.body is not block:
            return None
        # A loop that only Python ends is unrolled: data has to have a say.
        return loop if exits(branch_of(loop.body).statements).breaks else None
    for parent in site.ancestors(child):
        if isinstance(parent, cst.While) and child is parent.test:
            return parent
        if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
            return None
        child = parent
    return None


def _rewrite(site: Site, node: cst.While, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    if holds_comment(node.test):
        raise Refusal("a condition holds a comment")
    _check_body(node, values)
    round_ = round_of(node)
    names = _carried_names(site, node, function)
    numbers = [name for name in names if not _is_tensor(name, values)]
    used = live_after(function, node)
    for name in numbers:
        check_counter(site, name, node, round_.tests, values, used=name in used)
    tensors = [name for name in names if name not in numbers]
    placed = _placed(node, tensors, values)
    on_data = is_data_dependent(node.test, values)
    values.named |= {name: tensor_of(name, values) for name in numbers}
    round_ = _with_tensors(round_, numbers, values)
    if not any(is_data_dependent(test, values) for test in round_.tests):
        raise Refusal("it is not known whether its condition is a tensor")
    test = predicate = _predicate(round_.test, values)
    taken = names_in(site.module)
    flag = fresh("done", taken) if round_.breaks else ""
    line = Line(names, values, taken, done=flag)
    statements = line.round(round_.statements)
    if flag:
        names = [*names, flag]
        going = f"{values.torch}.logical_not({flag})"
        predicate = f"{going} & {operand(predicate)}" if predicate else going
    check_movable(statements, returns=False)
    ending = cst.parse_statement(f"return {_tuple(names)}")
    header = branch_of(node.body)
    body = dataclasses.replace(header, statements=[*statements, ending])
    body = finish(body, values, clone_unknown=False)
    check_later_changes(site, node, values, set(tensors))
    taken |= line.flags
    step = fresh("step", taken)
    guard = _Guard(site, node, tensors, values, taken | {step}, on_data)
    first, after = guard.lines(test)
    call = _call(site, node, values, names, (numbers, flag, placed), step, predicate, used)
    edit = site.edit()
    definition = body.function(step, names)
    edit.replace(node, *spaced(leading(node), [definition], [*first, call, *after]), *_else(node))
    if values.torch_missing:
        edit.add_import("torch")
    copies = ", ".join(f"`{name}`" for name in tensors)
    notes = [f"Where the loop ends at once, each of {copies} is a copy."] if tensors else []
    safety = Safety.SAFE
    if guard.floats and not zero_stays_zero(statements, values):
        safety = Safety.UNSAFE
        notes.append(
            "With gradients, a derivative that is not finite where the loop ends makes them NaN."
        )
    if guard.floats and not each_on_its_own(statements, guard.floats, line.flags, values):
        safety = Safety.UNSAFE
        notes.append(
            "Gradients are wrong (in torch 2.13) where a carried tensor starts without needing one"
            " and gets to need one in the loop."
        )
    if values.needs_gradients() and is_one_of_several(site, node):
        safety = Safety.UNSAFE
        notes.append(SEVERAL)
    return edit.rewrite("turn the loop into torch.while_loop", safety=safety, notes=notes, rank=20)


def _placed(node: cst.While, tensors: list[str], values: Values) -> str:
    """A tensor on whose device the loop computes."""
    if tensors:
        return tensors[0]
    does = activity(node)
    for name in sorted(does.reads - does.writes):
        fact = values.outside(name)
        if fact is not None and fact.is_tensor:
            return name
    raise Refusal("the body binds nothing that is used again")


def _is_tensor(name: str, values: Values) -> bool:
    fact = values.outside(name)
    return fact is not None and fact.is_tensor and values.is_tensor_name(name)


def _carried_names(site: Site, node: cst.While, function: cst.FunctionDef) -> list[str]:
    """The names that go from one iteration to the next, or on to what follows."""
    bound = names_bound([node.body])
    live = live_before(function, node) | live_after(function, node)
    before = definitely_bound_before(function, node)
    captured = captured_for_later(site, function)
    for name in bound:
        if name in captured:
            raise Refusal(f"`{name}` is used by a nested function")
        if name in live and name not in before:
            raise Refusal(f"`{name}` may not be bound before the loop")
    return [name for name in bound if name in live]


def _with_tensors(round_: Round, numbers: list[str], values: Values) -> Round:
    """The round with its counters known as tensors."""

    def known(node: cst.CSTNode) -> Any:
        return as_tensors(node, numbers, values)

    return Round(
        None if round_.test is None else known(round_.test),
        [known(statement) for statement in round_.statements],
        round_.breaks,
    )


def _predicate(test: cst.BaseExpression | None, values: Values) -> str:
    if test is None:
        return ""
    condition = split(test, values)
    if condition.python:
        raise Refusal(f"`{condition.python}` is decided by Python; make it a tensor")
    return condition.tensor


@dataclasses.dataclass
class _Guard:
    """Takes the result of a loop that did not run from before it, for the sake of gradients.

    Measured on torch 2.13: the backward of torch.while_loop runs the body once even where the loop
    did not run at all.  `torch.where` gives that backward a gradient of zero.
    """

    site: Site
    node: cst.While
    tensors: list[str]
    values: Values
    taken: set[str]
    #: Whether a tensor decides about the first round (or Python numbers, for a `break` inside).
    on_data: bool

    @property
    def floats(self) -> list[str]:
        """The carried tensors that may need gradients."""
        facts = {name: self.values.outside(name) for name in self.tensors}
        whole = {*EXACT_DTYPES, "torch.bool"}
        return [name for name, fact in facts.items() if fact is None or fact.dtype not in whole]

    def lines(self, predicate: str) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """Statements for before and after the loop; none where it surely runs once."""
        if not self.floats or not predicate:
            return [], []
        if without_gradients(self.site, self.node):
            for name in self.floats:
                if not is_private(self.site, name, self.node, self.values):
                    raise Refusal(f"a copy of `{name}` would lose its gradient here")
            return [], []
        runs = fresh("runs", self.taken)
        first, after = [f"{runs} = {predicate}"], []
        for name in self.floats:
            start = fresh(f"first_{name}", self.taken)
            first.append(f"{start} = {name}")
            chosen = f"{self.values.torch}.where({runs}, {name}, {start})"
            if not self.on_data:
                chosen = f"{name} if {runs} else {start}"
            after.append(f"{name} = {chosen}")
        return [cst.parse_statement(t) for t in first], [cst.parse_statement(t) for t in after]


def _call(
    site: Site,
    node: cst.While,
    values: Values,
    names: list[str],
    made: tuple[list[str], str, str],
    step: str,
    predicate: str,
    used: frozenset[str],
) -> cst.BaseStatement:
    """``x, _ = torch.while_loop(...)``: what was no tensor before is made one for it."""
    numbers, flag, tensor_ = made
    operands = []
    for name in names:
        initial = "False" if name == flag else name if name in numbers else ""
        if name in numbers and tensor_of(name, values).dtype == "torch.float64":
            initial += f", dtype={values.torch}.float64"
        text = f"{values.torch}.tensor({initial}, device={tensor_}.device)"
        operands.append(text if initial else name)
    free = "_" not in activity(node.body).reads | activity(node.body).writes | used
    targets = ["_" if free and name not in used else name for name in names]
    left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
    start = f"({operands[0]},)" if len(operands) == 1 else f"({', '.join(operands)})"
    arguments = [f"lambda {', '.join(names)}: {predicate}", step, start]
    head = f"{left} = {values.torch}.while_loop"
    return statement_line(site, head, arguments, depth_of(site, node))


def _else(node: cst.While) -> list[cst.BaseStatement]:
    """What stands in the ``else``: without a ``break``, it simply comes next."""
    if node.orelse is None:
        return []
    comments = [line for line in node.orelse.leading_lines if line.comment is not None]
    first, *others = branch_of(node.orelse.body).statements
    return [first.with_changes(leading_lines=[*comments, *leading(first)]), *others]


def _tuple(names: list[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _check_body(node: cst.While, values: Values) -> None:
    """Refuse what may happen once too often, too seldom, or with a gradient."""
    effects = values.effects(node.test, node.body)
    if effects.rng or effects.io or effects.mutates or effects.mutates_unknown:
        raise Refusal("it changes something in place, draws random numbers, or prints")
    calls = effects.unknown
    if calls:
        raise Refusal(f"it is not known what `{calls[0]}` does")
    if activity(node.body).attribute_writes or activity(node.test).writes:
        raise Refusal("it binds more than local names")
