"""Smaller observations: warnings, clipping, loss scaling, data parallel wrappers, frozen tables."""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from typing import Any

from .places import one, show
from .run import Run

# A part of torch's warning -> the rule that it stands for and what we say.
KNOWN_WARNINGS = (
    ("Using a target size", "broadcast-loss", "prediction and target have different shapes, and are broadcast"),
    ("duplicate parameters", "duplicate-parameters", "the optimizer is given some parameters twice"),
    (
        "None of the inputs have requires_grad=True",
        "checkpoint-without-gradient",
        "a reentrant checkpoint none of whose inputs requires grad gives an output without a graph",
    ),
    (
        "`lr_scheduler.step()` before `optimizer.step()`",
        "scheduler-before-step",
        "the scheduler steps before the optimizer: the first learning rate is skipped",
    ),
    (
        ".grad attribute of a Tensor that is not a leaf",
        "grad-of-non-leaf",
        "the gradient of a tensor that is no leaf is read: it is None",
    ),
)


def install(run: Run) -> None:
    for hook in (_warnings, _clipping, _scaler, _parallel, _pretrained):
        run.safely(hook, run)


def _warnings(run: Run) -> None:
    """`warnings` calls this function for each warning it shows or records, whoever replaced `showwarning`."""
    original = warnings._showwarnmsg  # type: ignore[attr-defined]

    def shown(message: Any) -> None:
        if run.ours():
            run.safely(_warned, run, message, sys._getframe(1))
        original(message)

    warnings._showwarnmsg = shown  # type: ignore[attr-defined]
    run.undo.append(lambda: setattr(warnings, "_showwarnmsg", original))


def _warned(run: Run, message: Any, frame: Any) -> None:
    text = str(message.message)
    stack = run.places.stack(frame, 5)
    if len(run.warnings) < 100:
        run.warnings.append({"category": message.category.__name__, "text": text[:500], "at": show(stack)})
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith("/torch/_dynamo/convert_frame.py"):
            return  # while compiling: it is the compiler that does what is warned of
        frame = frame.f_back
    for part, rule, words in KNOWN_WARNINGS:
        if part in text and not any(e["rule"] == rule and e["at"] == show(stack) for e in run.extra):
            run.extra.append(
                {"rule": rule, "message": words, "at": show(stack), "confidence": "certain", "warning": text[:300]}
            )


def _clipping(run: Run) -> None:
    utils = run.torch.nn.utils
    clip_file = sys.modules["torch.nn.utils.clip_grad"]
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        original = getattr(clip_file, name)

        @functools.wraps(original)
        def clipped(parameters: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            if not run.ours():
                return _original(parameters, *args, **kwargs)
            if not isinstance(parameters, run.torch.Tensor):
                parameters = list(parameters)
            run.safely(_clipped, run, parameters, sys._getframe(1))
            before = run.grad_read
            try:
                return _original(parameters, *args, **kwargs)
            finally:
                run.grad_read = before

        for module in (utils, clip_file):
            setattr(module, name, clipped)
            run.undo.append(functools.partial(setattr, module, name, original))


def _clipped(run: Run, parameters: Any, frame: Any) -> None:
    stack = run.places.stack(frame, 5)
    tensors = [parameters] if isinstance(parameters, run.torch.Tensor) else parameters
    with_grad = [t for t in tensors if t.grad is not None]
    rules = {entry["rule"] for entry in run.extra}
    late = with_grad and not run.since_step and all(id(t) in run.stepped for t in with_grad)
    if late and "clip-after-step" not in rules:
        step = run.optimizers[-1].get("last_at") if run.optimizers else None
        run.extra.append(
            {
                "rule": "clip-after-step",
                "message": "gradients are clipped after the step that used them",
                "at": show(stack),
                "confidence": "certain",
                "evidence": [{"at": step, "note": "the step"}],
            }
        )
    if run.since_step and not tensors and "clip-nothing" not in rules:
        run.extra.append(
            {
                "rule": "clip-nothing",
                "message": "no parameter is clipped: what is given here is empty (an iterator, used up before?)",
                "at": show(stack),
                "confidence": "certain",
                "evidence": [],
            }
        )
    if run.scaled is not None and with_grad and "clip-before-unscale" not in rules:
        run.extra.append(
            {
                "rule": "clip-before-unscale",
                "message": "gradients are clipped while they are still multiplied by the loss scale",
                "at": show(stack),
                "confidence": "certain",
                "evidence": [{"at": one(run.scaled), "note": "the loss is scaled here, and unscale_ was not called"}],
            }
        )


def _scaler(run: Run) -> None:
    scalers = []
    for name in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
        cls = getattr(sys.modules.get(name), "GradScaler", None)
        if cls is not None and "scale" in vars(cls):
            scalers.append(cls)
    for cls in scalers:
        scale, unscale = cls.scale, cls.unscale_

        @functools.wraps(scale)
        def scaled(self: Any, outputs: Any, _original: Any = scale) -> Any:
            if run.ours() and getattr(self, "_enabled", True):
                run.scaled = run.places.near(sys._getframe(1))
            return _original(self, outputs)

        @functools.wraps(unscale)
        def unscaled(self: Any, optimizer: Any, _original: Any = unscale) -> Any:
            run.scaled = None
            return _original(self, optimizer)

        cls.scale, cls.unscale_ = scaled, unscaled
        run.undo += [
            functools.partial(setattr, cls, "scale", scale),
            functools.partial(setattr, cls, "unscale_", unscale),
        ]


def _parallel(run: Run) -> None:
    """A forward past `DistributedDataParallel` never arms its reducer: note where the inner module was taken out."""
    cls = getattr(run.torch.nn.parallel, "DistributedDataParallel", None)
    if cls is None:
        return
    made = cls.__init__

    @functools.wraps(made)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if not run.done:
            entry: dict[str, Any] = {"ref": weakref.ref(self), "at": show(run.places.stack(sys._getframe(1), 3))}
            run.parallel.append(entry)

    inherited = cls.__getattr__

    def __getattr__(self: Any, name: str) -> Any:
        value = inherited(self, name)
        if name == "module" and run.ours():
            place = run.places.near(sys._getframe(1))
            caller = sys._getframe(1).f_code.co_filename
            for entry in run.parallel:
                if entry["ref"]() is self and place is not None and caller == place.file:
                    entry.setdefault("unwrapped", []).append(place)
                    del entry["unwrapped"][8:]
        return value

    cls.__init__, cls.__getattr__ = __init__, __getattr__

    def undo() -> None:
        cls.__init__ = made
        del cls.__getattr__

    run.undo.append(undo)


def _pretrained(run: Run) -> None:
    """`Embedding.from_pretrained` freezes its table unless told otherwise."""
    nn = run.torch.nn
    for cls in (nn.Embedding, nn.EmbeddingBag):
        original = cls.__dict__["from_pretrained"].__func__

        @functools.wraps(original)
        def from_pretrained(kind: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            module = _original(kind, *args, **kwargs)
            if not run.done and len(args) < 2 and "freeze" not in kwargs:
                place = run.places.near(sys._getframe(1))
                run.pretrained[id(module.weight)] = (weakref.ref(module.weight), place)
            return module

        restored = cls.__dict__["from_pretrained"]
        cls.from_pretrained = classmethod(from_pretrained)
        run.undo.append(functools.partial(setattr, cls, "from_pretrained", restored))
