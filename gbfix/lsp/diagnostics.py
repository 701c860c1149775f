"""Diagnostics, hovers and code lenses of one document."""

from __future__ import annotations

import os

from lsprotocol import types as lsp

from gbfix import registry
from gbfix.lsp import texts
from gbfix.lsp.documents import Document, uri_of
from gbfix.lsp.hints import Hint
from gbfix.lsp.index import Root
from gbfix.lsp.measured import State
from gbfix.lsp.positions import Text
from gbfix.lsp.session import Placed, Session
from gbfix.schema import Frame, Span

SOURCE = "gbfix"
#: Callers that a hint names, the nearest; the region always comes last.
_CHAIN = 5
_SEVERITY = {
    State.EXACT: lsp.DiagnosticSeverity.Warning,
    State.MOVED: lsp.DiagnosticSeverity.Warning,
    State.STALE: lsp.DiagnosticSeverity.Information,
}


def of(session: Session, document: Document) -> list[lsp.Diagnostic]:
    """Everything to be told about a document, top to bottom."""
    found = [_measured(session, document, placed) for placed in session.placed(document)]
    found += _errors(session, document)
    places: dict[Frame, lsp.Location] = {}
    found += [_hint(session, document, hint, places) for hint in session.hints(document)]
    return sorted(found, key=lambda item: (item.range.start.line, item.range.start.character))


def _measured(session: Session, document: Document, placed: Placed) -> lsp.Diagnostic:
    cause = placed.found.graph_break
    related = [
        _related(session, frame, f"called from `{frame.function}`")
        for frame in reversed(cause.frames)
        if frame.in_project and frame != cause.site and os.path.isabs(frame.path)
    ]
    for region in placed.measured.report.regions:
        if f"{region.path}::{region.name}" == cause.region and os.path.isabs(region.path):
            place = Frame(region.path, region.line, region.name)
            related.append(_related(session, place, f"compiled region `{region.name}`"))
    return lsp.Diagnostic(
        range=document.text.range(placed.span),
        message=texts.measured_message(placed.found, placed.measured, placed.state),
        severity=_SEVERITY[placed.state],
        code=cause.code,
        code_description=_page(cause.code),
        source=SOURCE,
        related_information=related or None,
        data={"kind": "stale" if placed.state is State.STALE else "measured"},
    )


def _hint(
    session: Session, document: Document, hint: Hint, places: dict[Frame, lsp.Location]
) -> lsp.Diagnostic:
    """A hint, with its callers; many hints name the same ones, whose ``places`` are kept."""

    def related_to(frame: Frame, message: str) -> lsp.DiagnosticRelatedInformation:
        if frame not in places:
            places[frame] = _location(session, frame)
        return lsp.DiagnosticRelatedInformation(places[frame], message)

    path = document.path or ""
    related = []
    for caller_path, qualname in session.index.chain((path, hint.function), _CHAIN):
        summary = session.index.summary(caller_path)
        caller = summary.functions.get(qualname) if summary else None
        if caller is not None:
            place = Frame(caller_path, caller.line, qualname)
            related.append(related_to(place, f"called from `{qualname}`"))
    compiled = hint.root.compiled
    place = Frame(hint.root.compiled_path, compiled.line, "", compiled.column)
    related.append(related_to(place, f"compiled region `{hint.region(path)}`"))
    return lsp.Diagnostic(
        range=document.text.range(hint.span),
        message=texts.hint_message(hint, path),
        severity=lsp.DiagnosticSeverity.Hint,
        code=hint.code,
        code_description=_page(hint.code),
        source=SOURCE,
        related_information=related,
        data={"kind": "hint"},
    )


def _errors(session: Session, document: Document) -> list[lsp.Diagnostic]:
    """What kept a run from its work, where the report says a place in this document."""
    path = session.path_in_reports(document)
    found = []
    for measured in session.results.about(path):
        for error in measured.report.errors:
            if error.path != path or not error.line:
                continue
            line = measured.line_now(path, error.line, session.current)
            if line is None or measured.state(path, error.line, session.current) is State.STALE:
                continue
            severity = lsp.DiagnosticSeverity.Error if error.fatal else lsp.DiagnosticSeverity.Hint
            found.append(
                lsp.Diagnostic(
                    range=document.text.whole_line(line),
                    message=error.message,
                    severity=severity,
                    code=error.kind,
                    source=SOURCE,
                    data={"kind": "error"},
                )
            )
    return found


def _page(code: str) -> lsp.CodeDescription | None:
    url = registry.Registry.load().url(code)
    return lsp.CodeDescription(url) if url else None


def _related(session: Session, frame: Frame, message: str) -> lsp.DiagnosticRelatedInformation:
    return lsp.DiagnosticRelatedInformation(_location(session, frame), message)


def _location(session: Session, frame: Frame) -> lsp.Location:
    document = session.documents.by_path(frame.path)
    text = document.text if document else None
    if text is None:
        text = Text(session.on_disk(frame.path) or "", session.documents.encoding)
    if frame.column is not None and frame.end_column is not None:
        end = frame.end_line or frame.line
        where = text.range(Span(frame.line, frame.column, end, frame.end_column))
    else:
        where = text.whole_line(frame.line)
    uri = document.uri if document else uri_of(frame.path)
    return lsp.Location(uri, where)


# -- hover ---------------------------------------------------------------------------------------


def hover(session: Session, document: Document, position: lsp.Position) -> lsp.Hover | None:
    """What is known of the place: the measured break there, else the hint."""
    line, column = document.text.place(position)
    here = Span(line, column, line, column)
    for placed in session.placed(document):
        if placed.span.contains(here):
            text = texts.measured_hover(placed.found, placed.measured, placed.state)
            return _markdown(text, document.text.range(placed.span))
    for hint in session.hints(document):
        if hint.span.contains(here):
            text = texts.hint_hover(hint, document.path or "")
            return _markdown(text, document.text.range(hint.span))
    return None


def _markdown(text: str, where: lsp.Range) -> lsp.Hover:
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), where)


# -- code lenses ---------------------------------------------------------------------------------


def lenses(session: Session, document: Document) -> list[lsp.CodeLens]:
    """One above each region that is defined here: what is known, and a command to run it."""
    path = document.path
    if path is None or not session.settings.code_lens:
        return []
    found = []
    placed = list(session.placed(document))
    hints = session.hints(document)
    for root in session.index.roots_in(path):
        line = line_of(session, root, path)
        title = _title(session, root, path, placed, hints)
        where = lsp.Position(max(line - 1, 0), 0)
        if session.settings.may_run:
            command = lsp.Command(
                f"{title} · run and validate", "gbfix.run", arguments=[document.uri]
            )
        else:
            command = lsp.Command(title, "")
        found.append(lsp.CodeLens(lsp.Range(where, where), command))
    return found


def line_of(session: Session, root: Root, path: str) -> int:
    """The first line of a region's definition, or of the call that compiles it."""
    if path != root.path:
        return root.compiled.line
    summary = session.index.summary(path)
    function = summary.functions.get(root.qualname) if summary else None
    line = function.line if function else root.compiled.line
    decorated = root.compiled.decorator and root.compiled_path == path
    return min(line, root.compiled.line) if decorated else line


def _title(session: Session, root: Root, path: str, placed: list[Placed], hints: list[Hint]) -> str:
    measured = session.measured_region(root)
    likely = sum(hint.root.path == root.path and hint.root.qualname == root.qualname
                 for hint in hints)  # fmt: skip
    if measured is None:
        return f"{_count(likely, 'likely graph break')}" if likely else "not run yet"
    names = {root.qualname, root.qualname.removesuffix(".forward")}
    breaks = [
        item
        for item in measured.report.breaks
        if item.graph_break.region.rpartition("::")[2] in names
    ]
    applied = measured.applied(session.current)
    left = [item for item in breaks if not measured.is_gone(item, applied)]
    text = _count(len(left), "graph break") if left else "no graph breaks"
    fixable = sum(item.status == "fixed" for item in left)
    if fixable:
        text += f", {fixable} fixable"
    if len(left) < len(breaks):
        text += f", {len(breaks) - len(left)} fixed as validated"
    elif not measured.unchanged(session.current):
        text += " before the last edits"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
