"""The real server with the real engine: `gbfix lsp` as an editor starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client, applied
from .conftest import BREAKING, FIXED

COMMAND = [sys.executable, "-m", "gbfix", "lsp"]


def started(cwd: Path) -> Client:
    return Client.start(COMMAND, cwd=cwd)


@pytest.fixture
def real(program: Path) -> Iterator[Client]:
    client = started(program.parent)
    yield client
    client.close()


def pid_of(client: Client) -> int:
    return int(client.process.pid)  # type: ignore[attr-defined]


def children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return [int(word) for word in listed.stdout.split()]


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def eventually(condition: object, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_hint_run_fix_cancel_and_goodbye(real: Client, program: Path) -> None:
    """One session, as somebody would have it; torch stays out of the server's process."""
    real.initialize(program.parent)
    uri = real.open(program)
    assert real.diagnostics(uri)[0]["severity"] == 4
    resolved = real.request("codeAction/resolve", real.actions(uri, 9)[0])
    (change,) = resolved["edit"]["documentChanges"]
    assert applied(BREAKING, change["edits"]) == FIXED
    assert real.diagnostics(uri, lambda found: found and found[0]["severity"] == 2)
    (engine,) = children(pid_of(real))
    first = real.until("$/progress")["token"]
    # The next run is of another program, and is cancelled while it runs.
    slow = program.with_name("slow.py")
    slow.write_text(BREAKING + "open('out.txt', 'w').write('x')\nimport time\ntime.sleep(60)\n")
    number = real.begin(
        "workspace/executeCommand", {"command": "gbfix.run", "arguments": [real.open(slow)]}
    )
    token = real.until("$/progress", lambda params: params["token"] != first)["token"]
    assert eventually(slow.with_name("out.txt").exists)
    real.notify("window/workDoneProgress/cancel", {"token": token})
    assert real.wait(number) == {"status": "cancelled"}
    assert not slow.with_name("out.txt").exists(), "what the program wrote is taken back"
    # The command line finds the editor's result in the cache.
    again = subprocess.run(
        [sys.executable, "-m", "gbfix", "--diff", program.name],
        cwd=program.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert "from the cache" in again.stdout + again.stderr
    maps = Path(f"/proc/{pid_of(real)}/maps").read_text()
    assert not re.search(r"libtorch|torch/_C", maps)
    assert real.request("shutdown", None) is None
    real.notify("exit", None)
    assert real.process.wait(20) == 0  # type: ignore[attr-defined]
    assert eventually(lambda: gone(engine))


def test_a_server_whose_client_dies_ends(real: Client, program: Path) -> None:
    real.initialize(program.parent)
    real.process.stdin.close()  # type: ignore[attr-defined]
    assert real.process.wait(20) == 1  # type: ignore[attr-defined]


def test_modules_in_the_editors_folder_are_data(program: Path) -> None:
    """The folder that an editor is started in must not provide the server's modules."""
    marker = program.with_name("ran")
    for name in ("pygls", "lsprotocol", "attrs", "cattrs", "asyncio", "torch", "sitecustomize"):
        program.with_name(f"{name}.py").write_text(f"open({str(marker)!r}, 'w')\n")
    script = Path(sys.executable).with_name("gbfix")
    client = Client.start([str(script), "lsp"], cwd=program.parent)
    try:
        client.initialize(program.parent)
        assert client.diagnostics(client.open(program))
    finally:
        client.close()
    assert not marker.exists()


def test_tcp_says_where_it_listens(program: Path) -> None:
    server = subprocess.Popen(
        [*COMMAND, "--tcp", "0"], stderr=subprocess.PIPE, text=True, cwd=program.parent
    )
    try:
        assert server.stderr is not None
        found = re.search(r"listens on 127\.0\.0\.1:(\d+)", server.stderr.readline())
        assert found is not None
        client = Client.connect(int(found.group(1)))
        client.initialize(program.parent)
        client.close()
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize(
    "words", [["--tcp", "x"], ["--tcp", "1", "--stdio"], ["--tcp", "99999999"]]
)
def test_wrong_words_are_one_line(words: list[str]) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
