#!/usr/bin/env python3
"""A server among enemies: after everything that a broken client or a broken disk can do, it must still answer rightly.

    python -m benchmarks.endurance.hostile [--rounds 60] [--seed 1]

A real server over stdio, in a folder of its own. Each round does one hostile thing (`ATTACKS`), chosen at random, and
then asks for what is known: the findings of a document that is opened anew. An error must be one of the protocol's.
At the end: a client that vanishes, after which the process must end by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.lsp.client import REAL, Client

BUG = "import torch\n\nx = torch.ones(3, requires_grad=True)\nloss = (x * 2).sum().item()\nloss.backward()\n"
CODES = {
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32803,
    -32802,
    -32801,
    -32800,
    -32002,
    -32001,
}  # those of JSON-RPC and LSP
NOT_INITIALIZED = -32002
ENDS = 20.0  # seconds in which a server whose client has gone must end
OPEN = 1000  # documents at a time


class Siege:
    """One server and what is done to it."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root, self.dice = root, dice
        (root / "train.py").write_text(BUG)
        self.client = Client(REAL, root)
        self.number = 0

    def proof(self) -> None:
        """The server lives, and is right."""
        self.number += 1
        uri = (self.root / f"proof_{self.number}.py").as_uri()
        self.client.open(uri, BUG)
        found = [item["code"] for item in self.client.diagnostics(uri)]
        assert found, "a finding that is there was not said"
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def errs(self, identifier: int | str | None) -> None:
        """An answer that is an error of the protocol."""
        answer = self.client.answer(identifier)
        assert answer.get("error", {}).get("code") in CODES, answer

    # ------------------------------------------------------------ attacks

    def malformed(self) -> None:
        """Bodies that are no JSON, no object, no UTF-8, or no message."""
        for body in (
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"\xff\xfe",
            b"{}",
            b'{"jsonrpc": "2.0"}',
            b'{"jsonrpc": "1.0", "id": 1}',
        ):
            self.client.send(body)

    def wrong_ids(self) -> None:
        """Answers to what was not asked, cancellations of what is not there, ids of odd types."""
        self.client.reply(99_999, {"x": 1})
        self.client.reply("nobody", None)
        for identifier in (12345, "gone", None, -1, 2**40):
            self.client.notify("$/cancelRequest", {"id": identifier})
        self.client.send(
            json.dumps({"jsonrpc": "2.0", "id": "a-string", "method": "no/such/method", "params": {}}).encode()
        )
        self.errs("a-string")

    def wrong_parameters(self) -> None:
        """Requests without parameters, with those of another, about documents that are not there."""
        for method in ("hover", "codeAction", "semanticTokens/full", "inlayHint", "codeLens", "documentHighlight"):
            for params in (None, [], {"textDocument": 3}, {"textDocument": {"uri": 3}}, {"position": {"line": "x"}}):
                self.client.answer(self.client.ask(f"textDocument/{method}", params))
            away = {"textDocument": {"uri": "file:///nowhere/at%20all.py"}, "position": {"line": 5, "character": 5},
                    "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}},
                    "context": {"diagnostics": []}}  # fmt: skip
            self.client.answer(self.client.ask(f"textDocument/{method}", away))

    def out_of_range(self) -> None:
        """Edits beyond the text, backwards, in documents that are not open, with versions that go back."""
        uri = (self.root / "edited.py").as_uri()
        self.client.open(uri, BUG)
        for start, end in (
            ((900, 0), (901, 9)),
            ((3, 900), (3, 901)),
            ((4, 2), (1, 0)),
            ((0, 0), (10**6, 10**6)),
            ((-1, -1), (0, 0)),
        ):
            self.client.change(uri, (start, end, "x = 1\n"))
        self.client.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": -5}, "contentChanges": [{"text": BUG}]}
        )
        for gone in ("file:///not/open.py", "untitled:Nobody-1", "nonsense"):
            changes = [
                {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "x"}
            ]
            self.client.notify(
                "textDocument/didChange", {"textDocument": {"uri": gone, "version": 2}, "contentChanges": changes}
            )
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": gone}})
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def cancel_storm(self) -> None:
        """Hundreds of requests, most of them called off at once; each is answered all the same."""
        uri = (self.root / "storm.py").as_uri()
        self.client.open(uri, BUG * 40)
        asked = []
        for number in range(300):
            position = {"line": number % 200, "character": 3}
            asked.append(self.client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position}))
            if self.dice.random() < 0.8:
                self.client.notify("$/cancelRequest", {"id": asked[-1]})
        for identifier in asked:
            answer = self.client.answer(identifier)
            assert "result" in answer or answer["error"]["code"] in CODES, answer
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def many_documents(self) -> None:
        """A thousand documents at a time."""
        uris = [(self.root / f"many/d{number}.py").as_uri() for number in range(OPEN)]
        for number, uri in enumerate(uris):
            self.client.open(uri, f"import torch\nx{number} = torch.ones(1)\n")
        for uri in uris:
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def disk_moves(self) -> None:
        """Files change, come and go underneath, with and without word of it."""
        for number in range(20):
            path = self.root / f"moving_{number % 5}.py"
            if path.exists() and self.dice.random() < 0.5:
                path.unlink()
                kind = 3
            else:
                kind = 2 if path.exists() else 1
                path.write_bytes(self.dice.choice((BUG.encode(), b"\xff\xfe\x00", b"", b"import train\n", b"(" * 999)))
            if self.dice.random() < 0.7:
                self.client.notify(
                    "workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]}
                )

    def odd_places(self) -> None:
        """A folder without rights, circles of links, names with spaces, emoji, of 200 characters, and no UTF-8."""
        odd = self.root / "odd"
        shutil.rmtree(odd, ignore_errors=True)
        (odd / "a b \U0001f600").mkdir(parents=True)
        (odd / "a b \U0001f600" / ("n" * 200 + ".py")).write_text(BUG)
        (odd / "circle").symlink_to(odd)
        (odd / "self.py").symlink_to(odd / "self.py")
        os.mkfifo(odd / "pipe.py")
        locked = odd / "locked"
        locked.mkdir()
        (locked / "x.py").write_text(BUG)
        locked.chmod(0)
        Path(os.fsdecode(os.fsencode(odd) + b"/\xff.py")).write_text(BUG)
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": odd.as_uri(), "type": 1}]})
        uri = (odd / "a b \U0001f600" / ("n" * 200 + ".py")).as_uri()
        self.client.open(uri, BUG)
        assert self.client.diagnostics(uri)
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        locked.chmod(0o755)

    def settings_break(self) -> None:
        """Settings that can't be used, and good ones again."""
        path = self.root / "pyproject.toml"
        for text in ("[tool.gradline\n", "[tool.gradline]\nselect = 3\n", "\xff", ""):
            path.write_text(text, encoding="latin-1")
            self.client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 2}]})

    def huge(self) -> None:
        """A document of 300,000 characters on one line, one of 20,000 brackets, one of 20,000 lines."""
        for name, text in (
            ("line", "x = [" + "1, " * 100_000 + "]\n"),
            ("deep", "x = " + "(" * 20_000),
            ("long", "x = 1\n" * 20_000),
        ):
            uri = (self.root / f"huge_{name}.py").as_uri()
            self.client.open(uri, text)
            self.client.diagnostics(uri)
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def vanish(self) -> float:
        """The client goes without a word; gives the seconds until the server has ended."""
        self.client.ask("workspace/diagnostic", {"previousResultIds": []})
        self.client.process.stdin.close()
        started = time.monotonic()
        self.client.process.wait(ENDS)
        return time.monotonic() - started


ATTACKS: tuple[Callable[[Siege], None], ...] = (
    Siege.malformed, Siege.wrong_ids, Siege.wrong_parameters, Siege.out_of_range, Siege.cancel_storm, Siege.many_documents,
    Siege.disk_moves, Siege.odd_places, Siege.settings_break, Siege.huge,
)  # fmt: skip


class Early(Client):
    """A client that asks before it has introduced itself."""

    def request(self, method: str, params: object) -> object:
        if method == "initialize":
            asked = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}
            message = {"jsonrpc": "2.0", "id": 7, "method": "textDocument/hover", "params": asked}
            self.send(json.dumps(message).encode())
            answer = self.answer(7)
            assert answer["error"]["code"] == NOT_INITIALIZED, answer
        return super().request(method, params)


def run(rounds: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> float:
    """Raises AssertionError with what the server did wrong; gives the seconds it took to end when left alone."""
    dice = random.Random(seed)
    with Early(REAL):
        pass
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / "p"
        root.mkdir()
        siege = Siege(root, dice)
        siege.proof()
        order = list(ATTACKS)
        for number in range(rounds):
            attack = order[number % len(order)] if number < len(order) else dice.choice(ATTACKS)
            tell(f"{number + 1} {attack.__name__}")
            attack(siege)
            siege.proof()
        return siege.vanish()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"ended {run(options.rounds, options.seed, print):.1f} s after its client was gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
