"""`gradline mcp`, as the official SDK's own client meets it over standard input and output."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

MIDNIGHT = Path(__file__).parents[2] / "examples" / "midnight"
ERAS = ["auto", "legacy"]  # how a client begins: as the protocol of 2026 has it, and as those before it
PROGRAM = """import pathlib
import torch
from torch import nn

pathlib.Path("ran.txt").write_text("ran")
print("the program speaks")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(8, 2, 4):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


@asynccontextmanager
async def connected(folder: Path, answer: Any = None, mode: str = "auto"):
    """A client of `gradline mcp` in this folder, as a function that calls a tool.

    It gives the tool's text and what came with it in structure; a tool's error is raised as ToolFailed. `answer` is what
    the user says when asked (None: the client cannot ask).
    """
    asked: list[str] = []

    async def ask(_: Any, parameters: Any) -> ElicitResult:
        asked.append(parameters.message)
        return answer

    server = StdioServerParameters(command=sys.executable, args=["-m", "gradline", "mcp"], cwd=str(folder))
    async with Client(server, mode=mode, elicitation_callback=ask if answer is not None else None) as client:

        async def call(tool: str, **arguments: Any) -> tuple[str, Any]:
            result = await client.call_tool(tool, arguments)
            text = "".join(part.text for part in result.content)
            if result.is_error:
                raise ToolFailed(text)
            return text, result.structured_content

        call.client, call.asked = client, asked  # type: ignore[attr-defined]
        yield call


class ToolFailed(Exception):
    """The tool has answered that it could not do what it was asked."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MIDNIGHT, tmp_path / "midnight", ignore=shutil.ignore_patterns("__pycache__")))


class TestWhatIsOffered:
    @pytest.mark.parametrize("mode", ERAS)
    def test_four_tools_and_when_to_use_them(self, project, mode):
        async def test():
            async with connected(project, mode=mode) as call:
                listed = {tool.name: tool for tool in (await call.client.list_tools()).tools}
                assert list(listed) == ["check", "explain", "why", "probe"]
                assert all(tool.description and tool.title for tool in listed.values())
                assert [name for name, tool in listed.items() if not tool.annotations.read_only_hint] == ["probe"]
                assert "consent" not in listed["probe"].input_schema["properties"], (
                    "that is the user's, not the model's"
                )
                assert "call `check`" in call.client.instructions

        anyio.run(test)


class TestCheck:
    def test_tells_the_finding_its_trail_and_the_fix(self, project):
        async def test():
            async with connected(project) as call:
                text, found = await call("check", paths=["train.py"])
                assert text.startswith("error[GL202] backward-under-grad-off: `loss` was computed with gradients off")
                assert "utils/data_loader.py" in text, "the trail leads to the file that turned gradients off"
                assert "+ with torch.no_grad():" in text, "the fix is shown as lines"
                (finding,) = found["findings"]
                assert (finding["code"], finding["fix"]["applicability"]) == ("GL202", "safe")
                # the same records as the command writes
                command = [
                    sys.executable,
                    "-m",
                    "gradline",
                    "check",
                    "--no-cache",
                    "--output-format",
                    "json",
                    "train.py",
                ]
                written = subprocess.run(command, cwd=project, capture_output=True, check=False).stdout
                assert json.loads(written) == found["findings"]

        anyio.run(test)

    def test_says_that_nothing_was_found(self, project):
        async def test():
            async with connected(project) as call:
                text, found = await call("check", text="import torch\n", filename="new.py")
                assert (text, found["findings"]) == ("All checks passed!", [])

        anyio.run(test)

    def test_judges_a_text_before_it_is_written(self, project):
        """Imports are those of the place where it is to be: the switch in `utils` reaches it."""
        before = {path: path.read_bytes() for path in project.rglob("*.py")}

        async def test():
            async with connected(project) as call:
                text, found = await call("check", text=(project / "train.py").read_text(), filename="copy.py")
                assert [one["code"] for one in found["findings"]] == ["GL202"]
                assert "--> copy.py:27:9" in text

        anyio.run(test)
        assert before == {path: path.read_bytes() for path in project.rglob("*.py")}

    def test_takes_a_file_anew_when_it_has_changed(self, project):
        async def test():
            file = project / "data.py"
            file.write_text("import torch\nw = torch.ones(3, requires_grad=True)\n(w * 2).sum().item().backward()\n")
            async with connected(project) as call:
                assert "GL101" in (await call("check", paths=[str(file)]))[0]
                file.write_text(file.read_text().replace(".item()", ""))
                assert (await call("check", paths=[str(file)]))[0] == "All checks passed!"

        anyio.run(test)

    def test_refuses_what_is_not_there(self, project):
        async def test():
            async with connected(project) as call:
                with pytest.raises(ToolFailed, match=r"gone\.py does not exist"):
                    await call("check", paths=["gone.py"])
                with pytest.raises(ToolFailed, match="not both"):
                    await call("check", paths=["train.py"], text="x = 1")
                (project / "gradline.toml").write_text("ignore = ['GL999']\n")
                with pytest.raises(ToolFailed, match=r"gradline\.toml.*GL999"):
                    await call("check", paths=["train.py"])

        anyio.run(test)


class TestExplainAndWhy:
    def test_a_rule(self, project):
        async def test():
            async with connected(project) as call:
                page, _ = await call("explain", rule="detached-loss")
                assert page.startswith("#") and "GL102" in page and "```python" in page
                assert page == (await call("explain", rule="gl102"))[0]
                with pytest.raises(ToolFailed, match="unknown rule 'GL999'; did you mean"):
                    await call("explain", rule="GL999")

        anyio.run(test)

    def test_a_traceback(self, project):
        """The error of the program as torch raises it; the answer leads to the other file."""
        done = subprocess.run([sys.executable, "train.py"], cwd=project, capture_output=True, text=True, check=False)
        assert "does not require grad" in done.stderr

        async def test():
            async with connected(project) as call:
                answer, _ = await call("why", traceback=done.stderr, folder=str(project))
                assert "utils/data_loader.py:12" in answer and "set_grad_enabled(False)" in answer
                with pytest.raises(ToolFailed, match="no traceback"):
                    await call("why", traceback="it does not work")

        anyio.run(test)


class TestProbe:
    @pytest.fixture
    def train(self, tmp_path: Path) -> Path:
        (tmp_path / "train.py").write_text(PROGRAM)
        return tmp_path

    @pytest.mark.parametrize("mode", ERAS)
    def test_runs_when_the_user_agrees(self, train, mode):
        pytest.importorskip("torch")

        async def test():
            yes = ElicitResult(action="accept", content={"run": True})
            async with connected(train, yes, mode) as call:
                said, _ = await call("probe", target="train.py", python=sys.executable, steps=1)
                assert re.search(r"gradients?", said) and "the program speaks" in said
                (question,) = call.asked
                assert (
                    f"{sys.executable} train.py" in question
                    and str(train) in question
                    and "1 optimizer step " in question
                )

        anyio.run(test)
        assert not (train / "ran.txt").exists(), "the folder is kept as it was"

    @pytest.mark.parametrize(
        ("mode", "answer"),
        [
            ("auto", ElicitResult(action="decline")),
            ("legacy", ElicitResult(action="cancel")),
            ("auto", ElicitResult(action="accept", content={"run": False})),
        ],
        ids=["declined", "cancelled", "unticked"],
    )
    def test_runs_nothing_when_the_user_does_not(self, train, answer, mode):
        async def test():
            async with connected(train, answer, mode) as call:
                with pytest.raises(ToolFailed, match="not run: the user did not agree"):
                    await call("probe", target="train.py", python=sys.executable)
                assert len(call.asked) == 1

        anyio.run(test)

    def test_runs_nothing_when_nobody_can_be_asked(self, train):
        async def test():
            async with connected(train) as call:
                with pytest.raises(ToolFailed, match=r"no way to ask .*gradline probe train\.py"):
                    await call("probe", target="train.py", python=sys.executable)

        anyio.run(test)

    def test_the_environment_in_the_folder_is_the_programs(self, train):
        """An assistant starts the server outside of any environment."""
        own = train / ".venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        own.parent.mkdir(parents=True)
        own.symlink_to(sys.executable)

        async def test():
            async with connected(train, ElicitResult(action="decline")) as call:
                with pytest.raises(ToolFailed, match="did not agree"):
                    await call("probe", target="train.py")
                assert f"{own} train.py" in call.asked[0]

        anyio.run(test)

    def test_asks_nothing_when_there_is_nothing_to_run(self, train):
        async def test():
            async with connected(train, ElicitResult(action="accept", content={"run": True})) as call:
                with pytest.raises(ToolFailed, match=r"gone\.py: no such file"):
                    await call("probe", target="gone.py")
                assert call.asked == []

        anyio.run(test)


def test_without_the_sdk_it_says_what_to_install(tmp_path):
    """As in an environment that has gradline alone: the package `mcp` is hidden."""
    hide = "import importlib.util as u, sys; real = u.find_spec; u.find_spec = lambda name, *a: None if name == 'mcp' else real(name, *a)"
    code = f"{hide}; from gradline.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert "pip install 'gradline[mcp]'" in done.stderr
