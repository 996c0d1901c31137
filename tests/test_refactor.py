"""Refactorings: where they are offered, the text that they make, and that torch runs it as the title says."""

from __future__ import annotations

import contextlib
import io

import pytest
from fixture import MemoryFiles

from gradline import insight, refactor
from gradline.edits import apply
from gradline.project import Project

torch = pytest.importorskip("torch")

MAIN = f"{MemoryFiles.ROOT}/main.py"


class Text:
    """A program in memory; the cursor is put where a text stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.project = Project(MemoryFiles({"main.py": text}))
        self.known = insight.insight(self.project, MAIN)

    def offers(self, at: str) -> dict[str, bool]:
        """Titles, and whether they are safe."""
        found = refactor.offers(self.project, MAIN, self.text.index(at), self.known)
        return {offer.title: offer.safe for offer in found}

    def apply(self, at: str, title: str) -> str:
        """The text after the refactoring of this title."""
        offset = self.text.index(at)
        (offer,) = (o for o in refactor.offers(self.project, MAIN, offset, self.known) if o.title == title)
        fix = refactor.make(self.project, MAIN, offset, offer.name, self.known)
        assert fix is not None, "it was offered, but could not be made"
        assert fix.message == title
        return apply(self.text, fix.edits)


def run(text: str) -> dict[str, object]:
    """The program's names after it has run."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    before = torch.is_grad_enabled()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, "main.py", "exec"), namespace)
        namespace["grad_mode_at_end"] = torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(before)
    return namespace


# ---------------------------------------------------------------- a global switch

SWITCHED = """import torch


def measure(model, x):
    \"\"\"The largest output.\"\"\"
    torch.set_grad_enabled(False)
    y = model(x)
    if y.numel() > 1:
        y = y.max()
    return y  # done


model = torch.nn.Linear(2, 2)
top = measure(model, torch.ones(1, 2))
after = torch.is_grad_enabled()
"""


def test_a_switch_becomes_a_with() -> None:
    text = Text(SWITCHED)
    title = "Put what follows under `with torch.no_grad():`"
    assert text.offers("set_grad_enabled")[title] is False
    changed = text.apply("set_grad_enabled", title)
    assert changed == SWITCHED.replace(
        """    torch.set_grad_enabled(False)
    y = model(x)
    if y.numel() > 1:
        y = y.max()
    return y  # done
""",
        """    with torch.no_grad():
        y = model(x)
        if y.numel() > 1:
            y = y.max()
        return y  # done
""",
    )
    before, after = run(SWITCHED), run(changed)
    assert (before["after"], after["after"]) == (False, True)
    assert before["top"].requires_grad is after["top"].requires_grad is False


def test_a_switch_becomes_a_decorator() -> None:
    title = "Decorate `measure` with `@torch.no_grad()` instead"
    changed = Text(SWITCHED).apply("torch.set_grad_enabled", title)
    assert "@torch.no_grad()\ndef measure" in changed and "set_grad_enabled" not in changed
    after = run(changed)
    assert after["after"] is True and after["top"].requires_grad is False


def test_a_switch_is_saved_and_put_back() -> None:
    changed = Text(SWITCHED).apply("torch.set_grad_enabled", "Save the grad mode and put it back afterwards")
    assert changed == SWITCHED.replace(
        """    torch.set_grad_enabled(False)
    y = model(x)
    if y.numel() > 1:
        y = y.max()
    return y  # done
""",
        """    grad_mode = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        y = model(x)
        if y.numel() > 1:
            y = y.max()
        return y  # done
    finally:
        torch.set_grad_enabled(grad_mode)
""",
    )
    after = run(changed)
    assert after["after"] is True and after["top"].requires_grad is False


RESTORED = """import torch

model = torch.nn.Linear(2, 1)
torch.set_grad_enabled(False)
score = model(torch.ones(1, 2))
torch.set_grad_enabled(True)
loss = model(torch.ones(1, 2)).sum()
loss.backward()
"""


def test_a_switch_that_is_undone_in_its_block_takes_the_undoing_along() -> None:
    changed = Text(RESTORED).apply("torch.set_grad_enabled(False)", "Put what follows under `with torch.no_grad():`")
    assert changed == RESTORED.replace(
        "torch.set_grad_enabled(False)\nscore = model(torch.ones(1, 2))\ntorch.set_grad_enabled(True)\n",
        "with torch.no_grad():\n    score = model(torch.ones(1, 2))\n",
    )
    after = run(changed)
    assert after["model"].weight.grad is not None and not after["score"].requires_grad


def test_a_computed_switch_keeps_its_argument() -> None:
    text = "from torch import set_grad_enabled\nimport torch\n\ndef f(train):\n    set_grad_enabled(mode=train)\n    return torch.ones(1)\n"
    changed = Text(text).apply("set_grad_enabled(m", "Put what follows under `with set_grad_enabled(mode=train):`")
    assert "    with set_grad_enabled(mode=train):\n        return torch.ones(1)\n" in changed
    compile(changed, "main.py", "exec")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nx = 1\ntorch.set_grad_enabled(False)\n",  # nothing follows
        "import torch\ndef f():\n    torch.set_grad_enabled(False); y = 1\n    yield y\n",  # shares its line
        "import torch\ndef f():\n    torch.set_grad_enabled(False)\n    yield 1\n    if x(:\n",  # half typed
        "import paddle as torch\ndef f():\n    torch.set_grad_enabled(False)\n    return 1\n",  # another library's
        "import torch\nmode = torch.set_grad_enabled(False)\nx = 1\n",  # kept, perhaps as a context manager
    ],
)
def test_a_switch_that_is_left_alone(text: str) -> None:
    assert not Text(text).offers("torch.set_grad_enabled")


def test_a_generator_gets_the_decorator_alone() -> None:
    text = "import torch\n\n\ndef f():\n    torch.set_grad_enabled(False)\n    yield torch.ones(1)\n"
    (title,) = Text(text).offers("torch.set")
    assert title == "Decorate `f` with `@torch.no_grad()` instead"


# ---------------------------------------------------------------- inference mode

EVALUATED = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []


@torch.no_grad()
def evaluate():
    model.eval()
    total = 0.0
    for _ in range(2):
        x = torch.randn(8, 4)
        total += model(x).pow(2).mean().item()
    model.train()
    return total


for step in range(2):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(evaluate())
"""
USE = "Use `inference_mode`: nothing made here is needed for training"


def test_inference_mode_where_nothing_leaves() -> None:
    text = Text(EVALUATED)
    assert text.offers("@torch.no_grad") == {USE: True}
    changed = text.apply("@torch.no_grad", USE)
    assert changed == EVALUATED.replace("no_grad", "inference_mode")
    assert run(changed)["model"].weight.grad is not None


SCRIPT = """import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(2):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        out = model(torch.ones(2, 4))
        losses.append(out.mean().item())
    print(losses[-1])
"""


def test_inference_mode_for_a_block() -> None:
    changed = Text(SCRIPT).apply("with torch.no_grad", USE)
    assert changed == SCRIPT.replace("no_grad", "inference_mode")
    assert len(run(changed)["losses"]) == 2
    assert USE not in Text(SCRIPT.replace("losses[-1]", "out")).offers("with torch.no_grad")
    assert USE not in Text(SCRIPT.replace("out.mean().item()", "out")).offers("with torch.no_grad")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return total\n", "    return x\n"),  # a tensor leaves
        ("    return total\n", "    return [x], total\n"),  # and in a list
        ("total += ", "losses.append(x)\n        total += "),  # into a list that was there before
        ("        x = torch.randn(8, 4)\n", "        x = torch.randn(8, 4)\n        model.seen = x\n"),  # is kept
        ("total = 0.0\n", "total = 0.0\n    model.weight.mul_(1.0)\n"),  # changes what was there before
        ("print(evaluate())", "pass"),  # nobody is seen to call it
        ("    model.eval()\n", "    model.eval()\n    unknown(model)\n"),  # unknown code may keep what it makes
        ("def evaluate", "async def evaluate"),
    ],
)
def test_inference_mode_is_not_offered(old: str, new: str) -> None:
    changed = EVALUATED.replace(old, new)
    assert changed != EVALUATED
    assert USE not in Text(changed).offers("@torch.no_grad")


def test_why_it_matters_that_nothing_leaves() -> None:
    """What torch does where it is not offered."""
    kept = EVALUATED.replace("    return total\n", "    return x\n").replace("print(evaluate())", "given = evaluate()")
    kept += "model(given).sum().backward()\n"
    run(kept)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        run(kept.replace("no_grad", "inference_mode"))


# ---------------------------------------------------------------- checks

TRAINED = """import torch
from torch import nn

model = nn.Linear(4, 1)
criterion = nn.MSELoss()


def step(x):
    loss = criterion(model(x), torch.zeros(8, 1))
    loss.backward()
    return loss


found = step(torch.randn(8, 4))
"""


def test_a_graph_is_asserted() -> None:
    text = Text(TRAINED)
    changed = text.apply("loss.backward", "Assert that `loss` has its graph")
    assert '    assert loss.requires_grad, "loss has no graph' in changed
    assert text.apply("loss = criterion", "Assert that `loss` has its graph") == changed
    run(changed)
    cut = changed.replace("torch.zeros(8, 1))\n", "torch.zeros(8, 1)).detach()\n")
    with pytest.raises(AssertionError, match="loss has no graph"):
        run(cut)


def test_a_loss_that_is_not_finite_stops() -> None:
    changed = Text(TRAINED).apply("loss.backward", "Stop if `loss` is not finite")
    run(changed)
    with pytest.raises(FloatingPointError, match="loss is not finite"):
        run(changed.replace("torch.randn(8, 4)", "torch.full((8, 4), float('inf'))"))


def test_the_loss_of_a_scaled_backward_is_guarded() -> None:
    text = TRAINED.replace("loss.backward()", "torch.amp.GradScaler('cpu').scale(loss).backward()")
    changed = Text(text).apply("torch.amp", "Stop if `loss` is not finite")
    assert "    if not loss.isfinite().all():\n        raise FloatingPointError" in changed
    run(changed)


@pytest.mark.parametrize("at", ["loss = criterion", "loss.backward"])
def test_a_loss_is_checked_to_be_an_attached_scalar(at: str) -> None:
    changed = Text(TRAINED).apply(at, "Check that `loss` is an attached scalar")
    assert "    loss = attached_scalar(criterion(model(x), torch.zeros(8, 1)))\n" in changed
    assert "\n\n\ndef attached_scalar(loss):" in changed and changed.count("def attached_scalar") == 1
    run(changed)
    with pytest.raises(ValueError, match=r"the loss has shape \(8, 1\)"):
        run(changed.replace("nn.MSELoss()", "nn.MSELoss(reduction='none')"))
    with pytest.raises(ValueError, match="the loss has no graph"):
        run(changed.replace("model(x)", "model(x).detach()"))
    again = Text(changed)
    assert "Check that `loss` is an attached scalar" not in again.offers("loss = attached")


def test_checks_keep_line_ends_and_tabs() -> None:
    text = TRAINED.replace("    ", "\t").replace("\n", "\r\n")
    changed = Text(text).apply("loss.backward", "Stop if `loss` is not finite")
    assert "\tif not loss.isfinite().all():\r\n\t\traise FloatingPointError" in changed
    changed = Text(text).apply("loss.backward", "Check that `loss` is an attached scalar")
    assert "\n" not in changed.replace("\r\n", "")
    run(changed)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfor x in []: loss.backward()\n",
        "import torch\nx = 1; loss.backward()\n",
        "import torch\nloss.backward(\n",
        "loss.backward()\n",
    ],
)
def test_no_check_where_no_line_can_be_put(text: str) -> None:
    assert not Text(text).offers("loss.backward")
