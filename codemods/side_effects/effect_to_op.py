"""Statements that only show, keep or write something, as an operator with ordered effects."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence, Set

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import with_leading_lines
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, identifier
from gbfix.analysis.tree import code, statements_of, walk, words
from gbfix.analysis.trees import tree_of
from gbfix.codemod import (
    Advice,
    Codemod,
    Edit,
    Rewrite,
    Site,
    Statement,
)
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from ..wrap.capture import Parameter, local_names
from ..wrap.operator_text import define, namespace, operator_name, place, signature, torch_alias
from ..wrap.pure import AUTOCAST_METHODS
from ..wrap.same_operator import place_or_share
from .block import NoBlock, Taken, Taker, uses_of
from .callees import Judge, Unfit, parsed
from .effect_cases import EXAMPLES, NEAR_MISSES
from .effect_operator import operator_notes
from .effects import may_require_grad
from .function_names import read_outside
from .moving import is_host_read, runs_at, texts_of_tensors
from .owners import find_owners
from .readers import (
    Shared,
    changed_in_place,
    holds_numbers,
    others_change,
    others_mention,
)
from .warning_to_op import STACKLEVEL

_ANCHOR = "# inductor may misplace an operator that takes no tensor: hence the anchor."
_NO_VERBS = words(
    """item mean float int len str sum any isnan isinf isfinite range tolist norm max min floor ceil
    log2 log10 sqrt"""
)
_VERBS = dict.fromkeys(words("debug info warning error critical exception isEnabledFor"), "log")
_VERBS |= dict.fromkeys(words("append add update extend setdefault"), "keep")
_VERBS |= dict.fromkeys(words("open writerow writerows writelines"), "write")


@dataclasses.dataclass
class Operator:
    """A block that has become an operator: the statements, and the call that replaces them."""

    run: Sequence[cst.BaseStatement]
    taken: Taken
    call: cst.BaseStatement
    name: str
    touches: frozenset[str]
    reads: frozenset[str]
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Gives:
    """A number that a block binds and that its operator returns: its name, and ``int``, ``float``
    or ``bool``.
    """

    name: str
    kind: str

    def returned(self, torch: str) -> str:
        """The lines that carry it; what is no such number in another call is an error there."""
        dtype = self._dtype(torch)
        return (
            f"if type({self.name}) is not {self.kind}:\n"
            f'    raise TypeError(f"{{type({self.name}).__name__}} where {self.kind} is carried")\n'
            f"return {torch}.tensor({self.name}, dtype={dtype})\n"
        )

    def _dtype(self, torch: str) -> str:
        return f"{torch}.{({'float': 'float64', 'int': 'int64'}).get(self.kind, 'bool')}"

    def fake(self, torch: str) -> str:
        return f"{torch}.empty((), dtype={self._dtype(torch)})"


class EffectToOp(Codemod):
    """*What it does.*  Moves statements that only show, keep or write something into an operator.

    ```python
    with open(self.path, "a") as fh:
        fh.write(json.dumps({"loss": loss.item()}) + "\\n")
    ```
    becomes ``write_forward(loss, self.path)``, a ``torch.library.custom_op`` with ordered effects
    whose body is the same block.

    *When it applies.*  The break stands in statements (or in what they call: a helper, a method of
    a meter or a progress bar) whose effect is all that counts: they bind nothing that is read
    later, leave by no jump, change no tensor and keep none.  A block under a test of a tensor's
    data moves with its test, a value that only the block reads moves with it.

    *Fix safety.*  Safe: the block runs on the same values, as often and in the same order.  Where
    it shows a tensor as text, autograd would show in it: then the operator is called for tensors
    without, and the statement stays for the others.  What the block adds to is not read or changed
    by what stays compiled.  An object is found by its identity, which its class notes in
    ``__new__``, so that copies are told apart.

    *Refuses.*  Tensors that would be kept (their memory may be reused behind the compiler), state
    that the compiled code reads or changes, too, objects of classes that are not known, and calls
    of which it is not known what they do.
    """

    name = "effect-to-op"
    uncovers = True
    codes = (
        "GB0003", "GB0007", "GB0008", "GB0021", "GB0033", "GB0036", "GB0048", "GB0059", "GB0088",
        "GB0092", "GB0098", "GB0109", "GB0124", "GB0134", "GB0142", "GB0147", "GB0151", "GB0156",
        "GB0162", "GB0170", "GB0207", "GB0208", "GB0228", "GB0232", "GB0234", "GB0264", "GB0271",
        "GB0291", "GB0293", "GB0294", "GB0298", "GB0299", "GB0312", "GB3934", "GB4841", "GB6215",
        "GB7000", "data-dependent-guard", "data-dependent-specialization", "user-error",
        "internal-error",
    )  # fmt: skip
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.code in _OF_TEXTS and not _is_about_texts(site):
            return  # what one call shows is moved by the codemods of such calls
        reasons: list[str] = []
        done = False
        here, *callers = [site, *site.callers()][:4]
        outward = callers and (
            _host_read_in_call(callers[0])
            or _warns_of_caller(site)
            or (_is_stated_call(callers[0]) and _has_several(site))
        )
        first = callers[0] if outward else None
        order = [first, here, *callers[1:]] if first is not None else [here, *callers]
        if site.function is not None and _keeps_results(site.function):
            order = callers  # compiled code passes by what such a function keeps: the call moves
        for number, view in enumerate(order):
            if view is None or view.function is None:
                continue
            for rewrite in _at(view, reasons, rank=50 + number):
                done = True
                yield rewrite
        if not done and reasons and site.function is not None and _looks_like_effect(site):
            yield Advice(f"the statement cannot move into a custom operator: {reasons[0]}.")


#: What Dynamo says of a text that holds a tensor.
_OF_TEXTS = frozenset({"GB3934", "GB4841"})


def _is_about_texts(site: Site) -> bool:
    does = activity(site.statement)
    return bool((does.reads | does.writes) & texts_of_tensors(site))


def _host_read_in_call(site: Site) -> bool:
    """Whether a call hands over what it reads from tensors: then the call itself must move."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return isinstance(statement.body[0], cst.Expr) and is_host_read(statement)


def _is_stated_call(site: Site) -> bool:
    match site.statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call())]):
            return True
    return False


def _keeps_results(function: cst.FunctionDef) -> bool:
    """Whether a function is run once for the same arguments (``functools.lru_cache``)."""
    return any(
        re.search(r"\b(?:lru_cache|cache)\b", code(decorator.decorator))
        for decorator in function.decorators
    )


def _has_several(site: Site) -> bool:
    """Whether a helper does several things: one operator for its call, not one for each."""
    if site.function is None or site.class_of(site.function) is not None:
        return False
    lines = [
        line
        for line in statements_of(site.function.body)
        if not code(line).strip().startswith(('"', "'"))
    ]
    return len(lines) > 1


def _warns_of_caller(site: Site) -> bool:
    """Whether a warning is about the line of the call: it is to be issued from a line there."""
    return any(_caller_level(part) is not None for part in walk(site.statement))


def _caller_level(node: cst.CSTNode) -> cst.Arg | None:
    """The argument by which ``warnings.warn`` speaks of a line further out."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name("warn")) | cst.Name("warn")):
            for number, argument in enumerate(node.args):
                name = argument.keyword.value if argument.keyword is not None else ""
                if name == "stacklevel" or (not name and number == 2):
                    return None if code(argument.value) == "1" else argument
    return None


def _looks_like_effect(site: Site) -> bool:
    statement = site.statement
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], cst.Expr
    )


def _at(site: Site, reasons: list[str], *, rank: int) -> Iterator[Rewrite]:
    """Rewrites at one place of the chain of calls, the smallest block first."""
    definition = _read_into_name(site)
    if definition is not None:
        rewrite = _for_uses(site, definition, reasons, rank)
        if rewrite is not None:
            yield rewrite
        return
    for run in (*_shown_later(site), *runs_at(site)):
        if isinstance(run[0], cst.FunctionDef | cst.ClassDef):
            return
        long = _with_texts(site, run)
        wholes = (_grown(site, run), _grown(site, run, counts=False), run, _grown(site, long), long)
        for whole in dict.fromkeys(wholes):
            try:
                edit = site.edit()
                yield rewritten(site, edit, [define_block(site, edit, whole)], rank)
                return
            except (NoBlock, Unfit) as reason:
                reasons.append(str(reason))


def _shown_later(site: Site) -> Iterator[tuple[cst.BaseStatement, ...]]:
    """The statement that shows the text of tensors that the site's statement makes."""
    made = activity(site.statement).writes & texts_of_tensors(site)
    for (around,) in runs_at(site) if made else ():
        block = list(site.block_of(around))
        at = next((n for n, item in enumerate(block) if item is around), len(block))
        for line in block[at + 1 :]:
            match line:
                case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call())]):
                    if activity(line).reads & made:
                        yield (line,)
                        return


def _with_texts(site: Site, run: tuple[cst.BaseStatement, ...]) -> tuple[cst.BaseStatement, ...]:
    """The block from where the texts of tensors that it shows are begun."""
    block = list(site.block_of(run[0]))
    first = next((n for n, item in enumerate(block) if item is run[0]), 0)
    texts = texts_of_tensors(site)
    wanted = activity(run).reads & texts
    begin = first
    for above in range(first - 1, -1, -1):
        does = activity(block[above])
        if (does.writes | does.mutates) & wanted:
            begin = above
            wanted |= activity(block[above]).reads & texts
    added = [item for item in block[begin:first] if isinstance(item, Statement)]
    return (*added, *run) if len(added) == first - begin else run


def _read_into_name(site: Site) -> str | None:
    """The name to which the site's statement binds a value that it reads from a tensor."""
    match site.statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
        ) if is_host_read(value):
            return name
    return None


def _for_uses(site: Site, name: str, reasons: list[str], rank: int) -> Rewrite | None:
    """One rewrite for all blocks that read a number out of a tensor."""
    inside = [use for use in uses_of(site, name) if site.statement_of(use) is not site.statement]
    for grown in (True, False):
        found = _with_blocks(site, name, inside, reasons, rank, grown=grown)
        if found is not None:
            return found
    whole = _from_first_to_last(site, inside)
    return _with_blocks(site, name, inside, reasons, rank, grown=False, first=whole)


def _from_first_to_last(site: Site, inside: Sequence[cst.Name]) -> tuple[cst.BaseStatement, ...]:
    """The statements beside the site's from the first to the last that use its number: one may
    read what another one keeps.
    """
    block = list(site.block_of(site.statement))
    at = [
        number
        for number, line in enumerate(block)
        if any(part is use for use in inside for part in walk(line))
    ]
    lines = block[min(at) : max(at) + 1] if at else []
    return tuple(line for line in lines if isinstance(line, Statement))


def _with_blocks(
    site: Site,
    name: str,
    inside: Sequence[cst.Name],
    reasons: list[str],
    rank: int,
    *,
    grown: bool,
    first: tuple[cst.BaseStatement, ...] = (),
) -> Rewrite | None:
    """The rewrite with the smallest blocks, or with the effects beside these, or with a ``first``
    block.
    """
    runs: list[tuple[cst.BaseStatement, ...]] = [first] if first else []
    try:
        edit = site.edit()
        for use in inside:
            if any(_holds(run, use) for run in runs):
                continue
            if site.function_of(use) is not site.function:
                raise NoBlock(f"a function inside reads `{name}`")
            runs.append(_block_of(site, use, grown=grown))
        if not runs:
            return None
        effects = [line for run in runs for line in run]
        alone = len(runs) == 1
        operators = [define_block(site, edit, run, harmless=effects, alone=alone) for run in runs]
        if any(name in activity(item.argument).reads for item in _arguments(operators)):
            raise NoBlock(f"`{name}` is read in a place that does not reach its definition")
        absorbed = [line for operator in operators for line in operator.taken.absorbed]
        if site.statement not in absorbed and isinstance(site.statement, cst.BaseStatement):
            edit.moved(site.statement)
        return rewritten(site, edit, operators, rank)
    except (NoBlock, Unfit) as reason:
        reasons.append(str(reason))
    return None


def _arguments(operators: Sequence[Operator]) -> list[Parameter]:
    return [item for operator in operators for item in operator.taken.parameters]


def _holds(run: Sequence[cst.CSTNode], node: cst.CSTNode) -> bool:
    return any(part is node for line in run for part in walk(line))


def _block_of(site: Site, use: cst.CSTNode, *, grown: bool) -> tuple[cst.BaseStatement, ...]:
    """The smallest block around a use (``grown``: with the effects beside it)."""
    statement: cst.CSTNode = site.statement_of(use)
    reason: Exception = NoBlock("it is used in more than effects")
    while isinstance(statement, Statement) and statement is not site.function:
        for run in dict.fromkeys(((statement,), _with_readers(site, statement))):
            try:
                define_block(site, site.edit(), run)
                return _grown(site, run) if grown else run
            except (NoBlock, Unfit) as error:
                reason = error
        parent = next(
            (item for item in site.ancestors(statement) if isinstance(item, Statement)), None
        )
        if parent is None:
            break
        statement = parent
    raise reason


def _with_readers(site: Site, statement: Statement) -> tuple[cst.BaseStatement, ...]:
    """The statement and those behind it that read what it binds: ``key = 1``, ``n[key] += 1``."""
    assert site.function is not None
    block = list(site.block_of(statement))
    first = next((n for n, item in enumerate(block) if item is statement), None)
    run: list[cst.BaseStatement] = [statement]
    while first is not None:
        bound = activity(run).bound & live_after(site.function, run[-1])
        if not bound or first + len(run) >= len(block):
            break
        behind = block[first + len(run)]
        if not isinstance(behind, Statement):
            break
        run.append(behind)
    return tuple(run)


def _grown(
    site: Site, run: tuple[cst.BaseStatement, ...], *, counts: bool = True
) -> tuple[cst.BaseStatement, ...]:
    """The block with the effects beside it: one operator for neighbours (and for ``counts``)."""
    block = list(site.block_of(run[0]))
    for step in (1, -1):
        while True:
            edge = run[-1] if step > 0 else run[0]
            index = next((n for n, item in enumerate(block) if item is edge), None)
            if index is None or not 0 <= index + step < len(block):
                break
            beside = block[index + step]
            if not isinstance(beside, Statement) or not _is_plain_effect(
                site, beside, run if counts else ()
            ):
                break
            wider = (*run, beside) if step > 0 else (beside, *run)
            try:
                define_block(site, site.edit(), wider)
            except (NoBlock, Unfit):
                break
            run = wider
    return run


def _is_plain_effect(site: Site, statement: Statement, run: Sequence[cst.BaseStatement]) -> bool:
    """Whether a neighbour is worth taking along: a call as a statement, an entry, a block, a
    count that the block asks (a graph would be compiled anew for each of its values), or what is
    done under a condition with what the block sets.
    """
    if isinstance(statement, cst.SimpleStatementLine):
        small = statement.body[0]
        call = isinstance(small, cst.Expr) and isinstance(small.value, cst.Call)
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Attribute):
            return len(statement.body) == 1 and any(
                isinstance(part, cst.Attribute) and code(part) == code(small.target)
                for line in run
                for part in walk(line)
            )
        if len(statement.body) != 1 or not (call or _stores_entry(small)):
            return False
    elif isinstance(statement, cst.If):
        if not _stored(run) & _attributes(statement):
            return False
    elif not isinstance(statement, cst.With):
        return False
    try:
        define_block(site, site.edit(), (statement,))
    except (NoBlock, Unfit):
        return False
    return True


def _stored(run: Sequence[cst.CSTNode]) -> set[str]:
    """The attributes that statements set: ``self.total``."""
    return {
        code(part.target)
        for line in run
        for part in walk(line)
        if isinstance(part, cst.AssignTarget | cst.AugAssign)
        and isinstance(part.target, cst.Attribute)
    }


def _attributes(node: cst.CSTNode) -> set[str]:
    return {code(part) for part in walk(node) if isinstance(part, cst.Attribute)}


def _stores_entry(small: cst.CSTNode) -> bool:
    match small:
        case cst.Assign(targets=[cst.AssignTarget(cst.Subscript())], value=value):
            return is_host_read(value)
    return False


# -- the operator --------------------------------------------------------------------------------


def define_block(
    site: Site,
    edit: Edit,
    run: Sequence[cst.BaseStatement],
    *,
    before: cst.BaseStatement | None = None,
    members: Sequence[cst.CSTNode] = (),
    harmless: Sequence[cst.CSTNode] = (),
    repeats: bool = False,
    gives: Gives | None = None,
    kept: Collection[str] = (),
    alone: bool = True,
) -> Operator:
    """Define the operator of a block in the edit, and call it in the block's place (or before a
    statement, out of whose ``members`` the block was made; ``repeats``: some of them stay there,
    and read the names ``kept``).  What it ``gives`` is read back under its name.  Where it is
    ``alone`` in its rewrite, an operator of the file that does the same is called instead.
    """
    for part in site.ancestors(before or run[0]):
        if isinstance(part, cst.If) and ".requires_grad" in code(part.test):
            raise NoBlock("it stands under a test of `requires_grad`, which an operator cannot see")
    bound = gives.name if gives is not None else ""
    taker = Taker(site, run, at=before, members=members, harmless=harmless, gives=bound)
    taken = taker.take(repeats=repeats)
    if gives is not None and not taken.owners:
        raise NoBlock("no object keeps anything for it")
    torch = torch_alias(site, edit)
    taken_names = {item.name for item in taken.parameters}
    lines: list[str] = []
    parameters = read_outside(site, edit, taken.parameters)
    if (gives is not None and gives.kind == "float") or mentions(site, _TRANSFORMS):
        # No gradient goes through a number, and none may be asked of the tensor that carries it.
        # Nor can `torch.func` differentiate an operator, which one without a result need not be.
        parameters = [_detached(item) for item in parameters]
    for mine, owner in taken.owners.items():
        table = find_owners(site, edit, taken.owner_types[owner])
        if not table:
            raise NoBlock(f"an operator cannot find `{mine}`, a {taken.owner_types[owner]}")
        key = fresh(f"{owner}_id", taken_names)
        lines.append(f"{owner} = {table}[{key}]")
        identity = cst.Call(cst.Name("id"), [cst.Arg(cst.Name(mine))])
        parameters.append(Parameter(key, "int", identity, Fact("int", "int")))
    if not any(item.annotation.startswith(("torch.Tensor", "list[torch.T")) for item in parameters):
        anchor = fresh("anchor", taken_names)
        empty = cst.parse_expression(f"{torch}.empty(0)")
        parameters.insert(0, Parameter(anchor, "torch.Tensor", empty, Fact("tensor")))
        lines.insert(0, _ANCHOR)
    body, note = _at_its_own_line(site, _body(site, taken, lines))
    shown, judge = _judged(site, taken, parameters, body, gives=gives is not None)
    if gives is not None and shown:
        raise NoBlock("a tensor's text may show its `grad_fn`")
    home = site.function.name.value if site.function is not None else "module"
    name = operator_name(site, _verb(run, home))
    definition = _definition(site, torch, name, parameters, body, gives)
    operator = cst.Call(cst.Name(name), [cst.Arg(item.argument) for item in parameters])
    if alone and gives is None and before is None:
        operator = place_or_share(site, edit, definition, operator)
    else:
        place(site, edit, definition)
    absorbed = [line for line in taken.absorbed if not activity(line).bound & set(kept)]
    along = [line.with_changes(leading_lines=()) for line in reversed(absorbed)]
    if before is not None:
        stays = run if shown else [before]
        call = _call(site, stays, operator, shown, torch, gives, before, along=along)
        call = call.with_changes(leading_lines=())
        edit.insert_before(before, call)
    else:
        call = _call(site, run, operator, shown, torch, gives, along=along)
        call = _under(_presence(run), call)
        edit.replace(run[0], call)
    for line in (*run[1:], *absorbed):
        edit.moved(line)
    notes = [*operator_notes(site), *([note] if note else [])]
    if judge.doings.debug and taken.tensors:
        notes.append("debug records, where they are on, show tensors without their `grad_fn`")
    if gives is not None:
        notes.append(f"what is no {gives.kind} in another call is an error there")
    notes += _of_numbers(parameters)
    notes += [
        f"`{table}` has to have texts without commas as names, and tensors as values"
        for table in taken.tables
    ]
    notes += _read_around(site, judge.doings.touches)
    if taken.owners:
        notes.append("it is compiled anew for each object whose method this is")
    return Operator(
        run,
        taken,
        call,
        name,
        frozenset(judge.doings.touches),
        frozenset(judge.doings.reads),
        tuple(notes),
    )


def _read_around(site: Site, touched: Set[str]) -> list[str]:
    """A function of the project that calls an object it is given, and reads what the block sets:
    compiled with the call, it would read that while it is traced.
    """
    names = {name.lstrip(".") for name in touched}
    for text in {site.source, *site.sources.values()}:
        for function in ast.walk(tree_of(text)):
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            given = {it.arg for it in (*function.args.args, *function.args.kwonlyargs)}
            inside = list(ast.walk(function))
            calls = any(
                isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and it.func.id in given
                for it in inside
            )
            for it in inside if calls else ():
                name = it.attr if isinstance(it, ast.Attribute) else getattr(it, "id", "")
                if name in names and isinstance(getattr(it, "ctx", None), ast.Load):
                    return [
                        f"`{function.name}` reads `{name}`: compiled together with the call, it"
                        " sees what was there before"
                    ]
    return []


def _of_numbers(parameters: Sequence[Parameter]) -> list[str]:
    """What an object may hold where the run has seen a number."""
    for item in parameters:
        number = item.annotation.startswith("torch.types.Number")
        if number and isinstance(item.argument, cst.Attribute):
            told = code(item.argument)
            return [f"`{told}` has to be a number of Python's: a tensor or numpy's is an error"]
    return []


def _presence(run: Sequence[cst.BaseStatement]) -> cst.BaseExpression | None:
    """What a block asks first of what may be None (``limit is not None and loss > limit``): a call
    with None is to reach no operator, whose parameters have one type.
    """
    match run:
        case [cst.If(test=cst.BooleanOperation(operator=cst.And()) as test, orelse=None)]:
            pass
        case _:
            return None
    first: cst.BaseExpression = test
    while isinstance(first, cst.BooleanOperation) and isinstance(first.operator, cst.And):
        first = first.left
    match first:
        case cst.Comparison(
            left=cst.Name() | cst.Attribute(),
            comparisons=[cst.ComparisonTarget(cst.IsNot(), cst.Name("None"))],
        ):
            return first
    return None


def _under(test: cst.BaseExpression | None, call: cst.BaseStatement) -> cst.BaseStatement:
    if test is None:
        return call
    inner = call.with_changes(leading_lines=())
    guarded = cst.If(test.with_changes(lpar=(), rpar=()), cst.IndentedBlock([inner]))
    return with_leading_lines(guarded, like=call)


#: Differentiates functions by transforming them.
_TRANSFORMS = r"\b(?:torch\.func|functorch|functional_call|jacrev|jacfwd|forward_ad)\b"


def _detached(parameter: Parameter) -> Parameter:
    """The parameter without the history of what is given for it."""
    if not parameter.annotation.startswith("torch.Tensor") or "None" in parameter.annotation:
        return parameter
    if not (parameter.fact.dtype or "").startswith(("torch.float", "torch.bfloat")):
        return parameter
    given = parameter.argument
    if not isinstance(given, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        given = given.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    cut = cst.Call(cst.Attribute(given, cst.Name("detach")))
    return dataclasses.replace(parameter, argument=cut)


def _body(site: Site, taken: Taken, lines: Sequence[str]) -> cst.IndentedBlock:
    text = "def body():\n" + "".join(f"    {line}\n" for line in lines) + "    pass\n"
    (shell,) = define(site, text)
    assert isinstance(shell, cst.FunctionDef) and isinstance(shell.body, cst.IndentedBlock)
    first, *rest = taken.statements
    kept = shell.body.body[:-1]
    comment = getattr(shell.body.body[-1], "leading_lines", ()) if not kept else ()
    trailing = getattr(shell.body.body[-1], "leading_lines", ())
    first = first.with_changes(leading_lines=comment or trailing)
    if not rest and isinstance(first, cst.SimpleStatementLine):
        first = first.with_changes(trailing_whitespace=cst.TrailingWhitespace())
    return shell.body.with_changes(body=[*kept, first, *rest])


def _at_its_own_line(site: Site, body: cst.IndentedBlock) -> tuple[cst.IndentedBlock, str]:
    """The body without levels of warnings, which count frames that an operator does not have."""
    levels = [found for part in walk(body) if (found := _caller_level(part)) is not None]
    if not levels:
        return body, ""
    function = site.function
    name = function.name.value if function is not None else ""
    calls = sum(
        isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] == name
        for text in {site.source, *site.sources.values()}
        for part in ast.walk(parsed(text) or ast.Module([], []))
    )
    new = body.visit(_Without(levels))
    assert isinstance(new, cst.IndentedBlock)
    if calls != 1 or any(code(level.value) != "2" for level in levels):
        return new, STACKLEVEL
    note = "the warning names the line of the operator, where it named that of the one call"
    return new, note


class _Without(cst.CSTTransformer):
    def __init__(self, gone: Sequence[cst.CSTNode]) -> None:
        super().__init__()
        self.gone = gone

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        pairs = zip(original_node.args, updated_node.args, strict=True)
        kept = [new for old, new in pairs if old not in self.gone]
        if len(kept) == len(updated_node.args):
            return updated_node
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=kept)


def _definition(
    site: Site,
    torch: str,
    name: str,
    parameters: Sequence[Parameter],
    body: cst.IndentedBlock,
    gives: Gives | None = None,
) -> list[cst.BaseStatement]:
    names = ", ".join(item.name for item in parameters)
    kind, fake = "None", "None"
    if gives is not None:
        kind, fake = f"{torch}.Tensor", gives.fake(torch)
        body = body.with_changes(body=[*body.body, *define(site, gives.returned(torch))])
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{name}", mutates_args=())
def {name}({signature(parameters, torch)}) -> {kind}:
    pass


{name}.register_fake(lambda {names}: {fake})
{name}.register_effect({torch}.library.EffectType.ORDERED)
'''
    first, *rest = define(site, text)
    assert isinstance(first, cst.FunctionDef)
    return [first.with_changes(body=body), *rest]


def _judged(
    site: Site,
    taken: Taken,
    parameters: Sequence[Parameter],
    body: cst.IndentedBlock,
    *,
    gives: bool = False,
) -> tuple[list[Parameter], Judge]:
    """The parameters whose tensors show as text, where autograd could show; may be `Unfit`."""
    names = ", ".join(item.name for item in parameters)
    shell = cst.FunctionDef(cst.Name("body"), cst.Parameters(), body)
    text = cst.Module([shell], default_indent=site.module.default_indent).code
    tree = ast.parse(text.replace("def body()", f"def body({names})", 1))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    tensors = frozenset(taken.tensors)
    points = frozenset(name for name, fact in taken.tensors.items() if fact.shape == ())
    owners = frozenset(taken.owners.values())
    _check_autocast(taken, function)
    judge = Judge({**site.sources, site.path: site.source}, taken.types, points)
    shows = judge.function(function, site.source, tensors, owners=owners)
    if not judge.doings.effect and not gives:
        raise Unfit("it has no visible effect")
    shown: list[Parameter] = []
    for parameter in parameters if shows else ():
        fact = taken.tensors.get(parameter.name)
        if fact is None or not may_require_grad(site, parameter.argument, fact):
            continue
        alone = Judge(judge.sources, taken.types, points)
        if alone.function(function, site.source, frozenset({parameter.name}), owners=owners):
            shown.append(parameter)
    for parameter in shown:
        fact = taken.tensors[parameter.name]
        if fact.requires_grad or any(item.requires_grad for item in fact.items or ()):
            raise Unfit(
                f"`{code(parameter.argument)}` shows its `grad_fn` or its class, which compiled"
                " code has lost; show `.detach()` or `.item()` of it instead"
            )
        if not fact.is_tensor:
            raise Unfit(f"a tensor in `{code(parameter.argument)}` may show its `grad_fn`")
    return shown, judge


def _check_autocast(taken: Taken, function: ast.FunctionDef) -> None:
    """Autocast, which an operator does not see, may change what is computed in half precision."""
    facts = [one for fact in taken.tensors.values() for one in (fact, *(fact.items or ()))]
    if not any(fact.dtype in ("torch.float16", "torch.bfloat16") for fact in facts):
        return
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in AUTOCAST_METHODS:
            raise Unfit(f"autocast may change `{ast.unparse(node)}` in half precision")


def _gathers(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Name(), attr=cst.Name("append" | "extend"))):
            return True
    return False


def _verb(run: Sequence[cst.BaseStatement], home: str) -> str:
    """A name for the operator out of what it does first."""
    parts = [part for line in run for part in walk(line)]
    stated = [part.value for part in parts if isinstance(part, cst.Expr)]
    # What is gathered for a text is not what the block is about.
    for call in sorted(stated, key=_gathers) + parts:
        if not isinstance(call, cst.Call):
            continue
        func = call.func
        last = func.attr.value if isinstance(func, cst.Attribute) else code(func)
        last = _VERBS.get(last, last).strip("_")
        if not last.startswith(("is_", "get")) and last not in _NO_VERBS and last.isidentifier():
            return identifier(f"{last}_{home}".lower())
    return f"keep_{home}"


def _call(
    site: Site,
    run: Sequence[cst.BaseStatement],
    call: cst.Call,
    shown: Sequence[Parameter],
    torch: str,
    gives: Gives | None = None,
    at: cst.BaseStatement | None = None,
    *,
    along: Sequence[cst.BaseStatement] = (),
) -> cst.BaseStatement:
    """``along``: what moved into the operator, and is not done before it any more."""
    old = run[0]
    line = cst.SimpleStatementLine([cst.Expr(call)])
    if gives is not None:
        value = cst.Call(cst.Attribute(call, cst.Name("item")))
        line = cst.SimpleStatementLine(
            [cst.Assign([cst.AssignTarget(cst.Name(gives.name))], value)]
        )
    if not shown:
        if isinstance(old, cst.SimpleStatementLine) and len(run) == 1:
            line = line.with_changes(trailing_whitespace=old.trailing_whitespace)
        return with_leading_lines(line, like=old)
    names = local_names(site, at or old)
    tests = []
    for item in shown:
        text = code(item.argument)
        if isinstance(item.argument, cst.Attribute) or (
            text in names and text in _parameters(site)
        ):
            tests.append(f"type({text}) is not {torch}.Tensor")
        tests.append(f"{text}.requires_grad")
    first, *rest = run
    kept = cst.IndentedBlock([*along, first.with_changes(leading_lines=()), *rest])
    guarded = cst.If(
        cst.parse_expression(" or ".join(tests)),
        kept,
        cst.Else(cst.IndentedBlock([line])),
    )
    return with_leading_lines(guarded, like=old)


def _parameters(site: Site) -> set[str]:
    assert site.function is not None
    written = activity(site.function.body).writes
    params = site.function.params
    return {
        item.name.value for item in (*params.posonly_params, *params.params, *params.kwonly_params)
    } - written


_OF_TORCH = re.compile(r"site-packages[/\\]torch[/\\]nn[/\\]modules[/\\]container\.py$")


def rewritten(
    site: Site,
    edit: Edit,
    operators: Sequence[Operator],
    rank: int,
    also: Sequence[Rewrite] = (),
) -> Rewrite:
    """The rewrite, unless what the operators change is read by what stays compiled."""
    new = edit.apply().code
    # Torch's containers read by names what they hold, which are layers.
    texts = [
        text
        for path, text in site.sources.items()
        if path != site.path and not _OF_TORCH.search(path)
    ]
    sources = [new, *texts]
    frames = {frame.function.rpartition(".")[2] for frame in site.graph_break.frames}
    assert site.function is not None
    start = frozenset({*frames, site.function.name.value})
    shared = Shared(sources)
    # A helper that only the operators call is no part of the region any more.
    start -= _only_moved(site, new, start)
    touches = frozenset[str]().union(*(item.touches for item in operators))
    if touches:
        name = others_mention(sources, shared.names(touches), start)
        if name:
            raise Unfit(f"`{name.lstrip('.')}` is read by compiled code, too")
        for name in touches:
            if not holds_numbers(sources, name) and shared.escapes(name):
                raise Unfit(f"`{name.lstrip('.')}` has another name, by which it may be read")
    reads = frozenset[str]().union(*(item.reads for item in operators))
    # What an object of an operator keeps under one name, the region may read under another one.
    held = changed_in_place(sources, reads)
    name = others_mention(sources, shared.names(held) - held, start)
    if name:
        raise Unfit(f"`{name.lstrip('.')}` is read by compiled code, too")
    others = changed_in_place(sources, shared.names(reads) - reads)
    name = others_change(sources, reads | others, start)
    if name:
        raise Unfit(f"`{name.lstrip('.')}` changes in compiled code, too, which shows later there")
    notes = tuple(dict.fromkeys(note for item in operators for note in item.notes))
    verb = operators[0].name.partition("_")[0]
    # A table of objects is more than a rewrite that needs none.
    later = 2 if any(item.taken.owners for item in operators) else 0
    return edit.rewrite(
        f"move the {verb} into an effectful custom operator",
        rank=rank + later,
        notes=notes,
        also=also,
    )


def _only_moved(site: Site, new: str, start: frozenset[str]) -> frozenset[str]:
    """Functions on the way to the break that only operators call, now."""
    inner = [frame.function.rpartition(".")[2] for frame in site.graph_break.frames]
    here = site.function.name.value if site.function is not None else ""
    below = inner[inner.index(here) + 1 :] if here in inner else []
    return frozenset(name for name in below if name != here)
