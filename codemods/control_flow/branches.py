"""A block of statements as a branch function of ``torch.cond``: a lambda or a small ``def``.

What torch 2.13 demands of a branch (measured, see tests/control_flow): it returns tensors, never an
input or a view of one, never the same tensor twice; it changes nothing that exists outside it.
`Branch` looks for what would violate that, clones where a result would share memory with something
outside, and refuses the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_before
from gbfix.analysis.tree import code, walk
from gbfix.schema import Fact

from .by_hand import instead
from .refusal import Refusal
from .values import Share, Values

Env = dict[str, Share]


@dataclasses.dataclass
class Branch:
    """Statements that will be the body of a function, ending in ``return`` on every path."""

    statements: list[cst.BaseStatement]
    header: cst.Comment | None = None
    above: Sequence[cst.EmptyLine] = ()
    footer: Sequence[cst.EmptyLine] = ()
    #: Names whose results are copies of tensors that live outside the branch.
    copied: set[str] = dataclasses.field(default_factory=set)
    #: Source texts of those results.
    kept: set[str] = dataclasses.field(default_factory=set)
    unknown: bool = False
    #: What each return gives: nested literals, with `...` for a tensor and None for not known.
    structures: list[object] = dataclasses.field(default_factory=list)

    @property
    def expression(self) -> cst.BaseExpression | None:
        """The value, if the branch is nothing but one ``return`` without any comment."""
        if len(self.statements) != 1 or self.header or self.footer or has_comment(self.above):
            return None
        (line,) = self.statements
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return None
        (small,) = line.body
        if not isinstance(small, cst.Return) or has_comment(line.leading_lines):
            return None
        if line.trailing_whitespace.comment is not None or holds_comment(small):
            return None
        return small.value

    def bound_from_outside(self) -> frozenset[str]:
        """Names that the body binds, and reads before: they must come in as parameters."""
        function = self.function("f", ())
        live = live_before(function, function.body.body[0])
        return live & activity(function.body).writes

    def function(self, name: str, parameters: Sequence[str]) -> cst.FunctionDef:
        """The branch as a local function."""
        statements = list(self.statements)
        first = statements[0]
        statements[0] = first.with_changes(leading_lines=without_blank_start(leading(first)))
        template = cst.parse_statement(f"def {name}({', '.join(parameters)}):\n    pass\n")
        assert isinstance(template, cst.FunctionDef)
        assert isinstance(template.body, cst.IndentedBlock)
        body = template.body.with_changes(body=statements, footer=tuple(self.footer))
        if self.header is not None:
            trailing = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), self.header)
            body = body.with_changes(header=trailing)
        comments = [line for line in self.above if line.comment is not None]
        return template.with_changes(body=body, leading_lines=comments)


def branch_of(suite: cst.BaseSuite, above: Sequence[cst.EmptyLine] = ()) -> Branch:
    """The statements of a suite, with the comments that belong to it."""
    if isinstance(suite, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(
            [suite.body[0], *suite.body[1:]], trailing_whitespace=suite.trailing_whitespace
        )
        return Branch([line], above=above)
    assert isinstance(suite, cst.IndentedBlock)
    return Branch(list(suite.body), suite.header.comment, above, suite.footer)


def check_movable(
    nodes: Sequence[cst.CSTNode], *, returns: bool, values: Values | None = None
) -> None:
    """Refuse statements that cannot be the body of a function, or not of a branch of torch.cond.

    What stands below ``if x is None`` of a tensor is none of it: no graph is made of that.
    """
    alive = nodes if values is None else [_alive(node, values) for node in nodes]
    found = exits(alive)
    if found.yields or found.awaits:
        raise Refusal(
            "a branch suspends the function (yield or await); choose first, and yield or await once"
        )
    if found.raises:
        raise Refusal("a branch raises: torch.cond cannot")
    if found.breaks or found.continues:
        raise Refusal(
            "a branch leaves the loop around it; a loop with a known bound can run to its end, and"
            " keep what it had with `torch.where(done, old, new)`"
        )
    if found.returns and not returns:
        raise Refusal("a branch returns on some of its paths only")
    does = activity(nodes)
    if does.dynamic:
        raise Refusal("a branch looks into its own frame (super(), locals(), eval)")
    if does.globals or does.nonlocals or does.global_writes:
        raise Refusal("a branch binds global or nonlocal names")
    if does.deletes:
        raise Refusal("a branch deletes names")
    if does.mutates_unknown:
        raise Refusal("a branch changes an object in place")


def _alive(node: cst.CSTNode, values: Values) -> cst.CSTNode:
    """The statement without what runs only where a tensor is None."""

    class _Alive(cst.CSTTransformer):
        def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
            match original_node.test:
                case cst.Comparison(
                    left=cst.Name(name),
                    comparisons=[
                        cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))
                    ],
                ) if values.is_tensor_name(name):
                    nothing = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
                    return updated_node.with_changes(body=nothing)
            return updated_node

    alive = node.visit(_Alive())
    assert isinstance(alive, cst.CSTNode)
    return alive


# -- sharing ---------------------------------------------------------------------------------


class Sharing:
    """Follows which local names hold tensors of the branch's own, statement by statement."""

    def __init__(self, values: Values) -> None:
        self._values = values
        #: What was known at each return.
        self.at_return: dict[cst.Return, Env] = {}
        #: Names from outside whose object the branch may change.
        self.changed: set[str] = set()

    def scan(self, statements: Iterable[cst.CSTNode], env: Env) -> Env:
        for statement in statements:
            env = self._statement(statement, env)
        return env

    def _statement(self, node: cst.CSTNode, env: Env) -> Env:
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite() | cst.IndentedBlock():
                return self.scan(node.body, env)
            case cst.If():
                self._changes(node.test, env)
                taken = self._statement(node.body, dict(env))
                other = self._statement(node.orelse, dict(env)) if node.orelse else dict(env)
                return _joined(taken, other)
            case cst.Else():
                return self._statement(node.body, env)
            case cst.For() | cst.While():
                return self._loop(node, env)
            case cst.With():
                for item in node.items:
                    if item.asname is not None:
                        env = env | dict.fromkeys(activity(item.asname).writes, Share.SHARED)
                return self._statement(node.body, env)
            case cst.Return():
                self._changes(node, env)
                self.at_return[node] = dict(env)
                return env
            case cst.AugAssign(target=cst.Name(value=name)):
                if name not in env or env[name] is Share.SHARED:
                    self.changed.add(name)
                self._changes(node.value, env)
                return env
        self._changes(node, env)
        return env | self._bound(node, env)

    def _loop(self, node: cst.For | cst.While, env: Env) -> Env:
        """What is known after a loop that may run not at all, once or more often."""
        if isinstance(node, cst.For):
            env = env | dict.fromkeys(activity(node.target).reads, Share.SHARED)
            self._changes(node.iter, env)
        once = _joined(env, self._statement(node.body, dict(env)))
        return _joined(once, self._statement(node.body, dict(once)))

    def _bound(self, node: cst.CSTNode, env: Env) -> Env:
        """What the names hold that a statement binds: something shared, unless it is known."""
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                return {name: self._of_value(node.value, env)}
            case cst.AnnAssign(target=cst.Name(value=name), value=cst.BaseExpression() as value):
                return {name: self._of_value(value, env)}
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Tuple())], value=cst.Call(func=func)
            ) if code(func) == f"{self._values.torch}.cond":
                return dict.fromkeys(activity(node).writes, Share.FRESH)
        return dict.fromkeys(activity(node).writes, Share.SHARED)

    def _changes(self, node: cst.CSTNode, env: Env) -> None:
        for name in activity(node).mutates:
            if name not in env or env[name] is Share.SHARED:
                self.changed.add(name)

    def _of_value(self, value: cst.BaseExpression, env: Env) -> Share:
        own = own_names(env)
        share = self._values.share(value, own)
        if share is Share.FRESH and isinstance(value, cst.Name):
            return Share.LOCAL
        return share


def own_names(env: Mapping[str, Share]) -> frozenset[str]:
    """Names that hold tensors made in the branch (or results of unseen calls)."""
    return frozenset(name for name, share in env.items() if share in (Share.FRESH, Share.LOCAL))


def _joined(one: Env, other: Env) -> Env:
    joined: Env = {}
    for name in one.keys() | other.keys():
        shares = {one.get(name, Share.SHARED), other.get(name, Share.SHARED)}
        joined[name] = next(share for share in _WORST_FIRST if share in shares)
    return joined


#: What gives views of the parts of a tensor.
_PARTS = frozenset({"chunk", "split", "tensor_split", "split_with_sizes", "hsplit", "unsafe_chunk"})
_WORST_FIRST = (Share.SHARED, Share.UNKNOWN, Share.PYTHON, Share.LOCAL, Share.FRESH)


# -- results ---------------------------------------------------------------------------------


def finish(branch: Branch, values: Values, *, clone_unknown: bool) -> Branch:
    """The branch with clones where a returned tensor would share memory, or `Refusal`."""
    sharing = Sharing(values)
    sharing.scan(branch.statements, {})
    for name in sorted(sharing.changed):
        if not values.is_python_name(name):
            fact = values.outside(name)
            advice = instead(fact.kind) if fact is not None else ""
            raise Refusal(f"a branch changes `{name}` in place{advice}")
    result = dataclasses.replace(branch, copied=set(), kept=set(), structures=[])
    replaced: dict[cst.CSTNode, cst.CSTNode] = {}
    for node, env in sharing.at_return.items():
        if node.value is None:
            raise Refusal("a branch returns None")
        result.structures.append(_structure(node.value, values))
        new = _Results(env, values, result, clone_unknown).cloned(node.value)
        if new is not node.value:
            replaced[node] = node.with_changes(value=new)
    if replaced:
        result.statements = [_substituted(s, replaced) for s in branch.statements]
    return result


def _structure(node: cst.BaseExpression, values: Values) -> object:
    match node:
        case cst.Tuple() | cst.List():
            kind = "tuple" if isinstance(node, cst.Tuple) else "list"
            return (kind, *(_structure(element.value, values) for element in node.elements))
        case cst.Dict():
            pairs = [e for e in node.elements if isinstance(e, cst.DictElement)]
            return ("dict", *((code(e.key), _structure(e.value, values)) for e in pairs))
    return ... if values.is_tensor(node) else None


def check_structures(branches: Iterable[Branch]) -> None:
    """Refuse branches whose results surely differ in structure."""
    structures = [structure for branch in branches for structure in branch.structures]
    for other in structures[1:]:
        if not _may_agree(structures[0], other):
            raise Refusal("the branches give results of different structure")


def _may_agree(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_may_agree, one, other))
    return one is None or other is None or one == other


class _Results:
    """Puts clones into the expression of one return where its tensors would share memory."""

    def __init__(self, env: Env, values: Values, branch: Branch, clone_unknown: bool) -> None:
        self._env = env
        self._values = values
        self._branch = branch
        self._clone_unknown = clone_unknown
        #: Names that are returned already; with "" once any result is, which one more could share.
        self._seen: set[str] = set()
        self._parts = _parts_of_one(branch.statements)

    def cloned(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The expression with clones where they are needed; the node itself if nowhere."""
        match node:
            case cst.Tuple() | cst.List():
                return self._sequence(node)
            case cst.Dict():
                return self._dict(node)
            case cst.IfExp():
                body, orelse = self._alone(node.body), self._alone(node.orelse)
                if body is node.body and orelse is node.orelse:
                    return node
                return node.with_changes(body=body, orelse=orelse)
            case cst.ListComp():
                elt = self._one_of_several(node.elt)
                return node if elt is node.elt else node.with_changes(elt=elt)
        fact = self._fact(node)
        if fact is not None and fact.kind in ("list", "tuple"):
            return self._list_of_tensors(node, fact)
        self._check_no_python_value(node, fact)
        return self._tensor(node)

    def _sequence(self, node: cst.Tuple | cst.List) -> cst.BaseExpression:
        elements: list[cst.BaseElement] = []
        for element in node.elements:
            if not isinstance(element, cst.Element):
                raise Refusal("a branch returns an unpacked sequence")
            new = self._one_of_several(element.value)
            elements.append(element if new is element.value else element.with_changes(value=new))
        return node.with_changes(elements=elements) if elements != list(node.elements) else node

    def _dict(self, node: cst.Dict) -> cst.BaseExpression:
        pairs: list[cst.BaseDictElement] = []
        for pair in node.elements:
            if not isinstance(pair, cst.DictElement):
                raise Refusal("a branch returns an unpacked dict")
            new = self._one_of_several(pair.value)
            pairs.append(pair if new is pair.value else pair.with_changes(value=new))
        return node.with_changes(elements=pairs) if pairs != list(node.elements) else node

    def _one_of_several(self, node: cst.BaseExpression) -> cst.BaseExpression:
        new = self.cloned(node)
        self._seen.add("")  # from here on, sharing with another result counts
        return new

    def _alone(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """One side of a conditional expression: the other does not return what it returns."""
        before = set(self._seen)
        new = self.cloned(node)
        self._seen = before
        return new

    def _fact(self, node: cst.BaseExpression) -> Fact | None:
        fact = self._values.fact(node)
        if isinstance(node, cst.Name) and node.value not in self._env:
            fact = fact or self._values.outside(node.value)
            if fact is None and not self._values.is_tensor_name(node.value):
                raise Refusal(f"it is not known whether `{node.value}` is a tensor")
        return fact

    def _list_of_tensors(self, node: cst.BaseExpression, fact: Fact) -> cst.BaseExpression:
        if not isinstance(node, cst.Name):
            return _clones_of(node, fact, self._branch)
        if self._env.get(node.value, Share.SHARED) is not Share.SHARED:
            return node  # made in the branch
        before = self._values.outside(node.value)
        known = before if before is not None and before.kind == fact.kind else fact
        return _clones_of(node, known, self._branch)

    def _check_no_python_value(self, node: cst.BaseExpression, fact: Fact | None) -> None:
        if fact is None:
            return
        reason = f"a branch gives `{code(node)}`, which is no tensor ({fact.kind})"
        if fact.is_python_scalar or fact.kind in ("module", "function"):
            raise Refusal(reason + instead(fact.kind))
        if fact.kind in ("dict", "set"):
            raise Refusal(reason)

    def _tensor(self, node: cst.BaseExpression) -> cst.BaseExpression:
        share = self._share(node)
        if share is Share.PYTHON:
            raise Refusal(f"a branch gives `{code(node)}`, which is no tensor")
        if share is Share.UNKNOWN:
            self._branch.unknown = True
        twice = isinstance(node, cst.Name) and node.value in self._seen
        if isinstance(node, cst.Name):
            self._seen.add(node.value)
        need = share in (Share.SHARED, Share.LOCAL) or twice
        if not need and not (self._clone_unknown and share is Share.UNKNOWN):
            return node
        self._branch.copied |= activity(node).reads
        if share is not Share.UNKNOWN:
            self._branch.kept |= {code(node)}
        text = code(node)
        plain = node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
        # A copy of a part without elements would keep the strides of the whole.
        whole = code(node) in self._parts and self._values.torch
        how = f"memory_format={self._values.torch}.contiguous_format" if whole else ""
        return cst.parse_expression(f"{text}.clone({how})" if plain else f"({text}).clone({how})")

    def _share(self, node: cst.BaseExpression) -> Share:
        if not isinstance(node, cst.Name) or node.value not in self._env:
            return self._values.share(node, own_names(self._env))
        share = self._env[node.value]
        # Another name for a tensor of the branch's own: one result alone shares it with none.
        return Share.FRESH if share is Share.LOCAL and not self._seen else share


def _parts_of_one(statements: Sequence[cst.CSTNode]) -> frozenset[str]:
    """Names for the parts of one tensor along its last dimension: ``k, v = kv.chunk(2, dim=-1)``.

    Parts along others may be of images in ``channels_last``, whose order of strides a copy keeps.
    """
    found: set[str] = set()
    for statement in statements:
        for node in walk(statement):
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(cst.Tuple(elements=elements))],
                    value=cst.Call(func=cst.Attribute(attr=cst.Name(called)), args=[_, last]),
                ) if called in _PARTS and code(last.value) == "-1":
                    found |= {code(element.value) for element in elements}
    return frozenset(found)


def _clones_of(node: cst.BaseExpression, fact: Fact, branch: Branch) -> cst.BaseExpression:
    """A list or tuple of tensors from outside, with a clone of each."""
    tensors = fact.items or ()
    storages = {item.storage for item in tensors} - {0}
    plain = fact.type.removeprefix("builtins.") in ("list", "tuple")
    simple = isinstance(node, cst.Name | cst.Attribute)
    if not (plain and simple and tensors) or not all(item.is_tensor for item in tensors):
        raise Refusal(f"a branch gives `{code(node)}`, a {fact.kind} of more than tensors")
    if len(storages) != len(tensors):
        raise Refusal(f"two items of `{code(node)}` may be the same tensor")
    branch.copied |= activity(node).reads
    branch.kept |= {code(node)}
    text = f"[tensor.clone() for tensor in {code(node)}]"
    return cst.parse_expression(text if fact.kind == "list" else f"tuple({text})")


class _Substitute(cst.CSTTransformer):
    def __init__(self, by_node: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._by_node = by_node

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        return self._by_node.get(original_node, updated_node)


def _substituted(
    node: cst.BaseStatement, by_node: Mapping[cst.CSTNode, cst.CSTNode]
) -> cst.BaseStatement:
    new = node.visit(_Substitute(by_node))
    assert isinstance(new, cst.BaseStatement)
    return new


# -- comments and blank lines ----------------------------------------------------------------


def leading(node: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(node, "leading_lines", ())
    return lines


def has_comment(lines: Iterable[cst.EmptyLine]) -> bool:
    return any(line.comment is not None for line in lines)


def holds_comment(node: cst.CSTNode) -> bool:
    """Whether a comment stands anywhere inside the node."""
    return "#" in code(node) and any(isinstance(n, cst.Comment) for n in every_node(node))


def every_node(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """The node and everything below it, whitespace and comments included."""
    yield node
    for child in node.children:
        yield from every_node(child)


def without_blank_start(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines from the first comment on."""
    kept = list(lines)
    while kept and kept[0].comment is None:
        kept.pop(0)
    return kept


def names_bound(nodes: Sequence[cst.CSTNode]) -> list[str]:
    """The names that the nodes bind, in the order in which the text binds them."""
    bound = activity(nodes).writes
    found: list[str] = []
    for node in nodes:
        for child in walk(node):
            if not isinstance(child, cst.BaseSmallStatement | cst.NamedExpr):
                continue
            here = activity(child).writes & bound
            order = [n.value for n in walk(child) if isinstance(n, cst.Name) and n.value in here]
            found += [name for name in dict.fromkeys(order) if name not in found]
    return found + sorted(bound - set(found))
