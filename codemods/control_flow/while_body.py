"""What a ``while`` does in one round, taken apart at the ``break`` that may end it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import constant_test, exits
from gbfix.analysis.tree import code

from .branches import branch_of, leading
from .if_to_where import is_point
from .predicates import Refusal, split
from .values import Values


@dataclasses.dataclass
class Round:
    """A loop's test ("" for ``while True``), and the statements of one round.

    ``stop`` is the ``if`` that ends with ``break``, ``last`` what it does before, ``after`` what
    follows it in the body.
    """

    test: cst.BaseExpression | None
    before: list[cst.BaseStatement]
    stop: cst.If | None = None
    last: Sequence[cst.BaseStatement] = ()
    after: Sequence[cst.BaseStatement] = ()

    @property
    def tests(self) -> list[cst.BaseExpression]:
        """The expressions that decide whether the loop goes on."""
        tests = (self.test, None if self.stop is None else self.stop.test)
        return [test for test in tests if test is not None]


def round_of(node: cst.While) -> Round:
    """One round of the loop, or `Refusal`."""
    forever = constant_test(node.test) is True
    test = None if forever else node.test
    statements = list(branch_of(node.body).statements)
    found = exits(statements)
    if found.returns or found.continues or found.yields or found.awaits or found.raises:
        raise Refusal("the body leaves the loop; make the reason to stop a part of the condition")
    if not found.breaks:
        if forever:
            raise Refusal("it never ends")
        return Round(test, statements)
    for index, statement in enumerate(statements):
        match statement:
            case cst.If(orelse=None) if exits([statement]).breaks:
                *last, end = branch_of(statement.body).statements
                alone = isinstance(end, cst.SimpleStatementLine) and len(end.body) == 1
                ends = alone and isinstance(end.body[0], cst.Break)  # type: ignore[attr-defined]
                if not ends or found.breaks != 1 or comments_in(statement.body):
                    break
                if node.orelse is not None:
                    raise Refusal("it has an `else` beside its `break`")
                after = statements[index + 1 :]
                return Round(test, statements[:index], statement, last, after)
    raise Refusal("a `break` stands deeper in the body; make its reason a part of the condition")


def flag_line(round_: Round, flag: str, values: Values) -> cst.BaseStatement:
    """``done = test``, with the comments of the ``if`` that ended the loop."""
    stop = round_.stop
    assert stop is not None
    condition = split(stop.test, values)
    if condition.python or condition.node is None or not is_point(condition.node, values):
        raise Refusal("the test before `break` has a Python part, or dimensions")
    line = cst.parse_statement(f"{flag} = {condition.tensor}")
    return line.with_changes(leading_lines=leading(stop))


def check_apart(
    last: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode], carries: Collection[str]
) -> None:
    """Refuse where both run and what stands after the ``if`` reads a name that was bound in it."""
    shared = (activity(last).writes - set(carries)) & activity(after).reads
    if shared:
        raise Refusal(f"`{min(shared)}` is bound before `break` and read after it")


def selected(
    statements: Sequence[cst.BaseStatement],
    template: str,
    carries: Collection[str],
    values: Values,
) -> list[cst.BaseStatement]:
    """The statements, where each binding of a carried name selects between old and new value.

    ``template`` holds ``{old}`` and ``{new}``.  What binds other names runs as it stands.
    """
    done: list[cst.BaseStatement] = []
    for statement in statements:
        names = activity(statement).writes & set(carries)
        if not names:
            if not _only_binds(statement):
                raise Refusal(f"`{code(statement).strip()}` stands beside the `break`")
            done.append(statement)
            continue
        match statement:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]) as only]
            ):
                check_alike(name, only.value, values)
                text = template.format(old=name, new=code(only.value))
                value = cst.parse_expression(text)
                done.append(statement.with_changes(body=[only.with_changes(value=value)]))
            case _:
                raise Refusal(f"`{min(names)}` is bound in a way that torch.where cannot take")
    return done


def _only_binds(node: cst.BaseStatement) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, cst.Assign | cst.AnnAssign | cst.Pass) for small in node.body
    )


def check_alike(name: str, value: cst.BaseExpression, values: Values) -> None:
    """Refuse where torch.where would broadcast or promote what the loop would have kept."""
    old, new = values.outside(name), values.fact(value)
    if old is None or new is None or not (old.is_tensor and new.is_tensor):
        raise Refusal(f"it is not known what `{code(value)}` is")
    if old.shape is None or (old.shape, old.dtype) != (new.shape, new.dtype):
        raise Refusal(f"`{name}` changes its shape or dtype")
