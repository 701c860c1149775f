"""Nested functions that are called at once, so that it does not matter what they capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import import_map
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

#: Functions of torch that call their arguments at once, and the places of those arguments.
_CALLING = {"cond": (1, 2), "while_loop": (0, 1)}


def captured_for_later(site: Site, function: cst.FunctionDef) -> frozenset[str]:
    """Names that closures made in the function may read or bind at some later time.

    Branches of ``torch.cond`` and bodies of ``torch.while_loop`` are called where they stand, and
    nobody keeps them.  A name that only these capture may be moved into a function as it is: they
    move with it.
    """
    modules = {name for name, target in import_map(site.module).items() if target == "torch"}
    modules -= activity(function.body).writes
    uses = Counter(node.value for node in walk(function.body) if isinstance(node, cst.Name))
    inert = function.body.visit(_WithoutCalledAtOnce(frozenset(modules), uses))
    assert isinstance(inert, cst.BaseSuite)
    return activity(inert).captures


class _WithoutCalledAtOnce(cst.CSTTransformer):
    """Removes closures that are called where they stand, innermost first."""

    def __init__(self, modules: frozenset[str], uses: Counter[str]) -> None:
        super().__init__()
        self._modules = modules
        self._uses = uses

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        arguments = list(updated_node.args)
        for place in _places(updated_node, self._modules):
            value = arguments[place].value
            if isinstance(value, cst.Lambda) and _makes_no_closure(value.body):
                arguments[place] = arguments[place].with_changes(value=cst.Name("None"))
        return updated_node.with_changes(args=arguments)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body = list(updated_node.body)
        kept = [s for i, s in enumerate(body) if not self._called_next(s, body, i)]
        return updated_node.with_changes(body=kept or [cst.parse_statement("pass")])

    def _called_next(
        self, node: cst.BaseStatement, block: Sequence[cst.BaseStatement], index: int
    ) -> bool:
        """Whether the statement defines a function that only the next one uses, calling it.

        Between the definition and the call nothing runs but tests and other definitions, so every
        name still means what it meant at the definition.
        """
        if not isinstance(node, cst.FunctionDef) or node.decorators:
            return False
        if node.asynchronous or not _makes_no_closure(node.body):
            return False
        following = next(
            (s for s in block[index + 1 :] if not isinstance(s, cst.FunctionDef)), None
        )
        if following is None:
            return False
        name = node.name.value
        calls = sum(self._calls(line, name) for line in _first_lines(following))
        return 0 < calls == self._uses[name] - 1

    def _calls(self, line: cst.SimpleStatementLine, name: str) -> int:
        """How often the line calls the function of that name, or lets torch call it."""
        count = 0
        for node in walk(line):
            if isinstance(node, cst.Call):
                called = [node.func, *(node.args[i].value for i in _places(node, self._modules))]
                count += sum(isinstance(c, cst.Name) and c.value == name for c in called)
        return count


def _places(call: cst.Call, modules: frozenset[str]) -> tuple[int, ...]:
    """Which positional arguments of the call are called by it."""
    match call.func:
        case cst.Attribute(value=cst.Name(value=module), attr=cst.Name(value=name)):
            places = _CALLING.get(name, ()) if module in modules else ()
            positional = len(call.args) > max(places, default=0) and not any(
                arg.star or arg.keyword for arg in call.args[: max(places, default=0) + 1]
            )
            return places if positional else ()
    return ()


def _makes_no_closure(body: cst.CSTNode) -> bool:
    """Whether calling the function leaves nothing behind that can still look at its names."""
    kinds = cst.Lambda | cst.FunctionDef | cst.ClassDef | cst.GeneratorExp | cst.Yield | cst.Await
    nonlocals = cst.Nonlocal | cst.Global
    return not any(isinstance(node, kinds | nonlocals) for node in walk(body))


def _first_lines(statement: cst.CSTNode) -> list[cst.SimpleStatementLine]:
    """The statement, or what an ``if`` runs first, branch by branch."""
    match statement:
        case cst.SimpleStatementLine():
            return [statement]
        case cst.If(body=cst.IndentedBlock(body=[first, *_]), orelse=orelse):
            others = [] if orelse is None else _first_lines(orelse)
            return [*_first_lines(first), *others]
        case cst.Else(body=cst.IndentedBlock(body=[first, *_])):
            return _first_lines(first)
    return []
