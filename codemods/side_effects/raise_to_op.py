"""``if bad.any(): raise ValueError(...)`` or ``assert``: check and error in an operator."""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.binding import suppresses_errors
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from ..wrap.capture import is_global_object
from .effect_operator import Effect, effect_operator
from .guarded_effect import chain_tested_at

_SOURCE = """
import torch


class Odd(Exception):
    pass


def f(x, n, flag, self):
    {}
    return x + 1
"""
_NAN = "torch.isnan(x).any()"
_FACTS = {"x": tensor(3), "n": scalar(3), "flag": scalar(True), _NAN: tensor(dtype="torch.bool")}
_FACTS |= {"self.limit": scalar(9), "x.max() > self.limit": tensor(dtype="torch.bool")}
_OPERATOR = """

@torch.library.custom_op("example::check_f", mutates_args=())
def check_f({}) -> None:
    {}


check_f.register_fake(lambda {}: None)
check_f.register_effect(torch.library.EffectType.ORDERED)


def f("""


def _example(
    title: str, before: str, call: str, signature: str, body: str, at: str = _NAN
) -> Example:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    operator = _OPERATOR.format(signature, body, names)
    after = _SOURCE.format(call).replace("\n\ndef f(", operator)
    return Example(_SOURCE.format(before), after, at=at, facts=_FACTS, title=title)


def _near_miss(before: str, why: str, at: str = _NAN) -> NearMiss:
    return NearMiss(_SOURCE.format(before), at=at, why=why, facts=_FACTS)


class RaiseToOp(Codemod):
    """*What it does.*  Moves an ``if`` that does nothing but raise, or an ``assert``, into an
    operator, test and all.

    ```python
    if tokens.sum() != features:
        raise ValueError(f"{tokens.sum()} tokens, but {features} features")
    ```
    becomes ``check_forward(tokens, features)``, an operator at module level whose body is the same
    ``if``.

    *When it applies.*  The test depends on a tensor's data; the body is one ``raise`` of an
    exception class with a text; there is no ``else``.  An ``assert`` has a text or no message.

    *Fix safety.*  Safe: the same exception with the same message leaves the compiled function, on
    the same inputs.  Its traceback ends in the operator.  Both programs are compared while the test
    is forced to hold, where no input makes it hold.  Unsafe where a number comes from a parameter
    without annotation (a caller who gives a tensor instead would now get an error of torch's),
    where an object is changed on the way to the check (compiled code changes it after the graph),
    and where another ``forward`` of the project handles errors of the layers that it calls.

    *Refuses.*  An ``except`` (or a ``with`` that suppresses errors) around the check or around the
    calls that lead to it: code that is compiled would not come back to it.  ``raise ... from``,
    exceptions that carry more than a text, tests that an operator cannot compute alike.
    """

    name = "raise-to-op"
    codes = ("GB0170", "GB0088", "GB0033", "GB0124", "data-dependent-guard")
    examples = (
        _example(
            "bad values",
            f"# Reject NaN.\n    if {_NAN}:\n        raise ValueError('nan')  # early",
            "# Reject NaN.\n    check_f(x)",
            "x: torch.Tensor",
            f"if {_NAN}:\n        # early\n        raise ValueError('nan')",
        ),
        _example(
            "a message made of values",
            f"if flag and {_NAN}:\n        raise Odd(f'nan in {{n}} of {{x.shape}}')",
            "check_f(flag, x, n)",
            "flag: torch.types.Number, x: torch.Tensor, n: torch.types.Number",
            f"if flag and {_NAN}:\n        raise Odd(f'nan in {{n}} of {{x.shape}}')",
        ),
        _example(
            "a tensor that may be missing",
            "if x is not None and x.max() > self.limit:\n        raise Odd(f'{self.limit}')",
            "if x is not None:\n        check_f(x, self.limit)",
            "x: torch.Tensor, limit: torch.types.Number",
            "if x.max() > limit:\n        raise Odd(f'{limit}')",
            at="x.max() > self.limit",
        ),
        _example(
            "a bare class",
            f"if {_NAN}: raise Odd",
            "check_f(x)",
            "x: torch.Tensor",
            f"if {_NAN}:\n        raise Odd",
        ),
        _example(
            "an assertion",
            f"assert not {_NAN}, f'nan, {{n}}'  # early",
            "check_f(x, n)  # early",
            "x: torch.Tensor, n: torch.types.Number",
            f"assert not {_NAN}, f'nan, {{n}}'",
        ),
    )
    near_misses = (
        _near_miss(f"assert not {_NAN}, make(x)", "a message of another kind"),
        _near_miss(f"assert not {_NAN}; x = x + 1", "not alone on its line"),
        _near_miss(
            f"try:\n        assert not {_NAN}\n    except AssertionError: x = x * 2",
            "a handler waits for it",
        ),
        _near_miss(f"if {_NAN}:\n        x = x + 1\n        raise ValueError", "more than a raise"),
        _near_miss(f"if {_NAN}: raise ValueError\n    else: x = x + 1", "something else to do"),
        _near_miss(f"if n: pass\n    elif {_NAN}: raise ValueError", "a part of a chain"),
        _near_miss(f"if {_NAN}: raise ValueError('nan') from None", "a cause"),
        _near_miss(f"if {_NAN}: raise ValueError(x)", "carries a tensor"),
        _near_miss(f"if {_NAN}: raise ValueError('nan', n)", "carries a number"),
        _near_miss(f"if {_NAN}: raise n", "no class"),
        _near_miss(f"if {_NAN}: raise StopIteration", "an exception that steers loops"),
        _near_miss(f"if {_NAN}: raise SystemExit", "no error"),
        _near_miss(
            f"try:\n        if {_NAN}: raise ValueError\n    except ValueError: x = x * 2",
            "a handler waits for it",
        ),
        _near_miss(
            f"try: x = x * 2\n    except ValueError: pass\n    if {_NAN}: raise ValueError",
            "the function handles such errors",
        ),
        _near_miss(
            f"with suppressed(ValueError):\n        if {_NAN}: raise ValueError",
            "a context that may suppress it",
        ),
        NearMiss(
            _SOURCE.format(f"if {_NAN}: raise ValueError")
            + "\n\ndef g(x):\n    try:\n        return f(x, 1, True)\n"
            "    except ValueError:\n        return x\n",
            at=_NAN,
            why="a caller handles it",
            facts=_FACTS,
        ),
        _near_miss("if torch.rand(1) > n: raise ValueError", "random numbers", "torch.rand(1) > n"),
        _near_miss("if (y := x.sum()) > 0: raise ValueError", "binds a name", "(y := x.sum()) > 0"),
        _near_miss(f"while {_NAN}: raise ValueError", "a loop"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        line = site.statement
        if isinstance(line, cst.SimpleStatementLine) and site.function is not None:
            effect = _asserted(line)
            if effect is not None and not _may_be_handled(site, line):
                yield _judged(site, line, effect_operator(site, line, effect))
            return
        head = chain_tested_at(site)
        if head is None or site.function is None or head.orelse is not None:
            return
        raised = _raised(site, head)
        if raised is None or _may_be_handled(site, head):
            return
        exception, texts, kept = raised
        under, test = _apart(head.test)
        lines = ["if BODY0:"]
        lines += [f"    {text}" for text in comments_in(head.body)]
        lines.append("    raise BODY1")
        moved = effect_operator(
            site,
            head,
            Effect(
                "check",
                [test, exception],
                kept,
                [(text, False) for text in texts],
                "\n    ".join(lines),
                ("The traceback of the error ends in the operator.",),
                decides=True,
                under=under,
            ),
        )
        yield _judged(site, head, moved)


_STATE = (
    "what is set on the way to the check is lost where it raises in compiled code, which sets it"
    " after the graph"
)
_ELSEWHERE = "another `forward` of the project handles errors: compiled with this one, it would not"


def _judged(site: Site, line: cst.CSTNode, made: Rewrite | Advice) -> Rewrite | Advice:
    """Unsafe where the error would come at another time than what the code does before it."""
    if not isinstance(made, Rewrite):
        return made
    notes = []
    if _sets_before(site, line):
        notes.append(_STATE)
    if any(_forward_handles(text) for text in site.sources.values()):
        notes.append(_ELSEWHERE)
    if not notes:
        return made
    return dataclasses.replace(made, safety=Safety.UNSAFE, notes=(*made.notes, *notes))


_CHANGES = frozenset({"append", "extend", "insert", "add", "update", "pop", "setdefault", "remove"})


def _sets_before(site: Site, line: cst.CSTNode) -> bool:
    """Whether the function, or one on the way to it, sets what others see before the check."""
    for frame in {*site.graph_break.frames, site.frame}:
        last = min(frame.line, site.span(line).line) if frame == site.frame else frame.line
        try:
            tree = ast.parse(site.sources.get(frame.path, ""))
        except SyntaxError:
            return True
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.lineno <= frame.line <= (node.end_lineno or 0)
        ]
        if around and _sets(max(around, key=lambda node: node.lineno), last):
            return True
    return False


def _changes(node: ast.AST) -> bool:
    """``self.seen.append(...)`` and the like."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in _CHANGES and isinstance(node.func.value, ast.Attribute)


def _sets(function: ast.FunctionDef | ast.AsyncFunctionDef, last: int) -> bool:
    """Whether it sets an attribute, an item of one or a global before that line."""
    for node in ast.walk(function):
        if getattr(node, "lineno", last) >= last:
            continue
        if isinstance(node, ast.Global | ast.Nonlocal):
            return True
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif _changes(node):
            return True
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute):
                return True
    return False


def _forward_handles(text: str) -> bool:
    """Whether a ``forward`` of the file has a handler around a call of another layer."""
    if "except" not in text or "def forward" not in text:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    return any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func).startswith("self.")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
        for guarded in ast.walk(node)
        if isinstance(guarded, ast.Try | ast.TryStar) and guarded.handlers
        for part in guarded.body
        for inner in ast.walk(part)
    )


def _apart(test: cst.BaseExpression) -> tuple[cst.BaseExpression | None, cst.BaseExpression]:
    """``x is not None and bad(x)`` in two: the questions for None, and what follows them.

    What follows may then read what is there behind the questions only.
    """
    parts: list[cst.BaseExpression] = []
    rest = test
    while isinstance(rest, cst.BooleanOperation) and isinstance(rest.operator, cst.And):
        if comments_in(rest) or (rest.lpar and rest is not test):
            return None, test
        parts.insert(0, rest.right)
        rest = rest.left
    parts.insert(0, rest)
    count = 0
    while count < len(parts) - 1 and _asks_for_none(parts[count]):
        count += 1
    if not count:
        return None, test
    return _joined(parts[:count]), _joined(parts[count:])


def _asks_for_none(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Comparison(
            left=cst.Name(),
            comparisons=[
                cst.ComparisonTarget(operator=cst.Is() | cst.IsNot(), comparator=cst.Name("None"))
            ],
        ):
            return True
    return False


def _joined(parts: list[cst.BaseExpression]) -> cst.BaseExpression:
    joined, *rest = parts
    for part in rest:
        joined = cst.BooleanOperation(joined, cst.And(), part)
    return joined


def _asserted(line: cst.SimpleStatementLine) -> Effect | None:
    """The effect of an ``assert`` with a line of its own."""
    match line.body:
        case [cst.Assert(test=test, msg=message) as small] if not comments_in(small):
            pass
        case _:
            return None
    if message is not None and not _is_text(message):
        return None
    return Effect(
        "check",
        [test] if message is None else [test, message],
        {},
        [] if message is None else [(message, False)],
        "assert BODY0" if message is None else "assert BODY0, BODY1",
        ("The traceback of the error ends in the operator.",),
        decides=True,
    )


_Raised = tuple[cst.BaseExpression, list[cst.BaseExpression], dict[cst.CSTNode, cst.CSTNode]]


def _raised(site: Site, head: cst.If) -> _Raised | None:
    """What the body raises, if it does nothing else: the expression, its texts, its class."""
    match head.body:
        case cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Raise() as small])]):
            pass
        case cst.SimpleStatementSuite(body=[cst.Raise() as small]):
            pass
        case _:
            return None
    if small.cause is not None or small.exc is None or comments_in(small):
        return None
    exception = small.exc
    texts: list[cst.BaseExpression] = []
    kind = exception
    if isinstance(exception, cst.Call):
        kind = exception.func
        if len(exception.args) > 1:
            return None
        for argument in exception.args:
            if argument.star or argument.keyword is not None or not _is_text(argument.value):
                return None
            texts.append(argument.value)
    if not _is_error(site, kind):
        return None
    return exception, texts, {kind: kind}


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.ConcatenatedString):
        return _is_text(node.left) and _is_text(node.right)
    return isinstance(node, cst.SimpleString | cst.FormattedString)


def _is_error(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the expression is certainly a class of plain errors, at module level."""
    name = resolve(site.module, node) or ""
    module, _, last = name.rpartition(".")
    if module == "builtins":
        found = getattr(builtins, last, None)
        plain = isinstance(found, type) and issubclass(found, Exception)
        return plain and last not in ("StopIteration", "StopAsyncIteration")
    if not isinstance(node, cst.Name) or not is_global_object(site, node):
        return False
    for part in site.module.body:
        if isinstance(part, cst.ClassDef) and part.name.value == node.value:
            bases = [resolve(site.module, base.value) for base in part.bases]
            return bases in (["builtins.Exception"], ["builtins.ValueError"],
                             ["builtins.RuntimeError"])  # fmt: skip
    return False


def _may_be_handled(site: Site, head: cst.CSTNode) -> bool:
    """Whether code that may be compiled together with the check handles errors.

    That is any ``try`` with a handler in a function on the way to the check, and any elsewhere in
    the project in which the check's function is called by its name.
    """
    for outer in site.ancestors(head):
        if isinstance(outer, cst.With) and suppresses_errors(outer):
            return True
    assert site.function is not None
    if any(isinstance(node, cst.Try | cst.TryStar) and node.handlers
           for node in walk(site.function)):  # fmt: skip
        return True
    name = site.function.name.value
    for path, text in site.sources.items():
        lines = [frame.line for frame in site.graph_break.frames if frame.path == path]
        named = name != "forward" and f"{name}(" in text
        if (lines or named) and _handles(text, lines, name):
            return True
    return False


def _handles(text: str, lines: list[int], name: str) -> bool:
    """Whether a ``try`` or suppressing ``with`` of the file may get errors of the check."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            on_the_way = any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
            if on_the_way and any(isinstance(part, ast.Try | ast.TryStar) and part.handlers
                                  for part in ast.walk(node)):  # fmt: skip
                return True
        elif isinstance(node, ast.With):
            around = any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
            if around and suppresses_errors(_with(node)):
                return True
        elif isinstance(node, ast.Try | ast.TryStar) and node.handlers and name != "forward":
            for part in node.body:
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Call) and _called(inner) == name:
                        return True
    return False


def _with(node: ast.With) -> cst.With:
    items = ", ".join(ast.unparse(item) for item in node.items)
    statement = cst.parse_statement(f"with {items}:\n    pass\n")
    assert isinstance(statement, cst.With)
    return statement


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
