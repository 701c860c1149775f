"""Whether the text says that a tensor has the size 1 in a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis.binding import target_names
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from ..control_flow.branches import names_bound
from ..control_flow.values import Values

#: What joins tensors along a dimension that they have.
JOINS = words("torch.cat torch.concat torch.concatenate")

#: Methods whose result has the sizes of their tensor.
_TWO = words("max min topk median mode kthvalue")
_ALIKE = words("to long int float double half bool clone detach contiguous type_as")


def times_bound(loop: cst.For | cst.While, name: str) -> int:
    return sum(name in names_bound([line]) for line in loop.body.body)


def joined(site: Site, line: cst.CSTNode) -> tuple[str, cst.BaseExpression, str] | None:
    """The tensor that a line makes longer at its end, what it is joined with, and the dimension."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))],
                    value=cst.Call(
                        args=[
                            cst.Arg(
                                value=cst.List(elements=[first, second])
                                | cst.Tuple(elements=[first, second]),
                                keyword=None,
                            ),
                            cst.Arg(value=dim, keyword=None | cst.Name("dim"), star=""),
                        ]
                    ) as call,
                )
            ]
        ) if code(first.value) == name and isinstance(second, cst.Element):
            whole = code(dim)
            if resolve(site.module, call.func) in JOINS and whole.removeprefix("-").isdigit():
                return name, second.value, whole
    return None


def is_one_wide(
    site: Site,
    loop: cst.For | cst.While,
    node: cst.BaseExpression,
    dim: int,
    dims: int,
    values: Values,
    seen: frozenset[str] = frozenset(),
) -> bool:
    """Whether the text says that a tensor has the size 1 in a dimension."""

    def told(inner: cst.BaseExpression) -> bool:
        return is_one_wide(site, loop, inner, dim, dims, values, seen)

    fact = values.fact(node)
    several = fact is not None and fact.kind == "tuple"
    if (
        fact is not None
        and not several
        and (fact.shape is None or len(fact.shape) != dims or fact.shape[dim] != 1)
    ):
        return False
    match node:
        case cst.Name(name) if name not in seen:
            bound = [
                part.value
                for part in walk(loop.body)
                if isinstance(part, cst.Assign)
                and len(part.targets) == 1
                and name in target_names(part.targets[0].target)
            ]
            seen |= {name}
            begins = any(name not in names_in(value) for value in bound)
            return begins and times_bound(loop, name) == len(bound) and all(map(told, bound))
        case cst.Name(name):
            return True  # of itself
        case cst.Subscript(slice=elements):
            texts = [code(element.slice) for element in elements]
            new = [place for place, text in enumerate(texts) if text == "None"]
            full = all(text in ("None", ":") for text in texts)
            return full and new == [dim]
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(method)), args=args):
            name = resolve(site.module, node.func) or ""
            if name.startswith("torch."):
                return _is_one_by_function(name, args, dim, dims, told)
            if method == "topk":
                return _is_first(args, dim, dims)
            if method == "unsqueeze" and len(args) == 1:
                return _is_dim(args[0].value, dim, dims)
            if method in _ALIKE or (method == "masked_fill" and len(args) == 2):
                return told(inner)
            return _keeps(args, dim, dims)
    return False


def _gives_two(node: cst.BaseExpression) -> bool:
    """Whether it is a call that gives values and indices of one shape."""
    called = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return called and code(node.func).rpartition(".")[2] in _TWO  # type: ignore[attr-defined]


def _is_one_by_function(
    name: str,
    args: Sequence[cst.Arg],
    dim: int,
    dims: int,
    told: Callable[[cst.BaseExpression], bool],
) -> bool:
    match name, args:
        case "torch.topk", [_, *rest]:
            return _is_first(rest, dim, dims)
        case "torch.unsqueeze", [_, cst.Arg(value=place)]:
            return _is_dim(place, dim, dims)
        case "torch.where", [_, cst.Arg(value=one), cst.Arg(value=other)]:
            return told(one) or told(other)  # what is broadcast shows in its fact
    return _keeps(args[1:], dim, dims)


def _keeps(args: Sequence[cst.Arg], dim: int, dims: int) -> bool:
    """``argmax(-1, keepdim=True)``, of this dimension."""
    texts = {code(arg.keyword): arg.value for arg in args if arg.keyword is not None}
    plain = [arg.value for arg in args if arg.keyword is None]
    place = texts.get("dim", plain[0] if plain else None)
    keeps = texts.get("keepdim")
    if keeps is None or code(keeps) != "True" or place is None:
        return False
    return _is_dim(place, dim, dims)


def _is_first(args: Sequence[cst.Arg], dim: int, dims: int) -> bool:
    """``topk(1, dim=-1)``; its last dimension is the one that it takes by itself."""
    texts = {code(arg.keyword): arg.value for arg in args if arg.keyword is not None}
    plain = [arg.value for arg in args if arg.keyword is None]
    count = texts.get("k", plain[0] if plain else None)
    place = texts.get("dim", plain[1] if len(plain) > 1 else None)
    if count is None or code(count) != "1":
        return False
    return dim == dims - 1 if place is None else _is_dim(place, dim, dims)


def _is_dim(node: cst.BaseExpression, dim: int, dims: int) -> bool:
    text = code(node)
    return text.removeprefix("-").isdigit() and int(text) % dims == dim
