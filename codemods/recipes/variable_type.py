"""``isinstance(x, Variable)``, asked of the class that a tensor has."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site

_VARIABLE = ("torch.autograd.Variable", "torch.autograd.variable.Variable")


def _source(test: str, *, home: str = "from torch.autograd import Variable") -> str:
    return (
        f"import torch\n{home}\n\n\ndef f(x):\n    if {test}:\n        return x + 1\n"
        "    raise TypeError(x)\n"
    )


class VariableType(Codemod):
    """*What it does.*  Asks for ``torch.Tensor`` where a function asks for the old
    ``torch.autograd.Variable``: ``isinstance(x, Variable)`` becomes ``isinstance(x,
    torch.Tensor)``.

    *When it applies.*  The function ends in an exception while Dynamo traces it: ``Variable``
    counts every tensor as its instance since torch 0.4, and Dynamo counts none.

    *Fix safety.*  Safe: ``Variable``'s own check of instances asks for ``torch.Tensor``.

    *Refuses.*  Other uses of the class: ``type(x) is Variable`` holds for no tensor in eager, too.
    """

    name = "variable-type"
    codes = ("GB0088",)
    examples = tuple(
        Example(_source(before), _source(after), at="raise TypeError(x)", title=title)
        for title, before, after in (
            ("a test", "isinstance(x, Variable)", "isinstance(x, torch.Tensor)"),
            (
                "among others",
                "not isinstance(x, (int, torch.autograd.Variable))",
                "not isinstance(x, (int, torch.Tensor))",
            ),
        )
    )
    near_misses = (
        NearMiss(
            _source("type(x) is Variable"), at="raise TypeError(x)", why="no tensor's class is it"
        ),
        NearMiss(
            _source("isinstance(x, Variable)", home="from sympy import Variable"),
            at="raise TypeError(x)",
            why="another library's class",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        edit, found = site.edit(), False
        for node in walk(site.function):
            match node:
                case cst.Call(func=func, args=[_, cst.Arg(value=kinds, keyword=None, star="")]):
                    if resolve(site.module, func) != "builtins.isinstance":
                        continue
                case _:
                    continue
            for kind in _kinds(kinds):
                if resolve(site.module, kind) in _VARIABLE:
                    edit.replace(kind, cst.parse_expression("torch.Tensor"))
                    found = True
        if found:
            edit.add_import("torch")
            yield edit.rewrite("ask for `torch.Tensor` instead of `Variable`", rank=10)


def _kinds(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Tuple):
        yield from (element.value for element in node.elements)
    else:
        yield node
