"""Graphs of earlier steps that are still alive: a running total, or a list of losses, holds them."""

from __future__ import annotations

import collections
import gc
from typing import Any

from . import ops, sources
from .places import Place
from .run import Run


def kept_losses(run: Run) -> Place | None:
    """The line that puts losses into a list with their graphs: an earlier step's loss is alive, and a list holds it."""
    if not run.loss_nodes:
        return None
    steps = dict(run.loss_nodes)
    last = run.loss_nodes[-1][1]
    living = (ref() for ref, _ in list(run.born.values()))
    earlier = [t for t in living if t is not None and t.grad_fn is not None and steps.get(t.grad_fn, last) < last]
    lines = [r["at"] for r in run.backwards if r.get("ok") and r["at"] and r["step"] < last]
    if not earlier or not lines:
        return None
    first = lines[0]
    place = sources.appended(Place(first["file"], first["line"], first["function"]))
    if place is None:
        return None
    ids = {id(tensor) for tensor in earlier}
    for holder in gc.get_referrers(*earlier):
        mine = holder is earlier or not isinstance(holder, (list, collections.deque))
        if not mine and any(id(item) in ids for item in holder):
            return place
    return None


def kept_graphs(run: Run) -> list[tuple[Any | None, int]]:
    """Live scalars whose graph goes back through the losses of several steps: a running total that keeps them."""
    if not run.loss_nodes:
        return []
    steps = dict(run.loss_nodes)
    found: list[tuple[Any | None, int]] = []
    candidates = [*run.scalars, *list(run.born.values())]
    for ref, place in candidates:
        tensor = ref()
        if tensor is None or not tensor.requires_grad or tensor.numel() != 1 or tensor.grad_fn in steps:
            continue  # gone, dead, or a loss itself
        reached: set[int] = set()
        seen: set = set()
        todo = [tensor.grad_fn]
        while todo and len(seen) < 256:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in steps:
                reached.add(steps[node])
                continue
            if any(word in type(node).__name__ for word in ops.ADD_NODES):
                todo.extend(after for after, _ in node.next_functions)
        last = run.loss_nodes[-1][1]
        if len(reached) > 1 or (reached and min(reached) < last and place is not None and sources.accumulates(place)):
            found.append((place, len(reached)))
    return found
