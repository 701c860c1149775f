"""``if bad.any(): raise ValueError(...)`` or ``assert``: check and error in an operator."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.binding import suppresses_errors
from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import code
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.handlers import goes_on_after, who_handles
from gbfix.schema import Fact, Safety

from .effect_operator import effect_operator
from .feeding import check_after, feeding_of
from .guard_block import guard_operator, guards_at, is_within, reads_integers
from .guarded_effect import chain_tested_at, effect_of
from .raised import asserted, guard_of

_SOURCE = """
import torch


class Odd(Exception):
    pass


def f(x, n, flag, self, parts, names):
    {}
    return x + 1
"""
_NAN = "torch.isnan(x).any()"
_FACTS = {"x": tensor(3), "n": scalar(3), "flag": scalar(True), _NAN: tensor(dtype="torch.bool")}
_FACTS |= {"count": scalar(3), "unique": tensor(2), "odd": tensor(2, dtype="torch.bool")}
_FACTS |= {"self.limit": scalar(9), "x.max() > self.limit": tensor(dtype="torch.bool")}
_FACTS |= {"parts": Fact("list", "list", items=(tensor(3, requires_grad=True),))}
_FACTS |= {"names": Fact("list", "list", items=(Fact("str", "str"),))}
_FACTS |= {"many": tensor(3, dtype="torch.int64"), "top": tensor(dtype="torch.int64")}
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


def _body(lines: str, why: str) -> NearMiss:
    """An ``if`` whose body does more than an operator may."""
    inner = "".join(f"\n        {line}" for line in lines.split("\n"))
    return _near_miss(f"if {_NAN}:{inner}", why)


class RaiseToOp(Codemod):
    """*What it does.*  Moves an ``if`` that does nothing but raise, or an ``assert``, into an
    operator, test and all.

    ```python
    if tokens.sum() != features:
        raise ValueError(f"{tokens.sum()} tokens, but {features} features")
    ```
    becomes ``check_forward(tokens, features)``, an operator at module level whose body is the same
    ``if``.

    *When it applies.*  The test depends on a tensor's data; the body computes at most what it says
    (by lists, loops and numbers of its own) and raises.  So may an ``elif`` or ``else``; what else
    an ``else`` does follows the check.  Numbers, selections and unique values that are made
    directly before the check, by whatever branches and loops, and that nothing else reads, move
    with it.  So does what is computed from integers: inductor would fuse it with what they index.

    *Fix safety.*  Safe: the same exception with the same message leaves the compiled function, on
    the same inputs.  Its traceback ends in the operator.  Both programs are compared while the test
    is forced to hold, where no input makes it hold.  Unsafe where a number comes from a parameter
    without annotation (a caller who gives a tensor instead would now get an error of torch's),
    where an object is changed on the way to the check (compiled code changes it after the graph)
    and some code of the project, or the next cell, goes on after such an error, and where other
    code of the project handles such errors around a call that may lead to the check and may itself
    be compiled (files beside the program count, too).

    *Refuses.*  An ``except``, a ``finally`` or a ``with`` around the check or around the calls that
    lead to it, inside what is compiled: compiled code would not come back to it.  (A handler of the
    compiled function's caller gets the error as before.)  ``raise ... from error``, exceptions that
    carry tensors, tests that an operator cannot compute alike.
    """

    name = "raise-to-op"
    uncovers = True
    codes = ("GB0170", "GB0088", "GB0033", "GB0036", "GB0124", "data-dependent-guard")
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
            "if flag:\n        check_f(x, n)",
            "x: torch.Tensor, n: torch.types.Number",
            f"if {_NAN}:\n        raise Odd(f'nan in {{n}} of {{x.shape}}')",
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
        _example(
            "alternatives, and a name for the message",
            f"if {_NAN}:\n        count = x.isnan().sum().item()\n        raise Odd('%d' % count)\n"
            "    elif n > 2: raise ValueError('late')\n    else:\n        x = x * 2  # fine",
            "check_f(x, n)\n    x = x * 2  # fine",
            "x: torch.Tensor, n: torch.types.Number",
            f"if {_NAN}:\n        count = x.isnan().sum().item()\n        raise Odd('%d' % count)\n"
            "    elif n > 2:\n        raise ValueError('late')",
        ),
        _example(
            "a number that only the check reads",
            "count = x.isnan().sum().item()\n    if count > n:\n        raise Odd(f'{count} nan')",
            "check_f(x, n)",
            "x: torch.Tensor, n: torch.types.Number",
            "count = x.isnan().sum().item()\n    if count > n:\n        raise Odd(f'{count} nan')",
            at="count > n",
        ),
        _example(
            "a selection that only the check reads, and the break at it",
            "# Only ones.\n    unique = torch.unique(x)\n    odd = unique != 1\n"
            "    if odd.any():\n        raise ValueError('odd')",
            "# Only ones.\n    check_f(x)",
            "x: torch.Tensor",
            "unique = torch.unique(x)\n    odd = unique != 1\n"
            "    if odd.any():\n        raise ValueError('odd')",
            at="torch.unique(x)",
        ),
        _example(
            "a body that collects what is wrong",
            f"if {_NAN}:\n        bad = []\n        for part in parts:\n"
            "            if part.isnan().any():\n"
            "                bad.append(f'{part.max().item():.2f}')\n"
            "        raise Odd('nan beside ' + ', '.join(bad))",
            "check_f(x, parts)",
            "x: torch.Tensor, parts: list[torch.Tensor]",
            f"if {_NAN}:\n        bad = []\n        for part in parts:\n"
            "            if part.isnan().any():\n"
            "                bad.append(f'{part.max().item():.2f}')\n"
            "        raise Odd('nan beside ' + ', '.join(bad))",
        ),
        _example(
            "a test in one of two forms",
            "unique = torch.unique(x)\n    if n is None:\n        bad = (unique != 1).any()\n"
            "    else:\n        bad = (unique != n).any()\n    if bad:\n"
            "        raise Odd(f'{unique.tolist()}')",
            "check_f(x, n)",
            "x: torch.Tensor, n: torch.types.Number | None",
            "unique = torch.unique(x)\n    if n is None:\n        bad = (unique != 1).any()\n"
            "    else:\n        bad = (unique != n).any()\n    if bad:\n"
            "        raise Odd(f'{unique.tolist()}')",
            at="torch.unique(x)",
        ),
        _example(
            "numbers that may be indices",
            "top = many.max()\n    if top >= n:\n        raise Odd(f'{top.item()} of {n}')",
            "check_f(many, n)",
            "many: torch.Tensor, n: torch.types.Number",
            "top = many.max()\n    if top >= n:\n        raise Odd(f'{top.item()} of {n}')",
            at="top >= n",
        ),
        _example(
            "an error in the else",
            f"if not {_NAN}:\n        x = x * 2\n    else:\n        raise Odd from None",
            "check_f(x)\n    x = x * 2",
            "x: torch.Tensor",
            f"if {_NAN}:\n        raise Odd from None",
        ),
    )
    near_misses = (
        _body("bad = names\nbad.append('z')\nraise Odd(f'{bad}')", "changes a list of its caller"),
        _body("y = x.float()\ny += 1\nraise Odd(f'{n}')", "changes a tensor"),
        _body("for part in parts:\n    part += 1\nraise Odd('late')", "changes tensors of a list"),
        _body("if n: return x\nraise Odd('late')", "leaves in another way"),
        _body("bad = [part for part in parts]\nraise Odd(bad)", "carries tensors in a list"),
        _body(
            "bad = [part for part in parts]\nraise Odd(f'{bad}')", "shows how autograd came to it"
        ),
        _body("raise Odd(', '.join(map(str, parts)))", "shows how autograd came to them"),
        _body(
            "bad = [str(p) for _, p in zip(names, parts)]\nraise Odd(bad[0])", "the same by pairs"
        ),
        _body("bad = [p.requires_grad for p in parts]\nraise Odd(f'{bad}')", "asks autograd"),
        _body("seed = torch.rand(1).item()\nraise Odd(f'{seed}')", "draws"),
        _body("raise Odd(f'{[p.max().item() for p in parts if p is not None]}')", "may lack one"),
        _body("raise Odd(f'{many.shape[0]=}, {self.limit=}')", "shows its own text"),
        _body("self.last = n\nraise Odd(f'{n}')", "sets what others read"),
        _body("why = explain(n)\nraise Odd(why)", "a call that may do anything"),
        _near_miss(
            f"if {_NAN}:\n        if n: count = 2\n        raise Odd(f'{{count}}')",
            "reads a name that may come from before",
        ),
        _near_miss(
            f"def told(): return n\n    if {_NAN}:\n        n = 2\n        raise Odd(f'{{n}}')",
            "a name that a function inside reads",
        ),
        _near_miss(
            f"global count\n    if {_NAN}:\n        count = 2\n        raise Odd(f'{{n}}')",
            "a name that others read",
        ),
        _near_miss(f"assert not {_NAN}, make(x)", "a message of another kind"),
        _near_miss(f"assert not {_NAN}; x = x + 1", "not alone on its line"),
        _near_miss(
            f"try:\n        assert not {_NAN}\n    except AssertionError: x = x * 2",
            "a handler waits for it",
        ),
        _near_miss(f"if {_NAN}:\n        x.add_(1)\n        raise ValueError", "more than a raise"),
        _near_miss(f"if n: x.add_(1)\n    elif {_NAN}: raise ValueError", "a part of a chain"),
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
            f"with suppressed(ValueError):\n        if {_NAN}: raise ValueError",
            "a context that may suppress it",
        ),
        _near_miss("if torch.rand(1) > n: raise ValueError", "random numbers", "torch.rand(1) > n"),
        _near_miss("if (y := x.sum()) > 0: raise ValueError", "binds a name", "(y := x.sum()) > 0"),
        _near_miss(f"while {_NAN}: raise ValueError", "a loop"),
        _near_miss(
            "n = x.sum().item()\n    if n > 3: raise ValueError\n    x = x * n",
            "a number that is read later",
            "x.sum().item()",
        ),
        _near_miss(
            "global count\n    count = x.sum().item()\n    if count > 3: raise ValueError",
            "a number that others read, too",
            "x.sum().item()",
        ),
        _near_miss(
            "n = x.sum().item()\n    x.add_(1)\n    if n > 3: raise ValueError",
            "a change between",
            "x.sum().item()",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = site.function
        if function is None:
            return
        plain = list(self._plain(site, function))
        found = [item for item in plain if isinstance(item, Rewrite)]
        if found and not _feeds_more(site) and not is_within(site, site.statement):
            yield from plain
            return
        refused: list[Advice] = []
        for guard in guards_at(site, _apart, raising=True):
            made = guard_operator(site, guard, effect_of)
            items = list(_judged(site, function, guard.run[-1], made, guard.kinds))
            if any(isinstance(item, Rewrite) for item in items):
                yield from items
                return
            refused += [item for item in items if isinstance(item, Advice)]
        yield from plain or refused[:1]

    def _plain(self, site: Site, function: cst.FunctionDef) -> Iterator[Rewrite | Advice]:
        """A check whose branches do no more than to raise."""
        line: cst.CSTNode = site.statement
        head = chain_tested_at(site)
        if head is None and isinstance(line, cst.SimpleStatementLine):
            found = check_after(site)
            head, line = (found, line) if isinstance(found, cst.If) else (None, found or line)
        if head is None and isinstance(line, cst.SimpleStatementLine):
            effect = asserted(line)
            if effect is not None:
                made = effect_operator(site, line, feeding_of(site, line).into(site, effect))
                yield from _judged(site, function, line, made, ["AssertionError"])
            return
        guard = None if head is None else guard_of(site, head)
        if head is None or guard is None:
            return
        under, test = _apart(site, head.test) if len(guard.tests) == 1 else (None, head.test)
        effect = guard.effect(under, test)
        if under is None:
            effect = feeding_of(site, head).into(site, effect)
        made = effect_operator(site, head, effect, after=guard.rest)
        kinds = [code(one.kind) for one in guard.raised]
        yield from _judged(site, function, head, made, kinds)


def _feeds_more(site: Site) -> bool:
    """Whether more than plain assignments makes what the check reads, or what may be indices."""
    return any(
        any(
            not isinstance(line, cst.SimpleStatementLine) or reads_integers(site, line)
            for line in guard.run[:-1]
        )
        for guard in guards_at(site, _apart, raising=True)
    )


_STATE = (
    "if the check fails in compiled code, attributes and globals set before it keep their old"
    " values: compiled code sets them after the graph"
)


def _judged(
    site: Site,
    function: cst.FunctionDef,
    line: cst.CSTNode,
    made: Rewrite | Advice,
    kinds: Sequence[str],
) -> Iterator[Rewrite | Advice]:
    """What was made, or nothing where a handler would miss the error; unsafe where one might, and
    where the error would come at another time than what the code does before it.
    """
    on_the_way, caught = who_handles(site, function, line, kinds)
    if on_the_way or _is_handled_here(site, line):
        where = f"`{on_the_way[0].function}`" if on_the_way else "the code around it"
        yield Advice(
            f"the check cannot move into a custom operator: {where} handles what it raises (or"
            " cleans up after it) inside the compiled code, which would not come back to it. Check"
            " before the compiled call, or choose with `torch.where` on the test."
        )
        return
    if not isinstance(made, Rewrite):
        yield made
        return
    notes = list(caught)
    sets = [_STATE] if _sets_before(site, line) else []
    if goes_on_after(site, kinds):
        notes += sets
    else:
        # Nobody is there to see what an error leaves behind: that is told, and no more.
        made = dataclasses.replace(
            made, notes=(*made.notes, *sets), assumes=(*made.assumes, "unset-at-errors")
        )
    if notes:
        made = dataclasses.replace(made, safety=Safety.UNSAFE, notes=(*made.notes, *notes))
    yield made


def _is_handled_here(site: Site, line: cst.CSTNode) -> bool:
    """Whether a context manager in the function may suppress the error."""
    return any(
        isinstance(outer, cst.With) and suppresses_errors(outer) for outer in site.ancestors(line)
    )


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
    """Whether it sets an attribute, an item of one or a global before that line.

    Nobody else has the object that an ``__init__`` on the way is making.
    """
    made = function.args.args[0].arg if function.name == "__init__" and function.args.args else ""
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
            if _is_own(target, made):
                continue
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute):
                return True
    return False


def _is_own(target: ast.expr, name: str) -> bool:
    """``self.x``"""
    match target:
        case ast.Attribute(value=ast.Name(id=it)):
            return it == name
    return False


def _apart(
    site: Site, test: cst.BaseExpression
) -> tuple[cst.BaseExpression | None, cst.BaseExpression]:
    """``x is not None and bad(x)`` in two: the questions that Python answers, and what follows.

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
    while count < len(parts) - 1 and (
        _asks_for_none(parts[count]) or _is_decided(site, parts[count])
    ):
        count += 1
    if not count:
        return None, test
    return _joined(parts[:count]), _joined(parts[count:])


def _is_decided(site: Site, node: cst.BaseExpression) -> bool:
    """A flag of an object or a parameter: ``self.training``, ``check``."""
    fact = site.fact(node)
    plain = isinstance(node, cst.Name | cst.Attribute)
    return plain and fact is not None and fact.kind in ("bool", "none", "str")


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
