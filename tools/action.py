"""The check of the GitHub Action (`action.yml`): annotations, a SARIF file if one is wanted, and a summary of the job.

Reads ARGS and SARIF_FILE, and where GitHub wants outputs and summaries. Runs in the repository's folder, so that the
names in annotations are those of the repository. Exits as `gradline check` does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

SUMMARY_LINES = 200  # GitHub takes a megabyte; nobody reads more


def gradline(*options: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """`gradline check` in the Python that this runs in."""
    command = [os.path.join(os.path.dirname(sys.executable), "gradline"), "check", *options, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def append(variable: str, text: str) -> None:
    """Adds to the file that GitHub names in an environment variable; nothing elsewhere."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def main() -> int:
    try:
        arguments = shlex.split(os.environ.get("ARGS", ""))
    except ValueError as error:
        print(f"::error title=gradline::args can't be read: {str(error).lower()}")
        return 2
    if any(word.startswith(("--output-f", "-o")) for word in arguments):
        print("::error title=gradline::args must not hold --output-format or --output-file: see sarif-file")
        return 2
    if sarif := os.environ.get("SARIF_FILE"):
        gradline("--output-format", "sarif", "-o", sarif, "--exit-zero", arguments=arguments)
    found = gradline("--output-format", "github", arguments=arguments)
    sys.stdout.write(found.stdout)
    lines = gradline("--output-format", "concise", "--color", "never", arguments=arguments).stdout.splitlines()
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", "\n".join(lines))), default=2))
    shown = [
        *lines[:SUMMARY_LINES],
        *([f"... and {len(lines) - SUMMARY_LINES} lines more"] if len(lines) > SUMMARY_LINES else []),
    ]
    append("GITHUB_STEP_SUMMARY", "\n".join(["### gradline", "", fence, *shown, fence, ""]))
    append("GITHUB_OUTPUT", f"exit-code={found.returncode}\n")
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
