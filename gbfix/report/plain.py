"""Measured things in plain words: inputs, rungs, statuses."""

from __future__ import annotations

import re

_INPUTS = {
    "base": "the program's own inputs",
    "again": "the program's own inputs, given a second time",
    "first-negated": "the program's inputs, negated, in a first call",
    "first-redrawn": "inputs with other random values, in a first call",
    "redrawn": "inputs with other random values",
    "redrawn-2": "inputs with other random values",
    "negated": "the program's inputs, negated",
    "scaled": "the program's inputs, much larger",
    "small": "the program's inputs, much smaller",
    "zeros": "inputs that are all zeros",
    "ones": "inputs that are all ones",
    "nan": "inputs that hold a NaN",
    "inf": "inputs that hold an infinity",
    "-inf": "inputs that hold a negative infinity",
    "state-negated": "the program's inputs, with parameters and buffers negated",
    "state-scaled": "the program's inputs, with parameters and buffers much larger",
    "grad": "inputs that require gradients",
    "grad-negated": "negated inputs that require gradients",
    "grad-zeros": "zeros that require gradients",
    "grown": "a batch with one more row",
    "single": "a batch of one row",
    "fewer": "a batch of two rows",
    "empty": "a batch without rows",
    **dict.fromkeys(
        ("ragged", "ragged-rest", "ragged-2", "ragged-2-rest"),
        "one input with one more row than another",
    ),
    "wider": "inputs with one more column",
    "taller": "inputs with one more before the last dimension",
    "square": "a square with one more on each side",
    "column": "one input with two columns instead of one",
    "columns": "inputs with two columns instead of one",
    "longer": "lists with one more tensor",
    "words": "another text that the program knows",
    "other-words": "a text that the program does not know",
    "nought": "0 for each number",
    "minus": "negative numbers",
    "aliased": "one tensor given twice",
    "exchanged": "the values of two inputs exchanged",
    "close": "two inputs with nearly the same values",
    "flags": "the flags turned",
    "mode": "train mode for eval mode (or the other way round)",
    "double": "inputs in double precision",
    "half": "inputs in bfloat16",
    "lower": "inputs in bfloat16, and the state as it is",
    "integer": "inputs that are integers",
    "fraction": "fractions where integers came",
    "plain": "Python numbers where single tensors came",
    "strided": "inputs in another memory layout",
    "numbers": "other Python numbers",
    "defaults": "a call without its optional arguments",
}

_RUNGS = {
    "source": "the files parse",
    "outputs": "same results, uncompiled",
    "gradients": "same gradients",
    "effects": "same output, logs, warnings and files",
    "eager": "same when captured as a graph",
    "aot_eager": "same when lowered (aot_eager)",
    "inductor": "same under inductor",
    "program": "the program runs as you compile it",
    "launcher": "its launcher starts two processes, and each does the same",
    "shown": "inputs that this rewrite asks for",
    "sizes": "sizes that data decides, where they are 0 and 1",
    "recompiles": "no more recompiles",
    "branches": "both sides of each condition",
    "unrun": "what no call ran, by force",
    "constants": "still sees values that change",
    "parts": "something is compiled",
    "break": "the break is gone",
}

#: What a status means, for the one line that most people read.
STATUSES = {
    "same": "unchanged",
    "safe": "safe",
    "still breaks": "still breaks",
    "unsafe": "unsafe",
    "unmatched": "not comparable",
    "wrong": "wrong",
    "error": "not judged",
}

_APART = re.compile(
    r"Mismatched elements: (\d+) / (\d+) \([^()]*\); Greatest absolute difference: (\S+) at index "
    r"\([^()]*\).*allowed\)"
)
_SCALARS = re.compile(
    r"Scalars are not close! Expected (\S+) but got (\S+)\. Absolute difference: \S+ "
    r"\(up to \S+ allowed\)(?: R[^()]*(?:\([^()]*\))?)?"
)
_LABEL = re.compile(r" \(inputs: ([^()]*)\)$")


def inputs(label: str) -> str:
    """What a variation of the inputs is."""
    if label.startswith("edge "):
        return "inputs close to where the program goes another way"
    what, _, values = label.partition("+")
    if values:
        return f"{inputs(what)}, and {inputs(values)}"
    return _INPUTS.get(label, f"the inputs {label!r}" if label else "the program's own inputs")


def rung(name: str) -> str:
    """What a step of the ladder asks."""
    return _RUNGS.get(name, name)


_LISTING = re.compile(r"\s*[^.]*# File \".*$", re.DOTALL)


def why(text: str) -> str:
    """A reason in one line, without the listing of source lines that torch may put behind it."""
    return " ".join((_LISTING.sub("", text) or text).split())


#: An end of a sentence: what follows is another one, and no abbreviation stands before it.
_SENTENCE = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bcf)(?<!\bvs)[.!?](?=\s+[^\sa-z])")


def first_sentence(text: str) -> str:
    """The first sentence of a reason in one line, without its full stop."""
    text = why(text)
    end = _SENTENCE.search(text)
    return text[: end.start()] if end is not None else text.removesuffix(".")


def difference(text: str) -> str:
    """What differs, and on which inputs, as a reader says it."""
    text = _SCALARS.sub(r"\1 became \2", text)
    text = _APART.sub(_apart, text)
    found = _LABEL.search(text)
    if found is None:
        return text
    return f"{text[: found.start()]} (on {inputs(found.group(1))})"


def _apart(found: re.Match[str]) -> str:
    try:
        most = f"{float(found[3]):.4g}"
    except ValueError:
        most = found[3]
    return f"{found[1]} of {found[2]}, by up to {most}"


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def change(before: object, after: object) -> str:
    """``2 -> 1``, or the one number where nothing changed."""
    if before is None:
        return "-" if after is None else str(after)
    return str(before) if after is None or before == after else f"{before} -> {after}"
