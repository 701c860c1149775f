"""A loop whose rounds return: what comes behind it, and what it returns where no round did."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from ..control_flow.refusal import Refusal
from ..data_dependent.number_proof import only_truth_counts


@dataclasses.dataclass
class Behind:
    """The ``return`` behind a loop, and the statements between the two.

    ``early`` says that its value can be made before the loop: a round that returns puts its own
    over it.  Otherwise the two are selected at the end.  ``found`` are the names under which rounds
    keep the values that they return, one for each of them; "" stands for what is the same in all.
    """

    last: cst.Return
    between: Sequence[cst.SimpleStatementLine] = ()
    early: bool = False
    found: list[str] = dataclasses.field(default_factory=list)
    #: Whether rounds return one truth value, and what comes behind them is the other: "True" where
    #: a round says yes, "False" where it says no.
    says: str = ""

    @property
    def values(self) -> list[cst.BaseExpression]:
        return values_of(self.last)

    @property
    def only(self) -> str:
        """The name that holds what is returned, where it is made before the loop."""
        return self.found[0] if self.early and self.found else ""

    def kept(self, line: cst.Return) -> list[cst.BaseStatement]:
        """What a round does in the place of its ``return``."""
        return [
            cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])
            for name, value in zip(self.found, values_of(line), strict=True)
            if name
        ]


def values_of(node: cst.Return) -> list[cst.BaseExpression]:
    """The values that are returned: of a tuple's display, each."""
    match node.value:
        case None:
            raise Refusal("it returns nothing")
        case cst.Tuple(elements=elements):
            if not all(isinstance(element, cst.Element) for element in elements):
                raise Refusal("what it returns is not known")
            return [element.value for element in elements]
        case value:
            return [value]


def return_behind(site: Site, loop: cst.For) -> Behind:
    """What comes behind the loop up to the ``return``, all of which may be computed in vain."""
    block = site.block_of(loop)
    place = next((n for n, it in enumerate(block) if it is loop), len(block))
    follow = block[place + 1 :]
    match follow:
        case [*_, cst.SimpleStatementLine(body=[cst.Return() as last])]:
            values = values_of(last)
        case _:
            raise Refusal("it returns, and no `return` of a value comes next")
    if loop.orelse is not None:
        raise Refusal("it returns, and has an `else`")
    says = _says(site, loop, last) if len(follow) == 1 else ""
    if says:
        return Behind(last, early=True, found=[""], says=says)
    does = activity(loop)
    if len(follow) == 1 and not isinstance(last.value, cst.Tuple):
        reads = activity(last).reads
        if does.mutates & reads:
            raise Refusal("the loop changes what is returned after it")
        if not does.bound & reads or isinstance(last.value, cst.Name):
            return Behind(last, early=True)
    lines = [_line(statement) for statement in follow[:-1]]
    same = _same_in_all(loop, lines, values)
    return Behind(
        last, lines, found=["" if text in same else "found" for text in map(code, values)]
    )


def _says(site: Site, loop: cst.For, last: cst.Return) -> str:
    """What all rounds return that do, where it is True or False, the other comes behind the loop,
    and whoever calls the function asks for the truth of that alone.
    """
    given = {code(it.value) for it in walk(loop) if isinstance(it, cst.Return) and it.value}
    pair = (given, code(last.value) if last.value is not None else "")
    if pair not in (({"True"}, "False"), ({"False"}, "True")):
        return ""
    function = site.function_of(loop)
    if function is None or function.decorators or _annotated(function) not in ("", "bool"):
        return ""
    name = function.name.value
    word = rf"\b{re.escape(name)}\b"
    if any(re.search(word, text) for path, text in site.sources.items() if path != site.path):
        return ""
    named = len(re.findall(word, site.source))
    calls = [it for it in walk(site.module) if isinstance(it, cst.Call) and _last(it.func) == name]
    # Each mention is the definition or a call.
    if named != len(calls) + 1 or not all(only_truth_counts(site, it) for it in calls):
        return ""
    return given.pop()


def _annotated(function: cst.FunctionDef) -> str:
    return code(function.returns.annotation) if function.returns is not None else ""


def _last(func: cst.BaseExpression) -> str:
    return code(func).rpartition(".")[2]


def _line(statement: cst.CSTNode) -> cst.SimpleStatementLine:
    """A statement that binds names, and nothing else."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=targets)]) if (
            all(isinstance(target.target, cst.Name) for target in targets)
            and not exits([statement]).jumps
        ):
            return statement
    raise Refusal(
        "an iteration returns, and the code after the loop does more than compute its result"
    )


def _same_in_all(
    loop: cst.For, between: Sequence[cst.BaseStatement], values: Sequence[cst.BaseExpression]
) -> set[str]:
    """Texts of values that neither a round nor what comes behind changes."""
    changed: set[str] = set()
    for node in (loop, *between):
        does = activity(node)
        changed |= {*does.bound, *does.mutates}
    return {
        code(value)
        for value in values
        if isinstance(value, cst.Name) and value.value not in changed
    }
