"""Runs a command as if gradline were not there, and keeps the end of what it writes.

Where our own output is a terminal, the command gets one as well, so it colours and draws as ever; its input stays ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

KEPT = 8_000_000  # bytes of output that are kept: tracebacks stand at its end
NOT_FOUND, NOT_STARTED = 127, 126  # what shells say of a command that is not there, or can't be run


class Kept:
    """The last bytes of an output."""

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        while self._size - len(self._parts[0]) > KEPT:
            self._size -= len(self._parts.popleft())

    def all(self) -> bytes:
        return b"".join(self._parts)


def run(command: Sequence[str]) -> tuple[int, bytes]:
    """The exit code of a command, as a shell has it, and the end of what it wrote. Raises OSError if it can't be started.

    Output goes on to our own, byte for byte, as it comes. Ctrl-C and what stops us are the command's to handle.
    """
    kept = Kept()
    sys.stdout.flush()
    sys.stderr.flush()
    channels = _channels()
    with _signals() as handle:
        process = subprocess.Popen(
            list(command),
            stdout=channels[0].child,
            stderr=channels[-1].child,
            preexec_fn=_heed_interrupts if os.name == "posix" else None,
        )
        for channel in channels:
            os.close(channel.child)
        for name in ("SIGTERM", "SIGHUP"):  # who stops us means the command
            handle(name, lambda number, _: process.send_signal(number))
        handle("SIGWINCH", lambda *_: [channel.resize() for channel in channels])
        relays = [threading.Thread(target=_relay, args=(channel, kept), daemon=True) for channel in channels]
        for relay in relays:
            relay.start()
        code = process.wait()
        for relay in relays:  # something that the command has left running may hold the output open: no waiting for it
            relay.join(1.0)
    return (128 - code if code < 0 else code), kept.all()


@contextlib.contextmanager
def _signals() -> Generator[Callable[[str, Any], None], None, None]:
    """Leaves Ctrl-C to the command; gives a function that sets a handler for a signal, as long as the block runs."""
    before: dict[int, Any] = {}

    def handle(name: str, handler: Any) -> None:
        number = getattr(signal, name, None)  # not every system has each
        if number is not None and threading.current_thread() is threading.main_thread():
            before.setdefault(number, signal.signal(number, handler))

    try:
        handle("SIGINT", signal.SIG_IGN)
        yield handle
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Channel:
    """What the command writes into (`child`), what we read it from (`ours`), and where it goes (`to`)."""

    def __init__(self, to: int, terminal: bool) -> None:
        self.to = to
        self._terminal = terminal
        if terminal:
            import pty

            self.ours, self.child = pty.openpty()
            self.resize()
            _raw(self.child)
        else:
            self.ours, self.child = os.pipe()

    def resize(self) -> None:
        """Gives the command's terminal the size of ours."""
        if self._terminal:
            import fcntl
            import termios

            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self.to, termios.TIOCGWINSZ, b"\0" * 8)
                fcntl.ioctl(self.ours, termios.TIOCSWINSZ, size)


def _channels() -> list[Channel]:
    """One for each of standard output and error; one for both if they go to the same terminal, which keeps their order."""
    ends = [1, 2]
    terminals = [os.name == "posix" and os.isatty(end) for end in ends]
    if all(terminals) and os.ttyname(1) == os.ttyname(2):
        return [Channel(1, True)]
    return [Channel(end, terminal) for end, terminal in zip(ends, terminals, strict=True)]


def _raw(terminal: int) -> None:
    """Takes a terminal's own translation of newlines away: ours does it."""
    import termios

    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(terminal)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _relay(channel: Channel, kept: Kept) -> None:
    """Passes on what comes until all who write have gone."""
    to: int | None = channel.to
    while True:
        try:
            part = os.read(channel.ours, 65536)
        except OSError:  # how a terminal says that nobody writes any more
            break
        if not part:
            break
        kept.add(part)
        while part and to is not None:
            try:
                part = part[os.write(to, part) :]
            except OSError:  # whoever read our output has gone; the command goes on, as with `tee`
                to = None
    with contextlib.suppress(OSError):
        os.close(channel.ours)
