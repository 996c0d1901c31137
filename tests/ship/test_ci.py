"""The hook for pre-commit and the GitHub Action, run as docs/ci.md says, from a clone of this checkout.

pre-commit is the real one. GitHub's runner is not to be had; `Runner` executes the steps of `action.yml` as GitHub
documents it: expressions, environment, the files for outputs. What other people's actions do (`uses:`) is only recorded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_package import ROOT, ours

yaml = pytest.importorskip("yaml")

BUG = "import torch\n\nmodel = torch.nn.Linear(2, 1)\nloss = model(torch.ones(3, 2)).mean().detach()\nloss.backward()\n"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
LIMIT = 240  # seconds for one command


def example(heading: str) -> str:
    """The YAML below a heading of docs/ci.md."""
    found = re.search(rf"^## {heading}\n.*?^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def run(*command: object, cwd: Path, **environ: str) -> subprocess.CompletedProcess:
    around = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON", "VIRTUAL"))}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**around, **GIT, **environ},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def git(*arguments: object, cwd: Path) -> str:
    done = run("git", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Path:
    """A repository that holds this checkout as version 0.1.0."""
    top = tmp_path_factory.mktemp("gradline")
    for name in ours():
        if not name.startswith(("tests/", "vscode-client/test", "docs/images", "benchmarks/")):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, top / name)
    git("init", "-q", cwd=top)
    git("add", "-A", cwd=top)
    git("commit", "-qm", "all", cwd=top)
    git("tag", "v0.1.0", cwd=top)
    return top


# pre-commit


def test_pre_commit(address, tmp_path):
    pytest.importorskip("pre_commit")
    config = example("pre-commit").replace("gradline-address", address.as_posix())
    config += (
        "      - id: gradline-fix\n        stages: [manual]\n      - id: gradline-changed\n        stages: [manual]\n"
    )
    git("init", "-q", cwd=tmp_path)
    (tmp_path / ".pre-commit-config.yaml").write_text(config)
    (tmp_path / "train.py").write_text(BUG)
    (tmp_path / "clean.py").write_text("x = 1\n")
    git("add", "-A", cwd=tmp_path)
    home = {
        "PRE_COMMIT_HOME": str(tmp_path.parent / f"{tmp_path.name}-home"),
        "GRADLINE_CACHE_DIR": str(tmp_path / ".git/c"),
    }

    def pre_commit(*arguments: str) -> subprocess.CompletedProcess:
        return run(sys.executable, "-m", "pre_commit", *arguments, cwd=tmp_path, **home)

    assert pre_commit("validate-manifest", str(address / ".pre-commit-hooks.yaml")).returncode == 0
    assert pre_commit("install").returncode == 0
    # a commit is stopped, and told why
    done = run("git", "commit", "-m", "first", cwd=tmp_path, **home)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "error[GL102] detached-loss" in said and "train.py:5:1" in said, said
    # the whole project is looked at, whatever file changes
    done = pre_commit("run", "gradline", "--files", "clean.py")
    assert done.returncode == 1 and "train.py:5:1" in done.stdout
    # the changed files alone
    done = pre_commit("run", "gradline-changed", "--hook-stage", "manual", "--files", "clean.py")
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout
    # put right
    done = pre_commit("run", "gradline-fix", "--hook-stage", "manual", "--files", "train.py")
    assert (done.returncode, "files were modified by this hook" in done.stdout) == (1, True), done.stdout
    assert ".detach()" not in (tmp_path / "train.py").read_text()
    git("add", "-A", cwd=tmp_path)
    assert run("git", "commit", "-m", "second", cwd=tmp_path, **home).returncode == 0


# The action


class Runner:
    """Runs a composite action: enough of GitHub's runner for its `run:` steps."""

    def __init__(self, action: Path, workspace: Path, temp: Path) -> None:
        self.folder, self.workspace, self.temp = action, workspace, temp
        self.action = yaml.safe_load((action / "action.yml").read_text(encoding="utf-8"))
        self.used: list[tuple[str, dict]] = []  # what would have been called of others
        self.log = ""
        self.summary = ""
        self.outputs: dict[str, str] = {}
        self.environ: dict[str, str] = {}  # what steps have added for those after them

    def run(self, **given: str) -> int:
        """Executes the steps with these inputs; the exit code of the first that fails, else 0."""
        known = self.action["inputs"]
        assert set(given) <= set(known)
        names = {f"inputs.{name}": given.get(name, str(about.get("default", ""))) for name, about in known.items()}
        names |= {"github.action_path": str(self.folder), "runner.temp": str(self.temp)}
        files = {name: self.temp / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        failed = 0
        for step in self.action["runs"]["steps"]:
            condition = step.get("if", "")
            if (failed and "always()" not in condition) or (condition and not self.holds(condition, names)):
                continue
            if "uses" in step:
                self.used.append((step["uses"], {k: self.filled(str(v), names) for k, v in step["with"].items()}))
                continue
            assert step["shell"] == "bash", "GitHub wants a shell for each step of a composite action"
            environ = {name: self.filled(str(text), names) for name, text in step.get("env", {}).items()}
            script = self.filled(step["run"], names)
            assert script == step["run"], "what comes from outside goes through the environment"
            done = run(
                "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script, cwd=self.workspace,
                **self.environ, **environ, **{name: str(path) for name, path in files.items()},
            )  # fmt: skip
            self.log += done.stdout + done.stderr
            failed = failed or done.returncode
            self.environ |= dict(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
            outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
            names |= {f"steps.{step.get('id')}.outputs.{name}": text for name, text in outputs.items()}
        self.summary = files["GITHUB_STEP_SUMMARY"].read_text()
        self.outputs = {name: self.filled(about["value"], names) for name, about in self.action["outputs"].items()}
        return failed

    @staticmethod
    def filled(text: str, names: dict[str, str]) -> str:
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: names[found[1]], text)

    @staticmethod
    def holds(condition: str, names: dict[str, str]) -> bool:
        """An expression of `always()`, `name == 'text'` and `name != 'text'`, joined by `&&`."""
        inner = re.fullmatch(r"\$\{\{ (.*) \}\}", condition)
        assert inner, condition
        for part in inner[1].split(" && "):
            if part == "always()":
                continue
            name, sign, text = re.fullmatch(r"([\w.-]+) (==|!=) '(.*)'", part).groups()  # type: ignore[union-attr]
            if (names[name] == text) != (sign == "=="):
                return False
        return True


@pytest.fixture
def runner(address, tmp_path) -> Runner:
    if shutil.which("bash") is None:
        pytest.skip("needs bash, as GitHub's runners have it")
    workspace, temp = tmp_path / "repo", tmp_path / "temp"
    (workspace / "src").mkdir(parents=True)
    temp.mkdir()
    (workspace / "src" / "train.py").write_text(BUG)
    (workspace / "src" / "legacy amp.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    return Runner(address, workspace, temp)


def test_the_action_as_documented(runner, tmp_path):
    workflow = yaml.safe_load(example("GitHub Actions"))
    _checkout, step = workflow["jobs"]["gradline"]["steps"]
    assert step["uses"] == "gradline-address@v0.1.0"
    assert runner.run(**step["with"]) == 1, runner.log
    annotation = next(line for line in runner.log.splitlines() if line.startswith("::error"))
    assert annotation.startswith(
        "::error title=gradline (GL102 detached-loss),file=src/train.py,line=5,endLine=5,col=1,"
    )
    assert "GL604" not in runner.log
    assert "src/train.py:5:1: GL102" in runner.summary
    assert runner.outputs == {"exit-code": "1"}
    results = json.loads((runner.workspace / "gradline.sarif").read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["GL102"]
    assert [name.split("@")[0] for name, _ in runner.used] == [
        "actions/setup-python",
        "github/codeql-action/upload-sarif",
    ]
    assert runner.used[1][1]["sarif_file"] == "gradline.sarif"
    # once more with other inputs; gradline is there already
    runner.action["runs"]["steps"] = [
        one for one in runner.action["runs"]["steps"] if one["name"] != "Install gradline"
    ]
    (runner.workspace / "src" / "train.py").write_text("x = 1\n")
    runner.used.clear()
    assert runner.run(**{"python-version": "", "args": "'src/legacy amp.py' --select GL604"}) == 0, runner.log
    assert runner.used == [] and runner.outputs == {"exit-code": "0"}
    assert "::notice title=gradline (GL604" in runner.log


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "{action}"),
        ({"version": "1.2.3"}, "gradline==1.2.3"),
        ({"path": "dist/gradline.whl"}, "dist/gradline.whl"),
        ({"path": "a b; c", "version": "1.2.3"}, "a b; c"),
    ],
)
@pytest.mark.parametrize("scripts", ["bin", "Scripts"])
def test_what_the_action_installs(runner, tmp_path, given, what, scripts):
    """With a Python that only writes down what it is told."""
    stub = tmp_path / "stub" / "python"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/bash\nmkdir -p "$3/{scripts}"; cp "$0.told" "$3/{scripts}/python"\n')
    stub.with_name("python.told").write_text(f"#!/bin/bash\nprintf '%s\\n' \"$@\" > '{tmp_path}/told'\n")
    for path in stub.parent.iterdir():
        path.chmod(0o755)
    runner.action["runs"]["steps"] = [
        one for one in runner.action["runs"]["steps"] if one["name"] == "Install gradline"
    ]
    runner.action["outputs"] = {}
    runner.environ["PATH"] = f"{stub.parent}{os.pathsep}{os.environ['PATH']}"
    assert runner.run(**given) == 0, runner.log
    told = (tmp_path / "told").read_text().splitlines()
    assert told[:3] == ["-m", "pip", "install"] and told[-2:] == ["--", what.format(action=runner.folder)]
    assert runner.environ["GRADLINE_PYTHON"] == f"{runner.temp}/gradline/{scripts}/python"


def test_inputs_of_the_action_are_no_shell(runner, tmp_path):
    mark = tmp_path / "mark"
    evil = f'"; touch {mark}; $(touch {mark}) `touch {mark}`'
    # as if it had been installed
    step = next(step for step in runner.action["runs"]["steps"] if step.get("id") == "check")
    python = Path(sys.executable)
    if not python.with_name("gradline").exists():
        pytest.skip("needs the command gradline beside this Python")
    for text in (evil, evil.replace('"', ""), "--output-format json", "src -o x"):
        done = run(
            "bash", "-c", step["run"], cwd=runner.workspace, ARGS=text, ACTION=str(ROOT), GRADLINE_PYTHON=str(python),
            SARIF_FILE="", GRADLINE_CACHE_DIR=str(tmp_path / "cache"),
        )  # fmt: skip
        assert done.returncode == 2, done.stdout + done.stderr
    assert not mark.exists()


def test_the_documented_inputs_are_those_of_the_action():
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    table = PAGE.partition("## GitHub Actions")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(action["inputs"])
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    table = PAGE.partition("## pre-commit")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [hook["id"] for hook in hooks]


def test_the_other_commands_of_the_page_run(tmp_path):
    command = Path(sys.executable).with_name("gradline")
    if not command.exists() or sys.platform == "win32":
        pytest.skip("needs the command gradline beside this Python, and a shell")
    (tmp_path / "train.py").write_text(BUG)
    (tmp_path / "old.py").write_text(BUG)
    git("init", "-q", "-b", "main", cwd=tmp_path)
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "one", cwd=tmp_path)
    (tmp_path / "train.py").write_text(BUG + "print(loss)\n")
    path = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "GRADLINE_CACHE_DIR": str(tmp_path / "cache")}
    lines = PAGE.partition("## Anything else")[2].partition("```sh\n")[2].partition("```")[0].splitlines()
    gitlab = yaml.safe_load(example("GitLab"))["gradline"]["script"][1]
    for line in [*lines, gitlab]:
        done = run("bash", "-c", line, cwd=tmp_path, **path)
        # xargs has an exit code of its own for a command that exited with 1
        assert (done.returncode, done.stderr) == (123 if "xargs" in line else 1, ""), line
        assert ("old.py" in done.stdout) == ("xargs" not in line and "-o " not in line and "--statistics" not in line)
    assert json.loads((tmp_path / "gl-code-quality-report.json").read_text())[0]["check_name"] == "detached-loss"
    first, second = PAGE.partition("## A project")[2].partition("```sh\n")[2].partition("```")[0].splitlines()
    assert run("bash", "-c", first, cwd=tmp_path, **path).stdout == "Silenced 2 findings in 2 files.\n"
    assert run("bash", "-c", second, cwd=tmp_path, **path).returncode == 0
