"""``torch.autograd.grad`` and ``backward`` of a generator of tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor

from .splice import Splice

_ADVICE = (
    "While `torch.autograd.grad` and `backward(inputs=...)` are traced, what they are given has to"
    " be a tensor, or a list or tuple of them. Write `list(...)` around a generator, a set or the"
    " values of a dict."
)
_ITERATORS = words("filter iter map reversed zip")
_PARTS = words("buffers parameters")
_CUTS_OFF = words("detach item")
_LOSS = {"loss": tensor()}


def _source(body: str) -> str:
    return f"import torch\nfrom torch.autograd import grad\n\n\ndef f(loss, net, xs):\n    {body}\n"


class ListedInputs(Codemod):
    """*What it does.*  Hands ``torch.autograd.grad`` a list of the tensors.

    ``grad(loss, net.parameters())`` becomes ``grad(loss, list(net.parameters()))``, and so does
    ``loss.backward(inputs=net.parameters())``.

    *When it applies.*  An argument for outputs or inputs is a call of ``parameters`` or
    ``buffers``, a generator expression, or an iterator that a built-in function makes.

    *Fix safety.*  Safe: both make a tuple of what they are given before they do anything else.

    *Refuses.*  Names and other calls, which may stand for one tensor or for a dict: those are
    treated differently.
    """

    name = "listed-inputs"
    codes = ("GB6663", "GB0442")

    examples = tuple(
        Example(_source(before), _source(after), at=at, title=title, facts=_LOSS)
        for title, before, after, at in (
            (
                "all parameters",
                "return torch.autograd.grad(loss, net.parameters(), create_graph=True)",
                "return torch.autograd.grad(loss, list(net.parameters()), create_graph=True)",
                "torch.autograd.grad(loss, net.parameters(), create_graph=True)",
            ),
            (
                "a generator expression",
                "return grad(inputs=(x for x in xs if x.requires_grad), outputs=loss)",
                "return grad(inputs=list(x for x in xs if x.requires_grad), outputs=loss)",
                "grad(inputs=(x for x in xs if x.requires_grad), outputs=loss)",
            ),
            (
                "outputs, too",
                "g = grad(map(torch.sum, xs), net.parameters(recurse=False))",
                "g = grad(list(map(torch.sum, xs)), list(net.parameters(recurse=False)))",
                "grad(map(torch.sum, xs), net.parameters(recurse=False))",
            ),
            (
                "a backward pass",
                "loss.backward(inputs=net.parameters()); return loss.detach()",
                "loss.backward(inputs=list(net.parameters())); return loss.detach()",
                "loss.backward(inputs=net.parameters())",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(source), at=at, why=why, facts=_LOSS)
        for source, at, why in (
            ("return grad(loss, xs)", "grad(loss, xs)", "may be one tensor, or a dict"),
            (
                "return grad(loss, net.named())",
                "grad(loss, net.named())",
                "may return one tensor, or a dict",
            ),
            (
                "return grad(loss, xs.values())",
                "grad(loss, xs.values())",
                "a sparse tensor has `values`, too",
            ),
            (
                "return net.grad(loss, net.parameters())",
                "net.grad(loss, net.parameters())",
                "another function",
            ),
            (
                "net.backward(inputs=net.parameters())",
                "net.backward(inputs=net.parameters())",
                "a method that is not the tensor's",
            ),
            (
                "loss.backward(net.parameters())",
                "loss.backward(net.parameters())",
                "the gradient that is passed on",
            ),
            (
                "loss.backward(inputs=net.parameters())\n    return loss",
                "loss.backward(inputs=net.parameters())",
                "what is returned has lost its history",
            ),
            (
                "list = print; return grad(loss, net.parameters())",
                "grad(loss, net.parameters())",
                "`list` is something else",
            ),
            (
                "return grad(*net.parameters())",
                "grad(*net.parameters())",
                "spread over the arguments",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call):
                continue
            if not _is_gradient(site, call):
                continue
            if _is_backward(site, call) and _uses_history(site, call):
                return
            if resolve(site.module, cst.Name("list"), at=call) != "builtins.list":
                return
            values = [arg.value for arg in _tensors(site, call) if _is_iterator(site, arg.value)]
            if not values or any(comments_in(value) for value in values):
                return
            splice = Splice(site)
            for value in values:
                text = splice.source_of(value)
                bare = isinstance(value, cst.GeneratorExp) and value.lpar
                splice.replace(value, f"list{text}" if bare else f"list({text})")
            yield splice.rewrite("list the tensors to take the gradient for", rank=10)
            return


def _is_gradient(site: Site, call: cst.Call) -> bool:
    return _is_backward(site, call) or resolve(site.module, call.func) == "torch.autograd.grad"


def _is_backward(site: Site, call: cst.Call) -> bool:
    """Whether this is ``loss.backward(...)`` of a tensor."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "backward":
        return False
    fact = site.fact(call.func.value)
    return fact is not None and fact.is_tensor


def _uses_history(site: Site, call: cst.Call) -> bool:
    """Whether the tensor goes on with a history that the call used up (GB4927 otherwise)."""
    loss = cst.ensure_type(call.func, cst.Attribute).value
    if not isinstance(loss, cst.Name) or site.function is None:
        return True
    for node in walk(site.function.body):
        if not isinstance(node, cst.Name) or node.value != loss.value:
            continue
        holder = site.parent(node)
        cut_off = isinstance(holder, cst.Attribute) and holder.attr.value in _CUTS_OFF
        if site.span(node).line > site.span(call).end_line and not cut_off:
            return True
    return False


def _tensors(site: Site, call: cst.Call) -> Iterator[cst.Arg]:
    """The arguments for ``outputs`` and ``inputs``."""
    by_position = 0 if _is_backward(site, call) else 2
    for position, arg in enumerate(call.args):
        if arg.star:
            return
        if arg.keyword.value in ("outputs", "inputs") if arg.keyword else position < by_position:
            yield arg


def _is_iterator(site: Site, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.GeneratorExp):
        return True
    if not isinstance(value, cst.Call):
        return False
    if isinstance(value.func, cst.Attribute) and value.func.attr.value in _PARTS:
        return True
    made_by = resolve(site.module, value.func) or ""
    return made_by.startswith("builtins.") and made_by.removeprefix("builtins.") in _ITERATORS
