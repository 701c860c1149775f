"""Branches that end with the same call: ``Output(a, b)`` here, ``Output(c, d)`` there.

``torch.cond`` gives tensors.  The branches give what the call takes, and the call comes after them:
it is made once in either case, by then as before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code

from .branches import Branch
from .refusal import Refusal
from .values import Values

_CONSTANTS = cst.Integer | cst.Float | cst.SimpleString


@dataclasses.dataclass(frozen=True)
class CommonCall:
    """The text of what is called, with what, and what the branches' results are called.

    Without ``names`` the results are all that the call takes, in order.
    """

    callee: str
    arguments: str
    names: list[str]

    def around(self, head: str) -> tuple[str, str, list[cst.BaseStatement]]:
        """What stands before and after the cond, and the line that follows; see `Lowering`."""
        if not self.names:
            return f"{head}{self.callee}({self.arguments}", ")", []
        line = cst.parse_statement(f"{head}{self.callee}({self.arguments})")
        return f"{', '.join(self.names)} = ", "", [line]

    def others(self, calls: set[str]) -> set[str]:
        """The texts of calls without those of this one, which stands in no branch."""
        return {text for text in calls if not text.startswith(f"{self.callee}(")}


def common_call(branches: Sequence[Branch], values: Values, taken: set[str]) -> CommonCall | None:
    """The call that both branches return; they return its differing arguments from here on."""
    one, other = (_returned(branch) for branch in branches)
    if one is None or other is None or code(one.func) != code(other.func):
        return None
    bound = activity([s for branch in branches for s in branch.statements]).writes
    if not _is_made(one, other, values) or activity(one.func).reads & bound:
        return None
    callee = code(one.func)
    alike = [
        _stays(left.value, bound) and code(left.value) == code(right.value)
        for left, right in zip(one.args, other.args, strict=False)
    ]
    if not any(alike) and all(arg.keyword is None for arg in (*one.args, *other.args)):
        plain = [call for call in (one, other) if not _unpacked(call)]
        counts = {len(call.args) for call in plain}
        if len(counts) > 1 or 0 in counts or any(arg.star for c in plain for arg in c.args):
            return None
        for branch, call in zip(branches, (one, other), strict=True):
            _give(branch, [arg.value for arg in call.args])
        return CommonCall(callee, "" if counts == {1} else "*", [])
    if [_keyword(arg) for arg in one.args] != [_keyword(arg) for arg in other.args]:
        return None
    names: list[str] = []
    shown: list[str] = []
    given: list[int] = []
    for index, (left, right) in enumerate(zip(one.args, other.args, strict=True)):
        keyword, text = _keyword(left), code(left.value)
        if left.star or right.star:
            return None
        if not alike[index]:
            text = fresh(keyword or f"value_{index + 1}", taken)
            taken.add(text)
            names.append(text)
            given.append(index)
        shown.append(f"{keyword}={text}" if keyword else text)
    if not names:
        raise Refusal("both branches give the same")
    for branch, call in zip(branches, (one, other), strict=True):
        _give(branch, [call.args[index].value for index in given])
    return CommonCall(callee, ", ".join(shown), names)


def _keyword(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def _unpacked(call: cst.Call) -> bool:
    """Whether the call takes what an inner cond gives: ``Output(*torch.cond(...))``."""
    match call.args:
        case [cst.Arg(star="*", value=cst.Call(func=cst.Attribute(attr=cst.Name(value="cond"))))]:
            return True
    return False


def _returned(branch: Branch) -> cst.Call | None:
    """The call that the branch returns at its end, its only way out."""
    match branch.statements:
        case [*_, cst.SimpleStatementLine(body=[cst.Return(value=cst.Call() as call)])]:
            plain = not call.lpar and exits(branch.statements).returns == 1
            return call if plain and "#" not in code(call) else None
    return None


def _is_made(one: cst.Call, other: cst.Call, values: Values) -> bool:
    """Whether the call makes an object of tensors, as far as runs have seen it."""
    if not isinstance(one.func, cst.Name | cst.Attribute):
        return False
    facts = [fact for call in (one, other) if (fact := values.fact(call)) is not None]
    plain = ("list", "dict", "set", "generator", "iterator")
    return bool(facts) and not any(
        fact.is_tensor
        or fact.is_python_scalar
        or fact.kind in plain
        or fact.type.removeprefix("builtins.") == "tuple"
        for fact in facts
    )


def _stays(node: cst.BaseExpression, bound: frozenset[str]) -> bool:
    """Whether the argument has the same value after the branches."""
    match node:
        case cst.Name(value=name):
            return name not in bound
    return isinstance(node, _CONSTANTS)


def _give(branch: Branch, values: Sequence[cst.BaseExpression]) -> None:
    """Lets the branch return the values alone, the very nodes: what is known of them stays."""
    line = cst.ensure_type(branch.statements[-1], cst.SimpleStatementLine)
    result: cst.BaseExpression = values[0]
    if len(values) > 1:
        result = cst.Tuple([cst.Element(value) for value in values], lpar=(), rpar=())
    new = cst.Return(result, whitespace_after_return=cst.SimpleWhitespace(" "))
    branch.statements[-1] = line.with_changes(body=[new])
