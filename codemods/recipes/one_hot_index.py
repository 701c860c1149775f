"""One element of each row, selected by a mask that a one-hot code makes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.names import bindings, only_line

from ..api.splice import Splice
from ..data_dependent.flow import torch_name

_ONE_HOT = "torch.nn.functional.one_hot"
_WIDTH = "a one-hot code that is wider or narrower than the tensor raises no error any more"
_FACTS = {
    "x": tensor(5, 4, 3),
    "logits": tensor(5, 4),
    "best": tensor(5, dtype="torch.int64"),
    "x.argmax(-1)": tensor(5, 4, dtype="torch.int64"),
    "mask": tensor(5, 4, dtype="torch.bool"),
    "logits * 2": tensor(5, 4),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\nimport torch.nn.functional as F\n\n\ndef f(x, logits, best, n):\n{body}"


class OneHotIndex(Codemod):
    """*What it does.*  Takes one element of each row by its index, and not by a mask that is true
    there: ``x[F.one_hot(best, 4) > 0.5, :]`` becomes
    ``torch.take_along_dim(x, best[..., None, None], 1).flatten(0, 1)``.

    *When it applies.*  The mask is a one-hot code with a width that is given, compared with a
    number between 0 and 1 or converted to truth values, and covers the first dimensions of what it
    selects from.  It may have a name, where the index has one and keeps it.

    *Fix safety.*  Safe: a one-hot code is true once in each row, so as many elements come in the
    same order, and their gradients go back to the same places.  An index that is out of range
    raises an error in both.

    *Refuses.*  Codes whose width the data decide, what is written by such a mask, and indices that
    change between the mask and the selection.
    """

    name = "one-hot-index"
    codes = ("GB0036", "data-dependent-guard", "data-dependent-other")
    examples = (
        Example(
            _source("return x[F.one_hot(best, num_classes=4) > 0.5, :]"),
            _source("return torch.take_along_dim(x, best[..., None, None], 1).flatten(0, 1)"),
            at="x[F.one_hot(best, num_classes=4) > 0.5, :]",
            facts=_FACTS,
            title="one row of each matrix",
        ),
        Example(
            _source("return (logits * 2)[F.one_hot(best, n).bool()].log()"),
            _source(
                "return torch.take_along_dim(logits * 2, best[..., None], 1).flatten(0, 1).log()"
            ),
            at="(logits * 2)[F.one_hot(best, n).bool()]",
            facts=_FACTS,
            title="one element of each row",
        ),
        Example(
            _source("mask = F.one_hot(best, n) == 1", "return x[mask]"),
            _source(
                "mask = F.one_hot(best, n) == 1",
                "return torch.take_along_dim(x, best[..., None, None], 1).flatten(0, 1)",
            ),
            at="x[mask]",
            facts=_FACTS,
            title="a mask with a name",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at=at, why=why, facts={**_FACTS, **facts})
        for why, at, lines, facts in (
            ("the data decide the width", "x[mask]",
             ("mask = F.one_hot(best) == 1", "return x[mask]"), {}),
            ("all the others", "x[mask]",
             ("mask = F.one_hot(best, n) == 0", "return x[mask]"), {}),
            ("all of them", "x[mask]",
             ("mask = F.one_hot(best, n) > -1", "return x[mask]"), {}),
            ("the index changes", "x[mask]",
             ("mask = F.one_hot(best, n) == 1", "best += 1", "return x[mask]"), {}),
            ("the index gets another value", "x[mask]",
             ("mask = F.one_hot(best, n) == 1", "best = best + 1", "return x[mask]"), {}),
            ("the mask changes", "x[mask]",
             ("mask = F.one_hot(best, n) == 1", "mask[0] = False", "return x[mask]"), {}),
            ("it is written to", "x[F.one_hot(best, n).bool()] = 0",
             ("x[F.one_hot(best, n).bool()] = 0",), {}),
            ("more dimensions than there are", "x[F.one_hot(best, n).bool()]",
             ("return x[F.one_hot(best, n).bool()]",), {"x": tensor(5)}),
            ("an index beside the mask", "x[F.one_hot(best, n).bool(), 0]",
             ("return x[F.one_hot(best, n).bool(), 0]",), {}),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        splice, torch, found = Splice(site), torch_name(site), False
        for node in walk(site.statement):
            if not isinstance(node, cst.Subscript) or comments_in(node):
                continue
            index = _index(site, node)
            held = infer(node.value, site.fact)
            places = infer(index, site.fact) if index is not None else None
            if index is None or held is None or places is None:
                continue
            if held.shape is None or places.shape is None:
                continue
            dims = len(places.shape)
            if len(held.shape) <= dims or isinstance(site.parent(node), _WRITTEN):
                continue
            source = splice.source_of(node.value)
            if isinstance(node.value, cst.BinaryOperation | cst.UnaryOperation):
                source = source.removeprefix("(").removesuffix(")")
            text = code(index)
            if not isinstance(index, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
                text = f"({text})"
            more = ", ".join(["..."] + ["None"] * (len(held.shape) - dims))
            splice.replace(
                node,
                f"{torch}.take_along_dim({source}, {text}[{more}], {dims}).flatten(0, {dims})",
            )
            found = True
        if found:
            yield splice.rewrite(
                "take one element of each row by its index", rank=11, notes=[_WIDTH]
            )


_WRITTEN = cst.AssignTarget | cst.AugAssign | cst.Del | cst.AnnAssign


def _index(site: Site, node: cst.Subscript) -> cst.BaseExpression | None:
    """The index that the mask of a selection is the code of."""
    first, *rest = (part.slice for part in node.slice)
    if not isinstance(first, cst.Index) or any(code(part) != ":" for part in rest):
        return None
    mask = first.value
    if not isinstance(mask, cst.Name):
        return _coded(site, mask)
    match only_line(site, mask.value):
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]):
            index = _coded(site, value)
        case _:
            return None
    assert site.function is not None
    does = activity(site.function.body)
    if not isinstance(index, cst.Name) or {mask.value, index.value} & does.mutates:
        return None
    kept = not bindings(site, index.value) or only_line(site, index.value) is not None
    return index if kept else None


def _coded(site: Site, mask: cst.BaseExpression) -> cst.BaseExpression | None:
    """``best`` of ``F.one_hot(best, 4) > 0.5``, ``F.one_hot(best, 4).bool()`` and the like."""
    match mask:
        case cst.Comparison(
            left=made, comparisons=[cst.ComparisonTarget(operator=operator, comparator=bound)]
        ) if _is_true_for_one(operator, code(bound)):
            pass
        case cst.Call(func=cst.Attribute(value=made, attr=cst.Name("bool")), args=[]):
            pass
        case cst.Call(
            func=cst.Attribute(value=made, attr=cst.Name("to" | "type")), args=[cst.Arg(value=kind)]
        ) if resolve(site.module, kind) == "torch.bool":
            pass
        case _:
            return None
    if not isinstance(made, cst.Call) or resolve(site.module, made.func) != _ONE_HOT:
        return None
    match made.args:
        case [cst.Arg(value=index, keyword=None), cst.Arg(value=width, star="")]:
            return index if code(width) != "-1" else None
    return None


def _is_true_for_one(operator: cst.BaseCompOp, bound: str) -> bool:
    """Whether a comparison holds for 1 and not for 0."""
    match operator:
        case cst.Equal():
            return bound in ("1", "1.0")
        case cst.NotEqual():
            return bound in ("0", "0.0")
        case cst.GreaterThan():
            return bound in ("0", "0.0", "0.5")
        case cst.GreaterThanEqual():
            return bound in ("1", "1.0", "0.5")
    return False
