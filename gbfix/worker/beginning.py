"""Python state as it was before the first call of a sequence.

Variations run one after the other on one object, so what a first call alone does (an observer that
sets its scale, a cache that fills) would be seen with the recorded inputs only.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import torch

#: What a compiled module keeps for itself.
_NOT_STATE = frozenset({"_compiled_call_impl"})
_CONTAINERS = (
    dict, list, set, collections.deque, collections.OrderedDict, collections.defaultdict,
)  # fmt: skip
_NOTHING = object()


class Beginning:
    """Attributes and containers of the objects that a call can reach, copied one level deep."""

    def __init__(self, roots: Mapping[str, object]) -> None:
        self._held = {id(held): (held, held.copy()) for held in _holders(roots)}

    def has_changed(self) -> bool:
        """Whether a call has left another attribute or another element."""
        return any(not _is_same(held, before) for held, before in self._held.values())

    def restore(self) -> None:
        """Put all of it back; what elements hold inside is not looked at."""
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
    for root in roots.values():
        if type(root) in _CONTAINERS:
            yield root
        for part in root.modules() if isinstance(root, torch.nn.Module) else (root,):
            own = getattr(part, "__dict__", None)
            if type(own) is dict:
                yield own
                yield from (value for value in own.values() if type(value) in _CONTAINERS)


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
