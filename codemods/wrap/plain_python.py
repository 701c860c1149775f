"""Functions that only compute with numbers: grids of kernels, block sizes, how many warps.

Such code may run while a compiler traces, and not again later: it gives the same for the same
arguments, changes nothing and reads nothing that changes.
"""

from __future__ import annotations

from pathlib import PurePath

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.attributes import binds
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Site

from .capture import Refused

_FORBIDDEN = (
    cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.ClassDef, cst.With, cst.Del, cst.Try,
    cst.TryStar, cst.NamedExpr, cst.Import, cst.ImportFrom, cst.Match,
)  # fmt: skip
_BUILTINS = words(
    """abs all any bool divmod enumerate float int isinstance len list max min pow range reversed
    round sorted str sum tuple zip AssertionError IndexError NotImplementedError RuntimeError
    TypeError ValueError"""
)
#: Functions of numbers; ``partial`` calls nothing by itself.
PLAIN = words("triton.cdiv triton.next_power_of_2 functools.partial")
#: Of numbers and containers, and what a tensor tells of its layout.
_METHODS = words(
    "bit_length get items keys values size numel stride dim element_size nelement is_contiguous"
)
_DTYPES = words(
    """float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 short int
    long bool complex64 complex128 float8_e4m3fn float8_e5m2 contiguous_format preserve_format
    channels_last strided dtype device Tensor Size"""
)
_DEEPEST = 6


def check_plain(
    place: Site, node: cst.CSTNode, known: frozenset[str] = frozenset(), depth: int = 0
) -> None:
    """Raise `Refused` unless a function, lambda or class (whose instances are called) only
    computes.  ``known`` are names around it that the caller has judged.
    """
    if depth > _DEEPEST:
        raise Refused("it calls too deep")
    match node:
        case cst.ClassDef():
            _check_class(place, node, depth)
        case cst.FunctionDef(decorators=[], asynchronous=None):
            _check_body(place, node, function_scope(node).locals, known, depth)
        case cst.Lambda():
            names = frozenset(param.name.value for param in params_of(node.params))
            _check_body(place, node, names, known, depth)
        case _:
            raise Refused(f"nothing is known of `{code(node).strip().splitlines()[0][:40]}`")


def _check_class(place: Site, node: cst.ClassDef, depth: int) -> None:
    name = node.name.value
    if node.bases or node.keywords or node.decorators:
        raise Refused(f"the class `{name}` is more than plain")
    for item in node.body.body:
        if isinstance(item, cst.FunctionDef) and item.name.value in ("__init__", "__call__"):
            check_plain(place, item, depth=depth + 1)
        elif not (
            isinstance(item, cst.SimpleStatementLine)
            and all(isinstance(small, cst.Expr | cst.Pass) for small in item.body)
        ):
            raise Refused(f"the class `{name}` is more than plain")
    made = {code(part.target) for part in walk(node) if isinstance(part, cst.AssignTarget)}
    for part in walk(node):
        reads = isinstance(part, cst.Attribute) and code(part.value) == "self"
        if reads and code(part) not in made:
            raise Refused(f"the class `{name}` reads `{code(part)}`")


def _check_body(
    place: Site,
    node: cst.FunctionDef | cst.Lambda,
    own: frozenset[str],
    known: frozenset[str],
    depth: int,
) -> None:
    given = frozenset(param.name.value for param in params_of(node.params))
    if any(param.default is not None and not is_constant(param.default)
           for param in params_of(node.params)):  # fmt: skip
        raise Refused("a default is no constant")
    does = activity(node.body)
    if does.dynamic or does.global_writes:
        raise Refused("it binds global names, or looks at its own frame")
    starts = isinstance(node, cst.FunctionDef) and node.name.value == "__init__"
    changed = does.mutates - ({"self"} if starts else set())
    if changed - own or changed & given:
        raise Refused(f"it changes `{min(changed)}`")
    for part in walk(node.body):
        if isinstance(part, _FORBIDDEN) or (
            isinstance(part, cst.FunctionDef | cst.Lambda) and part is not node
        ):
            raise Refused(f"it holds `{code(part).strip().splitlines()[0][:30]}`")
        match part:
            case cst.AssignTarget(target=cst.Attribute(value=holder)) if not (
                starts and code(holder) == "self"
            ):
                raise Refused(f"it sets `{code(part.target)}`")
        if isinstance(part, cst.Call):
            check_call(place, part, own | known, depth)
    check_names(place, node.body, own | known, depth)


def check_call(place: Site, node: cst.Call, own: frozenset[str], depth: int = 0) -> None:
    """Raise `Refused` unless a call inside plain code only computes."""
    name = resolve(place.module, node.func)
    if name is not None and (name in PLAIN or name.startswith("math.")):
        if name == "functools.partial" and not _is_callable(place, node.args[:1], own, depth):
            raise Refused(f"nothing is known of what `{code(node)}` calls")
        return
    if name is not None and name.startswith("builtins."):
        if name.removeprefix("builtins.") in _BUILTINS:
            return
    elif isinstance(node.func, cst.Attribute) and (name is None or _root(node.func) in own):
        if node.func.attr.value in _METHODS:
            return
        if node.func.attr.value == "append" and _root(node.func) in own:
            return  # of a local, or `activity` has found the change
    elif isinstance(node.func, cst.Name) and node.func.value not in own:
        check_plain(*project_function(place, node.func), depth=depth + 1)
        return
    raise Refused(f"nothing is known of `{code(node.func)}`")


def _is_callable(place: Site, args: object, own: frozenset[str], depth: int) -> bool:
    match args:
        case (cst.Arg(value=cst.Name() as func, keyword=None, star=""),) if func.value not in own:
            check_plain(*project_function(place, func), depth=depth + 1)
            return True
        case (cst.Arg(value=cst.Lambda(), keyword=None),):
            return True  # seen as a part of what holds it
    return False


def project_function(place: Site, node: cst.Name) -> tuple[Site, cst.CSTNode]:
    """The definition that a global name always stands for, and its file."""
    name = node.value
    bound = module_bindings(place.module).get(name, ())
    if len(bound) == 1 and isinstance(bound[0], cst.FunctionDef | cst.ClassDef):
        return place, bound[0]
    found = []
    if len(bound) == 1 and isinstance(bound[0], cst.ImportFrom) and bound[0].module is not None:
        last = (dotted(bound[0].module) or "").rpartition(".")[2]
        renamed = (resolve(place.module, node) or "").rpartition(".")[2] != name
        for path in () if renamed else place.sources:
            home = PurePath(path)
            if path == place.path or last != (
                home.parent.name if home.stem == "__init__" else home.stem
            ):
                continue
            other = place.other(path)
            there = module_bindings(other.module).get(name, ()) if other is not None else ()
            if other is not None and len(there) == 1:
                found.append((other, there[0]))
    if len(found) == 1 and isinstance(found[0][1], cst.FunctionDef | cst.ClassDef):
        return found[0]
    raise Refused(f"nothing is known of `{name}`")


def check_names(place: Site, body: cst.CSTNode, own: frozenset[str], depth: int = 0) -> None:
    """Raise `Refused` where code reads a global that is no constant, function or module.

    What is read while tracing is not read again: a compiled graph would not see a new value.
    """
    for part in walk(body):
        if not isinstance(part, cst.Name) or part.value in own or _is_label(place, part):
            continue
        if _is_bound_around(place, part, body):
            continue
        chain: cst.CSTNode = part
        while isinstance(above := place.parent(chain), cst.Attribute) and above.value is chain:
            chain = above
        above = place.parent(chain)
        is_called = isinstance(above, cst.Call) and above.func is chain
        name = resolve(place.module, chain)
        if name is None:
            if not _is_static(place, part, chain, depth, is_called=is_called):
                raise Refused(f"it reads the global `{code(chain)}`")
        elif not is_called and not _is_library_constant(name):
            if chain is not part:
                raise Refused(f"it reads `{code(chain)}`")
            check_plain(*project_function(place, part), depth=depth + 1)  # handed on


def _is_label(place: Site, node: cst.Name) -> bool:
    holder = place.parent(node)
    return (
        (isinstance(holder, cst.Attribute) and holder.attr is node)
        or (isinstance(holder, cst.Arg) and holder.keyword is node)
        or isinstance(holder, cst.Param | cst.FunctionDef | cst.ImportAlias)
    )


def _is_bound_around(place: Site, node: cst.Name, body: cst.CSTNode) -> bool:
    """Whether a lambda, function or comprehension inside the body binds the name."""
    for holder in place.ancestors(node):
        if isinstance(holder, cst.Lambda | cst.FunctionDef):
            if node.value in {param.name.value for param in params_of(holder.params)}:
                return True
            if isinstance(holder, cst.FunctionDef) and (
                node.value in function_scope(holder).locals
            ):
                return True
        if isinstance(holder, cst.BaseComp):
            clauses = [part for part in walk(holder) if isinstance(part, cst.CompFor)]
            if any(node.value == name.value for clause in clauses
                   for name in walk(clause.target) if isinstance(name, cst.Name)):  # fmt: skip
                return True
        if holder is body:
            return False
    return False


def _is_library_constant(name: str) -> bool:
    home, _, last = name.rpartition(".")
    return home in ("builtins", "math", "triton.language") or (home == "torch" and last in _DTYPES)


def _is_static(
    place: Site, node: cst.Name, chain: cst.CSTNode, depth: int, *, is_called: bool
) -> bool:
    """Whether a global is a plain function or class, or a constant that nobody rebinds."""
    bound = module_bindings(place.module).get(node.value, ())
    if len(bound) != 1:
        return False
    match bound[0]:
        case cst.FunctionDef() | cst.ClassDef():
            if chain is node and not is_called:
                check_plain(place, bound[0], depth=depth + 1)
            return chain is node
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value):
            pass
        case cst.AnnAssign(target=cst.Name(), value=cst.BaseExpression() as value):
            pass
        case _:
            return False
    return is_constant(value) and not any(
        binds(text, node.value) for text in set(place.sources.values())
    )


def is_constant(node: cst.BaseExpression) -> bool:
    """A number, a text, None, a bool, or a tuple of them."""
    match node:
        case cst.BaseNumber() | cst.SimpleString() | cst.Name("None" | "True" | "False"):
            return True
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return is_constant(inner)
        case cst.BinaryOperation(left=left, right=right):
            return is_constant(left) and is_constant(right)
        case cst.Tuple(elements=elements):
            return all(is_constant(element.value) for element in elements)
    return False


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""
