"""What a ``while`` does in one round, and how it may end."""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.exits import constant_test, exits

from .branches import branch_of
from .masked import tests_in
from .predicates import Refusal


@dataclasses.dataclass
class Round:
    """A loop's test (None for ``while True``), the statements of one round, and whether a
    ``break`` may end it."""

    test: cst.BaseExpression | None
    statements: list[cst.BaseStatement]
    breaks: bool

    @property
    def tests(self) -> list[cst.BaseExpression]:
        """The expressions that decide whether the loop goes on, and what a round does."""
        return [*([] if self.test is None else [self.test]), *tests_in(self.statements)]


def round_of(node: cst.While) -> Round:
    """One round of the loop, or `Refusal`."""
    forever = constant_test(node.test) is True
    statements = list(branch_of(node.body).statements)
    found = exits(statements)
    if found.returns or found.yields or found.awaits or found.raises:
        raise Refusal("the body leaves the loop; make the reason to stop a part of the condition")
    if forever and not found.breaks:
        raise Refusal("it never ends")
    if found.breaks and node.orelse is not None:
        raise Refusal("it has an `else` beside its `break`")
    if found.breaks > 1:
        raise Refusal("it has more than one `break`; make their reasons one condition")
    return Round(None if forever else node.test, statements, found.breaks > 0)
