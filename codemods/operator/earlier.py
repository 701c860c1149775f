"""What a piece that raises leaves behind, or who catches it: an operator raises as the graph runs.

Dynamo makes changes of Python's objects once the graph has run; where an operator in it raises,
those from before it are lost, and a ``try`` of the compiled code catches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity, parameters_of
from gbfix.analysis.scopes import function_scope
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from .reached import called


def is_caught(site: Site, at: cst.CSTNode | None = None) -> bool:
    """Whether a ``try`` of compiled code is around the break (or ``at``, which moves with all that
    is in it), or around a call that led to it.
    """
    places = [(site, at or site.node), *((view, view.node) for view in site.callers())]
    return any(
        isinstance(outer, cst.Try | cst.TryStar) and outer.handlers
        for view, node in places
        for outer in view.ancestors(node)
    )


def changed_before(site: Site) -> str:
    """What compiled code changes of objects, globals and arguments before the break, or ""."""
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
            found = next(filter(None, map(_changed, walk(line))), "")
            for function in called(view, [line]):
                found = found or next(filter(None, map(_changed, walk(function.body))), "")
            found = found or _changed_outside(view.function, line)
            if found:
                return found
            if activity(line).global_writes:
                return min(activity(line).global_writes)
    return ""


def _changed(node: cst.CSTNode) -> str:
    """An attribute that a part of the code binds, or changes in place."""
    for place in _places(node):
        if isinstance(place, cst.Attribute):
            return code(place)
    return ""


def _changed_outside(function: cst.FunctionDef, line: cst.CSTNode) -> str:
    """A list, a table or a tensor of the caller's or the module's that a line changes in place."""
    scope = function_scope(function)
    own = scope.locals - set(parameters_of(function.params))
    for node in walk(line):
        for place in _places(node):
            bare = isinstance(node, cst.AssignTarget | cst.AugAssign) and node.target is place
            if isinstance(place, cst.Name) and not bare and place.value not in own:
                return place.value
    return ""


def _places(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a part of the code binds or changes: ``self.seen.add_(1)``, ``NAMES[0], n = x``."""
    stack: list[cst.CSTNode] = []
    match node:
        case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
            stack = [target]
        case cst.AnnAssign(target=target, value=cst.BaseExpression()):
            stack = [target]
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(name))):
            in_place = name.endswith("_") and not name.endswith("__")
            stack = [owner] if in_place or name in MUTATING_METHODS else []
    while stack:
        place = stack.pop()
        if isinstance(place, cst.Tuple | cst.List):
            stack += [element.value for element in place.elements]
        elif isinstance(place, cst.Subscript):
            stack.append(place.value)
        else:
            yield place
