"""After an edit: what is asked again, and what is not; and that it makes no difference to the findings."""

from __future__ import annotations

import ast
import random

import pytest
from fixture import MemoryFiles

from gradline.check import CancelledError, analyse, check
from gradline.flow import interp
from gradline.project import Project

FILES = {
    "train.py": "import torch\nfrom model import Net\nnet = Net()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for _ in range(9):\n    loss = net(torch.randn(8, 4)).mean()\n    opt.zero_grad()\n    loss.backward()\n    opt.step()\n",
    "model.py": "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.lin = nn.Linear(4, 1)\n    def forward(self, x):\n        return self.lin(x)\n",
    "other.py": "import torch\nx = torch.zeros(1, requires_grad=True)\n(x * 2).backward()\n",
}
CUT = FILES["model.py"].replace("return self.lin(x)", "return self.lin(x).detach()")


def named(project: Project, memory: MemoryFiles) -> list[tuple[str, str]]:
    found = check(project, memory.paths()).findings
    return sorted((finding.name, path.rsplit("/", 1)[1]) for path, each in found.items() for finding in each)


def test_only_what_read_the_edited_file_is_asked_again() -> None:
    memory = MemoryFiles(FILES)
    project = Project(memory)
    assert named(project, memory) == []
    made = project.memo("analysis").made
    project.update("/project/model.py", CUT)
    assert named(project, memory) == [("detached-loss", "train.py")]
    assert project.memo("analysis").made == made + 2  # train.py and model.py, not other.py


def test_undoing_an_edit_finds_the_old_answer() -> None:
    memory = MemoryFiles(FILES)
    project = Project(memory)
    named(project, memory)
    project.update("/project/model.py", CUT)
    named(project, memory)
    made = project.memo("analysis").made
    project.update("/project/model.py", FILES["model.py"])
    assert named(project, memory) == []
    assert project.memo("analysis").made == made


def test_incremental_is_from_scratch() -> None:
    memory = MemoryFiles(FILES)
    project = Project(memory)
    named(project, memory)
    for text in (CUT, CUT.replace("(4, 1)", "(4,"), FILES["model.py"], "", CUT):
        project.update("/project/model.py", text)
        fresh = MemoryFiles({**FILES, "model.py": text})
        assert named(project, memory) == named(Project(fresh), fresh)


def test_what_an_imported_function_reads_of_a_third_file_counts_as_read() -> None:
    """Also where it was looked up for another text of the first file, and is known since."""
    files = {
        "step.py": "import torch\nfrom cut import cut\n\ndef step(x):\n    w = torch.ones(2, requires_grad=True)\n"
        "    cut(w * x).sum().backward()\n",
        "cut.py": "from flags import CUT\n\ndef cut(x):\n    return x.detach() if CUT else x\n",
        "flags.py": "CUT = False\n",
    }
    memory = MemoryFiles(files)
    project = Project(memory)
    assert named(project, memory) == []
    project.update("/project/step.py", files["step.py"].replace("w * x", "x * w"))
    assert named(project, memory) == []
    project.update("/project/flags.py", "CUT = True\n")
    assert named(project, memory) == [("detached-loss", "step.py")]


def test_a_trial_leaves_the_project_as_it_was() -> None:
    memory = MemoryFiles(FILES)
    project = Project(memory)
    before = named(project, memory)
    with project.trial({"/project/model.py": CUT}):
        assert named(project, memory) == [("detached-loss", "train.py")]
    assert named(project, memory) == before
    assert analyse(project, "/project/train.py").findings == ()


# ---------------------------------------------------------------- edits that a program does not see

TRAIN = '''import torch  # the framework
from torch import nn
from model import Net, unused

"""
a text
"""


class Extra(nn.Module):
    # what it is for
    def __init__(self):
        super().__init__()

    def never_called(self, x):
        return x.item()


def encode(net, x):
    """Takes the features, as
    they are.
    """
    # through the network

    h = net(x)  # the features
    return (
        h
        .mean()
    )


@staticmethod
def helper(a, b=3):
    return a + b


NOTE = """a
    value"""
WORDS = (
    """in
    brackets"""
)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    loss = encode(net, torch.randn(8, 4))
    opt.zero_grad()
    loss.detach().backward()
    opt.step()
'''
MODEL = FILES["model.py"] + "\n\ndef unused(x):\n    return x\n\n\nEND = 1\n"

# what is edited, and what it becomes
UNSEEN = {
    "a comment": ("# through the network", "# through the whole network"),
    "a comment goes": ("    # through the network\n", ""),
    "a comment in brackets": ("        .mean()", "        # of all\n        .mean()"),
    "a comment behind code": ("  # the features", "  # the features, as they are"),
    "a new comment behind code": ("return a + b", "return a + b  # the sum"),
    "prose of the module": ('"""\na text', '"""\n# a text'),
    "a docstring": ("the features, as", "all the features,\n    as"),
    "a docstring gets a line": ("\n    they are", "\n    # not a comment, they are"),
    "blank lines": ("\n\n@static", "\n\n\n\n@static"),
    "blank lines in a function": ("\n\n    h = net(x)", "\n\n\n\n    h = net(x)"),
    "a function that nothing calls": ("return a + b", "c = a * b\n    return c"),
    "a method that nothing calls": ("return x.item()", "return x.item() + 1"),
    "half a line in it": ("return a + b", "return a + ("),
    "arguments of it": ("def helper(a, b=3)", "def helper(a, b=4, c=5)"),
    "a comment between methods": ("\n    def never", "\n    # nobody calls it\n    def never"),
    "a function of another file": ("def unused(x):\n    return x", "def unused(x):\n    y = x.detach()\n    return y"),
    "a comment in another file": ("END = 1", "# the end\nEND = 1"),
    "a constant of another file": ("END = 1", "END = 2"),
    "a new name in another file": ("END = 1", "START = 0\nEND = 1"),
    "a new function in another file": ("END = 1", "def new(x):\n    return x\n\n\nEND = 1"),
    "a function of another file with another name": ("def unused(x)", "def still_unused(x)"),
    "half a line in another file": ("END = 1", "END = (1,\n"),
}
SEEN = {
    "a function that is called": ("h = net(x)", "h = net(x).detach()"),
    "code that becomes a comment": ("    opt.zero_grad()", "    # opt.zero_grad()"),
    "a comment that becomes code": ("    # through the network", "    net.requires_grad_(False)"),
    "the end of a mark of a comment": ("  # the features", "  .detach()# the features"),
    "the end of a docstring": ('they are.\n    """', 'they are.\n    """ + ""'),
    "a text in brackets": ('"""in\n', '"""inside\n'),
    "a text that is a value": ('"""a\n    value"""', '"""a new\n    value"""'),
    "a name": ("def helper(a", "def helped(a"),
    "another decorator": ("@staticmethod\ndef helper", "@torch.no_grad()\ndef helper"),
    "a decorator": ("def encode", "@torch.no_grad()\ndef encode"),
    "a base": ("class Extra(nn.Module)", "class Extra(nn.Modul)"),
    "indentation": ("    opt.zero_grad()\n    loss.detach", "    opt.zero_grad()\n  loss.detach"),
    "the program": ("loss.detach().backward()", "loss.backward()"),
    "a class that is used, of another file": ("nn.Linear(4, 1)", "nn.Linear(4, 2)"),
    "a class of another file with another name": ("class Net(nn.Module)", "class Nets(nn.Module)"),
    "a name of another file that is bound again": ("END = 1", "Net = None"),
    "all names of another file": ("END = 1", "from nowhere import *"),
    "what another file does when it is imported": ("END = 1", "END = torch.set_grad_enabled(False)"),
}


def said(project: Project, memory: MemoryFiles) -> object:
    """All that is said, with its places and its trails."""
    return {path: found for path, found in check(project, memory.paths(), doubtful=True).findings.items() if found}


def edited(edit: tuple[str, str]) -> tuple[Project, MemoryFiles, int]:
    """A project that was checked, then edited, then checked again; the same as files; how many programs were run again."""
    files = {"train.py": TRAIN, "model.py": MODEL}
    memory = MemoryFiles(files)
    project = Project(memory)
    assert said(project, memory)
    made = project.memo("program").made
    (name,) = (name for name, text in files.items() if edit[0] in text)
    files[name] = files[name].replace(*edit, 1)
    project.update(f"/project/{name}", files[name])
    now = MemoryFiles(files)
    assert said(project, memory) == said(Project(now), now)
    return project, memory, project.memo("program").made - made


@pytest.mark.parametrize("what", UNSEEN)
def test_an_edit_that_the_program_does_not_see(what: str) -> None:
    """Its findings have moved, and it was not run again (the other file is no program)."""
    name = "model.py" if "other file" in what else "train.py"
    assert edited(UNSEEN[what])[2] == (name == "model.py")


def test_the_answer_to_a_text_that_edits_are_undone_to_is_kept() -> None:
    """Though each of the edits has an answer of its own, and only a few are kept."""
    files = {"train.py": TRAIN, "model.py": MODEL}
    memory = MemoryFiles(files)
    project = Project(memory)
    said(project, memory)
    own = [edit for what, edit in UNSEEN.items() if "other file" not in what and "another file" not in what]
    for old, new in [*own, *own]:
        made = project.memo("program").made
        for text in (TRAIN.replace(old, new, 1), TRAIN):
            project.update("/project/train.py", text)
            check(project, ["/project/train.py"])
        assert project.memo("program").made == made, (old, new)


@pytest.mark.parametrize("what", SEEN)
def test_an_edit_that_the_program_sees(what: str) -> None:
    assert edited(SEEN[what])[2] >= 1


STATEMENTS = (
    "x = 1", "loss = loss.detach()", "return None", "# a comment", "with torch.no_grad():", "y = (", "'''", "import torch",
    "@torch.no_grad()", "opt.step()", "def g(a):", "class K:", "for i in range(3):", "",
)  # fmt: skip


def changed(text: str, dice: random.Random) -> str:
    """A line more or less, a character more or less, or a piece gone."""
    lines = text.split("\n")
    at = dice.randrange(len(lines))
    line = lines[at]
    column = dice.randrange(len(line) + 1)
    match dice.randrange(5):
        case 0:
            lines.insert(at, line[: len(line) - len(line.lstrip())] + dice.choice(STATEMENTS))
        case 1:
            del lines[at]
        case 2:
            lines[at] = line[:column] + dice.choice("ab(.1 #'\"") + line[column:]
        case 3:
            lines[at] = line[:column] + line[column + 1 :]
        case _:
            lines[at] += "  # seen"
    return "\n".join(lines)


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_after_random_edits_it_is_as_from_scratch(seed: int) -> None:
    """Where the text is Python (else the cut keeps to the bounds of the last text that was)."""
    dice = random.Random(seed)
    files = {"train.py": TRAIN, "model.py": MODEL}
    memory = MemoryFiles(files)
    project = Project(memory)
    said(project, memory)
    for _ in range(25):
        name = dice.choice(list(files))
        text = changed(files[name], dice)
        if is_python(text):
            files[name] = text
        project.update(f"/project/{name}", text)  # what is half typed is followed, too
        said(project, memory)
        project.update(f"/project/{name}", files[name])
        now = MemoryFiles(files)
        assert said(project, memory) == said(Project(now), now), name


@pytest.mark.parametrize("steps", range(0, 40, 3))
def test_a_check_that_is_stopped_leaves_nothing_half_made(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after so many looks whether it is still wanted, in the program or in a function judged alone."""
    monkeypatch.setattr(interp, "LOOK_UP", 3)
    lone = "\n\nclass Lone(nn.Module):\n    def __init__(self):\n        self.inner = nn.Linear(1, 1)\n        super().__init__()\n"
    files = {"train.py": TRAIN + lone, "model.py": MODEL + lone}
    memory = MemoryFiles(files)
    project = Project(memory)
    left = iter(range(steps))
    try:
        check(project, memory.paths(), cancelled=lambda: next(left, None) is None)
    except CancelledError:
        assert next(left, None) is None
    fresh = MemoryFiles(files)
    assert said(project, memory) == said(Project(fresh), fresh) != {}
