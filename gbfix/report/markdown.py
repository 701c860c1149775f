"""The report as the text of a pull request: what broke, what changes, what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gbfix import payoff
from gbfix.patch import display_path
from gbfix.report import plain
from gbfix.report.summary import Mode, closing_line
from gbfix.schema import BreakReport, ErrorReport, Patch, Region, Report, Rung

#: What each rung of the ladder asks, for a reader who does not know gbfix.
_ASKS = {
    "source": "The file is the same outside of the change.",
    "outputs": "Uncompiled, it gives the same outputs and state as before.",
    "gradients": "Gradients are the same.",
    "effects": "Prints, logs, warnings and files are the same, in the same order.",
    "eager": "Compiled with the backend `eager`, it is one graph and gives the same.",
    "aot_eager": "Compiled with the backend `aot_eager`, it is one graph and gives the same.",
    "inductor": "Compiled with the backend `inductor`, it gives the same.",
    "program": "The whole program does the same.",
    "launcher": "Started by its launcher as several processes, each of them does the same.",
    "shown": "Inputs that this rewrite asks for were compared.",
    "sizes": "Sizes that the data decides were compared where they are 0 and where they are 1.",
    "recompiles": "It does not recompile more often.",
    "branches": "Both sides of each condition ran, and agree.",
    "unrun": "Branches that no call reached were forced in both versions, and agree (but for the"
    " limits below).",
    "constants": "Values that the patch reads less often (globals, attributes) were varied in both"
    " versions, and the results agree (but for the limits below).",
}
_WORDS = {True: "passed", False: "**failed**", None: "not run"}


def render(report: Report, cwd: Path) -> str:
    """The whole report in GitHub's Markdown, ending in a newline."""
    parts = [f"## {_headline(report)}", *_summary(report)]
    for one in report.patches:
        parts += _patch(one, report, cwd)
    parts += _cost(report.regions)
    parts += _left(report, cwd)
    parts += _unsafe(report.unsafe_patches, cwd)
    parts += _errors(report.errors, cwd)
    parts.append(_footer(report))
    return "\n\n".join(parts) + "\n"


def _headline(report: Report) -> str:
    if not report.patches:
        return "No patch for graph breaks" if report.breaks else "No graph breaks"
    names = [_short(name) for name in _functions(report)]
    where = f" in {_listed(names)}" if names else ""
    count = sum(found.status == "fixed" for found in report.breaks)
    what = "a graph break" if count == 1 else f"{count} graph breaks"
    return _text(f"Fix {what} of `torch.compile`{where}")


def _functions(report: Report) -> list[str]:
    """The functions that broke and do not any more."""
    sites = [found.graph_break.site for found in report.breaks if found.status == "fixed"]
    return list(dict.fromkeys(site.function for site in sites if site is not None))


def _short(name: str) -> str:
    return name.rpartition("<locals>.")[2]


def _listed(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:3]]
    if len(names) > 3:
        return f"{', '.join(shown)} and {len(names) - 3} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _summary(report: Report) -> list[str]:
    lines = []
    for region in report.regions:
        if region.graphs_before is None or region.status in ("clean", "error"):
            continue
        now = "?" if region.graphs_after is None else region.graphs_after
        breaks = f"{region.breaks_before} → {region.breaks_after}"
        lines.append((region.name, f"{region.graphs_before} → {now}", breaks, region.status))
    if not lines:
        closing = closing_line(report, Mode.CHECK)
        return [_text(closing)] if closing else []
    rows = [(f"`{name}`", graphs, breaks, status) for name, graphs, breaks, status in lines]
    return [_table(("compiled region", "graphs", "breaks", "status"), rows)]


def _patch(one: Patch, report: Report, cwd: Path) -> list[str]:
    path = _diff_path(one) or display_path(one.path, cwd)
    parts = [f"### `{path}`"]
    causes = [
        found for found in report.breaks if found.status == "fixed" and _is_in(found, one.path)
    ]
    for found in causes:
        parts.append(_cause(found))
    titles = one.change
    parts.append(f"**Change:** {_text(titles)}.")
    parts.append(_fenced(one.diff.rstrip("\n"), "diff"))
    rows = [_evidence(rung) for rung in one.verdict.rungs]
    if one.verdict.perturbed:
        rows.append(("Further inputs, made from the recorded ones.", "compared",
                     str(one.verdict.perturbed)))  # fmt: skip
    if one.verdict.branches:
        seen, total = one.verdict.branches
        if one.verdict.rung("branches") is None:
            rows.append((_ASKS["branches"], "measured", f"{seen} of {total}"))
    if rows:
        parts += ["**Evidence**", _table(("question", "result", "detail"), rows)]
    limits = list(dict.fromkeys([*one.verdict.limits, *one.notes, *one.verdict.caveats]))
    if limits:
        parts += [
            "**Limits**",
            "\n".join(f"- {_text(plain.difference(limit))}" for limit in limits),
        ]
    if str(one.safety) == "unsafe":
        parts.append("This patch is *unsafe*: read its limits before you take it.")
    return parts


def _cause(found: BreakReport) -> str:
    cause = found.graph_break
    site = cause.site
    line = f", line {site.line}" if site is not None else ""
    code = f"[{cause.code}]({found.url})" if found.url else cause.code
    # A listing of torch's names folders of this machine.
    why = plain.why(cause.explanation or cause.message)
    word = "Break (only split: as much is left out of graphs as before)" if found.split else "Break"
    head = f"**{word}:** {code} {_text(cause.gb_type)}{line}."
    source = site.text.strip() if site is not None else ""
    text = f"{head} {_text(why)}"
    return f"{text}\n\n{_fenced(source, 'python')}" if source else text


def _is_in(found: BreakReport, path: str) -> bool:
    site = found.graph_break.site
    return site is not None and site.path == path


def _diff_path(one: Patch) -> str:
    """The path as the diff has it, which may count from a package's root."""
    head = one.diff.partition("\n")[0]
    return head.removeprefix("--- a/").partition("\t")[0] if head.startswith("--- a/") else ""


def _evidence(rung: Rung) -> tuple[str, str, str]:
    asks = _ASKS.get(rung.name) or f"{plain.rung(rung.name).capitalize()}."
    return asks, _WORDS[rung.passed], rung.detail


def _cost(regions: Iterable[Region]) -> list[str]:
    measured = [(region, region.payoff) for region in regions if region.payoff is not None]
    if not measured:
        return []
    rows = []
    words = []
    for region, found in measured:
        for name, timing in (("before", found.before), ("after", found.after)):
            low, high = (f"{1000 * value:.3f}" for value in timing.spread)
            rows.append((f"`{region.name}` {name}", f"{1000 * timing.latency:.3f} ms",
                         f"{low} to {high} ms", f"{timing.compile_seconds:.1f} s"))  # fmt: skip
        words.append(_text(payoff.sentence(region.name, found)))
    head = ("region", "one call", "middle half", "compiling")
    return ["### Cost", _table(head, rows), "\n".join(f"- {text}" for text in words)]


def _left(report: Report, cwd: Path) -> list[str]:
    left = [found for found in report.breaks if found.status != "fixed"]
    if not left:
        return []
    rows = []
    for found in left:
        cause = found.graph_break
        frame = cause.site or (cause.frames[-1] if cause.frames else None)
        place = f"`{display_path(frame.path, cwd)}:{frame.line}`" if frame is not None else ""
        told = (*found.facts, *found.advice[:1])
        rows.append((cause.code, place, cause.gb_type, " ".join(told)))
    return ["### Breaks that stay", _table(("code", "where", "what", "what to do"), rows)]


def _unsafe(patches: Sequence[Patch], cwd: Path) -> list[str]:
    if not patches:
        return []
    lines = []
    for one in patches:
        reasons = list(dict.fromkeys([*one.verdict.caveats, *one.notes]))[:2]
        titles = one.change
        lines.append(
            f"- `{display_path(one.path, cwd)}`: {_text(titles)}. {_text(' '.join(reasons))}"
        )
    return ["### Held back as unsafe (`--unsafe-fixes` shows them)", "\n".join(lines)]


def _errors(errors: Sequence[ErrorReport], cwd: Path) -> list[str]:
    if not errors:
        return []
    lines = []
    for error in errors:
        where = f"`{display_path(error.path, cwd)}:{error.line}`: " if error.path else ""
        lines.append(f"- {where}{_text(' '.join(error.message.split()))}")
    return ["### Notes of the run", "\n".join(lines)]


def _footer(report: Report) -> str:
    versions = f"gbfix {report.gbfix_version}, torch {report.torch_version}"
    return f"Found and checked by {versions}, by running `{_code(report.target)}`."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(item) for item in row)} |" for row in lines)


def _cell(text: str) -> str:
    return text if text == "---" or text.startswith("`") else _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Prose in which nothing is taken for a tag, a mention or an issue's number."""
    text = " ".join(text.split())
    text = text.replace("<", "&lt;")
    return re.sub(r"(?<![\w`])([@#])(?=\w)", r"\1<!-- -->", text)


def _code(text: str) -> str:
    return text.replace("`", "'")


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
