"""A data-dependent ``if`` with cheap branches becomes ``torch.where``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import always_returns
from gbfix.analysis.liveness import live_after
from gbfix.analysis.tree import code, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..choice.doubts import doubts_of
from .branches import branch_of, leading
from .layout import first_of_block, statement_line, wrap_in_if
from .predicates import split
from .refusal import Refusal
from .sites import depth_of, if_at, rest_of, without_gradients
from .surroundings import check_later_changes
from .values import Values


class IfToWhere(Codemod):
    """Turns a data-dependent ``if`` between two cheap tensors into ``torch.where``.

    **What it does**

    Evaluates both arms and selects: ``x = torch.where(test, a, b)`` for one assigned name or a
    returned value.  Cheaper than ``torch.cond`` where the arms are a few elementwise operations.

    **When it applies**

    The test is one element without dimensions; both arms are made of the same floating tensors (so
    that they have the same shape and dtype whatever the input) by elementwise operations that
    cannot fail and whose gradient is finite for every input: sums, differences, products with
    numbers, ``clamp``, ``relu``, ``nan_to_num``.

    **Fix safety**

    ``torch.where`` passes a gradient of zero to the arm not taken: an operation whose derivative
    can be infinite or NaN there would turn that zero into NaN.  Only operations that cannot are
    accepted.  Where an arm is a tensor from outside, the result is a copy.

    **Refuses**

    Arms of different tensors; anything with an effect, random numbers, division,
    ``log``, ``sqrt``, ``exp``, products of two tensors; calls of unknown functions and modules.
    """

    name = "if-to-where"
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
                if x.sum() > 0:
                    return x + 1
                return x - 1
            """,
            """
            import torch

            def f(x):
                return torch.where(x.sum() > 0, x + 1, x - 1)
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(hidden, layer):
                hidden = layer(hidden)

                # Clamp infinities to enable fp16 training.
                if hidden.dtype == torch.float16 and (
                    torch.isinf(hidden).any() or torch.isnan(hidden).any()
                ):
                    clamp_value = torch.finfo(hidden.dtype).max - 1000
                    hidden = torch.clamp(hidden, min=-clamp_value, max=clamp_value)
                return hidden
            """,
            """
            import torch

            def f(hidden, layer):
                hidden = layer(hidden)

                # Clamp infinities to enable fp16 training.
                if hidden.dtype == torch.float16:
                    clamp_value = torch.finfo(hidden.dtype).max - 1000
                    hidden = torch.where(
                        torch.isinf(hidden).any() | torch.isnan(hidden).any(),
                        torch.clamp(hidden, min=-clamp_value, max=clamp_value),
                        hidden,
                    )
                return hidden
            """,
            at="torch.isinf(hidden).any()",
            facts={"hidden": tensor(2, 3, dtype="torch.float16")},
        ),
        Example(
            """
            import torch as T

            def f(x, y):
                if not (x > y).all():
                    x = T.relu(x) + 2 * y
                else:
                    x = x - y
                return x
            """,
            """
            import torch as T

            def f(x, y):
                x = T.where(T.logical_not((x > y).all()), T.relu(x) + 2 * y, x - y)
                return x
            """,
            at="(x > y).all()",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
    )
    near_misses = (
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    x = x / y
                return x
            """,
            at="x.sum() > 0",
            why="the gradient of a division by zero is NaN even where it is not taken",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                if x.sum() > 0:
                    x = torch.log(x)
                return x
            """,
            at="x.sum() > 0",
            why="the gradient of log is infinite at zero",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    x = x * y
                return x
            """,
            at="x.sum() > 0",
            why="an infinite y gives the arm not taken a gradient of NaN",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    x = x + y
                return x
            """,
            at="x.sum() > 0",
            why="the arms differ in shape",
            facts={"x": tensor(3), "y": tensor(2, 3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    x = x + y
                return x
            """,
            at="x.sum() > 0",
            why="of the same shape in this run only: another y would broadcast",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    x = y
                return x
            """,
            at="x.sum() > 0",
            why="the arms differ in dtype: where would promote",
            facts={"x": tensor(3), "y": tensor(3, dtype="torch.float64")},
        ),
        NearMiss(
            """
            def f(x, n):
                if x.sum() > 0:
                    n = n + 1
                return x, n
            """,
            at="x.sum() > 0",
            why="the arms are Python numbers",
            facts={"x": tensor(3), "n": scalar(1)},
        ),
        NearMiss(
            """
            def f(self, x):
                if x.sum() > 0:
                    x = self.layer(x)
                return x
            """,
            at="x.sum() > 0",
            why="a module is not cheap, and may have effects",
            facts={"x": tensor(3), "self.layer": Fact("module", "torch.nn.Linear")},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x += 1
                return x
            """,
            at="x.sum() > 0",
            why="`+=` changes the caller's tensor",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask:
                    x = x + 1
                return x
            """,
            at="mask",
            why="one element with a dimension would broadcast",
            facts={"x": tensor(), "mask": tensor(1, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    y = x
                y += 1
                return x
            """,
            at="x.sum() > 0",
            why="the caller's tensor is changed afterwards",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x = x + 1
                    y = x
                return x
            """,
            at="x.sum() > 0",
            why="more than one statement",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x = x * 2  # doubled
                return x
            """,
            at="x.sum() > 0",
            why="a comment would be lost",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x = x.t()
                return x
            """,
            at="x.sum() > 0",
            why="a transposed arm has other strides",
            facts={"x": tensor(3, 3)},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None or comments_in(node.test):
            return
        try:
            yield _rewrite(site, node, site.function)
        except Refusal:
            return


@dataclasses.dataclass(frozen=True)
class _Arms:
    """Statements that come first, what both arms give, and the name that takes it ("" returns)."""

    setup: Sequence[cst.BaseStatement]
    true: cst.BaseExpression
    false: cst.BaseExpression
    name: str
    swallowed: Sequence[cst.BaseStatement] = ()


def _rewrite(site: Site, node: cst.If, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    condition = split(node.test, values)
    if condition.python and (condition.joint == "or" or node.orelse is not None):
        raise Refusal("")
    if condition.node is None or not is_point(condition.node, values):
        raise Refusal("")
    arms = _arms(site, node, function, values)
    if condition.python and not arms.name:
        raise Refusal("")
    for line in arms.setup:
        _check_setup(line, node, function, values)
    true, false = arm_of(arms.true, values), arm_of(arms.false, values)
    if (true.names, true.dtype) != (false.names, false.dtype):
        # Of the same tensors, elementwise, the arms have the same shape whatever the input.
        raise Refusal("")
    if max(true.operations, false.operations) > MOST_OPERATIONS:
        raise Refusal("")
    copied = {
        code(arm) for arm in (arms.true, arms.false) if isinstance(arm, cst.Name | cst.Attribute)
    }
    roots = {text.partition(".")[0] for text in copied}
    check_later_changes(site, node, values, roots | {arms.name})
    head = f"{arms.name} = " if arms.name else "return "
    depth = depth_of(site, node) + (1 if condition.python else 0)
    arguments = [condition.tensor, code(arms.true), code(arms.false)]
    line = statement_line(site, f"{head}{values.torch}.where", arguments, depth)
    new: list[cst.BaseStatement] = [*arms.setup, line]
    if condition.python:
        new = [wrap_in_if(condition.python, new)]
    first, *others = first_of_block(new)
    above = [*leading(node), *leading(first)]
    edit = site.edit()
    edit.replace(node, first.with_changes(leading_lines=above), *others)
    for statement in arms.swallowed:
        edit.remove(statement)
    if values.torch_missing:
        edit.add_import("torch")
    notes = ["Both arms are evaluated; they are cheap and cannot fail."]
    if copied and without_gradients(site, node):
        raise Refusal("")
    if copied:
        names = ", ".join(f"`{name}`" for name in sorted(copied))
        notes.append(f"Where {names} was handed on itself, the result is now a copy.")
    doubts = doubts_of(site, node)
    return edit.rewrite(
        "select with torch.where instead of branching",
        notes=[*notes, *doubts],
        rank=15,
        safety=Safety.UNSAFE if doubts else Safety.SAFE,
    )


# -- the arms --------------------------------------------------------------------------------


def _arms(site: Site, node: cst.If, function: cst.FunctionDef, values: Values) -> _Arms:
    body = branch_of(node.body)
    other = None if node.orelse is None else _else_body(node.orelse)
    if comments_in(node.body) or (node.orelse is not None and comments_in(node.orelse)):
        raise Refusal("")
    *setup, last = body.statements
    returned = _value(last, "")
    if returned is not None:
        rest: Sequence[cst.BaseStatement] = ()
        if other is None:
            rest = other = rest_of(site, node)
            if any(comments_in(statement) for statement in rest):
                raise Refusal("")
        if len(other) != 1 or not always_returns(other):
            raise Refusal("")
        value = _value(other[0], "")
        if value is None:
            raise Refusal("")
        return _Arms(setup, returned, value, "", rest)
    name = _target(last)
    value = _value(last, name) if name else None
    if value is None or name not in live_after(function, node):
        raise Refusal("")
    if other is None:
        return _Arms(setup, value, values.before(name), name)
    if len(other) != 1:
        raise Refusal("")
    other_value = _value(other[0], name)
    if other_value is None:
        raise Refusal("")
    return _Arms(setup, value, other_value, name)


def _else_body(orelse: cst.If | cst.Else) -> list[cst.BaseStatement]:
    if isinstance(orelse, cst.If):
        raise Refusal("")
    return branch_of(orelse.body).statements


def _only(node: cst.BaseStatement) -> cst.BaseSmallStatement | None:
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        return node.body[0]
    return None


def _target(node: cst.BaseStatement) -> str:
    match _only(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name
    return ""


def _value(node: cst.BaseStatement, name: str) -> cst.BaseExpression | None:
    """What a statement assigns to the name, or returns where the name is empty."""
    small = _only(node)
    if not name:
        return small.value if isinstance(small, cst.Return) else None
    if isinstance(small, cst.Assign) and _target(node) == name:
        return small.value
    return None


def _check_setup(
    line: cst.BaseStatement, node: cst.If, function: cst.FunctionDef, values: Values
) -> None:
    """A Python number that only the branch needs may be computed whether it is taken or not."""
    name = _target(line)
    value = _value(line, name) if name else None
    if value is None or name in live_after(function, node) or not _is_number(value, values):
        raise Refusal("")
    # It must not hide a name that the test or the other arm reads.
    if name in activity(node.test).reads or (
        node.orelse is not None and name in activity(node.orelse).reads
    ):
        raise Refusal("")
    values.numbers.add(name)


def _is_number(node: cst.BaseExpression, values: Values) -> bool:
    """Whether the expression is a Python number whose computation cannot fail."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.UnaryOperation(operator=cst.Minus()):
            return _is_number(node.expression, values)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
            return _is_number(node.left, values) and _is_number(node.right, values)
        case cst.Attribute(
            attr=cst.Name(value="max" | "min" | "eps" | "tiny"),
            value=cst.Call(
                func=cst.Attribute(attr=cst.Name(value="finfo")),
                args=[cst.Arg(value=cst.Attribute(attr=cst.Name(value="dtype"), value=of))],
            ),
        ):
            fact = values.fact(of)
            return fact is not None and fact.dtype in _FLOATS
        case cst.Name() | cst.Attribute():
            if isinstance(node, cst.Name) and node.value in values.numbers:
                return True
            fact = values.fact(node)
            return fact is not None and fact.kind in ("int", "float")
    return False


# -- what torch.where takes ------------------------------------------------------------------

_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
#: Functions of one tensor with a finite derivative everywhere (zero times it is zero, never NaN).
_SAFE = words("relu neg clone zeros_like ones_like")
#: The same, with numbers as further arguments.
_SAFE_WITH_NUMBERS = words("clamp clip clamp_min clamp_max nan_to_num")
MOST_OPERATIONS = 4


def is_point(node: cst.BaseExpression, values: Values) -> bool:
    """Whether the test has no dimensions, so that it can select whole tensors of any shape."""
    if isinstance(node, cst.BooleanOperation):
        return is_point(node.left, values) and is_point(node.right, values)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return is_point(node.expression, values)
    if isinstance(node, cst.Comparison) and len(node.comparisons) > 1:
        sides = [node.left, *(target.comparator for target in node.comparisons)]
        facts = [values.fact(side) for side in sides]
        return all(f is not None and (f.shape == () or f.is_python_scalar) for f in facts)
    fact = values.fact(node)
    return fact is not None and fact.is_tensor and fact.shape == ()


@dataclasses.dataclass(frozen=True)
class Arm:
    """An arm that torch.where may evaluate in vain: its operations, and what it gives."""

    operations: int
    names: frozenset[str]
    dtype: str

    def one_more(self) -> Arm:
        return dataclasses.replace(self, operations=self.operations + 1)


def arm_of(node: cst.BaseExpression, values: Values) -> Arm:
    """The arm of an expression of elementwise operations on plain tensors, or `Refusal`."""
    match node:
        case cst.Name():
            fact = values.fact(node)
            if fact is not None and fact.is_tensor and _is_plain(fact):
                return Arm(0, frozenset({node.value}), fact.dtype or "")
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return arm_of(inner, values).one_more()
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract(), left=left, right=right):
            if _is_number(left, values):
                return arm_of(right, values).one_more()
            if _is_number(right, values):
                return arm_of(left, values).one_more()
            one, other = arm_of(left, values), arm_of(right, values)
            if one.dtype == other.dtype:
                operations = one.operations + other.operations + 1
                return Arm(operations, one.names | other.names, one.dtype)
        case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
            # Zero times a finite number is zero: the gradient of the arm not taken stays so.
            if isinstance(left, cst.Integer | cst.Float):
                return arm_of(right, values).one_more()
            if isinstance(right, cst.Integer | cst.Float):
                return arm_of(left, values).one_more()
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name), value=receiver)):
            return _arm_of_call(node, name, receiver, values)
    raise Refusal("")


def _arm_of_call(node: cst.Call, name: str, receiver: cst.BaseExpression, values: Values) -> Arm:
    arguments = list(node.args)
    if values.of_torch(node):
        if not arguments or arguments[0].keyword is not None or arguments[0].star:
            raise Refusal("")
        receiver = arguments.pop(0).value
    numbers = all(not arg.star and _is_number(arg.value, values) for arg in arguments)
    if (name in _SAFE and not arguments) or (name in _SAFE_WITH_NUMBERS and numbers):
        return arm_of(receiver, values).one_more()
    raise Refusal("")


def _is_plain(fact: Fact) -> bool:
    """Whether the tensor is floating and laid out so that every result is laid out alike."""
    if fact.dtype not in _FLOATS:
        return False
    if fact.strides is None or fact.shape is None or None in (*fact.shape, *fact.strides):
        return True
    expected = 1
    for size, stride in zip(reversed(fact.shape), reversed(fact.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size or 1
    return True
