#!/usr/bin/env python3
"""How other tools do on a folder of verified cases (`bad/`, `good/`, `case.toml`), beside gradline.

    pip install torchfix torch-preflight pylint pyright ruff      # into any environment
    python benchmarks/peers.py ../shared/cases [--bin FOLDER] [--python PYTHON-WITH-TORCH] [--tools gradline,ruff]

A tool *sees* a bug if a rule of it reports within one line of a culprit in `bad/`, and reports more often in `bad/` than
in the same program put right. A correct program is *flagged* if there is any finding of the level that is counted in it.
Where a tool has levels, its errors and warnings count, not its advice. Every program is checked once, unchanged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# One process for all programs, so that torch is read once; a program's own modules are forgotten after it.
PYLINT = """
import contextlib, io, json, os, sys
from astroid.manager import AstroidManager
from pylint.lint import Run
from pylint.reporters import JSONReporter
for folder in sys.argv[1:]:
    os.chdir(folder)
    files = sorted(os.path.relpath(os.path.join(at, name)) for at, _, names in os.walk(".") for name in names if name.endswith(".py"))
    out = io.StringIO()
    with contextlib.redirect_stdout(sys.stderr):
        Run(["--disable=C,R", *files], reporter=JSONReporter(out), exit=False)
    for each in json.loads(out.getvalue() or "[]"):
        print(json.dumps({**each, "path": os.path.join(folder, each["path"])}), flush=True)
    cache = AstroidManager().astroid_cache
    for name in [name for name, module in cache.items() if (getattr(module, "file", None) or "").startswith(folder)]:
        del cache[name]
"""
NEAR = 1  # lines between a finding and the culprit


class Said(NamedTuple):
    file: Path
    lines: tuple[int, ...]  # of the finding and, if the tool has such, of the places that it points to
    rule: str


Tool = Callable[[Path, argparse.Namespace], list[Said]]


def output(command: list[str], cwd: Path | None = None) -> str:
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)
    if done.returncode not in (0, 1) and not done.stdout:
        raise SystemExit(f"{' '.join(command)[:200]}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def program(name: str, given: argparse.Namespace) -> str:
    return shutil.which(name, path=given.bin) or shutil.which(name) or name


def gradline(folder: Path, given: argparse.Namespace) -> list[Said]:
    found: list[Said] = []
    for one in programs(folder):  # each is a program of its own: its imports are looked for in its own folder
        command = [
            sys.executable,
            "-m",
            "gradline",
            "check",
            "--isolated",
            "--no-cache",
            "--output-format",
            "json",
            ".",
        ]
        for each in json.loads(output(command, one)):
            lines = {each["filename"]: [each["location"]["row"]]}
            for step in each["related"]:
                lines.setdefault(step["filename"], []).append(step["location"]["row"])
            if each["severity"] in ("error", "warning"):
                found += [Said(one / name, tuple(rows), each["name"]) for name, rows in lines.items()]
    return found


def ruff(folder: Path, given: argparse.Namespace, *options: str) -> list[Said]:
    command = [
        program("ruff", given),
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        "json",
        *options,
        str(folder),
    ]
    return [Said(Path(e["filename"]), (e["location"]["row"],), e["code"] or "E") for e in json.loads(output(command))]


def ruff_all(folder: Path, given: argparse.Namespace) -> list[Said]:
    return ruff(folder, given, "--select", "ALL", "--preview")


def pyright(folder: Path, given: argparse.Namespace) -> list[Said]:
    command = [program("pyright", given), "--outputjson", "--pythonpath", given.python, str(folder)]
    found = json.loads(output(command))["generalDiagnostics"]
    return [
        Said(Path(e["file"]), (e["range"]["start"]["line"] + 1,), e.get("rule", "error"))
        for e in found
        if e["severity"] == "error"
    ]


def pylint(folder: Path, given: argparse.Namespace) -> list[Said]:
    python = Path(given.bin) / "python" if given.bin else Path(sys.executable)
    done = subprocess.run(
        [str(python), "-c", PYLINT, *map(str, programs(folder))], capture_output=True, text=True, check=True
    )
    return [Said(Path(e["path"]), (e["line"],), e["symbol"]) for e in map(json.loads, done.stdout.splitlines())]


def torchfix(folder: Path, given: argparse.Namespace) -> list[Said]:
    text = output([program("torchfix", given), "--select=ALL", "-j", "1", str(folder)])
    lines = re.findall(r"^(.+?\.py):(\d+):\d+: (TOR\d+)", text, re.MULTILINE)
    return [Said(Path(name), (int(line),), rule) for name, line, rule in lines]


def torch_preflight(folder: Path, given: argparse.Namespace) -> list[Said]:
    text = output([program("torch-preflight", given), "check", "-f", "github", "-j", "1", str(folder)])
    lines = re.findall(r"^::(?:error|warning) file=([^,]+),line=(\d+).*?title=(TG\d+)", text, re.MULTILINE)
    return [Said(Path(name), (int(line),), rule) for name, line, rule in lines]


TOOLS: dict[str, tuple[Tool, str]] = {
    "gradline": (gradline, "gradline"),
    "torchfix": (torchfix, "torchfix"),
    "torch-preflight": (torch_preflight, "torch-preflight"),
    "pyright": (pyright, "pyright"),
    "pylint": (pylint, "pylint"),
    "ruff": (ruff, "ruff"),
    "ruff --select ALL": (ruff_all, "ruff"),
}


def programs(folder: Path) -> list[Path]:
    return sorted(path for case in folder.iterdir() for path in (case / "bad", case / "good") if path.is_dir())


def culprits(case: Path) -> set[tuple[Path, int]]:
    text = (case / "case.toml").read_text(encoding="utf-8")
    also = re.search(r"^# also defensible: (.+)$", text, re.MULTILINE)
    words = [tomllib.loads(text)["culprit"], *(also[1].split(",") if also else [])]
    places = (word.strip().rpartition(":") for word in words)
    return {(case / "bad" / name, int(line)) for name, _, line in places}


def score(folder: Path, said: list[Said]) -> dict[str, list[str]]:
    """The names of the bugs that are seen, and of the correct programs that are flagged, traps and repaired ones apart."""
    result: dict[str, list[str]] = {"bugs": [], "seen": [], "traps": [], "traps flagged": [], "put right flagged": []}
    by_program: dict[Path, list[Said]] = {}
    for each in said:
        path = each.file if each.file.is_absolute() else Path.cwd() / each.file
        relative = path.resolve().relative_to(folder)
        by_program.setdefault(folder / relative.parts[0] / relative.parts[1], []).append(each)
    for case in sorted(path.parent for path in folder.glob("*/case.toml")):
        bad, good = by_program.get(case / "bad", []), by_program.get(case / "good", [])
        if not (case / "bad").is_dir():
            result["traps"].append(case.name)
            result["traps flagged"] += [case.name] if good else []
            continue
        result["bugs"].append(case.name)
        result["put right flagged"] += [case.name] if good else []
        more = Counter(each.rule for each in bad)
        more.subtract(Counter(each.rule for each in good))
        near = any(
            more[each.rule] > 0 and abs(line - there) <= NEAR and each.file.resolve() == path
            for each in bad
            for line in each.lines
            for path, there in culprits(case)
        )
        result["seen"] += [case.name] if near else []
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--bin", help="the folder with the tools' programs (default: the PATH)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch, for pyright")
    parser.add_argument("--tools", help=f"of {', '.join(TOOLS)} (default: all)")
    given = parser.parse_args()
    folder = given.cases.resolve()
    print("| tool | bugs seen | look-alikes flagged | repaired programs flagged |\n| --- | --- | --- | --- |")
    for name in given.tools.split(",") if given.tools else TOOLS:
        run, package = TOOLS[name]
        got = score(folder, run(folder, given))
        bugs = len(got["bugs"])
        print(
            f"| {name} {version(package, given)} | {len(got['seen'])} of {bugs} | {len(got['traps flagged'])} of "
            f"{len(got['traps'])} | {len(got['put right flagged'])} of {bugs} |",
            flush=True,
        )
        print(f"  seen by {name}: {', '.join(got['seen'])}", file=sys.stderr, flush=True)


def version(package: str, given: argparse.Namespace) -> str:
    if given.bin and (python := Path(given.bin) / "python").exists():
        code = f"from importlib.metadata import version; print(version({package!r}))"
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return metadata.version(package)


if __name__ == "__main__":
    main()
