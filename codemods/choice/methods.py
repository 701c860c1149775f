"""Methods that an arm calls for their effects: their statements, as the arm would write them."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import code, is_docstring

from .context import Context, Declined
from .renaming import replaced


def inlined(call: cst.Call, ctx: Context) -> list[cst.BaseStatement]:
    """The statements of a method of the class, with the call's arguments for its parameters."""
    assert isinstance(call.func, cst.Attribute)
    name = call.func.attr.value
    method = _method(name, ctx)
    if method is None or method.decorators or method.asynchronous is not None:
        raise Declined(f"what `{code(call)}` does is not known")
    if exits(method.body).any or not isinstance(method.body, cst.IndentedBlock):
        raise Declined(f"`{name}` gives something back")
    given = _arguments(method, call)
    if ctx.function is not None and outer_names(method) & own_names(ctx.function):
        raise Declined(f"`{name}` reads names that are others here")
    what = activity(method.body)
    if what.dynamic or what.globals or what.nonlocals or given.keys() & what.writes:
        raise Declined(f"`{name}` changes names of its own")
    names: dict[str, cst.BaseExpression] = dict(given)
    for local in sorted(what.binds):
        if local in ctx.taken:
            names[local] = cst.Name(ctx.fresh(local))
    ctx.notes.append(
        f"The body of `{name}` was copied here, so a subclass's own `{name}` is no longer called."
    )
    body = list(method.body.body)
    if body and is_docstring(body[0]):
        body = body[1:]
    return [replaced(statement, names) for statement in body]


def outer_names(method: cst.FunctionDef) -> frozenset[str]:
    """Names that a method reads and does not bind: globals and builtins."""
    does = activity(method.body)
    params = {param.name.value for param in params_of(method.params)}
    return frozenset(does.reads - does.binds - params)


def own_names(function: cst.FunctionDef) -> frozenset[str]:
    """The local names of a function that are no globals by another name."""
    params = {param.name.value for param in params_of(function.params)}
    return frozenset(activity(function.body).binds | params) - {"self"}


def _method(name: str, ctx: Context) -> cst.FunctionDef | None:
    owner = ctx.site.class_of(ctx.scope)
    for statement in owner.body.body if owner is not None else ():
        if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
            return statement
    return None


def _arguments(method: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression]:
    params = method.params
    if params.kwonly_params or params.star_kwarg or isinstance(params.star_arg, cst.Param):
        raise Declined(f"`{method.name.value}` takes any arguments")
    names = [param.name.value for param in params.params][1:]
    given: dict[str, cst.BaseExpression] = {}
    for at, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and at >= len(names)):
            raise Declined(f"the arguments of `{method.name.value}` are not written out")
        if not isinstance(arg.value, cst.Name | cst.Attribute | cst.BaseNumber):
            raise Declined(f"an argument of `{method.name.value}` is computed in the call")
        given[arg.keyword.value if arg.keyword is not None else names[at]] = arg.value
    for param in params.params[1:]:
        if param.name.value not in given:
            if param.default is None:
                raise Declined(f"`{method.name.value}` lacks an argument")
            given[param.name.value] = param.default
    return given
