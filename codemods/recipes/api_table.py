"""Calls that Dynamo refuses, and what it takes for them: one row each.

A row gets the site and a call and gives the source text of what means the same, or None.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import function_scope, import_map, resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions

from ..api.requires_grad_call import gives_no_history
from ..api.splice import Splice
from .tensor_rows import (
    Form,
    Row,
    copied_out,
    copied_pair,
    grouped,
    jagged,
    random_ints,
)

#: The number stood before the tensor until torch 1.0: ``x.add_(alpha, y)``.
_SCALED = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_PRODUCTS = words("addmm addmv addr addbmm baddbmm")
_QUIET = "the original warns, once, that it is called in an outdated way"


def number_first(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``x.add_(alpha, y)``, ``torch.addcmul(x, value, a, b)``: the number becomes a keyword."""
    match call.func:
        case cst.Attribute(value=owner, attr=cst.Name(name)):
            pass
        case _:
            return None
    plain = name.removesuffix("_")
    args = [splice.source_of(arg.value) for arg in call.args]
    if any(arg.star or arg.keyword for arg in call.args):
        return None
    of_torch = resolve(site.module, call.func) == f"torch.{name}"
    values = [arg.value for arg in call.args]
    before = [] if not of_torch else args[:1]
    rest, nodes = (args[1:], values[1:]) if of_torch else (args, values)
    if not of_torch and not _is_tensor(site, owner):
        return None
    if not _may_move(site, values):
        return None
    count = 3 if plain.startswith("addc") else 2
    if plain in _SCALED and len(rest) == count and _is_number(site, nodes[0]):
        if not all(_is_tensor(site, node) for node in nodes[1:]):
            return None
        inside = ", ".join([*before, *rest[1:], f"{_SCALED[plain]}={rest[0]}"])
        return Form(f"{splice.source_of(call.func)}({inside})", quiet=True)
    if plain in _PRODUCTS:
        return _product(site, call, splice, of_torch)
    return None


def _may_move(site: Site, values: list[cst.BaseExpression]) -> bool:
    """Whether the numbers among the arguments may be evaluated after the tensors.

    Either no argument does anything but compute, or no call can change the numbers: they are made
    of literals and of variables that only this function binds.
    """
    if any(isinstance(part, cst.NamedExpr) for value in values for part in walk(value)):
        return False
    if all(is_plain(value) or effects_of(value, site.fact).pure for value in values):
        return True
    if site.function is None:
        return False
    scope = function_scope(site.function)
    own = scope.locals - scope.cells
    numbers = (value for value in values if _is_number(site, value))
    return all(
        isinstance(part, cst.BaseNumber | cst.UnaryOperation | cst.BinaryOperation)
        or (isinstance(part, cst.Name) and part.value in own)
        for number in numbers
        for part in walk(number)
        if isinstance(part, cst.BaseExpression)
    )


def is_plain(node: cst.CSTNode) -> bool:
    """Names, literals, their attributes, items and sums: what calls no function by its text."""
    match node:
        case cst.Name() | cst.BaseNumber() | cst.SimpleString():
            return True
        case cst.Attribute(value=value) | cst.UnaryOperation(expression=value):
            return is_plain(value)
        case cst.BinaryOperation(left=left, right=right):
            return is_plain(left) and is_plain(right)
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            return is_plain(value) and is_plain(index)
    return False


def _product(site: Site, call: cst.Call, splice: Splice, of_torch: bool) -> Form | None:
    """``torch.addmm(beta, x, alpha, a, b)`` and ``x.addmm_(beta, alpha, a, b)``."""
    numbers, tensors = [], []
    for arg in call.args:
        text = splice.source_of(arg.value)
        if _is_number(site, arg.value):
            numbers.append(text)
        elif _is_tensor(site, arg.value):
            tensors.append(text)
        else:
            return None
    first_is_number = _is_number(site, call.args[0].value) if call.args else False
    if not first_is_number or len(numbers) > 2 or len(tensors) != (3 if of_torch else 2):
        return None
    keywords = [f"{key}={text}" for key, text in zip(("beta", "alpha"), numbers, strict=False)]
    return Form(f"{splice.source_of(call.func)}({', '.join([*tensors, *keywords])})", quiet=True)


_LOSSES = words(
    """L1Loss MSELoss NLLLoss PoissonNLLLoss KLDivLoss BCELoss BCEWithLogitsLoss HingeEmbeddingLoss
    MultiLabelMarginLoss SmoothL1Loss SoftMarginLoss CrossEntropyLoss MultiLabelSoftMarginLoss
    CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss TripletMarginLoss CTCLoss NLLLoss2d
    l1_loss mse_loss nll_loss poisson_nll_loss kl_div binary_cross_entropy smooth_l1_loss
    binary_cross_entropy_with_logits hinge_embedding_loss multilabel_margin_loss cross_entropy
    soft_margin_loss multilabel_soft_margin_loss cosine_embedding_loss margin_ranking_loss
    multi_margin_loss triplet_margin_loss"""
)


#: Losses whose first argument (of functions: the third) says whether they average.
_AVERAGE_FIRST = words(
    "L1Loss MSELoss KLDivLoss SmoothL1Loss SoftMarginLoss MultiLabelMarginLoss l1_loss mse_loss"
    " kl_div smooth_l1_loss soft_margin_loss multilabel_margin_loss"
)


def reduction(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``nn.MSELoss(size_average=False)`` is ``nn.MSELoss(reduction="sum")``."""
    name = resolve(site.module, call.func) or ""
    loss = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or loss not in _LOSSES:
        return None
    legacy: dict[str, cst.BaseExpression] = {}
    kept = []
    given = None
    inputs = 2 if loss.islower() else 0
    if any(arg.star for arg in call.args):
        return None
    for position, arg in enumerate(call.args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if not keyword and position >= inputs and loss in _AVERAGE_FIRST:
            if position - inputs > 2:
                return None
            keyword = ("size_average", "reduce", "reduction")[position - inputs]
        elif not keyword and position > inputs:
            return None  # one of the flags may stand here
        if keyword in ("size_average", "reduce"):
            legacy[keyword] = arg.value
        elif keyword == "reduction":
            given = arg.value
        else:
            kept.append(_argument(arg, splice))
    word = _reduction(site, splice, legacy, given)
    if word is None:
        return None
    inside = ", ".join([*kept, f"reduction={word}"])
    return Form(f"{splice.source_of(call.func)}({inside})", quiet=True)


def _reduction(
    site: Site,
    splice: Splice,
    legacy: dict[str, cst.BaseExpression],
    given: cst.BaseExpression | None,
) -> str | None:
    """What the two flags of old mean; None without any, or where that is not plain to see.

    Flags that are both None leave the ``reduction`` that is given as it is.
    """
    average, reduces = (
        splice.source_of(legacy[key]) if key in legacy else "None"
        for key in ("size_average", "reduce")
    )
    if reduces == "False":
        return '"none"'
    if reduces not in ("True", "None") or (average, reduces) == ("None", "None"):
        return None
    if average in ("True", "False", "None"):
        return '"sum"' if average == "False" else '"mean"'
    flag = legacy["size_average"]
    fact = site.fact(flag)
    if fact is None or fact.kind not in ("bool", "none") or not is_plain(flag):
        return None
    if given is None or reduces == "True":
        return f'"mean" if {average} is None or {average} else "sum"'
    if not is_plain(given):
        return None
    return f'{splice.source_of(given)} if {average} is None else "mean" if {average} else "sum"'


def _argument(arg: cst.Arg, splice: Splice) -> str:
    head = f"{arg.keyword.value}=" if arg.keyword is not None else arg.star
    return head + splice.source_of(arg.value)


def best_by_key(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``min(xs, key=f)`` is the first of ``sorted(xs, key=f)``: sorting is stable."""
    name = resolve(site.module, call.func)
    if name not in ("builtins.min", "builtins.max") or len(call.args) != 2:
        return None
    given, key = call.args
    if given.keyword is not None or given.star or key.keyword is None:
        return None
    if key.keyword.value != "key":
        return None
    if resolve(site.module, cst.Name("sorted"), at=call) != "builtins.sorted":
        return None  # the project has a `sorted` of its own
    if any(_is_guarded(call, node) for node in site.ancestors(call)):
        return None
    order = ", reverse=True" if name == "builtins.max" else ""
    inside = f"{splice.source_of(given.value)}, key={splice.source_of(key.value)}{order}"
    notes = ["of nothing at all, it raises IndexError where the original raises ValueError"]
    ints = _gives_ints(site, key.value)
    if not ints:
        notes.append("keys without an order (NaN, sets) may give another item")
    handled = mentions(site, _HANDLED)
    return Form(f"sorted({inside})[0]", notes=tuple(notes), unsafe=handled or not ints)


#: Who in a project waits for the error of an empty list.
_HANDLED = r"(?:except|raises|suppress)\b.*\b(?:ValueError|IndexError|LookupError)"


def _is_guarded(call: cst.Call, node: cst.CSTNode) -> bool:
    """Whether the node is a ``try`` whose handlers would see another error of the call."""
    if not isinstance(node, cst.Try | cst.TryStar) or not node.handlers:
        return False
    return any(part is call for part in walk(node.body))


def _gives_ints(site: Site, key: cst.BaseExpression) -> bool:
    """Whether a key is a size, a length or made of such, by its text: these have one order."""
    if isinstance(key, cst.Lambda):
        return _is_int(site, key.body)
    return resolve(site.module, key) == "builtins.len"


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Integer() | cst.Attribute(attr=cst.Name("ndim")):
            return True
        case cst.Subscript(
            value=cst.Attribute(attr=cst.Name("shape")),
            slice=[
                cst.SubscriptElement(slice=cst.Index(value=cst.Integer() | cst.UnaryOperation()))
            ],
        ):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("numel" | "dim" | "nelement")), args=[]):
            return True
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("size")), args=[cst.Arg(value=cst.BaseExpression())]
        ):
            return True
        case cst.Call(func=cst.Name(), args=[_]):
            return resolve(site.module, node.func) in ("builtins.len", "builtins.int")
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_int(site, inner)
        case cst.BinaryOperation(
            left=left, operator=cst.Add() | cst.Subtract() | cst.Multiply(), right=right
        ):
            return _is_int(site, left) and _is_int(site, right)
        case cst.Tuple(elements=elements):
            return all(
                isinstance(item, cst.Element) and _is_int(site, item.value) for item in elements
            )
    return False


#: The types of the legacy constructors.
LEGACY_DTYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "ByteTensor": "uint8",
    "CharTensor": "int8", "BoolTensor": "bool",
}  # fmt: skip


def numbers_in_order(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``np.unique(axes).astype(int)`` of a list of ints is ``sorted({int(n) for n in axes})``,
    where the numbers are only handed on as dimensions and sizes.

    In arithmetic numpy's numbers are others than Python's: dividing by their zero is no error.
    """
    inner: cst.CSTNode = call
    match call:
        case cst.Call(
            func=cst.Attribute(value=cst.Call() as made, attr=cst.Name("astype")),
            args=[cst.Arg(value=cst.Name("int"))],
        ):
            inner = made
    match inner:
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=given)]):
            pass
        case _:
            return None
    fact = site.fact(given)
    if resolve(site.module, func) != "numpy.unique" or fact is None or not fact.items:
        return None
    if fact.type not in ("list", "tuple", "torch.Size") or not _gone_through(site, call):
        return None
    if any(item.kind != "int" for item in fact.items):
        return None
    if inner is call:
        return Form(f"sorted(set({splice.source_of(given)}))")
    number = fresh("number", names_in(site.module))
    return Form(f"sorted({{int({number}) for {number} in {splice.source_of(given)}}})")


def _gone_through(site: Site, node: cst.CSTNode, *, named: bool = False) -> bool:
    """Whether the numbers of a value, or of the name that it is bound to, are only handed on."""
    holder = site.parent(node)
    match holder:
        case cst.Expr():
            return True
        case cst.Arg(star="") if isinstance(called := site.parent(holder), cst.Call):
            name = resolve(site.module, called.func)
            if name == "builtins.len" or _is_size(site, node):
                return True
            ordered = words("builtins.sorted builtins.list builtins.tuple")
            alone = name in ordered and len(called.args) == 1
            return alone and _gone_through(site, called, named=named)
        case cst.For(target=cst.Name(name)) if holder.iter is node and site.function is not None:
            return _all_sizes(site, name, site.function.body, holder.target)
        case cst.CompFor(target=cst.Name(name)) if holder.iter is node:
            whole = site.parent(holder)
            if not isinstance(whole, cst.ListComp | cst.GeneratorExp | cst.SetComp):
                return False
            return _all_sizes(site, name, whole, holder.target)
    places = None if named else _bound_places(site, node)
    return places is not None and all(_gone_through(site, place, named=True) for place in places)


def _all_sizes(site: Site, name: str, block: cst.CSTNode, target: cst.CSTNode) -> bool:
    return all(place is target or _is_size(site, place) for place in site.places_of(name, block))


def _is_size(site: Site, node: cst.CSTNode) -> bool:
    """Whether a number only says which dimension of a tensor is meant, or how large it is."""
    holder = site.parent(node)
    match holder:
        case cst.Index():
            element = site.parent(holder)
            indexed = site.parent(element) if element is not None else None
            if not isinstance(indexed, cst.Subscript):
                return False
            base = indexed.value
            return (isinstance(base, cst.Attribute) and base.attr.value == "shape") or (
                _is_tensor(site, base)
            )
        case cst.Arg(star="") if isinstance(called := site.parent(holder), cst.Call):
            match called.func:
                case cst.Attribute(value=owner, attr=cst.Name(method)) if method in _OF_DIMS:
                    name = resolve(site.module, called.func)
                    return _is_tensor(site, owner) or name == f"torch.{method}"
    return False


#: What takes dimensions and sizes, and no factors.
_OF_DIMS = words(
    """squeeze unsqueeze flip sum mean prod amax amin any all softmax log_softmax cumsum cumprod
    size select narrow unbind transpose permute argsort sort argmax argmin logsumexp"""
)


def limits_of_dtype(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``np.finfo(torch.tensor(0, dtype=d).numpy().dtype)`` is ``torch.finfo(d)``."""
    name = resolve(site.module, call.func) or ""
    match call:
        case cst.Call(
            args=[
                cst.Arg(
                    value=cst.Attribute(
                        value=cst.Call(
                            func=cst.Attribute(value=whole, attr=cst.Name("numpy")), args=[]
                        ),
                        attr=cst.Name("dtype"),
                    )
                )
            ]
        ) if name in ("numpy.finfo", "numpy.iinfo"):
            pass
        case _:
            return None
    torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
    if torch is None or not _keeps_limits(site, call, whole_numbers=name == "numpy.iinfo"):
        return None
    match whole:
        case cst.Call(
            func=func, args=[cst.Arg(), cst.Arg(keyword=cst.Name("dtype"), value=given)]
        ) if resolve(site.module, func) == "torch.tensor":
            dtype = splice.source_of(given)
            return Form(f"{torch}.{name.partition('.')[2]}({dtype})")
    return None


def _keeps_limits(
    site: Site, node: cst.CSTNode, *, whole_numbers: bool, named: bool = False
) -> bool:
    """Whether limits are only used as they are: ``finfo`` of numpy gives numpy's numbers, which
    round in arithmetic where Python's do not."""
    holder = site.parent(node)
    match holder:
        case cst.Expr():
            return True
        case cst.Attribute(attr=cst.Name("min" | "max" | "eps" | "tiny")):
            return whole_numbers or _is_unchanged(site, holder)
        case cst.Attribute(attr=cst.Name("bits")):
            return True
    places = None if named else _bound_places(site, node)
    return places is not None and all(
        _keeps_limits(site, place, whole_numbers=whole_numbers, named=True) for place in places
    )


def _is_unchanged(site: Site, node: cst.CSTNode, *, named: bool = False) -> bool:
    holder = site.parent(node)
    match holder:
        case cst.Expr():
            return True
        case cst.UnaryOperation(operator=cst.Minus()):
            return _is_unchanged(site, holder, named=named)
        case cst.BinaryOperation(left=left, right=right):
            return right is node and _is_tensor(site, left)
        case cst.Arg(star="") if isinstance(called := site.parent(holder), cst.Call):
            if isinstance(called.func, cst.Attribute):
                return called.func.attr.value in _FILLS
            return resolve(site.module, called.func) == "builtins.float"
    places = None if named else _bound_places(site, node)
    return places is not None and all(_is_unchanged(site, place, named=True) for place in places)


def _bound_places(site: Site, node: cst.CSTNode) -> list[cst.Name] | None:
    """Where the name stands that a value is bound to; None where the value has no such name."""
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name) as target)]) if (
            site.function is not None
        ):
            inside = set(walk(node))
            places = site.places_of(name, site.function.body)
            return [place for place in places if place is not target and place not in inside]
    return None


_FILLS = words("masked_fill masked_fill_ fill_ full full_like new_full clamp clamp_ clamp_min clip")
_FACTORIES = words(
    """zeros ones empty full rand randn arange linspace logspace eye tensor zeros_like ones_like
    empty_like full_like rand_like randn_like"""
)


def leaf(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.zeros(n, requires_grad=True)`` is ``torch.zeros(n).requires_grad_()``."""
    name = resolve(site.module, call.func) or ""
    if not name.startswith("torch.") or name.removeprefix("torch.") not in _FACTORIES:
        return None
    if not gives_no_history(site):
        return None  # Dynamo refuses to give back what depends on a leaf that it made
    kept = []
    flag = ""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "requires_grad":
            flag = splice.source_of(arg.value)
        else:
            kept.append(_argument(arg, splice))
    made = f"{splice.source_of(call.func)}({', '.join(kept)})"
    if flag not in ("True", "False"):
        return None
    return Form(f"{made}.requires_grad_()" if flag == "True" else made)


def is_tracing(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch._C._is_tracing()`` is what ``torch.jit.is_tracing()`` asks, which Dynamo knows."""
    del splice
    if resolve(site.module, call.func) != "torch._C._is_tracing" or call.args:
        return None
    torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
    return Form(f"{torch}.jit.is_tracing()") if torch is not None else None


def default_device(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.get_default_device()`` is where ``torch.empty(0)`` lies, which Dynamo knows."""
    del splice
    if resolve(site.module, call.func) != "torch.get_default_device" or call.args:
        return None
    torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
    return Form(f"{torch}.empty(0).device") if torch is not None else None


_LISTS = ("list", "builtins.list", "typing.List")


def refined_type(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.jit.isinstance(v, T)`` is ``isinstance(v, T)``, which TorchScript knows, too; of
    ``List[T]`` it asks for a list of instances of ``T``.
    """
    if resolve(site.module, call.func) != "torch.jit.isinstance" or len(call.args) != 2:
        return None
    if any(arg.star or arg.keyword for arg in call.args):
        return None
    for name in ("isinstance", "list", "all"):
        if resolve(site.module, cst.Name(name), at=call) != f"builtins.{name}":
            return None
    what, kind = call.args[0].value, call.args[1].value
    match kind:
        case cst.Name() | cst.Attribute():
            if not _is_class(site, kind):
                return None
            text = f"isinstance({splice.source_of(what)}, {splice.source_of(kind)})"
            return Form(text, answers=True)
        case cst.Subscript(
            value=held, slice=[cst.SubscriptElement(slice=cst.Index(value=inner))]
        ) if isinstance(what, cst.Name) and resolve(site.module, held) in _LISTS:
            if mentions(site, r"jit\.script"):
                return None  # in TorchScript, nothing else tells what a list holds
            if not isinstance(inner, cst.Name | cst.Attribute) or not _is_class(site, inner):
                return None
            item = fresh("item", {what.value, *(names_in(site.function) if site.function else ())})
            each = f"isinstance({item}, {splice.source_of(inner)}) for {item} in {what.value}"
            around = cst.If | cst.While | cst.Assert | cst.Assign | cst.Return
            alone = isinstance(site.parent(call), around)
            text = f"isinstance({what.value}, list) and all({each})"
            return Form(text if alone else f"({text})", quiet=True, answers=True)
    return None


def _is_class(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it names a class of which an object can be an instance."""
    plain = {f"builtins.{name}" for name in ("int", "float", "bool", "str")}
    return resolve(site.module, node) in {"torch.Tensor", *plain}


def size_as_text(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``str(x.size())`` is ``f"{x.size()}"``, which Dynamo also takes where sizes are symbols."""
    match call:
        case cst.Call(args=[cst.Arg(value=value, keyword=None, star="")]):
            pass
        case _:
            return None
    if resolve(site.module, call.func) not in ("str", "builtins.str"):
        return None
    if any(isinstance(outer, cst.FormattedString) for outer in site.ancestors(call)):
        return None  # Python 3.11 allows no quote of the same kind inside
    match value:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("size")), args=[]):
            pass
        case cst.Attribute(value=owner, attr=cst.Name("shape")):
            pass
        case _:
            return None
    text = splice.source_of(value)
    if not _is_tensor(site, owner) or any(sign in text for sign in "\"'{}\n\\"):
        return None
    return Form(f'f"{{{text}}}"')


_BOUNDS = words("clamp clamp_ clip clip_")


def mixed_bounds(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.clamp(x, 0, hi)`` with a tensor among the bounds, which is read: one bound a call."""
    match call.func:
        case cst.Attribute(value=owner, attr=cst.Name(name)) if name in _BOUNDS:
            pass
        case _:
            return None
    of_torch = resolve(site.module, call.func) == f"torch.{name}"
    if any(arg.star for arg in call.args) or not (of_torch or _is_tensor(site, owner)):
        return None
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    values = [arg.value for arg in call.args if arg.keyword is None]
    given |= dict(
        zip(("input", "min", "max") if of_torch else ("min", "max"), values, strict=False)
    )
    low, high = given.get("min"), given.get("max")
    known = given.keys() == ({"input", "min", "max"} if of_torch else {"min", "max"})
    if not known or low is None or high is None:
        return None
    kinds = [_is_cell(site, low), _is_cell(site, high)]
    numbers = [_is_number(site, low), _is_number(site, high)]
    if sorted(zip(kinds, numbers, strict=True)) != [(False, True), (True, False)]:
        return None
    first, second = (
        f"{_called(splice.source_of(node), node)}.detach()" if cell else splice.source_of(node)
        for node, cell in zip((low, high), kinds, strict=True)
    )
    func = splice.source_of(call.func)
    if of_torch:
        inner = f"{func}({splice.source_of(given['input'])}, min={first})"
        return Form(f"{func}({inner}, max={second})")
    return Form(f"{func}(min={first}).{name}(max={second})")


def _is_cell(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    return fact is not None and fact.is_tensor and fact.shape == ()


def _called(text: str, node: cst.BaseExpression) -> str:
    """The text of an expression that a method may follow."""
    tight = isinstance(node, cst.Name | cst.Attribute | cst.Subscript | cst.Call)
    return text if tight or node.lpar else f"({text})"


#: The rows by the codes under which their calls break.
def place_in_order(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``bisect_right(xs, v)`` counts the items up to ``v``, where ``xs`` is in order."""
    name = resolve(site.module, call.func) or ""
    if not name.startswith("bisect.bisect") or len(call.args) != 2:
        return None
    if any(arg.keyword is not None or arg.star for arg in call.args):
        return None
    items, value = (arg.value for arg in call.args)
    fact = site.fact(items)
    plain = isinstance(value, cst.Name | cst.Attribute) and _is_number(site, value)
    if fact is None or fact.kind not in ("list", "tuple") or not plain:
        return None
    kinds = {item.kind for item in fact.items or ()} | ({fact.each.kind} if fact.each else set())
    if not kinds or not kinds <= {"int", "float"}:
        return None
    if resolve(site.module, cst.Name("sum"), at=call) != "builtins.sum":
        return None
    item = fresh("item", names_in(call))
    # As ``bisect`` compares: no item is above a NaN.
    given = splice.source_of(value)
    below = f"{item} < {given}" if name.endswith("_left") else f"not {given} < {item}"
    text = f"sum({below} for {item} in {splice.source_of(items)})"
    return Form(text, notes=("a list that is not in order gives another place",))


def attribute_of_number(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``hasattr(x, "item")`` of a number that came out of a tensor: its type tells."""
    match call.args:
        case [cst.Arg(value=given, keyword=None), cst.Arg(value=cst.SimpleString() as name)]:
            pass
        case _:
            return None
    fact = site.fact(given)
    if resolve(site.module, call.func) != "builtins.hasattr" or not isinstance(given, cst.Name):
        return None
    if fact is None or fact.kind not in ("int", "float", "mixed"):
        return None
    attribute = str(name.evaluated_value)
    if any(hasattr(kind, attribute) for kind in (int, float)):
        return None
    inner = splice.source_of(given)
    # A number of numpy's is an instance of float, and has more attributes.
    text = f"type({inner}) not in (int, float) and {splice.source_of(call)}"
    alone = isinstance(site.parent(call), cst.If)
    return Form(text if alone else f"({text})", answers=True)


TABLE: dict[str, tuple[Row, ...]] = {
    "GB0117": (number_first,),
    "GB0059": (numbers_in_order, size_as_text),
    "GB0157": (limits_of_dtype,),
    "GB0193": (best_by_key,),
    "GB0208": (reduction, is_tracing, default_device),
    "GB0225": (leaf,),
    "GB0007": (reduction, refined_type, place_in_order),
    "GB0150": (attribute_of_number,),
    "GB0107": (random_ints,),
    "GB0155": (grouped,),
    "GB0241": (copied_pair,),
    "GB0242": (copied_out,),
    "GB0245": (jagged,),
    "GB0033": (mixed_bounds,),
    "internal-error": (mixed_bounds,),
}


def _is_number(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    if fact is not None:
        return fact.kind in ("int", "float", "bool")
    inner = node.expression if isinstance(node, cst.UnaryOperation) else node
    return isinstance(inner, cst.BaseNumber)


def _is_tensor(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    return fact is not None and fact.is_tensor
