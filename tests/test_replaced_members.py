"""A frozen model into which modules and parameters are put: where they went is often not known, and then nothing may be
said of what the model lacks. Each program trains on torch, with all of the model or with the end of it."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.project import Project

HEAD = """
import functools, operator, types
import torch
from torch import nn
import torch.nn.functional as F

class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(base.in_features, 2) * 0.1)
        self.b = nn.Parameter(torch.randn(2, base.out_features) * 0.1)

    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b

class Block(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.q, self.v = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        return x + self.v(torch.relu(self.q(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))

net = Net()
net.requires_grad_(False)
names = [n for n, m in net.named_modules() if isinstance(m, nn.Linear)]
"""
WHOLE = """
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
for i in range(3):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
END = """
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    with torch.no_grad():
        h = net.body[0](torch.randn(8, 4))
    loss = net.head(net.body[1](h)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
RIGHT = {
    "attrgetter": """
for n in names:
    path, _, leaf = n.rpartition(".")
    parent = operator.attrgetter(path)(net) if path else net
    setattr(parent, leaf, Lora(getattr(parent, leaf)))
""",
    "reduce": """
for n in names:
    *path, leaf = n.split(".")
    parent = functools.reduce(getattr, path, net)
    setattr(parent, leaf, Lora(getattr(parent, leaf)))
""",
    "vars": """
for n in names:
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    old = getattr(parent, leaf)
    del parent._modules[leaf]
    vars(parent)[leaf] = Lora(old)
opt_extra = [p for m in net.modules() for v in vars(m).values() if isinstance(v, Lora) for p in (v.a, v.b)]
net.extra = nn.ParameterList(opt_extra)
""",
    "modules dict": """
for n in names:
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    parent._modules[leaf] = Lora(parent._modules[leaf])
""",
    "modules dict alias": """
for m in list(net.modules()):
    children = m._modules
    for n in list(children):
        if isinstance(children[n], nn.Linear):
            children[n] = Lora(children[n])
""",
    "update": """
for m in list(net.modules()):
    m._modules.update({n: Lora(c) for n, c in m._modules.items() if isinstance(c, nn.Linear)})
""",
    "apply": """
def wrap(m):
    for n, c in list(m.named_children()):
        if isinstance(c, nn.Linear):
            setattr(m, n, Lora(c))
net.apply(wrap)
""",
    "recursive": """
def wrap(m):
    for n, c in m.named_children():
        if isinstance(c, nn.Linear):
            setattr(m, n, Lora(c))
        else:
            wrap(c)
wrap(net)
""",
    "recursive add_module": """
def wrap(m):
    for n, c in list(m.named_children()):
        if isinstance(c, nn.Linear):
            m.add_module(n, Lora(c))
        else:
            wrap(c)
wrap(net)
""",
    "set_submodule": """
for n in names:
    net.set_submodule(n, Lora(net.get_submodule(n)))
""",
    "set_submodule known": """
net.set_submodule("body.0.q", Lora(net.get_submodule("body.0.q")))
""",
    "get_submodule known": """
net.get_submodule("body.0").q = Lora(net.body[0].q)
""",
    "setattr method": """
for n in names:
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    parent.__setattr__(leaf, Lora(getattr(parent, leaf)))
""",
    "nn setattr": """
for n in names:
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    nn.Module.__setattr__(parent, leaf, Lora(getattr(parent, leaf)))
""",
    "forward lambda": """
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.delta = nn.Parameter(torch.zeros_like(m.weight))
        m.forward = lambda x, m=m: F.linear(x, m.weight + m.delta, m.bias)
""",
    "forward method type": """
def forward(self, x):
    return F.linear(x, self.weight + self.delta, self.bias)
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.register_parameter("delta", nn.Parameter(torch.zeros_like(m.weight)))
        m.forward = types.MethodType(forward, m)
""",
    "forward get": """
def forward(self, x):
    return F.linear(x, self.weight + self.delta, self.bias)
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.register_parameter("delta", nn.Parameter(torch.zeros_like(m.weight)))
        m.forward = forward.__get__(m)
""",
    "forward of unknown": """
def patch(m):
    old = m.forward
    scale = nn.Parameter(torch.ones(1))
    m.register_parameter("scale", scale)
    m.forward = lambda x: old(x) * scale
for n in names:
    patch(net.get_submodule(n))
""",
    "class patched": """
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.delta = nn.Parameter(torch.zeros_like(m.weight))
def forward(self, x):
    return F.linear(x, self.weight + self.delta, self.bias)
nn.Linear.forward = forward
""",
    "class set": """
class Delta(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight + self.delta, self.bias)
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.__class__ = Delta
        m.delta = nn.Parameter(torch.zeros_like(m.weight))
""",
    "class set one": """
class Delta(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight + self.delta, self.bias)
net.head.__class__ = Delta
net.head.delta = nn.Parameter(torch.zeros(2, 4))
""",
    "hook on unknown": """
extra = nn.Linear(4, 4)
net.get_submodule(names[0]).register_forward_hook(lambda m, i, o: o + extra(i[0]))
net.extra = extra
""",
    "parametrize": """
class Delta(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.Parameter(torch.zeros(1))
    def forward(self, w):
        return w + self.d
for m in list(net.modules()):
    if isinstance(m, nn.Linear):
        nn.utils.parametrize.register_parametrization(m, "weight", Delta())
""",
    "parametrize by name": """
class Delta(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.Parameter(torch.zeros(1))
    def forward(self, w):
        return w + self.d
for n in names:
    nn.utils.parametrize.register_parametrization(net.get_submodule(n), "weight", Delta())
""",
    "get_parameter": """
for n in names[:2]:
    net.get_parameter(n + ".weight").requires_grad_(True)
""",
    "get_parameter flag": """
for n in names[:2]:
    net.get_parameter(n + ".weight").requires_grad = True
""",
    "attrgetter thaw": """
for n in names[:2]:
    operator.attrgetter(n + ".weight")(net).requires_grad = True
""",
    "get_submodule thaw": """
for n in names[:2]:
    net.get_submodule(n).requires_grad_(True)
""",
    "dict thaw": """
params = dict(net.named_parameters())
for n in names[:2]:
    params[n + ".weight"].requires_grad_()
""",
    "items thaw": """
for n, p in dict(net.named_parameters()).items():
    if n.endswith("bias"):
        p.requires_grad_()
""",
    "sequential item": """
for i in range(len(net.body)):
    old = net.body[i]
    net.body[i] = nn.Sequential(old, nn.Linear(4, 4))
""",
    "parent item": """
parent = getattr(net, "bo" + "dy")
for key in ("0", "1"):
    parent[int(key)] = nn.Sequential(parent[int(key)], nn.Linear(4, 4))
""",
    "is sequential": """
for n, m in list(net.named_modules()):
    if not isinstance(m, Block):
        continue
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    new = nn.Sequential(m, nn.Linear(4, 4))
    if leaf.isdigit():
        parent[int(leaf)] = new
    else:
        setattr(parent, leaf, new)
""",
    "map": """
swaps = {}
for n, m in net.named_modules():
    for k, c in m.named_children():
        if isinstance(c, nn.Linear):
            swaps[m, k] = Lora(c)
for (m, k), new in swaps.items():
    setattr(m, k, new)
""",
    "parameter replaced": """
for n in [n for n, p in net.named_parameters()]:
    path, _, leaf = n.rpartition(".")
    parent = net.get_submodule(path)
    setattr(parent, leaf, nn.Parameter(getattr(parent, leaf).detach().clone()))
""",
    "parameters dict": """
for m in net.modules():
    for k, p in list(m._parameters.items()):
        m._parameters[k] = nn.Parameter(p.detach().clone())
""",
    "register_parameter unknown": """
for m in net.modules():
    for k, p in list(m.named_parameters(recurse=False)):
        m.register_parameter(k, nn.Parameter(p.detach().clone()))
""",
    "keyword register": """
net.head.register_parameter(name="weight", param=nn.Parameter(torch.randn(2, 4)))
""",
    "exec": """
for n in names:
    exec(f"net.get_submodule({n.rpartition('.')[0]!r}).{n.rpartition('.')[2]} = Lora(net.get_submodule({n!r}))")
""",
    "modules order": """
from collections import OrderedDict
net._modules = OrderedDict((n, nn.Sequential(c, nn.Linear(4, 4)) if n == "body" else c) for n, c in net._modules.items())
""",
    "seq unknown append": """
functools.reduce(getattr, ["body"], net).append(nn.Linear(4, 4))
""",
    "weight of unknown": """
for n in names:
    m = operator.attrgetter(n)(net)
    m.weight = nn.Parameter(m.weight.detach().clone())
""",
    "wrap forward decorator": """
def wrap(forward, scale):
    @functools.wraps(forward)
    def inner(*args, **kwargs):
        return forward(*args, **kwargs) * scale
    return inner
net.scale = nn.Parameter(torch.ones(1))
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.forward = wrap(m.forward, net.scale)
""",
    "partial forward": """
def lora_forward(a, b, base, x):
    return base(x) + x @ a @ b
net.head.a, net.head.b = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 2))
net.head.forward = functools.partial(lora_forward, net.head.a, net.head.b, net.head.forward)
""",
    "call class": """
type(net).forward = lambda self, x: self.head(self.body(x)) + self.extra
net.extra = nn.Parameter(torch.zeros(2))
""",
    "class injector": """
class Injector:
    def __init__(self, model):
        self.model = model
        self.added = []
    def run(self):
        for n in names:
            self.swap(*self.find(n))
        return self
    def find(self, n):
        m = self.model
        *path, leaf = n.split(".")
        for p in path:
            m = m[int(p)] if p.isdigit() else getattr(m, p)
        return m, leaf
    def swap(self, parent, leaf):
        new = Lora(getattr(parent, leaf))
        self.added.append(new)
        setattr(parent, leaf, new)
net = Injector(net).run().model
""",
    "wrapper function": """
def replace(model, pick, make):
    for n, c in model.named_children():
        if pick(c):
            setattr(model, n, make(c))
        elif len(list(c.children())):
            replace(c, pick, make)
    return model
net = replace(net, lambda c: isinstance(c, nn.Linear), Lora)
""",
    "config name": """
import os
key = os.environ.get("HEAD_NAME", "head")
setattr(net, key, nn.Linear(4, 2))
""",
}
NOT_AT_THE_END = {"seq unknown append", "call class", "attrgetter thaw", "dict thaw", "get_parameter", "get_parameter flag", "get_submodule known",
                  "get_submodule thaw", "hook on unknown", "set_submodule known", "parent item"}  # fmt: skip


@pytest.fixture(autouse=True)
def torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the programs gives `nn.Linear` another forward."""
    if importlib.util.find_spec("torch") is not None:
        from torch import nn

        monkeypatch.setattr(nn.Linear, "forward", nn.Linear.forward)


def said(program: str, raises: str = "") -> list[str]:
    """The codes of what is said of a program, which was run on torch, too."""
    if importlib.util.find_spec("torch") is not None:
        code = compile(program, "main.py", "exec")
        if raises:
            with pytest.raises(RuntimeError, match=raises):
                exec(code, {})
        else:
            exec(code, {})
    files = MemoryFiles({"main.py": program})
    return [f.code for found in check(Project(files), files.paths()).findings.values() for f in found]


@pytest.mark.parametrize("how", RIGHT)
def test_the_whole_model_trains(how: str) -> None:
    assert said(HEAD + RIGHT[how] + WHOLE) == []


@pytest.mark.parametrize("how", [how for how in RIGHT if how not in NOT_AT_THE_END])
def test_the_end_of_the_model_trains(how: str) -> None:
    assert said(HEAD + RIGHT[how] + END) == []


# What is put where it is known changes what is known of that place, and of no other.
WRONG = {
    "nothing is put anywhere": ("", WHOLE.replace("[p for p in net.parameters() if p.requires_grad]", "net.parameters()")),
    "into the beginning": (RIGHT["set_submodule known"], END),
    "by an attribute": (RIGHT["get_submodule known"], END),
    "a frozen layer": ('net.set_submodule("head", nn.Linear(4, 2).requires_grad_(False))\n', END),
    "a hook that gives nothing back": (
        "seen = []\ndef look(m, i, o):\n    seen.append(o.detach())\n"
        "for n in names:\n    net.get_submodule(n).register_forward_hook(look)\n", END,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_what_surely_is_frozen_is_told(how: str) -> None:
    middle, end = WRONG[how]
    assert said(HEAD + middle + end, "does not require grad") == ["GL102"]


def test_names_that_a_constructor_makes_up_replace_nothing() -> None:
    program = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(4, 4)
        for i in range(n):
            setattr(self, f"layer{i}", nn.Linear(4, 4))
        self.n = n

    def forward(self, x):
        return self.first(x).detach()


net = Net(int(torch.ones(1)))
net(torch.randn(2, 4)).sum().backward()
"""
    assert said(program, "does not require grad") == ["GL102"]


# A helper that is not to be seen, on torch one that puts a layer into what it is given.
HELPED = """
for part in (net.body[0], net.head):
    part.requires_grad_(True)
net.body[1].requires_grad_(False)
net.head.requires_grad_(False)
from helpers import convert
convert(GIVEN)
"""


@pytest.mark.parametrize("given", ["net", "net.head"])
def test_what_code_that_is_not_seen_does_to_a_frozen_layer(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(module: Any) -> None:
        getattr(module, "head", module).requires_grad_(True)

    monkeypatch.setitem(sys.modules, "helpers", SimpleNamespace(convert=convert))  # type: ignore[arg-type]
    assert said(HEAD + HELPED.replace("GIVEN", given) + END) == []
