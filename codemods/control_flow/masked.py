"""A loop's round as a straight line: what an ``if`` decides, ``torch.where`` selects.

``continue`` and ``break`` become flags, and what follows them in the round keeps its old values
where the flag is set.  Every statement is run, in vain or not; so only what cannot fail may stand
behind a test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, telling_name
from gbfix.analysis.tree import code

from .blocks import ends_round, ends_with_break, without_continue
from .branches import Branch, branch_of, leading
from .if_to_where import is_point
from .predicates import is_data_dependent, split
from .refusal import Refusal
from .steady import cannot_fail
from .texts import operand, primary
from .values import Values

_TOO_DEEP = (
    "a `break`, `continue` or `return` is nested too deeply in the body; make its reason a flag"
)


@dataclasses.dataclass(frozen=True)
class Mask:
    """When statements count: where the named flag is set, or (``rests``) where it is not."""

    flag: str
    rests: bool

    def chosen(self, torch: str, old: str, new: str) -> str:
        arms = (old, new) if self.rests else (new, old)
        return f"{torch}.where({self.flag}, {', '.join(arms)})"

    def counts(self, torch: str) -> str:
        """The text of a tensor that tells whether the statements count."""
        return f"{torch}.logical_not({self.flag})" if self.rests else self.flag


class Line:
    """Converts the statements of a round; ``carries`` are the names whose values are selected.

    ``done`` is the flag that ``break`` sets, "" where the round has none; with ``adds_up`` it is
    set before the round and stays set (a ``for`` loop), else each round begins without it.
    ``result`` is the name that takes what a ``return`` in the round gives.
    """

    def __init__(
        self,
        carries: Collection[str],
        values: Values,
        taken: set[str],
        *,
        done: str = "",
        adds_up: bool = False,
        result: str = "",
    ) -> None:
        self._carries = set(carries)
        self._values = values
        self._torch = values.torch
        self._taken = taken | {done}
        self._done = done
        self._adds_up = adds_up
        self._result = result
        #: What runs whether it counts or not, as it was written.
        self.vain: list[cst.CSTNode] = []
        #: Names of flags.
        self.flags: set[str] = {done} - {""}

    def round(self, statements: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """The statements of the whole round."""
        mask = Mask(self._done, rests=True) if self._adds_up else None
        return self._block(statements, mask, top=True)

    def _block(
        self, statements: Sequence[cst.BaseStatement], mask: Mask | None, *, top: bool
    ) -> list[cst.BaseStatement]:
        done: list[cst.BaseStatement] = []
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if not isinstance(statement, cst.If):
                done.append(self._statement(statement, mask))
                continue
            jumps = _jumps([statement])
            if mask is None and not jumps and not self._depends(statement):
                done.append(statement)
                continue
            self._check_test(statement, mask)
            if not jumps:
                _check_apart(_blocks(statement), rest, self._carries)
                done += self._if(statement, mask)
                continue
            body = branch_of(statement.body)
            if not top or statement.orelse is not None or _jumps(body.statements) != 1:
                raise Refusal(_TOO_DEEP)
            if not ends_round(body) and not _ends_loop(body):
                raise Refusal(_TOO_DEEP)
            _check_apart([body.statements[:-1]], rest, self._carries)
            new, mask = self._jump(statement, body, mask, last=not rest)
            done += new
        return done

    # -- statements --------------------------------------------------------------------------

    def _statement(self, node: cst.BaseStatement, mask: Mask | None) -> cst.BaseStatement:
        if _jumps([node]):
            raise Refusal(_TOO_DEEP)
        if mask is None:
            return node
        names = activity(node).writes & self._carries
        self.vain.append(node)
        small = node.body if isinstance(node, cst.SimpleStatementLine) else ()
        for part in small:
            value = part.value if isinstance(part, cst.Assign | cst.AnnAssign) else None
            if value is not None and not cannot_fail(value, self._values):
                raise Refusal(
                    f"`{code(value)}` might raise an error where the original does not evaluate it"
                )
        if not names:
            plain = all(isinstance(s, cst.Assign | cst.AnnAssign | cst.Pass) for s in small)
            if not small or not plain:
                raise Refusal(f"`{code(node).strip()}` depends on a test in the loop")
            return node
        match node:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]) as only]
            ):
                check_alike(name, only.value, self._values)
                text = mask.chosen(self._torch, name, code(only.value))
                return node.with_changes(body=[only.with_changes(value=cst.parse_expression(text))])
        raise Refusal(f"`{min(names)}` is bound in a way that torch.where cannot take")

    def _if(self, node: cst.If, mask: Mask | None) -> list[cst.BaseStatement]:
        """An ``if`` from which nothing jumps."""
        test = self._test(node)
        true, false = branch_of(node.body), _else(node)
        if any(line.comment is not None for line in (*true.footer, *false.footer)):
            raise Refusal("a comment stands at the end of a branch")
        both = self._one_choice(node, true, false, test, mask)
        if both is not None:
            return [both]
        flag = self._name(telling_name(node.test))
        first = _line(f"{flag} = {test}", leading(node), true.header)
        if mask is None:
            new = self._block(true.statements, Mask(flag, rests=False), top=False)
            other = self._block(false.statements, Mask(flag, rests=True), top=False)
            return [first, *new, *_above(false, other)]
        first = _line(
            f"{flag} = {mask.counts(self._torch)} & {operand(test)}", leading(node), true.header
        )
        new = self._block(true.statements, Mask(flag, rests=False), top=False)
        if not false.statements:
            return [first, *new]
        other_flag = self._name("otherwise")
        text = f"{other_flag} = {mask.counts(self._torch)} & {self._torch}.logical_not({flag})"
        other = self._block(false.statements, Mask(other_flag, rests=False), top=False)
        return [first, *new, *_above(false, [_line(text), *other])]

    def _one_choice(
        self, node: cst.If, true: Branch, false: Branch, test: str, mask: Mask | None
    ) -> cst.BaseStatement | None:
        """``x = torch.where(test, a, b)`` where the branches do nothing but to bind one name."""
        if comments_in(node.body) or (node.orelse is not None and comments_in(node.orelse)):
            return None
        name, value = _only_binding(true)
        if not name:
            return None
        other_name, other = _only_binding(false) if false.statements else (name, cst.Name(name))
        if name != other_name or value is None or other is None:
            return None
        if name not in self._carries:
            return None
        for arm in (value, other):
            if isinstance(arm, cst.Name) and arm.value == name:
                continue
            check_alike(name, arm, self._values)
            if not cannot_fail(arm, self._values):
                raise Refusal(
                    f"`{code(arm)}` might raise an error where the original does not evaluate it"
                )
        self.vain += [*true.statements, *false.statements]
        text = f"{self._torch}.where({test}, {code(value)}, {code(other)})"
        if mask is not None:
            text = mask.chosen(self._torch, name, text)
        return _line(f"{name} = {text}", leading(node))

    def _jump(
        self, node: cst.If, body: Branch, mask: Mask | None, *, last: bool
    ) -> tuple[list[cst.BaseStatement], Mask | None]:
        """``if test: ...; break`` or ``continue``: its flag, and when what follows counts."""
        test = self._test(node)
        breaks = _ends_loop(body)
        ending = body.statements[-1]
        without_continue(body)
        if self._result:
            body.statements += _bound_to(self._result, ending)
        if any(line.comment is not None for line in body.footer):
            raise Refusal("a comment stands at the end of a branch")
        above = [*leading(node), *(line for line in body.above if line.comment is not None)]
        torch, lasts = self._torch, body.statements
        if not breaks and not lasts and last:
            return [], mask  # the round ends anyway
        flag = self._done if breaks else self._name("skips")
        idle = mask is not None and mask.flag != self._done
        if mask is None:
            first = _line(f"{flag} = {test}", above, body.header)
            new = self._block(lasts, Mask(flag, rests=False), top=False)
            return [first, *new], Mask(flag, rests=True)
        if not lasts and not (breaks and idle):
            # What counts no longer, still does not.
            first = _line(f"{flag} = {mask.flag} | {operand(test)}", above, body.header)
            return [first], Mask(flag, rests=True)
        if breaks and not self._adds_up:
            first = _line(f"{flag} = {mask.counts(torch)} & {operand(test)}", above, body.header)
            new = self._block(lasts, Mask(flag, rests=False), top=False)
            return [first, *new, *self._either(mask, flag, last)], self._after
        stops = self._name("stops" if breaks else "now")
        first = _line(f"{stops} = {mask.counts(torch)} & {operand(test)}", above, body.header)
        new = self._block(lasts, Mask(stops, rests=False), top=False)
        if breaks:
            new.append(_line(f"{flag} = {flag} | {stops}"))
            if idle:
                return [first, *new, *self._either(mask, stops, last)], self._after
            return [first, *new], Mask(flag, rests=True)
        new.append(_line(f"{flag} = {mask.flag} | {stops}"))
        return [first, *new], Mask(flag, rests=True)

    def _either(self, mask: Mask, flag: str, last: bool) -> list[cst.BaseStatement]:
        """A flag for what two flags rule out together; `_after` is its mask."""
        if last:
            self._after: Mask | None = mask
            return []
        idle = self._name("idle")
        self._after = Mask(idle, rests=True)
        return [_line(f"{idle} = {mask.flag} | {flag}")]

    # -- tests -------------------------------------------------------------------------------

    def _test(self, node: cst.If) -> str:
        if comments_in(node.test):
            raise Refusal("a condition holds a comment")
        condition = split(node.test, self._values)
        if condition.python or condition.node is None:
            raise Refusal(
                f"`{code(node.test)}` is partly a Python value, or is not known to be a 0-d tensor"
            )
        if is_point(node.test, self._values):
            return condition.tensor
        fact = self._values.fact(node.test)
        if fact is None or fact.shape is None or any(size != 1 for size in fact.shape):
            raise Refusal(f"`{code(node.test)}` has dimensions")
        whole = condition.tensor.removesuffix(".reshape(())")
        return f"{primary(cst.parse_expression(whole))}.reshape(())"

    def _check_test(self, node: cst.If, mask: Mask | None) -> None:
        if mask is not None and not cannot_fail(node.test, self._values):
            raise Refusal(
                f"`{code(node.test)}` might raise an error where the original does not evaluate it"
            )

    def _depends(self, node: cst.If) -> bool:
        """Whether data decides a test of the chain: the rest may stay as it is."""
        if is_data_dependent(node.test, self._values):
            return True
        return isinstance(node.orelse, cst.If) and self._depends(node.orelse)

    def _name(self, wish: str) -> str:
        name = fresh(wish, self._taken)
        self._taken.add(name)
        self.flags.add(name)
        return name


def tests_in(statements: Sequence[cst.BaseStatement]) -> list[cst.BaseExpression]:
    """The tests of the ``if`` statements that a line would convert."""
    found: list[cst.BaseExpression] = []
    for statement in statements:
        if isinstance(statement, cst.If):
            found.append(statement.test)
            for block in _blocks(statement):
                found += tests_in([s for s in block if isinstance(s, cst.BaseStatement)])
    return found


def check_alike(name: str, value: cst.BaseExpression, values: Values) -> None:
    """Refuse where torch.where would broadcast or promote what the loop would have kept."""
    old, new = values.outside(name), values.fact(value)
    if old is None or new is None or not (old.is_tensor and new.is_tensor):
        raise Refusal(f"it is not known what `{code(value)}` is")
    if old.shape is None or (old.shape, old.dtype) != (new.shape, new.dtype):
        raise Refusal(f"`{name}` changes its shape or dtype")


def _jumps(statements: Sequence[cst.CSTNode]) -> int:
    return exits(statements).jumps


def _bound_to(name: str, ending: cst.BaseStatement) -> list[cst.BaseStatement]:
    """``name = value`` for ``return value``; nothing for other jumps."""
    match ending:
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as value)]):
            return [
                cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])
            ]
    return []


def _ends_loop(branch: Branch) -> bool:
    """Whether the branch ends with ``break`` or ``return``."""
    match branch.statements:
        case [*_, cst.SimpleStatementLine(body=[cst.Return()])]:
            return True
    return ends_with_break(branch)


def _blocks(node: cst.If) -> list[Sequence[cst.BaseStatement]]:
    return [branch_of(node.body).statements, _else(node).statements]


def _else(node: cst.If) -> Branch:
    match node.orelse:
        case None:
            return Branch([])
        case cst.Else() as orelse:
            return branch_of(orelse.body, orelse.leading_lines)
        case chained:
            return Branch([chained])


def _check_apart(
    blocks: Sequence[Sequence[cst.CSTNode]], after: Sequence[cst.CSTNode], carries: Collection[str]
) -> None:
    """Refuse where both branches run, and a name that one binds is read outside of it."""
    for index, block in enumerate(blocks):
        others = [node for other in blocks[index + 1 :] for node in other]
        shared = (activity(block).writes - set(carries)) & activity([*others, *after]).reads
        if shared:
            raise Refusal(f"`{min(shared)}` is bound behind a test and read outside of it")


def _only_binding(branch: Branch) -> tuple[str, cst.BaseExpression | None]:
    match branch.statements:
        case [
            cst.SimpleStatementLine(
                body=[
                    cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)
                ]
            )
        ]:
            return name, value
    return "", None


def _above(branch: Branch, statements: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The statements with the comments that stood above and beside ``else``."""
    lines = [line for line in branch.above if line.comment is not None]
    if branch.header is not None:
        lines.append(cst.EmptyLine(comment=branch.header))
    if not lines or not statements:
        return statements
    first, *others = statements
    return [first.with_changes(leading_lines=[*lines, *leading(first)]), *others]


def _line(
    text: str, above: Sequence[cst.EmptyLine] = (), comment: cst.Comment | None = None
) -> cst.BaseStatement:
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    if comment is not None:
        trailing = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), comment)
        line = line.with_changes(trailing_whitespace=trailing)
    return line.with_changes(leading_lines=above)
