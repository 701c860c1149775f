"""Which of its arguments a triton kernel may write to.

What is not known to be only read counts as written to: an operator that leaves out an argument it
changes is wrong, one that names an argument too many is only slower.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst

from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import children, code, dotted, walk
from gbfix.codemod import Site

from .capture import Refused
from .triton_kernel import is_jit

_AUTOTUNE = ("triton.autotune", "triton.runtime.autotuner.autotune", "triton.runtime.autotune")
_HEURISTICS = ("triton.heuristics", "triton.runtime.autotuner.heuristics")
#: Calls whose result is data, and leads to no argument's memory.
_DATA = ("load", "program_id", "num_programs", "arange")
_DEEPEST = 8


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function under ``@triton.jit``, and the file that it stands in."""

    place: Site
    function: cst.FunctionDef

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(param.name.value for param in self.function.params.params)


def find_kernel(site: Site, node: cst.BaseExpression) -> Kernel | None:
    """The kernel that a plain name stands for, here or imported; None where that is not certain."""
    if not isinstance(node, cst.Name):
        return None
    name = node.value
    bound = module_bindings(site.module).get(name, ())
    if len(bound) != 1:
        return None
    if isinstance(bound[0], cst.FunctionDef):
        return _jitted(site, bound[0])
    if not isinstance(bound[0], cst.ImportFrom) or (
        (resolve(site.module, node) or "").rpartition(".")[2] != name
    ):
        return None
    home = dotted(bound[0].module) if bound[0].module is not None else None
    found = []
    for path in site.sources:
        place = site.other(path) if path != site.path else None
        if place is None:
            continue
        for item in module_bindings(place.module).get(name, ()):
            kernel = _jitted(place, item) if isinstance(item, cst.FunctionDef) else None
            if kernel is not None:
                found.append((path, kernel))
    if len(found) != 1 or home is None:
        return None  # none, or another of the same name
    path, kernel = found[0]
    there = PurePath(path)
    stem = there.parent.name if there.stem == "__init__" else there.stem
    return kernel if stem == home.rpartition(".")[2] else None


def _jitted(place: Site, function: cst.FunctionDef) -> Kernel | None:
    """The kernel, if ``wrap_triton`` takes it: jitted, and autotuned outermost if at all."""
    if len(module_bindings(place.module).get(function.name.value, ())) != 1:
        return None
    names = []
    for decorator in function.decorators:
        node = decorator.decorator
        func = node.func if isinstance(node, cst.Call) else node
        names.append("jit" if is_jit(place, node) else resolve(place.module, func) or "")
    if not names or names[-1] != "jit":
        return None
    above = names[:-1]
    tuned = bool(above) and above[0] in _AUTOTUNE
    if above and not (tuned and all(name in _HEURISTICS for name in above[1:])):
        return None
    return Kernel(place, function)


def may_write(kernel: Kernel, depth: int = 0) -> frozenset[str]:
    """The parameters whose memory the kernel may write to; raises `Refused` if nobody can tell."""
    function = kernel.function
    name = function.name.value
    params = function.params
    if depth > _DEEPEST:
        raise Refused(f"the kernel `{name}` calls too long a chain of functions")
    if params.star_kwarg or isinstance(params.star_arg, cst.Param) or params.kwonly_params:
        raise Refused(f"the kernel `{name}` takes any number of arguments")
    leads: dict[str, set[str]] = {}
    stored: set[str] = set()
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    _lead(leads, target.target, value)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                _lead(leads, target, value)
            case (
                cst.AugAssign(target=target, value=value)
                | cst.NamedExpr(target=target, value=value)
            ):
                _lead(leads, target, value)
            case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
                _lead(leads, target, value)
            case cst.Call():
                stored |= _stored(kernel, node, depth)
            case cst.Name("pointer_type") | cst.FunctionDef() | cst.Lambda() | cst.Global():
                raise Refused(f"the kernel `{name}` holds `{code(node).strip()[:30]}`")
    before = -1
    while before != (before := len(stored)):
        stored |= {more for each in stored for more in leads.get(each, ())}
    return frozenset(stored) & frozenset(kernel.parameters)


def _lead(leads: dict[str, set[str]], target: cst.BaseExpression, value: cst.CSTNode) -> None:
    for name in _pointers(target):
        leads.setdefault(name, set()).update(_pointers(value))


def _pointers(node: cst.CSTNode) -> Iterator[str]:
    """Names that may lead to the memory that a value points to."""
    match node:
        case cst.Name(value=name):
            yield name
        case cst.Comparison():
            pass
        case cst.Attribute(value=value):
            yield from _pointers(value)
        case cst.Arg(value=value):
            yield from _pointers(value)
        case cst.Call(func=cst.Attribute()) if _last(node) in _DATA or _last(node).startswith(
            "atomic_"
        ):
            pass
        case _:
            for child in children(node):
                yield from _pointers(child)


def _stored(kernel: Kernel, node: cst.Call, depth: int) -> set[str]:
    """The names that lead to what one call writes to."""
    last = _last(node)
    name = resolve(kernel.place.module, node.func)
    if "asm" in last or last in ("device_print", "device_assert"):
        raise Refused(f"the kernel `{kernel.function.name.value}` calls `{last}`")
    is_library = name is not None and name.startswith("triton.") and ".experimental." not in name
    if is_library or (name is None and _is_method(kernel, node.func)):
        if "store" not in last and not last.startswith("atomic_") and "scatter" not in last:
            return set()
        written = set(_pointers(node.func.value)) if isinstance(node.func, cst.Attribute) else set()
        # Where the place is not the first argument, any of them may be.
        places = [arg for arg in node.args[:1] if arg.keyword is None and not arg.star]
        for arg in places or node.args:
            written |= set(_pointers(arg.value))
        return written
    if name is not None and name.startswith("builtins."):
        return set()
    local = code(node.func) in function_scope(kernel.function).locals
    called = None if local else find_kernel(kernel.place, node.func)
    if called is None:
        raise Refused(f"nothing is known of `{code(node.func)}`, which the kernel calls")
    changed = may_write(called, depth + 1)
    return {
        pointer
        for parameter, value in arguments(called, node)
        if parameter in changed
        for pointer in _pointers(value)
    }


def _is_method(kernel: Kernel, func: cst.BaseExpression) -> bool:
    """Whether it is a method of a value that the kernel itself holds."""
    if not isinstance(func, cst.Attribute):
        return False
    names = {node.value for node in walk(func.value) if isinstance(node, cst.Name)}
    return bool(names & function_scope(kernel.function).locals) or not names


def arguments(kernel: Kernel, node: cst.Call) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The kernel's parameters with what a call hands to each."""
    names = kernel.parameters
    for place, argument in enumerate(node.args):
        if argument.star:
            raise Refused(f"`{kernel.function.name.value}` gets `{argument.star}` arguments")
        if argument.keyword is None and place >= len(names):
            raise Refused(f"`{kernel.function.name.value}` gets more arguments than it takes")
        yield (names[place] if argument.keyword is None else argument.keyword.value, argument.value)


def _last(node: cst.Call) -> str:
    func = node.func
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""
