"""Where a project carries a number to: through names, attributes, keys, keywords and parameters.

The question is whether a number of numpy's may become Python's.  Tensors do the same with both (but
for ``torch.tensor`` and its kin, which take numpy's dtype), and so do comparisons, ``float`` and
``int``, and sums and products of numbers.  Texts, types, methods, containers, divisions of numbers
and numpy itself can tell the two apart.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

from gbfix.analysis.tree import words
from gbfix.schema import Span

#: Names the sort of an expression that was seen: "tensor", "number", another word, or None.
KindOf = Callable[[str, ast.expr], str | None]

_ENDS = words("float int bool")
_KEEPS = words("abs min max round")
#: Functions of torch that look at the type of what they get, or keep the object.
_LOOKS = words(
    "tensor as_tensor scalar_tensor asarray from_numpy save is_tensor is_storage typename"
    " result_type can_cast promote_types jit compile"
)
_ROOTS = words("torch math cmath")
#: Calls whose keywords become keys, or somebody else's keywords.
_COLLECTS = words("dict partial")
#: Methods of tensors that arrays do not have.
_TENSORS_ALONE = words(
    "clamp clamp_ clamp_min clamp_max mul mul_ add add_ sub sub_ div div_ lerp lerp_ pow pow_"
    " masked_fill masked_fill_ fill_ new_full unsqueeze permute contiguous expand expand_as chunk"
    " softmax detach to float half numel dim new_zeros new_ones requires_grad is_cuda matmul t"
)
_BOUND = 60
#: Functions, and their names with their classes'.
Callees = list[tuple[ast.FunctionDef, str]]


@dataclasses.dataclass(frozen=True)
class Carried:
    """``functions``: (file, name) of those that meet the number; ``told``: who tells it apart."""

    functions: frozenset[tuple[str, str]]
    told: str = ""


def carried(texts: Mapping[str, str], path: str, span: Span, kind_of: KindOf) -> Carried:
    """Follow the number that stands at a place of a file."""
    return _Follower(texts, kind_of).follow(path, span)


class _Follower:
    def __init__(self, texts: Mapping[str, str], kind_of: KindOf) -> None:
        self._texts = texts
        self._kind_of = kind_of
        self._functions: set[tuple[str, str]] = set()
        self._told = ""

    def follow(self, path: str, span: Span) -> Carried:
        node = _tree(self._texts[path]).at(span)
        todo = [] if node is None else list(self._climb(path, node))
        self._told = self._told if node is not None else path
        done: set[tuple[str, str, str]] = set()
        while todo and not self._told:
            item = todo.pop()
            if item in done:
                continue
            done.add(item)
            if len(done) > _BOUND:
                self._told = "too many names"
            for file, use in self._uses(*item):
                todo += self._climb(file, use)
            if item[0] != "local":
                self._told = self._told or self._renamed(item[2])
        return Carried(frozenset(self._functions), self._told)

    def _uses(self, sort: str, path: str, name: str) -> Iterator[tuple[str, ast.expr]]:
        for file, text in self._texts.items():
            if name.rpartition(":")[2] not in text or (sort == "local" and file != path):
                continue
            for node in _tree(text).nodes:
                if not isinstance(node, ast.expr):
                    continue
                if sort == "table":
                    use = self._looked_up(file, name, node)
                    if use is not None:
                        yield file, use
                elif self._is_use(sort, name, text, node):
                    yield file, node

    def _looked_up(self, file: str, name: str, node: ast.expr) -> ast.expr | None:
        """What takes an entry of a table by a key that is computed; other uses tell."""
        match node:
            case ast.Name(id=word, ctx=ast.Load()) | ast.Attribute(attr=word, ctx=ast.Load()):
                if word != name:
                    return None
            case _:
                return None
        parents = _tree(self._texts[file]).parents
        holder = parents[node]
        match holder:
            case ast.Subscript(value=value, slice=key) if value is node:
                return None if isinstance(key, ast.Constant) else holder
            case ast.Attribute(attr="get"):
                call = parents[holder]
                assert isinstance(call, ast.expr)
                known = isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)
                return None if known else call
            case ast.Attribute(attr="keys") | ast.Compare():
                return None
            case ast.Call(func=ast.Name(id="len" | "sorted" | "list")):
                return None
        self._told = self._told or _place(file, node)
        return None

    def _renamed(self, name: str) -> str:
        """Where a file imports it under another name, or asks for it by a text."""
        for file, text in self._texts.items():
            for node in _tree(text).nodes if name in text else ():
                match node:
                    case ast.alias(name=it, asname=str(other)) if it == name != other:
                        return _place(file, node)
                    case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(it), *_]):
                        if it == name:
                            return _place(file, node)
        return ""

    def _is_use(self, sort: str, name: str, text: str, node: ast.expr) -> bool:
        match node:
            case ast.Attribute(attr=attr, ctx=ast.Load()):
                holder = _tree(text).parents.get(node)
                called = isinstance(holder, ast.Call) and holder.func is node
                return attr == name and sort in ("attribute", "key") and not called
            case ast.Subscript(slice=ast.Constant(value=key), ctx=ast.Load()):
                return key == name and sort == "key"
            case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant(key), *_]):
                return key == name and sort == "key"
            case ast.Name(id=word, ctx=ast.Load()):
                function = _tree(text).function_of(node)
                if sort == "global":
                    return word == name
                place, _, local = name.partition(":")
                if sort == "parameter":
                    if function is None or place not in ("*", _tree(text).label(function)):
                        return False
                    return word == local and local in _parameters(function)
                return (
                    sort == "local"
                    and word == local
                    and function is not None
                    and str(function.lineno) == place
                )
        return False

    def _climb(self, file: str, node: ast.expr) -> Iterator[tuple[str, str, str]]:
        """What else is bound to the number that stands there."""
        tree = _tree(self._texts[file])
        function = tree.function_of(node)
        if function is not None:
            self._functions.add((file, function.name))
        child: ast.AST = node
        while (holder := tree.parents.get(child)) is not None:
            if not self._goes_on(file, holder, child):
                break
            child = holder
        match holder:
            case ast.IfExp() | ast.Compare() | ast.UnaryOp() | ast.If() | ast.Expr() | ast.BinOp():
                return  # it ends here
            case ast.AugAssign(target=target, value=value) if value is child:
                if self._kind_of(file, target) != "tensor":
                    self._told = self._told or _place(file, holder)
            case ast.Assign(targets=targets):
                for one in targets:
                    yield from self._bound(file, one, function)
            case ast.Dict():
                yield from self._kept(file, holder, child)
            case ast.keyword(arg=str(keyword)):
                yield from self._named(file, tree.parents[holder], keyword)
            case ast.arguments():
                owner = tree.parents[holder]
                label = tree.label(owner) if isinstance(owner, ast.FunctionDef) else "*"
                for name in _with_default(holder, child):
                    yield "parameter", file, f"{label}:{name}"
            case ast.Call(func=func, args=args) if child in args:
                if not (self._takes_numbers(file, holder) or self._is_method_of_tensor(file, func)):
                    yield from self._passed(file, holder, args.index(child))
            case _:
                self._told = self._told or _place(file, holder or node)

    def _goes_on(self, file: str, holder: ast.AST, child: ast.AST) -> bool:
        """Whether what holds the number has it for its own value."""
        match holder:
            case ast.IfExp(test=test):
                return test is not child
            case ast.BoolOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return True
            case ast.BinOp():
                return not self._ends_in(file, holder, child)
            case ast.Call(func=ast.Name(id=name), args=args):
                return name in _KEEPS and child in args and not self._is_own(name)
        return False

    def _is_own(self, name: str) -> bool:
        """Whether a file of the project binds the name of a builtin."""
        return any(name in _tree(text).bound for text in self._texts.values())

    def _kept(self, file: str, table: ast.Dict, value: ast.AST) -> Iterator[tuple[str, str, str]]:
        """A dict keeps it: by a key, and under whatever name the dict has."""
        key = next(k for k, v in zip(table.keys, table.values, strict=True) if v is value)
        known = str(key.value) if isinstance(key, ast.Constant) else ""
        if known:
            yield "key", file, known
        tree = _tree(self._texts[file])
        match tree.parents[table]:
            case ast.Assign(targets=targets):
                for one in targets:
                    yield "table", file, getattr(one, "id", getattr(one, "attr", ""))
            case ast.Dict() as outer:
                yield from self._kept(file, outer, table)
            case ast.keyword(arg=None) as spread if known:
                yield from self._named(file, tree.parents[spread], known)
            case _:
                self._told = self._told or _place(file, table)

    def _named(self, file: str, call: ast.AST, keyword: str) -> Iterator[tuple[str, str, str]]:
        """A call gets it by keyword."""
        func = getattr(call, "func", None)
        if isinstance(func, ast.Name) and func.id in _COLLECTS and not self._is_own(func.id):
            callees: Callees | None = []
        elif self._takes_numbers(file, call) or self._is_method_of_tensor(file, func):
            return
        else:
            callees = self._callees(file, call)
        if callees is None or any(keyword in _tree(t).of_lambdas for t in self._texts.values()):
            self._told = self._told or _place(file, call)
            return
        for _, label in callees:
            yield "parameter", file, f"{label}:{keyword}"
        if not callees or any(function.args.kwarg is not None for function, _ in callees):
            yield "key", file, keyword
            yield "parameter", file, f"*:{keyword}"

    def _takes_numbers(self, file: str, call: ast.AST) -> bool:
        """Whether torch, ``math`` or a conversion gets the number, whatever its type."""
        func = getattr(call, "func", None)
        if isinstance(func, ast.Name) and func.id in _ENDS:
            return not self._is_own(func.id)
        home, _, last = _tree(self._texts[file]).meaning(func).partition(".")
        return home in _ROOTS and bool(last) and last.rpartition(".")[2] not in _LOOKS

    def _ends_in(self, file: str, holder: ast.BinOp, child: ast.AST) -> bool:
        """Whether the number ends in a tensor here; what divides numbers may tell it apart."""
        other = holder.right if holder.left is child else holder.left
        kind = self._kind_of(file, other)
        if kind == "tensor" or (kind is None and self._is_tensor_by_text(file, other)):
            return True
        literal = isinstance(other, ast.Constant) and bool(other.value)
        plain = isinstance(holder.op, ast.Add | ast.Sub | ast.Mult)
        divided = isinstance(holder.op, ast.Div) and holder.left is child and literal
        if kind not in ("number", None) or not (plain or divided):
            self._told = self._told or _place(file, holder)
            return True
        return False

    def _bound(
        self, file: str, target: ast.expr, function: ast.FunctionDef | None
    ) -> Iterator[tuple[str, str, str]]:
        match target:
            case ast.Name(id=name) if function is not None:
                yield "local", file, f"{function.lineno}:{name}"
            case ast.Name(id=name):
                yield "global", file, name
                yield "attribute", file, name
            case ast.Attribute(attr=name):
                yield "attribute", file, name
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield "key", file, name
            case _:
                self._told = self._told or _place(file, target)

    def _passed(self, file: str, call: ast.Call, position: int) -> Iterator[tuple[str, str, str]]:
        """The parameters that an argument without a keyword may become."""
        found = False
        for function, label in self._callees(file, call) or ():
            bound = int(any(tree.is_method(function) for tree in self._trees()))
            names = [*function.args.posonlyargs, *function.args.args][bound:]
            if position < len(names):
                found = True
                yield "parameter", file, f"{label}:{names[position].arg}"
        if not found:
            self._told = self._told or _place(file, call)

    def _trees(self) -> list[_Tree]:
        return [_tree(text) for text in self._texts.values()]

    def _callees(self, file: str, call: ast.AST) -> Callees | None:
        """The project's functions that a call may reach, by their names.

        A name or an attribute that the project binds to objects is taken for a module.  None:
        what is called is somebody else's, or anything.
        """
        func = getattr(call, "func", None)
        name = getattr(func, "id", getattr(func, "attr", ""))
        trees = self._trees()
        if any(name in tree.lambdas for tree in trees):
            return None
        if any(tree.is_class(name) for tree in trees):
            names = {"__init__", "__new__"}
        elif any(tree.functions(name) for tree in trees):
            names = {name}
        elif isinstance(func, ast.Attribute):
            if not any(name in tree.stored for tree in trees):
                return None
            names = {"forward", "__call__"}
        else:
            made = _tree(self._texts[file]).made.get(name, [])
            if not made or not all(any(t.is_class(one) for t in trees) for one in made):
                return None
            names = {"forward", "__call__"}
        return [
            (function, tree.label(function))
            for tree in trees
            for one in names
            for function in tree.functions(one)
            if "__init__" not in names or tree.label(function).startswith(f"{name}.")
        ]

    def _is_tensor_by_text(self, file: str, node: ast.expr) -> bool:
        """Whether the function, which no call may have reached, uses it as only a tensor is."""
        tree = _tree(self._texts[file])
        function = tree.function_of(node)
        if function is None:
            return False
        if isinstance(node, ast.Attribute):
            return _is_registered(tree, function, node)
        if not isinstance(node, ast.Name):
            return False
        values = [
            part.value
            for part in ast.walk(function)
            if isinstance(part, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == node.id for one in part.targets)
        ]
        if values and all(
            _is_registered(tree, function, value)
            if isinstance(value, ast.Attribute)
            else any(isinstance(it, ast.Name) and it.id == node.id for it in ast.walk(value))
            for value in values
        ):
            return True  # a parameter at first, and then what is made of it
        return any(
            isinstance(part, ast.Attribute)
            and part.attr in _TENSORS_ALONE
            and isinstance(part.value, ast.Name)
            and part.value.id == node.id
            for part in ast.walk(function)
        )

    def _is_method_of_tensor(self, file: str, func: ast.expr | None) -> bool:
        if not isinstance(func, ast.Attribute) or func.attr in ("new_tensor", "apply_"):
            return False
        kind = self._kind_of(file, func.value)
        return kind == "tensor" or (kind is None and func.attr in _TENSORS_ALONE)


def _is_registered(tree: _Tree, function: ast.FunctionDef, node: ast.Attribute) -> bool:
    """Whether the class registers what ``self.NAME`` is, as a parameter or buffer."""
    if not isinstance(node.value, ast.Name) or node.value.id != "self":
        return False
    holder: ast.AST | None = function
    while holder is not None and not isinstance(holder, ast.ClassDef):
        holder = tree.parents.get(holder)
    for part in ast.walk(holder) if holder is not None else ():
        match part:
            case ast.Call(
                func=ast.Attribute(attr="register_parameter" | "register_buffer"),
                args=[ast.Constant(value=name), *_],
            ) if name == node.attr:
                return True
            case ast.Assign(
                targets=[ast.Attribute(attr=name)],
                value=ast.Call(func=ast.Attribute(attr="Parameter") | ast.Name(id="Parameter")),
            ) if name == node.attr:
                return True
    return False


def _parameters(function: ast.FunctionDef) -> set[str]:
    given = function.args
    return {arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _with_default(given: ast.arguments, default: ast.AST) -> Iterator[str]:
    names = [*given.posonlyargs, *given.args]
    behind = names[len(names) - len(given.defaults) :]
    for arg, value in (
        *zip(behind, given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ):
        if value is default:
            yield arg.arg


def _place(file: str, node: ast.AST) -> str:
    return f"{file.rpartition('/')[2]}:{getattr(node, 'lineno', 0)}"


class _Tree:
    def __init__(self, text: str) -> None:
        try:
            root: ast.AST = ast.parse(text)
        except (SyntaxError, ValueError):
            root = ast.Module([], [])
        self.nodes = list(ast.walk(root))
        self.parents = {child: n for n in self.nodes for child in ast.iter_child_nodes(n)}
        self._classes = {node.name for node in self.nodes if isinstance(node, ast.ClassDef)}
        self._functions: dict[str, list[ast.FunctionDef]] = {}
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef):
                self._functions.setdefault(node.name, []).append(node)
        #: Names of functions, classes and parameters, and those that are assigned or imported.
        self.bound = {*self._functions, *self._classes}
        #: Attributes that are assigned; names that have a lambda; parameters of lambdas.
        self.stored: set[str] = set()
        self.lambdas: set[str] = set()
        self.of_lambdas: set[str] = set()
        #: The classes whose objects a name is assigned, "" for what is no such call.
        self.made: dict[str, list[str]] = {}
        self._imports: dict[str, str] = {}
        for node in self.nodes:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self.bound.add(name)
                self.made.setdefault(name, []).append(self._made_for(node))
            case ast.Attribute(attr=name, ctx=ast.Store()):
                self.stored.add(name)
            case ast.Lambda(args=given):
                everyone = (*given.posonlyargs, *given.args, *given.kwonlyargs)
                self.of_lambdas.update(arg.arg for arg in everyone)
                match self.parents.get(node):
                    case ast.Assign(targets=targets):
                        last = (getattr(t, "id", getattr(t, "attr", "")) for t in targets)
                        self.lambdas.update(last)
            case ast.Import(names=names):
                for one in names:
                    root = one.name if one.asname else one.name.partition(".")[0]
                    self._imports[one.asname or root] = root
            case ast.ImportFrom(module=str(home), names=names, level=0):
                for one in names:
                    self._imports[one.asname or one.name] = f"{home}.{one.name}"
                    self.bound.add(one.asname or one.name)

    def _made_for(self, name: ast.AST) -> str:
        match self.parents.get(name):
            case ast.Assign(value=ast.Call(func=func)):
                return str(getattr(func, "id", getattr(func, "attr", "")))
        return ""

    def meaning(self, func: ast.AST | None) -> str:
        """The dotted name of an imported function, or ""."""
        parts: list[str] = []
        while isinstance(func, ast.Attribute):
            parts.insert(0, func.attr)
            func = func.value
        if not isinstance(func, ast.Name) or func.id in self.made or func.id not in self._imports:
            return ""
        return ".".join([self._imports[func.id], *parts])

    def label(self, function: ast.FunctionDef) -> str:
        """``Net.forward`` of a method, ``f`` of a function."""
        holder = self.parents.get(function)
        return (
            f"{holder.name}.{function.name}" if isinstance(holder, ast.ClassDef) else function.name
        )

    def at(self, span: Span) -> ast.expr | None:
        """The largest expression inside the span (which may have parentheses of its own)."""
        start, end = (span.line, span.column), (span.end_line, span.end_column)
        for node in self.nodes:  # the outer ones come first
            if isinstance(node, ast.expr):
                begins, ends = (
                    (node.lineno, node.col_offset),
                    (node.end_lineno, node.end_col_offset),
                )
                if start <= begins and ends <= end:
                    return node
        return None

    def functions(self, name: str) -> list[ast.FunctionDef]:
        return self._functions.get(name, [])

    def is_class(self, name: str) -> bool:
        return name in self._classes

    def is_method(self, function: ast.FunctionDef) -> bool:
        static = any(getattr(d, "id", "") == "staticmethod" for d in function.decorator_list)
        return isinstance(self.parents.get(function), ast.ClassDef) and not static

    def function_of(self, node: ast.AST) -> ast.FunctionDef | None:
        """The ``def`` whose body holds the node."""
        child, holder = node, self.parents.get(node)
        while holder is not None:
            if isinstance(holder, ast.FunctionDef) and child in holder.body:
                return holder
            child, holder = holder, self.parents.get(holder)
        return None


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> _Tree:
    return _Tree(text)
