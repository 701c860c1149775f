"""What one file says about regions and calls, kept small enough to hold for a whole workspace.

A syntax tree goes in (`ast`: a thousand lines parse in some ten milliseconds) and is let go again.
Names are kept as written (``self.block``, ``F.relu``); `gbfix.lsp.index` finds what they mean.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping

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
    reader.imports(tree)
    reader.block(tree.body, "", "")
    return Summary(
        path,
        reader.names,
        reader.functions,
        reader.classes,
        tuple(reader.compiled),
        reader.made,
    )


def own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a body, except what is inside a nested ``def`` or class."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))


class _Reader:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.compiled: list[Compiled] = []
        self.made: dict[str, str] = {}

    def imports(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.asname:
                        self.names[name.asname] = name.name
                    else:
                        top = name.name.partition(".")[0]
                        self.names.setdefault(top, top)
            elif isinstance(node, ast.ImportFrom):
                prefix = "." * node.level + (node.module or "")
                joint = "" if prefix.endswith(".") else "."
                for name in node.names:
                    self.names[name.asname or name.name] = f"{prefix}{joint}{name.name}"

    def _meaning(self, name: str) -> str:
        head, dot, rest = name.partition(".")
        return self.names.get(head, head) + dot + rest

    def block(self, body: list[ast.stmt], scope: str, owner: str) -> None:
        """Functions, classes, compile calls and assignments of a body, nested ones included."""
        for node in own_nodes(body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._function(node, scope, owner)
            elif isinstance(node, ast.ClassDef):
                self._class(node, scope)
            elif isinstance(node, ast.Call):
                self._call(node, scope)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = dotted(node.value.func)
                for target in node.targets:
                    if made and isinstance(target, ast.Name):
                        self.made.setdefault(target.id, made)

    def _function(self, node: FunctionNode, scope: str, owner: str) -> None:
        qualname = f"{scope}.{node.name}" if scope else node.name
        calls = [
            dotted(child.func) for child in own_nodes(node.body) if isinstance(child, ast.Call)
        ]
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
                self._compiled(qualname, "", decorator, decorator=True)
        self.functions[qualname] = Function(
            qualname, node.lineno, node.col_offset, tuple(filter(None, calls)), owner, opaque
        )
        self.block(node.body, qualname, owner)

    def _class(self, node: ast.ClassDef, scope: str) -> None:
        qualname = f"{scope}.{node.name}" if scope else node.name
        methods = [
            item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        parts: dict[str, str] = {}
        for method in methods:
            for child in own_nodes(method.body):
                match child:
                    case ast.Assign(targets=[ast.Attribute(ast.Name("self"), name)], value=value):
                        parts.setdefault(name, _made(value))
                    case ast.AnnAssign(
                        target=ast.Attribute(ast.Name("self"), name), value=ast.expr() as value
                    ):
                        parts.setdefault(name, _made(value))
                    case ast.Call(
                        func=ast.Attribute(ast.Name("self"), "register_buffer"),
                        args=[ast.Constant(str(name)), *_],
                    ):
                        parts.setdefault(name, "torch.Tensor")
        bases = tuple(filter(None, (dotted(base) for base in node.bases)))
        found = {name: made for name, made in parts.items() if made}
        self.classes[qualname] = Class(qualname, bases, tuple(m.name for m in methods), found)
        self.block(node.body, qualname, qualname)

    def _call(self, node: ast.Call, scope: str) -> None:
        name = dotted(node.func)
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
