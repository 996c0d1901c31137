"""The syntax of newer Pythons in the words of an older one, so that what they have added can be read on any.

gradline reads with the parser of the Python that it runs on, which may be older than the one that the code is for.
Each addition is written as something older of the same length that stands on the same lines, so that every place is
right, and `marks` say what the tree then has to be put back to (`reading/parsing.py` does so):

    3.15  lazy import a             lazy;import a         a name, then the import: the import alone
    3.14  t"{x}"                      f"{x}"
    3.14  except A, B:                except A< B:        a comparison: a tuple
    3.12  type X[T] = V               type,X    = V       an assignment to two names: to one, of what is not evaluated
    3.12  def f[T](x): class A[T]:    def f   (x): class A   :
    3.12  f"{x["a"]} {y!r:>{w}}"      (  x["a"],  y,     w,   )     a tuple: a string with these values in it
    3.11  except* A:                  except  A:
"""

from __future__ import annotations

import keyword
import re
import sys
from typing import NamedTuple

PYTHON = sys.version_info[:2]

LAZY, EXCEPT, ALIAS, STRING = "lazy", "except", "alias", "string"

# Strings in the fields of strings: Python's own tokenizer gives up at 150, this one recurses
MAX_NESTED = 30


class Older(NamedTuple):
    """A text as an older Python reads it, as long and with the same lines as the one it was made of."""

    text: str
    marks: dict[int, str]  # what stands at an offset: a `lazy`, the type of a handler, an alias, a string with fields


# Whether looking closer is worth it: this is asked of every text that is not Python, at every key
def _odd(quote: str) -> str:
    """A string in single quotes that has a quote, a backslash, a comment or the end of the line in a field."""
    plain = rf"[^{quote}\n{{}}\\#]*"
    field = rf"\{{{plain}(?:\{{{plain}\}}{plain})*\}}"
    literal = rf"[^{quote}\n{{\\]*"
    return rf"{quote}{literal}(?:(?:\\.|\{{\{{|{field}){literal})*\{{(?!\{{)[^{quote}\n}}\\#]*[{quote}\n\\#]"


_FIELD = rf"""[fF][rR]?(?:\"\"\"|\'\'\'|{_odd('"')}|{_odd("'")})"""
_ADDED = {
    (3, 15): re.compile(r"\blazy[ \t]+(?:import|from)\b"),
    (3, 14): re.compile(r"\b[tT][rR]?[\"']|\b[rR][tT][\"']|\bexcept\b[ \t]*\*?[ \t]*[^(\s:][^\n:]*,"),
    (3, 13): re.compile(r"\b(?:def|class|type)[ \t]+\w+[ \t]*\["),
    (3, 12): re.compile(rf"\btype[ \t]+\w+[ \t]*=|\b{_FIELD}|\b[rR]{_FIELD}"),
    (3, 11): re.compile(r"\bexcept[ \t]*\*"),
}


def older(text: str, python: tuple[int, int] = PYTHON) -> Older | None:
    """`text` for a parser of this Python; None if it has nothing in it that only a newer one reads. Never raises."""
    if not any(python < added and found.search(text) for added, found in _ADDED.items()):
        return None
    try:
        return _Writer(text, python).written()
    except (_OddError, RecursionError):
        return None


class _OddError(Exception):
    """The text is no Python of any age."""


_CODE = re.compile(
    r"""
    (?P<comment> \# [^\n]* )
  | (?: (?<!\w) (?P<prefix> [A-Za-z]{1,2} ) )? (?P<quote> \"\"\" | ''' | " | ' )
  | (?P<open> [(\[{] )
  | (?P<close> [)\]}] )
  | (?P<comparison> [=!<>]= | ->)
  | (?P<mark> [!:=,] )
  | \b (?: (?P<except> except \b [ \t]* (?P<star> \*? ) [ \t]* ) | (?P<as> as \b )
         | (?P<lazy> lazy (?= [ \t]+ (?: import | from ) \b ) )
         | (?P<generic> (?: def | class ) [ \t]+ [^\W\d]\w* [ \t]* (?= \[ ) )
         | (?P<alias> type [ \t]+ (?P<name> [^\W\d]\w* ) [ \t]* (?= \[ | =(?!=) ) ) )
    """,
    re.X,
)
_ENDS = {
    '"': re.compile(r'[^"\\\n]*(?:\\(?:\r\n|.)[^"\\\n]*)*"', re.S),
    "'": re.compile(r"[^'\\\n]*(?:\\(?:\r\n|.)[^'\\\n]*)*'", re.S),
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""', re.S),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''", re.S),
}
_PREFIXES = frozenset(["", *"rbuft", "rb", "br", "rf", "fr", "rt", "tr"])
_GAP = re.compile(r"(?:[ \t\f]|\\\r?\n)*")  # between strings that are one, outside brackets
_INNER_GAP = re.compile(r"(?:\s|\\\r?\n|\#[^\n]*)*")
_BLANKS = re.compile(r"[^\r\n]")
_EQUALS = re.compile(r"[ \t]*=(?!=)")
_SHOWN = re.compile(r"=\s*[!:}]")  # `{x=}` shows the code of the value, too
_BEHIND_VALUE = re.compile(r"=?\s*(?:!\s*\w+\s*)?([:}])")


class _String(NamedTuple):
    """A string. `values`: where those of its fields begin and end."""

    start: int
    end: int
    prefix: str
    values: list[tuple[int, int]]
    new: bool  # whether a Python before 3.12 cannot read it


class _Writer:
    def __init__(self, text: str, python: tuple[int, int]) -> None:
        self.text = text
        self.python = python
        self.out = list(text)
        self.marks: dict[int, str] = {}
        self.dropped: list[tuple[int, int]] = []  # type parameters, which may have strings in them
        self.changed = False
        self.depth = 0

    def written(self) -> Older | None:
        self.code(0, False)
        for start, end in self.dropped:
            self.drop(start, end)
        return Older("".join(self.out), self.marks) if self.changed else None

    def put(self, at: int, char: str) -> None:
        self.out[at] = char
        self.changed = True

    def blank(self, start: int, end: int) -> None:
        """Spaces for a part, its line breaks left."""
        self.out[start:end] = _BLANKS.sub(" ", self.text[start:end])
        self.changed = True

    # ------------------------------------------------------------ code

    def code(self, at: int, field: bool) -> tuple[int, bool]:
        """Code from `at` on: to the end of the text, or of the value of a field. Where it ends, and whether a string
        in it is new."""
        text = self.text
        brackets: list[int] = []
        generic: dict[int, int] = {}  # the bracket of type parameters, and the alias that it belongs to, or -1
        clause: tuple[int, bool] | None = None  # where what an `except` catches begins, and whether it has an `as`
        commas: list[int] = []
        run: list[_String] = []
        new = False
        while (found := _CODE.search(text, at)) is not None:
            start, at = found.span()
            kind = found.lastgroup
            if found["quote"]:
                string = self.string(found)
                gap = _INNER_GAP if field or brackets else _GAP
                if run and gap.fullmatch(text, run[-1].end, start) is None:
                    new |= self.strings(run)
                    run = []
                run.append(string)
                at = string.end
            elif kind == "open":
                brackets.append(start)
            elif kind == "close":
                if not brackets:
                    if not field or found[0] != "}":
                        raise _OddError
                    end = start
                    break
                opened = brackets.pop()
                if opened in generic:
                    self.parameters(opened, at, generic[opened])
            elif brackets or field:
                if not brackets and self.ends_value(found):
                    end = start
                    break
            elif kind == "alias":
                if keyword.iskeyword(found["name"]) or not self.begins(start):
                    continue
                if text[at] == "[":
                    generic[at] = start
                elif self.python < (3, 12):
                    self.alias(start)
            elif kind == "lazy":
                if self.begins(start) and self.python < (3, 15):
                    self.put(at, ";")
                    self.marks[start] = LAZY
            elif kind == "generic":
                generic[at] = -1
            elif found["except"]:
                if self.begins(start):
                    clause, commas = (at, False), []
                    if found["star"] and self.python < (3, 11):
                        self.blank(*found.span("star"))
            elif clause is not None:
                if kind == "as":
                    clause = None
                elif found[0] == ",":
                    commas.append(start)
                elif found[0] == ":":
                    self.handler(clause[0], commas, start)
                    clause = None
        else:
            if field:
                raise _OddError
            end = len(text)
        return end, self.strings(run) | new

    def ends_value(self, found: re.Match[str]) -> bool:
        """Whether a mark in a field stands behind its value: a conversion, a format, the `=` that shows the code."""
        if found.lastgroup != "mark" or found[0] == ",":
            return False
        return found[0] != "=" or _SHOWN.match(self.text, found.start()) is not None

    def begins(self, at: int) -> bool:
        """Whether a statement begins here."""
        while at and self.text[at - 1] in " \t\f":
            at -= 1
        return at == 0 or self.text[at - 1] in "\r\n;:"

    def handler(self, start: int, commas: list[int], end: int) -> None:
        """What is caught, without brackets around it."""
        if self.python >= (3, 14) or not commas:
            return
        if not self.text[commas[-1] + 1 : end].strip():
            self.put(commas.pop(), " ")
        for at in commas:
            self.put(at, "<")
        if commas:
            self.marks[start] = EXCEPT

    def parameters(self, start: int, end: int, alias: int) -> None:
        """Type parameters: nothing of them is in the IR."""
        if self.python >= (3, 13):
            return
        if alias >= 0 and _EQUALS.match(self.text, end) is None:
            return
        lines = self.text[start:end].split("\n")
        if len(lines) > 1 and not all(line.strip() for line in lines):
            return
        self.dropped.append((start, end))
        if alias >= 0 and self.python < (3, 12):
            self.alias(alias)

    def drop(self, start: int, end: int) -> None:
        self.blank(start, end)
        self.marks = {at: mark for at, mark in self.marks.items() if not start < at < end}
        for found in re.compile(r"\r?\n").finditer(self.text, start, end):  # the brackets held the lines together
            self.put(found.start() - 1, "\\")

    def alias(self, at: int) -> None:
        self.put(at + len("type"), ",")
        self.marks[at] = ALIAS

    # ------------------------------------------------------------ strings

    def string(self, found: re.Match[str]) -> _String:
        """The string that begins here."""
        prefix = (found["prefix"] or "").lower()
        quote = found["quote"]
        if prefix not in _PREFIXES:
            raise _OddError
        if "f" not in prefix and "t" not in prefix:
            end = _ENDS[quote].match(self.text, found.end())
            if end is None:
                raise _OddError
            return _String(found.start(), end.end(), prefix, [], False)
        if self.depth == MAX_NESTED:
            raise _OddError
        self.depth += 1
        values: list[tuple[int, int]] = []
        end, new = self.literal(found.end(), quote, "r" in prefix, values)
        self.depth -= 1
        return _String(found.start(), end, prefix, values, new)

    def literal(self, at: int, quote: str, raw: bool, values: list[tuple[int, int]]) -> tuple[int, bool]:
        """What stands in a string with fields, from behind its quotes to behind its last; whether it is new."""
        text = self.text
        stops = re.compile(rf"\\|\{{\{{?|\}}|{quote}|\n")
        new = False
        while (found := stops.search(text, at)) is not None:
            at = found.end()
            if found[0] == quote:
                return at, new
            if found[0] == "\\":
                if not raw and text.startswith("N{", at):
                    at = text.find("}", at) + 1 or len(text)
                elif text[at : at + 1] not in ("{", "}"):
                    at += 2 if text.startswith("\r\n", at) else 1
            elif found[0] == "{":
                at, was_new = self.field(at, quote, values)
                new |= was_new
            elif found[0] == "\n" and len(quote) == 1:
                break
        raise _OddError

    def field(self, start: int, quote: str, values: list[tuple[int, int]]) -> tuple[int, bool]:
        """A field, from behind its bracket to behind the one that closes it."""
        text = self.text
        end, new = self.code(start, True)
        values.append((start, end))
        value = text[start:end]
        new |= quote in value or "\\" in value or "#" in value or (len(quote) == 1 and "\n" in value)
        ended = _BEHIND_VALUE.match(text, end)
        if ended is None:
            raise _OddError
        at = ended.end()
        if ended[1] == "}":
            return at, new
        stops = re.compile(rf"[{{}}\n]|{quote}")
        while (found := stops.search(text, at)) is not None:
            at = found.end()
            if found[0] == "}":
                return at, new
            if found[0] == "{":
                at, was_new = self.field(at, quote, values)
                new |= was_new
            elif found[0] == quote:
                break
        raise _OddError

    def strings(self, run: list[_String]) -> bool:
        """Write strings that are one; whether they are new."""
        new = any(string.new for string in run)
        if len({("b" in string.prefix, "t" in string.prefix) for string in run}) > 1:
            raise _OddError
        if not new or self.python >= (3, 12):
            if self.python < (3, 14):
                for string in run:
                    if "t" in string.prefix:
                        self.put(string.start + string.prefix.index("t"), "f")
            return new
        start, end = run[0].start, run[-1].end
        at = start
        for string in run:
            for a, b in string.values:
                self.blank(at, a)
                self.put(b, ",")
                at = b + 1
        self.blank(at, end)
        self.put(start, "(")
        self.put(end - 1, ")")
        self.marks[start] = STRING
        return new
