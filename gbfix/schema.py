"""Plain records that every part of gbfix exchanges.

Nothing here imports anything of gbfix or torch: these records are built in the worker (which
knows torch) and read by codemods, reports and editors (which do not).  Positions follow Python's
own convention: lines count from 1, columns from 0 in *characters* (CPython and Dynamo report
UTF-8 byte offsets; the worker converts them before a record is made).
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

_Key = TypeVar("_Key")


class Safety(enum.StrEnum):
    """How far a patch may be trusted, in ruff's words: ``unsafe`` needs ``--unsafe-fixes``."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclasses.dataclass(frozen=True)
class Span:
    """A stretch of source text, start inclusive and end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def contains(self, other: Span) -> bool:
        """Whether ``other`` lies wholly inside this span (equal spans do)."""
        return (self.line, self.column) <= (other.line, other.column) and (
            other.end_line,
            other.end_column,
        ) <= (self.end_line, self.end_column)


#: Functions of their own before Python 3.12, within the one that makes the list.
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclasses.dataclass(frozen=True)
class Frame:
    """One frame of a traced stack; columns are None where Python recorded none."""

    path: str
    line: int
    function: str
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    text: str = ""
    in_project: bool = True


@dataclasses.dataclass(frozen=True)
class GraphBreak:
    """One reason why a region is not one graph.

    ``code`` is a registry code (``GB0170``) or, for errors that torch registers under none, the
    name of one of gbfix's own families (``data-dependent-guard``, ...; see `gbfix.registry`).
    ``frames`` run from the outermost user frame to the innermost; ``site`` is the innermost one
    inside the project, or None when the project's code appears nowhere on the stack.
    """

    code: str
    gb_type: str
    explanation: str
    context: str
    hints: tuple[str, ...]
    frames: tuple[Frame, ...]
    region: str
    site: Frame | None
    error_type: str = "Unsupported"
    message: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Where and why: two breaks with the same key are one to the reader."""
        if self.site is None:
            return (self.code, "", 0, 0)
        return (self.code, self.site.path, self.site.line, self.site.column or 0)


def each_once(*groups: Sequence[GraphBreak]) -> dict[tuple[str, str, int, int], GraphBreak]:
    """Breaks by their key, each with the most that was told of the calls that lead to it.

    A helper that Dynamo compiles by itself after a break breaks there again, and does not know who
    called it.
    """
    found: dict[tuple[str, str, int, int], GraphBreak] = {}
    for group in groups:
        for item in group:
            known = found.setdefault(item.key, item)
            if len(item.frames) > len(known.frames):
                found[item.key] = item
    return found


@dataclasses.dataclass(frozen=True)
class Fact:
    """What the recorded eager run saw at one place: the value of a name or an expression.

    ``kind`` is one of ``tensor``, ``bool``, ``int``, ``float``, ``complex``, ``str``, ``bytes``,
    ``none``, ``list``, ``tuple``, ``dict``, ``set``, ``module`` (an ``nn.Module``), ``pymodule``,
    ``function`` (any callable that is not a class), ``class``, ``ndarray``, ``iterator``,
    ``object``, or ``mixed`` where several observations disagree.

    ``shape``/``dtype``/``device``/``strides``/``requires_grad``/``is_leaf`` are set for tensors
    (``dtype`` as ``torch.float32``; a dimension that varied between observations is None).
    ``value`` holds the value of None, bools, ints, floats and strings up to 200 characters, and
    ``constant`` says that every observation had that same value.  ``identity`` and ``storage`` are
    tokens that are equal, within one record of locals, for the same object and for tensors that
    share memory.  ``qualname`` is the dotted home of a function, class or module
    (``torch.serialization.save``), ``in_project`` whether its source belongs to the project.
    ``each`` is what holds of all items, where lists of several lengths were seen.  ``holds`` is
    set for a dict whose keys are of one plain type, and its values, too: ``"int: float"``.
    """

    kind: str
    type: str = ""
    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    strides: tuple[int | None, ...] | None = None
    requires_grad: bool | None = None
    is_leaf: bool | None = None
    value: Any = None
    constant: bool = False
    items: tuple[Fact, ...] | None = None
    each: Fact | None = None
    keys: tuple[str, ...] | None = None
    holds: str = ""
    qualname: str = ""
    in_project: bool = False
    identity: int = 0
    storage: int = 0

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    @property
    def is_python_scalar(self) -> bool:
        return self.kind in ("bool", "int", "float", "complex", "str", "bytes", "none")

    def _of_each(self) -> Fact | None:
        """What holds of all items, or None where there is none, or nothing is known of them."""
        if self.each is not None or not self.items:
            return self.each
        return functools.reduce(Fact.merged, self.items)

    def merged(self, other: Fact) -> Fact:
        """One fact for two observations of the same place: what holds of both."""
        if self == other:
            return self
        if self.kind != other.kind:
            return Fact("mixed")
        shape = self.shape
        if self.shape != other.shape:
            shape = None
            if self.shape and other.shape and len(self.shape) == len(other.shape):
                shape = tuple(
                    a if a == b else None for a, b in zip(self.shape, other.shape, strict=True)
                )
        same_value = self.constant and other.constant and repr(self.value) == repr(other.value)
        items, each = self.items, self.each
        if self.items != other.items:
            items = None
            if self.items and other.items and len(self.items) == len(other.items):
                items = tuple(a.merged(b) for a, b in zip(self.items, other.items, strict=True))
            elif (one := self._of_each()) is not None and (two := other._of_each()) is not None:
                each = one.merged(two)
        return dataclasses.replace(
            self,
            type=self.type if self.type == other.type else _common_type(self, other),
            shape=shape,
            dtype=self.dtype if self.dtype == other.dtype else None,
            device=self.device if self.device == other.device else None,
            strides=self.strides if self.strides == other.strides else None,
            requires_grad=(
                self.requires_grad if self.requires_grad == other.requires_grad else None
            ),
            is_leaf=self.is_leaf if self.is_leaf == other.is_leaf else None,
            value=self.value if same_value or not self.is_python_scalar else None,
            constant=same_value,
            items=items,
            each=each,
            holds=self.holds if self.holds == other.holds else "",
            qualname=self.qualname if self.qualname == other.qualname else "",
        )


@dataclasses.dataclass(frozen=True)
class Told:
    """What runs of an operator's body with other inputs tell of its results.

    ``sizes`` has, by result and dimension, a text over the operator's parameters, "" for a size
    that the data decide, and None where the runs do not tell; ``runs`` is how many there were, and
    ``real`` that they were made with numbers, and not with symbols that stand for all of them.
    ``wider`` names, by result, the parameters that make it float64 where they are; empty where
    the runs do not tell.  ``integers`` says, by result, what it is where whole numbers come in
    place of the parameters' floats: "fraction", "sum" (int64, whatever came), "same" (as it came),
    and "" where the runs do not tell.  ``follows`` says, by result, whether it is as wide as they
    are, and ``stays`` whether it is of int64 also where the parameters' integers are of int32.
    ``alike`` has groups of sizes that the data decide and that
    were equal in every run, each as the result and its dimension.
    """

    sizes: tuple[tuple[str | None, ...], ...]
    runs: int
    real: bool
    wider: tuple[tuple[str, ...], ...] = ()
    integers: tuple[str, ...] = ()
    follows: tuple[bool, ...] = ()
    stays: tuple[bool, ...] = ()
    alike: tuple[tuple[tuple[int, int], ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class FrameFacts:
    """Facts of one function, observed while it ran eagerly on the recorded calls.

    ``expressions`` maps the span of an expression to what it evaluated to; ``locals`` maps the
    line of a statement's first token to the local names just before that statement ran (first
    observation; kinds merged over later ones); ``executed`` counts how often each statement ran.
    """

    expressions: Mapping[Span, Fact] = dataclasses.field(default_factory=dict)
    locals: Mapping[int, Mapping[str, Fact]] = dataclasses.field(default_factory=dict)
    executed: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def merged(self, other: FrameFacts) -> FrameFacts:
        """What holds of both: of the same function in two regions, in whatever order they came."""
        lines = {*self.locals, *other.locals}
        return FrameFacts(
            _merged(self.expressions, other.expressions),
            {
                line: _merged(self.locals.get(line, {}), other.locals.get(line, {}))
                for line in lines
            },
            {
                line: max(self.executed.get(line, 0), other.executed.get(line, 0))
                for line in {*self.executed, *other.executed}
            },
        )


_PLAIN_TENSORS = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter"})


def _common_type(one: Fact, other: Fact) -> str:
    """A parameter is a tensor: what takes both is given tensors."""
    return "torch.Tensor" if {one.type, other.type} <= _PLAIN_TENSORS else ""


def _merged(first: Mapping[_Key, Fact], second: Mapping[_Key, Fact]) -> dict[_Key, Fact]:
    return {
        key: first[key].merged(second[key])
        if key in first and key in second
        else first.get(key) or second[key]
        for key in {**first, **second}
    }


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds: the median of a call, its middle half, and what compiling took."""

    latency: float
    spread: tuple[float, float]
    compile_seconds: float


@dataclasses.dataclass(frozen=True)
class Payoff:
    """A region as the user compiles it, without and with the patches, measured in turns.

    ``speedup`` is the median over ``pairs`` of batches next to each other of time before by time
    after, ``spread`` the middle half of these ratios.
    """

    before: Timing
    after: Timing
    speedup: float
    spread: tuple[float, float]
    pairs: int


@dataclasses.dataclass
class Region:
    """One compiled callable of the user's program.

    ``status`` is ``clean``, ``fixed`` (whole: one graph as the user compiles it), ``split`` (no
    break is left, as less is compiled), ``partial``, ``unfixed`` or ``error``.

    ``path``/``line`` say where the function is defined, ``compile_path``/``compile_line`` where it
    was compiled.  ``options`` are the user's own arguments of ``torch.compile`` as source text.
    """

    name: str
    path: str
    line: int
    compile_path: str = ""
    compile_line: int = 0
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    calls: int = 0
    #: All calls that the program made, recorded or not; None where it was stopped before its end.
    calls_made: int | None = None
    status: str = "clean"
    breaks_before: int = 0
    breaks_after: int = 0
    graphs_before: int | None = None
    graphs_after: int | None = None
    note: str = ""
    #: Graphs made in the recorded calls after the first.
    recompiles_before: int | None = None
    recompiles_after: int | None = None
    #: Whether a method of an object was compiled, not the function with the object as argument.
    bound: bool = False
    payoff: Payoff | None = None
    #: Operators in each graph of the first call, and frames that Dynamo left to Python in it.
    sizes_before: tuple[int, ...] | None = None
    sizes_after: tuple[int, ...] | None = None
    fallbacks_before: int | None = None
    fallbacks_after: int | None = None

    @property
    def operators_before(self) -> int | None:
        return None if self.sizes_before is None else sum(self.sizes_before)

    @property
    def operators_after(self) -> int | None:
        return None if self.sizes_after is None else sum(self.sizes_after)


@dataclasses.dataclass(frozen=True)
class Rung:
    """The result of one step of the validation ladder; ``passed`` is None where it was not run."""

    name: str
    passed: bool | None
    detail: str = ""
    #: Why a patch that passed must be called unsafe.
    caveats: tuple[str, ...] = ()
    #: Calls of other kinds than the program's that the patch serves in another way.
    limits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was measured about a candidate.  Nothing is listed that was not run."""

    rungs: tuple[Rung, ...] = ()
    branches: tuple[int, int] | None = None
    perturbed: int = 0

    @property
    def passed(self) -> bool:
        return bool(self.rungs) and all(rung.passed is not False for rung in self.rungs)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reasons, measured, why a patch that passed must still be called unsafe."""
        return tuple(text for rung in self.rungs for text in rung.caveats)

    @property
    def limits(self) -> tuple[str, ...]:
        """Calls of other kinds than the program's that the patch serves in another way."""
        return tuple(dict.fromkeys(text for rung in self.rungs for text in rung.limits))

    def rung(self, name: str) -> Rung | None:
        return next((rung for rung in self.rungs if rung.name == name), None)

    def with_rung(self, rung: Rung) -> Verdict:
        """This verdict with one more rung."""
        return dataclasses.replace(self, rungs=(*self.rungs, rung))

    @property
    def failure(self) -> str:
        """The first rung that failed, as one line; empty when none did."""
        for rung in self.rungs:
            if rung.passed is False:
                return f"{rung.name}: {rung.detail}"
        return ""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One candidate that was tried for a break, kept so that the report can say what was tried."""

    codemod: str
    title: str
    passed: bool
    reason: str = ""
    safety: Safety = Safety.SAFE


@dataclasses.dataclass
class BreakReport:
    """A break as the report shows it: ``status`` is ``fixed``, ``unfixed`` or ``outside``."""

    graph_break: GraphBreak
    status: str = "unfixed"
    codemod: str | None = None
    advice: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    url: str = ""
    #: Which of the report's steps removed it.
    step: int | None = None
    #: It is gone because less is compiled: the region runs as as many graphs as before.
    split: bool = False
    #: Of a log of many ranks: those that it was logged by, as far as they are known.
    ranks: tuple[int, ...] = ()
    #: What is known of this very break beside its cause, a sentence each; no advice.
    facts: tuple[str, ...] = ()

    def is_in(self, region: Region) -> bool:
        """Whether the break is one of this region's."""
        path, _, name = self.graph_break.region.rpartition("::")
        return name.partition("#")[0] == region.name and path in (region.path, "")


@dataclasses.dataclass(frozen=True)
class Step:
    """One accepted rewrite: whole new texts by path, validated on top of all earlier steps."""

    codemod: str
    title: str
    code: str
    edits: Mapping[str, str]
    safety: Safety
    verdict: Verdict
    notes: tuple[str, ...] = ()


@dataclasses.dataclass
class Patch:
    """Accepted rewrites of one file, as one unified diff with its verdict."""

    path: str
    diff: str
    before: str
    after: str
    codemods: tuple[str, ...]
    codes: tuple[str, ...]
    safety: Safety
    verdict: Verdict
    titles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        """What the patch does, in one line; what it does several times is said once."""
        times = collections.Counter(self.titles)
        said = [title if n == 1 else f"{title} ({n} times)" for title, n in times.items()]
        return "; ".join(said) or ", ".join(self.codemods)


@dataclasses.dataclass(frozen=True)
class ErrorReport:
    """Something that kept gbfix from its work, in one clear line; ``traceback`` is the user's own.

    ``kind`` is a stable slug (``eager-error``, ``crash``, ``timeout``, ``no-region``, ...).
    """

    kind: str
    message: str
    path: str = ""
    line: int = 0
    traceback: str = ""
    fatal: bool = True


@dataclasses.dataclass(frozen=True)
class TargetReport:
    """What became of one of several targets; ``fixed`` counts with the patches of the report."""

    target: str
    regions: int
    breaks: int
    fixed: int
    seconds: float
    failed: bool


@dataclasses.dataclass(frozen=True)
class Asked:
    """The command line that a report answers, for the commands that it proposes next."""

    #: The target's words as they were given, a launcher included; empty where a file lists them.
    target: str = ""
    #: The options that a next command needs, too: all but what says how to show or to write.
    options: tuple[tuple[str, ...], ...] = ()
    #: The folder of ``--save``.
    saved: str = ""
    #: Whether `gbfix run` can start the target: it takes scripts and modules.
    runs: bool = True

    def command(self, *first: str, leave_out: str = "") -> str:
        """A command line for the same target, with these options first."""
        kept = [word for option in self.options if option[0] != leave_out for word in option]
        words = shlex.join(["gbfix", *first, *kept])
        return f"{words} {self.target}" if self.target else words


@dataclasses.dataclass
class Report:
    """Everything that one run found, in the order in which it is printed."""

    target: str
    torch_version: str = ""
    gbfix_version: str = ""
    regions: list[Region] = dataclasses.field(default_factory=list)
    breaks: list[BreakReport] = dataclasses.field(default_factory=list)
    patches: list[Patch] = dataclasses.field(default_factory=list)
    unsafe_patches: list[Patch] = dataclasses.field(default_factory=list)
    errors: list[ErrorReport] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    cached: bool = False
    #: The accepted rewrites in their order: editors offer them one by one.
    steps: list[Step] = dataclasses.field(default_factory=list)
    #: The project's files that the program loaded: what the report rests on.
    files: tuple[str, ...] = ()
    #: Seconds by phase: where the time of the run went.
    timings: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: One entry for each target where there were several.
    targets: tuple[TargetReport, ...] = ()
    #: Packages that could be patched, and for whose calls (`Options.include`, `Options.callers`).
    include: tuple[str, ...] = ()
    callers: str = "program"
    #: The command line, where one asked for this report.
    asked: Asked | None = None
    #: Patches of installed packages that ``--apply`` neither wrote nor saved.
    held: list[Patch] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Target:
    """What the user asked gbfix to run.

    ``kind`` is ``script`` (``value`` a path), ``module`` (a dotted name, as ``python -m``) or
    ``callable`` (``PATH::QUALNAME``, with ``inputs`` a Python expression for its arguments).
    """

    kind: str
    value: str
    args: tuple[str, ...] = ()
    inputs: str | None = None
    cwd: str = ""
    #: Variables that are set for the program (what a launcher would tell a single rank).
    environment: tuple[tuple[str, str], ...] = ()
    #: What python runs to have the real launcher start ranks (see `gbfix.launchers`).
    launcher: tuple[str, ...] = ()

    @property
    def display(self) -> str:
        """The words of a command line that name it."""
        prefix = "-m " if self.kind == "module" else ""
        if self.inputs is not None:
            prefix = f"--inputs {shlex.quote(self.inputs)} "
        return prefix + " ".join([self.value, *self.args])


@dataclasses.dataclass(frozen=True)
class Options:
    """Everything on the command line that changes what the engine finds (hence a cache key)."""

    calls: int = 2
    backends: tuple[str, ...] = ("eager", "aot_eager")
    #: Operators that inductor is known to get wrong at times are tried there as well.
    inductor: bool = False
    #: Seconds for each of these brief compilations, apart from what the program takes itself.
    inductor_timeout: float = 120.0
    jobs: int = 0
    timeout: float = 300.0
    #: Seconds after which nothing new is tried; 0 for no end.
    budget: float = 300.0
    memory_limit: int = 0
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    check_only: bool = False
    use_cache: bool = True
    #: Time the regions with and without the patches; leave out patches that do not pay.
    measure: bool = False
    only_if_faster: bool = False
    exclude: tuple[str, ...] = ()
    #: Installed packages whose files may be patched, too, by the name that an import has.
    include: tuple[str, ...] = ()
    #: Who calls the regions: the ``program`` that runs, or ``any`` (as in a package of others).
    callers: str = "program"
    verbose: int = 0
