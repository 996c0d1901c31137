"""What torch does: runs programs and writes down what every revealed name held.

Programs run in one warm process, a fork for each batch, so that a crash or a switch left on costs one batch.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import re
import signal
import sys
import types
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

MARK = re.compile(r"^(\s*)([A-Za-z_][\w.]*)  # reveal$", re.MULTILINE)


class Seen(NamedTuple):
    """One observation: `kind` is "tensor", "number", "array", "none" or another type's name.

    `lies`: it says that it requires grad, but reaches no leaf except views that were made under no_grad.
    """

    kind: str
    requires_grad: bool
    leaf: bool
    elements: int
    rank: int
    floating: bool
    mode: str  # "on", "off" or "inference"
    lies: bool = False


def marks(files: dict[str, str]) -> dict[tuple[str, int], tuple[str, int]]:
    """Every revealed place: (file, line from 1) -> (the name, the offset of its last character in the text)."""
    found = {}
    for path, text in files.items():
        for m in MARK.finditer(text):
            found[path, text.count("\n", 0, m.start(2)) + 1] = (m[2], m.end(2) - 1)
    return found


def instrumented(path: str, text: str) -> str:
    """The text with a call in place of every mark, line by line."""

    def call(m: re.Match[str]) -> str:
        line = text.count("\n", 0, m.start(2)) + 1
        return f"{m[1]}__reveal__({path!r}, {line}, {m[2]})"

    return MARK.sub(call, text)


def lies(value: torch.Tensor) -> bool:
    """A view made under no_grad says that it requires grad, yet nothing flows on from it (claim M27)."""
    if not value.requires_grad:
        return False
    if value.grad_fn is None:
        return value._is_view()
    todo, seen, leaves = [value.grad_fn], set(), 0
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            if not node.variable._is_view():
                return False
            leaves += 1
        todo.extend(n for n, _ in node.next_functions if n is not None)
    return leaves > 0


def run(files: dict[str, str], seed: int) -> tuple[dict[tuple[str, int], set[Seen]], str]:
    """The observations of each place that was reached, and the exception that ended the program, or ""."""
    import torch

    seen: dict[tuple[str, int], set[Seen]] = {}

    def reveal(path: str, line: int, value: object) -> None:
        mode = "inference" if torch.is_inference_mode_enabled() else "on" if torch.is_grad_enabled() else "off"
        if isinstance(value, torch.Tensor):
            s = Seen(
                "tensor",
                value.requires_grad,
                value.is_leaf,
                value.numel(),
                value.dim(),
                value.is_floating_point(),
                mode,
            )
        elif isinstance(value, (int, float)):
            s = Seen("number", False, False, 1, 0, isinstance(value, float), mode)
        else:
            s = Seen("none" if value is None else type(value).__name__, False, False, 0, 0, False, mode)
        seen.setdefault((path, line), set()).add(s)

    torch.manual_seed(seed)
    random.seed(seed)
    torch.set_grad_enabled(True)
    error = ""
    sys.modules.pop("helpers", None)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            for path in sorted(files, key=lambda p: p == "main.py"):
                name = "__main__" if path == "main.py" else path.removesuffix(".py")
                module = types.ModuleType(name)
                vars(module)["__reveal__"] = reveal
                if name != "__main__":
                    sys.modules[name] = module
                exec(compile(instrumented(path, files[path]), path, "exec"), vars(module))
    except Exception as e:
        error = f"{type(e).__name__}: {e}".splitlines()[0][:200]
    finally:
        sys.modules.pop("helpers", None)
        torch.set_grad_enabled(True)
    return seen, error


def run_batch(programs: list[tuple[int, dict[str, str]]], tries: int = 3) -> dict[int, tuple[dict, str]]:
    """Each program run `tries` times with other random branches, in a fork: seed -> (observations, last error)."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(r)
            signal.alarm(120)
            import torch

            torch.set_num_threads(1)
            results = {}
            for seed, files in programs:
                merged: dict[tuple[str, int], set[Seen]] = {}
                error = ""
                for attempt in range(tries):
                    seen, failed = run(files, seed * 31 + attempt)
                    error = error or failed
                    for place, values in seen.items():
                        merged.setdefault(place, set()).update(values)
                results[seed] = (merged, error)
            with os.fdopen(w, "wb") as out:
                pickle.dump(results, out)
            status = 0
        finally:
            os._exit(status)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(data) if data else {}
