"""Whether code does more than compute: it draws numbers, asks the clock, prints, logs, keeps."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .fakes import called

_DRAWS = ("random.", "numpy.random.", "secrets.", "uuid.", "time.", "datetime.", "logging.")
_EFFECTS = words("builtins.print builtins.open builtins.input warnings.warn torch.save numpy.save")
_TORCH_DRAWS = words(
    """torch.rand torch.randn torch.randint torch.randperm torch.normal torch.bernoulli
    torch.multinomial torch.rand_like torch.randn_like"""
)
_LOGGERS = re.compile(r"(log|logger|logging|_logger|LOG|LOGGER)\.")


def acts(site: Site, nodes: Sequence[cst.CSTNode], inside: Collection[str]) -> bool:
    """``inside`` are names that are the code's own, or passed to it: changing these shows there."""
    functions = called(site, nodes)
    for node in (*nodes, *(f.body for f in functions)):
        for inner in walk(node):
            if isinstance(inner, cst.Global):
                return True
            if isinstance(inner, cst.Call):
                name = resolve(site.module, inner.func) or ""
                if name in _EFFECTS | _TORCH_DRAWS or name.startswith(_DRAWS):
                    return True
                if _LOGGERS.match(code(inner.func)):
                    return True
    for function in functions:
        does = activity(function.body)
        own = {p.name.value for p in walk(function.params) if isinstance(p, cst.Param)}
        if does.mutates - does.bound - own:
            return True
    own_names = activity(*nodes)
    return bool(inside) and bool(own_names.mutates - own_names.bound - set(inside))
