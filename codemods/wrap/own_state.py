"""Operators whose code reads or changes what their module keeps have the module's name at run time.

torch knows an operator by one name in the whole process, and a second registration replaces the
first.  A file that is loaded twice (as ``__main__``, and once more because another file imports it)
has two lists, two tables and two loggers: with a name in its text, the operator of both would
append to the list of the module that came last.
"""

from __future__ import annotations

import ast
import re
import symtable
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, dotted, words
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site

#: Calls whose result nothing changes: it does not matter which module's it is.
_FIXED = words(
    """torch.device torch.dtype torch.tensor re.compile frozenset tuple int float str bool Path
    pathlib.Path namedtuple collections.namedtuple TypeVar typing.TypeVar os.getenv os.environ.get
    math.log math.sqrt torch.compile torch.no_grad"""
)
#: What loads a library, of which a process has one.
_LOADS = frozenset({"load", "load_inline", "CDLL", "LoadLibrary", "import_module"})
_CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_LITERAL = re.compile(r'"(\w+)::(\w+)"\Z')


def qualified(name: str, *, keeps_state: bool, space: str = "example") -> str:
    """What a definition has for its operator's name (for the examples of codemods)."""
    run_time = "{__name__.replace('.', '_')}"
    return f'f"{run_time}::{name}"' if keeps_state else f'"{space}::{name}"'


def named_at_run_time(
    site: Site, statements: Sequence[cst.BaseStatement], space: str
) -> Sequence[cst.BaseStatement]:
    """Definitions of operators, which are named in ``space`` where they keep state."""
    if not keeps_state(site, statements):
        return statements
    return [cast(cst.BaseStatement, statement.visit(_Named(space))) for statement in statements]


class _Named(cst.CSTTransformer):
    def __init__(self, space: str) -> None:
        super().__init__()
        self._space = space

    def leave_Decorator(
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator:
        call = updated_node.decorator
        if not isinstance(call, cst.Call) or not call.args:
            return updated_node
        if not (dotted(call.func) or "").endswith("library.custom_op"):
            return updated_node
        found = _LITERAL.match(code(call.args[0].value))
        if found is None:
            return updated_node
        name = f'f"{self._space}::{found[2]}"'
        first = call.args[0].with_changes(value=cst.parse_expression(name))
        return updated_node.with_changes(decorator=call.with_changes(args=[first, *call.args[1:]]))


def keeps_state(site: Site, statements: Sequence[cst.BaseStatement]) -> bool:
    """Whether what is defined reaches something that each load of the file has of its own."""
    text = "".join(code(statement) for statement in statements)
    own = [target for line in tree_of(text).body for target in _targets(line)]
    return bool(own) or _Reach(site).states(text)


def _targets(line: ast.stmt) -> Iterator[ast.Name]:
    match line:
        case ast.Assign(targets=targets, value=value) if not isinstance(value, ast.Constant):
            yield from (target for target in targets if isinstance(target, ast.Name))


class _Reach:
    """What code of a file reads of its module, through the functions that it calls."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._bound: Mapping[str, tuple[cst.CSTNode, ...]] = module_bindings(site.module)
        self._seen: set[str] = set()

    def states(self, text: str) -> bool:
        calls = (it for it in ast.walk(tree_of(text)) if isinstance(it, ast.Call))
        called = {it.func.id for it in calls if isinstance(it.func, ast.Name)}
        for name, is_written in _globals(symtable.symtable(text, "operator", "exec")):
            if is_written:
                return True
            if name not in self._seen:
                self._seen.add(name)
                if self._is_state(name, called):
                    return True
        return False

    def _is_state(self, name: str, called: set[str]) -> bool:
        bound = self._bound.get(name, ())
        if not bound:
            return name.isupper()  # the table of objects, which the same edit puts into the file
        if len(bound) > 1 and not all(isinstance(it, cst.Import | cst.ImportFrom) for it in bound):
            return any(isinstance(it, cst.Assign | cst.AnnAssign | cst.AugAssign) for it in bound)
        match bound:
            case (cst.FunctionDef() as function,):
                if function.name.value != name:
                    return True  # a function that says ``global``
                if any("cache" in code(it.decorator) for it in function.decorators):
                    return True
                return self.states(textwrap.dedent(code(function)))
            case (cst.ClassDef() as made,):
                if re.search(rf"\b{name}\.\w+\s*(?:[-+*/|]=|=[^=])", self._site.source):
                    return True
                return name in called and self.states(textwrap.dedent(code(made)))
            case (cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value),):
                return self._may_change(name, value)
        return False

    def _may_change(self, name: str, node: cst.BaseExpression) -> bool:
        value = ast.parse(code(node).strip(), mode="eval").body
        if isinstance(value, ast.Call):
            called = ast.unparse(value.func)
            last = called.rpartition(".")[2]
            if last == "getLogger":
                return any(isinstance(it, ast.Name) for it in value.args)
            return called not in _FIXED and last not in _LOADS
        if isinstance(value, ast.Name):
            return self._is_state(value.id, set())
        if any(isinstance(it, ast.Call) for it in ast.walk(value)):
            return True
        # Nobody keeps an empty list to read it.
        empty = isinstance(value, ast.List | ast.Dict) and code(node).strip() in ("[]", "{}")
        return isinstance(value, _CONTAINERS) and (empty or self._is_changed(name))

    def _is_changed(self, name: str) -> bool:
        changes = re.compile(
            rf"\b{name}\s*(?:\[[^\]]*\]\s*[-+*/|]*=[^=]|[-+*/|]=)|del {name}\b|\b{name}\.[a-z]"
        )
        return any(map(changes.search, {**self._site.sources, "": self._site.source}.values()))


def _globals(table: symtable.SymbolTable) -> Iterator[tuple[str, bool]]:
    """The module's names that functions read, and whether they bind them anew."""
    if table.get_type() == "function":
        for symbol in table.get_symbols():
            if symbol.is_global():
                yield symbol.get_name(), symbol.is_assigned()
    for inner in table.get_children():
        yield from _globals(inner)
