"""What functions read when they are called, and which of it a patch reads no more.

A rewrite that reads a global or an attribute once (at import, in ``__init__``, as a default value,
as a number written out) no longer sees what the program puts there afterwards.  The text tells
where that is possible; whether it matters, a run with another value there tells.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator, Mapping

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
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
        lost += _reads(ast.parse(before.get(path, ""))) - _reads(ast.parse(text))
    if not lost:
        return ()
    trees = [ast.parse(text) for text in _parsable(sources)]
    functions: dict[str, list[_FUNCTIONS]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                makers = [n for n in node.body if isinstance(n, _FUNCTIONS) and n.name in MAKERS]
                functions.setdefault(node.name, []).extend(makers)
    found: dict[str, None] = {}
    pending = list(lost)
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        found[name] = None
        for function in functions.get(name, ()):
            pending += _body_reads(function)
    stored = _stored(trees)
    return tuple(name for name in found if name in stored)


def _parsable(sources: Mapping[str, str]) -> Iterator[str]:
    for text in sources.values():
        try:
            ast.parse(text)
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
