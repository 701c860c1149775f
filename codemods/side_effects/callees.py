"""What a piece of code does when it runs inside an operator: its effects, and why it must not.

The judgement reads source text (``ast``), follows calls into the project's own functions and
methods, and ends at libraries, of which the tables below say what is known.  It answers for the
text of an operator before that is proposed, so that statements, helpers and methods are judged by
one set of rules.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import re
import string
from collections.abc import Iterator, Mapping, Sequence

from .libraries import (
    ADDING,
    BUILTINS,
    CONTAINERS,
    EFFECT_BUILTINS,
    EFFECTS,
    FILE_METHODS,
    HIDDEN,
    LOG,
    NO_GRADIENT,
    NO_TORCH,
    PLAIN,
    PURE,
    REDUCTIONS,
    SCALARS,
    SHOWS,
    SINKS,
)
from .shown_tensors import Tensors, are_rows

_DEPTH = 5

#: What runs a function once for the same arguments: called in an operator, it still does.
_CACHE = re.compile(r"(?:functools\.)?(?:cache|lru_cache(?:\([\w=]*\))?)")


class Unfit(Exception):
    """Why code must not move into an operator, in a clause that can follow "because"."""


@dataclasses.dataclass
class Doings:
    """What code does: whether anything shows, the state that it changes, and the parameters
    that hold tensors whose text it may show.
    """

    effect: bool = False
    #: Whether it makes debug records.
    debug: bool = False
    #: Names of globals, and of attributes as ``.name``, whose object the code changes.
    touches: set[str] = dataclasses.field(default_factory=set)
    #: Names of globals and attributes that it reads.
    reads: set[str] = dataclasses.field(default_factory=set)


@functools.lru_cache(maxsize=256)
def parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


@functools.lru_cache(maxsize=256)
def imports(text: str) -> Mapping[str, str]:
    """What the names that a file imports stand for."""
    found: dict[str, str] = {}
    tree = parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            for item in node.names:
                found[item.asname or item.name.partition(".")[0]] = (
                    item.name if item.asname else item.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                prefix = "." * node.level + (node.module or "")
                found[item.asname or item.name] = f"{prefix}.{item.name}"
    return found


@functools.lru_cache(maxsize=256)
def module_values(text: str) -> Mapping[str, tuple[ast.AST, ...]]:
    """What a file's own names are bound to at module level."""
    found: dict[str, list[ast.AST]] = {}
    tree = parsed(text)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and node.value is not None:
                    found.setdefault(target.id, []).append(node.value)
    return {name: tuple(values) for name, values in found.items()}


#: Change the filters of warnings, for as long as nobody puts them back.
_FILTERS = ("warnings.filterwarnings", "warnings.simplefilter")


class Judge:
    """Judges code of a project; ``types`` are recorded types of names in the code that moves."""

    def __init__(
        self,
        sources: Mapping[str, str],
        types: Mapping[str, str],
        points: frozenset[str] = frozenset(),
    ) -> None:
        self.sources = sources
        self.types = types
        #: Parameters of the operator that hold 0-dimensional tensors.
        self.points = points
        self.doings = Doings()
        self.seen: set[tuple[str, str]] = set()

    def function(
        self,
        node: ast.FunctionDef,
        text: str,
        tensors: frozenset[str],
        *,
        owners: frozenset[str] = frozenset(),
        depth: int = 0,
        noted: bool = True,
    ) -> bool:
        """Judge a function of a file whose parameters ``tensors`` hold tensors; ``owners`` are its
        names for objects whose state it may change (``noted`` among what is touched).  Whether a
        tensor's text may be shown.
        """
        return _Function(self, node, text, tensors, owners, depth, noted).run()

    def found(self, name: str, text: str) -> tuple[ast.AST, str] | None:
        """What a global name of a file stands for in the project, and the file's text."""
        values = module_values(text).get(name)
        if values is not None:
            return (values[0], text) if len(values) == 1 else None
        target = imports(text).get(name)
        if target is None:
            return None
        last = target.rpartition(".")[2]
        places = [
            (values[0], other)
            for other in dict.fromkeys(self.sources.values())
            if len(values := module_values(other).get(last, ())) == 1
        ]
        return places[0] if len(places) == 1 and _is_of_project(target, self.sources) else None

    def method(self, holder: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        for item in holder.body:
            if isinstance(item, ast.FunctionDef) and item.name == name:
                return item
        for base in holder.bases:
            for other in dict.fromkeys(self.sources.values()):
                values = module_values(other).get(getattr(base, "id", ""), ())
                if len(values) == 1 and isinstance(values[0], ast.ClassDef):
                    return self.method(values[0], name)
        return None

    def class_of_type(self, kind: str) -> tuple[ast.ClassDef, str] | None:
        name = kind.rpartition(".")[2]
        places = [
            (values[0], other)
            for other in dict.fromkeys(self.sources.values())
            if len(values := module_values(other).get(name, ())) == 1
        ]
        if len(places) == 1 and isinstance(places[0][0], ast.ClassDef):
            return places[0][0], places[0][1]
        return None


def _is_of_project(target: str, sources: Mapping[str, str]) -> bool:
    head = target.lstrip(".").partition(".")[0]
    if target.startswith("."):
        return True
    return any(path.endswith(f"/{head}.py") or f"/{head}/" in path for path in sources)


class _Function:
    def __init__(
        self,
        judge: Judge,
        node: ast.FunctionDef,
        text: str,
        tensors: frozenset[str],
        owners: frozenset[str],
        depth: int,
        noted: bool,
    ) -> None:
        self.noted = noted
        self.judge = judge
        self.node = node
        self.text = text
        self.owners = owners
        self.depth = depth
        self.tensors = set(tensors)
        self.shows = False
        arguments = node.args
        self.parameters = {
            item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        }
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                self.parameters.add(rest.arg)
        self.globals = {
            name
            for inner in ast.walk(node)
            if isinstance(inner, ast.Global)
            for name in inner.names
        }
        self.locals = {
            inner.id
            for inner in ast.walk(node)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        } - self.globals
        self.local_imports = {
            (item.asname or item.name.partition(".")[0]): item.name
            if isinstance(inner, ast.Import)
            else f"{getattr(inner, 'module', '')}.{item.name}"
            for inner in ast.walk(node)
            if isinstance(inner, ast.Import | ast.ImportFrom)
            for item in inner.names
        }

    def run(self) -> bool:
        if self.node.decorator_list and self.depth and not self.plainly_decorated():
            raise Unfit(f"a decorator of `{self.node.name}` may do anything")
        self.spread()
        for statement in self.node.body:
            for node in ast.walk(statement):
                self.visit(node)
        return self.shows

    def plainly_decorated(self) -> bool:
        return all(
            ast.unparse(item) in ("staticmethod", "classmethod", "torch.no_grad()", "no_grad()")
            or (not self.tensors and _CACHE.fullmatch(ast.unparse(item)))
            for item in self.node.decorator_list
        )

    def spread(self) -> None:
        """Follow tensors through assignments to local names."""
        targets = {
            part.id
            for node in ast.walk(self.node)
            if isinstance(node, ast.comprehension)
            or (isinstance(node, ast.For) and are_rows(node.iter, node.target))
            for part in ast.walk(node.target)
            if isinstance(part, ast.Name)
        }
        self.tensors |= targets & Tensors(self.node, self.tensors, autograd=False).names
        for _ in range(3):
            for node in ast.walk(self.node):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.holds(value):
                        self.tensors.add(name)
                    case ast.For(target=target, iter=value) if self.holds(value) and not are_rows(
                        value, target
                    ):
                        self.tensors |= {
                            part.id for part in ast.walk(target) if isinstance(part, ast.Name)
                        }

    def holds(self, node: ast.AST | None) -> bool:
        """Whether a value may be a tensor, or hold one."""
        match node:
            case ast.Name(id=name):
                return name in self.tensors
            case ast.Attribute(attr="shape" | "dtype" | "device" | "ndim"):
                return False
            case ast.Call(func=ast.Name(id="float" | "int" | "bool" | "str" | "len" | "repr")):
                return False
            case (
                ast.JoinedStr()
                | ast.Call(
                    func=ast.Attribute(value=ast.Constant(value=str()), attr="format" | "join")
                )
            ):
                return False  # a text: what it shows is judged where it is made
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in SCALARS:
                return False
            case ast.Call(func=ast.Attribute(value=array, attr=attr), args=[], keywords=[]):
                if attr in REDUCTIONS and self.is_array(array):
                    return False  # a number of numpy's own
        return any(map(self.holds, _givers(node)))

    def is_array(self, node: ast.AST) -> bool:
        """Whether a value is an array: ``x.numpy()``, or a name that is nothing else by then."""
        match node:
            case ast.Call(func=ast.Attribute(attr="numpy"), args=[], keywords=[]):
                return True
            case ast.Name(id=name):
                stores = [
                    part
                    for part in ast.walk(self.node)
                    if isinstance(part, ast.Name)
                    and part.id == name
                    and not isinstance(part.ctx, ast.Load)
                ]
                firsts = [
                    line
                    for line in self.node.body
                    if isinstance(line, ast.Assign)
                    and line.targets[:-1] == []
                    and line.targets[0] in stores
                    and self.is_array(line.value)
                ]
                return len(stores) == len(firsts) == 1 and firsts[0].lineno < node.lineno
        return False

    # -- statements and expressions --------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Nonlocal() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.AsyncFor():
                raise Unfit("it yields or awaits, or binds names of another function")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                raise Unfit("it defines a function")
            case ast.Attribute(value=value, attr=attr, ctx=ast.Load()):
                if attr in HIDDEN and self.holds(value):
                    raise Unfit(f"`{ast.unparse(node)}` has another value inside an operator")
                self.judge.doings.reads.add("." + attr)
            case ast.Name(id=name, ctx=ast.Load()) if self.is_global(name):
                self.judge.doings.reads.add(name)
            case ast.Call():
                self.call(node)
            case ast.JoinedStr() | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
                self.format(node)
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                raise Unfit("a matrix product inside an operator would escape autocast")
            case ast.stmt():
                self.bind(node)

    def bind(self, node: ast.stmt) -> None:
        """A statement, for the names, entries and attributes that it binds itself."""
        match node:
            case ast.Global(names=names):
                self.judge.doings.effect = True
                self.judge.doings.touches |= set(names)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.store(target, value)
            case ast.AugAssign(target=target, value=value):
                self.store(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.store(target, value)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.store(target, None)

    def format(self, node: ast.JoinedStr | ast.BinOp) -> None:
        """An f-string, or a template with ``%``: what of its values shows."""
        match node:
            case ast.JoinedStr(values=values):
                for value in values:
                    if isinstance(value, ast.FormattedValue) and value.format_spec is None:
                        self.show_formatted(value)
            case ast.BinOp(left=ast.Constant(value=str(template)), right=right):
                if SHOWS.search(template):
                    self.show(right)

    def show_formatted(self, node: ast.FormattedValue) -> None:
        value = node.value
        point = isinstance(value, ast.Name) and value.id in self.judge.points
        if point and not self.depth and node.conversion == -1:
            return  # ``f"{loss}"`` formats ``loss.item()``
        self.show(value)

    def show(self, node: ast.AST) -> None:
        """The text of a value shows, and with it how autograd came to it."""
        match node:
            case ast.Tuple(elts=values) | ast.List(elts=values):
                for value in values:
                    self.show(value)
            case ast.Compare():
                return
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in NO_GRADIENT:
                return
            case _ if self.holds(node):
                self.shows = True

    def show_all(self, node: ast.Call) -> None:
        arguments = node.args
        match arguments:
            case [ast.Constant(value=str(template)), *_] if "%" in template:
                if not SHOWS.search(template):
                    return
        for argument in arguments:
            self.show(argument)

    def is_global(self, name: str) -> bool:
        return name not in self.parameters | self.locals or name in self.globals

    def store(self, target: ast.AST, value: ast.AST | None) -> None:
        """Judge a binding: of a local name, an entry or attribute of what the code may change."""
        if isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self.store(element, value)
            return
        if isinstance(target, ast.Name):
            if target.id in self.globals and self.holds(value):
                raise Unfit("it keeps a tensor, whose memory the compiler may use again")
            return
        if isinstance(target, ast.Attribute | ast.Subscript):
            self.change(target.value, target)
            if value is not None and self.holds(value):
                raise Unfit("it keeps a tensor, whose memory the compiler may use again")

    def change(self, holder: ast.AST, at: ast.AST) -> None:
        """Something below ``holder`` changes: whose is it?"""
        attribute = at.attr if isinstance(at, ast.Attribute) else ""
        node = holder
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(node, ast.Attribute):
                attribute = node.attr
            node = node.func if isinstance(node, ast.Call) else node.value
        name = node.id if isinstance(node, ast.Name) else ""
        if name in self.owners:
            if self.noted:
                self.judge.doings.touches.add("." + attribute)
        elif name and self.is_global(name):
            found = self.judge.found(name, self.text)
            of_class = bool(attribute) and found is not None and isinstance(found[0], ast.ClassDef)
            self.judge.doings.touches.add("." + attribute if of_class else name)
        elif name in self.parameters or not name:
            raise Unfit(f"it changes `{ast.unparse(at)}`, which its caller holds")
        else:
            return  # an object that it made itself
        self.judge.doings.effect = True

    # -- calls -----------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg in ("out", "generator"):
                raise Unfit(f"`{ast.unparse(node)}` takes `{keyword.arg}`")
        name = self.resolved(node.func)
        if name and self.library(name, node):
            return
        match node.func:
            case ast.Name(id=called):
                self.named(called, node)
            case ast.Attribute(value=receiver, attr=method):
                self.method(receiver, method, node)
            case _:
                raise Unfit(f"`{ast.unparse(node.func)}` is not known")

    def resolved(self, func: ast.AST) -> str:
        parts: list[str] = []
        while isinstance(func, ast.Attribute):
            parts.insert(0, func.attr)
            func = func.value
        if not isinstance(func, ast.Name):
            return ""
        root = self.local_imports.get(func.id)
        if root is None and self.is_global(func.id):
            root = imports(self.text).get(func.id)
        return ".".join([root, *parts]) if root else ""

    def library(self, name: str, node: ast.Call) -> bool:
        """Whether a function of a library is called, of which it is known what it does."""
        if name in _FILTERS and any("catch_warnings" in it for it in self.judge.sources.values()):
            raise Unfit(f"`{name}` would run after `catch_warnings` has put the filters back")
        if name.startswith(EFFECTS) and name != "logging.getLogger":
            self.judge.doings.effect = True
            self.show_all(node)
            return True
        if name.startswith("torch.") and not name.startswith(("torch.cuda.", "torch._")):
            last = name.rpartition(".")[2]
            if last in NO_TORCH or last.endswith("_") or name.count(".") > 3:
                raise Unfit(f"`{name}` draws random numbers, or changes something")
            return True
        if name.startswith(PURE):
            return True
        if name.startswith(("random.", "numpy.random.")):
            raise Unfit(f"`{name}` draws")
        return False

    def named(self, called: str, node: ast.Call) -> None:
        if called in self.parameters | self.locals:
            raise Unfit(f"`{called}` may be any function")
        found = self.judge.found(called, self.text)
        if found is None:
            if called in EFFECT_BUILTINS:
                self.judge.doings.effect = True
                for argument in node.args:
                    self.show(argument)
                return
            if called in ("str", "repr", "format", "ascii"):
                for argument in node.args:
                    self.show(argument)
            if called not in BUILTINS:
                raise Unfit(f"`{called}` is not known to be harmless inside an operator")
            return
        self.follow(found, called, node, receiver=None)

    def follow(
        self,
        found: tuple[ast.AST, str],
        called: str,
        node: ast.Call,
        receiver: ast.AST | None,
        *,
        noted: bool = False,
    ) -> None:
        target, text = found
        if isinstance(target, ast.ClassDef):
            init = self.judge.method(target, "__init__")
            if init is None:
                return
            target, receiver = init, node
        if not isinstance(target, ast.FunctionDef):
            raise Unfit(f"`{called}` is not known to be harmless inside an operator")
        if self.depth >= _DEPTH or (key := (target.name, text[:200])) in self.judge.seen:
            if self.depth >= _DEPTH:
                raise Unfit(f"`{called}` calls too long a chain of functions")
            return
        self.judge.seen.add(key)
        names = [item.arg for item in (*target.args.posonlyargs, *target.args.args)]
        static = any(ast.unparse(item) == "staticmethod" for item in target.decorator_list)
        me = names[:1] if receiver is not None and not static else []
        rest = names[len(me) :]
        tensors: set[str] = set()
        for number, argument in enumerate(node.args):
            if self.holds(argument):
                tensors.add(
                    rest[number]
                    if number < len(rest)
                    else target.args.vararg.arg
                    if target.args.vararg
                    else ""
                )
        for keyword in node.keywords:
            if self.holds(keyword.value):
                given = keyword.arg or ""
                known = {*rest, *(item.arg for item in target.args.kwonlyargs)}
                rests = target.args.kwarg.arg if target.args.kwarg else ""
                tensors.add(given if given in known else rests)
        if self.judge.function(
            target,
            text,
            frozenset(tensors - {""}),
            owners=frozenset(me),
            depth=self.depth + 1,
            noted=noted,
        ):
            self.shows = True

    def method(self, receiver: ast.AST, method: str, node: ast.Call) -> None:
        if method.endswith("_") and not method.startswith("_"):
            raise Unfit(f"`{ast.unparse(node.func)}` changes a tensor")
        if isinstance(receiver, ast.Name) and receiver.id in self.owners:
            return self.own(receiver, method, node)
        kind = self.kind_of(receiver)
        if kind.startswith(SINKS) or (method in LOG and _is_logger_name(receiver)):
            return self.log(method, node)
        if kind.rpartition(".")[2] in CONTAINERS:
            return self.of_container(receiver, method, node)
        known = self.judge.class_of_type(kind) if kind else None
        if known is not None:
            return self.of_class(known, receiver, method, node)
        name = _root_name(receiver)
        if self.holds(receiver) and method in PLAIN:
            return None
        if method in ADDING and (name in self.owners or (name and self.is_global(name))):
            return self.keep(receiver, node)
        if method in ADDING and name in self.locals:
            return None
        if method in PLAIN:
            return self.plain(method, node)
        raise Unfit(f"`{ast.unparse(node.func)}` is not known to be harmless inside an operator")

    def log(self, method: str, node: ast.Call) -> None:
        """A method of a logger, a file or the like."""
        self.judge.doings.effect = True
        if method == "debug":
            self.judge.doings.debug = True  # off as a rule, and nothing is formatted then
        else:
            self.show_all(node)

    def of_container(self, receiver: ast.AST, method: str, node: ast.Call) -> None:
        """A method of a list, a dict or the like."""
        if method in ADDING:
            self.keep(receiver, node)
        elif method not in PLAIN and method not in ("sort", "remove", "discard"):
            raise Unfit(f"`{ast.unparse(node.func)}` is not known")

    def of_class(
        self, known: tuple[ast.ClassDef, str], receiver: ast.AST, method: str, node: ast.Call
    ) -> None:
        """A method of an object whose class the project defines."""
        holder, text = known
        target = self.judge.method(holder, method)
        if target is None and _is_container(holder):
            return self.of_container(receiver, method, node)
        if target is None:
            raise Unfit(f"`{ast.unparse(node.func)}` is not known")
        name = _root_name(receiver)
        if name in self.owners:
            if self.noted:
                self.judge.doings.touches.add("." + _first(receiver))
        elif name and self.is_global(name):
            self.judge.doings.touches.add(name)
        elif name in self.parameters:
            raise Unfit(f"`{ast.unparse(node.func)}` may change what its caller holds")
        self.follow((target, text), method, node, receiver)

    def plain(self, method: str, node: ast.Call) -> None:
        """A method that changes nothing; a file's shows what it gets, ``format`` its values."""
        if method in FILE_METHODS:
            self.judge.doings.effect = True
        if method in FILE_METHODS or (method == "format" and not _gives_all_formats(node.func)):
            for argument in node.args:
                self.show(argument)

    def own(self, receiver: ast.Name, method: str, node: ast.Call) -> None:
        """A method of the object whose method this is."""
        for holder in self.classes_of(receiver.id):
            target = self.judge.method(holder[0], method)
            if target is not None:
                return self.follow((target, holder[1]), method, node, receiver, noted=self.noted)
            if _is_container(holder[0]):
                return self.of_container(receiver, method, node)
        raise Unfit(f"`{ast.unparse(node.func)}` is not known")

    def classes_of(self, name: str) -> Iterator[tuple[ast.ClassDef, str]]:
        kind = self.judge.types.get(name, "") if not self.depth else ""
        known = self.judge.class_of_type(kind) if kind else None
        if known is not None:
            yield known
            return
        tree = parsed(self.text)
        for holder in tree.body if tree is not None else ():
            if isinstance(holder, ast.ClassDef) and self.node in ast.walk(holder):
                yield holder, self.text

    def keep(self, receiver: ast.AST, node: ast.Call) -> None:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if self.holds(argument):
                raise Unfit("it keeps a tensor, whose memory the compiler may use again")
        self.change(receiver, node.func)

    def kind_of(self, receiver: ast.AST) -> str:
        """The type of an object, as far as the run or the text tells."""
        text = ast.unparse(receiver)
        if not self.depth and text in self.judge.types:
            return self.judge.types[text]
        match receiver:
            case ast.Name(id=name) if self.is_global(name):
                found = self.judge.found(name, self.text)
                return self.made(found[0], found[1]) if found is not None else ""
            case ast.Name(id=name) if name in self.locals:
                for node in ast.walk(self.node):
                    match node:
                        case ast.Assign(targets=[ast.Name(id=target)], value=value):
                            if target == name:
                                return self.made(value, self.text)
            case ast.Attribute(value=ast.Name(id=me), attr=attr) if me in self.owners:
                for holder, other in self.classes_of(me):
                    init = self.judge.method(holder, "__init__")
                    for node in ast.walk(init) if init is not None else ():
                        match node:
                            case ast.Assign(targets=[ast.Attribute(attr=target)], value=value):
                                if target == attr:
                                    return self.made(value, other)
            case ast.Call():
                return self.made(receiver, self.text)
        return ""

    def made(self, value: ast.AST, text: str) -> str:
        """The type of what an expression makes, where that is plain to see."""
        match value:
            case ast.List() | ast.ListComp():
                return "list"
            case ast.Dict() | ast.DictComp():
                return "dict"
            case ast.Set():
                return "set"
            case ast.Call(func=func):
                last = ast.unparse(func).rpartition(".")[2]
                if last in CONTAINERS:
                    return last
                if last == "getLogger":
                    return "logging.Logger"
                if isinstance(func, ast.Name):
                    found = self.judge.found(func.id, text)
                    if found is not None and isinstance(found[0], ast.ClassDef):
                        return func.id
                    if found is not None and isinstance(found[0], ast.FunctionDef):
                        returned = ast.unparse(found[0])
                        return "logging.Logger" if "getLogger(" in returned else ""
        return ""


def _givers(node: ast.AST | None) -> Sequence[ast.AST]:
    """The parts of an expression out of which a tensor may come into its value."""
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return ()
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return (value,)
        case ast.UnaryOp(operand=value) | ast.DictComp(value=value):
            return (value,)
        case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value):
            return (value,)
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return (one, other)
        case ast.Compare(left=left, comparators=others):
            return (left, *others)
        case ast.Tuple(elts=values) | ast.List(elts=values):
            return values
        case ast.BoolOp(values=values) | ast.Dict(values=values):
            return values
        case ast.Call(func=ast.Attribute(value=receiver), args=args):
            return (receiver, *args)
        case ast.Call(args=args, keywords=keywords):
            return (*args, *(keyword.value for keyword in keywords))
    return ()


def _is_container(kind: ast.ClassDef) -> bool:
    """Whether a class of the project is a list, a dict or the like itself."""
    return any(ast.unparse(base).rpartition(".")[2] in CONTAINERS for base in kind.bases)


def _root_name(node: ast.AST) -> str:
    """The name at the root of a chain of attributes, items and calls; empty where it is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first(node: ast.AST) -> str:
    """The attribute next to the root of a chain."""
    attribute = ""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Attribute):
            attribute = node.attr
        node = node.func if isinstance(node, ast.Call) else node.value
    return attribute


def _is_logger_name(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_").lower() in ("log", "logger", "logging", "lg")


def _gives_all_formats(method: ast.expr) -> bool:
    """Whether each place of a template has a format (``"{:.3f}"``), which takes numbers alone."""
    match method:
        case ast.Attribute(value=ast.Constant(value=str(template))):
            with contextlib.suppress(ValueError):
                places = [it for it in string.Formatter().parse(template) if it[1] is not None]
                return all(spec and not conversion for _, _, spec, conversion in places)
    return False
