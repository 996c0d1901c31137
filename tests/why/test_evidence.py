"""Where no rule is sure, the error proves something: of the values on its line, what it proves is the answer."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from gradline.why import LIKELY, explain

from . import running
from .test_tracebacks import lines

pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("the programs are run in forks", allow_module_level=True)


class Case(NamedTuple):
    """A program that raises; `shows` is the line that the first answer must show, by its text, and `says` words of it."""

    program: str
    shows: str
    says: str


CASES = {
    "all parameters were frozen": Case(
        """
        import torch
        from torch import nn
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        net.head = nn.Linear(4, 2)
        for name, p in net.named_parameters():
            if not name.startswith("classifier"):
                p.requires_grad = False
        loss = nn.functional.cross_entropy(net[1](net[0](torch.randn(2, 4))), torch.tensor([0, 1]))
        loss.backward()
        """,
        "p.requires_grad = False",
        "nothing that `loss` was computed from requires grad",
    ),
    "layers in a plain list": Case(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4) for _ in range(3)]
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        """,
        "self.layers = [nn.Linear(4, 4) for _ in range(3)]",
        "plain list `layers`",
    ),
    "a head that the loss does not use": Case(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.extra = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
            def forward(self, x):
                return self.b(self.a(x))
        net = Net()
        net(torch.randn(2, 4)).sum().backward()
        for p in net.parameters():
            p.grad *= 0.5
        """,
        "net(torch.randn(2, 4)).sum().backward()",
        "extra",
    ),
    "an optimizer of other parameters": Case(
        """
        import torch
        from torch import nn
        net, old = nn.Linear(4, 1), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(old.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(net(torch.randn(2, 4)).mean()).backward()
        scaler.step(optimizer)
        """,
        "scaler.scale(net(torch.randn(2, 4)).mean()).backward()",
        "`.grad` stays None",
    ),
    "features of inference mode": Case(
        """
        import torch
        from torch import nn
        with torch.inference_mode():
            features = torch.randn(2, 4)
        head = nn.Linear(4, 1)
        loss = head(features).mean()
        """,
        "with torch.inference_mode():",
        "`features` was made in inference mode",
    ),
}


def test_the_values_on_the_line_are_evidence(tmp_path: Path) -> None:
    folders = []
    for number, case in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "pyproject.toml").write_text("")
        (folder / "main.py").write_text(textwrap.dedent(case.program))
        folders.append(folder)
    texts = running.run(((folder, "main.py") for folder in folders), together=True)
    for (name, case), folder, text in zip(CASES.items(), folders, texts, strict=True):
        explained = explain(text, str(folder))
        assert explained is not None and explained.found, f"{name}: {text}"
        first = explained.answers[0]
        written = (folder / "main.py").read_text().splitlines()
        shown = {written[row - 1].strip() for _, row in lines(explained)}
        assert case.shows in shown, f"{name}: {first.title}: {shown}"
        if first.finding is None:
            assert first.certainty == LIKELY and case.says in first.title, f"{name}: {first.title}"
