"""Puts a patched text in place of the code of a module that is loaded already.

A candidate that is tried where the program stands at a recorded call needs no second start of the
program: functions get their new ``__code__``, statements that the patch added are executed.  What
cannot be represented so (another decorator, default, class body, module-level value, ``__init__``)
is said, and left to a run from the start.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import gc
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence

from gbfix.schema import COMPREHENSIONS
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


@dataclasses.dataclass(frozen=True)
class _File:
    """A file of the project as it was loaded."""

    modules: Sequence[types.ModuleType]
    tree: ast.Module
    functions: Sequence[types.FunctionType]
    name: str
    codes: Mapping[str, Sequence[types.CodeType]]


class Loaded:
    """The functions of the project's modules that are alive in this process.

    They are looked for from the modules and from ``roots`` on, which takes a millisecond; where
    that may have missed one, and with ``thorough`` at once, among all objects, which takes half a
    second (every page of a forked process is touched).
    """

    def __init__(
        self,
        owns: Callable[[str], bool],
        roots: Sequence[object] = (),
        *,
        thorough: bool = False,
        texts: Mapping[str, bytes] | None = None,
    ) -> None:
        #: What was loaded where that is not what is on disk, by real path.
        self._texts = texts or {}
        self._owns = owns
        self._roots = roots
        self._everywhere: dict[str, list[types.FunctionType]] | None = None
        self._files: dict[str, _File] = {}
        if thorough:
            self._look_everywhere()

    def swap(self, overlay: Overlay) -> None:
        """Put the overlay's texts in place.

        Raises `CannotSwap`; the process is then of no further use.
        """
        for path in sorted(overlay.paths):
            self._swap(path, overlay)

    def prepare(self, path: str) -> None:
        """Read what a swap of this file needs and does not change: forks made now have it."""
        if path in self._files:
            return
        modules = _modules(path)
        if not modules:
            return  # not imported yet: the overlay serves it
        before = self._texts.get(path)
        if before is None:
            with open(path, "rb") as file:
                before = file.read()
        functions = self._everywhere.get(path, []) if self._everywhere is not None else None
        if functions is None:
            functions = _reachable(path, modules, self._roots)
        # The name under which the module was loaded is the one in its code.
        name = next((f.__code__.co_filename for f in functions), path)
        old = _by_qualname(compile(before, name, "exec", dont_inherit=True))
        self._files[path] = _File(modules, ast.parse(before), functions, name, old)

    def _swap(self, path: str, overlay: Overlay) -> None:
        self.prepare(path)
        known = self._files.pop(path, None)
        if known is None:
            return
        modules, functions, name, old = known.modules, known.functions, known.name, known.codes
        new_tree = ast.parse(overlay.data(path))
        added = additions(known.tree, new_tree)
        new = _by_qualname(overlay.code(name))
        if self._everywhere is None and _may_lack(functions, old, new):
            functions = self._look_everywhere().get(path, [])
        plan = [(item, _counterpart(item.__code__, old, new)) for item in functions]
        for function, counterpart in plan:
            if counterpart is not None:
                function.__code__ = counterpart
        if added:
            # What is new has instruments, too: a condition that is forced may stand in it.
            body = overlay.tree(path).body
            lines = ast.Module([body[new_tree.body.index(item)] for item in added], [])
            statements = compile(lines, name, "exec", dont_inherit=True, flags=_future(new_tree))
            for module in modules:
                exec(statements, module.__dict__)

    def _look_everywhere(self) -> dict[str, list[types.FunctionType]]:
        if self._everywhere is None:
            self._everywhere = {}
            known: dict[str, str] = {}
            for item in gc.get_objects():
                # By type alone: asking an object for its class may run code of the program.
                if type(item) is not types.FunctionType:
                    continue
                name = item.__code__.co_filename
                if name not in known:
                    known[name] = os.path.realpath(name) if self._owns(name) else ""
                if known[name]:
                    self._everywhere.setdefault(known[name], []).append(item)
        return self._everywhere


def _reachable(
    path: str, modules: Sequence[types.ModuleType], roots: Sequence[object]
) -> list[types.FunctionType]:
    """The functions of a file that its modules and the roots lead to."""
    found: list[types.FunctionType] = []
    seen: set[int] = set()
    names: dict[str, bool] = {}
    own = {module.__name__ for module in modules}
    stack: list[object] = [*roots, *(value for m in modules for value in vars(m).values())]
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, types.FunctionType):
            name = item.__code__.co_filename
            if name not in names:
                names[name] = os.path.realpath(name) == path
            if names[name]:
                found.append(item)
            stack += [v for v in vars(item).values() if isinstance(v, types.FunctionType)]
            for cell in item.__closure__ or ():
                try:
                    stack.append(cell.cell_contents)
                except ValueError:
                    continue  # still empty
        elif isinstance(item, type):
            if item.__module__ in own:
                stack += list(vars(item).values())
        elif isinstance(item, staticmethod | classmethod | types.MethodType):
            stack.append(item.__func__)
        elif isinstance(item, property):
            stack += [item.fget, item.fset, item.fdel]
        elif isinstance(item, functools.partial):
            stack.append(item.func)
    return found


def _may_lack(
    functions: Sequence[types.FunctionType],
    old: Mapping[str, Sequence[types.CodeType]],
    new: Mapping[str, Sequence[types.CodeType]],
) -> bool:
    """Whether a function whose code is to change is not among those that were found."""
    found = {(item.__code__.co_qualname, item.__code__.co_firstlineno) for item in functions}
    for name, before in old.items():
        after = new.get(name, ())
        for number, code in enumerate(before):
            changed = number >= len(after) or after[number] != code
            # Of one closure there may be many functions, and no way leads to all of them.
            inner = "<locals>" in name and (name, code.co_firstlineno) in found
            missed = (name, code.co_firstlineno) not in found and _can_live(code)
            if changed and (inner or missed):
                return True
    return False


def _can_live(code: types.CodeType) -> bool:
    """Whether functions of this code can be met: not a class body, not a comprehension."""
    optimized = code.co_flags & inspect.CO_OPTIMIZED
    return bool(optimized) and code.co_name not in COMPREHENSIONS


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
