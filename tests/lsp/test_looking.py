"""What was seen of a document at rest reaches the client, also when a request ends the rest right then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradline.lsp import looking


def test_an_interrupted_look_is_told() -> None:
    told: list[list[str]] = []
    quiet: list[Any] = []
    server: Any = SimpleNamespace(
        documents=SimpleNamespace(paths=lambda: ["/a.py", "/b.py"]),
        configuration=SimpleNamespace(of=lambda path: SimpleNamespace(enable=True)),
        analysis=SimpleNamespace(revision=1, is_disturbed=lambda: False),
        engine=SimpleNamespace(look=lambda path, cancelled: True),
        refresh_views=lambda: None,
        tell_lines=told.append,
    )
    server.analysis_quiet = quiet
    looking.register(server)
    look = quiet[0]()
    next(look)  # the first document has been looked at, and now a request waits
    look.close()
    assert told == [["/a.py"]]
