"""Text: lines, columns in three encodings, and bytes to text and back."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradline.text import ENCODINGS, Source, UndecodableError, decode, line_starts

LINES = st.text(st.sampled_from("ab \t\f\v\x1c\x85\u2028é€😀\ud800\r\n"))


def test_lines_break_at_newlines_and_nowhere_else() -> None:
    source = Source("a\nb\r\nc\rd\fe\vf\x1cg\x85h\u2028i\u2029j\n")
    assert [source.line_text(line) for line in range(5)] == ["a", "b", "c", "d\fe\vf\x1cg\x85h\u2028i\u2029j", ""]
    assert source.line_starts == [0, 2, 5, 7, 21]
    assert source.line_text(-1) == source.line_text(5) == ""
    assert line_starts("") == [0]


def test_places_outside_are_clamped() -> None:
    source = Source("ab\r\nc")
    assert source.position(-1) == (0, 0)
    assert source.position(99) == (1, 1)
    assert source.offset(0, 99) == 2
    assert source.offset(9, 0) == 5
    assert source.offset(-1, 5) == 0
    assert source.offset(0, -1) == 0


def test_columns() -> None:
    line = "\tx = 'é€😀' + y"
    source = Source(f"\n{line}\n")
    at = line.index("y")
    assert {name: source.to_units(1, at, name) for name in ENCODINGS} == {"utf-8": 19, "utf-16": 14, "utf-32": 13}
    inside = {"utf-8": 13, "utf-16": 9}  # in the midst of the astral character
    for name, column in inside.items():
        assert source.from_units(1, column, name) == line.index("😀")
    with pytest.raises(ValueError, match="utf-7"):
        source.to_units(0, 0, "utf-7")
    with pytest.raises(ValueError, match="utf-7"):
        source.from_units(0, 0, "utf-7")


@given(LINES)
def test_there_and_back(text: str) -> None:
    source = Source(text)
    for offset in range(len(text) + 1):
        line, column = source.position(offset)
        if text[offset - 1 : offset + 1] != "\r\n":  # the place between the two is none
            assert source.offset(line, column) == offset
            for encoding in ENCODINGS:
                assert source.from_units(line, source.to_units(line, column, encoding), encoding) == column


@given(LINES)
def test_columns_are_the_lengths_of_encoded_text(text: str) -> None:
    source = Source(text)
    for line in range(len(source.line_starts)):
        whole = source.line_text(line)
        for column in range(len(whole) + 1):
            before = whole[:column]
            assert source.to_units(line, column, "utf-8") == len(before.encode("utf-8", "surrogatepass"))
            assert source.to_units(line, column, "utf-16") == len(before.encode("utf-16-le", "surrogatepass")) // 2


@given(LINES)
def test_lines_are_the_whole_text(text: str) -> None:
    starts = line_starts(text)
    assert "".join(text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)) == text
    assert [line.rstrip("\r\n") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")] == [
        Source(text).line_text(line) for line in range(len(starts))
    ]


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom"),
    [
        (b"", "", "utf-8", False),
        (b"x = 1\r\ny\r", "x = 1\r\ny\r", "utf-8", False),
        ("é = '😀'\n".encode(), "é = '😀'\n", "utf-8", False),
        (codecs.BOM_UTF8 + b"x", "x", "utf-8", True),
        (codecs.BOM_UTF8 + b"# coding: utf8\nx", "# coding: utf8\nx", "utf-8", True),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'", "# -*- coding: latin-1 -*-\nx = 'é'", "iso8859-1", False),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'", None, "cp1252", False),
        (b"\f\n#coding=latin-1\n\xe9", "\f\n#coding=latin-1\né", "iso8859-1", False),
        (b"x = 1\n# coding: latin-1\n", "x = 1\n# coding: latin-1\n", "utf-8", False),
        (b"\n\n# coding: latin-1\n", "\n\n# coding: latin-1\n", "utf-8", False),
    ],
)
def test_bytes_to_text_and_back(data: bytes, text: str | None, encoding: str, bom: bool) -> None:
    decoded = decode(data)
    assert decoded[1:] == (encoding, bom)
    assert text is None or decoded.text == text
    assert decoded.encode(decoded.text) == data


@pytest.mark.parametrize(
    ("data", "message", "offset", "line"),
    [
        (b"a\r\nb\rc\nx = '\xff'", r"line 4: 0xff at byte 12 is not utf-8", 12, 4),
        (codecs.BOM_UTF8 + b"\xe9", r"line 1: 0xe9 at byte 3", 3, 1),
        (b"\xc3", r"line 1: 0xc3 at byte 0 is not utf-8 \(unexpected end of data\)", 0, 1),
        (b"# coding: ascii\n\xe9", "line 2: 0xe9 at byte 16 is not ascii", 16, 2),
        (b"\n# coding: nonsense\n", "unknown encoding 'nonsense'", None, 2),
        (b"# coding: hex\n", "'hex' in the coding line is not a text encoding", None, 1),
        (
            codecs.BOM_UTF8 + b"# coding: latin-1\n",
            "byte order mark says UTF-8, the coding line says 'latin-1'",
            None,
            1,
        ),
        (codecs.BOM_UTF16_LE + b"x\0", "UTF-16", 0, 1),
    ],
)
def test_what_is_no_text_says_why(data: bytes, message: str, offset: int | None, line: int) -> None:
    with pytest.raises(UndecodableError, match=message) as caught:
        decode(data)
    assert (caught.value.offset, caught.value.line) == (offset, line)


@given(st.binary())
def test_any_bytes_are_text_or_an_error(data: bytes) -> None:
    try:
        decoded = decode(data)
    except UndecodableError as error:
        assert str(error)
    else:
        assert decoded.encode(decoded.text) == data
