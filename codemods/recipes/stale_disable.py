"""Functions that somebody once kept from being compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.modules import may_draw
from gbfix.schema import Safety

from ..api.splice import Splice

_DISABLE = frozenset(
    {
        "torch.compiler.disable",
        "torch._dynamo.disable",
        "torch._dynamo.decorators.disable",
        "torch._dynamo.eval_frame.disable",
    }
)
_DISALLOW = frozenset({"torch._dynamo.disallow_in_graph", "torch.compiler.disallow_in_graph"})
_BREAKS = re.compile(
    r"\.(?:numpy|tolist|item|backward|step|save|nonzero)\(|\b(?:print|open|input)\("
    r"|\b(?:np|numpy|time|logging|logger|log|warnings|subprocess|requests)\."
)
#: Errors of Python's own, which are met while tracing.
_OF_PYTHON = frozenset(
    {
        "AttributeError", "ImportError", "KeyError", "ModuleNotFoundError", "NameError",
        "NotImplementedError", "StopIteration", "TypeError",
    }
)  # fmt: skip
_HANDLES = (
    "the function handles errors: one that an operation raises while the graph runs is not caught"
    " there any more"
)
_KEEPS = (
    "it calls a function that caches its results (`lru_cache`): compiled code calls it without the"
    " cache"
)
_ENVIRONMENT = "environment variables that change after the function was compiled may not be seen"
_DRAWS = (
    "it may draw random numbers: compiled by inductor it draws others for the same seed than Python"
    " did"
)
_SKIPPED = re.compile(r"<(?:function|bound method) ((?:[\w.]|<locals>)+)")


def _source(above: str, body: str = "return norm(x) + 1") -> str:
    return f"""import torch


{above}

def f(x):
    {body}
"""


_OWN = (
    "def kept_out(function):\n    if hasattr(torch, '_dynamo'):\n"
    "        return torch._dynamo.disable(function)\n    return function\n\n\n"
)
_NORM = "def norm(x):\n    return x / x.norm()\n"


class StaleDisable(Codemod):
    """*What it does.*  Takes ``torch.compiler.disable`` (or ``torch._dynamo.disable``) off a
    function that the region calls: a decorator goes (one of the project's own that does no more,
    too), ``disable(function)`` becomes ``function``, and a call of ``disallow_in_graph`` goes.

    Most of these were put there against an error of an older torch.

    *When it applies.*  Dynamo skipped a function of the project for that reason, and the place
    where it was disabled is in the project.

    *Fix safety.*  Safe: uncompiled, the program does the same; what is traced now is compared with
    that. Unsafe where the function handles errors that a graph raises while it runs, as no handler
    inside of it is there then, where it reads environment variables, and where it may draw random
    numbers that inductor would draw from a stream of its own. Where the function does
    what breaks graphs by itself (``print``, ``.item()``, numpy), other rewrites are tried first.

    *Refuses.*  Names that the file binds to something else.
    """

    name = "stale-disable"
    codes = ("GB0007", "GB0098", "GB0099", "GB0148")
    examples = (
        Example(
            _source("# needed on torch 2.1\n@torch.compiler.disable\n" + _NORM),
            _source("# needed on torch 2.1\n" + _NORM),
            at="norm(x)",
            nth=1,
            code="GB0099",
            title="a decorator",
        ),
        Example(
            _source(_OWN + "@kept_out\n" + _NORM),
            _source(_OWN + _NORM),
            at="norm(x)",
            nth=1,
            code="GB0099",
            title="a decorator of the project's own",
        ),
        Example(
            _source(_NORM + "\n\nnorm = torch._dynamo.disable(norm, recursive=False)\n"),
            _source(_NORM + "\n\nnorm = norm\n"),
            at="norm(x)",
            nth=1,
            code="GB0148",
            title="a call",
        ),
        Example(
            _source(_NORM, "return torch.compiler.disable(norm)(x) + 1"),
            _source(_NORM, "return norm(x) + 1"),
            at="torch.compiler.disable(norm)(x)",
            title="a call where it is used",
        ),
    )
    near_misses = (
        NearMiss(
            _source(
                "def quiet(function):\n    print(function)\n"
                "    return torch.compiler.disable(function)\n\n\n"
                "@quiet\n" + _NORM
            ),
            at="norm(x)",
            nth=1,
            why="a decorator that does more",
            code="GB0099",
        ),
        NearMiss(
            _source("from mine import disable\n\n\n@disable\n" + _NORM),
            at="norm(x)",
            nth=1,
            why="another decorator",
            code="GB0099",
        ),
        NearMiss(_source(_NORM), at="norm(x)", nth=1, why="nothing is disabled", code="GB0099"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.code == "GB0007" and not _speaks_of_it(site):
            return
        for path in dict.fromkeys((site.path, *site.sources)):
            view = site if path == site.path else site.other(path)
            if view is None:
                continue
            splice = Splice(view)
            if _undo(site, view, splice):
                rank = 95 if _breaks_anyway(site, view) else 8
                notes = _doubts(site)
                yield splice.rewrite(
                    "compile what was kept from it",
                    rank=rank,
                    safety=Safety.UNSAFE if notes else Safety.SAFE,
                    notes=notes,
                )
                return


def _breaks_anyway(site: Site, view: Site) -> bool:
    """Whether the function breaks graphs by itself: then it was kept out for a reason."""
    skipped = _skipped(site)
    return any(
        isinstance(node, cst.FunctionDef)
        and node.name.value in skipped
        and _is_it(site, view, node)
        and any(_disables(view, item.decorator) for item in node.decorators)
        and _BREAKS.search(view.text(node.body)) is not None
        for node in walk(view.module)
    )


def _doubts(site: Site) -> list[str]:
    """What the skipped function does that compiled code does not do alike."""
    skipped = _skipped(site)
    found: dict[str, None] = {}
    for text in {site.source, *site.sources.values()}:
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef) or function.name not in skipped:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _last(node.func) in _cached(site):
                    found[_KEEPS] = None
                if isinstance(node, ast.ExceptHandler) and _waits_for_operators(node):
                    found[_HANDLES] = None
                elif isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                    found[_ENVIRONMENT] = None
    backend = site.region.options.get("backend", "inductor") if site.region is not None else ""
    if "inductor" in backend and may_draw(site, skipped):
        found[_DRAWS] = None
    return list(found)


def _last(func: ast.expr) -> str:
    return ast.unparse(func).rpartition(".")[2]


def _cached(site: Site) -> set[str]:
    """Functions of the project that keep what they made (``functools.lru_cache``)."""
    return {
        name
        for text in {site.source, *site.sources.values()}
        for name in re.findall(
            r"^[ \t]*@[\w.]*cache\b.*\n(?:[ \t]*@.*\n)*[ \t]*def (\w+)", text, re.M
        )
    }


def _waits_for_operators(handler: ast.ExceptHandler) -> bool:
    """Whether it handles errors that a tensor operation may raise while it runs."""
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind).rpartition(".")[2] not in _OF_PYTHON for kind in kinds)


def _speaks_of_it(site: Site) -> bool:
    what = f"{site.graph_break.explanation} {site.text(site.statement)}"
    return "disable" in what or any("disallow_in_graph" in text for text in site.sources.values())


def _undo(site: Site, view: Site, splice: Splice) -> bool:
    """Write into the splice what makes the skipped function be compiled; False if nothing does."""
    skipped = _skipped(site)
    found = False
    for node in walk(view.module):
        match node:
            case cst.FunctionDef(name=cst.Name(name)) if name in skipped and _is_it(
                site, view, node
            ):
                for decorator in node.decorators:
                    made = _is_project_s_disable(site, view, decorator.decorator)
                    if made or _disables(view, decorator.decorator):
                        where = view.span(decorator)
                        splice.delete_rows(where.line, where.end_line)
                        found = True
            case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=what), *_]):
                if _is(view, func, _DISABLE) and _is_meant(site, view, node, what, skipped):
                    splice.replace(node, splice.source_of(what))
                    found = True
                elif _is(view, func, _DISALLOW) and _disallows(site, view, node, what, skipped):
                    splice.delete_lines(view.statement_of(node))
                    found = True
    return found


def _skipped(site: Site) -> frozenset[str]:
    """The names by which the function that Dynamo skipped may stand in the source."""
    text = f"{site.graph_break.explanation} {site.graph_break.context}"
    names = {name.rpartition(".")[2] for name in _SKIPPED.findall(text)}
    node = site.node
    called = node.func if isinstance(node, cst.Call) else None
    if called is not None and dotted(called):
        names.add((dotted(called) or "").rpartition(".")[2])
    return frozenset(names)


def _is_it(site: Site, view: Site, function: cst.FunctionDef) -> bool:
    """Whether it may be the skipped function, and not one of another class by the same name."""
    text = f"{site.graph_break.explanation} {site.graph_break.context}"
    last = function.name.value
    known = [name for name in _SKIPPED.findall(text) if name.rpartition(".")[2] == last]
    parts = [last]
    for outer in view.ancestors(function):
        if isinstance(outer, cst.ClassDef):
            parts.append(outer.name.value)
        elif isinstance(outer, cst.FunctionDef):
            parts += ["<locals>", outer.name.value]
    return not known or ".".join(reversed(parts)) in known


def _disallows(
    site: Site, view: Site, call: cst.Call, what: cst.BaseExpression, skipped: frozenset[str]
) -> bool:
    """Whether a statement keeps the skipped function out of graphs, and does nothing else."""
    named = (dotted(what) or "").rpartition(".")[2]
    return site.code == "GB0007" and isinstance(view.parent(call), cst.Expr) and named in skipped


def _is_meant(
    site: Site, view: Site, call: cst.Call, what: cst.BaseExpression, skipped: frozenset[str]
) -> bool:
    if site.code == "GB0007":  # `disable(function)` itself was called
        return view is site and view.statement_of(call) is site.statement
    if (dotted(what) or "").rpartition(".")[2] in skipped:
        return True
    holder = view.parent(call)
    if not isinstance(holder, cst.Assign):
        return False
    targets = {(dotted(part.target) or "").rpartition(".")[2] for part in holder.targets}
    return bool(targets & skipped)


def _disables(view: Site, decorator: cst.BaseExpression) -> bool:
    if isinstance(decorator, cst.Call):
        return _is(view, decorator.func, _DISABLE)
    return _is(view, decorator, _DISABLE)


def _is_project_s_disable(site: Site, view: Site, decorator: cst.BaseExpression) -> bool:
    """Whether it is a function of the project that does no more than ``disable``, where there is.

    The other way out, for versions of torch without it, gives the function back as it is.
    """
    if not isinstance(decorator, cst.Name):
        return False
    views = (view, *(site.other(path) for path in site.sources if path != view.path))
    found = [
        (other, item)
        for other in views
        if other is not None
        for item in other.module.body
        if isinstance(item, cst.FunctionDef) and item.name.value == decorator.value
    ]
    if len(found) != 1:
        return False
    other, function = found[0]
    if function.decorators or len(function.params.params) != 1 or _is_generator(function):
        return False
    given = function.params.params[0].name.value
    inner = {
        node.name.value: node
        for node in walk(function.body)
        if isinstance(node, cst.FunctionDef) and _passes_on(node, given)
    }
    for node in walk(function.body):
        acts = isinstance(
            node, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.With | cst.For
        ) or (isinstance(node, cst.Expr) and not isinstance(node.value, cst.SimpleString))
        if acts and not _stands_in(other, node, inner.values()):
            return False
    returned = [
        node.value
        for node in walk(function.body)
        if isinstance(node, cst.Return) and not _stands_in(other, node, inner.values())
    ]
    disabled = 0
    for value in returned:
        match value:
            case cst.Call(func=func, args=[cst.Arg(value=cst.Name(value=name), keyword=None)]) if (
                name == given and _is(other, func, _DISABLE)
            ):
                disabled += 1
            case cst.Name(value=name) if name == given or name in inner:
                continue
            case _:
                return False
    return disabled > 0


def _is_generator(function: cst.FunctionDef) -> bool:
    return any(isinstance(node, cst.Yield) for node in walk(function.body))


def _stands_in(view: Site, node: cst.CSTNode, functions: Iterable[cst.FunctionDef]) -> bool:
    return any(view.function_of(node) is function for function in functions)


def _passes_on(function: cst.FunctionDef, name: str) -> bool:
    """Whether a wrapper is ``return name(*args, **kwargs)``."""
    body = function.body.body if isinstance(function.body, cst.IndentedBlock) else []
    match body:
        case [cst.SimpleStatementLine(body=[cst.Return(value=cst.Call(func=func, args=args))])]:
            stars = [arg.star for arg in args]
            return code(func) == name and stars == ["*", "**"]
    return False


def _is(view: Site, func: cst.BaseExpression, names: frozenset[str]) -> bool:
    return resolve(view.module, func) in names
