"""``torch.autograd.grad`` with respect to an input: the derivative of a function."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.project import mentions

from ..choice.blocks import ends_control, leading_lines, size_of, statements_in, unspaced
from ..data_dependent.flow import torch_name

_MOST = 8  # statements that may stand twice
_SOURCE = """
import torch


def f(self, model, x, weight, train):
{}
"""
_FACTS = {
    "x": tensor(4, 3),
    "x.detach()": tensor(4, 3),
    "weight": tensor(4, 3),
    "y": tensor(4, requires_grad=True),
    "h": tensor(4, 3, requires_grad=True),
    "out": tensor(4, requires_grad=True),
    "n": scalar(3),
    "train": scalar(True),
}
_AT = "torch.autograd.grad"
_AGAIN = "The result can be differentiated again, where the original has used up its graph."
_FROZEN = (
    "If all parameters are frozen, the result no longer requires a gradient: in the original only"
    " {} made it require one."
)
_LIMIT = "A caller's `{}` does not require a gradient afterwards, where the original marks it so."
_HOOKS = (
    "Inside `torch.func.vjp`, backward hooks of a module and batch norm that is in training raise"
    " an error."
)
#: Who asks for a flag that is set on an argument, or for what it brings.
_ASKS = (
    r"\.requires_grad\b(?!\s*=[^=])|(?<!autograd)\.grad\b|\bis_leaf\b|\bretain_grad\b"
    r"|\.backward\([^)]*\binputs="
)


def _body(*lines: str) -> str:
    return _SOURCE.format("\n".join(f"    {line}" if line else "" for line in lines))


def _example(title: str, before: Sequence[str], after: Sequence[str]) -> Example:
    return Example(_body(*before), _body(*after), at=_AT, facts=_FACTS, title=title)


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_body(*lines), at=_AT, why=why, facts=_FACTS)


class GradientToVjp(Codemod):
    """*What it does.*  Takes a derivative with respect to an input by `torch.func.vjp`, which
    Dynamo traces, where the original sets a flag and calls `torch.autograd.grad`:

    ```python
    x = x.detach().requires_grad_(True)
    y = model(x)
    g = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
    ```
    becomes
    ```python
    x = x.detach()

    def y_of_x(x):
        y = model(x)
        return y

    y, pull = torch.func.vjp(y_of_x, x)
    g = pull(torch.ones_like(y))[0]
    ```

    *When it applies.*  Names get the flag, or are made with it (``torch.zeros(3, 3,
    requires_grad=True)``), and one derivative is taken with respect to them; what stands between
    becomes the function.  Where it is one name, an ``if`` on a plain setting may stand around both.

    *Fix safety.*  The numbers are the same.  Without ``create_graph`` the derivative is detached.
    A tensor of the caller does not keep the flag, which is said; the runs show whether the program
    can tell.

    *Refuses.*  Several outputs, blocks that return or jump, values between that are
    used later and are no tensors, inputs that are bound anew in between.
    """

    name = "gradient-to-vjp"
    codes = ("GB9186", "GB0125", "GB0206", "GB0225", "GB8985", "GB7324", "GB4927")
    examples = (
        _example(
            "a penalty",
            [
                "x = x.detach().requires_grad_(True)",
                "# What the model makes of it.",
                "y = model(x)",
                "g = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]",
                "return (g.norm(2, dim=1) - 1).pow(2).mean()",
            ],
            [
                "x = x.detach()",
                "",
                "def y_of_x(x):",
                "    # What the model makes of it.",
                "    y = model(x)",
                "    return y",
                "",
                "y, pull = torch.func.vjp(y_of_x, x)",
                "g = pull(torch.ones_like(y))[0]",
                "return (g.norm(2, dim=1) - 1).pow(2).mean()",
            ],
        ),
        _example(
            "a flag that is taken away again",
            [
                "with torch.enable_grad():",
                "    x.requires_grad_(True)",
                "    y = (model(x) * weight).sum()",
                "    g = torch.autograd.grad(y, x)[0]",
                "x.requires_grad_(False)",
                "return (g * weight).sum(1)",
            ],
            [
                "with torch.enable_grad():",
                "",
                "    def y_of_x(x):",
                "        y = (model(x) * weight).sum()",
                "        return y",
                "",
                "    y, pull = torch.func.vjp(y_of_x, x)",
                "    g = pull(torch.ones_like(y))[0].detach()",
                "return (g * weight).sum(1)",
            ],
        ),
        _example(
            "what is in between is used afterwards",
            [
                "x.requires_grad = True",
                "h = model(x)",
                "weight = weight * 2",
                "y = (h * weight).sum()",
                "n = h.shape[0]",
                "(g,) = torch.autograd.grad([y], [x], [weight], create_graph=train)",
                "return g, h",
            ],
            [
                "",
                "def y_of_x(x, weight=weight):",
                "    h = model(x)",
                "    weight = weight * 2",
                "    y = (h * weight).sum()",
                "    return y, (h, weight)",
                "",
                "y, pull, (h, weight) = torch.func.vjp(y_of_x, x, has_aux=True)",
                "n = h.shape[0]",
                "(g,) = tuple(each if train else each.detach() for each in pull(weight))",
                "return g, h",
            ],
        ),
        _example(
            "by two, one of which is made with the flag",
            [
                "x = x.detach().requires_grad_(True)",
                "h = torch.zeros(3, 3, requires_grad=True, dtype=x.dtype)",
                "y = model(x + x @ h).sum()",
                "forces, virial = torch.autograd.grad([y], [x, h], create_graph=train)",
                "return forces, virial",
            ],
            [
                "x = x.detach()",
                "h = torch.zeros(3, 3, dtype=x.dtype)",
                "",
                "def y_of_x_and_h(x, h):",
                "    y = model(x + x @ h).sum()",
                "    return y",
                "",
                "y, pull = torch.func.vjp(y_of_x_and_h, x, h)",
                "forces, virial = tuple("
                "each if train else each.detach() for each in pull(torch.ones_like(y)))",
                "return forces, virial",
            ],
        ),
        _example(
            "a setting says whether it is differentiated again",
            [
                "x.requires_grad_(True)",
                "y = model(x)",
                "g = torch.autograd.grad(y, x, weight, create_graph=self.training)[0]",
                "return g",
            ],
            [
                "",
                "def y_of_x(x):",
                "    y = model(x)",
                "    return y",
                "",
                "y, pull = torch.func.vjp(y_of_x, x)",
                "g = pull(weight)[0]",
                "if not self.training:",
                "    g = g.detach()",
                "return g",
            ],
        ),
        _example(
            "where a setting asks for it",
            [
                "if self.forces:",
                "    x.requires_grad_(True)",
                "y = model(x)",
                "if self.forces:",
                "    g = torch.autograd.grad(y.sum(), x)[0]",
                "    return y, -g",
                "return y",
            ],
            [
                "if self.forces:",
                "    def sum_of_x(x):",
                "        y = model(x)",
                "        return y.sum(), (y,)",
                "",
                "    y_sum, pull, (y,) = torch.func.vjp(sum_of_x, x, has_aux=True)",
                "    g = pull(torch.ones_like(y_sum))[0].detach()",
                "    return y, -g",
                "y = model(x)",
                "return y",
            ],
        ),
    )
    near_misses = (
        _near_miss(
            "one of two inputs has no flag",
            "x.requires_grad_(True)",
            "y = model(x)",
            "g = torch.autograd.grad(y, [x, weight], torch.ones_like(y))",
        ),
        _near_miss(
            "one of two inputs is used before the other has its flag",
            "x.requires_grad_(True)",
            "h = model(x)",
            "weight = (weight * 2).requires_grad_(True)",
            "y = (h * weight).sum()",
            "g = torch.autograd.grad(y, [x, weight])",
        ),
        _near_miss(
            "of two inputs, one may not be used",
            "x.requires_grad_(True)",
            "weight.requires_grad_(True)",
            "y = model(x)",
            "gs = torch.autograd.grad(y, [x, weight], torch.ones_like(y), allow_unused=True)",
            "return sum(g.sum() for g in gs if g is not None)",
        ),
        _near_miss(
            "what has the flag is a list of inputs",
            "x.requires_grad_(True)",
            "y = model(x)",
            "g = torch.autograd.grad(y, [*weight, x], torch.ones_like(y))",
        ),
        _near_miss(
            "the name stands for something else by then",
            "x.requires_grad_(True)",
            "x = x * 2",
            "y = model(x)",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
        ),
        _near_miss(
            "it may end in between",
            "x.requires_grad_(True)",
            "y = model(x)",
            "if train:",
            "    return y",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
        ),
        _near_miss(
            "a number in between is used afterwards",
            "x.requires_grad_(True)",
            "n = 3",
            "y = model(x)",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
            "return g * n",
        ),
        _near_miss(
            "something in between may not be there",
            "x.requires_grad_(True)",
            "if train:",
            "    h = x * 2",
            "y = model(x)",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
            "return g + h if train else g",
        ),
        _near_miss(
            "something in between is kept",
            "x.requires_grad_(True)",
            "y = model(x)",
            "self.last = y",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
        ),
        _near_miss(
            "the flag may be off",
            "x.requires_grad_(train)",
            "y = model(x)",
            "g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
        ),
        _near_miss(
            "no derivative is told from one of zero",
            "x.requires_grad_(True)",
            "y = model(x)",
            "g = torch.autograd.grad(y, x, torch.ones_like(y), allow_unused=True)[0]",
            "return y if g is None else g",
        ),
        _near_miss(
            "another setting",
            "if self.forces:",
            "    x.requires_grad_(True)",
            "y = model(x)",
            "if self.training:",
            "    g = torch.autograd.grad(y, x, torch.ones_like(y))[0]",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None or not isinstance(site.function.body, cst.IndentedBlock):
            return
        for call in walk(site.function.body):
            if isinstance(call, cst.Call) and resolve(site.module, call.func) in _GRAD:
                try:
                    yield _rewritten(site, call)
                except _No:
                    continue
                return


_GRAD = ("torch.autograd.grad",)


class _No(Exception):
    """Not this one."""


@dataclasses.dataclass(frozen=True)
class _Derivative:
    """A call of `torch.autograd.grad`: of what, by which name, with which weights."""

    call: cst.Call
    of: cst.BaseExpression
    by: tuple[str, ...]
    weights: str
    keeps: str  # "True", "False", or the expression that decides


def _derivative(site: Site, call: cst.Call) -> _Derivative:
    given: dict[str, cst.BaseExpression] = {}
    order = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph")
    for at, arg in enumerate(call.args):
        if arg.star or (at >= len(order) and arg.keyword is None):
            raise _No
        given[arg.keyword.value if arg.keyword is not None else order[at]] = arg.value
    allowed = {*order, "only_inputs", "allow_unused", "materialize_grads"}
    if not given.keys() <= allowed or not {"outputs", "inputs"} <= given.keys():
        raise _No
    by = tuple(_names(given["inputs"]))
    weights = given.get("grad_outputs")
    text = ""
    if weights is not None and code(weights) != "None":
        text = code(_single(weights))
        fact = site.fact(weights)
        if isinstance(weights, cst.Name) and fact is not None and fact.kind in ("list", "tuple"):
            text = f"{text}[0]"
    keeps = given.get("create_graph")
    return _Derivative(
        call, _single(given["outputs"]), by, text, "False" if keeps is None else code(keeps)
    )


def _names(node: cst.BaseExpression) -> Iterator[str]:
    """The names of the inputs, each once: one, or a list or tuple that is written out."""
    items = [node]
    if isinstance(node, cst.List | cst.Tuple):
        items = [item.value for item in node.elements if isinstance(item, cst.Element)]
        if len(items) < max(1, len(node.elements)):
            raise _No
    names = [item.value for item in items if isinstance(item, cst.Name)]
    if len(names) < len(items) or len(set(names)) < len(names):
        raise _No
    yield from names


def _single(node: cst.BaseExpression) -> cst.BaseExpression:
    """The one item of a list or tuple that is written out; what is none, as it is."""
    if isinstance(node, cst.List | cst.Tuple):
        if len(node.elements) != 1 or not isinstance(node.elements[0], cst.Element):
            raise _No
        return node.elements[0].value
    return node


# -- where the flag is set ---------------------------------------------------------------------


def _without_flag(site: Site, node: cst.BaseStatement, name: str) -> list[cst.BaseStatement] | None:
    """The statement without the flag that it sets on the name; None where it sets none."""
    match node:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(
                            value=cst.Name(value=found), attr=cst.Name("requires_grad_")
                        ),
                        args=args,
                    )
                )
            ]
        ) if found == name and _is_true(args):
            return []
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            target=cst.Attribute(
                                value=cst.Name(value=found), attr=cst.Name("requires_grad")
                            )
                        )
                    ],
                    value=cst.Name("True"),
                )
            ]
        ) if found == name:
            return []
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=found))], value=value
                ) as small
            ]
        ) if found == name:
            plain = _plain(site, value)
            if plain is not None:
                return [node.with_changes(body=[small.with_changes(value=plain)])]
    return None


def _plain(site: Site, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """``e`` of ``e.requires_grad_()``, ``e.detach()`` of ``Variable(e, requires_grad=True)``."""
    match value:
        case cst.Call(
            func=cst.Attribute(value=inner, attr=cst.Name("requires_grad_")), args=args
        ) if _is_true(args):
            return inner.with_changes(lpar=(), rpar=())
        case cst.Call(
            func=func,
            args=[
                cst.Arg(value=inner, keyword=None),
                cst.Arg(keyword=cst.Name("requires_grad"), value=cst.Name("True")),
            ],
        ) if (resolve(site.module, func) or "") in _VARIABLE:
            text = code(inner)
            simple = isinstance(inner, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
            return cst.parse_expression(f"{text if simple else f'({text})'}.detach()")
        case cst.Call(func=func, args=args) if (resolve(site.module, func) or "").removeprefix(
            "torch."
        ) in _MAKES:
            rest = [arg for arg in args if arg.keyword is None or arg.keyword.value != _FLAG]
            flags = [arg.value for arg in args if arg not in rest]
            if [code(flag) for flag in flags] == ["True"] and not any(arg.star for arg in args):
                rest[-1:] = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in rest[-1:]]
                return value.with_changes(args=rest)
    return None


_FLAG = "requires_grad"
#: Make a tensor of their own, which no gradient goes through.
_MAKES = words(
    "tensor zeros ones full eye empty rand randn zeros_like ones_like full_like rand_like"
    " randn_like linspace arange"
)
_VARIABLE = ("torch.autograd.Variable", "torch.autograd.variable.Variable")


def _is_true(args: Sequence[cst.Arg]) -> bool:
    return not args or (len(args) == 1 and code(args[0].value) == "True")


# -- the rewrite -------------------------------------------------------------------------------


def _rewritten(site: Site, call: cst.Call) -> Rewrite:
    found = _derivative(site, call)
    taking = site.statement_of(call)
    if not isinstance(taking, cst.SimpleStatementLine) or _asks_for_none(site, found, taking):
        raise _No
    block = [it for it in site.block_of(taking) if isinstance(it, cst.BaseStatement)]
    end = block.index(taking)
    flags: dict[str, int] = {}
    plain: dict[int, list[cst.BaseStatement]] = {}
    for at in range(end - 1, -1, -1):
        for name in found.by:
            first = _without_flag(site, block[at], name)
            if first is not None and name not in flags:
                flags[name], plain[at] = at, first
    if not flags:
        return _behind_a_setting(site, found, taking, block)
    start, last = min(plain), max(plain)
    beside = [statement for at, statement in enumerate(block[:last]) if start < at not in plain]
    if len(flags) < len(found.by) or activity(beside).reads & {*found.by}:
        raise _No
    above = [line for at in range(start, last + 1) for line in plain.get(at, [block[at]])]
    new = [*above, *_outlined(site, found, block[last + 1 : end], taking)]
    back = list(_put_back(site, found, block[end:]))
    return _edited(site, found, [*block[start : end + 1], *back], new, [], put_back=len(back))


def _put_back(
    site: Site, found: _Derivative, rest: list[cst.BaseStatement]
) -> Iterator[cst.BaseStatement]:
    """What takes the flags away again, right behind the derivative or the ``with`` around it."""
    holder = site.parent(site.parent(rest[0]) or rest[0])
    if len(rest) == 1 and isinstance(holder, cst.With):
        outer = [it for it in site.block_of(holder) if isinstance(it, cst.BaseStatement)]
        rest = outer[outer.index(holder) :]
    for statement in rest[1:]:
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        cst.Call(
                            func=cst.Attribute(cst.Name(name), cst.Name("requires_grad_")),
                            args=[cst.Arg(value=cst.Name("False"), star="")],
                        )
                    )
                ]
            ) if name in found.by:
                yield statement
            case _:
                return


def _behind_a_setting(
    site: Site, found: _Derivative, taking: cst.SimpleStatementLine, inner: list[cst.BaseStatement]
) -> Rewrite:
    """``if P: flag`` ... ``if P: derivative``: both in one, and what is between in both arms."""
    holder = site.parent(site.parent(taking) or taking)
    if not isinstance(holder, cst.If) or holder.orelse is not None or dotted(holder.test) is None:
        raise _No
    block = [it for it in site.block_of(holder) if isinstance(it, cst.BaseStatement)]
    end = block.index(holder)
    for start in range(end - 1, -1, -1):
        flag = block[start]
        if not isinstance(flag, cst.If) or code(flag.test) != code(holder.test):
            continue
        lines = statements_in(flag.body)
        first = _without_flag(site, lines[-1], found.by[0]) if len(found.by) == 1 else None
        between = block[start + 1 : end]
        does = activity(between)
        asked = {code(part) for part in walk(holder.test)}
        if first is None or flag.orelse is not None or size_of(between) > _MOST:
            raise _No
        if asked & {*does.bound, *does.attribute_writes, *does.mutates}:
            raise _No
        at = inner.index(taking)
        made = [
            *lines[:-1],
            *first,
            *_outlined(site, found, between, taking, inner[:at]),
            *inner[at + 1 :],
        ]
        body = cst.IndentedBlock(unspaced(made))
        ends = ends_control(made)
        orelse = None if ends else cst.Else(cst.IndentedBlock(unspaced(between)))
        whole = holder.with_changes(body=body, orelse=orelse, leading_lines=leading_lines(flag))
        rest = between if ends else []
        return _edited(site, found, block[start : end + 1], [whole], rest)
    raise _No


def _asks_for_none(site: Site, found: _Derivative, taking: cst.SimpleStatementLine) -> bool:
    """Whether a derivative that is none (``allow_unused``) may be told from one that is zero."""
    if not any(
        arg.keyword is not None and arg.keyword.value == "allow_unused" for arg in found.call.args
    ):
        return False
    assert site.function is not None
    named = activity(taking).bound
    if len(found.by) > 1:
        return not _only_counts(site, taking, len(found.by))
    none = cst.Is | cst.IsNot
    asked = any(
        isinstance(node, cst.Comparison)
        and isinstance(node.comparisons[0].operator, none)
        and activity(node).reads & named
        for node in walk(site.function.body)
    )
    return asked or not named


def _only_counts(site: Site, taking: cst.SimpleStatementLine, several: int) -> bool:
    """Whether each derivative has a name, with which the function only computes."""
    match taking.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=elements))])]:
            names = [it.value.value for it in elements if isinstance(it.value, cst.Name)]
        case _:
            return False
    assert site.function is not None
    computes = cst.BinaryOperation | cst.UnaryOperation | cst.Attribute | cst.Subscript
    places = [place for name in names for place in site.places_of(name, site.function)]
    own = set(walk(taking))
    return len(names) == several and all(
        place in own or isinstance(site.parent(place), computes) for place in places
    )


def _outlined(
    site: Site,
    found: _Derivative,
    between: list[cst.BaseStatement],
    taking: cst.SimpleStatementLine,
    before: Sequence[cst.BaseStatement] = (),
) -> list[cst.BaseStatement]:
    """The function, its derivative, and the statement that takes it."""
    assert site.function is not None
    left = exits(between)
    does = activity(between)
    if not between or left.any or does.globals or does.nonlocals or does.deletes or does.dynamic:
        raise _No
    if {*found.by} & (does.bound | activity(list(before)).bound):
        raise _No
    if does.attribute_writes or does.mutates_unknown or does.mutates - does.bound:
        raise _No  # what is kept elsewhere is dead once the derivative is taken
    result = found.of.value if isinstance(found.of, cst.Name) else ""
    if result and result not in does.bound:
        raise _No
    between, behind = _until_made(found.of, between)
    does = activity(between)
    torch = torch_name(site)
    taken = names_in(site.module)
    function = fresh(f"{_last_word(found.of)}_of_{'_and_'.join(found.by)}", taken)
    result = result or fresh(_telling(found.of), {*taken, function})
    pull = fresh("pull", {*taken, function, result})
    weights = found.weights or f"{torch}.ones_like({result})"
    last = [*_taken(site, found, taking, f"{pull}({weights})")]
    later = live_after(site.function, taking) | activity([*behind, *before, *last]).reads
    others = sorted((does.bound & later) - {result})
    if not {*others} <= definitely_bound_before(site.function, taking):
        raise _No
    for name in others:
        fact = site.locals_before(taking).get(name)
        if fact is None or not fact.is_tensor:
            raise _No
    given = sorted((live_before(site.function, between[0]) & does.bound) - {*found.by})
    parameters = ", ".join([*found.by, *(f"{name}={name}" for name in given)])
    aux = f"({', '.join(others)}{',' if len(others) == 1 else ''})"
    back = f"return {code(found.of)}" + (f", {aux}" if others else "")
    template = cst.parse_statement(f"def {function}({parameters}):\n    {back}\n")
    assert isinstance(template, cst.FunctionDef) and isinstance(template.body, cst.IndentedBlock)
    inside = [*unspaced(between), *template.body.body]
    blank = [cst.EmptyLine(indent=False)]
    outlined = template.with_changes(
        body=template.body.with_changes(body=inside), leading_lines=blank
    )
    head = f"{result}, {pull}" + (f", {aux}" if others else "")
    tail = ", has_aux=True" if others else ""
    line = f"{head} = {torch}.func.vjp({function}, {', '.join(found.by)}{tail})"
    derived = cst.parse_statement(line).with_changes(leading_lines=blank)
    return [outlined, derived, *behind, *before, *last]


def _until_made(
    of: cst.BaseExpression, between: list[cst.BaseStatement]
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """What the derivative is taken of is made in the first; the others only come before it."""
    reads = activity(of).reads
    last = 0
    for at, statement in enumerate(between):
        does = activity(statement)
        if does.bound & reads or does.mutates or does.mutates_unknown or does.attribute_writes:
            last = at
    return between[: last + 1], between[last + 1 :]


def _last_word(node: cst.BaseExpression) -> str:
    match node:
        case cst.Name(value=name):
            return name
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name
    return "value"


def _telling(node: cst.BaseExpression) -> str:
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value=method))):
            return f"{name}_{method}"
    return "value"


def _taken(
    site: Site, found: _Derivative, taking: cst.SimpleStatementLine, pulled: str
) -> Iterator[cst.BaseStatement]:
    """The statement with what the function's derivative gives."""
    parent = site.parent(found.call)
    target: cst.CSTNode = found.call
    text = pulled
    if isinstance(parent, cst.Subscript) and code(parent).endswith("[0]"):
        target = parent
        text = f"{pulled}[0]"
        match taking.body:
            case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)] if (
                value is parent and found.keeps not in ("True", "False")
            ):
                made = cst.parse_expression(text)
                yield cst.ensure_type(taking.visit(_Put(target, made)), cst.SimpleStatementLine)
                asked = cst.parse_expression(found.keeps)
                plain = isinstance(asked, cst.Name | cst.Attribute | cst.Call)
                test = found.keeps if plain else f"({found.keeps})"
                yield cst.parse_statement(f"if not {test}:\n    {name} = {name}.detach()\n")
                return
        if found.keeps == "False":
            text = f"{text}.detach()"
        elif found.keeps != "True":
            text = f"({text} if {found.keeps} else {text}.detach())"
    elif found.keeps == "False":
        text = f"tuple(each.detach() for each in {pulled})"
    elif found.keeps != "True":
        each = f"each if {found.keeps} else each.detach()"
        text = f"tuple({each} for each in {pulled})"
    new = taking.visit(_Put(target, cst.parse_expression(text)))
    assert isinstance(new, cst.BaseStatement)
    yield new


class _Put(cst.CSTTransformer):
    def __init__(self, node: cst.CSTNode, new: cst.BaseExpression) -> None:
        super().__init__()
        self._node, self._new = node, new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self._new if original_node is self._node else updated_node


def _is_asked(site: Site) -> bool:
    """Whether the project may ask an argument for its flag, or take another derivative by it."""
    texts = {site.source, *site.sources.values()}
    taken = sum(len(re.findall(r"(?<![\w.])grad\(|\bautograd\.grad\(", text)) for text in texts)
    return taken > 1 or mentions(site, _ASKS)


def _edited(
    site: Site,
    found: _Derivative,
    old: Sequence[cst.BaseStatement],
    new: Sequence[cst.BaseStatement],
    rest: Sequence[cst.BaseStatement],
    *,
    put_back: int = 0,
) -> Rewrite:
    """``put_back`` counts the names of which the original takes the flag away again."""
    edit = site.edit()
    edit.replace(old[0], *new, *rest)
    for statement in old[1:]:
        edit.moved(statement)
    assert site.function is not None
    told = " and ".join(f"`{name}`" for name in found.by)
    title = f"take the derivative by {told} of a function"
    given = {*parameters_of(site.function.params)} - activity(site.function.body).bound
    theirs = given & {*found.by}
    notes = [_LIMIT.format(name) for name in found.by if name in theirs]
    notes = notes or [_FROZEN.format(told)]
    if put_back == len(found.by):
        notes = []
    before = site.locals_before(old[0])
    unasked = not _is_asked(site) and all(
        (fact := before.get(name)) is not None and fact.requires_grad is False for name in theirs
    )
    assumes = ["flags-unasked"] if theirs and unasked else []
    if found.keeps != "True":
        notes.append(_AGAIN)
        assumes.append("keeps-graph")
    if any("self." in code(line) or "net(" in code(line) or "model(" in code(line) for line in new):
        notes.append(_HOOKS)
    return edit.rewrite(title, notes=notes, rank=12, assumes=assumes)
