"""Loops over a tensor of sizes where the list that it was made of is at hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Rewrite, Site
from gbfix.schema import Safety

from ..api.splice import Splice
from .list_cases import EXAMPLES, NEAR_MISSES
from .list_numbers import Loop, is_read, loop_over, only_numbers, whole_numbers

_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"})
_DTYPES = frozenset({"torch.long", "torch.int64"})
_SUFFIXES = ("_list", "_lst", "_tuple")
#: Attributes that tell of a tensor without a way to change it.
_TELLING = frozenset({"shape", "device", "dtype", "ndim"})
_HANDED = "`{}` is passed to other code in between, which must not change it"
_NAMED = "only the names suggest that `{}` holds the numbers of `{}`"
_OVERRIDDEN = "a subclass that overrides the method is given the list, too"


class ListBeside(Codemod):
    """*What it does.*  Loops over the list of sizes that a tensor was made of, instead of over the
    tensor, whose values Dynamo does not know:

    ```python
    shapes = torch.as_tensor(shapes_list, dtype=torch.long, device=x.device)
    for height, width in shapes:
    ```
    becomes ``for height, width in shapes_list:``; where a function or a method loops over its
    parameter, the call passes the list: ``grid(shapes_list)``.

    *When it applies.*  The looping function does nothing else with its parameter than to loop over
    it, and the numbers are sizes, bounds of slices, ends of ``linspace``, or go into arithmetic.

    *Fix safety.*  Safe where the function around it fills the list with sizes of tensors and whole
    numbers, and gives neither the list nor the tensor to other code.  Unsafe where it does, for
    methods (a subclass may want a tensor), and for two parameters that only their names connect:
    ``shapes`` and ``shapes_list``.

    *Refuses.*  Lists of what may be no ints, loop variables that are compared, kept, returned or
    passed on, a list that changes after the tensor was made, and a tensor that changes.
    """

    name = "list-beside"
    codes = (
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
        "GB0033",
        "GB0124",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        loop = _breaking(site)
        if function is None or loop is None or not _is_plain(function):
            return
        fact = site.fact(loop.iterated)
        if fact is None or not fact.is_tensor or fact.dtype != "torch.int64":
            return
        name = loop.iterated.value
        parameters = [item.name.value for item in params_of(function.params)]
        if name not in parameters:
            found = _made_of(site, function, loop.iterated, loop.width)
            if found is not None and only_numbers(site, function, [loop]):
                yield _rewrite(site, [(loop.iterated, found)])
            return
        loops = _all_loops(site, function, name)
        if not loops or len({each.width for each in loops}) > 1:
            return
        calls = list(_calls(site, function, name, loop.width))
        if calls and only_numbers(site, function, loops):
            yield _rewrite(site, calls)


@dataclasses.dataclass(frozen=True)
class _List:
    """The list beside a tensor, and what may make it another one."""

    name: str
    doubts: tuple[str, ...] = ()


def _rewrite(site: Site, places: list[tuple[cst.Name, _List]]) -> Rewrite:
    splice = Splice(site)
    for node, found in places:
        splice.replace(node, found.name)
    notes = tuple(dict.fromkeys(text for _, found in places for text in found.doubts))
    (node, found), *_ = places
    return splice.rewrite(
        f"loop over `{found.name}` instead of `{node.value}`",
        safety=Safety.UNSAFE if notes else Safety.SAFE,
        notes=notes,
        rank=25 if notes else 12,
    )


def _is_plain(function: cst.FunctionDef) -> bool:
    """Whether nothing inside or around the function runs its lines another time, or reads them."""
    if function.asynchronous is not None:
        return False
    return not any(
        isinstance(node, cst.FunctionDef | cst.Lambda | cst.Yield | cst.Global | cst.Nonlocal)
        for node in walk(function.body)
    )


def _breaking(site: Site) -> Loop | None:
    """The innermost loop around the break that runs over a name."""
    for node in (site.statement, *site.ancestors(site.statement)):
        if isinstance(node, cst.FunctionDef):
            return None
        if isinstance(node, cst.For):
            loop = loop_over(site, node)
            if loop is not None:
                return loop
    return None


def _all_loops(site: Site, function: cst.FunctionDef, name: str) -> list[Loop]:
    """The loops over a parameter, if it is used for nothing else."""
    loops = [
        loop
        for node in walk(function.body)
        if isinstance(node, cst.For) and (loop := loop_over(site, node)) is not None
    ]
    loops = [loop for loop in loops if loop.iterated.value == name]
    iterated = {id(loop.iterated) for loop in loops}
    if any(id(node) not in iterated for node in site.places_of(name, function.body)):
        return []
    return loops


# -- the calls -----------------------------------------------------------------------------------


def _calls(
    site: Site, function: cst.FunctionDef, parameter: str, width: int
) -> Iterator[tuple[cst.Name, _List]]:
    """Arguments of calls of the function, with the list that may stand there instead."""
    holder = site.class_of(function)
    kind = ""
    if holder is None:
        if site.top_level_statement(function) is not function or function.decorators:
            return
    else:
        kind = _method_kind(site, function)
        alone = sum(
            isinstance(node, cst.FunctionDef) and node.name.value == function.name.value
            for node in holder.body.body
        )
        if site.parent(site.parent(function) or function) is not holder or not kind or alone != 1:
            return
    for node in walk(site.module if holder is None else holder):
        if not isinstance(node, cst.Call) or not _is_call_of(site, node, function, holder):
            continue
        caller = site.function_of(node)
        argument = _argument(function, node, parameter, bound=kind == "method")
        if caller is None or caller is function or argument is None or not _is_plain(caller):
            continue
        found = _beside(site, caller, argument, width)
        if found is not None and holder is not None:
            found = dataclasses.replace(found, doubts=(*found.doubts, _OVERRIDDEN))
        if found is not None:
            yield argument, found


def _method_kind(site: Site, function: cst.FunctionDef) -> str:
    if not function.decorators:
        return "method"
    names = [resolve(site.module, item.decorator) for item in function.decorators]
    return "static" if names == ["builtins.staticmethod"] else ""


def _is_call_of(
    site: Site, node: cst.Call, function: cst.FunctionDef, holder: cst.ClassDef | None
) -> bool:
    name = function.name.value
    if holder is None:
        if not isinstance(node.func, cst.Name) or node.func.value != name:
            return False
        caller = site.function_of(node)
        if caller is None or name in activity(caller.body).writes:
            return False
        given = any(item.name.value == name for item in params_of(caller.params))
        return not given and len(module_bindings(site.module).get(name, ())) == 1
    return (
        isinstance(node.func, cst.Attribute)
        and site.class_of(node) is holder
        and node.func.attr.value == name
        and isinstance(node.func.value, cst.Name)
        and node.func.value.value == "self"
    )


def _argument(
    function: cst.FunctionDef, node: cst.Call, parameter: str, *, bound: bool
) -> cst.Name | None:
    """What a call passes for the parameter, if it is a name and stands there certainly."""
    names = [item.name.value for item in (*function.params.posonly_params, *function.params.params)]
    names = names[1:] if bound else names
    for position, arg in enumerate(node.args):
        if arg.star:
            return None
        passed = arg.keyword.value if arg.keyword is not None else names[position : position + 1]
        if passed in (parameter, [parameter]):
            return arg.value if isinstance(arg.value, cst.Name) else None
    return None


# -- the list ------------------------------------------------------------------------------------


def _beside(site: Site, caller: cst.FunctionDef, tensor: cst.Name, width: int) -> _List | None:
    parameters = {item.name.value for item in params_of(caller.params)}
    if tensor.value not in parameters:
        return _made_of(site, caller, tensor, width)
    for suffix in _SUFFIXES:
        name = f"{tensor.value}{suffix}"
        does = activity(caller.body)
        if name in parameters and not {name, tensor.value} & (
            does.writes | does.deletes | does.mutates
        ):
            return _List(name, (_NAMED.format(name, tensor.value),))
    return None


def _made_of(site: Site, function: cst.FunctionDef, tensor: cst.Name, width: int) -> _List | None:
    """The list that a tensor was made of, in the same block before its use, and still is."""
    made = _binding(site, function, tensor.value)
    if made is None or not isinstance(made.value, cst.Call):
        return None
    source = _source(site, made.value)
    if source is None or not whole_numbers(site, function, source, made, width):
        return None
    if site.function_of(tensor) is not function or not _comes_before(site, made, tensor):
        return None
    if tensor.value in activity(function.body).mutates:
        return None
    doubts = []
    for name, plain in ((source, _is_counted), (tensor.value, _is_told)):
        for node in site.places_of(name, function.body):
            later = site.span(node).line > site.span(made).end_line
            if not later or node is tensor or plain(site, node):
                continue
            if name == source and _changes(site, node):
                return None
            doubts.append(_HANDED.format(name))
    return _List(source, tuple(dict.fromkeys(doubts)))


def _binding(site: Site, function: cst.FunctionDef, name: str) -> cst.Assign | None:
    """The one statement that binds a local name, and does nothing else."""
    found: list[cst.Assign] = []
    for node in site.places_of(name, function):
        if is_read(site, node):
            continue
        target = site.parent(node)
        made = site.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(made, cst.Assign) or len(made.targets) != 1:
            return None
        found.append(made)
    return found[0] if len(found) == 1 else None


def _source(site: Site, node: cst.Call) -> str | None:
    """The list in ``torch.tensor(LIST, dtype=torch.long, device=...)``."""
    if resolve(site.module, node.func) not in _MAKERS or not node.args:
        return None
    first, *rest = node.args
    if first.keyword is not None or first.star or not isinstance(first.value, cst.Name):
        return None
    for arg in rest:
        if arg.keyword is None or arg.keyword.value not in ("dtype", "device"):
            return None
        if arg.keyword.value == "dtype" and resolve(site.module, arg.value) not in _DTYPES:
            return None
    return first.value.value


def _comes_before(site: Site, made: cst.Assign, use: cst.Name) -> bool:
    """Whether the assignment has run, once, whenever the use is reached."""
    line = site.statement_of(made)
    block = site.parent(line)
    if any(isinstance(node, cst.For | cst.While | cst.Try) for node in site.ancestors(line)
           if not isinstance(node, cst.FunctionDef)):  # fmt: skip
        return False
    inside = any(node is block for node in site.ancestors(use))
    return inside and site.span(made).end_line < site.span(use).line


def _is_counted(site: Site, node: cst.Name) -> bool:
    """``len(sizes)``, or what a loop runs over."""
    holder = site.parent(node)
    if isinstance(holder, cst.For):
        return holder.iter is node
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    return isinstance(call, cst.Call) and resolve(site.module, call.func) in (
        "builtins.len", "builtins.sum", "builtins.enumerate", "builtins.zip",
    )  # fmt: skip


def _is_told(site: Site, node: cst.Name) -> bool:
    """``sizes.shape``, or an argument of a function of torch that changes nothing."""
    holder = site.parent(node)
    return isinstance(holder, cst.Attribute) and holder.attr.value in _TELLING


def _changes(site: Site, node: cst.Name) -> bool:
    """Whether a list is surely, or by another name, more than passed on or read."""
    holder = site.parent(node)
    return not isinstance(holder, cst.Arg | cst.DictElement)
