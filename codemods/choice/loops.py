"""A loop that tensor data ends early runs to its bound, and keeps what it had (any shape of it)."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of, params_of
from gbfix.analysis.binding import target_names
from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after, live_before
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.torch_names import NEW_MEMORY
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Edit, Rewrite, Site
from gbfix.rewriting.settings import NO_SCRIPT, set_options
from gbfix.schema import Fact, Safety

from ..control_flow.autocast import has_products, may_be_cast
from ..control_flow.branches import branch_of, leading, names_bound, without_blank_start
from ..control_flow.break_to_cond import is_bounded
from ..control_flow.closures import captured_for_later
from ..control_flow.if_to_where import is_point
from ..control_flow.predicates import is_data_dependent, split
from ..control_flow.range_to_loop import TOO_MANY
from ..control_flow.refusal import Condition, Refusal
from ..control_flow.sites import surely_without_gradients
from ..control_flow.surroundings import check_later_changes
from ..control_flow.texts import operand
from ..control_flow.uses import is_private
from ..control_flow.values import Values
from .context import Context, Declined
from .finiteness import asks_for_finiteness
from .loops_cases import EXAMPLES, NEAR_MISSES
from .loops_grown import grown_tensors, joins_itself
from .loops_grown_cases import GROWN_EXAMPLES, GROWN_NEAR_MISSES
from .loops_lines import Mask, comment_of, ifs_in, like, line_of, rows_written
from .loops_lists import (
    FromOutside,
    Kept,
    kept_lists,
    refuse_growing,
    share_rounds,
    value_of,
)
from .loops_numbers import Number, describe, is_number, is_set_alone, is_set_plainly
from .loops_range import Rounds, rounds_of
from .loops_returns import Behind, return_behind, values_of
from .loops_vain import Vain
from .loops_while import Bound, bound_of, only_breaks, surely_starts
from .loops_while_cases import WHILE_EXAMPLES, WHILE_NEAR_MISSES
from .tests import decided_by_tensor, lower
from .tests import split as parts_of


class LoopToBound(Codemod):
    """*What it does.*  Lets a loop that tensor data ends early run all its iterations.  Once the
    test was true, what the remaining iterations compute is not used: the tensors that the loop
    carries keep their values.

    ```python
    for _ in range(iterations):
        u = 1.0 / (kernel @ v)
        if (u - before).abs().max() < tolerance:
            break
    ```
    becomes `done = torch.tensor(False)`, `u = torch.where(done, u, ...)` and
    `done = done | (...)`; an operand with no finite derivative where the loop has ended is 1 there.

    *When it applies.*  A ``for`` loop over a range, a list, modules or a tensor's rows, with any
    number of ``break`` and ``continue`` in its own block, with or without ``else``; or a ``while``
    whose iterations Python counts (``while error > tolerance and n < limit``), by the length of a
    list as well (``while len(words) < limit``, ``elif len(words) == limit: break``).  What is used
    afterwards is tensors of one shape and dtype, and whole numbers or truth values that it counts
    or sets (``steps``, ``converged``, its own variable): these come out of tensors behind it, and
    the option ``capture_scalar_outputs`` keeps them.  Rows of a tensor may be written (``out[i] =
    ...``).  To a list of which only sums, means and the length are asked, all iterations append,
    and a second list says what counts; what is stacked of the iterations up to a ``break`` (or a
    tensor to which each joins a slice) is cut at their number, which ``capture_scalar_outputs``
    keeps in the graph; the list may begin with values, and iterations may read its last one.  An
    iteration of a ``for`` may return a tensor (the first
    row that fits), where the next statement after the loop returns one like it; or ``True``, where
    ``False`` comes next (or the other way round) and all who call the function ask for the truth
    of that alone (``if has_overflow(grads)``): the flag is returned then.

    *Fix safety.*  Safe; unsafe where it is not known that derivatives stay finite in the iterations
    whose results are not used: also where the loop ends because something is not finite.

    *Refuses.*  Random numbers, output, in-place changes and calls of unknown code in the loop;
    other lists that grow and fractions that are used after a loop that ends early.
    """

    name = "loop-to-bound"
    codes = (
        "GB0170",
        "GB0088",
        "GB0033",
        "GB0059",
        "GB0124",
        "GB0207",
        "GB7000",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = (*EXAMPLES, *WHILE_EXAMPLES, *GROWN_EXAMPLES)
    near_misses = (*NEAR_MISSES, *WHILE_NEAR_MISSES, *GROWN_NEAR_MISSES)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        loop = _loop_at(site)
        if loop is None or site.function is None:
            return
        try:
            yield _rewrite(site, loop, site.function)
        except Refusal as reason:
            if reason.args and reason.args[0]:
                line = site.span(loop).line
                yield Advice(f"the loop on line {line} cannot run to its bound: {reason.args[0]}.")


def _loop_at(site: Site) -> cst.For | cst.While | None:
    """The loop that an ``if`` leaves in whose test the site stands, or a loop by its own test."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.While | cst.For):
        return child
    tested: cst.If | None = child if isinstance(child, cst.If) else None
    for parent in site.ancestors(site.node):
        if isinstance(parent, cst.If) and child is parent.test and tested is None:
            tested = parent
        if isinstance(parent, cst.For | cst.While):
            jumps = tested is not None and (_own_jumps([tested]) or _appends(tested))
            asks = (parent.test if isinstance(parent, cst.While) else parent.iter) is child
            return parent if asks or (jumps and parent.body is child) else None
        if isinstance(parent, cst.FunctionDef | cst.Lambda):
            return None
        child = parent
    return None


def _appends(node: cst.CSTNode) -> bool:
    return any(
        isinstance(it, cst.Call)
        and isinstance(it.func, cst.Attribute)
        and it.func.attr.value == "append"
        for it in walk(node)
    )


def _own_jumps(statements: Sequence[cst.CSTNode]) -> int:
    found = exits(statements)
    return found.breaks + found.continues + found.returns


def _rewrite(site: Site, loop: cst.For | cst.While, function: cst.FunctionDef) -> Rewrite:
    values = Values(site)
    found = exits([loop.body])
    if found.yields or found.awaits or found.raises:
        raise Refusal("")
    used = live_after(function, loop)
    if isinstance(loop, cst.While):
        if found.returns:
            raise Refusal("")
        return _Engine(site, loop, function, values, bound_of(loop, values)).rewrite(used)
    if loop.asynchronous:
        raise Refusal("")
    rounds = rounds_of(loop, site, values)
    if rounds is None and not is_bounded(loop.iter, values):
        raise Refusal(f"it is not known how often it runs over `{code(loop.iter)}`")
    statements = branch_of(loop.body).statements
    if rounds is None and not _own_jumps(statements) and not any(map(_appends, statements)):
        raise Refusal("")
    targets = {n.value for n in walk(loop.target) if isinstance(n, cst.Name)}
    last = targets & used
    engine = _Engine(site, loop, function, values)
    engine.counted = rounds
    if last:
        engine.remember(min(last), is_target=True)
    if found.returns:
        engine.behind = return_behind(site, loop)
    return engine.rewrite(used)


def _is_given(over: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    """Whether a parameter of the function says how often the loop runs: ``range(limit)``."""
    match over:
        case cst.Call(func=cst.Name("range"), args=args):
            given = parameters_of(function.params)
            return any(isinstance(it.value, cst.Name) and it.value.value in given for it in args)
    return False


def _surely_runs(over: cst.BaseExpression) -> bool:
    """Whether the text says that there is a round."""
    match over:
        case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=cst.Integer() as count)]):
            return count.evaluated_value > 0
    return False


def _counts_from_zero(loop: cst.For | cst.While) -> frozenset[str]:
    """The variable of ``for i in range(n)``, or of ``for i, x in enumerate(xs)``."""
    match loop:
        case cst.For(
            target=cst.Name(name),
            iter=cst.Call(func=cst.Name("range"), args=[_] | [cst.Arg(value=cst.Integer()), _]),
        ):
            return frozenset({name})
        case cst.For(
            target=cst.Tuple(elements=[cst.Element(value=cst.Name(name)), _]),
            iter=cst.Call(func=cst.Name("enumerate"), args=[_]),
        ):
            return frozenset({name})
    return frozenset()


#: Large for large numbers, and so is their derivative: a parameter is not 1 where inputs are.
_GROWS = frozenset({"exp", "exp2", "expm1", "sinh", "cosh"})


class _Engine:
    def __init__(
        self,
        site: Site,
        loop: cst.For | cst.While,
        function: cst.FunctionDef,
        values: Values,
        bound: Bound | None = None,
    ) -> None:
        self.site = site
        self.loop = loop
        self.function = function
        self.values = values
        self.bound = bound
        self.torch = values.torch
        self.ctx = Context(site)
        self.taken = names_in(site.module)
        self.gradients = not surely_without_gradients(site, loop)
        self.vain = Vain(site, values, gradients=self.gradients)
        self.vain.set_in_rounds = activity(loop).bound
        self.vain.counts = _counts_from_zero(loop)
        self.breaks = False
        self.done = ""
        #: What comes behind the loop, where a round may return.
        self.behind: Behind | None = None
        #: How many rounds data say, where they say it before the first.
        self.counted: Rounds | None = None
        self.frozen: list[str] = []
        self.unbound: set[str] = set()
        #: What keeps the loop's own variable.
        self.targets: set[str] = set()
        #: Python numbers whose value behind the loop data decide.
        self.numbers: dict[str, Number] = {}
        #: Lists to which some rounds append; names that are bound where not all rounds count.
        self.masked: set[str] = set()
        self.lists: dict[str, Kept] = kept_lists(site, loop, function, values, self.taken)
        tested = bound is not None and bool(bound.ends)
        if isinstance(loop, cst.While) and surely_starts(loop, values):
            tested = False
        self.lists |= grown_tensors(site, loop, function, values, self.taken, tested=tested)
        share_rounds(self.lists)
        #: Whether nobody can tell that the loop was there.
        self.idle = False
        self._before = definitely_bound_before(function, loop)

    def name(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name

    def remember(self, name: str, *, is_target: bool = False) -> None:
        """Carry a Python number out of the loop, or refuse it."""
        if is_target:
            plain = isinstance(self.loop, cst.For) and isinstance(self.loop.target, cst.Name)
            over = self.loop.iter if isinstance(self.loop, cst.For) else None
            ranged = isinstance(over, cst.Call) and code(over.func) == "range"
            if not plain or not ranged or self.counted is not None:
                raise Refusal(f"`{name}` is used after it, and is no tensor")
            if name in names_bound([self.loop.body]):
                raise Refusal(f"`{name}` is used after it, and bound in it, too")
            kept = self.name(f"last_{name}")
            self.numbers[name] = Number(name, kept)
            self.targets.add(kept)
            if not self._is_set_before(name):
                self.unbound.add(kept)
            return
        if not is_set_plainly(name, self.loop, self.values):
            raise Refusal(
                f"`{name}` is no tensor, and its value after the loop depends on the data; count"
                " with a tensor"
            )
        alone = is_set_alone(name, self.loop)
        self.numbers[name] = Number(name, name if alone else self.name(f"last_{name}"))

    def _is_set_before(self, name: str) -> bool:
        """Whether the name holds a whole number where there are no rounds."""
        fact = self.values.outside(name)
        return fact is not None and fact.kind == "int" and name in self._before

    def _numbers_begin(self) -> list[cst.BaseStatement]:
        """What a number is before the first round, as a tensor."""
        return [
            cst.parse_statement(f"{it.kept} = {self._tensor(it.name)}")
            for it in self.numbers.values()
            if it.kept not in self.unbound
        ]

    def _tensor(self, number: str) -> str:
        return f"{self.torch}.tensor({number}{self._device()})"

    def _target_kept(self, mask: Mask | None) -> list[cst.BaseStatement]:
        """The line at the top of a round that keeps the loop's own variable."""
        found = [it for it in self.numbers.values() if it.beside and it.kept in self.targets]
        if found and mask is None:
            raise Refusal(f"`{found[0].name}` is used after it")
        assert mask is not None or not found
        return [
            line_of(
                f"{it.kept} = {self._tensor(it.name)} if {it.kept} is None"
                f" else {mask.chosen(self.torch, it.kept, it.name)}"
                if it.kept in self.unbound
                else f"{it.kept} = {mask.chosen(self.torch, it.kept, it.name)}"
            )
            for it in found
            if mask is not None
        ]

    # -- the whole ---------------------------------------------------------------------------

    def rewrite(self, used: frozenset[str]) -> Rewrite:
        loop, values = self.loop, self.values
        statements = branch_of(loop.body).statements
        if len(statements) * self._rounds() > TOO_MANY:
            raise Refusal("it has too many iterations to unroll")
        stored = self._check(statements)
        self._carry(used, stored)
        self.vain.of_ones = bool(self.lists) and not self.frozen
        if self.idle:
            edit = self.site.edit()
            edit.remove(loop)
            return edit.rewrite("leave out a loop of which nothing is used", rank=26)
        self.done = self.name("done")
        given = self._given()
        stops = self._ends(statements)
        ends = stops or self.counted is not None
        mask = Mask(self.done) if ends else None
        body, _ = self.block(statements, mask)
        body = [*self._asks(), *self._target_kept(mask), *body]
        check_later_changes(self.site, loop, values, set(self.frozen))
        edit = self.site.edit()
        above = leading(loop)
        comments = without_blank_start(above)
        first: list[cst.BaseStatement] = []
        for name in sorted(self.unbound):
            first.append(cst.parse_statement(f"{name} = None"))
        first += given
        first += self._numbers_begin()
        self.lists = {name: kept for name, kept in self.lists.items() if kept.below}
        first += [
            cst.parse_statement(f"{kept.flags} = []")
            for kept in self.lists.values()
            if not kept.follows
        ]
        first += [
            line_of(f"{kept.start} = {kept.name}.shape[{kept.dim}]")
            for kept in self.lists.values()
            if kept.grows is not None
        ]
        if self.counted is not None:
            loop, over = self._to_most(loop, self.counted, first)
            asks = f"{self.done} | ({over})" if stops else over
            body = [line_of(f"{self.done} = {asks}"), *body]
        if stops:
            first.append(cst.parse_statement(f"{self.done} = {self._not_done()}"))
        if first:
            blank = above[: len(above) - len(comments)]
            first[0] = first[0].with_changes(leading_lines=blank)
        if isinstance(loop, cst.While) and self.bound is not None:
            loop = loop.with_changes(test=self.bound.python)
        new = loop.with_changes(
            body=loop.body.with_changes(body=body),
            leading_lines=comments if first else above,
            orelse=None,
        )
        back: list[cst.BaseStatement] = [
            cst.parse_statement(f"{it.name} = {it.kept}.item()") for it in self.numbers.values()
        ]
        back += self._lists_end(edit)
        edit.replace(self.loop, *first, new, *self._else(), *back)
        self._return(edit)
        cut = [kept.name for kept in self.lists.values() if kept.rounds]
        options = ["capture_scalar_outputs"] if self.numbers or cut else []
        also = set_options(self.site, edit, options)
        if also is None:
            raise Refusal(NO_SCRIPT)
        if values.torch_missing:
            edit.add_import("torch")
        notes = [
            "The loop runs all its iterations; what those after the end compute is not used. Where"
            " one of them would raise an error (an index out of range), the patch raises it."
        ]
        if isinstance(loop, cst.For) and _is_given(loop.iter, self.function):
            notes.append(
                f"`{code(loop.iter)}` is as long as a caller says, and all of its iterations are in"
                " the graph."
            )
        if self.bound is not None and self.bound.meets:
            notes.append(
                "If the counter starts at its limit or above, only the data stops the original; the"
                " patched loop never stops."
            )
        if self.numbers:
            notes.append(describe(list(self.numbers.values())))
        notes += [
            f"Data decides how much of `{name}` is used; `capture_scalar_outputs` keeps that number"
            " in the graph."
            for name in cut
        ]
        # Why it is unsafe comes first.
        doubts = self._doubts()
        notes = [*doubts, *notes]
        safety = Safety.UNSAFE if doubts else Safety.SAFE
        title = "let the loop run to its bound, and keep what it had with torch.where"
        # A list of which nothing is kept is left to those who know tests of tensors.
        open_tests = any(kept.asks or kept.error for kept in self.lists.values())
        return edit.rewrite(
            title,
            notes=notes,
            rank=26,
            safety=safety,
            also=also,
            prepares=open_tests,
            shows=["sizes"] if cut else [],
        )

    def _doubts(self) -> list[str]:
        """Why the loop may come to something else."""
        given = {param.name.value for param in params_of(self.function.params)}
        found = [
            f"If the loop ends before anything is appended, `{kept.name}` is a copy of the argument"
            " and not the argument itself."
            for kept in self.lists.values()
            if kept.grows is not None and kept.jumps and kept.name in given
        ]
        facts = [self.values.outside(name) for name in self.frozen]
        if not self.gradients and any(fact is not None and fact.requires_grad for fact in facts):
            found.append("A tensor that it does not change would lose its gradient.")
        if self.vain.draws:
            found.append(
                f"`{self.vain.draws[0]}` may draw random numbers in these iterations, too."
            )
        if self.vain.others:
            found.append(
                f"Another call may have another `{self.vain.others[0]}`; if that has side effects,"
                " the patch runs them also in iterations that the original skips."
            )
        if self.vain.unsure:
            found.append(
                "If an operation that the original skips has a NaN or infinite derivative,"
                f" gradients become NaN (`{self.vain.unsure[0]}`)."
            )
        if self.ctx.gradients_seen and not self.ctx.without_gradients(self.loop):
            tests = [node.test for node in walk(self.loop) if isinstance(node, cst.If)]
            if any(asks_for_finiteness(test, self.ctx) for test in tests):
                found.append(
                    "Where something is not finite, gradients become NaN, also where its values"
                    " are not taken: zero times infinity."
                )
        if self.bound is not None and self.bound.doubtful:
            found.append(
                "A limit that an object holds may be one that no count meets (0 for none): the"
                " patched loop then never stops."
            )
        if may_be_cast(self.ctx.site, self.ctx.scope) and has_products(
            self.site, self.loop.body, deep=True
        ):
            found.append(
                "The program ran without autocast: under it, an iteration may give a lower"
                " precision, and what is kept of it has the higher one of both."
            )
        if self.counted is not None and not self.counted.finite:
            found.append(
                "Where the bound is NaN, Python raises an error; the patch runs no iteration."
            )
        return found + [kept.doubt for kept in self.lists.values() if kept.doubt]

    def _lists_end(self, edit: Edit) -> list[cst.BaseStatement]:
        """Which values count, behind the loop."""
        for kept in self.lists.values():
            kept.write(edit)
        stacked = [
            line_of(f"{kept.flags} = {self.torch}.stack({kept.flags})")
            for kept in self.lists.values()
            if not (kept.idle or kept.rounds)
        ]
        return stacked + [
            line for kept in self.lists.values() if kept.rounds for line in self._cut(kept)
        ]

    def _cut(self, kept: Kept) -> list[cst.BaseStatement]:
        """How many rounds count, and what a tensor is without those that do not."""
        # The first round counts, unless a jump comes before it: torch need not ask what of none is.
        lines = [
            f"{kept.rounds} = {self.torch}.stack({kept.flags}).sum().item()",
            f"{self.torch}._check({kept.rounds} >= {0 if kept.jumps or kept.unsure else 1})",
        ]
        if kept.follows:
            lines = []
        if kept.grows is not None:
            length = f"{kept.start} + {kept.rounds}"
            lines.append(f"{kept.name} = {kept.cut(kept.name, kept.dim, length)}")
        if not kept.idle or not lines:
            return [line_of(text) for text in lines]
        # Without rounds there is no number, and nothing to stack: that raises the same error.
        text = f"if {kept.flags}:\n" + "".join(f"    {text}\n" for text in lines)
        if kept.begins:
            text += f"else:\n    {kept.rounds} = 0\n"
        return [cst.ensure_type(cst.parse_statement(text), cst.If)]

    def _collects(self, node: cst.If) -> bool:
        """Whether data decide whether the statement appends to a list."""
        inside = set(walk(node))
        appends = [call for kept in self.lists.values() for call in kept.appends]
        return any(call in inside for call in appends) and self._by_data(node.test)

    def collecting(self, node: cst.If, mask: Mask | None) -> list[cst.BaseStatement]:
        """``if test: losses.append(value)``, without a jump."""
        condition = self._condition(node.test)
        if condition.node is None:
            raise Refusal(f"`{code(node.test)}` may have dimensions")
        if condition.python:
            condition = self._with_python(condition)
        if condition.python or comments_in(node.test):
            raise Refusal(f"`{condition.python or code(node.test)}` is decided by Python, too")
        flag = self.name("counts")
        test = condition.tensor
        if mask is not None:
            test = f"{mask.counts(self.torch)} & {operand(test)}"
        body = branch_of(node.body)
        lines = [line_of(f"{flag} = {test}", leading(node), body.header)]
        lines += self.block(body.statements, Mask(flag, rests=False))[0]
        match node.orelse:
            case None:
                return lines
            case cst.Else(body=orelse):
                other = self.name("others")
                text = f"{self.torch}.logical_not({flag})"
                if mask is not None:
                    text = f"{mask.counts(self.torch)} & {text}"
                lines.append(line_of(f"{other} = {text}"))
                return lines + self.block(branch_of(orelse).statements, Mask(other, rests=False))[0]
        raise Refusal("a list grows below an `elif`")

    def _append(self, node: cst.BaseStatement, mask: Mask | None) -> list[cst.BaseStatement] | None:
        """``losses.append(value)``: in every round, with a flag that says whether it counts."""
        for kept in self.lists.values():
            if node is kept.grows:
                kept.always += mask is None
                if mask is None:
                    return [node]
                if mask.flag != self.done or self.counted is not None:
                    raise refuse_growing(kept.name)  # what counts need not come first
                if not kept.rounds:
                    return [node]
                kept.below += 1
                flag = line_of(f"{kept.flags}.append({mask.counts(self.torch)})")
                return [node] if kept.follows else [node, flag]
            for call in kept.appends:
                match node:
                    case cst.SimpleStatementLine(body=[cst.Expr(value=value)]) if value is call:
                        break
                    case cst.SimpleStatementLine(body=[value]) if value is call:
                        break
            else:
                continue
            kept.always += mask is None
            kept.below += mask is not None
            if kept.always and kept.below:
                raise refuse_growing(kept.name)
            ends = mask is not None and mask.flag == self.done and self.counted is None
            if kept.rounds and not ends:
                raise refuse_growing(kept.name)  # what counts need not come first
            if mask is None:
                return [node]
            counts, value = mask.counts(self.torch), self._safe(value_of(call), mask)
            text = code(value)
            if kept.carries:  # rounds go on with what they read, as with other names
                text = mask.chosen(self.torch, f"{kept.name}[-1]", text)
            appended = like(node, f"{kept.name}.append({text})")
            flag = line_of(f"{kept.flags}.append({counts})")
            return [appended] if kept.follows else [appended, flag]
        return None

    def _to_most(
        self, loop: cst.For | cst.While, counted: Rounds, first: list[cst.BaseStatement]
    ) -> tuple[cst.For | cst.While, str]:
        """The loop over as many rounds as there may be, and the test that it is over."""
        assert isinstance(loop, cst.For)
        target = code(loop.target)
        if not target.isidentifier():
            raise Refusal("its target is no name")
        counter = target if target != "_" else self.name("i")
        rounds = counted.tensor
        if not rounds.isidentifier() or rounds in activity(loop).bound:
            rounds = self.name("rounds")
            first.append(cst.parse_statement(f"{rounds} = {counted.tensor}"))
        limits = f"{counted.most}" if counted.start == "0" else f"{counted.start}, {counted.most}"
        over = cst.parse_expression(f"range({limits})")
        return loop.with_changes(target=cst.Name(counter), iter=over), f"{counter} >= {rounds}"

    def _given(self) -> list[cst.BaseStatement]:
        """``found = y[0]``: what is returned where no round returns; rounds put theirs over it.

        What is made behind the loop is selected there instead, and rounds make ``found``.
        """
        behind = self.behind
        if behind is None or behind.says:
            return []
        self._check_returned(behind)
        if not behind.early:
            lines = [*behind.between, cst.SimpleStatementLine([behind.last])]
            self.vain.check(*lines)
            for index, value in enumerate(behind.values):
                if behind.found and behind.found[index]:
                    hint = f"found_{value.value}" if isinstance(value, cst.Name) else "found"
                    behind.found[index] = self.name(hint if len(behind.found) > 1 else "found")
                    self.unbound.add(behind.found[index])
            self.frozen += [name for name in behind.found if name]
            return []
        (value,) = behind.values
        self.vain.check(cst.SimpleStatementLine([cst.Expr(value)]))
        if isinstance(value, cst.Name) and value.value in self.frozen:
            behind.found = [value.value]  # a round that returns gives it its value
            return []
        behind.found = [self.name("found")]
        self.frozen += behind.found
        return [cst.parse_statement(f"{behind.found[0]} = {code(value)}")]

    def _check_returned(self, behind: Behind) -> None:
        """Refuse what rounds return, where that is not like what is returned behind them."""
        facts = [self._returned(value) for value in behind.values]
        for node in walk(self.loop.body):
            if not isinstance(node, cst.Return):
                continue
            others = values_of(node)
            if len(others) != len(facts) or isinstance(node.value, cst.Tuple) != isinstance(
                behind.last.value, cst.Tuple
            ):
                raise Refusal("its `return` statements give different numbers of values")
            for index, (fact, value) in enumerate(zip(facts, others, strict=True)):
                if not behind.early and not behind.found[index]:
                    if code(value) == code(behind.values[index]):
                        continue
                    behind.found[index] = "found"
                other = self._returned(value)
                if fact is None or other is None or not fact.is_tensor or not other.is_tensor:
                    raise Refusal("it returns a value that is not known to be a tensor")
                # Of what did not run, the shape is not known; the ladder forces it to run.
                unlike = None not in (fact.shape, other.shape) and fact.shape != other.shape
                if unlike or (fact.dtype and other.dtype and fact.dtype != other.dtype):
                    raise Refusal(
                        "its `return` statements give tensors of different shapes or dtypes"
                    )

    def _returned(self, value: cst.BaseExpression) -> Fact | None:
        fact = self.values.fact(value)
        if fact is None and isinstance(value, cst.Name):
            fact = self.values.outside(value.value)
        return fact or self.ctx.fact(value)

    def _return(self, edit: Edit) -> None:
        """What the ``return`` behind the loop gives now."""
        behind = self.behind
        if behind is None:
            return
        assert behind.last.value is not None
        if behind.says:
            said = self.done if behind.says == "True" else f"{self.torch}.logical_not({self.done})"
            edit.replace(behind.last.value, cst.parse_expression(said))
            function = self.site.function_of(self.loop)
            if function is not None and function.returns is not None:  # `-> bool`
                told = cst.parse_expression(f"{self.torch}.Tensor")
                edit.replace(function.returns.annotation, told)
            return
        if behind.early:
            edit.replace(behind.last.value, cst.Name(behind.only))
            return
        mask = Mask(self.done)
        for line in behind.between:
            edit.replace(line, self._guarded(line, mask))
        found = [name for name in behind.found if name]
        if found and not (isinstance(self.loop, cst.For) and _surely_runs(self.loop.iter)):
            without = f"if {found[0]} is None:\n    return {code(behind.last.value)}\n"
            edit.insert_before(self.site.statement_of(behind.last), cst.parse_statement(without))
        texts = [
            mask.chosen(self.torch, name, code(self._safe(value, mask))) if name else code(value)
            for name, value in zip(behind.found, behind.values, strict=True)
        ]
        edit.replace(behind.last.value, cst.parse_expression(", ".join(texts)))

    def _asks(self) -> list[cst.BaseStatement]:
        """The first line of each round, for what the test of a ``while`` asked of data."""
        if self.bound is None or not self.bound.ends:
            return []
        return [line_of(f"{self.done} = {self.done} | {operand(self.bound.ends)}")]

    def _rounds(self) -> int:
        if self.counted is not None:
            return self.counted.most
        if not isinstance(self.loop, cst.For):
            return self.bound.rounds if self.bound is not None else 1
        match self.loop.iter:
            case cst.Call(func=cst.Name(value="range"), args=[*_, last]):
                fact = self.values.fact(last.value)
                if fact is not None and isinstance(fact.value, int):
                    return fact.value
        return 1

    def _not_done(self) -> str:
        """What the flag is at first."""
        kept = self.frozen or self.lists or self.numbers
        if self.behind is not None and self.behind.says and not kept:
            # Nothing is selected by it, and a flag of one value goes with those of any device.
            return f"{self.torch}.tensor(False)"
        return f"{self.torch}.tensor(False{self._device()})"

    def _device(self) -> str:
        if self.behind is not None and self.behind.only:
            return f", device={self.behind.only}.device"
        does = activity(self.loop)
        grown = [kept.name for kept in self.lists.values() if kept.grows is not None]
        for name in [*self.frozen, *grown, *sorted(does.reads - does.bound)]:
            fact = self.values.outside(name)
            if fact is not None and fact.is_tensor and name not in self.unbound:
                return f", device={name}.device"
        for name in sorted(does.reads):
            fact = self.values.outside(name)
            if fact is not None and fact.is_tensor and name in self._before:
                return f", device={name}.device"
        raise Refusal("it is not known on which device it computes")

    def _ends(self, statements: Sequence[cst.BaseStatement]) -> bool:
        """Whether data may end the loop (and not a round of it alone)."""
        if self.bound is not None and self.bound.ends:
            return True
        for statement in statements:
            left = exits([statement])
            if isinstance(statement, cst.If) and (left.breaks or left.returns):
                for inner in walk(statement):
                    if isinstance(inner, cst.If) and self._by_data(inner.test):
                        return True
        return False

    def _check(self, statements: Sequence[cst.BaseStatement]) -> set[str]:
        """Refuse what a round must not do in vain; the names whose rows it writes."""
        tests = () if self.bound is None else self.bound.asked
        if self.counted is not None:
            tests = (self.counted.asked,)
        appends = [call for kept in self.lists.values() for call in kept.appends]
        self.vain.known = frozenset(appends)
        self.vain.check(*tests, *statements, *self._else_statements())
        stored: set[str] = set()
        for node in (part for s in statements for part in walk(s)):
            target: cst.BaseExpression | None = None
            if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign):
                target = node.target
            if isinstance(target, cst.Subscript):
                if not isinstance(target.value, cst.Name):
                    raise Refusal(f"`{code(target)}` is written")
                stored.add(target.value.value)
            elif isinstance(target, cst.Attribute):
                raise Refusal(f"`{code(target)}` is set")
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                owner = self.values.fact(node.func.value)
                grows = owner is not None and owner.kind in ("list", "dict", "set")
                if grows and code(node.func.value) not in self.lists:
                    raise refuse_growing(code(node.func.value))
            elif isinstance(node, cst.NamedExpr) and not self._is_of_one(node):
                raise Refusal(f"`{code(node)}` binds a name in an expression")
        return stored

    def _is_of_one(self, node: cst.NamedExpr) -> bool:
        """Whether the name stands in its own statement, or test, alone."""
        for around in self.site.ancestors(node):
            if isinstance(around, cst.SimpleStatementLine):
                break
            if isinstance(around, cst.If | cst.While):
                around = around.test
                break
        else:
            return False
        name = code(node.target)
        places = set(self.site.places_of(name, self.function))
        return places <= set(walk(around))

    def _carry(self, used: frozenset[str], stored: set[str]) -> None:
        """Finds the names that must keep their values once the loop has ended."""
        first = branch_of(self.loop.body).statements[0]
        alone = {
            code(node.target)
            for node in walk(self.loop.body)
            if isinstance(node, cst.NamedExpr) and self._is_of_one(node)
        }
        bound = [name for name in names_bound([self.loop.body]) if name not in alone]
        live = live_before(self.function, first) | used
        before = self._before
        captured = captured_for_later(self.site, self.function)
        for name in bound:
            if name in captured:
                raise Refusal(f"`{name}` is used by a nested function")
            if name not in live or name in self.lists:
                continue
            fact = self.values.outside(name)
            if name not in before:
                if name in live_before(self.function, first):
                    raise Refusal(f"`{name}` may not be bound before it")
                self.unbound.add(name)
                self.frozen.append(name)
                self._check_steady(name)
                if is_number(fact):
                    self._only_alone(name)
            elif fact is not None and fact.is_tensor:
                if any(joins_itself(self.site, value, name) for value in self._bound_to(name)):
                    raise refuse_growing(name)
                self.frozen.append(name)
            elif name in used and is_number(fact) and self.behind is None:
                self.remember(name)
                self.frozen += [name] if not self.numbers[name].beside else []
            elif name in used:
                kind = "no tensor" if fact is None else f"no tensor ({fact.kind})"
                raise Refusal(
                    f"`{name}` is {kind}, and its value after the loop depends on the data; count"
                    " with a tensor"
                )
        if not self.frozen and not stored and self.behind is None and not self.lists:
            if comments_in(self.loop) or self._else_statements():
                raise Refusal("no name that it binds is used afterwards")
            self.idle = True

    def _check_steady(self, name: str) -> None:
        """Refuse what has another shape in each round, and of which the last is taken."""
        values = self._bound_to(name)
        facts = [self.values.fact(value) for value in values if value is not None]
        varies = any(fact is not None and None in (fact.shape or ()) for fact in facts)
        grown = {kept.name for kept in self.lists.values() if kept.grows is not None}
        # What is made of what grows is not followed: a round or two show no growth.
        if varies or (grown and grown & self._reads_behind(name)):
            raise Refusal(f"`{name}` may change its shape in it")

    def _reads_behind(self, name: str) -> set[str]:
        """The names that the loop makes a name of, directly and by others."""
        found: set[str] = set()
        queue = [name]
        while queue:
            for value in self._bound_to(queue.pop()):
                reads = activity(value).reads if value is not None else set(self.lists)
                queue += sorted(reads - found)
                found |= reads
        return found

    def _only_alone(self, name: str) -> None:
        self.remember(name)
        if self.numbers[name].beside or self.behind is not None:
            raise Refusal(
                f"`{name}` is a number that the loop binds first; bind it before the loop"
            )

    # -- statements --------------------------------------------------------------------------

    def block(
        self, statements: Sequence[cst.BaseStatement], mask: Mask | None
    ) -> tuple[list[cst.BaseStatement], Mask | None]:
        done: list[cst.BaseStatement] = []
        queue = list(statements)
        while queue:
            statement = queue.pop(0)
            jumps = _own_jumps([statement])
            if not jumps and isinstance(statement, cst.If) and self._collects(statement):
                done += self.collecting(statement, mask)
                continue
            if not jumps:
                done += self.plain(statement, mask)
                continue
            if not isinstance(statement, cst.If):
                raise Refusal("a `break`, `continue` or `return` is nested too deeply in it")
            if not self._by_data(statement.test):
                if any(self._by_data(i.test) for i in ifs_in(statement)):
                    raise Refusal(
                        "a jump that data decides is inside a branch that a Python value decides"
                    )
                if self.loop.orelse is not None:
                    raise Refusal("a Python condition may end it, too, and it has an `else`")
                if exits([statement]).returns:
                    raise Refusal("a Python condition may return from it, too")
                done.append(statement if mask is None else self._left_by_python(statement, mask))
                continue
            new, mask, rest = self.jump(statement, mask, last=not queue)
            done += new
            queue = [*rest, *queue]
        return done, mask

    def _left_by_python(self, node: cst.If, mask: Mask) -> cst.If:
        """A test of Python's from which the loop or a round is left, where data may have left it.

        A round that data ended may end here once more; a loop may not, as the next round counts.
        """

        def inside(body: cst.BaseSuite) -> cst.BaseSuite:
            old = branch_of(body).statements
            new = [line for statement in old for line in self._below_python(statement, mask)]
            if len(new) == len(old) and all(map(operator.is_, new, old)):
                return body
            if isinstance(body, cst.IndentedBlock):
                return body.with_changes(body=new)
            return cst.IndentedBlock(new)

        match node.orelse:
            case cst.If() as chained:
                orelse: cst.If | cst.Else | None = self._left_by_python(chained, mask)
            case cst.Else(body=body) as last:
                orelse = last.with_changes(body=inside(body))
            case _:
                orelse = None
        return node.with_changes(body=inside(node.body), orelse=orelse)

    def _below_python(self, statement: cst.BaseStatement, mask: Mask) -> list[cst.BaseStatement]:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Break()]):
                if mask.flag != self.done:
                    raise Refusal(
                        "a Python condition may end it in an iteration that data has ended already"
                    )
                return [statement]
            case cst.SimpleStatementLine(body=[cst.Continue()]):
                return [statement]
        if not _own_jumps([statement]):
            return self.plain(statement, mask)
        if not isinstance(statement, cst.If):
            raise Refusal("a `break`, `continue` or `return` is nested too deeply in it")
        return [self._left_by_python(statement, mask)]

    def _by_data(self, test: cst.BaseExpression) -> bool:
        return is_data_dependent(test, self.values) or decided_by_tensor(test, self.ctx)

    def jump(
        self, node: cst.If, mask: Mask | None, *, last: bool
    ) -> tuple[list[cst.BaseStatement], Mask | None, list[cst.BaseStatement]]:
        """``if test: ...; break``: its flag, the mask of what follows, and what else follows."""
        body = branch_of(node.body)
        rest: list[cst.BaseStatement] = []
        match node.orelse:
            case cst.Else() as orelse:
                rest = list(branch_of(orelse.body).statements)
            case cst.If() as chained:
                # Where the first test held, the loop is over: the next one is a test of its own.
                rest = [chained]
        *before, ending = body.statements
        ends = isinstance(node.orelse, cst.If) and only_breaks(node.body)
        if isinstance(node.orelse, cst.If) and not ends:
            raise Refusal("a `break`, `continue` or `return` is in an `if` with an `elif`")
        if _own_jumps(before) or (_own_jumps(rest) and not ends):
            raise Refusal("a `break`, `continue` or `return` is nested too deeply in it")
        breaks, kept = self._ending(ending)
        before = [*before, *kept]
        condition = self._condition(node.test)
        if condition.node is None:
            raise Refusal(f"`{code(node.test)}` may have dimensions")
        if condition.python and not breaks and not before:
            condition = self._with_python(condition)
        if condition.python and (before or not breaks or self.loop.orelse is not None):
            raise Refusal(f"`{condition.python}` is decided by Python, beside the data")
        if comments_in(node.test):
            raise Refusal("a condition holds a comment")
        above = [*leading(node), *(line for line in leading(ending) if line.comment)]
        header = body.header or comment_of(ending)
        test = operand(condition.tensor)
        if not breaks and not before and last and not rest:
            return [], mask, []
        if not before:
            flag = self.done if breaks else self.name("skips")
            if breaks and mask is not None and mask.flag != self.done:
                if condition.python:
                    raise Refusal(f"`{condition.python}` is decided by Python, beside the data")
                return self._after_skip(test, above, header, mask), mask, rest
            text = condition.tensor if mask is None else f"{mask.flag} | {test}"
            line = line_of(f"{flag} = {text}", () if condition.python else above, header)
            return self._asked(condition, line, above), Mask(flag), rest
        stops = self.name("stops" if breaks else "skips")
        text = condition.tensor if mask is None else f"{mask.counts(self.torch)} & {test}"
        new = [line_of(f"{stops} = {text}", above, header)]
        inside, _ = self.block(before, Mask(stops, rests=False))
        new += inside
        after = Mask(stops)
        if breaks:
            new.append(line_of(f"{self.done} = {self.done} | {stops}"))
            after = Mask(self.done)
        follows = rest or not last
        if follows and mask is not None and (not breaks or mask.flag != self.done):
            flag = self.name("idle")
            new.append(line_of(f"{flag} = {mask.flag} | {stops}"))
            after = Mask(flag)
        return new, after, rest

    def _ending(self, line: cst.BaseStatement) -> tuple[bool, list[cst.BaseStatement]]:
        """Whether a jump ends the loop, and what a returned value is kept under."""
        match line:
            case cst.SimpleStatementLine(body=[cst.Break()]):
                return True, []
            case cst.SimpleStatementLine(body=[cst.Continue()]):
                return False, []
            case cst.SimpleStatementLine(body=[cst.Return() as last]) if self.behind is not None:
                return True, self.behind.kept(last)
        raise Refusal("a `break`, `continue` or `return` is nested too deeply in it")

    def _condition(self, test: cst.BaseExpression) -> Condition:
        """A test as a tensor without dimensions, and what Python decides in it."""
        with contextlib.suppress(Refusal):
            found = split(test, self.values)
            if found.node is not None and self._is_point(found.node):
                return found
        try:
            parts = parts_of(test, self.ctx)
            if parts.tensor is None or parts_of(parts.tensor, self.ctx).python is not None:
                return Condition("")
            tensor = lower(parts.tensor, self.ctx).positive(self.torch)
        except Declined:
            return Condition("")
        asked = walk(parts.python) if parts.python is not None else ()
        if any(isinstance(node, cst.Call | cst.Subscript | cst.Attribute) for node in asked):
            return Condition("")  # it would be asked before the data
        python = "" if parts.python is None else code(parts.python)
        return Condition(tensor, python, parts.joint, parts.tensor)

    def _with_python(self, condition: Condition) -> Condition:
        """``use and x.sum() == 0`` as one tensor, where Python's part is a plain truth value.

        The data are asked in any case then: a part like ``x is not None`` may be there for that.
        """
        node = cst.parse_expression(condition.python)
        asks = any(
            isinstance(part, cst.Call | cst.Comparison | cst.Subscript) for part in walk(node)
        )
        equal = isinstance(node, cst.Comparison) and all(
            isinstance(it.operator, cst.Equal | cst.NotEqual) for it in node.comparisons
        )
        if asks and not equal:
            return condition
        sign = "&" if condition.joint == "and" else "|"
        truth = f"({condition.python})" if equal else f"bool({condition.python})"
        return Condition(f"{operand(condition.tensor)} {sign} {truth}", node=condition.node)

    def _is_point(self, node: cst.BaseExpression) -> bool:
        """Whether the test has no dimensions; ``torch.allclose`` gives a bool, made of a tensor."""
        fact = self.values.fact(node)
        return is_point(node, self.values) or (fact is not None and fact.kind == "bool")

    def _asked(
        self, condition: Condition, line: cst.BaseStatement, above: Sequence[cst.EmptyLine]
    ) -> list[cst.BaseStatement]:
        """The line under what Python decides in the test: ``if i > 0 and error < tolerance``."""
        if not condition.python:
            return [line]
        test = cst.parse_expression(condition.python)
        if condition.joint == "and":
            return [cst.If(test, cst.IndentedBlock([line]), leading_lines=above)]
        leaves = cst.IndentedBlock([cst.parse_statement("break")])
        return [cst.If(test, leaves, leading_lines=above), line]

    def _after_skip(
        self,
        test: str,
        above: Sequence[cst.EmptyLine],
        header: cst.Comment | None,
        mask: Mask,
    ) -> list[cst.BaseStatement]:
        """A ``break`` in a round that may have been skipped already."""
        stops = self.name("stops")
        return [
            line_of(f"{stops} = {mask.counts(self.torch)} & {test}", above, header),
            line_of(f"{self.done} = {self.done} | {stops}"),
            line_of(f"{mask.flag} = {mask.flag} | {stops}"),
        ]

    def plain(self, node: cst.BaseStatement, mask: Mask | None) -> list[cst.BaseStatement]:
        """A statement from which nothing jumps."""
        appended = self._append(node, mask)
        if appended is not None:
            return appended
        bound = names_bound([node])
        numbers = [self.numbers[name] for name in bound if name in self.numbers]
        if numbers and (mask is None or not self._is_countable(node, numbers, mask)):
            raise Refusal(f"`{numbers[0].name}` is no tensor, and data decides whether it changes")
        if mask is None:
            return [node]
        self.masked |= set(bound)
        beside = [it for it in numbers if it.beside]
        if beside:
            kept = [
                line_of(f"{it.kept} = {mask.chosen(self.torch, it.kept, it.name)}") for it in beside
            ]
            return [node, *kept]
        names = [name for name in bound if name in self.frozen]
        small = node.body if isinstance(node, cst.SimpleStatementLine) else ()
        if len(small) == 1:
            new = self._simple(node, small[0], names, mask)
            if new is not None:
                return new
        self._check_in_place(node)
        if not all(self._is_of_round(name, node) for name in rows_written(node)):
            raise Refusal(f"`{code(node).strip().splitlines()[0]}` writes rows below a test")
        if not mask.rests or mask.flag != self.done:
            self._check_numbers(node)
        if not names:
            return [self._guarded(node, mask)]
        if set(names) & self.unbound:
            raise Refusal(f"`{min(names)}` may not be bound before it")
        olds = {name: self.name(f"old_{name}") for name in names}
        kept = [line_of(f"{olds[name]} = {name}") for name in names]
        kept[0] = kept[0].with_changes(leading_lines=leading(node))
        node = self._guarded(node.with_changes(leading_lines=()), mask, node)
        after = [line_of(f"{name} = {mask.chosen(self.torch, olds[name], name)}") for name in names]
        return [*kept, node, *after]

    def _is_of_round(self, name: str, node: cst.BaseStatement) -> bool:
        """Whether a tensor is made in this round, and shares its memory with no other name's."""
        first = branch_of(self.loop.body).statements[0]
        if name in self.frozen or name in live_before(self.function, first):
            return False
        if not all(map(self._makes_new, self._bound_to(name))):
            return False
        seen = self.site.locals_before(node)
        fact = seen.get(name)
        if fact is None or not fact.is_tensor or not fact.storage:
            return False
        return [it.storage for it in seen.values()].count(fact.storage) == 1

    def _bound_to(self, name: str) -> list[cst.BaseExpression | None]:
        """What the rounds bind a name to; None where that is no plain assignment."""
        found: list[cst.BaseExpression | None] = []
        for part in walk(self.loop.body):
            match part:
                case cst.Assign(targets=targets, value=value):
                    found += [value for it in targets if name in target_names(it.target)]
                case cst.AnnAssign(target=target) | cst.NamedExpr(target=target):
                    found += [None] if name in target_names(target) else []
                case cst.For(target=target) | cst.AsName(name=cst.BaseExpression() as target):
                    found += [None] if name in target_names(target) else []
        return found

    def _makes_new(self, value: cst.BaseExpression | None) -> bool:
        """Whether a value is no view of what somebody holds: arithmetic, or what a module gives."""
        match value:
            case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
                return True
            case cst.Call(func=func):
                fact = self.values.fact(func)
                told = isinstance(func, cst.Attribute) and func.attr.value in NEW_MEMORY
                return told or (fact is not None and fact.kind == "module")
        return False

    def _is_countable(self, node: cst.BaseStatement, numbers: Sequence[Number], mask: Mask) -> bool:
        """Whether a line does no more than to bind numbers, and does it where rounds count."""
        if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
            return False
        if set(names_bound([node])) != {it.name for it in numbers}:
            return False
        every = mask.rests and mask.flag == self.done
        return every or not any(it.beside for it in numbers)

    def _check_in_place(self, node: cst.CSTNode) -> None:
        """Refuse ``x += y`` of a tensor in a block: what it changes cannot be put back."""
        for inner in walk(node):
            if isinstance(inner, cst.AugAssign) and isinstance(inner.target, cst.Name):
                fact = self.values.outside(inner.target.value) or self.values.fact(inner.target)
                if fact is None or not fact.is_python_scalar:
                    raise Refusal(f"`{inner.target.value}` is changed in place")

    def _check_numbers(self, node: cst.CSTNode) -> None:
        """Refuse a Python number that would go on counting in a round that is skipped."""
        first = branch_of(self.loop.body).statements[0]
        carried = live_before(self.function, first)
        for name in names_bound([node]):
            if name in carried and name not in self.frozen:
                raise Refusal(f"`{name}` is no tensor, and data decides whether it changes")

    def _simple(
        self,
        node: cst.BaseStatement,
        small: cst.BaseSmallStatement,
        names: list[str],
        mask: Mask,
    ) -> list[cst.BaseStatement] | None:
        match small:
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value) if (
                name in self.numbers
            ):
                sign = code(operator).strip().removesuffix("=")
                return self._bind(node, name, f"{name} {sign} {operand(code(value))}", mask)
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
            ) if name in self.numbers:
                text = code(value)
                text = self._tensor(text) if name in self.unbound else text
                return self._bind(node, name, text, mask)
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
            ) if name in names:
                self._check_alike(name, value)
                return self._bind(node, name, code(self._safe(value, mask)), mask)
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value) if (
                name in names
            ):
                self._check_alike(name, value, mixed=True)
                sign = code(operator).strip().removesuffix("=")
                if not is_private(self.site, name, self.loop, self.values):
                    return [self._in_place(node, name, sign, value, mask)]
                text = f"{name} {sign} {operand(code(self._safe(value, mask)))}"
                return self._bind(node, name, text, mask)
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
                fact = self.values.outside(name) or self.values.fact(small.target)
                if fact is not None and fact.is_python_scalar:
                    return None
                sign = code(operator).strip().removesuffix("=")
                return [self._in_place(node, name, sign, value, mask)]
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as place)]):
                old = code(place)
                self._check_row(place, small.value)
                text = mask.chosen(self.torch, old, code(self._safe(small.value, mask)))
                return [like(node, f"{old} = {text}")]
            case cst.AugAssign(target=cst.Subscript() as place, operator=operator, value=value):
                old = code(place)
                sign = code(operator).strip().removesuffix("=")
                text = f"{old} {sign} {operand(code(self._safe(value, mask)))}"
                return [like(node, f"{old} = {mask.chosen(self.torch, old, text)}")]
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())]) if not names:
                if not mask.rests or mask.flag != self.done:
                    self._check_numbers(node)
                return [self._guarded(node, mask)]
        return None

    def _in_place(
        self,
        node: cst.BaseStatement,
        name: str,
        sign: str,
        value: cst.BaseExpression,
        mask: Mask,
    ) -> cst.BaseStatement:
        """``x += torch.where(done, 0, y)``: a tensor that others hold is still changed in place."""
        neutral = {"+": "0", "-": "0", "*": "1", "/": "1"}.get(sign)
        fact = self.values.fact(value)
        if fact is not None and fact.dtype == "torch.bool":
            neutral = {"|": "False", "^": "False", "&": "True"}.get(sign)
        if neutral is None or not self.values.is_tensor(value):
            raise Refusal(f"`{name}` is changed in place")
        chosen = mask.chosen(self.torch, neutral, code(self._safe(value, mask)))
        return like(node, f"{name} {sign}= {chosen}")

    def _bind(
        self, node: cst.BaseStatement, name: str, value: str, mask: Mask
    ) -> list[cst.BaseStatement]:
        if name not in self.unbound:
            return [like(node, f"{name} = {mask.chosen(self.torch, name, value)}")]
        returned = self.behind is not None and name in self.behind.found
        if not returned and (mask.flag != self.done or not mask.rests):
            raise Refusal(f"`{name}` may not be bound before it")
        if value.isidentifier():
            chosen = mask.chosen(self.torch, name, value)
            return [like(node, f"{name} = {value} if {name} is None else {chosen}")]
        new = self.name(f"next_{name}" if name.startswith("new") else f"new_{name}")
        chosen = mask.chosen(self.torch, name, new)
        return [
            like(node, f"{new} = {value}"),
            line_of(f"{name} = {new} if {name} is None else {chosen}"),
        ]

    def _safe(self, value: cst.BaseExpression, mask: Mask) -> cst.BaseExpression:
        arms = ("1", "{}") if mask.rests else ("{}", "1")
        safe = f"{self.torch}.where({mask.flag}, {', '.join(arms)})"
        guarded = self.vain.guarded(value, safe)
        if not self.lists or not self.gradients:
            return guarded
        return self._of_ones(value, safe, guarded)

    def _of_ones(
        self, value: cst.BaseExpression, safe: str, guarded: cst.BaseExpression
    ) -> cst.BaseExpression:
        """The value of ones, where it does not count: nothing comes from it but an entry of a list.

        What has a guard keeps it: its operand may be made of other things, too.
        """
        ones = guarded.visit(FromOutside(self.values, self.masked, safe))
        assert isinstance(ones, cst.BaseExpression)
        self.vain.unsure += [
            code(node)
            for node in walk(value)
            if isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in _GROWS
            and "self." in code(node)
        ]
        return ones

    def _guarded(
        self, node: cst.BaseStatement, mask: Mask, original: cst.BaseStatement | None = None
    ) -> cst.BaseStatement:
        """The statement with harmless operands, where it is a plain assignment."""
        match node:
            case cst.SimpleStatementLine(body=[cst.Assign(value=value) as small]):
                new = small.with_changes(value=self._safe(value, mask))
                return node.with_changes(body=[new])
        for inner in walk(original or node):
            if isinstance(inner, cst.BaseExpression):
                self.vain.guarded(inner, "{}")
        return node

    def _check_row(self, place: cst.BaseExpression, value: cst.BaseExpression) -> None:
        old, new = self.values.fact(place), self.values.fact(value)
        if old is None or new is None or not (old.is_tensor and new.is_tensor):
            return
        if old.dtype != new.dtype and "int" in (old.dtype or ""):
            raise Refusal(f"`{code(place)}` gets values of another dtype")

    def _check_alike(self, name: str, value: cst.BaseExpression, *, mixed: bool = False) -> None:
        """Refuse where torch.where would broadcast or promote what the loop would have kept."""
        old, new = self.values.outside(name), self.values.fact(value)
        if old is None or new is None or not old.is_tensor:
            return
        if mixed:
            if new.is_tensor and old.dtype != new.dtype:
                raise Refusal(f"`{name}` changes its dtype in it")
            return
        if not new.is_tensor:
            raise Refusal(f"`{name}` is bound to a {new.kind} in it")
        shapes = old.shape is not None and new.shape is not None
        if shapes and old.shape != new.shape:
            raise Refusal(f"`{name}` changes its shape in it")
        if old.dtype and new.dtype and old.dtype != new.dtype:
            raise Refusal(f"`{name}` changes its dtype in it")

    # -- the loop's else ---------------------------------------------------------------------

    def _else_statements(self) -> list[cst.BaseStatement]:
        if self.loop.orelse is None:
            return []
        return list(branch_of(self.loop.orelse.body).statements)

    def _else(self) -> list[cst.BaseStatement]:
        """What stands in the ``else`` counts where no ``break`` was reached."""
        statements = self._else_statements()
        if not statements:
            return []
        if exits(statements).jumps or exits(statements).returns or exits(statements).raises:
            raise Refusal("its `else` leaves the function")
        assert self.loop.orelse is not None
        comments = [line for line in self.loop.orelse.leading_lines if line.comment is not None]
        if not any(name in self.frozen for name in names_bound(statements)):
            self.frozen += [n for n in names_bound(statements) if n not in self.frozen]
        new, _ = self.block(statements, Mask(self.done))
        return [new[0].with_changes(leading_lines=[*comments, *leading(new[0])]), *new[1:]]
