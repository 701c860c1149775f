"""Functions of numpy that Dynamo has no translation of, and torch does as well."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from .flow import torch_name

_INTERPOLATE = '''\
def {name}(x, knots, values):
    """What `np.interp` computes, in torch."""
    x, knots, values = (
        {torch}.as_tensor(part, dtype={torch}.float64) for part in (x, knots, values)
    )
    left = ({torch}.searchsorted(knots, x.contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
    slope = (values[left + 1] - values[left]) / (knots[left + 1] - knots[left])
    y = slope * (x - knots[left]) + values[left]
    y = {torch}.where(y.isnan(), slope * (x - knots[left + 1]) + values[left + 1], y)
    flat = (x == knots[left]) | (values[left] == values[left + 1])
    y = {torch}.where(flat & ~x.isnan(), values[left], y)
    y = {torch}.where(x >= knots[-1], values[-1], y)
    return {torch}.where(x < knots[0], values[0], y)


'''
_ONE_KNOT = "a table of one knot alone, which `np.interp` accepts, raises an error"
_FALLING = "`np.digitize` also takes bins that fall; `bucketize` counts rising ones"
_ARRAY = Fact("ndarray", "numpy.ndarray")


def _source(*lines: str, more: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import numpy as np\nimport torch\n\n\n{more}def f(x, knots, values):\n{body}"


class NumpyToTorch(Codemod):
    """*What it does.*  Computes with torch what Dynamo cannot trace in numpy:
    ``np.interp(x.numpy(), knots, values)`` becomes ``interpolate(x, knots, values).numpy()``, with
    a function of a few lines above; ``np.isin``, ``np.digitize``, ``np.nansum`` and ``np.nanmean``
    become torch's own functions, ``np.select`` becomes ``np.where``.

    *When it applies.*  To calls with positional arguments that are arrays of numbers; what follows
    gets an array as before.

    *Fix safety.*  ``interp`` computes in float64 with numpy's formula, clamped outside of the
    table, and nan passes; membership is asked among float64.  ``digitize`` is unsafe: it also
    counts bins that fall.

    *Refuses.*  Keyword arguments (``left``, ``period``), other functions, and files in which the
    function's name is taken.
    """

    name = "numpy-to-torch"
    codes = ("GB0294", "GB0059", "GB0007", "GB0088", "internal-error")
    examples = (
        Example(
            _source("return torch.from_numpy(np.interp(x.numpy(), knots, values))"),
            _source(
                "return torch.from_numpy(interpolate(x, knots, values).numpy())",
                more=_INTERPOLATE.format(name="interpolate", torch="torch"),
            ),
            at="np.interp(x.numpy(), knots, values)",
            title="linear interpolation",
            facts={
                "np.interp(x.numpy(), knots, values)": _ARRAY,
                "knots": _ARRAY,
                "values": _ARRAY,
            },
        ),
        Example(
            _source("return np.isin(x.numpy(), values)"),
            _source(
                "return torch.isin(x.double(), "
                "torch.as_tensor(values, dtype=torch.float64)).numpy()"
            ),
            at="np.isin(x.numpy(), values)",
            title="membership",
            facts={"np.isin(x.numpy(), values)": _ARRAY, "values": _ARRAY},
        ),
        Example(
            _source("return np.select([x.numpy() > 1, x.numpy() > 0], [knots, values], 0.0)"),
            _source("return np.where(x.numpy() > 1, knots, np.where(x.numpy() > 0, values, 0.0))"),
            at="np.select([x.numpy() > 1, x.numpy() > 0], [knots, values], 0.0)",
            title="a choice",
            facts={
                "np.select([x.numpy() > 1, x.numpy() > 0], [knots, values], 0.0)": _ARRAY,
                "values": _ARRAY,
                "knots": _ARRAY,
            },
        ),
    )
    near_misses = (
        NearMiss(
            _source("return np.interp(x.numpy(), knots, values, left=0)"),
            at="np.interp(x.numpy(), knots, values, left=0)",
            why="options change what lies outside",
            facts={"np.interp(x.numpy(), knots, values, left=0)": _ARRAY},
        ),
        NearMiss(
            _source("return np.interp(0.5, [0, 1], [2, 3])"),
            at="np.interp(0.5, [0, 1], [2, 3])",
            why="a single number",
            facts={"np.interp(0.5, [0, 1], [2, 3])": Fact("object", "numpy.float64")},
        ),
        NearMiss(
            _source("return np.linalg.svd(x.numpy())"),
            at="np.linalg.svd(x.numpy())",
            why="another function",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        splice, torch = Splice(site), torch_name(site)
        done: list[str] = []
        notes: list[str] = []
        helper = ""
        for node in walk(site.statement):
            name = _numpy_name(site, node)
            if not name or not isinstance(node, cst.Call):
                continue
            if name == "interp":
                helper = helper or _free_name(site)
                text = helper and _call(site, node, helper, torch, 3, wrap=False)
                notes.append(_ONE_KNOT)
            elif name == "select":
                text = _select(site, node)
            elif name == "digitize":
                text = _digitized(site, node, torch)
                notes.append(_FALLING)
            elif name == "isin":
                text = _member(site, node, torch)
            else:
                text = _call(site, node, f"{torch}.{name}", torch, 1)
            if not text:
                return
            splice.replace(node, text)
            done.append(name)
            break
        if not done:
            return
        if helper:
            top = site.top_level_statement(site.node)
            written = _INTERPOLATE.format(name=helper, torch=torch)
            written = written.replace("    ", site.module.default_indent)
            written = written.replace("\n", site.module.default_newline)
            splice.insert(_first_line(site, top), 0, written)
        yield splice.rewrite(
            f"compute `np.{done[0]}` with torch",
            rank=14,
            safety=Safety.UNSAFE if "digitize" in done else Safety.SAFE,
            notes=notes,
        )


_FUNCTIONS = ("interp", "isin", "nansum", "nanmean", "select", "digitize")


def _numpy_name(site: Site, node: cst.CSTNode) -> str:
    """The name of a function that is translated here, where it gave an array."""
    if not isinstance(node, cst.Call) or any(arg.star or arg.keyword for arg in node.args):
        return ""
    name = (resolve(site.module, node.func) or "").removeprefix("numpy.")
    fact = site.fact(node)
    if name not in _FUNCTIONS or fact is None or fact.kind != "ndarray":
        return ""
    return name


def _call(
    site: Site, node: cst.Call, function: str, torch: str, count: int, *, wrap: bool = True
) -> str:
    if len(node.args) != count:
        return ""
    parts = [_tensor(arg.value) for arg in node.args]
    texts = [
        found or (f"{torch}.as_tensor({code(arg.value)})" if wrap else code(arg.value))
        for found, arg in zip(parts, node.args, strict=True)
    ]
    return f"{function}({', '.join(texts)}).numpy()"


def _member(site: Site, node: cst.Call, torch: str) -> str:
    """Membership among float64, as numpy compares with Python's numbers: 0.1 is no float32."""
    if len(node.args) != 2:
        return ""
    parts = [arg.value for arg in node.args]
    if all(_is_whole(site, part) for part in parts):
        return _call(site, node, f"{torch}.isin", torch, 2)
    values, marks = (
        f"{_tensor(part)}.double()"
        if _tensor(part)
        else f"{torch}.as_tensor({code(part)}, dtype={torch}.float64)"
        for part in parts
    )
    return f"{torch}.isin({values}, {marks}).numpy()"


def _is_whole(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an array, or a list, holds whole numbers."""
    fact = site.fact(node)
    if fact is None:
        return False
    if fact.items:
        return all(item.kind in ("int", "bool") for item in fact.items)
    return any(kind in (fact.dtype or "") for kind in ("int", "bool"))


def _tensor(node: cst.BaseExpression) -> str:
    """``x`` of ``x.numpy()``"""
    match node:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("numpy")), args=[]):
            return code(value)
    return ""


def _digitized(site: Site, node: cst.Call, torch: str) -> str:
    if len(node.args) != 2:
        return ""
    values, bins = (
        _tensor(arg.value) or f"{torch}.as_tensor({code(arg.value)})" for arg in node.args
    )
    return f"{torch}.bucketize({values}.double(), {bins}.double(), right=True).numpy()"


def _select(site: Site, node: cst.Call) -> str:
    """``np.select([a, b], [x, y], z)`` is ``np.where(a, x, np.where(b, y, z))``."""
    if len(node.args) not in (2, 3):
        return ""
    tests, values = node.args[0].value, node.args[1].value
    if not isinstance(tests, cst.List) or not isinstance(values, cst.List):
        return ""
    if len(tests.elements) != len(values.elements) or not tests.elements:
        return ""
    if any(isinstance(item, cst.StarredElement) for item in (*tests.elements, *values.elements)):
        return ""
    numpy = code(node.func).rpartition(".")[0]
    if not numpy:
        return ""
    text = code(node.args[2].value) if len(node.args) == 3 else "0"
    for test, value in zip(reversed(tests.elements), reversed(values.elements), strict=True):
        text = f"{numpy}.where({code(test.value)}, {code(value.value)}, {text})"
    return text


def _free_name(site: Site) -> str:
    taken = names_in(site.module)
    return next((name for name in ("interpolate", "interp_linear") if name not in taken), "")


def _first_line(site: Site, node: cst.CSTNode) -> int:
    decorators = getattr(node, "decorators", ())
    line = site.span(decorators[0] if decorators else node).line
    for above in reversed(getattr(node, "leading_lines", ())):
        if above.comment is None:
            break
        line -= 1
    return line
