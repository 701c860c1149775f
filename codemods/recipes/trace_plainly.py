"""A helper that is kept from being traced in detail, although it need not be."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice

_FACTS = {"x": tensor(3)}
_LOOSELY = frozenset({"torch._dynamo.nonstrict_trace", "torch._dynamo.decorators.nonstrict_trace"})


def _source(*decorators: str) -> str:
    lines = "".join(f"@{name}\n" for name in decorators)
    return (
        f"import torch\n\n\n{lines}def scaled(x, config):\n    return x * config.scale\n\n\n"
        "@torch.compile\ndef f(x, config):\n    return scaled(x, config)\n"
    )


class TracePlainly(Codemod):
    """*What it does.*  Takes ``torch._dynamo.nonstrict_trace`` off a helper, so that Dynamo traces
    it like all other code.

    *When it applies.*  The helper takes or gives back an object that such a function may not have:
    one that is neither a tensor nor made of tensors and numbers by a registered container.

    *Fix safety.*  Safe: uncompiled, the decorator does nothing; compiled, the same code runs, and
    Dynamo guards on what the object holds.

    *Refuses.*  Nothing by itself: where the helper breaks when it is traced, the patch does not
    hold.
    """

    name = "trace-plainly"
    codes = ("GB0236", "GB0251")
    examples = (
        Example(
            _source("torch._dynamo.nonstrict_trace"),
            _source(),
            at="scaled(x, config)",
            nth=1,
            facts=_FACTS,
            title="a helper",
        ),
    )
    near_misses = (
        NearMiss(
            _source("once"), at="scaled(x, config)", nth=1, why="another decorator", facts=_FACTS
        ),
        NearMiss(_source(), at="scaled(x, config)", nth=1, why="none", facts=_FACTS),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        called = {
            node.func.value
            for node in walk(site.statement)
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Name)
        }
        splice = Splice(site)
        names = []
        for node in site.module.body:
            if not isinstance(node, cst.FunctionDef) or node.name.value not in called:
                continue
            for decorator in node.decorators:
                if resolve(site.module, decorator.decorator) in _LOOSELY:
                    where = site.span(decorator)
                    splice.delete_rows(where.line, where.end_line)
                    names.append(node.name.value)
        if names:
            yield splice.rewrite(f"trace `{names[0]}` like all other code", rank=10)
