#!/usr/bin/env python3
"""Hours of editing, compressed: the memory of a real server must not grow.

    python -m benchmarks.endurance.editing [--edits 100000] [--seed 1]

The example of the README is edited over stdio, character by character in both of its files, in bursts of `BURST` edits
after which the findings are awaited. Memory (RSS) is read ten times; the command fails if it has grown by more
than `GROWTH` from the reading after the warm-up (`WARM`) to the last.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path.insert(0, str(TOP))

from tests.lsp.client import REAL, Client  # noqa: E402

BURST = 20
GROWTH = 0.10
WARM = 4  # tenths of the edits after which what is remembered of texts is full (about 40,000 edits of 100,000)
TYPED = (
    "x = loss.item()\n",
    "with torch.no_grad():\n",
    "loss = loss.detach()\n",
    "def f(a, b):\n    return a @ b\n",
    "# words, words\n",
)
REST = 3.0  # seconds in which a server at rest collects its garbage


def rss(pid: int) -> float:
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS: this needs Linux")


def run(edits: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> tuple[float, float]:
    """Memory after the warm-up and at the end, MiB."""
    dice = random.Random(seed)
    root = TOP / "examples" / "midnight"
    paths = [root / "train.py", root / "utils" / "data_loader.py"]
    marks: list[float] = []
    with Client(REAL, root) as client:
        lines = {}
        for path in paths:
            client.open(path.as_uri(), path.read_text())
            lines[path] = path.read_text().count("\n")
        done = 0
        for number, part in enumerate(range(edits // 10, edits + 1, edits // 10), 1):
            while done < part:
                path = dice.choice(paths)
                uri, at = path.as_uri(), dice.randrange(lines[path])
                left = BURST
                while left > 0:
                    typed = dice.choice(TYPED)
                    for index, character in enumerate(typed):
                        row = at + typed[:index].count("\n")
                        column = index - typed.rfind("\n", 0, index) - 1
                        client.change(uri, ((row, column), (row, column), character))
                    client.change(uri, ((at, 0), (at + typed.count("\n"), 0), ""))
                    left -= len(typed) + 1
                    done += len(typed) + 1
                client.diagnostics(uri)
                client.seen.clear()
            if number in (WARM, 10):
                time.sleep(REST)
            marks.append(rss(client.process.pid))
            tell(f"{done} edits: {marks[-1]:.1f} MiB")
    return marks[WARM - 1], marks[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    first, last = run(options.edits, options.seed, print)
    print(f"grown by {last / first - 1:+.1%}")
    return 1 if last > first * (1 + GROWTH) else 0


if __name__ == "__main__":
    sys.exit(main())
