"""Sentences about findings: the only place that puts a measured difference into words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gbfix.evidence import Finding, Kind, Part
from gbfix.evidence.contract import holds_no_numbers

#: How many places of a limit are named each.
_NAMED = 3

_BACKWARD = "of the backward pass "
_ABOUT = {
    "empty": "For inputs without rows",
    "single": "For a batch of one",
    "fewer": "For a batch of two",
    "grown": "For a larger batch",
    **dict.fromkeys(
        ("ragged", "ragged-rest", "ragged-2", "ragged-2-rest"),
        "Where one input has more rows than another",
    ),
    "wider": "For wider inputs",
    "taller": "For inputs of another size before the last",
    "square": "For a larger square",
    "column": "Where one input has several columns instead of one",
    "columns": "For several columns instead of one",
    "longer": "For a list with one more",
    "words": "With another text that the program knows",
    "other-words": "With a text that the program does not know",
    "nought": "Where the numbers are 0",
    "minus": "Where the numbers are negative",
    "halves": "Where a fraction is given for a whole number",
    "double": "For float64 inputs",
    "half": "For bfloat16 inputs",
    "lower": "For bfloat16 inputs beside a state of another dtype",
    "mixed": "Where one input is float64 and the others are not",
    "mixed-rest": "Where one input is float32 and the others are not",
    "arrays": "Where a tensor is given for a number",
    "scalars": "Where a tensor is given for a number",
    "texts": "Where a tensor is given for a text",
    "bytes": "For uint8 inputs",
    "image": "For uint8 inputs",
    "integer": "For integer inputs",
    "fraction": "Where a whole number is given as a fraction",
    "plain": "Where a Python number is given for a tensor",
    "strided": "For tensors in another memory layout",
    "expanded": "For expanded tensors",
    "aliased": "Where one tensor is given twice",
    "mode": "In the other mode (train or eval)",
    "flags": "With the flags turned",
    "defaults": "Without the optional arguments",
    "numbers": "With other numbers",
    "instance": "For an instance with other numbers",
    "twice": "Where gradients are differentiated again",
    "grad": "Where the inputs require gradients",
    "grad-negated": "Where the inputs require gradients",
    "grad-zeros": "Where the inputs require gradients",
}


#: What stands around the error that a backend met, and torch's hint behind it.
_COMPILER = re.compile(r"^BackendCompilerFailed: backend='\w+' raised: | Hint: .*$", re.DOTALL)


def is_ordinary(finding: Finding) -> bool:
    """Whether the finding is on inputs that need no word."""
    return _kind_of(finding) not in _ABOUT


def _about(finding: Finding) -> str:
    """Of which inputs the finding speaks; empty where they need no word."""
    about = _ABOUT.get(_kind_of(finding), "")
    both = "+" in finding.label and holds_no_numbers(finding.label)
    return f"{about}, and hold NaN or an infinity" if both else about


def _kind_of(finding: Finding) -> str:
    """The label without the name of the values."""
    return finding.label.partition("+")[0]


def difference(finding: Finding) -> str:
    """What differs, with the inputs that showed it: for a rung that failed."""
    return f"{statement(finding)} (inputs: {finding.label})"


def caveat(finding: Finding) -> str:
    """Why a patch is unsafe, in a line."""
    about = _about(finding)
    if about:
        return f"{about}: {statement(finding)}"
    if (
        finding.kind in (Kind.RAISES, Kind.SIZE_ERROR, Kind.PROMISE)
        or finding.part is Part.GRADIENT
    ):
        return f"{statement(finding)} (inputs: {finding.label})"
    return statement(finding)


def limit(finding: Finding) -> str:
    """One plain sentence about a call that the patch does not serve as the original does."""
    text = _plain(finding)
    about = _about(finding)
    return f"{about}, {text}." if about else f"{text[0].upper()}{text[1:]}."


def limits(findings: Iterable[Finding]) -> tuple[str, ...]:
    """A sentence for each kind of limit; of many places, the first is named and the rest counted.

    An object that is reached by two ways (``self.a`` and ``global.model.a``) counts once.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        text = limit(finding)
        place = _thing(finding)
        parts = tuple(text.split(place, 1)) if place and place in text else (text,)
        groups.setdefault(parts, []).append(finding)
    found: dict[str, None] = {}
    for parts, group in groups.items():
        group = sorted(group, key=lambda one: one.place.startswith("global."))
        seen: list[Finding] = []
        for one in group:
            tails = (known.place.partition(".")[2] for known in seen)
            again = any(tail and one.place.endswith(f".{tail}") for tail in tails)
            if not (one.place.startswith("global.") and again):
                seen.append(one)
        if len(seen) <= _NAMED or len(parts) == 1:
            found.update(dict.fromkeys(map(limit, seen)))
        else:
            first = f"{_thing(seen[0])} (and {len(seen) - 1} others)"
            found[first.join(parts)] = None
    return tuple(found)


def _plain(finding: Finding) -> str:
    place = _thing(finding)
    match finding.kind:
        case Kind.NOT_COMPILED if finding.before or finding.variation in ("numbers", "instance"):
            return _not_compiled(finding)
        case Kind.RAISES | Kind.NOT_COMPILED | Kind.SIZE_ERROR:
            return f"the patch raises an error ({finding.after or finding.detail})"
        case Kind.OTHER_ERROR:
            return f"the patch raises {finding.after} instead of {finding.before}"
        case Kind.DOES_NOT_RAISE:
            return f"the patch does not raise {finding.before} as the original does"
        case Kind.DIFFERENTIABLE:
            now = "a gradient where it required none" if finding.after == "True" else "no gradient"
            return f"{place} requires {now}"
        case Kind.ALIAS:
            return f"{place} is {_whose(finding.after)} and no longer {_whose(finding.before)}"
        case Kind.ZERO:
            return f"{place} gets a zero gradient instead of none"
        case Kind.ZERO_OF_NO_NUMBER:
            return (
                f"where inputs hold NaN or infinity, {place} gets a gradient of NaN or infinity, as"
                " others do, instead of none"
            )
        case Kind.NONE:
            return f"{place} gets no gradient instead of a zero one"
        case Kind.NEW | Kind.LOST:
            return f"the gradient of {place} is {finding.kind}"
        case Kind.VALUE_FOR_NAN | Kind.UNDONE | Kind.LEFT:
            return _of_compilers(finding, place)
        case Kind.VALUE if finding.part is Part.GRADIENT:
            return f"the gradient of {place} differs"
        case Kind.VALUE:
            return f"{place} has another value"
        case Kind.DTYPE | Kind.SHAPE | Kind.DEVICE:
            return f"{place} has {finding.kind} {finding.after} instead of {finding.before}"
    return statement(finding)


def _not_compiled(finding: Finding) -> str:
    if not finding.before:
        return "the graph breaks again"
    error = _COMPILER.sub("", finding.detail)
    return (
        f"the patched code does not compile ({error}); the original's backward pass raises there"
        f" ({finding.before})"
    )


def _of_compilers(finding: Finding, place: str) -> str:
    """What every graph has, whatever the patch."""
    if finding.kind is Kind.UNDONE:
        return (
            f"if a call raises an error, the changes that it made to {place} before that are lost"
        )
    if finding.kind is Kind.LEFT:
        return f"a call that raises an error leaves the {finding.place} as it was in the graph"
    what = f"the gradient of {place}" if finding.part is Part.GRADIENT else place
    return f"inductor's kernels compute numbers where {what} is NaN in the original"


def _whose(name: str) -> str:
    """Whose memory a tensor is, in words: paths into the arguments are no words."""
    if name.startswith("a view of "):
        return f"a view of {_whose(name.removeprefix('a view of '))}"
    if name.startswith("in."):
        return "an input itself" if name.count(".") < 3 else "a part of an input"
    return f"`{name}`" if "." in name else name


def _thing(finding: Finding) -> str:
    if finding.part is Part.OUTPUT:
        return "the result" if finding.place == "output" else f"the result ({finding.place})"
    if finding.part is Part.STATE:
        return f"`{finding.place}`"
    if finding.part is Part.GRADIENT:
        return "an input" if finding.place.startswith("in.") else f"`{finding.place}`"
    return finding.place or "the call"


def subject(finding: Finding) -> str:
    """The thing that differs, with the time where that is not plain."""
    if finding.part is Part.STATE:
        return f"{finding.place} afterwards"
    if finding.part is Part.GRADIENT:
        return f"gradient of {finding.place}"
    return finding.place


#: What a finding of each kind says; ``what`` is its subject, the other fields are the finding's.
_STATEMENTS = {
    Kind.TYPE: "{what}: {before} became {after}",
    Kind.SHAPE: "{what}: shape {before} became {after}",
    Kind.DTYPE: "{what}: dtype {before} became {after}",
    Kind.DEVICE: "{what}: device {before} became {after}",
    Kind.DIFFERENTIABLE: "{what}: requires_grad {before} became {after}",
    Kind.ALIAS: "{what} was {before} and is now {after}",
    Kind.STRIDES: "{what}: strides {before} became {after}",
    Kind.UNDONE: "{place} is not changed by a call that raises an error",
    Kind.LEFT: "{place} stays as it was in the graph that raised an error",
    Kind.VALUE_FOR_NAN: "{what}: numbers where the original gives NaN",
    Kind.NUMBER_CLASS: "{place} was a NumPy number and is a Python number now",
    Kind.TEXT: "{what}: the text of a function changed, and what it computes later is not compared",
    Kind.MISSING: "{place} is missing afterwards",
    Kind.STAYS: "{place} is still there afterwards",
    Kind.LOST: "{what} is lost",
    Kind.NEW: "{what} is new",
    Kind.ZERO: "{place} gets a zero gradient instead of none",
    Kind.ZERO_OF_NO_NUMBER: "{place} gets a gradient of NaN or infinity, instead of none",
    Kind.NONE: "{place} gets no gradient instead of a zero one",
    Kind.RAISES: "raises {after}, the original does not",
    Kind.DOES_NOT_RAISE: "does not raise {before} as the original does",
    Kind.OTHER_ERROR: "raises {after} instead of {before}",
    Kind.SIZE_ERROR: "raises {after} instead of {before}",
    Kind.MESSAGE: "the message of {detail} changes from {before} to {after}",
    Kind.NOT_COMPILED: "does not compile for varied inputs: {detail}",
    Kind.FAILS_TO_COMPILE: "fails to compile: {detail}",
    Kind.NOTHING_COMPILED: "no call runs anything that is compiled",
    Kind.SLOW: "does not end within {after}, the original does",
    Kind.NOT_TRIED: "these inputs could not be tried",
    Kind.PROMISE: "{detail}",
}


def statement(finding: Finding) -> str:
    """What differs, in a clause without inputs."""
    if finding.part is Part.EFFECT:
        return _effect(finding)
    match finding.kind:
        case Kind.VALUE:
            return _of_values(finding)
        case Kind.PARTS:
            before, after = finding.before or "values", finding.after or "others"
            return f"exception{finding.place}: {before} became {after}"
        case Kind.DIFFERS:
            return _of_run(finding)
    return _STATEMENTS[finding.kind].format(
        what=subject(finding),
        place=finding.place,
        before=finding.before,
        after=finding.after,
        detail=finding.detail,
    )


def _of_values(finding: Finding) -> str:
    what, before, after = subject(finding), finding.before, finding.after
    if finding.detail:
        return f"{what}: values differ ({finding.detail})"
    return f"{what}: {before} became {after}" if before or after else f"{what}: values differ"


def _of_run(finding: Finding) -> str:
    """What differs where no part of a value does: a backward pass, a random stream, a setting."""
    if finding.part is Part.GRADIENT:
        raised = finding.after or finding.before
        return f"backward raises {raised} in the {finding.detail} program only"
    if finding.part is Part.RANDOM:
        return f"{finding.place} random stream afterwards differs"
    return f"{finding.place} afterwards differs"


def _effect(finding: Finding) -> str:
    if finding.place == "order":
        return "events happen in another order: output, log records, warnings, files"
    change = f"{finding.before} became {finding.after}"
    if finding.place.startswith("later "):
        return f"{finding.place.removeprefix('later ')} {_BACKWARD}differ: {change}"
    if finding.place == "stderr":
        return f"stderr differs: {change}"
    return f"{finding.place} differ: {change}"
