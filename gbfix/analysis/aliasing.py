"""Through which names later code changes, in place, what certain names hold now.

A *may* analysis by text, without an order: whatever is bound to an expression that mentions a
holder holds it, too, unless the expression makes something new.  A store into a dict or list that
the function itself makes changes that, and no tensor in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import walk, words
from gbfix.schema import Fact

_DISPLAYS = cst.Dict | cst.List | cst.Set | cst.ListComp | cst.DictComp | cst.SetComp
_FILLING = frozenset({"append", "extend", "insert", "update", "setdefault", "add"})


def changed_in_place(
    nodes: Sequence[cst.CSTNode],
    held: Iterable[str],
    makes_new: Callable[[cst.BaseExpression], bool],
    function: cst.FunctionDef | None = None,
    harmless: Callable[[cst.Call], bool] | None = None,
) -> frozenset[str]:
    """Names through which ``nodes`` may change a tensor in place that one of ``held`` leads to.

    ``makes_new`` says of an expression that nothing else holds its value.  ``function`` is where
    the nodes stand: names that it binds to displays alone are containers.  ``harmless``: see
    `gbfix.analysis.activity.activity`.
    """
    containers = frozenset() if function is None else containers_of(function)
    holders = holders_of(nodes, held, makes_new, function)
    changed: set[str] = set()
    for node in nodes:
        for part in _parts(node):
            own = _stored_into(part) & containers
            changed |= (
                (activity(part, harmless=harmless).mutates - own) | _by_position(part)
            ) & holders
    return frozenset(changed)


def holders_of(
    nodes: Sequence[cst.CSTNode],
    held: Iterable[str],
    makes_new: Callable[[cst.BaseExpression], bool],
    function: cst.FunctionDef | None = None,
) -> set[str]:
    """The names of ``held``, and those that ``nodes`` give what one of them holds, or a view."""
    containers = frozenset() if function is None else containers_of(function)
    return set(_holders(nodes, frozenset(held), makes_new, containers))


def sharing(facts: Mapping[str, Fact], names: Iterable[str]) -> set[str]:
    """Names whose tensors have the memory of one of ``names``, as the run saw it."""
    storages = {facts[name].storage for name in names if name in facts} - {0}
    return {name for name, fact in facts.items() if fact.storage in storages}


def handed_to_modules(nodes: Sequence[cst.CSTNode]) -> frozenset[str]:
    """Names that are handed to what an object holds, ``self.act(h)``: a layer may work in place."""
    found: set[str] = set()
    for call in (part for node in nodes for part in walk(node) if isinstance(part, cst.Call)):
        match call.func:
            case cst.Attribute(value=cst.Name("self") | cst.Attribute(value=cst.Name("self"))):
                found |= _names(*(arg.value for arg in call.args))
    return frozenset(found)


def _by_position(node: cst.CSTNode) -> set[str]:
    """Names that ``F.relu(h, True)`` changes: the flag that says so has no name."""
    found: set[str] = set()
    for part in walk(node):
        match part:
            case cst.Call(func=cst.Attribute(attr=cst.Name(name)), args=[first, *others]) if (
                name in _MAY_WORK_IN_PLACE
            ):
                flags = [arg.value for arg in others if arg.keyword is None]
                if any(isinstance(flag, cst.Name) and flag.value == "True" for flag in flags):
                    found.add(_root(first.value))
    return found


_MAY_WORK_IN_PLACE = words(
    """relu relu6 leaky_relu elu selu celu silu mish hardtanh hardswish hardsigmoid threshold rrelu
    dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"""
)


def _parts(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """Small statements, and what heads of compound ones evaluate."""
    for part in walk(node):
        match part:
            case cst.BaseSmallStatement():
                yield part
            case cst.If(test=head) | cst.While(test=head) | cst.For(iter=head):
                yield head
            case cst.WithItem(item=head) | cst.Match(subject=head):
                yield head


def _holders(
    nodes: Sequence[cst.CSTNode],
    held: frozenset[str],
    makes_new: Callable[[cst.BaseExpression], bool],
    containers: frozenset[str],
) -> frozenset[str]:
    """``held`` and all names that may come to hold the same, or a view of it."""
    gives: list[tuple[set[str], set[str]]] = []  # names that get something, names that it is of
    for node in nodes:
        for part in walk(node):
            targets: Sequence[cst.CSTNode] = ()
            value: cst.BaseExpression | None = None
            match part:
                case cst.Assign(value=value):
                    targets = part.targets
                case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                    targets = [target]
                case cst.NamedExpr(target=target, value=value):
                    targets = [target]
                case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
                    targets = [target]
                case cst.WithItem(item=value, asname=cst.AsName(name=target)):
                    targets = [target]
                case cst.AugAssign(target=target, value=value) if _root(target) in containers:
                    targets = [target]  # `outs += [x]`
                case cst.Call(
                    func=cst.Attribute(value=receiver, attr=cst.Name(name)), args=[*_, last]
                ) if name in _FILLING:
                    targets, value = [receiver], last.value
            if value is None or not targets or (not _displays(value) and makes_new(value)):
                continue
            gives.append((_names(*targets), _names(value)))
    found = set(held)
    while True:
        more = set().union(*(to for to, of in gives if of & found), set()) - found
        if not more:
            return frozenset(found)
        found |= more


def _displays(node: cst.BaseExpression) -> bool:
    """Whether a list or the like is made: new itself, it holds what is put into it."""
    made = _DISPLAYS | cst.Tuple | cst.GeneratorExp
    return any(isinstance(part, made) for part in walk(node))


def _names(*nodes: cst.CSTNode) -> set[str]:
    return {part.value for node in nodes for part in walk(node) if isinstance(part, cst.Name)}


def _root(node: cst.CSTNode) -> str:
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def containers_of(function: cst.FunctionDef) -> frozenset[str]:
    """Names that the function binds to displays, and to nothing else."""
    made: dict[str, bool] = {}
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=targets, value=value):
                for target in (it.target for it in targets):
                    if isinstance(target, cst.Name):
                        only = made.get(target.value, True) and isinstance(value, _DISPLAYS)
                        made[target.value] = only
                    elif isinstance(target, cst.Tuple | cst.List):
                        made.update(dict.fromkeys(_names(target), False))
            case (
                cst.For(target=target)
                | cst.NamedExpr(target=target)
                | cst.AsName(name=target)
                | cst.AnnAssign(target=target)
            ):
                made.update(dict.fromkeys(_names(target), False))
    params = {part.name.value for part in walk(function.params) if isinstance(part, cst.Param)}
    return frozenset(name for name, only in made.items() if only) - params


def _stored_into(part: cst.CSTNode) -> set[str]:
    """Names into which a statement only puts something: ``held['a'] = x``, ``outs.append(x)``."""
    match part:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=cst.Name(name)))]):
            return {name} - activity(part.value).mutates
        case cst.AugAssign(target=cst.Name(name), value=value):
            return {name} - activity(value).mutates  # `outs += [x]`
        case cst.Expr(
            value=cst.Call(func=cst.Attribute(value=cst.Name(name), attr=cst.Name(method))) as call
        ) if method in _FILLING | {"pop", "clear", "remove", "reverse"}:
            return {name} - activity(call.args).mutates
    return set()
