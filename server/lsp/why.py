"""Explaining a traceback: the command `gradline.why`, and the same as a request of our own.

    workspace/executeCommand  gradline.why  [{text, folder?}]
    gradline/why              {text, folder?}
        ->  {markdown, answers: [{title, markdown, location?, code?, fixable}]} | null

`text` holds a traceback and whatever stands around it, `folder` is the address of the folder in which the program ran (by
default the first of the workspace). null: there is no traceback in the text. `markdown` is the whole explanation, `answers`
are the likely causes one by one, the likeliest first: `location` is where to go, `code` the rule that speaks, `fixable`
that the code actions at `location` have a fix for it.

A client that makes commands of its own out of the server's (as VS Code's does) must not have one that is also called
`gradline.why`; it may use the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import convert

if TYPE_CHECKING:
    from .server import GradlineServer

COMMAND = "gradline.why"


def register(server: GradlineServer) -> None:
    @server.feature("gradline/why")
    def request(params: Any) -> dict[str, Any] | None:
        return _explained(server, params)

    # Not annotated: pygls asks whether that is a subclass of its server, and before Python 3.11 `Any` is no class
    @server.command(COMMAND)
    def command(*arguments) -> dict[str, Any] | None:
        return _explained(server, arguments[0] if arguments else None)


def _explained(server: GradlineServer, params: Any) -> dict[str, Any] | None:
    text, uri = _get(params, "text"), _get(params, "folder")
    if not isinstance(text, str):
        raise ValueError("`text` is missing: the traceback to explain")
    folders = list(server.folders())
    folder = convert.path_of(uri) if isinstance(uri, str) and uri else folders[0] if folders else None
    told = server.engine.why(text, folder)
    if told is None:
        return None
    return {
        "markdown": told.markdown,
        "answers": [
            {
                "title": answer.title,
                "markdown": answer.markdown,
                "location": server.location(answer.place) if answer.place is not None else None,
                "code": answer.code or None,
                "fixable": answer.fixable,
            }
            for answer in told.answers
        ],
    }


def _get(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, dict) else getattr(params, name, None)
