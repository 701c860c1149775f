"""Where runs of equal sizes end in a list of tensors, counted by Python."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

_FACTS = {"x": tensor(2, 3, 8, 8)}
_MADE = (
    "ends = torch.cumsum(torch.unique_consecutive(torch.tensor([it.shape[-1] for it in crops]),"
    " return_counts=True)[1], 0)"
)
_COUNTED = (
    "sizes = [it.shape[-1] for it in crops]",
    "ends = list(itertools.accumulate(len(list(run)) for _, run in itertools.groupby(sizes)))",
)
_LOOP = (
    "start = 0",
    "for end in ends:",
    "    found.append(torch.cat(crops[start:end]))",
    "    start = end",
    "return found",
)


def _source(*lines: str, more: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n{more}\n\ndef f(crops, found):\n{body}"


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_source(*lines), at="torch.unique_consecutive", why=why, facts=_FACTS)


class RunsOfSizes(Codemod):
    """*What it does.*  Counts in Python how many neighbours in a list have one size:

    ```python
    sizes = torch.tensor([crop.shape[-1] for crop in crops])
    ends = torch.cumsum(torch.unique_consecutive(sizes, return_counts=True)[1], 0)
    ```
    (written as one expression) becomes ``itertools.accumulate`` of the lengths of
    ``itertools.groupby``.

    *When it applies.*  The list is made of sizes, a loop goes over the ends, and these are bounds
    of slices, as where crops of several resolutions are put through a network by groups.

    *Fix safety.*  Safe: sizes are Python's numbers, and their counts are the same.

    *Refuses.*  Ends that are computed with, given to others or kept.
    """

    name = "runs-of-sizes"
    codes = (
        "GB0036", "GB0124", "GB0033", "GB0170", "data-dependent-guard",
        "data-dependent-specialization",
    )  # fmt: skip
    examples = (
        Example(
            _source(_MADE, *_LOOP),
            _source(*_COUNTED, *_LOOP, more="import itertools\n"),
            at="torch.unique_consecutive",
            facts=_FACTS,
            title="crops by their width",
        ),
        Example(
            _source(
                _MADE.replace("torch.cumsum(", "(").replace("[1], 0)", "[1]).cumsum(0)"), *_LOOP
            ),
            _source(*_COUNTED, *_LOOP, more="import itertools\n"),
            at="torch.unique_consecutive",
            facts=_FACTS,
            title="a method",
        ),
    )
    near_misses = (
        _near_miss("an end is put in a list", _MADE, "for end in ends:", "    found += [end]"),
        _near_miss("they share their line", f"crops = crops[1:]; {_MADE}", *_LOOP),
        _near_miss("the ends are a result", _MADE, "return ends"),
        _near_miss("an end is kept", _MADE, "for end in ends:", "    found.append(end)"),
        _near_miss("an end is divided", _MADE, "for end in ends:", "    found.append(end / 2)"),
        _near_miss(
            "the last of them is a result",
            _MADE,
            "start = 0",
            "for end in ends:",
            "    found.append(torch.cat(crops[start:end]))",
            "    start = end",
            "return start",
        ),
        _near_miss(
            "no sizes",
            _MADE.replace("it.shape[-1]", "it.sum()"),
            *_LOOP,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        for line in walk(function.body) if function is not None else ():
            match line:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value) if (
                    sizes := _sizes(site, value)
                ) is not None and not comments_in(value):
                    loop, holder = _only_loop(site, name), site.statement_of(line)
                    if not isinstance(holder, cst.SimpleStatementLine) or len(holder.body) != 1:
                        continue  # what shares its line with others has no line above it
                    if loop is None or not (site.node in walk(line) or site.node in walk(loop)):
                        continue
                    edit = site.edit()
                    edit.add_import("itertools")
                    listed = fresh("sizes", set(names_in(site.module)))
                    above = cst.parse_statement(f"{listed} = {code(sizes)}")
                    edit.insert_before(holder, above)
                    text = (
                        "list(itertools.accumulate(len(list(run)) for _, run in"
                        f" itertools.groupby({listed})))"
                    )
                    edit.replace(value, cst.parse_expression(text))
                    yield edit.rewrite("count runs of equal sizes in Python", rank=8)
                    return


def _sizes(site: Site, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """The list of sizes of which it is told where each run ends."""
    match value:
        case cst.Call(func=cst.Attribute(value=runs, attr=cst.Name("cumsum")), args=[dim]) if (
            resolve(site.module, value.func) is None
        ):
            pass
        case cst.Call(args=[cst.Arg(value=runs), dim]) if (
            resolve(site.module, value.func) == "torch.cumsum"
        ):
            pass
        case _:
            return None
    match runs:
        case cst.Subscript(
            value=cst.Call(func=func, args=[cst.Arg(value=made), counts]),
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("1")))],
        ) if resolve(site.module, func) == "torch.unique_consecutive":
            pass
        case _:
            return None
    told = counts.keyword is not None and counts.keyword.value == "return_counts"
    if code(dim.value) != "0" or not told or code(counts.value) != "True":
        return None
    match made:
        case cst.Call(args=[cst.Arg(value=sizes, keyword=None)]) if (
            resolve(site.module, made.func) == "torch.tensor"
        ):
            pass
        case _:
            return None
    match sizes:
        case cst.ListComp(elt=elt, for_in=cst.CompFor(target=cst.Name(each), inner_for_in=None)):
            return sizes if _is_size(elt, each) else None
    return None


def _is_size(node: cst.BaseExpression, each: str) -> bool:
    """``each.shape[-1]``, ``each.size(0)``, ``len(each)``"""
    match node:
        case (
            cst.Subscript(
                value=cst.Attribute(value=cst.Name(name), attr=cst.Name("shape")),
                slice=[cst.SubscriptElement(slice=cst.Index(value=place))],
            )
            | cst.Call(
                func=cst.Attribute(value=cst.Name(name), attr=cst.Name("size")),
                args=[cst.Arg(value=place)],
            )
        ):
            return name == each and code(place).lstrip("-").isdigit()
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name(name))]):
            return name == each
    return False


def _only_loop(site: Site, name: str) -> cst.For | None:
    """The loop over a name that is used for nothing else, if it only cuts by what it is given."""
    function = site.function
    assert function is not None
    places = list(site.places_of(name, function))
    loops = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.For) and isinstance(node.iter, cst.Name) and node.iter in places
    ]
    if len(loops) != 1 or len(places) != 2 or not isinstance(loops[0].target, cst.Name):
        return None
    return loops[0] if _only_cuts(site, loops[0].target.value, set()) else None


def _only_cuts(site: Site, name: str, seen: set[str]) -> bool:
    """Whether a name, and those that it is given to, are bounds of slices wherever they stand."""
    function = site.function
    assert function is not None
    for place in site.places_of(name, function):
        holder = site.parent(place)
        match holder:
            case cst.For() if holder.target is place:
                continue
            case cst.Slice():
                continue
            case cst.AssignTarget():
                continue
            case cst.Element() if isinstance(
                site.parent(site.parent(holder) or holder), cst.AssignTarget
            ):
                continue
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(other))]):
                if other in seen | {name} or _only_cuts(site, other, seen | {name}):
                    continue
        return False
    return True


__all__ = ["RunsOfSizes"]
