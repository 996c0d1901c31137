"""Suppression comments: what each form silences, where, and which are reported as unused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradline import edits, suppress
from gradline.findings import Finding, Place, Severity

NAMES = {"GL101": "number-backward", "GL102": "detached-loss", "GL001": "unused-suppression"}


def at(text: str, mark: str, code: str = "GL101") -> Finding:
    start = text.index(mark)
    return Finding(code, NAMES[code], Severity.ERROR, Place("a.py", start, start + len(mark)), "said")


def outcome(text: str, *findings: Finding, **kwargs) -> suppress.Outcome:
    return suppress.apply("a.py", text, findings, NAMES, **kwargs)


@pytest.mark.parametrize(
    "text",
    [
        "loss.backward()  # gradline: ignore[GL101]",
        "loss.backward()  # gradline: ignore[number-backward]",
        "loss.backward()  # gradline: ignore[ GL102 , gl101 ]",
        "loss.backward()  # gradline:ignore",
        "loss.backward()  # type: ignore # gradline: ignore[GL101]",
        "loss.backward()  # noqa",
        "loss.backward()  # NOQA: E501, GL101",
        "loss.backward()  # noqa:GL101",
        "(loss\n  .backward(  # gradline: ignore[GL101]\n  ))",
        "loss.backward(\n  retain_graph=True,\n)  # gradline: ignore[GL101]",
        "x = '''\n# no comment\n''' + loss.backward()  # gradline: ignore",
        "x = a + \\\n  loss.backward()  # gradline: ignore",
        "# gradline: ignore[GL101]\nloss.backward()",
        "# gradline: ignore[GL101]\n\n# more words\nloss.backward()",
        "loss.backward()\n\n# gradline: ignore-file[GL101]\n",
        "# gradline: ignore-file\nx = 1\nloss.backward()",
        "s = 'it''s'; loss.backward()  # gradline: ignore",
        's = "\\""; loss.backward()  # gradline: ignore',
        "loss.backward()  # gradline: ignore[GL101]\r\nx = 1\r\n",
        "loss.backward()  # gradline: ignore[GL101]\rx = 1\r",
    ],
)
def test_silences(text):
    assert outcome(text, at(text, "backward")).kept == ()


@pytest.mark.parametrize(
    "text",
    [
        "loss.backward()",
        "loss.backward()  # gradline: ignore[GL102]",
        "loss.backward()  # gradline: ignored",
        "loss.backward()  # noqa: E501",
        "loss.backward()\nx = 1  # gradline: ignore",
        "x = 1  # gradline: ignore\nloss.backward()",
        "x = '# gradline: ignore'; loss.backward()",
        "x = '''\n# gradline: ignore-file\n'''; loss.backward()",
        "# noqa\nloss.backward()",
        "# flake8: noqa\nloss.backward()",
        "foo(\ndef f():  # gradline: ignore\n    loss.backward()\n",
    ],
)
def test_does_not_silence(text):
    finding = at(text, "backward")
    assert outcome(text, finding).kept == (finding,)


def fixed(text: str, *findings: Finding) -> str:
    unused = outcome(text, *findings).unused
    return edits.apply(text, [edit for one in unused for edit in suppress.fix(one).edits])


@pytest.mark.parametrize(
    ("before", "message", "after"),
    [
        ("x = 1  # gradline: ignore[GL101]\n", "nothing here for `GL101` to silence", "x = 1\n"),
        ("x = 1  # gradline: ignore\n", "this comment silences nothing", "x = 1\n"),
        ("x = 1  # gradline: ignore[]\n", "this comment names no rule, and so silences nothing", "x = 1\n"),
        ("x = 1  # gradline: ignore[GL999]\n", "there is no rule `GL999`", "x = 1\n"),
        ("# gradline: ignore-file[GL101]\nx = 1\n", "nothing here for `GL101` to silence", "x = 1\n"),
        ("x = 1  # type: ignore # gradline: ignore\n", "this comment silences nothing", "x = 1  # type: ignore\n"),
        ("x = 1  # gradline: ignore # type: ignore\n", "this comment silences nothing", "x = 1  # type: ignore\n"),
        ("x = 1  # gradline: ignore because\n", "this comment silences nothing", "x = 1  # because\n"),
        ("def f():\n    # gradline: ignore\n    x = 1\n", "this comment silences nothing", "def f():\n    x = 1\n"),
    ],
)
def test_unused(before, message, after):
    (finding,) = outcome(before).unused
    assert (finding.code, finding.message) == ("GL001", message)
    assert not finding.severity.fails
    assert fixed(before) == after
    assert outcome(after).unused == ()


def test_part_of_a_list_is_unused():
    text = "loss.backward()  # gradline: ignore[GL102, GL101]\n"
    finding = at(text, "backward")
    result = outcome(text, finding)
    assert result.kept == ()
    assert [one.message for one in result.unused] == ["nothing here for `GL102` to silence"]
    assert fixed(text, finding) == "loss.backward()  # gradline: ignore[GL101]\n"


def test_rules_that_were_off_are_not_judged():
    only_101 = "GL101".__eq__
    for text in ("x = 1  # gradline: ignore[GL102]", "x = 1  # gradline: ignore"):
        assert outcome(text, judged=only_101).unused == ()


def test_noqa_is_not_reported():
    assert outcome("x = 1  # noqa: GL101\ny = 2  # noqa\n").unused == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward()\nx = 1\n", "loss.backward()  # gradline: ignore[GL101]\nx = 1\n"),
        ("loss.backward()", "loss.backward()  # gradline: ignore[GL101]"),
        ("loss.backward()  \r\nx\r\n", "loss.backward()  # gradline: ignore[GL101]  \r\nx\r\n"),
        ("loss.backward(\n  a,\n)\n", "loss.backward(\n  a,\n)  # gradline: ignore[GL101]\n"),
        ("loss.backward()  # why\n", "loss.backward()  # why  # gradline: ignore[GL101]\n"),
        (
            "x = '''\n'''; loss.backward('''\n''')\n",
            "x = '''\n'''; loss.backward('''\n''')  # gradline: ignore[GL101]\n",
        ),
        (
            "loss.backward()  # gradline: ignore[GL102]\n",
            "loss.backward()  # gradline: ignore[GL102, GL101]\n",
        ),
    ],
)
def test_silencing(before, after):
    finding = at(before, "backward")
    text = edits.apply(before, suppress.silence("a.py", before, [finding]))
    assert text == after
    assert outcome(text, at(text, "backward")).kept == ()


PIECES = [*"\"'#\\\r\n()[]{} \tfx,", "# gradline: ignore[GL101]", "# gradline: ignore", "# noqa", "def"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_never_raises(text):
    for one in outcome(text).unused:
        suppress.fix(one)
