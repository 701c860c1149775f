"""Functions of the file that compute each row of their arguments by itself."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, words
from gbfix.codemod import Site
from gbfix.rewriting.modules import overriders, stores

from .selections import HOMES, SMOOTH, STEEP, TWO

#: Reduce one dimension, and keep the others.
_REDUCE = words(
    """sum mean prod norm vector_norm argmax argmin amax amin logsumexp all any nansum
    count_nonzero"""
)
#: Work along one dimension, and keep all.
_ALONG = words("softmax log_softmax cumsum normalize flip")
#: Take the order of a norm before the dimension.
_ORDERED = words("norm vector_norm normalize")
#: Views of one dimension, in parts.
_PARTS = words("chunk split unbind")
#: Keep everything, whatever their other arguments.
_SAME = words("float double half bfloat16 long int bool type_as to clone contiguous detach")
_LIKE = words("zeros_like ones_like full_like")
#: What may be without bounds, or have no finite derivative.
_RISKY = STEEP | words("norm vector_norm normalize div divide true_divide atan2 hypot pow")
_BUILTINS = words("float int bool min max abs round isinstance str len")
_IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
_MOST_PATHS = 32


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor whose first dimension counts rows.

    ``risky``: it may be infinite for some rows, or have no finite derivative.  ``own``: no other
    name leads to its memory.
    """

    rank: int
    risky: bool = False
    own: bool = False


@dataclasses.dataclass(frozen=True)
class Plain:
    """What is the same whatever rows there are; its value, where the text says it."""

    value: object = None
    told: bool = False


@dataclasses.dataclass(frozen=True)
class Parts:
    """A tuple of rows: of so many, or of any number that are alike."""

    items: tuple[Value, ...] = ()
    each: Row | None = None


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a row's tensor, of which the first is not to be read."""

    rank: int


Value = Row | Plain | Parts | Shape


class NotByRows(Exception):
    """Something reads other rows, or nothing is known of it."""


def helper_rows(site: Site, node: cst.Call, given: Sequence[Value | None]) -> Row | None:
    """What a call of a function of the file gives, for such arguments; None if it is not by rows.

    ``given`` has a value for each argument as written; None stands for what is not known.
    """
    try:
        found = _called(site, node, list(given), 3)
    except NotByRows:
        return None
    return found if isinstance(found, Row) else None


def is_of_file(site: Site, node: cst.Call) -> bool:
    """Whether the file has the one function that is called, or the class has the one method."""
    return _function(site, node)[0] is not None


def _called(site: Site, node: cst.Call, given: list[Value | None], depth: int) -> Value:
    function, bound = _function(site, node)
    if function is None or depth == 0 or any(arg.star for arg in node.args):
        raise NotByRows
    env: dict[str, Value] = {}
    every = function.params
    if every.star_kwarg is not None or isinstance(every.star_arg, cst.Param):
        raise NotByRows
    plain = [*every.posonly_params, *every.params]
    if bound:
        env[plain[0].name.value] = Plain()
        plain = plain[1:]
    for param in (*plain, *every.kwonly_params):
        if param.default is not None and (told := literal(param.default)).told:
            env[param.name.value] = told
    for position, (arg, value) in enumerate(zip(node.args, given, strict=True)):
        if arg.keyword is None and position >= len(plain):
            raise NotByRows
        name = arg.keyword.value if arg.keyword is not None else plain[position].name.value
        if value is None:
            raise NotByRows
        env[name] = value
    names = {param.name.value for param in (*plain, *every.kwonly_params)}
    if not names <= set(env):
        raise NotByRows
    results = list(_Body(site, depth).run(list(function.body.body), env))
    if not results:
        raise NotByRows
    first = results[0]
    if not all(_alike(first, other) for other in results):
        raise NotByRows
    return _joined(results)


def _function(site: Site, node: cst.Call) -> tuple[cst.FunctionDef | None, bool]:
    """The function of this file that is called, and whether an object is put before the rest."""
    match node.func:
        case cst.Name(value=name) if not _is_local(site, node, name):
            match module_bindings(site.module).get(name, ()):
                case [cst.FunctionDef(decorators=[], asynchronous=None) as function]:
                    return function, False
        case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value=name)):
            around: cst.CSTNode | None = site.class_of(site.node)
            if owner != "self":
                found = () if _is_local(site, node, owner) else module_bindings(site.module)[owner]
                around = found[0] if [type(it) for it in found] == [cst.ClassDef] else None
            return _method(site, around, name, plain=owner == "self")
    return None, False


def _is_local(site: Site, node: cst.CSTNode, name: str) -> bool:
    """Whether a function around the node binds the name: it is not the module's then."""
    functions = (it for it in site.ancestors(node) if isinstance(it, cst.FunctionDef))
    bound = any(name in function_scope(it).locals for it in functions)
    return bound or name not in module_bindings(site.module)


def _method(
    site: Site, owner: cst.CSTNode | None, name: str, *, plain: bool
) -> tuple[cst.FunctionDef | None, bool]:
    """The one method of that name that objects of the class have."""
    if not isinstance(owner, cst.ClassDef):
        return None, False
    methods = [
        it for it in owner.body.body if isinstance(it, cst.FunctionDef) and it.name.value == name
    ]
    if len(methods) != 1 or methods[0].asynchronous is not None:
        return None, False
    lines = [it for it in owner.body.body if isinstance(it, cst.SimpleStatementLine)]
    again = any(name in activity(line).bound for line in lines)
    if again or stores(site, owner.name.value, name) or overriders(site, owner.name.value, name):
        return None, False
    told = [code(it.decorator) for it in methods[0].decorators]
    if told == ["staticmethod"]:
        return methods[0], False
    return (methods[0], True) if plain and not told else (None, False)


def literal(node: cst.BaseExpression) -> Plain:
    """What the text says that an expression is; a `Plain` that nothing is told of otherwise."""
    match node:
        case cst.Integer() | cst.Float() | cst.SimpleString():
            return Plain(node.evaluated_value, told=True)
        case cst.Name("True" | "False" | "None" as word):
            return Plain({"True": True, "False": False, "None": None}[word], told=True)
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float()):
            return Plain(-node.expression.evaluated_value, told=True)  # type: ignore[attr-defined]
    return Plain()


def _alike(one: Value, other: Value) -> bool:
    match one, other:
        case Row(), Row():
            return one.rank == other.rank
        case Parts(each=None), Parts(each=None):
            pairs = zip(one.items, other.items, strict=False)
            return len(one.items) == len(other.items) and all(_alike(*pair) for pair in pairs)
    return False


def _joined(values: Sequence[Value]) -> Value:
    """What holds of every path's result."""
    if isinstance(values[0], Parts):
        columns = zip(*(value.items for value in values if isinstance(value, Parts)), strict=True)
        return Parts(tuple(_joined(column) for column in columns))
    rows = [value for value in values if isinstance(value, Row)]
    return Row(
        rows[0].rank,
        risky=any(row.risky for row in rows),
        own=all(row.own for row in rows),
    )


class _Body:
    """Runs the statements of a function on what is known of its arguments."""

    def __init__(self, site: Site, depth: int) -> None:
        self.site = site
        self.depth = depth
        self._paths = itertools.count()

    def run(self, statements: Sequence[cst.CSTNode], env: dict[str, Value]) -> Iterator[Value]:
        """What each path returns."""
        if next(self._paths) > _MOST_PATHS:
            raise NotByRows
        env = dict(env)
        lines = list(statements)
        while lines:
            line = lines.pop(0)
            match line:
                case cst.SimpleStatementLine(body=body):
                    lines = [*body, *lines]
                case cst.With(items=[cst.WithItem(item=cst.Call(args=[]) as call, asname=None)]):
                    if resolve(self.site.module, call.func) != "torch.no_grad":
                        raise NotByRows
                    lines = [*line.body.body, *lines]
                case cst.If(test=test, body=body, orelse=orelse):
                    told = self._plain(test, env)
                    if not told.told or told.value:
                        yield from self.run([*body.body, *lines], env)
                    if not told.told or not told.value:
                        yield from self.run([*_statements(orelse), *lines], env)
                    return
                case cst.Raise():
                    return
                case cst.Return(value=cst.BaseExpression() as value):
                    yield self.value(value, env)
                    return
                case _:
                    self._step(line, env)
        raise NotByRows

    def _step(self, line: cst.CSTNode, env: dict[str, Value]) -> None:
        """A statement that binds names, or only asks for something."""
        match line:
            case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()) | cst.Pass():
                pass
            case cst.Assign(targets=targets, value=value):
                found = self.value(value, env)
                for target in targets:
                    self._bind(target.target, found, env)
            case cst.AnnAssign(target=cst.Name() as name, value=cst.BaseExpression() as value):
                self._bind(name, self.value(value, env), env)
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
                old = env.get(name)
                if old is None or (isinstance(old, Row) and not old.own):
                    raise NotByRows
                if type(operator) not in _IN_PLACE:
                    raise NotByRows
                new = self._two(old, self.value(value, env))
                env[name] = _risky(new) if isinstance(operator, cst.DivideAssign) else new
            case cst.Assert(test=test, msg=None):
                self._plain(test, env)
            case _:
                raise NotByRows

    def _bind(self, target: cst.BaseExpression, value: Value, env: dict[str, Value]) -> None:
        match target:
            case cst.Name(value=name):
                # Another name for the same memory: neither may be changed from now on.
                env[name] = value
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for position, element in enumerate(elements):
                    if not isinstance(element, cst.Element):
                        raise NotByRows
                    self._bind(element.value, _item(value, position), env)
            case _:
                raise NotByRows

    def _plain(self, node: cst.BaseExpression, env: Mapping[str, Value]) -> Plain:
        found = self.value(node, env)
        if not isinstance(found, Plain):
            raise NotByRows
        return found

    # -- expressions -------------------------------------------------------------------------

    def value(self, node: cst.BaseExpression, env: Mapping[str, Value]) -> Value:
        """What is known of an expression; raises `NotByRows` where nothing is."""
        match node:
            case cst.Integer() | cst.Float() | cst.SimpleString():
                return literal(node)
            case cst.Name(value=name) if name in env:
                found = env[name]
                return dataclasses.replace(found, own=False) if isinstance(found, Row) else found
            case cst.Name("True" | "False" | "None"):
                return literal(node)
            case cst.Name() | cst.Attribute() if (resolve(self.site.module, node) or "").startswith(
                ("math.", "torch.float", "torch.int", "torch.bool", "builtins.")
            ):
                return Plain()
            case cst.Attribute(value=inner, attr=cst.Name(value=name)):
                return self._attribute(node, inner, name, env)
            case cst.UnaryOperation(operator=operator, expression=inner):
                found = self.value(inner, env)
                if isinstance(operator, cst.Not):
                    return _told(found, lambda value: not value)
                return self._two(found, Plain())
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self._operation(left, operator, right, env)
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                return self._comparison(left, operator, right, env)
            case cst.BooleanOperation() | cst.IfExp():
                return self._choice(node, env)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                if not all(isinstance(element, cst.Element) for element in elements):
                    raise NotByRows
                return Parts(tuple(self.value(element.value, env) for element in elements))
            case cst.Subscript():
                return self._part(node, env)
            case cst.Call():
                return self._call(node, env)
        raise NotByRows

    def _choice(self, node: cst.BooleanOperation | cst.IfExp, env: Mapping[str, Value]) -> Value:
        """``a and b``, ``a if b else c``, of what no row says."""
        if isinstance(node, cst.BooleanOperation):
            one = self._plain(node.left, env)
            if one.told and bool(one.value) is isinstance(node.operator, cst.Or):
                return one
            other = self._plain(node.right, env)
            return other if one.told else Plain()
        told = self._plain(node.test, env)
        if told.told:
            return self.value(node.body if told.value else node.orelse, env)
        both = [self.value(node.body, env), self.value(node.orelse, env)]
        if all(isinstance(it, Plain) for it in both):
            return Plain()
        if not _alike(*both):
            raise NotByRows
        return _joined(both)

    def _attribute(
        self, node: cst.Attribute, inner: cst.BaseExpression, name: str, env: Mapping[str, Value]
    ) -> Value:
        found = self.value(inner, env)
        match found, name:
            case Row(rank=rank), "shape":
                return Shape(rank)
            case Row(), "dtype" | "device" | "ndim":
                return Plain()
            case Parts(items=(first, second)), "values" | "indices":
                return first if name == "values" else second
            case Plain(), _:
                fact = infer(node, self.site.fact)
                if fact is not None and fact.is_python_scalar:
                    return Plain()
        raise NotByRows

    def _operation(
        self,
        left: cst.BaseExpression,
        operator: cst.BaseBinaryOp,
        right: cst.BaseExpression,
        env: Mapping[str, Value],
    ) -> Value:
        one, other = self.value(left, env), self.value(right, env)
        if isinstance(one, Plain) and isinstance(other, Plain):
            return Plain()
        if isinstance(operator, cst.MatrixMultiply | cst.LeftShift | cst.RightShift):
            raise NotByRows
        if isinstance(operator, cst.FloorDivide | cst.Modulo):
            raise NotByRows  # of integers, it fails for zero
        found = self._two(one, other)
        if isinstance(operator, cst.Divide):
            harmless = isinstance(right, cst.Integer | cst.Float) and right.evaluated_value != 0
            return found if harmless else _risky(found)
        if isinstance(operator, cst.Power):
            return found if isinstance(right, cst.Integer) else _risky(found)
        return found

    def _two(self, one: Value, other: Value) -> Value:
        """What an operator by elements gives."""
        match one, other:
            case Plain(), Plain():
                return Plain()
            case (Row(rank=first), Row(rank=second)) if first == second:
                return Row(first, risky=one.risky or other.risky, own=True)
            case (Row() as row, Plain()) | (Plain(), Row() as row):
                return dataclasses.replace(row, own=True)
        raise NotByRows

    def _comparison(
        self,
        left: cst.BaseExpression,
        operator: cst.BaseCompOp,
        right: cst.BaseExpression,
        env: Mapping[str, Value],
    ) -> Value:
        one, other = self.value(left, env), self.value(right, env)
        match one, operator, other:
            case Shape(), cst.Equal() | cst.NotEqual(), Shape():
                return Plain()  # both have as many rows
            case (_, cst.Is() | cst.IsNot(), Plain(value=None, told=True)):
                if isinstance(one, Plain) and not one.told:
                    return Plain()
                none = isinstance(one, Plain) and one.value is None
                return Plain(none is isinstance(operator, cst.Is), told=True)
            case Plain(told=True), cst.Equal(), Plain(told=True):
                return Plain(one.value == other.value, told=True)
            case Plain(told=True), cst.NotEqual(), Plain(told=True):
                return Plain(one.value != other.value, told=True)
            case Plain(), cst.In() | cst.NotIn(), Parts():
                return Plain()
            case _, cst.In() | cst.NotIn() | cst.Is() | cst.IsNot(), _:
                raise NotByRows
        return self._two(one, other)

    def _part(self, node: cst.Subscript, env: Mapping[str, Value]) -> Value:
        found = self.value(node.value, env)
        places = [element.slice for element in node.slice]
        texts = [code(place) for place in places]
        only = literal(places[0].value) if isinstance(places[0], cst.Index) else Plain()
        match found, only.value:
            case Parts(), int(place) if len(places) == 1:
                return _item(found, place)
            case Shape(rank=rank), int(place) if -rank < place != 0:
                return Plain()
            case Shape(rank=rank), None if rank > 1 and texts in (["-1:"], ["1:"]):
                return Plain()
            case Row(rank=rank), _ if texts[0] in (":", "...") and len(texts) > 1:
                kinds = [self._place(place, env) for place in places[1:]]
                dropped, added = kinds.count("one"), kinds.count("new")
                # Several lists are taken together, and may come first then.
                if len(kinds) - added < rank and kinds.count("listed") < 2:
                    return dataclasses.replace(found, rank=rank - dropped + added, own=False)
        raise NotByRows

    def _place(self, place: cst.BaseSlice, env: Mapping[str, Value]) -> str:
        """Whether an index takes one element of a dimension, some, or makes a new dimension."""
        match place:
            case cst.Slice(lower=lower, upper=upper, step=None):
                for end in (lower, upper):
                    if end is not None:
                        self._plain(end, env)
                return "some"
            case cst.Index(value=cst.Name("None")):
                return "new"
            case cst.Index(value=cst.List(elements=several)):
                if all(_is_number(it.value) for it in several):
                    return "listed"
            case cst.Index(value=index) if _is_number(index):
                return "one"
        raise NotByRows

    # -- calls -------------------------------------------------------------------------------

    def _call(self, node: cst.Call, env: Mapping[str, Value]) -> Value:
        if any(arg.star for arg in node.args) or code(node.func) in env:
            raise NotByRows
        name = resolve(self.site.module, node.func) or ""
        home, _, last = name.rpartition(".")
        args = list(node.args)
        if f"{home}." in HOMES or home == "torch.linalg":
            pass
        elif home == "builtins" or (home == "math"):
            return self._of_python(last if home == "builtins" else "", node, env)
        elif is_of_file(self.site, node):
            given: list[Value | None] = [self.value(arg.value, env) for arg in args]
            return _called(self.site, node, given, self.depth - 1)
        elif isinstance(node.func, cst.Attribute):
            last, args = node.func.attr.value, [cst.Arg(node.func.value), *args]
        else:
            raise NotByRows
        keywords = {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}
        values = [arg.value for arg in args if arg.keyword is None]
        return self._known(last, values, keywords, env, method=args != list(node.args))

    def _of_python(self, last: str, node: cst.Call, env: Mapping[str, Value]) -> Value:
        given = [self.value(arg.value, env) for arg in node.args]
        if last == "isinstance" and given and isinstance(given[0], Row):
            return Plain()
        if all(isinstance(value, Plain) for value in given) and (not last or last in _BUILTINS):
            return Plain()
        raise NotByRows

    def _known(
        self,
        last: str,
        values: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
        env: Mapping[str, Value],
        *,
        method: bool,
    ) -> Value:
        if not values:
            raise NotByRows
        first = self.value(values[0], env)
        if last in ("cat", "concat", "stack"):
            return self._together(last, first, values[1:], keywords)
        if isinstance(first, Plain) and not method:
            return self._of_numbers(last, values, keywords, env)
        if not isinstance(first, Row):
            raise NotByRows
        rest = values[1:]
        if method and last.endswith("_"):
            # It changes what no name holds: ``(a - b).clamp_(0)``.
            if not first.own or isinstance(values[0], cst.Name):
                raise NotByRows
            last = last.rstrip("_")
        if last in ("size", "dim"):
            return self._sizes(last, first, rest)
        if last in ("max", "min") and not (rest and isinstance(self.value(rest[0], env), Row)):
            return self._ends(first, rest, keywords)
        if last in _REDUCE | _ALONG:
            return self._along(last, first, rest, keywords)
        if last in _PARTS | words("unsqueeze"):
            return self._view(last, first, rest, keywords, env)
        if last in _SAME | _LIKE and not (last == "to" and keywords):
            given = [self.value(value, env) for value in rest]
            if not all(isinstance(value, Plain | Row) for value in given):
                raise NotByRows
            clean = Row(first.rank, own=True)
            return clean if last in _LIKE else dataclasses.replace(first, own=last == "clone")
        return self._by_element(
            "maximum" if last in ("max", "min") else last, first, rest, keywords, env
        )

    def _by_element(
        self,
        last: str,
        first: Row,
        rest: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
        env: Mapping[str, Value],
    ) -> Value:
        if last not in SMOOTH | STEEP | TWO or not set(keywords) <= {"min", "max", "alpha"}:
            raise NotByRows
        if any(code(value) in ("True", "False") for value in rest):
            raise NotByRows  # `F.relu(x, True)` changes `x`
        if last == "where" and len(rest) != 2:
            raise NotByRows  # of a condition alone, it gives positions
        found: Value = dataclasses.replace(first, own=True)
        for value in (*rest, *keywords.values()):
            found = self._two(found, self.value(value, env))
        return _risky(found) if last in _RISKY else found

    def _ends(
        self,
        first: Row,
        rest: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
    ) -> Value:
        """``x.max(-1)``: the values and where they are."""
        if set(keywords) - {"dim", "keepdim"}:
            raise NotByRows
        self._dim(rest[:1], keywords, first.rank)
        kept = self._keeps(rest[1:], keywords)
        part = dataclasses.replace(first, rank=first.rank if kept else first.rank - 1)
        return Parts((part, part))

    def _view(
        self,
        last: str,
        first: Row,
        rest: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
        env: Mapping[str, Value],
    ) -> Value:
        if last == "unsqueeze":
            self._dim(rest[:1], keywords, first.rank + 1)
            return dataclasses.replace(first, rank=first.rank + 1, own=False)
        if last == "unbind":
            self._dim(rest[:1], keywords, first.rank)
            return Parts(each=dataclasses.replace(first, rank=first.rank - 1, own=False))
        if not rest or not isinstance(self.value(rest[0], env), Plain | Parts):
            raise NotByRows
        self._dim(rest[1:2], keywords, first.rank)
        return Parts(each=dataclasses.replace(first, own=False))

    def _together(
        self,
        last: str,
        first: Value,
        rest: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
    ) -> Value:
        rows = first.items if isinstance(first, Parts) else ()
        if not rows or not all(isinstance(row, Row) and _alike(row, rows[0]) for row in rows):
            raise NotByRows
        joined = _joined(rows)
        assert isinstance(joined, Row)
        more = 1 if last == "stack" else 0
        self._dim(rest[:1], keywords, joined.rank + more)
        return dataclasses.replace(joined, rank=joined.rank + more, own=True)

    def _of_numbers(
        self,
        last: str,
        values: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
        env: Mapping[str, Value],
    ) -> Value:
        """``torch.where(1 > x, ...)`` and the like, whose first argument is a number."""
        if last not in TWO or keywords:
            raise NotByRows
        found: Value = Plain()
        for value in values:
            found = self._two(found, self.value(value, env))
        return _risky(found) if last in _RISKY else found

    def _sizes(self, last: str, first: Row, rest: list[cst.BaseExpression]) -> Value:
        if last == "dim":
            return Plain()  # what takes other ranks goes another way for them
        match [literal(value) for value in rest]:
            case [Plain(value=int(place), told=True)] if -first.rank < place != 0:
                return Plain()
            case []:
                return Shape(first.rank)
        raise NotByRows

    def _along(
        self,
        last: str,
        first: Row,
        rest: list[cst.BaseExpression],
        keywords: dict[str, cst.BaseExpression],
    ) -> Value:
        if set(keywords) - {"dim", "axis", "keepdim", "p"}:
            raise NotByRows
        # The second argument of these is no dimension, and others take several.
        if (last in _ORDERED and rest) or (last in _ALONG and len(rest) > 1):
            raise NotByRows
        self._dim(rest[:1], keywords, first.rank)
        kept = last in _ALONG or self._keeps(rest[1:], keywords)
        found = dataclasses.replace(first, rank=first.rank if kept else first.rank - 1, own=True)
        return _risky(found) if last in _RISKY else found

    def _keeps(
        self, rest: list[cst.BaseExpression], keywords: dict[str, cst.BaseExpression]
    ) -> bool:
        told = [*rest, *([keywords["keepdim"]] if "keepdim" in keywords else [])]
        match [literal(value) for value in told]:
            case []:
                return False
            case [Plain(value=bool(kept), told=True)]:
                return kept
        raise NotByRows

    def _dim(
        self, given: list[cst.BaseExpression], keywords: dict[str, cst.BaseExpression], rank: int
    ) -> None:
        """Checks that one dimension is told, which is not that of the rows."""
        told = [*given, *(keywords[name] for name in ("dim", "axis") if name in keywords)]
        match [literal(value) for value in told]:
            case [Plain(value=int(place), told=True)] if -rank < place < rank and place != 0:
                return
        raise NotByRows


def _statements(orelse: cst.CSTNode | None) -> list[cst.BaseStatement | cst.BaseSmallStatement]:
    match orelse:
        case cst.Else(body=body):
            return list(body.body)
        case cst.If():
            return [orelse]
    return []


def _item(value: Value, place: int) -> Value:
    match value:
        case Parts(each=Row() as each):
            return each
        case Parts(items=items) if -len(items) <= place < len(items):
            return items[place]
    raise NotByRows


def _risky(value: Value) -> Value:
    return dataclasses.replace(value, risky=True) if isinstance(value, Row) else value


def _told(value: Value, of: object) -> Plain:
    if not isinstance(value, Plain):
        raise NotByRows
    return Plain(of(value.value), told=True) if value.told and callable(of) else Plain()


def _is_number(node: cst.BaseExpression) -> bool:
    found = literal(node)
    return found.told and type(found.value) is int
