#!/usr/bin/env python3
"""Killed in the middle of anything: the next start is right, and no file of the user's is half written.

    python -m benchmarks.endurance.killed [--times 60] [--seed 1]

`gradline check --fix` is killed (SIGKILL) after a random time in a project of files that all want a fix, with a cache
that earlier runs have left as they were killed. Afterwards each file is what it was or wholly what the fix makes of it,
at most the one temporary
file that was being written (`.gradline-...`) lies beside them, and a check with that cache says what one without a cache says.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

FILES = 12
BUG = """\
import torch
from torch import nn

model_{n} = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model_{n}.parameters(), lr=0.1)
for step in range(3):
    loss = model_{n}(torch.randn(2, 3)).mean()
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
"""


def gradline(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "gradline", *arguments], cwd=folder,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip


def said(folder: Path, *options: str) -> object:
    process = gradline("check", "--output-format", "json", "--exit-zero", *options, ".", folder=folder)
    return json.loads(process.communicate()[0])


def write(folder: Path) -> dict[str, bytes]:
    for number in range(FILES):
        (folder / f"train_{number}.py").write_text(BUG.format(n=number))
    return texts(folder)


def texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run(times: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> dict[str, int]:
    """Kills so often. Raises AssertionError if something is wrong afterwards."""
    dice = random.Random(seed)
    met = {"before it wrote": 0, "while it wrote": 0, "after": 0}
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "p", Path(place) / "cache"
        folder.mkdir()
        before = write(folder)
        started = time.monotonic()
        gradline("check", "--fix", "--no-cache", "-q", ".", folder=folder).communicate()
        whole = time.monotonic() - started
        after = texts(folder)
        assert before.keys() == after.keys() and all(before[name] != after[name] for name in before), "all are fixed"
        for number in range(times):
            write(folder)
            process = gradline("check", "--fix", "-q", "--cache-dir", str(cache), ".", folder=folder)
            if dice.random() < 0.5:
                time.sleep(whole * dice.random())
            else:  # as soon as the first file has changed: in the middle of the writing
                while process.poll() is None and (folder / "train_0.py").read_bytes() == before["train_0.py"]:
                    time.sleep(0.0005)
            process.kill()
            process.communicate()
            now = texts(folder)
            left = [name for name in now if name.startswith(".gradline-")]
            assert len(left) <= 1, left
            for name in left:
                del now[name]
                (folder / name).unlink()
            assert now.keys() == before.keys(), (
                f"left behind: {now.keys() - before.keys()}, gone: {before.keys() - now.keys()}"
            )
            for name, text in now.items():
                assert text in (before[name], after[name]), f"{name} is half written: {text!r}"
            fixed = sum(text == after[name] for name, text in now.items())
            met["before it wrote" if not fixed else "after" if fixed == FILES else "while it wrote"] += 1
            assert said(folder, "--cache-dir", str(cache)) == said(folder, "--no-cache"), (
                "the cache says something else"
            )
            if number % 10 == 9:
                tell(f"{number + 1} times: {met}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(run(options.times, options.seed, print))
    return 0


if __name__ == "__main__":
    sys.exit(main())
