"""``x.sum() or y.sum()``, used as a value, becomes ``torch.where``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, ungrouped
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from ..choice.doubts import doubts_of
from .if_to_where import is_point
from .predicates import split
from .refusal import Refusal
from .select_number import check_name, uses_after
from .sites import without_gradients
from .surroundings import check_later_changes
from .texts import number_of
from .values import Values


class SelectValue(Codemod):
    """Turns ``and``, ``or`` and a conditional expression between scalars into ``torch.where``.

    **What it does**

    ``s = x.sum() or y.sum()`` becomes ``s = torch.where(x.sum() != 0, x.sum(), y.sum())`` with the
    first operand kept in a name where it is more than one, and ``x / (s if s != 0 else 1.0)``
    becomes ``x / torch.where(s != 0, s, 1.0)``.

    **When it applies**

    The values are tensors without dimensions and of one dtype, or one is such a tensor and the
    other a number that its dtype holds; a number only where every use of the result is an operand
    of ``+ - * /`` beside a tensor.

    **Fix safety**

    The operand that Python would have skipped is evaluated, too: only where that has no effect and
    cannot fail.  The result is a copy; the value not taken gets a gradient of zero instead of none.

    **Refuses**

    Values with dimensions, of different dtypes, or that are computed by unseen code; results that
    are changed in place; numbers that the dtype does not hold exactly.
    """

    name = "select-value"
    codes = ("GB0170", "GB0033", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(x, y):
                s = x.sum() or y.sum()
                return x * s
            """,
            """
            import torch

            def f(x, y):
                x_sum = x.sum()
                s = torch.where(x_sum != 0, x_sum, y.sum())
                return x * s
            """,
            at="x.sum() or y.sum()",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                total = x.sum()
                # Never by zero.
                return x / (total if total != 0 else 1.0)
            """,
            """
            import torch

            def f(x):
                total = x.sum()
                # Never by zero.
                return x / torch.where(total != 0, total, 1.0)
            """,
            at="total != 0",
            facts={"x": tensor(3), "total": tensor()},
        ),
        Example(
            """
            import torch

            def f(x, a, b):
                a = a and b
                return x * a
            """,
            """
            import torch

            def f(x, a, b):
                a = torch.where(a != 0, b, a)
                return x * a
            """,
            at="a and b",
            facts={"x": tensor(3), "a": tensor(), "b": tensor()},
        ),
        Example(
            """
            import torch

            def f(x):
                return x.sum() / ((x > 0).sum() or 1)
            """,
            """
            import torch

            def f(x):
                x_above_0_sum = (x > 0).sum()
                return x.sum() / torch.where(x_above_0_sum != 0, x_above_0_sum, 1)
            """,
            at="(x > 0).sum() or 1",
            facts={"x": tensor(3), "(x > 0).sum()": tensor(dtype="torch.int64")},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, y, s, k, d, n, g):
                r = {value}
                return {rest}
            """,
            at=at,
            why=why,
            facts={
                "x": tensor(3),
                "y": tensor(3),
                "s": tensor(),
                "k": tensor(dtype="torch.int64"),
                "d": tensor(dtype="torch.float64"),
                "n": scalar(2, constant=False),
            },
        )
        for value, at, rest, why in (
            ("s or y", "s or y", "r", "a tensor with dimensions would broadcast"),
            ("s or k", "s or k", "r", "another dtype would promote"),
            ("d and s", "d and s", "r", "another dtype would promote"),
            ("s or 1.0", "s or 1.0", "r", "the number itself is a result"),
            ("x * (s or 0.1)", "s or 0.1", "r", "0.1 is coarser in float32"),
            ("x * (k or 1.5)", "k or 1.5", "r", "an integer tensor does not hold 1.5"),
            ("n * (s or 1.0)", "s or 1.0", "r", "a number times a number is none"),
            ("s or g(x)", "s or g(x)", "r", "unknown code would run in vain"),
            ("s or y.max()", "s or y.max()", "r", "max of nothing fails, where Python skips it"),
            ("g(x) + (x.sum() or s)", "x.sum() or s", "r", "what runs first may change x"),
            ("n or s", "n or s", "r", "Python decides: this compiles"),
            ("s or s.item()", "s or s.item()", "r", "a Python number"),
            ("s or d.sum() or s", "s or d.sum()", "r", "another dtype in the middle"),
            ("[s or s * t for t in x]", "s or s * t", "r", "a comprehension has names of its own"),
            ("lambda: 2 * (s or s * 2)", "s or s * 2", "r", "not evaluated here"),
            ("x * (s.exp() or s) if n else x", "s.exp() or s", "r", "it may not be evaluated"),
            ("n and x * (s.exp() or s)", "s.exp() or s", "r", "it may not be evaluated"),
            ("not (s or d)", "s or d", "r", "a truth, not a value"),
            ("s or s * 2; r += 1", "s or s * 2", "r", "the caller's tensor may change"),
            ("s if n > 0 else d", "n > 0", "r", "Python decides"),
            ("s if y.any() else d", "y.any()", "r", "another dtype would promote"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        try:
            yield _rewrite(site)
        except Refusal:
            return


def _rewrite(site: Site) -> Rewrite:
    values = Values(site)
    node = _place(site)
    scopes = cst.Lambda | cst.BaseComp
    if any(isinstance(parent, scopes) for parent in _around(site, node)):
        raise Refusal("")  # facts of names in there are of many values
    if comments_in(node) or without_gradients(site, node):
        raise Refusal("")
    before: list[cst.BaseStatement] = []
    if isinstance(node, cst.BooleanOperation):
        first, other = node.left, node.right
        arms = (other, first) if isinstance(node.operator, cst.And) else (first, other)
        _check_arms(site, node, arms, values)
        name = code(first)
        if not isinstance(first, cst.Name):
            if not _is_line(site.statement) or not _is_first(site, node, values):
                raise Refusal("")
            name = fresh(telling_name(first), names_in(site.module))
            before = [cst.parse_statement(f"{name} = {code(ungrouped(first))}")]
        test = name if values.is_bool_tensor(first) else f"{name} != 0"
        texts = [name if arm is first else code(ungrouped(arm)) for arm in arms]
        skipped: tuple[cst.BaseExpression, ...] = (other,)
    else:
        arms = skipped = (node.body, node.orelse)
        _check_arms(site, node, arms, values)
        condition = split(node.test, values)
        if condition.python or condition.node is None or not is_point(condition.node, values):
            raise Refusal("")
        test, texts = condition.tensor, [code(ungrouped(arm)) for arm in arms]
    if not all(number_of(arm) is not None or values.is_total(arm) for arm in skipped):
        raise Refusal("")
    bound = activity(site.statement).writes
    names = {arm.value for arm in arms if isinstance(arm, cst.Name)}
    check_later_changes(site, site.statement, values, names | bound)
    edit = site.edit()
    edit.replace(node, cst.parse_expression(f"{values.torch}.where({test}, {', '.join(texts)})"))
    if before:
        edit.insert_before(site.statement, *before)
    if values.torch_missing:
        edit.add_import("torch")
    doubts = doubts_of(site, node)
    notes = ["Both values are evaluated; the result is a copy of one.", *doubts]
    safety = Safety.UNSAFE if doubts else Safety.SAFE
    return edit.rewrite("select the value with torch.where", notes=notes, rank=16, safety=safety)


def _place(site: Site) -> cst.BooleanOperation | cst.IfExp:
    """The ``and``/``or`` or the conditional expression whose truth broke, used as a value."""
    chain: list[cst.CSTNode] = [site.node, *site.ancestors(site.node)]
    child: cst.CSTNode | None = None
    for node in chain:
        if isinstance(node, cst.IfExp) and (child is None or child is node.test):
            return node
        if isinstance(node, cst.BooleanOperation) and (child is None or child is node.left):
            above = site.parent(node)
            if isinstance(above, cst.Assign | cst.Return | cst.Arg | cst.BinaryOperation):
                return node
        inner = cst.UnaryOperation | cst.Comparison | cst.ComparisonTarget | cst.Arg
        passing = inner | cst.Call | cst.Attribute | cst.BinaryOperation | cst.BooleanOperation
        if not isinstance(node, passing) and child is not None:
            break
        child = node
    raise Refusal("")


def _around(site: Site, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What holds the node, up to its statement."""
    for parent in site.ancestors(node):
        if parent is site.statement:
            return
        yield parent


def _is_line(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1


def _is_first(site: Site, node: cst.BaseExpression, values: Values) -> bool:
    """Whether nothing else that the statement calls could notice, or change, an earlier read."""
    skipping = cst.IfExp | cst.BooleanOperation
    if any(isinstance(parent, skipping) for parent in _around(site, node)):
        return False
    around = {id(parent) for parent in site.ancestors(node)}
    inside = {id(inner) for inner in walk(node)}
    others = [
        inner
        for inner in walk(site.statement)
        if isinstance(inner, cst.Call | cst.NamedExpr | cst.Await | cst.Yield)
        and id(inner) not in around | inside
    ]
    return all(values.effects(other).pure for other in others) and values.effects(node).pure


def _check_arms(
    site: Site,
    node: cst.BaseExpression,
    arms: tuple[cst.BaseExpression, cst.BaseExpression],
    values: Values,
) -> None:
    """Refuse values that torch.where would promote or broadcast, or that are no tensors."""
    facts = [None if number_of(arm) is not None else values.fact(arm) for arm in arms]
    tensors = [fact for fact in facts if fact is not None and fact.is_tensor and fact.shape == ()]
    dtypes = {fact.dtype for fact in tensors}
    numbers = [value for arm in arms if (value := number_of(arm)) is not None]
    if not tensors or len(tensors) + len(numbers) != 2 or len(dtypes) != 1 or None in dtypes:
        raise Refusal("")
    if not numbers:
        return
    (dtype,) = dtypes
    (number,) = numbers
    exact = abs(number) < 2**20 and number * 4 == int(number * 4)
    if not exact or ((dtype == "torch.int64") != isinstance(number, int) and dtype not in _WIDE):
        raise Refusal("")
    uses: list[cst.BaseExpression] = [node]
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            assert site.function is not None
            check_name(site, name, site.function, site.statement, 1)
            uses = list(uses_after(site, name, site.function, site.statement))
    if dtype not in (*_WIDE, "torch.int64"):
        raise Refusal("")
    if not all(_is_operand(site, use, dtype, values) for use in uses):
        raise Refusal("")


#: Floating dtypes that hold the numbers which are accepted here.
_WIDE = ("torch.float32", "torch.float64")


def _is_operand(site: Site, node: cst.BaseExpression, dtype: str | None, values: Values) -> bool:
    """Whether the result goes at once into arithmetic that takes a number for a tensor of it."""
    holder = site.parent(node)
    if not isinstance(holder, cst.BinaryOperation):
        return False
    if not isinstance(holder.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
        return False
    other = values.fact(holder.left if holder.right is node else holder.right)
    if other is None or not other.is_tensor or other.dtype not in FLOAT_DTYPES:
        return False
    return other.dtype == dtype or bool(other.shape) or dtype == "torch.int64"
