"""`--timings`: where the time of a check goes, by what is done and by file, in CPU time and by the clock.

The engine knows nothing of this and is no slower without it: while a check is measured, the functions that do the work
are replaced by ones that look at the clocks. Time within one that is within another counts for the inner one alone, so
that the parts add up to the whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import inspect
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TextIO, cast

SHOWN = 0.0001  # seconds from which on a part is worth a line
SLOWEST = 10  # files that are named
RULES = 5  # rules that are named

# What is done, and the functions that do it: module, holder in it ("" for the module itself), name.
PARTS: tuple[tuple[str, str, str, str], ...] = (
    ("find files", "disk", "Disk", "discover"),
    ("read settings", "config", "Configuration", "for_folder"),
    ("look for imports", "disk", "Disk", "_listing"),
    ("look for imports", "disk", "Disk", "search_path"),
    ("look for imports", "project", "Project", "resolve"),
    ("look for imports", "project", "Project", "may_switch"),
    ("read files", "disk", "Disk", "read"),
    ("ask the cache", "cache", "Answer", "__init__"),
    ("ask the cache", "disk", "Disk", "digest"),
    ("ask the cache", "disk", "Disk", "names_digest"),
    ("keep the answer", "cache", "Answer", "save"),
    ("cut into units", "project", "", "cut"),
    ("parse units", "reading", "", "reading"),
    ("parse units", "reading", "", "skeleton"),
    ("interpret", "check", "", "program"),
    ("interpret", "check", "", "lone"),
    ("comments and settings", "workspace", "Workspace", "_settle"),
    ("make fixes", "cli.fixing", "", "fix_all"),
    ("make fixes", "workspace", "Workspace", "fix"),
    ("report", "report", "", "write"),
)
OTHER, START, RULE, GARBAGE, WORKERS = (
    "everything else",
    "start",
    "rules",
    "collect garbage",
    "wait for other processes",
)


@dataclasses.dataclass
class Spent:
    """Seconds: of CPU, and by the clock."""

    cpu: float = 0.0
    wall: float = 0.0

    def add(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall


class Timings:
    """What was spent on each part, file and rule while this was `measuring`."""

    def __init__(self) -> None:
        self.parts: dict[str, Spent] = {}
        self.files: dict[str, Spent] = {}
        self.rules: dict[str, Spent] = {}
        self.processes = 1
        self._stack: list[str] = []
        self._cpu = self._wall = 0.0

    @contextlib.contextmanager
    def measuring(self) -> Generator[None, None, None]:
        """Measures what is done within. Starting Python and gradline up to here is a part of its own."""
        with contextlib.ExitStack() as stack:
            for part, module, holder, name in PARTS:
                home = importlib.import_module(f"...{module}", __name__)
                stack.enter_context(_replaced(getattr(home, holder) if holder else home, name, self._timed(part)))
            self._watch_engine(stack)
            gc.callbacks.append(self._collects)
            stack.callback(gc.callbacks.remove, self._collects)
            self.parts[START] = Spent(time.process_time(), _since_start())
            self._enter(OTHER)
            try:
                yield
            finally:
                self._leave()

    def _watch_engine(self, stack: contextlib.ExitStack) -> None:
        from .. import check, jobs

        timed_rules = {
            code: dataclasses.replace(rule, check=self._timed_rule(rule.name, rule.check))
            for code, rule in check.rules().items()
        }
        stack.enter_context(_replaced(check, "rules", lambda _: lambda: timed_rules))
        stack.enter_context(_replaced(check, "_analyse", self._by_file))
        stack.enter_context(_replaced(jobs, "analyse", self._timed(WORKERS)))
        stack.enter_context(_replaced(jobs, "_Worker", self._counted))

    # Looking at the clocks

    def _tick(self) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        if self._stack:
            self.parts.setdefault(self._stack[-1], Spent()).add(cpu - self._cpu, wall - self._wall)
        self._cpu, self._wall = cpu, wall

    def _enter(self, part: str) -> None:
        self._tick()
        self._stack.append(part)

    def _leave(self) -> None:
        self._tick()
        self._stack.pop()

    def _timed(self, part: str) -> Callable[[Any], Any]:
        def around(function: Any) -> Any:
            @functools.wraps(function)
            def timed(*arguments: Any, **options: Any) -> Any:
                self._enter(part)
                try:
                    result = function(*arguments, **options)
                finally:
                    self._leave()
                return self._steps(part, cast("Iterator[Any]", result)) if inspect.isgenerator(result) else result

            return timed

        return around

    def _steps(self, part: str, generator: Iterator[Any]) -> Iterator[Any]:
        """A generator works when it is asked for more, not when it is made."""
        while True:
            self._enter(part)
            try:
                item = next(generator)
            except StopIteration:
                return
            finally:
                self._leave()
            yield item

    def _timed_rule(self, name: str, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(flow: Any) -> list[Any]:
            cpu, wall = time.process_time(), time.perf_counter()
            self._enter(RULE)
            try:
                return list(check(flow))
            finally:
                self._leave()
                spent = self.rules.setdefault(name, Spent())
                spent.add(time.process_time() - cpu, time.perf_counter() - wall)

        return timed

    def _by_file(self, analyse: Any) -> Any:
        def timed(project: Any, path: str) -> Any:
            cpu, wall = time.process_time(), time.perf_counter()
            try:
                return analyse(project, path)
            finally:
                spent = self.files.setdefault(path, Spent())
                spent.add(time.process_time() - cpu, time.perf_counter() - wall)

        return timed

    def _counted(self, worker: Any) -> Any:
        def made(*arguments: Any) -> Any:
            self.processes += 1
            return worker(*arguments)

        return made

    def _collects(self, phase: str, _: Any) -> None:
        self._enter(GARBAGE) if phase == "start" else self._leave()

    # Telling

    def say(self, stream: TextIO, name: Callable[[str], str]) -> None:
        """Writes tables in milliseconds, the most first. `name` is how a file is called."""
        order = [*sorted((part for part in self.parts if part != START), key=lambda part: -self.parts[part].wall)]
        total = Spent(sum(s.cpu for s in self.parts.values()), sum(s.wall for s in self.parts.values()))
        rows = [(part, self.parts[part]) for part in (START, *order)]
        rows = [(part, spent) for part, spent in rows if spent.wall >= SHOWN]
        _table(stream, "what was done", [*rows, ("all", total)])
        if self.processes > 1:
            said = f"gradline: {self.processes - 1} other processes did a part that is not measured; `--jobs 1` measures all"
            print(said, file=stream)
        for title, spent, count in (("slowest files", self.files, SLOWEST), ("slowest rules", self.rules, RULES)):
            slowest = sorted(spent.items(), key=lambda item: -item[1].cpu)[:count]
            if slowest:
                shown = [(name(key) if spent is self.files else key, value) for key, value in slowest]
                _table(stream, f"{title}, of {len(spent)}", shown)


def _table(stream: TextIO, title: str, rows: list[tuple[str, Spent]]) -> None:
    print(f"gradline:  CPU ms  clock ms  {title}", file=stream)
    for name, spent in rows:
        print(f"gradline: {spent.cpu * 1000:7.1f} {spent.wall * 1000:9.1f}  {name}", file=stream)


def _since_start() -> float:
    """Seconds by the clock since this process was started; its CPU time where the system does not tell."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        import os

        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()


@contextlib.contextmanager
def _replaced(home: Any, name: str, around: Callable[[Any], Any]) -> Generator[None, None, None]:
    before = getattr(home, name)
    setattr(home, name, around(before))
    try:
        yield
    finally:
        setattr(home, name, before)
