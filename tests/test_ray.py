"""Targets on a real Ray cluster of this machine; skipped where Ray is not installed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_several import project

pytest.importorskip("ray")
pytest.importorskip("grpc")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of a head with room for two tasks, and its process number."""
    port = _free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
               "--node-ip-address=127.0.0.1", f"--port={_free_port()}", "--num-cpus=2",
               f"--ray-client-server-port={port}", "--include-dashboard=false",
               "--disable-usage-stats"]  # fmt: skip
    log = (tmp_path / "ray.log").open("w")
    # Ray's workers step back behind all else on a machine; ours is busy with this test alone.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    head = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=environment)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert head.poll() is None, (tmp_path / "ray.log").read_text()
            time.sleep(0.1)
        yield f"ray://127.0.0.1:{port}", head.pid
    finally:
        for pid in [*_below(head.pid), head.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        head.wait()
        log.close()


def _below(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.slow
def test_a_ray_worker_that_dies_loses_nothing(
    cluster: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, head = cluster
    folder = tmp_path / "project"
    folder.mkdir()
    listed = project(folder, ["grown", "shifted", "grown"], wait=1.0)
    monkeypatch.chdir(folder)
    command = [sys.executable, "-m", "gbfix", "--no-cache", "--format", "json",
               "--executor", address, "--target-file", str(listed)]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    working: list[int] = []
    while not working and run.poll() is None:
        time.sleep(0.1)
        working = [pid for pid in _below(head) if _title(pid).startswith("ray::run")]
    assert working, "the run ended before a worker could be killed"
    os.kill(working[0], signal.SIGKILL)
    out, err = run.communicate(timeout=400)
    assert run.returncode == 1, err.decode()
    data = json.loads(out)
    assert [item["target"] for item in data["targets"]] == [f"train_{n}.py" for n in range(3)]
    assert [(item["breaks"], item["fixed"]) for item in data["targets"]] == [(1, 1)] * 3
    assert len(data["patches"]) == 1 and len(data["regions"]) == 3
    assert not data["errors"]
