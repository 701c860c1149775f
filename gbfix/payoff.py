"""What patches are worth: latencies and compile times before and after, in pairs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gbfix.schema import Payoff, Region, Timing
from gbfix.worker.protocol import Outcome, Timed

#: Ratios closer to one than this are no difference, however narrow their spread.
NOTHING = 0.02


def payoffs(before: Outcome, after: Outcome) -> dict[str, Payoff]:
    """By region, where both sides were timed."""
    old = {event.key: event for event in before.of(Timed)}
    new = {event.key: event for event in after.of(Timed)}
    return {
        key: _payoff(old[key], new[key])
        for key in old
        if key in new and old[key].seconds and new[key].seconds
    }


def _payoff(old: Timed, new: Timed) -> Payoff:
    pairs = list(zip(old.seconds, new.seconds, strict=False))
    ratios = sorted(one / max(other, 1e-12) for one, other in pairs)
    return Payoff(
        _timing(old),
        _timing(new),
        statistics.median(ratios),
        (_quantile(ratios, 0.25), _quantile(ratios, 0.75)),
        len(pairs),
    )


def _timing(timed: Timed) -> Timing:
    values = sorted(timed.seconds)
    spread = (_quantile(values, 0.25), _quantile(values, 0.75))
    return Timing(statistics.median(values), spread, timed.compile_seconds)


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[round((len(ordered) - 1) * part)]


def is_slower(found: Payoff) -> bool:
    """Whether the patched region is measurably slower."""
    return found.speedup < 1 - NOTHING and found.spread[1] < 1


def is_faster(found: Payoff) -> bool:
    """Whether the patched region is measurably faster."""
    return found.speedup > 1 + NOTHING and found.spread[0] > 1


def not_worth_it(regions: Mapping[str, Region]) -> list[str]:
    """The keys of regions that were timed and did not become faster."""
    return [
        key
        for key, region in regions.items()
        if region.payoff is not None and not is_faster(region.payoff)
    ]


def sentence(name: str, found: Payoff) -> str:
    """One line for a reader."""
    low, high = found.spread
    if is_faster(found):
        verdict = f"{found.speedup:.2f}x as fast"
    elif is_slower(found):
        verdict = f"slower ({found.speedup:.2f}x as fast)"
    else:
        verdict = f"as fast as before ({found.speedup:.2f}x)"
    return (
        f"{name} is {verdict}: {duration(found.before.latency)} -> {duration(found.after.latency)} "
        f"a call, middle half of {found.pairs} pairs {low:.2f} to {high:.2f}; compiling took "
        f"{duration(found.before.compile_seconds)} -> {duration(found.after.compile_seconds)}"
    )


def duration(seconds: float) -> str:
    """Seconds as one reads them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
