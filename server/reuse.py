"""What an edit leaves as it was: whether a program can do something else now, and where its places are.

A program depends on the statements of the files that it runs, and on those functions of theirs that it calls. An edit
of a comment, of blank lines, or of a function that the program never reads changes nothing that it does; only what
stands below the edit has moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .findings import Finding, Place
from .flow.scopes import bound_by
from .project import Module
from .units import DEF, OPAQUE, Change, Unit, mask

Changes = Mapping[str, Change]  # of each file that was edited, by its path
NONE = Change(0, 0, 0)


def harmless(old: Module, new: Module, made: Collection[int], asked: Collection[str] | None = None) -> Change | None:
    """The edit from one text of a file to another, if whoever read of its functions those at the offsets `made` sees no
    difference; None if something else may be the case.

    If the file was not run, `asked` are the names that were looked up in it: of its statements only those ran that bind
    one of them.
    """
    change = _whole_lines(Change.between(old.source.text, new.source.text), old.source.text, new.source.text)
    if _alike(old.units, new.units, change, made):
        return change
    return change if asked is not None and _binds_alike(old.units, new.units, change, asked) else None


def _binds_alike(olds: Sequence[Unit], news: Sequence[Unit], change: Change, asked: Collection[str]) -> bool:
    """Whether none of the units that are not what they were binds one of these names."""
    start, end, shift = change
    most = min(len(olds), len(news))
    head = 0
    while head < most and olds[head].end <= start and _same(olds[head], news[head], 0):
        head += 1
    tail = 0
    while tail < most - head and olds[-1 - tail].start >= end and _same(olds[-1 - tail], news[-1 - tail], shift):
        tail += 1
    for unit in (*olds[head : len(olds) - tail], *news[head : len(news) - tail]):
        names = bound_by(unit)
        if "*" in names or not names.isdisjoint(asked):
            return False
    return True


def _same(old: Unit, new: Unit, shift: int) -> bool:
    return new.start == old.start + shift and new.end == old.end + shift and new.shape is old.shape


def _whole_lines(change: Change, old: str, new: str) -> Change:
    """The same change from the start of a line, if lines were put in or taken out: which of the equal indentations it
    begins behind is not to be seen."""
    start, end, shift = change
    text, behind = (new, end + shift) if start == end else (old, end)
    lead = start - old.rfind("\n", 0, start) - 1
    if lead and start in (end, end + shift) and text[behind - lead : behind] == old[start - lead : start]:
        return Change(start - lead, end - lead, shift)
    return change


def _alike(olds: Sequence[Unit], news: Sequence[Unit], change: Change, made: Collection[int]) -> bool:
    """Whether all units are what they were, but for comments and one function that was not read."""
    if len(olds) != len(news):
        return False
    start, end, shift = change
    for old, new in zip(olds, news, strict=True):
        begin, finish = old.start, old.end
        if finish < start or (finish == start and new.end == finish):
            if not _same(old, new, 0):
                return False
        elif begin >= end:
            if not _same(old, new, shift):
                return False
        else:
            if (new.kind, new.name, new.is_def) != (old.kind, old.name, old.is_def):
                return False
            if new.start != begin or new.end != finish + shift:
                return False
            members = old.children if old.kind == "class" else ()
            if members and start >= members[0].start:
                if not _alike(members, new.children, change, made):
                    return False
            elif not (_unread(old, start, made) or _only_comments(old, new, change) or _only_prose(old, new, change)):
                return False
    return True


def _unread(unit: Unit, at: int, made: Collection[int]) -> bool:
    """Whether this is a function that was not read, edited behind its decorators, which are looked at."""
    if not unit.is_def or unit.start in made:
        return False
    return not unit.text.startswith("@") or DEF.search(unit.text, 0, at - unit.start) is not None


def _only_comments(old_unit: Unit, new_unit: Unit, change: Change) -> bool:
    """Whether comments and blank lines are all in which two units differ: no code, and nothing inside a string."""
    old, new, shift = old_unit.text, new_unit.text, change.shift
    start, end = change.start - old_unit.start, change.end - old_unit.start
    line = old.rfind("\n", 0, start) + 1
    touched = *old[line:end].split("\n"), *new[line : end + shift].split("\n")
    if any("#" not in text and not text.isspace() for text in touched if text):
        return False
    here, now = mask(old), mask(new)
    if here[start:end].strip() or now[start : end + shift].strip() or here[:line].endswith(("\\\n", "\\\r\n")):
        return False
    after = old.find("\n", end)
    after = len(old) if after < 0 else after
    return _code(here[line:after]) == _code(now[line : after + shift]) and here[after:] == now[after + shift :]


def _only_prose(old_unit: Unit, new_unit: Unit, change: Change) -> bool:
    """Whether all in which two units differ is inside one text that is a statement of its own, as a docstring is."""
    start, end, shift = change.start - old_unit.start, change.end - old_unit.start, change.shift
    here, now = _prose_around(old_unit.text, start, end), _prose_around(new_unit.text, start, end + shift)
    return here is not None and now is not None and (here[0], here[1] + shift) == now


def _prose_around(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The bounds of the text in three quotes around this stretch, if it is a statement of its own."""
    if '"""' not in text[:start] and "'''" not in text[:start]:
        return None
    found = next((m for m in OPAQUE.finditer(text) if m.end() > start), None)
    if found is None or found[0][:3] not in ('"""', "'''") or not found.start() + 3 <= start <= end <= found.end() - 3:
        return None
    masked = mask(text)
    line = masked.rfind("\n", 0, found.start()) + 1
    before, rest = masked[:line], masked[found.end() : masked.find("\n", found.end()) % (len(masked) + 1)]
    if masked[line : found.start()].strip() or rest.strip() or before.endswith(("\\\n", "\\\r\n")):
        return None
    inside = sum(map(before.count, "([{")) - sum(map(before.count, ")]}"))
    return None if inside else found.span()


def _code(masked: str) -> list[str]:
    return [line.rstrip() for line in masked.split("\n") if line.strip()]


def moved_place(place: Place, changes: Changes) -> Place:
    change = changes.get(place.path)
    if change is None or place.end <= change.start:
        return place
    return Place(place.path, change.moved(place.start), place.end + change.shift)


def moved(finding: Finding, changes: Changes) -> Finding:
    """The same finding where its places are now."""
    return finding.moved(lambda place: moved_place(place, changes))
