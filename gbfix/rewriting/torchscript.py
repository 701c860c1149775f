"""What a module of TorchScript does otherwise than the plain module that it was made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site
from gbfix.rewriting.project import catches, mentions, writers

_NOTE = "an error in it is Python's own, where it was a `torch.jit.Error`"
_HANDLED = "the project handles errors of that kind"
_KEYS = "TorchScript saves buffers that are not persistent: `state_dict` loses their keys"
_TYPES = (
    "the project looks at the types of modules, or puts hooks on them: it finds those inside of"
    " this one now"
)
_LISTS = "`{0}` may keep a list that it is handed, of which TorchScript had a copy of its own"
_STORED = (
    "the project stores to `{0}` of a made object, where TorchScript makes a float of a whole"
    " number"
)
_PRINTS = "`{0}` prints, and TorchScript writes numbers and tensors in its own way"
_OF_NUMBERS = frozenset({"range", "int", "float", "bool", "abs", "round"})

_NOT_SAVED = r"persistent\s*=\s*False|register_buffer\([^()]*(\([^()]*\)[^()]*)*,\s*False\s*\)"
_WALKS = r"\.(named_)?(modules|children)\(|\.apply\("
_LIBRARY_WALKS = (
    r"\bquantize_(dynamic|_)?\(|\bprepare(_qat|_fx)?\(|convert_sync_batchnorm|fuse_modules"
    r"|auto_wrap_policy|_get_name\(|\bget_peft_model\("
)
_TYPED = r"\bisinstance\(|\btype\(|__class__|register_\w*hook"


def differences(site: Site, classes: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What may differ where such classes become plain modules: reasons against it, and notes."""
    reasons = []
    if catches(site, "RuntimeError") or mentions(site, r"\bjit\.Error\b"):
        reasons.append(_HANDLED)
    if mentions(site, _NOT_SAVED):
        reasons.append(_KEYS)
    if (mentions(site, _WALKS) and mentions(site, _TYPED)) or mentions(site, _LIBRARY_WALKS):
        reasons.append(_TYPES)
    reasons += [_LISTS.format(name) for name in sorted(classes) if _keeps_list(site, name)]
    stored = sorted({it for name in classes for it in _attributes(site, name)})
    later = {it for name in classes for it in _attributes(site, name, later=True)}
    reasons += [_STORED.format(it) for it in stored if it in later or _is_stored_outside(site, it)]
    reasons += [_PRINTS.format(name) for name in sorted(classes) if _prints(site, name)]
    return tuple(reasons), (_NOTE,)


def _classes(site: Site, name: str) -> Iterator[ast.ClassDef]:
    for text in {site.path: site.source, **site.sources}.values():
        if name in text:
            for node in ast.walk(tree_of(text)):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    yield node


def _attributes(site: Site, name: str, *, later: bool = False) -> Iterator[str]:
    """The attributes that a class binds on its own objects; ``later``: not in ``__init__``."""
    for holder in _classes(site, name):
        for part in holder.body:
            if later and isinstance(part, ast.FunctionDef) and part.name == "__init__":
                continue
            for node in ast.walk(part):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield node.attr


def _is_stored_outside(site: Site, attribute: str) -> bool:
    """Whether the project stores to an attribute of that name of anything but ``self``."""
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and part.attr == attribute
        and not (isinstance(part.value, ast.Name) and part.value.id == "self")
        for _, node in writers(site, attribute)
        for part in ast.walk(node)
    )


def _prints(site: Site, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for holder in _classes(site, name)
        for node in ast.walk(holder)
    )


def _keeps_list(site: Site, name: str) -> bool:
    """Whether a class reads items of an attribute that is just what its ``__init__`` was given."""
    return any(not set(_given(it)).isdisjoint(_itemised(it)) for it in _classes(site, name))


def _given(holder: ast.ClassDef) -> Iterator[str]:
    """The attributes that are bound to a bare name."""
    for node in ast.walk(holder):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            yield from (it.attr for it in node.targets if isinstance(it, ast.Attribute))


def _itemised(holder: ast.ClassDef) -> Iterator[str]:
    """The attributes whose items are read, or that are handed on as a whole."""
    for node in ast.walk(holder):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr=name))
                | ast.For(iter=ast.Attribute(attr=name))
                | ast.comprehension(iter=ast.Attribute(attr=name))
            ):
                yield name
            case ast.Call(func=ast.Name(func), args=args) if func not in _OF_NUMBERS:
                yield from (it.attr for it in args if isinstance(it, ast.Attribute))


__all__ = ["differences"]
