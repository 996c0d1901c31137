"""Programs written in many styles: gradline says what is marked in them, and is silent where nothing is."""

from __future__ import annotations

import pytest
from fixture import MemoryFiles, parse

from gradline.check import check
from gradline.project import Project

HEAD = """\
import random
from collections import deque, namedtuple
import torch
import torch.nn.functional as F
from torch import nn

"""

WRONG = {
    "what the top level keeps of a run": """
def run():
    model = nn.Linear(4, 1)
    loss = model(torch.randn(8, 4)).mean().item()
    loss.backward()  # error: [number-backward]
    return model


model = run()
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
}

RIGHT = {
    "a copy of an inference tensor": """
encoder, net = nn.Linear(4, 4), nn.Linear(4, 1)
with torch.inference_mode():
    codes = encoder(torch.randn(8, 4))
for part in codes.clone().split(4):
    net(part).mean().backward()
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
}


def said(program: str) -> list[tuple[int, str, str]]:
    memory = MemoryFiles({"main.py": program})
    found = check(Project(memory), memory.paths()).findings
    return sorted(
        (program.count("\n", 0, f.place.start) + 1, str(f.severity.value), f.name)
        for findings in found.values()
        for f in findings
        if f.severity.fails
    )


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    marked = parse(HEAD + WRONG[name])
    assert said(marked.text) == sorted((m.line, m.kind, m.rule) for m in marked.marks)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not(name: str) -> None:
    assert said(HEAD + RIGHT[name]) == []
