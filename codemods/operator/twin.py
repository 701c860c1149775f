"""A module made of the operator's own arguments, whose methods an operator calls.

``self.expire(x)`` reads and changes tensors of ``self``, which no operator takes.  It takes the
tensors, and numbers, that the method and those that it calls read, and runs them on an object of
the same class that holds these and nothing else.  In a graph they may be copies, of which the
compiler knows that they are changed.
"""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .memory import places_written, written_parameters
from .owner import CHANGING, class_line
from .reached import is_accessor
from .sizes import methods_named

#: Of these, an attribute of the object is not what its class gives it.
_REFUSED = words(
    "__getattr__ __getattribute__ __setattr__ __delattr__ __slots__ __call__ __class__ __del__"
)
_SWITCHES = ("torch.no_grad", "torch.inference_mode")
#: Ask what an object has, or how it was made.
_LOOKS = words("getattr setattr hasattr delattr vars super isinstance type id locals")
_BUFFER = Fact("tensor", "torch.Tensor", requires_grad=False)


@dataclasses.dataclass(frozen=True)
class Twin:
    """A class of the file, and what methods read of its objects, each with a recorded value."""

    kind: str
    #: By the path from the object: ``mask``, ``conv.weight``.
    reads: dict[str, Fact]
    #: The paths of tensors that are changed in place.
    written: frozenset[str]


class _Unfit(Exception):
    """A method does what a twin could not."""


def twin_of(site: Site, name: str, fact: Fact) -> Twin | None:
    """What a method of a module needs of it; None where its text is not known, or does more."""
    line = class_line(site, fact)
    if fact.kind != "module" or not line or any(_acts_when_asked(holder) for holder in line):
        return None
    reading = _Reading(site, line)
    try:
        reading.method(name)
    except _Unfit:
        return None
    if not any(fact.is_tensor for fact in reading.reads.values()):
        return None
    return Twin(line[0].name.value, reading.reads, frozenset(reading.written))


def _acts_when_asked(holder: cst.ClassDef) -> bool:
    defined = {item.name.value for item in holder.body.body if isinstance(item, cst.FunctionDef)}
    return bool(defined & _REFUSED) or bool(holder.keywords)


class _Reading:
    """Collects what the methods of a class read of ``self``, and what they change."""

    def __init__(self, site: Site, line: list[cst.ClassDef]) -> None:
        self.site = site
        self.line = line
        self.own = {
            item.name.value
            for holder in line
            for item in holder.body.body
            if isinstance(item, cst.FunctionDef)
        }
        self.reads: dict[str, Fact] = {}
        self.written: set[str] = set()
        self.seen: set[str] = set()

    def method(self, name: str, *, sets: bool = False) -> None:
        """Collect what a method does; ``sets``: the setter of that name, not the getter."""
        key = f"{name}.setter" if sets else name
        if key in self.seen:
            return
        self.seen.add(key)
        found = methods_named(self.site, name)
        if not found or any(self.site.class_of(it) not in self.line for it in found):
            raise _Unfit
        texts = {self.site.path: self.site.source, **self.site.sources}
        if sum(text.count(f"def {name}(") for text in texts.values()) != len(found):
            raise _Unfit  # it may be overridden
        if any(re.search(rf"\.{name} *=[^=]", text) for text in texts.values()) and not any(
            is_accessor(it) for it in found
        ):
            raise _Unfit  # an object may have another
        if len(found) > 1 or sets:
            wanted = f"{name}.setter" if sets else "property"
            found = [it for it in found if [code(d.decorator) for d in it.decorators] == [wanted]]
        if len(found) != 1:
            raise _Unfit
        self.check(found[0])
        self.body(found[0])

    def check(self, method: cst.FunctionDef) -> None:
        """Refuse methods that are called in another way than they are written."""
        if method.asynchronous is not None:
            raise _Unfit
        for decorator in method.decorators:
            text = code(decorator.decorator)
            plain = resolve(self.site.module, decorator.decorator) or text.partition("(")[0]
            known = text == "staticmethod" or is_accessor(method)
            if not known and not plain.startswith(_SWITCHES):
                raise _Unfit
        static = any(code(it.decorator) == "staticmethod" for it in method.decorators)
        first = next(iter((*method.params.posonly_params, *method.params.params)), None)
        if not static and (first is None or first.name.value != "self"):
            raise _Unfit

    def body(self, method: cst.FunctionDef) -> None:
        for node in walk(method.body):
            if isinstance(node, cst.Yield | cst.Await | cst.Global | cst.Nonlocal | cst.Del):
                raise _Unfit
            if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Import | cst.ImportFrom):
                raise _Unfit
            if isinstance(node, cst.Call):
                self.call(node)
        tensors = set[str]()
        through = set[str]()
        for place in self.site.places_of("self", method.body):
            text, fact = self.place(place)
            if fact is None:
                through.add(text)
            elif fact.is_tensor:
                tensors.add(text)
        written = places_written([method.body], tensors, through, method)
        if written is None:
            raise _Unfit
        for text in written:
            _, _, path = text.partition("self.")
            read = self.reads.get(path)
            if read is None or not read.is_tensor or read.requires_grad:
                raise _Unfit
            self.written.add(path)

    def place(self, place: cst.Name) -> tuple[str, Fact | None]:
        """The attribute here, as deep as an operator can take it; methods have no fact."""
        node: cst.CSTNode = place
        while True:
            holder = self.site.parent(node)
            if not isinstance(holder, cst.Attribute) or holder.value is not node:
                raise _Unfit  # the object, or a layer of it, goes somewhere
            name, outer = holder.attr.value, self.site.parent(holder)
            if node is place and name in self.own:
                called = isinstance(outer, cst.Call) and outer.func is holder
                if called == any(is_accessor(it) for it in methods_named(self.site, name)):
                    raise _Unfit
                sets = self._is_bound(holder)
                if not sets:
                    self.method(name)
                if sets or (isinstance(outer, cst.AugAssign) and outer.target is holder):
                    self.method(name, sets=True)
                return code(holder), None
            if self._is_bound(holder):
                raise _Unfit  # an operator has no other object to give
            fact = self.fact(holder)
            if fact is None:
                raise _Unfit
            if fact.kind == "module":
                node = holder
                continue
            path = code(holder).removeprefix("self.")
            self.reads.setdefault(path, fact)
            return code(holder), fact

    def _is_bound(self, node: cst.CSTNode) -> bool:
        """Whether an attribute gets a new value here, by whatever statement."""
        outer = self.site.parent(node)
        while isinstance(outer, cst.BaseElement | cst.Tuple | cst.List):
            node, outer = outer, self.site.parent(outer)
        match outer:
            case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
                return target is node
            case cst.For(target=target) | cst.CompFor(target=target) | cst.NamedExpr(target=target):
                return target is node
            case cst.AsName():
                return True
        return False

    def fact(self, node: cst.Attribute) -> Fact | None:
        """What an attribute was, wherever the class reads it."""
        text = code(node)
        for holder in self.line:
            for other in walk(holder.body):
                if isinstance(other, cst.Attribute) and code(other) == text:
                    fact = self.site.fact(other)
                    if fact is not None and fact.kind != "none":
                        return fact
        return _BUFFER if self._is_buffer(text.removeprefix("self.")) else None

    def _is_buffer(self, name: str) -> bool:
        for node in (part for holder in self.line for part in walk(holder.body)):
            match node:
                case cst.Call(
                    func=cst.Attribute(attr=cst.Name("register_buffer")),
                    args=[cst.Arg(value=first), cst.Arg(value=value), *_],
                ) if code(first).strip("\"'") == name:
                    return code(value) != "None"
        return False

    def call(self, node: cst.Call) -> None:
        """Refuse what may look at the object, or change in other ways what it is given."""
        known = resolve(self.site.module, node.func) or ""
        last = code(node.func).rpartition(".")[2]
        if known.startswith("builtins.") and last in _LOOKS:
            raise _Unfit
        in_place = last.endswith("_") and not last.endswith("__")
        if known.startswith("torch.") and (in_place or "distributed" in known):
            raise _Unfit
        if known.startswith(("numpy.", "random.")) and last in CHANGING:
            raise _Unfit
        # Whatever name it has here, it may be a tensor of the object that a function changes.
        bound = module_bindings(self.site.module).get(last, ())
        for function in (*bound, *methods_named(self.site, last)):
            if isinstance(function, cst.FunctionDef) and node.args and self.changes(function):
                raise _Unfit
        others = (text for path, text in self.site.sources.items() if path != self.site.path)
        if not known.startswith("builtins.") and any(f"def {last}(" in text for text in others):
            raise _Unfit  # its text is elsewhere

    def changes(self, function: cst.FunctionDef) -> bool:
        """Whether a function of the file changes what it is given."""
        given = {param.name.value for param in params_of(function.params)} - {"self"}
        return bool(
            written_parameters(self.site, function, 3) & given
            or activity(function.body).augments & given
        )
