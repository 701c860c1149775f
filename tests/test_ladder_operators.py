"""The ladder holds operators that a patch brings to what they promise the compiler."""

from __future__ import annotations

import pytest
from planted import Gbfix, Wrong, assert_caught, run_planted

BREAK = "    torch._dynamo.graph_break()\n"


def _operator(
    body: str, signature: str = "x: torch.Tensor", fake: str = "torch.empty_like(x)", more: str = ""
) -> str:
    """``work``, an operator that is there already; a patch calls it."""
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    returns = "None" if fake == "None" else "torch.Tensor"
    return (
        f'@torch.library.custom_op("planted::work", mutates_args=())\n'
        f"def work({signature}) -> {returns}:\n    {body}\n\n\n"
        f"work.register_fake(lambda {names}: {fake})\n{more}\n\n"
    )


def _program(operator: str, body: str, call: str = "f(torch.ones(3))") -> str:
    return f"{operator}@torch.compile\ndef f(x):\n{BREAK}    {body}\n    return y\n\n\n{call}\n"


ORDERED = "work.register_effect(torch.library.EffectType.ORDERED)\n"

CASES = [
    Wrong(
        "a fake that is right by chance only",
        _program(
            _operator("return x[x != 0]"),
            "y = x[x != 0] + 1",
        ),
        BREAK + "    y = x[x != 0] + 1",
        "    y = work(x) + 1",
        "outputs",
        "planted::work gives a tensor of",
    ),
    Wrong(
        "a fake whose dtype is right for floats only",
        _program(_operator("return x / 2"), "y = x / 2"),
        BREAK + "    y = x / 2",
        "    y = work(x)",
        "outputs",
        "its fake torch.int64",
        caveat=True,
    ),
    Wrong(
        "a fake with a size that was baked in",
        _program(_operator("return x * 2", fake="x.new_empty((3,))"), "y = x * 2"),
        BREAK + "    y = x * 2",
        "    y = work(x)",
        "outputs",
        "its fake one of (3,)",
    ),
    Wrong(
        "strides that the fake does not know",
        _program(
            _operator("return (x * 2).contiguous()"),
            "y = (x * 2).contiguous()",
            "f(torch.ones(3, 4))",
        ),
        BREAK + "    y = (x * 2).contiguous()",
        "    y = work(x)",
        "outputs",
        "gives strides",
        limit=True,
    ),
    Wrong(
        "strides that only rows in the same memory show",
        _program(
            _operator("return torch.from_numpy(np.array(x.numpy()))"),
            "y = torch.from_numpy(np.array(x.numpy()))",
            "f(torch.ones(3, 4))",
        ).replace("@torch", "import numpy as np\n\n\n@torch", 1),
        BREAK + "    y = torch.from_numpy(np.array(x.numpy()))",
        "    y = work(x)",
        "outputs",
        "For expanded tensors, ",
        limit=True,
    ),
    Wrong(
        "a change that is not declared",
        _program(
            _operator("x.numpy()[:] += 1", fake="None", more=ORDERED), "y = x * 2\n    y.add_(1)"
        ),
        BREAK + "    y = x * 2\n    y.add_(1)",
        "    y = x * 2\n    work(y)",
        "outputs",
        "changes `x`, not among `mutates_args`",
    ),
    Wrong(
        "a result that shares memory with an argument",
        _program(_operator("return x.view(-1)"), "y = x.view(-1)"),
        BREAK + "    y = x.view(-1)",
        "    y = work(x)",
        "outputs",
        "alias",
    ),
    Wrong(
        "an operator without a formula where a gradient is asked for",
        _program(
            _operator("return x.sin()"),
            "y = x.sin()",
            "f(torch.ones(3, requires_grad=True)).sum().backward()",
        ),
        BREAK + "    y = x.sin()",
        "    y = work(x)",
        "outputs",
        "no autograd formula",
    ),
    Wrong(
        "a gradient that the formula leaves out",
        _program(
            _operator(
                "return x.sin()",
                more="work.register_autograd(lambda ctx, g: g)\n",
            ),
            "y = x.sin()",
            "f(torch.ones(3, requires_grad=True)).sum().backward()",
        ),
        BREAK + "    y = x.sin()",
        "    y = work(x)",
        "gradients",
        "gradient of in.0.0",
    ),
    Wrong(
        "statistics in another order",
        "HISTORY = []\n\n\n"
        + _program("", 'HISTORY.append("a")\n    y = x * 2\n    HISTORY.append("b")'),
        BREAK + '    HISTORY.append("a")\n    y = x * 2\n    HISTORY.append("b")',
        '    HISTORY.append("b")\n    y = x * 2\n    HISTORY.append("a")',
        "outputs",
        "global.HISTORY",
    ),
    Wrong(
        "statistics of another type",
        "HISTORY = []\n\n\n" + _program("", "y = x * 2\n    HISTORY.append(y.sum().item())"),
        BREAK + "    y = x * 2\n    HISTORY.append(y.sum().item())",
        "    y = x * 2\n    HISTORY.append(y.sum().detach())",
        "outputs",
        "global.HISTORY",
    ),
    Wrong(
        "a constant that goes stale",
        'CONFIG = {"scale": 2.0}\nSCALE = CONFIG["scale"]\n\n\n'
        + _program(
            "",
            'y = x * CONFIG["scale"]',
            'f(torch.ones(3))\nCONFIG["scale"] = 3.0\nf(torch.ones(3))',
        ),
        BREAK + '    y = x * CONFIG["scale"]',
        "    y = x * SCALE",
        "outputs",
        "values differ",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_operator_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))
