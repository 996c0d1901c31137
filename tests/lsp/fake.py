"""A language server over an engine made of regular expressions: `python fake.py`.

What the engine says is plain to see in a text, so the tests that use it are about the protocol alone:

- `X.item().backward()` is an error GL101 over `.item()`, with a trail to where X was assigned, and a safe fix;
- `backward()` is an error GL202 if any known file has `set_grad_enabled(False)`, with a trail that leads there;
- `unsafe` makes the fix of its line one that somebody has to look at, `tidy` can be refactored to nothing;
- `slow` makes an analysis take half a second, `crash` makes it fail.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from gradline.edits import Applicability, Edit, Fix
from gradline.findings import Finding, Place, Severity, Step
from gradline.insight import Line, Use
from gradline.insight.line import LineStep
from gradline.lsp import main
from gradline.lsp.engine import CancelledError, Fact, Findings, Hint, Lens, Region, Token
from gradline.refactor import Offer
from gradline.text import Source, decode

ITEM = re.compile(r"(\w+)(\.item\(\))\.backward")
SWITCH = re.compile(r"set_grad_enabled\(False\)")
BACKWARD = re.compile(r"\bbackward\(\)")


class Fake:
    def __init__(self) -> None:
        self.open: dict[str, Source] = {}
        self.read: dict[str, Source] = {}
        self.roots: Sequence[str] = ()

    def set_roots(self, roots: Sequence[str]) -> None:
        self.roots = roots
        self.read.clear()

    def update(self, path: str, source: Source | None) -> None:
        if source is None:
            self.open.pop(path, None)
        else:
            self.open[path] = source

    def touch(self, paths: Iterable[str]) -> None:
        self.read.clear()

    def altered(self) -> Iterator[tuple[str, bool] | None]:
        return iter(())

    def source(self, path: str) -> Source | None:
        if path in self.open:
            return self.open[path]
        if path not in self.read and (file := Path(path)).is_file():
            self.read[path] = Source(decode(file.read_bytes()).text, path)
        return self.read.get(path)

    def files(self) -> list[str]:
        return [str(file) for root in self.roots for file in sorted(Path(root).rglob("*.py"))]

    def check(self, paths: Sequence[str], cancelled: Callable[[], bool]) -> Findings:
        return {path: tuple(self._findings(path, len(paths) > 1, cancelled)) for path in paths}

    def _findings(self, path: str, whole: bool, cancelled: Callable[[], bool]) -> Iterable[Finding]:
        source = self.source(path)
        if source is None:
            return
        if "crash" in source.text:
            raise RuntimeError("crash")
        if "slow" in source.text:
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                if cancelled():
                    raise CancelledError
                time.sleep(0.001)
        for found in ITEM.finditer(source.text):
            made = re.search(rf"^{found[1]} = .*$", source.text, re.MULTILINE)
            trail = (Step(Place(path, made.start(), made.end()), f"`{found[1]}` is made here"),) if made else ()
            place = Place(path, found.start(2), found.end(2))
            yield Finding("GL101", "number-backward", Severity.ERROR, place, "a number", trail, fixable=True)
        if whole:
            known = {*self.open, *self.files()}
            for other in sorted(known):
                text = self.source(other)
                switch = SWITCH.search(text.text) if text else None
                if switch:
                    trail = (Step(Place(other, switch.start(), switch.end()), "grad mode is turned off here"),)
                    for found in BACKWARD.finditer(source.text):
                        place = Place(path, found.start(), found.end())
                        yield Finding("GL202", "backward-under-grad-off", Severity.ERROR, place, "grad is off", trail)
                    break

    def fix(self, finding: Finding) -> Fix | None:
        place = finding.place
        source = self.source(place.path)
        unsafe = "unsafe" in source.line_text(source.position(place.start)[0])
        how = Applicability.UNSAFE if unsafe else Applicability.SAFE
        return Fix("Drop .item()", how, (Edit(place.path, place.start, place.end, ""),))

    def refactorings(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Sequence[Offer]:
        found = re.compile("tidy").match(self.source(path).text, offset)
        return [Offer("tidy", "Tidy up", False)] if found else []

    def refactor(self, path: str, offset: int, name: str) -> Fix | None:
        return Fix("Tidy up", Applicability.UNSAFE, (Edit(path, offset, offset + 4, ""),))

    def line(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Line | None:
        text = self.source(path).text
        uses = [Use(match.start(), match.end(), "used") for match in re.finditer(r"\bloss\b", text)]
        if not any(use.start <= offset <= use.end for use in uses):
            return None
        cuts = [Use(match.start(2), match.end(2), "cut") for match in ITEM.finditer(text)]
        return Line(
            offset, offset, tuple(uses + cuts), tuple(LineStep(Place(path, u.start, u.end), u.kind) for u in cuts)
        )

    def trainings(self, path: str) -> Sequence[int]:
        return [match.start() for match in re.finditer("reach", self.source(path).text)]

    def ignore(self, finding: Finding) -> Fix | None:
        source = self.source(finding.place.path)
        line, _ = source.position(finding.place.end)
        end = source.offset(line, len(source.line_text(line)))
        edit = Edit(finding.place.path, end, end, f"  # gradline: ignore[{finding.code}]")
        return Fix("Ignore it here", Applicability.SAFE, (edit,))

    def url(self, finding: Finding) -> str:
        return f"https://example.org/{finding.name}"

    def fact(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Fact | None:
        for token in self.tokens(path):
            if token.start <= offset <= token.end:
                return Fact(token.start, token.end, f"**{token.kind}**")
        return None

    def tokens(self, path: str) -> Sequence[Token]:
        text = self.source(path).text
        found = [Token(match.start(), match.end(), "cut", ("cut",)) for match in re.finditer(r"(?<=\.)item\b", text)]
        found += [
            Token(match.start(), match.end(), "switch", ("off",)) for match in re.finditer("set_grad_enabled", text)
        ]
        return found + [Token(match.start(), match.end(), "flow") for match in re.finditer(r"\bbackward\b", text)]

    def regions(self, path: str) -> Sequence[Region]:
        text = self.source(path).text
        switch = SWITCH.search(text)
        if switch is None:
            return [Region(0, len(text), "on")]
        origin = Place(path, switch.start(), switch.end())
        return [Region(0, switch.start(), "on"), Region(switch.start(), len(text), "off", origin, "turned off")]

    def hints(self, path: str) -> Sequence[Hint]:
        text = self.source(path).text
        return [Hint(match.end(), "⊘ cut at", origin=Place(path, 0, 1)) for match in re.finditer(r"\.item\(\)", text)]

    def lenses(self, path: str) -> Sequence[Lens]:
        text = self.source(path).text
        return [Lens(match.start(), match.end(), "reaches nothing") for match in re.finditer("reach", text)]

    def look(self, path: str, cancelled: Callable[[], bool]) -> bool:
        return False

    def problems(self) -> Sequence[str]:
        return ()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Fake))
