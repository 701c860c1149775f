"""What a choice knows about the code around it: kinds of expressions, names, gradients."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.kinds import FLOAT, INT, infer
from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Site
from gbfix.schema import Fact

from .bindings import Bindings

TENSOR = Fact("tensor", "torch.Tensor")
_NUMBERS = ("bool", "int", "float")
_NO_GRADIENTS = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")


class Declined(Exception):
    """This choice cannot be lowered; the text says why, in a sentence, or is empty."""


class Context:
    """The function (or lambda) in which choices stand, with all that is known about its parts."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.function = site.function
        self.scope: cst.CSTNode = self._scope()
        self.taken = names_in(site.module)
        #: Kinds of names that the conversion itself bound, or that no run has seen.
        self.bound: dict[str, Fact] = {}
        self.origins: dict[cst.CSTNode, cst.CSTNode] = {}
        #: Whether None on one side may become the tensor of the other.
        self.tensor_for_none = False
        #: Whether numbers are read back from what is chosen, and whether any was.
        self.read_back = False
        self.reads_numbers = False
        #: Calls (their text up to the parenthesis) of modules with finite derivatives.
        self.tame: set[str] = set()
        #: Whether these are given ones all the same, where they compute in vain.
        self.careful = False
        self._reading = False
        self.torch_missing = False
        #: Dtypes were widened, numbers became tensors, ...: sentences for the patch.
        self.notes: list[str] = []
        #: Why the patch is no longer what anyone would call safe; empty where it is.
        self.doubts: list[str] = []

    def original(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement of the file that a statement was made of."""
        while node in self.origins:
            node = self.origins[node]
        return node

    def _scope(self) -> cst.CSTNode:
        if self.function is not None:
            return self.function
        for parent in self.site.ancestors(self.site.node):
            if isinstance(parent, cst.Lambda):
                return self.site.statement_of(parent)
        return self.site.statement

    # -- names -------------------------------------------------------------------------------

    @functools.cached_property
    def torch(self) -> str:
        """The name under which the file has torch; an import is added where it has none."""
        for name, home in import_map(self.site.module).items():
            if home == "torch":
                return name
        self.torch_missing = True
        return "torch"

    def fresh(self, base: str) -> str:
        name = fresh(identifier(base), self.taken)
        self.taken.add(name)
        return name

    def resolve(self, node: cst.CSTNode) -> str:
        """The dotted home of a name (``torch.nn.functional.relu``), or its own text, or ""."""
        try:
            found = resolve(self.site.module, node, at=self.scope)
        except Exception:
            found = None
        return found or dotted(node) or ""

    # -- kinds -------------------------------------------------------------------------------

    @functools.cached_property
    def _by_text(self) -> dict[str, Fact]:
        """What the run saw of every expression of the function, by its text."""
        found: dict[str, Fact] = {}
        for node in walk(self.scope):
            if isinstance(node, cst.BaseExpression):
                fact = self._seen(node)
                if fact is not None:
                    old = found.get(code(node))
                    found[code(node)] = fact if old is None or old.kind == fact.kind else MIXED
        for statement in walk(self.scope):
            if isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                for name, fact in self._locals(statement):
                    found.setdefault(name, fact)
        return found

    def _locals(self, statement: cst.CSTNode) -> Iterator[tuple[str, Fact]]:
        try:
            yield from self.site.locals_before(statement).items()
        except KeyError:
            return

    def _seen(self, node: cst.CSTNode) -> Fact | None:
        try:
            return self.site.fact(node)
        except KeyError:
            return None

    def kind_of(self, node: cst.BaseExpression) -> Fact | None:
        """What is known of this very expression, by a run or by the text around it."""
        text = code(node)
        if text in self.bound:
            return self.bound[text]
        if isinstance(node, cst.Name) and self._reading and text in self._reads_made:
            return self._reads_made[text]
        found = self._seen(node) or self._by_text.get(text)
        if found is not None and found.kind == "mixed":
            return None
        if found is None and isinstance(node, cst.Attribute) and code(node.value) == "self":
            return self._attribute(node.attr.value)
        if found is None and isinstance(node, cst.Name):
            return self._parameter(node.value) or self._bindings.kind(node)
        return found

    @functools.cached_property
    def _bindings(self) -> Bindings:
        return Bindings(self.site, self.scope, self.kind_of)

    def fact(self, node: cst.BaseExpression) -> Fact | None:
        """What the expression is, as far as that is known or can be inferred."""
        bare = node.with_changes(lpar=(), rpar=()) if node.lpar and _bare(node) else node
        return infer(node, self.kind_of) or (
            infer(bare, self.kind_of) if bare is not node else None
        )

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        fact = self.fact(node)
        return fact is not None and fact.is_tensor

    def is_number(self, node: cst.BaseExpression) -> bool:
        fact = self.fact(node)
        return fact is not None and fact.kind in _NUMBERS

    @functools.cached_property
    def _init(self) -> dict[str, Fact]:
        """What ``__init__`` of the class binds to ``self``, as far as its text tells."""
        owner = self.site.class_of(self.scope)
        found: dict[str, Fact] = {}
        for node in walk(owner) if owner is not None else ():
            match node:
                case cst.Call(
                    func=cst.Attribute(
                        value=cst.Name("self"),
                        attr=cst.Name("register_buffer" | "register_parameter"),
                    ),
                    args=[cst.Arg(value=cst.SimpleString() as name), *_],
                ):
                    found[str(name.raw_value)] = TENSOR
                case cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            target=cst.Attribute(value=cst.Name("self"), attr=cst.Name(name))
                        )
                    ],
                    value=value,
                ):
                    fact = self._made(value)
                    if fact is not None:
                        found.setdefault(name, fact)
        return found

    def _made(self, value: cst.BaseExpression) -> Fact | None:
        if isinstance(value, cst.Call):
            called = self.resolve(value.func)
            if called.endswith((".Parameter", ".tensor", ".zeros", ".ones", ".randn")):
                return TENSOR
            if called.startswith("torch.nn.") and called.rpartition(".")[2][:1].isupper():
                return Fact("module", called)
        return infer(value, lambda _: None)

    def _attribute(self, name: str) -> Fact | None:
        if name == "training":
            return Fact("bool", "bool")
        return self._init.get(name)

    def _parameter(self, name: str) -> Fact | None:
        """The kind that an annotation or a default promises."""
        if self.function is None:
            return None
        params = self.function.params
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            if param.name.value != name:
                continue
            if param.annotation is not None:
                text = code(param.annotation.annotation)
                return {"float": FLOAT, "int": INT, "bool": Fact("bool", "bool")}.get(
                    text, TENSOR if text in ("torch.Tensor", "Tensor") else None
                )
            if param.default is not None and not _is_none(param.default):
                return infer(param.default, lambda _: None)
        return None

    def promised(self, node: cst.BaseExpression) -> bool:
        """Whether the text says that this is a Python number: annotation, default, or its value."""
        if isinstance(node, cst.Name) and self.function is not None:
            params = self.function.params
            every = (*params.posonly_params, *params.params, *params.kwonly_params)
            for param in every:
                if param.name.value == node.value:
                    return param.annotation is not None or param.default is not None
        return True

    # -- numbers that were read from a tensor ------------------------------------------------

    @functools.cached_property
    def reads(self) -> dict[str, cst.BaseExpression]:
        """Names that hold ``t.item()`` for a while, and the tensor that they can hold instead.

        Every use must be one in which a tensor without dimensions does the same: a comparison,
        arithmetic beside a tensor, or what is written into elements of a tensor.
        """
        if self.function is None:
            return {}
        bound: dict[str, list[cst.BaseExpression | None]] = {}
        for node in walk(self.function.body):
            match node:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                    bound.setdefault(name, []).append(read_of(value))
                case (
                    cst.AssignTarget(target=cst.Name(name))
                    | cst.AugAssign(target=cst.Name(name))
                    | cst.For(target=cst.Name(name))
                    | cst.NamedExpr(target=cst.Name(name))
                ):
                    if not isinstance(node, cst.AssignTarget):
                        bound.setdefault(name, []).append(None)
        found: dict[str, cst.BaseExpression] = {}
        for name, values in bound.items():
            read = values[0]
            if len(values) != 1 or read is None or not self.is_tensor(read):
                continue
            if all(self._takes_tensor(place) for place in self._uses(name)):
                found[name] = read
        return found

    @functools.cached_property
    def _reads_made(self) -> dict[str, Fact]:
        made = {}
        for name, value in self.reads.items():
            fact = self.fact(value)
            made[name] = Fact(
                "tensor", "torch.Tensor", shape=(), dtype=fact.dtype if fact else None
            )
        return made

    def with_reads(self) -> None:
        """From now on, the names of `reads` are tensors."""
        if self.reads:
            self._reads_made  # noqa: B018  (made while the names are still numbers)
            self._reading = True

    def _uses(self, name: str) -> Iterator[cst.CSTNode]:
        assert self.function is not None
        for place in self.site.places_of(name, self.function.body):
            if not isinstance(self.site.parent(place), cst.AssignTarget):
                yield place

    def only_compared(self, name: str) -> bool:
        """Whether no value is computed with the name: it is only looked at."""
        asked = cst.Comparison | cst.ComparisonTarget | cst.Arg
        return all(isinstance(self.site.parent(place), asked) for place in self._uses(name))

    def may_divide_by_zero(self, name: str) -> bool:
        """Whether Python divides by the number, and no test of the function compares it with 0."""
        divides = asked = False
        for place in self._uses(name):
            match self.site.parent(place):
                case cst.BinaryOperation(operator=cst.Divide(), left=left, right=right):
                    divides |= right is place and self.is_number(left)
                case cst.Comparison(
                    left=left, comparisons=[cst.ComparisonTarget(comparator=cst.Integer("0"))]
                ):
                    asked |= left is place
        return divides and not asked

    def goes_into_elements(self, name: str) -> bool:
        """Whether something that is computed with the name is written into elements of a tensor."""
        for place in self._uses(name):
            node = place
            while isinstance(parent := self.site.parent(node), cst.BinaryOperation):
                node = parent
            if node is not place and isinstance(parent, cst.Assign):
                return True
        return False

    def _takes_tensor(self, place: cst.CSTNode) -> bool:
        parent = self.site.parent(place)
        match parent:
            case cst.Comparison() | cst.ComparisonTarget():
                return True
            case cst.BinaryOperation(left=left, right=right):
                other = right if left is place else left
                if self.is_number(other):
                    return self._takes_tensor(parent)
                fact = self.fact(other)
                return fact is not None and fact.is_tensor and fact.shape != ()
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=base))]):
                return self.is_tensor(base)
            case cst.Arg(value=value):
                call = self.site.parent(parent)
                if isinstance(call, cst.Call) and self.resolve(call.func).startswith("math.is"):
                    return value is place
        return False

    # -- gradients ---------------------------------------------------------------------------

    def without_gradients(self, node: cst.CSTNode) -> bool:
        """Whether gradients are off where the node stands, whoever calls the function."""
        for parent in self.site.ancestors(node):
            if isinstance(parent, cst.With) and any(
                self.turns_off(item.item) for item in parent.items
            ):
                return True
            if parent is self.function:
                return any(self.turns_off(d.decorator) for d in self.function.decorators)
            if isinstance(parent, cst.FunctionDef | cst.Lambda | cst.ClassDef):
                return False
        return False

    @functools.cached_property
    def gradients_seen(self) -> bool:
        """Whether any tensor of the function had a gradient to hand on in the run."""
        return any(fact.requires_grad for fact in self._by_text.values() if fact.is_tensor)

    def turns_off(self, node: cst.BaseExpression) -> bool:
        func = node.func if isinstance(node, cst.Call) else node
        return self.resolve(func) in _NO_GRADIENTS


MIXED = Fact("mixed")


def read_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor in ``t.item()`` or ``float(t)``."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("item"), value=value), args=[]):
            return value
        case cst.Call(func=cst.Name("float"), args=[cst.Arg(value=value, keyword=None, star="")]):
            return read_of(value) or value
    return None


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _bare(node: cst.BaseExpression) -> bool:
    return not isinstance(node, cst.GeneratorExp | cst.Tuple)
