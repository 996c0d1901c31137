"""One report out of the reports of all processes of a run."""

from __future__ import annotations

import os
from typing import Any

from .options import Asked

ORDER = {"certain": 0, "likely": 1, "possible": 2}
NORM_TOLERANCE = 1e-3  # relative difference between ranks' gradient norms after an all-reduce that is only rounding


def merge(outcome: dict[str, Any], asked: Asked, python: str, torch: str) -> dict[str, Any]:
    """The report that every view is made of: the main process's (or rank 0's), with what other ranks saw beside it."""
    reports = outcome["reports"]
    trained = [r for r in reports if r.get("backward_calls") or r.get("steps")]
    ranks = sorted(
        (r for r in trained if r.get("rank") is not None and (r.get("world_size") or 1) > 1), key=lambda r: r["rank"]
    )
    main = next((r for r in reports if r.get("main")), None)
    if main is not None and (main in trained or not trained):
        chosen = main
    else:
        failed = [r for r in reports if r.get("exception")]
        chosen = ranks[0] if ranks else trained[0] if trained else failed[0] if failed else main or {}
    report: dict[str, Any] = {k: v for k, v in chosen.items() if k not in ("main", "pid", "executed")}
    report.setdefault("findings", [])
    report.setdefault("notes", [])
    report.setdefault("exception", None)
    report["version"] = 1
    report["target"] = asked.target
    report["command"] = asked.command_line()
    report["cwd"] = asked.cwd
    report["interpreter"] = {"path": asked.python, "python": python, "torch": chosen.get("torch") or torch}
    report["exit_status"] = outcome["status"]
    report["seconds"] = outcome["seconds"]
    report["isolation"] = outcome["isolation"]
    report["executed"] = sorted({tuple(pair) for r in reports for pair in r.get("executed", ())})
    report["files"] = sorted({file for r in reports for file in r.get("files", ())})
    report["processes"] = [
        {k: r.get(k) for k in ("pid", "rank", "world_size", "stopped", "steps", "backward_calls")} for r in reports
    ]
    if outcome["why"]:
        report["stopped"] = f"{outcome['why']} ({chosen.get('stopped', 'no report')})"
    report.setdefault("stopped", f"the program ended with status {outcome['status']} and left no report")
    if not reports:
        report["notes"].append("no process of this run left a report: none of them imported torch, or it was killed")
    if len(ranks) > 1:
        report["ranks"] = [_rank(r) for r in ranks]
        report["differences"] = differences(ranks)
        for other in ranks:
            for finding in other.get("findings", ()):
                _join(report["findings"], finding, other["rank"], chosen.get("rank"))
    report["findings"].sort(key=lambda f: ORDER.get(f["confidence"], 3))
    return report


def _join(findings: list[dict], finding: dict, rank: int, own: Any) -> None:
    """Add a rank's finding, or say of ours that this rank has it too."""

    def key(f: dict) -> tuple:
        return f["rule"], (f["at"] or {}).get("file"), (f["at"] or {}).get("line")

    same = next((f for f in findings if key(f) == key(finding)), None)
    if same is None:
        findings.append({**finding, "ranks": [rank]})
    else:
        same.setdefault("ranks", [own] if own is not None else [])
        if rank not in same["ranks"]:
            same["ranks"].append(rank)


def _rank(report: dict) -> dict[str, Any]:
    states: dict[str, int] = {}
    for row in report.get("parameters", ()):
        states[row["grad"]] = states.get(row["grad"], 0) + 1
    return {
        "rank": report["rank"],
        "stopped": report["stopped"],
        "steps": report["steps"],
        "grad_states": states,
        "grad_on_at_end": report["grad_mode"]["on_at_end"],
        "findings": len(report["findings"]),
    }


def differences(ranks: list[dict]) -> list[dict[str, Any]]:
    """What ranks disagree on: grad mode, which parameters got gradients, and norms after the all-reduce."""
    out: list[dict[str, Any]] = []
    first = ranks[0]
    modes = {r["rank"]: r["grad_mode"]["on_at_end"] for r in ranks}
    if len(set(modes.values())) > 1:
        out.append({"kind": "grad mode", "message": f"grad mode at the end: {modes}"})
    out += _switches(ranks)
    steps = {r["rank"]: r.get("backward_calls") for r in ranks}
    if len(set(steps.values())) > 1 and not any(r.get("exception") for r in ranks):
        out.append({"kind": "backward calls", "message": f"backward calls by rank: {steps}"})
    out += _unused(ranks)
    base = {row["name"]: row for row in first.get("parameters", ())}
    for other in ranks[1:]:
        rows = {row["name"]: row for row in other.get("parameters", ())}
        state = [n for n in base if n in rows and _states_differ(base[n], rows[n])]
        if state:
            pair = f"rank {first['rank']} and rank {other['rank']}"
            text = f"{pair} differ in whether {len(state)} parameters got a gradient"
            out.append({"kind": "gradients", "message": text, "parameters": state[:200]})
        norm = [
            n
            for n in base
            if n in rows
            and not base[n].get("sharded")
            and isinstance(base[n]["norm"], float)
            and isinstance(rows[n]["norm"], float)
            and abs(base[n]["norm"] - rows[n]["norm"]) > NORM_TOLERANCE * max(abs(base[n]["norm"]), 1e-12)
        ]
        if norm:
            text = (
                f"rank {first['rank']} and rank {other['rank']} have different gradient norms in {len(norm)} parameters"
            )
            out.append({"kind": "norms", "message": text, "parameters": norm[:200]})
        missing = sorted(set(base) ^ set(rows))
        if missing:
            text = f"rank {first['rank']} and rank {other['rank']} do not have the same parameters"
            out.append({"kind": "parameters", "message": text, "parameters": missing[:200]})
    return out


def _switches(ranks: list[dict]) -> list[dict[str, Any]]:
    """Places that switch grad mode off on some ranks and not on others."""
    where: dict[tuple, dict[int, dict]] = {}
    for report in ranks:
        for change in report["grad_mode"].get("changes", ()):
            at = change.get("decorated") or change.get("at") or change.get("library")
            if not change["mode"] and change["how"] != "left" and at:
                where.setdefault((change["via"], at["file"], at["line"]), {})[report["rank"]] = at
    out = []
    for (via, file, line), seen in where.items():
        if len(seen) < len(ranks):
            at = next(iter(seen.values()))
            text = f"{via} switches grad mode off at {os.path.basename(file)}:{line} on rank {_names(seen)} alone"
            out.append({"kind": "grad mode", "message": text, "at": at, "ranks": sorted(seen)})
    return out[:20]


def _unused(ranks: list[dict]) -> list[dict[str, Any]]:
    """Modules with parameters that ran on some ranks and not on others."""
    ran: dict[str, set[int]] = {}
    for report in ranks:
        for module in report.get("modules", ()):
            if module["parameters"] and not module.get("compiled"):
                ran.setdefault(module["name"], set()).update([report["rank"]] if module["calls"] else [])
    apart: dict[tuple, list[str]] = {}
    for name, on in ran.items():
        if on and len(on) < len(ranks):
            apart.setdefault(tuple(sorted(on)), []).append(name)
    return [
        {"kind": "modules", "message": f"{', '.join(names[:5])} ran on rank {_names(on)} alone", "modules": names[:200]}
        for on, names in apart.items()
    ]


def _names(ranks: Any) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _states_differ(one: dict, other: dict) -> bool:
    """A shard may be empty or all zero on one rank alone."""
    if one.get("sharded"):
        return (one["grad"] == "none") != (other["grad"] == "none")
    return one["grad"] != other["grad"]


def counts(report: dict[str, Any]) -> int:
    """Findings that are more than `possible`."""
    return sum(f["confidence"] != "possible" for f in report["findings"])
