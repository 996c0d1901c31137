"""Messages in and out over stdin and stdout.

A thread of its own takes messages from the client, so that whoever computes on the event loop can see that one waits
(`Inbox.waiting`) and make room for it. pygls reads through a thread pool, one hand-over per header line, and answers
nothing to a request that it cannot read; both are done here instead.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import os
import re
import sys
import threading
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol

LOG = logging.getLogger(__name__)

CHUNK = 1 << 16  # bytes asked for at a time: what a pipe holds on Linux
_LENGTH = re.compile(rb"^content-length:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_HEADER_END = re.compile(rb"\r?\n\r?\n")


class Inbox:
    """The bodies of the messages that have come and were not yet taken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bodies: collections.deque[bytes | None] = collections.deque()
        self._came = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def waiting(self) -> bool:
        """Whether a message waits."""
        return bool(self._bodies)

    async def get(self) -> bytes | None:
        """The next body, in order; None when the client has gone."""
        while not self._bodies:
            self._came.clear()
            if not self._bodies:
                await self._came.wait()
        return self._bodies.popleft()

    def _put(self, body: bytes | None) -> None:
        self._bodies.append(body)
        with contextlib.suppress(RuntimeError):  # the loop has closed: the server is on its way out
            self._loop.call_soon_threadsafe(self._came.set)

    def _read(self) -> None:
        # os.read, not sys.stdin: a buffered reader holds a lock in which the interpreter's shutdown would be stuck
        buffer = bytearray()
        wanted: int | None = None
        while True:
            try:
                chunk = os.read(self._descriptor, CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                self._put(None)
                return
            buffer += chunk
            while True:
                if wanted is None:
                    end = _HEADER_END.search(buffer)
                    if end is None:
                        break
                    length = _LENGTH.search(bytes(buffer[: end.start()]))
                    del buffer[: end.end()]
                    if length is None:
                        continue  # not a header: skip to the next one
                    wanted = int(length[1])
                if len(buffer) < wanted:
                    break
                self._put(bytes(buffer[:wanted]))
                del buffer[:wanted]
                wanted = None


def own_stdout() -> BinaryIO:
    """The protocol's stdout. From here on `print`, and whatever else writes to descriptor 1, goes to stderr."""
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return stdout


def deliver(protocol: JsonRPCProtocol, body: bytes) -> None:
    """Hands one message to its handler. What cannot be understood is answered with an error and harms nothing."""
    try:
        data = json.loads(body)
    except ValueError as error:
        _refuse(protocol, None, types.ErrorCodes.ParseError, f"not JSON: {error}")
        return
    identifier = data.get("id") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
        _refuse(protocol, identifier, types.ErrorCodes.InvalidRequest, "not JSON-RPC 2.0")
        return
    is_request = "method" in data and "id" in data
    if "method" in data and (early := _out_of_time(protocol, data["method"])) is not None:
        if is_request:
            _refuse(protocol, identifier, *early)
        return
    try:
        message: Any = protocol.structure_message(data)
    except JsonRpcException as error:
        LOG.warning("cannot read a message: %s", body[:500])
        if is_request:
            _refuse(protocol, identifier, types.ErrorCodes.InvalidParams, str(error))
        return
    try:
        protocol.handle_message(message)
    except Exception:
        LOG.exception("cannot handle a message")
        if is_request:
            _refuse(protocol, identifier, types.ErrorCodes.InternalError, "the request failed; see the server's log")


def _out_of_time(protocol: JsonRPCProtocol, method: object) -> tuple[int, str] | None:
    """Why a message comes before `initialize` or after `shutdown`, if it does and must not be served."""
    if protocol._shutdown:
        return None if method == "exit" else (types.ErrorCodes.InvalidRequest, "the server is shutting down")
    if getattr(protocol, "_workspace", None) is None and method not in ("initialize", "exit"):
        return types.ErrorCodes.ServerNotInitialized, "the first request is `initialize`"
    return None


def _refuse(protocol: JsonRPCProtocol, identifier: object, code: int, message: str) -> None:
    error = {"code": int(code), "message": message}
    protocol._send_data({"jsonrpc": "2.0", "id": identifier, "error": error})
