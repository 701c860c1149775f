"""Sizes that the data decides: safe only where the cases 0 and 1 were compared, compiled."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import sympy

from gbfix import engine, ladder
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Safety, Target
from gbfix.worker.protocol import Compared, Outcome, SizesSeen
from gbfix.worker.sizes import _places_of

PROGRAM = """import torch


@torch.compile{options}
def f({names}):
    return {value}


print(f({given}))
"""
ROW = "torch.tensor([1.0, -2.0, 3.0])"


def run(folder: Path, runner: Runner, value: str, names: str, given: str, options: str) -> Report:
    text = PROGRAM.format(value=value, names=names, given=given, options=options)
    (folder / "program.py").write_text(text)
    target = Target("script", "program.py", cwd=str(folder))
    chosen = Options(use_cache=False, select=("region-option",), inductor=not options)
    return engine.run(target, chosen, runner=runner)


def test_a_selection_that_meets_no_other_size_is_safe(tmp_path: Path, runner: Runner) -> None:
    value = "torch.outer(x[x > 0], y).sum(1)"
    given = f"{ROW}, torch.ones(2)"
    report = run(tmp_path, runner, value, "x, y", given, '(backend="aot_eager")')
    (patch,) = report.patches
    assert patch.safety is Safety.SAFE
    rung = patch.verdict.rung("sizes")
    assert rung is not None and rung.detail == "compared where they are 0 and 1"


def test_a_size_that_is_taken_to_be_another_one_is_unsafe(tmp_path: Path, runner: Runner) -> None:
    # Both counts are the same on these inputs, and on all that are made of them together.
    value = "x[x > 0] * y[y > 0]"
    report = run(tmp_path, runner, value, "x, y", f"{ROW}, {ROW}", '(backend="aot_eager")')
    assert not report.patches


def test_what_is_cut_may_be_a_single_row_and_what_it_meets_may_not(
    tmp_path: Path, runner: Runner
) -> None:
    # Where `x` has one value, the original repeats it; where `n` says 1, the two agree.
    given = f"{ROW}, torch.tensor([2, 1])"
    value = "torch.ones(k := int(n.max())) * x[:k]"
    assert not run(tmp_path, runner, value, "x, n", given, '(backend="aot_eager")').patches


def test_a_mask_of_lengths_is_as_wide_as_the_longest() -> None:
    both = [compared(name, "none", "base") for name in ("eager", "aot_eager")]
    taken = SizesSeen("f", 0, {}, ("u0 == 7",), made={"u0 == 7": "/p.py:6"})
    rung, _ = ladder.decided_sizes(Outcome([*both, taken]), widths={"/p.py:6": "lengths"})
    assert not rung.caveats
    assert "If exactly one of `max(lengths)` and" in rung.limits[0]
    other = ladder.decided_sizes(Outcome([*both, taken]), widths={"/p.py:5": "lengths"})[0]
    assert other.caveats and not other.limits


def test_a_place_that_decides_twice_may_do_so_by_two_masks() -> None:
    one, two, other = sympy.symbols("u0 u1 u2")
    both = frozenset({one, two})
    assert _places_of(both, {one: "p.py:3", two: "p.py:4"}) == ("p.py:3", "p.py:4")
    assert not _places_of(both, {one: "p.py:3", two: "p.py:3"})
    assert not _places_of(both, {one: "p.py:3", two: "p.py:4", other: "p.py:4"})  # a loop
    assert not _places_of(both, {one: "p.py:3"})
    assert not _places_of(frozenset(), {one: "p.py:3"})


FIRST_CALL = """import torch


class Keeps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = None

    def forward(self, x, n):
        if self.rows is None:
            self.rows = [float(x.shape[0])]
        return torch.outer(x[n > 2], x) * self.rows[0]


print(torch.compile(Keeps())(torch.tensor([1.0, -1.0, 2.0, 3.0]), torch.arange(4)))
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
def test_inductor_sees_sizes_behind_calls_that_keep_something(
    tmp_path: Path, runner: Runner
) -> None:
    (tmp_path / "program.py").write_text(FIRST_CALL)
    target = Target("script", "program.py", cwd=str(tmp_path))
    chosen = Options(use_cache=False, select=("region-option",), inductor=True)
    (patch,) = engine.run(target, chosen, runner=runner).patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats


@pytest.mark.parametrize(
    "value",
    [
        # The operator checks in eager, too, that the parts make up the whole.
        "torch.stack([part.sum() for part in x.split(n.tolist())])",
        # There are as few as one value only where all are alike, and never none.
        "torch.unique(n) * x.sum()",
    ],
)
def test_sizes_of_parts_and_of_unique_values_are_shown(
    value: str, tmp_path: Path, runner: Runner
) -> None:
    given = "torch.arange(6.0), torch.tensor([1, 2, 3])"
    report = run(tmp_path, runner, value, "x, n", given, '(backend="aot_eager")')
    (patch,) = report.patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
@pytest.mark.parametrize(
    "value, safe",
    [
        ("torch.outer({picked}, y).sum(0)", True),
        ("({picked}).max() + y.sum()", False),  # of none, eager raises and inductor gives -inf
        ("{picked} + torch.ones(3)", False),  # one broadcasts
        # What none does here is hidden by an error that both raise.
        ("torch.cat([{picked}, y]).view(5)", False),
    ],
)
def test_a_selection_that_no_input_makes_empty_is_made_so(
    value: str, safe: bool, tmp_path: Path, runner: Runner
) -> None:
    value = value.format(picked="x[(n * 0 + n % 2) < 5]")
    given = f"{ROW}, torch.ones(2), torch.arange(3)"
    report = run(tmp_path, runner, value, "x, y, n", given, "")
    assert [patch.safety for patch in report.patches] == [Safety.SAFE] * safe


def test_parts_that_are_joined_again_may_broadcast(tmp_path: Path, runner: Runner) -> None:
    value = "torch.cat([x[x > 0], y[y > 0]]) * z"
    given = f"{ROW}, {ROW}, torch.ones(4)"
    report = run(tmp_path, runner, value, "x, y, z", given, '(backend="aot_eager")')
    assert not report.patches


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
@pytest.mark.parametrize(
    "value, difference",
    [
        ("x[x > 0].squeeze() * 2", "shape () became (1,)"),  # only where one is left
        ("x[x > 0].max()", "does not raise"),  # only where none is left: inductor gives -inf
    ],
)
def test_what_inductor_does_with_few_is_no_fault_of_a_program_that_breaks(
    value: str, difference: str, tmp_path: Path, runner: Runner
) -> None:
    report = run(tmp_path, runner, value, "x", ROW, "")
    assert not report.patches
    (tried,) = report.breaks[0].attempts
    assert difference in tried.reason


def seen(by_size: dict[int, set[str]], equal: tuple[str, ...] = ()) -> SizesSeen:
    return SizesSeen(
        "f", 0, {"/p.py:7": {size: frozenset(labels) for size, labels in by_size.items()}}, equal
    )


def compared(backend: str, *labels: str) -> Compared:
    return Compared("f", 0, f"fullgraph-{backend}", labels=frozenset(labels))


def test_a_case_counts_only_where_all_backends_compared_it() -> None:
    backends = [compared("eager", "base", "zeros", "ones"), compared("aot_eager", "base", "zeros")]
    rung, also = ladder.decided_sizes(Outcome([*backends, seen({0: {"zeros"}, 1: {"ones"}})]))
    assert rung.passed and len(rung.caveats) == 1
    assert "is 1 on line 7 of p.py" in rung.caveats[0]
    assert also == {"zeros"}


def test_each_case_sends_one_input_on_to_slower_backends() -> None:
    both = [compared(name, "grad-zeros", "zeros", "ones") for name in ("eager", "aot_eager")]
    rung, also = ladder.decided_sizes(
        Outcome([*both, seen({0: {"grad-zeros", "zeros"}, 1: {"ones"}})])
    )
    assert not rung.caveats
    assert also == {"zeros", "ones"}


def test_what_ends_in_an_error_shows_no_size_to_the_end() -> None:
    both = [compared(name, "negated", "zeros", "ones") for name in ("eager", "aot_eager")]
    sizes = seen({0: {"negated"}, 1: {"negated", "ones"}})
    plain = Outcome([*both, dataclasses.replace(sizes, raised=frozenset({"negated"}))])
    rung, also = ladder.decided_sizes(plain)
    assert len(rung.caveats) == 1 and "is 0 on line 7" in rung.caveats[0]
    assert also == {"negated", "ones"}  # slower backends may do something else there
    forced = Outcome([*both, seen({0: {"zeros"}})])
    assert not ladder.decided_sizes(plain, [forced])[0].caveats
    assert ladder.decided_sizes(plain, [plain])[0].caveats


def test_sizes_that_equal_each_other_are_not_proved() -> None:
    sizes = seen({0: {"zeros"}, 1: {"ones"}}, ("Eq(u0, u1)",))
    rung, _ = ladder.decided_sizes(Outcome([compared("eager", "zeros", "ones"), sizes]))
    assert rung.passed and "broadcasts as 1" in rung.caveats[0]


def test_without_a_graph_no_size_is_proved() -> None:
    rung, _ = ladder.decided_sizes(Outcome([]))
    assert rung.passed and "not one graph yet" in rung.caveats[0]
