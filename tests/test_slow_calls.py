"""What calls that take long go through: some inputs of each kind."""

from gbfix.worker import perturb

_LABELS = {
    it.label for it in (*perturb.variations("eager"), *perturb.LAST, perturb.NUDGED, *perturb.CHAOS)
}


def _kept(seconds: float, *, repeated: bool = False) -> set[str]:
    return {it for it in _LABELS if not perturb.left_out(it, seconds, repeated=repeated)}


def test_a_quick_call_goes_through_all() -> None:
    assert _kept(0.1) == _kept(0.1, repeated=True) == _LABELS


def test_a_slow_call_goes_through_some_of_each_kind() -> None:
    kept = _kept(2.0)
    assert 20 < len(kept) < len(_LABELS) / 2
    for kind in ("base", "negated", "nan", "zeros", "grad", "state-negated", "wider", "empty",
                 "flags", "mode", "double", "strided", "aliased", "none", "units"):  # fmt: skip
        assert kind in kept


def test_what_is_compared_has_what_tells_how_far_rounding_may_bring_it() -> None:
    kept = _kept(2.0)
    for item in perturb.CHAOS:
        if perturb.of_nudged(item.label) in kept:
            assert item.label in kept


def test_what_is_repeated_was_done() -> None:
    repeated = _kept(2.0, repeated=True)
    assert repeated < _kept(2.0)
    assert "base" in repeated
