"""What is known about graph break codes: torch's own registry, our seed list and our families.

The installed torch registers its graph breaks in ``torch/_dynamo/graph_break_registry.json``: a
code (``GB0170``) maps to all descriptions that it has ever had, newest first.  That file is found
and read without importing torch.  Codes that the installed torch no longer has stay known through
``seed_codes.json``; errors that torch registers under no code at all are sorted into the families
below.  A code that nobody knows is an `UnknownCodeError`, never a crash: a newer torch may bring
codes at any time.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbfix import GbfixError

_HERE = Path(__file__).parent
_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
_PLACEHOLDER = re.compile(r"\\\{[^{}]*\\\}")
_CODE = re.compile(r"(?:gb)?(\d{1,4})", re.IGNORECASE)


class UnknownCodeError(GbfixError, LookupError):
    """A code or family that is neither registered, nor seeded, nor ours; says what is close."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One description of a code, as some version of torch had it (raw registry text)."""

    gb_type: str
    context: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Code:
    """A graph break code with everything known about it; ``entries`` run from newest to oldest."""

    code: str
    entries: tuple[Entry, ...] = ()
    seed_title: str = ""

    @property
    def installed(self) -> bool:
        """Whether the installed torch's registry has this code."""
        return bool(self.entries)

    @functools.cached_property
    def title(self) -> str:
        return next((e.gb_type for e in self.entries if _is_title(e.gb_type)), self.seed_title)

    @property
    def former_titles(self) -> tuple[str, ...]:
        """Other names that this code has or had, without the present one."""
        names = [e.gb_type for e in self.entries if _is_title(e.gb_type)] + [self.seed_title]
        return tuple(dict.fromkeys(n for n in names if n and n != self.title))

    @property
    def explanation(self) -> str:
        """The newest explanation that is prose (some entries hold the name of a variable)."""
        texts = (_prose(e.explanation) for e in self.entries)
        return next((text for text in texts if text), "")

    @property
    def hints(self) -> tuple[str, ...]:
        """The newest hints; sentences that the registry splits over several items are joined."""
        return next((_joined(e.hints) for e in self.entries if _joined(e.hints)), ())

    @property
    def url(self) -> str:
        """The page that torch's own message links to."""
        return f"{_SITE}{self.code.lower()}.html"


@dataclasses.dataclass(frozen=True)
class Family:
    """Errors that stop a full graph but have no code in torch's registry."""

    name: str
    title: str
    explanation: str
    url: str = ""


_RECOMPILATION = (
    "https://docs.pytorch.org/docs/main/user_guide/torch_compiler/compile/"
    "programming_model.recompilation.html"
)

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "data-dependent-guard",
            "Could not guard on data-dependent expression",
            "A Python decision (`if`, `and`, `while`, a comparison, a size check inside an "
            "operator) needs a number that is only known when the tensors have values, such as "
            "the result of `.item()`, `.tolist()`, `int(t)` or the length of `nonzero()`.",
        ),
        Family(
            "data-dependent-specialization",
            "Could not extract specialized integer from data-dependent expression",
            "Python code needs one definite int, for `range(n)`, a tuple index, a keyword or a "
            "library call, but the number comes out of a tensor and differs from call to call.",
        ),
        Family(
            "backend-reads-number",
            "A backend has to read a number that a tensor holds",
            "An index is a tensor without dimensions (`table[t]`), or a number of one beside "
            "something else (`x[:, t.item()]`).  Dynamo makes a graph of it that no compiling "
            "backend takes: aot_eager and inductor raise BackendCompilerFailed under "
            "`fullgraph=True`, and run the function uncompiled without it.",
        ),
        Family(
            "data-dependent-other",
            "Data-dependent value or shape used where a known one is needed",
            "A value or shape that depends on the contents of a tensor reached an operation that "
            "has to know it while compiling.",
        ),
        Family(
            "internal-error",
            "Dynamo failed internally while tracing",
            "Dynamo itself raised an error (InternalTorchDynamoError).  Often the cause is an "
            "ordinary Python or library function that was handed a symbolic number, or a construct "
            "that Dynamo has no rule for; sometimes it is a bug in torch.",
        ),
        Family(
            "backend-error",
            "The compiler backend failed on the captured graph",
            "The function was captured as a graph, and the backend (aot_eager, inductor, ...) then "
            "raised BackendCompilerFailed: the graph holds an operation that it cannot lower, "
            "differentiate or functionalize.",
        ),
        Family(
            "torch-runtime-error",
            "An operator failed on fake tensors",
            "While tracing, every operator runs on tensors that have shapes but no data.  One "
            "raised an error there (TorchRuntimeError): shapes, dtypes or devices do not fit, or "
            "the operator has no implementation for fake tensors.",
        ),
        Family(
            "recompile-limit",
            "Recompile limit reached",
            "The same code was compiled again and again because something that Dynamo treats as "
            "constant (an int, a string, a shape, a module attribute) changes from call to call, "
            "until the limit was reached and the function would run uncompiled.",
            _RECOMPILATION,
        ),
        Family(
            "uncaptured-hop",
            "A higher-order operator could not be captured completely",
            "The body given to `torch.cond`, `while_loop`, `scan`, `map`, `checkpoint` or a "
            "similar operator contains something that breaks the graph, mutates its inputs or "
            "returns them unchanged; inside such a body there is no falling back to Python.",
        ),
        Family(
            "user-error",
            "torch.compile refused the program",
            "Dynamo raised a UserError: the program uses an API in a way that torch.compile "
            "does not allow.  The message says which.",
        ),
        Family(
            "unknown",
            "An error without a graph break code",
            "The region raised an error under torch.compile that belongs to no known kind.",
        ),
    )
}

#: What gbfix says of a graph that no compiling backend takes, as it looks for one itself.
READS_NUMBER = "An element is chosen by a number that a tensor holds"

# Which family an exception class belongs to, when its message does not already tell.
_FAMILY_OF_TYPE: Mapping[str, str] = {
    "UncapturedHigherOrderOpError": "uncaptured-hop",
    "InternalTorchDynamoError": "internal-error",
    "BackendCompilerFailed": "backend-error",
    "InductorError": "backend-error",
    "LoweringException": "backend-error",
    "TorchRuntimeError": "torch-runtime-error",
    "UnsupportedFakeTensorException": "torch-runtime-error",
    "UnsupportedOperatorException": "torch-runtime-error",
    "DataDependentOutputException": "data-dependent-other",
    "DynamicOutputShapeException": "data-dependent-other",
    "GuardOnDataDependentSymNode": "data-dependent-other",
    "PendingUnbackedSymbolNotFound": "data-dependent-other",
    "RecompileLimitExceeded": "recompile-limit",
    "FailOnRecompileLimitHit": "recompile-limit",
    "RecompileError": "recompile-limit",
    "UserError": "user-error",
    "CondOpArgsMismatchError": "user-error",
    "InvalidBackend": "user-error",
}


def family_for(error_type: str, message: str) -> str:
    """The family of an error without a code, from its class name (dotted or not) and its message.

    The message decides first, because torch wraps data-dependent errors in several classes.  A
    higher-order operator that could not be captured is its own family whatever stopped it.
    """
    name = error_type.rpartition(".")[2]
    if name == "UncapturedHigherOrderOpError":
        return "uncaptured-hop"
    if "Could not guard on data-dependent expression" in message:
        return "data-dependent-guard"
    chooses = "target=operator.getitem" in message or "target=operator.setitem" in message
    specializes = "Could not extract specialized integer" in message
    if READS_NUMBER in message or (specializes and chooses and name == "BackendCompilerFailed"):
        return "backend-reads-number"
    if specializes:
        return "data-dependent-specialization"
    lowered = message.lower()
    if "recompile limit" in lowered or "recompile_limit" in lowered:
        return "recompile-limit"
    if name in ("UserError", "InternalTorchDynamoError") and (
        "data-dependent" in lowered or "data dependent" in lowered
    ):
        return "data-dependent-other"
    return _FAMILY_OF_TYPE.get(name, "unknown")


@functools.lru_cache(maxsize=1)
def torch_folder() -> Path | None:
    """Where the installed torch lies, found without importing it; None when there is none."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    locations = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(locations))) if locations else None


def torch_version() -> str:
    """The installed torch's version (``2.13.0+cpu``) from its version file; empty when unknown."""
    folder = torch_folder()
    if folder is None:
        return ""
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else ""


class Registry:
    """All known codes.  Use `load`, which reads files once; the constructor takes parsed data."""

    def __init__(
        self, installed: Mapping[str, tuple[Entry, ...]], seed: Mapping[str, str], problem: str = ""
    ) -> None:
        """``problem`` says, in one line, why the installed torch's registry could not be read."""
        self.problem = problem
        #: The codes of the seed list.
        self.seed = frozenset(seed)
        self._codes = {
            code: Code(code, tuple(installed.get(code, ())), seed.get(code, ""))
            for code in sorted({*installed, *seed})
        }
        self._by_title = _titles(self._codes)
        self._templates = tuple(
            (re.compile(_PLACEHOLDER.sub(".+?", re.escape(title)), re.DOTALL), code)
            for title, code in self._by_title.items()
            if "{" in title
        )

    @classmethod
    def load(cls, path: str | Path | None = None) -> Registry:
        """The registry of the installed torch, or of the given JSON file, with the seed codes.

        A missing or malformed registry file leaves the seed codes, and `problem` says why.
        """
        return _load(str(path) if path is not None else None)

    def codes(self) -> tuple[str, ...]:
        """All known codes in order, those of the seed list included."""
        return tuple(self._codes)

    def entry(self, code: str) -> Code:
        """What is known about a code; raises `UnknownCodeError` for a family or anything else."""
        name = self.resolve(code)
        if name not in self._codes:
            raise UnknownCodeError(f"{code!r} is a family of errors, not a graph break code")
        return self._codes[name]

    def __contains__(self, code: str) -> bool:
        return code in self._codes

    def code_for(self, gb_type: str) -> str | None:
        """The code of a graph break's title (present, former or seeded); None when not known.

        Titles may hold ``{placeholders}``; a title that fits such a template counts.  Where two
        codes ever had the same title, the code that has it now wins, then the higher code, which
        is also what torch's own messages link to.
        """
        exact = self._by_title.get(gb_type)
        if exact is not None:
            return exact
        return next((code for regex, code in self._templates if regex.fullmatch(gb_type)), None)

    def resolve(self, text: str) -> str:
        """A code or family name from what a person types: ``GB0170``, ``gb0170``, ``170``, a
        family's name, or a title.  Raises `UnknownCodeError`, naming close matches.
        """
        text = text.strip()
        number = _CODE.fullmatch(text)
        if number is not None:
            code = f"GB{int(number.group(1)):04d}"
            if code in self._codes:
                return code
        elif text.lower() in FAMILIES:
            return text.lower()
        elif (by_title := self.code_for(text)) is not None:
            return by_title
        raise UnknownCodeError(self._unknown(text))

    def url(self, code: str) -> str:
        """The page about a code or family, or an empty string; never raises."""
        if code in FAMILIES:
            return FAMILIES[code].url
        return self._codes[code].url if code in self._codes else ""

    def title(self, code: str) -> str:
        """The title of a code or family, or an empty string; never raises."""
        if code in FAMILIES:
            return FAMILIES[code].title
        return self._codes[code].title if code in self._codes else ""

    def _unknown(self, text: str) -> str:
        import difflib

        known = {name.lower(): name for name in (*self._codes, *FAMILIES)}
        number = _CODE.fullmatch(text)
        wanted = f"gb{int(number.group(1)):04d}" if number else text.lower()
        close = [family for family in FAMILIES if wanted and wanted in family]
        close += [known[name] for name in difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)]
        if not close and not number:
            titles = {title.lower(): title for title in self._by_title}
            found = [name for name in titles if len(wanted) > 3 and wanted in name][:3]
            found = found or difflib.get_close_matches(wanted, titles, n=3, cutoff=0.5)
            close = [f"{self._by_title[titles[name]]} ({titles[name]})" for name in found]
        hint = (
            f"close matches: {', '.join(dict.fromkeys(close))}"
            if close
            else "`gbfix codes` lists all"
        )
        return f"unknown graph break code or family {text!r}; {hint}"


@functools.lru_cache(maxsize=8)
def _load(path: str | None) -> Registry:
    seed: dict[str, str] = json.loads((_HERE / "seed_codes.json").read_text(encoding="utf-8"))
    if path is None:
        folder = torch_folder()
        if folder is None:
            return Registry({}, seed, "torch is not installed: only the seeded codes are known")
        path = str(folder / "_dynamo" / "graph_break_registry.json")
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError) as error:
        return Registry({}, seed, f"{path}: cannot read torch's graph break registry: {error}")
    return Registry(_entries_of(data), seed)


def _entries_of(data: Mapping[str, Any]) -> dict[str, tuple[Entry, ...]]:
    """Code -> entries of a parsed registry file, without what is not formed like one."""
    installed = {code: _entries(value) for code, value in data.items() if _CODE.fullmatch(code)}
    return {code: found for code, found in installed.items() if found}


def _entries(value: Any) -> tuple[Entry, ...]:
    """The well-formed entries of one code; some torch versions hold one object, not a list."""
    items = value if isinstance(value, list) else [value]
    return tuple(
        Entry(
            str(item["Gb_type"]),
            str(item.get("Context", "")),
            str(item.get("Explanation", "")),
            tuple(map(str, hints)) if isinstance(hints := item.get("Hints"), list) else (),
        )
        for item in items
        if isinstance(item, dict) and item.get("Gb_type")
    )


def _titles(codes: Mapping[str, Code]) -> dict[str, str]:
    """Title -> code.  Later steps win: seeded names, then former ones, then present ones."""
    former = [(name, c.code) for c in codes.values() for name in c.former_titles if c.installed]
    seeded = [(c.seed_title, c.code) for c in codes.values() if c.seed_title]
    present = [(c.title, c.code) for c in codes.values() if c.title and c.installed]
    return dict([*seeded, *former, *present])


def _is_title(text: str) -> bool:
    """False for what the registry took from source by mistake: the name of a variable."""
    return not (text.startswith("_") and text.isidentifier())


def _prose(text: str) -> str:
    """Registry text as a reader wants it: empty for bare variable names, literals unquoted."""
    if text.startswith(('"', "f'", 'f"')):
        text = "".join(re.findall(r'"([^"]*)"', text))
    return " ".join(text.split()) if " " in text.strip() and " + " not in text else ""


def _joined(hints: tuple[str, ...]) -> tuple[str, ...]:
    joined: list[str] = []
    for hint in hints:
        if joined and joined[-1].endswith(" "):
            joined[-1] += hint
        elif hint.strip():
            joined.append(hint)
    return tuple(text for text in (" ".join(hint.split()) for hint in joined) if " " in text)


@functools.lru_cache(maxsize=1)
def coverage() -> Mapping[str, Mapping[str, Any]]:
    """What the corpus shows of a code: its best outcome and the number of cases, or why none.

    Generated from ``corpus/`` by ``docs/generate.py``; codes that are not in it have no case.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in ("coverage.json", "coverage_newer.json"):
        found |= json.loads((_HERE / name).read_text(encoding="utf-8"))
    return found


@dataclasses.dataclass(frozen=True)
class Advice:
    """What gbfix itself says about a code or family: plain text and a sketch of the change."""

    text: str
    before: str = ""
    after: str = ""


def advice(code: str) -> Advice | None:
    """Our own advice on a code or family, from ``advice/<code>.md``; None where we wrote none.

    Such a file holds a paragraph or more, and then, if there is a sketch, two fenced Python blocks:
    before and after.
    """
    if not re.fullmatch(r"[\w-]+", code):
        return None
    try:
        text = (_HERE / "advice" / f"{code}.md").read_text(encoding="utf-8")
    except OSError:
        return None
    prose, *blocks = text.split("```python\n")
    before, after = ([block.partition("```")[0].rstrip() for block in blocks] + ["", ""])[:2]
    return Advice(prose.partition("\nBefore:")[0].strip(), before, after)
