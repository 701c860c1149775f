"""Numbers of tensors that need not leave the tensor, followed over all their uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Safety

from ..api.splice import Splice
from .flow import Flow, Stopped, Widen, implicit_reads, number_reads
from .flow_counts import mask_counted
from .flow_uses import Uses
from .follow_cases import EXAMPLES, NEAR_MISSES
from .nested import Nested


class FollowNumber(Codemod):
    """*What it does.*  Keeps a number in its tensor, wherever the number goes in the function.

    ```python
    low = x.min().item() - 1
    out = x.new_full((6, 2), low)
    out[out == low] = 0
    ```
    becomes
    ```python
    low = x.min().detach().double() - 1
    out = x.new_empty((6, 2)).fill_(low)
    out[out == low] = 0
    ```

    *When it applies.*  To ``.item()``, ``int()``, ``float()`` and ``.tolist()`` of tensors, and to
    0-dimensional tensors that torch reads itself (``full_like``, ``alpha=``, an index), where every
    use of the number can take a tensor: arithmetic and comparisons with tensors, fills, ``clamp``,
    ``where``, entries of ``torch.tensor([...])``, an index, bounds of a slice that is written to,
    the start of a window whose size is known (``x[:, s:s + 4]``).

    *Fix safety.*  Numbers that meet in arithmetic are kept as int64 or float64, as Python computes
    them; beside tensors without dimensions, or of another sort of number, they are cast, so that
    torch chooses the dtypes that it chose before.  Unsafe where Python raises an error and tensors
    do not: a division by a number that may be zero, ``math`` out of its range, ``int(nan)``; and
    the other way where a window may lie outside of its tensor.

    *Refuses.*  Numbers that are returned, printed, kept in objects, sizes of tensors, other bounds
    of slices that are read, and names that are also bound to something else.
    """

    name = "follow-number"
    codes = (
        "GB0124",
        "GB0033",
        "GB0219",
        "backend-reads-number",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
        "internal-error",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        implicit = implicit_reads(site)
        if implicit:
            try:
                rewrite = _followed(site, implicit, tensors=True)
                if rewrite is not None:
                    # Windows of a known size have a form of their own, which comes first.
                    bounds = any(isinstance(site.parent(it), cst.Slice) for it in implicit)
                    yield dataclasses.replace(rewrite, rank=17) if bounds else rewrite
                    return
            except Stopped:
                pass
        reads = number_reads(site)
        if not reads:
            return
        near = _of_site(site, reads)
        why = ""
        for group in _groups(site, reads, near):
            try:
                rewrite = _followed(site, group)
            except Stopped as stopped:
                why = why or str(stopped)
                continue
            if rewrite is not None:
                yield rewrite
                return
        if why and near:
            yield Advice(f"A number that is read from a tensor cannot stay a tensor: {why}.")


def _of_site(site: Site, reads: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    inside = set(walk(site.statement))
    return [read for read in reads if read in inside]


def _groups(
    site: Site, reads: list[cst.CSTNode], near: list[cst.CSTNode]
) -> Iterator[Sequence[cst.CSTNode]]:
    yield reads
    read = [node for node in reads if mask_counted(site, node) is None]
    if read and len(read) < len(reads):
        yield read  # sizes that stay sizes
    if near and len(near) < len(reads):
        yield near


def _followed(site: Site, reads: Sequence[cst.CSTNode], *, tensors: bool = False) -> Rewrite | None:
    for wide in (False, True):
        try:
            uses = Uses(Flow(site, reads, wide=wide, tensors=tensors))
            uses.run()
            break
        except Widen:
            continue
    if not uses.edits or (uses.decisions and uses.decisions == uses.met):
        return None  # what only decides is for those who lower decisions
    nested = Nested(site, uses.edits)
    splice = Splice(site)
    for node in nested.outermost(site.function or site.module):
        splice.replace(node, nested.render(node))
    doubts = tuple(dict.fromkeys(uses.doubts))
    limits = tuple(dict.fromkeys(uses.limits))
    few = "numbers" if len(reads) > 1 else "the number"
    return splice.rewrite(
        f"keep {few} in a tensor",
        rank=40 if uses.decisions else 14,
        safety=Safety.UNSAFE if doubts else Safety.SAFE,
        notes=(*doubts, *limits),
    )
