"""What a recorded run alone says of a kind is not enough for a safe patch: found by attack."""

import textwrap

import libcst as cst
import pytest
from gbfix_codemods.control_flow.same_number import SameNumber
from gbfix_codemods.data_dependent.follow_number import FollowNumber
from gbfix_codemods.data_dependent.lookup_by_tensor import LookupByTensor
from gbfix_codemods.data_dependent.number_proof import Proof
from gbfix_codemods.data_dependent.static_range import StaticRange
from gbfix_codemods.data_dependent.tensor_limits import TensorLimits
from gbfix_codemods.data_dependent.unique_numbers import UniqueNumbers
from gbfix_codemods.side_effects.raise_to_op import RaiseToOp
from gbfix_codemods.wrap.ctc_loss import CtcLossToOp

from gbfix.codemod import Codemod, Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety

_LONG = "torch.int64"
_FACTS = {
    "x": tensor(4),
    "t": tensor(),
    "time": tensor(dtype=_LONG),
    "time - 1": tensor(dtype=_LONG),
    "table": tensor(9),
    "self.table": tensor(9),
    "n": scalar(3),
    "limit": scalar(9.0),
    "self.limit": scalar(9.0),
    "churn": scalar(0.0),
    "churn / 10.0": scalar(0.0),
    "sigma": tensor(),
    "low": scalar(0.0),
    "low <= sigma": tensor(dtype="torch.bool"),
    "x.max() > limit": tensor(dtype="torch.bool"),
    "x.max() > 3": tensor(dtype="torch.bool"),
    "(x > limit).any()": tensor(dtype="torch.bool"),
    "ids": Fact("list", "list", items=(scalar(1), scalar(2))),
    "lp": tensor(24, 2, 10),
    "targets": tensor(2, 3, dtype=_LONG),
    "sizes": tensor(2, dtype=_LONG),
    "lengths": tensor(2, dtype=_LONG),
    "self.ctc": Fact("module", "torch.nn.modules.loss.CTCLoss"),
    "x.numpy()": Fact("ndarray", "numpy.ndarray"),
}


def _safety(codemod: Codemod, source: str, at: str) -> Safety:
    source = "import numpy as np\nimport torch\nfrom torch import nn\n\n\n" + textwrap.dedent(
        source
    )
    case = Example(source, "", at=at, facts=_FACTS, title="")
    made = list(codemod.propose(example_site(case, codemod.codes[0])))
    rewrites = [item for item in made if isinstance(item, Rewrite)]
    assert rewrites, made
    return rewrites[0].safety


_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.ctc = nn.CTCLoss()

    def forward(self, lp, targets, sizes: torch.Tensor, lengths: torch.Tensor):
        return self.ctc(lp, targets, sizes, lengths)
"""
_CTC = "self.ctc(lp, targets, sizes, lengths)"
_TABLE = """
class Schedule:
    def __init__(self, table):
        self.table = {made}

    def step(self, x, time):
        return x * self.table[time]
"""
_CHECK = """
class Net(nn.Module):
    def forward(self, x):
        {before}
        if x.max() > 3:
            raise ValueError("large")
        return x
"""
_LENGTHS = "def f(lp, targets, sizes{note}, lengths{note}):\n    return {call}\n"
_PLAIN = "torch.nn.functional.ctc_loss(lp, targets, sizes, lengths)"
_GOES_ON = "\n\ndef main(net):\n    try:\n        net(1)\n    finally:\n        print(net.seen)\n"
_CASES = [
    (FollowNumber(), "def f(x):\n    return x / x.sum().item()\n", "x.sum().item()", True),
    (FollowNumber(), "def f(x, t):\n    return x * (1 / t.item())\n", "t.item()", False),
    (
        LookupByTensor(),
        "def f(x, table, time: torch.Tensor):\n    return x * table[time]\n",
        "table[time]",
        True,
    ),
    (LookupByTensor(), _TABLE.format(made="[table, 1.0]"), "self.table[time]", False),
    (
        SameNumber(),
        "def f(sigma, low, churn: float):\n    g = churn / 10.0 if low <= sigma else 0.0\n",
        "low <= sigma",
        True,
    ),
    (
        SameNumber(),
        "def f(sigma, low, churn=None):\n    g = churn / 10.0 if low <= sigma else 0.0\n",
        "low <= sigma",
        False,
    ),
    (
        StaticRange(),
        "def f(x, n: int):\n    for i in np.arange(n):\n        if i < 2:\n            x = x + 1\n",
        "i < 2",
        True,
    ),
    (
        StaticRange(),
        "def f(x, n):\n    for i in np.arange(n):\n        if i < 2:\n            x = x + 1\n",
        "i < 2",
        False,
    ),
    (
        TensorLimits(),
        "def f(x):\n    return x.masked_fill(x > 0, np.finfo(x.numpy().dtype).min)\n",
        "np.finfo(x.numpy().dtype)",
        True,
    ),
    (
        TensorLimits(),
        "def f(x):\n    return torch.tensor(np.finfo(x.numpy().dtype).min)\n",
        "np.finfo(x.numpy().dtype)",
        False,
    ),
    (UniqueNumbers(), "def f(x, ids):\n    return x * len(np.unique(ids))\n", "np.unique", False),
    (CtcLossToOp(), _NET, _CTC, True),
    (CtcLossToOp(), _NET + "\n\ndef swap(net):\n    setattr(net, 'ctc', 1)\n", _CTC, False),
    (CtcLossToOp(), _NET + "\n\nclass Other(Net):\n    ctc = None\n", _CTC, False),
    (CtcLossToOp(), _NET + "\n\ndef swap(net):\n    net.ctc, n = 1, 2\n", _CTC, False),
    (CtcLossToOp(), _LENGTHS.format(note=": torch.Tensor", call=_PLAIN), _PLAIN, True),
    (CtcLossToOp(), _LENGTHS.format(note="", call=_PLAIN), _PLAIN, False),
    (RaiseToOp(), _CHECK.format(before="y = x * 2"), "x.max() > 3", True),
    # What is set before is lost where it raises, which somebody has to be there to see.
    (RaiseToOp(), _CHECK.format(before="self.calls = 1"), "x.max() > 3", True),
    (RaiseToOp(), _CHECK.format(before="self.calls = 1") + _GOES_ON, "x.max() > 3", False),
    (RaiseToOp(), _CHECK.format(before="self.seen.append(1)"), "x.max() > 3", True),
    (RaiseToOp(), _CHECK.format(before="self.seen.append(1)") + _GOES_ON, "x.max() > 3", False),
    (
        RaiseToOp(),
        _CHECK.format(before="y = x * 2")
        + "\n\nclass Robust(nn.Module):\n    def forward(self, x):\n        try:\n"
        "            return self.sub(x)\n        except ValueError:\n            return x\n",
        "x.max() > 3",
        False,
    ),
    (
        RaiseToOp(),
        "def f(x, limit=None):\n    if limit is not None and (x > limit).any():\n"
        "        raise ValueError\n    return x\n",
        "(x > limit).any()",
        True,
    ),
]


@pytest.mark.parametrize(("codemod", "source", "at", "safe"), _CASES)
def test_safe_where_the_text_says_what_the_run_saw(
    codemod: Codemod, source: str, at: str, safe: bool
) -> None:
    assert _safety(codemod, source, at) == (Safety.SAFE if safe else Safety.UNSAFE)


@pytest.mark.parametrize(
    "body",
    [
        "size = np.prod(x.shape[2:])\nreturn x * size",
        "size = np.prod(x.shape[2:])\nreturn x.view(size)",
        "return x / np.sqrt(self.ndim)",
    ],
)
def test_products_of_no_sizes_and_attributes_by_the_name_of_ndim(body: str) -> None:
    source = "import numpy as np\n\n\ndef f(self, x):\n" + textwrap.indent(body, "    ") + "\n"
    at = "np.prod(x.shape[2:])" if "prod" in body else "np.sqrt(self.ndim)"
    facts = _FACTS | {"x.shape[2:]": Fact("tuple", "torch.Size", items=(scalar(4),))}
    site = example_site(Example(source, "", at=at, facts=facts, title=""), "GB0170")
    proof = Proof(site, lambda call: "prod" if "prod" in body else "sqrt")
    assert isinstance(site.node, cst.Call)
    assert not proof.is_sure(site.node)
