"""``while`` on tensor data becomes ``torch.while_loop``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.exits import exits
from gbfix.codemod import Advice, Codemod, Rewrite, Site

from .branches import branch_of
from .looping import rewrite_loop
from .refusal import Refusal
from .sites import if_at
from .values import Values
from .while_body import round_of
from .while_examples import EXAMPLES, NEAR_MISSES


class WhileToLoop(Codemod):
    """Turns a ``while`` that repeats until tensor data says otherwise into ``torch.while_loop``.

    **What it does**

    The test and the body become functions of what goes from one iteration to the next; other names
    are closed over.  A ``break`` or ``continue`` under a test becomes a flag, and names that the
    rest of the iteration binds keep their old value with ``torch.where``; so do names that an
    ``if`` binds.  A Python counter, or a float that literals change, becomes a tensor.

    **When it applies**

    The test is a tensor of one element, or the loop is ``while True`` with one ``if test: break``
    in its own block; the body is tensor code without effects, and rebinds tensors and numbers.

    **Fix safety**

    Where the loop ends at once, the results are copies of what they were; the backward of torch
    2.13 would run the body once even then, so ``torch.where`` takes what stood before the loop.
    Unsafe where a derivative of the body may not be finite (a zero gradient becomes NaN then), and
    beside another ``torch.cond`` or ``torch.while_loop`` where gradients are needed.

    **Refuses**

    ``return``, jumps deeper in the body, ``else`` beside ``break``; numbers that are used for more
    than counting, in the loop or after it; operations behind a test that may fail; changes in
    place, random numbers, prints, and calls whose body is not seen.
    """

    name = "while-to-loop"
    codes = ("GB0170", "data-dependent-guard")
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = _while_at(site)
        if node is None or site.function is None:
            return
        try:
            yield rewrite_loop(site, node, site.function, round_of(node), Values(site))
        except Refusal as refusal:
            line = site.span(node).line
            yield Advice(f"torch.while_loop does not fit the `while` on line {line}: {refusal}.")


def _while_at(site: Site) -> cst.While | None:
    """The ``while`` whose test broke, or the test before its ``break``."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.While):
        return child
    stop = if_at(site)
    if stop is not None:
        block = site.parent(stop)
        loop = None if block is None else site.parent(block)
        if not isinstance(loop, cst.While) or loop.body is not block:
            return None
        # A loop that only Python ends is unrolled: data has to have a say.
        return loop if exits(branch_of(loop.body).statements).breaks else None
    for parent in site.ancestors(child):
        if isinstance(parent, cst.While) and child is parent.test:
            return parent
        if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
            return None
        child = parent
    return None
