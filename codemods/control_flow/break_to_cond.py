"""A loop that tensor data ends early runs to its bound, and keeps what it had."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .blocks import ends_with_break
from .branches import (
    Branch,
    branch_of,
    finish,
    holds_comment,
    leading,
    names_bound,
    without_blank_start,
)
from .closures import captured_for_later
from .if_to_where import is_point
from .layout import first_of_block, spaced, statement_line
from .lowering import Lowering
from .predicates import split
from .range_to_loop import MANY
from .refusal import Refusal
from .sites import depth_of, if_at, rest_of, without_gradients
from .surroundings import check_later_changes
from .values import Values

_STOP = "\n" + 20 * " " + "if x.sum() < 1: break"


class BreakToCond(Codemod):
    """Turns ``if test: break`` in a loop of known length into a flag and ``torch.cond``.

    **What it does**

    The loop runs all its iterations.  Once the test was true, the remaining iterations do nothing:
    the names that the loop carries keep what they had.

    **When it applies**

    A ``for`` loop without ``else`` whose only exit is one ``if`` in its own block that ends with
    ``break``; the names that go from one iteration to the next, or on to what follows, are tensors
    that are bound before the loop.

    **Fix safety**

    Unsafe with floating tensors: a backward pass raises an error.  An iteration that the original
    does not reach computes nothing, so nothing can fail or differ in it.
    The iterable is used up, though: loops over anything but ``range``, lists, tuples and tensors
    are refused.

    **Refuses**

    ``return`` and further jumps in the loop; carried Python values; in-place changes, random
    numbers and effects in the loop; a loop variable that is used afterwards.
    """

    name = "break-to-cond"
    codes = ("GB0170", "GB0033", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(x):
                y = x
                # Until it stands still.
                for _ in range(8):
                    new = (y + x / y) / 2
                    if (new - y).abs().max() < 1e-3:  # close enough
                        break
                    y = new
                return y
            """,
            """
            import torch

            def f(x):
                y = x
                done = torch.tensor(False, device=y.device)
                # Until it stands still.
                for _ in range(8):
                    def keep(y, done):
                        return y.clone(), done.clone()

                    def step(y, done):
                        new = (y + x / y) / 2
                        done = (new - y).abs().max() < 1e-3  # close enough
                        y = torch.cond(done, lambda: y.clone(), lambda: new.clone())
                        return y, done

                    y, done = torch.cond(done, keep, step, (y, done))
                return y
            """,
            at="(new - y).abs().max() < 1e-3",
            facts={"x": tensor(3), "y": tensor(3), "new": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x, layers):
                for layer in layers:
                    x = x @ layer
                    if x.norm() < 1:
                        x = x * 2
                        break
                return x
            """,
            """
            import torch

            def f(x, layers):
                done = torch.tensor(False, device=x.device)
                for layer in layers:
                    def keep(x, done):
                        return x.clone(), done.clone()

                    def step(x, done):
                        x = x @ layer
                        done = x.norm() < 1
                        x = torch.cond(done, lambda: x * 2, lambda: x.clone())
                        return x, done

                    x, done = torch.cond(done, keep, step, (x, done))
                return x
            """,
            at="x.norm() < 1",
            facts={
                "x": tensor(3, 3),
                "layer": tensor(3, 3),
                "layers": Fact("list", "list"),
                "x.norm()": tensor(),
            },
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, n, g, xs):
                for i in {loop}:
                    x = x * 0.5
                    {body}
                {rest}
            """,
            at="x.sum() < 1",
            why=why,
            facts={
                "x": tensor(3),
                "n": scalar(0, constant=False),
                "i": scalar(0, constant=False),
                "xs": Fact("iterator", "generator"),
            },
        )
        for loop, body, rest, why in (
            ("range(4)", "if x.sum() < 1: return x", "return x", "a return, not a break"),
            ("range(65)", "pass" + _STOP, "return x", "as many conds are long to compile"),
            (
                "range(4)",
                "n = n + 1" + _STOP,
                "return x, n",
                "a number",
            ),
            ("range(4)", "if x.sum() < 1: break", "return x, i", "where it stopped is a result"),
            (
                "range(4)",
                "x.mul_(2)" + _STOP,
                "return x",
                "in place",
            ),
            (
                "range(4)",
                "x = g(x)" + _STOP,
                "return x",
                "unknown code",
            ),
            ("xs", "if x.sum() < 1: break", "return x", "a generator would be used up"),
            (
                "range(4)",
                "x = x + torch.rand(3)" + _STOP,
                "return x",
                "random numbers",
            ),
            (
                "range(4)",
                "if x.sum() < 1: break\n" + 16 * " " + "else: x = x + 1",
                "return x",
                "an else of the loop",
            ),
            (
                "range(4)",
                "y = x + 1" + _STOP,
                "return y",
                "a name that may not be bound",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None or not ends_with_break(branch_of(node.body)):
            return
        try:
            yield _rewrite(site, node, site.function)
        except Refusal as refusal:
            if str(refusal):
                yield Advice(
                    f"The loop around line {site.span(node).line} could run to its bound and keep"
                    f" what it had, but {refusal}."
                )


def _rewrite(site: Site, node: cst.If, function: cst.FunctionDef) -> Rewrite:
    block = site.parent(node)
    loop = None if block is None else site.parent(block)
    if not isinstance(loop, cst.For) or loop.body is not block or loop.orelse is not None:
        raise Refusal("the `break` does not stand in the block of a `for` without `else`")
    if node.orelse is not None or holds_comment(node.test):
        raise Refusal("the `if` has an `else`")
    values = Values(site)
    check_loop(site, loop, function, values)
    if _most(loop.iter, values) > MANY:
        raise Refusal("one torch.cond for each of its iterations would take long to compile")
    condition = split(node.test, values)
    if condition.python or condition.node is None or not is_point(condition.node, values):
        raise Refusal("its test is partly a Python value, or is not known to be a 0-d tensor")
    carries = carried_tensors(site, loop, function, values)
    taken = names_in(site.module)
    done = fresh("done", taken)
    keep, step = fresh("keep", taken | {done}), fresh("step", taken | {done})
    lowering = Lowering(site, values, clone_unknown=True)
    lowered = lowering.break_after(node, rest_of(site, node), done, carries)
    statements = list(branch_of(loop.body).statements)
    before = statements[: statements.index(node)]
    names = ", ".join([*carries, done])
    ending = cst.parse_statement(f"return {names}")
    body = finish(Branch([*before, *lowered, ending]), values, clone_unknown=True)
    check_later_changes(site, loop, values, {*lowering.copied, *body.copied, *carries})
    kept = ", ".join(f"{name}.clone()" for name in [*carries, done])
    keeping = Branch([cst.parse_statement(f"return {kept}")])
    definitions: list[cst.BaseStatement] = [
        keeping.function(keep, [*carries, done]),
        body.function(step, [*carries, done]),
    ]
    arguments = [done, keep, step, f"({names})"]
    depth = depth_of(site, loop) + 1
    call = statement_line(site, f"{names} = {values.torch}.cond", arguments, depth)
    new_body = loop.body.with_changes(body=first_of_block(spaced([], definitions, [call])))
    device = f"device={carries[0]}.device"
    flag = cst.parse_statement(f"{done} = {values.torch}.tensor(False, {device})")
    edit = site.edit()
    above = leading(loop)
    comments = without_blank_start(above)
    flag = flag.with_changes(leading_lines=above[: len(above) - len(comments)])
    edit.replace(loop, flag, loop.with_changes(body=new_body, leading_lines=comments))
    if values.torch_missing:
        edit.add_import("torch")
    notes = [
        "The loop runs all its iterations; those after the break only copy.",
        f"Where the loop ends, {_quoted(carries)} may be a copy.",
    ]
    safety = Safety.SAFE
    facts = [values.outside(name) for name in carries]
    if any(fact is None or fact.dtype in FLOAT_DTYPES for fact in facts):
        if values.needs_gradients():
            raise Refusal("torch.cond has no gradients when its branches also return a flag")
        safety = Safety.UNSAFE
        notes.append("In torch 2.13, a backward pass through it raises an error.")
    title = "let the loop run on without effect after the break"
    return edit.rewrite(title, notes=notes, rank=25, safety=safety)


def check_loop(
    site: Site,
    loop: cst.For,
    function: cst.FunctionDef,
    values: Values,
    *,
    continues: bool = False,
) -> None:
    """Refuse a loop that does more than bind tensors, or whose iterable is not known."""
    found = exits([loop.body])
    # The one `break` belongs to this loop; `exits` counts those of a loop around the statements.
    ways = exits(branch_of(loop.body).statements)
    if (ways.continues and not continues) or found.yields or found.awaits or found.raises:
        raise Refusal("it can end in more than one way")
    if ways.breaks + found.returns != 1:
        raise Refusal("there is more than one `break` or `return`")
    if loop.asynchronous is not None or not is_bounded(loop.iter, values):
        raise Refusal("it is not known what the loop iterates over")
    effects = values.effects(loop.body)
    if effects.rng or effects.io or effects.mutates or effects.mutates_unknown:
        raise Refusal("it changes something in place, draws random numbers, or prints")
    if effects.unknown:
        raise Refusal(f"it is not known what `{effects.unknown[0]}` does")
    if activity(loop.body).attribute_writes:
        raise Refusal("it binds more than local names")
    targets = {n.value for n in walk(loop.target) if isinstance(n, cst.Name)}
    if targets & live_after(function, loop):
        raise Refusal("its variable is used afterwards")
    if without_gradients(site, loop):
        raise Refusal("copies that are made without gradients would lose their gradients")


def _most(over: cst.BaseExpression, values: Values) -> int:
    """The largest number in ``range(...)``; 0 where it is not known, or for another iterable."""
    arguments = over.args if isinstance(over, cst.Call) else ()
    facts = [values.fact(arg.value) for arg in arguments]
    known = [fact.value for fact in facts if fact is not None and isinstance(fact.value, int)]
    return max(known, default=0)


def is_bounded(node: cst.BaseExpression, values: Values) -> bool:
    """Whether running over the iterable to its end changes and costs nothing."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        plain = all(arg.keyword is None and not arg.star for arg in node.args)
        if node.func.value == "range":
            facts = [values.fact(arg.value) for arg in node.args]
            return plain and all(fact is not None and fact.kind == "int" for fact in facts)
        if node.func.value in ("enumerate", "zip", "reversed"):
            return plain and all(is_bounded(arg.value, values) for arg in node.args)
        return False
    fact = values.fact(node)
    if fact is not None and fact.is_tensor:
        return bool(fact.shape)
    lists = fact is not None and fact.kind in ("list", "tuple")
    modules = fact is not None and fact.type.rpartition(".")[2] in ("ModuleList", "Sequential")
    return lists or modules


def carried_tensors(
    site: Site, loop: cst.For, function: cst.FunctionDef, values: Values
) -> list[str]:
    """The tensors that go from one round to the next, or on to what follows."""
    bound = names_bound([loop.body])
    first = branch_of(loop.body).statements[0]
    live = live_before(function, first) | live_after(function, loop)
    before = definitely_bound_before(function, loop)
    captured = captured_for_later(site, function)
    carries = [name for name in bound if name in live]
    for name in carries:
        if name not in before:
            raise Refusal(f"`{name}` may not be bound before it")
        if not values.is_tensor_name(name):
            raise Refusal(
                f"`{name}` is carried from one iteration to the next, and is not a tensor"
            )
    if not carries:
        raise Refusal("no name that it binds is used afterwards")
    if captured & set(bound):
        raise Refusal(f"`{min(captured & set(bound))}` is used by a nested function")
    return carries


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
