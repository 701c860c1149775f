"""How large the results of an operator are, found by running its body with inputs of other sizes.

The text of a piece does not always tell its results' sizes, and one recorded call cannot: where two
dimensions were 12, a result of 12 may follow either.  The body is therefore run again and again,
each time with other sizes, and a size is what agrees with all runs: ``query.shape[1]``,
``n * x.shape[0]``, a number, or a size that the data decide.  It runs on fake tensors as far as
that goes: then nothing is computed, and what it reads of the data (``lengths.tolist()``) is a
symbol, which stands for all values.  Where it needs numbers (numpy, a comparison), it runs on
invented ones: several for the same sizes, as the data may decide.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import inspect
import io
import itertools
import logging
import random
import re
import time
import tokenize
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch._library.custom_ops import CustomOpDef
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    statically_known_true,
)
from torch.utils import _pytree as pytree

from gbfix.schema import Told
from gbfix.worker.shots import TookTooLong, time_limit

#: A size that the data decide (see `gbfix.schema.Told`).
BY_DATA = ""

#: Where a size stands among the arguments: the argument, the item of a list, the dimension.
_Slot = tuple[str, int, int]
#: One run: the sizes that were given, and those that came out; below zero where the data decide,
#: and then the same where they were equal whatever the data were.
_Run = tuple[Mapping[_Slot, int], tuple[tuple[int, ...], ...]]

_DATA = -1
#: A body that is slower than that is not asked.
_SECONDS, _ONE = 60.0, 10.0
#: What is not needed is not waited for where it is slow.
_BRIEF, _SOON = 0.5, 8.0
#: How many runs more than what is needed, of numbers and of fake tensors, which are slower.
_MORE, _MORE_FAKES = 200, 24
#: In so many runs the data have to decide on two sizes that are to be one.
_SHOWN = 3
#: Of so many equal sizes, each choice of some of them is tried.
_FEW = 4
_MOST = 1 << 20
_OF_FAKES = (
    GuardOnDataDependentSymNode,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    NotImplementedError,
)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What cannot be run is no news: torch logs it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def told(
    operator: CustomOpDef, args: Sequence[Any], kwargs: Mapping[str, Any], *, sizes: bool = True
) -> Told | None:
    """The sizes (if they are asked for) and dtypes of an operator's results.

    None where its body cannot be run like this.
    """
    names = [argument.name for argument in operator._opoverload._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    body = operator._init_fn
    with _silent():
        wider = _widening(body, given)
        integers, follows = _of_kinds(body, given)
        stays = _staying(body, given)
    found = _told(body, given) if sizes else None
    if found is None:
        any_told = wider or integers or follows or stays
        return Told((), 0, False, wider, integers, follows, stays) if any_told else None
    return dataclasses.replace(found, wider=wider, integers=integers, follows=follows, stays=stays)


def _widening(body: Callable[..., Any], given: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """By result, the arguments of which a wider dtype makes it wider; of those that must have one
    dtype together, the first.  Empty where the body does not run, or has no two of them.
    """
    floats = [
        name
        for name, value in given.items()
        if isinstance(value, torch.Tensor) and value.dtype in _NARROW
    ]
    plain = _dtypes(body, given, {}) if len(floats) > 1 else None
    if plain is None:
        return ()
    found: list[list[str]] = [[] for _ in plain]
    tied: list[str] = []

    def take(names: Sequence[str]) -> bool:
        came_out = _dtypes(body, given, dict.fromkeys(names, torch.float64))
        if came_out is None or len(came_out) != len(plain):
            return False
        for place, (before, after) in enumerate(zip(plain, came_out, strict=True)):
            if before in _NARROW and after is torch.float64:
                found[place].append(names[0])
        return True

    for name in floats:
        if not take([name]):
            tied.append(name)
    if tied and not take(tied):
        return ()
    return tuple(tuple(sorted(names, key=floats.index)) for names in found)


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def _of_kinds(
    body: Callable[..., Any], given: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """What the results are of whole numbers, and whether they are as wide as the floats that are
    given (see `Told`); empty where the body has no floats.
    """
    floats = [
        name
        for name, value in given.items()
        if isinstance(value, torch.Tensor) and value.dtype in _NARROW
    ]
    plain = _dtypes(body, given, {}) if floats else None
    if plain is None:
        return (), ()

    def come_out(*kinds: torch.dtype) -> list[tuple[torch.dtype, ...]]:
        """By result, its dtypes where all floats have each of these kinds."""
        ways = [_dtypes(body, given, dict.fromkeys(floats, kind)) for kind in kinds]
        known = [way for way in ways if way is not None and len(way) == len(plain)]
        return [*zip(*known, strict=True)] if len(known) == len(kinds) else []

    default = torch.get_default_dtype()
    names: dict[tuple[torch.dtype, ...], str] = {
        (default, default): "fraction",
        (torch.int64, torch.int64): "sum",
        (torch.int64, torch.int32): "same",
    }
    whole, wide = (torch.int64, torch.int32), (torch.float64, torch.bfloat16)
    integers = tuple(
        names.get(found, "") if before in _NARROW else ""
        for before, found in zip(plain, come_out(*whole), strict=False)
    )
    follows = tuple(
        before in _NARROW and found == wide
        for before, found in zip(plain, come_out(*wide), strict=False)
    )
    return integers if any(integers) else (), follows if any(follows) else ()


def _staying(body: Callable[..., Any], given: Mapping[str, Any]) -> tuple[bool, ...]:
    """By result, whether it is of int64 whatever integers are given: places, say, or counts."""
    whole = [
        name
        for name, value in given.items()
        if isinstance(value, torch.Tensor) and value.dtype is torch.int64
    ]
    ways = [
        _dtypes(body, given, dict.fromkeys(whole, kind)) if whole else None
        for kind in (torch.int64, torch.int32)
    ]
    if ways[0] is None or ways[1] is None or len(ways[0]) != len(ways[1]):
        return ()
    found = tuple(one is other is torch.int64 for one, other in zip(*ways, strict=True))
    return found if any(found) else ()


def _dtypes(
    body: Callable[..., Any], given: Mapping[str, Any], kinds: Mapping[str, torch.dtype]
) -> list[torch.dtype] | None:
    """The dtypes of the results, with other ones of some arguments; None where that fails."""

    def value(name: str, it: Any) -> Any:
        if not isinstance(it, torch.Tensor):
            return it
        return it.detach().to(kinds[name]) if name in kinds else it.detach().clone()

    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), time_limit(_ONE):
            leaves = _tensors(body(**{name: value(name, it) for name, it in given.items()}))
    except (Exception, TookTooLong):
        return None
    return None if leaves is None else [leaf.dtype for leaf in leaves]


def _told(body: Callable[..., Any], given: Mapping[str, Any]) -> Told | None:
    inputs = _Inputs(given)
    codes = _codes(body)
    settings = _settings(body, given, {name for code in codes for name in code.co_names})
    if settings is None:
        return None
    for real in (True,) if any(map(_writes_texts, codes)) else (False, True):
        with _silent():
            runs = _runs(body, inputs, real=real)
            varied = _varied(body, inputs, settings, runs[0][1], real=real) if runs else None
        if varied is not None:
            sizes = tuple(
                tuple(BY_DATA if _from_outside(codes, it) else it for it in each)
                for each in _sizes(runs, inputs, varied)
            )
            return Told(sizes, len(runs), real, alike=_alike(runs, sizes))
    return None


class _NoAnswer(Exception):
    """The body does not run like this, or its results differ in more than their sizes."""


class _Inputs:
    """The arguments of one call, to be made anew with other sizes."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.slots: dict[_Slot, int] = {}
        for name, value in given.items():
            items = value if isinstance(value, list | tuple) else (value,)
            if isinstance(value, list | tuple):
                self.slots[name, -1, -1] = len(value)
            for item, each in enumerate(items):
                if isinstance(each, torch.Tensor):
                    self.slots |= {(name, item, d): n for d, n in enumerate(each.shape)}
                elif type(each) is int and abs(each) < _MOST:
                    self.slots[name, item, -1] = each

    def text(self, slot: _Slot) -> str:
        """How a fake names the size."""
        name, item, dim = slot
        value = self.given[name]
        listed = isinstance(value, list | tuple)
        if item < 0:
            return f"len({name})"
        holder = f"{name}[{item}]" if listed else name
        return holder if dim < 0 else f"{holder}.shape[{dim}]"

    def from_last(self, slot: _Slot) -> int:
        """Which dimension it is, counted from the last one, -1; 0 for a number."""
        name, item, dim = slot
        value = self.given[name]
        each = value[item] if isinstance(value, list | tuple) and item >= 0 else value
        return dim - each.dim() if isinstance(each, torch.Tensor) and dim >= 0 else 0

    def shorter(self) -> Iterator[dict[_Slot, int]]:
        """The recorded sizes with fewer numbers in the tensors that may be read one by one.

        Lengths of parts, for one: what is done for each of them takes its time.
        """
        read = {
            name: value
            for name, value in self.given.items()
            if isinstance(value, torch.Tensor)
            and value.dim() == 1
            and not value.dtype.is_floating_point
        }
        others = {size for (name, _, _), size in self.slots.items() if name not in read}
        for size in (2, 3, 5):
            if read and size not in others:
                yield {**self.slots, **{(name, 0, 0): size for name in read}}

    def made(
        self, sizes: Mapping[_Slot, int], tensor: Callable[[torch.Tensor, list[int]], torch.Tensor]
    ) -> dict[str, Any]:
        """The arguments with these sizes."""
        result: dict[str, Any] = {}
        for name, value in self.given.items():
            if not isinstance(value, list | tuple):
                result[name] = self._one(name, 0, value, sizes, tensor)
                continue
            length = sizes[name, -1, -1]
            # A longer list has its last item again.
            places = [min(n, len(value) - 1) for n in range(length)] if value else []
            result[name] = [self._one(name, n, value[n], sizes, tensor) for n in places]
        return result

    @staticmethod
    def _one(
        name: str,
        item: int,
        value: Any,
        sizes: Mapping[_Slot, int],
        tensor: Callable[[torch.Tensor, list[int]], torch.Tensor],
    ) -> Any:
        if isinstance(value, torch.Tensor):
            return tensor(value, [sizes[name, item, dim] for dim in range(value.dim())])
        return sizes.get((name, item, -1), value)


def _others(
    inputs: _Inputs, base: Mapping[_Slot, int], literals: Sequence[int]
) -> Iterator[tuple[bool, dict[_Slot, int]]]:
    """Other sizes: those that are equal together, and some of these without the others.

    Those that come with True tell sizes apart that are equal by chance: without them, nothing is
    known.
    """
    classes = _classes(base)

    def of(changed: Mapping[_Slot, int]) -> dict[_Slot, int]:
        return {**base, **changed}

    for step in (lambda n: n + 1, lambda n: 1, lambda n: 0):
        for equal in classes:
            yield True, of({slot: step(base[slot]) for slot in equal})
    for equal in classes:
        for some in _subsets(equal, inputs):
            yield True, of({slot: base[slot] + 1 for slot in some})
            yield True, of(dict.fromkeys(some, 1))
    # What has to be a multiple of something else is one where all grow alike.
    for by in (2, 3):
        yield False, of({slot: by * size for slot, size in base.items()})
        for equal in classes:
            yield False, of({slot: by * base[slot] for slot in equal})
    # Large ones first: what is done for a few may be something else.
    for size in (33, 16, *itertools.chain(*((n + 1, n) for n in literals)), 65, 11, 7, 5, 3, 2):
        for equal in classes:
            yield False, of(dict.fromkeys(equal, size))
    chosen = random.Random(0)
    for _ in range(12):
        sizes = [(equal, chosen.randint(1, 9)) for equal in classes]
        yield False, of({slot: size for equal, size in sizes for slot in equal})


def _classes(base: Mapping[_Slot, int]) -> list[list[_Slot]]:
    """Sizes that are equal."""
    found: dict[int, list[_Slot]] = {}
    for slot, size in base.items():
        found.setdefault(size, []).append(slot)
    return list(found.values())


def _subsets(equal: Sequence[_Slot], inputs: _Inputs) -> Iterator[Sequence[_Slot]]:
    """Some of several sizes, and not all; of many, one or two, or the same dimension of each."""
    small = range(1, len(equal)) if len(equal) <= _FEW else (1, 2)
    for count in small:
        yield from itertools.combinations(equal, count)
    if len(equal) <= _FEW:
        return
    ways: list[Callable[[_Slot], int]] = [lambda slot: slot[2], inputs.from_last]
    for way in ways:
        places = sorted({way(slot) for slot in equal})
        for place in places if len(places) > 1 else ():
            some = [slot for slot in equal if way(slot) == place]
            yield some
            yield [slot for slot in equal if slot not in some]


def _codes(body: Callable[..., Any]) -> list[types.CodeType]:
    """The code of the body, and of what it calls of its file: functions, and methods by name."""
    known = getattr(body, "__globals__", {})
    classes = [value for value in known.values() if isinstance(value, type)]
    waiting: list[Any] = [getattr(body, "__code__", None)]
    found: list[types.CodeType] = []
    while waiting:
        code = waiting.pop()
        if not isinstance(code, types.CodeType) or code in found:
            continue
        found.append(code)
        waiting += [it for it in code.co_consts if isinstance(it, types.CodeType)]
        called = [known.get(name) for name in code.co_names]
        called += [vars(kind).get(name) for kind in classes for name in code.co_names]
        called = [it.fget if isinstance(it, property) else it for it in called]
        waiting += [getattr(inspect.unwrap(it), "__code__", None) for it in called if callable(it)]
    return found


#: Read what no argument holds, and what another run may find otherwise.
_READS = frozenset(
    {
        *("open", "read_text", "read_bytes", "read", "readline", "readlines", "load", "loads"),
        *("environ", "getenv", "check_output", "run", "popen", "stdin", "input"),
    }
)


def _from_outside(codes: Sequence[types.CodeType], size: str | None) -> bool:
    """Whether a size may be one that the body has read from a file or the environment.

    Then it has a number that neither the text nor an argument has.
    """
    if not size or not any(_READS.intersection(code.co_names) for code in codes):
        return False
    written = {const for code in codes for const in _flat(code.co_consts) if type(const) is int}
    numbers = {int(it) for it in re.findall(r"(?<![\w\[])\d+(?!\])", size)}
    return not numbers <= written | {0, 1}


def _flat(consts: Sequence[Any]) -> Iterator[Any]:
    for item in consts:
        yield from _flat(item) if isinstance(item, tuple) else (item,)


def _writes_texts(code: types.CodeType) -> bool:
    """Whether code makes texts or hashes of values.

    Of a symbol that would be "u0", which is as good as any number to nobody.
    """
    formats = any(it.opname.startswith("FORMAT_") for it in dis.get_instructions(code))
    return formats or bool(_TEXTS.intersection(code.co_names))


#: Make a text, a hash or bytes.
_TEXTS = frozenset({"str", "repr", "format", "ascii", "hash", "encode", "join", "dumps", "pack"})


# -- what may decide on sizes besides sizes --------------------------------------------------------

#: Sets one thing to another value, and gives what puts it back.
_Change = Callable[[_Inputs], Callable[[], None]]


def _settings(
    body: Callable[..., Any], given: Mapping[str, Any], names: set[str]
) -> list[list[_Change]] | None:
    """What else may decide on a size, each with other values of it; None where one has none.

    A fraction, a truth value, and what an object holds that the body finds by its identity
    (``names`` are those that its code reads): another call, or another object, may have another.
    """
    found: list[list[_Change]] = []
    for name, value in given.items():
        held = _object(body, value)
        holder: dict[str, Any] = vars(held) if held is not None else {}
        read = {key: value for key, value in holder.items() if key in names}
        if held is None and not _is_sized(value):
            read = {name: value}
        place = holder if held is not None else None
        for key, each in read.items():
            inner = _held_by(each, names)
            places = [(key, each, place)] if inner is None else inner
            for name_, value_, place_ in places:
                others = _other_values(value_)
                if others is None:
                    return None
                changes: list[_Change] = [
                    functools.partial(_changed, key=name_, value=it, place=place_) for it in others
                ]
                found += [[*changes, *_renamed(name_, value_, others, place_)]] if changes else []
    return found


#: What an object that has it gives under other names than those of its attributes.
_COMPUTES = ("__getattr__", "__getitem__", "__iter__", "__len__", "__call__")
_NONE = object()
_Place = tuple[str, Any, dict[str, Any] | None]


def _held_by(value: Any, names: set[str]) -> list[_Place] | None:
    """What the body reads of an object that holds settings (a config), also of its classes.

    None for other values, and where it cannot be told what is read: nothing by its name, what the
    object computes when it is asked.  (A method or a property has no other values.)
    """
    own = getattr(value, "__dict__", None)
    if not isinstance(own, dict) or isinstance(value, torch.Tensor | torch.nn.Module):
        return None
    if any(name in vars(kind) for kind in type(value).__mro__ for name in _COMPUTES):
        return None
    held = {name: inspect.getattr_static(value, name, _NONE) for name in sorted(names)}
    return [(name, it, own) for name, it in held.items() if it is not _NONE] or None


def _renamed(
    key: str, value: Any, others: Sequence[Any], place: dict[str, Any] | None
) -> list[_Change]:
    """Another number, and in the tensors of whole numbers as well: the number of a word, say."""
    if type(value) is not int:
        return []

    def change(inputs: _Inputs, other: int) -> Callable[[], None]:
        undo = _changed(inputs, key, other, place)
        before = dict(inputs.given)
        for name, each in before.items():
            whole = isinstance(each, torch.Tensor) and each.dtype in (torch.int64, torch.int32)
            if whole and name != key:
                there, here = each == other, each == value
                swapped = torch.where(there, value, torch.where(here, other, each))
                cast(dict[str, Any], inputs.given)[name] = swapped

        def back() -> None:
            cast(dict[str, Any], inputs.given).update(before)
            undo()

        return back

    return [functools.partial(change, other=other) for other in others]


def _changed(
    inputs: _Inputs, key: str, value: Any, place: dict[str, Any] | None
) -> Callable[[], None]:
    """Give an argument, or what an object holds, another value; what comes back undoes it."""
    target = cast(dict[str, Any], inputs.given) if place is None else place
    before = target.get(key, _NONE)
    target[key] = value

    def undo() -> None:
        if before is _NONE:
            del target[key]  # the class has it
        else:
            target[key] = before

    return undo


def _object(body: Callable[..., Any], value: Any) -> Any:
    """The object that an identity stands for in one of the file's tables."""
    if type(value) is not int or abs(value) < _MOST:
        return None
    tables = getattr(body, "__globals__", {}).values()
    weak = (it for it in tables if isinstance(it, weakref.WeakValueDictionary))
    return next((it[value] for it in weak if value in it), None)


def _is_sized(value: Any) -> bool:
    """Whether its sizes, or its number, are among those that runs vary anyway."""
    items = value if isinstance(value, list | tuple) else (value,)
    kinds = torch.Tensor | torch.dtype | torch.device
    return all(isinstance(each, kinds) or type(each) is int for each in items)


def _other_values(value: Any) -> list[Any] | None:
    """Others than this one; None where it is not known what there may be."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, 2 * value + 3, 1]
        case float():
            return [value / 2, 2 * value, value + 1.0, 0.0]
        case torch.Tensor():
            return [torch.cat([value, value])] if value.dim() else []
        case list() | tuple() if all(isinstance(it, bool | int | float) for it in value):
            kind = type(value)
            ones = [_other_values(it) or [it] for it in value]
            fewer = [kind(value[:-1])] if value else []
            return [kind([*value, *value[-1:]]), *fewer, kind(it[0] for it in ones)]
        case torch.dtype() | torch.device():
            return []
    return None


def _varied(
    body: Callable[..., Any],
    inputs: _Inputs,
    settings: Sequence[Sequence[_Change]],
    first: tuple[tuple[int, ...], ...],
    *,
    real: bool,
) -> set[tuple[int, int]] | None:
    """The results' dimensions on which something else than sizes decides; None where no other
    value of it goes through.
    """
    run = _with_numbers if real else _with_fakes
    found: set[tuple[int, int]] = set()
    for changes in settings:
        went = False
        for change in changes:
            undo = change(inputs)
            try:
                with time_limit(_ONE):
                    now = run(body, inputs, inputs.slots)
            except (Exception, TookTooLong):
                continue
            finally:
                undo()
            if now is None or [len(it) for it in now] != [len(it) for it in first]:
                return None
            went = True
            found |= {
                (leaf, dim)
                for leaf, sizes in enumerate(now)
                for dim, size in enumerate(sizes)
                if size != first[leaf][dim]
            }
        if not went:
            return None
    return found


def _literals(body: Callable[..., Any]) -> list[int]:
    """Whole numbers that the body names: below and above one, it may do different things."""
    try:
        text = inspect.getsource(body)
        tokens = list(tokenize.generate_tokens(io.StringIO(inspect.cleandoc(text)).readline))
    except (OSError, TypeError, tokenize.TokenError, IndentationError, SyntaxError):
        return []
    numbers = {int(t.string) for t in tokens if t.type == tokenize.NUMBER and t.string.isdigit()}
    return sorted(n for n in numbers if 12 <= n <= 512)[:4]


def _runs(body: Callable[..., Any], inputs: _Inputs, *, real: bool) -> list[_Run]:
    """The recorded sizes, and all others with which the body came to its end.

    Empty where it does not run like this, or the time did not do.
    """
    begun = time.monotonic()
    run = _with_numbers if real else _with_fakes
    found: list[_Run] = []
    more = 0
    seen: set[tuple[int, ...]] = set()

    def tried(sizes: Mapping[_Slot, int], limit: float = _ONE) -> bool:
        """Whether it came to its end."""
        key = tuple(sizes[slot] for slot in inputs.slots)
        if key in seen:
            return False
        seen.add(key)
        with time_limit(limit):
            came_out = run(body, inputs, sizes)
        known = [len(each) for each in found[0][1]] if found else None
        if came_out is None or (known and known != [len(each) for each in came_out]):
            raise _NoAnswer  # another number of results or of dimensions
        found.append((sizes, came_out))
        return True

    def is_tried(sizes: Mapping[_Slot, int], *, needed: bool = True) -> bool:
        try:
            return tried(sizes, _ONE if needed or real else _BRIEF)
        except _NoAnswer:
            raise
        except Exception:
            return False  # sizes that do not go together
        except TookTooLong:
            if needed or real:
                raise
            return False  # much is done for each of many

    try:
        tried(inputs.slots)
        base = next((it for it in inputs.shorter() if is_tried(it)), inputs.slots)
        for needed, sizes in _others(inputs, base, _literals(body)):
            spent = time.monotonic() - begun
            if spent > _SECONDS:
                return []
            if needed or (more < (_MORE if real else _MORE_FAKES) and spent < _SOON):
                before = len(seen)
                is_tried(sizes, needed=needed)
                more += not needed and len(seen) > before
    except (Exception, TookTooLong):
        return []  # a loop may not end on invented numbers
    return found


def _with_fakes(
    body: Callable[..., Any], inputs: _Inputs, sizes: Mapping[_Slot, int]
) -> tuple[tuple[int, ...], ...] | None:
    """The sizes of the results; raises `_NoAnswer` where fakes do not do."""
    env = cast(Any, ShapeEnv)(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    mode = cast(Any, FakeTensorMode)(shape_env=env, allow_non_fake_inputs=True, static_shapes=True)

    def tensor(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
        return torch.empty(shape, dtype=like.dtype, device=like.device)

    try:
        with torch.no_grad(), mode:
            result = body(**inputs.made(sizes, tensor))
    except _OF_FAKES as error:
        raise _NoAnswer from error
    leaves = _tensors(result)
    known = sorted({*sizes.values()})
    if leaves is None:
        return None
    met: list[Any] = []
    return tuple(tuple(_known_size(size, known, met) for size in leaf.shape) for leaf in leaves)


def _known_size(size: Any, known: Sequence[int], met: list[Any]) -> int:
    """A size as a number, if the symbols in it leave no other one; ``met`` are those that do."""
    if isinstance(size, int):
        return size
    number = next((n for n in known if statically_known_true(size == n)), None)
    if number is not None:
        return number
    place = next((n for n, one in enumerate(met) if statically_known_true(size == one)), len(met))
    if place == len(met):
        met.append(size)
    return _DATA - place


def _with_numbers(
    body: Callable[..., Any], inputs: _Inputs, sizes: Mapping[_Slot, int]
) -> tuple[tuple[int, ...], ...] | None:
    """The same with numbers: of sizes that differ from one filling to the next, data decide."""
    found: list[tuple[tuple[int, ...], ...]] = []
    for filling in (_repeated, _drawn, _constant):

        def tensor(
            like: torch.Tensor,
            shape: list[int],
            fill: Callable[[torch.Tensor, list[int]], torch.Tensor] = filling,
        ) -> torch.Tensor:
            if torch.Size(shape).numel() > _MOST:
                raise ValueError("too large")
            return fill(like.detach(), shape)

        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                leaves = _tensors(body(**inputs.made(sizes, tensor)))
        except Exception:
            continue
        if leaves is None:
            return None
        found.append(tuple(tuple(leaf.shape) for leaf in leaves))
    if not found:
        raise ValueError("no numbers go through")
    if len({tuple(map(len, one)) for one in found}) > 1:
        return None
    met: dict[tuple[int, ...], int] = {}
    return tuple(
        tuple(
            now[0] if len({*now}) == 1 else _DATA - met.setdefault(now, len(met))
            for now in zip(*leaf, strict=True)
        )
        for leaf in zip(*found, strict=True)
    )


def _repeated(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """The recorded numbers, again and again."""
    result = like
    for dim, size in enumerate(shape):
        if not result.shape[dim]:
            return torch.zeros(shape, dtype=like.dtype)
        result = result.index_select(dim, torch.arange(size) % result.shape[dim])
    return result.clone()


def _drawn(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Numbers from the range of the recorded ones."""
    if like.dtype.is_floating_point or like.dtype.is_complex or not like.numel():
        return torch.randn(shape, dtype=torch.float32).to(like.dtype)
    if like.dtype is torch.bool:
        return torch.rand(shape) < 0.5
    low, high = int(like.min()), int(like.max())
    return torch.randint(low, high + 1, shape, dtype=torch.int64).to(like.dtype)


def _constant(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """One number everywhere: the first that was recorded."""
    first = like.flatten()[0] if like.numel() else torch.zeros((), dtype=like.dtype)
    return first.expand(shape).clone()


def _tensors(result: Any) -> list[torch.Tensor] | None:
    """The tensors of a result; None where there is anything else, or a list of them."""
    parts = result if isinstance(result, tuple) else (result,)
    leaves = pytree.tree_leaves(parts)
    if len(leaves) != len(parts) or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    return leaves


# -- what the runs agree on --------------------------------------------------------------------


def _sizes(
    runs: Sequence[_Run], inputs: _Inputs, varied: set[tuple[int, int]]
) -> tuple[tuple[str | None, ...], ...]:
    """``varied`` are the results and dimensions on which not sizes alone decide."""

    def size(leaf: int, dim: int, place: int) -> str | None:
        if (leaf, dim) in varied:
            return BY_DATA
        return _size([(sizes, result[leaf][dim]) for sizes, result in runs], inputs, place)

    return tuple(
        tuple(size(leaf, dim, dim - len(dims)) for dim in range(len(dims)))
        for leaf, dims in enumerate(runs[0][1])
    )


def _alike(
    runs: Sequence[_Run], sizes: Sequence[Sequence[str | None]]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Sizes that the data decide, and that were equal in every run."""
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for leaf, dims in enumerate(sizes):
        for dim, size in enumerate(dims):
            came_out = tuple(result[leaf][dim] for _, result in runs)
            if size == BY_DATA and sum(one <= _DATA for one in came_out) >= _SHOWN:
                groups.setdefault(came_out, []).append((leaf, dim))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _size(
    runs: Sequence[tuple[Mapping[_Slot, int], int]], inputs: _Inputs, place: int
) -> str | None:
    """The text of one size; ``place`` counts from the last dimension, -1."""
    if any(size <= _DATA for _, size in runs):
        return BY_DATA
    seen = {size for _, size in runs}
    slots = sorted(inputs.slots, key=lambda slot: _rank(slot, inputs, place))
    if len(seen) == 1:
        # That it is always this one tells something where those that were as large have changed.
        alike = {slot for slot in slots if inputs.slots[slot] in seen}
        changed = {slot for sizes, _ in runs for slot in slots if sizes[slot] not in seen}
        return str(*seen) if len(runs) >= 4 and alike <= changed else None
    for slot in slots:
        if all(sizes[slot] == size for sizes, size in runs):
            return inputs.text(slot) if len(seen) >= 3 else None
    if len(seen) < 3:
        return None
    for text, value in (*_broadcasts(slots, inputs), *_combinations(slots, inputs)):
        if all(value(sizes) == size for sizes, size in runs):
            return text
    return BY_DATA


def _rank(slot: _Slot, inputs: _Inputs, place: int) -> tuple[bool, bool, int]:
    """Tensors before numbers, and of these the dimension that stands where this one does."""
    where = inputs.from_last(slot)
    return not where, where != place, list(inputs.given).index(slot[0])


def _broadcasts(
    slots: Sequence[_Slot], inputs: _Inputs
) -> Iterator[tuple[str, Callable[[Mapping[_Slot, int]], int]]]:
    """Sizes of which one may be 1 where the others are not."""

    def joined(sizes: Mapping[_Slot, int], some: Sequence[_Slot]) -> int:
        return next((sizes[slot] for slot in some if sizes[slot] != 1), 1)

    # Those that were equal, or 1.
    dims = [slot for slot in slots if slot[1] >= 0 and slot[2] >= 0]
    for count in (4, 3, 2):
        for some in itertools.combinations(dims, count):
            if len({inputs.slots[slot] for slot in some} - {1}) <= 1:
                shapes = (
                    f"{inputs.text(slot).rpartition('[')[0]}[{_span(slot[2])}]" for slot in some
                )
                yield (
                    f"torch.broadcast_shapes({', '.join(shapes)})[0]",
                    functools.partial(joined, some=some),
                )


def _span(place: int) -> str:
    """One dimension as a slice."""
    return f"{place} : {place + 1}" if place else ":1"


def _combinations(
    slots: Sequence[_Slot], inputs: _Inputs
) -> Iterator[tuple[str, Callable[[Mapping[_Slot, int]], int]]]:
    """Sizes made of one or two others."""

    def of_one(sizes: Mapping[_Slot, int], slot: _Slot, way: Callable[[int], int]) -> int:
        return way(sizes[slot])

    def of_two(
        sizes: Mapping[_Slot, int], slots: tuple[_Slot, _Slot], way: Callable[[int, int], int]
    ) -> int:
        return way(sizes[slots[0]], sizes[slots[1]])

    for slot in slots:
        for text, one in _OF_ONE:
            yield text.format(inputs.text(slot)), functools.partial(of_one, slot=slot, way=one)
    for pair in itertools.permutations(slots, 2):
        for text, two in _OF_TWO:
            yield (
                text.format(*map(inputs.text, pair)),
                functools.partial(of_two, slots=pair, way=two),
            )


_OF_ONE: tuple[tuple[str, Callable[[int], int]], ...] = (
    ("2 * {}", lambda n: 2 * n),
    ("3 * {}", lambda n: 3 * n),
    ("4 * {}", lambda n: 4 * n),
    ("{} // 2", lambda n: n // 2),
    ("{} // 4", lambda n: n // 4),
    ("{} // 2 + 1", lambda n: n // 2 + 1),
    ("({} + 1) // 2", lambda n: (n + 1) // 2),
    ("{} + 1", lambda n: n + 1),
    ("{} + 2", lambda n: n + 2),
    ("{} - 1", lambda n: n - 1),
    ("{} - 2", lambda n: n - 2),
    ("max({} - 1, 0)", lambda n: max(n - 1, 0)),
)
_OF_TWO: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("{} + {}", lambda a, b: a + b),
    ("{} - {}", lambda a, b: a - b),
    ("{} * {}", lambda a, b: a * b),
    ("{} + {} - 1", lambda a, b: a + b - 1),
    ("{} - {} + 1", lambda a, b: a - b + 1),
    ("min({}, {})", min),
    ("max({}, {})", max),
)
