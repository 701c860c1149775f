"""Which code of the project may catch an exception that a function of it raises.

A check that moves into an operator raises while the graph runs: a handler in the same compiled
region never sees it.  So the question is asked of the whole project, and the answer errs on the
side of "may catch": a name stands for whatever is called so anywhere, a function that is handed on
(a default, a keyword, an attribute) is followed under the names that it gets, and what is compiled
is everything that a compiled function may reach.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import libcst as cst

from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site
from gbfix.schema import Frame

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
#: Folders beside the entry that hold no files of the project.
_ELSEWHERE = words("site-packages node_modules __pycache__ venv env build dist")
_MANY = 400
#: Who says one of these may load any file.
_LOADS_BY_NAME = words("importlib __import__ runpy exec")
#: Methods that are called without being named.
_IMPLICIT = words("forward __call__ __init__ __getattr__ __enter__ __exit__ __iter__ __next__")
_CALLS = words("forward __call__")
#: Layers of torch that hold no others.
_LEAVES = words(
    """Linear Bilinear Identity Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d
    InstanceNorm3d RMSNorm LocalResponseNorm Dropout Dropout1d Dropout2d Dropout3d AlphaDropout
    Embedding EmbeddingBag ReLU ReLU6 LeakyReLU PReLU ELU SELU GELU SiLU Mish Tanh Sigmoid Softmax
    LogSoftmax Softplus Softsign Hardtanh Hardswish Hardsigmoid GLU MaxPool1d MaxPool2d MaxPool3d
    AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d
    AdaptiveMaxPool1d AdaptiveMaxPool2d Upsample PixelShuffle Flatten Unflatten ReflectionPad1d
    ReflectionPad2d ReplicationPad2d ZeroPad2d RNN LSTM GRU RNNCell LSTMCell GRUCell MSELoss L1Loss
    SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss
    CosineSimilarity MultiheadAttention"""
)
_CONTAINERS = words("Sequential ModuleList ModuleDict")
#: Calls that give back (a form of) the function or object that they are given.
_PASSES_ON = words(
    """compile partial wraps script jit staticmethod classmethod property cached_property to cuda
    cpu eval train deepcopy copy disable vmap grad checkpoint lru_cache cache getattr"""
)
#: Managers whose exit no exception changes, as far as the program can tell.
_PLAIN_MANAGERS = words(
    """no_grad enable_grad inference_mode set_grad_enabled autocast record_function profile
    nullcontext device sdpa_kernel"""
)


@dataclasses.dataclass(frozen=True)
class Handler:
    """A place that may catch the exception: the function around it, and its lines."""

    path: str
    function: str
    line: int
    end_line: int
    #: Whether a ``finally`` or a context manager would miss the exception, and no ``except``.
    cleans_up: bool = False


@dataclasses.dataclass
class _Function:
    path: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str
    reads: frozenset[str]


def handlers_of(
    sources: Mapping[str, str],
    names: Collection[str],
    exceptions: Collection[str],
    frames: Sequence[Frame] = (),
    owner: str = "",
) -> list[Handler]:
    """Handlers in code that may be compiled around a call of one of the functions ``names``.

    ``exceptions`` are the class that is raised and its bases, by their last names (see
    `ancestry`); ``frames`` are places on the way to the check, compiled with it; ``owner`` is the
    class whose methods the functions are: a ``forward`` is called through objects of that class.
    """
    project = _project(tuple(sources.items()))
    roots = {frame.function.rpartition(".")[2] for frame in frames}
    if not project.guards:
        return []
    tainted = project.leading_to(frozenset(names), owner)
    compiled = project.compiled(frozenset(roots))
    found: list[Handler] = []
    for function, guards in project.guards:
        if compiled is None or function.node.name in compiled:
            found += _handlers_in(function, guards, tainted, exceptions, frames)
    return found


class _Project:
    """The texts of a project as far as questions about handlers ask for them, each once."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._trees = _parsed(sources)
        self._functions = [
            it for path, tree in self._trees.items() for it in _functions(path, tree)
        ]
        #: Functions with what may catch or clean up in them.
        self.guards = [(it, own) for it in self._functions if (own := _guards(it.node))]
        self.classes = {
            node.name: node
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }
        self._leading: dict[tuple[frozenset[str], str], set[str]] = {}
        self._compiled: dict[frozenset[str], set[str] | None] = {}

    def leading_to(self, names: frozenset[str], owner: str) -> set[str]:
        """All names under which something may be called that leads to one of the functions."""
        key = names, owner
        if key not in self._leading:
            self._leading[key] = _leading_to(self._trees, self._functions, names, owner)
        return self._leading[key]

    def compiled(self, roots: frozenset[str]) -> set[str] | None:
        """The names of all functions that may run in a compiled region; None for all of them."""
        if roots not in self._compiled:
            self._compiled[roots] = _compiled(self._trees, self._functions, roots)
        return self._compiled[roots]


@functools.lru_cache(maxsize=4)
def _project(sources: tuple[tuple[str, str], ...]) -> _Project:
    return _Project(dict(sources))


def project_texts(sources: Mapping[str, str], entry: str) -> Mapping[str, str]:
    """The files that the program loaded, and those beside the one that was started that may load
    one of them: they name it, or one that does.
    """
    texts = dict(sources)
    folder = Path(entry).parent
    if not entry or not Path(entry).is_absolute():
        return texts
    beside: dict[str, str] = {}
    for path in _python_files(folder):
        if str(path) not in texts:
            try:
                beside[str(path)] = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
    said = {path: _said(path, text) for path, text in beside.items()}
    known = {name for path in (*texts, entry) for name in _module_names(path)} | _LOADS_BY_NAME
    if entry in beside:
        texts[entry] = beside[entry]
        del said[entry]
    while True:
        found = [name for name, said_there in said.items() if not known.isdisjoint(said_there)]
        if not found:
            return texts
        for name in found:
            texts[name] = beside[name]
            known |= _module_names(name)
            del said[name]


def _said(path: str, text: str) -> frozenset[str]:
    """The words of a file, and the packages that it imports from without naming them."""
    words_there = frozenset(re.findall(r"\w+", text))
    if re.search(r"^\s*from\s+\.+\s+import\b", text, re.MULTILINE):
        return words_there | frozenset(Path(path).parent.parts)
    return words_there


def _module_names(path: str) -> set[str]:
    """The words under which other files may import this one: its own, and its package's."""
    place = Path(path)
    return {place.parent.name} if place.stem == "__init__" else {place.stem}


def ancestry(sources: Mapping[str, str], exception: str) -> frozenset[str]:
    """The last names of an exception's class and its bases; with ``""`` where some are unknown."""
    found: set[str] = set()
    queue = [exception.rpartition(".")[2]]
    classes = _project(tuple(sources.items())).classes
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.add(name)
        kind = getattr(builtins, name, None)
        if name in classes:
            queue += [_last(base) for base in classes[name].bases]
        elif isinstance(kind, type) and issubclass(kind, BaseException):
            found |= {parent.__name__ for parent in kind.__mro__}
        else:
            found.add("")
    return frozenset(found)


def goes_on_after(site: Site, kinds: Sequence[str]) -> bool:
    """Whether some code of the project runs after one of these exceptions, and may see what was
    set before it: a handler, a ``finally``, or a call that suppresses or expects it.

    ``kinds`` are the exceptions' classes as the code writes them; "" is one that is not known.
    """
    texts = project_texts(site.sources, site.entry)
    names = frozenset(name for kind in kinds for name in ancestry(texts, kind))
    return any(_goes_on_after(text, names) for text in {site.source, *texts.values()})


@functools.lru_cache(maxsize=256)
def _goes_on_after(text: str, names: frozenset[str]) -> bool:
    if _GOES_ON.search(text):
        return True
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try | ast.TryStar):
            continue
        if node.finalbody:
            return True
        for handler in node.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            taken = {"" if kind is None else _last_name(kind) for kind in types}
            if "" in names or "" in taken or taken & names:
                return True
            # A name for several classes, or another name for one.
            if any(not isinstance(getattr(builtins, name, None), type) for name in taken):
                return True
    return False


#: Code that runs after an error, or goes on with something else: cells (of a notebook, where the
#: next one runs in the same process), test runners, context managers of the project's own, threads,
#: and what is called at the end.
_GOES_ON = re.compile(
    r"(?m)^# ?%%"
    r"|\b(?:suppress|raises|assertRaises\w*|assert_raises\w*|unittest|pytest|ExitStack|__a?exit__"
    r"|contextmanager|atexit|excepthook|finalize|threading|_thread|concurrent|multiprocessing"
    r"|asyncio)\b"
)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def is_around(handler: Handler, frames: Sequence[Frame]) -> bool:
    """Whether one of the frames' lines stands in the handler's lines: it is on the way for sure."""
    return any(
        frame.path == handler.path and handler.line <= frame.line <= handler.end_line
        for frame in frames
    )


def who_handles(
    site: Site, function: cst.FunctionDef, line: cst.CSTNode, kinds: Sequence[str]
) -> tuple[list[Handler], list[str]]:
    """Who may catch what a line of a function raises inside compiled code.

    Gives those on the way from the compiled function to the line, which catch it for sure, and a
    sentence for each, also for the others, which catch it where they are compiled.  ``kinds`` are
    the exceptions' classes as the code writes them; "" is one that is not known.
    """
    texts = project_texts(site.sources, site.entry)
    exceptions = {name for kind in kinds for name in ancestry(texts, kind)}
    here = Frame(site.path, site.span(line).line, function.name.value)
    # What the line calls is no matter: it moves with the line.
    frames = [*_outward(site), here]
    found = handlers_of(texts, [function.name.value], exceptions, frames, _owner(site, function))
    own = [site.span(it) for it in walk(line) if isinstance(it, cst.Try | cst.TryStar | cst.With)]
    found = [
        it
        for it in found
        if it.path != site.path
        or not any(span.line <= it.line and it.end_line <= span.end_line for span in own)
    ]
    notes = [
        (_CLEANS if handler.cleans_up else _CATCHES).format(handler.function) for handler in found
    ]
    return [one for one in found if is_around(one, frames)], list(dict.fromkeys(notes))


def _outward(site: Site) -> list[Frame]:
    """The calls that led from the compiled function to the site's own place, and no further."""
    found: list[Frame] = []
    for frame in site.graph_break.frames:
        if (frame.path, frame.line) == (site.frame.path, site.frame.line):
            break
        found.append(frame)
    return found


_CATCHES = (
    "`{}` handles such errors: if it is itself compiled, it no longer sees them when this check"
    " fails"
)
_CLEANS = (
    "if `{}` is itself compiled, its cleanup (`finally`, context manager) does not run when this"
    " check fails"
)


def _owner(site: Site, function: cst.FunctionDef) -> str:
    """The name of the class whose method it is."""
    for outer in site.ancestors(function):
        if isinstance(outer, cst.ClassDef):
            return outer.name.value
        if isinstance(outer, cst.FunctionDef):
            break
    return ""


# -- the project -----------------------------------------------------------------------------


def _python_files(folder: Path) -> Iterator[Path]:
    queue, seen = [folder], 0
    while queue and seen < _MANY:
        try:
            inside = sorted(queue.pop().iterdir())
        except OSError:
            continue
        for path in inside:
            if path.name.startswith(".") or path.name in _ELSEWHERE:
                continue
            seen += 1
            if path.is_dir() and not (path / "pyvenv.cfg").exists():
                queue.append(path)
            elif path.suffix == ".py":
                yield path
            if seen >= _MANY:
                return


def _parsed(sources: Mapping[str, str]) -> dict[str, ast.Module]:
    trees = {path: _tree(text) for path, text in sources.items()}
    return {path: tree for path, tree in trees.items() if tree is not None}


@functools.lru_cache(maxsize=512)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _functions(path: str, tree: ast.Module) -> Iterator[_Function]:
    def visit(node: ast.AST, owner: str) -> Iterator[_Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _FUNCTIONS):
                yield _Function(path, child, owner, frozenset(_names(child.body)))
                yield from visit(child, owner)
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, child.name)
            else:
                yield from visit(child, owner)

    return visit(tree, "")


def _names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for top in nodes:
        for node in ast.walk(top):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name


def _last(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value) | ast.Call(func=value):
            return _last(value)
    return ""


# -- what may lead to the check --------------------------------------------------------------


def _leading_to(
    trees: Mapping[str, ast.Module],
    functions: Sequence[_Function],
    names: Collection[str],
    owner: str,
) -> set[str]:
    """All names under which something may be called that leads to one of the functions."""
    tainted = set(names)
    owners = _Owners(trees, owner)
    parameters = _parameters(functions)
    flows = [flow for tree in trees.values() for flow in _flows(tree, parameters)]
    given = {a.arg for function in functions for a in _arguments(function.node.args)}
    layers = _unknown_layers(functions, _Origins(flows, owners.classes, given))
    modules = bool(tainted & _CALLS)
    before = -1
    while before != len(tainted):
        before = len(tainted)
        for function in functions:
            if function.reads & tainted or owners.have(function, tainted):
                tainted.add(function.node.name)
                if function.node.name in _IMPLICIT and function.owner:
                    tainted.add(function.owner)
                modules = modules or function.node.name in _CALLS
        # `__init__` and the like are called through their class, or through one that extends it.
        tainted -= _IMPLICIT - set(names)
        tainted |= owners.heirs(tainted)
        tainted |= layers if modules else set()
        for target, value in flows:
            if target not in tainted and _hands_on(value, tainted, owners.classes):
                tainted.add(target)
    return tainted


class _Owners:
    """The classes of the project; ``owner`` is the one whose methods are looked for, if any."""

    def __init__(self, trees: Mapping[str, ast.Module], owner: str) -> None:
        found = [
            node
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]
        self.classes = {node.name for node in found}
        self._bases = [(node.name, {_last(base) for base in node.bases}) for node in found]
        self._owners = {owner} | self.heirs({owner}) if owner else None

    def heirs(self, names: Collection[str]) -> set[str]:
        """The classes that extend one of these, directly or through others."""
        found = set(names)
        before = -1
        while before != len(found):
            before = len(found)
            found |= {name for name, bases in self._bases if bases & found}
        return found - set(names)

    def have(self, function: _Function, names: Collection[str]) -> bool:
        """Whether the function has one of the names, and is no method of another class."""
        if self._owners is not None and function.node.name in _IMPLICIT:
            return function.node.name in names and function.owner in self._owners
        return function.node.name in names


class _Origins:
    """What names may stand for: ``flows`` are all expressions that a name is bound to.

    ``given`` are names of parameters, which callers that nobody sees may bind.
    """

    def __init__(
        self,
        flows: Sequence[tuple[str, ast.expr]],
        classes: Collection[str],
        given: Collection[str],
    ) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        for name, value in flows:
            self._values.setdefault(name, []).append(value)
        self._classes = classes
        self._given = given
        self._known: dict[str, bool] = {}

    def binds(self, name: str) -> bool:
        """Whether something is bound to the name, or given under it."""
        return name in self._values or name in self._given

    def told(self, name: str) -> bool:
        """Whether the text tells all that a name may be: objects that constructors make."""
        if name not in self._known:
            self._known[name] = True  # (a name that is bound to itself adds nothing)
            values = self._values.get(name, [])
            self._known[name] = bool(values) and all(self._is_made(value) for value in values)
        return self._known[name]

    def _is_made(self, value: ast.expr) -> bool:
        match value:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name not in self._given and self.told(name)
            case ast.Attribute(attr=name):
                return self.told(name)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(self._is_made(part) for part in parts)
            case ast.Starred(value=inner) | ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
                return self._is_made(inner)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_made(body) and self._is_made(orelse)
            case ast.Call(func=func, args=args, keywords=keywords):
                last = _last(func)
                if last in self._classes or last in _LEAVES:
                    return True
                given = [*args, *(keyword.value for keyword in keywords)]
                return last in _CONTAINERS and all(self._is_made(part) for part in given)
        return False


def _unknown_layers(functions: Sequence[_Function], origins: _Origins) -> set[str]:
    """What a ``forward`` calls by a name that is bound, or on itself, and neither a function of the
    project nor made by a constructor that the text shows: any module.
    """
    own = {other.node.name for other in functions}
    called = {
        name
        for function in functions
        if function.node.name in _CALLS
        for node in ast.walk(function.node)
        if isinstance(node, ast.Call)
        for name in [_last(node.func)]
        if origins.binds(name) or _is_own_attribute(node.func)
    }
    return {name for name in called - own if not origins.told(name)}


def _is_own_attribute(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _parameters(functions: Sequence[_Function]) -> dict[str, list[list[str]]]:
    """The names of positional parameters, by the name under which a function is called."""
    found: dict[str, list[list[str]]] = {}
    for function in functions:
        arguments = function.node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        if function.owner and names:
            names = names[1:]
        called = function.node.name
        if called == "__init__":
            called = function.owner
        found.setdefault(called, []).append(names)
    return found


def _flows(
    tree: ast.Module, parameters: Mapping[str, list[list[str]]]
) -> Iterator[tuple[str, ast.expr]]:
    """Names, each with an expression that they may stand for."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for t in targets for name in _bound(t))
            case (
                ast.AugAssign(target=target, value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield from ((name, value) for name in _bound(target))
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from ((name, value) for name in _bound(target))
            case ast.Call(func=func, args=args, keywords=keywords):
                yield from ((k.arg, k.value) for k in keywords if k.arg is not None)
                yield from _set_by_text(func, args)
                for names in parameters.get(_last(func), ()):
                    yield from zip(names, args, strict=False)
                if isinstance(func, ast.Attribute) and args:
                    yield from ((_last(func.value), a) for a in args)  # `checks.append(check)`
            case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
                yield from _defaults(arguments)
            case ast.Lambda(args=arguments):
                yield from _defaults(arguments)


def _set_by_text(func: ast.expr, args: Sequence[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """``setattr(self, "layer", x)``, ``self.add_module("layer", x)``"""
    if _last(func) in ("setattr", "add_module", "register_module"):
        match args:
            case [*_, ast.Constant(value=str() as name), value]:
                yield name, value


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    count = len(arguments.defaults)
    for parameter, default in zip(positional[len(positional) - count :], arguments.defaults,
                                  strict=True):  # fmt: skip
        yield parameter.arg, default
    for parameter, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if given is not None:
            yield parameter.arg, given


def _bound(target: ast.AST) -> Iterator[str]:
    match target:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _bound(element)
        case ast.Starred(value=value):
            yield from _bound(value)
        case ast.expr():
            yield _last(target)


def _hands_on(value: ast.expr, tainted: Collection[str], classes: Collection[str]) -> bool:
    """Whether the expression may give what leads to the check (and not only what it computes)."""
    match value:
        case ast.Name() | ast.Attribute():
            return _last(value) in tainted
        case ast.Call(func=func, args=args, keywords=keywords):
            last = _last(func)
            if last in classes or last[:1].isupper():
                passed = [*args, *(k.value for k in keywords)]
                return last in tainted or any(_hands_on(p, tainted, classes) for p in passed)
            if last not in _PASSES_ON:
                return False
            held = [func.value] if isinstance(func, ast.Attribute) else []
            passed = [*held, *args, *(k.value for k in keywords)]
            return any(_hands_on(p, tainted, classes) for p in passed)
        case ast.Lambda(body=body):
            return bool(set(_names([body])) & set(tainted))
        case ast.Constant(value=str() as text):
            return text in tainted  # `getattr(self, "check")`
        case ast.Dict(values=values):
            return any(_hands_on(v, tainted, classes) for v in values)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return _hands_on(element, tainted, classes)
        case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.JoinedStr():
            return False
    parts = [child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)]
    return any(_hands_on(part, tainted, classes) for part in parts)


# -- what may be compiled --------------------------------------------------------------------


def _compiled(
    trees: Mapping[str, ast.Module], functions: Sequence[_Function], roots: Collection[str]
) -> set[str] | None:
    """The names of all functions that may run in a compiled region; None for all of them."""
    found = set(roots)
    own = {function.node.name for function in functions}
    handed = {a.arg for f in functions for a in _arguments(f.node.args)} - own
    for function in functions:
        if any(_is_compile(part) for d in function.node.decorator_list for part in ast.walk(d)):
            found.add(function.node.name)
    for tree in trees.values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not _is_compile(node.func):
                continue
            asked = node.args[:1] or [k.value for k in node.keywords if k.arg == "model"]
            if asked and isinstance(asked[0], ast.Name) and asked[0].id in handed:
                return None  # `def compiled(function): return torch.compile(function)`
            if asked:
                found |= set(_names(asked))
            elif isinstance(node.func, ast.Attribute):
                found |= {_last(node.func.value)} - {"torch"}
    if found - own:  # an object, whose class has a `forward`, a `__call__`
        found |= _IMPLICIT
    before = -1
    while before != len(found):
        before = len(found)
        for function in functions:
            if function.node.name in found:
                found |= function.reads
                found |= _IMPLICIT if function.reads & {"self", "cls"} else set()
    return found


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _is_compile(node: ast.AST) -> bool:
    return _last(node) in ("compile", "optimize", "aot_compile", "export")


# -- handlers --------------------------------------------------------------------------------


def _guards(function: ast.AST) -> list[ast.Try | ast.TryStar | ast.With | ast.AsyncWith]:
    """The statements of a function that may catch an error, or clean up after it."""
    kinds = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
    return [node for node in _own(function) if isinstance(node, kinds)]


def _handlers_in(
    function: _Function,
    guards: Sequence[ast.Try | ast.TryStar | ast.With | ast.AsyncWith],
    tainted: Collection[str],
    exceptions: Collection[str],
    frames: Sequence[Frame],
) -> Iterator[Handler]:
    for node in guards:
        body: list[ast.stmt] = []
        cleans_up = False
        if isinstance(node, ast.Try | ast.TryStar):
            caught = any(_catches(handler.type, exceptions) for handler in node.handlers)
            if not caught and not node.finalbody:
                continue
            body = [*node.body, *(node.orelse if not caught else ())]
            cleans_up = not caught
        else:
            managers = [_last(item.context_expr) for item in node.items]
            if all(name in _PLAIN_MANAGERS for name in managers):
                continue
            body, cleans_up = node.body, "suppress" not in managers
        if not body:
            continue
        last = max(part.end_lineno or part.lineno for part in body)
        found = Handler(function.path, function.node.name, body[0].lineno, last, cleans_up)
        if is_around(found, frames) or set(_names(body)) & set(tainted):
            yield found


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What stands in the function, and not in one that it defines."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, (*_FUNCTIONS.__args__, ast.Lambda, ast.ClassDef)):
            continue
        yield child
        yield from _own(child)


def _catches(kind: ast.expr | None, exceptions: Collection[str]) -> bool:
    match kind:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(_catches(each, exceptions) for each in kinds)
    if "" in exceptions:
        return True
    last = _last(kind)
    plain = isinstance(getattr(builtins, last, None), type)
    return last in exceptions or not (plain or last.endswith(("Error", "Exception")))
