"""Serves one client on standard input and output, or any number of them on a port."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading

from pygls.io_ import run_async

from gbfix.lsp.server import Server
from gbfix.words import ArgumentError


def serve(tcp: str | None = None) -> int:
    """Serve until the client goes; ``tcp`` is ``PORT`` or ``HOST:PORT`` (0 chooses a port)."""
    # Syntax trees come and go with every edit; looking through them for cycles, and through all
    # modules again and again, would take a quarter of the time of an edit.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    if tcp is not None:
        host, colon, port = tcp.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise ArgumentError(f"--tcp: {tcp!r} is not a port or HOST:PORT")
        # Whoever can connect can have programs run: other machines only when asked for by name.
        try:
            asyncio.run(_listen(host if colon else "127.0.0.1", int(port)))
        except OSError as error:
            raise ArgumentError(f"--tcp {tcp}: {error.strerror or error}") from error
        return 0
    replies = os.fdopen(os.dup(1), "wb")
    # What anybody prints must not end up among the messages.
    os.dup2(2, 1)
    server = Server()
    try:
        server.start_io(sys.stdin.buffer, replies)
    finally:
        server.close()
    return 0 if server.said_goodbye else 1


async def _listen(host: str, port: int) -> None:
    listening = await listen(host, port)
    address = listening.sockets[0].getsockname()
    print(f"gbfix lsp listens on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
    async with listening:
        await listening.serve_forever()


async def listen(host: str, port: int) -> asyncio.Server:
    """Each connection is a client with a server, texts and runs of its own."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = Server(shares_process=True)
        server.protocol.set_writer(writer)
        try:
            await run_async(threading.Event(), reader, server.protocol)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            server.close()
            writer.close()

    return await asyncio.start_server(connected, host, port)
