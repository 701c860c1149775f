"""Records exchanged between `gbfix.runner` (no torch) and the worker processes (torch).

A job is one run of the user's program in a fresh child of the fork server.  Its directory holds
``job`` (a pickled `Job`), ``stdout`` and ``stderr`` of the program, and ``events``: a stream of
pickled events, written as they happen, so that a killed or crashed run still tells what it saw.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from gbfix.evidence import Finding, Kinds
from gbfix.schema import FrameFacts, GraphBreak, Rung, Target, Told

_DOING = {
    "eager": "running it eagerly on varied inputs",
    "trace": "tracing it",
    "facts": "recording facts",
    "aot_eager": "compiling it with aot_eager",
    "inductor": "compiling it with inductor",
}


def doing(name: str) -> str:
    """What a piece of work is, in words."""
    return _DOING.get(name, name)


#: Exit status of a process that found the break which the candidate was to remove.
IN_VAIN = 3
#: In a job's folder: a file that says so of a job at a recorded call.
VAIN = "vain"


@dataclasses.dataclass(frozen=True)
class Instrument:
    """A change of the program that is made only in memory, to look at it or to steer it.

    ``action`` is ``facts`` (record expressions and locals of the function around ``line``),
    ``force`` (evaluate the expression at the position, then use ``value`` as its truth),
    ``force-call`` (make the first argument of the call at the position come out as ``value``),
    ``size`` (let what the data decides at the position be 0, or 1 where ``value`` is true) or
    ``observe`` (record calls of the function ``qualname`` although nothing compiles it; ``value``
    says that the object whose method it is counts as a part of it, not as its first argument).
    """

    path: str
    action: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    value: bool = False
    qualname: str = ""


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of the program.

    ``mode`` is ``golden`` (record the original), ``facts`` (record facts and compare with the
    golden run, to learn what is not deterministic), ``candidate`` (run the ladder against the
    golden run), ``user`` (compile for real with the user's own options), ``measure`` (time the
    first call of each region, taking turns with another job).
    """

    mode: str
    target: Target
    directory: str
    root: str
    overlay: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    instruments: tuple[Instrument, ...] = ()
    golden: str = ""
    #: Calls of each region that are recorded, and how many more if the program makes them.
    calls: int = 2
    more_calls: int = 0
    backends: tuple[str, ...] = ("eager", "aot_eager")
    memory_limit: int = 0
    #: Stop the program after this many recorded calls (0: let it end by itself).
    stop_after: int = 0
    #: Variations of reachable state are left out: the rewrite's proof covers that it is constant.
    constant_state: bool = False
    exclude: tuple[str, ...] = ()
    #: Folders and files of installed packages that may be patched as the project's own.
    include: tuple[str, ...] = ()
    #: Where copies of the user's files go before they change (see `gbfix.worker.fileguard`).
    guard: str = ""
    #: A candidate is pointless once its region breaks again on one of these lines of this file,
    #: for this code (or inside a higher-order operator that the rewrite made).
    avoid_path: str = ""
    avoid_lines: frozenset[int] = frozenset()
    avoid_code: str = ""
    #: Only the backends, on the first call, with the inputs that matter most.
    brief: bool = False
    #: Compile with graph breaks, where the program has them: ``fullgraph=True`` would capture more.
    broken: bool = False
    #: Compare regions that have breaks under each backend, and not under the widest alone.
    every: bool = False
    #: Other variations that matter, by label, also where it is ``brief``.
    also: frozenset[str] = frozenset()
    #: Note how large the tensors come out whose sizes data decides (see `SizesSeen`).
    sizes: bool = False
    #: Of these sizes, leave out that lengths are one each, where none was: a mask of one column.
    widths: bool = False
    #: Find out how large the results of operators are (``sizes``), or the dtypes of these alone
    #: (``dtypes``); see `OperatorSizes`.
    operators: str = ""
    #: Record values only; do not trace (a golden run under a forced condition).
    values_only: bool = False
    #: Only the first call, with each of these globals and attributes as another value.
    rebind: tuple[str, ...] = ()
    #: Leave a process behind at each recorded call (see `gbfix.worker.resident`).
    residents: bool = False
    #: Of a ``measure`` job: the folder that it shares with the other, and which of the two it is.
    turns: str = ""
    side: int = 0
    #: Do this piece of the work alone, and end; what it keeps goes to the folder ``home``.
    only: Apart | None = None
    home: str = ""


@dataclasses.dataclass(frozen=True)
class Spec:
    """What each rank of a real launcher is to run (see `gbfix.worker.rank`)."""

    target: Target
    overlay: Mapping[str, bytes]
    folder: str
    #: Where copies of the user's files go before they change.
    guard: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Apart:
    """A piece of a job's work that needs a run of its own, up to this call (see `forks`).

    ``number`` counts the pieces at one call; ``name`` says which it is.
    """

    key: str
    index: int
    number: int
    name: str


@dataclasses.dataclass(frozen=True)
class RegionSeen:
    """A callable was compiled."""

    key: str
    name: str
    path: str
    line: int
    compile_path: str
    compile_line: int
    options: Mapping[str, str]
    #: Whether it is a method of an object, which its calls are not given.
    bound: bool = False


@dataclasses.dataclass(frozen=True)
class RegionCalled:
    """A call of a region was recorded; ``index`` counts from 0."""

    key: str
    index: int


@dataclasses.dataclass(frozen=True)
class Traced:
    """What tracing one call found: no break, the first break, or (``user`` mode) all of them."""

    key: str
    index: int
    backend: str
    breaks: tuple[GraphBreak, ...]
    graphs: int = 0
    recompiles: int = 0
    fullgraph: bool = True
    error: str = ""
    #: The most control-flow operators in one graph that was made with gradients enabled.
    conditionals: int = 0
    #: Operators in each of its graphs, and frames that Dynamo left to Python (``user`` mode).
    sizes: tuple[int, ...] = ()
    fallbacks: int = 0
    #: The call raised an exception of the program's own (``user`` mode).
    raised: bool = False
    #: It compiled anew as a whole number that a module holds had changed (``user`` mode).
    counts: bool = False


@dataclasses.dataclass(frozen=True)
class Compared:
    """One rung of the ladder on one recorded call; ``findings`` is empty when all agreed.

    ``refused`` are the labels of inputs of other sizes on which the original raised an error;
    ``labels`` are all that were compared, where the rung is a compiled one.
    """

    key: str
    index: int
    rung: str
    findings: tuple[Finding, ...] = ()
    perturbed: int = 0
    refused: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class SizesSeen:
    """What one graph of a region takes for granted of sizes that data decides, and what they were.

    ``seen`` has, by place (``path:line``) and size (0 and 1, as far as it can be that), the labels
    of the variations in which it was; ``equal`` what sizes were taken to be, in torch's words;
    ``sources`` where the numbers and selections stand that the sizes at a place are made of;
    ``raised`` are the variations in which the graph did not come to its end; ``alike`` has, by what
    is in ``equal``, where the two sizes are decided, if they are two sizes that data decides;
    ``made`` where the number or size is decided that stands in it, if data decides on one only.
    """

    key: str
    index: int
    seen: Mapping[str, Mapping[int, frozenset[str]]]
    equal: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    raised: frozenset[str] = frozenset()
    alike: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    made: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class OperatorSizes:
    """How large the results of an operator are, and what their dtypes follow, as runs tell."""

    key: str
    name: str
    told: Told


@dataclasses.dataclass(frozen=True)
class CallKind:
    """Which kind of call a recorded call of a region is."""

    key: str
    index: int
    kinds: Kinds


@dataclasses.dataclass(frozen=True)
class CallsMade:
    """How many calls of a region the program made while it ran, recorded or not."""

    key: str
    count: int


@dataclasses.dataclass(frozen=True)
class Afterwards:
    """What the program did with what its regions gave it.

    ``changed``: regions of which an input or output was changed in place after the call.
    ``steps``: an optimizer took a step that tells a zero gradient from none; ``plain_steps``:
    one did that does not.
    """

    changed: tuple[str, ...] = ()
    steps: bool = False
    plain_steps: bool = False


@dataclasses.dataclass(frozen=True)
class Timed:
    """What a region costs as the user compiles it: seconds to compile, and a call in each batch."""

    key: str
    compile_seconds: float
    seconds: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Nondeterministic:
    """Two runs of the unchanged program disagreed here."""

    key: str
    index: int
    what: tuple[Finding, ...]


@dataclasses.dataclass(frozen=True)
class FactsSeen:
    path: str
    line: int
    facts: FrameFacts
    #: Truth values of every ``if``/``while``/ternary test, by (line, column) of the test.
    outcomes: Mapping[tuple[int, int], tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Failed:
    """The program, or one call of a region, failed."""

    kind: str
    message: str
    path: str = ""
    line: int = 0
    traceback: str = ""
    key: str = ""
    #: Which recorded call of the region, where it is one of a region.
    index: int = 0


@dataclasses.dataclass(frozen=True)
class Satisfied:
    """Every region seen so far has had its calls."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """The program ended by itself (or was stopped as planned); ``files`` is the project's code."""

    files: tuple[str, ...]
    stopped: bool = False
    status: int = 0


T = TypeVar("T")

_GRAD_FN = re.compile(rb",\s+grad_fn=<\w+>")
_GRADIENT = re.compile(rb",\s+(?:grad_fn=<[\w.]+>|requires_grad=True)(?=[,)])")
#: How pytest says how long it took: two runs may agree in that by chance.
_TOOK = re.compile(rb"\bin \d+\.\d\ds\b")

Event = (
    RegionSeen
    | RegionCalled
    | Traced
    | Compared
    | SizesSeen
    | OperatorSizes
    | CallKind
    | CallsMade
    | Afterwards
    | Nondeterministic
    | Timed
    | FactsSeen
    | Failed
    | Satisfied
    | Finished
    | Apart
)


@dataclasses.dataclass
class Outcome:
    """How one job ended, and all that it said."""

    events: list[object]
    ended: str = "ok"
    detail: str = ""
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def shown(self) -> bytes:
        """What the program printed, but for the names of gradient functions and pytest's seconds.

        A tensor that comes out of a compiled region prints another one than uncompiled, patched or
        not, and which one says nothing of its value.
        """
        return _TOOK.sub(b"in <...>s", _GRAD_FN.sub(b", grad_fn=<...>", self.stdout))

    @property
    def shown_values(self) -> tuple[bytes, frozenset[int]]:
        """The same without what printed tensors say of gradients, and where they said it."""
        parts = _GRADIENT.split(self.shown)
        ends = itertools.accumulate(len(part) for part in parts[:-1])
        return b"".join(parts), frozenset(ends)

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def without_traces(self, calls: Collection[tuple[str, int]]) -> Outcome:
        """The same, but for what tracing these calls of regions found."""
        events = [
            event
            for event in self.events
            if not (isinstance(event, Traced) and (event.key, event.index) in calls)
        ]
        return dataclasses.replace(self, events=events)


class EventWriter:
    """Appends events to a stream; each is flushed at once, so a crash loses none before it."""

    def __init__(self, path: str) -> None:
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115

    def write(self, event: Event | Rung) -> None:
        self._file.write(pickle.dumps(event, protocol=5))


def read_events(path: str | Path) -> Iterator[object]:
    """The events of a stream, as far as it was written."""
    try:
        with open(path, "rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except (EOFError, pickle.UnpicklingError):
                    return
    except FileNotFoundError:
        return
