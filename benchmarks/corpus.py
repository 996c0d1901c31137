#!/usr/bin/env python3
"""Run `gradline check` on foreign code: does it crash, what does it find, what does it cost?

    pip download --no-deps -d wheels timm transformers ...      # then unzip each into its own folder
    python benchmarks/corpus.py FOLDER... [--findings findings.md] [--repeat 3] [--json figures.json]

Each folder is checked by a fresh process, and parsed by another with `ast.parse`; both times are CPU seconds (user and
system) of whole processes, taken in turns, so that a busy machine disturbs them alike. The list of findings is made
for being judged by a reader: rule, place, the source line, what was said, and the trail.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PARSE = """
import ast, sys, warnings
warnings.simplefilter("ignore")
sys.setrecursionlimit(10_000)
for path in sys.stdin.read().splitlines():
    try:
        with open(path, "rb") as f:
            ast.parse(f.read(), path)
    except (SyntaxError, ValueError, RecursionError, OSError):
        pass
"""


def cpu_of(command: list[str], **options) -> tuple[float, subprocess.CompletedProcess]:
    """CPU seconds of a child and all its children, and how it ended."""
    before = os.times()
    done = subprocess.run(command, **options)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system,
        done,
    )


def python_files(folder: Path) -> list[str]:
    return sorted(str(p) for p in folder.rglob("*.py") if p.is_file())


class Checked:
    """What came of one folder."""

    def __init__(self, folder: Path, seconds: float, done: subprocess.CompletedProcess, output: str) -> None:
        self.folder, self.seconds = folder, seconds
        self.errors = [line for line in done.stderr.splitlines() if line.strip()]
        self.crashed = done.returncode not in (0, 1) or "Traceback" in done.stderr or "crashed" in done.stderr
        try:
            self.findings = json.loads(output)
        except ValueError:
            self.findings, self.crashed = [], True


def check(folder: Path, limit: float | None) -> Checked:
    command = [sys.executable, "-m", "gradline", "check", "--exit-zero", "--output-format", "json", str(folder)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        environment = os.environ | {"GRADLINE_DEBUG": "1"}
        try:
            seconds, done = cpu_of(
                command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=limit, env=environment
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, -9, "", f"crashed: not done after {limit} s")
            seconds = float(limit or 0)
        out.seek(0)
        return Checked(folder, seconds, done, out.read())


def parse(files: list[str]) -> float:
    return cpu_of([sys.executable, "-c", PARSE], input="\n".join(files), text=True)[0]


def source_line(path: str, row: int) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[row - 1].strip()[:160] if 0 < row <= len(lines) else ""


def for_judging(checked: list[Checked]) -> str:
    """The findings as Markdown, one to judge after the other."""
    text = []
    for c in checked:
        text.append(f"## {c.folder.name} ({len(c.findings)})\n")
        for f in sorted(c.findings, key=lambda f: (f["code"], f["filename"], f["location"]["row"])):
            at = f["location"]
            place = f"{os.path.relpath(f['filename'], c.folder)}:{at['row']}"
            cell = f" cell {f['cell']}" if f.get("cell") is not None else ""
            text.append(f"- **{f['code']} {f['name']}** ({f['severity']}) `{place}`{cell}: {f['message']}")
            text.append(f"  `{source_line(f['filename'], at['row'])}`")
            for step in f.get("related", ()):
                there = step["location"]["row"]
                where = f"{os.path.relpath(step['filename'], c.folder)}:{there}"
                text.append(f"  - `{where}` {step['message']}: `{source_line(step['filename'], there)}`")
        text.append("")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--findings", type=Path, help="write the findings there, as Markdown")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--repeat", type=int, default=1, help="times to measure each folder; medians are shown")
    parser.add_argument("--limit", type=float, help="seconds after which a folder counts as crashed")
    a = parser.parse_args()
    checked, figures = [], []
    print(f"{'folder':24} {'files':>6} {'lines':>9} {'ast s':>7} {'check s':>8} {'ratio':>6}  findings")
    for folder in a.folders:
        files = python_files(folder)
        lines = sum(Path(f).read_bytes().count(b"\n") for f in files)
        runs, floors = [], []
        for _ in range(a.repeat):
            floors.append(parse(files))
            runs.append(check(folder, a.limit))
        c = runs[-1]
        checked.append(c)
        floor, mine = statistics.median(floors), statistics.median(r.seconds for r in runs)
        ratio = statistics.median(r.seconds / f for r, f in zip(runs, floors, strict=True))
        counts = Counter(f"{f['code']}" for f in c.findings)
        crash = "  CRASHED" if any(r.crashed for r in runs) else ""
        summary = " ".join(f"{k}:{v}" for k, v in sorted(counts.items()))
        print(
            f"{folder.name:24} {len(files):6} {lines:9} {floor:7.2f} {mine:8.2f} {ratio:6.2f}  {summary}{crash}",
            flush=True,
        )
        for line in c.errors[-3:] if crash else ():
            print(f"    {line}")
        figures.append(
            {"folder": folder.name, "files": len(files), "lines": lines, "ast": floor, "check": mine, "ratio": ratio}
            | {"findings": dict(counts), "crashed": bool(crash)}
        )
    floor, mine = sum(f["ast"] for f in figures), sum(f["check"] for f in figures)
    crashes = sum(f["crashed"] for f in figures)
    print(
        f"{'all':24} {sum(f['files'] for f in figures):6} {sum(f['lines'] for f in figures):9} {floor:7.2f} "
        f"{mine:8.2f} {mine / max(floor, 1e-9):6.2f}  {sum(len(c.findings) for c in checked)} findings, "
        f"{crashes} crashes"
    )
    if a.findings:
        a.findings.write_text(for_judging(checked), encoding="utf-8")
    if a.json:
        a.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
