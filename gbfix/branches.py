"""Which sides of rewritten conditions ran, and where the others can be forced, in both texts."""

from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import difflib
import functools
import re
import types
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeGuard

from gbfix.analysis.trees import tree_of
from gbfix.evidence import Kind
from gbfix.schema import Span
from gbfix.worker.protocol import Compared, Failed, Outcome


@dataclasses.dataclass(frozen=True)
class Forced:
    """A truth value of a rewritten condition that no input gave: where to force it, in both.

    ``call`` is the patch's ``torch.cond`` or ``torch.where``; where ``moved``, it is the condition
    itself, which now stands in an operator, or under a name.  ``again`` are the further places of
    the patch where the condition itself stands.
    """

    test: Span
    call: Span
    value: bool
    moved: bool = False
    again: tuple[Span, ...] = ()


def ends_with(forced: Outcome) -> str | None:
    """The exception by which a program with a forced condition ended; empty where it ended well.

    None where it cannot be compared: it failed elsewhere than in a region, or did not end.
    """
    failures = [event for event in forced.of(Failed) if not event.key]
    if not failures:
        return "" if forced.ended in ("ok", "stopped") else None
    from_region = any(event.kind == "region-error" for event in forced.of(Failed))
    by_itself = forced.ended == "failed" and [event.kind for event in failures] == ["eager-error"]
    return failures[0].message if from_region and by_itself else None


def without_end(patched: Outcome, message: str) -> Outcome:
    """The outcome of a program that must end with this exception, as if it had ended well."""
    for event in patched.of(Failed):
        if not event.key and (event.kind, event.message) == ("eager-error", message):
            rest = [item for item in patched.events if item is not event]
            return dataclasses.replace(patched, events=rest, ended="ok")
    missing = Failed("eager-error", f"does not end with {message}, as the original does")
    return dataclasses.replace(patched, events=[*patched.events, missing])


#: What a patch says whose graph checks a size in another way than the original does.
BOTH_FAIL = (
    "Where the data makes a size 0 or 1 that does not fit the rest, original and patch both raise"
    " an error, not always of the same class."
)
_OTHER_ERRORS = frozenset({Kind.OTHER_ERROR, Kind.SIZE_ERROR, Kind.MESSAGE})


def without_other_errors(forced: Outcome) -> tuple[Outcome, bool]:
    """The outcome without errors that both programs raise, and differ in; whether there were any.

    The value that was forced need not be one that the data can give.
    """
    events: list[Any] = []
    found = False
    for event in forced.events:
        if isinstance(event, Compared):
            kept = tuple(one for one in event.findings if one.kind not in _OTHER_ERRORS)
            found = found or len(kept) < len(event.findings)
            event = dataclasses.replace(event, findings=kept)
        events.append(event)
    return dataclasses.replace(forced, events=events), found


#: What a patch says whose graph holds both sides of a condition, where sizes fit one of them.
ONE_SIDE_FITS = (
    "Where the sizes of the inputs fit only the side of a condition that is taken, the patch raises"
    " an error: both sides are in the graph."
)
#: Larger sizes, of single tensors: what has one dimension may no more go with the rest.  A batch of
#: one fits everywhere.
_LARGER = frozenset({"wider", "grown"})


def without_sizes_that_clash(forced: Outcome, plain: Outcome) -> Outcome:
    """The outcome without what a forced side says of sizes that the original does not take.

    Where the sizes of two tensors do not go together, the side that the program itself takes
    raises an error (``plain``: nothing forced).  The patch, which has both sides in its graph,
    raises it for either: that is a limit.
    """
    refused: dict[tuple[str, int], frozenset[str]] = {}
    for event in plain.of(Compared):
        call = (event.key, event.index)
        refused[call] = refused.get(call, frozenset()) | event.refused

    def known(event: Compared) -> Compared:
        labels = refused.get((event.key, event.index), frozenset())
        left = tuple(
            finding
            for finding in event.findings
            if finding.kind is not Kind.RAISES or finding.label not in labels & _LARGER
        )
        return dataclasses.replace(event, findings=left)

    events = [known(event) if isinstance(event, Compared) else event for event in forced.events]
    return dataclasses.replace(forced, events=events)


def rewritten_tests(source: str, spans: Sequence[Span]) -> list[Span]:
    """Tests of ``if``, ``while`` and ternaries, ``and``/``or`` aside, inside the spans."""
    result: list[Span] = []
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            span = ast_span(source, node.test)
            if any(outer.contains(span) for outer in spans):
                result.append(span)
    return sorted(result, key=lambda span: (span.line, span.column))


def new_conditionals(old: str, new: str) -> list[Span]:
    """Calls of ``torch.cond`` and ``torch.where`` that the patch brought, by position.

    Of several that read alike, in two functions say, those on lines that were there are the old.
    What moved into an operator reads parameters where it read attributes.
    """
    had = collections.Counter(text for _, text in _conditionals(old))
    calls = _conditionals(new)
    now = collections.Counter(text for _, text in calls)
    changed: frozenset[int] = frozenset()
    if any(now[text] > count for text, count in had.items()):
        changed = _changed_lines(old, new)
    result = []
    for call, text in sorted(calls, key=lambda pair: pair[0].lineno in changed):
        if had[text]:
            had[text] -= 1
        else:
            result.append(call)
    gone = [call for call, text in _conditionals(old) if had[text]]
    if gone and result:
        shapes = collections.Counter(map(_shape, gone))
        moved = {node for it in _operators(new) for node in ast.walk(it)}
        for call in [call for call in result if call in moved and shapes[_shape(call)]]:
            shapes[_shape(call)] -= 1
            result.remove(call)
    result.sort(key=lambda call: (call.lineno, call.col_offset))
    return [ast_span(new, call) for call in result]


class _Shape(ast.NodeTransformer):
    """Puts one name for every name, and every chain of attributes of a name."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("name", ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self.visit(node.value)
        is_name = isinstance(value, ast.Name)
        return value if is_name else ast.Attribute(value, node.attr, ast.Load())


def _shape(node: ast.Call) -> str:
    """The text of a call with one name for all names in its arguments."""
    given = [ast.unparse(_Shape().visit(copy.deepcopy(arg))) for arg in node.args]
    return f"{ast.unparse(node.func)}({', '.join(given)})"


def _written(test: ast.expr) -> str:
    """The text of a test with one name for every name in it."""
    return ast.unparse(_Shape().visit(copy.deepcopy(test)))


def _operators(new: str) -> list[ast.FunctionDef]:
    """The functions that are custom operators."""
    return [
        function
        for function in _functions(new)
        if "custom_op" in ast.unparse(function).partition("def ")[0]
    ]


def _changed_lines(old: str, new: str) -> frozenset[int]:
    """Lines of the new text, counted from 1, that the old text does not have at that place."""
    before, after = old.split("\n"), new.split("\n")
    # What a rewrite changes lies close together, and the files are long.
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
    return frozenset(
        head + line + 1
        for tag, _, _, start, end in matcher.get_opcodes()
        if tag in ("insert", "replace")
        for line in range(start, end)
    )


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def deciding_parts(old: str, tests: Sequence[Span], tensors: Set[Span]) -> dict[Span, Span]:
    """By test, where ``and`` or ``or`` joins several: the one of them that gave a tensor.

    Forced as a whole, ``mask is not None and mask.any()`` would be true where there is no mask.
    """
    result: dict[Span, Span] = {}
    for node in ast.walk(tree_of(old)):
        if isinstance(node, ast.BoolOp) and (span := ast_span(old, node)) in tests:
            found = [place for part in node.values if (place := ast_span(old, part)) in tensors]
            if len(found) == 1:
                result[span] = found[0]
    return result


def moved_tests(old: str, new: str, tests: Sequence[Span], parts: Sequence[Span]) -> list[Span]:
    """Where the tests (or the parts of them) stand in operators that the patch brought.

    Else where they stand word for word, as in a function that was cut.  Empty where they do not
    correspond one to one.  A test that moved reads parameters of its operator: the shape of the
    expression tells which part of it is which.
    """
    known = {node.name for node in _functions(old)}
    moved = [
        inner.test
        for function in _operators(new)
        if function.name not in known
        for inner in ast.walk(function)
        if isinstance(inner, ast.If)
    ]
    moved.sort(key=lambda test: (test.lineno, test.col_offset))
    before = {
        ast_span(old, node.test): node.test
        for node in ast.walk(tree_of(old))
        if isinstance(node, ast.If | ast.IfExp)
    }
    if not all(span in before for span in tests):
        return []
    if len(moved) > len(tests):
        # Others moved along, which Python decides: those that read like the tests are the tests.
        asked = {_written(before[span]) for span in tests}
        moved = [test for test in moved if _written(test) in asked]
    if not moved:
        # The operator calls a function that holds them, and may ask something of its own.
        same = (_the_same_test(before[span], old, new) for span in tests)
        moved = [test for test in same if test is not None]
    if len(moved) != len(tests):
        return []
    result = []
    for span, test, part in zip(tests, moved, parts, strict=True):
        result.append(ast_span(new, _same_part(old, before[span], test, part)))
    return result


def _tests_of_jumps(source: str) -> set[Span]:
    """The tests of an ``if`` that leaves a loop, or a round of it."""
    return {
        ast_span(source, node.test)
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.If)
        and any(isinstance(line, ast.Break | ast.Continue) for line in node.body)
    }


def as_they_stand(old: str, new: str, tests: Sequence[Span]) -> list[Forced]:
    """Both sides of the tests of an ``if`` that the patch asks in other statements, word for word.

    Only those that stand once in either text: ``done = done | (token == end).all()``, also where
    the ``if`` asked ``.item()`` of it.
    """
    before = {ast_span(old, it.test): it.test for it in ast.walk(tree_of(old)) if _is_if(it)}
    written = [ast.unparse(node) for _, node in _expressions(old)]
    found = []
    for span in tests:
        text = ast.unparse(before[span]).removesuffix(".item()") if span in before else ""
        places = [place for place, node in _expressions(new) if ast.unparse(node) == text]
        if text and written.count(text) == len(places) == 1:
            found += [Forced(span, places[0], value, moved=True) for value in (False, True)]
    return found


def _is_if(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If)


def _the_same_test(test: ast.expr, old: str, new: str) -> ast.expr | None:
    """The one test of the new text that reads like this one, where the old text has one, too."""
    written = ast.unparse(test)
    found = [
        [
            node.test
            for node in ast.walk(tree_of(text))
            if isinstance(node, ast.If | ast.IfExp) and ast.unparse(node.test) == written
        ]
        for text in (old, new)
    ]
    return found[1][0] if [len(tests) for tests in found] == [1, 1] else None


def _functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree_of(source)) if isinstance(node, ast.FunctionDef)]


def _same_part(old: str, one: ast.expr, other: ast.expr, part: Span) -> ast.expr:
    """The part of ``other`` in the place of ``part`` in ``one``; all of it if there is none."""
    here, there = one, other
    while ast_span(old, here) != part:
        if type(here) is not type(there):
            return other
        pairs = zip(ast.iter_child_nodes(here), ast.iter_child_nodes(there), strict=False)
        inside = [
            (mine, its)
            for mine, its in pairs
            if isinstance(mine, ast.expr)
            and isinstance(its, ast.expr)
            and ast_span(old, mine).contains(part)
        ]
        if not inside:
            return other
        here, there = inside[0]
    return there


def _conditionals(source: str) -> list[tuple[ast.Call, str]]:
    calls = [
        node
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Call)
        and node.args
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in ("cond", "where"))
            or (isinstance(node.func, ast.Name) and node.func.id in ("cond", "where"))
        )
    ]
    calls.sort(key=lambda node: (node.lineno, node.col_offset))
    return [(node, ast.unparse(node)) for node in calls]


@functools.lru_cache(maxsize=4)
def _lines(source: str) -> tuple[str, ...]:
    return tuple(source.split("\n"))


def ast_span(source: str, node: ast.expr) -> Span:
    """The place of an expression, in columns of the text."""
    lines = _lines(source)

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode("utf-8", "ignore"))

    end_line = node.end_lineno or node.lineno
    return Span(
        node.lineno,
        column(node.lineno, node.col_offset),
        end_line,
        column(end_line, node.end_col_offset or 0),
    )


def plan_branches(
    old: str,
    new: str,
    spans: Sequence[Span],
    outcomes: Mapping[tuple[int, int], tuple[int, int]],
    tensor_tests: Sequence[Span],
    site: Span | None,
    deciding: Mapping[Span, Span] = types.MappingProxyType({}),
) -> tuple[int, int, list[Forced]]:
    """Which sides of the rewritten conditions ran: seen, all, and what is to be forced.

    Only conditions that a tensor decides count.  What cannot be forced in both texts (their
    conditions do not correspond one to one) is left out of the plan, and so stays unseen.  Where
    the ``site`` is a part of a test (``self.training and mask.any()``), that part is forced; else
    the one that is ``deciding``, if there is one and the patch did not join them all in one call.
    Its own outcomes count then: ``self.training and mask.any()`` is false in eval mode whatever
    the mask holds.
    """
    tests = [span for span in rewritten_tests(old, spans) if span in tensor_tests]
    if not tests:
        return 0, 0, []
    calls = new_conditionals(old, new)
    moved = not calls
    known = deciding if moved else _alone(old, new, calls, deciding)
    parts = [
        site if site not in (None, span) and span.contains(site) else known.get(span, span)
        for span in tests
    ]
    if moved:
        calls = moved_tests(old, new, tests, parts)
    places = [(call, moved) for call in calls]
    if len(calls) != len(tests):
        places = _named_tests(new, calls)
    seen = 0
    plan: list[Forced] = []
    # The test of a jump is asked where the flag of the loop is set, and not where it is used.
    jumps = [span for span in tests if span in _tests_of_jumps(old)]
    stands = {(it.test, it.value): it for it in as_they_stand(old, new, jumps)}
    for index, (span, part) in enumerate(zip(tests, parts, strict=True)):
        counts = outcomes.get((span.line, span.column), (0, 0))
        if not moved and (decides := known.get(span)) is not None:
            # What Python decides beside it says nothing about the data's sides.
            counts = outcomes.get((decides.end_line, decides.end_column), counts)
        for value in (False, True):
            if counts[1 if value else 0]:
                seen += 1
            elif (span, value) in stands:
                plan.append(stands[span, value])
            elif len(places) == len(tests):
                place, named = places[index]
                plan.append(_upright(old, new, Forced(part, place, value, named)))
            elif (forced := _as_written(old, new, part, parts, calls, value)) is not None:
                plan.append(forced)
    return seen, 2 * len(tests), plan


def _as_written(
    old: str, new: str, part: Span, parts: Sequence[Span], calls: Sequence[Span], value: bool
) -> Forced | None:
    """A condition that the patch asks in several calls, or beside others in one: where it stands.

    It has to read as in the original, where no other condition may read like it.
    """
    written = {span: node for span, node in _expressions(old) if span in parts}
    if part not in written:
        return None
    test = written[part]
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, value = test.operand, not value
    text = ast.unparse(test)
    alike = [node for node in written.values() if text in _texts(node)]
    if isinstance(test, ast.Name | ast.Constant) or len(alike) != 1:
        return None
    found = {
        ast_span(new, node)
        for asked in _asked(new, calls)
        for node in ast.walk(asked)
        if isinstance(node, ast.expr) and ast.unparse(node) == text
    }
    if not found:
        return None
    first, *others = sorted(found, key=lambda span: (span.line, span.column))
    if others and _is_set_between(new, test, first.line, others[-1].line):
        return None  # forced alike, it would hide that the patch asks about another value
    return Forced(ast_span(old, test), first, value, moved=True, again=tuple(others))


def _is_set_between(source: str, test: ast.expr, first: int, last: int) -> bool:
    """Whether a name or attribute of the test is bound, or changed in place, on these lines."""
    asked = {_name(node) for node in ast.walk(test)} - {""}
    for node in ast.walk(tree_of(source)):
        if not first <= getattr(node, "lineno", 0) <= last:
            continue
        match node:
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                changed = {_name(node)}
            case ast.Subscript(value=value, ctx=ast.Store()):
                changed = {_name(part) for part in ast.walk(value)}
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr.endswith("_"):
                changed = {_name(part) for part in ast.walk(value)}
            case _:
                continue
        if changed & asked:
            return True
    return False


def _name(node: ast.AST) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _texts(test: ast.expr) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(test) if isinstance(node, ast.expr)}


def _asked(new: str, calls: Sequence[Span]) -> list[ast.expr]:
    """The conditions of the calls, and what the names among them were given."""
    found: list[ast.expr] = []
    for function in _functions(new):
        given = _given_once(function)
        todo = [
            call.args[0]
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and call.args and ast_span(new, call) in calls
        ]
        while todo:
            test = todo.pop()
            if test in found:
                continue
            found.append(test)
            names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
            todo.extend(given[name] for name in names & given.keys())
    return found


def _expressions(source: str) -> list[tuple[Span, ast.expr]]:
    return [
        (ast_span(source, node), node)
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.expr)
    ]


def _alone(
    old: str, new: str, calls: Sequence[Span], deciding: Mapping[Span, Span]
) -> dict[Span, Span]:
    """The deciding parts whose neighbours the patch did not join with them in one call."""
    asked = {
        ast.unparse(part)
        for node in ast.walk(tree_of(new))
        if isinstance(node, ast.Call) and node.args and ast_span(new, node) in calls
        for part in ast.walk(node.args[0])
        if isinstance(part, ast.expr)
    }
    found: dict[Span, Span] = {}
    for node in ast.walk(tree_of(old)):
        if not isinstance(node, ast.BoolOp) or (span := ast_span(old, node)) not in deciding:
            continue
        others = {
            ast.unparse(part) for part in node.values if ast_span(old, part) != deciding[span]
        }
        if not others & asked:
            found[span] = deciding[span]
    return found


def _upright(old: str, new: str, forced: Forced) -> Forced:
    """``not x`` where the patch asks for ``x``: it is ``x`` that is forced, the other way."""
    inner = next(
        (
            node.operand
            for node in ast.walk(tree_of(old))
            if isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Not)
            and ast_span(old, node) == forced.test
        ),
        None,
    )
    if inner is None:
        return forced
    for node in ast.walk(tree_of(new)):
        if isinstance(node, ast.expr) and ast_span(new, node) == forced.call:
            first = node.args[0] if isinstance(node, ast.Call) and not forced.moved else node
            if not re.search(r"~|\bnot\b|logical_not", ast.unparse(first)):
                return Forced(ast_span(old, inner), forced.call, not forced.value, forced.moved)
            break
    return forced


def _named_tests(new: str, calls: Sequence[Span]) -> list[tuple[Span, bool]]:
    """The tests of several calls: each once, where a name holds it for all that ask for it.

    Of a test with a name it is the expression that the name is given (``moved``), else the call.
    Empty where that cannot be told.
    """
    tree = tree_of(new)
    found: dict[Span, bool] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        given = _given_once(function)
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if not call.args or ast_span(new, call) not in calls:
                continue
            for part in _joined(call.args[0]):
                if isinstance(part, ast.Name) and part.id in given:
                    found[ast_span(new, given[part.id])] = True
                elif part is call.args[0]:
                    found.setdefault(ast_span(new, call), False)
                else:
                    return []
    return sorted(found.items(), key=lambda pair: (pair[0].line, pair[0].column))


def _given_once(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The names that one plain assignment of the function binds, and what they get."""
    counts: collections.Counter[str] = collections.Counter()
    values: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] += 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
    return {name: value for name, value in values.items() if counts[name] == 1}


def _joined(test: ast.expr) -> list[ast.expr]:
    """The parts of a test that ``&``, ``|`` and ``~`` make of names."""
    match test:
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            parts = [*_joined(left), *_joined(right)]
            return parts if all(isinstance(part, ast.Name) for part in parts) else [test]
        case ast.UnaryOp(op=ast.Invert(), operand=ast.Name() as name):
            return [name]
    return [test]
