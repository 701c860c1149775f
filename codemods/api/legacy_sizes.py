"""``torch.FloatTensor(x.size())``, which Dynamo traces as a tensor of the size's numbers.

So it does in torch 2.13; in eager it is an empty tensor of that size.  A function that makes one
computes something else compiled, so that no patch of it could be right; where old code is mended,
these go with it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.binding import times_bound
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions

from .splice import Splice

_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "BoolTensor": "bool",
}
#: The legacy constructors do not heed all defaults that the others do.
_DEFAULTS = re.compile(r"set_default|\bwith\b.*device\(")
NOTE = (
    "`torch.FloatTensor(x.size())` gives another result when it is compiled, so it is replaced, too"
)


def sets_defaults(site: Site) -> bool:
    """Whether the program may set a default dtype or device for new tensors."""
    if any(_DEFAULTS.search(text) for text in site.sources.values()):
        return True
    return mentions(site, r"\bdevice\b") and any(map(_enters_values, set(site.sources.values())))


@functools.lru_cache(maxsize=256)
def _enters_values(text: str) -> bool:
    """Whether a ``with`` takes a value that is at hand, which may be a device."""
    if "enter_context" in text:
        return True
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    return any(
        isinstance(node, ast.withitem)
        and not isinstance(node.context_expr, ast.Call)
        and "lock" not in ast.unparse(node.context_expr).lower()
        for node in ast.walk(tree)
    )


def sized_constructors(site: Site, *, seen: bool = False) -> Iterator[tuple[cst.Call, str]]:
    """Such calls in the site's function, each with the source text of what it means.

    With ``seen``, an argument that was a size in the recorded run is taken for one: of another
    sequence of numbers, the legacy constructor makes a tensor that holds them.
    """
    if site.function is None or sets_defaults(site):
        return
    for node in walk(site.function.body):
        match node:
            case cst.Call(func=cst.Attribute() as func, args=[cst.Arg(keyword=None, star="")]):
                text = _written_out(site, node, func, seen=seen)
                if text is not None:
                    yield node, text


def _written_out(site: Site, call: cst.Call, func: cst.Attribute, *, seen: bool) -> str | None:
    target = (resolve(site.module, func) or "").removeprefix("torch.")
    on_gpu = target.startswith("cuda.")
    kind = target.removeprefix("cuda.")
    if kind not in _DTYPES and target != "Tensor":
        return None
    size = call.args[0].value
    if not is_size(site, size, seen=seen):
        return None
    splice = Splice(site)
    torch = splice.source_of(func.value)
    if on_gpu:
        if not torch.endswith(".cuda"):
            return None
        torch = torch.removesuffix(".cuda")
    dtype = "" if target == "Tensor" else f", dtype={torch}.{_DTYPES[kind]}"
    device = ', device="cuda"' if on_gpu else ""
    return f"{torch}.empty({splice.source_of(size)}{dtype}{device})"


def is_size(site: Site, node: cst.BaseExpression, *, seen: bool = False) -> bool:
    """Whether an expression is a tensor's size: by its text, or where its only name is bound.

    What was seen alone says nothing of other calls; ``seen`` takes its word.
    """
    fact = site.fact(node)
    if fact is not None and (fact.type != "torch.Size" or seen):
        return fact.type == "torch.Size"
    if isinstance(node, cst.Name) and fact is not None and site.function is not None:
        bound = _only_value(site.function, node.value)
        return bound is not None and _is_size_by_text(bound) is not None
    name = _is_size_by_text(node)
    if name is None or fact is not None:
        return name is not None
    # In a branch that did not run, the name must have been seen to be a tensor.
    held = site.locals_before(site.statement_of(node)).get(name)
    held = held or site.locals_before(site.statement).get(name)
    return held is not None and held.type == "torch.Tensor"


def _is_size_by_text(node: cst.BaseExpression) -> str | None:
    """Whose size ``x.size()`` or ``x.shape`` is: a name, or "" for what has none."""
    match node:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("size")), args=[]):
            pass
        case cst.Attribute(value=owner, attr=cst.Name("shape")):
            pass
        case _:
            return None
    return owner.value if isinstance(owner, cst.Name) else ""


def _only_value(function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """The value of a local variable that is bound in one place, by a plain assignment."""
    if times_bound(function, name) != 1:
        return None
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(target))], value=value):
                if target == name:
                    return value
    return None
