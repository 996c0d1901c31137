"""Modes, wrappers and flags that do not do what they seem to."""

from __future__ import annotations

import re

from . import sources
from .judge_base import Bench
from .places import one


class Flags(Bench):
    """Modes, wrappers and flags that do not do what they seem to."""

    def _modes(self) -> None:
        run = self.run
        left_off = [e for e in run.modes.values() if e.get("persistent")]
        named = any(f["rule"] == "grad-mode-off" for f in self.findings)
        if left_off and self.bad and not named and not run.grad_at_end:
            where = left_off[-1].get("decorated") or left_off[-1]["at"]
            self.add("grad-mode-left-off", "grad mode was switched off by a call, and is still off", where, "likely")
        trained = [b for b in self.good if b.get("training")]
        if trained and any(any(b["training"]) for b in trained[:1]):
            later = [b for b in trained[1:] if not any(b["training"])]
            if later and run.steps and self._mode_matters():
                places = [p for key, p in run.train_at.items() if key in run.roots or key in run.root_members]
                at = one(places[-1]) if places else later[0]["at"]
                self.add(
                    "eval-mode-left-on",
                    "training goes on in eval mode: it was left on here",
                    at,
                    "likely",
                    [(later[0]["at"], "backward")],
                )
        self._frozen_batchnorm()

    def _mode_matters(self) -> bool:
        """Whether a module that ran computes something else in eval mode."""
        nn = self.run.torch.nn
        kinds = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd)
        for call in self.run.calls.values():
            module = call["ref"]()
            if isinstance(module, kinds) or (isinstance(getattr(module, "dropout", None), float) and module.dropout):
                return True
        return False

    def _frozen_batchnorm(self) -> None:
        run = self.run
        if not run.steps or not run.grads:
            return
        norm_type = run.torch.nn.modules.batchnorm._NormBase
        for ref, _ in run.roots.values():
            root = ref()
            for name, child in root.named_children() if root is not None else ():
                parameters = list(child.parameters())
                if not parameters or any(p.requires_grad for p in parameters):
                    continue
                drifting = [
                    m
                    for m in child.modules()
                    if isinstance(m, norm_type) and m.training and m.track_running_stats and id(m) in run.calls
                ]
                if drifting:
                    place = run.train_at.get(id(root)) or run.train_at.get(id(child))
                    what = f"its {len(drifting)} batch norm layers are in train mode: their running statistics move"
                    text = f"{name} is frozen, yet {what}"
                    self.add("frozen-batchnorm-moves", text, one(place), "possible" if place is None else "likely")

    def _parallel(self) -> None:
        run = self.run
        for entry in run.parallel:
            wrapper = entry["ref"]()
            if wrapper is None or id(wrapper) in run.calls or not self.good:
                continue
            call = run.calls.get(id(wrapper.module))
            if call is None or not call["on"]:
                continue
            taken = entry.get("unwrapped") or []
            where = one(taken[0]) if taken else one(call["at"])
            text = "the forward goes past DistributedDataParallel: its gradients are not averaged over the ranks"
            self.add(
                "ddp-bypassed",
                text,
                where,
                "certain",
                [(one(call["at"]), "called here"), (entry["at"], "wrapped here")],
            )

    def _flags(self) -> None:
        """Attributes that only look like `requires_grad`, and tables that are frozen without being told."""
        run = self.run
        for ref, _ in list(run.roots.values()):
            root = ref()
            for name, module in root.named_modules() if root is not None else ():
                if "requires_grad" in vars(module):
                    place = sources.attribute_set(run.user_files(), "requires_grad", name.rpartition(".")[2])
                    what = "that is a plain attribute, and freezes nothing"
                    text = f"requires_grad is set on the module {name or type(module).__name__}: {what}"
                    self.add("requires-grad-on-module", text, one(place), "certain")
        for name, parameter in self.parameters.values():
            odd = [key for key in vars(parameter) if re.fullmatch(r"require_?s?_?grads?|requires?_?gradients?", key)]
            if odd:
                place = sources.attribute_set(run.user_files(), odd[0])
                text = (
                    f"{odd[0]} is no attribute of a tensor: requires_grad of {name} is still {parameter.requires_grad}"
                )
                self.add("misspelt-requires-grad", text, one(place), "certain")
                break
        for ref, place in run.pretrained.values():
            weight = ref()
            if weight is None or weight.requires_grad:
                continue
            if any(p is weight for e in run.optimizers for p in self._all_of(e)):
                text = (
                    "Embedding.from_pretrained freezes its table by default: the optimizer holds it, and it never moves"
                )
                self.add("pretrained-frozen", text, one(place), "likely")

    def _compiled(self) -> None:
        for entry in self.run.cuts.values():
            if entry.get("compiled"):
                text = f"{entry['op']}() inside the compiled {entry['compiled']} breaks its graph at each call"
                self.add("graph-break", text, entry["at"], "likely")
        for event in self.run.compile_events:
            times = f" ({event['count']} times)" if event["count"] > 1 else ""
            if event["kind"] == "recompile":
                text = f"{event['at']['function']} is compiled again{times}: {event['reason']}"
                self.add("recompiled", text, event["at"], "possible")
            else:
                self.add(
                    "graph-break", f"the compiled graph ends here{times}: {event['reason']}", event["at"], "possible"
                )

    def _discarded(self) -> None:
        for entry in self.run.cuts.values():
            if entry.get("discarded"):
                text = "detach() returns a new tensor, which is thrown away here: nothing is detached"
                self.add("detach-discarded", text, entry["at"], "certain")

    def _extras(self) -> None:
        for entry in self.run.extra:
            entry = dict(entry)
            entry.setdefault("evidence", [])
            entry["evidence"] = [e for e in entry["evidence"] if e["at"] is not None]
            self.findings.append(entry)
