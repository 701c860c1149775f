"""Selections by a mask that an object makes once, when it is made itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.attributes import bound_by_init, reads
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact, Safety

from ..data_dependent.selections import tensor_fact

_SET = (
    "the places are counted when the object is made: a mask that other code sets later, or writes"
    " into, does not count"
)
_PICKLED = "objects that were pickled before do not have them"
_LOADED = "`load_state_dict` may bring another mask, whose places are not counted"
_OTHER_SHAPE = "a tensor that is larger than the mask raises no error any more"
#: By what a class decides itself what its attributes are.
_ATTRIBUTES = words("__getattr__ __getattribute__ __setattr__ __setstate__ __getstate__")
_PLAIN = ("torch.Tensor", "torch.nn.parameter.Parameter")
#: Methods that may give back the tensor that they are called on, or a view of it.
_SAME = words("to bool type byte contiguous detach cuda cpu view reshape flatten squeeze t")
#: Functions and methods that make a new tensor, whatever they are given.
_MAKES = words(
    """ones zeros eye full rand randn randint tensor triu tril eq ne lt le gt ge isnan isfinite isin
    logical_not logical_and logical_or logical_xor where cat stack block_diag roll flip bernoulli
    ones_like zeros_like clone repeat"""
)
#: What only asks a tensor, or makes a new one of it.
_ASKS = words(
    """shape device dtype ndim size dim numel sum any all float int long double nonzero clone
    logical_not is_cuda"""
)
#: Functions that only read a mask.
_READERS = words("masked_select masked_fill masked_fill_ where count_nonzero nonzero sum any all")

_MAKE = "torch.eye(4).bool()"
_FACTS = {
    "x": tensor(4, 4),
    "self.mask": tensor(4, 4, dtype="torch.bool"),
    "~self.mask": tensor(4, 4, dtype="torch.bool"),
}


def _source(forward: str, init: str = "", made: str = _MAKE, more: str = "") -> str:
    return f"""import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, mask=None):
        super().__init__()
        self.mask = {made}
{init}        self.scale = 2

    def forward(self, x):
        return {forward}
{more}"""


def _near_miss(why: str, forward: str = "x[self.mask].sum()", **more: str) -> NearMiss:
    return NearMiss(
        _source(forward, **more), at=forward.partition(".sum")[0], why=why, facts=_FACTS
    )


def _line(name: str, of: str) -> str:
    return f"        self.{name} = {of}.nonzero(as_tuple=True)\n"


class FixedMask(Codemod):
    """*What it does.*  Where ``__init__`` makes a mask that stays, counts there which places it
    holds: with ``self.mask_places = self.mask.nonzero(as_tuple=True)`` below the mask,
    ``x[self.mask]`` becomes ``x[self.mask_places]``, whose size no data decides.

    *When it applies.*  The mask is a tensor of bools that ``__init__`` computes, and no other place
    of the project binds it.  The selection is read; ``~self.mask`` and ``masked_select`` count.

    *Fix safety.*  Safe, with limits: the same elements come in the same order.  All other uses of
    the mask in the project only read it.  Unsafe where the mask is a parameter, which
    ``load_state_dict`` writes.

    *Refuses.*  Masks that are buffers, that are given by the caller, handed on, given another name
    or written into; assignments by a mask, for which ``torch.where`` is the better form.
    """

    name = "fixed-mask"
    codes = ("GB0036", "data-dependent-guard", "data-dependent-other")
    examples = (
        Example(
            _source("x[self.mask].sum() + x[~self.mask].view(4, -1).mean()"),
            _source(
                "x[self.mask_places].sum() + x[self.mask_others].view(4, -1).mean()",
                init=_line("mask_places", "self.mask") + _line("mask_others", "(~self.mask)"),
            ),
            at="x[self.mask]",
            facts=_FACTS,
            title="a mask and its complement",
        ),
        Example(
            _source(
                "torch.masked_select(x + 1, self.mask).sum()",
                made="nn.Parameter(torch.ones(4, 4).triu(1).bool(), requires_grad=False)",
            ),
            _source(
                "(x + 1)[self.mask_places].sum()",
                init=_line("mask_places", "self.mask"),
                made="nn.Parameter(torch.ones(4, 4).triu(1).bool(), requires_grad=False)",
            ),
            at="torch.masked_select(x + 1, self.mask)",
            facts={**_FACTS, "x + 1": tensor(4, 4)},
            title="a parameter that never learns",
        ),
    )
    near_misses = (
        _near_miss("given by the caller, who may write into it", made="mask"),
        _near_miss("perhaps the caller's own", made="mask.bool()"),
        _near_miss("a view of what the caller gave", made="mask.expand(4, 4)"),
        _near_miss("what another attribute holds", made="self.made.fill_diagonal_(False)"),
        _near_miss(
            "what a function keeps",
            made="made(4)",
            more="\n\nKEPT = {4: torch.eye(4).bool()}\n\n\ndef made(n):\n    return KEPT[n]\n",
        ),
        _near_miss(
            "what a function makes and keeps",
            made="made(4)",
            more="\n\nKEPT = {}\n\n\ndef made(n):\n    mask = torch.eye(n).bool()\n"
            "    other = mask\n    KEPT[n] = other\n    return mask\n",
        ),
        _near_miss(
            "what a function is given",
            made="made(mask)",
            more="\n\ndef made(mask):\n    return mask\n",
        ),
        _near_miss("written into by a function", init="        torch.eq(1, 1, out=self.mask)\n"),
        _near_miss("a buffer", made="None", init="        self.register_buffer('mask', mask)\n"),
        _near_miss("bound twice", init="        self.mask = ~self.mask\n"),
        _near_miss("written into", init="        self.mask[0] = False\n"),
        _near_miss("filled", init="        self.mask.fill_(True)\n"),
        _near_miss("handed on", init="        fill(self.mask)\n"),
        _near_miss("with another name", init="        self.other = self.mask\n"),
        _near_miss("made under a condition", made=f"{_MAKE}\n        if mask: self.mask = mask"),
        _near_miss(
            "set from outside", more="\n\nloss = Loss()\nloss.mask = torch.rand(4, 4) > 0\n"
        ),
        _near_miss("asked for by name", more="\n\nLoss().x = getattr(Loss(), 'mask')\n"),
        _near_miss(
            "a class that makes its own",
            more="\n\nclass More(Loss):\n    def reset(self):\n        self.mask = None\n",
        ),
        _near_miss(
            "attributes of its own making",
            more="\n    def __getattr__(self, name):\n        return super().__getattr__(name)\n",
        ),
        NearMiss(
            _source("x").replace("return x", "x[self.mask] = 0\n        return x"),
            at="x[self.mask] = 0",
            facts=_FACTS,
            why="an assignment",
        ),
        NearMiss(
            _source("x").replace(
                "return x", "def of(self):\n            return x[self.mask]\n        return of(x)"
            ),
            at="x[self.mask]",
            facts=_FACTS,
            why="another object's mask",
        ),
        NearMiss(
            _source("torch.masked_select(x, self.mask)"),
            at="torch.masked_select(x, self.mask)",
            facts={**_FACTS, "x": tensor(1, 4)},
            why="what broadcasts",
        ),
        NearMiss(
            _source("x[self.mask]"),
            at="x[self.mask]",
            facts={**_FACTS, "self.mask": tensor(4, dtype="torch.int64")},
            why="places already",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        holder = site.class_of(function) if function is not None else None
        if function is None or holder is None or function.name.value == "__init__":
            return
        if function not in holder.body.body or function.decorators or not function.params.params:
            return
        if not _is_plain(site, holder):
            return
        me = function.params.params[0].name.value
        found = [one for node in walk(function.body) for one in [_selection(site, node, me)] if one]
        edit, lines = site.edit(), dict[str, cst.BaseStatement]()
        learns = False
        for node, value, attribute, inverted in found:
            bound = _bound(site, holder, attribute)
            name = f"{attribute}_{'others' if inverted else 'places'}"
            if bound is None or mentions(site, rf"\b{name}\b"):
                continue
            first, line, made = bound
            learns |= _is_parameter(site, made, f"{me}.{attribute}")
            edit.replace(node, _by_places(value, f"{me}.{name}"))
            if name not in lines:
                of = f"(~{first}.{attribute})" if inverted else f"{first}.{attribute}"
                text = f"{first}.{name} = {of}.nonzero(as_tuple=True)"
                lines[name] = cst.parse_statement(text)
                edit.insert_after(line, lines[name])
        if not lines:
            return
        yield edit.rewrite(
            "count the mask's places where it is made",
            rank=11,
            safety=Safety.UNSAFE if learns else Safety.SAFE,
            notes=(*([_LOADED] if learns else []), _SET, _PICKLED, _OTHER_SHAPE),
            assumes=("reads-once",),
        )


def _is_plain(site: Site, holder: cst.ClassDef) -> bool:
    """Whether the class, and those of the file that it extends, leave attributes as they are."""
    if mentions(site, r"\bdef __torch_function__\b"):
        return False
    waiting, seen = [holder], set[str]()
    while waiting:
        one = waiting.pop()
        defined = {item.name.value for item in one.body.body if isinstance(item, cst.FunctionDef)}
        if one.decorators or defined & _ATTRIBUTES:
            return False
        seen.add(one.name.value)
        for base in {dotted(base.value) or "" for base in one.bases} - seen:
            above = module_bindings(site.module).get(base, ())
            waiting += [node for node in above if isinstance(node, cst.ClassDef)]
    return True


_Selection = tuple[cst.BaseExpression, cst.BaseExpression, str, bool]


def _selection(site: Site, node: cst.CSTNode, me: str) -> _Selection | None:
    """What is selected from, by the mask in which attribute, and whether by its complement."""
    match node:
        case cst.Subscript(
            value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=mask, star=None))]
        ) if not _is_written(site, node):
            exact = False
        case cst.Call(
            args=[cst.Arg(value=value, keyword=None, star=""), cst.Arg(keyword=None) as given]
        ) if resolve(site.module, node.func) == "torch.masked_select":
            mask, exact = given.value, True
        case cst.Call(
            func=cst.Attribute(value=value, attr=cst.Name("masked_select")),
            args=[cst.Arg(value=mask, keyword=None, star="")],
        ):
            exact = True
        case _:
            return None
    whole, inverted = mask, False
    if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
        mask, inverted = mask.expression, True
    match mask:
        case cst.Attribute(value=cst.Name(owner), attr=cst.Name(attribute)) if owner == me:
            pass
        case _:
            return None
    held, fact = tensor_fact(site, value), tensor_fact(site, whole) or tensor_fact(site, mask)
    if held is None or fact is None or held.type not in _PLAIN:
        return None
    if not _fits(held, fact, exact=exact):
        return None
    assert isinstance(node, cst.BaseExpression)
    return node, value, attribute, inverted


def _fits(held: Fact, mask: Fact, *, exact: bool) -> bool:
    if held.shape is None or not mask.shape or mask.dtype != "torch.bool":
        return False
    return held.shape == mask.shape or (not exact and held.shape[: len(mask.shape)] == mask.shape)


def _is_written(site: Site, node: cst.CSTNode) -> bool:
    holder = site.parent(node)
    return isinstance(holder, cst.AssignTarget | cst.AugAssign | cst.Del | cst.AnnAssign)


def _by_places(value: cst.BaseExpression, places: str) -> cst.BaseExpression:
    """``value[places]``"""
    text = code(value)
    plain = isinstance(value, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    return cst.parse_expression(f"{text if plain or value.lpar else f'({text})'}[{places}]")


def _bound(
    site: Site, holder: cst.ClassDef, attribute: str
) -> tuple[str, cst.SimpleStatementLine, cst.BaseExpression] | None:
    """The line of ``__init__``'s own body that makes a mask which stays; with what it makes."""
    texts = [site.source, *site.sources.values()]
    if not bound_by_init(texts, holder.name.value, attribute):
        return None
    if not all(_only_reads(around) for around in reads(texts, holder.name.value, attribute)):
        return None
    for item in holder.body.body:
        if not isinstance(item, cst.FunctionDef) or item.name.value != "__init__":
            continue
        first = item.params.params[0].name.value if item.params.params else ""
        for line in item.body.body:
            match line:
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=made)]
                ) if first and dotted(target) == f"{first}.{attribute}" and _is_new(site, made):
                    return first, line, made
    return None


_Locals = Mapping[str, list[cst.BaseExpression]]


def _is_new(
    site: Site, made: cst.BaseExpression, known: _Locals | None = None, helpers: int = 2
) -> bool:
    """Whether it is a tensor that nobody else holds, by all that its form says.

    ``known`` are the values of the names of a function.
    """
    match made:
        case cst.BinaryOperation() | cst.Comparison():
            return True
        case cst.UnaryOperation(operator=operator):
            return isinstance(operator, cst.BitInvert | cst.Minus)
        case cst.Name(name) if known and name in known:
            rest = {other: values for other, values in known.items() if other != name}
            return all(
                _is_of(value, name) or _is_new(site, value, rest, helpers) for value in known[name]
            )
        case cst.Call(func=func, args=args):
            pass
        case _:
            return False
    home, _, last = (dotted(func) or "").rpartition(".")
    if last in ("Parameter", "from_numpy", "as_tensor") and args:
        return _is_new(site, args[0].value, known, helpers)
    if isinstance(func, cst.Attribute):
        last = func.attr.value
        if last in _SAME and not (resolve(site.module, func) or "").startswith("torch."):
            return _is_new(site, func.value, known, helpers)
    if last in _MAKES and not any(arg.keyword and code(arg.keyword) == "out" for arg in args):
        return True
    return helpers > 0 and _gives_new(site, made, home, last, helpers - 1)


def _is_of(value: cst.BaseExpression, name: str) -> bool:
    """``mask.fill_diagonal_(0)``: what a method gives that is called on the name's own tensor."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        value = value.func.value
    return isinstance(value, cst.Name) and value.value == name


def _gives_new(site: Site, call: cst.Call, home: str, name: str, helpers: int) -> bool:
    """Whether ``name(...)`` or ``self.name(...)`` is a function of the file that makes tensors."""
    inside = site.class_of(call)
    if home and inside is not None:
        found = [item for item in inside.body.body if isinstance(item, cst.FunctionDef)]
        found = [item for item in found if item.name.value == name]
    else:
        bound = module_bindings(site.module).get(name, ())
        found = [item for item in bound if isinstance(item, cst.FunctionDef)]
    if len(found) != 1:
        return False
    known = _own_names(found[0])
    results = [node.value for node in walk(found[0].body) if isinstance(node, cst.Return)]
    return bool(results) and all(
        value is not None and _is_new(site, value, known, helpers) for value in results
    )


def _own_names(function: cst.FunctionDef) -> _Locals:
    """The values of names that are no parameters, and whose values nothing else gets to hold."""
    lost = {param.name.value for param in walk(function.params) if isinstance(param, cst.Param)}
    known: dict[str, list[cst.BaseExpression]] = {}
    for node in walk(function.body):
        match node:
            case cst.FunctionDef() | cst.Lambda() | cst.NamedExpr() | cst.Global() | cst.Nonlocal():
                return {}
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(one))], value=value):
                known.setdefault(one, []).append(value)
        match node:
            case (
                cst.Assign(value=cst.Name(one))
                | cst.AnnAssign(value=cst.Name(one))
                | cst.Arg(value=cst.Name(one))
                | cst.Element(value=cst.Name(one))
                | cst.DictElement(value=cst.Name(one))
                | cst.Yield(value=cst.Name(one))
                | cst.For(target=cst.Name(one))
                | cst.AnnAssign(target=cst.Name(one))
                | cst.AsName(name=cst.Name(one))
            ):
                lost.add(one)
    return {one: values for one, values in known.items() if one not in lost}


def _is_parameter(site: Site, made: cst.BaseExpression, text: str) -> bool:
    if "Parameter" in code(made):
        return True
    assert site.function is not None
    nodes = [n for n in walk(site.function.body) if isinstance(n, cst.Attribute)]
    facts = [site.fact(node) for node in nodes if dotted(node) == text]
    return any(fact is not None and fact.type.endswith("Parameter") for fact in facts)


def _only_reads(around: tuple[ast.AST, ...]) -> bool:
    """Whether a use of the mask can neither change it nor keep it; nothing is known of ()."""
    match around:
        case (read, ast.Subscript(slice=index), *_):
            return read is index
        case (read, ast.Attribute(attr=name), *_):
            return name in _ASKS
        case (_, ast.UnaryOp() | ast.BinOp() | ast.Compare(), *_):
            return True
        case (read, ast.Call(func=ast.Attribute(attr=name), args=args), *_):
            # (In a method's call, what is written into is not among the arguments.)
            return name in _READERS and any(read is arg for arg in args)
    return False


__all__ = ["FixedMask"]
