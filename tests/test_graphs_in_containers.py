"""Graphs in containers: each item of a list is walked once, though a loop over it is passed twice with the same value.

Every program runs on torch as it is.
"""

from __future__ import annotations

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.project import Project

HEAD = """\
import random
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
x = torch.randn(8, 4)
y = torch.randn(8, 2)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
opt.zero_grad()

"""

RIGHT = {
    "made when they are asked for, with a step for each": """
def batches():
    for b in x.split(2):
        yield model(b).pow(2).mean()
for loss in batches():
    opt.zero_grad(); loss.backward(); opt.step()
for loss in map(lambda b: model(b).pow(2).mean(), x.split(2)):
    opt.zero_grad(); loss.backward(); opt.step()
for loss in (model(b).pow(2).mean() for b in x.split(2)):
    opt.zero_grad(); loss.backward(); opt.step()
for i, loss in enumerate(model(b).pow(2).mean() for b in x.split(2)):
    opt.zero_grad(); loss.backward(); opt.step()
it = iter(model(b).pow(2).mean() for b in x.split(2))
for _ in range(4):
    loss = next(it)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "of modules and parameters of their own, with one optimizer": """
models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in x]
o = torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.1)
losses = [m(x).pow(2).mean() for m in models]
for loss in losses:
    o.zero_grad()
    loss.backward()
    o.step()
ws = [nn.Parameter(torch.randn(4, 1)) for _ in x]
o = torch.optim.SGD(ws, lr=0.1)
losses = [((x + w.T) * w.T).exp().mean() for w in ws]
for loss in losses:
    o.zero_grad()
    loss.backward()
    o.step()
heads = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in x])
o = torch.optim.SGD(heads.parameters(), lr=0.1)
losses = []
for head in heads:
    losses.append(head(x).pow(2).mean())
for loss in losses:
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "in queues that are filled and emptied": """
queue = []
for b in x.split(2):
    queue.append(model(b).pow(2).mean())
    loss = queue.pop()
    opt.zero_grad(); loss.backward(); opt.step()
queue = [model(b).pow(2).mean() for b in x.split(2)]
sum(queue).backward(); opt.step(); opt.zero_grad()
queue.clear()
for b in x.split(2):
    queue.append(model(b).pow(2).mean())
    if len(queue) == 2:
        sum(queue).backward()
        opt.step()
        opt.zero_grad()
        queue = []
for loss in queue:
    loss.backward()
    opt.step()
memory = {}
for i, b in enumerate(x.split(2)):
    memory[i % 2] = model(b).pow(2).mean()
    opt.zero_grad(); memory[i % 2].backward(); opt.step()
""",
    "in lists that are made anew": """
for epoch in range(2):
    losses = [model(b).pow(2).mean() for b in x.split(2)]
    opt.zero_grad()
    for loss in losses:
        loss.backward()
    opt.step()
    heads = [nn.Linear(2, 1) for _ in range(int(x[0, 0] > 5) + 3)]
    opts = [torch.optim.SGD(h.parameters(), lr=0.1) for h in heads]
    feats = model(x).detach()
    ls = [h(feats).pow(2).mean() for h in heads]
    for l, o in zip(ls, opts):
        l.backward()
        o.step()
    ls = [h(feats).pow(2).mean() for h in heads]
    for i in range(len(ls)):
        ls[i].backward()
        opts[i].step()
for trial in range(2):
    for net in [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in x]:
        o = torch.optim.SGD(net.parameters(), lr=0.1)
        for b in [t for t in x.split(2)]:
            l = net(b).pow(2).mean()
            o.zero_grad(); l.backward(); o.step()
""",
    "of modules in objects and dicts": """
class Agent:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
agents = [Agent() for _ in x]
o = torch.optim.Adam([p for a in agents for p in a.net.parameters()])
losses = {i: a.net(x).pow(2).mean() for i, a in enumerate(agents)}
for i, loss in losses.items():
    o.zero_grad()
    loss.backward()
    o.step()
losses = [agents[i].net(x).pow(2).mean() for i in range(len(agents))]
for i in range(len(agents)):
    o.zero_grad()
    losses[i].backward()
    o.step()
nets = {str(i): nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for i in range(len(x))}
o = torch.optim.Adam([p for n in nets.values() for p in n.parameters()])
losses = [nets[k](x).pow(2).mean() for k in nets]
while losses:
    o.zero_grad()
    losses.pop().backward()
    o.step()
""",
    "enumerated": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]
for i, out in enumerate(outs):
    loss = F.mse_loss(out, y[:2])
    loss.backward()
opt.step()
""",
    "zipped": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]
for out, t in zip(outs, y):
    loss = F.mse_loss(out, y[:2])
    loss.backward()
opt.step()
""",
    "split and enumerated": """
outs = [model(b) for b in x.split(2)]
for i, out in enumerate(outs):
    loss = F.mse_loss(out, y[:2])
    loss.backward()
opt.step()
""",
    "appended": """
outs = []
for b in x.split(2):
    outs.append(model(b))
for i, out in enumerate(outs):
    F.mse_loss(out, y[:2]).backward()
for i in range(0): outs[i].sum().backward()
opt.step()
""",
    "by index": """
outs = [model(b) for b in x.split(2)]
for i in range(len(outs)):
    F.mse_loss(outs[i], y[:2]).backward()
opt.step()
""",
    "in a dict": """
outs = {k: model(b) for k, b in enumerate(x.split(2))}
for k, out in outs.items():
    F.mse_loss(out, y[:2]).backward()
opt.step()
""",
    "from a generator expression": """
outs = (model(b) for b in x.split(2))
for out in outs:
    F.mse_loss(out, y[:2]).backward()
opt.step()
""",
    "in pairs": """
outs = [(model(b), i) for i, b in enumerate(x.split(2))]
for out, i in outs:
    F.mse_loss(out, y[:2]).backward()
opt.step()
""",
    "mapped and reversed": """
outs = list(map(model, x.split(2)))
for out in reversed(outs):
    F.mse_loss(out, y[:2]).backward()
while outs:
    outs.pop()
opt.step()
""",
    "sorted, cut, copied and asked for one by one": """
outs = [model(b) for b in x.split(2)]
outs = sorted(outs, key=lambda o: o.sum().item())
for out in outs:
    F.mse_loss(out, y[:2]).backward()
outs = [model(b) for b in x.split(2)]
for out in outs[::-1]:
    F.mse_loss(out, y[:2]).backward()
outs = [model(b) for b in x.split(2)]
for out in tuple(outs):
    F.mse_loss(out, y[:2]).backward()
outs = [model(b) for b in x.split(2)]
it = iter(outs)
for _ in range(4):
    F.mse_loss(next(it), y[:2]).backward()
outs = [model(b) for b in x.split(2)]
for out in [o.pow(2) for o in outs]:
    out.mean().backward()
opt.step()
""",
    "from generators": """
def gen():
    for b in x.split(2):
        yield model(b)
for out in gen():
    F.mse_loss(out, y[:2]).backward()
g = gen()
for _ in range(4):
    F.mse_loss(next(g), y[:2]).backward()
for i, out in enumerate(gen()):
    F.mse_loss(out, y[:2]).backward()
    opt.step()
def one():
    yield model(x)
    yield model(x)
for i, out in enumerate(one()):
    F.mse_loss(out, y).backward()
    opt.step()
for out, z in zip(one(), range(9)):
    F.mse_loss(out, y).backward()
    opt.step()
opt.step()
""",
    "from a generator, asked for one by one": """
def one():
    yield model(x)
    yield model(x)
for out in one():
    F.mse_loss(out, y).backward()
    opt.step()
    opt.zero_grad()
for out in list(one()):
    F.mse_loss(out, y).backward()
opt.step()
opt.zero_grad()
g = one()
a = next(g)
F.mse_loss(a, y).backward()
opt.step()
b = next(g)
F.mse_loss(b, y).backward()
opt.step()
""",
    "in dicts of a list": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

outs = [{"out": model(b)} for b in x.split(2)]
for o in outs:
    F.mse_loss(o["out"], y[:2]).backward()
opt.step()
""",
    "attributes of a list's objects": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

class Rec:
    def __init__(self, out):
        self.out = out
outs = [Rec(model(b)) for b in x.split(2)]
for o in outs:
    F.mse_loss(o.out, y[:2]).backward()
opt.step()
""",
    "states of objects": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

class Agent:
    def __init__(self):
        self.h = torch.zeros(8, 2)
    def act(self):
        self.h = model(torch.cat([self.h, self.h], 1) + x)
        return self.h
n = int(x.sum().item()) % 3 + 3
agents = [Agent() for _ in range(n)]
for a in agents:
    a.act().pow(2).mean().backward()
opt.step()
""",
    "in lists of lists": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

outs = [[model(b), [model(b), (1, model(b))]] for b in x.split(2)]
for o, (p, (_, q)) in outs:
    F.mse_loss(q, y[:2]).backward()
    F.mse_loss(p, y[:2]).backward()
opt.step()
""",
    "in records": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

from dataclasses import dataclass
from typing import NamedTuple
@dataclass
class R:
    out: torch.Tensor
class N(NamedTuple):
    out: torch.Tensor
    k: int
for kind in (R, lambda o: N(o, 2)):
    outs = [kind(model(b)) for b in x.split(2)]
    for o in outs:
        F.mse_loss(o.out, y[:2]).backward()
for o in [N(model(b), 1) for b in x.split(2)]:
    F.mse_loss(o.out, y[:2]).backward()
for o in [R(model(b)) for b in x.split(2)]:
    F.mse_loss(o.out, y[:2]).backward()
opt.step()
""",
    "in a buffer": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

class Buffer:
    def __init__(self):
        self.outs = []
    def add(self, o):
        self.outs.append(o)
    def sample(self):
        return self.outs.pop()
    def __iter__(self):
        return iter(self.outs)
buf = Buffer()
for b in x.split(2):
    buf.add(model(b))
for _ in range(2):
    F.mse_loss(buf.sample(), y[:2]).backward()
for o in buf:
    F.mse_loss(o, y[:2]).backward()
opt.step()
""",
    "in queues": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

from collections import deque
q = deque(model(b) for b in x.split(2))
while q:
    o = q.popleft()
    l = F.mse_loss(o, y[:2])
    l.backward()
opt.step()
import queue
qq = queue.Queue()
for b in x.split(2): qq.put(model(b))
while not qq.empty():
    F.mse_loss(qq.get(), y[:2]).backward()
""",
    "from a pool and from itertools": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    for o in pool.map(model, x.split(2)):
        F.mse_loss(o, y[:2]).backward()
for o in map(model, x.split(2)):
    F.mse_loss(o, y[:2]).backward()
for o in filter(None, [model(b) for b in x.split(2)]) if False else [model(b) for b in x.split(2)]:
    F.mse_loss(o, y[:2]).backward()
import itertools
for o in itertools.chain([model(b) for b in x.split(2)], [model(b) for b in x.split(2)]):
    F.mse_loss(o, y[:2]).backward()
for o in itertools.islice([model(b) for b in x.split(2)], 2):
    F.mse_loss(o, y[:2]).backward()
for o, p in itertools.zip_longest([model(b) for b in x.split(2)], []):
    F.mse_loss(o, y[:2]).backward()
opt.step()
""",
    "states in a list": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

states = [torch.zeros(2, 2) for _ in x.split(2)]
for i, b in enumerate(x.split(2)):
    states[i] = model(torch.cat([states[i], states[i]], 1) + b)
    F.mse_loss(states[i], y[:2]).backward()
h = {}
for i, b in enumerate(x.split(2)):
    h[i] = model(b)
for i in h:
    F.mse_loss(h[i], y[:2]).backward()
opt.step()
""",
    "yielded losses": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

def run(outs):
    for o in outs:
        yield F.mse_loss(o, y[:2])
for loss in run([model(b) for b in x.split(2)]):
    loss.backward()
losses = [F.mse_loss(o, y[:2]) for o in (model(b) for b in x.split(2))]
for i in range(len(losses)):
    (losses[i] / 4).backward()
parts = torch.stack([model(b) for b in x.split(2)])
for i, part in enumerate(parts):
    part.mean().backward(retain_graph=i < 3)
opt.step()
""",
    "the first apart from the others": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

outs = [model(b) for b in x.split(2)]
outs[0].mean().backward()
sum(o.mean() for o in outs[1:]).backward()
outs = [model(b) for b in x.split(2)]
for o in outs[:2]:
    o.mean().backward()
sum([o.mean() for o in outs[2:]]).backward()
outs = [model(b) for b in x.split(2)]
for o in outs[:2]:
    o.mean().backward()
torch.stack(outs[2:]).mean().backward()
outs = [model(b) for b in x.split(2)]
picked = [o for o in outs if o.sum() > 0]
rest = [o for o in outs if not o.sum() > 0]
if picked: sum(p.mean() for p in picked).backward()
if rest: sum(p.mean() for p in rest).backward()
opt.step()
""",
    "unpacked, the largest, popped, deleted": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

outs = [model(b) for b in x.split(2)]
first, *others = outs
first.mean().backward()
sum(o.mean() for o in others).backward()
outs = [model(b) for b in x.split(2)]
a, b, c, d = outs
a.mean().backward()
b.mean().backward()
outs = [model(b) for b in x.split(2)]
best = max(outs, key=lambda o: o.sum().item())
best.mean().backward()
for o in outs:
    if o is not best:
        o.mean().backward()
outs = [model(b) for b in x.split(2)]
while len(outs) > 0:
    o = outs.pop(0)
    o.mean().backward()
outs = [model(b) for b in x.split(2)]
del outs[1:3]
for o in outs: o.mean().backward()
opt.step()
""",
    "in groups": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

done = []
for b in x.split(2):
    done.append(model(b))
    if len(done) == 2:
        sum(o.mean() for o in done).backward()
        done = []
done = []
for b in x.split(2):
    done.append(model(b))
    if len(done) == 2:
        for o in done:
            o.mean().backward()
        done.clear()
groups = {}
for i, b in enumerate(x.split(2)):
    groups.setdefault(i % 2, []).append(model(b))
for k, g in groups.items():
    sum(o.mean() for o in g).backward()
groups = {k: [model(b) for b in x.split(2)] for k in "abcdefghijklmnopqrstuvwxyzabcd"}
for k in groups:
    torch.stack(groups[k]).mean().backward()
chunks = [[model(b) for b in x.split(2)] for _ in x]
for g in chunks:
    sum(o.mean() for o in g).backward()
for g in [[model(b) for b in x.split(2)] for _ in x]:
    loss = 0
    for o in g:
        loss = loss + o.mean()
    loss.backward()
opt.step()
""",
    "with an optimizer for each": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]

models = [nn.Linear(4, 1) for _ in x]
opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
outs = [m(x) for m in models]
for o, oo in zip(outs, opts):
    o.pow(2).mean().backward()
    oo.step()
losses = {i: m(x).pow(2).mean() for i, m in enumerate(models)}
for i, l in losses.items():
    opts[i].zero_grad()
    l.backward()
    opts[i].step()
for i in range(len(models)):
    losses[i] = models[i](x).pow(2).mean()
for i in range(len(models)):
    losses[i].backward()
    opts[i].step()
class Client:
    def __init__(self):
        self.m = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.o = torch.optim.SGD(self.m.parameters(), lr=0.1)
    def forward(self):
        self.l = self.m(x).pow(2).mean()
    def step(self):
        self.o.zero_grad()
        self.l.backward()
        self.o.step()
n = len(x)
clients = [Client() for _ in range(n)]
for c in clients:
    c.forward()
for c in clients:
    c.step()
""",
    "with an optimizer in each object": """
outs = [model(x[i:i+2]) for i in range(0, 8, 2)]
models = [nn.Linear(4, 1) for _ in x]
opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
for m, o in zip(models, opts):
    m(x).pow(2).mean().backward()
    o.step()
class T:
    def __init__(self):
        self.m = nn.Linear(4, 1)
        self.o = torch.optim.SGD(self.m.parameters(), lr=0.1)
    def go(self):
        self.m(x).pow(2).mean().backward()
        self.o.step()
for t in [T() for _ in x]:
    t.go()
ts = {i: T() for i in range(len(x))}
for i in ts:
    ts[i].go()
ts = [T() for _ in x]
while ts:
    ts.pop().go()
deep = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in x]
dopts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in deep]
a = deep[0](x).mean()
b = deep[1](x).mean()
a.backward()
dopts[0].step()
b.backward()
dopts[1].step()
""",
}

WRONG = {
    "a step for each of a list": (
        """
losses = [F.mse_loss(model(x[i : i + 2]), y[i : i + 2]) for i in range(0, 8, 2)]
for loss in losses:
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        "inplace-saved-tensor",
    ),
    "a stack of all of them, twice": (
        """
outs = [model(b) for b in x.split(2)]
torch.stack(outs).mean().backward()
opt.step()
torch.stack(outs).pow(2).mean().backward()
""",
        "backward-twice",
    ),
    "after the loop": (
        """
outs = [model(b) for b in x.split(2)]
for out in outs:
    out.mean().backward()
opt.step()
sum(out.pow(2).mean() for out in outs).backward()
""",
        "backward-twice",
    ),
}


def said(program: str) -> set[str]:
    memory = MemoryFiles({"main.py": program})
    found = check(Project(memory), memory.paths()).findings.values()
    return {finding.name for of_file in found for finding in of_file if finding.severity.fails}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_what_runs(name: str) -> None:
    pytest.importorskip("torch")
    assert said(HEAD + RIGHT[name]) == set()
    exec(HEAD + RIGHT[name], {"__name__": "program"})


@pytest.mark.parametrize("name", WRONG)
def test_what_holds_of_all_of_them_is_said(name: str) -> None:
    pytest.importorskip("torch")
    program, rule = WRONG[name]
    assert rule in said(HEAD + program)
    with pytest.raises(RuntimeError, match=r"a second time|modified by an inplace operation"):
        exec(HEAD + program, {})
