"""A choice that a tensor decides becomes ``torch.where``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.exits import exits
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Rewrite, Site, SiteError
from gbfix.rewriting.project import mentions
from gbfix.rewriting.settings import set_options
from gbfix.schema import Safety

from ..control_flow.autocast import may_be_cast
from . import module_cases
from .cases import EXAMPLES, NEAR_MISSES
from .context import Context, Declined
from .convert import Converter
from .layout import laid_out
from .matching import decides_by_tensor
from .tests import decided_by_tensor

_BACK = (
    "A Python number or truth value that is given comes out of a tensor, which a setting of Dynamo"
    " keeps in the graph."
)
_NOTE = "Both branches are evaluated, and one of them is taken."


#: What a lowering ends with that finds no text: a place that is not the file's, say.
_NOT_THIS_ONE = (Declined, SiteError, KeyError, cst.ParserSyntaxError, cst.CSTValidationError)


class LowerChoice(Codemod):
    """Turns choices that a tensor decides into ``torch.where``.

    **What it does**

    Evaluates both branches of an ``if``, a ternary, ``and`` or ``or`` whose test is a tensor, and
    selects with ``torch.where``: one for each value that the branches leave.  All choices of the
    function go at once.

    **When it applies**

    A ``match`` of plain values counts as the chain of ``if`` that it stands for.
    Branches that compute: assignments, returns, ``continue``, changes of attributes, buffers and
    elements in place, and blocks of Python's.  What Python decides (``is None``,
    ``self.training``, sizes) stays with Python.  A branch may call modules of the project's own
    classes where their text only computes: a layer that is left out at random is evaluated and not
    used.  Numbers and truth values that branches give to Python (``return x, True``) are read back
    with ``.item()``, and the option ``capture_scalar_outputs`` keeps them in the graph.

    **Fix safety**

    A value that gets no gradient from the branch taken gets none from the other: operations whose
    derivative may be infinite or NaN stand behind a gate, ``torch.where(test, x, 1)``.  Changes in
    place keep what is there where the branch is not taken.  Unsafe where the test asks whether
    something is finite (``if torch.isnan(loss): loss = torch.zeros_like(loss)``) and a gradient
    goes into what one branch alone uses: zero times infinity is NaN, and it reaches the weights.

    **Refuses**

    Branches that draw random numbers, raise, print, or call what a subclass may override; values
    that are no tensors.
    """

    name = "lower-choice"
    codes = (
        "GB0170",
        "GB0033",
        "GB0124",
        "GB7000",
        "GB0207",
        "data-dependent-guard",
        "data-dependent-specialization",
    )

    examples = (*EXAMPLES, *module_cases.EXAMPLES)
    near_misses = (*NEAR_MISSES, *module_cases.NEAR_MISSES)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        seen: set[str] = set()
        for modules, none, back, careful in _WAYS:
            for everything in (True, False):
                try:
                    rewrite = _rewrite(
                        site,
                        everything=everything,
                        modules=modules,
                        none=none,
                        back=back,
                        careful=careful,
                    )
                except _NOT_THIS_ONE:
                    continue
                text = rewrite.edits[site.path]
                if text not in seen:
                    seen.add(text)
                    yield rewrite


#: Whether arms may call modules, whether a tensor may stand where None was, whether numbers are
#: Python's again behind the choice, and whether modules get what they compute in vain from ones,
#: also where their derivatives are finite for every finite input.
_WAYS = (
    (False, False, False, False),
    (True, False, False, False),
    (False, True, False, False),
    (False, False, True, False),
    (True, False, True, False),
    (True, False, False, True),
)


def _rewrite(
    site: Site,
    *,
    everything: bool,
    modules: bool,
    none: bool = False,
    back: bool = False,
    careful: bool = False,
) -> Rewrite:
    ctx = Context(site)
    ctx.careful = careful
    ctx.tensor_for_none = none
    ctx.read_back = back
    target = choice_at(site, ctx)
    if target is None:
        raise Declined("")
    ctx.with_reads()
    chosen = _chosen(target, ctx, everything=everything)
    converter = Converter(ctx, chosen, modules=modules)
    edit = site.edit()
    if ctx.function is not None and isinstance(ctx.function.body, cst.IndentedBlock):
        old = list(ctx.function.body.body)
        new = converter.block(old)
        first = next((i for i, it in enumerate(old) if i >= len(new) or new[i] is not it), None)
        if first is None:
            raise Declined("")
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] is new[-1 - last]:
            last += 1
        gone, put = old[first : len(old) - last], new[first : len(new) - last]
        if not gone:
            raise Declined("")
        depth = ctx.site.span(gone[0]).column // max(1, len(site.module.default_indent))
        kept: set[cst.CSTNode] = {
            it for it in walk(ctx.function) if isinstance(it, cst.BaseStatement)
        }
        lines = laid_out(put, site.module, depth, kept)
        if lines:
            edit.replace(gone[0], *lines)
        told = {comment for line in lines for comment in comments_in(line)}
        for statement in gone[1 if lines else 0 :]:
            above = [line.comment.value for line in _above(statement) if line.comment]
            if above and told.issuperset(above):
                edit.moved(statement)
            else:
                edit.remove(statement)  # both branches did the same
    else:
        statement = site.statement
        (made,) = converter.block([statement])
        edit.replace(statement, made)
    if not converter.converted:
        raise Declined("")
    if ctx.torch_missing:
        edit.add_import("torch")
    rank = (12 if converter.vain.cheap and not modules else 24) + careful
    also: list[Rewrite] = []
    if ctx.reads_numbers:
        ctx.notes.append(_BACK)
        also = set_options(site, edit, ["capture_scalar_outputs"]) or []
    if converter.vain.multiplies and may_be_cast(ctx.site, ctx.scope):
        ctx.doubts.append(_AUTOCAST)
    if _takes_gradients(ctx) and mentions(site, r"\bsparse\s*=\s*True\b"):
        ctx.doubts.append(_SPARSE)
    ctx.notes += [*_kept_apart(target, ctx), *_warned(target, ctx)]
    return edit.rewrite(
        "select with torch.where instead of branching",
        notes=[*dict.fromkeys(ctx.doubts), _NOTE, *ctx.notes],
        safety=Safety.UNSAFE if ctx.doubts else Safety.SAFE,
        rank=rank + 8 * ctx.reads_numbers,
        also=also,
    )


def _kept_apart(target: cst.CSTNode, ctx: Context) -> list[str]:
    """What an object keeps is no longer the very tensor that it had, or that a branch gave it."""
    for node in walk(target):
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Attribute() as place)], value=value
            ) if ctx.is_tensor(value):
                return [f"`{code(place)}` is a new tensor after every call, which nobody else has."]
    return []


#: What warns of too few rows.
_SPREADS = frozenset({"std", "var", "std_mean", "var_mean", "cov", "corrcoef"})


def _warned(target: cst.CSTNode, ctx: Context) -> list[str]:
    """Torch's warning of a spread of one row comes where the branch is not taken, too."""
    for node in walk(target):
        if isinstance(node, cst.Call) and ctx.is_tensor(node):
            name = code(node.func).rpartition(".")[2]
            unbiased = not any("False" in code(arg) or "0" in code(arg) for arg in node.args)
            if name in _SPREADS and (unbiased or len(node.args) < 2):
                return [f"For a single row, torch warns of `{name}` also where no branch asks it."]
    return []


def _takes_gradients(ctx: Context) -> bool:
    """Whether the function reads ``.grad`` of something."""
    return any(isinstance(it, cst.Attribute) and it.attr.value == "grad" for it in walk(ctx.scope))


_SPARSE = "The project asks for sparse gradients, of which `torch.where` takes none."
_AUTOCAST = (
    "The program ran without autocast: under it, one branch may have a lower precision, and the"
    " result has the higher one of both."
)


def _above(statement: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    return getattr(statement, "leading_lines", ())


def choice_at(site: Site, ctx: Context) -> cst.CSTNode | None:
    """The choice whose test holds the break."""
    child: cst.CSTNode = site.node
    if isinstance(child, cst.If | cst.IfExp):
        return child
    if isinstance(child, cst.Match):
        return child if decides_by_tensor(child, ctx) else None
    found: cst.CSTNode | None = None
    for parent in site.ancestors(child):
        if isinstance(parent, cst.If | cst.IfExp | cst.CompIf) and child is parent.test:
            if isinstance(parent, cst.CompIf):
                return _filtered(site, parent)
            return parent
        if isinstance(parent, cst.Match) and decides_by_tensor(parent, ctx):
            return parent
        if isinstance(parent, cst.BooleanOperation):
            found = parent
        if isinstance(parent, cst.BaseStatement | cst.FunctionDef | cst.Lambda):
            break
        child = parent
    if isinstance(site.node, cst.BooleanOperation):
        found = site.node
    return found or _asking(site, ctx) or _generated(site, ctx)


def _asking(site: Site, ctx: Context) -> cst.CSTNode | None:
    """The first choice that asks for the number which the broken statement reads."""
    match site.statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))])]
        ) if name in ctx.reads:
            for node in walk(ctx.scope):
                if isinstance(node, cst.If | cst.IfExp) and _mentions(node.test, name):
                    return node
    return None


def _generated(site: Site, ctx: Context) -> cst.CSTNode | None:
    """The choice within a generator: the break stands at the call that takes its values."""
    for maker in walk(site.node):
        if isinstance(maker, cst.GeneratorExp):
            for node in walk(maker):
                if isinstance(node, cst.IfExp) and _is_choice(node, ctx):
                    return node
    return None


def _mentions(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(it, cst.Name) and it.value == name for it in walk(node))


def _filtered(site: Site, node: cst.CompIf) -> cst.CSTNode | None:
    for parent in site.ancestors(node):
        if isinstance(parent, cst.Call):
            return parent if _sums(parent) else None
        if isinstance(parent, cst.BaseStatement):
            return None
    return None


def _sums(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(
            func=cst.Name("sum"), args=[cst.Arg(value=cst.GeneratorExp() | cst.ListComp()), *_]
        ):
            return True
    return False


def _chosen(
    target: cst.CSTNode, ctx: Context, *, everything: bool
) -> Callable[[cst.CSTNode], bool]:
    known: dict[cst.CSTNode, bool] = {target: True}

    def chosen(node: cst.CSTNode) -> bool:
        if node in known:
            return known[node]
        found = False
        if everything and not (isinstance(node, cst.If) and exits(node).breaks):
            found = _is_choice(node, ctx)
        known[node] = found
        return found

    if not everything and isinstance(target, cst.If):
        # A chain of ``elif`` is one choice, and so is what stands in its branches.
        for node in walk(target):
            known[node] = node is target or _is_choice(node, ctx)
        for parent in ctx.site.ancestors(target):
            if not isinstance(parent, cst.If) or parent.orelse is None:
                break
            if isinstance(parent.orelse, cst.If) and _is_choice(parent, ctx):
                known[parent] = True
    return chosen


def _is_choice(node: cst.CSTNode, ctx: Context) -> bool:
    match node:
        case cst.If(test=test) | cst.IfExp(test=test):
            return decided_by_tensor(test, ctx)
        case cst.Match():
            return decides_by_tensor(node, ctx)
        case cst.BooleanOperation(left=left):
            parent = ctx.site.parent(node)
            value = cst.Assign | cst.Return | cst.Arg | cst.BinaryOperation
            return isinstance(parent, value) and ctx.is_tensor(left)
        case cst.Call() if _sums(node):
            each = node.args[0].value
            assert isinstance(each, cst.GeneratorExp | cst.ListComp)
            ifs = each.for_in.ifs
            return len(ifs) == 1 and decided_by_tensor(ifs[0].test, ctx)
    return False


__all__ = ["LowerChoice"]
