"""Comments that silence findings, and those among them that silence nothing.

    loss.backward()   # gradline: ignore[GL101, detached-loss]   these rules, on this statement
    loss.backward()   # gradline: ignore                         every rule, on this statement
    loss.backward()   # noqa: GL101                              the same in the words of flake8 and ruff
    # gradline: ignore[GL101]                                    alone on its line: on the statement below it
    # gradline: ignore-file[GL101]                               in the whole file, wherever it stands

A statement is what Python calls a logical line: with the lines that brackets, triple quotes and backslashes join to
it, so that the comment may stand on any of them. Pure: works on a text, knows no rule and no file.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .findings import Finding, Place, Severity
from .messages import joined, say
from .rule import Rule

if TYPE_CHECKING:
    from .edits import Edit, Fix

UNUSED_SUPPRESSION = Rule(
    code="GL001",
    severity=Severity.INFO,
    check=lambda flow: (),
    name="unused-suppression",
    summary=say("A `gradline: ignore` comment silences nothing."),
)

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    r'|"(?:\\(?:\r\n|.)|[^\\"\r\n])*"?'
    r"|'(?:\\(?:\r\n|.)|[^\\'\r\n])*'?"
    r"|(?P<comment>\#[^\r\n]*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|\\(?:\r\n|[\r\n])"
    # no line inside brackets begins with these words: the bracket was left open, and the text is broken there
    r"|(?P<newline>\r\n|[\r\n])(?P<statement>[ \t]*(?:def|class|return|import|while|try|with|@)\b)?",
    re.DOTALL,
)
_OURS = re.compile(r"#\s*gradline:\s*ignore(?P<file>-file)?(?![\w-])(?:\s*\[(?P<list>[^\]#]*)\])?", re.IGNORECASE)
_NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*(?P<list>[A-Z][A-Z0-9]*\d(?:[,\s]+[A-Z][A-Z0-9]*\d)*))?", re.IGNORECASE)
_WORD = re.compile(r"[^\s,]+")


class _Comment(NamedTuple):
    """One suppression: where it stands, the words of its list with their offsets (None: no list), where it holds."""

    start: int
    end: int
    words: tuple[tuple[str, int], ...] | None
    covers: tuple[int, int] | None  # offsets of the statement; None is the whole file
    ours: bool
    alone: bool  # nothing else stands on its line


class Outcome(NamedTuple):
    """`kept` are the findings that nothing silences, in their order; `unused` are findings about the comments."""

    kept: tuple[Finding, ...]
    unused: tuple[Finding, ...]


def speaks(text: str) -> bool:
    """Whether a text may have comments of ours, which may be unused."""
    return "gradline:" in text.lower()


def apply(
    path: str,
    text: str,
    findings: Iterable[Finding],
    names: Mapping[str, str],
    judged: Callable[[str], bool] = lambda code: True,
) -> Outcome:
    """What is left of a file's findings. `names` has the name of every rule by its code.

    Give all findings, the doubtful too: a comment that silences one of those is in use. `judged` says whether a rule
    was on in this file: a comment for a rule that was off is not called unused.
    """
    found = tuple(findings)
    if not speaks(text) and (not found or "noqa" not in text.lower()):
        return Outcome(found, ())
    comments = _comments(text)
    if not comments:
        return Outcome(found, ())
    used: set[tuple[int, str | None]] = set()
    kept: list[Finding] = []
    for finding in found:
        silenced = False
        words = (finding.code.lower(), names.get(finding.code, finding.name).lower())
        for comment in comments:
            if comment.covers and not _covers(comment.covers, finding.place):
                continue
            if comment.words is None:
                used.add((comment.start, None))
                silenced = True
                continue
            for word, offset in comment.words:
                if word.lower().replace("_", "-") in words:
                    used.add((offset, word))
                    silenced = True
        if not silenced:
            kept.append(finding)
    unused = [
        finding
        for comment in comments
        if comment.ours and (finding := _unused(path, text, comment, used, names, judged))
    ]
    if not judged(UNUSED_SUPPRESSION.code):
        unused = []
    return Outcome(tuple(kept), tuple(unused))


def fix(finding: Finding) -> Fix:
    """Takes away what is unused: the word, or the whole comment. `finding` is one of `Outcome.unused`."""
    from .edits import Applicability, Edit, Fix

    start, end, content = finding.get("replace")  # type: ignore[misc]
    what = say("Remove what is unused of the suppression") if content else say("Remove the unused suppression")
    return Fix(what, Applicability.SAFE, (Edit(finding.place.path, start, end, content),))


def silence(path: str, text: str, findings: Iterable[Finding]) -> tuple[Edit, ...]:
    """Writes the comments that silence these findings of one file: each at the end of its statement, by code.

    A comment of ours that stands there already gets the code added to its list.
    """
    from .edits import Edit

    scan = _scan(text)
    wanted: dict[int, list[str]] = {}
    for finding in findings:
        codes = wanted.setdefault(scan.line(finding.place.start), [])
        if finding.code not in codes:
            codes.append(finding.code)
    existing = {scan.line(comment.start): comment for comment in _comments(text) if comment.words and comment.ours}
    edits: list[Edit] = []
    for line, codes in sorted(wanted.items()):
        comment = existing.get(line)
        if comment is not None and comment.covers is not None and not comment.alone:
            edits.append(Edit(path, comment.end - 1, comment.end - 1, "".join(f", {code}" for code in sorted(codes))))
            continue
        end = len(text[: scan.starts[line + 1]].rstrip("\r\n"))
        end = max(end - (len(text[:end]) - len(text[:end].rstrip(" \t"))), scan.starts[line])
        edits.append(Edit(path, end, end, f"  # gradline: ignore[{', '.join(sorted(codes))}]"))
    return tuple(edits)


def _covers(span: tuple[int, int], place: Place) -> bool:
    return span[0] <= place.start < span[1] or span[0] <= max(place.end - 1, place.start) < span[1]


class _Scan(NamedTuple):
    """`starts` are the offsets of the logical lines, with one past the end; `comments` offset, text, alone on its line."""

    starts: list[int]
    comments: list[tuple[int, str, bool]]

    def line(self, offset: int) -> int:
        return bisect.bisect_right(self.starts, offset) - 1


def _scan(text: str) -> _Scan:
    """Logical lines and comments, by one look at strings, comments, brackets and line ends."""
    starts = [0]
    comments: list[tuple[int, str, bool]] = []
    depth = 0
    empty = True  # nothing but blanks and comments yet on this logical line
    position = 0
    for token in _TOKEN.finditer(text):
        if empty and text[position : token.start()].strip():
            empty = False
        position = token.end()
        if token["comment"] is not None:
            line = max(text.rfind("\n", 0, token.start()), text.rfind("\r", 0, token.start())) + 1
            comments.append((token.start(), token["comment"], empty and not text[line : token.start()].strip()))
        elif token["open"]:
            depth += 1
            empty = False
        elif token["close"]:
            depth = max(depth - 1, 0)
        elif token["newline"] is not None:
            if token["statement"] is not None:
                depth = 0
            if depth == 0:
                starts.append(token.end("newline"))
                empty = token["statement"] is None
        else:
            empty = False
    starts.append(len(text) + 1)
    return _Scan(starts, comments)


def _comments(text: str) -> list[_Comment]:
    """Every suppression in `text`."""
    scan = _scan(text)
    starts = scan.starts
    found: list[_Comment] = []
    for start, comment, alone in scan.comments:
        for pattern, ours in ((_OURS, True), (_NOQA, False)):
            match = pattern.search(comment)
            if match is None:
                continue
            listed = match["list"]
            words = None
            if listed is not None:
                base = start + match.start("list")
                words = tuple((word[0], base + word.start()) for word in _WORD.finditer(listed))
            covers: tuple[int, int] | None = None
            if not (ours and match["file"]):
                index = scan.line(start)
                if alone and ours:  # the next logical line that holds something
                    index = _next_statement(text, starts, index)
                covers = starts[index], starts[min(index + 1, len(starts) - 1)]
            found.append(_Comment(start + match.start(), start + match.end(), words, covers, ours, alone))
    return found


def _next_statement(text: str, starts: list[int], index: int) -> int:
    for later in range(index + 1, len(starts) - 1):
        line = text[starts[later] : starts[later + 1]].strip()
        if line and not line.startswith("#"):
            return later
    return index


def _unused(
    path: str,
    text: str,
    comment: _Comment,
    used: set[tuple[int, str | None]],
    names: Mapping[str, str],
    judged: Callable[[str], bool],
) -> Finding | None:
    if comment.words is None:
        if (comment.start, None) in used or not all(judged(code) for code in names):
            return None
        return _finding(path, text, comment, (), say("this comment silences nothing"))
    codes = {name.lower(): code for code, name in names.items()} | {code.lower(): code for code in names}
    unknown: list[str] = []
    idle: list[str] = []
    live: list[str] = []
    for word, offset in comment.words:
        code = codes.get(word.lower().replace("_", "-"))
        if code is None:
            unknown.append(word)
        elif (offset, word) in used or not judged(code):
            live.append(word)
        else:
            idle.append(word)
    if not comment.words:
        return _finding(path, text, comment, (), say("this comment names no rule, and so silences nothing"))
    if not unknown and not idle:
        return None
    said: list[str] = []
    if idle:
        said.append(say("nothing here for {rules} to silence", rules=_listing(idle)))
    if unknown:
        said.append(say("there is no rule {rules}", rules=_listing(unknown)))
    return _finding(path, text, comment, tuple(live), joined(said, "{first}; {rest}"))


def _listing(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _finding(path: str, text: str, comment: _Comment, live: tuple[str, ...], message: str) -> Finding:
    start, end, content = comment.start, comment.end, ""
    if live:
        bracket = text.index("[", start)
        start, end, content = bracket + 1, end - 1, ", ".join(live)
    else:
        while start and text[start - 1] in " \t":
            start -= 1
        rest = re.compile(r"[^\r\n]*").match(text, end)
        if rest and not rest[0].strip():
            end = rest.end()
            if not start or text[start - 1] in "\r\n":  # the line has nothing else: take it away
                newline = re.compile(r"\r\n|[\r\n]").match(text, end)
                end = newline.end() if newline else end
        elif rest and not rest[0].lstrip().startswith("#"):
            start, end = comment.start, end + len(rest[0]) - len(rest[0].lstrip())
            content = "# "  # what follows in the comment is the user's own words
        else:
            start = comment.start
            end += len(rest[0]) - len(rest[0].lstrip()) if rest else 0
    return Finding(
        code=UNUSED_SUPPRESSION.code,
        name=UNUSED_SUPPRESSION.name,
        severity=UNUSED_SUPPRESSION.severity,
        place=Place(path, comment.start, comment.end),
        message=message,
        data=(("replace", (start, end, content)),),
        tags=("unnecessary",),
        fixable=True,
    )
