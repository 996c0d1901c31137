"""Watches over the program: starts it in a group of its own, ends the whole tree, and always leaves a result."""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from . import isolate, trackers

START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
GRACE = 4.0  # seconds between asking and killing
POLL = 0.05
MEMORY_EVERY = 0.5
CALLER_GONE = "the caller went away"
LAUNCH_GRACE = 15.0  # a launcher outlives its ranks by so many seconds at most, once each left its report


class Supervisor:
    def __init__(self, options: dict[str, Any], config: str) -> None:
        self.options = options
        self.config = config
        self.folder = options["report_dir"]
        self.token = options["token"]
        self.why: str | None = None
        self.isolation: dict[str, Any] = {"kind": "none", "folders": [], "why": ""}
        self.scratch: str | None = None
        self.child: subprocess.Popen | None = None

    # ------------------------------------------------------------------------------------------ before the start
    def prepare(self) -> tuple[list[str], str | None, dict[str, str]]:
        options = self.options
        cwd = options.get("cwd") or os.getcwd()
        environment = dict(os.environ)
        environment.update(options.get("env") or {})
        environment["GRADLINE_PROBE_CONFIG"] = self.config
        environment["GRADLINE_PROBE"] = self.token
        paths = [SITE, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        device = options.get("device")
        if device:
            environment["CUDA_VISIBLE_DEVICES"] = (
                "" if device == "cpu" else device.partition(":")[2] or environment.get("CUDA_VISIBLE_DEVICES", "0")
            )
        target = options["target"]
        if target["kind"] == "wrap":
            command = list(target["command"])
        else:
            command = [sys.executable, *options.get("python_flags", ()), START, "run", self.config]
            environment["GRADLINE_PROBE_ROLE"] = "main"
        if not options.get("allow_writes"):
            options["trackers"] = os.path.join(self.folder, "trackers")
            os.makedirs(options["trackers"], exist_ok=True)
            environment.update(trackers.settings(options["trackers"]))
            command, cwd = self._isolate(command, cwd)
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(options, file)
        return command, cwd, environment

    def _isolate(self, command: list[str], cwd: str) -> tuple[list[str], str]:
        """Choose how to keep the files as they are; may change the command, the folder and the target's paths."""
        options = self.options
        wanted = options.get("isolation", "auto")
        protect = [f for f in isolate.outermost(options.get("protect") or []) if isolate.protectable(f)]
        options["protect"] = protect
        self.isolation["kind"] = "report"
        if not protect:
            self.isolation["why"] = "no project folder that could be mounted over"
            return command, cwd
        if wanted in ("auto", "overlay"):
            for parent in isolate.scratch_parents():
                inside = any(
                    os.path.realpath(parent).startswith(p + os.sep) or os.path.realpath(parent) == p for p in protect
                )
                if inside or not os.path.isdir(parent):
                    continue
                scratch = tempfile.mkdtemp(prefix="gradline-probe-", dir=parent)
                why = isolate.can_overlay(protect, scratch)
                if not why:
                    self.scratch = options["scratch"] = scratch
                    options["command"] = command
                    self.isolation.update(kind="overlay", folders=protect, why="")
                    return [sys.executable, "-S", START, "enter", self.config], cwd
                self.isolation["why"] = why
                shutil.rmtree(scratch, ignore_errors=True)
                if why.startswith("overlay mounts are Linux's"):
                    break
        if wanted in ("auto", "copy") and len(protect) == 1:
            self.scratch = tempfile.mkdtemp(prefix="gradline-probe-")
            copied = isolate.copy(protect[0], self.scratch)
            if copied is not None:
                self.isolation.update(kind="copy", folders=protect, copied=copied)
                return self._moved(command, cwd, protect[0], copied)
        return command, cwd

    def _moved(self, command: list[str], cwd: str, old: str, new: str) -> tuple[list[str], str]:
        def moved(path: str) -> str:
            real = os.path.realpath(os.path.join(cwd, path)) if path else path
            return new + real[len(old) :] if path and (real == old or real.startswith(old + os.sep)) else path

        options = self.options
        target = options["target"]
        if target.get("path"):
            target["path"] = moved(target["path"])
        if target["kind"] == "wrap":
            command = [moved(word) if os.path.exists(os.path.join(cwd, word)) else word for word in command]
        options["roots"] = [moved(root) for root in options.get("roots") or [cwd]]
        options["claims"] = {moved(file): lines for file, lines in (options.get("claims") or {}).items()}
        return command, moved(cwd)

    # ------------------------------------------------------------------------------------------ the run
    def run(self) -> int:
        started = time.time()
        try:
            command, cwd, environment = self.prepare()
            child = self._start(command, cwd, environment)
        except OSError as error:
            self._result(started, None, f"the program could not be started: {error}")
            return 2
        self.child = child
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: self._end("cancelled"))
        if self.options.get("lifeline"):
            threading.Thread(target=self._lifeline, daemon=True).start()
        self._wait(child, started)
        status = child.poll()
        self._kill()
        self._result(started, status, self.why)
        return 0

    def _start(self, command: list[str], cwd: str | None, environment: dict[str, str]) -> subprocess.Popen:
        extra: dict[str, Any] = {}
        if os.name == "nt":
            extra["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP  # type: ignore[attr-defined]
        else:
            extra["start_new_session"] = True
        child = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, **extra)
        if os.name != "nt":
            # outlives even a killed supervisor: reads the end of a pipe, and ends the group
            clean = {k: v for k, v in os.environ.items() if not k.startswith("GRADLINE_")}
            self.guard = subprocess.Popen(
                [sys.executable, "-S", START, "guard", str(child.pid), self.token, self.scratch or ""],
                stdin=subprocess.PIPE,
                start_new_session=True,
                env=clean,
                cwd="/",
            )
        return child

    def _lifeline(self) -> None:
        try:
            while os.read(0, 1):
                pass
        except OSError:
            pass
        self._end(CALLER_GONE)

    def _end(self, why: str) -> None:
        if self.why is None:
            self.why = why
            with open(os.path.join(self.folder, "ask.tmp"), "w", encoding="utf-8") as file:
                file.write(why)
            os.replace(os.path.join(self.folder, "ask.tmp"), os.path.join(self.folder, "ask"))

    def _wait(self, child: subprocess.Popen, started: float) -> None:
        options = self.options
        limit = options.get("max_memory")
        asked: float | None = None
        looked = started
        complete: float | None = None
        while child.poll() is None:
            time.sleep(POLL)
            now = time.time()
            if self.why is None and now - started > options["timeout"]:
                self._end(f"the time limit of {options['timeout']:g} s")
            if limit and self.why is None and now - looked > MEMORY_EVERY:
                looked = now
                used = tree_memory(child.pid)
                if used > limit:
                    self._end(f"the memory limit of {limit / (1 << 30):.1f} GiB")
            if options["target"]["kind"] == "wrap" and self.why is None:
                complete = self._all_reported(now, complete)
                if complete is not None and now - complete > LAUNCH_GRACE:
                    self.why = "every rank has reported"
                    self._kill()
            if self.why is not None:
                asked = asked or now
                if now - asked > GRACE:
                    self._kill()

    def _all_reported(self, now: float, since: float | None) -> float | None:
        reports = glob.glob(os.path.join(self.folder, "report-*.json"))
        if not reports:
            return None
        try:
            with open(reports[0], encoding="utf-8") as file:
                world = json.load(file).get("world_size") or 1
        except (OSError, ValueError):
            return since
        return (since or now) if len(reports) >= world else None

    def _kill(self) -> None:
        """The group, and whatever of the tree has left it (launchers give each rank a session)."""
        if self.child is not None:
            kill_tree(self.child.pid, self.token)
            try:
                self.child.wait(2)
            except subprocess.TimeoutExpired:
                pass

    # ------------------------------------------------------------------------------------------ afterwards
    def _result(self, started: float, status: int | None, why: str | None) -> None:
        guard = getattr(self, "guard", None)
        if guard is not None:
            guard.kill()
            guard.wait()
        reports = []
        for path in sorted(glob.glob(os.path.join(self.folder, "report-*.json"))):
            try:
                with open(path, encoding="utf-8") as file:
                    reports.append(json.load(file))
            except (OSError, ValueError) as error:
                reports.append({"stopped": f"its report cannot be read: {error}", "findings": [], "notes": []})
        said = os.path.join(self.folder, "isolation.json")
        if os.path.exists(said):
            with open(said, encoding="utf-8") as file:
                self.isolation.update(json.load(file))
        kept_out: list[dict] = []
        if self.isolation["kind"] == "overlay" and self.scratch:
            for number, folder in enumerate(self.isolation["folders"]):
                kept_out += isolate.written(os.path.join(self.scratch, f"overlay-{number}", "upper"), folder)
        text = {"reports": reports}
        if self.isolation["kind"] == "copy":
            old, new = self.isolation["folders"][0], self.isolation["copied"]
            text = json.loads(json.dumps(text).replace(json.dumps(new)[1:-1], json.dumps(old)[1:-1]))
        result = {
            "status": status,
            "why": why,
            "seconds": round(time.time() - started, 3),
            "isolation": {**self.isolation, "kept_out": kept_out},
            **text,
        }
        if self.scratch:
            _remove(self.scratch)
        if why == CALLER_GONE:  # nobody is left to read it
            _remove(self.folder)
            return
        temporary = os.path.join(self.folder, "result.json.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(temporary, os.path.join(self.folder, "result.json"))


def _remove(folder: str) -> None:
    def again(function: Any, path: str, _: Any) -> None:
        try:
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            function(path)
        except OSError:
            pass

    shutil.rmtree(folder, onerror=again)


def processes() -> dict[int, int]:
    """pid -> parent, of every process that /proc shows; empty where there is no /proc."""
    out: dict[int, int] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    out[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    return out


def tree_memory(root: int) -> int:
    """Resident memory of a process and all below it, in bytes (0 where /proc is missing)."""
    parents = processes()
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    total = 0
    for pid in _below(root, parents):
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * page
        except (OSError, ValueError, IndexError):
            continue
    return total


def _below(root: int, parents: dict[int, int]) -> set[int]:
    tree = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= more
        grown = bool(more)
    return tree


def marked(token: str) -> list[int]:
    """Processes that carry our token in their environment: those that left the group on the way."""
    needle = f"GRADLINE_PROBE={token}".encode()
    found = []
    for pid in processes():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if needle in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return found


def kill_tree(group: int, token: str) -> None:
    if os.name == "nt":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(group)], capture_output=True, check=False)
        return
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    me = os.getpid()
    for pid in marked(token):
        if pid != me:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


def guard(group: int, token: str, scratch: str) -> int:
    """Wait until the supervisor is gone; then nothing of its program may stay."""
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    kill_tree(group, token)
    if scratch:
        _remove(scratch)
    return 0


def main(options: dict[str, Any], config: str) -> int:
    return Supervisor(options, config).run()
