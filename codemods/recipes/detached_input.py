"""``requires_grad = False`` on what came in."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions
from gbfix.schema import Safety

from ..api.splice import Splice

_LIMIT = (
    "a tensor that requires a gradient keeps its flag for the caller; the original switches it off"
)
_ANOTHER = "the name stands for another tensor then, which shares the memory of the argument"
#: Who asks a tensor for its flag or for what a flag that stays on brings it.  That others may call
#: it with a gradient, where the program does not, is a limit.
_GRADIENTS = r"\.requires_grad\b(?!\s*=)|\.grad\b|\bautograd\b|\bis_leaf\b"
#: Functions and methods whose result is never the tensor itself.
_NEW = (
    torch_names.ELEMENTWISE
    | torch_names.PREDICATES
    | torch_names.FULL_REDUCTIONS
    | torch_names.INT_METHODS
    | words(
        """clone detach add sub mul div pow maximum minimum where clamp lerp matmul mm bmm dot
        softmax log_softmax gather index_select masked_fill masked_select unsqueeze one_hot cat
        stack cosine_similarity zeros_like ones_like size tolist item"""
    )
) - words("positive data_ptr")
_LOSSES = words(
    """mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits"""
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

    *Fix safety.*  Safe where the function only computes with the argument, and the project asks
    for no gradient or flag of a tensor's: no gradient reaches the argument in either. An argument
    that does require a gradient keeps its flag for the caller, which is said. Unsafe where the
    function does something else with it (keeps it, compares it by ``is``, asks for an attribute),
    as the name then stands for another object, and where the project can tell whose flag is set.

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
        switches: set[cst.CSTNode] = set()
        for node in walk(site.function.body):
            name = _switched_off(site, node)
            if name is None:
                continue
            here = here or site.statement_of(node) is site.statement
            names.append(name)
            switches.update(walk(node))
            splice.replace_span(site.span(node), f"{name} = {name}.detach()")
        if here:
            title = f"detach `{'`, `'.join(dict.fromkeys(names))}`"
            computes = all(
                place in switches or _computes(site, place)
                for name in set(names)
                for place in site.places_of(name, site.function)
                if not isinstance(site.parent(place), cst.Param)
            )
            told = mentions(site, _GRADIENTS)
            yield splice.rewrite(
                title,
                rank=9,
                notes=(_LIMIT,) if computes else (_LIMIT, _ANOTHER),
                safety=Safety.SAFE if computes and not told else Safety.UNSAFE,
            )


def _computes(site: Site, place: cst.Name) -> bool:
    """Whether only the tensor's values, shape, type or device matter in a place of its name."""
    holder = site.parent(place)
    match holder:
        case cst.BinaryOperation() | cst.UnaryOperation():
            return True
        case cst.Comparison() | cst.ComparisonTarget():
            whole = holder if isinstance(holder, cst.Comparison) else site.parent(holder)
            assert isinstance(whole, cst.Comparison)
            kinds = cst.Is | cst.IsNot | cst.In | cst.NotIn
            return not any(isinstance(part.operator, kinds) for part in whole.comparisons)
        case cst.Subscript():
            whole = site.parent(holder)
            stored = isinstance(whole, cst.AssignTarget | cst.AugAssign | cst.Del | cst.Element)
            return holder.value is not place or not stored
        case cst.Index():
            return True
        case cst.Attribute(attr=cst.Name("shape" | "dtype" | "device" | "ndim")):
            return True
        case cst.Attribute(attr=cst.Name(method)):
            called = site.parent(holder)
            return isinstance(called, cst.Call) and called.func is holder and method in _NEW
        case cst.Arg(star="", keyword=None) if isinstance(called := site.parent(holder), cst.Call):
            name = resolve(site.module, called.func) or ""
            if name.startswith(("torch.nn.functional.", "torch.")):
                return name.rpartition(".")[2] in _NEW | _LOSSES
            # A method of a tensor that was seen takes another tensor.
            match called.func:
                case cst.Attribute(value=owner, attr=cst.Name(method)) if method in _NEW:
                    fact = site.fact(owner)
                    return fact is not None and fact.type == "torch.Tensor"
    return False


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
