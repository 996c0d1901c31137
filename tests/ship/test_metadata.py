"""What the files that publish gradline say: complete, the same everywhere, and nothing that isn't so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import lock_bundle  # noqa: E402
import package  # noqa: E402

LOCK = lock_bundle.LOCK.read_text(encoding="utf-8")


def test_one_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", package.version())


def test_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"name", "version", "description", "readme", "license", "authors", "keywords", "classifiers"} <= set(project)
    assert "urls" not in project, "no address is published yet; an invented one would be somebody else's"
    minimum = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {minimum}" in project["classifiers"]
    assert len(project["dependencies"]) <= 6


def test_package_json():
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    wanted = {"name", "displayName", "description", "version", "publisher", "license", "icon", "engines", "categories",
              "keywords", "main", "capabilities", "contributes"}  # fmt: skip
    assert wanted <= set(manifest)
    assert (ROOT / manifest["icon"]).is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert manifest["license"] == project["license"]
    assert not {"repository", "homepage", "bugs"} & set(manifest), "no address is published yet"


@pytest.mark.parametrize(
    ("file", "schema"), [("CITATION.cff", "vendor.citation-file-format"), ("action.yml", "vendor.github-actions")]
)
def test_against_its_schema(file, schema):
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_pins_everything_that_is_bundled():
    missing = lock_bundle.names(lock_bundle.WANTED.read_text(encoding="utf-8")) - lock_bundle.names(LOCK)
    assert not missing
    entries = re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:([0-9a-f]{64})$", LOCK, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^\w", LOCK, re.MULTILINE)) > 5


def test_locks_name_no_registry():
    """Where packages come from is the setting of who installs them."""
    for name in ("vscode-client/requirements.txt", "package-lock.json"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert '"resolved"' not in text and "--index-url" not in text and "--extra-index-url" not in text
        hosts = re.findall(r"https?://([^/\"\s]+)", text)
        assert not [host for host in hosts if re.search(r"npm|pypi|pythonhosted|registry|mirror|proxy|\d$", host)]


def test_security_says_what_is_so():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for command in ("tools/lock_bundle.py", "pip-audit"):
        assert command in text
    for test in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / test).exists(), test
