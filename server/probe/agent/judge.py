"""From what was seen to findings: a cut is none until parameters that should train got no gradient for it.

Confidence: `certain` (seen to happen and to matter), `likely` (seen, and the reason is inferred), `possible` (seen, and
often meant so). Only parameters that an optimizer holds were asked to train; targets, teachers and averages were not.
"""

from __future__ import annotations

import re
from typing import Any

from . import sources
from .backward import kept_graphs, kept_losses
from .places import Place, one
from .run import Run

MAX_NAMES = 200
NO_GRAPH = "does not require grad"


class Judge:
    """Collects the findings of one run; each `_…` method looks at one kind of trouble and may fail alone."""

    def __init__(self, run: Run, stopped: str) -> None:
        self.run = run
        self.stopped = stopped
        self.findings: list[dict] = []
        self.kept = run.safely(kept_graphs, run) or []
        self.listed = run.safely(kept_losses, run)
        run.loss_nodes = []  # a node holds its parameters: a model that is gone must not seem to live
        self.parameters = run.parameters()
        self.held = run.held()
        self.good = [b for b in run.backwards if b.get("ok")]
        self.bad = [b for b in run.backwards if b.get("ok") is False]

    def add(
        self,
        rule: str,
        message: str,
        at: dict | None,
        confidence: str = "certain",
        evidence: Any = (),
        parameters: Any = (),
        **more: Any,
    ) -> None:
        notes = [{"at": place, "note": note} for place, note in evidence if place is not None]
        finding = {"rule": rule, "message": message, "at": at, "confidence": confidence, "evidence": notes, **more}
        names = sorted(set(parameters))
        if names:
            finding["parameters"] = names[:MAX_NAMES]
            finding["parameter_count"] = len(names)
        self.findings.append(finding)

    def all(self) -> list[dict]:
        for look in (
            self._failed_backward,
            self._without_gradient,
            self._zero_gradient,
            self._loss_is_a_leaf,
            self._dead_terms,
            self._not_held,
            self._unregistered,
            self._born_in_forward,
            self._optimizers,
            self._anomalies,
            self._thrown_away,
            self._kept_graphs,
            self._modes,
            self._parallel,
            self._flags,
            self._compiled,
            self._discarded,
            self._extras,
            self._exception,
        ):
            self.run.safely(look)
        return self._merge(self._prune(self.findings))

    # ------------------------------------------------------------------------------------------ backward that failed
    def _mode_place(self, event: dict | None) -> dict | None:
        return (event.get("decorated") or event.get("at") or event.get("library")) if event else None

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

    def _frozen_at(self) -> dict | None:
        """The line that froze the parameters, as far as it was seen."""
        places = [place for ref, place in self.run.frozen_at.values() if ref() is not None and place is not None]
        return one(places[-1]) if places else None

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

    # ------------------------------------------------------------------------------------------ no gradient, zero
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

    def _owners(self) -> dict[int, tuple[Any, str, Any]]:
        """id(parameter) -> (its module, its name there, that module's parent)."""
        out: dict[int, tuple[Any, str, Any]] = {}
        for ref, _ in self.run.roots.values():
            root = ref()
            if root is None:
                continue
            parents: dict[int, tuple[Any, str]] = {}
            for module in root.modules():
                for name, child in module._modules.items():
                    if child is not None:
                        parents.setdefault(id(child), (module, name))
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        out.setdefault(id(parameter), (module, name, parents))
        return out

    def _made_at(self, module: Any, parents: dict[int, tuple[Any, str]]) -> dict | None:
        """The line that gave the module to its parent; a Sequential's or list's items stand where it was made."""
        for _ in range(6):
            if id(module) not in parents:
                return None
            parent, name = parents[id(module)]
            place = self.run.registered_at.get((id(parent), name))
            if place is None and not name.isdigit():
                place = sources.attribute(type(parent), name, self.run.places)
            if place is not None:
                return one(place)
            module = parent
        return None

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

    # ------------------------------------------------------------------------------------------ registration
    def _not_held(self) -> None:
        run = self.run
        if not (run.optimizers and run.steps):
            return
        trained = {
            key: (name, p)
            for key, (name, p) in self.parameters.items()
            if p.requires_grad and key in run.grads and key not in self.held
        }
        registered: set[int] = set()
        partly: set[int] = set()
        for ref, name in run.roots.values():
            root = ref()
            if root is None or name.startswith("<unregistered"):
                continue
            ids = {id(p) for p in root.parameters()}
            registered |= ids
            if ids & self.held:
                partly |= ids
        reborn = {
            id(entry[0]()._parameters.get(entry[1])) for entry in run.born_in_forward.values() if entry[0]() is not None
        }
        missing = {k: n for k, (n, _) in trained.items() if k in registered and k not in reborn}
        sure = {k: n for k, n in missing.items() if k in partly}
        at = run.optimizers[0]["at"]
        double = [e for e in run.extra if e["rule"] == "duplicate-parameters"]
        if double:
            sure = missing
        if sure:
            where, evidence = at, []
            if double and double[0]["at"]:
                first = double[0]["at"]
                frames = [first, *first.get("called_from", ())]
                for frame in frames:
                    place = sources.duplicated(Place(frame["file"], frame["line"], frame["function"]))
                    if place is not None:
                        where, evidence = one(place), [(at, "the optimizer is made here")]
                        break
            text = f"{len(sure)} parameters get a gradient, and no optimizer holds them"
            self.add("not-in-optimizer", text, where, "certain", evidence, sure.values())
        elif missing:
            text = f"{len(missing)} parameters of a model that no optimizer holds get a gradient"
            self.add("not-in-optimizer", text, at, "possible", (), missing.values())
        for key, (name, parameter) in trained.items():
            if key in registered or key not in run.leaves or name.startswith("<unregistered") or run.leaves[key][2]:
                continue
            held = self._holder(parameter)
            if held is None and not isinstance(parameter, run.torch.nn.Parameter):
                continue  # an input that requires grad (saliency, a penalty, an attack) is no parameter
            kind = type(parameter).__name__
            text = f"a trainable {kind} of shape {list(parameter.shape)} belongs to no module and no optimizer"
            used = one(run.leaves[key][1])
            where = held[1] if held and held[1] else used
            self.add(
                "unregistered-parameter",
                text + (f" ({held[0]})" if held else ""),
                where,
                "certain",
                [(used, "used here")],
            )
        if not self.bad:
            attribute = self._non_leaf_attribute()
            if attribute is not None:
                text = (
                    f"{attribute[0]} is computed from an unregistered parameter: it is no leaf, and nothing trains it"
                )
                self.add("non-leaf-attribute", text, attribute[1], "certain")

    def _non_leaf_attribute(self) -> tuple[str, dict | None] | None:
        """A module's attribute that was computed from a Parameter which itself belongs to nobody."""
        run = self.run
        registered = {
            id(p) for ref, _ in run.roots.values() if ref() is not None for p in ref().parameters()
        } | self.held
        for ref, _ in list(run.roots.values()):
            root = ref()
            for module in root.modules() if root is not None else ():
                for name, value in list(vars(module).items()):
                    if not isinstance(value, run.torch.Tensor) or not value.requires_grad or value.grad_fn is None:
                        continue
                    leaves, nodes = run.walk(value, 64)
                    lost = [
                        p for k, p in leaves.items() if k not in registered and isinstance(p, run.torch.nn.Parameter)
                    ]
                    if lost and len(leaves) == len(lost) and len(nodes) < 16:
                        place = sources.attribute(type(module), name, run.places)
                        return f"{type(module).__name__}.{name}", one(place)
        return None

    def _holder(self, thing: Any, modules: list | None = None) -> tuple[str, dict | None] | None:
        """The attribute of a module that hides it, itself or in a list, tuple or dict; and the line that assigns it."""

        def find(value: Any, path: str, depth: int) -> str | None:
            if value is thing:
                return path
            if depth > 3 or not isinstance(value, (list, tuple, set, frozenset, dict)):
                return None
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, inner in items:
                found = find(inner, f"{path}[{key!r}]", depth + 1)
                if found:
                    return found
            return None

        if modules is None:
            modules = [m for ref, _ in self.run.roots.values() if ref() is not None for m in ref().modules()]
        for module in modules:
            for name, value in list(vars(module).items()):
                if name in ("_modules", "_parameters", "_buffers") or name.endswith("_hooks"):
                    continue
                path = find(value, name, 0)
                if path:
                    place = sources.attribute(type(module), name, self.run.places)
                    return f"{type(module).__name__}.{path}", one(place)
        return None

    def _unregistered(self) -> None:
        run = self.run
        for ref, parent_ref, place, _ in run.unregistered.values():
            module, parent = ref(), parent_ref()
            if parent is None:
                continue
            inside = f"inside {type(parent).__name__}"
            if module is None:
                continue
            parameters = list(module.parameters())
            if not parameters:
                if (
                    type(module).__name__.startswith(("Dropout", "AlphaDropout", "FeatureAlphaDropout"))
                    and self._holder(module, [parent]) is None
                ):
                    text = f"{type(module).__name__} is made {inside} at each call: model.eval() never reaches it"
                    self.add("made-in-forward", text, one(place), "likely")
                continue
            if any(id(p) in self.held for p in parameters):
                continue
            held = self._holder(module, [parent])
            text = f"{type(module).__name__} is called {inside}, and is not one of its submodules"
            where = held[1] if held and held[1] else one(place)
            self.add(
                "unregistered-module",
                text + (f" (held by {held[0]})" if held else ""),
                where,
                "certain",
                [(one(place), "called here")],
            )
        seen = {
            f["at"]["line"]
            for f in self.findings
            if f["rule"] in ("made-in-forward", "unregistered-module") and f["at"]
        }
        for label, place in run.gone_modules.values():
            if place is not None and place.line not in seen:
                seen.add(place.line)
                text = f"{label} is made in forward at each call, and thrown away: "
                text += "model.eval() never reaches it" if "Dropout" in label else "nothing trains it"
                self.add("made-in-forward", text, one(place), "certain" if "Dropout" not in label else "likely")

    def _born_in_forward(self) -> None:
        run = self.run
        for ref, name, place, when in run.born_in_forward.values():
            module = ref()
            parameter = module._parameters.get(name) if module is not None else None
            if parameter is None or id(parameter) in self.held or not run.optimizers:
                continue
            text = f"{type(module).__name__}.{name} is a new Parameter made in forward: no optimizer holds it"
            self.add("made-in-forward", text, one(place), "certain" if when or run.steps else "likely")

    # ------------------------------------------------------------------------------------------ optimizers, the loop
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

    # ------------------------------------------------------------------------------------------ modes, wrappers, flags
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

    def _all_of(self, entry: dict) -> list:
        optimizer = entry["ref"]()
        return [p for group in optimizer.param_groups for p in group["params"]] if optimizer is not None else []

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

    # ------------------------------------------------------------------------------------------ an exception
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

    # ------------------------------------------------------------------------------------------ the list as a whole
    def _prune(self, findings: list[dict]) -> list[dict]:
        """What follows from another finding is not said twice."""
        rules = {f["rule"] for f in findings}
        sure = any(
            f["rule"] in ("cut-graph", "grad-mode-off", "hidden-error") and f["confidence"] == "certain"
            for f in findings
        )

        def follows(f: dict) -> bool:
            rule = f["rule"]
            if sure and rule in ("stale-optimizer", "optimizer-holds-strays", "step-changes-nothing", "no-gradient"):
                return True
            if rule == "cut-graph" and f["confidence"] == "likely" and "hidden-error" in rules:
                return True
            if sure and rule == "step-without-gradients":
                return True
            if "cleared-before-step" in rules and rule == "zero-gradient" and f["confidence"] == "possible":
                return True
            if "not-finite" in rules and rule in ("zero-gradient", "dead-activation"):
                return True
            return rule == "duplicate-parameters" and "not-in-optimizer" in rules

        kept = [f for f in findings if not follows(f)]
        order = {"certain": 0, "likely": 1, "possible": 2}
        return sorted(kept, key=lambda f: order[f["confidence"]])

    def _merge(self, findings: list[dict]) -> list[dict]:
        """One finding per rule and line; counts add up."""
        out: dict[tuple, dict] = {}
        for finding in findings:
            at = finding["at"]
            key = (finding["rule"], at["file"], at["line"]) if at else (finding["rule"], finding["message"])
            known = out.get(key)
            if known is None:
                out[key] = finding
                continue
            known["count"] = known.get("count", 1) + 1
            names = sorted({*known.get("parameters", ()), *finding.get("parameters", ())})
            if names:  # both lists may be cut short: then their counts are all that is known
                cut = max(known.get("parameter_count", 0), finding.get("parameter_count", 0)) > MAX_NAMES
                whole = known.get("parameter_count", 0) + finding.get("parameter_count", 0)
                known["parameter_count"] = whole if cut or len(names) > MAX_NAMES else len(names)
                known["parameters"] = names[:MAX_NAMES]
                known["message"] = re.sub(
                    r"^\d+ parameters", f"{known['parameter_count']} parameters", known["message"]
                )
            known["evidence"] += [e for e in finding["evidence"] if e not in known["evidence"]]
        for finding in out.values():
            if finding["rule"] in ("unused", "no-gradient") and finding.get("count", 1) > 1:
                finding["message"] += f" (and {finding['count'] - 1} more from this line)"
        return list(out.values())
