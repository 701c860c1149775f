"""Where a float of numpy's goes, and whether Python's float does the same there or raises an error.

Arithmetic, comparisons and conversions give one number with both, but for what numpy calls nan or
inf (and warns of) and Python refuses.  A method, a type, a text or a tensor's dtype would tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo
_AUGMENTED = (
    cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign | cst.DivideAssign
    | cst.FloorDivideAssign | cst.ModuloAssign
)  # fmt: skip
_ORDER = (
    cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual | cst.Equal
    | cst.NotEqual
)  # fmt: skip
#: They make float32 of either.
_LEGACY = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.DoubleTensor"})


class PlainUse:
    """Follows numbers through one function; ``replaced`` tells calls that become Python's.

    ``tensors`` says whether they may go into the arithmetic of tensors.
    """

    def __init__(
        self, site: Site, replaced: Callable[[cst.Call], bool], *, tensors: bool = True
    ) -> None:
        self._tensors = tensors
        self._site = site
        self._replaced = replaced

    def is_number(
        self, node: cst.BaseExpression, seen: frozenset[str] = frozenset(), depth: int = 0
    ) -> bool:
        """Whether the value is a single number, of Python's or of numpy's."""
        if depth > 20:
            return False
        fact = infer(node, self._site.fact)
        if fact is not None:
            numpy = fact.type.startswith("numpy.") and fact.kind == "object"
            return fact.kind in ("int", "float") or (
                numpy and fact.type.startswith(("numpy.float", "numpy.int"))
            )
        match node:
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=inner):
                return self.is_number(inner, seen, depth + 1)
            case cst.BinaryOperation(operator=operator) if isinstance(
                operator, _ARITHMETIC | cst.Power
            ):
                sides = (node.left, node.right)
                return all(self.is_number(side, seen, depth + 1) for side in sides)
            case cst.Call():
                name = resolve(self._site.module, node.func) or ""
                return name in ("builtins.int", "builtins.float") or self._replaced(node)
            case cst.Name(value=name):
                return name in seen or self._is_bound_to_numbers(node, seen, depth)
        return False

    def _is_bound_to_numbers(self, node: cst.Name, seen: frozenset[str], depth: int) -> bool:
        for parent in self._site.ancestors(node):
            if isinstance(parent, cst.ListComp | cst.GeneratorExp):
                clause = parent.for_in
                if isinstance(clause.target, cst.Name) and clause.target.value == node.value:
                    iterated = clause.iter
                    called = isinstance(iterated, cst.Call) and iterated.func
                    return bool(called) and (
                        resolve(self._site.module, called) == "builtins.range"  # type: ignore[arg-type]
                    )
        values = list(self._bindings(node.value))
        inner = seen | {node.value}
        return bool(values) and all(
            value is not None and self.is_number(value, inner, depth + 1) for value in values
        )

    def _bindings(self, name: str) -> Iterator[cst.BaseExpression | None]:
        """What a local name is bound to in the function; None for a binding of another kind."""
        function = self._site.function
        for node in walk(function.body) if function is not None else ():
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            holder = self._site.parent(node)
            if isinstance(holder, cst.AssignTarget):
                assign = self._site.parent(holder)
                assert isinstance(assign, cst.Assign)
                yield assign.value
            elif isinstance(holder, cst.AugAssign) and holder.target is node:
                yield holder.value if isinstance(holder.operator, _AUGMENTED) else None
            elif isinstance(holder, cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr):
                if holder.target is node:
                    yield None
            elif isinstance(holder, cst.Element | cst.AsName | cst.NameItem):
                yield None

    def reads_data(self, node: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a tensor's data can be in it: other data may be where only numpy has a number."""
        for inner in walk(node):
            match inner:
                case cst.Attribute(attr=cst.Name(value="item" | "tolist" | "numpy")):
                    return True
                case cst.Call(args=[cst.Arg(value=value)]) if self._is_converted(inner, value):
                    return True
                case cst.Name(value=name) if name not in seen:
                    values = self._bindings(name)
                    further = seen | {name}
                    if any(value is None or self.reads_data(value, further) for value in values):
                        return True
        return False

    def _is_converted(self, call: cst.Call, value: cst.BaseExpression) -> bool:
        fact = self._site.fact(value)
        if fact is not None and fact.is_tensor:
            return True
        name = resolve(self._site.module, call.func) or ""
        return name in ("builtins.float", "builtins.int") and not self.is_number(value)

    def goes_well(
        self, node: cst.BaseExpression, seen: frozenset[str] = frozenset(), depth: int = 0
    ) -> bool:
        """Whether all that the value goes into takes either number alike."""
        if depth > 30:
            return False
        parent = self._site.parent(node)
        further = (seen, depth + 1)
        match parent:
            case cst.Arg(keyword=None, star=""):
                call = self._site.parent(parent)
                return isinstance(call, cst.Call) and self._is_taken(call, *further)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                return self.goes_well(parent, *further)
            case cst.BinaryOperation():
                return self._operand_goes_well(node, parent, *further)
            case cst.IfExp():
                return parent.test is node or self.goes_well(parent, *further)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]):
                return self._name_goes_well(target, *further)
            case cst.AugAssign(target=cst.Name() as target, operator=operator):
                if parent.value is not node:
                    return True  # the name's own use: what comes of it is the name's again
                return isinstance(operator, _AUGMENTED) and self._name_goes_well(target, *further)
        return self._ends_well(node, parent)

    def _ends_well(self, node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
        """Whether the number itself is used up there."""
        match parent:
            case cst.UnaryOperation(operator=cst.Not()):
                return True
            case cst.Comparison(left=left, comparisons=[target]):
                other = target.comparator if left is node else left
                return self._is_compared(parent, target, other)
            case cst.ComparisonTarget():
                comparison = self._site.parent(parent)
                return (
                    isinstance(comparison, cst.Comparison)
                    and len(comparison.comparisons) == 1
                    and self._is_compared(comparison, parent, comparison.left)
                )
            case cst.If() | cst.While():
                return parent.test is node
            case cst.FormattedStringExpression(conversion=None, equal=None):
                return True
            case cst.ListComp() if parent.elt is node:
                return self._is_listed(parent)
            case cst.Element():
                listed = self._site.parent(parent)
                return isinstance(listed, cst.List) and self._is_listed(listed)
        return False

    def _is_taken(self, call: cst.Call, seen: frozenset[str], depth: int) -> bool:
        name = resolve(self._site.module, call.func) or ""
        if name in ("builtins.int", "builtins.float") and len(call.args) == 1:
            return True
        if name.startswith("math."):
            return True
        if name in ("builtins.abs", "builtins.max", "builtins.min") or self._replaced(call):
            return self.goes_well(call, seen, depth)
        return False

    def _is_listed(self, listed: cst.BaseExpression) -> bool:
        """Whether a list goes straight into a tensor of one dtype."""
        arg = self._site.parent(listed)
        call = self._site.parent(arg) if isinstance(arg, cst.Arg) else None
        return (
            isinstance(call, cst.Call)
            and len(call.args) == 1
            and (resolve(self._site.module, call.func) or "") in _LEGACY
        )

    def _operand_goes_well(
        self,
        node: cst.BaseExpression,
        parent: cst.BinaryOperation,
        seen: frozenset[str],
        depth: int,
    ) -> bool:
        first = parent.left is node
        other = parent.right if first else parent.left
        fact = self._site.fact(other)
        if fact is not None and fact.is_tensor:
            plain = isinstance(parent.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide)
            return self._tensors and not first and plain and fact.type == "torch.Tensor"
        if isinstance(parent.operator, cst.Power):
            # A root of a negative number is complex in Python; a square is no root.
            if not (first and isinstance(other, cst.Integer)):
                return False
        elif not isinstance(parent.operator, _ARITHMETIC) or not self.is_number(other, seen):
            return False
        return self.goes_well(parent, seen, depth)

    def _is_compared(
        self, comparison: cst.Comparison, target: cst.ComparisonTarget, other: cst.BaseExpression
    ) -> bool:
        if not isinstance(target.operator, _ORDER) or not self.is_number(other):
            return False
        node: cst.CSTNode | None = comparison
        parent = self._site.parent(comparison)
        while isinstance(parent, cst.BooleanOperation):
            node, parent = parent, self._site.parent(parent)
        match parent:
            case cst.If() | cst.While() | cst.IfExp() | cst.Assert():
                return parent.test is node
            case cst.UnaryOperation(operator=cst.Not()):
                return True
        return False

    def _name_goes_well(self, target: cst.Name, seen: frozenset[str], depth: int) -> bool:
        """Whether the name is local and all its uses take either number."""
        name, function = target.value, self._site.function_of(target)
        if name in seen:
            return True
        if function is None or name in activity(function.body).captures:
            return False
        if any(isinstance(node, cst.Global | cst.Nonlocal) for node in walk(function.body)):
            return False
        last = self._converted_at(function, target)
        return all(
            self.goes_well(use, seen | {name}, depth)
            for use in self._uses(function, name)
            if self._site.span(use).line <= last
        )

    def _converted_at(self, function: cst.FunctionDef, target: cst.Name) -> int:
        """The line of ``n = int(n)`` in the function's own block, behind which no use counts."""
        begin, end = self._site.span(target).line, self._site.span(function).end_line
        if not isinstance(function.body, cst.IndentedBlock):
            return end
        for statement in function.body.body:
            match statement:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(
                            targets=[cst.AssignTarget(target=cst.Name(value=name))],
                            value=cst.Call(func=func, args=[_]),
                        )
                    ]
                ) if name == target.value and self._site.span(statement).line >= begin:
                    made = resolve(self._site.module, func) or ""
                    if made in ("builtins.int", "builtins.float"):
                        return self._site.span(statement).end_line
        return end

    def _uses(self, function: cst.FunctionDef, name: str) -> Iterator[cst.Name]:
        for node in walk(function.body):
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            match self._site.parent(node):
                case cst.Attribute(value=value) if value is not node:
                    continue
                case cst.Arg(keyword=keyword) if keyword is node:
                    continue
                case cst.AssignTarget():
                    continue
            yield node
