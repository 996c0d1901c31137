"""The rule of `docs/add-a-rule.md` is made as the page says, in a copy of the source, and its tests are run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT

pytest.importorskip("torch")

PAGE = (ROOT / "docs" / "add-a-rule.md").read_text(encoding="utf-8")
FILES = {
    title: text
    for _, title, text in re.findall(r'^(`{3,4})\w+ title="([^"]+)"\n(.*?)^\1$', PAGE, re.MULTILINE | re.DOTALL)
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    unwanted = shutil.ignore_patterns("__pycache__", "view")
    shutil.copytree(ROOT / "server", folder / "server", ignore=unwanted)
    (folder / "tests").mkdir()
    for name in ("fixture.py", "rule_claims.py", "rule_page.py", "rule_run.py", "test_rules.py"):
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    (folder / "package").mkdir()
    (folder / "package" / "gradline").symlink_to(folder / "server", target_is_directory=True)
    return folder


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "package"), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    words = re.sub(r"^python\b", sys.executable, re.sub(r"^gradline\b", "python -m gradline", command))
    return subprocess.run(
        ["bash", "-c", words], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )


def test_the_rule_of_the_page_is_made_and_proven(copy: Path) -> None:
    page, rule = "server/analyzers/step/clip_to_zero.md", "server/analyzers/step/clip_to_zero.py"
    assert set(FILES) == {page, rule}
    commands = re.search(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert commands
    test, explain = commands[1].splitlines()
    (copy / page).write_text(FILES[page], encoding="utf-8")
    before = run(copy, f"{test} -x")
    assert before.returncode == 1 and "failed" in before.stdout, before.stdout  # as the page says: no rule yet
    (copy / rule).write_text(FILES[rule], encoding="utf-8")
    after = run(copy, test)
    passed = re.search(r"(\d+) passed", after.stdout)
    assert after.returncode == 0 and passed and int(passed[1]) >= 8, after.stdout + after.stderr
    shown = run(copy, explain)
    assert shown.returncode == 0 and shown.stdout.startswith("# clip-to-zero (GL490)"), shown.stderr
