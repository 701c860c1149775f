"""gbfix on real models: tiny random-weight models of an installed `transformers`, row by row, and
the steps of schedulers of an installed `diffusers`.

    pip install transformers==4.52.4 diffusers
    python benchmarks/real_models/run.py [ROW ...] [--jobs N] [--check] [--results FILE]

Without names, all rows of the installed version of a library: those that the newest transformers
are needed for are left out on an older one.  A row that only ``--unsafe-fixes`` make whole says so
(`rows.Row.unsafe`), and is run with it.

The package's source is linked into a folder for each row and put first on the path, so that it is
project code which may be patched; site-packages is never touched.  Each row is one program
(`rows.py`): it builds a model from a small configuration, compiles it and calls it.  Nothing is
downloaded.  The table shows graph breaks before and after, their codes, the codemods, the verdict,
gbfix's own seconds, and the latency of a call under inductor before and after (medians of paired
runs, `latency.py`).  ``--results`` writes it as a section of a markdown file, one for each version;
with ``--work``, rows that were run before are in it, too.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rows import ROWS, Row, Steps

HERE = Path(__file__).parent
PAIRS = 15
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
HEADS = (
    "row", "breaks", "codes", "codemods", "verdict", "gbfix s", "ms before", "ms after", "left",
)  # fmt: skip


@dataclasses.dataclass
class Result:
    """What one row came to; an error in place of all else where gbfix could not run it."""

    row: str
    before: int = 0
    after: int = 0
    codes: str = ""
    codemods: str = ""
    verdict: str = ""
    seconds: float = 0.0
    latency: tuple[float, float] | None = None
    left: str = ""

    def cells(self) -> list[str]:
        before, after = (f"{value * 1000:.2f}" for value in self.latency) if self.latency else "  "
        return [
            self.row, f"{self.before} → {self.after}", self.codes, self.codemods, self.verdict,
            f"{self.seconds:.0f}", before, after, self.left,
        ]  # fmt: skip


def prepare(folder: Path, library: str) -> str:
    """Copy the installed package's source into the work folder; its version."""
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{library} is not installed; try: pip install transformers==4.52.4 diffusers")
    source = Path(next(iter(spec.submodule_search_locations)))
    target = folder / f"src-{library}" / library
    if not target.exists():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    # Beside the rows' programs, as they are timed there before the patch.
    (folder / "src").mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "src" / library).symlink_to(target)
    return importlib.metadata.version(library)


def measure(name: str, folder: Path, options: argparse.Namespace) -> Result:
    """Run gbfix on a row's own copy of the package, and time the row before and after."""
    home = folder / name
    shutil.rmtree(home, ignore_errors=True)
    # Links cost neither time nor space, and gbfix replaces a file that it patches.
    source = folder / f"src-{ROWS[name].library}"
    shutil.copytree(source, home / "src", copy_function=os.link)
    (home / "pyproject.toml").touch()
    (home / f"{name}.py").write_text(ROWS[name].program)
    (folder / f"{name}.py").write_text(ROWS[name].program)
    mode = "--check" if options.check else "--apply"
    command = [sys.executable, "-m", "gbfix", "--no-cache", "--format", "json", mode]
    # The largest rows, on a machine that does other things.
    command += ["--timeout", "1800", "--inductor-timeout", "300", "--budget", "0"]
    command += ["--unsafe-fixes"] * ROWS[name].unsafe
    started = time.perf_counter()
    ran = subprocess.run(
        [*command, *options.gbfix, f"{name}.py"],
        cwd=home, capture_output=True, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        return Result(name, left=f"gbfix failed: {' '.join(ran.stderr.strip().splitlines()[-1:])}")
    (folder / f"{name}.json").write_text(ran.stdout)
    result = read(name, report, seconds)
    if report["patches"] and not options.check and not options.no_latency:
        result.latency = paired(folder / f"{name}.py", home / f"{name}.py")
    (folder / f"{name}.result.json").write_text(json.dumps(dataclasses.asdict(result)))
    return result


def read(name: str, report: dict[str, Any], seconds: float) -> Result:
    """The row's figures out of gbfix's report."""
    fatal = [error["message"] for error in report["errors"] if error["fatal"]]
    if fatal:
        return Result(name, seconds=seconds, left=fatal[0])
    safeties = {patch["safety"] for patch in report["patches"]}
    codes = collections.Counter(item["code"] for item in report["breaks"])
    left = [reason(item) for item in report["breaks"] if item["status"] != "fixed"]
    if left and ROWS[name].left:
        left = [ROWS[name].left]
    return Result(
        name,
        before=sum(region["breaks_before"] or 0 for region in report["regions"]),
        after=sum(region["breaks_after"] or 0 for region in report["regions"]),
        codes=", ".join(f"{count}x {code}" for code, count in sorted(codes.items())),
        codemods=", ".join(sorted({n for patch in report["patches"] for n in patch["codemods"]})),
        verdict=", ".join(sorted(safeties)),
        seconds=seconds,
        left="; ".join(left),
    )


def reason(item: dict[str, Any]) -> str:
    """A break that stays, in one line: where it is, and what became of the best attempt."""
    where = f"{item['code']} at {Path(item['path']).name}:{item['line']}"
    tried = [f"{each['codemod']}: {each['reason']}" for each in item["attempts"]]
    text = (tried or list(item["advice"]) or [""])[0].strip().splitlines()[:1]
    return f"{where} ({text[0][:160]})" if text and text[0] else where


def paired(before: Path, after: Path) -> tuple[float, float] | None:
    """Median seconds of a call of both programs, asked in turns; None where one of them fails."""
    taken: list[list[float]] = [[], []]
    timers = [
        subprocess.Popen(
            [sys.executable, HERE / "latency.py", program.name],
            cwd=program.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT,
        )
        for program in (before, after)
    ]  # fmt: skip
    try:
        for _ in range(PAIRS):
            for timer, times in zip(timers, taken, strict=True):
                assert timer.stdin and timer.stdout
                print(file=timer.stdin, flush=True)
                times.append(float(timer.stdout.readline()))
    except (ValueError, BrokenPipeError):
        return None
    finally:
        for timer in timers:
            timer.kill()
            timer.wait()
    return statistics.median(taken[0]), statistics.median(taken[1])


def fits(row: Row | Steps) -> bool:
    """Whether a row's library is installed, in a version that has it."""
    try:
        version = importlib.metadata.version(row.library)
    except importlib.metadata.PackageNotFoundError:
        return False
    return not row.newest or int(version.partition(".")[0]) >= row.newest


def kept(folder: Path, library: str) -> list[Result]:
    """The newest results in the work folder, those of earlier runs on other rows among them."""
    paths = [folder / f"{row}.result.json" for row in ROWS if ROWS[row].library == library]
    return [Result(**json.loads(path.read_text())) for path in paths if path.exists()]


def section(title: str, results: list[Result]) -> str:
    """The table in markdown, under a heading that says what it was measured with."""
    torch, gbfix = (importlib.metadata.version(name) for name in ("torch", "gbfix"))
    before, after = (sum(getattr(item, key) for item in results) for key in ("before", "after"))
    whole = sum(not item.after and not item.left for item in results)
    lines = [
        f"## {title}",
        "",
        f"torch {torch}, Python {'.'.join(map(str, sys.version_info[:3]))}, gbfix {gbfix}, "
        f"{os.cpu_count()} CPU cores. {before} breaks before, {after} after; "
        f"{whole} of {len(results)} rows are whole.",
        "",
        "| " + " | ".join(HEADS) + " |",
        "|" + " --- |" * len(HEADS),
    ]
    for item in results:
        cells = [cell.replace("|", "\\|") for cell in item.cells()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(path: Path, title: str, text: str) -> None:
    """Put the section into the file, in place of the same version's."""
    old = path.read_text() if path.exists() else "# gbfix on real models\n"
    sections = re.split(r"(?m)^(?=## )", old)
    head = f"## {title}\n"
    if any(part.startswith(head) for part in sections):
        sections = [text + "\n" if part.startswith(head) else part for part in sections]
    else:
        sections = [*(part.rstrip("\n") + "\n\n" for part in sections), text]
    path.write_text("".join(sections).rstrip("\n") + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--jobs", type=int, default=1, help="rows at the same time")
    parser.add_argument("--check", action="store_true", help="list the breaks, fix nothing")
    parser.add_argument("--no-latency", action="store_true", help="do not time calls")
    parser.add_argument("--results", type=Path, help="write the table into this markdown file")
    parser.add_argument("--work", type=Path, help="keep the work folder here")
    parser.add_argument("--gbfix", nargs=1, default=[], action="extend", help="an option for gbfix")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as name:
        folder = (options.work or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        rows = options.rows or [row for row in ROWS if fits(ROWS[row])]
        libraries = sorted({ROWS[row].library for row in rows})
        titles = {library: f"{library} {prepare(folder, library)}" for library in libraries}
        print(", ".join(titles.values()), flush=True)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            waiting = [pool.submit(measure, row, folder, options) for row in rows]
            for done in concurrent.futures.as_completed(waiting):
                print(" | ".join(done.result().cells()), flush=True)
        for done in waiting:
            done.result()
        for library, title in titles.items() if options.results else ():
            write(options.results, title, section(title, kept(folder, library)))


if __name__ == "__main__":
    main()
