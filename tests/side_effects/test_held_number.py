"""A number of an object that keeps something: what is carried, and what is no such number."""

from __future__ import annotations

import pytest
import torch
from gbfix_codemods.side_effects.effect_to_op import Gives

_VALUES = {"float": 1.5, "int": 3, "bool": True}
_OTHERS = (None, "1", torch.tensor(2.0), 2, 2.0, False)


def _carried(kind: str, value: object) -> torch.Tensor:
    body = Gives("value", kind).returned("torch")
    text = "def carry(value):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    names: dict[str, object] = {"torch": torch}
    exec(text, names)
    return names["carry"](value)  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("kind", list(_VALUES))
def test_a_number_is_carried_as_it_is_and_nothing_else_is(kind: str) -> None:
    found = _carried(kind, _VALUES[kind]).item()
    assert (found, type(found).__name__) == (_VALUES[kind], kind)
    fake = eval(Gives("value", kind).fake("torch"))  # the text of a codemod
    assert fake.dtype == _carried(kind, _VALUES[kind]).dtype and fake.shape == ()
    for other in _OTHERS:
        if type(other).__name__ != kind:
            with pytest.raises(TypeError, match=f"where {kind} is carried"):
                _carried(kind, other)
