"""What the line of progress says of the way ahead."""

from __future__ import annotations

import os
import pty
import time

import pytest

from gbfix import session
from gbfix.standing import Standing


class _Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> _Watch:
    return _Watch()


def test_each_step_names_its_break_and_the_time_left_once_one_was_done(watch: _Watch) -> None:
    said: list[str] = []
    standing = Standing(said.append, watch)
    standing("recording the program")
    standing.at(1, 3, 3, "GB0170 at a.py:7")
    watch.now = 40
    standing("trying if-to-where")
    standing.done()
    standing.at(2, 3, 2, "GB0149 at a.py:9")
    watch.now = 60
    standing("trying print-to-op")
    watch.now = 1000
    standing("trying another")
    standing.done()
    standing.at(3, 3, 1, "GB0149 at a.py:9")
    standing.done()
    standing("confirming all patches from the start")
    assert said == [
        "recording the program",
        "break 1 of 3: GB0170 at a.py:7",
        "break 1 of 3: trying if-to-where",
        "about 80 s left, break 2 of 3: GB0149 at a.py:9",
        "about 60 s left, break 2 of 3: trying print-to-op",
        # This one takes longer than the first did: what is left is the break after it.
        "about 40 s left, break 2 of 3: trying another",
        "about 9 min left, break 3 of 3: GB0149 at a.py:9",
        "confirming all patches from the start",
    ]


def test_the_seconds_go_on_by_themselves_and_stop_with_the_run() -> None:
    leader, follower = pty.openpty()
    shown = ""
    with os.fdopen(follower, "w") as stream:
        with session.Progress(stream) as progress:
            progress.show("tracing")
            while "1 s  tracing" not in shown:
                shown += os.read(leader, 1000).decode()
        time.sleep(1.2)
        stream.write("end")
        stream.flush()
        while not shown.endswith("end"):
            shown += os.read(leader, 1000).decode()
    os.close(leader)
    assert shown.startswith("\r\x1b[K0 s  tracing\r\x1b[K1 s  tracing")
    assert shown.endswith("tracing\r\x1b[Kend")
