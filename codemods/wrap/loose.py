"""What a recorded run alone says of a value's kind: other callers may give another one.

A tensor that was seen is taken for a tensor, as compiled code takes it.  A number, a list or a
table may as well be a tensor, an array or a list elsewhere, unless the text says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

_NUMBERS = words("int float")
_TENSORS = words("torch.Tensor Tensor")


def annotated(function: cst.FunctionDef, name: str) -> str:
    """The annotation of a parameter that is never bound again; empty if there is none."""
    if name in activity(function.body).bound:
        return ""
    for param in params_of(function.params):
        if param.name.value == name and param.annotation is not None:
            return code(param.annotation.annotation)
    return ""


def are_numbers(site: Site, nodes: Iterable[cst.CSTNode]) -> bool:
    """Whether all names in the nodes are parameters that are said to be an int or a float.

    What ``len`` is asked of has a length; other attributes may hold anything.
    """
    function = site.function
    for node in nodes:
        for part in walk(node):
            if isinstance(part, cst.Attribute) and not _is_asked_for_length(site, part):
                return False
            if not isinstance(part, cst.Name) or _is_asked_for_length(site, part):
                continue
            if resolve(site.module, part, at=part) in ("builtins.min", "builtins.max",
                                                       "builtins.len", "builtins.abs"):  # fmt: skip
                continue
            if function is None or annotated(function, part.value) not in _NUMBERS:
                return False
    return True


def _is_asked_for_length(site: Site, node: cst.CSTNode) -> bool:
    for holder in site.ancestors(node):
        if isinstance(holder, cst.Arg):
            call = site.parent(holder)
            length = isinstance(call, cst.Call) and resolve(site.module, call.func)
            return length == "builtins.len"
        if not isinstance(holder, cst.Attribute):
            return False
    return False


def is_tensor_by_text(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a name or an attribute of ``self`` is said, or made, to be a tensor."""
    function = site.function
    if isinstance(node, cst.Name) and function is not None:
        if annotated(function, node.value) in _TENSORS:
            return True
        return _is_made_of_torch(site, function.body, node.value)
    class_ = site.class_of(node)
    if isinstance(node, cst.Attribute) and code(node.value) == "self" and class_ is not None:
        named = (f"'{node.attr.value}'", f'"{node.attr.value}"')
        for part in walk(class_.body):
            match part:
                case cst.Call(func=func, args=[cst.Arg(value=name), *_]) if (
                    code(func) == "self.register_buffer" and code(name) in named
                ):
                    return True
        return _is_made_of_torch(site, class_.body, code(node))
    return False


def _innermost(node: cst.BaseExpression) -> cst.BaseExpression:
    """``torch.linspace`` of ``torch.linspace(0, 1, 9).cumprod(0)``."""
    while isinstance(node, cst.Call):
        node = node.func
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Call):
            node = node.value
    return node


def _is_made_of_torch(site: Site, block: cst.CSTNode, text: str) -> bool:
    """Whether a function of torch's made it somewhere, and no list or other name anywhere."""
    values = [
        part.value
        for part in walk(block)
        if isinstance(part, cst.Assign)
        and any(code(target.target) == text for target in part.targets)
    ]
    made = [
        value
        for value in values
        if (resolve(site.module, _innermost(value)) or "").startswith("torch.")
    ]
    others = all(isinstance(value, cst.Call | cst.BinaryOperation) for value in values)
    return bool(made) and others


def is_int_by_text(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is an int whoever calls: made of ``int`` parameters and literals."""
    function = site.function
    if isinstance(node, cst.BinaryOperation) and isinstance(
        node.operator, cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide
    ):
        return is_int_by_text(site, node.left) and is_int_by_text(site, node.right)
    if isinstance(node, cst.Call):
        return resolve(site.module, node.func) in ("builtins.int", "builtins.len")
    if isinstance(node, cst.Name) and function is not None:
        return annotated(function, node.value) == "int"
    return isinstance(node, cst.Integer)
