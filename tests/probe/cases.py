"""Run the probe on a folder of cases and count.

    python tests/probe/cases.py FOLDER [--forked] [--only WORD] [--json OUT] [--kind bad|good]

A case is a folder with `case.toml` (`family`, `culprit = "file:line"`, for the faulty ones) and programs in `bad/` and
`good/`, each with a `main.py`. Of the faulty ones are counted: the culprit's line named (as a finding's place, or with
it in its evidence), and anything found above `possible`; of the good ones: findings above `possible`, which are false
alarms. What `gradline check` says of each program is judged too, and its verdicts are counted: refuted on a faulty
program and confirmed on a right one are false, and listed.
With `--forked` each program runs under the same agent in a fork of one process that has torch loaded, without the
supervisor and its isolation: a fifth of the time.
Cases whose fault cannot show in the first steps are listed in LATER with the reason, and counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

# The fault needs more than the first steps, or only a person can say that it is one.
LATER = {
    "t-accumulation-not-divided": "the size of a loss is a choice",
    "t-adam-rebuilt-every-epoch": "needs a second epoch",
    "t-best-weights-alias": "needs the end of training",
    "t-freeze-condition-inverted": "which layers are to be frozen is a choice",
    "t-functional-dropout-always-on": "shows in evaluation",
    "t-heads-merged-without-permute": "values are mixed, gradients flow",
    "t-midepoch-validation-leaves-eval": "needs a validation in the middle of an epoch",
    "t-plateau-scheduler-on-accuracy": "needs several epochs",
    "t-sampler-without-set-epoch": "needs several epochs",
    "t-steplr-in-batch-loop": "needs as many steps as the schedule's period",
    "t-validation-builds-graphs": "shows in evaluation, after an epoch",
    "bare-no-grad-call": "shows in evaluation, after training",
    "metric-loss-tuple-order": "the second of two trainings, after five steps",
    "rank-loss-per-sample": "the second of two trainings, after ten steps",
    "t-finetune-after-pruning": "the model is changed after twelve steps",
    "t-unfreeze-after-filtered-optimizer": "layers are unfrozen after twenty steps",
    "validation-error-grad-stays-off": "validation comes after eight steps",
}


def probe(program: Path, folder: Path, forked: bool) -> dict[str, Any]:
    """The JSON report of one program, run in its own folder, or in a copy of that."""
    if forked:
        import running

        own = folder / "program"
        shutil.copytree(program.parent, own)
        return running.quick(own, program.name, "--timeout", "150", check=True)
    out = folder / "report.json"
    out.unlink(missing_ok=True)
    command = [
        sys.executable, "-c", "import sys; from gradline.probe import main; sys.exit(main(sys.argv[1:]))",
        program.name, "--python", sys.executable, "--quiet", "--json", str(out), "--timeout", "150",
    ]  # fmt: skip
    subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=300, check=False)
    return json.loads(out.read_text()) if out.exists() else {"stopped": "no report", "findings": [], "notes": []}


def named(finding: dict[str, Any]) -> set[str]:
    """`name:line` of every place that a finding names."""
    places: set[str] = set()

    def visit(thing: Any) -> None:
        if isinstance(thing, dict):
            if "file" in thing and "line" in thing:
                places.add(f"{os.path.basename(thing['file'])}:{thing['line']}")
            for value in thing.values():
                visit(value)
        elif isinstance(thing, list):
            for value in thing:
                visit(value)

    visit([finding["at"], finding["evidence"]])
    return places


def accepted(text: str) -> set[str]:
    """The culprit, and the lines that a last comment calls defensible too."""
    case = tomllib.loads(text)
    lines = [case["culprit"]]
    for line in text.splitlines():
        if line.startswith("# also defensible:"):
            lines += [part.strip() for part in line.partition(":")[2].split(",")]
    return {os.path.basename(line.rpartition(":")[0]) + ":" + line.rpartition(":")[2] for line in lines if ":" in line}


def main(argv: list[str]) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--only", default="")
    p.add_argument("--forked", action="store_true", help="without the supervisor: faster")
    p.add_argument("--kind", choices=("bad", "good"))
    p.add_argument("--json", type=Path)
    given = p.parse_args(argv)
    if not given.folder.is_dir():
        print(f"{given.folder}: no cases there, nothing counted")
        return 0
    rows: list[dict[str, Any]] = []
    for path in sorted(given.folder.glob("*/case.toml")):
        if given.only not in path.parent.name:
            continue
        for kind in ("bad", "good"):
            program = path.parent / kind / "main.py"
            if given.kind in (None, kind) and program.exists():
                rows.append(_one(path, kind, program, given.forked))
                if given.json:
                    given.json.write_text(json.dumps(rows, indent=1))
    bad = [r for r in rows if r["kind"] == "bad" and not r["later"]]
    good = [r for r in rows if r["kind"] == "good"]
    later = [r for r in rows if r["kind"] == "bad" and r["later"]]
    if bad:
        print(f"faulty {len(bad)}: line is the finding's place {sum(r['hit'] for r in bad)}, "
              f"named {sum(r['named'] for r in bad)} ({sum(r['named'] for r in bad) / len(bad):.0%}), "
              f"something found {sum(r['found'] for r in bad)} ({sum(r['found'] for r in bad) / len(bad):.0%})")  # fmt: skip
    if later:
        print(
            f"fault shows later {len(later)}: named {sum(r['named'] for r in later)}, found {sum(r['found'] for r in later)}"
        )
    if good:
        print(f"right {len(good)}: with a finding above possible {sum(r['found'] for r in good)}")
    for name, part in (("faulty", [r for r in rows if r["kind"] == "bad"]), ("right", good)):
        words = [v[2] for r in part for v in r["verdicts"]]
        if words:
            print(f"verdicts on {name}: " + ", ".join(f"{words.count(w)} {w}" for w in sorted(set(words))))
        wrong = "refuted" if name == "faulty" else "confirmed"
        false = [f"{r['case']} {v[0]}:{v[1]}" for r in part for v in r["verdicts"] if v[2] == wrong]
        print(f"false verdicts on {name}: {len(false)} {', '.join(false)}")
    return 0


def _one(path: Path, kind: str, program: Path, forked: bool) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        report = probe(program, Path(folder), forked)
    findings = [f for f in report["findings"] if f["confidence"] != "possible"]
    row: dict[str, Any] = {
        "case": path.parent.name,
        "kind": kind,
        "later": path.parent.name in LATER,
        "found": bool(findings),
        "stopped": report["stopped"],
        "seconds": round(time.time() - start, 1),
        "findings": [
            [
                f["rule"],
                f["confidence"],
                f["at"] and f"{os.path.basename(f['at']['file'])}:{f['at']['line']}",
                f["message"][:160],
            ]
            for f in report["findings"]
        ],
        "verdicts": [[v["code"], v["line"], v["verdict"], v["because"][:90]] for v in report.get("verdicts", ())],
        "notes": [n for n in report["notes"] if n.startswith("probe:")],
    }
    if kind == "bad":
        want = accepted(text)
        row["hit"] = any(f["at"] and f"{os.path.basename(f['at']['file'])}:{f['at']['line']}" in want for f in findings)
        row["named"] = any(named(f) & want for f in findings)
        row["want"] = sorted(want)
    word = (
        ("HIT" if row["hit"] else "named" if row["named"] else "found" if row["found"] else "MISSED")
        if kind == "bad"
        else "FALSE"
        if findings
        else "clean"
    )
    print(
        f"{word:6} {row['case']}/{kind} {row.get('want', '')} {row['findings']} {row['stopped']} {row['notes'] or ''} {row['verdicts'] or ''} {row['seconds']}s",
        flush=True,
    )
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
