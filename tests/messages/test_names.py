"""Messages speak in the user's own names: the code at a place, shortened, and parameters by the path of attributes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradline.flow.naming import CODE_LIMIT, quoted
from gradline.text import Source

sys.path.insert(0, str(Path(__file__).parents[1]))

from rule_claims import Gradline


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("loss", "`loss`"),
        ("criterion(model(x), y)", "`criterion(model(x), y)`"),
        ("F.cross_entropy(\n    model(x),\n    y,\n)", "`F.cross_entropy( model(x), y, )`"),
        ("torch.nn.functional.cross_entropy(model(inputs), targets)", "`torch.nn.functional.cross_entropy(...)`"),
        ("first_of_the_losses + second_of_the_losses + rest", "`first_of_the_losses + second_of_the_los…`"),
        ("", "?"),
    ],
)
def test_code_is_quoted_on_one_line_and_shortened(code, shown):
    assert quoted(Source(code), 0, len(code)) == shown
    assert len(quoted(Source(code), 0, len(code))) <= CODE_LIMIT + 2


def test_of_a_file_that_cannot_be_read_nothing_is_quoted():
    assert quoted(None, 0, 4) == "?"


PROGRAM = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).detach()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(2, 4)).sum()
loss.backward()
optimizer.step()
"""


def test_parameters_are_called_by_their_path_from_the_outermost_module():
    messages = [finding.message for finding in Gradline().findings({"main.py": PROGRAM})]
    assert any("(`Net.blocks[0].inner`, `Net.blocks[1].inner`)" in message for message in messages), messages


def test_names_that_are_left_out_are_counted():
    layers = ", ".join(["nn.Linear(4, 4)"] * 7)
    program = PROGRAM.replace("nn.ModuleList([Block(), Block()])", f"nn.Sequential({layers})").replace(
        "        for block in self.blocks:\n            x = block(x)\n", "        x = self.blocks(x).detach()\n"
    )
    messages = [finding.message for finding in Gradline().findings({"main.py": program})]
    four = ", ".join(f"`Net.blocks[{i}]`" for i in range(4))
    assert any(f"({four} and 3 more)" in message for message in messages), messages
