"""What an expression needs from its function when it moves into an operator of its own.

`capture` names the values to pass (each becomes a parameter with a schema type inferred from the
recorded facts) and rewrites the expression to read its parameters.  An operator takes tensors,
numbers, strings and flat lists of them, and nothing else: objects are followed along their
attributes (``self.scale``) until a value that can be passed is reached, and a path that ends
without one is refused.

What stays in the body runs inside the operator, below autograd and behind the compiler: only names
of modules and functions, constants, and calls known to be pure and deterministic may stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.names import fresh, telling_name
from gbfix.analysis.scopes import (
    enclosing_functions,
    function_scope,
    module_bindings,
    resolve,
)
from gbfix.analysis.tree import children, code, dotted, walk
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from .pure import (
    computes_alike,
    is_computing_method,
    is_pure_function,
    is_pure_method,
    is_tensor_state,
)


class Refused(Exception):
    """Why an expression cannot move, in a clause that can follow "because"."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One value that is passed: ``annotation`` has ``torch`` for the file's own alias of torch.

    ``wrapper`` restores a type that schemas do not have: ``tuple`` or ``torch.Size`` of a list.
    """

    name: str
    annotation: str
    argument: cst.BaseExpression
    fact: Fact
    wrapper: str = ""


@dataclasses.dataclass(frozen=True)
class Captured:
    """Expressions that read their parameters, and the parameters in the order of first use."""

    bodies: tuple[cst.BaseExpression, ...]
    parameters: tuple[Parameter, ...]


def schema_type(fact: Fact | None, *, may_be_symbolic: bool = True) -> tuple[str, str] | None:
    """The annotation (and wrapper) under which a value can be passed; None when it cannot.

    Numbers pass as ``torch.types.Number``: where the recorded caller gave an int, another may give
    a float, and it arrives as it is.  (For ``float``, torch 2.13 refuses what ``.item()`` gives
    while tracing.)  A bool that was read from a tensor passes nowhere under inductor, so that bools
    are taken from parameters, attributes and globals only.
    """
    if fact is None:
        return None
    if fact.is_python_scalar and fact.value is not None and fact.type != fact.kind:
        return None  # a numpy scalar, an enumeration
    match fact.kind:
        case "tensor":
            return ("torch.Tensor", "") if is_plain_tensor(fact) else None
        case "str":
            return ("str", "")
        case "int" | "float":
            return ("torch.types.Number", "")
        case "bool":
            return None if may_be_symbolic else ("torch.types.Number", "")
        case "list" | "tuple":
            return _list_type(fact)
        case "object" if fact.type in ("torch.dtype", "torch.device"):
            return (fact.type, "")
    return None


def is_plain_tensor(fact: Fact) -> bool:
    """Whether the value is a ``torch.Tensor`` or an ``nn.Parameter``, and no other subclass."""
    return fact.type.rpartition(".")[2] in ("Tensor", "Parameter", "Buffer")


def _list_type(fact: Fact) -> tuple[str, str] | None:
    kind = fact.type.rpartition(".")[2]
    wrapper = {"list": "", "tuple": "tuple", "Size": "torch.Size"}.get(kind)
    kinds = {item.kind for item in fact.items or ()}
    if wrapper is None or len(kinds) != 1:
        return None
    item = kinds.pop()
    if item == "tensor" and all(is_plain_tensor(each) for each in fact.items or ()):
        return ("list[torch.Tensor]", wrapper)
    if item in ("int", "float"):
        return (f"list[{item}]", wrapper)
    return None


def local_names(site: Site, node: cst.CSTNode) -> frozenset[str]:
    """Names of the functions around the node: what module-level code cannot see."""
    found = frozenset[str]()
    for function in enclosing_functions(site.module, node):
        found |= function_scope(function).locals
    return found


def own_parameters(site: Site, node: cst.CSTNode) -> frozenset[str]:
    """Parameters of the innermost function that are never bound again in it."""
    function = site.function_of(node)
    if function is None:
        return frozenset()
    inside = activity(function.body)
    return frozenset(parameters_of(function.params)) - inside.writes - inside.deletes


def may_be_none(function: cst.FunctionDef, node: cst.BaseExpression) -> bool:
    """Whether a function reckons with None in this place: by a default or an annotation of its
    parameters, or by asking (``limit is not None``, ``isinstance(limit, float)``).
    """
    params = function.params
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        if isinstance(node, cst.Name) and param.name.value == node.value:
            none = param.default is not None and code(param.default) == "None"
            note = code(param.annotation.annotation) if param.annotation is not None else ""
            if none or "None" in note or "Optional" in note:
                return True
    text = code(node)
    for inner in walk(function.body):
        match inner:
            case cst.Comparison(left=left, comparisons=[target]) if code(left) == text:
                if code(target.comparator) == "None":
                    return True
            case cst.Call(func=cst.Name("isinstance"), args=[asked, *_]):
                if code(asked.value) == text:
                    return True
    return False


#: What a patch says of a parameter for which `has_loose_number` holds.
LOOSE_NUMBER = (
    "a parameter has no annotation, so the operator accepts only the types seen in the run: a"
    " tensor for a number (or the reverse) raises an error"
)


def has_loose_number(site: Site, arguments: Sequence[cst.BaseExpression]) -> bool:
    """Whether a parameter of the function without annotation is among what an operator takes as a
    number, a bool or a text: another caller may give a tensor, which an operator refuses.
    """
    function = site.function
    if function is None:
        return False
    facts = site.locals_before(site.statement_of(site.node))
    params = function.params
    bare = {
        param.name.value
        for param in (*params.posonly_params, *params.params, *params.kwonly_params)
        if param.annotation is None
    }
    for argument in arguments:
        if isinstance(argument, cst.Name) and argument.value in bare:
            fact = facts.get(argument.value)
            if fact is None or not fact.is_tensor:
                return True
    return False


def _is_region(site: Site, function: cst.FunctionDef) -> bool:
    """Whether the function is the compiled region itself, and no helper that it calls."""
    name = function.name.value
    if site.region is not None and site.region.path == site.path:
        span = site.span(function)
        if span.line <= site.region.line <= span.end_line:
            return True
    return site.graph_break.region.rpartition(".")[2] == name


def lone_helper(site: Site) -> cst.FunctionDef | None:
    """The function of the break, if it is a plain one at module level that a region calls."""
    function = site.function
    if function is None or site.top_level_statement(function) is not function:
        return None
    if function.decorators or function.asynchronous is not None or _is_region(site, function):
        return None
    return function


def is_global_object(site: Site, node: cst.CSTNode) -> bool:
    """Whether a name is bound once, at module level, and nowhere else: always the same object."""
    if not isinstance(node, cst.Name) or node.value in local_names(site, node):
        return False
    bound = module_bindings(site.module).get(node.value, ())
    return len(bound) == 1 and isinstance(
        bound[0], cst.Assign | cst.AnnAssign | cst.ImportFrom | cst.Import | cst.ClassDef
    )


def capture(
    site: Site,
    expressions: Sequence[cst.BaseExpression],
    torch: str,
    *,
    kept: Mapping[cst.CSTNode, cst.CSTNode] | None = None,
    conditional: bool = False,
) -> Captured:
    """Split expressions into bodies for one operator and the values to pass to it.

    ``torch`` is the file's name for torch.  ``kept`` are nodes that the caller has judged (the
    callee of an effect), each with what stands in its place in the operator.  ``conditional`` says
    that the expressions after the first may not be evaluated.  Raises `Refused` where a value
    cannot be passed or a call cannot move.
    """
    collector = Collector(site, expressions, kept or {})
    for number, expression in enumerate(expressions):
        if number == 0:
            collector.first(expression)
        else:
            collector.visit(expression, bound=frozenset(), conditional=conditional)
    new = collector.replacements(torch)
    check_echoes(expressions, new)
    replace = Replace(new)
    bodies = [cast(cst.BaseExpression, expression.visit(replace)) for expression in expressions]
    return Captured(tuple(bodies), tuple(collector.parameters))


def check_echoes(nodes: Sequence[cst.CSTNode], new: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
    """Raise `Refused` where ``f"{self.limit=}"`` would show another text of its expression."""
    for node in (part for top in nodes for part in walk(top)):
        match node:
            case cst.FormattedStringExpression(equal=cst.AssignEqual()):
                if any(part in new and code(part) != code(new[part]) for part in walk(node)):
                    raise Refused(f"`{code(node.expression)}=` shows its own text")


#: Texts that are made of values.
_TEXTS = (cst.FormattedString, cst.ConcatenatedString, cst.BinaryOperation)
#: What a text is made of while Dynamo traces, with no tensor in it.
_PYTHON = frozenset({"bool", "int", "float", "str", "none", "class", "function"})
#: What classes and functions are called.
_NAMES = frozenset({"__name__", "__qualname__", "__module__"})


def _is_of_python(fact: Fact) -> bool:
    if fact.kind in ("list", "tuple", "set", "dict"):
        return fact.items is not None and all(_is_of_python(item) for item in fact.items)
    return fact.kind in _PYTHON


_FORBIDDEN = (cst.Lambda, cst.Await, cst.Yield, cst.NamedExpr)
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Collector:
    """Gathers what expressions need: what is passed, and as what (see `capture`)."""

    def __init__(
        self,
        site: Site,
        expressions: Sequence[cst.CSTNode],
        kept: Mapping[cst.CSTNode, cst.CSTNode],
    ) -> None:
        self.site = site
        self.kept = kept
        self.locals = local_names(site, expressions[0])
        self.own = own_parameters(site, expressions[0])
        self.before = site.locals_before(site.statement_of(expressions[0]))
        self.taken = {*activity(*expressions).reads, *self.locals}
        self.parameters: list[Parameter] = []
        self.passed: dict[cst.CSTNode, Parameter] = {}
        self.by_text: dict[str, Parameter] = {}

    def replacements(self, torch: str) -> dict[cst.CSTNode, cst.CSTNode]:
        new = dict(self.kept)
        for node, parameter in self.passed.items():
            text = parameter.name
            if parameter.wrapper:
                text = f"{parameter.wrapper.replace('torch', torch)}({text})"
            new[node] = cst.parse_expression(text)
        return new

    def first(self, node: cst.BaseExpression) -> None:
        """An expression that is always evaluated: a tensor that cannot be computed inside (because
        of autocast, or of what a call does) is computed where it was, and passed.
        """
        before = list(self.parameters), dict(self.passed), dict(self.by_text)
        try:
            self.visit(node, bound=frozenset(), conditional=False)
        except Refused:
            self.parameters, self.passed, self.by_text = before
            fact = self.fact(node)
            alone = not any(isinstance(part, (*_FORBIDDEN, cst.Await)) for part in walk(node))
            if fact is None or not fact.is_tensor or not alone or not self.need(node):
                raise

    def visit(self, node: cst.CSTNode, *, bound: frozenset[str], conditional: bool) -> None:
        if node in self.kept:
            return
        if isinstance(node, _FORBIDDEN):
            raise Refused(f"`{code(node)}` binds names, yields or awaits")
        if isinstance(node, _COMPREHENSIONS):
            self.comprehension(node, bound)
        elif isinstance(node, cst.Call):
            self.call(node, bound, conditional)
        elif isinstance(node, cst.Name | cst.Attribute | cst.Subscript):
            if not self.path(node, bound, conditional):
                self.unpassable(node, bound, conditional)
        elif isinstance(node, cst.IfExp | cst.BooleanOperation):
            for child in children(node):
                self.visit(child, bound=bound, conditional=True)
        elif isinstance(node, cst.Arg):
            self.visit(node.value, bound=bound, conditional=conditional)
        elif isinstance(node, cst.BinaryOperation) and isinstance(
            node.operator, cst.MatrixMultiply
        ):
            raise Refused("a matrix product inside an operator would escape autocast")
        elif isinstance(node, _TEXTS) and not bound and not conditional:
            self.text(node)
        else:
            for child in children(node):
                self.visit(child, bound=bound, conditional=conditional)

    def text(self, node: cst.BaseExpression) -> None:
        """A text, made inside the operator, or else, where no tensor is in it, made and passed."""
        before = list(self.parameters), dict(self.passed), dict(self.by_text)
        try:
            for child in children(node):
                self.visit(child, bound=frozenset(), conditional=False)
        except Refused:
            self.parameters, self.passed, self.by_text = before
            fact = self.fact(node)
            if not isinstance(node, cst.BinaryOperation):
                fact = Fact("str", "str")
            if fact is None or fact.kind != "str" or not self.is_of_python(node):
                raise
            self.need(node, dedupe=False, fact=fact)

    def is_of_python(self, node: cst.CSTNode) -> bool:
        """Whether everything that is read was seen, and is no tensor, nor holds one."""
        for part in walk(node):
            if isinstance(part, (*_FORBIDDEN, cst.Call, *_COMPREHENSIONS)):
                return False
            if not isinstance(part, cst.Name | cst.Attribute | cst.Subscript):
                continue
            if isinstance(self.site.parent(part), cst.Attribute):
                continue  # a part of a longer name
            if isinstance(part, cst.Attribute) and part.attr.value in _NAMES:
                continue
            fact = self.fact(part)
            if fact is None or not _is_of_python(fact):
                return False
            if fact.kind in ("int", "float") and not fact.constant:
                return False  # a text for each number would be a graph for each
        return True

    def comprehension(self, node: cst.BaseComp, bound: frozenset[str]) -> None:
        inside = bound
        clause: cst.CompFor | None = node.for_in
        parts: list[cst.CSTNode] = []
        while clause is not None:
            if clause.asynchronous is not None:
                raise Refused("an asynchronous comprehension cannot move")
            inside |= {child.value for child in walk(clause.target) if isinstance(child, cst.Name)}
            parts += [clause.iter, *(test.test for test in clause.ifs)]
            clause = clause.inner_for_in
        if isinstance(node, cst.DictComp):
            parts += [node.key, node.value]
        else:
            parts.append(node.elt)  # type: ignore[attr-defined]
        for part in parts:
            if _asks_for_none(part, inside - bound):
                raise Refused("what it loops over may have None among its items")
            self.visit(part, bound=inside, conditional=True)

    def call(self, node: cst.Call, bound: frozenset[str], conditional: bool) -> None:
        func = node.func
        stays = func in self.kept
        if isinstance(func, cst.Attribute) and func.attr in self.kept:
            # A method that the caller has judged, of a value that is still to be seen.
            self.visit(func.value, bound=bound, conditional=conditional)
            stays = True
        if not stays and self.root(func) not in self.locals | bound:
            name = resolve(self.site.module, func) or ""
            made = name in ("torch.as_tensor", "torch.tensor") and bool(node.args)
            number = made and isinstance(node.args[0].value, cst.BaseNumber)
            stays = number or is_pure_function(name) or computes_alike(name)
        if not stays and isinstance(func, cst.Attribute) and self.is_computing(func):
            stays = self.receiver(func.value, bound, conditional)
        if not stays:
            # The value can still be computed where it was, and passed.
            if not bound and not conditional and self.need(node, dedupe=False):
                return
            raise Refused(f"`{code(node)}` is not known to be safe inside an operator")
        for argument in node.args:
            if argument.keyword is not None and argument.keyword.value in ("out", "generator"):
                raise Refused(f"`{code(node)}` takes `{argument.keyword.value}`")
            self.visit(argument, bound=bound, conditional=conditional)

    def is_computing(self, func: cst.Attribute) -> bool:
        """Whether it is a method that only computes, of a tensor where others have it, too."""
        name = func.attr.value
        if is_pure_method(name):
            return True
        fact = self.fact(func.value)
        return is_computing_method(name) and fact is not None and fact.is_tensor

    def receiver(self, node: cst.BaseExpression, bound: frozenset[str], conditional: bool) -> bool:
        """Pass what a pure method is called on; False, and nothing passed, if that cannot be."""
        before = list(self.parameters), dict(self.passed), dict(self.by_text)
        try:
            self.visit(node, bound=bound, conditional=conditional)
        except Refused:
            self.parameters, self.passed, self.by_text = before
            return False
        return True

    def root(self, node: cst.BaseExpression) -> str:
        while isinstance(node, cst.Attribute | cst.Subscript):
            node = node.value
        return node.value if isinstance(node, cst.Name) else ""

    def path(self, node: cst.BaseExpression, bound: frozenset[str], conditional: bool) -> bool:
        """Pass the shortest prefix of a chain that can be passed; False if none can."""
        if node in self.kept:
            return True
        if conditional and not activity(node).reads & bound and code(node) in self.by_text:
            self.passed[node] = self.by_text[code(node)]  # read already, where it is always read
            return True
        if isinstance(node, cst.Name):
            if node.value in bound:
                return True
            if node.value not in self.locals and self.is_static(node):
                return True
            return self.need(node)
        if isinstance(node, cst.Attribute):
            if not self.root(node):
                self.visit(node.value, bound=bound, conditional=conditional)
                return self.readable(node)
            if self.root(node) not in self.locals | bound and self.is_static(node):
                return True
            if self.path(node.value, bound, conditional):
                return self.readable(node)
        if isinstance(node, cst.Subscript):
            if not self.root(node):
                self.visit(node.value, bound=bound, conditional=conditional)
                found = True
            else:
                found = self.path(node.value, bound, conditional)
            if found:
                for element in node.slice:
                    self.visit(element, bound=bound, conditional=conditional)
                return True
            reads = activity(node).reads
            if reads & bound:
                return False
        # Reading further along a path that was not taken could raise.
        return (not conditional or self.is_there(node)) and self.need(node)

    def is_there(self, node: cst.BaseExpression) -> bool:
        """Whether a path can be read for certain, although the code may not come to read it.

        ``self.gain`` can where each call has read it above, and nothing has bound it since.
        """
        text, function = dotted(node), self.site.function
        if text is None or function is None or not isinstance(node, cst.Attribute):
            return False
        does = activity(function.body)
        rebound = any(text.startswith(name) for name in does.attribute_writes)
        if mentions(self.site, rf"\bdef {node.attr.value}\("):
            return False  # a property, which may do something when it is read
        if not text.startswith("self.") or "self" in does.bound or rebound or does.deletes:
            return False
        line = self.site.span(node).line
        for statement in function.body.body:
            if self.site.span(statement).end_line >= line:
                return False
            read: cst.CSTNode | None = None
            if isinstance(statement, cst.SimpleStatementLine):
                read = statement
            elif isinstance(statement, cst.If):
                read = statement.test
            lazy = cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.BaseComp
            if read is None or any(isinstance(it, lazy) for it in walk(read)):
                continue
            if any(isinstance(it, cst.Attribute) and dotted(it) == text for it in walk(read)):
                return True
        return False

    def readable(self, node: cst.Attribute) -> bool:
        if is_tensor_state(node.attr.value):
            return True
        raise Refused(f"`{code(node)}` may have another value inside an operator")

    def is_static(self, node: cst.BaseExpression) -> bool:
        """A global that is certain to be a module, a function, a class or their constant."""
        name = resolve(self.site.module, node)
        if name is not None and is_pure_function(name):
            return True
        fact = self.site.fact(node)
        is_path = fact is not None and fact.type.startswith("pathlib.")
        return is_path and is_global_object(self.site, node)

    def unpassable(self, node: cst.CSTNode, bound: frozenset[str], conditional: bool) -> None:
        fact = self.fact(node)
        kind = "of unknown type" if fact is None else f"a {fact.type or fact.kind}"
        raise Refused(f"`{code(node)}` is {kind}, which an operator does not take")

    def fact(self, node: cst.CSTNode) -> Fact | None:
        fact = self.site.fact(node)
        if fact is None and isinstance(node, cst.Name) and node.value in self.locals:
            fact = self.before.get(node.value)
        if fact is None and isinstance(node, cst.Attribute):
            fact = self.fact_elsewhere(node)
        return fact

    def fact_elsewhere(self, node: cst.Attribute) -> Fact | None:
        """What ``self.gain`` was where the function names it, too, if nothing binds it there."""
        text, function = dotted(node), self.site.function
        if text is None or function is None or not text.startswith("self."):
            return None
        does = activity(function.body)
        if "self" in does.bound or any(text.startswith(name) for name in does.attribute_writes):
            return None
        same = (it for it in walk(function.body) if isinstance(it, cst.Attribute))
        facts = (self.site.fact(it) for it in same if it is not node and dotted(it) == text)
        return next((fact for fact in facts if fact is not None), None)

    def need(
        self, node: cst.BaseExpression, *, dedupe: bool = True, fact: Fact | None = None
    ) -> bool:
        fact = fact or self.fact(node)
        # What a caller or an object holds is a plain Python number; a local may come from a tensor.
        outside = isinstance(node, cst.Attribute) or (
            isinstance(node, cst.Name) and (node.value in self.own or node.value not in self.locals)
        )
        found = self.type_of(fact, may_be_symbolic=not outside)
        if found is None or fact is None:
            return False
        annotation, wrapper = found
        text = code(node)
        parameter = self.by_text.get(text) if dedupe else None
        if parameter is None:
            name = self.name_for(node)
            if self.may_be_none(node) and not wrapper and "Tensor]" not in annotation:
                annotation += " | None"
            parameter = Parameter(name, annotation, node.deep_clone(), fact, wrapper)
            self.parameters.append(parameter)
            if dedupe:
                self.by_text[text] = parameter
        self.passed[node] = parameter
        return True

    def type_of(self, fact: Fact | None, *, may_be_symbolic: bool) -> tuple[str, str] | None:
        """The annotation (and wrapper) under which a value is passed (see `schema_type`)."""
        return schema_type(fact, may_be_symbolic=may_be_symbolic)

    def may_be_none(self, node: cst.BaseExpression) -> bool:
        """Whether the function itself reckons with None (see `may_be_none`)."""
        if isinstance(node, cst.Name) and node.value not in self.own:
            return False
        function = self.site.function_of(node)
        return function is not None and may_be_none(function, node)

    def name_for(self, node: cst.BaseExpression) -> str:
        if isinstance(node, cst.Name):
            return node.value
        if isinstance(node, _TEXTS):
            name = fresh("text", self.taken)
            self.taken.add(name)
            return name
        last = node.func if isinstance(node, cst.Call) else node
        while isinstance(last, cst.Subscript):
            last = last.value
        if isinstance(last, cst.Attribute):
            base = last.attr.value
        else:
            base = last.value if isinstance(last, cst.Name) else telling_name(node)
        inner = last.value if isinstance(last, cst.Attribute) else None
        if isinstance(node, cst.Call) and isinstance(inner, cst.Name) and inner.value != "self":
            base = f"{inner.value}_{base}"
        name = fresh(base, self.taken)
        self.taken.add(name)
        return name


def _asks_for_none(node: cst.CSTNode, names: frozenset[str]) -> bool:
    """Whether one of the names is compared with None."""
    for part in walk(node):
        match part:
            case cst.Comparison(left=cst.Name(value=name), comparisons=[target, *_]):
                if name in names and isinstance(target.operator, cst.Is | cst.IsNot):
                    return True
    return False


class Replace(cst.CSTTransformer):
    """Puts other nodes in the place of given ones."""

    def __init__(self, new: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self.new = new

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        new = self.new.get(original_node)
        if new is None:
            return updated_node
        if isinstance(original_node, cst.BaseExpression) and original_node.lpar:
            new = new.with_changes(lpar=original_node.lpar, rpar=original_node.rpar)
        return new


def tensors(captured: Captured) -> Iterator[Fact]:
    """Facts of all tensors that are passed, those in lists too."""
    for parameter in captured.parameters:
        if parameter.fact.is_tensor:
            yield parameter.fact
        for item in parameter.fact.items or ():
            if item.is_tensor:
                yield item
