"""Limits of a tensor's dtype, asked of numpy."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, import_map, resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from ..api.splice import Splice

_SAME = words("min max eps tiny smallest_normal bits")
_QUIET = words("detach cpu numpy")
_FLOATS = frozenset({"torch.float32", "torch.float64", "torch.float16"})
_FACTS = {"x": tensor(3, requires_grad=True), "x.detach()": tensor(3), "x.numpy()": tensor(3)}


def _source(body: str) -> str:
    return f"import numpy as np\nimport torch\n\n\ndef f(x, mask):\n    {body}\n"


class TensorLimits(Codemod):
    """*What it does.*  Asks torch for the limits of a tensor's dtype:
    ``np.finfo(x.detach().numpy().dtype).min`` becomes ``torch.finfo(x.dtype).min``.

    *When it applies.*  The array is made of a floating-point tensor by ``detach``, ``cpu`` and
    ``numpy`` alone, and what is asked is the same number in torch (``min``, ``max``, ``eps``,
    ``tiny``, ``bits``).

    *Fix safety.*  Safe where the number fills, or meets on its right, a tensor that has a dtype of
    its own.  Unsafe elsewhere: it is a Python float now, without a dtype.

    *Refuses.*  Other arrays, other attributes, integer dtypes, files where torch has no name.
    """

    name = "tensor-limits"
    codes = ("GB0157",)

    examples = tuple(
        Example(_source(before), _source(after), at=at, facts=_FACTS, title=title)
        for title, before, after, at in (
            (
                "the smallest number",
                "return x.masked_fill(mask, np.finfo(x.detach().cpu().numpy().dtype).min)",
                "return x.masked_fill(mask, torch.finfo(x.dtype).min)",
                "x.detach().cpu().numpy().dtype",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(f"return {text}"), at=at, why=why, facts={**_FACTS, **facts})
        for text, at, why, facts in (
            (
                "np.finfo(x.numpy().dtype).machep",
                "x.numpy().dtype",
                "torch does not know it",
                {},
            ),
            (
                "np.finfo(x.numpy().dtype).min * (torch := 2)",
                "x.numpy().dtype",
                "torch is another name here",
                {},
            ),
            ("np.finfo(x.numpy().dtype)", "x.numpy().dtype", "the whole record", {}),
            (
                "np.finfo(mask.numpy().dtype).min",
                "mask.numpy().dtype",
                "not known to be a float",
                {},
            ),
            (
                "np.finfo(x.half().numpy().dtype).min",
                "x.half().numpy().dtype",
                "of another dtype",
                {},
            ),
            ("np.finfo(x.dtype).min", "x.dtype", "numpy does not know it", {}),
            (
                "np.iinfo(x.numpy().dtype).min",
                "x.numpy().dtype",
                "limits of integers",
                {"x": tensor(3, dtype="torch.int64")},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        function = site.function
        if torch is None or function is None or torch in function_scope(function).locals:
            return
        if isinstance(site.statement, cst.BaseCompoundStatement):
            return
        for node in walk(site.statement):
            source = _source_tensor(site, node)
            if source is None or comments_in(node) or "\n" in site.text(source):
                continue
            assert isinstance(node, cst.Attribute)
            splice = Splice(site)
            text = f"{torch}.finfo({splice.source_of(source)}.dtype).{node.attr.value}"
            splice.replace_span(site.span(node), text)
            sure = _goes_into_tensor(site, node)
            yield splice.rewrite(
                "ask torch for the limits of the dtype",
                rank=10,
                safety=Safety.SAFE if sure else Safety.UNSAFE,
                notes=()
                if sure
                else ("a NumPy number has a dtype; the float that takes its place has none",),
            )
            return


_TAKES_NUMBER = words("masked_fill masked_fill_ fill_ clamp clamp_ clip full_like new_full")


def _goes_into_tensor(site: Site, node: cst.Attribute) -> bool:
    """Whether the number only fills, or meets, a tensor that has a dtype of its own."""
    holder = site.parent(node)
    if isinstance(holder, cst.BinaryOperation) and holder.right is node:
        fact = site.fact(holder.left)
        return fact is not None and fact.is_tensor and bool(fact.shape)
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    return call.func.attr.value in _TAKES_NUMBER


def _source_tensor(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """``x`` in ``np.finfo(x.numpy().dtype).min``."""
    if not isinstance(node, cst.Attribute) or node.attr.value not in _SAME:
        return None
    call = node.value
    if not isinstance(call, cst.Call) or resolve(site.module, call.func) != "numpy.finfo":
        return None
    if len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
        return None
    dtype = call.args[0].value
    if not isinstance(dtype, cst.Attribute) or dtype.attr.value != "dtype":
        return None
    array, methods = dtype.value, []
    while (
        isinstance(array, cst.Call)
        and not array.args
        and isinstance(array.func, cst.Attribute)
        and array.func.attr.value in _QUIET
    ):
        methods.append(array.func.attr.value)
        array = array.func.value
    fact = site.fact(array)
    if methods[:1] != ["numpy"] or methods.count("numpy") != 1 or fact is None:
        return None
    return array if fact.type == "torch.Tensor" and fact.dtype in _FLOATS else None
