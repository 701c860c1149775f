"""Which regions and functions of two versions of a program are the same ones."""

from __future__ import annotations

import ast
import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence

from gbfix import ladder
from gbfix.schema import Region
from gbfix.worker.protocol import Outcome, RegionSeen

#: How much of two functions must read alike for one to be the other under a new name.
_ALIKE = 0.6

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass(frozen=True)
class ChangedFunction:
    """A function whose text changed; ``version`` says in which of the two texts it stands so."""

    path: str
    name: str
    #: The line of its ``def``.
    line: int
    #: The lines of its own first-level statements.
    body: tuple[int, ...]
    version: str


def changed_functions(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[ChangedFunction, ...]:
    """The innermost functions that hold changed lines, in both versions."""
    found: list[ChangedFunction] = []
    for path, old in before.items():
        new = after[path]
        sides = (
            (old, ladder.removed_lines(old, new), "before"),
            (new, ladder.new_lines(old, new), "after"),
        )
        for text, lines, version in sides:
            names = dict(_functions(ast.parse(text)))
            hit: dict[str, Function] = {}
            for line in lines:
                inside = [
                    (node.lineno, name)
                    for name, node in names.items()
                    if _first(node) <= line <= (node.end_lineno or 0)
                ]
                if inside and _says_something(text, line):
                    name = max(inside)[1]
                    hit[name] = names[name]
            for name, node in sorted(hit.items(), key=lambda item: item[1].lineno):
                body = tuple(item.lineno for item in node.body if not _is_docstring(item))
                found.append(ChangedFunction(path, name, node.lineno, body, version))
    return tuple(found)


def changed_outside(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Files of which statements outside functions changed, imports and definitions aside."""
    found = []
    for path, text in after.items():
        lines = ladder.new_lines(before[path], text)
        if any(lines & set(range(node.lineno, (node.end_lineno or 0) + 1))
               for node in _loose(ast.parse(text).body)):  # fmt: skip
            found.append(path)
    return tuple(found)


def _loose(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a file is loaded, other than definitions and imports."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _loose(node.body)
        elif not isinstance(node, ast.Import | ast.ImportFrom | Function) and not (
            _is_docstring(node)
        ):
            yield node


def match_regions(
    old: Mapping[str, Region],
    new: Mapping[str, RegionSeen],
    called: set[str],
    texts: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """New keys of regions that were renamed or moved, with their old keys."""
    gone = [key for key, region in old.items() if key not in called and region.calls]
    fresh = [key for key in new if key not in old and key in called]
    found: dict[str, str] = {}
    for rule in (_same_name, _same_place, _same_text):
        for key in list(gone):
            fits = [name for name in fresh if rule(old[key], new[name], texts)]
            rivals = [name for name in gone if name != key and fits
                      and rule(old[name], new[fits[0]], texts)]  # fmt: skip
            if len(fits) == 1 and not rivals:
                found[fits[0]] = key
                gone.remove(key)
                fresh.remove(fits[0])
    return found


def parents(
    fresh: Sequence[str],
    known: Sequence[str],
    old: Mapping[str, Region],
    new: Mapping[str, RegionSeen],
) -> dict[str, str]:
    """New regions that are parts of an old one: in its file, named after it or its only region."""
    found: dict[str, str] = {}
    for key in fresh:
        if key not in new:
            continue
        near = [name for name in known if old[name].path == new[key].path]
        named = [name for name in near if _stem(old[name].name) in new[key].name]
        for candidates in (named, near):
            if len(candidates) == 1:
                found[key] = candidates[0]
                break
    return found


def renamed(run: Outcome, names: Mapping[str, str]) -> Outcome:
    """A run's events with the old names of regions."""
    events = [_renamed(event, names) for event in run.events]
    return dataclasses.replace(run, events=events)


def _renamed(event: object, names: Mapping[str, str]) -> object:
    key = getattr(event, "key", None)
    if (
        key is None
        or key not in names
        or not dataclasses.is_dataclass(event)
        or isinstance(event, type)
    ):
        return event
    changes: dict[str, object] = {"key": names[key]}
    breaks = getattr(event, "breaks", None)
    if breaks:
        changes["breaks"] = tuple(dataclasses.replace(b, region=names[key]) for b in breaks)
    return dataclasses.replace(event, **changes)


def _same_name(old: Region, new: RegionSeen, texts: Mapping[str, tuple[str, str]]) -> bool:
    return old.name == new.name


def _same_place(old: Region, new: RegionSeen, texts: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the same unchanged call compiled both."""
    if old.compile_path != new.compile_path or not old.compile_line:
        return False
    before, after = texts.get(old.compile_path, ("", ""))
    line = ladder.moved_line(before, after, old.compile_line) if before else old.compile_line
    return line == new.compile_line


def _same_text(old: Region, new: RegionSeen, texts: Mapping[str, tuple[str, str]]) -> bool:
    one = _body(texts.get(old.path, ("", ""))[0], old.name)
    other = _body(texts.get(new.path, ("", ""))[1], new.name)
    if not one or not other:
        return False
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE


def _body(text: str, name: str) -> str:
    """A function, or a class, without its first line."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    for found, node in _definitions(tree):
        if found == name:
            return "\n".join(ast.unparse(item) for item in node.body)
    return ""


def _functions(tree: ast.AST) -> Iterator[tuple[str, Function]]:
    for name, node in _definitions(tree):
        if not isinstance(node, ast.ClassDef):
            yield name, node


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function | ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from _definitions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from _definitions(node, prefix)


def _first(node: Function) -> int:
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _says_something(text: str, line: int) -> bool:
    rows = text.split("\n")
    row = rows[line - 1].strip() if 0 < line <= len(rows) else ""
    return bool(row) and not row.startswith("#")


def _stem(name: str) -> str:
    return name.rpartition(".")[2]
