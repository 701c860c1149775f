"""``if torch.isnan(loss): logger.warning(...)``: effects under a test of a tensor's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import statements_of
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.own_state import qualified
from .effect_operator import Effect, effect_operator
from .feeding import check_after, feeding_of
from .guard_block import decides, guard_operator, guards_at
from .logging_to_op import log_effect
from .print_to_op import print_effect
from .warning_to_op import warning_effect
from .write_to_op import write_effect

_SOURCE = """
import logging
import warnings

import torch

logger = logging.getLogger(__name__)


def f(x, n, flag):
    {}
    return x + 1
"""
_NAN = "torch.isnan(x).any()"
_FACTS = {"x": tensor(3), "n": scalar(3), "flag": scalar(True), _NAN: tensor(dtype="torch.bool")}
_FACTS |= {"count": scalar(3)}
_FACTS |= {"logger": Fact("object", "logging.Logger")}


def _example(
    title: str, before: str, call: str, name: str, signature: str, body: str, at: str = _NAN
) -> Example:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    named = qualified(name, keeps_state="logger." in body)
    operator = f"""

@torch.library.custom_op({named}, mutates_args=())
def {name}({signature}) -> None:
    {body}


{name}.register_fake(lambda {names}: None)
{name}.register_effect(torch.library.EffectType.ORDERED)


def f("""
    after = _SOURCE.format(call).replace("\n\ndef f(", operator)
    return Example(_SOURCE.format(before), after, at=at, facts=_FACTS, title=title)


def _near_miss(before: str, why: str, at: str = _NAN) -> NearMiss:
    return NearMiss(_SOURCE.format(before), at=at, why=why, facts=_FACTS)


class GuardedEffectToOp(Codemod):
    """*What it does.*  Moves an ``if`` around nothing but effects, test and all, into an operator.

    ```python
    if torch.isnan(loss):
        logger.warning("loss is nan at step %d", step)
    ```
    becomes ``log_step(loss, step)``, an operator at module level whose body is the same ``if``.

    *When it applies.*  The test depends on a tensor's data, and every branch holds only statements
    that `print-to-op`, `logging-to-op`, `warning-to-op` or `write-to-op` would move.  Numbers and
    selections that are made directly before the test, and that nothing else reads, move with it.

    *Fix safety.*  Safe.  The operator decides as Python did, on the same values, and its effects
    keep their place among the others; see `logging-to-op` for lines of log records.

    *Refuses.*  Branches that do anything else, tests that an operator cannot compute alike, and
    whatever the codemods named above refuse.
    """

    name = "guarded-effect-to-op"
    codes = ("GB0170", "GB0033", "GB0036", "GB0124", "data-dependent-guard")
    examples = (
        _example(
            "a warning about bad values",
            f"# Bad batch?\n    if {_NAN}:\n        warnings.warn(f'nan in {{n}}')  # once",
            "# Bad batch?\n    warn_f(x, n)",
            "warn_f",
            "x: torch.Tensor, n: torch.types.Number",
            f"if {_NAN}:\n        # once\n        warnings.warn(f'nan in {{n}}')",
        ),
        _example(
            "alternatives",
            f"if flag and {_NAN}:\n        logger.error('nan')\n        print('nan', n)\n"
            "    elif n > 2:\n        print('late')\n    else:\n        logger.debug('ok')",
            "log_f(flag, x, n)",
            "log_f",
            "flag: torch.types.Number, x: torch.Tensor, n: torch.types.Number",
            f"if flag and {_NAN}:\n        logger.error('nan')\n        print('nan', n)\n"
            "    elif n > 2:\n        print('late')\n    else:\n        logger.debug('ok')",
        ),
        _example(
            "a break reported for the statement",
            f"if {_NAN} or n > 2:\n        print(n)",
            "print_f(x, n)",
            "print_f",
            "x: torch.Tensor, n: torch.types.Number",
            f"if {_NAN} or n > 2:\n        print(n)",
            at=f"if {_NAN} or n > 2:\n        print(n)",
        ),
        _example(
            "a number read from a tensor",
            "if x.max().item() > n: print(x.max().item())",
            "print_f(x, n)",
            "print_f",
            "x: torch.Tensor, n: torch.types.Number",
            "if x.max().item() > n:\n        print(x.max().item())",
            at="x.max().item()",
        ),
        _example(
            "a number that only the message reads",
            "count = x.isnan().sum().item()\n    if count > n:\n        print(f'{count} nan')",
            "print_f(x, n)",
            "print_f",
            "x: torch.Tensor, n: torch.types.Number",
            "count = x.isnan().sum().item()\n    if count > n:\n        print(f'{count} nan')",
            at="x.isnan().sum().item()",
        ),
    )
    near_misses = (
        _near_miss(f"if {_NAN}:\n        print(1)\n        x = x + 1", "more than effects"),
        _near_miss(f"if {_NAN}:\n        print(1)\n    else:\n        x = 2", "more than effects"),
        _near_miss(f"if {_NAN}: raise ValueError", "an exception"),
        _near_miss(f"if {_NAN}: pass", "no effect"),
        _near_miss(f"if {_NAN}: x.add_(1)", "a change in place"),
        _near_miss(f"if {_NAN}: warnings.warn('a', source=x)", "with another source"),
        _near_miss("if torch.rand(1) > n: print(1)", "random numbers", "torch.rand(1) > n"),
        _near_miss("if (y := x.sum()) > 0: print(1)", "binds a name", "(y := x.sum()) > 0"),
        _near_miss(f"while {_NAN}: print(1)", "a loop"),
        _near_miss(f"if n: print({_NAN})", "not the test"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        plain = list(self._plain(site))
        if plain or site.function is None:
            yield from plain
            return
        for guard in guards_at(site, lambda _, test: (None, test), raising=False):
            if not decides(site, guard):
                continue
            made = guard_operator(site, guard, effect_of)
            if isinstance(made, Rewrite):
                yield made
                return

    def _plain(self, site: Site) -> Iterator[Rewrite | Advice]:
        """A chain whose branches hold nothing but effects."""
        head = chain_tested_at(site)
        if head is None:
            found = check_after(site)
            head = found if isinstance(found, cst.If) else None
        if head is None or site.function is None:
            return
        effect = _whole(site, head)
        if effect is not None:
            yield effect_operator(site, head, feeding_of(site, head).into(site, effect))


def chain_tested_at(site: Site) -> cst.If | None:
    """The ``if`` in whose test (or whose ``elif``'s) the site stands: the head of its chain."""
    child: cst.CSTNode = site.node
    found: cst.CSTNode | None = child
    if not isinstance(child, cst.If):  # a jump may be reported for the whole statement
        for parent in site.ancestors(child):
            if isinstance(parent, cst.If | cst.BaseStatement | cst.BaseSmallStatement | cst.Lambda):
                found = parent
                break
            child = parent
        if not isinstance(found, cst.If) or child is not found.test:
            return None
    while isinstance(found, cst.If):
        above = site.parent(found)
        if not isinstance(above, cst.If) or above.orelse is not found:
            return found
        found = above
    return None


def branches_of(head: cst.If) -> Iterator[cst.If | cst.Else]:
    """The branches of a chain, in order."""
    branch: cst.If | cst.Else | None = head
    while branch is not None:
        yield branch
        branch = branch.orelse if isinstance(branch, cst.If) else None


def _whole(site: Site, head: cst.If) -> Effect | None:
    """One effect for the whole chain; None where a branch does anything else."""
    found = []
    for branch in branches_of(head):
        effects = _effects_of(site, branch.body)
        if not effects:
            return None
        shown = [text for one in effects for node in one.expressions for text in comments_in(node)]
        comments = [text for text in comments_in(branch.body) if text not in shown]
        found.append((branch, effects, comments))
    return chain_effect(found)


def chain_effect(
    branches: Sequence[tuple[cst.If | cst.Else, Sequence[Effect], Sequence[str]]],
) -> Effect:
    """One effect that decides as the chain does: its branches with their effects and comments."""
    expressions: list[cst.BaseExpression] = []
    kept: dict[cst.CSTNode, cst.CSTNode] = {}
    texts: list[tuple[cst.BaseExpression, bool]] = []
    lines: list[str] = []
    notes: list[str] = []
    verb = ""
    for branch, effects, comments in branches:
        if isinstance(branch, cst.If):
            word = "elif" if lines else "if"
            lines.append(f"{word} BODY{len(expressions)}:")
            expressions.append(branch.test)
        else:
            lines.append("else:")
        lines += [f"    {text}" for text in comments]
        for one in effects:
            verb = verb or one.verb
            lines.append(f"    BODY{len(expressions)}")
            expressions += one.expressions
            kept |= one.kept
            texts += one.texts
            notes += [note for note in one.notes if note not in notes]
        if not effects:
            lines.append("    pass")
    template = "\n    ".join(lines)
    return Effect(verb, expressions, kept, texts, template, tuple(notes))


def _effects_of(site: Site, body: cst.BaseSuite) -> list[Effect]:
    """The effects that make up a block; none where a statement is something else."""
    effects = []
    for line in statements_of(body):
        for small in statements_of(line):
            effect = effect_of(site, small)
            if effect is None:
                return []
            effects.append(effect)
    return effects


def effect_of(site: Site, statement: cst.CSTNode) -> Effect | None:
    """The effect of a simple statement that is nothing else."""
    if not isinstance(statement, cst.Expr) or not isinstance(statement.value, cst.Call):
        return None
    for judge in (print_effect, log_effect, warning_effect, write_effect):
        effect = judge(site, statement.value)
        if isinstance(effect, Effect):
            return effect
    return None
