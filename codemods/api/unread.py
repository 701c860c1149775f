"""Whether a text of the project reads a gradient of a tensor that is no parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site

NOTE = "the tensor collects no gradient any more; nothing in the project reads it"
READ = "the tensor collects no gradient any more, and the project reads gradients of tensors"
SHARED = "other callers of the function get a tensor without a gradient of its own, too"

_ASKING = words("retain_grad register_hook register_post_accumulate_grad_hook is_leaf")
_PARAMETERS = words("parameters named_parameters")
_STORED = re.compile(r"\.(?:weight|bias)\s*(?::[^=]*)?=[^=]|setattr\(")


def gradient_is_read(site: Site) -> bool:
    """Whether the site's file, or another one of the project, reads a tensor's ``.grad``.

    Gradients of parameters do not count: ``for p in model.parameters(): p.grad``.  Neither do those
    that are set, or deleted.
    """
    texts = {**site.sources, site.path: site.source}
    layers = not any(_STORED.search(text) for text in texts.values())
    if _reads(site.module, layers=layers):
        return True
    others = (text for path, text in texts.items() if path != site.path)
    return any(_reads(cst.parse_module(text), layers=layers) for text in others if _may_read(text))


def is_handed_on(site: Site) -> bool:
    """Whether the site's function gives back what it makes, and several functions call it.

    One of them may give it to an optimizer.
    """
    function = site.function
    if function is None:
        return False
    if not any(isinstance(node, cst.Return) and node.value for node in walk(function.body)):
        return False
    name = function.name.value
    if name in ("forward", "__call__"):
        return False  # the region itself: what it gives back is compared
    if any(name in text for path, text in site.sources.items() if path != site.path):
        return True
    places = [
        node
        for node in walk(site.module)
        if isinstance(node, cst.Name) and node.value == name and node is not function.name
    ]
    return len({site.function_of(place) for place in places}) > 1


def _may_read(text: str) -> bool:
    return re.search(r"\bgrad\b", text) is not None or any(word in text for word in _ASKING)


def _reads(module: cst.Module, *, layers: bool) -> bool:
    """``layers`` says that what is called a weight or a bias is a layer's."""
    owned = {id(node) for loop in walk(module) for node in _of_parameters(loop)}
    for node in walk(module):
        match node:
            case cst.Attribute(attr=cst.Name("grad")):
                # `torch.autograd.grad` is one, too.
                if id(node) not in owned and not (layers and _is_of_layer(node.value)):
                    return True
            case cst.Attribute(attr=cst.Name(value=name)) if name in _ASKING:
                return True
            case cst.ImportFrom(module=cst.BaseExpression()) if _imports_grad(node):
                return True
    return False


def _is_of_layer(owner: cst.BaseExpression) -> bool:
    """``model.mix.weight``, whose gradient is that of a parameter."""
    return isinstance(owner, cst.Attribute) and owner.attr.value in ("weight", "bias")


def _imports_grad(node: cst.ImportFrom) -> bool:
    if isinstance(node.names, cst.ImportStar):
        return False
    return any(isinstance(one.name, cst.Name) and one.name.value == "grad" for one in node.names)


def _of_parameters(loop: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What stands for ``p.grad`` where ``p`` comes out of ``parameters()``."""
    match loop:
        case cst.For(target=target, iter=iterated):
            body: list[cst.CSTNode] = [loop.body]
        case cst.GeneratorExp() | cst.ListComp() | cst.SetComp():
            target, iterated = loop.for_in.target, loop.for_in.iter
            body = [loop.elt, *loop.for_in.ifs]
        case _:
            return
    while isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Name):
        if iterated.func.value not in ("enumerate", "list", "tuple") or len(iterated.args) != 1:
            return
        iterated = iterated.args[0].value
    match iterated:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=called))) if called in _PARAMETERS:
            pass
        case _:
            return
    names = {node.value for node in walk(target) if isinstance(node, cst.Name)}
    for part in body:
        for node in walk(part):
            match node:
                case cst.Attribute(value=cst.Name(value=name), attr=cst.Name("grad")):
                    if name in names:
                        yield node
