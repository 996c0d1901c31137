"""The command, with an engine that finds words: arguments, exit codes, fixing, and what is written where."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradline import workspace
from gradline.check import CancelledError
from gradline.cli import main
from gradline.disk import Disk
from gradline.edits import Applicability, Edit, Fix
from gradline.findings import Finding, Place, Severity, Step

FIXES = {
    "BAD": ("GOOD", Applicability.SAFE),
    "UGLY": ("FINE", Applicability.UNSAFE),
    "TWICE": ("BAD", Applicability.SAFE),
}


class WordEngine:
    """Every BAD, UGLY and TWICE is a finding with a fix, every LOST one without, every HMM a doubtful one; what says
    ENDLESS could not be followed."""

    CancelledError = CancelledError

    @staticmethod
    def check(project, paths, rules=None, cancelled=None, doubtful=False):
        found = {}
        for path in paths:
            source = project.source(path)
            if source is None:
                continue
            found[path] = tuple(
                Finding(
                    "GL102" if word[0] == "LOST" else "GL101",
                    "detached-loss" if word[0] == "LOST" else "number-backward",
                    Severity.ERROR,
                    Place(path, *word.span()),
                    f"{word[0]} is lost",
                    (Step(Place(path, 0, 1), "it began here"),),
                    frozenset({"widened"}) if word[0] == "HMM" else frozenset(),
                    fixable=word[0] in FIXES,
                )
                for word in re.finditer(r"\b(BAD|UGLY|TWICE|LOST|HMM)\b", source.text)
            )
        endless = [path for path in found if "ENDLESS" in project.source(path).text]
        return SimpleNamespace(findings=found, notes=tuple(f"{path}: a bound was met" for path in endless))

    @staticmethod
    def fix(project, finding):
        text = project.source(finding.place.path).text[finding.place.start : finding.place.end]
        content, applicability = FIXES[text]
        edit = Edit(finding.place.path, finding.place.start, finding.place.end, content)
        return Fix(f"Write {content}", applicability, (edit,))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command in a fresh folder; returns exit code, standard output and standard error."""
    monkeypatch.setattr(workspace, "engine", WordEngine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("GRADLINE_CACHE_DIR", str(tmp_path.parent / f"{tmp_path.name}-cache"))

    def call(*arguments: str):
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def put(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Exit codes


def test_clean(run):
    put("a.py", "x = 1\n")
    assert run("check") == (0, "All checks passed!\n", "")


def test_findings(run):
    put("a.py", "BAD\n")
    code, out, _ = run("check")
    assert code == 1
    assert "error[GL101] number-backward: BAD is lost\n --> a.py:1:1\n" in out
    assert run("check", "--exit-zero")[0] == 0


def test_advice_fails_nothing(run):
    put("gradline.toml", '[severity]\nGL101 = "info"\n')
    put("a.py", "BAD\n")
    assert run("check")[0] == 0


def test_errors_go_before_findings(run):
    put("a.py", "BAD\n")
    code, out, err = run("check", "a.py", "gone.py", "--exit-zero")
    assert code == 2
    assert "BAD is lost" in out
    assert err == "gradline: error: gone.py does not exist\n"


def test_nothing_there(run):
    assert run("check") == (0, "", "gradline: no Python files found there\n")


def test_broken_settings(run):
    put("pyproject.toml", "[tool.gradline]\nselekt = []\n")
    put("a.py", "BAD\n")
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert err.startswith("gradline: ")
    assert "pyproject.toml:2: unknown setting 'selekt' in [tool.gradline]; did you mean 'select'?" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "XY999"], "--select: unknown rule 'XY999'"),
        (["--ignore", "number-backwart"], "did you mean 'number-backward'?"),
        (["--fix", "--diff"], "--fix changes files and --diff does not"),
        (["--watch", "--fix"], "--watch goes with none of"),
        (["--config", "gone.toml"], "gone.toml: can't be read: no such file or directory"),
        (["--config", "a.toml", "--isolated"], "exclude each other"),
        (["--output-file", "a.py/report.json"], "can't be written"),
        ([""], "a path is empty"),
        ([".", ""], "a path is empty"),
        (["--output-file", ""], "--output-file is empty"),
        (["--config", ""], "--config is empty"),
        (["--cache-dir", ""], "--cache-dir is empty"),
        (["--stdin-filename", ""], "--stdin-filename is empty"),
        (["--select", ""], "--select: names no rule"),
        (["--ignore", ","], "--ignore: names no rule"),
        (["-", "--stdin-filename", "x.py", "a.py"], "standard input is one file"),
        (["-", "a.py"], "standard input is one file"),
        (["--stdin-filename", "."], "--stdin-filename is a folder"),
        (["--diff", "--statistics"], "--diff writes a patch and nothing else"),
        (["--diff", "--output-format", "json"], "--diff writes a patch and nothing else"),
        (["--cache-dir", "a.py"], "--cache-dir a.py is no folder"),
    ],
)
def test_what_can_not_be_meant(run, arguments, message):
    put("a.py", "x = 1\n")
    code, _, err = run("check", *arguments)
    assert code == 2
    assert message in err


def test_unknown_arguments(run, capsys):
    for arguments in (["check", "--nope"], ["chekc"], ["check", "--output-format", "pdf"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
    assert main([]) == 2


def test_a_crash_over_one_file_is_said_in_one_line(run, monkeypatch):
    put("a.py", "BAD\n")
    put("b.py", "BOOM\n")
    original = WordEngine.check

    def check(project, paths, **options):
        if any("BOOM" in project.source(path).text for path in paths):
            raise ZeroDivisionError("division by zero")
        return original(project, paths, **options)

    monkeypatch.setattr(WordEngine, "check", staticmethod(check))
    code, out, err = run("check", "--output-format", "concise")
    assert code == 2
    assert out.splitlines()[0].startswith("a.py:1:1: GL101")
    assert err == (
        "gradline: error: b.py could not be analysed: ZeroDivisionError: division by zero"
        " (a bug in gradline; GRADLINE_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("GRADLINE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["check"])


def test_any_other_crash_too(run, monkeypatch):
    put("a.py", "x = 1\n")
    monkeypatch.setattr(Disk, "discover", lambda *_: 1 / 0)
    code, _, err = run("check")
    assert code == 2
    assert "crashed, which is a bug: ZeroDivisionError" in err and "Traceback" not in err


# Choosing


def test_selection(run):
    put("a.py", "BAD LOST\n")

    def codes(*arguments):
        return [
            line.split()[1] for line in run("check", "-q", "--output-format", "concise", *arguments)[1].splitlines()
        ]

    assert codes() == ["GL101", "GL102"]
    assert codes("--select", "GL101,GL3") == ["GL101"]
    assert codes("--ignore", "number-backward") == ["GL102"]
    assert codes("--select", "GL1", "--ignore", "GL101") == ["GL102"]
    put("gradline.toml", 'select = ["GL102"]\n')
    assert codes() == ["GL102"]
    assert codes("--extend-select", "GL101") == ["GL101", "GL102"]
    assert codes("--isolated") == ["GL101", "GL102"]
    assert codes("--config", "gradline.toml", "a.py") == ["GL102"]


def test_doubt_is_not_shown_by_default(run):
    put("a.py", "HMM  # gradline: ignore[GL101]\nHMM\n")
    assert run("check") == (0, "All checks passed!\n", "")
    assert "a.py:2:1" in run("check", "--show-doubtful", "--output-format", "concise")[1]


def test_suppressions(run):
    put("a.py", "BAD  # gradline: ignore[GL101]\nx = 1  # gradline: ignore[GL102]\nBAD  # noqa: GL101\n")
    code, out, _ = run("check", "--output-format", "concise")
    assert code == 0
    assert out.splitlines()[0] == "a.py:2:8: GL001 [*] nothing here for `GL102` to silence"
    assert run("check", "--fix")[0] == 0
    assert Path("a.py").read_text() == "BAD  # gradline: ignore[GL101]\nx = 1\nBAD  # noqa: GL101\n"


def test_settings_of_each_folder(run):
    put("gradline.toml", 'per-file-ignores = { "tests/**" = ["ALL"] }\n')
    put("sub/gradline.toml", '[severity]\nGL101 = "warning"\n')
    for name in ("a.py", "tests/a.py", "sub/a.py"):
        put(name, "BAD\n")
    records = json.loads(run("check", "--output-format", "json")[1])
    assert [(Path(r["filename"]).parent.name, r["severity"]) for r in records][1:] == [("sub", "warning")]


# Output


def test_json_is_alone_on_standard_output(run):
    put("a.py", "BAD ENDLESS\n")
    code, out, err = run("check", "--output-format", "json", "--verbose", "--timings", "gone.py", ".")
    (record,) = json.loads(out)
    assert code == 2
    assert record["fix"]["edits"][0]["content"] == "GOOD"
    assert Path(record["filename"]) == Path("a.py").resolve()
    for said in (
        "gone.py does not exist",
        "a.py: a bound was met",
        "1 file checked",
        "CPU ms  clock ms  what was done",
    ):
        assert said in err


def test_output_file(run):
    put("a.py", "BAD\n")
    assert run("check", "--output-format", "sarif", "-o", "x.sarif") == (1, "", "")
    assert json.loads(Path("x.sarif").read_text())["version"] == "2.1.0"
    assert run("check", "--diff", "-o", "x.patch") == (1, "", "Would fix 1 finding.\n")
    assert Path("x.patch").read_text().endswith("-BAD\n+GOOD\n")


def test_output_that_can_not_be_written_is_said_before_any_work(run, monkeypatch):
    put("a.py", "BAD\n")
    monkeypatch.setattr(Disk, "read", lambda *_: pytest.fail("read"))
    code, out, err = run("check", "-o", "reports/x.sarif")
    assert (code, out) == (2, "")
    assert err == f"gradline: reports/x.sarif: can't be written: there is no folder {Path.cwd() / 'reports'}\n"
    assert not Path("reports").exists()
    assert run("check", "-o", ".")[2] == "gradline: .: can't be written: it is a folder, and a file is needed\n"
    assert "the report would be written over it" in run("check", "--fix", "-o", "./a.py")[2]
    assert Path("a.py").read_text() == "BAD\n"


def test_what_could_not_be_followed_is_said_in_the_summary(run):
    put("a.py", "ENDLESS\n")
    said = "Too large to be followed to the end: 1 program or function (`-v` says which).\n"
    assert run("check") == (0, "All checks passed!\n" + said, "")
    assert run("check", "-q") == (0, "", "")
    put("b.py", "ENDLESS BAD\n")
    _code, out, err = run("check", "--output-format", "concise", "-v")
    assert out.splitlines()[-1] == said.strip().replace("1 program or function", "2 programs or functions")
    assert f"gradline: note: {Path('b.py').resolve().as_posix()}: a bound was met\n" in err


def test_nothing_has_passed_where_something_was_not_checked(run):
    put("a.py", b"x = '\xff'\n")
    put("b.py", "x = 1\n")
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert err.startswith("gradline: error: a.py can't be decoded")


def test_a_fix_of_another_file_is_offered_only_if_that_is_checked(run, monkeypatch):
    put("a.py", "BAD\n")
    put("b.py", "x\n")
    elsewhere = (Path.cwd() / "b.py").as_posix()
    monkeypatch.setattr(
        WordEngine, "fix", staticmethod(lambda p, f: Fix("Do it", Applicability.SAFE, (Edit(elsewhere, 0, 1, "y"),)))
    )
    out = run("check", "a.py")[1]
    assert "help: Do it (`--fix` does it, if you also name b.py)" in " ".join(out.split())
    assert "[*]" not in out and "fixable" not in out
    assert "[*]" not in run("check", "a.py", "--output-format", "concise")[1]
    assert "[*] 1 fixable with the `--fix` option." in run("check", "a.py", "b.py")[1]


def test_names_of_files_can_not_steer_the_terminal(run):
    try:
        put("a\x1b[31m\nb.py", "BAD\n")
    except OSError:
        pytest.skip("this file system has no such names")
    for form in ("full", "concise", "github"):
        code, out, _ = run("check", "--output-format", form)
        assert code == 1
        assert "\x1b" not in out and "a\ufffd[31m\ufffdb.py" in out
    assert "\x1b" not in run("check", "--diff")[1]
    put("a\x1b[31m\nb.py", b"\xff")
    assert "\x1b" not in run("check")[2]


def test_statistics(run):
    put("a.py", "BAD LOST BAD\n")
    assert run("check", "--statistics")[1] == "2  GL101  number-backward\n1  GL102  detached-loss\n"
    assert json.loads(run("check", "--statistics", "--output-format", "json")[1])[1]["count"] == 1


def test_quiet(run):
    put("a.py", "x = 1\n")
    assert run("check", "-q") == (0, "", "")


def test_paths_outside_of_here_are_whole(run, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "b.py"
    other.write_text("BAD\n")
    assert run("check", "--output-format", "concise", str(other))[1].startswith(f"{other.as_posix()}:1:1:")


# Fixing


def test_fix(run):
    put("a.py", "BAD UGLY LOST\n")
    code, out, _ = run("check", "--fix", "--output-format", "concise")
    assert code == 1
    assert Path("a.py").read_text() == "GOOD UGLY LOST\n"
    assert out.splitlines()[2:] == [
        "Fixed 1 finding.",
        "Found 2 errors in 1 file.",
        "1 fixable with `--fix --unsafe-fixes`.",
    ]
    assert run("check", "--fix", "--unsafe-fixes")[0] == 1
    assert Path("a.py").read_text() == "GOOD FINE LOST\n"


def test_fixes_are_applied_until_none_is_left(run):
    put("a.py", "TWICE, BAD\nBAD\n")
    assert run("check", "--fix") == (0, "Fixed 4 findings.\nAll checks passed!\n", "")
    assert Path("a.py").read_text() == "GOOD, GOOD\nGOOD\n"


@pytest.mark.parametrize(
    "data",
    [
        b"BAD\r\nx = 1\r\n",
        b"BAD\rx = 1\r",
        b"BAD",
        b"\xef\xbb\xbfBAD\n",
        b"# coding: latin-1\nBAD = '\xe9'\n",
        b"x = '\xf0\x9d\x9b\x81'; BAD\x0c\ny\xc2\xa0= 1\r\nz\n",
    ],
)
def test_fixing_changes_no_other_byte(run, data):
    put("a.py", data)
    assert run("check", "--fix")[0] == 0
    assert Path("a.py").read_bytes() == data.replace(b"BAD", b"GOOD")


def test_fixing_keeps_permissions_and_links(run):
    target = put("real/a.py", "BAD\n")
    target.chmod(0o754)
    Path("b").mkdir()
    try:
        os.symlink(target.resolve(), "b/link.py")
    except OSError:
        pytest.skip("needs symbolic links")
    assert run("check", "--fix", "b")[0] == 0
    assert Path("b/link.py").is_symlink()
    assert target.read_text() == "GOOD\n"
    if sys.platform != "win32":
        assert target.stat().st_mode & 0o777 == 0o754
    assert sorted(path.name for path in target.parent.iterdir()) == ["a.py"]


def test_a_file_that_can_not_be_written(run, monkeypatch):
    put("a.py", "BAD\n")
    put("b.py", "BAD\n")
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: denied() if str(b).endswith("a.py") else replace(a, b))
    code, _, err = run("check", "--fix")
    assert code == 2
    assert "a.py was not changed: permission denied" in err
    assert (Path("a.py").read_text(), Path("b.py").read_text()) == ("BAD\n", "GOOD\n")
    assert sorted(os.listdir(".")) == ["a.py", "b.py"]


def denied():
    raise PermissionError(13, "Permission denied")


def test_a_file_that_changes_meanwhile_is_left_alone(run, monkeypatch):
    put("a.py", "BAD\n")
    original = WordEngine.fix

    def fix(project, finding):
        put("a.py", "BAD # somebody wrote this\n")
        return original(project, finding)

    monkeypatch.setattr(WordEngine, "fix", staticmethod(fix))
    code, _, err = run("check", "--fix")
    assert code == 2
    assert "it changed while it was being checked" in err
    assert Path("a.py").read_text() == "BAD # somebody wrote this\n"


def test_only_what_was_asked_for_is_changed(run, monkeypatch):
    put("a.py", "BAD\n")
    put("b.py", "x\n")
    elsewhere = (Path.cwd() / "b.py").as_posix()
    monkeypatch.setattr(
        WordEngine, "fix", staticmethod(lambda p, f: Fix("m", Applicability.SAFE, (Edit(elsewhere, 0, 1, "y"),)))
    )
    assert run("check", "--fix", "a.py")[0] == 1
    assert Path("b.py").read_text() == "x\n"


def test_diff(run):
    put("a.py", "x = 1\nBAD\n")
    put("b.py", b"UGLY")
    code, out, err = run("check", "--diff")
    assert (code, err) == (1, "Would fix 1 finding.\n")
    assert out == "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x = 1\n-BAD\n+GOOD\n"
    out = run("check", "--diff", "--unsafe-fixes")[1]
    assert "-UGLY\n\\ No newline at end of file\n+FINE\n\\ No newline at end of file\n" in out
    assert Path("a.py").read_text() == "x = 1\nBAD\n"
    put("a.py", "")
    assert run("check", "--diff") == (0, "", "Would fix 0 findings.\n")


def test_add_ignore(run):
    put("a.py", b"BAD, LOST\r\nx = 1\r\n")
    put("b/c.py", "call(\n    BAD,\n)\n")
    assert run("check", "--add-ignore") == (0, "Silenced 3 findings in 2 files.\n", "")
    assert Path("a.py").read_bytes() == b"BAD, LOST  # gradline: ignore[GL101, GL102]\r\nx = 1\r\n"
    assert Path("b/c.py").read_text() == "call(\n    BAD,\n)  # gradline: ignore[GL101]\n"
    assert run("check") == (0, "All checks passed!\n", "")
    assert run("check", "--add-ignore", "--fix")[0] == 2
    put("a.py", "BAD\n")
    assert run("check", "--add-ignore")[1] == "Silenced 1 finding in 1 file.\n"


def test_add_ignore_silences_advice_too(run):
    put("gradline.toml", '[severity]\nGL101 = "info"\n')
    put("a.py", "BAD\nLOST\n")
    assert run("check", "--add-ignore")[1] == "Silenced 2 findings in 1 file.\n"
    assert run("check") == (0, "All checks passed!\n", "")


def test_what_is_not_python_is_said(run):
    put("a.py", "x = 1\ndef f(:\n    pass\n\nBAD\n")
    code, out, err = run("check", "--output-format", "json")
    assert code == 1 and [entry["code"] for entry in json.loads(out)] == ["GL101"]
    assert err == (
        f"gradline: warning: a.py is not valid Python {sys.version_info[0]}.{sys.version_info[1]} at line 2 "
        "(invalid syntax); what can be read of it was checked\n"
    )
    put("a.py", "def f(:\n")
    assert run("check")[0] == 0
    put("a.py", "x = '\\d'\n")  # a mere warning of Python's
    assert run("check") == (0, "All checks passed!\n", "")


def test_what_could_not_be_written_is_not_counted(run, monkeypatch):
    put("a.py", "BAD\n")
    put("b.py", "BAD BAD\n")
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: denied() if str(b).endswith("a.py") else replace(a, b))
    code, out, _ = run("check", "--add-ignore")
    assert (code, out) == (2, "Silenced 2 findings in 1 file.\n")
    put("b.py", "BAD BAD\n")
    assert run("check", "--fix")[:2] == (2, "Fixed 2 findings.\n")


# Notebooks


def notebook(*cells: str) -> dict:
    records = [{"cell_type": "markdown", "metadata": {}, "source": ["# BAD title"]}]
    records += [
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 3,
            "outputs": [],
            "source": cell.splitlines(keepends=True),
        }
        for cell in cells
    ]
    return {"cells": records, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def test_a_notebook_is_fixed_in_place(run):
    before = json.dumps(
        notebook("%matplotlib inline\nBAD\n", "x = 'é'", "!echo lost\nLOST"), indent=1, ensure_ascii=False
    )
    put("n.ipynb", before)
    code, out, _ = run("check", "--output-format", "concise")
    assert code == 1
    assert [line.split()[:3] for line in out.splitlines()[:2]] == [
        ["n.ipynb:cell", "2:2:1:", "GL101"],
        ["n.ipynb:cell", "4:2:1:", "GL102"],
    ]
    assert run("check", "--diff")[1] == (
        "--- a/n.ipynb:cell 2\n+++ b/n.ipynb:cell 2\n@@ -1,2 +1,2 @@\n %matplotlib inline\n-BAD\n+GOOD\n"
    )
    assert run("check", "--fix")[0] == 1
    assert Path("n.ipynb").read_text(encoding="utf-8") == before.replace('"BAD\\n"', '"GOOD\\n"')
    assert run("check", "--add-ignore")[0] == 0
    assert json.loads(Path("n.ipynb").read_text(encoding="utf-8"))["cells"][3]["source"] == [
        "!echo lost\n",
        "LOST  # gradline: ignore[GL102]",
    ]
    assert run("check")[0] == 0


@pytest.mark.parametrize(
    "written",
    [
        '["a = 1\\n","BAD"]',
        '["a = 1\\n", "BAD"]',
        '[ "a = 1\\n" , "BAD" ]',
        '["BAD"]',
        '"BAD"',
        '[\n"a = 1\\n",\n"BAD"\n]',
    ],
)
def test_a_notebook_keeps_its_spaces(run, written):
    before = f'{{"cells":[{{"cell_type":"code","metadata":{{}},"source":{written}}}],"metadata":{{}},"nbformat":4}}'
    put("n.ipynb", before)
    assert run("check", "--fix")[0] == 0
    assert Path("n.ipynb").read_text() == before.replace("BAD", "GOOD")


def test_a_fix_that_would_write_over_a_magic_is_none(run, monkeypatch):
    before = json.dumps(notebook("BAD\n%matplotlib inline\nx = 1", "y = 2"))
    put("n.ipynb", before)
    path = Path("n.ipynb").resolve().as_posix()
    for start, end in ((0, 15), (10, 36), (30, 40)):
        fix = Fix("m", Applicability.SAFE, (Edit(path, start, end, "z"),))
        monkeypatch.setattr(WordEngine, "fix", staticmethod(lambda p, f, fix=fix: fix))
        assert run("check", "--fix")[0] == 1
        assert Path("n.ipynb").read_text() == before


# Standard input


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input(run, monkeypatch):
    put("sub/gradline.toml", 'ignore = ["GL101"]\n')
    monkeypatch.setattr(sys, "stdin", Bytes(b"BAD LOST\n"))
    code, out, _ = run("check", "--stdin-filename", "sub/x.py", "--output-format", "concise", "-")
    assert (code, out.splitlines()[0]) == (1, "sub/x.py:1:5: GL102 LOST is lost")
    monkeypatch.setattr(sys, "stdin", Bytes(b"BAD\n"))
    assert run("check", "-", "--output-format", "concise")[1].startswith("stdin.py:1:1: GL101")


@pytest.mark.parametrize(("data", "code"), [(b"BAD\r\n", 0), (b"x = 1\n", 0), (b"LOST\n", 1)])
def test_fixing_standard_input(tmp_path, monkeypatch, capfdbinary, data, code):
    monkeypatch.setattr(workspace, "engine", WordEngine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Bytes(data))
    assert main(["check", "--fix", "--stdin-filename", "x.py"]) == code
    assert capfdbinary.readouterr().out == data.replace(b"BAD", b"GOOD")


def test_standard_input_that_is_nothing(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Bytes(b"x = 1"))
    code, out, err = run("check", "--stdin-filename", "x.ipynb")
    assert (code, out) == (2, "") and err.startswith("gradline: error: x.ipynb can't be read: not JSON")
    monkeypatch.setattr("gradline.disk.MAX_BYTES", 4)
    monkeypatch.setattr(sys, "stdin", Bytes(b"x = 1"))
    assert run("check", "-") == (2, "", "gradline: standard input: is longer than 0 MB: no program is\n")


# Rules


def test_rules(run):
    code, out, _ = run("rules")
    assert code == 0
    assert re.search(r"^GL102  detached-loss +error +\S", out, re.MULTILINE)
    records = json.loads(run("rules", "--output-format", "json")[1])
    assert {"code", "name", "summary", "severity", "family", "fix", "url"} == set(records[0])
    assert [record["code"] for record in records] == sorted(record["code"] for record in records)


def test_explain(run):
    for word in ("GL001", "unused_suppression"):
        code, out, _ = run("explain", word)
        assert code == 0
        assert out.startswith("# unused-suppression (GL001)")
    code, _, err = run("explain", "detached-los")
    assert code == 2
    assert "unknown rule 'detached-los'; did you mean 'detached-loss'?" in err


def test_explain_a_family(run):
    code, out, _ = run("explain", "gl1")
    assert code == 0
    assert out.startswith("# The line is cut (GL1)\n")
    assert "\n- `GL102` detached-loss (error): " in out and "GL2" not in out
    records = json.loads(run("rules", "--output-format", "json")[1])
    for digit in {record["code"][2] for record in records}:
        out = run("explain", f"GL{digit}")[1]
        assert re.findall(r"^- `(GL\d+)`", out, re.MULTILINE) == [r["code"] for r in records if r["code"][2] == digit]
    assert run("explain", "GL")[1].count("\n- `GL") == len({record["code"][2] for record in records})
    assert run("explain", "GL10")[0] == run("explain", "GLX")[0] == 2


def test_each_rule_has_a_page(run):
    for record in json.loads(run("rules", "--output-format", "json")[1]):
        code, out, _ = run("explain", record["code"])
        assert code == 0
        assert out.startswith(f"# {record['name']} ({record['code']})")


# The process


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "gradline", *arguments], capture_output=True, text=True, **options)


def test_version():
    assert re.fullmatch(r"gradline \d+\.\d+\.\d+\S*\n", process("--version").stdout)


def test_help_fits_and_offers_only_what_is_there():
    text = process("--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    for command in re.findall(r"^    (\w+) ", text, re.MULTILINE):
        if command not in ("server", "probe"):
            assert process(command, "--help").returncode == 0
    assert max(map(len, process("check", "--help").stdout.splitlines())) <= 80


def test_starting_is_cheap():
    code = "import sys, gradline.cli as c; c._parser(); print([m for m in ('rich', 'libcst', 'jedi', 'pygls', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_reader_that_stops_reading_is_no_error():
    command = subprocess.Popen(
        [sys.executable, "-m", "gradline", "rules"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout and command.stderr
    command.stdout.close()
    assert command.stderr.read() == ""
    command.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of Unix")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{gradline} check a.py >&-", 0, ""),
        ("{gradline} check gone.py 2>&-", 2, ""),
        ("mkdir x && cd x && rmdir ../x && {gradline} check", 2, "gradline: the current folder is gone: change to one that is there\n"),
        ("{gradline} rules > /dev/full", 2, "gradline: the output can't be written: no space left on device\n"),
        ("{gradline} check a.py -o /dev/full", 2, "gradline: the output can't be written: no space left on device\n"),
    ],
)  # fmt: skip
def test_a_world_that_is_not_as_it_should_be(tmp_path, line, code, said):
    if "/dev/full" in line and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    (tmp_path / "a.py").write_text("x = 1\n")
    line = line.format(gradline=f"'{sys.executable}' -m gradline")
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, said)


# Watching


def test_watch(run, monkeypatch):
    from gradline.cli import watch

    put("a.py", "BAD\n")
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) > 1:
            raise KeyboardInterrupt
        put("a.py", "GOOD, and longer\n")

    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=sleep, time_ns=lambda: 2**63))
    code, out, err = run("check", "--watch", "--output-format", "concise")
    assert code == 0
    assert out.splitlines()[0].startswith("a.py:1:1: GL101")
    assert out.splitlines()[-1] == "All checks passed!"
    assert err.count("watching for changes") == 2
