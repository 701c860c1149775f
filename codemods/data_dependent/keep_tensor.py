"""``.item()`` where only tensor arithmetic follows."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice

_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
_INTS = words("torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")
_WIDE = words("torch.float32 torch.float64")
#: Methods whose result is new memory: nobody can change it between the read and the use.
_REDUCTIONS = words("sum mean max min amax amin prod norm std var median logsumexp trace")
_OPERATORS = cst.Add | cst.Subtract | cst.Multiply | cst.Divide
_FACTS = {
    "x": tensor(3, requires_grad=True),
    "x.sum()": tensor(requires_grad=True),
    "t": tensor(),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, t, n):\n{body}"


class KeepTensor(Codemod):
    """*What it does.*  Leaves a number on the tensor side: ``x / x.sum().item()`` becomes
    ``x / x.sum().detach()``.

    Reading a number out of a tensor ends the graph, or makes the number a symbol.  Where the number
    only goes into arithmetic with a tensor, a 0-dimensional tensor does the same.

    *When it applies.*  ``.item()`` or ``float()`` of a 0-dimensional tensor, used in ``+ - * /``
    with a tensor of at least one dimension, of the same dtype and device (or the number is an int),
    at once or through a name that is bound once and used in no other way.

    *Fix safety.*  Safe where a tensor meets its own reduction (``x / x.sum().item()``).  Unsafe
    elsewhere, as that the other has no dimensions, and no wider kind of number, was only seen.
    ``.detach()`` keeps the gradient out as ``.item()`` did, and what others may change is copied.

    *Refuses.*  Other dtypes, whose promotion would differ, other uses (``if``, ``range``, a
    ``return``, a call), closures, and ``1 / number``, which fails for zero.
    """

    name = "keep-tensor"
    codes = ("GB0124", "data-dependent-guard", "data-dependent-other")

    examples = tuple(
        Example(_source(*before), _source(*after), at=at, facts={**_FACTS, **facts}, title=title)
        for title, before, after, at, facts in (
            (
                "at once",
                ("return x / x.sum().item()",),
                ("return x / x.sum().detach()",),
                "x.sum().item()",
                {},
            ),
            (
                "through a name",
                ("s = x.sum().item()  # total", "y = x / (s + 1e-6)", "return y * 2 - s * y"),
                ("s = x.sum().detach()  # total", "y = x / (s + 1e-6)", "return y * 2 - s * y"),
                "x.sum().item()",
                {"y": tensor(3)},
            ),
            (
                "a tensor that may change before the name is read",
                ("s = t.item()", "t.add_(1)", "return x * s"),
                ("s = t.detach().clone()", "t.add_(1)", "return x * s"),
                "t.item()",
                {},
            ),
            (
                "float()",
                ("return float(x.sum()) * x",),
                ("return x.sum().detach() * x",),
                "float(x.sum())",
                {},
            ),
            (
                "an int",
                ("return x * n.item()",),
                ("return x * n.detach().clone()",),
                "n.item()",
                {"n": tensor(dtype="torch.int64")},
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(*source), at=at, why=why, facts={**_FACTS, **facts})
        for source, at, why, facts in (
            (("return x, x.sum().item()",), "x.sum().item()", "the number is returned", {}),
            (("if t.item() > 0:", "    return x"), "t.item()", "decides something", {}),
            (("return 1 / t.item() * x",), "t.item()", "division by zero fails", {}),
            (
                ("return x * t.item()",),
                "t.item()",
                "another dtype promotes differently",
                {"t": tensor(dtype="torch.float64")},
            ),
            (
                ("return x * t.item()",),
                "t.item()",
                "another device",
                {"t": tensor(device="cuda:0")},
            ),
            (
                ("return x * t.item()",),
                "t.item()",
                "of two 0-dimensional tensors, both count for the dtype",
                {"x": tensor(), "t": tensor(dtype="torch.int64")},
            ),
            (("return x * t.item()",), "t.item()", "one dimension", {"t": tensor(1)}),
            (
                ("s = t.item()", "y = x * s", "return y, s"),
                "t.item()",
                "the name is returned, too",
                {},
            ),
            (
                ("s = t.item()", "g = lambda y: y * s", "return g(x)"),
                "t.item()",
                "used in a closure",
                {},
            ),
            (
                ("s = t.item()", "if n:", "    s = 2", "return x * s"),
                "t.item()",
                "the name is bound twice",
                {"n": scalar(1)},
            ),
            (
                ("return (x > 0) * t.item()",),
                "t.item()",
                "a mask takes the dtype of the number",
                {"x > 0": tensor(3, dtype="torch.bool")},
            ),
            (("return x ** t.item()",), "t.item()", "powers of ints are special", {}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        statement = site.statement
        if site.function is None or not isinstance(statement, cst.SimpleStatementLine):
            return
        inside = site.node if isinstance(site.node, cst.BaseExpression) else statement
        for node in walk(inside):
            value = _number_of(site, node) if isinstance(node, cst.Call) else None
            if value is None:
                continue
            splice = Splice(site)
            suffix = _suffix(site, node, value)
            if suffix is None:
                return
            text = splice.source_of(value)
            tight = isinstance(value, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
            splice.replace(node, f"{text if tight or value.lpar else f'({text})'}{suffix}")
            sure = _is_own_reduction(site, node, value)
            yield splice.rewrite(
                "keep the number a tensor: only arithmetic with tensors follows",
                rank=15,
                safety=Safety.SAFE if sure else Safety.UNSAFE,
                notes=() if sure else (_AS_SEEN,),
            )
            return


_AS_SEEN = (
    "the tensor is taken to have no dimensions, and no wider kind of number than what it meets, as"
    " was seen"
)


def _is_own_reduction(site: Site, read: cst.CSTNode, value: cst.BaseExpression) -> bool:
    """Whether the number is all of ``x`` reduced, and meets only that ``x``: ``x / x.sum()``."""
    match value:
        case cst.Call(func=cst.Attribute(value=base, attr=attr), args=[]):
            whole = attr.value in _REDUCTIONS
        case _:
            return False
    holder = site.parent(read)
    uses: list[cst.Name] | list[cst.CSTNode] = [read]
    if isinstance(holder, cst.Assign):
        uses = _uses_of_name(site, holder)
        if site.function is None or set(activity(site.function.body).writes) & activity(base).reads:
            return False
    met = [(use, site.parent(use)) for use in uses]
    return whole and all(
        isinstance(outer, cst.BinaryOperation)
        and code(outer.right if outer.left is use else outer.left) == code(base)
        for use, outer in met
    )


def _number_of(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor of which the call reads the number: ``t.item()``, ``float(t)``."""
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "item" and not call.args:
        return func.value
    if len(call.args) == 1 and resolve(site.module, func) == "builtins.float":
        arg = call.args[0]
        fact = infer(arg.value, site.fact)
        floats = fact is not None and fact.is_tensor and fact.dtype in _FLOATS
        return arg.value if floats and not arg.star and arg.keyword is None else None
    return None


def _suffix(site: Site, read: cst.CSTNode, value: cst.BaseExpression) -> str | None:
    """What makes the tensor do for the number; None where it does not."""
    fact = infer(value, site.fact)
    if fact is None or not fact.is_tensor or fact.shape != ():
        return None
    if fact.dtype not in _FLOATS | _INTS or fact.type.rpartition(".")[2] != "Tensor":
        return None
    holder = site.parent(read)
    if not isinstance(holder, cst.Assign):
        if not _goes_into_tensor(site, read, fact):
            return None
        return ".detach()" if _is_fresh(value) else ".detach().clone()"
    uses = _uses_of_name(site, holder)
    if not uses or not all(_goes_into_tensor(site, use, fact) for use in uses):
        return None
    return ".detach()" if _is_fresh(value) else ".detach().clone()"


def _is_fresh(value: cst.BaseExpression) -> bool:
    """Whether nobody else holds the tensor, who might change it before the backward pass."""
    return (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in _REDUCTIONS
    )


def _uses_of_name(site: Site, assign: cst.Assign) -> list[cst.Name]:
    """All uses of the one name that the statement binds; none where they are not plain to see."""
    function, target = site.function, assign.targets[0].target
    if function is None or len(assign.targets) != 1 or not isinstance(target, cst.Name):
        return []
    names = [
        node
        for node in walk(function)
        if isinstance(node, cst.Name) and node.value == target.value and node is not target
    ]
    plain = [
        node
        for node in names
        if not (isinstance(holder := site.parent(node), cst.Attribute) and holder.attr is node)
        and not (isinstance(holder, cst.Arg) and holder.keyword is node)
    ]
    return plain if all(site.function_of(node) is function for node in plain) else []


def _goes_into_tensor(site: Site, node: cst.CSTNode, number: Fact) -> bool:
    """Whether the number at the node goes into arithmetic with a tensor that decides the dtype."""
    holder = site.parent(node)
    if not isinstance(holder, cst.BinaryOperation) or not isinstance(holder.operator, _OPERATORS):
        return False
    is_left = holder.left is node
    other = holder.right if is_left else holder.left
    if isinstance(other, cst.Integer | cst.Float):
        # ``s + 1e-6``: still a number, of the same precision if the tensor is wide.
        divides = isinstance(holder.operator, cst.Divide)
        harmless = not divides or (is_left and other.evaluated_value != 0)
        return harmless and number.dtype in _WIDE and _goes_into_tensor(site, holder, number)
    fact = infer(other, site.fact)
    if fact is None or not fact.is_tensor or not fact.shape or fact.device != number.device:
        return False
    return fact.dtype in _FLOATS and (fact.dtype == number.dtype or number.dtype in _INTS)
