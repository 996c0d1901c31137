"""The words that are coloured and explained, and the look-alikes that are not."""

from __future__ import annotations

from gradline.project import Module
from gradline.text import Source
from gradline.words import meanings, words


def found(text: str) -> list[tuple[str, str]]:
    module = Module("/a.py", False, Source(text, "/a.py"), True)
    for word in words(module):
        assert text[word.start : word.end] == word.name
    return [(word.name, word.kind) for word in words(module)]


def test_words_of_tensors_and_of_torch() -> None:
    text = "import torch\nwith torch.no_grad():\n    x = loss.item()\n\n\nclass A:\n    def f(self):\n        self.y.detach().backward()\n"
    assert found(text) == [("no_grad", "switch"), ("item", "cut"), ("detach", "cut"), ("backward", "flow")]


def test_names_that_were_imported() -> None:
    assert found("from torch import no_grad as ng, inference_mode\n@inference_mode()\ndef f(): ...\n") == [
        ("inference_mode", "switch")
    ]
    assert found("import torch as t\nt.autograd.set_grad_enabled(False)\n") == [("set_grad_enabled", "switch")]


def test_look_alikes() -> None:
    assert found("import paddle\nx.item()\n") == []
    assert found("import torch, paddle\nwith paddle.no_grad(): ...\n") == []
    assert found("import torch\nimport numpy as np\nnp.data\nno_grad = 1\nprint(no_grad)\n") == []


def test_keywords_of_calls() -> None:
    assert found("import torch\nloss.backward(retain_graph = True)\nf(1, x, retain_graph=not retain_graph)\n") == [
        ("backward", "flow"),
        ("retain_graph", "-"),
        ("retain_graph", "-"),
    ]
    assert found("import torch, jax\njax.grad(f, retain_graph=True)\n") == []
    assert found("import torch, re\nre.compile('')\nf = torch.compile(f)\n") == [("compile", "-")]


def test_half_typed_text_keeps_the_words_around() -> None:
    assert found("import torch\nx = loss.item()\ny = (\nz = loss.detach()\n")[0] == ("item", "cut")


def test_every_word_has_a_short_answer() -> None:
    for name, meaning in meanings().items():
        first = meaning.text.split("\n\n")[0].replace("\n", " ")
        assert name in first and len(first) < 160 and first.endswith("."), name
