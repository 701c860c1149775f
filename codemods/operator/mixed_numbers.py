"""Lists of Python numbers of which the data decide whether they are whole: ``max(v, 0)``.

A tensor that is made of such a list, without a dtype, has one dtype in one call and another in the
next.  A fake knows one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .pieces import Piece
from .reached import called

Kinds = frozenset[str]
_NONE: Kinds = frozenset()
_WHOLE = words("int len ord hash math.floor math.ceil math.gcd math.comb math.factorial id")
_SAME = words("sorted list tuple set reversed abs iter next sum")
#: Methods that put what they are given into a list or a table.
_PUTS = words("append extend insert update setdefault appendleft extendleft add")
#: What gives a table's values, or one of them.
_OF_TABLES = words("values items copy get pop popitem setdefault")
_MAKERS = words("tensor as_tensor array asarray Tensor from_numpy")
_MOST = 8


def mixes_numbers(piece: Piece) -> bool:
    """Whether a tensor or an array of the piece is made of ints in one call, floats in another."""
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    places: list[Sequence[cst.CSTNode]] = [nodes, *([f.body] for f in called(site, nodes))]
    for place in places:
        reader = _Reader(site, place)
        for node in (part for top in place for part in walk(top)):
            if not isinstance(node, cst.Call) or not node.args:
                continue
            name = code(node.func).rpartition(".")[2]
            given = {arg.keyword.value for arg in node.args if arg.keyword is not None}
            # ``torch.Tensor`` gives floats, whatever it is given.
            if name not in _MAKERS or name == "Tensor" or "dtype" in given:
                continue
            if len([arg for arg in node.args if arg.keyword is None]) > 1:
                continue  # `np.array(x, int)`
            if len(reader.kinds(node.args[0].value, {})) > 1:
                return True
    return False


def may_be_fraction(piece: Piece) -> bool:
    """Whether a number of the piece that was whole in the run is a fraction in another call."""
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    reader = _Reader(site, nodes)
    leaves = [(result, leaf) for result in piece.results for leaf in result.leaves()]
    for result, leaf in leaves:
        if leaf.kind != "int":
            continue
        found = reader.kinds(leaf.node, {}) if leaf.node is not None else _NONE
        # What a table holds is told of its name.
        if "float" in (found or reader.name(leaf.name) | reader.name(result.name)):
            return True
    return False


class _Reader:
    """The kinds of Python numbers that expressions may give; none where they are not told."""

    def __init__(self, site: Site, nodes: Sequence[cst.CSTNode]) -> None:
        self.site = site
        self.nodes = nodes
        #: Functions whose results are being read, and what those that are read give.
        self.open: frozenset[str] = frozenset()
        self.given: dict[str, Kinds] = {}
        #: What calls give the parameters of functions, and the function that is read here.
        self.handed: dict[tuple[str, str], Kinds] = {}
        self.of = ""
        self.functions = {function.name.value: function for function in called(site, nodes)}
        self.values: dict[str, Kinds] | None = None
        self.bound: set[str] = set()
        self.unbound: dict[str, Kinds] = {}

    def kinds(self, node: cst.BaseExpression, own: Mapping[str, Kinds], depth: int = 0) -> Kinds:
        if depth > _MOST:
            return _NONE

        def of(inner: cst.BaseExpression) -> Kinds:
            return self.kinds(inner, own, depth + 1)

        match node:
            case cst.Name("True" | "False") | cst.Comparison():
                return frozenset({"bool"})
            case cst.Name(name):
                return own[name] if name in own else self.name(name)
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                return _NONE.union(*(of(element.value) for element in elements))
            case cst.Dict(elements=elements):
                return _NONE.union(*(of(element.value) for element in elements))
            case cst.ListComp() | cst.GeneratorExp():
                return self.comprehension(node, own, depth)
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
                return of(one) | of(other)
            case cst.UnaryOperation(operator=cst.Not()):
                return frozenset({"bool"})
            case cst.Subscript(value=cst.Name(name)) if self.table(name):
                return self.entries(name, own, depth)
            case cst.UnaryOperation(expression=inner) | cst.Subscript(value=inner):
                return of(inner) or self.seen(node)
            case cst.BinaryOperation(operator=cst.Divide()):
                return frozenset({"float"})
            case cst.BinaryOperation(left=left, right=right):
                return self.joined(of(left), of(right))
            case cst.Call():
                return self.call(node, own, depth)
        return self.literal(node) or self.seen(node)

    def literal(self, node: cst.BaseExpression) -> Kinds:
        if isinstance(node, cst.Integer | cst.Float):
            return frozenset({"int" if isinstance(node, cst.Integer) else "float"})
        return _NONE

    def comprehension(
        self, node: cst.ListComp | cst.GeneratorExp, own: Mapping[str, Kinds], depth: int
    ) -> Kinds:
        inside = dict(own)
        loop: cst.CompFor | None = node.for_in
        while loop is not None:
            inside |= self.targets(loop.target, loop.iter, inside, depth)
            loop = loop.inner_for_in
        return self.kinds(node.elt, inside, depth + 1)

    def joined(self, left: Kinds, right: Kinds) -> Kinds:
        """What arithmetic gives: one float is enough."""
        floats = frozenset({"float"})
        if floats in (left, right):
            return floats
        both = left | right
        if "bool" in both:
            both = both - {"bool"} | {"int"}
        return both if left and right else _NONE

    def call(self, node: cst.Call, own: Mapping[str, Kinds], depth: int) -> Kinds:
        name, args = code(node.func), [arg.value for arg in node.args if arg.keyword is None]
        given = [self.kinds(arg, own, depth + 1) for arg in args]
        match node.func:
            case cst.Attribute(value=value, attr=cst.Name("tolist" | "item")):
                dtype = (fact.dtype or "") if (fact := self.site.fact(value)) is not None else ""
                for part, kind in (("float", "float"), ("int", "int"), ("bool", "bool")):
                    if part in dtype:
                        return frozenset({kind})
                return self.seen(node)
        if name in self.functions and name not in self.open:
            self._hand(self.functions[name], node, own, depth)
            return self.returned(name)
        match node.func:
            case cst.Attribute(value=cst.Name(of), attr=cst.Name("get")) if self.table(of):
                return self.entries(of, own, depth).union(*given[1:])
        match node.func:
            case cst.Attribute(value=holder, attr=cst.Name(asked)) if asked in _OF_TABLES:
                return self.kinds(holder, own, depth + 1).union(*given[1:])
        if name in _WHOLE or (name == "round" and len(args) == 1):
            return frozenset({"int"})
        if name == "float" or name.startswith("math."):
            return frozenset({"float"})
        if name == "bool":
            return frozenset({"bool"})
        if name in ("max", "min", "round", "divmod", "pow"):
            return _NONE.union(*given)
        if name in _SAME:
            return given[0] if given else _NONE
        return self.seen(node)

    def _hand(
        self, function: cst.FunctionDef, node: cst.Call, own: Mapping[str, Kinds], depth: int
    ) -> None:
        """Note what a call gives a function's parameters; what it gives back is then read anew."""
        names = [param.name.value for param in function.params.params]
        for place, argument in enumerate(node.args):
            given = argument.keyword.value if argument.keyword is not None else ""
            if not given and place < len(names):
                given = names[place]
            kinds = self.kinds(argument.value, own, depth + 1)
            key = function.name.value, given
            if not kinds <= self.handed.get(key, _NONE):
                self.handed[key] = self.handed.get(key, _NONE) | kinds
                self.given.clear()

    def returned(self, name: str) -> Kinds:
        """What a function of the file gives back, in any of its returns."""
        if name in self.given:
            return self.given[name]
        function = self.functions[name]
        inner = _Reader(self.site, [function.body])
        inner.open, inner.given, inner.handed = self.open | {name}, self.given, self.handed
        inner.of = name
        found = _NONE.union(
            *(
                inner.kinds(part.value, {})
                for part in walk(function.body)
                if isinstance(part, cst.Return) and part.value is not None
            )
        )
        if not self.open:  # what is open gives more than is known of it so far
            self.given[name] = found
        return found

    def table(self, name: str) -> cst.Dict | None:
        """The dictionary that a global of the file is bound to."""
        match module_bindings(self.site.module).get(name, ()):
            case [cst.Assign(value=cst.Dict() as table)] | [
                cst.AnnAssign(value=cst.Dict() as table)
            ]:
                return table
        return None

    def entries(self, name: str, own: Mapping[str, Kinds], depth: int) -> Kinds:
        table = self.table(name)
        values = [item.value for item in table.elements] if table is not None else []
        return _NONE.union(*(self.kinds(value, own, depth + 1) for value in values))

    def seen(self, node: cst.CSTNode) -> Kinds:
        fact = self.site.fact(node)
        return frozenset({fact.kind}) if fact is not None and fact.is_python_scalar else _NONE

    def name(self, name: str) -> Kinds:
        """All that the piece gives a name, or puts into its list."""
        if self.values is None:
            self.values = {}
            self.bound = self._names_bound()
            while self._goes_on():
                pass
        found = self.values.get(name, _NONE) | self.handed.get((self.of, name), _NONE)
        return found if name in self.bound or found else self.seen_name(name)

    def _goes_on(self) -> bool:
        """Read all that is bound once more; whether that told anything new."""
        assert self.values is not None
        before = self._known()
        for node in (part for top in self.nodes for part in walk(top)):
            match node:
                case cst.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(self.targets(target.target, value, {}, 0, whole=True))
                        if isinstance(target.target, cst.Subscript):
                            self._add(_root(target.target), self.kinds(value, {}, 1))
                case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                    self._bind(self.targets(target, value, {}, 0, whole=True))
                case cst.AugAssign(target=target, value=value, operator=sign):
                    is_float = isinstance(sign, cst.DivideAssign)
                    kinds = frozenset({"float"}) if is_float else self.kinds(value, {}, 1)
                    self._add(_root(target), kinds)
                case cst.For(target=target, iter=value):
                    self._bind(self.targets(target, value, {}, 0))
                case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(name)), args=args) if (
                    name in _PUTS and (of := _root(value))
                ):
                    for argument in args[1:] if name == "insert" else args:
                        self._add(of, self.kinds(argument.value, {}, 1))
        return self._known() > before

    def _known(self) -> int:
        return sum(len(it) for told in (self.values or {}, self.handed) for it in told.values())

    def _names_bound(self) -> set[str]:
        found: set[str] = set()
        for node in (part for top in self.nodes for part in walk(top)):
            match node:
                case (
                    cst.AssignTarget(target=target)
                    | cst.For(target=target)
                    | cst.AnnAssign(target=target, value=cst.BaseExpression())
                ):
                    stack: list[cst.BaseExpression] = [target]
                    while stack:
                        one = stack.pop()
                        if isinstance(one, cst.Name):
                            found.add(one.value)
                        elif isinstance(one, cst.Tuple | cst.List):
                            stack += [element.value for element in one.elements]
        return found

    def _bind(self, given: Mapping[str, Kinds]) -> None:
        for name, kinds in given.items():
            self._add(name, kinds)

    def _add(self, name: str, kinds: Kinds) -> None:
        assert self.values is not None
        self.values[name] = self.values.get(name, _NONE) | kinds

    def seen_name(self, name: str) -> Kinds:
        if name not in self.unbound:
            self.unbound[name] = _NONE
            for node in (part for top in self.nodes for part in walk(top)):
                if isinstance(node, cst.Name) and node.value == name and (seen := self.seen(node)):
                    self.unbound[name] = seen
                    break
        return self.unbound[name]

    def targets(
        self,
        target: cst.BaseExpression,
        value: cst.BaseExpression,
        own: Mapping[str, Kinds],
        depth: int,
        *,
        whole: bool = False,
    ) -> dict[str, Kinds]:
        """What the names of a target get, of the value or (of a loop) of its items."""
        if isinstance(target, cst.Name):
            if not whole and isinstance(value, cst.Call) and code(value.func) in ("range",):
                return {target.value: frozenset({"int"})}
            return {target.value: self.kinds(value, own, depth + 1)}
        if not isinstance(target, cst.Tuple | cst.List):
            return {}
        parts: Sequence[cst.BaseExpression] = ()
        if isinstance(value, cst.Call) and code(value.func) == "zip":
            parts = [arg.value for arg in value.args]
        elif isinstance(value, cst.Call) and code(value.func) == "enumerate" and value.args:
            parts = [cst.Integer("0"), value.args[0].value]
        elif whole and isinstance(value, cst.Tuple | cst.List):
            parts = [element.value for element in value.elements]
        found: dict[str, Kinds] = {}
        for place, element in enumerate(target.elements):
            if len(parts) == len(target.elements):
                found |= self.targets(element.value, parts[place], own, depth, whole=whole)
            elif isinstance(element.value, cst.Name):
                found[element.value.value] = self.kinds(value, own, depth + 1)
        return found


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""
