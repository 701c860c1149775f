"""Runs one job in a child of the fork server: the user's program, watched.

At each recorded call the child forks again: what is tried there (tracing, compiling, varied
inputs) leaves no trace in the program, which then goes on with its own plain call.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import hashlib
import os
import pickle
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gbfix.evidence import Finding, Kind, Part
from gbfix.registry import Registry
from gbfix.schema import GraphBreak
from gbfix.worker import (
    children,
    edges,
    factlog,
    fakecheck,
    fakesizes,
    fileguard,
    instrument,
    kept_inputs,
    overlay,
    perturb,
    prepare,
    program,
    resident,
    swap,
    timing,
    tracing,
    zygote,
)
from gbfix.worker.afterlife import Afterlife
from gbfix.worker.as_user import AsUser
from gbfix.worker.branch_graphs import keep_graphs_of_branches
from gbfix.worker.compare import Comparison, error_text, moves, sensitivity
from gbfix.worker.effects import EffectRecorder
from gbfix.worker.forks import Forks, cannot_fork
from gbfix.worker.protocol import (
    IN_VAIN,
    VAIN,
    CallKind,
    CallsMade,
    Compared,
    EventWriter,
    Failed,
    Finished,
    Job,
    Nondeterministic,
    OperatorSizes,
    RegionCalled,
    Traced,
)
from gbfix.worker.recorder import Recorder, Region, real_compile
from gbfix.worker.shots import Call, Camera, Shot, TookTooLong
from gbfix.worker.sizes import Sizes
from gbfix.worker.unchecked import recurrent_inputs_checked
from gbfix.worker.values import Project, is_same_state

SEED = 20250728


def run_job(directory: str) -> int:
    """Run the job described in the directory; the child's exit status."""
    return Worker(read_job(directory)).run()


def read_job(directory: str) -> Job:
    """The job described in the directory; what this process prints goes there from now on."""
    with open(os.path.join(directory, "job"), "rb") as file:
        job: Job = pickle.load(file)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        target = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(target, fd)
        os.close(target)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    return job


class Worker:
    """The child's side of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.project = Project(job.root, job.exclude, job.include)
        self.writer = EventWriter(os.path.join(job.directory, "events"))
        self.effects = EffectRecorder((job.directory, os.path.dirname(job.directory)))
        self.facts = factlog.FactLog(self.project)
        self.watch = fileguard.Watch()
        self._ignored = (job.directory, os.path.dirname(job.directory))
        self.watch.guards.append(fileguard.FileGuard(job.guard, self._ignored))
        self.afterlife = Afterlife()
        self.forks = Forks(job, self.writer, self.watch, self._ignored)
        #: Labels of inputs for which the original's process came to an end.
        self._crashing: set[str] = set()
        self.overlay = overlay.Overlay(job.overlay, job.instruments, instrument.transform)
        handlers = {
            "golden": self._golden,
            "facts": self._facts,
            "candidate": self._candidate,
            "user": self._user,
            "measure": self._measure,
            "inputs": self._inputs,
        }
        self.recorder = Recorder(
            self.project,
            job.calls + job.more_calls,
            job.calls,
            handlers[job.mode],
            self.writer.write,
            self._satisfied,
            others=_NEW_KINDS if job.mode in _ALL_CALLS else 0,
        )
        self._started = time.monotonic()
        self._recorded = 0
        self._compiled: dict[tuple[int, str], Any] = {}
        self._as_user = AsUser(self.project)
        self._loaded = dict(sys.modules)

    # -- the program -------------------------------------------------------------------------

    def run(self) -> int:
        self._prepare()
        status = 0
        try:
            status = program.run_program(self.job.target, self.overlay, self.job.calls)
        except program.ProgramError as error:
            self.writer.write(Failed("target", str(error)))
            return 0
        except BaseException as error:
            self._flush()
            self.writer.write(self._failure(error))
            return 0
        self._flush()
        self._finish(status=status)
        return 0

    def _prepare(self) -> None:
        torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED % 2**32)
        sys.dont_write_bytecode = True
        sys.excepthook = sys.__excepthook__
        if self.job.memory_limit:
            prepare.limit_memory(self.job.memory_limit)
        hooks = {
            instrument.SEE: self.facts.see,
            instrument.LOCALS: self.facts.locals,
            instrument.TEST: self.facts.test,
            instrument.HELD: self.facts.held,
            instrument.FORCE: factlog.force,
            instrument.SIZE: factlog.size,
            instrument.OBSERVE: self.recorder.observe,
        }
        for name, hook in hooks.items():
            setattr(builtins, name, hook)
        overlay.install(self.overlay)
        prepare.announce_saves()
        if self.job.mode != "measure":
            tracing.skip_guard_timing()
        self.effects.install()
        self.watch.install()
        self.recorder.install()
        if self.job.mode == "golden":
            self.recorder.tells_of_children = True
            children.tell_spawned(os.path.join(self.job.directory, "events"))
        for name in ("__main__", "gbfix.worker.job", "gbfix.worker.program"):
            # The program must not find our modules in place of its own.
            if name == "__main__":
                sys.modules.pop(name, None)

    def _finish(self, *, status: int = 0, stopped: bool = False) -> None:
        files = []
        for name, module in list(sys.modules.items()):
            if self._loaded.get(name) is module:
                continue  # was there before the program
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or not os.path.isabs(path) or not path.endswith(".py"):
                continue
            if self.project.owns(path):
                files.append(os.path.realpath(path))
        if self.job.instruments:
            for item in self.job.instruments:
                if item.action == "facts":
                    self.writer.write(self.facts.seen(item.path, item.line))
        if self.job.mode == "golden":
            self.writer.write(self.afterlife.seen())
            for region in self.recorder.regions.values():
                self.writer.write(CallsMade(region.key, region.made))
        self.writer.write(Finished(tuple(sorted(set(files))), stopped, status))

    def _failure(self, error: BaseException) -> Failed:
        return prepare.failure(error, self.project)

    def _satisfied(self, satisfied: bool) -> None:
        if self.job.only is not None:
            return  # it ends by itself
        marker = os.path.join(self.job.directory, "satisfied")
        if satisfied:
            with open(marker, "w"):
                pass
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(marker)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    # -- what a call of a region does ---------------------------------------------------------

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return Call(target, args, kwargs, self.project)

    def _go_on(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The program's own call, uncompiled."""
        self.writer.write(RegionCalled(region.key, index))
        try:
            result = target(*args, **kwargs)
            if self.job.mode == "golden":
                self.afterlife.keep(region.key, (args, kwargs, result))
        except Exception as error:
            failure = self._failure(error)
            self.writer.write(
                Failed("region-error", failure.message, failure.path, failure.line,
                       failure.traceback, region.key, index)
            )  # fmt: skip
            raise
        finally:
            self._count()
        return result

    def _count(self) -> None:
        self._recorded += 1
        if self.forks.inside:
            return
        if self.job.stop_after and self._recorded >= self.job.stop_after:
            self._flush()
            self._finish(stopped=True)
            os._exit(0)

    def _golden(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        after = time.monotonic() - self._started
        if self.job.residents and not self._recorded and after > resident.HEAVY:
            zygote.load_all()  # once here, or else in each fork of each job at the calls
        call = self._call(target, args, kwargs)
        work: list[tuple[str, Callable[[], None]]] = [
            ("eager", lambda: self._keep_shots(region, index, call))
        ]
        if not self.job.values_only:
            work.append(("trace", lambda: self._trace(region, index, call)))
        self._fork_all(region, index, work)
        self._keep_others(region, index, call)
        if self.job.residents:
            self._settle(region, index, call, after)
        return self._go_on(region, index, target, args, kwargs)

    def _facts(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Like golden, instrumented: where the two differ, the program is not deterministic."""
        call = self._call(target, args, kwargs)
        self._fork_all(region, index, [("facts", lambda: self._repeat_shots(region, index, call))])
        self.facts.recording = True
        return self._go_on(region, index, target, args, kwargs)

    def _candidate(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not (self.job.brief and index):
            self._try_candidate(region, index, self._call(target, args, kwargs))
            if self.forks.vain:
                self._finish(stopped=True)
                os._exit(0)
        return self._go_on(region, index, target, args, kwargs)

    def _try_candidate(self, region: Region, index: int, call: Call) -> None:
        golden = self._golden_path(region.key, index, self.job.golden)
        if not os.path.exists(golden):
            # A region that the patch made (the halves of a split): it must be one graph, and its
            # values are judged where the original function is observed.
            self._fork_all(region, index, [("trace", lambda: self._trace(region, index, call))])
            return
        compare = functools.partial(self._compare_compiled, region, index, call, golden)
        compiled: list[tuple[str, Callable[[], None]]] = [
            (backend, functools.partial(compare, backend)) for backend in self.job.backends
        ]
        first, rest = compiled[:2], compiled[2:]
        if not self.job.brief:
            first.append(("eager", lambda: self._compare_eager(region, index, call, golden)))
        self.effects.writes_files = any(shot.effects.writes_files for shot in _load(golden))
        groups = [first, rest]
        if self.effects.writes_files:
            # Side by side they would write the same files, and see each other do it.
            groups = [[item] for item in first + rest]
        for group in groups:
            if group and not self._fork_all(region, index, group, _PATIENCE if compiled else 0.0):
                break

    # -- jobs that are done at a recorded call -------------------------------------------------

    def _settle(self, region: Region, index: int, call: Call, after: float) -> None:
        """Leave a resident here (`gbfix.worker.resident`)."""
        if cannot_fork():
            return
        if self._recorded >= resident.MOST:
            return
        self._flush()
        folder = os.path.join(os.path.dirname(self.job.directory), resident.FOLDER)
        about: dict[str, object] = {
            "key": region.key,
            "index": index,
            "golden": self.job.directory,
            "after": after,
        }
        roots = (call.target, type(call.target), *(type(item) for item in call.args[:1]))
        texts = {os.path.realpath(path): data for path, data in self.job.overlay.items()}
        loaded = swap.Loaded(self.project.owns, roots, texts=texts)

        def work(directory: str) -> None:
            self._do_here(directory, region, index, call, loaded)

        def prepare(directory: str) -> None:
            Registry.load()
            with open(os.path.join(directory, "job"), "rb") as file:
                job: Job = pickle.load(file)
            for path in {*job.overlay, *(item.path for item in job.instruments)}:
                loaded.prepare(os.path.realpath(path))
            golden = self._golden_path(region.key, index, job.golden)
            if golden not in _kept and os.path.getsize(golden) < _MOST_KEPT:
                _kept[golden] = _load(golden)

        resident.settle(folder, about, work, prepare)

    def _do_here(
        self, directory: str, region: Region, index: int, call: Call, loaded: swap.Loaded
    ) -> None:
        """One job, with its texts swapped in; in a process of its own."""
        self.job = job = read_job(directory)
        self.writer = EventWriter(os.path.join(directory, "events"))
        self.forks = Forks(job, self.writer, self.watch, self._ignored)
        try:
            self.overlay.replace(job.overlay, job.instruments)
            loaded.swap(self.overlay)
        except Exception as error:
            # Whatever it is that cannot be done here, a run from the start can or says why.
            self.writer.write(Failed("swap", f"{type(error).__name__}: {error}", key=region.key))
            return
        self.writer.write(RegionCalled(region.key, index))
        if job.mode == "facts":
            work = [("facts", lambda: self._repeat_shots(region, index, call))]
            self._fork_all(region, index, work)
        elif job.mode == "golden":
            self._fork_all(
                region, index, [("eager", lambda: self._keep_shots(region, index, call))]
            )
            self._keep_others(region, index, call)
        elif job.mode == "user":
            if index == 0:  # what a later call recompiles, only one process with all calls knows
                self._fork_all(region, index, [("user", lambda: self._user_here(region, call))])
        elif not (job.brief and index):
            self._try_candidate(region, index, call)
            if self.forks.vain:
                open(os.path.join(directory, VAIN), "w").close()

    def _user_here(self, region: Region, call: Call) -> None:
        with contextlib.suppress(Exception):  # of the program; noted where it belongs
            self._user(region, 0, call.target, call.args, call.kwargs)

    def _user(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            return self._as_user.call(region, index, target, args, kwargs, self.writer.write)
        finally:
            self._count()

    def _inputs(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if index == 0:
            kept_inputs.keep(self.job.directory, region.key, target, args, kwargs)
        return self._go_on(region, index, target, args, kwargs)

    def _measure(
        self, region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        # What the original does not have, it does not wait for.
        if index == 0 and os.path.exists(self._golden_path(region.key, 0, self.job.golden)):
            work = [("measure", lambda: self._take_turns(region, target, args, kwargs))]
            if cannot_fork():
                work[0][1]()
            else:
                self._fork_all(region, index, work)
        return self._go_on(region, index, target, args, kwargs)

    def _take_turns(
        self, region: Region, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        tracing.prepare_timing()
        timing.warm_up(real_compile, region.options)
        turns = timing.Turns(self.job.turns, self.job.side, limit=300.0)
        self.recorder.inner = lambda inner, one: real_compile(inner, **one.options)
        compiled = target if region.observed_only else real_compile(target, **region.options)
        timing.measure(region.key, compiled, args, kwargs, turns, self.writer.write)

    def _keep_others(self, region: Region, index: int, call: Call) -> None:
        """Once more without the inputs for which the original crashed: its kernels take no others.

        A process that a signal ends has kept none of its shots.
        """
        path = self._golden_path(region.key, index, self.job.home or self.job.directory)
        for _ in range(_CRASHES):
            if cannot_fork() or os.path.exists(path) or not os.path.exists(f"{path}.at"):
                return
            with open(f"{path}.at") as file:
                label = file.read()
            if label in ("", "base") or label in self._crashing:
                return
            self._crashing.add(label)
            self._fork_all(
                region, index, [("eager", lambda: self._keep_shots(region, index, call))]
            )

    # -- work inside a fork ------------------------------------------------------------------

    def _keep_shots(self, region: Region, index: int, call: Call) -> None:
        """The original's shots; a call that does not end on invented inputs gives none there."""
        tracing.set_quiet()
        camera = Camera(call, self.effects)
        self.writer.write(CallKind(region.key, index, camera.kinds()))
        shots: list[Shot] = []
        limit = 0.0
        path = self._golden_path(region.key, index, self.job.home or self.job.directory)
        at = os.open(f"{path}.at", os.O_WRONLY | os.O_CREAT)
        for variation in self._known_and_edges(index, camera, call, shots, at):
            if variation.kind == "first" and not camera.has_moved:
                continue  # every call is a first one
            if not _says(at, variation.label, self._crashing):
                continue
            if shots and perturb.left_out(variation, shots[0].seconds):
                continue
            before = camera.state() if limit else {}
            try:
                with recurrent_inputs_checked():
                    shots += camera.shoot(call.target, [variation], seconds=limit)
            except TookTooLong:
                if camera.state() != before:
                    # What follows would start from a state that no other process can reach.
                    break
            if not limit and shots:
                limit = max(_SHOT_SECONDS, 30 * shots[0].seconds)
        with open(path, "wb") as file:
            torch.save(shots, file)

    def _known_and_edges(
        self, index: int, camera: Camera, call: Call, shots: Sequence[Shot], at: int
    ) -> Iterator[perturb.Variation]:
        """The variations of an original: what all calls go through, then what its own text asks.

        ``at`` is the file that says what is tried.
        """
        yield from self._variations("eager", index)
        plain = not (index or self.job.values_only or cannot_fork())
        quick = min((shot.seconds for shot in shots), default=_QUICK) < _QUICK
        plain = plain and quick and not any(shot.effects.writes_files for shot in shots)
        if plain and _says(at, "search", self._crashing):
            yield from edges.find(camera, call.target, self.project, _SEARCH_SECONDS)
        if not (index or self.job.values_only):
            yield from perturb.LAST
        if not index:
            yield perturb.NUDGED
            yield from perturb.CHAOS

    def _with_edges(self, index: int, golden: Iterable[str]) -> tuple[perturb.Variation, ...]:
        """The variations that an original's shots were taken of, as far as they are known here."""
        found = (perturb.toward(label) for label in golden if label.startswith("edge "))
        return (*self._variations("eager", index), *found, *self._asked_for())

    def _repeat_shots(self, region: Region, index: int, call: Call) -> None:
        path = self._golden_path(region.key, index, self.job.golden)
        tracing.set_quiet()
        camera = Camera(call, self.effects)
        comparison = Comparison("eager")
        golden = {shot.label: shot for shot in _load(path)} if os.path.exists(path) else {}
        spent = golden["base"].seconds if "base" in golden else 0.0
        for variation in self._with_edges(index, golden):
            if golden and variation.label not in golden:
                continue
            if perturb.left_out(variation, spent, repeated=True):
                continue
            self.facts.recording = variation.label == "base"
            for shot in camera.shoot(call.target, [variation]):
                if shot.label in golden:
                    comparison.add(golden[shot.label], shot)
        for item in self.job.instruments:
            if item.action == "facts":
                self.writer.write(self.facts.seen(item.path, item.line))
        if comparison.findings:
            self.writer.write(Nondeterministic(region.key, index, tuple(comparison.findings)))

    def _compare_eager(self, region: Region, index: int, call: Call, golden: str) -> None:
        # torch.cond compiles itself even in eager: its log lines are not the program's.
        tracing.set_quiet()
        keep_graphs_of_branches()
        camera = Camera(call, self.effects)
        before = {shot.label: shot for shot in _load(golden)}
        comparison = Comparison("eager", moves=moves(before))
        operators: dict[str, fakecheck.Called] = {}
        failed: set[str] = set()
        for variation in self._with_edges(index, before):
            shot = before.get(variation.label)
            kind, *values = variation.label.split("+")
            if shot is None or (values and kind in failed):
                # Other values of inputs whose kind the patch does not take add nothing to that.
                continue
            limit = 0.0 if variation.label == "base" else 20.0 + 20 * shot.seconds
            try:
                with fakecheck.checked() as called:
                    after = list(camera.shoot(call.target, [variation], seconds=limit))
            except TookTooLong:
                comparison.note(_about_run(Kind.SLOW, variation, after=f"{limit:.0f} s"))
                break
            if not after:
                comparison.note(_about_run(Kind.NOT_TRIED, variation))
            for item in after:
                comparison.add(shot, item)
                fails = item.error is not None and shot.error is None
                failed |= {item.label} if fails else set()
                if fails and item.label == "base" and self._is_of_a_break():
                    # The recorded call itself fails now: what others do is of no interest.
                    self._say(region, index, "eager", comparison)
                    os._exit(IN_VAIN)
            operators = {**called, **operators}
        if self.job.operators and not index:
            for name, first in operators.items():
                sizes = self.job.operators == "sizes"
                found = fakesizes.told(first.operator, first.args, first.kwargs, sizes=sizes)
                if found is not None:
                    self.writer.write(OperatorSizes(region.key, name, found))
        if operators and not index:
            for text in fakecheck.expanded(camera, call.target):
                comparison.note(_about_run(Kind.PROMISE, perturb.EXPANDED, detail=text))
        self._say(region, index, "eager", comparison)

    def _trace(self, region: Region, index: int, call: Call) -> None:
        """One call under ``fullgraph=True``: one graph, or the first break."""
        tracing.prepare_compiler("eager")
        checked = tracing.make_compiled(
            call.target,
            tracing.checked,
            fullgraph=True,
            dynamic=region.dynamic,
            compile_=real_compile,
        )
        compiled = tracing.Counted(checked)
        camera, base = Camera(call, self.effects), perturb.VALUES[:1]
        met: list[BaseException] = []

        def fatal(error: BaseException) -> bool:
            met.append(error)
            return tracing.is_break(error)

        try:
            list(camera.shoot(compiled, base, fatal=fatal))
            plain = camera.shoot(call.target, base)
            if met and tracing.is_from_tracing(met[0]) and not any(one.error for one in plain):
                raise met[0]
        except Exception as error:
            found = tracing.extract(error, region.key, self.project)
            self.writer.write(Traced(region.key, index, "eager", (found,), error=str(error)[:2000]))
            return
        self.writer.write(Traced(region.key, index, "eager", (), graphs=1))

    def _compare_compiled(
        self, region: Region, index: int, call: Call, golden: str, backend: str
    ) -> None:
        """The ladder's compiled rung: fullgraph if that compiles, else what compiles of it."""
        tracing.prepare_compiler(backend)
        keep_graphs_of_branches()
        before = {shot.label: shot for shot in _load(golden)}
        rung = f"fullgraph-{backend}"
        comparison = Comparison(backend, graphs=True, moves=moves(before))
        if perturb.NUDGED.label in before and backend != "eager":
            comparison.sensitivity = sensitivity(before["base"], before[perturb.NUDGED.label])
        done: set[str] = set()
        noted = self.job.sizes and backend == "eager" and not region.observed_only
        sizes = Sizes(self.project) if noted else None
        known = self._golden_path(region.key, index, self.job.directory) + _BROKEN
        if self.job.broken or os.path.exists(known):
            rung = f"partial-{backend}"
            self._with_breaks(region, index, call, backend, before, comparison, done)
            self._say(region, index, rung, comparison, done)
            return
        try:
            self._sequence(
                region, index, call, backend, before, comparison, done, fullgraph=True, sizes=sizes
            )
        except Exception as error:
            if not tracing.is_break(error):
                raise
            found = tracing.extract(error, region.key, self.project)
            if self._in_vain(found):
                self.writer.write(
                    Traced(region.key, index, backend, (found,), error=str(error)[:2000])
                )
                os._exit(IN_VAIN)
            shot = before.get("base")
            if shot is None or shot.error is None:
                self.writer.write(
                    Traced(region.key, index, backend, (found,), error=str(error)[:2000])
                )
            # Not one graph (yet): what is there must still do what the original does.
            # Calls that went well are not made again: Python state goes on from them.
            rung = f"partial-{backend}"
            if self._is_beside(backend) and not self.job.every:
                # All that breaks for one backend breaks for the other, which adds what it does.
                open(known, "w").close()
            else:
                tracing.prepare_compiler(backend)
                self._with_breaks(region, index, call, backend, before, comparison, done)
        else:
            self.writer.write(Traced(region.key, index, backend, (), graphs=1))
            if sizes is not None:
                self.writer.write(sizes.event(region.key, index))
        self._say(region, index, rung, comparison, done)

    def _with_breaks(
        self,
        region: Region,
        index: int,
        call: Call,
        backend: str,
        before: dict[str, Shot],
        comparison: Comparison,
        done: set[str],
    ) -> None:
        """What compiles of a region that has breaks, against what the original gave."""
        # A break in a loop compiles what follows anew for each round, on a stack that grows.
        tracing.limit_recompiles(_ROUNDS_COMPILED)
        try:
            self._sequence(region, index, call, backend, before, comparison, done, fullgraph=False)
        except Exception as error:
            text = tracing.first_line(error)
            comparison.note(Finding(Kind.FAILS_TO_COMPILE, Part.RUN, detail=text))

    def _sequence(
        self,
        region: Region,
        index: int,
        call: Call,
        backend: str,
        before: dict[str, Shot],
        comparison: Comparison,
        done: set[str],
        *,
        fullgraph: bool,
        sizes: Sizes | None = None,
    ) -> None:
        """Calls of the variations but those that are ``done``, to which they are added."""
        if region.observed_only:
            self.recorder.inner = lambda target, inner: self._compile(
                target, inner, backend, fullgraph=fullgraph
            )
            compiled = call.target
        else:
            compiled = self._compile(call.target, region, backend, fullgraph=fullgraph, sizes=sizes)
        counted = tracing.Counted(compiled) if fullgraph and not region.observed_only else None
        compiled = counted or compiled
        camera = Camera(call, self.effects)
        begun, ended, stopped = 0.0, False, False
        started_with = camera.state()
        each = (*self._variations(f"fullgraph-{backend}", index), *self._asked_for())
        for number, variation in enumerate(each):
            left = stopped and variation.kind != "none"
            if variation.label not in before or variation.label in done or left:
                continue
            # A region that compiles anew for every input would take minutes: then fewer do.
            spent = time.monotonic() - begun if begun else 0.0
            enough = self._enough(backend, fullgraph=fullgraph)
            late = spent > enough * (1 if variation.kind in _SERVED else 2)
            if self._is_left_out(variation, late, before):
                # Python state must have seen the same calls as in the original's sequence, but for
                # those that left it alone.
                counts = _leaves_state(before[variation.label], camera, started_with)
                wanted = {it.label for it in each[number:]} & self.job.also & before.keys() - done
                stopped |= counts and (late or not wanted)
                if stopped or not counts:
                    continue
            if variation.label in ("grad", "grown", "aliased", "settled"):
                # These compile anew in any case; from scratch, they stay apart from the rest.
                torch._dynamo.reset()
                self._compiled.clear()
                if not region.observed_only:
                    compiled = self._compile(
                        call.target, region, backend, fullgraph=fullgraph, sizes=sizes
                    )
                    if counted is not None:
                        compiled = counted = tracing.Counted(compiled, counted.frames)
            original = before[variation.label]
            if sizes is not None:
                sizes.label = variation.label

            def fatal(error: BaseException, original: Shot = original) -> bool:
                # Where the original raises too, the two errors are compared instead: at the call
                # itself with the breaks that are left, as one of them may come before the error.
                is_call = fullgraph and original.label == "base"
                compared = original.error is not None and not is_call
                return not compared and tracing.is_break(error)

            try:
                for shot in camera.shoot(compiled, [variation], fatal=fatal):
                    comparison.add(original, shot)
                    ended |= original.error is None
                begun = begun or time.monotonic()
                done.add(variation.label)
                self.forks.go_ahead()
            except Exception as error:
                if variation.kind not in _OTHER_KINDS or not tracing.is_break(error):
                    raise
                comparison.note(_about_break(variation, error, original))
        if counted is not None and not counted.frames and ended and index == 0:
            comparison.note(Finding(Kind.NOTHING_COMPILED, Part.RUN))

    def _enough(self, backend: str, *, fullgraph: bool) -> float:
        """Seconds in which all variations are tried.

        What Dynamo traced for ``eager``, ``aot_eager`` runs, too, with the same inputs.  A region
        that still has breaks compiles piece by piece, and is compared again once it is whole.
        """
        if not fullgraph:
            return _PARTIAL_SECONDS
        return _FEW_SECONDS if self._is_beside(backend) else _SEQUENCE_SECONDS

    def _is_beside(self, backend: str) -> bool:
        """Whether another backend is given all that this one is given, and does more with it."""
        return backend == "eager" and "aot_eager" in self.job.backends

    def _asked_for(self) -> tuple[perturb.Variation, ...]:
        """The variations that not every rewrite needs."""
        sizes = perturb.SIZES if self.job.sizes else ()
        if self.job.widths:
            sizes = tuple(it for it in sizes if it is not perturb.UNITS)
        return tuple(i for i in perturb.LAST if i in sizes or i.label in self.job.also)

    def _is_left_out(
        self, variation: perturb.Variation, late: bool, before: dict[str, Shot]
    ) -> bool:
        """Whether there is no time for a variation, as others say enough."""
        if self.job.brief and variation.kind == "grad" and before["base"].grads:
            return True
        essential = _ESSENTIAL | self.job.also
        return (late or self.job.brief) and variation.label not in essential

    def _compile(
        self,
        target: Any,
        region: Region,
        backend: str,
        *,
        fullgraph: bool,
        sizes: Sizes | None = None,
    ) -> Any:
        key = (id(target), f"{region.key}/{backend}/{fullgraph}")
        if key not in self._compiled:
            self._compiled[key] = tracing.make_compiled(
                target,
                backend if sizes is None else sizes.backend,
                fullgraph=fullgraph,
                dynamic=region.dynamic,
                compile_=real_compile,
            )
        return self._compiled[key]

    def _say(
        self,
        region: Region,
        index: int,
        rung: str,
        comparison: Comparison,
        labels: Iterable[str] = (),
    ) -> None:
        self.writer.write(
            Compared(
                region.key,
                index,
                rung,
                tuple(comparison.findings),
                comparison.count,
                frozenset(comparison.refused),
                frozenset(labels),
            )
        )

    def _variations(self, mode: str, index: int) -> tuple[perturb.Variation, ...]:
        """All that the mode knows for the first call; later calls bring inputs of their own."""
        if self.job.rebind:
            names = self.job.rebind if index == 0 else ()
            others = (perturb.Variation(f"rebound {name}", None, "rebound") for name in names)
            # What was compiled before the change is what may not see it.
            return (*perturb.VALUES[:1], *others)
        chosen = perturb.variations(mode)
        if index > 0:
            return tuple(item for item in chosen if item.label in _LATER_CALLS)
        if self.job.constant_state:
            return tuple(item for item in chosen if item.kind != "state")
        return chosen

    def _golden_path(self, key: str, index: int, directory: str) -> str:
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return os.path.join(directory, f"{digest}-{index}.golden")

    # -- forks -------------------------------------------------------------------------------

    def _fork_all(
        self,
        region: Region,
        index: int,
        work: Sequence[tuple[str, Callable[[], None]]],
        patience: float = 0.0,
    ) -> bool:
        """Run each piece of work in a process of its own; whether all ended well."""
        self._flush()
        return self.forks.run(region.key, index, work, patience)

    def _is_of_a_break(self) -> bool:
        """Whether the job tries a patch of one break, of which a first failure says enough."""
        return bool(self.job.avoid_lines) and not self.job.operators

    def _in_vain(self, found: GraphBreak) -> bool:
        """Whether the break that a candidate was to remove is still there."""
        site = found.site
        if site is None or site.line not in self.job.avoid_lines:
            return False
        if os.path.realpath(site.path) != os.path.realpath(self.job.avoid_path):
            return False
        return found.code == self.job.avoid_code or not found.code.startswith("GB")


#: How many inputs that end the original's process are found, one after the other.
_CRASHES = 4
#: Later calls of new kinds that are recorded, too, and the jobs that go by all calls.
_NEW_KINDS = 2
_ALL_CALLS = frozenset({"golden", "facts", "candidate", "user"})
#: What later calls are varied in: they bring inputs and a state of their own.
_LATER_CALLS = frozenset({"base", "negated", "fewer"})
#: Seconds that the original may take on varied inputs (or 30 times the recorded call's).
_SHOT_SECONDS = 3.0
#: Seconds that a call may take if edges are looked for, and what the search for them may take.
_QUICK, _SEARCH_SECONDS = 0.1, 1.0
#: Seconds that the first backend has to meet the break again before others share the processor.
_PATIENCE = 0.3
#: Seconds after the first call of a compiled sequence in which all variations are tried.  Later
#: only the essential ones are, as the number of comparisons then shows.
_SEQUENCE_SECONDS = 20.0
#: The same where more is compared elsewhere.
_FEW_SECONDS = 6.0
_PARTIAL_SECONDS = 2.0
#: What the name of a file ends in that says that a call's region still has breaks.
_BROKEN = ".broken"
#: How often code with breaks in it is compiled anew in a comparison.
_ROUNDS_COMPILED = 32
#: Variations for which the compiler starts anew, and may refuse what it took before.
_OTHER_KINDS = frozenset({"shape", "grad", "alias", "numbers", "instance", "rebound"})
_ESSENTIAL = frozenset({"base", "again", "first-negated", "redrawn", "negated", "grad"})
#: Variations that compile nothing anew.
_SERVED = frozenset({"values", "first", "state"})


#: What a process at a recorded call has loaded for all of its jobs, unless it is larger than this.
_kept: dict[str, list[Shot]] = {}
_MOST_KEPT = 64 * 2**20


def _says(at: int, label: str, crashing: Collection[str]) -> bool:
    """Whether inputs are to be tried; the file behind ``at`` then says which."""
    if label in crashing:
        return False
    os.ftruncate(at, 0)
    os.pwrite(at, label.encode(), 0)
    return True


def _about_run(
    kind: Kind, variation: perturb.Variation, after: str = "", detail: str = ""
) -> Finding:
    """A finding on a run that gave no shot to compare."""
    label, group = variation.label, variation.kind
    return Finding(kind, Part.RUN, "", label, group, after=after, detail=detail)


def _leaves_state(shot: Shot, camera: Camera, started_with: dict[str, Any]) -> bool:
    """Whether the original's call left Python state that the calls after it see."""
    if shot.moved:
        return True
    return bool(shot.changed) and not is_same_state(started_with, camera.state())


def _about_break(variation: perturb.Variation, error: Exception, original: Shot) -> Finding:
    """What it means that inputs of another kind do not compile."""
    text = tracing.first_line(error)
    if variation.kind in ("numbers", "instance") and not tracing.is_plain_break(error):
        # A number that changes is symbolic: the user's own compile meets this, too.
        return _about_run(Kind.RAISES, variation, after=text)
    found = _about_run(Kind.NOT_COMPILED, variation, detail=text)
    if variation.kind == "grad" and original.grad_error is not None:
        # There is no gradient in the original either: autograd says so later.
        found = dataclasses.replace(found, before=error_text(original.grad_error))
    return found


def _load(path: str) -> list[Shot]:
    if path in _kept:
        return _kept[path]
    # Our own file, from our own fork: images are plain records and tensors.
    shots: list[Shot] = torch.load(path, weights_only=False)
    return shots
