"""An exception that nobody caught: which line is to blame."""

from __future__ import annotations

import re
from typing import Any

from . import sources
from .judge_base import Bench
from .places import Place, one


class Exceptions(Bench):
    """An exception that nobody caught: which line is to blame."""

    def _exception(self) -> None:
        run, failure = self.run, self.run.exception
        if failure is None:
            return
        if any(f.get("error", "").split(":")[0] == failure["type"] for f in self.findings) or self.bad:
            return
        message, at = failure["message"], failure["at"]
        evidence: list = []
        rule, where, text = "program-error", at, f"{failure['type']}: {message}"
        stack, frames = run.failed_frames
        raised = [(at, "raised here")]
        if "nference tensor" in message:
            modes = [e for e in run.modes.values() if e["via"] == "inference_mode" and not e["mode"]]
            if modes:
                rule, where, evidence = "inference-tensor", modes[-1].get("decorated") or modes[-1]["at"], raised
        elif "non-leaf Tensor" in message:
            made = [a for a in run.anomalies if a["kind"] == "not a leaf" and a["at"]]
            if made:
                rule, where, evidence = "optimizer-non-leaf", made[-1]["at"], raised
                text = f"{text}: it is the result of an operation here, and no leaf"
        elif "Expected to have finished reduction in the prior iteration" in message:
            unused = [f for f in self.findings if f["rule"] in ("unused", "no-gradient", "cut-graph") and f["at"]]
            rule, evidence = "ddp-unused-parameters", raised
            where = unused[0]["at"] if unused else at
            names = sorted({name for f in unused for name in f.get("parameters", ())})
            text = (
                f"DistributedDataParallel waits for gradients that never come: {', '.join(names[:4]) or 'some parameters'}"
                f"{' and more' if len(names) > 4 else ''} got none in the step before"
            )
        elif "empty parameter list" in message and stack:
            place = self._used_up(stack, frames)
            if place is not None:
                rule, where, evidence = "optimizer-empty", one(place), raised
                text = f"{text}: the iterator made here was used up before"
        elif "before Module.__init__() call" in message or "super().__init__" in message:
            inits = [(p, f) for p, f in zip(stack, frames) if p.function == "__init__"]
            if inits:
                code = inits[0][1].f_code
                rule, evidence = "missing-super-init", raised
                where = one(Place(code.co_filename, code.co_firstlineno, "__init__"))
        elif failure["type"] == "AttributeError" and "has no attribute" in message and stack:
            rule, where, evidence, text = self._wrong_thing(message, stack, text, at)
        confidence = "certain"
        if rule == "program-error" and run.torch is None:
            confidence = "possible"  # nothing of torch's was used
        self.add(rule, text, where, confidence, evidence, error=f"{failure['type']}: {message}")

    def _used_up(self, stack: list, frames: list) -> Place | None:
        for place, frame in zip(stack, frames):
            for name, value in frame.f_locals.items():
                if type(value).__name__ in ("filter", "map", "generator", "zip", "chain", "list_iterator"):
                    found = sources.assigned(place, name)
                    if found is not None:
                        return found
        return None

    def _wrong_thing(self, message: str, stack: list, text: str, at: Any) -> tuple:
        """`'float' object has no attribute 'backward'`, `'NoneType' ... 'item'`: where the thing came from."""
        found = re.match(r"'(\w+)' object has no attribute '(\w+)'", message)
        if not found:
            return "program-error", at, [], text
        kind, attribute = found.groups()
        raised = (at, "raised here")
        if kind == "NoneType":
            kept = sources.result_kept(self.run.user_files(), "backward")
            if kept is not None:
                return (
                    "backward-result-kept",
                    one(kept),
                    [raised],
                    f"{text}: backward() returns None, and its result is kept here",
                )
        if attribute == "backward":
            name = sources.receiver(stack[0], "backward")
            bound = sources.assigned(stack[0], name) if name else None
            values = [
                (e["at"], f"{e['op']} makes a Python number of a tensor")
                for e in self.run.cuts.values()
                if e["kind"] == "value"
            ]
            where = one(bound) or (values[-1][0] if values else at)
            return "number-backward", where, [raised, *values[-3:]], f"{text}: the loss is a Python {kind}"
        return "program-error", at, [], text
