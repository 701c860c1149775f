"""A file of the project that the recorded run does not load, and that changes what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Target

_PROGRAM = """import torch

PRIOR = torch.tensor([0.2, 0.3, 0.5])


@torch.compile(backend="eager")
def score(x):
    if PRIOR.sum() > 0.9:
        x = x - PRIOR.log()
    return x.softmax(-1)


torch.manual_seed(0)
for n in (3, 4):
    print(score(torch.randn(n, 3)).sum().item())
"""


@pytest.mark.parametrize(
    ("beside", "constant"),
    [
        ("", True),
        ("import main\n\n\ndef flat():\n    main.PRIOR.fill_(0.1)\n", False),
        ("PRIOR = [1]\n\n\ndef flat():\n    PRIOR.fill_(0.1)\n", True),
    ],
)
def test_a_table_that_a_file_beside_changes_is_no_constant(
    beside: str, constant: bool, tmp_path: Path, runner: Runner
) -> None:
    (tmp_path / "main.py").write_text(_PROGRAM)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tune.py").write_text(beside)
    target = Target("script", "main.py", cwd=str(tmp_path))
    report = engine.run(target, Options(use_cache=False), runner=runner)
    (patch,) = report.patches
    assert ("constant-condition" in patch.codemods) is constant, patch.codemods
