"""Names of a piece that may share memory: what an operator gives is new, each result by itself."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import walk

from ..control_flow.values import Share, Values
from .pieces import Piece


def sharing_results(piece: Piece) -> set[str]:
    """Results that may share memory with another result or with an argument, with these.

    ``view = out[0]`` in the piece: behind its operator, a change of one no longer reaches the
    other.
    """
    values = Values(piece.level.site)
    inside = activity(*piece.nodes).bound
    groups: dict[str, set[str]] = {}
    for names in _together(piece, values, inside):
        joined = set(names).union(*(groups.get(name, ()) for name in names))
        groups.update(dict.fromkeys(joined, joined))
    results = {result.name for result in piece.results if result.name}
    return {
        name
        for group in groups.values()
        if group & results and len(group & (results | _given(piece))) > 1
        for name in group
    }


def _given(piece: Piece) -> set[str]:
    return {it.given for it in piece.inputs.parameters if it.is_tensor}


def _together(piece: Piece, values: Values, inside: frozenset[str]) -> Iterator[set[str]]:
    """Names that an assignment binds, with those that its value may be a view of."""
    for node in (part for top in piece.nodes for part in walk(top)):
        match node:
            case (
                cst.Assign(value=cst.BaseExpression() as value)
                | cst.AnnAssign(value=cst.BaseExpression() as value)
            ):
                pass
            case cst.For(iter=value):
                pass
            case _:
                continue
        share = values.share(value, frozenset())
        if share in (Share.FRESH, Share.PYTHON):
            continue
        read = activity(value).reads
        targets = (
            [node.target]
            if isinstance(node, cst.For | cst.AnnAssign)
            else [target.target for target in node.targets]
        )
        bound = {
            part.value
            for target in targets
            if isinstance(target, cst.Name | cst.Tuple | cst.List)
            for part in walk(target)
            if isinstance(part, cst.Name)
        }
        # Of a call that is not known: what it was given from outside, it gives back seldom.
        others = read if share is not Share.UNKNOWN else read & inside
        for name in bound:
            if others:
                yield {name, *others}
