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
    assert engine.fact(path, text.index("w ="), lambda: False) is not None
    assert engine.look(path, lambda: False)
    assert engine.regions(path)
    assert not engine.look(path, lambda: False)


def test_a_hover_that_others_wait_for_tells_what_the_word_does(tmp_path: Path) -> None:
    """A document that was just opened has not been looked at, which may take a second where a program is large."""
    path = convert.path_of((tmp_path / "a.py").as_uri())
    text = "import torch\n\nw = torch.ones(1, requires_grad=True)\n" + "w.sum().backward()\n" * 2000
    engine = Local()
    engine.set_roots([str(tmp_path)])
    engine.update(path, Source(text, path))
    at = text.index("backward") + 1
    word = engine.fact(path, at, lambda: True)
    assert word is not None and "backward" in word.markdown
    assert engine.line(path, text.index("w ="), lambda: True) is None
    seen = engine.fact(path, at, lambda: False)
    assert seen is not None and len(seen.markdown) > len(word.markdown), "what is true here, too"
