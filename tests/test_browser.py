"""The page of HTML in a real browser: what it looks like, by eye, by keyboard and by screen reader.

Skipped without a Chromium and `npm install` in tests/browser (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from test_screens import BEFORE, many

from gbfix.report import html as page

FOLDER = Path(__file__).parent / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or not (FOLDER / "node_modules").is_dir() or shutil.which("node") is None,
    reason="no Chromium here, or `npm install` was not run in tests/browser",
)

_GRAPH = {"light": (0x2F, 0x6F, 0xB5), "dark": (0x5A, 0x9B, 0xE6)}


@pytest.fixture
def few(tmp_path: Path) -> Path:
    return _page(tmp_path, 4)


def _page(folder: Path, regions: int) -> Path:
    script = folder / "model.py"
    script.write_text(BEFORE)
    path = folder / "report.html"
    path.write_text(page.render(many(script, regions), folder), encoding="utf-8")
    return path


def look(path: Path, **given: Any) -> dict[str, Any]:
    words = {"page": str(path), "chromium": CHROMIUM, "width": 1200, **given}
    done = subprocess.run(
        ["node", "look.mjs", json.dumps(words)], cwd=FOLDER, capture_output=True, text=True,
        timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (400, "light")])
def test_nothing_sticks_out_and_axe_has_nothing_to_say(width: int, scheme: str, few: Path) -> None:
    found = look(few, width=width, scheme=scheme)
    assert found["outside"] == [] and found["outsideOpened"] == []
    assert found["requests"] == [] and found["errors"] == []
    assert found["axe"]["violations"] == [] and found["axe"]["passes"] > 20


def test_the_keyboard_leads_from_the_gap_to_its_patch(few: Path) -> None:
    found = look(few, tabs=10)
    assert found["tabs"][0]["href"] == "#regions"
    assert all(one["ring"] and one["inView"] for one in found["tabs"])
    assert [one["text"] for one in found["tabs"][2:6]] == ["Block1", "Block2", "Encoder", "Block3"]
    target = found["opened"]["target"]
    assert found["opened"]["summary"] == {"tag": "summary", "parent": target[1:]}
    assert found["opened"]["open"] is True


def test_light_and_dark_have_the_same_layout(few: Path) -> None:
    assert look(few, scheme="light")["boxes"] == look(few, scheme="dark")["boxes"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_has_graphs_as_wide_as_their_operators(
    scheme: str, few: Path, tmp_path: Path
) -> None:
    """The strip is measured in the picture, without JavaScript."""
    picture = tmp_path / "page.png"
    boxes = look(few, scheme=scheme)["boxes"]
    look(few, scheme=scheme, javascript=False, picture=str(picture))
    rows = png(picture.read_bytes())
    strips = [box for box in boxes if box[0].startswith("ol.strip")]
    # Block1: 5 graphs before, one break left afterwards.
    before, after = strips[0], strips[1]
    assert abs(before[1] - after[1]) < 1 and abs(before[3] - after[3]) < 1
    for strip, graphs in ((before, [3, 8, 13, 18, 23]), (after, [14, 23])):
        row = rows[int(strip[2]) + 6]  # above the numbers
        widths = _runs(row[int(strip[1]) : int(strip[1] + strip[3])], _GRAPH[scheme])
        assert len(widths) == len(graphs)
        # Every operator has the same width, and one more is for the graph itself.
        each = [width / (graph + 1) for width, graph in zip(widths, graphs, strict=True)]
        wide = [one for one, width in zip(each, widths, strict=True) if width > 30]
        assert max(wide) - min(wide) < 1.5, (widths, graphs)


def test_two_hundred_breaks_are_a_page_that_opens_at_once(tmp_path: Path) -> None:
    path = _page(tmp_path, 80)
    found = look(path, whole=False)
    assert found["outside"] == [] and found["outsideOpened"] == []
    assert found["axe"]["violations"] == []
    assert sum(box[0] == "summary" for box in found["boxes"]) >= 200
    assert found["milliseconds"] < 10_000


def _runs(row: list[tuple[int, int, int]], colour: tuple[int, int, int]) -> list[int]:
    """Lengths of the pieces of a row that have a colour."""
    found, length = [], 0
    for pixel in [*row, None]:
        if pixel is not None and all(abs(a - b) < 6 for a, b in zip(pixel, colour, strict=True)):
            length += 1
        elif length:
            found.append(length)
            length = 0
    return [one for one in found if one > 4]


def png(data: bytes) -> list[list[tuple[int, int, int]]]:
    """The pixels of a picture as Chromium writes it: eight bits, not interlaced."""
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", data[16:29])
    assert depth == 8 and interlace == 0 and kind in (2, 6)
    size = 3 if kind == 2 else 4
    parts, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            parts.append(data[at + 8 : at + 8 + length])
        at += 12 + length
    raw = zlib.decompress(b"".join(parts))
    last = bytearray(width * size)
    rows = []
    for number in range(height):
        start = number * (width * size + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * size])
        _unfilter(raw[start], line, last, size)
        rows.append([tuple(line[x : x + 3]) for x in range(0, len(line), size)])
        last = line
    return rows


def _unfilter(how: int, line: bytearray, above: bytearray, size: int) -> None:
    for x in range(len(line)):
        left = line[x - size] if x >= size else 0
        corner = above[x - size] if x >= size else 0
        up = above[x]
        if how == 1:
            line[x] = (line[x] + left) & 255
        elif how == 2:
            line[x] = (line[x] + up) & 255
        elif how == 3:
            line[x] = (line[x] + (left + up) // 2) & 255
        elif how == 4:
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                       (abs(guess - corner), 2, corner))  # fmt: skip
            line[x] = (line[x] + near[2]) & 255
