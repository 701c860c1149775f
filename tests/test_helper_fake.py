"""Which argument a fake's result is made like."""

from __future__ import annotations

import libcst as cst
import pytest
from gbfix_codemods.wrap.capture import Parameter, Refused
from gbfix_codemods.wrap.helper_fake import _empty

from gbfix.codemod import tensor
from gbfix.schema import Fact


def _fake(result: Fact, *given: Fact) -> str:
    parameters = [
        Parameter(name, "torch.Tensor", cst.Name(name), fact)
        for name, fact in zip("xy", given, strict=False)
    ]
    return _empty(result, parameters, "torch", dynamic=False)


@pytest.mark.parametrize(
    ("result", "given", "fake"),
    [
        (tensor(3), [tensor(3)], "x.new_empty(x.shape)"),
        (tensor(3, dtype="torch.bool"), [tensor(3)], "torch.empty(x.shape, dtype=torch.bool)"),
        (
            tensor(3, dtype="torch.bool", device="cuda:0"),
            [tensor(3, device="cuda:0")],
            "x.new_empty(x.shape, dtype=torch.bool)",
        ),
        (
            tensor(3, device="cuda:0"),
            [tensor(3), tensor(2, device="cuda:0")],
            "y.new_empty(x.shape)",
        ),
        (tensor(3), [tensor(3, device="cuda:0")], "torch.empty(x.shape, dtype=torch.float32)"),
    ],
)
def test_a_result_is_where_it_was_seen(result: Fact, given: list[Fact], fake: str) -> None:
    assert _fake(result, *given) == fake


def test_a_device_that_no_argument_has_is_refused() -> None:
    with pytest.raises(Refused):
        _fake(tensor(3, device="cuda:0"), tensor(3))
