"""Addresses that are compared to ask whether two tensors are one: ``is`` asks that."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

_FACTS = {name: tensor(2, 3) for name in ("q", "k", "v")}
_NOTE = (
    "Two tensors that begin at one address and are not one object (a view, tensors without"
    " elements) count as two now."
)


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(q, k, v):\n{body}"


_SAME = "same = q.data_ptr() == k.data_ptr() == v.data_ptr()"
_AT = "q.data_ptr() == k.data_ptr()"


def _near_miss(why: str, *lines: str, at: str = _AT) -> NearMiss:
    return NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)


class SameObject(Codemod):
    """*What it does.*  Compares tensors by ``is`` where their addresses were compared:
    ``q.data_ptr() == k.data_ptr() == v.data_ptr()`` becomes ``q is k is v``.

    Dynamo knows which tensors are one; their addresses it does not know.

    *When it applies.*  Attention that takes a shorter way for one tensor that is given three times,
    and the like: the answer is only asked by ``if`` and ternaries, and their branches bind names or
    return.

    *Fix safety.*  Safe, with a limit: a view that begins where the tensor does is another object.

    *Refuses.*  Branches that write into something or raise (they ask for shared memory, not for a
    shorter way), answers that are kept or handed on, and other comparisons of addresses.
    """

    name = "same-object"
    codes = ("GB5976",)

    examples = (
        Example(
            _source(
                _SAME,
                "if same:",
                "    q, k, v = (q * 2).chunk(3)",
                "elif k.data_ptr() == v.data_ptr():",
                "    k, v = (k * 2).chunk(2)",
                "return q, k, v",
            ),
            _source(
                "same = q is k is v",
                "if same:",
                "    q, k, v = (q * 2).chunk(3)",
                "elif k is v:",
                "    k, v = (k * 2).chunk(2)",
                "return q, k, v",
            ),
            at="q.data_ptr() == k.data_ptr() == v.data_ptr()",
            facts=_FACTS,
            title="one tensor for all three",
        ),
        Example(
            _source(
                "if not (q.data_ptr() != k.data_ptr()):",
                "    return q * 2",
                "return q + k",
            ),
            _source("if not (q is not k):", "    return q * 2", "return q + k"),
            at="q.data_ptr() != k.data_ptr()",
            facts=_FACTS,
            title="the other way round",
        ),
    )
    near_misses = (
        _near_miss(
            "a copy that is made before a write: a view counts, too",
            "if q.data_ptr() == k.data_ptr():",
            "    k.add_(1)",
            "return q + k",
        ),
        _near_miss(
            "a guard against shared memory",
            "if q.data_ptr() == k.data_ptr():",
            "    raise ValueError('shared')",
            "return q + k",
        ),
        _near_miss(
            "a guard that is an assert",
            "if q.data_ptr() == k.data_ptr():",
            "    assert False, 'shared'",
            "return q + k",
        ),
        _near_miss("a check", "assert q.data_ptr() == k.data_ptr()", "return q + k"),
        _near_miss("an answer that is given back", f"return {_AT}"),
        _near_miss(
            "an answer that is handed on",
            f"same = {_AT}",
            "print(same)",
            "if same:",
            "    return q",
            "return k",
        ),
        _near_miss(
            "what is kept in an object",
            "if q.data_ptr() == k.data_ptr():",
            "    v.shared = 1",
            "return q + k",
        ),
        _near_miss(
            "an object that is new each time",
            "if q.data.data_ptr() == k.data_ptr():",
            "    return q",
            "return q + k",
            at="q.data.data_ptr() == k.data_ptr()",
        ),
        _near_miss(
            "an order of addresses",
            "if q.data_ptr() < k.data_ptr():",
            "    return q",
            "return q + k",
            at="q.data_ptr() < k.data_ptr()",
        ),
        _near_miss(
            "an address that is a number",
            "if q.data_ptr() == 0:",
            "    return q",
            "return q + k",
            at="q.data_ptr() == 0",
        ),
        NearMiss(
            _source("if q.data_ptr() == k.data_ptr():", "    return q", "return q + k"),
            at=_AT,
            why="something with an address of its own making",
            facts={**_FACTS, "k": tensor(2, 3).__class__("object", "Arena")},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None:
            return
        found = {
            node: new
            for node in walk(function.body)
            if isinstance(node, cst.Comparison) and (new := _as_identity(node, site)) is not None
        }
        mine = [site.node, *site.ancestors(site.node)]
        inside = [node for node in found if node in mine or site.node in walk(node)]
        if not inside or not all(_only_decides(node, site, function) for node in found):
            return
        edit = site.edit()
        for node, new in found.items():
            edit.replace(node, new)
        yield edit.rewrite("ask whether the tensors are one object", notes=[_NOTE], rank=11)


def _as_identity(node: cst.Comparison, site: Site) -> cst.Comparison | None:
    """``a is b`` for ``a.data_ptr() == b.data_ptr()``; None for any other comparison."""
    kinds = {cst.Equal: cst.Is(), cst.NotEqual: cst.IsNot()}
    signs = [type(part.operator) for part in node.comparisons]
    sides = [_addressed(node.left, site)]
    sides += [_addressed(part.comparator, site) for part in node.comparisons]
    if not all(sign in kinds for sign in signs) or any(side is None for side in sides):
        return None
    left, *others = sides
    assert left is not None
    parts = [
        cst.ComparisonTarget(kinds[sign], other)
        for sign, other in zip(signs, others, strict=True)
        if other is not None
    ]
    return node.with_changes(left=left, comparisons=parts)


def _addressed(node: cst.BaseExpression, site: Site) -> cst.Name | None:
    """The tensor whose address is asked for: a name, which holds the very object."""
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("data_ptr")), args=[]
        ):
            fact = site.fact(name) or site.locals_before(site.statement_of(node)).get(name.value)
            if fact is not None and fact.kind == "tensor":
                return name
    return None


def _only_decides(node: cst.Comparison, site: Site, function: cst.FunctionDef) -> bool:
    """Whether the answer, or the name that holds it, is asked by choices and by nothing else."""
    match site.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]):
            places = list(site.places_of(name, function.body))
            bound = [it for it in places if isinstance(site.parent(it), cst.AssignTarget)]
            asked = [it for it in places if it not in bound]
            return len(bound) == 1 and all(_decides(it, site) for it in asked)
    return _decides(node, site)


def _decides(node: cst.CSTNode, site: Site) -> bool:
    """Whether the node is (a part of) the test of a choice between ways to compute something."""
    child = node
    for parent in site.ancestors(node):
        match parent:
            case cst.If(test=test) if test is child:
                arms = [parent.body, *([parent.orelse] if parent.orelse is not None else [])]
                return all(_computes(arm) for arm in arms)
            case cst.IfExp(test=test) if test is child:
                return _computes(parent.body) and _computes(parent.orelse)
            case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
                child = parent
            case _:
                return False
    return False


def _computes(arm: cst.CSTNode) -> bool:
    """Whether an arm binds names or returns, and writes nowhere."""
    does = activity(arm)
    writes = does.attribute_writes | does.subscript_writes | does.mutates | does.global_writes
    return not writes and not does.mutates_unknown and not any(map(_fails, walk(arm)))


def _fails(node: cst.CSTNode) -> bool:
    """Whether a statement only ends the function with an error."""
    match node:
        case cst.Raise() | cst.Assert(test=cst.Name("False") | cst.Integer("0")):
            return True
    return False


__all__ = ["SameObject"]
