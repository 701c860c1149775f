"""``while`` on tensor data becomes ``torch.while_loop``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from .branches import branch_of, check_movable, finish, holds_comment, leading, names_bound
from .closures import captured_for_later
from .layout import spaced, statement_line
from .predicates import Refusal, is_data_dependent, split
from .sites import depth_of
from .surroundings import check_later_changes
from .values import Values


class WhileToLoop(Codemod):
    """Turns a ``while`` that repeats until tensor data says otherwise into ``torch.while_loop``.

    **What it does**

    The test and the body become functions of the tensors that the body rebinds; other names are
    closed over.

    **When it applies**

    The test is a tensor of one element; the body rebinds tensors only, and is tensor code without
    effects.

    **Fix safety**

    Where the loop ends at once, the results are copies of what they were.  Unsafe where floating
    tensors are carried, which might need gradients in another run.

    **Refuses**

    Loops whose tensors may need gradients (measured: the backward of torch 2.13 runs the body once
    even where the loop did not run at all, and gives a wrong gradient); ``break``, ``continue``,
    ``return``, ``else``; Python numbers that the body changes; changes in place, random numbers,
    prints, and calls whose body is not seen.
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

                x, steps = torch.while_loop(
                    lambda x, steps: x.abs().max() > limit,
                    step,
                    (x, steps),
                )
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

                (x,) = torch.while_loop(lambda x: (x > 1).any(), step, (x,))
                return x
            """,
            at="(x > 1).any()",
            facts={"x": tensor(3)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, n, g):
                while x.sum() > 1:
                    {body}
                {rest}
            """,
            at="x.sum() > 1",
            why=why,
            facts={
                "x": tensor(3, requires_grad=why.endswith("gradient")),
                "n": scalar(0, constant=False),
            },
        )
        for body, rest, why in (
            ("x = x - 1", "return x", "torch's backward of no iterations gives a wrong gradient"),
            ("x = x - 1; n = n + 1", "return x, n", "a Python number is carried"),
            ("x.sub_(1)", "return x", "the caller's tensor is changed"),
            ("x -= 1", "return x", "the caller's tensor is changed by an operator"),
            ("x = x - 1; print(x)", "return x", "the body prints"),
            ("x = g(x)", "return x", "it is not known what the body does"),
            ("x = x - torch.rand(3)", "return x", "the body draws random numbers"),
            ("x = x - 1; y = x", "return y", "a name is bound only where the loop runs"),
            ("x = x - 1; break", "return x", "the body leaves the loop"),
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
    """The ``while`` whose test broke."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.While):
        return child
    for parent in site.ancestors(child):
        if isinstance(parent, cst.While) and child is parent.test:
            return parent
        if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
            return None
        child = parent
    return None


def _rewrite(site: Site, node: cst.While, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    if holds_comment(node.test) or node.orelse is not None:
        raise Refusal("the condition holds a comment, or the loop has an `else`")
    if not is_data_dependent(node.test, values):
        raise Refusal("it is not known whether its condition is a tensor")
    condition = split(node.test, values)
    if condition.python:
        raise Refusal(f"`{condition.python}` is decided by Python; make it a tensor")
    if exits([node.body]).any:
        raise Refusal("the body leaves the loop; make the reason to stop a part of the condition")
    carries = _carries(site, node, function, values)
    _check_body(node, values)
    body = branch_of(node.body)
    check_movable(body.statements, returns=False)
    tuple_of = f"({carries[0]},)" if len(carries) == 1 else ", ".join(carries)
    body.statements.append(cst.parse_statement(f"return {tuple_of}"))
    body = finish(body, values, clone_unknown=False)
    check_later_changes(site, node, values, set(carries))
    step = fresh("step", names_in(site.module))
    names = ", ".join(carries)
    start = f"({names},)" if len(carries) == 1 else f"({names})"
    targets = start if len(carries) == 1 else names
    arguments = [f"lambda {names}: {condition.tensor}", step, start]
    head = f"{targets} = {values.torch}.while_loop"
    call = statement_line(site, head, arguments, depth_of(site, node))
    edit = site.edit()
    edit.replace(node, *spaced(leading(node), [body.function(step, carries)], [call]))
    if values.torch_missing:
        edit.add_import("torch")
    notes = [f"Where the loop ends at once, each of {_quoted(carries)} is a copy."]
    safety = Safety.SAFE
    if any(fact.dtype in FLOAT_DTYPES for fact in map(values.outside, carries) if fact):
        safety = Safety.UNSAFE
        notes.append(
            "If a tensor in it ever needs gradients, they are wrong where the loop ends at once."
        )
    return edit.rewrite("turn the loop into torch.while_loop", safety=safety, notes=notes, rank=20)


def _carries(site: Site, node: cst.While, function: cst.FunctionDef, values: Values) -> list[str]:
    """The names that go from one iteration to the next, or on to what follows: tensors all."""
    bound = names_bound([node.body])
    live = live_before(function, node) | live_after(function, node)
    carries = [name for name in bound if name in live]
    before = definitely_bound_before(function, node)
    captured = captured_for_later(site, function)
    for name in carries:
        fact = values.outside(name)
        if name not in before or fact is None:
            raise Refusal(f"`{name}` may not be bound before the loop")
        if not fact.is_tensor or not values.is_tensor_name(name):
            raise Refusal(f"`{name}` is carried from one iteration to the next, and is no tensor")
    if not carries:
        raise Refusal("the body binds no name that is used again")
    for name in bound:
        if name in captured:
            raise Refusal(f"`{name}` is used by a nested function")
    return carries


def _check_body(node: cst.While, values: Values) -> None:
    """Refuse what may happen once too often, too seldom, or with a gradient."""
    effects = values.effects(node.test, node.body)
    if effects.rng or effects.io or effects.mutates or effects.mutates_unknown:
        raise Refusal("it changes something in place, draws random numbers, or prints")
    calls = [*effects.unknown, *effects.modules]
    if calls:
        raise Refusal(f"it is not known what `{calls[0]}` does")
    if activity(node.body).attribute_writes or activity(node.test).writes:
        raise Refusal("it binds more than local names")
    if values.needs_gradients():
        raise Refusal(
            "its tensors may need gradients: wrong in torch 2.13 where the loop ends at once"
        )


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
