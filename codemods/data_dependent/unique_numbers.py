"""``np.unique`` of a list of ints, which Dynamo turns into a tensor of unknown length."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice

#: Dtypes of whole numbers that no index exceeds, as they are written.
_WHOLE = ("builtins.int", "numpy.int64", "numpy.int32", "numpy.int_", "numpy.intp")
_GOES_THROUGH = tuple(
    f"builtins.{name}"
    for name in ("sorted", "len", "enumerate", "list", "tuple", "set", "max", "min")
)
_INTS = Fact("list", "list", items=(scalar(1), scalar(2)))
_FACTS = {"ids": _INTS, "ids[:2]": _INTS}


def _source(body: str) -> str:
    return f"import numpy as np\n\n\ndef f(x, ids):\n    {body}\n"


class UniqueNumbers(Codemod):
    """*What it does.*  Finds the different numbers of a list in Python:
    ``len(np.unique(ids))`` becomes ``len(set(ids))``, and ``for i in np.unique(ids)`` becomes
    ``for i in sorted(set(ids))``.

    *When it applies.*  The list (or tuple) holds ints, and its different numbers are counted, gone
    through or made a list (``.tolist()``).  Where they are made ints and kept
    (``axes = np.unique(axes).astype(int)``), the name is only gone through afterwards.

    *Fix safety.*  Unsafe: the same numbers in the same order, as ints of Python; but a list of ints
    was only seen, and numpy takes tensors, NaN and lists of lists, too.  Safe where the numbers are
    made ints: ``sorted({int(axis) for axis in axes})`` makes ints of what it is given, or raises.

    *Refuses.*  Lists of other things (floats that are NaN are equal for numpy), nested lists,
    arrays and tensors, counts and indices of the numbers, and arrays that are used as such.
    """

    name = "unique-numbers"
    codes = (
        "GB0036", "GB0033", "GB0059", "GB0124", "data-dependent-guard",
        "data-dependent-specialization",
    )  # fmt: skip
    examples = tuple(
        Example(_source(before), _source(after), at="np.unique(ids", facts=_FACTS, title=title)
        for title, before, after in (
            ("how many", "return x * len(np.unique(ids))", "return x * len(set(ids))"),
            (
                "each",
                "for i in np.unique(ids[:2]): x = x + i",
                "for i in sorted(set(ids[:2])): x = x + i",
            ),
            ("a list", "return x, np.unique(ids).tolist()", "return x, sorted(set(ids))"),
            (
                "kept as ints",
                "ids = np.unique(ids).astype(int)\n    for i in sorted(ids, reverse=True):"
                "\n        x = x.sum(int(i))\n    return x",
                "ids = sorted({int(number) for number in ids})\n"
                "    for i in sorted(ids, reverse=True):\n        x = x.sum(int(i))\n    return x",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(body), at="np.unique(ids", why=why, facts=facts)
        for body, why, facts in (
            ("return np.unique(ids)", "an array", _FACTS),
            ("kept = np.unique(ids).astype(int)\n    return kept + 1", "kept as an array", _FACTS),
            (
                "kept = np.unique(ids).astype(int)\n    kept = kept * 2\n    return list(kept)",
                "bound anew",
                _FACTS,
            ),
            (
                "kept = np.unique(ids).astype(float)\n    return [x * i for i in kept]",
                "floats",
                _FACTS,
            ),
            ("return len(np.unique(ids, axis=0))", "more than the numbers", _FACTS),
            ("return np.unique(ids).sum()", "a method of arrays", _FACTS),
            ("return len(np.unique(ids))", "a tensor", {"ids": tensor(3)}),
            (
                "return len(np.unique(ids))",
                "floats may be NaN",
                {"ids": Fact("list", "list", items=(scalar(1.0),))},
            ),
            ("return len(np.unique(ids))", "not seen", {"ids": Fact("list", "list")}),
            ("set = 3; return len(np.unique(ids))", "a name of the function's own", _FACTS),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for node in walk(_head(site)):
            if not isinstance(node, cst.Call) or not _is_unique(site, node) or comments_in(node):
                continue
            splice = Splice(site)
            numbers = splice.source_of(node.args[0].value)
            kept = _kept(site, node)
            if kept is not None and _are_builtins(site, node, "int", "sorted"):
                element = fresh("number", names_in(site.module))
                text = f"sorted({{int({element}) for {element} in {numbers}}})"
                splice.replace_span(site.span(kept), text)
                yield splice.rewrite("find the different numbers in Python", rank=10)
                return
            used, form = _used(site, node)
            if used is None or not _are_builtins(site, node, "set", "sorted"):
                continue
            splice.replace_span(site.span(used), form.format(numbers))
            yield splice.rewrite(
                "find the different numbers in Python",
                rank=10,
                safety=Safety.UNSAFE,
                notes=(
                    "a list of ints was seen: numpy takes tensors, NaN and lists of lists, too",
                ),
            )
            return


def _head(site: Site) -> cst.CSTNode:
    """The statement; of a loop, what it goes through."""
    return site.statement.iter if isinstance(site.statement, cst.For) else site.statement


def _is_unique(site: Site, node: cst.Call) -> bool:
    if resolve(site.module, node.func) != "numpy.unique" or len(node.args) != 1:
        return False
    given = node.args[0]
    fact = infer(given.value, site.fact)
    return (
        not given.star
        and given.keyword is None
        and fact is not None
        and fact.kind in ("list", "tuple")
        and bool(fact.items)
        and all(item.kind == "int" for item in fact.items or ())
    )


def _kept(site: Site, node: cst.Call) -> cst.Call | None:
    """``np.unique(...).astype(int)`` under a name that is only gone through, or counted."""
    made = site.parent(site.parent(node) or node)
    match made:
        case cst.Call(
            func=cst.Attribute(value=inner, attr=cst.Name("astype")), args=[cst.Arg(value=kind)]
        ) if inner is node:
            if (resolve(site.module, kind) or "") not in _WHOLE:
                return None
        case _:
            return None
    match site.parent(made):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name) as target)]) as assign if (
            site.function is not None
        ):
            pass
        case _:
            return None
    own = {id(part) for part in walk(assign)}
    line = site.span(assign).end_line
    for place in site.places_of(name, site.function):
        if id(place) in own or place is target or site.span(place).line <= line:
            continue
        if not _is_gone_through(site, place):
            return None
    inside = any(isinstance(it, cst.For | cst.While) for it in site.ancestors(assign))
    return None if inside else made


def _is_gone_through(site: Site, place: cst.Name) -> bool:
    holder = site.parent(place)
    match holder:
        case cst.For(iter=iterated) | cst.CompFor(iter=iterated):
            return iterated is place
        case cst.Arg():
            call = site.parent(holder)
            if isinstance(call, cst.Call):
                return (resolve(site.module, call.func) or "") in _GOES_THROUGH
    return False


def _used(site: Site, node: cst.Call) -> tuple[cst.CSTNode | None, str]:
    """What is replaced, and by what."""
    holder = site.parent(node)
    match holder:
        case cst.Arg():
            outer = site.parent(holder)
            match outer:
                case cst.Call(func=func, args=[_]):
                    name = resolve(site.module, func)
                    if name == "builtins.len":
                        return node, "set({})"
                    if name == "builtins.enumerate":
                        return node, "sorted(set({}))"
        case cst.For(iter=iterated) | cst.CompFor(iter=iterated) if iterated is node:
            return node, "sorted(set({}))"
        case cst.Attribute(attr=cst.Name("tolist")):
            call = site.parent(holder)
            if isinstance(call, cst.Call) and call.func is holder and not call.args:
                return call, "sorted(set({}))"
    return None, ""


def _are_builtins(site: Site, at: cst.CSTNode, *names: str) -> bool:
    return all(resolve(site.module, cst.Name(name), at=at) == f"builtins.{name}" for name in names)
