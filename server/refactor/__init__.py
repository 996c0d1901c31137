"""Refactorings: changes that nobody has to find fault to want, offered by where the cursor stands.

    for offer in offers(project, path, start):   # cheap: what could be done here
        fix = make(project, path, start, offer.name)   # the edits, verified: they bring no new finding

A refactoring is a module with `offers(here)` and `make(here, name)`. What is offered is decided on the IR; LibCST is
loaded only to make the edits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..check import check
from ..edits import Edit, Fix, apply
from ..insight import Insight
from ..project import Project
from . import checks, inference, switches
from .here import Offer, here_at

MODULES = (switches, inference, checks)


def offers(
    project: Project,
    path: str,
    offset: int,
    known: Insight | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[Offer]:
    """What can be done at an offset. `known` is what was seen of the file; without it, what needs it is not offered.

    What takes long to find out is left out if `cancelled` says so meanwhile.
    """
    here = here_at(project, path, offset, known, cancelled)
    return [offer for module in MODULES for offer in module.offers(here)] if here is not None else []


def make(project: Project, path: str, offset: int, name: str, known: Insight | None = None) -> Fix | None:
    """The edits of an offer; None if the text no longer allows it, or if they would bring a finding.

    Raises edits.EditingUnavailableError where LibCST is missing.
    """
    here = here_at(project, path, offset, known)
    if here is None:
        return None
    made = (fix for module in MODULES if (fix := module.make(here, name)) is not None)
    fix = next(made, None)
    return fix if fix is not None and brings_nothing(project, fix.edits) else None


def brings_nothing(project: Project, edits: Sequence[Edit]) -> bool:
    """Whether no finding that fails a check is there with these edits that was not there before."""
    paths = sorted({edit.path for edit in edits})
    before = _failing(project, paths)
    texts = {}
    for path in paths:
        source = project.source(path)
        if source is None:
            return False
        texts[path] = apply(source.text, [edit for edit in edits if edit.path == path])
    with project.trial(texts):
        after = _failing(project, paths)
    return all(count <= before.get(code, 0) for code, count in after.items())


def _failing(project: Project, paths: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for found in check(project, paths).findings.values():
        for finding in found:
            if finding.severity.fails:
                counts[finding.code] = counts.get(finding.code, 0) + 1
    return counts


__all__ = ["Offer", "make", "offers"]
