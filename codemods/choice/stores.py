"""Stores under a path: what is there stays where the path is not taken."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.torch_names import RNG_METHODS
from gbfix.analysis.tree import code, walk, words

from .context import Context, Declined
from .gates import gated
from .tests import Test, invert, primary

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+", cst.SubtractAssign: "-", cst.MultiplyAssign: "*",
    cst.DivideAssign: "/", cst.PowerAssign: "**", cst.BitOrAssign: "|", cst.BitAndAssign: "&",
    cst.FloorDivideAssign: "//", cst.ModuloAssign: "%", cst.BitXorAssign: "^",
}  # fmt: skip
#: In place methods that overwrite, and what they leave; the others are their plain namesakes.
_OVERWRITING = {"zero_": "0", "fill_": "{0}", "copy_": "{0}"}


_VIEWS = words("view view_as reshape reshape_as squeeze unsqueeze t transpose detach")


def in_place_call(node: cst.BaseExpression) -> cst.Call | None:
    """``place.method_(...)``, perhaps several in a chain; else None."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))) if _changes(name):
            return node
    return None


def without_views(node: cst.BaseExpression) -> cst.BaseExpression:
    """The call of ``place.copy_(x).view_as(y)`` whose view nobody gets."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args) if (
            name in _VIEWS and not any(isinstance(part, cst.Call) for a in args for part in walk(a))
        ):
            return without_views(inner)
    return node


def _changes(name: str) -> bool:
    plain = name.endswith("_") and not name.endswith("__") and len(name) > 1
    return plain and name not in RNG_METHODS and name != "requires_grad_"


class Stores:
    """Writes stores under a path of tests."""

    def __init__(self, ctx: Context, path: list[tuple[Test, bool]], *, gradients: bool) -> None:
        self.ctx = ctx
        self.path = path
        self.gradients = gradients

    def predicate(self) -> Test:
        """The path as one test."""
        parts = []
        for test, holds in self.path:
            positive = test.negated is not holds
            parts.append(test.text if positive else invert(test.text))
        if len(self.path) == 1:
            test, holds = self.path[0]
            return Test(test.text, test.negated is holds)
        return Test(" & ".join(primary(it) if it[0] != "~" else it for it in parts))

    def kept(
        self, value: cst.BaseExpression, place: cst.BaseExpression, *, local: frozenset[str]
    ) -> cst.BaseExpression:
        """``value`` on the path, else what stands in the place."""
        test = self.predicate()
        if self.gradients:
            value = gated(value, test, True, self.ctx, local)
        one, other = (place, value) if test.negated else (value, place)
        return cst.parse_expression(
            f"{self.ctx.torch}.where({test.text}, {_argument(one)}, {_argument(other)})"
        )

    def bound(
        self, place: cst.BaseExpression, value: cst.BaseExpression, local: frozenset[str]
    ) -> cst.BaseSmallStatement:
        """``place = value`` under the path."""
        self._check(value)
        there = self.ctx.fact(place)
        if there is not None and there.is_python_scalar:
            raise Declined(f"`{code(place)}` is no tensor, and depends on data")
        new = self.ctx.fact(value)
        element = isinstance(place, cst.Subscript) and self.ctx.is_tensor(place.value)
        shapes = [it.shape if it is not None else None for it in (new, there)]
        if not element and None not in shapes and shapes[0] != shapes[1]:
            raise Declined(f"a branch gives `{code(place)}` another shape")
        if isinstance(place, cst.Subscript):
            masked = self._masked(place, value, local)
            if masked is not None:
                return masked
        kept = self.kept(value, place, local=local)
        return cst.Assign([cst.AssignTarget(place)], kept)  # type: ignore[arg-type]

    def augmented(
        self, node: cst.AugAssign, value: cst.BaseExpression, local: frozenset[str]
    ) -> cst.BaseSmallStatement:
        """``place += value`` under the path, in place as it was."""
        place = node.target
        sign = _OPERATORS.get(type(node.operator))
        if sign is None:
            raise Declined(f"what `{code(node)}` does is not known")
        fact = self.ctx.fact(place)
        if fact is not None and not fact.is_tensor:
            raise Declined(f"`{code(place)}` is no tensor, and depends on data")
        neutral = {"+": "0", "-": "0"}.get(sign)
        whole = isinstance(value, cst.Integer)
        if neutral is not None and whole:
            chosen = self.kept(value, cst.parse_expression(neutral), local=local)
            return node.with_changes(value=chosen)
        new = cst.parse_expression(f"{code(place)} {sign} {_operand(value)}")
        return self._copied(place, new, local)

    def is_data_of_parameter(self, small: cst.BaseSmallStatement) -> bool:
        """Whether it writes through ``parameter.data``.

        Where gradients are recorded, torch 2.13's AOTAutograd then returns outputs in the wrong
        places (of two parameters and two outputs, measured); below ``no_grad`` it does not.  What
        is written there has no gradient either way.
        """
        match small:
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=place, attr=cst.Name(name)))):
                pass
            case _:
                return False
        if not _changes(name) or ".data" not in code(place):
            return False
        facts = [
            self.ctx.fact(part)
            for part in walk(place)
            if isinstance(part, cst.Attribute) and part.attr.value != "data"
        ]
        return any(fact is not None and fact.type.endswith("Parameter") for fact in facts)

    def called(self, node: cst.Call, local: frozenset[str]) -> cst.BaseSmallStatement:
        """``place.method_(...)`` under the path."""
        func = node.func
        assert isinstance(func, cst.Attribute)
        place, name = func.value, func.attr.value
        if name in ("fill_", "zero_") and in_place_call(place) is None:
            filled = code(node.args[0].value) if node.args else "0"
            test = self.predicate()
            text = invert(test.text) if test.negated else test.text
            self._tell(place)
            return cst.Expr(cst.parse_expression(f"{code(place)}.masked_fill_({text}, {filled})"))
        place, value = self._unchained(node)
        return self._copied(place, value, local)

    def _unchained(self, node: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression]:
        """The tensor that a chain of methods changes, and what it leaves there."""
        func = node.func
        assert isinstance(func, cst.Attribute)
        name, place = func.attr.value, func.value
        inner = in_place_call(place)
        value = place
        if inner is not None:
            place, value = self._unchained(inner)
        if name in _OVERWRITING:
            given = code(node.args[0].value) if node.args else ""
            return place, cst.parse_expression(_OVERWRITING[name].format(given))
        plain = func.with_changes(value=value, attr=cst.Name(name[:-1]))
        return place, node.with_changes(func=plain)

    def _copied(
        self, place: cst.BaseExpression, value: cst.BaseExpression, local: frozenset[str]
    ) -> cst.BaseSmallStatement:
        kept = self.kept(value, place, local=local)
        self._tell(place)
        return cst.Expr(cst.parse_expression(f"{primary(code(place))}.copy_({code(kept)})"))

    def _tell(self, place: cst.BaseExpression) -> None:
        """What autograd sees of a write in every call, where the original wrote in some."""
        note = (
            f"The patch writes `{code(place)}` in every call (its old value where the original does"
            " not write). One backward pass over two calls then fails if it needs the earlier"
            " value."
        )
        held = code(place).startswith("self.") and ".data" not in code(place)
        if held and note not in self.ctx.notes:
            self.ctx.notes.append(note)

    def _check(self, value: cst.BaseExpression) -> None:
        fact = self.ctx.fact(value)
        if fact is not None and not fact.is_tensor and fact.kind not in ("int", "float", "bool"):
            raise Declined(f"a branch stores `{code(value)}`, which is no tensor ({fact.kind})")

    def _masked(
        self, place: cst.Subscript, value: cst.BaseExpression, local: frozenset[str]
    ) -> cst.BaseSmallStatement | None:
        """``x[mask] = c``: the mask holds on the path only."""
        if len(place.slice) != 1 or not isinstance(place.slice[0].slice, cst.Index):
            return None
        mask = place.slice[0].slice.value
        fact = self.ctx.fact(mask)
        if fact is None or not fact.is_tensor or fact.dtype != "torch.bool":
            return None
        given = self.ctx.fact(value)
        # Where no run has seen the value: more than one number would raise an error.
        single = given is None or (given.is_tensor and given.shape in ((), None))
        if single and (given is None or given.shape is None):
            note = (
                "The value written through the mask must be a single number, also in branches that"
                " did not run."
            )
            if note not in self.ctx.notes:
                self.ctx.notes.append(note)
        if not single and not self.ctx.is_number(value):
            raise Declined("a branch gives the elements of a mask other values than one number")
        test = self.predicate()
        if single and self.gradients:
            value = gated(value, test, True, self.ctx, local)
        text = invert(test.text) if test.negated else test.text
        index = cst.parse_expression(f"{primary(code(mask))} & {primary(text)}")
        element = place.slice[0].with_changes(slice=cst.Index(index))
        target = place.with_changes(slice=[element])
        return cst.Assign([cst.AssignTarget(target)], value)


def _operand(node: cst.BaseExpression) -> str:
    tight = cst.Name | cst.Call | cst.Attribute | cst.Subscript | cst.BaseNumber
    return code(node) if node.lpar or isinstance(node, tight) else f"({code(node)})"


def _argument(node: cst.BaseExpression) -> str:
    if node.lpar and "\n" not in code(node) and not isinstance(node, cst.GeneratorExp | cst.Tuple):
        return code(node.with_changes(lpar=(), rpar=()))
    return code(node)
