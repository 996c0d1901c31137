#!/usr/bin/env python3
"""What an editor feels: findings after an edit, hover, code actions, start and memory, beside `ruff server`.

    python benchmarks/latency.py [edits] [dependents] [answers] [start] [memory] [--edits 60] [--json figures.json]

Real server processes over stdio, in a project of 300 files that `generated.py` makes. CPU is that of the server's
process with all its threads, in nanoseconds as Linux counts them (`/proc/PID/task/*/schedstat`); wall is the client's,
from before the message is written to after the answer is read. gradline and ruff are edited in turns, in the same
text at the same places, so that a busy machine disturbs them alike.

*edits*: in a helper, in the network, and in the training loop (a library has none) somebody puts in and takes out whole
lines ("line"), and types statements character by character ("typing"; in broken text ruff only says so, which is
cheap); "loop" are the lines that come into the training loop, alone: after each the whole program is followed again.
"To its findings" is up to the answer, "in all" up to the next edit `PAUSE` seconds later, with what the server does
meanwhile.
*dependents*: a line that turns gradients off, put into a module that 50 scripts import, and taken out again.
*answers*: requests to a server that has come to rest; "after an edit" those that follow the findings of an edit at once.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import generated
from tests.lsp.client import Client

GRADLINE = [sys.executable, "-m", "gradline", "server"]
RUFF = [str(Path(sys.executable).with_name("ruff")), "server"]
FILES = 300
SIZES = (1000, 5000)
PAUSE = 0.15  # seconds between two keystrokes
WARM = 4  # edits that are not counted: the first of a kind pays for what is loaded late
CAPABILITIES: dict[str, Any] = {
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True, "versionSupport": True},
        "codeAction": {"resolveSupport": {"properties": ["edit"]}, "dataSupport": True,
                       "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source", "refactor"]}}},
        "hover": {"contentFormat": ["markdown"]},
    },
    "workspace": {"workspaceEdit": {"documentChanges": True}},
}  # fmt: skip
# What is typed, and behind which text: in the middle of the file, in the network, in the loop.
TYPED = (
    ("        found[key] = found.get(key", "        total = value * 2\n"),
    ("        h = F.", "        x = x * 2 + x.mean(-1, keepdim=True)\n"),
    ("        logits = model(inputs)", "        scaled = inputs / 2.0\n"),
)
# A finding with a fix, put into the text to be asked about.
WRONG = "        loss.item().backward()\n"


class Server:
    """A running server, and what it has used so far."""

    def __init__(self, name: str, command: list[str], root: Path) -> None:
        self.name = name
        self.client = Client(command, root, **CAPABILITIES)
        self.pid = self.client.process.pid

    def cpu(self) -> float:
        """Milliseconds of CPU since it was started, threads that have ended excepted."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e6

    def rss(self) -> float:
        """Resident memory, MiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def rest(self, seconds: float = 3.2, limit: float = 300.0) -> None:
        """Returns when it has used next to no CPU for so long: longer than gradline waits before it looks closer."""
        end, since, last = time.monotonic() + limit, time.monotonic(), self.cpu()
        while time.monotonic() < end and time.monotonic() - since < seconds:
            time.sleep(0.1)
            now = self.cpu()
            if now - last > 2.0:
                since = time.monotonic()
            last = now
            self.drain()

    def drain(self) -> None:
        """Takes what nobody waits for out of the way, and answers what the server asks."""
        while not self.client.messages.empty():
            self.client.seen.append(self.client.messages.get())
        for message in self.client.seen:
            if "method" in message and "id" in message:
                self.client.reply(message["id"], None)
        self.client.seen.clear()


@contextlib.contextmanager
def serving(name: str, command: list[str], root: Path) -> Iterator[Server]:
    server = Server(name, command, root)
    try:
        yield server
    finally:
        with contextlib.suppress(Exception):
            server.drain()
            server.client.request("shutdown", None)
            server.client.notify("exit", None)
            server.client.process.wait(10)
        server.client.process.kill()
        server.client.process.wait()


Change = tuple[tuple[int, int], tuple[int, int], str]


def _places(text: str) -> list[tuple[int, str]]:
    """Rows, and what is typed there."""
    lines = text.split("\n")
    found = []
    for before, typed in TYPED:
        rows = [row for row, line in enumerate(lines) if line.startswith(before)]
        if rows:
            found.append((rows[len(rows) // 2], typed))
    return found


def typing(text: str) -> Iterator[Change]:
    """Statements typed character by character: most of these texts are no Python, as is usual."""
    while True:
        for row, typed in _places(text):
            for column, character in enumerate(typed):
                yield (row, column), (row, column), character
            yield (row, 0), (row + 1, 0), ""


def inserting(text: str) -> Iterator[Change]:
    """Whole lines put in and taken out: a comment at some blank line, a statement; the text is Python all the time."""
    dice = random.Random(3)
    blank = [row for row, line in enumerate(text.split("\n")) if not line]
    while True:
        for row, line in ((dice.choice(blank), "# to be done: 2\n"), *_places(text)):
            # a text that was never there: what was there is remembered
            yield (row, 0), (row, 0), line.replace("2", str(dice.randrange(1, 10**6)))
            yield (row, 0), (row + 1, 0), ""


def looping(text: str) -> Iterator[Change]:
    """The lines that `inserting` puts into the training loop, alone: each changes the program that runs."""
    row, line = _places(text)[-1]
    for number in itertools.count(3):
        yield (row, 0), (row, 0), line.replace("2", str(number))
        yield (row, 0), (row + 1, 0), f"        count = {number}\n"
        yield (row, 0), (row + 1, 0), ""


class Figures:
    """Medians and 95th percentiles, printed as they come and kept for `--json`."""

    def __init__(self) -> None:
        self.all: dict[str, float] = {}

    def add(self, name: str, values: list[float], unit: str = "ms") -> str:
        ordered = sorted(values)
        middle, high = statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        self.all[f"{name} median"], self.all[f"{name} p95"] = middle, high
        return f"{middle:7.1f} /{high:7.1f} {unit}"


def edits(root: Path, count: int, figures: Figures) -> None:
    print("an edit: CPU to its findings | CPU in all | wall to its findings   (median / p95)")
    for lines in SIZES:
        paths = generated.write(root, FILES, lines)
        for kind in ("library", "training"):
            text, uri = paths[kind].read_text(), paths[kind].as_uri()
            with serving("gradline", GRADLINE, root) as ours, serving("ruff", RUFF, root) as theirs:
                for server in (ours, theirs):
                    server.client.open(uri, text)
                    server.client.diagnostics(uri)
                    server.rest()
                ways = [("line", inserting(text)), ("typing", typing(text))]
                if kind == "training":
                    ways.append(("loop", looping(text)))
                for how, changes in ways:
                    costs: dict[str, list[list[float]]] = {}
                    for number, change in enumerate(itertools.islice(changes, count + WARM)):
                        for server in (ours, theirs):
                            cost = edit(server, uri, change)
                            if number >= WARM:
                                costs.setdefault(server.name, []).append(cost)
                    report(f"{kind} {lines} {how}", costs, figures)
                    for server in (ours, theirs):  # back to the text
                        server.client.versions[uri] += 1
                        document = {"uri": uri, "version": server.client.versions[uri]}
                        whole = {"textDocument": document, "contentChanges": [{"text": text}]}
                        server.client.notify("textDocument/didChange", whole)
                        server.client.diagnostics(uri)


def edit(server: Server, uri: str, change: Change) -> list[float]:
    """What one edit costs: CPU to its findings, CPU until the next edit, wall to its findings."""
    server.drain()
    before, start = server.cpu(), time.perf_counter()
    server.client.change(uri, change)
    server.client.diagnostics(uri)
    wall, found = (time.perf_counter() - start) * 1000, server.cpu() - before
    time.sleep(PAUSE)
    return [found, server.cpu() - before, wall]


def report(name: str, costs: dict[str, list[list[float]]], figures: Figures) -> None:
    columns = ("cpu", "cpu all", "wall")
    for server, measured in costs.items():
        shown = [
            figures.add(f"{name} {server} {what}", list(values))
            for what, values in zip(columns, zip(*measured, strict=True), strict=True)
        ]
        print(f"  {name:22} {server:9} {' | '.join(shown)}", flush=True)
    ratios = [
        figures.all[f"{name} gradline {what} median"] / figures.all[f"{name} ruff {what} median"] for what in columns
    ]
    print(f"  {name:22} ratio     {' | '.join(f'{ratio:7.1f}{chr(32) * 12}' for ratio in ratios)}", flush=True)


def dependents(root: Path, count: int, figures: Figures) -> None:
    print(f"an edit in a module that {generated.DEPENDENTS} scripts import (median / p95)")
    paths = generated.write(root, FILES, 1000)
    uri, base = paths["base"].as_uri(), paths["base"].read_text()
    scripts = {path.as_uri() for path in (root / "scripts").glob("*.py")}
    shown = sorted(scripts)[0]
    coming, going, plain = [], [], []
    with serving("gradline", GRADLINE, root) as server:
        client = server.client
        client.open(uri, base)
        client.open(shown, (root / "scripts" / Path(shown).name).read_text())
        client.diagnostics(shown)
        server.rest()
        end = base.count("\n")
        for number in range(max(3, count // 10)):
            # programs that were never there: what was there is remembered
            switch = f"{generated.SWITCH}\nSTEP = {number}\n"
            back = ((end, 0), (end + 2, 0), f"STEP = {-number}\n")
            for change, costs in ((((end, 0), (end, 0), switch), coming), (back, going)):
                server.drain()
                before, start = server.cpu(), time.perf_counter()
                client.change(uri, change)
                waiting = set(scripts)
                while waiting:
                    message = client.wait(lambda m: m.get("method") == "textDocument/publishDiagnostics", 120)
                    waiting.discard(message["params"]["uri"])
                if number:
                    costs.append(((time.perf_counter() - start) * 1000, server.cpu() - before))
                time.sleep(PAUSE)
            for change in (((end, 0), (end + 1, 0), f"COUNT = {number}\n"), ((end, 0), (end + 1, 0), "")):
                before = server.cpu()
                client.change(uri, change)
                time.sleep(0.45)
                plain.append(server.cpu() - before)
    for what, name, costs in (
        ("its findings in all of them  ", "dependents", coming),
        ("they go from all of them     ", "dependents back", going),
    ):
        print(f"  {what} wall {figures.add(f'{name} wall', [w for w, _ in costs])}"
              f" | CPU {figures.add(f'{name} cpu', [c for _, c in costs])}")  # fmt: skip
    print(f"  one that changes none of them CPU  {figures.add('dependents unchanged cpu', plain)}", flush=True)


class Asked:
    """A training script, a finding in it, and what requests about them cost."""

    def __init__(self, server: Server, uri: str, text: str) -> None:
        self.server, self.client, self.uri = server, server.client, uri
        self.rows = text.split("\n")
        self.row = next(number for number, line in enumerate(self.rows) if line == WRONG.rstrip("\n"))
        self.costs: dict[str, list[tuple[float, float]]] = {}
        self.dice = random.Random(5)
        self.places = [(r, c) for r, line in enumerate(self.rows) for c in range(0, len(line), 7) if line.strip()]
        self.client.open(uri, text)

    def ask(self, name: str, method: str, **params: Any) -> Any:
        before, began = self.server.cpu(), time.perf_counter()
        answer = self.client.request(method, {"textDocument": {"uri": self.uri}, **params})
        wall = (time.perf_counter() - began) * 1000
        self.costs.setdefault(name, []).append((wall, self.server.cpu() - before))
        return answer

    def hover(self, name: str) -> None:
        line, column = self.dice.choice(self.places)
        self.ask(name, "textDocument/hover", position={"line": line, "character": column})

    def actions(self, name: str, row: int) -> Any:
        at = {"line": row, "character": 12}
        return self.ask(name, "textDocument/codeAction", range={"start": at, "end": at}, context={"diagnostics": []})

    def tokens(self, name: str) -> None:
        self.ask(name, "textDocument/semanticTokens/full")

    def hints(self, name: str) -> None:
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": len(self.rows), "character": 0}}
        self.ask(name, "textDocument/inlayHint", range=whole)

    @contextlib.contextmanager
    def edited(self) -> Iterator[None]:
        """With one more statement above the finding, in a text that was never there, as soon as that is checked."""
        at = (self.row, 0)
        self.client.change(self.uri, (at, at, f"        at = {self.dice.randrange(10**9)}\n"))
        self.client.diagnostics(self.uri)
        yield
        self.client.change(self.uri, (at, (self.row + 1, 0), ""))
        self.client.diagnostics(self.uri)
        time.sleep(PAUSE)


def answers(root: Path, count: int, figures: Figures) -> None:
    print("requests: wall | CPU of the server up to the answer   (median / p95)")
    for lines in SIZES:
        paths = generated.write(root, FILES, lines)
        text = paths["training"].read_text().replace("        loss.backward()\n", WRONG)
        with serving("gradline", GRADLINE, root) as server:
            asked = Asked(server, paths["training"].as_uri(), text)
            server.rest()
            asked.hover("first"), asked.actions("first", asked.row)  # what is loaded late is loaded now
            for _ in range(count):
                asked.hover("hover")
                asked.actions("code actions", asked.row)
                asked.tokens("tokens")
                asked.hints("hints")
            for _ in range(max(5, count // 4)):
                with asked.edited():
                    asked.hover("hover after an edit")
                with asked.edited():
                    listed = asked.actions("actions after an edit", asked.row + 1)
                    asked.ask("computing an edit", "codeAction/resolve", **listed[0])
                with asked.edited():
                    asked.tokens("tokens after an edit")
        del asked.costs["first"]
        for name, values in asked.costs.items():
            wall = figures.add(f"{name} {lines} wall", [wall for wall, _ in values])
            cpu = figures.add(f"{name} {lines} cpu", [cpu for _, cpu in values])
            print(f"  {name:22} {lines:5} lines  {wall} | {cpu}", flush=True)


def start(root: Path, count: int, figures: Figures) -> None:
    print(f"start to the first findings of an open file of 1,000 lines, in a project of {FILES} files (median / p95)")
    paths = generated.write(root, FILES, 1000)
    uri, text = paths["training"].as_uri(), paths["training"].read_text()
    costs: dict[str, list[tuple[float, float]]] = {}
    for number in range(max(3, count // 10) + 1):
        for name, command in (("gradline", GRADLINE), ("ruff", RUFF)):
            began = time.perf_counter()
            with serving(name, command, root) as server:
                server.client.open(uri, text)
                server.client.diagnostics(uri)
                wall = (time.perf_counter() - began) * 1000
                if number:  # the first writes what later ones read
                    costs.setdefault(name, []).append((wall, server.cpu()))
    for name, measured in costs.items():
        print(f"  {name:9} wall {figures.add(f'start {name} wall', [w for w, _ in measured])}"
              f" | CPU {figures.add(f'start {name} cpu', [c for _, c in measured])}", flush=True)  # fmt: skip


def memory(root: Path, count: int, figures: Figures) -> None:
    print("memory with a project of 1,000 files, three of them open, at rest")
    paths = generated.write(root, 1000, 1000)
    size = sum(path.read_text().count("\n") for path in root.rglob("*.py"))
    for name, command in (("gradline", GRADLINE), ("ruff", RUFF)):
        with serving(name, command, root) as server:
            began = time.perf_counter()
            for path in paths.values():
                server.client.open(path.as_uri(), path.read_text())
                server.client.diagnostics(path.as_uri())
            server.rest()
            seconds = time.perf_counter() - began - 3.2
            figures.all[f"rss {name}"] = rss = server.rss()
            print(f"  {name:9} {rss:6.0f} MiB ({size:,} lines; at rest after {seconds:.1f} s)", flush=True)


PARTS = {"edits": edits, "dependents": dependents, "answers": answers, "start": start, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all of them)")
    parser.add_argument("--edits", type=int, default=60, help="edits of each kind (default: 60)")
    parser.add_argument("--lines", type=int, action="append", help="lengths of the edited files (default: 1000, 5000)")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if not Path("/proc/self/schedstat").exists():
        parser.error("CPU time is read from /proc, as Linux has it")
    if shutil.which(RUFF[0]) is None:
        parser.error(f"{RUFF[0]} is not there: pip install ruff, into the same environment")
    if options.lines:
        globals()["SIZES"] = tuple(options.lines)
    version = subprocess.run([RUFF[0], "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"gradline beside {version}, Python {sys.version.split()[0]}")
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="gradline-latency-") as folder:
        for part in options.parts or PARTS:
            root = Path(folder) / part
            root.mkdir()
            PARTS[part](root.resolve(), options.edits, figures)
    if options.json:
        options.json.write_text(json.dumps(figures.all, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
