"""Which Python values of a function come out of tensors: they are no constants of a graph."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import children, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

#: Ask a tensor for what is known while tracing.
KNOWN = words(
    """len isinstance type id size dim numel shape dtype device ndim ndimension element_size
    hasattr getattr is_floating_point is_contiguous stride requires_grad data_ptr range"""
)
_READS = words("item tolist numpy __array__")
#: Hand on what they are given, and numbers that Python counts.
_IN_ORDER = words("enumerate zip reversed")


def data_names(site: Site, function: cst.FunctionDef, given: frozenset[str]) -> frozenset[str]:
    """Names that may hold Python values read from tensors; ``given`` are parameters that do."""
    found = set(given)
    while True:
        before = len(found)
        for node in walk(function.body):
            match node:
                case cst.Assign(targets=targets, value=value):
                    if is_data(site, value, frozenset(found)):
                        for target in targets:
                            found |= _names(target.target)
                case (
                    cst.AugAssign(target=target, value=value)
                    | cst.AnnAssign(target=target, value=value)
                ) if value is not None:
                    if is_data(site, value, frozenset(found)):
                        found |= _names(target)
                case cst.For(target=target, iter=iterable):
                    if is_data(site, iterable, frozenset(found)):
                        found |= _names(target)
                case cst.Call(
                    func=cst.Attribute(value=cst.Name(name), attr=cst.Name(method)), args=args
                ) if method in ("append", "extend", "insert", "add", "update"):
                    if any(is_data(site, arg.value, frozenset(found)) for arg in args):
                        found.add(name)
        if len(found) == before:
            return frozenset(found)


def sized_names(site: Site, function: cst.FunctionDef) -> frozenset[str]:
    """Names of tensors whose sizes the data decides: ``found = mask.nonzero()``."""
    found: set[str] = set()
    for node in walk(function.body):
        if isinstance(node, cst.Assign) and _is_sized(site, node.value):
            for target in node.targets:
                if isinstance(target.target, cst.Name | cst.Tuple):
                    found |= _names(target.target)
    return frozenset(found)


def _is_sized(site: Site, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            if name in _SIZED or (name == "where" and len(args) == 1):
                return True
            return name in _KEEP_SIZE and _is_sized(site, inner)
        case cst.Subscript(value=inner, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            fact = site.fact(index)
            mask = fact is not None and fact.is_tensor and fact.dtype == "torch.bool"
            return mask or (isinstance(index, cst.Integer) and _is_sized(site, inner))
    return False


_SIZED = torch_names.DECIDED_BY_DATA - {"item", "tolist"}
_KEEP_SIZE = words("flatten squeeze view reshape to long int t tolist")


def _names(target: cst.BaseExpression) -> set[str]:
    if isinstance(target, cst.Subscript | cst.Attribute):
        root: cst.BaseExpression = target
        while isinstance(root, cst.Subscript | cst.Attribute):
            root = root.value
        return {root.value} if isinstance(root, cst.Name) and root.value != "self" else set()
    return {node.value for node in walk(target) if isinstance(node, cst.Name)}


def is_data(site: Site, node: cst.BaseExpression, data: frozenset[str]) -> bool:
    """Whether an expression's Python value may depend on what tensors hold, or on draws."""
    fact = site.fact(node)
    if fact is not None and (fact.is_tensor or fact.kind in ("module", "function", "class")):
        return False
    if isinstance(node, cst.Name):
        return node.value in data
    if isinstance(node, cst.Call):
        func = node.func
        last = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
        if last in KNOWN or _gives_tensors(fact):
            return False
        if isinstance(func, cst.Name) and last in _IN_ORDER:
            return any(is_data(site, argument.value, data) for argument in node.args)
        if (resolve(site.module, func) or "").startswith(("numpy.random.", "random.")):
            # Dynamo draws with torch's generator instead of NumPy's, and so other numbers; those of
            # `random` are tensors in a graph, which no operator takes for numbers.
            return True
        operands = [argument.value for argument in node.args]
        if isinstance(func, cst.Attribute):
            operands.append(func.value)
        for operand in operands:
            seen = site.fact(operand)
            if seen is not None and (seen.is_tensor or seen.kind == "ndarray"):
                return True
            if last in _READS and seen is None:
                return True
    if isinstance(node, cst.Attribute):
        return node.attr.value not in KNOWN and is_data(site, node.value, data)
    if isinstance(node, cst.BaseComp):
        reads = activity(node).reads
        if reads & data:
            return True
        clause = node.for_in
        seen = site.fact(clause.iter)
        return (seen is not None and seen.is_tensor) or is_data(site, clause.iter, data)
    return any(
        is_data(site, child, data)
        for child in (_expression(part) for part in children(node))
        if child is not None
    )


def _gives_tensors(fact: Fact | None) -> bool:
    """Whether a call gave several tensors and nothing else: ``x.split(2)``."""
    if fact is None or fact.kind not in ("tuple", "list") or not fact.items:
        return False
    return all(item.is_tensor for item in fact.items)


def _expression(node: cst.CSTNode) -> cst.BaseExpression | None:
    if isinstance(node, cst.BaseExpression):
        return node
    for field in ("value", "slice", "comparator", "expression"):
        inner = getattr(node, field, None)
        if isinstance(inner, cst.BaseExpression):
            return inner
        if isinstance(inner, cst.Index):
            return inner.value
    return None
