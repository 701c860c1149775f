"""Where recipes propose, and say why somebody may notice."""

from __future__ import annotations

import pytest
from gbfix_codemods.recipes.frozen_call import FrozenCall
from gbfix_codemods.recipes.stale_disable import StaleDisable

from gbfix.codemod import Example, Rewrite, example_site
from gbfix.schema import Safety


def _disabled(body: str) -> Rewrite:
    source = "import functools\nimport os\n\nimport torch\n\n\n@functools.lru_cache(maxsize=4)\n"
    source += "def table(n):\n    return torch.ones(n)\n\n\n"
    source += f"@torch.compiler.disable\ndef norm(x):\n{body}"
    source += "\n\ndef f(x):\n    return norm(x) + 1\n"
    case = Example(source, "", at="norm(x)", nth=1, title="")
    (made,) = StaleDisable().propose(example_site(case, "GB0099"))
    assert isinstance(made, Rewrite)
    return made


@pytest.mark.parametrize(
    ("body", "safety"),
    [
        ("    return x / x.norm()\n", Safety.SAFE),
        (
            "    try:\n        return torch.linalg.cholesky(x)\n"
            "    except RuntimeError:\n        return x\n",
            Safety.UNSAFE,
        ),
        ("    try:\n        return x.norm()\n    except:\n        return x\n", Safety.UNSAFE),
        (
            "    try:\n        return x.norm()\n    except TypeError:\n        return x\n",
            Safety.SAFE,
        ),
        ("    return x * table(3)\n", Safety.UNSAFE),
        ("    return x if os.environ.get('MODE') else x.norm()\n", Safety.UNSAFE),
    ],
)
def test_what_compiled_code_does_not_do_alike(body: str, safety: Safety) -> None:
    made = _disabled(body)
    assert made.safety == safety
    assert bool(made.notes) == (safety is Safety.UNSAFE)


@pytest.mark.parametrize(("line", "safety"), [("", "safe"), ("disc.weight = gen.weight", "unsafe")])
def test_parameters_that_two_modules_share(line: str, safety: str) -> None:
    source = f"""import torch
from torch import nn

gen = nn.Linear(4, 4)
disc = nn.Linear(4, 4)
{line}


def f(z):
    disc.requires_grad_(False)
    score = disc(gen(z))
    disc.requires_grad_(True)
    return score
"""
    case = Example(source, "", at="disc.requires_grad_(False)", title="")
    (made,) = FrozenCall().propose(example_site(case, "GB0125"))
    assert isinstance(made, Rewrite)
    assert made.safety.value == safety
