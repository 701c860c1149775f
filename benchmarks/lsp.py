"""What the language server costs: an edit, a workspace, memory, a run on save.

    python benchmarks/lsp.py [--edits 200] [--files 500] [--runs 5]

Talks to a real `gbfix lsp` over its standard streams.  *edit*: from sending a change of a
1,000-line file to having its new diagnostics in hand, asked for with ``textDocument/diagnostic``
after each of 200 edits at changing places.  *workspace*: from ``initialized`` to the first answer
that knows regions in all 500 files.  *memory*: resident, after that.  *run*: from saving a program
that takes 0.2 s to the validated fix, with a warm worker (``--runs 0`` leaves it out; it needs
torch); also as a part of what importing torch and Dynamo takes on the same machine, at most 0.45:
one second where that takes 2.2.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lsp.client import PULLING, Client  # type: ignore[import-not-found]

LIMITS = {"edit p95": 0.050, "workspace": 1.5, "memory": 150.0, "run / import": 0.45}
UNITS = {"memory": "MB", "run / import": "x"}

METHOD = """
    def step_{n}(self, x, scale: float = 1.0):
        hidden = torch.relu(self.linear(x)) * scale
        if hidden.sum() > {n}:
            hidden = hidden - hidden.mean()
        elif x is None:
            hidden = hidden * 2
        for index in range(3):
            hidden = hidden + self.step_{next}(hidden) if index > {n} else hidden
        total = {{"n": {n}, "items": [value for value in range(10)]}}
        return torch.cat([hidden, hidden], dim=0)[: total["n"]]
"""

PROGRAM = """
import time

import torch

time.sleep(0.2)


@torch.compile
def f(x):
    if x.sum() > {limit}:
        return x + 1
    return x - 1


print(f(torch.ones(3)))
"""


def large(lines: int = 1000) -> str:
    """A module of about so many lines with one region that reaches all of it."""
    count = lines // METHOD.count("\n")
    methods = "".join(METHOD.format(n=n, next=(n + 1) % count) for n in range(count))
    head = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.linear = torch.nn.Linear(3, 3)\n\n"
        "    def forward(self, x):\n        return self.step_0(x)\n"
    )
    return f"{head}{methods}\n\nmodel = torch.compile(Model())\n"


def workspace(folder: Path, files: int) -> None:
    """Packages of modules of 100 to 300 lines; every tenth compiles something of its neighbour."""
    for number in range(files):
        package = folder / f"package_{number % 20}"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        text = large(100 + number % 3 * 100).replace("model = torch.compile(Model())", "")
        if number % 10 == 0:
            text += f"from package_{(number + 1) % 20}.module_{number + 1} import Model as Other\n"
            text += "model = torch.compile(Other())\n"
        (package / f"module_{number}.py").write_text(text)


def memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def edits(client: Client, uri: str, text: str, count: int) -> list[float]:
    times = []
    lines = text.count("\n")
    for number in range(count):
        line = (number * 37) % lines
        here = {"line": line, "character": 0}
        new = "    # note\n" if number % 2 else "\n"
        document = {"textDocument": {"uri": uri}}
        started = time.perf_counter()
        client.change(uri, number + 2, {"range": {"start": here, "end": here}, "text": new})
        answer = client.request("textDocument/diagnostic", document)
        times.append(time.perf_counter() - started)
        assert answer["kind"] == "full"
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        os.environ["GBFIX_CACHE_DIR"] = str(folder / ".cache")
        (folder / "work").mkdir()
        workspace(folder / "work", given.files)
        path = folder / "work" / "large.py"
        path.write_text(large())
        client = Client.start([sys.executable, "-m", "gbfix", "lsp"], cwd=folder)
        started = time.perf_counter()
        client.initialize(folder / "work", capabilities=PULLING)
        client.until("workspace/diagnostic/refresh")
        uri = client.open(path)
        answer = client.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        found["workspace"] = time.perf_counter() - started
        times = edits(client, uri, path.read_text(), given.edits)
        found["edit median"] = statistics.median(times)
        found["edit p95"] = percentile(times, 0.95)
        found["memory"] = memory(client.process.pid)
        print(f"{path.read_text().count(chr(10))} lines, {len(answer['items'])} hints in the file")
        if given.runs:
            found["run median"] = statistics.median(runs(client, folder / "work", given.runs))
            found["import torch"] = importing()
            found["run / import"] = found["run median"] / found["import torch"]
        client.close()
    for label, value in found.items():
        unit = UNITS.get(label, "s")
        limit = LIMITS.get(label)
        print(f"{label:12} {value:8.3f} {unit}" + (f"  (at most {limit:g})" if limit else ""))


def importing() -> float:
    """The median time of a process that imports torch and Dynamo."""
    command = [sys.executable, "-c", "import torch, torch._dynamo"]
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def runs(client: Client, folder: Path, count: int) -> list[float]:
    """From a save to the fix in hand; the first run, which starts the worker, does not count."""
    path = folder / "program.py"
    path.write_text(PROGRAM.format(limit=0))
    uri = client.open(path)
    settings = {"settings": {"gbfix": {"run": "onSave"}}}
    client.notify("workspace/didChangeConfiguration", settings)
    times = []
    for number in range(count + 1):
        text = PROGRAM.format(limit=number)
        client.change(uri, number + 2, {"text": text})
        path.write_text(text)
        started = time.perf_counter()
        client.save(uri)
        line = text[: text.index("if x")].count("\n")
        while not any("[safe]" in item["title"] for item in client.actions(uri, line)):
            time.sleep(0.03)  # asking takes a share of two cores
        times.append(time.perf_counter() - started)
    return times[1:]


if __name__ == "__main__":
    main()
