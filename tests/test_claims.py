"""Every block of docs/autograd.md, run on the installed torch."""

from __future__ import annotations

import random
import re
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[1] / "docs" / "autograd.md"
BLOCK = re.compile(r"^```python( setup)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
FACT = re.compile(r"^\*\*([A-Z]\d+)\. ", re.MULTILINE)


def blocks() -> tuple[str, list[tuple[str, str]]]:
    """The setup, and `(identifier of the fact, code padded to its line in the page)`."""
    text = PAGE.read_text(encoding="utf-8")
    setup, found = "", []
    for m in BLOCK.finditer(text):
        code = "\n" * text.count("\n", 0, m.start(2)) + m[2]
        if m[1]:
            setup = code
        else:
            found.append((FACT.findall(text, 0, m.start())[-1], code))
    return setup, found


SETUP, BLOCKS = blocks()


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_block(name: str, code: str) -> None:
    torch.manual_seed(0)
    random.seed(0)
    threads = torch.get_num_threads()
    namespace: dict[str, object] = {"__name__": "autograd_page"}
    sys.modules.setdefault("autograd_page", type(sys)("autograd_page"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(SETUP, str(PAGE), "exec"), namespace)
            exec(compile(code, str(PAGE), "exec"), namespace)
    except SystemExit:
        pytest.fail("no exception where one was expected")
    finally:
        namespace.clear()
        torch.set_grad_enabled(True)
        torch.set_num_threads(threads)


def test_every_fact_has_a_block() -> None:
    text = PAGE.read_text(encoding="utf-8")
    facts = FACT.findall(text)
    assert facts == [name for name, _ in BLOCKS] and len(set(facts)) == len(facts)
    for family, most in (("M", 30), ("L", 20), ("R", 4), ("C", 9), ("D", 3)):
        assert [f for f in facts if f[0] == family] == [f"{family}{i}" for i in range(1, most + 1)]
