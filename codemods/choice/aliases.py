"""Tensors that a branch hands on: ``torch.where`` makes a copy, which a later change can tell."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import Activity, activity
from gbfix.analysis.aliasing import changed_in_place, handed_to_modules, sharing
from gbfix.analysis.torch_names import NEW_MEMORY
from gbfix.analysis.tree import code, walk

from .context import Context, Declined


def is_fresh(ctx: Context, name: str) -> bool:
    """Whether every binding of the name makes a tensor that nobody else holds."""
    function = ctx.function
    if function is None:
        return False
    params = function.params
    if name in {it.name.value for it in (*params.params, *params.kwonly_params)}:
        return False
    made = [
        node.value
        for node in walk(function.body)
        if isinstance(node, cst.Assign) and any(code(it.target) == name for it in node.targets)
    ]
    return bool(made) and all(_makes_new(ctx, value) for value in made)


def _makes_new(ctx: Context, value: cst.BaseExpression) -> bool:
    """Whether nobody else holds the value: arithmetic, or what torch makes, not in place."""
    arithmetic = cst.BinaryOperation | cst.Comparison | cst.UnaryOperation
    if isinstance(value, arithmetic | cst.BaseNumber):
        return True
    match value:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(name)), args=args):
            of_torch = ctx.resolve(value.func).startswith("torch.") or ctx.is_tensor(owner)
            texts = {code(arg.value) for arg in args} | {
                arg.keyword.value for arg in args if arg.keyword is not None
            }
            return name in NEW_MEMORY and of_torch and not texts & {"True", "inplace", "out"}
    return False


def _sharing(ctx: Context, node: cst.CSTNode, name: str) -> set[str]:
    """Names whose tensors have the memory of the name's, as the run saw it."""
    try:
        facts = ctx.site.locals_before(ctx.original(node))
    except KeyError:
        return set()
    return sharing(facts, [name])


def in_place(node: cst.CSTNode) -> bool:
    """Whether an expression changes a tensor in place."""
    return any(
        isinstance(it, cst.Call)
        and isinstance(it.func, cst.Attribute)
        and it.func.attr.value.endswith("_")
        and not it.func.attr.value.endswith("__")
        for it in walk(node)
    )


def check_alias(
    ctx: Context, node: cst.CSTNode, name: str, values: Sequence[cst.BaseExpression]
) -> None:
    """Refuse where a later change in place would have reached the tensor that was handed on."""
    handed = [value for value in values if isinstance(value, cst.Name | cst.Attribute)]
    handed = [value for value in handed if not ctx.is_number(value)]
    if not handed:
        return
    nodes = _after(ctx, node)
    later = activity(nodes)

    def new(value: cst.BaseExpression) -> bool:
        return _makes_new(ctx, value)

    for value in handed:
        text = code(value)
        root = text.partition(".")[0]
        unread = text == name or text not in later.reads
        if unread and isinstance(value, cst.Name) and is_fresh(ctx, text):
            continue
        held = {name, root} | _sharing(ctx, node, root)
        changed = {*changed_in_place(nodes, held, new, ctx.function)}
        if "inplace=True" in ctx.site.source:
            changed |= held & handed_to_modules(nodes)
        if root == "self" and changed == {"self"} and name not in later.mutates:
            changed = {it for it in later.attribute_writes if it == text}
        if changed - _numbers(ctx, changed, later):
            raise Declined(f"`{sorted(changed)[0]}` is changed in place afterwards")


def _numbers(ctx: Context, names: set[str], later: Activity) -> set[str]:
    """Names that `x += ...` only gives a new value."""
    return {it for it in names & later.augments if ctx.is_number(cst.Name(it))}


def _after(ctx: Context, statement: cst.CSTNode) -> list[cst.CSTNode]:
    later: list[cst.CSTNode] = []
    child = statement
    for parent in ctx.site.ancestors(statement):
        if isinstance(parent, cst.For | cst.While):
            later.append(parent)
        if parent is ctx.function:
            break
        block = getattr(parent, "body", ())
        if isinstance(block, list | tuple) and child in block:
            later.extend(block[list(block).index(child) + 1 :])
        child = parent
    return later
