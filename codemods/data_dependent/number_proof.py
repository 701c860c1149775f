"""Whether a number that numpy computed can become Python's without anybody seeing a difference.

numpy's numbers wrap around, divide by zero, add bools as "or" and have methods and a dtype; their
text and their type are others.  A recorded run shows little of that.  What is sure here follows
from the text alone: numbers are made of sizes and of literals, and go into places where both kinds
do the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site


@dataclasses.dataclass(frozen=True)
class Number:
    """A number whatever is given: ``kind`` is "int" or "float", ``low`` a bound from below.

    The bound is 1, 0 or None; ``bits`` bound it from above.  A float is finite, and never NaN.
    """

    kind: str
    low: int | None = None
    bits: int = 64


#: No size has more bits in practice; and no int that numpy is given may have more than `_BITS`.
_SIZE = Number("int", 0, 31)
_PRODUCT = Number("int", 0, 62)
_BITS = 62
_SIZE_METHODS = words("dim numel ndimension")
_SIZED = words("view reshape expand narrow repeat new_zeros new_ones new_empty new_full")


def converted(call: cst.Call) -> tuple[cst.Call, cst.BaseExpression | None] | None:
    """The call whose number ``call`` turns into Python's, and what it is cast to before, if it is.

    That is ``core.item()``, or ``core.astype(kind).item()``.
    """
    match call:
        case cst.Call(
            func=cst.Attribute(value=cst.Call() as inner, attr=cst.Name("item")), args=[]
        ):
            pass
        case _:
            return None
    match inner:
        case cst.Call(
            func=cst.Attribute(value=cst.Call() as core, attr=cst.Name("astype")),
            args=[cst.Arg(value=kind, keyword=None, star="")],
        ):
            return core, kind
    return inner, None


class Proof:
    """What is known of the numbers of one function.

    ``numpy_name`` tells the name in numpy of a call that is to be replaced, if it is one;
    ``empty`` says whether a size may be 0.
    """

    def __init__(
        self, site: Site, numpy_name: Callable[[cst.Call], str], *, empty: bool = True
    ) -> None:
        self._site = site
        self._numpy_name = numpy_name
        self._size = _SIZE if empty else dataclasses.replace(_SIZE, low=1)
        self._product = _PRODUCT if empty else dataclasses.replace(_PRODUCT, low=1)

    def is_sure(self, call: cst.Call) -> bool:
        """Whether the call gives the same number without numpy, where it makes no difference."""
        if self.number(call) is None:
            return False
        # What `.item()` gives is Python's number before, too.
        return converted(call) is not None or self._goes_well(call)

    # -- what it is --------------------------------------------------------------------------

    def number(self, node: cst.BaseExpression, depth: int = 0) -> Number | None:
        """What an expression is for every input; None where that is not known."""
        if depth > 20:
            return None
        match node:
            case cst.Integer():
                whole = node.evaluated_value
                return _within(Number("int", min(whole, 1), whole.bit_length()))
            case cst.Float():
                value = node.evaluated_value
                return Number("float", 1 if value >= 1 else 0, 50) if value < 1e15 else None
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                negated = self.number(inner, depth + 1)
                return Number(negated.kind, None, negated.bits) if negated is not None else None
            case cst.BinaryOperation():
                return self._operation(node, depth)
            case cst.Call():
                return self._call(node, depth)
            case cst.Attribute(value=base, attr=cst.Name("ndim")):
                fact = self._site.fact(base)
                return self._size if fact is not None and fact.is_tensor else None
            case cst.Subscript(value=base, slice=[cst.SubscriptElement(cst.Index())]):
                return self._size if self._is_size(base) else None
            case cst.Name():
                return self._name(node, depth)
        return None

    def _operation(self, node: cst.BinaryOperation, depth: int) -> Number | None:
        left = self.number(node.left, depth + 1)
        right = self.number(node.right, depth + 1)
        if left is None or right is None:
            return None
        kind = "int" if left.kind == right.kind == "int" else "float"
        known = left.low is not None and right.low is not None
        lows = (left.low or 0, right.low or 0)
        sum_, product = max(left.bits, right.bits) + 1, left.bits + right.bits
        match node.operator:
            case cst.Add():
                return _within(Number(kind, max(lows) if known else None, sum_))
            case cst.Subtract():
                return _within(Number(kind, None, sum_))
            case cst.Multiply():
                return _within(Number(kind, min(lows) if known else None, product))
            case cst.Divide() if right.low == 1:
                return Number("float", None if left.low is None else 0, left.bits)
            case cst.FloorDivide() if right.low == 1 and kind == "int":
                return Number("int", None if left.low is None else 0, left.bits + 1)
            case cst.Modulo() if right.low == 1 and kind == "int":
                return Number("int", 0, right.bits)
        return None

    def _call(self, node: cst.Call, depth: int, replaced: str = "") -> Number | None:
        """The number of a call; ``replaced`` is its name in numpy, where its caller knows it."""
        if any(arg.star or arg.keyword for arg in node.args):
            return None
        made = converted(node)
        if made is not None and (numpy := self._numpy_name(node)):
            core, kind = made
            number = self._call(core, depth + 1, numpy)
            whole = number is not None and (number.kind == "int" or kind is not None)
            return dataclasses.replace(number, kind="int") if number and whole else number
        values = [arg.value for arg in node.args]
        name = resolve(self._site.module, node.func) or ""
        if name == "builtins.len" and len(values) == 1:
            return self._size
        if isinstance(node.func, cst.Attribute) and not name.startswith(("numpy.", "math.")):
            method = node.func.attr.value
            if (method == "size" and len(values) == 1) or (method in _SIZE_METHODS and not values):
                fact = self._site.fact(node.func.value)
                return self._size if fact is not None and fact.is_tensor else None
            return None
        given = [self.number(value, depth + 1) for value in values]
        if name == "builtins.int" and len(values) == 1 and given[0] is not None:
            return dataclasses.replace(given[0], kind="int")
        numpy = replaced or self._numpy_name(node)
        if numpy == "prod" and len(values) == 1 and self._is_size(values[0]):
            return self._product  # of no sizes, 1.0: see `_is_plain_int`
        if None in given or not given:
            return None
        return _result(numpy, [number for number in given if number is not None])

    def _is_size(self, node: cst.BaseExpression) -> bool:
        """``x.shape``, ``x.size()``, or a part of them."""
        match node:
            case cst.Subscript(value=base, slice=[cst.SubscriptElement(cst.Slice())]):
                return self._is_size(base)
            case cst.Attribute(value=base, attr=cst.Name("shape")):
                pass
            case cst.Call(func=cst.Attribute(value=base, attr=cst.Name("size")), args=[]):
                pass
            case _:
                return False
        fact = self._site.fact(base)
        return fact is not None and fact.is_tensor

    def _name(self, node: cst.Name, depth: int) -> Number | None:
        """A local name with one assignment, or one of ``b, n = x.shape``."""
        function = self._site.function_of(node)
        if function is None:
            return None
        bound = [
            part
            for part in walk(function)
            if isinstance(part, cst.Name) and part.value == node.value and self._is_bound(part)
        ]
        if len(bound) != 1:
            return None
        holder = self._site.parent(bound[0])
        if isinstance(holder, cst.Element):
            sequence = self._site.parent(holder)
            target = self._site.parent(sequence) if sequence is not None else None
            assign = self._site.parent(target) if target is not None else None
            if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
                return self._size if self._is_size(assign.value) else None
            return None
        assign = self._site.parent(holder) if holder is not None else None
        if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
            return self.number(assign.value, depth + 1)
        return None

    def _is_bound(self, node: cst.Name) -> bool:
        """Whether a name stands where it is bound, in whatever way."""
        child: cst.CSTNode = node
        for parent in self._site.ancestors(node):
            match parent:
                case cst.AssignTarget() | cst.Param() | cst.NameItem() | cst.AsName():
                    return not isinstance(parent, cst.Param) or parent.name is child
                case cst.AnnAssign() | cst.AugAssign() | cst.For() | cst.CompFor():
                    return parent.target is child
                case cst.NamedExpr():
                    return parent.target is child
                case cst.Del() | cst.Import() | cst.ImportFrom():
                    return True
                case cst.FunctionDef() | cst.ClassDef():
                    return parent.name is child
                case cst.Element() | cst.StarredElement() | cst.Tuple() | cst.List():
                    child = parent
                case _:
                    return False
        return False

    # -- where it goes -----------------------------------------------------------------------

    def _goes_well(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether numpy's number and Python's do the same where the value of ``node`` goes."""
        if depth > 20:
            return False
        parent = self._site.parent(node)
        number = self.number(node)
        match parent:
            case cst.Arg(keyword=None, star=""):
                call = self._site.parent(parent)
                return isinstance(call, cst.Call) and self._is_taken(node, call, depth)
            case cst.UnaryOperation(operator=cst.Minus()):
                return self._goes_well(parent, depth + 1)
            case cst.BinaryOperation():
                return self._operand_goes_well(node, parent, depth)
            case cst.Comparison(left=left, comparisons=[target]) if number is not None:
                other = target.comparator if left is node else left
                plain = isinstance(
                    target.operator,
                    cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
                    | cst.Equal | cst.NotEqual,
                )  # fmt: skip
                return (
                    plain
                    and self.number(other) is not None
                    and only_truth_counts(self._site, parent)
                )
            case cst.ComparisonTarget():
                comparison = self._site.parent(parent)
                return (
                    isinstance(comparison, cst.Comparison)
                    and comparison.left is not node
                    and len(comparison.comparisons) == 1
                    and not isinstance(parent.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn)
                    and self.number(comparison.left) is not None
                    and only_truth_counts(self._site, comparison)
                )
            case cst.Slice():
                return self._is_plain_int(node)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]):
                return self._name_goes_well(target, depth)
        return False

    def _is_plain_int(self, node: cst.BaseExpression) -> bool:
        """An int with numpy, too: a product of no sizes is 1.0 there."""
        number = self.number(node)
        return number is not None and number.kind == "int" and not self._may_be_float_one(node)

    def _may_be_float_one(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether a product of no sizes, which is 1.0 in numpy, may be in the value."""
        if depth > 20:
            return True
        for part in walk(node):
            if isinstance(part, cst.Call) and self._numpy_name(part) in ("prod", "sum"):
                return True
            if isinstance(part, cst.Name):
                value = self._value_of(part)
                if value is not None and self._may_be_float_one(value, depth + 1):
                    return True
        return False

    def _value_of(self, name: cst.Name) -> cst.BaseExpression | None:
        """What the one assignment of a local name gives it."""
        function = self._site.function_of(name)
        found = [
            part.value
            for part in walk(function or cst.Name("none"))
            if isinstance(part, cst.Assign)
            and any(
                isinstance(target.target, cst.Name) and target.target.value == name.value
                for target in part.targets
            )
        ]
        return found[0] if len(found) == 1 else None

    def _is_taken(self, node: cst.BaseExpression, call: cst.Call, depth: int) -> bool:
        name = resolve(self._site.module, call.func) or ""
        if name in ("builtins.int", "builtins.float") and len(call.args) == 1:
            return True
        if name == "builtins.range":
            return self._is_plain_int(node)
        if name.startswith("numpy.") and self._numpy_name(call):
            # Replaced itself: what numpy made of either number is looked at there.
            return self.number(call) is not None and self._goes_well(call, depth + 1)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _SIZED:
            fact = self._site.fact(call.func.value)
            return fact is not None and fact.is_tensor and self._is_plain_int(node)
        return False

    def _operand_goes_well(
        self, node: cst.BaseExpression, parent: cst.BinaryOperation, depth: int
    ) -> bool:
        first = parent.left is node
        other = parent.right if first else parent.left
        fact = self._site.fact(other)
        plain = isinstance(parent.operator, cst.Add | cst.Subtract | cst.Multiply)
        if fact is not None and fact.is_tensor and fact.type == "torch.Tensor":
            # On the right of a tensor, a number of numpy's is a number.
            ends_well = plain or isinstance(parent.operator, cst.Divide)
            return not first and ends_well and not self._may_be_float_one(node)
        if self.number(parent) is None:
            return False  # among others: division by what may be zero
        if not plain and not isinstance(parent.operator, cst.Divide | cst.FloorDivide | cst.Modulo):
            return False
        return self._goes_well(parent, depth + 1)

    def _name_goes_well(self, target: cst.Name, depth: int) -> bool:
        """Whether the name is local, bound once, and all its uses take either number."""
        function = self._site.function_of(target)
        if function is None or target.value in activity(function.body).captures:
            return False
        uses: list[cst.Name] = []
        for node in walk(function):
            if not isinstance(node, cst.Name) or node.value != target.value or node is target:
                continue
            holder = self._site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            uses.append(node)
        if any(self._is_bound(node) for node in uses):
            return False
        if any(isinstance(node, cst.Global | cst.Nonlocal) for node in walk(function.body)):
            return False
        return all(self._goes_well(node, depth + 1) for node in uses)


def only_truth_counts(site: Site, node: cst.CSTNode) -> bool:
    """Whether nothing is asked of a value but its truth."""
    parent = site.parent(node)
    match parent:
        case cst.If() | cst.While() | cst.IfExp() | cst.Assert():
            return parent.test is node
        case cst.BooleanOperation():
            return only_truth_counts(site, parent)
        case cst.UnaryOperation(operator=cst.Not()):
            return True
    return False


def _within(number: Number) -> Number | None:
    """The number, if it is none that numpy would cut to its width."""
    return number if number.bits <= _BITS else None


def _result(numpy: str, given: Sequence[Number]) -> Number | None:
    """The result of a function of numpy's on such numbers, where Python's gives the same."""
    first = given[0]
    ints = all(number.kind == "int" for number in given)
    lows = [number.low for number in given]
    bits = max(number.bits for number in given)
    match numpy, len(given):
        case "sqrt", 1:
            return Number("float", first.low, bits) if first.low is not None else None
        case "log" | "log2" | "log10", 1:
            return Number("float", None, 11) if first.low == 1 else None
        case "sin" | "cos" | "arctan", 1:
            return Number("float", None, 2)
        case "abs" | "absolute", 1:
            return Number(first.kind, first.low or 0, bits)
        case "float64", 1:
            return Number("float", first.low, bits)
        case "int64", 1:
            return first if ints else None
        case "floor" | "ceil", 1:
            # What goes into an `int`: else it is not replaced.
            return Number("int", first.low, bits)
        case "maximum", 2 if ints:
            return Number("int", max((low for low in lows if low is not None), default=None), bits)
        case "minimum", 2 if ints:
            return Number("int", None if None in lows else min(low or 0 for low in lows), bits)
        case "gcd", 2 if ints:
            return Number("int", 0, bits)
    return None
