"""Selections by a mask (``x[mask]``), and whether an expression of them is element-wise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.rewriting.functions import function_of_file
from gbfix.schema import Fact

from .flow import torch_name
from .nested import Nested, Part, Parts

FLOATS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")

#: Element-wise, and with finite gradients for every finite input.
SMOOTH = words(
    """abs absolute atan arctan cos sin sigmoid tanh relu relu6 leaky_relu softplus silu gelu elu
    selu mish hardtanh hardsigmoid hardswish logsigmoid softsign neg negative sign sgn round floor
    ceil trunc erf square asinh arcsinh float double half bfloat16 clone detach"""
)
#: Element-wise, but infinite somewhere, or with infinite gradients; finite at 1.
STEEP = words(
    """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sinh cosh pow tan lgamma digamma"""
)
TWO = words(
    """add sub mul subtract multiply div divide true_divide pow maximum minimum where clamp
    clamp_min clamp_max lerp fmin fmax atan2 hypot eq ne lt le gt ge logical_and logical_or"""
)
#: Losses of two tensors that are computed element by element, and then reduced.
ELEMENT_LOSSES = words(
    """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits"""
)
HOMES = ("torch.", "torch.nn.functional.", "torch.special.")


@dataclasses.dataclass
class Elementwise:
    """What an expression of selections is made of."""

    selections: list[cst.Subscript] = dataclasses.field(default_factory=list)
    #: Those of them that get a last dimension of one: a number for each row.
    of_rows: list[cst.Subscript] = dataclasses.field(default_factory=list)
    steep: bool = False
    #: Dividing by something that may be zero at 1, or other things that nothing is known of there.
    unknown: bool = False


def tensor_fact(site: Site, node: cst.BaseExpression) -> Fact | None:
    fact = infer(node, site.fact)
    return fact if fact is not None and fact.is_tensor else None


def mask_of(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The mask of ``x[mask]``: a tensor of bools that is the whole index."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            fact = tensor_fact(site, index)
            if fact is not None and fact.dtype == "torch.bool" and fact.shape:
                return index
    return None


def pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """``a, b = x, y`` as two assignments."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        both = list(zip(target.elements, value.elements, strict=False))
        plain = all(isinstance(part, cst.Element) for pair in both for part in pair)
        if plain and len(target.elements) == len(value.elements):
            return [(one.value, other.value) for one, other in both]
        return []
    return [(target, value)]


def selection_of(
    site: Site, node: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """What ``x[mask]`` selects from, and the mask; ``torch.masked_select(x, mask)`` is the same.

    The latter fits the shapes of both to each other: they have to be alike here.
    """
    match node:
        case cst.Subscript(value=value) if (index := mask_of(site, node)) is not None:
            return value, index
        case cst.Call(
            args=[
                cst.Arg(value=value, keyword=None, star=""),
                cst.Arg(value=mask, keyword=None, star=""),
            ]
        ) if resolve(site.module, node.func) == "torch.masked_select":
            pass
        case cst.Call(
            func=cst.Attribute(value=value, attr=cst.Name("masked_select")),
            args=[cst.Arg(value=mask, keyword=None, star="")],
        ):
            pass
        case _:
            return None
    held, fact = tensor_fact(site, value), tensor_fact(site, mask)
    alike = held is not None and fact is not None and held.shape == fact.shape
    if alike and fact is not None and fact.dtype == "torch.bool" and fact.shape:
        return value, mask
    return None


#: What divides what is kept by how much that is.  ``mean`` adds up numbers of half precision in
#: float32; a plain ``sum`` rounds to the precision of its input, and may be inf there.
_MEAN = '''def {name}(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = {torch}.promote_types(kept.dtype, {torch}.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)
'''


#: As it stands in a file that has nothing of that name, and knows torch as ``torch``.
MEAN_OF_KEPT = _MEAN.format(name="mean_of_kept", torch="torch")


def averaged(site: Site, dense: Parts, count: str, over: str = "") -> Parts:
    """A call for ``dense.sum() / count``; the mean of nothing is nan, as it was.

    The function that it calls has to be put in by `mean_function`.
    """
    name, _ = _mean_of_kept(site)
    return (f"{name}(", *dense, f", {count}{', ' + over if over else ''})")


_VAR = '''def {name}(x, mask, dim, correction):
    """The variance, over some dimensions, of what the mask keeps."""
    wide = {torch}.promote_types(x.dtype, {torch}.float32)
    count = mask.sum()
    mean = {torch}.where(mask, x, 0).sum(dim, keepdim=True, dtype=wide) / count
    squares = {torch}.where(mask, x - mean, 0).square().sum(dim, dtype=wide)
    return (squares / (count - correction).clamp(min=0)).to(x.dtype)
'''
VAR_OF_KEPT = _VAR.format(name="var_of_kept", torch="torch")
#: The root of a variance of 0 has no derivative; that of ``torch.std`` is 0 there.
_STD = '''def {name}(x, mask, dim, correction):
    """The standard deviation, over some dimensions, of what the mask keeps."""
    wide = {torch}.promote_types(x.dtype, {torch}.float32)
    count = mask.sum()
    mean = {torch}.where(mask, x, 0).sum(dim, keepdim=True, dtype=wide) / count
    squares = {torch}.where(mask, x - mean, 0).square().sum(dim, dtype=wide)
    var = squares / (count - correction).clamp(min=0)
    return {torch}.where(var > 0, {torch}.where(var > 0, var, 1).sqrt(), var).to(x.dtype)
'''
STD_OF_KEPT = _STD.format(name="std_of_kept", torch="torch")


def varied(site: Site, of: Part, mask: str, over: str, correction: str) -> Parts:
    """A call for the variance of what a mask keeps; that of nothing is nan, as it was."""
    name, _ = _var_of_kept(site)
    return (f"{name}(", of, f", {mask}, {over}, {correction})")


def deviated(site: Site, of: Part, mask: str, over: str, correction: str) -> Parts:
    """A call for the standard deviation of what a mask keeps."""
    name, _ = _std_of_kept(site)
    return (f"{name}(", of, f", {mask}, {over}, {correction})")


def _std_of_kept(site: Site) -> tuple[str, str]:
    return function_of_file(site, "std_of_kept", _STD, torch_name(site))


def _var_of_kept(site: Site) -> tuple[str, str]:
    return function_of_file(site, "var_of_kept", _VAR, torch_name(site))


def mean_function(site: Site, edits: Iterable[Parts]) -> str:
    """The functions that `averaged`, `varied` and `deviated` call, where the file lacks them."""
    parts = [part for parts in edits for part in parts if isinstance(part, str)]
    made = (_mean_of_kept(site), _var_of_kept(site), _std_of_kept(site))
    texts = [t for name, t in made if any(part.startswith(f"{name}(") for part in parts)]
    return "\n\n".join(text for text in texts if text)


def _mean_of_kept(site: Site) -> tuple[str, str]:
    """The function's name, and its text where the file has none that is alike."""
    return function_of_file(site, "mean_of_kept", _MEAN, torch_name(site))


def whole(site: Site, node: cst.BaseExpression, what: Elementwise, mask: cst.BaseExpression) -> str:
    """The expression, which is element-wise, with whole tensors instead of selections."""
    edits: dict[cst.CSTNode, Parts] = {}
    torch = torch_name(site)
    for chosen in what.selections:
        fact = tensor_fact(site, chosen.value)
        floats = fact is not None and fact.dtype in FLOATS
        if what.steep and floats:
            # What is not selected shall not give nan or inf, and a gradient of nan with it.
            wide = wide_mask(site, mask, chosen.value)
            edits[chosen] = (f"{torch}.where({wide}, ", chosen.value, ", 1)")
        else:
            edits[chosen] = (chosen.value,)
    return Nested(site, edits).render(node)


def wide_mask(site: Site, mask: cst.BaseExpression, of: cst.BaseExpression, known: str = "") -> str:
    """The mask with as many dimensions as the tensor has."""
    chosen, held = tensor_fact(site, mask), tensor_fact(site, of)
    text = known or code(mask)
    missing = len((held.shape if held else None) or ()) - len(
        (chosen.shape if chosen else None) or ()
    )
    if missing <= 0:
        return text
    if not known and not isinstance(mask, cst.Name | cst.Attribute):
        text = f"({text})"
    return (
        f"{text}[(..., {', '.join(['None'] * missing)})]"
        if missing > 3
        else (f"{text}[..., {', '.join(['None'] * missing)}]")
    )


def same_mask(site: Site, first: cst.BaseExpression, second: cst.BaseExpression) -> bool:
    return code(_bare(first)) == code(_bare(second))


def missed(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask of ``not mask.any()`` or ``mask.sum() == 0``."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return hit_tested(inner)
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Equal() | cst.LessThanEqual(), comparator=cst.Integer("0")
                )
            ],
        ):
            return _summed(left)
    return None


def _summed(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask of ``mask.sum()``, as a number or as a tensor."""
    match node:
        case cst.Call(func=cst.Name("int"), args=[only]):
            return _summed(only.value)
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("item")), args=[]):
            return _summed(value)
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("sum")), args=[]):
            return value
        case cst.Call(
            func=cst.Attribute(value=cst.Name("torch"), attr=cst.Name("sum")), args=[only]
        ):
            return only.value
    return None


def hit_tested(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask of ``mask.any()``, ``torch.any(mask)``, ``mask.sum()`` or ``mask.sum() > 0``."""
    match test:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("any")), args=[]):
            return value
        case cst.Call(
            func=cst.Attribute(value=cst.Name("torch"), attr=cst.Name("any")), args=[only]
        ):
            return only.value
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("item")), args=[]):
            return hit_tested(value)
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.NotEqual(), comparator=cst.Integer("0")
                )
            ],
        ):
            return _summed(left)
    return _summed(test)


def complementary(first: cst.BaseExpression, second: cst.BaseExpression) -> bool:
    """``mask`` and ``~mask``"""
    for one, other in ((first, second), (second, first)):
        if not isinstance(other, cst.UnaryOperation) or not isinstance(
            other.operator, cst.BitInvert
        ):
            continue
        if code(_bare(other.expression)) == code(_bare(one)):
            return True
    return False


def is_plain_mask(node: cst.BaseExpression) -> bool:
    """Whether the mask may be written once more: a name, or its complement."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return is_plain_mask(node.expression)
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def elementwise(
    site: Site, node: cst.BaseExpression, mask: cst.BaseExpression, helpers: int = 2
) -> Elementwise | None:
    """What the expression is made of, if it is element-wise in its selections by the mask."""
    found = Elementwise()
    return found if _follow(site, node, mask, found, {}, helpers) else None


def _follow(
    site: Site,
    node: cst.BaseExpression,
    mask: cst.BaseExpression | None,
    found: Elementwise,
    bound: Mapping[str, bool],
    helpers: int,
) -> bool:
    def go(inner: cst.BaseExpression) -> bool:
        return _follow(site, inner, mask, found, bound, helpers)

    chosen = mask_of(site, node) if mask is not None else None
    if chosen is not None and mask is not None and same_mask(site, chosen, mask):
        assert isinstance(node, cst.Subscript)
        if not is_plain_mask(node.value):
            return False
        found.selections.append(node)
        return True
    row = widened(node) if mask is not None else None
    if row is not None:
        before = len(found.selections)
        fits = go(row)
        found.of_rows += found.selections[before:]
        return fits and len(found.selections) > before
    return _is_elementwise(site, node, mask, found, bound, helpers)


def _is_elementwise(
    site: Site,
    node: cst.BaseExpression,
    mask: cst.BaseExpression | None,
    found: Elementwise,
    bound: Mapping[str, bool],
    helpers: int,
) -> bool:
    def go(inner: cst.BaseExpression) -> bool:
        return _follow(site, inner, mask, found, bound, helpers)

    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.Name(value=value):
            if value in bound or value in ("True", "False", "None"):
                return True
            return mask is not None and _is_single(site, node)
        case cst.Attribute():
            return mask is not None and _is_single(site, node)
        case cst.UnaryOperation(expression=inner, operator=operator):
            return not isinstance(operator, cst.Not) and go(inner)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget() as target]):
            return go(left) and go(target.comparator)
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            if isinstance(operator, cst.MatrixMultiply):
                return False
            if isinstance(operator, cst.Divide | cst.FloorDivide | cst.Modulo):
                _note_division(site, right, found, bound)
            if isinstance(operator, cst.Power) and not isinstance(right, cst.Integer):
                found.steep = True
            return go(left) and go(right)
        case cst.Call():
            return _call(site, node, mask, found, bound, helpers)
    return False


def widened(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What gets one dimension more at its end: ``x.unsqueeze(-1)``, ``x[:, None]``."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            given = ", ".join(code(arg.value) for arg in args if arg.keyword is None)
            known = {"unsqueeze": ("1", "-1"), "view": ("-1, 1",), "reshape": ("-1, 1",)}
            return inner if given in known.get(name, ()) and len(args) < 3 else None
        case cst.Subscript(value=inner, slice=[first, second]):
            wide = code(first).strip(" ,") in (":", "...") and code(second).strip(" ,") == "None"
            return inner if wide else None
    return None


def _note_division(
    site: Site, right: cst.BaseExpression, found: Elementwise, bound: Mapping[str, bool]
) -> None:
    if isinstance(right, cst.Integer | cst.Float):
        return
    if isinstance(right, cst.Name) and not bound.get(right.value, True):
        return  # a number: the same for all elements, selected or not
    if isinstance(right, cst.Name | cst.Attribute) and not bound and _is_single(site, right):
        return
    found.steep = True
    right = widened(right) or right
    simple = isinstance(right, cst.Subscript | cst.Name) or (
        isinstance(right, cst.BinaryOperation)
        and isinstance(right.operator, cst.Add)
        and isinstance(right.right, cst.Float | cst.Integer)
    )
    found.unknown = found.unknown or not simple


def _is_single(site: Site, node: cst.BaseExpression) -> bool:
    """A Python number, or a tensor without dimensions."""
    fact = infer(node, site.fact)
    if fact is None:
        return False
    return fact.kind in ("int", "float", "bool") or (fact.is_tensor and fact.shape == ())


def _call(
    site: Site,
    node: cst.Call,
    mask: cst.BaseExpression | None,
    found: Elementwise,
    bound: Mapping[str, bool],
    helpers: int,
) -> bool:
    if any(arg.star for arg in node.args):
        return False
    name = resolve(site.module, node.func) or ""
    home, _, last = name.rpartition(".")
    values = [arg.value for arg in node.args]
    if f"{home}." in HOMES:
        pass
    elif isinstance(node.func, cst.Attribute) and not name.startswith("torch"):
        last = node.func.attr.value
        values = [node.func.value, *values]
    elif isinstance(node.func, cst.Name):
        return _helper(site, node, mask, found, bound, helpers)
    else:
        return False
    if last in STEEP:
        found.steep = True
    elif last in ("div", "divide", "true_divide") and len(values) > 1:
        _note_division(site, values[1], found, bound)
    elif last not in SMOOTH | TWO:
        return False
    if any(
        arg.keyword is not None and arg.keyword.value in ("out", "inplace") for arg in node.args
    ):
        return False
    return all(_follow(site, value, mask, found, bound, helpers) for value in values)


def _helper(
    site: Site,
    node: cst.Call,
    mask: cst.BaseExpression | None,
    found: Elementwise,
    bound: Mapping[str, bool],
    helpers: int,
) -> bool:
    """A function of the file whose body is a few element-wise assignments and a return."""
    assert isinstance(node.func, cst.Name)
    defined = module_bindings(site.module).get(node.func.value, ())
    if len(defined) != 1 or not isinstance(defined[0], cst.FunctionDef) or helpers == 0:
        return False
    function = defined[0]
    if function.decorators or function.asynchronous is not None:
        return False
    names = _given(site, function, node, mask, bound)
    if names is None:
        return False
    for line in function.body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            return False
        for statement in line.body:
            match statement:
                case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
                    continue
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
                ):
                    if not _follow(site, value, None, found, names, helpers - 1):
                        return False
                    names = {**names, name: True}
                case cst.Return(value=cst.BaseExpression() as value):
                    if not _follow(site, value, None, found, names, helpers - 1):
                        return False
                    return all(
                        _follow(site, arg.value, mask, found, bound, helpers) for arg in node.args
                    )
                case _:
                    return False
    return False


def _given(
    site: Site,
    function: cst.FunctionDef,
    node: cst.Call,
    mask: cst.BaseExpression | None,
    bound: Mapping[str, bool],
) -> dict[str, bool] | None:
    """The parameters of a helper, and whether they may be tensors in this call."""
    plain = [param.name.value for param in function.params.params]
    every = [param for param in walk(function.params) if isinstance(param, cst.Param)]
    if len(every) != len(plain):
        return None
    names = {
        param.name.value: param.default is None
        or not isinstance(param.default, cst.Float | cst.Integer)
        for param in every
    }
    for position, arg in enumerate(node.args):
        name = arg.keyword.value if arg.keyword is not None else plain[position]
        number = isinstance(arg.value, cst.Integer | cst.Float)
        if isinstance(arg.value, cst.Name) and arg.value.value in bound:
            number = not bound[arg.value.value]
        elif mask is not None and not number:
            number = _is_single(site, arg.value)
        names[name] = not number
    return names


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=()) if node.lpar else node


PREDICATES = torch_names.PREDICATES


_FRESH = words(
    """clone empty_like zeros_like ones_like full_like zeros empty ones full new_zeros new_ones
    new_empty new_full where"""
)


def is_own(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a name holds new memory of this function alone, so that it may be bound anew.

    Nothing may have got hold of it, or of a view of it, before it is last written to.
    """
    if not isinstance(node, cst.Name) or site.function is None:
        return False
    values: list[cst.BaseExpression] = []
    others: list[cst.Name] = []
    written: list[cst.CSTNode] = []
    for place in site.places_of(node.value, site.function):
        holder = site.parent(place)
        if isinstance(holder, cst.Param | cst.AnnAssign | cst.NamedExpr):
            return False
        if isinstance(holder, cst.AssignTarget):
            assign = site.parent(holder)
            assert isinstance(assign, cst.Assign)
            if len(assign.targets) != 1:
                return False
            values.append(assign.value)
        elif isinstance(holder, cst.Assign | cst.Element):
            return False  # another name for it, or kept somewhere
        else:
            others.append(place)
            written += [it for it in site.ancestors(place) if _is_write(it, node.value)]
    if not values or not all(is_fresh(value) for value in values):
        return False
    last = max((_last_line(site, write) for write in written), default=0)
    inside = {inner for write in written for inner in walk(write)}
    return all(place in inside or site.span(place).line > last for place in others)


def _is_write(node: cst.CSTNode, name: str) -> bool:
    """``out[mask] = ...``"""
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=cst.Name(held)))]):
            return held == name
        case cst.AugAssign(target=cst.Subscript(value=cst.Name(held))):
            return held == name
    return False


def _last_line(site: Site, node: cst.CSTNode) -> int:
    """The last line of a statement, or of the outermost loop around it."""
    last = site.span(node).end_line
    for outer in site.ancestors(node):
        if outer is site.function:
            break
        if isinstance(outer, cst.For | cst.While):
            last = max(last, site.span(outer).end_line)
    return last


def is_fresh(value: cst.BaseExpression) -> bool:
    """Whether an expression gives a new tensor."""
    match value:
        case cst.Call(func=cst.Attribute(attr=attr)):
            return attr.value in _FRESH
        case cst.BinaryOperation():
            return True
    return False
