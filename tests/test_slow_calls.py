"""What calls that take long go through: some inputs of each kind."""

from gbfix.worker import perturb

_ALL = (*perturb.variations("eager"), *perturb.LAST, perturb.NUDGED, *perturb.CHAOS)
_LABELS = {it.label for it in _ALL}


def _kept(seconds: float, *, repeated: bool = False) -> set[str]:
    return {it.label for it in _ALL if not perturb.left_out(it, seconds, repeated=repeated)}


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


def test_what_is_repeated_is_the_beginning_of_what_was_done() -> None:
    # Python state goes on from call to call: a gap would look like chance, and be forgiven.
    done = [it.label for it in _ALL if not perturb.left_out(it, 2.0)]
    repeated = [it.label for it in _ALL if not perturb.left_out(it, 2.0, repeated=True)]
    assert 5 < len(repeated) < len(done)
    assert done[: len(repeated)] == repeated


def test_what_a_check_of_constants_asks_for_is_done_however_slow_the_call_is() -> None:
    rebound = perturb.Variation("rebound WIDTH", None, "rebound")
    assert not perturb.left_out(rebound, 60.0)
