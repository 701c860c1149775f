"""A method that is called behind a condition, written where it is called."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.overriding import bound_on_objects
from gbfix.analysis.tree import code, is_docstring, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from ..choice.methods import outer_names, own_names
from ..choice.renaming import replaced

_BEFORE = """
import torch


class Net:
    def replace(self, rows, mask):
        {0}

    def expire(self, x):
        old = self.counts < 2
        if not torch.any(old):
            return
        x = x.reshape(-1, 4)
        {1}
"""
_STORE = "rows = torch.where(mask[..., None], rows, self.codes)\n        self.codes.copy_(rows)"
_FACTS = {
    "x": tensor(2, 3, 4),
    "old": tensor(6, dtype="torch.bool"),
    "torch.any(old)": tensor(dtype="torch.bool"),
    "self.counts": tensor(6),
    "self.codes": tensor(6, 4),
}
_AT = "not torch.any(old)"
#: What an argument may be to stand wherever the parameter stood.
_PLAIN = cst.Name | cst.BaseNumber | cst.SimpleString
#: What needs no parentheses wherever it stands.
_TIGHT = cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.BaseNumber
#: How deep methods that methods call are followed, and how much is written out in all.
_DEPTH, _MOST = 3, 60


def _near_miss(why: str, method: str = _STORE, call: str = "self.replace(x, mask=old)") -> NearMiss:
    return NearMiss(_BEFORE.format(method, call), at=_AT, why=why, facts=_FACTS)


class InlineMethod(Codemod):
    """*What it does.*  Writes out the methods that stand behind a condition of the data:

    ```python
    if not torch.any(expired):
        return
    self.replace(rows, mask=expired)
    ```
    becomes the statements of ``replace``, with ``rows`` and ``expired`` for its parameters.  That
    alone mends nothing: an operator cannot be given ``self``, and what the statements read of it
    can.

    *When it applies.*  The break is in a method, and statements in or below its statement (or the
    loop around it) are calls of other methods of the class, or give such a call's result a name.
    Of a method that is one ``return``, the value may stand anywhere.

    *Fix safety.*  Unsafe: the same statements run in the same order, with arguments that are
    computed first, but a subclass's own method is not called any more.

    *Refuses.*  Methods that return before their end, yield or await, that declare global names,
    define functions, speak of ``super`` or are decorated (but for ``torch.no_grad``); calls with
    stars.
    """

    name = "inline-method"
    codes = (
        "GB0170", "GB0124", "GB0033", "GB0036", "GB0088",
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
    )  # fmt: skip
    examples = (
        Example(
            _BEFORE.format(_STORE, "self.replace(x, mask=old)  # dead ones"),
            _BEFORE.format(
                _STORE,
                "# dead ones\n        rows = x\n"
                "        rows = torch.where(old[..., None], rows, self.codes)\n"
                "        self.codes.copy_(rows)",
            ),
            at=_AT,
            facts=_FACTS,
            title="a store (unsafe)",
        ),
        Example(
            _BEFORE.format("return rows[mask]", "x = self.replace(x[0] * 2, old)"),
            _BEFORE.format("return rows[mask]", "rows = x[0] * 2\n        x = rows[old]"),
            at=_AT,
            facts=_FACTS,
            title="a result",
        ),
        Example(
            _BEFORE.format("return rows / self.scale", "x = x + self.replace(x, old) * 2"),
            _BEFORE.format("return rows / self.scale", "x = x + (x / self.scale) * 2"),
            at=_AT,
            facts=_FACTS,
            title="a value among others",
        ),
    )
    near_misses = (
        _near_miss("it may return early", "if not x:\n            return\n        x.pop()"),
        _near_miss(
            "a result without a name", "rows = rows * 2\n        return rows",
            "return self.replace(x, old)",
        ),
        _near_miss("its `old` is a global", "return rows * old", "x = self.replace(x, x)"),
        _near_miss("stars", call="self.replace(*x)"),
        _near_miss("a generator", "yield rows"),
        _near_miss("another object's", call="self.other.replace(x, old)"),
        _near_miss("it has no such method", call="self.revive(x, old)"),
        _near_miss("a function of its own", "later = lambda: rows\n        later()"),
        _near_miss("its class's method", "super().replace(rows, mask)"),
        _near_miss("an argument is missing", call="self.replace(x)"),
        _near_miss("the class body wraps it", _STORE + "\n\n    replace = checked(replace)"),
        _near_miss("an object has its own", _STORE + "\n\n    def loud(self):\n"
                   "        self.replace = self.louder"),
        _near_miss("an argument that is a property", "return rows * 2\n\n    @property\n"
                   "    def keep(self):\n        return self.kept.pop()",
                   "x = x + self.replace(x, self.keep) * 2"),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        owner = site.class_of(function) if function is not None else None
        if function is None or owner is None:
            return
        project = {site.path: site.source, **site.sources}
        methods = {
            name: method
            for name, method in _methods_of(owner).items()
            if not any(bound_on_objects(owner.name.value, name, project))
        }
        methods.pop(function.name.value, None)
        first = site.span(_outermost(site, function)).line
        edit, names = site.edit(), []
        properties = frozenset(name for text in project.values() for name in _DEFINED.findall(text))
        inline = _Inline(methods, names_in(function) | {"self"}, own_names(function), properties)
        for statement in walk(function.body):
            if isinstance(statement, cst.SimpleStatementLine) and (
                site.span(statement).line >= first
                and site.function_of(statement) is function
                and (new := inline.lines(statement, _DEPTH)) is not None
            ):
                edit.replace(statement, *new)
            elif isinstance(statement, cst.SimpleStatementLine | cst.If | cst.While | cst.For) and (
                site.span(statement).line >= first and site.function_of(statement) is function
            ):
                for call, value in inline.values(statement):
                    edit.replace(call, value)
            names += inline.written
            inline.written = []
        if names:
            what = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
            yield edit.rewrite(
                f"write {what} out where it is called",
                rank=58,
                safety=Safety.UNSAFE,
                notes=(
                    f"The body of {what} was copied here, so the patch no longer calls a subclass's"
                    f" own {what}.",
                ),
                prepares=True,
            )


def _outermost(site: Site, function: cst.FunctionDef) -> cst.CSTNode:
    """The outermost loop around the break, or its statement."""
    found: cst.CSTNode = site.statement
    for parent in site.ancestors(site.statement):
        if parent is function:
            break
        if isinstance(parent, cst.For | cst.While):
            found = parent
    return found


def _methods_of(owner: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """The methods that the class has once, by name."""
    found: dict[str, list[cst.FunctionDef]] = {}
    for statement in owner.body.body:
        if isinstance(statement, cst.FunctionDef):
            found.setdefault(statement.name.value, []).append(statement)
    return {name: methods[0] for name, methods in found.items() if len(methods) == 1}


@dataclasses.dataclass
class _Call:
    """A statement that is a call of a method, and what gets its result."""

    method: cst.FunctionDef
    call: cst.Call
    target: cst.AssignTarget | None


class _Inline:
    """Writes methods out; keeps the names that are taken."""

    def __init__(
        self,
        methods: Mapping[str, cst.FunctionDef],
        taken: set[str],
        own: frozenset[str],
        properties: frozenset[str],
    ) -> None:
        self.methods = methods
        self.properties = properties
        self.taken = taken
        #: Local names of the caller: of the method's, they would take the place of globals.
        self.own = own
        #: Local names that methods brought which are written out already.
        self.brought: set[str] = set()
        self.written: list[str] = []
        self.count = 0

    def lines(self, statement: cst.CSTNode, depth: int) -> list[cst.BaseStatement] | None:
        """What stands in the place of the statement; None where it is no call of a method."""
        found = self._call(statement)
        if found is None or depth == 0:
            return None
        given = _arguments(found.method, found.call)
        block = found.method.body
        if given is None or not _is_plain(found.method) or not isinstance(block, cst.IndentedBlock):
            return None
        if outer_names(found.method) & (self.own | self.brought):
            return None
        body = [line for line in block.body if not is_docstring(line)]
        self.count += sum(isinstance(node, cst.SimpleStatementLine) for node in walk(block))
        result = _result_of(body[-1]) if body else None
        if exits(block).returns > (result is not None) or self.count > _MOST:
            return None
        if found.target is not None and result is None:
            return None
        self.taken |= outer_names(found.method)
        head, names = self._bound(found, given, block)
        lines = [replaced(line, names) for line in (body[:-1] if result is not None else body)]
        if found.target is not None and result is not None:
            value = replaced(result, names)
            lines.append(cst.SimpleStatementLine([cst.Assign([found.target], value)]))
        elif result is not None:
            lines.append(cst.SimpleStatementLine([cst.Expr(replaced(result, names))]))
        self.written.append(found.method.name.value)
        lines = self._inner(lines, depth)
        lines = [*head, *_in_mode(found.method, lines)] or [cst.SimpleStatementLine([cst.Pass()])]
        assert isinstance(statement, cst.SimpleStatementLine)
        above = [*statement.leading_lines]
        if statement.trailing_whitespace.comment is not None:
            above.append(cst.EmptyLine(comment=statement.trailing_whitespace.comment))
        own = [line for line in getattr(lines[0], "leading_lines", ()) if line.comment is not None]
        lines[0] = lines[0].with_changes(leading_lines=[*above, *own])
        return lines

    def values(self, statement: cst.CSTNode) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        """The calls in a statement's own expressions of methods that only return a value."""
        stack = [
            child for child in statement.children if not isinstance(child, cst.BaseSuite | cst.Else)
        ]
        while stack:
            node = stack.pop()
            if isinstance(node, cst.Lambda | cst.BaseComp | cst.If):
                continue
            value = self._value(node) if isinstance(node, cst.Call) else None
            if value is None:
                stack += node.children
            else:
                assert isinstance(node, cst.Call)
                yield node, value

    def _value(self, call: cst.Call) -> cst.BaseExpression | None:
        """What stands for a call of a method that is one ``return``, of names that it is given."""
        match call.func:
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(name)):
                method = self.methods.get(name)
            case _:
                return None
        if method is None or method.decorators or not isinstance(method.body, cst.IndentedBlock):
            return None
        body = [line for line in method.body.body if not is_docstring(line)]
        result = _result_of(body[0]) if len(body) == 1 else None
        given = _arguments(method, call)
        if result is None or given is None or not _is_plain(method):
            return None
        outer = outer_names(method)
        if outer & (self.own | self.brought):
            return None
        if not all(self._is_read_alike(value) for value in given.values()):
            return None
        self.taken |= outer
        self.written.append(name)
        value = replaced(result, given)
        if isinstance(value, _TIGHT) or value.lpar:
            return value
        return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def _is_read_alike(self, value: cst.BaseExpression) -> bool:
        """Whether a value may be read more often than once, or not at all: it is no property."""
        match value:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
                return name not in self.properties
        return isinstance(value, _PLAIN)

    def _inner(self, lines: Sequence[cst.BaseStatement], depth: int) -> list[cst.BaseStatement]:
        """The lines, with methods that they call written out in turn."""
        found: list[cst.BaseStatement] = []
        for line in lines:
            found += self.lines(line, depth - 1) or [line]
        return found

    def _call(self, statement: cst.CSTNode) -> _Call | None:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
                target = None
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name() | cst.Tuple()) as target],
                        value=cst.Call() as call,
                    )
                ]
            ):
                pass
            case _:
                return None
        match call.func:
            case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(name)) if (
                name in self.methods
            ):
                return _Call(self.methods[name], call, target)
        return None

    def _bound(
        self, found: _Call, given: Mapping[str, cst.BaseExpression], block: cst.IndentedBlock
    ) -> tuple[list[cst.BaseStatement], dict[str, cst.BaseExpression]]:
        """Lines that give parameters their values, and what stands for the method's names."""
        does = activity(block)
        names: dict[str, cst.BaseExpression] = {}
        head: list[cst.BaseStatement] = []
        for name in sorted(does.binds - given.keys()):
            new = self._fresh(name)
            names[name] = cst.Name(new)
            self.brought.add(new)
        passed = {value.value for value in given.values() if isinstance(value, cst.Name)}
        for name, value in given.items():
            if isinstance(value, _PLAIN) and name not in does.writes:
                names[name] = value
                continue
            # (What is passed under its own name may be bound again, once nobody reads it.)
            new = self._fresh(name) if name not in passed else self._fresh(f"{name}_now")
            names[name] = cst.Name(new)
            self.brought.add(new)
            if code(value) != new:
                assign = cst.Assign([cst.AssignTarget(cst.Name(new))], value)
                head.append(cst.SimpleStatementLine([assign]))
        return head, names

    def _fresh(self, name: str) -> str:
        new = fresh(name, self.taken) if name in self.taken else name
        self.taken.add(new)
        return new


def _is_plain(method: cst.FunctionDef) -> bool:
    """Whether the method's statements mean the same where it is called."""
    modes = all(code(item.decorator) in _MODES for item in method.decorators)
    if not modes or method.asynchronous is not None:
        return False
    params = method.params
    if not params.params or params.params[0].name.value != "self" or params.posonly_params:
        return False
    if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
        return False
    does, out = activity(method.body), exits(method.body)
    if does.dynamic or does.globals or does.nonlocals or out.yields or out.awaits:
        return False
    scopes = cst.FunctionDef | cst.ClassDef | cst.Lambda | cst.BaseComp | cst.NamedExpr
    return not any(
        isinstance(node, scopes | cst.Import | cst.ImportFrom | cst.Del)
        or (isinstance(node, cst.Name) and node.value in ("super", "__class__"))
        for node in walk(method.body)
    )


#: Methods, and so properties, and classes: what an attribute of that name may run.
_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)")
_MODES = ("torch.no_grad()", "torch.no_grad")


def _in_mode(
    method: cst.FunctionDef, lines: Sequence[cst.BaseStatement]
) -> Sequence[cst.BaseStatement]:
    """The lines under the modes that decorators switch on."""
    for _ in method.decorators:
        mode = cst.WithItem(cst.parse_expression("torch.no_grad()"))
        lines = [cst.With([mode], cst.IndentedBlock(list(lines)))]
    return lines


def _arguments(method: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """What each parameter is given, in the order of the call; None where that is not told."""
    params = [*method.params.params[1:], *method.params.kwonly_params]
    names = [param.name.value for param in method.params.params[1:]]
    given: dict[str, cst.BaseExpression] = {}
    for at, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and at >= len(names)):
            return None
        given[arg.keyword.value if arg.keyword is not None else names[at]] = arg.value
    for param in params:
        default = param.default
        if param.name.value in given:
            continue
        plain = isinstance(default, cst.BaseNumber | cst.SimpleString) or (
            default is not None and code(default) in ("None", "True", "False")
        )
        if default is None or not plain:
            return None
        given[param.name.value] = default
    return given if given.keys() == {param.name.value for param in params} else None


def _result_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What the last statement of a method returns."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.BaseExpression() as value)]):
            return value
    return None
