"""Builds everything that is published, into `dist/`: the wheel, the source distribution and the extension.

    python tools/package.py                  # all three; needs the package `build`, and Node with npm
    python tools/package.py --no-extension   # the wheel and the source distribution

The wheel is made from the source distribution, so that what others build from it is the same. What is in the three is
looked at before they are called done, and their hashes are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "dist"
DATA = {  # what is no Python and must not be forgotten, relative to the package
    "py.typed", "suppress.md", "torchlib/ops.json", "torchlib/library.json", "analyzers/graph/detached_loss.md",
    "probe/view/page.html", "probe/agent/site/sitecustomize.py",
}  # fmt: skip


class PackagingError(Exception):
    """A distribution that can't be built, or is not what it should be."""


def version() -> str:
    """The version in `pyproject.toml`; raises PackagingError if another file has another."""
    found = {
        "pyproject.toml": re.search(r'^version = "(.+)"$', _read("pyproject.toml"), re.MULTILINE),
        "server/__init__.py": re.search(r'^__version__ = "(.+?)"', _read("server/__init__.py"), re.MULTILINE),
        "CITATION.cff": re.search(r'^version: "?([^"\n]+)"?$', _read("CITATION.cff"), re.MULTILINE),
    }
    versions = {name: match[1] if match else "none" for name, match in found.items()}
    versions["package.json"] = json.loads(_read("package.json"))["version"]
    if len(set(versions.values())) != 1:
        raise PackagingError(f"the versions differ: {', '.join(f'{k} has {v}' for k, v in versions.items())}")
    return versions["pyproject.toml"]


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def build_python() -> tuple[Path, Path]:
    """The source distribution and the wheel made from it."""
    if importlib.util.find_spec("build") is None:
        raise PackagingError("the package `build` is missing: pip install build")
    _run([sys.executable, "-m", "build", "--outdir", str(OUT), str(ROOT)])
    name = f"gradline-{version()}"
    return OUT / f"{name}.tar.gz", OUT / f"{name}-py3-none-any.whl"


def build_extension() -> Path:
    """The extension with its server."""
    npm = shutil.which("npm")
    if npm is None:
        raise PackagingError("the extension needs Node with npm, which is not here: install it, or say --no-extension")
    if not (ROOT / "node_modules").is_dir():
        _run([npm, "ci", "--no-audit", "--no-fund"])
    path = OUT / f"gradline-{version()}.vsix"
    _run([npm, "run", "--silent", "package", "--", "-o", str(path)])
    return path


def _run(command: list[str]) -> None:
    environ = {**os.environ, "PYTHON": sys.executable}  # whose pip gets what is bundled with the extension
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise PackagingError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


def wheel_files(path: Path) -> list[str]:
    """The names in a wheel or an extension."""
    with zipfile.ZipFile(path) as archive:
        return sorted(name for name in archive.namelist() if not name.endswith("/"))


def sdist_files(path: Path) -> list[str]:
    """The names in a source distribution, less the folder around them."""
    with tarfile.open(path) as archive:
        return sorted(member.name.partition("/")[2] for member in archive.getmembers() if member.isfile())


def check_package(files: list[str], prefix: str, what: str) -> None:
    """Raises PackagingError if the package below `prefix` lacks data, or holds what is nobody's business."""
    missing = sorted(name for name in DATA if prefix + name not in files)
    if missing:
        raise PackagingError(f"the {what} lacks {', '.join(missing)}")
    stray = [name for name in files if re.search(r"(^|/)(test_\w+\.py|tests?/|__pycache__/|\.git/)", name)]
    if stray:
        raise PackagingError(f"the {what} holds {', '.join(stray[:5])}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the wheel, the source distribution and the extension into dist/."
    )
    parser.add_argument("--no-extension", action="store_true", help="leave out the extension, which needs Node")
    arguments = parser.parse_args()
    try:
        version()
        OUT.mkdir(exist_ok=True)
        sdist, wheel = build_python()
        check_package(wheel_files(wheel), "gradline/", "wheel")
        made = [wheel, sdist]
        if not arguments.no_extension:
            extension = build_extension()
            files = wheel_files(extension)
            check_package(files, "extension/bundled/libs/gradline/", "extension")
            if "extension/dist/extension.js" not in files:
                raise PackagingError("the extension lacks dist/extension.js")
            made.append(extension)
    except PackagingError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    for path in made:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{digest}  {path.relative_to(ROOT).as_posix()}  ({path.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
