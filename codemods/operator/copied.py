"""Tensors of a function's own that a piece adds to: its operator adds to a copy."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.purity import harmless_calls
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from ..data_dependent.selections import is_fresh, pairs
from .pieces import Piece


def copied(piece: Piece) -> tuple[str, ...]:
    """The parameters of which the piece changes a copy: nobody else holds what they name.

    ``total += x`` of a tensor writes to it, and an operator writes to no argument unless it says
    so, which keeps gradients out.
    """
    site, function = piece.level.site, piece.level.function
    added = activity(*piece.nodes, harmless=harmless_calls(site.fact)).augments
    given = parameters_of(function.params)
    return tuple(
        it.name
        for it in piece.inputs.parameters
        if it.is_tensor
        and it.name in added
        and it.given == it.name
        and it.name not in given
        and not is_bound_first(piece, it.name)
        and _is_ours(site, function, piece, it.name)
    )


def is_bound_first(piece: Piece, name: str) -> bool:
    """Whether the piece binds a name anew before it adds to what it names."""
    for node in piece.nodes:
        for part in walk(node):
            if isinstance(part, cst.AugAssign) and code(part.target) == name:
                return False
        match node:
            case cst.SimpleStatementLine(body=[cst.Assign() as small]) if (
                name in activity(small).bound
            ):
                return True
    return False


def _is_ours(site: Site, function: cst.FunctionDef, piece: Piece, name: str) -> bool:
    """Whether a name is bound to new tensors, which are computed with and kept nowhere."""
    first = piece.nodes[0]
    around = [it for it in site.ancestors(first) if isinstance(it, cst.For | cst.While)]
    again = {node for loop in around for node in walk(loop)}
    inside = {node for top in piece.nodes for node in walk(top)}
    bound: dict[cst.CSTNode, cst.BaseExpression] = {}
    for node in walk(function.body):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                bound.update(pairs(target.target, node.value))
    start = site.span(first).line
    for place in site.places_of(name, function.body):
        if place in inside or (site.span(place).line >= start and place not in again):
            continue
        if place in bound:
            if not is_fresh(bound[place]):
                return False
        elif not isinstance(
            site.parent(place), cst.BinaryOperation | cst.Comparison | cst.AugAssign
        ):
            return False
    return True
