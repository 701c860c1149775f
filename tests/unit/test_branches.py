"""What a forced side of a condition says of sizes that the program itself does not take."""

from __future__ import annotations

from gbfix.branches import without_sizes_that_clash
from gbfix.evidence import Finding, Kind, Part
from gbfix.worker.protocol import Compared, Outcome


def left(label: str, kind: Kind, refused: frozenset[str]) -> int:
    """How many findings of a forced run stay, where the original refused these sizes."""
    finding = Finding(kind, Part.EXCEPTION, label=label, variation="shape")
    forced = Outcome([Compared("a.py::f", 0, "eager", (finding,))])
    plain = Outcome(
        [
            Compared("a.py::f", 0, "eager", refused=refused),
            Compared("a.py::f", 0, "aot_eager"),
            Compared("a.py::f", 1, "eager", refused=frozenset({label})),
        ]
    )
    (event,) = without_sizes_that_clash(forced, plain).of(Compared)
    return len(event.findings)


def test_an_error_for_sizes_that_the_original_refuses_says_nothing_of_a_side() -> None:
    assert left("wider", Kind.RAISES, frozenset({"wider"})) == 0


def test_sizes_that_the_original_takes_are_compared() -> None:
    assert left("wider", Kind.RAISES, frozenset({"grown"})) == 1
    assert left("wider", Kind.RAISES, frozenset()) == 1


def test_a_batch_of_one_fits_everywhere() -> None:
    assert left("single", Kind.RAISES, frozenset({"single"})) == 1


def test_other_values_are_never_excused() -> None:
    assert left("wider", Kind.VALUE, frozenset({"wider"})) == 1
    assert left("wider", Kind.DOES_NOT_RAISE, frozenset({"wider"})) == 1
