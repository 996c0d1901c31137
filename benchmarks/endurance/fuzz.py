#!/usr/bin/env python3
"""Any bytes may be in a file: no exception, no hang, no memory without end.

    python -m benchmarks.endurance.fuzz [--inputs 20000] [--seed 1] [--folder FOLDER ...]

Two kinds of input. Programs from Python's grammar (hypothesmith, if it is installed) and from the generator of torch
programs (`benchmarks/differential`); and real files (rule pages, the standard library, the folders given, notebooks)
truncated, spliced, with bytes flipped, lines doubled, moved and indented, brackets and quotes put in. Each goes the
way that a file on disk goes: decoded, cut, read, interpreted, judged by every rule; its findings must lie in the text,
and of some the fixes are made. What takes more than `SLOW` CPU seconds, raises, or takes the process beyond `MEMORY`
is written to the folder `fuzz-found` and makes the command fail.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(TOP), str(TOP / "tests")]

from gradline import units  # noqa: E402
from gradline.workspace import Workspace  # noqa: E402

SLOW = 2.0  # CPU seconds for one input
MEMORY = 1024  # MiB that the process may take at most
SIZE = 60_000  # bytes of a real file that is made worse: more of the same tells nothing new
PIECES = (
    b"(", b")", b"[", b"]", b"{", b"}", b"'''", b'"""', b"'", b'"', b"\\\n", b"\n", b"\r", b"\r\n", b"\x00", b"\x0c", b"\xff",
    b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"\t", b"        ", b":", b",", b"=", b"lambda: ", b"async ", b"await ", b"yield ",
    b"match x:\n    case [a, *b]:\n        pass\n", b"@", b"def f(", b"class A(nn.Module):\n", b"with torch.no_grad():\n", b"global x\n",
    b"loss.backward()\n", b"x.data = ", b".item()", b".detach()", b"*", b"**", b"...", b":=", b"f'{", b"}'", b"# gradline: ignore[",
    b"# -*- coding: utf-7 -*-\n", b"if 1:\n", b"else:\n", b"except* E:\n", b"del ", b"-" * 40, b"(" * 60, b"not " * 30,
)  # fmt: skip


def seeds(folders: list[Path]) -> list[tuple[str, bytes]]:
    """Real files, as their names end and what is in them."""
    from rule_page import read_page

    found: list[tuple[str, bytes]] = []
    for path in sorted((TOP / "server" / "analyzers").glob("*/*.md")):
        page = read_page(path)
        programs = [program for example in page.examples for program in (example.wrong, example.right)]
        for program in (*programs, *page.lookalikes):
            found += [(Path(name).name, text.encode()) for name, text in program.clean().items()]
    library = Path(sysconfig.get_paths()["stdlib"])
    places = [library, *folders] if folders else [library, library / "test", library / "asyncio"]
    for folder in places:
        for path in sorted(folder.glob("*.py" if not folders else "**/*.py")):
            if path.stat().st_size <= SIZE:
                found.append((path.name, path.read_bytes()))
    return found


def notebook(text: bytes, dice: random.Random) -> bytes:
    lines = text.decode("utf-8", "replace").split("\n")
    at = sorted(dice.sample(range(len(lines) + 1), min(3, len(lines))))
    parts = [lines[a:b] for a, b in zip([0, *at], [*at, len(lines)], strict=True)]
    cells = [
        {"cell_type": "code", "source": [f"{line}\n" for line in part], "metadata": {}, "outputs": []} for part in parts
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def worse(data: bytes, others: list[tuple[str, bytes]], dice: random.Random) -> bytes:
    """The file after a few accidents."""
    for _ in range(dice.randint(1, 6)):
        if not data:
            return data
        at, kind = dice.randrange(len(data)), dice.randrange(9)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[at:]
        elif kind == 2:
            data = data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]
        elif kind == 3:
            other = dice.choice(others)[1]
            start = dice.randrange(len(other) + 1)
            data = data[:at] + other[start : start + dice.randrange(400)] + data[at:]
        elif kind == 4:
            data = data[:at] + data[at + dice.randrange(80) :]
        elif kind == 5:
            data = data[:at] + dice.choice(PIECES) + data[at:]
        else:
            lines = data.split(b"\n")
            number = dice.randrange(len(lines))
            if kind == 6:
                lines.insert(dice.randrange(len(lines) + 1), lines[number])
            elif kind == 7:
                lines[number] = dice.choice((b"    ", b"  ", b"\t", b"")) + lines[number].lstrip()
            else:
                lines[number : number + 5] = reversed(lines[number : number + 5])
            data = b"\n".join(lines)
    return data


def grammar(count: int, seed: int) -> Iterator[bytes]:
    """Programs made by rule: of Python's grammar, as far as hypothesmith is there, and torch programs."""
    from benchmarks.differential.generator import program

    made: list[str] = []
    warnings.simplefilter("ignore")  # of what the programs that are tried out say
    try:
        import hypothesmith
        from hypothesis import HealthCheck, given, settings
        from hypothesis import seed as seeded

        @seeded(seed)
        @settings(
            max_examples=max(1, count // 4), deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(hypothesmith.from_grammar())
        def collect(text: str) -> None:
            made.append(text)

        collect()
    except ImportError:
        pass
    yield from (text.encode("utf-8", "surrogatepass") for text in made[:count])
    for number in range(count - min(count, len(made))):
        yield program(seed + number)["main.py"].encode()


def inputs(count: int, seed: int, folders: list[Path]) -> Iterator[tuple[str, bytes]]:
    dice = random.Random(seed)
    real = seeds(folders)
    made = count // 10
    for data in grammar(made, seed):
        yield "made.py", data
        yield "made.py", worse(data, real, dice)
    for _ in range(max(0, count - 2 * made)):
        name, data = dice.choice(real)
        if dice.random() < 0.08:
            yield (
                "book.ipynb",
                worse(notebook(data, dice), real, dice)
                if dice.random() < 0.5
                else notebook(worse(data, real, dice), dice),
            )
        else:
            yield name, worse(data, real, dice)


class TooSlowError(BaseException):
    """Not an Exception: nothing may catch it on its way."""


def look(root: Path, name: str, data: bytes, fixes: bool) -> int:
    """Check one file; gives the number of findings. Raises what goes wrong."""
    path = root / name
    path.write_bytes(data)
    workspace = Workspace([root.as_posix()])
    checked = workspace.check(workspace.disk.discover([root.as_posix()]))
    broken = [problem for problem in workspace.disk.problems if "bug" in problem.message]
    assert not broken, broken
    count = 0
    for found in checked.findings.values():
        for finding in found:
            count += 1
            for place in (finding.place, *(step.place for step in finding.trail)):
                other = workspace.source(place.path)
                assert other is not None and 0 <= place.start <= place.end <= len(other.text), (finding, place)
            if fixes:
                workspace.fix(finding)
    return count


def run(count: int, seed: int, folders: list[Path], keep: Path | None, tell: bool = False) -> dict[str, float]:
    """Looks at so many inputs; what was met, with `wrong` the number that went wrong."""
    worst, findings, wrong, started, number = 0.0, 0, 0, time.process_time(), 0

    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place).resolve() / "p"
            root.mkdir()
            for number, (name, data) in enumerate(inputs(count, seed, folders), 1):
                start = time.process_time()
                problem = ""
                try:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 5 * SLOW)
                    findings += look(root, name, data, number % 7 == 0)
                except TooSlowError:
                    problem = f"more than {5 * SLOW} s\n{traceback.format_exc()}"
                except Exception:
                    problem = traceback.format_exc()
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                (root / name).unlink(missing_ok=True)
                took = time.process_time() - start
                worst = max(worst, took)
                if took > SLOW and not problem:
                    problem = f"{took:.1f} s of CPU"
                if problem:
                    wrong += 1
                    if keep is not None:
                        keep.mkdir(exist_ok=True)
                        (keep / f"{seed}-{number}-{name}").write_bytes(data)
                    if tell:
                        print(f"input {number} ({name}, {len(data)} bytes): {problem.strip()}", flush=True)
                if number % 500 == 0:
                    units.forget()
                    if tell:
                        print(
                            f"{number} inputs, {findings} findings, slowest {worst:.2f} s, {memory():.0f} MiB",
                            flush=True,
                        )
    finally:
        signal.signal(signal.SIGVTALRM, before)
    if memory() > MEMORY:
        wrong += 1
    return {"inputs": number, "findings": findings, "wrong": wrong, "slowest": worst, "memory": memory(),
            "cpu": time.process_time() - started}  # fmt: skip


def memory() -> float:
    """The most that this process has taken, MiB. Linux counts in `ru_maxrss` what was there before `exec`, too."""
    status = Path("/proc/self/status")
    if status.exists() and (peak := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, action="append", default=[])
    options = parser.parse_args()
    met = run(options.inputs, options.seed, options.folder, Path("fuzz-found"), tell=True)
    print(", ".join(f"{name} {value:.4g}" for name, value in met.items()))
    return 1 if met["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
