"""How far two gradients or outputs may be apart, and which warnings."""

from __future__ import annotations

import pytest
import torch

from gbfix.worker.compare import Comparison
from gbfix.worker.effects import Effects
from gbfix.worker.shots import Shot
from gbfix.worker.values import Imager


def shot(label: str, gradient: list[float]) -> Shot:
    found = Shot(label, "values")
    found.grads = {"w": Imager().image(torch.tensor(gradient))}
    return found


@pytest.mark.parametrize(
    ("mode", "label", "old", "new", "alike"),
    [
        # Sums of large terms in another order.
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-5], True),
        ("eager", "base", [3.0, 0.0], [3.0, 4e-5], False),
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-4], False),
        # A sigmoid that scaled inputs saturate.
        ("aot_eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("inductor", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("aot_eager", "base", [0.0, 0.0], [0.0, 1.6e-5], False),
        ("eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], False),
        # A small gradient that is lost, which only inductor's scale sees.
        ("inductor", "base", [9e-6, 9e-6], [0.0, 0.0], False),
        ("eager", "base", [9e-6, 9e-6], [0.0, 0.0], False),
    ],
)
def test_gradients(mode: str, label: str, old: list[float], new: list[float], alike: bool) -> None:
    comparison = Comparison(mode)
    comparison.add(shot(label, old), shot(label, new))
    assert bool(comparison.differences) is not alike, comparison.differences


@pytest.mark.parametrize(
    ("mode", "old", "new", "alike"),
    [
        # What the decompositions of a graph round differently in a deep network.
        ("aot_eager", [3.0, 0.1], [3.0, 0.10004], True),
        ("aot_eager", [3.0, 0.1], [3.0, 0.1004], False),
        ("aot_eager", [0.2, 0.1], [0.2, 0.10004], False),
        ("eager", [3.0, 0.1], [3.0, 0.10004], False),
    ],
)
def test_outputs(mode: str, old: list[float], new: list[float], alike: bool) -> None:
    comparison, before, after = Comparison(mode), shot("redrawn", [0.0]), shot("redrawn", [0.0])
    before.result = [Imager().image(torch.tensor(old))]
    after.result = [Imager().image(torch.tensor(new))]
    comparison.add(before, after)
    assert bool(comparison.differences) is not alike, comparison.differences


_OLD = ("UserWarning", "indexing with uint8 is deprecated (Triggered internally at a.h:3.)")
_OWN = ("UserWarning", "the option is deprecated")


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ([_OLD], [], True),
        ([_OLD, _OWN], [_OWN], True),
        ([_OLD, _OWN], [], False),
        ([_OLD, _OLD], [_OLD], False),
        ([], [_OLD], False),
        ([_OWN], [], False),
    ],
)
def test_a_deprecated_use_of_torch_may_go(
    before: list[tuple[str, str]], after: list[tuple[str, str]], alike: bool
) -> None:
    """What torch's own C++ code says of it goes with it; nothing else that is warned of does."""
    shots = []
    for said in (before, after):
        one = Shot("base", "values")
        one.effects = Effects(warnings=said, order=[("warning", 0)] * len(said))
        shots.append(one)
    comparison = Comparison("eager")
    comparison.add(*shots)
    assert bool(comparison.differences) is not alike, comparison.differences


_SIZE = ("builtins.RuntimeError", "Runtime assertion failed for expression u0 >= 2 on node 'ge'")
_MINE = ("builtins.ValueError", "no end in sight")


@pytest.mark.parametrize(
    ("mode", "label", "before", "after", "outcome"),
    [
        ("aot_eager", "redrawn", _MINE, _SIZE, "caveat"),
        # The program's own call, whose error somebody catches.
        ("aot_eager", "base", _MINE, _SIZE, "difference"),
        # The backend of that name, or what torch.cond compiles.
        ("eager", "redrawn", _MINE, _SIZE, "caveat"),
        ("aot_eager", "redrawn", _MINE, ("builtins.RuntimeError", "no"), "difference"),
        ("aot_eager", "redrawn", None, _SIZE, "difference"),
        ("aot_eager", "redrawn", _MINE, None, "difference"),
    ],
)
def test_a_graph_may_refuse_a_size_before_the_program_does(
    mode: str,
    label: str,
    before: tuple[str, str] | None,
    after: tuple[str, str] | None,
    outcome: str,
) -> None:
    """On varied values that both refuse; never called safe."""
    shots = []
    for error in (before, after):
        one = Shot(label, "values")
        one.error = error
        shots.append(one)
    comparison = Comparison(mode)
    comparison.add(*shots)
    assert bool(comparison.differences) is (outcome == "difference"), comparison.differences
    assert bool(comparison.caveats) is (outcome == "caveat"), comparison.caveats
