"""When what is analysed: the document being typed in first, at once; then everything that may depend on it.

The analysis runs on the event loop and stops as soon as a message waits (`Inbox.waiting`); the engine keeps what it
has learned, so beginning again costs little. There is no debounce: messages that came meanwhile are taken first, and
the next analysis sees the newest text.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator

from ..findings import Finding
from ..text import Source
from .engine import CancelledError, Engine, Findings
from .moved import Moved

LOG = logging.getLogger(__name__)

PATIENCE = 20  # analyses in a row that messages may stop before one is let run to its end
GRACE = 0.1  # seconds that an answer may take though others wait
PAUSE = 0.2  # seconds without work before fixes are prepared: longer than between two keystrokes of most people
QUIET = 0.3  # seconds more before documents are looked at more closely
IDLE = 2.0  # seconds more before garbage is collected
GARBAGE = 20_000  # objects made since, at which the new ones are searched though nobody rests: about 2 MiB
OLDER = 10  # such searches after which what survived them is searched, too, and as many of these before one of all


class Analysis:
    """The findings of the workspace, kept up to date.

    Findings of a document come twice: from the document alone, at once (`_alone`), and from the whole scope
    (`_whole`). What only the latter has, because another file is needed to see it, is carried over an edit to its
    new place (`_carried`) until the whole scope has been analysed again.

    `opened()` are the paths of the open documents. `published(paths, edited)` is called with files that are to be shown
    anew, `edited` if that is so because the one file among them was edited, opened or closed. `scanned(done, total)`
    is called as the files of the workspace are read for the first time.
    """

    def __init__(
        self,
        engine: Engine,
        waiting: Callable[[], bool],
        opened: Callable[[], Collection[str]],
        published: Callable[[list[str], bool], None],
        scanned: Callable[[int, int], None],
    ) -> None:
        self.whole_project = True  # or open documents alone
        self.given_up = False  # the user has ended the first scan: as if for open documents alone
        self.enabled: Callable[[str], bool] = lambda path: True
        self.idle: list[Callable[[], Iterator[None]]] = []  # done in pieces when all other work is done
        self.paused: list[Callable[[], Iterator[None]]] = []  # the same, when nobody has typed for a moment
        self.quiet: list[Callable[[], Iterator[None]]] = []  # ... and for a while
        self.revision = 0  # goes up with every change
        self._engine = engine
        self._waiting = waiting
        self._opened = opened
        self._published = published
        self._scanned = scanned
        self._texts: dict[str, str] = {}  # of the open documents
        self._alone: Findings = {}
        self._whole: Findings = {}
        self._carried: Findings = {}
        self._shown: Findings = {}
        self._dirty: list[str] = []  # open documents to look at first, the newest last
        self._unread: list[str] | None = None  # what the first scan has yet to read; None before it has begun
        self._files = 0  # how many it reads
        self._stale = False  # whether the whole scope must be looked at
        self._stopped = 0  # analyses in a row that a message stopped
        self._searches = 0  # for garbage among new objects
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []

    # What others tell

    def changed(self, path: str, source: Source | None) -> None:
        """A document was opened, edited or (None) closed."""
        before = self._texts.pop(path, None)
        if before is None and path in self._whole and (on_disk := self._engine.source(path)) is not None:
            before = on_disk.text
        self._engine.update(path, source)
        alone = self._alone.pop(path, ())
        extra = self._carried.pop(path, None)
        if path in self._dirty:
            self._dirty.remove(path)
        if source is not None:
            self._texts[path] = source.text
            self._dirty.append(path)
            if extra is None:
                extra = tuple(finding for finding in self._whole.get(path, ()) if finding not in alone)
            self._carried[path] = carry(extra, path, before, source.text)
        self.refresh()

    def refresh(self) -> None:
        """Something else changed (files, settings): look at everything again."""
        self._stale = True
        self.revision += 1
        self._wake.set()

    def give_up(self) -> None:
        """Ends the first scan; files that are not open are left alone until `begin_again`."""
        self.given_up = True
        self.refresh()

    def begin_again(self) -> None:
        """The workspace is another one: everything is looked at, also if the user has ended the scan before."""
        self.given_up = False
        self.rescan()

    def wake(self) -> None:
        """There may be something to do, if only when idle."""
        self._wake.set()

    def rescan(self) -> None:
        """The workspace has other files than before."""
        self._unread = None
        self.refresh()

    # What others ask

    def findings(self, path: str) -> tuple[Finding, ...]:
        """The findings of a file that are shown now."""
        return self._shown.get(path, ())

    def paths(self) -> list[str]:
        """The files that have findings now."""
        return [path for path, found in self._shown.items() if found]

    @property
    def _looks_at_all(self) -> bool:
        return self.whole_project and not self.given_up

    @property
    def is_current(self) -> bool:
        """Whether all findings are those of the newest texts."""
        return not (self._dirty or self._stale or (self._looks_at_all and (self._unread is None or self._unread)))

    async def settled(self, path: str) -> None:
        """Returns when the findings of an open document are those of its newest text."""
        while path in self._dirty:
            await self.news()

    async def news(self) -> None:
        """Returns when an analysis has ended."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    # The work

    async def run(self) -> None:
        """Works until it is cancelled."""
        gc.disable()  # garbage is collected when idle: within an analysis that would cost more than the analysis
        while True:
            self._wake.clear()
            if not self._step():
                if gc.get_count()[0] > GARBAGE:
                    self._collect()
                await self._rest()
            await asyncio.sleep(0)
            while self._waiting():
                await asyncio.sleep(0)

    def _collect(self) -> None:
        """Collects garbage among the new objects, now and then also among older ones, for those who never rest."""
        self._searches += 1
        gc.collect(2 if self._searches % OLDER**2 == 0 else 1 if self._searches % OLDER == 0 else 0)

    async def _rest(self) -> None:
        if await self._is_disturbed(self.idle) or await self._is_woken(PAUSE):
            return
        if await self._is_disturbed(self.paused) or await self._is_woken(QUIET):
            return
        if await self._is_disturbed(self.quiet) or await self._is_woken(IDLE):
            return
        gc.collect()
        await self._wake.wait()

    async def _is_disturbed(self, works: list[Callable[[], Iterator[None]]]) -> bool:
        """Does what is to be done at rest, unless something else comes up."""
        for work in works:
            for _ in work():
                await asyncio.sleep(0)
                if self.is_disturbed():
                    return True
        return self.is_disturbed()

    def is_disturbed(self) -> bool:
        """Whether something more urgent than what is done at rest has come up."""
        return self._waiting() or self._wake.is_set()

    def impatient(self) -> Callable[[], bool]:
        """Whether an answer that is being made has taken long enough, now that others wait for theirs."""
        end = time.monotonic() + GRACE
        return lambda: time.monotonic() > end and self._waiting()

    async def _is_woken(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def _step(self) -> bool:
        """Does the most urgent piece of work; returns whether there was any."""
        if self._dirty:
            self._document(self._dirty[-1])
        elif self._whole_is_read():
            if not self._stale:
                return False
            self._everything()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return True

    def _document(self, path: str) -> None:
        found = self._check([path])
        if found is None:
            return
        self._dirty.remove(path)
        self._alone[path] = found.get(path, ())
        self._show({path: _merged(self._alone[path], self._carried.get(path, ()))}, edited=True)

    def _whole_is_read(self) -> bool:
        """Reads one more file of the workspace; True if there is none left to read."""
        if not self._looks_at_all:
            return True
        if self._unread is None:
            self._unread = [path for path in self._engine.files() if path not in self._texts and self.enabled(path)]
            self._files = len(self._unread)
        if not self._unread:
            return True
        found = self._check([self._unread[-1]])
        if found is not None:
            path = self._unread.pop()
            if found.get(path) and path not in self._texts:
                self._show({path: found[path]})  # what others make of it comes when all are read
            self._scanned(self._files - len(self._unread), self._files)
            if not self._unread:
                gc.collect()
                gc.freeze()  # what the scan has made stays; later collections need not walk it
        return False

    def _everything(self) -> None:
        scope = [path for path in self._opened() if self.enabled(path)]
        if self._looks_at_all:
            scope += [path for path in self._engine.files() if path not in self._texts and self.enabled(path)]
        self._stale = False
        found = self._check(scope)
        if found is None:
            self._stale = True
            return
        self._whole = {path: some for path, some in found.items() if some and (self._looks_at_all or path in scope)}
        self._carried.clear()
        gone = {path: () for path in self._shown if path not in self._whole}
        self._show({**self._whole, **gone})

    def _check(self, paths: list[str]) -> Findings | None:
        """The findings of these files; None if a message stopped the analysis.

        A failure is logged. Files whose analysis fails keep their findings, and are left out while the others are
        checked again.
        """
        paths = [path for path in paths if self.enabled(path)]
        kept: Findings = {}
        try:
            try:
                found = self._engine.check(paths, self._cancelled)
            except CancelledError:
                raise
            except Exception:
                kept = {path: self._shown.get(path, ()) for path in paths if self._fails(path)}
                rest = [path for path in paths if path not in kept]
                found = self._engine.check(rest, self._cancelled) if kept and rest else {}
        except CancelledError:
            self._stopped += 1
            return None
        self._stopped = 0
        return {**found, **kept}

    def _fails(self, path: str) -> bool:
        try:
            self._engine.check([path], self._cancelled)
        except CancelledError:
            raise
        except Exception:
            LOG.exception("the analysis of %s failed", path)
            return True
        return False

    def _cancelled(self) -> bool:
        return self._stopped < PATIENCE and self._waiting()

    def _show(self, findings: Findings, edited: bool = False) -> None:
        changed = {path for path, found in findings.items() if edited or found != self._shown.get(path, ())}
        for path in changed:
            if findings[path]:
                self._shown[path] = findings[path]
            else:
                self._shown.pop(path, None)
        if changed:
            self._published(sorted(changed), edited)


def _merged(some: tuple[Finding, ...], others: tuple[Finding, ...]) -> tuple[Finding, ...]:
    more = [finding for finding in others if finding not in some]
    return tuple(sorted([*some, *more], key=lambda finding: finding.place)) if more else some


def carry(findings: tuple[Finding, ...], path: str, before: str | None, after: str) -> tuple[Finding, ...]:
    """The findings of a text at their places in the edited text; those that the edit touches are dropped."""
    if before == after or not findings:
        return findings
    if before is None:
        return ()
    moved = Moved(path, before, after)
    return tuple([finding for old in findings if (finding := moved.finding(old)) is not None])
