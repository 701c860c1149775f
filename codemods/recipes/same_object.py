"""Addresses or values that are compared to ask whether two tensors are one: ``is`` asks that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.purity import harmless_calls
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

_FACTS = {name: tensor(2, 3) for name in ("q", "k", "v")}
_NOTE = (
    "Two tensors that begin at one address and are not one object (a view, tensors without"
    " elements) count as two now."
)
_EQUAL = (
    "Two tensors that hold the same numbers and are not one object count as two now: the longer way"
    " was seen to give the same for such inputs."
)


_COMPUTED = (
    "Two different tensors with equal values now count as different. gbfix could not test this:"
    " they are computed inside the function, or differ in size."
)


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(q, k, v):\n{body}"


_SAME = "same = q.data_ptr() == k.data_ptr() == v.data_ptr()"
_AT = "q.data_ptr() == k.data_ptr()"


def _near_miss(why: str, *lines: str, at: str = _AT) -> NearMiss:
    return NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)


class SameObject(Codemod):
    """*What it does.*  Compares tensors by ``is`` where their addresses or all their numbers were
    compared: ``q.data_ptr() == k.data_ptr() == v.data_ptr()`` becomes ``q is k is v``, and
    ``torch.equal(q, k)`` becomes ``q is k``.

    Dynamo knows which tensors are one; their addresses it does not know, and their numbers only
    while the graph runs.

    *When it applies.*  Attention that takes a shorter way for one tensor that is given three times,
    and the like: the answer is only asked by ``if`` and ternaries, and their branches bind names or
    return.

    *Fix safety.*  Safe, with a limit: a view that begins where the tensor does is another object.
    For ``torch.equal``, safe where inputs that are equal and not one object (gbfix makes such)
    give the same on the longer way.

    *Refuses.*  Branches that write into something or raise (they ask for shared memory, not for a
    shorter way), answers that are kept or handed on, and other comparisons of addresses.
    """

    name = "same-object"
    codes = ("GB5976", "GB0033", "GB0059", "GB0124", "GB0170", "data-dependent-guard")

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
        Example(
            _source(
                "same = torch.equal(q, k) and torch.equal(k, v)",
                "if same:",
                "    q, k, v = (q * 2).chunk(3)",
                "elif not torch.equal(k, v):",
                "    v = v * 2",
                "return q, k, v",
            ),
            _source(
                "same = q is k and k is v",
                "if same:",
                "    q, k, v = (q * 2).chunk(3)",
                "elif not k is v:",
                "    v = v * 2",
                "return q, k, v",
            ),
            at="torch.equal(q, k)",
            facts=_FACTS,
            code="GB0033",
            title="equal in all numbers",
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
            "a copy that is made before a write behind the choice",
            "if q.data_ptr() == k.data_ptr():",
            "    k = k.clone()",
            "q.mul_(2)",
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
        NearMiss(
            _source("if torch.equal(q, k):", "    raise ValueError('equal')", "return q + k"),
            at="torch.equal(q, k)",
            why="a check of values",
            facts=_FACTS,
            code="GB0033",
        ),
        NearMiss(
            _source("if torch.equal(q, k + 1):", "    return q", "return q + k"),
            at="torch.equal(q, k + 1)",
            why="something that is new each time",
            facts=_FACTS,
            code="GB0033",
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
        equal = site.code != "GB5976"
        found: dict[cst.BaseExpression, cst.Comparison] = {}
        for node in walk(function.body):
            new = None
            if isinstance(node, cst.Call) and equal:
                new = _equal(node, site)
            elif isinstance(node, cst.Comparison) and not equal:
                new = _as_identity(node, site)
            if new is not None and isinstance(node, cst.BaseExpression):
                found[node] = new
        mine = [site.node, *site.ancestors(site.node)]
        inside = [node for node in found if node in mine or site.node in walk(node)]
        if not inside or not all(_only_decides(node, site, function) for node in found):
            return
        names = _names(found.values())
        if names & activity(function.body, harmless=harmless_calls(site.fact)).mutates:
            return  # it asks for shared memory, which a view has, too: something is written to it
        edit = site.edit()
        for node, new in found.items():
            edit.replace(node, new)
        safe = not equal or (_look_alike(site, names) and _come_from_outside(site, names))
        yield edit.rewrite(
            "ask whether the tensors are one object",
            notes=[_NOTE if not equal else _EQUAL if safe else _COMPUTED],
            safety=Safety.SAFE if safe else Safety.UNSAFE,
            rank=11,
            shows=["twins"] if equal else [],
        )


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


def _equal(node: cst.Call, site: Site) -> cst.Comparison | None:
    """``a is b`` for ``torch.equal(a, b)`` of two names that hold tensors."""
    if resolve(site.module, node.func) != "torch.equal" or len(node.args) != 2:
        return None
    sides = []
    before = site.locals_before(site.statement_of(node))
    for arg in node.args:
        name = arg.value
        if arg.keyword is not None or arg.star or not isinstance(name, cst.Name):
            return None
        fact = site.fact(name) or before.get(name.value)
        if fact is None or fact.kind != "tensor":
            return None
        sides.append(name)
    return cst.Comparison(sides[0], [cst.ComparisonTarget(cst.Is(), sides[1])])


def _names(found: Iterable[cst.Comparison]) -> set[str]:
    return {part.value for node in found for part in walk(node) if isinstance(part, cst.Name)}


def _look_alike(site: Site, names: set[str]) -> bool:
    """Whether the tensors were of one size and dtype in all calls: else none may ever be equal."""
    before = site.locals_before(site.statement)
    facts = [before.get(name) for name in names]
    kinds = {(fact.shape, fact.dtype) for fact in facts if fact is not None and fact.is_tensor}
    sizes = [shape for shape, _ in kinds]
    known = all(fact is not None and fact.is_tensor for fact in facts)
    return known and len(kinds) == 1 and sizes[0] is not None and None not in sizes[0]


def _come_from_outside(site: Site, names: set[str]) -> bool:
    """Whether the names hold arguments of the region, handed on as they came."""
    for view in (site, *site.callers()):
        function = view.function
        if function is None or isinstance(view.node, cst.Lambda):
            return False
        own = [param.name.value for param in params_of(function.params)]
        if not names <= set(own) or names & activity(function.body).bound:
            return False
        given = _given(view, own)
        if given is None:
            return True
        if not all(isinstance(given.get(name), cst.Name) for name in names):
            return False
        names = {code(given[name]) for name in names}
    return False


def _given(site: Site, own: list[str]) -> dict[str, cst.BaseExpression] | None:
    """What the call of the site's function hands to each parameter; None in the outermost frame."""
    outer = next(site.callers(), None)
    if outer is None:
        frames = [frame for frame in site.graph_break.frames if frame.in_project]
        return None if not frames or frames[0] == site.frame else {}
    call = outer.node
    if not isinstance(call, cst.Call) or any(arg.star for arg in call.args):
        return {}
    positional = own[1:] if own[:1] == ["self"] else own
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    values = [arg.value for arg in call.args if arg.keyword is None]
    return {**given, **dict(zip(positional, values, strict=False))}


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


def _only_decides(node: cst.BaseExpression, site: Site, function: cst.FunctionDef) -> bool:
    """Whether the answer, or the name that holds it, is asked by choices and by nothing else."""
    parent = site.parent(node)
    while isinstance(parent, cst.BooleanOperation | cst.UnaryOperation):
        parent = site.parent(parent)
    match parent:
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
