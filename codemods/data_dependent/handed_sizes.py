"""Sizes that are put into a tensor, handed through functions, and looped over far from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import names_in
from gbfix.analysis.overriding import bound_on_objects, overriding
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, is_docstring, statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from ..api.splice import Splice
from ..control_flow.handed import argument_of, hands_to_changer
from .python_metadata import (
    is_bound_once,
    is_only_counted,
    is_static,
    made_of_numbers,
)

_MAKERS = ("torch.tensor", "torch.as_tensor")
_LONG = ("torch.int64", "torch.int32")
_SOURCE = """
import torch


def core(value, shapes):
    parts = value.split([h * w for h, w in shapes], 1)
    return torch.stack([part.sum(1) for part in parts])


def halve(sizes):
    sizes.floor_divide_(2)


def attend(value, shapes{0}):
    total = shapes.prod(-1).sum()
    return core(value, {1}) / total


def f(maps, more):
    shapes = []
    for m in maps:
        n, h, w = m.shape
        shapes.append((h, w))
    {2}
    value = torch.cat([m.flatten(1) for m in maps], 1)
    return attend(value, shapes{3})
"""
_TENSOR = "shapes = torch.as_tensor(shapes, dtype=torch.long)"
_READER = """
import torch


def attend(value, sizes{0}):
    {1}parts = value.split([h * w for h, w in {2}], 1)
    return parts[0] / sizes.prod(-1).sum()


def f(maps):
    {3}
    value = torch.cat([m.flatten(1) for m in maps], 1)
    return attend(value, sizes{4})
"""
_FACTS = {
    "shapes": tensor(2, 2, dtype="torch.int64"),
    "sizes": tensor(2, 2, dtype="torch.int64"),
    "value": tensor(2, 30),
    "h": scalar(3, constant=False),
    "w": scalar(5, constant=False),
}
_SIZES = "[m.shape[1:] for m in maps]"
_AT = "value.split([h * w for h, w in shapes], 1)"


def _near_miss(why: str, *texts: str) -> NearMiss:
    return NearMiss(_SOURCE.format(*texts), at=_AT, why=why, facts=_FACTS)


class HandedSizes(Codemod):
    """*What it does.*  Hands the list that a tensor of sizes was made of beside the tensor:

    ```python
    shapes = torch.as_tensor(shapes)
    return self.attend(value, shapes)
    ```
    becomes ``shapes_list = shapes``, ``shapes = torch.as_tensor(shapes_list)`` and
    ``self.attend(value, shapes, shapes_list=shapes_list)``; so do the functions between, which get
    ``shapes_list=None`` as a parameter, and the loop ``for h, w in shapes`` at their end takes the
    list where it is given.

    *When it applies.*  The break is in a function that loops over a parameter, and one call after
    the other hands it on from where it was made: of sizes, lengths and literals, in one file.

    *Fix safety.*  Safe: the numbers are the same, and callers that know nothing of the list get
    what they got.  Unsafe where a subclass of the project overrides one of the methods.

    *Refuses.*  Numbers that come from tensors, lists and tensors that are changed, names that are
    bound again, parameters behind ``*args``, and functions that do more with the numbers than whole
    numbers of Python's and of tensors have in common.
    """

    name = "handed-sizes"
    codes = (
        "GB0033",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        Example(
            _SOURCE.format("", "shapes", _TENSOR, ""),
            _SOURCE.format(
                ", shapes_list=None",
                "shapes if shapes_list is None else shapes_list",
                "shapes_list = shapes\n    shapes = torch.as_tensor(shapes_list, dtype=torch.long)",
                ", shapes_list=shapes_list",
            ),
            at=_AT,
            facts=_FACTS,
            title="through a function that computes with the tensor",
        ),
        Example(
            _READER.format(
                "", "", "sizes", "sizes = torch.tensor([m.shape[1:] for m in maps])", ""
            ),
            _READER.format(
                ", sizes_list=None",
                "if sizes_list is None:\n        sizes_list = sizes\n    ",
                "sizes_list",
                f"sizes_list = {_SIZES}\n    sizes = torch.tensor(sizes_list)",
                ", sizes_list=sizes_list",
            ),
            at="value.split([h * w for h, w in sizes], 1)",
            facts=_FACTS,
            title="to a function that does both",
        ),
    )
    near_misses = (
        _near_miss("numbers of tensors", "", "shapes", "shapes = torch.as_tensor(more)", ""),
        _near_miss("another tensor", "", "shapes + 1", _TENSOR, ""),
        _near_miss("the list changes", "", "shapes", f"shapes.reverse()\n    {_TENSOR}", ""),
        _near_miss("the tensor changes", "", "shapes", f"{_TENSOR}\n    shapes += 1", ""),
        _near_miss("the tensor changes on its way", "", "shapes.add_(1)", _TENSOR, ""),
        _near_miss("a helper changes it", "", "shapes", f"{_TENSOR}\n    halve(shapes)", ""),
        NearMiss(
            _SOURCE.format("", "shapes", _TENSOR, "").replace("total =", "halve(shapes); total ="),
            at=_AT,
            why="a helper changes it on its way",
            facts=_FACTS,
        ),
        _near_miss(
            "another tensor in other calls",
            "",
            "shapes",
            f"if more is not None:\n        {_TENSOR}\n    else:\n        shapes = more",
            "",
        ),
        _near_miss("floats", "", "shapes", f"shapes.append((0.5, 2))\n    {_TENSOR}", ""),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None or not isinstance(function.body, cst.IndentedBlock):
            return
        for name in [param.name.value for param in params_of(function.params)]:
            if not _is_read(site, function, name):
                continue
            chain = _chain(site, function, name)
            if chain is not None:
                yield _rewritten(site, function, name, chain)
                return


# -- where it is read ------------------------------------------------------------------------------


def _is_read(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether the break's statement speaks of the whole numbers that a parameter holds."""
    if not is_bound_once(site, function, name) or name in activity(function.body).mutates:
        return False
    places = list(site.places_of(name, function.body))
    facts = [site.fact(node) for node in places]
    if not any(fact is not None and fact.is_tensor and fact.dtype in _LONG for fact in facts):
        return False
    if any(hands_to_changer(site, node) for node in places):
        return False
    loops = _loops(site, function, name)
    targets = {n.value for loop in loops for n in walk(loop.target) if isinstance(n, cst.Name)}
    said = {n.value for n in walk(site.statement) if isinstance(n, cst.Name)}
    return bool(said & (targets | {name})) and all(
        is_only_counted(site, function, loop.target) for loop in loops
    )


def _loops(site: Site, function: cst.FunctionDef, name: str) -> list[cst.For | cst.CompFor]:
    """The loops over a name, with others beside it or not."""
    return [
        loop
        for loop in walk(function.body)
        if isinstance(loop, cst.For | cst.CompFor) and _looped(loop, name) is not None
    ]


def _looped(loop: cst.For | cst.CompFor, name: str) -> cst.Name | None:
    match loop.iter:
        case cst.Name(value) if value == name:
            return loop.iter
        case cst.Call(func=cst.Name("zip" | "enumerate"), args=args):
            for arg in args:
                if isinstance(arg.value, cst.Name) and arg.value.value == name and not arg.star:
                    return arg.value
    return None


# -- where it comes from ---------------------------------------------------------------------------


@dataclasses.dataclass
class _Step:
    """A call that hands the tensor on, the argument, and the function in which it stands."""

    call: cst.Call
    argument: cst.Name
    function: cst.FunctionDef


@dataclasses.dataclass
class _Chain:
    """The calls from the reader outward, the line that makes the tensor, and of what."""

    steps: list[_Step]
    line: cst.CSTNode
    source: cst.BaseExpression
    #: The name that the list has already, or that it gets.
    given: str
    is_named: bool


def _chain(site: Site, function: cst.FunctionDef, name: str) -> _Chain | None:
    steps: list[_Step] = []
    for view, call, caller in _calls(site, function):
        inner = steps[-1].function if steps else function
        argument = argument_of(site, call, inner, steps[-1].argument.value if steps else name)
        if not isinstance(argument, cst.Name):
            return None
        steps.append(_Step(call, argument, caller))
        made = _made(view, caller, argument)
        if made is not None and not _stands_above(site, made[0], call):
            return None
        if made is not None:
            return _Chain(steps, *made)
        params = [param.name.value for param in params_of(caller.params)]
        changes = argument.value in activity(caller.body).mutates or any(
            hands_to_changer(site, node, call)
            for node in site.places_of(argument.value, caller.body)
        )
        if argument.value not in params or not is_bound_once(site, caller, argument.value):
            return None
        if changes:
            return None
    return None


def _calls(
    site: Site, function: cst.FunctionDef
) -> Iterator[tuple[Site, cst.Call, cst.FunctionDef]]:
    """The calls that led to the function, the innermost first, as far as one file holds them."""
    inner, found = function, False
    for view in site.callers():
        if view.path != site.path or view.function is None:
            return
        if view.function is inner and not isinstance(view.node, cst.Call):
            continue  # a comprehension has a frame of its own
        if not isinstance(view.node, cst.Call):
            return
        found, inner = True, view.function
        yield view, view.node, view.function
    seen: set[cst.FunctionDef] = set()
    while not found and inner not in seen:
        seen.add(inner)
        name = inner.name.value
        calls = [
            node
            for node in walk(site.module)
            if isinstance(node, cst.Call)
            and isinstance(node.func, cst.Name)
            and node.func.value == name
        ]
        outer = site.function_of(calls[0]) if len(calls) == 1 else None
        if outer is None or outer is inner:
            return
        inner = outer
        yield site, calls[0], outer


def _made(
    site: Site, function: cst.FunctionDef, use: cst.Name
) -> tuple[cst.CSTNode, cst.BaseExpression, str, bool] | None:
    """The line that makes the tensor, its source, and the name of the list (new or known)."""
    wish = f"{use.value}_list"
    made = made_of_numbers(site, function, use)
    if made is not None and isinstance(made.args[0].value, cst.List | cst.ListComp):
        free = wish not in names_in(site.module)
        return (site.statement_of(made), made.args[0].value, wish, False) if free else None
    found = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0].target, cst.Name)
        and node.targets[0].target.value == use.value
    ]
    if not found or not isinstance(found[-1].value, cst.Call):
        return None
    assign, made = found[-1], found[-1].value
    if resolve(site.module, made.func) not in _MAKERS or not made.args:
        return None
    options = {arg.keyword.value if arg.keyword is not None else "" for arg in made.args[1:]}
    source, line = made.args[0].value, site.statement_of(assign)
    if options - {"dtype", "device"} or not isinstance(source, cst.Name):
        return None
    if not _stays(site, function, use.value, assign):
        return None
    held = source.value
    if held != use.value and not is_bound_once(site, function, use.value):
        return None
    if held != use.value and (known := _same_list(site, function, held)) is not None:
        held, is_new = known, False
    else:
        is_new = held == use.value
    if not _is_list_of_sizes(site, function, held, assign):
        return None
    if not is_new:
        return line, source, source.value, True
    return (line, source, wish, False) if wish not in names_in(site.module) else None


def _same_list(site: Site, function: cst.FunctionDef, name: str) -> str | None:
    """The name whose list another name was given on a line of its own, by an earlier patch."""
    for node in walk(function.body):
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(target))], value=cst.Name(value)
            ) if target == name and is_bound_once(site, function, name):
                return value
    return None


def _stands_above(site: Site, line: cst.CSTNode, call: cst.Call) -> bool:
    """Whether a line runs before the call in any case: it stands in a block around it."""
    block = list(site.block_of(line))
    return any(parent in block[block.index(line) + 1 :] for parent in site.ancestors(call))


def _stays(site: Site, function: cst.FunctionDef, name: str, assign: cst.Assign) -> bool:
    """Whether nothing changes the tensor once it is made."""
    line = site.span(assign).line
    for other in activity(function.body).mutates - {name}:
        facts = [site.fact(node) for node in site.places_of(other, function.body)]
        if any(fact is not None and fact.is_tensor and fact.dtype in _LONG for fact in facts):
            return False  # it may be a view of the sizes
    for node in site.places_of(name, function.body):
        if site.span(node).line <= line:
            continue
        holder = site.parent(node)
        if isinstance(holder, cst.AssignTarget | cst.AugAssign) and holder.target is node:
            return False
        if isinstance(holder, cst.Attribute) and holder.attr.value.endswith("_"):
            return False
        if hands_to_changer(site, node):
            return False
        outer = site.parent(holder) if isinstance(holder, cst.Subscript) else None
        if isinstance(outer, cst.AssignTarget | cst.AugAssign) and outer.target is holder:
            return False
    return True


def _is_list_of_sizes(site: Site, function: cst.FunctionDef, name: str, assign: cst.Assign) -> bool:
    """Whether a name holds a list of what Python knows, which is complete when it is read."""
    end, starts = site.span(assign).line, 0
    block = site.block_of(site.statement_of(assign))
    for node in site.places_of(name, function):
        holder = site.parent(node)
        bound = _bound(site, node)
        if bound is not None:
            if bound is assign.value:
                continue
            if not isinstance(bound, cst.List) or not is_static(site, bound):
                return False
            starts += site.statement_of(node) in block
        elif site.span(node).line < end:
            call = site.parent(holder) if isinstance(holder, cst.Attribute) else None
            match call:
                case cst.Call(args=[only]) if code(call.func) == f"{name}.append":
                    if not is_static(site, only.value):
                        return False
                case _ if not _only_looked_at(site, node):
                    return False
        elif (
            site.span(node).line > end
            and name != code(assign.targets[0].target)
            and not _only_looked_at(site, node)
        ):
            return False
    return starts == 1


def _bound(site: Site, node: cst.Name) -> cst.BaseExpression | None:
    """What a name is bound to in an assignment: ``a = []``, or its part of ``a, b = [], []``."""
    holder = site.parent(node)
    outer = site.parent(holder) if holder is not None else None
    if isinstance(holder, cst.AssignTarget) and isinstance(outer, cst.Assign):
        return outer.value
    match outer, site.parent(outer) if outer is not None else None:
        case cst.Tuple(elements=elements), cst.AssignTarget() as target:
            whole = site.parent(target)
            value = whole.value if isinstance(whole, cst.Assign) else None
            place = next((n for n, item in enumerate(elements) if item is holder), -1)
            if isinstance(value, cst.Tuple) and len(value.elements) == len(elements) and place >= 0:
                return value.elements[place].value
    return None


def _only_looked_at(site: Site, node: cst.Name) -> bool:
    holder = site.parent(node)
    if isinstance(holder, cst.For | cst.CompFor):
        return holder.iter is node
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    return code(call.func) in ("len", "enumerate", "zip") or _goes_to_loops(site, call, node)


def _goes_to_loops(site: Site, call: cst.Call, node: cst.Name) -> bool:
    """Whether a call hands a list to a function that loops over it, as an earlier patch does."""
    name = code(call.func).rpartition(".")[2]
    found = [
        inner
        for inner in walk(site.module)
        if isinstance(inner, cst.FunctionDef) and inner.name.value == name
    ]
    if len(found) != 1:
        return False
    taken = [
        param.name.value
        for param in params_of(found[0].params)
        if argument_of(site, call, found[0], param.name.value) is node
    ]
    return bool(taken) and all(_only_loops(site, found[0], param) for param in taken)


# -- the patch -------------------------------------------------------------------------------------


def _rewritten(site: Site, function: cst.FunctionDef, name: str, chain: _Chain) -> Rewrite:
    splice, given = Splice(site), chain.given
    if not chain.is_named:
        text = f"{given} = {splice.source_of(chain.source)}"
        splice.insert_line_before(chain.line, text, above_comments=False)
        splice.replace(chain.source, given)
    here = given
    for number, step in enumerate(reversed(chain.steps)):
        inner = chain.steps[-number - 2].function if number < len(chain.steps) - 1 else function
        last = inner is function
        parameter = name if last else chain.steps[-number - 2].argument.value
        wish = f"{parameter}_list"
        made_here = number == 0
        if last and _only_loops(site, function, name):
            # It takes either: the list stands in the tensor's place.
            other = here if made_here else f"{step.argument.value} if {here} is None else {here}"
            splice.replace(step.argument, other)
            continue
        known = [param.name.value for param in params_of(inner.params)]
        if wish not in {arg.keyword.value for arg in step.call.args if arg.keyword is not None}:
            end = site.span(step.call.args[-1].value)
            splice.insert(end.end_line, end.end_column, f", {wish}={here}")
        if wish not in known:
            _add_parameter(site, splice, inner, wish)
        if last:
            _take_list(site, splice, function, name, wish)
        here = wish
    what = chain.steps[-1].argument.value
    doubts = tuple(dict.fromkeys(_overridden(site, chain, function)))
    return splice.rewrite(
        f"hand on the list that `{what}` was made of",
        rank=13,
        notes=doubts,
        safety=Safety.UNSAFE if doubts else Safety.SAFE,
    )


def _overridden(site: Site, chain: _Chain, reader: cst.FunctionDef) -> Iterator[str]:
    """Why a call on the way may find a method that does not take the list."""
    project = {site.path: site.source, **site.sources}
    for function in (reader, *(step.function for step in chain.steps[:-1])):
        owner = site.class_of(function)
        if owner is None:
            continue
        name = function.name.value
        for _, subclass in overriding(owner.name.value, name, project):
            yield f"`{subclass}` overrides `{name}`, and would be given the list, too"
        if any(bound_on_objects(owner.name.value, name, project)):
            yield f"`{name}` is bound on an object, and would be given the list, too"


def _only_loops(site: Site, function: cst.FunctionDef, name: str) -> bool:
    inside = {_looped(loop, name) for loop in _loops(site, function, name)}
    places = [*site.places_of(name, function.body)]
    return bool(places) and all(node in inside for node in places)


def _add_parameter(site: Site, splice: Splice, function: cst.FunctionDef, name: str) -> None:
    params = function.params
    last = [*params.params, *params.kwonly_params][-1]
    part = last.default or (last.annotation.annotation if last.annotation else None) or last.name
    end = site.span(part)
    splice.insert(end.end_line, end.end_column, f", {name}=None")


def _take_list(
    site: Site, splice: Splice, function: cst.FunctionDef, name: str, given: str
) -> None:
    """The loops of the reader take the list, or what they took where none is given."""
    if given not in {param.name.value for param in params_of(function.params)}:
        first = next(line for line in statements_of(function.body) if not is_docstring(line))
        step, newline = site.module.default_indent, site.module.default_newline
        column = site.source.splitlines()[site.span(first).line - 1]
        indent = column[: len(column) - len(column.lstrip())]
        text = f"if {given} is None:{newline}{indent}{step}{given} = {name}"
        splice.insert_line_before(first, text)
    for loop in _loops(site, function, name):
        node = _looped(loop, name)
        if node is not None:
            splice.replace(node, given)
