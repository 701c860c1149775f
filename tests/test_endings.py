"""How programs end that call no region, and where the calls are that are not in the main thread."""

from __future__ import annotations

from typing import Any

import pytest

REGION = """
import sys, threading, torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


"""
ENDS = {
    "usage error": (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--size', type=int, required=True)\nparser.parse_args()\n",
        "ended-early",
        "ended with exit status 2 before it called a compiled region",
        "required: --size",
    ),
    "sys.exit with words": (
        "sys.exit('no data: give a file')\n",
        "ended-early",
        "ended with exit status 1",
        "no data: give a file",
    ),
    "sys.exit(0)": ("print('bye')\nsys.exit()\n", "never-called", "called nothing of", "bye"),
    "its end": (
        "print('done')\n",
        "never-called",
        "called nothing of what it compiled (f)",
        "done",
    ),
}


@pytest.mark.parametrize("how", ENDS, ids=str)
def test_a_program_that_calls_no_region_is_told_with_its_last_lines(
    how: str, gbfix_run: Any
) -> None:
    source, kind, says, last = ENDS[how]
    (error,) = gbfix_run(REGION + source).errors
    assert error.fatal and error.kind == kind
    assert says in error.message and "\n" not in error.message
    assert last in error.traceback.splitlines()[-1]


def test_an_exit_before_anything_is_compiled(gbfix_run: Any) -> None:
    (error,) = gbfix_run("import sys\nsys.exit(4)\n").errors
    assert error.kind == "ended-early"
    assert "exit status 4 before it compiled anything" in error.message


THREADS = {
    "one thread": (
        "thread = threading.Thread(target=lambda: print(f(torch.ones(3)), f(-torch.ones(3))))\n"
        "thread.start()\nthread.join()\n"
    ),
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(3) as pool:\n"
        "    print(list(pool.map(f, [torch.randn(3) for _ in range(6)])))\n"
    ),
    "threads that are never joined": (
        "threading.Thread(target=f, args=(torch.ones(3),)).start()\n"
    ),
    "with gradients": (
        "def work():\n    x = torch.ones(3, requires_grad=True)\n    f(x).sum().backward()\n"
        "    print(x.grad)\n\n\nthread = threading.Thread(target=work)\n"
        "thread.start()\nthread.join()\n"
    ),
}


@pytest.mark.parametrize("how", THREADS, ids=str)
def test_calls_in_other_threads_are_recorded(how: str, gbfix_run: Any) -> None:
    report = gbfix_run(REGION + THREADS[how])
    assert not report.errors
    assert [item.status for item in report.breaks] == ["fixed"], report
    (patch,) = report.patches
    assert patch.verdict.passed and str(patch.safety) == "safe"


def test_threads_that_a_region_starts_are_a_part_of_it(gbfix_run: Any) -> None:
    source = """
import threading, torch


@torch.compile
def inner(x):
    return x + 1


@torch.compile
def f(x):
    found = []
    threads = [threading.Thread(target=lambda: found.append(inner(x))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found)


print(f(torch.ones(2)), inner(torch.ones(2)))
"""
    report = gbfix_run(source, timeout=60.0)
    assert {region.name: region.calls for region in report.regions} == {"f": 1, "inner": 1}


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_regions_that_only_child_processes_call_are_named(how: str, gbfix_run: Any) -> None:
    source = f"""
import multiprocessing


def work():
    f(torch.ones(3))


if __name__ == "__main__":
    process = multiprocessing.get_context({how!r}).Process(target=work)
    process.start()
    process.join()
"""
    (error,) = gbfix_run(REGION + source).errors
    assert error.kind == "only-in-child" and error.fatal
    assert error.message.startswith("only processes that the program starts call f; ")
    assert "num_workers=0" in error.message


def test_a_region_of_a_child_beside_one_of_the_program(gbfix_run: Any) -> None:
    source = """
import multiprocessing


@torch.compile
def g(x):
    return x * 2


if __name__ == "__main__":
    g(torch.ones(2))
    process = multiprocessing.get_context("fork").Process(target=f, args=(torch.ones(3),))
    process.start()
    process.join()
"""
    report = gbfix_run(REGION + source)
    (error,) = report.errors
    assert error.kind == "only-in-child" and not error.fatal
    assert {region.name: region.status for region in report.regions} == {"f": "error", "g": "clean"}
