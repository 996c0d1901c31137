"""Changes in place: an error is reported exactly where torch's backward raises one."""

from __future__ import annotations

import pytest
from fixture import MemoryFiles

from gradline.check import check, fix
from gradline.project import Project

pytest.importorskip("torch")

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

fc, w = nn.Linear(4, 4), nn.Parameter(torch.rand(4) + 1)
mix, x = nn.Parameter(torch.rand(4, 4)), torch.rand(4, 4)
conv, norm = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
h = fc(x).abs()
"""

# statements between HEAD and the backward of `h`, separated by semicolons
CHANGES = [
    # augmented assignments keep their own input as it was; `@=` makes a new tensor
    "h *= w", "h /= w", "h /= w.exp()", "h **= 2", "h **= w", "h %= w", "h *= h.sigmoid()", "g = h.sigmoid(); h *= g",
    "h *= w; h *= w", "y = torch.zeros(4, 4); y += h * w; y *= w; h = y", "h @= mix", "h @= h", "h @= mix; h *= w",
    "h *= h.exp()", "h -= h.exp()", "h *= w; h += w", "h[0] *= w", "h.mul_(w)", "h.div_(w)", "h.pow_(2)", "h.pow_(w)",
    # what another operation has kept must not change
    "h *= h", "h *= h.detach()", "h /= h", "h **= h", "h *= h.sin()", "h *= h.pow(2)", "h = h.relu(); h *= w",
    "h = h.sigmoid(); h *= w", "h = h.sigmoid(); h += x; h *= w", "k = h * w; h += 1; h = k", "h **= 2; h **= w; h += 1",
    "k = h; h @= mix; k *= 2", "h = h.tanh(); h -= 1", "h.mul_(h)", "h.div_(h)", "k = h / w; w.data.add_(1); h = k",
    # activations that are told to work in place
    *(f"h = F.{name}(norm(conv(torch.rand(2, 4, 8, 8))), inplace=True)" for name in ("silu", "mish", "hardswish", "relu")),
    *(f"h = F.{name}(h, inplace=True)" for name in ("elu", "leaky_relu", "relu6", "hardtanh", "celu", "hardsigmoid")),
    *(f"h = nn.{name}(inplace=True)(h)" for name in ("SiLU", "Mish", "Hardswish", "ELU", "ReLU6", "Hardsigmoid")),
    *(f"h = F.{name}(h.sigmoid(), inplace=True)" for name in ("silu", "mish", "hardswish", "hardsigmoid", "relu", "elu")),
    "F.silu(h, inplace=True)", "h = F.silu(h, inplace=True); h += 1", "s = F.silu(h); h += 1; h = s",
    "h = nn.SiLU(inplace=True)(h.sigmoid())",
]  # fmt: skip


def raises(source: str) -> bool:
    """Whether torch refuses the backward because of a change in place."""
    try:
        exec(compile(source, "main.py", "exec"), {"__name__": "__main__"})
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


@pytest.mark.parametrize("change", CHANGES)
def test_as_torch_says(change: str) -> None:
    source = HEAD + change.replace("; ", "\n") + "\nh.sum().backward()\n"
    files = MemoryFiles({"main.py": source})
    findings = check(Project(files), files.paths()).findings
    said = [f.code for found in findings.values() for f in found if f.severity.fails]
    assert said == (["GL305"] if raises(source) else [])


LAYERS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.first = nn.Embedding(4, 8), nn.Linear(8, 8)
        self.scale, self.last = nn.Parameter(torch.ones(8)), nn.Linear(8, 1)

    def forward(self, i):
        return self.last(self.first(self.embed(i)).relu() * self.scale)


net, alone = Net(), nn.Linear(8, 1)
loss = net(torch.tensor([1, 2])).pow(2).mean() + alone(torch.randn(2, 8)).mean()
CHANGE
loss.backward()
"""
# What is done to the parameters between a forward and its backward: autograd has saved some of them, and not others.
BETWEEN = [
    "net.load_state_dict(Net().state_dict())", "net.last.load_state_dict(net.last.state_dict())",
    "net.embed.load_state_dict(net.embed.state_dict())", "alone.load_state_dict(nn.Linear(8, 1).state_dict())",
    "net.load_state_dict(Net().state_dict(), assign=True)", "Net().load_state_dict(net.state_dict())",
    "net.load_state_dict({}, strict=False)", "nn.init.zeros_(net.last.bias)", "nn.init.xavier_uniform_(net.last.weight)",
    "nn.init.ones_(net.scale)", "nn.init.ones_(alone.weight)", "nn.init.normal_(net.embed.weight)",
    "from torch.nn import init; init.kaiming_normal_(net.first.weight)",
]  # fmt: skip


@pytest.mark.parametrize("change", BETWEEN)
def test_parameters_written_between_forward_and_backward(change: str) -> None:
    source = LAYERS.replace("CHANGE", change.replace("; ", "\n"))
    files = MemoryFiles({"main.py": source})
    project = Project(files)
    found = [f for findings in check(project, files.paths()).findings.values() for f in findings if f.severity.fails]
    assert [f.code for f in found] == (["GL305"] if raises(source) else [])
    assert all(fix(project, f) is None for f in found)
