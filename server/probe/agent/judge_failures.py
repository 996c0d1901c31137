"""A backward that failed: which line is to blame."""

from __future__ import annotations

import re

from . import sources
from .judge_base import Bench
from .places import one

NO_GRAPH = "does not require grad"


class Failures(Bench):
    """A backward that failed: which line is to blame."""

    def _failed_backward(self) -> None:
        for record in self.bad:
            error = record["error"]
            seen = [(record["at"], "backward fails here")]
            if NO_GRAPH in error:
                self._no_graph(record, error, seen)
            elif "modified by an inplace operation" in error:
                self._in_place(record, error, seen)
            elif "second time" in error or "already been freed" in error:
                self._second_time(record, error, seen)
            elif "only for scalar outputs" in error:
                made = record.get("made")
                text = f"backward is called on a tensor of shape {record.get('shape')}: reduce it, or pass a gradient"
                self.add("non-scalar-backward", text, made or record["at"], "certain", seen, error=error)
            elif "incorrect number of gradients" in error:
                self._function_returns(record, error, seen)
            else:
                self.add("backward-error", error, record["at"], "certain", seen, error=error)

    def _no_graph(self, record: dict, error: str, seen: list) -> None:
        run = self.run
        off = record.get("grad_off_since")
        if off and not record["grad_enabled"]:
            how = f"grad mode is off since {off['via']} ({off['how']})"
            where = record.get("inside") or self._mode_place(off)
            extra = [(self._mode_place(off), "switched off here"), (record.get("made"), "the loss is made here")]
            self.add("grad-mode-off", f"the loss has no graph: {how}", where, "certain", [*seen, *extra], error=error)
            return
        marks = record.get("_marks") or run.loss_marks
        for key in marks:
            entry = run.cuts[key]
            mode = entry.get("mode")
            where = self._mode_place(mode) or entry["at"]
            what = (
                f"it was computed with grad mode off ({mode['via']})"
                if mode
                else f"{entry['op']} cuts it ({entry['kind']})"
            )
            self.add(
                "cut-graph",
                f"the loss has no graph: {what}",
                where,
                "certain",
                [*seen, (entry["at"], "the cut")],
                error=error,
            )
        if marks:
            return
        if self.parameters and not any(p.requires_grad for _, p in self.parameters.values()):
            text = "the loss has no graph: no parameter requires grad"
            self.add("all-frozen", text, self._frozen_at() or record["at"], "certain", seen, error=error)
            return
        off_calls = [c["setter"] for c in run.calls.values() if c.get("setter") and not c["on"]]
        if off_calls:
            where = self._mode_place(off_calls[0])
            text = f"the loss has no graph: the modules only ran with grad mode off ({off_calls[0]['via']})"
            self.add("grad-mode-off", text, where, "likely", seen, error=error)
            return
        nearby = [entry for entry in run.cuts.values() if entry["kind"] not in ("branch",) and entry["up"]]
        for entry in nearby[:3]:
            where = self._mode_place(entry.get("mode")) or entry["at"]
            text = f"the loss has no graph: {entry['op']} cuts it ({entry['kind']})"
            self.add("cut-graph", text, where, "likely", [*seen, (entry["at"], "the cut")], error=error)
        if not nearby:
            self.add("no-graph", "the loss has no graph", record["at"], "likely", seen, error=error)

    def _carried(self, record: dict) -> list[dict]:
        """Uses of old graphs since the last backward that went through: the loop's last call first."""
        now = [c for c in self.run.carried if c["now"] >= record["n"] - 1 and c["used"] is not None]
        return sorted(now, key=lambda c: not c["whole"])

    def _second_time(self, record: dict, error: str, seen: list) -> None:
        text = "the graph is used a second time, after a backward freed it"
        attribute = self._non_leaf_attribute()
        if attribute is not None:
            name, place = attribute
            self.add(
                "non-leaf-attribute",
                f"{text}: {name} was computed once, and is no leaf",
                place,
                "certain",
                seen,
                error=error,
            )
            return
        carried = self._carried(record)
        if carried:
            use = carried[0]
            why = [(one(use["born"]), "made here, in the graph of an earlier backward")]
            self.add(
                "graph-reused",
                f"{text}: what comes in here carries the old graph",
                one(use["used"]),
                "certain",
                [*seen, *why],
                error=error,
            )
            return
        earlier = [(b["at"], "an earlier backward frees the graph") for b in self.good[-1:]]
        self.add("graph-reused", text, record["at"], "certain", [*seen, *earlier], error=error)

    def _in_place(self, record: dict, error: str, seen: list) -> None:
        run = self.run
        found = re.search(r"\[torch\.[\w.]+ \[([\d, ]*)\]\]", error)
        shape = tuple(int(n) for n in found.group(1).split(",") if n.strip()) if found else None
        hits = [e for e in run.in_place if e[0] == shape] or [
            e for e in run.in_place if shape is not None and e[0] == shape[::-1]
        ]
        carried = self._carried(record)
        if carried and (not hits or hits[-1][1] == "optimizer.step"):
            use = carried[0]
            why = [(one(hits[-1][2]), f"{hits[-1][1]} changes the weights")] if hits else []
            text = (
                "backward goes through an earlier iteration's graph, whose weights have changed: it is carried in here"
            )
            self.add(
                "graph-reused",
                text,
                one(use["used"]),
                "likely",
                [*seen, (one(use["born"]), "made here"), *why],
                error=error,
            )
            return
        where = one(hits[-1][2]) if hits else record["at"]
        text = f"a tensor that backward needs is changed in place{f' by {hits[-1][1]}' if hits else ''}"
        also = [(one(place), f"{name} also changes a tensor of that shape") for _, name, place in hits[-5:-1]]
        self.add("in-place", text, where, "likely" if hits else "possible", [*seen, *also], error=error)

    def _function_returns(self, record: dict, error: str, seen: list) -> None:
        found = re.search(r"function (\w+)Backward", error)
        place = None
        if found:
            for cls in self.run.torch.autograd.Function.__subclasses__():
                if cls.__name__ == found.group(1):
                    place = sources.method_return(cls, "backward")
        self.add(
            "wrong-number-of-gradients",
            error.split(": ", 1)[-1],
            one(place) or record["at"],
            "certain",
            seen,
            error=error,
        )
