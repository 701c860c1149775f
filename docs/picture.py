"""Draws docs/pictures/first-fix.svg: what the README's first command prints, in a terminal.

    python docs/picture.py

The command is run for real; `tests/test_guides.py` holds the picture to what it prints.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pictures" / "first-fix.svg"
PROGRAM = "corpus/GB0170/docs-cond/before.py"
WIDTH = 100
#: Colours that stand out from their ground (4.5 to 1 and more), the bright ones as the plain ones.
_COLOURS = [
    (88, 96, 105), (255, 139, 130), (127, 216, 160), (240, 196, 106),
    (125, 180, 255), (214, 160, 255), (110, 205, 220), (220, 224, 230),
]  # fmt: skip
THEME = TerminalTheme(
    (20, 23, 28), (231, 234, 239), _COLOURS, [(150, 158, 168), *_COLOURS[1:]]
)  # fmt: skip


def printed() -> str:
    """All that the command writes to a terminal, its colours included."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    words = [sys.executable, "-m", "gbfix", "--no-cache", "--diff", PROGRAM]
    process = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower
    )
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    process.wait()
    os.close(leader)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    # The line of progress was overwritten: what stays is what comes after it.
    return text.rpartition("\r\x1b[K")[2].lstrip("\n")


def draw(text: str) -> str:
    """The picture; it names no font of the network."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), soft_wrap=True)
    svg = console.export_svg(title=f"gbfix --diff {PROGRAM}", theme=THEME, unique_id="first-fix")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(printed()), encoding="utf-8")
