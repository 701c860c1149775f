"""``if mask is None and not is_compiling():``: compiled code takes the same path as eager."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, SiteError, tensor
from gbfix.schema import Frame

_SOURCE = """
import torch
from torch.compiler import is_compiling


def f(ids, mask=None, flag=True):
    {}:
        mask = torch.ones(ids.shape)
    return ids * mask[:, None]
"""
_FACTS = {"ids": tensor(2, 3)}


def _example(before: str, after: str) -> Example:
    return Example(_SOURCE.format(before), _SOURCE.format(after), at="mask[:, None]", facts=_FACTS)


def _near_miss(test: str, why: str) -> NearMiss:
    return NearMiss(_SOURCE.format(test), at="mask[:, None]", why=why, facts=_FACTS)


class EagerPath(Codemod):
    """*What it does.*  Drops ``not torch.compiler.is_compiling()`` from a condition on the way to
    an error that only compiled code meets.

    ``if mask is None and not is_torchdynamo_compiling(): mask = torch.ones(...)`` leaves ``mask``
    at None while compiling, and ``mask[:, None]`` raises.  Without the second half of the test the
    mask is made, as in eager.

    *When it applies.*  Tracing ends in an exception that eager does not raise, and a function on
    the way to it has such a condition above, as a part of an ``and``.

    *Fix safety.*  Safe: ``not is_compiling()`` is true wherever nothing is compiled, so that eager
    does what it did; compiled code is compared with it.  ``torch.export`` takes the path of eager,
    too.

    *Refuses.*  Conditions that hold while compiling only, ones joined by ``or``, functions that
    merely have such a name.
    """

    name = "eager-path"
    codes = ("GB0088",)
    examples = (
        _example(
            "if mask is None and not torch.compiler.is_compiling()",
            "if mask is None",
        ),
        _example("if not is_compiling() and (mask is None)", "if (mask is None)"),
        _example("if flag and not is_compiling() and mask is None", "if flag and mask is None"),
    )
    near_misses = (
        _near_miss("if mask is None or not is_compiling()", "another joint"),
        _near_miss("if mask is None and is_compiling()", "holds while compiling"),
        _near_miss("if mask is None and not flag", "another flag"),
        _near_miss("if mask is None and not torch.jit.is_tracing()", "another tracer"),
        _near_miss("if not is_compiling()", "nothing else decides: it may be there on purpose"),
        _near_miss("if mask is None and not (is_compiling() or flag)", "asks for more"),
        _near_miss("if print(mask is None and not is_compiling())", "its value is shown"),
        NearMiss(
            """
            import torch

            def f(ids, mask=None):
                out = ids * mask[:, None]
                if mask is None and not torch.compiler.is_compiling():
                    out = out + 1
                return out
            """,
            at="mask[:, None]",
            why="comes after the error",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for frame in reversed(site.graph_break.frames):
            here = _at(site, frame)
            if here is None or here.function is None:
                continue
            for whole, rest in _conditions(here):
                edit = site.edit()
                edit.replace(whole, rest)
                yield edit.rewrite(
                    "take the eager path while compiling",
                    rank=20,
                    notes=("torch.export then takes the eager path, too.",),
                )


def _at(site: Site, frame: Frame) -> Site | None:
    """The site's file, looked at from another frame on the way to the break."""
    if frame.path != site.path:
        return None
    try:
        found = dataclasses.replace(site.graph_break, site=frame)
        return Site(site.path, site.source, found, site.facts, sources=site.sources)
    except SiteError:
        return None


def _conditions(site: Site) -> Iterator[tuple[cst.BooleanOperation, cst.BaseExpression]]:
    """``a and not is_compiling()`` in tests above the site, nearest first, each with its ``a``."""
    assert site.function is not None
    found = [
        (node, rest)
        for node in walk(site.function.body)
        if isinstance(node, cst.BooleanOperation)
        and site.span(node).line < site.frame.line
        and _is_truth(site, node)
        for rest in _rest(site, node)
    ]
    yield from reversed(found)


def _rest(site: Site, node: cst.BooleanOperation) -> Iterator[cst.BaseExpression]:
    if not isinstance(node.operator, cst.And) or comments_in(node):
        return
    for side, other in ((node.left, node.right), (node.right, node.left)):
        match side:
            case cst.UnaryOperation(operator=cst.Not(), expression=cst.Call(func=func, args=[])):
                if _asks_for_compiling(site, func):
                    yield other.with_changes(
                        lpar=[*node.lpar, *other.lpar], rpar=[*other.rpar, *node.rpar]
                    )
                    return


def _is_truth(site: Site, node: cst.BooleanOperation) -> bool:
    """Whether nothing but the truth of the expression is used, to choose a branch."""
    child: cst.CSTNode = node
    for parent in site.ancestors(node):
        if isinstance(parent, cst.If):
            return parent.test is child
        if not isinstance(parent, cst.BooleanOperation):
            return False
        child = parent
    return False


_COMPILING = words(
    """torch.compiler.is_compiling torch.compiler.is_dynamo_compiling torch._dynamo.is_compiling
    torch._utils.is_compiling"""
)


def _asks_for_compiling(site: Site, func: cst.BaseExpression) -> bool:
    name = resolve(site.module, func) or ""
    if name in _COMPILING:
        return True
    last = name.rpartition(".")[2]
    if "compiling" not in last:
        return False
    # A helper of the project, such as transformers' `is_torchdynamo_compiling`.
    helper = re.compile(rf"^def {re.escape(last)}\(\).*\n((?:[ \t]+.*\n|\n)+)", re.MULTILINE)
    bodies = [found[1] for text in site.sources.values() for found in helper.finditer(text)]
    return bool(bodies) and all(
        re.search(r"return (torch\.compiler|dynamo|torch\._dynamo)\.is_compiling\(\)", body)
        for body in bodies
    )
