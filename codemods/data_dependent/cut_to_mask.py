"""A tensor that is cut where a mask hits first, and only summed up then: zeros from there on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice
from .flow import torch_name
from .selections import hit_tested, tensor_fact

_NUMBERS = ("torch.float", "torch.bfloat", "torch.int", "torch.uint")
_SOURCE = """
import torch


def f(terms, small, weight):
    {}
    return {}
"""
_CUT = """if small.any():
        last = torch.where(small)[0][0].item()
        terms = terms[..., :last]"""
_FACTS = {
    "terms": tensor(2, 8),
    "small": tensor(8, dtype="torch.bool"),
    "weight": tensor(2),
}


def _example(title: str, before: str, after: str, sums: str = "terms.sum(-1) * weight") -> Example:
    return Example(
        _SOURCE.format(before, sums),
        _SOURCE.format(after, sums),
        at="small.any()",
        facts=_FACTS,
        title=title,
    )


def _near_miss(why: str, cut: str = _CUT, sums: str = "terms.sum(-1)", first: str = "") -> NearMiss:
    lines = f"{first}\n    {cut}" if first else cut
    return NearMiss(_SOURCE.format(lines, sums), at="small.any()", why=why, facts=_FACTS)


class CutToMask(Codemod):
    """*What it does.*  Puts zeros where a tensor was cut off at the first hit of a mask:

    ```python
    if small.any():
        last = torch.where(small)[0][0].item()
        terms = terms[..., :last]
    return terms.sum(-1)
    ```
    becomes ``terms = terms.masked_fill(hit.cumsum(0) > 0, 0)``, with the sum as it is, where
    ``hit`` is ``small``, padded or cut to the size of the dimension.

    *When it applies.*  What is cut is only summed up afterwards, along the dimension in which it
    was cut (or along all), and nothing else reads the place of the cut.

    *Fix safety.*  Safe: what is cut off counts nothing, and gets no gradient, whatever it holds.
    Sums are the same up to their order.

    The mask may be shorter or longer than what is cut.

    *Refuses.*  Other uses of what is cut: a mean divides by its length, and so on.  Names that a
    nested function uses too, whenever that is called.
    """

    name = "cut-to-mask"
    codes = (
        "GB0170",
        "GB0036",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-other",
    )
    examples = (
        _example(
            "the last dimension",
            _CUT,
            "hit = torch.nn.functional.pad(small, (0, terms.shape[-1] - small.shape[0]))\n"
            "    terms = terms.masked_fill(hit.cumsum(0) > 0, 0)",
        ),
        _example(
            "rows",
            "if small.any():\n        terms = terms[: small.nonzero()[0].item()]",
            "hit = torch.nn.functional.pad(small, (0, terms.shape[0] - small.shape[0]))\n"
            "    terms = terms.masked_fill((hit.cumsum(0) > 0)[:, None], 0)",
            "terms.sum(dim=0)",
        ),
        _example(
            "the largest",
            _CUT.replace("torch.where(small)[0][0].item()", "int(small.int().argmax())"),
            "hit = torch.nn.functional.pad(small, (0, terms.shape[-1] - small.shape[0]))\n"
            "    terms = terms.masked_fill(hit.cumsum(0) > 0, 0)",
            "torch.sum(terms)",
        ),
    )
    near_misses = (
        _near_miss("a mean knows how many there are", sums="terms.mean(-1)"),
        _near_miss("the place is read later", sums="terms.sum(-1) / last"),
        _near_miss("another dimension is summed up", sums="terms.sum(0)"),
        _near_miss("a result of its own", sums="terms"),
        _near_miss("its size is asked for", sums="terms.sum(-1) / terms.shape[-1]"),
        _near_miss("a closure sees all of it", sums="terms.sum(-1)", first="mean = lambda: terms"),
        _near_miss("the last hit", _CUT.replace("[0][0]", "[0][-1]")),
        _near_miss("what is behind it stays", _CUT.replace(":last", "last:")),
        _near_miss("every other one", _CUT.replace(":last", ":last:2")),
        _near_miss("another mask", _CUT.replace("where(small)", "where(terms[0] > 0)")),
        _near_miss("something else happens", f"{_CUT}\n        weight = weight * 2"),
        _near_miss("another way for no hit", f"{_CUT}\n    else:\n        terms = terms * 2"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        around = [site.statement, *site.ancestors(site.node)]
        choice = next((part for part in around if isinstance(part, cst.If)), None)
        if choice is None or site.function is None:
            return
        mask = hit_tested(choice.test)
        if not isinstance(mask, cst.Name) or choice.orelse is not None:
            return
        cuts = _cuts(site, choice, mask.value)
        if not cuts or not all(_is_summed(site, choice, cut) for cut in cuts):
            return
        splice = Splice(site)
        span = site.span(choice)
        indent = site.source.splitlines()[span.line - 1][: span.column]
        newline = site.module.default_newline
        taken = names_in(site.module)
        lines = [line for cut in cuts for line in _zeros(site, cut, mask, taken)]
        splice.replace(choice, f"{newline}{indent}".join(lines))
        yield splice.rewrite("put zeros where the tensor was cut off", rank=11)


@dataclasses.dataclass(frozen=True)
class _Cut:
    """``name = name[..., :place]``, by the dimension as its sums may call it."""

    name: str
    dim: int
    dims: int


def _cuts(site: Site, choice: cst.If, mask: str) -> list[_Cut]:
    """The cuts that are all that is done where the mask hits; empty if there is more."""
    known = tensor_fact(site, hit_tested(choice.test) or choice.test)
    if known is None or known.dtype != "torch.bool" or len(known.shape or ()) != 1:
        return []
    places: list[str] = []
    cuts: list[_Cut] = []
    for line in statements_of(choice.body):
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
            ):
                pass
            case _:
                return []
        if _is_first_hit(site, value, mask):
            places.append(name)
            continue
        cut = _cut(site, name, value, places, mask)
        if cut is None or cut.name in (mask, *places, *(other.name for other in cuts)):
            return []
        cuts.append(cut)
    return cuts if not any(_is_read_outside(site, choice, name) for name in places) else []


def _is_read_outside(site: Site, choice: cst.If, name: str) -> bool:
    inside = {id(node) for node in walk(choice)}
    assert site.function is not None
    return any(id(place) not in inside for place in site.places_of(name, site.function))


def _cut(
    site: Site, name: str, value: cst.BaseExpression, places: Sequence[str], mask: str
) -> _Cut | None:
    match value:
        case cst.Subscript(value=cst.Name(value=cut) as held, slice=elements) if cut == name:
            fact = tensor_fact(site, held)
        case _:
            return None
    if fact is None or fact.shape is None or not (fact.dtype or "").startswith(_NUMBERS):
        return None
    *first, last = [element.slice for element in elements]
    match last:
        case cst.Slice(lower=None, upper=cst.BaseExpression() as upper, step=None):
            pass
        case _:
            return None
    known = isinstance(upper, cst.Name) and upper.value in places
    if not known and not _is_first_hit(site, upper, mask):
        return None
    texts = [code(item) for item in first]
    if texts == ["..."]:
        return _Cut(name, len(fact.shape) - 1, len(fact.shape))
    return _Cut(name, len(texts), len(fact.shape)) if set(texts) <= {":"} else None


def _is_first_hit(site: Site, node: cst.BaseExpression, mask: str) -> bool:
    """Whether an expression is the first place at which the mask, of one dimension, is True."""
    match node:
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=inner)]):
            return _is_first_hit(site, inner, mask)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
            return _is_first_hit(site, inner, mask)
    torch = torch_name(site)
    casts = [f"{mask}.{cast}()" for cast in ("int", "long", "float")]
    places = [f"{torch}.where({mask})[0]", f"{mask}.nonzero()", f"{torch}.nonzero({mask})"]
    firsts = [
        *(f"{cast}.argmax()" for cast in casts),
        *(f"{torch}.argmax({cast})" for cast in casts),
        *(f"{place}[0]" for place in places),
        *(f"{place}[0{both}0]" for place in places[1:] for both in ("][", ", ")),
    ]
    return code(node) in firsts


def _is_summed(site: Site, choice: cst.If, cut: _Cut) -> bool:
    """Whether what is cut is read no more behind the cut but to be summed up."""
    assert site.function is not None
    end = site.span(choice).end_line
    block = site.block_of(choice)
    if not any(line is choice for line in block) or _is_in_loop(site, choice):
        return False
    places = list(site.places_of(cut.name, site.function))
    if any(_is_nested(site, place) for place in places):
        return False
    behind = [place for place in places if site.span(place).line > end]
    return bool(behind) and all(_sums(site, place, cut) for place in behind)


def _is_nested(site: Site, node: cst.CSTNode) -> bool:
    """Whether it stands in a function or class in the function, which may read it at any time."""
    for parent in site.ancestors(node):
        if parent is site.function:
            return False
        if isinstance(parent, cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.GeneratorExp):
            return True
    return False


def _is_in_loop(site: Site, node: cst.CSTNode) -> bool:
    return any(isinstance(parent, cst.For | cst.While) for parent in site.ancestors(node))


def _sums(site: Site, place: cst.Name, cut: _Cut) -> bool:
    holder = site.parent(place)
    call = site.parent(holder) if holder is not None else None
    if not isinstance(call, cst.Call):
        return False
    arguments = list(call.args)
    if isinstance(holder, cst.Arg):
        if resolve(site.module, call.func) != "torch.sum" or arguments[0] is not holder:
            return False
        arguments = arguments[1:]
    elif not isinstance(holder, cst.Attribute) or holder.attr.value != "sum":
        return False
    match [
        (argument.keyword and argument.keyword.value, code(argument.value))
        for argument in arguments
    ]:
        case []:
            return True
        case [(None | "dim" | "axis", text)]:
            return text in (str(cut.dim), str(cut.dim - cut.dims))
    return False


def _zeros(site: Site, cut: _Cut, mask: cst.Name, taken: set[str]) -> list[str]:
    """The mask is made as long as the tensor: beyond its end there is no hit, and no cut."""
    number = -1 if cut.dim == cut.dims - 1 and cut.dims > 1 else cut.dim
    hit = fresh("hit", taken)
    taken.add(hit)
    size = f"{cut.name}.shape[{number}] - {mask.value}.shape[0]"
    padded = f"{torch_name(site)}.nn.functional.pad({mask.value}, (0, {size}))"
    gone = f"{hit}.cumsum(0) > 0"
    more = cut.dims - 1 - cut.dim
    if more:
        gone = f"({gone})[:, {', '.join(['None'] * more)}]"
    return [f"{hit} = {padded}", f"{cut.name} = {cut.name}.masked_fill({gone}, 0)"]
