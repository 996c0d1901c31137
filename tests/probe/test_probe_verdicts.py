"""Options, verdicts, merging of ranks and the views: no torch is needed."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradline.probe import main, options, page, result, terminal, verdicts

HERE = os.path.abspath("train.py")


def claim(code: str, line: int, name: str = "", severity: str = "error", trail: tuple = ()) -> verdicts.Claim:
    return verdicts.Claim(code, name, "message", severity, HERE, line, line, 1, trail)


def report(**parts: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "version": 1, "command": "python train.py", "cwd": os.getcwd(), "stopped": "2 optimizer steps", "seconds": 1.0,
        "steps": 2, "backward_calls": 2, "findings": [], "notes": [], "executed": [], "cuts": [], "exception": None,
        "backward": [{"ok": True, "leaves": 4, "at": {"file": HERE, "line": 9, "function": "f"}}], "processes": [{}],
        "interpreter": {"path": "python", "python": "3.11.7", "torch": "2.13.0"}, "parameters": [], "modules": [],
        "isolation": {"kind": "none", "folders": [], "kept_out": []},
        "grad_mode": {"changes": [], "timeline": [], "on_at_end": True},
    }  # fmt: skip
    return {**base, **parts}


def finding(rule: str, line: int, confidence: str = "certain") -> dict[str, Any]:
    return {"rule": rule, "message": "seen", "at": {"file": HERE, "line": line, "function": "f"}, "confidence": confidence,
            "evidence": [{"at": {"file": HERE, "line": 9, "function": "f"}, "note": "backward"}]}  # fmt: skip


def cut(line: int, feeds: bool, without: int) -> dict[str, Any]:
    return {"op": "detach", "kind": "detach", "at": {"file": HERE, "line": line, "function": "f"}, "count": 2,
            "feeds_the_loss": feeds, "upstream": 2, "upstream_without_grad": without}  # fmt: skip


@pytest.mark.parametrize(
    ("one", "seen", "expected"),
    [
        (claim("GL102", 5), {"findings": [finding("cut-graph", 5)], "executed": [[HERE, 5]]}, "confirmed"),
        (claim("GL102", 9, trail=((HERE, 5),)), {"findings": [finding("cut-graph", 5)], "executed": [[HERE, 9]]}, "confirmed"),
        (claim("GL102", 5), {"findings": [finding("cut-graph", 5, "possible")], "executed": []}, "not reached"),
        (claim("GL102", 5), {"executed": []}, "not reached"),
        (claim("GL102", 5), {"executed": [[HERE, 5]], "cuts": [cut(5, False, 0)]}, "refuted"),
        (claim("GL102", 5), {"executed": [[HERE, 5]], "cuts": [cut(5, True, 0)]}, "refuted"),
        (claim("GL102", 5), {"executed": [[HERE, 5]], "cuts": [cut(5, True, 2)]}, "undecided"),
        (claim("GL202", 9), {"executed": [[HERE, 9]]}, "refuted"),
        (claim("GL201", 2), {"executed": [[HERE, 2]], "findings": [finding("grad-mode-off", 2)]}, "confirmed"),
        (claim("GL203", 2, "no-grad-without-effect"), {"executed": [[HERE, 2]]}, "undecided"),
        (claim("GL401", 9), {"executed": [[HERE, 9]], "steps": 1}, "undecided"),
        (claim("GL401", 8), {"executed": [[HERE, 8]]}, "refuted"),
        (claim("GL401", 8, trail=((HERE, 3),)), {"executed": [[HERE, 8]]}, "not reached"),
        (claim("GL411", 8), {"executed": [[HERE, 8]], "steps": 2}, "undecided"),
        (claim("GL201", 8), {"executed": [[HERE, 8]], "grad_mode": {"on_at_end": False}}, "undecided"),
        (claim("GL403", 8), {"executed": [[HERE, 8]], "optimizers": [{"steps": 2}, {"steps": 0}]}, "undecided"),
        (claim("GL805", 9), {"executed": [[HERE, 9]], "findings": [finding("squashed-twice", 5)]}, "confirmed"),
        (claim("GL901", 8), {"executed": [[HERE, 8]]}, "undecided"),
        (claim("GL101", 7), {"executed": [[HERE, 7]], "exception": {"type": "AttributeError", "message": "no backward",
                             "at": {"file": HERE, "line": 7, "function": "f"}}}, "confirmed"),
    ],
)  # fmt: skip
def test_verdict(one: verdicts.Claim, seen: dict[str, Any], expected: str) -> None:
    data = report(**seen)
    verdicts.judge(data, [one])
    assert data["verdicts"][0]["verdict"] == expected, data["verdicts"]


def test_what_the_run_alone_saw_goes_with_no_claim() -> None:
    data = report(findings=[finding("cut-graph", 5), finding("unused", 3)], executed=[[HERE, 5]])
    verdicts.judge(data, [claim("GL102", 5)])
    assert [f["static"] for f in data["findings"]] == [[0], []]


def test_claims_are_read_from_the_check_command_s_json(tmp_path: Path) -> None:
    place = {
        "location": {"row": 3, "column": 5},
        "end_location": {"row": 4, "column": 1},
        "filename": str(tmp_path / "a.py"),
    }
    entry = {**place, "code": "GL102", "name": "detached-loss", "severity": "error", "message": "m", "cell": None, "fix": None,
             "related": [{**place, "location": {"row": 1, "column": 1}, "message": "cut"}], "url": ""}  # fmt: skip
    path = tmp_path / "findings.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    claims = verdicts.load(path)
    assert verdicts.lines_of(claims) == {str(tmp_path / "a.py"): [1, 3, 4]}


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["train.py", "--", "--epochs", "1"], "script"),
        (["-m", "pkg.train"], "module"),
        (["test_it.py::test_a"], "pytest"),
        (["study.ipynb", "--until", "3"], "notebook"),
        (["pkg.mod:Net", "--input", "8x3"], "object"),
        (["--wrap", "--", "torchrun", "train.py"], "wrap"),
    ],
)
def test_targets(tmp_path: Path, arguments: list[str], kind: str) -> None:
    for name in ("train.py", "test_it.py"):
        (tmp_path / name).touch()
    (tmp_path / "study.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": ""}] * 3}))
    at = arguments.index("--") if "--" in arguments else len(arguments)
    asked = options.parse([*arguments[:at], "--cwd", str(tmp_path), *arguments[at:]])
    assert asked.target["kind"] == kind and asked.command_line()


@pytest.mark.parametrize(
    ("until", "said"),
    [("3", ""), ("0", "--until 0: study.ipynb has the cells 1 to 3"), ("4", "--until 4: study.ipynb has the cells 1 to 3"),
     ("-1", "has the cells 1 to 3")],
)  # fmt: skip
def test_cells_are_counted_from_1(tmp_path: Path, until: str, said: str, capsys: pytest.CaptureFixture) -> None:
    cell = {"cell_type": "code", "source": ""}
    (tmp_path / "study.ipynb").write_text(json.dumps({"cells": [cell, {"cell_type": "markdown", "source": ""}, cell]}))
    assert main(["study.ipynb", "--until", until, "--cwd", str(tmp_path), "--show-command"]) == (2 if said else 0)
    assert said in capsys.readouterr().err
    (tmp_path / "study.ipynb").write_text("[]")
    assert main(["study.ipynb", "--until", "1", "--cwd", str(tmp_path)]) == 2
    assert "can't be read as a notebook" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["nowhere.py"], ["json:dumps", "--until", "1"], ["-m", "json", "--until", "1"], ["--wrap"],
     ["--until", "1", "--wrap", "--", "python", "a.py"], ["a.py", "-m", "b"], ["nowhere.py::test"], ["--cwd", "/no/such/folder", "a.py"],
     ["json:dumps", "--env", "X"], ["json:dumps", "--steps", "0"], ["-m", "json", "--gradcheck"],
     ["json:dumps", "--python", "/no/such/python"]],
)  # fmt: skip
def test_wrong_command_lines_are_said_and_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture) -> None:
    assert main(arguments) == 2
    assert "gradline probe: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("printed", "said"),
    [("3.8.19\\n2.1.0", "needs 3.9 or newer"), ("3.10.2\\n", "torch is not installed in"),
     ("3.10.2\\n1.12.1+cu113", "torch 1.12.1+cu113 in"), ("", "does not run")],
)  # fmt: skip
def test_an_interpreter_that_will_not_do_is_said_with_what_to_do(
    tmp_path: Path, printed: str, said: str, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "train.py").write_text("")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{printed}\\n'\n" if printed else "#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    assert main(["train.py", "--cwd", str(tmp_path), "--python", str(python), "--no-check"]) == 2
    assert said in capsys.readouterr().err


def test_show_command_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(3)")
    assert main(["train.py", "--cwd", str(tmp_path), "--python", "python3", "--show-command", "--", "--lr", "1 2"]) == 0
    assert capsys.readouterr().out.strip().endswith("train.py --lr '1 2'")


def test_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The active environment's; without one the one that runs gradline, if torch is there; else that of the path."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "torch" else None)
    assert options.interpreter(None) == sys.executable
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert options.interpreter(None) == (shutil.which("python3") or shutil.which("python") or sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert Path(options.interpreter(None)).parent.parent == Path(sys.prefix)


def test_differences_between_ranks() -> None:
    def rank(number: int, norm: float | None, on: bool = True) -> dict[str, Any]:
        state = "ok" if norm else "none"
        return {
            "rank": number,
            "grad_mode": {"on_at_end": on},
            "parameters": [{"name": "a", "grad": state, "norm": norm}],
        }

    assert result.differences([rank(0, 1.0), rank(1, 1.0 + 1e-6)]) == []
    assert [d["kind"] for d in result.differences([rank(0, 1.0), rank(1, 2.0)])] == ["norms"]
    assert [d["kind"] for d in result.differences([rank(0, 1.0), rank(1, None)])] == ["gradients"]
    assert [d["kind"] for d in result.differences([rank(0, 1.0), rank(1, 1.0, False)])] == ["grad mode"]


def big(count: int) -> dict[str, Any]:
    rows, modules = [], [{"name": "Net", "label": "Net", "type": "Net", "depth": 0, "calls": 2, "calls_off": 0, "training": True,
                          "output": None, "at": None, "parameters": []}]  # fmt: skip
    for number in range(count):
        state = ("ok", "none", "zero", "not finite", "frozen")[number % 5]
        rows.append({"name": f"Net.l{number}.weight", "shape": [2], "dtype": "float32", "device": "cpu", "requires_grad": True,
                     "optimizer": 0, "grad": state, "norm": 10.0 ** -(number % 7) if state == "ok" else None, "changed": True,
                     "ratio": 1e-3, "weight": 1.0, "sharded": False})  # fmt: skip
        modules.append(
            {
                **modules[0],
                "name": f"Net.l{number}",
                "label": f"l{number}",
                "type": "Linear",
                "depth": 1,
                "parameters": [number],
            }
        )
    event = {"kind": "graph break", "at": {"file": HERE, "line": 3, "function": "f"}, "reason": "data", "count": 2}
    kinds = (("s", 0.001), ("memory", 1 << 20), ("gpu_memory", 1 << 20))
    taken = {f"{phase}_{kind}": value for phase in ("forward", "backward", "step") for kind, value in kinds}
    return report(
        parameters=rows,
        modules=modules,
        findings=[finding("cut-graph", 5)],
        compile={"frames": {}, "graphs": 1, "breaks": [event], "recompiles": []},
        iterations=[{**taken, "optimizer": "SGD", "memory": 1 << 20, "gpu_memory": 1 << 20}],
    )


@pytest.mark.parametrize("count", [0, 10, 10_000])
def test_views_take_any_size(count: int) -> None:
    data = big(count)
    verdicts.judge(data, [claim("GL102", 5)])
    out = io.StringIO()
    terminal.show(data, Console(file=out, width=100))
    assert "cut-graph" in out.getvalue() and out.getvalue().count("\n") < 120
    assert "graph break" in out.getvalue() and "GPU 1 MiB" in out.getvalue()
    text = page.render(data)
    assert "</script><" not in json.dumps(data) and text.count("<script") == 3
    assert "http://" not in text.replace("http://www.w3.org", "") and "src=" not in text.split('id="report"')[0]


def test_the_page_cannot_be_broken_out_of() -> None:
    data = report(command="</script><img src=x onerror=alert(1)>", notes=["</script><script>alert(1)</script>"])
    text = page.render(data, nonce="abc")
    assert "<img" not in text and "<script>alert" not in text and "script-src 'nonce-abc'" in text
