"""What every judgement needs: the run, the parameters, and a place to put findings."""

from __future__ import annotations

from typing import Any

from . import sources
from .kept import kept_graphs, kept_losses
from .places import one
from .run import Run

MAX_NAMES = 200


class Bench:
    """What every judgement needs: the run, the parameters, and a place to put findings."""

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

    def _mode_place(self, event: dict | None) -> dict | None:
        return (event.get("decorated") or event.get("at") or event.get("library")) if event else None

    def _frozen_at(self) -> dict | None:
        """The line that froze the parameters, as far as it was seen."""
        places = [place for ref, place in self.run.frozen_at.values() if ref() is not None and place is not None]
        return one(places[-1]) if places else None

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

    def _all_of(self, entry: dict) -> list:
        optimizer = entry["ref"]()
        return [p for group in optimizer.param_groups for p in group["params"]] if optimizer is not None else []

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
