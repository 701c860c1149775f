"""A language client of our own, in plain messages: it can say what a library would not."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

WAIT = 120.0
Message = dict[str, Any]

CAPABILITIES: Message = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "workspaceEdit": {"documentChanges": True},
        "codeLens": {"refreshSupport": True},
        "configuration": False,
    },
    "textDocument": {
        "codeAction": {
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}},
        },
        "publishDiagnostics": {"relatedInformation": True, "versionSupport": True},
    },
}
PULLING: Message = {
    **CAPABILITIES,
    "textDocument": {**CAPABILITIES["textDocument"], "diagnostic": {}},
    "workspace": {**CAPABILITIES["workspace"], "diagnostics": {"refreshSupport": True}},
}


class ResponseError(Exception):
    pass


class Client:
    """Sends messages and keeps what comes back.  ``answer`` replies to the server's requests."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes], close: Callable[[], None]) -> None:
        self._reader = reader
        self._writer = writer
        self._close = close
        self._count = 0
        self._replies: dict[int, queue.Queue[Message]] = {}
        self._notes: list[Message] = []
        self._changed = threading.Condition()
        self.answers: dict[str, Any] = {}
        self.capabilities: Message = {}
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def connect(cls, port: int) -> Client:
        channel = socket.create_connection(("127.0.0.1", port))
        stream = channel.makefile("rwb")

        def close() -> None:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
            channel.close()

        return cls(stream, stream, close)

    @classmethod
    def start(cls, command: list[str], **options: Any) -> Client:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )
        assert process.stdin is not None and process.stdout is not None

        def close() -> None:
            process.terminate()
            process.wait(WAIT)

        client = cls(process.stdout, process.stdin, close)
        client.process = process  # type: ignore[attr-defined]
        return client

    # -- messages ----------------------------------------------------------------------------

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        return self.wait(self.begin(method, params))

    def begin(self, method: str, params: Any) -> int:
        self._count += 1
        self._replies[self._count] = queue.Queue()
        self._send({"id": self._count, "method": method, "params": params})
        return self._count

    def wait(self, number: int) -> Any:
        reply = self._replies[number].get(timeout=WAIT)
        if "error" in reply:
            raise ResponseError(reply["error"]["message"])
        return reply["result"]

    def _send(self, message: Message) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self._writer.flush()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while header := self._reader.readline():
                length = int(header.split(b":")[1])
                while self._reader.readline().strip():
                    pass
                self._take(json.loads(self._reader.read(length)))

    def _take(self, message: Message) -> None:
        if "method" not in message:
            self._replies[message["id"]].put(message)
            return
        if "id" in message:
            answer = self.answers.get(message["method"])
            self._send({"id": message["id"], "result": answer})
        with self._changed:
            self._notes.append(message)
            self._changed.notify_all()

    def seen(self, method: str) -> list[Any]:
        """The parameters of all messages of a kind so far."""
        with self._changed:
            return [item.get("params") for item in self._notes if item["method"] == method]

    def until(self, method: str, wanted: Callable[[Any], bool] = lambda params: True) -> Any:
        """The last message of a kind that is as wanted; waits for one."""
        with self._changed:
            while True:
                for item in reversed(self._notes):
                    if item["method"] == method and wanted(item.get("params")):
                        return item.get("params")
                assert self._changed.wait(WAIT), f"no {method}: {self._notes}"

    # -- what editors do ---------------------------------------------------------------------

    def initialize(
        self, *folders: Path, capabilities: Message = CAPABILITIES, options: Any = None
    ) -> Message:
        result: Message = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": folders[0].as_uri() if folders else None,
                "capabilities": capabilities,
                "initializationOptions": options,
                "workspaceFolders": [
                    {"uri": folder.as_uri(), "name": folder.name} for folder in folders
                ],
            },
        )
        self.capabilities = result["capabilities"]
        self.notify("initialized", {})
        return result

    def open(self, path: Path | str, text: str | None = None, version: int = 1) -> str:
        uri = path if isinstance(path, str) else path.as_uri()
        if text is None:
            assert isinstance(path, Path)
            text = path.read_bytes().decode()
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, *changes: Message) -> None:
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)},
        )

    def save(self, uri: str) -> None:
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def diagnostics(
        self, uri: str, wanted: Callable[[list[Message]], bool] = bool, version: int | None = None
    ) -> list[Message]:
        """The diagnostics that were pushed for a document, once they are as wanted."""
        params = self.until(
            "textDocument/publishDiagnostics",
            lambda params: (
                params["uri"] == uri
                and (version is None or params["version"] == version)
                and wanted(params["diagnostics"])
            ),
        )
        found: list[Message] = params["diagnostics"]
        return found

    def actions(self, uri: str, line: int, only: list[str] | None = None) -> list[Message]:
        here = {"line": line, "character": 0}
        context: Message = {"diagnostics": [], **({"only": only} if only else {})}
        found: list[Message] = self.request(
            "textDocument/codeAction",
            {
                "textDocument": {"uri": uri},
                "range": {"start": here, "end": here},
                "context": context,
            },
        )
        return found

    def execute(self, command: str, *arguments: Any, **more: Any) -> Any:
        return self.request(
            "workspace/executeCommand", {"command": command, "arguments": list(arguments), **more}
        )

    def close(self) -> None:
        self._close()


def applied(text: str, edits: list[Message]) -> str:
    """A text with edits as an editor applies them; columns must be 0 or in ASCII lines."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(place: Message) -> int:
        return min(starts[place["line"]] + int(place["character"]), len(text))

    for edit in sorted(edits, key=lambda item: offset(item["range"]["start"]), reverse=True):
        where = edit["range"]
        text = text[: offset(where["start"])] + edit["newText"] + text[offset(where["end"]) :]
    return text
