"""Which pieces of Python keep their place and number as an operator."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from gbfix_codemods.operator.effects_in import Activity, acts
from gbfix_codemods.side_effects.callees import Judge, Unfit

from gbfix.codemod import Example, Site, example_site

_HEAD = (
    "import random\nimport torch\nfrom words import encode\n\nRNG = random.Random(0)\nTABLE = {}\n"
)
_PLAIN = "def encode(v):\n    return TABLE[v] + len(str(v))\n"
_KEEPS = "SEEN = {}\n\n\ndef encode(v):\n    SEEN[v] = len(SEEN)\n    return SEEN[v]\n"
_DRAWS = "import random\n\n\ndef encode(v):\n    return inner(v)\n\n\n"
_DRAWS += "def inner(v):\n    return random.random()\n"


def _acts(body: str, words: str = _PLAIN) -> Activity:
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
    assert bool(_acts(body, words)) is expected


_SEEDED = "with torch.random.fork_rng({}):\n        {}\n        return torch.rand(3)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return torch.rand(3) * ids", Activity.DRAWS),
        ("return ids.float().uniform_()", Activity.DRAWS),
        ("return torch.rand(3, generator=RNG) * ids", Activity.MORE),
        ("torch.manual_seed(0)\n    return torch.rand(3)", Activity.MORE),
        ("return torch.get_rng_state()", Activity.MORE),
        ("return torch.rand(3) * random.random()", Activity.MORE),
        (_SEEDED.format("", "torch.manual_seed(0)"), Activity.NOTHING),
        (_SEEDED.format("devices=[]", "torch.manual_seed(0)"), Activity.NOTHING),
        (_SEEDED.format("", "ids = ids + 1"), Activity.DRAWS),
        (_SEEDED.format("enabled=False", "torch.manual_seed(0)"), Activity.MORE),
        (_SEEDED.format("", "torch.manual_seed(0); print(1)"), Activity.MORE),
        (_SEEDED.format("", "torch.manual_seed(0)") + "    return torch.rand(3)", Activity.DRAWS),
    ],
)
def test_draws_are_told_from_other_acts(body: str, expected: Activity) -> None:
    text = f"{_HEAD}\n\ndef f(ids):\n    ids.tolist()\n    {body}\n"
    case = Example(text, "", at="ids.tolist()", title="")
    site = example_site(case, "GB0007")
    assert isinstance(site.function, cst.FunctionDef)
    assert acts(site, [site.function.body], ("ids",)) is expected


@pytest.mark.parametrize("line", ["y = x @ w", "x @= w", "for n in (1, 2): x @= w"])
def test_a_matrix_product_that_autocast_would_change_moves_into_no_operator(line: str) -> None:
    text = f"def f(x, w):\n    {line}\n    print(x.item())\n"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    with pytest.raises(Unfit, match="autocast"):
        Judge({}, {}).function(function, text, frozenset({"x", "w"}))
