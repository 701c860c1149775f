"""``table[t]`` with a tensor of one whole number: looked up without reading the number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.build import comments_in, indent_of, line_length
from gbfix.analysis.kinds import infer
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.functions import function_of_file
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from ..control_flow.handed import hands_to_changer
from ..control_flow.if_to_where import is_point
from ..control_flow.predicates import split
from ..control_flow.refusal import Refusal
from ..control_flow.sites import ternary_at, without_gradients
from ..control_flow.values import Values
from ..wrap.loose import is_tensor_by_text
from .lookup_cases import ENTRY, EXAMPLES, NEAR_MISSES

_WHOLE = words("torch.int8 torch.int16 torch.int32 torch.int64")
#: Functions and methods that give new memory and leave their argument alone.
_FRESH = words("sqrt rsqrt square exp log abs neg sin cos sigmoid pow reciprocal")
_COMPARED = (
    cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual,
)  # fmt: skip


class LookupByTensor(Codemod):
    """Looks rows of a table up by a tensor, without reading the number that it holds.

    **What it does**

    ``alpha = self.alphas[t - 1]``, with a 0-dimensional ``t``, becomes ``alpha =
    entry(self.alphas, t - 1)``, with a function of the file's own: an index of one dimension stays
    in the graph, where the number would have to be read for one of none.  ``self.alphas[p] if p >=
    0 else self.last``, as schedulers of diffusion models have it, becomes ``torch.where`` at the
    same time; with another test, ``torch.cond``.  All such lookups of the function are changed.

    **When it applies**

    The table has one or two dimensions, the index is one whole number on the table's device or the
    CPU, and what is looked up only goes into arithmetic and comparisons, at once or by a name.

    **Fix safety**

    Safe: the same row, also for negative numbers; a number out of bounds fails in both.  Numbers of
    Python, masks, indices of more dimensions and tables that are no tensors are looked up as
    before.  The row is a copy now, which arithmetic cannot tell.  Unsafe where only the run says
    that a parameter is a tensor (no annotation does): Dynamo has error classes of its own.

    **Refuses**

    Rows that are returned, kept, passed on or changed in place, tables that the function or file
    changes in place, conditional expressions with other arms, and tables that need gradients there.
    """

    name = "lookup-by-tensor"
    codes = (
        "GB0033",
        "GB0124",
        "GB0170",
        "backend-reads-number",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = tuple(Example(*case[:2], **case[2]) for case in EXAMPLES)
    near_misses = tuple(NearMiss(source, **options) for source, options in NEAR_MISSES)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = site.function
        if function is None:
            return
        found = [node for node in walk(function.body) if _is_lookup(site, function, node)]
        ternary, values = ternary_at(site), Values(site)
        if values.torch_missing:
            return
        if ternary is None:
            if any(site.statement is site.statement_of(node) for node in found):
                yield _rewrite(site, function, found, values, None, "")
            return
        if not {ternary.body, ternary.orelse} & set(found):
            return
        for build in (_where, _cond):
            text = build(site, function, ternary, found, values)
            if text is not None:
                yield _rewrite(site, function, found, values, ternary, text)


def _rewrite(
    site: Site,
    function: cst.FunctionDef,
    found: list[cst.CSTNode],
    values: Values,
    ternary: cst.IfExp | None,
    text: str,
) -> Rewrite:
    """All lookups of the function by tensors, and a conditional expression as the text says."""
    splice = Splice(site)
    done: list[cst.CSTNode] = []
    if ternary is not None:
        splice.replace(ternary, text)
        done.append(ternary)
    for node in found:
        if any(above in done for above in site.ancestors(node)):
            continue
        assert isinstance(node, cst.Subscript)
        splice.replace(node, _looked_up(site, node, values.torch))
        done.append(node)
    splice.insert_function(_entry(site, values.torch)[1])
    is_cond = text.startswith(f"{values.torch}.cond")
    indices = [
        index
        for node in found
        if isinstance(node, cst.Subscript) and site.statement_of(node) is site.statement
        if (index := _index(node)) is not None
    ]
    told = ternary is not None or all(map(_is_told(site), indices))
    return splice.rewrite(
        "look up by a tensor of one dimension, which needs no number",
        safety=Safety.SAFE if told else Safety.UNSAFE,
        notes=(*(_NOTES if is_cond else ()), *(() if told else (UNTOLD,))),
        rank=16 if is_cond else 15,
    )


UNTOLD = (
    "the index was a tensor in all recorded calls; other types still work, but a bad index then"
    " raises Dynamo's error"
)


def _is_told(site: Site) -> Callable[[cst.BaseExpression], bool]:
    """Whether an index is computed, or said to be a tensor."""
    return lambda index: dotted(index) is None or is_tensor_by_text(site, index)


def _entry(site: Site, torch: str) -> tuple[str, str]:
    return function_of_file(site, "entry", ENTRY, torch)


_NOTES = ("Outside a compiled region torch.cond costs about 0.5 ms a call.",)


# -- lookups ---------------------------------------------------------------------------------


def _is_lookup(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
    """Whether it is a ``table[number]`` whose row can as well be a copy."""
    if not isinstance(node, cst.Subscript) or dotted(node.value) is None:
        return False
    index = _index(node)
    if index is None or site.function_of(node) is not function or comments_in(node):
        return False
    if not effects_of(index, lambda part: _fact(site, node, part)).pure:
        return False  # it may be asked for more often
    table, number = _fact(site, node, node.value), _fact(site, node, index)
    if table is None or number is None or not table.is_tensor or not number.is_tensor:
        return False
    if table.type != "torch.Tensor" and table.type != "torch.nn.parameter.Parameter":
        return False
    if number.type != "torch.Tensor" or number.shape != () or number.dtype not in _WHOLE:
        return False
    if not table.shape or len(table.shape) > 2 or number.device not in ("cpu", table.device):
        return False
    return _only_computes(site, function, node) and not _changes(site, function, node)


def _index(node: cst.Subscript) -> cst.BaseExpression | None:
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=value, star=None))]:
            return None if isinstance(value, cst.Tuple) else value
    return None


def _fact(site: Site, node: cst.Subscript, part: cst.BaseExpression) -> Fact | None:
    """What the run saw; where it did not go, what the names held before the statement."""
    seen = infer(part, site.fact)
    if seen is not None:
        return seen
    before = site.locals_before(site.statement_of(node))
    known = {
        code(other): site.fact(other)
        for other in walk(site.function or node)
        if isinstance(other, cst.Attribute) and code(other) == code(part)
    }

    def kind_of(inner: cst.BaseExpression) -> Fact | None:
        if isinstance(inner, cst.Name):
            return before.get(inner.value)
        return known.get(code(inner))

    return infer(part, kind_of)


def _only_computes(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
    """Whether the value at the node only goes into arithmetic, comparisons and the like."""
    match site.parent(node):
        case cst.BinaryOperation() | cst.UnaryOperation(operator=cst.Minus()):
            return True
        case cst.ComparisonTarget(operator=operator):
            return isinstance(operator, _COMPARED)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=operator)]):
            return isinstance(operator, _COMPARED)
        case cst.AugAssign(value=value):
            return value is node
        case cst.Attribute(attr=attr) as read:
            call = site.parent(read)
            return isinstance(call, cst.Call) and call.func is read and attr.value in _FRESH
        case cst.Arg() as arg:
            call = site.parent(arg)
            name = resolve(site.module, call.func) if isinstance(call, cst.Call) else None
            home, _, last = (name or "").rpartition(".")
            return home == "torch" and last in _FRESH and not arg.star and arg.keyword is None
        case cst.IfExp(test=test) as choice:
            return test is not node and _only_computes(site, function, choice)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return _name_only_computes(site, function, name)
    return False


def _name_only_computes(site: Site, function: cst.FunctionDef, name: str) -> bool:
    does = activity(function.body)
    if name in does.captures | does.globals | does.nonlocals or does.frame_access:
        return False
    for place in site.places_of(name, function.body):
        holder = site.parent(place)
        if isinstance(holder, cst.AssignTarget):
            continue
        if isinstance(holder, cst.Assign) or not _only_computes(site, function, place):
            return False  # a second name would have to be followed, too
    return True


def _changes(site: Site, function: cst.FunctionDef, node: cst.Subscript) -> bool:
    """Whether anything in sight may change the table in place: the row was a view of it."""
    table = code(node.value)
    for part in walk(function.body):
        match part:
            case cst.Name() | cst.Attribute() if code(part) == table:
                if hands_to_changer(site, part, unknown=False):
                    return True
        match part:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)) | cst.Name(value=name)):
                if name.endswith("_") and not name.endswith("__"):
                    return True
            case cst.Arg(keyword=cst.Name(value="out")):
                return True
            case cst.AssignTarget(target=cst.Subscript(value=value)):
                fact = site.fact(value)
                if fact is None or fact.kind not in ("list", "dict"):
                    return True
            case cst.AugAssign(target=cst.Name() | cst.Subscript() as target):
                fact = infer(target, site.fact)
                if isinstance(target, cst.Subscript) or fact is None or fact.is_tensor:
                    return True
            case cst.Yield() | cst.Await():
                return True  # anyone may run in between
    last = re.escape((dotted(node.value) or "").rpartition(".")[2])
    changed = rf"\b{last}\s*(\[[^\]]*\]\s*{_AUGMENT}?=(?!=)|{_AUGMENT}=|\.\w+_\(|\.data\b)"
    return re.search(changed, site.source) is not None


_AUGMENT = r"(?:[-+*/%@&|^]|//|\*\*|<<|>>)"


# -- texts -----------------------------------------------------------------------------------


def _looked_up(site: Site, node: cst.Subscript, torch: str, text: str = "") -> str:
    index = _index(node)
    assert index is not None
    text = text or Splice(site).source_of(index)
    return f"{_entry(site, torch)[0]}({site.text(node.value)}, {text})"


def _as_tensor(site: Site, function: cst.FunctionDef, index: cst.BaseExpression, torch: str) -> str:
    text = Splice(site).source_of(index)
    if not _surely_tensor(function, index):
        # Other callers may pass a whole number of Python.
        return f"{torch}.as_tensor({text})"
    if isinstance(index, cst.Name | cst.Attribute | cst.Call | cst.Subscript) or index.lpar:
        return text
    return f"({text})"


def _surely_tensor(function: cst.FunctionDef, index: cst.BaseExpression) -> bool:
    """Whether the index is a parameter that is said to be a tensor, or computed with one."""
    tensors = {
        param.name.value
        for param in params_of(function.params)
        if param.annotation is not None
        and code(param.annotation.annotation) in ("torch.Tensor", "Tensor")
    }
    rebound = activity(function.body).bound
    match index:
        case cst.Name(value=name):
            return name in tensors - rebound
        case cst.BinaryOperation(left=left, right=right):
            return any(_surely_tensor(function, side) for side in (left, right))
    return False


def _where(
    site: Site,
    function: cst.FunctionDef,
    node: cst.IfExp,
    found: list[cst.CSTNode],
    values: Values,
) -> str | None:
    """``torch.where`` in place of ``table[i] if i >= 0 else other``, or None."""
    match node:
        case cst.IfExp(
            body=cst.Subscript() as row,
            test=cst.Comparison(
                left=asked,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.GreaterThanEqual(), comparator=cst.Integer(value="0")
                    )
                ],
            ),
            orelse=cst.Name() | cst.Attribute() as other,
        ) if row in found and dotted(other) is not None:
            pass
        case _:
            return None
    index, table = _index(row), _fact(site, row, row.value)
    if index is None or table is None or code(index) != code(asked) or comments_in(node):
        return None
    seen, number = site.fact(other), _fact(site, row, index)
    if number is None or not table.device == number.device == "cpu" or len(table.shape or ()) != 1:
        return None
    alike = seen is None or (seen.shape, seen.dtype, seen.device) == ((), table.dtype, "cpu")
    if not alike or any(fact and fact.requires_grad is not False for fact in (table, seen)):
        return None
    if not _only_computes(site, function, node):
        return None
    tensor = _as_tensor(site, function, index, values.torch)
    arguments = [
        f"{tensor} >= 0",
        _looked_up(site, row, values.torch, f"{tensor}.clamp(min=0)"),
        site.text(other),
    ]
    return _laid_out(site, node, f"{values.torch}.where", arguments)


def _cond(
    site: Site,
    function: cst.FunctionDef,
    node: cst.IfExp,
    found: list[cst.CSTNode],
    values: Values,
) -> str | None:
    """``torch.cond`` in place of a conditional expression, or None."""
    if comments_in(node) or without_gradients(site, node):
        return None
    arms = []
    for arm in (node.body, node.orelse):
        if arm in found and isinstance(arm, cst.Subscript):
            table = _fact(site, arm, arm.value)
            text = _looked_up(site, arm, values.torch)
            seen: Fact | None = table
        elif dotted(arm) is not None:
            text, seen = f"{site.text(arm)}.clone()", site.fact(arm)
            if seen is not None and not seen.is_tensor:
                return None
        else:
            return None
        if seen is not None and seen.requires_grad is not False:
            return None
        arms.append(text)
    if not _only_computes(site, function, node):
        return None
    try:
        condition = split(node.test, values)
    except Refusal:
        return None
    if condition.python or condition.node is None or not is_point(condition.node, values):
        return None
    arguments = [condition.tensor, *(f"lambda: {text}" for text in arms)]
    return _laid_out(site, node, f"{values.torch}.cond", arguments)


def _laid_out(site: Site, node: cst.CSTNode, call: str, arguments: list[str]) -> str:
    line = f"{call}({', '.join(arguments)})"
    column = site.span(node).column
    if column + len(line) <= line_length(site.module):
        return line
    depth = indent_of(site.module, site.statement_of(node))
    step = site.module.default_indent
    newline = site.module.default_newline
    inner = "".join(f"{newline}{depth}{step}{argument}," for argument in arguments)
    return f"{call}({inner}{newline}{depth})"
