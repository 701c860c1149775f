"""Real editors against the real server.  CONTRIBUTING.md says how to get them."""

from __future__ import annotations

import json
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


BROWSER = ROOT / "tests" / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENS = ROOT / "editors" / "screens"
_NET = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 3)

    @torch.compile
    def forward(self, x):
        h = self.lin(x)
        if h.sum() > 0:
            h = h * 2
        else:
            h = h - 1
        return h


net = Net()
for step in range(2):
    print(net(torch.randn(8, 4)).shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("CODE_SERVER")
    or CHROMIUM is None
    or not (BROWSER / "node_modules").is_dir(),
    reason="CODE_SERVER names no code-server, or there is no Chromium for it",
)
def test_the_packed_extension_works_in_a_real_editor(tmp_path: Path) -> None:
    """Installed, opened, run, fixed, judged.  With UPDATE_SCREENS its pictures are kept."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "model.py").write_text(_NET)
    git = ["git", "-C", str(project), "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    packed = tmp_path / "gbfix.vsix"
    subprocess.run(
        ["npm", "run", "package", "--", "--out", str(packed)],
        cwd=EXTENSION, capture_output=True, timeout=200, check=True,
    )  # fmt: skip
    pictures = SCREENS if os.environ.get("UPDATE_SCREENS") else tmp_path / "pictures"
    pictures.mkdir(exist_ok=True)
    given = {
        "server": os.environ["CODE_SERVER"], "chromium": CHROMIUM, "vsix": str(packed),
        "folder": str(project), "file": str(project / "model.py"), "python": sys.executable,
        "state": str(tmp_path / "state"), "pictures": str(pictures),
        "line": 12, "fix": "torch.where", "fixed": "torch.where", "wrong": ["h - 1", "h - 2"],
    }  # fmt: skip
    done = subprocess.run(
        ["node", "editor.mjs", json.dumps(given)], cwd=BROWSER, capture_output=True, text=True,
        timeout=900, env={**os.environ, "GBFIX_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    seen = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    assert "error" not in seen, seen
    assert seen["lens before"] == "1 likely graph break · run and validate"
    assert seen["lens after"] == "1 graph break, 1 fixable · run and validate"
    assert seen["problem"].startswith("Data-dependent branching")
    assert seen["actions"] == [
        "Quick Fix", "Select with torch.where instead of branching [safe]", "Explain GB0170",
        "Ignore GB0170 on this line",
    ]  # fmt: skip
    assert seen["lens fixed"] == "no graph breaks, 1 fixed as validated · run and validate"
    assert seen["problems left"] == 0
    text = (project / "model.py").read_text()
    assert "h = torch.where(h.sum() > 0, h * 2, h - 2)" in text
    assert "The change is wrong: Net.forward does something else" in seen["verdict"]


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
