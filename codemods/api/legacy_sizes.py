"""``torch.FloatTensor(x.size())``, which Dynamo traces as a tensor of the size's numbers.

So it does in torch 2.13; in eager it is an empty tensor of that size.  A function that makes one
computes something else compiled, so that no patch of it could be right; where old code is mended,
these go with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

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
NOTE = "`torch.FloatTensor(x.size())` computes something else when it is compiled: it goes, too"


def sets_defaults(site: Site) -> bool:
    """Whether the program may say of which dtype or on which device new tensors are."""
    return any(_DEFAULTS.search(text) for text in site.sources.values())


def sized_constructors(site: Site) -> Iterator[tuple[cst.Call, str]]:
    """Such calls in the site's function, each with the source text of what it means."""
    if site.function is None or sets_defaults(site):
        return
    for node in walk(site.function.body):
        match node:
            case cst.Call(func=cst.Attribute() as func, args=[cst.Arg(keyword=None, star="")]):
                text = _written_out(site, node, func)
                if text is not None:
                    yield node, text


def _written_out(site: Site, call: cst.Call, func: cst.Attribute) -> str | None:
    target = (resolve(site.module, func) or "").removeprefix("torch.")
    on_gpu = target.startswith("cuda.")
    kind = target.removeprefix("cuda.")
    if kind not in _DTYPES and target != "Tensor":
        return None
    size = call.args[0].value
    if not _is_size(site, size):
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


def _is_size(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    if fact is not None:
        return fact.type == "torch.Size"
    match node:  # in a branch that did not run
        case cst.Call(func=cst.Attribute(value=cst.Name(name), attr=cst.Name("size")), args=[]):
            pass
        case cst.Attribute(value=cst.Name(name), attr=cst.Name("shape")):
            pass
        case _:
            return False
    held = site.locals_before(site.statement_of(node)).get(name)
    held = held or site.locals_before(site.statement).get(name)
    return held is not None and held.type == "torch.Tensor"
