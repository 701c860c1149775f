"""Real editors against the real server.  CONTRIBUTING.md says how to get them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FIXED

ROOT = Path(__file__).parents[2]
GBFIX = Path(sys.executable).with_name("gbfix")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_neovim_shows_the_break_and_applies_the_fix(program: Path) -> None:
    out = program.with_name("out.txt")
    environment = {
        **os.environ,
        "GBFIX_TEST_OUT": str(out),
        "GBFIX_TEST_CONFIG": str(ROOT / "editors" / "neovim" / "gbfix.lua"),
        "GBFIX_TEST_COMMAND": str(GBFIX),
        "XDG_STATE_HOME": str(program.parent / "state"),
        "XDG_CACHE_HOME": str(program.parent / "cache"),
    }
    script = Path(__file__).with_name("neovim.lua")
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {script}",
         program.name],
        cwd=program.parent, env=environment, capture_output=True, text=True, timeout=150,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = out.read_text().splitlines() if out.exists() else [done.stderr]
    assert said == [
        "diagnostic GB0170 9 7 4",
        "action Run the program, and fix GB0170 here if that validates",
        "ok",
    ]
    assert program.read_text() == FIXED


EXTENSION = ROOT / "editors" / "vscode"


@pytest.mark.skipif(
    not (EXTENSION / "node_modules").is_dir() or shutil.which("npm") is None,
    reason="`npm install` was not run in editors/vscode",
)
def test_the_extension_for_visual_studio_code_passes_its_own_tests() -> None:
    done = subprocess.run(
        ["npm", "test"], cwd=EXTENSION, capture_output=True, text=True, timeout=280,
        env={**os.environ, "GBFIX": str(GBFIX)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_editors_page_names_real_commands_and_settings() -> None:
    """What `editors/README.md` shows is what the server knows."""
    from gbfix.lsp.settings import _KEYS, Settings, read

    page = (ROOT / "editors" / "README.md").read_text()
    for key in _KEYS:
        if key not in ("trusted", "showsExplanations"):
            assert f"`{key}`" in page, key
    for command in ("gbfix.run", "gbfix.explain", "gbfix.undo"):
        assert f"`{command}" in page, command
    assert read({"run": "onSave"}, Settings())[0].runs_on_save
