"""``requires_grad`` set on a tensor that the function made, where what comes of it is returned."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..wrap.operator_text import define, place, torch_alias

_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
#: Methods that give a new tensor object each time (`reshape` and `to` may give the same one).
_MAKES_NEW = words("clone detach permute t transpose unsqueeze view")
_FACTORIES = words("torch.randn torch.rand torch.zeros torch.ones torch.linspace torch.full")
_LOOKS_AT_LEAVES = words(
    "requires_grad requires_grad_ grad grad_fn is_leaf retain_grad register_hook backward"
)
_HANDS_ON = (
    cst.Yield, cst.Element, cst.DictElement, cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.IfExp,
    cst.BooleanOperation, cst.AugAssign,
)  # fmt: skip
_HELPER = '''class {name}({torch}.autograd.Function):
    """Hands on a tensor as one that requires a gradient, as long as gradients are recorded."""

    @staticmethod
    def forward(ctx, x, anchor):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


{anchor} = {torch}.zeros((), requires_grad=True)
'''
_FACTS = {"h": tensor(2, 1, 8), "x": tensor(2, 8), "self.conv(h)": tensor(requires_grad=True)}


def _source(set_: str = "h.requires_grad = True", made: str = "x[:, None]") -> str:
    return f"""import torch
from torch import nn


class Encoder(nn.Module):
    def forward(self, x):
        h = {made}
        if self.training:
            {set_}
        return self.conv(h)
"""


_MIXED = """import torch
from torch import nn


class Critic(nn.Module):
    def forward(self, x, y):
        h = 0.5 * x + 0.5 * y
        h.requires_grad_(True)
        return self.conv(h)
"""


def _near_miss(
    why: str, source: str, at: str = "h.requires_grad = True", **facts: Fact
) -> NearMiss:
    return NearMiss(source, at=at, why=why, facts=_FACTS | facts)


class RequiresGradNode(Codemod):
    """*What it does.*  Leaves out a flag that nobody asks for, or lets a tensor require a gradient
    by passing it through a small ``torch.autograd.Function``.

    ``h.requires_grad = True`` becomes ``h = _RequiresGrad.apply(h, _ANCHOR)``: a leaf that is made
    in a graph is lost, and Dynamo refuses to give back what depends on it.  Speech encoders set the
    flag for the sake of checkpointing.

    *When it applies.*  A name holds a floating tensor that the function itself made, by an
    expression that makes a new one each time, and that nothing else has read yet.

    Where the line is not alone in its block, it is left out at first: it counts for nothing as long
    as something else of what is computed requires a gradient, a parameter, say.

    *Fix safety.*  Safe where the line is left out and the results require gradients as before.
    Unsafe for the function: what is computed from the tensor requires a gradient where it did
    before, and all other gradients are as they were; but the tensor is no leaf, and layers that it
    is handed to may keep it, or give it back as it is.

    *Refuses.*  Tensors that came in or that have other names, which would keep the flag for their
    owner; functions that look at leaves, flags or ``grad``; names that are returned or stored as
    they are; other values than ``True``.
    """

    name = "requires-grad-node"
    codes = ("GB0206", "GB7324", "GB8985")

    examples = (
        Example(
            title="for the sake of checkpointing",
            before=_source("h.requires_grad = True  # for checkpoints"),
            after=_source("h = _RequiresGrad.apply(h, _ANCHOR)  # for checkpoints").replace(
                "class Encoder",
                _HELPER.format(name="_RequiresGrad", anchor="_ANCHOR", torch="torch")
                + "\n\nclass Encoder",
            ),
            at="h.requires_grad = True",
            facts=_FACTS,
        ),
        Example(
            title="nobody asks for it",
            before=_MIXED,
            after=_MIXED.replace("        h.requires_grad_(True)\n", ""),
            at="h.requires_grad_(True)",
            facts=_FACTS,
        ),
    )
    near_misses = (
        _near_miss(
            "its gradient is the penalty",
            _MIXED.replace("return self.conv(h)", "return torch.autograd.grad(self.conv(h), h)"),
            "h.requires_grad_(True)",
        ),
        _near_miss(
            "it came in",
            _MIXED.replace("h = 0.5 * x + 0.5 * y", "h = x"),
            "h.requires_grad_(True)",
        ),
        _near_miss(
            "it is switched off",
            _MIXED.replace("requires_grad_(True)", "requires_grad_(False)"),
            "h.requires_grad_(False)",
        ),
        _near_miss("switched off", _source("h.requires_grad = False"), "h.requires_grad = False"),
        _near_miss("it came in", _source(made="x")),
        _near_miss("it may be what came in", _source(made="x.contiguous()")),
        _near_miss("no floating numbers", _source(), h=tensor(2, dtype="torch.int64")),
        _near_miss("a subclass", _source(), h=Fact("tensor", "mine.Masked", dtype="torch.float32")),
        _near_miss("of unknown type", _source(), h=Fact("object", "mine.Box")),
        _near_miss("it has another name", _source().replace("None]\n", "None]\n        k = h\n")),
        _near_miss(
            "it is made twice",
            _source().replace("        if", "        h = h * 2\n        if"),
        ),
        _near_miss(
            "its gradient is asked for",
            _source().replace("return self", "self.conv(h).sum().backward(); return h.grad, self"),
        ),
        _near_miss("it is given back", _source().replace("self.conv(h)", "self.conv(h), h")),
        _near_miss("it is given back as it is", _source().replace("self.conv(h)", "h")),
        _near_miss("it is kept", _source().replace("return", "self.last = h\n        return")),
        _near_miss(
            "its gradient is asked for",
            _source().replace("self.conv(h)", "torch.autograd.grad(self.conv(h).sum(), h)"),
        ),
        _near_miss(
            "a part of a loop",
            _source("for _ in x:\n                h.requires_grad = True"),
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        line = site.statement
        if site.function is None or not isinstance(line, cst.SimpleStatementLine):
            return
        match line.body:
            case [
                cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            cst.Attribute(cst.Name() as held, cst.Name("requires_grad"))
                        )
                    ],
                    value=cst.Name("True"),
                ) as small
            ] if not comments_in(small):
                pass
            case [
                cst.Expr(
                    cst.Call(
                        func=cst.Attribute(cst.Name() as held, cst.Name("requires_grad_")),
                        args=[] | [cst.Arg(value=cst.Name("True"))],
                    )
                ) as small
            ] if not comments_in(small):
                pass
            case _:
                return
        if not _is_float(site, held, line) or not _is_own(site, site.function, held.value, line):
            return
        if _is_looked_at(site, site.function, held.value, line):
            return
        if len(site.block_of(line)) > 1:
            edit = site.edit()
            edit.remove(line)
            yield edit.rewrite(
                f"leave out the flag of `{held.value}`, which nobody asks for",
                rank=11,
                notes=(
                    "Where nothing else requires a gradient, what is computed requires none now.",
                ),
            )
        edit = site.edit()
        call = _helper(site, edit, held.value)
        new = cst.Assign([cst.AssignTarget(cst.Name(held.value))], cst.parse_expression(call))
        edit.replace(line, line.with_changes(body=[new]))
        yield edit.rewrite(
            f"let `{held.value}` require a gradient through a function",
            rank=12,
            safety=Safety.UNSAFE,
            notes=(
                f"`{held.value}` is no longer a leaf tensor: `{held.value}.grad` stays None after"
                " backward",
            ),
        )


def _helper(site: Site, edit: Edit, name: str) -> str:
    """Define the function and its anchor; the call that takes the setter's place."""
    torch = torch_alias(site, edit)
    taken = names_in(site.module)
    class_, anchor = (_free(base, taken) for base in ("_RequiresGrad", "_ANCHOR"))
    place(site, edit, define(site, _HELPER.format(name=class_, anchor=anchor, torch=torch)))
    return f"{class_}.apply({name}, {anchor})"


def _free(base: str, taken: set[str]) -> str:
    return next(name for name in (base + "_" * n for n in range(99)) if name not in taken)


def _is_float(site: Site, held: cst.Name, line: cst.SimpleStatementLine) -> bool:
    fact = site.fact(held) or site.locals_before(line).get(held.value)
    return fact is not None and fact.type == "torch.Tensor" and fact.dtype in _FLOATS


def _is_own(site: Site, function: cst.FunctionDef, name: str, line: cst.CSTNode) -> bool:
    """Whether the one thing before the line that speaks of the name is what makes the tensor."""
    if any(isinstance(outer, cst.For | cst.While | cst.Try | cst.With | cst.Lambda)
           for outer in _inside(site, line, function)):  # fmt: skip
        return False
    end = site.span(line).line
    before = [node for node in walk(function) if _is_name(node, name)
              and site.span(node).line < end]  # fmt: skip
    if len(before) != 1:
        return False
    holder = site.statement_of(before[0])
    match holder:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name())], value=value)]
        ) if holder in function.body.body:
            return _makes_new(site, value)
    return False


def _inside(site: Site, node: cst.CSTNode, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    for outer in site.ancestors(node):
        if outer is function:
            return
        yield outer


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _makes_new(site: Site, value: cst.BaseExpression) -> bool:
    """Whether the expression gives a tensor that nobody else holds."""
    match value:
        case cst.BinaryOperation():
            return True
        case cst.Subscript(value=base, slice=elements):
            # (Of a list, `x[0]` is somebody else's tensor.)
            fact = site.fact(base)
            parts = any(
                isinstance(element.slice, cst.Slice) or code(element) == "None"
                for element in elements
            )
            return parts and len(elements) > 1 and fact is not None and fact.is_tensor
        case cst.Call(func=cst.Attribute(value=base, attr=attr)):
            if resolve(site.module, value.func) in _FACTORIES:
                return True
            fact = site.fact(base)
            return attr.value in _MAKES_NEW and fact is not None and fact.is_tensor
    return False


def _is_looked_at(site: Site, function: cst.FunctionDef, name: str, line: cst.CSTNode) -> bool:
    """Whether the function asks for what only a leaf has, or hands the tensor on as it is."""
    if name in activity(function.body).captures:
        return True
    end = site.span(line).line
    anew = any(
        isinstance(node, cst.AssignTarget)
        and _is_name(node.target, name)
        and site.span(node).line > end
        for node in walk(function.body)
    )
    for node in walk(function.body):
        if isinstance(node, cst.Attribute) and node.attr.value in _LOOKS_AT_LEAVES:
            own = site.statement_of(node) is line
            if not own and not (isinstance(node.value, cst.Name) and node.value.value == "self"):
                return True
        if isinstance(node, cst.Call) and (resolve(site.module, node.func) or "").startswith(
            ("torch.autograd.", "torch.enable_grad", "torch.set_grad_enabled", "torch.func.")
        ):
            return True  # (With gradients recorded anew, a leaf is one again.)
        if not _is_name(node, name) or site.statement_of(node) is line:
            continue
        holder = site.parent(node)
        # What layers made of it may be given back under the same name.
        handed_on = isinstance(holder, cst.Return) and not anew
        if handed_on or isinstance(holder, _HANDS_ON):
            return True
    return False
