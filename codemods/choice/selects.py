"""One value of two: what a test chooses, as one expression."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.tree import code, walk
from gbfix.schema import Fact

from .context import Context, Declined
from .finiteness import flows_from
from .gates import gated
from .tests import Test, invert

_CONTAINERS = ("list", "tuple", "dict")


#: Floats of which every dtype holds all digits.
_EXACT = (0.0, 0.5, 1.0, 2.0)


class Selects:
    """Builds ``torch.where`` for two values, whatever they are made of."""

    def __init__(self, ctx: Context, *, gradients: bool) -> None:
        self.ctx = ctx
        self.gradients = gradients
        #: What numbers become: the text of a dtype, or "" where two numbers cannot meet.
        self.dtype = ""
        #: Whether the choice is made because something may not be finite.
        self.guards = False

    def select(
        self,
        test: Test,
        true: cst.BaseExpression,
        false: cst.BaseExpression,
        local: frozenset[str] = frozenset(),
    ) -> cst.BaseExpression:
        """The value of ``true if test else false``."""
        if code(true) == code(false):
            return true
        both = self._containers(test, true, false, local)
        if both is not None:
            return both
        truths = (_truth(true), _truth(false))
        if None not in truths:
            text = test.positive(self.ctx.torch) if truths[0] else invert(test.positive(""))
            return self._read_back(cst.parse_expression(text))
        facts = [self.ctx.fact(true), self.ctx.fact(false)]
        kinds = [fact.kind if fact is not None else "" for fact in facts]
        if kinds.count("none") == 1 and self.ctx.tensor_for_none:
            return self._tensor_for_none(true, false, kinds)
        for kind, node in zip(kinds, (true, false), strict=True):
            if kind in ("none", "str", "module", "function", "class", "dict", "object"):
                raise Declined(f"a branch gives `{code(node)}`, which is no tensor ({kind})")
        if any(kind in ("list", "tuple") for kind in kinds):
            return self._sequences(test, true, false, kinds)
        numbers = [kind in ("int", "float", "bool") for kind in kinds]
        # What is a number in one round and a tensor in the next has no kind.
        unsure = any(numbers) and "" in kinds and "float" in kinds and self.dtype
        if all(numbers) or unsure or self._rounds_a_number(true, false, facts):
            return self._numbers(test, true, false, kinds)
        dtypes = {fact.dtype for fact in facts if fact is not None and fact.is_tensor}
        if len(dtypes - {None}) > 1:
            raise Declined("the branches give tensors of different dtypes")
        if _differ(facts):
            if not self._one_and_none((true, false), facts):
                raise Declined("the branches give tensors of different shapes")
            # What is done with either is the same where that broadcasts; the run tells.
            self.ctx.notes.append(
                f"`{code(true)}` and `{code(false)}` have one dimension, where one had none."
            )
        self._doubt(true, false)
        self._doubt_one(true, false, facts)
        if self.gradients:
            self._doubt_guard(true, false, local)
            true = gated(true, test, True, self.ctx, local)
            false = gated(false, test, False, self.ctx, local)
        return self.where(test, true, false)

    def _one_and_none(
        self, sides: Sequence[cst.BaseExpression], facts: Sequence[Fact | None]
    ) -> bool:
        """Whether one side has no dimension, and the other one element by its own text.

        One element of a batch of one would be several in the next call, and count as often.
        """
        shapes = [fact.shape if fact is not None else None for fact in facts]
        if set(shapes) != {(), (1,)}:
            return False
        return not _roots(sides[shapes.index((1,))], self.ctx)

    def _tensor_for_none(
        self, true: cst.BaseExpression, false: cst.BaseExpression, kinds: list[str]
    ) -> cst.BaseExpression:
        """The tensor, where None would say that it changes nothing."""
        value = false if kinds[0] == "none" else true
        if not self.ctx.is_tensor(value):
            raise Declined("a branch gives None")
        self.ctx.notes.append(
            f"The patch passes the tensor `{code(value)}` where the original passed None; nothing"
            " that is done with it then changes the result."
        )
        return value

    def where(
        self, test: Test, true: cst.BaseExpression, false: cst.BaseExpression
    ) -> cst.BaseExpression:
        one, other = (false, true) if test.negated else (true, false)
        return cst.parse_expression(
            f"{self.ctx.torch}.where({test.text}, {_plain(one)}, {_plain(other)})"
        )

    def _doubt(self, true: cst.BaseExpression, false: cst.BaseExpression) -> None:
        """Where nothing says that both are of one dtype and shape, nobody may call it safe."""
        one, other = (_roots(it, self.ctx) for it in (true, false))
        if one and other and not one & other and _outside(one | other, self.ctx):
            self.ctx.doubts.append(
                f"If `{code(true)}` and `{code(false)}` differ in dtype or shape, the result has"
                " the dtype and shape of both together."
            )
        for name in sorted((one ^ other) - (one & other)):
            node = cst.parse_expression(name)
            if self.ctx.is_number(node) and not self.ctx.promised(node):
                self.ctx.doubts.append(
                    f"`{name}` was a number in every call; a tensor could change the dtype or the"
                    " shape of one branch."
                )

    def _doubt_one(
        self, true: cst.BaseExpression, false: cst.BaseExpression, facts: Sequence[Fact | None]
    ) -> None:
        """A size of 1 that one branch makes, where the other one's only happened to be 1."""
        shapes = [fact.shape for fact in facts if fact is not None and fact.shape]
        if not any(1 in shape for shape in shapes):
            return
        sides = {code(true), code(false)}
        makes = [_makes_one(node, self.ctx, sides) for node in (true, false)]
        if makes[0] == makes[1]:
            return
        one, other = (true, false) if makes[0] else (false, true)
        self.ctx.doubts.append(
            f"`{code(one)}` has the size 1 in some dimension, where `{code(other)}` had it in every"
            " call: with another size there, the result has the larger one of both."
        )

    def _doubt_guard(
        self, true: cst.BaseExpression, false: cst.BaseExpression, local: frozenset[str]
    ) -> None:
        """A guard keeps gradients from what is not finite; ``torch.where`` sends zeros there."""
        if not self.guards:
            return
        one, other = (flows_from(it, self.ctx, local) for it in (true, false))
        for name in sorted(one ^ other)[:1]:
            self.ctx.doubts.append(
                f"Where `{name}` is not finite, its gradient becomes NaN, also where it is not"
                " taken: zero times infinity."
            )

    def _rounds_a_number(
        self, true: cst.BaseExpression, false: cst.BaseExpression, facts: Sequence[Fact | None]
    ) -> bool:
        """Whether a number beside a tensor of float32 would lose digits that its users can tell."""
        if not self.dtype.endswith("float64"):
            return False
        kinds = [fact.kind if fact is not None else "" for fact in facts]
        tensor = next((fact for fact in facts if fact is not None and fact.is_tensor), None)
        if sorted(kinds) != ["float", "tensor"] or tensor is None or tensor.shape != ():
            return False
        number = (true, false)[kinds.index("float")]
        return not (isinstance(number, cst.Float) and number.evaluated_value in _EXACT)

    def _numbers(
        self,
        test: Test,
        true: cst.BaseExpression,
        false: cst.BaseExpression,
        kinds: list[str],
    ) -> cst.BaseExpression:
        one, other = (false, true) if test.negated else (true, false)
        torch = self.ctx.torch
        if self.ctx.read_back and "" not in kinds:
            return self._of_one_kind(test, one, other, kinds)
        if "float" not in kinds:
            return self.where(test, true, false)
        if not self.dtype:
            raise Declined("the branches give Python numbers")
        texts = [_plain(one), _plain(other)]
        at = [code(one), code(other)].index(code((true, false)[kinds.index("float")]))
        texts[at] = f"{torch}.full((), {texts[at]}, dtype={self.dtype})"
        return cst.parse_expression(f"{torch}.where({test.text}, {texts[0]}, {texts[1]})")

    def _of_one_kind(
        self, test: Test, one: cst.BaseExpression, other: cst.BaseExpression, kinds: list[str]
    ) -> cst.BaseExpression:
        """A Python number again, of the kind that both have."""
        if kinds[0] != kinds[1]:
            raise Declined("the branches give Python numbers of different kinds")
        torch, texts = self.ctx.torch, [_plain(one), _plain(other)]
        if kinds[0] == "float":
            texts = [f"{torch}.full((), {text}, dtype={torch}.float64)" for text in texts]
        chosen = f"{torch}.where({test.text}, {texts[0]}, {texts[1]})"
        return self._read_back(cst.parse_expression(chosen))

    def _read_back(self, chosen: cst.BaseExpression) -> cst.BaseExpression:
        """The number of a tensor, where the choice is asked for numbers."""
        if not self.ctx.read_back:
            return chosen
        self.ctx.reads_numbers = True
        text = code(chosen)
        tight = isinstance(chosen, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
        return cst.parse_expression(f"{text}.item()" if tight else f"({text}).item()")

    # -- containers --------------------------------------------------------------------------

    def _containers(
        self,
        test: Test,
        true: cst.BaseExpression,
        false: cst.BaseExpression,
        local: frozenset[str],
    ) -> cst.BaseExpression | None:
        match true, false:
            case (cst.Tuple(), cst.Tuple()) | (cst.List(), cst.List()):
                return self._displays(test, true, false, local)
            case cst.Dict(), cst.Dict():
                return self._dicts(test, true, false, local)
            case cst.Call(), cst.Call() if code(true.func) == code(false.func):
                fact = self.ctx.kind_of(true.func)
                name = code(true.func).rpartition(".")[2]
                made = fact.kind == "class" if fact is not None else _is_class(name, self.ctx)
                if made and len(true.args) == len(false.args):
                    return self._calls(test, true, false, local)
        return None

    def _displays(
        self,
        test: Test,
        true: cst.BaseExpression,
        false: cst.BaseExpression,
        local: frozenset[str],
    ) -> cst.BaseExpression:
        assert isinstance(true, cst.Tuple | cst.List) and isinstance(false, cst.Tuple | cst.List)
        if len(true.elements) != len(false.elements):
            raise Declined("the branches give sequences of different lengths")
        pairs = zip(true.elements, false.elements, strict=True)
        return true.with_changes(
            elements=[
                one.with_changes(value=self.select(test, one.value, other.value, local))
                for one, other in pairs
            ]
        )

    def _calls(
        self, test: Test, true: cst.Call, false: cst.Call, local: frozenset[str]
    ) -> cst.Call:
        args = []
        for one, other in zip(true.args, false.args, strict=True):
            names = [arg.keyword.value if arg.keyword is not None else "" for arg in (one, other)]
            if names[0] != names[1] or one.star or other.star:
                raise Declined("the branches build their result in different ways")
            args.append(one.with_changes(value=self.select(test, one.value, other.value, local)))
        return true.with_changes(args=args)

    def _dicts(
        self, test: Test, true: cst.Dict, false: cst.Dict, local: frozenset[str]
    ) -> cst.Dict:
        mine, its = (
            {code(e.key): e for e in d.elements if isinstance(e, cst.DictElement)}
            for d in (true, false)
        )
        if list(mine) != list(its) or len(mine) != len(true.elements):
            raise Declined("the branches give dictionaries with different keys")
        elements = [
            element.with_changes(value=self.select(test, element.value, its[key].value, local))
            for key, element in mine.items()
        ]
        return true.with_changes(elements=elements)

    def _sequences(
        self, test: Test, true: cst.BaseExpression, false: cst.BaseExpression, kinds: list[str]
    ) -> cst.BaseExpression:
        if kinds[0] != kinds[1]:
            raise Declined("the branches give sequences of different types")
        match true, false:
            case cst.ListComp(for_in=cst.CompFor(target=cst.Name() as target, iter=source)), _ if (
                code(source) == code(false) and not true.for_in.ifs
            ):
                chosen = self.select(test, true.elt, target)
                return true.with_changes(elt=chosen)
            case _, cst.ListComp(for_in=cst.CompFor(target=cst.Name() as target, iter=source)) if (
                code(source) == code(true) and not false.for_in.ifs
            ):
                return false.with_changes(elt=self.select(test, target, false.elt))
        one, other = (self.ctx.fresh(name) for name in ("one", "other"))
        chosen = self.where(test, cst.Name(one), cst.Name(other))
        each = f"{code(chosen)} for {one}, {other} in zip({_plain(true)}, {_plain(false)})"
        text = f"[{each}]" if kinds[0] == "list" else f"tuple({each})"
        return cst.parse_expression(text)


def _differ(facts: Sequence[Fact | None]) -> bool:
    """Whether two tensors were of different shapes in every call."""
    one, other = (fact.shape if fact is not None and fact.is_tensor else None for fact in facts)
    if one is None or other is None:
        return False
    if len(one) != len(other):
        return True
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


_ONE = re.compile(r"(?<!\w)0?:1\b|[\[,]\s*None\s*[\],]")


def _makes_one(node: cst.BaseExpression, ctx: Context, sides: set[str], depth: int = 3) -> bool:
    """Whether an expression, or what its name is bound to, makes a dimension of one element, which
    nothing beside it spreads again (as in ``x / x.norm(dim=-1, keepdim=True)``).
    """
    match node:
        case cst.Subscript():
            return _ONE.search(f"[{''.join(map(code, node.slice))}]") is not None
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=args):
            kept = any(code(it).replace(" ", "").startswith("keepdim") for it in args)
            return kept or name == "unsqueeze" or _makes_one(inner, ctx, sides, depth)
        case cst.UnaryOperation(expression=inner):
            return _makes_one(inner, ctx, sides, depth)
        case cst.BinaryOperation(left=left, right=right):
            both = [it for it in (left, right) if not isinstance(it, cst.BaseNumber)]
            return all(_makes_one(it, ctx, sides, depth) for it in both)
        case cst.Name(value=name) if depth:
            return any(
                _makes_one(it.value, ctx, sides, depth - 1)
                for it in walk(ctx.scope)
                if isinstance(it, cst.Assign)
                and any(code(target.target) == name for target in it.targets)
                and code(it.value) not in sides  # one of the branches that meet here
            )
    return False


def _plain(node: cst.BaseExpression) -> str:
    text = code(node)
    if isinstance(node, cst.GeneratorExp | cst.Tuple | cst.NamedExpr):
        return text
    if node.lpar and "\n" not in text:
        return code(node.with_changes(lpar=(), rpar=()))
    return text


def _truth(node: cst.BaseExpression) -> bool | None:
    text = code(node)
    return text == "True" if text in ("True", "False") else None


def _is_class(name: str, ctx: Context) -> bool:
    return any(
        isinstance(statement, cst.ClassDef) and statement.name.value == name
        for statement in ctx.site.module.body
    )


def _roots(node: cst.BaseExpression, ctx: Context) -> set[str]:
    """The names of tensors and numbers that an expression is made of."""
    found = set()
    for inner in walk(node):
        if isinstance(inner, cst.Name):
            fact = ctx.kind_of(inner)
            if fact is not None and (fact.is_tensor or fact.kind in ("int", "float")):
                found.add(inner.value)
    return found


def _outside(names: set[str], ctx: Context) -> bool:
    """Whether all names are parameters of the function: its callers decide what they are."""
    if ctx.function is None:
        return False
    params = ctx.function.params
    every = {p.name.value for p in (*params.posonly_params, *params.params, *params.kwonly_params)}
    return names <= every
