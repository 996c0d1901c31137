"""Each claim against what torch showed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import claims
import generator
import truth


class Contradiction(NamedTuple):
    seed: int
    path: str
    line: int
    name: str
    claimed: tuple[claims.Claim, ...]
    seen: tuple[truth.Seen, ...]  # those that no claim allows

    def __str__(self) -> str:
        said = " or ".join(sorted(f"{c.kind}/{c.rank}/{c.mode}" for c in self.claimed)) or "never reached"
        was = "; ".join(
            f"{s.kind}{' requires grad' if s.requires_grad else ''}, {s.elements} elements, mode {s.mode}"
            for s in self.seen
        )
        return f"program {self.seed}, {self.path}:{self.line} {self.name}: claimed {said}; torch showed {was}"


@dataclass
class Report:
    programs: int = 0
    places: int = 0
    unknown: int = 0  # places of which the kind is not claimed
    unknown_mode: int = 0
    raised: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0  # interpretations that passed a bound
    crashed: list[tuple[int, str]] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)


def compare(seeds: range | list[int], batch: int = 50) -> Report:
    """Generates, runs and interprets the programs of these seeds."""
    report = Report()
    seeds = list(seeds)
    for begin in range(0, len(seeds), batch):
        programs = [(seed, generator.program(seed)) for seed in seeds[begin : begin + batch]]
        shown = truth.run_batch(programs)
        for seed, files in programs:
            if seed in shown:
                judge(report, seed, files, *shown[seed])
    return report


def judge(report: Report, seed: int, files: dict[str, str], shown: dict, error: str) -> None:
    report.programs += 1
    if error:
        report.raised[error.split("(")[0][:80]] += 1
    try:
        said, complete = claims.claims(files)
    except Exception as e:
        report.crashed.append((seed, f"{type(e).__name__}: {e}"[:200]))
        return
    report.incomplete += not complete
    names = truth.marks(files)
    for place, seen in sorted(shown.items()):
        report.places += 1
        mine = said.get(place, set())
        if any(c.kind in ("unknown", "tensor") for c in mine) or len({c.kind for c in mine}) > 1:
            report.unknown += 1
        if any(c.mode == "maybe" for c in mine) or len({c.mode for c in mine}) > 1:
            report.unknown_mode += 1
        wrong = tuple(s for s in seen if not any(claims.covers(c, s) for c in mine))
        if wrong and (mine or complete):
            report.contradictions.append(Contradiction(seed, *place, names[place][0], tuple(mine), wrong))
