"""Selections by a mask whose size depends on the data, where the size does not matter."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Rewrite, Site
from gbfix.schema import Fact

from ..api.splice import Splice
from ..control_flow.refusal import Refusal
from ..control_flow.surroundings import check_later_changes
from ..control_flow.values import Values
from .equal_lengths import holds_anyway
from .flow import torch_name
from .masked_cases import EXAMPLES, NEAR_MISSES
from .nested import Nested, Parts
from .scattered import scattered
from .selections import (
    FLOATS,
    Elementwise,
    averaged,
    complementary,
    elementwise,
    hit_tested,
    is_fresh,
    is_own,
    is_plain_mask,
    mask_of,
    mean_function,
    same_mask,
    tensor_fact,
    varied,
    whole,
    wide_mask,
)

_SIGNS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


class MaskedSelection(Codemod):
    """*What it does.*  Computes on all elements, and chooses by the mask, where a selection's size
    does not matter: ``x[mask].sum()`` becomes ``torch.where(mask, x, 0).sum()``.

    ```python
    loss = torch.empty_like(r)
    loss[pos] = f(r[pos])
    loss[~pos] = g(r[~pos])
    ```
    becomes ``loss = torch.where(pos, f(r), g(r))``, and ``if bad.any(): x[bad] = y[bad]`` needs no
    ``if``.  ``x.masked_scatter(m, y[m])`` is ``torch.where(m, y, x)``.

    *When it applies.*  The mask is a tensor of bools that covers the first dimensions of what it
    selects from.  What is written is element-wise in selections by the same mask, also through
    functions of the file.  Reductions are ``sum``, ``mean`` and, of rows, ``var(0)``;
    ``cross_entropy``, ``mse_loss``, ``l1_loss``, ``smooth_l1_loss`` and ``huber_loss`` of two
    selections count as such.

    *Fix safety.*  Safe: what is not selected is replaced before anything that may be nan or inf, or
    may have such a gradient; the mean of nothing is nan as before.
    A mean adds up in float32 or better, as ``mean`` does, in a function of the patch's own.

    *Refuses.*  Selections that are used as such, other reductions (an empty maximum is an error),
    products of matrices and normalisations among what is selected, and divisions whose divisor may
    be zero for the number that stands in.
    """

    name = "masked-selection"
    codes = ("GB0036", "GB0170", "data-dependent-guard", "data-dependent-other")
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for way in (_guarded, _complementary, _updated, _named, _reduced, scattered):
            rewrite = way(site)
            if rewrite is not None:
                yield rewrite
                if way is _updated:
                    yield from _in_its_dtype(site)
                return


# -- updates ---------------------------------------------------------------------------------------


class _Update:
    """``x[mask] = E(y[mask])``"""

    def __init__(
        self,
        statement: cst.Assign | cst.AugAssign,
        target: cst.Subscript,
        mask: cst.BaseExpression,
        what: Elementwise,
        sign: str = "",
    ) -> None:
        #: The operator of ``x[mask] *= y[mask]``.
        self.sign = sign
        self.statement = statement
        self.target = target
        self.mask = mask
        self.what = what


def _update(site: Site, line: cst.CSTNode) -> _Update | None:
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]) as assign
            ]
        ):
            sign = ""
        case cst.SimpleStatementLine(
            body=[cst.AugAssign(target=cst.Subscript() as target, operator=operator) as assign]
        ) if type(operator) in _SIGNS:
            sign = _SIGNS[type(operator)]
        case _:
            return None
    mask = mask_of(site, target)
    if mask is None or not isinstance(target.value, cst.Name | cst.Attribute):
        return None
    held, chosen = tensor_fact(site, target.value), tensor_fact(site, mask)
    what = elementwise(site, assign.value, mask)
    if what is None and sign in ("+", "-") and _is_for_all(site, assign.value, held, chosen):
        what = Elementwise()
    # ``x[x > 3] += 1`` asks once, and so does what takes its place.
    if what is None or (what.selections and not is_plain_mask(mask)):
        return None
    if held is None or chosen is None or not (what.selections or sign):
        return None
    if sign == "/" and (what.selections or held.dtype not in FLOATS):
        return None
    if not _fits(site, held, chosen, what):
        return None
    if what.unknown:
        return None
    return _Update(assign, target, mask, what, sign)


def _is_for_all(
    site: Site, value: cst.BaseExpression, held: Fact | None, mask: Fact | None
) -> bool:
    """Whether a tensor is the same for each place that the mask selects, however many there are.

    It has fewer dimensions than the selection, as ``self.empty.weight[0]`` has, or is a parameter
    of one row: ``self.empty.weight``.
    """
    fact = tensor_fact(site, value)
    # It is computed once, as before, and what calls something may change what is selected from.
    if any(isinstance(node, cst.Call | cst.NamedExpr | cst.Lambda) for node in walk(value)):
        return False
    if fact is None or held is None or mask is None or fact.dtype != held.dtype:
        return False
    if fact.shape is None or held.shape is None or mask.shape is None:
        return False
    rest = held.shape[len(mask.shape) :]
    shape = fact.shape
    held_by = isinstance(value, cst.Attribute) and fact.type.endswith(("Parameter", "Buffer"))
    if held_by and len(shape) == len(rest) + 1 and shape[0] == 1:
        shape = shape[1:]
    return len(shape) <= len(rest) and all(
        one is not None and one in (1, other)
        for one, other in zip(reversed(shape), reversed(rest), strict=False)
    )


def _fits(site: Site, held: Fact, mask: Fact, what: Elementwise) -> bool:
    """Whether all tensors have the same dimensions, and the same dtype as what they go into."""
    if held.shape is None or mask.shape is None:
        return False
    for node in what.selections:
        fact = tensor_fact(site, node.value)
        # Only where a mask has one dimension, rows stay rows.
        row = node in what.of_rows
        if row and (len(mask.shape) != 1 or len(held.shape) != 2):
            return False
        if fact is None or fact.shape != (mask.shape if row else held.shape):
            return False
    return held.shape[: len(mask.shape)] == mask.shape


def _dense(site: Site, node: cst.BaseExpression, update: _Update) -> str:
    """The expression with whole tensors instead of selections."""
    text = whole(site, node, update.what, update.mask)
    if not update.sign:
        return text
    tight = cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.Float | cst.Integer
    loose = not isinstance(node, tight)
    text = f"({text})" if loose and node not in update.what.selections and not node.lpar else text
    return f"{code(update.target.value)} {update.sign} {text}"


def _complementary(site: Site) -> Rewrite | None:
    """``x[m] = f(y[m]); x[~m] = g(y[~m])`` is ``x = torch.where(m, f(y), g(y))``."""
    block = list(site.block_of(site.statement))
    if site.statement not in block:
        return None
    place = block.index(site.statement)
    for first, second in ((place, place + 1), (place - 1, place)):
        if first < 0 or second >= len(block):
            continue
        one, other = _update(site, block[first]), _update(site, block[second])
        if one is None or other is None or one.sign or other.sign:
            continue
        if not complementary(one.mask, other.mask):
            continue
        if code(one.target.value) != code(other.target.value):
            continue
        if _reads(other.statement.value, code(one.target.value)) or _reads(
            one.statement.value, code(one.target.value)
        ):
            continue
        splice, torch = Splice(site), torch_name(site)
        text = ", ".join(
            [
                wide_mask(site, one.mask, one.target.value),
                _dense(site, one.statement.value, one),
                _dense(site, other.statement.value, other),
            ]
        )
        owner = code(one.target.value)
        if is_own(site, one.target.value):
            splice.replace(one.statement, f"{owner} = {torch}.where({text})")
            for above in reversed(block[:first]):
                if _only_makes(site, above, owner):
                    splice.delete_lines(above)
                    break
                if _reads(above, owner):
                    break
        else:
            splice.replace(one.statement, f"{owner}.copy_({torch}.where({text}))")
        splice.delete_lines(block[second])
        return splice.rewrite("choose between two results by the mask", rank=12)
    return None


def _updated(site: Site) -> Rewrite | None:
    """``x[m] = f(y[m])`` is ``x = torch.where(m, f(y), x)``."""
    update = _update(site, site.statement)
    if update is None:
        return None
    splice = Splice(site)
    splice.replace(update.statement, _where(site, update))
    return splice.rewrite("choose by the mask instead of selecting", rank=14)


def _in_its_dtype(site: Site) -> Iterator[Rewrite]:
    """``x[m] += w`` has the dtype of ``x``, also where ``w`` has a wider one."""
    update = _update(site, site.statement)
    if update is None or not update.sign or update.what.selections:
        return
    if tensor_fact(site, update.statement.value) is not None:
        splice = Splice(site)
        splice.replace(update.statement, _where(site, update, cast=True))
        yield splice.rewrite("choose by the mask, in the dtype of what is chosen from", rank=15)


def _where(site: Site, update: _Update, *, cast: bool = False) -> str:
    owner, torch = code(update.target.value), torch_name(site)
    mask = wide_mask(site, update.mask, update.target.value)
    dense = _dense(site, update.statement.value, update)
    dense += f".to({owner}.dtype)" if cast else ""
    value = f"{torch}.where({mask}, {dense}, {owner})"
    if is_own(site, update.target.value):
        return f"{owner} = {value}"
    return f"{owner}.copy_({value})"


def _reads(node: cst.CSTNode, text: str) -> bool:
    return any(
        isinstance(inner, cst.Name | cst.Attribute) and code(inner) == text for inner in walk(node)
    )


def _only_makes(site: Site, line: cst.CSTNode, name: str) -> bool:
    """``loss = torch.empty_like(r)`` right above what fills all of it."""
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=made))], value=value)]
        ):
            return (
                made == name
                and isinstance(value, cst.Call)
                and (resolve(site.module, value.func) or "").startswith("torch.")
                and is_fresh(value)
                and len(value.args) == 1
            )
    return False


def _guarded(site: Site) -> Rewrite | None:
    """``if mask.any(): x[mask] = y[mask]`` needs no test: without a hit nothing changes."""
    around = site.statement
    if not isinstance(around, cst.If):
        around = next((p for p in site.ancestors(site.node) if isinstance(p, cst.If)), None)  # type: ignore[assignment]
    if not isinstance(around, cst.If) or around.orelse is not None:
        return None
    tested = hit_tested(around.test)
    if tested is None or not isinstance(around.body, cst.IndentedBlock):
        return None
    texts: list[str] = []
    cloned: set[str] = set()
    for line in around.body.body:
        owner = _cloned(line)
        if owner is not None:
            cloned.add(owner)
            continue
        update = _update(site, line)
        if update is None or not same_mask(site, update.mask, tested):
            return None
        name, torch = code(update.target.value), torch_name(site)
        mask = wide_mask(site, update.mask, update.target.value)
        value = f"{torch}.where({mask}, {_dense(site, update.statement.value, update)}, {name})"
        own = name in cloned or is_own(site, update.target.value)
        # Without a hit another dtype does no harm, and must not change that of the result.
        texts.append(f"{name} = {value}.to({name}.dtype)" if own else f"{name}.copy_({value})")
    if not texts or cloned - {text.partition(" ")[0] for text in texts}:
        return None
    splice = Splice(site)
    span = site.span(around)
    indent = site.source.splitlines()[span.line - 1][: span.column]
    splice.replace(around, f"{site.module.default_newline}{indent}".join(texts))
    return splice.rewrite("choose by the mask, whether or not it has a hit", rank=12)


def _cloned(line: cst.CSTNode) -> str | None:
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name))],
                    value=cst.Call(
                        func=cst.Attribute(value=cst.Name(value=source), attr=cst.Name("clone")),
                        args=[],
                    ),
                )
            ]
        ) if name == source:
            return name
    return None


# -- reductions ------------------------------------------------------------------------------------


def _reduced(site: Site) -> Rewrite | None:
    edits: dict[cst.CSTNode, Parts] = {}
    for node in walk(site.statement):
        if not isinstance(node, cst.Call) or node in edits:
            continue
        parts = _reduction(site, node) or _cross_entropy(site, node) or _loss(site, node)
        if parts is not None:
            edits[node] = parts
    if not edits:
        return None
    nested, splice = Nested(site, edits), Splice(site)
    for node in nested.outermost(site.statement):
        splice.replace(node, nested.render(node))
    splice.insert_function(mean_function(site, edits.values()))
    return splice.rewrite("reduce with zeros where nothing is selected", rank=12)


def _named(site: Site) -> Rewrite | None:
    """``chosen = x[m]`` where only ``chosen.sum()`` and ``chosen.mean()`` follow, and checks of its
    length against that of another selection by the same mask.
    """
    statement = _own_part(site)
    match statement:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name) as target)],
            value=cst.Subscript() as chosen,
        ):
            pass
        case _:
            return None
    mask = mask_of(site, chosen)
    if mask is None or site.function is None or not is_plain_mask(chosen.value):
        return None
    edits: dict[cst.CSTNode, Parts] = {}
    text = code(mask) if is_plain_mask(mask) else f"{name}_mask"
    if text != code(mask) and text in {
        node.value for node in walk(site.function) if isinstance(node, cst.Name)
    }:
        return None
    written = (_written(site, mask) | _written(site, chosen.value)) & _after(site)
    checks: list[cst.Assert | cst.If] = []
    for use in site.places_of(name, site.function):
        call = site.parent(site.parent(use) or use)
        if use is target:
            continue
        check = holds_anyway(site, use, name, mask)
        if check is not None:
            checks.append(check)
            continue
        if not isinstance(call, cst.Call) or written:
            return None
        parts = _reduction(site, call, of=(use, chosen, mask, text))
        if parts is None:
            return None
        edits[call] = parts
    if not edits:
        return None
    try:
        read = _written(site, mask) | _written(site, chosen.value)
        check_later_changes(site, site.statement, Values(site), read)
    except Refusal:
        return None
    nested, splice = Nested(site, edits), Splice(site)
    for node in nested.outermost(site.function):
        splice.replace(node, nested.render(node))
    splice.insert_function(mean_function(site, edits.values()))
    for check in dict.fromkeys(checks):
        splice.remove(check)
    if text == code(mask):
        splice.remove(statement)
    else:
        splice.replace(statement, f"{text} = {code(mask)}")
    return splice.rewrite(
        "reduce with zeros where nothing is selected",
        rank=12,
        assumes=["one-sided"] if checks else [],
    )


def _own_part(site: Site) -> cst.BaseSmallStatement | None:
    """The break's own statement, of several on its line."""
    if not isinstance(site.statement, cst.SimpleStatementLine):
        return None
    around = (site.node, *site.ancestors(site.node))
    return next((part for part in site.statement.body if any(p is part for p in around)), None)


def _written(site: Site, node: cst.CSTNode) -> set[str]:
    return {inner.value for inner in walk(node) if isinstance(inner, cst.Name)}


def _after(site: Site) -> set[str]:
    """Names that the function binds or changes behind the statement."""
    assert site.function is not None
    line = site.span(site.statement).end_line
    found: set[str] = set()
    for node in walk(site.function.body):
        binds = isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Expr | cst.For)
        if binds and site.span(node).line > line:
            does = activity(node)
            found |= set(does.writes) | set(does.mutates)
    return found


def _reduction(
    site: Site,
    node: cst.Call,
    of: tuple[cst.Name, cst.Subscript, cst.BaseExpression, str] | None = None,
) -> Parts | None:
    """``x[m].sum()`` and ``x[m].mean()``, over everything or over what is selected.

    ``of`` says what a name stands for, and under which name the mask is known.
    """
    match node:
        case cst.Call(
            func=cst.Attribute(value=chosen, attr=cst.Name("sum" | "mean" | "var" as kind))
        ):
            pass
        case _:
            return None
    known = ""
    if of is not None and chosen is of[0]:
        _, chosen, mask, known = of
    else:
        found = mask_of(site, chosen)
        if found is None or not is_plain_mask(found):
            return None
        mask = found
    assert isinstance(chosen, cst.Subscript)
    held, fact = tensor_fact(site, chosen.value), tensor_fact(site, mask)
    if held is None or fact is None or held.shape is None or fact.shape is None:
        return None
    along, correction = _asked(node)
    if along not in ([], ["0"]) or (correction is not None) is not (kind == "var"):
        return None
    if held.dtype not in FLOATS or (kind == "sum" and along and len(held.shape) == len(fact.shape)):
        return None
    rows = len(held.shape) > len(fact.shape)
    if rows and kind != "sum" and not along:
        return None
    torch, wide = torch_name(site), wide_mask(site, mask, chosen.value, known)
    axes = [str(n) for n in range(len(fact.shape))]
    axis = (axes[0] if len(axes) == 1 else f"({', '.join(axes)})") if along and rows else ""
    if kind == "var":
        return varied(site, chosen.value, wide, axis, correction or "0") if axis else None
    dense: Parts = (f"{torch}.where({wide}, ", chosen.value, ", 0)")
    if kind == "sum":
        return (*dense, f".sum({axis})")
    count = code(mask) if isinstance(mask, cst.Name | cst.Attribute) else f"({code(mask)})"
    count = known or count
    return averaged(site, dense, f"{count}.sum()", axis)


def _asked(node: cst.Call) -> tuple[list[str], str | None]:
    """The dimensions that a reduction is asked for, and the correction of a variance."""
    along, correction = [], "1" if code(node.func).endswith(".var") else None
    for number, arg in enumerate(node.args):
        word, text = arg.keyword.value if arg.keyword is not None else "", code(arg.value)
        if arg.star:
            return ["*"], None
        if word == "dim" or (not word and number == 0 and text not in ("True", "False")):
            along.append(text)
        elif correction is not None and text in ("True", "False") and word in ("", "unbiased"):
            correction = str(int(text == "True"))
        elif correction is not None and word == "correction" and text in ("0", "1"):
            correction = text
        else:
            return ["*"], None
    return along, correction


def _function(site: Site, node: cst.Call) -> str:
    name = resolve(site.module, node.func) or ""
    return (
        name.removeprefix("torch.nn.functional.") if name.startswith("torch.nn.functional.") else ""
    )


def _pair(site: Site, node: cst.Call) -> tuple[cst.Subscript, cst.Subscript] | None:
    """Two selections by one mask, as the first arguments."""
    if len(node.args) < 2 or any(arg.keyword or arg.star for arg in node.args[:2]):
        return None
    first, second = node.args[0].value, node.args[1].value
    one, other = mask_of(site, first), mask_of(site, second)
    if one is None or other is None or not same_mask(site, one, other) or not is_plain_mask(one):
        return None
    assert isinstance(first, cst.Subscript) and isinstance(second, cst.Subscript)
    return first, second


def _cross_entropy(site: Site, node: cst.Call) -> Parts | None:
    """``cross_entropy(logits[m], target[m])``: what is not selected is ignored."""
    pair = _pair(site, node) if _function(site, node) == "cross_entropy" else None
    if pair is None:
        return None
    logits, target = pair
    mask = mask_of(site, logits)
    held, fact = tensor_fact(site, logits.value), tensor_fact(site, target.value)
    if mask is None or held is None or fact is None or held.shape is None or fact.shape is None:
        return None
    if fact.dtype != "torch.int64" or len(held.shape) != len(fact.shape) + 1 or len(node.args) != 2:
        return None
    torch, width = torch_name(site), len(fact.shape)
    text = code(mask) if isinstance(mask, cst.Name | cst.Attribute) else f"({code(mask)})"
    flat = "" if width == 1 else f".flatten(0, {width - 1})"
    flat_target = "" if width == 1 else ".flatten()"
    return (
        node.func,
        f"({torch}.where({text}[..., None], ",
        logits.value,
        f", 0){flat}, {torch}.where({text}, ",
        target.value,
        f", -100){flat_target})",
    )


def _loss(site: Site, node: cst.Call) -> Parts | None:
    """``mse_loss(x[m], y[m])``: zero for what is not selected, divided by how many are."""
    pair = _pair(site, node) if _function(site, node) in _LOSSES else None
    if pair is None or len(node.args) != 2:
        return None
    first, second = pair
    mask = mask_of(site, first)
    held, other = tensor_fact(site, first.value), tensor_fact(site, second.value)
    fact = tensor_fact(site, mask) if mask is not None else None
    if mask is None or held is None or other is None or fact is None:
        return None
    if not held.shape == other.shape == fact.shape or held.dtype not in FLOATS:
        return None
    if held.dtype != other.dtype:
        return None
    torch = torch_name(site)
    text = code(mask) if isinstance(mask, cst.Name | cst.Attribute) else f"({code(mask)})"
    dense: Parts = (
        node.func,
        f"({torch}.where({code(mask)}, ",
        first.value,
        f", 0), {torch}.where({code(mask)}, ",
        second.value,
        ', 0), reduction="none")',
    )
    return averaged(site, dense, f"{text}.sum()")
