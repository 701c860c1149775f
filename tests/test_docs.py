"""The documentation: what is generated is current, and the guide leads to a working codemod."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from gbfix import registry

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "writing-a-codemod.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_generated_files_are_current() -> None:
    files = runpy.run_path(str(ROOT / "docs" / "generate.py"))["generated"]()
    if not registry.torch_version().startswith("2.13."):
        files.pop(Path("docs", "codes.md"))  # lists the codes of the torch that is supported
    stale = [str(path) for path, text in files.items() if not _holds(ROOT / path, text)]
    assert stale == [], "run `python docs/generate.py`"
    pages = {path.name for path in (ROOT / "docs" / "codemods").glob("*.md")}
    assert pages == {path.name for path in files if path.parent.name == "codemods"}


def test_pages_of_codemods_are_markdown() -> None:
    """Fences open and close in turn, with three backticks; a literal has one on each side."""
    pages = sorted((ROOT / "docs" / "codemods").glob("*.md"))
    assert pages
    for page in pages:
        is_open = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{page.name}:{number}: {line}"
            if line.lstrip().startswith("``"):
                assert re.fullmatch(r" *```" if is_open else r" *```\w+", line), where
                is_open = not is_open
            else:
                assert is_open or "``" not in line, where
        assert not is_open, page.name


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's files, its package installed beside them (in ``installed``)."""
    folder = tmp_path_factory.mktemp("guide")
    for name, text in _BLOCK.findall(GUIDE):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    pip += ["--no-build-isolation", "--target", "installed", "."]
    done = subprocess.run(pip, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def _run(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package / "installed")}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_guides_own_tests_pass(package: Path) -> None:
    done = _run(package, "pytest", "-q", "-p", "no:cacheprovider", "test_my_codemods.py")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_gbfix_lists_the_guides_codemod(package: Path) -> None:
    (row,) = (x for x in _run(package, "gbfix", "codes").stdout.splitlines() if "GB0155" in x)
    assert "positional-groupby" in row


def test_the_guides_codemod_fixes_its_program(package: Path) -> None:
    done = _run(package, "gbfix", "--no-cache", "--diff", "runs.py")
    assert done.returncode == 1, done.stderr
    assert "+    for kind, group in itertools.groupby(kinds):" in done.stdout, done.stderr


def test_every_relative_link_leads_to_a_file_of_the_site() -> None:
    """The site holds what is in docs/, and nothing else of the repository."""
    docs = (ROOT / "docs").resolve()
    dead = []
    for page in docs.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"^(```+).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\n)[\s\S])+?(?<!`)\1(?!`)", "", text)
        for link in re.findall(r"\]\(([^)\s]+)(?: [^)]*)?\)", text):
            path = (page.parent / link.partition("#")[0]).resolve()
            if re.match(r"[a-z]+:|#", link):
                continue
            if not (path.is_relative_to(docs) and path.is_file()):
                dead.append(f"{page.relative_to(docs)}: {link}")
    assert dead == []


def test_the_guide_is_linked() -> None:
    assert "docs/writing-a-codemod.md" in (ROOT / "CONTRIBUTING.md").read_text()
