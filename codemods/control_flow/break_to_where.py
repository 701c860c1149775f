"""A loop that tensor data ends early runs to its bound; ``torch.where`` keeps what it had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .branches import branch_of, holds_comment, leading, without_blank_start
from .break_to_cond import carried_tensors, check_loop
from .if_to_where import is_point
from .layout import statement_line
from .predicates import Refusal, operand, split
from .sites import depth_of, if_at, rest_of
from .surroundings import check_later_changes
from .vain import zero_stays_zero
from .values import Values
from .while_body import check_apart, selected

_IN = 20 * " "


def _then(body: str) -> str:
    return f"{body}\n{_IN}if x.sum() < 1: break"


class BreakToWhere(Codemod):
    """Turns ``if test: break`` in a loop of known length into a flag and ``torch.where``.

    **What it does**

    The loop goes through all its rounds.  Once the test was true, the rounds left compute in vain:
    the names that the loop carries keep what they had.  ``if test: return y`` becomes the same,
    and the ``return`` after the loop selects.

    **When it applies**

    A ``for`` loop without ``else`` over a range, a list or a tensor's rows, whose only exit is one
    ``if`` in its own block; the names that it carries are tensors that are bound before, keep their
    shape and dtype, and are bound by plain assignments.

    **Fix safety**

    Unsafe where a derivative of a round may not be finite: the gradient of a round computed in vain
    is zero, which becomes NaN then.

    **Refuses**

    Further jumps in the loop; carried Python values; in-place changes, random numbers, effects and
    unseen calls in the loop; a loop variable that is used afterwards; Python arithmetic that may
    fail in a round that was not reached; a ``return`` of what only one round knows.
    """

    name = "break-to-where"
    codes = ("GB0170", "data-dependent-guard")
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
                "what one round knows",
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
    check_loop(site, loop, function, values)
    _check_arithmetic(loop, values)
    condition = split(node.test, values)
    if condition.python or condition.node is None or not is_point(condition.node, values):
        raise Refusal("")
    carries = carried_tensors(site, loop, function, values)
    *last, end = branch_of(node.body).statements
    returned = _returned(end)
    block_ = branch_of(loop.body)
    index = block_.statements.index(node)
    before, after = block_.statements[:index], block_.statements[index + 1 :]
    check_apart(last, after, carries)
    taken = names_in(site.module)
    done = fresh("done", taken)
    where = f"{values.torch}.where"
    new = selected(before, f"{where}({done}, {{old}}, {{new}})", carries, values)
    new += _flag(site, node, condition.tensor, done, end, last, carries, values)
    new += selected(after, f"{where}({done}, {{old}}, {{new}})", carries, values)
    check_later_changes(site, loop, values, set(carries))
    edit = site.edit()
    vain: list[cst.CSTNode] = [*before, *last, *after]
    if returned is not None:
        vain.append(_select_return(site, loop, returned, done, carries, values, edit))
    above = leading(loop)
    comments = without_blank_start(above)
    flag = cst.parse_statement(f"{done} = {values.torch}.tensor(False, device={carries[0]}.device)")
    flag = flag.with_changes(leading_lines=above[: len(above) - len(comments)])
    body = loop.body.with_changes(body=new)
    edit.replace(loop, flag, loop.with_changes(body=body, leading_lines=comments))
    if values.torch_missing:
        edit.add_import("torch")
    notes = ["All rounds of the loop are run; those after the end compute in vain."]
    safety = Safety.SAFE
    facts = [values.outside(name) for name in carries]
    floats = any(fact is None or fact.dtype in FLOAT_DTYPES for fact in facts)
    if floats and not zero_stays_zero(vain, values):
        safety = Safety.UNSAFE
        notes.append("With gradients, a derivative that is not finite there makes them NaN.")
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


def _flag(
    site: Site,
    node: cst.If,
    test: str,
    done: str,
    end: cst.BaseStatement,
    last: Sequence[cst.BaseStatement],
    carries: Sequence[str],
    values: Values,
) -> list[cst.BaseStatement]:
    """``done = done | (test)`` with what the branch did before it ended the loop."""
    comments = [line for line in leading(end) if line.comment is not None]
    trailing = _trailing(node, end)
    if not last:
        line = _line(f"{done} = {done} | {operand(test)}", trailing)
        return [line.with_changes(leading_lines=[*leading(node), *comments])]
    stops = fresh("stops", names_in(site.module))
    text = f"{stops} = {values.torch}.logical_not({done}) & {operand(test)}"
    first = _line(text, trailing).with_changes(leading_lines=leading(node))
    template = f"{values.torch}.where({stops}, {{new}}, {{old}})"
    ending = cst.parse_statement(f"{done} = {done} | {stops}")
    return [
        first,
        *selected(last, template, carries, values),
        ending.with_changes(leading_lines=comments),
    ]


def _trailing(node: cst.If, end: cst.BaseStatement) -> cst.Comment | None:
    """The comment beside the ``if`` or beside its end; there is room for one."""
    assert isinstance(end, cst.SimpleStatementLine)
    header = node.body.header.comment if isinstance(node.body, cst.IndentedBlock) else None
    footer = node.body.footer if isinstance(node.body, cst.IndentedBlock) else ()
    beside = end.trailing_whitespace.comment
    if isinstance(node.body, cst.SimpleStatementSuite):
        beside = node.body.trailing_whitespace.comment
    if (header and beside) or any(line.comment for line in footer):
        raise Refusal("")
    return header or beside


def _line(text: str, comment: cst.Comment | None) -> cst.SimpleStatementLine:
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    if comment is None:
        return line
    trailing = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), comment)
    return line.with_changes(trailing_whitespace=trailing)


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
