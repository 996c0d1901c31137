"""What was seen of a document at rest reaches the client, whatever came in between."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gradline.lsp import convert, looking
from gradline.lsp.local import Local
from gradline.text import Source


def test_an_interrupted_look_is_told() -> None:
    told: list[list[str]] = []
    quiet: list[Any] = []
    server: Any = SimpleNamespace(
        documents=SimpleNamespace(paths=lambda: ["/a.py", "/b.py"]),
        configuration=SimpleNamespace(of=lambda path: SimpleNamespace(enable=True)),
        analysis=SimpleNamespace(revision=1, is_disturbed=lambda: False),
        engine=SimpleNamespace(look=lambda path, cancelled: True),
        answers=SimpleNamespace(may_differ=lambda now: None),
        tell_lines=told.append,
    )
    server.analysis_quiet = quiet
    looking.register(server)
    look = quiet[0]()
    next(look)  # the first document has been looked at, and now a request waits
    look.close()
    assert told == [["/a.py"]]


def test_what_a_hover_saw_first_is_still_news(tmp_path: Path) -> None:
    path = convert.path_of((tmp_path / "a.py").as_uri())
    text = "import torch\n\nw = torch.ones(1, requires_grad=True)\nw.sum().backward()\n"
    engine = Local()
    engine.set_roots([str(tmp_path)])
    engine.update(path, Source(text, path))
    engine.check([path], lambda: False)
    assert engine.fact(path, text.index("w =")) is not None
    assert engine.look(path, lambda: False)
    assert engine.regions(path)
    assert not engine.look(path, lambda: False)
