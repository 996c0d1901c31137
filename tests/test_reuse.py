"""After an edit: what is asked again, and what is not; and that it makes no difference to the findings."""

from __future__ import annotations

from fixture import MemoryFiles

from gradline.check import analyse, check
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


def test_a_trial_leaves_the_project_as_it_was() -> None:
    memory = MemoryFiles(FILES)
    project = Project(memory)
    before = named(project, memory)
    with project.trial({"/project/model.py": CUT}):
        assert named(project, memory) == [("detached-loss", "train.py")]
    assert named(project, memory) == before
    assert analyse(project, "/project/train.py").findings == ()
