"""Reads tracebacks out of whatever a program wrote: logs, terminals, notebooks, launchers.

    for raised in read(text):    # in the order in which they stand there
        raised.kind, raised.message, raised.frames

What stands before a line (a rank, a time, a logger's name) is taken off, and the output of each rank is read for itself.
Reading never raises; a text without a traceback gives nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LINE_LIMIT = 4000  # characters of a line that are looked at; no frame and no first line of a message is longer
MESSAGE_LINES = 60  # of one exception's message; torch's longest (a checkpoint's) shows its tensors in the first ten
PREFIX_LIMIT, PREFIXES_LEARNED = 200, 16  # characters and number of the prefixes that a text teaches
SHOWN_LINES = 40  # source lines that IPython shows of one frame

# Without one of these there is no traceback; what stands before the first of them need not be looked at.
_MARKS = (
    "Traceback",
    "\n> ",
    "Error",
    "Exception",
    "File ",
    " In [",
    " In[",
    "In\x1b",
    ".py",
    "<ipython",
    "Interrupt",
    "Exit",
)

# What an escape code of a terminal looks like: colours, cursor movements, titles, links.
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")

# What launchers and loggers put before a line. The groups named `r...` tell whose line it is.
_PREFIX = re.compile(
    r"""
      \[(?P<r1>(?:[a-z_]*rank|default|trainer|worker|node|rank|gpu)?[ _:=-]?\d+)\]\s?[:|]?   # [rank0]: of torchrun
    | (?P<r2>(?:rank|worker|process|proc|trainer)[ _:=-]?\d+)\s?[:|>]                          # rank 0:
    | (?P<r3>\d+):(?=\s|$)                                                                     # srun --label
    | \((?P<r4>[^()\n]*\b(?:pid|ip|rank)=[^()\n]*)\)                                           # (Worker pid=12, ip=...) of Ray
    | (?P<r5>[\w./-]+)\s+\|(?=\s)                                                              # trainer-1  | of compose
    | \[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?          # 2024-05-01 12:00:00,123
    | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?=\s)                                                   # 12:00:00
    | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d\s\S+\s\S+?(?:\[\d+\])?:                          # syslog
    | [IWEF]\d{4}\s\d\d:\d\d:\d\d\.\d+\s+\d+\s[^\]\n]{1,200}\]                                 # E0501 12:00:00.123 77 api.py:869]
    | \[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\]?(?=[:\s\-|])(?::[\w.]+:)?(?:\s+-)?     # ERROR:root:
    | (?:(?:std)?err|out|stdout|stderr)\s?[:|>](?=\s)
    | -\s | \|(?=\s)
    """,
    re.VERBOSE,
)
_PREFIXES = 6  # at most so many before one line

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_FORWARD = re.compile(r"Traceback of forward call that (?:caused the error|induced the previous calculation)")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"

_FRAME = re.compile(r'^(\s*)File "([^"]+)", line (\d+)(?:, in (.+?))?\s*$')
_FRAME_CUT = re.compile(r'^([^"]*\.py)", line (\d+), in (\S+)\s*$')  # where a text begins in the midst of it
_QUOTED = re.compile(r"^> ?(?:Traceback \(most| *File \")", re.MULTILINE)  # in a mail or an issue
_CARETS = re.compile(r"^\s*[~^]*\^[~^ ]*$|^\s*~+$")
_IPYTHON_FILE = re.compile(r"^File (?P<path>[^\"].*?):(?P<line>\d+)(?:, in (?P<name>.+))?$")
_CELL = re.compile(r"^(?:Cell|Input)\s+In\s?\[(?P<cell>\d+)\](?:, line (?P<line>\d+))?(?:, in (?P<name>.+))?$")
_IPYTHON_OLD = re.compile(
    r"^(?P<path><ipython-input-[^>]+>|(?:[~./]|[A-Za-z]:\\|/)?\S[^\n]*?\.py) in (?P<name>[<\w].*)$"
)
_ARROW = re.compile(r"^-+> ?(\d+)(?: (.*))?$")
_SHOWN = re.compile(r"^ {0,10}(\d+)(?: (.*))?$")
_RICH = re.compile(r"^[│|] (?P<path>\S.*?\.py):(?P<line>\d+) in (?P<name>\S+)\s*[│|]?$")
_RICH_LINE = re.compile(r"^[│|] [❱>] *\d+ [│|]?(?P<text>.*?)\s*[│|]?$")
_PYTEST = re.compile(
    r"^(?P<path>\S[^:\n]*\.py):(?P<line>\d+): ?(?:in (?P<name>\S+)|(?P<kind>\w*(?:Error|Exception)))?\s*$"
)
_PYTEST_LINE = re.compile(r"^>\s+(\S.*)$")
_PYTEST_SUMMARY = re.compile(r"^(?:FAILED|ERROR) \S+::.* - (?P<kind>(?:[A-Za-z_]\w*\.)*[A-Z]\w*): (?P<message>.*)$")
_PYTEST_ERROR = re.compile(r"^E\s+((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (.*)$")

_RAISED = re.compile(
    r"^\s{0,4}((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::(?: (.*))?)?$"
)  # after frames anything may be raised
_ERROR = re.compile(r"(?:^|\s)((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (\S.*)$")  # elsewhere only what says so


class Frame(NamedTuple):
    """One line of a call chain, as it was written: `line` from 1, `text` the source shown, `marked` what carets stand
    under of it (columns of `text`), `cell` the number of an execution in a notebook, `shown` numbered source lines."""

    path: str
    line: int
    function: str = ""
    text: str = ""
    marked: tuple[int, int] | None = None
    cell: int | None = None
    shown: tuple[tuple[int, str], ...] = ()


class Raised(NamedTuple):
    """An exception: `kind` is its class ("" if the text ends before it), `frames` outermost first.

    `link` says what it is to the one after it: "cause", "context" or "". `forward` is where anomaly mode saw the
    operation at fault being computed. `rank` is the process it came from, as the launcher calls it.
    """

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()
    link: str = ""
    forward: tuple[Frame, ...] = ()
    rank: str = ""

    @property
    def name(self) -> str:
        """The class without its module."""
        return self.kind.rpartition(".")[2]

    @property
    def said(self) -> str:
        """The message on one line."""
        return " ".join(self.message.split())


def read(text: str) -> list[Raised]:
    """The exceptions in a text, in order, those of one process together."""
    if _QUOTED.search(text):
        text = re.sub(r"^(?:> ?)+", "", text, flags=re.MULTILINE)
    if "(most recent call last):\\n" in text:  # a log of JSON
        text = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescaped, text)
    marks = [at for word in _MARKS if (at := text.find(word)) >= 0]
    if not marks:
        return []
    begin = max(text.rfind("\n", 0, min(marks) + 1), 0)
    readers: dict[str, _Reader] = {}
    learned: dict[str, re.Pattern[str]] = {}  # what stands before a header may stand before the lines after it

    def learn(prefix: str) -> None:
        shape = re.sub(r"\d+", lambda _: r"\d+", re.escape(prefix))
        if prefix.strip() and len(prefix) < PREFIX_LIMIT and len(learned) < PREFIXES_LEARNED:
            learned.setdefault(shape, re.compile(shape))

    for line in re.split(r"\r\n|\n|\r", text[begin:]):
        rank, clean = _clean(line[:LINE_LIMIT])
        if (header := _HEADER.search(clean)) is not None:
            learn(clean[: header.start()])
        for shape in learned.values():
            if (found := shape.match(clean)) is not None:
                clean = clean[found.end() :]
                break
        reader = readers.get(rank)
        if reader is None:
            reader = readers[rank] = _Reader(rank)
        reader.take(clean)
    found = []
    for reader in readers.values():
        found += reader.end()
    return found


def _unescaped(found: re.Match[str]) -> str:
    """What an escape of JSON stands for."""
    what = found[1]
    return chr(int(what[1:], 16)) if len(what) > 1 else {"n": "\n", "t": "\t", "r": "\r"}.get(what, what)


def _clean(line: str) -> tuple[str, str]:
    """Whose line it is, and the line without colours and prefixes."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    rank = ""
    for _ in range(_PREFIXES):
        start = len(line) - len(line.lstrip(" ")) if rank == "" else 0
        found = _PREFIX.match(line, start)
        if found is None or (_SHOWN.match(line) and found.lastgroup is None and line[:1] == " "):
            break
        own = next((value for name, value in found.groupdict().items() if name[0] == "r" and value), None)
        if own is not None:
            rank = rank or own
        rest = line[found.end() :]
        line = rest[1:] if rest.startswith(" ") else rest
    return rank, line


class _Reader:
    """Reads the lines of one process, one after the other."""

    def __init__(self, rank: str) -> None:
        self._rank = rank
        self._found: list[Raised] = []
        self._frames: list[Frame] = []
        self._forward: list[Frame] = []
        self._open = False  # a header or a frame was read, and no exception since
        self._in_forward = False
        self._message: list[str] | None = None  # of the last exception, while it may go on
        self._pending: Frame | None = None  # of pytest: the line comes before the place
        self._column = 0  # where the source text of the last frame begins in its line

    def take(self, line: str) -> None:
        if self._mark(line) or self._of_pytest(line):
            return
        if (frame := _frame(line)) is not None:
            self._close_message()
            self._add(frame)
            return
        frames = self._forward if self._in_forward else self._frames
        if self._message is None and frames and self._detail(line, frames):
            return
        if self._in_forward:
            if line.strip().startswith("(Triggered internally") or not line.startswith(" "):
                self._in_forward = False
            return
        if self._message is not None and self._goes_on(line):
            return
        self._exception(line)

    def _mark(self, line: str) -> bool:
        """Takes the lines that stand between exceptions."""
        if _FORWARD.search(line):
            self._close_message()
            self._in_forward = True
            return True
        if _HEADER.search(line):
            self._close_message()
            self._in_forward = False
            if self._frames:
                self._emit("", "")
            self._open = True
            return True
        for words, link in ((_CAUSE, "cause"), (_CONTEXT, "context")):
            if words in line:
                self._close_message()
                if self._frames:
                    self._emit("", "")
                if self._found:
                    self._found[-1] = self._found[-1]._replace(link=link)
                return True
        return False

    def _of_pytest(self, line: str) -> bool:
        """Takes what pytest writes after an error: the place that raised it, and the list of all errors at the end."""
        if (found := _PYTEST.match(line)) is not None and found["kind"] and not self._frames and self._found:
            self._close_message()
            last = self._found[-1]
            if last.name != found["kind"]:
                return False
            text = self._pending.text if self._pending is not None else ""
            self._pending = None
            raising = Frame(found["path"], int(found["line"]), text=text)
            self._found[-1] = last._replace(frames=(*last.frames, raising))
            return True
        if (found := _PYTEST_SUMMARY.match(line)) is None:
            return False
        self._close_message()
        said = found["message"].removesuffix("...")  # cut to the width of the terminal, but not where CI is set
        kind = found["kind"].rpartition(".")[2]
        return any(one.name == kind and one.said.startswith(said) for one in self._found)

    def _add(self, frame: Frame) -> None:
        if self._in_forward:
            self._forward.append(frame)
            return
        if self._pending is not None and not frame.text:
            frame = frame._replace(text=self._pending.text)
        self._pending = None
        self._frames.append(frame)
        self._open = True

    def _detail(self, line: str, frames: list[Frame]) -> bool:
        """Takes what stands below a frame: its source line, the carets, the lines around it."""
        frame = frames[-1]
        if (found := _ARROW.match(line)) is not None:
            shown = (*frame.shown, (int(found[1]), found[2] or ""))[-SHOWN_LINES:]
            frames[-1] = frame._replace(line=int(found[1]), text=(found[2] or "").strip(), shown=shown)
            return True
        if (found := _RICH_LINE.match(line)) is not None:
            frames[-1] = frame._replace(text=found["text"].strip())
            return True
        if (found := _PYTEST_LINE.match(line)) is not None:
            self._pending = Frame("", 0, text=found[1].strip())
            return True
        if _CARETS.match(line) is not None:
            if frame.text and frame.marked is None:
                begin = len(line) - len(line.lstrip()) - self._column
                end = len(line.rstrip()) - self._column
                if 0 <= begin < end <= len(frame.text):
                    frames[-1] = frame._replace(marked=(begin, end))
            return True
        if line.startswith((" ", "\t", "│")) or not line.strip():
            if (found := _SHOWN.match(line)) is not None and frame.line != int(found[1]):
                if len(frame.shown) < SHOWN_LINES:
                    frames[-1] = frame._replace(shown=(*frame.shown, (int(found[1]), found[2] or "")))
            elif not frame.text and line.strip() and not line.startswith("│"):
                self._column = len(line) - len(line.lstrip())
                frames[-1] = frame._replace(text=line.strip())
            return True
        return False

    def _exception(self, line: str) -> None:
        if (found := _PYTEST_ERROR.match(line)) is not None:
            self._emit(found[1], found[2])
        elif self._open and (found := _RAISED.match(line)) is not None and (found[2] or _is_class(found[1])):
            self._emit(found[1], found[2] or "")
        elif (found := _ERROR.search(line)) is not None:
            self._emit(found[1], found[2])
        elif (found := _PYTEST_LINE.match(line)) is not None:
            self._pending = Frame("", 0, text=found[1].strip())

    def _goes_on(self, line: str) -> bool:
        """Takes a line that belongs to the message of the last exception."""
        assert self._message is not None
        again = _ERROR.match(line)
        if len(self._message) >= MESSAGE_LINES or (again is not None and not line.startswith(" ")):
            self._close_message()
            return False
        self._message.append(re.sub(r"^E\s{2,}", "", line))
        return True

    def _emit(self, kind: str, message: str) -> None:
        if _repeats(self._found, kind, message, self._frames):
            self._found.pop()  # pytest and launchers write the same error again
        self._found.append(Raised(kind, message, tuple(self._frames), "", tuple(self._forward), self._rank))
        self._frames, self._forward, self._open = [], [], False
        self._message = [message] if kind else None

    def _close_message(self) -> None:
        if self._message is not None and self._found:
            self._found[-1] = self._found[-1]._replace(message="\n".join(self._message).strip())
        self._message = None

    def end(self) -> list[Raised]:
        self._close_message()
        if self._frames:
            self._emit("", "")
        return self._found


def _repeats(found: list[Raised], kind: str, message: str, frames: list[Frame]) -> bool:
    last = found[-1] if found else None
    return last is not None and not last.frames and bool(frames) and (last.kind, last.message) == (kind, message)


def _is_class(name: str) -> bool:
    """Whether a bare name can be that of an exception: `StopIteration`, `KeyboardInterrupt`, `pkg.MyError`."""
    return name.rpartition(".")[2][:1].isupper()


def _frame(line: str) -> Frame | None:
    if (found := _FRAME.match(line)) is not None:
        return Frame(found[2], int(found[3]), found[4] or "", cell=_cell_of(found[2]))
    if (found := _FRAME_CUT.match(line)) is not None:
        return Frame(found[1].lstrip(), int(found[2]), found[3])
    if (found := _CELL.match(line)) is not None:
        return Frame(f"In [{found['cell']}]", int(found["line"] or 0), _name(found["name"]), cell=int(found["cell"]))
    if (found := _RICH.match(line)) is not None or (found := _IPYTHON_FILE.match(line)) is not None:
        return Frame(found["path"], int(found["line"]), _name(found["name"]), cell=_cell_of(found["path"]))
    if (found := _IPYTHON_OLD.match(line)) is not None:
        return Frame(found["path"], 0, _name(found["name"]), cell=_cell_of(found["path"]))
    if (found := _PYTEST.match(line)) is not None:
        return Frame(found["path"], int(found["line"]), _name(found["name"]))
    return None


def _cell_of(path: str) -> int | None:
    found = re.match(r"<ipython-input-(\d+)", path) or re.match(r"Cell In\s?\[(\d+)\]", path)
    return int(found[1]) if found else None


def _name(name: str | None) -> str:
    """The function's name without its arguments: `train(model)`, `<cell line: 3>()`."""
    if not name or name.startswith("<cell line"):
        return "<module>" if name else ""
    return name.partition("(")[0].strip()
