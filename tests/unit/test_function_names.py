"""Where what a wrapped function is called is read above its wrapper, and where it is not."""

from __future__ import annotations

import pytest
from gbfix_codemods.side_effects.effect_to_op import EffectToOp

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

WRAPPER = """
import torch


def counted(fn):
    {above}
    def wrapper(x):
        print(fn.__qualname__)
        {inside}
        return fn(x)

    return wrapper
{below}
"""
FACTS = {"x": tensor(3), "fn": Fact("function", "function"), "fn.__qualname__": scalar("f")}


def text(above: str = "", inside: str = "", below: str = "", fn: Fact | None = None) -> str:
    source = WRAPPER.format(above=above, inside=inside, below=below)
    facts = {**FACTS, **({"fn": fn} if fn is not None else {})}
    site = example_site(Example(source, source, at="print(fn.__qualname__)", facts=facts), "GB0059")
    rewrite = next(made for made in EffectToOp().propose(site) if isinstance(made, Rewrite))
    return rewrite.edits["example.py"]


def test_it_is_read_above() -> None:
    assert "    qualname = fn.__qualname__\n" in text()


@pytest.mark.parametrize(
    "change",
    [
        {"above": "fn = torch.no_grad()(fn)"},
        {"inside": "nonlocal fn"},
        {"below": "counted.__qualname__ = 'other'"},
        {"below": "setattr(counted, '__qualname__', 'other')"},
        {"fn": Fact("function", "functools.partial")},
        {"fn": Fact("module", "Net")},
    ],
)
def test_it_is_read_where_it_was(change: dict[str, str | Fact]) -> None:
    assert "qualname = fn.__qualname__" not in text(**change)  # type: ignore[arg-type]
