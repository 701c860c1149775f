"""``if bad.any(): logger.warning(...); x = torch.nan_to_num(x)``: effects beside data."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.exits import exits
from gbfix.analysis.purity import effects_of
from gbfix.analysis.tree import code, statements_of
from gbfix.codemod import (
    Advice,
    Codemod,
    Example,
    Facts,
    NearMiss,
    Rewrite,
    Site,
    SiteError,
    discover,
    scalar,
    tensor,
)
from gbfix.schema import Fact, Span

from .block import NoBlock
from .callees import Unfit
from .effect_to_op import define_block, rewritten
from .guarded_effect import branches_of, chain_tested_at

_BAD = "torch.isnan(x).any()"
_FACTS = {
    "x": tensor(3),
    "n": scalar(3),
    _BAD: tensor(dtype="torch.bool"),
    "logger": Fact("object", "logging.Logger"),
    "torch.nan_to_num(x)": tensor(3),
}


def _source(body: str) -> str:
    return f"""
import logging

import torch

logger = logging.getLogger(__name__)


def f(x, n):
    {body}
    return x * 2
"""


class PeelEffect(Codemod):
    """*What it does.*  Takes the effects out of an ``if`` on a tensor, and lowers what is left.

    ```python
    if torch.isnan(x).any():
        logger.warning("nan at step %d", n)
        x = torch.nan_to_num(x)
    ```
    becomes an operator ``log_f(x, n)`` whose body is ``if torch.isnan(x).any(): logger.warning``,
    followed by ``x = torch.where(torch.isnan(x).any(), torch.nan_to_num(x), x)``.

    *When it applies.*  Branches hold effects that `print-to-op`, `logging-to-op`, `warning-to-op`
    or `write-to-op` would move, and other statements which one of `if-to-where`, `if-to-cond`,
    `branchless-guard` and `raise-to-assert` can lower without them.

    *Fix safety.*  That of the lowering.  The operator decides as Python did, on the same values,
    and its effects keep their place among the others.

    *Refuses.*  Effects that read what the branch has changed in place before them (what it has
    computed, the operator computes, too), effects behind something that may leave the branch, and
    whatever the codemods named above refuse.
    """

    name = "peel-effect"
    codes = ("GB0170", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            _source(
                f"# Bad batch?\n    if {_BAD}:\n        # tell\n"
                '        logger.warning("at %d", n)\n'
                "        x = torch.nan_to_num(x)"
            ),
            """
import logging

import torch

logger = logging.getLogger(__name__)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_f", mutates_args=())
def log_f(x: torch.Tensor, n: torch.types.Number) -> None:
    if torch.isnan(x).any():
        # tell
        logger.warning("at %d", n)


log_f.register_fake(lambda x, n: None)
log_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n):
    log_f(x, n)
    # Bad batch?
    x = torch.where(torch.isnan(x).any(), torch.nan_to_num(x), x)
    return x * 2
""",
            at=_BAD,
            facts=_FACTS,
            title="a warning and a repair",
        ),
        Example(
            _source(
                f"if {_BAD}:\n        x = torch.nan_to_num(x)\n"
                '        logger.warning("%d: now %s", n, x.sum().item())'
            ),
            """
import logging

import torch

logger = logging.getLogger(__name__)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::log_f", mutates_args=())
def log_f(x: torch.Tensor, n: torch.types.Number) -> None:
    if torch.isnan(x).any():
        x = torch.nan_to_num(x)
        logger.warning("%d: now %s", n, x.sum().item())


log_f.register_fake(lambda x, n: None)
log_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n):
    log_f(x, n)
    x = torch.where(torch.isnan(x).any(), torch.nan_to_num(x), x)
    return x * 2
""",
            at=_BAD,
            facts=_FACTS,
            title="what is told was computed in the branch",
        ),
        Example(
            _source(f"total = x.sum()\n    if {_BAD}:\n        print(total)\n        x = x * 0"),
            """
import logging

import torch

logger = logging.getLogger(__name__)


@torch.library.custom_op("example::print_f", mutates_args=())
def print_f(x: torch.Tensor, total: torch.Tensor) -> None:
    if torch.isnan(x).any():
        print(total)


print_f.register_fake(lambda x, total: None)
print_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n):
    total = x.sum()
    if total.requires_grad:
        if torch.isnan(x).any():
            print(total)
    else:
        print_f(x, total)
    x = torch.where(torch.isnan(x).any(), x * 0, x)
    return x * 2
""",
            at=_BAD,
            facts={**_FACTS, "total": tensor(requires_grad=False), "x * 0": tensor(3)},
            title="a tensor's text, which shows where a gradient goes",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(body), at=_BAD, why=why, facts=_FACTS)
        for body, why in (
            (f"if {_BAD}: print(1)", "nothing but effects"),
            (f"if {_BAD}:\n        x = torch.nan_to_num(x)", "no effect"),
            (
                f"if {_BAD}:\n        x.nan_to_num_()\n        print(n, x.sum().item())",
                "shows what was changed in place",
            ),
            (
                f"if {_BAD}:\n        x = x + torch.rand(3)\n        print(n, x.sum().item())",
                "a second draw would be another one",
            ),
            (
                f"if {_BAD}:\n        if n: return x\n        print(n)\n        x = x + 1",
                "may have returned",
            ),
            (f"if {_BAD}:\n        n.seen += 1\n        print(n)\n        x = x + 1", "changed"),
            (f"if {_BAD}:\n        print(n)\n        n.append(x)", "cannot be lowered"),
            (f"while {_BAD}:\n        print(n)\n        x = x + 1", "a loop"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        head = chain_tested_at(site)
        if head is None or site.function is None:
            return
        peeled = _peel(site, head)
        if peeled is None:
            return
        chain, rest, members, repeats = peeled
        edit = site.edit()
        try:
            operator = define_block(
                site,
                edit,
                [chain],
                before=head,
                members=members,
                repeats=repeats,
                kept=activity(rest).reads,
            )
            edit.replace(head, rest)
            done = rewritten(site, edit, [operator], 50)
        except (NoBlock, Unfit):
            return
        moved = _after(site, done, head, rest, code(operator.call).strip().count("\n"))
        if moved is None:
            return
        found = [
            moved.composed(rewrite, done)
            for lowering in lowerings()
            if site.code in lowering.codes
            for rewrite in lowering.propose(moved.site)
            if isinstance(rewrite, Rewrite)
        ]
        yield from sorted(found, key=lambda item: item.rank)


@functools.cache
def lowerings() -> tuple[Codemod, ...]:
    """What turns the rest of an ``if`` into tensor code: the codemods of control flow."""
    return tuple(
        item
        for item in discover()
        if {"control_flow", "choice"} & {*type(item).__module__.split(".")}
    )


def _peel(site: Site, head: cst.If) -> tuple[cst.If, cst.If, list[cst.CSTNode], bool] | None:
    """A chain of the effects alone, the chain without them, what the first is made of, and whether
    it repeats what the second computes; None where they cannot be told apart.
    """
    gone: set[cst.CSTNode] = set()
    repeated: set[cst.CSTNode] = set()
    members: list[cst.CSTNode] = []
    for branch in branches_of(head):
        if not isinstance(branch.body, cst.IndentedBlock):
            return None
        if isinstance(branch, cst.If):
            members.append(branch.test)
        before: list[cst.CSTNode] = []
        for line in branch.body.body:
            if not _is_effect(site, line):
                before.append(line)
                continue
            changed = activity(*before)
            reads = activity(line).reads
            if before and exits(*before).any:
                return None
            if reads & (changed.bound | changed.mutates) or changed.mutates_unknown:
                # What is shown was computed in the branch: the operator computes it, too.
                if not all(_only_computes(site, item, head) for item in before):
                    return None
                repeated.update(before)
                members += before
            gone.add(line)
            members.append(line)
    if not gone or all(line in gone for branch in branches_of(head) for line in _lines(branch)):
        return None
    rest = head.visit(_Drop(gone))
    others = {line for branch in branches_of(head) for line in _lines(branch)} - gone - repeated
    assert isinstance(rest, cst.If)
    chain = _without(head, others).with_changes(leading_lines=())
    return chain, rest, members, bool(repeated)


def _only_computes(site: Site, line: cst.CSTNode, head: cst.If) -> bool:
    """Whether a line gives names to what it computes, of which a second time shows nothing."""
    held = site.locals_before(head)

    def known(node: cst.BaseExpression) -> Fact | None:
        fact = site.fact(node)
        return held.get(node.value) if fact is None and isinstance(node, cst.Name) else fact

    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]
        ):
            does = effects_of(value, known)
            return does.pure and not does.modules
    return False


def _is_effect(site: Site, line: cst.BaseStatement) -> bool:
    try:
        define_block(site, site.edit(), [line])
    except (NoBlock, Unfit):
        return False
    return True


def _without(branch: cst.If, gone: set[cst.CSTNode]) -> cst.If:
    """A chain without some of its lines, whose other nodes stay the same objects."""
    other = branch.orelse
    if isinstance(other, cst.If):
        other = _without(other, gone)
        if other.orelse is None and _is_empty(other.body):
            other = None
    elif other is not None:
        other = other.with_changes(body=_kept(other.body, gone))
        other = None if _is_empty(other.body) else other
    return branch.with_changes(body=_kept(branch.body, gone), orelse=other)


def _kept(body: cst.BaseSuite, gone: set[cst.CSTNode]) -> cst.BaseSuite:
    kept = [line for line in statements_of(body) if line not in gone]
    return body.with_changes(body=kept or [cst.SimpleStatementLine([cst.Pass()])])


def _is_empty(body: cst.BaseSuite) -> bool:
    return all(code(line).strip() == "pass" for line in statements_of(body))


def _lines(branch: cst.If | cst.Else) -> tuple[cst.CSTNode, ...]:
    return statements_of(branch.body)


class _Drop(cst.CSTTransformer):
    """Takes statements out; a branch that becomes empty holds ``pass``, an ``else`` goes."""

    def __init__(self, gone: set[cst.CSTNode]) -> None:
        super().__init__()
        self.gone = gone

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        pairs = zip(original_node.body, updated_node.body, strict=True)
        kept = [new for old, new in pairs if old not in self.gone]
        if len(kept) == len(updated_node.body):
            return updated_node
        return updated_node.with_changes(body=kept or [cst.SimpleStatementLine([cst.Pass()])])

    def leave_Else(  # type: ignore[override]
        self, original_node: cst.Else, updated_node: cst.Else
    ) -> cst.Else | cst.RemovalSentinel:
        lines = statements_of(original_node.body)
        return cst.RemoveFromParent() if all(x in self.gone for x in lines) else updated_node


# -- the program with the effects taken out --------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Shifted:
    """Facts of the original text for the peeled one, by lines that are in both."""

    facts: Facts
    lines: Mapping[int, int]

    def expression(self, span: Span, text: str) -> Fact | None:
        line, end = self.lines.get(span.line), self.lines.get(span.end_line)
        if line is None or end is None:
            return None
        return self.facts.expression(Span(line, span.column, end, span.end_column), text)

    def locals_before(self, line: int) -> Mapping[str, Fact]:
        return self.facts.locals_before(self.lines[line]) if line in self.lines else {}

    def executed(self, line: int) -> int | None:
        return self.facts.executed(self.lines[line]) if line in self.lines else None


@dataclasses.dataclass(frozen=True)
class _Peeled:
    site: Site
    touched: tuple[Span, ...]
    lines: Mapping[int, int]

    def composed(self, rewrite: Rewrite, done: Rewrite) -> Rewrite:
        """The lowering of the peeled text as one rewrite of the original."""
        spans = list(self.touched)
        for span in rewrite.touched.get(self.site.path, ()):
            old = [self.lines[n] for n in range(span.line, span.end_line + 1) if n in self.lines]
            if old:
                spans.append(Span(min(old), 0, max(old), 0))
        return dataclasses.replace(
            rewrite,
            title=f"{done.title}, then {rewrite.title}",
            touched={**rewrite.touched, self.site.path: tuple(spans)},
            notes=(*rewrite.notes, *done.notes),
            rank=rewrite.rank + 5,
        )


def _after(site: Site, done: Rewrite, head: cst.If, rest: cst.If, further: int) -> _Peeled | None:
    """The same break in the text with the effects taken out: a call, which has ``further`` lines
    below its first one, stands before it.
    """
    text = done.edits[site.path]
    # Lines correspond inside of the module's statement around: what stands behind it is the same.
    top = site.top_level_statement(head)
    old, new = site.source.split("\n"), text.split("\n")
    first, last = site.span(top).line, site.span(top).end_line
    fewer = len(site.text(head).split("\n")) - len(site.text(rest).split("\n"))
    end = len(new) - (len(old) - last)
    start = end - (last - first - fewer + 1 + further)
    matcher = difflib.SequenceMatcher(None, old[first - 1 : last], new[start:end], autojunk=False)
    lines = {
        start + block.b + offset + 1: first + block.a + offset
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    back = {old: new for new, old in lines.items()}
    frame = site.frame
    if frame.line not in back:
        return None
    shift = back[frame.line] - frame.line
    below = frame.end_line + shift if frame.end_line is not None else None
    moved = dataclasses.replace(frame, line=frame.line + shift, end_line=below)
    try:
        peeled = Site(
            site.path,
            text,
            dataclasses.replace(site.graph_break, site=moved),
            _Shifted(site.facts, lines),
            region=site.region,
            sources={**site.sources, site.path: text},
            entry=site.entry,
        )
    except (SiteError, cst.ParserSyntaxError):
        return None
    return _Peeled(peeled, done.touched[site.path], lines)
