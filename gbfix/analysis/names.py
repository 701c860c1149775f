"""Identifiers: which are taken, which are free, and which tell what they stand for."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Collection

import libcst as cst

from gbfix.analysis.tree import code, dotted, walk, words

_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})
_LONGEST = 32


def names_in(node: cst.CSTNode) -> set[str]:
    """Every identifier in the node's source: names, attributes, keywords, parameters, imports."""
    return set(_names_in_module(node) if isinstance(node, cst.Module) else _names(node))


def _names(node: cst.CSTNode) -> frozenset[str]:
    return frozenset(child.value for child in walk(node) if isinstance(child, cst.Name))


@functools.lru_cache(maxsize=8)
def _names_in_module(module: cst.Module) -> frozenset[str]:
    """Kept: many ask for them, and a module never changes."""
    return _names(module)


def fresh(base: str, taken: Collection[str]) -> str:
    """``base``, or ``base_1``, ``base_2``, ...: the first that is neither taken nor reserved.

    The result is always a valid identifier, never a keyword, soft keyword or builtin name.
    """
    base = identifier(base)
    candidate, number = base, 0
    while candidate in taken or candidate in _RESERVED:
        number += 1
        candidate = f"{base}_{number}"
    return candidate


def identifier(text: str) -> str:
    """Any text as a snake_case identifier: ``"Loss > 3"`` is ``loss_3``."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    text = re.sub(r"[^0-9A-Za-z_]+", "_", text).strip("_").lower()
    text = re.sub(r"__+", "_", text)
    if len(text) > _LONGEST:
        text = text[: _LONGEST + 1].rpartition("_")[0] or text[:_LONGEST]
    if not text or not text.isidentifier():
        text = f"value_{text}".rstrip("_")
    return text


_COMPARISONS: dict[type[cst.BaseCompOp], str] = {
    cst.LessThan: "below",
    cst.LessThanEqual: "at_most",
    cst.GreaterThan: "above",
    cst.GreaterThanEqual: "at_least",
    cst.Equal: "equals",
    cst.NotEqual: "differs_from",
    cst.Is: "is",
    cst.IsNot: "is_not",
    cst.In: "in",
    cst.NotIn: "not_in",
}
_QUIET_METHODS = words("item detach cpu float double long int bool numpy contiguous to")


def telling_name(expression: cst.CSTNode) -> str:
    """A readable snake_case name for what an expression computes.

    ``x.sum() > 0`` is ``x_sum_above_0``; ``self.gate(h)`` is ``gate_h``; pass it to `fresh`.
    """
    return identifier("_".join(_words(expression, depth=0)))


def _words(node: cst.CSTNode, *, depth: int) -> list[str]:
    if depth > 4:
        return []
    deeper = depth + 1
    match node:
        case cst.Name():
            return [node.value] if node.value not in ("self", "cls") else []
        case cst.Attribute():
            return [*_words(node.value, depth=deeper), node.attr.value]
        case cst.Call():
            return _call_words(node, deeper)
        case cst.Comparison(comparisons=[target, *_]):
            words = _words(node.left, depth=deeper)
            right = _words(target.comparator, depth=deeper)
            return [*words, _COMPARISONS.get(type(target.operator), "compared_to"), *right]
        case cst.UnaryOperation():
            prefix = {cst.Not: ["not"], cst.Minus: ["minus"]}.get(type(node.operator), [])
            return [*prefix, *_words(node.expression, depth=deeper)]
        case cst.BooleanOperation():
            joint = "and" if isinstance(node.operator, cst.And) else "or"
            return [
                *_words(node.left, depth=deeper),
                joint,
                *_words(node.right, depth=deeper),
            ]
        case cst.BinaryOperation():
            return [*_words(node.left, depth=deeper), *_words(node.right, depth=deeper)]
        case cst.Subscript():
            return [*_words(node.value, depth=deeper), "item"]
        case cst.Integer() | cst.Float():
            return [code(node).replace(".", "_").replace("-", "minus_")]
        case cst.SimpleString():
            return [node.raw_value]
    return []


def _call_words(node: cst.Call, depth: int) -> list[str]:
    func = node.func
    if isinstance(func, cst.Attribute):
        if func.attr.value in _QUIET_METHODS:
            return _words(func.value, depth=depth)
        root = dotted(func.value)
        if root is not None and (root.partition(".")[0] in ("torch", "F", "np", "math", "self")):
            words = [func.attr.value]
        else:
            return [*_words(func.value, depth=depth), func.attr.value]
    else:
        words = _words(func, depth=depth)
    if node.args:
        words.extend(_words(node.args[0].value, depth=depth))
    return words
