"""How control leaves statements: returns, raises, breaks, and whether the end is reached at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.tree import children, flatten, statements_of

Block = cst.CSTNode | Sequence[cst.CSTNode]


@dataclasses.dataclass(frozen=True)
class Exits:
    """Counts of the ways that lead out of given statements (by syntax, reachable or not).

    ``breaks`` and ``continues`` count only those that belong to a loop *outside* the statements.
    ``yields`` and ``awaits`` (``async for``, ``async with`` included) suspend the function.
    ``raises`` counts ``raise`` and ``assert`` statements; calls may raise too and are not counted.
    """

    returns: int = 0
    raises: int = 0
    breaks: int = 0
    continues: int = 0
    yields: int = 0
    awaits: int = 0

    @property
    def any(self) -> bool:
        """Whether anything but falling off the end (or an error in a call) can happen."""
        return any(dataclasses.astuple(self))

    @property
    def jumps(self) -> int:
        """Returns, breaks and continues: the exits that are not errors."""
        return self.returns + self.breaks + self.continues


def exits(*nodes: Block) -> Exits:
    """Count the exits of statements, blocks or expressions, inner functions and classes aside."""
    counts = dict.fromkeys(("returns", "raises", "breaks", "continues", "yields", "awaits"), 0)
    for node in flatten(nodes):
        _count(node, counts, in_loop=False)
    return Exits(**counts)


_COUNTED: dict[type[cst.CSTNode], str] = {
    cst.Return: "returns",
    cst.Raise: "raises",
    cst.Assert: "raises",
    cst.Yield: "yields",
    cst.Await: "awaits",
}


def _count(node: cst.CSTNode, counts: dict[str, int], *, in_loop: bool) -> None:
    if isinstance(node, cst.FunctionDef):
        for part in (*node.decorators, node.params):
            _count(part, counts, in_loop=in_loop)
        return
    if isinstance(node, cst.Lambda):
        _count(node.params, counts, in_loop=in_loop)
        return
    if isinstance(node, cst.Break | cst.Continue):
        if not in_loop:
            counts["breaks" if isinstance(node, cst.Break) else "continues"] += 1
        return
    kind = _COUNTED.get(type(node))
    if kind is not None:
        counts[kind] += 1
    if isinstance(node, cst.For | cst.With | cst.CompFor) and node.asynchronous is not None:
        counts["awaits"] += 1
    if isinstance(node, cst.For | cst.While):
        head = (node.target, node.iter) if isinstance(node, cst.For) else (node.test,)
        for part in head:
            _count(part, counts, in_loop=in_loop)
        _count(node.body, counts, in_loop=True)
        if node.orelse is not None:  # a break here leaves the loop around this one
            _count(node.orelse, counts, in_loop=in_loop)
        return
    for child in children(node):
        _count(child, counts, in_loop=in_loop)


_FALL = "fall"  # the end is reached


def falls_through(block: Block) -> bool:
    """Whether control may reach the end of the block (calls are taken to return)."""
    return _FALL in _ways(block)


def always_exits(block: Block) -> bool:
    """Whether every path through the block ends in return, raise, break or continue (or loops)."""
    return _FALL not in _ways(block)


def always_returns(block: Block) -> bool:
    """Whether every path through the block ends in ``return``, and at least one path does."""
    return _ways(block) == {"return"}


def ways_out(block: Block) -> frozenset[str]:
    """How control may leave the block: of ``fall``, ``return``, ``raise``, ``break``, ``continue``.

    ``raise`` stands for raise statements (and asserts) that no handler of the block surely catches;
    errors inside calls, and names that are not bound, are not counted.
    """
    return frozenset(_ways(block))


def constant_test(node: cst.BaseExpression) -> bool | None:
    """The truth of a literal test (``True``, ``1``, ``None``, ``0``), or None if it must be run."""
    if isinstance(node, cst.Name):
        return {"True": True, "False": False, "None": False}.get(node.value)
    if isinstance(node, cst.Integer):
        return bool(node.evaluated_value)
    return None


def _ways(block: Block) -> set[str]:
    if isinstance(block, cst.CSTNode):
        nodes = statements_of(block)
        if nodes == (block,):
            return _ways_of_statement(block)
    else:
        nodes = tuple(block)
    ways: set[str] = set()
    for node in nodes:
        found = _ways(node)
        ways |= found - {_FALL}
        if _FALL not in found:
            return ways
    return ways | {_FALL}


def _ways_of_statement(node: cst.CSTNode) -> set[str]:
    match node:
        case cst.Return():
            return {"return"}
        case cst.Raise():
            return {"raise"}
        case cst.Assert():
            truth = constant_test(node.test)
            return {_FALL} if truth else {"raise", _FALL}
        case cst.Break():
            return {"break"}
        case cst.Continue():
            return {"continue"}
        case cst.If():
            return _ways_of_if(node)
        case cst.While() | cst.For():
            return _ways_of_loop(node)
        case cst.Try() | cst.TryStar():
            return _ways_of_try(node)
        case cst.With():
            # A context manager may swallow an error that leaves its block.
            ways = _ways(node.body)
            return ways | {_FALL} if "raise" in ways else ways
        case cst.Match():
            ways = set[str]()
            for case in node.cases:
                ways |= _ways(case.body)
                if case.guard is None and irrefutable(case.pattern):
                    return ways
            return ways | {_FALL}
    return {_FALL}


def _ways_of_if(node: cst.If) -> set[str]:
    truth = constant_test(node.test)
    otherwise = _ways(node.orelse) if node.orelse is not None else {_FALL}
    if truth is None:
        return _ways(node.body) | otherwise
    return _ways(node.body) if truth else otherwise


def _ways_of_loop(node: cst.While | cst.For) -> set[str]:
    inside = _ways(node.body)
    ways = inside & {"return", "raise"}
    endless = isinstance(node, cst.While) and constant_test(node.test) is True
    if not endless:
        ways |= _ways(node.orelse) if node.orelse is not None else {_FALL}
    if "break" in inside:
        ways.add(_FALL)
    return ways


def _ways_of_try(node: cst.Try | cst.TryStar) -> set[str]:
    ways = _ways(node.body)
    if node.orelse is not None and _FALL in ways:
        ways = (ways - {_FALL}) | _ways(node.orelse)
    for handler in node.handlers:
        ways |= _ways(handler.body)
    if node.finalbody is not None:
        final = _ways(node.finalbody)
        # A finally that jumps replaces every other way out; one that ends lets them go on.
        ways = ways | (final - {_FALL}) if _FALL in final else final
    return ways


def irrefutable(pattern: cst.MatchPattern) -> bool:
    """Whether a pattern matches everything: ``_``, a bare name, or an alternative of such."""
    if isinstance(pattern, cst.MatchAs):
        return pattern.pattern is None or irrefutable(pattern.pattern)
    if isinstance(pattern, cst.MatchOr):
        return any(irrefutable(element.pattern) for element in pattern.patterns)
    return False
