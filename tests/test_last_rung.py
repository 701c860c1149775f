"""All patches of a run together, once, under the backend that the user compiles with."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Rung, Safety, Target
from gbfix.trial import Trials

PROGRAM = """import torch


@torch.compile{options}
def scaled(x, factor):
    torch._dynamo.graph_break()
    return x * factor.item()


print(scaled(torch.ones(3), torch.tensor(2.0)))
"""


def run(folder: Path, runner: Runner, options: Options, compiled: str = "") -> Report:
    (folder / "program.py").write_text(PROGRAM.format(options=compiled))
    return engine.run(Target("script", "program.py", cwd=str(folder)), options, runner=runner)


def asked(monkeypatch: pytest.MonkeyPatch, answer: Rung | None) -> list[int]:
    calls: list[int] = []

    def last(self: Trials, overlay: dict[str, str]) -> Rung | None:
        calls.append(len(overlay))
        return answer

    monkeypatch.setattr(Trials, "last", last)
    return calls


DIFFERS = Rung("inductor", False, "outputs: 1 became 2")


def test_what_differs_there_is_left_out_and_shown(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked(monkeypatch, DIFFERS)
    report = run(tmp_path, runner, Options(use_cache=False))
    assert calls == [1]  # once for the set, not for each patch
    assert not report.patches
    assert {patch.safety for patch in report.unsafe_patches} == {Safety.UNSAFE}
    assert all(item.status == "unfixed" for item in report.breaks)
    assert any("under inductor: outputs: 1 became 2" in text for text in report.breaks[0].advice)


def test_with_unsafe_fixes_it_is_applied_and_called_unsafe(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(monkeypatch, DIFFERS)
    report = run(tmp_path, runner, Options(use_cache=False, unsafe_fixes=True))
    (patch,) = report.patches
    assert patch.safety is Safety.UNSAFE
    assert any("under inductor" in text for text in patch.verdict.caveats)


def test_what_does_not_end_there_in_time_says_nothing(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(monkeypatch, Rung("inductor", None, "did not end within 60 s"))
    (patch,) = run(tmp_path, runner, Options(use_cache=False)).patches
    assert patch.safety is Safety.SAFE


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
@pytest.mark.parametrize("compiled, wanted", [("", True), ('(backend="eager")', False)])
def test_it_runs_where_the_user_compiles_with_inductor(
    compiled: str, wanted: bool, tmp_path: Path, runner: Runner
) -> None:
    report = run(tmp_path, runner, Options(use_cache=False, inductor=True), compiled)
    (patch,) = report.patches
    rung = patch.verdict.rung("inductor")
    assert (rung is not None and rung.passed is True) is wanted


#: The queue is copied, and written to before backward, which needs the copy.
QUEUE = """import torch


class Contrast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(3, 4)
        self.register_buffer("queue", torch.randn(4, 6))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def replace(self, keys):
        place = int(self.place)
        self.queue[:, place : place + keys.shape[0]] = keys.T
        self.place[0] = (place + keys.shape[0]) % 6

    def forward(self, x, keys):
        scores = self.encoder(x) @ self.queue.clone().detach()
        self.replace(keys)
        return scores


torch.manual_seed(0)
score = torch.compile(Contrast())
print(score(torch.randn(2, 3), torch.randn(2, 4)).detach())
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
def test_a_right_patch_is_no_better_than_what_torch_makes_of_it(
    tmp_path: Path, runner: Runner
) -> None:
    """torch 2.13's inductor drops the copy in one graph; a torch that keeps it has a safe patch."""
    (tmp_path / "program.py").write_text(QUEUE)
    target = Target("script", "program.py", cwd=str(tmp_path))
    report = engine.run(target, Options(use_cache=False, inductor=True), runner=runner)
    namespace: dict[str, Any] = {"__name__": "patched"}
    (patch,) = (*report.patches, *report.unsafe_patches)
    program = patch.after.partition("torch.manual_seed")[0]
    path = tmp_path / "patched.py"
    path.write_text(program)
    exec(compile(program, str(path), "exec"), namespace)
    torch.manual_seed(0)
    plain = namespace["Contrast"]()
    compiled = copy.deepcopy(plain)
    x, keys = torch.randn(2, 3), torch.randn(2, 4)
    plain(x, keys).sum().backward()
    torch.compile(compiled)(x, keys).sum().backward()
    right = torch.allclose(plain.encoder.weight.grad, compiled.encoder.weight.grad, atol=1e-4)
    assert bool(report.patches) is right
    assert right or any("under inductor: gradient" in it for it in report.breaks[0].advice)
