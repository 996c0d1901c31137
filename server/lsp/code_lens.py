"""Code lenses: over the origin of findings that show elsewhere, how many they are and where; over what is
back-propagated, what it reaches; over a class of modules, what trains; over what trains, *Probe*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from ..findings import Finding, Place
from ..messages import listed, say, tell, told
from .answers import LENSES
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer

SHOW = "gradline.showPlaces"  # a command of the client's (address, position, locations); only if it says it has it
PROBE = "gradline.probe"  # ... (address, line from 0); only for `initializationOptions.probe`


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        view = server.view(params.text_document.uri)
        return server.answers.give(LENSES, view, lambda view: _all(server, view)) if view is not None else []


def _all(server: GradlineServer, view: View) -> list[types.CodeLens]:
    return [*(_shown(server, view) if SHOW in server.options.get("commands", ()) else ()), *_probes(server, view)]


def _probes(server: GradlineServer, view: View) -> Iterator[types.CodeLens]:
    """A run of what trains here. The client offers it only where the workspace is trusted."""
    if server.options.get("probe") is not True:
        return
    for offset in server.engine.trainings(view.path):
        if view.holds(offset, offset):
            at = view.range(offset, offset)
            yield types.CodeLens(at, types.Command(tell("Probe"), PROBE, arguments=[view.uri, at.start.line]))


def _shown(server: GradlineServer, view: View) -> Iterator[types.CodeLens]:
    for place, findings in _origins(server, view.path).items():
        if not view.holds(place.start, place.end):
            continue
        at = view.range(place.start, place.end)
        places = [location for finding in findings if (location := server.location(finding.place))]
        names = sorted({finding.name for finding in findings})
        title = say("origin of 1 finding: {names}", names=names[0])
        if len(findings) > 1:
            title = say("origin of {n} findings: {names}", n=len(findings), names=listed(names))
        if verdict := server.verdicts.common(findings):
            title = say("{title} · probe: {verdict}", title=title, verdict=verdict)
        yield types.CodeLens(at, types.Command(told(title), SHOW, arguments=[view.uri, at.start, places]))
    for lens in server.engine.lenses(view.path):
        if view.holds(lens.start, lens.end):
            at = view.range(lens.start, lens.end)
            places = [location for place in lens.places if (location := server.location(place))]
            yield types.CodeLens(at, types.Command(lens.title, SHOW, arguments=[view.uri, at.start, places]))


def _origins(server: GradlineServer, path: str) -> dict[Place, list[Finding]]:
    """The places in a file where trails of findings at other lines end."""
    every = [finding for some in server.analysis.paths() for finding in server.analysis.findings(some) if finding.trail]
    ends = {(finding.place, finding.trail[-1].place): finding for finding in every}
    found: dict[Place, list[Finding]] = {}
    for finding in every:
        last = finding.trail[-1].place
        back = ends.get((last, finding.place))
        if last.path == path and last != finding.place and not (back and _is_origin(finding, back)):
            found.setdefault(last, []).append(finding)
    return found


def _is_origin(finding: Finding, back: Finding) -> bool:
    """Of two findings whose trails lead to each other's place, whether this one is at the cause: where the damage shows
    the longer trail begins, or the later place is."""
    if len(finding.trail) != len(back.trail):
        return len(finding.trail) < len(back.trail)
    return finding.place < back.place
