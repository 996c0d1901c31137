"""gradline's claims against torch on random programs.

    python benchmarks/differential [--programs 5000] [--seed 0] [--show 5] [--program SEED]

Prints each contradiction (the exit code is 1 if there is one), the share of places of which nothing is claimed, and
with `--program` one program with what was claimed and what torch showed, line by line.
"""

from __future__ import annotations

import argparse
import sys

import claims
import compare
import generator
import truth


def show(seed: int) -> None:
    """One program, each mark with what gradline says (and, where it differs, what torch showed)."""
    files = generator.program(seed)
    shown, error = truth.run_batch([(seed, files)])[seed]
    said, complete = claims.claims(files)
    for path, text in sorted(files.items()):
        print(f"# ---- {path}")
        for number, line in enumerate(text.splitlines(), 1):
            place = (path, number)
            note = ""
            if place in truth.marks(files):
                mine = said.get(place, set())
                note = " | ".join(sorted("/".join(c) for c in mine)) or "not reached"
                wrong = [s for s in shown.get(place, ()) if not any(claims.covers(c, s) for c in mine)]
                note += f"     <<<<< torch: {wrong}" if wrong else "" if place in shown else "   (torch: not reached)"
            print(f"{number:4} {line:60}{note}")
    print(f"# ends with: {error or 'no error'}; interpretation {'complete' if complete else 'stopped at a bound'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the others follow")
    parser.add_argument("--show", type=int, default=10, help="contradictions to print")
    parser.add_argument("--program", type=int, help="print this one program instead")
    a = parser.parse_args()
    if a.program is not None:
        show(a.program)
        return 0
    report = compare.compare(range(a.seed, a.seed + a.programs))
    for c in report.contradictions[: a.show]:
        print(c)
    for seed, error in report.crashed[: a.show]:
        print(f"program {seed}: the interpretation crashed: {error}")
    wrong = len({c.seed for c in report.contradictions})
    share = 100 / max(report.places, 1)
    print(
        f"{report.programs} programs ({sum(report.raised.values())} end by an exception), {report.places} places: "
        f"{len(report.contradictions)} contradictions in {wrong} programs, {len(report.crashed)} crashes, "
        f"{report.incomplete} stopped at a bound; not claimed: {report.unknown * share:.1f} % of values, "
        f"{report.unknown_mode * share:.1f} % of modes"
    )
    return 1 if report.contradictions or report.crashed else 0


if __name__ == "__main__":
    sys.exit(main())
