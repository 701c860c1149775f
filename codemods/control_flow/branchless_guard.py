"""``if mask.any(): x[mask] = 0``: a guard whose body does nothing when the test is false."""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .branches import leading
from .layout import first_of_block, wrap_in_if
from .predicates import split
from .refusal import Refusal
from .sites import if_at, without_gradients
from .surroundings import check_later_changes
from .values import Values

#: The largest number of float16.
_HALF = 65504


class BranchlessGuard(Codemod):
    """Drops a guard around a masked update that does nothing where the mask is empty.

    **What it does**

    ``if mask.any(): x[mask] = 0`` becomes ``x[mask] = 0``, and ``if mask.any(): x =
    x.masked_fill(mask, 0)`` loses its guard likewise.  Python parts of the test stay.

    **When it applies**

    The test is ``any()`` of a bool tensor; the body is one statement that writes a number where
    that very tensor is true, by subscript or ``masked_fill``; there is no ``else``.

    **Fix safety**

    With an empty mask the update writes nothing: values, shapes and dtypes stay.  ``masked_fill``
    makes a copy where the guard handed the tensor on; the subscript counts as a change in place.

    **Refuses**

    Masks that are not surely bool and of the shape of the tensor's first dimensions (an empty mask
    of another shape raises only without the guard); tensors that need gradients, or that are
    expanded, updated in place (that raises even where nothing is written); anything else than a
    number being written; bodies that change more than the mask selects, such as ``clamp`` under
    ``isinf(x).any()``: finite values beyond the bound would change, too.
    """

    name = "branchless-guard"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            """
            def f(x, mask):
                x = x * 2
                # Padding has no features.
                if mask.any():
                    x[mask] = 0  # in place
                return x
            """,
            """
            def f(x, mask):
                x = x * 2
                # Padding has no features.
                x[mask] = 0  # in place
                return x
            """,
            at="mask.any()",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        Example(
            """
            import torch

            def f(x):
                if torch.any(x > 3):
                    x[x > 3] = 3.0
                return x
            """,
            """
            import torch

            def f(x):
                x[x > 3] = 3.0
                return x
            """,
            at="torch.any(x > 3)",
            facts={"x": tensor(4, 3)},
        ),
        Example(
            """
            class M:
                def forward(self, x, mask):
                    if self.training and mask.any():
                        x = x.masked_fill(mask, float("-inf"))
                    return x
            """,
            """
            class M:
                def forward(self, x, mask):
                    if self.training:
                        x = x.masked_fill(mask, float("-inf"))
                    return x
            """,
            at="mask.any()",
            facts={"x": tensor(4, 3), "mask": tensor(4, 3, dtype="torch.bool")},
        ),
    )
    near_misses = (
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] = 0
                else:
                    x = x + 1
                return x
            """,
            at="mask.any()",
            why="the guard decides about more",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[~mask] = 0
                return x
            """,
            at="mask.any()",
            why="another mask",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.all():
                    x[mask] = 0
                return x
            """,
            at="mask.all()",
            why="a mask that is not full is not empty",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] = 0
                return x
            """,
            at="mask.any()",
            why="an integer mask selects rows, never nothing",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.int64")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] = 0
                return x
            """,
            at="mask.any()",
            why="changing a leaf that needs gradients raises, empty mask or not",
            facts={"x": tensor(4, 3, requires_grad=True), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] = 0
                return x
            """,
            at="mask.any()",
            why="a mask that does not fit raises only where it is used",
            facts={"x": tensor(4, 3), "mask": tensor(3, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, y, mask):
                if mask.any():
                    x[mask] = y[mask]
                return x
            """,
            at="mask.any()",
            why="what is written depends on the data in shape",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool"), "y": tensor(4, 3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                if torch.isinf(x).any():
                    x = torch.clamp(x, min=-1000, max=1000)
                return x
            """,
            at="torch.isinf(x).any()",
            why="clamp changes finite values beyond the bound, too",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                if torch.isnan(x).any():
                    x = torch.nan_to_num(x)
                return x
            """,
            at="torch.isnan(x).any()",
            why="nan_to_num changes infinities, too",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] += 1
                return x
            """,
            at="mask.any()",
            why="a read and a write, whose gradient and duplicates differ",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x[mask] = 0
                    x = x + 1
                return x
            """,
            at="mask.any()",
            why="the body does more",
            facts={"x": tensor(4, 3), "mask": tensor(4, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, y, mask):
                y = x
                if mask.any():
                    y = y.masked_fill(mask, 0)
                y.add_(1)
                return x
            """,
            at="mask.any()",
            why="where the mask is empty, the caller's tensor is changed afterwards",
            facts={"x": tensor(4, 3), "mask": tensor(4, 3, dtype="torch.bool"), "y": tensor(4, 3)},
        ),
        NearMiss(
            """
            def f(x, mask):
                if mask.any():
                    x = x.masked_fill(mask, 0)
                return x
            """,
            at="mask.any()",
            why="a larger mask broadcasts the result",
            facts={"x": tensor(3), "mask": tensor(4, 3, dtype="torch.bool")},
        ),
        NearMiss(
            """
            def f(x, pick):
                if pick(x).any():
                    x[pick(x)] = 0
                return x
            """,
            at="pick(x).any()",
            why="the mask is computed by unknown code, once or twice",
            facts={"x": tensor(4), "pick(x)": tensor(4, dtype="torch.bool")},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None or node.orelse is not None:
            return
        try:
            yield _rewrite(site, node)
        except Refusal:
            return


def _beyond_half(fill: cst.BaseExpression) -> list[str]:
    """``x.masked_fill(mask, -1e9)`` is an error for float16, whatever the mask says."""
    for part in walk(fill):
        if isinstance(part, cst.Float | cst.Integer):
            number = abs(float(part.evaluated_value))
            if _HALF < number < math.inf:
                return [f"{code(part)} is too large for float16, also where the mask is empty."]
    return []


def _rewrite(site: Site, node: cst.If) -> Rewrite:
    values = Values(site)
    condition = split(node.test, values)
    mask = _mask(condition.node, values)
    body = _body(node)
    if mask is None or body is None or condition.joint == "or" or comments_in(node.test):
        raise Refusal("")
    (small,) = body.body
    notes = ["With an empty mask the update writes nothing."]
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)], value=value):
            _check_store(target, value, mask, values)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            _check_fill(name, value, mask, values)
            if without_gradients(site, node):
                raise Refusal("")
            check_later_changes(site, node, values, {name})
            notes.append(
                f"Where the mask is empty, `{name}` is now a copy, and has the mask's size, if that"
                " is larger."
            )
            notes += _beyond_half(value)
        case _:
            raise Refusal("")
    above = [*leading(node), *body.leading_lines]
    new: cst.BaseStatement = body
    if condition.python:
        new = wrap_in_if(condition.python, first_of_block([body]))
        above = list(leading(node))
    edit = site.edit()
    edit.replace(node, new.with_changes(leading_lines=above))
    return edit.rewrite("drop the guard around a masked update", notes=notes, rank=10)


def _mask(test: cst.BaseExpression | None, values: Values) -> cst.BaseExpression | None:
    """The bool tensor whose ``any()`` is the test, if evaluating it again gives the same."""
    if not isinstance(test, cst.Call) or not isinstance(test.func, cst.Attribute):
        return None
    mask = values.operand(test)
    if test.func.attr.value != "any" or mask is None or not values.is_bool_tensor(mask):
        return None
    effects = values.effects(mask)
    return mask if effects.pure else None


def _body(node: cst.If) -> cst.SimpleStatementLine | None:
    match node.body:
        case cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[_]) as line]):
            if node.body.header.comment is None and not _comments_in_footer(node.body):
                return line
        case cst.SimpleStatementSuite(body=[small]):
            return cst.SimpleStatementLine(
                [small], trailing_whitespace=node.body.trailing_whitespace
            )
    return None


def _comments_in_footer(block: cst.IndentedBlock) -> bool:
    return any(line.comment is not None for line in block.footer)


def _check_store(
    target: cst.Subscript, value: cst.BaseExpression, mask: cst.BaseExpression, values: Values
) -> None:
    """``x[mask] = number`` on a tensor that may be written whether the mask is empty or not."""
    if len(target.slice) != 1 or not isinstance(target.slice[0].slice, cst.Index):
        raise Refusal("")
    if not _same(target.slice[0].slice.value, mask) or not isinstance(target.value, cst.Name):
        raise Refusal("")
    fact = values.fact(target.value)
    shape = values.fact(mask)
    if fact is None or not fact.is_tensor or shape is None:
        raise Refusal("")
    _check_shapes(fact.shape, shape.shape, exact=False)
    expanded = fact.strides is not None and any(
        stride == 0 and size != 1
        for stride, size in zip(fact.strides, fact.shape or (), strict=True)
    )
    if expanded or values.needs_gradients() or not _is_number(value, fact, values):
        raise Refusal("")


def _check_fill(
    name: str, value: cst.BaseExpression, mask: cst.BaseExpression, values: Values
) -> None:
    """``x = x.masked_fill(mask, number)``."""
    match value:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as base, attr=cst.Name(value="masked_fill")),
            args=[first, second],
        ) if base.value == name and first.keyword is None and second.keyword is None:
            fact, shape = values.fact(base), values.fact(mask)
            if fact is None or not fact.is_tensor or shape is None:
                raise Refusal("")
            _check_shapes(fact.shape, shape.shape, exact=True)
            if _same(first.value, mask) and _is_number(second.value, fact, values):
                return
    raise Refusal("")


def _check_shapes(
    whole: tuple[int | None, ...] | None, mask: tuple[int | None, ...] | None, *, exact: bool
) -> None:
    """The mask fits whether it is empty or not, and filling does not broadcast the tensor."""
    if whole is None or mask is None or not mask:
        raise Refusal("")
    if whole[: len(mask)] != mask or (exact and len(whole) != len(mask)):
        raise Refusal("")


def _same(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    plain = [node.with_changes(lpar=(), rpar=()) for node in (one, other)]
    return code(plain[0]) == code(plain[1])


def _is_number(node: cst.BaseExpression, into: Fact, values: Values) -> bool:
    """Whether the expression is a number that the tensor takes (no infinity goes into an int)."""
    fact = values.fact(node)
    called = isinstance(node, cst.Call) and code(node.func) == "float"
    simple = isinstance(node, cst.BaseNumber | cst.Name | cst.UnaryOperation) or called
    if not simple or fact is None:
        return False
    floating = into.dtype in FLOAT_DTYPES
    return fact.kind in ("int", "bool") or (fact.kind == "float" and floating)
