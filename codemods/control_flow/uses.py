"""How a name is used: whether a use can change its tensor, or let anything else hold on to it."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.kinds import called_function
from gbfix.analysis.torch_names import PURE_METHODS, PURE_TORCH
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from .values import SHARING, Share, Values


def only_computes(site: Site, node: cst.Name) -> bool:
    """Whether this use of the tensor only computes something new from it."""
    holder = site.parent(node)
    if isinstance(holder, cst.BinaryOperation | cst.UnaryOperation):
        return not isinstance(getattr(holder, "operator", None), cst.Plus)
    if isinstance(holder, cst.Comparison | cst.ComparisonTarget):
        return True
    if isinstance(holder, cst.Attribute):
        call = site.parent(holder)
        name = holder.attr.value
        if isinstance(call, cst.Call) and call.func is holder:
            return name in PURE_METHODS and name not in SHARING and not _has_out(call)
        return name in ("shape", "dtype", "device", "ndim")
    if isinstance(holder, cst.Arg):
        call = site.parent(holder)
        if isinstance(call, cst.Call) and not _has_out(call):
            function = called_function(call, site.fact) or ""
            home, _, last = function.rpartition(".")
            return home == "torch" and last in PURE_TORCH and last not in SHARING
    return False


def _has_out(call: cst.Call) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == "out" for arg in call.args)


def is_private(site: Site, name: str, statement: cst.CSTNode, values: Values) -> bool:
    """Whether nothing but the name leads to its tensor when the statement runs.

    So it is for a local that is only ever bound to new tensors, if every use that may come before
    the statement only computes from it or changes it in place.
    """
    function = site.function
    if function is None:
        return False
    start = _new_binding_before(site, name, statement, values)
    if name in parameters_of(function.params) and start is None:
        return False
    does = activity(function.body)
    if name in does.captures | does.globals | does.nonlocals | does.deletes:
        return False
    in_loop = any(isinstance(a, cst.For | cst.While) for a in site.ancestors(statement))
    end = site.span(statement).end_line
    bound = False
    for node in walk(function.body):
        if not isinstance(node, cst.Name) or node.value != name:
            continue
        if start is not None and site.span(node).line <= start:
            bound = True
            continue  # that was another tensor
        holder = site.parent(node)
        if isinstance(holder, cst.AssignTarget):
            assignment = site.parent(holder)
            assert isinstance(assignment, cst.Assign)
            if len(assignment.targets) > 1:
                return False
            if values.share(assignment.value, frozenset()) is not Share.FRESH:
                return False
            bound = True
        elif (isinstance(holder, cst.Attribute) and holder.attr is node) or (
            isinstance(holder, cst.Arg) and holder.keyword is node
        ):
            continue  # a name of something else
        elif not (
            (site.span(node).line > end and not in_loop)
            or only_computes(site, node)
            or _only_changes(site, node)
            or _is_added(site, node, values)
        ):
            return False
    return bound


def _new_binding_before(
    site: Site, name: str, statement: cst.CSTNode, values: Values
) -> int | None:
    """The last line of a statement that surely ran before, binding the name to a new tensor.

    Not looked for outside a loop around the statement: what stands in the loop runs again.
    """
    child = statement
    for parent in site.ancestors(statement):
        if isinstance(parent, cst.For | cst.While | cst.FunctionDef | cst.ClassDef | cst.Lambda):
            return None
        block = getattr(parent, "body", None)
        if isinstance(block, list | tuple) and child in block:
            for before in reversed(block[: list(block).index(child)]):
                match before:
                    case cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name(value=bound))],
                                value=value,
                            )
                        ]
                    ) if bound == name and values.share(value, frozenset()) is Share.FRESH:
                        return site.span(before).end_line
        child = parent
    return None


def _only_changes(site: Site, node: cst.Name) -> bool:
    """Whether the use changes the tensor in place, or ends the function with it."""
    holder = site.parent(node)
    if isinstance(holder, cst.AugAssign):
        return holder.target is node
    if isinstance(holder, cst.Return):
        return True
    if isinstance(holder, cst.Subscript):
        above = site.parent(holder)
        return isinstance(above, cst.AssignTarget) or (
            isinstance(above, cst.AugAssign) and above.target is holder
        )
    if isinstance(holder, cst.Attribute):
        call = site.parent(holder)
        in_place = holder.attr.value.endswith("_") and not holder.attr.value.endswith("__")
        return in_place and isinstance(call, cst.Call) and isinstance(site.parent(call), cst.Expr)
    return False


def _is_added(site: Site, node: cst.Name, values: Values) -> bool:
    """Whether the use is the right side of ``+=`` and the like on another tensor."""
    holder = site.parent(node)
    return (
        isinstance(holder, cst.AugAssign)
        and holder.value is node
        and isinstance(holder.target, cst.Name)
        and values.is_tensor_name(holder.target.value)
    )
