"""What a report is still worth while its files are edited, and fixes on top of the edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from gbfix.lsp.measured import Measured, Results, State
from gbfix.patch import ConflictError
from gbfix.schema import Target

from .conftest import BREAKING, FIXED, report_on


@pytest.fixture
def measured(program: Path) -> Measured:
    target = Target("script", program.name, cwd=str(program.parent))
    return Measured.of(target, report_on(program))


def text_of(program: Path, text: str) -> Callable[[str], str | None]:
    return lambda path: text if path == str(program) else None


ABOVE = BREAKING.replace("import torch\n", "import torch\n\nSIZE = 3\n")
BELOW = BREAKING + "print('more')\n"
OTHER = BREAKING.replace("def before(x):\n    return x", "def before(x):\n    y = x\n    return y")
BETWEEN = BREAKING.replace("\n\n@torch.compile", "\n# speed\n\n@torch.compile")
INSIDE = BREAKING.replace("x.sum() > 0", "x.sum() > 1")
ARM = BREAKING.replace("return x + 1", "return x + 2")
ADDED = BREAKING.replace("    if x.sum", "    x = x + 1\n    if x.sum")
DECORATED = BREAKING.replace("@torch.compile", "@torch.compile(dynamic=True)")
REMOVED = BREAKING.replace("    return x - 1\n", "")


@pytest.mark.parametrize(
    ("now", "state", "line"),
    [
        (BREAKING, State.EXACT, 10),
        (ABOVE, State.MOVED, 12),
        (BELOW, State.MOVED, 10),
        (OTHER, State.MOVED, 11),
        (BETWEEN, State.MOVED, 11),
        (INSIDE, State.STALE, None),
        (ARM, State.STALE, 10),
        (ADDED, State.STALE, 11),
        (DECORATED, State.STALE, 10),
        (REMOVED, State.STALE, 10),
    ],
)
def test_a_break_moves_with_its_function_and_goes_stale_when_that_is_edited(
    measured: Measured, program: Path, now: str, state: State, line: int | None
) -> None:
    current = text_of(program, now)
    assert measured.state(str(program), 10, current) is state
    assert measured.line_now(str(program), 10, current) == line
    if line is not None:
        assert measured.line_then(str(program), line, current) == 10


def test_a_file_that_is_gone_makes_its_results_stale(measured: Measured, program: Path) -> None:
    assert measured.state(str(program), 10, lambda path: None) is State.STALE


def test_an_edit_of_another_file_of_the_run_takes_the_validation_away(
    program: Path,
) -> None:
    other = program.with_name("helpers.py")
    other.write_text("A = 1\n")
    report = report_on(program)
    report.files = (str(program), str(other))
    measured = Measured.of(Target("script", program.name), report)
    texts = {str(program): BREAKING, str(other): "A = 1\n"}
    assert measured.state(str(program), 10, texts.get) is State.EXACT
    texts[str(other)] = "A = 2\n"
    assert measured.state(str(program), 10, texts.get) is State.MOVED


def test_a_file_written_during_the_run_counts_as_edited(program: Path) -> None:
    report = report_on(program)
    report.patches = []
    measured = Measured.of(Target("script", program.name), report, started_ns=1)
    assert measured.state(str(program), 10, text_of(program, BREAKING)) is State.STALE


@pytest.mark.parametrize("now", [BREAKING, ABOVE, BELOW, OTHER])
def test_a_fix_is_merged_with_edits_elsewhere(measured: Measured, program: Path, now: str) -> None:
    ((before, after),) = measured.merged(measured.texts_after(0), text_of(program, now)).values()
    assert before == now
    assert "torch.where" in after and "if x.sum()" not in after
    assert len(after.splitlines()) == len(now.splitlines()) - 2


@pytest.mark.parametrize("now", [INSIDE, ARM, FIXED.replace("x + 1", "x + 2")])
def test_a_fix_that_meets_an_edit_is_refused(measured: Measured, program: Path, now: str) -> None:
    with pytest.raises(ConflictError):
        measured.merged(measured.texts_after(0), text_of(program, now))


def test_a_fix_that_was_made_already_changes_nothing(measured: Measured, program: Path) -> None:
    assert measured.merged(measured.texts_after(0), text_of(program, FIXED)) == {}


@pytest.mark.parametrize(("now", "applied"), [(FIXED, 1), (BREAKING, 0), (FIXED + "x = 1\n", 0)])
def test_a_break_is_gone_while_the_validated_text_stands(
    measured: Measured, program: Path, now: str, applied: int
) -> None:
    found = measured.report.breaks[0]
    assert measured.applied(text_of(program, now)) == applied
    assert measured.is_gone(found, applied) is bool(applied)
    unfixed = dataclasses.replace(found, status="unfixed", step=None)
    assert not measured.is_gone(unfixed, applied)


def test_steps_build_on_each_other(measured: Measured, program: Path) -> None:
    first = measured.report.steps[0]
    second = dataclasses.replace(first, edits={str(program): FIXED + "# two\n", "b.py": "b\n"})
    measured.report.steps.append(second)
    assert measured.texts_after(0) == {str(program): FIXED}
    assert measured.texts_after(1) == {str(program): FIXED + "# two\n", "b.py": "b\n"}


def test_the_newest_report_of_a_target_replaces_the_older(program: Path) -> None:
    results = Results()
    one, other = Target("script", "a.py"), Target("script", "b.py")
    for target in (one, other, one):
        results.add(Measured.of(target, report_on(program)))
    assert [item.target for item in results.about(str(program))] == [one, other]
