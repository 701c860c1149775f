"""Inputs of narrow types are varied like others."""

from __future__ import annotations

import pytest
import torch

from gbfix.worker import perturb


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_bytes_of_every_whole_type(dtype: torch.dtype) -> None:
    found = perturb._as_dtype(torch.tensor([-5, 0, 127], dtype=dtype), "bytes")
    assert found.dtype == torch.uint8
    assert found.tolist() == [0, 0, 127]
