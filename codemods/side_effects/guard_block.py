"""Checks that compute before they raise or report, as the body of one operator.

A *guard* is a chain of tests (or an ``assert``) whose branches end in an error or in effects, with
whatever they compute for the message; the statements before it that only make what it reads belong
to it where no graph holds them: ``found = torch.unique(labels)``, an ``if`` that chooses between
two forms of the test.  A message is made only where the check fails, as before.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import with_leading_lines
from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import live_after
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.codemod import Advice, Rewrite, Site, Statement
from gbfix.schema import Fact

from ..wrap.capture import LOOSE_NUMBER, Captured, Parameter, Refused, has_loose_number, tensors
from ..wrap.capture_block import CapturedBlock, capture_block
from ..wrap.operator_text import (
    define,
    namespace,
    operator_name,
    schema_argument,
    signature,
    torch_alias,
)
from ..wrap.pure import AUTOCAST_METHODS
from ..wrap.same_operator import place_or_share
from .effect_operator import (
    TENSORS,
    WHY_ANCHOR,
    Effect,
    anchor,
    given_under,
    operator_notes,
)
from .feeding import is_unfit
from .raised import NOTE, is_error, shared_names
from .shown_tensors import Tensors

_LONGEST = 12
_SIMPLE = cst.Assign | cst.AnnAssign | cst.AugAssign


@dataclasses.dataclass(frozen=True)
class Guard:
    """Statements that become an operator, and what is left of them.

    ``run`` are those of the function; ``moved`` what the operator does, the same but for what a
    condition that stays (``under``) asks and for an ``else`` that stays (``rest``).
    """

    run: tuple[cst.BaseStatement, ...]
    moved: tuple[cst.BaseStatement, ...]
    under: cst.BaseExpression | None = None
    rest: tuple[cst.BaseStatement, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """The classes of the errors, as the code writes them."""
        found: list[str] = []
        for part in (part for line in self.moved for part in walk(line)):
            if isinstance(part, cst.Assert):
                found.append("AssertionError")
            elif isinstance(part, cst.Raise) and part.exc is not None:
                error = part.exc
                found.append(code(error.func if isinstance(error, cst.Call) else error))
        return list(dict.fromkeys(found))


EffectOf = Callable[[Site, cst.CSTNode], Effect | None]
Apart = Callable[[Site, cst.BaseExpression], tuple[cst.BaseExpression | None, cst.BaseExpression]]


def guards_at(site: Site, apart: Apart, *, raising: bool) -> Iterator[Guard]:
    """The guards that the site is a part of, the smallest first; ``raising``: with an error.

    An error that leaves the graph skips the end of a ``with``: a guard that holds it is first.
    """
    if site.function is None:
        return
    found = list(_runs(site, raising=raising))
    found.sort(key=lambda run: raising and is_within(site, run[0]))
    for run in found:
        for part in dict.fromkeys((_trimmed(site, run), run)):
            yield from _forms(site, part, apart)


def _runs(site: Site, *, raising: bool) -> Iterator[tuple[cst.BaseStatement, ...]]:
    """Statements from those that feed a guard to the guard, around the site."""
    assert site.function is not None
    statement: cst.CSTNode = site.statement
    while isinstance(statement, Statement) and statement is not site.function:
        while isinstance(statement, cst.If) and isinstance(above := site.parent(statement), cst.If):
            statement = above  # an `elif` is a part of the `if` above it
        block = list(site.block_of(statement))
        first = next((n for n, item in enumerate(block) if item is statement), None)
        if first is not None:
            for last in range(first, min(first + _LONGEST, len(block))):
                line = block[last]
                if _is_guard(line, raising=raising):
                    run = _with_feeding(site, block, first, last)
                    if run is not None:
                        yield run
                    break
                if not _may_feed(line):
                    break
        parent = next((p for p in site.ancestors(statement) if isinstance(p, Statement)), None)
        if parent is None:
            return
        statement = parent


def decides(site: Site, guard: Guard) -> bool:
    """Whether the site stands in a test of the guard, or in what is computed before it."""
    if site.statement in guard.run[:-1]:
        return True
    if isinstance(site.node, cst.If):
        return True
    child: cst.CSTNode = site.node
    for outer in site.ancestors(child):
        if isinstance(outer, cst.If) and outer.test is child:
            return True
        child = outer
    return False


def is_within(site: Site, statement: cst.CSTNode) -> bool:
    """Whether a ``with`` of the function is around a statement."""
    return any(
        isinstance(outer, cst.With) and site.function_of(outer) is site.function
        for outer in site.ancestors(statement)
    )


def _is_guard(line: cst.CSTNode, *, raising: bool) -> bool:
    """Whether a statement may raise (or else report), and leaves by nothing else."""
    found = exits(line)
    if found.jumps or found.yields or found.awaits:
        return False
    if isinstance(line, cst.SimpleStatementLine):
        return raising and [type(small) for small in line.body] == [cst.Assert]
    if not isinstance(line, cst.If | cst.For | cst.With):
        return False
    if raising:
        return bool(found.raises)
    return not found.raises and any(isinstance(part, cst.Expr) for part in walk(line))


def _may_feed(line: cst.CSTNode) -> bool:
    """Whether a statement may only compute."""
    if isinstance(line, cst.SimpleStatementLine):
        return all(isinstance(small, _SIMPLE) for small in line.body)
    return isinstance(line, cst.If | cst.For | cst.With) and not exits(line).any


def _with_feeding(
    site: Site, block: Sequence[cst.CSTNode], first: int, last: int
) -> tuple[cst.BaseStatement, ...] | None:
    """The run, and the statements before it that nothing else needs."""
    run = [line for line in block[first : last + 1] if isinstance(line, cst.BaseStatement)]
    if _is_read_by_others(site, run):
        return None
    # What the guard itself binds may be an `else` that stays.
    if _is_read_later(site, run[:-1] if isinstance(run[-1], cst.If) else run, run[-1]):
        return None
    for line in reversed(block[max(0, first - _LONGEST) : first]):
        if not isinstance(line, cst.BaseStatement) or not _may_feed(line):
            break
        if not activity(line).bound & activity(run).reads or _is_read_later(site, [line], run[-1]):
            break
        run.insert(0, line)
    return tuple(run)


def _is_read_later(
    site: Site, lines: Sequence[cst.BaseStatement], last: cst.BaseStatement | None = None
) -> bool:
    """Whether what the lines bind is read after the last, or by others than this function."""
    assert site.function is not None
    if not lines:
        return False
    if _is_read_by_others(site, lines):
        return True
    return bool(activity(list(lines)).bound & live_after(site.function, last or lines[-1]))


def _is_read_by_others(site: Site, lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether a closure, the module or who looks at the frame may read what the lines bind."""
    assert site.function is not None
    what = activity(list(lines))
    if what.nonlocals or what.closure_writes or what.dynamic or what.frame_access:
        return True
    return bool(what.bound & shared_names(site.function))


def _trimmed(site: Site, run: tuple[cst.BaseStatement, ...]) -> tuple[cst.BaseStatement, ...]:
    """Without the first statements that a graph can hold."""
    lines = list(run)
    while len(lines) > 1 and not any(part is site.node for part in walk(lines[0])):
        if not isinstance(lines[0], cst.SimpleStatementLine) or is_unfit(site, lines[0]):
            break
        if reads_integers(site, lines[0]):
            break
        del lines[0]
    return tuple(lines)


def reads_integers(site: Site, line: cst.CSTNode) -> bool:
    """Whether a statement reads integers of a tensor, which may be indices.

    inductor makes one kernel of what is computed from them for the check and of what is looked up
    by them afterwards: the kernel, which asserts that they are in bounds, would be first.
    """
    for part in walk(line):
        if isinstance(part, cst.Name | cst.Attribute):
            fact = site.fact(part)
            if fact is None and isinstance(part, cst.Name):
                fact = site.locals_before(site.statement_of(part)).get(part.value)
            dtype = (fact.dtype or "") if fact is not None and fact.is_tensor else ""
            if dtype.startswith(("torch.int", "torch.uint")):
                return True
    return False


def _forms(site: Site, run: tuple[cst.BaseStatement, ...], apart: Apart) -> Iterator[Guard]:
    """The run as a guard: under what Python decides, whole, and without its ``else``."""
    last = run[-1]
    if not isinstance(last, cst.If):
        yield Guard(run, run)
        return
    if len(run) == 1 and last.orelse is None:
        under, test = apart(site, last.test)
        if under is not None:
            yield Guard(run, (last.with_changes(test=test, leading_lines=()),), under)
    assert site.function is not None
    if not activity(last).bound & live_after(site.function, last):
        yield Guard(run, run)
    shorter = _without_else(last)
    if shorter is not None:
        head, rest = shorter
        yield Guard(run, (*run[:-1], head), None, rest)


def _without_else(
    head: cst.If,
) -> tuple[cst.If, tuple[cst.BaseStatement, ...]] | None:
    """A chain whose branches all raise, and the statements of its ``else``, which may follow."""
    if not _ends_in_raise(head.body):
        return None
    match head.orelse:
        case cst.Else(body=cst.IndentedBlock() as body) as branch:
            comments = [*branch.leading_lines, *body.footer]
            if body.header.comment or any(line.comment for line in comments):
                return None
            rest = [line for line in body.body if isinstance(line, cst.BaseStatement)]
            return head.with_changes(orelse=None), tuple(rest)
        case cst.If() as below:
            found = _without_else(below)
            if found is not None:
                return head.with_changes(orelse=found[0]), found[1]
    return None


def _ends_in_raise(body: cst.BaseSuite) -> bool:
    lines = list(statements_of(body))
    last = lines[-1] if lines else None
    if isinstance(last, cst.SimpleStatementLine) and last.body:
        last = last.body[-1]
    return isinstance(last, cst.Raise)


# -- the operator --------------------------------------------------------------------------------


def guard_operator(site: Site, guard: Guard, effect_of: EffectOf) -> Rewrite | Advice:
    """Rewrite a guard to a call of an operator that does the same; or advice that says why not.

    ``effect_of`` gives the effect of a statement that is nothing else.
    """
    verb = "check" if guard.kinds else "report"
    edit = site.edit()
    torch = torch_alias(site, edit)
    noted: list[str] = []

    def effect(call: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode] | None:
        stated = site.parent(call)
        found = effect_of(site, stated) if stated is not None else None
        if found is None or list(found.expressions) != [call] or found.template != "BODY0":
            return None
        noted.extend(found.notes)
        return found.kept

    def is_kind(error: cst.BaseExpression) -> bool:
        if not isinstance(error, cst.Call):
            return is_error(site, error)
        return is_error(site, error.func, custom=len(error.args) > 1)

    try:
        captured = capture_block(site, guard.moved, guard.run, torch, is_kind, effect)
        _check_autocast(captured)
        parameters = _checked(site, guard, captured)
    except Refused as reason:
        return Advice(f"the {verb} cannot move into a custom operator: {reason}.")
    home = site.function.name.value if site.function is not None else "module"
    name = operator_name(site, f"{verb}_{home}")
    why = ""
    if not any(parameter.annotation in TENSORS for parameter in parameters):
        parameters = (anchor(torch, {parameter.name for parameter in parameters}), *parameters)
        why = f"    {WHY_ANCHOR}\n"
    call = cst.Call(cst.Name(name), [cst.Arg(parameter.argument) for parameter in parameters])
    definition = _definition(site, torch, name, parameters, captured, why)
    call = place_or_share(site, edit, definition, call)
    line = cst.SimpleStatementLine([cst.Expr(call)])
    first, *others = guard.run
    if len(guard.run) == 1 and isinstance(first, cst.SimpleStatementLine):
        line = line.with_changes(trailing_whitespace=first.trailing_whitespace)
    new: cst.BaseStatement = with_leading_lines(line, like=first)
    if guard.under is not None:
        asked = cst.If(guard.under, cst.IndentedBlock([line]))
        new = with_leading_lines(asked, like=first)
    edit.replace(first, new, *(() if others else guard.rest))
    for number, other in enumerate(others, 1):
        if number == len(others) and guard.rest:
            edit.replace(other, *guard.rest)
        else:
            edit.moved(other)
    notes = list(operator_notes(site)) + ([NOTE] if guard.kinds else [])
    notes += [note for note in noted if note not in notes]
    numbers = [p.argument for p in parameters if not p.fact.is_tensor]
    if has_loose_number(site, numbers):
        notes.append(LOOSE_NUMBER)
    return edit.rewrite(
        f"move the {verb} into an effectful custom operator", rank=50, notes=tuple(notes)
    )


def _definition(
    site: Site,
    torch: str,
    name: str,
    parameters: Sequence[Parameter],
    captured: CapturedBlock,
    why: str,
) -> list[cst.BaseStatement]:
    names = ", ".join(parameter.name for parameter in parameters)
    schema = schema_argument(parameters)
    given = f'"{namespace(site)}::{name}", mutates_args=()'
    if schema:
        given = (
            "\n    "
            + f"{given}, {schema},".replace(", mutates", ",\n    mutates").replace(
                ", schema", ",\n    schema"
            )
            + "\n"
        )
    text = f"""@{torch}.library.custom_op({given})
def {name}({signature(parameters, torch)}) -> None:
{why}    pass


{name}.register_fake(lambda {names}: None)
{name}.register_effect({torch}.library.EffectType.ORDERED)
"""
    first, *rest = define(site, text)
    assert isinstance(first, cst.FunctionDef) and isinstance(first.body, cst.IndentedBlock)
    shell = first.body.body[0]
    above = getattr(shell, "leading_lines", ())
    start, *others = captured.statements
    start = start.with_changes(leading_lines=above)
    body = first.body.with_changes(body=[start, *others])
    return [first.with_changes(body=body), *rest]


def _checked(site: Site, guard: Guard, captured: CapturedBlock) -> tuple[Parameter, ...]:
    """The parameters; refuses texts that would differ without autograd, and errors that carry
    tensors.
    """
    parameters = tuple(given_under(p, guard.under) for p in captured.parameters)
    names = ", ".join(p.name for p in parameters if p.annotation != "dict")
    shell = cst.FunctionDef(
        cst.Name("body"), cst.Parameters(), cst.IndentedBlock(list(captured.statements))
    )
    text = cst.Module([shell], default_indent=site.module.default_indent).code
    function = ast.parse(text.replace("def body()", f"def body({names})", 1)).body[0]
    assert isinstance(function, ast.FunctionDef)
    if any(p.annotation == "list[torch.Tensor]" for p in parameters) and _asks_for_items(function):
        raise Refused("a list of tensors may have None among them")
    held = {p.name: p.fact for p in parameters if _items(p.fact)}
    for node in Tensors(function, held, autograd=False).carried():
        raise Refused(f"the error carries `{ast.unparse(node)}`, which may be a tensor")
    recorded = {name for name, fact in held.items() if any(map(_records, _items(fact)))}
    points = {name for name, fact in held.items() if fact.is_tensor and fact.shape == ()}
    for node in Tensors(function, recorded, points, autograd=True).shown():
        raise Refused(
            f"`{ast.unparse(node)}` prints its `grad_fn` or its class, which compiled code has"
            " lost; print `.detach()` or `.item()` of it instead"
        )
    return parameters


def _asks_for_items(function: ast.FunctionDef) -> bool:
    """Whether an item of what is looped over is compared with None."""
    targets = {
        part.id
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.comprehension)
        for part in ast.walk(node.target)
        if isinstance(part, ast.Name)
    }
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id in targets
        and isinstance(node.ops[0], ast.Is | ast.IsNot)
        for node in ast.walk(function)
    )


def _items(fact: Fact) -> Sequence[Fact]:
    """The tensors that a value is or holds."""
    return [one for one in (fact, *(fact.items or ())) if one.is_tensor]


def _records(fact: Fact) -> bool:
    return bool(fact.requires_grad) or fact.type.rpartition(".")[2] != "Tensor"


def _check_autocast(captured: CapturedBlock) -> None:
    facts = tensors(Captured((), captured.parameters))
    if not any(fact.dtype in ("torch.float16", "torch.bfloat16") for fact in facts):
        return
    for node in (part for line in captured.statements for part in walk(line)):
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
                if name in AUTOCAST_METHODS:
                    raise Refused(f"autocast may change `{code(node)}` in half precision")
