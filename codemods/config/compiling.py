"""Where a region is compiled, and how to set a Dynamo option there and only there."""

from __future__ import annotations

import dataclasses
import itertools

import libcst as cst

from gbfix.analysis.scopes import import_map
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Site

from ..api.references import is_compile
from ..api.splice import Splice


@dataclasses.dataclass(frozen=True)
class Compiling:
    """The place in the project that compiles a region: a decorated function, or a statement.

    ``view`` is the file; exactly one of ``function`` and ``statement`` is set.
    """

    view: Site
    torch: str
    function: cst.FunctionDef | None
    statement: cst.SimpleStatementLine | None

    def set_option(
        self,
        splice: Splice,
        option: str,
        value: str,
        *,
        at_import: bool = False,
        around_calls: bool = False,
    ) -> None:
        """Set an option of Dynamo's: for the calls of the function, or from the statement on.

        ``at_import``: where the statement stands in a function, from the file's import on.
        ``around_calls``: for calls of what the statement compiles, if it is only called.
        """
        setting = f"{self.torch}._dynamo.config.{option} = {value}"
        if self.function is not None:
            patch = f"{self.torch}._dynamo.config.patch"
            known = self.function.decorators[0].decorator if self.function.decorators else None
            if isinstance(known, cst.Call) and known.args and code(known.func) == patch:
                end = self.view.span(known)
                splice.insert(end.end_line, end.end_column - 1, f", {option}={value}")
                return
            decorator = f"@{patch}({option}={value})"
            splice.insert_line_before(self.function, decorator, above_comments=False)
        elif (compiled := self.only_called()) is not None and around_calls:
            patch = f"{self.torch}._dynamo.config.patch"
            known = compiled.func
            if isinstance(known, cst.Call) and known.args and code(known.func) == patch:
                end = self.view.span(known)
                splice.insert(end.end_line, end.end_column - 1, f", {option}={value}")
            else:
                splice.replace(compiled, f"{patch}({option}={value})({self.view.text(compiled)})")
        elif self.statement is not None:
            line = self._last_import() if at_import else None
            if line is None:
                splice.insert_line_before(self.statement, setting)
            else:
                newline = self.view.module.default_newline
                splice.insert(line + 1, 0, f"{newline}{setting}{newline}")

    def only_called(self) -> cst.Call | None:
        """What the statement gives to ``g`` (``g = torch.compile(f)``), where the started script
        does no more with ``g`` than to call it: nobody sees what else stands for it.
        """
        match self.statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(name) as target)],
                        value=cst.Call() as value,
                    )
                ]
            ) if self.view.path == self.view.entry:
                pass
            case _:
                return None
        patched = isinstance(value.func, cst.Call) and len(value.args) == 1
        inner = value.args[0].value if patched else value
        if not isinstance(inner, cst.Call) or not is_compile(self.view, inner.func):
            return None
        attributes = {
            node.attr for node in walk(self.view.module) if isinstance(node, cst.Attribute)
        }
        for node in walk(self.view.module):
            match node:
                case cst.Name(value=other) if (
                    other == name
                    and node is not target
                    and node not in attributes
                    and not self._is_before(node)
                ):
                    holder = self.view.parent(node)
                    called = isinstance(holder, cst.Call) and holder.func is node
                    if not called and not (isinstance(holder, cst.Arg) and holder.keyword is node):
                        return None
                case cst.Name("globals" | "locals" | "vars" | "eval" | "exec" | "__import__") if (
                    node not in attributes
                ):
                    return None
        return value

    def _is_before(self, node: cst.CSTNode) -> bool:
        """Whether a place runs before the statement, and not after it.

        ``model = torch.compile(model)``: what the name stood for until then is another object.
        """
        line = self.statement
        around = [] if line is None else [line, *self.view.ancestors(line)]
        declared = isinstance(self.view.parent(node), cst.NameItem)  # global, nonlocal
        if declared or any(isinstance(it, cst.For | cst.While) for it in around):
            return False
        own = [node, *self.view.ancestors(node)]
        for it in own:
            if it in around:
                break
            named = getattr(it, "name", None) is node
            if isinstance(it, cst.FunctionDef | cst.Lambda | cst.ClassDef) and not named:
                return False  # it runs when it is called
        for inner, outer in itertools.pairwise(around):
            if outer not in own:
                continue
            mine = own[own.index(outer) - 1]
            block: list[cst.CSTNode] = []
            if isinstance(outer, cst.IndentedBlock | cst.Module):
                block = list(outer.body)
            if inner in block and mine in block:
                return block.index(mine) <= block.index(inner)
            return isinstance(outer, cst.FunctionDef) and mine is outer.params
        return False

    def _last_import(self) -> int | None:
        """The line of the last import above everything else, if the statement is in a function."""
        if self.statement is None or self.view.function_of(self.statement) is None:
            return None
        last = None
        for line in self.view.module.body:
            if not isinstance(line, cst.SimpleStatementLine):
                break
            if isinstance(line.body[0], cst.Import | cst.ImportFrom):
                last = self.view.span(line).end_line
        return last


def compiling(site: Site) -> Compiling | None:
    """Where the site's region is compiled; None where that is not plain to see."""
    view = _file(site)
    if view is None:
        return None
    imports = import_map(view.module)
    torch = next((name for name, home in imports.items() if home == "torch"), None)
    if torch is None:
        return None
    function = _decorated_function(site, view)
    statement = None if function is not None else _statement(site, view)
    if function is None and statement is None:
        return None
    return Compiling(view, torch, function, statement)


def _file(site: Site) -> Site | None:
    path = site.region.compile_path if site.region is not None else ""
    return site if path in ("", site.path) else site.other(path)


def _decorated_function(site: Site, view: Site) -> cst.FunctionDef | None:
    """The region's function, if a decorator compiles it."""
    found = []
    for node in walk(view.module):
        if not isinstance(node, cst.FunctionDef):
            continue
        if not any(is_compile(view, decorator.decorator) for decorator in node.decorators):
            continue
        first, last = view.span(node.decorators[0]).line, view.span(node).line
        if site.region is None:
            matches = node is site.function
        else:
            name = site.region.name.rpartition(".")[2]
            matches = name == node.name.value and first <= site.region.line <= last
        if matches:
            found.append(node)
    return found[0] if len(found) == 1 else None


def _statement(site: Site, view: Site) -> cst.SimpleStatementLine | None:
    """The statement that calls ``torch.compile`` (or ``module.compile``) for the region."""
    found: dict[cst.SimpleStatementLine, None] = {}
    for node in walk(view.module):
        if not isinstance(node, cst.Call):
            continue
        by_method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile"
        if not (is_compile(view, node.func) or (by_method and site.region is not None)):
            continue
        statement = view.statement_of(node)
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        span = view.span(statement)
        line = site.region.compile_line if site.region is not None else span.line
        if span.line <= line <= span.end_line:
            found[statement] = None
    return next(iter(found)) if len(found) == 1 else None
