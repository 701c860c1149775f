"""What a piece gives: tensors as they are; arrays, numbers and tables of them read back.

An operator returns tensors.  An array comes back as ``op(...).numpy()``, a number as a tensor of
its kind and ``.item()``, a table with constant keys is built again from its parts.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .inputs import NeedsAfter, Refused, is_plain_tensor


class Carries(enum.IntFlag):
    """What a piece may give besides tensors without a gradient."""

    TENSORS = 0
    #: Python numbers, arrays and tables, which are read back.
    NUMBERS = 1
    #: Tensors through which a gradient goes back: the piece is run again for it.
    GRADIENTS = 2
    #: Lists of tensors.
    LISTS = 4


_NUMBER_DTYPES = {"int": "torch.int64", "float": "torch.float64", "bool": "torch.bool"}


@dataclasses.dataclass(frozen=True)
class Result:
    """One value of the piece.

    ``name`` is what the piece binds (empty for what it returns), ``kind`` one of ``tensor``,
    ``ndarray``, ``int``, ``float``, ``bool``, ``none``, ``list`` (of tensors), ``dict`` and
    ``tuple`` (with ``parts``).
    """

    name: str
    kind: str
    fact: Fact
    node: cst.BaseExpression | None = None
    parts: tuple[Result, ...] = ()
    keys: tuple[str, ...] = ()
    #: How many tensors a ``list`` held; its ``fact`` is that of each of them.
    count: int = 0

    @property
    def is_number(self) -> bool:
        return self.kind in _NUMBER_DTYPES

    @property
    def row_by_row(self) -> bool:
        """Whether its elements were laid out in order; a factor of ``linalg.cholesky`` is not."""
        strides, shape = self.fact.strides, self.fact.shape
        expected = 1
        for size, stride in zip(reversed(shape or ()), reversed(strides or ()), strict=False):
            if size is None or stride is None:
                return True
            if size != 1 and stride != expected:
                return False
            expected *= max(size, 1)
        return True

    @property
    def dtype(self) -> str:
        return _NUMBER_DTYPES.get(self.kind) or self.fact.dtype or "torch.float32"

    def leaves(self) -> list[Result]:
        if self.kind in ("dict", "tuple"):
            return [leaf for part in self.parts for leaf in part.leaves()]
        return [] if self.kind == "none" else [self]


def carried(name: str, fact: Fact | None, carries: Carries,
            node: cst.BaseExpression | None = None) -> Result | None:  # fmt: skip
    """How a value is carried; None where it cannot be."""
    if fact is None:
        return None
    if is_plain_tensor(fact):
        if fact.requires_grad and not carries & Carries.GRADIENTS:
            raise Refused("a gradient goes through it")
        return Result(name, "tensor", fact, node)
    if fact.kind == "none":
        return Result(name, "none", fact, node)
    if carries & Carries.LISTS and fact.type == "list":
        return _listed(name, fact, node)
    if not carries & Carries.NUMBERS:
        return None
    if fact.kind == "ndarray" and fact.shape is not None:
        if not (fact.dtype or "").startswith(("float", "int", "bool", "uint8")):
            return None
        tensor = dataclasses.replace(fact, dtype=f"torch.{fact.dtype}")
        return Result(name, "ndarray", tensor, node)
    if fact.kind in _NUMBER_DTYPES and fact.type == fact.kind:
        return Result(name, fact.kind, fact, node)
    if fact.kind == "tuple" and fact.type == "tuple" and fact.items:
        return _several(name, "tuple", fact, carries, node)
    keys = fact.keys or ()
    told = bool(fact.items) and len(keys) == len(fact.items or ())
    if fact.type == "dict" and told and all(key.isidentifier() for key in keys):
        return _several(name, "dict", fact, carries, node)
    return None


def _listed(name: str, fact: Fact, node: cst.BaseExpression | None) -> Result | None:
    """A list of tensors of one dtype and number of dimensions, through which no gradient goes."""
    items = fact.items or ((fact.each,) if fact.each is not None else ())
    if not items or not all(map(is_plain_tensor, items)):
        return None
    each = functools.reduce(Fact.merged, items)
    if each.shape is None or each.dtype is None:
        return None
    if any(item.requires_grad for item in items):
        raise Refused("a gradient goes through it")
    return Result(name, "list", each, node, count=len(fact.items or ()))


def _several(
    name: str, kind: str, fact: Fact, carries: Carries, node: cst.BaseExpression | None
) -> Result | None:
    nodes: list[cst.BaseExpression | None] = [None] * len(fact.items or ())
    if kind == "tuple" and isinstance(node, cst.Tuple) and len(node.elements) == len(nodes):
        nodes = [element.value for element in node.elements]
    parts = [carried("", item, carries, n) for item, n in zip(fact.items or (), nodes, strict=True)]
    if any(part is None or part.kind == "none" for part in parts):
        return None
    return Result(name, kind, fact, node, tuple(p for p in parts if p is not None), fact.keys or ())


def widened(site: Site, result: Result, nodes: Iterable[cst.BaseExpression]) -> Result:
    """The result as a float, where one call saw an int of ``min(x.item(), 0)``.

    What is cast to an int loses its fraction without a word.
    """
    if result.kind == "int" and any(_may_be_float(site, node) for node in nodes):
        return dataclasses.replace(result, kind="float")
    return result


def _may_be_float(site: Site, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Name("min" | "max"), args=[_, _, *_]):
            return any(_may_be_float(site, arg.value) for arg in node.args if not arg.keyword)
        case cst.IfExp():
            return _may_be_float(site, node.body) or _may_be_float(site, node.orelse)
        case cst.BooleanOperation():
            return _may_be_float(site, node.left) or _may_be_float(site, node.right)
    fact = infer(node, site.fact)
    return fact is not None and fact.kind == "float"


def single_result(site: Site, node: cst.BaseExpression, carries: Carries) -> Result:
    """The result of one expression; raises `Refused`."""
    fact = site.fact(node)
    found = carried("", fact, carries, node)
    if found is None or found.kind == "none":
        kind = "unknown" if fact is None else (fact.type or fact.kind)
        raise Refused(
            f"`{code(node)[:60]}` gives a value that an operator cannot return (`{kind}`)"
        )
    if found.kind == "float" and is_part_of_rounded(site, node):
        raise Refused("a whole number is made of it: of NaN, that is an error")
    return widened(site, found, (node,))


def is_part_of_rounded(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the statement of an expression makes a whole number of it, or a later one does."""
    for outer in site.ancestors(node):
        if isinstance(outer, cst.Call) and code(outer.func) in _ROUNDS and len(outer.args) == 1:
            return True
        if isinstance(outer, cst.Assign):
            names = {name for target in outer.targets for name in activity(target).bound}
            return any(_is_rounded(site, (site.statement_of(node),), name) for name in names)
        if isinstance(outer, cst.BaseStatement):
            break
    return False


def written_results(
    site: Site, run: Sequence[cst.CSTNode], names: frozenset[str], carries: Carries
) -> tuple[Result, ...]:
    """The names that a run binds and that are read afterwards, in the order of their binding."""
    found: list[tuple[tuple[int, int], Result]] = []
    for name in sorted(names):
        fact, where, node = _after(site, run, name)
        result = carried(name, fact, carries, node)
        if result is None or result.kind == "none":
            raise NeedsAfter(frozenset({name}))
        if result.kind == "float" and _is_rounded(site, run, name):
            raise NeedsAfter(frozenset({name}))
        found.append((where, widened(site, result, _given(run, name))))
    return tuple(result for _, result in sorted(found, key=lambda pair: pair[0]))


_ROUNDS = words("int round math.floor math.ceil math.trunc")


def _is_rounded(site: Site, run: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether a whole number is made of a fraction behind the run.

    Of NaN and infinity there is none, and Python raises an error; inductor (torch 2.13) does not.
    ``round(x, 2)`` gives a fraction.
    """
    function = site.function_of(run[-1])
    if function is None:
        return False
    end = site.span(run[-1]).end_line
    made = {name}
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=targets, value=value) if site.span(node).line > end:
                if activity(value).reads & made:
                    made |= {part for target in targets for part in activity(target).bound}
            case cst.Call(func=func, args=[cst.Arg(value=value)]) if (
                code(func) in _ROUNDS and site.span(node).line > end
            ):
                fact = site.fact(value)
                number = fact is None or fact.kind in ("float", "mixed")
                if number and activity(value).reads & made:
                    return True
    return False


def _given(run: Sequence[cst.CSTNode], name: str) -> Iterator[cst.BaseExpression]:
    """What the assignments of a run give a name."""
    for statement in run:
        for node in walk(statement):
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    if isinstance(target.target, cst.Name) and target.target.value == name:
                        yield node.value


def _after(
    site: Site, run: Sequence[cst.CSTNode], name: str
) -> tuple[Fact | None, tuple[int, int], cst.BaseExpression | None]:
    """The fact of a name after a run, where it is bound, and the expression that it is bound to."""
    value: cst.BaseExpression | None = None
    where = (site.span(run[-1]).end_line + 1, 0)
    count = 0
    for statement in run:
        for node in walk(statement):
            if isinstance(node, cst.Name) and node.value == name:
                holder = site.parent(node)
                span = site.span(node)
                where = min(where, (span.line, span.column))
                if isinstance(holder, cst.AssignTarget) and holder.target is node:
                    assign = site.parent(holder)
                    if isinstance(assign, cst.Assign):
                        value = assign.value
                        count += 1
    end = site.span(run[-1]).end_line
    lines = sorted(_lines_after(site, end))
    for line in lines:
        fact = site.facts.locals_before(line).get(name)
        if fact is not None:
            return fact, where, value if count == 1 else None
    seen = site.fact(value) if value is not None and count == 1 else None
    return seen, where, value if count == 1 else None


def _lines_after(site: Site, end: int) -> set[int]:
    function = site.function
    assert function is not None
    return {
        site.span(node).line
        for node in walk(function.body)
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        and site.span(node).line > end
    }


def returned_results(
    site: Site, returns: Sequence[cst.Return], carries: Carries
) -> tuple[Result, ...]:
    """What a run that ends its function returns, the same at every ``return``."""
    found: Result | None = None
    for node in returns:
        if node.value is None:
            continue
        fact = site.fact(node.value)
        if fact is None and isinstance(node.value, cst.Name):
            fact = site.locals_before(site.statement_of(node)).get(node.value.value)
        if fact is None and isinstance(node.value, cst.Tuple):
            continue  # not reached
        if fact is None and site.executed(site.statement_of(node)):
            fact = infer(node.value, site.fact)  # a literal, which no run looks at
        if fact is None:
            continue
        result = carried("", fact, carries, node.value)
        if result is None:
            raise Refused(f"`{code(node)[:60]}` gives a value that an operator cannot return")
        result = widened(site, result, (node.value,))
        if found is not None and _shape(found) != _shape(result):
            raise Refused("it returns values of different kinds")
        found = found or result
        if found is not None and len(returns) > 1:
            found = dataclasses.replace(found, node=None)
    if found is None:
        raise Refused("its result was not seen")
    return () if found.kind == "none" else (found,)


def _shape(result: Result) -> object:
    dims = len(result.fact.shape) if result.fact.shape is not None else None
    return (result.kind, result.dtype if result.kind == "tensor" else "", dims, result.keys,
            tuple(_shape(part) for part in result.parts))  # fmt: skip
