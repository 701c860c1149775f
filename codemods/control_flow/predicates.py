"""From the test of a Python branch to a predicate that ``torch.cond`` and ``torch.where`` take.

A test is split into a Python part, which stays a Python ``if``, and a tensor part, which becomes
one tensor expression of exactly one element.  Evaluation order and short-circuiting are kept: an
operand is evaluated early or in vain only where that cannot be noticed.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.tree import code, walk

from .membership import WHOLE, alternatives, among, membership
from .refusal import Condition, Refusal
from .texts import as_whole, elements, number_of, operand, primary, with_name
from .values import Values


def is_data_dependent(test: cst.BaseExpression, values: Values) -> bool:
    """Whether the truth of the test surely depends on a tensor's data."""
    match test:
        case cst.UnaryOperation(operator=cst.Not()):
            return is_data_dependent(test.expression, values)
        case cst.BooleanOperation():
            return is_data_dependent(test.left, values) or is_data_dependent(test.right, values)
        case cst.Comparison(comparisons=targets):
            if any(isinstance(t.operator, cst.Is | cst.IsNot) for t in targets):
                return False
            if isinstance(targets[0].operator, cst.In | cst.NotIn):
                if alternatives(test, values) is not None or among(test, values) is not None:
                    return True
                return len(targets) == 1 and values.is_tensor(targets[0].comparator)
            sides = [test.left, *(target.comparator for target in targets)]
            return values.is_tensor(test) or any(
                values.is_tensor(side) or scalar_read(side, values) is not None for side in sides
            )
        case cst.Call() if _quantified(test) is not None:
            return any(is_data_dependent(part, values) for part in _quantified(test) or ())
        case cst.Call() if _each_of(test, values) is not None or _row(test, values) is not None:
            return True
        case cst.Call() if _asked_of_torch(test, values) or _equality(test, values):
            return True
    return values.is_tensor(test) or scalar_read(test, values) is not None


def split(test: cst.BaseExpression, values: Values) -> Condition:
    """The condition of a test, or `Refusal`."""
    if isinstance(test, cst.BooleanOperation):
        return _split_boolean(test, values)
    each = _each_of(test, values)
    found = each or _equality(test, values) or among(test, values)
    if found is not None:
        return found
    return Condition(predicate(test, values), node=test)


def predicate(test: cst.BaseExpression, values: Values) -> str:
    """Source text of a tensor that holds the truth of the test, or `Refusal`."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return f"{values.torch}.logical_not({predicate(inner, values)})"
        case cst.BooleanOperation():
            return _both(test, values)
        case cst.Comparison(comparisons=[_, _, *_]):
            return _chained(test, values)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn())]):
            return membership(test, values)
        case cst.Call():
            quantified = _quantified(test)
            if quantified is not None:
                joint = "and" if code(test.func) == "all" else "or"
                lazy = isinstance(test.args[0].value, cst.GeneratorExp)
                return _combine(quantified, joint, values, lazy=lazy)
            asked = _asked_of_torch(test, values)
            if asked:
                return asked
            row = _row(test, values)
            if row is not None:
                whole = primary(row) if values.is_bool_tensor(row) else f"({primary(row)} != 0)"
                return f"{whole}.{code(test.func)}()"
    read = scalar_read(test, values)
    if read is not None:
        return _truth(read.tensor, values, read.text)
    if isinstance(test, cst.Comparison):
        compared = _comparison_of_scalars(test, values)
        if compared is not None:
            return compared
    if not values.is_tensor(test):
        raise Refusal(f"it is not known whether `{code(test)}` is a tensor")
    return _truth(test, values)


def _quantified(node: cst.Call) -> list[cst.BaseExpression] | None:
    """The parts of ``any((a, b))``, or of ``any(f(t) for t in (a, b))``."""
    match node:
        case cst.Call(
            func=cst.Name(value="any" | "all"),
            args=[cst.Arg(keyword=None, star="", value=cst.Tuple() | cst.List() as parts)],
        ):
            return elements(parts)
        case cst.Call(
            func=cst.Name(value="any" | "all"),
            args=[
                cst.Arg(
                    value=cst.GeneratorExp(
                        elt=elt,
                        for_in=cst.CompFor(
                            target=cst.Name(value=name),
                            iter=cst.Tuple() | cst.List() as parts,
                            ifs=[],
                            inner_for_in=None,
                            asynchronous=None,
                        ),
                    )
                )
            ],
        ):
            found = elements(parts) or []
            inner = any(isinstance(n, cst.Lambda | cst.BaseComp) for n in walk(elt))
            if found and not inner and all(isinstance(part, cst.Name) for part in found):
                return [with_name(elt, name, code(part)) for part in found]
    return None


def _each_of(node: cst.BaseExpression, values: Values) -> Condition | None:
    """``any(t.isnan().any() for t in tensors)``: whether there are some is for Python."""
    match node:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = _each_of(inner, values)
            if found is None:
                return None
            signs = ("== 0", "> 0") if found.joint == "or" else ("> 0", "== 0")
            joint = "and" if found.joint == "or" else "or"
            python = found.python.replace(*signs)
            return Condition(f"{values.torch}.logical_not({found.tensor})", python, joint)
        case cst.Call(
            func=cst.Name(value="any" | "all" as question),
            args=[
                cst.Arg(
                    keyword=None,
                    star="",
                    value=cst.GeneratorExp() | cst.ListComp() as comprehension,
                )
            ],
        ):
            loop = comprehension.for_in
            if loop.ifs or loop.inner_for_in or loop.asynchronous:
                return None
            whole, part = values.fact(loop.iter), comprehension.elt
            known = isinstance(loop.iter, cst.Name) and isinstance(loop.target, cst.Name)
            if not known or whole is None or whole.kind not in ("list", "tuple", "tensor"):
                return None
            if not is_data_dependent(part, values):
                return None
        case _:
            return None
    lazy = isinstance(comprehension, cst.GeneratorExp)
    if not values.effects(part).pure or (lazy and not values.is_total(part)):
        raise Refusal(f"`{code(part)}` may fail or have an effect where `{question}` skips it")
    text = predicate(part, values)
    fact = values.fact(part)
    if fact is None or fact.shape != ():
        raise Refusal(f"`{code(part)}` is not known to be a 0-d tensor")
    some = f"len({code(loop.iter)}) > 0"
    listed = f"[{text} for {code(loop.target)} in {code(loop.iter)}]"
    joint = "and" if question == "any" else "or"
    python = some if question == "any" else some.replace(" > ", " == ")
    return Condition(f"{values.torch}.stack({listed}).{question}()", python, joint)


def _row(node: cst.Call, values: Values) -> cst.BaseExpression | None:
    """The tensor of ``any(t)`` or ``all(t)``, if it has one dimension: Python asks each number."""
    match node:
        case cst.Call(
            func=cst.Name(value="any" | "all"), args=[cst.Arg(keyword=None, star="", value=row)]
        ):
            fact = values.fact(row)
            if fact is not None and fact.is_tensor and fact.shape and len(fact.shape) == 1:
                return row
    return None


def _asked_of_torch(node: cst.Call, values: Values) -> str:
    """A tensor for a question that torch answers with a Python bool; "" for other calls."""
    if not values.of_torch(node) or not node.args:
        return ""
    assert isinstance(node.func, cst.Attribute)
    question = node.func.attr.value
    plain = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    if question == "is_nonzero" and len(plain) == len(node.args) == 1:
        return _truth(plain[0], values)
    if question == "allclose" and len(plain) >= 2 and all(map(values.is_tensor, plain[:2])):
        inner = code(node.with_changes(func=node.func.with_changes(attr=cst.Name("isclose"))))
        return f"{inner}.all()"
    return ""


def _equality(test: cst.BaseExpression, values: Values) -> Condition | None:
    """``torch.equal(a, b)``: whether the shapes agree is for Python, the values are data."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = _equality(inner, values)
            if found is None:
                return None
            python = found.python.replace(" == ", " != ")
            return Condition(f"{values.torch}.logical_not({found.tensor})", python, "or")
        case cst.Call(
            func=cst.Attribute(attr=cst.Name(value="equal")),
            args=[cst.Arg(keyword=None, star="") as one, cst.Arg(keyword=None, star="") as other],
        ):
            sides = (one.value, other.value)
            facts = [values.fact(side) for side in sides]
            names = [isinstance(side, cst.Name) for side in sides]
            if not all(names) or not all(fact is not None and fact.is_tensor for fact in facts):
                return None
            first, second = map(code, sides)
            same = facts[0] and facts[1] and facts[0].dtype == facts[1].dtype
            if not same or first == second or not values.of_torch(test):
                return None
            return Condition(
                f"({first} == {second}).all()", f"{first}.shape == {second}.shape", "and"
            )
    return None


@dataclasses.dataclass(frozen=True)
class ScalarRead:
    """A read of a tensor's one value: the tensor as it was written, and the text to use for it."""

    tensor: cst.BaseExpression
    text: str


def scalar_read(node: cst.BaseExpression, values: Values) -> ScalarRead | None:
    """The tensor whose one value is read: ``t`` of ``t.item()``, ``bool(t)``, or of a name.

    A name counts where it was bound to ``t.item()`` (see `scalars`).
    """
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="item")), args=[]):
            return ScalarRead(inner, primary(inner)) if values.is_tensor(inner) else None
        case cst.Call(func=cst.Name(value="bool" | "float" | "int" as kind), args=[arg]):
            if arg.keyword is None and not arg.star and values.is_tensor(arg.value):
                fact = values.fact(arg.value)
                dtype = None if fact is None else fact.dtype
                if kind == "int" and dtype in WHOLE:
                    return ScalarRead(arg.value, as_whole(arg.value, values.torch))
                if kind == "bool" or (kind == "float" and dtype in _EXACT_UP_TO):
                    return ScalarRead(arg.value, primary(arg.value))
        case cst.Name(value=name) if name in values.scalars:
            tensor, text = values.scalars[name]
            return ScalarRead(tensor, text)
    return None


# -- the parts -------------------------------------------------------------------------------


def _split_boolean(node: cst.BooleanOperation, values: Values) -> Condition:
    joint = "and" if isinstance(node.operator, cst.And) else "or"
    operands = _operands(node, type(node.operator))
    python = [op for op in operands if _is_python(op, values)]
    tensors = [op for op in operands if op not in python]
    if not python:
        return Condition(_both(node, values), node=node)
    # Python operands come to the front: only past operands whose evaluation nobody notices.
    last_python = max(operands.index(op) for op in python)
    overtaken = [op for op in operands[:last_python] if op in tensors]
    if overtaken:
        moved = [op for op in python if operands.index(op) > operands.index(overtaken[0])]
        if not all(values.is_total(op) for op in (*overtaken, *moved)):
            raise Refusal(
                f"`{code(node)}` mixes Python and tensor conditions in an order that cannot be kept"
            )
    text = f" {joint} ".join(_operand_text(op, joint) for op in python)
    if len(tensors) == 1:
        tensor = predicate(tensors[0], values)
    else:
        tensor = _combine(tensors, joint, values)
    return Condition(tensor, text, joint, tensors[0] if len(tensors) == 1 else None)


def _is_python(node: cst.BaseExpression, values: Values) -> bool:
    if is_data_dependent(node, values):
        return False
    fact = values.fact(node)
    if values.is_python(node) or (fact is not None and fact.kind not in _NO_TRUTH):
        return True
    raise Refusal(f"it is not known whether `{code(node)}` is a tensor")


#: Kinds whose truth may be data, or may be a tensor's on another run.
_NO_TRUTH = frozenset({"tensor", "mixed", "ndarray"})


def _both(node: cst.BooleanOperation, values: Values) -> str:
    joint = "and" if isinstance(node.operator, cst.And) else "or"
    return _combine(_operands(node, type(node.operator)), joint, values)


def _combine(
    operands: list[cst.BaseExpression], joint: str, values: Values, *, lazy: bool = True
) -> str:
    """One predicate for all operands; ``lazy`` says that Python evaluates them one by one."""
    for part in operands[1:]:
        if lazy and not _is_total_after(part, operands[0], values):
            raise Refusal(
                f"`{code(part)}` may fail or have an effect where Python's `{joint}` skips it"
            )
    symbol = "&" if joint == "and" else "|"
    texts = []
    for part in operands:
        texts.append(operand(predicate(part, values)))
    return f" {symbol} ".join(texts)


def _is_total_after(node: cst.BaseExpression, first: cst.BaseExpression, values: Values) -> bool:
    """Whether the expression cannot fail once the first one has been evaluated.

    ``x.max()`` fails where ``x`` is empty; but then ``x.min()`` has failed before.
    """
    filled, before = set(), values.filled
    skipped = cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.BaseComp | cst.NamedExpr
    if not any(isinstance(inner, skipped) for inner in walk(first)):
        for inner in walk(first):
            match inner:
                case cst.Call(func=cst.Attribute(attr=cst.Name(value="max" | "min"))):
                    taken = values.operand(inner)
                    if isinstance(taken, cst.Name) and values.is_tensor(taken):
                        filled.add(taken.value)
    values.filled = before | filled
    try:
        return values.is_total(node)
    finally:
        values.filled = before


def _operands(
    node: cst.BaseExpression, operator: type[cst.BaseBooleanOp]
) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, operator):
        return [*_operands(node.left, operator), *_operands(node.right, operator)]
    return [node]


def _operand_text(node: cst.BaseExpression, joint: str) -> str:
    text = code(node)
    return f"({text})" if isinstance(node, cst.BooleanOperation) and not node.lpar else text


def _truth(node: cst.BaseExpression, values: Values, text: str = "") -> str:
    """The tensor's truth: itself if it is bool, else whether it differs from zero (NaN does)."""
    if not values.one_element(node):
        raise Refusal(f"`{code(node)}` is not known to have exactly one element")
    if values.is_bool_tensor(node):
        return text or code(node)
    return f"{text or primary(node)} != 0"


def _chained(node: cst.Comparison, values: Values) -> str:
    """``a < t < b`` as ``(a < t) & (t < b)``: what stands in the middle is evaluated twice."""
    left, texts = node.left, []
    for target in node.comparisons:
        if isinstance(target.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn):
            raise Refusal(f"`{code(node)}` is no comparison of values")
        if not isinstance(target.comparator, cst.Name | cst.BaseNumber):
            last = target is node.comparisons[-1]
            if not last and not values.effects(target.comparator).pure:
                raise Refusal(f"`{code(target.comparator)}` would have to be evaluated twice")
            if last and not values.is_total(target.comparator):
                raise Refusal(f"`{code(target.comparator)}` may fail where Python skips it")
        pair = node.with_changes(left=left, comparisons=[target], lpar=(), rpar=())
        if not (values.is_tensor(left) or values.is_tensor(target.comparator)):
            raise Refusal(f"`{code(pair)}` is not known to compare tensors")
        if not all(
            isinstance(side, cst.BaseNumber) or values.one_element(side) or values.is_python(side)
            for side in (left, target.comparator)
        ):
            raise Refusal(f"`{code(pair)}` is not known to have exactly one element")
        texts.append(f"({code(pair)})")
        left = target.comparator
    return " & ".join(texts)


def _comparison_of_scalars(node: cst.Comparison, values: Values) -> str | None:
    """``t.item() > 0`` as ``t > 0``, where tensor and Python arithmetic surely agree."""
    (target,) = node.comparisons
    sides = [node.left, target.comparator]
    reads = [scalar_read(side, values) for side in sides]
    if not any(reads):
        return None
    if isinstance(target.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
        raise Refusal(f"`{code(node)}` is no comparison of values")
    texts = []
    for side, read, other in zip(sides, reads, reversed(sides), strict=True):
        if read is None:
            if not _is_number(side, values):
                raise Refusal(f"`{code(node)}` compares with something that is no number")
            texts.append(code(side))
            continue
        if not values.one_element(read.tensor):
            raise Refusal(f"`{code(read.tensor)}` is not known to have exactly one element")
        dtype = _scalar_dtype(read.tensor, values)
        exact = _is_exact(other, dtype)
        if exact is None:
            exact = _compares_exactly(other, dtype, values)
        if exact is None:
            raise Refusal(f"`{code(node)}` may compare differently as a tensor")
        # `.item()` compares in double precision, a tensor in its own.
        texts.append(read.text if exact else f"{read.text}.double()")
    operator = code(target.operator).strip()
    return f"{texts[0]} {operator} {texts[1]}"


def _scalar_dtype(read: cst.BaseExpression, values: Values) -> str:
    fact = values.fact(read)
    if fact is not None and fact.dtype is not None:
        return fact.dtype
    if values.is_bool_tensor(read):
        return "torch.bool"
    raise Refusal(f"the dtype of `{code(read)}` is not known")


#: Integers up to here are exact in every floating dtype; float8 has less and is left alone.
_EXACT_UP_TO = {
    "torch.bfloat16": 256,
    "torch.float16": 2048,
    "torch.float32": 2**24,
    "torch.float64": 2**53,
}
_INTEGERS = {"torch.uint8": 8, "torch.int8": 7, "torch.int16": 15, "torch.int32": 31}


def _is_number(node: cst.BaseExpression, values: Values) -> bool:
    if isinstance(node, cst.BaseNumber):
        return True
    fact = values.fact(node)
    return fact is not None and fact.kind in ("int", "float", "bool")


def _compares_exactly(side: cst.BaseExpression, dtype: str, values: Values) -> bool | None:
    """The same for a number that is no literal: whether its kind alone makes it exact."""
    fact = values.fact(side)
    if fact is None or isinstance(side, cst.BaseNumber | cst.UnaryOperation):
        return None
    if fact.kind == "float":
        return False if dtype in _EXACT_UP_TO else None
    small = isinstance(fact.value, int) and abs(fact.value) <= 2**53
    if fact.kind == "int" and dtype in _EXACT_UP_TO:
        return False if small else None
    return True if fact.kind == "int" and dtype == "torch.int64" and small else None


def _is_exact(literal: cst.BaseExpression, dtype: str) -> bool | None:
    """Whether the literal is exact in the dtype; None where even double would not do."""
    value = number_of(literal)
    if value is None:
        return None
    if dtype in _EXACT_UP_TO:
        halves = value * 4
        return abs(value) <= _EXACT_UP_TO[dtype] / 4 and halves == int(halves)
    if dtype == "torch.bool":
        return True if value in (0, 1) and isinstance(value, int) else None
    if isinstance(value, int):
        bits = _INTEGERS.get(dtype, 63 if dtype == "torch.int64" else 0)
        return True if 0 <= value < 2**bits or -(2**bits) <= value < 0 else None
    if dtype in ("torch.int8", "torch.int16", "torch.int32", "torch.uint8"):
        return False
    return None
