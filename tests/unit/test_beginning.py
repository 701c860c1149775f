"""Python state is put back to where a sequence of calls began."""

from __future__ import annotations

import collections

import torch

from gbfix.worker.beginning import Beginning


class Observer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale: torch.Tensor | None = None
        self.count = 0
        self.seen: list[float] = []
        self.names = {"first"}
        self.last: collections.deque[int] = collections.deque([1], maxlen=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.scale is None:
            self.scale = x.max()
            self.late = True
        self.count += 1
        self.seen.append(0.5)
        self.names.add("second")
        self.last.append(self.count)
        return x / self.scale


def test_what_a_call_leaves_is_put_back() -> None:
    model, log = Observer(), {"calls": 1}
    seen = model.seen
    beginning = Beginning({"self": model, "global.log": log})
    assert not beginning.has_changed()
    for _ in range(2):
        model(torch.ones(3))
        log["calls"] += 1
        log["more"] = 2
        assert beginning.has_changed()
        beginning.restore()
        assert not beginning.has_changed()
        assert model.scale is None and model.count == 0 and not hasattr(model, "late")
        assert model.seen == [] and model.seen is seen
        assert model.names == {"first"} and list(model.last) == [1]
        assert log == {"calls": 1}


def test_an_equal_number_is_no_change_and_a_true_for_a_one_is() -> None:
    model = Observer()
    model.count = 1000
    beginning = Beginning({"self": model})
    model.count = int("1000")
    assert not beginning.has_changed()
    model.count = 1000.0  # type: ignore[assignment]
    assert beginning.has_changed()
    beginning.restore()
    assert type(model.count) is int


def test_the_compiled_form_of_a_module_stays() -> None:
    model = Observer()
    beginning = Beginning({"self": model})
    model.compile(backend="eager")
    assert not beginning.has_changed()
    model.count = 3
    beginning.restore()
    assert model._compiled_call_impl is not None


class Recorder:
    def __init__(self) -> None:
        self.history: dict[str, list[float]] = collections.defaultdict(list)
        self.latest: dict[str, float] = {}
        self.held: object = collections.OrderedDict(inner=[{"deep": [1]}])


def test_what_is_held_by_what_is_held_is_put_back() -> None:
    stack = [Recorder()]
    stack[0].history["loss"].append(1.0)
    beginning = Beginning({"global.stack": stack})
    stack[0].history["loss"].append(2.0)
    stack[0].history["more"].append(2.0)
    stack[0].latest["loss"] = 2.0
    stack[0].held["inner"][0]["deep"].append(2)  # type: ignore[index]
    assert beginning.has_changed()
    beginning.restore()
    assert not beginning.has_changed()
    assert stack[0].history == {"loss": [1.0]} and stack[0].latest == {}
    assert stack[0].held == {"inner": [{"deep": [1]}]}


def test_what_is_too_large_is_left_alone() -> None:
    stack = [{"rows": [0] * 5000}]
    beginning = Beginning({"global.stack": stack})
    stack[0]["rows"].append(1)
    assert not beginning.has_changed()
