"""``del ctx.name`` in the backward of an ``autograd.Function``, which Dynamo does not trace."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site

from ..api.splice import Splice

_NOTE = (
    "What the context holds is freed with the context, when the graph of autograd is, and no"
    " earlier; a second backward pass that is asked to keep the graph finds it there"
)


def _source(body: str, name: str = "backward", base: str = "torch.autograd.Function") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return (
        f"import torch\n\n\nclass Again({base}):\n    @staticmethod\n"
        f"    def {name}(ctx, grad):\n{lines}"
    )


_BODY = "grads = ctx.run(ctx.inputs, grad)\ndel ctx.inputs\ndel ctx.run\ndel grad\nreturn grads"
_AFTER = "grads = ctx.run(ctx.inputs, grad)\ndel grad\nreturn grads"


class KeepContext(Codemod):
    """*What it does.*  Leaves out ``del ctx.inputs`` at the end of the ``backward`` of an
    ``autograd.Function``: the context goes away with the graph of autograd by itself.

    *When it applies.*  To ``del`` of attributes of the context that nothing reads afterwards.

    *Fix safety.*  Safe: what is computed is the same.  Memory is given back a little later, and a
    second backward pass over a kept graph, which raised, finds what it needs; the note says so.

    *Refuses.*  Other functions, and contexts of which something is read behind the ``del``.
    """

    name = "keep-context"
    codes = ("GB0139",)
    examples = (
        Example(
            _source(_BODY), _source(_AFTER), at="del ctx.inputs", code="GB0139", title="two of them"
        ),
        Example(
            _source("grads = grad * ctx.scale\ndel ctx.scale, grad\nreturn grads"),
            _source("grads = grad * ctx.scale\ndel grad\nreturn grads"),
            at="del ctx.scale, grad",
            code="GB0139",
            title="beside a name",
        ),
    )
    near_misses = (
        NearMiss(_source(_BODY, "again"), at="del ctx.inputs", why="no backward", code="GB0139"),
        NearMiss(
            _source(_BODY, base="Other"), at="del ctx.inputs", why="another class", code="GB0139"
        ),
        NearMiss(
            _source("del ctx.inputs\nreturn hasattr(ctx, 'inputs')"),
            at="del ctx.inputs",
            why="asked afterwards",
            code="GB0139",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        owner = site.class_of(function) if function is not None else None
        if function is None or owner is None or function.name.value != "backward":
            return
        if not any(code(base.value).endswith("Function") for base in owner.bases):
            return
        first = next((it.name.value for it in params_of(function.params)), "")
        splice, last = Splice(site), 0
        for node in walk(function.body):
            if not isinstance(node, cst.Del):
                continue
            held, others = _targets(node, first)
            if not held:
                continue
            last = last or site.span(node).line
            if others:
                splice.replace(node, f"del {', '.join(others)}")
            elif comments_in(site.statement_of(node)):
                return
            else:
                splice.remove(node)
        if not last or _is_read_later(site, function, first, last):
            return
        yield splice.rewrite("leave what the context holds to the context", rank=10, notes=(_NOTE,))


def _targets(node: cst.Del, owner: str) -> tuple[list[str], list[str]]:
    """The attributes of the context that a statement deletes, and all else that it does."""
    target = node.target
    parts = [it.value for it in target.elements] if isinstance(target, cst.Tuple) else [target]
    held: list[str] = []
    others: list[str] = []
    for part in parts:
        of_context = isinstance(part, cst.Attribute) and code(part.value) == owner
        (held if of_context else others).append(code(part))
    return held, others


def _is_read_later(site: Site, function: cst.FunctionDef, owner: str, line: int) -> bool:
    """Whether the context is used below the first ``del``, but for another one."""
    for place in site.places_of(owner, function.body):
        parents = list(site.ancestors(place))
        deleted = any(isinstance(it, cst.Del) for it in parents)
        if site.span(place).line >= line and not deleted:
            return True
    return False
