"""What the last check said, kept between runs: used again as long as nothing that it depends on has changed.

An answer depends on the text of every file that was read, on the names in every folder that an import was looked for
in, on the settings, on the environment, and on gradline itself. If any of these differs, the check is made anew. Texts
are compared by a hash of their bytes, never by date.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import platformdirs

from .findings import Finding, Place, Severity, Step
from .messages import packed, unpacked

if TYPE_CHECKING:
    from .workspace import Checked, Workspace

VARIABLE = "GRADLINE_CACHE_DIR"
KEPT = 64  # answers, one for each set of paths and options; the oldest go first


def default_folder() -> str:
    """Where answers are kept: $GRADLINE_CACHE_DIR, or what the system has for caches."""
    return os.environ.get(VARIABLE) or platformdirs.user_cache_dir("gradline", appauthor=False)


def check(workspace: Workspace, paths: Sequence[str], doubtful: bool, folder: str) -> Checked:
    """`workspace.check`, from memory if that is still true. Whatever is wrong with the cache, the check is made."""
    file = os.path.join(folder, f"{_question(workspace, paths, doubtful)}.answer")
    if (known := _load(file, workspace)) is not None:
        return known
    checked = workspace.check(paths, doubtful)
    if not workspace.disk.problems:  # they are said by reading the files, not by an answer
        _save(file, workspace, checked)
    return checked


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
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _gradline() -> str:
    """A name for this gradline, which changes with each of its files."""
    top = os.path.dirname(__file__)
    marks: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            info = os.stat(os.path.join(folder, name))
            marks.append(f"{folder}/{name}:{info.st_mtime_ns}:{info.st_size}")
    return hashlib.blake2b("\n".join(marks).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _load(file: str, workspace: Workspace) -> Checked | None:
    from .workspace import Checked

    try:
        with open(file, "rb") as stream:
            reads, folders, findings, notes = marshal.load(stream)
        if any(workspace.disk.digest(path) != digest for path, digest in reads.items()):
            return None
        if any(workspace.disk.names_digest(path) != digest for path, digest in folders.items()):
            return None
        return Checked({path: tuple(map(_revive, found)) for path, found in findings.items()}, notes)
    except (OSError, EOFError, ValueError, TypeError):
        return None


def _save(file: str, workspace: Workspace, checked: Checked) -> None:
    disk = workspace.disk
    answer: Any = (
        _digests(disk.seen, disk.digest),
        _digests(disk.listed(), disk.names_digest),
        {path: tuple(map(_plain, found)) for path, found in checked.findings.items()},
        tuple(checked.notes),
    )
    try:
        data = marshal.dumps(answer)
        folder = os.path.dirname(file)
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".answer-", dir=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, file)
        _forget_the_oldest(folder)
    except (OSError, ValueError):
        return  # no place, no rights, or a finding that remembers more than plain values: the next run checks again


def _digests(paths: Iterable[str], digest: Any) -> Mapping[str, bytes | None]:
    return {path: digest(path) for path in paths}


def _forget_the_oldest(folder: str) -> None:
    answers = [entry for entry in os.scandir(folder) if entry.name.endswith(".answer")]
    answers.sort(key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    for entry in answers[KEPT:]:
        with contextlib.suppress(OSError):
            os.unlink(entry.path)


def _plain(finding: Finding) -> tuple[Any, ...]:
    return (
        *finding[:2],
        finding.severity.value,
        tuple(finding.place),
        packed(finding.message),
        tuple((tuple(step.place), packed(step.note)) for step in finding.trail),
        *finding[6:],
    )


def _revive(values: tuple[Any, ...]) -> Finding:
    code, name, severity, place, message, trail, *rest = values
    steps = tuple(Step(Place(*where), unpacked(note)) for where, note in trail)
    return Finding(code, name, Severity(severity), Place(*place), unpacked(message), steps, *rest)
