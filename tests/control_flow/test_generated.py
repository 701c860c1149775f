"""Random programs of branches over tensors and Python values, before and after rewriting.

Whatever a codemod proposes must either be refused by torch (validation then drops it) or do what
the original did: a program that runs and differs is a defect, however odd the program.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from branch_programs import load, outcome
from gbfix_codemods.control_flow.branchless_guard import BranchlessGuard
from gbfix_codemods.control_flow.if_to_cond import IfToCond
from gbfix_codemods.control_flow.if_to_where import IfToWhere
from gbfix_codemods.control_flow.ternary_to_cond import TernaryToCond

from gbfix.codemod import Codemod, NearMiss, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

CODEMODS: list[Codemod] = [IfToCond(), IfToWhere(), BranchlessGuard(), TernaryToCond()]
FACTS: dict[str, Fact] = {
    "x": tensor(2, 3),
    "y": tensor(2, 3),
    "n": scalar(2, constant=False),
    "flag": scalar(True, constant=False),
}
BASE = torch.linspace(-1.0, 2.0, 6).reshape(2, 3)


class Writer:
    """Writes one random function ``f(x, y, n, flag)`` line by line."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["import torch", "", "def f(x, y, n, flag):"]
        self.tests = 0

    def write(self) -> str:
        bound = self.block(1, {"x", "y"}, depth=0)
        self.lines.append(f"    return {', '.join(sorted(bound))}, n")
        return "\n".join(self.lines) + "\n"

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def tensor(self, bound: set[str], depth: int = 0) -> str:
        name = self.pick(*sorted(bound))
        other = self.pick(*sorted(bound))
        if depth > 1:
            return name
        inner = self.tensor(bound, depth + 1)
        return self.pick(
            name,
            name,
            f"{inner} + {other}",
            f"{inner} * 2",
            f"({inner}).relu()",
            f"torch.clamp({inner}, max=1)",
            f"{name} - n",
            f"{name}.reshape(2, 3)",
            f"{name}.detach()",
            f"-{name}",
            f"torch.where({name} > 0, {name}, {other})",
            f"({inner} if {self.test(bound)} else {other})",
        )

    def test(self, bound: set[str]) -> str:
        name, other = self.pick(*sorted(bound)), self.pick(*sorted(bound))
        return self.pick(
            f"{name}.sum() > {self.pick(-2, 0, 1.5)}",
            f"not ({name} > 0).all()",
            f"{name}.sum() > {other}.sum()",
            f"flag and {name}.max() > 0",
            f"n > 1 or ({name} > 1).any()",
            f"-1 < {name}.mean() < 1",
            f"{name}.max().item() > 0.5",
            f"({name} > 0).any() and ({other} < 0).any()",
            "n > 1",
            "flag",
        )

    def block(self, indent: int, bound: set[str], depth: int) -> set[str]:
        pad = "    " * indent
        start = len(self.lines)
        for _ in range(self.random.randint(1, 3)):
            kind = self.pick("assign", "assign", "if", "if", "for", "change", "return", "number")
            if kind == "if" and depth < 2:
                self.lines.append(f"{pad}if {self.test(bound)}:")
                taken = self.block(indent + 1, set(bound), depth + 1)
                other = set(bound)
                if self.random.random() < 0.3:
                    self.lines.append(f"{pad}elif {self.test(bound)}:")
                    taken &= self.block(indent + 1, set(bound), depth + 1)
                if self.random.random() < 0.6:
                    self.lines.append(f"{pad}else:")
                    other = self.block(indent + 1, set(bound), depth + 1)
                bound = taken & other
            elif kind == "for" and depth < 2:
                self.lines.append(f"{pad}for i in range(2):")
                self.block(indent + 1, set(bound), depth + 1)
            elif kind == "change":
                name = self.pick(*sorted(bound))
                self.lines.append(
                    pad + self.pick(f"{name} += 1", f"{name}[{name} > 0] = 0", f"{name}.mul_(2)")
                )
            elif kind == "return" and depth and self.random.random() < 0.5:
                self.lines.append(f"{pad}return {self.tensor(bound)}, n")
                break
            elif kind == "number":
                self.lines.append(f"{pad}n = n + 1")
            else:
                name = self.pick("x", "y", "z", "w")
                self.lines.append(f"{pad}{name} = {self.tensor(bound)}")
                bound = bound | {name}
        assert len(self.lines) > start
        return bound


def rewrite_all(source: str, pick: random.Random) -> tuple[str, bool]:
    """Applies random proposals at data-dependent tests until none is left to change."""
    changed = False
    for _ in range(12):
        options: list[str] = []
        for number, line in enumerate(source.splitlines()):
            for opening, closing in (("if ", ":"), (" if ", " else ")):
                start = line.find(opening)
                if start < 0 or (closing == ":" and not line.lstrip().startswith(("if", "elif"))):
                    continue
                test = line[start + len(opening) : line.rfind(closing)]
                offset = sum(len(other) + 1 for other in source.splitlines()[:number])
                nth = source.count(test, 0, offset + line.find(test, start))
                options += proposals(source, test, nth)
        if not options:
            return source, changed
        source, changed = pick.choice(options), True
    return source, changed


def proposals(source: str, test: str, nth: int) -> list[str]:
    texts = []
    for codemod in CODEMODS:
        site = example_site(NearMiss(source, test, "", facts=FACTS, nth=nth), "GB0170")
        for item in codemod.propose(site):
            if isinstance(item, Rewrite):
                texts.append(item.edits["example.py"])
    return [text for text in texts if text != source]


def inputs() -> list[Any]:
    cases = []
    for a, b, n, flag in ((2.0, 2.0, 2, True), (2.0, -3.0, 1, True), (-3.0, 2.0, 2, False)):
        cases.append(lambda a=a, b=b, n=n, flag=flag: (BASE + a, BASE + b, n, flag))
    cases.append(lambda: (BASE * 0, BASE.clone(), 1, False))
    return cases


def differs(source: str, patched: str, *, backend: str | None) -> str:
    """How the patched program differs from the original; "" where it does not, or torch refuses."""
    original, run = load(source), load(patched)
    torch._dynamo.reset()
    if backend is not None:
        run = torch.compile(run, backend=backend, fullgraph=True)
    for number, given in enumerate(inputs()):
        expected = outcome(original, given, grads=False)
        actual = outcome(run, given, grads=False)
        if "error" in actual and issubclass(actual["error"], Exception):
            if "error" in expected or "dynamo" in actual["error"].__module__:
                return ""
            return f"input {number}: raises {actual['error']}"
        if "error" in expected:
            return f"input {number}: the original raises {expected['error']}"
        try:
            torch.testing.assert_close(actual, expected, equal_nan=True)
        except AssertionError as error:
            return f"input {number}: {error}"
    return ""


def check_program(seed: int) -> bool:
    """Whether the program of the seed was rewritten; fails where the result differs."""
    source = Writer(seed).write()
    patched, changed = rewrite_all(source, random.Random(seed))
    if changed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for backend in (None, "eager"):
                found = differs(source, patched, backend=backend)
                assert not found, f"seed {seed}\n{source}\n{patched}\n{found}"
    return changed


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_some_generated_programs(first: int) -> None:
    changed = [check_program(seed) for seed in range(first, first + 20)]
    assert any(changed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_generated_programs(first: int) -> None:
    changed = [check_program(seed) for seed in range(first, first + 50)]
    print(f"{sum(changed)} of {len(changed)} rewritten")
