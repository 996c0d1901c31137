"""The program under observation: started in this process as Python itself would start it."""

from __future__ import annotations

import atexit
import builtins
import importlib
import json
import linecache
import os
import random
import re
import sys
import threading
import time
import traceback
import types
from typing import Any

from . import arrive, lines, trackers, writes
from .places import OWN, Places
from .run import Run

ASK_EVERY = 0.15  # seconds between looks at the supervisor's wish to end
PATIENCE = 1.0  # seconds that the main thread gets to end by itself when it is asked


def observe(options: dict[str, Any]) -> Run:
    """Set up the observation of this process: hooks at `import torch`, writes, lines, an ear for the supervisor."""
    run = Run(options, Places(options.get("roots") or [os.getcwd()]))

    def install() -> None:
        run.safely(arrive.install, run)

    arrive.when_imported("torch", install)
    if options.get("trackers"):
        run.safely(trackers.keep_offline, run, options["trackers"])
    if options.get("watch_writes", True):
        writes.watch(run)
    if options.get("claims"):
        run.safely(lines.watch, run, options["claims"])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _forked(run))
    _leaving(run)
    folder = options.get("report_dir")
    if folder:
        with open(os.path.join(folder, f"alive-{run.pid}"), "w", encoding="utf-8"):
            pass
        threading.Thread(target=_listen, args=(run, folder), daemon=True, name="gradline-probe").start()
    return run


def _leaving(run: Run) -> None:
    """A program that ends itself by `os._exit` leaves its report first; the process ends as it wants."""
    leave = os._exit

    def _exit(status: int) -> Any:
        run.finish(f"the program left by os._exit({status})", leave=False)
        leave(status)

    os._exit = _exit


def _listen(run: Run, folder: str) -> None:
    """Works while the main thread is deep in C code, and whatever signal handlers the program has."""
    wish = os.path.join(folder, "ask")
    while not run.done:
        time.sleep(ASK_EVERY)
        if os.path.exists(wish):
            with open(wish, encoding="utf-8") as file:
                why = file.read().strip()
            run.finish(why or "asked to stop")
            os._exit(0)


def _forked(run: Run) -> None:
    """A forked process starts its own account: a data loader's worker leaves none, a rank leaves its own."""
    run.pid = os.getpid()
    run.main = False
    run.thread = threading.get_ident()
    run.busy = 0
    run._finishing = threading.Lock()
    run.backwards, run.backward_calls, run.since_step, run.steps = [], 0, 0, 0
    run.exception = None
    folder = run.options.get("report_dir")
    if folder and not run.done:
        threading.Thread(target=_listen, args=(run, folder), daemon=True, name="gradline-probe").start()
        from multiprocessing import util

        util.Finalize(None, lambda: run.finish("the process ended", leave=False), exitpriority=100)


def main(options: dict[str, Any]) -> int:
    """Run the target; returns the program's exit status when the program ends by itself."""
    run = observe(options)
    target = options["target"]
    status, why = 0, "the program ended"
    try:
        _start(run, target, options)
    except SystemExit as error:
        code = error.code
        status = code if isinstance(code, int) else 0 if code is None else 1
        if isinstance(code, str):
            print(code, file=sys.stderr)
        why = f"the program exited with {code!r}" if code else "the program ended"
    except BaseException as error:
        run.failed(error)
        status, why = 1, f"the program raised {type(error).__name__}"
        _print(error)
    sys.settrace(None)
    run.finish(why, leave=False)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    from .run import end_children

    end_children()
    os._exit(status)


def _clean(error: BaseException) -> None:
    """Makes the traceback what the program alone would show: without the probe's frames."""

    def cleaned(trace: types.TracebackType | None) -> types.TracebackType | None:
        kept = []
        while trace is not None:
            if not trace.tb_frame.f_code.co_filename.startswith(OWN):
                kept.append(trace)
            trace = trace.tb_next
        for one, after in zip(kept, kept[1:]):
            one.tb_next = after
        if kept:
            kept[-1].tb_next = None
        return kept[0] if kept else None

    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = cleaned(link.__traceback__)
        link = link.__cause__ or link.__context__


def _print(error: BaseException) -> None:
    _clean(error)
    sys.stdout.flush()
    traceback.print_exception(type(error), error, error.__traceback__)


def _start(run: Run, target: dict[str, Any], options: dict[str, Any]) -> None:
    kind = target["kind"]
    arguments: list[str] = list(target.get("arguments") or ())
    if kind == "script":
        _script(target["path"], arguments)
    elif kind == "module":
        _module(target["name"], arguments)
    elif kind == "pytest":
        _module("pytest", [*target["nodes"], "-p", "no:cacheprovider", *arguments])
    elif kind == "notebook":
        _notebook(target["path"], target.get("until"), arguments)
    else:
        sys.path.insert(0, os.getcwd())
        _object(run, target, options)


def _as_main(code: Any, file: str | None, spec: Any = None, package: str | None = None) -> types.ModuleType:
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__builtins__=builtins, __file__=file, __spec__=spec, __package__=package)
    sys.modules["__main__"] = main_module
    if code is not None:
        exec(code, main_module.__dict__)
    return main_module


def _script(path: str, arguments: list[str]) -> None:
    full = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(full))
    sys.argv = [path, *arguments]
    with open(full, "rb") as file:
        code = compile(file.read(), full, "exec", dont_inherit=True)
    _as_main(code, full)


def _module(name: str, arguments: list[str]) -> None:
    import runpy

    sys.path.insert(0, os.getcwd())
    sys.argv = [name, *arguments]
    _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    sys.argv[0] = spec.origin
    _as_main(code, spec.origin, spec, spec.parent)


def cells_of(path: str, until: int | None = None) -> list[tuple[int, str]]:
    """The code cells of a notebook, up to cell `until` (0-based, counted over all cells), magics masked."""
    with open(path, encoding="utf-8") as file:
        book = json.load(file)
    out: list[tuple[int, str]] = []
    for number, cell in enumerate(book.get("cells", ())):
        if until is not None and number > until:
            break
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        if text.lstrip().startswith("%%") and not re.match(r"\s*%%(time|timeit|capture)", text):
            continue
        kept = [re.sub(r"^(\s*)(?:%|!|\?).*$|^(\s*)\w+\s*=\s*[!%].*$", r"\1\2pass", line) for line in text.split("\n")]
        out.append((number, "\n".join(kept)))
    return out


def _notebook(path: str, until: int | None, arguments: list[str]) -> None:
    full = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(full))
    sys.argv = [path, *arguments]
    module = _as_main(None, full)
    module.__dict__["display"] = print
    for number, text in cells_of(full, until):
        name = f"{full}#cell={number}"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text + "\n", name, "exec", dont_inherit=True), module.__dict__)


# ---------------------------------------------------------------------------------------------- functions and classes
def find_object(name: str) -> Any:
    """`pkg.mod:attribute.path` -> the object. Raises ImportError or AttributeError, as importing it by hand would."""
    module_name, _, path = name.partition(":")
    if module_name.endswith(".py"):
        full = os.path.abspath(module_name)
        sys.path.insert(0, os.path.dirname(full))
        module_name = os.path.splitext(os.path.basename(full))[0]
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def make_input(text: str, torch: Any, device: Any) -> Any:
    """`8x3x224x224`, `8x16:int64<1000` or `pkg.mod:make` -> an input; shapes are filled with random numbers."""
    shape = re.fullmatch(r"(\d+(?:x\d+)*|scalar)(?::(\w+))?(?:<(\d+))?", text.strip())
    if shape is None:
        made = find_object(text)
        return made() if callable(made) else made
    sizes = [] if shape.group(1) == "scalar" else [int(n) for n in shape.group(1).split("x")]
    dtype = getattr(torch, shape.group(2) or "float32")
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, dtype=dtype, device=device)
    return torch.randint(0, int(shape.group(3) or 2), sizes, device=device).to(dtype)


def _to(value: Any, device: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_to(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _to(item, device) for key, item in value.items()}
    return value.to(device) if device and hasattr(value, "to") else value


def scalar_of(output: Any, torch: Any) -> Any:
    """One number to differentiate, from whatever a model returns: its loss if it has one, else the mean square."""
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    if loss is not None and isinstance(loss, torch.Tensor):
        return loss if loss.dim() == 0 else loss.mean()
    found: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() or value.is_complex():
                found.append(value)
        elif isinstance(value, dict):
            for item in value.values():
                visit(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)

    visit(output)
    if not found:
        raise TypeError(f"nothing to differentiate in what the model returned: {type(output).__name__}")
    parts = [value.abs().float().pow(2).mean() for value in found]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _object(run: Run, target: dict[str, Any], options: dict[str, Any]) -> None:
    thing = find_object(target["name"])
    import torch

    random.seed(0)
    torch.manual_seed(0)
    device = options.get("device")
    if options.get("gradcheck"):
        from . import gradcheck

        run.options["stop"] = False
        run.gradcheck = gradcheck.check(thing, options.get("inputs") or [], target["name"])
        return
    made: Any = None
    if isinstance(thing, type) and issubclass(thing, torch.nn.Module):
        made = (thing(), None, None)
    elif isinstance(thing, torch.nn.Module):
        made = (thing, None, None)
    elif options.get("inputs"):
        made = (thing(), None, None)
    else:
        made = thing()
    if made is None:
        return
    if callable(made) and not isinstance(made, torch.nn.Module):
        for _ in range(options["steps"]):
            made()
        return
    if isinstance(made, torch.nn.Module):
        made = (made, None, None)
    if not isinstance(made, (tuple, list)) or not isinstance(made[0], torch.nn.Module):
        raise TypeError(
            f"{target['name']} gave {type(made).__name__}: a model, a step function, or (model, batch, loss) is needed"
        )
    model, batch, loss_of, optimizer = [*made, None, None, None][:4]
    _train(model, batch, loss_of, optimizer, options, torch, device)


def _train(model: Any, batch: Any, loss_of: Any, optimizer: Any, options: dict, torch: Any, device: Any) -> None:
    if device:
        model.to(device)
    if batch is None:
        inputs = [make_input(text, torch, device) for text in options.get("inputs") or ()]
        if not inputs:
            raise TypeError("an example input is needed: --input 8x3x224x224, or --input pkg.mod:make_input")
        batch = inputs[0] if len(inputs) == 1 else tuple(inputs)
    batch = _to(batch, device)
    if optimizer is None:
        trainable = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trainable, lr=1e-3) if trainable else None
    for _ in range(options["steps"]):
        if optimizer is not None:
            optimizer.zero_grad()
        if loss_of is None:
            output = (
                model(**batch)
                if isinstance(batch, dict)
                else model(*batch)
                if isinstance(batch, tuple)
                else model(batch)
            )
            loss = scalar_of(output, torch)
        else:
            loss = _loss(model, batch, loss_of)
        loss.backward()
        if optimizer is not None:
            optimizer.step()


def _loss(model: Any, batch: Any, loss_of: Any) -> Any:
    """`loss_of(model, batch)`, or `loss_of(model(inputs), target)` where it takes an output and the batch is a pair."""
    import inspect

    try:
        names = list(inspect.signature(loss_of).parameters)
    except (TypeError, ValueError):
        names = []
    if names and names[0] in ("model", "net", "module"):
        return loss_of(model, batch)
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return loss_of(model(batch[0]), batch[1])
    return loss_of(model(batch))


# ---------------------------------------------------------------------------------------------- other processes
def start_in_place(options: dict[str, Any]) -> None:
    """From `sitecustomize`, in a rank or a helper process that Python itself runs: watch, and report at the end."""
    run = observe({**options, "main": False})
    hook = sys.excepthook

    def failed(kind: type, error: BaseException, trace: Any) -> None:
        error.__traceback__ = trace
        run.failed(error)
        run.finish(f"the program raised {kind.__name__}", leave=False)
        _clean(error)
        hook(kind, error, error.__traceback__)

    sys.excepthook = failed
    atexit.register(lambda: run.finish("the program ended", leave=False))
    if "--multiprocessing-fork" in sys.argv or "--multiprocessing-fork" in getattr(sys, "orig_argv", ()):
        from multiprocessing import util

        util.Finalize(None, lambda: run.finish("the process ended", leave=False), exitpriority=100)
