"""Builds jobs for one target and runs them: the same files, options and golden run for all."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gbfix import packages, project_files
from gbfix.runner import Resident, Runner
from gbfix.schema import Options, Target
from gbfix.source import SourceFile
from gbfix.worker.protocol import Instrument, Job, Outcome
from gbfix.worker.resident import HEAVY

#: Seconds that a run may take which tries a patch: these, or so many times those of the recording.
_LEAST_PATIENCE = 60.0
_TIMES_RECORDING = 12


@dataclasses.dataclass(frozen=True)
class Ahead:
    """A job that was begun before it is known whether it is wanted."""

    job: Job
    outcome: concurrent.futures.Future[Outcome | None]
    dropped: threading.Event

    def drop(self) -> None:
        """End it, and wait for that."""
        self.dropped.set()
        self.outcome.result()


class Bench:
    """The workbench of one run of the engine.

    ``golden`` (the golden run's directory) and ``stop_after`` are set once the program has been
    recorded; ``serial`` once it was seen to write files.
    """

    def __init__(
        self,
        runner: Runner,
        pool: concurrent.futures.Executor,
        target: Target,
        options: Options,
        root: str,
        base: Mapping[str, bytes] | None = None,
    ) -> None:
        #: What the program's files held, by real path, where that is not what is on disk.
        self._base = dict(base or {})
        self._runner = runner
        self._pool = pool
        self._target = target
        self._options = options
        self._root = root
        self._include = packages.places(options.include)
        self._sources: dict[str, SourceFile] = {}
        self.golden = ""
        self.stop_after = 0
        self.user_stop_after = 0
        self.serial = options.jobs == 1
        self._residents: list[Resident] = []
        #: Seconds that the program takes to its first recorded call.
        self.set_up = 0.0
        #: Seconds that recording took: what a run from the start needs for itself, at most.
        self.recording = 0.0
        #: When what tries a patch has to end (by ``time.monotonic``).
        self._until = float("inf")

    def source(self, path: str) -> SourceFile:
        """A project file as it was when first asked for."""
        if path not in self._sources:
            data = self._base.get(os.path.realpath(path))
            if data is None:
                self._sources[path] = SourceFile.read(path)
            else:
                self._sources[path] = SourceFile.from_bytes(path, data)
        return self._sources[path]

    @property
    def load(self) -> float:
        """How many times as much work the machine has as it has processors; 1 where it is quiet."""
        try:
            waiting = os.getloadavg()[0]
        except OSError:
            return 1.0
        return max(1.0, waiting / (os.cpu_count() or 1))

    @property
    def project(self) -> Mapping[str, str]:
        """By path: the texts of the whole project, also of files that the program did not load."""
        return project_files.texts(self._root)

    def job(
        self,
        mode: str,
        overlay: Mapping[str, str],
        instruments: Sequence[Instrument] = (),
        *,
        golden: str = "",
        avoid: tuple[str, frozenset[int], str] = ("", frozenset(), ""),
        values_only: bool = False,
        constant_state: bool = False,
        backends: tuple[str, ...] | None = None,
        brief: bool = False,
        broken: bool = False,
        every: bool = False,
        also: frozenset[str] = frozenset(),
        sizes: bool = False,
        widths: bool = False,
        operators: str = "",
        rebind: tuple[str, ...] = (),
        residents: bool = False,
    ) -> Job:
        """A job on the given texts, with a directory of its own."""
        # One call more where recompiles are counted: a third one tells whether they end.
        more = 1 if mode == "user" else 0
        return Job(
            mode,
            self._target,
            self._runner.new_directory(mode),
            self._root,
            overlay={
                **self._base,
                **{
                    os.path.realpath(path) if self._base else path: self.source(path).encode(text)
                    for path, text in overlay.items()
                },
            },
            instruments=tuple(instruments),
            golden=golden or self.golden,
            calls=self._options.calls,
            more_calls=more,
            backends=self._options.backends if backends is None else backends,
            memory_limit=self._options.memory_limit,
            stop_after=self.user_stop_after if mode == "user" else self.stop_after,
            exclude=self._options.exclude,
            include=self._include,
            avoid_path=avoid[0],
            avoid_lines=avoid[1],
            avoid_code=avoid[2],
            values_only=values_only,
            constant_state=constant_state,
            brief=brief,
            broken=broken,
            every=every,
            also=also,
            sizes=sizes,
            widths=widths,
            operators=operators,
            rebind=rebind,
            residents=residents,
        )

    def settle(self, calls: Mapping[str, Sequence[int]]) -> None:
        """Take up what the golden run left at its calls, if that is all of them."""
        found = self._runner.residents(self.golden)
        wanted = {(key, index) for key, indices in calls.items() for index in indices}
        # Files that a program writes are not the ones that a process of earlier knows.
        if self.serial or {(item.key, item.index) for item in found} != wanted:
            self._runner.release()
            return
        self._residents = found
        self.set_up = found[0].after if found else 0.0

    @property
    def is_heavy(self) -> bool:
        """Whether candidates are first tried where the program stands at its recorded calls."""
        return bool(self._residents) and self.set_up > HEAVY

    def _patience(self, job: Job) -> float:
        """How long a run may take: one that tries a patch, some times as long as the recording.

        A patch may wait for ever (for a lock that an error left taken), or have Dynamo trace a loop
        without an end.
        """
        whole = self._options.timeout
        if job.mode not in ("candidate", "user") or not self.recording:
            return whole
        left = max(1.0, self._until - time.monotonic())
        usual = max(_LEAST_PATIENCE, _TIMES_RECORDING * self.recording) * self.load
        return min(whole, usual, left)

    @contextlib.contextmanager
    def due(self, until: float) -> Iterator[None]:
        """Give up runs that try a patch once it is ``until`` (by ``time.monotonic``)."""
        self._until = until
        try:
            yield
        finally:
            self._until = float("inf")

    def at_calls(
        self, job: Job, limit: float = 0.0, stop_when: Callable[[], bool] = lambda: False
    ) -> Outcome | None:
        """Do a job at the recorded calls, without a start of the program; None where it cannot."""
        if not self._residents or any(item.action == "observe" for item in job.instruments):
            return None
        limit_or_all = limit or self._patience(job)
        outcome = self._runner.ask(job, self._residents, limit_or_all, stop_when=stop_when)
        if outcome is not None and outcome.ended == "timeout" and not limit:
            outcome = None
        if outcome is None:
            # The same job may be run from the start.
            shutil.rmtree(job.directory, ignore_errors=True)
            os.mkdir(job.directory)
        return outcome

    @property
    def is_at_calls(self) -> bool:
        """Whether processes wait at recorded calls for jobs."""
        return bool(self._residents)

    @contextlib.contextmanager
    def from_the_start(self) -> Iterator[None]:
        """Run each job from the start of the program, not at its recorded calls.

        Where what is forced in earlier calls stays in the program's state, one job at the calls
        and another from the start do not begin alike.
        """
        kept, self._residents = self._residents, []
        try:
            yield
        finally:
            self._residents = kept

    def ahead(self, job: Job) -> Ahead:
        """Begin a job at the recorded calls, beside another one."""
        dropped = threading.Event()
        outcome = self._pool.submit(self.at_calls, job, stop_when=dropped.is_set)
        return Ahead(job, outcome, dropped)

    def once(self, job: Job, limit: float = 0.0) -> Outcome:
        """Run a job at the recorded calls where it can be done there, else from the start.

        One with a ``limit`` of seconds for its own work is given up beyond it, and not run again.
        """
        outcome = self.at_calls(job, limit)
        if outcome is not None:
            return outcome
        timeout = self.recording + limit if limit else None
        return self.together(job, timeout=timeout)[0]

    def in_turns(self, *jobs: Job) -> list[Outcome]:
        """Run two ``measure`` jobs that wait for each other."""
        folder = self._runner.new_directory("turns")
        jobs = tuple(
            dataclasses.replace(job, turns=folder, side=side) for side, job in enumerate(jobs)
        )

        def run(job: Job) -> Outcome:
            try:
                return self._runner.run(job, self._options.timeout + 600)
            finally:
                Path(folder, f"gone-{job.side}").touch()

        waiting = [self._pool.submit(run, job) for job in jobs]
        try:
            return [item.result() for item in waiting]
        except BaseException:
            self._runner.close()
            raise

    def close(self) -> None:
        """Let the processes at the recorded calls go."""
        self._residents = []
        self._runner.release()

    def raced(
        self, first: Job, second: Job, goes_on: Callable[[Outcome], bool]
    ) -> tuple[Outcome, Outcome]:
        """Run two jobs side by side; the second is dropped unless the first's outcome is good.

        A dropped job's outcome is empty.
        """
        if self.serial:
            (outcome,) = self.together(first)
            return outcome, self.together(second)[0] if goes_on(outcome) else Outcome([])
        dropped = threading.Event()
        stop, limits = dropped.is_set, (self._patience(first), self._patience(second))
        try:
            one = self._pool.submit(self._runner.run, first, limits[0])
            other = self._pool.submit(self._runner.run, second, limits[1], stop_when=stop)
            outcome = one.result()
            good = goes_on(outcome)
            if not good:
                dropped.set()
            rest = other.result()
            if self._runner.wrote_files():
                self.serial = True
                self._runner.restore_files()
        except BaseException:
            self._runner.close()
            raise
        return outcome, rest if good else Outcome([])

    def together(self, *jobs: Job, timeout: float | None = None) -> list[Outcome]:
        """Run jobs side by side; one after the other where the program writes files.

        Each starts with the user's files as gbfix found them.
        """
        groups = [[job] for job in jobs] if self.serial else [list(jobs)]
        outcomes: list[Outcome] = []
        try:
            for group in groups:
                waiting = [
                    self._pool.submit(self._runner.run, job, timeout or self._patience(job))
                    for job in group
                ]
                outcomes += [item.result() for item in waiting]
                if self._runner.wrote_files():
                    self.serial = True
                    self._runner.restore_files()
        except BaseException:
            self._runner.close()
            raise
        return outcomes
