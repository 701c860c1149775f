"""Tensors that a legacy constructor makes of a size."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..api.legacy_sizes import NOTE, sets_defaults, sized_constructors
from ..api.splice import Splice
from .api_table import LEGACY_DTYPES

_SIZE = Fact("tuple", "torch.Size", items=(scalar(2), scalar(3)))
_FACTS = {"x": tensor(2, 3), "x.size()": _SIZE, "x.shape": _SIZE}
_ALIAS = "Float = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor"


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x):\n{body}"


class LegacyTensor(Codemod):
    """*What it does.*  Writes ``torch.FloatTensor(x.size())`` as
    ``torch.empty(x.size(), dtype=torch.float32)``, and the like of the other legacy types; also
    where a local name stands for the type (``Float = torch.cuda.FloatTensor if x.is_cuda else
    torch.FloatTensor``).

    Dynamo takes the size for a list of numbers, and traces a tensor that holds them.

    *When it applies.*  Tracing failed, or broke, in a function that makes such a tensor.

    *Fix safety.*  Safe: both make an empty tensor of that size, type and device.

    *Refuses.*  Arguments that are not known to be sizes, and programs that set default types or
    devices.
    """

    name = "legacy-tensor"
    codes = ("GB4315", "torch-runtime-error")
    examples = (
        Example(
            _source("y = torch.FloatTensor(x.size())", "y[..., 0] = x[..., 0]", "return y"),
            _source(
                "y = torch.empty(x.size(), dtype=torch.float32)",
                "y[..., 0] = x[..., 0]",
                "return y",
            ),
            at="y[..., 0]",
            facts=_FACTS,
            title="written into afterwards",
        ),
        Example(
            _source(_ALIAS, "y = Float(x.shape)", "y[..., 0] = x[..., 0]", "return y"),
            _source(
                _ALIAS,
                "y = torch.empty(x.shape, dtype=torch.float32,"
                ' device="cuda" if x.is_cuda else "cpu")',
                "y[..., 0] = x[..., 0]",
                "return y",
            ),
            at="y[..., 0]",
            facts=_FACTS,
            title="a name for the type",
        ),
    )
    near_misses = (
        NearMiss(
            _source("y = torch.FloatTensor([2, 3])", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="numbers",
        ),
        NearMiss(
            _source(_ALIAS, "y = Float(x)", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="a tensor",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        found = dict(sized_constructors(site))
        if site.function is not None and not sets_defaults(site):
            found.update(_by_alias(site, site.function))
        if not found:
            return
        splice = Splice(site)
        for call, text in found.items():
            splice.replace(call, text)
        yield splice.rewrite("make empty tensors by `torch.empty`", rank=9, notes=(NOTE,))


def _by_alias(site: Site, function: cst.FunctionDef) -> Iterator[tuple[cst.Call, str]]:
    """Calls of local names that stand for a legacy type, with what they mean."""
    types: dict[str, str | None] = {}
    splice = Splice(site)
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                text = None if name in types else _options(site, value, splice)
                types[name] = text
    for node in walk(function.body):
        match node:
            case cst.Call(func=cst.Name(name), args=[cst.Arg(keyword=None, star="", value=size)]):
                fact = site.fact(size)
                options = types.get(name)
                if options and fact is not None and fact.type == "torch.Size":
                    yield node, f"torch.empty({splice.source_of(size)}, {options})"


def _options(site: Site, value: cst.BaseExpression, splice: Splice) -> str | None:
    """``dtype=...`` and the device, where the value is a legacy type or one of two by a test."""
    one = _type(site, value)
    if one is not None:
        kind, on_gpu = one
        return f"dtype=torch.{kind}" + (', device="cuda"' if on_gpu else "")
    match value:
        case cst.IfExp(test=test, body=body, orelse=orelse):
            first, second = _type(site, body), _type(site, orelse)
        case _:
            return None
    if first is None or second is None or first[0] != second[0]:
        return None
    if first[1] == second[1]:
        return f"dtype=torch.{first[0]}" + (', device="cuda"' if first[1] else "")
    devices = ('"cuda"', '"cpu"') if first[1] else ('"cpu"', '"cuda"')
    if any(isinstance(part, cst.Call | cst.NamedExpr) for part in walk(test)):
        return None
    choice = f"{devices[0]} if {splice.source_of(test)} else {devices[1]}"
    return f"dtype=torch.{first[0]}, device={choice}"


def _type(site: Site, node: cst.BaseExpression) -> tuple[str, bool] | None:
    name = resolve(site.module, node) or ""
    plain = name.removeprefix("torch.").removeprefix("cuda.")
    if not name.startswith("torch.") or plain not in LEGACY_DTYPES:
        return None
    return LEGACY_DTYPES[plain], name.startswith("torch.cuda.")
