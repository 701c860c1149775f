"""Code actions: validated fixes as edits, alternatives in order, and the way to get there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lsprotocol import types as lsp

from gbfix.lsp import texts
from gbfix.lsp.diagnostics import line_of
from gbfix.lsp.documents import Document, uri_of
from gbfix.lsp.measured import Measured, State
from gbfix.lsp.positions import Text
from gbfix.lsp.session import Placed, Session
from gbfix.patch import ConflictError, replacements
from gbfix.schema import Safety, Span

_IGNORE = re.compile(r"#\s*gbfix:\s*ignore\[([^\]]*)\]")
FIX_ALL = "source.fixAll.gbfix"
VERIFY = "source.verify.gbfix"
KINDS: tuple[lsp.CodeActionKind | str, ...] = (lsp.CodeActionKind.QuickFix, FIX_ALL, VERIFY)


def of(
    session: Session,
    document: Document,
    where: lsp.Range,
    only: Sequence[str] | None,
    diagnostics: Sequence[lsp.Diagnostic],
    *,
    can_resolve: bool,
    versioned: bool,
) -> list[lsp.CodeAction]:
    """The actions for a range, the best first."""
    result: list[lsp.CodeAction] = []
    if _asked(lsp.CodeActionKind.QuickFix, only):
        start, end = document.text.place(where.start), document.text.place(where.end)
        here = [item for item in session.placed(document) if _meets(item.span, start, end)]
        for placed in here:
            about = _about(diagnostics, placed.found.graph_break.code, document, placed.span)
            result += _fixes(session, placed, about, versioned)
        hints = [item for item in session.hints(document) if _meets(item.span, start, end)]
        if session.settings.may_run:
            for placed in here:
                if placed.state is not State.EXACT:
                    code = placed.found.graph_break.code
                    about = _about(diagnostics, code, document, placed.span)
                    result.append(_run(document, code, placed.span, about, can_resolve))
            for hint in hints:
                about = _about(diagnostics, hint.code, document, hint.span)
                result.append(_run(document, hint.code, hint.span, about, can_resolve))
        codes = [item.found.graph_break.code for item in here] + [item.code for item in hints]
        result += [_explain(code) for code in dict.fromkeys(codes)]
        places = [(item.found.graph_break.code, item.span) for item in here]
        places += [(item.code, item.span) for item in hints]
        for code, line in dict.fromkeys((code, span.line) for code, span in places):
            result.append(_ignore(document, code, line, versioned))
    if _asked(VERIFY, only) and session.settings.may_run:
        result += _verify(document, session, document.text.place(where.start)[0])
    if _asked(FIX_ALL, only):
        result += _fix_all(session, document, versioned)
    return result


def _verify(document: Document, session: Session, line: int) -> Iterator[lsp.CodeAction]:
    """On the head of a compiled function: is what changed since the last commit right?"""
    path = document.path
    if path is None:
        return
    for root in session.index.roots_in(path):
        first = line_of(session, root, path)
        summary = session.index.summary(path)
        function = summary.functions.get(root.qualname) if summary else None
        last = function.line if function and root.path == path else first
        if first <= line <= last:
            title = f"Verify my change of `{root.qualname}` against the last commit"
            command = lsp.Command(title, "gbfix.verify", arguments=[document.uri])
            yield lsp.CodeAction(title, kind=VERIFY, command=command)


def _asked(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a client that asks for some kinds wants this one (``source`` means all below it)."""
    if only is None:
        return True
    return any(kind == wanted or kind.startswith(f"{wanted}.") for wanted in only)


def _meets(span: Span, start: tuple[int, int], end: tuple[int, int]) -> bool:
    if start == end:
        # A cursor anywhere on the line will do.
        return span.line <= start[0] <= span.end_line
    return (span.line, span.column) <= end and start <= (span.end_line, span.end_column)


def _about(
    diagnostics: Sequence[lsp.Diagnostic], code: str, document: Document, span: Span
) -> list[lsp.Diagnostic] | None:
    line = document.text.range(span).start.line
    found = [
        item
        for item in diagnostics
        if item.source == "gbfix" and item.code == code and item.range.start.line == line
    ]
    return found or None


def _fixes(
    session: Session,
    placed: Placed,
    about: list[lsp.Diagnostic] | None,
    versioned: bool,
) -> Iterator[lsp.CodeAction]:
    if placed.state is State.STALE:
        return
    measured, found = placed.measured, placed.found
    step = measured.step_of(found)
    later = "" if placed.state is State.EXACT else "; not validated since the last edits"
    if step is not None and found.step is not None:
        after = measured.texts_after(found.step)
        together = f", with the {found.step} before it" if found.step else ""
        words = texts.safety_words(step.safety, step.verdict)
        edit = workspace_edit(session, measured, after, versioned)
        if edit is not None:
            yield lsp.CodeAction(
                f"{_capital(step.title)}{together} [{words}{later}]",
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=about,
                is_preferred=step.safety is Safety.SAFE and placed.state is State.EXACT,
                edit=edit,
            )
        if len(measured.report.steps) > 1 and measured.safe:
            yield from _all_of_run(session, measured, placed.state, about, versioned)
    for patch in measured.unsafe_for(found):
        edit = workspace_edit(session, measured, {patch.path: patch.after}, versioned)
        if edit is not None:
            words = texts.safety_words(patch.safety, patch.verdict)
            yield lsp.CodeAction(
                f"{_capital(patch.titles[0])} [{words}{later}]",
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=about,
                edit=edit,
            )


def _all_of_run(
    session: Session,
    measured: Measured,
    state: State,
    about: list[lsp.Diagnostic] | None,
    versioned: bool,
) -> Iterator[lsp.CodeAction]:
    edit = workspace_edit(
        session, measured, measured.texts_after(len(measured.report.steps)), versioned
    )
    if edit is not None and state is State.EXACT:
        fixed = sum(item.status == "fixed" for item in measured.report.breaks)
        yield lsp.CodeAction(
            f"Fix all {fixed} fixable graph breaks of {measured.report.target} [safe]",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=about,
            edit=edit,
        )


def _fix_all(session: Session, document: Document, versioned: bool) -> Iterator[lsp.CodeAction]:
    """What was validated together, and is still as validated: the whole patch set of one run."""
    path = session.path_in_reports(document)
    for measured in session.results.about(path):
        after = measured.texts_after(len(measured.report.steps))
        if path not in after or not measured.safe or not measured.unchanged(session.current):
            continue
        edit = workspace_edit(session, measured, after, versioned)
        if edit is not None:
            yield lsp.CodeAction("gbfix: Fix all graph breaks [safe]", kind=FIX_ALL, edit=edit)
            return


def _run(
    document: Document,
    code: str,
    span: Span,
    about: list[lsp.Diagnostic] | None,
    can_resolve: bool,
) -> lsp.CodeAction:
    """Run, validate and fix: the edit comes with `codeAction/resolve`, else a command runs."""
    data = {
        "uri": document.uri,
        "version": document.version,
        "code": code,
        "line": span.line,
        "column": span.column,
    }
    if can_resolve:
        return lsp.CodeAction(
            f"Run the program, and fix {code} here if that validates",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=about,
            data=data,
        )
    return lsp.CodeAction(
        f"Run the program, and look for fixes of {code}",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=about,
        command=lsp.Command("Run and validate", "gbfix.run", arguments=[document.uri]),
    )


def _explain(code: str) -> lsp.CodeAction:
    return lsp.CodeAction(
        f"Explain {code}",
        kind=lsp.CodeActionKind.QuickFix,
        command=lsp.Command(f"Explain {code}", "gbfix.explain", arguments=[code]),
    )


def _ignore(document: Document, code: str, line: int, versioned: bool) -> lsp.CodeAction:
    """Add ``# gbfix: ignore[...]`` at the end of the line, or the code to the one that is there."""
    text = document.text.line(line - 1)
    existing = _IGNORE.search(text)
    if existing is not None:
        at, new = existing.end(1), f", {code}"
    else:
        at, new = len(text.rstrip()), f"  # gbfix: ignore[{code}]"
    place = document.text.position(line, at)
    edits = [lsp.TextEdit(lsp.Range(place, place), new)]
    edit = lsp.WorkspaceEdit(changes={document.uri: edits})
    if versioned:
        which = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        edit = lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(which, edits)])
    return lsp.CodeAction(
        f"Ignore {code} on this line", kind=lsp.CodeActionKind.QuickFix, edit=edit
    )


def resolved(
    session: Session, document: Document, data: Mapping[str, Any], *, versioned: bool
) -> lsp.WorkspaceEdit | None:
    """The edit of an action after its run: the safe fix at that place, or None."""
    for placed in session.placed(document):
        same = placed.span.line == data["line"] and placed.state is State.EXACT
        step = placed.measured.step_of(placed.found)
        if not same or step is None or placed.found.step is None:
            continue
        if step.safety is Safety.SAFE:
            after = placed.measured.texts_after(placed.found.step)
            return workspace_edit(session, placed.measured, after, versioned)
    return None


def workspace_edit(
    session: Session, measured: Measured, after: Mapping[str, str], versioned: bool
) -> lsp.WorkspaceEdit | None:
    """The change from the present texts to those after a fix; None where it no longer fits."""
    try:
        changed = measured.merged(after, session.current)
    except ConflictError:
        return None
    if not changed:
        return None
    changes: list[lsp.TextDocumentEdit | lsp.CreateFile | lsp.RenameFile | lsp.DeleteFile] = []
    plain: dict[str, Sequence[lsp.TextEdit]] = {}
    for path, (now, new) in changed.items():
        document = session.documents.by_path(path)
        text = document.text if document else Text(now, session.documents.encoding)
        edits = text_edits(text, new)
        uri = document.uri if document else uri_of(path)
        plain[uri] = edits
        version = document.version if document else None
        changes.append(
            lsp.TextDocumentEdit(lsp.OptionalVersionedTextDocumentIdentifier(uri, version), edits)
        )
    if versioned:
        return lsp.WorkspaceEdit(document_changes=changes)
    return lsp.WorkspaceEdit(changes=plain)


def text_edits(text: Text, new: str) -> list[lsp.TextEdit]:
    """Edits by whole lines (lines end at ``\\n`` here, whatever else ends one for the client)."""
    starts = [0]
    for line in text.text.split("\n")[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    starts.append(len(text.text))
    return [
        lsp.TextEdit(lsp.Range(text.at(starts[start]), text.at(starts[end])), inserted)
        for start, end, inserted in replacements(text.text, new)
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
