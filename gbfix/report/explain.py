"""What `gbfix explain` and `gbfix codes` print.  Starts fast: no torch, no LibCST, no rich."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from gbfix import catalog, registry

_WIDTH = 88


def explain(name: str) -> dict[str, Any]:
    """Everything known about one code, family or title, as `--format json` prints it.

    Raises `gbfix.registry.UnknownCodeError`.
    """
    known = registry.Registry.load()
    code = known.resolve(name)
    advice = registry.advice(code)
    result: dict[str, Any] = {
        "code": code,
        "title": known.title(code),
        "kind": "family" if code in registry.FAMILIES else "graph-break",
        "in_torch": True,
        "torch": registry.torch_version(),
        "explanation": "",
        "hints": [],
        "former_titles": [],
        "advice": advice.text if advice else "",
        "before": advice.before if advice else "",
        "after": advice.after if advice else "",
        "codemods": list(catalog.answering(code)),
        "why": registry.coverage().get(code, {}).get("why", ""),
        "url": known.url(code),
    }
    if code in registry.FAMILIES:
        result["explanation"] = registry.FAMILIES[code].explanation
    else:
        entry = known.entry(code)
        result["in_torch"] = entry.installed
        result["explanation"] = entry.explanation
        result["hints"] = list(entry.hints)
        result["former_titles"] = list(entry.former_titles)
    return result


def explain_text(name: str) -> str:
    """The same for people, ending in a newline."""
    about = explain(name)
    lines = [f"{about['code']}: {about['title']}", *_wrapped(_kind(about), "")]
    lines += _section("Explanation", _wrapped(about["explanation"]))
    lines += _section("Torch's hints", [line for h in about["hints"] for line in _bullet(h)])
    lines += _section("What to do", _paragraphs(about["advice"]))
    for head in ("before", "after"):
        lines += _section(head.capitalize(), _code(about[head]))
    names = ", ".join(about["codemods"]) or "none: gbfix reports it and gives advice"
    lines += _section("Codemods that answer it", _wrapped(names))
    lines += _section("Why no program of the corpus shows it", _wrapped(about["why"]))
    lines += _section("Also known as", [f"  {title}" for title in about["former_titles"]])
    if about["url"]:
        lines += ["", f"See {about['url']}"]
    return "\n".join(lines) + "\n"


def explain_json(names: Sequence[str]) -> str:
    """One object for one name, a list for several."""
    found = [explain(name) for name in names]
    return json.dumps(found[0] if len(found) == 1 else found, indent=2) + "\n"


def code_rows() -> Iterator[dict[str, Any]]:
    """All codes and families, with what the corpus shows of them (see `registry.coverage`)."""
    known = registry.Registry.load()
    covered = registry.coverage()
    answers: dict[str, list[str]] = {}
    for info in catalog.codemods():
        for code in info.codes:
            answers.setdefault(code, []).append(info.name)
    for code in (*known.codes(), *registry.FAMILIES):
        in_torch = code in registry.FAMILIES or known.entry(code).installed
        shown = covered.get(code, {})
        yield {
            "code": code,
            "title": known.title(code),
            "in_torch": in_torch,
            "codemods": answers.get(code, []),
            "kind": "family" if code in registry.FAMILIES else "graph-break",
            "seed": code in known.seed,
            "reproduced": shown.get("cases", 0) > 0,
            "cases": shown.get("cases", 0),
            "outcome": shown.get("outcome", ""),
            "why": shown.get("why", ""),
        }


def codes(style: str) -> str:
    """The table of `code_rows` as ``text``, ``json`` or ``markdown``."""
    rows = list(code_rows())
    if style == "json":
        return json.dumps(rows, indent=1) + "\n"
    cells = [("code", "torch", "outcome", "title", "codemods, or why there is no program")]
    for row in rows:
        present = "yes" if row["in_torch"] else "no"
        names = row["why"] or ", ".join(row["codemods"])
        cells.append((row["code"], present, row["outcome"], row["title"], names))
    if style == "markdown":
        table = [_markdown_row(row) for row in cells]
        table.insert(1, "| --- | --- | --- | --- | --- |")
        return "\n".join([*_counts(rows), "", *table]) + "\n"
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = (
        "  ".join((*(row[i].ljust(widths[i]) for i in range(4)), row[4])).rstrip() for row in cells
    )
    return "\n".join(lines) + "\n"


_OUTCOMES = {
    "fixed": "fixed by a safe patch",
    "unsafe": "fixed by a patch that --unsafe-fixes shows",
    "advice": "no patch, advice",
    "eager-error": "the program is wrong without torch.compile, too",
    "gone": "raised nowhere in the installed torch",
    "shadowed": "another code or error comes first",
    "internal": "no program can make that state",
    "opcode": "another version of Python",
    "build": "another build",
    "hardware": "an accelerator, or types registered from C++",
    "open": "no program known yet",
}


def _counts(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How many codes have which outcome: of the seed list, and of the rest of the registry."""
    seeds = [row for row in rows if row["seed"]]
    newer = [row for row in rows if not row["seed"] and row["kind"] == "graph-break"]
    first, second = (sum(row["reproduced"] for row in group) for group in (seeds, newer))
    yield f"Of the {len(seeds)} seed codes {first} are reproduced by a program of the corpus,"
    yield f"and {second} of the {len(newer)} newer codes. Seed codes, then newer ones, by outcome:"
    yield ""
    for outcome, words in _OUTCOMES.items():
        counts = [sum(row["outcome"] == outcome for row in group) for group in (seeds, newer)]
        yield f"- {outcome}: {counts[0]}, {counts[1]} ({words})"


def _kind(about: dict[str, Any]) -> str:
    version = about["torch"]
    if about["kind"] == "family":
        return "a family of errors for which torch has no graph break code"
    if not version:
        return "a graph break (torch is not installed here)"
    where = "in" if about["in_torch"] else "not in"
    return f"a graph break, {where} the registry of the installed torch {version}"


def _section(head: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{head}:", *lines] if lines else []


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _bullet(text: str) -> list[str]:
    lines = _wrapped(text, "    ")
    return [f"  - {lines[0].strip()}", *lines[1:]] if lines else []


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += ([""] if lines else []) + _wrapped(" ".join(paragraph.split()))
    return lines


def _code(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.split("\n")] if text else []


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
