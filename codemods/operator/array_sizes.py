"""How large arrays are that numpy's functions make: of what `sizes.Reader` follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from gbfix.analysis.tree import code, words

from .size_values import OPEN, UNKNOWN, Size, Value, combined

Read = Callable[[cst.BaseExpression], Value]
ONE = Size("1", 1)
NEW_AXIS = words("None np.newaxis numpy.newaxis")


@dataclasses.dataclass(frozen=True)
class Given:
    """A call's arguments: what it is called on or given first, the others, and the named ones."""

    first: Value
    rest: Sequence[cst.BaseExpression]
    named: Mapping[str, cst.BaseExpression]
    read: Read

    def asked(self, place: int, *names: str) -> cst.BaseExpression | None:
        """The argument at that place behind the first one, or of one of these names."""
        found = next((self.named[name] for name in names if name in self.named), None)
        return found if found is not None or place >= len(self.rest) else self.rest[place]


def array_call(last: str, given: Given) -> Value | None:
    """The sizes of what a function gives; None for functions that are not known here."""
    made = _FUNCTIONS.get(last)
    return made(given) if made is not None else None


def grid(node: cst.Subscript, read: Read) -> Value:
    """``np.mgrid[0:a, 0:b]``: two arrays of ``(a, b)``."""
    lengths = []
    for element in node.slice:
        each = element.slice
        if not isinstance(each, cst.Slice) or each.step is not None or each.upper is None:
            return UNKNOWN
        length = read(each.upper).size
        if each.lower is not None and code(each.lower) != "0":
            length = combined(length, read(each.lower).size, "-")
        lengths.append(length)
    if len(lengths) == 1:
        return Value(tuple(lengths))
    return Value((Size(str(len(lengths)), len(lengths)), *lengths))


def _tiled(given: Given) -> Value | None:
    times = given.asked(0, "reps", "dims")
    if times is None or given.first.sizes is None:
        return None
    counts = _numbers(given.read(times), [times, *given.rest[1:]], given.read)
    if counts is None:
        return None
    sizes = given.first.sizes
    width = max(len(sizes), len(counts))
    padded = [(ONE,) * (width - len(some)) + tuple(some) for some in (sizes, counts)]
    return Value(tuple(combined(n, size, "*") for size, n in zip(*padded, strict=True)))


def _numbers(
    value: Value, nodes: Sequence[cst.BaseExpression], read: Read
) -> tuple[Size, ...] | None:
    """The numbers of a tuple, or of several arguments."""
    if value.parts is not None:
        return tuple(part.size for part in value.parts)
    if value.sizes != ():
        return None
    return tuple(read(node).size for node in nodes)


def _with_axis(given: Given) -> Value | None:
    place = _place(given.asked(0, "axis"))
    sizes = given.first.sizes
    if sizes is None or place is None or not -len(sizes) - 1 <= place <= len(sizes):
        return None
    place = place % (len(sizes) + 1)
    return Value((*sizes[:place], ONE, *sizes[place:]))


def _place(node: cst.BaseExpression | None) -> int | None:
    text = code(node) if node is not None else ""
    return int(text) if text.lstrip("-").isdigit() else None


def _spaced(given: Given) -> Value | None:
    count = given.asked(1, "num", "steps")
    return None if count is None else Value((given.read(count).size,))


def _joined(given: Given) -> Value | None:
    """``np.concatenate((a, b), axis=0)``: as long as all of them together."""
    parts = given.first.parts
    node = given.asked(0, "axis", "dim")
    return _along(parts, 0 if node is None else _place(node))


def _appended(given: Given) -> Value | None:
    node, other = given.asked(1, "axis"), given.asked(0, "values")
    if node is None or other is None:
        return None  # both are made flat
    return _along((given.first, given.read(other)), _place(node))


def _along(parts: Sequence[Value] | None, place: int | None) -> Value | None:
    """Arrays that are put together along one dimension; the others agree."""
    if not parts or place is None or any(part.sizes is None for part in parts):
        return None
    rows = [part.sizes or () for part in parts]
    if len({len(row) for row in rows}) != 1 or not -len(rows[0]) <= place < len(rows[0]):
        return None
    place %= len(rows[0])
    total = rows[0][place]
    for row in rows[1:]:
        total = combined(total, row[place], "+")
    known = [next((s for s in column if s.known), column[0]) for column in zip(*rows, strict=True)]
    return Value((*known[:place], total, *known[place + 1 :]))


def _stacked_rows(given: Given) -> Value | None:
    """``np.vstack((a, b))`` of arrays without rows of their own."""
    parts = given.first.parts
    if not parts or any(part.sizes is None or len(part.sizes) != 1 for part in parts):
        return _along(parts, 0)
    length = next((part.sizes[0] for part in parts if part.sizes and part.sizes[0].known), OPEN)
    return Value((Size(str(len(parts)), len(parts)), length))


_FUNCTIONS: dict[str, Callable[[Given], Value | None]] = {
    "tile": _tiled,
    "expand_dims": _with_axis,
    "linspace": _spaced,
    "concatenate": _joined,
    "concat": _joined,
    "cat": _joined,
    "append": _appended,
    "vstack": _stacked_rows,
}

__all__ = ["NEW_AXIS", "ONE", "Given", "array_call", "grid"]
