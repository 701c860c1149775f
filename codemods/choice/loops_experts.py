"""A loop over experts that each see the tokens that chose them: all tokens, masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..control_flow.values import Values
from .computing import Computes, class_computes, function_computes, made_by, method_computes

_FLOATS = ("torch.float", "torch.bfloat", "torch.complex")
_FACTS = {
    "hit": tensor(2, 1, dtype="torch.int64"),
    "mask": tensor(4, 2, 6, dtype="torch.int64"),
    "choice": tensor(6, 2, dtype="torch.int64"),
    "states": tensor(6, 8),
    "result": tensor(6, 8),
    "weights": tensor(6, 2),
    "self.experts": Fact("module", "torch.nn.ModuleList"),
}
_SOURCE = """
import torch


class Experts(torch.nn.Module):
    def forward(self, states, mask, choice, weights):
        result = torch.zeros_like(states)
        {}
        return result
"""
_HIT = """hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for number in hit:
            place, row = torch.where(mask[number].squeeze(0))
            update = self.experts[number](states[row]) * weights[row, place, None]
            result.index_add_(0, row, update)"""
_NUMBERS = """hit = (mask.sum(dim=(-1, -2)) > 0).nonzero().flatten()
        for number in hit.tolist():
            place, row = torch.where(mask[number])
            update = self.experts[number](states[row]) * weights[row, place, None]
            result.index_add_(0, row, update)"""
_HIT_AFTER = """for number in range(mask.shape[0]):
            chosen = mask[number].T != 0
            picked = chosen.any(-1)
            share = torch.where(chosen, weights, 0).sum(-1)
            update = self.experts[number](torch.where(picked[:, None], states, 0)) * share[:, None]
            result += torch.where(picked[:, None], update, 0)"""
_EACH = """for number, expert in enumerate(self.experts):
            row, place = torch.where(choice == number)
            if row.numel() == 0:
                continue
            # What it makes of its tokens.
            result[row] += weights[row, place].unsqueeze(-1) * expert(states[row])"""
_EACH_AFTER = """for number, expert in enumerate(self.experts):
            chosen = choice == number
            picked = chosen.any(-1)
            share = torch.where(chosen, weights, 0).sum(-1)
            # What it makes of its tokens.
            result += torch.where(picked[:, None], share.unsqueeze(-1) * expert(torch.where(picked\
[:, None], states, 0)), 0)"""


class ExpertsToDense(Codemod):
    """*What it does.*  Lets every expert of a mixture see all tokens, and keeps what it makes of
    those that chose it:

    ```python
    for number in hit:
        place, row = torch.where(mask[number].squeeze(0))
        update = self.experts[number](states[row]) * weights[row, place, None]
        result.index_add_(0, row, update)
    ```
    becomes a loop over all experts with ``chosen = mask[number].T != 0``, the weights summed where
    they were chosen, and ``result += torch.where(picked[:, None], update, 0)`` with ``picked =
    chosen.any(-1)``.  The expert sees zeros in place of the tokens that did not choose it: a NaN in
    one of these must reach neither the result nor a gradient.

    *When it applies.*  The body finds its rows with ``torch.where``, reads tensors at these rows,
    and adds to the result at these rows; nothing else reads the rows.

    *Fix safety.*  Safe, if the expert treats each row alone, which the runs show and the text of
    its class tells (no sum over rows, no derivative that is not finite at zeros, also behind flags
    that are off); sums of a token are the same up to their order.  Else unsafe.  An expert that
    nothing chose gets zero gradients in place of none.  All experts compute all tokens: with many
    experts that is more work.

    *Refuses.*  Other uses of the rows, other changes in place, more than one result.
    """

    name = "experts-to-dense"
    codes = (
        "GB0036",
        "GB0088",
        "GB0170",
        "GB4347",
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
    )
    examples = (
        Example(
            _SOURCE.format(_HIT),
            _SOURCE.format(_HIT_AFTER),
            at="torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()",
            facts=_FACTS,
            title="experts that were hit",
        ),
        Example(
            _SOURCE.format(_EACH),
            _SOURCE.format(_EACH_AFTER),
            at="torch.where(choice == number)",
            facts=_FACTS,
            title="each expert in turn",
        ),
        Example(
            _SOURCE.format(_NUMBERS),
            _SOURCE.format(_HIT_AFTER),
            at="(mask.sum(dim=(-1, -2)) > 0).nonzero()",
            facts=_FACTS,
            title="their numbers",
        ),
    )
    near_misses = tuple(
        NearMiss(
            _SOURCE.format(_EACH.replace(old, new)),
            at="torch.where(choice == number)",
            why=why,
            facts=_FACTS,
        )
        for old, new, why in (
            ("expert(states[row])", "expert(states[row]) / row.numel()", "how many rows there are"),
            ("result[row] +=", "result[row] =", "no sum"),
            ("states[row]", "states[row].mul_(2)", "a copy that is changed in place"),
            ("expert(states[row])", "expert(states[place])", "rows of something else"),
            ("expert(states[row])", "expert(torch.rand(row.shape[0], 8))", "random numbers"),
        )
    ) + tuple(
        NearMiss(
            _SOURCE.format(_NUMBERS.replace("> 0", bound)),
            at=f"(mask.sum(dim=(-1, -2)) {bound}).nonzero()",
            why=why,
            facts=_FACTS,
        )
        for bound, why in (("> 1", "hit more than once"), ("== 0", "not hit"))
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = site.function
        if function is None:
            return
        for loop in walk(function.body):
            if not isinstance(loop, cst.For) or loop.orelse is not None or loop.asynchronous:
                continue
            try:
                found = _Dense(site, function, loop)
                inside = any(parent is loop for parent in (site.node, *site.ancestors(site.node)))
                if inside or any(node is site.node for node in walk(found.hits or loop)):
                    yield found.rewrite()
                    return
            except _NotSo:
                continue


class _NotSo(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class _Where:
    """``place, row = torch.where(mask)``: its line, its names in order, and the mask."""

    line: cst.SimpleStatementLine
    names: tuple[str, str]
    mask: cst.BaseExpression


class _Dense:
    def __init__(self, site: Site, function: cst.FunctionDef, loop: cst.For) -> None:
        self.site = site
        self.function = function
        self.loop = loop
        self.values = Values(site)
        self.torch = self.values.torch
        self.taken = names_in(site.module)
        if not isinstance(loop.body, cst.IndentedBlock):
            raise _NotSo
        self.where = self._where(loop.body.body)
        self.hits: cst.BaseExpression | None = None
        self.hit_line: cst.SimpleStatementLine | None = None
        self._header()

    def _where(self, statements: Sequence[cst.BaseStatement]) -> _Where:
        for line in statements:
            match line:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(
                            targets=[
                                cst.AssignTarget(
                                    target=cst.Tuple(
                                        elements=[
                                            cst.Element(value=cst.Name(value=one)),
                                            cst.Element(value=cst.Name(value=two)),
                                        ]
                                    )
                                )
                            ],
                            value=cst.Call(func=func, args=[cst.Arg(value=mask, keyword=None)]),
                        )
                    ]
                ) if resolve(self.site.module, func) == "torch.where":
                    return _Where(line, (one, two), mask)
        raise _NotSo

    def _header(self) -> None:
        """What the loop runs over: experts, or the places that a mask hits."""
        match self.loop.iter:
            case cst.Name(value=name):
                if not isinstance(self.loop.target, cst.Name):
                    raise _NotSo
                self._hits(name)
            case cst.Call(
                func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name("tolist")), args=[]
            ) if isinstance(self.loop.target, cst.Name):
                self._hits(name)
            case cst.Call(func=cst.Name(value="range" | "enumerate")):
                pass
            case _:
                raise _NotSo

    def _hits(self, name: str) -> None:
        uses = [n for n in walk(self.function) if isinstance(n, cst.Name) and n.value == name]
        for node in walk(self.function.body):
            match node:
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
                ) if target is uses[0] and len(uses) == 2:
                    if _of_any_hit(value) and not comments_in(node):
                        self.hits, self.hit_line = value, node
                        return
        raise _NotSo

    # -- the new loop ------------------------------------------------------------------------

    def rewrite(self) -> Rewrite:
        site, loop, torch = self.site, self.loop, self.torch
        assert isinstance(loop.body, cst.IndentedBlock)
        statements = list(loop.body.body)
        row, place = self._row_and_place(statements)
        token_first = self.where.names[0] == row
        mask, index, base = self._mask(self.where.mask, token_first=token_first)
        chosen, picked = self._fresh("chosen"), self._fresh("picked")
        share = self._fresh("share")
        change = _Change(self, row, place, picked, share)
        new: list[cst.BaseStatement] = []
        for line in statements:
            if line is self.where.line:
                new.append(_like(line, f"{chosen} = {mask}"))
            elif not _asks_for_none(line, (row, place)) and not self._unpacks(line, index):
                new.append(change.line(line))
        if change.weights is None or not change.added:
            raise _NotSo
        at = next(i for i, line in enumerate(new) if code(line).strip().startswith(chosen)) + 1
        new[at:at] = [
            cst.parse_statement(f"{picked} = {chosen}.any(-1)"),
            cst.parse_statement(f"{share} = {torch}.where({chosen}, {change.weights}, 0).sum(-1)"),
        ]
        written = activity(loop.body).writes
        if (written | {row, place}) & live_after(self.function, loop):
            raise _NotSo
        edit = site.edit()
        iterated = loop.iter
        if self.hit_line is not None:
            edit.remove(self.hit_line)
            iterated = cst.parse_expression(f"range({base}.shape[0])")
        above = loop.leading_lines or getattr(self.hit_line, "leading_lines", ())
        body = loop.body.with_changes(body=new)
        edit.replace(loop, loop.with_changes(iter=iterated, body=body, leading_lines=above))
        if self.values.torch_missing:
            edit.add_import("torch")
        notes = [
            "Each expert computes all tokens, also those that did not choose it; an expert that"
            " nothing chose gets zero gradients in place of none.",
            f"An expert that does not treat each row alone would see other rows ({torch}.where"
            " keeps what it makes of its own).",
        ]
        safety = Safety.SAFE
        adds_up = not change.once and _weighs_last(statements, change.weights, (row, place))
        if not adds_up and not self._chosen_once():
            safety = Safety.UNSAFE
            notes.append("If a token is routed to the same expert twice, the result differs.")
        told = experts_told(self.site, self.function, self.loop)
        if told:
            safety = Safety.UNSAFE
            notes.append(told)
        title = "let each expert see all tokens, masked"
        return edit.rewrite(title, notes=notes, rank=26, safety=safety)

    def _chosen_once(self) -> bool:
        """Whether what is compared with an expert's number is what ``topk`` gave, unchanged."""
        tested = [n for n in walk(self.loop) if isinstance(n, cst.Comparison)]
        names = {n.value for test in tested for n in walk(test) if isinstance(n, cst.Name)}
        does = activity(self.function.body)
        given = {it.name.value for it in params_of(self.function.params)}
        for name in names - does.mutates - given:
            bound = [
                node
                for node in walk(self.function.body)
                if isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign)
                and name in activity(node).writes
            ]
            if len(bound) == 1 and isinstance(bound[0], cst.Assign) and _picks(bound[0].value):
                return True
        return False

    def _fresh(self, wish: str) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return name

    def _row_and_place(self, statements: Sequence[cst.BaseStatement]) -> tuple[str, str]:
        one, two = self.where.names
        for node in (inner for line in statements for inner in walk(line)):
            match node:
                case cst.Call(
                    func=cst.Attribute(attr=cst.Name(value="index_add_")),
                    args=[cst.Arg(), cst.Arg(value=cst.Name(value=name)), *_],
                ) if name in (one, two):
                    return name, two if name == one else one
                case cst.AugAssign(target=cst.Subscript(slice=[element])):
                    name = code(element.slice)
                    if name in (one, two):
                        return name, two if name == one else one
        raise _NotSo

    def _mask(self, node: cst.BaseExpression, *, token_first: bool) -> tuple[str, str, str]:
        """The mask with a row for each token; the loop's number, and what it indexes."""
        inner = node
        match node:
            case cst.Call(
                func=cst.Attribute(value=cst.BaseExpression() as held, attr=cst.Name("squeeze")),
                args=[cst.Arg(value=cst.Integer(value="0"))],
            ) if self.hits is not None:
                inner = held
        base = index = ""
        match inner:
            case cst.Subscript(value=cst.Name(value=base), slice=[element]):
                index = code(element.slice)
                fact = self.values.fact(inner.value)
                if fact is None or len(fact.shape or ()) != 3:
                    raise _NotSo
                text = code(inner) if fact.dtype == "torch.bool" else f"{code(inner)} != 0"
                if not token_first:
                    turned = f"{code(inner)}.T"
                    text = turned if fact.dtype == "torch.bool" else f"{turned} != 0"
                return text, index, base
            case cst.Comparison(left=left) if self.hits is None:
                fact = self.values.fact(left)
                if fact is None or len(fact.shape or ()) != 2:
                    raise _NotSo
                return (code(inner) if token_first else f"({code(inner)}).T"), index, base
        raise _NotSo

    def _unpacks(self, line: cst.BaseStatement, index: str) -> bool:
        """``number = number[0]``: it is a number now."""
        forms = ("{0} = {0}[0]", "{0} = {0}.item()", "{0} = int({0})", "{0} = {0}.squeeze(0)")
        return self.hits is not None and code(line).strip() in [f.format(index) for f in forms]


def _of_any_hit(value: cst.BaseExpression) -> bool:
    """Whether ``nonzero`` is asked for what was hit at all, and not for what was hit often."""
    for node in walk(value):
        match node:
            case cst.Comparison(comparisons=[target]):
                sign = {cst.GreaterThan: "0", cst.NotEqual: "0", cst.GreaterThanEqual: "1"}
                if code(target.comparator) != sign.get(type(target.operator), ""):
                    return False
            case cst.Call(func=func, args=args):
                last = func.attr.value if isinstance(func, cst.Attribute) else code(func)
                bound = {"greater": "0", "gt": "0", "ne": "0", "not_equal": "0"}.get(last)
                if bound is None and last in ("ge", "greater_equal"):
                    bound = "1"
                if last in ("lt", "le", "less", "less_equal", "eq", "equal", "topk", "sort"):
                    return False
                if bound is not None and (not args or code(args[-1].value) != bound):
                    return False
    return "nonzero" in code(value)


def experts_told(site: Site, function: cst.FunctionDef, loop: cst.For) -> str:
    """Why an expert may see other rows than its own, or spoil its gradients; else "".

    Zeros stand in its input for what did not choose it.  The runs know one setting of its
    flags; the text of its class knows all.
    """
    owner = site.class_of(function)
    for node in walk(loop):
        if not isinstance(node, cst.Call):
            continue
        for name, found in _called(site, owner, loop, node):
            if found.why_not:
                return f"An expert may do more than compute: {found.why_not}."
            if not found.tame:
                return (
                    f"`{name}` may have no finite derivative for the zeros that it sees in"
                    " place of tokens that did not choose it."
                )
            if not found.rows_alone:
                return f"`{name}` may look at several rows together."
    return ""


def _picks(node: cst.BaseExpression) -> bool:
    """``x.topk(k)``, and the indices of what it gives."""
    match node:
        case cst.Subscript(value=inner) | cst.Attribute(value=inner, attr=cst.Name("indices")):
            return _picks(inner)
        case cst.Call(func=cst.Attribute(attr=cst.Name("topk"))):
            return True
    return False


def _called(
    site: Site, owner: cst.ClassDef | None, loop: cst.For, node: cst.Call
) -> Iterator[tuple[str, Computes]]:
    """The classes, methods and functions that a call may run, and what each of them does."""
    fact = site.fact(node.func)
    if fact is not None and fact.kind == "module":
        name = fact.type.rpartition(".")[2]
        held = _held_by(loop, node.func)
        made = made_by(site, owner.name.value, held) if owner and held else None
        if fact.type.startswith("torch.nn."):
            if name in _HOLDING and held and made is None:
                yield name, Computes(f"what `self.{held}` holds is not known")
            names = set(made or ())
        else:
            names = {name, *(made or ())}
        for each in sorted(names):
            yield each, class_computes(site, each)
        return
    match node.func:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)) if owner is not None:
            methods = {it.name.value for it in owner.body.body if isinstance(it, cst.FunctionDef)}
            if name in methods:
                yield name, method_computes(site, owner.name.value, name)
        case cst.Name(name) if (resolve(site.module, node.func) or "").partition(".")[0] not in (
            "torch", "builtins", "math",
        ) and any(
            isinstance(it, cst.FunctionDef) and it.name.value == name for it in site.module.body
        ):  # fmt: skip
            yield name, function_computes(site, name)


#: Layers that are what they are made of.
_HOLDING = frozenset({"Sequential", "ModuleList", "ModuleDict"})


def _held_by(loop: cst.For, func: cst.BaseExpression) -> str:
    """The attribute of ``self`` that holds the experts."""
    match func:
        case cst.Subscript(value=cst.Attribute(value=cst.Name("self"), attr=cst.Name(held))):
            return held
        case cst.Name(called):
            for line in walk(loop.body):
                match line:
                    case cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(name))], value=value
                    ) if name == called:
                        return _held_by(loop, value) if isinstance(value, cst.Subscript) else ""
            given = [arg.value for arg in loop.iter.args] if isinstance(loop.iter, cst.Call) else []
            match given:
                case [cst.Attribute(value=cst.Name("self"), attr=cst.Name(held)), *_]:
                    return held
    return ""


class _Change:
    """Rewrites the lines of the body: rows become all rows."""

    def __init__(self, dense: _Dense, row: str, place: str, picked: str, share: str) -> None:
        self.dense = dense
        self.row = row
        self.place = place
        self.picked = picked
        self.share = share
        self.weights: str | None = None
        self.added = False
        #: Whether a token that chose an expert twice would count once.
        self.once = False

    def line(self, line: cst.BaseStatement) -> cst.BaseStatement:
        if _passes(line) and not activity(line).reads & {self.row, self.place}:
            return line  # `if number == self.count: continue`
        match line:
            case cst.SimpleStatementLine(body=[cst.Assign() as small]):
                if not all(_is_of_names(target.target) for target in small.targets):
                    raise _NotSo
                return line.with_changes(body=[small.with_changes(value=self.value(small.value))])
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(
                        target=cst.Subscript(value=cst.Name(value=out), slice=[element]),
                        operator=cst.AddAssign(),
                        value=value,
                    )
                ]
            ) if code(element.slice) == self.row:
                self.once = True
                return self.sum(line, out, value)
            case cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        value=cst.Call(
                            func=cst.Attribute(
                                value=cst.Name(value=out), attr=cst.Name(value="index_add_")
                            ),
                            args=[cst.Arg(value=dim), cst.Arg(value=row), cst.Arg(value=value)],
                        )
                    )
                ]
            ) if code(dim) == "0" and code(row) == self.row:
                return self.sum(line, out, value)
        raise _NotSo

    def sum(
        self, line: cst.SimpleStatementLine, out: str, value: cst.BaseExpression
    ) -> cst.BaseStatement:
        fact = self.dense.values.outside(out) or self.dense.values.fact(cst.Name(out))
        locals_ = self.dense.site.locals_before(self.dense.loop)
        fact = locals_.get(out, fact)
        if fact is None or len(fact.shape or ()) != 2 or self.added:
            raise _NotSo
        self.added = True
        torch = self.dense.torch
        new = code(self.value(value))
        return _like(line, f"{out} += {torch}.where({self.picked}[:, None], {new}, 0)")

    def rows(self, base: cst.BaseExpression) -> cst.BaseExpression:
        """All rows of a tensor, with zeros where the text picks none: what is not finite there
        would spoil the gradients of what the expert computes with.
        """
        fact = self.dense.values.fact(base)
        if fact is None or fact.shape is None or not (fact.dtype or "").startswith(_FLOATS):
            return base.deep_clone()
        dims = ", ".join([":", *("None" for _ in fact.shape[1:])])
        picked = self.picked if len(fact.shape) < 2 else f"{self.picked}[{dims}]"
        text = f"{self.dense.torch}.where({picked}, {code(base)}, 0)"
        return cst.parse_expression(text)

    def value(self, node: cst.BaseExpression) -> cst.BaseExpression:
        effects = self.dense.values.effects(node)
        if effects.rng or effects.io or any(changes_in_place(inner) for inner in walk(node)):
            raise _NotSo
        new = node.visit(_Rows(self))
        assert isinstance(new, cst.BaseExpression)
        if {self.row, self.place} & activity(new).reads:
            raise _NotSo
        return new


class _Rows(cst.CSTTransformer):
    def __init__(self, change: _Change) -> None:
        super().__init__()
        self.change = change

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """``x[None, row].reshape(-1, size)`` is a way to write ``x[row]``."""
        match original_node:
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Subscript(value=base) as rows,
                    attr=cst.Name(value="reshape" | "view"),
                ),
                args=[first, *_],
            ) if _indexes(rows) == ["None", self.change.row] and code(first.value) == "-1":
                return self.change.rows(base)
        return updated_node

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        change = self.change
        indexes = _indexes(original_node)
        if indexes == [change.row]:
            return change.rows(original_node.value)
        if indexes[:2] == [change.row, change.place]:
            weights = code(original_node.value)
            if change.weights not in (None, weights) or indexes[2:] not in ([], ["None"]):
                raise _NotSo
            change.weights = weights
            tail = "[:, None]" if indexes[2:] else ""
            return cst.parse_expression(f"{change.share}{tail}")
        return updated_node


def _weighs_last(
    statements: Sequence[cst.BaseStatement], weights: str, rows: tuple[str, str]
) -> bool:
    """Whether the weights are the last factor of what is added: then they may be summed up before.

    ``made = expert(tokens[row]) * weight[row, place, None]``, and only the sum reads ``made``.
    """
    places = [
        (number, line)
        for number, line in enumerate(statements)
        if any(_is_weight(node, weights, rows) for node in walk(line))
    ]
    if len(places) != 1:
        return False
    number, line = places[0]
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
        ):
            later = [after for after in statements[number + 1 :] if name in activity(after).reads]
            ends = len(later) == 1 and _adds(later[0]) is not None
            return ends and _is_factor(value, weights, rows)
    added = _adds(line)
    return added is not None and _is_factor(added, weights, rows)


def _adds(line: cst.BaseStatement) -> cst.BaseExpression | None:
    """What a line adds to the result."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(func=cst.Attribute(attr=cst.Name("index_add_")), args=[*_, last])
                )
            ]
        ):
            return last.value
        case cst.SimpleStatementLine(body=[cst.AugAssign(value=value)]):
            return value
    return None


def _is_weight(node: cst.CSTNode, weights: str, rows: tuple[str, str]) -> bool:
    return (
        isinstance(node, cst.Subscript)
        and code(node.value) == weights
        and tuple(_indexes(node)[:2]) == rows
    )


def _is_factor(node: cst.BaseExpression, weights: str, rows: tuple[str, str]) -> bool:
    """Whether one factor of a product is the weights, and no other one reads them."""
    match node:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            return _is_factor(left, weights, rows) or _is_factor(right, weights, rows)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("to" | "unsqueeze"))):
            return _is_factor(inner, weights, rows)
    return _is_weight(node, weights, rows)


def _indexes(node: cst.Subscript) -> list[str]:
    return [code(element.slice) for element in node.slice]


def _asks_for_none(line: cst.BaseStatement, rows: tuple[str, str]) -> bool:
    """``if row.numel() == 0: continue``."""
    if not isinstance(line, cst.If) or line.orelse is not None or comments_in(line):
        return False
    forms = ("{}.numel() == 0", "{}.shape[0] == 0", "len({}) == 0", "{}.size(0) == 0")
    empty = [form.format(row) for row in rows for form in forms]
    return code(line.test) in empty and code(line.body).strip() in ("continue",)


def changes_in_place(node: cst.CSTNode) -> bool:
    """Whether a call changes its tensor in place: rows that were picked out are a copy."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)), args=args):
            kept = any(arg.keyword is not None and arg.keyword.value == "inplace" for arg in args)
            return kept or (name.endswith("_") and not name.endswith("__"))
    return False


def _passes(line: cst.BaseStatement) -> bool:
    if not isinstance(line, cst.If) or line.orelse is not None:
        return False
    return isinstance(line.test, cst.Comparison) and code(line.body).strip() == "continue"


def _is_of_names(target: cst.BaseExpression) -> bool:
    if isinstance(target, cst.Tuple):
        return all(_is_of_names(element.value) for element in target.elements)
    return isinstance(target, cst.Name)


def _like(line: cst.SimpleStatementLine, text: str) -> cst.BaseStatement:
    new = cst.parse_statement(text)
    return new.with_changes(
        leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
    )
