"""Helpers that tell a tensor's truth as a Python bool: the tensor tells it as well."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import code, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, StatedFacts, tensor
from gbfix.schema import Fact, Safety

from .context import Context, Declined
from .tests import is_read, lower, primary, split
from .vain import Vain

_FACTS = {
    "x": tensor(3),
    "torch.isnan(x).any()": tensor(dtype="torch.bool"),
    "(x < low).any()": tensor(dtype="torch.bool"),
    "(x > high).any()": tensor(dtype="torch.bool"),
}


def _source(body: str, use: str = "if broken(x):\n        x = torch.zeros_like(x)") -> str:
    return (
        f"import torch\n\n\ndef broken(x, low=0, high=1) -> bool:\n    {body}\n\n\n"
        f"def f(x):\n    {use}\n    return x\n"
    )


def _near_miss(
    body: str, at: str, why: str, use: str = "if broken(x):\n        x = -x"
) -> NearMiss:
    return NearMiss(_source(body, use), at=at, why=why, facts=_FACTS)


class TruthToTensor(Codemod):
    """*What it does.*  Lets a helper that tells a tensor's truth as a Python bool give the tensor:
    ``return bool(torch.isnan(x).any())`` becomes ``return torch.isnan(x).any()``.  Other rewrites
    can then lower the ``if`` that asks it.

    *When it applies.*  All that the project does with the helper is to ask it: in ``if``,
    ``while``, ``assert``, a conditional expression, or with ``not``, ``and`` and ``or`` in these.
    A ``return True`` beside becomes a tensor, too.

    *Fix safety.*  Safe for the project's own callers: a tensor without dimensions has the same
    truth.

    *Refuses.*  Helpers whose result is kept, returned, handed on or compared, that other classes
    define as well, that have a decorator, or that may end without a ``return``.
    """

    name = "truth-to-tensor"
    codes = ("GB0124", "GB0170", "data-dependent-guard")
    examples = (
        Example(
            _source("return bool(torch.isnan(x).any())"),
            _source("return torch.isnan(x).any()").replace("-> bool", "-> torch.Tensor"),
            at="bool(torch.isnan(x).any())",
            facts=_FACTS,
            title="a bool of a tensor",
        ),
        Example(
            _source("return torch.isnan(x).any().item()", "assert not broken(x)"),
            _source("return torch.isnan(x).any()", "assert not broken(x)").replace(
                "-> bool", "-> torch.Tensor"
            ),
            at="torch.isnan(x).any().item()",
            facts=_FACTS,
            title="an item of a tensor",
        ),
        Example(
            _source(
                "if x.dim() == 0:\n        return False\n"
                "    return bool((x < low).any() or (x > high).any())"
            ),
            _source(
                "if x.dim() == 0:\n        return torch.tensor(False, device=x.device)\n"
                "    return (x < low).any() | (x > high).any()"
            ).replace("-> bool", "-> torch.Tensor"),
            at="(x < low).any()",
            facts=_FACTS,
            title="beside what Python decides",
        ),
        Example(
            _source("return bool(low)"),
            _source("return torch.as_tensor(low).clone()").replace("-> bool", "-> torch.Tensor"),
            at="bool(low)",
            facts={**_FACTS, "low": tensor(dtype="torch.bool")},
            title="a flag that somebody holds",
        ),
        Example(
            _source("return bool(torch.isnan(x).any())"),
            _source("return torch.isnan(x).any()").replace("-> bool", "-> torch.Tensor"),
            at="if broken(x):",
            facts={"x": tensor(3)},
            code="data-dependent-guard",
            title="where it is asked",
        ),
    )
    near_misses = (
        _near_miss("return bool(low)", "bool(low)", "no tensor is asked"),
        _near_miss(
            "return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "its result is kept",
            "bad = broken(x)",
        ),
        _near_miss(
            "return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "its result is a value",
            "x = x * (broken(x) or 2)",
        ),
        _near_miss(
            "return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "it is handed on",
            "x = g(broken) if broken(x) else x",
        ),
        _near_miss(
            "if low:\n        return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "it may give None",
        ),
        _near_miss(
            "if not isinstance(x, torch.Tensor):\n        return False\n"
            "    return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "there may be no tensor to ask for its device",
        ),
        NearMiss(
            _source("return bool((x < low).any() and x[x < low].max() > high)"),
            at="(x < low).any()",
            why="nothing has no maximum",
            facts={**_FACTS, "x < low": tensor(3, dtype="torch.bool")},
        ),
        NearMiss(
            _source("return bool((x < low).any() or torch.linalg.inv(x).any())"),
            at="(x < low).any()",
            why="it may fail where nobody asks it",
            facts={**_FACTS, "torch.linalg.inv(x).any()": tensor(dtype="torch.bool")},
        ),
        _near_miss(
            "if low:\n        return None\n    return bool(torch.isnan(x).any())",
            "bool(torch.isnan(x).any())",
            "None is no truth value",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for view in _views(site):
            yield from self._of_helper(view)

    def _of_helper(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None or function.decorators or function.asynchronous is not None:
            return
        left = exits([function.body])
        if left.yields or left.awaits or not _is_only_asked(site, function):
            return
        ctx = Context(site)
        returns = [
            node
            for node in walk(function.body)
            if isinstance(node, cst.Return) and site.function_of(node) is function
        ]
        try:
            texts = [_as_tensor(node, ctx) for node in returns]
        except Declined:
            return
        kept = [text for text in texts if text is not None]
        if not returns or not kept or not _ends_in_return(function):
            return
        given = next((name for name in _parameters(function) if _is_tensor(ctx, name, kept)), "")
        if len(kept) < len(texts) and (not given or _asks_kind(function, given)):
            return
        edit = site.edit()
        changes = False
        for node, text in zip(returns, texts, strict=True):
            assert node.value is not None
            new = text or f"{ctx.torch}.tensor({code(node.value)}, device={given}.device)"
            if comments_in(node):
                return
            if new != code(node.value):
                edit.replace(node.value, cst.parse_expression(new))
                changes = True
        told = function.returns
        if told is not None and code(told.annotation) == "bool":
            edit.replace(told.annotation, cst.parse_expression(f"{ctx.torch}.Tensor"))
        if not changes or ctx.torch_missing or ctx.doubts:
            return
        yield edit.rewrite(
            f"let `{function.name.value}` give a tensor, whose truth is the same",
            notes=[f"`{function.name.value}` gives a tensor where it gave a bool.", *ctx.notes],
            rank=15,
            safety=Safety.SAFE,
        )


def _views(site: Site) -> Iterator[Site]:
    """The site, and where helpers end that its test asks (with what the call gives them)."""
    yield site
    functions = {it.name.value: it for it in walk(site.module) if isinstance(it, cst.FunctionDef)}
    for call in walk(site.node):
        match call:
            case cst.Call(func=cst.Name(name) | cst.Attribute(attr=cst.Name(name))):
                function = functions.get(name)
            case _:
                continue
        ending = next(_endings(function), None) if function is not None else None
        if function is not None and ending is not None:
            where = site.span(ending)
            frame = dataclasses.replace(
                site.frame,
                function=name,
                line=where.line,
                column=where.column,
                end_line=where.end_line,
                end_column=where.end_column,
                text="",
            )
            yield Site(
                site.path,
                site.source,
                dataclasses.replace(site.graph_break, site=frame),
                StatedFacts(_given(site, call, function)),
                region=site.region,
                sources=site.sources,
                entry=site.entry,
            )


def _endings(function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    for node in walk(function.body):
        match node:
            case cst.Return(value=cst.Call() as value):
                yield value


def _given(site: Site, call: cst.Call, function: cst.FunctionDef) -> dict[str, Fact]:
    """What is known of a function's parameters, by what a call gives."""
    names = _parameters(function)
    if isinstance(call.func, cst.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    found: dict[str, Fact] = {}
    for place, arg in enumerate(call.args):
        fact = site.fact(arg.value)
        if arg.star or fact is None:
            continue
        name = arg.keyword.value if arg.keyword is not None else (*names[place:], "")[0]
        found[name] = fact
    return found


def _as_tensor(node: cst.Return, ctx: Context) -> str | None:
    """What is returned, as a tensor; None for ``True`` and ``False``."""
    match node.value:
        case cst.Name("True" | "False"):
            return None
        case None:
            raise Declined("it may give None")
    value: cst.BaseExpression = node.value
    match value:
        case cst.Call(func=cst.Name("bool"), args=[cst.Arg(value=inner, keyword=None, star="")]):
            value = inner
    plain = not isinstance(value, cst.BooleanOperation | cst.UnaryOperation | cst.Comparison)
    if value is node.value and plain and ctx.is_tensor(value) and not is_read(value, ctx):
        return code(value)
    parts = split(value, ctx)
    if parts.tensor is None or parts.python is not None:
        raise Declined("Python decides about it")
    for joined in walk(value):
        if isinstance(joined, cst.BooleanOperation):
            # Python asks it behind the first alone: ``m.any() and x[m].max() > 0``.
            Vain(ctx, modules=False).check(joined.right)
    text = lower(parts.tensor, ctx).positive(ctx.torch)
    # A flag that is asked at once may be changed before its tensor is.
    return f"{primary(text)}.clone()" if _is_held(cst.parse_expression(text)) else text


def _is_held(node: cst.BaseExpression) -> bool:
    """Whether an expression may give a tensor that somebody holds: ``self.ready``, a view."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("reshape" | "squeeze"))):
            return _is_held(inner)
    return isinstance(node, cst.Name | cst.Attribute | cst.Subscript)


def _is_tensor(ctx: Context, name: str, texts: list[str]) -> bool:
    """Whether a parameter was a tensor, and is among what the results are made of."""
    seen = ctx.site.locals_before(ctx.site.statement).get(name)
    used = any(
        isinstance(part, cst.Name) and part.value == name
        for text in texts
        for part in walk(cst.parse_expression(text))
    )
    return used and (seen is None or seen.is_tensor)


def _parameters(function: cst.FunctionDef) -> list[str]:
    return [it.name.value for it in function.params.params]


def _asks_kind(function: cst.FunctionDef, name: str) -> bool:
    """Whether the function asks what kind of value a parameter is."""
    return any(
        isinstance(node, cst.Call)
        and code(node.func) in ("isinstance", "type", "hasattr", "torch.is_tensor")
        and any(code(arg.value) == name for arg in node.args)
        for node in walk(function.body)
    ) or any(
        isinstance(node, cst.Comparison)
        and code(node.left) == name
        and any(isinstance(it.operator, cst.Is | cst.IsNot) for it in node.comparisons)
        for node in walk(function.body)
    )


def _ends_in_return(function: cst.FunctionDef) -> bool:
    last = function.body.body[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)


# -- callers ---------------------------------------------------------------------------------------


def _is_only_asked(site: Site, function: cst.FunctionDef) -> bool:
    """Whether the project does no more with a function than to ask for the truth of its result."""
    name = function.name.value
    if name.startswith("__"):
        return False
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    defined = calls = 0
    for text in texts:
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError):
            return False
        asked = {id(node) for node in _asked(tree)}
        called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                    defined += found == name
                case ast.Constant(value=str(value)) if value and (value in name or name in value):
                    if value == name or _is_part_of_a_name(value, name):
                        return False  # `getattr` may ask for it, or `__all__` names it
                case ast.alias(name=found, asname=str(other)) if found == name != other:
                    return False
                case ast.Name(id=found) | ast.Attribute(attr=found) if found == name:
                    call = called.get(id(node))
                    if call is None or id(call) not in asked:
                        return False
                    calls += 1
    return defined == 1 and calls > 0


def _is_part_of_a_name(text: str, name: str) -> bool:
    """Whether an attribute's name may be put together of a text: ``getattr(x, f"is_{kind}")``."""
    return text.isidentifier() and name.startswith(text) and text.endswith("_")


def _asked(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions of which only the truth counts."""
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
                yield from _parts(test)
            case ast.IfExp(test=test):
                yield from _parts(test)
            case ast.UnaryOp(op=ast.Not(), operand=test):
                yield from _parts(test)


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    yield test
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _parts(inner)
