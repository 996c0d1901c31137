"""What is published, built by the documented command and tried in an environment that has nothing else.

Building and installing take pip to an index, as in CI. The extension is built where Node and its packages are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from lsp.client import Client

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import package  # noqa: E402

LIMIT = 240  # seconds for one command; a busy machine needs a good part of it
BUG = "import torch\nmodel = torch.nn.Linear(2, 1)\nloss = model(torch.ones(3, 2)).mean().detach()\nloss.backward()\n"


def run(*command: object, cwd: Path, **options) -> subprocess.CompletedProcess:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environ, capture_output=True, text=True, timeout=LIMIT, **options
    )


def ours() -> list[str]:
    """The files of this checkout, committed or about to be."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs a git checkout, to tell its files from what lies around")
    done = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the checkout, without what builds leave behind."""
    if package.importlib.util.find_spec("build") is None:
        pytest.skip("needs the package `build`: pip install -e '.[test]'")
    top = tmp_path_factory.mktemp("source")
    for name in ours():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, top / name)
    return top


@pytest.fixture(scope="module")
def built(source) -> tuple[Path, Path]:
    """The wheel and the source distribution, as the documented command makes them."""
    done = run(sys.executable, "tools/package.py", "--no-extension", cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, sdist = (next((source / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    assert wheel.name in done.stdout and sdist.name in done.stdout
    return wheel, sdist


def test_the_wheel_holds_the_package_and_nothing_else(built):
    wheel, _ = built
    files = package.wheel_files(wheel)
    inside = {name.removeprefix("gradline/") for name in files if name.startswith("gradline/")}
    wanted = {name.removeprefix("server/") for name in ours() if name.startswith("server/")}
    assert inside ^ wanted <= {"probe/agent/ruff.toml"}
    others = {name.split("/")[0] for name in files if not name.startswith("gradline/")}
    assert others == {f"gradline-{package.version()}.dist-info"}
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"gradline-{package.version()}.dist-info/METADATA").decode()
    assert "License-Expression: MIT\n" in metadata and "Requires-Python: >=3.10\n" in metadata
    assert "\nProject-URL:" not in metadata, "there is no public address yet"
    assert "# gradline\n" in metadata


def test_the_source_distribution_makes_the_same_wheel(built, source, tmp_path):
    wheel, sdist = built
    done = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, source, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (direct,) = tmp_path.glob("*.whl")
    assert package.wheel_files(direct) == package.wheel_files(wheel)
    files = package.sdist_files(sdist)
    assert {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "tests/fixture.py"} <= set(files)
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_works_in_a_fresh_environment(built, source, tmp_path):
    wheel, _ = built
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path, check=True)
    scripts = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    done = run(scripts / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    where = run(scripts / "python", "-c", "import gradline; print(gradline.__file__)", cwd=tmp_path).stdout
    assert Path(where.strip()).is_relative_to(tmp_path)

    def gradline(*arguments: object) -> subprocess.CompletedProcess:
        return run(scripts / "gradline", *arguments, cwd=tmp_path)

    assert gradline("--version").stdout == f"gradline {package.version()}\n"
    for arguments in (["--help"], ["check", "--help"], ["server", "--help"], ["probe", "--help"]):
        done = gradline(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert done.stdout.startswith("usage: gradline")
    assert "# detached-loss (GL102)" in gradline("explain", "GL102").stdout
    assert len(json.loads(gradline("rules", "--output-format", "json").stdout)) > 50
    midnight = shutil.copytree(source / "examples" / "midnight", tmp_path / "midnight")
    done = gradline("check", "--output-format", "json", midnight)
    assert ([record["code"] for record in json.loads(done.stdout)], done.stderr) == (["GL202", "GL201"], "")
    assert gradline("check", "--fix", midnight).stdout == "Fixed 2 findings.\nAll checks passed!\n"
    (tmp_path / "bug.py").write_text(BUG)
    with Client([str(scripts / "gradline"), "server"], tmp_path) as client:
        uri = (tmp_path / "bug.py").as_uri()
        client.open(uri, BUG)
        assert [finding["code"] for finding in client.diagnostics(uri)] == ["GL102"]


def test_the_extension(tmp_path):
    if shutil.which("npm") is None or not (ROOT / "node_modules" / "@vscode" / "vsce").is_dir():
        pytest.skip("needs Node and the extension's packages: npm ci")
    path = tmp_path / "gradline.vsix"
    try:
        package._run([shutil.which("npm"), "run", "--silent", "package", "--", "-o", str(path)])
    except package.PackagingError as error:
        pytest.fail(str(error))
    files = package.wheel_files(path)
    package.check_package(files, "extension/bundled/libs/gradline/", "extension")
    assert {"extension/dist/extension.js", "extension/LICENSE.txt", "extension/package.json"} <= set(files)
    bundled = {name.removeprefix("extension/bundled/libs/gradline/") for name in files if "/libs/gradline/" in name}
    assert bundled == {name.removeprefix("server/") for name in ours() if name.startswith("server/")}
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    start = tmp_path / "unpacked" / "extension" / "bundled" / "start.py"
    # without the packages of this environment, as an interpreter of somebody's that has none of them
    command = [sys.executable, "-S", str(start), "useBundled", str(start.parent / "libs"), str(tmp_path / "none")]
    (tmp_path / "bug.py").write_text(BUG)
    with Client(command, tmp_path) as client:
        uri = (tmp_path / "bug.py").as_uri()
        client.open(uri, BUG)
        assert [finding["code"] for finding in client.diagnostics(uri)] == ["GL102"]
