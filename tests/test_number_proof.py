"""Which numbers of numpy's become Python's safely: what attacks on `numpy-scalar` found."""

import textwrap

import pytest
from gbfix_codemods.data_dependent.numpy_scalar import NumpyScalar

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety

_SIZE = Fact("tuple", "torch.Size", items=(scalar(4), scalar(6)))
_FACTS = {
    "x": tensor(4, 6),
    "y": tensor(4, 6),
    "x.shape": _SIZE,
    "x.shape[1:]": _SIZE,
    "x.shape[0]": scalar(4),
    "n": scalar(4),
    "t": scalar(4),
    "a": scalar(0.5),
    "b": scalar(0.5),
    "self.step": scalar(4),
    "self.flags": Fact("list", "list", items=(scalar(True), scalar(False))),
    "self.sizes": Fact("list", "list", items=(scalar(3), scalar(4))),
    "widths": Fact("list", "list", items=(scalar(1), scalar(2))),
}


def _made(body: str, at: str) -> Rewrite:
    source = "import numpy as np\nimport math\n\n\ndef f(self, x, y, n, a, b, widths):\n"
    source += textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "    ")
    case = Example(source, "", at=at, facts=_FACTS, title="")
    made = list(NumpyScalar().propose(example_site(case, "GB0170")))
    assert len(made) == 1 and isinstance(made[0], Rewrite)
    return made[0]


def _safety(body: str, at: str) -> Safety:
    return _made(body, at).safety


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("return x.view(int(np.prod(x.shape[1:])))", "int(np.prod(x.shape[1:]))"),
        ("if np.sqrt(x.shape[0]) > 1:\n    return x\nreturn y", "np.sqrt(x.shape[0]) > 1"),
        ("return x / np.sqrt(x.shape[0])", "x / np.sqrt(x.shape[0])"),
        ("k = np.sqrt(x.shape[0])\nif k > 1:\n    return x / k\nreturn y", "k > 1"),
        (
            "t = x.shape[0]\nk = int(np.ceil(t / 2))\nreturn x[: np.maximum(k, 1)]",
            "x[: np.maximum(k, 1)]",
        ),
        ("t, c = x.shape\nreturn x[: np.minimum(t, 3)]", "x[: np.minimum(t, 3)]"),
        ("return x * np.log2(x.shape[0] + 1)", "x * np.log2(x.shape[0] + 1)"),
        ("if np.sum(self.flags) == 1 and n:\n    return x", "np.sum(self.flags) == 1 and n"),
        ("if not np.abs(x.shape[0] - 7) <= 2:\n    return x", "np.abs(x.shape[0] - 7) <= 2"),
    ],
)
def test_numbers_of_sizes_that_go_where_both_do_the_same(body: str, at: str) -> None:
    assert _safety(body, at) == Safety.SAFE


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("return x * (1 / np.sqrt(x.shape[0]))", "1 / np.sqrt(x.shape[0])"),
        ("return x * (1 / np.sqrt(x.shape[0] - 4))", "np.sqrt(x.shape[0] - 4)"),
        ("if np.log(self.step) > 1:\n    return x", "np.log(self.step) > 1"),
        ("if np.log(x.shape[0]) > 1:\n    return x", "np.log(x.shape[0]) > 1"),
        ("if np.sqrt(x.shape[0]) > n:\n    return x", "np.sqrt(x.shape[0]) > n"),
    ],
)
def test_where_only_numpy_has_a_number_is_a_limit(body: str, at: str) -> None:
    made = _made(body, at)
    assert made.safety == Safety.SAFE
    assert any("raises an error" in note for note in made.notes)


@pytest.mark.parametrize(
    ("handled", "safety"),
    [
        ("ValueError", Safety.UNSAFE),
        ("(KeyError, ArithmeticError)", Safety.UNSAFE),
        ("Exception", Safety.UNSAFE),
        ("ImportError", Safety.SAFE),
        ("KeyError", Safety.SAFE),
    ],
)
def test_a_handler_would_take_what_numpy_does_not_raise(handled: str, safety: Safety) -> None:
    body = "if np.log(n) > 1:\n    return x\ndef run(x):\n    try:\n        return f(x)\n"
    body += f"    except {handled}:\n        return None"
    assert _safety(body, "np.log(n) > 1") == safety


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("a = x.max().item()\nif np.sqrt(a) > 1:\n    return x", "np.sqrt(a) > 1"),
        ("b = float(x.max())\na = b * 2\nif np.log(a) > 1:\n    return x", "np.log(a) > 1"),
    ],
)
def test_numbers_of_a_tensors_data_are_unsafe(body: str, at: str) -> None:
    assert _safety(body, at) == Safety.UNSAFE


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("if ~np.isnan(a):\n    return x", "~np.isnan(a)"),
        ("if np.isfinite(a) + np.isfinite(b) > 1:\n    return x", "np.isfinite(a)"),
        ("if np.int64(n) * 6364136223846793005 % 97 > 1:\n    return x", "np.int64(n)"),
        (
            "if np.abs(x.shape[0]) * 6364136223846793005 > 1:\n    return x",
            "np.abs(x.shape[0])",
        ),
        ("if np.prod(widths) > 100:\n    return x", "np.prod(widths) > 100"),
        ("if np.sum(widths) > 100:\n    return x", "np.sum(widths) > 100"),
        ("return x[: np.maximum(1, n)]", "x[: np.maximum(1, n)]"),
        ("return x * np.sin(n) ** 0.5", "x * np.sin(n) ** 0.5"),
        ("return x[: n // np.abs(x.shape[0] - 7)]", "n // np.abs(x.shape[0] - 7)"),
        ("return np.sqrt(x.shape[0]) * x", "np.sqrt(x.shape[0]) * x"),
        ("return x.view(np.prod(x.shape[1:]))", "np.prod(x.shape[1:])"),
        ("return x.view(int(np.prod(x.shape[1:]) / 0.0))", "np.prod(x.shape[1:])"),
        ("k = np.sqrt(x.shape[0])\nif k > 1:\n    return x\nreturn k.item()", "k > 1"),
        ("k = np.sqrt(x.shape[0])\nif k > 1:\n    return x\nreturn k", "k > 1"),
        ("k = np.sqrt(x.shape[0])\nself.last = k\nif k > 1:\n    return x", "k > 1"),
        ("k = np.sqrt(x.shape[0])\nif k > 1:\n    return x\nreturn lambda: k.dtype", "k > 1"),
        (
            "k = np.sqrt(x.shape[0])\nif k > 1:\n    return x\nraise ValueError(f'{k!r}')",
            "k > 1",
        ),
        ("if isinstance(np.sqrt(x.shape[0]), float):\n    return x", "np.sqrt(x.shape[0])"),
        ("if np.sqrt(x.shape[0]) is None:\n    return x", "np.sqrt(x.shape[0])"),
        ("return x + (np.abs(x.shape[0]) > 1)", "np.abs(x.shape[0]) > 1"),
    ],
)
def test_all_others_are_unsafe(body: str, at: str) -> None:
    assert _safety(body, at) == Safety.UNSAFE


_CLASS = """
import numpy as np
import torch
{imports}

class Base(torch.nn.Module):
    def log(self):
        return {base}


class Other(torch.nn.Module):
    def __init__(self):
        self.coef = 3

    def shift(self):
        return self.coef + 1


class Layer({bases}):
    def __init__(self, coef):
        super().__init__()
        self.coef = {value}

    def forward(self, x):
        if {test}:
            {body}
        return x
"""


def _attribute(kind: str, other: str = "", **parts: str) -> Safety:
    filled = {
        "imports": "", "base": "1", "bases": "Base", "value": "np.sqrt(coef)",
        "test": "self.coef != 1", "body": "x = self.coef * x", **parts,
    }  # fmt: skip
    source, test = _CLASS.format(**filled), filled["test"]
    before = source.count(test, 0, source.index(f"if {test}:"))
    facts = {"self.coef": Fact("object", kind), "x": tensor(4, 6)}
    site = example_site(Example(source, "", at=test, facts=facts, nth=before), "GB0170")
    site.sources = {**site.sources, **({"other.py": other} if other else {})}
    (made,) = NumpyScalar().propose(site)
    assert isinstance(made, Rewrite)
    return made.safety


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("numpy.float64", {}),
        ("numpy.int64", {"value": "coef", "test": "self.coef"}),
        ("numpy.float64", {"base": "f'{self.coef}'"}),
        ("numpy.float32", {"test": "self.coef"}),
        (
            "numpy.int64",
            {"value": "coef", "test": "not self.coef", "body": "x = x * self.coef"},
        ),
        ("numpy.float64", {"value": "1 / np.sqrt(coef)", "base": "float(self.coef)"}),
        ("numpy.bool", {"value": "coef != 0", "test": "self.coef", "body": "x = x + 1"}),
        ("numpy.bool", {"value": "coef", "test": "self.coef", "body": "x = x + 1"}),
        (
            "numpy.bool",
            {
                "value": "np.any(coef)",
                "test": "self.coef",
                "body": "x = x + 1",
                "bases": "torch.nn.Conv2d",
            },
        ),
    ],
)
def test_attributes_of_which_nobody_can_tell(kind: str, parts: dict[str, str]) -> None:
    assert _attribute(kind, **parts) is Safety.SAFE


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        # Another object may hold a list that still changes, an int, or a float.
        ("numpy.bool", {"value": "coef.used", "test": "self.coef", "body": "x = x + 1"}),
        ("numpy.int64", {"value": "np.prod(coef)", "test": "self.coef"}),
        ("numpy.float64", {"value": "coef * 2"}),
        ("numpy.float64", {"value": "np.sum(coef)"}),
        ("numpy.float64", {"base": "1 / self.coef"}),
        ("numpy.float64", {"base": "setattr(self, input(), 1)"}),
        ("numpy.bool", {"value": "coef", "test": "self.coef", "body": "x = x * ~self.coef"}),
        ("numpy.bool", {"value": "coef", "test": "self.coef", "body": "x = self.coef * x"}),
        ("numpy.float64", {"body": "x = x * self.coef.astype('f4')"}),
        ("numpy.float64", {"body": "x = torch.tensor(self.coef) * x"}),
        ("numpy.float64", {"base": "repr(self.coef)"}),
        ("numpy.float64", {"body": "x = getattr(self, 'coef') * x"}),
        ("numpy.float64", {"imports": "def peek(it):\n    return it.coef.dtype\n\n"}),
        ("numpy.float64", {"other": "def peek(it):\n    return it.coef.dtype\n"}),
        ("numpy.float64", {"bases": "Parsed", "imports": "from elsewhere import Parsed\n"}),
        ("numpy.float32", {"base": "f'{self.coef}'"}),
        ("numpy.float32", {"test": "self.coef < 0.1"}),
        ("numpy.int64", {"value": "coef", "test": "self.coef", "body": "x = x + 2 ** self.coef"}),
    ],
)
def test_attributes_of_which_somebody_can_tell(kind: str, parts: dict[str, str]) -> None:
    assert _attribute(kind, **parts) is Safety.UNSAFE


def test_an_attribute_that_torchs_layers_read_is_theirs() -> None:
    source = _CLASS.format(
        imports="", base="1", bases="torch.nn.Conv2d", value="np.sqrt(coef)", test="self.coef != 1",
        body="x = self.coef * x",
    ).replace("coef", "stride")  # fmt: skip
    facts = {"self.stride": Fact("object", "numpy.float64"), "x": tensor(4, 6)}
    case = Example(source, "", at="self.stride != 1", facts=facts, title="")
    (made,) = NumpyScalar().propose(example_site(case, "GB0170"))
    assert isinstance(made, Rewrite) and made.safety is Safety.UNSAFE


def test_a_sum_of_ints_may_wrap_around() -> None:
    assert _safety("if np.sum(self.sizes) == 1:\n    return x", "np.sum(self.sizes) == 1") is (
        Safety.UNSAFE
    )
