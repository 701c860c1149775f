"""Where recipes propose, and say why somebody may notice."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.lower_choice import LowerChoice
from gbfix_codemods.recipes.drop_shortcut import DropShortcut
from gbfix_codemods.recipes.frozen_call import FrozenCall
from gbfix_codemods.recipes.stale_disable import StaleDisable

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
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


@pytest.mark.parametrize(
    ("shape", "value", "safety"),
    [
        ((2, 1, 4), "image.mean(1, keepdim=True)", "unsafe"),
        ((2, 1, 4), "image[:, :1] * 2", "unsafe"),
        ((2, 1, 4), "image * 2", "safe"),
        ((2, 3, 4), "image * 2", "safe"),
        ((1, 3, 4), "image / image.amax(1, keepdim=True)", "safe"),
    ],
)
def test_a_size_of_one_that_one_branch_makes(
    shape: tuple[int, ...], value: str, safety: str
) -> None:
    source = (
        f"import torch\n\n\ndef f(image):\n    if image.std() < 0.5:\n        image = {value}\n"
    )
    source += "    return image\n"
    facts = {"image": tensor(*shape), value: tensor(*shape), "image.std()": tensor()}
    facts["image.std() < 0.5"] = tensor(dtype="torch.bool")
    case = Example(source, "", at="image.std() < 0.5", facts=facts, title="")
    found = list(LowerChoice().propose(example_site(case, "GB0170")))
    assert found and all(isinstance(it, Rewrite) and it.safety.value == safety for it in found)


@pytest.mark.parametrize(
    ("dtype", "first", "safety"),
    [
        ("torch.float32", "", "unsafe"),
        ("torch.bool", "", "safe"),
        ("torch.float32", "mask = mask.to(x.dtype)", "safe"),
    ],
)
def test_a_mask_of_numbers_that_a_caller_gives(dtype: str, first: str, safety: str) -> None:
    lines = [*([first] if first else []), "if torch.all(mask == 1):", "    return x"]
    body = "".join(f"    {line}\n" for line in [*lines, "return x * mask"])
    source = f"import torch\n\n\ndef f(x, mask):\n{body}"
    facts = {"x": tensor(3), "mask": tensor(3, dtype=dtype)}
    facts["torch.all(mask == 1)"] = tensor(dtype="torch.bool")
    case = Example(source, "", at="torch.all(mask == 1)", facts=facts, title="")
    (made,) = DropShortcut().propose(example_site(case, "GB0170"))
    assert isinstance(made, Rewrite) and made.safety.value == safety


_FILL = """import torch


def f(x, way):
    empty = torch.isnan(x)
    if empty.any():
        if way == "zeros":
            fill = 0.0
        {test}
            raise ValueError(way)
        x = torch.where(empty, fill, x)
    return x
"""


@pytest.mark.parametrize(("test", "fits"), [("else:", True), ("elif x.sum() > 0:", False)])
def test_an_error_on_which_python_decides(test: str, fits: bool) -> None:
    facts = {"x": tensor(3), "empty": tensor(3, dtype="torch.bool"), "way": scalar("zeros")}
    facts |= {"empty.any()": tensor(dtype="torch.bool"), "x.sum() > 0": tensor(dtype="torch.bool")}
    facts["torch.where(empty, fill, x)"] = tensor(3)
    case = Example(_FILL.format(test=test), "", at="empty.any()", facts=facts, title="")
    found = list(LowerChoice().propose(example_site(case, "GB0170")))
    assert bool(found) is fits
    for made in found:
        assert isinstance(made, Rewrite)
        assert made.safety is Safety.UNSAFE and "whatever the test says" in made.notes[0]
        assert "raise ValueError(way)" in made.edits["example.py"]
