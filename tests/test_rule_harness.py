"""The rules' tests are tests: each of the five fails on a rule, or a page, that is wrong on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixture import MarkError, parse
from rule_claims import behaves_as_told, is_mended, is_silent, runs_and_trains, says_the_marks
from rule_page import Example, Page, PageError, parse_page
from rule_run import Runner

from gradline.edits import Applicability, Edit, Fix
from gradline.findings import Finding, Place, Severity, Step

PAGE = """# number-backward (GL101)

A page.

## Wrong

```python
import torch

w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * w).sum()
value = loss.item()  # because: a number at "loss.item()"
value.backward()  # error: [number-backward] at "value"
optimizer.step()
```

```raises
AttributeError: 'float' object has no attribute 'backward'
```

## Right

```python
import torch

w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * w).sum()
value = loss
value.backward()
optimizer.step()
```

```trains
w
```

## Not this

```python
import torch

print(torch.ones(1).item())
```
"""


class Textual:
    """An analyzer that finds `value.backward` where `.item()` stands above; every part of it can be spoilt."""

    name = "number-backward"
    severity = Severity.ERROR
    note = "makes a number"
    applicability = Applicability.SAFE

    def findings(self, files: dict[str, str]) -> list[Finding]:
        text = files["main.py"]
        if ".item()" not in text or "value.backward" not in text:
            return []
        start = text.index("value.backward")
        step = Step(self.span(text, "loss.item()"), self.note)
        return [Finding("GL101", self.name, self.severity, self.place(start), "x", (step,))]

    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None:
        start = files["main.py"].index(".item()")
        return Fix("Drop .item()", self.applicability, (Edit("main.py", start, start + 7, ""),))

    def place(self, start: int) -> Place:
        return Place("main.py", start, start + len("value"))

    def span(self, text: str, part: str) -> Place:
        return Place("main.py", text.index(part), text.index(part) + len(part))


class Blind(Textual):
    def findings(self, files: dict[str, str]) -> list[Finding]:
        return []


class Eager(Textual):
    def findings(self, files: dict[str, str]) -> list[Finding]:
        return [*super().findings(files), Finding("GL101", self.name, self.severity, self.place(0), "x")]


class OffByOneLine(Textual):
    def place(self, start: int) -> Place:
        return Place("main.py", start - 20, start - 15)


class TooWide(Textual):
    def place(self, start: int) -> Place:
        return Place("main.py", start, start + len("value.backward"))


class OtherName(Textual):
    name = "detached-loss"


class Lenient(Textual):
    severity = Severity.WARNING


class OtherNote(Textual):
    note = "is computed"


class NoTrail(Textual):
    def findings(self, files: dict[str, str]) -> list[Finding]:
        return [finding._replace(trail=()) for finding in super().findings(files)]


class LongTrail(Textual):
    def findings(self, files: dict[str, str]) -> list[Finding]:
        more = Step(Place("main.py", 0, 6), "a number too")
        return [finding._replace(trail=(more, *finding.trail)) for finding in super().findings(files)]


class NoFix(Textual):
    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None:
        return None


class Unsafe(Textual):
    applicability = Applicability.UNSAFE


class Careless(Textual):
    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None:
        start = files["main.py"].index(".item()")
        return Fix("Drop .item()", self.applicability, (Edit("main.py", start, start + 8, ""),))


class Endless(Textual):
    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None:
        return Fix("Say it again", self.applicability, (Edit("main.py", 0, 0, "\n"),))


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    pytest.importorskip("torch")
    runner = Runner()
    yield runner
    runner.close()


def page() -> Page:
    return parse_page(PAGE)


def example(old: str = "", new: str = "", times: int = -1) -> Example:
    """The page's example with a text replaced: the page is what is wrong."""
    assert old in PAGE
    return parse_page(PAGE.replace(old, new, times) if old else PAGE).examples[0]


def test_all_five_hold_when_nothing_is_wrong(runner: Runner) -> None:
    whole = example()
    says_the_marks(whole.wrong, "number-backward", Textual())
    behaves_as_told(whole, runner)
    is_mended(whole, "number-backward", Textual())
    runs_and_trains(whole, runner)
    is_silent(whole.right_files(), "number-backward", Textual())
    is_silent(page().lookalikes[0].clean(), "number-backward", Textual())


@pytest.mark.parametrize(
    ("analyzer", "complaint"),
    [
        (Blind, "missed"),
        (Eager, "invented"),
        (OffByOneLine, "missed"),
        (TooWide, "invented"),
        (OtherName, "invented"),
        (Lenient, "missed"),
        (OtherNote, "unsaid"),
        (NoTrail, "unsaid"),
        (LongTrail, "unmarked"),
    ],
)
def test_marks_are_exact(analyzer: type[Textual], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        says_the_marks(example().wrong, "number-backward", analyzer())


def test_a_known_miss_fails_when_it_is_found() -> None:
    known = example("# error: [number-backward]", "# missing: [number-backward]")
    with pytest.raises(AssertionError, match="no longer missing"):
        says_the_marks(known.wrong, "number-backward", Textual())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("AttributeError: 'float'", "AttributeError: 'int'", "raises"),
        ("value = loss.item()", "value = loss + 0 * len('loss.item()')", "raises 'nothing'"),
        ("loss = (w * w).sum()\nvalue", "loss = (w * w).sum()\nloss.item().backward()\nvalue", "the marks are at"),
        (
            "```raises\nAttributeError: 'float' object has no attribute 'backward'",
            "```observe\nassert w.grad",
            "raises",
        ),
    ],
)
def test_wrong_must_go_wrong_as_told(old: str, new: str, complaint: str, runner: Runner) -> None:
    with pytest.raises(AssertionError, match=complaint):
        behaves_as_told(example(old, new, 1), runner)


def test_what_is_observed_must_be_so(runner: Runner) -> None:
    text = PAGE.replace("value.backward()  #", "loss.backward()  # value  #")
    for claim, holds in (("assert (w.grad == 2).all()", True), ("assert w.grad is None", False)):
        observed = parse_page(
            text.replace(
                "```raises\nAttributeError: 'float' object has no attribute 'backward'", f"```observe\n{claim}"
            )
        ).examples[0]
        if holds:
            behaves_as_told(observed, runner)
        else:
            with pytest.raises(AssertionError, match=r"assert w\.grad is None"):
                behaves_as_told(observed, runner)


@pytest.mark.parametrize(
    ("analyzer", "complaint"),
    [
        (NoFix, "Right says"),
        (Unsafe, "not safe"),
        (Careless, "Right says"),
        (Endless, "still something to fix"),
        (Blind, "Right says"),
    ],
)
def test_fix_is_exact(analyzer: type[Textual], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        is_mended(example(), "number-backward", analyzer())


def test_no_fix_where_the_page_says_none() -> None:
    by_hand = example("## Right\n\n```python", "## Right\n\n```python fix=none")
    with pytest.raises(AssertionError, match="there is no fix"):
        is_mended(by_hand, "number-backward", Textual())
    is_mended(by_hand, "number-backward", NoFix())
    is_mended(example("## Right\n\n```python", "## Right\n\n```python fix=unsafe"), "number-backward", Unsafe())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("value = loss\n", "value = loss.item()\n", "raises AttributeError"),
        ("value = loss\n", "value = loss * 0\n", "always zero"),
        ("value = loss\n", "value = loss.detach().requires_grad_()\n", "never got a gradient"),
        ("value.backward()\noptimizer.step()\n```\n\n```trains", "value.backward()\n```\n\n```trains", "no optimizer"),
        ("lr=0.1)\nloss = (w * w).sum()\nvalue = loss\n", "lr=0.0)\nloss = w.sum()\nvalue = loss\n", "did not move"),
        ("```trains\nw\n", "```trains\nv\n", "NameError"),
        ("```trains\nw\n", "```trains\n", "no trains fence"),
    ],
)
def test_right_must_run_and_train(old: str, new: str, complaint: str, runner: Runner) -> None:
    with pytest.raises(AssertionError, match=complaint):
        runs_and_trains(example(old, new, 1), runner)


def test_right_and_lookalikes_must_be_silent() -> None:
    for files in (example().right_files(), page().lookalikes[0].clean()):
        with pytest.raises(AssertionError, match="number-backward"):
            is_silent(files, "number-backward", Eager())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("# number-backward (GL101)", "# Number backward", ":1: the first line"),
        ("## Right", "## Correct", "trains belongs to a Right"),
        ("## Not this", "## Also", "no Not this section"),
        ("```raises\nAttributeError: 'float' object has no attribute 'backward'\n```", "", "nothing says what happens"),
        ("```trains\nw\n```", "```trains\nw", "has no end"),
        ("## Right\n\n```python", "## Right\n\n```python fix=maybe", "fix is one of"),
        ("## Wrong\n\n```python", "## Wrong\n\n```python title=other.py", "no main.py"),
    ],
)
def test_a_page_without_its_parts_is_no_page(old: str, new: str, complaint: str) -> None:
    with pytest.raises(PageError, match=complaint):
        parse_page(PAGE.replace(old, new))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x = 1  # error [rule]", "wants a colon"),
        ("x = 1  # error: rule", r"comes \[rule-name\]"),
        ('x = 1  # error: [rule] at "y"', "is not on this line"),
        ("x = 1  # raises: here", "stands alone"),
    ],
)
def test_a_mark_that_cannot_be_read_is_an_error(line: str, complaint: str) -> None:
    with pytest.raises(MarkError, match=complaint):
        parse(line)


def test_marks_leave_the_text_as_it_was_without_them() -> None:
    marked = parse('a = 1  # error: [x] at "a"  # because: is "one" at "a = 1"\nb = 2  # kept\n')
    assert marked.text == "a = 1\nb = 2  # kept\n"
    assert [(mark.kind, mark.line, mark.rule, mark.text, mark.words) for mark in marked.marks] == [
        ("error", 1, "x", "a", ""),
        ("because", 1, "", "a = 1", 'is "one"'),
    ]
