"""Everything that changes while a program is interpreted, and how to go back.

All mutable knowledge (names, attributes, cells of objects, grad mode) lives in dicts that are written only through
`State.set`. Each write is journaled, so a branch can be taken, undone and joined with its sibling: the cost is that
of what the branch changed, not of the whole heap.
"""

from __future__ import annotations

from typing import Any

from .facts import DEFAULT_MODE, Mode, Surely, join, join_all, same

MISSING = object()

Cells = dict[Any, Any]
# (id of the dict, key) -> (the dict, key, value); MISSING as a value: the key was deleted.
Changes = dict[tuple[int, object], tuple[Cells, Any, Any]]


class State:
    """The journal, and the one cell that every operation reads: grad mode."""

    __slots__ = ("journal", "shared")

    def __init__(self) -> None:
        self.journal: list[tuple[Cells, Any, Any]] = []
        self.shared: Cells = {"mode": DEFAULT_MODE}

    @property
    def mode(self) -> Mode:
        return self.shared["mode"]

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.set(self.shared, "mode", mode)

    def set(self, cells: Cells, key: object, value: object) -> None:
        self.journal.append((cells, key, cells.get(key, MISSING)))
        cells[key] = value

    def put(self, cells: Cells, key: object, value: object) -> None:
        """Write what holds on every path: no branch takes it back."""
        self.note(cells, key)
        cells[key] = value

    def note(self, cells: Cells, key: object) -> None:
        """What is in this cell will be changed without the journal's knowing."""

    def delete(self, cells: Cells, key: object) -> None:
        if key in cells:
            self.journal.append((cells, key, cells.pop(key)))

    def mark(self) -> int:
        """A moment to which `changes`, `undo` and `take` refer."""
        return len(self.journal)

    def changes(self, mark: int) -> Changes:
        """What differs now from the moment of the mark."""
        written = {(id(cells), key): cells for cells, key, _ in self.journal[mark:]}
        return {where: (cells, where[1], cells.get(where[1], MISSING)) for where, cells in written.items()}

    def moved(self, mark: int) -> list[tuple[object, object, object]]:
        """Of each cell that there was at the mark and that was written since, its key, what was in it then and what is
        in it now (None: nothing). Of what is new only keys of dicts are told: most else are names in functions that
        were called since."""
        first: Changes = {}
        for cells, key, old in self.journal[mark:]:
            first.setdefault((id(cells), key), (cells, key, old))
        return [
            (key, None if old is MISSING else old, cells.get(key))
            for cells, key, old in first.values()
            if old is not MISSING or type(key) is tuple
        ]

    def keep(self, mark: int) -> None:
        """Make what was written since the mark hold on every path."""
        del self.journal[mark:]

    def forget(self, cells: Cells, mark: int) -> None:
        """Cells that nothing will read again: what was written into them since the mark need not be undone."""
        self.journal[mark:] = [entry for entry in self.journal[mark:] if entry[0] is not cells]

    def undo(self, mark: int) -> None:
        while len(self.journal) > mark:
            cells, key, old = self.journal.pop()
            if old is MISSING:
                cells.pop(key, None)
            else:
                cells[key] = old

    def take(self, mark: int) -> Changes:
        """The changes since the mark, which are undone."""
        found = self.changes(mark)
        self.undo(mark)
        return found

    def apply(self, changes: Changes) -> None:
        for cells, key, value in changes.values():
            if value is MISSING:
                self.delete(cells, key)
            elif cells.get(key, MISSING) is not value:
                self.set(cells, key, value)

    def merge(self, paths: list[Changes]) -> None:
        """Join several ways on from the present state; a way that did not touch a cell leaves it as it is.

        A name that only some ways bind is taken to be bound: reading it unbound would be an error of another kind.
        """
        if len(paths) == 1:
            self.apply(paths[0])
            return
        merged: Changes = {}
        several: set[tuple[int, object]] = set()  # what more than one way wrote
        for path in paths:
            several.update(merged.keys() & path.keys())
            merged.update(path)
        loose = [
            (cells, elements(cells, paths), common(cells, paths))
            for where, (cells, key, _) in merged.items()
            if key == "items" and (key in cells or where in several)
        ]
        for where, (cells, key, new) in merged.items():
            now = cells.get(key, MISSING)
            if now is MISSING and where not in several:  # most: it is in what was made on one of the ways
                if new is not MISSING:
                    self.set(cells, key, new)
                continue
            value: object = MISSING
            for path in paths:
                entry = path.get(where)
                other = entry[2] if entry is not None else now
                if other is not MISSING:
                    value = other if value is MISSING else join(value, other)
            if value is MISSING:
                self.delete(cells, key)
            elif now is MISSING or not same(now, value):
                self.set(cells, key, value)
        for cells, each, surely in loose:
            if cells.get("items", MISSING) is None and each:
                self.set(cells, "each", join_all(each))
                self.set(cells, "surely", surely)


class Recorded(State):
    """A state that can be set back to an earlier moment of the run, whatever was written, joined or undone since.

    `State.undo` goes back over a branch that is open; this goes back over all that has happened. `sections` are the
    stretches between the moments: what each cell held when it was first written in one.
    """

    __slots__ = ("sections",)

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[Changes] = [{}]

    def section(self) -> int:
        """Begin another stretch; gives its number, for `rewind`."""
        self.sections.append({})
        return len(self.sections) - 1

    def rewind(self, section: int) -> None:
        """Everything as it was when that stretch began, which begins again; `journal` is left to the caller."""
        for written in reversed(self.sections[section:]):
            for cells, key, old in written.values():
                if old is MISSING:
                    cells.pop(key, None)
                else:
                    cells[key] = old
        self.sections[section:] = [{}]

    def note(self, cells: Cells, key: object) -> None:
        where = id(cells), key
        if where not in self.sections[-1]:
            self.sections[-1][where] = cells, key, cells.get(key, MISSING)

    def set(self, cells: Cells, key: object, value: object) -> None:
        entry = cells, key, cells.get(key, MISSING)
        written, where = self.sections[-1], (id(cells), key)
        if where not in written:
            written[where] = entry
        self.journal.append(entry)
        cells[key] = value

    def delete(self, cells: Cells, key: object) -> None:
        self.note(cells, key)
        super().delete(cells, key)

    def undo(self, mark: int) -> None:
        for cells, key, _ in self.journal[mark:]:
            self.note(cells, key)
        super().undo(mark)


def common(cells: Cells, paths: list[Changes]) -> Surely:
    """What is in a list after each of several ways."""
    found: Surely | None = None
    for path in paths:
        items, surely = (
            path[id(cells), key][2] if (id(cells), key) in path else cells.get(key, MISSING)
            for key in ("items", "surely")
        )
        here = surely if isinstance(surely, Surely) else Surely()
        if isinstance(items, tuple):
            here = Surely(items)  # pyright: ignore[reportUnknownArgumentType]
        found = here if found is None else found.join(here)
    return found or Surely()


def elements(cells: Cells, paths: list[Changes]) -> list[object]:
    """What may be in a list after any of several ways."""
    found: list[object] = []
    for path in paths:
        items, each = (
            path[id(cells), key][2] if (id(cells), key) in path else cells.get(key, MISSING)
            for key in ("items", "each")
        )
        if isinstance(items, tuple):
            found += items
        elif each is not MISSING:
            found.append(each)
    return found
