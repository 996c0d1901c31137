"""Optimizers and the order of the loop."""

from __future__ import annotations

from . import sources
from .judge_base import Bench
from .places import one


class Loop(Bench):
    """Optimizers and the order of the loop."""

    def _optimizers(self) -> None:
        run = self.run
        if run.blind:
            return
        stepped = run.held(stepped_only=True)
        ended = self.stopped.startswith("the program ended")
        for entry in run.optimizers:
            optimizer = entry["ref"]()
            if optimizer is None:
                continue
            mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
            if not entry["steps"] and mine <= stepped:
                continue  # a wrapper whose inner optimizer steps
            if not entry["steps"]:
                alone = [
                    b
                    for b in self.good
                    if b.get("_leaves", set()) & mine and not b.get("_leaves", set()) & (stepped - mine)
                ]
                others = run.steps >= 2 * run.options["steps"]
                if alone and (ended or others or "without an optimizer step" in self.stopped):
                    text = f"{entry['type']} never steps, though backward is called for its parameters"
                    self.add("optimizer-never-steps", text, alone[0]["at"], "likely", [(entry["at"], "made here")])
                continue
            if entry.get("frozen_at_step"):
                text = "the optimizer holds only parameters that do not require grad"
                self.add("optimizer-all-frozen", text, entry["at"], evidence=[(self._frozen_at(), "frozen here")])
            if mine and not any(key in run.grads for key in mine) and run.grads:
                text = (
                    "none of the parameters this optimizer holds got a gradient (were they replaced after it was made?)"
                )
                self.add("stale-optimizer", text, entry["at"], "likely")
            same, of = entry.get("unchanged_first") or (0, 1)
            skipped = any(a["kind"] == "step without gradients" for a in run.anomalies)
            if same == of and of and any(run.grads.get(key) for key in mine) and not skipped:
                rates = [group.get("lr") for group in optimizer.param_groups][:3]
                text = f"optimizer.step() changed none of {of} parameters (lr {rates})"
                confidence = "certain" if all(rates) else "possible"  # a warm-up starts at zero
                self.add("step-changes-nothing", text, entry.get("step_at") or entry["at"], confidence)

    def _anomalies(self) -> None:
        run = self.run
        for a in run.anomalies:
            kind = a["kind"]
            if kind == "step without gradients" and a.get("cleared"):
                text = a["detail"] + ": they were cleared between backward and step"
                self.add("cleared-before-step", text, a["cleared"]["at"], "certain", [(a["at"], "the step")])
            elif kind == "step without gradients":
                # all zero happens to a loss that is at its floor; none at all means that others got them
                sure = "certain" if "None" in a["detail"] else "possible"
                made = [(a["made"], "the optimizer is made here")] if a.get("made") else []
                self.add("step-without-gradients", a["detail"], a["at"], sure, made)
            elif kind == "step before any backward":
                self.add("step-before-backward", "optimizer.step() runs before any backward", a["at"], "likely")
            elif kind == "loss is not finite":
                first = run.first_bad
                text = f"the loss is {a['value']}" + (
                    f"; first seen in the output of {first['module']}" if first else ""
                )
                self.add("not-finite", text, (first or a)["at"], "certain", [(a["at"], "backward")])
            elif kind == "gradient is not finite":
                text = f"gradients are not finite: {', '.join(a['params'][:5])}"
                made = None if run.first_bad else a.get("made")
                if made:
                    text += f"; {made['module']} makes them so, of finite ones"
                self.add("not-finite", text, (run.first_bad or made or a)["at"], "certain", [(a["at"], "backward")])
            elif kind == "gradients accumulate":
                self._accumulate(a)
            elif kind == "stepped twice":
                text = f"{a['type']} steps twice with the same gradients"
                self.add("stepped-twice", text, a["at"], "certain", [(a["first"], "the first of the two steps")])

    def _accumulate(self, a: dict) -> None:
        text = f"{a['count']} gradients of the last step were not cleared before the next backward added to them"
        evidence = [(a["backward"], "this backward adds to them"), (a["at"], "the step")]
        where = a["backward"]
        if a.get("cleared_another"):
            where, text = a["cleared_another"], f"{text}: what is cleared here is not what {a['type']} holds"
        else:
            place = sources.uncalled(self.run.user_files(), "zero_grad")
            if place is not None:
                where, text = one(place), f"{text}: zero_grad is named here and not called"
        self.add("gradients-accumulate", text, where, "certain", evidence)

    def _thrown_away(self) -> None:
        run = self.run
        leaves = {b["n"]: b.get("_leaves", set()) & self.held for b in self.good}
        wasted = [
            n
            for n, entry in run.thrown.items()
            if n not in run.used and not entry["read"] and leaves.get(n) and entry["ids"] >= leaves[n]
        ]
        if len(wasted) > 1 and run.steps and not any(a["kind"] == "step without gradients" for a in run.anomalies):
            at = run.thrown[wasted[0]]["at"]
            text = f"the gradients of {len(wasted)} backward calls are cleared before any step uses them"
            backward = next(b["at"] for b in self.good if b["n"] == wasted[0])
            self.add("gradients-thrown-away", text, at, "likely", [(backward, "their backward")])

    def _kept_graphs(self) -> None:
        for place, count in self.kept:
            steps = "an earlier step's graph" if count == 1 else f"the graphs of {count} steps"
            text = f"this total keeps {steps} alive: add loss.item() or loss.detach()"
            self.add("graph-kept", text, one(place), "likely")
        if self.listed is not None:
            text = "a list holds the losses of earlier steps with their graphs: append loss.item() or loss.detach()"
            self.add("graph-kept", text, one(self.listed), "likely")
