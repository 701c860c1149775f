"""The report as one JSON object, for tools.  Its shape is fixed by ``report.schema.json``.

Keys are added over time, never renamed or dropped while ``version`` is 1.  Lines count from 1 and
columns from 0 in characters, as in `gbfix.schema`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gbfix.schema import (
    BreakReport,
    ErrorReport,
    Frame,
    Patch,
    Payoff,
    Region,
    Report,
    Rung,
    Verdict,
)

VERSION = 1

# Rungs that a reader may rely on finding: null where they were not run.
_NAMED_RUNGS = ("eager", "aot_eager", "inductor", "outputs", "gradients", "effects")


def render(report: Report) -> str:
    """The whole report as JSON text, in ASCII (any terminal can take it), ending in a newline."""
    return json.dumps(as_dict(report), indent=2, allow_nan=False) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report as plain dicts and lists."""
    return {
        "version": VERSION,
        "gbfix": report.gbfix_version,
        "torch": report.torch_version,
        "target": report.target,
        "include": list(report.include),
        "callers": report.callers,
        "seconds": round(report.seconds, 3),
        "cached": report.cached,
        "timings": {name: round(value, 3) for name, value in report.timings.items()},
        "regions": [_region(region) for region in report.regions],
        "breaks": [_break(found) for found in report.breaks],
        "patches": [_patch(patch) for patch in report.patches],
        "unsafe_patches": [_patch(patch) for patch in report.unsafe_patches],
        "errors": [error_dict(error) for error in report.errors],
        "targets": [dataclasses.asdict(item) for item in report.targets],
    }


def _region(region: Region) -> dict[str, Any]:
    return {
        "name": region.name,
        "path": region.path,
        "line": region.line,
        "status": region.status,
        "calls": region.calls,
        "calls_made": region.calls_made,
        "breaks_before": region.breaks_before,
        "breaks_after": region.breaks_after,
        "graphs_before": region.graphs_before,
        "graphs_after": region.graphs_after,
        "recompiles_before": region.recompiles_before,
        "recompiles_after": region.recompiles_after,
        "operators_before": region.operators_before,
        "operators_after": region.operators_after,
        "graph_sizes_before": _listed(region.sizes_before),
        "graph_sizes_after": _listed(region.sizes_after),
        "fallbacks_before": region.fallbacks_before,
        "fallbacks_after": region.fallbacks_after,
        "payoff": _payoff(region.payoff) if region.payoff else None,
        "note": region.note,
    }


def _listed(sizes: tuple[int, ...] | None) -> list[int] | None:
    return None if sizes is None else list(sizes)


def _payoff(found: Payoff) -> dict[str, Any]:
    data = dataclasses.asdict(found)
    data["spread"] = list(found.spread)
    for side, timing in (("before", found.before), ("after", found.after)):
        data[side]["spread"] = list(timing.spread)
    return data


def _break(found: BreakReport) -> dict[str, Any]:
    cause = found.graph_break
    frame = cause.site or (cause.frames[-1] if cause.frames else Frame("", 0, ""))
    return {
        "code": cause.code,
        "gb_type": cause.gb_type,
        "path": frame.path,
        "line": frame.line,
        "column": frame.column,
        "end_line": frame.end_line,
        "end_column": frame.end_column,
        "function": frame.function,
        "region": cause.region,
        "status": found.status,
        "split": found.split,
        "ranks": list(found.ranks),
        "codemod": found.codemod,
        "facts": list(found.facts),
        # Facts stood here before they had a key of their own: they stay for who reads them here.
        "advice": [*found.facts, *found.advice],
        "url": found.url,
        "explanation": cause.explanation,
        "hints": list(cause.hints),
        "attempts": [
            {
                "codemod": attempt.codemod,
                "title": attempt.title,
                "passed": attempt.passed,
                "safety": str(attempt.safety),
                "reason": attempt.reason,
            }
            for attempt in found.attempts
        ],
    }


def _patch(patch: Patch) -> dict[str, Any]:
    return {
        "path": patch.path,
        "diff": patch.diff,
        "codemods": list(patch.codemods),
        "codes": list(patch.codes),
        "safety": str(patch.safety),
        "verdict": verdict_dict(patch.verdict),
        "titles": list(patch.titles),
        "notes": list(patch.notes),
        "limits": list(patch.verdict.limits),
    }


def verdict_dict(verdict: Verdict) -> Mapping[str, Any]:
    named: dict[str, Any] = dict.fromkeys(_NAMED_RUNGS)
    named.update({rung.name: _rung(rung) for rung in verdict.rungs})
    named["branches"] = "{}/{}".format(*verdict.branches) if verdict.branches else None
    named["perturbed"] = verdict.perturbed
    named["passed"] = verdict.passed
    named["caveats"] = list(verdict.caveats)
    named["limits"] = list(verdict.limits)
    return named


def _rung(rung: Rung) -> dict[str, Any]:
    return {
        "passed": rung.passed,
        "detail": rung.detail,
        "caveats": list(rung.caveats),
        "limits": list(rung.limits),
    }


def error_dict(error: ErrorReport) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": error.message,
        "path": error.path,
        "line": error.line,
        "traceback": error.traceback,
        "fatal": error.fatal,
    }
