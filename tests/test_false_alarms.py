"""Programs that are right and look wrong, reduced from what public training code does: nothing may be said of them."""

from __future__ import annotations

import importlib.util
import textwrap

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.project import Project

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Cut(nn.Module):
    def forward(self, x):
        return x.detach()
"""

# name: (why it is right, program after HEAD)
PROGRAMS = {
    "layers-taken-out-of-their-containers": (
        "what cuts the line was taken out by its name, and nothing idle is left",
        """
        from collections import OrderedDict

        net = nn.Sequential(OrderedDict([("a", nn.Linear(3, 3)), ("cut", Cut()), ("b", nn.Linear(3, 1))]))
        del net.cut
        layers = nn.ModuleDict(dict(a=nn.Linear(3, 3), b=nn.Linear(3, 1)))
        del layers.b
        layers.a = nn.Linear(3, 3)
        optimizer = torch.optim.SGD([*net.parameters(), *layers.parameters()], lr=0.1)
        for _ in range(2):
            loss = net(layers["a"](torch.randn(4, 3))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "parameters-in-two-lists": (
        "each parameter goes into one of the two lists",
        """
        decayed, plain = [], []
        for name, param in model.named_parameters():
            if not param.requires_grad:
                continue
            if name.endswith(".bias") or len(param.shape) == 1:
                plain.append(param)
            else:
                decayed.append(param)
        optimizer = torch.optim.AdamW([{"params": decayed}, {"params": plain, "weight_decay": 0.0}])
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        """,
    ),
    "total-begun-anew-each-turn": (
        "the inner loop gives the name another loss each time, so the sum holds the graph of one turn",
        """
        criterion = nn.MSELoss()
        loss = torch.zeros(1)
        for episode in range(3):
            for step in range(3):
                optimizer.zero_grad()
                loss = criterion(model(torch.randn(8, 4)), torch.zeros(8, 1))
                loss.backward()
                optimizer.step()
            loss += criterion(model(torch.randn(8, 4)), torch.zeros(8, 1))
        print(loss.item())
        """,
    ),
    "loss-summed-over-crops": (
        "the sum is the loss, and goes backward in one of two ways",
        """
        class Loss(nn.Module):
            def forward(self, student, teacher):
                total = 0
                for i, q in enumerate(teacher):
                    for j in range(len(student)):
                        if i == j:
                            continue
                        total += (-q * F.log_softmax(student[j], dim=-1)).sum(-1).mean()
                return total

        def train(loader, scaler):
            for batch in loader:
                teacher = F.softmax(model(batch), dim=-1).detach().chunk(2)
                loss = Loss()(model(batch).chunk(2), teacher)
                optimizer.zero_grad()
                if scaler is None:
                    loss.backward()
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()

        for _ in range(3):
            train([torch.randn(8, 4)], None)
        """,
    ),
    "embedding-added-in-forward": (
        "`x += ...` adds to the value of this call, not to that of the last",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.position = nn.Parameter(torch.randn(8, 4))
                self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

            def forward(self, x):
                x = x * 2
                x += self.position[: x.shape[0]]
                out = x
                hidden = []
                for layer in self.layers:
                    x = layer(x)
                    out = out + x
                    hidden.append(x)
                return out, hidden

        net = Net()
        for _ in range(3):
            out, hidden = net(torch.randn(8, 4))
            print(out.shape, len(hidden))
        """,
    ),
    "layers-listed-in-evaluation": (
        "what a forward lists is thrown away with the result",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(8)])

            def forward(self, x):
                seen = [x]
                for layer in self.layers:
                    x = layer(x)
                    seen.append(x)
                return x, seen

        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(3):
            net.eval()
            _, seen = net(torch.randn(8, 4))
            print(seen[-1].mean().item())
            net.train()
            loss = net(torch.randn(8, 4))[0].pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "sampler-of-an-evaluation": (
        "the loop that does not train may see the same order in every epoch",
        """
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

        def loader():
            data = TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
            return DataLoader(data, batch_size=4, sampler=DistributedSampler(data, num_replicas=1, rank=0))

        def run(batches, epoch, train):
            if train:
                batches.sampler.set_epoch(epoch)
            for x, y in batches:
                with torch.set_grad_enabled(train):
                    loss = F.mse_loss(model(x), y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

        training, testing = loader(), loader()
        for epoch in range(3):
            run(training, epoch, True)
            run(testing, epoch, False)
        """,
    ),
    "schedule-by-epoch": (
        "`step(epoch)` names its place in the schedule",
        """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
        for epoch in range(3):
            scheduler.step(epoch)
            loss = model(torch.randn(8, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "attack-on-an-evaluated-model": (
        "no optimizer applies the gradients of the attack, and the training switches back",
        """
        def train():
            model.train()
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).pow(2).mean().backward()
                optimizer.step()

        def test():
            model.eval()
            with torch.no_grad():
                print(model(torch.randn(8, 4)).mean())

        test()
        for _ in range(3):
            train()
            test()
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.randn(8, 4)
            x.requires_grad = True
            model(x).pow(2).mean().backward()
            print((x + 0.1 * x.grad.sign()).mean())
        """,
    ),
    "one-of-two-contexts": (
        "either of the managers leaves gradients on",
        """
        from contextlib import contextmanager

        @contextmanager
        def nothing():
            yield

        @contextmanager
        def said():
            print("begin")
            yield
            print("end")

        def run(manager):
            with manager():
                optimizer.zero_grad()
                model(torch.randn(8, 4)).pow(2).mean().backward()
                optimizer.step()

        import random
        for _ in range(3):
            run(nothing if random.random() < 0.5 else said)
            with (nothing() if random.random() < 0.5 else said()):
                model(torch.randn(8, 4))
        """,
    ),
    "temperature-as-an-attribute": (
        "`self.log_alpha` becomes a leaf where it is told to require grad",
        """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 1)
                self.optimizer = torch.optim.Adam(self.parameters())
                self.log_alpha = torch.tensor(0.1)
                self.log_alpha.requires_grad = True
                self.alpha_optimizer = torch.optim.Adam([self.log_alpha])

            def update(self, x):
                log_prob = self.net(x)
                self.optimizer.zero_grad()
                (self.log_alpha.exp() * log_prob).mean().backward()
                self.optimizer.step()
                self.alpha_optimizer.zero_grad()
                loss = -(self.log_alpha.exp() * (log_prob + 1.0).detach()).mean()
                loss.backward()
                self.alpha_optimizer.step()

        policy = Policy()
        for _ in range(3):
            policy.update(torch.randn(8, 4))
        """,
    ),
    "powers-in-place": (
        "an operation in place keeps a copy of what it overwrites",
        """
        def off_diagonal(x):
            return x.flatten()[:-1].view(3, 5)[:, 1:].flatten()

        class Twins(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 4)

            def forward(self, x):
                c = self.net(x).T @ self.net(x)
                c.div_(8)
                on = torch.diagonal(c).add_(-1).pow_(2).sum()
                return on + off_diagonal(c).pow_(2).sum()

        twins = Twins()
        optimizer = torch.optim.SGD(twins.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            twins(torch.randn(8, 4)).backward()
            optimizer.step()
        """,
    ),
    "mask-through-data": (
        "writes through `.data` are not counted, so backward takes the weight as it is",
        """
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)
                self.register_buffer("mask", torch.ones(4, 4).tril())

            def forward(self, x):
                self.linear.weight.data *= self.mask
                return self.linear(x)

        masked = Masked()
        optimizer = torch.optim.SGD(masked.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            masked(masked(torch.randn(8, 4))).pow(2).mean().backward()
            optimizer.step()
        """,
    ),
    "images-that-are-moved": (
        "a backward through what is not known may reach the images",
        """
        import somewhere

        net = somewhere.energy()

        def sample(images):
            for p in net.parameters():
                p.requires_grad = False
            images.requires_grad = True
            for _ in range(3):
                (-net(images)).sum().backward()
                images.grad.data.clamp_(-0.03, 0.03)
                images.data.add_(-0.1 * images.grad.data)
                images.grad.detach_()
                images.grad.zero_()
            return images

        sample(torch.rand(8, 4))
        """,
    ),
    "distribution-of-a-distribution": (
        "the log-probability of an Independent depends on what its base was made of",
        """
        import torch.distributions as td

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 4)

            def forward(self, x):
                p = td.Independent(td.Normal(self.net(x), 1.0), 1)
                return {"loss": -p.log_prob(x).mean()}

        net = Model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            losses = net(torch.randn(8, 4))
            losses["loss"].backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
        """,
    ),
    "parameter-as-float": (
        "a Parameter that is float32 already comes back from `.float()`",
        """
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4)).float()

            def forward(self, x):
                return x * self.weight

        norm = Norm()
        optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
        norm(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        """,
    ),
    "options-by-name": (
        "a class attribute that names an option is replaced by the configuration's base class",
        """
        from labels import Options

        class Trainer(Options):
            scaler = "Default"

            def train(self, batches):
                for x in batches:
                    loss = model(x).pow(2).mean()
                    if self.scaler is not None:
                        loss = self.scaler.scale(loss)
                    loss.backward()
                    self.optimizer.step()
        """,
    ),
    "bases-between": (
        "the chain of constructors reaches `Module.__init__`, however long it is",
        """
        class Base(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.size = size

        class Mixin:
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

        class Second(Mixin, Base):
            def __init__(self, size):
                super().__init__(size)
                self.first = nn.Linear(size, size)

        class Third(Second):
            def __init__(self, size, wide=False):
                if wide:
                    size = 2 * size
                    super().__init__(size)
                else:
                    super().__init__(size)
                self.second = nn.Linear(size, size)

            def forward(self, x):
                return self.second(self.first(x))
        """,
    ),
    "activations-appended": (
        "modules in a list that goes into a Sequential, and words in a list named l",
        """
        def mlp(sizes, activation):
            modules = []
            for a, b in zip(sizes, sizes[1:]):
                modules.append(nn.Linear(a, b))
                modules.append(activation())
            return nn.Sequential(*modules)

        net = mlp([4, 8, 1], nn.ReLU)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for line in ("a b", "c d"):
            l = line.split(" ")
            loss = net(torch.randn(8, 4)).mean() * len(l)
            for p in net.parameters():
                p.grad = None
            loss.backward()
            optimizer.step()
        """,
    ),
    "delayed-policy": (
        "the actor is updated every second time, and each has its own optimizer",
        """
        import copy

        actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
        actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
        actor_optimizer = torch.optim.Adam(actor.parameters())
        critic_optimizer = torch.optim.Adam(critic.parameters())
        for it in range(1, 7):
            state, action, reward = torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1)
            with torch.no_grad():
                target = reward + 0.99 * critic_target(torch.cat([state, actor_target(state)], 1))
            critic_loss = F.mse_loss(critic(torch.cat([state, action], 1)), target)
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
            if it % 2 == 0:
                actor_loss = -critic(torch.cat([state, actor(state)], 1)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                for p, t in zip(critic.parameters(), critic_target.parameters()):
                    t.data.copy_(0.005 * p.data + 0.995 * t.data)
                for p, t in zip(actor.parameters(), actor_target.parameters()):
                    t.data.copy_(0.005 * p.data + 0.995 * t.data)
        """,
    ),
    "written-while-frozen": (
        "a weight that does not require grad may be written in place",
        """
        def pruned(layer, index):
            weight = layer.weight.index_select(0, index).detach().clone()
            new = nn.Linear(weight.shape[1], weight.shape[0], bias=layer.bias is not None).to(layer.weight.device)
            new.weight.requires_grad = False
            new.weight.copy_(weight.contiguous())
            new.weight.requires_grad = True
            return new

        small = pruned(nn.Linear(4, 4), torch.tensor([0, 2]))
        small(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "note-on-a-frozen-module": (
        "`_requires_grad` is a private note on modules whose parameters are frozen",
        """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

            def freeze(self):
                for p in self.body.parameters():
                    p.requires_grad = False
                self.body._requires_grad = False

        encoder = Encoder()
        encoder.freeze()
        optimizer = torch.optim.SGD(encoder.head.parameters(), lr=0.1)
        encoder.head(encoder.body(torch.randn(8, 4))).mean().backward()
        optimizer.step()
        """,
    ),
    "phases-of-an-enumeration": (
        "the evaluation under `no_grad` never comes to the backward",
        """
        import enum

        class Phase(enum.Enum):
            TRAIN = 0,
            VAL = 1,

        def turn(phase, x):
            loss = model(x).mean()
            if phase == Phase.TRAIN:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.item()

        for epoch in range(2):
            turn(Phase.TRAIN, torch.randn(8, 4))
            with torch.no_grad():
                turn(Phase.VAL, torch.randn(8, 4))
        """,
    ),
    "gradients-looked-at-first": (
        "`.grad` is asked of only where it is there",
        """
        def clear(parameters):
            for param in parameters:
                if param.grad is not None:
                    param.grad.detach_()
                    param.grad.zero_()

        extra = nn.Linear(4, 1)
        model(torch.randn(8, 4)).mean().backward()
        clear([*model.parameters(), *extra.parameters()])
        optimizer.step()
        """,
    ),
    "a-state-of-advantages": (
        "the sum is weighed by tensors and detached when it is done",
        """
        values = [model(torch.randn(2, 4)) for _ in range(5)]
        masks = [torch.ones(2, 1) for _ in range(5)]
        gae, returns = 0, []
        for step in reversed(range(4)):
            delta = 1.0 + 0.9 * values[step + 1] * masks[step] - values[step]
            gae = delta + 0.9 * 0.95 * masks[step] * gae
            returns.insert(0, gae + values[step])
        target = torch.cat(returns).detach()
        """,
    ),
    "gradients-of-results-that-are-kept": (
        "`retain_grad()` keeps the gradient of a result",
        """
        hidden = [model[0](torch.randn(8, 4)) for _ in range(3)]
        for h in hidden:
            h.retain_grad()
        sum(model[2](h).mean() for h in hidden).backward()
        for h in hidden:
            h.grad.zero_()
        """,
    ),
    "a-table-that-is-made-when-it-is-wanted": (
        "a frozen table of positions, made before and after `Module.__init__`, and in place",
        """
        class Positions(nn.Embedding):
            def __init__(self, number, width):
                self.make(number, width)

            def make(self, number, width):
                table = torch.arange(number * width).view(number, width).float()
                if not hasattr(self, "weight"):
                    super().__init__(number, width, _weight=table)
                else:
                    self.weight = nn.Parameter(table)
                self.weight.detach_()
                self.weight.requires_grad = False

        class Written(nn.Embedding):
            def __init__(self, number, width):
                super().__init__(number, width)
                self.weight = self.fill(self.weight)

            @staticmethod
            def fill(out):
                out.requires_grad = False
                out[:, 0:2] = torch.ones(out.shape[0], 2)
                out.detach_()
                return out

        print(Positions(6, 4)(torch.tensor([1])), Written(6, 4)(torch.tensor([1])))
        """,
    ),
    "a-codebook-that-forward-keeps": (
        "moving averages take the place of gradients (vector quantisation)",
        """
        class Codes(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(8, 4)
                self.table.weight.data.normal_()
                self.sums = nn.Parameter(torch.randn(8, 4))
                self.register_buffer("counts", torch.ones(8))

            def forward(self, z):
                index = torch.cdist(z, self.table.weight).argmin(1)
                hot = F.one_hot(index, 8).float()
                q = self.table(index)
                if self.training:
                    self.counts = 0.9 * self.counts + 0.1 * hot.sum(0)
                    self.sums = nn.Parameter(0.9 * self.sums + 0.1 * hot.t() @ z)
                    self.table.weight = nn.Parameter(self.sums / self.counts.unsqueeze(1))
                return z + (q - z).detach(), F.mse_loss(q.detach(), z)

        body, codes, head = nn.Linear(6, 4), Codes(), nn.Linear(4, 6)
        optimizer = torch.optim.Adam([*body.parameters(), *codes.parameters(), *head.parameters()])
        for _ in range(3):
            x = torch.randn(16, 6)
            q, commitment = codes(body(x))
            loss = F.mse_loss(head(q), x) + commitment
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "a-layer-frozen-in-every-way": (
        "the switch on the module does nothing, and its parameters are frozen one by one",
        """
        model[0].requires_grad = False
        model[0].weight.requires_grad = False
        model[0].bias.requires_grad = False
        model(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "managers-that-restore": (
        "grad mode comes back though the block raises",
        """
        import contextlib

        @contextlib.contextmanager
        def evaluating():
            torch.set_grad_enabled(False)
            try:
                yield model
            finally:
                torch.set_grad_enabled(True)

        class NoTracking:
            def __enter__(self):
                self.before = torch.is_grad_enabled()
                torch.set_grad_enabled(False)

            def __exit__(self, *error):
                torch.set_grad_enabled(self.before)

        for epoch in range(2):
            try:
                with evaluating() as m, NoTracking():
                    m(torch.randn(2, 5))
            except RuntimeError:
                print("skipped")
            optimizer.zero_grad()
            model(torch.randn(2, 4)).mean().backward()
            optimizer.step()
        """,
    ),
    "hooks-taken-away": (
        "the hook that detaches is gone before the training",
        """
        handle = model[0].register_forward_hook(lambda module, inputs, output: output.detach())
        print(model(torch.randn(2, 4)))
        handle.remove()
        optimizer.zero_grad()
        model(torch.randn(2, 4)).mean().backward()
        optimizer.step()
        """,
    ),
    "a-teacher-that-follows": (
        "a mean teacher's batch norms follow the student's",
        """
        import copy

        student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
        teacher = copy.deepcopy(student)
        for p in teacher.parameters():
            p.requires_grad_(False)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(8, 4)
            with torch.no_grad():
                target = teacher(x).softmax(-1)
            loss = F.cross_entropy(student(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for t, s in zip(teacher.parameters(), student.parameters()):
                    t.mul_(0.99).add_(s.detach(), alpha=0.01)
                for t, s in zip(teacher.buffers(), student.buffers()):
                    t.copy_(s)
        """,
    ),
    "models-of-a-library-that-is-not-known": (
        "any library may build modules of torch",
        """
        import sys, types

        sys.modules["somebody"] = types.SimpleNamespace(Net=nn.Linear)
        import somebody

        net, target = somebody.Net(4, 1), nn.Linear(4, 1)
        x = torch.randn(8, 4)
        with torch.no_grad():
            wanted = target(x)
        F.mse_loss(net(x), wanted).backward()
        """,
    ),
    "many-leaves-cleared-by-hand": (
        "gradients of more tensors than are passed one by one are set to zero",
        """
        params = [torch.randn(4, 4, requires_grad=True) for _ in range(8)]
        Wa, Wb, Wc, Wd, We, Wf, Wg = [torch.randn(4, 4, requires_grad=True) for _ in range(7)]
        weights = [Wa, Wb, Wc, Wd, We, Wf, Wg]
        optimizer = torch.optim.Adam(weights, lr=0.1)
        other = torch.optim.SGD(params, lr=0.1)
        for _ in range(3):
            x = torch.randn(2, 4)
            for w in weights:
                x = torch.tanh(x @ w)
            x.mean().backward()
            optimizer.step()
            for p in weights:
                if p.grad is not None:
                    p.grad = p.grad.data.new().resize_as_(p.grad.data).zero_()
            y = torch.randn(2, 4)
            for w in params:
                y = torch.tanh(y @ w)
            y.mean().backward()
            other.step()
            for p in params:
                p.grad.zero_()
        """,
    ),
    "an-attack-from-one-of-two-places": (
        "the gradient is of a leaf, whichever it is, and is used by hand",
        """
        import random

        x = torch.randn(8, 4)
        adversarial = x.clone().requires_grad_(True)
        if random.random() < 0.5:
            adversarial = (adversarial.data + 0.1 * torch.randn(8, 4)).requires_grad_(True)
        for _ in range(3):
            attack = torch.optim.SGD([adversarial], lr=1e-3)
            attack.zero_grad()
            model(adversarial).mean().backward()
            step = 0.1 * adversarial.grad.data.sign()
            adversarial = (adversarial.data + step).requires_grad_(True)
        optimizer.zero_grad()
        model(adversarial.detach()).mean().backward()
        optimizer.step()
        """,
    ),
    "a-model-that-is-pointed-at": (
        "one model in a dict of its own is kept out of `parameters()` on purpose",
        """
        class Learner(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.info = {"model": model}
                self.rate = nn.Parameter(torch.zeros(()))

            def forward(self, x):
                return self.info["model"](x) * self.rate

        learner = Learner(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
        for x in torch.randn(3, 8, 4):
            optimizer.zero_grad()
            learner(x).mean().backward()
            optimizer.step()
        """,
    ),
    "weights-dropped": (
        "the layer's own parameter is taken out, and a tensor stands in its place at every call",
        """
        class WeightDrop(nn.Module):
            def __init__(self, module, names):
                super().__init__()
                self.module, self.names = module, names
                for name in names:
                    w = getattr(self.module, name)
                    del self.module._parameters[name]
                    self.module.register_parameter(name + "_raw", nn.Parameter(w.data))

            def forward(self, x):
                for name in self.names:
                    raw = getattr(self.module, name + "_raw")
                    setattr(self.module, name, F.dropout(raw, p=0.5, training=self.training))
                return self.module(x)

        dropped = WeightDrop(nn.Linear(4, 2), ["weight"])
        optimizer = torch.optim.SGD(dropped.parameters(), lr=0.1)
        for x in torch.randn(3, 8, 4):
            optimizer.zero_grad()
            dropped(x).mean().backward()
            optimizer.step()
        """,
    ),
    "lists-that-are-emptied": (
        "what a turn puts into a list does not outlive it",
        """
        losses, outputs = [], []
        for x in torch.randn(5, 8, 4):
            output = model(x)
            loss = output.mean()
            losses.append(loss)
            outputs.append((output, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(sum(float(one.detach()) for one in losses), len(outputs))
            losses.clear()
            del outputs[:]
        """,
    ),
    "einops-to-a-number": (
        "a reduction to nothing is a single number",
        """
        from einops import reduce

        reduce(model(torch.randn(8, 4)), "b c -> ", reduction="sum").backward()
        optimizer.step()
        """,
    ),
    "fields-of-a-named-tuple": (
        "the loss is a field of what the layer gives",
        """
        net, head = nn.Linear(3, 4), nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5])
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
        for _ in range(3):
            loss = head(net(torch.randn(6, 3)), torch.randint(0, 10, (6,))).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "modules-that-hydra-builds": (
        "what `hydra.utils.instantiate` gives is as a rule a module of the project, and trains",
        """
        import hydra

        class Agent:
            def __init__(self, cfg):
                self.critic = hydra.utils.instantiate(cfg.critic).to("cpu")
                self.optimizer = torch.optim.Adam(self.critic.parameters())

            def update(self, x, y):
                with torch.no_grad():
                    target = y + self.critic(x)
                loss = F.mse_loss(self.critic(x), target.detach())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        """,
    ),
    "class-that-a-generator-of-code-copies-from": (
        "a package's templates are never run: what is made of them calls the constructor of the base first",
        """
        class Model(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.body = nn.Linear(config.size, config.size)

        class Hybrid(Model):
            def __init__(self, config):
                self.neck = nn.Linear(config.size, 4)
                super().__init__(config)
        """,
    ),
    "adapters-in-a-frozen-model": (
        "another library puts what trains into the model",
        """
        from peft import LoraConfig, inject_adapter_in_model

        model.requires_grad_(False)
        inject_adapter_in_model(LoraConfig(target_modules=["0"]), model)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for x in torch.randn(5, 8, 4):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    "lists-that-are-emptied-now-and-then": (
        "no more than two graphs are ever kept",
        """
        parts, kept = [], []
        for step, x in enumerate(torch.randn(8, 8, 4)):
            parts.append(model(x).mean())
            if len(parts) == 2:
                optimizer.zero_grad()
                sum(parts).backward()
                optimizer.step()
                parts.clear()
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(loss)
            if step % 2:
                print((kept[-1] - kept[-2]).item())
                del kept[:]
        """,
    ),
    "a-container-of-registered-layers": (
        "only the container is new at every call, and it holds nothing of its own",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)

            def forward(self, x):
                return nn.Sequential(self.first, nn.ReLU(), self.last)(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in torch.randn(3, 8, 4):
            optimizer.zero_grad()
            net(x).mean().backward()
            optimizer.step()

        class Judged(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)

            def forward(self, x):
                layers = nn.Sequential(self.first, self.last)
                return layers(x)
        """,
    ),
    "encoder-and-generator-trained-together": (
        "both losses are meant for the generator, and the encoder is trained through it",
        """
        G, E = nn.Linear(8, 4), nn.Linear(4, 8)
        optimizer_G, optimizer_E = torch.optim.Adam(G.parameters()), torch.optim.Adam(E.parameters())
        for real in torch.randn(5, 8, 4):
            optimizer_E.zero_grad()
            optimizer_G.zero_grad()
            mu, logvar = E(real).chunk(2, 1)
            z = torch.randn(8, 4)
            fake = G(torch.cat([z, z], 1))
            loss_GE = F.l1_loss(G(torch.cat([mu, logvar], 1)), real) + fake.pow(2).mean()
            loss_GE.backward(retain_graph=True)
            optimizer_E.step()
            mu_again, _ = E(fake).chunk(2, 1)
            F.l1_loss(mu_again, z).backward()
            optimizer_G.step()
        """,
    ),
    "layers-named-by-an-ordered-dict": (
        "the names are those of the dict, and not numbers",
        """
        from collections import OrderedDict
        net = nn.Sequential(OrderedDict([("body", nn.Linear(4, 4)), ("head", nn.Linear(4, 1))]))
        for name, p in net.named_parameters():
            p.requires_grad = name.startswith(("fc", "head"))
        net(torch.randn(8, 4)).mean().backward()
        for p in net.parameters():
            p.requires_grad = False
        for p in net.head.parameters():
            p.requires_grad = True
        net(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "thawed-by-a-name": (
        "what is thawed is one of the layers that were frozen",
        """
        for p in model.parameters():
            p.requires_grad = False
        for p in model.get_submodule("2").parameters():
            p.requires_grad = True
        model(torch.randn(8, 4)).mean().backward()
        model.requires_grad_(False)
        dict(model.named_modules())["2"].requires_grad_(True)
        model(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "names-of-a-compiled-module": (
        "they begin with another word",
        """
        compiled = torch.compile(model, backend="eager")
        for name, p in compiled.named_parameters():
            p.requires_grad = name.startswith("_orig_mod.2")
        compiled(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "names-of-a-normed-layer": (
        "the weight has become two parameters",
        """
        net = nn.Sequential(nn.Linear(4, 4), nn.utils.weight_norm(nn.Linear(4, 1)))
        for name, p in net.named_parameters():
            if not name.endswith("_g"):
                p.requires_grad = False
        net(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "names-with-a-prefix": (
        "the caller has given it",
        """
        for name, p in model.named_parameters(prefix="net"):
            p.requires_grad = name.startswith("net.2")
        model(torch.randn(8, 4)).mean().backward()
        """,
    ),
    "second-layer-of-an-lstm": (
        "it has one",
        """
        rnn = nn.LSTM(4, 4, num_layers=2)
        for name, p in rnn.named_parameters():
            p.requires_grad = name.endswith("_l1")
        rnn(torch.randn(8, 2, 4))[0].mean().backward()
        """,
    ),
    "a-weight-that-two-layers-share": (
        "it goes by its first name only",
        """
        net = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
        net[1].weight = net[0].weight
        for name, p in net.named_parameters():
            p.requires_grad = name.startswith("0")
        net(torch.randint(5, (8,))).mean().backward()
        """,
    ),
    "gradients-that-are-put-into-grad": (
        "autograd.grad returns them, and they are put where the step looks",
        """
        params = list(model.parameters())
        for _ in range(3):
            gradients = torch.autograd.grad(model(torch.randn(8, 4)).mean(), params)
            for k in range(len(params)):
                params[k].grad = gradients[k].clamp(-1, 1)
            optimizer.step()
        """,
    ),
    "gradients-that-are-applied-by-hand": (
        "the step decays the weights, and the update is written out",
        """
        for _ in range(3):
            gradients = torch.autograd.grad(model(torch.randn(8, 4)).mean(), list(model.parameters()))
            with torch.no_grad():
                for p, g in zip(model.parameters(), gradients):
                    p -= 0.1 * g
            optimizer.step()
        """,
    ),
    "a-vector-whose-gradient-is-put-there": (
        "evolution: the parameters get the values, and the vector its gradient by hand",
        """
        from torch.nn.utils import parameters_to_vector, vector_to_parameters
        flat = parameters_to_vector(model.parameters()).detach().requires_grad_(True)
        opt = torch.optim.SGD([flat], lr=0.1)
        for _ in range(3):
            vector_to_parameters(flat.detach(), model.parameters())
            model.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            flat.grad = parameters_to_vector([p.grad for p in model.parameters()])
            opt.step()
        """,
    ),
    "a-loss-learned-in-the-inner-step": (
        "create_graph: the loss reaches it through the gradient",
        """
        learned = nn.Linear(1, 1)
        opt = torch.optim.SGD(learned.parameters(), lr=0.1)
        head = nn.Linear(4, 1)
        for _ in range(3):
            x = torch.randn(8, 4)
            (g,) = torch.autograd.grad(learned(head(x)).pow(2).mean(), [head.weight], create_graph=True)
            opt.zero_grad()
            F.linear(x, head.weight - 0.1 * g).pow(2).mean().backward()
            opt.step()
        """,
    ),
    "two-optimizers-of-one-module-and-another-by-hand": (
        "the other is moved by hand",
        """
        a, b = nn.Linear(4, 1), nn.Linear(4, 1)
        first, second = torch.optim.Adam(a.parameters()), torch.optim.SGD(a.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(8, 4)
            first.zero_grad()
            a(x).pow(2).mean().backward()
            first.step()
            second.step()
            b.zero_grad()
            b(x).pow(2).mean().backward()
            with torch.no_grad():
                for p in b.parameters():
                    p -= 0.1 * p.grad
        """,
    ),
    "adapted-weights-of-maml": (
        "the weights of the inner step come from the parameters",
        """
        from torch.func import functional_call
        for _ in range(3):
            fast = {n: p.clone() for n, p in model.named_parameters()}
            inner = functional_call(model, fast, (torch.randn(8, 4),)).pow(2).mean()
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), grads)}
            optimizer.zero_grad()
            functional_call(model, fast, (torch.randn(8, 4),)).pow(2).mean().backward()
            optimizer.step()
        """,
    ),
    "copied-weights-whose-gradients-are-handed-over": (
        "first-order: the parameters are given the gradients of the copies",
        """
        from torch.func import functional_call
        for _ in range(3):
            fast = {n: p.detach().clone().requires_grad_(True) for n, p in model.named_parameters()}
            functional_call(model, fast, (torch.randn(8, 4),)).pow(2).mean().backward()
            for n, p in model.named_parameters():
                p.grad = fast[n].grad
            optimizer.step()
        """,
    ),
    "some-weights-of-a-functional-call": (
        "the others are the module's own",
        """
        from torch.func import functional_call
        for _ in range(3):
            fast = {n: p.detach().clone().requires_grad_(True) for n, p in model.named_parameters()}
            del fast["0.weight"]
            optimizer.zero_grad()
            functional_call(model, fast, (torch.randn(8, 4),)).pow(2).mean().backward()
            optimizer.step()
        """,
    ),
    "some-weights-that-a-loop-puts-into-a-dict": (
        "the others are the module's own",
        """
        from torch.func import functional_call
        for _ in range(3):
            fast = {}
            for n, p in model.named_parameters():
                if n.startswith("0."):
                    continue
                fast[n] = p.detach().clone().requires_grad_(True)
            optimizer.zero_grad()
            functional_call(model, fast, (torch.randn(8, 4),)).pow(2).mean().backward()
            optimizer.step()
        """,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_silent(name: str) -> None:
    why, body = PROGRAMS[name]
    files = MemoryFiles({"main.py": HEAD + textwrap.dedent(body)})
    findings = check(Project(files), files.paths()).findings
    said = [f"{f.name}: {f.message}" for found in findings.values() for f in found if f.severity.fails]
    assert not said, f"{why}, but: {said}"


def test_a_file_that_is_called_torch_is_not_torch_inside_its_own_package() -> None:
    files = MemoryFiles(
        {
            "utils/__init__.py": "from utils.torch import *\nfrom utils.math import *\n",
            "utils/torch.py": "import torch\n\nones = torch.ones\n",
            "utils/math.py": "import torch\n\nzeros = torch.zeros\n",
            "main.py": textwrap.dedent(
                """
                from utils import *
                from torch import nn

                critic = nn.Linear(4, 1)
                optimizer = torch.optim.Adam(critic.parameters())
                x = ones(8, 4)
                with torch.no_grad():
                    target = critic(x) + zeros(8, 1)
                for _ in range(3):
                    loss = (critic(x) - target).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            ),
        }
    )
    findings = check(Project(files), files.paths()).findings
    assert not [f.message for found in findings.values() for f in found if f.severity.fails]


HEADED = """
import torch
from torch import nn

m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def f():
    return m(torch.randn(8, 3)).mean()


"""
# Losses that go into a container and come out of it: each has a graph of its own, and each goes backward once.
KEPT = {
    "cleared": "a = []\nfor i in range(3):\n    a.append(f())\n    for l in a:\n        l.backward()\n    a.clear()\n",
    "cleared now and then": "a = []\nfor i in range(4):\n    a.append(f())\n    if i % 2:\n        for l in a:\n"
    "            l.backward()\n        a.clear()\n",
    "another list": "q = []\nfor i in range(4):\n    q.append(f())\n    if len(q) == 2:\n        for l in q:\n"
    "            l.backward()\n        q = []\n",
    "popped": "q = []\nfor i in range(3):\n    q.append(f())\n    while q:\n        q.pop().backward()\n",
    "removed": "live = []\nfor i in range(3):\n    live.append(f())\n    for x in list(live):\n        x.backward()\n"
    "        live.remove(x)\n",
    "two places": "s, k = [0, 0], 0\nfor i in range(3):\n    s[k] = f()\n    opt.zero_grad()\n    s[k].backward()\n"
    "    opt.step()\n    k = 1 - k\n",
    "bound methods": "a = []\nfor i in range(3):\n    a.append(f().backward)\n    a.pop()()\n",
    "bound methods in turn": "a = []\nfor i in range(3):\n    a.append(f().backward)\na[0]()\nfor run in a[1:]:\n    run()\n",
    "popped from a dict": "d = {}\nfor i in range(3):\n    d[i] = f()\n    opt.zero_grad()\n    d.pop(i).backward()\n"
    "    opt.step()\n",
    "got from a dict": "d = {}\nfor i in range(3):\n    d[i] = f()\n    opt.zero_grad()\n    d.get(i).backward()\n"
    "    opt.step()\n",
    "a slot": "s = [None, None]\nfor i in range(4):\n    s[i % 2] = f()\n    opt.zero_grad()\n    s[i % 2].backward()\n"
    "    opt.step()\n",
    "values of a dict": "d = {}\nfor i in range(3):\n    d[i] = f()\nfor loss in d.values():\n    loss.backward()\nopt.step()\n",
}


@pytest.mark.parametrize("how", KEPT)
def test_losses_in_a_container(how: str) -> None:
    optimizer = "opt = torch.optim.SGD(m.parameters(), 0.1)\n" if "opt." in KEPT[how] else ""
    program = HEADED + optimizer + KEPT[how]
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, how, "exec"), {})
    files = MemoryFiles({"main.py": program})
    findings = check(Project(files), files.paths()).findings
    assert not [f.message for found in findings.values() for f in found if f.severity.fails]


# A scalar with another gradient than its value has: the detached term is there for the value, and `w` and `s` are learned.
SCALED = """
w = torch.randn(4, requires_grad=True)
s = torch.tensor(0.5, requires_grad=True)
r = torch.tensor(0.3, requires_grad=True)
optimizer = torch.optim.SGD([w, s, r], lr=0.1)


def scaled(x, k=0.1):
    BODY


for _ in range(2):
    loss = (w * scaled(s) - 1).pow(2).sum() + r.pow(2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FOR_THEIR_VALUE = [
    "return (x - x * k).detach() + x * k",
    "y = x * k\n    return y + (x - y).detach()",
    "return (x.clamp(0, 1) - x).detach() + x",
    "return x + (x.sigmoid() - x).detach()",
    "return torch.mul(x, k) + (x - torch.mul(x, k)).detach()",
    "return x / 10 + (x - x / 10).detach()",
    "return -x + (2 * x).detach()",
    "y = torch.sigmoid(x)\n    return k * y + ((1 - k) * y).detach()",
    "return k * x + torch.round(x.detach())",
    "return x * k + (x.detach() - k * x.detach())",
    "return x * r + (x - x * r).detach()",
    "y = x.exp()\n    return (y - y * k).detach() + y * k",
    "y = x * k\n    y = y + x.detach()\n    return y - (x * k).detach()",
    "y = k * x\n    y += (x - y).detach()\n    return y",
    "return (1 - k) * x.detach() + k * x",
    "return (x * r).detach() + x * (1 - r)",
    "y = x.clone()\n    return (y - k * y).detach() + k * y",
    "y = x.float()\n    return (x - k * y).detach() + k * y",
    "return x.detach() - (x * k).detach() + x * k",
    "a = (x - x * k).detach()\n    b = x * k\n    return a + b",
    "return sum([(x - x * k).detach(), x * k])",
]
LOST = [
    "return x.pow(2) + 0.1 * x.exp().detach()",
    "return x * 2 + (r * 3).detach()",
    "return r * x.exp() + (r * x.sin()).detach()",
    "return F.softplus(x) + (x - r).abs().detach()",
]


@pytest.mark.parametrize("body", [*FOR_THEIR_VALUE, *LOST])
def test_a_detached_term_that_puts_the_value_right(body: str) -> None:
    program = HEAD + SCALED.replace("BODY", body)
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, body, "exec"), {})
    files = MemoryFiles({"main.py": program})
    found = [f.code for findings in check(Project(files), files.paths()).findings.values() for f in findings]
    assert found == (["GL110"] if body in LOST else [])


# What is kept of a model is a copy of one in evaluation mode, or nothing: it is trained again all the same.
KEPT_MODEL = """
import copy


class Best:
    def __init__(self):
        self.score, self.model = float("inf"), None

    def update(self, score, model):
        if score < self.score:
            self.score, self.model = score, copy.deepcopy(model)


best = Best()
for _ in range(3):
    model.eval()
    with torch.no_grad():
        score = model(torch.randn(8, 4)).mean().item()
    best.update(score, model)
model = best.model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    MODE
    loss = model(torch.randn(8, 4)).pow(2).mean() + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("mode", ["model.train()", "pass", "best.model.train()"])
def test_a_kept_model_is_trained_again(mode: str) -> None:
    program = HEAD + KEPT_MODEL.replace("MODE", mode)
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, mode, "exec"), {})
    files = MemoryFiles({"main.py": program})
    assert not [f.message for found in check(Project(files), files.paths()).findings.values() for f in found]


# Ways to clear a gradient that an update by hand has applied.
CLEARED = {
    "zero_": "w.grad.zero_()",
    "none": "w.grad = None",
    "of its values": "w.grad.data.zero_()",
    "deleted": "del w.grad",
    "items": "w.grad[:] = 0",
    "all at once": "torch._foreach_zero_([w.grad])",
    "by an initializer": "nn.init.zeros_(w.grad)",
    "in a function": "clear([w])",
    "by another name": "g = w.grad; g.zero_()",
    "fading": "w.grad *= 0.9",
    "in a list": "[p.grad.zero_() for p in (w,)]",
    "another tensor": "w = w.detach().requires_grad_()",
}


@pytest.mark.parametrize("clear", CLEARED)
def test_a_gradient_is_cleared_after_an_update_by_hand(clear: str) -> None:
    program = f"""{HEAD}
def clear(parameters):
    for p in parameters:
        p.grad = None

w = torch.randn(4, 1, requires_grad=True)
for _ in range(3):
    (torch.randn(8, 4) @ w).pow(2).mean().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    {CLEARED[clear]}
"""
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, clear, "exec"), {})
    files = MemoryFiles({"main.py": program})
    assert not [f.message for found in check(Project(files), files.paths()).findings.values() for f in found]


# In compiled code torch asks `backward` only for the gradients of tensors: numbers at the end may go without a None.
COMPILED_FUNCTION = """
import torch
from torch import nn


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor
"""
COMPILES = {
    "a function": "step = torch.compile(lambda x: Scaled.apply(x, 3.0).sum(), backend='aot_eager')\nstep(model(x)).backward()",
    "a decorator": """
@torch.compile(backend="aot_eager")
def step(x):
    return Scaled.apply(x, 3.0).sum()


step(model(x)).backward()
""",
    "a module": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x):
        return Scaled.apply(self.linear(x), 3.0)


net = Net()
net.compile(backend="aot_eager")
net(x).sum().backward()
""",
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("how", COMPILES)
def test_a_function_that_is_applied_in_compiled_code(how: str, split: bool) -> None:
    program = "import torch\nfrom torch import nn\nmodel, x = nn.Linear(4, 1), torch.randn(8, 4)\n" + COMPILES[how]
    if importlib.util.find_spec("torch") is not None:
        exec(compile(COMPILED_FUNCTION + program, how, "exec"), {})
    texts = {"main.py": COMPILED_FUNCTION + program}
    if split:
        texts = {"main.py": "from kernels import Scaled\n" + program, "kernels.py": COMPILED_FUNCTION}
    files = MemoryFiles(texts)
    assert not [f.message for found in check(Project(files), files.paths()).findings.values() for f in found]


def test_a_function_that_is_applied_by_another_file_and_not_compiled() -> None:
    program = "from kernels import Scaled\nimport torch\nx = torch.ones(3, requires_grad=True)\n"
    files = MemoryFiles(
        {"main.py": program + "Scaled.apply(x, 3.0).sum().backward()\n", "kernels.py": COMPILED_FUNCTION}
    )
    found = check(Project(files), files.paths()).findings
    assert [f.code for findings in found.values() for f in findings] == ["GL701"]


# A momentum encoder that lies in the module which the optimizer got: it follows the other one, by any of these ways.
FOLLOWS = """
import torch
import torch.nn.functional as F
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Linear(4, 3)
        self.target = nn.Linear(4, 3)

    def forward(self, x, y):
        with torch.no_grad():
            target = self.target(y)
        return self.online(x) @ target.T


def update(net, ema, tau=0.01):
    BODY


model = Pair()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(8, 4), torch.randn(8, 4)), torch.arange(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2 == 0:
        update(model.online, model.target)
"""
PAIRS = "for p, q in zip(net.parameters(), ema.parameters()):\n"
NAMES = "ps = dict(net.named_parameters())\n    for n, q in ema.named_parameters():\n"
UPDATES = [
    PAIRS + "        q.data.copy_(tau * p.data + (1 - tau) * q.data)",
    PAIRS + "        q.data = tau * p.data + (1 - tau) * q.data",
    PAIRS + "        q.data.mul_(1 - tau).add_(p.data, alpha=tau)",
    PAIRS + "        q.detach().copy_(p.detach() * tau + q.detach() * (1 - tau))",
    NAMES + "        q.data.copy_(tau * ps[n].data + (1 - tau) * q.data)",
    NAMES + "        q.data.mul_(1 - tau).add_(ps[n].data, alpha=tau)",
    "ema.load_state_dict(net.state_dict())",
    "new, old = net.state_dict(), ema.state_dict()\n"
    "    ema.load_state_dict({k: tau * new[k] + (1 - tau) * old[k] for k in new})",
    "old = ema.state_dict()\n    for k, v in net.state_dict().items():\n        old[k].copy_(tau * v + (1 - tau) * old[k])",
    "ema.weight.data.copy_(net.weight.data)\n    ema.bias.data.copy_(net.bias.data)",
    "nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(net.parameters()), ema.parameters())",
    *(
        "with torch.no_grad():\n        " + body
        for body in (
            PAIRS + "            q.lerp_(p, tau)",
            PAIRS + "            q.copy_(q * (1 - tau) + p * tau)",
            PAIRS + "            q *= 1 - tau\n            q += tau * p",
            "torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), tau)",
            "ema.weight.copy_(net.weight)\n        ema.bias.copy_(net.bias)",
        )
    ),
]
# Nothing follows: the target stays as it was made.
STAYS = [
    "pass",
    PAIRS + "        q.data.clamp_(-1, 1)",
    "ema.load_state_dict(ema.state_dict())",
]


@pytest.mark.parametrize("body", [*UPDATES, *STAYS])
def test_a_module_that_follows_what_is_trained(body: str) -> None:
    program = FOLLOWS.replace("BODY", body)
    if importlib.util.find_spec("torch") is not None:
        names: dict[str, object] = {}
        before = "initial = {n: p.clone() for n, p in model.target.named_parameters()}\nfor step"
        after = "moved = any((initial[n] != p).any().item() for n, p in model.target.named_parameters())\n"
        exec(compile(program.replace("for step", before) + after, body, "exec"), names)
        assert names["moved"] is (body in UPDATES)
    files = MemoryFiles({"main.py": program})
    found = [f.code for findings in check(Project(files), files.paths()).findings.values() for f in findings]
    assert found == (["GL104"] if body in STAYS else [])


# A scaler of which only the scale is used: what its methods do is done by hand, and nothing is missing.
BY_THE_SCALE = """
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    for p in model.parameters():
        DIVIDE
    optimizer.step()
    scaler.update(65536.0)
"""


@pytest.mark.parametrize(
    "divide",
    ["p.grad.div_(scaler.get_scale())", "p.grad /= scaler.get_scale()", "p.grad = p.grad / scaler.get_scale()"],
)
def test_a_scale_that_is_divided_out_by_hand(divide: str) -> None:
    program = HEAD + BY_THE_SCALE.replace("DIVIDE", divide)
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, divide, "exec"), {})
    files = MemoryFiles({"main.py": program})
    assert not [f.message for found in check(Project(files), files.paths()).findings.values() for f in found]


@pytest.mark.parametrize("applied", [False, True])
def test_a_function_through_which_nothing_goes_backward(applied: bool) -> None:
    program = """
import torch


class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number, x):
        index = x.topk(number).indices
        ctx.mark_non_differentiable(index)
        return index

    @staticmethod
    def backward(ctx, grad=None):
        return None


nearest = Nearest.apply
"""
    if applied:
        program += "x = torch.randn(5, requires_grad=True)\nx[nearest(2, 2 * x)].sum().backward()\n"
    if importlib.util.find_spec("torch") is not None:
        exec(compile(program, "nearest", "exec"), {})
    files = MemoryFiles({"main.py": program})
    assert not [f.message for found in check(Project(files), files.paths()).findings.values() for f in found]


# An optimizer of a model of which copies are trained: what they have learned is brought back, by any of these ways.
COPIES = """
import copy
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    learner = copy.deepcopy(model)
    inner = torch.optim.SGD(learner.parameters(), lr=0.1)
    for _ in range(2):
        inner.zero_grad()
        F.mse_loss(learner(torch.randn(8, 2)), torch.randn(8, 1)).backward()
        inner.step()
    optimizer.zero_grad()
    BACK
    optimizer.step()
"""
PAIR = "for p, q in zip(model.parameters(), learner.parameters()):\n        "
BACK = [
    PAIR + "p.grad = q.grad",
    PAIR + "p.grad = p.data - q.data",
    PAIR + "p.data.add_(q.data - p.data, alpha=0.1)",
    "with torch.no_grad():\n        " + PAIR + "    p.lerp_(q, 0.1)",
    "model.load_state_dict(learner.state_dict())",
    "model.load_state_dict({k: (v + learner.state_dict()[k]) / 2 for k, v in model.state_dict().items()})",
    "nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(learner.parameters()), model.parameters())",
    "model.weight.grad, model.bias.grad = learner.weight.grad.clone(), learner.bias.grad.clone()",
    "model.weight.data = learner.weight.data.clone()",
    "grads = dict(learner.named_parameters())\n    for n, p in model.named_parameters():\n        p.grad = grads[n].grad",
    "torch._foreach_lerp_([p.data for p in model.parameters()], [q.data for q in learner.parameters()], 0.1)",
]


@pytest.mark.parametrize("back", BACK)
def test_what_a_copy_has_learned_is_brought_back(back: str) -> None:
    program = COPIES.replace("BACK", back)
    if importlib.util.find_spec("torch") is not None:
        names: dict[str, object] = {}
        start = "first = [p.clone() for p in model.parameters()]\nfor _ in range(3):"
        exec(compile(program.replace("for _ in range(3):", start), back, "exec"), names)
        first, model = names["first"], names["model"]
        assert any((p != q).any().item() for p, q in zip(first, model.parameters(), strict=True))  # type: ignore[attr-defined, call-overload]
    files = MemoryFiles({"main.py": program})
    found = [f for findings in check(Project(files), files.paths()).findings.values() for f in findings]
    assert not [f.message for f in found if f.code == "GL417"]
