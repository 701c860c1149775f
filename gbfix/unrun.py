"""Arms of Python's own conditions that no recorded or varied call ran, and that a patch reaches.

What a patch changes there, or what it does to a name that is read there, nobody has seen.  Both
programs can be made to run such an arm: the condition still stands in both.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence, Set

from gbfix.analysis.trees import tree_of
from gbfix.branches import Forced, ast_span
from gbfix.schema import Span

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
#: Questions about the machine: a forced answer gives it no other devices.
_MACHINE = re.compile(r"\bis_available\(|\bdevice_count\(|\bis_cuda\b|\bget_device_capability\(")
_LEAVING = ast.Return | ast.Raise | ast.Continue | ast.Break


@dataclasses.dataclass(frozen=True)
class Arm:
    """What runs where a condition is ``value``; ``text`` is the condition as it is written."""

    test: ast.expr
    text: str
    value: bool
    nodes: tuple[ast.AST, ...]


_LACKS = re.compile(r"AttributeError(?:\(.?|: )'(\w+)' object has no attribute '(\w+)'")


def contradicts(problem: str, sources: Mapping[str, str]) -> bool:
    """Whether a forced condition fails for an attribute that ``__init__`` binds in some cases only.

    The object was made for the other answer then: no call of it ever comes there.
    """
    said = _LACKS.search(problem)
    if said is None:
        return False
    owner, attribute = said[1], said[2]
    for text in sources.values():
        if f"class {owner}" not in text or attribute not in text:
            continue
        try:
            tree = tree_of(text)
        except SyntaxError:
            continue
        for found in ast.walk(tree):
            if isinstance(found, ast.ClassDef) and found.name == owner:
                return any(_binds(arm, attribute) for arm in _choices_of_init(found))
    return False


def is_made_otherwise(question: str, problem: str) -> bool:
    """Whether the original fails, too, where a question about the object alone is forced.

    What the object holds belongs to its own answer: a call that comes there has another object.
    """
    try:
        tree = ast.parse(question, mode="eval")
    except SyntaxError:
        return False
    parts = list(ast.walk(tree))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    asks = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    plain = names == {"self"} and bool(asks) and "training" not in asks
    called = any(isinstance(part, ast.Call) for part in parts)
    return plain and not called and problem.endswith(_BOTH_FAIL)


#: How a finding ends that says what the original raised, and the patched program did not.
_BOTH_FAIL = ("as the original does", "as the original does (inputs: base)")


def _choices_of_init(owner: ast.ClassDef) -> Iterator[ast.If]:
    for line in owner.body:
        if isinstance(line, ast.FunctionDef) and line.name == "__init__":
            yield from (node for node in ast.walk(line) if isinstance(node, ast.If))


#: Methods of a module that bind the attribute that they are given the name of.
_REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})


def _binds(node: ast.AST, attribute: str) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.Attribute(ctx=ast.Store(), attr=name) if name == attribute:
                return True
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=name), *_]) if (
                method in _REGISTERS and name == attribute
            ):
                return True
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=name), *_]) if (
                name == attribute
            ):
                return True
    return False


def to_force(
    old: str,
    new: str,
    line: int,
    changed: Set[int],
    outcomes: Mapping[tuple[int, int], tuple[int, int]],
    apart: Sequence[Span],
) -> list[tuple[str, Forced]]:
    """The conditions to force, in words and places, in the function around a line of the old text.

    ``changed`` are the lines that the patch changed, ``apart`` the conditions that tensors decide.
    """
    function = _function_at(old, line)
    if function is None:
        return []
    bound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno in changed
    }
    found = []
    for arm in _arms(function.body):
        span = ast_span(old, arm.test)
        counts = outcomes.get((span.line, span.column))
        if counts is None or counts[arm.value] or span in apart or _MACHINE.search(arm.text):
            continue
        if not _reaches(arm, changed, bound) or _asks_in_vain(arm, function):
            continue
        place = _in_new(function, arm, new)
        if place is not None:
            again = _in_operators(old, new, arm.text)
            found.append((arm.text, Forced(span, place, arm.value, moved=True, again=again)))
    return found


def _in_operators(old: str, new: str, text: str) -> tuple[Span, ...]:
    """Where functions that the patch adds ask the same of the object that they are given for
    ``self``: what it keeps for some inputs stands there for the others.
    """
    known = {node.name for node in ast.walk(tree_of(old)) if isinstance(node, _FUNCTIONS)}
    added = [
        node
        for node in ast.walk(tree_of(new))
        if isinstance(node, _FUNCTIONS) and node.name not in known
    ]
    return tuple(
        ast_span(new, test)
        for node in added
        for each in dict.fromkeys((text, _OWN.sub("owner", text)))
        for test in _alike(node, each)
    )


_OWN = re.compile(r"\bself\b")


def _asks_in_vain(arm: Arm, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the arm is that of ``x is None``, where the function has asked ``x.shape`` before."""
    match arm.test:
        case ast.Compare(
            left=ast.Name(name), ops=[operator], comparators=[ast.Constant(value=None)]
        ) if isinstance(operator, ast.Is if arm.value else ast.IsNot):
            before = (it for it in function.body if it.lineno < arm.test.lineno)
            plain = (it for it in before if isinstance(it, ast.Assign | ast.Expr | ast.Assert))
            return any(
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == name
                for statement in plain
                if not any(isinstance(it, ast.IfExp | ast.BoolOp) for it in ast.walk(statement))
                for node in ast.walk(statement)
            )
    return False


def _function_at(text: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    around = [
        node
        for node in ast.walk(tree_of(text))
        if isinstance(node, _FUNCTIONS) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _arms(block: Sequence[ast.stmt]) -> Iterator[Arm]:
    """Both arms of every condition of a function; what follows a return belongs to the other."""
    for index, statement in enumerate(block):
        if isinstance(statement, _SCOPES):
            continue
        for test in _ternaries(statement):
            for value, node in ((True, test.body), (False, test.orelse)):
                yield Arm(test.test, ast.unparse(test.test), value, (node,))
        if isinstance(statement, ast.If | ast.While):
            text = ast.unparse(statement.test)
            yield Arm(statement.test, text, True, tuple(statement.body))
            if isinstance(statement, ast.If):
                leaves = isinstance(statement.body[-1], _LEAVING)
                rest = block[index + 1 :] if leaves else ()
                yield Arm(statement.test, text, False, (*statement.orelse, *rest))
        for inner in _blocks(statement):
            yield from _arms(inner)


def _blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.ExceptHandler | ast.match_case):
                    yield item.body


def _ternaries(statement: ast.stmt) -> list[ast.IfExp]:
    """Those of the statement itself, none of the statements in it."""
    found: list[ast.IfExp] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.IfExp):
            found.append(node)
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case, *_SCOPES))
        ]
    return found


def _reaches(arm: Arm, changed: Set[int], bound: Set[str]) -> bool:
    for top in arm.nodes:
        for node in ast.walk(top):
            if getattr(node, "lineno", 0) in changed:
                return True
            if isinstance(node, ast.Name) and node.id in bound:
                return True
    return False


def _in_new(function: ast.AST, arm: Arm, new: str) -> Span | None:
    """Where the condition stands in the new text, if it stands there as often as in the old."""
    name = getattr(function, "name", "")
    homes = [
        node
        for node in ast.walk(tree_of(new))
        if isinstance(node, _FUNCTIONS) and node.name == name
    ]
    before = _alike(function, arm.text)
    for home in homes:
        after = _alike(home, arm.text)
        if len(after) == len(before) and arm.test in before:
            return ast_span(new, after[before.index(arm.test)])
    return None


def _alike(function: ast.AST, text: str) -> list[ast.expr]:
    found = [
        node.test
        for node in ast.walk(function)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and ast.unparse(node.test) == text
    ]
    return sorted(found, key=lambda test: (test.lineno, test.col_offset))
