"""Sizes as texts over an operator's parameters, and values that have them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Size:
    """A number over the operator's parameters; ``data`` says that values decide it, ``torn`` that
    it is one of several, and nothing tells which.
    """

    text: str = ""
    value: int | None = None
    data: bool = False
    torn: bool = False

    @property
    def known(self) -> bool:
        return bool(self.text)


Loops = tuple[Size, ...]
OPEN = Size()
DATA = Size(data=True)
TORN = Size(torn=True)


@dataclasses.dataclass(frozen=True)
class Value:
    """``sizes`` of a tensor, an array or nested lists; a number has none, and may have ``size``.

    ``parts`` are the values of a tuple, where they are told apart.  ``lists`` says how many of the
    sizes are those of nested lists, or were, before a tensor was made of these: where the outer
    one is empty, nothing tells how long the inner ones would be.  ``untyped``: the dtype
    without any number, of a tensor or an array whose dtype is that of the numbers in such lists.
    ``plain``: a new tensor for which no dtype was named, as ``torch.zeros(n)`` makes it.
    ``sparse``: a tensor without strides, which no operator gives.
    """

    sizes: tuple[Size, ...] | None = None
    size: Size = OPEN
    parts: tuple[Value, ...] | None = None
    lists: int = dataclasses.field(default=0, kw_only=True)
    untyped: str = dataclasses.field(default="", kw_only=True)
    plain: bool = dataclasses.field(default=False, kw_only=True)
    sparse: bool = dataclasses.field(default=False, kw_only=True)

    @property
    def item(self) -> Value:
        if self.parts:
            return self.parts[0] if len(set(self.parts)) == 1 else UNKNOWN
        return Value(self.sizes[1:], lists=max(self.lists - 1, 0)) if self.sizes else UNKNOWN

    @property
    def listed(self) -> int:
        """How many sizes a list of such values has from lists: one more than these."""
        return 1 + combine_parts(self).lists

    @property
    def forgets(self) -> bool:
        """Whether a tensor that is made of these lists has one dimension where there is no row."""
        first = self.sizes[0] if self.sizes and len(self.sizes) == self.lists == 2 else OPEN
        return first.known and not first.text.isdigit()

    @property
    def length(self) -> Size:
        if self.parts is not None:
            return Size(str(len(self.parts)), len(self.parts))
        return self.sizes[0] if self.sizes else OPEN


UNKNOWN = Value()
NUMBER = Value(())


def combined(left: Size, right: Size, operator: str) -> Size:
    """The size of a sum, a difference, a product or a quotient of sizes."""
    if left.data or right.data:
        return DATA
    if not left.known or not right.known:
        return TORN if left.torn or right.torn else OPEN
    number: int | None = None
    a, b = left.value, right.value
    if a is not None and b is not None:
        match operator:
            case "+":
                number = a + b
            case "-":
                number = a - b
            case "*":
                number = a * b
            case "//" if b:
                number = a // b
            case _:
                return OPEN
    if operator == "+" and "0" in (left.text, right.text):
        return right if left.text == "0" else left
    if left.text.isdigit() and right.text.isdigit() and number is not None:
        return Size(str(number), number)
    if operator == "*" and "1" in (left.text, right.text):
        return right if left.text == "1" else left
    texts = [left.text, right.text]
    for place, text in enumerate(texts):
        if " " in text and (operator != "+" and (operator != "-" or place)):
            texts[place] = f"({text})"
    # `n - 1 + 1` reads badly
    if operator == "-" and right.text.isdigit() and left.text.endswith(f" + {right.text}"):
        return Size(left.text[: -len(right.text) - 3], number)
    if operator == "+" and right.text.isdigit() and left.text.endswith(f" - {right.text}"):
        return Size(left.text[: -len(right.text) - 3], number)
    return Size(f"{texts[0]} {operator} {texts[1]}", number)


def combine_parts(value: Value) -> Value:
    """A tuple as what ``torch.tensor`` makes of it."""
    if value.parts is None:
        return value
    inner = combine_parts(value.parts[0]) if value.parts else Value(())
    return Value((value.length, *(inner.sizes or ())), lists=1 + inner.lists)


def product(sizes: Sequence[Size] | None) -> Size:
    if sizes is None:
        return OPEN
    found = Size("1", 1)
    for size in sizes:
        found = combined(found, size, "*")
    return found


def merged(one: Value, other: Value, differing: Size = OPEN) -> Value:
    """What is known of a value that is the one or the other."""
    if one == other or other is UNKNOWN:
        return one
    if one is UNKNOWN:
        return other
    if one.parts is not None and other.parts is not None and len(one.parts) == len(other.parts):
        pairs = zip(one.parts, other.parts, strict=True)
        return Value(parts=tuple(merged(a, b, differing) for a, b in pairs))
    if one.sizes is None or other.sizes is None or len(one.sizes) != len(other.sizes):
        return UNKNOWN
    return Value(
        tuple(
            a if a == b else (DATA if a.data or b.data else differing)
            for a, b in zip(one.sizes, other.sizes, strict=True)
        ),
        lists=one.lists if one.lists == other.lists else 0,
        untyped=one.untyped if one.untyped == other.untyped else "",
        plain=one.plain and other.plain,
    )


def broadcast(one: Value, other: Value) -> Value:
    """The sizes of an elementwise operation."""
    if one.sizes is None or other.sizes is None:
        return UNKNOWN
    long, short = sorted((one.sizes, other.sizes), key=len, reverse=True)
    found = list(long)
    for place, size in enumerate(short, len(long) - len(short)):
        if found[place].text == "1":
            found[place] = size
        elif found[place].data or size.data:
            # Either of the two may be 1: the larger one is the result's.
            found[place] = found[place] if size.text == "1" else DATA
        elif found[place] != size and size.text != "1":
            found[place] = found[place] if found[place].known else size
    return Value(tuple(found))
