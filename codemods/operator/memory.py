"""What code writes to: the memory of names, and of tensors that objects hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity, params_of
from gbfix.analysis.aliasing import changed_in_place, containers_of
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .reached import called

#: What gives an array or a tensor in the same memory.
_SHARES = words("numpy detach cpu view reshape T data contiguous")


def places_written(
    nodes: Sequence[cst.CSTNode],
    augmented: Collection[str] = (),
    through: Collection[str] = (),
    function: cst.FunctionDef | None = None,
) -> frozenset[str] | None:
    """Attributes whose tensors the code changes in place; None where it changes other things, too.

    Other things are attributes that get a new value, containers, and views that have a name.
    ``augmented`` are attributes that hold tensors: ``self.count += 1`` changes these in place.
    ``through`` are properties, whose setters are looked at by themselves.  ``function`` is the one
    whose body the code is: its own lists may be filled.
    """
    own = containers_of(function) if function is not None else frozenset()
    found: set[str] = set()
    alone = {it.value for top in nodes for it in walk(top) if isinstance(it, cst.Expr)}
    named = changed_in_place(
        nodes,
        {"self"},
        lambda it: isinstance(it, cst.BinaryOperation),
        function,
        harmless=lambda call: call not in alone and _is_sort(call),
    )
    if named - {"self"}:
        return None
    for node in (part for top in nodes for part in walk(top)):
        if isinstance(node, cst.AssignTarget | cst.AugAssign) and code(node.target) in through:
            continue
        if _changes_more(node, augmented, own):
            return None
        place = _place_in(node)
        if _is_given_on(place):
            return None
        root = _root(place)
        if isinstance(root, cst.Attribute):
            if dotted(root) is None:
                return None
            found.add(code(root))
    return frozenset(found)


def _is_sort(call: cst.Call) -> bool:
    """``x.sort()`` changes a list and gives None, or gives new tensors and changes nothing."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("sort", "copy", "fill")


def _changes_more(node: cst.CSTNode, augmented: Collection[str], own: Collection[str]) -> bool:
    """Whether a node sets an attribute, or changes what is no tensor."""
    match node:
        case cst.AugAssign(target=cst.Attribute() as place):
            return code(place) not in augmented
        case cst.AssignTarget(target=cst.Attribute()) | cst.Arg(keyword=cst.Name("out")):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Name(container))) if container in own:
            return False
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            in_place = name.endswith("_") and not name.endswith("__")
            changes = name in MUTATING_METHODS and name not in ("sort", "copy", "fill")
            return changes and not in_place
    return False


def _place_in(node: cst.CSTNode) -> cst.CSTNode | None:
    """What a node changes in place: ``x`` of ``x[0] = 1``, ``x.add_(1)`` and ``self.x += 1``."""
    match node:
        case cst.AssignTarget(target=cst.Subscript(value=place)):
            return place
        case cst.AugAssign(target=cst.Subscript(value=place)):
            return place
        case cst.AugAssign(target=cst.Attribute() as place):
            return place
        case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(name))) if name.endswith(
            "_"
        ) and not name.endswith("__"):
            return receiver
    return None


def augmented_tensors(site: Site, nodes: Sequence[cst.CSTNode]) -> frozenset[str]:
    """The attributes that hold tensors and of which the code knows ``self.count += 1`` alone."""
    found: set[str] = set()
    others: set[str] = set()
    for node in (part for top in nodes for part in walk(top)):
        match node:
            case cst.AugAssign(target=cst.Attribute() as target):
                fact = attribute_fact(site, target)
                grows = fact is not None and fact.is_tensor and not fact.requires_grad
                (found if grows else others).add(code(target))
            case cst.AssignTarget() | cst.AnnAssign() | cst.For() | cst.Del():
                others |= {code(it) for it in walk(node.target) if isinstance(it, cst.Attribute)}
    return frozenset(found - others)


def attribute_fact(site: Site, node: cst.Attribute) -> Fact | None:
    """What an attribute was, here or where else the function reads it, or its class does."""
    fact = site.fact(node)
    if fact is not None or site.function is None:
        return fact
    text = code(node)
    owner = site.class_of(site.function) if text.startswith("self.") else None
    for block in (site.function.body, *([owner.body] if owner is not None else [])):
        for other in walk(block):
            if isinstance(other, cst.Attribute) and code(other) == text:
                fact = site.fact(other)
                if fact is not None:
                    return fact
    return None


def _is_given_on(place: cst.CSTNode | None) -> bool:
    """``torch.squeeze(self.mask)[0]``: what a function gives of an attribute may be its memory."""
    while isinstance(place, cst.Subscript | cst.Call | cst.Attribute):
        if isinstance(place, cst.Call):
            if place.args and isinstance(place.args[0].value, cst.Attribute):
                return True
            place = place.func
        else:
            place = place.value
    return False


def _root(place: cst.CSTNode | None) -> cst.CSTNode | None:
    """What is changed by a chain, ``x.mul_(2).add_(1)``, is what the chain begins with."""
    while isinstance(place, cst.Subscript | cst.Call):
        if isinstance(place, cst.Subscript):
            place = place.value
        else:
            place = place.func.value if isinstance(place.func, cst.Attribute) else None
    # ``self.embed.data`` and ``.detach()`` share their memory with what they are of.
    if isinstance(place, cst.Attribute) and place.attr.value == "data":
        place = place.value
    return place


def written_by_functions(site: Site, nodes: Sequence[cst.CSTNode], depth: int = 3) -> set[str]:
    """Names whose memory is handed to functions of the file that write to it, or hand it on:
    ``best_path(score.numpy())``, where ``best_path`` adds to its parameter's elements.
    """
    found: set[str] = set()
    for call in (part for top in nodes for part in walk(top) if isinstance(part, cst.Call)):
        name = code(call.func).rpartition(".")[2]
        for function in called(site, [call.with_changes(args=())], 0):
            if function.name.value != name:
                continue
            written = written_parameters(site, function, depth)
            params = [param.name.value for param in params_of(function.params)]
            if isinstance(call.func, cst.Attribute) and params[:1] == ["self"]:
                params = params[1:]
            plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
            given = [
                *zip(params, plain, strict=False),
                *((arg.keyword.value, arg) for arg in call.args if arg.keyword is not None),
            ]
            found |= {_memory_of(arg.value) for param, arg in given if param in written}
    return found - {""}


def written_parameters(site: Site, function: cst.FunctionDef, depth: int) -> set[str]:
    """Parameters to whose memory a function writes, through views and other functions as well."""
    does = activity(function.body)
    written = set(does.mutates)
    written |= written_by_functions(site, [function.body], depth - 1) if depth else set()
    pairs = [pair for node in walk(function.body) for pair in _names_for_memory(node)]
    for _ in pairs:
        written |= {of for name, of in pairs if name in written}
    # What has its name anew is another array.
    return {param.name.value for param in params_of(function.params)} & written - does.writes


def _names_for_memory(node: cst.CSTNode) -> list[tuple[str, str]]:
    """Names that a statement gives to the memory of other names: ``row = rows[0]``."""
    match node:
        case cst.Assign(targets=targets, value=value):
            names = [it.target.value for it in targets if isinstance(it.target, cst.Name)]
        case cst.For(target=cst.Name(name), iter=value):
            names = [name]
        case _:
            return []
    return [(name, of) for name in names if (of := _memory_of(value))]


def _memory_of(node: cst.BaseExpression) -> str:
    """The name whose memory an expression shows, as ``score.numpy()`` does, or ""."""
    while not isinstance(node, cst.Name):
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name))) if name in _SHARES:
                node = inner
            case cst.Attribute(value=inner, attr=cst.Name(name)) if name in _SHARES:
                node = inner
            case cst.Subscript(value=inner):
                node = inner
            case _:
                return ""
    return node.value
