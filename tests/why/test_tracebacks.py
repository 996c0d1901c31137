"""Tracebacks as they come: whatever stands around the lines, and whoever wrote them, the cause is found.

The program of `project/` loses its graph in `features.py`, line 3; that is what each must lead to.
"""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradline.why import Explanation, chosen, explain, read

from . import running

PROJECT = Path(__file__).with_name("project")
RECORDED = Path(__file__).with_name("recorded")
CULPRIT = ("features.py", 3)
MESSAGE = "element 0 of tensors does not require grad and does not have a grad_fn"


def lines(explained: Explanation | None) -> set[tuple[str, int]]:
    """The lines that the first answer shows, with the names of their files."""
    assert explained is not None and explained.answers
    first = explained.answers[0]
    found = set()
    for place in (first.place, *(step.place for step in first.trail)):
        assert place is not None
        source = explained.workspace.source(place.path)
        assert source is not None
        row = source.position(place.start)[0]
        if source.cells is not None:
            cell, row, _ = source.cells.position(place.start)
            found.add((f"{Path(place.path).name}[{cell}]", row + 1))
        else:
            found.add((Path(place.path).name, row + 1))
    return found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The project in a folder of its own, and what Python says when it runs there."""
    pytest.importorskip("torch")
    folder = Path(shutil.copytree(PROJECT, tmp_path_factory.mktemp("real") / "bug"))
    text = running.python(folder, "train.py").stderr
    assert MESSAGE in text
    return folder, text


# ---------------------------------------------------------------- what stands around it


def each(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.splitlines())


def coloured(text: str) -> str:
    text = re.sub(r'File "(.+?)", line (\d+)', '  File \x1b[35m"\\1"\x1b[0m, line \x1b[35m\\2\x1b[0m', text)
    return re.sub(r"^(\w+Error): (.*)$", "\x1b[1;35m\\1\x1b[0m: \x1b[35m\\2\x1b[0m", text, flags=re.MULTILINE)


def two_ranks(text: str) -> str:
    """Two processes that write at the same time; the other one has an error of the network."""
    other = text.replace(MESSAGE, "Connection closed by peer")
    mixed = []
    for own, others in zip(text.splitlines(), other.splitlines(), strict=True):
        mixed += [f"[rank1]: {others}", f"[rank0]: {own}"]
    return "\n".join(mixed)


AROUND: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "colours": coloured,
    "torchrun, one rank": each("[rank0]: "),
    "torchrun, as torchrun itself marks it": each("[default0]:"),
    "torchrun, two ranks at once": two_ranks,
    "srun --label": each("1: "),
    "timestamps": each("2026-05-01T12:00:00.1234567Z "),
    "timestamps in brackets": each("[2026-05-01 12:00:00,123] "),
    "docker compose": each("trainer-1  | "),
    "ray": each("(RayTrainWorker pid=1234, ip=10.0.0.7) "),
    "kubernetes, then torchrun": each("2026-05-01T12:00:00Z [rank3]: "),
    "syslog": each("May  1 12:00:00 node7 train[4711]: "),
    "a logger": lambda text: "2026-05-01 12:00:00,123 - root - ERROR - training failed\n" + text,
    "a logger with the header on its line": lambda text: "ERROR:root:" + text,
    "a logger's own format on each line": each("2026-05-01 12:00:00 [ERROR] train.loop: "),
    "mpirun --tag-output": each("[1,0]<stderr>:"),
    "a log of JSON": lambda text: '{"level": "error", "log": ' + json.dumps(text) + "}",
    "a log of JSON from Windows": lambda text: json.dumps({"log": re.sub(r'"[^"]*/bug/(\w+)', r'"C:\\new\\bug\\\1', text)}),
    "a progress bar before it": lambda text: "\r  3%|▎         | 3/100 [00:01<00:32]\r  4%|▍  | 4/100" + "\n" + text,
    "much before and after": lambda text: "epoch 1 loss 0.3\n" * 500 + text + "\nclean up\nwandb: done\n" * 50,
    "windows line ends": lambda text: text.replace("\n", "\r\n"),
    "quoted in a mail": each("> "),
    "indented": each("    "),
    "warnings of torch between": lambda text: text.replace("Traceback", "[W501 12:00:00.1 x.cpp:3] Warning: y\nTraceback", 1),
    "carets of Python 3.11 under all lines": lambda text: re.sub(r"^    (\S.*)$", r"    \1\n    ^^^^^^^^", text, flags=re.M),
    "the beginning is missing": lambda text: text[text.index("in step") - 60 :],
    "the file of another machine": lambda text: re.sub(r'"[^"]*/bug/', '"/mnt/cluster/home/ana/bug/', text),
    "a relative path": lambda text: re.sub(r'"[^"]*/bug/', '"', text),
    "windows paths": lambda text: re.sub(
        r'"[^"]*/bug/(\w+)', r'"C:\\Users\\Ana Maria\\bug\\\1', re.sub(r'"[^"]*/site-packages/', r'"C:\\py\\Lib\\site-packages\\', text)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_it(real: tuple[Path, str], name: str) -> None:
    folder, text = real
    assert CULPRIT in lines(explain(AROUND[name](text), str(folder)))


def test_carets_tell_the_expression(real: tuple[Path, str]) -> None:
    frames = [
        'Traceback (most recent call last):',
        '  File "train.py", line 17, in <module>',
        '    step(torch.ones(2, 4)); print("done")',
        '    ~~~~^^^^^^^^^^^^^^^^^^',
        'RuntimeError: x',
    ]  # fmt: skip
    (raised,) = read("\n".join(frames))
    begin, end = raised.frames[0].marked or (0, 0)
    assert raised.frames[0].text[begin:end] == "step(torch.ones(2, 4))"


def test_an_edited_file(real: tuple[Path, str], tmp_path: Path) -> None:
    """Lines have moved since the program ran: the line is found by its text, and that is said."""
    folder = Path(shutil.copytree(real[0], tmp_path / "bug"))
    moved = '"""A comment that came later."""\n\n' + (folder / "train.py").read_text()
    (folder / "train.py").write_text(moved)
    explained = explain(real[1].replace(str(real[0]), str(folder)), str(folder))
    assert CULPRIT in lines(explained) and ("train.py", 14) in lines(explained)
    assert explained is not None and any("has changed since" in note for note in explained.notes)


def test_an_error_without_its_traceback(real: tuple[Path, str]) -> None:
    """Whatever below the folder can have raised it is an answer: the script and the notebook."""
    explained = explain(f"it says: {MESSAGE}", str(real[0]))
    assert explained is not None and explained.error is not None and explained.error.name == "no-graph"
    assert {Path(answer.place.path).name for answer in explained.answers if answer.place} == {"train.py", "study.ipynb"}


def test_a_traceback_without_its_end(real: tuple[Path, str]) -> None:
    cut = real[1][: real[1].rindex("RuntimeError")]
    explained = explain(cut, str(real[0]))
    assert explained is not None and explained.error is None
    assert any("ends before its last line" in note for note in explained.notes)
    assert CULPRIT in lines(explained)  # what gradline finds on the lines that ran


# ---------------------------------------------------------------- who wrote it


@pytest.mark.parametrize("name", ["ipython", "python313-colour"])
def test_recorded_of_a_script(name: str) -> None:
    assert CULPRIT in lines(explain((RECORDED / f"{name}.txt").read_text(), str(PROJECT)))


@pytest.mark.parametrize("name", ["jupyter", "ipython7", "ipython80"])
def test_recorded_of_a_notebook(name: str) -> None:
    found = lines(explain((RECORDED / f"{name}.txt").read_text(), str(PROJECT)))
    assert ("study.ipynb[2]", 4) in found and ("study.ipynb[3]", 6) in found


PROGRAMS = {
    "raise from": """
        from train import step
        import torch
        try:
            step(torch.ones(2, 4))
        except RuntimeError as error:
            raise ValueError("training failed") from error
    """,
    "raised while handling it": """
        from train import model, step
        import torch
        try:
            step(torch.ones(2, 4))
        except RuntimeError:
            model.weight.grad.zero_()
    """,
    "logged, and the program goes on to fail at something else": """
        import logging
        from train import step
        import torch
        try:
            step(torch.ones(2, 4))
        except RuntimeError:
            logging.exception("step failed")
        open("nowhere/at/all")
    """,
    "a worker of a data loader": """
        import torch
        from train import step
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 1
            def __getitem__(self, index):
                step(torch.ones(2, 4))
        if __name__ == "__main__":
            list(torch.utils.data.DataLoader(Data(), num_workers=1))
    """,
    "torch.multiprocessing": """
        import torch
        from train import step
        def work(rank):
            step(torch.ones(2, 4))
        if __name__ == "__main__":
            torch.multiprocessing.spawn(work, nprocs=1)
    """,
    "a process pool": """
        from concurrent.futures import ProcessPoolExecutor
        import torch
        from train import step
        def work(rank):
            step(torch.ones(2, 4))
        if __name__ == "__main__":
            ProcessPoolExecutor(1).submit(work, 0).result()
    """,
    "a thread": """
        import threading
        import torch
        from train import step
        thread = threading.Thread(target=step, args=[torch.ones(2, 4)])
        thread.start()
        thread.join()
    """,
    "rich": """
        from rich.traceback import install
        install(show_locals=False, width=100)
        import torch
        from train import step
        step(torch.ones(2, 4))
    """,
    "an exception group": """
        import sys
        import torch
        from train import step
        try:
            step(torch.ones(2, 4))
        except RuntimeError as error:
            if sys.version_info < (3, 11):
                raise
            raise ExceptionGroup("both", [error, ValueError("other")])
    """,
}


SPAWNS = ("torch.multiprocessing",)  # begins Python anew with the program as its main file


@pytest.fixture(scope="module")
def written(real: tuple[Path, str]) -> dict[str, str]:
    scripts = {name: f"program_{number}.py" for number, name in enumerate(PROGRAMS)}
    for name, script in scripts.items():
        (real[0] / script).write_text(textwrap.dedent(PROGRAMS[name]))
    forks = [name for name in PROGRAMS if name not in SPAWNS]
    texts = dict(zip(forks, running.run((real[0], scripts[name]) for name in forks), strict=True))
    return texts | {name: running.python(real[0], scripts[name]).stderr for name in SPAWNS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_who_wrote_it(real: tuple[Path, str], written: dict[str, str], name: str) -> None:
    folder, text = real[0], written[name]
    assert MESSAGE in " ".join(text.split())  # rich breaks lines
    explained = explain(text, str(folder))
    assert explained is not None and explained.error is not None and explained.error.name == "no-graph", text
    assert CULPRIT in lines(explained), text


def test_pytest(real: tuple[Path, str]) -> None:
    """In each of its styles, of a chain and of one frame; where `CI` is set, it repeats the whole error at its end."""
    (real[0] / "test_step.py").write_text(
        "import torch\nfrom train import step\n\n\ndef test():\n    step(torch.ones(2, 4))\n"
    )
    program = """
        import os, sys, pytest
        os.dup2(2, 1)
        for ci in ("", "1"):
            for style in ("long", "short", "native"):
                os.environ.pop("CI", None)
                os.environ.pop("BUILD_NUMBER", None)
                if ci:
                    os.environ["CI"] = ci
                print("STYLE", flush=True)
                pytest.main(["-p", "no:cacheprovider", f"--tb={style}", "test_step.py"])
                sys.modules.pop("test_step", None)
    """
    (real[0] / "run_pytest.py").write_text(textwrap.dedent(program))
    (text,) = running.run([(real[0], "run_pytest.py")])
    _, *styles = text.split("STYLE")
    assert len(styles) == 6
    for style in styles:
        explained = explain(style, str(real[0]))
        assert CULPRIT in lines(explained) and ("train.py", 12) in lines(explained), style
        assert explained is not None and not explained.others, style


def test_pytest_of_one_frame() -> None:
    text = """
    def test():
        loss = torch.ones(())
>       loss.total()
E       AttributeError: 'Tensor' object has no attribute 'total'

test_one.py:6: AttributeError
=========================== short test summary info ============================
FAILED test_one.py::test - AttributeError: 'Tensor' object has no attribute 'total'
ERROR test_one.py::other - ValueError: it is another one
"""
    first, other = read(text)
    assert [(frame.path, frame.line, frame.text) for frame in first.frames] == [("test_one.py", 6, "loss.total()")]
    assert (other.kind, other.frames) == ("ValueError", ())


def test_torchrun(real: tuple[Path, str]) -> None:
    """Two real processes; what torchrun itself raises at the end is not the error."""
    program = "import torch.distributed as dist\ndist.init_process_group('gloo')\nimport runpy\nrunpy.run_path('train.py', run_name='__main__')\n"
    (real[0] / "ranks.py").write_text(program)
    done = running.python(real[0], "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "ranks.py")
    assert "ChildFailedError" in done.stderr and MESSAGE in done.stderr
    explained = explain(done.stderr, str(real[0]), command=["torchrun", "ranks.py"])
    assert CULPRIT in lines(explained), done.stderr
    assert explained is not None and explained.probe == "gradline probe --wrap -- torchrun ranks.py"


def test_anomaly_mode_shows_the_forward(tmp_path: Path) -> None:
    """The line that saved the tensor is in another function than the backward; the warning names it."""
    pytest.importorskip("torch")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
            import torch
            torch.autograd.set_detect_anomaly(True)
            weight = torch.zeros(3, requires_grad=True)
            def norm(x):
                return x.sqrt()
            loss = (norm(weight) * 0).sum()
            loss.backward()
        """)
    )
    text = running.python(tmp_path, "main.py").stderr
    raised, error, _ = chosen(text)
    assert raised is not None and error is not None and error.name == "nan-gradient"
    assert [(frame.line, frame.function) for frame in raised.forward[-2:]] == [(7, "<module>"), (6, "norm")]
    found = lines(explain(text, str(tmp_path)))
    assert ("main.py", 6) in found, "the forward line that made the NaN"


# ---------------------------------------------------------------- anything at all


@given(st.text(alphabet=st.sampled_from(list('abE :.\n\r\t "^~|[]()>-File line1in,Tracebk\x1b│❱')), max_size=300))
def test_reading_never_raises(text: str) -> None:
    for one in (text, "Traceback (most recent call last):\n" + text, text + "\nRuntimeError: x\n" + text):
        for raised in read(one):
            assert raised.frames or raised.kind


def test_long_texts_are_read_in_time() -> None:
    """10 MB of log, and one line of 10 MB, in seconds: no pattern may be quadratic."""
    text = "epoch 3: loss 0.123456 [E] a|b (pid 3) 12:00:00\n" * 200_000
    assert not read(text)
    assert not read(" " * 5_000_000 + "x" * 5_000_000)
    assert [raised.said for raised in read(f"{text}Traceback (most recent call last):\nRuntimeError: x\n")] == ["x"]
