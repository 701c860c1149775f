"""Copies of files that programs are about to change."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gbfix.worker import fileguard

#: Removes files as a watched program would, as fast as it can.
REMOVES = """
import contextlib, os, sys
from gbfix.worker.fileguard import FileGuard
guard = FileGuard(sys.argv[1], ())
sys.stdin.read()
for name in sys.argv[2:]:
    guard.note(name)
    with contextlib.suppress(FileNotFoundError):
        os.remove(name)
"""


def test_processes_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """Whoever comes second waits until the copy is whole."""
    files = [tmp_path / f"file-{number}" for number in range(60)]
    for path in files:
        path.write_bytes(path.name.encode() * 40_000)
    guard = str(tmp_path / "guard")
    command = [sys.executable, "-c", REMOVES, guard, *map(str, files)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    for process in running:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert not any(path.exists() for path in files)
    fileguard.restore(guard)
    assert [path.read_bytes() for path in files] == [path.name.encode() * 40_000 for path in files]


def test_a_copy_that_nobody_finished_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    folder = tmp_path / "guard"
    guard = fileguard.FileGuard(str(folder), ())
    guard.note(str(path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (claim,) = folder.glob("*.claim")
    claim.write_text(str(gone.pid))
    for left in (*folder.glob("*.done"), folder / "manifest"):
        left.unlink()
    fileguard.FileGuard(str(folder), ()).note(str(path))
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    fileguard.restore(str(folder))
    assert path.read_text() == "mine"


def test_nobody_waits_for_a_process_that_has_ended(tmp_path: Path) -> None:
    """One that its parent has not looked at yet still answers signals."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    claim = tmp_path / "a.claim"
    claim.write_text(str(ended.pid))
    began = os.times().elapsed
    assert not fileguard._is_there(str(tmp_path / "a.done"), str(claim))
    assert os.times().elapsed - began < 30  # its patience is a minute
    ended.wait()


def test_a_copy_that_fails_lets_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    guard = fileguard.FileGuard(str(tmp_path / "guard"), ())

    def fails(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("shutil.copy2", fails)
    with contextlib.suppress(FileNotFoundError):
        guard.note(str(path))
    assert list((tmp_path / "guard").glob("*.done"))
