"""A new tensor that is told to collect a gradient, of which nothing is read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..api.unread import NOTE, READ, SHARED, gradient_is_read, is_handed_on

_FACTORIES = words(
    """zeros ones empty full rand randn arange linspace logspace eye tensor zeros_like ones_like
    empty_like full_like rand_like randn_like"""
)
_MAKING = words("new_zeros new_ones new_full new_empty new_tensor clone detach")
#: They give what they are called on, or a copy.
_KEEPING = words("to cuda cpu float double half type contiguous fill_ zero_ normal_ uniform_")
_FACTS = {
    "x": tensor(3, 4),
    "x.clone()": tensor(3, 4),
    "x.detach()": tensor(3, 4),
    "h": tensor(3, 4),
    "x.shape": Fact("tuple", "torch.Size"),
}


def _source(*lines: str, more: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, flag):\n{body}{more}"


class UnreadLeaf(Codemod):
    """*What it does.*  Leaves out that a new tensor requires a gradient: ``h = torch.zeros(n, 3,
    requires_grad=True)`` becomes ``h = torch.zeros(n, 3)``, and a line ``h.requires_grad = True``
    goes. An initial state of a recurrent layer is often made so.

    *When it applies.*  The function makes the tensor itself, and Dynamo refuses to give a graph a
    leaf that collects a gradient.

    *Fix safety.*  Safe where no text of the project reads a gradient, but for those of parameters
    (``p.grad`` in a loop over ``parameters()``), and what leaves the region requires gradients as
    before, which the run shows. Unsafe where a text reads one, and in a function that several call.

    *Refuses.*  Tensors of others, and names that are bound in another way above.
    """

    name = "unread-leaf"
    codes = ("GB0206", "GB0225", "GB7324", "GB8985")
    examples = tuple(
        Example(_source(*before), _source(*after), at=at, facts=_FACTS, title=title, code=code)
        for title, code, at, before, after in (
            (
                "a factory",
                "GB0225",
                "torch.zeros(3, 4, requires_grad=True, dtype=x.dtype)",
                ("h = torch.zeros(3, 4, requires_grad=True, dtype=x.dtype)", "return x + h"),
                ("h = torch.zeros(3, 4, dtype=x.dtype)", "return x + h"),
            ),
            (
                "a flag that is given",
                "GB0225",
                "torch.ones(x.shape, requires_grad=flag)",
                ("return torch.ones(x.shape, requires_grad=flag)",),
                ("return torch.ones(x.shape)",),
            ),
            (
                "a line",
                "GB0206",
                "h.requires_grad = True",
                ("h = torch.zeros(3, 4).to(x.device)", "h.requires_grad = True", "return x + h"),
                ("h = torch.zeros(3, 4).to(x.device)", "return x + h"),
            ),
            (
                "a call",
                "GB8985",
                "x.clone().requires_grad_()",
                ("return (x.clone().requires_grad_() * 2).sum()",),
                ("return (x.clone() * 2).sum()",),
            ),
            (
                "several of them",
                "GB8985",
                "h.requires_grad_(True)",
                (
                    "h = x.detach()",
                    "h.requires_grad_(True)",
                    "c = torch.zeros(3, requires_grad=True)",
                    "return x + h + c",
                ),
                ("h = x.detach()", "c = torch.zeros(3)", "return x + h + c"),
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)
        for why, at, lines in (
            ("a tensor of the caller", "x.requires_grad = True", ("x.requires_grad = True",)),
            (
                "it may be the caller's",
                "h.requires_grad_()",
                ("h = torch.zeros(3, 4) if flag else x", "h.requires_grad_()"),
            ),
            (
                "another name of the caller's",
                "h.requires_grad_()",
                ("h = x", "h.requires_grad_()"),
            ),
            (
                "it asks for none",
                "torch.zeros(3, requires_grad=False)",
                ("return torch.zeros(3, requires_grad=False)",),
            ),
            (
                "bound again before",
                "h.requires_grad_()",
                ("h = torch.zeros(3)", "h = x", "h.requires_grad_()"),
            ),
            (
                "a comment would go",
                "return torch.zeros",
                ("return torch.zeros(", "    3,", "    requires_grad=True,  # the start", ")"),
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        found = [node for node in walk(site.function.body) if _asks(site, node)]
        near = {site.node, *site.ancestors(site.node), *walk(site.statement)}
        if not any(node in near for node in found):
            return
        splice = Splice(site)
        for node in found:
            if comments_in(node):
                return
            _leave_out(site, splice, node)
        doubt = READ if gradient_is_read(site) else SHARED if is_handed_on(site) else ""
        yield splice.rewrite(
            "make the tensor without a gradient of its own",
            safety=Safety.UNSAFE if doubt else Safety.SAFE,
            notes=(doubt or NOTE,),
            rank=9,
        )


def _asks(site: Site, node: cst.CSTNode) -> bool:
    """Whether the node asks for the gradient of a tensor that the function makes."""
    match node:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("requires_grad_"))):
            args = node.args
            if len(args) > 1 or any(arg.star or _is_false(arg.value) for arg in args):
                return False
            parent = site.parent(node)
            if isinstance(parent, cst.Expr):
                return isinstance(owner, cst.Name) and _is_made(site, owner)
            return isinstance(owner, cst.Call) and _is_new(site, owner)
        case cst.Call():
            flags = [arg.value for arg in node.args if _is_flag(arg)]
            return len(flags) == 1 and not _is_false(flags[0]) and _is_factory(site, node)
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Attribute(value=cst.Name() as owner, attr=cst.Name("requires_grad"))
                )
            ],
            value=value,
        ):
            return not _is_false(value) and _is_made(site, owner)
    return False


def _leave_out(site: Site, splice: Splice, node: cst.CSTNode) -> None:
    if isinstance(node, cst.Assign):
        splice.remove(node)
        return
    assert isinstance(node, cst.Call)
    parent = site.parent(node)
    if not any(_is_flag(arg) for arg in node.args):
        assert isinstance(node.func, cst.Attribute)
        if isinstance(parent, cst.Expr):
            splice.remove(parent)
        else:
            splice.replace(node, splice.source_of(node.func.value))
        return
    place = next(number for number, arg in enumerate(node.args) if _is_flag(arg))
    arg = node.args[place]
    if place:
        before, span = site.span(node.args[place - 1]), site.span(arg)
        start = (before.end_line, before.end_column)
        end = (span.end_line, span.end_column)
    elif len(node.args) > 1:
        span, after = site.span(arg), site.span(node.args[1])
        start, end = (span.line, span.column), (after.line, after.column)
    else:
        span = site.span(arg)
        start, end = (span.line, span.column), (span.end_line, span.end_column)
    splice.replace_span(type(span)(*start, *end), "")


def _is_flag(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "requires_grad"


def _is_false(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"


def _is_factory(site: Site, call: cst.Call) -> bool:
    name = resolve(site.module, call.func) or ""
    if name.startswith("torch.") and name.removeprefix("torch.") in _FACTORIES:
        return not any(arg.star for arg in call.args)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value.startswith("new_"):
        return call.func.attr.value in _MAKING and not any(arg.star for arg in call.args)
    return False


def _is_new(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the expression gives a tensor that nobody else has."""
    if not isinstance(node, cst.Call):
        return False
    if _is_factory(site, node):
        return True
    if not isinstance(node.func, cst.Attribute):
        return False
    owner, method = node.func.value, node.func.attr.value
    if method in _KEEPING:
        return _is_new(site, owner)
    fact = site.fact(owner)
    return method in _MAKING and fact is not None and fact.is_tensor


def _is_made(site: Site, name: cst.Name) -> bool:
    """Whether the last statement above, in the block, that binds the name makes a new tensor."""
    line = site.statement_of(name)
    block = list(site.block_of(line))
    for above in reversed(block[: block.index(line)] if line in block else []):
        if name.value not in activity(above).bound:
            continue
        match above:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]
            ):
                return _is_new(site, value)
        return False
    return False
