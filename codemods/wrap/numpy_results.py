"""What functions of numpy give that torch does not trace: sizes and dtypes for a fake.

A shape that was seen to be that of an argument may be so by chance (``np.setdiff1d`` of two tensors
that share nothing), and inductor believes what a fake says of sizes and dtypes.  These tables were
checked on other layouts, dtypes and sizes; a function that is in none of them gives a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .capture import Parameter
from .fake import Fake, torch_name

#: Of the first argument's shape, contiguous, always of this dtype.
_SHAPED = {"numpy.digitize": "torch.int64", "numpy.isin": "torch.bool"}
#: One dimension, as long as the data says.
SELECTING = words(
    """numpy.union1d numpy.setdiff1d numpy.setxor1d numpy.intersect1d numpy.trim_zeros
    numpy.extract numpy.compress numpy.unique numpy.unique_values numpy.flatnonzero"""
)
#: Keep shape, strides, dtype and device of what they are called on.
_KEEPING = words("detach")


def known_fake(
    site: Site, node: cst.Call, parameters: Sequence[Parameter], torch: str
) -> Fake | None:
    """The fake of ``torch.from_numpy(np.function(x.numpy()))``, for every ``x`` that it takes."""
    call = _inside(site, node)
    if call is None or not call.args or call.args[0].keyword is not None:
        return None
    name = resolve(site.module, call.func) or ""
    summed, parameter = _parameter(call.args[0].value, parameters)
    if parameter is None or (summed and name != "numpy.unwrap"):
        return None
    it = parameter.name
    if name in _SHAPED:
        dtype = torch_name(_SHAPED[name], torch)
        return Fake(f"{it}.new_empty({it}.shape, dtype={dtype})", True)
    rest = {argument.keyword.value if argument.keyword else "" for argument in call.args[1:]}
    if name == "numpy.unwrap" and rest <= {"axis", "discont"}:
        # A period would have a say in the dtype.
        dtype = f"{it}.dtype if {it}.is_floating_point() else {torch}.float64"
        if summed:  # A sum is contiguous.
            return Fake(f"{it}.new_empty({it}.shape, dtype={dtype})", True)
        return Fake(f"{torch}.empty_like({it}, dtype={dtype})", True, dense=True)
    return None


def dense_arguments(body: cst.BaseExpression) -> cst.BaseExpression:
    """``x.clone().numpy()`` for ``x.numpy()``: numpy keeps the order of strides 0, torch does not.

    The copy has the strides that ``torch.empty_like`` promises, and so has what numpy makes of it.
    """
    new = body.visit(_Clone())
    assert isinstance(new, cst.BaseExpression)
    return new


class _Clone(cst.CSTTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        match updated_node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("numpy")) as func, args=[]):
                copy = cst.Call(cst.Attribute(value, cst.Name("clone")))
                return updated_node.with_changes(func=func.with_changes(value=copy))
        return updated_node


def selecting_fake(
    site: Site, node: cst.Call, result: Fact, parameters: Sequence[Parameter], torch: str
) -> Fake | None:
    """A fake with a size that is known at run time only, where a function picks from its data."""
    call = _inside(site, node)
    if call is None or resolve(site.module, call.func) not in SELECTING:
        return None
    if result.shape is None or len(result.shape) != 1 or result.device != "cpu":
        return None
    size = f"({torch}.library.get_ctx().new_dynamic_size(),)"
    for parameter in parameters:
        if parameter.fact.is_tensor and parameter.fact.dtype == result.dtype:
            return Fake(f"{parameter.name}.new_empty({size})", False)
    return Fake(f"{torch}.empty({size}, dtype={torch_name(result.dtype, torch)})", False)


def _inside(site: Site, node: cst.Call) -> cst.Call | None:
    """The call in ``torch.from_numpy(call)``."""
    if resolve(site.module, node.func) != "torch.from_numpy" or len(node.args) != 1:
        return None
    inner = node.args[0].value
    return inner if isinstance(inner, cst.Call) else None


def _parameter(
    node: cst.BaseExpression, parameters: Sequence[Parameter]
) -> tuple[bool, Parameter | None]:
    """The tensor ``x`` in ``x.numpy()`` or ``x.cumsum(0).numpy()``, if that is what is passed, and
    whether it is summed.
    """
    summed = False
    match node:
        case cst.Call(func=cst.Attribute(value=node, attr=cst.Name("numpy")), args=[]):
            pass
        case _:
            return summed, None
    while True:
        for parameter in parameters:
            if parameter.argument.deep_equals(node):
                return summed, parameter if parameter.annotation == "torch.Tensor" else None
        match node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("cumsum")), args=[_]):
                # The sum of integers is an int64, of which numpy makes a float in any case.
                summed = True
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(method)), args=[]):
                if method not in _KEEPING:
                    return summed, None
            case _:
                return summed, None
        node = value
