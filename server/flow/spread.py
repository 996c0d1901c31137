"""A file with room between its units, so that an edit of one of them moves no other.

All places of a run are offsets in one text. If the text is this one, those of a run before an edit are still right
after it, and what was found out then can stay. `Spread.real` tells where a place is in the file itself.
"""

from __future__ import annotations

from bisect import bisect_right

from ..findings import Place
from ..project import Module
from ..text import Source
from ..units import Unit, Units

ROOM = 1024  # characters that a unit may grow by before all are laid out anew
UNITS_LIMIT = 2000  # units above which a file is not spread: the text would be of megabytes


class Spread:
    """`module` is the file as it is spread now; it stays the same object while its text is edited."""

    def __init__(self, module: Module) -> None:
        self._starts = [unit.start + ROOM * number for number, unit in enumerate(module.units)]
        self._real = [unit.start for unit in module.units]
        self.module = Module(module.path, module.is_package, Source("", module.path), module.in_project)
        self.fill(self.laid_out(module) or Units.of("", []), module)

    def laid_out(self, module: Module) -> Units | None:
        """The units of the file's present text where they are when it is spread; None if there is no room for them.

        A unit whose text has not changed is the object that it was.
        """
        if len(module.units) != len(self._starts):
            return None
        known = self.module.latest_units or ()
        units: list[Unit] = []
        pieces: list[str] = []
        length = 0
        for number, (start, unit) in enumerate(zip(self._starts, module.units, strict=True)):
            if start < length + (number > 0):
                return None
            text = unit.text
            old = known[number] if known else None
            if old is None or old.text != text or old.shape is not unit.shape:
                old = Unit(start, text, unit.shape)
            units.append(old)
            pieces.append("\n" * (start - length))
            pieces.append(text)
            length = start + len(text)
        return Units.of("".join(pieces), units)

    def fill(self, units: Units, module: Module) -> None:
        """Make these the units of the spread file, which `laid_out` gave for the file's present text."""
        self._real = [unit.start for unit in module.units]
        self.module.put(Source(units.text, module.path), units)

    def at(self, offset: int) -> int:
        """Where an offset in the spread text is in the file."""
        number = bisect_right(self._starts, offset) - 1
        return offset - self._starts[number] + self._real[number] if number >= 0 else offset

    def real(self, place: Place) -> Place:
        if place.path != self.module.path:
            return place
        start = self.at(place.start)
        return Place(place.path, start, start + place.end - place.start)
