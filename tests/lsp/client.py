"""A small client over pipes that can send anything, also what no proper client would."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

FAKE = [sys.executable, str(Path(__file__).with_name("fake.py"))]
REAL = [sys.executable, "-m", "gradline", "server"]
PATIENCE = 30.0  # seconds; only a server that hangs makes a test wait that long


class Client:
    """`capabilities` are those of a client that is told what it did not ask for unless given otherwise.

    Among them `options` are its initialization options, `encodings` what positions may count, `locale` its language.
    """

    def __init__(self, command: list[str], root: Path | None = None, **capabilities: Any) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.seen: list[dict[str, Any]] = []  # what the server said that no one waited for
        self.errors: list[str] = []
        self.versions: dict[str, int] = {}
        self._ids = 0
        threading.Thread(target=self._read, daemon=True).start()
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        general = {"positionEncodings": capabilities.pop("encodings", ["utf-16"])}
        folders = [{"uri": root.as_uri(), "name": root.name}] if root else None
        options = capabilities.pop("options", None)
        locale = {"locale": capabilities.pop("locale")} if "locale" in capabilities else {}
        self.initialized = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": root.as_uri() if root else None,
                "workspaceFolders": folders,
                "capabilities": {"general": general, **capabilities},
                "initializationOptions": options,
                **locale,
            },
        )
        self.notify("initialized", {})

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *about: object) -> None:
        if self.process.poll() is None:
            self.request("shutdown", None)
            self.notify("exit", None)
            assert self.process.wait(10) == 0
            self._errors.join(10)  # what was said to the end is in `errors` now
        self.process.stdin.close()
        self.process.stdout.close()

    # Messages

    def send(self, body: bytes) -> None:
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method: str, params: Any) -> int:
        self._ids += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}).encode())
        return self._ids

    def answer(self, identifier: int | None) -> dict[str, Any]:
        return self.wait(lambda message: "method" not in message and message.get("id") == identifier)

    def request(self, method: str, params: Any) -> Any:
        answer = self.answer(self.ask(method, params))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def reply(self, identifier: int | str, result: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": identifier, "result": result}).encode())

    def wait(self, wanted: Any, seconds: float = PATIENCE) -> dict[str, Any]:
        for index, message in enumerate(self.seen):
            if wanted(message):
                return self.seen.pop(index)
        end = time.monotonic() + seconds
        while True:
            message = self.messages.get(timeout=max(0.001, end - time.monotonic()))
            assert message is not None, "the server has gone\n" + "".join(self.errors[-20:])
            if wanted(message):
                return message
            self.seen.append(message)

    def _read(self) -> None:
        stream = self.process.stdout
        while True:
            length = None
            while (line := stream.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if length is None:
                self.messages.put(None)
                return
            self.messages.put(json.loads(stream.read(length)))

    def _read_errors(self) -> None:
        self.errors.extend(line.decode(errors="replace") for line in self.process.stderr)

    # Documents

    def open(self, uri: str, text: str) -> None:
        self.versions[uri] = 1
        item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, *changes: tuple[tuple[int, int], tuple[int, int], str]) -> None:
        """Each change is its start and end (line, character) and the new text."""
        self.versions[uri] += 1
        events = [
            {"range": {"start": _position(start), "end": _position(end)}, "text": text} for start, end, text in changes
        ]
        document = {"uri": uri, "version": self.versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": events})

    def diagnostics(self, uri: str, version: int | None = -1) -> list[dict[str, Any]]:
        """The diagnostics pushed for the newest version of a document (or the given one; None: a file not open)."""
        version = self.versions.get(uri) if version == -1 else version

        def wanted(message: dict[str, Any]) -> bool:
            params = message.get("params") or {}
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and params.get("version") == version
            )

        return self.wait(wanted)["params"]["diagnostics"]


def _position(at: tuple[int, int]) -> dict[str, int]:
    return {"line": at[0], "character": at[1]}


def places(diagnostics: list[dict[str, Any]]) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Code, start and end of each diagnostic."""
    return [(item["code"], *span(item["range"])) for item in diagnostics]


def span(given: dict[str, Any]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Start and end of a range, as tuples."""
    start, end = given["start"], given["end"]
    return (start["line"], start["character"]), (end["line"], end["character"])
