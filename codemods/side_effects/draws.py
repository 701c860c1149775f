"""Numbers that Python or numpy draw, and what is done with them.

A number in a tensor of its own (float64, no dimension) behaves in arithmetic as the number does,
beside tensors that have dimensions; beside those that have none it would widen the result, so that
it is converted there.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..wrap.capture import Parameter, is_global_object
from .owners import attribute_of_self

#: Draws of one float in float64, and of whole numbers of a known count.
_FLOATS = words(
    "uniform random random_sample rand beta normal gauss normalvariate triangular gamma"
)
_FLOATS |= words("betavariate expovariate exponential standard_normal randn lognormal vonmises")
_INDEXES = words("permutation sample choice randint")
#: What the arguments of draws of several numbers are.
_PLACES = {
    "permutation": {0: "x"},
    "sample": {0: "population", 1: "k"},
    "choice": {0: "a", 1: "size", 2: "replace"},
    "randint": {0: "low", 1: "high", 2: "size"},
}
_WHOLE = words("randint randrange choice")
_MAKERS = words("numpy.random.default_rng numpy.random.RandomState random.Random")
#: The same, by what a run saw.
_GENERATORS = words(
    "random.Random numpy.random._generator.Generator numpy.random.mtrand.RandomState"
)
#: What gives a generator another state.
_SEEDS = words("seed setstate set_state bit_generator __setstate__")
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
    #: Whether it draws one whole number, and what that is never smaller than.
    whole: bool = False
    low: float | None = None
    #: The class whose object keeps the generator, which the operator finds by its identity.
    keeper: str = ""


@dataclasses.dataclass(frozen=True)
class Cast:
    """A place where the number meets a tensor without dimensions, whose dtype must win."""

    node: cst.BaseExpression
    text: str
    dtype: str


def draw_of(site: Site, call: cst.Call, *, whole: bool = False) -> Draw | None:
    """The draw that a call is, if an operator can make it (``whole``: of one whole number)."""
    func = call.func
    if not isinstance(func, cst.Attribute | cst.Name) or comments_in(call):
        return None
    method = func.attr.value if isinstance(func, cst.Attribute) else func.value
    keeper = "" if whole else _keeper(site, call)
    if not keeper and not _is_source(site, call):
        return None
    if not whole and method in _INDEXES:
        draw = _index_draw(site, call, method)
    elif method in (_WHOLE if whole else _FLOATS):
        draw = _number_draw(site, call, method, whole=whole)
    else:
        return None
    return _kept(draw, keeper) if draw is not None and keeper else draw


def _keeper(site: Site, call: cst.Call) -> str:
    """The class around, where the call draws from a generator that ``self`` keeps; else ""."""
    generator = call.func.value if isinstance(call.func, cst.Attribute) else None
    if generator is None or site.function is None or not attribute_of_self(site, generator):
        return ""
    fact = site.fact(generator)
    holder = site.class_of(site.function)
    known = fact is not None and fact.type in _GENERATORS
    return holder.name.value if known and holder is not None else ""


def may_be_replaced(site: Site, attribute: str, *, seeded: bool = True) -> bool:
    """Whether another generator, or another seed, may come in beside the draw.

    What compiled code stores in an object, it stores behind its graph: the operator would draw
    from the generator that was there before.  ``__init__`` makes the first one.  Not ``seeded``:
    a seed is no concern (Dynamo compiles none of a generator of torch's).
    """
    for source in {**site.sources, site.path: site.source}.values():
        if attribute not in source:
            continue
        try:
            tree = tree_of(source)
        except (SyntaxError, ValueError):
            return True
        first = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == "__init__"
            for part in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in first:
                continue
            match node:
                case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()) if attr == attribute:
                    return True
                case ast.Attribute(attr=attr, value=ast.Attribute(attr=held)) if (
                    seeded and held == attribute and attr in _SEEDS
                ):
                    return True
                case ast.Assign(value=ast.Attribute(attr=attr)) if attr == attribute:
                    return True  # another name for it, by which it may be given a seed
                case ast.Constant(value=text) if text == attribute:
                    return True  # ``setattr(self, "rng", ...)``
    return False


def kept_as(draw: Draw) -> str:
    """The attribute that keeps the generator of a draw: ``rng`` of ``self.rng.random()``."""
    func = draw.call.func
    assert isinstance(func, cst.Attribute)
    return code(func.value).rpartition(".")[2]


def _kept(draw: Draw, keeper: str) -> Draw:
    """The draw as an operator makes it that is told which object keeps the generator."""
    owner = Parameter("owner", "int", cst.parse_expression("id(self)"), Fact("int", "int"))
    return dataclasses.replace(draw, parameters=(owner, *draw.parameters), keeper=keeper)


def body_in(draw: Draw, table: str) -> cst.BaseExpression:
    """The draw inside of its operator; ``table`` has the object that keeps the generator."""
    match draw.body:
        case cst.Call(
            func=cst.Attribute(value=cst.Attribute(value=cst.Name("self")) as held) as func
        ) if draw.keeper:
            found = cst.parse_expression(f"{table}[owner]")
            return draw.body.with_changes(
                func=func.with_changes(value=held.with_changes(value=found))
            )
    return draw.body


def _number_draw(site: Site, call: cst.Call, method: str, *, whole: bool) -> Draw | None:
    if any(argument.star or argument.keyword is not None for argument in call.args):
        return None
    if len(call.args) > 2:
        return None  # several numbers
    if method in ("rand", "randn", "random_sample", "standard_normal", "random") and call.args:
        return None
    fact = site.fact(call)
    if fact is not None and (fact.kind, fact.type) != (("int",) if whole else ("float",)) * 2:
        return None
    if method == "choice":
        return _choice(site, call)
    kinds = {"int": "int"} if whole else dict.fromkeys(("int", "float"), "torch.types.Number")
    given = Given(site, kinds)
    arguments = [
        argument.with_changes(value=given.passed(argument.value)) for argument in call.args
    ]
    if given.refused:
        return None
    body = call.with_changes(args=arguments, lpar=(), rpar=())
    low = _low(arguments) if whole else None
    # A whole number stays one where the ternary takes the other side: it is no tensor there.
    name = _bound_name(site, call) or ("" if whole else _name_of_choice(site, call))
    return Draw(call, body, tuple(given.parameters), "", name, whole, low)


class Given:
    """The numbers that a draw is given: written out, or parameters of the operator."""

    def __init__(self, site: Site, kinds: Mapping[str, str]) -> None:
        self.site = site
        self.kinds = kinds
        self.taken = {"anchor", "owner"}
        self.parameters: list[Parameter] = []
        self.refused = False

    def passed(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """What stands for the number in the operator."""
        if _is_number(value):
            return value
        fact = self.site.fact(value)
        kind = self.kinds.get(fact.kind) if fact is not None else None
        if fact is None or kind is None or fact.type != fact.kind:
            self.refused = True
            return value
        known = next((it for it in self.parameters if code(it.argument) == code(value)), None)
        if known is None:
            last = (dotted(value) or "").rpartition(".")[2]
            base = fresh(last if last.isidentifier() else "count", self.taken)
            self.taken.add(base)
            known = Parameter(base, kind, value.deep_clone(), fact)
            self.parameters.append(known)
        return cst.Name(known.name)


def _index_draw(site: Site, call: cst.Call, method: str) -> Draw | None:
    """Whole numbers of a known count: a permutation, a sample, one for each of so many."""
    fact = site.fact(call)
    kind = "list" if method == "sample" else "ndarray"
    if fact is not None and fact.kind != kind:
        return None
    given = Given(site, {"int": "int"})
    arguments: list[cst.Arg] = []
    count = ""
    places = _PLACES[method]
    for place, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else places.get(place, "")
        value = argument.value
        if argument.star or not name or name not in places.values():
            return None
        if name == "replace":
            if not isinstance(value, cst.Name) or value.value not in ("True", "False"):
                return None
            arguments.append(argument)
            continue
        if method == "sample" and name == "population":
            match value:
                case cst.Call(func=cst.Name("range"), args=[cst.Arg(keyword=None, star="") as end]):
                    new = end.with_changes(value=given.passed(end.value))
                    value = value.with_changes(args=[new])
                case _:
                    return None
        else:
            value = given.passed(value)
        arguments.append(argument.with_changes(value=value))
        if name in ("size", "k") or method == "permutation":
            count = code(value)
    if given.refused or not count:
        return None
    body = call.with_changes(args=arguments, lpar=(), rpar=())
    return Draw(call, body, tuple(given.parameters), count, _bound_name(site, call))


def _low(arguments: list[cst.Arg]) -> float | None:
    """What ``randint(0, n)`` and ``randrange(n)`` are never smaller than."""
    if len(arguments) == 1:
        return 0.0
    first = arguments[0].value
    return float(first.evaluated_value) if isinstance(first, cst.Integer) else None


def _choice(site: Site, call: cst.Call) -> Draw | None:
    """``random.choice((1, 2, 4))``: one of whole numbers that are written out."""
    match call.args:
        case [cst.Arg(value=cst.List(elements=elements) | cst.Tuple(elements=elements))]:
            values = [element.value for element in elements]
        case _:
            return None
    if not values or not all(isinstance(value, cst.Integer) for value in values):
        return None
    low = min(float(value.evaluated_value) for value in values if isinstance(value, cst.Integer))
    body = call.with_changes(lpar=(), rpar=())
    return Draw(call, body, (), "", _bound_name(site, call), True, low)


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


def _name_of_choice(site: Site, call: cst.Call) -> str:
    """The name that a ternary is bound to in which the call is one side."""
    choice = site.parent(call)
    if not isinstance(choice, cst.IfExp) or call not in (choice.body, choice.orelse):
        return ""
    match site.parent(choice):
        case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]):
            return name
    return ""


def chosen_by(site: Site, call: cst.Call) -> cst.IfExp | None:
    """The ternary that draws, or else takes a number that is written out."""
    match site.parent(call):
        case cst.IfExp(body=body, orelse=orelse) as choice if call in (body, orelse):
            other = orelse if body is call else body
            return choice if _is_number(other) and _name_of_choice(site, call) else None
    return None


def anchor_for(site: Site, call: cst.Call, draws: Sequence[Draw], torch: str) -> str:
    """The tensor that an operator's draw takes: what the last draw of the same stream gave.

    torch 2.13's inductor does not keep the order of operators with effects by itself (the
    dependencies that it notes are looked up under other names): the numbers must depend on each
    other.  "" where an earlier draw of the stream has no name that could be given.
    """
    assert site.function is not None
    stream = code(call.func).rpartition(".")[0]
    kept = stream.startswith("self.")
    function = site.function
    here = site.statement_of(call)
    bound = definitely_bound_before(function, here)
    anchor = f"{torch}.empty(0)"
    for node in walk(function.body):
        if node is call:
            break
        if not isinstance(node, cst.Call) or site.function_of(node) is not function:
            continue
        known = any(draw.call is node for draw in draws)
        of = code(node.func).rpartition(".")[0]
        if known and of != stream and not (kept and of.startswith("self.")):
            continue
        if not known and not _draws_of(site, node, stream):
            continue
        name = _bound_name(site, node) or _name_of_choice(site, node)
        anchor = name if name in bound and _is_bound_once(site, name) else ""
    return anchor


def _is_bound_once(site: Site, name: str) -> bool:
    assert site.function is not None
    places = site.places_of(name, site.function)
    return sum(isinstance(site.parent(node), cst.AssignTarget) for node in places) == 1


def _draws_of(site: Site, call: cst.Call, stream: str) -> bool:
    """Whether a call is of an operator of the file that draws from a stream."""
    if not isinstance(call.func, cst.Name):
        return False
    for bound in module_bindings(site.module).get(call.func.value, ()):
        if isinstance(bound, cst.FunctionDef) and "custom_op(" in "".join(
            map(code, bound.decorators)
        ):
            if not stream.startswith("self."):
                return f"{stream}." in code(bound.body) if stream else True
            # Two names of an object may keep the same generator.
            return "[owner]." in code(bound.body)
    return False


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
        case cst.IfExp() if isinstance(node, cst.Call) and chosen_by(site, node) is parent:
            yield from _uses(site, parent, text)
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
