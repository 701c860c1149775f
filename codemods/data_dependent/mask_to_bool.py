"""Masks of dtype uint8, which torch takes for masks with a warning, and Dynamo not at all."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice

_MASK = tensor(3, dtype="torch.uint8")
_FACTS = {"x": tensor(3), "m": _MASK, "m.byte()": _MASK, "self.mask": _MASK}


def _source(body: str) -> str:
    return f"import torch\n\n\ndef f(self, x, m):\n    {body}\n    return x\n"


class MaskToBool(Codemod):
    """*What it does.*  Makes bool masks of masks of dtype ``uint8``:
    ``x[m.to(torch.uint8)]`` becomes ``x[m.to(torch.uint8).bool()]``.

    *When it applies.*  A tensor is indexed by a tensor of dtype ``uint8``.  Where the expression
    does not say that dtype itself, it is asked: ``x[m.bool() if m.dtype == torch.uint8 else m]``.

    *Fix safety.*  Safe: torch takes all of a ``uint8`` mask that is not zero for true.  It warns
    that this is deprecated, and stops doing so with the change.  The number of elements that a mask
    takes still depends on data, which another rewrite may capture.

    *Refuses.*  Tensors of other dtypes, which are positions and no masks.
    """

    name = "mask-to-bool"
    codes = ("torch-runtime-error", "GB4315", "GB0036")
    examples = (
        Example(
            _source("x = x[m.byte()]"),
            _source("x = x[m.byte().bool()]"),
            at="x[m.byte()]",
            facts=_FACTS,
            title="a mask that is made here",
        ),
        Example(
            _source("x[0:, self.mask] = y"),
            _source("x[0:, self.mask.bool() if self.mask.dtype == torch.uint8 else self.mask] = y"),
            at="x[0:, self.mask]",
            facts=_FACTS,
            title="a mask that comes from elsewhere",
        ),
    )
    near_misses = (
        NearMiss(
            _source("x[m] = 0"),
            at="x[m]",
            why="positions",
            facts={**_FACTS, "m": tensor(3, dtype="torch.int64")},
        ),
        NearMiss(
            _source("x[m] = 0"),
            at="x[m]",
            why="a mask already",
            facts={**_FACTS, "m": tensor(3, dtype="torch.bool")},
        ),
        NearMiss(
            _source("x[m(), m + 1] = 0"), at="x[m(), m + 1]", why="not seen to be a mask", facts={}
        ),
        NearMiss(
            _source("x = x + m[0]"), at="m[0]", why="the mask is what is indexed", facts=_FACTS
        ),
        NearMiss(
            _source("x = {'a': x}; x[m] = 0"),
            at="x[m]",
            why="a dictionary",
            facts={"m": _MASK},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        splice = Splice(site)
        found = False
        for node in walk(site.node):
            if not isinstance(node, cst.Subscript) or comments_in(node):
                continue
            indexed = site.fact(node.value)
            if indexed is None or indexed.type != "torch.Tensor":
                continue
            for part in node.slice:
                index = part.slice.value if isinstance(part.slice, cst.Index) else None
                text = None if index is None else _as_bool(site, splice, index, torch)
                if index is not None and text is not None:
                    splice.replace(index, text)
                    found = True
        if found:
            yield splice.rewrite("make a bool mask of a uint8 mask", rank=10)


def _as_bool(
    site: Site, splice: Splice, index: cst.BaseExpression, torch: str | None
) -> str | None:
    fact = site.fact(index)
    if fact is None or fact.type != "torch.Tensor" or fact.dtype != "torch.uint8":
        return None
    text = splice.source_of(index)
    match index:
        case cst.Call(func=cst.Attribute(attr=cst.Name("byte")), args=[]):
            return f"{text}.bool()"
        case cst.Call(func=cst.Attribute(attr=cst.Name("to" | "type")), args=[only]) if (
            resolve(site.module, only.value) == "torch.uint8"
        ):
            return f"{text}.bool()"
    if dotted(index) is None or torch is None:
        return None
    return f"{text}.bool() if {text}.dtype == {torch}.uint8 else {text}"
