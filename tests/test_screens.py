"""What a person sees: the terminal at several widths and in a pipe, and the page of HTML.

``UPDATE_SCREENS=1 pytest tests/test_screens.py`` writes the expected screens anew: look at them.
"""

from __future__ import annotations

import dataclasses
import html.parser
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import reports

from gbfix.patch import diff_bytes, unified_diff
from gbfix.report import html as page
from gbfix.report import verdicts
from gbfix.report.console import ConsoleReport
from gbfix.report.summary import Mode
from gbfix.schema import (
    Attempt,
    BreakReport,
    ErrorReport,
    Frame,
    GraphBreak,
    Patch,
    Payoff,
    Region,
    Report,
    Rung,
    Safety,
    Step,
    Timing,
    Verdict,
)
from gbfix.verification import RegionVerdict, Verification, Witness

SCREENS = Path(__file__).parent / "screens"

BEFORE = """\
import torch


class Block(torch.nn.Module):
    def forward(self, x, mask=None):
        h = self.norm(x)
        if h.abs().max() > 10:
            h = h.clamp(-10, 10)
        print("scale", h.std().item())
        if mask is not None and mask.any():
            h = h.masked_fill(mask, 0.0)
        return h
"""
AFTER = BEFORE.replace(
    "        if h.abs().max() > 10:\n            h = h.clamp(-10, 10)\n",
    "        h = torch.where(h.abs().max() > 10, h.clamp(-10, 10), h)\n",
)
VERDICT = Verdict(
    (
        Rung("source", True),
        Rung("outputs", True, "41 comparisons"),
        Rung("gradients", True),
        Rung("effects", True),
        Rung("eager", True, "fullgraph=True, 23 comparisons"),
        Rung("aot_eager", True, "fullgraph=True, 23 comparisons", (), ("For uint8 inputs, the "
             "patch raises an error (RuntimeError).",)),
        Rung("inductor", None, "was not begun"),
        Rung("program", True, "runs with the user's own compile options"),
        Rung("branches", True, "2 of 2 ran"),
    ),
    (2, 2),
    22,
)  # fmt: skip
_PLACES = (
    ("GB0170", "Data-dependent branching", 7, 11),
    ("GB0149", "Failed to trace builtin operator", 9, 8),
    ("data-dependent-guard", "Data-dependent guard", 10, 32),
)


#: What torch says of values that differ.
_APART = (
    "Mismatched elements: 3 / 12 (25.0%); Greatest absolute difference: 1.2000000476837158 at "
    "index (0, 1) (up to 1e-05 allowed)"
)


def _break(path: Path, number: int, region: str, status: str) -> BreakReport:
    code, title, line, column = _PLACES[number % 3]
    frame = Frame(str(path), line, "Block.forward", column, line, column + 12)
    why = "Detected data-dependent branching. Dynamo does not trace dynamic control flow."
    hint = ("Use `torch.cond` to express dynamic control flow.",)
    cause = GraphBreak(code, title, why, "", hint, (frame,), f"{path}::{region}", frame)
    rejected = f"outputs: output: values differ ({_APART}) (inputs: negated)"
    tried = (
        Attempt("if-to-cond", "branch with torch.cond", False, rejected),
        Attempt("if-to-where", "select with torch.where", True),
    )
    fixed = status == "fixed"
    return BreakReport(
        cause,
        status,
        "if-to-where" if fixed else None,
        () if fixed else ("Return the value, and print it in the caller.",),
        tried if fixed else tried[:1],
        "https://example.org/gb" if code.startswith("GB") else "",
        step=0 if fixed else None,
    )


def many(path: Path, regions: int) -> Report:
    """Regions of all sorts, with about three breaks each."""
    report = Report("train.py --epochs 1", "2.13.0", "0.1.0")
    left = {"fixed": 0, "partial": 1, "unfixed": 4, "clean": 0}
    for number in range(regions):
        status = ("fixed", "partial", "unfixed", "clean")[number % 4]
        total = {"fixed": 2, "partial": 4, "unfixed": 4, "clean": 0}[status]
        region = Region(
            "Encoder" if not number else f"Block{number}", str(path), 5, status=status,
            breaks_before=total, breaks_after=left[status],
            graphs_before=total + 1, graphs_after=left[status] + 1,
            sizes_before=tuple((5 * k * number + 3) % 41 for k in range(total + 1)),
            sizes_after=tuple((9 * k + 14) % 53 for k in range(left[status] + 1)),
        )  # fmt: skip
        report.regions.append(region)
        report.breaks += [
            _break(path, k, region.name, "unfixed" if k < left[status] else "fixed")
            for k in range(total)
        ]
    report.regions[0].payoff = Payoff(
        Timing(0.0123, (0.0119, 0.0131), 8.2), Timing(0.0081, (0.0079, 0.0084), 6.9),
        1.52, (1.45, 1.58), 20,
    )  # fmt: skip
    edits = {str(path): AFTER}
    report.steps = [
        Step("if-to-where", "select with torch.where", "GB0170", edits, Safety.SAFE, VERDICT)
    ]
    report.patches = [
        Patch(
            str(path), unified_diff(BEFORE, AFTER, path.name), BEFORE, AFTER, ("if-to-where",),
            ("GB0170",), Safety.SAFE, VERDICT, ("select with torch.where",), ("Both arms run.",),
        )
    ]  # fmt: skip
    without = AFTER.replace('        print("scale", h.std().item())\n', "")
    reasons = ("stdout differs: 'scale 1.0' became nothing (inputs: base)", "and so do the logs")
    unsafe = Verdict((Rung("effects", True, "", reasons),))
    report.unsafe_patches = [
        Patch(
            str(path), "", AFTER, without, ("print-drop",), ("GB0149",), Safety.UNSAFE, unsafe,
            ("leave the print out",),
        )
    ]  # fmt: skip
    report.errors = [ErrorReport("nondeterministic", "two runs differ", str(path), 5, fatal=False)]
    return report


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(BEFORE)
    return path


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [60, 80, 120, 200, 0])
def test_the_screen_is_as_it_was_looked_at(
    width: int, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``0`` is a pipe; terminals are without colour here."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width or 80))
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal() if width else io.StringIO()
    report = many(script, 4)
    console = ConsoleReport(
        Mode.DIFF, out=stream, err=stream, raw_diff=lambda one: diff_bytes(one, script.parent),
        cwd=script.parent,
    )  # fmt: skip
    console.show(report)
    console.finish(report)
    shown = _as_looked_at(stream, f"{width or 'pipe'}.txt")
    for line in shown.split("\n"):
        # Diffs, verdicts and what is to be copied are never cut; prose is never wider.
        if line.startswith(("  why:", "  advice:", "  because:", "  tried:")):
            assert len(line) <= max(min(width or 100, 100), 40), line
        if width and line.startswith(("Found ", "Encoder is ", "warning: ")):
            assert len(line) <= width, line


def _as_looked_at(stream: io.StringIO, name: str) -> str:
    """What was written, without colours; it is what the expected screen has."""
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    shown = "\n".join(line.rstrip() for line in shown.split("\n"))
    expected = SCREENS / name
    if os.environ.get("UPDATE_SCREENS"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")
    return shown


def _judged(script: Path) -> Verification:
    """A change that is right here, unsafe there and wrong in the third region."""
    witness = Witness("norm", 1, "negated", "outputs", f"output: values differ ({_APART})")
    reasons = (
        f"output: values differ ({_APART}) (inputs: negated)",
        f"inputs.0: values differ ({_APART.replace('3 /', '1 /')}) (inputs: zeros)",
    )
    caveat = "stdout differs: 'scale 1.0' became nothing (inputs: base)"
    parts = [
        RegionVerdict("a", "Encoder.forward", str(script), 5, "safe", verdict=VERDICT,
                      breaks_before=2, breaks_after=0, graphs_before=3, graphs_after=1),
        RegionVerdict("b", "Decoder.forward_with_a_cache", str(script), 5, "unsafe", (caveat,),
                      verdict=VERDICT, breaks_before=1, breaks_after=0, graphs_before=2,
                      graphs_after=1, was=f"{script}::Decoder.forward"),
        RegionVerdict("c", "norm", str(script), 9, "wrong", reasons, verdict=VERDICT,
                      breaks_before=0, breaks_after=0, graphs_before=1, graphs_after=1,
                      witness=witness),
    ]  # fmt: skip
    limits = ["config.yaml changed, too: both versions read it as it is now."]
    files = (("model.py", "changed"),)
    found = Verification("train.py", "HEAD", files, "2.13.0", "0.1.0", parts, None, limits)
    found.counterexample, found.reproduced = str(script.parent / "shown"), True
    return found


@pytest.mark.parametrize("width", [60, 120, 0])
def test_the_verdict_is_as_it_was_looked_at(
    width: int, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width or 80))
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal() if width else io.StringIO()
    verdicts.show(_judged(script), stream, script.parent, verbose=0, quiet=False)
    shown = _as_looked_at(stream, f"verify-{width or 'pipe'}.txt")
    assert not width or max(map(len, shown.split("\n"))) <= width
    assert "on the program's inputs, negated" in " ".join(shown.split())


# -- HTML ------------------------------------------------------------------------------------------


class _Page(html.parser.HTMLParser):
    """Ids, links, tags and text of a page; complains about tags that do not match."""

    _ALONE = frozenset({"meta", "br", "link", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"] or "")
        if "href" in given:
            self.links.append(given["href"] or "")
        assert "src" not in given and not any(name.startswith("on") for name in given)
        if tag not in self._ALONE:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_stands_alone_and_all_its_links_lead_somewhere(script: Path) -> None:
    text = page.render(many(script, 4), script.parent)
    found = _Page(text)
    assert len(found.ids) == len(set(found.ids))
    inside = [link[1:] for link in found.links if link.startswith("#")]
    assert inside and set(inside) <= set(found.ids)
    assert not {"script", "img", "link", "iframe"} & set(found.tags)
    assert all(link.startswith(("#", "https://example.org/")) for link in found.links)
    assert "@import" not in text and "url(" not in text
    words = " ".join(" ".join(found.text).split())
    assert "5 of 10 graph breaks can be fixed; 2 of 4 regions are one graph then." in words
    assert "For uint8 inputs, the patch raises an error" in words
    assert "on the program's inputs, negated" in words
    assert "1.52 times as fast (middle half 1.45 to 1.58)" in words
    assert "torch.where(h.abs().max() > 10, h.clamp(-10, 10), h)" in words


def test_text_of_the_program_is_text_on_the_page(script: Path) -> None:
    report = reports.fixed(script)
    report.breaks[0].graph_break = dataclasses.replace(
        report.breaks[0].graph_break, explanation="<script>alert(1)</script>"
    )
    text = page.render(report, script.parent)
    assert "<script" not in text and "&lt;script&gt;" in text


def test_sixty_regions_and_two_hundred_breaks_make_a_page_of_reasonable_size(script: Path) -> None:
    report = many(script, 80)
    assert len(report.breaks) == 200
    text = page.render(report, script.parent)
    assert len(text) < 1_500_000
    _Page(text)


def test_every_kind_of_report_has_a_page(script: Path) -> None:
    for make in (reports.fixed, reports.unfixed, reports.clean, reports.failed):
        for mode in Mode:
            _Page(page.render(make(script), script.parent, mode))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_text_stands_out_in_light_and_in_dark(theme: int) -> None:
    """WCAG 2.1, AA: 4.5 for text, 3 for what is drawn."""
    style = (Path(page.__file__).parent / "report.html.jinja").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))

    def contrast(one: str, other: str) -> float:
        high, low = sorted((_luminance(colours[one]), _luminance(colours[other])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for text in ("text", "soft", "link", "gap"):
        for ground in ("page", "card"):
            assert contrast(text, ground) >= 4.5, (text, ground)
    for kind in ("good", "bad", "warn"):
        assert contrast(kind, f"{kind}-bg") >= 4.5, kind
    for ground in ("old", "new", "mark"):
        assert contrast("text", ground) >= 4.5, ground
    assert contrast("graph", "card") >= 3
    assert contrast("on-graph", "graph") >= 4.5


_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.slow
@pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_fits_its_window(width: int, script: Path, tmp_path: Path) -> None:
    """In a real browser nothing sticks out: the page as printed text has all regions."""
    assert _CHROMIUM is not None
    path = tmp_path / "report.html"
    path.write_text(page.render(many(script, 4), script.parent), encoding="utf-8")
    picture = tmp_path / "page.png"
    words = [_CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={width},1200", f"--screenshot={picture}", path.as_uri()]  # fmt: skip
    subprocess.run(words, capture_output=True, timeout=120, check=True)
    assert picture.stat().st_size > 10_000
