"""The families of rules: the first digit of a code is the family."""

from __future__ import annotations

from .config import catalog
from .rule import Rule

FAMILIES = {
    "0": ("gradline itself", "What gradline says of its own comments."),
    "1": ("The line is cut", "A tensor on the way from the parameters to the loss has lost its graph."),
    "2": ("Grad mode", "Gradients are switched off where they are needed, or the switch does nothing."),
    "3": ("The backward call", "`backward()` is called on the wrong thing, twice, not at all, or after a change."),
    "4": ("The training step", "Clearing, backward, clipping and steps come in an order in which nothing is learned, or too much."),
    "5": ("Parameters", "What should train is no parameter, is not registered, is not in the optimizer, or is frozen."),
    "6": ("Precision, compiling, several processes", "Autocast, `torch.compile` and `DistributedDataParallel`."),
    "7": ("Custom functions and higher gradients", "`autograd.Function`, `autograd.grad` and checkpoints."),
    "8": ("Losses", "The loss gets something else than it is made for."),
    "9": ("Memory", "Graphs are kept alive that nobody goes backward through."),
}  # fmt: skip


def members(digit: str) -> list[Rule]:
    """The rules of a family, in the order of their codes."""
    return [rule for rule in catalog().values() if rule.code[2] == digit]


def page(word: str) -> str | None:
    """What is to be said of the family that `word` names (`GL1`, `gl1xx`), or of all of them (`GL`), as Markdown; None if
    it names none."""
    code = word.strip().upper().removesuffix("XX")
    if code == "GL":
        return "# Families of rules\n\n" + "\n".join(
            f"- `GL{digit}` {title}: {len(members(digit))} rules. {sentence}"
            for digit, (title, sentence) in FAMILIES.items()
        )
    if len(code) != 3 or not code.startswith("GL") or code[2] not in FAMILIES:
        return None
    title, sentence = FAMILIES[code[2]]
    rows = [f"- `{rule.code}` {rule.name} ({rule.severity.value}): {rule.summary}" for rule in members(code[2])]
    first = members(code[2])[0].code
    more = f"`gradline explain {first}` explains one of them; `--select {code}` checks for these alone."
    return "\n".join([f"# {title} ({code})", "", sentence, "", *rows, "", more])
