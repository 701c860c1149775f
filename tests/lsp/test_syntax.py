"""Trees kept up to date with edits: always what parsing the whole text would give."""

from __future__ import annotations

import ast
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gbfix.lsp.hints import Memory, hints
from gbfix.lsp.index import Index
from gbfix.lsp.summary import function_nodes, summarize
from gbfix.lsp.syntax import Parsed

TEXT = '''"""A module."""
import torch
from torch import nn

LIMIT = 3


class Model(nn.Module):
    """A model."""

    scale = 2

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mask", torch.ones(3))

    @property
    def size(self):
        return 3  # three

    @torch.no_grad()
    def forward(self, x):
        def inner(y):
            return helper(y) + self.mask

        text = """
        def no_function(self):
            pass
        """
        if x.sum() > LIMIT:
            return inner(x)
        return self.linear(x)

    class Inner:
        def method(self):
            import math

            return math.pi


@torch.compile
def helper(x):
    print(x)
    return x  # the end


async def later(x):
    return [helper(item) for item in x]


model = torch.compile(Model())
'''

LINES = [
    "", "    # note", "# note", "        pass", "    pass", "pass", "    def other(self):",
    "def other(x):", "    @staticmethod", "@torch.compile", '        """', '"""', "        (",
    "        x = 1; y = 2", "\treturn x", "    return x", "        return x \\", "class Other:",
    "        import os", "        print(x)", "    x: int = 3", "        self.part = nn.LSTM(3, 3)",
    "else:", "        if x: pass", "model.compile()", "\f", "        text = '\r'",
    "    async def f(self):",
]  # fmt: skip


def state(parsed: Parsed) -> object:
    """All that is read off a tree, lines included."""
    functions = {
        name: (ast.dump(node), *_lines(node, shift))
        for name, (node, shift) in function_nodes(parsed).items()
    }
    return ast.dump(parsed.tree), functions, summarize("a.py", parsed)


def _lines(node: ast.AST, shift: int) -> list[tuple[int, int, int, int]]:
    return [
        (item.lineno + shift, item.col_offset, (item.end_lineno or 0) + shift,
         item.end_col_offset or 0)
        for item in ast.walk(node)
        if isinstance(item, ast.expr | ast.stmt)
    ]  # fmt: skip


def agrees(parsed: Parsed, text: str) -> bool:
    """Whether the edit was taken up in place; it then has to be right."""
    taken = parsed.edit(text)
    if taken:
        whole = Parsed.of(text)
        assert whole is not None
        assert state(parsed) == state(whole)
        assert parsed.text == text
    return taken


def edited(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    place = draw.randrange(len(lines) + 1)
    gone = draw.choice([0, 0, 0, 1, 1, 2, 5])
    new = [draw.choice([*LINES, *lines]) for _ in range(draw.choice([0, 1, 1, 1, 2, 3]))]
    return "\n".join([*lines[:place], *new, *lines[place + gone :]])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_edits_one_after_the_other_agree_with_parsing_it_all(seed: int) -> None:
    draw = random.Random(seed)
    parsed = Parsed.of(TEXT)
    assert parsed is not None
    summarize("a.py", parsed)
    text = TEXT
    for _ in range(12):
        new = edited(text, draw)
        if agrees(parsed, new):
            text = new
        elif (whole := Parsed.of(new)) is not None:
            parsed, text = whole, new


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_hints_that_are_remembered_are_those_that_would_be_found(seed: int) -> None:
    draw = random.Random(seed)
    index, memory, path = Index(), Memory(), "/nowhere/a.py"
    parsed, text = Parsed.of(TEXT), TEXT
    assert parsed is not None
    for number in range(10):
        index.put(path, parsed)
        if number == 5:
            index.put("/nowhere/other.py", parsed)
        lines = text.split("\n")
        assert hints(path, parsed, lines, index, memory) == hints(path, parsed, lines, index)
        assert number or hints(path, parsed, lines, index)
        new = edited(text, draw)
        if parsed.edit(new):
            text = new
        elif (whole := Parsed.of(new)) is not None:
            parsed, text = whole, new


OTHER = """import torch
from a import Model, helper

@torch.compile
def start(x):
    return helper(x) + Model()(x) + middle(x)

def middle(x):
    return later(x)

from a import later
"""


@example(4358)  # a text that ends in a backslash
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_reached_after_edits_is_what_a_new_index_reaches(seed: int) -> None:
    draw = random.Random(seed)
    index = Index()
    texts = {"/nowhere/a.py": TEXT, "/nowhere/b.py": OTHER}
    parsed: dict[str, Parsed] = {}
    for path, text in texts.items():
        whole = Parsed.of(text)
        assert whole is not None
        parsed[path] = whole
        index.put(path, whole)
    assert len(index.reached()) == 6
    for _ in range(10):
        path = draw.choice(list(texts))
        new = edited(texts[path], draw)
        if not parsed[path].edit(new):
            whole = Parsed.of(new)
            if whole is None:
                continue
            parsed[path] = whole
        texts[path] = new
        index.put(path, parsed[path])
        fresh = Index()
        for name, text in texts.items():
            known = Parsed.of(text)
            assert known is not None
            fresh.put(name, known)
        if draw.random() < 0.7:
            assert index.reached() == fresh.reached()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(x)", "print(x, x)"),
        ("return 3  # three", "return 4"),
        ("    def forward(self, x):", "    # why\n    def forward(self, x, y=None):"),
        ("            return helper(y)", "            z = y\n            return helper(z)"),
        ("    @torch.no_grad()\n", ""),
        ("\n\n@torch.compile\n", "\n\n# compiled\n@torch.compile\n"),
    ],
)
def test_edits_inside_one_function_do_not_parse_the_rest(old: str, new: str) -> None:
    parsed = Parsed.of(TEXT)
    assert parsed is not None
    before = [piece.node for piece in parsed.pieces]
    assert agrees(parsed, TEXT.replace(old, new, 1))
    after = [piece.node for piece in parsed.pieces]
    assert sum(one is not other for one, other in zip(before, after, strict=True)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("def helper", "def renamed"),
        ("    print(x)\n", "print(x)\n"),
        ("    def size(self):", "   def size(self):"),
        ("    return x  # the end\n", "    return x\n\n\ndef second(x):\n    return x\n"),
        ("    return x  # the end\n", "    return (x\n"),
        ('        text = """', "        text = "),
    ],
)
def test_other_edits_are_left_to_the_parser(old: str, new: str) -> None:
    parsed = Parsed.of(TEXT)
    assert parsed is not None
    assert not agrees(parsed, TEXT.replace(old, new, 1))
    assert parsed.text == TEXT


def test_tabs_and_spaces_are_not_mixed_up() -> None:
    parsed = Parsed.of("class A:\n\tdef f(self):\n\t\treturn 1\n\n\tdef g(self):\n\t\treturn 2\n")
    assert parsed is not None
    mixed = "class A:\n\tdef f(self):\n\t\treturn 1\n\n def g(self):\n \treturn 2\n"
    assert not agrees(parsed, mixed)


def test_lines_that_end_as_on_windows() -> None:
    text = TEXT.replace("\n", "\r\n")
    parsed = Parsed.of(text)
    assert parsed is not None
    assert agrees(parsed, text.replace("print(x)", "print(x)\r\n    x = x + 1"))
