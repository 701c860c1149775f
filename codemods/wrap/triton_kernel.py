"""Launches of triton kernels at a break: what to do by hand.

``torch.library.triton_op`` is the operator for them, which a compiler can see into.  No rewrite is
proposed: a launch is right or wrong on a GPU, with triton, and a patch that was never run there
would be a guess (which arguments the kernel writes to, for one, only its body tells).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import dotted, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Site

from .operator_text import namespace

_JIT = ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit")


def triton_advice(site: Site) -> Iterator[Advice]:
    """How to make an operator of a launch in the site's statement, if there is one."""
    for node in walk(site.statement):
        match node:
            case cst.Call(func=cst.Subscript(value=kernel)) if is_kernel(site, kernel):
                name = dotted(kernel) or code(kernel)
                last = name.rpartition(".")[2]
                yield Advice(
                    f"`{name}[...](...)` launches a triton kernel. Give the launch a function of"
                    " its own that makes its result tensors, and make that an operator:"
                    f' `@torch.library.triton_op("{namespace(site)}::{last}_op", mutates_args=())`'
                    f" (name what the kernel writes to in `mutates_args`), with"
                    f" `torch.library.wrap_triton({name})[grid](...)` inside; `register_autograd`"
                    " where gradients pass. gbfix does not write this by itself: what the kernel"
                    " does shows on a GPU only."
                )
                return


def is_kernel(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a name is that of a function under ``@triton.jit``, here or in another file."""
    name = dotted(node)
    if name is None:
        return False
    last = name.rpartition(".")[2]
    places = [site, *(site.other(path) for path in site.sources if path != site.path)]
    for place in places:
        if place is None:
            continue
        for item in place.module.body:
            if isinstance(item, cst.FunctionDef) and item.name.value == last:
                return any(_is_jit(place, decorator.decorator) for decorator in item.decorators)
    return False


def _is_jit(site: Site, node: cst.BaseExpression) -> bool:
    func = node.func if isinstance(node, cst.Call) else node
    return resolve(site.module, func) in _JIT
