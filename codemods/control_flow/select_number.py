"""A Python number that a tensor chooses becomes a tensor of one number."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .branches import branch_of, leading
from .if_to_where import is_point
from .layout import first_of_block
from .predicates import split
from .refusal import Refusal
from .sites import if_at, ternary_at
from .texts import number_of
from .values import Values

_F32, _F16, _F64, _I32 = "torch.float32", "torch.float16", "torch.float64", "torch.int32"


class SelectNumber(Codemod):
    """Turns a Python number that depends on data into ``torch.where`` of two numbers.

    **What it does**

    ``scale = 0.5 if x.mean() > 0 else 2.0`` becomes ``scale = torch.where(x.mean() > 0, 0.5,
    2.0)``, and ``if x.mean() > 0: k = 2`` becomes ``k = torch.where(x.mean() > 0, 2, k)``.

    **When it applies**

    Both values are Python numbers; every use of the name afterwards (or of the expression itself)
    is an operand of ``+ - * /`` beside a tensor for which a tensor of no dimensions is as good as a
    number: one of floating dtype, with dimensions or of the default dtype.

    **Fix safety**

    A tensor without dimensions changes neither shape nor dtype of what it is combined with.  A
    float that the operand's dtype does not hold exactly is accepted beside ``float32`` only, whose
    arithmetic rounds a Python float in the same way.

    **Refuses**

    Other uses (``range``, an index, a power, a call, a ``return``), closures, loops, names that are
    bound elsewhere, tests that mix Python and tensor values or have dimensions.
    """

    name = "select-number"
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

            def f(x):
                scale = 0.5 if x.mean() > 0 else 2.0  # calm large inputs
                return x * scale
            """,
            """
            import torch

            def f(x):
                scale = torch.where(x.mean() > 0, 0.5, 2.0)  # calm large inputs
                return x * scale
            """,
            at="x.mean() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                k = 1
                # Twice where it pays.
                if x.sum() > 0:
                    k = 2
                return x * k
            """,
            """
            import torch

            def f(x):
                k = 1
                # Twice where it pays.
                k = torch.where(x.sum() > 0, 2, k)
                return x * k
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3), "k": scalar(1)},
        ),
        Example(
            """
            import torch

            def f(x):
                if x.sum() > 0:
                    shift = 0.1
                else:
                    shift = -1
                return x + shift
            """,
            """
            import torch

            def f(x):
                shift = torch.where(x.sum() > 0, 0.1, -1)
                return x + shift
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                return x / (2 if torch.isnan(x).any() else 4) + 1
            """,
            """
            import torch

            def f(x):
                return x / torch.where(torch.isnan(x).any(), 2, 4) + 1
            """,
            at="torch.isnan(x).any()",
            facts={"x": tensor(3)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, y, g, k):
                s = {value}
                {rest}
            """,
            at="x.sum() > 0",
            why=why,
            facts={
                "x": tensor(3, dtype=dtype),
                "y": tensor(dtype=dtype),
                "s": scalar(2, constant=False),
                "k": scalar(0.1, constant=False),
            },
        )
        for value, rest, why, dtype in (
            ("2 if x.sum() > 0 else 1", "return x, s", "the number itself is a result", _F32),
            ("2 if x.sum() > 0 else 1", "return x[s:]", "an index", _F32),
            ("2 if x.sum() > 0 else 1", "return g(x, s)", "unknown code gets it", _F32),
            ("2 if x.sum() > 0 else 1", "return x ** s", "a power has a gradient of its own", _F32),
            ("2 if x.sum() > 0 else 1", "return lambda: x * s", "a closure reads it", _F32),
            ("2 if x.sum() > 0 else 1", "s = s + 1; return x * s", "bound twice", _F32),
            ("0.1 if x.sum() > 0 else 1.0", "return x * s", "0.1 is coarser in half", _F16),
            ("0.5 if x.sum() > 0 else 1.0", "return y * s", "float32 would promote it", _F16),
            ("0.5 if x.sum() > 0 else 1.0", "return y * s", "float32 would promote it", _I32),
            ("0.1 if x.sum() > 0 else 1.0", "return x * s", "0.1 is coarser in float32", _F64),
            ("k if x.sum() > 0 else 1.0", "return x * s", "not known to be exact", _F64),
            ("None if x.sum() > 0 else 1.0", "return x * s", "no number", _F32),
            ("y if x.sum() > 0 else 1.0", "return x * s", "a tensor", _F32),
            ("1 if k > 0 and x.sum() > 0 else 2", "return x * s", "a Python part", _F32),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        ternary, statement = ternary_at(site), if_at(site)
        try:
            if ternary is not None:
                yield _of_ternary(site, ternary, site.function)
            elif statement is not None:
                yield _of_if(site, statement, site.function)
        except Refusal:
            return


_NOTE = "The number is a tensor now; it is only used in arithmetic with tensors."


def _of_ternary(site: Site, node: cst.IfExp, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    if comments_in(node):
        raise Refusal("")
    arms = [_number(arm, values) for arm in (node.body, node.orelse)]
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            check_name(site, name, function, site.statement, 1)
            _check_uses(site, name, function, site.statement, arms, values)
        case _:
            if not _is_scale(site, node, arms, values):
                raise Refusal("")
    condition = _test(node.test, values)
    text = f"{values.torch}.where({condition}, {code(node.body)}, {code(node.orelse)})"
    return _rewrite(site, values, node, cst.parse_expression(text))


def _of_if(site: Site, node: cst.If, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    if comments_in(node.test) or comments_in(node.body):
        raise Refusal("")
    name, value = _binding(branch_of(node.body).statements)
    if isinstance(node.orelse, cst.Else):
        if comments_in(node.orelse):
            raise Refusal("")
        other_name, other = _binding(branch_of(node.orelse.body).statements)
        if other_name != name:
            raise Refusal("")
        check_name(site, name, function, node, 2)
    elif node.orelse is None:
        other = values.before(name)
        check_name(site, name, function, node, 2)
    else:
        raise Refusal("")
    arms = [_number(arm, values) for arm in (value, other)]
    _check_uses(site, name, function, node, arms, values)
    condition = _test(node.test, values)
    text = f"{name} = {values.torch}.where({condition}, {code(value)}, {code(other)})"
    line: cst.BaseStatement = cst.parse_statement(text)
    block = list(site.block_of(node))
    line = line.with_changes(leading_lines=leading(node))
    if block.index(node) == 0:
        (line,) = first_of_block([line])
    return _rewrite(site, values, node, line)


def _rewrite(site: Site, values: Values, node: cst.CSTNode, new: cst.CSTNode) -> Rewrite:
    edit = site.edit()
    edit.replace(node, new)
    if values.torch_missing:
        edit.add_import("torch")
    return edit.rewrite("choose the number with torch.where", notes=[_NOTE], rank=15)


def _test(test: cst.BaseExpression, values: Values) -> str:
    condition = split(test, values)
    if condition.python or condition.node is None or not is_point(condition.node, values):
        raise Refusal("")
    return condition.tensor


def _binding(statements: list[cst.BaseStatement]) -> tuple[str, cst.BaseExpression]:
    """``name = value``, the only statement of a branch."""
    match statements:
        case [
            cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]) as only]
            )
        ]:
            return name, only.value
    raise Refusal("")


def _number(node: cst.BaseExpression, values: Values) -> tuple[Fact, int | float | None]:
    """What the arm is, and its value where it is a literal."""
    fact = values.fact(node)
    simple = isinstance(node, cst.BaseNumber | cst.Name | cst.UnaryOperation | cst.Attribute)
    if not simple or fact is None or fact.kind not in ("int", "float"):
        raise Refusal("")
    return fact, number_of(node)


def check_name(
    site: Site, name: str, function: cst.FunctionDef, statement: cst.CSTNode, bindings: int
) -> None:
    """Refuse a name that anything else binds, or may read at some other time."""
    does = activity(function.body)
    if name in parameters_of(function.params) or name in does.captures | does.globals:
        raise Refusal("")
    if name in does.nonlocals | does.deletes or does.frame_access:
        raise Refusal("")
    if any(isinstance(a, cst.For | cst.While) for a in site.ancestors(statement)):
        raise Refusal("")
    bound = 0
    for node in walk(function.body):
        if isinstance(node, cst.BaseSmallStatement | cst.NamedExpr | cst.AsName):
            bound += name in activity(node).bound
        elif isinstance(node, cst.For | cst.CompFor):
            bound += name in {n.value for n in walk(node.target) if isinstance(n, cst.Name)}
    if bound != bindings:
        raise Refusal("")


def _check_uses(
    site: Site,
    name: str,
    function: cst.FunctionDef,
    statement: cst.CSTNode,
    arms: list[tuple[Fact, int | float | None]],
    values: Values,
) -> None:
    """Refuse where a use after the statement could tell the number from a tensor."""
    for node in uses_after(site, name, function, statement):
        if not _is_scale(site, node, arms, values):
            raise Refusal("")


def uses_after(
    site: Site, name: str, function: cst.FunctionDef, statement: cst.CSTNode
) -> Iterator[cst.Name]:
    """Where the function names the variable after the statement."""
    end = site.span(statement).end_line
    for node in walk(function.body):
        if not isinstance(node, cst.Name) or node.value != name:
            continue
        holder = site.parent(node)
        attribute = isinstance(holder, cst.Attribute) and holder.attr is node
        keyword = isinstance(holder, cst.Arg) and holder.keyword is node
        if not attribute and not keyword and site.span(node).line > end:
            yield node


def _is_scale(
    site: Site,
    node: cst.BaseExpression,
    arms: list[tuple[Fact, int | float | None]],
    values: Values,
) -> bool:
    """Whether the node is an operand of a tensor, and both numbers compute the same as tensors."""
    holder = site.parent(node)
    if not isinstance(holder, cst.BinaryOperation):
        return False
    if not isinstance(holder.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
        return False
    other = values.fact(holder.left if holder.right is node else holder.right)
    if other is None or not other.is_tensor or other.dtype not in FLOAT_DTYPES:
        return False
    if not other.shape and (other.shape is None or other.dtype != "torch.float32"):
        return False
    return all(_is_as_good(fact, value, other.dtype or "") for fact, value in arms)


#: Integers up to here are exact, and so are quarters of a quarter of them.
_EXACT = {"torch.bfloat16": 256, "torch.float16": 2048, "torch.float64": 2**24}


def _is_as_good(fact: Fact, value: int | float | None, dtype: str) -> bool:
    """Whether arithmetic in the dtype takes the number for the same as a tensor of it."""
    if dtype == "torch.float32":
        return fact.kind == "int" or value is None or abs(value) < 2**100
    if value is None:
        return False
    return abs(value) <= _EXACT.get(dtype, 0) / 4 and value * 4 == int(value * 4)
