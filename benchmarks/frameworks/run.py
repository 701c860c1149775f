"""What becomes of programs under frameworks, launchers, threads, and of installed packages.

    python benchmarks/frameworks/run.py [NAME...] [--write]

Runs gbfix on the programs beside this file; ``--write`` puts the table into ``docs/frameworks.md``.
Programs whose packages are not installed are left out.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "frameworks.md"

#: Packages whose versions the page names.
NAMES = (
    "torch", "lightning", "accelerate", "transformers", "diffusers", "pytorch-ignite", "nbformat",
)  # fmt: skip
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
    "ignite": ("an Engine of ignite", ["ignite_engine.py"], "pytorch-ignite"),
    "transformers_bart": (
        "BART (fp16) of an installed transformers VERSION, through an overlay",
        ["--include", "transformers", "transformers_bart.py"],
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
    "fsdp": ("`torchrun`, FSDP (`fully_shard`)", ["torchrun", "fsdp.py"], ""),
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
    parser.add_argument("--timeout", type=float, default=900.0)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(ROWS))
    if unknown:
        sys.exit(f"no such program: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    for name in given.names or ROWS:
        what, words, package = ROWS[name]
        if package and not _version(package):
            print(f"{name}: {package} is not installed", file=sys.stderr)
            continue
        what = what.replace("VERSION", _version(package)) if package else what
        row = f"| {what} | {_run(words, given.timeout)} |"
        print(row, flush=True)
        if given.write:
            _write(row)


def _write(row: str) -> None:
    """Put a row into the page; rows of programs that do not run now stay as they are."""
    with PAGE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        head = row.partition(" | ")[0] + " | "
        rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
        rows = [line for line in rows if not line.startswith(head)] + [row]
        PAGE.write_text(_page(sorted(rows, key=_order), text), encoding="utf-8")
    PAGE.with_suffix(".lock").unlink(missing_ok=True)


def _order(row: str) -> tuple[int, str]:
    heads = [f"| {what.partition('VERSION')[0]}" for what, _, _ in ROWS.values()]
    return next((at for at, head in enumerate(heads) if row.startswith(head)), 99), row


def _run(words: list[str], timeout: float) -> str:
    with tempfile.TemporaryDirectory() as state:
        overlay = os.path.join(state, "overlay")
        saves = "--include" in words
        options = ["--save", overlay] if saves else []
        command = [sys.executable, "-m", "gbfix", "--no-cache", "--timeout", f"{timeout:g}"]
        command += ["--budget", f"{timeout:g}", "--format", "json", *options, *words]
        environment = {**os.environ, "GBFIX_STATE_DIR": state}
        started = time.monotonic()
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
        graphs = _through(overlay, words[-1]) if saves and report["patches"] else ""
        return _row(report, seconds, graphs)


def _through(overlay: str, program: str) -> str:
    """Graphs and latency of a program as it is and with the overlay, started in turns."""
    plain = [sys.executable, "cost.py", program]
    served = [sys.executable, "-m", "gbfix", "run", "--overlay", overlay, "cost.py", program]
    seen: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for _ in range(3):
        for side, command in (("before", plain), ("after", served)):
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
            if done.returncode:
                return f"fails with the overlay: {' '.join(done.stderr.split())[-120:]}"
            seen[side].append(json.loads(done.stdout.splitlines()[-1]))
    graphs = [max(int(item["graphs"]) for item in seen[side]) for side in seen]
    cost = [min(item["ms"] for item in seen[side]) for side in seen]
    return (
        f"`gbfix run --overlay`: {graphs[0]} → {graphs[1]} graphs, "
        f"{cost[0]:.2f} → {cost[1]:.2f} ms a call"
    )


def _row(report: dict[str, Any], seconds: float, through: str = "") -> str:
    regions = report["regions"]
    outcome = ", ".join(f"`{item['name']}` {item['status']}" for item in regions)
    if not regions:
        outcome = ", ".join(str(item["message"]).partition(";")[0] for item in report["errors"])
    rungs = [one["verdict"].get("launcher") for one in report["patches"]]
    for rung in [rung for rung in rungs if rung][:1]:
        told = str(rung["detail"]).partition(": ")[2].replace("->", "→")
        outcome += f"; with 2 processes: {told}"
    outcome += f"; {through}" if through else ""
    breaks = ", ".join(f"{item['breaks_before']} → {item['breaks_after']}" for item in regions)
    graphs = ", ".join(f"{item['graphs_before']} → {item['graphs_after']}" for item in regions)
    return f"{outcome} | {breaks} | {graphs} | {seconds:.0f}".replace("\n", " ")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _page(lines: list[str], before: str) -> str:
    versions = {name: _version(name) for name in NAMES}
    # What another environment measured stays named.
    named = re.search(r"^Python .*$", before, re.MULTILINE)
    for name, version in re.findall(r"([a-z-]+) (\d[^, ]*\d)", named[0] if named else ""):
        if name in versions and not versions[name]:
            versions[name] = version
    shown = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return "\n".join(
        [
            "# Frameworks, launchers, threads, notebooks: what comes out",
            "",
            "Made by `python benchmarks/frameworks/run.py --write`, a row a program; "
            "[packages.md](packages.md) says how each is used.",
            "",
            f"Python {platform.python_version()}, {shown}. Seconds are of whatever machine ran it, "
            "beside other work.",
            "",
            "| program | outcome | breaks | graphs | s |",
            "| --- | --- | --- | --- | --- |",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
