"""What functions read when they are called, and which of it a patch reads no more.

A rewrite that reads a global or an attribute once (at import, in ``__init__``, as a default value,
as a number written out) no longer sees what the program puts there afterwards.  The text tells
where that is possible; whether it matters, a run with another value there tells.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterable, Iterator, Mapping

from gbfix.analysis.trees import tree_of

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
#: Decorators under which a function's Python runs while a graph is made, and then no more.
_ONCE_A_GRAPH = "nonstrict_trace"
_CHANGES = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
        "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update",
    }
)  # fmt: skip
#: These run once for an object: what moves there is read no more when the object is called.
MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"})


def lost_reads(
    before: Mapping[str, str], after: Mapping[str, str], sources: Mapping[str, str]
) -> tuple[str, ...]:
    """Names of globals and attributes that the new texts read less often when functions are called.

    ``sources`` are all texts of the project: a call that is gone (or moved to where it runs once)
    takes along what the function of that name reads.
    """
    lost: collections.Counter[str] = collections.Counter()
    for path, text in after.items():
        lost += _reads(tree_of(before.get(path, ""))) - _reads(tree_of(text))
    frozen = frozen_reads(before, after)
    if not lost and not frozen:
        return ()
    trees = [tree_of(text) for text in _parsable(sources)]
    functions = _functions(trees)
    stored = _stored(trees)
    found = {name: None for name in _led_to(lost, functions) if name in stored}
    if frozen:
        # What nothing in the project changes is as good as a number written out.
        changed, any_attribute = _changed(trees)
        found |= {
            name: None
            for name in _led_to(frozen, functions)
            if name in changed or (any_attribute and name in stored)
        }
    return tuple(found)


def frozen_reads(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What functions read that from now on run only while a graph is made (`nonstrict_trace`).

    Compiled, they see what they read then; uncompiled, they run as before.
    """
    found: dict[str, None] = {}
    for path, text in after.items():
        known = {function.name for function in _once_a_graph(tree_of(before.get(path, "")))}
        for function in _once_a_graph(tree_of(text)):
            if function.name in known:
                continue
            inner = [n for n in ast.walk(function) if isinstance(n, _FUNCTIONS | ast.Lambda)]
            found |= dict.fromkeys(name for each in inner for name in _body_reads(each))
    return tuple(found)


def reads_environment(
    before: Mapping[str, str], after: Mapping[str, str], sources: Mapping[str, str]
) -> bool:
    """Whether what now runs only while a graph is made asks for environment variables."""
    frozen = frozen_reads(before, after)
    if not frozen:
        return False
    functions = _functions([tree_of(text) for text in _parsable(sources)])
    return any(name in ("environ", "getenv", "environb") for name in _led_to(frozen, functions))


def _once_a_graph(tree: ast.Module) -> Iterator[_FUNCTIONS]:
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and any(
            ast.unparse(item).rpartition(".")[2] == _ONCE_A_GRAPH for item in node.decorator_list
        ):
            yield node


def _functions(trees: list[ast.Module]) -> dict[str, list[_FUNCTIONS]]:
    """Functions by name; by a class's name, what runs when an object of it is made."""
    functions: dict[str, list[_FUNCTIONS]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                makers = [n for n in node.body if isinstance(n, _FUNCTIONS) and n.name in MAKERS]
                functions.setdefault(node.name, []).extend(makers)
    return functions


def _led_to(names: Iterable[str], functions: Mapping[str, list[_FUNCTIONS]]) -> Iterator[str]:
    """The names, and what the functions of these names read."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        found.add(name)
        yield name
        for function in functions.get(name, ()):
            pending += _body_reads(function)


def _parsable(sources: Mapping[str, str]) -> Iterator[str]:
    for text in sources.values():
        try:
            tree_of(text)
        except SyntaxError:
            continue
        yield text


def _reads(tree: ast.Module) -> collections.Counter[str]:
    """How often functions of a text read each name that is not local to them, or attribute."""
    found: collections.Counter[str] = collections.Counter()
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS | ast.Lambda) and getattr(node, "name", "") not in MAKERS:
            found.update(_body_reads(node))
    return found


def _body_reads(function: _FUNCTIONS | ast.Lambda) -> Iterator[str]:
    local = _bound(function)
    for node in _own(function):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name not in local:
                yield name
            case ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.AugAssign(target=ast.Name(id=name)) if name not in local:
                yield name
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                yield name
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield name


def _own(function: _FUNCTIONS | ast.Lambda) -> Iterator[ast.AST]:
    """What the function evaluates when it is called, without the bodies of functions in it."""
    pending = list(function.body if isinstance(function.body, list) else [function.body])
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _FUNCTIONS | ast.Lambda):
            pending += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            pending += getattr(node, "decorator_list", [])
        else:
            pending += list(ast.iter_child_nodes(node))


def _bound(function: _FUNCTIONS | ast.Lambda) -> set[str]:
    """Names that the function binds for itself."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    bound = {item.arg for item in (*given, arguments.vararg, arguments.kwarg) if item is not None}
    free: set[str] = set()
    for node in _own(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                free.update(names)
    return bound - free


def _stored(trees: list[ast.Module]) -> set[str]:
    """Names that the project binds to values: by assignment (of attributes, too), by ``setattr``,
    as the field of a class, as a keyword (``Namespace(scale=2)``), as a parameter of a function
    around, by import from another module.
    """
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    found.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    found.add(name)
                case ast.keyword(arg=str(name)):
                    found.add(name)
                case ast.Constant(value=str(name)) if name.isidentifier():
                    found.add(name)
                case ast.ImportFrom(names=names):
                    found.update(alias.asname or alias.name for alias in names)
    return found


def _changed(trees: list[ast.Module]) -> tuple[set[str], bool]:
    """Names and attributes to which the project gives other values after they were made.

    And whether it sets attributes whose names the text does not tell (``setattr(x, name, ...)``).
    """
    found: set[str] = set()
    any_attribute = False
    for tree in trees:
        bound = collections.Counter(
            node.id for node in _own_names(tree) if isinstance(node.ctx, ast.Store | ast.Del)
        )
        found.update(name for name, count in bound.items() if count > 1)
        made = _made_here(tree)
        for node in ast.walk(tree):
            match node:
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if node not in made:
                    found.add(name)
                case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
                    found.update(_chain(owner))
                case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _CHANGES:
                    found.update(_chain(owner))
                    any_attribute = any_attribute or bool({"__dict__", "vars"} & {*_chain(owner)})
                case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[_, name, *_]):
                    if isinstance(name, ast.Constant):
                        found.add(str(name.value))
                    else:
                        any_attribute = True
    return found, any_attribute


def _made_here(tree: ast.Module) -> set[ast.AST]:
    """``self.gain = ...`` in ``__init__``: the object is being made."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS) and node.name in MAKERS
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name)
    }


def _own_names(tree: ast.Module) -> Iterator[ast.Name]:
    """Names at the level of the module."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            yield node
        if not isinstance(node, _FUNCTIONS | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _chain(node: ast.expr) -> Iterator[str]:
    """The names in ``a.b["c"].d`` and ``vars(a)``."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
