"""Looking at open documents more closely than findings need, when nobody types: for colours, hints, lenses and hover."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .engine import CancelledError

if TYPE_CHECKING:
    from .server import GradlineServer

LOG = logging.getLogger(__name__)


def register(server: GradlineServer) -> None:
    failed: dict[str, int] = {}  # what breaks the engine is not looked at again before something has changed

    def look() -> Iterator[None]:
        news: list[str] = []
        try:
            for path in server.documents.paths():
                if not server.configuration.of(path).enable or failed.get(path) == server.analysis.revision:
                    continue
                try:
                    if server.engine.look(path, server.analysis.is_disturbed):
                        news.append(path)
                except CancelledError:
                    break
                except Exception:
                    LOG.exception("looking at %s failed", path)
                    failed[path] = server.analysis.revision
                yield
        finally:  # also when something else comes up at the yield: what has been seen would never be told otherwise
            if news:
                server.answers.may_differ(now=True)
                server.tell_lines(news)

    server.analysis_quiet.append(look)
