"""Parameters without a gradient or with zeros, and losses that reach nothing."""

from __future__ import annotations

from typing import Any

from . import sources
from .judge_base import Bench
from .places import one


class Gradients(Bench):
    """Parameters without a gradient or with zeros, and losses that reach nothing."""

    def _without_gradient(self) -> None:
        run = self.run
        if not self.good or run.blind:
            return
        waiting = set()
        for entry in run.optimizers:
            optimizer = entry["ref"]()
            if optimizer is not None and not entry["steps"] and run.steps:
                waiting |= {id(p) for group in optimizer.param_groups for p in group["params"]}
        judged = {
            key: name
            for key, (name, p) in self.parameters.items()
            if p.requires_grad and p.is_leaf and key not in waiting and (key in self.held or not self.held)
        }
        none = {key: name for key, name in judged.items() if key not in run.grads}
        left = dict(none)
        graph_cut = [e for e in run.extra if e["rule"] == "checkpoint-without-gradient"]
        if none and graph_cut:
            return  # the warning named the line already
        # a cut whose mark reached a loss comes first, then the one nearest to it
        for key, entry in sorted(run.cuts.items(), key=lambda item: item[0] not in run.loss_marks):
            names = {k: none[k] for k in none if k in entry["up"] and k in left}
            if not names:
                continue
            feeds = key in run.loss_marks
            if not feeds and entry.get("leaves_only"):
                continue  # a wrapper or an initialiser looks at the parameters themselves
            if not feeds and entry["kind"] in ("value", "dtype", "branch"):
                others = (run.cuts[k]["up"] for k in run.loss_marks)
                if any(set(names) & up for up in others):
                    continue
            mode = entry.get("mode") if entry["kind"] == "grad mode off" else None
            why = (
                f"their output was computed with grad mode off ({mode['via']})"
                if mode
                else f"{entry['op']} cuts the graph ({entry['kind']})"
            )
            where = self._mode_place(mode) or entry["at"]
            evidence = [(entry["at"], "the cut")] if where != entry["at"] else []
            self.add(
                "cut-graph",
                f"{len(names)} parameters get no gradient: {why}",
                where,
                "certain" if feeds else "likely",
                evidence,
                names.values(),
                feeds_the_loss=feeds,
            )
            for k in names:
                left.pop(k)
        for cls, up in run.functions.items():
            names = {k: left[k] for k in left if k in up and k in run.reached}
            if names:
                place = sources.method_return(cls, "backward")
                text = f"{len(names)} parameters get no gradient: backward of {cls.__name__} lets none through"
                self.add("gradient-lost", text, one(place), "likely", (), names.values())
            for k in names:
                left.pop(k)
        self._unexplained(left)

    def _unexplained(self, left: dict[int, str]) -> None:
        run = self.run
        owners = self._owners()
        groups: dict[str, list[int]] = {}
        for key, name in left.items():
            groups.setdefault(name.rsplit(".", 1)[0] if "." in name else name, []).append(key)
        strays: list[str] = []
        for label, keys in groups.items():
            names = [left[key] for key in keys]
            owner = owners.get(keys[0])
            if owner is None:
                strays += names
                continue
            module, _, parents = owner
            call = run.calls.get(id(module))
            where = self._made_at(module, parents)
            used = any(key in run.leaves for key in keys)
            if call is None and not used and run.hears_dynamo:
                text = f"{label} got no gradient from any loss; what happens inside compiled code is not seen"
                self.add("no-gradient", text, where, "likely", (), names)
            elif call is None and not used:
                text = f"{label} takes no part in the forward pass"
                confidence = "possible" if self._chosen_by_data(module, parents) else "certain"
                self.add("unused", text, where, confidence, (), names)
            elif call is not None and not call["on"] and call.get("setter"):
                setter = call["setter"]
                self.add(
                    "grad-mode-off",
                    f"{label} only ran with grad mode off ({setter['via']})",
                    self._mode_place(setter),
                    "likely",
                    (),
                    names,
                )
            else:
                text = f"{label} ran, and got no gradient from any loss"
                self.add("no-gradient", text, where, "possible", (), names)
        if strays:
            entry = next((e for e in run.optimizers if e["ref"]() is not None), None)
            text = f"{len(strays)} parameters that an optimizer holds belong to no module that ran, and got no gradient"
            self.add("optimizer-holds-strays", text, entry and entry["at"], "likely", (), strays)

    def _chosen_by_data(self, module: Any, parents: dict[int, tuple[Any, str]]) -> bool:
        """One of several in a container whose others got gradients: experts, relations, branches picked by the batch."""
        nn = self.run.torch.nn
        for _ in range(6):
            if id(module) not in parents or any(id(p) in self.run.grads for p in module.parameters()):
                return False
            module, _ = parents[id(module)]
            if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
                return any(id(p) in self.run.grads for p in module.parameters())
        return False

    def _zero_gradient(self) -> None:
        run = self.run
        judged = {
            k: n for k, (n, p) in self.parameters.items() if p.requires_grad and (k in self.held or not self.held)
        }
        zero = {k: n for k, n in judged.items() if run.grads.get(k) == 0.0}
        for entry in run.zero_ops.values():
            names = {k: zero[k] for k in zero if k in entry["up"]}
            if names:
                text = (
                    f"{len(names)} parameters get an all-zero gradient: {entry['op']} has a zero derivative everywhere"
                )
                self.add("zero-gradient", text, entry["at"], "likely", (), names.values())
            for key in names:
                zero.pop(key)
        if zero and run.dead_relus:
            for entry in run.dead_relus.values():
                text = f"{entry['module']} outputs only zeros: nothing before it gets a gradient"
                self.add("dead-activation", text, entry["at"], "likely", (), zero.values())
        elif zero:
            text = f"{len(zero)} parameters got an all-zero gradient in the steps seen (as after a layer that starts at zero)"
            self.add("zero-gradient", text, None, "possible", (), zero.values())

    def _loss_is_a_leaf(self) -> None:
        """`loss.requires_grad = True`: backward goes through, and stops at the loss itself."""
        run = self.run
        if run.autograd_grads:
            return
        for record in self.good:
            if not record.get("is_leaf") or record.get("shape") not in ([], [1]):
                continue
            made = record.get("made_leaf")
            evidence = [(record["at"], "backward goes no further than the loss")]
            for key in record.get("_marks", ()):
                evidence.append(
                    (run.cuts[key]["at"], f"{run.cuts[key]['op']} cuts the graph ({run.cuts[key]['kind']})")
                )
            if not record.get("_marks"):
                values = [entry for entry in run.cuts.values() if entry["kind"] == "value" and entry["up"]]
                evidence += [(entry["at"], f"{entry['op']} makes a Python number of a tensor") for entry in values[-6:]]
            how = f": {made['how']} makes a new leaf of it" if made else ""
            where = made["at"] if made else (evidence[1] if len(evidence) > 1 else evidence[0])[0]
            self.add("hidden-error", f"the loss reaches no parameter{how}", where, "certain", evidence)
            return

    def _dead_terms(self) -> None:
        run = self.run
        done: set = set()
        for _, _, _, entry in run.dead_terms:
            if not entry.get("reached"):
                continue
            for key in entry["keys"]:
                item = run.cuts[key]
                if key in done or not (item["up"] & (self.held or item["up"])) or item["kind"] == "value":
                    continue
                done.add(key)
                where = self._mode_place(item.get("mode")) or item["at"]
                text = f"a term of the loss has no graph and trains nothing: {item['op']} cuts it ({item['kind']})"
                self.add(
                    "dead-term",
                    text,
                    where,
                    "likely",
                    [(entry["at"], "the term is added here"), (item["at"], "the cut")],
                )
