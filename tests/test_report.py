"""The output formats, on findings that are made by hand; no analysis runs here."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree

import pytest

from gradline import notebooks
from gradline.config import catalog
from gradline.edits import Applicability, Edit, Fix
from gradline.findings import Finding, Place, Severity, Step
from gradline.report import FORMATS, Entry, Report, write
from gradline.report.terminal import cells, wants_color
from gradline.text import Source

TRAIN = "import torch\nimport utils\n\nmodel = torch.nn.Linear(2, 1)\nloss = model(x).mean()\nloss.backward()\nprint(loss)\n"
UTILS = "import torch\n\n# faster\ntorch.set_grad_enabled(False)\nTABLE = torch.arange(9)\n"
FILES = {"/p/train.py": Source(TRAIN, "/p/train.py"), "/p/utils.py": Source(UTILS, "/p/utils.py")}


def place(path: str, text: str, files=FILES) -> Place:
    start = files[path].text.index(text)
    return Place(path, start, start + len(text))


SWITCH = place("/p/utils.py", "torch.set_grad_enabled(False)")
VICTIM = Finding(
    "GL202",
    "backward-under-grad-off",
    Severity.ERROR,
    place("/p/train.py", "loss.backward()"),
    "`loss` was computed while gradients were off for the whole process, so backward() raises",
    (
        Step(place("/p/train.py", "import utils"), "importing `utils` runs `utils.py`"),
        Step(SWITCH, "which turns gradients off"),
    ),
)
ORIGIN = Finding(
    "GL201", "grad-mode-left-off", Severity.WARNING, SWITCH, "100% of what follows has no gradients", fixable=True
)
FIX = Fix(
    "Switch gradients off only for what follows",
    Applicability.SAFE,
    (Edit("/p/utils.py", SWITCH.start, len(UTILS), "with torch.no_grad():\n    TABLE = torch.arange(9)\n"),),
)


def report(*entries: Entry, files=FILES, **options) -> Report:
    chosen = entries or (Entry(VICTIM), Entry(ORIGIN, FIX))
    return Report(chosen, files.get, catalog(), "/p", list(files), **options)


def written(form: str, *entries: Entry, **options) -> str:
    stream = io.StringIO()
    write(form, report(*entries, **options), stream)
    return stream.getvalue()


FULL = """\
error[GL202] backward-under-grad-off: `loss` was computed while gradients were
  off for the whole process, so backward() raises
 --> train.py:6:1
  |
4 | model = torch.nn.Linear(2, 1)
5 | loss = model(x).mean()
6 | loss.backward()
  | ^^^^^^^^^^^^^^^
7 | print(loss)
8 |
  |
1: importing `utils` runs `utils.py`
 --> train.py:2:1
  |
2 | import utils
  | ------------
  |
2: which turns gradients off
 --> utils.py:4:1
  |
4 | torch.set_grad_enabled(False)
  | -----------------------------
  |
  = more: gradline explain backward-under-grad-off

warning[GL201] grad-mode-left-off: 100% of what follows has no gradients
 --> utils.py:4:1
  |
2 |
3 | # faster
4 | torch.set_grad_enabled(False)
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
5 | TABLE = torch.arange(9)
6 |
  |
  = help: Switch gradients off only for what follows (`--fix` does it)
  |
4 - torch.set_grad_enabled(False)
5 - TABLE = torch.arange(9)
4 + with torch.no_grad():
5 +     TABLE = torch.arange(9)
  = more: gradline explain grad-mode-left-off

Found 1 error and 1 warning in 2 files.
[*] 1 fixable with the `--fix` option.
"""


def test_full():
    assert written("full") == FULL


def test_a_fix_of_both_ends_is_shown_where_it_edits():
    text = written("full", Entry(VICTIM, FIX), Entry(ORIGIN, FIX))
    victim, origin = text.split("\n\n")[:2]
    assert "= help: " in victim and "+ with" not in victim
    assert "= help: " in origin and "+ with" in origin
    assert "+ with" in written("full", Entry(VICTIM, FIX))


def test_a_fix_of_lines_apart_shows_the_gap():
    edits = Edit("/p/utils.py", 0, 0, "import os\n"), Edit("/p/utils.py", SWITCH.start, SWITCH.end, "pass")
    text = written("full", Entry(ORIGIN, FIX._replace(edits=edits)))
    assert "  |\n1 + import os\n.\n4 - torch.set_grad_enabled(False)\n5 + pass\n  = more" in text


def notebook(*cells: str) -> Source:
    """A notebook with a heading before its code cells."""
    records = [{"cell_type": "markdown", "metadata": {}, "source": "# title"}]
    records += [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return notebooks.read(json.dumps({"cells": records, "metadata": {}, "nbformat": 4})).source("/p/n.ipynb")


def test_a_notebook_is_shown_by_cells():
    source = notebook("import torch\n%matplotlib inline", "x = 1\n!ls\nloss.backward()\n", "y = 2")
    files = {"/p/n.ipynb": source}
    finding = VICTIM._replace(
        place=place("/p/n.ipynb", "loss.backward()", files),
        message="raises",
        trail=(Step(place("/p/n.ipynb", "import torch", files), "here"),),
    )
    start = source.text.index("x = 1")
    fix = Fix("Say two", Applicability.SAFE, (Edit("/p/n.ipynb", start + 4, start + 5, "2"),))
    text = written("full", Entry(finding, fix), files=files)
    assert text.split(" = more")[0] == (
        """\
error[GL202] backward-under-grad-off: raises
 --> n.ipynb:cell 3:3:1
  |
1 | x = 1
2 | !ls
3 | loss.backward()
  | ^^^^^^^^^^^^^^^
4 |
  |
1: here
 --> n.ipynb:cell 2:1:1
  |
1 | import torch
  | ------------
  |
  = help: Say two (`--fix` does it)
  |
1 - x = 1
1 + x = 2
 """
    )
    (record,) = json.loads(written("json", Entry(finding, fix), files=files))
    assert (record["cell"], record["location"], record["related"][0]["cell"]) == (3, {"row": 3, "column": 1}, 2)
    assert record["fix"]["edits"] == [
        {"content": "2", "location": {"row": 1, "column": 5}, "end_location": {"row": 1, "column": 6}, "cell": 3}
    ]
    assert written("concise", Entry(finding), files=files).startswith("n.ipynb:cell 3:3:1: GL202")
    for form in FORMATS:
        written(form, Entry(finding, fix), files=files)


def test_colours_change_nothing_else():
    assert re.sub(r"\x1b\[[\d;]*m", "", written("full", color=True)) == written("full")
    assert "\x1b" not in written("full")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_full_keeps_to_the_width(width):
    long = Source("x = " + "f(" * 200 + "1" + ")" * 200 + "\n" + "\t" * 3 + "語" * 200 + "\n", "/p/long.py")
    inner = Finding("GL101", "number-backward", Severity.ERROR, Place("/p/long.py", 300, 310), "word " * 60)
    wide = inner._replace(place=Place("/p/long.py", len(long.text) - 50, len(long.text) - 40))
    files = FILES | {"/p/long.py": long}
    text = written("full", Entry(VICTIM), Entry(inner), Entry(wide), files=files, width=width)
    for line in text.splitlines():
        assert cells(line) <= width or "gradline explain" in line, line


def test_marks_stand_under_what_they_mark():
    for line, word in (("\tloss.backward()", "loss"), ("語 = 1; loss.backward()", "loss"), ("a\u200bé; loss", "loss")):
        files = {"/p/a.py": Source(line + "\n", "/p/a.py")}
        finding = VICTIM._replace(place=place("/p/a.py", word, files), trail=())
        rows = written("full", Entry(finding), files=files).splitlines()
        at = next(index for index, row in enumerate(rows) if row.endswith("^^^^"))
        before = rows[at - 1][: rows[at - 1].index(word)]
        assert cells(before) == cells(rows[at]) - len(word)


def test_terminals_get_no_control_characters():
    files = {"/p/a.py": Source("x = '\x1b[31m\x07'; y = 1\n", "/p/a.py")}
    finding = VICTIM._replace(place=place("/p/a.py", "y = 1", files), trail=(), message="says \x1b[2J this")
    for form in ("full", "concise", "github"):
        assert not {"\x1b", "\x07"} & set(written(form, Entry(finding), files=files))


def test_places_over_many_lines():
    text = "loss = f(\n" + "    1,\n" * 20 + ")\n"
    files = {"/p/a.py": Source(text, "/p/a.py")}
    finding = VICTIM._replace(place=place("/p/a.py", text[7:-1], files), trail=())
    rows = written("full", Entry(finding), files=files).splitlines()
    assert len(rows) < 20
    assert "..." in " ".join(rows) or ".." in " ".join(rows)


def test_a_file_that_is_gone_is_still_reported():
    gone = VICTIM._replace(place=Place("/p/gone.py", 5, 9), trail=(Step(Place("/q/x.py", 0, 3), "there"),))
    for form in FORMATS:
        assert "gone.py" in written(form, Entry(gone))


def test_concise():
    assert written("concise").splitlines()[:2] == [
        "train.py:6:1: GL202 `loss` was computed while gradients were off for the whole process, so backward() raises",
        "utils.py:4:1: GL201 [*] 100% of what follows has no gradients",
    ]


def test_json():
    records = json.loads(written("json"))
    assert [sorted(record) for record in records] == [
        sorted(
            [
                "code",
                "name",
                "severity",
                "message",
                "filename",
                "location",
                "end_location",
                "cell",
                "related",
                "fix",
                "url",
            ]
        )
    ] * 2
    victim, origin = records
    assert (victim["code"], victim["severity"], victim["filename"]) == ("GL202", "error", "/p/train.py")
    assert (victim["location"], victim["end_location"]) == ({"row": 6, "column": 1}, {"row": 6, "column": 16})
    assert (victim["cell"], victim["fix"]) == (None, None)
    assert victim["related"][1] == {
        "filename": "/p/utils.py",
        "location": {"row": 4, "column": 1},
        "end_location": {"row": 4, "column": 30},
        "message": "which turns gradients off",
    }
    assert origin["fix"] == {
        "applicability": "safe",
        "message": FIX.message,
        "edits": [
            {
                "content": FIX.edits[0].content,
                "location": {"row": 4, "column": 1},
                "end_location": {"row": 6, "column": 1},
            }
        ],
    }
    assert origin["url"].endswith("/grad_mode_left_off.md")


def test_columns_count_code_points():
    files = {"/p/a.py": Source("# é\r\n𝛁 = 1; loss\r\n", "/p/a.py")}
    finding = VICTIM._replace(place=place("/p/a.py", "loss", files), trail=())
    (record,) = json.loads(written("json", Entry(finding), files=files))
    assert (record["location"], record["end_location"]) == ({"row": 2, "column": 8}, {"row": 2, "column": 12})


def test_sarif_is_valid():
    model = pytest.importorskip("pydantic_sarif.model")
    log = json.loads(written("sarif"))
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log)
    (run,) = log["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["GL201", "GL202"]
    victim, origin = run["results"]
    assert run["tool"]["driver"]["rules"][victim["ruleIndex"]]["id"] == victim["ruleId"] == "GL202"
    flow = [step["location"] for step in victim["codeFlows"][0]["threadFlows"][0]["locations"]]
    where = [
        (step["physicalLocation"]["artifactLocation"]["uri"], step["physicalLocation"]["region"]["startLine"])
        for step in flow
    ]
    assert where == [("utils.py", 4), ("train.py", 2), ("train.py", 6)]
    (change,) = origin["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == FIX.edits[0].content
    assert json.loads(written("sarif"))["runs"][0]["results"][0]["partialFingerprints"] == victim["partialFingerprints"]


def test_fingerprints_stay_when_lines_move_and_differ_for_twins():
    def prints(text: str) -> list[str]:
        files = {"/p/a.py": Source(text, "/p/a.py")}
        found = [match.start() for match in re.finditer("loss", text)]
        entries = [Entry(VICTIM._replace(place=Place("/p/a.py", at, at + 4), trail=())) for at in found]
        return [record["fingerprint"] for record in json.loads(written("gitlab", *entries, files=files))]

    first = prints("loss\nloss\n")
    assert len(set(first)) == 2
    assert prints("\n\n# moved\nloss\nloss\n") == first


def test_github():
    first, second = written("github").splitlines()
    assert first.startswith(
        "::error title=gradline (GL202 backward-under-grad-off),file=train.py,line=6,endLine=6,col=1,endColumn=16::GL202 "
    )
    assert first.endswith(
        "%0A1. train.py:2: importing `utils` runs `utils.py`%0A2. utils.py:4: which turns gradients off"
    )
    assert second.startswith("::warning ") and "100%25 of what" in second


def test_gitlab():
    first, second = json.loads(written("gitlab"))
    assert (first["severity"], second["severity"]) == ("critical", "major")
    assert first["location"]["path"] == "train.py"
    assert first["location"]["positions"]["begin"] == {"line": 6, "column": 1}


def test_junit():
    advice = ORIGIN._replace(severity=Severity.INFO)
    root = ElementTree.fromstring(written("junit", Entry(VICTIM), Entry(advice)).split("\n", 1)[1])
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    names = [(suite.get("name"), len(suite.findall("testcase/failure"))) for suite in root]
    assert names == [("train.py", 1), ("utils.py", 0)]
    bad = VICTIM._replace(message="a\x00b <&>")
    ElementTree.fromstring(written("junit", Entry(bad)).split("\n", 1)[1])


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_found(form):
    stream = io.StringIO()
    write(form, Report((), FILES.get, catalog(), "/p", list(FILES)), stream)
    text = stream.getvalue()
    if form in ("full", "concise"):
        assert text == "All checks passed!\n"
    elif form in ("json", "gitlab"):
        assert json.loads(text) == []
    elif form == "github":
        assert text == ""


def test_summary():
    advice = Entry(ORIGIN._replace(severity=Severity.INFO))
    assert written("full", advice).endswith("Found 1 piece of advice in 1 file.\n")
    unsafe = Entry(ORIGIN, FIX._replace(applicability=Applicability.UNSAFE))
    assert written("concise", unsafe).endswith("1 fixable with `--fix --unsafe-fixes`.\n")
    assert written("concise", unsafe, fixed=2).splitlines()[1] == "Fixed 2 findings."
    assert len(written("concise", unsafe, summary=False).splitlines()) == 1


def test_colour_is_for_terminals(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color("auto", Terminal()) and not wants_color("auto", io.StringIO())
    assert wants_color("always", io.StringIO()) and not wants_color("never", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color("auto", Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert wants_color("auto", io.StringIO())
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_color("auto", Terminal())
