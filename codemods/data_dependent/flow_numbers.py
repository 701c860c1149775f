"""Python's arithmetic on numbers of tensors, said with 0-dimensional tensors.

A *number* here is an expression that was a Python number.  It is *kept* if a tensor takes its
place: of int64 for an int, of float64 for a float, as Python computes, so that results agree to
the last place.  What a number is made of, and what has to change for it, is all that is said here;
where it goes is `flow_uses`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol

import libcst as cst

from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import words
from gbfix.codemod import Site
from gbfix.schema import Fact

from .flow_guards import is_zero_elsewhere
from .nested import Atom, Parts

Edits = Mapping[cst.CSTNode, Parts]

#: Functions of `math` that torch has under the same name, and what they accept in Python.
_MATH = {
    "cos": "finite",
    "sin": "finite",
    "tan": "finite",
    "tanh": "any",
    "atan": "any",
    "erf": "any",
    "exp": "small",
    "sqrt": "not negative",
    "log": "positive",
    "log2": "positive",
    "log10": "positive",
    "log1p": "positive",
}
ZERO = (
    "where a number that is divided by is zero, Python raises an error and tensors give inf or nan"
)
DOMAIN = "where `math` raises an error (out of range, or no number), tensors give inf or nan"
TRUNCATED = "where a number is inf or nan, `int` raises an error and a tensor does not"
WRAPS = "where a whole number grows beyond 64 bits, Python counts on and a tensor wraps around"
OVERFLOW = "where a power is too large for a float, Python raises an error and a tensor is inf"


@dataclasses.dataclass(frozen=True)
class Number:
    """A number: its kind in Python, what is known of its value, and the edits that keep it.

    ``low``     it is never smaller (None: not known)
    ``exact``   an int, or made of ints: never nan or inf
    ``wide``    kept as int64 or float64; otherwise as a float of the width of its tensor
    ``mixed``   in one place an int, in another a whole float: for uses that cannot tell
    ``device``  of the tensor that takes its place
    ``limits``, ``doubts``  what is different in cases that nobody means, and that somebody may
    """

    kind: str
    kept: bool = False
    low: float | None = None
    exact: bool = True
    wide: bool = True
    mixed: bool = False
    device: str = ""
    edits: Edits = dataclasses.field(default_factory=dict)
    limits: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    literal: float | None = None
    #: How many bits a whole number may well have.
    bits: float = 20.0

    def edited(self, node: cst.CSTNode, *parts: str | cst.CSTNode | Atom) -> Number:
        return dataclasses.replace(self, edits={**self.edits, node: parts})

    def but(self, **changes: object) -> Number:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def of_bits(self, bits: float) -> Number:
        """The number, said to have so many bits: it may not fit."""
        fits = self.kind != "int" or bits < 64 or WRAPS in self.doubts
        doubts = self.doubts if fits else (*self.doubts, WRAPS)
        return self.but(bits=min(bits, 64.0), doubts=doubts)

    @property
    def nonzero(self) -> bool:
        return bool(self.literal) or (self.low is not None and self.low > 0)


class Names(Protocol):
    """What the flow knows: kept names, and the expressions that read a tensor."""

    site: Site
    torch: str

    def kept(self, node: cst.BaseExpression) -> Number | None: ...
    def is_kept(self, node: cst.CSTNode) -> bool: ...
    def need_wide(self) -> None: ...


class Arithmetic:
    """Follows Python's arithmetic over expressions of kept and other numbers."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.site = names.site

    def number(self, node: cst.BaseExpression) -> Number | None:
        """The number that the expression is; None if it is none, or nothing right is known."""
        kept = self.names.kept(node)
        if kept is not None:
            return kept
        match node:
            case cst.Integer() | cst.Float():
                value = float(node.evaluated_value)
                kind = "int" if isinstance(node, cst.Integer) else "float"
                bits = math.log2(abs(value) + 1)
                return Number(kind, low=value, literal=value, bits=bits)
            case cst.Attribute() if self._constant(node) is not None:
                value = self._constant(node) or 0.0
                return Number("float", low=value, literal=value)
            case cst.BinaryOperation():
                return self._binary(node) or self._other(node)
            case cst.UnaryOperation():
                return self._unary(node) or self._other(node)
            case cst.Call():
                return self._call(node) or self._other(node)
            case cst.IfExp():
                return self._choice(node) or self._other(node)
        return self._other(node)

    def _constant(self, node: cst.Attribute) -> float | None:
        name = resolve(self.site.module, node) or ""
        return {"math.pi": math.pi, "math.e": math.e, "math.tau": math.tau}.get(name)

    def _other(self, node: cst.BaseExpression) -> Number | None:
        """A Python number that stays one."""
        fact = infer(node, self.site.fact)
        if fact is None or fact.kind not in ("int", "float", "bool"):
            return None
        kind = "int" if fact.kind == "bool" else fact.kind
        low = 0.0 if _is_size(node) else None
        return Number(kind, low=low, exact=kind == "int")

    # -- operators ---------------------------------------------------------------------------

    def _binary(self, node: cst.BinaryOperation) -> Number | None:
        left, right = self.number(node.left), self.number(node.right)
        if left is None or right is None or not (left.kept or right.kept):
            return None
        if left.kind == "float" or right.kind == "float":
            self._widen(left, right)
        match node.operator:
            case cst.Add() | cst.Subtract() | cst.Multiply():
                return self._ring(node, left, right)
            case cst.Divide():
                return self._division(node, left, right)
            case cst.FloorDivide() | cst.Modulo():
                return self._floor(node, left, right)
            case cst.Power():
                return self._power(node, left, right)
        return None

    def _widen(self, *numbers: Number) -> None:
        if any(number.kept and not number.wide for number in numbers):
            self.names.need_wide()

    def _ring(self, node: cst.BinaryOperation, left: Number, right: Number) -> Number:
        kind = "float" if "float" in (left.kind, right.kind) else "int"
        if kind == "float":
            left, right = (
                self._doubled(node.left, left, right),
                self._doubled(node.right, right, left),
            )
        low: float | None = None
        if left.low is not None and right.low is not None:
            if isinstance(node.operator, cst.Add):
                low = left.low + right.low
            elif isinstance(node.operator, cst.Multiply) and min(left.low, right.low) >= 0:
                low = left.low * right.low
        if isinstance(node.operator, cst.Subtract) and right.literal is not None:
            low = None if left.low is None else left.low - right.literal
        merged = _merged(kind, left, right, low=low)
        if any(side.kind == "float" and not side.mixed for side in (left, right)):
            merged = merged.but(mixed=False)  # with a float, either gives one
        if isinstance(node.operator, cst.Multiply):
            one, other = sorted((left, right), key=lambda each: each.literal is not None)
            hashes = other.literal is not None and other.bits > 30 and one.bits >= Number.bits
            return merged.of_bits(64.0 if hashes else left.bits + right.bits)
        return merged.of_bits(max(left.bits, right.bits))

    def _doubled(self, node: cst.BaseExpression, number: Number, other: Number) -> Number:
        """An int that meets a Python float becomes a float64: torch would make it a float32."""
        if number.kept and number.kind == "int" and not (other.kept and other.kind == "float"):
            return number.edited(node, *_again(number, node), ".double()")
        return number

    def compared(self, node: cst.BaseExpression, number: Number, other: Number) -> Number:
        """A side of a comparison: beside a float of Python's, torch would make an int a float32."""
        exact = other.kept or other.kind == "int" or other.literal == 0
        return number if exact else self._doubled(node, number, other)

    def _division(self, node: cst.BinaryOperation, left: Number, right: Number) -> Number:
        asked = isinstance(node.right, cst.Name) and is_zero_elsewhere(self.site, node.right)
        doubts = () if right.nonzero or asked else (ZERO,)
        floats = (left.kept and left.kind == "float") or (right.kept and right.kind == "float")
        if not floats:
            if left.kept:
                left = left.edited(node.left, *_again(left, node.left), ".double()")
            else:
                right = right.edited(node.right, *_again(right, node.right), ".double()")
        low = 0.0 if _not_negative(left) and _not_negative(right) else None
        merged = _merged("float", left, right, low=low)
        sure = right.kept or right.nonzero or asked
        limits = merged.limits if sure else (*merged.limits, ZERO)
        exact = merged.exact and (right.nonzero or not right.kept)
        doubts = (*merged.doubts, *doubts)
        return merged.but(doubts=doubts, limits=limits, exact=exact, mixed=False)

    def _floor(self, node: cst.BinaryOperation, left: Number, right: Number) -> Number | None:
        if left.kind != "int" or right.kind != "int" or (right.kept and not right.nonzero):
            return None
        low = 0.0 if _not_negative(left, right) else None
        merged = _merged("int", left, right, low=low)
        modulo = isinstance(node.operator, cst.Modulo)
        return merged.but(bits=right.bits if modulo else left.bits)

    def _power(self, node: cst.BinaryOperation, left: Number, right: Number) -> Number | None:
        if right.literal is not None and right.literal >= 0 and right.literal == int(right.literal):
            low = 0.0 if right.literal % 2 == 0 or _not_negative(left) else None
            doubled = self._doubled(node.left, left, right) if right.kind == "float" else left
            kind = "float" if right.kind == "float" else left.kind
            merged = _merged(kind, doubled, right, low=low)
            return merged.of_bits(left.bits * right.literal)
        if right.literal is not None and right.literal > 0 and _not_negative(left):
            left = self._doubled(node.left, left, right)
            return _merged("float", left, right, low=0.0)
        base_is_float = left.kind == "float" and not left.kept
        if not base_is_float or not right.kept:
            return None
        known = left.literal is not None and 0 < left.literal <= 1 and _not_negative(right)
        self._widen(right)
        if right.kind == "int":
            right = right.edited(node.right, *_again(right, node.right), ".double()")
        merged = _merged("float", left, right, low=0.0 if left.literal else None)
        return merged if known else merged.but(limits=(*merged.limits, OVERFLOW), exact=False)

    def _unary(self, node: cst.UnaryOperation) -> Number | None:
        value = self.number(node.expression)
        if value is None or not isinstance(node.operator, cst.Minus | cst.Plus):
            return None
        if value.literal is not None and isinstance(node.operator, cst.Minus):
            return value.but(literal=-value.literal, low=-value.literal)
        if not value.kept:
            return None
        return value if isinstance(node.operator, cst.Plus) else value.but(low=None)

    def _choice(self, node: cst.IfExp) -> Number | None:
        """``n if n > 0 else 1``, ``a / b if a > 0 and b > 0 else 1.0``"""
        if not self.names.is_kept(node.test):
            return self._chosen_in_python(node)
        asked = self._asked(node.test)
        arms = self._arms(node)
        if asked is None or arms is None:
            return None
        sides, test = asked
        known = [*sides, *arms]
        if any(side.doubts for side in known) or not any(arm.kept for arm in arms):
            return None
        self._widen(*known)
        low: float | None = None
        if arms[0].low is not None and arms[1].low is not None:
            low = min(arms[0].low, arms[1].low)
        merged = _merged(arms[0].kind, *arms, low=low)
        merged = merged.but(mixed=merged.mixed or any(arm.mixed for arm in arms))
        for side in sides:
            merged = merged.but(edits={**side.edits, **merged.edits}, device=merged.device)
        where = f"{self.names.torch}.where("
        return merged.edited(node, where, *test, ", ", node.body, ", ", node.orelse, ")")

    def _arms(self, node: cst.IfExp) -> list[Number] | None:
        """Both values, of one kind; a whole number of the text beside a float becomes one."""
        arms = [self.number(node.body), self.number(node.orelse)]
        known = [arm for arm in arms if arm is not None]
        if len(known) != len(arms):
            return None
        if len({arm.kind for arm in known}) == 1:
            return known
        for place, part in enumerate((node.body, node.orelse)):
            one = known[place]
            if one.literal is not None and one.kind == "int" and isinstance(part, cst.Integer):
                known[place] = one.but(kind="float", mixed=True).edited(part, f"{one.literal!r}")
                return known
        return None

    def _asked(self, test: cst.BaseExpression) -> tuple[list[Number], Parts] | None:
        """The numbers that a test compares, and the test as one of tensors."""
        match test:
            case cst.BooleanOperation(left=left, operator=cst.And() | cst.Or() as joint):
                one, other = self._asked(left), self._asked(test.right)
                if one is None or other is None:
                    return None
                name = "logical_and" if isinstance(joint, cst.And) else "logical_or"
                parts = (f"{self.names.torch}.{name}(", *one[1], ", ", *other[1], ")")
                return [*one[0], *other[0]], parts
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                asked = self._asked(inner)
                if asked is None:
                    return None
                return asked[0], (f"{self.names.torch}.logical_not(", *asked[1], ")")
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                sides = [self.number(left), self.number(right)]
                known = [side for side in sides if side is not None]
                if isinstance(operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
                    return None
                if len(known) != len(sides) or not any(side.kept for side in known):
                    return None
                first, second = known
                sides = [
                    self.compared(left, first, second),
                    self.compared(right, second, first),
                ]
                return [side for side in sides if side is not None], (test,)
        return None

    def _chosen_in_python(self, node: cst.IfExp) -> Number | None:
        """``x.max().item() if self.training else 1.0``"""
        body, orelse = self.number(node.body), self.number(node.orelse)
        if body is None or orelse is None or not (body.kept or orelse.kept):
            return None
        if body.kind != orelse.kind:
            return None
        self._widen(body, orelse)
        low = None if body.low is None or orelse.low is None else min(body.low, orelse.low)
        merged = _merged(body.kind, body, orelse, low=low)
        torch, dtype = self.names.torch, "int64" if body.kind == "int" else "float64"
        for arm, part in ((body, node.body), (orelse, node.orelse)):
            if not arm.kept:
                merged = merged.edited(part, f"{torch}.tensor(", part, f", dtype={torch}.{dtype})")
        return merged

    # -- calls -------------------------------------------------------------------------------

    def _call(self, node: cst.Call) -> Number | None:
        name = resolve(self.site.module, node.func) or ""
        home, _, last = name.rpartition(".")
        values = [self.number(arg.value) for arg in node.args if not arg.star and not arg.keyword]
        if len(values) != len(node.args) or not any(value and value.kept for value in values):
            return None
        known = [value for value in values if value is not None]
        if len(known) != len(values):
            return None
        if home == "math" and len(known) == 1:
            return self._math(node, last, known[0])
        if home != "builtins":
            return None
        if last in ("min", "max") and len(known) == 2:
            return self._extreme(node, last, known[0], known[1])
        return self._builtin(node, last, known[0]) if len(known) == 1 else None

    def _math(self, node: cst.Call, last: str, value: Number) -> Number | None:
        arg = node.args[0].value
        self._widen(value)
        if last in ("floor", "ceil", "trunc"):
            if value.kind == "int":
                return value.edited(node, arg)
            doubts = value.doubts if value.exact else (*value.doubts, TRUNCATED)
            return value.edited(node, Atom(arg), f".{last}().long()").but(
                kind="int", doubts=doubts, low=None if value.low is None else int(value.low)
            )
        accepts = _MATH.get(last)
        if accepts is None:
            return None
        fine = (
            accepts == "any"
            or (accepts == "finite" and value.exact)
            or (accepts == "not negative" and value.exact and _not_negative(value))
            or (accepts == "positive" and value.exact and (value.low or 0) > 0)
        )
        double = "" if value.kind == "float" else ".double()"
        new = value.edited(node, f"{self.names.torch}.{last}(", Atom(arg), f"{double})")
        if not double:
            new = value.edited(node, f"{self.names.torch}.{last}(", arg, ")")
        low = 0.0 if last in ("exp", "sqrt") else None
        doubts = value.doubts if fine else (*value.doubts, DOMAIN)
        return new.but(kind="float", low=low, exact=fine, doubts=doubts)

    def _extreme(self, node: cst.Call, last: str, a: Number, b: Number) -> Number | None:
        """``min(a, b)`` is ``b if b < a else a``, also for nan."""
        kind = "float" if "float" in (a.kind, b.kind) else "int"
        first, second = (arg.value for arg in node.args)
        if a.kind != b.kind:
            # Python gives an int where the int is smaller; among floats the value is what counts.
            a, b = self._doubled(first, a, b), self._doubled(second, b, a)
        if kind == "float":
            self._widen(a, b)
        low = None
        if a.low is not None and b.low is not None:
            low = min(a.low, b.low) if last == "min" else max(a.low, b.low)
        elif last == "max":
            low = a.low if b.low is None else b.low
        merged = _merged(kind, a, b, low=low)
        torch = self.names.torch
        if a.kept and b.kept:
            if a.exact or b.exact or kind == "int":
                function = "minimum" if last == "min" else "maximum"
                return merged.edited(node, f"{torch}.{function}(", first, ", ", second, ")")
            return None
        tensor, limit = (first, second) if a.kept else (second, first)
        word = "max" if last == "min" else "min"
        kept = a if a.kept else b
        if a.kept or kept.exact or kind == "int":
            return merged.edited(node, Atom(tensor), f".clamp({word}=", limit, ")")
        sign = "<" if last == "min" else ">"
        simple = isinstance(limit, cst.Float | cst.Integer)
        bound = limit if simple else Atom(limit)
        parts = (f"{torch}.where(", Atom(tensor), f" {sign} ", bound, ", ", tensor, ", ")
        return merged.edited(node, *parts, limit, ")")

    def _builtin(self, node: cst.Call, last: str, value: Number) -> Number | None:
        arg = node.args[0].value
        if last == "abs":
            return value.edited(node, Atom(arg), ".abs()").but(low=0.0)
        if last == "float":
            if value.kind == "float":
                return value.edited(node, arg)
            return value.edited(node, Atom(arg), ".double()").but(kind="float")
        if last in ("int", "round"):
            if value.kind == "int":
                return value.edited(node, arg)
            self._widen(value)
            rounded = ".round()" if last == "round" else ""
            doubts = value.doubts if value.exact else (*value.doubts, TRUNCATED)
            low = None if value.low is None else float(int(value.low))
            return value.edited(node, Atom(arg), f"{rounded}.long()").but(
                kind="int", low=low, doubts=doubts
            )
        return None


def _again(number: Number, node: cst.CSTNode) -> Parts:
    """The text that the edit so far gives the node, so that more may follow."""
    parts = number.edits.get(node)
    if parts is None:
        return (Atom(node),)
    tight = isinstance(parts[0], Atom) or (isinstance(parts[0], str) and parts[0].endswith("("))
    return parts if tight else ("(", *parts, ")")


def _merged(kind: str, left: Number, right: Number, *, low: float | None) -> Number:
    return Number(
        kind,
        kept=True,
        low=low,
        exact=left.exact and right.exact,
        wide=all(n.wide for n in (left, right) if n.kept),
        mixed=left.mixed or right.mixed,
        device=next((n.device for n in (left, right) if n.kept and n.device), ""),
        edits={**left.edits, **right.edits},
        limits=(*left.limits, *right.limits),
        doubts=(*left.doubts, *right.doubts),
    )


def _not_negative(*numbers: Number) -> bool:
    return all(number.low is not None and number.low >= 0 for number in numbers)


def _is_size(node: cst.BaseExpression) -> bool:
    """Whether a number is a size by its text: ``x.shape[0]``, ``len(x)``, ``x.numel()``."""
    match node:
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))):
            return True
        case cst.Call(func=cst.Name("len")):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("numel" | "size" | "dim"))):
            return True
    return False


def is_number(fact: Fact | None) -> bool:
    return fact is not None and fact.kind in ("int", "float", "bool")


COUNTS = words("sum count_nonzero argmax argmin numel argsort nonzero where bincount")
