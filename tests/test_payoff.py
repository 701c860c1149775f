"""What patches are worth: measured in turns, said plainly, and left out where they do not pay."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gbfix import loop, payoff
from gbfix.report import json as report_json
from gbfix.schema import Payoff, Report, Timing
from gbfix.worker.protocol import Outcome, Timed
from tests.planted import Planted

Gbfix = Callable[..., Report]
SCHEMA = json.loads((Path(report_json.__file__).parent / "report.schema.json").read_text())


def found(before: list[float], after: list[float]) -> Payoff:
    old, new = (Outcome([Timed("a", 1.0, tuple(times))]) for times in (before, after))
    return payoff.payoffs(old, new)["a"]


def test_pairs_count_and_not_the_two_medians() -> None:
    # The machine became half as fast on the way; in each pair the second is twice as fast.
    result = found([1.0, 1.0, 2.0, 2.0, 2.0], [0.5, 0.5, 1.0, 1.0, 1.0])
    assert result.speedup == 2.0 and result.spread == (2.0, 2.0) and result.pairs == 5
    assert payoff.is_faster(result) and not payoff.is_slower(result)


@pytest.mark.parametrize(
    ("after", "faster", "slower", "says"),
    [
        ([0.5] * 5, True, False, "is 2.00x as fast"),
        ([2.0] * 5, False, True, "is slower (0.50x as fast)"),
        ([1.0] * 5, False, False, "as fast as before (1.00x)"),
        ([0.99] * 5, False, False, "as fast as before (1.01x)"),
        # In the middle faster, but every second pair says otherwise.
        ([0.5, 2.0, 0.9, 2.0, 0.5], False, False, "as fast as before"),
    ],
)
def test_a_difference_has_to_be_larger_than_its_spread(
    after: list[float], faster: bool, slower: bool, says: str
) -> None:
    result = found([1.0] * 5, after)
    assert (payoff.is_faster(result), payoff.is_slower(result)) == (faster, slower)
    assert says in payoff.sentence("f", result)


def test_a_region_that_only_one_side_timed_is_not_compared() -> None:
    assert payoff.payoffs(Outcome([Timed("a", 0.0, (1.0,))]), Outcome([])) == {}
    both = Outcome([Timed("a", 0.0, ())]), Outcome([Timed("a", 0.0, (1.0,))])
    assert payoff.payoffs(*both) == {}


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.5e-5, "45 us"), (0.0, "0 us")]
)
def test_durations(seconds: float, text: str) -> None:
    assert payoff.duration(seconds) == text


def test_the_sentence_names_both_times() -> None:
    one = Timing(0.002, (0.001, 0.003), 3.0)
    text = payoff.sentence("f", Payoff(one, one, 1.0, (0.9, 1.1), 15))
    assert "2 ms -> 2 ms a call" in text and "compiling took 3 s -> 3 s" in text


def test_two_sides_take_turns(tmp_path: Path) -> None:
    from gbfix.worker.timing import Turns, measure

    order: list[tuple[int, str]] = []
    said: list[Timed] = []
    lock = threading.Lock()

    def side(number: int, keys: list[str]) -> None:
        turns = Turns(str(tmp_path), number, limit=20.0)
        for key in keys:

            def call(key: str = key) -> None:
                with lock:
                    order.append((number, key))

            measure(key, call, (), {}, turns, said.append)
        turns.leave()

    threads = [
        threading.Thread(target=side, args=(0, ["a", "only-here", "b"])),
        threading.Thread(target=side, args=(1, ["a", "b"])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(event.key for event in said if event.seconds) == ["a", "a", "b", "b"]
    blocks = [item for n, item in enumerate(order) if n == 0 or order[n - 1] != item]
    first = [side for side, key in blocks if key == "a"]
    assert first == [0, 1] * (len(first) // 2) and len(first) > 20


PROGRAM = """
import torch


@torch.compile(backend="aot_eager")
def f(x):
    if x.sum() > 0:
        x = x + 1
    else:
        x = x - 1
    return x * 2


@torch.compile(backend="aot_eager")
def whole(x):
    return x + 1


for k in range(2):
    f(torch.ones(3) - 2 * k)
    whole(torch.ones(3))
"""


def test_a_report_with_payoffs(gbfix_run: Gbfix) -> None:
    report = gbfix_run(PROGRAM, measure=True)
    jsonschema.validate(report_json.as_dict(report), SCHEMA)
    for region in report.regions:
        assert region.payoff is not None and region.payoff.pairs >= 3
        assert region.payoff.before.latency > 0 and region.payoff.after.compile_seconds > 0
    # The second call of the original takes the other branch: another graph.
    assert [(r.recompiles_before, r.recompiles_after) for r in report.regions] == [(1, 0), (0, 0)]


def test_nothing_is_measured_unasked(gbfix_run: Gbfix) -> None:
    assert all(region.payoff is None for region in gbfix_run(PROGRAM).regions)


SLOW = Planted(
    "    if x.sum() > 0:\n        x = x + 1\n    else:\n        x = x - 1\n    return x * 2",
    "    y = torch.ones(700, 700)\n    y = ((y @ y).sum() * 0).to(x.dtype)\n"
    "    return torch.where(x.sum() > 0, x + 1, x - 1) * 2 + y",
)


@pytest.mark.parametrize("only", [False, True])
def test_what_does_not_pay_is_left_out_where_that_is_wanted(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch, only: bool
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [SLOW])
    report = gbfix_run(PROGRAM, measure=True, only_if_faster=only)
    region = report.regions[0]
    assert region.payoff is not None and payoff.is_slower(region.payoff)
    assert bool(report.patches) is not only
    assert region.status == ("unfixed" if only else "fixed")
    assert ("left out" in region.note) is only
    assert [item.status for item in report.breaks] == ["unfixed" if only else "fixed"]


def test_a_program_that_writes_files_is_not_measured(gbfix_run: Gbfix, tmp_path: Path) -> None:
    text = PROGRAM + f"open({str(tmp_path / 'out')!r}, 'a').write('x')\n"
    report: Any = gbfix_run(text, measure=True)
    assert report.patches and report.regions[0].payoff is None
    assert "writes files" in report.regions[0].note


MOVED = """
import torch


def overflows(parts):
    for part in parts:
        s = float(part.sum())
        if s == float("inf") or s == -float("inf") or s != s:
            return True
    return False


@torch.compile(backend="aot_eager")
def f(parts):
    if overflows(parts):
        return parts
    return [part * 2 for part in parts]


for k in range(2):
    f([torch.ones(3), torch.ones(2) - k])
"""
#: A rewrite that mends one break, and puts a graph between the breaks that are left.
MOVES = Planted("        s = float(part.sum())", "        s = part.sum().double()")


def test_a_patch_that_only_moves_the_breaks_is_left_out(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [MOVES])
    report = gbfix_run(MOVED)
    (region,) = report.regions
    assert region.breaks_after == region.breaks_before
    assert region.graphs_after == region.graphs_before
    assert not report.patches and region.status == "unfixed"
    assert "only move the breaks" in region.note
