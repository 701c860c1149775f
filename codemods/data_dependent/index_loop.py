"""A loop that counts into the place which each label names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.scopes import function_scope, import_map, resolve
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..api.splice import Splice

_LABELS = tensor(3, dtype="torch.int64")
_FACTS = {
    "counts": tensor(3, 4),
    "labels": _LABELS,
    "1": scalar(1),
    "value": scalar(0.5),
    "labels.size(0)": scalar(3),
    "len(labels)": scalar(3),
}


def _source(body: str) -> str:
    return f"import torch\n\n\ndef f(counts, labels, value):\n    {body}\n    return counts\n"


class IndexLoop(Codemod):
    """*What it does.*  Writes into the place that each row's label names at once:
    ```python
    for i in range(labels.size(0)):
        one_hot[i, labels[i]] += 1
    ```
    becomes ``one_hot[torch.arange(labels.size(0)), labels] += 1``.

    *When it applies.*  The loop has this one statement (or sets a number instead of adding one),
    runs over all labels (or over as many as another tensor has rows), and all was recorded: a
    two-dimensional tensor, a vector of labels of integers on the same device, a Python number.

    *Fix safety.*  Safe: every row is written once, so that no place is counted twice.  A label out
    of range raises ``IndexError`` in both, in the loop after the rows before it were written.

    *Refuses.*  Loops over other ranges, more statements, values that are tensors, masks, loop
    variables that are used afterwards, and tensors that require gradients.
    """

    name = "index-loop"
    codes = (
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
        "GB0124",
        "GB0033",
        "GB0170",
        "GB0059",
    )

    examples = tuple(
        Example(
            _source(before),
            _source(after),
            at="counts[i, labels[i]]",
            facts=_FACTS,
            title=title,
        )
        for title, before, after in (
            (
                "a one-hot matrix",
                "# count\n    for i in range(labels.size(0)):\n        counts[i, labels[i]] += 1",
                "# count\n    counts[torch.arange(labels.size(0)), labels] += 1",
            ),
            (
                "a number is set",
                "for i in range(len(labels)):\n        counts[i, labels[i]] = value",
                "counts[torch.arange(len(labels)), labels] = value",
            ),
            (
                "as many as another tensor has rows",
                "for i in range(counts.shape[0]):\n        counts[i, labels[i]] += 1",
                "counts[torch.arange(counts.shape[0]), labels[torch.arange(counts.shape[0])]] += 1",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(text), at="labels[i]", why=why, facts={**_FACTS, **facts})
        for text, why, facts in (
            (
                "for i in range(2):\n        counts[i, labels[i]] += 1",
                "some of the labels",
                {"2": scalar(2)},
            ),
            (
                "for i in range(len(labels)):\n        counts[0, labels[i]] += 1",
                "one row counts several",
                {},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += value",
                "a tensor",
                {"value": tensor()},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1\n    counts = i",
                "the loop variable is read afterwards",
                {},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1\n"
                "        counts = counts * 2",
                "another statement",
                {},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "a mask",
                {"labels": tensor(3, dtype="torch.bool")},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "each label names several",
                {"labels": tensor(3, 2, dtype="torch.int64")},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "whole rows",
                {"counts": tensor(3, 4, 5)},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "an error half way through: a gradient",
                {"counts": tensor(3, 4, requires_grad=True)},
            ),
            (
                "for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "labels in the same memory",
                {
                    "counts": dataclasses.replace(tensor(3, 4, dtype="torch.int64"), storage=1),
                    "labels": dataclasses.replace(_LABELS, storage=1),
                },
            ),
            (
                "for i in range(len(value)):\n        counts[i, labels[i]] += 1",
                "rounds of something else",
                {},
            ),
            (
                "torch = 1\n    for i in range(len(labels)):\n        counts[i, labels[i]] += 1",
                "torch is another name here",
                {},
            ),
            (
                "for i in range(len(labels)):\n        labels[i, labels[i]] += 1",
                "reads what it writes",
                {},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        function = site.function
        if torch is None or function is None or torch in function_scope(function).locals:
            return
        for loop in (site.statement, *site.ancestors(site.node)):
            if not isinstance(loop, cst.For):
                continue
            text = _at_once(site, loop, torch)
            if text is not None:
                splice = Splice(site)
                splice.replace_span(site.span(loop), text)
                yield splice.rewrite("write to all rows at once", notes=[_ONE_EACH], rank=13)
                return


_ONE_EACH = "The labels have one dimension, a number for each row: of others, each row gets all."


@dataclasses.dataclass(frozen=True)
class _Store:
    """The one statement of such a loop: ``counts[i, labels[i]] += value``."""

    counts: str
    labels: str
    index: str
    operator: str
    value: cst.BaseExpression


def _at_once(site: Site, loop: cst.For, torch: str) -> str | None:
    """The loop as one statement; None where it is no such loop."""
    size = _length_of(site, loop)
    store = _store(site, loop)
    if size is None or store is None or comments_in(loop.body) or loop.orelse is not None:
        return None
    length, measured = size
    before = site.locals_before(loop)
    other = before.get(measured)
    if measured != store.labels and (other is None or other.type != "torch.Tensor"):
        return None
    if not _fits(before.get(store.counts), before.get(store.labels)):
        return None
    if not _is_number(site, store.value):
        return None
    assert site.function is not None
    if store.index in live_after(site.function, loop):
        return None
    rows = f"{torch}.arange({length})"
    # Of as many labels as another tensor has rows: more may be left, fewer are an error.
    taken = store.labels if measured == store.labels else f"{store.labels}[{rows}]"
    return f"{store.counts}[{rows}, {taken}] {store.operator} {site.text(store.value)}"


def _store(site: Site, loop: cst.For) -> _Store | None:
    target: cst.BaseExpression
    match _only_statement(loop):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            operator = "="
        case cst.AugAssign(target=target, operator=cst.AddAssign(), value=value):
            operator = "+="
        case cst.AugAssign(target=target, operator=cst.SubtractAssign(), value=value):
            operator = "-="
        case _:
            return None
    match loop.target, target:
        case (
            cst.Name(value=index),
            cst.Subscript(
                value=cst.Name(value=counts),
                slice=[
                    cst.SubscriptElement(slice=cst.Index(value=row)),
                    cst.SubscriptElement(slice=cst.Index(value=column)),
                ],
            ),
        ):
            labels = site.text(column).removesuffix(f"[{index}]")
            same_row = site.text(row) == index and site.text(column) == f"{labels}[{index}]"
            if same_row and labels.isidentifier() and counts not in (labels, index):
                return _Store(counts, labels, index, operator, value)
    return None


def _is_number(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the value is surely a Python number, and no tensor."""
    if isinstance(node, cst.Integer | cst.Float):
        return True
    fact = site.fact(node)
    return fact is not None and fact.kind in ("int", "float")


def _length_of(site: Site, loop: cst.For) -> tuple[str, str] | None:
    """``("len(x)", "x")`` for ``for i in range(len(x))``."""
    call = loop.iter
    if not isinstance(loop.target, cst.Name) or not isinstance(call, cst.Call):
        return None
    if resolve(site.module, call.func) != "builtins.range" or len(call.args) != 1:
        return None
    length = site.text(call.args[0].value)
    for start, end in (("len(", ")"), ("", ".size(0)"), ("", ".shape[0]")):
        name = length.removeprefix(start).removesuffix(end)
        if name.isidentifier() and length == f"{start}{name}{end}":
            return length, name
    return None


def _only_statement(loop: cst.For) -> cst.Assign | cst.AugAssign | None:
    if not isinstance(loop.body, cst.IndentedBlock) or len(loop.body.body) != 1:
        return None
    line = loop.body.body[0]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    small = line.body[0]
    return small if isinstance(small, cst.Assign | cst.AugAssign) else None


def _fits(counts: Fact | None, labels: Fact | None) -> bool:
    if counts is None or labels is None:
        return False
    if counts.type != "torch.Tensor" or labels.type != "torch.Tensor":
        return False
    if len(counts.shape or ()) != 2 or len(labels.shape or ()) != 1 or counts.requires_grad:
        return False
    if labels.dtype not in ("torch.int64", "torch.int32"):
        return False
    if counts.storage and counts.storage == labels.storage:
        return False
    return counts.device == labels.device == "cpu"
