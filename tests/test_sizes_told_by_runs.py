"""Sizes of an operator's results, found by running its body with other sizes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gbfix.schema import Told
from gbfix.worker.fakesizes import told


def _asked(body: Callable[..., Any], *args: Any) -> Told:
    name = f"operator_sizes::{body.__name__}"
    found = told(torch.library.custom_op(name, body, mutates_args=()), args, {})
    assert found is not None
    return found


def _has_sizes(found: Told | None) -> bool:
    return found is not None and bool(found.sizes)


def attend(
    lengths: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    parts = [torch.split(each, lengths.tolist(), dim=1) for each in (query, key, value)]
    return torch.cat([torch.softmax(q @ k.mT, -1) @ v for q, k, v in zip(*parts, strict=True)], 1)


@pytest.mark.parametrize("size", [4, 6])
def test_equal_sizes_are_told_apart_with_symbols(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gbfix.worker.fakesizes._SECONDS", 1e9)  # on a busy machine, too
    monkeypatch.setattr("gbfix.worker.fakesizes._ONE", 0.0)
    row = torch.randn(2, size, size)
    found = _asked(attend, torch.tensor([1, size - 1]), row, row.clone(), row.clone())
    assert not found.real
    # The batches may be broadcast; channels come from the values alone.
    (sizes,) = found.sizes
    assert sizes[0] == "torch.broadcast_shapes(query.shape[:1], key.shape[:1], value.shape[:1])[0]"
    assert sizes[1:] == ("query.shape[1]", "value.shape[2]")


def repeat(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.tensor([float(np.sum(row.numpy())) for row in x for _ in range(n)])


def test_numbers_are_varied_as_well() -> None:
    found = _asked(repeat, torch.randn(4, 4), 4)
    assert found.real
    assert found.sizes == (("x.shape[0] * n",),)


_TUNED = ""


@functools.lru_cache(maxsize=1)
def block() -> int:
    with open(_TUNED) as file:
        return int(file.read())


def blocks(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (-1, block())).clone()


def halves(x: torch.Tensor) -> torch.Tensor:
    with open(_TUNED) as file:
        return x.unflatten(-1, (-1, 2)) * int(file.read())


def test_a_size_that_a_file_tells_is_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuned").write_text("4")
    monkeypatch.setattr(f"{__name__}._TUNED", str(tmp_path / "tuned"))
    assert _asked(blocks, torch.randn(2, 48)).sizes == (("x.shape[0]", "", ""),)
    assert _asked(halves, torch.randn(2, 48)).sizes == (("x.shape[0]", "x.shape[1] // 2", "2"),)


def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def distinct(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.unique(x.numpy()))


@pytest.mark.parametrize("body", [positive, distinct])
def test_what_the_data_decide_is_no_size(body: Callable[..., Any]) -> None:
    # Both have as many elements in this call as they are given.
    assert _asked(body, torch.tensor([1.0, 2.0, 3.0])).sizes == (("",),)


def first_rows(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64:
        return torch.from_numpy(x[:64].numpy()).clone()
    return torch.from_numpy(x.numpy()).clone()


def test_a_limit_in_the_text_is_tried() -> None:
    assert _asked(first_rows, torch.randn(12, 3)).sizes == (("", "x.shape[1]"),)


def stacked(xs: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(x.numpy()) for x in xs])


def test_lists_are_made_longer_and_shorter() -> None:
    assert _asked(stacked, [torch.randn(3) for _ in range(3)]).sizes == (
        ("len(xs)", "xs[0].shape[0]"),
    )


def pairs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.convolve(x.numpy(), y.numpy()))


def least(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = min(len(x.numpy()), len(y.numpy()))
    return x[:n].clone()


def test_sizes_of_two_others() -> None:
    assert _asked(pairs, torch.randn(5), torch.randn(3)).sizes == (
        ("x.shape[0] + y.shape[0] - 1",),
    )
    assert _asked(least, torch.randn(5), torch.randn(5)).sizes == (
        ("min(x.shape[0], y.shape[0])",),
    )


def flat_or_not(x: torch.Tensor) -> torch.Tensor:
    return x.flatten() if x.shape[0] == 1 else x.clone()


def test_results_of_other_dimensions_are_no_answer() -> None:
    operator = torch.library.custom_op("operator_sizes::flat_or_not", flat_or_not, mutates_args=())
    assert not _has_sizes(told(operator, (torch.randn(3, 2),), {}))


def endless(x: torch.Tensor) -> torch.Tensor:
    while x.numpy().sum() < len(x):
        x = x * 1.0
    return x.clone()


def test_a_body_that_does_not_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbfix.worker.fakesizes._ONE", 0.3)
    operator = torch.library.custom_op("operator_sizes::endless", endless, mutates_args=())
    assert not _has_sizes(told(operator, (torch.ones(3),), {}))


def hashed(ids: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(str(ids.tolist()[0])))


def smoothed(ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.convolve(np.ones(len(ids)), np.hanning(9), mode="same"))


def test_texts_of_symbols_tell_nothing() -> None:
    # As many digits as a number has: "u0" has two, whatever the number is.
    found = _asked(hashed, torch.tensor([5, 100, 7]))
    assert found.real
    assert found.sizes == (("",),)


def test_more_than_a_few_is_tried() -> None:
    assert _asked(smoothed, torch.tensor([5, 100, 7])).sizes == (("",),)


def fixed(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, 2) + float(x.numpy()[0])


def test_a_size_of_its_own_is_a_number() -> None:
    assert _asked(fixed, torch.randn(3)).sizes == (("3", "2"),)


def part(x: torch.Tensor, ratio: float) -> torch.Tensor:
    return torch.from_numpy(x.numpy()[: int(len(x) * ratio)].copy())


def test_a_fraction_that_is_given_is_varied() -> None:
    # Half of the rows, in this call.
    operator = torch.library.custom_op(
        "operator_sizes::part", part, mutates_args=(), schema="(Tensor x, float ratio) -> Tensor"
    )
    found = told(operator, (torch.randn(8, 3), 0.5), {})
    assert found is not None
    assert found.sizes == (("", "x.shape[1]"),)


class Window:
    def __init__(self, size: int) -> None:
        self.size = size

    def rows(self, x: np.ndarray) -> np.ndarray:
        return np.stack([x.sum(0)] * self.size)


OBJECTS: weakref.WeakValueDictionary[int, Window] = weakref.WeakValueDictionary()


def windowed(owner_id: int, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(OBJECTS[owner_id].rows(x.numpy()))


def test_what_an_object_holds_is_varied() -> None:
    window = Window(3)
    OBJECTS[id(window)] = window
    # Three rows, of this object alone.
    assert _asked(windowed, id(window), torch.randn(5, 2)).sizes == (("", "x.shape[1]"),)
    assert window.size == 3


class Defaults:
    rows = 3


class Config(Defaults):
    def __init__(self) -> None:
        self.word = 7


class Listed(Config):
    def __getitem__(self, name: str) -> int:
        return int(getattr(self, name))


class Finder:
    def __init__(self, config: Config) -> None:
        self.config = config

    def rows(self, x: np.ndarray) -> np.ndarray:
        return np.stack([x.sum(0)] * self.config.rows)

    def places(self, ids: list[list[int]]) -> list[int]:
        return [row.index(self.config.word) for row in ids]

    def listed(self, x: np.ndarray) -> np.ndarray:
        return np.stack([x.sum(0)] * self.config["rows"])  # type: ignore[index]


FINDERS: weakref.WeakValueDictionary[int, Finder] = weakref.WeakValueDictionary()


def settled(owner_id: int, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(FINDERS[owner_id].rows(x.numpy()))


def placed(owner_id: int, ids: torch.Tensor) -> torch.Tensor:
    return torch.tensor(FINDERS[owner_id].places(ids.tolist()))


def looked_up(owner_id: int, x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(FINDERS[owner_id].listed(x.numpy()))


def test_settings_of_a_config_are_varied_also_those_of_its_classes() -> None:
    finder = Finder(Config())
    FINDERS[id(finder)] = finder
    assert _asked(settled, id(finder), torch.randn(5, 2)).sizes == (("", "x.shape[1]"),)
    assert vars(finder.config) == {"word": 7}


def test_the_number_of_a_word_is_varied_with_the_words() -> None:
    # Without that, no other number would be found in any row.
    finder = Finder(Config())
    FINDERS[id(finder)] = finder
    ids = torch.tensor([[1, 7, 2, 5], [7, 3, 4, 6], [2, 5, 7, 1]])
    assert _asked(placed, id(finder), ids).sizes == (("ids.shape[0]",),)
    assert (ids == 7).sum() == 3


def test_a_config_that_is_asked_in_another_way_tells_nothing() -> None:
    finder = Finder(Listed())
    FINDERS[id(finder)] = finder
    operator = torch.library.custom_op("operator_sizes::looked_up", looked_up, mutates_args=())
    assert not _has_sizes(told(operator, (id(finder), torch.randn(5, 2)), {}))


def moded(x: torch.Tensor, mode: str) -> torch.Tensor:
    return torch.from_numpy(np.convolve(x.numpy(), np.ones(3), mode=mode))  # type: ignore[call-overload]


def test_a_text_may_decide_on_anything() -> None:
    operator = torch.library.custom_op("operator_sizes::moded", moded, mutates_args=())
    assert not _has_sizes(told(operator, (torch.randn(8), "same"), {}))


def joined(
    x: torch.Tensor, gain: torch.Tensor, order: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    places = sorted(range(len(order)), key=lambda n: float(order[n]))
    return torch.mul(x[places], gain), torch.mm(x, weight)


def test_what_a_result_gets_its_dtype_from_is_told_alone() -> None:
    operator = torch.library.custom_op("operator_sizes::joined", joined, mutates_args=())
    given = torch.randn(3, 4), torch.randn(4), torch.randn(3), torch.randn(4, 2)
    found = told(operator, given, {}, sizes=False)
    assert found is not None
    assert found.sizes == ()
    # Of ``order`` only the places are read; the product takes no two dtypes.
    assert found.wider == (("x", "gain"), ("x",))


def read_alone(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * (float(weight.sum()) > 0)


def test_numbers_that_python_reads_make_nothing_wider() -> None:
    operator = torch.library.custom_op("operator_sizes::read_alone", read_alone, mutates_args=())
    found = told(operator, (torch.randn(3), torch.randn(2)), {}, sizes=False)
    assert found is not None
    assert found.wider == (("x",),)


def of_floats(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    total = x
    for _ in range(int(x.numel() > 2)):
        total = total - total * 0.5
    return total, x.sum(), x[:1].clone()


def test_what_comes_of_whole_numbers_is_told() -> None:
    operator = torch.library.custom_op("operator_sizes::of_floats", of_floats, mutates_args=())
    found = told(operator, (torch.randn(4),), {}, sizes=False)
    assert found is not None
    assert found.integers == ("fraction", "sum", "same")
    assert found.follows == (True, True, True)


def halved(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    number = torch.tensor([0.0]) if x.dim() > 3 else x.mean(0).detach()
    return number, torch.tensor([float(x.sum())])


def test_what_is_as_wide_as_what_is_given_is_told() -> None:
    operator = torch.library.custom_op("operator_sizes::halved", halved, mutates_args=())
    found = told(operator, (torch.randn(4, 2),), {}, sizes=False)
    assert found is not None
    assert found.follows == (True, False)


def equal_pairs(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    first, second = torch.where(labels[:, None] == labels)
    return first, second, labels * 2


def test_what_is_of_int64_whatever_integers_come_is_told() -> None:
    operator = torch.library.custom_op("operator_sizes::equal_pairs", equal_pairs, mutates_args=())
    found = told(operator, (torch.tensor([0, 1, 1]),), {}, sizes=False)
    assert found is not None
    assert found.stays == (True, True, False)


def of_both(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return x[places.tolist()] if x.is_floating_point() else x.bool()


def test_nothing_is_told_of_whole_numbers_where_they_become_something_else() -> None:
    operator = torch.library.custom_op("operator_sizes::of_both", of_both, mutates_args=())
    found = told(operator, (torch.randn(4), torch.tensor([1, 2])), {}, sizes=False)
    assert found is not None
    assert found.integers == ()


def pairs_above(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = [(i, j) for i, row in enumerate(x.tolist()) for j, one in enumerate(row) if one > 0]
    return torch.tensor([i for i, _ in places]), torch.tensor([float(j) for _, j in places])


def above_and_below(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[x > 0], x[x <= 0]


def places_above(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mask = x > 0
    return torch.where(mask)[0], x[mask]


@pytest.mark.parametrize(
    ("body", "alike"), [(pairs_above, True), (above_and_below, False), (places_above, True)]
)
def test_sizes_that_are_one_in_every_run_are_told(body: Callable[..., Any], alike: bool) -> None:
    x = torch.arange(16.0).reshape(4, 4) % 2 - 0.5  # as many above zero as below
    found = _asked(body, x if body is pairs_above else x.flatten())
    assert found.sizes == (("",), ("",))
    assert found.alike == ((((0, 0), (1, 0)),) if alike else ())
