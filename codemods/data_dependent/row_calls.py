"""Calls that treat each row by itself, of rows of which some were filled with zeros.

A zero is a value like any other where numbers are computed; where it is an index it has to be one
that the original could have, too: the first class, the first column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .loss_modules import LOSSES, made_loss
from .selections import ELEMENT_LOSSES, FLOATS, tensor_fact

if TYPE_CHECKING:
    from .chosen import Chosen

#: Losses that ask for the class of each row.
_OF_CLASSES = words("nll_loss cross_entropy")
_MODULES = {**LOSSES, "NLLLoss": "nll_loss"}
_OPTIONS = words("reduction beta delta ignore_index label_smoothing weight")
#: Keep each number, and make a column of a row of them.
_COLUMNS = {"unsqueeze": (["1"], ["-1"]), "view": (["-1", "1"],), "reshape": (["-1", "1"],)}
_WHOLE = words("long int")


def row_loss(site: Site, node: cst.Call, home: str, last: str) -> str:
    """The loss function that gives a number for each row.

    "" for other calls, and for losses that are reduced at once.
    """
    if home == "torch.nn.functional" and last in ELEMENT_LOSSES | _OF_CLASSES:
        return _unreduced(last, [arg for arg in node.args if arg.keyword is not None])
    made = made_loss(site, node.func) if not any(arg.keyword for arg in node.args) else None
    return _unreduced(_MODULES[made[0]], made[1]) if made and made[0] in _MODULES else ""


def _unreduced(kind: str, options: list[cst.Arg]) -> str:
    told = {arg.keyword.value: arg.value for arg in options if arg.keyword is not None}
    if len(told) != len(options) or not set(told) <= _OPTIONS or "reduction" not in told:
        return ""
    # (Weights of classes have no gradient; those of elements are of all rows.)
    if "weight" in told and kind not in _OF_CLASSES:
        return ""
    return kind if code(told["reduction"]).strip("\"'") == "none" else ""


def takes_rows(
    chosen: Chosen, kind: str, args: list[cst.BaseExpression], uses: list[cst.CSTNode]
) -> bool:
    """Whether a loss of these is one by rows, whatever stands in those that are not selected."""
    if len(args) != 2:
        return False
    one, other = (tensor_fact(chosen.site, arg) for arg in args)
    if one is None or other is None or one.dtype not in FLOATS:
        return False
    if kind in ELEMENT_LOSSES:
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and chosen.follows(args[0], uses) and chosen.follows(args[1], uses)
    classes = other.dtype == "torch.int64" and _ranks(chosen, args) == (2, 1)
    return classes and chosen.follows(args[0], uses) and is_index(chosen, args[1], uses)


def _ranks(chosen: Chosen, nodes: list[cst.BaseExpression]) -> tuple[int, ...]:
    return tuple(chosen.rank(node) for node in nodes)


def is_index(chosen: Chosen, node: cst.BaseExpression, uses: list[cst.CSTNode]) -> bool:
    """Whether it holds whole numbers that were selected, as they were: zero in other rows."""
    fact = tensor_fact(chosen.site, node)
    if fact is None or fact.dtype not in ("torch.int64", "torch.int32"):
        return False
    plain: cst.BaseExpression | None = node
    while plain is not None and not chosen.is_direct(plain):
        inner = _reshaped(chosen, plain)
        held = chosen.holds(plain) if inner is None else inner
        plain = held
    return plain is not None and chosen.follows(node, uses)


def _reshaped(chosen: Chosen, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What has the same numbers, one in each row."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            told = [code(arg.value) for arg in args]
            if name in _WHOLE and not args:
                return inner
            return inner if is_column(chosen, name, inner, told) else None
        case cst.Subscript(value=inner, slice=[first, second]):
            texts = code(first.slice), code(second.slice)
            return inner if texts == (":", "None") and chosen.rank(inner) == 1 else None
    return None


def is_column(chosen: Chosen, name: str, inner: cst.BaseExpression, told: list[str]) -> bool:
    """Whether a call makes a column of one number for each row."""
    return chosen.dims == 1 and chosen.rank(inner) == 1 and told in _COLUMNS.get(name, ())


def is_gather(
    chosen: Chosen, args: list[cst.BaseExpression], told: dict[str, str], uses: list[cst.CSTNode]
) -> bool:
    """``x.gather(1, index)``: of each row the numbers at places that its own index has."""
    if len(args) != 3 or told or chosen.dims != 1 or code(args[1]) not in ("1", "-1"):
        return False
    ranks = _ranks(chosen, [args[0], args[2]])
    return ranks == (2, 2) and chosen.follows(args[0], uses) and is_index(chosen, args[2], uses)


def is_squeezed(chosen: Chosen, node: cst.Call, uses: list[cst.CSTNode]) -> bool:
    """``x.gather(1, index[:, None]).squeeze(1)``: a column of one number for each row, as a row.

    So is ``layer(x[mask]).flatten()`` of a layer that gives one number.
    """
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name))):
            told = [code(arg.value) for arg in node.args if arg.keyword is None]
        case _:
            return False
    forms = {"squeeze": (["1"], ["-1"]), "view": (["-1"],), "reshape": (["-1"],), "flatten": ([],)}
    if len(told) != len(node.args) or told not in forms.get(name, ()):
        return False
    index = _gathered_by(chosen.site, inner) if isinstance(inner, cst.Call) else None
    column = bool(index is not None and _reshaped(chosen, index))
    made = tensor_fact(chosen.site, inner)
    # As long as each row has one number: with more of them, the mask no longer fits, and says so.
    column |= made is not None and (made.shape or ())[1:] == (1,) and chosen.dims == 1
    return column and chosen.follows(inner, uses)


def _gathered_by(site: Site, node: cst.Call) -> cst.BaseExpression | None:
    """The index of a call of ``gather``."""
    values = [arg.value for arg in node.args if arg.keyword is None]
    if resolve(site.module, node.func) == "torch.gather" and len(values) == 3:
        return values[2]
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "gather":
        return values[1] if len(values) == 2 else None
    return None


def is_one_of_each(chosen: Chosen, node: cst.Subscript, uses: list[cst.CSTNode]) -> bool:
    """``x[torch.arange(len(x)), index]``: of each row the number at a place of its own."""
    match [element.slice for element in node.slice]:
        case [cst.Index(value=rows), cst.Index(value=index)] if chosen.dims == 1:
            pass
        case _:
            return False
    if chosen.rank(node.value) != 2 or chosen.rank(index) != 1:
        return False
    counted = _all_rows(chosen, rows)
    if counted is None or not chosen.follows(node.value, uses):
        return False
    uses.append(counted)
    return is_index(chosen, index, uses)


def _all_rows(chosen: Chosen, node: cst.BaseExpression) -> cst.Name | None:
    """The name whose rows are counted by ``torch.arange(len(x))``, or by a name for that."""
    site = chosen.site
    if isinstance(node, cst.Name):
        made = _bound_to(site, node.value)
        places = site.places_of(node.value, site.function) if site.function is not None else []
        others = [it for it in places if it is not made[0] and not _is_first(site, it)]
        if made[1] is None or others:
            return None
        node = made[1]
    if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return None
    name = resolve(site.module, node.func)
    told = [arg.keyword.value for arg in node.args if arg.keyword is not None]
    plain = [arg.value for arg in node.args if arg.keyword is None]
    if name not in ("torch.arange", "builtins.range") or len(plain) != 1 or set(told) - {"device"}:
        return None
    return _counted_name(chosen, plain[0])


def _counted_name(chosen: Chosen, node: cst.BaseExpression) -> cst.Name | None:
    match node:
        case (
            cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name() as name)])
            | cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("size")),
                args=[cst.Arg(value=cst.Integer("0"))],
            )
            | cst.Subscript(
                value=cst.Attribute(value=cst.Name() as name, attr=cst.Name("shape")),
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
            )
        ) if chosen.holds(name) is not None:
            return name
    return None


def _bound_to(site: Site, name: str) -> tuple[cst.CSTNode | None, cst.BaseExpression | None]:
    """The target and the value of the one assignment that binds a name of the function."""
    function = site.function
    found: list[cst.Assign] = []
    for node in walk(function.body) if function is not None else ():
        if isinstance(node, cst.Assign):
            names = {it.value for target in node.targets for it in walk(target)
                     if isinstance(it, cst.Name)}  # fmt: skip
            if name in names:
                found.append(node)
    match found:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)], value=value)]:
            return target, value
    return None, None


def _is_first(site: Site, node: cst.CSTNode) -> bool:
    """Whether a name is the first of two indices."""
    index = site.parent(node)
    element = site.parent(index) if isinstance(index, cst.Index) else None
    holder = site.parent(element) if isinstance(element, cst.SubscriptElement) else None
    return isinstance(holder, cst.Subscript) and holder.slice[0] is element
