"""``torch.Tensor([...])`` of tensors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .splice import Splice

_CONSTRUCTORS = frozenset({"torch.Tensor", "torch.FloatTensor"})
_DEFAULTS = re.compile(r"set_default|\bwith\b.*device\(")
_FLOATS = frozenset({"torch.float16", "torch.bfloat16", "torch.float64"})
_GRAD = tensor(requires_grad=True)
_FACTS = {"x": tensor(3, requires_grad=True), "a": _GRAD, "b": tensor(), "x.sum()": _GRAD}


def _source(body: str) -> str:
    return f"import torch\n\n\ndef f(x, a, b):\n    {body}\n"


class StackScalars(Codemod):
    """*What it does.*  Puts 0-dimensional tensors together with ``torch.stack``:
    ``torch.Tensor([a, b])`` becomes ``torch.stack([a, b]).detach().to(torch.float32)``.

    The legacy constructors read a number out of every tensor, which Dynamo cannot do.

    *When it applies.*  A list or tuple display, or a list with a name, whose elements were all
    recorded as 0-dimensional floating point tensors on the CPU.

    *Fix safety.*  Safe: a new tensor of the same float32 values, without history, as before.

    *Refuses.*  Elements of other shapes, of mixed or integral dtypes, on other devices, numbers
    among them, and programs that change torch's default dtype or device.
    """

    name = "stack-scalars"
    codes = ("GB4315", "torch-runtime-error", "internal-error", "GB0033")

    examples = tuple(
        Example(_source(before), _source(after), at=at, facts={**_FACTS, **facts}, title=title)
        for title, before, after, at, facts in (
            (
                "two losses",
                "return x * torch.Tensor([a, x.sum()]).mean()",
                "return x * torch.stack([a, x.sum()]).detach().to(torch.float32).mean()",
                "torch.Tensor([a, x.sum()])",
                {},
            ),
            (
                "a list that was filled before",
                "return torch.Tensor(losses) + 1",
                "return (torch.stack(losses).detach().to(torch.float32)"
                " if losses else torch.empty(0)) + 1",
                "torch.Tensor(losses)",
                {"losses": Fact("list", "list", items=(_GRAD, _GRAD))},
            ),
            (
                "of another dtype",
                "return torch.FloatTensor((a, b))",
                "return torch.stack((a, b)).detach().to(torch.float32)",
                "torch.FloatTensor((a, b))",
                {"a": tensor(dtype="torch.float64"), "b": tensor(dtype="torch.float64")},
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(source), at=at, why=why, facts={**_FACTS, **facts})
        for source, at, why, facts in (
            ("return torch.Tensor([a, 1.0])", "torch.Tensor([a, 1.0])", "a number", {}),
            ("return torch.Tensor([a, x])", "torch.Tensor([a, x])", "another shape", {}),
            ("return torch.Tensor([])", "torch.Tensor([])", "nothing to stack", {}),
            ("return torch.Tensor([*x])", "torch.Tensor([*x])", "not plain to see", {}),
            ("return torch.Tensor(a)", "torch.Tensor(a)", "another constructor", {}),
            (
                "return torch.Tensor([a, b])",
                "torch.Tensor([a, b])",
                "two dtypes",
                {"b": tensor(dtype="torch.float64")},
            ),
            (
                "return torch.Tensor([a, b])",
                "torch.Tensor([a, b])",
                "large ints are rounded otherwise",
                {name: tensor(dtype="torch.int64") for name in "ab"},
            ),
            (
                "return torch.Tensor([a, b])",
                "torch.Tensor([a, b])",
                "the result would be on another device",
                {name: tensor(device="cuda:0") for name in "ab"},
            ),
            (
                "return torch.Tensor([a, b])",
                "torch.Tensor([a, b])",
                "a subclass",
                {name: dataclasses.replace(tensor(), type="mine.Masked") for name in "ab"},
            ),
            (
                "torch.set_default_dtype(torch.float64); return torch.Tensor([a, b])",
                "torch.Tensor([a, b])",
                "another default dtype",
                {},
            ),
            (
                "return torch.Tensor(losses)",
                "torch.Tensor(losses)",
                "a list of numbers",
                {"losses": Fact("list", "list", items=(scalar(1.0),))},
            ),
            (
                "return torch.Tensor(losses)",
                "torch.Tensor(losses)",
                "an empty list shows nothing",
                {"losses": Fact("list", "list", items=())},
            ),
            (
                "return torch.Tensor(losses)",
                "torch.Tensor(losses)",
                "a list of another kind",
                {"losses": Fact("list", "mine.Losses", items=(_GRAD,))},
            ),
            ("return torch.Tensor([a, n])", "torch.Tensor([a, n])", "an int", {"n": scalar(1)}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call) or comments_in(call):
                continue
            if resolve(site.module, call.func) not in _CONSTRUCTORS or len(call.args) != 1:
                continue
            arg = call.args[0]
            torch = site.text(call.func).rpartition(".")[0]
            dtype = _common_dtype(site, arg)
            if dtype is None or not torch:
                return
            if any(_DEFAULTS.search(text) for text in site.sources.values()):
                return
            splice = Splice(site)
            named = isinstance(arg.value, cst.Name)
            # Other calls may come with other dtypes, of which the constructor makes this one, too.
            stacked = f"{torch}.stack({splice.source_of(arg.value)})"
            text = f"{stacked}.detach().to({torch}.float32)"
            if named:  # on other inputs it may be empty
                text = f"({text} if {site.text(arg.value)} else {torch}.empty(0))"
            splice.replace_span(site.span(call), text)
            yield splice.rewrite("put the tensors together with `torch.stack`", rank=10)
            return


def _common_dtype(site: Site, arg: cst.Arg) -> str | None:
    """The dtype of all elements of a display of 0-dimensional float tensors; None otherwise."""
    if arg.star or arg.keyword is not None:
        return None
    facts = _elements(site, arg.value)
    if not all(fact is not None and _is_plain_scalar(fact) for fact in facts):
        return None
    dtypes = {fact.dtype for fact in facts if fact is not None}
    if len(dtypes) != 1:
        return None
    dtype = dtypes.pop()
    return dtype if dtype in _FLOATS or dtype == "torch.float32" else None


def _elements(site: Site, node: cst.BaseExpression) -> list[Fact | None]:
    """What the elements of a display, or of a list with a name, were seen to be."""
    if isinstance(node, cst.List | cst.Tuple):
        elements = node.elements
        if not all(isinstance(element, cst.Element) for element in elements):
            return []
        return [infer(element.value, site.fact) for element in elements]
    fact = site.fact(node) if isinstance(node, cst.Name) else None
    if fact is None or fact.type != "list" or fact.items is None:
        return []
    return list(fact.items)


def _is_plain_scalar(fact: Fact) -> bool:
    name = fact.type.rpartition(".")[2]
    return (
        fact.is_tensor
        and fact.shape == ()
        and fact.device == "cpu"
        and name in ("Tensor", "Parameter")
    )
