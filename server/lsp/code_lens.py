"""Code lenses: over the origin of findings that show elsewhere, how many they are and where; over what is
back-propagated, what it reaches; over a class of modules, what trains; over what trains, *Probe*."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from ..findings import Finding, Place
from ..insight import origin
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
    has_script = False
    for offset in server.engine.trainings(view.path):
        if not view.holds(offset, offset):
            continue
        line = view.range(offset, offset).start.line
        text = view.source.line_text(line)
        if not text.lstrip().startswith(("def ", "async ")):
            if has_script:
                continue  # all of them run the same: the file, or the cells up to this one
            has_script = True
        end = view.start + view.source.offset(line, len(text))  # behind what else stands over the line
        yield types.CodeLens(view.range(end, end), types.Command(tell("Probe"), PROBE, arguments=[view.uri, line]))


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
    """The places in a file from which findings at other places come."""
    found: dict[Place, list[Finding]] = {}
    for some in server.analysis.paths():
        for finding in server.analysis.findings(some):
            at = origin(finding)
            if at.path == path and at != finding.place:
                found.setdefault(at, []).append(finding)
    return found
