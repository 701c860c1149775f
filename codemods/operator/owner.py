"""An object whose methods an operator calls, and which it cannot take: found by its identity.

See `codemods.side_effects.owners` for how the class notes its objects.  The operator reads the
object when it runs, as the code did; what the compiled code itself sets on it would come later.
"""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..side_effects.owners import line_of
from .sizes import methods_named

#: What holds parameters, through which a gradient may go that the operator would lose.
_LEARNS = re.compile(r"\bnn\.|Parameter\(|requires_grad|\bModule")
_MAKERS = words("register_buffer register_parameter add_module register_module")


@dataclasses.dataclass(frozen=True)
class Owner:
    """A class of the file, and the attributes that its methods read of an object."""

    kind: str
    reads: frozenset[str]


def owner_of(site: Site, func: cst.Attribute, fact: Fact) -> Owner | None:
    """The class of the object whose method is called, if the method only reads the object."""
    name = fact.type.rpartition(".")[2]
    holders = [
        item
        for item in site.module.body
        if isinstance(item, cst.ClassDef) and item.name.value == name
    ]
    if len(holders) != 1:
        return None
    line = line_of(site, holders[0])
    further = set[str]()
    reads = _read_by(site, line, func.attr.value, further)
    if reads is None:
        return None
    for attribute in reads:
        made = [text for item in line for text in _given(item, attribute)]
        if any(_LEARNS.search(text) for text in made):
            return None
        # What a module holds and does not get by its name may be a layer, or a buffer.
        if fact.kind == "module" and not made:
            return None
    return Owner(name, frozenset(reads | further))


def _read_by(site: Site, line: list[cst.ClassDef], name: str, further: set[str]) -> set[str] | None:
    """The attributes that a method reads of its object, and those that it calls do; None where one
    does anything else with the object, or its text is not known.

    ``further`` gets what is read of other objects: ``step`` of ``self.state.step``.
    """
    own = {
        item.name.value
        for holder in line
        for item in holder.body.body
        if isinstance(item, cst.FunctionDef)
    }
    names, reads = [name], set[str]()
    for each in names:
        methods = methods_named(site, each)
        if len(methods) != 1 or site.class_of(methods[0]) not in line:
            return None
        if sum(text.count(f"def {each}(") for text in site.sources.values()) != 1:
            return None  # it may be overridden
        method = methods[0]
        if any(code(item.decorator) != "property" for item in method.decorators):
            return None
        if not method.params.params:
            return None
        further |= {it.attr.value for it in walk(method.body) if isinstance(it, cst.Attribute)}
        itself = method.params.params[0].name.value
        does = activity(method.body)
        if itself in does.mutates | does.writes | does.augments or does.attribute_writes:
            return None
        for place in site.places_of(itself, method.body):
            holder = site.parent(place)
            if not isinstance(holder, cst.Attribute) or holder.value is not place:
                return None  # the object goes somewhere
            read = holder.attr.value
            if read in own:
                names += [read] if read not in names else []
                continue
            outer = site.parent(holder)
            if isinstance(outer, cst.Call) and outer.func is holder:
                return None  # a layer, or a function that somebody gave
            reads.add(read)
    return reads


def changed_attributes(body: cst.CSTNode) -> set[str]:
    """The attributes, of whatever objects, that code sets, or whose contents it changes."""
    found: set[str] = set()
    for node in walk(body):
        match node:
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                places: list[cst.CSTNode] = [target]
            case cst.AnnAssign(target=target) | cst.For(target=target) | cst.Del(target=target):
                places = [target]
            case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(name))) if (
                name in MUTATING_METHODS or (name.endswith("_") and not name.endswith("__"))
            ):
                places = [receiver]
            case cst.Call(func=cst.Name("setattr" | "delattr"), args=[_, name_given, *_]):
                found.add(code(name_given.value).strip("\"'"))
                continue
            case _:
                continue
        found |= {
            part.attr.value
            for place in places
            for part in walk(place)
            if isinstance(part, cst.Attribute)
        }
    return found


def _given(holder: cst.ClassDef, attribute: str) -> list[str]:
    """What a class gives an attribute, as texts."""
    found = []
    for node in walk(holder.body):
        match node:
            case cst.Assign(targets=targets, value=value):
                parts = [part for it in targets for part in walk(it)]
                places = {code(part) for part in parts if isinstance(part, cst.Attribute)}
                if f"self.{attribute}" in places:
                    found.append(code(value))
            case cst.AnnAssign(target=target, value=value) if value is not None:
                if code(target) == f"self.{attribute}":
                    found.append(code(value))
            case cst.Call(func=cst.Attribute(attr=cst.Name(maker)), args=[first, *_]) if (
                maker in _MAKERS and code(first.value).strip("\"'") == attribute
            ):
                found.append("nn.Module")
    return found
