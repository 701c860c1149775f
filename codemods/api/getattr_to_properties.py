"""``__getattr__`` of a subclass of tensors: properties for the names that it knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tensor_names import OF_TENSORS
from gbfix.analysis.tree import code, is_docstring, statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import writers

from .splice import Splice

_BASES = ("torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter")
_CLASS = """
import torch


class Packed(torch.nn.Parameter):
    _READ = {"scale": lambda state: state["scale"]}

"""
_USE = """

def make(values, scale):
    weight = Packed(values)
    weight.state = {"scale": scale}
    return weight


def f(x, weight):
    return x * weight.scale
"""
_METHOD = """    def __getattr__(self, name):
        read = type(self)._READ.get(name)
        if read is not None:
            state = self.__dict__.get("state")
            if state is not None:
                return read(state)
        raise AttributeError(name)
"""
_PROPERTY = """    @property
    def scale(self):
        return self._attribute("scale")

"""
_NEW = _PROPERTY + _METHOD.replace("__getattr__", "_attribute").replace(
    'self.__dict__.get("state")', 'getattr(self, "state", None)'
)
_ASKED = """    def __getattr__(self, name):
        if name == "scale":
            return self.state["scale"]
        raise AttributeError(f"no {name}")
"""
_FACTS = {"x": tensor(3), "weight": tensor(3)}


def _near_miss(why: str, method: str = _METHOD, use: str = _USE, head: str = _CLASS) -> NearMiss:
    return NearMiss(head + method + use, at="x * weight.scale", why=why, facts=_FACTS)


class GetattrToProperties(Codemod):
    """*What it does.*  Gives a subclass of ``torch.Tensor`` or ``torch.nn.Parameter`` a property
    for each name that its ``__getattr__`` knows, and makes that a method of another name:

    ```python
    def __getattr__(self, name):
        read = type(self)._READ.get(name)
        ...
    ```
    becomes ``_attribute``, which the property ``scale`` calls with ``"scale"``.

    *When it applies.*  Dynamo refuses what has a ``__getattr__`` of its own.  The method looks its
    names up in a dictionary of the class, or compares them with texts, and raises
    ``AttributeError`` for all others.

    *Fix safety.*  Safe: the same method runs for the same names.  Other names raise
    ``AttributeError`` with Python's message.

    *Refuses.*  Names that tensors have, or that the project sets on objects (by name, in a
    ``__dict__`` or by ``vars``, too), tables that change or that subclasses have, other bases,
    methods that answer to names that are not written down.
    """

    name = "getattr-to-properties"
    codes = ("GB4841",)
    examples = (
        Example(
            _CLASS + _METHOD + _USE,
            _CLASS + _NEW + _USE,
            at="x * weight.scale",
            facts=_FACTS,
            title="a table of names",
        ),
        Example(
            _CLASS + _ASKED + _USE,
            _CLASS + _PROPERTY + _ASKED.replace("__getattr__", "_attribute") + _USE,
            at="x * weight.scale",
            facts=_FACTS,
            title="a name that it asks for",
        ),
    )
    near_misses = (
        _near_miss("it is set on an object", use=_USE.replace("weight.state =", "weight.scale =")),
        _near_miss("the table grows", use=f"{_USE}\n\nPacked._READ['zero'] = len\n"),
        _near_miss("a subclass has a table", use=f"{_USE}\n\nclass Q(Packed):\n    _READ = {{}}\n"),
        _near_miss("any name", _METHOD.replace("raise AttributeError(name)", "return None")),
        _near_miss("another test", _METHOD.replace("if read is not None", "if len(name) > 2")),
        _near_miss("set by name", use=f"{_USE}\n\ndef put(w, n, v):\n    setattr(w, n, v)\n"),
        _near_miss("no tensor", head=_CLASS.replace("torch.nn.Parameter", "dict")),
        _near_miss("what tensors have", head=_CLASS.replace('"scale":', '"grad":')),
        _near_miss("a name of tensors", head=_CLASS.replace('"scale":', '"layout":')),
        _near_miss("set by `vars`", use=f"{_USE}\n\ndef put(w):\n    vars(w).update(scale=1)\n"),
        _near_miss("set with another", use=f"{_USE}\n\ndef put(w):\n    w.scale, w.n = 1, 2\n"),
        _near_miss("a method sets it", _METHOD + "\n    def put(self):\n        self.scale = 1\n"),
        _near_miss(
            "a method sets it in the `__dict__`",
            _METHOD + "\n    def put(self):\n        self.__dict__['scale'] = 1\n",
        ),
        _near_miss(
            "a method changes the table",
            _METHOD + "\n    def put(self):\n        self._READ['zero'] = len\n",
        ),
        _near_miss("a declared attribute", head=_CLASS.rstrip() + "\n    scale: float = 1.0\n\n"),
        _near_miss("two bases", head=_CLASS.replace("(torch", "(Mixin, torch")),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        found = [
            (home, node, method)
            for path in site.sources
            if (home := site if path == site.path else site.other(path)) is not None
            for node in walk(home.module)
            if isinstance(node, cst.ClassDef)
            and (method := _method(home, node)) is not None
        ]  # fmt: skip
        if len(found) != 1:
            return
        home, owner, method = found[0]
        keys = _keys(owner, method)
        if not keys or not _is_free(site, home, owner, method, keys):
            return
        splice = Splice(home)
        if not _without_dict(home, owner, method, splice, [home.source, *site.sources.values()]):
            return
        # Whoever says the new name, in any file, may say it of an object of this class.
        texts = [home.source, *site.sources.values()]
        said = {word for text in texts for word in re.findall(r"\w+", text)}
        taken = {name.lstrip("_") for name in said | names_in(home.module) | keys | OF_TENSORS}
        new = f"_{fresh('attribute', taken)}"
        splice.replace(method.name, new)
        span = home.span(method)
        indent = home.source.splitlines()[span.line - 1][: span.column]
        newline, step = home.module.default_newline, home.module.default_indent
        lines = [
            line
            for key in sorted(keys)
            for line in (
                f"{indent}@property",
                f"{indent}def {key}(self):",
                f'{indent}{step}return self.{new}("{key}")',
                "",
            )
        ]
        splice.insert(span.line, 0, "".join(f"{line}{newline}" for line in lines))
        yield splice.rewrite(
            f"give `{owner.name.value}` properties in place of `__getattr__`",
            rank=30,
            notes=[
                "Names that the class does not know raise `AttributeError` with Python's message."
            ],
        )


def _method(site: Site, owner: cst.ClassDef) -> cst.FunctionDef | None:
    """The ``__getattr__`` of a subclass of tensors."""
    if [resolve(site.module, base.value) in _BASES for base in owner.bases] != [True]:
        return None
    for line in statements_of(owner.body):
        if isinstance(line, cst.FunctionDef) and line.name.value == "__getattr__":
            plain = not line.decorators and len(params_of(line.params)) == 2
            return line if plain and not line.leading_lines[1:] else None
    return None


def _keys(owner: cst.ClassDef, method: cst.FunctionDef) -> set[str]:
    """The names that the method knows; empty if it may answer to others."""
    mine, asked = (param.name.value for param in params_of(method.params))
    lines = [line for line in statements_of(method.body) if not is_docstring(line)]
    tables = _tables(owner)
    found: dict[str, set[str]] = {}
    keys: set[str] = set()
    if not lines or not _raises(lines[-1]):
        return set()
    for line in lines[:-1]:
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(value=name))],
                        value=cst.Call(
                            func=cst.Attribute(value=held, attr=cst.Name("get")),
                            args=[cst.Arg(value=cst.Name(value=key))],
                        ),
                    )
                ]
            ) if key == asked and (table := _table(held, mine, owner)) in tables:
                found[name] = tables[table]
            case cst.If(test=test, orelse=None):
                known = _known(test, asked, mine, owner, found)
                if known is None:
                    return set()
                keys |= known
            case _:
                return set()
    return keys


def _raises(line: cst.CSTNode) -> bool:
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Raise(exc=cst.Call(func=cst.Name("AttributeError")), cause=None)]
        ):
            return True
    return False


def _tables(owner: cst.ClassDef) -> dict[str, set[str]]:
    """Dictionaries in the class's body, by name, with the texts that are their keys."""
    found: dict[str, set[str]] = {}
    for line in statements_of(owner.body):
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)
                ]
            ) if isinstance(value, cst.Dict):
                keys = [_text(getattr(item, "key", None)) for item in value.elements]
                if all(keys):
                    found[name] = {key for key in keys if key}
    return found


def _table(held: cst.BaseExpression, mine: str, owner: cst.ClassDef) -> str:
    """``_READ`` in ``type(self)._READ``, ``self._READ`` and the like."""
    if not isinstance(held, cst.Attribute):
        return ""
    whose = (f"type({mine})", mine, f"{mine}.__class__", owner.name.value)
    return held.attr.value if code(held.value) in whose else ""


def _text(node: cst.CSTNode | None) -> str:
    return str(ast.literal_eval(code(node))) if isinstance(node, cst.SimpleString) else ""


def _known(
    test: cst.BaseExpression, asked: str, mine: str, owner: cst.ClassDef, found: dict[str, set[str]]
) -> set[str] | None:
    """The names for which a test may hold; None if that is not written down."""
    match test:
        case cst.Name(value=name):
            return found.get(name)
        case cst.Comparison(
            left=cst.Name(value=name),
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=other)],
        ):
            pass
        case _:
            return None
    if isinstance(operator, cst.IsNot) and code(other) == "None":
        return found.get(name)
    if name != asked:
        return None
    if isinstance(operator, cst.Equal) and _text(other):
        return {_text(other)}
    if isinstance(operator, cst.In):
        if isinstance(other, cst.Tuple | cst.List | cst.Set):
            keys = [_text(item.value) for item in other.elements]
            return set(keys) if all(keys) else None
        return _tables(owner).get(_table(other, mine, owner))
    return None


def _is_free(
    site: Site, home: Site, owner: cst.ClassDef, method: cst.FunctionDef, keys: set[str]
) -> bool:
    """Whether nothing in the project sets these names, or changes what the class knows."""
    texts = list({home.source, *site.sources.values()})
    inside = activity(owner.body)
    if keys & (inside.bound | inside.declares | OF_TENSORS):
        return False
    if not all(key.isidentifier() and not key.startswith("__") for key in keys):
        return False
    outside, own = _without(home, owner), _without(home, method)
    if re.search(r"\.__getattr__\b", home.text(method)):
        return False
    if any(next(writers(place, key), None) is not None for key in keys for place in (site, home)):
        return False
    rest = [text for text in texts if text != home.source]
    tables = _tables(owner)
    for text in (own, *rest):
        if re.search(r"\bsetattr\(|__setattr__|\.__getattr__\b|__dict__|\bvars\(", text):
            return False
        if re.search(rf"class \w+\([^)]*\b{owner.name.value}\b", text):
            return False
    if any(re.search(rf"\b{table}\b", text) for table in tables for text in (outside, *rest)):
        return False
    return all(len(re.findall(rf"\b{table}\b", own)) == 1 for table in tables)


def _without(home: Site, node: cst.CSTNode) -> str:
    """The file's text without the lines of a class or function."""
    span = home.span(node)
    lines = home.source.split("\n")
    return "\n".join([*lines[: span.line - 1], *lines[span.end_line :]])


def _without_dict(
    home: Site,
    owner: cst.ClassDef,
    method: cst.FunctionDef,
    splice: Splice,
    texts: Sequence[str],
) -> bool:
    """Read ``self.__dict__`` as Dynamo can; False where that is not the same."""
    mine = params_of(method.params)[0].name.value
    replaced: set[cst.CSTNode] = set()
    own = {n.value for line in statements_of(owner.body) for n in walk(line)
           if isinstance(n, cst.Name) and isinstance(home.parent(n), cst.AssignTarget)
           and home.function_of(n) is None}  # fmt: skip
    for node in walk(method.body):
        match node:
            case cst.Call(
                func=cst.Attribute(value=held, attr=cst.Name("get")), args=[first, *rest]
            ) if code(held) == f"{mine}.__dict__" and len(rest) < 2:
                name = _text(first.value)
                set_there = any(re.search(rf"\.{name}\s*=[^=]", text) for text in texts)
                if not name or name in OF_TENSORS | own or not set_there:
                    return False
                default = code(rest[0].value) if rest else "None"
                splice.replace(node, f"getattr({mine}, {code(first.value)}, {default})")
                replaced.add(held)
    return not any(
        isinstance(node, cst.Attribute)
        and node.attr.value == "__dict__"
        and not any(node is held for held in replaced)
        for node in walk(method.body)
    )
