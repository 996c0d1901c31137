"""A program runs on torch and trains what should train, once its safe fixes are made; what would break it is not offered."""

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
    """`becomes` is what the safe fix makes of some lines of `wrong`; None: there is no safe fix."""

    wrong: str
    becomes: dict[str, str] | None
    trains: tuple[str, ...] = ()


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
}  # fmt: skip


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    pytest.importorskip("torch")
    runner = Runner()
    yield runner
    runner.close()


def mended(program: str) -> str:
    """The program after its safe fixes."""
    memory = MemoryFiles({"main.py": program})
    project = Project(memory)
    found = [f for of_file in check(project, memory.paths()).findings.values() for f in of_file if f.severity.fails]
    assert found
    fixes = [made for f in found if (made := fix(project, f)) is not None and made.applicability is Applicability.SAFE]
    return apply(program, {edit for made in fixes for edit in made.edits})


@pytest.mark.parametrize("name", CASES)
def test_the_program_runs_and_trains(name: str, runner: Runner) -> None:
    case = CASES[name]
    program = HEAD + case.wrong
    better = program
    for old, new in (case.becomes or {}).items():
        assert better.count(old) == 1, old
        better = better.replace(old, new)
    assert mended(program) == better
    if case.becomes is not None:
        outcome = runner.run({"main.py": better}, trains=case.trains)
        assert not outcome.error, f"raises {outcome.error} at {outcome.at}"
        assert not outcome.trains
