"""A loop becomes ``torch.while_loop``: what goes from round to round, what is checked, the text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Rewrite, Site
from gbfix.schema import Safety

from .branches import branch_of, check_movable, finish, holds_comment, leading, names_bound
from .closures import captured_for_later
from .counters import as_tensors, check_counter, check_inside, tensor_of
from .layout import spaced, statement_line
from .masked import Line
from .plain import only_computes
from .predicates import is_data_dependent, split
from .refusal import Refusal
from .scalars import Read
from .sites import depth_of, surely_without_gradients, without_gradients
from .surroundings import SEVERAL, check_later_changes, is_one_of_several
from .texts import operand
from .uses import is_private
from .vain import each_on_its_own, zero_stays_zero
from .values import Values
from .while_body import Round

#: Dtypes of tensors that have no gradients.
EXACT_DTYPES = ("torch.uint8", "torch.int8", "torch.int16", "torch.int32", "torch.int64")


def rewrite_loop(
    site: Site,
    node: cst.While | cst.For,
    function: cst.FunctionDef,
    round_: Round,
    values: Values,
    before: Sequence[cst.BaseStatement] = (),
    reads: Sequence[Read] = (),
) -> Rewrite:
    """The rewrite of the loop, with statements ``before`` it, or `Refusal`.

    ``reads`` are the lines that have read the bound of a ``for`` from a tensor.
    """
    head = node.test if isinstance(node, cst.While) else node.iter
    if holds_comment(head):
        raise Refusal("a condition holds a comment")
    _check_body(head, node.body, values)
    names = _carried_names(site, node, function)
    numbers = [name for name in names if not _is_tensor(name, values)]
    used = live_after(function, node)
    for name in numbers:
        check_counter(site, name, node, round_.tests, values, used=name in used)
    tensors = [name for name in names if name not in numbers]
    _check_steady(node, tensors, values)
    placed = _placed(node, tensors, values)
    restarted = _restarted(site, node, function, tensors, values) if round_.numbered else []
    on_data = (bool(round_.counter) and not round_.numbered) or is_data_dependent(head, values)
    if round_.counter:
        _check_for(site, node, round_, values, used)
        numbers = [round_.counter, *numbers]
        names = [round_.counter, *names]
    values.named |= {name: tensor_of(name, values) for name in numbers}
    round_ = _with_tensors(round_, numbers, values)
    if not round_.counter and not any(is_data_dependent(t, values) for t in round_.tests):
        raise Refusal("it is not known whether its condition is a tensor")
    test = predicate = _predicate(round_.test, values)
    if round_.counter:
        test, predicate = (f"{text} < {round_.stop}" for text in (round_.start, round_.counter))
    taken = names_in(site.module)
    flag = fresh("done", taken) if round_.breaks else ""
    line = Line(names, values, taken, done=flag)
    statements = line.round(round_.statements)
    if flag:
        names = [*names, flag]
        going = f"{values.torch}.logical_not({flag})"
        predicate = f"{going} & {operand(predicate)}" if predicate else going
    check_movable(statements, returns=False)
    next_ = [f"{name} + 1" if name == round_.counter else name for name in names]
    ending = cst.parse_statement(f"return {_tuple(next_)}")
    header = branch_of(node.body)
    body = dataclasses.replace(header, statements=[*statements, ending])
    body = finish(body, values, clone_unknown=False)
    check_later_changes(site, node, values, set(tensors))
    taken |= line.flags
    step = fresh("step", taken)
    guard = _Guard(site, node, tensors, values, taken | {step}, on_data, restarted)
    first, after = guard.lines(test, used)
    starts = {name: round_.start if name == round_.counter else name for name in numbers}
    made = (starts, flag, placed, restarted)
    call = _call(site, node, values, names, made, step, predicate, used)
    edit = site.edit()
    definition = body.function(step, names)
    new = spaced(leading(node), [definition], [*first, call, *after])
    edit.replace(node, *before, *new, *_else(node))
    for read in reads:
        read.apply(edit)
    if values.torch_missing:
        edit.add_import("torch")
    copies = ", ".join(f"`{name}`" for name in tensors)
    notes = [f"Where the loop ends at once, each of {copies} is a copy."] if tensors else []
    safety = Safety.SAFE
    graded = guard.floats if not surely_without_gradients(site, node) else []
    if graded and not zero_stays_zero(statements, values):
        safety = Safety.UNSAFE
        notes.append(
            "If an operation that the original skips has a NaN or infinite derivative, gradients"
            " become NaN."
        )
    if graded and not each_on_its_own(statements, graded, line.flags, values):
        safety = Safety.UNSAFE
        notes.append(
            "Gradients are wrong (in torch 2.13) where a carried tensor starts without needing one"
            " and gets to need one in the loop."
        )
    if graded and values.needs_gradients() and is_one_of_several(site, node):
        safety = Safety.UNSAFE
        notes.append(SEVERAL)
    return edit.rewrite("turn the loop into torch.while_loop", safety=safety, notes=notes, rank=20)


def _check_steady(node: cst.While | cst.For, tensors: list[str], values: Values) -> None:
    """Refuse a tensor that was seen to come out of a round with another shape or dtype."""
    for inner in walk(node.body):
        match inner:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
            ) if name in tensors:
                old, new = values.outside(name), values.fact(value)
                if old is None or new is None or not new.is_tensor:
                    continue
                sizes = old.shape is not None and new.shape is not None
                if sizes and old.shape != new.shape and None not in (old.shape or ()):
                    raise Refusal(
                        f"`{name}` changes its shape; keep it whole, with a mask or a number of"
                        " what counts beside it"
                    )
                if old.dtype and new.dtype and old.dtype != new.dtype:
                    raise Refusal(f"`{name}` changes its dtype; cast it before the loop")


def _check_for(
    site: Site, node: cst.While | cst.For, round_: Round, values: Values, used: frozenset[str]
) -> None:
    """Refuse a counter that is used for more than counting, or that the loop binds itself."""
    name = round_.counter
    if name in used or name in activity(node.body).writes:
        raise Refusal(f"`{name}` is used after the loop, or bound in it")
    check_inside(site, name, node.body, round_.tests, values)


def _restarted(
    site: Site,
    node: cst.While | cst.For,
    function: cst.FunctionDef,
    tensors: list[str],
    values: Values,
) -> list[str]:
    """The tensors that each round binds anew, without dimensions, and that start with some.

    ``torch.while_loop`` carries one shape: they start as another tensor, of which no round asks.
    """
    block = branch_of(node.body).statements
    asked = live_before(function, block[0])
    before = site.locals_before(node)
    found = []
    for name in tensors:
        old, new = before.get(name), values.outside(name)
        if old is None or new is None or old.shape == new.shape:
            continue
        if name in asked or new.shape != () or old.dtype != new.dtype:
            raise Refusal(
                f"`{name}` starts with a shape other than the one that an iteration gives it"
            )
        found.append(name)
    return found


def _placed(node: cst.While | cst.For, tensors: list[str], values: Values) -> str:
    """A tensor on whose device the loop computes."""
    if tensors:
        return tensors[0]
    does = activity(node)
    for name in sorted(does.reads - does.writes):
        fact = values.outside(name)
        if fact is not None and fact.is_tensor:
            return name
    raise Refusal("nothing that the body binds is used afterwards")


def _is_tensor(name: str, values: Values) -> bool:
    fact = values.outside(name)
    return fact is not None and fact.is_tensor and values.is_tensor_name(name)


def _carried_names(site: Site, node: cst.While | cst.For, function: cst.FunctionDef) -> list[str]:
    """The names that go from one iteration to the next, or on to what follows."""
    bound = names_bound([node.body])
    live = live_before(function, node) | live_after(function, node)
    before = definitely_bound_before(function, node)
    captured = captured_for_later(site, function)
    for name in bound:
        if name in captured:
            raise Refusal(f"`{name}` is used by a nested function")
        if name in live and name not in before:
            raise Refusal(f"`{name}` may not be bound before the loop")
    return [name for name in bound if name in live]


def _with_tensors(round_: Round, numbers: list[str], values: Values) -> Round:
    """The round with its counters known as tensors."""

    def known(node: cst.CSTNode) -> Any:
        return as_tensors(node, numbers, values)

    return Round(
        None if round_.test is None else known(round_.test),
        [known(statement) for statement in round_.statements],
        round_.breaks,
        round_.counter,
        round_.start,
        round_.stop,
        round_.numbered,
    )


def _predicate(test: cst.BaseExpression | None, values: Values) -> str:
    if test is None:
        return ""
    condition = split(test, values)
    if condition.python:
        raise Refusal(f"`{condition.python}` is decided by Python; make it a tensor")
    return condition.tensor


@dataclasses.dataclass
class _Guard:
    """Takes the result of a loop that did not run from before it, for the sake of gradients.

    Measured on torch 2.13: the backward of torch.while_loop runs the body once even where the loop
    did not run at all.  `torch.where` gives that backward a gradient of zero.
    """

    site: Site
    node: cst.While | cst.For
    tensors: list[str]
    values: Values
    taken: set[str]
    #: Whether a tensor decides about the first round (or Python numbers, for a `break` inside).
    on_data: bool
    #: Names that start with another shape than rounds give them.
    restarted: Sequence[str] = ()

    @property
    def floats(self) -> list[str]:
        """The carried tensors that may need gradients."""
        facts = {name: self.values.outside(name) for name in self.tensors}
        whole = {*EXACT_DTYPES, "torch.bool"}
        return [name for name, fact in facts.items() if fact is None or fact.dtype not in whole]

    def lines(
        self, predicate: str, used: frozenset[str]
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """Statements for before and after the loop; none where it surely runs once.

        ``used`` are the names that what follows the loop may read.
        """
        floats = self._graded(used)
        floats += [name for name in self.restarted if name in used and name not in floats]
        if not floats or not predicate:
            return [], []
        runs = fresh("runs", self.taken)
        first, after = [f"{runs} = {predicate}"], []
        for name in floats:
            start = fresh(f"first_{name}", self.taken)
            first.append(f"{start} = {name}")
            chosen = f"{self.values.torch}.where({runs}, {name}, {start})"
            if not self.on_data:
                chosen = f"{name} if {runs} else {start}"
            after.append(f"{name} = {chosen}")
        return [cst.parse_statement(t) for t in first], [cst.parse_statement(t) for t in after]

    def _graded(self, used: frozenset[str]) -> list[str]:
        """Those of the used names whose gradients the loop may spoil."""
        floats = [name for name in self.floats if name in used]
        private = [is_private(self.site, name, self.node, self.values) for name in floats]
        if without_gradients(self.site, self.node):
            for name, own in zip(floats, private, strict=True):
                if not own:
                    raise Refusal(f"a copy of `{name}` would lose its gradient here")
            return []
        if surely_without_gradients(self.site, self.node):
            facts = [self.values.outside(name) for name in floats]
            plain = [fact is not None and fact.requires_grad is False for fact in facts]
            # A count that Python knows is hardly ever zero: only a tensor with gradients matters.
            if all(
                own or (ok and not self.on_data) for own, ok in zip(private, plain, strict=True)
            ):
                return []
        return floats


def _call(
    site: Site,
    node: cst.While | cst.For,
    values: Values,
    names: list[str],
    made: tuple[dict[str, str], str, str, list[str]],
    step: str,
    predicate: str,
    used: frozenset[str],
) -> cst.BaseStatement:
    """``x, _ = torch.while_loop(...)``: what was no tensor before is made one for it."""
    numbers, flag, tensor_, restarted = made
    operands = []
    for name in names:
        initial = "False" if name == flag else numbers.get(name, "")
        if name in numbers and tensor_of(name, values).dtype == "torch.float64":
            initial += f", dtype={values.torch}.float64"
        text = f"{values.torch}.tensor({initial}, device={tensor_}.device)"
        begun = f"{name}.new_zeros(())" if name in restarted else name
        operands.append(text if initial else begun)
    free = "_" not in activity(node.body).reads | activity(node.body).writes | used
    targets = ["_" if free and name not in used else name for name in names]
    left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
    start = f"({operands[0]},)" if len(operands) == 1 else f"({', '.join(operands)})"
    arguments = [f"lambda {', '.join(names)}: {predicate}", step, start]
    head = f"{left} = {values.torch}.while_loop"
    return statement_line(site, head, arguments, depth_of(site, node))


def _else(node: cst.While | cst.For) -> list[cst.BaseStatement]:
    """What stands in the ``else``: without a ``break``, it simply comes next."""
    if node.orelse is None:
        return []
    comments = [line for line in node.orelse.leading_lines if line.comment is not None]
    first, *others = branch_of(node.orelse.body).statements
    return [first.with_changes(leading_lines=[*comments, *leading(first)]), *others]


def _tuple(names: list[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _check_body(head: cst.BaseExpression, body: cst.BaseSuite, values: Values) -> None:
    """Refuse what may happen once too often, too seldom, or with a gradient."""
    effects = values.effects(head, body)
    for name in sorted(effects.mutates):
        fact = values.outside(name)
        if fact is not None and fact.kind == "list":
            raise Refusal(
                f"`{name}` grows, and a list in a graph has one length; write into a tensor that is"
                " long enough (`out = torch.where(places == i, x, out)`), and count"
            )
    if effects.rng or effects.io or effects.mutates or effects.mutates_unknown:
        raise Refusal("it changes something in place, draws random numbers, or prints")
    plain = {
        code(call)
        for call in walk(body)
        if isinstance(call, cst.Call) and only_computes(values.site, call.func)
    }
    calls = [call for call in effects.unknown if call not in plain]
    if calls:
        raise Refusal(f"it is not known what `{calls[0]}` does")
    if activity(head).writes:
        raise Refusal("its condition binds a name; bind it before the loop, and in each iteration")
    if activity(body).attribute_writes:
        raise Refusal("it binds more than local names")
