"""What a watched call does beside its result, and the state that it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import torch

from gbfix.worker import show

#: The hooks stay for the rest of a process, so each program has its own.
SETUP = """
import sys, tempfile
from gbfix.worker.effects import EffectRecorder
recorder = EffectRecorder(())
recorder.install()

def files(write):
    with recorder.watch() as effects:
        write()
    return effects.files
"""


def watched(folder: Path, program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(program)],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_write_before_the_temporary_folder_is_known(tmp_path: Path) -> None:
    """Python looks for that folder by opening files, under a lock that is not to be asked twice."""
    program = """
        assert tempfile.tempdir is None
        print(files(lambda: open("a.txt", "w").write("x")))
        print(files(tempfile.gettempdir))
    """
    assert "a.txt" in watched(tmp_path, program).splitlines()[0]


def test_what_is_added_to_a_file_does_not_hang_on_what_stands_in_it(tmp_path: Path) -> None:
    """Of two runs, one may have made more calls before the one that is compared."""
    program = """
        def add(text):
            def write():
                with open("rows.csv", "a") as file:
                    file.write(text)
            return files(write)

        first, second, other = add("1,2\\n"), add("1,2\\n"), add("1,3\\n")
        print(first == second, second == other, bool(other))
    """
    assert watched(tmp_path, program) == "True False True\n"


def test_a_call_adds_to_a_file_that_is_open_from_before(tmp_path: Path) -> None:
    """A log that the program opens in its first line, as ``logging.FileHandler(mode="w")`` does."""
    program = """
        log = open("steps.log", "w")

        def add(text, at=None):
            def write():
                if at is not None:
                    log.seek(at)
                log.write(text)
                log.flush()
            return files(write)

        first, second, other = add("loss 1\\n"), add("loss 1\\n"), add("loss 2\\n")
        print(first == second, second == other, bool(other))
        open("steps.log", "r+").truncate(7)  # put back in between
        print(add("loss 1\\n") == first)
        one, two = add("x", at=0), add("y", at=0)
        print(one == two, bool(one))
        log.seek(0, 2)
        print(add("\\0\\0") == add("\\0\\0"), add("\\0\\0") == add("\\0"))
    """
    assert watched(tmp_path, program) == "True False True\nTrue\nFalse True\nTrue False\n"


def test_files_that_the_program_has_open_are_its_own(tmp_path: Path) -> None:
    """Only of files that nobody was seen to open is it asked, for a while, who writes them."""
    program = """
        import time
        log = open("steps.log", "w")
        waits = []
        time.sleep = waits.append

        def write():
            log.write("x")
            log.flush()

        print(bool(files(write)), [wait for wait in waits if wait > 0.1])
    """
    assert watched(tmp_path, program) == "True []\n"


def test_a_file_that_is_written_anew_counts_as_a_whole(tmp_path: Path) -> None:
    program = """
        def write(text, mode):
            def writes():
                with open("state.txt", mode) as file:
                    file.write(text)
            return files(writes)

        write("a", "a")
        one, two = write("xy", "w"), write("zy", "w")
        longer = write("zyy", "w")
        more = write("xyy", "w")
        print(one == two, longer == more)
        write("b", "a")
        print(write("c", "w") == write("c", "a"))
        print(write("aaaaaa", "w") == write("baaaaaa", "w"))
    """
    assert watched(tmp_path, program) == "False False\nFalse\nFalse\n"


def test_states_with_arrays_and_numbers_that_are_none() -> None:
    import numpy as np

    from gbfix.worker.values import is_same_state, state_image

    def state(*values: float) -> dict[str, object]:
        return state_image({"self": {"knots": np.array(values), "last": float("nan")}})

    assert is_same_state(state(1.0, 2.0), state(1.0, 2.0))
    assert not is_same_state(state(1.0, 2.0), state(1.0, 3.0))
    assert not is_same_state(state(1.0, 2.0), {**state(1.0, 2.0), "more": 1})


def test_temporary_files_of_others_are_no_effects_in_the_temporary_folder(tmp_path: Path) -> None:
    """Every process of the machine leaves such files there; those of the program's own count."""
    program = """
        import os, subprocess
        tempfile.tempdir = os.getcwd()

        def left(*names):
            return files(lambda: subprocess.run(["touch", *names])).keys()

        print(sorted(left("tmpab12_9xz", "ccAb12Cd.s", "weights.pt")))
        print(len(files(lambda: open("tmpab12_9xy", "w").write("x"))))
        os.mkdir("inside"), os.chdir("inside")
        print(sorted(left("tmpab12_9xz")))
    """
    lines = watched(tmp_path, program).splitlines()
    assert lines == ["['./weights.pt']", "1", "['./tmpab12_9xz']"]


def test_what_compiled_code_calls_is_the_programs_and_no_compilers() -> None:
    """The compiler's own wrapper stands around every compiled call."""
    seen = []

    @torch.library.custom_op("test_effects::told", mutates_args=())
    def told(x: torch.Tensor) -> torch.Tensor:
        seen.append(show.by_compiler(sys._getframe()))
        return x.clone()

    told.register_fake(torch.empty_like)
    torch.compile(lambda x: told(x) + 1, backend="eager", fullgraph=True)(torch.ones(2))
    assert seen == [False]
    inside = os.path.join(os.sep, "torch", "_dynamo", "guards.py")
    exec(compile("seen.append(ask(sys._getframe()))", inside, "exec"),
         {"seen": seen, "ask": show.by_compiler, "sys": sys})  # fmt: skip
    assert seen == [False, True]
