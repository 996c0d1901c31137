"""The report of one process, as plain data: what the supervisor collects and every view is made of."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any

from . import sources
from .backward import NOTHING_HERE
from .judge import Judge
from .places import Place, one
from .run import Run

VERSION = 1
MAX_CUTS = 500
RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLD_NAMES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def build(run: Run, stopped: str) -> dict[str, Any]:
    """Everything that was seen, and what follows from it. Never starts a collective, never changes the program."""
    torch = run.torch
    out: dict[str, Any] = {
        "version": VERSION,
        "stopped": stopped,
        "main": run.main,
        "pid": run.pid,
        "seconds": round(time.time() - run.started, 3),
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None) and str(torch.__version__),
        "level": run.options["level"],
        "steps": run.steps,
        "backward_calls": run.backward_calls,
        "first_backward_s": run.first_backward,
        **_rank(run),
    }
    findings: list[dict] = []
    if torch is not None:
        run.grad_at_end = torch.is_grad_enabled() or bool(run.off and not run.off[-1].get("persistent"))
        with run.quiet(), torch.no_grad():
            findings = Judge(run, stopped).all()
            run.safely(lambda: out.update(_tables(run)))
        out["cuda"] = torch.cuda.is_initialized()
        if run.options.get("keep_compile"):
            out["compile"] = _compile(run)
    out["findings"] = findings
    if run.gradcheck is not None:
        out["gradcheck"] = run.gradcheck
    out["grad_mode"] = {
        "changes": list(run.modes.values()),
        "timeline": run.timeline,
        "on_at_end": torch.is_grad_enabled() if torch is not None else None,
    }
    out["backward"] = [{k: v for k, v in record.items() if not k.startswith("_")} for record in run.backwards]
    out["cuts"] = [
        {
            **{k: v for k, v in entry.items() if k != "up"},
            "feeds_the_loss": key in run.loss_marks,
            "upstream": len(entry["up"]),
            "upstream_without_grad": sum(not run.grads.get(k) for k in entry["up"]),
        }
        for key, entry in list(run.cuts.items())[:MAX_CUTS]
    ]
    out["iterations"] = run.iterations
    out["anomalies"] = run.anomalies + (
        [dict(run.first_bad, kind="first output that is not finite")] if run.first_bad else []
    )
    if run.bad_backward:
        out["anomalies"].append(dict(run.bad_backward, kind="first backward that is not finite"))
    out["warnings"] = run.warnings
    out["writes"] = list(run.writes.values())[:300]
    out["exception"] = run.exception
    out["executed"] = sorted([file, line] for file, line in run.executed)
    out["files"] = _files(run)
    out["notes"] = run.notes
    return out


def _files(run: Run) -> list[str]:
    """The user's own files that were loaded, the script or notebook itself among them."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return [*run.user_files(), *([os.path.abspath(main)] if isinstance(main, str) else [])]


def _compile(run: Run) -> dict[str, Any]:
    """What dynamo did: frames compiled, graphs, and each graph break and recompilation with its place and reason."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return {
        "frames": dict(counters.get("frames", {})),
        "graphs": dict(counters.get("stats", {})).get("unique_graphs", 0),
        "breaks": [event for event in run.compile_events if event["kind"] == "graph break"],
        "recompiles": [event for event in run.compile_events if event["kind"] == "recompile"],
    }


def _rank(run: Run) -> dict[str, Any]:
    rank = next((os.environ[name] for name in RANK_NAMES if os.environ.get(name, "").isdigit()), None)
    world = next((os.environ[name] for name in WORLD_NAMES if os.environ.get(name, "").isdigit()), None)
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world = distributed.get_rank(), distributed.get_world_size()
    except Exception:
        pass
    return {"rank": int(rank) if rank is not None else None, "world_size": int(world) if world is not None else None}


def _tables(run: Run) -> dict[str, Any]:
    rows: list[dict] = []
    index: dict[int, int] = {}
    holders: dict[int, int] = {}
    for number, entry in enumerate(run.optimizers):
        optimizer = entry["ref"]()
        for group in optimizer.param_groups if optimizer is not None else ():
            for parameter in group["params"]:
                holders.setdefault(id(parameter), number)
    for key, (name, parameter) in run.parameters().items():
        index[key] = len(rows)
        rows.append(_row(run, key, name, parameter, holders.get(key)))
    optimizers = [
        {k: v for k, v in entry.items() if k not in ("ref", "versions", "frozen", "last_backward")}
        for entry in run.optimizers
    ]
    return {"parameters": rows, "modules": _modules(run, index), "optimizers": optimizers}


def _row(run: Run, key: int, name: str, parameter: Any, holder: int | None) -> dict[str, Any]:
    norm = run.grads.get(key)
    last = run.seen_grads.get(key, {})
    if not parameter.requires_grad:
        state = "frozen"
    elif norm is None:
        state = "none"
    elif norm == NOTHING_HERE:
        state = "empty"
    elif norm == float("inf"):
        state = "not finite"
    else:
        state = "zero" if norm == 0.0 else "ok"
    update = run.updates.get(key, {})
    ratio = update.get("ratio")
    return {
        "name": name,
        "shape": list(parameter.shape),
        "dtype": str(parameter.dtype).replace("torch.", ""),
        "device": str(parameter.device),
        "requires_grad": parameter.requires_grad,
        "sharded": hasattr(parameter, "_local_tensor"),
        "optimizer": holder,
        "grad": state,
        "norm": last.get("norm"),
        "changed": update.get("changed"),
        "ratio": ratio if ratio is None or (ratio == ratio and ratio != float("inf")) else None,
        "weight": update.get("weight") if update.get("weight") == update.get("weight") else None,
    }


def _modules(run: Run, index: dict[int, int]) -> list[dict]:
    """The modules as a tree in forward order: parents before their parts, parts by when they first ran."""
    out: list[dict] = []
    seen: set[int] = set()

    def order(module: Any) -> int:
        call = run.calls.get(id(module))
        return call["order"] if call is not None else 1 << 30

    def visit(module: Any, name: str, label: str, depth: int, at: dict | None) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        call = run.calls.get(id(module), {})
        own = [index[id(p)] for p in module._parameters.values() if p is not None and id(p) in index]
        out.append(
            {
                "name": name,
                "label": label,
                "type": type(module).__name__,
                "depth": depth,
                "calls": call.get("n", 0),
                "calls_off": call.get("off", 0),
                "compiled": run.hears_dynamo and not call,
                "training": call.get("training", module.training),
                "output": call.get("output"),
                "at": at,
                "parameters": own,
            }
        )
        children = [(child, key) for key, child in module._modules.items() if child is not None]
        for child, key in sorted(children, key=lambda pair: order(pair[0])):
            place = run.registered_at.get((id(module), key))
            if place is None and not key.isdigit() and len(out) < 2000:
                place = sources.attribute(type(module), key, run.places)
            visit(child, f"{name}.{key}", key, depth + 1, one(place) or at)

    for ref, name in list(run.roots.values()):
        root = ref()
        if root is not None:
            call = run.calls.get(id(root), {})
            place = call.get("at")
            visit(root, name, name, 0, one(place) if isinstance(place, Place) else None)
    return out
