"""A program in which somebody types is taken up where the edit comes in; that makes no difference to what is said."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixture import MemoryFiles

from gradline import check as engine
from gradline import flow
from gradline.check import CancelledError, check
from gradline.facts import call_places
from gradline.flow import Edited, Flow, interp, resuming
from gradline.project import Project
from gradline.state import Recorded

PATH = "/project/train.py"
TRAIN = """import torch
from torch import nn
from parts import Head, flags

FACTOR = 2


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(4, width), nn.Linear(width, 8)])
        self.head = Head(8)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        for layer in self.body:
            x = layer(x).relu()
        return self.head(x) * self.scale

    def unused(self, x):
        return x


def batches(count):
    for _ in range(count):
        yield torch.randn(8, 4), torch.randint(0, 2, (8,))


class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.losses = []

    def step(self, x, target):
        loss = nn.functional.cross_entropy(self.net(x), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def fit(self, epochs):
        best = None
        for epoch in range(epochs):
            self.net.train()
            for x, target in batches(3):
                self.step(x, target)
            if best is None or self.losses[-1] < best:
                best = self.losses[-1]
        return best


def freeze(net):
    for p in net.head.parameters():
        p.requires_grad_(False)


def main(epochs=3):
    net = Net(16)
    if flags.frozen:
        freeze(net)
    trainer = Trainer(net)
    print("made")
    best = trainer.fit(epochs)
    print(best)
    return net


if __name__ == "__main__":
    torch.manual_seed(0)
    net = main()
    torch.save(net.state_dict(), "net.pt")
"""
PARTS = """from torch import nn


class Head(nn.Linear):
    def __init__(self, width):
        super().__init__(width, 2)


class flags:
    frozen = False
"""


@pytest.fixture(autouse=True)
def moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every statement, for the programs here are short."""
    monkeypatch.setattr(resuming, "EVERY", 1)


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> list[Flow]:
    """The flows of whole programs that the rules see."""
    seen: list[Flow] = []
    ask = engine._said

    def asked(flow: Flow) -> Iterator[engine.Finding]:
        if flow.whole:
            seen.append(flow)
        return ask(flow)

    monkeypatch.setattr(engine, "_said", asked)
    return seen


class Typing:
    """Somebody types in train.py."""

    def __init__(self, flows: list[Flow], train: str = TRAIN, parts: str = PARTS) -> None:
        self.flows = flows
        self.files = {"train.py": train, "parts.py": parts}
        self.project = Project(MemoryFiles(self.files))
        self.project.update(PATH, train)
        check(self.project, [PATH])
        self.edit("torch.manual_seed(0)", "torch.manual_seed(1)")  # the first run that can be taken up

    @property
    def resumed(self) -> int:
        edited = self.project.edited
        return edited.resumed if isinstance(edited, Edited) else 0

    def edit(self, old: str, new: str) -> bool:
        """Whether the run was taken up; all is as if it had been run from its start."""
        assert old in self.files["train.py"]
        return self.set(self.files["train.py"].replace(old, new, 1))

    def set(self, text: str) -> bool:
        self.files["train.py"] = text
        before = self.resumed
        self.project.update(PATH, text)
        said, happened = self.say(self.project)
        fresh = Project(MemoryFiles(self.files))
        assert (said, happened) == (self.say(fresh)[0], self.say(fresh)[1] if happened else [])
        return self.resumed > before

    def say(self, project: Project) -> tuple[object, list[object]]:
        """What is said of train.py, and all that has happened in it."""
        self.flows.clear()
        analysis = engine.analyse(project, PATH)
        spread = project.edited.spread if isinstance(project.edited, Edited) else None
        happened: list[object] = []
        for passed in self.flows:
            for event in passed.events:
                real = spread.real if spread is not None else lambda place: place
                calls = [real(place) for place in call_places(event.stack)]
                happened.append(
                    (type(event), event.place and real(event.place), calls, len(event.loops), event.branches)
                )
            happened += [passed.complete, len(passed.objects), sorted(passed.read)]
        said = sorted(map(repr, analysis.findings)), analysis.notes, sorted(analysis.reads)
        project.memo("analysis").forget()
        project.memo("program").forget()
        project.current.clear()
        return said, happened


# ---------------------------------------------------------------- which edits take a run up

FAR_DOWN = {
    "in the loop": ("for x, target in batches(3):", "for x, target in batches(4):"),
    "a new statement in the loop": ("            self.net.train()", "            self.net.train()\n            x = 1"),
    "the cut": ("loss.backward()", "loss.detach().backward()"),
    "in a function that the loop calls": ("yield torch.randn(8, 4)", "yield torch.rand(8, 4)"),
    "a method further up": ("loss = nn.functional.cross_entropy(", "loss = 1.0 * nn.functional.cross_entropy("),
    "behind the loop": ("print(best)", "print(best, best)"),
    "below everything": ('"net.pt"', '"net2.pt"'),
    "half a statement": ("print(best)", "print(best"),
    "a call on the way": ("    best = trainer.fit(epochs)\n    print(best)\n    return net\n", ""),
    "the rest of main": ("    print(best)\n    return net", "    return net"),
}
TOO_EARLY = {
    "an import": ("import torch\n", "import torch, sys\n"),
    "another unit": ("FACTOR = 2", "FACTOR = 2\nOTHER = 1"),
}
INTO_MAIN = {  # what comes before is not run again
    "the model": ("nn.Linear(width, 8)", "nn.Linear(width, 8, bias=False)"),
    "the width": ("Net(16)", "Net(32)"),
    "an argument": ("def main(epochs=3)", "def main(epochs=4)"),
    "what main calls first": ("p.requires_grad_(False)", "p.requires_grad_(True)"),
}


@pytest.mark.parametrize("what", FAR_DOWN)
def test_what_was_run_before_an_edit_is_not_run_again(what: str, flows: list[Flow]) -> None:
    typing = Typing(flows)
    model = made(flows, typing)
    assert typing.edit(*FAR_DOWN[what])
    assert made(flows, typing) is model  # the very object, not one like it


@pytest.mark.parametrize("what", INTO_MAIN)
def test_what_the_edit_changes_is_run_again(what: str, flows: list[Flow]) -> None:
    typing = Typing(flows)
    assert typing.edit(*INTO_MAIN[what])


@pytest.mark.parametrize("what", TOO_EARLY)
def test_an_edit_before_all_that_is_run(what: str, flows: list[Flow]) -> None:
    assert not Typing(flows).edit(*TOO_EARLY[what])


def made(flows: list[Flow], typing: Typing) -> object:
    """The model of the last run that was taken up or begun."""
    edited = typing.project.edited
    assert isinstance(edited, Edited) and edited._last is not None
    return next(obj for obj in edited._last.objects if obj.label == "Net")


def test_an_edit_in_another_file_begins_anew(flows: list[Flow]) -> None:
    typing = Typing(flows)
    typing.files["parts.py"] = PARTS.replace("frozen = False", "frozen = True")
    typing.project.update("/project/parts.py", typing.files["parts.py"])
    assert not typing.edit("batches(3)", "batches(2)")
    assert typing.edit("batches(2)", "batches(3)")


def test_edits_one_after_another(flows: list[Flow]) -> None:
    """Up and down, there and back: each moment has the text that is there when it is gone back to."""
    typing = Typing(flows)
    steps = [*FAR_DOWN.values(), *INTO_MAIN.values(), *TOO_EARLY.values()]
    dice = random.Random(1)
    for _ in range(60):
        old, new = dice.choice(steps)
        text = typing.files["train.py"]
        if old in text and (new not in text or old not in new):
            typing.edit(old, new)
        elif new in text:
            typing.edit(new, old)
    assert typing.resumed > 15


def test_a_function_grows_past_its_room(flows: list[Flow]) -> None:
    typing = Typing(flows)
    for number in range(60):
        typing.edit(
            "            self.net.train()\n", f"            self.net.train()\n            x = 'a text {number}'\n"
        )
    assert 40 < typing.resumed < 60


def test_text_that_is_no_program_between(flows: list[Flow]) -> None:
    """While nothing runs the moments of the text before are of no use."""
    typing = Typing(flows)
    text = typing.files["train.py"]
    for between in (text[: text.index("if __name__")], "", text.replace("if __name__", "(if __name__"), "def main(:\n"):
        typing.set(between)
        typing.set(text)
        typing.edit("batches(3)", "batches(2)")


# A function is called a second time when the edit comes: it may not be taken up in it, the first call ran all of it.
def test_the_second_call_of_a_function(flows: list[Flow]) -> None:
    text = TRAIN.replace("    net = main()\n", "    net = main()\n    net = main(4)\n")
    typing = Typing(flows, text)
    assert typing.edit("print(best)", "print(net)")
    assert typing.edit("main(4)", "main(5)")


def test_what_a_run_has_changed_is_put_back(flows: list[Flow]) -> None:
    """Names, modes, gradients, containers, what a global holds, and what is known of a model."""
    body = """import torch
from torch import nn
seen = {}
count = 0
net = nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
history = [net.weight.sum()]
before = torch.is_grad_enabled()
def note(x):
    global count
    count = x
    seen["x"] = x
    history.append(x)
loss = net(torch.randn(3, 4)).sum()
print(1)
loss.backward()
optimizer.step()
note(loss)
net.eval()
net.weight.requires_grad_(False)
torch.set_grad_enabled(False)
del history[0]
seen.pop("x")
net.bias.grad = None
net = None
again = nn.Linear(2, 2)(torch.randn(3, 2)).sum()
again.backward()
"""
    typing = Typing(flows, body + "torch.manual_seed(0)\n")
    lines = body.split("\n")
    for number in range(14, len(lines) - 1):
        for text in ("net_ = 1", "total = sum(history)", "print(count, seen)", "loss = loss.detach()"):
            typing.set("\n".join([*lines[:number], text, *lines[number:]]))
    assert typing.resumed > 30


# ---------------------------------------------------------------- what may remember the text or the objects of before

HEAD = """import sys, torch
from torch import nn
from functools import partial
net = nn.Linear(4, 2)
"""
# a program, and edits one after the other
REMEMBERING: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "a class in a function on the way": (
        """
def main(net):
    class Scaler:
        def apply(self, x):
            return x * 2
    scaler = Scaler()
    scaler.apply(1)
    print(1)
    loss = scaler.apply(net(torch.randn(3, 4)).sum())
    loss.backward()

main(net)
""",
        (("print(1)", "print(2)"), ("loss.backward()", "loss.detach().backward()"), ("print(2)", "print(3)")),
    ),
    "another object of a function, under a grad mode": (
        """
def evaluate(x):
    print(0)
    print(1)
    return x
def main():
    ev = torch.enable_grad()(evaluate)
    x = net(torch.randn(3, 4)).sum()
    evaluate(1)
    y = ev(x)
    y.backward()
main()
""",
        (("print(1)", "print(3)"), ("print(3)", "x = x.detach()")),
    ),
    "a bound method that is kept": (
        """
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 2)

    def fit(self, loss):
        print("go")
        print("warm")
        self.last = loss

def main():
    t = Trainer()
    again = partial(t.fit, t.net(torch.randn(3, 4)).sum())
    t.fit(t.net(torch.randn(3, 4)).sum())
    again()
    t.last.backward()

main()
""",
        (
            ('print("warm")', "loss = loss.detach()"),
            ("loss = loss.detach()", 'print("warm")'),
            ('print("warm")', "loss = loss.item()"),
        ),
    ),
    "a call that means another function by then": (
        """
class Warm:
    def run(self, ctx):
        ctx.stage = Main()
        loss = ctx.net(torch.randn(3, 4)).sum()
        print("warm")
        loss.backward()

class Main:
    def run(self, ctx):
        print("main")
        ctx.net.zero_grad()
        a = 1
        b = 2

class Ctx:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.stage = Warm()

def main():
    ctx = Ctx()
    ctx.stage.run(ctx)
    print(ctx)

main()
""",
        (
            ('print("warm")', "loss = loss.detach()"),
            ("loss = loss.detach()", 'print("warm")'),
            ('print("warm")', "pass"),
        ),
    ),
    "a call that fails by then, and a later one": (
        """
class Stage:
    def __init__(self, net):
        self.net = net

    def run(self, ctx):
        ctx.pre = None
        loss = self.net(torch.randn(3, 4)).sum()
        print("warm")
        loss.backward()

class Other(Stage):
    def run(self, ctx):
        a = 1
        b = 2
        loss = self.net(torch.randn(3, 4)).sum()
        loss.backward()

class Ctx:
    pass

def main():
    ctx = Ctx()
    ctx.pre = Stage(nn.Linear(4, 2))
    ctx.fit = Other(nn.Linear(4, 2))
    ctx.pre.run(ctx)
    ctx.fit.run(ctx)

main()
""",
        (
            ('print("warm")', "loss = loss.detach()"),
            ("loss = loss.detach()", 'print("warm")'),
            ('print("warm")', "pass"),
        ),
    ),
    "which call it was": (
        """
enc = nn.Linear(4, 4)

def note(x):
    print("a")
    print("b")
    return x

def main():
    h = enc(torch.randn(3, 4)).relu()
    a = net(h).sum()
    b = net(h).mean()
    a.backward()
    note(1)
    b.backward()

main()
""",
        (('print("b")', 'print("c")'), ('print("c")', 'print("b")')),
    ),
    "a call inside the same call": (
        """
total = []

def fit(x):
    print("go")
    print("go2")
    return x

def main():
    x = fit(fit(net(torch.randn(3, 4))))
    total[0].sum().backward()

main()
""",
        (('print("go2")', "total.append(x.detach())"), ("total.append(x.detach())", "total.append(x)")),
    ),
    "a decorator that comes and goes": (
        """
HOOKS = []

def register(f):
    HOOKS.append(f)
    return f

def cut(x):
    return x.detach()

def main():
    loss = net(torch.randn(3, 4)).sum()
    for h in HOOKS:
        loss = h(loss)
    loss.backward()
    print(1)

main()
""",
        (
            ("print(1)", "print(2)"),
            ("def cut", "@register\ndef cut"),
            ("@register\ndef cut", "def cut"),
            ("print(2)", "print(3)"),
        ),
    ),
    "which graphs are freed": (
        """
def main():
    x = torch.randn(3, 4)
    loss = net(x).sum()
    if len(sys.argv) > 2:
        loss.backward()
        return loss
    loss.backward()
    print("a")
    return loss

l = main()
print("b")
l.backward()
""",
        (
            ('print("a")', 'print("c")'),
            ('print("c")', "loss = net(x).sum()"),
            ("    loss = net(x).sum()\n    return", "    return"),
            ('print("b")', "print(2)"),
        ),
    ),
    "the branch that was left out": (
        """
DEBUG = False
enc = nn.Linear(4, 4)
opt1 = torch.optim.SGD(enc.parameters(), lr=0.1)
opt2 = torch.optim.SGD(net.parameters(), lr=0.1)

def main():
    if DEBUG:
        print("debug")
    else:
        print("go")
        for i in range(3):
            loss = net(enc(torch.randn(3, 4))).sum()
            opt1.zero_grad()
            opt2.zero_grad()
            loss.backward()
            opt2.step()

main()
""",
        (('print("debug")', "opt1.step()"), ("opt1.step()", 'print("debug")'), ('print("debug")', "opt1.step()")),
    ),
}


@pytest.mark.parametrize("what", REMEMBERING)
def test_nothing_else_remembers_what_was_before(what: str, flows: list[Flow]) -> None:
    program, edits = REMEMBERING[what]
    typing = Typing(flows, HEAD + program + "torch.manual_seed(0)\n")
    for old, new in edits:
        typing.edit(old, new)


# ---------------------------------------------------------------- random edits

STATEMENTS = (
    "x = 1", "loss = loss.detach()", "return None", "# a comment", "with torch.no_grad():", "y = (", "'''", "import torch",
    "@torch.no_grad()", "self.optimizer.step()", "def g(a):", "class K:", "for i in range(3):", "net = Net(8)",
    "torch.set_grad_enabled(False)", "self.net.eval()", "main()", "global FACTOR", "",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_random_edits(seed: int, flows: list[Flow]) -> None:
    """Compared where the text is Python (else the cut keeps to the bounds of the last text that was)."""
    dice = random.Random(seed)
    typing = Typing(flows)
    for _ in range(40):
        before = typing.files["train.py"]
        lines = before.split("\n")
        at = dice.randrange(len(lines))
        line = lines[at]
        match dice.randrange(4):
            case 0:
                lines.insert(at, line[: len(line) - len(line.lstrip())] + dice.choice(STATEMENTS))
            case 1:
                del lines[at]
            case 2:
                lines.insert(at, line)
            case _:
                column = dice.randrange(len(line) + 1)
                lines[at] = line[:column] + dice.choice("ab(.1 #'\"") + line[column:]
        text = "\n".join(lines)
        try:
            ast.parse(text)
        except SyntaxError:
            typing.project.update(PATH, text)
            engine.analyse(typing.project, PATH)
        else:
            typing.set(text)
        if dice.random() < 0.5:
            typing.set(before)
    assert typing.resumed > 20


@pytest.mark.parametrize("steps", range(1, 60, 4))
def test_a_run_that_is_stopped_can_be_taken_up(steps: int, flows: list[Flow], monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer message stops a run anywhere, also before it has come to where it was to go on."""
    monkeypatch.setattr(interp, "LOOK_UP", 3)
    typing = Typing(flows)
    typing.project.update(PATH, typing.files["train.py"].replace("batches(3)", "batches(5)"))
    left = iter(range(steps))
    try:
        check(typing.project, [PATH], cancelled=lambda: next(left, None) is None)
    except CancelledError:
        assert next(left, None) is None
    typing.edit("best = self.losses[-1]\n", "best = self.losses[0]\n")
    assert typing.edit("print(best)", "print(1, best)")


# ---------------------------------------------------------------- the state


def test_a_state_is_set_back_whatever_was_done_since() -> None:
    state = Recorded()
    cells: dict[object, object] = {"a": 1, "b": 2}
    state.set(cells, "a", 10)
    kept, section = dict(cells), state.section()
    mark = state.mark()
    state.set(cells, "a", 11)
    state.set(cells, "new", 1)
    ways = [state.take(mark)]
    state.delete(cells, "b")
    ways.append(state.take(mark))
    state.merge(ways)
    state.keep(mark)
    state.put(cells, "c", 3)
    later = state.section()
    between = dict(cells)
    state.undo(0)  # over what was written before, too
    state.set(cells, "b", 5)
    state.rewind(later)
    assert cells == between
    state.rewind(section)
    assert cells == kept


MAKERS = {"Object", "Leaf", "Mapping", "Sequence", "Storage", "Scope", "Class"}
# What these write into was made by them, or is made by whoever calls them.
FILL_NEW = {"fill", "fill_fields", "initialize", "instance_alone", "t_from_pretrained", "call_module_method"}


def written_directly(function: ast.FunctionDef) -> Iterator[str]:
    """What a function writes into the dicts of a value that it has not made."""
    made: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in MAKERS:
            made |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(function):
        owner: ast.expr | None = None
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Subscript):
                owner = target.value
        changing = ("update", "pop", "setdefault", "clear")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in changing:
            owner = node.func.value
        kept = isinstance(owner, ast.Attribute) and owner.attr in ("cells", "attrs", "names")
        if kept and ast.unparse(owner).rpartition(".")[0] not in made:
            yield f"{function.name}: {ast.unparse(node)}"


def test_what_may_have_been_there_before_is_written_by_the_state() -> None:
    """Else it would still be there when a run is set back."""
    found: list[str] = []
    for path in Path(flow.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name not in FILL_NEW:
                found += written_directly(node)
    assert found == []
