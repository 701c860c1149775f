"""``requires_grad = False`` on what came in."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice

_LIMIT = (
    "a tensor that requires a gradient keeps its flag for the caller; the original switches it off"
)
_FACTS = {"target": tensor(3), "mask": tensor(3), "pred": tensor(3, requires_grad=True)}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"def loss(pred, target, mask):\n{body}    return ((pred - target) * mask).sum()\n"


class DetachedInput(Codemod):
    """*What it does.*  Goes on with a detached tensor where the original switches off the gradient
    of an argument: ``target.requires_grad = False`` becomes ``target = target.detach()``, for all
    arguments of the function.

    *When it applies.*  The name is a parameter of the function, and was recorded as a plain tensor
    that requires no gradient.

    *Fix safety.*  Safe: no gradient reaches the argument in either. An argument that does require a
    gradient keeps its flag for the caller, which is said.

    *Refuses.*  Tensors that were recorded with a gradient, subclasses, other values than ``False``.
    """

    name = "detached-input"
    codes = ("GB0125", "GB0206")
    examples = (
        Example(
            _source("target.requires_grad = False", "mask.requires_grad_(False)  # no"),
            _source("target = target.detach()", "mask = mask.detach()  # no"),
            at="target.requires_grad = False",
            facts=_FACTS,
            code="GB0206",
            title="a target and a mask",
        ),
    )
    near_misses = (
        NearMiss(
            _source("pred.requires_grad = False"),
            at="pred.requires_grad = False",
            why="it has a gradient to lose",
            facts=_FACTS,
        ),
        NearMiss(
            _source("target.requires_grad = True"),
            at="target.requires_grad = True",
            why="switched on",
            facts=_FACTS,
        ),
        NearMiss(
            _source("goal = target", "goal.requires_grad = False"),
            at="goal.requires_grad = False",
            why="no parameter",
            facts={**_FACTS, "goal": tensor(3)},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        splice = Splice(site)
        here = False
        names = []
        for node in walk(site.function.body):
            name = _switched_off(site, node)
            if name is None:
                continue
            here = here or site.statement_of(node) is site.statement
            names.append(name)
            splice.replace_span(site.span(node), f"{name} = {name}.detach()")
        if here:
            title = f"detach `{'`, `'.join(dict.fromkeys(names))}`"
            yield splice.rewrite(title, rank=9, notes=(_LIMIT,))


def _switched_off(site: Site, node: cst.CSTNode) -> str | None:
    match node:
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Attribute(value=cst.Name() as name, attr=cst.Name("requires_grad"))
                )
            ],
            value=cst.Name("False"),
        ):
            pass
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("requires_grad_")),
                args=[cst.Arg(value=cst.Name("False"))],
            )
        ):
            pass
        case _:
            return None
    fact = site.fact(name)
    if fact is None or fact.type != "torch.Tensor" or fact.requires_grad or comments_in(node):
        return None
    assert site.function is not None
    given = {param.name.value for param in params_of(site.function.params)}
    return name.value if name.value in given else None
