"""What one file says about regions and calls, kept small enough to hold for a whole workspace.

A syntax tree goes in (`ast`: a thousand lines parse in some ten milliseconds) and is let go again.
Names are kept as written (``self.block``, ``F.relu``); `gbfix.lsp.index` finds what they mean.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

#: Decorators behind which Dynamo does not look: what is called there cannot break a graph.
OPAQUE = (
    "torch.library.custom_op",
    "torch.library.triton_op",
    "torch.library.register_fake",
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch._dynamo.nonstrict_trace",
    "torch._dynamo.allow_in_graph",
    "torch.compiler.allow_in_graph",
    "torch._dynamo.leaf_function",
    "torch.jit.ignore",
    "torch.jit.unused",
)
#: Of these, the ones that break the graph of their caller.
DISABLED = ("torch.compiler.disable", "torch._dynamo.disable")


@dataclasses.dataclass(frozen=True)
class Function:
    """A ``def`` by its qualified name, with the names that it calls, as written."""

    qualname: str
    line: int
    column: int
    calls: tuple[str, ...]
    owner: str = ""
    opaque: str = ""


@dataclasses.dataclass(frozen=True)
class Class:
    """A class with its bases and the classes of what it stores on ``self``, as written."""

    name: str
    bases: tuple[str, ...]
    methods: tuple[str, ...]
    parts: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """Something that is compiled: ``target`` as written at the call, or a decorated ``def``."""

    target: str
    scope: str
    line: int
    column: int
    end_column: int
    decorator: bool


@dataclasses.dataclass(frozen=True)
class Summary:
    """One file; ``imports`` maps local names to dotted ones, ``made`` variables to classes."""

    path: str
    imports: Mapping[str, str]
    functions: Mapping[str, Function]
    classes: Mapping[str, Class]
    compiled: tuple[Compiled, ...]
    made: Mapping[str, str]

    def meaning(self, name: str) -> str:
        """A written name with its first part replaced by what was imported under it."""
        head, dot, rest = name.partition(".")
        return self.imports.get(head, head) + dot + rest


def dotted(node: ast.AST) -> str:
    """A chain of names as text; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def summarize(path: str, tree: ast.Module) -> Summary:
    """The summary of a parsed file."""
    reader = _Reader()
    reader.read(tree)
    return Summary(
        path,
        reader.names,
        reader.functions,
        reader.classes,
        tuple(reader.compiled),
        reader.made,
    )


_LEAVES = (
    ast.Name,
    ast.Constant,
    ast.expr_context,
    ast.operator,
    ast.cmpop,
    ast.boolop,
    ast.unaryop,
)


@dataclasses.dataclass
class _Scope:
    """What stands directly in a module, function or class; ``owner`` is the class around it."""

    qualname: str
    owner: str
    node: ast.AST
    calls: list[ast.Call] = dataclasses.field(default_factory=list)
    assigned: list[ast.Assign | ast.AnnAssign] = dataclasses.field(default_factory=list)
    inner: list[_Scope] = dataclasses.field(default_factory=list)


class _Reader:
    """Walks a tree once: this is most of what an edit costs."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.compiled: list[Compiled] = []
        self.made: dict[str, str] = {}

    def read(self, tree: ast.Module) -> None:
        scopes = self._scopes(tree)
        # Only now is it known what all names were imported as.
        for scope in scopes:
            if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._function(scope, scope.node)
            elif isinstance(scope.node, ast.ClassDef):
                self._class(scope, scope.node)
            for item in scope.assigned:
                if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call):
                    made = dotted(item.value.func)
                    for target in item.targets:
                        if made and isinstance(target, ast.Name):
                            self.made.setdefault(target.id, made)
        for scope in scopes:
            for call in scope.calls:
                self._call(call, scope.qualname)

    def _scopes(self, tree: ast.Module) -> list[_Scope]:
        """All scopes, outer ones first, with what stands in them, in the file's order."""
        module = _Scope("", "", tree)
        found = [module]
        stack: list[tuple[ast.AST, _Scope]] = [(node, module) for node in reversed(tree.body)]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                qualname = f"{scope.qualname}.{node.name}" if scope.qualname else node.name
                owner = qualname if isinstance(node, ast.ClassDef) else scope.owner
                inner = _Scope(qualname, owner, node)
                scope.inner.append(inner)
                found.append(inner)
                stack.extend((item, inner) for item in reversed(node.body))
                stack.extend((item, scope) for item in reversed(node.decorator_list))
                continue
            if isinstance(node, ast.Call):
                scope.calls.append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                scope.assigned.append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
                continue
            stack.extend((child, scope) for child in reversed(_children(node)))
        return found

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.asname:
                    self.names[name.asname] = name.name
                else:
                    top = name.name.partition(".")[0]
                    self.names.setdefault(top, top)
            return
        prefix = "." * node.level + (node.module or "")
        joint = "" if prefix.endswith(".") else "."
        for name in node.names:
            self.names[name.asname or name.name] = f"{prefix}{joint}{name.name}"

    def _meaning(self, name: str) -> str:
        head, dot, rest = name.partition(".")
        return self.names.get(head, head) + dot + rest

    def _function(self, scope: _Scope, node: FunctionNode) -> None:
        opaque = ""
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self._meaning(dotted(called))
            if name in OPAQUE or name.endswith((".register_fake", ".register_autograd")):
                opaque = name
            compiles = name == "torch.compile" or (
                name == "functools.partial"
                and isinstance(decorator, ast.Call)
                and bool(decorator.args)
                and self._meaning(dotted(decorator.args[0])) == "torch.compile"
            )
            if compiles:
                self._compiled(scope.qualname, "", decorator, decorator=True)
        calls = tuple(name for call in scope.calls if (name := dotted(call.func)))
        self.functions[scope.qualname] = Function(
            scope.qualname, node.lineno, node.col_offset, calls, scope.owner, opaque
        )

    def _class(self, scope: _Scope, node: ast.ClassDef) -> None:
        parts: dict[str, str] = {}
        for method in scope.inner:
            for item in method.assigned:
                targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                match targets:
                    case [ast.Attribute(ast.Name("self"), name)] if item.value is not None:
                        parts.setdefault(name, _made(item.value))
            for call in method.calls:
                match call:
                    case ast.Call(
                        func=ast.Attribute(ast.Name("self"), "register_buffer"),
                        args=[ast.Constant(str(name)), *_],
                    ):
                        parts.setdefault(name, "torch.Tensor")
        bases = tuple(filter(None, (dotted(base) for base in node.bases)))
        methods = tuple(
            item.node.name
            for item in scope.inner
            if isinstance(item.node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        found = {name: made for name, made in parts.items() if made}
        self.classes[scope.qualname] = Class(scope.qualname, bases, methods, found)

    def _call(self, node: ast.Call, scope: str) -> None:
        name = dotted(node.func)
        if not name.endswith("compile"):
            return
        if self._meaning(name) == "torch.compile":
            target = node.args[0] if node.args else None
            if target is not None and not isinstance(target, ast.Lambda):
                self._compiled(_made(target) or dotted(target), scope, node, decorator=False)
        elif name.endswith(".compile") and not node.args:
            # ``model.compile()``, of something that was made in this file.
            made = name.removesuffix(".compile")
            if made in self.made or made == "self" or made.startswith("self."):
                self._compiled(made, scope, node, decorator=False)

    def _compiled(self, target: str, scope: str, node: ast.expr, *, decorator: bool) -> None:
        if target:
            end = node.end_col_offset or node.col_offset
            if node.end_lineno != node.lineno:
                end = node.col_offset
            self.compiled.append(
                Compiled(target, scope, node.lineno, node.col_offset, end, decorator)
            )


def _children(node: ast.AST) -> list[ast.AST]:
    """The child nodes in which anything can stand that a summary tells of."""
    found: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [
                item
                for item in value
                if isinstance(item, ast.AST) and not isinstance(item, _LEAVES)
            ]
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            found.append(value)
    return found


def _made(value: ast.expr) -> str:
    """What a value is made by: ``Cell`` of ``Cell(4).eval()`` and of ``torch.compile(Cell(4))``."""
    while isinstance(value, ast.Call):
        func = value.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
            value = func.value
            continue
        name = dotted(func)
        if name == "torch.compile" and value.args:
            value = value.args[0]
            continue
        return name
    return ""
