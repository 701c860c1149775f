"""Dictionaries that are made by calling a ``TypedDict``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site

from .splice import Splice

_TYPED = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})
_CLASS = """import typing


class Options(typing.TypedDict, total=False):
    scale: float


class Other:
    scale: float
"""


def _source(body: str, extra: str = "") -> str:
    return f"{_CLASS}{extra}\n\ndef f(x, given):\n    {body}\n"


class TypedDictDisplay(Codemod):
    """*What it does.*  Writes out the dictionary that a ``TypedDict`` makes:
    ``Options(scale=2.0)`` becomes ``{"scale": 2.0}``.

    *When it applies.*  The class stands in the same file with ``TypedDict`` as its base (or another
    class of this kind), and is called with keywords only.

    *Fix safety.*  Safe: such a call makes a plain ``dict`` of its keywords, in their order.

    *Refuses.*  Positional arguments and ``**``, classes that are made or bound in another way.
    """

    name = "typed-dict-display"
    codes = ("GB0257",)

    examples = (
        Example(
            title="keywords",
            before=_source("options: Options = Options(scale=2.0, steps=(1, 2))"),
            after=_source('options: Options = {"scale": 2.0, "steps": (1, 2)}'),
            at="Options(scale=2.0, steps=(1, 2))",
        ),
        Example(
            title="an empty one, of a class below",
            before=_source("return Small()", "\n\nclass Small(Options):\n    pass\n"),
            after=_source("return {}", "\n\nclass Small(Options):\n    pass\n"),
            at="Small()",
        ),
    )
    near_misses = (
        NearMiss(_source("return Options(given)"), at="Options(given)", why="another dictionary"),
        NearMiss(_source("return Options(**given)"), at="Options(**given)", why="unseen keys"),
        NearMiss(_source("return Other(scale=2)"), at="Other(scale=2)", why="another class"),
        NearMiss(
            _source("Options = given; return Options(scale=2)"),
            at="Options(scale=2)",
            why="a local name",
        ),
        NearMiss(
            _source("return Options(scale=2)", "\n\nOptions = given\n"),
            at="Options(scale=2)",
            why="bound again",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call) or not _is_typed_dict(site, call.func):
                continue
            if comments_in(call) or any(arg.keyword is None for arg in call.args):
                continue
            splice = Splice(site)
            items = ", ".join(
                f'"{arg.keyword.value}": {splice.source_of(arg.value)}'
                for arg in call.args
                if arg.keyword is not None
            )
            splice.replace_span(site.span(call), f"{{{items}}}")
            yield splice.rewrite("write out the dictionary", rank=10)
            return


def _is_local(site: Site, name: str) -> bool:
    """Whether a function around the site binds the name itself."""
    around = [part for part in site.ancestors(site.node) if isinstance(part, cst.FunctionDef)]
    return any(name in function_scope(part).locals for part in around)


def _is_typed_dict(site: Site, node: cst.BaseExpression, depth: int = 0) -> bool:
    if not isinstance(node, cst.Name) or depth > 4:
        return False
    if resolve(site.module, node) is not None or _is_local(site, node.value):
        return False
    bound = module_bindings(site.module).get(node.value, ())
    if len(bound) != 1 or not isinstance(bound[0], cst.ClassDef) or bound[0].decorators:
        return False
    bases = [base.value for base in bound[0].bases]
    return bool(bases) and all(
        resolve(site.module, base) in _TYPED or _is_typed_dict(site, base, depth + 1)
        for base in bases
    )
