"""Who calls a compiled function: the places of its own file where its name leads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site

#: Methods of a module that give the module.
_SELF = words("to eval train cuda cpu double half float bfloat16 requires_grad_")


@dataclasses.dataclass(frozen=True)
class Callers:
    """The calls of a module-level function, directly or under the name of its compiled form.

    ``all_known`` is False where the function escapes: its name is used in another way than to call
    or compile it, or another file of the project speaks of it.
    """

    calls: tuple[cst.Call, ...]
    compiled: bool
    all_known: bool


def callers_of(site: Site, function: cst.FunctionDef) -> Callers | None:
    """The callers of a function at module level, or of a module's ``forward``; None for others.

    A module is called by names that hold an object of its class, compiled or not; others may have
    it as well, so that ``all_known`` is False.
    """
    name = function.name.value
    if name == "forward" and site.class_of(function) is not None:
        return _callers_of_forward(site, function)
    if site.parent(function) is not site.module or len(_bound(site, name)) != 1:
        return None
    compiled = [is_compile(site, decorator.decorator) for decorator in function.decorators]
    if not all(compiled):
        return None
    calls: list[cst.Call] = []
    known = not _mentioned_elsewhere(site, name)
    names, seen = [name], {name}
    while names:
        for use in _uses(site, names.pop()):
            holder = site.parent(use)
            if isinstance(holder, cst.Call) and holder.func is use:
                calls.append(holder)
                continue
            alias = _compiled_alias(site, use)
            if alias is None:
                known = False
            elif alias not in seen:
                compiled.append(True)
                seen.add(alias)
                names.append(alias)
    return Callers(tuple(calls), bool(compiled), known)


def _callers_of_forward(site: Site, function: cst.FunctionDef) -> Callers | None:
    owner = site.class_of(function)
    if owner is None or site.parent(owner) is not site.module or function.decorators:
        return None
    holders = _instances(site, owner.name.value)
    calls = [
        node
        for node in walk(site.module)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and any(
            _same_scope(site, node, name, scope)
            for name, scope in holders
            if name == node.func.value
        )
    ]
    return Callers(tuple(calls), True, False)


def _instances(site: Site, owner: str) -> list[tuple[str, cst.FunctionDef | None]]:
    """Names that hold objects of a class of this file, and nothing else, with their functions."""
    given: dict[tuple[str, cst.FunctionDef | None], list[cst.BaseExpression | None]] = {}
    for node in walk(site.module):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                given.setdefault((name, site.function_of(node)), []).append(value)
            case cst.AssignTarget() | cst.For() | cst.AnnAssign() | cst.NamedExpr() | cst.AsName():
                target = node.name if isinstance(node, cst.AsName) else node.target
                for part in walk(target):
                    if isinstance(part, cst.Name) and not isinstance(site.parent(node), cst.Assign):
                        given.setdefault((part.value, site.function_of(node)), []).append(None)
    found: list[tuple[str, cst.FunctionDef | None]] = []

    def holds(value: cst.BaseExpression | None, scope: cst.FunctionDef | None) -> bool:
        match value:
            case cst.Name(name):
                return (name, scope) in found or (name, None) in found
            case cst.Call(func=cst.Name(name)) if name == owner:
                return True
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name))) if name in _SELF:
                return holds(inner, scope)
            case cst.Call(args=[first, *_]) if is_compile(site, value.func):
                return holds(first.value, scope)
        return False

    for _ in given:
        more = [
            key
            for key, values in given.items()
            if key not in found and any(holds(value, key[1]) for value in values)
        ]
        if not more:
            break
        found += more
    return [key for key in found if all(holds(value, key[1]) for value in given[key])]


def _same_scope(site: Site, call: cst.Call, name: str, scope: cst.FunctionDef | None) -> bool:
    """Whether a call is of the name that a scope binds."""
    if not isinstance(call.func, cst.Name) or call.func.value != name:
        return False
    around = site.function_of(call)
    if scope is None:
        return around is None or name not in function_scope(around).locals
    return around is scope


def is_compile(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a decorator or callee is ``torch.compile``, with or without options."""
    if isinstance(node, cst.Call):
        return is_compile(site, node.func)
    return resolve(site.module, node) == "torch.compile"


def argument(function: cst.FunctionDef, call: cst.Call, parameter: str) -> cst.Arg | None:
    """The argument that a call passes for a parameter; None where that is not plain to see."""
    if any(arg.star for arg in call.args):
        return None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == parameter:
            return arg
    positional = [*function.params.posonly_params, *function.params.params]
    names = [param.name.value for param in positional]
    if names[:1] == ["self"]:
        names = names[1:]
    if parameter not in names:
        return None
    plain = [arg for arg in call.args if arg.keyword is None]
    index = names.index(parameter)
    return plain[index] if index < len(plain) else None


def is_parameter(function: cst.FunctionDef, name: str) -> bool:
    """Whether the name is a plain parameter (neither ``*args`` nor ``**kwargs``)."""
    stars = (function.params.star_arg, function.params.star_kwarg)
    return any(
        param.name.value == name for param in params_of(function.params) if param not in stars
    )


def _bound(site: Site, name: str) -> tuple[cst.CSTNode, ...]:
    return module_bindings(site.module).get(name, ())


def _uses(site: Site, name: str) -> Iterator[cst.Name]:
    for node in walk(site.module):
        if not isinstance(node, cst.Name) or node.value != name:
            continue
        holder = site.parent(node)
        label = (
            (isinstance(holder, cst.Attribute) and holder.attr is node)
            or (isinstance(holder, cst.Arg) and holder.keyword is node)
            or (isinstance(holder, cst.FunctionDef) and holder.name is node)
            or isinstance(holder, cst.AssignTarget)
        )
        if not label:
            yield node


def _compiled_alias(site: Site, use: cst.Name) -> str | None:
    """``g`` where the use is the function in ``g = torch.compile(function, ...)``, bound once."""
    arg = site.parent(use)
    call = site.parent(arg) if isinstance(arg, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not arg or not is_compile(site, call.func):
        return None
    assign = site.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    target = assign.targets[0].target
    if not isinstance(target, cst.Name) or site.function_of(assign) is not None:
        return None
    return target.value if len(_bound(site, target.value)) == 1 else None


def _mentioned_elsewhere(site: Site, name: str) -> bool:
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    return any(
        path != site.path and pattern.search(source) for path, source in site.sources.items()
    )
