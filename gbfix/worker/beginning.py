"""Python state as it was before the first call of a sequence.

Variations run one after the other on one object, so what a first call alone does (an observer that
sets its scale, a cache that fills) would be seen with the recorded inputs only.
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

#: What a compiled module keeps for itself.
_NOT_STATE = frozenset({"_compiled_call_impl"})
_CONTAINERS = (
    dict, list, set, collections.deque, collections.OrderedDict, collections.defaultdict,
)  # fmt: skip
_NOTHING = object()


#: Whose objects are not looked into: they hold more than attributes.
_OTHERS = sys.stdlib_module_names | {"torch", "numpy"}
#: So deep, and so much, is looked into what elements and attributes hold.
_DEPTH, _MOST, _LONG = 4, 300, 1000


class Beginning:
    """Attributes and containers of the objects that a call can reach, each copied as it is.

    What they hold is followed as far as objects of plain classes and containers go, as a recorder
    of numbers is held by a stack of recorders; very large ones are left alone.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        self._held = {id(held): (held, held.copy()) for held in _holders(roots)}

    def has_changed(self) -> bool:
        """Whether a call has left another attribute or another element."""
        return any(not _is_same(held, before) for held, before in self._held.values())

    def restore(self) -> None:
        """Put all of it back."""
        for held, before in self._held.values():
            if _is_same(held, before):
                continue
            if isinstance(held, dict):
                for name in held.keys() - before.keys() - _NOT_STATE:
                    del held[name]
                for name, value in before.items():
                    if held.get(name, _NOTHING) is not value:
                        held[name] = value
            else:
                held.clear()
                (held.update if isinstance(held, set) else held.extend)(before)


def _holders(roots: Mapping[str, object]) -> Iterator[Any]:
    seen: set[int] = set()
    level: list[Any] = []
    for root in roots.values():
        for part in root.modules() if isinstance(root, torch.nn.Module) else (root,):
            level += _new(_direct(part), seen)
    yield from level
    left = _MOST
    for _ in range(_DEPTH):
        values = [value for held in level if len(held) <= _LONG for value in _values(held)]
        inner = [value for value in values if type(value) in _CONTAINERS or _is_plain(value)]
        found = [held for value in inner for held in _direct(value) if len(held) <= _LONG]
        level = _new(found, seen)[:left]
        left -= len(level)
        yield from level


def _direct(thing: object) -> Iterator[Any]:
    """A container, or the attributes of an object and the containers that these are."""
    if type(thing) in _CONTAINERS:
        yield thing
    own = getattr(thing, "__dict__", None)
    if type(own) is dict:
        yield own
        yield from (value for value in own.values() if type(value) in _CONTAINERS)


def _new(found: Iterable[Any], seen: set[int]) -> list[Any]:
    """Those that were not met before."""
    first = {id(held): held for held in found if id(held) not in seen}
    seen.update(first)
    return list(first.values())


def _values(held: Any) -> list[Any]:
    return list(held.values() if isinstance(held, dict) else held)


def _is_plain(thing: object) -> bool:
    """Whether it is an object of a class that is neither of Python's own nor of torch's; modules
    are found by themselves."""
    return (
        not isinstance(thing, type | types.ModuleType | types.FunctionType | torch.nn.Module)
        and type(thing).__module__.partition(".")[0] not in _OTHERS
    )


def _is_same(now: Any, before: Any) -> bool:
    if isinstance(now, set):
        return bool(now == before)
    if isinstance(now, dict):
        names = now.keys() - _NOT_STATE
        return names == before.keys() - _NOT_STATE and all(
            _is_one(now[name], before[name]) for name in names
        )
    return len(now) == len(before) and all(map(_is_one, now, before))


def _is_one(now: object, before: object) -> bool:
    """One object, or one number: numbers are made anew by what computes them."""
    if now is before:
        return True
    plain = type(now) in (int, float, str, bool) and type(now) is type(before)
    return plain and now == before
