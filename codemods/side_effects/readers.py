"""Who else looks at what an operator changes, and who changes what it reads."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence

from gbfix.analysis.tree import words
from gbfix.analysis.trees import alternatives

from .callees import parsed
from .libraries import ADDING, LOOKS


def others_mention(sources: Sequence[str], names: frozenset[str], start: frozenset[str]) -> str:
    """A name out of ``names`` that functions which the region may reach mention; operators, whose
    code runs elsewhere, do not count.  ``.x`` stands for an attribute.
    """
    functions: dict[str, list[ast.AST]] = {}
    operators: set[str] = set()
    pending = {*start, "forward", "__call__"}
    for text in sources:
        tree = parsed(text)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if any("custom_op" in ast.unparse(item) for item in node.decorator_list):
                    operators.add(node.name)
                else:
                    functions.setdefault(node.name, []).append(node)
                    if node.name.startswith("__") and node.name not in _AT_BIRTH:
                        pending.add(node.name)
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith(
                "register_"
            ):
                pending |= _names(node)
    seen: set[str] = set()
    while pending:
        current = pending.pop()
        if current in seen or current in operators:
            continue
        seen.add(current)
        for function in functions.get(current, ()):
            mentioned = _mentions(function)
            if mentioned & names or _ANY in mentioned:
                return min(mentioned & names or names)
            pending |= {name.lstrip(".") for name in mentioned} & functions.keys()
    return ""


_AT_BIRTH = words(
    """__init__ __new__ __repr__ __str__ __del__ __init_subclass__ __set_name__
    __deepcopy__ __copy__ __reduce__ __getstate__ __setstate__"""
)


def _names(node: ast.AST) -> set[str]:
    return {getattr(part, "id", "") or getattr(part, "attr", "") for part in ast.walk(node)} - {""}


@functools.lru_cache(maxsize=4096)
def _mentions(function: ast.AST) -> frozenset[str]:
    """Names and ``.attributes`` of a function; methods that are called count as attributes."""
    found: set[str] = set()
    own = _own_names(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            found |= {node.id} - own
        elif isinstance(node, ast.Attribute):
            found.add("." + node.attr)
        found |= {"." + name for name in _named(node)}
        if _reads_by_name(node):
            found.add(_ANY)
    return frozenset(found)


_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _own_names(function: ast.AST) -> frozenset[str]:
    """Names that a function binds to values in its own scope: what these are is mentioned where
    that is done, and they are nothing that has a function's name elsewhere.
    """
    bound: set[str] = set()
    others: set[str] = set()
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            others |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        if isinstance(node, _SCOPES):
            # What has the name there is another thing, or one that is read from here.
            others |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            others.add(getattr(node, "name", ""))
        else:
            waiting += ast.iter_child_nodes(node)
    return frozenset(bound - others)


#: Stands for any attribute: it is read by a name that the program computes.
_ANY = ".*"


def _named(node: ast.AST) -> set[str]:
    """Attributes that a call names in a text: ``getattr(self, "calls")``, ``attrgetter("a.b")``."""
    match node:
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr" | "setattr" | "delattr"),
            args=[_, ast.Constant(value=str(name)), *_],
        ):
            return {name}
        case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)) if function in (
            "attrgetter",
            "methodcaller",
        ):
            texts = [it.value for it in node.args if isinstance(it, ast.Constant)]
            return {name for text in texts for name in str(text).split(".")}
    return set()


def _reads_by_name(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
            return False
        case ast.Call(func=ast.Name(id="getattr" | "vars" | "attrgetter")):
            return True
        case ast.Attribute(attr="__dict__" | "attrgetter"):
            return True
    return False


def others_change(sources: Sequence[str], names: frozenset[str], start: frozenset[str]) -> str:
    """Like `others_mention`, of what the region may change: its changes show behind operators."""
    changing = [
        text for text in sources if (tree := parsed(text)) is not None and _changes(tree) & names
    ]
    if not changing:
        return ""
    functions: dict[str, list[ast.AST]] = {}
    for text in sources:
        tree = parsed(text)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
                "custom_op" in ast.unparse(item) for item in node.decorator_list
            ):
                functions.setdefault(node.name, []).append(node)
    seen: set[str] = set()
    pending = {*start, "forward", "__call__", "__enter__", "__exit__"}
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for function in functions.get(current, ()):
            changed = _changes(function) & names
            if changed:
                return min(changed)
            pending |= {name.lstrip(".") for name in _mentions(function)} & functions.keys()
    return ""


@functools.lru_cache(maxsize=4096)
def _changes(node: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Global(names=names):
                found |= set(names)
            case ast.Call(
                func=ast.Name(id="setattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                found.add(f".{name}")
            case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()):
                found.add("." + attr)
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                found |= _chain(value)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in ADDING:
                found |= _chain(value)
    return frozenset(found)


def _chain(node: ast.AST) -> set[str]:
    """The last name of a chain: ``stats`` of ``stats["a"]``, ``.stats`` of ``self.stats``."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return {"." + node.attr}
    return {node.id} if isinstance(node, ast.Name) else set()


def changed_in_place(sources: Sequence[str], names: frozenset[str]) -> frozenset[str]:
    """Those of the names whose objects some code of the program changes: who has the same object
    under another name sees that, and does not where a name is bound anew.
    """
    found: set[str] = set()
    for tree in map(parsed, sources):
        for part in ast.walk(tree) if tree is not None else ():
            match part:
                case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                    found |= _chain(value)
                case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in ADDING:
                    found |= _chain(value)
                case ast.AugAssign(target=ast.Attribute() | ast.Name() as target):
                    found |= _chain(target)
    return names & frozenset(found)


_Key = str | tuple[int, str]


class Shared:
    """The names under which a program hands the same objects on: ``Window(self.alarms)``, whose
    ``__init__`` keeps it as ``self.marks``.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._pairs: dict[_Key, set[_Key]] = {}
        trees = [tree for tree in map(parsed, sources) if tree is not None]
        self._functions = _functions_by_name(trees)
        self._trees = trees
        for tree in trees:
            for function, nodes in _by_function(tree):
                for node in nodes:
                    for one, other in _shared_in(node, function, self._functions):
                        self._pairs.setdefault(one, set()).add(other)
                        self._pairs.setdefault(other, set()).add(one)

    def names(self, names: frozenset[str]) -> frozenset[str]:
        """The names (``.x`` for an attribute), and all others of what they stand for."""
        return frozenset(key for key in self._keys(names) if isinstance(key, str))

    def _keys(self, names: Iterable[str]) -> set[_Key]:
        found: set[_Key] = set()
        waiting: list[_Key] = list(names)
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += self._pairs.get(key, ())
        return found

    def escapes(self, name: str) -> bool:
        """Whether an object may get a name that is none of `names`: it is given back, kept in a
        table, or handed to what the program's text does not define.
        """
        keys = self._keys([name])
        for tree in self._trees:
            for function, nodes in _by_function(tree):
                above = {child: it for it in nodes for child in ast.iter_child_nodes(it)}
                for node in nodes:
                    named = isinstance(node, ast.Name | ast.Attribute)
                    mine = keys.intersection(_keys(node, function)) if named else set()
                    # A slice of what holds the object holds it, too.
                    sliced = isinstance(getattr(above.get(node), "slice", None), ast.Slice)
                    if mine and (self._goes_on(node, above) or (sliced and mine != {name})):
                        return True
        return False

    def _goes_on(self, node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
        """Whether a use hands the object to where no name is known for it."""
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            return False
        parent = above.get(node)
        while isinstance(parent, ast.List | ast.Tuple | ast.Set | ast.keyword):
            parent = above.get(parent)
        match parent:
            case ast.Attribute() | ast.Subscript() | ast.For() | ast.comprehension():
                return False
            case ast.Assign() | ast.AnnAssign() | ast.FormattedValue() | ast.Expr():
                return False
            case ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.If() | ast.While():
                return False  # it is looked at, or something new is made of it
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) as call:
                if isinstance(call.func, ast.Name) and called in LOOKS:
                    return False
                known = [it for it, _ in self._functions.get(called, ())]
                return not known or any(it.args.vararg or it.args.kwarg for it in known)
        return True


def _functions_by_name(trees: Sequence[ast.AST]) -> dict[str, list[tuple[ast.FunctionDef, int]]]:
    """Functions by what calls them, with the number of parameters that calls leave out."""
    found: dict[str, list[tuple[ast.FunctionDef, int]]] = {}
    for tree in trees:
        methods: dict[int, ast.ClassDef] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods |= {id(it): node for it in node.body if isinstance(it, ast.FunctionDef)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            owner = methods.get(id(node))
            called = owner.name if owner is not None and node.name == "__init__" else node.name
            static = any(ast.unparse(it) == "staticmethod" for it in node.decorator_list)
            found.setdefault(called, []).append((node, int(owner is not None and not static)))
    return found


def _by_function(tree: ast.AST) -> list[tuple[ast.FunctionDef | None, list[ast.AST]]]:
    """Each function with the nodes that are its own; None has those of the module."""
    found: list[tuple[ast.FunctionDef | None, list[ast.AST]]] = []
    waiting: list[tuple[ast.FunctionDef | None, ast.AST]] = [(None, tree)]
    while waiting:
        function, top = waiting.pop()
        own: list[ast.AST] = []
        inner = list(ast.iter_child_nodes(top))
        while inner:
            node = inner.pop()
            own.append(node)
            if isinstance(node, ast.FunctionDef):
                waiting.append((node, node))
            else:
                inner += ast.iter_child_nodes(node)
        found.append((function, own))
    return found


def _shared_in(
    node: ast.AST,
    function: ast.FunctionDef | None,
    functions: dict[str, list[tuple[ast.FunctionDef, int]]],
) -> list[tuple[_Key, _Key]]:
    """Names that a node gives to one object."""
    found: list[tuple[_Key, _Key]] = []
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        for target in targets if value is not None else ():
            assert value is not None
            for one, given in _paired(target, value):
                found += [
                    (key, other)
                    for key in _keys(one, function)
                    for part in (alternatives(given) if isinstance(given, ast.expr) else ())
                    for other in _keys(part, function)
                ]
    if isinstance(node, ast.For | ast.comprehension):
        names = [part for part in ast.walk(node.target) if isinstance(part, ast.Name)]
        found += [
            (key, other)
            for name in names
            for key in _keys(name, function)
            for other in _keys(node.iter, function)
        ]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        for called, skipped in functions.get(name, ()):
            own = [it.arg for it in (*called.args.posonlyargs, *called.args.args)][skipped:]
            arguments = [*zip(own, node.args, strict=False)]
            arguments += [(it.arg, it.value) for it in node.keywords if it.arg is not None]
            found += [
                ((id(called), param), other)
                for param, argument in arguments
                for other in _keys(argument, function)
            ]
    return found


#: What gives items of what it is given.
_ITEMS = words("list tuple set sorted enumerate min max reversed")


def _keys(node: ast.AST, function: ast.FunctionDef | None) -> list[_Key]:
    if isinstance(node, ast.Attribute):
        return ["." + node.attr]
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        return _keys(node.value, function)  # a slice is a new list
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [key for part in node.elts for key in _keys(part, function)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ITEMS:
        return [key for part in node.args for key in _keys(part, function)]
    if not isinstance(node, ast.Name):
        return []
    if function is not None and node.id in _params(function) | _own_names(function):
        return [(id(function), node.id)]
    return [node.id]


def _params(function: ast.FunctionDef) -> frozenset[str]:
    given = function.args
    return frozenset(it.arg for it in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def holds_numbers(sources: Sequence[str], name: str) -> bool:
    """Whether an attribute (``.calls``) is only ever given numbers: nothing changes one in place,
    and who has it under another name has what it was then.
    """
    wanted = name.removeprefix(".")
    stores = 0
    for tree in map(parsed, sources):
        if tree is None:
            return False
        for node in ast.walk(tree):
            pairs: list[tuple[ast.AST, ast.AST | None]] = []
            if isinstance(node, ast.Assign):
                pairs = [pair for target in node.targets for pair in _paired(target, node.value)]
            elif isinstance(node, ast.AugAssign | ast.AnnAssign):
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                stores += node.attr == wanted
            if _sets_by_name(node, wanted):
                return False
            for target, value in pairs:
                if getattr(target, "attr", "") != wanted:
                    continue
                if value is None or not _is_number(value, tree):
                    return False
                stores -= 1
    # What is bound in another way (a loop, ``with ... as``) is not known.
    return stores == 0 and name.startswith(".")


def _is_number(value: ast.AST, tree: ast.AST, *, names: bool = True) -> bool:
    """Whether an expression gives a number of Python's, or a name that is only bound to such."""
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_number(operand, tree, names=names)
        case ast.Call(func=ast.Name(id="float" | "int" | "len"), args=[_], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return True
        case ast.Attribute(value=ast.Name(id="math"), attr="inf" | "nan" | "pi"):
            return True
        case ast.Name(id=name) if names:
            return _is_bound_to_numbers(value, name, tree)
    return False


def _is_bound_to_numbers(value: ast.Name, name: str, tree: ast.AST) -> bool:
    """Whether all that the function around a name binds it to are numbers."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(part is value for part in ast.walk(node))
    ]
    if not around:
        return False
    function = max(around, key=lambda node: node.lineno)
    stores = [
        part
        for part in ast.walk(function)
        if isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)
    ]
    given = [
        line.value
        for line in ast.walk(function)
        if isinstance(line, ast.Assign)
        and len(line.targets) == 1
        and any(line.targets[0] is part for part in stores)
    ]
    others = {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
    for part in ast.walk(function):
        if isinstance(part, ast.Global | ast.Nonlocal):
            others |= {*part.names}
        elif isinstance(part, ast.ExceptHandler) and part.name:
            others.add(part.name)
    whole = 0 < len(given) == len(stores) and name not in others
    return whole and all(_is_number(it, tree, names=False) for it in given)


def _sets_by_name(node: ast.AST, wanted: str) -> bool:
    """``setattr(self, "calls", x)``, or of a name that the program computes."""
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, name, *_]):
            return not isinstance(name, ast.Constant) or name.value == wanted
    return False


def _paired(target: ast.AST, value: ast.AST) -> list[tuple[ast.AST, ast.AST | None]]:
    """Each target with what it is given: ``self.every, self.calls = every, 0``."""
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value)]
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        return [
            pair
            for one, given in zip(target.elts, value.elts, strict=True)
            for pair in _paired(one, given)
        ]
    return [(one, None) for one in target.elts]
