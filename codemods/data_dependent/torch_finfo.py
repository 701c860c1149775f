"""``np.finfo`` of a tensor's dtype, asked through numpy."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from ..api.splice import Splice

_LIMITS = frozenset({"max", "min", "eps", "tiny", "smallest_normal", "resolution"})
#: numpy's scalars and Python's numbers are the same there: as an argument of these methods.
_TAKES_NUMBERS = frozenset(
    {"masked_fill", "masked_fill_", "fill_", "clamp", "clamp_", "clamp_min", "clamp_max", "add",
     "mul", "full_like", "full", "new_full"}
)  # fmt: skip
#: What stands between the tensor and ``.numpy()`` without changing its dtype.
_KEEPING = frozenset({"detach", "cpu", "clone", "contiguous"})
_FACTS = {"x": tensor(3), "m": tensor(3, dtype="torch.bool")}


def _source(body: str) -> str:
    return f"import numpy as np\nimport torch\n\n\ndef f(x, m):\n    {body}\n"


class TorchFinfo(Codemod):
    """*What it does.*  Asks torch for the limits of a tensor's dtype:
    ``np.finfo(x.numpy().dtype).min`` becomes ``torch.finfo(x.dtype).min``.

    Dynamo traces arrays as tensors, and an array's ``dtype`` not at all.

    *When it applies.*  The limit of a floating point tensor is an argument of ``masked_fill``,
    ``clamp`` and the like, where numpy's number and Python's do the same.

    *Fix safety.*  Safe: both tables hold the same numbers.

    *Refuses.*  Tensors that require gradients at that place (``numpy()`` fails there), that are
    on another device, or of a dtype that numpy lacks, and limits that go elsewhere.
    """

    name = "torch-finfo"
    codes = ("GB0157",)

    examples = tuple(
        Example(_source(before), _source(after), at=at, facts=_FACTS, title=title)
        for title, before, after, at in (
            (
                "a mask",
                "return x.masked_fill(m, np.finfo(x.numpy().dtype).min)",
                "return x.masked_fill(m, torch.finfo(x.dtype).min)",
                "x.numpy().dtype",
            ),
            (
                "by way of the CPU",
                "return x.clamp(min=np.finfo(x.detach().cpu().numpy().dtype).eps)",
                "return x.clamp(min=torch.finfo(x.dtype).eps)",
                "x.detach().cpu().numpy().dtype",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(source), at="x.numpy().dtype", why=why, facts={**_FACTS, **facts})
        for source, why, facts in (
            ("return np.finfo(x.numpy().dtype).min", "the number is returned", {}),
            ("return x.fill_(np.finfo(x.numpy().dtype).bits)", "an int of another table", {}),
            ("return x.to(x.numpy().dtype)", "the dtype itself is used", {}),
            (
                "return x.clamp(min=np.finfo(x.numpy().dtype).eps)",
                "no float dtype: an error in both, but another",
                {"x": tensor(3, dtype="torch.int64")},
            ),
            (
                "return x.clamp(min=np.finfo(x.numpy().dtype).eps)",
                "a tensor with gradients has no array",
                {"x": tensor(3, requires_grad=True)},
            ),
            (
                "return x.clamp(min=np.finfo(x.numpy().dtype).eps)",
                "no tensor",
                {"x": Fact("object", "pandas.Series")},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        if torch is None or isinstance(site.node, cst.BaseCompoundStatement):
            return
        for node in walk(site.statement):
            owner = _array_owner(site, node)
            if owner is None or not isinstance(node, cst.Attribute):
                continue
            arg = site.parent(node)
            call = site.parent(arg) if isinstance(arg, cst.Arg) else None
            limit = site.parent(call) if isinstance(call, cst.Call) else None
            if not isinstance(call, cst.Call) or len(call.args) != 1 or comments_in(call):
                return
            if resolve(site.module, call.func) != "numpy.finfo" or not _is_plain_limit(site, limit):
                return
            splice = Splice(site)
            splice.replace(call, f"{torch}.finfo({splice.source_of(owner)}.dtype)")
            yield splice.rewrite("ask torch for the limits of the dtype", rank=10)
            return


def _array_owner(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor ``x`` in ``x.detach().cpu().numpy().dtype``; None for anything else."""
    if not isinstance(node, cst.Attribute) or node.attr.value != "dtype":
        return None
    inner = _called(node.value, frozenset({"numpy"}))
    while inner is not None:
        below = _called(inner, _KEEPING)
        if below is None:
            break
        if isinstance(inner, cst.Call) and _name(inner) == "detach":
            fact = infer(below, site.fact)
            return below if fact is not None and _has_array(fact, detached=True) else None
        inner = below
    if not isinstance(inner, cst.Name | cst.Attribute):
        return None
    fact = infer(inner, site.fact)
    return inner if fact is not None and _has_array(fact, detached=False) else None


def _called(node: cst.BaseExpression, methods: frozenset[str]) -> cst.BaseExpression | None:
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value in methods else None


def _name(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _has_array(fact: Fact, *, detached: bool) -> bool:
    return (
        fact.is_tensor
        and fact.type.rpartition(".")[2] in ("Tensor", "Parameter")
        and fact.device == "cpu"
        and fact.dtype in ("torch.float16", "torch.float32", "torch.float64")
        and (detached or fact.requires_grad is False)
    )


def _is_plain_limit(site: Site, limit: cst.CSTNode | None) -> bool:
    if not isinstance(limit, cst.Attribute) or limit.attr.value not in _LIMITS:
        return False
    arg = site.parent(limit)
    call = site.parent(arg) if isinstance(arg, cst.Arg) else None
    return (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value in _TAKES_NUMBERS
    )
