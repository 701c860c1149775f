"""The fake of a helper: which of its arguments' sizes explain those of its results."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..operator.sizes import Reader, fact_value
from .capture import Parameter, Refused
from .fake import torch_name
from .helper_body import assigned, selected
from .numpy_results import SELECTING


def helper_fake(
    site: Site,
    function: cst.FunctionDef,
    value: cst.BaseExpression,
    results: Sequence[Fact],
    parameters: Sequence[Parameter],
    torch: str,
) -> str:
    """An expression that makes results without contents; raises `Refused` where none is likely."""
    parts = [value]
    if len(results) > 1:
        if not isinstance(value, cst.Tuple) or len(value.elements) != len(results):
            raise Refused("its results are not written out")
        parts = [element.value for element in value.elements]
    texts = []
    for part, fact in zip(parts, results, strict=True):
        dynamic = selected(function, part) or _selects(site, function, part)
        dynamic = dynamic or _is_shortened(site, function, part, parameters)
        texts.append(_empty(fact, parameters, torch, dynamic=dynamic))
    if value is not parts[0]:
        return f"({', '.join(texts)})"
    return texts[0]


def _is_shortened(
    site: Site, function: cst.FunctionDef, part: cst.BaseExpression, parameters: Sequence[Parameter]
) -> bool:
    """Whether the data decides how long a list is: a loop that is left, an ``if`` in it."""
    reader = Reader(site, {p.name: fact_value(p.fact, p.name) for p in parameters}, {})
    reader.statement(function.body, ())
    sizes = reader.value(part).sizes
    return bool(sizes) and sizes is not None and sizes[0].data


def _selects(site: Site, function: cst.FunctionDef, value: cst.BaseExpression) -> bool:
    """Whether a function that picks from its data, or a mask, makes the value."""
    names = {node.value for node in walk(value) if isinstance(node, cst.Name)}
    made = [value]
    made += assigned(function, names)
    for expression in made:
        for node in walk(expression):
            if isinstance(node, cst.Call):
                name = resolve(site.module, node.func) or ""
                last = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
                if name in SELECTING or last in ("nonzero", "masked_select", "unique"):
                    return True
            if isinstance(node, cst.Subscript):
                for element in node.slice:
                    if isinstance(element.slice, cst.Index):
                        fact = site.fact(element.slice.value)
                        if fact is not None and (fact.dtype or "").endswith("bool"):
                            return True
    return False


def _empty(fact: Fact, parameters: Sequence[Parameter], torch: str, *, dynamic: bool) -> str:
    if fact.shape is None:
        raise Refused("the shape of its result was not seen")
    tensors = [
        p for p in parameters
        if p.annotation == "torch.Tensor" and p.fact.shape is not None
    ]  # fmt: skip
    sizes: list[str] = []
    used: set[tuple[str, int]] = set()
    for index, size in enumerate(fact.shape):
        if index == 0 and dynamic:
            sizes.append(f"{torch}.library.get_ctx().new_dynamic_size()")
            continue
        place = _source(index, size, tensors, used)
        if place is not None:
            used.add(place)
            sizes.append(f"{place[0]}.shape[{place[1]}]")
        elif size is not None:
            sizes.append(str(size))
        else:
            raise Refused("a size of its result could not be told from its arguments")
    for parameter in tensors:
        whole = [f"{parameter.name}.shape[{n}]" for n, _ in enumerate(parameter.fact.shape or ())]
        if sizes and whole == sizes:
            text = f"{parameter.name}.shape"
            break
    else:
        text = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    beside = [p for p in tensors if p.fact.device == fact.device]
    base = next((p for p in beside if p.fact.dtype == fact.dtype), None)
    if base is not None:
        return f"{base.name}.new_empty({text})"
    dtype = f"dtype={torch_name(fact.dtype, torch)}"
    if fact.device in (None, "cpu"):
        return f"{torch}.empty({text}, {dtype})"
    if not beside:
        raise Refused("nothing shows where its result is")
    return f"{beside[0].name}.new_empty({text}, {dtype})"


def _source(
    index: int, size: int | None, tensors: Sequence[Parameter], used: set[tuple[str, int]]
) -> tuple[str, int] | None:
    """The argument's size that the result's most likely is: in the same place, not yet taken."""
    best: tuple[int, tuple[str, int]] | None = None
    for parameter in tensors:
        for place, other in enumerate(parameter.fact.shape or ()):
            if other != size:
                continue
            rank = 2 * ((parameter.name, place) not in used) + (place == index)
            if best is None or rank > best[0]:
                best = (rank, (parameter.name, place))
    return best[1] if best else None
