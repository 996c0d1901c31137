"""What one real run says of each static finding: confirmed, refuted, or not reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from .options import Asked

CONFIRMED, REFUTED, NOT_REACHED, UNDECIDED = "confirmed", "refuted", "not reached", "undecided"
# A family (the hundreds of a code) that a run decides: the rules of the probe that would show it, after how many steps.
SHOWN_BY: dict[str, tuple[frozenset[str], int]] = {
    "1": (frozenset({"cut-graph", "hidden-error", "number-backward", "dead-term", "no-graph", "zero-gradient"}), 0),
    "2": (frozenset({"grad-mode-off", "grad-mode-left-off", "inference-tensor", "cut-graph"}), 0),
    "3": (frozenset({"graph-reused", "non-scalar-backward", "in-place", "no-graph", "backward-error"}), 0),
    "4": (frozenset({"gradients-accumulate", "cleared-before-step", "gradients-thrown-away", "step-before-backward",
                     "optimizer-never-steps", "stepped-twice", "clip-after-step",
                     "step-without-gradients"}), 2),
    "5": (frozenset({"not-in-optimizer", "unregistered-module", "unregistered-parameter", "non-leaf-attribute",
                     "unused", "made-in-forward", "stale-optimizer", "optimizer-holds-strays", "misspelt-requires-grad",
                     "requires-grad-on-module", "optimizer-all-frozen"}), 1),
}  # fmt: skip
# Rules whose statement is about the text, not about what happens: a run that goes well does not speak against them.
SILENT = frozenset({"no-grad-without-effect"})


class Claim(NamedTuple):
    """A static finding as the probe needs it; lines are 1-based, `places` is its trail."""

    code: str
    name: str
    message: str
    severity: str
    file: str
    line: int
    end_line: int
    column: int
    places: tuple[tuple[str, int], ...]


def load(path: Path) -> list[Claim]:
    """Claims from the JSON of `gradline check`. Raises OSError, or ValueError for other JSON."""
    return read(json.loads(path.read_text(encoding="utf-8")))


def read(findings: Any) -> list[Claim]:
    if not isinstance(findings, list):
        raise ValueError("the findings are no list: the JSON of gradline check is needed")
    claims = []
    for entry in findings:
        related = entry.get("related") or []
        claims.append(
            Claim(
                entry["code"],
                entry.get("name", ""),
                entry["message"],
                entry.get("severity", "warning"),
                _file(entry),
                entry["location"]["row"],
                entry["end_location"]["row"],
                entry["location"]["column"],
                tuple((_file(step), step["location"]["row"]) for step in related),
            )
        )
    return claims


def _file(place: dict[str, Any]) -> str:
    """The file as the agent names it: a notebook's cell is `study.ipynb#cell=N`, counted over all cells from 0."""
    cell = place.get("cell")
    path = os.path.abspath(place["filename"])
    return path if cell is None else f"{path}#cell={cell - 1}"


def static_findings(asked: Asked) -> tuple[list[Claim], str]:
    """What `gradline check` says of the program's own files, and why it cannot say (empty where it can)."""
    import contextlib
    import io

    path = asked.target.get("path")
    if asked.target["kind"] == "wrap":
        path = next(
            (w for w in asked.target["command"] if w.endswith(".py") and os.path.isfile(os.path.join(asked.cwd, w))),
            None,
        )
    where = os.path.dirname(os.path.join(asked.cwd, path)) if path else asked.cwd
    said = io.StringIO()
    try:
        from ..cli import main

        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            main(["check", "--output-format", "json", "--exit-zero", where or "."])
        return read(json.loads(said.getvalue() or "[]")), ""
    except (Exception, SystemExit) as error:  # the run does not depend on it
        return [], f"no static findings were judged: gradline check failed with {type(error).__name__}: {error}"


def lines_of(claims: list[Claim]) -> dict[str, list[int]]:
    """The lines that the run must tell about, by file."""
    out: dict[str, set[int]] = {}
    for claim in claims:
        out.setdefault(claim.file, set()).update(range(claim.line, claim.end_line + 1))
        for file, line in claim.places:
            out.setdefault(file, set()).add(line)
    return {file: sorted(lines) for file, lines in out.items()}


def judge(report: dict[str, Any], claims: list[Claim]) -> None:
    """Give the report its `verdicts`, and each of its findings the claims (by index) that it goes with."""
    report["verdicts"] = []
    for finding in report["findings"]:
        finding["static"] = []
    for number, claim in enumerate(claims):
        verdict, because, finding = _one(report, claim)
        report["verdicts"].append(
            {
                "id": f"{claim.file}:{claim.line}:{claim.column}:{claim.code}",
                "code": claim.code,
                "name": claim.name,
                "message": claim.message,
                "file": claim.file,
                "line": claim.line,
                "column": claim.column,
                "verdict": verdict,
                "because": because,
            }
        )
        for other in report["findings"]:
            at = other["at"] or {}
            same = (os.path.abspath(at.get("file", "")), at.get("line")) in _lines(claim)
            if other is finding or (verdict == CONFIRMED and same):
                other["static"].append(number)


def _lines(claim: Claim) -> set[tuple[str, int]]:
    return {(claim.file, line) for line in range(claim.line, claim.end_line + 1)}


def _places(thing: Any, depth: int = 0) -> list[tuple[str, int]]:
    """Every file and line named inside a finding."""
    out: list[tuple[str, int]] = []
    if isinstance(thing, dict):
        if isinstance(thing.get("file"), str) and isinstance(thing.get("line"), int):
            out.append((os.path.abspath(thing["file"]), thing["line"]))
        for value in thing.values():
            if depth < 4:
                out += _places(value, depth + 1)
    elif isinstance(thing, list):
        for value in thing:
            out += _places(value, depth + 1)
    return out


def _one(report: dict[str, Any], claim: Claim) -> tuple[str, str, dict | None]:
    lines = _lines(claim)
    trail = lines | set(claim.places)
    rules, needed = SHOWN_BY.get(claim.code[2:3], (frozenset(), 0))
    # 1. a finding of the run at the claim's line, or of a kind that shows it on the claim's trail
    for finding in report["findings"]:
        at = _places({"at": {k: v for k, v in (finding["at"] or {}).items() if k != "called_from"}})
        if set(at) & lines and finding["confidence"] != "possible":
            return CONFIRMED, finding["message"], finding
    for finding in report["findings"]:
        named = set(_places(finding["at"])) | set(_places(finding["evidence"]))
        if finding["rule"] in rules and finding["confidence"] != "possible" and named & trail:
            return CONFIRMED, finding["message"], finding
    failure = report.get("exception")
    if failure and set(_places(failure["at"])) & lines and claim.severity == "error":
        return CONFIRMED, f"{failure['type']}: {failure['message'][:200]}", None
    # 2. did it run at all?
    executed = {(file, line) for file, line in report.get("executed", ())}
    if not lines & executed:
        return NOT_REACHED, "the line did not run before the stop", None
    return _ran(report, claim, lines, rules, needed)


def _ran(report: dict, claim: Claim, lines: set, rules: frozenset, needed: int) -> tuple[str, str, None]:
    """The line ran, and no finding of the run names it."""
    backward = [
        b
        for b in report.get("backward", ())
        if b.get("at") and (os.path.abspath(b["at"]["file"]), b["at"]["line"]) in lines
    ]
    if backward and claim.code[2:3] in "123":
        good = [b for b in backward if b.get("ok") and not b.get("is_leaf")]
        if len(good) == len(backward):
            reached = max(b.get("leaves", 0) for b in good)
            return REFUTED, f"backward ran here {len(good)} times and reached {reached} leaves", None
    cuts = [
        c
        for c in report.get("cuts", ())
        if c.get("at") and (os.path.abspath(c["at"]["file"]), c["at"]["line"]) in lines
    ]
    if claim.name in SILENT or not rules:
        return UNDECIDED, "one run does not decide this", None
    if claim.code[2:3] == "1" and cuts and report.get("backward_calls"):
        feeding = [c for c in cuts if c["feeds_the_loss"]]
        if not feeding:
            times = sum(c["count"] for c in cuts)
            because = f"{cuts[0]['op']} cut the graph here {times} times, and its result reached no loss"
            return REFUTED, because, None
        if all(not c["upstream_without_grad"] for c in feeding):
            return (
                REFUTED,
                "its result feeds a loss, but every parameter upstream gets a gradient on another path",
                None,
            )
        return UNDECIDED, "its result feeds a loss, and some parameters upstream got no gradient yet", None
    ok = any(b.get("ok") for b in report.get("backward", ()))
    if not ok or (report.get("steps") or 0) < needed:
        return UNDECIDED, "too little ran to tell", None
    if any(f["rule"] in rules for f in report["findings"]):
        return UNDECIDED, "something of the kind was seen, at another place", None
    return REFUTED, "the line ran, and nothing of the kind was seen", None
