"""Remembered answers with what they read: the incremental engine.

An answer is good as long as every text that it read is the one that it read then. Texts are compared by value, so an
edit that is undone finds its old answer again, and an answer that did not read the edited file is never asked twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", str, tuple[str, str])

# Answers kept for each key: the present one, and a few before it for undo.
VERSIONS = 4


class Recent(Generic[K, T]):
    """What was made of the texts that were asked for last, up to so many characters of them.

    A text may be of any length, and each keystroke makes a new one: a bound on their number would bound nothing. One
    that is longer than the bound is remembered alone. Full, it stays as large as it is.
    """

    def __init__(self, characters: int) -> None:
        self.limit = characters
        self.size = 0  # characters of all that is remembered
        self._known: OrderedDict[K, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: K) -> T | None:
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: K, value: T) -> T:
        """Remembers `value`, which is not None."""
        known = self._known
        if key not in known:
            self.size += _length(key)
        known[key] = value
        while self.size > self.limit and len(known) > 1:
            self.size -= _length(known.popitem(last=False)[0])
        return value

    def clear(self) -> None:
        self._known.clear()
        self.size = 0


def _length(key: str | tuple[str, str]) -> int:
    return len(key) if isinstance(key, str) else len(key[0]) + len(key[1])


class Memo(Generic[T]):
    """`get` answers a key from memory if all that the answer read still reads the same."""

    def __init__(self, text: Callable[[str], str | None], versions: int = VERSIONS) -> None:
        """`text` gives the present text at a path, or None."""
        self._text = text
        self._versions = versions
        self._known: dict[Hashable, OrderedDict[int, tuple[Mapping[str, str | None], T]]] = {}
        self._world: Hashable = None
        self._others: OrderedDict[Hashable, dict[Hashable, OrderedDict[int, tuple[Mapping[str, str | None], T]]]] = (
            OrderedDict()
        )
        self._count = 0
        self.made = 0  # answers that had to be made, for tests of what was not redone

    def get(
        self,
        key: Hashable,
        make: Callable[[], tuple[T, frozenset[str]]],
        adapt: Callable[[T], tuple[T, frozenset[str]] | None] | None = None,
    ) -> T:
        """The answer; `make` gives a new one with the paths that it read, `adapt` one made of an answer to other texts."""
        versions = self._known.setdefault(key, OrderedDict())
        number = self.renew(key)
        if number is not None:
            return versions[number][1]
        adapted = (adapt(value) for _, value in reversed(versions.values())) if adapt is not None else ()
        found = next((answer for answer in adapted if answer is not None), None)
        value, paths = found or make()
        self.made += found is None
        self._count += 1
        versions[self._count] = ({path: self._text(path) for path in paths}, value)
        while len(versions) > self._versions:
            versions.popitem(last=False)
        return value

    def renew(self, key: Hashable) -> int | None:
        """The answer to the present texts is the last that is forgotten; gives its number, None if it is not known."""
        versions = self._known.get(key, OrderedDict())
        for number in reversed(versions):
            if all(self._text(path) == text for path, text in versions[number][0].items()):
                versions.move_to_end(number)
                return number
        return None

    def forget(self) -> None:
        self._known.clear()
        self._others.clear()

    def turn(self, world: Hashable) -> None:
        """Go over to the answers of another world, in which something differs that no answer counts as read."""
        self._others[self._world] = self._known
        self._world = world
        self._known = self._others.pop(world, {})
        while len(self._others) >= self._versions:
            self._others.popitem(last=False)

    def keep(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forget the answers to all keys but these."""
        self._known = {key: versions for key, versions in self._known.items() if wanted(key)}
