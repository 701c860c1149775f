"""The sizes that are read from numpy's functions are those that numpy gives."""

from __future__ import annotations

import types

import libcst as cst
import numpy as np
import pytest
from gbfix_codemods.operator.size_values import UNKNOWN, Size, Value
from gbfix_codemods.operator.sizes import Reader

_READ = [
    "np.tile(x, (n, 1, 1))",
    "np.tile(x, (2, n))",
    "np.tile(x, n)",
    "x[:, None]",
    "x[None, :, :]",
    "x[:, np.newaxis, :]",
    "np.expand_dims(x, 1)",
    "np.expand_dims(x, axis=-1)",
    "np.concatenate((x, x), axis=0)",
    "np.concatenate((x, x), 1)",
    "np.append(x, x, axis=0)",
    "np.append(x, x, axis=1)",
    "np.vstack((x, x))",
    "np.vstack((x[0], x[0], x[0]))",
    "np.linspace(0, 1, n)",
    "np.linspace(0, 1, num=n)",
    "np.mgrid[0:n, 0 : n + 1]",
    "np.mgrid[1:n]",
    "np.mgrid[0:n, 0:n].T",
    "np.float32(x).T",
    "np.stack([x, x], axis=1)",
    "np.stack([x, x])",
    "np.zeros(min(x.shape))",
    "np.zeros((max(x.shape[0], n), min(n, x.shape[1], 3)))",
    "np.random.choice([True, False], n, p=[0.5, 0.5])",
    "np.random.choice(4, (n, 2))",
    "np.random.uniform(0.0, 1.0, x.shape)",
    "np.random.randint(0, 9, size=n)",
    "np.random.random(n)",
    "np.random.standard_normal((n, len(x)))",
]
#: What is left open: the data decide, or both arrays are made flat.
_LEFT = [
    "np.argwhere(x)",
    "np.flatnonzero(x)",
    "np.append(x, x)",
    "np.stack([x, x], axis=-1)",
    "np.mgrid[0:n:2]",
    "np.concatenate(rows)",
    "x[..., None]",
    "np.zeros(min(x))",
    "np.zeros(min(int(x.sum()), n))",
    "np.zeros(max(x.shape, key=abs))",
    "np.random.uniform(0.0, 1.0)",
    "np.random.choice(n)",
    "np.random.normal(0.0, 1.0, None)",
]


def _read(text: str, body: str = "") -> Value:
    module = cst.parse_module(f"{body}found = {text}\n")
    site = types.SimpleNamespace(module=module, fact=lambda node: None, text=module.code_for_node)
    names = {
        "x": Value((Size("x.shape[0]", 3), Size("x.shape[1]", 4))),
        "n": Value((), Size("n", 5)),
    }
    reader = Reader(site, names, {})
    reader.run(module.body)
    return reader.names.get("found", UNKNOWN)


@pytest.mark.parametrize("text", _READ)
@pytest.mark.parametrize(("shape", "n"), [((3, 4), 5), ((1, 2), 1), ((0, 3), 2), ((6, 1), 7)])
def test_they_are_those_of_the_array(text: str, shape: tuple[int, int], n: int) -> None:
    if shape[0] == 0 and "x[0]" in text:
        pytest.skip("no row")
    sizes = _read(text).sizes
    assert sizes is not None and all(size.known for size in sizes)
    given = {"x": np.zeros(shape), "n": n, "np": np}
    assert tuple(eval(size.text, dict(given)) for size in sizes) == eval(text, dict(given)).shape


@pytest.mark.parametrize("text", _LEFT)
def test_what_cannot_be_told_is_left_open(text: str) -> None:
    value = _read(text)
    assert value.sizes is None or not value.sizes[0].known


def test_a_function_of_one_expression_is_followed() -> None:
    value = _read("blur(x)", "blur = lambda y: np.exp(y - n // 2) ** 2\n")
    assert value.sizes is not None
    assert [size.text for size in value.sizes] == ["x.shape[0]", "x.shape[1]"]


@pytest.mark.parametrize("more", ["np.append(made, x, axis=0)", "np.concatenate((made, x))"])
def test_what_grows_with_each_round_is_not_told_by_one(more: str) -> None:
    value = _read("made", f"made = np.zeros((0, 4))\nfor row in rows:\n    made = {more}\n")
    assert value.sizes is None or not value.sizes[0].known


@pytest.mark.parametrize("asked", ["r.size(0)", "r.size(-1)", "r.shape[0]", "len(r)"])
def test_the_size_of_a_ragged_part_is_left_open(asked: str) -> None:
    lines = "rows = [cut(each) for each in x]\nfound = [0 for r in rows for _ in range(SIZE)]\n"
    value = _read("found", lines.replace("SIZE", asked))
    assert value.sizes is not None and not value.sizes[0].known


@pytest.mark.parametrize("first", ["rows, columns = [], []", "rows = []\ncolumns = []"])
def test_lists_that_are_bound_together_grow_each_by_itself(first: str) -> None:
    loop = "for i in range(min(x.shape)):\n    rows.append(i)\n    columns.append(i + 1)\n"
    value = _read("np.array(rows)", f"{first}\n{loop}")
    assert value.sizes is not None
    assert [size.text for size in value.sizes] == ["min(x.shape[0], x.shape[1])"]


def test_lists_that_are_bound_together_in_a_loop_begin_anew() -> None:
    loop = "    for i in range(3):\n        rows.append(i)\n"
    body = f"for j in range(n):\n    rows, more = [], j\n{loop}"
    value = _read("np.array(rows)", body)
    assert value.sizes is not None and [size.text for size in value.sizes] in (["3"], [""])


_APPENDED = "parts = []\nfor i in range(n):\n    parts.append(x)\n"


def test_parts_of_one_size_are_joined() -> None:
    sizes = _read("torch.cat(parts)", _APPENDED).sizes
    assert sizes is not None and all(size.known for size in sizes)
    given = {"x": np.zeros((3, 4)), "n": 2}
    assert tuple(eval(size.text, dict(given)) for size in sizes) == (6, 4)


@pytest.mark.parametrize("more", ["parts.append(x[:1])", "parts.append(x[i:])", "parts.extend(xs)"])
def test_parts_of_several_sizes_are_left_open(more: str) -> None:
    for body in (f"{_APPENDED}    {more}\n", f"{_APPENDED}{more}\n"):
        sizes = _read("torch.cat(parts)", body).sizes
        assert sizes is None or not sizes[0].known
