"""What a real run of the probe says is shown beside the code until the code changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .client import Client
from .test_real import CAPABILITIES, MIDNIGHT

pytest.importorskip("torch")
SERVER = [sys.executable, "-m", "gradline", "server"]
ALL = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe") / "midnight"
    return Path(shutil.copytree(MIDNIGHT, folder, ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture(scope="module")
def run(project: Path) -> tuple[Path, float]:
    """The report of one run that judges the findings of the language server, and when it began."""
    with Client(SERVER, project, **CAPABILITIES) as client:
        client.diagnostics((project / "train.py").as_uri(), None)
        found = client.request("gradline/findings", {})
    assert {item["code"] for item in found} == {"GL201", "GL202"}
    claims = project.parent / "findings.json"
    claims.write_text(json.dumps(found))
    started = time.time()
    report = project.parent / "report.json"
    command = [sys.executable, "-m", "gradline", "probe", "train.py", "--python", sys.executable, "--cwd", str(project)]
    command += ["--findings", str(claims), "--json", str(report), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 1, done.stderr
    return report, started


def show(client: Client, run: tuple[Path, float]) -> Any:
    path, since = run
    return client.request("gradline/probeReport", {"path": str(path), "since": since, "nonce": "abc123"})


def test_verdicts_stand_until_the_code_changes_and_return_with_it(project: Path, run: tuple[Path, float]) -> None:
    train, loader = (project / "train.py").as_uri(), (project / "utils" / "data_loader.py").as_uri()
    commands = {"commands": ["gradline.showPlaces"]}
    with Client(SERVER, project, options=commands, **CAPABILITIES) as client:
        (plain,) = client.diagnostics(train, None)
        assert "probe" not in plain["message"]
        client.open(train, (project / "train.py").read_text())
        client.open(loader, (project / "utils" / "data_loader.py").read_text())
        client.diagnostics(train)
        client.diagnostics(loader)
        answer = show(client, run)
        assert (answer["current"], answer["verdicts"]) == (True, {"confirmed": 2})
        told = client.wait(lambda m: "confirmed by the probe" in json.dumps(m) and m["params"]["uri"] == train)
        (victim,) = told["params"]["diagnostics"]
        assert victim["message"].startswith(plain["message"]) and "the loss has no graph" in victim["message"]

        hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": train}, "range": ALL})
        assert "probe: ✓" in [part["value"] for hint in hints for part in hint["label"]]
        lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": loader}})
        assert any(lens["command"]["title"].endswith("probe: confirmed") for lens in lenses)

        # an edit of one file takes the verdicts from the others too: it was the whole program that ran
        client.seen.clear()
        client.change(loader, ((0, 0), (0, 0), "# a line\n"))
        (after,) = client.diagnostics(train)
        assert after["message"] == plain["message"]
        hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": train}, "range": ALL})
        assert "✓" not in json.dumps(hints, ensure_ascii=False)
        client.change(loader, ((0, 0), (1, 0), ""))
        client.wait(lambda m: "confirmed by the probe" in json.dumps(m) and m["params"]["uri"] == train)


def test_what_only_the_run_saw_and_what_it_refutes(project: Path, run: tuple[Path, float]) -> None:
    report = json.loads(run[0].read_text())
    for finding in report["findings"]:
        finding["static"] = []
    for verdict in report["verdicts"]:
        verdict.update(verdict="refuted", because="it was seen to be fine")
    changed = run[0].with_name("changed.json")
    changed.write_text(json.dumps(report))
    loader = (project / "utils" / "data_loader.py").as_uri()
    with Client(SERVER, project, **CAPABILITIES) as client:
        client.diagnostics(loader, None)
        client.seen.clear()
        show(client, (changed, run[1]))
        refuted, alone = client.diagnostics(loader, None)
        assert (refuted["code"], refuted["severity"]) == ("GL201", 4)
        assert refuted["message"].endswith("refuted by the probe: it was seen to be fine")
        assert alone["code"] == "grad-mode-off" and alone["message"].startswith("seen by the probe alone: ")
        assert alone["range"]["start"] == refuted["range"]["start"]
        notes = [(step["location"]["uri"], step["message"]) for step in alone["relatedInformation"]]
        assert ((project / "train.py").as_uri(), "backward fails here") in notes


def test_files_that_changed_while_the_program_ran_get_no_verdict(project: Path, run: tuple[Path, float]) -> None:
    with Client(SERVER, project, **CAPABILITIES) as client:
        client.diagnostics((project / "train.py").as_uri(), None)
        early = min(path.stat().st_mtime for path in project.rglob("*.py")) - 10
        assert show(client, (run[0], early))["current"] is False
        client.open((project / "train.py").as_uri(), (project / "train.py").read_text() + "\n")
        assert show(client, run)["current"] is False


def test_the_page_runs_its_own_scripts_alone(project: Path, run: tuple[Path, float]) -> None:
    with Client(SERVER, project, **CAPABILITIES) as client:
        page = show(client, run)["page"]
    assert "script-src 'nonce-abc123'" in page and "default-src 'none'" in page
    assert page.count("<script nonce=") == page.count('<script nonce="abc123">') > 0


def test_what_is_no_report_is_refused_with_its_path(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[]")
    with Client(SERVER, project, **CAPABILITIES) as client:
        for path in (other, tmp_path / "missing.json"):
            number = client.ask("gradline/probeReport", {"path": str(path), "since": 0, "nonce": "a"})
            assert str(path) in client.answer(number)["error"]["message"]


def test_a_verdict_on_a_cell_stands_in_that_cell(tmp_path: Path) -> None:
    cells = [
        "import torch\nmodel = torch.nn.Linear(2, 1)",
        "loss = model(torch.ones(1, 2)).mean().item()\nloss.backward()",
    ]
    path = tmp_path / "study.ipynb"
    code = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": []} for text in cells]
    words = {"cell_type": "markdown", "source": "# Words", "metadata": {}}  # counted, as every cell is
    path.write_text(json.dumps({"cells": [words, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    above, *uris = (f"vscode-notebook-cell:{path}#{name}" for name in "abc")
    document = {"uri": path.as_uri(), "notebookType": "jupyter-notebook", "version": 1,
                "cells": [{"kind": 1, "document": above}, *({"kind": 2, "document": uri} for uri in uris)]}  # fmt: skip
    texts = [{"uri": u, "languageId": "python", "version": 1, "text": t} for u, t in zip(uris, cells, strict=True)]
    texts.append({"uri": above, "languageId": "markdown", "version": 1, "text": "# Words"})
    with Client(SERVER, tmp_path, **CAPABILITIES) as client:
        client.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": texts})
        client.diagnostics(uris[1], 1)
        (claim,) = client.request("gradline/findings", {})
        assert claim["cell"] == 3
        place = {"file": f"{path}#cell=2", "line": claim["location"]["row"]}
        verdict = {**place, "code": claim["code"], "column": claim["location"]["column"], "verdict": "confirmed",
                   "because": "it raised"}  # fmt: skip
        report = {"interpreter": {"path": "python", "python": "3", "torch": "2"}, "findings": [], "verdicts": [verdict],
                  "cwd": str(tmp_path), "command": "python", "stopped": "", "seconds": 1}  # fmt: skip
        (tmp_path / "report.json").write_text(json.dumps(report))
        client.seen.clear()
        show(client, (tmp_path / "report.json", time.time() + 60))
        told = client.wait(lambda m: "confirmed by the probe" in json.dumps(m))
        assert told["params"]["uri"] == uris[1]
