#!/usr/bin/env python3
"""Random editing of a real server: after every edit it must say what a fresh check of the same text says.

    python benchmarks/random_edits.py [--edits 2000] [--seed 1] [--folder FOLDER ...]

Files and notebooks are opened, one project after the other, and edited as people do: typed into character by character,
so that most texts are half a line; pasted into; deleted from; undone; with `\\r\\n`, form feeds and characters beyond the
BMP; several changes in one message; cells put in, moved and taken out. Positions are UTF-16. After every edit the
diagnostics of every file of that project must become those of a check in this process that remembers nothing, and
a request about a random place must be answered without an error. Tokens by difference must equal those in full.

A text that is no Python may be read with the help of the last one that was (`units.cut`), so that what is known does
not come and go while a line is half typed. Only where the fresh check differs, and only if the text is no Python, the
server may say what a fresh check says that was given that text first, or, as answers are remembered, one of the `KEPT` such
texts before; these edits are counted.

The projects are the example of the README, programs of the rules' pages (as files, and cut into notebooks), files of
torch, if it is installed, and the `.py` files of every folder given. Ends with 1 if anything differed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import queue
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[1]
sys.path[:0] = [str(TOP), str(TOP / "tests")]

from rule_page import read_page  # noqa: E402

from gradline import notebooks, reading, units  # noqa: E402
from gradline.lsp.convert import headline  # noqa: E402
from gradline.text import Source  # noqa: E402
from gradline.workspace import Workspace  # noqa: E402
from tests.lsp.client import REAL, Client  # noqa: E402

SETTLES = 5.0  # seconds without news that a server gets to come to what is expected
KEPT = 12  # earlier texts that were Python
ENOUGH = 5  # edits that went wrong, after which the run ends
PER_PROJECT = 40  # edits, then the next project
PHRASES = (
    "loss = loss.item()\n", "with torch.no_grad():\n    ", "loss.backward(", "optimizer.step()\n", "x = x.detach()\n",
    "torch.set_grad_enabled(False)\n", "@torch.no_grad()\n", "for i in range(", "def helper(a, b=", "'''", '"""', "# \U0001f600 ",
    "if x:\n", "else:\n    pass\n", "name = '\U0001f600\U0001f680'; ", "loss.item().backward()\n", "(", ")", "[", "]", "{",
    "optimizer.zero_grad()\n", "model.eval()\n", "class B(nn.Module):\n    def forward(self, x):\n        return x\n",
    "lambda: ", "import torch\n", "\f", "\u2028", "\r\n", "\r", "\t", "        ", "\\\n", "\x00", "requires_grad=False",
    "try:\n    loss.backward()\nexcept RuntimeError:\n    pass\n", "print(loss.item())\n", "é = 1\n", "x: int = ", "return ",
)  # fmt: skip
CELLS = ("%matplotlib inline\n", "!pip list\n", "%%time\n", "x = !ls\n", "%time ", "model?\n")
REQUESTS = (
    "hover", "semanticTokens/full", "semanticTokens/range", "inlayHint", "codeAction", "codeLens", "semanticTokens/full/delta", "lines",
)  # fmt: skip


def utf16(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, counted by other means than the server's."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    if offset and text[offset - 1 : offset + 1] == "\r\n":
        before = before[:-1]  # between the two nothing can stand; not reached by edits
    return before.count("\n"), len(before[before.rfind("\n") + 1 :].encode("utf-16-le", "surrogatepass")) // 2


def boundary(text: str, offset: int) -> int:
    """The offset, moved out of a `\\r\\n`."""
    return offset - 1 if text[max(0, offset - 1) : offset + 1] == "\r\n" else offset


@dataclass
class Text:
    """An open document or a cell, with what it was before."""

    uri: str
    text: str
    version: int = 1
    before: list[str] = field(default_factory=list)
    units: units.Units | None = None  # as a server that reads each text has cut it
    goods: list[str] = field(default_factory=list)
    first: str = ""

    def __post_init__(self) -> None:
        self.first = self.text

    def good(self, text: str) -> list[str]:
        """The texts before this one, if this one is broken, that were not, the last one first; else none."""
        self.units = units.cut(text, self.units)
        if self.units.good is None:
            self.goods = [text, *(one for one in self.goods if one != text)][:KEPT]
            return []
        return self.goods


class Editor:
    """Makes edits of a text: each is a list of (start, end, new)."""

    def __init__(self, dice: random.Random, pastes: list[str], notebook: bool) -> None:
        self.dice = dice
        self.pastes = pastes
        self.notebook = notebook
        self.typing: list[str] = []  # what is still to be typed
        self.at = 0

    def next(self, item: Text) -> list[tuple[int, int, str]]:
        dice, text = self.dice, item.text
        if self.typing and self.at <= len(text):
            character = self.typing.pop(0)
            start = boundary(text, self.at)
            self.at = start + len(character)
            return [(start, start, character)]
        kind = dice.choice(("type", "type", "type", "delete", "line", "paste", "undo", "undo", "replace", "several"))
        if dice.random() < 0.15 and item.text != item.first:  # most edits break something: back to a whole program
            return _difference(text, item.first)
        start = boundary(text, dice.randrange(len(text) + 1))
        if dice.random() < 0.5:  # where people type: at the start of a line's code
            start = text.rfind("\n", 0, start) + 1
            while text[start : start + 1] in (" ", "\t"):
                start += 1
        if kind == "type":
            phrases = PHRASES + CELLS if self.notebook else PHRASES
            self.typing = list(dice.choice(phrases))
            if len(self.typing) > 8 and dice.random() < 0.5:
                self.typing = ["".join(self.typing[:-5]), *self.typing[-5:]]
            self.at = start
            return self.next(item)
        if kind == "delete":
            return [(start, boundary(text, min(len(text), start + dice.choice((1, 1, 2, 5, 30)))), "")]
        if kind == "line":
            first = text.rfind("\n", 0, start) + 1
            last = text.find("\n", start) + 1 or len(text)
            return [(first, last, "")]
        if kind == "paste":
            lines = dice.choice(self.pastes).split("\n")
            first = dice.randrange(len(lines))
            piece = dice.choice(("\n", "\n", "\n", "\r\n")).join(lines[first : first + dice.randrange(1, 9)])
            return [(start, start, piece + dice.choice(("", "\n")))]
        if kind == "undo" and item.before:
            for _ in range(min(len(item.before), dice.choice((1, 1, 3, 8)))):
                old = item.before.pop()
            return [(0, len(text), old)] if dice.random() < 0.3 else _difference(text, old)
        if kind == "several":
            edits = []
            for piece in dice.sample(PHRASES, 3):  # each refers to the text that the one before it left
                at = boundary(text, dice.randrange(len(text) + 1))
                edits.append((at, at, piece))
                text = text[:at] + piece + text[at:]
            return edits
        end = start
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        return [(start, end, dice.choice(("loss", "model", "x", "torch", "", "0", "None")))]


def _difference(old: str, new: str) -> list[tuple[int, int, str]]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start, end = boundary(old, head), len(old) - tail
    if boundary(old, end) != end:
        end += 1
    return [(start, end, new[start : len(new) - (len(old) - end)])]


@dataclass
class Report:
    edits: int = 0
    requests: int = 0
    files: int = 0
    findings: int = 0
    helped: int = 0  # edits after which a broken text was read with the help of the one before
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


class Session:
    """One server; projects are edited in it one after the other."""

    def __init__(self, root: Path, dice: random.Random, report: Report) -> None:
        self.root, self.dice, self.report = root, dice, report
        self.client = Client(REAL, root, textDocument={"publishDiagnostics": {"relatedInformation": True}},
                             options={"inlayHints": "all", "commands": ["gradline.showPlaces"]})  # fmt: skip
        self.shown: dict[str, tuple[int | None, list[tuple[Any, ...]]]] = {}
        self.tokens: dict[str, tuple[str, list[int]]] = {}

    # ------------------------------------------------------------ what the server shows

    def take(self, seconds: float) -> bool:
        """Takes one message; whether there was one."""
        try:
            message = self.client.seen.pop(0) if self.client.seen else self.client.messages.get(timeout=seconds)
        except queue.Empty:
            return False
        if message is None:
            raise SystemExit("the server has gone\n" + "".join(self.client.errors[-30:]))
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            found = sorted(_diagnostic(item) for item in params["diagnostics"])
            self.shown[params["uri"]] = params.get("version"), found
        elif "method" in message and "id" in message:
            self.client.reply(message["id"], None)
        return True

    def settles(self, expected: list[dict[str, list[tuple[Any, ...]]]], versions: dict[str, int]) -> bool:
        """Whether what is shown comes to be one of what is expected, of the newest versions."""
        began = time.monotonic()
        while not any(self._is(one, versions) for one in expected):
            if not self.take(SETTLES):
                return False
        self.report.slowest = max(self.report.slowest, time.monotonic() - began)
        return True

    def _is(self, expected: dict[str, list[tuple[Any, ...]]], versions: dict[str, int]) -> bool:
        if any(self.shown.get(uri, (0, []))[0] != version for uri, version in versions.items()):
            return False
        return all(self.shown.get(uri, (0, []))[1] == found for uri, found in expected.items())

    # ------------------------------------------------------------ requests

    def ask(self, item: Text, settled: bool = True) -> None:
        """A random request about a random place; `settled`: nothing changes meanwhile."""
        name = self.dice.choice(REQUESTS)
        if name == "semanticTokens/full/delta" and not settled:
            name = "semanticTokens/full"
        at = utf16(item.text, boundary(item.text, self.dice.randrange(len(item.text) + 1)))
        position = {"line": at[0], "character": at[1]}
        params: dict[str, Any] = {"textDocument": {"uri": item.uri}}
        whole = {"start": {"line": 0, "character": 0}, "end": position}
        if name in ("hover", "documentHighlight"):
            params["position"] = position
        elif name in ("inlayHint", "semanticTokens/range"):
            params["range"] = whole
        elif name == "codeAction":
            params |= {"range": {"start": position, "end": position}, "context": {"diagnostics": []}}
        elif name == "semanticTokens/full/delta":
            params["previousResultId"] = self.tokens.get(item.uri, ("none", []))[0]
        method = "gradline/lines" if name == "lines" else f"textDocument/{name}"
        answer = self.client.answer(self.client.ask(method, params))
        self.report.requests += 1
        if "error" in answer:
            self.report.wrong.append(f"{method} failed: {answer['error']}")
            return
        result = answer["result"]
        if name == "semanticTokens/full" and result:
            self.tokens[item.uri] = result["resultId"], result["data"]
        elif name == "semanticTokens/full/delta" and result:
            old = self.tokens.get(item.uri, ("", []))[1]
            data = result["data"] if "data" in result else _patched(old, result["edits"])
            full = self.client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": item.uri}})
            if data != full["data"]:
                self.report.wrong.append(f"tokens by difference are not those in full: {item.uri}")
            self.tokens[item.uri] = full["resultId"], full["data"]

    def rss(self) -> float:
        status = Path(f"/proc/{self.client.process.pid}/status")
        if not status.exists():
            return 0.0
        return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmRSS"))

    # ------------------------------------------------------------ projects

    def files(self, folder: Path, texts: dict[str, str], count: int) -> None:
        """Edits the files of a project, which are on the disk too."""
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", newline="")
        changed = [{"uri": (folder / name).as_uri(), "type": 1} for name in texts]
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": changed})
        documents = [Text((folder / name).as_uri(), text) for name, text in texts.items()]
        self.dice.shuffle(documents)
        edited = documents[:2]  # others are not open
        for item in edited:
            self.client.open(item.uri, item.text)
        self._compare(folder, {item.uri: item.text for item in documents}, edited, "opened")
        editor = Editor(self.dice, list(texts.values()), False)
        for number in range(count):
            if not editor.typing:
                item = edited[number // 7 % len(edited)]
            edits = editor.next(item)
            item.before.append(item.text)
            del item.before[:-30]
            events = [self._apply(item, *edit) for edit in edits]
            item.version += 1
            document = {"uri": item.uri, "version": item.version}
            params = {"textDocument": document, "contentChanges": events}
            self.client.notify("textDocument/didChange", params)
            self.report.edits += 1
            if self.dice.random() < 0.3:
                self.ask(item, settled=False)
            self._compare(folder, {document.uri: document.text for document in documents}, edited, edits)
            self.ask(item)
            if len(self.report.wrong) >= ENOUGH:
                return
        for item in edited:
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": item.uri}})
        shutil.rmtree(folder)
        removed = [{"uri": item.uri, "type": 3} for item in documents]
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": removed})
        self.shown.clear()

    @staticmethod
    def _apply(item: Text, start: int, end: int, new: str) -> dict[str, Any]:
        a, b = utf16(item.text, start), utf16(item.text, end)
        item.text = item.text[:start] + new + item.text[end:]
        return {
            "range": {"start": {"line": a[0], "character": a[1]}, "end": {"line": b[0], "character": b[1]}},
            "text": new,
        }

    def _compare(self, folder: Path, texts: dict[str, str], edited: list[Text], edits: object) -> None:
        paths = {uri: uri.removeprefix("file://") for uri in texts}

        def expected(before: dict[str, str]) -> dict[str, list[Any]]:
            _forget()
            workspace = Workspace([str(self.root)])
            for item in edited:
                path = paths[item.uri]
                if item.uri in before:
                    workspace.project.update(path, Source(before[item.uri], path))
                    _read(workspace, path)
                workspace.project.update(path, Source(item.text, path))
            found = workspace.check(list(paths.values())).findings
            return {
                uri: sorted(_finding(finding, texts[uri], 0) for finding in found[path]) for uri, path in paths.items()
            }

        good = {item.uri: good for item in edited if (good := item.good(item.text))}
        self._judge(folder, expected, good, {item.uri: item.version for item in edited}, edits)

    def _judge(
        self,
        folder: Path,
        expected: Callable[[dict[str, str]], dict[str, list[Any]]],
        good: dict[str, list[str]],
        versions: dict[str, int],
        edits: object,
    ) -> None:
        """Compares what is shown with `expected({})`, or, where texts are broken, with what they were before."""
        fresh = expected({})
        self.report.findings += sum(map(len, fresh.values()))
        helped = expected({uri: texts[0] for uri, texts in good.items()}) if good else fresh
        if self.settles([fresh, helped], versions):
            self.report.helped += helped != fresh
            return
        for number in range(1, max(map(len, good.values()), default=0)):
            before = {uri: texts[min(number, len(texts) - 1)] for uri, texts in good.items()}
            if self._is(expected(before), versions):
                self.report.helped += 1
                return
        differing = {
            uri: {"shown": self.shown.get(uri), "fresh": found, "version": versions.get(uri)}
            for uri, found in fresh.items()
            if self.shown.get(uri, (None, []))[1] != found or (uri in versions and self.shown[uri][0] != versions[uri])
        }
        self.report.wrong.append(
            f"edit {self.report.edits} in {folder.name}: {edits!r}\n{json.dumps(differing, indent=1)}"
        )

    def notebook(self, path: Path, cells: list[str], count: int) -> None:
        """Edits a notebook that is not on the disk, its cells and their order."""
        uri, made = path.as_uri(), 0
        texts: list[Text] = []
        for text in cells:
            texts.append(Text(f"vscode-notebook-cell:{path}#{made}", text))
            made += 1
        document = {"uri": uri, "notebookType": "jupyter-notebook", "version": 1,
                    "cells": [{"kind": 2, "document": item.uri} for item in texts]}  # fmt: skip
        self.client.notify(
            "notebookDocument/didOpen",
            {"notebookDocument": document, "cellTextDocuments": [_item(item) for item in texts]},
        )
        editor = Editor(self.dice, cells, True)
        version, chosen = 1, texts[0]
        whole = Text(uri, "")
        self._compare_cells(path, texts, "opened", whole)
        for _ in range(count):
            version += 1
            kind = self.dice.random()
            change: dict[str, Any]
            if not editor.typing and kind < 0.25:
                at = self.dice.randrange(len(texts) + 1)
                what = self.dice.choice(("add", "delete", "move"))
                if what == "add" or len(texts) < 2:
                    new = Text(f"vscode-notebook-cell:{path}#{made}", self.dice.choice(cells))
                    made += 1
                    texts.insert(at, new)
                    array = {"start": at, "deleteCount": 0, "cells": [{"kind": 2, "document": new.uri}]}
                    change = {"structure": {"array": array, "didOpen": [_item(new)]}}
                elif what == "delete":
                    old = texts.pop(min(at, len(texts) - 1))
                    array = {"start": min(at, len(texts)), "deleteCount": 1}
                    change = {"structure": {"array": array, "didClose": [{"uri": old.uri}]}}
                    self.shown.pop(old.uri, None)
                else:
                    first = self.dice.randrange(len(texts) - 1)
                    texts[first], texts[first + 1] = texts[first + 1], texts[first]
                    moved = [{"kind": 2, "document": item.uri} for item in texts[first : first + 2]]
                    change = {"structure": {"array": {"start": first, "deleteCount": 2, "cells": moved}}}
                edits: object = what
            else:
                if not editor.typing or chosen not in texts:
                    editor.typing, chosen = [], self.dice.choice(texts)
                edits = editor.next(chosen)
                chosen.before.append(chosen.text)
                del chosen.before[:-30]
                events = [self._apply(chosen, *edit) for edit in edits]
                chosen.version += 1
                name = {"uri": chosen.uri, "version": chosen.version}
                change = {"textContent": [{"document": name, "changes": events}]}
            self.client.notify(
                "notebookDocument/didChange",
                {"notebookDocument": {"uri": uri, "version": version}, "change": {"cells": change}},
            )
            self.report.edits += 1
            self._compare_cells(path, texts, edits, whole)
            self.ask(self.dice.choice(texts))
            if len(self.report.wrong) >= ENOUGH:
                return
        closed = [{"uri": item.uri} for item in texts]
        self.client.notify("notebookDocument/didClose", {"notebookDocument": {"uri": uri}, "cellTextDocuments": closed})

    def _compare_cells(self, path: Path, texts: list[Text], edits: object, whole: Text) -> None:
        raw = _raw([item.text for item in texts])
        book = notebooks.read(raw)
        starts = [cell.start for cell in book.cells]

        def expected(before: dict[str, str]) -> dict[str, list[Any]]:
            _forget()
            workspace = Workspace([])
            if before:
                workspace.project.update(str(path), Source(before[whole.uri], str(path)))
                _read(workspace, str(path))
            workspace.project.update(str(path), notebooks.read(raw).source(str(path)))
            expected: dict[str, list[Any]] = {item.uri: [] for item in texts}
            for finding in workspace.check([str(path)]).findings[str(path)]:
                index = book.position(finding.place.start)[0]
                expected[texts[index].uri].append(_finding(finding, texts[index].text, starts[index]))
            return {uri: sorted(some) for uri, some in expected.items()}

        good = whole.good(book.program)
        before = {whole.uri: good} if good else {}
        self._judge(path, expected, before, {item.uri: item.version for item in texts}, edits)


def _raw(cells: list[str]) -> str:
    """A notebook as it stands in a file."""
    made = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": []} for text in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


def _read(workspace: Workspace, path: str) -> None:
    """Makes the engine cut a text: a later one that is broken is then anchored in it."""
    module = workspace.project.module(path)
    assert module is not None and module.units is not None


def _forget() -> None:
    units.forget()
    reading.forget()


def _item(item: Text) -> dict[str, Any]:
    return {"uri": item.uri, "languageId": "python", "version": item.version, "text": item.text}


def _finding(finding: Any, text: str, shift: int) -> tuple[Any, ...]:
    start, end = (utf16(text, max(0, at - shift)) for at in (finding.place.start, finding.place.end))
    return finding.code, *start, *end, finding.severity.value, headline(finding.message)


SEVERITIES = {1: "error", 2: "warning", 3: "info", 4: "hint"}


def _diagnostic(item: dict[str, Any]) -> tuple[Any, ...]:
    start, end = item["range"]["start"], item["range"]["end"]
    place = start["line"], start["character"], end["line"], end["character"]
    return item["code"], *place, SEVERITIES[item["severity"]], item["message"]


def _patched(data: list[int], edits: list[dict[str, Any]]) -> list[int]:
    data = list(data)
    for edit in sorted(edits, key=lambda edit: -edit["start"]):
        data[edit["start"] : edit["start"] + edit["deleteCount"]] = edit.get("data") or []
    return data


def projects(dice: random.Random, folders: list[Path]) -> Iterator[tuple[str, Any]]:
    """Files to be edited, without end: ("files", {name: text}) or ("notebook", [text of a cell])."""
    pages = sorted((TOP / "server" / "analyzers").glob("*/*.md"))
    midnight = TOP / "examples" / "midnight"
    given = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin:
        home = Path(torch.origin).parent
        given += [
            home / "optim" / "adam.py",
            home / "nn" / "utils" / "clip_grad.py",
            home / "nn" / "modules" / "loss.py",
        ]
    kinds = ("page", "page", "notebook", "midnight", "file") if given else ("page", "page", "notebook", "midnight")
    while True:
        for kind in kinds:
            example = dice.choice(read_page(dice.choice(pages)).examples)
            if kind == "page":
                yield "files", dict(dice.choice((example.wrong.clean(), example.right_files())))
            elif kind == "midnight":
                yield "files", {str(path.relative_to(midnight)): path.read_text() for path in midnight.rglob("*.py")}
            elif kind == "file":
                path = dice.choice(given)
                try:
                    yield "files", {path.name: path.read_text(encoding="utf-8", errors="strict")}
                except (OSError, UnicodeDecodeError):
                    continue
            else:
                program = example.wrong.clean().get("main.py", "")
                yield "notebook", _cut(program) or ["import torch\n"]


def _cut(program: str) -> list[str]:
    """A program as the cells of a notebook: at lines that begin a statement of the top level."""
    cells: list[str] = []
    for line in program.splitlines(keepends=True):
        if not cells or (line[:1].strip() and not line.startswith((")", "]", "}", "else", "elif", "except", "finally"))
                         and cells[-1].count("\n") > 3 and not cells[-1].rstrip().endswith(("\\", ",", "("))
                         and not cells[-1].split("\n")[-2].startswith("@")):  # fmt: skip
            cells.append("")
        cells[-1] += line
    return cells


def run(count: int, seed: int, folders: list[Path] | None = None, tell: bool = False, per: int = PER_PROJECT) -> Report:
    """Makes this many edits. The report's `wrong` is empty if all was as it should be."""
    dice = random.Random(seed)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="gradline-edits-") as place:
        root = Path(place).resolve() / "work"
        root.mkdir()
        session = Session(root, dice, report)
        with session.client:
            for number, (kind, texts) in enumerate(projects(dice, folders or [])):
                left = min(per, count - report.edits)
                if left <= 0:
                    break
                if kind == "files":
                    session.files(root / f"p{number}", texts, left)
                    report.files += len(texts)
                else:
                    session.notebook(root / f"n{number}.ipynb", texts, left)
                    report.files += 1
                report.memory.append(session.rss())
                if tell:
                    print(f"{report.edits:6} edits, {len(report.wrong)} wrong, {report.memory[-1]:.0f} MiB", flush=True)
                if len(report.wrong) >= ENOUGH:
                    break
        report.wrong += [f"the server's log: {line}" for line in session.client.errors]
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per", type=int, default=PER_PROJECT, help=f"edits in one project (default: {PER_PROJECT})")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="more files to be edited")
    options = parser.parse_args()
    began = time.monotonic()
    report = run(options.edits, options.seed, options.folder, tell=True, per=options.per)
    for wrong in report.wrong:
        print(wrong)
    quarter = report.memory[len(report.memory) // 4] if report.memory else 0
    print(f"{report.edits} edits in {report.files} files, {report.requests} requests, {report.findings} findings compared: "
          f"{len(report.wrong)} wrong, {report.helped} of broken texts that the text before helped to read; the slowest was settled after {report.slowest:.1f} s; memory {quarter:.0f} MiB "
          f"after a quarter, {report.memory[-1]:.0f} MiB at the end; {time.monotonic() - began:.0f} s")  # fmt: skip
    return 1 if report.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
