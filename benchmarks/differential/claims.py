"""What gradline claims of every revealed name: the only file here that knows the engine."""

from __future__ import annotations

from typing import NamedTuple

from truth import Seen, marks

from gradline import facts, ir
from gradline.findings import Place
from gradline.flow import scopes
from gradline.flow.interp import Interpreter
from gradline.project import Project
from gradline.text import Source


class Claim(NamedTuple):
    """`kind`: "attached", "cut", "tensor" (its graph is not known), "number", "none" or "unknown".

    `rank`: "scalar", "many" or "?"; `mode`: "on", "off", "inference" or "maybe".
    """

    kind: str
    rank: str
    mode: str


class Memory:
    """The project's files, in a dict."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {f"/program/{name}": text for name, text in files.items()}

    def read(self, path: str) -> Source | None:
        return Source(self.files[path], path) if path in self.files else None

    def is_file(self, path: str) -> bool:
        return path in self.files

    def is_dir(self, path: str) -> bool:
        return any(name.startswith(path + "/") for name in self.files)

    def listdir(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.files)

    def search_path(self, path: str) -> list[str]:
        return ["/program"]

    def is_project(self, path: str) -> bool:
        return True


def kinds(value: object) -> list[tuple[str, str]]:
    """`(kind, rank)` of each thing that the value may be, at this moment."""
    if isinstance(value, facts.Union):
        return [k for option in value.options for k in kinds(option)]
    if isinstance(value, facts.Tensor):
        rank = value.rank if value.rank in (facts.SCALAR, facts.MANY) else "?"
        return [(graph(value), rank)]
    if isinstance(value, facts.Number) or (
        isinstance(value, facts.Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    ):
        return [("number", "?")]
    if isinstance(value, facts.Const) and value.value is None:
        return [("none", "?")]
    return [("unknown", "?")]


def graph(value: facts.Tensor) -> str:
    if value.leaf is not None and value.certain:
        flag = value.leaf.cells.get("requires_grad")
        return "attached" if flag is True else "cut" if flag is False else "tensor"
    return "attached" if value.live else "cut" if value.dead else "tensor"


class Observer(Interpreter):
    """Writes down what is known of each watched expression when it is passed."""

    def __init__(self, project: Project, where: dict[Place, tuple[str, int]]) -> None:
        super().__init__(project)
        self.watch, self.where = {}, where  # type: ignore[assignment]
        self.found: dict[tuple[str, int], set[Claim]] = {}

    def observe(self, e: ir.Expr, value: facts.Value) -> None:
        mark = self.where.get(self.place(e.at))
        if mark is not None:
            for kind, rank in kinds(value):
                self.found.setdefault(mark, set()).add(Claim(kind, rank, self.state.mode.kind))


def claims(files: dict[str, str]) -> tuple[dict[tuple[str, int], set[Claim]], bool]:
    """The claims of each mark that the interpretation reached, and whether it came to its end."""
    project = Project(Memory(files))
    where = {}
    for (path, line), (name, end) in marks(files).items():
        where[Place(f"/program/{path}", end + 1 - len(name), end + 1)] = (path, line)
    run = Observer(project, where)
    module = project.module("/program/main.py")
    assert module is not None
    scopes.run_module(run, module, main=True)
    return run.found, run.complete


def covers(claim: Claim, seen: Seen) -> bool:
    """Whether what torch showed is among what the claim allows."""
    if claim.mode != "maybe" and claim.mode != seen.mode:
        return False
    if claim.kind == "unknown":
        return True
    if claim.kind in ("number", "none"):
        return seen.kind == claim.kind
    if seen.kind != "tensor":
        return False
    if claim.kind != "tensor" and not seen.lies and seen.requires_grad != (claim.kind == "attached"):
        return False
    return claim.rank == "?" or (seen.elements == 1) == (claim.rank == "scalar")
