"""Rows that are selected under a condition on the data: selected always, by a mask that tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, expression
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..choice.tests import invert
from ..control_flow.predicates import predicate
from ..control_flow.refusal import Refusal
from ..control_flow.sites import if_at
from ..control_flow.values import Values
from ..data_dependent.selections import (
    ELEMENT_LOSSES,
    SMOOTH,
    STEEP,
    TWO,
    pairs,
    selection_of,
    tensor_fact,
)

_FACTS = {
    "boxes": tensor(5, 4),
    "scores": tensor(5),
    "keep": tensor(5, dtype="torch.bool"),
    "grid": tensor(2, 3, dtype="torch.bool"),
    "image": tensor(2, 3),
    "keep.any()": tensor(dtype="torch.bool"),
    "keep.all()": tensor(dtype="torch.bool"),
    "keep.sum()": tensor(dtype="torch.int64"),
    "keep.sum() > 2": tensor(dtype="torch.bool"),
    "grid.any()": tensor(dtype="torch.bool"),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "import torch\nimport torch.nn.functional as F\n\n\n"
        f"def f(boxes, scores, keep, grid, image, strict):\n{body}"
    )


def _near_miss(why: str, at: str, *lines: str) -> NearMiss:
    return NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)


class FilterWhen(Codemod):
    """*What it does.*  Selects rows by a mask whether or not a condition on the data holds: the
    mask keeps all of them where it does not.

    ```python
    if keep.any():
        boxes = boxes[keep]
        scores = scores[keep]
    ```
    becomes
    ```python
    kept = keep | ~keep.any()
    boxes = boxes[kept]
    scores = scores[kept]
    ```

    *When it applies.*  An ``if`` without ``else`` only selects, from one or more names, what one
    mask keeps, and binds it to the same names.  A mask of more than one dimension is taken where
    each name ends in a ``sum``, a ``mean`` or a loss, for which the shape does not matter.

    *Fix safety.*  Safe: a mask that keeps all gives equal rows.  What has no concrete size then is
    for other codemods, or for an option of Dynamo: where none can go on, this rewrite is not kept.

    *Refuses.*  Names that are changed in place later, as the caller's tensor would have changed
    with them; masks that are other than the first dimension; conditions that ask more than tensors.
    """

    name = "filter-when"
    codes = ("GB0170", "GB0036", "data-dependent-guard")
    examples = (
        Example(
            _source(
                "# Some are left.",
                "if keep.any():",
                "    boxes = boxes[keep]",
                "    scores = scores[keep]  # the same",
                "return boxes, scores",
            ),
            _source(
                "# Some are left.",
                "kept = keep | ~keep.any()",
                "boxes = boxes[kept]",
                "scores = scores[kept]  # the same",
                "return boxes, scores",
            ),
            at="keep.any()",
            facts=_FACTS,
            title="where something is left",
        ),
        Example(
            _source(
                "if keep.sum() > 2:",
                "    boxes, scores = boxes[keep], scores[keep]",
                "return boxes, scores",
            ),
            _source(
                "kept = keep | ~(keep.sum() > 2)",
                "boxes, scores = boxes[kept], scores[kept]",
                "return boxes, scores",
            ),
            at="keep.sum() > 2",
            facts=_FACTS,
            title="where enough is left",
        ),
        Example(
            _source("if not keep.all():", "    boxes = boxes[keep]", "return boxes.mean(0)"),
            _source("boxes = boxes[keep]", "return boxes.mean(0)"),
            at="keep.all()",
            facts=_FACTS,
            title="where not all are left",
        ),
        Example(
            _source(
                "other = image * 2",
                "if grid.any():",
                "    image = image[grid]",
                "    other = other[grid]",
                "return F.mse_loss(image, other) + (image - other).abs().mean()",
            ),
            _source(
                "other = image * 2",
                "kept = grid | ~grid.any()",
                "image = image[kept]",
                "other = other[kept]",
                "return F.mse_loss(image, other) + (image - other).abs().mean()",
            ),
            at="grid.any()",
            facts={**_FACTS, "other": tensor(2, 3)},
            title="pixels that are averaged",
        ),
    )
    near_misses = (
        _near_miss(
            "changed in place, and the argument with it", "keep.any()",
            "if keep.any():", "    boxes = boxes[keep]", "boxes += 1", "return boxes",
        ),
        _near_miss(
            "two masks", "keep.any()",
            "if keep.any():", "    boxes = boxes[keep]", "    scores = scores[~keep]",
            "return boxes, scores",
        ),
        _near_miss(
            "the mask is selected from", "keep.any()",
            "if keep.any():", "    keep = keep[keep]", "    boxes = boxes[keep]", "return boxes",
        ),
        _near_miss(
            "another name", "keep.any()",
            "if keep.any():", "    scores = boxes[keep]", "return boxes, scores",
        ),
        _near_miss(
            "more than rows are returned", "grid.any()",
            "if grid.any():", "    image = image[grid]", "return image",
        ),
        _near_miss(
            "a reduction of a dimension", "grid.any()",
            "if grid.any():", "    image = image[grid]", "return image.sum(0)",
        ),
        _near_miss(
            "what has other dimensions is multiplied with it", "grid.any()",
            "if grid.any():", "    image = image[grid]", "return (image * scores).sum()",
        ),
        _near_miss(
            "a setting decides, too", "keep.any()",
            "if strict and keep.any():", "    boxes = boxes[keep]", "return boxes",
        ),
        _near_miss(
            "another way for the rest", "keep.any()",
            "if keep.any():", "    boxes = boxes[keep]", "else:", "    boxes = boxes * 0",
            "return boxes",
        ),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        found = _if_around(site)
        if found is None or site.function is None:
            return
        mask, names = _selected(site, found)
        if mask is None or not _may_be_a_copy(site, found, mask, names):
            return
        try:
            text = predicate(found.test, Values(site))
        except Refusal:
            return
        wish = "kept" if mask.value != "kept" else "kept_rows"
        kept = fresh(wish, names_in(site.function))
        always = f"{mask.value}.all()"
        lines = [cst.ensure_type(it, cst.SimpleStatementLine) for it in _lines(found)]
        if text in (f"torch.logical_not({always})", f"~{always}"):
            lines[0] = lines[0].with_changes(leading_lines=found.leading_lines)
            new: list[cst.BaseStatement] = list(lines)
        else:
            value = expression(f"{mask.value} | {invert(text)}")
            assign = cst.Assign([cst.AssignTarget(cst.Name(kept))], value)
            first = cst.SimpleStatementLine([assign], leading_lines=found.leading_lines)
            put = _Put(mask.value, kept)
            new = [
                first,
                *(cst.ensure_type(it.visit(put), cst.SimpleStatementLine) for it in lines),
            ]
        edit = site.edit()
        edit.replace(found, *new)
        yield edit.rewrite(
            f"select by `{mask.value}` whether or not `{code(found.test)}` holds",
            rank=17,
            prepares=True,
        )


class _Put(cst.CSTTransformer):
    """Another mask."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        del original_node
        return cst.Name(self.new) if updated_node.value == self.old else updated_node


def _if_around(site: Site) -> cst.If | None:
    """The ``if`` whose test breaks, or in which what it selects does."""
    found = if_at(site)
    if found is None and isinstance(site.statement, cst.SimpleStatementLine):
        block = site.parent(site.statement)
        holder = site.parent(block) if block is not None else None
        found = holder if isinstance(holder, cst.If) else None
    whole = (
        found is not None and found.orelse is None and not isinstance(site.parent(found), cst.If)
    )
    return found if whole else None


def _lines(node: cst.If) -> Sequence[cst.BaseStatement]:
    if not isinstance(node.body, cst.IndentedBlock):
        return ()
    # (A comment behind the last line has no place without the block.)
    noted = node.body.header.comment or any(line.comment for line in node.body.footer)
    return () if noted or comments_in(node.test) else node.body.body


def _selected(site: Site, node: cst.If) -> tuple[cst.Name | None, dict[str, cst.Name]]:
    """The mask, and the names of which the body keeps what it selects; None if it does more."""
    mask: cst.Name | None = None
    names: dict[str, cst.Name] = {}
    for line in _lines(node):
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
            ):
                pass
            case _:
                return None, {}
        for one, other in pairs(target, value):
            selection = selection_of(site, other)
            match one, selection:
                case cst.Name(name), (cst.Name() as held, cst.Name() as by) if name == held.value:
                    pass
                case _:
                    return None, {}
            if (mask is not None and by.value != mask.value) or name in names:
                return None, {}
            mask = by
            names[name] = held
    return (mask, names) if mask is not None and mask.value not in names else (None, {})


def _may_be_a_copy(site: Site, node: cst.If, mask: cst.Name, names: Mapping[str, cst.Name]) -> bool:
    """Whether nobody sees that rows of which all are kept are others than before, or flat."""
    assert site.function is not None
    if not effects_of(node.test, site.fact).pure or names_in(node.test) & set(names):
        return False
    does = activity(site.function.body)
    if {mask.value, *names} & (does.mutates | does.captures | does.globals | does.nonlocals):
        return False
    by = tensor_fact(site, mask)
    for name, place in names.items():
        held = tensor_fact(site, place)
        if by is None or held is None or by.shape is None or held.shape is None:
            return False
        if held.shape[: len(by.shape)] != by.shape or not by.shape:
            return False
        if len(by.shape) > 1 and not _is_only_reduced(site, node, name, names):
            return False
    return bool(live_after(site.function, node) & set(names))


def _is_only_reduced(site: Site, node: cst.If, name: str, names: Collection[str]) -> bool:
    """Whether all that reads the name behind the ``if`` ends in one number, whatever its shape."""
    assert site.function is not None
    end = site.span(node).end_line
    return all(
        _ends_in_a_number(site, place, names)
        for place in site.places_of(name, site.function.body)
        if site.span(place).line > end
    )


def _ends_in_a_number(site: Site, node: cst.BaseExpression, names: Collection[str]) -> bool:
    """Whether an expression of what is selected is computed by element, and reduced then."""
    holder = site.parent(node)
    if isinstance(holder, cst.BinaryOperation | cst.Call) and not _is_alike(site, holder, names):
        return False
    match holder:
        case cst.BinaryOperation(operator=operator):
            plain = not isinstance(operator, cst.MatrixMultiply)
            return plain and _ends_in_a_number(site, holder, names)
        case cst.UnaryOperation(operator=cst.Minus() | cst.BitInvert()):
            return _ends_in_a_number(site, holder, names)
        case cst.Attribute(value=value) if value is node:
            call = site.parent(holder)
            called = isinstance(call, cst.Call) and call.func is holder
        case cst.Arg(star=""):
            call = site.parent(holder)
            called = isinstance(call, cst.Call)
        case _:
            return False
    if not called or not isinstance(call, cst.Call) or not _is_alike(site, call, names):
        return False
    return _is_reduction(site, call) or (
        _is_elementwise(site, call) and _ends_in_a_number(site, call, names)
    )


def _is_alike(site: Site, node: cst.CSTNode, names: Collection[str]) -> bool:
    """Whether nothing else in it has dimensions, to which what is selected would have to fit."""
    for part in walk(node):
        if isinstance(part, cst.Name | cst.Attribute) and code(part) not in names:
            fact = tensor_fact(site, part)
            if fact is not None and fact.shape != ():
                return False
    return True


def _last_of(site: Site, call: cst.Call) -> tuple[str, str]:
    """The home (none for a method) and the name of what is called."""
    full = resolve(site.module, call.func) or ""
    if not full.startswith("torch") and isinstance(call.func, cst.Attribute):
        return "", call.func.attr.value
    home, _, last = full.rpartition(".")
    return home, last


def _is_reduction(site: Site, call: cst.Call) -> bool:
    home, last = _last_of(site, call)
    told = {it.keyword.value: code(it.value) for it in call.args if it.keyword is not None}
    if home == "torch.nn.functional" and last in ELEMENT_LOSSES:
        return told.get("reduction", "'mean'").strip("\"'") in ("mean", "sum")
    return last in ("sum", "mean") and home in ("", "torch") and len(call.args) == (home != "")


def _is_elementwise(site: Site, call: cst.Call) -> bool:
    home, last = _last_of(site, call)
    return home in ("", "torch", "torch.nn.functional") and last in SMOOTH | STEEP | TWO
