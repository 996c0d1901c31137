"""What a finding advises fits the program: each one raises on torch as is said, and runs once the advice is taken."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.project import Project

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)

"""
AGAIN = "backward through the graph a second time"


class Case(NamedTuple):
    wrong: str
    said: str  # a part of the message
    raises: str
    right: str


CASES = {
    "two losses of one pass": Case(
        """
out = model(x)
first, second = out[:, 0].pow(2).mean(), out[:, 1].pow(2).mean()
first.backward()
second.backward()
opt.step()
""",
        "`second` shares a part of its graph with `first`, whose backward has freed it: go backward once, from their sum, "
        "`(first + second).backward()`",
        AGAIN,
        """
out = model(x)
first, second = out[:, 0].pow(2).mean(), out[:, 1].pow(2).mean()
(first + second).backward()
opt.step()
""",
    ),
    "the losses of a loop": Case(
        """
for epoch in range(2):
    out = model(x)
    opt.zero_grad()
    for k in range(2):
        loss = out[:, k].pow(2).mean()
        loss.backward()
    opt.step()
""",
        "shares a part of its graph with the loss before, whose backward has freed it: go backward once, from the sum of "
        "the losses, after the loop",
        AGAIN,
        """
for epoch in range(2):
    out = model(x)
    opt.zero_grad()
    total = 0
    for k in range(2):
        total = total + out[:, k].pow(2).mean()
    total.backward()
    opt.step()
""",
    ),
    "what is computed before the loop": Case(
        """
out = model(x)
for step in range(3):
    loss = (out - torch.randn(8, 2)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        "walks a graph that was made before the loop, and that the first pass has freed: compute `model(x)` inside the loop",
        AGAIN,
        """
for step in range(3):
    out = model(x)
    loss = (out - torch.randn(8, 2)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a loss that is computed before the loop": Case(
        """
loss = model(x).pow(2).mean()
for step in range(3):
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        "goes backward in every pass of the loop, and its graph is freed in the first: compute it inside the loop",
        AGAIN,
        """
for step in range(3):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "one loss twice": Case(
        """
loss = model(x).pow(2).mean()
loss.backward()
loss.backward()
opt.step()
""",
        "`loss` goes backward a second time, and the first has freed its graph: once is enough",
        AGAIN,
        """
loss = model(x).pow(2).mean()
loss.backward()
opt.step()
""",
    ),
    "a gradient before the loss": Case(
        """
x.requires_grad_()
out = model(x)
slope = torch.autograd.grad(out.sum(), x)[0].norm()
out.pow(2).mean().backward()
""",
        "was freed by `torch.autograd.grad`: `retain_graph=True` there keeps it, or `create_graph=True`",
        AGAIN,
        """
x.requires_grad_()
out = model(x)
slope = torch.autograd.grad(out.sum(), x, retain_graph=True)[0].norm()
out.pow(2).mean().backward()
""",
    ),
    "a state that is carried over": Case(
        """
state = torch.zeros(8, 2)
for step in range(3):
    state = model(torch.cat([state, state], 1) + x).tanh()
    loss = state.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        "walks the graph of an earlier pass again, which is freed: detach what is carried into the next pass",
        AGAIN,
        """
state = torch.zeros(8, 2)
for step in range(3):
    state = model(torch.cat([state, state], 1) + x).tanh()
    loss = state.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    state = state.detach()
    opt.step()
""",
    ),
}


def messages(program: str) -> list[str]:
    memory = MemoryFiles({"main.py": program})
    found = check(Project(memory), memory.paths()).findings.values()
    return [finding.message for of_file in found for finding in of_file if finding.severity.fails]


@pytest.mark.parametrize("name", CASES)
def test_the_advice_fits(name: str) -> None:
    pytest.importorskip("torch")
    case = CASES[name]
    [message] = messages(HEAD + case.wrong)
    assert case.said in message
    with pytest.raises(RuntimeError, match=case.raises):
        exec(HEAD + case.wrong, {})
    assert messages(HEAD + case.right) == []
    exec(HEAD + case.right, {})
