"""Classes that are defined in the middle of compiled code."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of, params_of
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import enclosing_functions, function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from .closed_class import Closed, closed, closed_function

#: A call of the class or of what it has, or what is handed on of it.
_Use = cst.Call | cst.Attribute
#: Containers whose `repr` does not show the name of their class.
_CONTAINERS = frozenset({"builtins.dict", "builtins.list", "collections.OrderedDict"})
_BASES = frozenset({"builtins.object", "torch.autograd.Function", *_CONTAINERS})
_DECORATORS = frozenset({"dataclasses.dataclass"})
_OF_METHODS = frozenset({"builtins.staticmethod", "builtins.property"})
_OF_THE_CLASS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
_LINES = (cst.SimpleStatementLine, cst.For, cst.If, cst.With, cst.While, cst.Try, cst.FunctionDef)
_INSTANCE_NOTE = (
    "its objects may be seen elsewhere, and they show the class's new qualified name (as in the"
    " `repr` of a dataclass); objects of several calls are now of one class"
)


_TENSOR_NOTE = (
    "a tensor that it reads of the function goes in without its gradient; changed in place before"
    " the backward, it raises an error in compiled code"
)
_TOP = "import dataclasses\nimport torch\n\nRATE = 2"


def _source(body: str, use: str = "return x * Config.scale", head: str = "class Config:") -> str:
    inside = "\n        ".join(body.splitlines())
    return (
        f"{_TOP}\n\n\n@torch.compile\ndef f(x, n):\n    y = x + 1\n    {head}\n"
        f"        {inside}\n    {use}\n"
    )


def _moved(body: str, use: str, head: str = "class Config:") -> str:
    inside = "\n    ".join(body.splitlines())
    return (
        f"{_TOP}\n\n\n{head}\n    {inside}\n\n\n@torch.compile\ndef f(x, n):\n"
        f"    y = x + 1\n    {use}\n"
    )


_FUNCTION = """@staticmethod
def forward(ctx, x):
    ctx.n = RATE
    return x * 2

@staticmethod
def backward(ctx, g):
    return g * ctx.n"""
_CLOSED = """@staticmethod
def forward(ctx, x):
    return x * n + y

@staticmethod
def backward(ctx, g):
    return g * n"""
_GIVEN = """@staticmethod
def forward(ctx, x, n, y):
    ctx.n = n
    return x * n + y

@staticmethod
def backward(ctx, g):
    return g * ctx.n, None, None"""
_SEEN = {"n": scalar(2), "y": tensor(3)}
_INIT = "def __init__(self, n):\n    self.n = n"
_HEAD = "class Config:"
_DOC = '"""Attributes, too."""'
_GET = f"{_DOC}\n\ndef __getattr__(self, name):\n    return self[name]"


class ClassAtModule(Codemod):
    """*What it does.*  Moves a class that a function defines anew in every call to module level.

    ```python
    def forward(self, x):
        class Square(torch.autograd.Function):
            ...
        return Square.apply(x)
    ```
    Dynamo does not trace ``class`` statements; with the class before the function there is none.

    *When it applies.*  The class has no base or is a ``torch.autograd.Function``, perhaps under
    ``@dataclass``; its body holds constants and methods; the function calls it, reads its
    attributes or asks ``isinstance``.  What its methods read of the function is handed to them: to
    ``__init__``, or by ``apply`` to ``forward``.

    *Fix safety.*  Safe where only attributes of its objects are used in the function, and no tensor
    is handed to its methods.  A dict or a list with a few methods may go elsewhere, and then keeps
    the qualified name of its class.
    Unsafe where another object may: its class has another qualified name, and is the same one for
    all calls.

    *Refuses.*  Class values that a call could change (lists, or attributes that somebody sets on
    the class), other bases, metaclasses and decorators, classes used as values, classes under a
    condition, and names that the module or Python itself has already.
    """

    name = "class-at-module"
    codes = ("GB8977", "GB0075", "GB1319")
    examples = (
        Example(
            _source("scale = 2.0\nsizes = (1, -2)"),
            _moved("scale = 2.0\nsizes = (1, -2)", "return x * Config.scale"),
            at="class Config",
            title="constants",
        ),
        Example(
            _source(_FUNCTION, "return Config.apply(y)", "class Config(torch.autograd.Function):"),
            _moved(_FUNCTION, "return Config.apply(y)", "class Config(torch.autograd.Function):"),
            at="class Config",
            title="a function with a gradient of its own",
        ),
        Example(
            _source(_INIT, "c = Config(n)\n    return x * c.n"),
            _moved(_INIT, "c = Config(n)\n    return x * c.n"),
            at="class Config",
            title="an object that stays inside",
        ),
        Example(
            _source(
                "n: int",
                "return Config(n)",
                "@dataclasses.dataclass(frozen=True)\n    class Config:",
            ),
            _moved(
                "n: int", "return Config(n)", "@dataclasses.dataclass(frozen=True)\nclass Config:"
            ),
            at="class Config",
            title="an object that goes elsewhere",
        ),
        Example(
            _source(_GET, "return Config(x=y)", "class Config(dict):"),
            _moved(
                _GET.replace(_DOC, f"{_DOC}\n__qualname__ = 'f.<locals>.Config'").replace("'", '"'),
                "return Config(x=y)",
                "class Config(dict):",
            ),
            at="class Config",
            title="a dict with a method, that goes elsewhere",
        ),
        Example(
            _source("factor = y\ndef get(self, z):\n    return z * self.factor + n").replace(
                "return x * Config.scale", "return Config().get(x)"
            ),
            _moved(
                "def __init__(self, y, n):\n    self.n = n\n    self.factor = y\n"
                "def get(self, z):\n    return z * self.factor + self.n",
                "return Config(y, n).get(x)",
            ),
            at="class Config",
            title="a class that reads values of the function",
        ),
        Example(
            _source(_CLOSED, "return Config.apply(x)", "class Config(torch.autograd.Function):"),
            _moved(
                _GIVEN,
                "return Config.apply(x, n, y.detach())",
                "class Config(torch.autograd.Function):",
            ),
            at="class Config",
            facts=_SEEN,
            title="a function with a gradient that reads values of the function around",
        ),
        Example(
            _source(
                _CLOSED,
                "return list(map(Config.apply, x))",
                "class Config(torch.autograd.Function):",
            ),
            _moved(
                _GIVEN,
                "return list(map(lambda x: Config.apply(x, n, y.detach()), x))",
                "class Config(torch.autograd.Function):",
            ),
            at="class Config",
            facts=_SEEN,
            title="one that is handed on",
        ),
    )
    near_misses = (
        *(
            NearMiss(_source(body, use, head), at="class Config", why=why)
            for body, use, head, why in (
                ("seen = []", "return Config.seen", _HEAD, "a list for all calls"),
                ("n = 0", "Config.n += 1; return x * Config.n", _HEAD, "an attribute is set"),
                ("n = 0", "setattr(Config, 'n', n); return x", _HEAD, "used as a value"),
                ("n = 0", "return x, Config", _HEAD, "used as a value"),
                ("n = 0", "Config = Config(); return x", _HEAD, "bound again"),
                ("n = y", "return Config.n", _HEAD, "a value of the call"),
                (
                    "def get(self):\n    return [y for _ in range(2)]",
                    "return Config().get()",
                    _HEAD,
                    "reads a local in a scope of its own",
                ),
                ("k = y", "return Config.k", _HEAD, "a value of the call, asked of the class"),
                ("def get(self, z=y): return z", "return Config().get()", _HEAD, "the same"),
                (
                    "n = 0\n@classmethod\ndef add(cls): cls.n += 1",
                    "Config.add(); return x * Config.n",
                    _HEAD,
                    "changes its class",
                ),
                (
                    "n = 0\ndef add(self): type(self).n += 1",
                    "Config().add(); return x * Config.n",
                    _HEAD,
                    "changes its class",
                ),
                (
                    "n = 0\ndef add(self): self.__class__.n += 1",
                    "Config().add(); return x * Config.n",
                    _HEAD,
                    "changes its class",
                ),
                (
                    "n = 0",
                    "return x * Config.n",
                    "class Config(Base):",
                    "a base with rules of its own",
                ),
                ("n = 0", "return x * Config.n", "class Config(metaclass=M):", "a metaclass"),
                ("n = 0", "return x", "@register\n    class Config:", "a decorator"),
                ("print(n)", "return x", _HEAD, "its body does something"),
            )
        ),
        *(
            NearMiss(
                _source(_CLOSED.replace(*new), use, "class Config(torch.autograd.Function):"),
                at="class Config",
                why=why,
                facts=facts,
            )
            for why, new, use, facts in (
                ("what it reads was not seen", ("", ""), "return Config.apply(x)", {}),
                ("a call by name", ("", ""), "return Config.apply(x=x)", _SEEN),
                ("used as a value", ("", ""), "return Config.apply(x), Config.apply", _SEEN),
                (
                    "a parameter of that name",
                    ("(ctx, x)", "(ctx, x, n=1)"),
                    "return Config.apply(x)",
                    _SEEN,
                ),
                (
                    "its context has one of that name",
                    ("return g * n", "return ctx.n * g * n"),
                    "return Config.apply(x)",
                    _SEEN,
                ),
                (
                    "a scope of its own",
                    ("return g * n", "return [g * n for _ in (1,)][0]"),
                    "return Config.apply(x)",
                    _SEEN,
                ),
            )
        ),
        NearMiss(
            _source("n = 0").replace("    y = x + 1\n    class", "    if n > 1:\n     class"),
            at="class Config",
            why="under a condition",
        ),
        NearMiss(
            _source("n = 0").replace("def f(x, n)", "def f(x, n, Config)"),
            at="class Config",
            why="what is read before it is a parameter",
        ),
        NearMiss(
            _source("n = 0").replace("def f(", "def g(Config):\n  def f("),
            at="class Config",
            why="a name of the function around",
        ),
        NearMiss(
            "from settings import *\n" + _source("n = 0"),
            at="class Config",
            why="the module may have that name from elsewhere",
        ),
        NearMiss(
            _source("n = 0") + "\n\ndef g():\n    return Config.n\n",
            at="class Config",
            why="another function means something else by it",
        ),
        NearMiss(
            _source("n = 0") + "\n\nConfig = 3\n",
            at="class Config",
            why="a name of the module",
        ),
        NearMiss(
            _source("n = 0").replace("Config", "RuntimeError"),
            at="class RuntimeError",
            why="a name of Python's own",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        node = site.statement
        function = site.function_of(node)
        if not isinstance(node, cst.ClassDef) or function is None:
            return
        if site.parent(node) is not function.body or not _is_free(site, function, node):
            return
        given = _closed_over(site, function, node)
        if given is None or not _is_plain(site, node, given):
            return
        objects = _objects(site, function, node, given)
        if objects is None:
            return
        stays = not objects or (
            all(_stays(site, function, made) for made in objects) and _keeps_itself(site, node)
        )
        safe = stays or _is_container(site, node)
        notes = () if safe else (_INSTANCE_NOTE,)
        hoisted = given.node if stays or not safe else _named_as_before(site, given.node, node)
        calls: dict[_Use, cst.BaseExpression] = {}
        if given.given:
            calls |= {made: _given(made, given) for made in objects}
        if given.given and node.bases:
            applied = _applied(site, function, node)
            last = _given_last(site, node, given)
            if applied is None or objects or last is None:
                return
            calls = {made: _with_last(node, made, last) for made in applied}
            if any(isinstance(argument.value, cst.Call) for argument in last):
                safe, notes = False, (_TENSOR_NOTE,)
        yield _moved_out(site, node, hoisted, calls).rewrite(
            f"define `{node.name.value}` at module level",
            safety=Safety.SAFE if safe else Safety.UNSAFE,
            notes=notes,
            rank=20,
        )


def _outer_locals(
    site: Site, function: cst.FunctionDef, node: cst.ClassDef
) -> list[frozenset[str]]:
    """The local names of each function around the one that defines the class."""
    around = enclosing_functions(site.module, node)
    return [function_scope(part).locals for part in around if part is not function]


def _is_free(site: Site, function: cst.FunctionDef, node: cst.ClassDef) -> bool:
    """Whether the class's name can go to the module, and means the class all over the function."""
    name = node.name.value
    if name in module_bindings(site.module) or hasattr(builtins, name):
        return False
    outer = _outer_locals(site, function, node)
    if name in parameters_of(function.params) or any(name in names for names in outer):
        return False  # elsewhere in the function it would be another value
    # In a method `__name` stands for another name; elsewhere, for another thing.
    return not name.startswith("__") and not _is_known_elsewhere(site, function, name)


def _closed_over(site: Site, function: cst.FunctionDef, node: cst.ClassDef) -> Closed | None:
    """The class with what it reads of the function given to its objects; None if it cannot be."""
    what = activity(node)
    if what.nonlocals or what.globals or what.dynamic:
        return None
    known = function_scope(function).locals.union(*_outer_locals(site, function, node))
    captured = what.reads & known - {node.name.value}
    if any(not _bound_before(site, function, local, node) for local in captured):
        return None
    if not captured:
        return Closed(node, (), frozenset())
    bases = {resolve(site.module, base.value, at=node) for base in node.bases}
    if bases == {"torch.autograd.Function"}:
        return closed_function(node, captured)
    return closed(node, captured)


def _objects(
    site: Site, function: cst.FunctionDef, node: cst.ClassDef, given: Closed
) -> list[cst.Call] | None:
    """The calls that make objects of the class; None where another use of it is not known."""
    name = node.name.value
    # `Config.n = 1` would stay from call to call.
    if any(text.startswith(f"{name}.") for text in activity(function.body).attribute_writes):
        return None
    objects: list[cst.Call] = []
    for place in site.places_of(name, function.body):
        if place is node.name:
            continue
        holder = site.parent(place)
        if site.span(place).line <= site.span(node).line:
            return None
        if isinstance(holder, cst.Call) and holder.func is place:
            objects.append(holder)
        elif _is_of_objects(holder, given) or not _is_known_use(site, place):
            return None
    return objects


def _moved_out(
    site: Site, node: cst.ClassDef, hoisted: cst.ClassDef, calls: Mapping[_Use, cst.BaseExpression]
) -> Edit:
    """The class above the module's statement that holds its function, and new calls of it."""
    edit = site.edit()
    edit.moved(node)
    left = dict(calls)
    first, *others = site.block_of(node)
    if first is node and isinstance(others[0] if others else None, _LINES):
        # The blank line under the class is no use at the start of the function.
        line = others[0]
        for old in [made for made in calls if made in set(walk(others[0]))]:
            line = line.deep_replace(old, left.pop(old))
        edit.replace(others[0], _without_blank_lines(line))
    comments = [line for line in node.leading_lines if line.comment is not None]
    space = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    above = hoisted.with_changes(leading_lines=[*space, *comments])
    edit.insert_before(site.top_level_statement(node), above)
    for old, made in left.items():
        edit.replace(old, made)
    return edit


def _is_of_objects(holder: cst.CSTNode | None, given: Closed) -> bool:
    return isinstance(holder, cst.Attribute) and holder.attr.value in given.of_objects


def _is_known_use(site: Site, place: cst.CSTNode) -> bool:
    return _is_asked_of(site, place) or _is_asked_for(site, place)


def _given(made: cst.Call, given: Closed) -> cst.Call:
    first = [cst.Arg(cst.Name(local)) for local in given.given]
    return made.with_changes(args=[*first, *made.args])


def _with_last(node: cst.ClassDef, made: _Use, last: Sequence[cst.Arg]) -> cst.BaseExpression:
    """The call with more arguments; where ``apply`` is handed on, a function that gives them."""
    if isinstance(made, cst.Call):
        return made.with_changes(args=[*made.args, *last])
    names = [
        parameters_of(part.params)[1:]
        for part in node.body.body
        if isinstance(part, cst.FunctionDef) and part.name.value == "forward"
    ]
    plain = len(names) == 1 and len(names[0]) == 1
    taken = {part.value for it in last for part in walk(it) if isinstance(part, cst.Name)}
    given = fresh(names[0][0] if plain else "given", taken)
    star = "" if plain else "*"
    more = ", ".join(code(it.value) for it in last)
    return cst.parse_expression(f"lambda {star}{given}: {code(made)}({star}{given}, {more})")


def _applied(site: Site, function: cst.FunctionDef, node: cst.ClassDef) -> list[_Use] | None:
    """The calls of the class's ``apply``, and where calls are handed it; None for other uses."""
    found: list[_Use] = []
    for place in site.places_of(node.name.value, function.body):
        if place is node.name:
            continue
        holder = site.parent(place)
        call = site.parent(holder) if isinstance(holder, cst.Attribute) else None
        if not isinstance(holder, cst.Attribute) or holder.attr.value != "apply":
            return None
        if isinstance(call, cst.Arg) and not call.star and site.function_of(call) is function:
            found.append(holder)
            continue
        if not isinstance(call, cst.Call) or call.func is not holder:
            return None
        if any(argument.star or argument.keyword for argument in call.args):
            return None
        found.append(call)
    return found


def _given_last(site: Site, node: cst.ClassDef, given: Closed) -> list[cst.Arg] | None:
    """What the function knows, as arguments of ``apply``; None where it was not seen.

    A tensor goes there without its gradient, which it did not get before.
    """
    found = []
    known = site.locals_before(node)
    for name in given.given:
        fact = known.get(name)
        if fact is None or (fact.is_python_scalar is False and not fact.is_tensor):
            return None
        text = f"{name}.detach()" if fact.is_tensor else name
        found.append(cst.Arg(cst.parse_expression(text)))
    return found


def _is_known_elsewhere(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether other code could mean something by the name: `import *` may have brought it."""
    inside = set(walk(function))
    return any(
        isinstance(node, cst.ImportStar)
        or (isinstance(node, cst.Name) and node.value == name and node not in inside)
        for node in walk(site.module)
    )


def _without_blank_lines(line: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(line, _LINES)
    above = list(line.leading_lines)
    while above and above[0].comment is None:
        above.pop(0)
    return line.with_changes(leading_lines=above)


def _bound_before(site: Site, function: cst.FunctionDef, local: str, node: cst.ClassDef) -> bool:
    """Whether a local has one value in the whole function: a parameter, or bound once, above."""
    stores = [place for place in site.places_of(local, function.body) if _is_stored(site, place)]
    if local in parameters_of(function.params):
        return not stores
    if len(stores) != 1 or site.statement_of(stores[0]) not in site.block_of(node):
        return False
    return site.span(stores[0]).line < site.span(node).line


def _is_stored(site: Site, place: cst.CSTNode) -> bool:
    return not isinstance(site.parent(place), cst.Arg | cst.Attribute) and any(
        place in set(walk(target)) for target in _targets(site.statement_of(place))
    )


def _targets(line: cst.CSTNode) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for part in walk(line):
        match part:
            case cst.AssignTarget() | cst.AugAssign() | cst.AnnAssign() | cst.For():
                found.append(part.target)
            case cst.NamedExpr() | cst.CompFor():
                found.append(part.target)
            case cst.AsName(name=named):
                found.append(named)
            case cst.Del():
                found.append(part)
    return found


def _is_container(site: Site, node: cst.ClassDef) -> bool:
    """Whether it is a dict or a list in all but its methods: only its type tells."""
    bases = {resolve(site.module, base.value, at=node) for base in node.bases}
    return bool(bases & _CONTAINERS) and not node.decorators


def _named_as_before(site: Site, made: cst.ClassDef, node: cst.ClassDef) -> cst.ClassDef:
    """The class with the qualified name that it has inside of the function."""
    names = [node.name.value]
    for outer in site.ancestors(node):
        if isinstance(outer, cst.FunctionDef):
            names += ["<locals>", outer.name.value]
        elif isinstance(outer, cst.ClassDef):
            names.append(outer.name.value)
    named = cst.parse_statement(f'__qualname__ = "{".".join(reversed(names))}"\n')
    if isinstance(made.body, cst.SimpleStatementSuite):
        only = cst.SimpleStatementLine(made.body.body)
        return made.with_changes(body=cst.IndentedBlock([named, only]))
    lines = list(made.body.body)
    text = isinstance(lines[0], cst.SimpleStatementLine) and isinstance(lines[0].body[0], cst.Expr)
    return made.with_changes(
        body=made.body.with_changes(body=[*lines[:text], named, *lines[text:]])
    )


def _is_plain(site: Site, node: cst.ClassDef, given: Closed) -> bool:
    """Whether making the class reads constants, imports and builtins only."""
    bases = {resolve(site.module, base.value, at=node) for base in node.bases}
    made_by = {_decorated_with(site, item) for item in node.decorators}
    if node.keywords or not bases <= _BASES or not made_by <= _DECORATORS:
        return False
    if any(base.star or base.keyword for base in node.bases):
        return False
    for line in given.node.body.body:
        match line:
            case cst.SimpleStatementLine(body=parts):
                if not all(_is_constant_line(site, part) for part in parts):
                    return False
            case cst.FunctionDef(name=cst.Name(called)) if called in _OF_THE_CLASS:
                return False
            case cst.FunctionDef(decorators=decorators, params=params):
                names = {resolve(site.module, item.decorator, at=node) for item in decorators}
                defaults = [p.default for p in params_of(params) if p.default is not None]
                told = [param.annotation for param in params_of(params)] + [line.returns]
                if not names <= _OF_METHODS or not all(map(_is_constant, defaults)):
                    return False
                if not all(_is_known(site, part) for part in told) or _sets_on_class(line):
                    return False
            case _:
                return False
    return True


def _decorated_with(site: Site, decorator: cst.Decorator) -> str | None:
    """``@name`` or ``@name(option=True)``."""
    match decorator.decorator:
        case cst.Call(func=func, args=args) if all(_is_constant(arg.value) for arg in args):
            return resolve(site.module, func, at=decorator)
        case named:
            return resolve(site.module, named, at=decorator)


def _is_constant_line(site: Site, part: cst.CSTNode) -> bool:
    match part:
        case cst.Pass() | cst.Expr(cst.SimpleString() | cst.ConcatenatedString() | cst.Ellipsis()):
            return True
        case cst.Assign(targets=targets, value=value):
            plain = all(isinstance(target.target, cst.Name) for target in targets)
            of_builtin = (resolve(site.module, value) or "").startswith("builtins.")
            return plain and (_is_constant(value) or of_builtin)
        case cst.AnnAssign(target=cst.Name(), annotation=annotation, value=value):
            return _is_known(site, annotation) and (value is None or _is_constant(value))
    return False


def _is_constant(node: cst.CSTNode) -> bool:
    match node:
        case cst.Integer() | cst.Float() | cst.SimpleString() | cst.Ellipsis():
            return True
        case cst.Name(value="None" | "True" | "False"):
            return True
        case cst.UnaryOperation(expression=inner):
            return _is_constant(inner)
        case cst.Tuple(elements=elements):
            return all(isinstance(e, cst.Element) and _is_constant(e.value) for e in elements)
    return False


def _is_known(site: Site, annotation: cst.Annotation | None) -> bool:
    """Whether the annotation's names are imports and builtins: the same at module level."""
    if annotation is None:
        return True
    return all(
        resolve(site.module, part) is not None
        for part in walk(annotation.annotation)
        if isinstance(part, cst.Name | cst.Attribute)
        and not isinstance(site.parent(part), cst.Attribute)
    )


def _sets_on_class(method: cst.FunctionDef) -> bool:
    """Whether the method may change the class: what it sets is not on a plain name."""
    for part in walk(method.body):
        match part:
            case cst.AssignTarget() | cst.AugAssign() | cst.AnnAssign() | cst.For() | cst.Del():
                target = part.target
            case cst.Call(func=cst.Name(value="setattr" | "delattr" | "vars" | "type")):
                return True
            case cst.Attribute(attr=cst.Name(value="__class__" | "__dict__")):
                return True
            case _:
                continue
        stored = [node for node in walk(target) if isinstance(node, cst.Attribute)]
        if any(not isinstance(node.value, cst.Name) for node in stored):
            return True
    return False


def _is_asked_of(site: Site, place: cst.CSTNode) -> bool:
    """``place.attribute``; what starts with two underscores tells of the class."""
    holder = site.parent(place)
    if not isinstance(holder, cst.Attribute) or holder.value is not place:
        return False
    return not holder.attr.value.startswith("__")


def _is_called(site: Site, place: cst.CSTNode) -> bool:
    holder = site.parent(place)
    return isinstance(holder, cst.Call) and holder.func is place


def _is_asked_for(site: Site, place: cst.CSTNode) -> bool:
    """``isinstance(o, name)``."""
    argument = site.parent(place)
    asked = site.parent(argument) if argument is not None else None
    match asked:
        case cst.Call(func=cst.Name(value="isinstance"), args=[_, second]):
            return second is argument
    return False


def _stays(site: Site, function: cst.FunctionDef, made: cst.Call) -> bool:
    """Whether an object is only asked for attributes in the function that makes it."""
    holder = site.parent(made)
    if isinstance(holder, cst.Attribute):
        return _is_asked_of(site, made)
    if _is_called(site, made):
        return True
    if not (isinstance(holder, cst.Assign) and len(holder.targets) == 1):
        return False
    target = holder.targets[0].target
    if not isinstance(target, cst.Name):
        return False
    return all(
        place is target or _is_asked_of(site, place) or _is_called(site, place)
        for place in site.places_of(target.value, function.body)
    )


def _keeps_itself(site: Site, node: cst.ClassDef) -> bool:
    """Whether no method hands its object to anybody."""
    for method in node.body.body:
        if not isinstance(method, cst.FunctionDef):
            continue
        if any(code(item.decorator) == "staticmethod" for item in method.decorators):
            continue
        first = next(iter(params_of(method.params)), None)
        if first is None:
            return False
        for place in site.places_of(first.name.value, method.body):
            holder = site.parent(place)
            if not (isinstance(holder, cst.Attribute) and holder.value is place):
                return False
        if "super()" in code(method):
            return False
    return True
