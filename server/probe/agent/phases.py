"""Time and peak memory of forward, backward and step, between one optimizer step and the next."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

PEAK = re.compile(rb"VmHWM:\s*(\d+) kB")
PHASES = ("forward", "backward", "step")


class Phases:
    """What the phases since the last step took: seconds, and the highest memory in bytes.

    On Linux the kernel's high-water mark of resident memory is read at the end of each phase and set back; elsewhere,
    and where that is refused, it is the process's peak so far. The GPU's is always the highest so far: that counter
    is the program's own, and is not set back.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.highest = 0
        self._pid = 0
        self._status = self._clear = -1
        self._start()

    def _start(self) -> None:
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.gpu: dict[str, int] = {}

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def ends(self, phase: str) -> None:
        """Note the peak of a phase that ends now, and begin to look for the next one's."""
        peak = self._peak()
        if peak is not None:
            self.highest = max(self.highest, peak)
            self.memory[phase] = max(self.memory.get(phase, 0), peak)
        cuda = self.torch.cuda
        if cuda.is_initialized():
            self.gpu[phase] = cuda.max_memory_allocated()

    def taken(self) -> dict[str, Any]:
        """What an iteration of the report holds; starts anew."""
        out: dict[str, Any] = {f"{phase}_s": _rounded(self.seconds.get(phase)) for phase in PHASES}
        out.update({f"{phase}_memory": self.memory.get(phase) for phase in PHASES})
        out.update(memory=self.highest or None, gpu_memory=max(self.gpu.values(), default=None))
        if self.gpu:
            out.update({f"{phase}_gpu_memory": self.gpu.get(phase) for phase in PHASES})
        self._start()
        return out

    def _peak(self) -> int | None:
        if self._pid != os.getpid():  # an open file of /proc stays the parent's after a fork
            self._open()
        if self._status >= 0:
            found = PEAK.search(os.pread(self._status, 8192, 0))
            if self._clear >= 0:
                os.write(self._clear, b"5")
            if found:
                return int(found.group(1)) * 1024
        try:
            import resource
        except ImportError:
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def _open(self) -> None:
        self.close()
        self._pid = os.getpid()
        for name, flag, where in (("_status", os.O_RDONLY, "status"), ("_clear", os.O_WRONLY, "clear_refs")):
            try:
                setattr(self, name, os.open(f"/proc/self/{where}", flag))
            except OSError:
                setattr(self, name, -1)

    def close(self) -> None:
        for name in ("_status", "_clear"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                os.close(descriptor)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
