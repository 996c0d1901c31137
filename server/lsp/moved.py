"""Where what was seen of a text stands after an edit of it, until the new text has been looked at."""

from __future__ import annotations

from collections.abc import Iterable

from ..findings import Finding, Place
from ..insight import Hint, Lens, Line, Region, Use
from ..insight.line import LineStep
from ..units import Change


class Moved:
    """What lies before the edit of a file stays, what lies behind it moves along; what it touches is not known."""

    def __init__(self, path: str, before: str, after: str) -> None:
        self._path = path
        self._head, self._behind, self._by = Change.between(before, after)

    def offset(self, old: int) -> int | None:
        if old <= self._head:
            return old
        return old + self._by if old >= self._behind else None

    def back(self, new: int) -> int | None:
        """Where an offset of the present text stood before the edit; None in what the edit put in."""
        if new <= self._head:
            return new
        old = new - self._by
        return old if old >= self._behind else None

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a span stands now that the edit has not touched."""
        if end <= self._head:
            return start, end
        return (start + self._by, end + self._by) if start >= self._behind else None

    def place(self, old: Place | None) -> Place | None:
        if old is None or old.path != self._path:
            return old
        span = self.span(old.start, old.end)
        return Place(old.path, *span) if span is not None else None

    def finding(self, old: Finding) -> Finding | None:
        """A finding; None if the edit has touched it, or a step of its trail."""
        at = self.place(old.place)
        steps = [(self.place(step.place), step) for step in old.trail]
        if at is None or not all(place is not None for place, _ in steps):
            return None
        return old._replace(place=at, trail=tuple([step._replace(place=place) for place, step in steps]))

    def regions(self, regions: Iterable[Region]) -> list[Region]:
        """Regions; one in which the edit is grows or shrinks with it."""
        found = []
        for region in regions:
            start, end = self.offset(region.start), self.offset(region.end)
            start = self._head if start is None else start
            end = self._behind + self._by if end is None else end
            if start < end:
                found.append(region._replace(start=start, end=end, origin=self.place(region.origin)))
        return found

    def hints(self, hints: Iterable[Hint]) -> list[Hint]:
        found = []
        for hint in hints:
            offset, origin = self.offset(hint.offset), self.place(hint.origin)
            if offset is not None and (origin is not None or hint.origin is None):
                found.append(hint._replace(offset=offset, origin=origin))
        return found

    def offsets(self, offsets: Iterable[int]) -> list[int]:
        return [offset for old in offsets if (offset := self.offset(old)) is not None]

    def line(self, line: Line | None) -> Line | None:
        if line is None or (here := self.span(line.start, line.end)) is None:
            return None
        uses = [(self.span(use.start, use.end), use.kind) for use in line.uses]
        steps = [(self.place(step.place), step.note) for step in line.steps]
        return Line(
            *here,
            tuple(Use(*span, kind) for span, kind in uses if span is not None),
            tuple(LineStep(place, note) for place, note in steps if place is not None),
        )

    def lenses(self, lenses: Iterable[Lens]) -> list[Lens]:
        found = []
        for lens in lenses:
            span = self.span(lens.start, lens.end)
            if span is not None:
                places = [place for old in lens.places if (place := self.place(old)) is not None]
                found.append(Lens(*span, lens.title, tuple(places)))
        return found
