"""What the last run of the probe says of findings, beside the code, for as long as the code is what ran.

    gradline/findings     {}                    ->  the findings of the workspace, as `gradline check` writes JSON
    gradline/probeReport  {path, since, nonce}  ->  {page, title, current, verdicts, findings}

`path` is the JSON of `gradline probe --json`, `since` when the run was started (seconds since 1970): files that were
changed later are not what ran. The answer's `page` is the report as HTML, whose scripts carry `nonce`; `verdicts` are
counted by their name, `findings` counts what the run has found, `current` says whether the code is still what ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pygls.exceptions import JsonRpcInvalidParams

from ..findings import Finding, Place, Severity, Step
from ..messages import say, tell, told
from ..report import Entry, Report
from ..report.json import record
from ..rule import rules
from ..text import Source, decode

if TYPE_CHECKING:
    from .server import GradlineServer

CONFIRMED, REFUTED = "confirmed", "refuted"
NAMES = {
    CONFIRMED: say("confirmed"),
    REFUTED: say("refuted"),
    "not reached": say("not reached"),
    "undecided": say("undecided"),
}
MARKS = {CONFIRMED: "✓", REFUTED: "✗", "not reached": "–"}  # short: VS Code shows some 40 characters of hints in a line
PATIENCE = 10.0  # seconds to wait for findings of the newest texts, while a first scan goes on for instance
DEPTH = 8  # of lists and objects in a report within which places are looked for


class Verdict(NamedTuple):
    name: str  # "confirmed", "refuted", "not reached" or "undecided"
    because: str


class Verdicts:
    """The verdicts of the last report, and what the run alone saw."""

    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._texts: dict[str, str] = {}  # of the files that the report names, as they ran
        self._verdicts: dict[tuple[str, str, int, int], Verdict] = {}  # by file, code, row and column
        self._seen: dict[str, list[Finding]] = {}
        self._checked = -1  # the revision for which `_holds` was found out
        self._holds = False
        self._shown = False  # whether the client has been shown what the report says

    def take(self, report: dict[str, Any], since: float) -> bool:
        """Puts a report in the place of the one before; returns whether the code is still what ran."""
        before = self.paths()
        self._texts, self._verdicts, self._seen = {}, {}, {}
        fresh = True
        for path in sorted(set(_files(report, DEPTH))):
            source = self._own(path)
            if source is not None:
                self._texts[path] = source.text
                fresh = fresh and _as_saved(path, source, since)
        if fresh:
            for item in report.get("verdicts", ()):
                if (place := self._in_program(item)) is not None:
                    key = _key(item["file"]), item["code"], *place
                    self._verdicts[key] = Verdict(item["verdict"], item["because"])
            for item in report.get("findings", ()):
                finding = None if item.get("static") or item["confidence"] == "possible" else self._finding(item)
                if finding is not None:
                    self._seen.setdefault(finding.place.path, []).append(finding)
        self._checked = -1
        self._shown = self.hold
        self._server.publisher.show(sorted({*before, *self.paths()}), False)
        self._server.refresh_views()
        return fresh

    @property
    def hold(self) -> bool:
        """Whether there are verdicts, and every file that the report names is as it ran."""
        revision = self._server.analysis.revision
        if self._checked != revision:
            self._checked = revision
            self._holds = bool(self._verdicts or self._seen) and all(
                (source := self._server.engine.source(path)) is not None and source.text == text
                for path, text in self._texts.items()
            )
        return self._holds

    def paths(self) -> list[str]:
        """The files that the verdicts are about."""
        return sorted({path for path, *_ in self._verdicts} | set(self._seen))

    def turned(self) -> list[str]:
        """The files to be shown anew, as an edit has made the verdicts void, or an undo brought them back."""
        if self.hold == self._shown:
            return []
        self._shown = self.hold
        return self.paths()

    def of(self, finding: Finding) -> Verdict | None:
        if not self._verdicts or not self.hold:
            return None
        source = self._server.engine.source(finding.place.path)
        if source is None:
            return None
        line, column = source.position(finding.place.start)
        return self._verdicts.get((finding.place.path, finding.code, line + 1, column + 1))

    def told(self, finding: Finding) -> Finding:
        """The finding as it is shown: with its verdict, and less loud if the run speaks against it."""
        verdict = self.of(finding)
        if verdict is None:
            return finding
        severity = Severity.HINT if verdict.name == REFUTED else finding.severity
        said = {"message": finding.message, "verdict": NAMES[verdict.name], "because": verdict.because}
        message = say("{message}\n{verdict} by the probe: {because}", **said)
        if verdict.name not in (CONFIRMED, REFUTED):
            message = say("{message}\nprobe: {verdict}, {because}", **said)
        return finding._replace(severity=severity, message=message)

    def seen(self, path: str) -> list[Finding]:
        """What the run found in this file that was not found without it."""
        return self._seen.get(path, []) if self._seen and self.hold else []

    def hints(self, path: str) -> Iterator[tuple[int, str, str]]:
        """Offset, label and tooltip for the end of each line that has a verdict."""
        if not self.hold:
            return
        source = self._server.engine.source(path)
        by_line: dict[int, list[Verdict]] = {}
        for finding in self._server.analysis.findings(path):
            verdict = self.of(finding)
            if verdict is not None and source is not None:
                by_line.setdefault(source.position(finding.place.start)[0], []).append(verdict)
        for line, verdicts in by_line.items():
            assert source is not None
            marks = "".join(dict.fromkeys(MARKS.get(verdict.name, "?") for verdict in verdicts))
            tooltip = "\n".join(f"{told(NAMES[verdict.name])}: {verdict.because}" for verdict in verdicts)
            yield source.offset(line, len(source.line_text(line))), tell("probe: {verdicts}", verdicts=marks), tooltip

    def common(self, findings: Iterable[Finding]) -> str:
        """The verdict that all of these share, for a title; empty if they do not."""
        names = {NAMES[verdict.name] if (verdict := self.of(finding)) else "" for finding in findings}
        return names.pop() if len(names) == 1 else ""

    def _in_program(self, item: dict[str, Any]) -> tuple[int, int] | None:
        """Line and column, from 1, of a verdict's finding; of one in a notebook's cell, in the program of all cells."""
        path, _, cell = item["file"].partition("#cell=")
        if not cell:
            return item["line"], item["column"]
        source = self._server.engine.source(_key(path))
        if source is None or source.cells is None:
            return None
        try:
            line, column = source.position(source.cells.offset(int(cell), item["line"] - 1, item["column"] - 1))
        except KeyError:
            return None
        return line + 1, column + 1

    def _own(self, path: str) -> Source | None:
        """The source of a file of the workspace or an open document; None for all others."""
        server = self._server
        inside = any(path.startswith(folder.rstrip("/") + "/") for folder in server.folders())
        return server.engine.source(path) if inside or server.documents.views(path) else None

    def _finding(self, item: dict[str, Any]) -> Finding | None:
        place = self._place(item.get("at"))
        if place is None:
            return None
        steps = [(self._place(step.get("at")), step["note"]) for step in item.get("evidence", ())]
        trail = tuple(Step(at, note) for at, note in steps if at is not None and at != place)
        message = say("seen by the probe alone: {message}", message=item["message"])
        return Finding(item["rule"], item["rule"], Severity.WARNING, place, message, trail)

    def _place(self, at: dict[str, Any] | None) -> Place | None:
        """The text of a line that the report names; None if it is not in a file of the workspace."""
        path = _key(at["file"]) if at else ""
        source = self._own(path) if path in self._texts else None
        if at is None or source is None or source.cells is not None or at["line"] > len(source.line_starts):
            return None
        text = source.line_text(at["line"] - 1)
        start = source.offset(at["line"] - 1, len(text) - len(text.lstrip()))
        return Place(path, start, start + max(1, len(text.split("#")[0].strip())))


def register(server: GradlineServer) -> None:
    @server.feature("gradline/findings")
    async def findings(params: Any) -> list[dict[str, Any]]:
        with contextlib.suppress(asyncio.TimeoutError):  # then what is known by now
            await asyncio.wait_for(_current(server), PATIENCE)
        found = [finding for path in server.analysis.paths() for finding in server.analysis.findings(path)]
        base = next(iter(server.folders()), "")
        report = Report([Entry(finding) for finding in found], server.engine.source, rules(), base)
        return [record(report, entry) for entry in report.entries]

    @server.feature("gradline/probeReport")
    def report(params: Any) -> dict[str, Any]:
        from ..probe import page

        try:
            data = json.loads(Path(params.path).read_text(encoding="utf-8"))
            if not isinstance(data, dict) or "findings" not in data or "interpreter" not in data:
                raise ValueError("it is other JSON")
        except (OSError, ValueError) as error:
            raise JsonRpcInvalidParams(f"{params.path} is no report of gradline probe: {error}") from error
        current = server.verdicts.take(data, float(params.since))
        return {
            "page": page.render(data, str(params.nonce)),
            "title": os.path.basename(str(data.get("target", {}).get("path") or data.get("command", "probe"))),
            "current": current,
            "verdicts": dict(Counter(item["verdict"] for item in data.get("verdicts", ()))),
            "findings": sum(item["confidence"] != "possible" for item in data["findings"]),
        }


async def _current(server: GradlineServer) -> None:
    """Returns when the findings are those of the newest texts."""
    while not server.analysis.is_current:
        await server.analysis.news()


def _files(thing: Any, depth: int) -> Iterator[str]:
    """Every file that a report names a line of."""
    if isinstance(thing, dict):
        if isinstance(thing.get("file"), str) and isinstance(thing.get("line"), int):
            yield _key(thing["file"])
        thing = list(thing.values())
    if isinstance(thing, list) and depth:
        for value in thing:
            yield from _files(value, depth - 1)


def _key(file: str) -> str:
    """What the project holds a file under that a report names: a notebook's cells are in the notebook."""
    return file.partition("#cell=")[0].replace(os.sep, "/")


def _as_saved(path: str, source: Source, since: float) -> bool:
    """Whether a file's text is what a program that was started then could read."""
    try:
        if os.stat(path).st_mtime > since:
            return False
        return source.cells is not None or decode(Path(path).read_bytes()).text == source.text
    except (OSError, ValueError):
        return False
