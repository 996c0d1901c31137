"""A PyTorch project made by rule, of any size, always the same: what the editor's benchmarks are run on.

    core/base.py           imported by `DEPENDENTS` training scripts
    models/, data/         modules of a library, importing one another
    scripts/train_N.py     small training scripts
    library.py             a library file of a given number of lines: classes of modules, helpers, no training
    training.py            a training script of a given number of lines: models, helpers, a loop

The texts are correct programs in the style of such repositories, with docstrings and type hints.
"""

from __future__ import annotations

import random
from pathlib import Path

DEPENDENTS = 50
SWITCH = "torch.set_grad_enabled(False)"  # put into `core/base.py`, it takes the gradients of every dependent

HEAD = '''"""{about}"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
'''

BLOCK = '''

class {name}(nn.Module):
    """A residual block with {norm} and a gate.

    Args:
        dim: features of the input and of the output.
        hidden: features in between.
        dropout: how much is dropped while training.
    """

    def __init__(self, dim: int, hidden: Optional[int] = None, dropout: float = {rate}) -> None:
        super().__init__()
        hidden = hidden or {factor} * dim
        self.norm = nn.{norm}(dim)
        self.up = nn.Linear(dim, hidden)
        self.gate = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = nn.Parameter(torch.ones(dim))
        self.reset()

    def reset(self) -> None:
        nn.init.xavier_uniform_(self.up.weight)
        nn.init.zeros_(self.up.bias)
        nn.init.normal_(self.down.weight, std={rate})

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        residual = x
        x = self.norm(x)
        h = F.{act}(self.up(x)) * torch.sigmoid(self.gate(x))
        if mask is not None:
            h = h.masked_fill(mask.unsqueeze(-1), 0.0)
        x = self.down(self.dropout(h))
        return residual + self.scale * x
'''

HELPER = '''

@dataclass
class {name}Options:
    """How {low} is done."""

    rate: float = {rate}
    steps: int = {factor}00
    name: str = "{low}"


def {low}(values: np.ndarray, options: {name}Options | None = None) -> dict[str, float]:
    """Summarises values for the log."""
    options = options or {name}Options()
    found: dict[str, float] = {{}}
    for index, value in enumerate(values[: options.steps]):
        if not math.isfinite(value):
            continue
        key = f"{{options.name}}/{{index % {factor}}}"
        found[key] = found.get(key, 0.0) * (1 - options.rate) + options.rate * float(value)
    return found


@torch.no_grad()
def {low}_accuracy(logits: torch.Tensor, target: torch.Tensor, k: int = {factor}) -> float:
    _, best = logits.topk(min(k, logits.shape[-1]), dim=-1)
    hit = best.eq(target.unsqueeze(-1)).any(-1)
    return hit.float().mean().item()
'''

NET = """

class Net(nn.Module):
    def __init__(self, dim: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.embed = nn.Linear(16, dim)
        self.blocks = nn.ModuleList([{blocks}])
        self.head = nn.Linear(dim, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""

LOOP = """

def batches(count: int, size: int = 8):
    for _ in range(count):
        yield torch.randn(size, 16), torch.randint(0, 10, (size,))


def train_one_epoch(model, optimizer, criterion, epoch: int) -> float:
    model.train()
    total = 0.0
    for step, (inputs, target) in enumerate(batches(4)):
        logits = model(inputs)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % 10 == 0:
            print(f"{{epoch}} {{step}} loss {{loss.item():.4f}}")
    return total


@torch.no_grad()
def evaluate(model, criterion) -> float:
    model.eval()
    losses = [criterion(model(inputs), target).item() for inputs, target in batches(2)]
    return float(np.mean(losses))


def main(epochs: int = 2) -> None:
    model = {net}()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        train_one_epoch(model, optimizer, criterion, epoch)
        print("validation", evaluate(model, criterion))
        scheduler.step()


if __name__ == "__main__":
    main()
"""

SCRIPT = '''"""Trains model {number}."""

import numpy as np
import torch
from torch import nn

from core.base import Base, seed_everything
from models.m{model} import {block}


class Model(Base):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 32)
        self.block = {block}(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.block(self.embed(x)))


seed_everything({number})
'''

BASE = '''"""What every model has."""

import random

import torch
from torch import nn


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


class Base(nn.Module):
    """A module that can count."""

    def count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def freeze(self) -> None:
        for p in self.parameters():
            p.requires_grad_(False)
'''

PLAIN = '''"""Reads and writes records {number}."""

import json
from pathlib import Path


def load_{number}(path: str) -> list[dict]:
    """Every record of a file."""
    with Path(path).open() as file:
        return [json.loads(line) for line in file if line.strip()]


def split_{number}(records: list[dict], share: float = 0.9) -> tuple[list[dict], list[dict]]:
    at = int(len(records) * share)
    return records[:at], records[at:]


class Reader{number}:
    def __init__(self, path: str) -> None:
        self.path = path
        self.records = load_{number}(path)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> dict:
        return self.records[index]
'''


def _part(dice: random.Random, number: int, helper: bool) -> tuple[str, str]:
    """A class or a helper, and its name."""
    norm, act = dice.choice(["LayerNorm", "BatchNorm1d", "Identity"]), dice.choice(["gelu", "relu", "silu", "tanh"])
    if norm == "Identity":
        norm = "LayerNorm"
    name = f"Block{number}" if not helper else f"Summary{number}"
    values = {"rate": dice.choice([0.1, 0.02, 0.25]), "factor": dice.choice([2, 3, 4]), "norm": norm, "act": act}
    text = (HELPER if helper else BLOCK).format(name=name, low=name.lower(), **values)
    return text, name


def library(lines: int, seed: int = 1) -> str:
    """A library file of about this many lines."""
    dice = random.Random(seed)
    text = HEAD.format(about="Building blocks.")
    number = 0
    while text.count("\n") < lines - 20:
        text += _part(dice, number, helper=number % 4 == 3)[0]
        number += 1
    return text


def training(lines: int, seed: int = 2) -> str:
    """A training script of about this many lines, whose network is made of every block in it."""
    dice = random.Random(seed)
    text, number, blocks = HEAD.format(about="Trains a network."), 0, []
    rest = (NET + LOOP).count("\n")
    while text.count("\n") < lines - rest - 20:
        part, name = _part(dice, number, helper=number % 4 == 3)
        text += part
        blocks += [f"{name}(dim)"] if name.startswith("Block") else []
        number += 1
    return text + NET.format(blocks=", ".join(blocks)) + LOOP.format(net="Net")


def write(root: Path, files: int, lines: int) -> dict[str, Path]:
    """Writes a project of this many files; gives the paths of `library`, `training` and `base`."""
    dice = random.Random(files)
    for folder in ("core", "models", "data", "scripts"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        if folder != "scripts":
            (root / folder / "__init__.py").write_text("")
    (root / "core" / "base.py").write_text(BASE)
    (root / "library.py").write_text(library(lines))
    (root / "training.py").write_text(training(lines))
    rest = max(2, files - 6 - DEPENDENTS)
    models = rest // 2
    names = {}
    for number in range(models):
        text = HEAD.format(about=f"Model {number}.")
        if number:
            text += f"\nfrom .m{number // 2} import {names[number // 2]}\n"
        part, names[number] = _part(dice, number, helper=False)
        text += part + _part(dice, number, helper=True)[0] + _part(dice, number + 1000, helper=False)[0]
        (root / "models" / f"m{number}.py").write_text(text)
    for number in range(rest - models):
        (root / "data" / f"d{number}.py").write_text(PLAIN.format(number=number))
    for number in range(DEPENDENTS):
        model = number % models
        head = SCRIPT.format(number=number, model=model, block=names[model])
        (root / "scripts" / f"train_{number}.py").write_text(head + LOOP.format(net="Model"))
    (root / "pyproject.toml").write_text('[project]\nname = "generated"\nversion = "0"\n')
    return {name: root / place for name, place in
            (("library", "library.py"), ("training", "training.py"), ("base", "core/base.py"))}  # fmt: skip
