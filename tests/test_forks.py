"""Work at a recorded call that is done in forks, and what is loaded before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# In a process of its own: pytest itself is not forked.
DRIVER = """
import os, sys, time
from gbfix.worker.fileguard import Watch
from gbfix.worker.forks import Forks
from gbfix.worker.protocol import IN_VAIN, EventWriter, Job
from gbfix.schema import Target

folder = sys.argv[1]
job = Job("candidate", Target("script", "x.py"), folder, folder)
forks = Forks(job, EventWriter(os.path.join(folder, "events")), Watch(), (folder,))

def note(text):
    with open(os.path.join(folder, "notes"), "a") as file:
        file.write(text + "\\n")

def first():
    FIRST

def second():
    note("second")

well = forks.run("f", 0, [("eager", first), ("aot_eager", second)], PATIENCE)
note(f"well {well} vain {forks.vain}")
"""


@pytest.mark.parametrize(
    ("first", "patience", "notes"),
    [
        ("os._exit(IN_VAIN)", 60.0, ["well False vain True"]),
        ("note('first')", 60.0, ["first", "second", "well True vain False"]),
        ("os._exit(1)", 60.0, ["second", "well False vain False"]),
        (
            "forks.go_ahead(); time.sleep(1); note('first')",
            60.0,
            ["second", "first", "well True vain False"],
        ),
        ("time.sleep(1); note('first')", 0.01, ["second", "first", "well True vain False"]),
        ("time.sleep(1); note('first')", 0.0, ["second", "first", "well True vain False"]),
    ],
    ids=["in-vain", "well", "badly", "said", "patience-at-an-end", "side-by-side"],
)
def test_the_first_may_spare_the_others(
    first: str, patience: float, notes: list[str], tmp_path: Path
) -> None:
    code = DRIVER.replace("FIRST", first).replace("PATIENCE", str(patience))
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "notes").read_text().splitlines() == notes


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="not warmed up where there is a GPU")
@pytest.mark.parametrize("mode", ["", "with torch.device('cpu'):"])
def test_loading_at_a_call_is_not_seen_by_the_program(mode: str) -> None:
    code = f"""
        import os, random, sys, weakref
        from gbfix.worker import zygote
        zygote._preload(zygote.FIRST)
        import numpy, torch
        kept = weakref.finalize(zygote.Server, print)
        def state():
            numbers = torch.get_rng_state().tolist(), random.getstate()
            settings = torch.is_grad_enabled(), torch.get_num_threads(), kept.atexit
            threads = len(os.listdir("/proc/self/task"))
            return numbers, str(numpy.random.get_state()), settings, threads
        # A job's stand-in for it, which would count what is compiled here as a region.
        torch.compile = lambda *_, **__: print("a region was seen")
        before = state()
        {mode or "if True:"}
            zygote.load_all()
        assert state() == before, (state()[2:], before[2:])
        print("torch._functorch.partitioners" in sys.modules)
        os._exit(sys.stdout.flush() or 0)
    """
    environment = {n: v for n, v in os.environ.items() if not n.startswith("TORCH")}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    # A mode of the program's own would see what is done here.
    assert result.stdout.strip() == str(not mode)
