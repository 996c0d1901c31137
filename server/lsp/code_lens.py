"""Code lenses: over the origin of findings that show elsewhere, how many they are and where; over what is
back-propagated, what it reaches; over a class of modules, what trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ..findings import Finding, Place
from ..messages import listed, say, told

if TYPE_CHECKING:
    from .server import GradlineServer

SHOW = "gradline.showPlaces"  # a command of the client's (address, position, locations); only if it says it has it


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        view = server.view(params.text_document.uri)
        if view is None or SHOW not in server.options.get("commands", ()):
            return []
        found = []
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
            found.append(types.CodeLens(at, types.Command(told(title), SHOW, arguments=[view.uri, at.start, places])))
        for lens in server.engine.lenses(view.path):
            if view.holds(lens.start, lens.end):
                at = view.range(lens.start, lens.end)
                places = [location for place in lens.places if (location := server.location(place))]
                found.append(
                    types.CodeLens(at, types.Command(lens.title, SHOW, arguments=[view.uri, at.start, places]))
                )
        return found


def _origins(server: GradlineServer, path: str) -> dict[Place, list[Finding]]:
    """The places in a file where trails of findings at other lines end."""
    found: dict[Place, list[Finding]] = {}
    for some in server.analysis.paths():
        for finding in server.analysis.findings(some):
            if finding.trail and finding.trail[-1].place.path == path and finding.trail[-1].place != finding.place:
                found.setdefault(finding.trail[-1].place, []).append(finding)
    return found
