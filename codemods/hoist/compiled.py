"""What compiles a function: its innermost decorator, one call of ``torch.compile``, or others.

Where others do (``torch.compile(Net())``, say), the function stays what they compile: Dynamo is
told to pass over its own frame, and meets the parts, one by one, when it calls them.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Edit, Site, SiteError
from gbfix.schema import Safety, Span

from .halves import CannotSplit, compile_decorator

_CHOICES = (
    cst.IfExp | cst.BooleanOperation | cst.For | cst.While | cst.Try | cst.Lambda | cst.BaseComp
)
_LITERAL = cst.BaseNumber | cst.SimpleString | cst.Dict | cst.DictElement


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A function, the decorator that its parts get, and the call that compiles it, if one does.

    Without a decorator, the function is compiled as part of something that is not seen here.
    """

    function: cst.FunctionDef
    decorator: cst.Decorator | None
    call: cst.Call | None = None

    def ceiling(self, site: Site) -> tuple[Safety, tuple[str, ...]]:
        """How safe it is to cut the function, and why not, given what Dynamo makes of its parts."""
        whole = site.region is not None and site.region.options.get("fullgraph") == "True"
        if self.decorator is not None or not whole:
            return Safety.SAFE, ()
        return Safety.UNSAFE, (
            "a call that runs none of the parts raises an error under `fullgraph=True`",
        )

    def release(self, site: Site, edit: Edit) -> None:
        """Take the call away: the parts are compiled where they are defined."""
        if self.call is None:
            return
        statement = _rebinding(site, self.function, self.call)
        if statement is not None:
            edit.remove(statement)
        else:
            edit.replace(self.call, cst.Name(self.function.name.value))

    def spans(self, site: Site) -> tuple[Span, ...]:
        """What `release` touches."""
        if self.call is None:
            return ()
        return (site.span(_rebinding(site, self.function, self.call) or self.call),)


def compiled(site: Site, function: cst.FunctionDef) -> Compiled:
    """What compiles the function; raises `CannotSplit` where that is not plain to see."""
    try:
        return Compiled(function, compile_decorator(site, function))
    except CannotSplit:
        call = _only_call(site, function)
    options = call.args[1:]
    if not all(option.keyword is not None and _is_literal(option.value) for option in options):
        raise CannotSplit("options that have no meaning where the function stands")
    func: cst.BaseExpression = call.func
    if options:
        func = cst.Call(call.func, [*options[:-1], _without_comma(options[-1])])
    return Compiled(function, cst.Decorator(func), call)


def compiled_place(site: Site) -> tuple[Compiled, cst.CSTNode] | None:
    """The compiled function of this file on the break's stack, and what breaks in it.

    For a break in a helper, that is the call which leads there.
    """
    frames = [site.frame, *reversed(site.graph_break.frames)]
    for frame in frames:
        if frame.path != site.path:
            continue
        try:
            found = dataclasses.replace(site.graph_break, site=frame)
            outer = Site(site.path, site.source, found, site.facts, region=site.region)
            if outer.function is not None:
                return compiled(site, outer.function), outer.node
        except (SiteError, CannotSplit):
            continue
    return _at_the_root(site)


def _at_the_root(site: Site) -> tuple[Compiled, cst.CSTNode] | None:
    """The function with which the region begins, compiled from outside: a module's ``forward``.

    Or a part of it: where an earlier cut had Dynamo pass over its frame, the parts are what begins.
    """
    region = site.region
    frame = next((item for item in site.graph_break.frames if item.in_project), None)
    if region is None or frame is None or frame.path != site.path:
        return None
    try:
        found = dataclasses.replace(site.graph_break, site=frame)
        outer = Site(site.path, site.source, found, site.facts, region=region)
    except SiteError:
        return None
    function = outer.function
    if function is None or function.decorators:
        return None
    known = function.name.value in ("forward", region.name.rpartition(".")[2])
    if not known and not _is_part(site, outer, function):
        return None
    if resolve(site.module, cst.Name("torch"), at=function) != "torch":
        return None
    return Compiled(function, None), outer.node


def _is_part(site: Site, outer: Site, function: cst.FunctionDef) -> bool:
    """Whether a function beside it, whose own frame Dynamo passes over, is what calls it."""
    name, me = function.name.value, ""
    if outer.parent(function) is not outer.module:
        if not function.params.params:
            return False
        me = function.params.params[0].name.value + "."
    for beside in outer.block_of(function):
        if not isinstance(beside, cst.FunctionDef) or not beside.decorators:
            continue
        if any(_passes_over(site, item.decorator) for item in beside.decorators) and any(
            isinstance(node, cst.Call) and code(node.func) == me + name
            for node in walk(beside.body)
        ):
            return True
    return False


def _passes_over(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it is ``torch.compiler.disable(recursive=False)``."""
    match node:
        case cst.Call(args=[cst.Arg(keyword=cst.Name("recursive"), value=cst.Name("False"))]):
            return resolve(site.module, node.func) == "torch.compiler.disable"
    return False


def _only_call(site: Site, function: cst.FunctionDef) -> cst.Call:
    """The one call ``torch.compile(function, ...)`` of the file."""
    name = function.name.value
    if site.parent(function) is not site.module or function.decorators:
        raise CannotSplit("the function is not compiled by its own innermost decorator")
    calls = [
        node
        for node in walk(site.module)
        if isinstance(node, cst.Call)
        and resolve(site.module, node.func) == "torch.compile"
        and node.args
        and isinstance(node.args[0].value, cst.Name)
        and node.args[0].value.value == name
    ]
    if len(calls) != 1 or calls[0].args[0].keyword is not None or calls[0].args[0].star:
        raise CannotSplit("the function is not compiled by one call")
    (call,) = calls
    around = [part for part in site.ancestors(call) if isinstance(part, cst.FunctionDef)]
    if any(_is_optional(part) for part in site.ancestors(call)):
        raise CannotSplit("the function is compiled sometimes only")
    if any(part is function or name in function_scope(part).locals for part in around):
        raise CannotSplit("the name means something else there")
    bound = len(module_bindings(site.module).get(name, ()))
    if bound != (1 if _rebinding(site, function, call) is None else 2):
        raise CannotSplit("the function's name is bound again")
    return call


def _is_optional(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.If):
        names = {part.value for part in walk(node.test) if isinstance(part, cst.Name)}
        return "__name__" not in names
    return isinstance(node, _CHOICES)


def _rebinding(
    site: Site, function: cst.FunctionDef, call: cst.Call
) -> cst.SimpleStatementLine | None:
    """``f = torch.compile(f)`` at module level."""
    assign = site.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    target, line = assign.targets[0].target, site.statement_of(assign)
    if not isinstance(target, cst.Name) or target.value != function.name.value:
        return None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    if site.parent(line) is not site.module:
        return None
    if comments_in(line):
        raise CannotSplit("a comment would be lost")
    return line


def _is_literal(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Name):
        return node.value in ("True", "False", "None")
    if isinstance(node, cst.Dict):
        return all(
            isinstance(element, cst.DictElement)
            and _is_literal(element.key)
            and _is_literal(element.value)
            for element in node.elements
        )
    return isinstance(node, _LITERAL)


def _without_comma(arg: cst.Arg) -> cst.Arg:
    return arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)
