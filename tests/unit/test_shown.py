"""What a program prints is compared up to the last places of fractions."""

from __future__ import annotations

import pytest

from gbfix.ladder import same_but_rounding


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("loss 213.5467", "loss 213.5468", True),
        ("loss 213.5467", "loss 213.5567", False),
        ("loss 0.12345678", "loss 0.12345681", True),
        ("loss 1.2345e-05", "loss 1.2346e-05", True),
        ("loss 1.2345e-05", "loss 1.2345e-06", False),
        ("accuracy 0.5", "accuracy 0.6", False),
        ("loss -1.5003", "loss 1.5003", False),
        ("step 12", "step 13", False),
        ("loss 1.5003 of 2", "loss 1.5003 of 3", False),
        ("loss 1.5003", "loss 1.5003 1.5003", False),
        ("nan 0.1", "inf 0.1", False),
        ("sum -0.13229799270629883", "sum -0.13229942321777344", True),
        ("sum 0.13229799270629883", "sum 0.13239942321777344", False),
        ("rate 0.000010000000", "rate 0.000018000000", False),
    ],
)
def test_the_last_place_of_a_fraction_may_differ(before: str, after: str, same: bool) -> None:
    assert same_but_rounding(before.encode(), after.encode()) is same
