"""``np.unique`` of a list of ints, which Dynamo turns into a tensor of unknown length."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..api.splice import Splice

_INTS = Fact("list", "list", items=(scalar(1), scalar(2)))
_FACTS = {"ids": _INTS, "ids[:2]": _INTS}


def _source(body: str) -> str:
    return f"import numpy as np\n\n\ndef f(x, ids):\n    {body}\n"


class UniqueNumbers(Codemod):
    """*What it does.*  Finds the different numbers of a list in Python:
    ``len(np.unique(ids))`` becomes ``len(set(ids))``, and ``for i in np.unique(ids)`` becomes
    ``for i in sorted(set(ids))``.

    *When it applies.*  The list (or tuple) holds ints, and its different numbers are counted, gone
    through or made a list (``.tolist()``).

    *Fix safety.*  Unsafe: the same numbers in the same order, as ints of Python; but a list of ints
    was only seen, and numpy takes tensors, NaN and lists of lists, too.

    *Refuses.*  Lists of other things (floats that are NaN are equal for numpy), nested lists,
    arrays and tensors, counts and indices of the numbers, and arrays that are used as such.
    """

    name = "unique-numbers"
    codes = ("GB0036", "GB0033", "GB0124", "data-dependent-guard", "data-dependent-specialization")
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
        )
    )
    near_misses = tuple(
        NearMiss(_source(body), at="np.unique(ids", why=why, facts=facts)
        for body, why, facts in (
            ("return np.unique(ids)", "an array", _FACTS),
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
