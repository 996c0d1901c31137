"""`--fix` and `--diff`: applies fixes in memory until none is left, then writes the files or shows the difference."""

from __future__ import annotations

import codecs
import difflib
import errno
import itertools
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from ..report import clean, here
from ..report.changes import applied, changed, raw
from ..text import Source, decode

if TYPE_CHECKING:
    from ..edits import Edit, Fix
    from ..findings import Finding
    from ..workspace import Workspace

ROUNDS = 10  # a fix may uncover another finding; ruff gives up after 100, our fixes are verified one by one


@dataclass
class Fixed:
    """What was done: `before` and `after` have the text of each changed file.

    `mended` has, for each finding that is gone, the files that had to change for it; `failed` are those that could not
    be written.
    """

    mended: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    before: dict[str, Source] = field(default_factory=dict[str, Source])
    after: dict[str, Source] = field(default_factory=dict[str, Source])
    failed: set[str] = field(default_factory=set[str])

    @property
    def count(self) -> int:
        """The findings that are gone, less those whose files could not be written."""
        return sum(self.failed.isdisjoint(paths) for paths in self.mended)

    @property
    def changed(self) -> bool:
        return any(self.before[path].text != self.after[path].text for path in self.after)

    def write_diff(self, stream: TextIO) -> None:
        """Writes what saving would change, as a unified diff."""
        base = here().rstrip("/") + "/"
        for path in sorted(self.after):
            name = clean(path.removeprefix(base))
            stream.write(difference(name, self.before[path], self.after[path], _mark(path)))

    def save(self) -> None:
        """Writes the changed files, each at once; what can't be written is said, and is in `failed` then."""
        for path in sorted(self.after):
            if self.before[path].text == self.after[path].text:
                continue
            try:
                rewrite(path, self.before[path], self.after[path])
            except (OSError, ValueError) as error:
                reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
                print(f"gradline: error: {clean(path)} was not changed: {reason}", file=sys.stderr)
                self.failed.add(path)


class ChangedError(ValueError):
    """The file is not what it was when it was read."""


def fix_all(workspace: Workspace, paths: Sequence[str], unsafe: bool, doubtful: bool) -> Fixed:
    """Applies, in memory, every fix to these files that is safe (or, with `unsafe`, that may be), until none is left."""
    from ..edits import Applicability

    wanted = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
    allowed = set(paths)
    done = Fixed()
    for _ in range(ROUNDS):
        checked = workspace.check(paths, doubtful)
        findings = [finding for path in paths for finding in checked.findings.get(path, ())]
        fixes = [fix for finding in findings if (fix := workspace.fix(finding))]
        chosen = compatible(fix for fix in fixes if fix.applicability in wanted and _within(fix, allowed))
        if not chosen:
            break
        # one fix may be that of both ends of a trail
        done.mended += [frozenset(edit.path for edit in fix.edits) for fix in fixes if fix in chosen]
        for path, edits in by_path(chosen).items():
            source = workspace.source(path)
            assert source is not None
            done.before.setdefault(path, source)
            done.after[path] = after = applied(source, edits)
            workspace.project.update(path, after)
    return done


def silence_all(workspace: Workspace, findings: Iterable[Finding]) -> Fixed:
    """Writes, in memory, the comments that silence these findings."""
    from ..suppress import silence

    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.place.path, []).append(finding)
    done = Fixed()
    for path, found in by_file.items():
        done.mended += [frozenset({path})] * len(found)
        source = workspace.source(path)
        assert source is not None
        done.before[path] = source
        done.after[path] = applied(source, silence(path, source.text, found))
    return done


def _within(fix: Fix, allowed: set[str]) -> bool:
    return bool(fix.edits) and all(edit.path in allowed for edit in fix.edits)


def compatible(fixes: Iterable[Fix]) -> list[Fix]:
    """Those of `fixes`, first come first served, whose edits touch nothing that another one's do; none twice."""
    chosen: list[Fix] = []
    taken: dict[str, list[tuple[int, int]]] = {}
    for fix in fixes:
        if any(
            edit.start <= end and start <= edit.end for edit in fix.edits for start, end in taken.get(edit.path, ())
        ):
            continue
        chosen.append(fix)
        for edit in fix.edits:
            taken.setdefault(edit.path, []).append((edit.start, edit.end))
    return chosen


def by_path(fixes: Iterable[Fix]) -> dict[str, list[Edit]]:
    found: dict[str, list[Edit]] = {}
    for fix in fixes:
        for edit in fix.edits:
            found.setdefault(edit.path, []).append(edit)
    return found


def _mark(path: str) -> str:
    """The byte order mark of a file, which a patch of its first line must have; empty if there is none."""
    try:
        with open(path, "rb") as file:
            return "\ufeff" if file.read(3) == codecs.BOM_UTF8 else ""
    except OSError:  # standard input
        return ""


def difference(name: str, before: Source, after: Source, mark: str = "") -> str:
    """A unified diff, with the newlines of the text; of a notebook, one for each cell. `mark` stands before the text."""
    out: list[str] = []
    for old, new in changed(before, after):
        label = f"{name}:cell {old.cell}" if old.cell else name
        lines = difflib.unified_diff(_lines(old.source, mark), _lines(new.source, mark), f"a/{label}", f"b/{label}")
        for line in lines:
            ends = line.endswith(("\n", "\r"))
            out.append(line if ends else f"{line}\n" if old.cell else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(source: Source, mark: str) -> list[str]:
    """The lines with their ends, and what stands before the first."""
    starts = [*source.line_starts, len(source.text)]
    lines = [source.text[a:b] for a, b in itertools.pairwise(starts) if a < b]
    return [mark + lines[0], *lines[1:]] if lines else lines


def rewrite(path: str, before: Source, after: Source) -> None:
    """Puts `after` in place of a file that holds `before`, at once: who reads it sees the old or the new, never a part.

    Encoding, byte order mark, newlines and permissions stay. Raises ChangedError if the file holds something else by
    now, UnicodeEncodeError (a ValueError, too) if its encoding has no such characters, OSError if it can't be written.
    """
    target = os.path.realpath(path)
    with open(target, "rb") as file:
        data = file.read()
    new = encoded(data, before, after)
    mode = stat.S_IMODE(os.stat(target).st_mode)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied")
    handle, temporary = tempfile.mkstemp(prefix=".gradline-", dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def encoded(data: bytes, before: Source, after: Source) -> bytes:
    """The bytes of a file that held `data` (which reads as `before`) with the text of `after`."""
    decoded = decode(data)
    if decoded.text != raw(before):
        raise ChangedError("it changed while it was being checked; run the command again")
    return decoded.encode(raw(after))
