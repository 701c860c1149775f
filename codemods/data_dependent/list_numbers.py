"""What a loop over a list of ints does with them, and whether a list holds ints at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site

#: Functions that take sizes, or numbers that are as good as tensors of them.
_SIZED = words("torch.zeros torch.ones torch.empty torch.eye torch.arange")
_COUNTS = words("builtins.range builtins.int")
_METHODS = words("view reshape expand new_zeros new_ones new_empty")
_WHOLE = cst.Add | cst.Subtract | cst.Multiply
_ARITHMETIC = cst.Integer | cst.Name | cst.BinaryOperation | cst.UnaryOperation | _WHOLE | cst.Minus
_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")


@dataclasses.dataclass(frozen=True)
class Loop:
    """``for ... in NAME`` or ``for i, ... in enumerate(NAME)``.

    ``targets`` are the names that an element is unpacked into, ``width`` how many; 0 stands for an
    element that is a number itself.
    """

    statement: cst.For
    iterated: cst.Name
    targets: tuple[str, ...]
    width: int


def loop_over(site: Site, node: cst.For) -> Loop | None:
    """The loop, if it runs over a name and unpacks no deeper than that."""
    value = node.iter
    target: cst.BaseExpression = node.target
    if isinstance(value, cst.Call):
        plain = len(value.args) == 1 and not value.args[0].star and value.args[0].keyword is None
        if not plain or resolve(site.module, value.func) != "builtins.enumerate":
            return None
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
            return None
        if not isinstance(target.elements[0].value, cst.Name):
            return None
        value, target = value.args[0].value, target.elements[1].value
    if not isinstance(value, cst.Name) or node.asynchronous is not None:
        return None
    if isinstance(target, cst.Name):
        return Loop(node, value, (target.value,), 0)
    if not isinstance(target, cst.Tuple | cst.List):
        return None
    names = [item.value.value for item in target.elements if isinstance(item.value, cst.Name)]
    if len(names) != len(target.elements) or len(set(names)) != len(names):
        return None
    return Loop(node, value, tuple(names), len(names))


# -- the numbers ---------------------------------------------------------------------------------


def only_numbers(site: Site, function: cst.FunctionDef, loops: Sequence[Loop]) -> bool:
    """Whether ints do for the loops' targets wherever the function uses them.

    That holds for names, too, that are bound to what is computed of them.
    """
    own = {id(node) for loop in loops for node in walk(loop.statement.target)}
    targets = frozenset(name for loop in loops for name in loop.targets)
    uses = _Uses(site, targets, targets | _computed(function, targets))
    given = {node.name.value for node in walk(function.params) if isinstance(node, cst.Param)}
    return not given & uses.numbers and all(
        uses.is_fine(node)
        for node in walk(function.body)
        if isinstance(node, cst.Name) and node.value in uses.numbers and id(node) not in own
    )


def _computed(function: cst.FunctionDef, numbers: frozenset[str]) -> frozenset[str]:
    """Names that are bound to arithmetic with the numbers, at one place at least."""
    found = set(numbers)
    while True:
        before = len(found)
        for node in walk(function.body):
            if isinstance(node, cst.AugAssign):
                target = node.target
            elif isinstance(node, cst.Assign) and len(node.targets) == 1:
                target = node.targets[0].target
            else:
                continue
            parts = list(walk(node.value))
            plain = all(isinstance(part, _ARITHMETIC) for part in parts)
            read = {part.value for part in parts if isinstance(part, cst.Name)}
            if plain and read & found and isinstance(target, cst.Name):
                found.add(target.value)
        if len(found) == before:
            return frozenset(found) - numbers


class _Uses:
    """Follows ``targets``, and ``numbers`` computed of them, through arithmetic."""

    def __init__(self, site: Site, targets: frozenset[str], numbers: frozenset[str]) -> None:
        self._site = site
        self._targets = targets
        self.numbers = numbers

    def is_fine(self, node: cst.Name) -> bool:
        site = self._site
        child: cst.CSTNode = node
        holder = site.parent(node)
        if isinstance(holder, cst.Attribute) and holder.attr is node:
            return True
        if isinstance(holder, cst.Arg) and holder.keyword is node:
            return True
        if isinstance(holder, cst.AssignTarget | cst.AugAssign) and holder.target is node:
            return self._is_bound(node.value, holder)
        is_whole = True
        while holder is not None:
            if isinstance(holder, cst.BinaryOperation):
                found = self._operation(holder, child, is_whole)
                if found == "tensor":
                    return True
                if not found:
                    return False
                is_whole = is_whole and found == "whole"
            elif isinstance(holder, cst.Slice):
                return is_whole and holder.step is not child and self._is_sliced(holder)
            elif isinstance(holder, cst.Arg):
                return self._is_taken(holder, is_whole)
            elif isinstance(holder, cst.Element):
                row = site.parent(holder)
                outer = site.parent(row) if isinstance(row, cst.Tuple | cst.List) else None
                return isinstance(outer, cst.Arg) and is_whole and self._is_taken(outer, True)
            elif isinstance(holder, cst.Assign | cst.AugAssign):
                # A name for the tensor itself, which `+=` would change for all its names.
                return is_whole and child is not node
            elif not isinstance(holder, cst.UnaryOperation) or not isinstance(
                holder.operator, cst.Minus
            ):
                return False
            child, holder = holder, site.parent(holder)
        return False

    def _is_sliced(self, node: cst.Slice) -> bool:
        """Whether a slice is one of a tensor, or of a list or tuple."""
        element = self._site.parent(node)
        holder = self._site.parent(element) if element is not None else None
        if not isinstance(holder, cst.Subscript):
            return False
        fact = infer(holder.value, self._site.fact)
        return fact is not None and fact.kind in ("tensor", "list", "tuple")

    def _operation(self, node: cst.BinaryOperation, child: cst.CSTNode, is_whole: bool) -> str:
        """What an operation with a number gives: ``whole``, ``float``, ``tensor``; or nothing."""
        other = node.right if node.left is child else node.left
        if isinstance(node.operator, _WHOLE) and self._is_whole(other):
            return "whole"
        if isinstance(node.operator, cst.FloorDivide | cst.Modulo):
            # Both round down.
            divides = node.left is child and isinstance(other, cst.Integer) and is_whole
            return "whole" if divides and int(self._site.text(other), 0) else ""
        if not isinstance(node.operator, _WHOLE | cst.Divide):
            return ""
        if isinstance(node.operator, cst.Divide) and node.left is child:
            return ""  # torch multiplies a number by the reciprocal, which rounds otherwise
        if isinstance(other, cst.Float):
            # A tensor of 0.1 times a number is rounded to float32: halves and the like are not.
            exact = (1024 * float(self._site.text(other))).is_integer()
            return "float" if exact and isinstance(node.operator, _WHOLE) else ""
        fact = infer(other, self._site.fact)
        if fact is None or not fact.is_tensor:
            return ""
        # A tensor of no dimensions may be widened by another one, and is not by a number: one of
        # float32, too, once the model is in half precision.
        if fact.dtype in _FLOATS:
            return "" if not fact.shape and not is_whole else "tensor"
        return "tensor" if fact.dtype == "torch.int64" and is_whole else ""

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Integer):
            return True
        if isinstance(node, cst.Name) and node.value in self.numbers:
            return True
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _WHOLE):
            return self._is_whole(node.left) and self._is_whole(node.right)
        fact = infer(node, self._site.fact)
        return fact is not None and fact.kind == "int"

    def _is_taken(self, arg: cst.Arg, is_whole: bool) -> bool:
        """Whether a call takes an int where it takes a tensor of one."""
        call = self._site.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            return False
        name = resolve(self._site.module, call.func)
        if name == "torch.linspace":
            return is_whole or (arg.keyword is None and any(arg is item for item in call.args[:2]))
        if name == "torch.full":
            return is_whole and arg is call.args[0]
        if name is not None:
            return is_whole and name in _SIZED | _COUNTS
        if not is_whole or not isinstance(call.func, cst.Attribute):
            return False
        receiver = infer(call.func.value, self._site.fact)
        known = receiver is not None and receiver.is_tensor
        return known and call.func.attr.value in _METHODS

    def _is_bound(self, name: str, holder: cst.AssignTarget | cst.AugAssign) -> bool:
        """Whether all that this binds to the name of a number is one, and changes no tensor."""
        if name in self._targets:
            return False  # `height += 1` changes the tensor that is looped over
        statement = self._site.parent(holder) if isinstance(holder, cst.AssignTarget) else holder
        if isinstance(statement, cst.AugAssign):
            augments = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
            return isinstance(statement.operator, augments) and self._is_whole(statement.value)
        return (
            isinstance(statement, cst.Assign)
            and len(statement.targets) == 1
            and self._is_whole(statement.value)
        )


# -- the list ------------------------------------------------------------------------------------


def whole_numbers(
    site: Site, function: cst.FunctionDef, name: str, before: cst.CSTNode, width: int
) -> bool:
    """Whether a local list is filled with ints (or tuples of so many), all before a statement.

    ``sizes = []`` and ``sizes.append(...)``, or a display; nothing else may be done with it there.
    """
    end = site.span(before).line
    begun = False
    for node in site.places_of(name, function):
        if site.span(node).line >= end:
            continue
        elements = _filled(site, node)
        if elements is None or site.function_of(node) is not function:
            return False
        begun = begun or isinstance(site.parent(node), cst.AssignTarget)
        if not all(_fits(site, function, element, width) for element in elements):
            return False
    return begun


def _filled(site: Site, node: cst.Name) -> list[cst.BaseExpression] | None:
    """What a mention of the list puts into it; None where it does anything else."""
    holder = site.parent(node)
    if isinstance(holder, cst.AssignTarget):
        statement = site.parent(holder)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        if not isinstance(statement.value, cst.List):
            return None
        if any(not isinstance(item, cst.Element) for item in statement.value.elements):
            return None
        return [item.value for item in statement.value.elements]
    if isinstance(holder, cst.Attribute) and holder.attr.value == "append":
        call = site.parent(holder)
        alone = isinstance(call, cst.Call) and isinstance(site.parent(call), cst.Expr)
        if alone and isinstance(call, cst.Call) and len(call.args) == 1 and not call.args[0].star:
            return [call.args[0].value]
    return None


def _fits(site: Site, function: cst.FunctionDef, element: cst.BaseExpression, width: int) -> bool:
    if width == 0:
        return _is_size(site, function, element)
    if isinstance(element, cst.Name):
        values = list(_values(site, function, element.value))
        return bool(values) and all(
            isinstance(value, cst.Tuple) and _fits(site, function, value, width) for value in values
        )
    return (
        isinstance(element, cst.Tuple)
        and len(element.elements) == width
        and all(
            isinstance(item, cst.Element) and _is_size(site, function, item.value)
            for item in element.elements
        )
    )


def _is_size(
    site: Site,
    function: cst.FunctionDef,
    node: cst.BaseExpression,
    seen: frozenset[str] = frozenset(),
) -> bool:
    """Whether an expression is an int: a literal, a size of a tensor, or made of such."""
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.BinaryOperation):
        kinds = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide
        return isinstance(node.operator, kinds) and all(
            _is_size(site, function, side, seen) for side in (node.left, node.right)
        )
    if isinstance(node, cst.Subscript):
        element = node.slice[0].slice if len(node.slice) == 1 else None
        return isinstance(element, cst.Index) and _is_shape(node.value)
    if isinstance(node, cst.Call):
        if resolve(site.module, node.func) == "builtins.len":
            return True
        return (
            isinstance(node.func, cst.Attribute)
            and node.func.attr.value in ("size", "numel")
            and len(node.args) == (node.func.attr.value == "size")
        )
    if isinstance(node, cst.Name) and node.value not in seen:
        values = list(_values(site, function, node.value))
        inner = seen | {node.value}
        return bool(values) and all(
            value is _UNPACKED
            or (isinstance(value, cst.CSTNode) and _is_size(site, function, value, inner))
            for value in values
        )
    return False


#: Stands for an element of a shape that is unpacked.
_UNPACKED = "size"
_READERS = (
    cst.Arg | cst.Attribute | cst.Subscript | cst.Index | cst.Slice | cst.BinaryOperation
    | cst.BooleanOperation | cst.UnaryOperation | cst.Comparison | cst.ComparisonTarget
    | cst.Return | cst.Expr | cst.If | cst.IfExp | cst.While | cst.Call | cst.DictElement
    | cst.FormattedStringExpression | cst.CompIf | cst.Assert
)  # fmt: skip


def is_read(site: Site, node: cst.Name) -> bool:
    """Whether a name is certainly read where it stands, and not bound."""
    child: cst.CSTNode = node
    holder = site.parent(node)
    while isinstance(holder, cst.Element | cst.Tuple | cst.List):
        child, holder = holder, site.parent(holder)
    if isinstance(holder, cst.Assign | cst.AugAssign | cst.NamedExpr):
        return holder.value is child
    if isinstance(holder, cst.For | cst.CompFor):
        return holder.iter is child
    return isinstance(holder, _READERS)


def _values(site: Site, function: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression | str]:
    """All that a local name is bound to; an empty text for what is not plain."""
    for node in walk(function):
        if not isinstance(node, cst.Name) or node.value != name or is_read(site, node):
            continue
        holder = site.parent(node)
        row = None
        if isinstance(holder, cst.Element):
            row = site.parent(holder)
            holder = site.parent(row) if row is not None else None
        statement = site.parent(holder) if isinstance(holder, cst.AssignTarget) else None
        if not isinstance(statement, cst.Assign):
            yield ""
        elif row is None:
            yield statement.value
        else:
            yield _UNPACKED if _is_shape(statement.value) else ""


def _is_shape(node: cst.BaseExpression) -> bool:
    """``x.shape``, ``x.shape[-2:]``, ``x.size()``."""
    if isinstance(node, cst.Subscript):
        element = node.slice[0].slice if len(node.slice) == 1 else None
        return isinstance(element, cst.Slice) and _is_shape(node.value)
    if isinstance(node, cst.Call):
        return (
            isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "size"
            and not node.args
        )
    return isinstance(node, cst.Attribute) and node.attr.value == "shape"
