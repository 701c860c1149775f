"""What the body of an operator may show and carry, and how lists of texts are passed to it."""

from __future__ import annotations

import ast
import textwrap

import libcst as cst
import pytest
import torch
from gbfix_codemods.side_effects.shown_tensors import Tensors
from gbfix_codemods.wrap.capture import Parameter
from gbfix_codemods.wrap.operator_text import schema_argument

from gbfix.schema import Fact


def _body(text: str) -> ast.FunctionDef:
    lines = textwrap.indent(textwrap.dedent(text), "    ")
    (function,) = ast.parse(f"def body(x, loss, parts, names):\n{lines}").body
    assert isinstance(function, ast.FunctionDef)
    return function


_SHOWN = [
    "raise Odd(f'{x}')",
    "raise Odd(f'{loss!r}')",
    "raise Odd('%s' % x)",
    "raise Odd(str(x[0]))",
    "bad = [p for p in parts]\nraise Odd(f'{bad}')",
    "bad = []\nfor name, p in zip(names, parts):\n    bad.append(p)\nraise Odd(f'{bad}')",
    "d = {}\nfor i, p in enumerate(parts):\n    d[i] = p\nraise Odd(f'{d}')",
    "worst = max(parts, key=len)\nraise Odd(', '.join([repr(worst)]))",
    "y = x if names else 3\nraise Odd('{}'.format(y))",
    "warn(x)",
]
_PLAIN = [
    "raise Odd(f'{loss}')",
    "raise Odd(f'{loss:.3f} {x.max():.2f} {x.shape}')",
    "raise Odd(f'{x.detach()}')",
    "raise Odd(f'{x > 3}')",
    "bad = [n for n, p in zip(names, parts) if p.isnan().any()]\nraise Odd(f'{bad}')",
    "bad = []\nfor i, p in enumerate(parts):\n    bad.append(f'{i}: {p.sum().item()}')\n"
    "raise Odd(str(bad))",
    "y = x.tolist()\nraise Odd(f'{y[:3]}')",
    "raise Odd('%d' % x.sum())",
]


@pytest.mark.parametrize("text", _SHOWN)
def test_texts_that_may_show_how_autograd_came_to_a_tensor(text: str) -> None:
    found = Tensors(_body(text), {"x", "loss", "parts"}, {"loss"}, autograd=True)
    assert list(found.shown())


@pytest.mark.parametrize("text", _PLAIN)
def test_texts_that_do_not(text: str) -> None:
    found = Tensors(_body(text), {"x", "loss", "parts"}, {"loss"}, autograd=True)
    assert [ast.unparse(node) for node in found.shown()] == []


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        ("raise Odd(x)", True),
        ("raise Odd('a', x > 3)", True),
        ("assert names, x", True),
        ("bad = [p for p in parts]\nraise Odd('a', bad)", True),
        ("raise Odd('a', x.tolist(), len(parts), names)", False),
        ("bad = [n for n, p in zip(names, parts)]\nraise Odd(bad)", False),
    ],
)
def test_errors_that_carry_tensors(text: str, carries: bool) -> None:
    found = Tensors(_body(text), {"x", "loss", "parts"}, autograd=False)
    assert bool(list(found.carried())) == carries


def test_only_lists_of_texts_need_a_schema() -> None:
    def given(name: str, annotation: str) -> Parameter:
        return Parameter(name, annotation, cst.Name(name), Fact("object"))

    parameters = [given("x", "torch.Tensor"), given("limit", "torch.types.Number | None")]
    assert schema_argument(parameters) == ""
    parameters.append(given("names", "list[str]"))
    text = schema_argument(parameters)
    assert text == 'schema="(Tensor x, Scalar? limit, str[] names) -> ()"'

    @torch.library.custom_op("guard_block_test::told", mutates_args=(), schema=text.split('"')[1])
    def told(x: torch.Tensor, limit: torch.types.Number | None, names: list[str]) -> None:
        if x.isnan().any():
            raise ValueError(f"{names} {limit}")

    told.register_fake(lambda x, limit, names: None)
    told.register_effect(torch.library.EffectType.ORDERED)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def run(x: torch.Tensor) -> torch.Tensor:
        told(x.sum(), None, ["a'", "b"])
        return x + 1

    run(torch.ones(2))
    with pytest.raises(ValueError, match=r"a'.*b.*None"):
        run(torch.tensor([1.0, float("nan")]))
