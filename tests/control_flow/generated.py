"""Random programs of tensors, Python values and control flow, for `test_generated`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from hypothesis import strategies as st

BASE = torch.linspace(-1.0, 2.0, 6).reshape(2, 3)
_TENSORS = ("x", "y", "z", "w")


def inputs() -> list[Any]:
    """Calls of ``f(x, y, n, flag)`` that take every branch of the simple tests.

    Two pairs of Python values: each is compiled anew, and that is most of what a program costs.
    """

    def make(a: float, b: float, n: int, flag: bool) -> tuple[Any, ...]:
        return BASE + a, BASE * 0.5 + b, n, flag

    cases = [
        (2.0, 2.0, 2, True),
        (2.0, -3.0, 2, True),
        (-3.0, 2.0, 1, False),
        (-0.6, 0.1, 1, False),
    ]
    return [functools.partial(make, *case) for case in cases]


class _Writer:
    """Writes one function line by line; every choice is hypothesis's."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._lines: list[str] = []
        self._loops = 0

    def write(self) -> str:
        head = ["import torch", "", "", "def f(x, y, n, flag):"]
        # What spoils one rewrite spoils a whole program: most have little that does.
        self._kinds = self.pick(
            _BRANCHES, _BRANCHES, _LOOPS, _LOOPS, _CHANGES, _CHOICES, _CHOICES, _EVERYTHING
        )
        self._number_too = self._kinds is _EVERYTHING
        if self.chance():
            self._lines.append("    z = x * 1.5")
        else:
            self._lines.append("    z = y")
        self.block(1, frozenset("xyz"), depth=0, loop=False)
        self._lines.append(f"    return {', '.join(['x', 'y', 'z', *['n'] * self._number_too])}")
        return "\n".join([*head, *self._lines]) + "\n"

    # -- choices -----------------------------------------------------------------------------

    def pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def chance(self) -> bool:
        return bool(self._draw(st.booleans()))

    def name(self, bound: frozenset[str]) -> str:
        return str(self.pick(*sorted(bound)))

    def tensor(self, bound: frozenset[str], depth: int = 0) -> str:
        name, other = self.name(bound), self.name(bound)
        if depth > 1:
            return name
        inner = functools.partial(self.tensor, bound, depth + 1)
        kind = self.pick(*range(16))
        match kind:
            case 0 | 1:
                return name
            case 2:
                return f"{inner()} + {other}"
            case 3:
                return f"{inner()} * {self.pick('2', '0.5', 'n', other)}"
            case 4:
                return f"({inner()}).relu()"
            case 5:
                return f"torch.clamp({inner()}, max=1)"
            case 6:
                return f"{name} - n"
            case 7:
                return f"{name}.reshape(2, 3)"
            case 8:
                return self.pick(
                    f"-{name}",
                    f"{name}.detach()",
                    f"torch.sqrt({name}.abs())",
                    f"{name}.double()",
                    f"{name}.clamp(-9, 9).round().long()",
                )
            case 9:
                return f"torch.where({name} > 0, {name}, {other})"
            case 10 | 11:
                return f"({inner()} if {self.test(bound)} else {other})"
            case 12:
                return f"{name} / {other}"
            case 13:
                return f"{name} * ({name}.sum() {self.pick('and', 'or')} {other}.sum())"
            case 14:
                zero = self.pick("!= 0", "> 1")
                return f"{name} / (s if (s := {other}.sum()) {zero} else {self.pick('1.0', '2')})"
            case _:
                # Of one shape either way: what has another shape for other data fits no graph.
                return f"{name} - ({name}.max() {self.pick('and', 'or')} {other}.max())"

    def test(self, bound: frozenset[str]) -> str:
        name, other = self.name(bound), self.name(bound)
        return str(
            self.pick(
                f"{name}.sum() > {self.pick(-2, 0, 1.5)}",
                f"({name} > 0).any()",
                f"not ({name} > 0).all()",
                f"{name}.sum() > {other}.sum()",
                f"flag and {name}.max() > 0",
                f"n > 1 or ({name} > 1).any()",
                f"-1 < {name}.mean() < 1",
                f"{name}.max().item() > 0.5",
                f"float({name}.min()) < n",
                f"({name} > 0).any() and ({other} < 0).any()",
                f"torch.allclose({name}, {other})",
                f"torch.equal({name}, {other})",
                f"2.0 in {name}",
                f"any(({name}.sum() > 0, {other}.sum() > 0))",
                f"any(r.sum() > 0 for r in {name})",
                f"({name} > 0).sum() {self.pick('in', 'not in')} (0, 3, 6)",
                f"not all([(r > 0).any() for r in {name}])",
                f"(s := {name}.mean()) > 0",
                f"max({name}.sum(), {other}.sum()) > 0",
                f"min({name}.min(), {self.pick('0.5', 'n')}) > {other}.min()",
                f"sum(r.sum() for r in {name}) > 0",
                f"int({name}.sum()) {self.pick('> n', '== 0', '% 2 == 0')}",
                f"bool(({name} > 0).any())",
                f"sorted(({name}.sum(), {other}.sum()))[0] > 0",
                "n > 1",
                "flag",
            )
        )

    # -- statements --------------------------------------------------------------------------

    def block(
        self, indent: int, bound: frozenset[str], depth: int, *, loop: bool
    ) -> frozenset[str]:
        for _ in range(self.pick(1, 2, 3)):
            nested = (
                "if",
                "for",
                "while",
                "with",
                "try",
                "until",
                "append",
                "rounds",
                "match",
                "times",
                "switch",
            )
            kind = self.pick(*(k for k in self._kinds if depth < 2 or k not in nested))
            new = getattr(self, f"_{kind}")(indent, bound, depth, loop)
            if new is None:
                break
            bound = new
        return bound

    def line(self, indent: int, text: str) -> None:
        self._lines.append("    " * indent + text)

    def _assign(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        name = self.pick(*_TENSORS)
        self.line(indent, f"{name} = {self.tensor(bound)}")
        return bound | {name}

    def _if(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        self.line(indent, f"if {self.test(bound)}:")
        taken = self.block(indent + 1, bound, depth + 1, loop=loop)
        other = bound
        if self.pick(0, 0, 1):
            self.line(indent, f"elif {self.test(bound)}:")
            taken &= self.block(indent + 1, bound, depth + 1, loop=loop)
        if self.chance():
            self.line(indent, "else:")
            other = self.block(indent + 1, bound, depth + 1, loop=loop)
        return taken & other

    def _for(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        self.line(
            indent,
            self.pick(
                "for i in range(2):",
                "for i in range(n):",
                "for i in range(int(x.sum() > 0)):",
                "for row in x * 0.5:",
                "for i, row in enumerate(y + 1):",
            ),
        )
        self.block(indent + 1, bound, depth + 1, loop=True)
        return bound

    def _while(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        name = self.name(bound)
        self._loops += 1
        count = f"i{self._loops}"
        match self.pick(*range(11)):
            case 7 | 8:
                self._round(indent, bound, count, "while")
            case 9:
                self.line(indent, f"{count} = 1.0")
                limit = self.pick("1e-3", "0.2")
                self.line(
                    indent, f"while ({name} * {count}).abs().max() > 1 and {count} > {limit}:"
                )
                step = self.pick("*= 0.5", "/= 2", f"= {count} * 0.7", f"= {count} / 3 - 0.01")
                self.line(indent + 1, f"{count} {step}")
                use = self.pick(f"* {count}", f"- {count}", f"* (2 * {count})", f"+ (1 - {count})")
                self.line(indent, f"{name} = {name} {use}")
            case 10:
                self.line(indent, f"{count} = 0")
                self.line(indent, f"while {name}.abs().max() > 1 and {count} < 5:")
                self.line(indent + 1, f"{name} = {name}.clamp(-8, 8) * 0.6")
                self.line(indent + 1, f"{count} += 1")
                use = self.pick(f"/ ({count} + 1)", f"- {count}", f"* {count}")
                self.line(indent, f"{name} = {name} {use}")
            case 4:
                self.line(indent, f"{count} = 0")
                self.line(indent, f"while {name}.norm() > 1 and {count} < 4:")
                other = self.pick(name, *sorted(bound))
                self.line(indent + 1, f"{name} = {name} * 0.5 {self.pick('+', '-')} 0.1 * {other}")
                self.line(indent + 1, f"{count} {self.pick('+= 1', '+= 2', f'= {count} + 1')}")
                if self.chance():
                    self.line(indent, "else:")
                    self.line(indent + 1, f"{name} = {self.tensor(bound)}")
            case 5:
                self.line(indent, "while True:")
                self.line(indent + 1, f"new = {name}.clamp(-8, 8) * 0.5 + 0.1")
                self.line(indent + 1, f"if not (new - {name}).abs().max() >= 0.2:")
                if self.chance():
                    self.line(indent + 2, f"{name} = {name} + 1")
                self.line(indent + 2, "break")
                self.line(indent + 1, f"{name} = new")
            case 6:
                self.line(indent, f"{count} = 0")
                self.line(indent, f"while {count} < 4:")
                self.line(indent + 1, f"{name} = {name} * 0.7 - 0.1 * {count}")
                self.line(indent + 1, f"if {self.test(bound)}:")
                self.line(indent + 2, "break")
                self.line(indent + 1, f"{count} += 1")
            case 0:
                # Infinity comes to an end, too.
                self.line(indent, f"while {name}.abs().max() > {self.pick('1', '0.7')}:")
                self.line(indent + 1, f"{name} = {name}.clamp(-8, 8) * 0.5")
            case 1:
                self.line(indent, f"{count} = 0")
                self.line(indent, f"while {count} < 3 and {name}.sum() > -9:")
                self.line(indent + 1, f"{name} = {name} - 1")
                self.line(indent + 1, f"{count} += 1")
            case 2:
                self.line(indent, "while True:")
                self.line(indent + 1, f"{name} = {name}.clamp(-8, 8) * 0.5")
                self.line(indent + 1, f"if not {name}.abs().max() >= 1:")
                self.line(indent + 2, "break")
            case _:
                self.line(indent, f"{count} = torch.zeros(())")
                self.line(indent, f"while {count} < {name}.sum() and {count} < 3:")
                self.line(indent + 1, f"{name} = {name} - {count}")
                self.line(indent + 1, f"{count} = {count} + 1")
                if self.chance():
                    self.line(indent, "else:")
                    self.line(indent + 1, f"{name} = {name} + 1")
        return bound

    def _round(self, indent: int, bound: frozenset[str], count: str, kind: str) -> None:
        """A loop of a few rounds, with jumps and choices in its own block."""
        name, other = self.name(bound), self.name(bound)
        if kind == "while":
            self.line(indent, f"{count} = 0")
            self.line(indent, f"while {count} < 5 and ({name} < 4).all():")
            self.line(indent + 1, f"{count} += 1")
        else:
            self.line(indent, self.pick(f"for {count} in range(4):", f"for {count} in y * 0.5:"))
        breaks = kind == "for"
        for _ in range(self.pick(2, 3, 4)):
            match self.pick("assign", "assign", "skip", "choose", "choose", "break"):
                case "assign":
                    self.line(indent + 1, self._short(name, other))
                case "skip" | "break" as what:
                    self.line(indent + 1, f"if {self.test(bound)}:")
                    if self.chance():
                        self.line(indent + 2, self._short(name, other))
                    stops = what == "break" and breaks
                    breaks = breaks and not stops
                    self.line(indent + 2, "break" if stops else "continue")
                case _:
                    self.line(indent + 1, f"if {self.test(bound)}:")
                    self.line(indent + 2, self._short(name, other))
                    if self.chance():
                        self.line(indent + 2, self._short(other, name))
                    if self.chance():
                        self.line(indent + 1, "else:")
                        self.line(indent + 2, self._short(self.pick(name, other), name))
        self.line(indent + 1, f"{name} = {name} + 0.3")

    def _short(self, name: str, other: str) -> str:
        values = (f"{name} * 0.5", f"{name} + {other} * 0.1", f"-{name}", f"{name} - 1")
        return f"{name} = {self.pick(*values)}"

    def _rounds(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        self._loops += 1
        self._round(indent, bound, f"i{self._loops}", self.pick("while", "for", "for"))
        return bound

    def _match(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """What the first row that passes a test gives, from a function of its own."""
        name, other = self.name(bound), self.name(bound)
        self._loops += 1
        found = f"match{self._loops}"
        value = self.pick("row * 2", f"row + {other}[0]", "row - i", "-row")
        default = self.pick(f"{other}[0]", f"{name}[1] * 0.5", "t[0] + 1")
        self.line(indent, f"def {found}(t):")
        self.line(indent + 1, "for i, row in enumerate(t):")
        if self.chance():
            self.line(indent + 2, f"if row.sum() < {self.pick(-1, 0)}:")
            self.line(indent + 3, "continue")
        self.line(indent + 2, f"if row.max() > {self.pick(0, 1)}:")
        self.line(indent + 3, f"return {value}")
        self.line(indent + 1, f"return {default}")
        self.line(indent, f"{name} = {name} * {found}({name})")
        return bound

    def _until(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """A loop with a bound that data may end."""
        name, other = self.name(bound), self.name(bound)
        row = self.chance()
        self.line(indent, "for row in x:" if row else "for i in range(3):")
        new = f"{name} + row" if row else self.pick(f"{name} * 0.5", f"{name} - 0.5 * {other}")
        if self.chance():
            self.line(indent + 1, f"{name} = {new}")
        self.line(indent + 1, f"if {self.test(bound)}:")
        if self.chance():
            self.line(indent + 2, f"{name} = {self.tensor(bound)}")
        if depth == 0 and not self._number_too and self.pick(0, 0, 1):
            self.line(indent + 2, f"return {name}, y, z")
        else:
            self.line(indent + 2, "break")
        if self.chance():
            self.line(indent + 1, f"{name} = {new}")
        return bound

    def _append(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """A list that both branches append to."""
        self._loops += 1
        outs = f"outs{self._loops}"
        self.line(indent, f"{outs} = [x]")
        self.line(indent, f"if {self.test(bound)}:")
        name = self.name(bound)
        if self.chance():
            self.line(indent + 1, f"{name} = {self.tensor(bound)}")
        self.line(indent + 1, f"{outs}.append({self.tensor(bound)})")
        self.line(indent, "else:")
        self.line(indent + 1, f"{outs}.append({self.tensor(bound)})")
        target = self.pick(*_TENSORS)
        self.line(indent, f"{target} = {outs}[0] + {outs}[-1]")
        return bound | {target}

    def _order(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """What Python's own functions choose, or make of several tensors."""
        name, other, target = self.name(bound), self.name(bound), self.pick(*_TENSORS)
        key = self.pick("lambda t: t.sum()", "lambda t: -t.mean()", "torch.norm")
        match self.pick(*range(6)):
            case 0:
                low, high = self.pick(("low", "high"), ("high", "low"))
                pair = f"({name}.sum(), {other}.{self.pick('sum', 'max')}())"
                reverse = self.pick("", ", reverse=True")
                self.line(indent, f"{low}, {high} = sorted({pair}{reverse})")
                self.line(indent, f"{target} = {name} * low - high")
            case 1:
                chosen = f"{self.pick('max', 'min')}({name}, {other}, key={key})"
                self.line(indent, f"{target} = {chosen} + 1")
            case 2:
                chosen = f"{self.pick('max', 'min')}({name}.mean(), {other}.mean())"
                self.line(indent, f"{target} = {name} - {chosen}")
            case 3:
                self.line(indent, f"first, _ = sorted([{name}, {other}], key={key})")
                self.line(indent, f"{target} = first * 2")
            case 4:
                value = f"sum(r * 2 if {self.pick('r.sum() > 0', 'n > 1')} else r for r in {name})"
                self.line(indent, f"{target} = {other} + {value}")
            case _:
                rows = f"[r if r.max() > 0 else {self.pick('-r', 'r + n')} for r in {name}]"
                self.line(indent, f"{target} = torch.stack({rows})")
        return bound | {target}

    def _inner(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """A choice in a function of its own: a lambda, or one that changes a name outside."""
        name, target = self.name(bound), self.pick(*_TENSORS)
        self._loops += 1
        inner = f"inner{self._loops}"
        others = frozenset("xy")
        if self.chance():
            chosen = f"{self.pick('t * 2', '-t', 't')} if {self.test(others | {'t'})}"
            self.line(indent, f"{inner} = lambda t: {chosen} else {self.pick('t', 't + n')}")
            self.line(indent, f"{target} = {inner}({name})")
            return bound | {target}
        total = f"total{self._loops}"
        self.line(indent, f"{total} = {name}.mean()")
        self.line(indent, f"def {inner}(t):")
        self.line(indent + 1, f"nonlocal {total}")
        self.line(indent + 1, f"if {self.test(others | {'t'})}:")
        self.line(indent + 2, f"{total} = {total} {self.pick('+ t.mean()', '* 2', '- n')}")
        if self.chance():
            self.line(indent + 2, f"return t * {total}")
        self.line(indent + 1, self.pick("return t", f"return t - {total}"))
        self.line(indent, f"{target} = {inner}({name}) + {total}")
        return bound | {target}

    def _keyed(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """A branch that writes to an item of a dict."""
        self._loops += 1
        held, target = f"held{self._loops}", self.pick(*_TENSORS)
        self.line(indent, f"{held} = {{'a': {self.tensor(bound)}, 'b': n}}")
        self.line(indent, f"if {self.test(bound)}:")
        self.line(indent + 1, f"{held}['a'] = {self.tensor(bound)}")
        if self.chance():
            self.line(indent, "else:")
            self.line(indent + 1, f"{held}['a'] {self.pick('=', '+=')} {self.tensor(bound)}")
        self.line(indent, f"{target} = {held}['a'] * {held}['b']")
        return bound | {target}

    def _times(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """As many rounds as data say."""
        name, other = self.name(bound), self.name(bound)
        self._loops += 1
        count = f"i{self._loops}"
        # Not NaN, nor too many.
        size = f"{other}.abs().nan_to_num().clamp(0, 3).max()"
        self.line(indent, f"for {count} in range({self.pick(f'int({size})', f'{size}.long()')}):")
        for _ in range(self.pick(1, 2)):
            changed = self.pick(name, self.name(bound))
            uses = (f"{changed} * 0.9", f"{changed} - {count}", f"{changed} + {other} * 0.1")
            self.line(indent + 1, f"{changed} = {self.pick(*uses)}")
        if self.pick(0, 0, 1):
            self.line(indent, f"{name} = {name} * {count} if n > 9 else {name}")
        return bound

    def _switch(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        """A ``match`` on a number or a test."""
        if self.chance():
            self.line(indent, f"match {self.test(bound)}:")
            cases = ("True", "_")
        else:
            self.line(indent, "match n:")
            cases = (f"1 if {self.test(bound)}", self.pick("2", "_"))
        results = [bound]
        for case in cases:
            self.line(indent + 1, f"case {case}:")
            results.append(self.block(indent + 2, bound, depth + 1, loop=loop))
        return frozenset.intersection(*results)

    def _change(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        name, other = self.name(bound), self.name(bound)
        choices = (
            f"{name} += 1",
            f"{name}[{name} > 0] = 0",
            f"{name}.mul_(2)",
            f"{name}[0] = {other}[1]",
            f"{name}.copy_({other} * 2)",
        )
        self.line(indent, self.pick(*choices))
        return bound

    def _return(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        if not depth or self.chance():
            return self._assign(indent, bound, depth, loop)
        # Both ways out of a function give as many tensors.
        results = [self.tensor(bound), "y", "z", *["n"] * self._number_too]
        self.line(indent, f"return {', '.join(results)}")
        return None

    def _jump(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        if not loop:
            return self._assign(indent, bound, depth, loop)
        self.line(indent, self.pick("continue", "continue", "break"))
        return None

    def _number(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        values = ("n + 1", "2", f"3 if {self.test(bound)} else 1")
        self.line(indent, f"n = {self.pick(*values)}")
        return bound

    def _with(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        self.line(indent, "with torch.no_grad():")
        return self.block(indent + 1, bound, depth + 1, loop=loop)

    def _try(self, indent: int, bound: frozenset[str], depth: int, loop: bool) -> Any:
        self.line(indent, "try:")
        self.block(indent + 1, bound, depth + 1, loop=loop)
        name = self.name(bound)
        self.line(indent, "finally:")
        self.line(indent + 1, f"{name} = {name} + 1")
        return bound


_BRANCHES = ("assign", "assign", "assign", "return", "if", "if", "if", "append")
_LOOPS = ("assign", "assign", "jump", "if", "if", "for", "while", "until", "rounds", "match")
_CHANGES = ("assign", "assign", "change", "if", "if", "with")
_CHOICES = ("assign", "order", "order", "inner", "keyed", "times", "switch", "if")
_EVERYTHING = (*_BRANCHES, *_LOOPS, *_CHANGES, *_CHOICES, "number", "try")


@st.composite
def programs(draw: Any) -> str:
    """The text of a program ``f(x, y, n, flag)``."""
    return _Writer(draw).write()
