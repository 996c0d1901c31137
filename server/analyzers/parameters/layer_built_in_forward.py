"""A layer, a parameter or a dropout is made in `forward`: it is new at every call, and nobody trains or switches it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Class, External, Leaf, Object, Tensor
from ...findings import Finding, Place, Severity
from ...flow import events
from ...flow.modules import leaves_of, library_class
from ...flow.objects import is_module
from ...rule import Rule
from ._held import held, registrations

if TYPE_CHECKING:
    from ...flow import Flow

DROPOUTS = frozenset(
    f"torch.nn.{name}"
    for name in "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout RReLU".split()
)


def check(flow: Flow) -> Iterable[Finding]:
    yield from _layers(flow)
    yield from _parameters(flow)


def _layers(flow: Flow) -> Iterable[Finding]:
    made = [e for e in flow.of(events.Made) if e.in_forward is not None and e.in_forward is not e.obj and is_module(e.obj)]
    if not made:
        return
    modules, _ = registrations(flow)
    optimized = held(flow)
    assert flow.run is not None
    calls: dict[tuple[Place, int], int] = {}
    for event in made:
        key = event.place, id(event.in_forward)
        calls[key] = calls.get(key, 0) + 1
    inside = {id(m) for e in made for m in _below(e.obj)}
    for event in made:
        obj = event.obj
        if id(obj) in inside or obj.cells.get("escaped") or not event.certain:
            continue
        leaves = leaves_of(flow.run, obj)[0]
        kept = id(obj) in modules
        if kept and calls[event.place, id(event.in_forward)] < 2:
            continue  # made once and kept: a lazy layer
        if any(leaf in optimized or leaf.cells.get("requires_grad") is not True for leaf in leaves):
            continue
        name = obj.label or "a module"
        if leaves:
            yield Finding(
                "", "", RULE.severity, event.place,
                f"this {name} is made in `forward`: it is new and untrained at every call, and no optimizer holds it",
            )  # fmt: skip
        elif library_class(obj) in DROPOUTS and isinstance(obj.cls, External) and event.training is not True:
            yield Finding(
                "", "", RULE.severity, event.place,
                f"this {name} is made in `forward`, always in training mode: `eval()` does not reach it",
            )  # fmt: skip


def _below(obj: Object) -> list[Object]:
    """The modules that a module holds: they are told of with it."""
    found = [v for v in obj.attrs.values() if isinstance(v, Object)] if isinstance(obj.cls, Class) else []
    items = obj.cells.get("items")
    return found + [v for v in items if isinstance(v, Object)] if isinstance(items, tuple) else found


def _parameters(flow: Flow) -> Iterable[Finding]:
    made = [e for e in flow.called("parameter-in-forward") if e.certain and isinstance(e.result, Tensor)]
    if not made:
        return
    _, parameters = registrations(flow)
    optimized = held(flow)
    calls: dict[tuple[Place, int], int] = {}
    for event in made:
        key = event.place, id(event.in_forward)
        calls[key] = calls.get(key, 0) + 1
    for event in made:
        assert isinstance(event.result, Tensor)
        leaf = event.result.leaf
        if not isinstance(leaf, Leaf) or leaf in optimized or leaf.cells.get("requires_grad") is not True:
            continue
        if leaf.cells.get("escaped") or (leaf in parameters and calls[event.place, id(event.in_forward)] < 2):
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            "this Parameter is made in `forward`: it is new at every call, and no optimizer holds it",
        )  # fmt: skip


RULE = Rule(code="GL503", severity=Severity.WARNING, check=check)
