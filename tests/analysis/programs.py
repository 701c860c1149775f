"""Small random functions with every kind of control flow, and a way to run them.

The programs always end: loops ask ``tick()``, which says yes only a few times.
"""

from __future__ import annotations

import functools
import random
import textwrap
import warnings
from typing import Any

NAMES = ("a", "b", "c", "d", "f")
PARAMETERS = ("a", "b")


class Boom(Exception):
    """The error that generated programs raise and catch."""


class Program:
    """Writes the source of one function ``def main(a, b)``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nonlocals = self.random.random() < 0.3

    def source(self) -> str:
        body = self.block(depth=3, loop=False, size=self.random.randint(2, 6))
        return "def main(a, b):\n" + textwrap.indent(body, "    ")

    def name(self) -> str:
        return self.random.choice(NAMES)

    def block(self, *, depth: int, loop: bool, size: int | None = None) -> str:
        count = size or self.random.randint(1, 3)
        return "".join(self.statement(depth=depth, loop=loop) for _ in range(count))

    def nested(self, depth: int, loop: bool) -> str:
        return textwrap.indent(self.block(depth=depth - 1, loop=loop), "    ")

    def expression(self, depth: int = 2) -> str:
        pick = self.random.randrange(12 if depth else 3)
        one = self.name()
        if pick <= 1:
            return one
        if pick == 2:
            return str(self.random.randint(0, 3))
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        return [
            f"({left} + {right})",
            f"({left} < {right})",
            f"({left} and {right})",
            f"({left} if {right} else {one})",
            f"(not {left})",
            f"({one} := {left})",
            f"sum([{one} for {one} in ({left}, {right})])",
            f"call(lambda: {left})",
            f"({left} < {right} < {one})",
        ][pick - 3]

    def statement(self, *, depth: int, loop: bool) -> str:
        simple = [
            self.assign,
            self.assign,
            self.assign,
            self.log,
            self.log,
            self.augment,
            self.unpack,
            self.delete,
            self.closure,
            self.call_closure,
            self.leave,
            self.generator,
        ]
        if loop:
            simple += [self.jump, self.jump]
        compound = [self.if_, self.if_, self.while_, self.for_, self.try_, self.with_]
        compound += [self.match, self.forever, self.define]
        if depth and self.random.random() < 0.5:
            return self.random.choice(compound)(depth, loop)
        return self.random.choice(simple)() + "\n"

    def assign(self) -> str:
        return f"{self.name()} = {self.expression()}"

    def log(self) -> str:
        return f"log({self.expression()})"

    def augment(self) -> str:
        return f"{self.name()} += {self.expression(1)}"

    def unpack(self) -> str:
        return f"{self.name()}, {self.name()} = {self.expression(1)}, {self.expression(1)}"

    def delete(self) -> str:
        return f"del {self.name()}" if self.random.random() < 0.4 else "boom()"

    def closure(self) -> str:
        return f"f = lambda: {self.expression(1)}"

    def generator(self) -> str:
        return f"f = next_of({self.expression(1)} for {self.name()} in (1, {self.expression(1)}))"

    def call_closure(self) -> str:
        return f"{self.name()} = call(f)"

    def leave(self) -> str:
        pick = self.random.random()
        if pick < 0.2:
            return f"return {self.expression()}"
        return "raise Boom" if pick < 0.3 else f"{self.name()} = boom()"

    def jump(self) -> str:
        return self.random.choice(("break", "continue"))

    def if_(self, depth: int, loop: bool) -> str:
        text = f"if {self.expression()}:\n{self.nested(depth, loop)}"
        if self.random.random() < 0.3:
            text += f"elif {self.expression()}:\n{self.nested(depth, loop)}"
        if self.random.random() < 0.5:
            text += f"else:\n{self.nested(depth, loop)}"
        return text

    def while_(self, depth: int, loop: bool) -> str:
        text = f"while tick() and {self.expression()}:\n{self.nested(depth, True)}"
        return text + self.loop_else(depth, loop)

    def forever(self, depth: int, loop: bool) -> str:
        guard = "    if not tick(): break\n"
        return f"while True:\n{guard}{self.nested(depth, True)}" + self.loop_else(depth, loop)

    def for_(self, depth: int, loop: bool) -> str:
        target = self.name() if self.random.random() < 0.7 else f"{self.name()}, {self.name()}"
        values = "((1, 2), (3, 4))" if "," in target else "range(2)"
        head = f"for {target} in {values}:\n"
        return head + self.nested(depth, True) + self.loop_else(depth, loop)

    def loop_else(self, depth: int, loop: bool) -> str:
        return f"else:\n{self.nested(depth, loop)}" if self.random.random() < 0.3 else ""

    def try_(self, depth: int, loop: bool) -> str:
        text = f"try:\n{self.nested(depth, loop)}"
        handlers = self.random.randint(0, 2)
        for number in range(handlers):
            kind = "Boom" if number == 0 and handlers == 2 else "Exception"
            name = f" as {self.name()}" if self.random.random() < 0.4 else ""
            text += f"except {kind}{name}:\n{self.nested(depth, loop)}"
        if handlers and self.random.random() < 0.3:
            text += f"else:\n{self.nested(depth, loop)}"
        if not handlers or self.random.random() < 0.3:
            text += f"finally:\n{self.nested(depth, loop)}"
        return text

    def with_(self, depth: int, loop: bool) -> str:
        name = f" as {self.name()}" if self.random.random() < 0.5 else ""
        manager = self.random.choice(("swallow", "nullcontext"))
        return f"with {manager}({self.expression(1)}){name}:\n{self.nested(depth, loop)}"

    def match(self, depth: int, loop: bool) -> str:
        one, other = self.random.sample(NAMES, 2)
        guard = f" if {self.expression(1)}" if self.random.random() < 0.5 else ""
        text = f"match ({self.expression(1)}, {self.expression(1)}):\n"
        text += f"    case ({one}, 1){guard}:\n{textwrap.indent(self.nested(depth, loop), '    ')}"
        text += f"    case (1, {other}):\n{textwrap.indent(self.nested(depth, loop), '    ')}"
        if self.random.random() < 0.5:
            text += f"    case _:\n{textwrap.indent(self.nested(depth, loop), '    ')}"
        return text

    def define(self, depth: int, loop: bool) -> str:
        # The functions share names with ``main`` in both directions.
        body = f"    {self.name()} = {self.expression(1)}\n"
        if self.nonlocals:
            name = self.random.choice(PARAMETERS)
            body = f"    nonlocal {name}\n    {name} = {self.expression(1)}\n"
        default = f"x={self.expression(1)}" if self.random.random() < 0.5 else ""
        return f"def f({default}):\n{body}    return {self.expression(1)}\n"


class Poison:
    """A value that must never be looked at."""

    def __init__(self, alarm: list[str]) -> None:
        self._alarm = alarm

    def _touched(self, *_: object) -> Any:
        self._alarm.append("used")
        raise RuntimeError("poison")

    __bool__ = __add__ = __radd__ = __lt__ = __gt__ = __call__ = __repr__ = __iter__ = _touched


class _Swallow:
    def __init__(self, value: object) -> None:
        self.value = value

    def __enter__(self) -> object:
        return self.value

    def __exit__(self, kind: object, *_: object) -> bool:
        return kind is not None


class SwallowRaised(_Swallow):
    """Takes what code raises, but no name that is not bound: that may be in any expression."""

    def __exit__(self, kind: object, *_: object) -> bool:
        return isinstance(kind, type) and not issubclass(kind, NameError)


class _Null(_Swallow):
    def __exit__(self, *_: object) -> bool:
        return False


@functools.lru_cache(maxsize=8)
def compiled(source: str) -> Any:
    """The code of a program; SyntaxError where Python refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, "<program>", "exec")


def run(source: str, a: object, b: object, seed: int, **extra: Any) -> tuple[Any, ...]:
    """What ``main(a, b)`` does: how it ends, what it logs; the same for the same seed."""
    chance = random.Random(seed)
    ticks = [5]
    logged: list[str] = []

    def tick() -> bool:
        ticks[0] -= 1
        return ticks[0] >= 0

    def boom() -> int:
        if chance.random() < 0.4:
            raise Boom
        return chance.randint(0, 2)

    def call(function: Any) -> Any:
        return function() if callable(function) else 7

    scope: dict[str, Any] = {
        "tick": tick,
        "boom": boom,
        "call": call,
        "log": lambda value: logged.append(_shown(value)),
        "next_of": lambda values: lambda: next(values, 0),
        "swallow": _Swallow,
        "nullcontext": _Null,
        "Boom": Boom,
        **extra,
    }
    exec(compiled(source), scope)
    try:
        outcome = _shown(scope["main"](a, b))
    except Exception as error:
        outcome = type(error).__name__
    return outcome, tuple(logged)


def _shown(value: object) -> str:
    if isinstance(value, int | tuple | None):
        return repr(value)
    return repr(value) if isinstance(value, Poison) else type(value).__name__
