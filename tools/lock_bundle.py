"""Pins what is bundled with the extension: `vscode-client/requirements.in` to `requirements.txt`, by version and hash.

    python tools/lock_bundle.py            # the newest versions
    python tools/lock_bundle.py --check    # only say whether the lock has everything that the list asks for

pip resolves, for wheels that run on every platform and on every Python from 3.10 on: of each there is one, and one hash.
Where they come from is pip's own setting and stays out of the file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parent.parent / "vscode-client"
WANTED, LOCK = CLIENT / "requirements.in", CLIENT / "requirements.txt"
PURE = [
    *(
        "--only-binary=:all:",
        "--implementation",
        "py",
        "--abi",
        "none",
        "--platform",
        "any",
        "--python-version",
        "3.10",
    ),
    *("--target", "unused", "--ignore-installed"),
]
HEAD = f"""\
# Made of {WANTED.name} by `python tools/lock_bundle.py`: what is bundled with the extension, pure Python, by hash.
"""


def canonical(name: str) -> str:
    """A project's name in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(text: str) -> set[str]:
    """The projects that a requirements file names."""
    return {canonical(found) for found in re.findall(r"^([A-Za-z][\w.-]*)", text, re.MULTILINE)}


def resolved() -> str:
    """The lock as pip resolves it now. Raises CalledProcessError if pip can't."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--report", "-", *PURE, "--requirement", str(WANTED)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    lines: list[str] = []
    for item in sorted(report["install"], key=lambda item: canonical(item["metadata"]["name"])):
        name, version = canonical(item["metadata"]["name"]), item["metadata"]["version"]
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} \\\n    --hash=sha256:{digest}")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Pin what is bundled with the extension.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the lock lacks something")
    if parser.parse_args().check:
        missing = names(WANTED.read_text(encoding="utf-8")) - names(LOCK.read_text(encoding="utf-8"))
        if missing:
            print(f"{LOCK} lacks {', '.join(sorted(missing))}: run this without --check", file=sys.stderr)
        return 1 if missing else 0
    LOCK.write_text(resolved(), encoding="utf-8")
    print(LOCK.read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
