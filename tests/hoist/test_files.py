"""Programs that write to files which are there already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gbfix.schema import Report

PROGRAM = """
import torch


@torch.compile(backend="aot_eager")
def f(x):
    y = x * 2
    with open("log.txt", "a") as log:
        log.write("called\\n")
    return y + 1


for _ in range(2):
    f(torch.ones(3))
"""


def test_what_is_done_with_an_open_file_stays_whole(
    gbfix_run: Callable[..., Report], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("old\n")
    report = gbfix_run(PROGRAM)
    assert [item.status for item in report.breaks] == ["fixed", "fixed"]
    (patch,) = report.patches
    assert patch.safety.value == "safe"
    # All of it moves into one operator, and the region is one graph.
    assert [region.status for region in report.regions] == ["fixed"]
    assert '    with open("log.txt", "a") as log:\n        log.write("called\\n")\n' in patch.after
    assert "    y = x * 2\n    write_f(" in patch.after
    # The copies that keep the user's files are no effects of the program, and these are kept.
    assert log.read_text() == "old\n"
