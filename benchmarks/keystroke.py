#!/usr/bin/env python3
"""What an edit in the training loop of real scripts costs: CPU of the engine until their findings are known again.

    python benchmarks/keystroke.py FOLDER... [--edits 12] [--most 4]

Each folder is a project (a repository that was fetched). In the first `--most` of its scripts that go backward, a line is
put in above the first `.backward()`, another one each time, so that the program is followed again from its start; the file
is in memory only. Prints the median for each script, in milliseconds, and the median of all.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from pathlib import Path

from gradline.workspace import Workspace


def backward_row(lines: list[str]) -> int | None:
    rows = (row for row, line in enumerate(lines) if ".backward()" in line and not line.lstrip().startswith("#"))
    return next(rows, None)


def cost(workspace: Workspace, path: str, edits: int) -> float | None:
    """Milliseconds of CPU for an edit of this file, median; None if it does not go backward."""
    source = workspace.source(path)
    lines = source.text.split("\n") if source is not None else []
    row = backward_row(lines)
    if row is None:
        return None
    lead = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
    spent: list[float] = []
    for number in range(edits):
        began = time.process_time()
        workspace.project.update(path, "\n".join([*lines[:row], f"{lead}edit_{number} = {number}", *lines[row:]]))
        workspace.check([path])
        spent.append((time.process_time() - began) * 1000)
    workspace.project.update(path, "\n".join(lines))
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--edits", type=int, default=12, help="edits of each script (default: 12)")
    parser.add_argument("--most", type=int, default=4, help="scripts of a folder (default: 4)")
    options = parser.parse_args()
    found: list[tuple[float, int, str]] = []
    for folder in options.folders:
        root = folder.resolve()
        workspace = Workspace([root.as_posix()])
        files = workspace.disk.discover([root.as_posix()])
        workspace.check(files)
        gc.collect()
        gc.freeze()
        gc.disable()  # as the server has it
        measured = 0
        for path in files:
            if measured == options.most:
                break
            spent = cost(workspace, path, options.edits)
            if spent is not None:
                source = workspace.source(path)
                assert source is not None
                found.append((spent, source.text.count("\n") + 1, path.removeprefix(root.parent.as_posix() + "/")))
                measured += 1
        gc.enable()
        gc.unfreeze()
    if not found:
        raise SystemExit("no file below these folders has a line with `.backward()`")
    for spent, lines, name in sorted(found):
        print(f"{spent:8.1f} ms  {lines:5} lines  {name}")
    print(f"{statistics.median(spent for spent, _, _ in found):8.1f} ms  median of {len(found)} scripts")


if __name__ == "__main__":
    main()
