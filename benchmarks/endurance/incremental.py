#!/usr/bin/env python3
"""From scratch = incremental: after every change of a project on disk, what is remembered must not show.

    python -m benchmarks.endurance.incremental [--steps 400] [--seed 1]

A small project of scripts, models and helpers is changed as people and their tools do: lines come and go, functions and
files are renamed, files are deleted, made, broken and mended, settings change. After every step three answers must be
equal: that of a process that knows nothing, that of one workspace that lives through all of it (as in the language
server and `--watch`), and that of the cache of the command, asked by a new workspace each time.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradline import cache, units
from gradline.config import ConfigError
from gradline.lsp.local import Local
from gradline.workspace import Workspace

LINES = (
    "loss = loss.detach()", "loss = loss.item()", "torch.set_grad_enabled(False)", "optimizer.zero_grad()", "loss.backward()",
    "optimizer.step()", "with torch.no_grad():", "return x.data", "model.requires_grad = False", "import helper",
    "from helper import *", "import quiet", "x = 1", "print(loss)  # gradline: ignore", "(", "def broken(:", "'''",
)  # fmt: skip
FILES = {
    "train.py": """\
import torch
from torch import nn
from models import Net
from helper import batches, prepare

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches():
    loss = nn.functional.mse_loss(model(prepare(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "tune.py": """\
import torch
import models

model = models.Net()
for p in model.body.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(model.head.parameters())
for step in range(3):
    loss = model(torch.randn(2, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "models.py": """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = self.body(x)
        return self.head(x)
""",
    "helper.py": """\
import torch
import quiet


def batches():
    return [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(3)]


def prepare(x):
    return x * 2
""",
    "quiet.py": "import torch\n\nVALUE = 1\n",
}
SETTINGS = ("", '[tool.gradline]\nignore = ["GL2"]\n', "[tool.gradline.severity]\nGL201 = 'hint'\n", "[tool.gradline\n",
            '[tool.gradline]\nextend-exclude = ["tune.py"]\n', '[tool.gradline]\nsrc = ["lib"]\n')  # fmt: skip


class Project:
    """The project on disk, and one change of it after another."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root, self.dice = root, dice
        for name, text in FILES.items():
            (root / name).write_text(text)

    def step(self) -> tuple[str, list[str]]:
        """Changes something; gives what it was and the paths that were touched."""
        kinds: list[Callable[[], tuple[str, list[Path]]]] = [
            self._line, self._line, self._line, self._without, self._without, self._mend, self._mend, self._mend,
            self._all_as_they_were, self._rename_file, self._delete, self._rename_function, self._settings,
        ]  # fmt: skip
        what, paths = self.dice.choice(kinds)()
        return what, [path.as_posix() for path in paths]

    def _file(self) -> Path:
        return self.dice.choice(sorted(self.root.glob("**/*.py")) or [self.root / "train.py"])

    def _line(self) -> tuple[str, list[Path]]:
        path, line = self._file(), self.dice.choice(LINES)
        lines = path.read_text().split("\n") if path.exists() else [""]
        at = self.dice.randrange(len(lines))
        indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
        lines.insert(at, indent + line)
        path.write_text("\n".join(lines))
        return f"{line!r} at {path.name}:{at + 1}", [path]

    def _without(self) -> tuple[str, list[Path]]:
        path = self._file()
        lines = path.read_text().split("\n") if path.exists() else [""]
        at = self.dice.randrange(len(lines))
        del lines[at]
        path.write_text("\n".join(lines))
        return f"{path.name}:{at + 1} goes", [path]

    def _mend(self) -> tuple[str, list[Path]]:
        name = self.dice.choice(sorted(FILES))
        (self.root / name).write_text(FILES[name])
        return f"{name} as it was", [self.root / name]

    def _all_as_they_were(self) -> tuple[str, list[Path]]:
        there = sorted(self.root.glob("**/*.py"))
        for path in there:
            path.unlink()
        for name, text in FILES.items():
            (self.root / name).write_text(text)
        (self.root / "quiet.py").write_text(
            f"import torch\n\ntorch.set_grad_enabled({self.dice.choice((True, False))})\n"
        )
        return "all is as it was", [*there, *(self.root / name for name in FILES)]

    def _rename_file(self) -> tuple[str, list[Path]]:
        path = self._file()
        if not path.exists():
            return self._mend()
        to = self.root / self.dice.choice(("helper.py", "quiet.py", "other.py", "lib/helper.py", "models/__init__.py"))
        to.parent.mkdir(exist_ok=True)
        path.replace(to)
        return f"{path.name} becomes {to.relative_to(self.root)}", [path, to]

    def _delete(self) -> tuple[str, list[Path]]:
        path = self._file()
        path.unlink(missing_ok=True)
        return f"{path.name} is deleted", [path]

    def _rename_function(self) -> tuple[str, list[Path]]:
        path, (old, new) = (
            self._file(),
            self.dice.choice((("prepare", "prepared"), ("prepared", "prepare"), ("Net", "Network"))),
        )
        if path.exists():
            path.write_text(path.read_text().replace(old, new))
        return f"{old} becomes {new} in {path.name}", [path]

    def _settings(self) -> tuple[str, list[Path]]:
        path = self.root / "pyproject.toml"
        path.write_text(self.dice.choice(SETTINGS))
        return f"settings {path.read_text()!r}", [path]


def fresh(root: str) -> Any:
    """What a process says that remembers nothing."""
    units.forget()
    return _said(lambda workspace, paths: workspace.check(paths).findings, root)


def kept(root: str, folder: str) -> Any:
    """What the command says with its cache."""

    def ask(workspace: Workspace, paths: list[str]) -> Any:
        answer = cache.check(workspace, paths, False, folder, processes=1)
        answer.save()
        return answer.checked.findings

    return _said(ask, root)


def _said(ask: Callable[[Workspace, list[str]], Any], root: str) -> Any:
    workspace = Workspace([root])
    try:
        return _some(ask(workspace, workspace.disk.discover([root])))
    except ConfigError:
        return "settings"


def _some(findings: Any) -> Any:
    return {path: found for path, found in findings.items() if found}


def run(steps: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> list[str]:
    """The differences that were met, as sentences; none is as it should be."""
    dice = random.Random(seed)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        root, folder = f"{Path(place).resolve().as_posix()}/p", f"{place}/cache"
        Path(root).mkdir()
        project = Project(Path(root), dice)
        living = Local()
        living.set_roots([root])
        told = 0
        for number in range(steps):
            what, touched = project.step()
            living.touch(touched)
            expected = fresh(root)
            said = _some(living.check(living.files(), lambda: False)) if expected != "settings" else "settings"
            for name, other in (("the living workspace", said), ("the cache", kept(root, folder))):
                if other != expected:
                    wrong.append(f"step {number} ({what}): {name} says {_short(other)}, a new one {_short(expected)}")
                    tell(wrong[-1])
            told += expected != "settings" and sum(map(len, expected.values()))
            if len(wrong) > 10:
                break
        tell(f"{steps} steps, {told} findings in all, {len(wrong)} differences")
    return wrong


def _short(said: Any) -> Any:
    if isinstance(said, str):
        return said
    return [
        (finding.code, path.rpartition("/")[2], finding.place.start)
        for path, found in said.items()
        for finding in found
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return 1 if run(options.steps, options.seed, print) else 0


if __name__ == "__main__":
    sys.exit(main())
