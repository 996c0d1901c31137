"""Programs written in many styles: gradline says what is marked in them, and is silent where nothing is."""

from __future__ import annotations

import pytest
from fixture import MemoryFiles, parse

from gradline.check import check, fix
from gradline.edits import Applicability, apply
from gradline.findings import Finding
from gradline.project import Project

HEAD = """\
import random
from collections import deque, namedtuple
import torch
import torch.nn.functional as F
from torch import nn

"""

# A model, and what trains it with an optimizer.
TRAINED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.fc = nn.Linear(8, 10)
    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))
model = Net()
x, y = torch.randn(8, 4), torch.randint(2, (8,))
def train(opt):
    for _ in range(2):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
"""
# A generator that gives one of `V` words, and a critic.
GAN = """
V = 6
class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, V)
    def forward(self, z):
        return self.out(z)
g, d = Gen(), nn.Linear(V, 1)
"""
# Data, a model, and its optimizer.
REGRESSION = """
torch.manual_seed(0)
x, y = torch.randn(8, 4), torch.randn(8, 2)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""

WRONG = {
    "values of parameters taken by .data": """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v = nn.Embedding(6, 3), nn.Embedding(5, 3)

    def forward(self, i, j):
        return (self.u(i) * self.v(j)).sum(-1)

    def penalty(self):
        return sum(p.data.pow(2).sum() for p in self.parameters())  # warning: [detached-term]


class Plain(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.data, self.bias)  # warning: [untrained-parameters]


model, plain = Factors(), Plain(1, 1)
opt = torch.optim.SGD([*model.parameters(), *plain.parameters()], lr=0.1)
for _ in range(2):
    guess = plain(model(torch.randint(6, (8,)), torch.randint(5, (8,)))[:, None])
    loss = guess.pow(2).mean() + 0.1 * model.penalty()
    loss = loss + 0.1 * model.u.weight.data.abs().sum()  # warning: [detached-term]
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "values that are written into an array": """
import numpy as np


def scatter(rows, index, n):
    out = np.zeros((n, rows.shape[1]), dtype=np.float32)
    count = np.zeros((n, 1), dtype=np.float32)
    np.add.at(out, index.numpy(), rows.detach().numpy())  # warning: [untrained-parameters]
    np.add.at(count, index.numpy(), 1.0)
    return torch.from_numpy(out / np.maximum(count, 1.0))


def copied(rows):
    out = np.zeros(tuple(rows.shape), dtype=np.float32)
    for i in range(len(rows)):
        out[i] = rows[i].detach().numpy()  # warning: [untrained-parameters]
    return torch.from_numpy(out)


def summed(rows):
    out = np.zeros(3, dtype=np.float32)
    same = out
    for row in rows:
        out += row.detach().numpy()  # warning: [untrained-parameters]
    return torch.from_numpy(same)


a, b, c, d = (nn.Linear(3, 3) for _ in range(4))
opt = torch.optim.SGD([*a.parameters(), *b.parameters(), *c.parameters(), *d.parameters()], lr=0.1)
index = torch.randint(4, (4,))
for x in torch.randn(3, 4, 3):
    loss = (d(x) + scatter(a(x), index, 4) + copied(b(x)) + summed(c(x))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a plain tensor in a module of a list": """
class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.log_scale = torch.zeros(size, requires_grad=True)  # warning: [plain-tensor-parameter]

    def forward(self, x):
        return x * self.log_scale.exp()


class Net(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [Scale(3), nn.Linear(3, 3)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(8, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a plain tensor in a module of a Sequential in a dict": """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(3, requires_grad=True)  # warning: [plain-tensor-parameter]

    def forward(self, x):
        return x * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"body": nn.Sequential(nn.Linear(3, 3), Scale())})

    def forward(self, x):
        return self.parts["body"](x)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(8, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "an index that is rounded first": """
class Splat(nn.Module):
    def __init__(self):
        super().__init__()
        self.place, self.color = nn.Parameter(torch.rand(5) * 7), nn.Parameter(torch.rand(5))

    def forward(self):
        index = self.place.round().clamp(0, 7).long()  # warning: [untrained-parameters]
        return torch.zeros(8).index_add(0, index, self.color)


class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.gain = nn.Parameter(torch.tensor(1.3)), nn.Parameter(torch.tensor(1.0))

    def forward(self, s):
        index = (torch.arange(8) + self.shift).floor()
        return s[index.to(torch.int64) % 8] * self.gain  # warning: [untrained-parameters]


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores, self.gain = nn.Parameter(torch.rand(8)), nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * torch.round(self.scores.sign()) * self.gain  # warning: [untrained-parameters]


splat, warp, steps = Splat(), Warp(), Steps()
opt = torch.optim.SGD([*splat.parameters(), *warp.parameters(), *steps.parameters()], lr=0.1)
for _ in range(2):
    loss = (steps(warp(torch.randn(8))) - splat()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "the weight of a layer of torch, in a forward of one's own": """
class Signs(nn.Linear):
    def forward(self, x):
        return F.linear(x, torch.sign(self.weight), self.bias)  # warning: [untrained-parameters]


class Kernel(nn.Conv1d):
    def __init__(self, *args):
        super().__init__(*args)
        self.scores = nn.Parameter(torch.rand_like(self.weight))
        self.weight.requires_grad_(False)

    def forward(self, x):
        mask = torch.where(self.scores > 0.5, 1.0, 0.0)  # warning: [untrained-parameters]
        return F.conv1d(x, self.weight * mask, self.bias)


class Table(nn.Embedding):
    def forward(self, x):
        return F.embedding(x, self.weight.round())  # warning: [untrained-parameters]


model = nn.Sequential(Table(5, 4), Kernel(4, 4, 1), Signs(4, 1))
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for _ in range(2):
    loss = model(torch.randint(5, (8, 4))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "fakes under no_grad for the critic, and a choice in the generator's own loss": GAN
    + """\
def hard(logits):
    return F.one_hot(logits.argmax(-1), V).float()  # warning: [untrained-parameters]
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    with torch.no_grad():
        fake = hard(g(torch.randn(8, 4)))
    ld = F.softplus(d(fake)).mean()
    od.zero_grad(); ld.backward(); od.step()
    lg = F.softplus(-d(hard(g(torch.randn(8, 4))))).mean()
    og.zero_grad(); lg.backward(); og.step()
""",
    "the same, the generator before the critic": GAN
    + """\
def hard(logits):
    return F.one_hot(logits.argmax(-1), V).float()  # warning: [untrained-parameters]
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    lg = F.softplus(-d(hard(g(torch.randn(8, 4))))).mean()
    og.zero_grad(); lg.backward(); og.step()
    with torch.no_grad():
        fake = g(torch.randn(8, 4)).softmax(-1)
    ld = F.softplus(d(fake)).mean()
    od.zero_grad(); ld.backward(); od.step()
""",
    "a fake that is detached for the critic, and a choice in the generator's own loss, with steps at the end": GAN
    + """\
def hard(logits):
    return F.one_hot(logits.argmax(-1), V).float()  # warning: [untrained-parameters]
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    fake = g(torch.randn(8, 4))
    ld = F.softplus(d(fake.softmax(-1).detach())).mean()
    lg = F.softplus(-d(hard(fake))).mean()
    og.zero_grad(); od.zero_grad()
    ld.backward()
    lg.backward()
    od.step(); og.step()
""",
    "fakes under no_grad for the critic, and a choice in the generator's loss, with one optimizer": GAN
    + """\
def hard(logits):
    return F.one_hot(logits.argmax(-1), V).float()  # warning: [untrained-parameters]
og = od = torch.optim.Adam([*g.parameters(), *d.parameters()])
for _ in range(3):
    with torch.no_grad():
        fake = g(torch.randn(8, 4)).softmax(-1)
    ld = F.softplus(d(fake)).mean()
    lg = F.softplus(-d(hard(g(torch.randn(8, 4))))).mean()
    og.zero_grad()
    ld.backward()
    lg.backward()
    og.step()
""",
    "a fake that is detached for the critic, and one under no_grad for the generator": GAN
    + """\
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    fake = g(torch.randn(8, 4)).softmax(-1)
    ld = F.softplus(d(fake.detach())).mean()
    od.zero_grad(); ld.backward(); od.step()
    with torch.no_grad():  # warning: [untrained-parameters]
        fake = g(torch.randn(8, 4)).softmax(-1)
    lg = F.softplus(-d(fake)).mean()
    og.zero_grad(); lg.backward(); og.step()
""",
    "gradients that a failed backward has not computed are clipped": """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(5, 8, 4):
    opt.zero_grad()
    loss = model(x).mean().detach()
    loss.backward()  # error: [detached-loss]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
""",
    "what the top level keeps of a run": """
def run():
    model = nn.Linear(4, 1)
    loss = model(torch.randn(8, 4)).mean().item()
    loss.backward()  # error: [number-backward]
    return model


model = run()
""",
    "a tensor that is made without requires_grad": """
w = torch.ones(2)
w.sum().backward()  # error: [detached-loss]
""",
    "one_hot of an argmax": """
gate, expert = nn.Linear(4, 2), nn.Linear(4, 2)
opt = torch.optim.SGD([*gate.parameters(), *expert.parameters()], lr=0.1)
for x in torch.randn(5, 8, 4):
    top = gate(x).argmax(-1)  # warning: [untrained-parameters]
    loss = (F.one_hot(top, 2).float() * expert(x)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "an action that is chosen, with an optimizer for the critic that is left idle": """
actor, critic = nn.Linear(4, 3), nn.Linear(4, 3)
opt = torch.optim.Adam(actor.parameters())
critic_opt = torch.optim.Adam(critic.parameters())
state = torch.randn(8, 4)
for _ in range(3):
    action = actor(state).argmax(-1)  # warning: [untrained-parameters]
    actor_loss = -critic(state).gather(1, action.unsqueeze(-1)).mean()
    opt.zero_grad()
    actor_loss.backward()
    opt.step()
""",
    "a generator of tensors that are no leaves": """
class Line:
    def __init__(self):
        self.w = torch.randn(3, 1, requires_grad=True) * 0.1  # because: makes it
        self.b = torch.zeros(1, requires_grad=True)

    def parameters(self):
        yield self.w
        yield self.b

line = Line()
opt = torch.optim.SGD(line.parameters(), lr=0.1)  # error: [non-leaf-in-optimizer]
for _ in range(3):
    loss = (torch.randn(8, 3) @ line.w + line.b).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a generator of a class's own that two optimizers get": """
class Pair:
    def __init__(self):
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 1)

    def parameters(self):
        for part in (self.a, self.b):
            yield from part.parameters()

    def __call__(self, x):
        return self.b(self.a(x))

pair = Pair()
params = pair.parameters()  # because: can be gone through once
opt = torch.optim.SGD(params, lr=0.1)  # because: used up
other = torch.optim.SGD(params, lr=0.1)  # error: [exhausted-parameters]
for _ in range(3):
    opt.zero_grad()
    pair(torch.randn(8, 4)).mean().backward()
    opt.step()
""",
    "an update by hand between two backwards": REGRESSION
    + """\
first, second = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
first.backward()
with torch.no_grad():
    for p in model.parameters():
        p -= 0.1 * p.grad  # error: [inplace-saved-tensor]
second.backward()  # because: needs the value as it was
""",
    "a new head behind a filtered list": TRAINED
    + """\
params = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.SGD(params, lr=0.1)
model.fc = nn.Linear(8, 2)  # warning: [stale-optimizer]
train(opt)
""",
    "a new head behind a filtered list of named parameters, in a group": TRAINED
    + """\
opt = torch.optim.SGD([{"params": [p for n, p in model.named_parameters() if p.requires_grad]}], lr=0.1)
model.fc = nn.Linear(8, 2)  # warning: [stale-optimizer]
train(opt)
""",
    "a new head behind a filtered generator": TRAINED
    + """\
opt = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
model.fc = nn.Linear(8, 2)  # warning: [stale-optimizer]
train(opt)
""",
    "batches split off an inference tensor": """
encoder, net = nn.Linear(4, 4), nn.Linear(4, 1)
with torch.inference_mode():  # error: [inference-tensor]
    codes = encoder(torch.randn(8, 4))
for part in codes.split(4):
    net(part).mean().backward()
""",
    "an attribute that an instance has not": """
class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2)

agent = Agent()
out = agent.act(1) if hasattr(agent, "act") else agent.net(torch.randn(8, 4))
out.detach().mean().backward()  # error: [detached-loss]
""",
    "batches drawn from a replay memory": """
Transition = namedtuple("Transition", ["s", "a"])
memory = deque(maxlen=100)
actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)

def act(s):
    return actor(s).detach()  # because: detaches

for _ in range(20):
    s = torch.randn(3)
    memory.append(Transition(s, act(s)))
    critic.requires_grad_(False)
    s, a = [torch.stack(column) for column in zip(*random.sample(memory, 2))]
    loss = -critic(torch.cat([s, act(s)], 1)).mean()  # because: act is called here
    loss.backward()  # error: [detached-loss]
""",
    "a temporal difference between a column and a row": """
net = nn.Linear(4, 2)
memory = [(torch.randn(4), random.randrange(2), random.random()) for _ in range(50)]
opt = torch.optim.Adam(net.parameters())
for step in range(9):
    s, a, r = zip(*random.sample(memory, 8))
    q = net(torch.stack(s)).gather(1, torch.tensor(a).unsqueeze(1))
    with torch.no_grad():
        y = torch.tensor(r) + 0.9 * net(torch.stack(s)).max(1).values
    loss = F.mse_loss(q, y)  # warning: [broadcast-loss]
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a backward that gives None": """
class Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return torch.where(x >= 0, 1.0, -1.0) * scale

    @staticmethod
    def backward(ctx, g):
        return None, g.sum()  # warning: [untrained-parameters]

first, last, scale = nn.Linear(4, 8), nn.Linear(8, 1), nn.Parameter(torch.ones(()))
opt = torch.optim.SGD([*first.parameters(), *last.parameters(), scale], lr=0.1)
for x in torch.randn(5, 8, 4):
    opt.zero_grad()
    last(Binarize.apply(first(x), scale)).mean().backward()
    opt.step()
""",
    "a network frozen as a whole": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.features(x))

net = Net()
for p in net.parameters():
    p.requires_grad = False  # because: off
opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
for x in torch.randn(5, 8, 4):
    loss = F.cross_entropy(net(x), torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()  # error: [detached-loss]
    opt.step()
""",
    "the last step of a recurrent net against a row": """
class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn, self.fc = nn.GRU(2, hidden, batch_first=True), nn.Linear(hidden, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1, :])

net = Net(random.randrange(4, 9))
opt = torch.optim.Adam(net.parameters())
for x, y in zip(torch.randn(5, 8, 6, 2), torch.randn(5, 8)):
    loss = F.mse_loss(net(x), y)  # warning: [broadcast-loss]
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a copy is trained and the original is held": """
class Client:
    def __init__(self, model, opt):
        import copy
        self.local, self.opt = copy.deepcopy(model), opt

    def update(self, batches):
        for x in batches:
            self.opt.zero_grad()
            loss = self.local(x).pow(2).mean()
            loss.backward()  # because: no optimizer holds
            self.opt.step()  # error: [missing-backward]
        return self.local.state_dict()

model = nn.Linear(4, 1)
state = Client(model, torch.optim.Adam(model.parameters())).update(torch.randn(5, 8, 4))
""",
    "an image that is optimized and requires no grad": """
net = nn.Linear(4, 2).requires_grad_(False)

def attack(x):
    delta = torch.zeros_like(x)  # because: does not require grad
    opt = torch.optim.Adam([delta])
    for _ in range(3):
        loss = -net(x + delta).mean()
        opt.zero_grad()
        loss.backward()  # error: [detached-loss]
        opt.step()
    return x + delta

adversarial = attack(torch.rand(2, 4))
""",
    "a buffer that asks for a gradient": """
class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8)
        self.register_buffer("protos", torch.randn(3, 8, requires_grad=True))  # warning: [plain-tensor-parameter]

    def forward(self, x):
        return -torch.cdist(self.enc(x), self.protos)

net = Prototypes()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 8, 4):
    loss = F.cross_entropy(net(x), torch.zeros(8, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "images pooled to a column against a row": """
class Age(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.fc = nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(self.pool(F.max_pool2d(self.conv(x), 2)).flatten(1))

net = Age()
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    batch = {"image": torch.rand(8, 1, 10, 10), "age": torch.rand(8)}
    loss = F.l1_loss(net(batch["image"]), batch["age"])  # warning: [broadcast-loss]
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "functional pooling on the way": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(64, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return self.fc(x.view(-1, 64).detach())  # because: detaches

net = Net()
net.fc.requires_grad_(False)
F.cross_entropy(net(torch.randn(8, 1, 10, 10)), torch.zeros(8, dtype=torch.long)).backward()  # error: [detached-loss]
""",
    "a divergence of distributions": """
from torch.distributions import Normal, kl_divergence

enc = nn.Linear(4, 2)
for x in torch.randn(3, 8, 4):
    mu, std = enc(x)[:, :1], enc(x)[:, 1:].exp()
    kl = kl_divergence(Normal(mu, std), Normal(torch.zeros_like(mu), torch.ones_like(std)))
    kl.mean().item().backward()  # error: [number-backward]
""",
    "sequences that are padded": """
enc = nn.Linear(4, 2)
for _ in range(3):
    rows = nn.utils.rnn.pad_sequence([enc(torch.randn(n, 4)) for n in (3, 5)], batch_first=True)
    loss = torch.tensor(rows.mean())  # because: copies
    loss.backward()  # error: [detached-loss]
""",
    "sequences that are packed": """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

emb, rnn, fc = nn.Embedding(9, 4), nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)
opt = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *fc.parameters()])
for ids in torch.randint(0, 9, (4, 2, 5)):
    packed = pack_padded_sequence(emb(ids), [5, 3], batch_first=True)
    out, _ = rnn(packed)
    out, lengths = pad_packed_sequence(out, batch_first=True)
    loss = fc(out.detach()).pow(2).mean()  # warning: [untrained-parameters]
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "arrays remembered for as long as an episode lasts": """
import numpy as np

class Agent:
    def __init__(self):
        self.net, self.memory = nn.Linear(4, 2), []

    def remember(self, s):
        self.memory.append(self.net(s).logsumexp(0).detach().numpy())  # because: detaches

    def loss(self):
        return torch.from_numpy(np.array([m for m in self.memory])).sum()

agent = Agent()
for episode in range(3):
    t = 0
    while t < random.randrange(2, 9):
        agent.remember(torch.randn(4))
        t += 1
    loss = agent.loss()
    loss.backward()  # error: [detached-loss]
    agent.memory.clear()
""",
    "one group twice": """
a, b = nn.Linear(4, 1), nn.Linear(4, 1)
groups = [
    {"params": a.parameters()},
    {"params": a.parameters()},  # because: again
]
opt = torch.optim.SGD(groups, lr=0.1)  # error: [duplicate-parameters]
opt.zero_grad()
""",
    "a history of losses": """
class History:
    def __init__(self):
        self.losses = []

    def add(self, value):
        self.losses.append(value)  # warning: [graph-kept-alive]

net, history = nn.Linear(4, 1), History()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(5, 8, 4):
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.add(loss)  # because: is called here
""",
    "grad mode that an exit stack holds": """
from contextlib import ExitStack
model, teacher = nn.Linear(4, 2), nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())  # because: no_grad
        loss = F.mse_loss(model(x), teacher(x))
    opt.zero_grad()
    loss.backward()  # error: [detached-loss]
    opt.step()
""",
    "an exit stack that nobody closes": """
from contextlib import ExitStack
model = nn.Linear(4, 1)
stack = ExitStack()
stack.enter_context(torch.no_grad())  # error: [grad-mode-left-off]
print(model(torch.randn(1, 4)))
loss = model(torch.randn(8, 4)).mean()
loss.backward()  # error: [backward-under-grad-off]
""",
    "a task that leaves its pool's only thread without gradients": """
from concurrent.futures import ThreadPoolExecutor
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)

def evaluate(x):
    torch.set_grad_enabled(False)  # error: [grad-mode-left-off]
    return model(x).mean().item()

def train(x):
    opt.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()  # error: [backward-under-grad-off]
    opt.step()

with ThreadPoolExecutor(max_workers=1) as pool:
    print(pool.submit(evaluate, torch.randn(4, 4)).result())
    pool.submit(train, torch.randn(4, 4)).result()
""",
    "a hook before the forward that cuts": """
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
net[2].register_forward_pre_hook(lambda module, inputs: (inputs[0].detach(),))  # warning: [untrained-parameters]
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
""",
    "tensors in a list that a Function gets": """
class Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, parts):
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        return None

body, head = nn.Linear(3, 3), nn.Linear(3, 1)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(2, 4, 3):
    joined = Join.apply([body(x), body(-x)])  # warning: [untrained-parameters]
    loss = head(joined).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a hook of every parameter that returns a number": """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
norms = {}

def watch(name):
    def hook(grad):
        norms[name] = grad.norm().item()  # because:
        return norms[name]
    return hook

for name, p in net.named_parameters():
    p.register_hook(watch(name))  # error: [hook-result]
net(torch.randn(2, 4)).mean().backward()
""",
    "a moving average of losses": """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
running = torch.zeros(())
for x in torch.randn(9, 8, 4):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = 0.9 * running + 0.1 * loss  # warning: [graph-kept-alive]
print(running)
""",
    "what a memory keeps of each turn": """
memory = []
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.randn(1, 4)
for t in range(9):
    after = net(state)
    memory.append((after, t))  # warning: [graph-kept-alive]
    loss = (after - torch.randn(1, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    state = after.detach()
""",
    "a total that goes backward": """
net = nn.Linear(3, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0
for _ in range(4):
    total = total + net(torch.randn(6, 3)).pow(2).mean()
    opt.zero_grad()
    total.backward()  # error: [backward-twice]
    opt.step()
""",
    "a frozen body, thawed later without telling the optimizer": """
body, head = nn.Linear(4, 4), nn.Linear(4, 2)
for p in body.parameters():
    p.requires_grad = False
opt = torch.optim.SGD([p for p in [*body.parameters(), *head.parameters()] if p.requires_grad], lr=0.1)
for epoch in range(4):
    if epoch == 2:
        for p in body.parameters():
            p.requires_grad = True  # warning: [stale-optimizer]
    loss = F.cross_entropy(head(body(torch.randn(2, 4))), torch.tensor([0, 1]))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a weight of another layer that no optimizer holds": """
embed, out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
opt = torch.optim.SGD(out.parameters(), lr=0.1)
out.weight = nn.Parameter(torch.randn(7, 4))  # warning: [stale-optimizer]
for _ in range(3):
    t = torch.randint(0, 7, (5,))
    loss = F.cross_entropy(out(embed(t)), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a model whose sizes are not known, in a function that nobody calls": """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc(x)

def train(config, loader):
    model = Net(config.width)
    opt = torch.optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            opt.step()  # warning: [missing-zero-grad]
""",
    "a leaf that was converted and scaled": """
w = torch.randn(3, requires_grad=True).double().float() * 0.1
opt = torch.optim.SGD([w], lr=0.1)  # error: [non-leaf-in-optimizer]
""",
    "the loss of an adaptive softmax": """
net, head = nn.Linear(3, 4), nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5])
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    head(net(torch.randn(6, 3)), torch.randint(0, 10, (6,))).loss.backward()
    opt.step()  # warning: [missing-zero-grad]
""",
    "an evaluation whose phase is misspelt in an enumeration": """
import enum

class Phase(enum.Enum):
    TRAIN = 0,
    VAL = 1,

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    with torch.set_grad_enabled(Phase.VAL == Phase.TRAIN):  # because: off
        loss = model(torch.randn(8, 4)).mean()
    opt.zero_grad()
    loss.backward()  # error: [detached-loss]
    opt.step()
""",
    "activations in place whose backward needs what they wrote": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.ELU(inplace=True)

    def forward(self, x):
        out = self.act(self.fc(x))
        out += x  # error: [inplace-saved-tensor]
        return out

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        h = F.leaky_relu(self.fc(x), 0.2, inplace=True)
        h.mul_(2)  # error: [inplace-saved-tensor]
        return h

for net in (Block(), Net()):
    net(torch.randn(8, 4)).mean().backward()
""",
    "layers before the old way to initialize a module": """
class Net(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(4, 1)  # error: [missing-super-init]
        super(Net, self).__init__()
""",
    "a model out of a registry": """
MODELS = {}

def register(name):
    def enter(cls):
        MODELS[name] = cls
        return cls

    return enter

@register("small")
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(x).detach()  # because: detaches

model = MODELS["small"]()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(8, 4)).mean()
loss.backward()  # error: [detached-loss]
""",
    "returns that are written one by one, and a column of values": """
critic = nn.Linear(4, 1)
opt = torch.optim.SGD(critic.parameters(), lr=0.1)
states, rewards = torch.randn(16, 4), torch.rand(16)
with torch.no_grad():
    values = critic(states).squeeze(-1)
advantages, last = torch.zeros(len(rewards)), 0.0
for t in reversed(range(16)):
    advantages[t] = last = rewards[t] - values[t] + 0.9 * last
loss = F.mse_loss(critic(states), advantages + values)  # warning: [broadcast-loss]
opt.zero_grad()
loss.backward()
opt.step()
""",
    "what Lightning gets to go backward from": """
import lightning as L
import pytorch_lightning as pl

class Detached(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        if batch_idx > 1000:
            return None
        loss = self.net(batch).pow(2).mean()
        self.log("loss", loss)
        return loss.detach()  # error: [detached-loss]

class ANumber(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch).pow(2).mean()
        return {"loss": loss.item(), "size": len(batch)}  # error: [number-backward]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
""",
    "a loss of the frozen average in place of the model's": """
import copy

model = nn.Linear(4, 4)
average = copy.deepcopy(model).eval().requires_grad_(False)  # because: gradients off
opt = torch.optim.Adam(model.parameters())
for x in torch.randn(5, 8, 4):
    loss = (average(x) - x).pow(2).mean()  # because: frozen model
    opt.zero_grad()
    loss.backward()  # error: [detached-loss]
    opt.step()
""",
    "the optimizer of a frozen teacher": """
import copy

student = nn.Linear(4, 3)
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
opt = torch.optim.AdamW(teacher.parameters(), lr=1e-3)  # because: made here
for x in torch.randn(5, 8, 4):
    with torch.no_grad():
        soft = teacher(x).softmax(-1)
    loss = F.kl_div(student(x).log_softmax(-1), soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()  # error: [missing-backward]
""",
    "the optimizer of an average": """
from torch.optim.swa_utils import SWALR, AveragedModel

model = nn.Linear(4, 3)
swa_model = AveragedModel(model)
opt = torch.optim.SGD(swa_model.parameters(), lr=0.1)  # because: made here
schedule = SWALR(opt, swa_lr=0.05)
for x in torch.randn(5, 8, 4):
    opt.zero_grad()
    model(x).pow(2).mean().backward()
    opt.step()  # error: [missing-backward]
    swa_model.update_parameters(model)
    schedule.step()
""",
    "losses that a loop puts into a list": """
policy = nn.Linear(4, 2)
opt = torch.optim.Adam(policy.parameters())
for episode in range(5):
    losses = []
    for state in torch.randn(6, 4):
        dist = torch.distributions.Categorical(logits=policy(state))
        losses.append(-dist.log_prob(dist.sample()))
    torch.stack(losses).sum().backward()
    opt.step()  # warning: [missing-zero-grad]
""",
    "a state that a loop in a loop carries": """
cell = nn.LSTMCell(4, 8)
opt = torch.optim.Adam(cell.parameters())
h, c = torch.zeros(3, 8), torch.zeros(3, 8)
for update in range(5):
    outputs = []
    for x in torch.randn(6, 3, 4):
        h, c = cell(x, (h, c))
        outputs.append(h.mean())
    loss = sum(outputs)
    opt.zero_grad()
    loss.backward()  # error: [backward-twice]
    opt.step()
""",
    "gradients that are asked for where the program has ended": """
net = nn.Linear(4, 2)
opt = torch.optim.RMSprop(net.parameters())
for x in torch.randn(5, 8, 4):
    best = net(x).max(1)[1].float()  # because:
    loss = best.mean()
    opt.zero_grad()
    loss.backward()  # error: [detached-loss]
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)
    opt.step()
""",
    "a term that was cut twice, and went on after the first time": """
encoder, generator, critic = nn.Linear(4, 2), nn.Linear(2, 4), nn.Linear(4, 3)
opt = torch.optim.Adam([*encoder.parameters(), *generator.parameters(), *critic.parameters()])
for x in torch.randn(5, 8, 4):
    codes = encoder(x)
    fake = generator(codes.detach())
    matching = F.mse_loss(critic(fake).detach(), critic(x).detach())  # warning: [detached-term]
    loss = F.mse_loss(fake, x) + codes.pow(2).mean() + critic(x).mean()
    total = loss + matching  # because: added
    opt.zero_grad()
    total.backward()  # because: passes it by
    opt.step()
""",
    "everything is frozen, as no name begins so": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        return self.classifier(self.encoder(x))


def freeze_except(model, prefix="head"):
    for name, p in model.named_parameters():
        p.requires_grad = name.startswith(prefix)


net = Net()
freeze_except(net)
loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,)))
loss.backward()  # error: [detached-loss]
""",
    "everything is frozen, as no name has any of these words": """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
for name, p in net.named_parameters():
    p.requires_grad_(any(word in name for word in ("head", "fc")))
net(torch.randn(8, 4)).sum().backward()  # error: [detached-loss]
""",
    "a learned loss that the inner gradients are a constant to": """
learned, model = nn.Linear(1, 1), nn.Linear(2, 1)
opt = torch.optim.Adam(learned.parameters())
for _ in range(3):
    x = torch.randn(4, 2)
    inner = learned(model(x)).pow(2).mean()
    (g,) = torch.autograd.grad(inner, [model.weight])
    loss = F.linear(x, model.weight - 0.1 * g).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # error: [missing-backward]
""",
    "a vector that the parameters only got the values of": """
net = nn.Linear(3, 1)
flat = nn.utils.parameters_to_vector(net.parameters()).detach().requires_grad_(True)
opt = torch.optim.SGD([flat], lr=0.1)
for _ in range(3):
    nn.utils.vector_to_parameters(flat, net.parameters())
    loss = net(torch.randn(8, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # error: [missing-backward]
""",
    "an optimizer that was copied and not changed, for a loss of its own": """
a, b = nn.Linear(3, 1), nn.Linear(3, 1)
opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
opt_b = torch.optim.SGD(a.parameters(), lr=0.1)  # warning: [twice-optimized]
for _ in range(3):
    x = torch.randn(4, 3)
    for critic, opt in ((a, opt_a), (b, opt_b)):
        loss = critic(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "copies of the weights that an inner step trains, and the optimizer of the weights gets nothing": """
net = nn.Linear(1, 1)
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    fast = {n: p.detach().clone().requires_grad_(True) for n, p in net.named_parameters()}  # warning: [untrained-parameters]
    for _ in range(2):
        inner = torch.func.functional_call(net, fast, (torch.randn(4, 1),)).pow(2).mean()
        grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
        fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), grads)}
    loss = torch.func.functional_call(net, fast, (torch.randn(4, 1),)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a learned loss that an adapted model does not reach": """
learned, net = nn.Linear(1, 1), nn.Linear(2, 1)
opt = torch.optim.Adam(learned.parameters())
for _ in range(3):
    x, params = torch.randn(4, 2), dict(net.named_parameters())
    grads = torch.autograd.grad(learned(net(x)).pow(2).mean(), list(params.values()))
    adapted = {n: p - 0.1 * g for (n, p), g in zip(params.items(), grads)}
    loss = torch.func.functional_call(net, adapted, (x,)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # error: [missing-backward]
""",
    "copies of the weights that a loop puts into a dict": """
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    fast = {}
    for n, p in net.named_parameters():
        fast[n] = p.detach().clone().requires_grad_(True)  # error: [hidden-error]
    loss = torch.func.functional_call(net, fast, (torch.randn(4, 3),)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
}

RIGHT = {
    "values of parameters for scales, anchors, averages and reports": """
import copy

class Quant(nn.Linear):

    def forward(self, x):
        scale = self.weight.data.abs().max()
        w = self.weight + (torch.round(self.weight.data / scale * 7) / 7 * scale - self.weight.data)
        return F.linear(x, w, self.bias)

class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Parameter(torch.randn(5, 3))
        self.book.data.uniform_(-1, 1)
        self.register_buffer("seen", torch.zeros_like(self.book.data))

    def forward(self, x):
        q = self.book[torch.cdist(x, self.book.data).argmin(1)]
        return x + (q - x).detach(), (q - x.detach()).pow(2).mean()

net, vq, head = Quant(3, 3), VQ(), nn.Linear(3, 1)
model = nn.ModuleList([net, vq, head])
target = copy.deepcopy(head)
log_alpha = nn.Parameter(torch.zeros(1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
alpha_opt = torch.optim.SGD([log_alpha], lr=0.1)
anchor = {n: p.data.clone() for n, p in model.named_parameters()}
for step in range(3):
    x = torch.randn(8, 3)
    z, commit = vq(net(x))
    prox = sum((p - anchor[n]).pow(2).sum() for n, p in model.named_parameters())
    prox = prox + sum((p - g.data).pow(2).sum() for p, g in zip(head.parameters(), target.parameters()))
    loss = (head(z) - target(z).detach()).pow(2).mean() + commit + 0.1 * prox - log_alpha.data.exp().sum() * z.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    alpha_loss = (log_alpha * (z.mean().detach() + 1)).mean()
    alpha_opt.zero_grad()
    alpha_loss.backward()
    alpha_opt.step()
    for p in model.parameters():
        p.data.clamp_(-1, 1)
    for p, t in zip(head.parameters(), target.parameters()):
        t.data.mul_(0.9).add_(p.data, alpha=0.1)
        t.data = t.data * 0.9 + 0.1 * p.data
    norm = sum(p.data.norm() ** 2 for p in model.parameters()) ** 0.5
    report = loss.item() + norm.item(), norm + loss.data
fast = [p.data.clone().requires_grad_() for p in head.parameters()]
inner = F.linear(torch.randn(4, 3), fast[0], fast[1]).pow(2).mean()
inner.backward()
for p, f in zip(head.parameters(), fast):
    p.data -= 0.1 * f.grad
""",
    "arrays of numbers that weigh what is learned": """
import numpy as np

model = nn.Linear(3, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
history, weights = np.zeros((3, 2)), np.ones(2, dtype=np.float32)
for turn, x in enumerate(torch.randn(3, 8, 3)):
    losses = model(x).pow(2).mean(0)
    for i in range(2):
        history[turn, i] = losses[i].item()
        weights[i] = history[turn, i]
    same = torch.from_numpy(np.zeros_like(losses.detach().numpy()))
    loss = (losses * torch.from_numpy(weights)).sum() + same.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "weights of layers of torch, used in a forward of one's own": """
class Centered(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            self.scale = self.weight.abs().mean()
        binary = (self.weight.sign() - self.weight).detach() + self.weight
        return F.linear(x, binary * self.scale, self.bias)


class Masked(nn.Conv1d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("mask", torch.ones_like(self.weight))

    def forward(self, x):
        self.weight.data *= self.mask
        return super().forward(x)


class Adapted(nn.Linear):
    def __init__(self, features, bias):
        super().__init__(features, features, bias)
        self.weight.requires_grad = False
        self.down = nn.Parameter(torch.zeros(features, 2))

    def forward(self, x):
        return super().forward(x) + x @ self.down @ self.down.T


class Normed(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


model = nn.Sequential(
    Masked(4, 4, 1, bias=False), Centered(4, 4), Adapted(4, True), Adapted(4, False), nn.utils.weight_norm(Normed(4, 4)),
)
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for _ in range(2):
    loss = model(torch.randn(8, 4, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
assert model[0].bias is None and model[3].bias is None and model[2].bias.grad is not None
""",
    "gradients that are scaled where there are any": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x):
        return self.a(x), self.b(x)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    one, two = model(torch.randn(8, 4))
    one.mean().backward()
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= 0.5
    for p in model.parameters():
        if p.grad is None:
            continue
        p.grad /= 2
    for p in [q for q in model.parameters() if q.grad is not None]:
        p.grad *= 0.5
    for p in model.a.parameters():
        p.grad *= 0.5
    for p in model.parameters():
        try:
            p.grad *= 0.5
        except TypeError:
            pass
    for p in model.parameters():
        g = p.grad
        if g is None:
            p.grad = torch.zeros_like(p)
        p.grad += 0.1 * p.data
    opt.step()
    opt.zero_grad(set_to_none=False)
    for p in model.parameters():
        p.grad *= 1.0
m2 = Net()
for p in m2.parameters():
    p.grad = torch.zeros_like(p)
m2(torch.randn(8, 4))[0].mean().backward()
for p in m2.parameters():
    p.grad *= 2
m3 = Net()
m3.b.requires_grad_(False)
m3(torch.randn(8, 4))[0].mean().backward()
for p in filter(lambda p: p.requires_grad, m3.parameters()):
    p.grad *= 2
for p in m3.parameters():
    if p.requires_grad:
        p.grad *= 2
w = torch.zeros(3, requires_grad=True)
total = 0
for i in range(3):
    (w * 2).sum().backward()
    w.grad *= 0.9
    w.grad -= 0.1
m4 = Net()
import copy
m5 = copy.deepcopy(m4)
sum(o.mean() for o in m4(torch.randn(8, 4))).backward()
for p, q in zip(m4.parameters(), m5.parameters()):
    q.grad = p.grad.clone()
    q.grad *= 2
    p.grad *= 2
""",
    "a new head that is added behind a filtered list": TRAINED
    + """\
opt = torch.optim.SGD([p for p in model.body.parameters() if p.requires_grad], lr=0.1)
model.fc = nn.Linear(8, 2)
opt.add_param_group({"params": model.fc.parameters()})
train(opt)
""",
    "a new head before a filtered list": TRAINED
    + """\
model.fc = nn.Linear(8, 2)
for p in model.body.parameters(): p.requires_grad_(False)
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
train(opt)
""",
    "a new head with a filtered list of its own": TRAINED
    + """\
model.fc.requires_grad_(False)
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
model.fc = nn.Linear(8, 2)
head = torch.optim.SGD([p for p in model.fc.parameters() if p.requires_grad], lr=0.1)
for _ in range(2):
    opt.zero_grad(); head.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step(); head.step()
""",
    "another filtered list for a new head": TRAINED
    + """\
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
train(opt)
old = model.fc
model.fc = nn.Linear(8, 2)
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
train(opt)
""",
    "a new head that is frozen behind a filtered list": TRAINED
    + """\
opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
probe = nn.Linear(8, 2)
probe.requires_grad_(False)
model.fc = probe
train(opt)
""",
    "a new head that lists by name have left out": TRAINED
    + """\
model.fc.requires_grad_(False)
opt = torch.optim.SGD([p for n, p in model.named_parameters() if "fc" not in n], lr=0.1)
model.fc = nn.Linear(8, 2)
train(opt)
""",
    "updates by hand of some parameters, or of none": REGRESSION
    + """\
a, b = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
a.backward()
with torch.no_grad():
    for name, p in model.named_parameters():
        if "bias" in name:
            p -= 0.1 * p.grad
b.backward()
a, b = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
a.backward()
with torch.no_grad():
    for p in model.parameters():
        if p.dim() > 5:
            p -= 0.1 * p.grad
    for p in list(model.parameters())[1:2]:
        p -= 0.1 * p.grad
    for p in [model[0].bias, model[2].bias]:
        p -= 0.1 * p.grad
    model[0].bias.zero_()
    for m in model:
        if hasattr(m, "bias"):
            m.bias.add_(1)
b.backward()
""",
    "averages and clamps by hand": REGRESSION
    + """\
import copy
target = copy.deepcopy(model)
for _ in range(2):
    q = model(x)
    with torch.no_grad():
        for p, t in zip(model.parameters(), target.parameters()):
            t.mul_(0.9).add_(0.1 * p)
    tq = target(x)
    loss = F.mse_loss(q, tq.detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p in model.parameters():
            p.clamp_(-1, 1)
            p.copy_(p * 0.99)
for p in target.parameters(): p.requires_grad_(False)
for _ in range(2):
    q = model(x)
    loss = F.mse_loss(q, target(x))
    with torch.no_grad():
        for p, t in zip(model.parameters(), target.parameters()):
            t.lerp_(p, 0.1)
    loss.backward()
""",
    "updates by hand whose old values nobody needs": REGRESSION
    + """\
fc = nn.Linear(4, 2)
loss = fc(x).pow(2).mean()
with torch.no_grad():
    for p in fc.parameters():
        p.mul_(0.9)
loss.backward()
z = x.clone().requires_grad_()
loss = fc(z.detach()).pow(2).mean()
with torch.no_grad():
    for p in fc.parameters():
        p.mul_(0.9)
loss.backward()
w1, w2 = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))
loss = (x @ w1 + w2).pow(2).mean()
with torch.no_grad():
    for p in [w1, w2]:
        p.mul_(0.9)
loss.backward()
model[0].requires_grad_(False)
loss = model(x).pow(2).mean()
with torch.no_grad():
    for p in model[0].parameters():
        p.mul_(0.9)
loss.backward()
""",
    "updates by hand between forwards": REGRESSION
    + """\
eps = 0.01
for _ in range(2):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(eps * p.grad)
    F.mse_loss(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(eps * p.grad)
    opt.step(); opt.zero_grad()
def parameters(model):
    for p in model.parameters():
        yield p
for _ in range(2):
    a, b = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
    a.backward(retain_graph=True)
    b.backward()
    with torch.no_grad():
        for p in parameters(model):
            p.sub_(0.1 * p.grad)
            p.grad = None
""",
    "a step or a write that may not be": REGRESSION
    + """\
for i in range(3):
    a, b = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
    a.backward(retain_graph=True)
    if random.random() > 2:
        opt.step()
    b.backward()
    opt.step()
    opt.zero_grad()
h = model[0](x).exp()
if x.sum() > 100:
    h.mul_(2)
h.sum().backward()
""",
    "generators of parameters": """
class Pair:
    def __init__(self):
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 1)
        self.scale = torch.ones(1, requires_grad=True)

    def parameters(self):
        \"\"\"All of them.\"\"\"
        for part in (self.a, self.b):
            yield from part.parameters()
        yield self.scale

pair = Pair()
every = list(pair.parameters())
given = [pair.parameters(), list(pair.parameters()), iter(every), [*pair.parameters()], every, every]
given += [[*(p for p in pair.a.parameters())], [*pair.a.parameters(), *pair.parameters()][2:]]
given += [[{"params": pair.parameters()}], (p for p in pair.parameters() if p.requires_grad)]
opts = [torch.optim.SGD(params, lr=0.1) for params in given]
one, two = torch.optim.SGD([*(p for p in pair.a.parameters())], lr=0.1), torch.optim.SGD(pair.parameters(), lr=0.1)
for _ in range(2):
    (pair.b(pair.a(torch.randn(8, 4))) * pair.scale).mean().backward()
    for opt in (*opts, one, two):
        opt.step()
    two.zero_grad()

def losses():
    yield pair.a(torch.randn(8, 4)).mean()
    yield pair.a(torch.randn(8, 4)).mean()

waiting = losses()
for _ in range(2):
    for loss in waiting:  # the second time there is none
        loss.backward()
waiting = losses()
next(waiting).backward()
for loss in waiting:
    loss.backward()
""",
    "a copy of an inference tensor": """
encoder, net = nn.Linear(4, 4), nn.Linear(4, 1)
with torch.inference_mode():
    codes = encoder(torch.randn(8, 4))
for part in codes.clone().split(4):
    net(part).mean().backward()
""",
    "a temporal difference between two rows": """
net = nn.Linear(4, 2)
Transition = namedtuple("Transition", "s a r")
memory = [Transition(torch.randn(4), random.randrange(2), random.random()) for _ in range(50)]
opt = torch.optim.Adam(net.parameters())
for step in range(9):
    random.shuffle(memory)
    batch = Transition(*zip(*random.choices(memory, k=8)))
    q = net(torch.stack(batch.s)).gather(1, torch.tensor(batch.a)[:, None]).squeeze(1)
    with torch.no_grad():
        y = torch.tensor(batch.r) + 0.9 * net(torch.stack(batch[0])).max(dim=1)[0]
    loss = F.mse_loss(q, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a backward that goes backward itself": """
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        with torch.enable_grad():
            y = x @ weight
        torch.autograd.backward(y, g)
        return g @ weight.t(), None

weight, last = nn.Parameter(torch.randn(4, 8)), nn.Linear(8, 1)
opt = torch.optim.SGD([weight, *last.parameters()], lr=0.1)
for x in torch.randn(5, 8, 4):
    opt.zero_grad()
    last(Recompute.apply(x, weight)).mean().backward()
    opt.step()
""",
    "the last state of a recurrent net against a column": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.LSTM(2, 8, 2, bidirectional=True), nn.Linear(8, 1)

    def forward(self, x):
        out, (h, c) = self.rnn(x)
        return self.fc(h[-1])

net = Net()
opt = torch.optim.Adam(net.parameters())
for x, y in zip(torch.randn(5, 6, 8, 2), torch.randn(5, 8, 1)):
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "images averaged over both sides": """
conv, fc = nn.Conv2d(1, 4, 3), nn.Linear(4, 1)
opt = torch.optim.Adam([*conv.parameters(), *fc.parameters()])
for x, y in zip(torch.rand(3, 8, 1, 10, 10), torch.rand(3, 8)):
    loss = F.l1_loss(fc(conv(x).mean((2, 3)))[:, 0], y) + F.l1_loss(fc(conv(x).mean(dim=[-1, -2])).squeeze(-1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "a step that is looked up by its name": """
class Trainer:
    def __init__(self, net):
        self.net, self.opt = net, torch.optim.SGD(net.parameters(), lr=0.1)

    def do_backward(self, loss):
        loss.backward()

    def do_update(self, loss):
        self.opt.step()

    def run(self, loss, plan):
        self.opt.zero_grad()
        for word in plan.split():
            getattr(self, f"do_{word}")(loss)

trainer = Trainer(nn.Linear(3, 1))
for x in torch.randn(4, 8, 3):
    trainer.run(trainer.net(x).pow(2).mean(), "backward update")
""",
    "an optimizer whose turn does not come": """
class Model:
    def __init__(self, gan):
        self.g, self.d, self.gan = nn.Linear(4, 4), nn.Linear(4, 1), gan
        self.og, self.od = torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())

    def optimize(self, x):
        y = self.g(x)
        self.og.zero_grad()
        ((y - x).abs().mean() - (self.d(y).mean() if self.gan else 0)).backward()
        self.og.step()
        if self.gan:
            self.od.zero_grad()
            (self.d(y.detach()).mean() - self.d(x).mean()).backward()
            self.od.step()

model = Model(gan=False)
for x in torch.randn(4, 8, 4):
    model.optimize(x)
""",
    "sequences that are packed, and their rows": """
from torch.nn.utils.rnn import pack_padded_sequence

emb, rnn, fc = nn.Embedding(9, 4), nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 9)
opt = torch.optim.Adam([*emb.parameters(), *rnn.parameters(), *fc.parameters()])
for ids in torch.randint(0, 9, (4, 2, 6)):
    out, (h, c) = rnn(pack_padded_sequence(emb(ids[:, :-1]), [5, 3], batch_first=True))
    targets = pack_padded_sequence(ids[:, 1:], [5, 3], batch_first=True).data
    loss = F.cross_entropy(fc(out.data), targets) + h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "an attribute set from outside": """
class Agent:
    pass

def prepare(agent):
    setattr(agent, random.choice(["act", "go"]), lambda x: x.sum())

agent, w = Agent(), torch.randn(4, requires_grad=True)
prepare(agent)
loss = agent.act(w) if hasattr(agent, "act") else w.detach().sum()
loss.backward()
""",
    "what Lightning does not go backward from": """
import lightning as L

class Manual(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch).pow(2).mean()
        self.manual_backward(loss)
        self.optimizers().step()
        return loss.detach()

class Own(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch).pow(2).mean()
        self.kept = loss
        return {"loss": loss.detach()}

    def training_step_end(self, outputs):
        return self.kept

class Right(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.net(batch).pow(2).mean()
        return {"loss": loss, "shown": loss.item(), "kept": loss.detach()}

    def validation_step(self, batch, batch_idx):
        return self.net(batch).mean().item()
""",
    "an average of the model": """
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

class Average(AveragedModel):
    def __init__(self, model):
        super().__init__(model, use_buffers=True)

model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
swa_model, other = AveragedModel(model), Average(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = SWALR(opt, swa_lr=0.05)
for x in torch.randn(5, 8, 4):
    opt.zero_grad()
    target = swa_model.module(x).detach() + other(x).detach()
    F.mse_loss(model(x), target).backward()
    opt.step()
    swa_model.update_parameters(model)
    other.update_parameters(model)
    schedule.step()
update_bn(torch.randn(3, 8, 4), swa_model)
""",
    "losses that a loop may put into a list": """
a, b, c = nn.Linear(4, 1), nn.Linear(4, 1), nn.Linear(4, 1)
opt = torch.optim.SGD(a.parameters(), 0.1)
others = torch.optim.SGD([*b.parameters(), *c.parameters()], 0.1)
for step in range(5):
    losses = []
    for x in torch.randn(6, 3, 4):
        losses.append(a(x).sum())
        if random.random() > 0.9:
            losses.append(b(x).sum())
        if random.random() > 0.1:
            continue
        losses.append(c(x).sum())
    sum(losses).backward()
    opt.step()
    opt.zero_grad()
    others.step()
    kept = [a(x).sum() for x in torch.randn(6, 3, 4)]
    kept.append(b(torch.randn(3, 4)).sum())
    kept.pop()
    torch.stack(kept).sum().backward()
    opt.step()
    opt.zero_grad()
    others.zero_grad()
""",
}


def failing(program: str) -> tuple[Project, list[Finding]]:
    """What a check of the program fails for."""
    memory = MemoryFiles({"main.py": program})
    project = Project(memory)
    found = check(project, memory.paths()).findings
    return project, [f for of_file in found.values() for f in of_file if f.severity.fails]


def said(program: str, trails: bool = False) -> list[tuple[int, str, str]]:
    """The line, the severity and the rule of each finding, and of each step the line, "because" and its words."""
    _, found = failing(program)
    steps = [(step.place, "because", step.note) for f in found for step in f.trail] if trails else []
    return sorted(
        (program.count("\n", 0, place.start) + 1, kind, words)
        for place, kind, words in [*((f.place, f.severity.value, f.name) for f in found), *steps]
    )


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    marked = parse(HEAD + WRONG[name])
    assert said(marked.text) == sorted((m.line, m.kind, m.rule) for m in marked.marks if m.kind != "because")
    steps = said(marked.text, trails=True)
    for mark in marked.marks:
        if mark.kind == "because":
            assert any(line == mark.line and mark.words in words for line, _, words in steps), mark


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not(name: str) -> None:
    assert said(HEAD + RIGHT[name]) == []


LAYER = "nn.Linear(3, 3)"
PAIRS = f"[('a', {LAYER}), ('b', {LAYER})]"
# Containers whose members are reached by a name, as an attribute or as an item.
NAMED = {
    f"nn.ModuleDict({{'a': {LAYER}, 'b': {LAYER}}})": "self.d.a",
    f"nn.ModuleDict(dict(a={LAYER}, b={LAYER}))": "getattr(self.d, 'a')",
    f"nn.ModuleDict(modules=dict(a=nn.ModuleList([{LAYER}]), b={LAYER}))": "self.d.a[0]",
    f"nn.ModuleDict({PAIRS})": "self.d['a']",
    f"nn.ModuleDict(OrderedDict({PAIRS}))": "self.d.a",
    f"nn.ModuleDict({{k: {LAYER} for k in ('a', 'b')}})": "self.d.a",
    f"nn.ModuleDict(); self.d.update(dict(a={LAYER}, b={LAYER}))": "self.d.a",
    f"nn.ModuleDict(); self.d.a = {LAYER}; self.d['b'] = {LAYER}": "self.d['a']",
    f"nn.ModuleDict(); self.d.add_module('a', {LAYER}); self.d.add_module('b', {LAYER})": "self.d['a']",
    f"Layers(dict(a={LAYER}, b={LAYER}))": "self.d.a",
    f"nn.Sequential(OrderedDict({PAIRS}))": "self.d.a",
    f"nn.Sequential(); self.d.a = {LAYER}; self.d.add_module('b', {LAYER})": "self.d[0]",
    "nn.ParameterDict(dict(a=nn.Parameter(torch.ones(3, 3)), b=nn.Parameter(torch.ones(3, 3))))": "self.d.a.matmul",
    "nn.ParameterDict(); self.d.a = nn.Parameter(torch.ones(3, 3)); self.d['b'] = nn.Parameter(torch.ones(3, 3))": "self.d['a'].matmul",
}


@pytest.mark.parametrize("made", NAMED)
def test_what_a_container_registers_has_its_name(made: str) -> None:
    read = NAMED[made]
    apply_b = "self.d.b.matmul" if "ParameterDict" in made else "self.d.b"
    program = f"""{HEAD}
from collections import OrderedDict

class Layers(nn.ModuleDict):
    pass

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = {made}

    def forward(self, x):
        with torch.no_grad():
            x = {read}(x)
        return {apply_b}(x)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    loss = net(torch.randn(3, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    run: dict = {}
    exec(program, run)
    weights = [p for name, p in run["net"].named_parameters() if name.startswith("d.a")]
    assert weights and all(p.grad is None for p in weights)
    assert [f.name for f in failing(program)[1]] == ["untrained-parameters"]


# What the fixes of a program's findings make of one line; None: they leave it as it is, since what they could do to it
# would not cure it.
UPDATES = {
    "w = w - 0.1 * w.grad": "w -= 0.1 * w.grad",
    "w = w + (-0.1 * w.grad)": "w += (-0.1 * w.grad)",
    "w = w - 0.1 * w.grad - 0.01 * w": None,
    "w = 0.9 * w - 0.1 * w.grad": None,
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_by_hand_is_made_in_place_or_left(update: str) -> None:
    program = f"""{HEAD}
x, y = torch.randn(16, 4), torch.randn(16, 1)
w = torch.randn(4, 1, requires_grad=True)
for _ in range(3):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        {update}
    w.grad.zero_()
"""
    with pytest.raises((RuntimeError, AttributeError)):
        exec(program, {})
    project, findings = failing(program)
    assert {f.name for f in findings} == {"detached-loss", "none-grad"}
    fixes = [found for f in findings if (found := fix(project, f)) is not None]
    better = UPDATES[update]
    if better is None:
        assert not fixes
        return
    assert [f.applicability for f in fixes] == [Applicability.SAFE]
    fixed = apply(program, fixes[0].edits)
    assert fixed == program.replace(update, better)
    exec(fixed, {})


def test_no_fix_puts_with_around_what_computes_nothing() -> None:
    program = f"""{HEAD}
def prepare(model):
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    model.eval()
    return model

model = prepare(nn.Linear(4, 1))
model(torch.randn(8, 4)).mean().backward()
"""
    project, findings = failing(program)
    assert {f.name for f in findings} == {"grad-mode-left-off", "backward-under-grad-off"}
    assert [fix(project, f) for f in findings] == [None, None]


def test_a_late_call_of_the_base_is_moved_up_however_it_is_written() -> None:
    for call in ("super(Net, self).__init__()", "nn.Module.__init__(self)", "super().__init__()"):
        program = f"""
from torch import nn

class Net(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(4, 1)
        {call}

assert len(list(Net().parameters())) == 2
"""
        memory = MemoryFiles({"main.py": program})
        project = Project(memory)
        [finding] = [f for found in check(project, memory.paths()).findings.values() for f in found]
        fixed = fix(project, finding)
        assert fixed is not None
        text = apply(program, fixed.edits)
        assert text.count("__init__(") == 2
        exec(text, {})
