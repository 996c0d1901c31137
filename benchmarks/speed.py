#!/usr/bin/env python3
"""What a check costs: cold, warm and after an edit, beside parsing and other tools; how it grows; what could break it.

    python benchmarks/speed.py check FOLDER... [--peers ruff,ruff-all,torchfix,torch-preflight] [--repeat 3]
    python benchmarks/speed.py growth FOLDER        # 1, 2, 4, 8 copies of a folder
    python benchmarks/speed.py adversarial          # deep, wide, tangled and long programs, each in two sizes
    python benchmarks/speed.py cores FOLDER         # one process and as many as there are processors, wall time

All figures but those of *cores* are CPU seconds (user and system, with children) of whole processes; medians of the
repetitions, which take turns with the yardstick (`ast.parse` of the same files) so that a busy machine disturbs both
alike. *check*: "cold" has an empty cache and one process, "warm" runs again with nothing changed, "edited" after a
statement was put into one file of the folder. Memory is the most that the process took (RSS).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.corpus import PARSE, cpu_of, python_files

GRADLINE = [sys.executable, "-m", "gradline", "check", "--exit-zero", "-q", "--output-format", "concise"]
BIN = Path(sys.executable).parent
PEERS: dict[str, list[str]] = {
    "ruff": [str(BIN / "ruff"), "check", "--no-cache", "--isolated", "-q", "--exit-zero"],
    "ruff-all": [str(BIN / "ruff"), "check", "--no-cache", "--isolated", "-q", "--exit-zero", "--preview", "--select", "ALL"],
    "torchfix": [str(BIN / "torchfix"), "--select", "ALL"],
    "torch-preflight": [str(BIN / "torch-preflight")],
}  # fmt: skip
GENERATED = 100_000  # lines of the long file


def parse(files: list[str]) -> float:
    seconds, _ = cpu_of([sys.executable, "-c", PARSE], input="\n".join(files), text=True, capture_output=True)
    return seconds


def gradline(folder: Path, *options: str) -> float:
    seconds, done = cpu_of([*GRADLINE, *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"gradline check {folder}: {done.stderr[-2000:]}")
    return seconds


def peak(folder: Path) -> float:
    """The most memory that a cold check takes, MiB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    _, done = cpu_of(
        [sys.executable, "-c", code, *GRADLINE, "--no-cache", "--jobs", "1", str(folder)],
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def check(folder: Path, peers: list[str], repeat: int) -> dict[str, float]:
    """Median seconds of each kind."""
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
        files = python_files(copy)
        edited = Path(max(files, key=lambda name: os.path.getsize(name) if os.path.getsize(name) < 100_000 else 0))
        text = edited.read_bytes()
        for number in range(repeat):
            cache = f"{place}/cache{number}"
            ways: dict[str, Callable[[], float]] = {
                "parse": lambda: parse(files),
                "cold": lambda cache=cache: gradline(copy, "--jobs", "1", "--cache-dir", cache),
                "warm": lambda cache=cache: gradline(copy, "--jobs", "1", "--cache-dir", cache),
            }
            for name, way in ways.items():
                figures.setdefault(name, []).append(way())
            edited.write_bytes(text + f"\n\nBENCHMARK = {number}\n".encode())
            figures.setdefault("edited", []).append(gradline(copy, "--jobs", "1", "--cache-dir", cache))
            edited.write_bytes(text)
            for name in peers:
                seconds, _ = cpu_of([*PEERS[name], str(copy)], capture_output=True)
                figures.setdefault(name, []).append(seconds)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {"files": len(files), **medians, "MiB": peak(folder)}


def told(name: str, figures: dict[str, float]) -> str:
    base = figures["parse"]
    parts = [f"{name:20} {figures['files']:6.0f} files  parse {base:6.2f} s"]
    parts += [
        f"{kind} {value:.2f} s = {value / base:.2f}"
        for kind, value in figures.items()
        if kind not in ("files", "parse", "MiB")
    ]
    return "  ".join([*parts, f"{figures['MiB']:.0f} MiB"])


def growth(folder: Path, repeat: int) -> None:
    """Time and memory for 1, 2, 4, 8 copies, and each over that of one."""
    first: tuple[float, float] | None = None
    with tempfile.TemporaryDirectory() as place:
        for count in (1, 2, 4, 8):
            top = Path(place) / str(count)
            for number in range(count):
                shutil.copytree(folder, top / f"copy{number}", ignore=shutil.ignore_patterns("__pycache__"))
            seconds = statistics.median(gradline(top, "--no-cache", "--jobs", "1") for _ in range(repeat))
            memory = peak(top)
            first = first or (seconds, memory)
            print(
                f"{count} x: {seconds:.2f} s ({seconds / first[0] / count:.2f} of linear)  {memory:.0f} MiB", flush=True
            )
            shutil.rmtree(top)


# ---------------------------------------------------------------- adversarial programs, of a size


def nested(size: int) -> dict[str, str]:
    """Blocks in blocks, as deep as Python allows, many times."""
    deep = "".join("    " * level + "if x:\n" for level in range(1, 90)) + "    " * 90 + "x = x.detach()\n"
    return {
        "main.py": "import torch\n\n\ndef f(x):\n"
        + deep * (size // 10)
        + "    return x\n\n\nf(torch.ones(1)).backward()\n"
    }


def calling(size: int) -> dict[str, str]:
    """Functions that call one another."""
    text = "import torch\n"
    for n in range(size * 100):
        text += (
            f"\n\ndef f{n}(x):\n    return f{(n * 7 + 1) % (size * 100)}(x) + f{(n * 3 + 2) % (size * 100)}(x * 2)\n"
        )
    return {"main.py": text + "\n\nloss = f0(torch.ones(1, requires_grad=True))\nloss.backward()\n"}


def cycle(size: int) -> dict[str, str]:
    """Modules that import one another in a circle, which a script uses."""
    files = {}
    for n in range(size * 5):
        files[f"m{n}.py"] = (
            f"import torch\nfrom m{(n + 1) % (size * 5)} import *\nimport m{(n + 7) % (size * 5)}\n\n\ndef g{n}(x):\n    return x * {n}\n"
        )
    files["main.py"] = (
        "import torch\nimport m0\n\nloss = m0.g0(torch.ones(1, requires_grad=True)).sum()\nloss.backward()\n"
    )
    return files


def branches(size: int) -> dict[str, str]:
    """A function of thousands of branches, each of which may cut."""
    ways = "".join(
        f"    if kind == {n}:\n        x = x.{('detach()', 'relu()', 'data', 'clone()')[n % 4]}\n"
        for n in range(size * 50)
    )
    body = f"import torch\n\n\ndef f(x, kind):\n{ways}    return x.sum()\n"
    return {"main.py": body + "\n\nf(torch.ones(1, requires_grad=True), int(input())).backward()\n"}


def long(size: int) -> dict[str, str]:
    """A generated file: assignments without end."""
    lines = [f"w{n} = torch.ones({n % 7 + 1}) * {n}" for n in range(size * GENERATED // 100)]
    return {"main.py": "import torch\n\n" + "\n".join(lines) + "\nw0.sum().backward()\n"}


def data(size: int) -> dict[str, str]:
    """Literals: a list of numbers and a dict, of as many entries."""
    numbers = ", ".join(str(n) for n in range(size * 1000))
    entries = "".join(f"    'key{n}': {n},\n" for n in range(size * 200))
    return {
        "main.py": f"import torch\n\nnumbers = [{numbers}]\ntable = {{\n{entries}}}\ntorch.tensor(numbers).sum().backward()\n"
    }


def chain(size: int) -> dict[str, str]:
    """One expression: a sum of terms, a chain of calls."""
    total = " + ".join(f"x * {n}" for n in range(size * 20))
    return {
        "main.py": f"import torch\n\nx = torch.ones(1)\ny = {total}\nz = x{'.relu()' * min(size * 10, 900)}\n(y + z).backward()\n"
    }


ADVERSARIAL = (nested, calling, cycle, branches, long, data, chain)
LINEAR = 3.0  # what four times the size may cost is at most so many times four times as much


def adversarial(size: int) -> bool:
    """Each program in a quarter of the size and in full; true if all stay within `LINEAR` of linear."""
    good = True
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "empty").mkdir()
        (Path(place) / "empty" / "main.py").write_text("import torch\n")
        start = min(gradline(Path(place) / "empty", "--no-cache", "--jobs", "1") for _ in range(3))
        for make in ADVERSARIAL:
            seconds = []
            for part in (max(1, size // 4), size):
                folder = Path(place) / f"{make.__name__}{part}"
                folder.mkdir()
                for name, text in make(part).items():
                    (folder / name).write_text(text)
                seconds.append(max(0.01, gradline(folder, "--no-cache", "--jobs", "1") - start))
            factor = seconds[1] / seconds[0] / (size / max(1, size // 4))
            good = good and factor <= LINEAR
            about = (make.__doc__ or "").strip()
            print(
                f"{make.__name__:10} {seconds[0]:7.2f} s, {seconds[1]:7.2f} s ({factor:.2f} of linear)  {about}",
                flush=True,
            )
    return good


def cores(folder: Path, repeat: int) -> None:
    for jobs in ("1", str(len(os.sched_getaffinity(0)))):
        walls = []
        for _ in range(repeat):
            started = time.monotonic()
            gradline(folder, "--no-cache", "--jobs", jobs)
            walls.append(time.monotonic() - started)
        print(f"{jobs} process{'es' if jobs != '1' else ''}: {statistics.median(walls):.2f} s wall")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("check", "growth", "adversarial", "cores"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--peers", default="", help="which of " + ", ".join(PEERS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--size", type=int, default=100, help="of the adversarial programs: 100 is the full size")
    parser.add_argument("--json", type=Path, help="write the figures of `check` to this file")
    options = parser.parse_args()
    if options.what == "adversarial":
        return 0 if adversarial(options.size) else 1
    if options.what in ("growth", "cores"):
        for folder in options.folders:
            (growth if options.what == "growth" else cores)(folder, options.repeat)
        return 0
    all_of_it: dict[str, dict[str, float]] = {}
    peers = [name for name in options.peers.split(",") if name]
    for folder in options.folders:
        all_of_it[folder.name] = check(folder, peers, options.repeat)
        print(told(folder.name, all_of_it[folder.name]), flush=True)
    if len(all_of_it) > 1:
        kinds = next(iter(all_of_it.values())).keys()
        total = {kind: sum(figures[kind] for figures in all_of_it.values()) for kind in kinds}
        total["MiB"] = max(figures["MiB"] for figures in all_of_it.values())
        print(told("all", total))
    if options.json:
        options.json.write_text(json.dumps(all_of_it, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
