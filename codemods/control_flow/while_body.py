"""What a loop does in one round, and how it may end."""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.exits import constant_test, exits

from .branches import branch_of
from .masked import tests_in
from .refusal import Refusal


@dataclasses.dataclass
class Round:
    """A loop's test (None for ``while True`` and ``for``), the statements of one round, and whether
    a ``break`` may end it.

    Of a ``for`` over numbers, ``counter`` is their name, and ``start`` and ``stop`` are the texts
    of a number and of a tensor (of a number, too, where the loop is ``numbered``).
    """

    test: cst.BaseExpression | None
    statements: list[cst.BaseStatement]
    breaks: bool
    counter: str = ""
    start: str = ""
    stop: str = ""
    numbered: bool = False

    @property
    def tests(self) -> list[cst.BaseExpression]:
        """The expressions that decide whether the loop goes on, and what a round does."""
        return [*([] if self.test is None else [self.test]), *tests_in(self.statements)]


def round_of(node: cst.While | cst.For) -> Round:
    """One round of the loop, or `Refusal`."""
    test = node.test if isinstance(node, cst.While) else None
    forever = test is not None and constant_test(test) is True
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
    return Round(None if forever else test, statements, found.breaks > 0)
