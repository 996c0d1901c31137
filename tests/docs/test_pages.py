"""Every command, program, setting and output that README and `docs/` show is tried; `blocks.py` says how."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blocks import NEEDS, ROOT, Block, BlockError, pages, read
from rule_run import Runner

from gradline.cli import _parser
from gradline.config import Configuration

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
SECONDS = 120
PAGES = pages()
FOUND = (0, 1)  # what a command may exit with that looks for faults, and a server whose client goes away


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    pytest.importorskip("torch")
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, tmp_path: Path, runner: Runner) -> None:
    page = Page(name, tmp_path, runner)
    problems = [problem for block in read(PAGES[name], name) for problem in page.problems(block)]
    problems += [f"{name}: no command uses {title}" for title in page.unused]
    assert not problems, "\n\n".join(problems)


def test_what_is_not_run_says_why() -> None:
    blocks = [block for name, text in PAGES.items() for block in read(text, name)]
    skipped = Counter(block.says["not run"] for block in blocks if "not run" in block.says)
    print(f"{len(blocks)} blocks, of which {skipped.total()} are not run: {dict(skipped)}")
    assert len(blocks) > 45 and skipped.total() < len(blocks) / 3


class Page:
    """Tries the blocks of one page, in order, in one scratch folder."""

    def __init__(self, name: str, folder: Path, runner: Runner) -> None:
        self.name, self.folder, self.runner = name, folder / "project", runner
        self.unused: list[str] = []
        self.files: dict[str, str] = {}  # the Python files that the page has made so far
        shutil.copytree(HERE / "scratch", self.folder)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("LANG", "LC_", "GRADLINE_"))},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8", "COLUMNS": "80", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }  # fmt: skip

    def problems(self, block: Block) -> list[str]:
        """What is wrong with a block: nothing, if it is as the page says."""
        if block.language in ("sh", "console"):
            self.unused = [title for title in self.unused if not _uses(block.body, title)]
            syntax = [problem for command in _commands(block) if (problem := _syntax(command))]
            if syntax:
                return [f"{block.where}: {problem}" for problem in syntax]
        if "not run" in block.says or "run by" in block.says or block.language == "text":
            return []
        if block.title:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")
            if block.language == "python":
                self.unused.append(block.title)
        check = getattr(self, f"_{block.language}")
        return [f"{block.where}: {problem}" for problem in check(block)]

    def _sh(self, block: Block) -> Iterator[str]:
        commands = list(_commands(block))
        for command in commands:
            code, output = self.run(command)
            wanted = (int(block.says["exit"]),) if "exit" in block.says and command is commands[-1] else None
            if code not in (wanted or (FOUND if _finds(command) else (0,))):
                yield f"`{command}` exits with {code}:\n{output}"

    def _console(self, block: Block) -> Iterator[str]:
        for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            code, output = self.run(command)
            if code not in FOUND and str(code) != block.says.get("exit"):
                yield f"`{command}` exits with {code}"
            pattern = ".*".join(re.escape(piece) for piece in re.split(r"^…$", shown.rstrip(), flags=re.MULTILINE))
            if not re.fullmatch(pattern, output.rstrip(), re.DOTALL):
                yield f"`{command}` prints\n{output}"

    def run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", timeout=SECONDS,
        )  # fmt: skip
        return done.returncode, "\n".join(line.rstrip() for line in done.stdout.splitlines())

    def _python(self, block: Block) -> Iterator[str]:
        before = block.says.get("before", "")
        body = f"{before}\n{block.body}" if before else block.body
        if block.title:
            self.files[block.title] = body
            compile(body, block.title, "exec")
            if "raises" not in block.says and "runs" not in block.says:
                return
        outcome = self.runner.run({**self.files, "main.py": body})
        if not outcome.error.startswith(block.says.get("raises", "")) or bool(outcome.error) != (
            "raises" in block.says
        ):
            yield f"raises {outcome.error or 'nothing'!r} at {outcome.at}\n{outcome.printed}"

    def _toml(self, block: Block) -> Iterator[str]:
        table = tomllib.loads(block.body)
        ours = "gradline" in table.get("tool", {}) or block.title.endswith("gradline.toml")
        if ours:
            name = "pyproject.toml" if "tool" in table else "gradline.toml"
            folder = self.folder / "settings" / str(block.line)
            folder.mkdir(parents=True)
            (folder / name).write_text(block.body, encoding="utf-8")
            (folder.parent / "gradline.toml").write_text("", encoding="utf-8")  # for `extend`
            Configuration().for_folder(folder.as_posix())
        yield from ()

    def _json(self, block: Block) -> Iterator[str]:
        for key, value in _ours(json.loads(block.body)):
            known = _extension_settings().get(key)
            if known is None:
                yield f"{key} is no setting of the extension"
            elif "enum" in known and value not in known["enum"]:
                yield f"{key} can't be {value!r}"

    def _yaml(self, block: Block) -> Iterator[str]:
        yaml = pytest.importorskip("yaml")
        if not isinstance(yaml.safe_load(block.body), dict | list):
            yield "is no mapping and no list"


def _commands(block: Block) -> Iterator[str]:
    text = block.body.replace("\\\n", " ")
    if block.language == "console":
        yield from re.findall(r"^\$ (.*)$", text, re.MULTILINE)
        return
    for line in text.splitlines():
        if command := re.sub(r"(^|\s)#.*$", "", line).strip():
            yield command


def _finds(command: str) -> bool:
    return re.search(r"\bgradline (check|probe|why|server)\b", command) is not None


def _uses(body: str, title: str) -> bool:
    """Whether commands name this file, a folder above it, or the whole project."""
    folders = [str(parent) for parent in Path(title).parents][:-1]
    return any(name in body for name in (title, *folders)) or re.search(r"gradline check(?! [^-\s])", body) is not None


def _syntax(command: str) -> str:
    """What argparse says of the gradline commands in a line; "" if it takes them."""
    for part in re.split(r"&&|\||;", command):
        words = shlex.split(part, comments=True)
        if words[:1] != ["gradline"] or words[1:2] in (["server"], []) or words[1].startswith("-"):
            continue
        if words[1] == "probe":
            from gradline.probe.options import parser

            known = {option for action in parser()._actions for option in action.option_strings}
            own = words[2 : words.index("--")] if "--" in words else words[2:]
            if unknown := [word for word in own if word.startswith("--") and word.split("=")[0] not in known]:
                return f"`gradline probe` has no {unknown[0]}"
            continue
        if words[1] not in _subcommands():
            return f"there is no `gradline {words[1]}`"
        own = words[2 : words.index("--")] if "--" in words else words[2:]
        known = {option for action in _subcommands()[words[1]]._actions for option in action.option_strings}
        if not known - {"-h", "--help"}:
            continue  # it has a parser of its own
        if unknown := [word for word in own if word.startswith("--") and word.split("=")[0] not in known]:
            return f"`gradline {words[1]}` has no {unknown[0]}"
    return ""


def _subcommands() -> dict[str, Any]:
    return next(action.choices for action in _parser()._actions if action.dest == "command")  # type: ignore[return-value]


def _ours(value: Any) -> Iterator[tuple[str, Any]]:
    """The settings in a JSON text whose name begins with `gradline.`, wherever they stand."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.startswith("gradline."):
                yield key, inner
            yield from _ours(inner)


def _extension_settings() -> dict[str, Any]:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    found = package["contributes"]["configuration"]
    return {
        key: value
        for each in (found if isinstance(found, list) else [found])
        for key, value in each["properties"].items()
    }


# The harness itself


def trying(text: str, folder: Path, runner: Runner) -> list[str]:
    page = Page("page.md", folder, runner)
    return [problem for block in read(text, "page.md") for problem in page.problems(block)]


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```sh\ngradline check no-such-folder\n```", "exits with 2"),
        ("```sh\ngradline chekc\n```", "there is no `gradline chekc`"),
        ("```sh\ngradline check --fixx\n```", "has no --fixx"),
        ("```sh\nfalse\n```", "exits with 1"),
        ("```console\n$ echo one\ntwo\n```", "prints\none"),
        ("```python\nassert False\n```", "raises 'AssertionError'"),
        ("<!-- raises: RuntimeError -->\n```python\nx = 1\n```", "raises 'nothing'"),
        ('```json\n{"gradline.inlayHints": "some"}\n```', "can't be 'some'"),
        ('```json\n{"a": {"gradline.hints": 1}}\n```', "no setting"),
    ],
)
def test_what_is_wrong_is_found(block: str, problem: str, tmp_path: Path, runner: Runner) -> None:
    problems = trying(block, tmp_path, runner)
    assert len(problems) == 1 and problem in problems[0], problems


def test_what_is_right_passes(tmp_path: Path, runner: Runner) -> None:
    text = """
<!-- before: x = torch.ones(2) -->

```console
$ printf 'a\\nb\\nc\\n'
a
…
c
```

<!-- before: import torch; x = torch.ones(2) -->
```python
assert x.sum() == 2
```

<!-- raises: RuntimeError: element 0 -->
```python
import torch
torch.ones(1).backward()
```

<!-- not run: needs an editor: it is one -->
```sh
no-such-command
```
"""
    assert trying(text, tmp_path, runner) == []


@pytest.mark.parametrize(
    "text",
    ["    gradline check", "```\nx\n```", "```ruby\nx\n```", "<!-- not run: it is long -->\n```sh\nx\n```",
     "<!-- run by: tests/no_such_test.py -->\n```sh\nx\n```", "```lua\nx\n```", "```text\n$ gradline check\n```"],
)  # fmt: skip
def test_nothing_slips_through(text: str) -> None:
    with pytest.raises(BlockError):
        read(text, "page.md")


def test_settings_that_gradline_does_not_have_are_found(tmp_path: Path, runner: Runner) -> None:
    with pytest.raises(Exception, match="unknown setting 'selct'"):
        trying('```toml\n[tool.gradline]\nselct = ["ALL"]\n```', tmp_path, runner)
    assert NEEDS
