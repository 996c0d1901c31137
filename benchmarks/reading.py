"""What reading costs: the cut, parsing and lowering unit by unit, against `ast.parse` of the same files.

    python benchmarks/reading.py [FOLDER ...] [--half-typed N]

Without a folder: torch as installed. CPU time of this process, medians of `RUNS` runs after one that is not counted, with
the garbage collector off and every tree dropped at once; a ratio compares medians of one and the same run.

`--half-typed N` measures instead what stays known of N texts with a half-typed line and N with one bracket, colon or
quote deleted, and what reading such a text costs.
"""

from __future__ import annotations

import argparse
import ast
import gc
import random
import statistics
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from gradline import reading, text, units

RUNS = 5
LINES = 100_000  # of the files given, a sample of about as many lines is measured
KEYSTROKES = 60


def sources(folders: list[Path]) -> list[str]:
    """A sample of the Python files below the folders that are Python to this interpreter."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    random.Random(1).shuffle(paths)
    found: list[str] = []
    count = 0
    for path in paths:
        try:
            source = text.decode(path.read_bytes()).text
            ast.parse(source)
        except (text.UndecodableError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found.append(source)
        count += source.count("\n")
        if count >= LINES:
            break
    return found


def cost(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def cold() -> None:
    units.forget()
    reading.forget()


def parse_all(texts: list[str]) -> None:
    for source in texts:
        ast.parse(source)


def cut_all(texts: list[str]) -> None:
    for source in texts:
        units.cut(source)


def read_all(texts: list[str]) -> None:
    for source in texts:
        for unit in units.walk(units.cut(source)):
            _ = unit.ir


def whole(texts: list[str]) -> None:
    for source in texts:
        reading.read(source)
        reading.forget()


def costs(texts: list[str]) -> None:
    thousands = sum(source.count("\n") for source in texts) / 1000
    measured: dict[str, Callable[[list[str]], None]] = {
        "ast.parse": parse_all,
        "cut": cut_all,
        "whole file: parse + lower": whole,
        "cut + parse + lower": read_all,
    }
    times: dict[str, list[float]] = {name: [] for name in measured}
    for run in range(RUNS + 1):
        for name, work in measured.items():
            cold()
            taken = cost(lambda work=work: work(texts))  # type: ignore[misc]
            if run:
                times[name].append(taken)
    base = statistics.median(times["ast.parse"])
    print(f"{len(texts)} files, {thousands:.1f} thousand lines, Python {sys.version.split()[0]}")
    print(f"{'':28}{'ms per 1,000 lines':>20}{'x ast.parse':>13}")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:28}{median / thousands * 1000:20.2f}{median / base:13.2f}")


def keystrokes(texts: list[str]) -> None:
    """One character typed into a name, the text before it known: cut, and read what is new."""
    print(f"\n{'one keystroke, lines':28}{'p50 ms':>20}{'p95 ms':>13}{'ast.parse':>13}")
    randomly = random.Random(2)
    for size in (500, 1000, 2000, 5000):
        source = min(texts, key=lambda source: abs(source.count("\n") - size))
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
        starts = text.line_starts(source)
        taken: list[float] = []
        before = units.cut(source)
        read_all([source])
        for node in randomly.choices(names, k=KEYSTROKES):
            at = starts[node.lineno - 1] + node.col_offset
            new = source[:at] + "q" + source[at:]

            def work(new: str = new, before: units.Units = before) -> None:
                for unit in units.walk(units.cut(new, before)):
                    _ = unit.ir

            taken.append(cost(work) * 1000)
        ranks = statistics.quantiles(taken, n=20)
        parse = statistics.median([cost(lambda: ast.parse(source)) for _ in range(RUNS)]) * 1000  # noqa: B023
        print(f"{source.count(chr(10)):<28}{statistics.median(taken):20.2f}{ranks[18]:13.2f}{parse:13.2f}")


def half_typed(texts: list[str], count: int) -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import half_typed as measure

    texts = [source for source in texts if 200 <= source.count("\n") <= 6000 and "def " in source]
    for name, make in (("typed", measure.typed), ("deleted", measure.deleted)):
        for anchored in (True, False):
            randomly = random.Random(3)
            found = []
            taken = []
            while len(found) < count:
                source = randomly.choice(texts)
                if (edit := make(source, randomly)) is None:
                    continue
                found.append(measure.kept(source, *edit, anchored))
                before = units.cut(source)
                reading.forget()
                for unit in before:
                    _ = unit.broken
                taken.append(cost(lambda: [u.ir for u in units.walk(units.cut(edit[0], before))]) * 1000)  # noqa: B023
            others = statistics.mean(one.others for one in found)
            intact = statistics.mean(one.others == 1 for one in found)
            host = statistics.mean(one.host for one in found)
            ranks = statistics.quantiles(taken, n=20)
            print(
                f"{count} {name}, {'anchored' if anchored else 'not anchored'}: other functions {others:.1%}"
                f" (all of them in {intact:.1%} of the texts), host {host:.1%};"
                f" cut and read p50 {statistics.median(taken):.1f}, p95 {ranks[18]:.1f}, max {max(taken):.1f} ms"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--half-typed", type=int, default=0, metavar="N")
    options = parser.parse_args()
    folders = options.folders or [Path(sysconfig.get_paths()["purelib"]) / "torch"]
    warnings.simplefilter("ignore")
    texts = sources(folders)
    if not texts:
        parser.error("no Python file there")
    gc.disable()
    if options.half_typed:
        half_typed(texts, options.half_typed)
    else:
        costs(texts)
        keystrokes(texts)


if __name__ == "__main__":
    main()
