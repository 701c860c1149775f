"""What a piece that raises leaves behind, or who catches it: an operator raises as the graph runs.

Dynamo makes changes of Python's objects once the graph has run; where an operator in it raises,
those from before it are lost, and a ``try`` of the compiled code catches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from .fakes import called


def is_caught(site: Site) -> bool:
    """Whether a ``try`` of compiled code is around the break, or around a call that led to it."""
    return any(
        isinstance(outer, cst.Try | cst.TryStar) and outer.handlers
        for view in (site, *site.callers())
        for outer in view.ancestors(view.node)
    )


def changed_before(site: Site) -> str:
    """What compiled code changes of objects or globals before the break; "" where nothing is."""
    for view in (site, *site.callers()):
        if view.function is None:
            continue
        here = view.span(view.statement)
        loops = [it for it in view.ancestors(view.statement) if isinstance(it, cst.For | cst.While)]
        last = max([here.line, *(view.span(it).end_line for it in loops)])
        for line in walk(view.function.body):
            if not isinstance(line, cst.SimpleStatementLine) or line is view.statement:
                continue
            if view.span(line).line > last:
                continue
            inside = [line, *(function.body for function in called(view, [line]))]
            for node in (part for top in inside for part in walk(top)):
                found = _changed(node)
                if found:
                    return found
            if activity(line).global_writes:
                return min(activity(line).global_writes)
    return ""


def _changed(node: cst.CSTNode) -> str:
    for target in _targets(node):
        place = target
        while isinstance(place, cst.Subscript):
            place = place.value
        if isinstance(place, cst.Attribute):
            return code(place)
    return ""


def _targets(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
            yield target
        case cst.Call(func=cst.Attribute(value=cst.Attribute() as owner, attr=cst.Name(name))):
            # ``self.seen.add_(1)``, ``self.names.append(n)``
            if (name.endswith("_") and not name.endswith("__")) or name in (
                "append",
                "add",
                "update",
            ):
                yield owner
