"""Small programs with one fault each, and right ones that look like them: the probe names the marked lines alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import marks, needs_torch, quick, said, write

pytestmark = needs_torch
HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\nx, y = torch.randn(8, 4), torch.randn(8, 1)\n"
LOOP = """
for _ in range(3):
    opt.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    opt.step()
"""
WRONG = {
    "switch in an imported module": {
        "main.py": "import switch\n"
        + HEAD
        + "model = nn.Linear(4, 1)\nopt = torch.optim.SGD(model.parameters(), 0.1)\n"
        + LOOP,
        "switch.py": "import torch\ntorch.set_grad_enabled(False)  # <- grad-mode-off\n",
    },
    "detach in the middle": HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        h = self.a(x).relu().detach()  # <- cut-graph
        return self.b(h)

model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
"""
    + LOOP,
    "decorated helper": HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

    @torch.no_grad()  # <- cut-graph
    def features(self, x):
        return self.a(x)

    def forward(self, x):
        return self.b(self.features(x))

model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
"""
    + LOOP,
    "numbers in between": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    opt.zero_grad()
    total = 0.0
    for i in range(2):
        total += (model(x) - y).pow(2).mean().item()
    loss = torch.tensor(total, requires_grad=True)  # <- hidden-error
    loss.backward()
    opt.step()
""",
    "layers in a list": HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Linear(4, 4) for _ in range(2)]  # <- unregistered-module
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        for part in self.parts:
            x = part(x).relu()
        return self.last(x)

model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
"""
    + LOOP,
    "cleared in between": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    opt.zero_grad()  # <- cleared-before-step
    opt.step()
""",
    "never cleared": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = (model(x) - y).pow(2).mean()
    loss.backward()  # <- gradients-accumulate
    opt.step()
""",
    "replaced after the optimizer": HEAD
    + """
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)  # <- not-in-optimizer # <- optimizer-holds-strays
model[2] = nn.Linear(4, 1)
"""
    + LOOP,
    "rounded": HEAD
    + """
enc, dec = nn.Linear(4, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*enc.parameters(), *dec.parameters()], 0.1)
for _ in range(2):
    opt.zero_grad()
    code = torch.round(enc(x))  # <- zero-gradient
    (dec(code) - y).pow(2).mean().backward()
    opt.step()
""",
    "state carried over": HEAD
    + """
cell, out = nn.RNNCell(4, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.1)
h = torch.zeros(8, 4)
for _ in range(3):
    opt.zero_grad()
    h = cell(x, h)  # <- graph-reused
    (out(h) - y).pow(2).mean().backward()
    opt.step()
""",
    "a vector": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
loss = (model(x) - y).pow(2)  # <- non-scalar-backward
loss.backward()
""",
    "squashed twice": HEAD
    + """
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    opt.zero_grad()
    p = model(x).softmax(1)  # <- squashed-twice
    nn.functional.cross_entropy(p, torch.zeros(8, dtype=torch.long)).backward()
    opt.step()
""",
    "not finite": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    opt.zero_grad()
    z = torch.log(model(x).relu() * 0)  # <- not-finite
    z.mean().backward()
    opt.step()
""",
    "a root of zero": HEAD
    + """
model = nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    opt.zero_grad()
    h = model(x).relu() * 0
    norm = torch.sqrt((h * h).sum(1))  # <- not-finite
    (norm - y.squeeze(1)).pow(2).mean().backward()
    opt.step()
    for p in model.parameters():
        p.data.nan_to_num_(0.0)
""",
    "an overflow, only in the second step": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 1e30)
for _ in range(3):
    opt.zero_grad()
    out = model(x)
    loss = (out - y).pow(2).mean()  # <- not-finite
    loss.backward()
    opt.step()
""",
    "broadcast by hand": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
target = y.squeeze(1)
for _ in range(2):
    opt.zero_grad()
    error = model(x) - target  # <- broadcast-loss
    loss = (error ** 2).mean()
    loss.backward()
    opt.step()
""",
    "a list of losses": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
history = []
for _ in range(3):
    opt.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    opt.step()
    history.append(loss)  # <- graph-kept
""",
    "clipped too late": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    opt.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <- clip-after-step
""",
}
RIGHT = {
    "metrics, an average and a target": HEAD
    + """
import copy
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
ema = copy.deepcopy(model)
opt = torch.optim.Adam(model.parameters(), 1e-2)
seen = []
for _ in range(3):
    with torch.no_grad():
        target = ema(x) * 0.1 + y
    loss = nn.functional.mse_loss(model(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen.append(loss.item())
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.mul_(0.9).add_(b.detach(), alpha=0.1)
""",
    "two players": HEAD
    + """
G, D = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))
g_opt, d_opt = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(3):
    fake = G(torch.randn(8, 3))
    d_opt.zero_grad()
    (bce(D(x), torch.ones(8, 1)) + bce(D(fake.detach()), torch.zeros(8, 1))).backward()
    d_opt.step()
    g_opt.zero_grad()
    bce(D(fake), torch.ones(8, 1)).backward()
    g_opt.step()
""",
    "frozen features, straight through, a stable softmax": HEAD
    + """
base, head = nn.Linear(4, 4), nn.Linear(4, 1)
base.requires_grad_(False)
opt = torch.optim.SGD(head.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    with torch.no_grad():
        f = base(x)
    h = head(f)
    hard = h + (h.round() - h).detach()
    weights = (h - h.max().detach()).exp()
    ((hard - y).pow(2) * (weights / weights.sum())).sum().backward()
    opt.step()
""",
    "pairs, distances and a list of numbers": HEAD
    + """
model = nn.Linear(4, 1)
centres = nn.Parameter(torch.randn(8))
opt = torch.optim.SGD([*model.parameters(), centres], 0.1)
history, previous = [], None
for _ in range(3):
    opt.zero_grad()
    score = model(x)
    ranked = (score - score.squeeze(1)).relu().mean()
    kernel = torch.exp(-(x[:, :1] - centres) ** 2)
    spread = (score - y.squeeze(1).unsqueeze(0)).abs().softmax(1)
    distance = torch.sqrt((score - y).pow(2) + 1e-6).mean()
    loss = ranked + (kernel @ y).pow(2).mean() + (spread @ y).pow(2).mean() + distance
    loss.backward()
    opt.step()
    history.append(loss.detach())
    previous = loss
""",
    "accumulation and clipping": HEAD
    + """
model = nn.Linear(4, 1)
opt = torch.optim.AdamW(model.parameters(), 1e-2)
for i in range(8):
    ((model(x) - y).pow(2).mean() / 2).backward()
    if i % 2:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
""",
}


@pytest.mark.parametrize("name", WRONG)
def test_names_the_marked_line(name: str, tmp_path: Path) -> None:
    files = WRONG[name]
    folder = tmp_path / "program"
    write(folder, {"main.py": files} if isinstance(files, str) else files)
    report = quick(folder, "main.py")
    expected = marks(folder)
    assert said(report) & expected, (report["findings"], report["notes"])
    assert not {entry for entry in said(report) if entry not in expected}, report["findings"]
    assert not [note for note in report["notes"] if note.startswith("probe:")]
    assert report["counted"]


@pytest.mark.parametrize("name", RIGHT)
def test_is_silent_on_right_programs(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": RIGHT[name]})
    report = quick(folder, "main.py")
    assert said(report) == set(), report["findings"]
    assert not [note for note in report["notes"] if note.startswith("probe:")]
    assert not report["counted"] and report["steps"] >= 2
    assert {row["grad"] for row in report["parameters"] if row["optimizer"] is not None} == {"ok"}
