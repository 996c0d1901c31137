"""From what was seen to findings: a cut is none until parameters that should train got no gradient for it.

Confidence: `certain` (seen to happen and to matter), `likely` (seen, and the reason is inferred), `possible` (seen, and
often meant so). Only parameters that an optimizer holds were asked to train; targets, teachers and averages were not.
"""

from __future__ import annotations

import re

from .judge_base import MAX_NAMES
from .judge_exceptions import Exceptions
from .judge_failures import Failures
from .judge_flags import Flags
from .judge_gradients import Gradients
from .judge_loop import Loop
from .judge_registration import Registration


class Judge(Failures, Gradients, Registration, Loop, Flags, Exceptions):
    """Collects the findings of one run; each `_…` method looks at one kind of trouble and may fail alone."""

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
