"""What the client was last told of its documents, to ask it to ask again where that is out of date.

A client asks for the colours, hints and lenses of a document after it has edited that document. That an edit of
another file, or a closer look at this one, has changed them is known here alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .server import GradlineServer
    from .sync import View

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")

TOKENS, HINTS, LENSES, LINES = "tokens", "hints", "lenses", "lines"


class _Given(NamedTuple):
    version: int
    make: Callable[[View], object]
    answer: object


class Answers:
    """The last answer of each kind for each document."""

    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._given: dict[tuple[str, str], _Given] = {}  # by kind and address
        self._is_due = self._is_due_now = False

    def give(self, kind: str, view: View, make: Callable[[View], Answer]) -> Answer:
        """What `make` makes of a document now; remembered with `make`, which may be called again."""
        answer = make(view)
        self._given[kind, view.uri] = _Given(view.version, make, answer)
        return answer

    def may_differ(self, now: bool) -> None:
        """Something has changed that answers rest on; `now`: they are compared without waiting for the keyboard to rest."""
        self._is_due = True
        self._is_due_now |= now

    def compare_now(self) -> Iterator[None]:
        if self._is_due_now:
            yield from self._compare()

    def compare(self) -> Iterator[None]:
        if self._is_due:
            yield from self._compare()

    def _compare(self) -> Iterator[None]:
        """Makes the answers again, one after the other, and tells the client which kinds of them have changed."""
        stale: dict[str, list[str]] = {}
        try:
            for (kind, uri), given in list(self._given.items()):
                view = self._server.view(uri)
                if view is None:
                    del self._given[kind, uri]
                elif view.version == given.version:  # else the client has edited it, and asks by itself
                    try:
                        answer = given.make(view)
                    except Exception:
                        LOG.exception("what the client knows of %s could not be compared", uri)
                        del self._given[kind, uri]
                        continue
                    if answer != given.answer:
                        self._given[kind, uri] = given._replace(answer=answer)
                        stale.setdefault(kind, []).append(uri)
                yield
            self._is_due = self._is_due_now = False
        finally:  # also when something else comes up at the yield: these are remembered as told
            for kind, uris in stale.items():
                self._server.refresh(kind, uris)


def register(server: GradlineServer) -> None:
    server.analysis_idle.append(server.answers.compare_now)
    server.analysis_quiet.append(server.answers.compare)  # after a closer look, see `looking.py`
