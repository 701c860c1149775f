"""Numbers that Python or numpy draw, and what is done with them.

A number in a tensor of its own (float64, no dimension) behaves in arithmetic as the number does,
beside tensors that have dimensions; beside those that have none it would widen the result, so that
it is converted there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..wrap.capture import Parameter, is_global_object

#: Draws of one float in float64, and of whole numbers of a known count.
_FLOATS = words(
    "uniform random random_sample rand beta normal gauss normalvariate triangular gamma"
)
_FLOATS |= words("betavariate expovariate exponential standard_normal randn lognormal vonmises")
_INDEXES = words("permutation")
_MAKERS = words("numpy.random.default_rng numpy.random.RandomState random.Random")
_COMPARES = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


@dataclasses.dataclass(frozen=True)
class Draw:
    """A draw that an operator can make: its call, and the call inside the operator."""

    call: cst.Call
    body: cst.BaseExpression
    parameters: tuple[Parameter, ...]
    #: How many whole numbers it draws; "" for one float.
    count: str
    name: str


@dataclasses.dataclass(frozen=True)
class Cast:
    """A place where the number meets a tensor without dimensions, whose dtype must win."""

    node: cst.BaseExpression
    text: str
    dtype: str


def draw_of(site: Site, call: cst.Call) -> Draw | None:
    """The draw that a call is, if an operator can make it."""
    func = call.func
    if not isinstance(func, cst.Attribute | cst.Name) or comments_in(call):
        return None
    method = func.attr.value if isinstance(func, cst.Attribute) else func.value
    if method not in _FLOATS | _INDEXES or not _is_source(site, call):
        return None
    if any(argument.star or argument.keyword is not None for argument in call.args):
        return None
    if len(call.args) > 2:
        return None  # several numbers
    if method in ("rand", "randn", "random_sample", "standard_normal", "random") and call.args:
        return None
    fact = site.fact(call)
    if method in _INDEXES:
        if len(call.args) != 1 or (fact is not None and fact.kind != "ndarray"):
            return None
    elif fact is not None and (fact.kind, fact.type) != ("float", "float"):
        return None
    taken = {"anchor"}
    parameters: list[Parameter] = []
    arguments: list[cst.Arg] = []
    for argument in call.args:
        value = argument.value
        if _is_number(value):
            arguments.append(argument)
            continue
        given = site.fact(value)
        kinds = ("int",) if method in _INDEXES else ("int", "float")
        if given is None or given.kind not in kinds or given.type != given.kind:
            return None
        known = next((item for item in parameters if code(item.argument) == code(value)), None)
        if known is None:
            last = (dotted(value) or "").rpartition(".")[2]
            base = fresh(last if last.isidentifier() else "count", taken)
            taken.add(base)
            kind = "int" if method in _INDEXES else "torch.types.Number"
            known = Parameter(base, kind, value.deep_clone(), given)
            parameters.append(known)
        arguments.append(argument.with_changes(value=cst.Name(known.name)))
    body = call.with_changes(args=arguments, lpar=(), rpar=())
    count = code(arguments[0].value) if method in _INDEXES else ""
    return Draw(call, body, tuple(parameters), count, _bound_name(site, call))


def _is_source(site: Site, call: cst.Call) -> bool:
    """Whether the call draws from a stream of the process, or of the module."""
    func = call.func
    name = resolve(site.module, func) or ""
    root: cst.BaseExpression = func
    while isinstance(root, cst.Attribute):
        root = root.value
    if site.function is None or not isinstance(root, cst.Name):
        return False
    if root.value in function_scope(site.function).locals:
        return False  # imported here: the operator would not see it
    if name.rpartition(".")[0] in ("random", "numpy.random"):
        return True
    if not isinstance(func, cst.Attribute) or not is_global_object(site, func.value):
        return False
    makers = [
        resolve(site.module, part.value.func)
        for part in walk(site.module)
        if isinstance(part, cst.Assign)
        and isinstance(part.value, cst.Call)
        and code(part.targets[0].target) == code(func.value)
    ]
    return len(makers) == 1 and makers[0] in _MAKERS


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    return isinstance(node, cst.Integer | cst.Float)


def _bound_name(site: Site, call: cst.Call) -> str:
    match site.parent(call):
        case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]):
            return name
    return ""


# -- what is done with the number ------------------------------------------------------------------


class _Unfit(Exception):
    pass


def fits(site: Site, draw: Draw) -> list[Cast] | None:
    """Where the tensor must be converted, for it to do for the number; None where it cannot."""
    try:
        if draw.count:
            return _only_index(site, draw)
        return list(_uses(site, draw.call, draw.name))
    except _Unfit:
        return None


def _only_index(site: Site, draw: Draw) -> list[Cast]:
    for use in _reads(site, draw.name):
        index = site.parent(use)
        element = site.parent(index) if isinstance(index, cst.Index) else None
        holder = site.parent(element) if element is not None else None
        if not isinstance(holder, cst.Subscript):
            raise _Unfit
        fact = site.fact(holder.value)
        if fact is None or not fact.is_tensor or len(holder.slice) != 1:
            raise _Unfit
    return []


def _reads(site: Site, name: str) -> list[cst.Name]:
    """Where a name that is bound once is read; `_Unfit` where inner functions may."""
    assert site.function is not None
    what = activity(site.function.body)
    if not name or name in what.captures:
        raise _Unfit
    found: list[cst.Name] = []
    stores = 0
    for node in site.places_of(name, site.function):
        if isinstance(site.parent(node), cst.AssignTarget):
            stores += 1
        else:
            found.append(node)
    if stores != 1 or not found or any(isinstance(site.parent(n), cst.AugAssign) for n in found):
        raise _Unfit
    return found


def _uses(site: Site, node: cst.BaseExpression, text: str) -> Iterator[Cast]:
    """Follow a number from an expression to what takes it."""
    parent = site.parent(node)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]):
            for use in _reads(site, name):
                yield from _uses(site, use, name)
        case cst.BinaryOperation(operator=operator) if isinstance(operator, _ARITHMETIC):
            other = parent.right if parent.left is node else parent.left
            yield from _beside(site, node, other, parent, text)
        case cst.UnaryOperation(operator=cst.Minus()):
            yield from _uses(site, parent, code(parent))
        case cst.AugAssign(target=target, operator=operator) if isinstance(
            operator, cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign | cst.DivideAssign
        ):
            fact = site.fact(target) or _local(site, target)
            if not _has_dimensions(fact):
                raise _Unfit
        case cst.Comparison() | cst.ComparisonTarget():
            _compared(site, node, parent)
        case cst.If() | cst.While() | cst.BooleanOperation():
            raise _Unfit
        case _:
            raise _Unfit


def _local(site: Site, node: cst.BaseExpression) -> Fact | None:
    if isinstance(node, cst.Name):
        return site.locals_before(site.statement_of(node)).get(node.value)
    return None


def _has_dimensions(fact: Fact | None) -> bool:
    floats = ("torch.float", "torch.bfloat")
    return (
        fact is not None
        and fact.is_tensor
        and bool(fact.shape)
        and (fact.dtype or "").startswith(floats)
    )


def _beside(
    site: Site,
    node: cst.BaseExpression,
    other: cst.BaseExpression,
    parent: cst.BinaryOperation,
    text: str,
) -> Iterator[Cast]:
    if _is_number(other):
        yield from _uses(site, parent, code(parent))
        return
    fact = site.fact(other) or _local(site, other)
    if fact is None:
        raise _Unfit
    if fact.kind in ("int", "float") and fact.type == fact.kind:
        yield from _uses(site, parent, code(parent))
    elif not fact.is_tensor or not (fact.dtype or "").startswith(("torch.float", "torch.bfloat")):
        raise _Unfit
    elif fact.shape == ():
        dtype = next(
            (
                f"{code(part)}.dtype"
                for part in walk(other)
                if isinstance(part, cst.Name)
                and (found := site.fact(part) or _local(site, part)) is not None
                and found.is_tensor
                and found.dtype == fact.dtype
            ),
            "",
        )
        if not dtype:
            raise _Unfit
        grouped = isinstance(node, cst.BinaryOperation | cst.UnaryOperation) and not node.lpar
        yield Cast(node, f"({code(node)})" if grouped else code(node), dtype)


def _compared(site: Site, node: cst.BaseExpression, parent: cst.CSTNode) -> None:
    """A comparison with a number, of which only the truth is asked."""
    comparison = site.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
    if not isinstance(comparison, cst.Comparison) or len(comparison.comparisons) != 1:
        raise _Unfit
    target = comparison.comparisons[0]
    other = target.comparator if comparison.left is node else comparison.left
    fact = site.fact(other)
    number = isinstance(other, cst.Integer | cst.Float) or (
        fact is not None and fact.kind in ("int", "float") and fact.type == fact.kind
    )
    # What an object holds was not seen where the question was not asked, as in evaluation.
    number = number or (fact is None and (dotted(other) or "").startswith("self."))
    if not number or not isinstance(target.operator, _COMPARES) or not _is_asked(site, comparison):
        raise _Unfit


def _is_asked(site: Site, node: cst.CSTNode) -> bool:
    """Whether only the truth of a value counts."""
    parent = site.parent(node)
    match parent:
        case cst.If() | cst.While() | cst.IfExp():
            return parent.test is node
        case cst.BooleanOperation():
            return _is_asked(site, parent)
        case cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.Assign(targets=[cst.AssignTarget(cst.Name() as name)]):
            try:
                return all(_is_asked(site, use) for use in _reads(site, name.value))
            except _Unfit:
                return False
    return False
