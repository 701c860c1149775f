"""Which pieces of Python keep their place and number as an operator."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from gbfix_codemods.operator.effects_in import acts
from gbfix_codemods.side_effects.callees import Judge, Unfit

from gbfix.codemod import Example, Site, example_site

_HEAD = (
    "import random\nimport torch\nfrom words import encode\n\nRNG = random.Random(0)\nTABLE = {}\n"
)
_PLAIN = "def encode(v):\n    return TABLE[v] + len(str(v))\n"
_KEEPS = "SEEN = {}\n\n\ndef encode(v):\n    SEEN[v] = len(SEEN)\n    return SEEN[v]\n"
_DRAWS = "import random\n\n\ndef encode(v):\n    return inner(v)\n\n\n"
_DRAWS += "def inner(v):\n    return random.random()\n"


def _acts(body: str, words: str = _PLAIN) -> bool:
    case = Example(f"{_HEAD}\n\ndef f(ids):\n    return {body}\n", "", at=body, title="")
    site = example_site(case, "GB0007")
    site = Site(site.path, site.source, site.graph_break, site.facts, sources={"words.py": words})
    function = site.function
    assert isinstance(function, cst.FunctionDef)
    return acts(site, [function.body], ("ids",))


@pytest.mark.parametrize(
    ("body", "words", "expected"),
    [
        ("[RNG.randint(0, v) for v in ids.tolist()]", _PLAIN, True),
        ("[TABLE.get(v) for v in ids.tolist()]", _PLAIN, False),
        ("[encode(v) for v in ids.tolist()]", _PLAIN, False),
        ("[encode(v) for v in ids.tolist()]", _KEEPS, True),
        ("[encode(v) for v in ids.tolist()]", _DRAWS, True),
    ],
)
def test_what_acts(body: str, words: str, expected: bool) -> None:
    assert _acts(body, words) is expected


@pytest.mark.parametrize("line", ["y = x @ w", "x @= w", "for n in (1, 2): x @= w"])
def test_a_matrix_product_that_autocast_would_change_moves_into_no_operator(line: str) -> None:
    text = f"def f(x, w):\n    {line}\n    print(x.item())\n"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    with pytest.raises(Unfit, match="autocast"):
        Judge({}, {}).function(function, text, frozenset({"x", "w"}))
