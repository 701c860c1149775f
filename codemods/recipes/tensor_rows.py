"""Rows of `api_table` about tensors that are written into, drawn and grouped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import dotted, words
from gbfix.codemod import Site

from ..api.splice import Splice


@dataclasses.dataclass(frozen=True)
class Form:
    """What a call becomes; ``notes`` say what else changes, ``quiet`` that a warning goes,
    ``unsafe`` that there are values for which the two differ, and ``answers`` that the call asks
    what Python knows (a type), whatever the data.
    """

    text: str
    notes: tuple[str, ...] = ()
    quiet: bool = False
    unsafe: bool = False
    answers: bool = False


Row = Callable[[Site, cst.Call, Splice], Form | None]

_FRESH = words(
    """empty zeros ones empty_like zeros_like ones_like rand randn rand_like randn_like new_empty
    new_zeros new_ones"""
)
#: What computes an element of its result from those at its place, or products of matrices: the same
#: with and without ``out``.
_WITH_OUT = words(
    """add sub mul div true_divide pow exp log sqrt rsqrt sin cos tan tanh sigmoid neg abs square
    maximum minimum clamp atan2 matmul mm bmm mv"""
)


def torch_name(site: Site) -> str | None:
    """The name under which the module has imported torch."""
    return next((n for n, home in import_map(site.module).items() if home == "torch"), None)


def random_ints(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.empty_like(x).random_(0, 10)`` is ``torch.randint_like(torch.empty_like(x), 0, 10)``,
    and ``y.random_(10)`` is ``y.copy_(torch.randint_like(y, 10))``: both draw the same numbers.
    """
    torch = torch_name(site)
    match call:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("random_")), args=args):
            pass
        case _:
            return None
    plain = all(arg.keyword is None and not arg.star for arg in args)
    if torch is None or not plain or len(args) not in (1, 2):
        return None
    if not all(_is_int(site, arg.value) for arg in args):
        return None
    text = splice.source_of(owner)
    bounds = ", ".join(splice.source_of(arg.value) for arg in args)
    drawn = f"{torch}.randint_like({text}, {bounds})"
    if isinstance(owner, cst.Call):
        name = resolve(site.module, owner.func) or ""
        made = name.startswith("torch.") and name.rpartition(".")[2] in _FRESH
        return Form(drawn) if made else None
    fact = site.fact(owner)
    if dotted(owner) is None or fact is None or not fact.is_tensor:
        return None
    return Form(f"{text}.copy_({drawn})")


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    inner = node.expression if isinstance(node, cst.UnaryOperation) else node
    fact = site.fact(node)
    return isinstance(inner, cst.Integer) or (fact is not None and fact.kind == "int")


def copied_out(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.add(x, 1, out=y)`` is ``y.copy_(torch.add(x, 1))`` where the two are of one size.

    Where they are not, torch gives ``y`` the size of the result, with a warning.
    """
    name = resolve(site.module, call.func) or ""
    if not name.startswith("torch.") or name.removeprefix("torch.") not in _WITH_OUT:
        return None
    out = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "out"]
    if len(out) != 1 or any(arg.star for arg in call.args) or dotted(out[0].value) is None:
        return None
    fact = site.fact(out[0].value)
    others = [arg for arg in call.args if arg is not out[0]]
    if fact is None or not fact.is_tensor:
        return None
    given = [site.fact(arg.value) for arg in others]
    if not any(one is not None and one.is_tensor for one in given) or any(
        one is not None and one.is_tensor and one.dtype != fact.dtype for one in given
    ):
        return None
    inside = ", ".join(_argument(arg, splice) for arg in others)
    text = splice.source_of(out[0].value)
    made = f"{splice.source_of(call.func)}({inside})"
    if not _is_whole_line(site, call):
        note = f"where `{text}` is of another size than the result, it is not resized"
        return Form(f"{text}.copy_({made})", notes=(note,), unsafe=True)
    new = fresh("new", names_in(site.module))
    lines = (f"{new} = {made}", *_written(site, text, new))
    return Form(_lines(site, call, lines), notes=_resized(text))


def copied_pair(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.max(x, 0, out=(values, indices))``, as a statement: both are written into."""
    name = resolve(site.module, call.func) or ""
    if name not in ("torch.max", "torch.min", "torch.sort", "torch.topk", "torch.kthvalue"):
        return None
    if not _is_whole_line(site, call) or any(arg.star for arg in call.args):
        return None
    out = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "out"]
    match [arg.value for arg in out]:
        case [cst.List(elements=elements) | cst.Tuple(elements=elements)] if len(elements) == 2:
            facts = [site.fact(item.value) for item in elements]
        case _:
            return None
    if any(fact is None or not fact.is_tensor for fact in facts):
        return None
    names = names_in(site.module)
    kept = fresh("kept", names)
    new = fresh("new", {*names, kept})
    inside = ", ".join(_argument(arg, splice) for arg in call.args if arg is not out[0])
    pair = splice.source_of(out[0].value)
    made = f"{splice.source_of(call.func)}({inside})"
    lines = (
        f"for {kept}, {new} in zip({pair}, {made}):",
        *(f"{site.module.default_indent}{line}" for line in _written(site, kept, new)),
    )
    return Form(_lines(site, call, lines), notes=_resized(pair))


def _written(site: Site, out: str, new: str) -> tuple[str, ...]:
    """The lines that do with a result what ``out=`` does."""
    resize = f"{site.module.default_indent}{out}.resize_({new}.shape)"
    return f"if {out}.shape != {new}.shape:", resize, f"{out}.copy_({new})"


def _lines(site: Site, call: cst.Call, lines: tuple[str, ...]) -> str:
    """Lines in place of a call that is a whole line."""
    start = site.source.splitlines()[site.span(site.statement_of(call)).line - 1]
    indent = start[: len(start) - len(start.lstrip())]
    return f"{site.module.default_newline}{indent}".join(lines)


def _resized(out: str) -> tuple[str, ...]:
    return (
        f"where `{out}` holds elements of another size than the result, torch warns that it is"
        " resized; the patch resizes it without a word",
    )


def _is_whole_line(site: Site, call: cst.Call) -> bool:
    holder = site.parent(call)
    line = site.parent(holder) if isinstance(holder, cst.Expr) else None
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def grouped(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``itertools.groupby(iterable=xs)`` is ``itertools.groupby(xs)``."""
    if resolve(site.module, call.func) != "itertools.groupby":
        return None
    match call.args:
        case [cst.Arg(keyword=cst.Name("iterable"), value=items), *rest]:
            texts = [splice.source_of(items), *(_argument(arg, splice) for arg in rest)]
            return Form(f"{splice.source_of(call.func)}({', '.join(texts)})")
    return None


def jagged(site: Site, call: cst.Call, splice: Splice) -> Form | None:
    """``torch.nested.nested_tensor(x, layout=torch.jagged)`` of one tensor copies it, detached."""
    if resolve(site.module, call.func) != "torch.nested.nested_tensor":
        return None
    match call.args:
        case [
            cst.Arg(keyword=None, star="", value=given),
            cst.Arg(keyword=cst.Name("layout"), value=layout),
        ] if resolve(site.module, layout) == "torch.jagged":
            pass
        case _:
            return None
    fact = site.fact(given)
    torch = torch_name(site)
    if fact is None or not fact.is_tensor or dotted(given) is None or torch is None:
        return None
    made = f"{splice.source_of(given)}.detach().clone()"
    return Form(f"{torch}.nested.as_nested_tensor({made}, layout={splice.source_of(layout)})")


def _argument(arg: cst.Arg, splice: Splice) -> str:
    head = f"{arg.keyword.value}=" if arg.keyword is not None else arg.star
    return head + splice.source_of(arg.value)
