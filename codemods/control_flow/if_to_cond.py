"""A data-dependent ``if`` statement becomes ``torch.cond``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.names import fresh, names_in
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.rewriting.modules import may_draw
from gbfix.schema import Safety

from ..choice.context import Context
from ..choice.doubts import own_methods
from ..choice.finiteness import flows_from
from .autocast import has_products, may_be_cast
from .branches import holds_comment, leading
from .by_hand import IN_COROUTINE, elsewhere
from .if_to_cond_examples import EXAMPLES
from .if_to_cond_near_misses import NEAR_MISSES
from .layout import first_of_block
from .lowering import Lowering
from .refusal import Refusal
from .scalars import read_inside, reads_inside, scalars
from .sites import depth_of, if_at, rest_of, without_gradients
from .surroundings import SEVERAL, check_later_changes, is_one_of_several
from .values import Values


class IfToCond(Codemod):
    """Turns a data-dependent ``if`` into ``torch.cond``.

    **What it does**

    Both branches become functions (lambdas where each is a single expression) that return what the
    rest of the function needs: the returned value, or the names that the branches bind and that
    are used afterwards.  A call that both branches end with (``Output(a, b)``) is made after them.
    ``elif`` chains and nested data-dependent ``if`` statements become nested
    conds.  Python parts of a condition stay a Python ``if``.

    **When it applies**

    The test is a tensor of one element (or built from such by ``not``, ``and``, ``or``,
    comparison, ``.item()`` or ``bool()``); both branches end in the same way: by returning, by
    falling through, or one by returning where what follows the ``if`` returns too.

    **Fix safety**

    A branch that would return a tensor that lives outside it returns a copy, because the branches
    of ``torch.cond`` must not share memory with their inputs.  Parameters and inputs used only in
    the branch not taken get gradients of zero instead of ``None``.  Where such a zero meets an
    infinite derivative, and the branches only compare the tensor, they read it detached.

    **Refuses**

    Branches that draw random numbers where gradients are needed (the backward of ``torch.cond``
    runs the branch again and draws others); branches that change anything in place, raise, print,
    suspend, or jump out of a loop; names
    used afterwards and bound on one path only; values that are no tensors; tests of unknown size.
    """

    name = "if-to-cond"
    codes = (
        "GB0170",
        "GB0033",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None:
            advice = elsewhere(site)
            if advice:
                yield Advice(advice)
            return
        try:
            first, unknown = _rewrite(site, node, clone_unknown=False)
        except Refusal as refusal:
            if site.function is not None and site.function.asynchronous is not None:
                yield Advice(IN_COROUTINE)
            elif str(refusal):
                yield Advice(
                    f"torch.cond does not fit the `if` on line {site.span(node).line}: {refusal}."
                )
            return
        yield first
        if unknown:
            # A call whose body is not seen may hand back its input, which cond does not take.
            second, _ = _rewrite(site, node, clone_unknown=True)
            yield second
        compared = _only_compared(site, node)
        if compared:
            yield _rewrite(site, node, clone_unknown=unknown, detached=compared)[0]


def _given(lowering: Lowering, values: Values) -> set[str]:
    """The tensors written to that the caller gave: by a parameter's name, or by another."""
    parameters = parameters_of(lowering.function.params)
    facts = {name: values.outside(name) for name in {*parameters, *lowering.written}}
    storages = {name: fact.storage for name, fact in facts.items() if fact is not None}
    theirs = {storages.get(name, 0) for name in parameters} - {0}
    return {
        name for name in lowering.written if name in parameters or storages.get(name, 0) in theirs
    }


def _only_compared(site: Site, node: cst.If) -> list[str]:
    """Local tensors that the branches read, and through which they send no gradient.

    ``torch.cond`` sends zeros back through all that its branches read.  Behind a square root of 0
    they become NaN.
    """
    values = Values(site)
    ctx = Context(site)
    moved = [node.body, *([node.orelse] if node.orelse else []), *rest_of(site, node)]
    reads = set().union(*(activity(statement).reads for statement in moved))
    writes = set().union(*(activity(statement).writes for statement in moved))
    flows = set().union(*(flows_from(part, ctx, frozenset(reads), ever=True) for part in moved))
    own = set() if site.function is None else activity(site.function.body).bound
    facts = {name: values.outside(name) for name in (reads & own) - writes - flows}
    return sorted(
        name
        for name, fact in facts.items()
        if fact is not None and fact.is_tensor and str(fact.dtype).startswith(_FLOATING)
    )


_FLOATING = ("torch.float", "torch.bfloat", "torch.complex")


def _rewrite(
    site: Site, node: cst.If, *, clone_unknown: bool, detached: Sequence[str] = ()
) -> tuple[Rewrite, bool]:
    values = Values(site)
    if holds_comment(node.test):
        raise Refusal("the condition holds a comment")
    texts: dict[str, str] = {}
    reads = scalars(site, node, values, texts)
    lowering = Lowering(site, values, clone_unknown=clone_unknown)
    block = list(site.block_of(node))
    lowered = lowering.if_(node, rest_of(site, node), depth_of(site, node), top=True)
    remarks = [
        *_about_results(site, node, values, lowering),
        *_about_calls(site, values, lowering),
        *_about_the_program(site, node, values, lowering),
    ]
    statements = lowered.statements
    reads_inside(
        site, [node.body, *(s for s in (node.orelse, *lowered.swallowed) if s)], values, texts
    )
    taken = names_in(site.module)
    kept = {name: fresh(f"{name}_value", taken) for name in detached}
    texts |= kept
    if texts:
        statements = [read_inside(statement, texts) for statement in statements]
    if kept:
        first, *others = statements
        lines = [cst.parse_statement(f"{new} = {name}.detach()") for name, new in kept.items()]
        lines[0] = lines[0].with_changes(leading_lines=leading(first))
        statements = [*lines, first.with_changes(leading_lines=()), *others]
    if block.index(node) == 0:
        statements = first_of_block(statements)
    edit = site.edit()
    edit.replace(node, *statements)
    for read in reads:
        read.apply(edit)
    for statement in lowered.swallowed:
        edit.moved(statement)
    if values.torch_missing:
        edit.add_import("torch")
    title = "turn the data-dependent if into torch.cond"
    notes = [
        "Outside a compiled region torch.cond costs about 0.5 ms a call.",
        "Both branches are traced: an error in either (sizes that do not fit) is raised whichever"
        " is taken.",
    ]
    one_sided = has_products(site, node.body) is not has_products(
        site, node.orelse, *lowered.swallowed
    )
    cast = one_sided and may_be_cast(site, site.function or node)
    if one_sided:
        notes = [_AUTOCAST, *notes] if cast else [*notes, _AUTOCAST]
    notes += [note for note, _ in remarks]
    safe = not cast and all(safety is Safety.SAFE for _, safety in remarks)
    safety = Safety.SAFE if safe else Safety.UNSAFE
    return edit.rewrite(title, notes=notes, rank=20, safety=safety), lowering.unknown


_AUTOCAST = (
    "Under autocast, one branch may give a lower precision than the other, which torch.cond refuses"
    " with an error."
)


#: A note, and whether the rewrite is still safe where it applies.
_Remark = tuple[str, Safety]


def _about_results(
    site: Site, node: cst.If, values: Values, lowering: Lowering
) -> Iterator[_Remark]:
    """Results that are copies, and tensors that a branch changed in place."""
    if lowering.copied:
        check_later_changes(site, node, values, lowering.copied | lowering.results)
    if lowering.kept:
        names = _listed(lowering.kept)
        if without_gradients(site, node):
            raise Refusal(f"a copy of {names} would lose its gradient here")
        yield f"Where a branch hands on {names} itself, the result is now a copy.", Safety.SAFE
    if lowering.written:
        yield (
            f"Both branches write {_listed(lowering.written)}; where one did not change it, that"
            " branch writes the old value back.",
            Safety.SAFE,
        )
        given = _given(lowering, values)
        if given and not without_gradients(site, node):
            yield f"Raises where `{min(given)}` is a leaf that needs gradients.", Safety.UNSAFE


def _about_calls(site: Site, values: Values, lowering: Lowering) -> Iterator[_Remark]:
    """Random numbers, and calls that may draw some, or use parameters."""
    if lowering.random:
        # Measured on torch 2.13: the backward of cond runs the branch again, with new numbers.
        if values.needs_gradients():
            raise Refusal("a branch draws random numbers, which makes gradients of cond wrong")
        yield (
            "A branch draws random numbers: with gradients, its backward would be wrong.",
            Safety.UNSAFE,
        )
    elif lowering.opaque:
        yield (
            f"Parameters used only by the branch not taken ({_listed(lowering.opaque)}) get"
            " gradients of zero instead of None; dropout in there would get wrong gradients.",
            Safety.UNSAFE if may_draw(site, lowering.opaque) else Safety.SAFE,
        )


def _about_the_program(
    site: Site, node: cst.If, values: Values, lowering: Lowering
) -> Iterator[_Remark]:
    """What other conds, subclasses and callers of the function could do to it."""
    if values.needs_gradients() and is_one_of_several(site, node):
        yield SEVERAL, Safety.UNSAFE
    methods = own_methods(node, site)
    if methods:
        names = ", ".join(f"`{name}`" for name in methods)
        yield (
            f"Wrong for a subclass whose {names} counts its calls or draws numbers.",
            Safety.UNSAFE,
        )
    if lowering.apart:
        yield (
            f"Wrong where {_listed(lowering.apart)} shares memory with what a branch changes in"
            " place.",
            Safety.UNSAFE,
        )


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
