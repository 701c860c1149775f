"""An object whose methods an operator calls, and which it cannot take: found by its identity.

See `codemods.side_effects.owners` for how the class notes its objects.  The operator reads the
object when it runs, as the code did; what the compiled code itself sets on it would come later.
"""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..side_effects.libraries import BUILTINS, PLAIN
from ..side_effects.owners import line_of
from .sizes import methods_named

#: What holds parameters, through which a gradient may go that the operator would lose.
_LEARNS = re.compile(r"\bnn\.|Parameter\(|requires_grad|\bModule")
#: What changes when it is asked.
_COUNTS = re.compile(
    r"\b(?:defaultdict|iter|count|cycle|chain|zip|map|filter|open|Random|Generator)\("
)
_MAKERS = words("register_buffer register_parameter add_module register_module")


@dataclasses.dataclass(frozen=True)
class Owner:
    """A class of the file, and the attributes that its methods read of an object."""

    kind: str
    reads: frozenset[str]


def owner_of(site: Site, func: cst.Attribute, fact: Fact) -> Owner | None:
    """The class of the object whose method is called, if the method only reads the object."""
    line = class_line(site, fact)
    further = set[str]()
    reads = _read_by(site, line, func.attr.value, further) if line else None
    if reads is None or not _holds_data(site, line, fact, reads):
        return None
    return Owner(line[0].name.value, frozenset(reads | further))


def holder_of(site: Site, attribute: str, fact: Fact) -> Owner | None:
    """The class of the object that holds an attribute, if that holds nothing but data."""
    line = class_line(site, fact)
    if not line or not _holds_data(site, line, fact, {attribute}):
        return None
    return Owner(line[0].name.value, frozenset({attribute}))


def class_line(site: Site, fact: Fact) -> list[cst.ClassDef]:
    """The class of an object and what it inherits from, as far as the file shows it."""
    name = fact.type.rpartition(".")[2]
    holders = [
        item
        for item in site.module.body
        if isinstance(item, cst.ClassDef) and item.name.value == name
    ]
    return line_of(site, holders[0]) if len(holders) == 1 else []


def _holds_data(site: Site, line: list[cst.ClassDef], fact: Fact, reads: set[str]) -> bool:
    """Whether attributes of an object hold no parameters, and nothing that acts when asked."""
    classes = _classes_of(site)
    for attribute in reads:
        made = [text for item in line for text in _given(item, attribute)]
        if any(_LEARNS.search(text) or _COUNTS.search(text) for text in made):
            return False
        if any(classes.intersection(re.findall(r"\w+(?=\()", text)) for text in made):
            return False  # a class of the project may do anything when it is asked
        # What a module holds and does not get by its name may be a layer, or a buffer.
        if fact.kind == "module" and not made:
            return False
    return True


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
    asked: list[_Method] = []
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
        further |= _attributes(method.body)
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
        asked.append(_Method(site, method, itself, own))
    giving: set[str] = set()
    while more := {it.name for it in asked if it.gives_held(giving)} - giving:
        giving |= more
    return reads if all(it.only_asks(giving) for it in asked) else None


def _classes_of(site: Site) -> set[str]:
    texts = {site.source, *site.sources.values()}
    return {name for text in texts for name in re.findall(r"^\s*class (\w+)", text, re.MULTILINE)}


class _Method:
    """Whether a method changes what its object holds, also by another name for it."""

    def __init__(self, site: Site, function: cst.FunctionDef, itself: str, own: set[str]) -> None:
        self.site = site
        self.function = function
        self.name = function.name.value
        self.itself = itself
        self.own = own
        self.held: set[str] = set()

    def gives_held(self, giving: set[str]) -> bool:
        """Whether it returns what the object holds, and not something new; ``giving`` are other
        methods that do.
        """
        pairs = [pair for node in walk(self.function.body) for pair in _bound_in(node)]
        while more := {name for name, value in pairs if self.is_held(value, giving)} - self.held:
            self.held |= more
        return any(
            isinstance(node, cst.Return)
            and node.value is not None
            and self.is_held(node.value, giving)
            for node in walk(self.function.body)
        )

    def is_held(self, node: cst.BaseExpression, giving: set[str]) -> bool:
        """Whether an expression may be (a part of) what the object holds."""
        match node:
            case cst.Name(name):
                return name == self.itself or name in self.held
            case cst.Call(func=cst.Attribute(value=cst.Name(self.itself), attr=cst.Name(name))):
                return name in giving or name not in self.own
            case cst.Call(func=cst.Attribute(value=receiver)):
                return self.is_held(receiver, giving)
            case cst.Attribute(value=value) | cst.Subscript(value=value):
                return self.is_held(value, giving)
            case cst.IfExp(body=body, orelse=orelse):
                return self.is_held(body, giving) or self.is_held(orelse, giving)
            case cst.BooleanOperation(left=left, right=right):
                return self.is_held(left, giving) or self.is_held(right, giving)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return any(self.is_held(it.value, giving) for it in elements)
        return False

    def only_asks(self, giving: set[str]) -> bool:
        if self.held & activity(self.function.body).mutates:
            return False
        calls = [node for node in walk(self.function.body) if isinstance(node, cst.Call)]
        return all(self._asks(call, giving) for call in calls)

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Whether nothing can change what is handed on: a number or a text."""
        fact = self.site.fact(node)
        return fact is not None and fact.is_python_scalar

    def _asks(self, call: cst.Call, giving: set[str]) -> bool:
        hands = any(
            self.is_held(arg.value, giving) and not self._is_number(arg.value) for arg in call.args
        )
        name = resolve(self.site.module, call.func) or ""
        last = code(call.func).rpartition(".")[2]
        if isinstance(call.func, cst.Name):
            return (name.startswith("builtins.") and last in _SAFE) or not (
                hands or last in BUILTINS
            )
        if name.startswith(_LIBRARIES):
            return not hands or not (last in CHANGING or last.endswith("_"))
        match call.func:
            case cst.Attribute(value=cst.Name(self.itself)):
                return last in self.own and not hands
            case cst.Attribute(value=receiver) if self.is_held(receiver, giving):
                made = any(f"def {last}(" in text for text in self.site.sources.values())
                return last in PLAIN - _WRITES and not made
        return not hands


#: Of the builtins, those that change nothing and call nothing that is given.
_SAFE = BUILTINS - words("next iter getattr hasattr super map filter")
#: Methods of files.
_WRITES = words(
    """write writelines flush close writerow writerows writeheader readline read open mkdir
    write_text write_bytes unlink touch"""
)
_LIBRARIES = (
    "torch.", "numpy.", "math.", "bisect.bisect", "zlib.", "hashlib.", "binascii.", "base64.",
    "struct.", "re.", "json.dumps", "json.loads", "itertools.", "operator.", "statistics.",
    "textwrap.", "string.", "collections.", "random.", "time.", "datetime.",
)  # fmt: skip
#: Change what they are given.
CHANGING = words("shuffle put place copyto putmask fill_diagonal itemset sort resize")


def _bound_in(node: cst.CSTNode) -> list[tuple[str, cst.BaseExpression]]:
    """Names that a statement binds, each with what it is bound to (or taken out of)."""
    match node:
        case cst.Assign(targets=targets, value=value):
            places: list[cst.CSTNode] = [it.target for it in targets]
        case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
            places = [target]
        case cst.NamedExpr(target=target, value=value):
            places = [target]
        case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
            places = [target]
        case _:
            return []
    names = (part.value for it in places for part in walk(it) if isinstance(part, cst.Name))
    return [(name, value) for name in names]


def _attributes(node: cst.CSTNode) -> set[str]:
    """The names of attributes in code, but for methods that it calls."""
    called = [part.func for part in walk(node) if isinstance(part, cst.Call)]
    return {
        part.attr.value
        for part in walk(node)
        if isinstance(part, cst.Attribute) and not any(part is func for func in called)
    }


def strip_data(place: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x.data``, which has the same memory; everything else as it is."""
    while isinstance(place, cst.Attribute) and place.attr.value == "data":
        place = place.value
    return place


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
                # `x.data.copy_(y)` changes `x`; nobody asks for an attribute `data` afterwards.
                places = [strip_data(receiver)]
            case cst.Call(func=cst.Name("setattr" | "delattr"), args=[_, name_given, *_]):
                found.add(code(name_given.value).strip("\"'"))
                continue
            case _:
                continue
        for place in places:
            found |= _attributes(place)
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
