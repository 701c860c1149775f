"""`--format markdown`: the text of a pull request."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import reports

from gbfix.report import markdown
from gbfix.schema import Payoff, Timing


def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(reports.BEFORE)
    return path


def test_a_fix_reads_as_a_pull_request(tmp_path: Path) -> None:
    text = markdown.render(reports.fixed(source(tmp_path)), tmp_path)
    assert text.startswith("## Fix a graph break of `torch.compile` in `f`\n")
    assert "| `f` | 2 → 1 | 1 → 0 | fixed |" in text
    assert "### `model.py`" in text
    assert "**Break:** [GB0170](https://x/gb) Data-dependent branching, line 5." in text
    assert "```diff\n--- a/model.py\n+++ b/model.py\n" in text
    assert "the backend `eager`, it is one graph and gives the same. | passed | 2 calls |" in text
    assert "| Gradients are the same. | not run | no backward reached them |" in text
    assert "| Further inputs, made from the recorded ones. | compared | 12 |" in text
    assert "**Limits**\n\n- outside a compiled region torch.cond costs" in text
    assert text.endswith("Found and checked by gbfix 0.1.0, torch 2.13.0, by running `model.py`.\n")


def test_what_stays_is_listed_with_what_to_do(tmp_path: Path) -> None:
    text = markdown.render(reports.unfixed(source(tmp_path)), tmp_path)
    assert text.startswith("## No patch for graph breaks\n")
    assert "| GB0170 | `model.py:5` | Data-dependent branching | Use torch.cond by hand. |" in text
    assert "### Held back as unsafe" in text and "one branch was never run" in text


def test_cost_before_and_after(tmp_path: Path) -> None:
    report = reports.fixed(source(tmp_path))
    before, after = Timing(0.002, (0.0019, 0.0021), 3.0), Timing(0.001, (0.0009, 0.0011), 2.0)
    report.regions[0].payoff = Payoff(before, after, 2.0, (1.9, 2.1), 20)
    text = markdown.render(report, tmp_path)
    assert "| `f` before | 2.000 ms | 1.900 to 2.100 ms | 3.0 s |" in text
    assert "| `f` after | 1.000 ms |" in text and "f is 2.00x as fast" in text


def test_failures_and_clean_programs(tmp_path: Path) -> None:
    path = source(tmp_path)
    text = markdown.render(reports.failed(path), tmp_path)
    assert "### Notes of the run\n\n- `model.py:7`: fails without torch.compile too" in text
    assert markdown.render(reports.clean(path), tmp_path).startswith("## No graph breaks\n")


def test_text_of_the_program_cannot_become_markup(tmp_path: Path) -> None:
    report = reports.fixed(source(tmp_path))
    found = report.breaks[0]
    cause = dataclasses.replace(found.graph_break, explanation="<img src=x> @someone #12 a|b")
    found.graph_break = cause
    report.patches[0].diff = "--- a/model.py\n+++ b/model.py\n+```\n"
    text = markdown.render(report, tmp_path)
    assert "<img" not in text and "@someone" not in text and "#12" not in text
    assert "````diff\n" in text
