"""A ``while`` that Python ends at the latest: what bounds it, and what data has to say before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import constant_test, exits
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..control_flow.branches import branch_of
from ..control_flow.if_to_where import is_point
from ..control_flow.predicates import is_data_dependent, predicate, scalar_read, split
from ..control_flow.refusal import Refusal
from ..control_flow.texts import number_of
from ..control_flow.values import Values
from .loops_width import is_one_wide, joined, times_bound

_BELOW = cst.LessThan | cst.LessThanEqual
_ABOVE = cst.GreaterThan | cst.GreaterThanEqual
_AND_THEN = "a `while` needs a Python counter with a limit (`while test and n < limit`)"


@dataclasses.dataclass(frozen=True)
class Bound:
    """A ``while`` as one that Python alone ends.

    ``python`` is its new test, ``ends`` the text of a tensor that says that data has ended the loop
    ("" where the test leaves data out), ``asked`` what it is made of, ``rounds`` how many rounds
    there were (1: unknown), ``meets`` whether it ends only where it counts up to its limit, and
    ``doubtful`` whether that limit is one that an object holds: 0 may say that there is none.
    """

    python: cst.BaseExpression
    ends: str
    rounds: int
    asked: tuple[cst.BaseExpression, ...] = ()
    meets: bool = False
    doubtful: bool = False


def bound_of(loop: cst.While, values: Values) -> Bound:
    """What ends the loop, or `Refusal` where it is not sure that Python does."""
    if loop.orelse is not None:
        raise Refusal("a `while` with an `else`")
    statements = branch_of(loop.body).statements
    python: cst.BaseExpression = cst.Name("True")
    ends = ""
    if constant_test(loop.test) is not True:
        python, ends = _parts(loop, values)
    parts = _conjuncts(loop.test)
    asked = [part for part in parts if is_data_dependent(part, values)]
    tests = [part for part in parts if part not in asked]
    for statement in statements:
        for test in _leaving(statement):
            tests += [_denied(part) for part in _alternatives(test)]
    counts = [rounds for test in tests if (rounds := _rounds(test, loop, values))]
    if not counts and exits([loop.body]).continues:
        raise Refusal("a `continue` may skip the line that counts its iterations")
    if not counts:
        raise Refusal(_AND_THEN)
    surely = [test for test in tests if not _is_unequal(test) and _rounds(test, loop, values)]
    computed = tuple(_computed(asked, values))
    held = any(
        isinstance(part, cst.Attribute)
        for test in tests
        if _is_unequal(test) and _rounds(test, loop, values)
        for part in walk(test)
    )
    return Bound(
        python, ends, min(counts), computed, meets=not surely, doubtful=held and not surely
    )


def surely_starts(loop: cst.While, values: Values) -> bool:
    """Whether what the test asks of data holds at first: ``done = torch.tensor(False)`` above."""
    for part in _conjuncts(loop.test):
        if not is_data_dependent(part, values):
            continue
        match part:
            case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name(name)):
                starts = "False"
            case cst.Name(name):
                starts = "True"
            case _:
                return False
        told = False
        for statement in values.site.block_of(loop):
            if statement is loop:
                break
            does = activity(statement)
            if name in does.bound | does.mutates:
                told = _is_made_of(statement, starts, values)
        if not told:
            return False
    return True


def _is_made_of(statement: cst.CSTNode, constant: str, values: Values) -> bool:
    """``done = torch.tensor(False, device=x.device)``"""
    match statement:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name())],
                    value=cst.Call(
                        func=func,
                        args=[cst.Arg(value=cst.Name(value), keyword=None, star=""), *_],
                    ),
                )
            ]
        ):
            return value == constant and resolve(values.site.module, func) == "torch.tensor"
    return False


def _is_unequal(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.NotEqual())]):
            return True
    return False


def _parts(loop: cst.While, values: Values) -> tuple[cst.BaseExpression, str]:
    """What Python decides of the test, and when data ends the loop."""
    test = loop.test
    if not is_data_dependent(test, values):
        return test, ""
    if comments_in(test) or any(isinstance(node, cst.NamedExpr) for node in walk(test)):
        raise Refusal("its condition binds a name, or holds a comment")
    asked = [part for part in _conjuncts(test) if is_data_dependent(part, values)]
    if not all(_is_point(part, values) for part in asked):
        raise Refusal(f"`{code(test)}` may have dimensions")
    counts = [part for part in _conjuncts(test) if part not in asked]
    if len(asked) == 1 and all(_rounds(part, loop, values) for part in counts):
        # To compare two whole numbers cannot fail, so that nothing tells which is asked first.
        return _all(counts), _ended(asked[0], values)
    condition = split(test, values)
    if condition.python and condition.joint != "and":
        raise Refusal(_AND_THEN)
    ends = f"{values.torch}.logical_not({condition.tensor})"
    return cst.parse_expression(condition.python or "True"), ends


def _all(tests: list[cst.BaseExpression]) -> cst.BaseExpression:
    return cst.parse_expression(" and ".join(code(test) for test in tests) or "True")


def _ended(test: cst.BaseExpression, values: Values) -> str:
    """The text of a tensor that says that ``while test`` is over."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return predicate(inner, values)
    return f"{values.torch}.logical_not({predicate(test, values)})"


def _is_point(node: cst.BaseExpression, values: Values) -> bool:
    """Whether the test has no dimensions (a bool was made of one number)."""
    fact = values.fact(node)
    return is_point(node, values) or (fact is not None and fact.kind == "bool")


def _computed(tests: list[cst.BaseExpression], values: Values) -> Iterator[cst.BaseExpression]:
    """What the tests compute, less the way in which Python reads a number."""
    for test in tests:
        sides: list[cst.BaseExpression] = [test]
        if isinstance(test, cst.Comparison):
            sides = [test.left, *(target.comparator for target in test.comparisons)]
        elif isinstance(test, cst.UnaryOperation):
            sides = [test.expression]
        for side in sides:
            read = scalar_read(side, values)
            yield side if read is None else read.tensor


def _conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    match test:
        case cst.BooleanOperation(operator=cst.And()):
            return [*_conjuncts(test.left), *_conjuncts(test.right)]
    return [test]


def _alternatives(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    match test:
        case cst.BooleanOperation(operator=cst.Or()):
            return [*_alternatives(test.left), *_alternatives(test.right)]
    return [test]


def _leaving(statement: cst.CSTNode | None) -> Iterator[cst.BaseExpression]:
    """The tests of ``if a: break``, and of what follows it as ``elif b: break``."""
    match statement:
        case cst.If(test=test, body=body, orelse=None | cst.If() as others) if only_breaks(body):
            yield test
            yield from _leaving(others)


def only_breaks(body: cst.BaseSuite) -> bool:
    match branch_of(body).statements[-1]:
        case cst.SimpleStatementLine(body=[cst.Break()]):
            return True
    return False


def _denied(test: cst.BaseExpression) -> cst.BaseExpression:
    """What holds as long as ``if test: break`` does not end the loop (known for orders alone)."""
    opposite: dict[type[cst.BaseCompOp], cst.BaseCompOp] = {
        cst.GreaterThanEqual: cst.LessThan(),
        cst.GreaterThan: cst.LessThanEqual(),
        cst.LessThanEqual: cst.GreaterThan(),
        cst.LessThan: cst.GreaterThanEqual(),
        cst.Equal: cst.NotEqual(),
    }
    match test:
        case cst.Comparison(comparisons=[target]) if type(target.operator) in opposite:
            new = target.with_changes(operator=opposite[type(target.operator)])
            return test.with_changes(comparisons=[new])
    return cst.Name("True")


def _rounds(test: cst.BaseExpression, loop: cst.While, values: Values) -> int:
    """How many rounds ``n < limit`` allows (at least 1), or 0 where it does not bound the loop."""
    match test:
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
            pass
        case _:
            return 0
    if isinstance(operator, cst.NotEqual):
        return max(_meets(left, right, loop, values), _meets(right, left, loop, values))
    up = isinstance(operator, _BELOW)
    if not up and not isinstance(operator, _ABOVE):
        return 0
    sides = ((left, right, up), (right, left, not up))
    return next((n for one, other, u in sides if (n := _counted(one, other, u, loop, values))), 0)


def _meets(
    counter: cst.BaseExpression, limit: cst.BaseExpression, loop: cst.While, values: Values
) -> int:
    """How many rounds ``n != limit`` allows (1: unknown), where the two will meet: each round adds
    1, and the limit is a number of the text, of an object or of an argument that is positive where
    it is left out, not known to be below the start.
    """
    named = isinstance(limit, cst.Name) and _is_positive_by_itself(limit.value, loop, values)
    if not named and not isinstance(limit, cst.Integer | cst.Attribute):
        return 0
    return _counted(counter, limit, True, loop, values, by_one=True)


def _is_positive_by_itself(name: str, loop: cst.While, values: Values) -> bool:
    """``def trace(rays, limit=50)``: whoever names a limit means one that is met."""
    function = values.site.function_of(loop)
    if function is None:
        return False
    parameters = function.params
    for parameter in (*parameters.params, *parameters.kwonly_params, *parameters.posonly_params):
        if parameter.name.value == name and isinstance(parameter.default, cst.Integer):
            return parameter.default.evaluated_value > 0
    return False


def _counted(
    counter: cst.BaseExpression,
    limit: cst.BaseExpression,
    up: bool,
    loop: cst.While,
    values: Values,
    *,
    by_one: bool = False,
) -> int:
    """How many rounds it takes a name that every round moves by a whole number to the limit, or a
    list to which every round appends.
    """
    match counter:
        case cst.Name(name):
            start = values.outside(name)
            if start is None or (by_one and start.value is None):
                start = _set_above(name, loop, values) or start
            step = _step(name, loop)
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name(name), star="")]):
            start, step = _length_above(name, loop, values), _appended(name, loop, values)
        case cst.BaseExpression() if (sized := _size_of(counter)) is not None:
            start, step = _width_above(*sized, values), _lengthened(*sized, loop, values)
        case _:
            return 0
    facts = [start, values.fact(limit)]
    if any(fact is None or fact.kind != "int" for fact in facts):
        return 0
    does = activity(loop.body)
    fixed = all(
        isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.BinaryOperation)
        or not isinstance(node, cst.BaseExpression)
        for node in walk(limit)
    )
    if not fixed or activity(limit).reads & does.bound or does.attribute_writes:
        return 0
    if step == 0 or (step > 0) is not up or (by_one and step != 1):
        return 0
    if by_one and (start is None or start.value is None):
        return 0
    starts, ends = (fact.value if fact is not None else None for fact in facts)
    if isinstance(starts, int) and isinstance(ends, int):
        if by_one and ends <= starts:
            return 0  # never met
        return max(abs(ends - starts) // abs(step), 1)
    return 1


def _set_above(name: str, loop: cst.While, values: Values) -> Fact | None:
    """The number that a line of the loop's own block gives the name, where that never ran."""
    found: Fact | None = None
    for statement in values.site.block_of(loop):
        if statement is loop:
            return found
        if name not in activity(statement).bound:
            continue
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name())],
                        value=cst.Integer() as number,
                    )
                ]
            ):
                found = Fact("int", "int", value=number.evaluated_value)
            case _:
                found = None
    return None


def _length_above(name: str, loop: cst.While, values: Values) -> Fact | None:
    """The length of a list that a line of the loop's own block makes, as a number."""
    found: Fact | None = None
    for statement in values.site.block_of(loop):
        if statement is loop:
            return found
        does = activity(statement)
        if name not in does.bound | does.mutates:
            continue
        lists = made_lists(statement)
        found = Fact("int", "int", value=len(lists[name])) if name in lists else None
    return None


def made_lists(statement: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    """By name: the elements of the new lists that a line binds: ``words, scores = [], [first]``."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
        ):
            pass
        case _:
            return {}
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, value)]
    match target, value:
        case cst.Tuple(elements=names), cst.Tuple(elements=values) if len(names) == len(values):
            pairs = [(one.value, other.value) for one, other in zip(names, values, strict=True)]
    return {
        one.value: [it.value for it in other.elements]
        for one, other in pairs
        if isinstance(one, cst.Name)
        and isinstance(other, cst.List)
        and all(type(it) is cst.Element for it in other.elements)
    }


def is_length(site: Site, place: cst.Name) -> bool:
    """``len(frames)``"""
    holder = site.parent(place)
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    return isinstance(call, cst.Call) and code(call.func) == "len"


def reads_last(site: Site, place: cst.Name) -> bool:
    """``frames[-1]``, read where it stands."""
    match site.parent(place):
        case (
            cst.Subscript(
                value=value,
                slice=[cst.SubscriptElement(slice=cst.Index(value=index))],
            ) as read
        ) if value is place and code(index).replace(" ", "") == "-1":
            match site.parent(read):
                case cst.AssignTarget() | cst.Del():
                    return False
                case cst.AugAssign(target=target):
                    return target is not read
            return True
    return False


def _appended(name: str, loop: cst.While, values: Values) -> int:
    """1 where each round appends once to the list, in the loop's own block, and only that."""
    before = True
    found = 0
    for statement in branch_of(loop.body).statements:
        before &= not exits([statement]).continues
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        value=cst.Call(
                            func=cst.Attribute(value=cst.Name(of), attr=cst.Name("append")),
                            args=[cst.Arg(star="", keyword=None)],
                        )
                    )
                ]
            ):
                pass
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Name(of),
                        operator=cst.AddAssign(),
                        value=cst.List(elements=[cst.Element()]),
                    )
                ]
            ):
                pass
            case _:
                continue
        if of == name:
            if not before:
                return 0
            found += 1
    site = values.site
    others = [
        it
        for it in site.places_of(name, loop.body)
        if not is_length(site, it) and not reads_last(site, it)
    ]
    return int(found == 1 and len(others) == 1)


def _step(name: str, loop: cst.While) -> int:
    """By how much each round changes the name, once, in the loop's own block; else 0."""
    steps: list[int] = []
    passed_over = False
    for statement in branch_of(loop.body).statements:
        passed_over |= exits([statement]).continues > 0
        if name not in activity(statement).bound:
            continue
        if passed_over:
            return 0
        step: float | None = None
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Name(),
                        operator=cst.AddAssign() | cst.SubtractAssign() as operator,
                        value=value,
                    )
                ]
            ):
                step = _signed(value, isinstance(operator, cst.AddAssign))
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name())],
                        value=cst.BinaryOperation(
                            left=cst.Name(value=old),
                            operator=cst.Add() | cst.Subtract() as sign,
                            right=value,
                        ),
                    )
                ]
            ) if old == name:
                step = _signed(value, isinstance(sign, cst.Add))
        steps.append(int(step) if step is not None and step == int(step) else 0)
    return steps[0] if len(steps) == 1 else 0


def _size_of(node: cst.BaseExpression) -> tuple[str, int] | None:
    """The name and the dimension of ``ids.shape[1]`` or ``ids.size(1)``."""
    match node:
        case cst.Subscript(
            value=cst.Attribute(value=cst.Name(name), attr=cst.Name("shape")),
            slice=[cst.SubscriptElement(slice=cst.Index(value=place))],
        ):
            pass
        case cst.Call(
            func=cst.Attribute(value=cst.Name(name), attr=cst.Name("size")),
            args=[cst.Arg(value=place, star="")],
        ):
            pass
        case _:
            return None
    number = number_of(place)
    return (name, number) if isinstance(number, int) else None


def _width_above(name: str, axis: int, values: Values) -> Fact | None:
    """The size of a tensor before the loop, as a number."""
    fact = values.outside(name)
    if fact is None or not fact.is_tensor or not fact.shape:
        return None
    if not -len(fact.shape) <= axis < len(fact.shape):
        return None
    return Fact("int", "int", value=fact.shape[axis])


def _lengthened(name: str, axis: int, loop: cst.While, values: Values) -> int:
    """1 where each round puts one more entry behind a tensor, in the loop's own block:
    ``ids = torch.cat([ids, token[:, None]], dim=-1)``.
    """
    fact = values.outside(name)
    if fact is None or not fact.shape:
        return 0
    width = len(fact.shape)
    passed_over = False
    for statement in branch_of(loop.body).statements:
        passed_over |= exits([statement]).continues > 0
        longer = joined(values.site, statement)
        if longer is None or longer[0] != name:
            continue
        along = int(longer[2]) % width
        single = is_one_wide(values.site, loop, longer[1], along, width, values)
        once = times_bound(loop, name) == 1 and not passed_over
        return int(single and once and along == axis % width)
    return 0


def _signed(value: cst.BaseExpression, adds: bool) -> float | None:
    number = number_of(value)
    if number is None or isinstance(number, complex):
        return None
    return number if adds else -number
