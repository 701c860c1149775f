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
    A mask that the function makes, and only indexes with, is made a bool where it is made:
    ``m = m.byte().bool()``.

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
        Example(
            _source("m = (x > 0).byte()\n    y = x * 1\n    y[m] = x[m]"),
            _source("m = (x > 0).byte().bool()\n    y = x * 1\n    y[m] = x[m]"),
            at="x[m]",
            facts=_FACTS,
            title="a mask with a name",
        ),
        Example(
            _source("y = m * 2\n    m = m.to(torch.uint8)\n    y = x[m] + m.sum()"),
            _source("y = m * 2\n    m = m.to(torch.uint8).bool()\n    y = x[m] + m.sum()"),
            at="x[m]",
            facts=_FACTS,
            title="a name that was something else before",
        ),
        *(
            Example(
                _source(f"m = x.byte(){before}\n    y = x[m]{after}"),
                _source(
                    f"m = x.byte(){before}\n"
                    f"    y = x[m.bool() if m.dtype == torch.uint8 else m]{after}"
                ),
                at="x[m]",
                facts=_FACTS,
                title=title,
            )
            for before, after, title in (
                ("", "\n    return y, m", "a mask that is returned"),
                ("", " * (1 - m)", "a mask that is calculated with"),
                ("", " * ~m", "a mask that is inverted: 254 for 1"),
                ("\n    m.add_(1)", "", "a mask that is changed"),
                ("", "; m = x\n    return m", "a name that is bound again"),
                ("", "; g = lambda: m", "a mask that a function keeps"),
            )
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
        made = [makes for makes in _made_here(site) if not comments_in(makes)]
        for value in made:
            splice.replace(value, f"{splice.source_of(value)}.bool()")
        if made:
            yield splice.rewrite("make a bool mask of a uint8 mask", rank=10)
            return
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


def _made_here(site: Site) -> Iterator[cst.Call]:
    """The calls that make the masks of the node, where these do nothing but index afterwards."""
    seen: set[str] = set()
    for node in walk(site.node):
        if not isinstance(node, cst.Subscript):
            continue
        for part in node.slice:
            index = part.slice.value if isinstance(part.slice, cst.Index) else None
            fact = site.fact(index) if isinstance(index, cst.Name) else None
            if not isinstance(index, cst.Name) or index.value in seen:
                continue
            seen.add(index.value)
            if fact is None or fact.type != "torch.Tensor" or fact.dtype != "torch.uint8":
                continue
            call = _birth(site, index.value)
            if call is not None:
                yield call


def _birth(site: Site, name: str) -> cst.Call | None:
    """The last binding of a name, ``m = ... .byte()``, if all that follows are uses as an index."""
    born, places = _last_binding(site, name)
    plain = all(
        site.function_of(place) is site.function and _is_index_or_sum(site, place)
        for place in places
    )
    return born if born is not None and plain and _gives_bytes(site, born) else None


def _last_binding(site: Site, name: str) -> tuple[cst.Call | None, list[cst.Name]]:
    """The call that the function binds the name to at last, and where the name stands after."""
    function = site.function
    born: cst.Call | None = None
    places: list[cst.Name] = []
    for statement in function.body.body if function is not None else ():
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(value=bound))],
                        value=cst.Call() as value,
                    )
                ]
            ) if bound == name:
                born, places = value, []
            case _:
                places += site.places_of(name, statement)
    return born, places


def _gives_bytes(site: Site, call: cst.Call) -> bool:
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("byte")), args=[]):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("to" | "type")), args=[only]):
            return resolve(site.module, only.value) == "torch.uint8"
    return False


def _is_index_or_sum(site: Site, place: cst.Name) -> bool:
    parent = site.parent(place)
    if isinstance(parent, cst.Index):
        return True
    call = site.parent(parent) if parent is not None else None
    match call:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("sum")), args=[]):
            return value is place
    return False


def _as_bool(
    site: Site, splice: Splice, index: cst.BaseExpression, torch: str | None
) -> str | None:
    fact = site.fact(index)
    if fact is None or fact.type != "torch.Tensor" or fact.dtype != "torch.uint8":
        return None
    text = splice.source_of(index)
    if isinstance(index, cst.Call) and _gives_bytes(site, index):
        return f"{text}.bool()"
    if dotted(index) is None or torch is None:
        return None
    if isinstance(index, cst.Name):
        match _last_binding(site, index.value):
            case [cst.Call(func=cst.Attribute(attr=cst.Name("bool"))), _]:
                return None
    return f"{text}.bool() if {text}.dtype == {torch}.uint8 else {text}"
