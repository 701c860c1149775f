"""Launches of triton kernels at a break: what to do by hand.

``torch.library.triton_op`` is the operator for them, which a compiler can see into: `triton_op`
writes it where the launch stands in a helper of its own.  Elsewhere a person has to say what
belongs into one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import dotted, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Site

from .operator_text import namespace

_INTERPRETER = re.compile(r"triton[/\\]runtime[/\\]interpreter\.py$")
_JIT = ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit")


def triton_advice(site: Site) -> Iterator[Advice]:
    """How to make an operator of a launch in the site's statement, if there is one."""
    for node in walk(site.statement):
        match node:
            case cst.Call(func=cst.Subscript(value=called)):
                kernel = kernel_of(site, called)
                if kernel is not None:
                    yield Advice(_text(site, dotted(called) or code(called), kernel))
                    return


def _text(site: Site, name: str, kernel: cst.FunctionDef) -> str:
    last = name.rpartition(".")[2]
    if is_interpreted(site):
        return (
            f"`{name}[...](...)` runs in triton's interpreter (`TRITON_INTERPRET=1`), which Dynamo"
            " cannot trace: it is for finding mistakes, without `torch.compile`. Compiled kernels"
            " are traced as they are, on a GPU and without that variable."
        )
    written = [f"`{name}`" for name in written_by(kernel)]
    told = f"it writes to {' and '.join(written)}" if written else "name what it writes to there"
    return (
        f"`{name}[...](...)` launches a triton kernel. Give the launch a function of its own that"
        " makes its result tensors, and make that an operator:"
        f' `@torch.library.triton_op("{namespace(site)}::{last}_op", mutates_args=())`'
        f" ({told}: what of that is an argument of the operator belongs in `mutates_args`), with"
        f" `torch.library.wrap_triton({name})[grid](...)` inside; `register_autograd` where"
        " gradients pass. Where the function is one at module level that the compiled code calls,"
        " gbfix proposes this itself (`triton-op`, under `--unsafe-fixes`)."
    )


def is_interpreted(site: Site) -> bool:
    """Whether the break is inside triton's interpreter."""
    return any(_INTERPRETER.search(frame.path) for frame in site.graph_break.frames)


def written_by(kernel: cst.FunctionDef) -> tuple[str, ...]:
    """The parameters that lead to what the kernel's stores and atomic operations write to."""
    leads: dict[str, set[str]] = {}
    stored: set[str] = set()
    for node in walk(kernel.body):
        match node:
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    for name in _names(target.target):
                        leads.setdefault(name, set()).update(_names(value))
            case cst.AugAssign(target=target, value=value):
                for name in _names(target):
                    leads.setdefault(name, set()).update(_names(value))
            case cst.Call(args=[cst.Arg(value=place), *_]) if _stores(node):
                stored |= _names(place)
    for _ in range(len(leads) + 1):
        stored |= {more for name in stored for more in leads.get(name, ())}
    return tuple(
        param.name.value for param in kernel.params.params if _is_pointer(param, stored, kernel)
    )


def _is_pointer(param: cst.Param, stored: set[str], kernel: cst.FunctionDef) -> bool:
    """Whether it is what is stored to, and neither a size nor a stride on the way there."""
    name = param.name.value
    if name not in stored or param.annotation is not None:
        return False
    # Sizes and strides are factors and bounds; a pointer is added to, and never multiplied.
    for node in walk(kernel.body):
        match node:
            case cst.BinaryOperation(operator=operator, left=left, right=right) if not isinstance(
                operator, cst.Add | cst.Subtract
            ):
                if name in (code(left), code(right)):
                    return False
            case cst.Comparison() if name in _names(node):
                return False
            case cst.Call(args=args) if any(code(arg.value) == name for arg in args) and not (
                _stores(node) or _last(node) == "load"
            ):
                return False
    return True


def _stores(node: cst.Call) -> bool:
    return _last(node) == "store" or _last(node).startswith("atomic_")


def _last(node: cst.Call) -> str:
    return (dotted(node.func) or "").rpartition(".")[2]


def _names(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


def kernel_of(site: Site, node: cst.BaseExpression) -> cst.FunctionDef | None:
    """The function under ``@triton.jit``, here or in another file, that a name stands for."""
    name = dotted(node)
    if name is None:
        return None
    last = name.rpartition(".")[2]
    places = [site, *(site.other(path) for path in site.sources if path != site.path)]
    for place in places:
        if place is None:
            continue
        for item in place.module.body:
            if isinstance(item, cst.FunctionDef) and item.name.value == last:
                jitted = any(is_jit(place, decorator.decorator) for decorator in item.decorators)
                return item if jitted else None
    return None


def is_jit(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a decorator is ``triton.jit``."""
    func = node.func if isinstance(node, cst.Call) else node
    return resolve(site.module, func) in _JIT
