"""One observed run: what the hooks have seen so far, when to stop, and the report that is left behind."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from .places import Place, Places, one, show

MAX_NOTES = 60
MAX_TIMELINE = 2000  # changes of grad mode kept in order: enough for two steps of any program tried
MAX_WALK = 200_000  # nodes of one graph


class Run:
    """Filled by the hooks; `done` makes every hook a pass-through, `busy` marks the probe's own torch calls."""

    def __init__(self, options: dict[str, Any], places: Places) -> None:
        self.options = options
        self.places = places
        self.torch: Any = None
        self.started = time.time()
        self.thread = threading.get_ident()
        self.pid = os.getpid()
        self.main = bool(options.get("main", True))
        self.done = False
        self.busy = 0
        self._finishing = threading.Lock()
        self.undo: list[Callable[[], object]] = []
        self.notes: list[str] = []
        self.anomalies: list[dict] = []
        self.exception: dict | None = None
        self.warnings: list[dict] = []
        self.writes: dict[tuple[str, str], dict] = {}
        self.executed: set[tuple[str, int]] = set()
        # grad mode
        self.modes: dict[tuple, dict] = {}
        self.timeline: list[dict] = []
        self.off: list[dict] = []  # who switched it off, outermost first; empty while it is on
        # backward
        self.backwards: list[dict] = []
        self.backward_calls = 0
        self.since_step = 0
        self.first_backward: float | None = None
        self.reached: set[int] = set()
        self.grads: dict[int, float] = {}  # id(parameter) -> largest gradient norm seen (inf: not finite)
        self.seen_grads: dict[int, dict] = {}  # id(parameter) -> the last gradient that was looked at
        self.loss_marks: set = set()
        self.dead_terms: list[tuple] = []
        self.loss_nodes: list[tuple[Any, int]] = []
        self.autograd_grads = 0
        # modules
        self.roots: dict[int, tuple[Any, str]] = {}
        self.root_members: dict[int, set[int]] = {}
        self.stack: list[Any] = []
        self.calls: dict[int, dict] = {}
        self.unregistered: dict[int, tuple] = {}
        self.gone_modules: dict[int, tuple] = {}
        self.registered_at: dict[tuple[int, str], Place] = {}
        self.born_in_forward: dict[int, tuple] = {}
        self.flips: dict[int, dict] = {}
        self.train_at: dict[int, Place] = {}
        self.dead_relus: dict[int, dict] = {}
        self.forward_seconds = 0.0
        self.phases: Any = None  # phases.Phases, once torch is there
        self.entered = 0.0
        # optimizers
        self.optimizers: list[dict] = []
        self.steps = 0
        self.stepped: dict[int, int] = {}
        self.stale: dict[int, dict] = {}
        self.had: dict[int, tuple] = {}
        self.cleared: dict | None = None
        self.clears: list[tuple] = []  # id of what was cleared, where, after which backward, the parameters
        self.fresh: dict[int, list[int]] = {}
        self.thrown: dict[int, dict] = {}
        self.used: set[int] = set()
        self.grad_read = False
        self.updates: dict[int, dict] = {}
        self.iterations: list[dict] = []
        self.snapshot: list[tuple] = []
        self.step_started = 0.0
        self.in_step = False
        self.stepping = False  # inside a step without a closure: its operations are the optimizer's own
        self.blind = False
        # cuts
        self.cuts: dict[tuple, dict] = {}
        self.marks: dict[int, tuple] = {}
        self.values: dict[float, tuple] = {}
        self.leaves: dict[int, tuple] = {}
        self.born: dict[int, tuple] = {}
        self.old: dict[int, tuple] = {}
        self.carried: list[dict] = []
        self.scalars: list[tuple] = []
        self.squashed: dict[int, tuple] = {}
        self.zero_ops: dict[tuple, dict] = {}
        self.in_place: list[tuple] = []
        self.frozen_at: dict[int, tuple] = {}
        self.functions: dict[type, set[int]] = {}  # custom autograd functions in a loss's graph -> leaves upstream
        self.made_leaf: dict[int, tuple] = {}
        self.first_bad: dict | None = None
        self.bad_backward: dict | None = (
            None  # the first operation whose backward made finite gradients infinite or NaN
        )
        self.guarded = 0
        self.look_everywhere = False  # a loss was not finite, and no operation to blame was seen: look at all of them
        self.broadcasts: list[tuple] = []
        # the rest
        self.scaled: Place | None = None
        self.compiled: dict[Any, str] = {}
        self.compile_events: list[dict] = []
        self.hears_dynamo = False
        self.parallel: list[dict] = []
        self.pretrained: dict[int, tuple] = {}
        self.extra: list[dict] = []  # findings that a hook is sure of on the spot
        self.calls_seen = 0
        self.idle = False
        self.gradcheck: dict | None = None
        self.grad_at_end: bool | None = None

    # ------------------------------------------------------------------------------------------ the probe's own work
    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def safely(self, work: Callable, *args: Any) -> Any:
        """Do work of the probe's own: a fault in it is a note in the report, never the program's problem."""
        self.busy += 1
        try:
            return work(*args)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            name = getattr(work, "__name__", "?")
            where = f"{os.path.basename(at.filename)}:{at.lineno}"
            self.note(f"probe: {name}: {type(error).__name__}: {str(error)[:160]} ({where})")
            return None
        finally:
            self.busy -= 1

    def quiet(self) -> Any:
        """No `__torch_function__` for the probe's own calls."""
        return self.torch._C.DisableTorchFunction()

    def values_visible(self) -> bool:
        """False inside vmap or grad transforms, tracing, or compiling: values must not be looked at there."""
        core = self.torch._C
        functorch = getattr(core, "_functorch", None)
        peek = getattr(functorch, "peek_interpreter_stack", None)
        if peek is not None and peek() is not None:
            return False
        if self.capturing():
            return False
        tracing = getattr(core, "_get_tracing_state", None)
        return tracing is None or tracing() is None

    def ours(self) -> bool:
        """Whether a hook should look: not after the end, not at our own calls, not in another thread."""
        return not (self.done or self.busy) and threading.get_ident() == self.thread and not self.capturing()

    def capturing(self) -> bool:
        """Whether a CUDA graph is being captured: waiting for the device, or reading a value, would spoil it."""
        cuda = self.torch.cuda
        if not cuda.is_initialized() or not cuda.is_current_stream_capturing():
            return False
        self.blind = True
        self.note("a CUDA graph was captured: what runs inside it is not looked at")
        return True

    def wait(self) -> float:
        """Wait for the GPU, so that times are those of the work itself; gives the seconds that took."""
        if not self.torch.cuda.is_initialized():
            return 0.0
        start = time.perf_counter()
        self.torch.cuda.synchronize()
        return time.perf_counter() - start

    def grad_on(self) -> bool:
        return self.torch.is_grad_enabled()

    # ------------------------------------------------------------------------------------------ graphs and parameters
    def walk(self, tensor: Any, cap: int = MAX_WALK) -> tuple[dict[int, Any], set]:
        """The leaves that the graph behind a tensor reaches, by id, and the nodes on the way."""
        start = tensor.grad_fn
        if start is None and tensor.requires_grad and tensor.is_leaf:
            return {id(tensor): tensor}, set()
        seen: set = set()
        return self.upstream(start, seen, cap), seen

    def upstream(self, start: Any, seen: set | None = None, cap: int = MAX_WALK) -> dict[int, Any]:
        """The leaves that a node of a graph reaches; the nodes on the way are added to `seen`."""
        leaves: dict[int, Any] = {}
        seen = set() if seen is None else seen
        todo = [start]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if len(seen) > cap:
                self.note(f"the graph has more than {cap} nodes: what lies beyond was not followed")
                break
            variable = getattr(node, "variable", None)
            if variable is not None:
                leaves[id(variable)] = variable
            todo.extend(after for after, _ in node.next_functions if after is not None)
        return leaves

    def parameters(self) -> dict[int, tuple[str, Any]]:
        """Every parameter met so far: of the modules that ran, held by an optimizer, or used by itself."""
        out: dict[int, tuple[str, Any]] = {}
        for ref, name in list(self.roots.values()):
            module = ref()
            for inner, parameter in module.named_parameters() if module is not None else ():
                out.setdefault(id(parameter), (f"{name}.{inner}", parameter))
        for entry in self.optimizers:
            optimizer = entry["ref"]()
            for group in optimizer.param_groups if optimizer is not None else ():
                for parameter in group["params"]:
                    if id(parameter) not in out:
                        label = f"<{list(parameter.shape)} held by {entry['type']}>"
                        out[id(parameter)] = (label, parameter)
        sharded = any(hasattr(parameter, "_local_tensor") for _, parameter in out.values())
        for key, (ref, place, _) in (
            list(self.leaves.items()) if not sharded else ()
        ):  # gathered copies are no parameters
            tensor = ref()
            if tensor is not None and key not in out:
                at = f"{os.path.basename(place.file)}:{place.line}" if place else "?"
                out[key] = (f"<leaf {list(tensor.shape)} used at {at}>", tensor)
        return out

    def held(self, stepped_only: bool = False) -> set[int]:
        """ids of the parameters that a living optimizer holds."""
        out: set[int] = set()
        for entry in self.optimizers:
            optimizer = entry["ref"]()
            if optimizer is not None and (entry["steps"] or not stepped_only):
                out.update(id(p) for group in optimizer.param_groups for p in group["params"])
        return out

    def entry(self, optimizer: Any) -> dict | None:
        return next((entry for entry in self.optimizers if entry["ref"]() is optimizer), None)

    def user_files(self) -> list[str]:
        """The user's own files that are loaded."""
        out: dict[str, None] = {}
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.endswith(".py") and self.places.is_user(file):
                out[os.path.abspath(file)] = None
        return list(out)

    # ------------------------------------------------------------------------------------------ stopping
    def maybe_stop(self) -> None:
        """After a step or a backward call: leave if enough was seen. A GAN's optimizers must each have stepped."""
        if self.done or not self.options.get("stop", True):
            return
        wanted = self.options["steps"]
        if self.steps >= wanted:
            living = [entry for entry in self.optimizers if entry["ref"]() is not None]
            if all(entry["steps"] >= wanted for entry in living) or self.steps >= 8 * wanted:
                self.finish(f"{self.steps} optimizer step{'s' if self.steps != 1 else ''}")
        elif self.since_step >= self.options["max_backward"]:
            self.finish(f"{self.since_step} backward calls without an optimizer step")

    def finish(self, why: str, leave: bool = True) -> None:
        """Write the report, once. With `leave` the process ends here: nothing of the user's runs afterwards."""
        if os.getpid() != self.pid or not self._finishing.acquire(blocking=False):
            return
        self.done = True
        if self.worth_a_report():
            report = self.build(why)
            self.write(report)
        if leave:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            end_children()
            os._exit(0)

    def worth_a_report(self) -> bool:
        """A helper process (a data loader's worker, a launcher) that trained nothing leaves none, unless its own code failed."""
        failed = self.torch is not None and self.exception is not None and self.exception["at"] is not None
        return self.main or bool(self.backward_calls or self.steps or failed)

    def build(self, why: str) -> dict:
        from . import report

        last: BaseException | None = None
        for _ in range(3):  # the main thread may still run, and change a dictionary under us
            try:
                return report.build(self, why)
            except RuntimeError as error:
                last = error
            except BaseException as error:
                last = error
                break
        text = "".join(traceback.format_exception(type(last), last, last.__traceback__))[-1500:] if last else ""
        return {
            "version": 1,
            "stopped": why,
            "main": self.main,
            "findings": [],
            "notes": [*self.notes, f"probe: {text}"],
        }

    def write(self, report: dict) -> None:
        folder = self.options.get("report_dir")
        if not folder:
            return
        path = os.path.join(folder, f"report-{self.pid}.json")
        temporary = f"{path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(report, file, default=str)
        os.replace(temporary, path)

    def failed(self, error: BaseException) -> None:
        """Remember an exception that nobody caught, with the user's frames of its traceback."""
        stack: list[Place] = []
        frames: list[Any] = []
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if self.places.is_user(code.co_filename):
                stack.append(Place(code.co_filename, trace.tb_lineno, code.co_name))
                frames.append(trace.tb_frame)
            trace = trace.tb_next
        stack.reverse()
        frames.reverse()
        self.exception = {"type": type(error).__name__, "message": str(error)[:1000], "at": show(stack[:6])}
        self.failed_frames = (stack, frames)

    failed_frames: tuple[list[Place], list[Any]] = ((), ())  # type: ignore[assignment]

    def strip(self, event: dict) -> dict:
        return {k: v for k, v in event.items() if k in ("via", "how", "at", "decorated", "persistent", "library")}

    def one(self, place: Place | None) -> dict | None:
        return one(place)


def end_children() -> None:
    """Data loader workers and other children of `multiprocessing`: their parent is about to vanish."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    try:
        for child in process.active_children():
            child.kill()
    except Exception:
        pass
