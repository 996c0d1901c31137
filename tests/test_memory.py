"""What is remembered while somebody types is bounded by its size, and reaches that size soon."""

from __future__ import annotations

import asyncio
import collections
import gc
import random
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from fixture import MemoryFiles

from gradline import check, reading, units
from gradline import project as projects
from gradline.lsp import analysis
from gradline.memo import Recent
from gradline.project import Project
from gradline.text import Source

HEAD = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"
METHOD = (
    "    def layer_{n}(self, x):\n        # what it does\n        y = torch.relu(x) + {n}\n        return y * 2\n\n"
)
PATH = f"{MemoryFiles.ROOT}/net.py"


@pytest.fixture
def forgetful() -> Iterator[None]:
    yield
    gc.enable()
    tracemalloc.stop()
    units.forget()
    reading.forget()


def test_typing_in_a_large_class_takes_no_more_and_more(forgetful: None) -> None:
    """Each keystroke makes another text of the class: so many classes that are remembered would be a gigabyte."""
    dice = random.Random(4)
    lines = (HEAD + "".join(METHOD.format(n=n) for n in range(300))).split("\n")
    places = [row for row, line in enumerate(lines) if "#" in line]
    project = Project(MemoryFiles({}))

    def types(count: int) -> int:
        """Bytes after so many words are typed into comments."""
        for number in range(count):
            row = dice.choice(places)
            words = f"{lines[row]}, {dice.randrange(10**6)} {number}"
            text = "\n".join([*lines[:row], words, *lines[row + 1 :]])
            project.update(PATH, text)
            check.check(project, [PATH])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    warm = types(60)
    assert types(120) < 1.1 * warm


def test_remembered_texts_are_counted_by_their_length() -> None:
    recent: Recent[str, int] = Recent(100)
    for number in range(10):
        recent.put(f"{number}" * 20, number + 1)
        recent.get("0" * 20)
    assert recent.size == 100 and len(recent) == 5
    assert recent.get("0" * 20) == 1, "what is asked for again stays"
    assert recent.get("9" * 20) == 10 and recent.get("5" * 20) is None
    recent.put("x" * 1000, 1)
    assert recent.get("x" * 1000) == 1 and len(recent) == 1, "one too long for all is remembered alone"
    recent.put("x" * 1000, 2)
    assert recent.size == 1000


def test_names_of_modules_that_are_typed_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "IMPORTS", 50)
    project = Project(MemoryFiles({}))
    for number in range(200):
        project.update(PATH, f"import torch\nimport helper_{number}\n\ntorch.ones(1).backward()\n")
        check.check(project, [PATH])
    assert 0 < len(project._resolved) + len(project._paths) < 60


class Ring:
    """What only the search for garbage frees."""

    def __init__(self) -> None:
        self.ring = self


def test_garbage_of_a_server_that_never_rests(monkeypatch: pytest.MonkeyPatch, forgetful: None) -> None:
    """Also that of what has survived a search or two, as answers do that are remembered for a while."""
    monkeypatch.setattr(analysis, "GARBAGE", 500)
    monkeypatch.setattr(analysis, "OLDER", 3)
    alive: weakref.WeakSet[Ring] = weakref.WeakSet()
    kept: collections.deque[list[Ring]] = collections.deque(maxlen=5)

    class Engine:
        def update(self, path: str, source: Source | None) -> None: ...

        def files(self) -> list[str]:
            return [PATH]

        def check(self, paths: list[str], cancelled: Any) -> dict[str, tuple[()]]:
            rings = [Ring() for _ in range(1000)]
            alive.update(rings)
            kept.append(rings)
            return dict.fromkeys(paths, ())

    async def types() -> int:
        engine: Any = Engine()
        work = analysis.Analysis(engine, lambda: False, lambda: [PATH], lambda *_: None, lambda *_: None)
        running = asyncio.create_task(work.run())
        most = 0
        for number in range(100):
            work.changed(PATH, Source(f"x = {number}\n", PATH))
            await work.news()
            while not work.is_current:
                await work.news()
            await asyncio.sleep(0)
            most = max(most, len(alive))
        running.cancel()
        return most

    assert 5_000 <= asyncio.run(types()) < 60_000
