"""Parameters and modules that belong to nobody."""

from __future__ import annotations

from typing import Any

from . import sources
from .judge_base import Bench
from .places import Place, one


class Registration(Bench):
    """Parameters and modules that belong to nobody."""

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
