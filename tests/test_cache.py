"""What the last check said is used again exactly as far as nothing that it depends on has changed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradline import cache
from gradline.config import Configuration, Overrides
from gradline.findings import Place, Step
from gradline.messages import Text
from gradline.workspace import Workspace

TRAIN = """\
import torch
from torch import nn
from data import load

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in load():
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
DATA = """\
import torch


def load():
    return [torch.randn(2, 4) for _ in range(3)]
"""
OFF = DATA + "\n\ntorch.set_grad_enabled(False)\n"
FREEZE = """\
from torch import nn


def frozen_head():
    head = nn.Linear(2, 2)
    head.requires_grad = False
    return head
"""
FILES = {"train.py": TRAIN, "data.py": OFF, "head.py": FREEZE, "pyproject.toml": ""}


class Asked:
    """One run: the answer, and how many analyses and fixes were made for it."""

    def __init__(self, folder: Path, kept: Path, doubtful: bool = False, jobs: int = 1, **options) -> None:
        workspace = Workspace([folder.as_posix()], Configuration(**options))
        paths = workspace.disk.discover([folder.as_posix()])
        answer = cache.check(workspace, paths, doubtful, str(kept), jobs)
        self.findings = answer.checked.findings
        self.analysed = workspace.project.memo("analysis").made
        plain_fix, self.fixed = workspace.fix, 0

        def fix(finding):
            self.fixed += 1
            return plain_fix(finding)

        workspace.fix = fix  # type: ignore[method-assign]
        self.fixes = [answer.fix(finding) for found in self.findings.values() for finding in found]
        answer.save()

    @property
    def codes(self) -> list[str]:
        return [finding.code for found in self.findings.values() for finding in found]


@pytest.fixture
def ask(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)

    def run(**options) -> Asked:
        return Asked(folder, tmp_path / "cache", **options)

    run.folder = folder
    return run


def test_an_answer_is_used_again_whole(ask):
    first, second = ask(), ask()
    assert first.codes == ["GL201", "GL506", "GL202"]
    assert first.analysed == 3 and second.analysed == 0
    assert first.fixed == 3 and second.fixed == 0
    assert second.findings == first.findings and second.fixes == first.fixes
    (found, *_) = second.findings[f"{ask.folder.as_posix()}/train.py"]
    assert isinstance(found.place, Place) and isinstance(found.trail[0], Step) and isinstance(found.message, Text)


def test_after_an_edit_only_what_read_the_file_is_analysed_again(ask):
    ask()
    (ask.folder / "head.py").write_text(FREEZE.replace(".requires_grad = False", ".requires_grad_(False)"))
    edited = ask()
    assert edited.codes == ["GL201", "GL202"]
    assert (edited.analysed, edited.fixed) == (1, 0)
    (ask.folder / "data.py").write_text(DATA)
    edited = ask()
    assert edited.codes == []
    assert ask().analysed == 0


def test_what_an_import_does_to_grad_mode_is_seen_from_afar(ask):
    """The file that switches is read by nobody: only what its import may do matters, through another file."""
    (ask.folder / "data.py").write_text("import quiet\n" + DATA)
    (ask.folder / "quiet.py").write_text("import torch\nx = 1\n")
    assert ask().codes == ["GL506"]
    (ask.folder / "quiet.py").write_text("import torch\ntorch.set_grad_enabled(False)\n")
    assert "GL201" in ask().codes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.py", ""),
        ("data.py", None),
        ("pyproject.toml", '[tool.gradline]\nignore = ["GL506"]\n'),
        ("pyproject.toml", "[tool.gradline.severity]\nGL506 = 'hint'\n"),
    ],
)
def test_every_other_change_is_seen(ask, name, text):
    ask()
    if text is None:
        (ask.folder / name).unlink()
    else:
        (ask.folder / name).write_text(text)
    fresh = Asked(ask.folder, ask.folder.parent / "other")
    again = ask()
    assert again.findings == fresh.findings and again.fixes == fresh.fixes
    assert again.analysed == fresh.analysed > 0


def test_files_that_no_import_leads_to_do_not_matter(ask):
    ask()
    (ask.folder / "notes.txt").write_text("x")
    (ask.folder / ".pytest_cache").mkdir()
    assert ask().analysed == 0


def test_options_matter(ask):
    ask()
    assert ask(doubtful=True).analysed == 3
    assert ask(overrides=Overrides(ignore=("GL506",))).codes == ["GL201", "GL202"]
    assert ask().analysed == 0


def test_a_damaged_answer_is_no_answer(ask, tmp_path):
    """Each byte is flipped in turn (some hundred of them, spread over the file)."""
    wanted = ask()
    (file,) = (tmp_path / "cache").iterdir()
    sound = file.read_bytes()
    for at in (*range(40), *range(40, len(sound), len(sound) // 60)):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        again = cache._load(str(file))
        assert again is None
    for damaged in (b"", b"broken", sound[:-1], sound + b"x"):
        file.write_bytes(damaged)
        asked = ask()
        assert asked.analysed == 3 and asked.findings == wanted.findings


def test_a_cache_that_can_not_be_written(ask, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    assert ask().analysed == 3
    assert ask().analysed == 3


def test_what_could_not_be_read_is_asked_again(ask):
    (ask.folder / "data.py").write_bytes(b"\xff")
    assert ask().analysed == 3
    assert ask().analysed == 3


def test_old_answers_go(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "KEPT", 2)
    for code in ("GL101", "GL102", "GL103", "GL201"):
        ask(overrides=Overrides(ignore=(code,)))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    monkeypatch.setattr(cache, "KEPT_BYTES", 10)
    ask(overrides=Overrides(ignore=("GL301",)))
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_several_processes_find_the_same(ask, tmp_path):
    one = ask()
    many = Asked(ask.folder, tmp_path / "other", jobs=3)
    assert many.analysed == 0, "the workers have done it"
    assert many.findings == one.findings and many.fixes == one.fixes
    (kept,) = (cache._load(str(file)) for file in (tmp_path / "other").iterdir())
    (alone,) = (cache._load(str(file)) for file in (tmp_path / "cache").iterdir())
    assert kept is not None and alone is not None
    assert dict(sorted(kept.files.items())) == dict(sorted(alone.files.items()))
    assert kept.folders == alone.folders and kept.findings == alone.findings
    assert Asked(ask.folder, tmp_path / "other", jobs=3).findings == one.findings


def test_workers_that_break_leave_nothing_undone(ask, tmp_path, monkeypatch):
    from gradline import jobs

    wanted = ask()
    monkeypatch.setattr(jobs, "BOOT", "raise SystemExit(3)  # {path}")
    broken = Asked(ask.folder, tmp_path / "other", jobs=2)
    assert broken.analysed == 3 and broken.findings == wanted.findings


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_workers_do_not_outlive_who_asked_them(ask):
    """The command is killed while its workers are at work."""
    for number in range(60):
        (ask.folder / f"many_{number}.py").write_text(TRAIN * 30)
    command = [sys.executable, "-m", "gradline", "check", "--no-cache", "--jobs", "2", str(ask.folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(_workers(process.pid)) < 2:
        time.sleep(0.01)
    workers = _workers(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.02)


def _workers(parent: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            child = entry.name.isdecimal() and f"PPid:\t{parent}\n" in (entry / "status").read_text()
            if child and b"gradline.jobs" in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found
