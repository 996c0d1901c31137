"""What the last check said, kept between runs: used again as far as nothing that it depends on has changed.

An answer holds what each file's entry points say, with the files that this was found out from. It depends on the text
of every file that was read, on the names in every folder that an import was looked for in, on what importing a module
may do to grad mode, on the settings, on the environment, and on gradline itself. If only texts differ, what was found
out from other texts is used again. Texts are compared by a hash of the bytes that were read, never by date.

A file of the cache begins with a hash of the rest, is written beside its place and moved there: two processes do not
disturb each other, and what is damaged is no answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import platformdirs

from . import check as engine
from . import jobs, plain

if TYPE_CHECKING:
    from .edits import Fix
    from .findings import Finding
    from .workspace import Checked, Workspace

VARIABLE = "GRADLINE_CACHE_DIR"
KEPT = 64  # answers, one for each set of paths and options; the oldest go first
KEPT_BYTES = 256_000_000  # of all answers together; one about 2,900 files takes about 3 MB
DIGEST = 16  # bytes of a hash


def default_folder() -> str:
    """Where answers are kept: $GRADLINE_CACHE_DIR, or what the system has for caches."""
    return os.environ.get(VARIABLE) or platformdirs.user_cache_dir("gradline", appauthor=False)


class Kept(NamedTuple):
    """An answer on disk: plain values; `analyses` and `effects` are marshalled apart, as most runs need neither."""

    files: dict[str, bytes | None]
    folders: dict[str, bytes]
    findings: dict[str, tuple[Any, Any]]  # of each file that has some: as the engine and as the settings have them
    notes: tuple[str, ...]
    fixes: tuple[tuple[Any, Any, tuple[str, ...] | None], ...]  # finding, fix, what was read to make it
    analyses: bytes
    effects: bytes


class Answer:
    """What is to be said of some files, and their fixes. `save` keeps both for the next run."""

    def __init__(
        self, workspace: Workspace, paths: Sequence[str], doubtful: bool, folder: str, processes: int | None
    ) -> None:
        self._workspace = workspace
        self._file = os.path.join(folder, f"{_question(workspace, paths, doubtful)}.answer")
        self._fixes: dict[Finding, Fix | None] = {}
        self._paths = paths
        self._new = True  # whether there is something to be kept
        kept = _load(self._file)
        checked = self._recall(kept, doubtful) if kept is not None else None
        if checked is None:
            missing = [path for path in paths if path not in workspace.project.recalled]
            jobs.analyse(workspace, missing, processes)
            checked = workspace.check(paths, doubtful)
        self.checked = checked

    def fix(self, finding: Finding) -> Fix | None:
        """`Workspace.fix`, if it is not known already."""
        if finding not in self._fixes:
            self._fixes[finding] = self._workspace.fix(finding)
            self._new = True
        return self._fixes[finding]

    def save(self) -> None:
        """Keeps the answer, if it is a new one. Problems are said by reading the files, so that is not kept."""
        if not self._new:
            with contextlib.suppress(OSError):
                os.utime(self._file)
            return
        if not self._workspace.disk.problems:
            _save(self._file, self._kept())

    def _recall(self, kept: Kept, doubtful: bool) -> Checked | None:
        """The whole answer, if it still is one; else what still holds of it is told to the workspace."""
        from .workspace import Checked

        workspace, disk = self._workspace, self._workspace.disk
        if any(disk.names_digest(path) != digest for path, digest in kept.folders.items()):
            return None
        now = {path: disk.digest(path) for path in kept.files}
        changed = {path for path, digest in kept.files.items() if now[path] != digest}
        if not changed:
            self._new = False
            self._fixes = {plain.to_finding(finding): plain.to_fix(fix) for finding, fix, _ in kept.fixes}
            settled = {path: plain.to_findings(found) for path, (_, found) in kept.findings.items()}
            return Checked({path: settled.get(path, ()) for path in self._paths}, kept.notes)
        effects: dict[str, object] = marshal.loads(kept.effects)
        for path in changed:
            module = workspace.project.module(path)
            if module is None or (path in effects and workspace.project.effect(module) != effects[path]):
                return None
        for path, values in marshal.loads(kept.analyses).items():
            if changed.isdisjoint(values[2]):
                workspace.project.recalled[path] = plain.to_analysis(values)
                raw, settled = kept.findings.get(path, ((), ()))
                workspace.settled_before(path, doubtful, plain.to_findings(raw), plain.to_findings(settled))
        for finding, fix, reads in kept.fixes:
            if reads is not None and changed.isdisjoint(reads):
                self._fixes[plain.to_finding(finding)] = plain.to_fix(fix)
        workspace.project.known_effects.update((path, effects[path]) for path in effects.keys() - changed)
        disk.visited({path: digest for path, digest in now.items() if path not in disk.seen}, kept.folders)
        return None

    def _kept(self) -> Kept:
        workspace, disk = self._workspace, self._workspace.disk
        analyses = {path: engine.analyse(workspace.project, path) for path in self._paths}
        findings = {
            path: (plain.of_findings(workspace.raw(path)), plain.of_findings(settled))
            for path in self._paths
            if (settled := self.checked.findings.get(path, ())) or workspace.raw(path)
        }
        fixes: list[tuple[Any, Any, tuple[str, ...] | None]] = []
        for finding, fix in self._fixes.items():
            touched = {finding.place.path, *(step.place.path for step in finding.trail)}
            touched |= {edit.path for edit in fix.edits} if fix is not None else set()
            known = [analyses[path].reads for path in touched if path in analyses]
            every: frozenset[str] = frozenset[str]().union(*known)
            reads = tuple(every) if len(known) == len(touched) else None
            fixes.append((plain.of_finding(finding), plain.of_fix(fix), reads))
        return Kept(
            dict(disk.seen),
            {path: disk.names_digest(path) for path in disk.listed()},
            findings,
            tuple(self.checked.notes),
            tuple(fixes),
            marshal.dumps({path: plain.of_analysis(analysis) for path, analysis in analyses.items()}),
            marshal.dumps(workspace.project.effects()),
        )


def check(
    workspace: Workspace, paths: Sequence[str], doubtful: bool, folder: str, processes: int | None = None
) -> Answer:
    """`workspace.check`, from memory as far as that is still true. Whatever is wrong with the cache, the check is made.

    `processes`: how many may work at it, see `jobs.analyse`.
    """
    return Answer(workspace, paths, doubtful, folder, processes)


def _question(workspace: Workspace, paths: Sequence[str], doubtful: bool) -> str:
    """A name for what is asked: everything but the contents of files."""
    disk, configuration = workspace.disk, workspace.configuration
    folders = {path.rpartition("/")[0]: path for path in paths}
    parts = [
        _gradline(),
        sys.version,
        str(doubtful),
        *disk.roots,
        *paths,
        *dict.fromkeys(repr(configuration.for_folder(folder)) for folder in folders),
        *("\n".join(disk.search_path(path)) for path in folders.values()),
    ]
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=DIGEST).hexdigest()


def _gradline() -> str:
    """A name for this gradline, which changes with each of its files."""
    top = os.path.dirname(__file__)
    marks: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            info = os.stat(os.path.join(folder, name))
            marks.append(f"{folder}/{name}:{info.st_mtime_ns}:{info.st_size}")
    return hashlib.blake2b("\n".join(marks).encode("utf-8", "surrogatepass"), digest_size=DIGEST).hexdigest()


def _load(file: str) -> Kept | None:
    try:
        with open(file, "rb") as stream:
            data = stream.read()
        if hashlib.blake2b(data[DIGEST:], digest_size=DIGEST).digest() != data[:DIGEST]:
            return None
        return Kept(*marshal.loads(data[DIGEST:]))
    except (OSError, EOFError, ValueError, TypeError):
        return None


def _save(file: str, kept: Kept) -> None:
    try:
        data = marshal.dumps(tuple(kept))
        folder = os.path.dirname(file)
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".answer-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(hashlib.blake2b(data, digest_size=DIGEST).digest())
                stream.write(data)
            os.replace(temporary, file)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _forget_the_oldest(folder)
    except (OSError, ValueError):
        return  # no place, no rights, or a finding that remembers more than plain values: the next run checks again


def _forget_the_oldest(folder: str) -> None:
    answers: list[tuple[int, int, str]] = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".answer"):
            with contextlib.suppress(OSError):  # another process has just forgotten it
                info = entry.stat()
                answers.append((info.st_mtime_ns, info.st_size, entry.path))
    size = 0
    for count, (_, bytes_of_it, path) in enumerate(sorted(answers, reverse=True)):
        size += bytes_of_it
        if count >= KEPT or (size > KEPT_BYTES and count):
            with contextlib.suppress(OSError):
                os.unlink(path)
