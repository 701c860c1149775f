"""Python numbers that a tensor chooses, chosen where a tensor meets them.

A tensor without dimensions is no Python number to half precision: beside one, a number keeps all
its digits.  ``x * (a if t else b)`` is ``torch.where(t, x * a, x * b)`` for every dtype.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.tree import walk

from .aliases import in_place
from .context import Context
from .renaming import replaced
from .selects import Selects
from .tests import Test

_MOST = 3


@dataclasses.dataclass(frozen=True)
class Pushed:
    """A number that has gone into its uses."""

    test: Test
    true: cst.BaseExpression
    false: cst.BaseExpression


class Pushing:
    """Finds the uses of a number, and chooses there."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.numbers: dict[str, Pushed] = {}

    def takes(self, name: str, values: tuple[cst.BaseExpression, cst.BaseExpression]) -> bool:
        """Whether every use of the name is inside an expression that gives a tensor."""
        function = self.ctx.function
        if function is None or not all(self._is_plain(value) for value in values):
            return False
        places = [
            place
            for place in self.ctx.site.places_of(name, function.body)
            if not isinstance(self.ctx.site.parent(place), cst.AssignTarget)
        ]
        tops = {self._top(place) for place in places}
        if not places or None in tops or len(tops) > _MOST:
            return False
        stored = {
            place.value
            for place in walk(function.body)
            if isinstance(place, cst.AssignTarget) and isinstance(place.target, cst.Name)
            for place in [place.target]
        }
        return not any(isinstance(value, cst.Name) and value.value in stored for value in values)

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.UnaryOperation):
            node = node.expression
        if isinstance(node, cst.Attribute) and not isinstance(node.value, cst.Name):
            return False
        return isinstance(node, cst.Name | cst.BaseNumber | cst.Attribute)

    def _top(self, place: cst.CSTNode) -> cst.BaseExpression | None:
        """The smallest expression around the number that is a tensor, and has no effect."""
        for parent in self.ctx.site.ancestors(place):
            if isinstance(parent, cst.Arg):
                continue
            if not isinstance(parent, cst.BaseExpression) or isinstance(
                parent, cst.Lambda | cst.BaseComp | cst.IfExp | cst.BooleanOperation
            ):
                return None
            if self.ctx.is_tensor(parent):
                return None if in_place(parent) else parent
        return None

    def _shared(self, tops: list[cst.CSTNode]) -> cst.CSTNode | None:
        """The smallest expression that holds all of them, where it can take their place."""
        if len(tops) < 2:
            return None
        for parent in self.ctx.site.ancestors(tops[0]):
            if not isinstance(parent, cst.BinaryOperation | cst.UnaryOperation):
                return None
            inside = set(walk(parent))
            if all(top in inside for top in tops):
                return parent
        return None

    def into(self, node: cst.CSTNode, selects: Selects) -> cst.CSTNode:
        """The node with the numbers chosen in the expressions that use them."""
        if not self.numbers:
            return node
        tops: dict[cst.CSTNode, str] = {}
        for name in self.numbers:
            for place in walk(node):
                if isinstance(place, cst.Name) and place.value == name:
                    top = self._top(place)
                    if top is not None:
                        tops[top] = name
        for name in self.numbers:
            mine = [top for top, its in tops.items() if its == name]
            shared = self._shared(mine)
            if shared is not None:
                tops[shared] = name
        tops = {
            top: name
            for top, name in tops.items()
            if not any(other is not top and top in set(walk(other)) for other in tops)
        }
        return node.visit(_Put(tops, self.numbers, selects)) if tops else node  # type: ignore[return-value]


class _Put(cst.CSTTransformer):
    def __init__(
        self, tops: dict[cst.CSTNode, str], numbers: dict[str, Pushed], selects: Selects
    ) -> None:
        super().__init__()
        self.tops, self.numbers, self.selects = tops, numbers, selects

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        name = self.tops.get(original_node)
        if name is None:
            return updated_node
        assert isinstance(original_node, cst.BaseExpression)
        number = self.numbers[name]
        arms = [replaced(original_node, {name: it}) for it in (number.true, number.false)]
        chosen = self.selects.where(number.test, *arms)
        for other in self.numbers:
            if other != name:
                chosen = _Again(self.selects, other, self.numbers[other]).put(chosen)
        return chosen


class _Again:
    """A second number in the same expression: each arm chooses again."""

    def __init__(self, selects: Selects, name: str, number: Pushed) -> None:
        self.selects, self.name, self.number = selects, name, number

    def put(self, node: cst.BaseExpression) -> cst.BaseExpression:
        if not any(isinstance(it, cst.Name) and it.value == self.name for it in walk(node)):
            return node
        arms = [replaced(node, {self.name: it}) for it in (self.number.true, self.number.false)]
        return self.selects.where(self.number.test, *arms)
