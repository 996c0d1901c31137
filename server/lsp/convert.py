"""gradline's places, findings and edits in the words of the protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from lsprotocol import types

from .. import paths
from ..findings import Finding, Place, Severity
from ..insight import origin
from ..messages import told
from ..text import Source

SOURCE = "gradline"
LONG_LINE = 110  # characters that a row of a list of problems has room for beside the file tree
SHORT_LINE = 20  # characters that a headline has at the least
_CLOSED = re.compile(r"`[^`]*`|\"[^\"]*\"|\([^()]*\)")
_ENDS = (
    re.compile(r": |; |：|；"),
    re.compile(r", (?=and |so |which |the )|，"),
)  # the second where there is none of the first

SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}
TAGS = {"unnecessary": types.DiagnosticTag.Unnecessary, "deprecated": types.DiagnosticTag.Deprecated}


def path_of(uri: str) -> str:
    """The project's path for a document: the file's, with `/`; the address itself where there is no file."""
    return paths.of_uri(uri) or uri


def uri_of(path: str) -> str:
    """The address of a file; a path that is an address already stays as it is."""
    return paths.uri_of(path) if paths.is_absolute(path) else path


def position(source: Source, offset: int, encoding: str) -> types.Position:
    line, column = source.position(offset)
    return types.Position(line, source.to_units(line, column, encoding))


def span(source: Source, start: int, end: int, encoding: str) -> types.Range:
    return types.Range(position(source, start, encoding), position(source, end, encoding))


def offset(source: Source, at: types.Position, encoding: str) -> int:
    """The code point offset of a position; one beyond a line's or the text's end is taken back to that end."""
    return source.offset(at.line, source.from_units(at.line, at.character, encoding))


def changed(source: Source, changes: Iterable[types.TextDocumentContentChangeEvent], encoding: str) -> str:
    """The text after these changes, each made to the text that the one before it left."""
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            source = Source(change.text)
        else:
            start = offset(source, change.range.start, encoding)
            end = max(start, offset(source, change.range.end, encoding))
            source = Source(source.text[:start] + change.text + source.text[end:])
    return source.text


class Where(Protocol):
    """Finds places: a document of the client's, a cell of a notebook, or a file."""

    def location(self, place: Place) -> types.Location | None: ...


def diagnostic(finding: Finding, where: Where, url: str, related: bool) -> types.Diagnostic | None:
    """The diagnostic for a finding; None if its file has gone. `related`: the client shows related information."""
    at = where.location(finding.place)
    if at is None:
        return None
    steps = [
        types.DiagnosticRelatedInformation(location, told(step.note))
        for step in finding.trail
        if (location := where.location(step.place)) is not None
    ]
    message = headline(told(finding.message))
    if not related and steps:
        message += "".join(f"\n  {step.message} ({_short(step.location)})" for step in steps)
    return types.Diagnostic(
        range=at.range,
        severity=SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(href=url) if url else None,
        source=SOURCE,
        message=message,
        tags=[TAGS[tag] for tag in finding.tags if tag in TAGS] or None,
        related_information=steps or None if related else None,
        data={"rule": finding.name, "fixable": finding.fixable, "comesFromElsewhere": origin(finding) != finding.place},
    )


def headline(message: str) -> str:
    """The message with what is found in a line of its own, if it is long: lists of problems show each in one row."""
    first, *rest = message.split("\n")
    if len(first) > LONG_LINE:
        # where one sentence ends and another begins, outside of code, quotes and brackets
        plain = _CLOSED.sub(lambda found: "·" * len(found[0]), first)
        ends = (found for pattern in _ENDS for found in pattern.finditer(plain) if found.start() <= LONG_LINE)
        end = next((found for found in ends if found.start() >= SHORT_LINE), None)
        if end is not None:
            first = f"{first[: end.start()]}\n{first[end.end() :]}"
    return "\n".join([first, *rest])


def _short(location: types.Location) -> str:
    return f"{location.uri.rpartition('/')[2]}:{location.range.start.line + 1}"
