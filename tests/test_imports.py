"""Where an import leads, and what importing leaves behind."""

from __future__ import annotations

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.project import Project

NET = "from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n\n\ndef lower(y):\n    return y.sum().item()\n"
TRAIN = "import torch\n{imports}\nmodel = {net}(4, 1)\n{lower}(model(torch.randn(8, 4))).backward()\n"


class Installed(MemoryFiles):
    """Files below `/site` belong to the environment."""

    def __init__(self, files: dict[str, str], site: dict[str, str], roots: tuple[str, ...] = ()) -> None:
        super().__init__(files)
        self._files.update({f"/site/{name}": text for name, text in site.items()})
        self._roots = [*roots, self.ROOT, "/site"]

    def search_path(self, path: str) -> list[str]:
        return self._roots


def names(memory: MemoryFiles) -> list[str]:
    main = memory.paths()[0]
    return [finding.name for finding in check(Project(memory), [main]).findings[main]]


LAYOUTS = {
    "module beside": ("from net import Net, lower", "Net", "lower", {"net.py": NET}),
    "import as": ("import net as n", "n.Net", "n.lower", {"net.py": NET}),
    "package and re-export": ("from pkg import Net, lower", "Net", "lower", {"pkg/__init__.py": "from .net import Net, lower\n", "pkg/net.py": NET}),
    "star through a package": ("from pkg import *", "Net", "lower", {"pkg/__init__.py": "from .net import *\n", "pkg/net.py": NET}),
    "dotted": ("import pkg.deep.net", "pkg.deep.net.Net", "pkg.deep.net.lower", {"pkg/__init__.py": "", "pkg/deep/__init__.py": "", "pkg/deep/net.py": NET}),
    "namespace package": ("from space.net import Net, lower", "Net", "lower", {"space/net.py": NET}),
    "submodule by from": ("from pkg import net", "net.Net", "net.lower", {"pkg/__init__.py": "", "pkg/net.py": NET}),
    "in try": ("try:\n    from net import Net, lower\nexcept ImportError:\n    Net = lower = None", "Net", "lower", {"net.py": NET}),
    "circular": ("from a import Net, lower", "Net", "lower", {"a.py": "from b import Net\nfrom c import lower\n", "b.py": "import a\n" + NET, "c.py": "import a\nfrom b import lower\n"}),
    "two dots": ("from pkg.sub.user import Net, lower", "Net", "lower", {"pkg/__init__.py": "", "pkg/net.py": NET, "pkg/sub/__init__.py": "", "pkg/sub/user.py": "from ..net import Net, lower\n"}),
    "inside a function": ("def load():\n    from net import Net, lower\n    return Net, lower\nNet, lower = load()", "Net", "lower", {"net.py": NET}),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_imports_are_followed(layout: str) -> None:
    imports, net, lower, files = LAYOUTS[layout]
    main = TRAIN.format(imports=imports, net=net, lower=lower)
    assert names(MemoryFiles({"train.py": main, **files})) == ["number-backward"]


def test_src_layout() -> None:
    main = TRAIN.format(imports="from pkg.net import Net, lower", net="Net", lower="lower")
    memory = Installed({"train.py": main, "src/pkg/__init__.py": "", "src/pkg/net.py": NET}, {}, ("/project/src",))
    assert names(memory) == ["number-backward"]


def test_a_name_of_another_library_is_not_torchs() -> None:
    main = "import paddle as torch\nnet = torch.nn.Linear(4, 1)\nnet(torch.randn([8, 4])).sum().item().backward()\n"
    assert names(MemoryFiles({"train.py": main})) == []


STEP = "net = torch.nn.Linear(4, 1)\nnet(torch.randn(8, 4)).mean().backward()\n"


def test_an_installed_package_that_turns_gradients_off() -> None:
    site = {
        "faces/__init__.py": "from .detect import detect\n",
        "faces/detect.py": "import torch\ntorch.set_grad_enabled(False)\n\n\ndef detect(x):\n    return x\n",
    }
    memory = Installed({"train.py": "import torch\nfrom faces import detect\n" + STEP}, site)
    assert names(memory) == ["backward-under-grad-off"]
    memory = Installed(
        {"train.py": "import torch\nfrom faces import detect\ntorch.set_grad_enabled(True)\n" + STEP}, site
    )
    assert names(memory) == []


def test_an_installed_package_that_minds_its_own() -> None:
    site = {"faces.py": "import torch\n\n\ndef detect(x):\n    torch.set_grad_enabled(False)\n    return x\n"}
    assert names(Installed({"train.py": "import torch\nfrom faces import detect\n" + STEP}, site)) == []


def test_the_guard_of_another_file_does_not_run() -> None:
    other = "import torch\n\nif __name__ == '__main__':\n    torch.set_grad_enabled(False)\n"
    assert names(MemoryFiles({"train.py": "import torch\nimport other\n" + STEP, "other.py": other})) == []
