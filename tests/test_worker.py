"""Targets, regions, and programs that misbehave: the engine on whole programs, with real torch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target
from gbfix.worker.protocol import Failed, Finished, Instrument, Job, Outcome, RegionSeen

Gbfix = Callable[..., Report]

# -- regions in every form ------------------------------------------------------------------------

BREAKING = """
import torch


def f(x):
    torch._dynamo.graph_break()
    return x + 1


class Net(torch.nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        return x + 1


x = torch.ones(3)
"""

FORMS = {
    "decorator": "@torch.compile\ndef g(x):\n    return f(x)\n\n\ng(x)\n",
    "decorator with arguments": (
        "@torch.compile(dynamic=True)\ndef g(x):\n    return f(x)\n\n\ng(x)\n"
    ),
    "call on a function": "torch.compile(f)(x)\n",
    "call on a lambda": "torch.compile(lambda x: f(x))(x)\n",
    "partial decorator": "torch.compile(fullgraph=False)(f)(x)\n",
    "module": "torch.compile(Net())(x)\n",
    "module in place": "net = Net()\nnet.compile()\nnet(x)\n",
    "bound forward": "torch.compile(Net().forward)(x)\n",
    "assigned forward": "net = Net()\nnet.forward = torch.compile(net.forward)\nnet(x)\n",
    "imported name": "from torch import compile as build\n\nbuild(f)(x)\n",
    "decorated method": (
        "class Other(torch.nn.Module):\n    @torch.compile\n    def forward(self, x):\n"
        "        return f(x)\n\n\nOther()(x)\n"
    ),
    "nested region": (
        "inner = torch.compile(f)\n\n\n@torch.compile\ndef g(x):\n    return inner(x)\n\n\ng(x)\n"
    ),
    "training": (
        "lin = torch.nn.Linear(3, 3)\nmodel = torch.compile(torch.nn.Sequential(lin, Net()))\n"
        "model(x).sum().backward()\nassert lin.weight.grad is not None\n"
    ),
}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_regions_are_found_in_every_form_that_users_write(form: str, gbfix_run: Gbfix) -> None:
    report = gbfix_run(BREAKING + FORMS[form])
    assert not [error for error in report.errors if error.fatal], report.errors
    called = [region for region in report.regions if region.calls]
    assert [region.status for region in called] == ["fixed"], report.errors
    assert {item.graph_break.code for item in report.breaks} == {"GB0025"}


def test_a_compiled_module_is_what_the_program_expects(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import torch

        net = torch.nn.Linear(2, 2)
        model = torch.compile(net)
        assert model._orig_mod is net
        assert isinstance(model, torch.nn.Module)
        assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
        model.eval()
        assert not net.training

        @torch.compile
        def f(x):
            "doc"
            return x

        assert f.__name__ == "f" and f.__doc__ == "doc"
        model(torch.ones(2))
        f(torch.ones(2))
        """
    )
    assert not report.errors
    assert [region.status for region in report.regions] == ["clean", "clean"]


def test_a_function_compiled_in_another_module(gbfix_run: Gbfix, tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n"
        "    return x + 1\n"
    )
    report = gbfix_run("import torch\nfrom lib import f\n\nprint(f(torch.ones(2)))\n")
    (patch,) = report.patches
    assert patch.path == str(tmp_path / "lib.py")
    assert "graph_break" not in patch.after


# -- targets --------------------------------------------------------------------------------------


def _engine(target: Target, runner: Runner) -> Report:
    return engine.run(target, Options(use_cache=False, timeout=120.0), runner=runner)


def test_a_module_target_runs_as_python_dash_m(tmp_path: Path, runner: Runner) -> None:
    package = tmp_path / "app"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        textwrap.dedent(
            """
            import sys
            import torch
            from . import __name__ as package

            assert __name__ == "__main__" and __package__ == "app" and package == "app"
            assert sys.argv[0] == __file__ and sys.argv[1:] == ["a", "-b"], sys.argv


            @torch.compile
            def f(x):
                torch._dynamo.graph_break()
                return x


            f(torch.ones(2))
            """
        )
    )
    report = _engine(Target("module", "app", ("a", "-b"), cwd=str(tmp_path)), runner)
    assert not report.errors
    assert [patch.path for patch in report.patches] == [str(package / "__main__.py")]


CALLABLES = """
import torch


def f(x, scale=1):
    torch._dynamo.graph_break()
    return x * scale


class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = torch.nn.Linear(n, n)

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.lin(x)


class Plain:
    pass
"""


def test_breaks_in_test_modules_are_fixed_under_pytest(tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "test_model.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n"
        "    return x + 1\n\n\ndef test_f():\n    assert f(torch.ones(3)).sum() == 6\n"
    )
    target = Target("module", "pytest", ("-q", "-p", "no:cacheprovider", "test_model.py"),
                    cwd=str(tmp_path))  # fmt: skip
    report = _engine(target, runner)
    assert [item.status for item in report.breaks] == ["fixed"], report.errors
    assert "graph_break" not in report.patches[0].after


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("f", "torch.ones(2)"),
        ("f", "(torch.ones(2), 3)"),
        ("f", "{'args': (torch.ones(2),), 'kwargs': {'scale': 2}}"),
        ("Net", "{'init': (4,), 'args': (torch.ones(4),)}"),
    ],
)
def test_a_callable_target(name: str, inputs: str, tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "mod.py").write_text(CALLABLES)
    target = Target("callable", f"mod.py::{name}", inputs=inputs, cwd=str(tmp_path))
    report = _engine(target, runner)
    assert not report.errors
    assert [region.status for region in report.regions] == ["fixed"]


@pytest.mark.parametrize(("name", "says"), [("g", "has no 'g'"), ("Plain", "not an nn.Module")])
def test_a_callable_that_is_not_there(name: str, says: str, tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "mod.py").write_text(CALLABLES)
    target = Target("callable", f"mod.py::{name}", inputs="(torch.ones(2),)", cwd=str(tmp_path))
    (error,) = _engine(target, runner).errors
    assert error.fatal and says in error.message


# -- the program's surroundings --------------------------------------------------------------------


def test_the_program_sees_what_plain_python_shows(tmp_path: Path, runner: Runner) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "helper.py").write_text("VALUE = 3\n")
    (folder / "show.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, os, sys, torch
            import helper

            main = sys.modules["__main__"]
            print(__name__, __file__, __spec__, __package__, hasattr(main, "VALUE"))
            print(sys.argv, os.getcwd(), sys.path[0], helper.__file__)
            print(multiprocessing.current_process().name, multiprocessing.parent_process())
            print(sys.stdin.read() == "", sys.stdout.isatty(), "gbfix" in sys.argv[0])
            torch.compile(lambda x: x)(torch.ones(1))
            """
        )
    )
    arguments = ("sub/show.py", "--flag", "value")
    job = Job(
        "golden",
        Target("script", arguments[0], arguments[1:], cwd=str(tmp_path)),
        runner.new_directory("show"),
        str(tmp_path),
    )
    outcome = runner.run(job, 60)
    plain = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL
    )
    ours = outcome.stdout.decode().splitlines()
    assert ours == plain.stdout.decode().splitlines()[: len(ours)] and len(ours) == 4


def test_exit_handlers_run_and_a_non_zero_exit_is_no_failure(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import atexit, sys, torch

        atexit.register(lambda: print("bye"))
        torch.compile(lambda x: x + 1)(torch.ones(2))
        sys.exit(3)
        """
    )
    assert not report.errors


# -- programs that misbehave ----------------------------------------------------------------------

COMPILED = "import torch\n\n\n@torch.compile\ndef f(x):\n    return x + 1\n\n\n"

MISBEHAVING = {
    "segfault": ("import ctypes\nctypes.string_at(0)\n", "crash", "SIGSEGV"),
    "abort": ("import os\nos.abort()\n", "crash", "SIGABRT"),
    "os._exit": ("import os\nos._exit(5)\n", "exit", "os._exit(5)"),
    "exception": ("raise KeyError('lost')\n", "eager-error", "KeyError: 'lost'"),
    "standard input": ("input('name? ')\n", "eager-error", "standard input"),
    "nothing compiled": ("print(1)\n", "no-region", "compiled nothing"),
    "syntax error": ("def (:\n", "source", "invalid syntax"),
    "import error": ("import surely_not_there\n", "eager-error", "surely_not_there"),
}


@pytest.mark.parametrize("what", MISBEHAVING, ids=str)
def test_a_misbehaving_program_ends_in_one_clear_line(what: str, gbfix_run: Gbfix) -> None:
    source, kind, says = MISBEHAVING[what]
    report = gbfix_run(("" if what == "nothing compiled" else COMPILED) + source)
    (error,) = report.errors
    assert error.fatal
    assert error.kind == kind
    assert says in error.message
    assert "\n" not in error.message.strip() or kind == "source"


def test_the_users_own_traceback_is_shown(gbfix_run: Gbfix) -> None:
    report = gbfix_run("def g():\n    raise KeyError('lost')\n\n\ng()\n")
    (error,) = report.errors
    lines = error.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'lost'"
    assert sum("program.py" in line for line in lines) == 2
    assert not any("gbfix" in line and "worker" in line for line in lines)
    assert error.line == 2


def test_a_region_that_raises_in_eager_is_told_apart(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        COMPILED
        + "@torch.compile\ndef g(x):\n    return torch.sin(x, x)\n\n\n"
        + "try:\n    g(torch.ones(2))\nexcept TypeError:\n    pass\nf(torch.ones(2))\n"
    )
    (error,) = report.errors
    assert not error.fatal and error.kind == "eager-error"
    assert error.message.startswith("g fails without torch.compile too: TypeError")
    assert {region.name: region.status for region in report.regions} == {"f": "clean", "g": "error"}


SOMETIMES = """
import torch


@torch.compile
def f(x):
    if x.shape[0] > 3:
        raise ValueError("too long")
    if x.sum() > 0:
        return x + 1
    return x - 1


for x in (%s):
    try:
        print(f(x))
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("long", [0, 1, 2])
def test_a_region_of_which_only_one_call_raises_is_fixed(long: int, gbfix_run: Gbfix) -> None:
    calls = ["torch.ones(3)", "-torch.ones(3)"]
    calls.insert(long, "torch.ones(4)")
    report = gbfix_run(SOMETIMES % ", ".join(calls))
    (region,) = report.regions
    assert not report.errors
    assert region.status == "fixed"
    # The last call is recorded, too, where it is the first of its size.
    made = 2 if long < 2 else 3
    assert region.note == f"1 of {made} calls raises without torch.compile too"
    (patch,) = report.patches
    assert {"recompiles", "branches", "aot_eager"} <= {rung.name for rung in patch.verdict.rungs}


def test_a_break_of_a_call_that_raises_is_no_break_of_the_region(gbfix_run: Gbfix) -> None:
    source = SOMETIMES.replace("if x.sum() > 0", "if x.shape[0] > 3 and x.sum() > 0")
    source = source.replace('raise ValueError("too long")', "raise ValueError(x.sum().item())")
    report = gbfix_run(source % "torch.ones(3), torch.ones(4)")
    assert [region.status for region in report.regions] == ["clean"], report
    assert not report.breaks


def test_a_hanging_program_ends_at_the_timeout_with_all_its_children(gbfix_run: Gbfix) -> None:
    # Files that the program wrote are gone afterwards: its child is known by what it was told.
    mark = f"600.{os.getpid()}"
    program = f"import subprocess, time\nsubprocess.Popen(['sleep', '{mark}'])\ntime.sleep(600)\n"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(gbfix_run, program, timeout=12.0)
        lived = False
        while not running.done():
            lived = lived or _running(mark)
            time.sleep(0.1)
    assert lived
    (error,) = running.result().errors
    assert error.kind == "timeout" and "--timeout" in error.message
    _assert_ends(mark)


def _assert_ends(mark: str) -> None:
    for _ in range(50):
        if not _running(mark):
            return
        time.sleep(0.1)
    pytest.fail("a child of the program outlived it")


def _running(mark: str) -> bool:
    """Whether a process that got this argument lives (a zombie has no arguments)."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False


def test_a_program_that_never_ends_is_stopped_once_its_regions_had_their_calls(
    gbfix_run: Gbfix,
) -> None:
    started = time.monotonic()
    report = gbfix_run(
        BREAKING
        + "import time\nstep = torch.compile(f)\nwhile True:\n    step(x)\n    time.sleep(0.01)\n"
    )
    assert not report.errors
    assert [region.status for region in report.regions] == ["fixed"]
    assert time.monotonic() - started < 100


def test_huge_output_is_stopped(gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbfix.runner.OUTPUT_LIMIT", 4 * 2**20)
    report = gbfix_run("while True:\n    print('x' * 100000)\n")
    (error,) = report.errors
    assert error.kind == "output"


def test_too_much_memory_is_one_clear_line(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        COMPILED + "f(torch.ones(2))\nbig = torch.ones(3 * 2**30)\n", memory_limit=2**30
    )
    (error,) = report.errors
    assert error.kind == "memory" and "--memory-limit" in error.message


def test_a_region_never_called_is_named(gbfix_run: Gbfix) -> None:
    report = gbfix_run(COMPILED + "torch.compile(lambda x: x)(torch.ones(1))\n")
    (error,) = report.errors
    assert not error.fatal and error.kind == "never-called" and error.message.startswith("f ")


def test_nondeterministic_outputs_are_named_and_make_fixes_unsafe(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import time, torch


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x, time.time_ns()

        f(torch.ones(2))
        """
    )
    assert any(error.kind == "nondeterministic" for error in report.errors), report.errors
    assert not report.patches


def test_ctrl_c_ends_the_program_and_everything_it_started(tmp_path: Path) -> None:
    mark = f"601.{os.getpid()}"
    (tmp_path / "hang.py").write_text(
        f"import subprocess, time\nsubprocess.Popen(['sleep', '{mark}'])\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "gbfix", "--no-cache", "hang.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A suite that runs in the background has it ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(600):
        if _running(mark):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the program did not start")
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    _assert_ends(mark)


# -- overlay ---------------------------------------------------------------------------------------


def test_patched_text_is_what_python_shows_everywhere(tmp_path: Path, runner: Runner) -> None:
    script = tmp_path / "main.py"
    library = tmp_path / "lib.py"
    script.write_text("import lib\nlib.f()\n")
    library.write_text("def f():\n    return 1\n")
    patched_script = (
        "# a new line\nimport inspect, lib, sys, traceback\n\n"
        "print(inspect.getsource(lib.f))\n"
        "try:\n    lib.f()\nexcept ValueError:\n    traceback.print_exc(file=sys.stdout)\n"
        "print(lib.__cached__ if hasattr(lib, '__cached__') else None)\n"
    )
    patched_library = "# moved\n\ndef f():\n    raise ValueError('patched')\n"
    job = Job(
        "golden",
        Target("script", "main.py", cwd=str(tmp_path)),
        runner.new_directory("overlay"),
        str(tmp_path),
        overlay={str(script): patched_script.encode(), str(library): patched_library.encode()},
    )
    outcome = runner.run(job, 60)
    out = outcome.stdout.decode()
    assert outcome.of(Finished), outcome
    assert "def f():\n    raise ValueError('patched')\n" in out
    assert f'File "{script}", line 6, in <module>\n    lib.f()' in out
    assert f'File "{library}", line 4, in f\n    raise ValueError' in out
    assert not (tmp_path / "__pycache__").exists()
    assert library.read_text() == "def f():\n    return 1\n"


def test_a_stale_bytecode_cache_is_not_used(tmp_path: Path, runner: Runner) -> None:
    library = tmp_path / "lib.py"
    library.write_text("VALUE = 1\n")
    (tmp_path / "main.py").write_text("import lib\nprint(lib.VALUE)\n")
    subprocess.run([sys.executable, "-m", "py_compile", "lib.py"], cwd=tmp_path, check=True)
    job = Job(
        "golden",
        Target("script", "main.py", cwd=str(tmp_path)),
        runner.new_directory("stale"),
        str(tmp_path),
        overlay={str(library): b"VALUE = 2\n"},
    )
    assert runner.run(job, 60).stdout == b"2\n"


def test_instruments_do_not_change_what_a_program_computes(tmp_path: Path, runner: Runner) -> None:
    source = '''
import torch


def f(x, *rest, key=None, **more):
    """A docstring stays one."""
    global COUNT
    COUNT += 1
    total = 0
    for i, (a, b) in enumerate(zip([1, 2], [3, 4])):
        total += a * b if i else a - b
    try:
        {}["missing"]
    except KeyError as error:
        total += len(error.args)
    with open("/dev/null") as null:
        total += null.fileno() > 0
    match rest:
        case [first, *others] if first:
            total += first
        case _:
            pass
    squares = [n * n for n in range(3) if n]
    named = {k: v for k, v in more.items()}
    later = lambda y: y + total
    if (n := len(squares)) > 1 and not named:
        total += n
    while total > 100:
        total -= 1
    del squares
    assert f.__doc__ == "A docstring stays one."
    return f"{later(x):>4}", named, (yielded := list(g(2)))


def g(n):
    for i in range(n):
        got = yield i
    return None


class C(torch.nn.Module):
    def __init__(self):
        super().__init__()


COUNT = 0
print(f(1, 2, key=3), f(5, a=1), COUNT, C())
torch.compile(lambda x: x)(torch.ones(1))
'''
    (tmp_path / "main.py").write_text(source)
    outputs = []
    for instruments in (
        (),
        tuple(Instrument(str(tmp_path / "main.py"), "facts", n) for n in (6, 42, 48)),
    ):
        job = Job(
            "golden",
            Target("script", "main.py", cwd=str(tmp_path)),
            runner.new_directory("instruments"),
            str(tmp_path),
            instruments=instruments,
        )
        outcome = runner.run(job, 60)
        assert not outcome.of(Failed), outcome.of(Failed)
        outputs.append(outcome.stdout)
    assert outputs[0] == outputs[1] != b""


def test_events_survive_a_crash(tmp_path: Path, runner: Runner) -> None:
    (tmp_path / "main.py").write_text(COMPILED + "f(torch.ones(1))\nimport os\nos.abort()\n")
    job = Job(
        "golden",
        Target("script", "main.py", cwd=str(tmp_path)),
        runner.new_directory("crash"),
        str(tmp_path),
    )
    outcome = runner.run(job, 60)
    assert (outcome.ended, outcome.detail) == ("crash", "SIGABRT")
    assert [seen.name for seen in outcome.of(RegionSeen)] == ["f"]


# -- the user's files ----------------------------------------------------------------------------


def test_to_look_for_a_temporary_folder_is_not_to_write(tmp_path: Path, runner: Runner) -> None:
    source = "import tempfile\ntempfile.tempdir = None\nprint(tempfile.gettempdir())\n"
    (tmp_path / "main.py").write_text(source)
    runner.begin()
    for extra, writes in (("", False), ("tempfile.mkstemp()", True)):
        (tmp_path / "main.py").write_text(source + extra)
        target = Target("script", "main.py", cwd=str(tmp_path))
        job = Job("golden", target, runner.new_directory("temporary"), str(tmp_path))
        outcome = runner.run(job, 60)
        assert outcome.stdout and not outcome.of(Failed)
        assert runner.wrote_files() == writes
    runner.restore_files()


def test_files_are_as_they_were_whatever_the_program_writes(
    gbfix_run: Gbfix, tmp_path: Path
) -> None:
    (tmp_path / "log.txt").write_text("mine\n")
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "goes.txt").write_text("goes\n")
    before = {path.name: path.read_text() for path in tmp_path.glob("*.txt")}
    report = gbfix_run(
        """
        import os, torch

        os.makedirs("made/deep", exist_ok=True)
        os.rename("old.txt", "made/new.txt")
        os.remove("goes.txt")


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            with open("log.txt", "a") as log:
                log.write(f"{x.sum()}")
            torch.save(x, "weights.pt")
            return x + 1

        f(torch.ones(2))
        open("made/deep/out.txt", "w").write("done")
        """
    )
    assert report.regions[0].calls == 1, report.errors
    assert not [error for error in report.errors if error.kind == "nondeterministic"]
    assert {path.name: path.read_text() for path in tmp_path.glob("*.txt")} == before
    assert not (tmp_path / "weights.pt").exists()
    assert not (tmp_path / "made").exists()


def test_the_names_of_gradient_functions_are_nobodys_output() -> None:
    one = Outcome([], stdout=b"loss tensor(1.5, grad_fn=<AddBackward0>)\n")
    other = Outcome([], stdout=b"loss tensor(1.5,\n       grad_fn=<CompiledFunctionBackward>)\n")
    third = Outcome([], stdout=b"loss tensor(1.6, grad_fn=<AddBackward0>)\n")
    assert one.shown == other.shown != third.shown
    assert Outcome([], stdout=b"tensor(1.5)\n").shown != one.shown


def test_a_printed_tensor_may_show_a_gradient_function_or_none() -> None:
    one = Outcome([], stdout=b"tensor([1.,\n        2.], grad_fn=<MulBackward0>) done\n")
    other = Outcome([], stdout=b"tensor([1.,\n        2.]) done\n")
    assert one.shown != other.shown
    assert one.shown_values[0] == other.shown_values[0]
    assert one.shown_values[1] > other.shown_values[1] == frozenset()


def test_the_seconds_that_pytest_prints_are_nobodys_output() -> None:
    one, other, third = (
        Outcome([], stdout=text) for text in (b"1 passed in 0.31s", b"1 passed in 0.32s", b"1.31s")
    )
    assert one.shown == other.shown
    assert third.shown == third.stdout


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="not warmed up where there is a GPU")
def test_warming_up_leaves_nothing_that_a_program_could_see() -> None:
    code = """
        import os, random, warnings
        warnings.simplefilter("error")
        from gbfix.worker import zygote
        zygote._preload(zygote.FIRST)
        zygote._preload(zygote.SECOND)
        import numpy, torch, torch._dynamo.trace_rules
        def state():
            numbers = torch.get_rng_state().tolist(), random.getstate()
            settings = torch.is_grad_enabled(), torch.get_num_threads(), list(warnings.filters)
            threads = len(os.listdir("/proc/self/task"))
            return numbers, str(numpy.random.get_state()), settings, threads
        table = torch._dynamo.trace_rules.get_tensor_method
        before = state(), table.cache_info().currsize
        zygote._warm_up()
        after = state()
        assert after == before[0] and before[1] == 0, (after[2:], before[0][2:])
        print("filled:", table.cache_info().currsize)
    """
    environment = {n: v for n, v in os.environ.items() if not n.startswith("TORCH")}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    assert "filled: 1" in result.stdout


def test_what_only_tracing_raises_is_a_break(gbfix_run: Gbfix) -> None:
    source = """
        import torch

        class Rows:
            def __init__(self, x):
                self.x = x

            def __getitem__(self, index):
                return self.x[index]

        @torch.compile
        def total(x):
            out = torch.zeros(3)
            for row in Rows(x):
                out = out + row
            return out

        @torch.compile
        def third(x):
            return x[3]

        print(total(torch.ones(2, 3)))
        try:
            third(torch.ones(2))
        except IndexError:
            print("too short")
    """
    report = gbfix_run(source)
    (found,) = report.breaks
    assert found.graph_break.code == "internal-error"
    assert found.graph_break.region.endswith("::total")


def test_a_compiled_function_in_an_eager_vmap_is_not_clean(gbfix_run: Gbfix) -> None:
    source = """
        import torch

        @torch.compile
        def energy(x):
            return (x * x).sum()

        print(torch.func.vmap(energy)(torch.ones(2, 3)))
    """
    report = gbfix_run(source)
    assert [item.graph_break.code for item in report.breaks] == ["GB0149"]
    assert not report.patches


def test_an_error_of_the_compiler_that_the_program_wraps_is_a_break(gbfix_run: Gbfix) -> None:
    source = """
        import torch

        @torch.library.custom_op("here::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @double.register_fake
        def _(x):
            raise RuntimeError("not for fake tensors")

        def inner(x):
            return double(x) + 1

        @torch.compile
        def f(x):
            try:
                torch._dynamo.graph_break()
                return inner(x)
            except Exception as error:
                raise ValueError(repr(error)) from error

        print(f(torch.ones(3)))
    """
    report = gbfix_run(source)
    assert [item.graph_break.code for item in report.breaks] == ["GB0025", "torch-runtime-error"]
    assert not report.patches


LAZY = """
import collections

import torch


class Table(collections.OrderedDict):
    def items(self):
        raise ValueError("all of it was asked for")

    keys = values = __iter__ = items


TABLE = Table()


@torch.compile
def f(x):
    if x.sum() > len(TABLE):
        return x + 1
    return x - 1


f(torch.ones(3))
"""


def test_a_table_that_loads_what_is_asked_for_is_not_asked(gbfix_run: Gbfix) -> None:
    report = gbfix_run(LAZY)
    assert not report.errors
    assert [item.status for item in report.breaks] == ["fixed"]


def test_what_a_dictionary_holds_is_read_in_its_order() -> None:
    import collections

    from gbfix.worker.values import items_of

    class Silent(dict[str, int]):
        def items(self) -> Any:
            return []

    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert items_of(ordered) == [("b", 2), ("a", 1)]
    assert items_of(Silent(a=1)) == [("a", 1)]
    assert items_of(collections.ChainMap({"a": 1})) == [("a", 1)]
