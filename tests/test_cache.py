"""The last answer is used again exactly when nothing that it depends on has changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gradline import cache, workspace
from gradline.check import CancelledError
from gradline.config import Configuration, Overrides
from gradline.findings import Finding, Place, Severity, Step
from gradline.workspace import Workspace


class Engine:
    """One finding in each file that says `bad`, and a look at the module `helper` from each."""

    CancelledError = CancelledError

    def __init__(self) -> None:
        self.asked = 0

    def check(self, project, paths, rules=None, cancelled=None, doubtful=False):
        self.asked += 1
        found = {}
        for path in paths:
            folder = path.rpartition("/")[0]
            for name in ("helper.py", "missing.py"):
                if project.files.is_file(f"{folder}/{name}"):
                    project.source(f"{folder}/{name}")
            text = project.source(path).text
            finding = Finding(
                "GL101", "number-backward", Severity.ERROR, Place(path, 0, 3), "m", (Step(Place(path, 1, 2), "n"),),
                data=(("span", (1, (2, "x"))), ("none", None)), tags=("deprecated",), fixable=True,
            )  # fmt: skip
            found[path] = (finding,) * text.count("bad")
        return SimpleNamespace(findings=found, notes=("note",))


@pytest.fixture
def asks(tmp_path, monkeypatch):
    """Asks about `a.py` in a new workspace, as a new run would; returns the answer and how often the engine ran."""
    engine = Engine()
    monkeypatch.setattr(workspace, "engine", engine)
    folder = tmp_path / "p"
    folder.mkdir()
    for name, text in (("a.py", "bad\n"), ("helper.py", "x = 1\n"), ("pyproject.toml", "")):
        (folder / name).write_text(text)
    root = folder.as_posix()

    def ask(doubtful=False, **options):
        opened = Workspace([root], Configuration(**options))
        checked = cache.check(opened, opened.disk.discover([f"{root}/a.py"]), doubtful, str(tmp_path / "cache"))
        return checked, engine.asked

    ask.folder = folder
    return ask


def test_the_same_question_is_asked_once(asks):
    first, once = asks()
    second, still_once = asks()
    assert (once, still_once) == (1, 1)
    assert second == first
    (found,) = second.findings.values()
    assert isinstance(found[0].place, Place) and isinstance(found[0].trail[0], Step)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "bad bad\n"),
        ("helper.py", "x = 2\n"),
        ("missing.py", ""),
        ("pyproject.toml", '[tool.gradline]\nignore = ["GL102"]\n'),
    ],
)
def test_every_change_is_seen(asks, name, text):
    asks()
    (asks.folder / name).write_text(text)
    assert asks()[1] == 2
    assert asks()[1] == 2


def test_files_that_no_import_leads_to_do_not_matter(asks):
    asks()
    (asks.folder / "notes.txt").write_text("x")
    (asks.folder / ".pytest_cache").mkdir()
    assert asks()[1] == 1


def test_options_matter(asks):
    asks()
    assert asks(doubtful=True)[1] == 2
    assert asks(overrides=Overrides(ignore=("GL101",)))[1] == 3
    assert asks()[1] == 3


def test_a_broken_answer_is_no_answer(asks, tmp_path):
    asks()
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"broken")
    assert asks()[1] == 2
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"")
    assert asks()[1] == 3


def test_a_cache_that_can_not_be_written(asks, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    assert asks()[1] == 1
    assert asks()[1] == 2


def test_what_could_not_be_read_is_asked_again(asks):
    (asks.folder / "helper.py").write_bytes(b"\xff")
    assert asks()[1] == 1
    assert asks()[1] == 2


def test_old_answers_go(asks, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "KEPT", 2)
    for code in ("GL101", "GL102", "GL103", "GL201"):
        asks(overrides=Overrides(ignore=(code,)))
    assert len(list(Path(tmp_path / "cache").iterdir())) == 2
