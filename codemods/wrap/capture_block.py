"""What statements need from their function when they move into an operator (see `capture`).

The statements may compute: bind names, loop, collect into lists of their own.  They may leave by an
error only, and change nothing but what they have made themselves.  Names that they bind are no
inputs, and need not have been seen: a block that reports what is wrong has mostly never run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.liveness import live_before
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, statements_of, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .capture import (
    Collector,
    Parameter,
    Refused,
    Replace,
    check_echoes,
    is_plain_tensor,
    schema_type,
)

#: Methods that change a container and take or give nothing that an operator could not hold.
_CHANGING = words("append extend add update insert setdefault sort reverse discard remove pop")
#: What makes a new container or number: functions, and methods by their names with a dot.
_CONTAINERS = words("list dict set sorted .tolist .split")
_NUMBERS = words("len int float .item .sum .count")
_COLLECTIONS = words("collections.Counter collections.OrderedDict collections.defaultdict")

#: Judges a call that is a statement: the nodes that stay as they are (or what stands for them);
#: None where it is no effect that may move.
EffectOf = Callable[[cst.CSTNode], "dict[cst.CSTNode, cst.CSTNode] | None"]


@dataclasses.dataclass(frozen=True)
class CapturedBlock:
    """Statements that read their parameters, and the parameters in the order of first use."""

    statements: tuple[cst.BaseStatement, ...]
    parameters: tuple[Parameter, ...]


def capture_block(
    site: Site,
    run: Sequence[cst.BaseStatement],
    at: Sequence[cst.BaseStatement],
    torch: str,
    is_error: Callable[[cst.BaseExpression], bool],
    effect_of: EffectOf,
) -> CapturedBlock:
    """Split neighbouring statements into a block for an operator and the values to pass to it.

    ``at`` are the statements of the function that they make up or are made of.  ``is_error`` says
    of an expression whether it is a class of errors that the operator can name.  Raises `Refused`
    where a statement may do more than to compute, to raise and to have an effect.
    """
    collector = _BlockCollector(site, run, at, is_error, effect_of)
    for statement in run:
        collector.statement(statement, conditional=False)
    new = collector.replacements(torch)
    check_echoes(run, new)
    replace = Replace(new)
    moved = [statement.visit(replace) for statement in run]
    first = [cst.parse_statement(line) for line in collector.prelude]
    statements = [line for line in (*first, *moved) if isinstance(line, cst.BaseStatement)]
    return CapturedBlock(tuple(statements), tuple(collector.parameters))


class _BlockCollector(Collector):
    def __init__(
        self,
        site: Site,
        run: Sequence[cst.BaseStatement],
        at: Sequence[cst.BaseStatement],
        is_error: Callable[[cst.BaseExpression], bool],
        effect_of: EffectOf,
    ) -> None:
        super().__init__(site, at, {})
        assert site.function is not None
        self.function = site.function
        self.locals |= frozenset(activity(self.function.body).bound)
        self.before = site.locals_before(at[0]) or site.locals_before(site.statement)
        self.run = run
        self.is_error = is_error
        self.effect_of = effect_of
        self.loops = 0
        #: Lines that make again what is passed in parts.
        self.prelude: list[str] = []
        self.block = frozenset(activity(list(run)).bound)
        early = self.block & live_before(self.function, at[0])
        if early:
            raise Refused(f"`{min(early)}` has a value before, which may be read")
        kept: dict[cst.CSTNode, cst.CSTNode] = {
            place: place
            for name in self.block
            for line in run
            for place in site.places_of(name, line)
        }
        self.kept = kept

    # -- statements ------------------------------------------------------------------------------

    def statement(self, node: cst.CSTNode, *, conditional: bool) -> None:
        match node:
            case cst.SimpleStatementLine():
                for small in node.body:
                    self.small(small, conditional)
            case cst.If():
                self.test(node.test, conditional)
                self.block_of(node.body)
                if isinstance(node.orelse, cst.If):
                    self.statement(node.orelse, conditional=True)
                elif node.orelse is not None:
                    self.block_of(node.orelse.body)
            case cst.For(asynchronous=None, orelse=None):
                self.target(node.target)
                self.visit(node.iter, bound=frozenset(), conditional=conditional)
                self.loops += 1
                self.block_of(node.body)
                self.loops -= 1
            case cst.With(asynchronous=None) if all(map(self.is_no_grad, node.items)):
                self.kept = {
                    **self.kept,
                    **{part: part for item in node.items for part in walk(item)},
                }
                for line in statements_of(node.body):
                    self.statement(line, conditional=conditional)
            case _:
                word = code(node).strip().partition("\n")[0]
                raise Refused(f"`{word}` is not known to be safe inside an operator")

    def block_of(self, body: cst.BaseSuite) -> None:
        for line in statements_of(body):
            if isinstance(line, cst.BaseStatement):
                self.statement(line, conditional=True)
            else:
                self.small(line, True)

    def small(self, node: cst.CSTNode, conditional: bool) -> None:
        match node:
            case cst.Pass() | cst.Expr(value=cst.SimpleString()):
                return
            case cst.Break() | cst.Continue() if self.loops:
                return
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    self.target(target.target)
                self.value(value, conditional)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                self.target(target)
                self.value(value, conditional)
            case cst.AugAssign(target=cst.Name(value=name), value=value):
                if not self.is_own(name, _NUMBERS | _CONTAINERS):
                    raise Refused(f"`{code(node)}` may change what others hold")
                self.visit(value, bound=frozenset(), conditional=conditional)
            case cst.Expr(value=cst.Call() as call):
                self.stated(call, conditional)
            case cst.Raise():
                self.raised(node)
            case cst.Assert(test=test, msg=message):
                self.test(test, conditional)
                if message is not None:
                    self.visit(message, bound=frozenset(), conditional=True)
            case _:
                raise Refused(f"`{code(node)}` is not known to be safe inside an operator")

    def is_no_grad(self, item: cst.WithItem) -> bool:
        return item.asname is None and code(item.item) == "torch.no_grad()"

    def target(self, node: cst.BaseExpression) -> None:
        """What is bound: names, or an entry of a container that the block has made."""
        match node:
            case cst.Name():
                return
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for element in elements:
                    self.target(element.value)
            case cst.StarredElement(value=value):
                self.target(value)
            case cst.Subscript(value=cst.Name(value=name)) if self.is_own(name, _CONTAINERS):
                for part in node.slice:
                    self.visit(part, bound=frozenset(), conditional=True)
            case _:
                raise Refused(f"`{code(node)}` is set, which others may read")

    def test(self, node: cst.BaseExpression, conditional: bool) -> None:
        """A test; a tensor in it that cannot be computed inside is computed where it was."""
        match node:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                self.test(inner, conditional)
            case cst.BooleanOperation(left=left, right=right):
                self.test(left, conditional)
                self.test(right, True)
            case _:
                self.value(node, conditional)

    def value(self, node: cst.BaseExpression, conditional: bool) -> None:
        if conditional:
            self.visit(node, bound=frozenset(), conditional=True)
        else:
            self.first(node)

    def stated(self, call: cst.Call, conditional: bool) -> None:
        """A call for what it does: to a container of the block, or an effect."""
        kept = self.effect_of(call)
        if kept is not None:
            self.kept = {**self.kept, **kept}
            for argument in call.args:
                self.visit(argument, bound=frozenset(), conditional=True)
            return
        match call.func:
            case cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value=method)):
                if method in _CHANGING and self.is_own(name, _CONTAINERS):
                    for argument in call.args:
                        self.visit(argument, bound=frozenset(), conditional=conditional)
                    return
        raise Refused(f"`{code(call)}` is not known to be safe inside an operator")

    def raised(self, node: cst.Raise) -> None:
        if node.cause is not None and code(node.cause.item) != "None":
            raise Refused("it raises an error from another one")
        error = node.exc
        kind = error.func if isinstance(error, cst.Call) else error
        if error is None or kind is None or not self.is_error(error):
            raise Refused(f"`{code(node)}` raises what an operator may not know")
        self.kept = {**self.kept, kind: kind}
        for argument in error.args if isinstance(error, cst.Call) else ():
            if argument.star:
                raise Refused(f"`{code(error)}` unpacks its arguments")
            self.visit(argument, bound=frozenset(), conditional=True)

    def is_own(self, name: str, makers: frozenset[str]) -> bool:
        """Whether whatever the block binds to a name is made there, and is no tensor."""
        if name not in self.block:
            return False
        found = False
        for part in (part for line in self.run for part in walk(line)):
            match part:
                case cst.Assign(targets=targets, value=value):
                    if any(name in _names(one.target) for one in targets):
                        plain = len(targets) == 1 and isinstance(targets[0].target, cst.Name)
                        if not plain or not self.is_made(value, makers):
                            return False
                        found = True
                case cst.AnnAssign(target=target, value=value):
                    if name in _names(target):
                        if value is None or not self.is_made(value, makers):
                            return False
                        found = True
                case cst.For(target=target) | cst.CompFor(target=target):
                    if name in _names(target):
                        return False
                case cst.NamedExpr():
                    return False
        return found

    def is_made(self, node: cst.BaseExpression, makers: frozenset[str]) -> bool:
        match node:
            case cst.List() | cst.Dict() | cst.Set() | cst.ListComp() | cst.DictComp():
                return True
            case cst.SetComp() | cst.SimpleString() | cst.FormattedString() | cst.BaseNumber():
                return True
            case cst.Call(func=func):
                last = f".{func.attr.value}" if isinstance(func, cst.Attribute) else code(func)
                return last in makers or resolve(self.site.module, func) in _COLLECTIONS
        return False

    # -- expressions -----------------------------------------------------------------------------

    def visit(self, node: cst.CSTNode, *, bound: frozenset[str], conditional: bool) -> None:
        if isinstance(node, cst.Lambda):
            params = [*node.params.params, *node.params.posonly_params]
            plain = len(params) == len(activity(node.params).bound) or not node.params.kwonly_params
            if not plain or any(param.default is not None for param in params):
                raise Refused(f"`{code(node)}` has parameters of another kind")
            names = {param.name.value for param in params}
            self.visit(node.body, bound=bound | names, conditional=True)
            return
        if isinstance(node, cst.Call) and (
            resolve(self.site.module, node.func) in _COLLECTIONS
            and self.root(node.func) not in self.locals | bound
        ):
            for argument in node.args:
                self.visit(argument, bound=bound, conditional=conditional)
            return
        super().visit(node, bound=bound, conditional=conditional)

    def text(self, node: cst.BaseExpression) -> None:
        if activity(node).reads & self.block:
            for child in node.children:
                self.visit(child, bound=frozenset(), conditional=False)
            return
        super().text(node)

    def fact(self, node: cst.CSTNode) -> Fact | None:
        fact = super().fact(node)
        if fact is None and isinstance(node, cst.Attribute) and self.is_there(node):
            fact = self.in_init(node)
        return fact

    def is_there(self, node: cst.BaseExpression) -> bool:
        """Whether it is an attribute that the object's ``__init__`` sets in any case."""
        return self.assigned(node) is not None

    def assigned(
        self, node: cst.BaseExpression
    ) -> tuple[cst.FunctionDef, cst.BaseExpression] | None:
        """The ``__init__`` and the value for ``self.limit``, where it is set once, in any case."""
        me = next((p.name.value for p in self.function.params.params), "")
        match node:
            case cst.Attribute(value=cst.Name(value=root), attr=cst.Name(value=attribute)):
                if root != me or root not in self.own:
                    return None
            case _:
                return None
        holder = self.site.class_of(self.function)
        init = next(
            (
                line
                for line in (statements_of(holder.body) if holder is not None else ())
                if isinstance(line, cst.FunctionDef) and line.name.value == "__init__"
            ),
            None,
        )
        for line in statements_of(init.body) if init is not None else ():
            if isinstance(line, cst.SimpleStatementLine):
                for small in line.body:
                    value = _set_by(small, f"self.{attribute}")
                    if value is not None and init is not None:
                        return init, value
        return None

    def in_init(self, node: cst.Attribute) -> Fact | None:
        """What an attribute holds that was never read, by the text of ``__init__``."""
        found = self.assigned(node)
        holder = self.site.class_of(self.function)
        if found is None or holder is None:
            return None
        stores = [
            part
            for part in walk(holder)
            if isinstance(part, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.Element)
            and code(part.value if isinstance(part, cst.Element) else part.target) == code(node)
        ]
        if len(stores) > 1:
            return None
        init, value = found
        match value:
            case cst.Integer() | cst.Float():
                return Fact("int", "int")
            case cst.SimpleString() | cst.FormattedString():
                return Fact("str", "str")
            case cst.Name(value=name):
                for param in (*init.params.params, *init.params.kwonly_params):
                    if param.name.value == name and param.annotation is not None:
                        kind = code(param.annotation.annotation)
                        if kind in ("str", "int", "float", "bool"):
                            return Fact(kind, kind)
        return None

    def is_static(self, node: cst.BaseExpression) -> bool:
        if super().is_static(node):
            return True
        return isinstance(node, cst.Name) and self.is_constant(node.value)

    def is_constant(self, name: str) -> bool:
        """Whether a global is bound once, to a number or text that stands there."""
        module = self.site.module
        if name in self.locals or len(module_bindings(module).get(name, ())) != 1:
            return False
        if any(
            isinstance(part, cst.Global) and any(item.name.value == name for item in part.names)
            for part in walk(module)
        ):
            return False
        for line in module.body:
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                value = _set_by(small, name)
                if value is not None:
                    return _is_literal(value)
        return False

    def type_of(self, fact: Fact | None, *, may_be_symbolic: bool) -> tuple[str, str] | None:
        found = schema_type(fact, may_be_symbolic=may_be_symbolic)
        if found is not None or fact is None or fact.type not in ("list", "tuple"):
            return found
        if {item.kind for item in fact.items or ()} == {"str"}:
            return "list[str]", "" if fact.type == "list" else "tuple"
        return None

    def need(
        self, node: cst.BaseExpression, *, dedupe: bool = True, fact: Fact | None = None
    ) -> bool:
        if activity(node).reads & self.block:
            return False
        known = fact or self.fact(node)
        if known is not None and known.kind == "dict" and known.type == "dict":
            return self.need_dict(node, known)
        return super().need(node, dedupe=dedupe, fact=fact or known)

    def need_dict(self, node: cst.BaseExpression, fact: Fact) -> bool:
        """Pass a dict of tensors as its keys and its values."""
        items = fact.items or ()
        if not items or fact.keys is None or len(fact.keys) != len(items):
            return False
        if not all(item.is_tensor and is_plain_tensor(item) for item in items):
            return False
        parameter = self.by_text.get(code(node))
        if parameter is None:
            base = self.name_for(node)
            names = []
            for what, annotation in (("keys", "list[str]"), ("values", "list[torch.Tensor]")):
                name = fresh(f"{base}_{what}", self.taken)
                self.taken.add(name)
                names.append(name)
                listed = cst.Call(
                    cst.Name("list"),
                    [cst.Arg(cst.Call(cst.Attribute(node.deep_clone(), cst.Name(what))))],
                )
                given = fact if what == "values" else Fact("list", "list")
                self.parameters.append(Parameter(name, annotation, listed, given))
            self.prelude.append(f"{base} = dict(zip({names[0]}, {names[1]}, strict=True))")
            parameter = Parameter(base, "dict", node.deep_clone(), fact)
            self.by_text[code(node)] = parameter
        self.passed[node] = parameter
        return True


def _names(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


def _set_by(small: cst.CSTNode, text: str) -> cst.BaseExpression | None:
    """The value that a statement binds to what is written so."""
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as target)], value=value):
            if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
                for one, other in zip(target.elements, value.elements, strict=True):
                    if code(one.value) == text:
                        return other.value
        case cst.Assign(targets=targets, value=value):
            if any(code(target.target) == text for target in targets):
                return value
        case cst.AnnAssign(target=target, value=value):
            if code(target) == text:
                return value
    return None


def _is_literal(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Tuple(elements=elements):
            return all(_is_literal(element.value) for element in elements)
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return isinstance(inner, cst.BaseNumber)
    return isinstance(node, cst.BaseNumber | cst.SimpleString)
