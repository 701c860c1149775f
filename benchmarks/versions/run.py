"""The corpus' cases on several versions of Python and torch, each in an environment of its own.

    python benchmarks/versions/run.py [--python 3.11 ...] [--torch 2.11.0 ...] [--sample N]

Builds an environment for each pair below ``--work`` (kept; built again only if it is not whole),
installs this gbfix in it, and runs the corpus' normal cases there: each program must break with its
code, and come out as its ``after.py`` says.  ``--sample N --seed S`` takes as many cases, the same
on every pair.  ``--write`` puts the table into ``docs/versions.md``; rows of pairs that do not run
now stay as they are.

Where pip finds only builds of torch with GPU libraries, these can lie in one folder for all:
``--libraries DIR`` (made by ``pip install --no-deps --target DIR ...``) is put on the path of every
environment, and torch is installed without its dependencies.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "versions.md"
PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = ("2.11.0", "2.12.0", "2.13.0")
#: What torch needs beside GPU libraries.
NEEDS = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools")
_ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \| (\d+\.\d+\.\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", nargs="+", default=list(PYTHONS), metavar="VERSION|PATH")
    parser.add_argument("--torch", nargs="+", default=list(TORCHES), metavar="VERSION")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="0: all cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "gbfix-versions"))
    parser.add_argument("--libraries", type=Path, metavar="DIR")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    cases = chosen(given.sample, given.seed)
    for wanted in given.python:
        python = interpreter(wanted)
        if python is None:
            print(f"Python {wanted}: not found; name its path with --python", file=sys.stderr)
            continue
        for torch in given.torch:
            environment, problem = build(python, torch, given.work, given.libraries)
            if problem:
                print(f"Python {wanted}, torch {torch}: {problem}", file=sys.stderr)
            if problem or given.build_only:
                continue
            row = measure(environment, cases, given)
            print(row, flush=True)
            if given.write:
                PAGE.write_text(page([*known(row), row]), encoding="utf-8")


def chosen(sample: int, seed: int) -> list[str]:
    """The normal cases (gbfix itself runs on them), or as many of them."""
    found = []
    for about in sorted((ROOT / "corpus").glob("*/*/case.toml")):
        data = tomllib.loads(about.read_text(encoding="utf-8"))
        if data["outcome"] == "fixed" and not data.get("slow"):
            found.append(f"{about.parent.parent.name}/{about.parent.name}")
    if sample and sample < len(found):
        found = sorted(random.Random(seed).sample(found, sample))
    return found


def interpreter(wanted: str) -> str | None:
    """A Python of this version: on the path, or among pyenv's."""
    if os.sep in wanted:
        return wanted if os.path.exists(wanted) else None
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = sorted(pyenv.glob(f"{wanted}*/bin/python"), reverse=True)
    for place in (shutil.which(f"python{wanted}"), *map(str, places)):
        if place and _said([place, "-c", "import sys; print(sys.version)"]).startswith(wanted):
            return place
    return None


# -- environments ----------------------------------------------------------------------------------


def build(python: str, torch: str, work: Path, libraries: Path | None) -> tuple[Path, str]:
    """An environment with this torch and gbfix, and why there is none."""
    version = _said([python, "-c", "import platform; print(platform.python_version())"])
    folder = work / f"python-{version}-torch-{torch}"
    bare = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists():
        return folder, ""
    shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    install = [str(bare), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    alone = ["--no-deps", f"torch=={torch}"] if libraries else [f"torch=={torch}"]
    steps = [
        [python, "-m", "venv", str(folder)],
        [*install, *alone],
        [*install, *NEEDS, "numpy"],
        [*install, *_tools()],
        [*install, "--no-deps", "-e", str(ROOT)],
        [str(bare), "-c", "import torch, gbfix, pytest, xdist"],
    ]
    for number, step in enumerate(steps):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return folder, (lines or ["no reason given"])[-1][:200]
        if number == 0 and libraries:
            (place,) = folder.glob("lib/python3*/site-packages")
            (place / "libraries.pth").write_text(f"{libraries.resolve()}\n")
    ready.touch()
    return folder, ""


def _tools() -> list[str]:
    """What gbfix needs beside torch, and the tests of the corpus."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [item for item in project["dependencies"] if not item.startswith("torch")]
    return [*needs, "pytest", "pytest-xdist", "tqdm"]


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip()


# -- running the corpus ----------------------------------------------------------------------------


def measure(environment: Path, cases: list[str], given: argparse.Namespace) -> str:
    """The corpus in this environment, as a row of the table."""
    python = environment / "bin" / "python"
    out = environment / "cases.xml"
    out.unlink(missing_ok=True)
    test = "tests/test_corpus.py::test_corpus_case_comes_out_as_its_metadata_says"
    command = [
        str(python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
        f"--junitxml={out}", *(f"{test}[{case}]" for case in cases),
    ]  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.monotonic() - started
    versions = "import platform, torch; print(platform.python_version(), torch.__version__)"
    version, torch = _said([str(python), "-c", versions]).split()
    torch = torch.partition("+")[0]
    if not out.exists():
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        return f"| {version} | {torch} | | did not run: {' '.join(last)[:120]} | |"
    tests = list(xml.etree.ElementTree.parse(out).getroot().iter("testcase"))
    failed = [
        test.get("name", "").partition("[")[2].removesuffix("]")
        for test in tests
        if test.find("failure") is not None or test.find("error") is not None
    ]
    sample = f" (seed {given.seed})" if given.sample else ""
    shown = ", ".join(f"`{name}`" for name in failed)
    return (
        f"| {version} | {torch} | {len(tests)}{sample} | {len(tests) - len(failed)} | "
        f"{shown} | {seconds:.0f} |"
    )


def known(row: str) -> list[str]:
    """The rows of the page but this pair's."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    mine = _ROW.match(row)
    rows = [line for line in text.splitlines() if _ROW.match(line)]
    return [line for line in rows if mine is None or _ROW.match(line)[0] != mine[0]]  # type: ignore[index]


def page(rows: list[str]) -> str:
    total = len(chosen(0, 0))
    return "\n".join(
        [
            "# Versions of Python and torch",
            "",
            "Made by `python benchmarks/versions/run.py --write`, which builds an environment for "
            f"each pair and runs the corpus' normal cases there (all {total} without `--sample`): "
            "each program must break with its code and come out byte for byte as its case says.",
            "",
            f"Last run on {platform.system()} ({platform.machine()}). "
            "[frameworks.md](frameworks.md) names the versions of Lightning, transformers, "
            "diffusers and accelerate that were tried.",
            "",
            "| Python | torch | cases | as expected | others | s |",
            "| --- | --- | --- | --- | --- | --- |",
            *sorted(rows),
            "",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    main()
