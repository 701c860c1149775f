"""Loops over ``torch.arange`` and ``np.arange``, whose numbers Dynamo only knows as tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..wrap.loose import is_int_by_text

_ARANGE = frozenset({"torch.arange", "numpy.arange"})
_NOTE = "`range` is empty where `torch.arange` raises an error, as its end lies before its start"
#: What the loop's number may go through on its way into an index: ints stay ints.
_INT_OPERATORS = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo
_FACTS = {"x": tensor(4, 4), "n": scalar(3, constant=False), "label": tensor(4)}


def _source(*lines: str, imports: str = "import numpy as np\nimport torch\n") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{imports}\n\ndef f(x, n, label):\n{body}"


class StaticRange(Codemod):
    """*What it does.*  Loops over ``range`` instead of a tensor or an array of consecutive ints:
    ``for i in torch.arange(x.size(0)):`` becomes ``for i in range(x.size(0)):``, and
    ``torch.arange(n).tolist()`` becomes ``list(range(n))``.

    *When it applies.*  The arguments of ``arange`` are ints of Python, and the loop's number is
    only an index, a bound of a slice, or compared with ints.

    *Fix safety.*  Safe where the loop surely does not count below zero: over sizes, lengths and
    literals.  Unsafe for other numbers: ``torch.arange`` of a negative one raises an error, and
    numpy's counts to 2.5, too.

    *Refuses.*  ``arange`` with a dtype or other keywords, of floats or tensors, numbers that go
    into arithmetic, text or calls, and loops that bind their number again.
    """

    name = "static-range"
    codes = (
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
        "GB0033",
        "GB0059",
        "GB0124",
        "GB0170",
        "internal-error",
    )

    examples = tuple(
        Example(_source(*before), _source(*after), at=at, title=title, facts=_FACTS, code=code)
        for title, before, after, at, code in (
            (
                "an index",
                ("for i in torch.arange(x.size(0)):", "    x = x + x[i, : i + 1]", "return x"),
                ("for i in range(x.size(0)):", "    x = x + x[i, : i + 1]", "return x"),
                "x = x + x[i, : i + 1]",
                "",
            ),
            (
                "a comparison, numpy",
                (
                    "for i in np.arange(3):  # all",
                    "    if i == 0:",
                    "        x = x + x[i]",
                    "return x",
                ),
                (
                    "for i in range(3):  # all",
                    "    if i == 0:",
                    "        x = x + x[i]",
                    "return x",
                ),
                "i == 0",
                "GB0170",
            ),
            (
                "a list that is looped over",
                ("for i in torch.arange(1, 4).tolist():", "    x = x + i", "return x"),
                ("for i in range(1, 4):", "    x = x + i", "return x"),
                "torch.arange(1, 4).tolist()",
                "GB0033",
            ),
            (
                "a list",
                ("rows = torch.arange(len(x)).tolist()", "return x[rows[1:]]"),
                ("rows = list(range(len(x)))", "return x[rows[1:]]"),
                "torch.arange(len(x)).tolist()",
                "GB0033",
            ),
            (
                "the dimensions behind the first",
                ("dims = torch.arange(1, len(x.shape)).tolist()", "return x.sum(dims)"),
                ("dims = list(range(1, len(x.shape)))", "return x.sum(dims)"),
                "torch.arange(1, len(x.shape)).tolist()",
                "GB0033",
            ),
            (
                "a number that might be negative",
                ("for i in torch.arange(n):", "    x = x + x[i]", "return x"),
                ("for i in range(n):", "    x = x + x[i]", "return x"),
                "x = x + x[i]",
                "",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(*source), at=at, why=why, facts={**_FACTS, **facts})
        for source, at, why, facts in (
            (
                ("for i in torch.arange(3):", "    x = x[i] * i", "return x"),
                "x = x[i] * i",
                "a tensor of a number promotes differently",
                {},
            ),
            (
                ("for i in torch.arange(3):", "    n.append(x[i], i)", "return x"),
                "n.append(x[i], i)",
                "the number goes into a call",
                {},
            ),
            (
                ("for i in torch.arange(3):", "    x = x[i]", "    i = i + 1", "return x"),
                "x = x[i]",
                "bound again",
                {},
            ),
            (
                ("for i in torch.arange(3):", "    x = x[i]", "return x, i"),
                "x = x[i]",
                "used after the loop",
                {},
            ),
            (
                ("for i in torch.arange(3):", "    x = x[~(i == 0)]"),
                "x = x[~(i == 0)]",
                "a bool is inverted otherwise than a tensor",
                {},
            ),
            (
                ("list = n", "return torch.arange(3).tolist()"),
                "torch.arange(3).tolist()",
                "`list` is another name here",
                {},
            ),
            (
                ("for i in torch.arange(0.5):", "    x = x[i]"),
                "x = x[i]",
                "a float",
                {},
            ),
            (
                ("for i in torch.arange(3, dtype=torch.int32):", "    x = x[i]"),
                "x = x[i]",
                "another dtype",
                {},
            ),
            (
                ("for i in torch.arange(n):", "    x = x[i]"),
                "x = x[i]",
                "a tensor decides how far",
                {"n": tensor(dtype="torch.int64")},
            ),
            (
                ("for i in torch.arange(3):", "    x = x[f'{i}']"),
                "x = x[f'{i}']",
                "its text is another one",
                {},
            ),
            (
                ("for i in torch.arange(3):", "    x = label[i]"),
                "x = label[i]",
                "a dict finds another key",
                {"label": Fact("dict", "dict")},
            ),
            (
                ("for i in torch.arange(5, 2):", "    x = x[i]"),
                "x = x[i]",
                "raises an error",
                {},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for found in _loops(site):
            if not _only_an_index(site, found):
                continue
            yield from _rewrite(site, found.iterable, found.arange, looped=True)
            return
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for node in walk(site.node):
            arange = _listed(site, node)
            if arange is not None:
                yield from _rewrite(site, node, arange, looped=_is_looped_over(site, node))
                return


@dataclasses.dataclass(frozen=True)
class _Loop:
    statement: cst.For
    target: str
    iterable: cst.BaseExpression
    arange: cst.Call


def _rewrite(site: Site, node: cst.CSTNode, arange: cst.Call, *, looped: bool) -> Iterator[Rewrite]:
    safe = _safe(site, arange)
    if safe is None or comments_in(node):
        return
    if not looped and resolve(site.module, cst.Name("list"), at=arange) != "builtins.list":
        return
    splice = Splice(site)
    arguments = ", ".join(splice.source_of(arg.value) for arg in arange.args)
    new = f"range({arguments})"
    splice.replace(node, new if looped else f"list({new})")
    yield splice.rewrite(
        f"count with `{new.splitlines()[0]}`",
        safety=Safety.SAFE if safe else Safety.UNSAFE,
        notes=() if safe and _counts_from_none(arange) else (_NOTE,),
        rank=12 if safe else 60,
    )


def _counts_from_none(arange: cst.Call) -> bool:
    """Whether no size is too small for the start."""
    values = [arg.value for arg in arange.args]
    both = all(isinstance(value, cst.Integer) for value in values)
    return len(values) == 1 or both or getattr(values[0], "evaluated_value", 1) == 0


def _loops(site: Site) -> Iterator[_Loop]:
    """The loops over ``arange`` whose number the breaking statement (or its head) reads."""
    simple = isinstance(site.statement, cst.SimpleStatementLine)
    head = site.statement if simple else site.node
    read = {node.value for node in walk(head) if isinstance(node, cst.Name)}
    for outer in (site.statement, *site.ancestors(site.statement)):
        if isinstance(outer, cst.FunctionDef):
            return
        if not isinstance(outer, cst.For) or not isinstance(outer.target, cst.Name):
            continue
        arange = _arange(site, outer.iter)
        if arange is not None and outer.target.value in read:
            yield _Loop(outer, outer.target.value, outer.iter, arange)


def _arange(site: Site, node: cst.BaseExpression) -> cst.Call | None:
    """The call of ``arange`` if the expression is one."""
    if isinstance(node, cst.Call) and resolve(site.module, node.func) in _ARANGE:
        return node
    return None


def _listed(site: Site, node: cst.CSTNode) -> cst.Call | None:
    """The call of ``arange`` in ``arange(...).tolist()``."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return None
    return _arange(site, node.func.value) if node.func.attr.value == "tolist" else None


def _is_looped_over(site: Site, node: cst.CSTNode) -> bool:
    holder = site.parent(node)
    return isinstance(holder, cst.For | cst.CompFor) and holder.iter is node


def _safe(site: Site, arange: cst.Call) -> bool | None:
    """Whether ``range`` surely counts the same; None where the arguments are no plain ints."""
    if resolve(site.module, cst.Name("range"), at=arange) != "builtins.range":
        return None
    if any(arg.star or arg.keyword is not None for arg in arange.args):
        return None
    values = [arg.value for arg in arange.args]
    facts = [infer(value, site.fact) for value in values]
    if not 1 <= len(facts) <= 2 or any(fact is None or fact.kind != "int" for fact in facts):
        return None
    never_below = _never_negative(site, values[-1])
    if len(values) == 1:
        # (numpy counts to 2.5, too.)
        numpy = resolve(site.module, arange.func) == "numpy.arange"
        return never_below or (numpy and is_int_by_text(site, values[0]))
    start, end = values
    if not isinstance(start, cst.Integer):
        return None
    if isinstance(end, cst.Integer):
        return True if start.evaluated_value <= end.evaluated_value else None
    return never_below and (start.evaluated_value <= 1 or _is_rank(site, end))


def _is_rank(site: Site, node: cst.BaseExpression) -> bool:
    """``x.dim()``, ``x.ndim``, ``len(x.shape)``: the same in all calls of one kind."""
    match node:
        case cst.Attribute(value=owner, attr=cst.Name("ndim")):
            pass
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("dim")), args=[]):
            pass
        case cst.Call(func=func, args=[cst.Arg(value=owner)]):
            fact = infer(owner, site.fact)
            known = resolve(site.module, func) == "builtins.len"
            return known and fact is not None and fact.type == "torch.Size"
        case _:
            return False
    fact = infer(owner, site.fact)
    return fact is not None and fact.is_tensor


def _never_negative(site: Site, node: cst.BaseExpression) -> bool:
    """Literals, ``len()``, sizes and numbers of dimensions of tensors."""
    if isinstance(node, cst.Integer) or _is_rank(site, node):
        return True
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            fact = infer(node.func.value, site.fact)
            name = node.func.attr.value
            return name in ("size", "numel", "dim") and fact is not None and fact.is_tensor
        return resolve(site.module, node.func) == "builtins.len"
    if isinstance(node, cst.Subscript):
        fact = infer(node.value, site.fact)
        return fact is not None and fact.type == "torch.Size"
    return False


def _only_an_index(site: Site, loop: _Loop) -> bool:
    """Whether an int does for the loop's number wherever the function uses it."""
    assert site.function is not None
    inside = {id(node) for node in walk(loop.statement.body)}
    for use in site.places_of(loop.target, site.function):
        if use is loop.statement.target:
            continue
        plain = id(use) in inside and site.function_of(use) is site.function
        if not plain or not _is_index(site, use):
            return False
    return True


def _is_index(site: Site, node: cst.CSTNode) -> bool:
    child, holder = node, site.parent(node)
    while holder is not None:
        if isinstance(holder, cst.BinaryOperation):
            other = holder.right if holder.left is child else holder.left
            if not isinstance(holder.operator, _INT_OPERATORS) or not _is_int(site, other):
                return False
        elif isinstance(holder, cst.Comparison):
            others = [holder.left, *(part.comparator for part in holder.comparisons)]
            ints = [other for other in others if other is not child and _is_int(site, other)]
            return len(others) == 2 and bool(ints) and _decides(site, holder)
        elif isinstance(holder, cst.ComparisonTarget):
            holder = site.parent(holder)
            assert isinstance(holder, cst.Comparison)
            alone = len(holder.comparisons) == 1
            return alone and _is_int(site, holder.left) and _decides(site, holder)
        elif isinstance(holder, cst.SubscriptElement):
            subscript = site.parent(holder)
            assert isinstance(subscript, cst.Subscript)
            fact = infer(subscript.value, site.fact)
            return fact is not None and (fact.is_tensor or fact.kind in ("list", "tuple"))
        elif not isinstance(holder, cst.Index | cst.Slice | cst.UnaryOperation):
            return False
        child, holder = holder, site.parent(holder)
    return False


def _decides(site: Site, test: cst.BaseExpression) -> bool:
    """Whether only the truth of a comparison counts: a tensor of a bool does more than a bool."""
    child, holder = test, site.parent(test)
    while isinstance(holder, cst.BooleanOperation | cst.UnaryOperation):
        if isinstance(holder, cst.UnaryOperation) and not isinstance(holder.operator, cst.Not):
            return False
        child, holder = holder, site.parent(holder)
    return isinstance(holder, cst.If | cst.While | cst.IfExp | cst.Assert) and holder.test is child


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    fact = infer(node, site.fact)
    return fact is not None and fact.kind == "int"
