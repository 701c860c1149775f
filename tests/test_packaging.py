"""The built distributions are complete, and work without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    checkout = folder / "checkout"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if (ROOT / name).is_file():
            target = checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    script = f"import setuptools.build_meta as b; print(b.build_sdist(r'{folder}'))"
    result = _python("-c", script, cwd=checkout)
    assert result.returncode == 0, result.stderr
    (sdist,) = folder.glob("*.tar.gz")
    result = _python(
        "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(sdist),
        cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return folder


def test_the_wheel_holds_the_packages_their_data_and_no_top_level_codemods(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "gbfix").rglob("*.py")}
    sources |= {
        "gbfix_" + str(path.relative_to(ROOT)) for path in (ROOT / "codemods").rglob("*.py")
    }
    sources |= {
        str(path.relative_to(ROOT))
        for pattern in ("*.json", "*.md", "py.typed")
        for path in (ROOT / "gbfix").rglob(pattern)
    }
    assert sources <= names, sorted(sources - names)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gbfix", "gbfix_codemods"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "gbfix/cli.py"} <= names


def test_an_installed_copy_works_without_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    site = tmp_path / "site"
    result = _python(
        "-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel), cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    where = _python(
        "-c", "import gbfix, gbfix_codemods; print(gbfix.__file__, gbfix_codemods.__file__)",
        cwd=tmp_path, PYTHONPATH=str(site),
    )  # fmt: skip
    assert where.stdout.count(str(site)) == 2
    (tmp_path / "program.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n"
        "    return x + 1\n\n\nf(torch.ones(2))\n"
    )
    result = _python(
        "-m", "gbfix", "--no-cache", "--apply", "program.py", cwd=tmp_path, PYTHONPATH=str(site)
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "graph_break" not in (tmp_path / "program.py").read_text()
    version = _python("-m", "gbfix", "--version", cwd=tmp_path, PYTHONPATH=str(site))
    assert version.stdout.startswith("gbfix ")
