"""Iterators handed to a compiled function."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator

import libcst as cst

from gbfix.analysis import torch_names
from gbfix.analysis.activity import activity
from gbfix.analysis.aliasing import containers_of
from gbfix.analysis.kinds import infer
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import statements_of, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site
from gbfix.schema import Fact, Safety

from .references import Callers, argument, callers_of, is_parameter
from .splice import Splice

#: Iterators that ``iter`` makes of built-in containers.
_OF_CONTAINERS = words("list_iterator dict_keyiterator set_iterator tuple_iterator range_iterator")
_MADE_BY = words("reversed enumerate zip map")
_CONTAINERS = words("list tuple dict set str tensor")
_CONSUMERS = words("list tuple set frozenset sum sorted any all zip enumerate map")
_COMPUTES = words("range len min max zip enumerate reversed sum abs")
_LIST_ITERATOR = Fact("iterator", "list_iterator")

_ADVICE = (
    "Dynamo cannot advance an iterator that was made outside of the compiled function. Pass the"
    " list itself and call `iter` on it inside; an iterator that the caller goes on using"
    " afterwards has to be advanced by the caller, and its items passed."
)


class PassTheList(Codemod):
    """*What it does.*  Passes the list to a compiled function instead of an iterator over it.

    ``f(iter(xs))`` becomes ``f(xs)``, ``f(zip(a, b))`` becomes ``f(list(zip(a, b)))``, and where
    the function advances its argument, or uses it more than once, it makes its own iterator first:
    ``xs = iter(xs)``.

    *When it applies.*  The recorded argument was a built-in iterator or a generator, the function
    stands at module level or is the ``forward`` of a module of this file, and its calls in the file
    make the iterator right in the call, so that nobody else holds it: ``model(parts(x))`` becomes
    ``model(list(parts(x)))``.

    *Fix safety.*  Safe where the iterator walks over containers and nothing changes them before it
    is used up; a caller that still passes an iterator gets what it got before, since ``iter`` of an
    iterator is that iterator.  Unsafe where running ``map`` functions, generators or unknown
    iterables ahead of time could be noticed.

    *Refuses.*  Iterators that the caller keeps, functions that rebind the parameter, functions that
    may also be called with a list that they walk over twice, and methods other than ``forward``.
    """

    name = "pass-the-list"
    codes = ("GB4347", "GB0811", "GB0156")

    examples = (
        Example(
            title="next on a list iterator",
            before="""
            import torch

            @torch.compile(fullgraph=True)
            def f(xs):
                a = next(xs)
                b = next(xs)
                return a + b

            xs = [torch.tensor(1.), torch.tensor(2.)]
            out = f(iter(xs))
            """,
            after="""
            import torch

            @torch.compile(fullgraph=True)
            def f(xs):
                xs = iter(xs)
                a = next(xs)
                b = next(xs)
                return a + b

            xs = [torch.tensor(1.), torch.tensor(2.)]
            out = f(xs)
            """,
            at="next(xs)",
            facts={"xs": _LIST_ITERATOR},
        ),
        Example(
            title="a docstring stays first; compiled under another name",
            before='''
            import torch

            def f(y, xs):
                """Adds."""
                # the first
                a = next(xs)
                return a + y

            g = torch.compile(f, backend="eager")

            def main(data):
                print(g(1, iter([*data, 1])))
                return g(xs=iter(data), y=2)
            ''',
            after='''
            import torch

            def f(y, xs):
                """Adds."""
                xs = iter(xs)
                # the first
                a = next(xs)
                return a + y

            g = torch.compile(f, backend="eager")

            def main(data):
                print(g(1, [*data, 1]))
                return g(xs=data, y=2)
            ''',
            at="next(xs)",
            facts={"xs": _LIST_ITERATOR},
        ),
        Example(
            title="one loop needs no iterator of its own",
            before="""
            import torch

            a, b = [1.0], [2.0]

            @torch.compile
            def f(pairs, x):
                for p, q in pairs:
                    x = x * p + q
                return x

            f(zip(a, b), torch.ones(3))
            """,
            after="""
            import torch

            a, b = [1.0], [2.0]

            @torch.compile
            def f(pairs, x):
                for p, q in pairs:
                    x = x * p + q
                return x

            f(list(zip(a, b)), torch.ones(3))
            """,
            at="for p, q in pairs",
            code="GB0811",
            facts={"pairs": Fact("iterator", "zip")},
        ),
        Example(
            title="two loops over the rest",
            before="""
            import torch

            @torch.compile
            def f(xs):
                total = 0
                for x in xs:
                    total = total + x
                    if total is None:
                        break
                return total, list(xs)

            f(enumerate([1, 2, 3]))
            """,
            after="""
            import torch

            @torch.compile
            def f(xs):
                xs = iter(xs)
                total = 0
                for x in xs:
                    total = total + x
                    if total is None:
                        break
                return total, list(xs)

            f(list(enumerate([1, 2, 3])))
            """,
            at="for x in xs",
            code="GB0811",
            facts={"xs": Fact("iterator", "enumerate")},
        ),
        Example(
            title="a generator expression",
            before="""
            import torch

            @torch.compile
            def f(xs):
                return torch.stack(list(xs))

            f(torch.ones(2) * n for n in [1, 2, 3])
            """,
            after="""
            import torch

            @torch.compile
            def f(xs):
                return torch.stack(list(xs))

            f([torch.ones(2) * n for n in [1, 2, 3]])
            """,
            at="list(xs)",
            code="GB0811",
            facts={"xs": Fact("iterator", "generator")},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"import torch\n\n\n@torch.compile\ndef f(xs):\n{body}\n\n\n{call}\n",
            at=at,
            why=why,
            facts={"xs": Fact("iterator", kind)} if kind else {},
        )
        for body, call, at, why, kind in (
            (
                "    return next(xs)",
                "it = iter([1, 2])\nf(it)\nprint(next(it))",
                "next(xs)",
                "the caller goes on with the iterator",
                "list_iterator",
            ),
            ("    return next(xs)", "f(iter([1]))", "next(xs)", "nothing was recorded", ""),
            (
                "    y = next(xs)\n    xs = [y]\n    return xs",
                "f(iter([1]))",
                "next(xs)",
                "the parameter is bound anew",
                "list_iterator",
            ),
            (
                "    return list(xs), list(xs)",
                "f(iter([1]))\nf([1, 2])",
                "list(xs)",
                "a list is walked twice, an iterator once",
                "list_iterator",
            ),
            (
                "    return list(xs), list(xs)",
                "f(iter([1]))\nrun(f)",
                "list(xs)",
                "others may call it with a list",
                "list_iterator",
            ),
            (
                "    return next(xs)",
                "f(iter(read, b''))",
                "next(xs)",
                "calls a function until a sentinel comes",
                "callable_iterator",
            ),
            (
                "    return next(xs)",
                "f(*[iter([1])])",
                "next(xs)",
                "the argument is not plain to see",
                "list_iterator",
            ),
            (
                "    return next(xs)",
                "f(iter([1]), run())",
                "next(xs)",
                "another argument runs code before the call",
                "list_iterator",
            ),
            (
                "    return next(xs)",
                "f(iter(x for x in [1]))",
                "next(xs)",
                "a generator is no container",
                "generator",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function, parameter = site.function, _iterator_parameter(site)
        if function is None or parameter is None:
            return
        callers = callers_of(site, function)
        if callers is None or parameter in activity(function.body).binds:
            yield Advice(_ADVICE)
            return
        reads = _reads(site, function, parameter)
        advances = any(_is_advanced(site, read) for read in reads)
        walks_once = len(reads) == 1 and _is_walked_once(site, function, reads[0])
        splice = Splice(site)
        changed, safe = _change_calls(site, splice, function, parameter, callers)
        if not changed or not (advances or walks_once or callers.all_known):
            yield Advice(_ADVICE)
            return
        if len(changed) < len(callers.calls) and not advances:
            yield Advice(_ADVICE)
            return
        if not walks_once:
            _make_iterator(site, splice, function, parameter)
        yield splice.rewrite(
            f"pass the list to `{function.name.value}`, not an iterator over it",
            safety=Safety.SAFE if safe else Safety.UNSAFE,
            notes=() if safe else ("items are now made before the call, all of them",),
            rank=10,
            assumes=["arguments-change"],
        )


def _iterator_parameter(site: Site) -> str | None:
    """The one parameter in the broken expression whose recorded value was an iterator."""
    if site.function is None:
        return None
    node = site.node
    if isinstance(node, cst.For):
        node = node.iter
    names = {name.value for name in walk(node) if isinstance(name, cst.Name)}
    known = site.locals_before(site.statement)
    found = [
        name
        for name in names
        if name in known and known[name].kind == "iterator" and is_parameter(site.function, name)
    ]
    return found[0] if len(found) == 1 else None


def _reads(site: Site, function: cst.FunctionDef, name: str) -> list[cst.Name]:
    return [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Name)
        and node.value == name
        and not (isinstance(holder := site.parent(node), cst.Attribute) and holder.attr is node)
        and not (isinstance(holder, cst.Arg) and holder.keyword is node)
    ]


def _is_advanced(site: Site, read: cst.Name) -> bool:
    """Whether the read is ``next(xs)``, which no list has ever survived."""
    arg = site.parent(read)
    call = site.parent(arg) if isinstance(arg, cst.Arg) else None
    return (
        isinstance(call, cst.Call)
        and resolve(site.module, call.func) == "builtins.next"
        and call.args[0] is arg
    )


def _is_walked_once(site: Site, function: cst.FunctionDef, read: cst.Name) -> bool:
    """Whether the only use of the parameter walks over it once, so that a list does as well."""
    holder = site.parent(read)
    if isinstance(holder, cst.Arg):
        call = site.parent(holder)
        consumes = isinstance(call, cst.Call) and _builtin(site, call) in _CONSUMERS
        if not consumes and holder.star != "*":
            return False
    elif not (isinstance(holder, cst.For) and holder.iter is read) and not (
        isinstance(holder, cst.CompFor) and holder.iter is read
    ):
        return False
    child: cst.CSTNode = read
    for node in site.ancestors(read):
        if node is function:
            return True
        if isinstance(node, cst.Lambda | cst.FunctionDef | cst.While | cst.BaseComp):
            outermost = isinstance(node, cst.BaseComp) and child is node.for_in
            if not (outermost and holder is child):
                return False
        if isinstance(node, cst.For) and child is node.body:
            return False
        child = node
    return False


def _change_calls(
    site: Site, splice: Splice, function: cst.FunctionDef, parameter: str, callers: Callers
) -> tuple[list[cst.Call], bool]:
    """Change the calls that make the iterator themselves; also whether that is surely unnoticed."""
    changed, safe = [], True
    recorded = site.locals_before(site.statement)[parameter].type
    over_container = recorded.rpartition(".")[2] in _OF_CONTAINERS
    own = containers_of(function)
    disturbs = bool(activity(function.body).mutates - {parameter} - own)
    for call in callers.calls:
        arg = argument(function, call, parameter)
        others = [other.value for other in call.args if other is not arg]
        if arg is None or any(_runs_code(site, other) for other in others):
            continue
        value = arg.value
        if isinstance(value, cst.GeneratorExp):
            text = splice.source_of(value)
            splice.replace(value, f"[{text[1:-1] if value.lpar else text}]")
            safe = safe and not disturbs and _is_pure_over_containers(site, value)
        elif isinstance(value, cst.Call) and not any(a.star or a.keyword for a in value.args):
            made_by = _builtin(site, value)
            if made_by == "iter" and len(value.args) == 1 and over_container:
                splice.replace(value, splice.source_of(value.args[0].value))
            elif made_by in _MADE_BY:
                splice.replace(value, f"list({splice.source_of(value)})")
                safe = safe and not disturbs and _walks_over_containers(site, value, made_by)
            elif recorded == "generator" and (made := _generator_function(site, value)):
                splice.replace(value, f"list({splice.source_of(value)})")
                safe = safe and not disturbs and _only_computes(site, made)
                # What goes through the generator itself runs its code, which is known.
                lines = [
                    it for it in walk(function.body) if isinstance(it, cst.SimpleStatementLine)
                ]
                safe = safe and not any(_runs_code(site, line, own | {parameter}) for line in lines)
            else:
                continue
        else:
            continue
        changed.append(call)
    return changed, safe


def _generator_function(site: Site, call: cst.Call) -> cst.FunctionDef | None:
    """The generator function of this file that a call calls."""
    if not isinstance(call.func, cst.Name):
        return None
    bound = module_bindings(site.module).get(call.func.value, ())
    match bound:
        case [cst.FunctionDef(decorators=[], asynchronous=None) as function]:
            return function
    return None


def _only_computes(site: Site, function: cst.FunctionDef) -> bool:
    """Whether a generator function does nothing but compute: when its items are made, nobody sees.

    It binds names of its own, calls functions of torch and methods of tensors that make new ones,
    and asks for sizes.
    """
    own = function_scope(function).locals
    for node in walk(function.body):
        match node:
            case cst.Raise() | cst.Try() | cst.With() | cst.Assert() | cst.Global() | cst.While():
                return False
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                names = target.elements if isinstance(target, cst.Tuple) else (target,)
                if isinstance(node, cst.AugAssign) or not all(
                    isinstance(it.value if isinstance(it, cst.Element) else it, cst.Name)
                    for it in names
                ):
                    return False
            case cst.Call(func=func):
                if not _is_known_pure(site, func):
                    return False
            case cst.Yield(value=cst.From()):
                return False
    read = activity(function.body).reads - own
    functions = {
        name
        for name, bound in module_bindings(site.module).items()
        if all(isinstance(it, cst.Import | cst.ImportFrom) for it in bound)
    }
    return all(name in functions or hasattr(builtins, name) for name in read)


def _is_known_pure(site: Site, func: cst.BaseExpression) -> bool:
    full = resolve(site.module, func) or ""
    if full.startswith("builtins."):
        return full.removeprefix("builtins.") in _COMPUTES
    if full.startswith("torch."):
        return full.removeprefix("torch.") in torch_names.PURE_TORCH
    return isinstance(func, cst.Attribute) and func.attr.value in torch_names.PURE_METHODS


def _runs_code(site: Site, node: cst.CSTNode, own: Collection[str] = ()) -> bool:
    """Whether code may change anything but what it owns, or is not known."""
    effects = effects_of(node, site.fact)
    mutates = effects.mutates - frozenset(own)
    return bool(mutates or effects.mutates_unknown or effects.unknown or effects.suspends)


def _is_pure_over_containers(site: Site, generator: cst.GeneratorExp) -> bool:
    parts = (generator.elt, generator.for_in)
    return all(effects_of(part, site.fact).pure for part in parts) and all(
        _is_container(site, node.iter) for node in walk(generator) if isinstance(node, cst.CompFor)
    )


def _walks_over_containers(site: Site, call: cst.Call, made_by: str) -> bool:
    values = [arg.value for arg in call.args]
    if made_by == "map":
        callee = resolve(site.module, values[0]) or ""
        if not callee.startswith("torch."):
            return False
        values = values[1:]
    return all(
        _is_container(site, value) for value in values[: 1 if made_by == "enumerate" else None]
    )


def _is_container(site: Site, node: cst.BaseExpression) -> bool:
    fact = infer(node, site.fact)
    if fact is None and isinstance(node, cst.Name) and site.function_of(node) is None:
        bound = module_bindings(site.module).get(node.value, ())
        if len(bound) == 1 and isinstance(bound[0], cst.Assign):
            return _assigned_container(site, bound[0], node.value)
    return fact is not None and fact.kind in _CONTAINERS


def _assigned_container(site: Site, assign: cst.Assign, name: str) -> bool:
    target, value = assign.targets[0].target, assign.value
    if isinstance(target, cst.Name):
        return _is_container(site, value)
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        pairs = zip(target.elements, value.elements, strict=False)
        return any(
            isinstance(left.value, cst.Name)
            and left.value.value == name
            and _is_container(site, right.value)
            for left, right in pairs
        )
    return False


def _builtin(site: Site, call: cst.Call) -> str:
    target = resolve(site.module, call.func) or ""
    return target.removeprefix("builtins.") if target.startswith("builtins.") else ""


def _make_iterator(site: Site, splice: Splice, function: cst.FunctionDef, parameter: str) -> None:
    """``xs = iter(xs)`` as the first statement behind the docstring."""
    statements = statements_of(function.body)
    first = statements[0]
    if len(statements) > 1 and function.get_docstring(clean=False) is not None:
        first = statements[1]
    text = f"{parameter} = iter({parameter})"
    if isinstance(first, cst.BaseSmallStatement):  # ``def f(xs): return next(xs)``
        span = site.span(first)
        splice.insert(span.line, span.column, f"{text}; ")
    else:
        splice.insert_line_before(first, text)
