"""A data-dependent conditional expression becomes ``torch.where`` or ``torch.cond``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .branches import Branch, check_structures, finish
from .if_to_where import MOST_OPERATIONS, arm_of, is_point
from .layout import statement_line
from .predicates import split
from .refusal import Condition, Refusal
from .sites import depth_of, ternary_at, without_gradients
from .surroundings import SEVERAL, check_later_changes, is_one_of_several
from .values import Values


class TernaryToCond(Codemod):
    """Turns ``a if test else b`` on a tensor test into ``torch.where`` or ``torch.cond``.

    **What it does**

    Cheap arms are selected with ``torch.where(test, a, b)``; others become
    ``torch.cond(test, lambda: a, lambda: b)``, of which only one runs.  A Python part of the test
    stays a conditional expression.

    **When it applies**

    The test is a tensor of one element, and both arms are tensors (for ``torch.where`` of the same
    tensors, see `if-to-where`).

    **Fix safety**

    An arm that is a tensor from outside is copied; parameters used only in the arm not taken get
    gradients of zero instead of ``None``.

    **Refuses**

    Arms that are Python values, bind names, suspend, draw random numbers, print or change anything
    in place; results that the same function changes in place afterwards.
    """

    name = "ternary-to-cond"
    codes = (
        "GB0170",
        "GB0033",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = (
        Example(
            """
            import torch

            def f(xs, lo: float = 0.1):
                return [x.sum() if x.any() else torch.tensor(lo) for x in xs]
            """,
            """
            import torch

            def f(xs, lo: float = 0.1):
                lo_tensor = torch.tensor(lo)
                return [torch.cond(x.any(), lambda: x.sum(), lambda: lo_tensor.clone()) for x in xs]
            """,
            at="x.any()",
            facts={
                "x": tensor(3),
                "x.any()": tensor(dtype="torch.bool"),
                "lo": scalar(0.1),
                "torch.tensor(lo)": tensor(),
                "x.sum()": tensor(),
                "torch.tensor": Fact("function", "function", qualname="torch.tensor"),
            },
            title="a number that may change from call to call",
        ),
        Example(
            """
            import torch

            def f(x):
                scale = x * 2 if x.sum() > 0 else x
                return scale + x
            """,
            """
            import torch

            def f(x):
                scale = torch.where(x.sum() > 0, x * 2, x)
                return scale + x
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x, y):
                return x.exp() if x.sum() > y.sum() else y
            """,
            """
            import torch

            def f(x, y):
                return torch.cond(x.sum() > y.sum(), lambda: x.exp(), lambda: y.clone())
            """,
            at="x.sum() > y.sum()",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        Example(
            """
            import torch

            class M(torch.nn.Module):
                def forward(self, hidden, mask):
                    hidden = self.attend_to(hidden, mask) if mask.any() else self.skip(hidden)
                    return hidden
            """,
            """
            import torch

            class M(torch.nn.Module):
                def forward(self, hidden, mask):
                    hidden = torch.cond(
                        mask.any(),
                        lambda: self.attend_to(hidden, mask),
                        lambda: self.skip(hidden),
                    )
                    return hidden
            """,
            at="mask.any()",
            facts={"hidden": tensor(3), "mask": tensor(3, dtype="torch.bool")},
        ),
        Example(
            """
            import torch

            def f(xs):
                flip = lambda t: t if t.sum() > 0 else -t
                return [flip(x) for x in xs]
            """,
            """
            import torch

            def f(xs):
                flip = lambda t: torch.where(t.sum() > 0, t, -t)
                return [flip(x) for x in xs]
            """,
            at="t.sum() > 0",
            facts={"t": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x, on):
                return (x / 2 if on and x.max() > 0 else x * 2) + 1
            """,
            """
            import torch

            def f(x, on):
                return (torch.cond(x.max() > 0, lambda: x / 2, lambda: x * 2) if on else x * 2) + 1
            """,
            at="x.max() > 0",
            facts={"x": tensor(3), "on": scalar(True)},
        ),
    )
    near_misses = (
        NearMiss(
            """
            def f(x):
                n = 1 if x.sum() > 0 else 2
                return x * n
            """,
            at="x.sum() > 0",
            why="the arms are Python numbers",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                y = x if x.sum() > 0 else y
                y += 1
                return x
            """,
            at="x.sum() > 0",
            why="the result is changed afterwards",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                (x if x.sum() > 0 else y).add_(1)
                return x
            """,
            at="x.sum() > 0",
            why="the result is changed by the same statement",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                return torch.rand_like(x) if x.sum() > 0 else x
            """,
            at="x.sum() > 0",
            why="an arm draws random numbers",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                return (y := x + 1) if x.sum() > 0 else x
            """,
            at="x.sum() > 0",
            why="an arm binds a name",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, n):
                return x + 1 if n > 0 else x
            """,
            at="n > 0",
            why="the test is a Python value",
            facts={"x": tensor(3), "n": scalar(1)},
        ),
        NearMiss(
            """
            def f(x, y):
                return x if x > y else y
            """,
            at="x > y",
            why="the test has many elements",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                return print(x) if x.sum() > 0 else x
            """,
            at="x.sum() > 0",
            why="an arm prints",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                return x.add_(1) if x.sum() > 0 else x
            """,
            at="x.sum() > 0",
            why="an arm changes the caller's tensor",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                flip = lambda t: t if t.sum() > 0 else -t
                flip(x).mul_(2)
                return x
            """,
            at="t.sum() > 0",
            why="what the lambda hands on is changed",
            facts={"t": tensor(3), "x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                flip = lambda t, u: u if t > 0 else -t
                return flip(x.sum(), 1)
            """,
            at="t > 0",
            why="the lambda is given a number, too",
            facts={"t": tensor(), "u": scalar(1)},
        ),
        NearMiss(
            """
            def f(x):
                return None if x.sum() > 0 else x
            """,
            at="x.sum() > 0",
            why="an arm is None",
            facts={"x": tensor(3)},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = ternary_at(site)
        if node is None or comments_in(node):
            return
        try:
            condition, values = _checked(site, node)
        except Refusal:
            return
        for build in (_where, _cond_of_numbers, _cond, _cond_of_copies):
            try:
                yield build(site, node, condition, values)
            except Refusal:
                continue


def _checked(site: Site, node: cst.IfExp) -> tuple[Condition, Values]:
    values = Values(site)
    arms = (node.body, node.orelse)
    does = activity(arms)
    leaves = exits(arms)
    if does.writes or does.mutates or does.mutates_unknown or does.dynamic:
        raise Refusal("")
    if leaves.any or activity(site.statement).mutates:
        raise Refusal("")
    if site.function is None:
        _check_lambda(site, node)
    effects = values.effects(*arms)
    if effects.rng or effects.io:
        raise Refusal("")
    names = set(activity(arms).reads) | set(activity(site.statement).writes)
    if site.function is not None:
        check_later_changes(site, site.statement, values, names)
    return split(node.test, values), values


def _check_lambda(site: Site, node: cst.CSTNode) -> None:
    """Refuse a conditional expression in no lambda, or beside code that may change its results."""
    around = list(site.ancestors(node))
    if not any(isinstance(parent, cst.Lambda) for parent in around):
        raise Refusal("")
    for parent in around:
        if isinstance(parent, cst.FunctionDef):
            does = activity(parent.body)
            # What `__init__` keeps the lambda in is none of its results.
            kept = {"self"} if parent.name.value == "__init__" else set()
            if does.mutates - kept or does.mutates_unknown:
                raise Refusal("")
            return


def _where(site: Site, node: cst.IfExp, condition: Condition, values: Values) -> Rewrite:
    true, false = arm_of(node.body, values), arm_of(node.orelse, values)
    if (true.names, true.dtype) != (false.names, false.dtype):
        raise Refusal("")
    if condition.node is None or not is_point(condition.node, values):
        raise Refusal("")
    if max(true.operations, false.operations) > MOST_OPERATIONS:
        raise Refusal("")
    names = [arm for arm in (node.body, node.orelse) if isinstance(arm, cst.Name | cst.Attribute)]
    if names and without_gradients(site, node):
        raise Refusal("")
    arguments = [condition.tensor, code(node.body), code(node.orelse)]
    return _rewrite(
        site,
        node,
        condition,
        values,
        "where",
        arguments,
        title="select with torch.where instead of branching",
        notes=["Both arms are evaluated; they are cheap and cannot fail."],
        rank=15,
    )


def _cond(
    site: Site,
    node: cst.IfExp,
    condition: Condition,
    values: Values,
    *,
    copies: bool = False,
    ahead: Mapping[cst.BaseExpression, str] | None = None,
) -> Rewrite:
    """``ahead``: names of what is made before the statement instead of in an arm."""
    ahead = ahead or {}
    arms = [
        finish(_returning(value), values, clone_unknown=copies)
        for value in (node.body, node.orelse)
    ]
    check_structures(arms)
    if copies and not any(arm.unknown for arm in arms):
        raise Refusal("")
    texts = []
    for original, arm in zip((node.body, node.orelse), arms, strict=True):
        value = arm.expression
        assert value is not None
        if original in ahead:
            texts.append(f"lambda: {ahead[original]}.clone()")
            continue
        text = code(value)
        texts.append(f"lambda: ({text})" if _needs_parentheses(value) else f"lambda: {text}")
    notes = [
        "Outside a compiled region torch.cond costs about 0.5 ms a call.",
        "Both branches are traced: an error in either (sizes that do not fit) is raised whichever"
        " is taken.",
    ]
    kept = sorted(arms[0].kept | arms[1].kept)
    if kept and without_gradients(site, node):
        raise Refusal("")
    if kept:
        names = ", ".join(f"`{name}`" for name in kept)
        notes.append(f"Where an arm hands on {names} itself, the result is now a copy.")
    several = (
        site.function is not None
        and values.needs_gradients()
        and is_one_of_several(site, site.statement)
    )
    if several:
        notes.append(SEVERAL)
    return _rewrite(
        site,
        node,
        condition,
        values,
        "cond",
        [condition.tensor, *texts],
        title="turn the conditional expression into torch.cond",
        notes=notes,
        rank=20,
        safety=Safety.UNSAFE if several else Safety.SAFE,
        ahead=ahead,
    )


def _cond_of_numbers(site: Site, node: cst.IfExp, condition: Condition, values: Values) -> Rewrite:
    """With tensors of arguments, ``torch.tensor(floor)``, made before the statement.

    torch.cond takes no number from outside that changes from call to call.
    """
    function = site.function
    if function is None or not isinstance(site.statement, cst.SimpleStatementLine):
        raise Refusal("")
    taken = names_in(function)
    ahead: dict[cst.BaseExpression, str] = {}
    for arm in (node.body, node.orelse):
        name = _number_of(site, arm, function, values)
        if name is not None:
            ahead[arm] = fresh(f"{name}_tensor", taken)
            taken = {*taken, ahead[arm]}
    if not ahead:
        raise Refusal("")
    return _cond(site, node, condition, values, ahead=ahead)


def _number_of(
    site: Site, arm: cst.BaseExpression, function: cst.FunctionDef, values: Values
) -> str | None:
    """The argument of the function of which an arm makes a tensor, and does nothing else."""
    match arm:
        case cst.Call(func=func, args=[cst.Arg(cst.Name(name), keyword=None, star=""), *options]):
            given = [option.keyword.value for option in options if option.keyword is not None]
            plain = code(func) == f"{values.torch}.tensor" and len(given) == len(options)
            fact = site.locals_before(site.statement).get(name)
            number = fact is not None and fact.kind in ("int", "float", "bool")
            kept = (
                name in parameters_of(function.params) and name not in activity(function.body).bound
            )
            constant = all(
                isinstance(option.value, cst.Attribute) and code(option.value).startswith("torch.")
                for option in options
            )
            bound = {
                inner.value
                for outer in site.ancestors(arm)
                if isinstance(outer, cst.BaseComp | cst.Lambda)
                for inner in walk(outer)
                if isinstance(inner, cst.CompFor | cst.Param)
                for inner in walk(inner.target if isinstance(inner, cst.CompFor) else inner.name)
                if isinstance(inner, cst.Name)
            }
            if plain and number and kept and constant and name not in bound:
                return name
    return None


def _cond_of_copies(site: Site, node: cst.IfExp, condition: Condition, values: Values) -> Rewrite:
    """For calls whose body is not seen: one that hands back its input is not taken by cond."""
    return _cond(site, node, condition, values, copies=True)


def _rewrite(
    site: Site,
    node: cst.IfExp,
    condition: Condition,
    values: Values,
    function: str,
    arguments: list[str],
    *,
    title: str,
    notes: list[str],
    rank: int,
    safety: Safety = Safety.SAFE,
    ahead: Mapping[cst.BaseExpression, str] | None = None,
) -> Rewrite:
    call = f"{values.torch}.{function}"
    text = f"{call}({', '.join(arguments)})"
    edit = site.edit()
    if condition.python:
        first, second = text, code(node.orelse)
        if condition.joint == "or":
            first, second = code(node.body), text
        new = cst.parse_expression(f"{first} if {condition.python} else {second}")
        edit.replace(node, new.with_changes(lpar=node.lpar, rpar=node.rpar))
    else:
        head = _head(site, node)
        if head is None or "\n" in text:
            edit.replace(node, cst.parse_expression(text))
        else:
            depth = depth_of(site, site.statement)
            line = statement_line(site, head + call, arguments, depth)
            (small,) = line.body
            value = small.value if isinstance(small, cst.Assign | cst.Return) else None
            assert value is not None
            edit.replace(node, value)
    if ahead:
        lines = [f"{name} = {code(made)}" for made, name in ahead.items()]
        edit.insert_before(site.statement, *map(cst.parse_statement, lines))
    if values.torch_missing:
        edit.add_import("torch")
    return edit.rewrite(title, notes=notes, rank=rank, safety=safety)


def _head(site: Site, node: cst.IfExp) -> str | None:
    """``x = `` or ``return `` where the expression is all that the statement holds."""
    match site.parent(node):
        case cst.Assign(targets=[target]):
            return f"{code(target.target)} = "
        case cst.Return():
            return "return "
    return None


def _returning(value: cst.BaseExpression) -> Branch:
    line = cst.Return(value, whitespace_after_return=cst.SimpleWhitespace(" "))
    return Branch([cst.SimpleStatementLine([line])])


def _needs_parentheses(value: cst.BaseExpression) -> bool:
    return not value.lpar and (isinstance(value, cst.Tuple) or "\n" in code(value))
