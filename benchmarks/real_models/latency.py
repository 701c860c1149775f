"""Times a row's program as the user compiles it, when asked: one line in, one median out.

    python latency.py PROGRAM

Two of these, one on the patched source, are asked in turns, so that both see the same machine.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import statistics
import sys
import time

CALLS = 10


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        step = runpy.run_path(sys.argv[1], run_name="__main__")["step"]
        for _ in range(5):
            step()  # guards settle, and lazily built kernels are there
        for _ in sys.stdin:
            taken = []
            for _ in range(CALLS):
                started = time.perf_counter()
                step()
                taken.append(time.perf_counter() - started)
            print(statistics.median(taken), file=answers, flush=True)


if __name__ == "__main__":
    main()
