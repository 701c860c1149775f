"""A call finds the gradients that its parameters, and the tensors that it is given, had."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import torch

from gbfix.worker.effects import EffectRecorder
from gbfix.worker.perturb import Variation, variations
from gbfix.worker.shots import Call, Camera, Shot
from gbfix.worker.values import Project, state_image, tensors_in

_BASE = next(one for one in variations("eager") if one.label == "base")


def _change(value: torch.Tensor, generator: torch.Generator) -> None:
    value.mul_(-1)


def _leaf(value: float) -> torch.nn.Parameter:
    leaf = torch.nn.Parameter(torch.full((2,), value))
    leaf.grad = torch.full((2,), value + 1)
    return leaf


def _shots(folder: Path, target: Any, *args: Any) -> list[Shot]:
    call = Call(target, args, {}, Project(str(Path(__file__).parent)))
    camera = Camera(call, EffectRecorder((str(folder),)))
    asked = [_BASE, Variation("turned", _change)]
    return list(camera.shoot(target, asked))


class Optimizer:
    def __init__(self) -> None:
        self.held = [_leaf(1.0), _leaf(3.0)]

    def clip(self) -> torch.Tensor:
        grads = [one.grad for one in self.held if one.grad is not None]
        for grad in grads:
            grad.mul_(0.5)
        return torch.stack(grads).sum()

    def forget(self) -> None:
        self.held[0].grad = None

    def look(self) -> None:
        for one in self.held:
            one.detach().add_(1)


def test_parameters_have_their_gradients(tmp_path: Path) -> None:
    optimizer = Optimizer()
    before = [one.grad for one in optimizer.held]
    base, turned = _shots(tmp_path, optimizer.clip)
    assert [_numbers(shot.result) for shot in (base, turned)] == [[6.0], [-6.0]]
    assert {"self.held.0.grad", "self.held.1.grad"} <= set(base.tensors)
    assert base.error is None and turned.error is None
    for one, grad in zip(optimizer.held, before, strict=True):
        assert one.grad is grad and grad is not None
    assert [one.grad.tolist() for one in optimizer.held if one.grad is not None] == [
        [2.0, 2.0],
        [4.0, 4.0],
    ]


def test_a_gradient_that_is_taken_away_is_told(tmp_path: Path) -> None:
    (base, _), (other, _) = (
        _shots(tmp_path, Optimizer().forget),
        _shots(tmp_path, Optimizer().look),
    )
    assert "self.held.0.grad" in base.tensors and "self.held.1.grad" not in base.tensors
    assert not any(name.endswith(".grad") for name in other.tensors)


def _scaled(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    return torch.stack([one.grad for one in parameters if one.grad is not None]).sum()


def test_what_is_given_has_its_gradients(tmp_path: Path) -> None:
    base, turned = _shots(tmp_path, _scaled, [_leaf(1.0), _leaf(3.0)])
    assert base.error is None and turned.error is None
    assert [_numbers(shot.result) for shot in (base, turned)] == [[12.0], [-12.0]]


def test_inputs_of_all_kinds_can_be_made(tmp_path: Path) -> None:
    parameters = [_leaf(1.0), _leaf(3.0)]
    call = Call(_scaled, (parameters,), {}, Project(str(Path(__file__).parent)))
    camera = Camera(call, EffectRecorder((str(tmp_path),)))
    labels = [shot.label for shot in camera.shoot(_scaled, variations("eager"))]
    assert {"base", "negated", "zeros", "double", "half", "integer", "grown"} <= set(labels)


def _numbers(image: Any) -> list[float]:
    """The numbers of tensors in an image."""
    found: list[float] = []
    todo = [image]
    while todo:
        item = todo.pop()
        if isinstance(item, torch.Tensor):
            found += item.flatten().tolist()
        elif hasattr(item, "__dict__"):
            todo += list(vars(item).values())
        elif isinstance(item, tuple | list):
            todo += list(item)
    return found


def test_an_entry_under_a_tensor_is_called_by_its_place() -> None:
    table: dict[Any, Any] = collections.defaultdict(dict)
    table[_leaf(1.0)] = {"count": 1, "mean": torch.zeros(2)}
    table[2] = {"count": 3}
    assert state_image({"self.state": table}) == {
        "len(self.state)": 2,
        "len(self.state.#0)": 2,
        "self.state.#0.count": 1,
        "len(self.state.2)": 1,
        "self.state.2.count": 3,
    }
    assert [path for path, _ in tensors_in(table, "self.state")] == ["self.state.#0.mean"]
