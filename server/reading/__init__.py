"""From the text of a unit to its IR, on any text, without ever raising.

The stdlib `ast` reads the text (`parsing.py`); its tree is lowered to the nodes of `ir.py` (`lowering.py`) and dropped
at once: no tree leaves this folder. Text that `ast` refuses is read by indentation (`recovery.py`).

A text may be indented as a whole (a class's member stands in its file with its indentation): it starts at the start of
its first line, and all positions count from there.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import ir, newer
from ..ir import pack
from ..memo import Recent
from ..units import Region, mask
from .lowering import MAX_CHAIN, lowered, words
from .parsing import parse, strict, with_parts
from .recovery import LEAD, Recovery

__all__ = ["MAX_CHAIN", "Reading", "fault", "forget", "lowered", "read", "reading", "remembered", "skeleton", "words"]

# Characters of text whose reading is remembered: about 0.8 MB of IR per 1,000 lines.
MEMO_CHARACTERS = 400_000  # 10,000 lines: where programs of more are followed again, reading them is a tenth of it


class Reading(NamedTuple):
    """What a text says; `broken` if any of it was not Python."""

    body: ir.Body
    broken: bool


_memo: Recent[str, Reading] = Recent(MEMO_CHARACTERS)


def forget() -> None:
    """Drop every remembered reading (for measurements, and when memory is short)."""
    _memo.clear()


def remembered() -> int:
    """How many readings are remembered."""
    return len(_memo)


def reading(text: str) -> Reading:
    """The statements of a unit's text and whether it is broken; positions count from its start. Never raises."""
    return _memo.get(text) or _memo.put(text, _read(text))


def read(text: str) -> ir.Body:
    """The statements of a unit's text, positions from its start; what is not Python is a `Hole`. Never raises."""
    return reading(text).body


def fault(text: str) -> SyntaxError | ValueError | None:
    """Why a text is not Python, neither of this version nor of a newer one that is known here; None if it is, or is
    nested too deep for this parser, which is another thing."""
    try:
        try:
            parse(text)
        except SyntaxError:
            older = newer.older(text)
            if older is None:
                raise
            parse(older.text)
    except (SyntaxError, ValueError) as error:  # of null bytes, to some versions
        return error
    except (RecursionError, MemoryError):
        pass
    return None


def skeleton(text: str, regions: tuple[Region, ...]) -> Reading:
    """A class or long block whose bodies are units of their own: the statement, with a `Part` for each child.

    `regions` are the bodies, in order, as offsets into `text`. Never raises; an unreadable header is kept as a
    statement of its kind with holes in it.
    """
    pieces: list[str] = []
    parts: dict[int, ir.Body] = {}
    at = 0
    for region in regions:
        # The body becomes spaces and, as its last character, one statement: the ends of all nodes come out right
        start = region.start + len(LEAD.match(text, region.start, region.end - 1)[0])  # type: ignore[index]
        pieces.append(text[at:start])
        pieces.append(" " * (region.end - start - 1) + "0")
        at = region.end
        parts[region.end - 1] = tuple(
            [ir.Part(pack(start, end), region.first + k) for k, (start, end) in enumerate(region.spans)]
        )
    pieces.append(text[at:])
    bare = "".join(pieces)
    body, broken = _read(bare)
    return Reading(tuple([with_parts(statement, parts) for statement in body]), broken)


def _read(text: str) -> Reading:
    try:
        return Reading(strict(text), False)
    except Exception:  # SyntaxError, ValueError, RecursionError, MemoryError, ...: reading never raises
        pass
    try:
        masked = mask(text, closed=True)
        return Reading(tuple(Recovery(text, masked).body(0, len(text))), True)
    except Exception:  # nested deeper than the stack
        return Reading((ir.Hole(pack(0, len(text)), words(text)),), True)
