"""The table of errors that are known: `errors.md`, read once."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import NamedTuple

from .tracebacks import LINE_LIMIT, Raised

_ENTRY = re.compile(r"^## ([\w-]+)\n", re.MULTILINE)
_FIELD = re.compile(r"^- (\w+): (.+)$", re.MULTILINE)
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SEEKS = frozenset({"", "graph", "inference", "gradients", "registration"})
FIELDS = frozenset({"here", "elsewhere", "when", "seek", "line", "look", "check", "probe", "words"})


class Error(NamedTuple):
    """One entry; see the head of `errors.md` for what its fields mean. `older` are messages of other versions."""

    name: str
    messages: tuple[str, ...]
    meaning: str
    older: frozenset[str] = frozenset()
    here: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    when: str = ""
    seek: str = ""
    line: str = ""
    look: str = ""
    check: str = ""
    probe: bool = True
    words: frozenset[str] = frozenset()
    program: str = ""

    def matches(self, message: str, line: str | None) -> bool:
        """Whether this is said by a message (on one line), raised by a line of source (None: not known)."""
        if self.when and line is not None and not re.search(self.when, line):
            return False
        return any(_pattern(each).search(message) for each in self.messages)


@functools.cache
def errors() -> tuple[Error, ...]:
    """All entries, in their order."""
    page = (resources.files(str(__package__)) / "errors.md").read_text(encoding="utf-8")
    _, *parts = _ENTRY.split(page)
    return tuple(_read(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True))


def _read(name: str, body: str) -> Error:
    program = _PROGRAM.search(body)
    prose = body[: program.start()] if program else body
    fields = dict(_FIELD.findall(prose))
    if unknown := fields.keys() - FIELDS:
        raise ValueError(f"errors.md: {name} has the unknown field {sorted(unknown)[0]}")
    lines = [line for line in prose.splitlines() if not _FIELD.match(line)]
    meaning = " ".join(" ".join(line for line in lines if not line.startswith(">")).split())

    def names(field: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in fields.get(field, "").split(",") if word.strip())

    return Error(
        name=name,
        messages=tuple(line.lstrip(">").strip() for line in lines if line.startswith(">")),
        meaning=meaning,
        older=frozenset(line[2:].strip() for line in lines if line.startswith(">>")),
        here=names("here"),
        elsewhere=names("elsewhere"),
        when=fields.get("when", "").strip("`"),
        seek=fields.get("seek", ""),
        line=fields.get("line", ""),
        look=fields.get("look", ""),
        check=fields.get("check", "").strip("`"),
        probe=fields.get("probe") != "no",
        words=frozenset(names("words")),
        program=program[1] if program else "",
    )


@functools.cache
def _pattern(message: str) -> re.Pattern[str]:
    """`…` is anything, but not much of it: what it stands for is a name, a type, a shape."""
    return re.compile(".{0,200}?".join(re.escape(part) for part in message.split("…")))


def find(raised: Raised) -> Error | None:
    """The entry for an exception; None if it is not known."""
    line = raised.frames[-1].text or None if raised.frames else None
    for frame in reversed(raised.frames):
        if frame.text and not _is_torchs(frame.path):
            line = frame.text  # what the user wrote, not the line inside torch
            break
    for message in (raised.said[:2000], raised.said):
        for error in errors():
            if error.matches(message, line):
                return error
    return None


def _is_torchs(path: str) -> bool:
    return re.search(r"[\\/](?:site|dist)-packages[\\/]", path) is not None or path.startswith("<")


def find_in(text: str) -> tuple[Error, str] | None:
    """The last line of a text that has the message of an entry, for texts in which no exception was made out."""
    best: tuple[int, Error, str] | None = None
    for error in errors():
        for message in () if error.when else error.messages:
            at = text.rfind(max(message.split("…"), key=len))  # far faster than a pattern, on a log of megabytes
            if at < 0 or (best is not None and at <= best[0]):
                continue
            end = text.find("\n", at)
            line = text[
                max(text.rfind("\n", 0, at) + 1, at - LINE_LIMIT) : min(end if end >= 0 else len(text), at + LINE_LIMIT)
            ]
            said = " ".join(line.split())
            if error.matches(said, None):
                best = at, error, said
    return best[1:] if best is not None else None
