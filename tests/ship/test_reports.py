"""Every output format and mode, as a user of the real command has it, on a project with everything that is awkward."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from gradline.text import Source

ROOT = Path(__file__).parents[2]
BUG = (
    "import torch\n\nmodel = torch.nn.Linear(2, 1)\n{}loss = model(torch.ones(3, 2)).mean().detach()\nloss.backward()\n"
)
ODD = "sp ace, x:y%é😀.py" if sys.platform != "win32" else "sp ace, xy%é😀.py"
PATIENCE = 60.0  # seconds for a process to say something; only one that hangs takes them


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    top = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "examples" / "midnight", top / "midnight", ignore=shutil.ignore_patterns("__pycache__"))
    (top / ODD).write_text(BUG.format("# 語 𝛁 <&> ]]> `x`\n"), encoding="utf-8")
    (top / "crlf.py").write_bytes(BUG.format("").replace("\n", "\r\n").encode("utf-8-sig"))
    (top / "advice.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": text} for text in ("%time\n", BUG.format(""))
    ]
    (top / "n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (top / "clean.py").write_text("x = 1\n")
    return top


def check(folder: Path, *arguments: str, code: int = 1, said: str = "") -> str:
    """What `gradline check` writes to standard output."""
    environ = {**os.environ, "GRADLINE_CACHE_DIR": str(folder.with_name(f"{folder.name}-cache")), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "gradline", "check", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr.decode()) == (code, said)
    return done.stdout.decode()


@pytest.fixture(scope="module")
def records(project) -> list[dict[str, Any]]:
    """The findings, as JSON has them: what the other formats are compared with."""
    return json.loads(check(project, "--output-format", "json"))


def places(project: Path, records: list[dict[str, Any]], fails: bool = False) -> list[tuple[str, str, int]]:
    return sorted(
        (Path(record["filename"]).relative_to(project).as_posix(), record["code"], record["location"]["row"])
        for record in records
        if not fails or record["severity"] in ("error", "warning")
    )


def test_json(project, records):
    assert {record["code"] for record in records} >= {"GL102", "GL201", "GL202", "GL604"}
    assert {record["severity"] for record in records} == {"error", "info"}
    for record in records:
        start, end = (tuple(record[key].values()) for key in ("location", "end_location"))
        assert (1, 1) <= start < end
        if record["cell"] is None:
            text = Path(record["filename"]).read_bytes().decode("utf-8-sig")
            lines = Source(text)
            line = lines.line_text(record["location"]["row"] - 1)
            if record["code"] == "GL102":
                assert line[start[1] - 1 : end[1] - 1] == "loss"


def test_the_fixes_of_json_are_enough_to_fix(project, records, tmp_path):
    """With nothing but the report, somebody else's tool makes what `--fix` makes."""
    ours, theirs = (shutil.copytree(project, tmp_path / name) for name in ("ours", "theirs"))
    check(ours, "--fix", "-q", code=0)
    seen = set()
    for record in records:
        if not record["fix"] or record["fix"]["applicability"] != "safe" or record["cell"] is not None:
            continue
        edits = {}
        for edit in record["fix"]["edits"]:
            name = Path(edit.get("filename", record["filename"])).relative_to(project)
            edits.setdefault(name, []).append({key: edit[key] for key in ("content", "location", "end_location")})
        for name, found in edits.items():
            if (name, json.dumps(found)) in seen:
                continue
            seen.add((name, json.dumps(found)))
            data = (theirs / name).read_bytes()
            text = data.decode("utf-8-sig")
            source = Source(text)
            for edit in sorted(found, key=lambda edit: (-edit["location"]["row"], -edit["location"]["column"])):
                start, end = (
                    source.offset(at["row"] - 1, at["column"] - 1) for at in (edit["location"], edit["end_location"])
                )
                text = text[:start] + edit["content"] + text[end:]
            bom = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
            (theirs / name).write_bytes(text.encode(bom))
    for path in ours.rglob("*.py"):
        assert path.read_bytes() == (theirs / path.relative_to(ours)).read_bytes(), path.name


def test_concise_and_full(project, records):
    concise = check(project, "--output-format", "concise").splitlines()
    wanted = re.compile(r"(.+?):(?:cell \d+:)?(\d+):(\d+): (GL\d{3}) (?:\[\*\] )?\S.*")
    found = sorted((match[1], match[4], int(match[2])) for line in concise if (match := wanted.fullmatch(line)))
    assert found == places(project, records)
    full = check(project)
    assert len(re.findall(r"^(?:error|warning|info|hint)\[GL\d+\]", full, re.MULTILINE)) == len(records)
    assert full.splitlines()[-2:] == concise[-2:]
    assert check(project, "clean.py", code=0) == "All checks passed!\n"


def test_sarif(project, records):
    """The model is generated from the schema of SARIF 2.1.0; what it would let pass is looked at below."""
    model = pytest.importorskip("pydantic_sarif.model")
    log = json.loads(check(project, "--output-format", "sarif"))
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log)
    broken = json.loads(json.dumps(log))
    broken["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(ValueError):
        model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(broken)
    (run,) = log["runs"]
    found = []
    for result in run["results"]:
        (location,) = result["locations"]
        where = location["physicalLocation"]
        assert where["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
        found.append((unquote(where["artifactLocation"]["uri"]), result["ruleId"], where["region"]["startLine"]))
        assert (project / found[-1][0]).is_file()
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert sorted(found) == places(project, records)
    prints = [result["partialFingerprints"]["gradline/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    assert all(
        uri["uri"].startswith("file:///") and uri["uri"].endswith("/") for uri in run["originalUriBaseIds"].values()
    )


# What Jenkins' junit-10.xsd allows, the narrowest of the schemas in use: attributes and children of each element.
JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package", "file"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name", "time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": ({"type", "message"}, set()),
}  # fmt: skip


def test_junit(project, records):
    root = ElementTree.fromstring(check(project, "--output-format", "junit").encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = JUNIT[element.tag]
        assert set(element.attrib) <= attributes and {child.tag for child in element} <= children
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        names = [(case.get("classname"), case.get("name")) for case in cases]
        assert len(set(names)) == len(names)
    failing = places(project, records, fails=True)
    assert (root.get("failures"), len(list(root.iter("failure")))) == (str(len(failing)), len(failing))
    assert {suite.get("name") for suite in root} >= {name for name, _, _ in failing} | {"clean.py"}


def test_gitlab(project, records):
    """The subset of Code Climate's format that GitLab documents."""
    found = json.loads(check(project, "--output-format", "gitlab"))
    for item in found:
        assert set(item) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert all(isinstance(item[key], str) and item[key] for key in ("description", "check_name", "fingerprint"))
        assert item["severity"] in ("info", "minor", "major", "critical", "blocker")
        path, begin = item["location"]["path"], item["location"]["positions"]["begin"]
        assert (project / path).is_file() and not path.startswith(("/", "./"))
        assert set(begin) == {"line", "column"} and min(begin.values()) >= 1
    assert len({item["fingerprint"] for item in found}) == len(found)
    assert sorted((item["location"]["path"], item["location"]["positions"]["begin"]["line"]) for item in found) == [
        (name, row) for name, _, row in sorted(places(project, records), key=lambda place: (place[0], place[2]))
    ]


def test_github(project, records):
    """As the runner reads workflow commands: `::error key=value,...::message`, with what is escaped put back."""
    found = []
    for line in check(project, "--output-format", "github").splitlines():
        level, properties, message = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.+)", line).groups()  # type: ignore[union-attr]
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        for escaped, char in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
            pairs = {key: value.replace(escaped, char) for key, value in pairs.items()}
        assert set(pairs) <= {"title", "file", "line", "endLine", "col", "endColumn"}
        assert (project / pairs["file"]).is_file() and level in ("error", "notice")
        found.append((pairs["file"], re.search(r"GL\d+", message)[0], int(pairs["line"])))  # type: ignore[index]
    assert sorted(found) == places(project, records)


def test_statistics(project, records):
    lines = check(project, "--statistics").splitlines()
    counted = {code: int(count) for count, code, _ in (line.split() for line in lines)}
    assert counted == {code: sum(record["code"] == code for record in records) for code in counted}
    assert sum(counted.values()) == len(records)
    assert list(counted.values()) == sorted(counted.values(), reverse=True)
    assert {
        item["code"]: item["count"] for item in json.loads(check(project, "--statistics", "--output-format", "json"))
    } == counted


def test_a_diff_is_a_patch(project, tmp_path):
    """git makes of the diff what `--fix` makes."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    ours, theirs = (shutil.copytree(project, tmp_path / name) for name in ("ours", "theirs"))
    for folder in (ours, theirs):
        (folder / "n.ipynb").unlink()  # the diff of a notebook is one of its cells
    diff = check(theirs, "--diff", "-q")
    assert diff == check(theirs, "--diff", "-q")
    check(ours, "--fix", "-q", code=0)
    done = subprocess.run(["git", "apply", "-p1", "-"], cwd=theirs, input=diff.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    for path in ours.rglob("*.py"):
        assert path.read_bytes() == (theirs / path.relative_to(ours)).read_bytes(), path.name
    assert check(theirs, "--diff", "-q", code=0) == ""


def test_a_baseline(project, records, tmp_path):
    """What is found today is silenced, what comes tomorrow is not, and the programs stay what they were."""
    folder = shutil.copytree(project, tmp_path / "legacy")
    before = {path: ast.dump(ast.parse(path.read_bytes())) for path in folder.rglob("*.py")}
    files = len({name for name, _, _ in places(project, records)})
    said = check(folder, "--add-ignore", code=0)
    assert said == f"Silenced {len(records)} findings in {files} files.\n"
    assert check(folder, "-q", "--output-format", "concise", code=0) == ""
    assert {path: ast.dump(ast.parse(path.read_bytes())) for path in folder.rglob("*.py")} == before
    assert (folder / "crlf.py").read_bytes().count(b"\r\n") == (project / "crlf.py").read_bytes().count(b"\r\n")
    (folder / "new.py").write_text(BUG.format(""))
    assert [
        line.split(":")[0] for line in check(folder, "-q", "--output-format", "concise", "--ignore", "GL6").splitlines()
    ] == ["new.py"]
    # a comment that silences nothing any more is said, and goes
    (folder / "crlf.py").write_text("x = 1  # gradline: ignore[GL102]\n")
    assert "crlf.py:1:8: GL001" in check(folder, "-q", "--output-format", "concise")
    check(folder, "--fix", "-q", "crlf.py", code=0)
    assert (folder / "crlf.py").read_text() == "x = 1\n"


def _heeds_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a job in the background is started without


class Watching:
    """A `gradline check --watch` that runs; `round` is what it says until it waits again."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-u", "-m", "gradline", "check", "--watch", "--output-format", "concise", *options]
        environ = {**os.environ, "GRADLINE_CACHE_DIR": str(folder.with_name(f"{folder.name}-cache"))}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            preexec_fn=_heeds_interrupts if os.name == "posix" else None,
        )
        self._lines: list[str] = []
        self._new = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self._new:
                self._lines.append(line.rstrip("\n"))
                self._new.notify()

    def round(self) -> list[str]:
        end = time.monotonic() + PATIENCE
        with self._new:
            while not any("watching for changes" in line for line in self._lines):
                assert self._new.wait(end - time.monotonic()), f"nothing came: {self._lines}"
            at = next(i for i, line in enumerate(self._lines) if "watching for changes" in line)
            said, self._lines = self._lines[:at], self._lines[at + 1 :]
        return said

    def until(self, beginning: str) -> None:
        """Waits for a round that begins so. A file that is being written may be seen half written before."""
        end = time.monotonic() + PATIENCE
        while not (said := self.round()) or not said[0].startswith(beginning):
            assert time.monotonic() < end, f"the last round said {said}"

    def is_quiet(self, seconds: float) -> bool:
        time.sleep(seconds)
        return not self._lines

    def stop(self) -> int:
        self.process.send_signal(2)
        return self.process.wait(PATIENCE)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C can't be sent to one process there")
@pytest.mark.parametrize("options", [[], ["--no-cache"]], ids=["cache", "no-cache"])
def test_watch(tmp_path, options):
    (tmp_path / "train.py").write_text(BUG.format(""))
    watching = Watching(tmp_path, *options)
    try:
        watching.until("train.py:5:1: GL102")
        (tmp_path / "train.py").write_text(BUG.format("").replace(".detach()", ""))  # at once: no change is too early
        watching.until("All checks passed!")
        # a file in a folder that had none
        helper = tmp_path / "more" / "helper.py"
        helper.parent.mkdir()
        time.sleep(1)
        helper.write_text(BUG.format(""))
        watching.until("more/helper.py:5:1: GL102")
        helper.write_text("def double(x):\n    return x.item()\n")
        (tmp_path / "train.py").write_text(
            "import torch\nfrom more.helper import double\nmodel = torch.nn.Linear(1, 1)\n"
            "loss = double(model(torch.ones(1, 1)).sum())\nloss.backward()\n"
        )
        watching.until("train.py:5:1: GL101")
        # what is imported changes, and settings do
        helper.write_text("def double(x):\n    return 2 * x\n")
        watching.until("All checks passed!")
        helper.write_text("def double(x):\n    return x.item()\n")
        watching.until("train.py:5:1: GL101")
        (tmp_path / "gradline.toml").write_text('ignore = ["GL101"]\n')
        watching.until("All checks passed!")
        (tmp_path / "gradline.toml").write_text("ignore = [\n")
        watching.until("gradline: ")
        (tmp_path / "gradline.toml").unlink()
        watching.until("train.py:5:1: GL101")
        (tmp_path / ".gitignore").write_text("train.py\n")
        watching.until("All checks passed!")
        (tmp_path / ".gitignore").write_text("# nothing\n")
        watching.until("train.py:5:1: GL101")
        (tmp_path / "train.py").unlink()
        watching.until("All checks passed!")
        assert watching.is_quiet(3), "it checks again and again"
        assert watching.stop() == 0
    finally:
        watching.process.kill()
        watching.process.wait()
