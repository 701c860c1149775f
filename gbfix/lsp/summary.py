"""What one file says about regions and calls, kept small enough to hold for a whole workspace.

A syntax tree goes in and is let go again; of open documents only what was edited is read anew
(`gbfix.lsp.syntax`).  Names are kept as written (``self.block``, ``F.relu``); `gbfix.lsp.index`
finds what they mean.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence

from gbfix.lsp.syntax import FunctionNode, Parsed, Piece

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


def summarize(path: str, parsed: Parsed) -> Summary:
    """The summary of a parsed file."""
    reader = _Reader()
    reader.read(parsed)
    return Summary(
        path,
        reader.names,
        reader.functions,
        reader.classes,
        tuple(reader.compiled),
        reader.made,
    )


def function_nodes(parsed: Parsed) -> dict[str, tuple[FunctionNode, int]]:
    """Every function by its qualified name, with what to add to the line numbers of its node."""
    return {
        scope.qualname: (scope.node, piece.shift)
        for piece in parsed.pieces
        for scope in _notes(piece).scopes
        if isinstance(scope.node, FunctionNode)
    }


_LEAVES = (
    ast.Name,
    ast.Constant,
    ast.expr_context,
    ast.operator,
    ast.cmpop,
    ast.boolop,
    ast.unaryop,
)


@dataclasses.dataclass(slots=True)
class _Scope:
    """What stands directly in a module, function or class; ``owner`` is the class around it.

    ``parts`` are assigned to ``self`` there, ``made`` to names, each with what made it.
    """

    qualname: str
    owner: str
    node: ast.stmt | None = None
    calls: list[str] = dataclasses.field(default_factory=list)
    compiling: list[ast.Call] = dataclasses.field(default_factory=list)
    made: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    parts: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    buffers: list[str] = dataclasses.field(default_factory=list)
    inner: list[_Scope] = dataclasses.field(default_factory=list)

    def assigns(self, node: ast.Assign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Call) and isinstance(node, ast.Assign):
            made = dotted(node.value.func)
            if made:
                names = (item.id for item in targets if isinstance(item, ast.Name))
                self.made += ((name, made) for name in names)
        match targets:
            case [ast.Attribute(ast.Name("self"), name)] if node.value is not None:
                self.parts.append((name, _made(node.value)))

    def calling(self, node: ast.Call) -> None:
        name = dotted(node.func)
        if name:
            self.calls.append(name)
        if name.endswith("compile"):
            self.compiling.append(node)
        elif name == "self.register_buffer":
            match node.args:
                case [ast.Constant(str(buffer)), *_]:
                    self.buffers.append(buffer)


@dataclasses.dataclass(slots=True)
class _Notes:
    """What one piece of a module says: its functions and classes, and what it adds around them."""

    around: _Scope
    scopes: list[_Scope]
    imports: list[ast.Import | ast.ImportFrom]


def _notes(piece: Piece) -> _Notes:
    """Read once for as long as the statement stays as it is: this is most of what a text costs."""
    if piece.notes is None:
        owner = piece.owner.name if piece.owner is not None else ""
        notes = _Notes(_Scope(owner, owner), [], [])
        if isinstance(piece.node, ast.ClassDef) and piece.owner is None:
            # What stands in it is pieces of its own.
            name = piece.node.name
            notes.scopes.append(_Scope(name, name, piece.node))
            _walk(piece.node.decorator_list, notes)
        else:
            _walk([piece.node], notes)
        piece.notes = notes
    known: _Notes = piece.notes
    return known


def _walk(nodes: Sequence[ast.AST], notes: _Notes) -> None:
    """Note all scopes, outer ones first, with what stands in them, in the file's order."""
    stack: list[tuple[ast.AST, _Scope]] = [(node, notes.around) for node in reversed(nodes)]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            qualname = f"{scope.qualname}.{node.name}" if scope.qualname else node.name
            owner = qualname if isinstance(node, ast.ClassDef) else scope.owner
            inner = _Scope(qualname, owner, node)
            scope.inner.append(inner)
            notes.scopes.append(inner)
            stack.extend((item, inner) for item in reversed(node.body))
            stack.extend((item, scope) for item in reversed(node.decorator_list))
            continue
        if isinstance(node, ast.Call):
            scope.calling(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            scope.assigns(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            notes.imports.append(node)
            continue
        stack.extend((child, scope) for child in reversed(_children(node)))


class _Reader:
    """Puts together what the pieces of a module say."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.compiled: list[Compiled] = []
        self.made: dict[str, str] = {}

    def read(self, parsed: Parsed) -> None:
        pieces = [(piece, _notes(piece)) for piece in parsed.pieces]
        for _, notes in pieces:
            for item in notes.imports:
                self._import(item)
        members: dict[ast.ClassDef, list[_Scope]] = {}
        for piece, notes in pieces:
            if piece.owner is not None:
                members.setdefault(piece.owner, []).extend(notes.around.inner)
            else:
                self._makes(notes.around)
        # Only now is it known what all names were imported as.
        for piece, notes in pieces:
            if piece.owner is not None:
                self._makes(notes.around)
            for scope in notes.scopes:
                if isinstance(scope.node, FunctionNode):
                    self._function(scope, scope.node, piece.shift)
                elif isinstance(scope.node, ast.ClassDef):
                    self._class(scope, scope.node, members.get(scope.node, scope.inner))
                self._makes(scope)
        for piece, notes in pieces:
            for scope in (notes.around, *notes.scopes):
                for call in scope.compiling:
                    self._call(call, scope.qualname, piece.shift)

    def _makes(self, scope: _Scope) -> None:
        for name, made in scope.made:
            self.made.setdefault(name, made)

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

    def _function(self, scope: _Scope, node: FunctionNode, shift: int) -> None:
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
                self._compiled(scope.qualname, "", decorator, shift, decorator=True)
        self.functions[scope.qualname] = Function(
            scope.qualname,
            node.lineno + shift,
            node.col_offset,
            tuple(scope.calls),
            scope.owner,
            opaque,
        )

    def _class(self, scope: _Scope, node: ast.ClassDef, inner: Sequence[_Scope]) -> None:
        parts: dict[str, str] = {}
        for method in inner:
            for name, made in method.parts:
                parts.setdefault(name, made)
            for name in method.buffers:
                parts.setdefault(name, "torch.Tensor")
        bases = tuple(filter(None, (dotted(base) for base in node.bases)))
        methods = tuple(item.node.name for item in inner if isinstance(item.node, FunctionNode))
        found = {name: made for name, made in parts.items() if made}
        self.classes[scope.qualname] = Class(scope.qualname, bases, methods, found)

    def _call(self, node: ast.Call, scope: str, shift: int) -> None:
        name = dotted(node.func)
        if self._meaning(name) == "torch.compile":
            target = node.args[0] if node.args else None
            if target is not None and not isinstance(target, ast.Lambda):
                written = _made(target) or dotted(target)
                self._compiled(written, scope, node, shift, decorator=False)
        elif name.endswith(".compile") and not node.args:
            # ``model.compile()``, of something that was made in this file.
            made = name.removesuffix(".compile")
            if made in self.made or made == "self" or made.startswith("self."):
                self._compiled(made, scope, node, shift, decorator=False)

    def _compiled(
        self, target: str, scope: str, node: ast.expr, shift: int, *, decorator: bool
    ) -> None:
        if target:
            end = node.end_col_offset or node.col_offset
            if node.end_lineno != node.lineno:
                end = node.col_offset
            line = node.lineno + shift
            self.compiled.append(Compiled(target, scope, line, node.col_offset, end, decorator))


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
