"""``torch.bincount`` up to a number that is known: its result need not depend on the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from .flow import torch_name
from .handed_on import is_handed_on
from .selections import is_plain_mask, mask_of, same_mask, tensor_fact

_INTS = ("torch.int64", "torch.int32", "torch.int16", "torch.int8", "torch.uint8")
_SAME_ORDER = ("view", "reshape", "flatten", "ravel")
_TO_INT = ("long", "int")
_CASTS = ("to", "type")
_INT_DTYPES = ("torch.int64", "torch.long", "torch.int32", "torch.int")
_SCOPES = (
    cst.Lambda | cst.BaseComp | cst.CompFor | cst.IfExp | cst.BooleanOperation | cst.FunctionDef
)
_FACTS = {
    "ids": tensor(6, dtype="torch.int64"),
    "true": tensor(2, 3, dtype="torch.int64"),
    "pred": tensor(2, 3, dtype="torch.int64"),
    "m": tensor(2, 3, dtype="torch.bool"),
    "w": tensor(6),
    "small": tensor(6, dtype="torch.int32"),
    "true.flatten()": tensor(6, dtype="torch.int64"),
    "n": scalar(4),
    "torch.bincount(small, minlength=n)": tensor(7, dtype="torch.int64"),
    "true[m]": tensor(5, dtype="torch.int64"),
    "pred[m]": tensor(5, dtype="torch.int64"),
    "n * true[m] + pred[m]": tensor(5, dtype="torch.int64"),
    "true[m].to(torch.int64)": tensor(5, dtype="torch.int64"),
    "n * true[m].to(torch.int64)": tensor(5, dtype="torch.int64"),
    "n * true[m].to(torch.int64) + pred[m]": tensor(5, dtype="torch.int64"),
    "n**2": scalar(16),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(ids, true, pred, m, w, small, n):\n{body}"


def _example(title: str, before: tuple[str, ...], after: tuple[str, ...], at: str) -> Example:
    return Example(_source(*before), _source(*after), at=at, facts=_FACTS, title=title)


class CountIntoPlaces(Codemod):
    """*What it does.*  Counts into a tensor of a known length: ``torch.bincount(ids, minlength=n)``
    becomes ``ids.new_zeros(n, dtype=torch.int64)`` and a ``scatter_add_`` of ones.

    *When it applies.*  ``minlength`` is given.  What is counted is a tensor of integers with one
    dimension, or made of selections by one mask (``n * true[mask] + pred[mask]``): then all is
    looked at, and what is not selected counts nothing.  A test whether anything is selected goes,
    where its other branch gives zeros.

    *Fix safety.*  Safe.  A number that is not below ``minlength`` makes the result of ``bincount``
    longer; it is an error now, unless the result is cut to that length (``[:n]``): then such
    numbers are left out as before.

    *Refuses.*  Results that are cut in one place and not in another, ``bincount`` without
    ``minlength``, weights that are no plain tensors of floats, and selections by several masks.
    """

    name = "count-into-places"
    codes = ("GB0036", "data-dependent-guard", "data-dependent-other", "GB0170")
    examples = (
        _example(
            "a number that nothing exceeds",
            ("return torch.bincount(ids, minlength=n)",),
            (
                "return ids.new_zeros(n, dtype=torch.int64).scatter_add_("
                "0, ids, torch.ones_like(ids, dtype=torch.int64))",
            ),
            "torch.bincount(ids, minlength=n)",
        ),
        _example(
            "larger numbers are cut off",
            ("return torch.bincount(ids, minlength=n)[:n]",),
            (
                "return ids.new_zeros(n + 1, dtype=torch.int64).scatter_add_("
                "0, ids.clamp(max=n), torch.ones_like(ids, dtype=torch.int64))[:n]",
            ),
            "torch.bincount(ids, minlength=n)",
        ),
        _example(
            "what is counted gets a name",
            ("load = torch.bincount(true.flatten(), minlength=n).float()", "return load"),
            (
                "ids_1 = true.flatten()",
                "load = ids_1.new_zeros(n, dtype=torch.int64).scatter_add_("
                "0, ids_1, torch.ones_like(ids_1, dtype=torch.int64)).float()",
                "return load",
            ),
            "torch.bincount(true.flatten(), minlength=n)",
        ),
        _example(
            "a confusion matrix",
            ("return torch.bincount(n * true[m] + pred[m], minlength=n * n).reshape(n, n)",),
            (
                "ids_1 = torch.where(m, n * true + pred, 0)",
                "return true.new_zeros(n * n, dtype=torch.int64).scatter_add_("
                "0, ids_1.flatten(), m.flatten().long()).reshape(n, n)",
            ),
            "true[m]",
        ),
        _example(
            "what is selected is cast, and has a name",
            (
                "hits = n * true[m].to(torch.int64) + pred[m]",
                "return torch.bincount(hits, minlength=n**2).reshape(n, n)",
            ),
            (
                "ids_1 = torch.where(m, n * true.to(torch.int64) + pred, 0)",
                "return true.new_zeros(n**2, dtype=torch.int64).scatter_add_("
                "0, ids_1.flatten(), m.flatten().long()).reshape(n, n)",
            ),
            "true[m]",
        ),
        _example(
            "a test whether anything is selected",
            (
                "hits = true[m]",
                "if hits.numel() == 0:",
                "    found = torch.zeros(n, device=true.device)",
                "else:",
                "    found = torch.bincount(hits, minlength=n).float()",
                "return found",
            ),
            (
                "ids_1 = torch.where(m, true, 0)",
                "found = true.new_zeros(n, dtype=torch.int64).scatter_add_("
                "0, ids_1.flatten(), m.flatten().long()).float()",
                "return found",
            ),
            "true[m]",
        ),
        _example(
            "weights",
            ("return torch.bincount(ids, w, n)",),
            ("return w.new_zeros(n).scatter_add_(0, ids, w.detach())",),
            "torch.bincount(ids, w, n)",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)
        for why, lines, at in (
            ("as many as there are", ("return torch.bincount(ids)",), "torch.bincount(ids)"),
            (
                "at least one place",
                ("return torch.bincount(ids, minlength=1)",),
                "torch.bincount(ids, minlength=1)",
            ),
            (
                "the mask is handed on before it counts",
                ("hits = true[m]", "cap(m)", "return torch.bincount(hits, minlength=n)"),
                "torch.bincount(hits, minlength=n)",
            ),
            (
                "larger numbers count in one place, and are cut off in another",
                ("k = torch.bincount(ids, minlength=n)", "return k[:n] / k.sum()"),
                "torch.bincount(ids, minlength=n)",
            ),
            (
                "more were counted",
                ("return torch.bincount(small, minlength=n)",),
                "torch.bincount(small, minlength=n)",
            ),
            (
                "another mask",
                ("return torch.bincount(n * true[m] + pred[true > 0], minlength=n)",),
                "true[m]",
            ),
            (
                "what is selected is used otherwise",
                ("hits = true[m]", "return torch.bincount(hits, minlength=n), hits"),
                "true[m]",
            ),
            (
                "the mask changes in between",
                ("hits = true[m]", "m = ~m", "return torch.bincount(hits, minlength=n), m"),
                "true[m]",
            ),
            (
                "what is selected is not counted",
                (
                    "hits = true[m]",
                    "if hits.numel() == 0:",
                    "    found = torch.bincount(hits, minlength=n).float()",
                    "else:",
                    "    found = torch.zeros(n)",
                    "return found",
                ),
                "true[m]",
            ),
            (
                "the other branch gives ones",
                (
                    "hits = true[m]",
                    "if hits.numel() == 0:",
                    "    found = torch.ones(n)",
                    "else:",
                    "    found = torch.bincount(hits, minlength=n).float()",
                    "return found",
                ),
                "true[m]",
            ),
            (
                "a ternary takes it or not",
                ("return torch.bincount(true.flatten(), minlength=n) if n > 3 else true",),
                "torch.bincount(true.flatten(), minlength=n)",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        try:
            yield _rewrite(site, site.function)
        except _NotSo:
            return


class _NotSo(Exception):
    """This is not counted so."""


@dataclasses.dataclass(frozen=True)
class _Count:
    """A call of ``bincount``: what is counted, with which weights, up to what.

    ``definitions`` are the statements that bind names in it to what is selected, by name.
    """

    call: cst.Call
    ids: cst.BaseExpression
    weights: cst.BaseExpression | None
    most: cst.BaseExpression
    mask: cst.BaseExpression | None
    definitions: dict[str, _Bound] = dataclasses.field(default_factory=dict)
    #: Whether numbers that are too large are cut off afterwards.
    cut: bool = False


#: The line by which a name is bound to a selection, and the selection.
_Bound = tuple[cst.SimpleStatementLine, cst.BaseExpression]


def _rewrite(site: Site, function: cst.FunctionDef) -> Rewrite:
    counts = [it for node in walk(function.body) if (it := _count(site, function, node))]
    if not counts or not _is_about(site, counts):
        raise _NotSo
    edit = site.edit()
    taken = names_in(site.module)
    gone: dict[cst.SimpleStatementLine, None] = {}
    for count in counts:
        new, first = _new(site, count, taken)
        test = None
        for name, (line, _) in count.definitions.items():
            gone[line] = None
            test = _size_test(site, function, count, name, counts) or test
        if first is not None:
            edit.insert_before(test or site.statement_of(count.call), cst.parse_statement(first))
        if test is None:
            edit.replace(count.call, new)
        else:
            counting: cst.CSTNode = site.statement_of(count.call)
            made = cast(cst.BaseStatement, counting.deep_replace(count.call, new))
            edit.replace(test, made.with_changes(leading_lines=test.leading_lines))
    for statement in gone:
        edit.remove(statement)
    mosts = " and ".join(dict.fromkeys(f"`{code(count.most)}`" for count in counts))
    return edit.rewrite(
        "count into a tensor of a known length",
        rank=11,
        notes=[f"what is counted has to be below {mosts}; `bincount` made its result longer"],
    )


def _is_about(site: Site, counts: list[_Count]) -> bool:
    """Whether the break stands at one of the counts, at what it counts, or at its test."""
    own = {site.statement_of(count.call) for count in counts}
    own |= {line for count in counts for line, _ in count.definitions.values()}
    for parent in (site.node, *site.ancestors(site.node)):
        if parent in own:
            return True
        if isinstance(parent, cst.If):
            return any(it in own for it in walk(parent.body)) or bool(
                parent.orelse and any(it in own for it in walk(parent.orelse))
            )
    return False


# -- what is counted -----------------------------------------------------------------------------


def _count(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> _Count | None:
    if not isinstance(node, cst.Call) or comments_in(node):
        return None
    arguments = _arguments(site, node)
    if arguments is None:
        return None
    ids, weights, most = arguments
    if most is None or code(most) in ("0", "1") or _is_conditional(site, node):
        return None
    if not _is_int(site, function, most) or _is_longer(site, node, most):
        return None
    definitions: dict[str, _Bound] = {}
    for name in sorted({it.value for it in walk(ids) if isinstance(it, cst.Name)}):
        bound = _selected(site, function, name)
        if bound is not None:
            definitions[name] = bound
    try:
        mask = _mask(site, ids, definitions)
    except _NotSo:
        return None
    if mask is None:
        definitions = {}
        held = tensor_fact(site, ids)
        if held is None or held.dtype not in _INTS or held.shape is None or len(held.shape) != 1:
            return None
    if not _fit(site, weights, mask):
        return None
    cut = _cut(site, function, node, most)
    if cut is None or (cut and mask is not None):
        return None
    return _Count(node, ids, weights, most, mask, definitions, cut=cut)


def _cut(
    site: Site, function: cst.FunctionDef, node: cst.Call, most: cst.BaseExpression
) -> bool | None:
    """Whether larger numbers than the known ones are cut off: ``bincount(ids, minlength=n)[:n]``.

    None where some uses of the counts cut them off, and others do not.
    """
    uses: list[cst.CSTNode] = [node]
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]):
            places = site.places_of(name, function)
            uses = [it for it in places if not isinstance(site.parent(it), cst.AssignTarget)]
    cuts = {_is_cut(site.parent(it), it, most) for it in uses}
    return None if len(cuts) > 1 else cuts == {True}


def _is_cut(holder: cst.CSTNode | None, node: cst.CSTNode, most: cst.BaseExpression) -> bool:
    match holder:
        case cst.Subscript(
            value=value,
            slice=[cst.SubscriptElement(cst.Slice(lower=None, upper=upper, step=None))],
        ) if value is node and upper is not None:
            return code(upper) == code(most)
    return False


def _is_int(site: Site, function: cst.FunctionDef, node: cst.BaseExpression) -> bool:
    """Whether it is an int, here or, where this never ran, wherever the same is written."""
    fact = infer(node, site.fact)
    if fact is not None:
        return fact.kind == "int"
    same = (it for it in walk(function.body) if type(it) is type(node) and code(it) == code(node))
    kinds = {fact.kind for it in same if (fact := site.fact(it)) is not None}
    return kinds == {"int"}


def _is_longer(site: Site, node: cst.Call, most: cst.BaseExpression) -> bool:
    """Whether more was counted than ``minlength`` says."""
    fact, limit = site.fact(node), infer(most, site.fact)
    if fact is None or fact.shape is None or limit is None or not isinstance(limit.value, int):
        return False
    return fact.shape != (limit.value,)


def _arguments(
    site: Site, node: cst.Call
) -> tuple[cst.BaseExpression, cst.BaseExpression | None, cst.BaseExpression | None] | None:
    """What is counted, the weights and ``minlength`` of a call of ``bincount``."""
    given = list(node.args)
    if any(arg.star for arg in given):
        return None
    plain = [arg.value for arg in given if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in given if arg.keyword is not None}
    if resolve(site.module, node.func) != "torch.bincount":
        match node.func:
            case cst.Attribute(value=owner, attr=cst.Name("bincount")) if tensor_fact(site, owner):
                plain = [owner, *plain]
            case _:
                return None
    values = dict(zip(("input", "weights", "minlength"), plain, strict=False)) | named
    weights = values.get("weights")
    if weights is not None and code(weights) == "None":
        weights = None
    if "input" not in values or len(plain) > 3:
        return None
    return values["input"], weights, values.get("minlength")


def _is_conditional(site: Site, node: cst.CSTNode) -> bool:
    """Whether the expression may not be evaluated where its statement runs, or more than once."""
    for parent in site.ancestors(node):
        if isinstance(parent, cst.SimpleStatementLine):
            return False
        if isinstance(parent, _SCOPES | cst.BaseStatement):
            return True
    return True


def _selected(site: Site, function: cst.FunctionDef, name: str) -> _Bound | None:
    """The only binding of a name, to a selection of which nothing changes later."""
    found: _Bound | None = None
    for place in site.places_of(name, function):
        holder = site.parent(place)
        if isinstance(holder, cst.Param):
            return None
        if not isinstance(holder, cst.AssignTarget):
            continue
        statement = site.statement_of(holder)
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]) if (
                found is None and not comments_in(statement)
            ):
                found = statement, value
            case _:
                return None
    if found is None or not any(mask_of(site, it) is not None for it in walk(found[1])):
        return None
    line = site.span(found[0]).end_line
    reads = activity(found[1]).reads
    for node in walk(function.body):
        if not isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            continue
        if site.span(node).line > line:
            does = activity(node)
            if (does.writes | does.mutates) & reads:
                return None
    if is_handed_on(site, function, reads, line + 1, masks=False):
        return None
    return found


def _mask(
    site: Site, node: cst.BaseExpression, definitions: dict[str, _Bound]
) -> cst.BaseExpression | None:
    """The one mask by which all that is counted is selected; None where nothing is selected."""
    masks = [
        mask
        for whole in (node, *(value for _, value in definitions.values()))
        for it in walk(whole)
        if (mask := mask_of(site, it)) is not None
    ]
    if not masks:
        return None
    if not is_plain_mask(masks[0]) or not all(same_mask(site, masks[0], it) for it in masks):
        raise _NotSo
    _dense(site, node, definitions)
    return masks[0]


def _fit(site: Site, weights: cst.BaseExpression | None, mask: cst.BaseExpression | None) -> bool:
    if weights is None:
        return True
    fact = tensor_fact(site, weights)
    floats = fact is not None and fact.dtype in ("torch.float32", "torch.float64")
    return floats and mask is None and isinstance(weights, cst.Name | cst.Attribute)


def _dense(site: Site, node: cst.BaseExpression, definitions: dict[str, _Bound]) -> str:
    """The text of the expression for all elements, selected or not; `_NotSo` if there is none."""
    chosen = mask_of(site, node)
    if chosen is not None:
        assert isinstance(node, cst.Subscript)
        held, fact = tensor_fact(site, node.value), tensor_fact(site, chosen)
        if held is None or fact is None or held.shape != fact.shape or not held.shape:
            raise _NotSo
        if not isinstance(node.value, cst.Name | cst.Attribute):
            raise _NotSo
        return code(node.value)
    match node:
        case cst.Integer():
            return code(node)
        case cst.Name(name) if name in definitions:
            whole = definitions[name][1]
            text = _dense(site, whole, definitions)
            return f"({text})" if " " in text else text
        case cst.Name() | cst.Attribute():
            fact = infer(node, site.fact)
            if fact is not None and (fact.kind == "int" or (fact.is_tensor and fact.shape == ())):
                return code(node)
        case cst.BinaryOperation(
            left=left,
            operator=cst.Add() | cst.Subtract() | cst.Multiply() as operator,
            right=right,
        ):
            sign = code(operator).strip()
            texts = [_dense(site, side, definitions) for side in (left, right)]
            text = f"{texts[0]} {sign} {texts[1]}"
            return f"({text})" if node.lpar else text
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(name)), args=args):
            given = ", ".join(code(arg.value) for arg in args)
            casts = not args if name in _TO_INT else name in _CASTS and given in _INT_DTYPES
            if casts:
                inner = _dense(site, owner, definitions)
                loose = isinstance(owner, cst.BinaryOperation) and not owner.lpar
                return f"({inner}).{name}({given})" if loose else f"{inner}.{name}({given})"
            if name in _SAME_ORDER and [code(arg) for arg in args] in ([], ["-1"]):
                return _dense(site, owner, definitions)
    raise _NotSo


# -- what is written -----------------------------------------------------------------------------


def _new(site: Site, count: _Count, taken: set[str]) -> tuple[cst.BaseExpression, str | None]:
    """The expression that counts, and a statement that names what is counted, if that is needed."""
    most, first, torch = code(count.most), None, torch_name(site)
    if count.mask is not None:
        whole = count.ids
        if isinstance(whole, cst.Name) and whole.value in count.definitions:
            whole = count.definitions[whole.value][1]
        text, mask = _dense(site, whole, count.definitions), code(count.mask)
        fact = infer(count.ids, site.fact)
        if fact is None and code(count.ids) in count.definitions:
            fact = infer(count.definitions[code(count.ids)][1], site.fact)
        long = fact is not None and fact.dtype == "torch.int64"
        if not long and not text.endswith((".long()", ".to(torch.int64)", ".to(torch.long)")):
            text = f"({text}).long()" if " " in text else f"{text}.long()"
        wholes = (count.ids, *(value for _, value in count.definitions.values()))
        held = next(
            it.value
            for whole in wholes
            for it in walk(whole)
            if isinstance(it, cst.Subscript) and mask_of(site, it) is not None
        )
        # Counts are int64, whatever holds the numbers in another call.
        dtype = f", dtype={torch}.int64"
        chosen = f"({mask})" if isinstance(count.mask, cst.UnaryOperation) else mask
        fact = tensor_fact(site, count.mask)
        flat = "" if fact is not None and len(fact.shape or ()) == 1 else ".flatten()"
        name = fresh("ids", taken)
        taken.add(name)
        first = f"{name} = {torch}.where({mask}, {text}, 0)"
        new = (
            f"{code(held)}.new_zeros({most}{dtype}).scatter_add_("
            f"0, {name}{flat}, {chosen}{flat}.long())"
        )
        return cst.parse_expression(new), first
    ids = code(count.ids)
    if not isinstance(count.ids, cst.Name | cst.Attribute):
        name = fresh("ids", taken)
        taken.add(name)
        first, ids = f"{name} = {ids}", name
    held_fact = tensor_fact(site, count.ids)
    long = held_fact is not None and held_fact.dtype == "torch.int64"
    places = ids if long else f"{ids}.long()"
    if count.cut:
        # One more place, for all that is cut off.
        places = f"{places}.clamp(max={most})"
        most = f"{most} + 1" if isinstance(count.most, cst.Name | cst.Integer) else f"({most}) + 1"
    if count.weights is not None:
        weights = code(count.weights)
        new = f"{weights}.new_zeros({most}).scatter_add_(0, {places}, {weights}.detach())"
    else:
        dtype = f", dtype={torch}.int64"
        new = (
            f"{ids}.new_zeros({most}{dtype}).scatter_add_("
            f"0, {places}, {torch}.ones_like({ids}{dtype}))"
        )
    return cst.parse_expression(new), first


def _size_test(
    site: Site, function: cst.FunctionDef, count: _Count, name: str, counts: list[_Count]
) -> cst.If | None:
    """The test whether anything is counted that goes with the count.

    The name of what is counted must stand nowhere else, but in other counts.
    """
    test: cst.If | None = None
    calls = [other.call for other in counts if name in other.definitions]
    target = count.definitions[name][0]
    for place in site.places_of(name, function):
        above = [place, *site.ancestors(place)]
        if target in above or any(call in above for call in calls):
            continue
        around = next((it for it in above if isinstance(it, cst.If)), None)
        if around is None or not _asks_size(around.test, name):
            raise _NotSo
        if not _gives_zeros(site, around, count):
            raise _NotSo
        test = around
    return test


def _asks_size(test: cst.BaseExpression, name: str) -> bool:
    """``name.shape[0] == 0``, ``name.numel() > 0``, ``len(name) != 0``."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Equal() | cst.NotEqual() | cst.GreaterThan(),
                    comparator=cst.Integer("0"),
                )
            ],
        ):
            sizes = ("{}.shape[0]", "{}.size(0)", "{}.numel()", "{}.nelement()", "len({})")
            return code(left) in [size.format(name) for size in sizes]
    return False


def _gives_zeros(site: Site, node: cst.If, count: _Count) -> bool:
    """Whether one branch counts, and the other gives as many zeros of that dtype."""
    match node.body, node.orelse:
        case (
            cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Assign() as yes])]),
            cst.Else(
                body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Assign() as no])])
            ),
        ):
            pass
        case _:
            return False
    if [code(it) for it in yes.targets] != [code(it) for it in no.targets]:
        return False
    match node.test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Equal())]):
            counting, other = no, yes
        case _:
            counting, other = yes, no
    if count.call not in walk(counting):
        return False
    floats = counting.value is not count.call
    if floats and code(counting.value) != f"{code(count.call)}.float()":
        return False
    match other.value:
        case cst.Call(func=func, args=[cst.Arg(value=most, keyword=None), *more]):
            dtypes = [
                code(arg.value) for arg in more if arg.keyword and arg.keyword.value == "dtype"
            ]
            known = all(arg.keyword and arg.keyword.value in ("device", "dtype") for arg in more)
            wanted = (
                [[], ["torch.float"], ["torch.float32"]]
                if floats
                else [["torch.long"], ["torch.int64"]]
            )
            return (
                known
                and dtypes in wanted
                and resolve(site.module, func) == "torch.zeros"
                and code(most) == code(count.most)
            )
    return False
