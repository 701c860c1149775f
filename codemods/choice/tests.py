"""Tests: which part Python decides, which a tensor, and the 0-d tensor that holds the latter."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.tree import code, walk, words
from gbfix.analysis.trees import tree_of

from .context import Context, Declined
from .picked import picked, picks

_READS = words("item tolist")
_CASTS = words("float int bool")
#: Calls that give a Python bool for a tensor's data, and the tensor that says the same.
_QUESTIONS = {
    "math.isnan": "{torch}.isnan({0})",
    "math.isinf": "{torch}.isinf({0})",
    "math.isfinite": "{torch}.isfinite({0})",
    "torch.is_nonzero": "({0} != 0)",
}
_EXACT = 127  # the largest integer that every number dtype holds
_SMALL_FLOATS = (0.0, 0.5, 1.0, 2.0)


@dataclasses.dataclass(frozen=True)
class Test:
    """A tensor's test as an expression: of a bool without dimensions, or its negation.

    ``negated`` says that the test holds where ``text`` is false; arms are swapped then.
    """

    text: str
    negated: bool = False

    def positive(self, torch: str) -> str:
        return invert(self.text) if self.negated else self.text


def invert(text: str) -> str:
    """The negation of a bool tensor."""
    node = cst.parse_expression(text)
    if (
        isinstance(node, cst.UnaryOperation)
        and isinstance(node.operator, cst.BitInvert)
        and not node.lpar
    ):
        return code(_ungroup(node.expression))
    return f"~{primary(text)}"


def _ungroup(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=()) if node.lpar else node


def primary(text: str) -> str:
    """The expression so that an attribute or an operator may follow."""
    node = cst.parse_expression(text)
    tight = cst.Name | cst.Attribute | cst.Call | cst.Subscript
    return text if node.lpar or isinstance(node, tight) else f"({text})"


def decided_by_tensor(test: cst.BaseExpression, ctx: Context) -> bool:
    """Whether a tensor's data decides the test, or a part of it."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return decided_by_tensor(inner, ctx)
        case cst.BooleanOperation(left=left, right=right):
            return decided_by_tensor(left, ctx) or decided_by_tensor(right, ctx)
        case cst.NamedExpr(value=value):
            return decided_by_tensor(value, ctx)
        case cst.Comparison():
            return _compares_tensors(test, ctx)
        case cst.Call():
            if _listed(test) is not None:
                return any(decided_by_tensor(part, ctx) for part in _listed(test) or ())
            part = _quantified(test)
            if part is not None:
                return decided_by_tensor(part.elt, ctx)
            if question(test, ctx) is not None:
                return True
    return is_read(test, ctx) or ctx.is_tensor(test) or picked(test, ctx) is not None


def _compares_tensors(test: cst.Comparison, ctx: Context) -> bool:
    operators = [target.operator for target in test.comparisons]
    if any(isinstance(op, cst.Is | cst.IsNot) for op in operators):
        return False
    sides = [test.left, *(target.comparator for target in test.comparisons)]
    if isinstance(operators[0], cst.In | cst.NotIn):
        return len(sides) == 2 and (
            _scalar(sides[0], ctx) or _is_cell(sides[0], ctx) or ctx.is_tensor(sides[1])
        )
    return any(_scalar(side, ctx) or ctx.is_tensor(side) for side in sides)


def _is_cell(node: cst.BaseExpression, ctx: Context) -> bool:
    fact = ctx.fact(node)
    return fact is not None and fact.is_tensor


def _scalar(node: cst.BaseExpression, ctx: Context) -> bool:
    """Whether the expression is a Python number that was read from a tensor."""
    return (
        is_read(node, ctx)
        or any(is_read(it, ctx) for it in walk(node) if isinstance(it, cst.Call | cst.Name))
        or picks(node, ctx)
    )


def is_read(node: cst.CSTNode, ctx: Context) -> bool:
    """``t.item()``, ``float(t)``, or a name that holds such a number and is only tested."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("item")), args=[]):
            return True
        case cst.Call(func=cst.Name(name), args=[cst.Arg(value=value, keyword=None, star="")]):
            return name in _CASTS and (ctx.is_tensor(value) or is_read(value, ctx))
        case cst.Name(name):
            return name in ctx.reads
    return False


def question(node: cst.Call, ctx: Context) -> str | None:
    """What a call asks of a tensor's data in Python, as a tensor; None where it does not."""
    pattern = _QUESTIONS.get(ctx.resolve(node.func))
    plain = all(arg.keyword is None and not arg.star for arg in node.args)
    if pattern is not None and plain and node.args:
        inner = [_strip(arg.value, ctx)[0] for arg in node.args]
        if pattern.count("{") - 1 <= len(inner) and any(ctx.is_tensor(it) for it in inner):
            texts = [primary(code(it)) for it in inner]
            return pattern.format(*texts, torch=ctx.torch)
    if ctx.resolve(node.func) == "torch.allclose" and len(node.args) >= 2:
        close = node.with_changes(func=cst.parse_expression(f"{ctx.torch}.isclose"))
        return f"{code(close)}.all()"
    return None


@dataclasses.dataclass(frozen=True)
class Parts:
    """A test taken apart: what Python asks first, and the tensor's part.

    ``joint`` is ``and``, ``or``, or empty where Python has no part in it.
    """

    python: cst.BaseExpression | None
    joint: str
    tensor: cst.BaseExpression | None


def split(test: cst.BaseExpression, ctx: Context) -> Parts:
    """Python's part of a test and the tensor's; they are joined by ``and`` or ``or``.

    The tensor's may have such parts itself.
    """
    if not decided_by_tensor(test, ctx):
        return Parts(test, "", None)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = split(test.expression, ctx)
        if inner.python is None or inner.tensor is None:
            return Parts(None, "", test)
        joint = "or" if inner.joint == "and" else "and"
        return Parts(_negate(inner.python), joint, _negate(inner.tensor))
    if not isinstance(test, cst.BooleanOperation):
        return Parts(None, "", test)
    joint = "and" if isinstance(test.operator, cst.And) else "or"
    operands = list(_operands(test, type(test.operator)))
    python = [it for it in operands if not decided_by_tensor(it, ctx)]
    tensors = [it for it in operands if decided_by_tensor(it, ctx)]
    if not python:
        if any(split(it, ctx).python is not None for it in tensors):
            raise Declined("Python values and tensors alternate in the test")
        return Parts(None, "", test)
    # `P and (Q or t)`: what is left below P is taken apart in its turn.
    if len(tensors) > 1 and any(split(it, ctx).python is not None for it in tensors):
        raise Declined("Python values and tensors alternate in the test")
    return Parts(_joined(python, test.operator), joint, _joined(tensors, test.operator))


def _operands(node: cst.BaseExpression, kind: type) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, kind):
        return [*_operands(node.left, kind), *_operands(node.right, kind)]
    return [node]


def _joined(parts: list[cst.BaseExpression], operator: cst.BaseBooleanOp) -> cst.BaseExpression:
    result = parts[0]
    for part in parts[1:]:
        result = cst.BooleanOperation(result, operator, part)
    return result


def _negate(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return node.expression
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        flipped = {cst.Is: cst.IsNot(), cst.IsNot: cst.Is()}.get(type(node.comparisons[0].operator))
        if flipped is not None:
            target = node.comparisons[0].with_changes(operator=flipped)
            return node.with_changes(comparisons=[target])
    inner = node
    if isinstance(node, cst.BooleanOperation | cst.IfExp) and not node.lpar:
        inner = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), inner)


def guarded_test(
    python: cst.BaseExpression,
    tensor: cst.BaseExpression,
    rest: Sequence[cst.BaseStatement],
    ctx: Context,
) -> cst.IfExp:
    """``P and t`` as one test: ``t`` if Python says so, else a tensor that is false.

    That one needs a device.  What tells it is a tensor of the test that is there whatever Python
    says, as what follows (``rest``) computes with it in any case; raises `Declined` without one.
    """
    if split(tensor, ctx).python is not None:
        raise Declined("Python values and tensors alternate in the test")
    used = {text for line in rest for text in _computed_with(line)}
    for node in walk(tensor):
        named = isinstance(node, cst.Name | cst.Attribute) and ctx.is_tensor(node)
        if named and code(node) in used:
            no = f"{_no(ctx)}{code(node)}.device)"
            return cst.IfExp(test=python, body=tensor, orelse=cst.parse_expression(no))
    raise Declined("Python decides whether there is a tensor to ask")


def _no(ctx: Context) -> str:
    return f"{ctx.torch}.zeros((), dtype={ctx.torch}.bool, device="


def _computed_with(line: cst.BaseStatement) -> Iterator[str]:
    """The operands of a line's arithmetic, whichever way Python goes: None would be none."""
    if not isinstance(line, cst.SimpleStatementLine):
        return
    if any(isinstance(node, cst.IfExp | cst.BooleanOperation | cst.Lambda) for node in walk(line)):
        return
    for node in walk(line):
        if isinstance(node, cst.BinaryOperation):
            yield from (code(node.left), code(node.right))


def lower(test: cst.BaseExpression, ctx: Context) -> Test:
    """A tensor's test as a bool tensor without dimensions."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = lower(inner, ctx)
            return dataclasses.replace(found, negated=not found.negated)
        case cst.BooleanOperation(left=left, right=right):
            sign = "&" if isinstance(test.operator, cst.And) else "|"
            sides = [lower(side, ctx).positive(ctx.torch) for side in (left, right)]
            return Test(f" {sign} ".join(_operand(side, sign) for side in sides))
        case cst.IfExp(test=python, body=tensor, orelse=no) if code(no).startswith(_no(ctx)):
            text = lower(tensor, ctx).positive(ctx.torch)
            return Test(f"({text} if {code(python)} else {code(no)})")
        case cst.NamedExpr(target=target, value=value):
            return Test(truth(code(target), ctx.fact(value), ctx))
        case cst.Call() if _listed(test) is not None:
            parts = _listed(test) or []
            sign = "&" if code(test.func) == "all" else "|"
            texts = [
                lower(part, ctx).positive(ctx.torch)
                if decided_by_tensor(part, ctx)
                else f"bool({code(part)})"
                for part in parts
            ]
            return Test(f" {sign} ".join(_operand(text, sign) for text in texts))
        case cst.Call() if _quantified(test) is not None:
            return Test(_each(test, ctx))
        case cst.Call() if question(test, ctx) is not None:
            return Test(str(question(test, ctx)))
        case cst.Comparison():
            return Test(_comparison(test, ctx))
    read, wide = _strip(test, ctx)
    del wide
    text = code(_ungroup(read)) if _single(read) else code(read)
    elsewhere = isinstance(read, cst.Name) and _is_number_elsewhere(read.value, ctx)
    if elsewhere or (isinstance(read, cst.Call) and _gives_numbers(read, ctx)):
        # Of a tensor this gives the tensor itself, which is the caller's.
        own = ".clone()" if isinstance(read, cst.Name) and _is_default(read.value, ctx) else ""
        text = f"{ctx.torch}.as_tensor({text}){own}"
    return Test(truth(text, ctx.fact(read), ctx))


def _is_number_elsewhere(name: str, ctx: Context) -> bool:
    """Whether the function binds a name to a literal, too, which other ways through it leave:
    ``skip = False``, before ``if self.training: skip = torch.rand(()) < p``, or a default.
    """
    return _is_default(name, ctx) or any(
        isinstance(part, cst.Assign)
        and any(isinstance(it.target, cst.Name) and it.target.value == name for it in part.targets)
        and _is_literal(part.value)
        for part in walk(ctx.scope)
    )


def _is_default(name: str, ctx: Context) -> bool:
    """Whether the name is a parameter that is a literal where nothing is given."""
    function = ctx.site.function
    return function is not None and any(
        param.name.value == name and _is_literal(param.default)
        for param in params_of(function.params)
    )


def _is_literal(node: cst.BaseExpression | None) -> bool:
    return node is not None and (isinstance(node, cst.Integer | cst.Float) or code(node) in _BOOLS)


_BOOLS = ("True", "False")


def _gives_numbers(call: cst.Call, ctx: Context) -> bool:
    """Whether a function of the project returns a literal in some other case: ``return False``."""
    name = code(call.func).rpartition(".")[2]
    texts = {ctx.site.source, *ctx.site.sources.values()}
    return any(
        isinstance(part, ast.Return)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, int | float)
        for text in texts
        if f"def {name}(" in text
        for function in ast.walk(tree_of(text))
        if isinstance(function, ast.FunctionDef) and function.name == name
        for part in ast.walk(function)
    )


def _single(node: cst.BaseExpression) -> bool:
    return "\n" not in code(node) and not isinstance(node, cst.Tuple | cst.GeneratorExp)


def _operand(text: str, sign: str) -> str:
    node = cst.parse_expression(text)
    if isinstance(node, cst.BinaryOperation) and not node.lpar:
        same = isinstance(node.operator, cst.BitAnd if sign == "&" else cst.BitOr)
        return text if same else f"({text})"
    if isinstance(node, cst.UnaryOperation):
        return text
    return primary(text)


def truth(text: str, fact: object, ctx: Context) -> str:
    """The truth of a one-element tensor."""
    dtype, shape = getattr(fact, "dtype", None), getattr(fact, "shape", None)
    if shape is not None and len(shape) > 0:
        text = f"{primary(text)}.reshape(())"
    if dtype == "torch.bool":
        return text
    return f"{primary(text)} != 0"


def _comparison(test: cst.Comparison, ctx: Context) -> str:
    parts, left = [], test.left
    for target in test.comparisons:
        parts.append(_compare(left, target.operator, target.comparator, ctx))
        left = target.comparator
    if len(parts) == 1:
        return parts[0]
    return " & ".join(f"({part})" for part in parts)


def _compare(
    left: cst.BaseExpression, operator: cst.BaseCompOp, right: cst.BaseExpression, ctx: Context
) -> str:
    if isinstance(operator, cst.In | cst.NotIn):
        return _among(left, operator, right, ctx)
    (one, wide_one), (other, wide_other) = _strip(left, ctx), _strip(right, ctx)
    texts = []
    for side, read, beside in ((one, wide_one, other), (other, wide_other, one)):
        text = _side(side)
        if read and not _fits(beside, ctx):
            # A Python comparison is exact: the tensor's dtype must not cut the other side.
            text = f"{primary(text)}.double()"
        texts.append(text)
    sign = cst.Module([]).code_for_node(operator).strip()
    text = f"{texts[0]} {sign} {texts[1]}"
    facts = [ctx.fact(one), ctx.fact(other)]
    if any(fact is not None and fact.is_tensor and fact.shape for fact in facts):
        text = f"({text}).reshape(())"
    return text


def _side(node: cst.BaseExpression) -> str:
    text = code(node)
    loose = cst.Comparison | cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.UnaryOperation
    if isinstance(node, loose) and not node.lpar and not isinstance(node, cst.UnaryOperation):
        return f"({text})"
    return text


def _fits(beside: cst.BaseExpression, ctx: Context) -> bool:
    """Whether a number compares alike with a tensor of any dtype."""
    value: object = None
    match beside:
        case cst.Integer() | cst.Float():
            value = beside.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float()):
            return False
    if isinstance(value, int):
        return 0 <= value <= _EXACT
    return isinstance(value, float) and value in _SMALL_FLOATS


def _strip(node: cst.BaseExpression, ctx: Context) -> tuple[cst.BaseExpression, bool]:
    """The expression with every read of a tensor's number taken out, and whether there was one."""
    reads: list[bool] = []

    class Reads(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
            if original_node.value in ctx.reads:
                reads.append(True)
            return updated_node

        def leave_Subscript(
            self, original_node: cst.Subscript, updated_node: cst.Subscript
        ) -> cst.BaseExpression:
            return picked(updated_node, ctx) or updated_node

        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            if not is_read(original_node, ctx):
                return picked(updated_node, ctx) or updated_node
            reads.append(True)
            match updated_node:
                case cst.Call(func=cst.Attribute(attr=cst.Name("item"), value=value)):
                    return value
                case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=value)]):
                    fact = ctx.fact(original_node.args[0].value)
                    whole = fact is not None and (fact.dtype or "").startswith(
                        ("torch.int", "torch.uint", "torch.bool")
                    )
                    if whole:
                        return value
                    return cst.parse_expression(f"{primary(code(value))}.trunc()")
                case cst.Call(func=cst.Name("bool"), args=[cst.Arg(value=value)]):
                    fact = ctx.fact(original_node.args[0].value)
                    return cst.parse_expression(primary(truth(code(value), fact, ctx)))
                case cst.Call(args=[cst.Arg(value=value)]):
                    return value
            return updated_node

    new = node.visit(Reads())
    assert isinstance(new, cst.BaseExpression)
    return new, bool(reads)


def _among(
    left: cst.BaseExpression, operator: cst.BaseCompOp, right: cst.BaseExpression, ctx: Context
) -> str:
    if ctx.is_tensor(right):
        # What a tensor does when it is asked.
        sought = _strip(left, ctx)[0]
        text = f"({_side(right)} == {_side(sought)}).any()"
        return f"~{text}" if isinstance(operator, cst.NotIn) else text
    if not isinstance(right, cst.Tuple | cst.List | cst.Set) or not right.elements:
        raise Declined("the values that a tensor is compared with are not written out")
    if len(right.elements) > 8:
        raise Declined("a tensor is looked up among many values")
    parts = [
        _compare(left, cst.Equal(), element.value, ctx)
        for element in right.elements
        if isinstance(element, cst.Element)
    ]
    text = " | ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0]
    return f"~({text})" if isinstance(operator, cst.NotIn) else text


# -- any and all -----------------------------------------------------------------------------


def _listed(node: cst.Call) -> list[cst.BaseExpression] | None:
    """The parts of ``any((a, b))``, where they are written out."""
    match node:
        case cst.Call(
            func=cst.Name("any" | "all"),
            args=[cst.Arg(value=cst.Tuple(parts) | cst.List(parts), keyword=None, star="")],
        ) if parts and all(isinstance(part, cst.Element) for part in parts):
            return [part.value for part in parts]
    return None


def _quantified(node: cst.Call) -> cst.GeneratorExp | cst.ListComp | None:
    match node:
        case cst.Call(
            func=cst.Name("any" | "all"),
            args=[cst.Arg(value=cst.GeneratorExp() | cst.ListComp() as each, keyword=None)],
        ):
            return each
    return None


def _each(node: cst.Call, ctx: Context) -> str:
    each = _quantified(node)
    assert each is not None
    parts = split(each.elt, ctx)
    if parts.python is not None:
        raise Declined("Python values and tensors alternate in the parts of a test")
    text = lower(each.elt, ctx).positive(ctx.torch)
    ctx.notes.append(f"`{code(node.func)}` of nothing at all raises now.")
    listed = cst.ListComp(elt=cst.parse_expression(text), for_in=each.for_in)
    return f"{ctx.torch}.stack({code(listed)}).{code(node.func)}()"
