"""The report as SARIF 2.1.0, for code scanning and editors.

One result for each graph break, with its fix as replacements where there is a patch for the file.
Columns count from 1 in characters, as SARIF wants them (``unicodeCodePoints``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gbfix import registry
from gbfix.patch import display_path, replacements
from gbfix.report import plain
from gbfix.schema import BreakReport, ErrorReport, Frame, Patch, Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report, cwd: Path) -> str:
    """The report as SARIF text; paths are given relative to ``cwd`` where they lie below it."""
    return json.dumps(as_dict(report, cwd), indent=2) + "\n"


def as_dict(report: Report, cwd: Path) -> dict[str, Any]:
    """The SARIF log as plain dicts and lists."""
    codes = sorted({found.graph_break.code for found in report.breaks})
    fixes = {patch.path: _fix(patch, cwd) for patch in report.patches}
    return log(
        [_rule(code) for code in codes],
        [_result(found, codes, fixes, cwd) for found in report.breaks],
        report.gbfix_version,
        report.errors,
        cwd,
    )


def log(
    rules: Sequence[dict[str, Any]],
    results: Sequence[dict[str, Any]],
    version: str,
    errors: Sequence[ErrorReport],
    cwd: Path,
) -> dict[str, Any]:
    """A whole log around results."""
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "gbfix", "version": version or "0", "rules": list(rules)}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": cwd.resolve().as_uri().rstrip("/") + "/"}},
        "invocations": [
            {
                "executionSuccessful": not any(error.fatal for error in errors),
                "toolExecutionNotifications": [_notification(e, cwd) for e in errors],
            }
        ],
        "results": list(results),
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    known = registry.Registry.load()
    advice = registry.advice(code)
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": known.title(code) or code},
        "defaultConfiguration": {"level": "warning"},
    }
    if advice is not None:
        rule["help"] = {"text": advice.text}
    if known.url(code):
        rule["helpUri"] = known.url(code)
    return rule


def _result(
    found: BreakReport, codes: list[str], fixes: dict[str, dict[str, Any]], cwd: Path
) -> dict[str, Any]:
    cause = found.graph_break
    why = plain.why(cause.explanation or cause.message)
    text = ": ".join(part for part in (cause.gb_type, why) if part)
    result: dict[str, Any] = {
        "ruleId": cause.code,
        "ruleIndex": codes.index(cause.code),
        "level": "warning",
        "message": {"text": text or cause.code},
        "properties": {"region": cause.region, "status": found.status},
    }
    frame = cause.site or (cause.frames[-1] if cause.frames else None)
    if frame is None:
        return result
    result["locations"] = [location(frame.path, cwd, _region(frame))]
    if found.status == "fixed" and frame.path in fixes:
        result["fixes"] = [fixes[frame.path]]
    return result


def _region(frame: Frame) -> dict[str, int]:
    region = {"startLine": max(frame.line, 1)}
    if frame.column is not None:
        region["startColumn"] = frame.column + 1
        if frame.end_column is not None:
            region["endLine"] = max(frame.end_line or frame.line, 1)
            region["endColumn"] = frame.end_column + 1
    return region


def location(path: str, cwd: Path, region: dict[str, int] | None = None) -> dict[str, Any]:
    """Where a result points to."""
    physical: dict[str, Any] = {"artifactLocation": _artifact(path, cwd)}
    if region is not None:
        physical["region"] = region
    return {"physicalLocation": physical}


def _artifact(path: str, cwd: Path) -> dict[str, str]:
    full = Path(cwd, path)
    if not full.is_relative_to(cwd):
        return {"uri": full.as_uri()}
    return {"uri": quote(display_path(path, cwd)), "uriBaseId": "ROOT"}


def _fix(patch: Patch, cwd: Path) -> dict[str, Any]:
    changed = [
        {
            "deletedRegion": {
                "startLine": start + 1,
                "startColumn": 1,
                "endLine": end + 1,
                "endColumn": 1,
            },
            "insertedContent": {"text": text},
        }
        for start, end, text in replacements(patch.before, patch.after)
    ]
    return {
        "description": {"text": patch.change},
        "artifactChanges": [
            {"artifactLocation": _artifact(patch.path, cwd), "replacements": changed}
        ],
    }


def _notification(error: ErrorReport, cwd: Path) -> dict[str, Any]:
    notification: dict[str, Any] = {
        "level": "error" if error.fatal else "warning",
        "message": {"text": error.message},
        "descriptor": {"id": error.kind},
    }
    if error.path:
        region = {"startLine": error.line} if error.line else None
        notification["locations"] = [location(error.path, cwd, region)]
    return notification
