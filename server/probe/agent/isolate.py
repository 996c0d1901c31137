"""Keeping the user's files as they are: an overlay mount, or a scratch copy of a small project."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import sys
from typing import Any

NEW_NAMESPACE, NEW_USER = 0x00020000, 0x10000000
RECURSIVE_PRIVATE = 16384 | 262144
BIND = 4096
COPY_FILES, COPY_BYTES = 2_000, 100 << 20
LINKED = {".venv", "venv", "env", "node_modules", ".git", ".hg", ".tox", ".nox"}
MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml")


def project_of(path: str) -> str:
    """The folder to protect: the nearest one above that looks like a project's, else the path's own."""
    path = os.path.realpath(path)
    start = path if os.path.isdir(path) else os.path.dirname(path)
    folder = start
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in MARKS) and protectable(folder):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above


def protectable(folder: str) -> bool:
    """Not the whole disk, a home folder, or the folder of temporary files."""
    folder = os.path.realpath(folder)
    refused = {
        "/",
        "/home",
        "/root",
        "/tmp",
        "/var",
        "/var/tmp",
        "/usr",
        "/opt",
        os.path.realpath(os.path.expanduser("~")),
    }
    return folder not in refused


def outermost(folders: list[str]) -> list[str]:
    """Without those that lie in another one."""
    kept: list[str] = []
    for folder in sorted({os.path.realpath(f) for f in folders}, key=len):
        if not any(folder == k or folder.startswith(k.rstrip(os.sep) + os.sep) for k in kept):
            kept.append(folder)
    return kept


def scratch_parents() -> list[str]:
    import tempfile

    return [tempfile.gettempdir(), "/var/tmp", "/dev/shm", os.path.expanduser("~/.cache")]


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(libc: Any, source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encode = os.fsencode
    result = libc.mount(
        encode(source),
        encode(target),
        encode(kind) if kind else None,
        ctypes.c_ulong(flags),
        encode(data) if data else None,
    )
    _check(result, f"mount {target}")


def unshare() -> None:
    """A mount namespace of this process's own; without root in a user namespace that keeps the user's ids."""
    libc = _libc()
    if os.geteuid() == 0 and libc.unshare(NEW_NAMESPACE) == 0:
        pass
    else:
        uid, gid = os.getuid(), os.getgid()
        _check(libc.unshare(NEW_NAMESPACE | NEW_USER), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount(libc, "none", "/", None, RECURSIVE_PRIVATE)


def _escape(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def overlay(folder: str, scratch: str) -> None:
    """Mount an overlay over `folder`: what is written there lands below `scratch`."""
    libc = _libc()
    upper, work = os.path.join(scratch, "upper"), os.path.join(scratch, "work")
    for path in (upper, work):
        os.makedirs(path, exist_ok=True)
    shutil.copymode(folder, upper)
    data = f"lowerdir={_escape(folder)},upperdir={_escape(upper)},workdir={_escape(work)}"
    _mount(libc, "overlay", folder, "overlay", 0, data)


def enter(options: dict[str, Any], config: str) -> int:
    """Isolate this process as far as the system lets us, say how in `isolation`, and become the program."""
    import json

    folder = options["report_dir"]
    said = {"kind": "report", "folders": [], "why": ""}
    try:
        if not sys.platform.startswith("linux"):
            raise OSError("overlay mounts are Linux's")
        where = os.getcwd()
        unshare()
        for number, project in enumerate(options["protect"]):
            overlay(project, os.path.join(options["scratch"], f"overlay-{number}"))
        os.chdir("/")
        os.chdir(where)  # the old working directory still is the folder below the mount
        said.update(kind="overlay", folders=options["protect"])
    except OSError as error:
        said["why"] = str(error)
    with open(os.path.join(folder, "isolation.json"), "w", encoding="utf-8") as file:
        json.dump(said, file)
    if said["kind"] != "overlay" and not options.get("isolation_optional", True):
        print(f"gradline probe: files cannot be isolated: {said['why']}", file=sys.stderr)
        return 2
    command = options["command"]
    os.execvpe(command[0], command, os.environ)
    return 2


def written(upper: str, folder: str) -> list[dict[str, Any]]:
    """What lies in the overlay's upper folder: the files that the program wrote or removed, as they were called."""
    out: list[dict[str, Any]] = []
    for base, _, names in os.walk(upper):
        for name in names:
            path = os.path.join(base, name)
            try:
                info = os.lstat(path)
            except OSError:
                continue
            original = os.path.join(folder, os.path.relpath(path, upper))
            if "__pycache__" in original:
                continue
            gone = stat.S_ISCHR(info.st_mode)
            event = "removed" if gone else "changed" if os.path.exists(original) else "made"
            out.append({"path": original, "event": event, "bytes": 0 if gone else info.st_size})
            if len(out) >= 500:
                return out
    return out


def can_overlay(folders: list[str], scratch: str) -> str:
    """Try in a process of its own; "" where it works, else why not."""
    import subprocess

    if not sys.platform.startswith("linux"):
        return "overlay mounts are Linux's"
    code = (
        "import sys, importlib.util as u\n"
        "s = u.spec_from_file_location('isolate', sys.argv[1]); m = u.module_from_spec(s); s.loader.exec_module(m)\n"
        "m.unshare()\n"
        "for n, folder in enumerate(sys.argv[3:]): m.overlay(folder, sys.argv[2] + '/try-%d' % n)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, os.path.abspath(__file__), scratch, *folders],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")


def copy(folder: str, scratch: str) -> str | None:
    """A copy of a small project below `scratch` (virtual environments are linked); None if it is not small."""
    files = size = 0
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LINKED and name != "__pycache__"]
        for name in names:
            path = os.path.join(base, name)
            files += 1
            size += os.lstat(path).st_size
            if files > COPY_FILES or size > COPY_BYTES:
                return None
    target = os.path.join(scratch, "copy", os.path.basename(folder) or "project")

    def ignore(base: str, names: list[str]) -> list[str]:
        return [name for name in names if name in LINKED or name == "__pycache__"]

    shutil.copytree(folder, target, symlinks=True, ignore=ignore)
    for name in LINKED - {".git", ".hg"}:
        original = os.path.join(folder, name)
        if os.path.isdir(original):
            os.symlink(original, os.path.join(target, name))
    return target
