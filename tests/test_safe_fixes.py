"""A program runs on torch and trains what should train, once its fixes are made; what would break it is not offered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from fixture import MemoryFiles
from rule_run import Runner

from gradline.check import check, fix
from gradline.edits import Applicability, apply
from gradline.project import Project

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

"""


class Case(NamedTuple):
    """`becomes` is what the safe fix makes of some lines of `wrong` (with `unsafe`: that, or one that somebody has to look
    at); None: there is none. `said` is a part of the message."""

    wrong: str
    becomes: dict[str, str] | None
    trains: tuple[str, ...] = ()
    said: str = ""
    unsafe: bool = False


STATE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{layer}(4, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x, state=None):
        y, state = self.rnn(x, state)
        return self.out(y), state

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
hidden = {start}
for _ in range(3):
    opt.zero_grad()
    y, hidden = net(torch.randn(5, 2, 4), hidden)
    loss = y.pow(2).mean()
    loss.backward()
    opt.step()
"""
PAIR = "(torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))"
LET_GO = "    loss.backward()\n"

CELLS = """
cells = nn.ModuleList(nn.{cell}(4, 4) for _ in range(2))
opt = torch.optim.SGD(cells.parameters(), lr=0.1)

def run(x, states):
    new = []
    for cell, state in zip(cells, states):
        state = cell(x, state)
        new.append(state)
        x = {output}
    return x, new

states = [{start} for _ in range(2)]
for _ in range(3):
    opt.zero_grad()
    y, states = run(torch.randn(2, 4), states)
    loss = y.pow(2).mean()
    loss.backward()
    opt.step()
"""

HELD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [{part} for _ in range(3)]
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        {use}
        return self.out(x)

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    opt.step()
"""
WEIGHT, LAYER = "nn.Parameter(torch.randn(2, 4))", "nn.Linear(4, 4)"


def held(part: str, use: str, better: str | None = "") -> Case:
    """A list of parts in a module; `better` is how the use must be written, "" as it is; None: no fix is safe."""
    if better is None:
        return Case(HELD.format(part=part, use=use), None)
    container = "ParameterList" if part is WEIGHT else "ModuleList"
    plain = f"[{part} for _ in range(3)]"
    changes = {plain: f"nn.{container}({plain})"} | ({use: better} if better else {})
    return Case(HELD.format(part=part, use=use), changes, ("net",))


BY_HAND = """
x, y = torch.randn(16, 4), torch.randn(16, 1)
w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
for _ in range(3):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad
        b = b - 0.1 * b.grad
"""
IN_PLACE = {"w = w - 0.1 * w.grad": "w -= 0.1 * w.grad", "b = b - 0.1 * b.grad\n": "b -= 0.1 * b.grad\n"}

GAN = """
net_g, net_d = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Linear(4, 1)
opt_g, opt_d = (torch.optim.SGD(net.parameters(), lr=0.1) for net in (net_g, net_d))
for _ in range(3):
    opt_d.zero_grad()
    fake = net_g(torch.randn(8, 2))
    err_d = F.softplus(net_d(fake)).mean() + F.softplus(-net_d(torch.randn(8, 4))).mean()
    err_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    err_g = F.softplus(-net_d(fake)).mean()
    err_g.backward()
    opt_g.step()
"""
APART = "compute `err_d` from `net_g(torch.randn(8, 2))` detached"

PPO = """
from torch.distributions import Categorical

policy = nn.Linear(4, 3)
opt = torch.optim.SGD(policy.parameters(), lr=0.1)

def act(obs):
    dist = Categorical(logits=policy(obs))
    action = dist.sample()
    return action, dist.log_prob(action)

for _ in range(2):
    seen, done, old = [], [], []
    for _ in range(8):
        obs = torch.randn(4)
        action, logp = act(obs)
        seen.append(obs)
        done.append(action)
        old.append(logp)
    obs, actions, before = torch.stack(seen), torch.stack(done), torch.stack(old)
    gain = torch.randn(8)
    for _ in range(3):
        now = Categorical(logits=policy(obs)).log_prob(actions)
        loss = -((now - before).exp() * gain).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""

BANK = """
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bank", torch.randn(12, 4))

    def forward(self, z):
        return z @ self.bank.t()

    def update(self, z, index):
        self.bank[index] = 0.5 * self.bank[index] + 0.5 * z

encoder, bank = nn.Linear(5, 4), Bank()
opt = torch.optim.SGD(encoder.parameters(), lr=0.1)
for _ in range(3):
    index = torch.randperm(12)[:6]
    z = F.normalize(encoder(torch.randn(6, 5)), dim=1)
    loss = F.cross_entropy(bank(z), index)
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank.update(z, index)
"""

# What a detached value is used for, behind which a net is left untrained that the optimizer holds.
BEHIND = """
from torch.distributions import Categorical

policy, base = nn.Linear(4, 3), nn.Linear(4, 1)
opt = torch.optim.Adam([*policy.parameters(), *base.parameters()])
for _ in range(3):
    x = torch.randn(8, 4)
    {use}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

SLOPE = """
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(8, 2).requires_grad_()
slope = torch.autograd.grad(net(x).sum(), x)[0]
torch.autograd.grad(slope.sum(), x)
"""

QUANTIZED = """
encoder, codes, decoder = nn.Linear(6, 4), nn.Embedding(8, 4), nn.Linear(4, 6)
opt = torch.optim.SGD([*encoder.parameters(), *codes.parameters(), *decoder.parameters()], lr=0.1)
for _ in range(3):
    x = torch.randn(16, 6)
    z = encoder(x)
    q = codes(torch.cdist(z.detach(), codes.weight.detach()).argmin(-1))
    fit = F.mse_loss(q, z.detach())
    q = q + (z - q).detach()
    loss = F.mse_loss(decoder(q), x) + fit
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

# What is done to a tensor that a backward needs, and is seen by somebody else who holds it.
SHARED = """
fc = nn.Linear(4, 4)

def bump(x, y):
    {bump}

class Kept(nn.Module):
    def forward(self, x):
        self.h = torch.sigmoid(fc(x))
        h = self.h
        h += 1
        return {kept}

opt = torch.optim.SGD(fc.parameters(), lr=0.1)
h = torch.sigmoid(fc(torch.randn(3, 4)))
{use}
h.pow(2).sum().backward()
opt.step()
"""


def shared(use: str, becomes: dict[str, str] | None, *, bump: str = "return x + y", kept: str = "self.h") -> Case:
    return Case(SHARED.format(bump=bump, use=use, kept=kept), becomes, ("fc",) if becomes is not None else ())


# A loss that is made of several numbers.
SEVERAL = """
import numpy as np

net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
parts = [net(torch.randn(4, 3)).mean() for _ in range(2)]
a, b = parts
loss = {loss}
loss.backward()
opt.step()
"""

GENERATOR = """
net = nn.Linear(3, 1)
params = net.parameters()
{use}
opt = torch.optim.SGD(params, lr=0.1)
net(torch.randn(4, 3)).mean().backward()
opt.step()
"""

CASES = {
    "the state of an LSTM": Case(
        STATE.format(layer="LSTM", start=PAIR),
        {LET_GO: LET_GO + "    hidden = tuple(state.detach() for state in hidden)\n"},
        ("net",),
    ),
    "the state of an LSTM that begins with None": Case(
        STATE.format(layer="LSTM", start="None"),
        {LET_GO: LET_GO + "    hidden = tuple(state.detach() for state in hidden)\n"},
        ("net",),
    ),
    "the state of a GRU": Case(
        STATE.format(layer="GRU", start="None"), {LET_GO: LET_GO + "    hidden = hidden.detach()\n"}, ("net",)
    ),
    "a list of states": Case(
        CELLS.format(cell="GRUCell", output="state", start="torch.zeros(2, 4)"),
        {LET_GO: LET_GO + "    states = [state.detach() for state in states]\n"},
        ("cells",),
    ),
    "a list of pairs": Case(
        CELLS.format(cell="LSTMCell", output="state[0]", start="(torch.zeros(2, 4), torch.zeros(2, 4))"),
        {LET_GO: LET_GO + "    states = [tuple(part.detach() for part in state) for state in states]\n"},
        ("cells",),
    ),
    "parameters that are joined": held(
        WEIGHT, "x = x @ torch.cat(self.parts, 0).T @ torch.randn(6, 4)",
        "x = x @ torch.cat(list(self.parts), 0).T @ torch.randn(6, 4)",
    ),
    "a slice of parameters that is stacked": held(
        WEIGHT, "x = x @ torch.stack(self.parts[:2]).sum((0, 1)).diag() + self.parts[2].sum()",
        "x = x @ torch.stack(list(self.parts[:2])).sum((0, 1)).diag() + self.parts[2].sum()",
    ),
    "parameters to which others are added": held(
        WEIGHT, "x = x + sum(p.mean() for p in self.parts + [x])",
        "x = x + sum(p.mean() for p in list(self.parts) + [x])",
    ),
    "parameters that are taken apart": held(WEIGHT, "a, b, c = [*self.parts]; x = x + (a * b * c).sum()"),
    "parameters that are popped": held(WEIGHT, "x = x + self.parts.pop(0).sum() + self.parts[0].sum() + self.parts[1].sum()", None),
    "layers in a row": held(LAYER, "for part in (self.parts[0], *self.parts[1:]): x = part(x)"),
    "layers that are counted": held(LAYER, "x = sum(layer(x) for layer in self.parts) / len(self.parts)"),
    "layers that are looked up": held(LAYER, "x = sum(p(x) * (1 + self.parts.index(p)) for p in self.parts)", None),
    "layers whose kind is asked": held(
        LAYER, "x = sum(p(x) for p in self.parts) if isinstance(self.parts, list) else x", None
    ),
    "an update by hand": Case(
        BY_HAND,
        {**IN_PLACE, "b = b - 0.1 * b.grad\n": "b -= 0.1 * b.grad\n        w.grad.zero_()\n        b.grad.zero_()\n"},
    ),
    "an update by hand of gradients that are cleared": Case(
        BY_HAND + "    w.grad.zero_()\n    b.grad.zero_()\n", IN_PLACE
    ),
    "an update by hand of gradients one of which is cleared": Case(
        BY_HAND + "    w.grad.zero_()\n",
        {**IN_PLACE, "b = b - 0.1 * b.grad\n": "b -= 0.1 * b.grad\n        b.grad.zero_()\n"},
    ),
    "an update by hand of gradients that are looked at later": Case(BY_HAND + "    print(w.grad.norm())\n", None),
    "updates by hand that nothing clears": Case(
        BY_HAND.replace("w = w -", "w -=").replace("b = b -", "b -="),
        {
            "w -= 0.1 * w.grad\n": "w -= 0.1 * w.grad\n        w.grad.zero_()\n",
            "b -= 0.1 * b.grad\n": "b -= 0.1 * b.grad\n        b.grad.zero_()\n",
        },
        said="`w -= 0.1 * w.grad` also applies the gradients of earlier passes: nothing clears them in between",
    ),
    "a generator behind the discriminator's loss": Case(
        GAN, {"softplus(net_d(fake))": "softplus(net_d(fake.detach()))"}, ("net_g", "net_d"), said=APART
    ),
    "a generator whose gradients are cleared first of all": Case(
        GAN.replace("    opt_g.zero_grad()\n", "").replace("    opt_d.z", "    opt_g.zero_grad()\n    opt_d.z"),
        {"softplus(net_d(fake))": "softplus(net_d(fake.detach()))"}, ("net_g", "net_d"), said=APART, unsafe=True,
    ),
    "the probabilities of the old policy": Case(
        PPO,
        {"        action, logp = act(obs)\n": "        with torch.no_grad():\n            action, logp = act(obs)\n"},
        ("policy",), said="compute `act(obs)` under `torch.no_grad()`, or detach what it gives", unsafe=True,
    ),
    "what is written into a memory": Case(
        BANK,
        {"0.5 * self.bank[index] + 0.5 * z": "(0.5 * self.bank[index] + 0.5 * z).detach()"},
        ("encoder",), said="detach what is written into `self.bank[index]`",
    ),
    "a baseline": Case(
        BEHIND.format(use="d = Categorical(logits=policy(x)); a = d.sample(); "
                          "loss = -(d.log_prob(a) * (a.float() - base(x).squeeze(1).detach())).mean()"),
        None, said="the optimizer holds what comes before (`base`)", unsafe=True,
    ),
    "a target": Case(
        BEHIND.format(use="loss = F.mse_loss(policy(x).mean(1, keepdim=True), base(x).detach())"), None,
        said="the optimizer holds what comes before (`base`)", unsafe=True,
    ),
    "a feature": Case(
        BEHIND.format(use="loss = (policy(x).mean(1, keepdim=True) + base(x).detach()).pow(2).mean()"),
        {"base(x).detach()": "base(x)"}, ("policy", "base"), unsafe=True,
    ),
    "a straight-through estimator the wrong way round": Case(
        QUANTIZED, {"q + (z - q).detach()": "z + (q - z).detach()"}, ("encoder", "codes", "decoder"), unsafe=True
    ),
    "a tensor that goes on": shared("h.mul_(2)", {"h.mul_(2)": "h = h.mul(2)"}),
    "what a caller gave": shared("bump(h, 1)", None, bump="x += y"),
    "what a caller gave, by a method": shared("bump(h, 1)", None, bump="x.add_(y)"),
    "what a caller gave and gets back": shared(
        "h = bump(h, 1)", {"x += y; return x": "x = x + y; return x"}, bump="x += y; return x"
    ),
    "the items of a list": shared("hs = [h, h + 1]\nfor g in hs: g.mul_(2)\nh = sum(g for g in hs)", None),
    "what an attribute holds, too": shared("h = Kept()(torch.randn(3, 4))", None),
    "numbers that are stacked": Case(
        SEVERAL.format(loss="torch.tensor([a, b]).sum()"), {"torch.tensor": "torch.stack"}, ("net",)
    ),
    "a list of numbers with a weight in it": Case(SEVERAL.format(loss="torch.tensor([a, 0.5]).sum()"), None),
    "a list to which a number is added": Case(
        SEVERAL.format(loss="torch.tensor(parts + [0.5]).sum()").replace("a, b = parts", "parts.append(0.5)"), None
    ),
    "rows of numbers": Case(SEVERAL.format(loss="torch.tensor([[a, b], [b, a]]).sum()"), None),
    "a copy in pinned memory": Case(
        SEVERAL.format(loss="torch.tensor(a + b, pin_memory=False)"),
        {"torch.tensor(a + b, pin_memory=False)": "a + b"}, ("net",),
    ),
    "a dtype of NumPy": Case(
        SEVERAL.format(loss="torch.tensor(np.array((a + b).detach().numpy(), dtype=np.float32))"), None
    ),
    "parameters that are counted": Case(
        GENERATOR.format(use="print(sum(p.numel() for p in params))"), {"= net.parameters()": "= list(net.parameters())"},
        ("net",),
    ),
    "parameters one of which is taken": Case(
        GENERATOR.format(use="first = next(params)\nprint(sum(p.numel() for p in params))"), None
    ),
    "a slope of a slope": Case(SLOPE, None, said="`slope.sum()` has lost its graph: `torch.autograd.grad` raises"),
}  # fmt: skip

SCALED = """
net, x, y = nn.Linear(4, 1), torch.randn(8, 4), torch.randn(8, 1)
head = nn.Linear(1, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for i in range(4):
    loss = F.mse_loss(head(net(x)), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
{body}"""
ENDS = "    scaler.step(opt)\n    scaler.update()\n"
CLIP = "nn.utils.clip_grad_norm_({}.parameters(), 1.0)\n"
TWO = SCALED.replace(
    "opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)",
    "opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (net, head)]",
).replace("    opt.zero_grad()", "    opts[0].zero_grad(); opts[1].zero_grad()")

BATCHES = """
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5)

def run(sched=None, limit=None):
    for i, (x,) in enumerate(loader):
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
{body}
{before}for epoch in range(5):
    run({given})
"""

PROCESSES = """
import os
import numpy as np
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

os.environ.setdefault("MASTER_ADDR", "localhost")
os.environ.setdefault("MASTER_PORT", "0")
dist.init_process_group("gloo", rank=0, world_size=1)
"""
SAMPLED = (
    PROCESSES
    + """
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(32, 4))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
for epoch in {epochs}:
    for (x,) in loader:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
)
WRAPPED = (
    PROCESSES
    + """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.a(x), self.b(x)

def step(net, x):
    return net.module(x)

net = Two()
ddp = DDP(net)
opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
for i in range(3):
    a, b = {call}
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
dist.destroy_process_group()
"""
)
GRAPHS = """
import copy
import numpy as np

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(8, 4)).mean().backward()
opt.step()

def given(values):
    return {how}

{use}
"""

CASES |= {
    "gradients that are clipped for one step": Case(
        SCALED.format(body="    " + CLIP.format("net") + ENDS),
        {"    nn.utils": "    scaler.unscale_(opt)\n    nn.utils"}, ("net",),
    ),
    "gradients that are clipped below a condition": Case(
        SCALED.format(body="    if i > 0:\n        " + CLIP.format("net") + ENDS),
        {"        nn.utils": "        scaler.unscale_(opt)\n        nn.utils"}, ("net",),
    ),
    "gradients that are clipped in two parts": Case(
        SCALED.format(body="    " + CLIP.format("net") + "    " + CLIP.format("head") + ENDS),
        {"    nn.utils.clip_grad_norm_(net": "    scaler.unscale_(opt)\n    nn.utils.clip_grad_norm_(net"}, ("net", "head"),
    ),
    "gradients that are clipped more often than applied": Case(
        SCALED.format(body="    " + CLIP.format("net") + "    if i % 2 == 1:\n" + ENDS.replace("    s", "        s")),
        None, said="clips gradients that are still multiplied by the scale",
    ),
    "two optimizers and no update": Case(
        TWO.format(body="    scaler.step(opts[0])\n    scaler.step(opts[1])\n"),
        {"    scaler.step(opts[1])\n": "    scaler.step(opts[1])\n    scaler.update()\n"}, ("net", "head"),
        said="`scaler.update()` is missing",
    ),
    "a loop over optimizers and no update": Case(
        TWO.format(body="    for o in opts:\n        scaler.step(o)\n"),
        {"        scaler.step(o)\n": "        scaler.step(o)\n    scaler.update()\n"}, ("net", "head"),
        said="`scaler.update()` is missing",
    ),
    "two optimizers that step around the scaler": Case(
        TWO.format(body="    opts[0].step()\n    opts[1].step()\n"), None, said="still multiplied by the scale"
    ),
    "a scheduler that steps with the batches": Case(
        BATCHES.format(body="        sched.step()\n", before="", given="sched"),
        {"        sched.step()\n": "    sched.step()\n"}, ("net",), said="",
    ),
    "a scheduler that is not always there": Case(
        BATCHES.format(body="        if sched is not None:\n            print(i)\n            sched.step()\n",
                       before="run()\n", given="sched"),
        None, said="",
    ),
    "a scheduler in a loop that is left": Case(
        BATCHES.format(body="        sched.step()\n        if i == limit:\n            return\n", before="",
                       given="sched, 3"),
        None, said="",
    ),
    "epochs that are counted": Case(
        SAMPLED.format(epochs="range(3)"),
        {"for epoch in range(3):\n": "for epoch in range(3):\n    sampler.set_epoch(epoch)\n"}, ("net",),
    ),
    "epochs of NumPy, of which torch makes no seed": Case(SAMPLED.format(epochs="np.arange(3)"), None),
    "a model inside its wrapper": Case(
        WRAPPED.format(call="ddp.module(torch.randn(8, 4))", loss="(a + b).pow(2).mean()"),
        {"ddp.module(": "ddp("}, ("net",), said="goes past DistributedDataParallel",
    ),
    "a model of which a part is used, that DDP would miss": Case(
        WRAPPED.format(call="ddp.module(torch.randn(8, 4))", loss="a.pow(2).mean()"), None,
        said="goes past DistributedDataParallel",
    ),
    "what a caller gives may be no wrapper": Case(
        WRAPPED.format(call="step(ddp, torch.randn(8, 4))", loss="(a + b).pow(2).mean()"), None,
        said="goes past DistributedDataParallel",
    ),
    "a tensor for NumPy": Case(
        GRAPHS.format(how="values", use="print(np.asarray(net(torch.randn(8, 4))))"),
        {"net(torch.randn(8, 4))))": "net(torch.randn(8, 4)).detach()))"}, ("net",),
    ),
    "a tensor or a list for NumPy": Case(
        GRAPHS.format(how="np.asarray(values)", use="given([1.0])\ngiven(net(torch.randn(8, 4)))"), None
    ),
    "an array that becomes a tensor": Case(
        GRAPHS.format(how="values", use="x = np.ones(3)\nfor _ in range(2):\n    print(np.array(x))\n    x = net(torch.ones(4))"),
        None,
    ),
    "a copy of what has a graph": Case(
        GRAPHS.format(how="values", use="out = net(torch.randn(8, 4))\nkept = copy.deepcopy(out)\nprint(kept.sum())"),
        {"copy.deepcopy(out)": "out.detach().clone()"}, ("net",),
    ),
    "a copy of anything": Case(
        GRAPHS.format(how="copy.deepcopy(values)", use="given([net])\nprint(given(net(torch.randn(8, 4))))"), None
    ),
}  # fmt: skip


# What becomes of a running total after its loop. A number does for what only shows it; else it has to stay a tensor.
TOTAL = """
import math

net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
steps, none = 3, 0

def epoch(loader):
    {start}
    for x in loader:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss
    {use}

for _ in range(2):
    shown = epoch([torch.randn(2, 4) for _ in range(steps)])
{after}"""


def total(use: str, taken: str, *, after: str = "", start: str = "total = 0.0") -> Case:
    program = TOTAL.format(use=use, after=after, start=start)
    return Case(program, {"total += loss": f"total += loss.{taken}()"}, ("net",), said="keeps the nodes of every turn")


CASES |= {
    "a total that is printed": total("print(total, f'{total / 3:.3f}', -total * 2 / len(loader))", "item"),
    "a total that is formatted": total("print('{:.3f}'.format(total), '%.3f' % (total / 3))", "item"),
    "a total in a tuple that is formatted": total("print('%d: %.3f' % (3, total))", "item"),
    "a total that is made a number": total("total /= 3\n    return float(total)", "item", after="print(shown + 1)"),
    "a total that is given to math": total("print(math.sqrt(total / 3))", "item"),
    "a total whose declaration has a type": total("print(total)", "item", start="total: float = 0.0"),
    "a mean that is asked for its number": total("mean = total / 3\n    print(mean.item())", "detach"),
    "a mean that a method is called on": total("print(f'{total / 3:.3f}', (total / 3).cpu().tolist())", "detach"),
    "a mean for NumPy, which is mended too": Case(
        TOTAL.format(use="print(f'{total / 3:.3f}', (total / 3).numpy())", after="", start="total = 0.0"),
        {"total += loss": "total += loss.detach()", "(total / 3).numpy()": "(total / 3).detach().numpy()"}, ("net",),
    ),
    "a mean that is returned": total("return total / 3", "detach", after="print(shown.item())"),
    "a mean in a tuple that is returned": total("return 3, total", "detach", after="print(shown[1].item())"),
    "a mean in a dict that is returned": total("return {'loss': total}", "detach", after="print(shown['loss'].item())"),
    "a mean that is given to torch": total("print(torch.sqrt(total / 3))", "detach"),
    "a total that is given to a function": total("print((lambda value: value.item())(total))", "detach"),
    "a total by a keyword": total("print(torch.sqrt(input=total))", "detach"),
    "a total that is compared": total("print((total < 1).item())", "detach"),
    "a total that another is made of": total("other = 0\n    other += total\n    print(other.item())", "detach"),
    "a total that is halved and asked": total("total /= 2\n    print(total.item())", "detach"),
    "a total by zero, which is infinite": total("print(f'{total / none}')", "detach"),
    "a total that something is divided by": total("print(f'{1 / (total - total)}')", "detach"),
    "a total whose root may be complex": total("print(float((-total) ** 0.5))", "detach"),
    "a total of which a field shows the shape": total("print('{0.shape}'.format(total))", "detach"),
    "a total that its own print is given": total(
        "print = lambda value: value.item()\n    print(total)", "detach"
    ),
    "a total that a function within looks at": total(
        "def look():\n        return total.item()\n    print(look())", "detach"
    ),
    "a total of the whole file": total(
        "return total", "detach", start="global total; total = 0.0", after="print(total.item())"
    ),
    "a total that is named by an expression": total("print(again := total); print(again.item())", "detach"),
}  # fmt: skip


# A loss that squashes what has been squashed, and who else wants the probability.
SQUASHED = """
net = {net}
net = net.to("cpu")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
y = torch.ones(8, 1)
classes = torch.zeros(8, dtype=torch.long)
{before}for i in range(3):
    x = torch.randn(8, 4)
    {made}
    opt.zero_grad()
    loss.backward()
    opt.step()
    {use}
{after}"""
PLAIN_NET, ENDS_SQUASHED = "nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())"
BCE = "F.binary_cross_entropy_with_logits"


def squashed(
    made: str,
    becomes: dict[str, str] | None,
    use: str = "pass",
    *,
    net: str = PLAIN_NET,
    before: str = "",
    after: str = "",
) -> Case:
    program = SQUASHED.format(net=net, made=made.replace("; ", "\n    "), use=use, before=before, after=after)
    return Case(program, becomes, ("net",), said="gets probabilities")


UNSQUASHED = {"torch.sigmoid(net(x))": "net(x)"}
OUT = f"out = torch.sigmoid(net(x)); loss = {BCE}(out, y)"
NAMED = f"scores = net(x); out = scores.sigmoid(); loss = {BCE}(out, y)"
INSTEAD = {f"{BCE}(out, y)": f"{BCE}(scores, y)"}
CLASSES = "scores = net(x); p = F.softmax(scores, 1); loss = F.cross_entropy(p, classes)"
LAYER_LESS = {", nn.Sigmoid())": ")"}
CALLED = f"out = net(x); loss = {BCE}(out, y)"

CASES |= {
    "probabilities that only the loss gets": squashed(OUT, UNSQUASHED, "print(out.shape)"),
    "probabilities in the call of the loss": squashed(f"loss = {BCE}(torch.sigmoid(net(x)).view(8, 1), y)", UNSQUASHED),
    "probabilities that two losses get": squashed(OUT, UNSQUASHED, f"print({BCE}(out, 1 - y).item())"),
    "probabilities with a name that was another's": squashed(
        f"print(x.mean()); x = torch.sigmoid(net(x)); loss = {BCE}(x, y)", UNSQUASHED
    ),
    "probabilities of a name that a loop binds": squashed(
        f"for x, t in [(x, y)]: pass; x = torch.sigmoid(net(x)); loss = {BCE}(x, y)", UNSQUASHED
    ),
    "probabilities with the name of what is given": squashed(
        "loss = run(x)", UNSQUASHED, before=f"def run(x):\n    x = torch.sigmoid(net(x))\n    return {BCE}(x, y)\n"
    ),
    "probabilities that a loop within goes over": squashed(
        f"for x in [x]:;     x = torch.sigmoid(net(x));     loss = {BCE}(x, y)", None, "print((x > 0.5).sum())"
    ),
    "probabilities that are compared": squashed(OUT, None, "print((out > 0.5).float().mean())"),
    "probabilities whose logarithm is taken": squashed(
        CLASSES, {"cross_entropy(p,": "cross_entropy(scores,"}, "print((p * p.log()).sum())", net="nn.Linear(4, 3)"
    ),
    "probabilities of scores with a name": squashed(NAMED, INSTEAD, "print((out > 0.5).float().mean())"),
    "probabilities of scores that are overwritten": squashed(
        NAMED.replace("; loss", "; scores = y; loss"), None, "print((out > 0.5).float().mean(), scores)"
    ),
    "probabilities of scores that change in place": squashed(
        NAMED.replace("; loss", "; scores.detach().zero_(); loss"), None, "print((out > 0.5).float().mean())"
    ),
    "probabilities in a comprehension": squashed(
        f"scores = net(x); out = scores.sigmoid(); loss = sum({BCE}(out, y) for out in (out, scores * 2))", None,
        "print((out > 0.5).float().mean())",
    ),
    "probabilities under a condition": squashed(
        NAMED.replace("out = scores", "if i < 5: out = scores"), None,
        "print((out > 0.5).float().mean())",
    ),
    "probabilities that are a target, too": squashed(OUT.replace("out, y", "out, out.detach()"), None),
    "probabilities that are returned": squashed(
        "loss, p = run(x)", None, "print((p > 0.5).sum())",
        before=f"def run(x):\n    out = torch.sigmoid(net(x))\n    return {BCE}(out, y), out\n",
    ),
    "probabilities that the next turn reads": squashed(
        f"print((out > 0.5).sum()); {OUT}", None, before="out = torch.zeros(8, 1)\n"
    ),
    "probabilities that a function reads": squashed(
        OUT, None, "print(hits())", before="def hits():\n    return (out > 0.5).sum()\n"
    ),
    "probabilities with a second name": squashed(OUT.replace("; loss", "; p = out; loss"), None, "print((p > 0.5).sum())"),
    "probabilities that an attribute holds": squashed(
        f"net.p = torch.sigmoid(net(x)); loss = {BCE}(net.p, y)", None, "print((net.p > 0.5).sum())"
    ),
    "probabilities that are written into the scores": squashed(
        f"out = net(x); loss = {BCE}(torch.sigmoid_(out), y)", None, "print((out > 0.5).sum())"
    ),
    "a layer whose probabilities only the loss gets": squashed(CALLED, LAYER_LESS, net=ENDS_SQUASHED),
    "a layer in front of two calls of the loss": squashed(
        CALLED, LAYER_LESS, net=ENDS_SQUASHED, after=f"net.eval()\nprint({BCE}(net(x), y).item())"
    ),
    "a layer whose probabilities are compared later": squashed(
        CALLED, None, net=ENDS_SQUASHED, after="net.eval()\nprint((net(x) > 0.5).float().mean())"
    ),
    "a layer whose probabilities are compared at once": squashed(
        CALLED, None, "print((out > 0.5).float().mean())", net=ENDS_SQUASHED
    ),
    "a layer of a model that is given away": squashed(
        CALLED, None, net=ENDS_SQUASHED, after="print((lambda model: (model(x) > 0.5).sum())(net))"
    ),
    "a layer that is looked up": squashed(CALLED, None, net=ENDS_SQUASHED, after="print(net[1](x))"),
    "a layer of a model with a second name": squashed(
        CALLED, None, net=ENDS_SQUASHED, after="model = net\nprint((model(x) > 0.5).sum())"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    pytest.importorskip("torch")
    runner = Runner()
    yield runner
    runner.close()


def mended(program: str, unsafe: bool, others: dict[str, str] | None = None) -> tuple[str, list[str]]:
    """The program after its fixes, and what was said of it; `others` are files beside it, with nothing to fix."""
    memory = MemoryFiles({"main.py": program, **(others or {})})
    project = Project(memory)
    found = [f for of_file in check(project, memory.paths()).findings.values() for f in of_file if f.severity.fails]
    wanted = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
    fixes = [made for f in found if (made := fix(project, f)) is not None and made.applicability in wanted]
    text = apply(program, {edit for made in fixes for edit in made.edits})
    return text, [finding.message for finding in found]


@pytest.mark.parametrize("name", CASES)
def test_the_program_runs_and_trains(name: str, runner: Runner) -> None:
    case = CASES[name]
    program = HEAD + case.wrong
    better = program
    for old, new in (case.becomes or {}).items():
        assert better.count(old) == 1, old
        better = better.replace(old, new)
    text, said = mended(program, case.unsafe)
    assert any(case.said in message for message in said), said
    assert text == better
    if case.unsafe:
        assert mended(program, unsafe=False)[0] == program  # it is not made unasked
    if case.becomes is not None:
        outcome = runner.run({"main.py": better}, trains=case.trains)
        assert not outcome.error, f"raises {outcome.error} at {outcome.at}"
        assert not outcome.trains


OTHERS_READ = (
    HEAD
    + TOTAL[TOTAL.index("net =") : TOTAL.index("def epoch")]
    + """
total = 0.0
for _ in range(3):
    loss = net(torch.randn(2, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss
print(total)
"""
)


@pytest.mark.parametrize(
    "how", ["import main\nprint(main.total.item())\n", "from main import *\nprint(total.item())\n"]
)
def test_what_another_file_reads_stays_a_tensor(how: str) -> None:
    better = OTHERS_READ.replace("total += loss", "total += loss.detach()")
    assert mended(OTHERS_READ, False, {"other.py": how})[0] == better
    assert mended(OTHERS_READ, False, {"other.py": "total = 3\n"})[0] == OTHERS_READ.replace(
        "total += loss", "total += loss.item()"
    )
