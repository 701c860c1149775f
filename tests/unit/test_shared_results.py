"""Results of a piece that share memory: its operator gives each by itself."""

from __future__ import annotations

import types

import pytest
from gbfix_codemods.operator.shared import sharing_results

from gbfix.codemod import Example, example_site, tensor

_TEXT = """
import torch


def f(x, m):
    {}
    return x
"""


@pytest.mark.parametrize(
    ("lines", "results", "shared"),
    [
        ("out = torch.zeros_like(x); out[m] = 1; other = out", "out other", "out other"),
        ("out = torch.zeros_like(x); top = out[0]", "out top", "out top"),
        ("out = torch.zeros_like(x); a = out.view(-1); b = a[:2]", "out b", "out a b"),
        ("out = torch.zeros_like(x); a, b = out, out[1:]", "a b", "out a b"),
        ("out = torch.zeros_like(x); got = kept(out)", "out got", "out got"),
        ("view = x[0]", "view", "x view"),
        ("out = torch.zeros_like(x); other = out.clone()", "out other", ""),
        ("out = torch.zeros_like(x); other = out * 2", "out other", ""),
        ("out = torch.zeros_like(x); other = out", "other", ""),
        ("a, b = made(x)", "a b", ""),
    ],
)
def test_which_results_share_memory(lines: str, results: str, shared: str) -> None:
    text = _TEXT.format(lines)
    facts = {name: tensor(3, 2) for name in ("x", "out", "a", "torch.zeros_like(x)")}
    case = Example(text, text, at="return x", facts={**facts, "m": tensor(3, dtype="torch.bool")})
    site = example_site(case, text)
    assert site.function is not None
    given = [types.SimpleNamespace(given=name, is_tensor=True) for name in ("x", "m")]
    piece = types.SimpleNamespace(
        level=types.SimpleNamespace(site=site),
        nodes=tuple(site.function.body.body[:-1]),
        results=[types.SimpleNamespace(name=name) for name in results.split()],
        inputs=types.SimpleNamespace(parameters=given),
    )
    assert sharing_results(piece) == set(shared.split())  # type: ignore[arg-type]
