"""The kind of an expression that no run has observed, from the facts of its parts.

A branch that never ran has no facts of its own; its parts mostly do.  What is inferred holds
whenever evaluation succeeds; where that cannot be said the answer is None.  Nothing is folded but
literals, ``not``, and comparisons with None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis import torch_names as names
from gbfix.analysis.tree import dotted, words
from gbfix.schema import Fact

KindOf = Callable[[cst.BaseExpression], Fact | None]

BOOL = Fact("bool", "bool")
INT = Fact("int", "int")
FLOAT = Fact("float", "float")
STR = Fact("str", "str")
_NUMBERS = frozenset({"bool", "int", "float"})
_TENSOR = Fact("tensor", "torch.Tensor")

_RESULT_OF_BUILTIN = {
    "len": INT, "int": INT, "id": INT, "hash": INT, "ord": INT,
    "isinstance": BOOL, "issubclass": BOOL, "callable": BOOL, "hasattr": BOOL, "bool": BOOL,
    "any": BOOL, "all": BOOL,
    "float": FLOAT, "complex": Fact("complex", "complex"),
    "str": STR, "repr": STR, "format": STR, "chr": STR, "hex": STR, "bin": STR, "ascii": STR,
    "list": Fact("list", "list"), "sorted": Fact("list", "list"), "tuple": Fact("tuple", "tuple"),
    "dict": Fact("dict", "dict"), "set": Fact("set", "set"), "type": Fact("class", "type"),
}  # fmt: skip
_MATH_INTS = frozenset(
    {"floor", "ceil", "trunc", "gcd", "lcm", "comb", "perm", "factorial", "isqrt"}
)
_MATH_BOOLS = frozenset({"isnan", "isinf", "isfinite", "isclose"})
_MATH_FLOATS = words(
    """sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh pow fabs
    hypot copysign degrees radians erf erfc gamma lgamma fmod fsum dist"""
)


def infer(node: cst.BaseExpression, kind_of: KindOf) -> Fact | None:
    """What the expression would evaluate to, as far as that is certain; None where it is not.

    ``kind_of`` is asked first, for the expression and for every part: a recorded fact wins.
    A function that goes by its usual name (``len``, ``torch.sum``) is taken for what it is unless
    ``kind_of`` knows the name as something else.
    """
    known = kind_of(node)
    if known is not None:
        return known if known.kind != "mixed" else None
    literal = _literal(node)
    if literal is not None:
        return literal
    match node:
        case cst.Tuple():
            return _tuple(node, kind_of)
        case cst.NamedExpr():
            return infer(node.value, kind_of)
        case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
            return merge(infer(one, kind_of), infer(other, kind_of))
        case cst.UnaryOperation():
            return _unary(node, kind_of)
        case cst.Comparison():
            return _comparison(node, kind_of)
        case cst.BinaryOperation():
            return binary(infer(node.left, kind_of), infer(node.right, kind_of), node.operator)
        case cst.Attribute():
            return _attribute(infer(node.value, kind_of), node.attr.value)
        case cst.Subscript():
            return _subscript(node, kind_of)
        case cst.Call():
            return _call(node, kind_of)
    return None


#: What syntax alone tells, whatever its parts are.
_BY_SYNTAX: dict[type[cst.BaseExpression], Fact] = {
    cst.Imaginary: Fact("complex", "complex"),
    cst.FormattedString: STR,
    cst.List: Fact("list", "list"),
    cst.ListComp: Fact("list", "list"),
    cst.Dict: Fact("dict", "dict"),
    cst.DictComp: Fact("dict", "dict"),
    cst.Set: Fact("set", "set"),
    cst.SetComp: Fact("set", "set"),
    cst.GeneratorExp: Fact("iterator", "generator"),
    cst.Lambda: Fact("function", "function", in_project=True),
}


def _literal(node: cst.BaseExpression) -> Fact | None:
    """The kind of an expression that needs no look at its parts, and the value of a constant."""
    match node:
        case cst.Name():
            return _literal_name(node.value)
        case cst.Integer():
            return Fact("int", "int", value=node.evaluated_value, constant=True)
        case cst.Float():
            return Fact("float", "float", value=node.evaluated_value, constant=True)
        case cst.SimpleString() | cst.ConcatenatedString():
            return _string(node)
    return _BY_SYNTAX.get(type(node))


def merge(first: Fact | None, second: Fact | None) -> Fact | None:
    """What is true of both facts: the fact of a value that may be either; None if kinds differ."""
    if first is None or second is None or first.kind != second.kind or first.kind == "mixed":
        return None
    if first == second:
        return first
    same = Fact(first.kind, first.type if first.type == second.type else "")
    if first.kind != "tensor":
        return same
    shape = None
    sizes, others = first.shape, second.shape
    if sizes is not None and others is not None and len(sizes) == len(others):
        shape = tuple(a if a == b else None for a, b in zip(sizes, others, strict=True))
    return dataclasses.replace(
        same,
        shape=shape,
        dtype=first.dtype if first.dtype == second.dtype else None,
        device=first.device if first.device == second.device else None,
    )


def broadcast(
    first: tuple[int | None, ...] | None, second: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
    """The shape of an element-wise result; None where it is not known how many dimensions."""
    if first is None or second is None:
        return None
    width = max(len(first), len(second))
    left = (1,) * (width - len(first)) + first
    right = (1,) * (width - len(second)) + second
    return tuple(_dimension(a, b) for a, b in zip(left, right, strict=True))


def _dimension(a: int | None, b: int | None) -> int | None:
    if a == 1:
        return b
    if b == 1 or a == b:
        return a
    # An unknown dimension beside a known one (not 1) is that one, or 1: or it raises.
    return b if a is None else a if b is None else None


def binary(
    left: Fact | None, right: Fact | None, operator: cst.BaseBinaryOp | None = None
) -> Fact | None:
    """The result of an arithmetic operator on two facts."""
    if left is None or right is None:
        return None
    if left.is_tensor or right.is_tensor:
        return _tensor_binary(left, right, operator)
    if left.kind in _NUMBERS and right.kind in _NUMBERS:
        return _number_binary(left, right, operator)
    if isinstance(operator, cst.Add) and left.kind == right.kind in (
        "str",
        "list",
        "tuple",
        "bytes",
    ):
        return Fact(left.kind, left.type if left.type == right.type else "")
    if isinstance(operator, cst.Multiply) and right.kind in ("int", "bool"):
        return Fact(left.kind, left.type) if left.kind in ("str", "list", "tuple") else None
    if isinstance(operator, cst.Modulo) and left.kind == "str":
        return STR
    return None


def _literal_name(text: str) -> Fact | None:
    if text in ("True", "False"):
        return Fact("bool", "bool", value=text == "True", constant=True)
    return Fact("none", "NoneType", constant=True) if text == "None" else None


def _string(node: cst.SimpleString | cst.ConcatenatedString) -> Fact:
    value = node.evaluated_value
    if isinstance(value, bytes):
        return Fact("bytes", "bytes")
    if value is None or len(value) > 200:
        return STR
    return Fact("str", "str", value=value, constant=True)


def _tuple(node: cst.Tuple, kind_of: KindOf) -> Fact:
    items: list[Fact] = []
    for element in node.elements:
        item = None
        if isinstance(element, cst.Element):
            item = infer(element.value, kind_of)
        if item is None:
            return Fact("tuple", "tuple")
        items.append(item)
    return Fact("tuple", "tuple", items=tuple(items))


def _unary(node: cst.UnaryOperation, kind_of: KindOf) -> Fact | None:
    operand = infer(node.expression, kind_of)
    if isinstance(node.operator, cst.Not):
        if operand is not None and operand.constant and operand.is_python_scalar:
            return Fact("bool", "bool", value=not operand.value, constant=True)
        return BOOL
    if operand is None:
        return None
    if operand.is_tensor:
        return _like(operand)
    if operand.kind in ("bool", "int"):
        return INT
    if operand.kind == "float" and not isinstance(node.operator, cst.BitInvert):
        return FLOAT
    return None


def _comparison(node: cst.Comparison, kind_of: KindOf) -> Fact | None:
    result: Fact | None = None
    left = infer(node.left, kind_of)
    for position, target in enumerate(node.comparisons):
        right = infer(target.comparator, kind_of)
        one = _one_comparison(left, right, target.operator)
        # ``a < b < c`` is ``a < b and b < c``: its value is that of either.
        result = one if position == 0 else merge(result, one)
        left = right
    return result


def _one_comparison(left: Fact | None, right: Fact | None, operator: cst.BaseCompOp) -> Fact | None:
    if isinstance(operator, cst.Is | cst.IsNot):
        if left is None or right is None or right.kind != "none" or left.kind == "mixed":
            return BOOL
        return Fact(
            "bool",
            "bool",
            value=(left.kind == "none") is isinstance(operator, cst.Is),
            constant=True,
        )
    if isinstance(operator, cst.In | cst.NotIn):
        return BOOL
    if left is None or right is None:
        return None
    if left.is_tensor or right.is_tensor:
        result = _tensor_binary(left, right, None)
        return result and dataclasses.replace(result, dtype="torch.bool")
    plain = _NUMBERS | {"str", "none", "bytes", "list", "tuple", "dict", "set"}
    # Items of containers may be tensors, but ``==`` on built-in containers still gives a bool.
    return BOOL if left.kind in plain and right.kind in plain else None


def _like(tensor: Fact, **changes: object) -> Fact:
    """A new tensor of the same shape, dtype and device."""
    made = Fact(
        "tensor", "torch.Tensor", shape=tensor.shape, dtype=tensor.dtype, device=tensor.device
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def _tensor_binary(left: Fact, right: Fact, operator: cst.BaseBinaryOp | None) -> Fact | None:
    tensor, other = (left, right) if left.is_tensor else (right, left)
    if not other.is_tensor and other.kind not in _NUMBERS | {"complex"}:
        return None  # an ndarray, a list, a class of its own: whoever's operator it is
    device = tensor.device
    if other.is_tensor:
        device = left.device if left.device == right.device else None
    shape = broadcast(left.shape, right.shape) if other.is_tensor else tensor.shape
    dtype = _promoted(tensor, other)
    if isinstance(operator, cst.MatrixMultiply):
        shape = None
    if isinstance(operator, cst.Divide | cst.Power) and dtype not in names.FLOAT_DTYPES:
        dtype = None
    return Fact("tensor", "torch.Tensor", shape=shape, dtype=dtype, device=device)


def _promoted(tensor: Fact, other: Fact) -> str | None:
    """The dtype of an element-wise result where that is plain; None leaves it open."""
    if other.is_tensor:
        return tensor.dtype if tensor.dtype == other.dtype else None
    if tensor.dtype in names.FLOAT_DTYPES and other.kind in _NUMBERS:
        return tensor.dtype
    if tensor.dtype in names.INT_DTYPES and other.kind in ("bool", "int"):
        return tensor.dtype
    return None


def _number_binary(left: Fact, right: Fact, operator: cst.BaseBinaryOp | None) -> Fact | None:
    kinds = {left.kind, right.kind}
    if isinstance(operator, cst.MatrixMultiply) or operator is None:
        return None
    if isinstance(operator, cst.Power):
        if "float" in kinds:
            return FLOAT if right.kind != "float" else None  # (-2.0) ** 0.5 is complex
        positive = right.constant and isinstance(right.value, int) and right.value >= 0
        return INT if positive else None
    if "float" in kinds or isinstance(operator, cst.Divide):
        return FLOAT
    if isinstance(operator, cst.BitAnd | cst.BitOr | cst.BitXor) and kinds == {"bool"}:
        return BOOL
    return INT


def _attribute(value: Fact | None, attribute: str) -> Fact | None:
    if value is None or not value.is_tensor:
        return None
    if attribute == "shape":
        return _shape(value)
    if attribute in ("data", "real"):
        return _like(value, dtype=value.dtype if attribute == "data" else None)
    if attribute in names.TENSOR_ATTRIBUTES - {"grad"}:
        return _like(value, shape=None, dtype=None if attribute == "imag" else value.dtype)
    if attribute in names.INT_ATTRIBUTES:
        return INT
    if attribute in names.BOOL_ATTRIBUTES:
        return BOOL
    if attribute in ("dtype", "device", "layout"):
        return Fact("object", f"torch.{attribute}")
    return None


def _shape(tensor: Fact) -> Fact:
    items = None
    if tensor.shape is not None:
        items = tuple(
            INT if size is None else Fact("int", "int", value=size, constant=True)
            for size in tensor.shape
        )
    return Fact("tuple", "torch.Size", items=items)


def _subscript(node: cst.Subscript, kind_of: KindOf) -> Fact | None:
    value = infer(node.value, kind_of)
    if value is None:
        return None
    if value.is_tensor:
        return _like(value, shape=None)
    if len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    if isinstance(index, cst.Slice):
        return Fact(value.kind, value.type) if value.kind in ("str", "list", "tuple") else None
    if value.kind == "str":
        return STR
    position = infer(index.value, kind_of) if isinstance(index, cst.Index) else None
    if position is None or position.kind != "int":
        return None
    if value.type == "torch.Size" and (value.items is None or not position.constant):
        return INT
    items, at = value.items, position.value
    if value.kind != "tuple" or items is None or not position.constant:
        return None
    return items[at] if -len(items) <= at < len(items) else None


# -- calls -----------------------------------------------------------------------------------


def called_function(node: cst.Call, kind_of: KindOf) -> str | None:
    """The dotted name of the function that a call runs (``torch.sum``, ``len``); None if unknown.

    What the run recorded about the callee, or about the module that it is looked up in, wins over
    the text; without it ``F`` is ``torch.nn.functional`` and a usual name is what it usually is.
    """
    text = dotted(node.func)
    known = kind_of(node.func)
    if known is not None:
        if known.kind not in ("function", "class"):
            return None
        if known.qualname and (known.in_project or text is None or "." not in text):
            return _public_name(known.qualname)
    if text is None:
        return None
    root, _, rest = text.partition(".")
    if not rest:
        return text
    base: cst.BaseExpression = node.func
    while isinstance(base, cst.Attribute):
        base = base.value
    holder = kind_of(base)
    if holder is not None and holder.kind not in ("pymodule", "class"):
        return None
    if holder is not None and holder.qualname:
        return _public_name(f"{holder.qualname}.{rest}")
    if root == "F":
        return f"torch.nn.functional.{rest}"
    return f"torch.{text}" if text.startswith("nn.") else text


def _public_name(qualname: str) -> str:
    """The name under which users know a function that torch implements elsewhere."""
    for private, public in (
        ("builtins.", ""),
        ("torch._C._VariableFunctions.", "torch."),
        ("torch._C._VariableFunctionsClass.", "torch."),
        ("torch._VariableFunctionsClass.", "torch."),
        ("torch._C._nn.", "torch.nn.functional."),
        ("torch.functional.", "torch."),
    ):
        if qualname.startswith(private):
            return public + qualname.removeprefix(private)
    return qualname


def _call(node: cst.Call, kind_of: KindOf) -> Fact | None:
    function = called_function(node, kind_of)
    if function is not None and "." not in function:
        return _builtin_call(node, function, kind_of)
    if function is not None:
        home, _, last = function.rpartition(".")
        if home in ("torch", "torch.nn.functional"):
            return _torch_call(node, last, kind_of)
        if home == "math":
            return _math_call(last)
        if home == "builtins":
            return _RESULT_OF_BUILTIN.get(last)
    if isinstance(node.func, cst.Attribute):
        receiver = infer(node.func.value, kind_of)
        if receiver is not None and receiver.is_tensor:
            arguments = [infer(arg.value, kind_of) for arg in node.args]
            return _tensor_operation(receiver, node.func.attr.value, node.args, arguments)
        if receiver is not None and receiver.kind == "str":
            return _str_method(node.func.attr.value)
    return None


def _builtin_call(node: cst.Call, function: str, kind_of: KindOf) -> Fact | None:
    if function in ("abs", "round", "min", "max", "sum") and node.args:
        arguments = [infer(arg.value, kind_of) for arg in node.args if arg.keyword is None]
        first = arguments[0] if arguments else None
        if first is None:
            return None
        if function == "abs":
            return _like(first) if first.is_tensor else _number(first)
        if function == "round" and first.kind in _NUMBERS and len(node.args) == 1:
            return INT
        if function in ("min", "max") and len(arguments) > 1 and len(node.args) == len(arguments):
            result: Fact | None = first
            for other in arguments[1:]:
                result = merge(result, other)
            # Tensors of several sizes give one of them: of no dimensions only where none has any.
            points = all(it is not None and it.is_tensor and it.shape == () for it in arguments)
            shape = () if points else None
            return result and Fact(result.kind, result.type, shape=shape, dtype=result.dtype)
        return None
    return _RESULT_OF_BUILTIN.get(function)


def _number(fact: Fact) -> Fact | None:
    return {"bool": INT, "int": INT, "float": FLOAT}.get(fact.kind)


def _math_call(function: str) -> Fact | None:
    if function in _MATH_INTS:
        return INT
    if function in _MATH_BOOLS:
        return BOOL
    return FLOAT if function in _MATH_FLOATS else None


def _str_method(method: str) -> Fact | None:
    if method in ("startswith", "endswith", "isdigit", "isalpha", "isidentifier", "isupper"):
        return BOOL
    if method in ("count", "find", "index", "rfind"):
        return INT
    if method in ("split", "splitlines", "rsplit"):
        return Fact("list", "list")
    if method in ("format", "join", "lower", "upper", "strip", "lstrip", "rstrip", "replace"):
        return STR
    return None


def _torch_call(node: cst.Call, function: str, kind_of: KindOf) -> Fact | None:
    arguments = [infer(arg.value, kind_of) for arg in node.args]
    if function in ("is_tensor", "is_grad_enabled", "is_floating_point", "is_complex", "equal"):
        return BOOL
    if function in ("allclose", "is_nonzero"):
        return BOOL
    if function == "numel":
        return INT
    if function in names.CASTS:
        return None  # ``torch.float`` is a dtype
    first = arguments[0] if arguments and node.args[0].keyword is None else None
    if function.endswith(_LOSSES) and first is not None and first.is_tensor:
        return _loss(node, first, arguments)
    if first is not None and first.is_tensor:
        return _tensor_operation(first, function, node.args[1:], arguments[1:])
    plain = names.TENSOR_RESULTS | names.PURE_FUNCTIONAL | names.ELEMENTWISE
    if function in plain and function not in names.PAIR_REDUCTIONS:
        return None if function == "where" and len(node.args) == 1 else _TENSOR
    return None


#: How the names of losses end.
_LOSSES = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div")


def _loss(node: cst.Call, first: Fact, arguments: Sequence[Fact | None]) -> Fact:
    """A loss: one number unless ``reduction`` says otherwise, of the dtype that all floats have."""
    floats = {it.dtype for it in arguments if it is not None and it.is_tensor}
    same = {dtype for dtype in floats if dtype not in names.INT_DTYPES} == {first.dtype}
    reductions = [
        arg.value
        for arg in node.args
        if arg.keyword is not None and arg.keyword.value in ("reduction", "reduce")
    ]
    whole = all(
        isinstance(it, cst.SimpleString) and it.evaluated_value in ("sum", "mean")
        for it in reductions
    )
    positional = sum(arg.keyword is None for arg in node.args) > 3 or any(
        arg.star for arg in node.args
    )
    alone = whole and not positional
    known = same and first.dtype in names.FLOAT_DTYPES
    return _like(first, shape=() if alone else None, dtype=first.dtype if known else None)


def _tensor_operation(
    tensor: Fact, operation: str, args: Sequence[cst.Arg], arguments: list[Fact | None]
) -> Fact | None:
    """The result of ``tensor.operation(*args)``."""
    keywords = {arg.keyword.value: arg for arg in args if arg.keyword is not None}
    bare = not arguments
    if "dtype" in keywords:
        return _TENSOR if operation in names.TENSOR_RESULTS | names.FULL_REDUCTIONS else None
    if operation in _GIVE_NUMBERS:
        return _python_value(tensor, operation, bare)
    if operation in _SAME_ELEMENTS:
        return _of_same_elements(tensor, operation)
    if operation in names.PREDICATES:
        return _predicate(tensor, operation, arguments)
    if operation in _REDUCE or (operation in names.FULL_REDUCTIONS and bare):
        return _reduction(tensor, operation, arguments, keywords)
    if operation in names.ELEMENTWISE:
        same = tensor.dtype in names.FLOAT_DTYPES
        return _like(tensor, dtype=tensor.dtype if same else None)
    if operation == "to":
        return _like(tensor, dtype=None, device=None)
    if operation in ("nonzero", "where") and (bare or "as_tuple" in keywords):
        return None if operation == "where" or not bare else _like(tensor, shape=None, dtype=None)
    if operation in names.TUPLE_RESULTS:
        return Fact("tuple", "tuple")
    if operation in names.TENSOR_RESULTS | names.PURE_FUNCTIONAL:
        return None if "return_indices" in keywords else _TENSOR
    if operation.endswith("_") and not operation.endswith("__"):
        # In place: the tensor itself, perhaps in another shape (``squeeze_``).
        keeps = operation[:-1] in names.ELEMENTWISE | names.KEEPING_SHAPE
        return _like(tensor, shape=tensor.shape if keeps else None)
    return None


_GIVE_NUMBERS = names.INT_METHODS | names.BOOL_METHODS | words("item size stride is_nonzero")
_SAME_ELEMENTS = names.CASTS.keys() | names.IDENTITY_METHODS | names.UNARY_PREDICATES
_REDUCE = names.PAIR_REDUCTIONS | names.BOOL_REDUCTIONS | names.INDEX_REDUCTIONS


def _python_value(tensor: Fact, operation: str, bare: bool) -> Fact | None:
    """What a method gives that makes no tensor; ``bare``: it has no arguments."""
    if operation == "item":
        return _item(tensor)
    if operation == "size":
        return _shape(tensor) if bare else INT
    if operation == "stride":
        return Fact("tuple", "tuple") if bare else INT
    return INT if operation in names.INT_METHODS else BOOL


def _of_same_elements(tensor: Fact, operation: str) -> Fact:
    """The same elements, or what is asked of each: in another dtype, on another device."""
    if operation in names.CASTS:
        return _like(tensor, dtype=names.CASTS[operation])
    if operation in ("cpu", "cuda"):
        return _like(tensor, device=None)
    if operation == "rot90":
        return _like(tensor, shape=None)
    asks = operation in names.UNARY_PREDICATES
    return _like(tensor, dtype="torch.bool") if asks else _like(tensor)


def _predicate(tensor: Fact, operation: str, arguments: list[Fact | None]) -> Fact:
    """``x.eq(y)``: a bool for each element."""
    other = arguments[0] if arguments else None
    shape = None
    if other is not None and len(arguments) == 1 and operation != "isin":
        shape = broadcast(tensor.shape, other.shape) if other.is_tensor else tensor.shape
    return _like(tensor, dtype="torch.bool", shape=shape)


def _reduction(
    tensor: Fact, operation: str, arguments: list[Fact | None], keywords: dict[str, cst.Arg]
) -> Fact | None:
    """Of all elements where it has no arguments; else along dimensions."""
    if operation in names.FULL_REDUCTIONS and not arguments:
        return _like(tensor, shape=(), dtype=_reduced_dtype(tensor, operation))
    if operation in names.PAIR_REDUCTIONS:
        return _pair_reduction(tensor, operation, arguments, keywords)
    asks = operation in names.BOOL_REDUCTIONS
    return _like(tensor, shape=None, dtype="torch.bool" if asks else "torch.int64")


def _item(tensor: Fact) -> Fact | None:
    if tensor.dtype in names.FLOAT_DTYPES:
        return FLOAT
    if tensor.dtype in names.INT_DTYPES:
        return INT
    return BOOL if tensor.dtype == "torch.bool" else None


#: What a sum is of int64 of; of wider unsigned integers torch has no sum.
_ADDED_UP_AS_INT64 = (
    "torch.bool", "torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64",
)  # fmt: skip


def _reduced_dtype(tensor: Fact, operation: str) -> str | None:
    if operation in names.BOOL_REDUCTIONS:
        return "torch.bool"
    if operation in names.INDEX_REDUCTIONS:
        return "torch.int64"
    if tensor.dtype in names.FLOAT_DTYPES or operation in ("max", "min", "amax", "amin"):
        return tensor.dtype
    if operation in ("sum", "prod", "nansum") and tensor.dtype in _ADDED_UP_AS_INT64:
        return "torch.int64"
    return None


def _pair_reduction(
    tensor: Fact, operation: str, arguments: list[Fact | None], keywords: dict[str, cst.Arg]
) -> Fact | None:
    pair = Fact("tuple", f"torch.return_types.{operation}")
    if "dim" in keywords or operation in ("sort", "topk", "kthvalue", "mode", "cummax", "cummin"):
        return pair
    first = arguments[0] if arguments else None
    if operation == "aminmax":
        return pair
    if first is not None and first.is_tensor and operation in ("max", "min"):
        return _like(tensor, shape=broadcast(tensor.shape, first.shape), dtype=None)
    return pair if first is not None and first.kind == "int" else None
