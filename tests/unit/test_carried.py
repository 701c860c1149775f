"""Where a project carries a number of numpy's, and who can tell it from Python's."""

from __future__ import annotations

import ast
import textwrap

import pytest

from gbfix.rewriting.carried import Carried, carried
from gbfix.schema import Span

HEAD = """
import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.functional import leaky_relu as leaky

class Net(torch.nn.Module):
    def forward(self, x, by): return x * by
net = Net()
GAINS = {"relu": np.sqrt(2)}
"""


def follow(*bodies: str) -> Carried:
    """What becomes of the number in the first text's table; ``x`` is a tensor, ``n`` a number."""
    texts = {
        f"file{n}.py": (HEAD if n == 0 else "") + textwrap.dedent(body)
        for n, body in enumerate(bodies)
    }
    (made,) = (
        node
        for node in ast.walk(ast.parse(texts["file0.py"]))
        if isinstance(node, ast.Call) and ast.unparse(node) == "np.sqrt(2)"
    )
    span = Span(made.lineno, made.col_offset, made.end_lineno or 0, made.end_col_offset or 0)

    def kind(path: str, node: ast.expr) -> str | None:
        return {"x": "tensor", "n": "number", "a": "ndarray"}.get(ast.unparse(node))

    return carried(texts, "file0.py", span, kind)


@pytest.mark.parametrize(
    "use",
    [
        "return x * GAINS['relu']",
        "return float(GAINS['relu']) / n",
        "g = GAINS['relu'] * n\n    return x + g",
        "if GAINS['relu'] != 1:\n        x = x + 1\n    return x",
        "return torch.nn.functional.leaky_relu(x, GAINS['relu'])",
        "return x.clamp(-GAINS['relu'], max=GAINS['relu'])",
        "x *= GAINS['relu']\n    return x",
        "return x * GAINS[n]",
        "return F.leaky_relu(x, GAINS['relu'])",
        "return leaky(x, GAINS['relu'])",
        "return net(x, GAINS['relu'])",
        "return x * round(GAINS['relu'], 2)",
        "return x * GAINS.get(n, 1) if n in GAINS else x",
    ],
)
def test_tensors_and_sums_of_numbers_do_not_tell(use: str) -> None:
    found = follow(f"def f(x, n, a):\n    {use}\n")
    assert ("file0.py", "f") in found.functions and not found.told


@pytest.mark.parametrize(
    "use",
    [
        "return f'{GAINS[\\'relu\\']}'".replace("\\'", '"'),
        "return n / GAINS['relu']",
        "return GAINS['relu'] / n",
        "return GAINS['relu'] ** n",
        "return a * GAINS['relu']",
        "return torch.tensor(GAINS['relu'])",
        "return [GAINS['relu']]",
        "return GAINS['relu'].astype(int)",
        "return isinstance(GAINS['relu'], float)",
        "print(GAINS['relu'])",
        "return GAINS['relu']",
        "return other(GAINS['relu'])",
        "return list(GAINS.values())",
        "return x * sum(GAINS[k] / n for k in GAINS)",
        "return dict(**GAINS)",
        "return getattr(n, 'relu')",
        "torch.save(GAINS['relu'], n)",
        "return torch.is_tensor(GAINS['relu'])",
        "return x.new_tensor(GAINS['relu'])",
        "logger.info('gain', extra=GAINS['relu'])",
        "return json.dumps(obj=GAINS['relu'])",
        "writer.add_scalar('gain', GAINS['relu'])",
        "return round(GAINS['relu'], 2).dtype",
        "return {'gain': GAINS['relu']}",
        "n.send({'gain': GAINS['relu']})",
        "return n(x, GAINS['relu'])",
        "return (lambda gain: str(gain))(gain=GAINS['relu'])",
    ],
)
def test_texts_types_arrays_and_divisions_tell(use: str) -> None:
    assert follow(f"def f(x, n, a):\n    {use}\n").told == "file0.py:12"


def test_it_is_followed_through_attributes_and_parameters_of_other_files() -> None:
    found = follow(
        """
        class Layer:
            def __init__(self, act):
                self.gain = GAINS[act] if act else GAINS.get("relu")

            def forward(self, x, n=1):
                return scaled(x, gain=self.gain * n)
        """,
        """
        def scaled(x, gain):
            return x + gain.item()
        """,
    )
    assert ("file1.py", "scaled") in found.functions
    assert found.told == "file1.py:3"


def test_a_keyword_reaches_the_functions_of_that_name_alone() -> None:
    found = follow(
        """
        def f(x):
            return scaled(x, gain=GAINS["relu"])

        def scaled(x, gain):
            return x * gain

        def unlike(x, gain):
            return str(gain)
        """
    )
    assert found.functions == {("file0.py", "f"), ("file0.py", "scaled")} and not found.told


def test_another_name_of_an_import_tells() -> None:
    text = "SCALE = np.sqrt(2)\ndef f(x):\n    return x * SCALE\n"
    texts = {"a.py": text, "b.py": "from a import SCALE as S\nprint(S)\n"}
    span = Span(1, 8, 1, 18)
    assert carried(texts, "a.py", span, lambda *_: None).told == "b.py:1"


def test_a_default_is_followed_into_its_function() -> None:
    text = "import numpy as np\n\ndef f(x, scale=np.sqrt(2)):\n    return repr(scale)\n"
    span = Span(3, 15, 3, 25)
    assert carried({"a.py": text}, "a.py", span, lambda *_: None).told == "a.py:4"


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        # A function of the project's that has the name of a builtin.
        ("def f(x):\n    return float(GAINS['relu'])\n\ndef float(v):\n    return str(v)", True),
        ("from helpers import abs\n\ndef f(x):\n    return x * abs(GAINS['relu'])", True),
        # F is not torch's here.
        ("import helpers as F\n\ndef f(x):\n    return F.scale(x, GAINS['relu'])", True),
        # A class has the parameters of its own __init__, or takes what its base takes.
        (
            "class A:\n    def __init__(self, gain):\n        print(gain)\n\n"
            "class B:\n    def __init__(self, gain):\n        self.b = float(gain)\n\n"
            "def f(x):\n    return B(GAINS['relu'])",
            False,
        ),
        (
            "class A:\n    def __init__(self, gain):\n        print(gain)\n\nclass B(A):\n"
            "    pass\n\ndef f(x):\n    return B(gain=GAINS['relu'])",
            True,
        ),
        ("def f(x):\n    return dict(gain=GAINS['relu'])\n\ndef g(d):\n    print(d['gain'])", True),
        (
            "def f(x):\n    return g(x, **{'gain': GAINS['relu']})\n\n"
            "def g(x, gain):\n    return str(gain)",
            True,
        ),
        ("g = lambda x, gain: str(gain)\n\ndef f(x):\n    return g(x, GAINS['relu'])", True),
        (
            "class A:\n    def __init__(self, act):\n        self.act = act\n\n"
            "    def forward(self, x):\n        return self.act(x, GAINS['relu'])\n\n"
            "class B:\n    def forward(self, x, by):\n        return x + repr(by)",
            True,
        ),
    ],
)
def test_who_is_called(rest: str, told: bool) -> None:
    assert bool(follow(rest + "\n").told) == told


_LAYER = """
class Layer(torch.nn.Module):
    def __init__(self, start):
        super().__init__()
        self.register_parameter("weight", start)
        self.gain = GAINS["relu"]

    def forward(self, y):
        w = {first}
        if self.gain != 1:
            w = self.gain * w
        return y.matmul(w.unknown())
"""


def test_a_parameter_by_the_text_is_a_tensor() -> None:
    assert not follow(_LAYER.format(first="self.weight")).told


def test_what_is_no_parameter_at_first_may_be_a_number() -> None:
    assert follow(_LAYER.format(first="self.other")).told
