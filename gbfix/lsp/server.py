"""The protocol: what a client asks for, handed to `gbfix.lsp.session` and answered.

Everything runs on one event loop; only the first search of a workspace has a thread, and programs
run in `gbfix.lsp.measuring`'s process.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import converters
from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

import gbfix
from gbfix import GbfixError, journal
from gbfix.lsp import actions, diagnostics, settings, texts
from gbfix.lsp.documents import Document, Documents, path_of, uri_of
from gbfix.lsp.measured import Measured
from gbfix.lsp.measuring import Cancelled, MeasureError, Measuring
from gbfix.lsp.positions import Encoding
from gbfix.lsp.session import Session
from gbfix.report import verdicts
from gbfix.schema import Report, Target
from gbfix.source import project_root
from gbfix.verification import STATUSES, Verification

#: Typing is answered after a pause this long, so that a burst of edits is looked at once.
_PAUSE = 0.05

_token: contextvars.ContextVar[int | str | None] = contextvars.ContextVar("token", default=None)


class Protocol(LanguageServerProtocol):
    """pygls's protocol, with a command's progress token kept and a way to serve several clients."""

    @lsp_method(lsp.WORKSPACE_EXECUTE_COMMAND)
    def lsp_workspace__execute_command(
        self, params: lsp.ExecuteCommandParams
    ) -> Generator[Any, Any, Any]:
        _token.set(params.work_done_token)
        return (yield from super().lsp_workspace__execute_command(params))

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *args: Any) -> Generator[Any, Any, None]:
        server = self._server
        if isinstance(server, Server) and server.shares_process:
            if self.writer is not None:
                self.writer.close()
            return
        yield from super().lsp_exit(*args)


class Server(LanguageServer):
    """One client's server.  ``shares_process``: others are served from the same process."""

    def __init__(self, *, shares_process: bool = False) -> None:
        self.shares_process = shares_process
        super().__init__(
            "gbfix",
            gbfix.__version__,
            protocol_cls=Protocol,
            converter_factory=converters.get_converter,
            max_workers=4,
        )
        self.session = Session()
        self.measuring = Measuring()
        self.running: dict[Target, asyncio.Event] = {}
        self._pending: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        #: The client asked for the end, as it should before it goes.
        self.said_goodbye = False
        _register(self)

    def close(self) -> None:
        """End what runs; the client has gone."""
        self._closed = True
        for cancel in self.running.values():
            cancel.set()
        self.measuring.close()

    # -- what the client can do --------------------------------------------------------------

    @property
    def pulls(self) -> bool:
        """Whether the client asks for diagnostics itself; it then gets none pushed."""
        document = self.client_capabilities.text_document
        return document is not None and document.diagnostic is not None

    @property
    def resolves(self) -> bool:
        document = self.client_capabilities.text_document
        action = document.code_action if document else None
        if action is None or action.resolve_support is None:
            return False
        return "edit" in action.resolve_support.properties and bool(action.data_support)

    @property
    def versions_edits(self) -> bool:
        workspace = self.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        return bool(edit and edit.document_changes)

    def tell(self, message: str, kind: lsp.MessageType = lsp.MessageType.Info) -> None:
        if not self._closed:
            self.window_show_message(lsp.ShowMessageParams(kind, message))

    # -- diagnostics -------------------------------------------------------------------------

    def schedule(self, uri: str) -> None:
        """Push a document's diagnostics after a pause in typing."""
        if self.pulls:
            return
        before = self._pending.pop(uri, None)
        if before is not None:
            before.cancel()
        self._pending[uri] = asyncio.get_running_loop().call_later(_PAUSE, self.push, uri)

    def push(self, uri: str) -> None:
        self._pending.pop(uri, None)
        document = self.session.documents.get(uri)
        if document is not None and not self._closed:
            found = diagnostics.of(self.session, document)
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(uri, found, document.version)
            )

    def refresh(self) -> None:
        """Something beyond one document changed: everything that is open is looked at again."""
        self.session.generation += 1
        if self._closed:
            return
        workspace = self.client_capabilities.workspace
        if self.pulls:
            if workspace and workspace.diagnostics and workspace.diagnostics.refresh_support:
                self.workspace_diagnostic_refresh(None)
        else:
            for document in self.session.documents:
                self.schedule(document.uri)
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- runs --------------------------------------------------------------------------------

    async def measure(self, path: str, token: int | str | None = None) -> list[Report]:
        """Run what is to be run for a file, and take up the reports.

        A run of the same target that is under way is ended first.  Raises `GbfixError`,
        `MeasureError`, `Cancelled`.
        """
        if not self.session.settings.may_run:
            raise MeasureError(self.session.settings.refusal)
        self.measuring.idle_seconds = self.session.settings.idle_minutes * 60
        options = self.session.options(path)
        reports = []
        for target in self.session.targets(path):
            if (
                target.kind == "script"
                and self.session.on_disk(os.path.join(target.cwd, target.value)) is None
            ):
                raise MeasureError(f"{target.value}: save the file first")
            if target in self.running:
                self.running[target].set()
            cancel = self.running[target] = asyncio.Event()
            started = time.time_ns()
            try:
                async with self._progress(target, token, cancel) as say:
                    report = await self.measuring.run(target, options, say, cancel)
            except asyncio.CancelledError:
                cancel.set()
                raise
            finally:
                if self.running.get(target) is cancel:
                    del self.running[target]
            at = None if report.cached else started
            self.session.results.add(Measured.of(target, report, at))
            reports.append(report)
            self.refresh()
        return reports

    @contextlib.asynccontextmanager
    async def _progress(
        self, target: Target, token: int | str | None, cancel: asyncio.Event
    ) -> Any:
        """Progress as the client wants it: on its own token, on one of ours, or none."""
        window = self.client_capabilities.window
        if token is None and window is not None and window.work_done_progress:
            token = str(uuid.uuid4())
            try:
                await self.work_done_progress.create_async(token)
            except Exception:
                token = None  # the client would rather not
        if token is None:
            yield lambda text: None
            return
        given = token
        title = f"gbfix {target.display}"
        self.work_done_progress.begin(
            given, lsp.WorkDoneProgressBegin(title, cancellable=True, message="starting")
        )
        loop = asyncio.get_running_loop()
        self.work_done_progress.tokens[given].add_done_callback(
            lambda future: loop.call_soon_threadsafe(cancel.set) if future.cancelled() else None
        )
        message = "done"
        try:
            yield lambda text: self.work_done_progress.report(
                given, lsp.WorkDoneProgressReport(message=text, cancellable=True)
            )
        except Cancelled:
            message = "cancelled"
            raise
        except BaseException:
            message = "failed"
            raise
        finally:
            self.work_done_progress.end(given, lsp.WorkDoneProgressEnd(message=message))
            self.work_done_progress.tokens.pop(given, None)

    async def verify(self, path: str, token: int | str | None = None) -> list[Verification]:
        """Judge what changed since the last commit, for each target of a file.

        Raises `GbfixError`, `MeasureError`, `Cancelled`.
        """
        if not self.session.settings.may_run:
            raise MeasureError(self.session.settings.refusal)
        options = self.session.options(path)
        change = self.session.change(path)
        found = []
        for target in self.session.targets(path):
            if target in self.running:
                self.running[target].set()
            cancel = self.running[target] = asyncio.Event()
            try:
                async with self._progress(target, token, cancel) as say:
                    found.append(await self.measuring.verify(target, options, change, say, cancel))
            except asyncio.CancelledError:
                cancel.set()
                raise
            finally:
                if self.running.get(target) is cancel:
                    del self.running[target]
        return found

    async def measure_and_tell(self, path: str, token: int | str | None = None) -> dict[str, Any]:
        """`measure`, with every outcome told to the user; a summary for the client."""
        unsaved = [os.path.basename(item) for item in self.session.dirty()]
        try:
            reports = await self.measure(path, token)
        except Cancelled:
            return {"status": "cancelled"}
        except (GbfixError, MeasureError) as error:
            self.tell(f"gbfix: {error}", lsp.MessageType.Error)
            return {"status": "error", "message": str(error)}
        fatal = [error for report in reports for error in report.errors if error.fatal]
        if fatal:
            self.tell(f"gbfix: {fatal[0].message}", lsp.MessageType.Error)
            return {"status": "error", "message": fatal[0].message}
        if unsaved:
            names = ", ".join(unsaved)
            self.tell(f"gbfix ran what is saved; {names} has changes that are not")
        breaks = [item for report in reports for item in report.breaks]
        return {
            "status": "done",
            "breaks": len(breaks),
            "fixed": sum(item.status == "fixed" for item in breaks),
            "regions": sum(len(report.regions) for report in reports),
        }


def _register(server: Server) -> None:
    for method, handler, options in (
        (lsp.INITIALIZE, initialize, None),
        (lsp.INITIALIZED, initialized, None),
        (lsp.SHUTDOWN, shutdown, None),
        (lsp.TEXT_DOCUMENT_DID_OPEN, did_open, None),
        (lsp.TEXT_DOCUMENT_DID_CHANGE, did_change, None),
        (lsp.TEXT_DOCUMENT_DID_SAVE, did_save, lsp.SaveOptions(include_text=False)),
        (lsp.TEXT_DOCUMENT_DID_CLOSE, did_close, None),
        (lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, did_change_configuration, None),
        (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, did_change_watched_files, None),
        (lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, did_change_folders, None),
        (
            lsp.TEXT_DOCUMENT_DIAGNOSTIC,
            document_diagnostic,
            lsp.DiagnosticOptions(True, False, identifier="gbfix"),
        ),
        (lsp.TEXT_DOCUMENT_HOVER, hover, None),
        (lsp.TEXT_DOCUMENT_CODE_LENS, code_lens, lsp.CodeLensOptions(resolve_provider=False)),
        (
            lsp.TEXT_DOCUMENT_CODE_ACTION,
            code_action,
            lsp.CodeActionOptions(list(actions.KINDS), resolve_provider=True),
        ),
        (lsp.CODE_ACTION_RESOLVE, resolve_action, None),
    ):
        server.feature(method, options)(handler)
    server.command("gbfix.run")(run_command)
    server.command("gbfix.explain")(explain_command)
    server.command("gbfix.undo")(undo_command)
    server.command("gbfix.verify")(verify_command)


# -- life ----------------------------------------------------------------------------------------


def initialize(ls: Server, params: lsp.InitializeParams) -> None:
    session = ls.session
    session.documents = Documents(Encoding(ls.workspace.position_encoding or "utf-16"))
    folders = [path_of(folder.uri) for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [path_of(params.root_uri)]
    session.set_folders([folder for folder in folders if folder])
    _take_settings(ls, params.initialization_options)


async def initialized(ls: Server, params: lsp.InitializedParams) -> None:
    workspace = ls.client_capabilities.workspace
    if workspace and workspace.configuration:
        await _pull_settings(ls)
    await _watch(ls, workspace)
    await _scan(ls)


def shutdown(ls: Server, params: None) -> None:
    ls.said_goodbye = True
    ls.close()


async def _watch(ls: Server, workspace: lsp.WorkspaceClientCapabilities | None) -> None:
    """Ask to be told of files and settings that change outside of the editor's windows."""
    wanted = []
    watched = workspace.did_change_watched_files if workspace else None
    if watched and watched.dynamic_registration:
        watchers = [lsp.FileSystemWatcher("**/*.py"), lsp.FileSystemWatcher("**/pyproject.toml")]
        options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
        wanted.append(
            lsp.Registration("gbfix-files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        )
    changed = workspace.did_change_configuration if workspace else None
    if changed and changed.dynamic_registration:
        wanted.append(
            lsp.Registration(
                "gbfix-settings", lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, {"section": "gbfix"}
            )
        )
    if wanted:
        with contextlib.suppress(Exception):
            await ls.client_register_capability_async(lsp.RegistrationParams(wanted))


def _take_settings(ls: Server, given: object) -> None:
    ls.session.settings, problems = settings.read(given, ls.session.settings)
    for problem in problems:
        ls.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, problem))
    if not ls.session.settings.may_run:
        for cancel in ls.running.values():
            cancel.set()


async def _pull_settings(ls: Server) -> None:
    try:
        answer = await ls.workspace_configuration_async(
            lsp.ConfigurationParams([lsp.ConfigurationItem(section="gbfix")])
        )
    except Exception:
        return
    if answer:
        _take_settings(ls, answer[0])


# -- texts ---------------------------------------------------------------------------------------


def did_open(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    document = ls.session.documents.open(params.text_document)
    ls.session.opened(document)
    ls.schedule(document.uri)
    if document.path is not None:
        ls.in_background(_recall(ls, document.path))


async def _recall(ls: Server, path: str) -> None:
    """Reports that the cache has; the rest of the opening does not wait for the disk."""
    await asyncio.sleep(0)
    if ls.session.recall(path):
        ls.refresh()


def did_change(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    which = params.text_document
    document = ls.session.documents.change(which.uri, which.version, params.content_changes)
    if document is not None:
        ls.session.opened(document)
        ls.schedule(document.uri)


def did_save(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    document = ls.session.documents.get(params.text_document.uri)
    if document is None or document.path is None:
        return
    ls.refresh()
    if ls.session.settings.runs_on_save and _is_of_interest(ls, document):
        ls.in_background(_run_on_save(ls, document.path))


def _is_of_interest(ls: Server, document: Document) -> bool:
    """Whether a save of this file is worth a run: a region, or code of one, is in it."""
    path = document.path or ""
    if any(key[0] == path for key in ls.session.index.reached()):
        return True
    return bool(ls.session.results.about(ls.session.path_in_reports(document)))


async def _run_on_save(ls: Server, path: str) -> None:
    try:
        reports = await ls.measure(path)
    except Cancelled:
        return
    except (MeasureError, GbfixError) as problem:
        problems = [str(problem)]
    else:
        problems = [error.message for item in reports for error in item.errors if error.fatal]
    for text in problems:
        ls.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, f"gbfix: {text}"))


def did_close(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    document = ls.session.documents.get(uri)
    ls.session.documents.close(uri)
    ls.session.closed(uri, document.path if document else None)
    if not ls.pulls:
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


# The next message may be there already: what it builds on is done before these two return.


def did_change_configuration(ls: Server, params: lsp.DidChangeConfigurationParams) -> None:
    workspace = ls.client_capabilities.workspace
    if isinstance(params.settings, Mapping) and params.settings:
        _take_settings(ls, params.settings)
    elif workspace and workspace.configuration:
        ls.in_background(_pull_settings(ls))
    ls.refresh()


def did_change_watched_files(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
    for change in params.changes:
        path = path_of(change.uri)
        if path is not None and ls.session.documents.get(change.uri) is None:
            ls.session.index.changed(path)
    ls.refresh()


def did_change_folders(ls: Server, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
    removed = {path_of(folder.uri) for folder in params.event.removed}
    folders = [folder for folder in ls.session.folders if folder not in removed]
    for folder in params.event.added:
        path = path_of(folder.uri)
        if path is not None and path not in folders:
            folders.append(path)
    ls.session.set_folders(folders)
    ls.in_background(_scan(ls))


async def _scan(ls: Server) -> None:
    await asyncio.get_running_loop().run_in_executor(None, ls.session.index.scan)
    ls.refresh()


# -- questions -----------------------------------------------------------------------------------


def document_diagnostic(
    ls: Server, params: lsp.DocumentDiagnosticParams
) -> lsp.RelatedFullDocumentDiagnosticReport | lsp.RelatedUnchangedDocumentDiagnosticReport:
    document = ls.session.documents.get(params.text_document.uri)
    result_id = str(ls.session.generation)
    if params.previous_result_id == result_id:
        return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id)
    found = diagnostics.of(ls.session, document) if document is not None else []
    return lsp.RelatedFullDocumentDiagnosticReport(found, result_id=result_id)


def hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    document = ls.session.documents.get(params.text_document.uri)
    return diagnostics.hover(ls.session, document, params.position) if document else None


def code_lens(ls: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    document = ls.session.documents.get(params.text_document.uri)
    return diagnostics.lenses(ls.session, document) if document else []


def code_action(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    document = ls.session.documents.get(params.text_document.uri)
    if document is None:
        return []
    return actions.of(
        ls.session,
        document,
        params.range,
        params.context.only,
        params.context.diagnostics,
        can_resolve=ls.resolves,
        versioned=ls.versions_edits,
    )


async def resolve_action(ls: Server, action: lsp.CodeAction) -> lsp.CodeAction:
    """Validation on demand: run the program, and fill in the fix for this place."""
    data: Mapping[str, Any] = action.data if isinstance(action.data, Mapping) else {}
    document = ls.session.documents.get(data.get("uri", ""))
    if document is None or document.path is None:
        return action
    summary = await ls.measure_and_tell(document.path)
    document = ls.session.documents.get(data["uri"])
    if summary["status"] != "done" or document is None:
        return action
    if document.version != data["version"]:
        ls.tell("gbfix: the text changed during the run; ask for the fix again")
        return action
    action.edit = actions.resolved(ls.session, document, data, versioned=ls.versions_edits)
    if action.edit is None:
        ls.tell(f"gbfix: no safe fix of {data['code']} here was found; hover the line for why")
    return action


# -- commands ------------------------------------------------------------------------------------


async def run_command(ls: Server, *arguments: Any) -> dict[str, Any]:
    """``gbfix.run [uri]``: run and validate; without a URI, for every document that is open."""
    uris: Sequence[str] = [str(item) for item in arguments[:1] if item]
    paths = [path_of(uri) for uri in uris] or [item.path for item in ls.session.documents]
    known = [path for path in paths if path is not None and path.endswith(".py")]
    if not known:
        ls.tell(
            "gbfix: only Python files can be run; save the text as one first", lsp.MessageType.Error
        )
        return {"status": "error", "message": "no file to run"}
    result: dict[str, Any] = {}
    for path in known:
        result = await ls.measure_and_tell(path, _token.get())
    return result


_LOUD = {
    "safe": lsp.MessageType.Info,
    "same": lsp.MessageType.Info,
    "wrong": lsp.MessageType.Error,
    "error": lsp.MessageType.Error,
}


async def verify_command(ls: Server, *arguments: Any) -> dict[str, Any]:
    """``gbfix.verify [uri]``: is what changed since the last commit right?"""
    path = path_of(str(arguments[0])) if arguments else None
    if path is None:
        path = next((item.path for item in ls.session.documents if item.path), None)
    if path is None or not path.endswith(".py"):
        ls.tell("gbfix: open the Python file whose change is to be judged", lsp.MessageType.Error)
        return {"status": "error", "message": "no file to verify"}
    try:
        found = await ls.verify(path, _token.get())
    except Cancelled:
        return {"status": "cancelled"}
    except (GbfixError, MeasureError) as error:
        ls.tell(f"gbfix: {error}", lsp.MessageType.Error)
        return {"status": "error", "message": str(error)}
    for one in found:
        words = [verdicts.headline(one), *(e.message for e in one.errors if e.fatal)]
        ls.tell(f"gbfix: {' '.join(words)}", _LOUD.get(one.status, lsp.MessageType.Warning))
    worst = max(found, key=lambda one: STATUSES.index(one.status))
    folder = Path(ls.session.folder_of(path))
    return {
        "status": worst.status,
        "summary": verdicts.headline(worst),
        "markdown": "\n".join(verdicts.markdown(one, folder) for one in found),
        "regions": [
            {"name": part.name, "uri": uri_of(part.path), "line": part.line, "status": part.status,
             "reasons": list(part.reasons)}
            for one in found for part in one.regions
        ],
    }  # fmt: skip


def explain_command(ls: Server, *arguments: Any) -> dict[str, str]:
    """``gbfix.explain CODE``: what a code means; told to the user unless the client shows it."""
    code = str(arguments[0]) if arguments else ""
    try:
        text = texts.explanation(code)
    except GbfixError as error:
        ls.tell(f"gbfix: {error}", lsp.MessageType.Error)
        return {"code": code, "markdown": ""}
    if not ls.session.settings.shows_explanations:
        ls.tell(text)
    return {"code": code, "markdown": text}


def undo_command(ls: Server, *arguments: Any) -> dict[str, Any]:
    """``gbfix.undo [uri]``: take back what the last ``gbfix --apply`` wrote to the project."""
    path = path_of(str(arguments[0])) if arguments else None
    start = path or next(iter(ls.session.folders), None)
    if start is None:
        ls.tell("gbfix: nothing to undo: no folder is open", lsp.MessageType.Error)
        return {"restored": []}
    try:
        restored = journal.undo(journal.state_folder(project_root(start)))
    except GbfixError as error:
        ls.tell(f"gbfix: {error}", lsp.MessageType.Error)
        return {"restored": []}
    ls.refresh()
    return {"restored": [uri_of(item) for item in restored]}
