"""Texts and positions: what the client edits is what the server has, in every encoding, whatever the characters."""

from __future__ import annotations

import random

import pytest

from .client import FAKE, Client, places
from .fake import ITEM

URI = "file:///folder/a.py"
# characters at which `str.splitlines` breaks and the protocol does not, one beyond the BMP, one of three bytes
ODD = "\f\v\x1c\x1d\x1e\x85\u2028\u2029\U0001f600€é"
CALL = "loss.item().backward()"


@pytest.mark.parametrize(
    ("encoding", "units"), [("utf-8", "utf-8"), ("utf-16", "utf-16-le"), ("utf-32", "utf-32-le")], ids=lambda name: name
)
def test_columns_in_every_encoding(encoding: str, units: str) -> None:
    before = f'name = "{ODD}"; '
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    start = len((before + "loss").encode(units)) // width
    with Client(FAKE, encodings=[encoding, "utf-16"]) as client:
        assert client.initialized["capabilities"]["positionEncoding"] == encoding
        client.open(URI, f"x = 1\r\n{before}{CALL}\r\n")
        assert places(client.diagnostics(URI)) == [("GL101", (1, start), (1, start + 7))]


def test_without_offered_encodings_it_is_utf_16() -> None:
    with Client(FAKE, encodings=[]) as client:
        assert client.initialized["capabilities"]["positionEncoding"] == "utf-16"


@pytest.mark.parametrize("odd", ODD)
def test_edits_below_an_odd_character(odd: str) -> None:
    with Client(FAKE) as client:
        client.open(URI, f"x = '{odd}'\nclass A:\n    pass\n")
        client.diagnostics(URI)
        client.change(URI, ((2, 4), (2, 8), CALL))
        assert places(client.diagnostics(URI)) == [("GL101", (2, 8), (2, 15))]
        client.change(URI, ((1, 0), (1, 0), f"'{odd}'; "))
        assert places(client.diagnostics(URI)) == [("GL101", (2, 8), (2, 15))]


def test_several_changes_in_one_message_apply_in_order() -> None:
    with Client(FAKE) as client:
        client.open(URI, "a\nb\n")
        client.diagnostics(URI)
        client.change(URI, ((0, 0), (0, 1), "x = 1\ny = 2"), ((1, 0), (1, 5), CALL), ((0, 0), (1, 0), ""))
        assert places(client.diagnostics(URI)) == [("GL101", (0, 4), (0, 11))]


def test_the_whole_text_may_be_sent() -> None:
    with Client(FAKE) as client:
        client.open(URI, "a\n")
        client.diagnostics(URI)
        document = {"uri": URI, "version": 2}
        client.versions[URI] = 2
        client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": CALL}]})
        assert places(client.diagnostics(URI)) == [("GL101", (0, 4), (0, 11))]


def test_every_line_break() -> None:
    with Client(FAKE) as client:
        client.open(URI, f"a\r\nb\rc\n{CALL}\r\n")
        assert places(client.diagnostics(URI)) == [("GL101", (3, 4), (3, 11))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_random_edits_leave_the_server_with_the_text_of_the_client(encoding: str) -> None:
    """The findings after each edit are those of the same text opened anew."""
    dice = random.Random(7)
    pieces = [CALL, "\n", "\r\n", "x = 1", "  ", *ODD]
    codec, width = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}[encoding]

    def at(text: str, offset: int) -> tuple[int, int]:
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        line = before.count("\n")
        return line, len(before[before.rfind("\n") + 1 :].encode(codec)) // width

    with Client(FAKE, encodings=[encoding]) as client:
        text = "x = 1\n"
        client.open(URI, text)
        client.diagnostics(URI)
        for _ in range(150):
            start = dice.randrange(len(text) + 1)
            end = min(len(text), start + dice.choice((0, 0, 1, 5)))
            inside = any(0 < place < len(text) and text[place - 1 : place + 1] == "\r\n" for place in (start, end))
            if inside:
                continue  # no editor puts a cursor between the two
            new = "".join(dice.choices(pieces, k=dice.randrange(3)))
            edited = text[:start] + new + text[end:]
            client.change(URI, (at(text, start), at(text, end), new))
            text = edited
            expected = []
            for found in ITEM.finditer(text):
                line, column = at(text, found.start(2))
                expected.append(("GL101", (line, column), (line, column + 7)))
            assert places(client.diagnostics(URI)) == expected
