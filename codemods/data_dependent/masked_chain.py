"""What a mask selects is bound to names, computed with element by element, and reduced then."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, telling_name
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from ..api.splice import Splice
from . import class_cases
from .chain_cases import EXAMPLES, NEAR_MISSES
from .chosen import REDUCTIONS, Chosen
from .empty_exit import EmptyExit, empty_exit
from .flow import torch_name
from .handed_on import is_handed_on
from .loss_modules import functional, loss_module
from .nested import Atom, Bare, Nested, Parts
from .selections import (
    ELEMENT_LOSSES,
    FLOATS,
    averaged,
    deviated,
    hit_tested,
    is_own,
    mean_function,
    missed,
    pairs,
    selection_of,
    tensor_fact,
    varied,
)

#: What a tensor has whatever is selected from it.
_SAME = words("dtype device requires_grad")
_OPTIONS = words("beta delta weight ignore_index label_smoothing")


class MaskedChain(Codemod):
    """*What it does.*  Keeps what a mask selects at full size, with zeros where it does not count:

    ```python
    p = pred[mask]
    t = target[mask]
    return ((p - t) ** 2).mean()
    ```
    becomes `p = torch.where(mask, pred, 0)`, `t = torch.where(mask, target, 0)` and
    `torch.where(mask, (p - t) ** 2, 0).sum() / mask.sum()`.

    *When it applies.*  The mask is a name that is bound once, or made of comparisons, and covers
    the first dimensions.  All that follows is computed row by row (element-wise functions, the last
    dimension, ``nn.Linear``, functions and modules of the file that do no more), and ends in
    ``sum``, ``mean``, a loss of ``torch.nn.functional``, in how many there are, or where the mask
    selected it: ``out[mask] = layer(x[mask])``.  An option may decide how it is reduced, and
    ``if len(p) == 0: return torch.tensor(0.0)`` becomes part of what is returned.

    *Fix safety.*  Safe: what is not selected is replaced before anything is computed from it, and
    gets no gradient; the mean of nothing is nan as before.
    A mean adds up in float32 or better, as ``mean`` does, in a function of the patch's own.

    Unsafe where a layer is given to the object, or a hook of the project may see its rows.

    *Refuses.*  What is selected is a result, is changed in place, or is compared among its rows
    (``max``, ``sort``, products of matrices, statistics of a batch); functions that may have no
    finite derivative at zero beside parameters, whose gradient would be lost.
    """

    name = "masked-chain"
    codes = ("GB0036", "GB0170", "data-dependent-guard", "data-dependent-other")
    examples = (*EXAMPLES, *class_cases.EXAMPLES)
    near_misses = (*NEAR_MISSES, *class_cases.NEAR_MISSES)

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for mask in [*_masks(site), *_unnamed(site)]:
            for flat in (False, True):
                rewrite = _Chain(site, mask, flat=flat).rewrite()
                if rewrite is not None:
                    yield rewrite
                    return


@dataclasses.dataclass(frozen=True)
class _Mask:
    """A mask by which the function selects."""

    name: str
    written: cst.BaseExpression
    #: The statement above which the mask gets the name, where it has none yet.
    above: cst.CSTNode | None = None


def _masks(site: Site) -> list[_Mask]:
    """The masks with names that nothing binds or changes again."""
    assert site.function is not None
    does = activity(site.function.body)
    params = set(parameters_of(site.function.params))
    for name in does.mutates:
        places = site.places_of(name, site.function.body)
        facts = [tensor_fact(site, place) for place in places]
        if any(fact is not None and fact.dtype == "torch.bool" for fact in facts):
            return []  # it may be the mask by another name
    found: dict[str, _Mask] = {}
    for node in walk(site.function.body):
        _, mask = selection_of(site, node) or (None, None)
        match mask:
            case cst.Name(name):
                text = name
            case cst.UnaryOperation(operator=cst.BitInvert(), expression=cst.Name(name)):
                text = f"(~{name})"
            case _:
                continue
        if name in does.mutates | does.captures:
            continue
        if is_handed_on(site, site.function, (name,), site.span(node).line, masks=True):
            continue
        if _is_bound_once(site, name, given=name in params):
            found.setdefault(text, _Mask(text, mask))
    return list(found.values())


def _unnamed(site: Site) -> list[_Mask]:
    """Masks that are written out in one block, and mean the same wherever they stand there."""
    assert site.function is not None
    does = activity(site.function.body)
    written: dict[str, list[cst.BaseExpression]] = {}
    for node in walk(site.function.body):
        _, mask = selection_of(site, node) or (None, None)
        if mask is None or isinstance(mask, cst.Name) or not _is_comparison(mask):
            continue
        if not any(isinstance(it, cst.BaseComp | cst.Lambda) for it in _inside_of(site, mask)):
            written.setdefault(code(mask.with_changes(lpar=(), rpar=())), []).append(mask)
    found = []
    for masks in written.values():
        lines = [site.statement_of(mask) for mask in masks]
        block = list(site.block_of(lines[0]))
        # (An `elif`, and what shares its line with an `if`, has no line above it.)
        whole = isinstance(site.parent(lines[0]), cst.IndentedBlock)
        if not whole or not all(line in block for line in lines):
            continue
        between = block[block.index(lines[0]) : block.index(lines[-1]) + 1]
        if not all(line in lines and _changes_nothing(line) for line in between):
            continue
        names = {node.value for node in walk(masks[0]) if isinstance(node, cst.Name)}
        # What the last of them binds, it binds when it has selected.
        alone = isinstance(lines[-1], cst.SimpleStatementLine) and len(lines[-1].body) == 1
        writes = activity(*(between[:-1] if alone else between)).writes
        if names & (writes | does.mutates | does.captures):
            continue
        taken = {node.value for node in walk(site.module) if isinstance(node, cst.Name)}
        name = fresh(telling_name(masks[0]), taken)
        found.append(_Mask(name, masks[0], lines[0]))
    return found


def _changes_nothing(line: cst.CSTNode) -> bool:
    """Whether nothing in the statement may change a tensor by this or another name."""
    if not isinstance(line, cst.SimpleStatementLine) or activity(line).mutates:
        return False
    for node in walk(line):
        if isinstance(node, cst.Call):
            name = code(node.func)
            last = name.rpartition(".")[2]
            known = "." in name and not name.startswith(("self.", "super"))
            if not (known or name in ("len", "int", "float", "max", "min")) or last.endswith("_"):
                return False
    return True


def _inside_of(site: Site, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What stands around the node, up to its statement."""
    for parent in site.ancestors(node):
        if isinstance(parent, cst.BaseStatement):
            return
        yield parent


_PLAIN = (
    cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.Comparison, cst.ComparisonTarget,
    cst.Equal, cst.NotEqual, cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.BitAnd,
    cst.GreaterThanEqual, cst.BinaryOperation, cst.BitOr, cst.UnaryOperation, cst.BitInvert,
    cst.Minus, cst.BaseParenthesizableWhitespace, cst.LeftParen, cst.RightParen, cst.Dot,
)  # fmt: skip


def _is_comparison(mask: cst.BaseExpression) -> bool:
    """Whether the mask is made of comparisons, so that it may be computed once, and earlier."""
    return all(isinstance(node, _PLAIN) for node in walk(mask))


def _is_bound_once(site: Site, name: str, *, given: bool = False) -> bool:
    """Whether the name has one value wherever it is used.

    In a loop it has another one in each round: it must not be used outside, or before.
    """
    assert site.function is not None
    binding: list[cst.CSTNode] = []
    for node in walk(site.function.body):
        if isinstance(node, cst.For):
            binds = any(isinstance(n, cst.Name) and n.value == name for n in walk(node.target))
            if binds and any(isinstance(p, cst.For | cst.While) for p in site.ancestors(node)):
                return False
        elif isinstance(node, cst.With):
            binds = any(name in activity(item).bound for item in node.items)
        elif isinstance(node, cst.BaseSmallStatement):
            binds = name in activity(node).bound
        else:
            continue
        if binds:
            binding.append(node)
    if len(binding) + given != 1:
        return False
    if not binding or not isinstance(binding[0], cst.BaseSmallStatement):
        return True
    if not any(isinstance(p, cst.For | cst.While) for p in site.ancestors(binding[0])):
        return True
    line = site.statement_of(binding[0])
    block = list(site.block_of(line))
    later = {id(node) for statement in block[block.index(line) :] for node in walk(statement)}
    return all(id(place) in later for place in site.places_of(name, site.function.body))


class _Chain:
    def __init__(self, site: Site, mask: _Mask, *, flat: bool = False) -> None:
        self.site = site
        self.torch = torch_name(site)
        self.mask = mask.name
        self._flat = flat
        self._new = mask
        self.chosen = Chosen(site, mask.name, mask.written, flat=flat)
        self.edits: dict[cst.CSTNode, Parts] = {}
        self.covered: set[cst.CSTNode] = set()
        #: Where Python decides whether a name is reduced, the name: otherwise it is a selection.
        self.kept: list[tuple[cst.If, str]] = []
        #: The calls that reduce it, with the name.
        self.reduced: list[tuple[cst.BaseExpression, str]] = []
        #: An early return where nothing is selected, which becomes part of what is returned.
        self.exit: EmptyExit | None = None

    def rewrite(self) -> Rewrite | None:
        function = self.site.function
        assert function is not None
        if self._flat and not self.chosen.flat:
            return None
        self._names(function)
        self._reduced_somewhere(function)
        for node in walk(function.body):
            if isinstance(node, cst.Call):
                self._sink(node)
            elif isinstance(node, cst.Assign | cst.AugAssign):
                self._write(node)
            self._count(node)
        self._give_back(function)
        self._leave_with_rest(function)
        if not self._is_covered(function) or not self._is_here():
            return None
        nested, splice = Nested(self.site, self.edits), Splice(self.site)
        tests = [
            node
            for node in walk(function.body)
            if isinstance(node, cst.If) and self._needs_no_test(node)
        ]
        inside = {node for test in tests for node in walk(test)}
        for test in tests:
            if _only_goes_on(test):
                splice.delete_lines(test)
            else:
                splice.replace(test, self._without_test(nested, test))
        for node in nested.outermost(function):
            if node not in inside and not self._is_left_out(node):
                splice.replace(node, nested.render(node))
        for test, name in self.kept:
            self._keep(splice, test, name)
        if self.exit is not None:
            splice.delete_lines(self.exit.test)
        splice.insert_function(mean_function(self.site, self.edits.values()))
        if self._new.above is not None:
            mask = code(self._new.written.with_changes(lpar=(), rpar=()))
            splice.insert_line_before(
                self._new.above, f"{self.mask} = {mask}", above_comments=False
            )
        return splice.rewrite(
            "compute with zeros where nothing is selected",
            notes=self._notes(left_out=bool(tests)),
            rank=13,
            safety=Safety.UNSAFE if self.chosen.given else Safety.SAFE,
        )

    def _notes(self, *, left_out: bool) -> list[str]:
        """What a user should know; ``left_out``: tests for a hit are gone."""
        notes = [
            "Whole tensors are computed with, whatever the mask selects; a tensor whose sizes are 1"
            " where the mask's are not is spread, where a selection raised an IndexError."
        ]
        if left_out or self.exit is not None:
            notes.append("Where nothing is selected, gradients are zero in place of none.")
        if self.exit is not None:
            notes.append("The number for nothing has the dtype and the device of the loss.")
        given = ", ".join(f"`{name}`" for name in self.chosen.given)
        if given:
            notes.append(
                f"{given} may be another layer elsewhere, or have a hook: one that looks at all"
                " rows together (a batch norm) would see those that are not selected"
            )
        return notes

    # -- names -------------------------------------------------------------------------------

    def _names(self, function: cst.FunctionDef) -> None:
        """Finds the names that hold selections, in the order of the text."""
        does = activity(function.body)
        shared = {*does.globals, *does.nonlocals, self.mask}
        params = set(parameters_of(function.params))
        blocks: dict[str, Sequence[cst.CSTNode]] = {}
        for node in walk(function.body):
            if not isinstance(node, cst.Assign) or len(node.targets) != 1:
                continue
            span = self.site.span(node)
            for target, value in pairs(node.targets[0].target, node.value):
                if not isinstance(target, cst.Name) or target.value in shared:
                    continue
                name = target.value
                uses = self.chosen.uses_of(value)
                since = (0, 0)
                if name in params or not _is_bound_once(self.site, name):
                    block = self.site.block_of(self.site.statement_of(node))
                    if name in does.captures or not self._is_in_line(
                        node, name, block, blocks.get(name)
                    ):
                        continue
                    since = (span.end_line, span.end_column)
                if uses is None:
                    if name in blocks:
                        self.chosen.end(name, since)
                        self.covered.add(target)
                    continue
                if since != (0, 0):
                    blocks[name] = block
                self.chosen.bind(name, value, since)
                self._take(uses)
                self.covered.add(target)

    def _reduced_somewhere(self, function: cst.FunctionDef) -> None:
        """``if self.reduction == "mean": loss = loss.mean()``, and nothing else.

        Below it, the name is a number or what it was; where no branch reduces it, it becomes the
        selection that it is in the original.
        """
        for node in walk(function.body):
            if not isinstance(node, cst.If) or isinstance(self.site.parent(node), cst.If):
                continue
            targets, last = self._branches(node)
            names = {target.value for target in targets}
            if last is None or len(names) != 1 or not names <= set(self.chosen.names):
                continue
            if any(self.chosen.holds(target) is None for target in targets):
                continue
            (name,) = names
            span = self.site.span(node)
            self.chosen.end(name, (span.end_line, span.end_column))
            self.covered.update(targets)
            self.reduced += [(self._value_of(target), name) for target in targets]
            if last.orelse is None:
                self.kept.append((last, name))

    def _value_of(self, target: cst.Name) -> cst.BaseExpression:
        """What is assigned to a name."""
        holder = self.site.parent(target)
        assign = self.site.parent(holder) if holder is not None else None
        assert isinstance(assign, cst.Assign)
        return assign.value

    def _branches(self, node: cst.If) -> tuple[list[cst.Name], cst.If | None]:
        """The names that each branch reduces, and the last branch; None for other branches."""
        targets: list[cst.Name] = []
        while True:
            if self._asks_a_tensor(node.test):
                return [], None
            reduced = self._reduced(node.body)
            if reduced is None:
                return [], None
            targets.append(reduced)
            match node.orelse:
                case cst.If() as more:
                    node = more
                case cst.Else(body=body) if (reduced := self._reduced(body)) is not None:
                    return [*targets, reduced], node
                case None:
                    return targets, node
                case _:
                    return [], None

    def _asks_a_tensor(self, test: cst.BaseExpression) -> bool:
        for part in walk(test):
            fact = tensor_fact(self.site, part) if isinstance(part, cst.BaseExpression) else None
            if fact is not None or isinstance(part, cst.NamedExpr):
                return True
        return False

    def _reduced(self, body: cst.BaseSuite) -> cst.Name | None:
        """The name of ``loss = loss.mean()``, where that is all."""
        match body:
            case cst.IndentedBlock(
                body=[
                    cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name() as target)],
                                value=cst.Call() as call,
                            )
                        ]
                    )
                ]
            ) if any(isinstance(it, cst.Name) and it.value == target.value for it in walk(call)):
                return target
        return None

    def _keep(self, splice: Splice, test: cst.If, name: str) -> None:
        """An ``else`` in which the name is the selection again."""
        span, lines = self.site.span(test), self.site.source.splitlines()
        indent = lines[span.line - 1]
        indent = indent[: len(indent) - len(indent.lstrip())]
        deeper = indent + self.site.module.default_indent
        newline = self.site.module.default_newline
        text = f"{newline}{indent}else:"
        if self.exit is not None:
            leaves = code(self.exit.test.body).strip()
            more = self.site.module.default_indent
            text += f"{newline}{deeper}if not {self.mask}.any():{newline}{deeper}{more}{leaves}"
        text += f"{newline}{deeper}{name} = {name}[{self.chosen.wide(1)}]"
        # Behind a comment of the last line.
        splice.insert(span.end_line, len(lines[span.end_line - 1]), text)

    def _give_back(self, function: cst.FunctionDef) -> None:
        """``return loss``, beside ways that reduce it: what it was, a selection."""
        if not any(
            selection_of(self.site, node) is None and node not in self.chosen.columns
            for node in self.edits
        ):
            return  # nothing is reduced: all that is gained would be lost again
        for node in walk(function.body):
            match node:
                case cst.Return(value=cst.Name() as name) if self.chosen.holds(name) is not None:
                    self.edits[name] = (name.value, f"[{self.chosen.wide(1)}]")
                    self.covered.add(name)

    def _leave_with_rest(self, function: cst.FunctionDef) -> None:
        """Makes an early return where nothing is selected a part of what is returned below."""
        if not self.edits:
            return
        kept = {name for _, name in self.kept}
        found = empty_exit(
            self.site,
            function,
            counted=self._counted,
            is_mask=self.chosen.is_mask,
            known=self.covered,
            reduced=kept,
        )
        sinks = [call for call, name in self.reduced if name in kept]
        if found is None or not all(call in self.edits for call in sinks):
            return
        self.exit = found
        self.covered.update(walk(found.test.test))
        some = f"{self.torch}.where({self.mask}.any(), "
        for leaves in found.returns:
            if leaves.value is not None:
                value = Bare(leaves.value)
                self.edits[leaves] = (f"return {some}", value, f", {found.number})")
        for call in sinks:
            self.edits[call] = (some, *self.edits[call], f", {found.number})")

    def _is_left_out(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in the early return that goes."""
        return self.exit is not None and any(node is it for it in walk(self.exit.test))

    def _is_in_line(
        self,
        node: cst.Assign,
        name: str,
        block: Sequence[cst.CSTNode],
        before: Sequence[cst.CSTNode] | None,
    ) -> bool:
        """Whether a name that has another value above has this one wherever it stands below.

        ``x = x[mask]``, and then ``x = f(x)`` in the same block, ``before``.
        """
        line = self.site.statement_of(node)
        if any(isinstance(it, cst.For | cst.While) for it in self._around(line)):
            return False
        if line not in block:
            return False
        if before is not None:
            return before is block
        span = self.site.span(line)
        at = list(block).index(line)
        inside = {id(it) for later in block[at:] for it in walk(later)}
        assert self.site.function is not None
        return all(
            id(place) in inside
            for place in self.site.places_of(name, self.site.function.body)
            if self.site.span(place).line >= span.line
        )

    def _take(self, uses: list[cst.CSTNode]) -> None:
        """Counts the uses as known, and puts zeros into the selections among them."""
        self.covered.update(uses)
        for node in uses:
            if node in self.chosen.columns and isinstance(node, cst.Subscript):
                fact = tensor_fact(self.site, node.value)
                none = "False" if fact is not None and fact.dtype == "torch.bool" else "0"
                self.edits[node] = self.chosen.zeroed_column(node, self.torch, none)
                continue
            selection = selection_of(self.site, node)
            if selection is not None and isinstance(node, cst.BaseExpression):
                fact = tensor_fact(self.site, selection[0])
                none = "False" if fact is not None and fact.dtype == "torch.bool" else "0"
                self.edits[node] = self.chosen.zeroed(node, self.torch, none)

    def _is_covered(self, function: cst.FunctionDef) -> bool:
        """Whether the names are used for nothing else, and no function inside sees them."""
        if not self.edits:
            return False
        for name in self.chosen.names:
            for place in self.site.places_of(name, function):
                inside = any(
                    isinstance(parent, cst.FunctionDef | cst.Lambda) and parent is not function
                    for parent in self._around(place)
                )
                if self.chosen.holds(place) is None:
                    continue  # something else has the name here
                holder = self.site.parent(place)
                asks = isinstance(holder, cst.Attribute) and holder.attr.value in _SAME
                if inside or not (asks or place in self.covered):
                    return False
        return True

    def _around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for parent in self.site.ancestors(node):
            if parent is self.site.function:
                return
            yield parent

    def _needs_no_test(self, node: cst.If) -> bool:
        """``if mask.any(): out[mask] = layer(x[mask])``: without a hit, nothing changes."""
        if (
            node.orelse is not None
            or comments_in(node)
            or isinstance(self.site.parent(node), cst.If)
        ):
            return False
        block = node.body
        lines: Sequence[cst.CSTNode] = block.body if isinstance(block, cst.IndentedBlock) else ()
        around: cst.CSTNode = node
        if _only_goes_on(node):
            # ``if not mask.any(): continue``: what follows in the round has to change nothing.
            tested = missed(node.test)
            holder = self.site.parent(node)
            loop = self.site.parent(holder) if holder is not None else None
            if not isinstance(loop, cst.For) or not isinstance(holder, cst.IndentedBlock):
                return False
            around, lines = loop, holder.body[list(holder.body).index(node) + 1 :]
        else:
            tested = hit_tested(node.test)
        if tested is None or not self.chosen.is_mask(tested) or not lines:
            return False
        for line in lines:
            match line:
                case cst.SimpleStatementLine(body=[cst.Assign() | cst.AugAssign() as small]):
                    pass
                case _:
                    return False
            if small in self.edits:
                if not self._binds_anew(small):
                    return False  # a change in place, which a call without a hit does not make
                continue
            bound = activity(small).binds
            assert self.site.function is not None
            if not bound or not bound <= set(self.chosen.names):
                return False
            if bound & live_after(self.site.function, around):
                return False
        return True

    def _binds_anew(self, small: cst.Assign | cst.AugAssign) -> bool:
        """Whether a write becomes another tensor by the same name."""
        target = small.targets[0].target if isinstance(small, cst.Assign) else small.target
        return isinstance(target, cst.Subscript) and is_own(self.site, target.value)

    def _without_test(self, nested: Nested, node: cst.If) -> str:
        """The lines below a test, as far to the left as the test."""
        assert isinstance(node.body, cst.IndentedBlock)
        span = self.site.span(node)
        indent = self.site.source.splitlines()[span.line - 1][: span.column]
        lines = [
            nested.render(line.body[0])
            for line in node.body.body
            if isinstance(line, cst.SimpleStatementLine)
        ]
        return f"{self.site.module.default_newline}{indent}".join(lines)

    def _is_here(self) -> bool:
        """Whether the break is one of these selections, or stands in what is made of them."""
        statement = self.site.statement
        if isinstance(statement, cst.If) and self._needs_no_test(statement):
            return True
        return any(node in self.covered or node in self.edits for node in walk(self.site.statement))

    # -- ends --------------------------------------------------------------------------------

    def _sink(self, node: cst.Call) -> None:
        kind: str
        match node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(kind))) if (
                kind in REDUCTIONS
                and not (resolve(self.site.module, node.func) or "").startswith("torch.")
            ):
                args = list(node.args)
            case cst.Call(args=[cst.Arg(keyword=None, star="", value=value), *others]):
                name = resolve(self.site.module, node.func) or ""
                home, _, kind = name.rpartition(".")
                if home == "torch.nn.functional":
                    self._loss(node, kind, node.func)
                    return
                module = loss_module(self.site, node.func)
                if module is not None:
                    kind, options = module
                    self._loss(node, kind, functional(self.site, kind), options)
                    return
                if home != "torch" or kind not in REDUCTIONS:
                    return
                args = list(others)
            case _:
                return
        uses = self.chosen.uses_of(value)
        if not uses:
            return
        match [(arg.keyword and arg.keyword.value, code(arg.value)) for arg in args]:
            case []:
                along = False
            case [(None | "dim" | "axis", "0")]:
                along = True
            case _:
                return
        self._reduce(node, value, uses, kind, along)

    def _reduce(
        self,
        node: cst.Call,
        value: cst.BaseExpression,
        uses: list[cst.CSTNode],
        kind: str,
        along: bool,
    ) -> None:
        rank, fact = self.chosen.rank(value), self._fact(value)
        if fact is None or (kind != "sum" and fact.dtype not in FLOATS):
            return
        if kind in ("var", "std"):
            if rank == 1 and not along:
                over = ", ".join(str(n) for n in range(self.chosen.dims))
                over = f"({over})" if self.chosen.dims > 1 else over
                self._take(uses)
                made = varied if kind == "var" else deviated
                self.edits[node] = made(self.site, Bare(value), self.chosen.wide(1), over, "1")
            return
        count, whole = f"{self.mask}.sum()", ""
        if kind == "mean" and not along and rank > 1:
            if rank != 2:
                return
            count, whole = self._spread(count, value, uses)
        dims = ", ".join(str(n) for n in range(self.chosen.dims))
        over = "" if rank == 1 or not along else f"({dims})" if self.chosen.dims > 1 else dims
        none = "False" if fact.dtype == "torch.bool" else "0"
        dense: Parts = (f"{self.torch}.where({self.chosen.wide(rank)}, ", Bare(value), f", {none})")
        if self.chosen.is_direct(value):
            dense = (value,)
        if kind == "norm" and along:
            return
        self._take(uses)
        if kind in ("sum", "norm"):
            self.edits[node] = (*dense, f".{kind}({over})")
        else:
            self.edits[node] = averaged(self.site, (*dense, whole), count, over)

    def _fact(self, node: cst.BaseExpression) -> Fact | None:
        """What was recorded, also of a name that no run has come to: of what it holds."""
        held = self.chosen.holds(node)
        fact = tensor_fact(self.site, node)
        return tensor_fact(self.site, held) if fact is None and held is not None else fact

    def _spread(
        self, count: str, value: cst.BaseExpression, uses: list[cst.CSTNode]
    ) -> tuple[str, str]:
        """By what a sum over two dimensions is divided, and what has to be done before it.

        Of several selections, one may be a single column in another call, which spreads over the
        columns of the others: their own size is not the result's then.
        """
        size = self._last_size(value, uses) if len({code(use) for use in uses}) == 1 else ""
        return (f"({count} * {size})", "") if size else (count, ".mean(-1)")

    def _last_size(self, value: cst.BaseExpression, uses: list[cst.CSTNode]) -> str:
        """The text of the size of the last dimension."""
        whole = tensor_fact(self.site, value)
        for use in uses:
            fact = tensor_fact(self.site, use) if isinstance(use, cst.BaseExpression) else None
            if fact is None or whole is None or fact.shape is None or whole.shape is None:
                continue
            if fact.shape[1:] != whole.shape[1:] or len(fact.shape) != len(whole.shape):
                continue
            if isinstance(use, cst.Name):
                return f"{use.value}.shape[-1]"
            match selection_of(self.site, use):
                case cst.Name(name), _:
                    return f"{name}.shape[-1]"
        return ""

    def _loss(
        self,
        node: cst.Call,
        kind: str,
        func: cst.BaseExpression | str,
        told: Sequence[cst.Arg] = (),
    ) -> None:
        """A loss of two selections; ``told`` is what its module was made with."""
        match node.args:
            case [
                cst.Arg(keyword=None, star="", value=first),
                cst.Arg(keyword=None, star="", value=second),
                *options,
            ]:
                pass
            case _:
                return
        options = [*options, *told]
        uses = self.chosen.uses_of_both(first, second)
        reduction = _reduction(options)
        if not uses or reduction not in ("mean", "sum"):
            return
        if kind == "cross_entropy":
            self._cross_entropy(node, func, first, second, uses, options)
            return
        one, other = tensor_fact(self.site, first), tensor_fact(self.site, second)
        if kind not in ELEMENT_LOSSES or one is None or other is None or one.dtype not in FLOATS:
            return
        names = [option.keyword.value for option in options if option.keyword is not None]
        if one.shape != other.shape or one.dtype != other.dtype or not {*names} <= {
            "reduction", "beta", "delta"
        }:  # fmt: skip
            return
        rank, count = self.chosen.rank(first), f"{self.mask}.sum()"
        if rank > 2 and reduction == "mean":
            return
        kept = [f", {code(o).rstrip(', ')}" for o in options if _name(o) != "reduction"]
        dense: Parts = (
            f"{self.torch}.where({self.chosen.wide(rank)}, ",
            func,
            "(",
            first,
            ", ",
            second,
            f'{"".join(kept)}, reduction="none"), 0)',
        )
        self._take(uses)
        if reduction == "sum":
            self.edits[node] = (*dense, ".sum()")
        else:
            # Per row first: one of the two may be a single column in another call.
            whole = ".mean(-1)" if rank > 1 else ""
            self.edits[node] = averaged(self.site, (*dense, whole), count)

    def _cross_entropy(
        self,
        node: cst.Call,
        func: cst.BaseExpression | str,
        logits: cst.BaseExpression,
        labels: cst.BaseExpression,
        uses: list[cst.CSTNode],
        options: list[cst.Arg],
    ) -> None:
        """What is not selected is ignored, by the number that is ignored anyway."""
        held, fact = tensor_fact(self.site, logits), tensor_fact(self.site, labels)
        if held is None or fact is None or fact.dtype != "torch.int64":
            return
        if self.chosen.rank(logits) != 2 or self.chosen.rank(labels) != 1:
            return
        ignored = next((code(o.value) for o in options if _name(o) == "ignore_index"), "-100")
        if not ignored.lstrip("-").isdigit() and not ignored.isidentifier():
            return
        dims = self.chosen.dims
        kept = [f", {code(o).rstrip(', ')}" for o in options]
        self._take(uses)
        self.edits[node] = (
            func,
            "(",
            Atom(logits),
            f".flatten(0, {dims - 1})" if dims > 1 else "",
            f", {self.torch}.where({self.chosen.wide(1)}, ",
            labels,
            f", {ignored})" + (".flatten()" if dims > 1 else ""),
            f"{''.join(kept)})",
        )

    def _write(self, node: cst.Assign | cst.AugAssign) -> None:
        """``out[mask] = value``: the value where the mask holds, and what was there elsewhere."""
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
                before: Parts = ()
            case cst.AugAssign(
                target=cst.Subscript() as target, operator=cst.AddAssign() | cst.SubtractAssign()
            ):
                sign = "+" if isinstance(node.operator, cst.AddAssign) else "-"
                before = (f"{code(target.value)} {sign} ",)
            case _:
                return
        if not isinstance(target.value, cst.Name) or not self.chosen.selects(target):
            return
        uses = self.chosen.uses_of(node.value)
        if self.chosen.is_risky:
            return  # with ones in place of zeros, `masked-selection` has finite derivatives
        held, made = tensor_fact(self.site, target.value), tensor_fact(self.site, node.value)
        if not uses or held is None or made is None or held.shape is None or made.shape is None:
            return
        rank = len(made.shape)
        if held.dtype != made.dtype or self.chosen.rank(target) != rank:
            return
        if held.shape[self.chosen.masked :] != made.shape[1:]:
            return
        owner = target.value.value
        self._take(uses)
        value: Atom = Atom(node.value) if before or self._flat else Bare(node.value)
        shaped = f".unflatten(0, {self.mask}.shape)" if self._flat else ""
        dense: Parts = (
            f"{self.torch}.where({self.chosen.widest(rank)}, ",
            *before,
            value,
            f"{shaped}, {owner})",
        )
        if is_own(self.site, target.value):
            self.edits[node] = (f"{owner} = ", *dense)
        else:
            self.edits[node] = (f"{owner}.copy_(", *dense, ")")

    # -- how many ----------------------------------------------------------------------------

    def _count(self, node: cst.CSTNode) -> None:
        """``p.shape[0]``, ``len(p)``: as a divisor, and in a comparison with a literal."""
        name = self._counted(node)
        if name is None or not isinstance(node, cst.BaseExpression):
            return
        count = f"{self.mask}.sum()"
        holder = self.site.parent(node)
        match holder:
            case cst.BinaryOperation(left=left, operator=cst.Divide(), right=right) if (
                right is node
                and (made := tensor_fact(self.site, left)) is not None
                and made.dtype != "torch.float16"
            ):
                self.edits[node] = (count,)
            case cst.Comparison(
                left=left, comparisons=[cst.ComparisonTarget(comparator=cst.Integer())]
            ) if left is node and self._is_asked(holder):
                self.edits[node] = (count,)
            case cst.Arg():
                call = self.site.parent(holder)
                above = self.site.parent(call) if call is not None else None
                match call:
                    case cst.Call(
                        func=cst.Name("max"), args=[_, cst.Arg(value=cst.Integer(value=least))]
                    ) if isinstance(above, cst.BinaryOperation) and above.right is call:
                        divides = isinstance(above.operator, cst.Divide)
                        if not divides or tensor_fact(self.site, above.left) is None:
                            return
                        self.edits[call] = (f"{count}.clamp(min={least})",)
                    case _:
                        return
            case _:
                return
        self.covered.add(name)

    def _is_compared_with_none(self, node: cst.CSTNode) -> bool:
        match self.site.parent(node):
            case cst.Comparison(
                comparisons=[cst.ComparisonTarget(comparator=cst.Integer(value="0"))]
            ):
                return True
        return False

    def _is_asked(self, node: cst.CSTNode) -> bool:
        """Whether only a test asks for the truth of it, which may be a tensor's as well."""
        child = node
        for parent in self.site.ancestors(node):
            if isinstance(parent, cst.If | cst.IfExp):
                return parent.test is child
            if not isinstance(parent, cst.BooleanOperation | cst.UnaryOperation):
                return False
            child = parent
        return False

    def _counted(self, node: cst.CSTNode) -> cst.Name | None:
        """The name of which the node asks how many rows it has."""
        match node:
            case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=cst.Name() as name)]):
                pass
            case cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("size")),
                args=[cst.Arg(value=cst.Integer("0"))],
            ):
                pass
            case cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name("numel" | "nelement")),
                args=[],
            ) if self.chosen.rank(name) == 1 or self._is_compared_with_none(node):
                pass
            case cst.Subscript(
                value=cst.Attribute(value=cst.Name() as name, attr=cst.Name("shape")),
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))],
            ):
                pass
            case _:
                return None
        return name if self.chosen.holds(name) is not None else None


def _only_goes_on(node: cst.If) -> bool:
    """``if ...: continue``"""
    return code(node.body).strip() == "continue"


def _name(option: cst.Arg) -> str:
    return option.keyword.value if option.keyword is not None else ""


def _reduction(options: list[cst.Arg]) -> str:
    """The reduction of a loss; "" where its options are not all known."""
    for option in options:
        if option.star or _name(option) not in {*_OPTIONS, "reduction"}:
            return ""
    told = [code(option.value).strip("\"'") for option in options if _name(option) == "reduction"]
    return told[0] if told else "mean"
