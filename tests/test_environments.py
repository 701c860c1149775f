"""The verdict on a patch does not hang on the machine that gbfix runs on.

Caches and logs of the compiler, temporary files, what other processes write to the working folder
and other work on the machine are no effects of the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

#: A patch that brings an operator, so that inductor and its C++ compiler write their files, too.
PROGRAM = """import os

import torch

{first}

@torch.compile
def scaled(x, rows):
    y = x * 2
    with open({file}, "a") as out:
        out.write(f"{{y.sum().item():.3f}}\\n")
    return y + rows


print(scaled(torch.ones(3), torch.arange(3.0)))
print(scaled(torch.ones(3), torch.arange(3.0)))
"""
FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR", "XDG_CACHE_HOME", "TORCH_TRACE")


def write(folder: Path, first: str = "") -> None:
    folder.mkdir(exist_ok=True)
    file = repr(str(folder / "sums.txt"))
    (folder / "program.py").write_text(PROGRAM.format(first=first, file=file))


def start(folder: Path, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gbfix", "--diff", "--no-cache", "--format", "json"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        [*command, "program.py"],
        cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def verdict(process: subprocess.Popen[str]) -> list[tuple[list[str], str]]:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 1, errors[-2000:]  # as for a linter: there is something to fix
    report = json.loads(output)
    return [(patch["codemods"], patch["safety"]) for patch in report["patches"]]


EXPECTED = [(["effect-to-op"], "safe")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in FOLDERS[1:]] + [FOLDERS[0]]
)
def test_folders_that_variables_name(name: str, tmp_path: Path) -> None:
    write(tmp_path / "work")
    (tmp_path / "named").mkdir()
    assert verdict(start(tmp_path / "work", **{name: str(tmp_path / "named")})) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS[:3])
def test_folders_inside_the_working_folder(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "named").mkdir()
    assert verdict(start(tmp_path, **{name: str(tmp_path / "named")})) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"TORCH_COMPILE_DEBUG": "1"}, {"TORCH_LOGS": "+dynamo,graph_breaks,recompiles"}],
    ids=["debug folder", "logs"],
)
def test_what_the_compiler_tells(variables: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path)
    assert verdict(start(tmp_path, **variables)) == EXPECTED


@pytest.mark.slow
def test_a_program_that_leaves_its_folder(tmp_path: Path) -> None:
    write(tmp_path, 'os.chdir("/")')
    assert verdict(start(tmp_path)) == EXPECTED


@pytest.mark.slow
def test_another_process_that_writes_beside_it(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "busy.py").write_text(
        "import time\n"
        "for number in range(100000):\n"
        "    with open('busy.log', 'a') as file:\n"
        "        file.write(f'{number}\\n')\n"
        "    with open(f'busy-{number % 7}.txt', 'w') as file:\n"
        "        file.write(f'{number}\\n')\n"
        "    time.sleep(0.02)\n"
    )
    busy = subprocess.Popen([sys.executable, "busy.py"], cwd=tmp_path)
    try:
        assert verdict(start(tmp_path)) == EXPECTED
    finally:
        busy.kill()
        busy.wait()


@pytest.mark.slow
def test_four_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / f"work-{number}" for number in range(4)]
    for folder in folders:
        write(folder)
    found: dict[int, object] = {}

    def judge(number: int) -> None:
        found[number] = verdict(start(folders[number]))

    threads = [threading.Thread(target=judge, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), EXPECTED)
