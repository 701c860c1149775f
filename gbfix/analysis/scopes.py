"""Where names come from: a function's scope, a module's bindings, what an import stands for."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import Activity, activity, parameters_of
from gbfix.analysis.tree import children, dotted, statements_of, walk, words

__all__ = [
    "Scope",
    "dotted",
    "enclosing_functions",
    "function_scope",
    "import_map",
    "module_bindings",
    "path_to",
    "resolve",
]


@dataclasses.dataclass(frozen=True)
class Scope:
    """The names of one function, as the compiler would sort them.

    ``parameters``  in the order of the signature, ``*args`` and ``**kwargs`` included
    ``locals``      parameters and everything the function binds, in whatever branch
    ``cells``       locals that a lambda, generator or function inside it uses
    ``free``        names of enclosing functions that it uses (needs ``enclosing``), and nonlocals
    ``nonlocals``   names declared so
    ``globals``     names looked up in the module or the builtins; those declared so included
    ``declared_globals``  only those declared
    """

    parameters: tuple[str, ...]
    locals: frozenset[str]
    cells: frozenset[str]
    free: frozenset[str]
    nonlocals: frozenset[str]
    globals: frozenset[str]
    declared_globals: frozenset[str]


def function_scope(function: cst.FunctionDef, enclosing: Sequence[cst.FunctionDef] = ()) -> Scope:
    """The scope of a function; ``enclosing`` are the functions around it, in any order.

    Without ``enclosing``, names of outer functions are taken for globals.
    """
    what = activity(function.body)
    parameters = parameters_of(function.params)
    declared = what.globals | what.nonlocals
    own = (frozenset(parameters) | what.binds | what.declares) - declared
    outside = (what.reads | what.writes | what.deletes) - own - what.globals
    around = frozenset[str]()
    for outer in enclosing:
        around |= function_scope(outer).locals
    free = (outside & around) | what.nonlocals
    return Scope(
        parameters=parameters,
        locals=own,
        cells=own & what.captures,
        free=free,
        nonlocals=what.nonlocals,
        globals=(outside - free) | what.globals,
        declared_globals=what.globals,
    )


# -- modules ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def module_bindings(module: cst.Module) -> Mapping[str, tuple[cst.CSTNode, ...]]:
    """The statements that bind (or delete) each name of the module's scope, in source order.

    A simple statement is given as such (``cst.Import``, ``cst.Assign``), not as its line; names
    bound by the head of a compound statement (``for``, ``with``, ``except``) name that statement;
    a name that a function binds through ``global`` names the outermost such ``def`` or ``class``.
    """
    return _bindings(module)


def _bindings(block: cst.CSTNode) -> dict[str, tuple[cst.CSTNode, ...]]:
    found: dict[str, tuple[cst.CSTNode, ...]] = {}
    for name, statement in _binding_statements(block):
        found[name] = (*found.get(name, ()), statement)
    return found


def _binding_statements(block: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    for node in statements_of(block):
        if isinstance(node, cst.SimpleStatementLine):
            yield from _binding_statements(node)
            continue
        nested = [] if isinstance(node, cst.FunctionDef | cst.ClassDef) else list(_blocks_in(node))
        if not nested:
            what = activity(node)
            for name in sorted(what.writes | what.deletes | what.global_writes):
                yield name, node
            continue
        yield from ((name, node) for name in sorted(_bound_by_head(node)))
        for inner in nested:
            yield from _binding_statements(inner)


def _bound_by_head(node: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    for child in children(node):
        if isinstance(child, cst.BaseSuite | cst.Else | cst.Finally | cst.If):
            continue
        if isinstance(child, cst.ExceptHandler | cst.ExceptStarHandler | cst.MatchCase):
            names |= _bound_by_head(child)
        elif isinstance(node, cst.For) and child is node.target:
            names |= activity(cst.AssignTarget(node.target)).writes
        else:
            names |= activity(child).writes
    return names


def _blocks_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The blocks of a compound statement, and an ``elif`` as the statement that it is."""
    for child in children(node):
        if isinstance(child, cst.BaseSuite | cst.Else | cst.Finally | cst.If):
            yield child
        elif isinstance(child, cst.ExceptHandler | cst.ExceptStarHandler | cst.MatchCase):
            yield child.body


@functools.lru_cache(maxsize=16)
def import_map(module: cst.Module) -> Mapping[str, str]:
    """What each name imported at module level stands for: ``{"F": "torch.nn.functional"}``.

    Names that different imports bind to different things are left out; so are names that anything
    else binds, too.  Relative imports keep their dots (``.layers.Block``).
    """
    found: dict[str, str] = {}
    for name, statements in module_bindings(module).items():
        target = _one_import(name, statements)
        if target is not None:
            found[name] = target
    return found


def _one_import(name: str, statements: Sequence[cst.CSTNode]) -> str | None:
    """What the name stands for where all statements that bind it import the same thing."""
    targets = {_imported(name, statement) for statement in statements}
    return targets.pop() if len(targets) == 1 else None


def _imported(name: str, statement: cst.CSTNode) -> str | None:
    if isinstance(statement, cst.Import):
        prefix = ""
    elif isinstance(statement, cst.ImportFrom):
        dots = "." * len(statement.relative)
        home = dotted(statement.module) or "" if statement.module is not None else ""
        prefix = f"{dots}{home}." if home else dots
    else:
        return None
    if isinstance(statement.names, cst.ImportStar):
        return None
    targets = set[str]()
    for alias in statement.names:
        target = dotted(alias.name) or ""
        if alias.asname is not None:
            if isinstance(alias.asname.name, cst.Name) and alias.asname.name.value == name:
                targets.add(prefix + target)
        elif target.partition(".")[0] == name:
            targets.add(prefix + name)
    return targets.pop() if len(targets) == 1 else None


# -- what a name means at a place ------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _parents(module: cst.Module) -> Mapping[cst.CSTNode, cst.CSTNode]:
    return {child: node for node in walk(module) for child in children(node)}


def path_to(module: cst.Module, node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes from the node itself up to the module; empty if it is not in the module."""
    parents = _parents(module)
    path = [node]
    while path[-1] in parents:
        path.append(parents[path[-1]])
    return tuple(path) if path[-1] is module else ()


def enclosing_functions(module: cst.Module, node: cst.CSTNode) -> tuple[cst.FunctionDef, ...]:
    """The functions in whose bodies the node stands, innermost first."""
    path = path_to(module, node)
    return tuple(
        outer
        for inner, outer in itertools.pairwise(path)
        if isinstance(outer, cst.FunctionDef) and inner is outer.body
    )


def resolve(module: cst.Module, node: cst.CSTNode, *, at: cst.CSTNode | None = None) -> str | None:
    """The full dotted name of what a chain of names stands for, through imports.

    With ``import torch as T``, ``T.save`` is ``torch.save``; a builtin that nothing shadows is
    ``builtins.print``.  None where the root is bound by anything but one import (or several that
    agree), is a local name, or the node is not a chain of names.  A node that is not part of the
    module is looked up at ``at``; without it the answer is None.
    """
    text = dotted(node)
    if text is None:
        return None
    root, _, rest = text.partition(".")
    path = path_to(module, node if at is None else at)
    if not path or (at is None and _is_label(node, path)):
        return None
    target = _resolve_name(module, root, path)
    return target and (f"{target}.{rest}" if rest else target)


def _is_label(node: cst.CSTNode, path: Sequence[cst.CSTNode]) -> bool:
    """Whether a name is no variable: the ``b`` of ``a.b``, a keyword, the name of a parameter."""
    holder = path[1] if len(path) > 1 else None
    return (
        (isinstance(holder, cst.Attribute) and holder.attr is node)
        or (isinstance(holder, cst.Arg) and holder.keyword is node)
        or (isinstance(holder, cst.Param) and holder.name is node)
        or isinstance(holder, cst.ImportAlias)
    )


# A function's body is asked about for each of its names; trees never change.
@functools.lru_cache(maxsize=512)
def _block_activity(block: cst.CSTNode) -> Activity:
    return activity(block)


@functools.lru_cache(maxsize=512)
def _block_bindings(block: cst.CSTNode) -> Mapping[str, tuple[cst.CSTNode, ...]]:
    return _bindings(block)


def _resolve_name(module: cst.Module, name: str, path: Sequence[cst.CSTNode]) -> str | None:
    in_function = False  # class scopes are not seen from the functions inside them
    for inner, outer in itertools.pairwise(path):
        if isinstance(outer, cst.FunctionDef) and inner is outer.body:
            what = _block_activity(outer.body)
            in_function = True
            if name in what.globals:
                break
            if name in parameters_of(outer.params):
                return None
            if name in what.binds | what.declares and name not in what.nonlocals:
                return _one_import(name, _block_bindings(outer.body).get(name, ()))
        elif isinstance(outer, cst.ClassDef) and inner is outer.body and not in_function:
            if name in _block_activity(outer.body).binds:
                return None
        elif isinstance(outer, cst.Lambda) and inner is outer.body:
            in_function = True
            if name in parameters_of(outer.params) or name in _block_activity(outer.body).binds:
                return None
        elif isinstance(outer, cst.BaseComp) and name in _comprehension_targets(outer):
            return None
    bound = module_bindings(module)
    if name in bound:
        return _one_import(name, bound[name])
    if hasattr(builtins, name) and not _is_shadowed(module, name):
        return f"builtins.{name}"
    return None


def _comprehension_targets(node: cst.BaseComp) -> frozenset[str]:
    names = frozenset[str]()
    clause = getattr(node, "for_in", None)
    while isinstance(clause, cst.CompFor):
        names |= activity(cst.AssignTarget(clause.target)).writes
        clause = clause.inner_for_in
    return names


#: Modules that people import whole, and what of Python's own they put other things in the place of
#: (checked against the installed torch and Python by ``tests/analysis/test_star_imports.py``).
STAR_IMPORTS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        words(
            """collections itertools functools random typing queue copy dataclasses abc
            torch.nn torch.nn.functional torch.nn.init torch.nn.modules torch.nn.modules.loss
            torch.nn.parameter torch.nn.utils torch.nn.utils.rnn torch.optim
            torch.optim.lr_scheduler torch.autograd torch.autograd.gradcheck torch.utils.data
            torch.distributions torch.distributions.transforms torch.distributions.constraints"""
        ),
        frozenset[str](),
    ),
    "math": frozenset({"pow"}),
    "enum": frozenset({"property"}),
}


@functools.lru_cache(maxsize=16)
def _star_imports(module: cst.Module) -> frozenset[str]:
    """The modules that are imported whole; "" for one that is not known by its full name."""
    return frozenset(
        (dotted(node.module) or "") if node.module is not None and not node.relative else ""
        for node in walk(module)
        if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar)
    )


def _is_shadowed(module: cst.Module, name: str) -> bool:
    """Whether one of Python's own names may be another's, imported with all others of a module."""
    return any(name in STAR_IMPORTS.get(home, {name}) for home in _star_imports(module))
