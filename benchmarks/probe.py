"""What the probe costs: CPU time of a training step with it over the same step without.

    python benchmarks/probe.py [--rounds 3] [--only gpt] [--json out.json]

Each program trains in a process of its own with one thread, by turns without the probe, with `--level light` and with
`--level full`; it prints the CPU time of its steps after the first three, and of its first. Medians of the rounds, and
ratios to the plain run. The probe watches every step as closely as it does the first two of a normal run. The budget:
at most 1.3 times on steps over 100 ms (exit status 1 above it).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUDGET, OVER_MS = 1.3, 100.0
MODELS = {
    "mlp": (
        "nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 1))",
        "torch.randn(32, 64)",
        60,
    ),
    "gpt-small": ("GPT(48, 2, 2)", "torch.randint(0, 64, (4, 24))", 40),
    "resnet": ("ResNet(32, 6)", "torch.randn(8, 3, 24, 24)", 12),
    "gpt": ("GPT(192, 4, 6)", "torch.randint(0, 64, (8, 96))", 8),
}
PROGRAM = """
import json, time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm, self.again = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        b, n, w = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        a = (q @ k.transpose(-2, -1) * (w // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(nn.functional.gelu(self.up(self.again(x))))

class GPT(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        self.embed, self.head = nn.Embedding(64, width), nn.Linear(width, 64)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

class ResNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Linear(width, 10)
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(depth))
    def forward(self, x):
        x = self.stem(x)
        for part in self.parts:
            x = x + part(x)
        return self.head(x.mean((2, 3)))

model, x = @MODEL, @INPUT
opt = torch.optim.AdamW(model.parameters(), 1e-3)
times = []
for _ in range(@STEPS + 3):
    start = time.process_time()
    opt.zero_grad()
    loss = model(x).float().pow(2).mean()
    loss.backward()
    opt.step()
    times.append(time.process_time() - start)
print("TIMES", json.dumps(times))
"""


def run(program: Path, level: str | None) -> tuple[float, float]:
    """(CPU seconds of a step: the median after the first three, of the first step)."""
    words = [sys.executable, str(program)]
    if level is not None:
        code = "import sys; from gradline.probe import main; sys.exit(main(sys.argv[1:]))"
        words = [sys.executable, "-c", code, program.name, "--python", sys.executable, "--no-check", "--quiet",
                 "--allow-writes", "--steps", "100000", "--level", level]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=program.parent, env=environment, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("TIMES")), None)
    if line is None:
        raise SystemExit(f"{program.name} did not run: {done.stderr[-800:]}")
    times = json.loads(line.partition(" ")[2])
    return statistics.median(times[3:]), times[0]


def main(argv: list[str]) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="")
    p.add_argument("--json", type=Path)
    given = p.parse_args(argv)
    rows = []
    print(f"{'model':10} {'plain':>10} {'light':>7} {'full':>7}   first step, full")
    for name, (model, batch, steps) in MODELS.items():
        if given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "train.py"
            program.write_text(PROGRAM.replace("@MODEL", model).replace("@INPUT", batch).replace("@STEPS", str(steps)))
            seen: dict[str | None, list[tuple[float, float]]] = {None: [], "light": [], "full": []}
            for _ in range(given.rounds):
                for level, times in seen.items():
                    times.append(run(program, level))
        step = {level: statistics.median(t for t, _ in times) for level, times in seen.items()}
        first = {level: statistics.median(t for _, t in times) for level, times in seen.items()}
        row = {
            "model": name, "plain_ms": step[None] * 1e3, "light": step["light"] / step[None],
            "full": step["full"] / step[None], "first_plain_ms": first[None] * 1e3, "first_full_ms": first["full"] * 1e3,
        }  # fmt: skip
        rows.append(row)
        print(f"{name:10} {row['plain_ms']:7.2f} ms {row['light']:6.2f}x {row['full']:6.2f}x   "
              f"{row['first_plain_ms']:.1f} -> {row['first_full_ms']:.1f} ms", flush=True)  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    over = [row for row in rows if row["plain_ms"] > OVER_MS and row["full"] > BUDGET]
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
