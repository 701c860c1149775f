"""Expected files of the corpus, checked without gbfix: plain torch, whole programs, all backends.

The original runs with Dynamo disabled; the patched file with every `torch.compile` made to say
``fullgraph=True`` and the backend.  What they print must be equal: to the last character under
aot_eager, up to rounding under inductor, which fuses operators.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent.parent / "corpus"

#: One process for all programs of a kind: torch is loaded once, each program runs in a fork.
RUN = """
import json, os, runpy, sys
import torch, torch._dynamo
# `torch.save` imports it when it is first called, and Dynamo would trace the import.
import torch.utils.serialization.config

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()

for number, path in enumerate((os.devnull, job["stdout"], job["stderr"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
sys.stdin = open(0)
os.chdir(job["folder"])
os.environ.update(job["environment"])
sys.argv = ["", *job["arguments"]]

torch.manual_seed(0)
backend = os.environ["GBFIX_BACKEND"]
real = torch.compile

def strict(model=None, **options):
    if model is None:
        return lambda function: strict(function, **options)
    options.update(fullgraph=True, backend=backend)
    for name in ("mode", "options"):
        options.pop(name, None)
    return real(model, **options)

def strict_module(self, *args, **options):
    self._compiled_call_impl = strict(self._call_impl, **options)

if backend != "none":
    import torch._functorch.config, torch._inductor.config
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.fallback_random = True
    torch._inductor.config.compile_threads = 1
    torch.compile = strict
    torch.nn.Module.compile = strict_module
sys.argv = sys.argv[1:]
sys.path.insert(0, os.getcwd())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


#: What a graph returns carries another name there, patched or not; how long it is decides where
#: a printed tensor's lines end.
_GRAD_FN = re.compile(r"\s+grad_fn=<\w+>")
_NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]\d+)?")


def _about(case: Path) -> dict[str, object]:
    return tomllib.loads((case / "case.toml").read_text())


CASES = [
    path.parent
    for path in sorted(CORPUS.glob("*/*/case.toml"))
    if _about(path.parent)["outcome"] == "fixed"
    and _about(path.parent).get("whole", True)
    and not _about(path.parent).get("unsafe")
    and "inputs" not in _about(path.parent)
]


def _run(case: Path, folder: Path, backend: str, *, patched: bool) -> str:
    folder.mkdir()
    for path in case.iterdir():
        if path.suffix == ".py" and not path.name.startswith("after"):
            replaced = case / path.name.replace("before", "after")
            shutil.copy(replaced if patched and replaced.exists() else path, folder / path.name)
    script, *arguments = _about(case).get("target", ["before.py"])  # type: ignore[misc]
    streams = {name: folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr")}
    job = {
        **{name: str(path) for name, path in streams.items()},
        "folder": str(folder),
        "arguments": [str(script), *map(str, arguments)],
        # What the test sets for itself is for the program, too.
        "environment": {**os.environ, "GBFIX_BACKEND": backend},
    }
    server = _server(disabled=backend == "none")
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    status = server.stdout.readline()
    assert status == "0\n", streams["stderr"].read_text()[-3000:]
    return streams["stdout"].read_text()


@functools.cache
def _server(*, disabled: bool) -> subprocess.Popen[str]:
    """A process that runs programs; it ends with this one, which holds its input."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if disabled:
        environment["TORCHDYNAMO_DISABLE"] = "1"
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUN],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _aot_eager(case: Path, tmp_path: Path) -> None:
    original = _run(case, tmp_path / "original", "none", patched=False)
    text = _run(case, tmp_path / "aot", "aot_eager", patched=True)
    assert _GRAD_FN.sub(" grad_fn", text) == _GRAD_FN.sub(" grad_fn", original)


#: One of so many cases is compiled in every run of the tests, the rest with ``-m slow``.
_SAMPLE = 40


def _one_of(many: int, *, rest: bool = False) -> list[Path]:
    """One of so many cases, by their names: a new case does not change which others are run."""

    def is_chosen(case: Path) -> bool:
        return zlib.crc32(f"{case.parent.name}/{case.name}".encode()) % many == 0

    return [case for case in CASES if is_chosen(case) is not rest]


@pytest.mark.parametrize(
    "case", _one_of(_SAMPLE), ids=lambda case: f"{case.parent.name}/{case.name}"
)
def test_some_expected_files_print_what_the_original_does(case: Path, tmp_path: Path) -> None:
    _aot_eager(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    _one_of(_SAMPLE, rest=True),
    ids=lambda case: f"{case.parent.name}/{case.name}",
)
def test_the_other_expected_files_do_so_too(case: Path, tmp_path: Path) -> None:
    _aot_eager(case, tmp_path)


def _inductor(case: Path, tmp_path: Path) -> None:
    original = _run(case, tmp_path / "original", "none", patched=False)
    text = _run(case, tmp_path / "inductor", "inductor", patched=True)
    original, text = (_GRAD_FN.sub(" grad_fn", one) for one in (original, text))
    assert _NUMBER.sub("#", text) == _NUMBER.sub("#", original)
    found = [float(number) for number in _NUMBER.findall(text)]
    wanted = [float(number) for number in _NUMBER.findall(original)]
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("case", _one_of(101), ids=lambda case: f"{case.parent.name}/{case.name}")
def test_a_sample_under_inductor(case: Path, tmp_path: Path) -> None:
    _inductor(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_all_under_inductor(case: Path, tmp_path: Path) -> None:
    _inductor(case, tmp_path)
