"""A list to which only some rounds of a loop append, and of which sums and means are taken.

Every round appends, and a second list says which values count: ``torch.stack(losses).mean()``
becomes a mean over those.  What the rounds until a ``break`` append (the tokens of a text) is
stacked, and cut at their number: ``torch.stack(tokens).narrow(0, 0, tokens_count)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import libcst as cst

from gbfix.analysis.exits import constant_test, exits
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Edit, Site
from gbfix.schema import Fact

from ..control_flow.predicates import is_data_dependent
from ..control_flow.refusal import Refusal
from ..control_flow.values import Values
from ..operator.data import KNOWN
from .loops_while import is_length, made_lists, reads_last
from .loops_width import JOINS, is_one_wide

#: Asks a tensor, or takes of it, what says nothing of its values.
_TOLD = KNOWN | words(
    """layout new_zeros new_ones new_full new_empty type_as view_as expand_as zeros_like ones_like
    full_like empty_like"""
)
#: Dtypes in which Python's ``sum`` and torch's give the same.
_SUMMED = FLOAT_DTYPES | {"torch.int64"}
_EMPTY_STACK = 'RuntimeError("stack expects a non-empty TensorList")'
_ZERO = 'ZeroDivisionError("division by zero")'


@dataclasses.dataclass
class Kept:
    """A list of values without dimensions: ``flags`` is what says which of them count."""

    name: str
    flags: str
    #: What appends, each a statement of its own: a call, or ``losses += [loss]``.
    appends: list[cst.Call | cst.AugAssign]
    #: What is asked of the list behind the loop.
    uses: list[cst.Name]
    #: The line behind which something was appended: the code leaves there where nothing was.
    guard: int = 0
    #: What the original raises where nothing was appended, and before which statement.
    error: str = ""
    raising: cst.CSTNode | None = None
    #: Whether Python's ``sum`` may have nothing to add up.
    may_be_zero: bool = False
    dtype: str = ""
    #: Whether a test of Python's becomes one of a tensor.
    asks: bool = False
    #: How many appends stand below a test of the data, and how many do not.
    below: int = 0
    always: int = 0
    edits: dict[cst.CSTNode, str] = dataclasses.field(default_factory=dict)

    #: What the number of rounds that count is called, where values may have dimensions: they come
    #: first, and what is stacked of them ends there.
    rounds: str = ""
    #: The calls that join them, with the dimension, and how many of the first are left out there.
    cuts: dict[cst.Call, tuple[str, int]] = dataclasses.field(default_factory=dict)
    #: ``ids = torch.cat([ids, token], dim=1)``, for a tensor that grows in place of a list: the
    #: dimension, and what its size before the loop is called.
    grows: cst.BaseStatement | None = None
    dim: str = ""
    start: str = ""
    torch: str = "torch"
    #: How many lines of a round may jump before it.
    jumps: int = 0
    #: Whether another one has the same rounds, and their number.
    follows: bool = False
    #: The text of the flags as one tensor: with no rounds at all, there is none.
    read: str = ""
    #: Whether there may be no rounds.
    idle: bool = False
    #: How many values are in the list before the first round: ``tokens = [start]``.
    begins: int = 0
    #: Whether data may say that no round counts, where values come before the first.
    unsure: bool = False
    #: Whether rounds read the last value.
    carries: bool = False

    def count(self, *, safe: bool) -> str:
        return f"{self.read}.sum().clamp(min=1)" if safe else f"{self.read}.sum()"

    def nothing(self) -> str:
        """The text that says that no value counts."""
        asks = f"not {self.read}.any()"
        return f"not {self.name} or {asks}" if self.idle else asks

    def something(self) -> str:
        return f"{self.name} and {self.read}.any()" if self.idle else f"{self.read}.any()"

    @property
    def doubt(self) -> str:
        if self.may_be_zero and not self.error:
            return f"Where nothing is added to `{self.name}`, a tensor stands for Python's 0."
        return ""

    def fails(self, site: Site, node: cst.CSTNode, error: str) -> None:
        """Keep that the original raises at a node where nothing was appended."""
        if not self.is_asked(site, node) and not self.error:
            self.error, self.raising = error, site.statement_of(node)

    def is_asked(self, site: Site, node: cst.CSTNode) -> bool:
        """Whether something was appended wherever the node runs."""
        behind = 0 < self.guard < site.span(node).line
        return behind or _is_asked_first(site, node, self.name)

    def write(self, edit: Edit) -> None:
        if self.error and self.raising is not None:
            text = f"if {self.nothing()}:\n    raise {self.error}\n"
            edit.insert_before(self.raising, cst.parse_statement(text))
        for node, text in self.edits.items():
            edit.replace(node, cst.parse_expression(text))
        for call, (dim, without) in self.cuts.items():
            more = self.begins - without
            sign = "+" if more > 0 else "-"
            length = f"{self.rounds} {sign} {abs(more)}" if more else self.rounds
            edit.replace(call, cst.parse_expression(self.cut(code(call), dim, length)))

    def cut(self, text: str, dim: str, length: str) -> str:
        """The first so many of a dimension, in memory as what was made of these alone."""
        layout = f"memory_format={self.torch}.contiguous_format"
        return f"{text}.narrow({dim}, 0, {length}).clone({layout})"


def kept_lists(
    site: Site,
    loop: cst.For | cst.While,
    function: cst.FunctionDef,
    values: Values,
    taken: set[str],
) -> dict[str, Kept]:
    """The lists to which the loop appends, and of which no more is asked than sums and means."""
    found: dict[str, Kept] = {}
    for node in walk(loop.body):
        match node:
            case cst.Expr(
                value=cst.Call(
                    func=cst.Attribute(value=cst.Name(name), attr=cst.Name("append")),
                    args=[cst.Arg(keyword=None, star="")],
                ) as grows
            ):
                pass
            case (
                cst.AugAssign(
                    target=cst.Name(name),
                    operator=cst.AddAssign(),
                    value=cst.List(elements=[cst.Element()]),
                ) as grows
            ):
                pass
            case _:
                continue
        kept = found.setdefault(name, Kept(name, fresh(f"{name}_kept", taken), [], []))
        kept.appends.append(grows)
    for kept in found.values():
        kept.idle = may_be_idle(loop, values)
        kept.read = f"{values.torch}.stack({kept.flags})" if kept.idle else kept.flags
        asked = (
            _leaves_without(site, use, loop)
            for other in found.values()
            if _blocks(site, other) == _blocks(site, kept)
            for use in site.places_of(other.name, function)
        )
        kept.guard = min((line for line in asked if line), default=0)
    result: dict[str, Kept] = {}
    for name, kept in found.items():
        if _is_counted(site, loop, function, values, kept):
            result[name] = kept
            continue
        cut = Kept(name, kept.flags, kept.appends, [], idle=kept.idle, read=kept.read)
        cut.torch = values.torch
        cut.rounds = fresh(f"{name}_count", taken)
        if _is_cut(site, loop, function, values, cut):
            taken.add(cut.rounds)
            result[name] = cut
    return result


def value_of(append: cst.Call | cst.AugAssign) -> cst.BaseExpression:
    """What ``losses.append(loss)``, or ``losses += [loss]``, adds to the list."""
    if isinstance(append, cst.Call):
        return append.args[0].value
    return cst.ensure_type(append.value, cst.List).elements[0].value


def share_rounds(lists: Mapping[str, Kept]) -> None:
    """Let those that grow behind as many jumps have one number of rounds: torch cannot tell that
    two numbers are the same.
    """
    first: dict[int, Kept] = {}
    for kept in lists.values():
        if not kept.rounds:
            continue
        leader = first.setdefault(kept.jumps, kept)
        if leader is not kept:
            kept.flags, kept.rounds, kept.read = leader.flags, leader.rounds, leader.read
            kept.follows = True


def may_be_idle(loop: cst.For | cst.While, values: Values) -> bool:
    """Whether sizes decide that there is no round."""
    if not isinstance(loop, cst.For):
        return constant_test(loop.test) is not True
    match loop.iter:
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=cst.Integer())]):
            return False
        case cst.Call(func=cst.Name("range" | "enumerate"), args=[cst.Arg(value=over)]):
            pass
        case over:
            pass
    fact = values.fact(over)
    if fact is None or fact.is_tensor or not isinstance(over, cst.Name | cst.Attribute):
        return True
    # A number that somebody gives may be 0; what an object is made with is not.
    return fact.is_python_scalar and isinstance(over, cst.Name)


def _blocks(site: Site, kept: Kept) -> list[tuple[int, int]]:
    """Where a list grows: two that grow in the same blocks, behind as many jumps, are as long."""
    places = []
    for call in kept.appends:
        statement = site.statement_of(call)
        block = [*site.block_of(statement)]
        before = block[: next(n for n, line in enumerate(block) if line is statement)]
        jumps = sum(exits([line]).jumps > 0 for line in before)
        places.append((id(site.parent(statement)), jumps))
    return places


def _is_counted(
    site: Site,
    loop: cst.For | cst.While,
    function: cst.FunctionDef,
    values: Values,
    kept: Kept,
) -> bool:
    for call in kept.appends:
        fact = values.fact(value_of(call))
        if fact is None or not fact.is_tensor or fact.shape != () or fact.dtype not in _SUMMED:
            return False
        if kept.dtype not in ("", fact.dtype):
            return False  # which of them are there would decide the dtype of all
        kept.dtype = fact.dtype
    if not _find_uses(site, loop, function, kept, each_round=False) or kept.begins:
        return False
    return all(_understand(site, use, kept, values) for use in kept.uses)


def _find_uses(
    site: Site,
    loop: cst.For | cst.While,
    function: cst.FunctionDef,
    kept: Kept,
    *,
    each_round: bool,
) -> bool:
    """Keeps what is asked of a list; whether it is made before the loop, and asked behind it.

    ``each_round`` says that every round appends: then rounds may ask for its length.
    """
    receivers = {
        it.target
        if isinstance(it, cst.AugAssign)
        else cst.ensure_type(it.func, cst.Attribute).value
        for it in kept.appends
    }
    starts = 0
    block = site.block_of(loop)
    last = _bound_anew(site, loop, kept.name)
    for place in site.places_of(kept.name, function):
        if place in receivers:
            continue
        statement = site.statement_of(place)
        if last is not None and site.span(place).line >= site.span(last).line:
            # ``losses = torch.stack(losses)``: behind it, the name is no list.
            value = last.value if statement is site.statement_of(last) else None
            if value is None or place not in walk(value):
                continue
        if statement in block and starts == 0 and _is_target(site, place):
            starts += 1
            kept.begins = len(made_lists(statement)[kept.name])
            continue
        inside = each_round and loop in site.ancestors(place)
        if inside and is_length(site, place):
            continue
        if inside and reads_last(site, place):
            kept.carries = True
            continue
        kept.uses.append(place)
    if kept.carries and (not kept.begins or len(kept.appends) > 1):
        return False  # in a first round there would be none, and in others one that does not count
    return starts == 1 and all(site.span(use).line > site.span(loop).end_line for use in kept.uses)


def _bound_anew(site: Site, loop: cst.For | cst.While, name: str) -> cst.Assign | None:
    """The first assignment to the name in the loop's own block, behind the loop."""
    block = [*site.block_of(loop)]
    behind = block[next(n for n, line in enumerate(block) if line is loop) + 1 :]
    for line in behind:
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(target))]) as assign]
            ) if target == name:
                return assign
    return None


def _is_cut(
    site: Site,
    loop: cst.For | cst.While,
    function: cst.FunctionDef,
    values: Values,
    kept: Kept,
) -> bool:
    """Whether the rounds until a jump append, each once and the first for sure, and all that is
    asked of the list is one tensor of it.
    """
    if len(kept.appends) != 1:
        return False
    (call,) = kept.appends
    fact = values.fact(value_of(call))
    if fact is None or not fact.is_tensor or fact.shape is None:
        return False
    statement = site.statement_of(call)
    block = [*loop.body.body]
    number = next((n for n, line in enumerate(block) if line is statement), None)
    if number is None or any(exits([line]).jumps for line in block[:number]):
        return False  # with nothing in the list, there is nothing to stack
    if not _find_uses(site, loop, function, kept, each_round=True) or not kept.uses:
        return False
    # With nothing in the list before, there has to be a round, or torch raises an error.
    asks = isinstance(loop, cst.While) and is_data_dependent(loop.test, values)
    kept.unsure = asks and kept.begins > 0
    first = _first_values(site, loop, function, kept)
    if not all(_is_like(values.fact(value), fact) for value in first):
        return False
    return all(_is_joined(site, loop, use, kept, values, len(fact.shape)) for use in kept.uses)


def _first_values(
    site: Site, loop: cst.For | cst.While, function: cst.FunctionDef, kept: Kept
) -> list[cst.BaseExpression]:
    """What is in the list before the first round."""
    for place in site.places_of(kept.name, function):
        statement = site.statement_of(place)
        if statement in site.block_of(loop) and _is_target(site, place):
            return made_lists(statement)[kept.name]
    return []


def _is_target(site: Site, place: cst.Name) -> bool:
    """Whether the line binds the name to a new list there."""
    holder = site.parent(place)
    bound = isinstance(holder, cst.AssignTarget) or isinstance(
        site.parent(holder) if isinstance(holder, cst.Element) else None, cst.Tuple
    )
    return bound and place.value in made_lists(site.statement_of(place))


def _is_like(one: Fact | None, other: Fact) -> bool:
    """Whether both are tensors of one shape and dtype."""
    return (
        one is not None and one.is_tensor and (one.shape, one.dtype) == (other.shape, other.dtype)
    )


def _is_joined(
    site: Site, loop: cst.For | cst.While, use: cst.Name, kept: Kept, values: Values, dims: int
) -> bool:
    """``torch.stack(tokens, dim=1)``, or ``torch.cat`` of what has the size 1 there."""
    holder = site.parent(use)
    without = 0
    match holder:
        case cst.Subscript(
            slice=[
                cst.SubscriptElement(
                    slice=cst.Slice(lower=cst.Integer() as first, upper=None, step=None)
                )
            ]
        ):
            # All rounds make one longer: what is left out is there in each call.
            without = first.evaluated_value
            if without > kept.begins:
                return False
            holder = site.parent(holder)
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not holder or len(call.args) > 2:
        return False
    name = resolve(site.module, call.func)
    dim = "0"
    for arg in call.args[1:]:
        match arg:
            case cst.Arg(value=value, keyword=None | cst.Name("dim"), star=""):
                dim = code(value)
            case _:
                return False
    if not dim.removeprefix("-").isdigit():
        return False
    number, most = int(dim), dims + (name == "torch.stack")
    if not -most <= number < most:
        return False
    if name != "torch.stack":
        if kept.begins != without:
            return False
        (append,) = kept.appends
        value = value_of(append)
        if name not in JOINS or not is_one_wide(site, loop, value, number % dims, dims, values):
            return False
    kept.cuts[call] = (dim, without)
    return True


def _leaves_without(site: Site, use: cst.Name, loop: cst.For | cst.While) -> int:
    """The line of ``if not losses: return zero`` behind the loop; 0 for any other use."""
    for node in site.ancestors(use):
        if isinstance(node, cst.If):
            length = f"len({use.value})"
            asks = [f"not {use.value}", f"not {length}", f"{length} == 0", f"{length} < 1"]
            if code(node.test) not in asks or node not in site.block_of(loop):
                return 0
            last: cst.CSTNode = node.body.body[-1]
            small = last.body if isinstance(last, cst.SimpleStatementLine) else (last,)
            leaves = bool(small) and isinstance(small[-1], cst.Return | cst.Raise)
            return site.span(node.test).line if leaves else 0
        if isinstance(node, cst.BaseStatement):
            return 0
    return 0


def _is_asked_first(site: Site, node: cst.CSTNode, name: str) -> bool:
    """``torch.stack(losses).mean() if losses else zero``"""
    child = node
    for outer in site.ancestors(node):
        if isinstance(outer, cst.BaseStatement):
            break
        if isinstance(outer, cst.IfExp) and outer.body is child:
            length = f"len({name})"
            return code(outer.test) in (name, length, f"{length} > 0", f"{length} != 0")
        child = outer
    return False


def _understand(site: Site, use: cst.Name, kept: Kept, values: Values) -> bool:
    """Keeps what stands for one use of the list, or says that it is another use."""
    holder = site.parent(use)
    match holder:
        case cst.UnaryOperation(operator=cst.Not()):
            return _asked(site, holder, kept, kept.nothing())
        case cst.If(test=test) | cst.IfExp(test=test) if test is use:
            return _asked(site, use, kept, kept.something())
        case cst.Arg():
            call = site.parent(holder)
            if isinstance(call, cst.Call):
                return _called(site, call, kept, values)
    return False


def _asked(site: Site, node: cst.CSTNode, kept: Kept, text: str) -> bool:
    """Puts a test of a tensor in the place of one of the list's length."""
    kept.asks = True
    holder = site.parent(node)
    alone = isinstance(holder, cst.If | cst.IfExp) and holder.test is node
    kept.edits[node] = text if alone else f"({text})"
    return True


def _called(site: Site, call: cst.Call, kept: Kept, values: Values) -> bool:
    name = resolve(site.module, call.func) or code(call.func)
    chosen = f"{values.torch}.where({kept.read}, {values.torch}.stack({kept.name}), 0)"
    if name == "builtins.len" and len(call.args) == 1:
        return _counted(site, call, kept)
    if name == "builtins.sum" and len(call.args) == 1:
        kept.may_be_zero |= not kept.is_asked(site, call)
        kept.edits[call] = f"{chosen}.sum()"
        return True
    if name != "torch.stack" or [code(arg.value) for arg in call.args[1:]] not in ([], ["0"]):
        return False
    outer = site.parent(call)
    reduced: cst.CSTNode | None = None
    what = ""
    match outer:
        case cst.Attribute(attr=cst.Name("mean" | "sum" as what)):
            reduced = site.parent(outer)
            if not isinstance(reduced, cst.Call) or reduced.func is not outer:
                return False
            args = reduced.args
        case cst.Arg():
            reduced = site.parent(outer)
            if not isinstance(reduced, cst.Call) or reduced.args[0] is not outer:
                return False
            what = (resolve(site.module, reduced.func) or "").removeprefix("torch.")
            args = reduced.args[1:]
    if reduced is None or what not in ("mean", "sum"):
        return False
    if [code(arg.value) for arg in args] not in ([], ["0"]):
        return False
    if what == "mean" and kept.dtype not in FLOAT_DTYPES:
        return False
    kept.fails(site, call, _EMPTY_STACK)
    mean = f"({chosen}.sum() / {kept.count(safe=True)})"
    kept.edits[reduced] = mean if what == "mean" else f"{chosen}.sum()"
    return True


def _counted(site: Site, call: cst.Call, kept: Kept) -> bool:
    """``len(losses)``, where arithmetic or a test uses it."""
    holder = site.parent(call)
    match holder:
        case cst.BinaryOperation(
            operator=cst.Divide(), left=cst.Call(func=cst.Name("sum"), args=[of]), right=right
        ) if right is call and code(of.value) == kept.name:
            kept.fails(site, call, _ZERO)
            kept.edits[call] = kept.count(safe=True)
            return True
        case cst.BinaryOperation():
            kept.edits[call] = kept.count(safe=False)
            return True
        case cst.Comparison(left=left, comparisons=[only]) if left is call:
            test = code(only).strip()
            if test in ("== 0", "< 1", "<= 0"):
                return _asked(site, holder, kept, kept.nothing())
            return test in ("> 0", "!= 0", ">= 1") and _asked(site, holder, kept, kept.something())
        case cst.UnaryOperation(operator=cst.Not()):
            return _asked(site, holder, kept, kept.nothing())
        case cst.If(test=test) | cst.IfExp(test=test) if test is call:
            return _asked(site, call, kept, kept.something())
        case cst.Arg():
            outer = site.parent(holder)
            if isinstance(outer, cst.Call) and code(outer.func) == "max" and len(outer.args) == 2:
                other = next(arg for arg in outer.args if arg is not holder)
                if code(other.value) == "1":
                    kept.edits[outer] = kept.count(safe=True)
                    return True
    return False


class FromOutside(cst.CSTTransformer):
    """Puts ones in the place of tensors that come from outside of what counts.

    ``torch.where`` gives a value that is not chosen a zero gradient, and zero times a derivative
    that is not finite is NaN: where the inputs are ones, derivatives are finite.
    """

    def __init__(self, values: Values, own: set[str], safe: str) -> None:
        super().__init__()
        self.values = values
        self.own = own
        self.safe = safe
        self.no_variables: set[int] = set()

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.no_variables.add(id(node.attr))
        return node.attr.value not in _TOLD

    def visit_Arg(self, node: cst.Arg) -> None:
        self.no_variables.add(id(node.keyword))

    def visit_Call(self, node: cst.Call) -> bool:
        return code(node.func).rpartition(".")[2] not in _TOLD

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        return self._root(node) is None

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        return self._guarded(original_node, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if id(original_node) in self.no_variables:
            return updated_node
        return self._guarded(original_node, updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """A guard is not needed where all that stands behind it is of ones already."""
        for old, new in zip(original_node.args, updated_node.args, strict=True):
            if code(original_node) == self.safe.format(code(old.value)):
                return new.value if self._is_replaced(old.value) else updated_node
        return updated_node

    def _is_replaced(self, node: cst.CSTNode) -> bool:
        root = self._root(node) if isinstance(node, cst.BaseExpression) else None
        if root is None:
            return all(map(self._is_replaced, children(node)))
        if isinstance(node, cst.Name) and id(node) in self.no_variables:
            return True
        assert isinstance(node, cst.BaseExpression)
        fact = self.values.fact(node) or self.values.outside(root)
        if fact is None or not fact.is_tensor:
            return True
        return root not in self.own and self._is_followed(fact)

    def _root(self, node: cst.BaseExpression) -> str | None:
        while isinstance(node, cst.Subscript):
            node = node.value
        return node.value if isinstance(node, cst.Name) else None

    def _guarded(self, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        root = self._root(old)
        if root is None or root in self.own:
            return new
        # An index with a guard is not as the run saw it.
        fact = self.values.fact(old) or self.values.outside(root)
        if not self._is_followed(fact):
            return new
        return cst.parse_expression(self.safe.format(code(new)))

    def _is_followed(self, fact: Fact | None) -> bool:
        """Whether a gradient may go back to the tensor."""
        if fact is None or not fact.is_tensor or fact.requires_grad is False:
            return False
        return (fact.dtype or "").startswith("torch.float")


def refuse_growing(name: str) -> Refusal:
    return Refusal(
        f"`{name}` changes its length with the data; keep all rounds, with a mask or a count of"
        " what is valid"
    )
