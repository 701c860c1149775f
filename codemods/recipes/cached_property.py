"""Properties that ``functools.cached_property`` keeps, kept without its lock."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import parameters_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, is_docstring, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.imports import forget_imports
from gbfix.rewriting.project import mentions, writers

_FACTS = {"x": tensor(3)}
_AT = "self.scale"
#: What may set any attribute: a property takes none.
_BY_NAME = r"""\b(set|del)attr(__)?\(\s*[^,'"]+,\s*[^'"\s]|__dict__\.(update|pop|clear)|\bvars\("""
#: What looks for properties of that kind, to forget what they keep.
_LOOKED_FOR = r"(?<!@)(?<!@functools\.)(?<!import )\bcached_property\b|\bgetmembers\b"


def _source(body: str, head: str = "@functools.cached_property", more: str = "") -> str:
    return f"""import functools

import torch


class Net(torch.nn.Module):
    {head}
    def scale(self):
{body}

    def forward(self, x):
        return x * self.scale
{more}"""


def _kept(lines: str) -> str:
    return f'        if "scale" not in self.__dict__:\n{lines}        return self.__dict__["scale"]'


_PLAIN = "        return self.width**-0.5  # as in the paper"
_STEPS = "        width = self.width\n        # One for each head.\n        return width**-0.5"


def _example(title: str, body: str, lines: str, doc: str = "") -> Example:
    after = _source(doc + _kept(lines), "@property").replace("import functools\n\n", "")
    return Example(_source(doc + body), after, at=_AT, facts=_FACTS, title=title)


def _near_miss(why: str, body: str = _PLAIN, head: str = "", more: str = "") -> NearMiss:
    source = _source(body, head or "@functools.cached_property", more)
    return NearMiss(source, at=_AT, why=why, facts=_FACTS)


class CachedProperty(Codemod):
    """*What it does.*  Keeps what a property computes, as ``functools.cached_property`` does, but
    without the lock that Python's up to 3.11 takes.

    ```python
    @functools.cached_property
    def scale(self):
        return self.width**-0.5
    ```
    becomes a ``property`` that puts the value into ``self.__dict__["scale"]`` when it is not there.

    *When it applies.*  Dynamo cannot enter the lock; the property's class is in the file, and the
    property ends in its one ``return``.

    *Fix safety.*  Safe: the value is computed once for each object, and is kept under the same key.
    (Two threads that ask at once may both compute it, as in Python 3.12.)

    *Refuses.*  Properties that something sets, deletes or names in a text, or that another class
    has, too.
    """

    name = "cached-property"
    codes = ("GB0142",)
    examples = (
        _example(
            "a value",
            _PLAIN,
            '            self.__dict__["scale"] = self.width**-0.5  # as in the paper\n',
        ),
        _example(
            "several steps, and what the property is for",
            _STEPS,
            "            width = self.width\n            # One for each head.\n"
            '            self.__dict__["scale"] = width**-0.5\n',
            '        """The softmax scale."""\n',
        ),
    )
    near_misses = (
        _near_miss("set elsewhere", more="\n\ndef g(net):\n    net.scale = 2\n"),
        _near_miss("forgotten elsewhere", more="\n\ndef g(net):\n    del net.scale\n"),
        _near_miss("named in a text", more="\n\ndef g(net):\n    net.__dict__.pop('scale')\n"),
        _near_miss(
            "looked for by its kind",
            more="\n\ndef g(net, a):\n    return isinstance(a, functools.cached_property)\n",
        ),
        _near_miss(
            "set by a name on an item",
            more="\n\ndef g(nets, key):\n    setattr(nets[0], key, 2)\n",
        ),
        _near_miss("a class that has another one", more="\n\nclass Wide(Net):\n    scale = 2.0\n"),
        _near_miss("two ways out", "        if self.flat:\n            return 1.0\n" + _PLAIN),
        _near_miss("no value", "        self.scales = 2"),
        _near_miss("a plain property", head="@property"),
        _near_miss("another decorator", head="@torch.no_grad()\n    @functools.cached_property"),
        _near_miss("the name of the object is bound", "        self = self.a\n" + _PLAIN),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for function in _asked(site):
            holder = site.class_of(function)
            returned = _returned(site, function)
            if holder is None or returned is None or not _is_alone(site, function):
                continue
            edit = site.edit()
            edit.replace(function, _property(site, function, returned))
            decorator = function.decorators[0]
            root = code(decorator.decorator).partition(".")[0]
            forget_imports(site, edit, [root], [decorator])
            yield edit.rewrite(f"keep `{function.name.value}` without a lock", rank=10)
            return


def _asked(site: Site) -> Iterator[cst.FunctionDef]:
    """The cached properties of the file that the site's statement reads."""
    names = [part.attr.value for part in walk(site.node) if isinstance(part, cst.Attribute)]
    names += [part.attr.value for part in walk(site.statement) if isinstance(part, cst.Attribute)]
    found = {
        part.name.value: part
        for part in walk(site.module)
        if isinstance(part, cst.FunctionDef) and _is_cached(site, part)
    }
    for name in dict.fromkeys(names):
        if name in found:
            yield found[name]


def _is_cached(site: Site, function: cst.FunctionDef) -> bool:
    match function.decorators:
        case [cst.Decorator(decorator=decorator)]:
            return resolve(site.module, decorator) == "functools.cached_property"
    return False


def _returned(site: Site, function: cst.FunctionDef) -> cst.Return | None:
    """The one ``return`` of a property, in its last line; None where it ends otherwise."""
    own = [
        part
        for part in walk(function.body)
        if isinstance(part, cst.Return | cst.Yield) and site.function_of(part) is function
    ]
    params = parameters_of(function.params)
    body = function.body
    if (
        len(own) != 1
        or len(params) != 1
        or not isinstance(body, cst.IndentedBlock)
        or not body.body
    ):
        return None
    match body.body[-1]:
        case cst.SimpleStatementLine(body=[cst.Return(value=value) as last]) if value is not None:
            bound = any(
                isinstance(site.parent(part), cst.AssignTarget | cst.Nonlocal | cst.Global)
                for part in site.places_of(params[0], function)
            )
            return last if last is own[0] and not bound else None
    return None


def _is_alone(site: Site, function: cst.FunctionDef) -> bool:
    """Whether nothing else of the project has, sets, deletes or names the attribute."""
    name = function.name.value
    if name.startswith("__") or any(True for _ in writers(site, name)):
        return False
    if mentions(site, rf"""['"]{re.escape(name)}['"]""") or mentions(site, _BY_NAME):
        return False
    if mentions(site, _LOOKED_FOR):
        return False
    texts = {site.path: site.source, **site.sources}.values()
    return sum(_definitions(text, name) for text in texts if name in text) == 1


def _definitions(text: str, name: str) -> int:
    """How often classes of a text bind a name."""
    tree = tree_of(text)
    bound = 0
    for holder in ast.walk(tree) if tree is not None else ():
        for item in holder.body if isinstance(holder, ast.ClassDef) else ():
            targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", 0)]
            names = [getattr(target, "id", "") for target in targets]
            bound += name in (getattr(item, "name", ""), *names)
    return bound


def _property(site: Site, function: cst.FunctionDef, returned: cst.Return) -> cst.FunctionDef:
    me, name = parameters_of(function.params)[0], function.name.value
    kept = f'{me}.__dict__["{name}"]'
    body = cst.ensure_type(function.body, cst.IndentedBlock)
    *steps, last = body.body
    doc: Sequence[cst.BaseStatement] = steps[:1] if steps and is_docstring(steps[0]) else ()
    assert returned.value is not None and isinstance(last, cst.SimpleStatementLine)
    target = cst.AssignTarget(cst.ensure_type(cst.parse_expression(kept), cst.Subscript))
    store = last.with_changes(body=[cst.Assign([target], returned.value)])
    config = site.module.config_for_parsing
    shell = cst.parse_module(f'if "{name}" not in {me}.__dict__:\n    pass\n', config).body[0]
    again = cst.parse_module(f"return {kept}\n", config).body[0]
    asked = cst.ensure_type(shell, cst.If)
    inner = cst.IndentedBlock([*steps[len(doc) :], store])
    new = body.with_changes(body=[*doc, asked.with_changes(body=inner), again])
    decorator = function.decorators[0].with_changes(decorator=cst.Name("property"))
    return function.with_changes(body=new, decorators=[decorator])


__all__ = ["CachedProperty"]
