"""What one real run says of each static finding: confirmed, refuted, or not reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from .callers import Callers
from .options import Asked

CONFIRMED, REFUTED, NOT_REACHED, UNDECIDED = "confirmed", "refuted", "not reached", "undecided"
# The findings of a run that show what a rule of this family (the hundreds of its code) claims.
SHOWN_BY: dict[str, frozenset[str]] = {
    "1": frozenset({"cut-graph", "hidden-error", "number-backward", "dead-term", "no-graph", "zero-gradient"}),
    "2": frozenset({"grad-mode-off", "grad-mode-left-off", "inference-tensor", "cut-graph"}),
    "3": frozenset({"graph-reused", "non-scalar-backward", "in-place", "no-graph", "backward-error"}),
    "4": frozenset({"gradients-accumulate", "cleared-before-step", "gradients-thrown-away", "step-before-backward",
                    "optimizer-never-steps", "stepped-twice", "clip-after-step", "step-without-gradients",
                    "scheduler-before-step", "eval-mode-left-on"}),
    "5": frozenset({"not-in-optimizer", "unregistered-module", "unregistered-parameter", "non-leaf-attribute",
                    "unused", "made-in-forward", "stale-optimizer", "optimizer-holds-strays", "misspelt-requires-grad",
                    "requires-grad-on-module", "optimizer-all-frozen", "pretrained-frozen", "frozen-batchnorm-moves",
                    "duplicate-parameters", "optimizer-empty", "optimizer-non-leaf"}),
    "6": frozenset({"ddp-bypassed", "graph-break"}),
    "7": frozenset({"wrong-number-of-gradients", "checkpoint-without-gradient"}),
    "8": frozenset({"squashed-twice", "broadcast-loss", "no-log-probabilities"}),
    "9": frozenset({"graph-kept"}),
}  # fmt: skip
# Rules that a run can speak against, with the optimizer steps that takes: what they claim could not have gone unseen.
# All others are about the text, about later epochs, or about more than two steps show.
REFUTABLE: dict[str, int] = {
    **dict.fromkeys(("GL101", "GL102", "GL103", "GL104", "GL110"), 0),
    **dict.fromkeys(("GL201", "GL202", "GL301", "GL302", "GL305"), 0),
    **dict.fromkeys(("GL401", "GL404", "GL410", "GL508"), 2),
    **dict.fromkeys(("GL402", "GL403", "GL417"), 1),
    **dict.fromkeys(("GL501", "GL502", "GL503", "GL504", "GL505", "GL506", "GL507", "GL509", "GL510", "GL511"), 1),
    **dict.fromkeys(("GL513", "GL514", "GL515", "GL603", "GL701", "GL702"), 1),
}
BACKWARD_RAISES = frozenset(("GL101", "GL102", "GL103", "GL202", "GL301", "GL302", "GL305", "GL701"))


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
    sites: frozenset[tuple[str, int]] = frozenset()  # calls that lead to it, see `callers`


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


def script_of(asked: Asked) -> str | None:
    """The file that is started, as an absolute path; None where no file is named."""
    path = asked.target.get("path")
    if asked.target["kind"] == "wrap":
        words = asked.target["command"]
        path = next((w for w in words if w.endswith(".py") and os.path.isfile(os.path.join(asked.cwd, w))), None)
    return os.path.join(asked.cwd, path) if path else None


def static_findings(asked: Asked) -> tuple[list[Claim], str]:
    """What `gradline check` says of the program's own files, and why it cannot say (empty where it can)."""
    import contextlib
    import io

    script = script_of(asked)
    where = os.path.dirname(script) if script else asked.cwd
    said = io.StringIO()
    try:
        from ..cli import main

        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            main(["check", "--output-format", "json", "--exit-zero", where or "."])
        return read(json.loads(said.getvalue() or "[]")), ""
    except (Exception, SystemExit) as error:  # the run does not depend on it
        return [], f"no static findings were judged: gradline check failed with {type(error).__name__}: {error}"


def with_callers(claims: list[Claim], script: str | None = None) -> list[Claim]:
    """The same, each with the calls through which its line can be reached."""
    known = Callers([c.file for c in claims] + [file for c in claims for file, _ in c.places] + [script or ""])
    return [claim._replace(sites=frozenset(known.sites(claim.file, claim.line))) for claim in claims]


def lines_of(claims: list[Claim]) -> dict[str, list[int]]:
    """The lines that the run must tell about, by file."""
    out: dict[str, set[int]] = {}
    for claim in claims:
        out.setdefault(claim.file, set()).update(range(claim.line, claim.end_line + 1))
        for file, line in (*claim.places, *claim.sites):
            out.setdefault(file, set()).add(line)
    return {file: sorted(lines) for file, lines in out.items()}


def judge(report: dict[str, Any], claims: list[Claim]) -> None:
    """Give the report its `verdicts`, and each of its findings the verdicts (by index) that it goes with.

    What is claimed of files that the program never loaded is left out, where the run tells which it loaded.
    """
    report["verdicts"] = []
    ran = report.get("files")
    if ran:
        claims = [claim for claim in claims if claim.file.partition("#cell=")[0] in ran]
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
    rules = SHOWN_BY.get(claim.code[2:3], frozenset())
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
    if not set(claim.places) <= executed:
        return NOT_REACHED, "the line ran, but not on the way that the finding describes", None
    verdict, because, finding = _ran(report, claim, lines, rules)
    others = sorted(claim.sites - executed)
    if verdict == REFUTED and others and not str(report.get("stopped", "")).startswith("the program ended"):
        file, line = others[0]
        return UNDECIDED, f"{because}; it is also reached from {os.path.basename(file)}:{line}, which did not run", None
    return verdict, because, finding


def _ran(report: dict, claim: Claim, lines: set, rules: frozenset) -> tuple[str, str, None]:
    """The line and its trail ran, and no finding of the run names it."""
    if claim.code not in REFUTABLE:
        return UNDECIDED, "one run does not decide this", None

    def here(entries: Any) -> list[dict]:
        return [e for e in entries if e.get("at") and (os.path.abspath(e["at"]["file"]), e["at"]["line"]) in lines]

    backward = here(report.get("backward", ()))
    if backward and claim.code in BACKWARD_RAISES:
        good = [b for b in backward if b.get("ok") and not b.get("is_leaf")]
        if len(good) == len(backward):
            reached = max(b.get("leaves", 0) for b in good)
            return REFUTED, f"backward ran here {len(good)} times and reached {reached} leaves", None
    cuts = here(report.get("cuts", ()))
    if claim.code[2:3] == "1" and cuts and report.get("backward_calls"):
        feeding = [c for c in cuts if c["feeds_the_loss"]]
        if not feeding:
            times = sum(c["count"] for c in cuts)
            because = f"{cuts[0]['op']} cut the graph here {times} times, and its result reached no loss"
            return REFUTED, because, None
        if all(not c["upstream_without_grad"] for c in feeding):
            because = "its result feeds a loss, but every parameter upstream gets a gradient on another path"
            return REFUTED, because, None
        return UNDECIDED, "its result feeds a loss, and some parameters upstream got no gradient yet", None
    ok = any(b.get("ok") for b in report.get("backward", ()))
    if not ok or (report.get("steps") or 0) < REFUTABLE[claim.code]:
        return UNDECIDED, "too little ran to tell", None
    if claim.code[2:3] == "2" and report["grad_mode"]["on_at_end"] is False:
        return UNDECIDED, "grad mode was off at the end of what ran", None
    if claim.code == "GL403" and not all(o.get("steps") for o in report.get("optimizers", ())):
        return UNDECIDED, "not every optimizer has stepped yet", None
    if any(f["rule"] in rules for f in report["findings"]):
        return UNDECIDED, "something of the kind was seen, at another place", None
    return REFUTED, "the line ran, and nothing of the kind was seen", None
