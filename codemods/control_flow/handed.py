"""What a function of the file does with what a call gives it."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site


def given_to(call: cst.Call, place: int, parameter: str) -> cst.BaseExpression | None:
    for position, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            if arg.keyword.value == parameter:
                return arg.value
        elif position == place:
            return arg.value
    return None


def argument_of(
    site: Site, call: cst.Call, function: cst.FunctionDef, name: str
) -> cst.BaseExpression | None:
    """What a call gives for a parameter."""
    if isinstance(function.params.star_arg, cst.Param) or function.params.posonly_params:
        return None
    names = [param.name.value for param in params_of(function.params)]
    is_static_method = any(code(item.decorator) == "staticmethod" for item in function.decorators)
    in_class = site.class_of(function) is not None and not is_static_method
    shift = 1 if in_class and names[:1] in (["self"], ["cls"]) else 0
    place = names.index(name) - shift
    return given_to(call, place, name) if place >= 0 else None


def hands_to_changer(
    site: Site, node: cst.BaseExpression, but: cst.Call | None = None, *, unknown: bool = True
) -> bool:
    """Whether a value goes, as it is, into a call that may change in place what it is given.

    ``unknown`` is what is thought of calls whose text is not in the file.
    """
    holder = site.parent(node)
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    return (
        isinstance(call, cst.Call)
        and call is not but
        and _may_change(site, call, node, unknown=unknown)
    )


def _may_change(
    site: Site,
    call: cst.Call,
    node: cst.BaseExpression,
    seen: frozenset[str] = frozenset(),
    *,
    unknown: bool,
) -> bool:
    """Whether a call may change in place what it is given: functions of the file are read, and
    what they call; what is not torch's or Python's own, and not there, may do anything.
    """
    name = code(call.func).rpartition(".")[2]
    called = resolve(site.module, call.func) or ""
    if called.startswith(("torch.", "builtins.", "math.")) or name in seen:
        return name.endswith("_") and not name.endswith("__")
    fact = site.fact(call.func) if site.parent(call.func) is not None else None
    names, found = {name}, False
    if fact is not None and fact.kind == "module":
        if fact.type.startswith("torch.nn."):
            return False
        names = {"forward"}
    for inner in walk(site.module):
        if isinstance(inner, cst.FunctionDef) and inner.name.value in names:
            found = True
            if _changes_given(site, call, node, inner, seen | {name}, unknown=unknown):
                return True
    if isinstance(call.func, cst.Attribute) and not found:
        receiver = site.fact(call.func.value) if site.parent(call.func.value) is not None else None
        if receiver is not None and (receiver.is_tensor or receiver.kind in ("list", "tuple")):
            return name.endswith("_") and not name.endswith("__")
    return not found and unknown


def _changes_given(
    site: Site,
    call: cst.Call,
    node: cst.BaseExpression,
    inner: cst.FunctionDef,
    seen: frozenset[str],
    *,
    unknown: bool,
) -> bool:
    """Whether a function changes the parameter that a call gives the name to, or a part of it."""
    does = activity(inner.body)
    if isinstance(inner.params.star_arg, cst.Param) or inner.params.posonly_params:
        return bool(does.mutates)  # which parameter gets it is not told
    for param in params_of(inner.params):
        name = param.name.value
        if argument_of(site, call, inner, name) is not node:
            continue
        if name in does.mutates:
            return True
        for part in walk(inner.body):
            match part:
                case cst.Assign(targets=targets, value=value) if name in activity(value).reads:
                    bound = {n.value for t in targets for n in walk(t) if isinstance(n, cst.Name)}
                    if bound & does.mutates:
                        return True  # it may be a view
                case cst.Call(args=args):
                    own = [arg.value for arg in args if code(arg.value) == name]
                    if any(_may_change(site, part, it, seen, unknown=unknown) for it in own):
                        return True
    return False
