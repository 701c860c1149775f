"""What a piece of code needs from around it when it moves into an operator: its parameters.

Names of tensors, numbers, strings and flat lists pass as they are.  Of an object (``self``, a
config) the attributes that are read pass, each under its own name; arrays pass as tensors, tables
of numbers as two lists.  What is bound at module level stays: the operator reads it when it runs,
as the piece did.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.build import ungrouped
from gbfix.analysis.names import fresh, identifier
from gbfix.analysis.scopes import enclosing_functions, function_scope, resolve
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .memory import attribute_fact, augmented_tensors, places_written
from .owner import Owner, holder_of, owner_of
from .reached import is_accessor
from .sizes import methods_named
from .twin import twin_of


class Refused(Exception):
    """Why a piece cannot become an operator, in a clause that can follow "because"."""


class NeedsBefore(Refused):
    """The piece must begin earlier, where these names are made."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(f"`{min(names)}` cannot be passed to an operator")
        self.names = names


class NeedsAfter(Refused):
    """The piece must end later, where these names are used."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(f"`{min(names)}` cannot be a result of an operator")
        self.names = names


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One value that is passed.

    ``given`` is what the call passes, ``inside`` what stands for the value in the body; both texts
    have ``torch`` for torch.
    """

    name: str
    annotation: str
    given: str
    inside: str
    fact: Fact
    #: The line that makes what the body uses of this parameter and the one before it.
    first: str = ""

    @property
    def is_tensor(self) -> bool:
        return self.annotation.startswith("torch.Tensor")


@dataclasses.dataclass(frozen=True)
class MadeAgain:
    """An object that holds arguments of the operator, each by its path: ``conv.weight``."""

    name: str
    kind: str
    held: dict[str, str]

    @property
    def is_nested(self) -> bool:
        return any("." in path for path in self.held)

    def lines(self) -> list[str]:
        """The statements that make it."""
        given = {path: text for path, text in self.held.items() if "." not in path}
        for holder in dict.fromkeys(path.rpartition(".")[0] for path in self.held if "." in path):
            inner = ", ".join(
                f"{path.rpartition('.')[2]}={text}"
                for path, text in self.held.items()
                if path.rpartition(".")[0] == holder
            )
            given[holder] = f"types.SimpleNamespace({inner})"
        values = [f"{name}={text}" for name, text in given.items()]
        made = f"{self.name}.__dict__.update({', '.join(values)})"
        if len(made) > _WIDE:
            made = "\n".join(
                (f"{self.name}.__dict__.update(", *(f"    {it}," for it in values), ")")
            )
        return [f"{_HOLDS}\n{self.name} = object.__new__({self.kind})", made]


@dataclasses.dataclass
class Inputs:
    """Parameters in the order of first use, and what replaces which node of the piece."""

    parameters: list[Parameter]
    replacements: dict[cst.CSTNode, cst.BaseExpression]
    #: Methods that read nothing of their object, to be made static.
    static: list[cst.FunctionDef]
    #: The object whose methods the piece calls, if it cannot do without.
    owner: Owner | None = None
    #: Tensors of objects that are changed in place, here or in methods: ``self.mask``.
    written: set[str] = dataclasses.field(default_factory=set)
    #: The objects that the operator makes of its arguments, by what stood for them outside.
    twins: dict[str, MadeAgain] = dataclasses.field(default_factory=dict)


_HOLDS = "# It holds what the operator is given, and nothing else of the module."
_WIDE = 92
#: Stands for the table in which a class notes its objects, until that has a name.
TABLE = "OBJECTS_BY_IDENTITY"
_PLAIN = frozenset({"Tensor", "Parameter", "Buffer"})
#: What autocast runs in a lower precision.
PRODUCTS = words(
    """matmul mm bmm mv addmm baddbmm addbmm addmv addr einsum linear chain_matmul multi_dot
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc prelu
    scaled_dot_product_attention lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"""
)


def is_plain_tensor(fact: Fact | None) -> bool:
    return fact is not None and fact.is_tensor and fact.type.rpartition(".")[2] in _PLAIN


def variables_in(node: cst.CSTNode) -> set[str]:
    """Names that stand for variables: not the ``b`` of ``a.b``."""
    attributes = {id(x.attr) for x in walk(node) if isinstance(x, cst.Attribute)}
    return {x.value for x in walk(node) if isinstance(x, cst.Name) and id(x) not in attributes}


def local_names(site: Site, node: cst.CSTNode) -> frozenset[str]:
    found = frozenset[str]()
    for function in enclosing_functions(site.module, node):
        found |= function_scope(function).locals
    return found


class Collector:
    """Finds the parameters of a piece: of whole statements, or of one expression."""

    def __init__(
        self,
        site: Site,
        nodes: Sequence[cst.CSTNode],
        *,
        needed: frozenset[str],
        data: frozenset[str],
        facts: Mapping[str, Fact],
        cut: bool,
        broken: cst.CSTNode,
        gradients: bool = False,
        sized: frozenset[str] = frozenset(),
    ) -> None:
        """``gradients``: the operator hands gradients on."""
        self.site = site
        self.gradients = gradients
        self.sized = sized
        self.nodes = nodes
        #: Names of the function whose values come from before the piece.
        self.needed = needed
        self.data = data
        self.facts = facts
        self.cut = cut
        self.broken = set(walk(broken)) | {broken, *site.ancestors(broken)}
        self.locals = local_names(site, nodes[0])
        self.own = activity(*nodes)
        self.taken = set(self.locals)
        for node in nodes:
            self.taken |= variables_in(node)
        #: Tensors of objects that the piece writes to: ``self.codebook``.
        self.written = places_written(nodes, augmented_tensors(site, nodes))
        self.found = Inputs([], {}, [], written={*(self.written or ())})
        self.by_text: dict[str, Parameter] = {}

    def collect(self, kept: Iterable[str] = ()) -> Inputs:
        """``kept`` are names that may go out as they were, whether or not the piece reads them."""
        for node in self.nodes:
            self.visit(node, frozenset(), root=True)
        for name in sorted({*kept} - self.by_text.keys()):
            place = next(
                (it for node in self.nodes for it in self.site.places_of(name, node)), None
            )
            if place is None or not self.pass_on(place, self.facts.get(name), name):
                raise NeedsBefore(frozenset({name}))
            del self.found.replacements[place]
        return self.found

    # -- the walk ----------------------------------------------------------------------------

    def visit(self, node: cst.CSTNode, bound: frozenset[str], *, root: bool = False) -> None:
        if isinstance(node, cst.Yield | cst.Await | cst.Global | cst.Nonlocal):
            raise Refused("it yields or awaits, or binds names of an outer function")
        if isinstance(node, cst.BaseExpression) and not root and self.passes_whole(node, bound):
            return
        if isinstance(node, cst.Name):
            self.name(node, bound)
        elif isinstance(node, cst.Attribute):
            self.attribute(node, bound)
        elif isinstance(node, cst.Call):
            self.call(node, bound)
        elif isinstance(node, cst.Lambda):
            inside = {
                param.name.value for param in walk(node.params) if isinstance(param, cst.Param)
            }
            self.visit(node.body, bound | inside)
        elif isinstance(node, cst.BaseComp):
            self.comprehension(node, bound)
        elif isinstance(node, cst.FunctionDef | cst.ClassDef):
            raise Refused("it defines a function")
        elif isinstance(node, cst.Param | cst.Annotation):
            return
        elif isinstance(node, cst.Arg):
            self.visit(node.value, bound)
        else:
            if isinstance(node, cst.BinaryOperation):
                self.visit(node.operator, bound)
            for child in children(node):
                self.visit(child, bound)

    def comprehension(self, node: cst.BaseComp, bound: frozenset[str]) -> None:
        inside = bound
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            inside |= {x.value for x in walk(clause.target) if isinstance(x, cst.Name)}
            clause = clause.inner_for_in
        for child in children(node):
            self.visit(child, inside)

    def call(self, node: cst.Call, bound: frozenset[str]) -> None:
        func = node.func
        if isinstance(func, cst.Name) and func.value in ("super", "locals", "vars"):
            raise Refused(f"it calls `{func.value}`")
        if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
            root = func.value.value
            if root in self.needed and (
                self.static_method(func) or self.found_again(func) or self.made_again(func)
            ):
                for argument in node.args:
                    self.visit(argument, bound)
                return
        for child in children(node):
            self.visit(child, bound)

    def static_method(self, func: cst.Attribute) -> bool:
        """``self.score(a)`` where ``score`` reads nothing of ``self``: it becomes static."""
        assert isinstance(func.value, cst.Name)
        fact = self.fact(func.value)
        if fact is None or fact.kind not in ("module", "object") or not fact.in_project:
            return False
        name = func.attr.value
        found = methods_named(self.site, name)
        owner = fact.type.rpartition(".")[2]
        if len(found) != 1 or _defined_elsewhere(self.site, name):
            return False
        method = found[0]
        holder = self.site.class_of(method)
        if holder is None or holder.name.value != owner:
            return False
        plain = [param.name.value for param in method.params.params]
        is_static = any(code(each.decorator) == "staticmethod" for each in method.decorators)
        if not is_static:
            if method.decorators or not plain or method.params.posonly_params:
                return False
            if plain[0] in activity(method.body).reads | activity(method.body).writes:
                return False
            self.found.static.append(method)
        self.found.replacements[func.value] = cst.Name(owner)
        return True

    def found_again(self, func: cst.Attribute) -> bool:
        """``self.noise(t)`` where ``noise`` only reads ``self``: the operator finds the object."""
        assert isinstance(func.value, cst.Name)
        fact = self.fact(func.value)
        if fact is None or fact.kind not in ("module", "object") or not fact.in_project:
            return False
        if not self.may_find(func.value):
            return False
        owner = owner_of(self.site, func, fact)
        if owner is None:
            return False
        self.finds(func.value, owner)
        return True

    def is_broken_property(self, node: cst.Attribute) -> bool:
        """``self.is_full``, whose getter is what the graph cannot hold."""
        broken = (it.attr.value for it in self.broken if isinstance(it, cst.Attribute))
        if node.attr.value not in broken:
            return False
        return any(is_accessor(it) for it in methods_named(self.site, node.attr.value))

    def made_again(self, func: cst.Attribute) -> bool:
        """``self.expire(t)`` where ``expire`` reads and changes tensors of ``self``: it runs on an
        object that the operator makes of these.
        """
        assert isinstance(func.value, cst.Name)
        fact, prefix = self.fact(func.value), func.value.value
        if fact is None or not fact.in_project or f"id({prefix})" in self.by_text:
            return False
        before = self.found.twins.get(prefix)
        twin = twin_of(self.site, func.attr.value, fact)
        if twin is None or not all(_passes(path, it) for path, it in twin.reads.items()):
            return False
        inside = before.name if before is not None else fresh(_snake(twin.kind), self.taken)
        self.taken.add(inside)
        held = dict(before.held) if before is not None else {}
        for path, read in twin.reads.items():
            held[path] = self.pass_path(f"{prefix}.{path}", read)
        self.found.twins[prefix] = MadeAgain(inside, twin.kind, held)
        self.found.written |= {f"{prefix}.{path}" for path in twin.written}
        self.found.replacements[func.value] = cst.Name(inside)
        return True

    def held_by_owner(self, node: cst.Attribute) -> bool:
        """``w in self.stops`` where no operator takes ``stops``: it is read of the object.

        The piece only asks it, and what its class gives it is data.
        """
        fact, holder = attribute_fact(self.site, node), node.value
        if (
            fact is None
            or fact.kind not in ("dict", "list", "tuple", "set")
            or not isinstance(holder, cst.Name)
        ):
            return False
        whose = self.fact(holder)
        if whose is None or whose.kind not in ("module", "object") or not whose.in_project:
            return False
        if not self.may_find(holder) or not self.is_only_read(code(node), "held"):
            return False
        owner = holder_of(self.site, node.attr.value, whose)
        if owner is None:
            return False
        self.finds(holder, owner)
        return True

    def may_find(self, name_of_it: cst.Name) -> bool:
        """Whether no other object is found by the operator: one is enough."""
        return self.found.owner is None or f"id({name_of_it.value})" in self.by_text

    def finds(self, name_of_it: cst.Name, owner: Owner) -> None:
        """Hand on which object it is, and put the object that is found in its place."""
        text = f"id({name_of_it.value})"
        before = self.found.owner.reads if self.found.owner is not None else frozenset()
        self.found.owner = Owner(owner.kind, owner.reads | before)
        if text not in self.by_text:
            inside = fresh("owner", self.taken)
            name = fresh("owner_id", {*self.taken, inside})
            self.taken |= {inside, name}
            first = f"{inside} = {TABLE}[{name}]"
            parameter = Parameter(name, "int", text, inside, Fact("int"), first)
            self.by_text[text] = parameter
            self.found.parameters.append(parameter)
        self.found.replacements[name_of_it] = cst.Name(self.by_text[text].inside)

    def name(self, node: cst.Name, bound: frozenset[str]) -> None:
        name = node.value
        if name in bound or name not in self.needed:
            return
        holder = self.site.parent(node)
        if isinstance(holder, cst.AssignTarget | cst.Param):
            return
        if isinstance(holder, cst.Arg) and holder.keyword is node:
            return
        fact = self.fact(node)
        if name in self.sized and not self.cut:
            raise NeedsBefore(frozenset({name}))
        if name in self.data and (fact is None or not fact.is_tensor):
            raise NeedsBefore(frozenset({name}))
        if not self.pass_on(node, fact, name):
            raise NeedsBefore(frozenset({name}))

    def attribute(self, node: cst.Attribute, bound: frozenset[str]) -> None:
        root = node.value
        while isinstance(root, cst.Attribute):
            root = root.value
        outside = isinstance(root, cst.Name) and root.value in self.needed - bound
        if outside and node.value is root and self.is_broken_property(node):
            if self.made_again(node):
                return
            raise NeedsBefore(frozenset({code(root)}))
        if outside and not self.is_passed(root):
            assert isinstance(root, cst.Name)
            if isinstance(node.value, cst.Attribute) and code(node.value) in (self.written or ()):
                self.attribute(node.value, bound)  # it passes as a tensor: so does what it is asked
                return
            if not self.pass_on(node, attribute_fact(self.site, node), root.value):
                if self.held_by_owner(node):
                    return
                if isinstance(node.value, cst.Attribute):
                    self.attribute(node.value, bound)
                    return
                raise NeedsBefore(frozenset({root.value}))
            return
        self.visit(node.value, bound)

    def is_passed(self, root: cst.BaseExpression) -> bool:
        """Whether a name passes whole, so that its attributes are read inside."""
        fact = self.fact(root)
        return fact is not None and fact.kind not in ("module", "object", "class", "pymodule")

    def passes_whole(self, node: cst.BaseExpression, bound: frozenset[str]) -> bool:
        """Whether an expression is computed where it was, and its tensor is passed."""
        if isinstance(node, cst.Name | cst.Attribute) or node in self.broken:
            return False
        fact = self.site.fact(node)
        if not is_plain_tensor(fact):
            return False
        reads = activity(node).reads
        if reads & (bound | self.data) or not reads & self.needed:
            return False
        # In statements, only what the operator could not compute: a call of a module.
        if not self.cut and (
            reads & self.own.bound or self.is_conditional(node) or not self.holds_object(node)
        ):
            return False
        assert fact is not None
        return self.pass_on(node, fact, "")

    def holds_object(self, node: cst.BaseExpression) -> bool:
        for inner in walk(node):
            if isinstance(inner, cst.Call):
                fact = self.site.fact(inner.func)
                if fact is not None and fact.kind == "module":
                    return True
        return False

    def is_conditional(self, node: cst.CSTNode) -> bool:
        kinds = cst.If | cst.For | cst.While | cst.Try | cst.IfExp | cst.BooleanOperation
        for outer in self.site.ancestors(node):
            if outer in self.nodes:
                return isinstance(outer, kinds)
            if isinstance(outer, kinds):
                return True
        return True

    # -- passing -----------------------------------------------------------------------------

    def fact(self, node: cst.CSTNode) -> Fact | None:
        if isinstance(node, cst.Name) and node.value in self.facts:
            seen = self.facts[node.value]
            if seen.kind != "none":
                return seen
        return self.site.fact(node)

    def pass_on(self, node: cst.BaseExpression, fact: Fact | None, root: str) -> bool:
        """Make the node's value a parameter; False where it cannot be passed."""
        text = code(ungrouped(node)) if isinstance(node, cst.Name) else code(node)
        if text in self.by_text:
            self.found.replacements[node] = cst.parse_expression(self.by_text[text].inside)
            return True
        if fact is None:
            return False
        if root and root in self.own.bound and not isinstance(node, cst.Name):
            return False
        changed = root in self.own.mutates - self.own.augments
        if changed and isinstance(node, cst.Attribute) and self.written is not None:
            changed = False  # it writes to tensors that are attributes, which pass by themselves
            if text in self.written and (not fact.is_tensor or fact.requires_grad):
                return False
        # A name is written in small letters: that of ``C`` may be the one of a loop's variable.
        stays = isinstance(node, cst.Name) and identifier(node.value) == node.value
        name = fresh(self.base(node), () if stays else self.taken)
        passed = crossing(name, text, fact)
        if passed is None and fact.kind in ("none", "mixed") and not changed:
            told = optional(self.site, node)
            # Of a tensor that may be there, no gradient would be asked for.
            if told and not (self.gradients and "Tensor" in told):
                passed = f"{told} | None", text, name
        elif passed is not None and passed[0] == optional(self.site, node) != "torch.Tensor":
            passed = f"{passed[0]} | None", text, name  # it is declared to be None in other calls
        if passed is None or (changed and not (fact.is_tensor and isinstance(node, cst.Name))):
            return False
        if fact.kind in ("dict", "list") and not self.is_only_read(text, fact.kind):
            return False
        self.taken.add(name)
        annotation, given, inside = passed
        first = ""
        if fact.kind == "dict":
            keys = fresh(f"{name}_keys", self.taken)
            values = fresh(f"{name}_values", {*self.taken, keys})
            self.taken |= {keys, values}
            listed, names = _KEYS[fact.holds.partition(":")[0]]
            self.found.parameters.append(
                Parameter(keys, listed, names[0].format(text), names[1].format(keys), Fact("list"))
            )
            first = f"{name} = dict(zip({names[1].format(keys)}, {values}))"
            name = values
        parameter = Parameter(name, annotation, given, inside, fact, first)
        self.by_text[text] = parameter
        self.found.parameters.append(parameter)
        self.found.replacements[node] = cst.parse_expression(inside)
        return True

    def pass_path(self, text: str, fact: Fact) -> str:
        """Make what a method reads of an object a parameter; what stands for it inside."""
        if text not in self.by_text:
            name = fresh(text.rpartition(".")[2], self.taken)
            passed = crossing(name, text, fact)
            assert passed is not None
            self.taken.add(name)
            annotation, given, inside = passed
            self.by_text[text] = Parameter(name, annotation, given, inside, fact)
            self.found.parameters.append(self.by_text[text])
        return self.by_text[text].inside

    def is_only_read(self, text: str, kind: str) -> bool:
        """Whether the piece only asks a container, of which the operator gets a copy.

        ``held`` is the kind of one that the operator reads of its object: no copy.

        A function of the project may write to what it is given.
        """
        places = (
            part
            for top in self.nodes
            for part in walk(top)
            if isinstance(part, cst.Name | cst.Attribute) and code(part) == text
        )
        return all(self.is_read(place, kind) for place in places)

    def is_read(self, place: cst.CSTNode, kind: str) -> bool:
        holder = self.site.parent(place)
        match holder:
            case cst.Attribute(value=value, attr=cst.Name(name)) if value is place:
                return name not in MUTATING_METHODS
            case cst.Subscript(value=value) if value is place:
                outer = self.site.parent(holder)
                return not isinstance(outer, cst.AssignTarget | cst.AugAssign | cst.Del)
            case cst.Arg():
                call = self.site.parent(holder)
                func = call.func if isinstance(call, cst.Call) else place
                known = resolve(self.site.module, func) or ""
                if known.startswith(("builtins.", "torch.", "numpy.", "math.")):
                    return True
                return kind != "dict" and not self.is_written(call)
            case (
                cst.ComparisonTarget() | cst.For() | cst.CompFor() | cst.If() | cst.UnaryOperation()
            ):
                return True
        # Another name for it, or what holds it, could be written to.
        return kind not in ("dict", "held")

    def is_written(self, call: cst.CSTNode | None) -> bool:
        """Whether a function of the file changes one of the containers that it is given."""
        if not isinstance(call, cst.Call):
            return False
        name = code(call.func).rpartition(".")[2]
        for function in methods_named(self.site, name) + _functions_named(self.site, name):
            does = activity(function.body)
            given = {it.name.value for it in walk(function.params) if isinstance(it, cst.Param)}
            if (does.mutates | does.augments) & given:
                return True
        return False

    def base(self, node: cst.BaseExpression) -> str:
        while True:
            match node:
                case cst.Name(name):
                    return name
                case cst.Attribute(attr=attr):
                    if attr.value in ("detach", "cpu", "float", "contiguous", "argmax", "sigmoid"):
                        node = node.value
                        continue
                    return attr.value
                case cst.Call(func=func):
                    node = func
                case cst.Subscript(value=value):
                    node = value
                case _:
                    return "value"


def _passes(path: str, fact: Fact) -> bool:
    """Whether an attribute of an object passes as it is: no copy that a method might change."""
    return (
        path.count(".") < 2
        and fact.kind not in ("dict", "list", "ndarray")
        and crossing(path, path, fact) is not None
    )


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower().strip("_")


_OPTIONAL = re.compile(
    r"(?:typing\.)?Optional\[([\w.]+)\]|([\w.]+) \| None|None \| ([\w.]+)"
    r"|(?:typing\.)?Union\[([\w.]+), None\]"
)
_PASSED = {
    **{name: name for name in ("int", "bool", "str")},
    "float": "torch.types.Number",
    **dict.fromkeys(("torch.Tensor", "Tensor"), "torch.Tensor"),
}


def optional(site: Site, node: cst.BaseExpression) -> str:
    """What a value is where it is not None, as its declaration says: ``Optional[float]``; or ""."""
    declared: cst.Annotation | None = None
    match node:
        case cst.Name(name):
            for function in enclosing_functions(site.module, node):
                declared = _annotation_of(function, name) or declared
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
            owner = site.class_of(node)
            for inner in walk(owner.body) if owner is not None else ():
                match inner:
                    case cst.AnnAssign(target=target, annotation=annotation) if code(target) in (
                        name,
                        f"self.{name}",
                    ):
                        declared = annotation
                    case cst.FunctionDef(name=cst.Name("__init__")):
                        set_from = f"self.{name} = {name}"
                        lines = {code(it) for it in walk(inner.body) if isinstance(it, cst.Assign)}
                        if set_from in lines:
                            declared = declared or _annotation_of(inner, name)
    if declared is None:
        return ""
    found = _OPTIONAL.fullmatch(code(declared.annotation).strip("\"'"))
    return _PASSED.get(next(filter(None, found.groups())), "") if found else ""


def _annotation_of(function: cst.FunctionDef, name: str) -> cst.Annotation | None:
    for param in (*function.params.params, *function.params.kwonly_params):
        if param.name.value == name:
            return param.annotation
    return None


def crossing(name: str, text: str, fact: Fact) -> tuple[str, str, str] | None:
    """Annotation, what is given, and what stands for it inside; None where it cannot pass."""
    kind = fact.type.rpartition(".")[2]
    items = {item.kind for item in fact.items or ()}
    match fact.kind:
        case "tensor":
            return ("torch.Tensor", text, name) if is_plain_tensor(fact) else None
        case "ndarray":
            return ("torch.Tensor", f"torch.from_numpy({text})", f"{name}.numpy()")
        case "str" if fact.type == "str":
            return ("str", text, name)
        case "bool" | "int" | "float" if fact.type == fact.kind:
            return ({"float": "torch.types.Number"}.get(fact.kind, fact.kind), text, name)
        case "list" | "tuple" if kind in ("list", "tuple", "Size") and len(items) == 1:
            item = items.pop()
            inside = {"tuple": f"tuple({name})", "Size": f"torch.Size({name})"}.get(kind, name)
            if item == "tensor" and all(is_plain_tensor(each) for each in fact.items or ()):
                return ("list[torch.Tensor]", text, inside)
            if item in ("int", "float", "bool"):
                return (f"list[{item}]", text, inside)
        case "object" if fact.type in ("torch.dtype", "torch.device"):
            return (fact.type, text, name)
        case "dict" if fact.type == "dict" and fact.holds:
            held, _, item = fact.holds.partition(": ")
            joined = held != "str" or all("\n" not in key for key in fact.keys or ())
            if held in _KEYS and item in ("int", "float", "bool") and joined:
                return (f"list[{item}]", f"list({text}.values())", name)
    return None


#: How the keys of a dict are passed, and what makes them again inside: `torch.library.custom_op`
#: makes no schema of an annotation that says lists of strings.
_KEYS = {
    "int": ("list[int]", ("list({})", "{}")),
    "str": ("str", ('"\\n".join({})', '{}.split("\\n")')),
}


def _functions_named(site: Site, name: str) -> list[cst.FunctionDef]:
    return [
        part
        for part in site.module.body
        if isinstance(part, cst.FunctionDef) and part.name.value == name
    ]


def _defined_elsewhere(site: Site, name: str) -> bool:
    """Whether another class of the project has a method of that name: it may override this one."""
    count = sum(text.count(f"def {name}(") for text in site.sources.values())
    return count != 1
