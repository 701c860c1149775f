"""Inputs for which the original's process comes to an end are left out, and no others."""

from __future__ import annotations

from pathlib import Path

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Target

SOURCE = '''
import os
import signal

import torch


@torch.library.custom_op("kernels::look", mutates_args=())
def look(x: torch.Tensor) -> torch.Tensor:
    """A kernel that trusts its caller."""
    if x.isnan().any():
        os.kill(os.getpid(), signal.SIGSEGV)
    return x.clone()


look.register_fake(torch.empty_like)


@torch.compile(backend="eager")
def f(x):
    if x.sum() > 0:
        x = x * 2
    return look(x)


print(f(torch.ones(3)), f(-torch.ones(3)))
'''


def test_a_kernel_that_crashes_for_nan_does_not_keep_a_fix_away(
    tmp_path: Path, runner: Runner
) -> None:
    (tmp_path / "main.py").write_text(SOURCE)
    (tmp_path / "pyproject.toml").write_text("")
    target = Target("script", "main.py", cwd=str(tmp_path))
    report = engine.run(target, Options(use_cache=False), runner=runner)
    (region,) = report.regions
    assert region.status == "fixed", [item.attempts for item in report.breaks]
    # The inputs that the kernel takes have been compared.
    assert report.patches[0].verdict.perturbed > 5
    assert [item.kind for item in report.errors].count("crash") >= 1
    assert not any(item.fatal for item in report.errors)
