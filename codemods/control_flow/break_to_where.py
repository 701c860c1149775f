"""A loop that tensor data ends early runs to its bound; ``torch.where`` keeps what it had."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import definitely_bound_before, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .branches import branch_of, holds_comment, leading, without_blank_start
from .break_to_cond import carried_tensors, check_loop
from .layout import statement_line
from .masked import Line
from .refusal import Refusal
from .sites import depth_of, if_at, rest_of, surely_without_gradients
from .steady import cannot_fail
from .surroundings import check_later_changes
from .vain import zero_stays_zero
from .values import Values

_IN = 20 * " "


def _then(body: str) -> str:
    return f"{body}\n{_IN}if x.sum() < 1: break"


class BreakToWhere(Codemod):
    """Turns ``if test: break`` in a loop of known length into a flag and ``torch.where``.

    **What it does**

    The loop runs all its iterations.  Once the test was true, what the remaining iterations compute
    is not used: the names that the loop carries keep what they had.  ``if test: return y`` becomes
    the same, and the ``return`` after the loop selects.

    **When it applies**

    A ``for`` loop without ``else`` over a range, a list or a tensor's rows, whose only exit is one
    ``if`` in its own block; the names that it carries are tensors that are bound before, keep their
    shape and dtype, and are bound by plain assignments.

    **Fix safety**

    Unsafe where a derivative in an iteration may not be finite: the gradient of an iteration whose
    results are not used is zero, which then becomes NaN.

    **Refuses**

    Further jumps in the loop; carried Python values; in-place changes, random numbers, effects and
    unseen calls in the loop; a loop variable that is used afterwards; Python arithmetic that may
    fail in an iteration that the original does not reach; a ``return`` of a value that only one
    iteration has.
    """

    name = "break-to-where"
    codes = ("GB0170", "GB0033", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(x):
                y = x
                # Until it fits.
                for _ in range(8):
                    new = y * 0.5
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
                # Until it fits.
                for _ in range(8):
                    new = y * 0.5
                    done = done | ((new - y).abs().max() < 1e-3)  # close enough
                    y = torch.where(done, y, new)
                return y
            """,
            at="(new - y).abs().max() < 1e-3",
            facts={"x": tensor(3), "y": tensor(3), "new": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                total = torch.zeros(3)
                for row in x:
                    total = total + row
                    if total.sum() > 9:
                        # Enough.
                        total = total - 1
                        break
                return total
            """,
            """
            import torch

            def f(x):
                total = torch.zeros(3)
                done = torch.tensor(False, device=total.device)
                for row in x:
                    total = torch.where(done, total, total + row)
                    stops = torch.logical_not(done) & (total.sum() > 9)
                    # Enough.
                    total = torch.where(stops, total - 1, total)
                    done = done | stops
                return total
            """,
            at="total.sum() > 9",
            facts={"x": tensor(4, 3), "row": tensor(3), "total": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                for i in range(4):
                    x = x * 0.5
                    if x.norm() < 1:
                        return x
                return x + 1
            """,
            """
            import torch

            def f(x):
                done = torch.tensor(False, device=x.device)
                for i in range(4):
                    x = torch.where(done, x, x * 0.5)
                    done = done | (x.norm() < 1)
                return torch.where(done, x, x + 1)
            """,
            at="x.norm() < 1",
            facts={"x": tensor(3), "x.norm()": tensor(), "i": scalar(0, constant=False)},
        ),
        Example(
            """
            import torch

            def f(rows):
                # Look for it.
                for row in rows:
                    if row.max() < 0:
                        continue
                    if row.sum() > 2:
                        return row * 2
                return -rows[0]
            """,
            """
            import torch

            def f(rows):
                found = -rows[0]
                done = torch.tensor(False, device=found.device)
                # Look for it.
                for row in rows:
                    skips = done | (row.max() < 0)
                    stops = torch.logical_not(skips) & (row.sum() > 2)
                    found = torch.where(stops, row * 2, found)
                    done = done | stops
                return found
            """,
            at="row.max() < 0",
            facts={"rows": tensor(4, 3), "row": tensor(3), "rows[0]": tensor(3)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"""
            import torch

            def f(x, y, n, g, xs):
                for i in {loop}:
                    {body}
                return {rest}
            """,
            at="x.sum() < 1",
            why=why,
            facts={
                "x": tensor(3),
                "y": tensor(2, 3),
                "n": scalar(0, constant=False),
                "i": scalar(0, constant=False),
                "xs": Fact("iterator", "generator"),
            },
        )
        for loop, body, rest, why in (
            ("range(4)", _then("x = x * 2"), "x, i", "where it stopped is a result"),
            ("range(4)", _then("x = x * 2; n = n + 1"), "x, n", "a Python number is carried"),
            ("range(4)", _then("x.mul_(2)"), "x", "in place"),
            ("range(4)", _then("x = g(x)"), "x", "unknown code"),
            ("range(4)", _then("x = x + torch.rand(3)"), "x", "random numbers"),
            ("range(4)", _then("x = x + (1 / (3 - i))"), "x", "a division fails in a later round"),
            ("range(4)", _then("x = y"), "x", "where would broadcast"),
            ("range(4)", _then("x = x.double()"), "x", "where would promote"),
            ("range(4)", _then("x, z = x * 2, 1"), "x", "a tuple is bound"),
            ("range(4)", _then("z = x * 2"), "z", "a name that may not be bound"),
            ("xs", _then("x = x * 2"), "x", "a generator would be used up"),
            (
                "range(4)",
                "z = x * 2; x = x + 1\n" + _IN + "if x.sum() < 1: return z",
                "x",
                "what one round knows, or what all rounds made",
            ),
            (
                "range(4)",
                "z = x * 2\n" + _IN + "if x.sum() < 1: return z",
                "torch.linalg.inv(y)",
                "the default may fail where it is not wanted",
            ),
            (
                "range(4)",
                "if x.sum() < 1: continue\n"
                + _IN
                + "x = torch.linalg.inv(x)"
                + "\n"
                + _IN
                + "if x.max() > 1: break",
                "x",
                "what is skipped may fail",
            ),
            (
                "range(4)",
                "if x.sum() < 1:\n" + _IN + "    if x.max() < 0: break\n" + _IN + "x = x - 1",
                "x",
                "a deeper jump",
            ),
            ("range(4)", "x = x + 1\n" + _IN + "if x.sum() < 1: return y", "x", "another shape"),
            ("range(4)", "x = x + 1\n" + _IN + "if x.sum() < 1: return x", "x, x", "a tuple"),
            (
                "range(4)",
                _then("x = x * 2") + "\n" + _IN[4:] + "else: x = x + 1",
                "x",
                "an else of the loop",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None:
            return
        try:
            yield _rewrite(site, node, site.function)
        except Refusal:
            return


def _rewrite(site: Site, node: cst.If, function: cst.FunctionDef) -> Rewrite:
    block = site.parent(node)
    loop = None if block is None else site.parent(block)
    if not isinstance(loop, cst.For) or loop.body is not block or loop.orelse is not None:
        raise Refusal("")
    if node.orelse is not None or holds_comment(node.test):
        raise Refusal("")
    values = Values(site)
    check_loop(site, loop, function, values, continues=True)
    _check_arithmetic(loop, values)
    ending = _way_out(loop)
    if ending is None:
        raise Refusal("")
    returned = _returned(ending)
    taken = names_in(site.module)
    found = None if returned is None else _found(site, loop, returned, taken, values)
    carries = [] if found is None else [found.name]
    if found is None or activity(loop.body).bound & live_before(function, loop):
        carries = [*carried_tensors(site, loop, function, values), *carries]
    done = fresh("done", taken)
    line = Line(carries, values, taken, done=done, adds_up=True, result=found.name if found else "")
    new = line.round(branch_of(loop.body).statements)
    check_later_changes(site, loop, values, set(carries))
    edit = site.edit()
    vain = line.vain
    if found is not None:
        vain.append(found.default)
        edit.replace(found.line, cst.parse_statement(f"return {found.name}"))
    elif returned is not None:
        vain.append(_select_return(site, loop, returned, done, carries, values, edit))
    above = leading(loop)
    comments = without_blank_start(above)
    flag = cst.parse_statement(f"{done} = {values.torch}.tensor(False, device={carries[0]}.device)")
    first = [flag] if found is None else [found.default, flag]
    first[0] = first[0].with_changes(leading_lines=above[: len(above) - len(comments)])
    body = loop.body.with_changes(body=new)
    edit.replace(loop, *first, loop.with_changes(body=body, leading_lines=comments))
    if values.torch_missing:
        edit.add_import("torch")
    notes = ["The loop runs all its iterations; what those after the end compute is not used."]
    safety = Safety.SAFE
    facts = [values.outside(name) for name in carries]
    floats = any(fact is None or fact.dtype in FLOAT_DTYPES for fact in facts)
    graded = floats and not surely_without_gradients(site, loop)
    if graded and not zero_stays_zero(vain, values):
        safety = Safety.UNSAFE
        notes.append(
            "If an operation that the original skips has a NaN or infinite derivative, gradients"
            " become NaN."
        )
    title = "let the loop run on, and keep what it had with torch.where"
    return edit.rewrite(title, notes=notes, rank=24, safety=safety)


def _returned(end: cst.BaseStatement) -> cst.BaseExpression | None:
    """The value of ``return value`` at the end of the branch; None for ``break``."""
    match end:
        case cst.SimpleStatementLine(body=[cst.Break()]):
            return None
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as value)]):
            return value
    raise Refusal("")


def _check_arithmetic(loop: cst.For, values: Values) -> None:
    """Refuse Python arithmetic that may fail in a round that the loop would not have reached."""
    fails = cst.Divide | cst.FloorDivide | cst.Modulo | cst.Power
    for node in walk(loop.body):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, fails):
            continue
        if not (values.is_tensor(node.left) or values.is_tensor(node.right)):
            raise Refusal("")


def _way_out(loop: cst.For) -> cst.BaseStatement | None:
    """The one ``break`` or ``return`` at the end of an ``if`` of the loop's own block."""
    found: cst.BaseStatement | None = None
    for statement in branch_of(loop.body).statements:
        if not isinstance(statement, cst.If):
            continue
        last = branch_of(statement.body).statements[-1]
        match last:
            case cst.SimpleStatementLine(body=[cst.Break() | cst.Return()]):
                if found is not None:
                    return None
                found = last
    return found


@dataclasses.dataclass(frozen=True)
class _Found:
    """A name for what a round finds and returns; what it holds where no round does."""

    name: str
    default: cst.SimpleStatementLine
    line: cst.BaseStatement


def _found(
    site: Site, loop: cst.For, value: cst.BaseExpression, taken: set[str], values: Values
) -> _Found | None:
    """How to keep a returned value that only its round knows; None where all rounds know it."""
    bound = activity(loop).bound
    if activity(value).reads.isdisjoint(bound - _targets_kept(site, loop)):
        return None
    match rest_of(site, loop):
        case [
            cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as other)]) as line
        ]:
            pass
        case _:
            raise Refusal("")
    # It is evaluated before the loop, though a round may return.
    if activity(other).reads & bound or not cannot_fail(other, values):
        raise Refusal("")
    fact = values.fact(other)
    if comments_in(line) or fact is None or not fact.is_tensor:
        raise Refusal("")
    name = fresh("found", taken)
    values.named[name] = fact
    default = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], other)])
    return _Found(name, default, line)


def _targets_kept(site: Site, loop: cst.For) -> frozenset[str]:
    """Names that are bound before the loop and go from round to round."""
    assert site.function is not None
    targets = {n.value for n in walk(loop.target) if isinstance(n, cst.Name)}
    return definitely_bound_before(site.function, loop) - targets


def _select_return(
    site: Site,
    loop: cst.For,
    value: cst.BaseExpression,
    done: str,
    carries: Sequence[str],
    values: Values,
    edit: Edit,
) -> cst.CSTNode:
    """Lets the ``return`` after the loop choose; gives that statement."""
    match rest_of(site, loop):
        case [
            cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as other)]) as line
        ]:
            pass
        case _:
            raise Refusal("")
    if activity(value).reads & (activity(loop).bound - set(carries)):
        raise Refusal("")  # what one round knows
    if comments_in(line) or not (values.effects(value).pure and values.effects(other).pure):
        raise Refusal("")
    if code(value) == code(other):
        return line
    one, two = values.fact(value), values.fact(other)
    if one is None or two is None or not (one.is_tensor and two.is_tensor):
        raise Refusal("")
    if one.shape is None or (one.shape, one.dtype) != (two.shape, two.dtype):
        raise Refusal("")
    arguments = [done, code(value), code(other)]
    depth = depth_of(site, line)
    new = statement_line(site, f"return {values.torch}.where", arguments, depth)
    edit.replace(line, new.with_changes(leading_lines=line.leading_lines))
    chosen = [cst.Assign([cst.AssignTarget(cst.Name("_"))], arm) for arm in (value, other)]
    return cst.SimpleStatementLine(chosen)
