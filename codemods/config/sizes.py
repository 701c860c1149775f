"""Whether a size that comes out of a tensor can meet another one: where it broadcasts as 1 in
eager, a graph that takes it to be no 1 raises an error.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import DECIDED_BY_DATA
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

#: Make a tensor of a size, which is their first argument.
_MAKERS = words("arange zeros ones empty")
#: Put tensors one behind the other: their lengths need not agree.
_JOINS = words("cat concat concatenate")
#: Without an argument, they give one value, whatever the size.
_REDUCTIONS = words("sum any all")
#: May give numbers and sizes of their own.
_MORE = DECIDED_BY_DATA | words(
    "int float bool len repeat_interleave split split_with_sizes where numel size"
)


def meets_no_other_size(site: Site) -> bool:
    """Whether what the break gives has one dimension and is only joined, summed up or returned.

    The break must stand in the function that is compiled, and be all there of its kind.
    """
    function = site.function
    if function is None or not _is_all_inside(site, function):
        return False
    made = next((n for n in (site.node, *site.ancestors(site.node)) if _makes(site, n)), None)
    if made is None:
        return False
    for node in walk(function.body):
        if isinstance(node, cst.Call) and node is not site.node and not _is_plain(site, node):
            return False
        if isinstance(node, cst.Subscript | cst.FunctionDef | cst.Lambda | cst.Yield):
            return False
    return _goes_well(site, function, made, 8)


def _is_all_inside(site: Site, function: cst.FunctionDef) -> bool:
    """Whether the project's frames are the function's, and those of comprehensions in it."""
    span = site.span(function)
    return all(
        frame.path == site.path and span.line <= frame.line <= span.end_line
        for frame in site.graph_break.frames
        if frame.in_project
    )


def _makes(site: Site, node: cst.CSTNode) -> bool:
    """``torch.arange(n, ...)``: one size, a name or the break itself, and the rest by keyword."""
    if not isinstance(node, cst.Call):
        return False
    home, _, last = (resolve(site.module, node.func) or "").rpartition(".")
    return (
        (home, last in _MAKERS) == ("torch", True)
        and len(node.args) > 0
        and (isinstance(node.args[0].value, cst.Name) or node.args[0].value is site.node)
        and all(arg.keyword is not None and not arg.star for arg in node.args[1:])
        and not any(arg.keyword is not None and arg.keyword.value == "out" for arg in node.args)
    )


def _is_plain(site: Site, node: cst.Call) -> bool:
    """Whether a call is one of torch's that gives no number and no such size of its own."""
    home, _, last = (resolve(site.module, node.func) or "").rpartition(".")
    if home == "torch":
        return last not in _MORE
    match node.func:
        case cst.Attribute(value=value, attr=cst.Name(value=last)):
            seen = site.locals_before(site.statement_of(node))
            fact = seen.get(code(value)) or infer(value, site.fact)
            return fact is not None and fact.is_tensor and last not in _MORE
    return False


def _goes_well(site: Site, function: cst.FunctionDef, node: cst.CSTNode, depth: int) -> bool:
    """Whether a tensor of that size goes where its size meets no other."""
    parent = site.parent(node)
    if depth == 0:
        return False
    match parent:
        case cst.Return():
            return True
        case cst.Element() | cst.Arg() | cst.List() | cst.Tuple():
            if isinstance(parent, cst.Arg) and not _joins(site, site.parent(parent)):
                return False
            return _goes_well(site, function, parent, depth - 1)
        case cst.ListComp(elt=elt) if elt is node:
            return _goes_well(site, function, parent, depth - 1)
        case cst.Call() if _joins(site, parent):
            return _goes_well(site, function, parent, depth - 1)
        case cst.Attribute(attr=cst.Name(value=name)) if parent.value is node:
            call = site.parent(parent)
            return isinstance(call, cst.Call) and not call.args and name in _REDUCTIONS
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return _all_go_well(site, function, name, depth - 1)
    return False


def _joins(site: Site, node: cst.CSTNode | None) -> bool:
    if not isinstance(node, cst.Call) or len(node.args) != 1:
        return False
    home, _, last = (resolve(site.module, node.func) or "").rpartition(".")
    return home == "torch" and last in _JOINS


def _all_go_well(site: Site, function: cst.FunctionDef, name: str, depth: int) -> bool:
    places = list(site.places_of(name, function))
    bound = [place for place in places if isinstance(site.parent(place), cst.AssignTarget)]
    return len(bound) == 1 and all(
        _goes_well(site, function, place, depth) for place in places if place is not bound[0]
    )


def is_only_region(site: Site) -> bool:
    """Whether the break's region is all that the project compiles, in the script that is run."""
    if site.region is None or site.region.compile_path not in ("", site.entry):
        return False
    views = [
        view
        for path in site.sources
        if (view := site if path == site.path else site.other(path)) is not None
    ]
    if any("import *" in text for text in site.sources.values()):
        return False
    names = [(it, node) for it in views for node in walk(it.module) if isinstance(node, cst.Name)]
    named = [view.parent(node) for view, node in names if _may_compile(view, node)]
    # Under a name of its own (``import compile as fast``), nobody counts what it compiles.
    if any(isinstance(it, cst.ImportAlias) and it.asname is not None for it in named):
        return False
    return len(named) == 1 and not any(_may_get_compile(view, node) for view, node in names)


def _may_compile(view: Site, node: cst.Name) -> bool:
    """Whether a name may be that of ``torch.compile`` or of a module's method."""
    if node.value != "compile":
        return False
    holder = view.parent(node)
    is_attribute = isinstance(holder, cst.Attribute) and holder.attr is node
    known = resolve(view.module, holder if is_attribute and holder is not None else node)
    # ``re.compile``, Python's own.
    return known is None or known.partition(".")[0] == "torch"


def _may_get_compile(view: Site, node: cst.Name) -> bool:
    """Whether ``getattr`` may give what compiles, by what it is asked for and of what."""
    if node.value != "getattr":
        return False
    call = view.parent(node)
    if not isinstance(call, cst.Call) or call.func is not node or len(call.args) < 2:
        return True
    match call.args[1].value:
        case cst.SimpleString() as text:
            return text.evaluated_value == "compile"
        case cst.FormattedString(parts=[cst.FormattedStringText(value=begun), *_]):
            return "compile".startswith(begun)
    # A name that the program makes up, of an object of its own: only torch's may be meant.
    owner = resolve(view.module, call.args[0].value)
    return owner is not None and owner.partition(".")[0] == "torch"
