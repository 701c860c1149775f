"""Inputs that the user did not give: deterministic variations of a recorded call.

A variation works on a private copy of the call's tensors (aliasing and strides kept), so that the
same label gives the same inputs in every process.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gbfix.worker.values import is_plain, is_uninitialized, items_of, storage_token

Change = Callable[[torch.Tensor, torch.Generator], None]


@dataclasses.dataclass(frozen=True)
class Variation:
    """One way to vary a call.

    ``values`` variations keep shapes, dtypes and flags: a compiled region must serve them without
    compiling again.  ``first`` ones, too: there, Python state is as it was before the first call.
    ``grad`` ones make floating-point inputs require gradients, ``rebound`` ones give a global or an
    attribute another value (`gbfix.worker.rebind`), ``edge`` ones lie where the original is about
    to go another way (`gbfix.worker.edges`).  ``seed`` says what is drawn, where that is not the
    label.  A label such as ``grad+nan`` says that the values are those of ``nan`` at once.
    """

    label: str
    change: Change | None = None
    kind: str = "values"
    seed: str = ""

    @property
    def what(self) -> str:
        """The label without the name of the values."""
        return self.label.partition("+")[0]


def _redraw(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.dtype == torch.bool:
        value.copy_(torch.rand(value.shape, generator=generator) < 0.5)
    elif value.is_floating_point() or value.is_complex():
        finite = value[torch.isfinite(value)] if value.numel() else value
        spread = float(finite.abs().float().mean()) if finite.numel() else 1.0
        value.copy_(torch.randn(value.shape, generator=generator) * (spread or 1.0) * 1.3)
    elif value.numel():
        # Integers are often indices: stay within what was seen.
        mark = _mark(value)
        seen = value if mark is None else value[value != mark]
        low, high = int(seen.min()), int(seen.max())
        new = torch.randint(low, high + 1, value.shape, generator=generator)
        if mark is not None:
            marked = torch.rand(value.shape, generator=generator) < 1 - seen.numel() / value.numel()
            new = torch.where(marked, mark, new)
        value.copy_(new)


def _mark(value: torch.Tensor) -> int | None:
    """The one negative number among others: a label such as -100 that stands for "none".

    What lies between it and the others is no label: a loss may read or write out of bounds there.
    """
    negative: set[int] = set(value[value < 0].tolist())
    return negative.pop() if len(negative) == 1 and bool((value >= 0).any()) else None


def _negate(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.dtype == torch.bool:
        value.logical_not_()
    elif value.is_floating_point() or value.is_complex():
        value.neg_()
    else:
        value.copy_(value.flatten().flip(0).reshape(value.shape))


def _scale(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex():
        value.mul_(1000.0)


def _shrink(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex():
        value.mul_(-0.001)


def _zero(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        value.zero_()
    elif value.numel():
        value.fill_(int(value.min()))


def _one(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        value.fill_(1)
    elif value.numel():
        value.fill_(int(value.max()))


def _seed(number: float, whole: bool = False) -> Change:
    def change(value: torch.Tensor, generator: torch.Generator) -> None:
        if value.is_floating_point() and value.numel():
            if whole:
                value.fill_(number)
            else:
                flat = value.reshape(-1)
                flat[int(torch.randint(flat.numel(), (1,), generator=generator))] = number
                if flat.data_ptr() != value.data_ptr():
                    value.copy_(flat.reshape(value.shape))

    return change


VALUES = (
    Variation("base"),
    Variation("again"),
    # First calls again, with other inputs: what they do once would be seen with the recorded ones.
    Variation("first-negated", _negate, "first"),
    Variation("first-redrawn", _redraw, "first"),
    Variation("redrawn", _redraw),
    Variation("negated", _negate),
    Variation("redrawn-2", _redraw),
    Variation("scaled", _scale),
    Variation("small", _shrink),
    Variation("zeros", _zero),
    Variation("ones", _one),
    Variation("nan", _seed(float("nan"))),
    Variation("inf", _seed(float("inf"))),
    Variation("-inf", _seed(float("-inf"))),
    Variation("state-negated", None, "state"),
    Variation("state-scaled", None, "state"),
)
GRADS = (
    Variation("grad", None, "grad"),
    Variation("grad-negated", _negate, "grad"),
    Variation("grad-zeros", _zero, "grad"),
)
#: These compile anew.  They come before all that only eager runs go through: Python state must see
#: the same calls in every process, up to where its sequence ends.
ANEW = (
    Variation("grown", None, "shape"),
    Variation("aliased", None, "alias"),
    # A fresh start from the recorded numbers, then others: Dynamo makes them symbolic.
    Variation("settled", None, "settled"),
    Variation("numbers", None, "numbers"),
    Variation("instance", None, "instance"),
)
SHAPES = (
    # Two arguments of one sort may be compared with each other: the other one is larger then, or
    # the two are so near that a sum and a mean do not say the same.
    Variation("exchanged", None, "exchange"),
    Variation("close", None, "exchange"),
    Variation("single", None, "shape"),
    # Fewer rows than a constant of the text may ask for, and not so few that they broadcast.
    Variation("fewer", None, "shape"),
    Variation("wider", None, "shape"),
    # What lies between batch and columns; both sides of what is square; one that becomes two.
    Variation("taller", None, "shape"),
    Variation("square", None, "shape"),
    Variation("column", None, "shape"),
    Variation("columns", None, "shape"),
    Variation("longer", None, "shape"),
    Variation("empty", None, "shape"),
)
#: Another kind of call and other values at once: of a kind that the program does not make, other
#: values are not seen otherwise, and what a choice keeps out of a side shows where it runs.
_BOTH = tuple(
    Variation(f"{what}+{item.label}", item.change, kind, item.label)
    for what, kind, names in (
        ("grad", "grad", ("scaled", "nan", "inf")),
        ("mixed", "dtype", ("small", "scaled", "negated")),
        ("mixed-rest", "dtype", ("small", "scaled", "negated")),
    )
    for item in VALUES
    if item.label in names
)
FLAGS = (
    Variation("flags", None, "flags"),
    Variation("words", None, "words"),
    Variation("other-words", None, "words"),
    Variation("nought", None, "numbers"),
    Variation("minus", None, "numbers"),
    Variation("mode", None, "mode"),
    Variation("double", None, "dtype"),
    Variation("half", None, "dtype"),
    # The inputs alone: the state stays as it is.
    Variation("lower", None, "dtype"),
    Variation("mixed", None, "dtype"),
    Variation("mixed-rest", None, "dtype"),
    Variation("bytes", None, "dtype"),
    Variation("integer", None, "dtype"),
    Variation("image", None, "dtype"),
    Variation("fraction", None, "dtype"),
    Variation("plain", None, "plain"),
    Variation("strided", None, "layout"),
    Variation("defaults", None, "defaults"),
    Variation("arrays", None, "arrays"),
    Variation("scalars", None, "arrays"),
    Variation("texts", None, "arrays"),
    *_BOTH,
    # What raises half way leaves other state behind: from here on, that is likely.
    Variation("halves", None, "arrays"),
    # Rows that are as many in all inputs may be so by chance: of any two of four, each is once
    # longer than the other.  What raises half way leaves other state behind: these come last.
    Variation("ragged", None, "shape"),
    Variation("ragged-rest", None, "shape"),
    Variation("ragged-2", None, "shape"),
    Variation("ragged-2-rest", None, "shape"),
)
#: Gradients of gradients.
TWICE = Variation("twice", None, "grad")


def toward(label: str) -> Variation:
    """The variation called ``edge NAME SHARE``: so far from the recorded values to another one's.

    Numbers lie between; of integers and flags, as many as the share says are the other one's.
    """
    _, name, text = label.split(" ")
    share = float(text)
    whole = next(item.change for item in VALUES if item.label == name)

    def change(value: torch.Tensor, generator: torch.Generator) -> None:
        other = value.clone()
        if whole is not None:
            whole(other, generator)
        if value.is_floating_point() or value.is_complex():
            value.add_((other - value) * share)
        else:
            index = torch.arange(value.numel()).reshape(value.shape)
            value.copy_(torch.where(index < share * value.numel(), other, value))

    return Variation(label, change, "edge", f"edge {name}")


def _counts(value: torch.Tensor) -> bool:
    """Whether these may be counts: integers, none of which is 0 so far."""
    whole = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    return whole and value.numel() > 0 and not bool((value == 0).any())


def _none(value: torch.Tensor, generator: torch.Generator) -> None:
    if not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool):
        value.zero_()


def _units(value: torch.Tensor, generator: torch.Generator) -> None:
    if _counts(value) and value.dim() == 1 and bool((value > 0).all()):
        value.fill_(1)


def _alike(value: torch.Tensor, generator: torch.Generator) -> None:
    value.fill_(int(value.min()))


def _moved(value: torch.Tensor, generator: torch.Generator) -> None:
    """One becomes 0, another 1, and the sum stays: lengths of parts of a whole."""
    if value.dim() != 1 or bool((value < 0).any()):
        return
    last = int(value[-1]) - 1 if len(value) > 2 and value[-1] > 0 else 0
    value[1] += value[0] + last
    value[0] = 0
    value[-1] -= last


def _lone(value: torch.Tensor, generator: torch.Generator) -> None:
    """A mask that is made of it hits one place."""
    _fill(value, at_first=True)


def _lone_rest(value: torch.Tensor, generator: torch.Generator) -> None:
    _fill(value, at_first=False)


def _fill(value: torch.Tensor, *, at_first: bool) -> None:
    """The first number is another one than all others: 1 and 0, or the most and the least."""
    if not value.numel():
        return
    whole = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    low, high = (int(value.min()), int(value.max())) if whole else (0, 1)
    value.fill_(low if at_first else high)
    value[(0,) * value.dim()] = high if at_first else low


#: Counts of nothing; and one tensor of integers alone that holds one value everywhere, or other
#: parts of the same sum.  They begin where first calls do, so that they may come last in any
#: sequence.
NONE = Variation("none", _none, "none")
#: Lengths of one each: the longest of them is a size of 1.
UNITS = Variation("units", _units, "none")
ALONE = tuple(
    Variation(f"{name} {number}", change, "none")
    for number in (1, 2, 3)
    for name, change in (("alike", _alike), ("moved", _moved))
)
#: Tensors of one shape hold the same numbers, each in memory of its own.
TWINS = Variation("twins", None, "none")
#: One place is another than all others, so that a mask of such hits one, or all but one.
LONE = (Variation("lone", _lone, "none"), Variation("lone-rest", _lone_rest, "none"))
#: What shows sizes of 0 and of 1 where data decides them.
SIZES = (NONE, UNITS, *ALONE, *LONE)
#: What only some rewrites ask for: all that begins where first calls do, and comes last.
LAST = (*SIZES, TWINS)


#: Variations that mean something for calls without tensors, too.
_ABOUT_STATE = frozenset(
    {"values", "first", "edge", "state", "nudged", "mode", "rebound", "settled", "instance"}
)

#: Rows that share memory: no part of the sequence, as results may come out in another layout.
EXPANDED = Variation("expanded", None, "layout")


def _nudge(value: torch.Tensor, generator: torch.Generator) -> None:
    if value.is_floating_point() or value.is_complex():
        value.mul_(1 + 1e-6 * torch.randn(value.shape, generator=generator))


#: The recorded inputs, but for the last digit or two of float32: what the original makes of these
#: tells how far rounding alone may bring a compiled run.  Nothing else is run with them.
NUDGED = Variation("nudged", _nudge)


def _scale_and_nudge(value: torch.Tensor, generator: torch.Generator) -> None:
    _scale(value, generator)
    _nudge(value, generator)


def _shrink_and_nudge(value: torch.Tensor, generator: torch.Generator) -> None:
    _shrink(value, generator)
    _nudge(value, generator)


#: Inputs, and weights, that are hundreds of times as large may make chaos of any rounding, of small
#: ones a sum leaves little, and rows that are all alike have no spread to be divided by: the same
#: again with other last digits, of inputs and weights, tells how much their values say.
CHAOS = (
    Variation("small-nudged", _shrink_and_nudge, "nudged"),
    Variation("zeros-nudged", _zero, "nudged"),
    Variation("ones-nudged", _one, "nudged"),
    Variation("scaled-nudged", _scale_and_nudge, "nudged"),
    Variation("state-scaled-nudged", _nudge, "nudged"),
)


#: What a call that takes half a second or more goes through: some of each kind, as a patch is
#: compared with each of them six times over.
_FOR_SLOW = frozenset({
    "base", "again", "first-redrawn", "redrawn", "negated", "scaled", "zeros", "nan",
    "state-negated", "grad", "grad-negated", "aliased", "settled", "numbers", "instance",
    "exchanged", "wider", "fewer", "empty", "flags", "words", "mode", "double", "mixed",
    "strided", "defaults", "none", "units", "twins", "nudged", "scaled-nudged", "zeros-nudged",
})  # fmt: skip
#: What is run again, to learn what is not deterministic: the first of these, without a gap, as
#: Python state goes on from call to call.
_REPEATED = frozenset(
    {
        *("base", "again", "first-redrawn", "redrawn", "negated", "scaled", "zeros", "nan"),
        *("state-negated", "grad"),
    }
)
_SLOW = 0.5


def left_out(variation: Variation, seconds: float, *, repeated: bool = False) -> bool:
    """Whether a call that takes so many ``seconds`` is not made with a variation's inputs.

    ``repeated`` asks it of the run that only repeats what the original did.  What a rewrite's own
    check asks for is never left out.
    """
    if seconds <= _SLOW or variation.kind == "rebound":
        return False
    return variation.label not in (_REPEATED if repeated else _FOR_SLOW)


def of_nudged(label: str) -> str:
    """The label of the inputs that nudged ones are compared with; another label as it is."""
    return "base" if label == NUDGED.label else label.removesuffix("-nudged")


def variations(mode: str) -> tuple[Variation, ...]:
    """Those that a run in this mode goes through (``eager`` sees all of them)."""
    if mode == "eager":
        return (*VALUES, *GRADS, *ANEW, *SHAPES, *FLAGS, TWICE)
    if mode == "fullgraph-eager":
        return VALUES + GRADS + ANEW
    return VALUES + GRADS


#: Built-in iterators that can be rebuilt from their parts without consuming them.
_ITERATORS = frozenset(
    {
        "dict_itemiterator",
        "dict_keyiterator",
        "dict_valueiterator",
        "enumerate",
        "filter",
        "list_iterator",
        "list_reverseiterator",
        "map",
        "range_iterator",
        "tuple_iterator",
        "zip",
    }
)


def another_word(target: Any, word: str) -> str:
    """The next key of a table of the module that has this one; the text itself if none has.

    What the function's own code compares with is not asked: a patch changes that, and the same
    inputs have to come to both programs.
    """
    for function in _functions_of(target):
        for name, table in function.__globals__.items():
            if type(table) is not dict or name.startswith("__"):
                continue
            keys = [key for key in table if type(key) is str]
            if word in keys and len(keys) > 1:
                return keys[(keys.index(word) + 1) % len(keys)]
    return word


def _functions_of(target: Any) -> list[types.FunctionType]:
    """The function that is called, without what decorates it; of a module, all its methods."""
    if isinstance(target, torch.nn.Module):
        found = [value for value in vars(type(target)).values() if inspect.isfunction(value)]
        return sorted(found, key=lambda one: one.__name__ != "forward")
    function = inspect.unwrap(getattr(target, "__func__", target))
    return [function] if inspect.isfunction(function) else []


def _is_gone(value: object) -> bool:
    """A generator that has ended has nothing for another call, and nobody can make it again."""
    return isinstance(value, types.GeneratorType) and value.gi_frame is None


class Inputs:
    """The arguments of a recorded call, copied afresh for each variation."""

    def __init__(self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs)
        #: Whether something besides the arguments is varied as their values are.
        self.has_more = False
        self._words = functools.cache(functools.partial(another_word, target))

    def vary(self, variation: Variation) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Fresh arguments; None where the variation means nothing for them."""
        if any(map(_is_gone, (*self._args, *self._kwargs.values()))):
            return None
        # zlib.crc32, not hash(): string hashes differ between interpreters.
        generator = torch.Generator().manual_seed(
            zlib.crc32((variation.seed or variation.label).encode())
        )
        sizes = self.sizes(variation.label)
        copier = _Copier(variation, generator, sizes, self._words)
        args = copier.copy(self._args)
        kwargs = copier.copy(self._kwargs)
        if variation.kind == "alias":
            args, kwargs, copier.changed = _aliased(args, kwargs)
        if variation.label == TWINS.label:
            args, kwargs, copier.changed = _twins(args, kwargs)
        if variation.kind == "exchange":
            copier.changed = _exchange((args, kwargs), variation.label, generator)
        if variation.kind == "defaults":
            args, kwargs, copier.changed = self._without_defaults(args, kwargs)
        if variation.kind == "arrays":
            args, kwargs, copier.changed = self._with_arrays(args, kwargs, variation.label)
        # Another precision may be one of the state alone, and gradients those of parameters.
        of_state = variation.kind in _ABOUT_STATE or variation.label in ("double", "half", "twice")
        if not of_state and not copier.changed:
            return None
        varies = variation.kind in ("values", "first", "edge") and variation.change is not None
        if varies and not copier.tensors and not self.has_more:
            return None
        return args, kwargs

    @property
    def has_numbers(self) -> bool:
        """Whether the call is given Python numbers."""
        return self.vary(Variation("numbers", None, "numbers")) is not None

    def _with_arrays(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], label: str
    ) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
        """The call with tensors for numbers and texts that no annotation or default names, or
        with fractions for whole numbers that no annotation names.
        """
        bound = self._bound(args, kwargs)
        if bound is None:
            return args, kwargs, False
        changed = False
        for name, value in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            untold = parameter.annotation is inspect.Parameter.empty
            bare = untold and parameter.default is inspect.Parameter.empty
            if label == "halves":
                if untold and type(value) is int:
                    bound.arguments[name] = value + 0.5
                    changed = True
                continue
            if bare and type(value) is str and label == "texts":
                bound.arguments[name] = torch.tensor(3)
                changed = True
            if bare and type(value) is float and label != "texts":
                column = [[value], [value * 1.5 + 0.25]]
                bound.arguments[name] = (
                    torch.tensor(column)
                    if label == "arrays"
                    else torch.tensor(value, requires_grad=True)
                )
                changed = True
        return bound.args, bound.kwargs, changed

    def _bound(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> inspect.BoundArguments | None:
        target: Any = self._target
        if isinstance(target, torch.nn.Module):
            target = target.forward
        try:
            return inspect.signature(target).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return None

    def _without_defaults(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
        """The call without what it need not give: optional tensors are None then, mostly."""
        bound = self._bound(args, kwargs)
        if bound is None:
            return args, kwargs, False
        parameters = bound.signature.parameters
        optional = [
            name
            for name in bound.arguments
            if parameters[name].default is not inspect.Parameter.empty
        ]
        for name in optional:
            del bound.arguments[name]
        return bound.args, bound.kwargs, bool(optional)

    @property
    def rows(self) -> int:
        """The most common leading size of the tensors: what looks like the batch."""
        return self.sizes("single")

    def sizes(self, label: str) -> int:
        """The size that a variation changes: of the batch, or of what has no other name; else -1.

        "taller" changes what lies before the last dimension, "square" what is a batch and more.
        """
        given = [item for item in _tensors((self._args, self._kwargs)) if is_plain(item)]
        if label == "taller":
            sizes = [item.shape[-2] for item in given if item.dim() > 2]
        else:
            sizes = [item.shape[0] for item in given if item.dim() > 0]
        size = collections.Counter(sizes).most_common(1)[0][0] if sizes else -1
        if label == "square" and not any(size in item.shape[1:] for item in given):
            return -1
        return size


def _takes(value: torch.Tensor, label: str) -> bool:
    """Whether a tensor gets another dtype: floats, and single numbers that `int` may cut off."""
    if label not in ("fraction", "bytes"):
        return value.dtype == torch.float32
    whole = value.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)
    return whole and (value.dim() == 0 or label == "bytes")


def _as_dtype(value: torch.Tensor, label: str) -> torch.Tensor:
    if label == "fraction":
        return value.float() + 0.75
    if label == "bytes":
        # int8 cannot hold the bound.
        wide = value.to(torch.int16) if value.dtype == torch.int8 else value
        return wide.clamp(0, 255).to(torch.uint8)
    if label == "image":
        # All that the dtype can hold: what is compared with more than that must not wrap around.
        finite = torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0).abs()
        largest = float(finite.max()) if finite.numel() else 0.0
        return (finite * (255.0 / (largest or 1.0))).round().to(torch.uint8)
    if label in ("double", "mixed", "mixed-rest"):
        return value.double()
    if label in ("half", "lower"):
        return value.bfloat16()
    whole = torch.nan_to_num(value, nan=0.0, posinf=9.0, neginf=-9.0).clamp(-(2.0**40), 2.0**40)
    return (whole * 3).round().long()


def _aliased(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments with one tensor given twice, where two of them look alike."""
    changed = False
    first: dict[tuple[Any, ...], torch.Tensor] = {}

    def swap(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or not is_plain(value):
            return value
        key = (type(value), value.shape, value.dtype, value.device, value.requires_grad)
        if key in first:
            changed = changed or first[key] is not value
            return first[key]
        first[key] = value
        return value

    new_args = tuple(swap(value) for value in args)
    return new_args, {name: swap(value) for name, value in kwargs.items()}, changed


def _twins(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments with the first one's numbers in all floats that look like it, as copies."""
    changed = False
    first: dict[tuple[Any, ...], torch.Tensor] = {}

    def copy(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or not is_plain(value):
            return value
        key = (type(value), value.shape, value.dtype, value.device)
        if not value.is_floating_point() or key not in first:
            first[key] = value
            return value
        changed = True
        return first[key].detach().clone().requires_grad_(value.requires_grad)

    new_args = tuple(copy(value) for value in args)
    return new_args, {name: copy(value) for name, value in kwargs.items()}, changed


def _exchange(call: Any, label: str, generator: torch.Generator) -> bool:
    """Turn the values round among floats of one shape, or bring them near; whether there were two.

    Indices and lengths stay: in another's place they may lie outside of what they count.
    """
    groups: dict[tuple[Any, ...], dict[int, torch.Tensor]] = {}
    for value in _tensors(call):
        if is_plain(value) and value.is_floating_point() and value.numel():
            alike = groups.setdefault((value.shape, value.dtype, value.device), {})
            alike.setdefault(storage_token(value) or id(value), value)
    changed = False
    for group in groups.values():
        first, *others = group.values()
        if not others:
            continue
        with torch.no_grad():
            values = [tensor.clone() for tensor in group.values()]
            if label == "close":
                # A little nearer to zero each, so that their order is known, whatever is asked.
                noise = [0.9 + 0.09 * torch.rand(first.shape, generator=generator) for _ in others]
                new = [values[0], *(values[0] * one.to(first) for one in noise)]
            else:
                new = [*values[1:], values[0]]
            for tensor, value in zip(group.values(), new, strict=True):
                try:
                    tensor.copy_(value)
                except RuntimeError:
                    # Expanded tensors cannot be written: they keep their recorded values.
                    continue
                changed = True
    return changed


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [item for _, item in items_of(value)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


class _Copier:
    """Copies tensors inside containers; other objects are passed on as they are."""

    def __init__(
        self,
        variation: Variation,
        generator: torch.Generator,
        rows: int,
        words: Callable[[str], str],
    ) -> None:
        self._variation = variation
        self._generator = generator
        self._rows = rows
        self._words = words
        self._columns = 0
        self._alike = 0
        self._grown: set[bool] = set()
        self._memo: dict[int, Any] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._varied: set[int] = set()
        self._keep: list[Any] = []
        self.changed = False
        self.tensors = 0
        self._floats = 0
        self._integers = 0

    def copy(self, value: Any) -> Any:
        if id(value) in self._memo:
            return self._memo[id(value)]
        new = self._copy(value)
        self._memo[id(value)] = new
        self._keep.append(value)
        return new

    def _copy(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._plain(value) if self._variation.kind == "plain" else self._tensor(value)
        if isinstance(value, bool) and self._variation.kind == "flags":
            self.changed = True
            return not value
        if self._variation.kind == "numbers" and type(value) in (int, float):
            return self._number(value)
        if self._variation.kind == "words" and type(value) is str:
            return self._word(value)
        kind = type(value)
        if kind in (list, set):
            more = self._more(value) if kind is list else ()
            return kind(self.copy(item) for item in (*value, *more))
        if isinstance(value, tuple):
            items = [self.copy(item) for item in value]
            return kind(*items) if hasattr(value, "_fields") else kind(items)
        if isinstance(value, dict):
            # Subclasses (ModelOutput and kin) carry attributes as well: copy those, then fill.
            if kind is dict or kind is collections.OrderedDict:
                return kind((key, self.copy(item)) for key, item in items_of(value))
            return self._object(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(value)
        if type(value).__module__ == "builtins" and type(value).__name__ in _ITERATORS:
            return self._iterator(value)
        return value

    def _number(self, value: int | float) -> int | float:
        self.changed = True
        if self._variation.label == "nought":
            return type(value)(0)
        if self._variation.label == "minus":
            return -value
        return value + 1 if type(value) is int else value * 1.5 + 0.25

    def _word(self, value: str) -> str:
        new = self._words(value) if self._variation.label == "words" else f"{value}_"
        self.changed = self.changed or new != value
        return new

    def _more(self, value: list[Any]) -> list[Any]:
        """One more for a list of tensors: another one like its last."""
        if self._variation.label != "longer" or not value:
            return []
        if not all(isinstance(item, torch.Tensor) and is_plain(item) for item in value):
            return []
        self.changed = True
        return [value[-1].detach().clone().requires_grad_(value[-1].requires_grad)]

    def _iterator(self, value: Any) -> Any:
        # These pickle as (function, (parts,), position): rebuilt from copies of their parts, the
        # original stays unconsumed.
        function, arguments, *state = value.__reduce__()
        new = function(*(self.copy(part) for part in arguments))
        if state and state[0] is not None:
            new.__setstate__(state[0])
        return new

    def _object(self, value: Any) -> Any:
        import copy

        try:
            new = copy.copy(value)
            for key, item in list(vars(value).items()):
                object.__setattr__(new, key, self.copy(item))
            if isinstance(value, dict):
                for key, item in items_of(value):
                    dict.__setitem__(new, key, self.copy(item))
        except Exception:
            return value
        return new

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        self.tensors += 1
        kind = self._variation.kind
        if not is_plain(value):
            return self._exotic(value)
        with torch.no_grad():
            new = self._fresh(value)
            if kind == "shape":
                new = self._resized(new)
            if kind == "dtype" and self._mixes(new) and _takes(new, self._variation.what):
                new = _as_dtype(new, self._variation.what)
                self.changed = True
            if kind == "layout" and self._variation.label == EXPANDED.label:
                if new.dim() > 1 and new.shape[0] > 1:
                    new = new[:1].expand(new.shape)
                    self.changed = True
            elif kind == "layout" and new.dim() > 1 and new.is_contiguous() and new.numel() > 1:
                new = new.transpose(0, -1).contiguous().transpose(0, -1)
                self.changed = True
            if self._variation in LONE or (self._variation in (NONE, UNITS) and _counts(new)):
                self.changed = True
            if self._variation not in ALONE or self._is_the_one(new):
                self._change(new)
        # Integers made from a tensor that required gradients cannot.
        needs = value.requires_grad and (new.is_floating_point() or new.is_complex())
        if kind == "grad" and (new.is_floating_point() or new.is_complex()):
            self.changed = self.changed or not needs
            needs = True
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(new, requires_grad=needs)
        if needs:
            new.requires_grad_()
        return new

    def _is_the_one(self, value: torch.Tensor) -> bool:
        """Whether this is the tensor of integers that varies alone."""
        if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
            return False
        if value.numel() < 2:
            return False
        self._integers += 1
        if str(self._integers) != self._variation.label.rpartition(" ")[2]:
            return False
        self.changed = True
        return True

    def _mixes(self, value: torch.Tensor) -> bool:
        """Whether this tensor is converted where the others are not: the first one, or all else."""
        label = self._variation.what
        if not label.startswith("mixed") or value.dtype != torch.float32:
            return True
        self._floats += 1
        return (self._floats == 1) is (label == "mixed")

    def _exotic(self, value: torch.Tensor) -> torch.Tensor:
        """A sparse tensor keeps its pattern, and its values vary; others stay as they are."""
        if is_uninitialized(value):
            return value
        with torch.no_grad():
            new = value.detach().clone()
            if new.layout is torch.sparse_coo:
                self._change(new._values())
            elif new.layout is not torch.strided and not new.is_nested:
                self._change(new.values())
        return new.requires_grad_(value.requires_grad)

    def _plain(self, value: torch.Tensor) -> Any:
        """The Python value of a single one: a flag or a number may come as either."""
        self.tensors += 1
        if not is_plain(value) or value.dim() or value.requires_grad:
            return self._tensor(value)
        self.changed = True
        return value.item()

    def _fresh(self, value: torch.Tensor) -> torch.Tensor:
        """A copy with the same strides that shares memory exactly where the original does."""
        plain = value.detach()
        if type(plain) is not torch.Tensor or plain.layout is not torch.strided:
            return plain.clone()
        token = storage_token(plain)
        if not token or plain.is_conj() or plain.is_neg():
            return plain.clone()
        storage = self._storages.get(token)
        if storage is None:
            source: Any = plain.untyped_storage()
            storage = source.clone()
            self._storages[token] = storage
            self._keep.append(plain)
        new = torch.empty(0, dtype=plain.dtype, device=plain.device)
        return new.set_(storage, plain.storage_offset(), plain.shape, plain.stride())

    def _resized(self, value: torch.Tensor) -> torch.Tensor:
        """Another batch (leading size), or another size elsewhere, of the same values."""
        if self._variation.label in ("taller", "square"):
            return self._grown_everywhere(value)
        if self._variation.label in ("column", "columns"):
            return self._with_columns(value)
        if self._variation.label == "longer":
            return value
        if self._variation.label == "wider":
            if value.dim() < 1 or value.shape[-1] < 2 or not value.is_floating_point():
                return value
            self.changed = True
            return torch.cat([value, value[..., :1]], -1)
        if value.dim() < 1 or value.shape[0] != self._rows:
            return value
        label, rows = self._variation.label, value.shape[0]
        if label.startswith("ragged"):
            chosen = bool(self._alike & (2 if "2" in label else 1))
            self._alike += 1
            grows = chosen is not label.endswith("rest")
            # Where all of them grow, or none, nothing is new.
            self._grown.add(grows)
            self.changed = len(self._grown) > 1
            return torch.cat([value, value[:1]]) if grows else value
        if label == "grown":
            self.changed = True
            return torch.cat([value, value[:1]])
        left = {"single": 1, "fewer": 2}.get(label, 0)
        if rows == left or (label == "fewer" and rows < left):
            return value
        self.changed = True
        return value[:left].clone()

    def _grown_everywhere(self, value: torch.Tensor) -> torch.Tensor:
        """One more wherever the size stands; of the batch, where that is what is square."""
        first = 0 if self._variation.label == "square" else 1
        for dim in range(first, value.dim()):
            if value.shape[dim] == self._rows and self._rows > 1:
                self.changed = True
                value = torch.cat([value, value.narrow(dim, 0, 1)], dim)
        return value

    def _with_columns(self, value: torch.Tensor) -> torch.Tensor:
        """Two where a size behind the batch is 1: in all tensors, or in the first alone."""
        if not value.is_floating_point() or 1 not in value.shape[1:] or value.numel() == 0:
            return value
        self._columns += 1
        if self._variation.label == "column" and self._columns > 1:
            return value
        self.changed = True
        for dim in range(1, value.dim()):
            if value.shape[dim] == 1:
                value = torch.cat([value, value * 0.5 + 1], dim)
        return value

    def _change(self, value: torch.Tensor) -> None:
        if self._variation.change is None:
            return
        token = storage_token(value)
        if token and token in self._varied:
            return
        self._varied.add(token)
        try:
            self._variation.change(value, self._generator)
        except (RuntimeError, NotImplementedError, TypeError, IndexError):
            # Expanded or exotic tensors cannot be written: they keep their recorded values.
            return
