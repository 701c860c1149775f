"""What the text says of a module that an object holds: what it is in every instance.

A recorded fact is one instance's.  Another one may be given a module that keeps statistics of a
batch, or draws random numbers, where this one has a plain layer.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
from collections.abc import Collection, Iterator

import libcst as cst

from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site
from gbfix.rewriting.project import mentions


def is_always(site: Site, func: cst.BaseExpression, kinds: Collection[str]) -> bool:
    """Whether ``self.layer`` is made by one of these classes of ``torch.nn``, whoever makes it.

    False where a hook may see its calls, too.
    """
    match func:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(attribute)):
            inside = site.class_of(func)
        case _:
            return False
    if inside is None or mentions(site, r"\bregister_\w*hook\b"):
        return False
    found = stores(site, inside.name.value, attribute)
    return bool(found) and all(value is not None and _makes(value, kinds) for _, value in found)


def stores(site: Site, owner: str, attribute: str) -> list[tuple[str, ast.expr | None]]:
    """What is stored to an attribute of objects of a class, by all that names tell.

    Each comes with the class whose ``self`` it is stored to: the class, one above or below it, or
    "" for any other object.  None stands for what is no plain assignment.
    """
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    bases: dict[str, set[str]] = {}
    found: list[tuple[str, ast.expr | None]] = []
    for text in texts:
        known, stored = _classes_and_stores(text)
        for name, more in known:
            bases.setdefault(name, set()).update(more)
        found += [(holder, value) for holder, name, value in stored if name == attribute]
    kin = {owner} | _above(owner, bases)
    kin |= {name for name in bases if owner in _above(name, bases)}
    return [(holder, value) for holder, value in found if holder in kin or not holder]


def overriders(site: Site, owner: str, method: str) -> list[str]:
    """The project's classes that derive from a class and may have another method of that name.

    They define it, or have it from another class that they derive from (a mixin).
    """
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    bases: dict[str, set[str]] = {}
    having: set[str] = set()
    for text in texts:
        for node in ast.walk(tree_of(text)):
            if isinstance(node, ast.ClassDef):
                above = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                bases.setdefault(node.name, set()).update(above)
                if any(isinstance(it, ast.FunctionDef) and it.name == method for it in node.body):
                    having.add(node.name)
    own = {owner} | _above(owner, bases)
    return sorted(
        name
        for name in bases
        if owner in (above := _above(name, bases))
        and name != owner
        and having & (({name} | above) - own)
    )


def given(site: Site, owner: str, parameter: str) -> list[ast.expr] | None:
    """What the project's texts give to a parameter of a class's ``__init__``; None if not known.

    Each is an expression that is no name: a name stands for what the same text binds it to.
    """
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    place = _place_of(texts, owner, parameter)
    if place is None:
        return None
    found: list[ast.expr] = []
    for text in texts:
        tree = tree_of(text)
        calls = [
            node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is(node.func, owner)
        ]
        named = sum(_is(node, owner) for node in ast.walk(tree))
        if named != len(calls) or _has_alias(tree, owner):
            return None  # somebody hands the class on, or derives another one from it
        for call in calls:
            value = _argument(call, parameter, place)
            values = [value] if value is not None else []
            if isinstance(value, ast.Name):
                values = _bound_to(tree, value.id)
            if not values:
                return None
            found += values
    return found or None


#: Layers and functions that draw random numbers in training, or hold such layers.
DRAWING = (
    r"[dD]ropout|[rR]{2}e[lL][uU]|Transformer(En|De)coder|MultiheadAttention|DropPath|drop_path"
    r"|bernoulli|gumbel|multinomial"
)
_DRAWS = re.compile(rf"{DRAWING}|\brand(n|int|perm)?(_like)?\b")


def may_draw(site: Site, called: Collection[str]) -> bool:
    """Whether what is called by these texts (``self.up``, ``helper(x)``) may draw random numbers.

    The texts of the project tell: what an attribute is bound to, and the classes and functions that
    are named there, and in these.  Where they do not tell what a name is, all of them are asked.
    """
    texts = {site.source, *(text for path, text in site.sources.items() if path != site.path)}
    known = _known_bodies(frozenset(texts))
    waiting = [word for text in called for word in re.findall(r"\w+", text) if word != "self"]
    if not any(word in known for word in waiting):
        return any(_DRAWS.search(text) for text in texts)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for body in known.get(name, ()):
            if _DRAWS.search(body) or _is_of_a_library(body, known, texts):
                return True
            waiting += re.findall(r"self\.(\w+)", body)
            waiting += [word for word in re.findall(r"\w+", body) if word in known]
    return False


def keeps_given_modules(site: Site, but: str) -> bool:
    """Whether a class of the project (``but`` for one) keeps a module that its ``__init__`` is
    given: objects of two classes may then share one, and its parameters.
    """
    for text in {site.source, *site.sources.values()}:
        for holder in ast.walk(tree_of(text)):
            if not isinstance(holder, ast.ClassDef) or holder.name == but:
                continue
            called = {
                node.func.attr
                for node in ast.walk(holder)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            }
            for node in ast.walk(holder):
                match node:
                    case ast.Assign(
                        targets=[ast.Attribute(attr=attribute, value=ast.Name("self"))],
                        value=ast.Name(),
                    ) if attribute in called:
                        return True
    return False


def _is_of_a_library(body: str, known: Collection[str], texts: Collection[str]) -> bool:
    """Whether an attribute holds what another package than torch makes: nobody has read that."""
    made = re.match(r"([A-Za-z_]\w*)(\.\w+)*\(", body)
    if made is None or made[1] in known or made[1] in ("nn", "torch", "F", "self", "super"):
        return False
    if made[1] in sys.stdlib_module_names | {"np", "numpy"} or hasattr(builtins, made[1]):
        return False
    brought = re.compile(rf"^\s*(from|import) .*\b{made[1]}\b", re.M)
    lines = [it.group() for text in texts for it in brought.finditer(text)]
    return any(
        re.match(r"\s*(from|import) (torch|math|functools)\b", line) is None for line in lines
    )


@functools.lru_cache(maxsize=32)
def _known_bodies(texts: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The texts of classes and functions, and of what is bound to attributes, by name."""
    found: dict[str, list[str]] = {}
    for text in texts:
        for node in ast.walk(tree_of(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                if node.name not in ("forward", "__init__", "__call__", "main"):
                    found.setdefault(node.name, []).append(ast.unparse(node))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute):
                        found.setdefault(target.attr, []).append(ast.unparse(node.value))
    return {name: tuple(bodies) for name, bodies in found.items()}


def _defines_around(tree: ast.Module, call: ast.Call, name: str) -> str:
    """The function at module level that holds a call and defines a function of that name in it."""
    for outer in tree.body:
        if isinstance(outer, ast.FunctionDef) and any(node is call for node in ast.walk(outer)):
            inner = (node for node in ast.walk(outer) if isinstance(node, ast.FunctionDef))
            if any(node.name == name for node in inner if node is not outer):
                return outer.name
    return ""


def given_functions(site: Site, function: cst.FunctionDef, parameter: str) -> list[str] | None:
    """The functions of the file that the project's calls give; None where they give others.

    One that the caller defines is named as Python does: ``caller.<locals>.function``.

    A single ``lambda`` is left out: it is the one that the run has shown.  What ``torch.compile``
    gives is called under its own name; a function that is handed on anywhere else has more callers.
    """
    name = function.name.value
    names = [it.name.value for it in (*function.params.posonly_params, *function.params.params)]
    place = names.index(parameter) - (names[:1] == ["self"]) if parameter in names else 10**6
    default = next(
        (
            it.default.value
            for it in (*function.params.params, *function.params.kwonly_params)
            if it.name.value == parameter and isinstance(it.default, cst.Name)
        ),
        "",
    )
    found: list[str] = []
    lambdas = 0
    for text in {site.source, *(text for path, text in site.sources.items() if path != site.path)}:
        tree = tree_of(text)
        defined = {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}
        callers = {name, *_compiled_as(tree, name)}
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and any(_is(node.func, each) for each in callers)
        ]
        if _has_alias(tree, name) or _handed_on(tree, callers, calls):
            return None
        for call in calls:
            match _argument(call, parameter, place):
                case ast.Name(id=held) if held in defined and text == site.source:
                    found.append(held)
                case ast.Name(id=held) if text == site.source and (
                    outer := _defines_around(tree, call, held)
                ):
                    found.append(f"{outer}.<locals>.{held}")
                case ast.Lambda():
                    lambdas += 1
                case None if default and not call.args[place:] and text == site.source:
                    found.append(default)
                case _:
                    return None
    return found if (found or lambdas) and lambdas < 2 else None


def _compiles(node: ast.AST, name: str) -> bool:
    """Whether a node is ``torch.compile(name, ...)``."""
    match node:
        case ast.Call(func=func, args=[first, *_]):
            return ast.unparse(func) in ("torch.compile", "compile") and _is(first, name)
    return False


def _compiled_as(tree: ast.Module, name: str) -> set[str]:
    """The names that hold what ``torch.compile`` makes of a function."""
    return {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and _compiles(node.value, name)
    }


def _handed_on(tree: ast.Module, names: Collection[str], calls: Collection[ast.Call]) -> bool:
    """Whether a text does more with functions of these names than to call and compile them."""
    known = {id(call.func) for call in calls}
    for node in ast.walk(tree):
        if any(_compiles(node, name) for name in names):
            assert isinstance(node, ast.Call)
            known.add(id(node.args[0]))
    return any(
        _is(node, name)
        and id(node) not in known
        and not isinstance(getattr(node, "ctx", None), ast.Store)
        for node in ast.walk(tree)
        for name in names
    )


def _has_alias(tree: ast.Module, name: str) -> bool:
    """Whether a text imports something of that name under another one."""
    return any(
        isinstance(node, ast.alias) and node.name == name and node.asname not in (None, name)
        for node in ast.walk(tree)
    )


def _is(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            return found == name
    return False


def _place_of(texts: Collection[str], owner: str, parameter: str) -> int | None:
    """Where the parameter stands among what ``__init__`` gets, without ``self``."""
    kinds = [
        node
        for text in texts
        for node in ast.walk(tree_of(text))
        if isinstance(node, ast.ClassDef) and node.name == owner
    ]
    methods = [it for node in kinds for it in node.body if isinstance(it, ast.FunctionDef)]
    makers = [it for it in methods if it.name == "__init__"]
    if len(kinds) != 1 or len(makers) != 1 or _makes_itself(kinds[0]):
        return None
    names = [arg.arg for arg in [*makers[0].args.posonlyargs, *makers[0].args.args]]
    rebound = any(
        isinstance(node, ast.Name) and node.id == parameter and isinstance(node.ctx, ast.Store)
        for node in ast.walk(makers[0])
    )
    # Another method may store what it gets under the same name.
    others = any(
        arg.arg == parameter
        for method in methods
        if method is not makers[0]
        for arg in ast.walk(method.args)
        if isinstance(arg, ast.arg)
    )
    if parameter not in names or rebound or others:
        return None
    return names.index(parameter) - 1


def _makes_itself(kind: ast.ClassDef) -> bool:
    """Whether a class makes objects of its own without its name: ``cls(...)``."""
    own = ("cls", "type(self)", "self.__class__")
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) in own for node in ast.walk(kind)
    )


def _argument(call: ast.Call, parameter: str, place: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    if any(isinstance(arg, ast.Starred) for arg in call.args) or place >= len(call.args):
        return None
    return call.args[place]


def _bound_to(tree: ast.Module, name: str) -> list[ast.expr]:
    """All that a text binds a name to; nothing where it does so in other ways than by ``=``."""
    found: list[ast.expr] = []
    stored = 0
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                found.append(value)
            case ast.arg(arg=given) if given == name:
                return []
        stored += isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    return found if stored == len(found) else []


def _makes(value: ast.expr, kinds: Collection[str]) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in kinds


def _above(name: str, bases: dict[str, set[str]]) -> set[str]:
    """The names of all classes that a class is made of."""
    found: set[str] = set()
    waiting = set(bases.get(name, ()))
    while waiting:
        base = waiting.pop()
        if base not in found:
            found.add(base)
            waiting |= bases.get(base, set())
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[int, ast.expr]]:
    """Each target of an assignment, by its identity, with what it gets."""
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            if not any(isinstance(it, ast.Starred) for it in (*targets, *values)):
                for one, other in zip(targets, values, strict=True):
                    yield from _pairs(one, other)
        case _:
            yield id(target), value


@functools.lru_cache(maxsize=256)
def _classes_and_stores(
    text: str,
) -> tuple[tuple[tuple[str, frozenset[str]], ...], tuple[tuple[str, str, ast.expr | None], ...]]:
    """The classes of a text with their bases, and its stores to attributes, with what is stored."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return (), ()
    classes: list[tuple[str, frozenset[str]]] = []
    found: list[tuple[str, str, ast.expr | None]] = []

    def visit(node: ast.AST, holder: str, stored: dict[int, ast.expr]) -> None:
        match node:
            case ast.ClassDef(name=name):
                bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
                classes.append((name, frozenset(bases)))
                holder = name
            case ast.Assign(targets=targets, value=value):
                stored = dict(pair for target in targets for pair in _pairs(target, value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                stored = {id(target): value}
            case ast.Attribute(value=value, attr=attribute, ctx=ast.Store() | ast.Del()):
                own = isinstance(value, ast.Name) and value.id == "self"
                found.append((holder if own else "", attribute, stored.get(id(node))))
        for child in ast.iter_child_nodes(node):
            visit(child, holder, stored)

    visit(tree, "", {})
    return tuple(classes), tuple(found)
