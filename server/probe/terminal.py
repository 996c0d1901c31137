"""The report in a terminal."""

from __future__ import annotations

import math
import os
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

MAX_ROWS = 40  # rows of the module tree: about one screen
BAR = 24  # cells of the longest bar
COLORS = {"certain": "bold red", "likely": "yellow", "possible": "dim", "confirmed": "bold red", "refuted": "green",
          "not reached": "dim", "undecided": "cyan"}  # fmt: skip
STATES = {"ok": "green", "none": "bold red", "zero": "yellow", "not finite": "bold magenta", "frozen": "blue"}


def show(report: dict[str, Any], console: Console | None = None) -> None:
    """Print the report; `console` is where (stderr by default, so that the program's stdout stays its own)."""
    console = console or Console(stderr=True, highlight=False)
    console.print(_head(report))
    for finding in report["findings"]:
        console.print(_finding(report, finding))
    if report.get("verdicts"):
        console.print(_verdicts(report))
    if report.get("modules"):
        console.print(_modules(report))
    if report.get("grad_mode", {}).get("changes"):
        console.print(_grad_mode(report))
    if report.get("iterations"):
        console.print(_iterations(report))
    if report.get("compile"):
        console.print(_compile(report))
    if report.get("ranks"):
        console.print(_ranks(report))
    if report.get("gradcheck"):
        console.print(_gradcheck(report["gradcheck"]))
    notes = [*_isolation(report), *report.get("notes", ())]
    if notes:
        console.print(Group(*(Text(f"note: {note}", style="dim") for note in notes)))


def place(at: dict[str, Any] | None, cwd: str) -> str:
    if not at:
        return "?"
    file, _, cell = at["file"].partition("#cell=")
    inside = file.startswith(cwd.rstrip(os.sep) + os.sep)
    shown = os.path.relpath(file, cwd) if inside else file
    return f"{shown}{f' cell {int(cell) + 1}' if cell else ''}:{at['line']}"  # people count from 1


def number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, (int, float)) else str(value)


def _head(report: dict[str, Any]) -> Panel:
    count = {c: sum(f["confidence"] == c for f in report["findings"]) for c in ("certain", "likely", "possible")}
    words = ", ".join(f"{n} {c}" for c, n in count.items() if n) or "nothing"
    who = report["interpreter"]
    text = Text()
    text.append(f"{report['command']}\n", style="bold")
    text.append(f"{report.get('steps', 0)} optimizer steps, {report.get('backward_calls', 0)} backward calls; ")
    text.append(
        f"stopped: {report['stopped']}; {number(report['seconds'])} s; Python {who['python']}, torch {who['torch']}\n"
    )
    text.append(f"findings: {words}", style="bold red" if count["certain"] or count["likely"] else "bold green")
    return Panel(text, title="gradline probe", title_align="left")


def _finding(report: dict[str, Any], finding: dict[str, Any]) -> Text:
    cwd = report["cwd"]
    text = Text()
    text.append(f"{place(finding['at'], cwd)} ", style="bold")
    text.append(f"{finding['rule']} ", style=COLORS[finding["confidence"]])
    text.append(f"[{finding['confidence']}] ", style="dim")
    text.append(finding["message"])
    if report.get("verdicts") is not None and not finding.get("static") and report["verdicts"]:
        text.append(" (seen in the run alone)", style="dim")
    if finding.get("ranks"):
        text.append(f" (ranks {', '.join(map(str, finding['ranks']))})", style="dim")
    source = _source(finding["at"])
    if source:
        text.append(f"\n    {source}", style="italic")
    for item in finding["evidence"]:
        text.append(f"\n    {place(item['at'], cwd)}: {item['note']}", style="dim")
    names = finding.get("parameters", [])
    if names:
        more = finding["parameter_count"] - 6
        text.append(f"\n    {', '.join(names[:6])}{f' and {more} more' if more > 0 else ''}", style="dim")
    text.append("\n")
    return text


def _source(at: dict[str, Any] | None) -> str:
    if not at or "#cell=" in at["file"]:
        return ""
    try:
        with open(at["file"], encoding="utf-8", errors="replace") as file:
            for count, line in enumerate(file, 1):
                if count == at["line"]:
                    return line.strip()
    except OSError:
        pass
    return ""


def _verdicts(report: dict[str, Any]) -> Table:
    table = Table(title="static findings", title_justify="left", box=None, padding=(0, 1))
    for title in ("verdict", "code", "place", "because"):
        table.add_column(title, overflow="fold")
    for entry in report["verdicts"]:
        table.add_row(
            Text(entry["verdict"], style=COLORS[entry["verdict"]]),
            entry["code"],
            escape(place({"file": entry["file"], "line": entry["line"]}, report["cwd"])),
            escape(entry["because"]),
        )
    return table


def _summed(report: dict[str, Any]) -> list[dict[str, Any]]:
    """For each module: how many parameters below it are in which state, and the largest gradient norm."""
    modules, rows = report["modules"], report["parameters"]
    sums: list[dict[str, Any]] = [{"states": {}, "norm": 0.0} for _ in modules]
    path: list[int] = []
    for number_, module in enumerate(modules):
        del path[module["depth"] :]
        path.append(number_)
        for row in (rows[i] for i in module["parameters"]):
            for above in path:
                sums[above]["states"][row["grad"]] = sums[above]["states"].get(row["grad"], 0) + 1
                if isinstance(row["norm"], (int, float)):
                    sums[above]["norm"] = math.hypot(sums[above]["norm"], row["norm"])
    return sums


def _modules(report: dict[str, Any]) -> Tree:
    """The modules in forward order, as deep as one screen allows, with gradient norms as bars on a log scale."""
    modules, sums = report["modules"], _summed(report)
    depth = max((m["depth"] for m in modules), default=0)
    while depth > 0 and sum(m["depth"] <= depth for m in modules) > MAX_ROWS:
        depth -= 1
    shown = [i for i, m in enumerate(modules) if m["depth"] <= depth][:MAX_ROWS]
    norms = [sums[i]["norm"] for i in shown if sums[i]["norm"] > 0]
    low, high = (math.log10(min(norms)), math.log10(max(norms))) if norms else (0.0, 0.0)
    tree = Tree(Text("gradients by module (bar: norm, log scale)", style="bold"), guide_style="dim")
    branches = {-1: tree}
    for index in shown:
        module, total = modules[index], sums[index]
        line = Text()
        line.append(f"{module['label']} ")
        line.append(f"{module['type']} ", style="dim")
        if total["norm"] > 0:
            share = (math.log10(total["norm"]) - low) / (high - low) if high > low else 1.0
            line.append("█" * max(1, round(BAR * (0.1 + 0.9 * share))), style="green")
            line.append(f" {total['norm']:.2e}")
        for state in ("none", "zero", "not finite", "frozen"):
            if total["states"].get(state):
                line.append(f"  {total['states'][state]} {state}", style=STATES[state])
        if module.get("compiled"):
            line.append("  inside compiled code", style="dim")
        elif not module["calls"]:
            line.append("  never called", style="dim" if not total["states"] else "bold red")
        elif module["calls_off"]:
            line.append(f"  {module['calls_off']} of {module['calls']} calls with grad mode off", style="blue")
        branches[module["depth"]] = branches[module["depth"] - 1].add(line)
    if len(shown) < len(modules):
        tree.add(Text(f"{len(modules) - len(shown)} more modules: see the HTML or JSON report", style="dim"))
    return tree


def _grad_mode(report: dict[str, Any]) -> Table:
    table = Table(title="grad mode", title_justify="left", box=None, padding=(0, 1))
    for title in ("", "place", "by", "times"):
        table.add_column(title)
    for change in report["grad_mode"]["changes"][:20]:
        at = change.get("decorated") or change["at"] or change.get("library")
        how = "" if change["how"] in ("called", "with") else f" ({change['how']})"
        state = Text("on", style="green") if change["mode"] else Text("off", style="bold blue")
        table.add_row(state, escape(place(at, report["cwd"])), escape(change["via"] + how), str(change["count"]))
    return table


def _iterations(report: dict[str, Any]) -> Table:
    table = Table(title="steps", title_justify="left", box=None, padding=(0, 1))
    on_gpu = any(entry.get("gpu_memory") for entry in report["iterations"])
    for title in ("optimizer", "forward", "backward", "step"):
        table.add_column(title, justify="left" if title == "optimizer" else "right")
    for entry in report["iterations"][:8]:
        cells = []
        for phase in ("forward", "backward", "step"):
            seconds, memory = entry.get(f"{phase}_s"), entry.get(f"{phase}_memory")
            gpu = entry.get(f"{phase}_gpu_memory")
            parts = [f"{seconds * 1000:.1f} ms" if seconds is not None else "-"]
            parts += [f"{memory / (1 << 20):.0f} MiB"] if memory else []
            parts += [f"GPU {gpu / (1 << 20):.0f} MiB"] if gpu else []
            cells.append(", ".join(parts))
        table.add_row(entry["optimizer"], *cells)
    table.caption = "time and peak memory" + (", the GPU's the highest so far" if on_gpu else "")
    table.caption_justify = "left"
    return table


def _compile(report: dict[str, Any]) -> Table:
    said = report["compile"]
    table = Table(title=f"torch.compile: {said['graphs']} graphs", title_justify="left", box=None, padding=(0, 1))
    for title in ("", "place", "times", "reason"):
        table.add_column(title, overflow="fold")
    for event in [*said["breaks"], *said["recompiles"]][:20]:
        where = escape(place(event["at"], report["cwd"]))
        table.add_row(event["kind"], where, str(event["count"]), escape(event["reason"]))
    return table


def _ranks(report: dict[str, Any]) -> Group:
    lines = [Text("ranks", style="bold")]
    for rank in report["ranks"]:
        states = ", ".join(f"{n} {state}" for state, n in rank["grad_states"].items())
        lines.append(Text(f"  {rank['rank']}: {rank['steps']} steps; parameters: {states}; {rank['stopped']}"))
    lines += [Text(f"  {d['message']}", style="bold red") for d in report.get("differences", ())]
    if not report.get("differences"):
        lines.append(Text("  no differences between them", style="green"))
    return Group(*lines)


def _gradcheck(entry: dict[str, Any]) -> Panel:
    return Panel(
        Text(entry["words"], style="green" if entry["ok"] else "bold red"), title="gradient check", title_align="left"
    )


def _isolation(report: dict[str, Any]) -> list[str]:
    said = report["isolation"]
    kept = said.get("kept_out") or []
    if said["kind"] == "overlay":
        text = f"{len(kept)} files that the program wrote were kept out of {', '.join(said['folders'])}"
        return [text] if kept else []
    if said["kind"] == "copy":
        return [f"the program ran in a copy of {', '.join(said['folders'])}"]
    writes = [w["path"] for w in report.get("writes", ())]
    out = []
    if said.get("why"):
        out.append(f"files were not isolated: {said['why']}")
    if writes:
        out.append(
            f"the program wrote {', '.join(writes[:5])}{f' and {len(writes) - 5} more' if len(writes) > 5 else ''}"
        )
    return out
