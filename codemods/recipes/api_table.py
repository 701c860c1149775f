"""Calls that Dynamo refuses, and what it takes for them: one row each.

A row gets the site and a call and gives the source text of what means the same, or None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import libcst as cst

from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site

from ..api.requires_grad_call import gives_no_history
from ..api.splice import Splice


@dataclasses.dataclass(frozen=True)
class Form:
    """What a call becomes; ``notes`` say what else changes, ``quiet`` that a warning goes."""

    text: str
    notes: tuple[str, ...] = ()
    quiet: bool = False


Row = Callable[[Site, cst.Call, Splice], Form | None]

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
    count = 3 if plain.startswith("addc") else 2
    if plain in _SCALED and len(rest) == count and _is_number(site, nodes[0]):
        if not all(_is_tensor(site, node) for node in nodes[1:]):
            return None
        inside = ", ".join([*before, *rest[1:], f"{_SCALED[plain]}={rest[0]}"])
        return Form(f"{splice.source_of(call.func)}({inside})", quiet=True)
    if plain in _PRODUCTS:
        return _product(site, call, splice, of_torch)
    return None


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
    inputs = 2 if loss.islower() else 0
    for position, arg in enumerate(call.args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if not keyword and position >= inputs and loss in _AVERAGE_FIRST:
            if position - inputs > 2:
                return None
            keyword = ("size_average", "reduce", "reduction")[position - inputs]
        if keyword in ("size_average", "reduce"):
            legacy[keyword] = arg.value
        elif keyword != "reduction":
            kept.append(_argument(arg, splice))
    word = _reduction(site, splice, legacy)
    if word is None:
        return None
    inside = ", ".join([*kept, f"reduction={word}"])
    return Form(f"{splice.source_of(call.func)}({inside})", quiet=True)


def _reduction(site: Site, splice: Splice, legacy: dict[str, cst.BaseExpression]) -> str | None:
    """What the two flags of old mean; None without any, or where that is not plain to see."""
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
    fact = site.fact(legacy["size_average"])
    if fact is None or fact.kind not in ("bool", "none"):
        return None
    return f'"sum" if {average} is False else "mean"'


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
    if key.keyword.value != "key" or resolve(site.module, cst.Name("sorted"), at=call) is None:
        return None
    order = ", reverse=True" if name == "builtins.max" else ""
    inside = f"{splice.source_of(given.value)}, key={splice.source_of(key.value)}{order}"
    return Form(
        f"sorted({inside})[0]",
        notes=("of nothing at all, it raises IndexError where the original raises ValueError",),
    )


#: The types of the legacy constructors.
LEGACY_DTYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "ByteTensor": "uint8",
    "CharTensor": "int8", "BoolTensor": "bool",
}  # fmt: skip


def numbers_in_order(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``np.unique(axes).astype(int)`` of a list of ints is ``sorted(set(axes))``, where it is only
    gone through."""
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
    return Form(f"sorted(set({splice.source_of(given)}))")


def _gone_through(site: Site, call: cst.Call) -> bool:
    """Whether the value, or the name that it is bound to, is only iterated over or sorted."""
    holder = site.parent(call)
    if not isinstance(holder, cst.Assign):
        return _is_iterated(site, call)
    match holder.targets:
        case [cst.AssignTarget(target=cst.Name(name) as target)] if site.function is not None:
            places = list(site.places_of(name, site.function.body))
        case _:
            return False
    return all(
        place is target or place in set(walk(call)) or _is_iterated(site, place) for place in places
    )


def _is_iterated(site: Site, node: cst.CSTNode) -> bool:
    holder = site.parent(node)
    if isinstance(holder, cst.For | cst.CompFor):
        return holder.iter is node
    called = site.parent(holder) if isinstance(holder, cst.Arg) else None
    return isinstance(called, cst.Call) and resolve(site.module, called.func) in (
        "builtins.sorted", "builtins.list", "builtins.tuple", "builtins.len", "builtins.enumerate",
    )  # fmt: skip


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
    if torch is None:
        return None
    match whole:
        case cst.Call(
            func=func, args=[cst.Arg(), cst.Arg(keyword=cst.Name("dtype"), value=given)]
        ) if resolve(site.module, func) == "torch.tensor":
            dtype = splice.source_of(given)
            return Form(f"{torch}.{name.partition('.')[2]}({dtype})")
    return None


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


#: The rows by the codes under which their calls break.
TABLE: dict[str, tuple[Row, ...]] = {
    "GB0117": (number_first,),
    "GB0059": (numbers_in_order,),
    "GB0157": (limits_of_dtype,),
    "GB0193": (best_by_key,),
    "GB0208": (reduction, is_tracing),
    "GB0225": (leaf,),
    "GB0007": (reduction,),
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
