"""The grid of a triton launch, where it is an object that can be called."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import dotted, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site
from gbfix.schema import Fact

_HEAD = """
import functools

import triton


def grid(size, meta):
    return (triton.cdiv(size, meta["BLOCK"]),)


def f(kernel, x, out, n, {given}):
    {launch}
    return out
"""


def _source(launch: str, given: str = "blocks") -> str:
    return _HEAD.format(launch=launch, given=given)


def _example(title: str, before: str, after: str, given: str = "blocks", **facts: Fact) -> Example:
    return Example(
        _source(before, given), _source(after, given), at=before, facts=facts, title=title
    )


def _near_miss(launch: str, why: str, **facts: Fact) -> NearMiss:
    return NearMiss(_source(launch), at=launch, why=why, facts=facts)


class GridToLambda(Codemod):
    """*What it does.*  Makes the grid of a triton launch a function, which Dynamo takes for one.

    ```python
    kernel[functools.partial(grid, n)](x, out, n, BLOCK=1024)
    ```
    becomes
    ```python
    kernel[lambda meta: grid(n, meta)](x, out, n, BLOCK=1024)
    ```

    *When it applies.*  The grid is a ``functools.partial`` made in place, of names, numbers and
    parts of them (``x.shape[0]``), or the name of an object that is called (``grid`` becomes
    ``lambda meta: grid(meta)``).

    *Fix safety.*  Safe: triton calls the grid with one argument, during the launch.

    *Refuses.*  Grids that were seen to be no object that is called; arguments that are computed,
    which ``partial`` computes once and a function for each call.
    """

    name = "grid-to-lambda"
    codes = ("GB0216",)
    examples = (
        _example(
            "a partial function",
            "kernel[functools.partial(grid, x.shape[0])](x, out, n, BLOCK=16)",
            "kernel[lambda meta: grid(x.shape[0], meta)](x, out, n, BLOCK=16)",
        ),
        _example(
            "a partial function of keywords, where `meta` is a name already",
            "kernel[functools.partial(grid, size=meta)](x, out, n, BLOCK=16)",
            "kernel[lambda meta_1: grid(meta_1, size=meta)](x, out, n, BLOCK=16)",
            "meta",
        ),
        _example(
            "an object",
            "kernel[blocks](x, out, n, BLOCK=16)",
            "kernel[lambda meta: blocks(meta)](x, out, n, BLOCK=16)",
            blocks=Fact("object", "program.Blocks"),
        ),
    )
    near_misses = (
        _near_miss("kernel[functools.partial(grid, next(n))](x, out, n)", "computed once"),
        _near_miss("kernel[functools.partial(grid, *n)](x, out, n)", "starred"),
        _near_miss("kernel[functools.partial(grid, **n)](x, out, n)", "starred"),
        _near_miss("kernel[functools.partial(n(), 1)](x, out, n)", "a function that is computed"),
        _near_miss("kernel[functools.partial(grid, n)](x, out, n := 3)", "bound during the launch"),
        _near_miss("kernel[functools.partial()](x, out, n)", "no function at all"),
        _near_miss("kernel[blocks](x, out, n)", "nothing is known of it"),
        _near_miss("kernel[blocks](x, out, n)", "a tuple", blocks=Fact("tuple", "tuple")),
        _near_miss("kernel[blocks](x, out, n)", "sizes", blocks=Fact("tuple", "torch.Size")),
        _near_miss("kernel[blocks](x, out, n)", "a tensor", blocks=Fact("tensor", "torch.Tensor")),
        _near_miss("kernel[blocks()](x, out, n)", "made anew for each call of a function"),
        _near_miss("kernel[(1,)](x, out, n)", "a tuple"),
        _near_miss("kernel[blocks, 1](x, out, n)", "a tuple", blocks=Fact("object", "Blocks")),
        _near_miss("kernel[lambda meta: (1,)](x, out, n)", "a function"),
        _near_miss("kernel(x, out, n)", "no launch"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if any(isinstance(node, cst.NamedExpr | cst.Await) for node in walk(site.statement)):
            return
        for node in walk(site.statement):
            match node:
                case cst.Call(
                    func=cst.Subscript(
                        slice=[cst.SubscriptElement(slice=cst.Index(value=grid, star=None))]
                    )
                ):
                    new = _function(site, grid)
                    if new is not None:
                        edit = site.edit()
                        edit.replace(grid, new)
                        yield edit.rewrite("make the grid a function", rank=15)
                        return


def _function(site: Site, grid: cst.BaseExpression) -> cst.Lambda | None:
    meta = fresh("meta", names_in(site.module) - _own(site))
    match grid:
        case cst.Name():
            fact = site.fact(grid) or site.locals_before(site.statement).get(grid.value)
            if fact is None or fact.kind != "object":
                return None
            call = cst.Call(grid, [cst.Arg(cst.Name(meta))])
        case cst.Call(func=func, args=[cst.Arg(value=called, keyword=None, star=""), *more]) if (
            resolve(site.module, func) == "functools.partial"
        ):
            if dotted(called) is None or not all(_is_plain(argument) for argument in more):
                return None
            plain = [argument for argument in more if argument.keyword is None]
            named = [argument for argument in more if argument.keyword is not None]
            given = [cst.Arg(argument.value) for argument in plain]
            words = [
                cst.Arg(argument.value, argument.keyword, equal=cst.AssignEqual(_NOTHING, _NOTHING))
                for argument in named
            ]
            call = cst.Call(called, [*given, cst.Arg(cst.Name(meta)), *words])
        case _:
            return None
    return cst.Lambda(cst.Parameters([cst.Param(cst.Name(meta))]), call)


_NOTHING = cst.SimpleWhitespace("")


def _own(site: Site) -> set[str]:
    """Names that stand elsewhere in the file only: a lambda's parameter may share them."""
    inside = names_in(site.function) if site.function is not None else set()
    return names_in(site.module) - inside


def _is_plain(argument: cst.Arg) -> bool:
    """Whether a value is the same whenever it is read during the launch."""
    return not argument.star and all(
        isinstance(
            node,
            cst.Arg | cst.Name | cst.Attribute | cst.Dot | cst.Subscript | cst.SubscriptElement
            | cst.Index | cst.BaseNumber | cst.SimpleString | cst.BaseParenthesizableWhitespace
            | cst.Comma | cst.AssignEqual | cst.LeftSquareBracket | cst.RightSquareBracket
            | cst.UnaryOperation | cst.BinaryOperation | cst.BaseUnaryOp | cst.BaseBinaryOp,
        )
        for node in walk(argument)
    )  # fmt: skip
