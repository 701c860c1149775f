"""A loop over the places that a mask hits: over all places, each of which asks the mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Rewrite, Site
from gbfix.schema import Safety

from ..control_flow.values import Values
from .loops_experts import changes_in_place, experts_told
from .places_cases import EXAMPLES, NEAR_MISSES

#: A loop over more places than this makes a graph that is too large.
_MOST = 64
_ASK_ROWS = words(
    """max min amax amin aminmax argmax argmin median nanmedian mode kthvalue topk quantile
    nanquantile item"""
)
_FLAT = {"flatten": ("",), "squeeze": ("-1", "1"), "view": ("-1",), "reshape": ("-1",)}
_EMPTY = (
    "what nothing has reached is called with no rows: its parameters get zero gradients in place"
    " of none, and its hooks run"
)


class AllPlaces(Codemod):
    """*What it does.*  Lets a loop over the places that a mask hits go over all places:

    ```python
    for number in torch.nonzero(load, as_tuple=True)[0].tolist():
        out[mask == number] = self.experts[number](x[mask == number])
    ```
    becomes
    ```python
    hit = load != 0
    for number in range(hit.shape[0]):
        chosen = (mask == number) & hit[number]
        out[chosen] = self.experts[number](x[chosen])
    ```
    and where the body does something else, it stands under ``if hit[number]:``, for others to
    lower.

    *When it applies.*  To ``nonzero``, ``argwhere`` and ``where`` of a mask with one dimension,
    read by ``tolist()``, whose list only the loop reads, and of which the run has shown at most 64
    places.

    *Fix safety.*  Safe under an ``if``.  With masked rows, safe where the text of what is called
    shows that it treats each row alone; parameters of what nothing has reached get zero gradients
    in place of none, which the note says.

    *Refuses.*  Lists that anything else reads, numbers that are used after the loop, loops with
    ``else``.
    """

    name = "all-places"
    codes = (
        "GB0036",
        "GB0033",
        "GB0088",
        "GB0170",
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
        "internal-error",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        for loop in walk(function.body):
            if not isinstance(loop, cst.For) or site.function_of(loop) is not function:
                continue
            found = _found(site, function, loop)
            if found is None or not _is_concerned(site, found):
                continue
            masked = _masked(found)
            if masked is not None:
                yield masked
            yield _asked(found)
            return


@dataclasses.dataclass(frozen=True)
class _Loop:
    site: Site
    function: cst.FunctionDef
    loop: cst.For
    body: cst.IndentedBlock
    number: str
    #: What is asked for its places, and the line that keeps the list of them.
    mask: cst.BaseExpression
    line: cst.SimpleStatementLine | None
    name: str
    is_bool: bool


def _found(site: Site, function: cst.FunctionDef, loop: cst.For) -> _Loop | None:
    if loop.orelse is not None or loop.asynchronous is not None:
        return None
    if not isinstance(loop.target, cst.Name) or not isinstance(loop.body, cst.IndentedBlock):
        return None
    number = loop.target.value
    line = None
    places: cst.BaseExpression = loop.iter
    if isinstance(places, cst.Name):
        line = _only_list(site, function, loop, places.value)
        if line is None or not isinstance(line.body[0], cst.Assign):
            return None
        places = line.body[0].value
    mask = _mask_of(site, places)
    if mask is None or {number} & (live_after(function, loop) | activity(mask).reads):
        return None
    fact = Values(site).fact(mask)
    if fact is None or not fact.is_tensor or fact.shape is None or len(fact.shape) != 1:
        return None
    if fact.shape[0] is None or not 0 < fact.shape[0] <= _MOST:
        return None
    taken = names_in(site.module)
    name = loop.iter.value if isinstance(loop.iter, cst.Name) else fresh("hit", taken)
    if {name, number} & activity(loop.body).bound:
        return None
    is_bool = fact.dtype == "torch.bool"
    return _Loop(site, function, loop, loop.body, number, mask, line, name, is_bool)


def _only_list(
    site: Site, function: cst.FunctionDef, loop: cst.For, name: str
) -> cst.SimpleStatementLine | None:
    """The line before the loop that makes its list, where nothing else reads that list."""
    block = list(site.block_of(loop))
    before = [it for it in block[: block.index(loop)] if name in activity(it).bound]
    if not before or not isinstance(before[-1], cst.SimpleStatementLine):
        return None
    line = before[-1]
    match line.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name())])]:
            pass
        case _:
            return None
    at = site.span(line)
    later = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Name)
        and node.value == name
        and node is not loop.iter
        and site.span(node).line > at.end_line
    ]
    return None if later or name in live_after(function, loop) else line


def _mask_of(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask whose places an expression lists: ``torch.nonzero(mask).flatten().tolist()``."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("tolist")), args=[]):
            return _places_of(site, inner)
    return None


def _places_of(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("cpu" | "detach")), args=[]):
            return _places_of(site, inner)
        case cst.Subscript(value=cst.Call() as call, slice=slices):
            at = ", ".join(code(it.slice) for it in slices)
            mask, tupled = _asked_for(site, call)
            return mask if at == ("0" if tupled else ":, 0") else None
        case cst.Call(func=cst.Attribute(value=cst.Call() as call, attr=cst.Name(way)), args=args):
            given = ", ".join(code(arg.value) for arg in args)
            mask, tupled = _asked_for(site, call)
            return mask if given in _FLAT.get(way, ()) and not tupled else None
    return None


def _asked_for(site: Site, call: cst.Call) -> tuple[cst.BaseExpression | None, bool]:
    """What ``nonzero`` and its like are asked about, and whether they give a tuple."""
    args = list(call.args)
    tupled = bool(args) and args[-1].keyword is not None and args[-1].keyword.value == "as_tuple"
    if tupled and code(args.pop().value) != "True":
        return None, False
    name = resolve(site.module, call.func)
    if name in ("torch.nonzero", "torch.argwhere", "torch.where") and len(args) == 1:
        return args[0].value, tupled or name == "torch.where"
    if name is None and not args:
        match call.func:
            case cst.Attribute(value=held, attr=cst.Name("nonzero" | "argwhere")):
                return held, tupled
    return None, False


def _is_concerned(site: Site, found: _Loop) -> bool:
    """Whether the break is one of the list's, or one of the loop's."""
    tops = [found.loop, *([found.line] if found.line is not None else [])]
    return any(node is site.node for top in tops for node in walk(top)) or site.statement in tops


def _edit(found: _Loop, body: Sequence[cst.BaseStatement]) -> Rewrite:
    edit = found.site.edit()
    text = code(found.mask)
    # A call may give a view of a mask that the body changes.
    fresh_mask = found.is_bool and isinstance(found.mask, cst.Comparison)
    closed = isinstance(found.mask, cst.Name | cst.Attribute | cst.Subscript | cst.Call)
    if not fresh_mask:
        text = f"{text} != 0" if closed or found.mask.lpar else f"({text}) != 0"
    if found.line is not None:
        small = found.line.body[0]
        assert isinstance(small, cst.Assign)
        edit.replace(small.value, cst.parse_expression(text))
    else:
        edit.insert_before(found.loop, cst.parse_statement(f"{found.name} = {text}"))
    edit.replace(found.loop.iter, cst.parse_expression(f"range({found.name}.shape[0])"))
    edit.replace(found.body, found.body.with_changes(body=body))
    return edit.rewrite("", rank=0)


def _asked(found: _Loop) -> Rewrite:
    """The body under a test of the mask."""
    test = cst.parse_expression(f"{found.name}[{found.number}]")
    block = cst.IndentedBlock(body=found.body.body, footer=found.body.footer)
    rewrite = _edit(found, [cst.If(test=test, body=block)])
    title = f"ask `{found.name}` at each place"
    return dataclasses.replace(rewrite, title=title, rank=28, prepares=True)


def _masked(found: _Loop) -> Rewrite | None:
    """The body with its masks cut down to what was hit, if it does nothing for no rows."""
    mask = _stored_mask(found)
    if mask is None:
        return None
    text = code(mask)
    fact = found.site.fact(mask) or Values(found.site).fact(mask)
    if fact is None or fact.dtype != "torch.bool":
        return None
    chosen = fresh("chosen", names_in(found.site.module) | {found.name})
    closed = text if isinstance(mask, cst.Name | cst.Subscript | cst.Call) else f"({text})"
    first = cst.parse_statement(f"{chosen} = {closed} & {found.name}[{found.number}]")
    body: list[cst.BaseStatement] = []
    placed = isinstance(mask, cst.Name) and mask.value in activity(found.body).bound
    if not placed:
        body.append(first)
    for line in found.body.body:
        binds = placed and text in activity(line).bound
        new = line if binds else line.visit(_Renamed(text, chosen))
        assert isinstance(new, cst.BaseStatement)
        body += [new, first] if binds else [new]
    told = experts_told(found.site, found.function, found.loop)
    rewrite = _edit(found, body)
    return dataclasses.replace(
        rewrite,
        title="go over all places, with what was hit in each",
        rank=27,
        safety=Safety.UNSAFE if told else Safety.SAFE,
        notes=(*([told] if told else []), _EMPTY),
        prepares=True,
    )


class _Renamed(cst.CSTTransformer):
    """Puts a name in place of an expression."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__()
        self.text, self.name = text, name

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        left = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression) and code(original_node) == self.text:
            return cst.Name(self.name)
        assert isinstance(left, cst.CSTNode)
        return left


def _stored_mask(found: _Loop) -> cst.BaseExpression | None:
    """The mask of the one store that the body consists of, with what is computed for it."""
    *firsts, last = found.body.body
    match last:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)])
                | cst.AugAssign(target=cst.Subscript() as target)
            ]
        ):
            pass
        case _:
            return None
    if len(target.slice) != 1 or not isinstance(target.slice[0].slice, cst.Index):
        return None
    mask = target.slice[0].slice.value
    bound: set[str] = set()
    for line in firsts:
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))])]
            ):
                bound.add(name)
            case _:
                return None
    if bound & live_after(found.function, found.loop) or _goes_round(found, bound):
        return None
    inside = [node for line in found.body.body for node in walk(line)]
    effects = [Values(found.site).effects(line) for line in found.body.body]
    if any(it.rng or it.io for it in effects) or any(map(changes_in_place, inside)):
        return None
    stored = activity(last).mutates
    if not isinstance(target.value, cst.Name) or stored - {target.value.value}:
        return None
    if target.value.value in activity(mask).reads:
        return None
    branches = cst.IfExp | cst.NamedExpr | cst.Lambda | cst.BaseComp
    if any(isinstance(node, branches) or _needs_rows(node) for node in inside):
        return None
    return mask if _is_of_rows(found, target, code(mask)) else None


def _goes_round(found: _Loop, bound: set[str]) -> bool:
    """Whether a name has its value from the round before: there are more rounds now."""
    waiting = set(bound)
    for line in found.body.body:
        does = activity(line)
        if does.reads & waiting:
            return True
        waiting -= does.bound
    return False


def _needs_rows(node: cst.CSTNode) -> bool:
    """Whether a call fails where it is given no rows."""
    return isinstance(node, cst.Call) and code(node.func).rpartition(".")[2] in _ASK_ROWS


def _is_of_rows(found: _Loop, target: cst.Subscript, mask: str) -> bool:
    """Whether what is written is one number, or as many rows as the mask has."""
    for node in walk(found.body):
        if not isinstance(node, cst.Subscript) or node is target:
            continue
        if [code(it.slice) for it in node.slice] == [mask]:
            return True
    last = found.body.body[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    assert isinstance(last.body[0], cst.Assign | cst.AugAssign)
    fact = Values(found.site).fact(last.body[0].value)
    return fact is not None and (fact.kind in ("int", "float", "bool") or fact.shape == ())
