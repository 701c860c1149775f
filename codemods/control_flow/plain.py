"""Functions of the file that only compute, as far as their text tells."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.torch_names import PURE_METHODS, RNG_FUNCTIONS, RNG_METHODS
from gbfix.analysis.tree import walk
from gbfix.codemod import Site

from ..wrap.pure import is_pure_function

_PLAIN = (
    cst.AugAssign, cst.Yield, cst.Await, cst.Raise, cst.Assert, cst.With, cst.Try, cst.Global,
    cst.Nonlocal, cst.Del, cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom, cst.While,
)  # fmt: skip


def only_computes(site: Site, called: cst.BaseExpression, depth: int = 3) -> bool:
    """Whether a call of a function at module level changes, draws and shows nothing."""
    if not isinstance(called, cst.Name) or depth == 0:
        return False
    found = module_bindings(site.module).get(called.value, ())
    if len(found) != 1 or not isinstance(found[0], cst.FunctionDef) or found[0].decorators:
        return False
    function = found[0]
    for inner in walk(function.body):
        match inner:
            case cst.AssignTarget(target=cst.Attribute() | cst.Subscript()):
                return False
            case cst.Attribute(attr=cst.Name(name)) if name in RNG_METHODS | RNG_FUNCTIONS:
                return False
            case cst.Call(func=func) if not _is_harmless(site, func, depth):
                return False
            case _ if isinstance(inner, _PLAIN):
                return False
    return function.asynchronous is None


def _is_harmless(site: Site, func: cst.BaseExpression, depth: int) -> bool:
    name = resolve(site.module, func) or ""
    home, _, last = name.rpartition(".")
    if name.startswith(("torch.", "math.")):
        return not last.endswith("_") and last not in RNG_FUNCTIONS
    if home == "builtins":
        return is_pure_function(name)
    if isinstance(func, cst.Attribute) and not name:
        return func.attr.value in PURE_METHODS
    return only_computes(site, func, depth - 1)
