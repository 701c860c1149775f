"""What becomes of programs under frameworks, launchers, threads, and of installed packages.

    python benchmarks/frameworks/run.py [NAME...] [--write]

Runs gbfix on the programs beside this file; ``--write`` puts the table into ``docs/frameworks.md``.
Programs whose packages are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "frameworks.md"

#: Name: what it is, the words for gbfix, the package that it needs.
ROWS = {
    "lightning_steps": (
        "Lightning Trainer, `self.log` in the step",
        ["lightning_steps.py"],
        "lightning",
    ),
    "lightning_forward": (
        "Lightning Trainer, step and `forward`",
        ["lightning_forward.py"],
        "lightning",
    ),
    "lightning_fabric": ("Lightning Fabric", ["lightning_fabric.py"], "lightning"),
    "accelerate_prepare": ("Accelerate, a compiled model", ["accelerate_prepare.py"], "accelerate"),
    "accelerate_dynamo": ("Accelerate compiles the model", ["accelerate_dynamo.py"], "accelerate"),
    "transformers_trainer": (
        "Trainer of transformers, `torch_compile=True`",
        ["transformers_trainer.py"],
        "transformers",
    ),
    "transformers_bart": (
        "an installed model (BART, fp16), `--include`",
        ["--include", "transformers", "--measure", "transformers_bart.py"],
        "transformers",
    ),
    "torchrun": (
        "`torchrun --nproc-per-node 2`",
        ["torchrun", "--nproc-per-node", "2", "ranks.py"],
        "",
    ),
    "distributed_run": (
        "`-m torch.distributed.run`, DDP",
        ["-m", "torch.distributed.run", "--standalone", "ddp.py"],
        "",
    ),
    "accelerate_launch": (
        "`accelerate launch`",
        ["accelerate", "launch", "--cpu", "accelerate_prepare.py"],
        "accelerate",
    ),
    "thread": ("calls in another thread", ["thread.py"], ""),
    "thread_pool": ("calls in a pool of threads", ["thread_pool.py"], ""),
    "only_in_child": ("calls in spawned processes alone", ["only_in_child.py"], ""),
    "usage_error": ("a program that ends with a usage error", ["usage_error.py"], ""),
    "notebook": ("a notebook", ["notebook.ipynb"], ""),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--timeout", type=float, default=600.0)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(ROWS))
    if unknown:
        sys.exit(f"no such program: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    # Rows of programs that do not run now stay as they are.
    rows = _known() if given.write else {}
    for name in given.names or ROWS:
        what, words, package = ROWS[name]
        if package and not _version(package):
            print(f"{name}: {package} is not installed", file=sys.stderr)
            continue
        row = _run(words, given.timeout)
        rows[name] = f"| {what} | {row} |"
        print(f"{name}: {row}", flush=True)
        if given.write:
            lines = [rows[known] for known in ROWS if known in rows]
            PAGE.write_text(_page(lines), encoding="utf-8")


def _known() -> dict[str, str]:
    """The rows of the page by program."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    heads = {f"| {what} | ": name for name, (what, _, _) in ROWS.items()}
    return {
        name: line
        for line in text.splitlines()
        for head, name in heads.items()
        if line.startswith(head)
    }


def _run(words: list[str], timeout: float) -> str:
    command = [sys.executable, "-m", "gbfix", "--no-cache", "--format", "json", *words]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "GBFIX_STATE_DIR": state}
        try:
            done = subprocess.run(
                command, cwd=HERE, capture_output=True, text=True, timeout=timeout, env=environment
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {timeout:g} s | | |"
    seconds = time.monotonic() - started
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return f"{' '.join(done.stderr.split())[:120]} | | | {seconds:.0f}"
    return _row(report, seconds)


def _row(report: dict[str, object], seconds: float) -> str:
    regions: list[dict[str, object]] = report["regions"]  # type: ignore[assignment]
    errors: list[dict[str, object]] = report["errors"]  # type: ignore[assignment]
    outcome = ", ".join(f"`{item['name']}` {item['status']}" for item in regions)
    if not regions:
        outcome = ", ".join(str(item["message"]).partition(";")[0] for item in errors)
    breaks = ", ".join(f"{item['breaks_before']} → {item['breaks_after']}" for item in regions)
    graphs = ", ".join(f"{item['graphs_before']} → {item['graphs_after']}" for item in regions)
    for item in regions:
        payoff = item.get("payoff")
        if isinstance(payoff, dict):
            before, after = (payoff[side]["latency"] * 1000 for side in ("before", "after"))
            outcome += f", {before:.2f} → {after:.2f} ms a call"
    return f"{outcome} | {breaks} | {graphs} | {seconds:.0f}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _page(lines: list[str]) -> str:
    names = ("torch", "lightning", "accelerate", "transformers")
    versions = ", ".join(f"{name} {_version(name)}" for name in names if _version(name))
    return "\n".join(
        [
            "# Frameworks, launchers, threads, notebooks: what comes out",
            "",
            "Made by `python benchmarks/frameworks/run.py --write`. "
            f"Python {platform.python_version()}, {versions}.",
            "[packages.md](packages.md) says how each is used.",
            "",
            "| program | outcome | breaks | graphs | s |",
            "| --- | --- | --- | --- | --- |",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
