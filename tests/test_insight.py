"""What the editor says of a place: hover, colours, regions, hints and lenses, and that torch contradicts none of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fixture import MemoryFiles

from gradline import insight
from gradline.check import CancelledError, check
from gradline.findings import Finding
from gradline.insight.marks import CALLERS
from gradline.project import Project

MIDNIGHT = Path(__file__).parents[1] / "examples" / "midnight"
DIFFERENTIAL = str(Path(__file__).parents[1] / "benchmarks" / "differential")
TRAIN = """import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(16, 4)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
with torch.no_grad():
    score = model(x)
kept = loss.detach()
"""


class Editor:
    """Files in memory, and what is said of them."""

    def __init__(self, files: dict[str, str], main: str = "main.py") -> None:
        self.files = MemoryFiles(files)
        self.project = Project(self.files)
        self.path = f"{MemoryFiles.ROOT}/{main}"
        for path in self.files.paths():
            self.project.module(path)

    @property
    def text(self) -> str:
        source = self.project.source(self.path)
        assert source is not None
        return source.text

    def hover(self, text: str, word: str = "") -> str:
        """What is said of `word` in the first place where `text` stands."""
        at = self.text.index(text) + text.index(word or text)
        fact = insight.facts(self.project, self.path, at)
        return fact.markdown if fact is not None else ""

    def findings(self) -> list[Finding]:
        found = check(self.project, self.files.paths()).findings
        return [finding for some in found.values() for finding in some]

    def tokens(self) -> list[tuple[str, str, tuple[str, ...]]]:
        found = insight.tokens(self.project, self.path, self.findings())
        return [(self.text[t.start : t.end], t.kind, t.marks) for t in found]

    def hints(self) -> list[tuple[int, str]]:
        """Line (from 1) and label."""
        source = self.project.source(self.path)
        assert source is not None
        found = insight.hints(self.project, self.path, self.findings())
        return [(source.position(hint.offset)[0] + 1, hint.label) for hint in found]

    def modes(self) -> dict[int, str]:
        """Grad mode by line (from 1)."""
        source = self.project.source(self.path)
        assert source is not None
        return {
            line + 1: region.mode
            for region in insight.regions(self.project, self.path)
            for line in range(source.position(region.start)[0], source.position(region.end)[0] + 1)
        }


@pytest.fixture(scope="module")
def train() -> Editor:
    return Editor({"main.py": TRAIN})


@pytest.fixture(scope="module")
def midnight() -> dict[str, str]:
    return {path.relative_to(MIDNIGHT).as_posix(): path.read_text() for path in MIDNIGHT.rglob("*.py")}


def test_a_loss(train: Editor) -> None:
    said = train.hover("loss = ", "loss")
    assert said.startswith("`loss`: scalar tensor, **attached**")
    assert "reaches `model[2]`" in said and "`optimizer` holds it" in said and "grad mode is **on**" in said


def test_a_module_an_optimizer_and_a_frozen_layer(train: Editor) -> None:
    said = train.hover("model(x).pow", "model")
    assert said.startswith("`model`: module `Sequential`")
    assert "asks for gradients: `model[2]`" in said and "frozen: `model[0]`" in said
    said = train.hover("optimizer.step", "optimizer")
    assert "optimizer `SGD`" in said and "holds all parameters of `model`" in said and "steps at line 12" in said


def test_under_no_grad_and_detached(train: Editor) -> None:
    said = train.hover("score = ", "score")
    assert "**cut** from its graph" in said and "`torch.no_grad()` (line 14)" in said and "grad mode is **off**" in said
    said = train.hover("kept = ", "kept")
    assert "`.detach()` cut it (line 16)" in said and "behind it: `model[2]`" in said


def test_words_say_what_they_do_and_what_is_true_here(train: Editor) -> None:
    said = train.hover("loss.item()", "item")
    assert "attached" in said and "Harmless here" in said and "`.item()` copies the value" in said
    said = train.hover("no_grad")
    assert "Here grad mode is **on**" in said and "`torch.no_grad()` turns gradients off" in said


def test_whose_step_it_is() -> None:
    program = """import torch
from torch import nn

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
warm = torch.optim.lr_scheduler.StepLR(opt, 1)
scaler, off = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu", enabled=False)
for _ in range(2):
    scaler.scale(model(torch.randn(8, 4)).mean()).backward()
    scaler.step(opt)
    scaler.update()
    off.step(opt)
    warm.step()


def later(scaler):
    torch.amp.GradScaler("cpu").step(scaler)
"""
    editor = Editor({"main.py": program})
    said = editor.hover("scaler.step(opt)", "step")
    assert said.startswith("`.step()` divides the gradients of `opt` by the scale")
    assert "holds `model`" in said and "this optimizer" not in said
    assert "not enabled is that of the optimizer" in editor.hover("off.step", "step")
    assert "sets the learning rates" in editor.hover("warm.step", "step")
    assert editor.hover('GradScaler("cpu").step', "step").startswith("`.step()` of a GradScaler divides")


def test_nothing_is_said_of_what_is_not_known() -> None:
    editor = Editor({"main.py": "import torch\n\n\ndef f(x, flag):\n    y = x * 2\n    return y if flag else g(y)\n"})
    assert editor.hover("y = ", "y") == "" and editor.hover("flag)", "flag") == "" and editor.hover("return") == ""


def test_calls_that_disagree() -> None:
    editor = Editor(
        {
            "main.py": "import torch\n\nw = torch.ones(3, requires_grad=True)\n\n\ndef double(x):\n    y = x * 2\n    return y\n\n\n"
            "double(w).sum().backward()\nwith torch.no_grad():\n    double(w)\n"
        }
    )
    said = editor.hover("y = ", "y")
    assert "attached in some calls, without a graph in others" in said and "off in some calls" in said
    assert editor.modes()[7] == "unknown" and editor.modes()[11] == "on" and editor.modes()[13] == "off"


def test_a_function_that_nobody_calls_is_in_nobodys_grad_mode() -> None:
    editor = Editor(
        {
            "main.py": "import torch\nfrom torch import nn\n\n\ndef fit(x):\n    net = nn.Linear(2, 1)\n    out = net(x)\n    return out\n\n\n"
            "@torch.no_grad()\ndef score(x):\n    net = nn.Linear(2, 1)\n    return net(x)\n"
        }
    )
    assert "grad mode" not in editor.hover("out = ", "out")
    assert editor.modes()[13] == editor.modes()[14] == "off"


def test_a_plain_list_of_layers_is_not_registered() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.head = nn.Linear(2, 1)\n        self.layers = [nn.Linear(2, 2)]\n\n\nnet = Net()\nprint(net)\n"
    )
    editor = Editor({"main.py": text})
    assert "`layers` is a plain list" in editor.hover("net = Net", "net")
    lenses = insight.lenses(editor.project, editor.path)
    assert [(text[lens.start : lens.end], lens.title) for lens in lenses] == [("Net", "all trainable: head")]


def test_colours() -> None:
    editor = Editor(
        {
            "main.py": "import torch\nimport pandas as pd\n\nw = torch.ones(3, requires_grad=True)\nloss = w.sum()\n"
            "total = loss.item()\nprint(pd.DataFrame().sum().item())\ntotal.backward()\n"
            "with torch.no_grad():\n    print(w.detach())\n"
        }
    )
    assert editor.tokens() == [
        ("item", "cut", ("cut",)),
        ("backward", "flow", ("off",)),
        ("no_grad", "switch", ("harmless",)),
        ("detach", "cut", ("harmless",)),
    ]


def test_a_part_of_the_loss_that_is_cut_on_purpose_is_neither_calm_nor_wrong() -> None:
    editor = Editor(
        {"main.py": "import torch\n\nw = torch.ones(3, requires_grad=True)\nl = w.sum()\n(l / l.detach()).backward()\n"}
    )
    assert editor.tokens() == [("detach", "cut", ()), ("backward", "flow", ())]


def test_where_a_value_was_cut() -> None:
    text = "import torch\n\nw = torch.ones(3, requires_grad=True)\nloss = w.sum().detach()\ntotal = loss * 2\n{}total.backward()\n"
    far = Editor({"main.py": text.format("\n" * 4)})
    assert far.hints() == [(5, "⊘ cut at"), (10, "⊘ cut at")]
    near = Editor({"main.py": text.format("\n")})
    assert near.hints() == [(7, "⊘ cut at")], "what the next hint says is not said twice"


def test_only_words_that_do_damage_glare() -> None:
    text = (
        "import torch\n\nw = torch.nn.Parameter(torch.ones(3))\nkept = []\nfor _ in range(3):\n    loss = (w * 2).sum()\n"
        "    loss.backward()\n    kept.append(loss)\n"
    )
    editor = Editor({"main.py": text})
    (found,) = editor.findings()
    assert found.code == "GL901" and text[found.trail[-1].place.start :].startswith("loss.backward()")
    assert editor.tokens() == [("backward", "flow", ())], "a memory leak says nothing against the backward in its trail"
    assert insight.origin(found) == found.place


def test_a_parameter_without_a_name() -> None:
    editor = Editor(
        {"main.py": "import torch\n\nw = torch.nn.Parameter(torch.ones(3)).cuda()\nloss = w.sum()\nloss.backward()\n"}
    )
    assert "reaches `Parameter`" in editor.hover("loss.backward", "loss")


def test_losses_and_lenses(train: Editor) -> None:
    assert train.hints() == [(9, "grad · scalar")]
    (lens,) = insight.lenses(train.project, train.path)
    assert lens.title == "reaches model[2]" and train.text[lens.start : lens.end] == "loss.backward()"


def test_a_switch_in_another_file(midnight: dict[str, str]) -> None:
    editor = Editor(midnight, "train.py")
    modes = editor.modes()
    line = 1 + midnight["train.py"][: midnight["train.py"].index("loss.backward")].count("\n")
    imports = 1 + midnight["train.py"][: midnight["train.py"].index("from utils")].count("\n")
    assert modes[imports] == modes[line] == "off"
    hints = editor.hints()
    assert (imports, "⊘ grad off since") in hints and (line, "⊘ grad off since") in hints
    said = editor.hover("loss.backward", "loss")
    assert "**cut**" in said and "`torch.set_grad_enabled(False)` (utils/data_loader.py:12)" in said
    assert ("backward", "flow", ("off",)) in editor.tokens()


def test_a_file_is_seen_through_the_programs_that_run_it(midnight: dict[str, str]) -> None:
    editor = Editor(midnight, "models/transformer.py")
    said = editor.hover("hidden = ", "hidden")
    assert "**cut**" in said and "as run by `train.py`" in said
    modes = editor.modes()
    assert modes[1] == "on", "it is imported before anybody switches"
    forward = 1 + editor.text[: editor.text.index("hidden = ")].count("\n")
    assert modes[forward] == "off"


def test_it_is_made_again_only_if_something_read_has_changed(midnight: dict[str, str]) -> None:
    editor = Editor(midnight, "train.py")
    first = insight.insight(editor.project, editor.path)
    loader = f"{MemoryFiles.ROOT}/utils/data_loader.py"
    editor.project.update(f"{MemoryFiles.ROOT}/other.py", "x = 1\n")
    editor.project.update(loader, midnight["utils/data_loader.py"])
    again = insight.insight(editor.project, editor.path)
    editor.project.update(loader, midnight["utils/data_loader.py"].replace("torch.set_grad_enabled(False)", ""))
    other = insight.insight(editor.project, editor.path)
    assert other is not again and "attached" in editor.hover("loss.backward", "loss")
    editor.project.update(loader, midnight["utils/data_loader.py"])
    assert insight.insight(editor.project, editor.path) is again
    assert first is not None


def test_it_stops_when_told() -> None:
    editor = Editor({"main.py": TRAIN + "print(loss * 2 + 1)\n" * 200})
    with pytest.raises(CancelledError):
        insight.insight(editor.project, editor.path, lambda: True)
    assert insight.insight(editor.project, editor.path) is not None


def test_any_text_can_be_looked_at() -> None:
    for text in ("", "import torch\nx = (\n", "\f\n", "import torch\nloss.item(", "class A(B): x = torch.no_grad("):
        editor = Editor({"main.py": text})
        for offset in range(len(text) + 1):
            insight.facts(editor.project, editor.path, offset)
        insight.tokens(editor.project, editor.path)
        insight.regions(editor.project, editor.path)
        insight.hints(editor.project, editor.path)
        insight.lenses(editor.project, editor.path)
    assert insight.facts(editor.project, "/nowhere.py", 0) is None


def test_torch_contradicts_nothing() -> None:
    """Random programs: what is said of each revealed name and line, against what torch shows there."""
    pytest.importorskip("torch")
    sys.path.insert(0, DIFFERENTIAL)
    try:
        import claims
        import generator
        import truth
    finally:
        sys.path.remove(DIFFERENTIAL)
    programs = [(seed, generator.program(seed)) for seed in range(1000, 1040)]
    shown = truth.run_batch(programs)
    said = places = 0
    for seed, files in programs:
        project = Project(claims.Memory(files))
        for path in files:
            project.module(f"/program/{path}")
        marks = truth.marks(files)
        for (path, line), seen in shown.get(seed, ({}, ""))[0].items():
            places += 1
            at = marks[path, line][1]
            fact = insight.facts(project, f"/program/{path}", at)
            regions = insight.regions(project, f"/program/{path}")
            modes = [r.mode for r in regions if r.start <= at < r.end and r.note != CALLERS]
            for one in seen:
                where = f"program {seed}, {path}:{line}: {fact.markdown if fact else ''} {modes}; torch: {one}"
                assert all(mode in ("unknown", one.mode) for mode in modes), where
                assert fact is None or is_true(fact.markdown, one), where
            said += fact is not None
    assert places > 1000 and said > 0.8 * places


def is_true(markdown: str, seen: object) -> bool:
    """Whether what was said allows what torch showed (a `truth.Seen`)."""
    head = markdown.split("\n")[0]
    kind, grad, elements, mode, lies = (getattr(seen, n) for n in ("kind", "requires_grad", "elements", "mode", "lies"))
    if "tensor" in head and kind != "tensor":
        return False
    if "number" in head and kind != "number":
        return False
    if "scalar tensor" in head and elements != 1:
        return False
    if "in some calls" not in head and not lies:
        if ("attached" in head or "that asks for gradients" in head) and not grad:
            return False
        if any(words in head for words in ("**cut**", "no gradient", "without a graph", "frozen")) and grad:
            return False
    return all(f"grad mode is **{other}**" not in markdown for other in {"on", "off", "inference"} - {mode})


def test_the_line_of_a_value(train: Editor) -> None:
    known = insight.insight(train.project, train.path)
    assert known is not None

    def line(code: str) -> tuple[set[tuple[int, str, str]], list[str]]:
        found = known.line(train.text.index(code))
        assert found is not None
        uses = {(known.line_of(u.start) + 1, train.text[u.start : u.end], u.kind) for u in found.uses}
        return uses, [step.note for step in found.steps]

    uses, steps = line("loss = model")
    assert uses == {
        (9, "loss", "made"), (11, "loss", "used"), (11, "backward", "used"), (13, "loss", "used"), (13, "item", "cut"),
        (16, "loss", "used"), (16, "detach", "cut"),
    }  # fmt: skip
    assert steps == [
        "`model[2]` asks for a gradient", "made by `Linear`", "made by `pow`", "made by `mean`",
        "cut by `.item()`", "cut by `.detach()`", "back-propagated",
    ]  # fmt: skip
    assert line("item()")[0] == uses, "of a word, what it is asked of"
    # of what has no graph any more: where it was lost, and what it came from
    uses, steps = line("kept = ")
    assert uses == {(16, "kept", "made"), (16, "detach", "cut")} and steps[-1] == "cut by `.detach()`"
    # what has no line has none
    assert known.line(train.text.index("torch.randn")) is None
    assert known.line(train.text.index("optimizer.step")) is None


def test_where_something_trains(train: Editor) -> None:
    known = insight.insight(train.project, train.path)
    assert known is not None and [known.line_of(offset) + 1 for offset in known.trainings] == [11]
    inside = Editor({"main.py": "import torch\n\n@wraps\ndef fit(x):\n    loss = f(x)\n    loss.backward()\n"})
    known = insight.insight(inside.project, inside.path)
    assert known is not None and [known.line_of(offset) + 1 for offset in known.trainings] == [4]


def test_a_test_trains_if_what_it_calls_does() -> None:
    text = """import torch

def fit(w):
    (w * 2).sum().backward()

class TestFit:
    def test_fit(self):
        fit(torch.ones(1, requires_grad=True))

    def test_other(self):
        assert True
"""
    for name, wanted in (("test_fit.py", [3, 7]), ("fit.py", [3])):
        editor = Editor({name: text}, name)
        known = insight.insight(editor.project, editor.path)
        assert known is not None and [known.line_of(offset) + 1 for offset in known.trainings] == wanted


def test_a_function_that_nobody_calls_is_not_said_to_run_with_gradients_on_where_they_were_left_off() -> None:
    text = (
        "import torch\n\ndef before(x):\n    return x\n\ntorch.set_grad_enabled(False)\n\ndef after(x):\n    return x\n"
    )
    modes = {}
    for name, given in (("off", text), ("on", text.replace("False", "True"))):
        editor = Editor({"main.py": given})
        known = insight.insight(editor.project, editor.path)
        assert known is not None
        modes[name] = [(known.line_of(region.start) + 1, region.mode) for region in known.regions]
    assert modes == {"off": [(3, "unknown"), (6, "off"), (8, "unknown")], "on": [(3, "on"), (6, "on"), (8, "on")]}
