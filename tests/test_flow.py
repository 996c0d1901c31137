"""What the interpreter knows, asked inside the program: `reveal(x)  # attached`.

The words: attached, cut, plain, leaf, number, array, unknown; `off`, `on`, `maybe` for `reveal(mode)`.
"""

from __future__ import annotations

import re

import pytest
from fixture import MemoryFiles

from gradline import ir
from gradline.facts import Array, Const, Mode, Number, Tensor, Value
from gradline.findings import Place
from gradline.flow import events, interpret, program
from gradline.flow.interp import Interpreter
from gradline.flow.operations import graph_of
from gradline.project import Project

HEAD = """\
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Linear(4, 1)
x = torch.randn(8, 4)
"""


def word(value: Value) -> str:
    if isinstance(value, Tensor):
        if value.leaf is not None:
            return "leaf"
        node, sure = graph_of(value)
        if not sure:
            return "unknown"
        return "attached" if node is not None else "cut" if value.cuts else "plain"
    if isinstance(value, (Number, Const)):
        return "number"
    return "array" if isinstance(value, Array) else "unknown"


def revealed(files: dict[str, str]) -> list[tuple[str, str]]:
    """For each `reveal(expression)  # word` of main.py: what the interpreter says, and the word."""
    memory = MemoryFiles(files)
    project = Project(memory)
    module = project.module(memory.paths()[0])
    assert module is not None
    text = module.source.text
    marks = list(re.finditer(r"reveal\((.*)\)  # (\w+)", text))
    asked: dict[Place, list[tuple[Value, Mode]]] = {Place(module.path, m.start(1), m.end(1)): [] for m in marks}

    def watch(run: Interpreter, e: ir.Expr | ir.Param, value: Value) -> None:
        found = asked.get(run.place(e.at))
        if found is not None:
            found.append((value, run.state.mode))

    list(interpret(project, module, lambda name, text: False, watch))
    answers = []
    for mark in marks:
        seen = asked[Place(module.path, mark.start(1), mark.end(1))]
        assert seen, f"never reached: {mark[0]}"
        value, mode = seen[-1]
        said = mode.kind if mark[2] in ("on", "off", "inference", "maybe") else word(value)
        answers.append((said, mark[2]))
    return answers


PROGRAMS = {
    "operations keep the line": """
reveal(model(x))  # attached
reveal(model(x).relu().sum())  # attached
reveal(x * 2)  # plain
reveal(model.weight)  # leaf
""",
    "cuts": """
y = model(x)
reveal(y.detach())  # cut
reveal(y.data)  # cut
reveal(y.sum().item())  # number
reveal(y.detach().numpy())  # array
reveal(torch.tensor(y))  # cut
reveal(y.argmax(dim=1))  # cut
reveal(y > 0)  # cut
reveal(torch.stack([y, y]))  # attached
reveal((y > 0) * y)  # attached
""",
    "a coefficient is no cut": """
y = model(x).mean()
reveal(y / y.item())  # attached
reveal(y + (x.sum() - y).detach())  # attached
""",
    "grad mode is a dynamic scope": """
def inner():
    return model(x)

with torch.no_grad():
    reveal(x)  # off
    reveal(inner())  # cut
    with torch.enable_grad():
        reveal(inner())  # attached
reveal(inner())  # attached

@torch.no_grad()
def decorated():
    return inner()
reveal(decorated())  # cut
reveal(x)  # on
""",
    "a switch outlives its function": """
def evaluate():
    torch.set_grad_enabled(False)
evaluate()
reveal(model(x))  # cut
torch.set_grad_enabled(True)
reveal(model(x))  # attached
""",
    "saved and restored": """
def guarded():
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        return model(x)
    finally:
        torch.set_grad_enabled(before)
reveal(guarded())  # cut
reveal(x)  # on
""",
    "branches join": """
y = model(x)
if random.random() > 0.5:
    z = y.detach()
else:
    z = y
reveal(z)  # unknown
w = y if random.random() > 0.5 else y * 2
reveal(w)  # attached
with torch.set_grad_enabled(random.random() > 0.5):
    reveal(x)  # maybe
""",
    "what is known decides": """
for phase in ("train", "val"):
    with torch.set_grad_enabled(phase == "train"):
        y = model(x)
    if phase == "train":
        reveal(y)  # attached
    else:
        reveal(y)  # cut
""",
    "containers and attributes": """
class Box:
    def __init__(self):
        self.values = []
        self.last = None

    def put(self, value):
        self.values.append(value)
        self.last = value

box = Box()
box.put(model(x))
reveal(box.last)  # attached
reveal(box.values[0])  # attached
losses = {"a": model(x).sum(), "b": model(x).sum().item()}
reveal(losses["a"])  # attached
reveal(losses["b"])  # number
first, *rest = [model(x), x]
reveal(first)  # attached
reveal(sum([model(x).sum() for _ in range(3)]))  # attached
""",
    "closures, defaults, generators, partial": """
import functools

def outer(scale=2):
    def run(value):
        return model(value) * scale
    return run
reveal(outer()(x))  # attached

def batches():
    for _ in range(3):
        yield x
for batch in batches():
    reveal(model(batch))  # attached

half = functools.partial(torch.mul, 0.5)
reveal(half(model(x)))  # attached
""",
    "frozen": """
for p in model.parameters():
    p.requires_grad = False
reveal(model(x))  # plain
model.requires_grad_(True)
reveal(model(x))  # attached
""",
    "one of two leaves, and one of them frozen since": """
a, b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
either = a if random.random() < 0.5 else b
reveal(either * 2)  # attached
a.requires_grad_(False)
reveal(either * 2)  # unknown
""",
    "a switch that an exception may leave behind": """
with torch.no_grad():
    try:
        torch.set_grad_enabled(random.random() < 0.5)
        if random.random() < 0.5:
            raise ValueError
    except ValueError:
        reveal(x)  # maybe
    reveal(x)  # maybe
reveal(x)  # on
""",
    "blocks that end together": """
import contextlib

with contextlib.ExitStack() as stack:
    if random.random() < 0.5:
        stack.enter_context(torch.no_grad())
    reveal(x)  # maybe
reveal(x)  # on
stack = contextlib.ExitStack()
stack.enter_context(torch.no_grad())
reveal(model(x))  # cut
stack.close()
reveal(x)  # on
""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor

def off():
    torch.set_grad_enabled(False)
    return model(x)

pool = ThreadPoolExecutor(max_workers=1)
reveal(pool.submit(off).result())  # cut
reveal(x)  # on
reveal(pool.submit(lambda: model(x)).result())  # cut
reveal(ThreadPoolExecutor(max_workers=1).submit(lambda: model(x)).result())  # attached
""",
    "members of an enumeration": """
import enum

class Phase(enum.Enum):
    TRAIN = 0,
    VAL = 1,

y = model(x) if Phase.VAL == Phase.TRAIN else 3.0
reveal(y)  # number
""",
    "in place": """
a = torch.zeros(8, 1)
b = a
a += model(x)
reveal(a)  # attached
reveal(b)  # attached
""",
    "checkpoint and compile are transparent": """
from torch.utils.checkpoint import checkpoint
reveal(checkpoint(model, x, use_reentrant=False))  # attached
reveal(torch.compile(model)(x))  # attached
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_known(name: str) -> None:
    answers = revealed({"main.py": HEAD + PROGRAMS[name]})
    assert [said for said, _ in answers] == [meant for _, meant in answers]


def test_other_files() -> None:
    files = {
        "main.py": "import torch\nfrom pkg import helper, Net\nfrom pkg.deep.low import *\nx = torch.randn(2, 4)\n"
        "net = Net()\nreveal(net(x))  # attached\nreveal(helper(net, x))  # cut\nreveal(lower(net(x)))  # number\n",
        "pkg/__init__.py": "from .net import Net\nfrom . import tools\nhelper = tools.helper\n",
        "pkg/net.py": "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.lin = nn.Linear(4, 1)\n    def forward(self, x):\n        return self.lin(x)\n",
        "pkg/tools.py": "def helper(net, x):\n    return net(x).detach()\n",
        "pkg/deep/low.py": "def lower(y):\n    return float(y.sum())\n",
    }
    answers = revealed(files)
    assert [said for said, _ in answers] == [meant for _, meant in answers]


def test_import_cycle_and_what_an_import_leaves() -> None:
    files = {
        "main.py": "import torch\nimport a\nreveal(torch.nn.Linear(2, 1)(torch.randn(1, 2)))  # cut\n",
        "a.py": "import b\nimport torch\n",
        "b.py": "import a\nimport torch\ntorch.set_grad_enabled(False)\n",
    }
    answers = revealed(files)
    assert [said for said, _ in answers] == [meant for _, meant in answers]


def steps(body: str) -> list[events.Event]:
    memory = MemoryFiles({"main.py": HEAD + body})
    project = Project(memory)
    module = project.module(memory.paths()[0])
    assert module is not None
    return next(interpret(project, module, lambda name, text: False)).events


def test_the_second_pass_of_a_loop_is_a_second_iteration() -> None:
    found = steps(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(9):\n    model(x).sum().backward()\n    optimizer.step()\n"
    )
    stepped = [event for event in found if isinstance(event, events.Step)]
    assert [bool(event.stale) for event in stepped] == [False, True]


def test_a_graph_that_is_carried_over_is_walked_again() -> None:
    found = steps(
        "h = torch.zeros(8, 1)\nfor _ in range(9):\n    h = torch.tanh(model(x) + h)\n    h.sum().backward()\n"
    )
    walked = [event for event in found if isinstance(event, events.Backward)]
    assert [bool(event.freed) for event in walked] == [False, True]


def test_bounds_end_a_path_without_a_claim() -> None:
    body = "def f(n):\n    return f(n - 1) + f(n - 2)\nreveal(f(9))  # unknown\n"
    assert revealed({"main.py": HEAD + body})[0][0] == "unknown"


def test_an_undone_branch_leaves_no_trace() -> None:
    memory = MemoryFiles({"main.py": HEAD})
    project = Project(memory)
    run = Interpreter(project)
    cells: dict[str, object] = {"kept": 1}
    mark = run.state.mark()
    run.state.set(cells, "kept", 2)
    run.state.set(cells, "new", 3)
    changes = run.state.take(mark)
    assert cells == {"kept": 1}
    run.state.apply(changes)
    assert cells == {"kept": 2, "new": 3}


DEEP = """
import torch
from torch import nn
first, later = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*first.parameters(), *later.parameters()], lr=0.1)
for epoch in range(epochs):
    for batch in batches:
        {before}
        for x in batch:
            {body}
        optimizer.zero_grad()
        h.sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("started = False", "h, started = (later(h) if started else first(x)), True"),
        ("h = None", "h = first(x) if h is None else later(h)"),
        ("seen = []", "h = later(seen[-1]) if seen else first(x); seen.append(h)"),
        ("seen = {}", "h = later(seen['h']) if 'h' in seen else first(x); seen['h'] = h"),
        ("count = 0", "h = later(h) if count else first(x); count += 1"),
        ("layer = first; h = torch.zeros(4)", "h = layer(x + h); layer = later"),
    ],
    ids=["a flag", "a value", "a list", "a dict", "a number", "a module"],
)
def test_a_loop_inside_two_others_goes_another_way_the_second_time(before: str, body: str) -> None:
    """Its body is passed once where nothing changes; here the second iteration takes another way."""
    source = "import torch\nbatches, epochs = torch.zeros(2, 3, 4), int(input())\n" + DEEP.format(
        before=before, body=body
    )
    memory = MemoryFiles({"main.py": source})
    project = Project(memory)
    module = project.module("/project/main.py")
    assert module is not None
    flow = program(project, module)
    backward = list(flow.of(events.Backward))[-1]
    assert len(set(backward.reached)) == 2, "the weights of both layers"


AGAIN = """
import torch
from torch import nn
first, later = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*first.parameters(), *later.parameters()], lr=0.1)
batches, epochs = torch.zeros(2, 4), int(input())
warm, seen, previous, grown = False, [], None, None
for epoch in range(epochs):
    {before}
    for x in batches:
        {body}
        optimizer.zero_grad()
        h.sum().backward()
        optimizer.step()
    {after}
"""


def backwards(source: str) -> list[events.Backward]:
    project = Project(MemoryFiles({"main.py": source}))
    module = project.module("/project/main.py")
    assert module is not None
    flow = program(project, module)
    assert flow.complete
    return list(flow.of(events.Backward))


def test_a_loop_that_came_to_rest_is_passed_once_in_a_later_iteration_around_it() -> None:
    """Twice in the first epoch; in the second, which finds everything as the first left it, once."""
    assert len(backwards(AGAIN.format(before="pass", body="h = later(first(x))", after="pass"))) == 3


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ("previous = None", "h = later(previous) if previous is not None else first(x); previous = x if warm else None", "warm = True"),
        ("ready = False", "h = later(x) if ready else first(x); ready = warm", "warm = True"),
        ("layer = first", "h = layer(x); layer = later if warm else first", "warm = True"),
        ("seen = []", "h = later(x) if seen else first(x); seen += [x] if warm else []", "warm = True"),
        ("grown = x0 = torch.zeros(4)", "h = first(x + grown); grown = later(x).detach() if not warm else later(h)", "warm = True"),
    ],
    ids=["a value", "a flag", "a module", "a list", "a graph"],
)  # fmt: skip
def test_a_loop_goes_another_way_in_a_later_iteration_of_the_loop_around_it(before: str, body: str, after: str) -> None:
    """In the first epoch each iteration is as the one before; in the second epoch the second one is not."""
    found = backwards(AGAIN.format(before=before, body=body, after=after))
    assert len(found) >= 4
    assert len({leaf for backward in found for leaf in backward.reached}) == 2, "the weights of both layers"
