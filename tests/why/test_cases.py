"""The proof: of the verified cases beside the checkout that raise, the first answer names the culprit's line."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from gradline.why import explain

from . import running
from .test_tracebacks import lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
LEAST = 0.90
FOLDERS = [
    path.parent
    for path in sorted(CASES.glob("*/case.toml"))
    if tomllib.loads(path.read_text(encoding="utf-8"))["outcome"] == "raises"
]

if not FOLDERS:
    pytest.skip(f"no cases at {CASES}", allow_module_level=True)
pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("the programs are run in forks", allow_module_level=True)


def culprits(folder: Path) -> set[tuple[str, int]]:
    text = (folder / "case.toml").read_text(encoding="utf-8")
    also = re.search(r"^# also defensible: (.+)$", text, re.MULTILINE)
    words = [tomllib.loads(text)["culprit"], *(also[1].split(",") if also else [])]
    places = (word.strip().rpartition(":") for word in words)
    return {(Path(name).name, int(line)) for name, _, line in places}


def test_the_first_answer_names_the_culprit() -> None:
    texts = running.run((folder / "bad", "main.py") for folder in FOLDERS)
    missed = []
    for folder, text in zip(FOLDERS, texts, strict=True):
        error = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))["error"]
        assert error.partition(":")[2].strip()[:30] in " ".join(text.split()), (
            f"{folder.name} raises something else: {text}"
        )
        explained = explain(text, str(folder / "bad"))
        assert explained is not None and explained.error is not None, folder.name
        found = lines(explained)
        if not found & culprits(folder):
            missed.append(f"{folder.name}: {sorted(found)} for {sorted(culprits(folder))}")
    hits = len(FOLDERS) - len(missed)
    print(f"why: {hits} of {len(FOLDERS)} cases")
    assert hits >= LEAST * len(FOLDERS), "\n".join(missed)
