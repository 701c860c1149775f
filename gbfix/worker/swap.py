"""Puts a patched text in place of the code of a module that is loaded already.

A candidate that is tried where the program stands at a recorded call needs no second start of the
program: functions get their new ``__code__``, statements that the patch added are executed.  What
cannot be represented so (another decorator, default, class body, module-level value, ``__init__``)
is said, and left to a run from the start.
"""

from __future__ import annotations

import ast
import gc
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence

from gbfix.worker.overlay import Overlay

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
#: Ran while the objects of now were made: their effects are not those of the new text.
_MAKERS = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__setattr__", "__set_name__",
     "__class_getitem__", "setup", "reset_parameters", "register_buffer"}
)  # fmt: skip


class CannotSwap(Exception):
    """The change needs the program to start anew."""


def additions(old: ast.Module, new: ast.Module) -> list[ast.stmt]:
    """The statements of the new text that the old one lacks; raises `CannotSwap`."""
    return _compare(old.body, new.body, "the module")


def _compare(old: Sequence[ast.stmt], new: Sequence[ast.stmt], where: str) -> list[ast.stmt]:
    named = _by_name(old)
    added: list[ast.stmt] = []
    for item in new:
        if not isinstance(item, _FUNCTIONS | ast.ClassDef):
            continue
        before = named.get(item.name)
        if not before:
            added.append(item)
            continue
        _same_head(before.pop(0), item, where)
    if any(named.values()):
        gone = next(name for name, rest in named.items() if rest)
        raise CannotSwap(f"{gone} is gone from {where}")
    rest = [item for item in old if not isinstance(item, _FUNCTIONS | ast.ClassDef)]
    shown = [ast.dump(item) for item in rest]
    place = 0
    for item in new:
        if isinstance(item, _FUNCTIONS | ast.ClassDef):
            continue
        text = ast.dump(item)
        if text in shown[place:]:
            following = shown.index(text, place) + 1
            _only_imports(rest[place : following - 1], where)
            place = following
        else:
            added.append(item)
    _only_imports(rest[place:], where)
    order = {id(item): number for number, item in enumerate(new)}
    return sorted(added, key=lambda item: order[id(item)])


def _by_name(body: Sequence[ast.stmt]) -> dict[str, list[ast.stmt]]:
    named: dict[str, list[ast.stmt]] = {}
    for item in body:
        if isinstance(item, _FUNCTIONS | ast.ClassDef):
            named.setdefault(item.name, []).append(item)
    return named


def _only_imports(gone: Sequence[ast.stmt], where: str) -> None:
    """An import that is no longer needed may as well stay; nothing else may."""
    for item in gone:
        if not isinstance(item, ast.Import | ast.ImportFrom):
            raise CannotSwap(f"line {item.lineno} of {where} is changed")


def _same_head(old: ast.stmt, new: ast.stmt, where: str) -> None:
    """Whether two definitions of one name differ in the bodies of functions only."""
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
        heads = [[*item.bases, *item.keywords, *item.decorator_list] for item in (old, new)]
        if not _equal(*heads):
            raise CannotSwap(f"the head of class {new.name} is changed")
        added = _compare(old.body, new.body, f"class {new.name}")
        if added:
            raise CannotSwap(f"class {new.name} has something new")
    elif isinstance(old, _FUNCTIONS) and type(old) is type(new) and isinstance(new, _FUNCTIONS):
        values: list[list[ast.AST | None]] = [
            [*item.decorator_list, *item.args.defaults, *item.args.kw_defaults]
            for item in (old, new)
        ]
        if not _equal(*values):
            raise CannotSwap(f"the decorators or defaults of {new.name} are changed")
        if new.name in _MAKERS and not _equal(old.body, new.body):
            raise CannotSwap(f"{new.name} has run already")
    else:
        raise CannotSwap(f"{getattr(new, 'name', '')} of {where} is something else now")


def _equal(old: Sequence[ast.AST | None], new: Sequence[ast.AST | None]) -> bool:
    return [item and ast.dump(item) for item in old] == [item and ast.dump(item) for item in new]


# -- codes ---------------------------------------------------------------------------------------


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _by_qualname(code: types.CodeType) -> dict[str, list[types.CodeType]]:
    found: dict[str, list[types.CodeType]] = {}
    for item in _codes(code):
        found.setdefault(item.co_qualname, []).append(item)
    return found


class Loaded:
    """The functions of the project's modules that are alive in this process."""

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self._functions: dict[str, list[types.FunctionType]] = {}
        known: dict[str, str] = {}
        for item in gc.get_objects():
            # By type alone: asking an object for its class may run code of the program.
            if type(item) is not types.FunctionType:
                continue
            name = item.__code__.co_filename
            if name not in known:
                known[name] = os.path.realpath(name) if owns(name) else ""
            if known[name]:
                self._functions.setdefault(known[name], []).append(item)

    def swap(self, overlay: Overlay) -> None:
        """Put the overlay's texts in place.

        Raises `CannotSwap`; the process is then of no further use.
        """
        for path in sorted(overlay.paths):
            self._swap(path, overlay)

    def _swap(self, path: str, overlay: Overlay) -> None:
        modules = _modules(path)
        if not modules:
            return  # not imported yet: the overlay serves it
        with open(path, "rb") as file:
            before = file.read()
        old_tree, new_tree = ast.parse(before), ast.parse(overlay.data(path))
        added = additions(old_tree, new_tree)
        # The name under which the module was loaded is the one in its code.
        name = next((f.__code__.co_filename for f in self._functions.get(path, ())), path)
        new = _by_qualname(overlay.code(name))
        old = _by_qualname(compile(before, name, "exec", dont_inherit=True))
        plan = [
            (function, _counterpart(function.__code__, old, new))
            for function in self._functions.get(path, ())
        ]
        for function, counterpart in plan:
            if counterpart is not None:
                function.__code__ = counterpart
        if added:
            lines = ast.Module(added, [])
            statements = compile(lines, name, "exec", dont_inherit=True, flags=_future(new_tree))
            for module in modules:
                exec(statements, module.__dict__)


def _counterpart(
    code: types.CodeType,
    old: Mapping[str, Sequence[types.CodeType]],
    new: Mapping[str, Sequence[types.CodeType]],
) -> types.CodeType | None:
    """What takes the place of a live function's code; None where that is not of this text."""
    before = old.get(code.co_qualname, ())
    number = next((n for n, c in enumerate(before) if c.co_firstlineno == code.co_firstlineno), -1)
    if number < 0 or before[number].co_code != code.co_code:
        return None  # made by exec, by a decorator, or from another version of the file
    after = new.get(code.co_qualname, ())
    if len(after) != len(before) or after[number].co_freevars != code.co_freevars:
        raise CannotSwap(f"{code.co_qualname} closes over something else now")
    return after[number]


def _future(tree: ast.Module) -> int:
    import __future__

    flags = 0
    for item in tree.body:
        if isinstance(item, ast.ImportFrom) and item.module == "__future__":
            for alias in item.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags


def _modules(path: str) -> list[types.ModuleType]:
    """The modules that were loaded from a file."""
    names: dict[str, list[types.ModuleType]] = {}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str):
            names.setdefault(name, []).append(module)
    base = os.path.basename(path)
    likely = [name for name in names if os.path.basename(name) == base]
    # Only where none has its name can it be behind a link of another name.
    for group in (likely, list(names)):
        found = [name for name in group if os.path.realpath(name) == path]
        if found:
            return list({id(m): m for name in found for m in names[name]}.values())
    return []
